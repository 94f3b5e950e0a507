"""Everything inside `tf.function`: compiled code gives the values and the derivatives of eager code."""

from __future__ import annotations

import collections
import doctest
import gc
import importlib
import inspect
import os
import re
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
from conformance import runner
from op_table import ROWS, Row, Sample

import gradtape as tf
from gradtape._src.arrays import numpy_namespace
from gradtape._src.graph.program import Program


@pytest.fixture(autouse=True, scope="module")
def _compile_fast():
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


def assert_same(compiled: Any, eager: Any, rtol: float = 1e-9, atol: float = 1e-10) -> None:
    """Equal structures, dtypes, shapes and, but for the last digits, numbers."""
    tf.nest.assert_same_structure(compiled, eager, expand_composites=True)
    ours, theirs = (tf.nest.flatten(value, expand_composites=True) for value in (compiled, eager))
    for a, b in zip(ours, theirs, strict=True):
        if a is None or b is None:
            assert a is b
            continue
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        a, b = a.numpy(), b.numpy()
        if b.dtype.kind in "fc":
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
        else:
            np.testing.assert_array_equal(a, b)


# -- the op table ----------------------------------------------------------------------------------------------------
NOT_COMPILED: dict[str, str] = {
    "unique": "the number of distinct values is the shape of the result",
    "unique_with_counts": "the number of distinct values is the shape of the result",
}
"""Primitive -> why it cannot be part of a compiled function."""


LONG_TO_COMPILE = {
    *("betainc", "ctc", "digamma", "eig", "expm", "gamma_sample", "igamma", "igamma_a", "igammac", "lgamma", "logm"),
    *("polygamma", "sqrtm", "tridiagonal_solve", "zeta"),
    *(("math_grads", name) for name in ("bessel", "igamma", "lbeta_betainc", "lgamma_digamma")),
    *(("linalg_grads", name) for name in ("expm", "pinv_and_sqrtm")),
    *("math.betainc", "math.igamma", "math.igammac", "math.polygamma", "math.zeta", "matrix_square_root"),
}
"""Primitives, programs and functions for which XLA takes many seconds.

What is traced is right if NumPy's kernels give the same; that XLA's do is the business of test_engines_compiled.
"""


def run_by_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let programs run without being compiled, node by node."""

    def run(self: Program, *arrays: Any, mode: str = "") -> tuple[Any, ...]:
        results = self.replay(*map(np.asarray, arrays), xp=numpy_namespace)
        return (*results, np.int32(0)) if mode else results

    monkeypatch.setattr(Program, "__call__", run)


def weighted(tensors: list[Any]) -> Any:
    """A number that every element of every tensor has a weight of its own in."""
    total = tf.zeros((), tf.float64)
    for k, y in enumerate(tensors):
        if y is None or not (y.dtype.is_floating or y.dtype.is_complex):
            continue
        weights = np.cos(np.arange(y.shape.num_elements()) + k).reshape(y.shape.as_list())
        total += tf.reduce_sum(tf.cast(tf.math.real(y), tf.float64) * weights)
        if y.dtype.is_complex:
            total += tf.reduce_sum(tf.cast(tf.math.imag(y), tf.float64) * (weights + 0.5))
    return total


def one_sample(row: Row) -> list[Sample]:
    """A sample with numbers in it and, where there are any, one of complex numbers: compiling takes the time."""
    real = next((s for s in row.samples if all(a.size for a in s.args)), row.samples[0])
    return [real, *row.complex_samples[:1]]


def derivatives(row: Row, samples: list[Sample], wrapped: Any) -> Any:
    """Values; first derivatives by a tape inside, and by one outside; second derivatives by both."""
    differentiable = row.differentiable and row.error is None

    @wrapped
    def function(operands: list[list[Any]]) -> Any:
        with tf.GradientTape() as inside:
            watched = floating(row, operands) if differentiable else []
            inside.watch(watched)
            ys = [row.call(*xs, **sample.attrs) for sample, xs in zip(samples, operands, strict=True)]
            total = weighted(tf.nest.flatten(ys))
        return ys, inside.gradient(total, watched, unconnected_gradients="zero") if watched else []

    operands = [[tf.constant(a) for a in sample.args] for sample in samples]
    watched = floating(row, operands) if differentiable else []
    with tf.GradientTape(persistent=True) as outside:
        outside.watch(watched)
        ys, gradients = function(operands)
        total, second = weighted(tf.nest.flatten(ys)), weighted(gradients)
    results = [tf.nest.flatten(ys), gradients]
    if watched:
        results.append(outside.gradient(total, watched, unconnected_gradients="zero"))
    if watched and row.order >= 2:
        results.append(outside.gradient(second, watched, unconnected_gradients="zero"))
    return results


def floating(row: Row, operands: list[list[Any]]) -> list[Any]:
    return [
        t
        for xs in operands
        for i, t in enumerate(xs)
        if i not in row.constants and (t.dtype.is_floating or t.dtype.is_complex)
    ]


COSTLY = {"ctc", "eig", "expm", "gamma_sample", "igamma", "igamma_a", "igammac", "logm", "sqrtm", "tridiagonal_solve"}
"""Primitives that take XLA long to compile."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in COSTLY)) for name in sorted(set(ROWS) - set(NOT_COMPILED))],
)
def test_primitive(name: str, monkeypatch):
    row = ROWS[name]
    if name in LONG_TO_COMPILE:
        run_by_numpy(monkeypatch)
    samples = one_sample(row)
    assert_same(derivatives(row, samples, tf.function(autograph=False)), derivatives(row, samples, lambda f: f))


@pytest.mark.parametrize("name", sorted(NOT_COMPILED))
def test_what_is_not_compiled_says_so(name: str):
    row = ROWS[name]
    function = tf.function(lambda *xs: row.call(*xs, **row.samples[0].attrs), jit_compile=True)
    with pytest.raises(ValueError, match=r"depends on values.*compiled program has fixed shapes"):
        function(*map(tf.constant, row.samples[0].args))


# -- the programs that TensorFlow has run ----------------------------------------------------------------------------
HELPERS = {
    "math_grads": ("un", "bi", "red"),
    "array_grads": ("g", "gm"),
    "linalg_grads": ("g",),
    "nn_grads": ("g",),
    "misc": ("_grad",),
}
"""Area -> the functions of its module that call a function f under a tape and give values and gradients."""

NOT_THE_SAME: dict[tuple[str, str], tuple[str, str]] = {}
"""Area and program -> why it is not the same with its functions compiled, and what is said."""


@pytest.mark.parametrize(("area", "name"), [(area, name) for area in HELPERS for name in runner.load_cases(area)])
def test_program(area: str, name: str, monkeypatch):
    """The programs of the conformance suite, with every function that they differentiate compiled."""
    if (area, name) in LONG_TO_COMPILE:
        run_by_numpy(monkeypatch)
    module = importlib.import_module(f"conformance.cases.{area}")
    for helper in HELPERS[area]:
        original = getattr(module, helper)
        at = list(inspect.signature(original).parameters).index("f")

        def compiled(*args: Any, original: Any = original, at: int = at, **kwargs: Any) -> Any:
            return original(*args[:at], tf.function(args[at], autograph=False), *args[at + 1 :], **kwargs)

        monkeypatch.setattr(module, helper, compiled)
    with np.errstate(all="ignore"):
        try:
            difference = runner.diff(runner.load_golden(area)[name], runner.run(runner.load_cases(area)[name], tf))
        except ValueError as error:
            difference = str(error)
    if (area, name) in NOT_THE_SAME:
        assert difference is not None
        assert re.search(NOT_THE_SAME[area, name][1], difference)
    else:
        assert difference is None, difference


