"""The op modules of the Keras backend: complete, differentiable, the same on both engines, and NumPy's numbers."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path

import numpy as np
import pytest

import gradtape as tf
from gradtape.testing import check_gradients

pytest.importorskip("gradtape.keras", exc_type=ImportError)

import keras

from gradtape._src.keras_backend import image, linalg, math, nn, numpy as knp

FOLDER = Path(keras.__path__[0])
MODULES = {"numpy": knp, "nn": nn, "math": math, "linalg": linalg, "image": image}
ELSEWHERE = {"wrap_flash_attention"}  # a Pallas kernel for TPUs, which JAX's module has beside its ops


def numbers(*shape, seed=0, low=-1.0, high=1.0):
    return np.random.default_rng(seed).uniform(low, high, shape)


# -- complete --------------------------------------------------------------------------------------------------------
def functions_of(backend, module):
    """The public functions that one of Keras's backends defines."""
    source = FOLDER / "src" / "backend" / backend / f"{module}.py"
    tree = ast.parse(source.read_text("utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")}


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("backend", ["numpy", "jax", "tensorflow", "torch"])
def test_every_function_of_other_backends_is_here(backend, module):
    wanted = functions_of(backend, module) - ELSEWHERE
    assert len(wanted) > 10
    missing = sorted(name for name in wanted if not callable(getattr(MODULES[module], name, None)))
    assert not missing


# -- differentiable, and the same when compiled ----------------------------------------------------------------------
ROWS, SQUARE, IMAGES = numbers(4, 3), numbers(3, 3, seed=1), numbers(2, 5, 4, 3, seed=2, low=0.1)
POSITIVE = numbers(4, 3, low=0.2, high=2.0)
IDS = np.array([0, 2, 0, 2], np.int32)
TURN = np.array([0.9, -0.2, 0.31, 0.15, 1.1, -0.43, 0.0, 0.0])
CORNERS = np.array([[0.0, 0.0], [3.0, 0.2], [0.1, 4.0], [3.1, 4.2]])