# -- the public functions, by the examples in their docstrings -------------------------------------------------------
SPACES = ("", "math", "linalg", "nn", "image", "signal", "bitwise", "quantization", "sparse", "debugging")
DEPENDS_ON_VALUES = "depends on values"
NOT_KNOWN = "must be known while"
NOT_SAID = "is not known before it is called"
REFUSED: dict[str, str] = {
    "unique": DEPENDS_ON_VALUES,
    "unique_with_counts": DEPENDS_ON_VALUES,
    "math.bincount": DEPENDS_ON_VALUES,
    "nn.collapse_repeated": DEPENDS_ON_VALUES,
    "nn.compute_accidental_hits": DEPENDS_ON_VALUES,
    "nn.ctc_beam_search_decoder": NOT_SAID,
    "nn.ctc_greedy_decoder": NOT_SAID,
    "nn.ctc_unique_labels": NOT_SAID,
    "image.non_max_suppression": DEPENDS_ON_VALUES,
    "range": DEPENDS_ON_VALUES,
    "fill": NOT_KNOWN,
    "py_function": NOT_SAID,
    "numpy_function": NOT_SAID,
    "signal.linear_to_mel_weight_matrix": NOT_KNOWN,
    "required_space_to_batch_paddings": NOT_KNOWN,
    "sparse.bincount": DEPENDS_ON_VALUES,
    "sparse.concat": DEPENDS_ON_VALUES,
    "sparse.eye": DEPENDS_ON_VALUES,
    "sparse.from_dense": DEPENDS_ON_VALUES,
    "image.non_max_suppression_overlaps": DEPENDS_ON_VALUES,
    "image.non_max_suppression_with_scores": DEPENDS_ON_VALUES,
    "image.central_crop": NOT_KNOWN,
    "broadcast_dynamic_shape": NOT_KNOWN,
    "eye": NOT_KNOWN,
    "ones": NOT_KNOWN,
    "zeros": NOT_KNOWN,
    "nn.depthwise_conv2d_backprop_input": NOT_KNOWN,
    **{f"signal.{name}_window": NOT_KNOWN for name in ("hamming", "hann", "kaiser", "kaiser_bessel_derived", "vorbis")},
}
"""Function -> what it says when the arguments of its example are not known."""

DRAWS_NUMBERS = (
    "image.random_brightness", "image.random_contrast", "image.random_crop", "image.random_flip_left_right",
    "image.random_flip_up_down", "image.random_hue", "image.random_jpeg_quality", "image.random_saturation",
    "nn.nce_loss", "nn.sampled_softmax_loss",
)  # fmt: skip
OTHERWISE: dict[str, str] = {
    "function": "compiles by itself",
    "init_scope": "is about the function around it",
    "gradients": "is about the function around it",
    "hessians": "is about the function around it",
    "is_symbolic_tensor": "asks just that",
    **dict.fromkeys(DRAWS_NUMBERS, "draws numbers: see test_random"),
    "debugging.assert_same_float_dtype": "gives a dtype",
    "debugging.set_log_device_placement": "takes Python values",
    "image.encode_jpeg": "gives words, which are not compiled",
    "image.encode_png": "gives words, which are not compiled",
    "no_gradient": "registers something, once",
    "install_as_tensorflow": "has nothing to trace",
    "case": "its example gives words, which are not compiled",
    "switch_case": "its example gives words, which are not compiled",
    "get_static_value": "gives no tensor",
    "as_string": "gives words, which are not compiled",
    "fingerprint": "takes words, which are not compiled",
    "make_tensor_proto": "gives no tensor",
    "nn.embedding_lookup_sparse": "its examples have several tables, or ragged ids: see test_embeddings",
    "nn.safe_embedding_lookup_sparse": "its examples have several tables, or ragged ids: see test_embeddings",
    "sparse.map_values": "takes a function",
    "quantization.fake_quant_with_min_max_args": "its example lies on the edge between two levels",
}
"""Function -> why its example says nothing here."""


def _public(spaces: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for space in spaces:
        module = getattr(tf, space) if space else tf
        for name in dir(module):
            value = getattr(module, name)
            is_function = not name.startswith("_") and callable(value) and not inspect.isclass(value)
            if is_function and not any(value is other for other in found.values()):
                found[f"{space}.{name}".lstrip(".")] = value
    return {name: value for name, value in found.items() if doctest.DocTestParser().get_examples(value.__doc__ or "")}


PUBLIC = _public(SPACES)
ON_NUMPY = {name: PUBLIC[name] for name in REFUSED} | _public(("io", "strings", "sets", "ragged"))
"""Functions that XLA has no place for: they are nodes of programs that run on NumPy."""


def _is_numbers(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and all(map(_is_numbers, value))
    return isinstance(value, (bool, int, float, complex))


def _traceable(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments with tensors instead of arrays, and instead of a first argument that is a list of numbers."""

    def tensor(i: int, value: Any) -> Any:
        if isinstance(value, np.ndarray) or (_is_numbers(value) and (isinstance(value, float) or i == 0)):
            return tf.constant(value)
        return value

    return tuple(tensor(i, value) for i, value in enumerate(args))


class _Recording:
    """A public function that compares every call with a compiled one."""

    def __init__(self, function: Any, jit_compile: bool | None) -> None:
        self.function, self.jit_compile, self.calls = function, jit_compile, 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        plain = self.function(*args, **kwargs)
        try:
            given = _traceable(args)
            eager = self.function(*given, **kwargs)
        except (ValueError, TypeError, tf.errors.OpError):  # a list of tensors, where one tensor is not the same
            given, eager = args, plain
        tensors = [leaf for leaf in tf.nest.flatten((given, kwargs)) if isinstance(leaf, tf.Tensor)]
        if tensors and not (self.jit_compile and any(t.dtype == tf.string for t in tensors)):
            self.calls += 1
            run = tf.function(lambda a, k: self.function(*a, **k), autograph=False, jit_compile=self.jit_compile)
            compiled = run(given, kwargs)
            if eager is not None:
                assert_same_results(tf.nest.flatten(compiled, True), _as_tensors(eager))
        return plain


def _as_tensors(value: Any) -> list[Any]:
    return [leaf if leaf is None else tf.convert_to_tensor(leaf) for leaf in tf.nest.flatten(value, True)]


def assert_same_results(found: list[Any], expected: list[Any]) -> None:
    texts = [i for i, t in enumerate(expected) if t is not None and t.dtype == tf.string]
    for i in texts:
        np.testing.assert_array_equal(found[i].numpy(), expected[i].numpy())
    numbers = [i for i in range(len(expected)) if i not in texts]
    assert_same([found[i] for i in numbers], [expected[i] for i in numbers], rtol=1e-5, atol=1e-6)


def _run_examples(function: Any, jit_compile: bool | None = True) -> int:
    """Run the examples of a docstring with the function exchanged; how often it was called with tensors."""
    recording = _Recording(function, jit_compile)

    class Space:
        """A namespace of the library in which one function is exchanged."""

        def __init__(self, module: Any) -> None:
            self.__dict__["module"] = module

        def __getattr__(self, name: str) -> Any:
            value = getattr(self.__dict__["module"], name)
            if value is function:
                return recording
            return Space(value) if inspect.ismodule(value) or isinstance(value, SimpleNamespace) else value

    names = dict(vars(inspect.getmodule(function) or tf)) | {"tf": Space(tf), "np": np}
    names[getattr(function, "__name__", "")] = recording
    for example in doctest.DocTestParser().get_examples(function.__doc__):
        if "import gradtape" not in example.source and example.exc_msg is None:
            exec(compile(example.source, "<example>", "exec"), names)
    return recording.calls


@pytest.mark.parametrize("name", sorted(set(PUBLIC) - set(OTHERWISE)))
def test_public_function(name: str, monkeypatch):
    if name in LONG_TO_COMPILE:
        run_by_numpy(monkeypatch)
    if name in REFUSED:
        with pytest.raises((ValueError, TypeError), match=REFUSED[name]):
            _run_examples(PUBLIC[name])
    else:
        _run_examples(PUBLIC[name])


@pytest.mark.parametrize("name", sorted(set(ON_NUMPY) - {"py_function", "numpy_function"}))
def test_public_function_on_numpy(name: str, monkeypatch: Any) -> None:
    run_by_numpy(monkeypatch)
    _run_examples(ON_NUMPY[name], jit_compile=None)


def test_examples_have_something_to_trace():
    """The comparison above must not be without calls."""
    assert _run_examples(tf.math.cumulative_logsumexp) == 1
    assert len(PUBLIC) > 200


# -- functions without an example ------------------------------------------------------------------------------------
SQUARE = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, -0.2], [0.5, -0.2, 2.0]])
WAVE = np.sin(np.arange(64.0))
PICTURE = np.random.default_rng(0).uniform(0.1, 0.9, (1, 12, 12, 3)).astype(np.float32)
FILTER = np.random.default_rng(1).normal(size=(2, 2, 3, 3)).astype(np.float32)
VOLUME = np.random.default_rng(2).normal(size=(1, 3, 3, 3, 2)).astype(np.float32)
TOGETHER: dict[str, tuple[Any, dict[str, Callable[[Any], Any]]]] = {
    "arrays": (
        SQUARE,
        {
            "argmin": lambda x: tf.argmin(x, 1),
            "argsort": lambda x: tf.argsort(x, direction="DESCENDING"),
            "broadcast_to": lambda x: tf.broadcast_to(x, [2, 3, 3]),
            "expand_dims": lambda x: tf.expand_dims(x, 1),
            "ensure_shape": lambda x: tf.ensure_shape(x, [3, None]),
            "divide": lambda x: tf.divide(x, 3.0),
            "identity_n": lambda x: tf.identity_n([x, x]),
            "linspace": lambda x: tf.linspace(x[0], x[1], 4),
            "ones_like": tf.ones_like,
            "zeros_like": tf.zeros_like,
            "parallel_stack": lambda x: tf.parallel_stack([x, x]),
            "rank": tf.rank,
            "size": tf.size,
            "shape": tf.shape,
            "shape_n": lambda x: tf.shape_n([x, x[0]]),
            "reverse": lambda x: tf.reverse(x, [0, 1]),
            "saturate_cast": lambda x: tf.saturate_cast(x * 100, tf.int8),
            "scalar_mul": lambda x: tf.scalar_mul(x[0, 0], x),
            "split": lambda x: tf.split(x, [1, 2], 1),
            "squeeze": lambda x: tf.squeeze(x[None]),
            "stack": lambda x: tf.stack([x, x], 1),
            "unstack": tf.unstack,
            "transpose": tf.transpose,
            "tuple": lambda x: tf.tuple([x, x]),
            "truncatemod": lambda x: tf.truncatemod(x, 0.7),
            "meshgrid": lambda x: tf.meshgrid(x[0], x[1]),
            "pad": lambda x: tf.pad(x, [[1, 0], [2, 1]], constant_values=x[0, 0]),
            "mirror": lambda x: tf.pad(x, [[1, 0], [2, 1]], "REFLECT"),
            "tile": lambda x: tf.tile(x, [1, 2]),
            "where": lambda x: tf.where(x > 0, x, -x),
            "repeat": lambda x: tf.repeat(x, [1, 0, 2], axis=0),
            "unravel": lambda x: tf.unravel_index(tf.cast(x, tf.int32), [5, 2]),
            "reshape": lambda x: tf.reshape(x, tf.shape(x)[::-1]),
            "searchsorted": lambda x: tf.searchsorted(tf.sort(x), x, side="right"),
            "cast": lambda x: tf.cast(x, tf.int32),
            "histogram": lambda x: tf.histogram_fixed_width(x, [x[0, 2], x[0, 0]], 3),
            "range": lambda x: tf.range(3, dtype=tf.float64) * x[0],
            "counts": lambda x: tf.math.bincount(tf.cast(x[0], tf.int32), minlength=6, maxlength=6),
            "weighted_counts": lambda x: tf.math.bincount(tf.cast(x[0], tf.int32), x[1], minlength=6, maxlength=6),
            "confusion": lambda x: tf.math.confusion_matrix(tf.cast(x[0], tf.int32), tf.cast(x[2], tf.int32) + 1, 6),
            "floordiv": lambda x: tf.cast(x * 7, tf.int32) // (tf.cast(x, tf.int32) * 2 + 1),
            "power": lambda x: tf.cast(x, tf.int32) ** 2,
        },
    ),
    "math": (
        SQUARE,
        {
            "reduce_all": lambda x: tf.reduce_all(x > 0, 0),
            "reduce_any": lambda x: tf.reduce_any(x > 3, 0),
            "logsumexp": tf.reduce_logsumexp,
            "max": tf.reduce_max,
            "mean": lambda x: tf.reduce_mean(x, 1, keepdims=True),
            "min": tf.reduce_min,
            "prod": tf.reduce_prod,
            "angle": tf.math.angle,
            "imag": tf.math.imag,
            "real": tf.math.real,
            "approx_max_k": lambda x: tf.math.approx_max_k(x, 2),
            "count_nonzero": lambda x: tf.math.count_nonzero(tf.floor(x), 0),
            "cumprod": tf.math.cumprod,
            "non_decreasing": tf.math.is_non_decreasing,
            "increasing": tf.math.is_strictly_increasing,
            "l2_normalize": tf.math.l2_normalize,
            "log_sigmoid": tf.math.log_sigmoid,
            "log_softmax": tf.math.log_softmax,
            "multiply_no_nan": lambda x: tf.math.multiply_no_nan(x, tf.zeros_like(x)),
            "softmax": tf.math.softmax,
            "polyval": lambda x: tf.math.polyval([x, x, x], x[0]),
            "norm": lambda x: tf.math.reduce_euclidean_norm(x, 1),
            "whole_norm": lambda x: tf.math.reduce_euclidean_norm(tf.cast(x, tf.int32)),
            "std": tf.math.reduce_std,
            "variance": tf.math.reduce_variance,
            "zero_fraction": lambda x: tf.math.zero_fraction(tf.floor(x)),
            "inverse": lambda x: tf.math.invert_permutation(tf.argsort(x[0])),
            "top_k": lambda x: tf.math.top_k(x, 2),
            "in_top_k": lambda x: tf.math.in_top_k(tf.cast(x[0], tf.int32), tf.cast(x, tf.float32), 2),
            "leaky_relu": lambda x: tf.nn.leaky_relu(-x, x[0, 0]),
            "moments": lambda x: tf.nn.moments(x, [0]),
            "clip": lambda x: tf.clip_by_value(x, x[0, 1], 3.0),
            "global": lambda x: tf.clip_by_global_norm([x, x], x[0, 0]),
        },
    ),
    "linalg": (
        SQUARE,
        {
            "adjoint": tf.linalg.adjoint,
            "cholesky_solve": lambda x: tf.linalg.cholesky_solve(tf.linalg.cholesky(x), x),
            "tridiagonal": lambda x: tf.linalg.eigh_tridiagonal(x[0], x[1, 1:]),
            "eigvalsh": tf.linalg.eigvalsh,
            "logdet": tf.linalg.logdet,
            "lstsq": lambda x: tf.linalg.lstsq(x, x, l2_regularizer=x[0, 1]),
            "pinv": tf.linalg.pinv,
            "lu_solve": lambda x: tf.linalg.lu_solve(*tf.linalg.lu(x), x),
            "lu_inverse": lambda x: tf.linalg.lu_matrix_inverse(*tf.linalg.lu(x)),
            "rebuilt": lambda x: tf.linalg.lu_reconstruct(*tf.linalg.lu(x)),
            "matrix_transpose": tf.linalg.matrix_transpose,
            "matvec": lambda x: tf.linalg.matvec(x, x[0]),
            "slogdet": tf.linalg.slogdet,
            "rank": tf.linalg.matrix_rank,
            "tensor_diag": lambda x: tf.linalg.tensor_diag(x[0]),
            "tensor_diag_part": tf.linalg.tensor_diag_part,
            "norm": lambda x: tf.norm(x, axis=1),
            "band": lambda x: tf.linalg.band_part(x, 0, 1),
            "trace": tf.linalg.trace,
            "set_diag": lambda x: tf.linalg.set_diag(x, x[0]),
            "cross": lambda x: tf.linalg.cross(x, x[::-1]),
        },
    ),
    "pictures": (
        PICTURE,
        {
            "brightness": lambda x: tf.image.adjust_brightness(x, x[0, 0, 0, 0]),
            "contrast": lambda x: tf.image.adjust_contrast(x, 2.0),
            "gamma": lambda x: tf.image.adjust_gamma(x, x[0, 0, 0, 0]),
            "hue": lambda x: tf.image.adjust_hue(x, 0.1),
            "saturation": lambda x: tf.image.adjust_saturation(x, 0.5),
            "central_crop": lambda x: tf.image.central_crop(x, 0.5),
            "crop": lambda x: tf.image.crop_to_bounding_box(x, 1, 2, 4, 5),
            "flip": tf.image.flip_up_down,
            "grey": tf.image.rgb_to_grayscale,
            "rgb": lambda x: tf.image.grayscale_to_rgb(x[..., :1]),
            "hsv": tf.image.rgb_to_hsv,
            "from_hsv": tf.image.hsv_to_rgb,
            "gradients": tf.image.image_gradients,
            "sobel": tf.image.sobel_edges,
            "pad": lambda x: tf.image.pad_to_bounding_box(x, 1, 1, 14, 14),
            "standard": tf.image.per_image_standardization,
            "psnr": lambda x: tf.image.psnr(x, x * 0.9, x[0, 0, 0, 0]),
            "ssim": lambda x: tf.image.ssim(x, x * 0.9, x[0, 0, 0, 0]),
            "resize": lambda x: tf.image.resize(x, [5, 7]),
            "with_pad": lambda x: tf.image.resize_with_pad(x, 5, 9),
            "yiq": tf.image.rgb_to_yiq,
            "yuv": tf.image.rgb_to_yuv,
            "rot90": tf.image.rot90,
            "turned": tf.image.transpose,
            "variation": tf.image.total_variation,
            "boxes": lambda x: tf.image.draw_bounding_boxes(
                x, x[:, 0, :2, 0:1] * [[0.1, 0.2, 0.8, 0.9]], [[1.0, 0.0, 0.0]]
            ),
            "suppressed": lambda x: tf.image.non_max_suppression_padded(
                tf.reshape(x, [-1, 4]),
                tf.reshape(x, [-1, 4])[:, 0],
                5,
                pad_to_max_output_size=True,
            ),
            "cropped": lambda x: tf.image.crop_and_resize(x, x[0, 0, :1, :1] * [[0.1, 0.2, 0.8, 0.9]], [0], [3, 3]),
        },
    ),
    "layers": (
        PICTURE,
        {
            "conv": lambda x: tf.nn.conv2d(x, FILTER, 1, "SAME"),
            "atrous": lambda x: tf.nn.atrous_conv2d(x, FILTER, 2, "SAME"),
            "avg_pool": lambda x: tf.nn.avg_pool(x, 2, 2, "VALID"),
            "max_pool": lambda x: tf.nn.max_pool(x, 2, 2, "SAME"),
            "avg_pool1d": lambda x: tf.nn.avg_pool1d(x[0], 2, 2, "VALID"),
            "bias": lambda x: tf.nn.bias_add(x, x[0, 0, 0]),
            "turned": lambda x: tf.nn.conv_transpose(x, FILTER, [1, 24, 24, 3], 2),
            "lrn": lambda x: tf.nn.lrn(x, bias=2.0),
            "depth": lambda x: tf.nn.depth_to_space(tf.concat([x, x[..., :1]], 3), 2),
            "l2": tf.nn.l2_loss,
            "dilation": lambda x: tf.nn.dilation2d(x, FILTER[..., 0], [1] * 4, "SAME", "NHWC", [1] * 4),
            "erosion": lambda x: tf.nn.erosion2d(x, FILTER[..., 0], [1] * 4, "SAME", "NHWC", [1] * 4),
            "argmax": lambda x: tf.nn.max_pool_with_argmax(x, 2, 2, "VALID"),
            "pool": lambda x: tf.nn.pool(x, [2, 2], "AVG"),
            "lookup": lambda x: tf.nn.embedding_lookup(x[0, :, :, 0], [1, 3]),
            "statistics": lambda x: tf.nn.sufficient_statistics(x, [0])[:3],
            "separable": lambda x: tf.nn.separable_conv2d(x, FILTER[..., :1], FILTER[:1, :1], [1] * 4, "SAME"),
            "sigmoid": lambda x: tf.nn.sigmoid_cross_entropy_with_logits(x, x),
            "volume": lambda x: tf.nn.conv3d(VOLUME * x[0, 0, 0, 0], VOLUME[0, ..., None], [1] * 5, "VALID"),
            "nce": lambda x: tf.nn.nce_loss(
                x[0, :, :, 0],
                x[0, :, 0, 0],
                tf.constant([[1], [2]]),
                x[0, :2, :, 1],
                2,
                12,
                sampled_values=(tf.constant([3, 4]), x[0, :2, :1, 0], x[0, 0, :2, 0]),
            ),
            "sampled": lambda x: tf.nn.sampled_softmax_loss(
                x[0, :, :, 0],
                x[0, :, 0, 0],
                tf.constant([[1], [2]]),
                x[0, :2, :, 1],
                2,
                12,
                sampled_values=(tf.cast(x[0, 0, :2, 0] + 1.0, tf.int64), x[0, :2, :1, 0], x[0, 0, :2, 0]),
            ),
            "quantized": lambda x: tf.quantization.fake_quant_with_min_max_vars(x, -x[0, 0, 0, 0], x[0, 0, 0, 1]),
        },
    ),
    "signals": (
        WAVE,
        {
            "fft": lambda x: tf.signal.fft(tf.cast(x, tf.complex128)),
            "rfft": tf.signal.rfft,
            "irfft": lambda x: tf.signal.irfft(tf.signal.rfft(x)),
            "fft2d": lambda x: tf.signal.fft2d(tf.cast(tf.reshape(x, [8, 8]), tf.complex128)),
            "dct": tf.signal.dct,
            "idct": tf.signal.idct,
            "shifted": tf.signal.ifftshift,
            "stft": lambda x: tf.signal.stft(x, 8, 4),
            "mdct": lambda x: tf.signal.mdct(x, 8),
            "back": lambda x: tf.signal.inverse_stft(tf.signal.stft(x, 8, 4), 8, 4),
            "unmdct": lambda x: tf.signal.inverse_mdct(tf.signal.mdct(x, 8)),
            "frame": lambda x: tf.signal.frame(x, 7, 5, pad_end=True, pad_value=x[0]),
            "overlap": lambda x: tf.signal.overlap_and_add(tf.reshape(x, [8, 8]), 2),
            "mfccs": lambda x: tf.signal.mfccs_from_log_mel_spectrograms(tf.reshape(x, [8, 8])),
            "window": lambda x: x * tf.signal.hamming_window(64, dtype=x.dtype),
            "nd": lambda x: tf.signal.fftnd(tf.cast(tf.reshape(x, [8, 8]), tf.complex128)),
        },
    ),
}
"""Name -> what to call the functions with, and calls: all of them in one program."""


@pytest.mark.parametrize("name", TOGETHER)
def test_functions_without_an_example(name: str):
    x, calls = TOGETHER[name]

    def all_of_them(x: Any) -> Any:
        return {
            key: tf.nest.map_structure(tf.convert_to_tensor, tf.nest.flatten(call(x))) for key, call in calls.items()
        }

    tolerance = 1e-9 if x.dtype == np.float64 else 2e-4
    compiled = tf.function(all_of_them, autograph=False)(tf.constant(x))
    eager = all_of_them(tf.constant(x))
    for key in calls:
        assert_same(compiled[key], eager[key], rtol=tolerance, atol=tolerance / 10)


# -- what depends on values says what to do --------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("function", "instead"),
    [
        (lambda x: tf.where(x > 0), r"tf\.where\(condition, x, y\)"),
        (lambda x: tf.boolean_mask(x, x > 0), r"tf\.where\(mask, x, 0\)"),
        (lambda x: x[x > 0], r"tf\.where\(mask, x, 0\)"),
        (lambda x: tf.unique(x), "numpy_function"),
        (lambda x: tf.dynamic_partition(x, tf.cast(x > 0, tf.int32), 2), "unsorted_segment_sum"),
        (lambda x: tf.dynamic_stitch([tf.cast(x, tf.int32)], [x]), "tensor_scatter_nd_update"),
        (lambda x: tf.repeat(x, tf.cast(x, tf.int32)), "gather"),
        (lambda x: tf.sequence_mask(tf.cast(x, tf.int32)), "maxlen"),
        (lambda x: tf.math.segment_sum(x, tf.cast(x, tf.int32)), "unsorted_segment"),
        (lambda x: tf.math.confusion_matrix(tf.cast(x, tf.int32), tf.cast(x, tf.int32)), "num_classes"),
        (lambda x: tf.slice(x, tf.cast(x[:1], tf.int32), [-1]), "size along every axis"),
        (lambda x: x[tf.cast(x[0], tf.int32) :], r"tf\.slice"),
        (lambda x: tf.sparse.from_dense(x), "dense tensor"),
        (lambda x: tf.reshape(x, tf.cast(x, tf.int32)), r"tf\.shape"),
        (lambda x: tf.zeros(tf.cast(x, tf.int32)), r"tf\.shape"),
        (lambda x: tf.reduce_sum(x, axis=tf.cast(x[0], tf.int32)), r"tf\.shape"),
    ],
)
def test_shapes_that_depend_on_values_are_not_compiled(function, instead):
    with pytest.raises((ValueError, TypeError), match=f"(?s)(depends? on values|must be known).*{instead}"):
        tf.function(function, jit_compile=True)(tf.constant([1.0, 2.0, 0.0]))


# -- indices that are not known --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "look_up",
    [
        lambda x, i: x[i],
        lambda x, i: x[-i],
        lambda x, i: x[:, i],
        lambda x, i: x[i, i - 1],
        lambda x, i: x[i, None, 1:3],
        lambda x, i: x[..., i],
        lambda x, i: x[0, ..., i],
        lambda x, i: x[::-1, i, tf.newaxis],
        lambda x, i: tf.slice(x, [i, 0], [1, 2]),
        lambda x, i: tf.slice(x, tf.stack([i, i]), [1, 2]),
        lambda x, i: tf.gather(x, i),
        lambda x, i: tf.gather(x, [i, i], axis=1),
        lambda x, i: tf.gather_nd(x, [[i, 0], [0, i]]),
        lambda x, i: tf.gather_nd(x, [[i, 0], [9, i]], bad_indices_policy="IGNORE"),
        lambda x, i: tf.roll(x, i, 1),
        lambda x, i: tf.roll(x, [i, -i], [0, 1]),
        lambda x, i: tf.reverse_sequence(x, tf.stack([i, 0, i + 1]), seq_axis=1),
        lambda x, i: x * tf.one_hot(i, 4, dtype=tf.float64),
        lambda x, i: tf.tensor_scatter_nd_update(x, [[i]], [x[0] * 2]),
        lambda x, i: tf.tensor_scatter_nd_add(x, [[i], [7]], x[:2], bad_indices_policy="IGNORE"),
        lambda x, i: tf.tensor_scatter_nd_max(x, [[i], [-1]], x[:2], bad_indices_policy="IGNORE"),
        lambda x, i: tf.tensor_scatter_nd_min(x, [[i], [-1]], x[:2], bad_indices_policy="IGNORE"),
        lambda x, i: tf.math.unsorted_segment_sum(x, tf.stack([i, -1, 0]), 3),
        lambda x, i: tf.math.unsorted_segment_mean(x, tf.stack([i, -1, i]), 3),
        lambda x, i: tf.math.unsorted_segment_prod(x, tf.stack([i, -1, i]), 3),
        lambda x, i: tf.math.unsorted_segment_max(x, tf.stack([i, -1, i]), 3),
        lambda x, i: tf.math.unsorted_segment_sqrt_n(x, tf.stack([i, 0, i]), 3),
        lambda x, i: x * tf.cast(tf.sequence_mask(tf.stack([i, 0, 3]), 4), tf.float64),
    ],
)
def test_indices_that_are_not_known(look_up):
    """Values and dense gradients, of a position inside and of one from behind."""
    x = tf.constant(np.arange(12.0).reshape(3, 4) ** 1.5)
    compiled = tf.function(look_up)
    for i in (1, 2):
        results = []
        for function in (compiled, look_up):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = function(x, tf.constant(i))
                total = tf.reduce_sum(tf.where(tf.abs(y) < 1e3, y * y, 0.0))
            results.append([y, tf.convert_to_tensor(tape.gradient(total, x))])
        assert_same(*results)
    assert compiled.experimental_get_tracing_count() == 1


# -- when it is traced -----------------------------------------------------------------------------------------------
def test_it_is_traced_once_for_each_kind_of_arguments():
    seen = []

    @tf.function
    def f(x, scale=1.0, *, flag=False):
        seen.append(scale)
        return x * scale if not flag else x

    one, two = tf.constant(1.0), tf.constant(2.0)
    kinds = [
        lambda: f(one),
        lambda: f(tf.constant([1.0])),
        lambda: f(tf.constant(1.0, tf.float64)),
        lambda: f(one, 2.0),
        lambda: f(one, 3.0),
        lambda: f(one, two),
        lambda: f(one, flag=True),
    ]
    for count, call in enumerate(kinds, start=1):
        call(), call()
        assert f.experimental_get_tracing_count() == count == len(seen)
    for again in (lambda: f(two), lambda: f(x=one), lambda: f(two, scale=2.0), lambda: f(one, scale=two, flag=False)):
        again()
    assert f.experimental_get_tracing_count() == len(kinds)
    assert float(f(two, 3.0)) == 6.0


def test_structures_are_kinds_of_their_own():
    f = tf.function(lambda s: tf.add_n(tf.nest.flatten(s)))
    x = tf.constant(1.0)
    Pair = collections.namedtuple("Pair", "a b")
    for count, structure in enumerate(([x, x], (x, x), {"a": x, "b": x}, Pair(x, x), [x, [x]], [x, x, x]), start=1):
        expected = float(len(tf.nest.flatten(structure)))
        assert float(f(structure)) == expected
        assert float(f(tf.nest.map_structure(lambda t: t * 2.0, structure))) == 2 * expected
        assert f.experimental_get_tracing_count() == count


def test_arrays_are_tensors_and_numbers_are_constants():
    f = tf.function(lambda x, n: x + n)
    assert f(np.ones(2, np.float32), 1.0).numpy().tolist() == [2.0, 2.0]
    assert f(np.zeros(2, np.float32), 1.0).numpy().tolist() == [1.0, 1.0]
    assert f.experimental_get_tracing_count() == 1
    assert f(np.zeros(2, np.float32), 2).numpy().tolist() == [2.0, 2.0]
    assert f.experimental_get_tracing_count() == 2


def test_python_runs_while_tracing_only():
    said = []
    f = tf.function(lambda x: said.append("now") or x * 2.0)
    assert [float(f(tf.constant(v))) for v in (1.0, 2.0, 3.0)] == [2.0, 4.0, 6.0]
    assert said == ["now"]


def test_run_functions_eagerly():
    seen = []
    f = tf.function(lambda x: seen.append(float(x)) or x)
    tf.config.run_functions_eagerly(True)
    try:
        f(tf.constant(1.0)), f(tf.constant(2.0))
    finally:
        tf.config.run_functions_eagerly(False)
    assert (seen, f.experimental_get_tracing_count()) == ([1.0, 2.0], 0)


# -- variables -------------------------------------------------------------------------------------------------------
def test_variables_keep_their_state():
    v, w = tf.Variable([1.0, 2.0]), tf.Variable(0)

    @tf.function
    def step(x):
        before = v.read_value()
        v.assign_sub(0.5 * x)
        w.assign_add(1)
        return before, v * 2.0, w

    @tf.function
    def double():
        v.assign(v * 2.0)

    before = v.read_value()
    held = v.numpy()
    first = step(tf.constant([2.0, 2.0]))
    assert [t.numpy().tolist() for t in first] == [[1.0, 2.0], [0.0, 2.0], 1]
    assert double() is None
    step(tf.constant([0.0, 2.0]))
    assert (v.numpy().tolist(), int(w)) == ([0.0, 1.0], 2)
    assert (before.numpy().tolist(), held.tolist()) == ([1.0, 2.0], [1.0, 2.0])
    assert [t.numpy().tolist() for t in first] == [[1.0, 2.0], [0.0, 2.0], 1]


def test_an_old_reading_survives_many_steps():
    v = tf.Variable(tf.zeros([64, 64]))
    step = tf.function(lambda: v.assign_add(tf.ones([64, 64])))
    readings = []
    for _ in range(5):
        readings.append(v.read_value())
        step()
    assert [float(r[0, 0]) for r in readings] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert float(v[0, 0]) == 5.0


def test_assignments_with_indices():
    v = tf.Variable([1.0, 2.0, 3.0])

    @tf.function
    def change(i):
        v.scatter_update(tf.IndexedSlices(tf.constant([10.0]), tf.stack([i])))
        v[0].assign(7.0)
        return v.sparse_read(tf.stack([i, 0]))

    assert change(tf.constant(2)).numpy().tolist() == [10.0, 7.0]
    assert v.numpy().tolist() == [7.0, 2.0, 10.0]


def test_a_step_of_training_equals_the_eager_one():
    def train(wrapped):
        w, b = tf.Variable(tf.ones([3, 2]) * 0.5), tf.Variable(tf.zeros([2]))

        @wrapped
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(tf.tanh(x @ w + b) - y))
            for v, g in zip((w, b), tape.gradient(loss, (w, b)), strict=True):
                v.assign_sub(0.1 * g)
            return loss

        x = tf.constant(np.linspace(-1, 1, 12).reshape(4, 3), tf.float32)
        losses = [float(step(x, tf.ones([4, 2]))) for _ in range(5)]
        return losses, w.numpy(), b.numpy()

    for a, b in zip(train(tf.function), train(lambda f: f), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_variables_are_created_once():
    held = []

    @tf.function
    def counted(x):
        if not held:
            held.append(tf.Variable(10.0))
        return held[0].assign_add(x)

    assert [float(counted(tf.constant(1.0))) for _ in range(3)] == [11.0, 12.0, 13.0]
    always = tf.function(lambda: tf.Variable(1.0).read_value())
    with pytest.raises(ValueError, match="only supports singleton"):
        always()


# -- functions within functions, methods, closures -------------------------------------------------------------------
def test_nested_functions_and_methods():
    class Scaled(tf.Module):
        def __init__(self, factor):
            super().__init__()
            self.factor = tf.Variable(factor)

        @tf.function
        def __call__(self, x):
            return self.factor * x

    three, four = Scaled(3.0), Scaled(4.0)
    both = tf.function(lambda x: three(x) * four(x))
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = both(x)
    gradients = tape.gradient(y, [x, three.factor, four.factor])
    assert [float(g) for g in gradients] == [48.0, 16.0, 12.0]
    assert float(three(x)) == 6.0


def test_captured_tensors_are_followed_by_a_tape_that_comes_later():
    w = tf.constant([1.0, 2.0])
    f = tf.function(lambda x: tf.reduce_sum(w * w * x))
    x = tf.constant([3.0, 4.0])
    assert float(f(x)) == 19.0  # traced, compiled and run, and nobody watches
    with tf.GradientTape() as tape:
        tape.watch(w)
        y = f(x) * 2.0
    assert tape.gradient(y, w).numpy().tolist() == [12.0, 32.0]
    with tf.GradientTape() as outer:
        outer.watch([w, x])
        with tf.GradientTape() as inner:
            inner.watch(w)
            y = f(x)
        g = inner.gradient(y, w)
    assert [t.numpy().tolist() for t in outer.gradient(g, [w, x])] == [[6.0, 8.0], [2.0, 4.0]]
    assert f.experimental_get_tracing_count() == 1


def test_a_watched_computation_goes_through_a_closure():
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        squared = x * x
        y = tf.function(lambda z: squared * z)(tf.constant(5.0))
    assert float(tape.gradient(y, x)) == 30.0


def test_results():
    table = tf.Variable(tf.ones([3, 2]))

    @tf.function
    def f(x):
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.gather(table, [2, 0, 2]))
        slices = tape.gradient(y, table)
        return {"none": None, "pair": (x, [x + 1, "kept" and 5]), "rows": slices, "flag": x > 0, "v": table}

    result = f(tf.constant(1))
    assert result["none"] is None
    assert (int(result["pair"][1][0]), int(result["pair"][1][1])) == (2, 5)
    assert isinstance(result["rows"], tf.IndexedSlices)
    assert tf.convert_to_tensor(result["rows"]).numpy().tolist() == [[1.0, 1.0], [0.0, 0.0], [2.0, 2.0]]
    assert result["flag"].dtype == tf.bool
    assert isinstance(result["v"], tf.Tensor)
    assert tf.function(lambda: None)() is None


def test_slices_go_in_and_out():
    v = tf.Variable([1.0, 2.0, 3.0])

    @tf.function
    def apply(slices):
        v.scatter_sub(slices)
        return slices

    slices = tf.IndexedSlices(tf.constant([1.0]), tf.constant([2]), tf.constant([3]))
    assert isinstance(apply(slices), tf.IndexedSlices)
    assert v.numpy().tolist() == [1.0, 2.0, 2.0]


def test_a_gradient_to_a_table_is_sparse_from_outside():
    table = tf.Variable(tf.ones([4, 2]))
    f = tf.function(lambda i: tf.gather(table, i) ** 2)
    with tf.GradientTape() as tape:
        y = f(tf.constant([3, 1, 3]))
    g = tape.gradient(y, table)
    assert isinstance(g, tf.IndexedSlices)
    assert tf.convert_to_tensor(g).numpy()[:, 0].tolist() == [0.0, 2.0, 0.0, 4.0]


def test_mixed_dtypes_and_whole_numbers():
    @tf.function
    def f(x, n, z):
        return tf.cast(n, tf.float64) * x, n + 1, tf.abs(z) * tf.cast(x, tf.float32), tf.argmax([x, x + 1])

    args = tf.constant(2.0, tf.float64), tf.constant(3), tf.constant(3 + 4j, tf.complex64)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([args[0], args[2]])
        ys = f(*args)
    assert [y.dtype.name for y in ys] == ["float64", "int32", "float32", "int64"]
    assert float(tape.gradient(ys[0], args[0])) == 3.0
    assert tape.gradient(ys[2], args[2]).dtype == tf.complex64
    assert [float(g) for g in tape.gradient([ys[0], ys[2]], [args[0]])] == [8.0]


# -- mistakes --------------------------------------------------------------------------------------------------------
def test_a_failed_trace_leaves_nothing_behind():
    v = tf.Variable(1.0)
    broken = [True]

    @tf.function
    def f(x):
        v.assign_add(x)
        if broken[0]:
            raise RuntimeError("not yet")
        return v * x

    with tf.GradientTape() as tape:
        with pytest.raises(RuntimeError, match="not yet"):
            f(tf.constant(2.0))
        assert (float(v), tf.inside_function(), tf.executing_eagerly()) == (1.0, False, True)
        broken[0] = False
        y = f(tf.constant(2.0))
    assert (float(y), float(v), float(tape.gradient(y, v))) == (6.0, 3.0, 2.0)


def test_mistakes_point_to_the_line_that_made_them():
    def mistaken(x):
        y = x * 2.0
        return y @ y

    with pytest.raises(ValueError, match=r"(?i)rank|dim|shape") as caught:
        tf.function(mistaken)(tf.constant([1.0, 2.0]))
    lines = [entry.lineno for entry in traceback.extract_tb(caught.tb) if entry.name == "mistaken"]
    assert lines == [mistaken.__code__.co_firstlineno + 2]


def test_a_value_that_is_not_there_says_so():
    kept = []
    f = tf.function(lambda x: kept.append(x * 2.0) or x)
    f(tf.constant(1.0))
    with pytest.raises(TypeError, match="tracing"):
        kept[0] + 1.0
    for look in (lambda x: float(x), lambda x: x.numpy(), lambda x: np.sin(x), lambda x: bool(x > 0)):
        with pytest.raises((TypeError, AttributeError, NotImplementedError), match=r"(?i)traced|numpy|symbolic"):
            tf.function(look, autograph=False)(tf.constant(1.0))


# -- derivatives of every kind ---------------------------------------------------------------------------------------
def cubic(x):
    return tf.reduce_sum(tf.sin(x) * x**3)


COMPILED_CUBIC = tf.function(cubic)
X = tf.constant([0.3, -1.2, 2.0], tf.float64)
DIRECTION = tf.constant([1.0, 0.5, -2.0], tf.float64)


def third(f):
    with tf.GradientTape() as c:
        c.watch(X)
        with tf.GradientTape() as b:
            b.watch(X)
            with tf.GradientTape() as a:
                a.watch(X)
                y = f(X)
            first = a.gradient(y, X)
        second = b.gradient(first, X)
    return c.gradient(second, X)


def jacobian(f, loop=False):
    with tf.GradientTape(persistent=loop) as outer:
        outer.watch(X)
        with tf.GradientTape() as inner:
            inner.watch(X)
            y = f(X)
        g = inner.gradient(y, X)
    return outer.jacobian(g, X, experimental_use_pfor=not loop)


def accumulated(f):
    with tf.autodiff.ForwardAccumulator(X, DIRECTION) as acc:
        y = f(X)
    return acc.jvp(y)


def forward_over_reverse(f):
    with tf.autodiff.ForwardAccumulator(X, DIRECTION) as acc:
        with tf.GradientTape() as tape:
            tape.watch(X)
            y = f(X)
        g = tape.gradient(y, X)
    return acc.jvp(g)


def of_tape(method, *args):
    def ask(f):
        with tf.GradientTape() as tape:
            tape.watch(X)
            y = f(X)
        return getattr(tape, method)(y, X, *args)

    return ask


@pytest.mark.parametrize(
    "ask",
    [
        third,
        jacobian,
        lambda f: jacobian(f, loop=True),
        accumulated,
        forward_over_reverse,
        of_tape("jvp", DIRECTION),
        of_tape("hvp", DIRECTION),
        of_tape("hessian"),
        lambda f: tf.function(third)(f),
        lambda f: tf.function(lambda: jacobian(f))(),
        lambda f: tf.function(lambda: accumulated(f))(),
        lambda f: tf.function(lambda: forward_over_reverse(f))(),
    ],
)
def test_every_kind_of_derivative(ask):
    assert_same(ask(COMPILED_CUBIC), ask(cubic))


@pytest.mark.parametrize("use_pfor", [True, False])
def test_jacobians_of_vectors(use_pfor):
    def f(x, w):
        return tf.tanh(x @ w)

    x, w = tf.constant(np.linspace(-1, 1, 6).reshape(3, 2)), tf.constant(np.linspace(0, 1, 4).reshape(2, 2))

    def both(function):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([x, w])
            y = function(x, w)
        return [
            tape.batch_jacobian(y, x, experimental_use_pfor=use_pfor),
            *tape.jacobian(y, [x, w], experimental_use_pfor=use_pfor),
        ]

    assert_same(both(tf.function(f)), both(f))


def test_persistent_tapes_and_what_they_watch():
    v, w = tf.Variable(2.0), tf.Variable(3.0)
    f = tf.function(lambda x: (v * x, w * x * x))
    x = tf.constant(5.0)
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
        tape.watch([x, v])
        a, b = f(x)
    assert [float(g) for g in tape.gradient(a, [v, x])] == [5.0, 2.0]
    assert float(tape.gradient(b, x)) == 30.0
    assert tape.gradient(b, w) is None
    assert float(tape.gradient(b, w, unconnected_gradients="zero")) == 0.0
    assert tape.watched_variables() == (v,)


def test_what_a_result_does_not_depend_on_has_a_gradient_of_zeros():
    f = tf.function(lambda x, y: (x * 2.0, y * 3.0))
    x, y = tf.constant(1.0), tf.constant(1.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, y])
        a, b = f(x, y)
    assert [float(g) for g in tape.gradient(a, [x, y])] == [2.0, 0.0]
    assert [float(g) for g in tape.gradient(b, [x, y])] == [0.0, 3.0]


def test_options_of_a_tape_around_a_function():
    f = tf.function(lambda x: tf.where(x > 0.0, tf.sqrt(x), 0.0))
    x = tf.constant([0.0, 4.0])
    with tf.GradientTape(strong_zeros=True) as tape:
        tape.watch(x)
        y = f(x)
    assert tape.gradient(y, x).numpy()[1] == 0.25
    logarithm = tf.function(lambda x: tf.math.log(x))
    with tf.GradientTape(check_numerics=True) as tape:
        tape.watch(x)
        with pytest.raises((ArithmeticError, tf.errors.OpError), match=r"(?i)nan|inf"):
            logarithm(x)


def test_check_numerics_and_assertions_when_the_program_comes_there():
    @tf.function
    def f(x):
        tf.debugging.assert_positive(x, message="as promised")
        tf.debugging.assert_near(x, x)
        tf.debugging.assert_less(x, [10.0])
        return tf.debugging.check_numerics(tf.math.log(x - 1.0), "in f")

    assert float(f(tf.constant([2.0]))[0]) == 0.0
    for bad, says in (([-1.0], "as promised"), ([1.0], "in f"), ([11.0], "x < y")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=says):
            f(tf.constant(bad))
    assert f.experimental_get_tracing_count() == 1
    g = tf.function(lambda x: tf.sqrt(tf.debugging.check_numerics(x, "in g")))
    x = tf.constant([0.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = g(x)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"in gradient\. in g"):
        tape.gradient(y, x)


# -- gradients of one's own ------------------------------------------------------------------------------------------
def test_custom_gradients_with_closures():
    def example(wrapped):
        weight = tf.constant(3.0)

        @tf.custom_gradient
        def scaled(x):
            kept = tf.sin(x) * weight

            def backward(upstream):
                return upstream * kept * x

            return kept, backward

        x = tf.constant(0.7)
        f = wrapped(lambda x: scaled(x) * scaled(2.0 * x))
        with tf.GradientTape() as outer:
            outer.watch([x, weight])
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = f(x)
            g = inner.gradient(y, x)
        return [y, g, *outer.gradient(g, [x, weight])]

    assert_same(example(tf.function), example(lambda f: f), rtol=1e-5)
    assert_same(tf.function(lambda: example(lambda f: f))(), example(lambda f: f), rtol=1e-5)


def test_custom_gradients_with_variables():
    def example(wrapped):
        v = tf.Variable(2.0)

        @tf.custom_gradient
        def f(x):
            y = v * x * x

            def backward(upstream, variables=None):
                return upstream * 10.0, [upstream * 20.0 for _ in variables]

            return y, backward

        x = tf.constant(3.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = wrapped(f)(x)
        return [y, *tape.gradient(y, [x, v])]

    assert_same(example(tf.function), example(lambda f: f))


def test_recomputed_and_stopped_gradients():
    v = tf.Variable(1.5)

    def f(x):
        again = tf.recompute_grad(lambda x: tf.sin(x * v) * x)
        return again(x) + tf.stop_gradient(x * v) * x

    def derivatives_of(function):
        x = tf.constant(0.4)
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = function(x)
            g = inner.gradient(y, [x, v])
        return [y, *g, outer.gradient(g[0], x)]

    assert_same(derivatives_of(tf.function(f)), derivatives_of(f), rtol=1e-5)


# -- threads and memory ----------------------------------------------------------------------------------------------
def test_threads_that_call_one_function():
    f = tf.function(lambda x: tf.reduce_sum(x * x))

    def work(k):
        x = tf.constant([float(k), 1.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return float(y), tape.gradient(y, x).numpy().tolist()

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(40)))
    assert found == [(k * k + 1.0, [2.0 * k, 2.0]) for k in range(40)]
    assert f.experimental_get_tracing_count() == 1


@contextmanager
def switching_threads_often():
    """Let threads take turns a thousand times as often, to meet in places where they seldom do."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(interval / 1000)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


def test_threads_that_update_one_variable():
    v = tf.Variable(tf.zeros([100]))
    step = tf.function(lambda: v.assign_add(tf.ones([100])))

    def work(_):
        for _ in range(10):
            step()
            assert np.isfinite(v.numpy()).all()

    with switching_threads_often(), ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert v.numpy().tolist() == [60.0] * 100


def test_threads_that_read_what_another_updates():
    v = tf.Variable(tf.zeros([100]))
    step = tf.function(lambda: v.assign_add(tf.ones([100])))
    total = tf.function(lambda: tf.reduce_sum(v))
    step(), total()
    seen: list[list[float]] = [[], [], [], []]

    def read(numbers):
        for _ in range(50):
            numbers.append(float(total()) / 100)
            values = v.numpy()
            assert (values == values[0]).all()
            numbers.append(float(values[0]))

    with switching_threads_often(), ThreadPoolExecutor(5) as pool:
        reading = [pool.submit(read, numbers) for numbers in seen]
        for _ in range(200):
            step()
        for future in reading:
            future.result()
    assert float(v[0]) == 201.0
    for numbers in seen:  # nobody sees an older value after a newer one
        assert numbers == sorted(numbers)


def test_a_thread_that_reads_waits_for_the_program_that_writes(by_xla):
    v = tf.Variable([1.0, 2.0])
    running = threading.Event()

    def python(x):
        running.set()
        time.sleep(0.2)
        return x

    step = tf.function(lambda: v.assign_add(tf.py_function(python, [v], tf.TensorSpec([2], tf.float32))))
    step()
    running.clear()
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(lambda: running.wait() and v.numpy().tolist())
        step()
        assert reading.result() == [4.0, 8.0]


def test_python_called_back_may_use_variables():
    v, other = tf.Variable([1.0, 2.0]), tf.Variable(5.0)
    double = tf.function(lambda: 2.0 * other)

    def python(x):
        other.assign_add(1.0)
        return x + double()

    @tf.function
    def step():
        v.assign_add(tf.py_function(python, [v], tf.TensorSpec([2], tf.float32)))

    for _ in range(3):
        step()
    assert other.numpy() == 8.0
    np.testing.assert_array_equal(v.numpy(), [8 * 1.0 + 4 * 12 + 2 * 14 + 16, 8 * 2.0 + 4 * 12 + 2 * 14 + 16])


def test_python_called_back_reads_the_value_from_before():
    v = tf.Variable([1.0, 2.0], name="weights")

    @tf.function
    def step():
        v.assign_add(tf.py_function(lambda x: x + v.numpy(), [v], tf.TensorSpec([2], tf.float32)))

    step()
    step()
    assert v.numpy().tolist() == [9.0, 18.0]  # TensorFlow's numbers


def test_dead_functions_are_forgotten():
    def use():
        v = tf.Variable(1.0)
        f = tf.function(lambda x: x * v)
        with tf.GradientTape() as tape:
            y = f(tf.constant(2.0))
        tape.gradient(y, v)
        return weakref.ref(f), weakref.ref(v)

    references = use()
    gc.collect()
    assert [r() for r in references] == [None, None]


def test_calls_leave_nothing_behind(by_xla):
    v = tf.Variable(tf.ones([10]))
    f = tf.function(lambda x: x * v)
    x = tf.constant(np.ones(10, np.float32))

    def step():
        with tf.GradientTape() as tape:
            y = f(x)
        v.assign_sub(0.1 * tape.gradient(y, v))

    for _ in range(50):  # whatever is kept once, for the next call
        step()
    gc.collect()
    gc.disable()
    try:
        counts = []
        for _ in range(3):
            for _ in range(100):
                step()
            counts.append(len(gc.get_objects()))
    finally:
        gc.enable()
    assert counts[2] - counts[1] < 20


# -- the views of a tape ---------------------------------------------------------------------------------------------
def test_views_of_a_tape_with_a_call():
    f = tf.function(lambda x: tf.sin(x) * x)
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        y = tf.reduce_sum(f(x))
    tape.gradient(y, x)
    assert "function" in str(tape.summary())
    assert "2 ops" in str(tape.show())
    assert "sum" in str(tape.explain(y, x)).lower()


def test_small_constants_are_part_of_the_program_and_large_ones_arguments():
    small, large = tf.constant(np.arange(4.0, dtype=np.float32)), tf.constant(np.ones((4, 4000), np.float32))
    v = tf.Variable([1.0, 2.0, 3.0, 4.0])

    @tf.function
    def f(x):
        v.assign_add(small)
        return tf.reduce_sum(tf.linalg.matvec(tf.transpose(large), x * small + v))

    x = tf.constant([1.0, 1.0, 1.0, 1.0])
    for times in (1, 2):
        with tf.GradientTape() as tape:
            tape.watch([x, small, large])
            y = f(x)
        gradients = tape.gradient(y, [x, small, v])
        assert float(y) == 4000 * (6 + 10 + 6 * times)
        np.testing.assert_allclose(gradients[0], 4000 * small.numpy())
    program = f.get_concrete_function(x)._traced.plain
    assert [
        np.size(feed.value) for feed in program.feeds if feed.kind == "array" and not program.is_explicit(feed)
    ] == [16000]


# -- how programs are compiled and run ---------------------------------------------------------------------------------
def test_options_for_the_compiler(by_xla):
    x = tf.constant([1.0, 2.0])
    try:
        tf.config.set_compiler_options({"xla_cpu_enable_fast_math": False})
        assert tf.function(lambda x: x * 2.0)(x).numpy().tolist() == [2.0, 4.0]
        tf.config.set_compiler_options({"xla_no_such_option": True})
        with pytest.raises(Exception, match="xla_no_such_option"):
            tf.function(lambda x: x * 3.0)(x)
    finally:
        tf.config.set_compiler_options(None)
    assert tf.function(lambda x: x * 3.0)(x).numpy().tolist() == [3.0, 6.0]


@pytest.mark.parametrize(("variable", "there"), [(None, False), ("true", True)])
def test_programs_run_in_the_thread_that_calls_them(variable, there):
    code = "import gradtape._src.arrays.xla, jax; print(jax.config.read('jax_cpu_enable_async_dispatch'))"
    environment = {k: v for k, v in os.environ.items() if k != "JAX_CPU_ENABLE_ASYNC_DISPATCH"}
    if variable is not None:
        environment["JAX_CPU_ENABLE_ASYNC_DISPATCH"] = variable
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == str(there)


def test_endless_recursion_is_explained():
    @tf.function
    def factorial(n):
        if n > 1:
            return n * factorial(n - 1)
        return tf.constant(1)

    def countdown(n):
        return 0 if n == 0 else 1 + countdown(n - 1)

    for call in (lambda: factorial(tf.constant(5)), lambda: tf.function(lambda x: x + countdown(100_000))(1)):
        with pytest.raises(RecursionError, match=r"in user code:[^$]*calls itself") as error:
            call()
        assert type(error.value).__name__ == "StagingError"
    assert int(tf.function(lambda x: x + countdown(50))(tf.constant(1))) == 51  # what was traced until then is gone