CASES = {
    # numpy
    "add": (knp.add, ROWS, SQUARE[0]),
    "average": (lambda x, w: knp.average(x, 0, w), ROWS, POSITIVE[:, 0]),
    "cbrt": (knp.cbrt, POSITIVE),
    "clip": (lambda x: knp.clip(x, -0.5, 0.5), ROWS),
    "corrcoef": (knp.corrcoef, SQUARE),
    "correlate": (lambda x, y: knp.correlate(x, y, "same"), ROWS[:, 0], SQUARE[0]),
    "cross": (knp.cross, ROWS, SQUARE[0]),
    "cumprod": (lambda x: knp.cumprod(x, 0), POSITIVE),
    "diag": (lambda x: knp.diag(x, 1), ROWS[0]),
    "diagonal": (lambda x: knp.diagonal(x, -1), SQUARE),
    "diff": (lambda x: knp.diff(x, 2, 0), ROWS),
    "dot": (knp.dot, ROWS, SQUARE),
    "einsum": (lambda x, y: knp.einsum("ij,kj->ik", x, y), ROWS, SQUARE),
    "exp2": (knp.exp2, ROWS),
    "fmax": (knp.fmax, ROWS, SQUARE[0]),
    "fmod": (knp.fmod, 3 * ROWS, 1 + POSITIVE[0]),
    "geomspace": (lambda a, b: knp.geomspace(a, b, 5, dtype="float64"), POSITIVE[0], 1 + POSITIVE[1]),
    "heaviside": (lambda x: knp.heaviside(np.zeros(3), x), ROWS[0]),
    "hypot": (knp.hypot, ROWS, SQUARE[0]),
    "kron": (knp.kron, SQUARE[:2], ROWS[:2]),
    "ldexp": (lambda x: knp.ldexp(x, np.array([1, -2, 3])), ROWS),
    "linspace": (lambda a, b: knp.linspace(a, b, 5, axis=1), ROWS[0], ROWS[1]),
    "logaddexp": (knp.logaddexp, ROWS, SQUARE[0]),
    "logspace": (lambda a, b: knp.logspace(a, b, 4), ROWS[0], ROWS[1]),
    "matmul": (knp.matmul, ROWS, SQUARE[0]),
    "median": (lambda x: knp.median(x, 0), ROWS),
    "nanmean": (lambda x: knp.nanmean(knp.where(x > 0.5, np.nan, x), 0), ROWS),
    "nanquantile": (lambda x: knp.nanquantile(knp.where(x > 0.5, np.nan, x), [0.2, 0.7], 0), ROWS),
    "outer": (knp.outer, ROWS, SQUARE[0]),
    "pad_reflect": (lambda x: knp.pad(x, ((1, 2), (0, 1)), "reflect"), ROWS),
    "pad_statistic": (lambda x: knp.pad(x, 1, "mean"), ROWS),
    "percentile": (lambda x: knp.percentile(x, 30.0, 1), ROWS),
    "prod": (lambda x: knp.prod(x, 1), ROWS),
    "quantile": (lambda x: knp.quantile(x, [0.1, 0.6], 0), ROWS),
    "repeat": (lambda x: knp.repeat(x, [1, 0, 2], 1), ROWS),
    "rot90": (lambda x: knp.rot90(x, 3), ROWS),
    "select": (lambda x: knp.select([x > 0.5, x > 0], [x * x, 2 * x], 0.0), ROWS),
    "sinc": (knp.sinc, ROWS),
    "sort": (lambda x: knp.sort(x, 0), ROWS),
    "std": (lambda x: knp.std(x, 0), ROWS),
    "take": (lambda x: knp.take(x, np.array([[0, -1], [1, 1]]), 0), ROWS),
    "take_along_axis": (lambda x: knp.take_along_axis(x, np.array([[0], [2], [-1], [1]]), 1), ROWS),
    "tile": (lambda x: knp.tile(x, (2, 1, 2)), ROWS),
    "trapezoid": (lambda y, x: knp.trapezoid(y, x), ROWS, SQUARE[0]),
    "tril": (knp.tril, SQUARE),
    "vander": (knp.vander, ROWS[0]),
    "where": (lambda x, y: knp.where(x > 0, x, y), ROWS, SQUARE[0]),
    # math
    "cdist": (math.cdist, ROWS, SQUARE),
    "segment_max": (lambda x: math.segment_max(x, IDS, 3)[0], ROWS),
    "segment_prod": (lambda x: math.segment_prod(x, IDS, 3), ROWS),
    "segment_sum": (lambda x: math.segment_sum(x, IDS, 3), ROWS),
    "stft": (lambda x: math.stft(x, 4, 2, 8), numbers(2, 24)),
    "istft": (lambda x, y: math.istft((x, y), 4, 2, 8), numbers(6, 5), numbers(6, 5, seed=3)),
    "top_k": (lambda x: math.top_k(x, 2)[0], ROWS),
    # linalg
    "cholesky_inverse": (lambda x: linalg.cholesky_inverse(knp.tril(x) + 2 * np.eye(3)), SQUARE),
    "lstsq": (linalg.lstsq, ROWS, POSITIVE),
    "pinv_cut": (lambda x: linalg.pinv(x, 0.5), ROWS),
    "lu_factor": (lambda x: linalg.lu_factor(x)[0], ROWS),
    "norm_nuclear": (lambda x: linalg.norm(x, "nuc"), ROWS),
    "norm_3": (lambda x: linalg.norm(x, 3, 1), ROWS),
    "solve": (lambda a, b: linalg.solve(a + 2 * np.eye(3), b), SQUARE, ROWS[0]),
    # nn
    "adaptive_average_pool": (lambda x: nn.adaptive_average_pool(x, (3, 2), "channels_last"), IMAGES),
    "adaptive_max_pool": (lambda x: nn.adaptive_max_pool(x, (3, 2), "channels_last"), IMAGES),
    "batch_normalization": (
        lambda x, m, v: nn.batch_normalization(x, m, v, -1, scale=np.ones(3), offset=np.ones(3)),
        ROWS,
        SQUARE[0],
        POSITIVE[0],
    ),
    "binary_crossentropy": (lambda t, x: nn.binary_crossentropy(t, x, True), POSITIVE / 2, ROWS),
    "categorical_crossentropy": (lambda t, x: nn.categorical_crossentropy(t, x), POSITIVE, POSITIVE + 0.3),
    "conv_transpose": (
        lambda x, k: nn.conv_transpose(x, k, 2, "same", data_format="channels_last"),
        IMAGES[:1],
        numbers(3, 2, 2, 3),
    ),
    "ctc_loss": (
        lambda x: nn.ctc_loss(np.array([[1, 2, 0], [2, 2, 1]]), x, [2, 3], [6, 5]),
        numbers(2, 6, 4),
    ),
    "depthwise_conv": (
        lambda x, k: nn.depthwise_conv(x, k, 2, "same", "channels_first"),
        numbers(1, 2, 5, 4),
        numbers(3, 2, 2, 2),
    ),
    "dot_product_attention": (
        lambda q, k, v: nn.dot_product_attention(q, k, v, is_causal=True),
        numbers(1, 3, 2, 4),
        numbers(1, 3, 1, 4, seed=1),
        numbers(1, 3, 1, 4, seed=2),
    ),
    "fold": (lambda x: nn.fold(x, (4, 5), 2, 1, 1, 2), numbers(1, 8, 9)),
    "moments": (lambda x: nn.moments(x, [0]), ROWS),
    "sparse_categorical_crossentropy": (
        lambda x: nn.sparse_categorical_crossentropy(np.array([0, 2, 2, 1]), x, True),
        ROWS,
    ),
    "sparsemax": (nn.sparsemax, ROWS),
    "unfold": (lambda x: nn.unfold(x, (2, 3), 1, 1, 2), numbers(1, 2, 5, 4)),
    # image
    "affine_transform": (lambda x, t: image.affine_transform(x, t, fill_mode="mirror"), IMAGES, TURN),
    "elastic_transform": (lambda x: image.elastic_transform(x, 2.0, 0.5, seed=3), IMAGES),
    "gaussian_blur": (image.gaussian_blur, IMAGES),
    "hsv_to_rgb": (image.hsv_to_rgb, IMAGES),
    "map_coordinates": (
        lambda x, c: image.map_coordinates(x, c, 1, "reflect"),
        SQUARE,
        numbers(2, 6, low=-1.8, high=3.8),
    ),
    "perspective_transform": (
        lambda x, s: image.perspective_transform(x, s, CORNERS),
        IMAGES,
        CORNERS + numbers(4, 2, seed=5, low=0.05, high=0.3),
    ),
    "resize_cubic": (lambda x: image.resize(x, (3, 7), "bicubic", antialias=True), IMAGES),
    "rgb_to_hsv": (image.rgb_to_hsv, IMAGES),
    "scale_and_translate": (
        lambda x, s, t: image.scale_and_translate(x, (2, 4, 6, 3), s, t, (1, 2), "lanczos3"),
        IMAGES,
        np.array([0.83, 1.42]),
        np.array([0.11, -0.23]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name):
    function, *args = CASES[name]
    check_gradients(function, *args, order=1, modes=("reverse", "recorded"), rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_compiled(name):
    pytest.importorskip("jax")
    function, *args = CASES[name]
    inputs = [tf.constant(arg) for arg in args]
    eager, compiled = (tf.nest.flatten(f(*inputs)) for f in (function, tf.function(function)))
    for first, second in zip(eager, compiled, strict=True):
        assert second.dtype == first.dtype
        np.testing.assert_allclose(second, first, rtol=1e-5, atol=1e-6)


# -- NumPy's numbers, where Keras' own tests are thin ----------------------------------------------------------------
def test_float64_stays_float64():
    """Keras halves 64 bits on every backend but TensorFlow's."""
    x = tf.constant(ROWS)
    assert knp.add(x, 1).dtype == knp.where(x > 0, x, 0).dtype == knp.matmul(x, x.numpy().T).dtype == tf.float64
    assert knp.add(tf.constant([1], "int64"), 1).dtype == tf.int64
    assert knp.add(tf.constant([1.0]), np.float32(1)).dtype == tf.float32


def test_the_default_dtype_may_change(monkeypatch):
    whole = tf.constant([1, 2])
    assert knp.divide(whole, 2).dtype == tf.float32
    monkeypatch.setattr("keras.src.backend.config._FLOATX", "float16")
    assert knp.divide(whole, 2).dtype == knp.sqrt(whole).dtype == knp.ones(2).dtype == tf.float16


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("size", [1, 2, 7, 8])
def test_searchsorted(side, size):
    sequence = np.sort(np.random.default_rng(size).integers(0, 5, size)).astype(np.float32)
    values = np.arange(-1, 7, dtype=np.float32).reshape(2, 4)
    found = knp.searchsorted(sequence, values, side)
    assert found.numpy().tolist() == np.searchsorted(sequence, values, side).tolist()


@pytest.mark.parametrize("bins", [[0.0, 1.0, 2.5], [2.5, 1.0, 0.0], [1.0], []])
def test_digitize(bins):
    x = np.array([-1.0, 0.0, 0.5, 1.0, 2.5, 9.0], np.float32)
    bins = np.array(bins, np.float32)
    assert knp.digitize(x, bins).numpy().tolist() == np.digitize(x, bins).tolist()


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint", "nearest"])
@pytest.mark.parametrize("past_nan", [False, True])
def test_quantiles(method, past_nan):
    x = numbers(3, 4, 5).astype(np.float32)
    x[0, 1, 2] = x[2, 0, 0] = np.nan
    x[1, 1] = np.nan
    q = np.array([[0.0, 0.21], [0.5, 1.0]], np.float32)
    ours, theirs = (knp.nanquantile, np.nanquantile) if past_nan else (knp.quantile, np.quantile)
    axis = 2 if past_nan else (2, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of rows that are all NaN
        expected = theirs(x, q, axis=axis, method=method)
    np.testing.assert_allclose(ours(x, q, axis=axis, method=method), expected, rtol=1e-5)


def test_greatest_common_divisors():
    a, b = np.meshgrid(np.arange(-6, 7), np.arange(0, 13))
    assert knp.gcd(a, b).numpy().tolist() == np.gcd(a, b).tolist()
    assert knp.lcm(a, b).numpy().tolist() == np.lcm(a, b).tolist()


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap", "maximum", "mean", "median", "linear_ramp"])
def test_pad(mode):
    x = numbers(3, 4).astype(np.float32)
    np.testing.assert_allclose(
        knp.pad(x, ((4, 1), (0, 5)), mode), np.pad(x, ((4, 1), (0, 5)), mode), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 3)])
def test_lu_factor(shape):
    x = numbers(*shape)
    packed, pivots = (np.asarray(part) for part in linalg.lu_factor(x))
    for matrix, lu, exchanged in zip(
        x.reshape(-1, *shape[-2:]), packed.reshape(-1, *shape[-2:]), pivots.reshape(-1, min(shape[-2:])), strict=True
    ):
        k = min(lu.shape)
        product = (np.tril(lu[:, :k], -1) + np.eye(len(lu), k)) @ np.triu(lu[:k])
        for i, row in reversed(list(enumerate(exchanged))):
            product[[i, row]] = product[[row, i]]
        np.testing.assert_allclose(product, matrix, atol=1e-12)


def test_segments_leave_out_negative_ids():
    x, ids = np.array([2.0, 3.0, 5.0, 7.0, 11.0]), np.array([1, -1, 1, -4, 0])
    assert math.segment_sum(x, ids, 3).numpy().tolist() == [11.0, 7.0, 0.0]
    assert math.segment_prod(x, ids, 3).numpy().tolist() == [11.0, 10.0, 1.0]
    assert math.segment_max(x, ids, 3).numpy().tolist() == [11.0, 5.0, -np.inf]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"segment_ids\[3\] = 4 is out of range \[0, 3\)"):
        math.segment_sum(x, -ids, 3)


def test_beam_search_finds_the_most_probable_sequence():
    """Every alignment of three steps, added up by the sequence it stands for."""
    from itertools import groupby, product

    logits = numbers(1, 3, 3, low=-2, high=2)
    logs = np.log(np.exp(logits) / np.exp(logits).sum(-1, keepdims=True))[0]
    sums = {}
    for alignment in product(range(3), repeat=3):
        labels = tuple(label for label, _ in groupby(alignment) if label != 0)
        sums[labels] = sums.get(labels, 0.0) + np.exp(sum(logs[t, c] for t, c in enumerate(alignment)))
    best = sorted(sums, key=lambda labels: -sums[labels])[:4]
    paths, scores = nn.ctc_decode(logits, [3], strategy="beam_search", top_paths=4)
    found = [tuple(int(label) for label in path[0] if label >= 0) for path in paths.numpy()]
    assert found == best
    np.testing.assert_allclose(scores[0], [np.log(sums[labels]) for labels in best], rtol=1e-6)


def test_jvp():
    value, change = linalg.jvp(lambda x: knp.sum(x * x), [tf.constant([1.0, 2.0])], [tf.constant([1.0, 0.5])])
    assert float(value) == 5.0
    assert float(change) == 4.0
