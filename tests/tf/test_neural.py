"""Convolution, pooling, normalization, losses: against slow references, adjoints, numeric derivatives, refusals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.ops import convolution as ops
from gradtape.testing import check_gradients

RNG = np.random.default_rng(3)


def normal(*shape, dtype=np.float64):
    return RNG.normal(size=shape).astype(dtype)


def distinct(*shape):
    """Numbers that all differ by far more than a numeric derivative steps."""
    return RNG.permutation(math.prod(shape)).reshape(shape) * 0.1


# -- slow references ---------------------------------------------------------------------------------------------------
def same_pairs(sizes, window, strides, dilations):
    pairs = []
    for n, k, s, d in zip(sizes, window, strides, dilations, strict=True):
        total = max((math.ceil(n / s) - 1) * s + (k - 1) * d + 1 - n, 0)
        pairs.append((total // 2, total - total // 2))
    return pairs


def windows(x, window, strides, dilations, padding, value=0.0):
    """(position, window values) of channels-last images, by plain indexing."""
    sizes = x.shape[1:-1]
    pairs = {"SAME": lambda: same_pairs(sizes, window, strides, dilations), "VALID": lambda: [(0, 0)] * len(sizes)}
    pairs = pairs[padding]() if isinstance(padding, str) else padding
    padded = np.pad(x, [(0, 0), *pairs, (0, 0)], constant_values=value)
    out = [(n + a + b - (k - 1) * d - 1) // s + 1
           for n, (a, b), k, d, s in zip(sizes, pairs, window, dilations, strides, strict=True)]  # fmt: skip
    for at in itertools.product(*map(range, out)):
        index = tuple(slice(p * s, p * s + (k - 1) * d + 1, d)
                      for p, s, k, d in zip(at, strides, window, dilations, strict=True))  # fmt: skip
        yield at, out, padded[(slice(None), *index)]


def direct_conv(x, y, strides, dilations, padding):
    window, depth, channels = y.shape[:-2], y.shape[-2], y.shape[-1]
    groups = x.shape[-1] // depth
    result = None
    for at, out, patch in windows(x, window, strides, dilations, padding):
        if result is None:
            result = np.zeros((x.shape[0], *out, channels), x.dtype)
        for g in range(groups):
            part = patch[..., g * depth : (g + 1) * depth]
            own = y[..., g * (channels // groups) : (g + 1) * (channels // groups)]
            axes = list(range(1, part.ndim))
            result[(slice(None), *at, slice(g * (channels // groups), (g + 1) * (channels // groups)))] = np.tensordot(
                part, own, (axes, list(range(len(axes))))
            )
    return result


def direct_pool(x, window, strides, dilations, padding, reduce):
    result = None
    for at, out, patch in windows(x, window, strides, dilations, padding, np.nan):
        if result is None:
            result = np.zeros((x.shape[0], *out, x.shape[-1]), x.dtype)
        result[(slice(None), *at)] = reduce(patch, axis=tuple(range(1, patch.ndim - 1)))
    return result


CONVS = [
    # sizes, window, channels of a group, groups, out channels of a group, strides, dilations, padding
    ((7,), (3,), 2, 1, 3, (1,), (1,), "VALID"),
    ((7,), (3,), 20, 1, 3, (2,), (1,), "SAME"),
    ((8,), (2,), 2, 2, 2, (1,), (3,), "SAME"),
    ((6, 5), (3, 2), 1, 1, 4, (1, 1), (1, 1), "VALID"),
    ((6, 5), (3, 2), 18, 1, 2, (1, 1), (1, 1), "SAME"),
    ((7, 6), (2, 3), 3, 1, 2, (2, 3), (1, 1), "SAME"),
    ((7, 8), (2, 3), 2, 1, 3, (1, 1), (2, 3), "VALID"),
    ((7, 8), (3, 3), 9, 1, 2, (2, 1), (1, 2), "SAME"),
    ((5, 5), (1, 1), 3, 1, 2, (1, 1), (1, 1), "VALID"),
    ((5, 5), (1, 1), 3, 1, 2, (2, 2), (1, 1), "SAME"),
    ((5, 4), (2, 2), 2, 3, 2, (1, 1), (1, 1), "SAME"),
    ((5, 4), (2, 2), 1, 3, 1, (1, 2), (1, 1), "SAME"),
    ((5, 4), (3, 2), 1, 2, 3, (1, 1), (1, 2), "VALID"),
    ((5, 4), (2, 2), 2, 1, 2, (1, 1), (1, 1), [(1, 2), (0, 1)]),
    ((4, 3, 5), (2, 2, 3), 2, 1, 2, (1, 2, 1), (1, 1, 1), "SAME"),
    ((4, 3, 5), (2, 1, 2), 1, 2, 2, (1, 1, 2), (2, 1, 1), "VALID"),
]


def name_of(case):
    return "-".join(str(part) for part in case).replace(" ", "")


def operands_of(case, batch=2, dtype=np.float64):
    sizes, window, depth, groups, channels, *_ = case
    return normal(batch, *sizes, depth * groups, dtype=dtype), normal(*window, depth, channels * groups, dtype=dtype)


def explicit(padding, second=False):
    if isinstance(padding, str):
        return padding
    return [(0, 0), (0, 0), *padding] if second else [(0, 0), *padding, (0, 0)]


def convolution(x, y, strides, padding, dilations):
    """`tf.nn.convolution`, or `tf.nn.conv2d` where the padding is a list, which TensorFlow takes only there."""
    function = tf.nn.convolution if isinstance(padding, str) else tf.nn.conv2d
    return function(x, y, strides, explicit(padding), dilations=dilations)


@pytest.mark.parametrize("case", CONVS, ids=name_of)
def test_convolution_is_the_direct_sum(case):
    x, y = operands_of(case)
    *_, strides, dilations, padding = case
    expected = direct_conv(x, y, strides, dilations, padding)
    function = {1: tf.nn.conv1d, 2: tf.nn.conv2d, 3: tf.nn.conv3d}[len(strides)]
    full = [1, *strides, 1] if len(strides) == 3 else strides
    found = function(x, y, full, explicit(padding), dilations=dilations)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    if isinstance(padding, str):
        general = tf.nn.convolution(x, y, strides, padding, dilations=dilations)
        np.testing.assert_array_equal(general, found)
    second = {1: "NCW", 2: "NCHW", 3: "NCDHW"}[len(strides)]
    full = [1, 1, *strides] if len(strides) == 3 else strides
    moved = function(np.moveaxis(x, -1, 1), y, full, explicit(padding, True), second, dilations)
    np.testing.assert_allclose(np.moveaxis(moved.numpy(), 1, -1), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", CONVS, ids=name_of)
def test_derivatives_of_convolution(case):
    x, y = operands_of(case)
    *_, strides, dilations, padding = case

    def function(x, y):
        return convolution(x, y, strides, padding, dilations)

    check_gradients(function, x[:, :, ...], y, order=2 if x.size * y.size < 4000 else 1)


@pytest.mark.parametrize("case", CONVS, ids=name_of)
def test_transposed_convolution_is_the_adjoint(case):
    x, y = operands_of(case)
    *_, strides, dilations, padding = case
    out = convolution(x, y, strides, padding, dilations)
    z = normal(*out.shape)
    function = {1: tf.nn.conv1d_transpose, 2: tf.nn.conv2d_transpose, 3: tf.nn.conv3d_transpose}[len(strides)]
    back = function(z, y, x.shape, strides, explicit(padding), dilations=dilations)
    assert np.vdot(out, z) == pytest.approx(np.vdot(x, back), rel=1e-10)
    general = tf.nn.conv_transpose(z, y, x.shape, strides, explicit(padding), None, dilations)
    np.testing.assert_array_equal(general, back)
    second = {1: "NCW", 2: "NCHW", 3: "NCDHW"}[len(strides)]
    moved = function(
        np.moveaxis(z, -1, 1), y, np.moveaxis(x, -1, 1).shape, strides, explicit(padding, True), second, dilations
    )
    np.testing.assert_allclose(np.moveaxis(moved.numpy(), 1, -1), back, rtol=1e-12, atol=1e-12)
    # The third corner of the same form.
    with tf.GradientTape() as tape:
        w = tf.constant(y)
        tape.watch(w)
        same = convolution(x, w, strides, padding, dilations)
    assert np.vdot(tape.gradient(same, w, z), y) == pytest.approx(np.vdot(out, z), rel=1e-10)


@pytest.mark.parametrize("case", [CONVS[1], CONVS[4], CONVS[10], CONVS[12]], ids=name_of)
def test_pieces_give_the_same_as_the_whole(case, monkeypatch):
    from gradtape._src.arrays.numpy import neural

    x, y = operands_of(case, batch=3)
    *_, strides, dilations, padding = case

    def everything():
        with tf.GradientTape() as tape:
            a, b = tf.constant(x), tf.constant(y)
            tape.watch([a, b])
            out = tf.nn.convolution(a, b, strides, padding, dilations=dilations)
        return [out, *tape.gradient(out, [a, b], tf.cos(out))]

    whole = everything()
    monkeypatch.setattr(neural, "_PIECE", 30)
    for a, b in zip(everything(), whole, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("images", "windows"), [((2, 1, 4, 2), (2, 0, 1, 3)), ((0, 5, 5, 2), (0, 2, 2, 3))])
@pytest.mark.parametrize("pfor", [True, False])
def test_jacobians_of_a_convolution_without_outputs(images, windows, pfor):
    x, filters = tf.ones(images), tf.ones([3, 3, 2, 3])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, filters])
        y = tf.nn.conv2d(x, filters, 2, "VALID")
    assert y.shape == windows
    for source in (x, filters):
        assert tape.jacobian(y, source, experimental_use_pfor=pfor).shape == (*windows, *source.shape)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_low_precision_convolution(dtype):
    x, y = normal(2, 5, 5, 3), normal(3, 3, 3, 4)
    found = tf.nn.conv2d(tf.cast(x, dtype), tf.cast(y, dtype), 1, "SAME")
    assert found.dtype.name == dtype
    bound = {"float16": 2e-2, "bfloat16": 2e-1, "float32": 1e-5}[dtype]
    np.testing.assert_allclose(tf.cast(found, "float64"), tf.nn.conv2d(x, y, 1, "SAME"), atol=bound)


def test_integers_and_higher_ranks():
    x, y = np.arange(24, dtype=np.int32).reshape(1, 3, 4, 2), np.ones((2, 2, 2, 1), np.int32)
    found = tf.nn.conv2d(x, y, 1, "VALID")
    assert found.dtype == tf.int32
    np.testing.assert_array_equal(found, direct_conv(x, y, (1, 1), (1, 1), "VALID"))
    many, w = normal(2, 3, 5, 5, 2), normal(2, 2, 2, 3)
    stacked = tf.nn.conv2d(many, w, 1, "SAME")
    assert stacked.shape == (2, 3, 5, 5, 3)
    np.testing.assert_allclose(stacked[1], tf.nn.conv2d(many[1], w, 1, "SAME"))


def test_windows_larger_than_the_image_give_nothing():
    assert tf.nn.conv2d(tf.ones([1, 2, 2, 1]), tf.ones([3, 3, 1, 4]), 1, "VALID").shape == (1, 0, 0, 4)
    assert tf.nn.max_pool2d(tf.ones([1, 2, 2, 1]), 3, 1, "VALID").shape == (1, 0, 0, 1)


@pytest.mark.parametrize("multiplier", [1, 2])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_depthwise_and_separable(multiplier, padding):
    x, y, p = normal(2, 5, 4, 3), normal(2, 3, 3, multiplier), normal(1, 1, 3 * multiplier, 2)
    found = tf.nn.depthwise_conv2d(x, y, [1, 1, 1, 1], padding)
    for c in range(3):
        alone = tf.nn.conv2d(x[..., c : c + 1], y[:, :, c : c + 1], 1, padding)
        np.testing.assert_allclose(found[..., c * multiplier : (c + 1) * multiplier], alone, atol=1e-12)
    both = tf.nn.separable_conv2d(x, y, p, [1, 1, 1, 1], padding)
    np.testing.assert_allclose(both, tf.nn.conv2d(found, p, 1, "VALID"))
    check_gradients(lambda x, y: tf.nn.depthwise_conv2d(x, y, [1, 2, 2, 1], padding), x, y)
    with tf.GradientTape() as tape:
        a, b = tf.constant(x), tf.constant(y)
        tape.watch([a, b])
        out = tf.nn.depthwise_conv2d(a, b, [1, 1, 1, 1], padding)
    z = normal(*out.shape)
    dx, dy = tape.gradient(out, [a, b], z)
    back = tf.nn.depthwise_conv2d_backprop_input(x.shape, y, z, [1, 1, 1, 1], padding)
    np.testing.assert_allclose(back, dx, atol=1e-12)
    back = tf.nn.depthwise_conv2d_backprop_filter(x, y.shape, z, [1, 1, 1, 1], padding)
    np.testing.assert_allclose(back, dy, atol=1e-12)


def test_atrous():
    x, y = normal(1, 7, 7, 2), normal(3, 2, 2, 2)
    out = tf.nn.atrous_conv2d(x, y, 2, "SAME")
    np.testing.assert_allclose(out, direct_conv(x, y, (1, 1), (2, 2), "SAME"), atol=1e-12)
    z = normal(*out.shape)
    back = tf.nn.atrous_conv2d_transpose(z, y, x.shape, 2, "SAME")
    assert np.vdot(out, z) == pytest.approx(np.vdot(x, back))


# -- Jacobians ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("case", [CONVS[0], CONVS[3], CONVS[10], CONVS[11], CONVS[12]], ids=name_of)
def test_jacobians_are_rows_of_gradients(case):
    x, y = operands_of(case)
    *_, strides, dilations, padding = case
    a, b = tf.constant(x), tf.constant(y)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([a, b])
        out = tf.reduce_sum(tf.square(tf.nn.convolution(a, b, strides, padding, dilations=dilations)), -1)
    for source in (a, b):
        whole = tape.jacobian(out, source).numpy().reshape(-1, *source.shape)
        for i in range(0, len(whole), 3):
            seed = np.zeros(out.shape)
            seed.flat[i] = 1
            np.testing.assert_allclose(whole[i], tape.gradient(out, source, seed), atol=1e-10)


@pytest.mark.parametrize("groups", [1, 2])
def test_hidden_axes_of_every_corner(groups):
    """Each of the three primitives with one operand batched, or both, against a loop."""
    from gradtape._src.arrays.batched import Batched, batched_namespace

    how = {"strides": (1, 2), "dilations": (2, 1), "padding": ((1, 0), (1, 1)), "groups": groups}
    x, y = normal(3, 2, 6, 5, 4), normal(3, 2, 3, 4 // groups, 6)
    z = normal(3, *ops.conv(x[0], y[0], **how).shape)
    corners = {
        "conv": ((x, y), how),
        "conv_input_grad": ((z, y), {**how, "shape": (6, 5)}),
        "conv_filter_grad": ((x, z), {**how, "window": (2, 3)}),
    }
    for name, (pair, attrs) in corners.items():
        for batched in ((True, False), (False, True), (True, True)):
            given = [Batched(v, 1) if b else v[0] for v, b in zip(pair, batched, strict=True)]
            found = getattr(batched_namespace, name)(*given, **attrs).rows()
            for i in range(3):
                row = [v[i] if b else v[0] for v, b in zip(pair, batched, strict=True)]
                np.testing.assert_allclose(found[i], getattr(ops, name)(*row, **attrs), atol=1e-12)


def test_per_example_gradients_of_a_network():
    x, y, w = normal(4, 6, 6, 2), normal(3, 3, 2, 3), normal(12, 2)
    filters, dense = tf.Variable(y), tf.Variable(w)

    def losses(images):
        h = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(images, filters, 1, "VALID")), 2, 2, "VALID")
        return tf.reduce_sum(tf.square(tf.reshape(h, (images.shape[0], 12)) @ dense), 1)

    with tf.GradientTape() as tape:
        out = losses(tf.constant(x))
    rows = tape.jacobian(out, [filters, dense])
    for i in range(4):
        with tf.GradientTape() as tape:
            one = losses(tf.constant(x[i : i + 1]))
        for row, alone in zip(rows, tape.gradient(one, [filters, dense]), strict=True):
            np.testing.assert_allclose(row[i], alone, atol=1e-10)


# -- pooling -----------------------------------------------------------------------------------------------------------
POOLS = [
    ((7,), (3,), (1,), "VALID"),
    ((7,), (2,), (3,), "SAME"),
    ((6, 6), (2, 2), (2, 2), "VALID"),
    ((7, 5), (2, 2), (2, 2), "VALID"),
    ((7, 5), (3, 2), (2, 1), "SAME"),
    ((5, 6), (3, 3), (1, 2), "SAME"),
    ((5, 6), (1, 2), (1, 1), "SAME"),
    ((6, 5), (2, 2), (3, 3), "VALID"),
    ((5, 4), (2, 3), (1, 1), [(1, 0), (1, 2)]),
    ((4, 3, 5), (2, 2, 2), (1, 2, 2), "SAME"),
]


@pytest.mark.parametrize("case", POOLS, ids=name_of)
def test_pooling_is_the_direct_reduction(case):
    sizes, window, strides, padding = case
    x = distinct(2, *sizes, 2)
    ones = (1,) * len(sizes)
    last = {1: "NWC", 2: "NHWC", 3: "NDHWC"}[len(sizes)]
    second = last.replace("C", "").replace("N", "NC")
    for name, reduce in (("max", np.nanmax), ("avg", np.nanmean)):
        if name == "avg" and not isinstance(padding, str):
            with pytest.raises(TypeError, match="Expected string for argument 'padding'"):
                tf.nn.avg_pool2d(x, window, strides, explicit(padding))
            continue
        expected = direct_pool(x, window, strides, ones, padding, reduce)
        function = getattr(tf.nn, f"{name}_pool{len(sizes)}d")
        given = tf.constant(x)  # arrays of NumPy become float32 where TensorFlow has that default
        found = function(given, window, strides, explicit(padding))
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        general = getattr(tf.nn, f"{name}_pool")
        np.testing.assert_array_equal(general(given, window, strides, explicit(padding), last), found)
        np.testing.assert_array_equal(tf.nn.pool(given, window, name.upper(), strides, explicit(padding)), found)
        moved = function(tf.constant(np.moveaxis(x, -1, 1)), window, strides, explicit(padding, True), second)
        np.testing.assert_array_equal(np.moveaxis(moved.numpy(), 1, -1), found)


@pytest.mark.parametrize("case", POOLS, ids=name_of)
def test_derivatives_of_pooling(case):
    sizes, window, strides, padding = case
    x = distinct(2, *sizes, 1)
    check_gradients(lambda x: tf.nn.max_pool(x, window, strides, explicit(padding)), x)
    check_gradients(lambda x: tf.square(tf.nn.max_pool(x, window, strides, explicit(padding))), x)
    if isinstance(padding, str):
        check_gradients(lambda x: tf.square(tf.nn.avg_pool(x, window, strides, padding)), x)


@pytest.mark.parametrize("kind", ["MAX", "AVG"])
def test_dilated_pooling(kind):
    x = distinct(2, 7, 6, 2)
    reduce = np.max if kind == "MAX" else np.mean
    found = tf.nn.pool(x, [2, 3], kind, dilations=[2, 1])
    np.testing.assert_allclose(found, direct_pool(x, (2, 3), (1, 1), (2, 1), "VALID", reduce))
    check_gradients(lambda x: tf.nn.pool(x, [2, 3], kind, dilations=[2, 1]), x)


def test_equal_maxima_give_to_the_first():
    x = tf.constant([[1.0, 1.0, 2.0, 2.0], [1.0, 0.0, 2.0, 2.0]])[None, :, :, None]
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.nn.max_pool2d(x, 2, 2, "VALID")
    assert tape.gradient(y, x).numpy().squeeze().tolist() == [[1, 0, 1, 0], [0, 0, 0, 0]]
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.nn.max_pool2d(x, 2, 1, "VALID")
    assert tape.gradient(y, x).numpy().squeeze().tolist() == [[1, 0, 2, 0], [0, 0, 0, 0]]


def test_second_derivative_of_max_pool_alone_is_zero():
    x = tf.constant(distinct(1, 4, 4, 1))
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.nn.max_pool2d(x, 2, 2, "VALID")
        g = inner.gradient(y, x)
    np.testing.assert_array_equal(outer.gradient(g, x), np.zeros((1, 4, 4, 1)))


def test_pooling_over_channels():
    x = distinct(1, 2, 2, 4)
    found = tf.nn.max_pool2d(tf.constant(x), [1, 1, 1, 2], [1, 1, 1, 2], "VALID")
    np.testing.assert_array_equal(found, x.reshape(1, 2, 2, 2, 2).max(-1))
    check_gradients(lambda x: tf.nn.max_pool2d(x, [1, 1, 1, 2], [1, 1, 1, 2], "VALID"), x)


def test_pooling_of_integers_and_half_precision():
    x = tf.reshape(tf.range(16), [1, 4, 4, 1])
    found = tf.nn.max_pool2d(x, 2, 2, "SAME")
    assert found.dtype == tf.int32
    assert found.numpy().ravel().tolist() == [5, 7, 13, 15]
    large = tf.cast(tf.fill([1, 4, 4, 1], 60000.0), "float16")  # sums of these would overflow
    assert tf.nn.avg_pool2d(large, 4, 1, "VALID").numpy().item() == pytest.approx(60000, rel=1e-3)


@pytest.mark.parametrize("with_batch", [False, True])
def test_positions_of_maxima(with_batch):
    x = distinct(2, 5, 4, 3).astype(np.float32)
    values, positions = tf.nn.max_pool_with_argmax(x, 2, 2, "SAME", include_batch_in_index=with_batch)
    assert positions.dtype == tf.int64
    at = positions.numpy() + (0 if with_batch else np.array([0, 60]).reshape(2, 1, 1, 1))
    np.testing.assert_array_equal(x.ravel()[at], values)
    assert tf.nn.max_pool_with_argmax(x, 2, 2, "SAME", output_dtype="int32").argmax.dtype == tf.int32
    check_gradients(lambda x: tf.nn.max_pool_with_argmax(x, 2, 2, "SAME").output, distinct(1, 4, 4, 1))


# -- morphology, space -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_dilation_and_erosion(padding):
    x, y = distinct(1, 5, 5, 2), distinct(2, 3, 2) * 0.37
    how = ([1, 2, 1, 1], padding, "NHWC", [1, 1, 2, 1])
    found = tf.nn.dilation2d(x, y, *how)
    for at, _, patch in windows(x, (2, 3), (2, 1), (1, 2), padding, -np.inf):
        np.testing.assert_allclose(found[(slice(None), *at)], (patch + y).max((1, 2)))
    eroded = tf.nn.erosion2d(x, y, *how)
    for at, _, patch in windows(x, (2, 3), (2, 1), (1, 2), padding, np.inf):
        np.testing.assert_allclose(eroded[(slice(None), *at)], (patch - y[::-1, ::-1]).min((1, 2)))
    check_gradients(lambda x, y: tf.nn.dilation2d(x, y, *how), x, y)
    check_gradients(lambda x, y: tf.nn.erosion2d(x, y, *how), x, y)


def test_space_and_depth():
    x = normal(2, 4, 6, 3)
    deep = tf.nn.space_to_depth(x, 2)
    assert deep.shape == (2, 2, 3, 12)
    np.testing.assert_array_equal(deep[0, 1, 2], np.concatenate([x[0, 2, 4], x[0, 2, 5], x[0, 3, 4], x[0, 3, 5]]))
    np.testing.assert_array_equal(tf.nn.depth_to_space(deep, 2), x)
    moved = tf.nn.space_to_depth(np.moveaxis(x, -1, 1), 2, "NCHW")
    np.testing.assert_array_equal(np.moveaxis(moved.numpy(), 1, -1), deep)
    np.testing.assert_array_equal(tf.nn.depth_to_space(moved, 2, "NCHW"), np.moveaxis(x, -1, 1))
    check_gradients(lambda x: tf.nn.space_to_depth(x, 2), x)


def test_space_and_batch():
    x = normal(2, 3, 6, 1)
    spread = tf.space_to_batch(x, [2, 3], [[1, 0], [0, 3]])
    assert spread.shape == (12, 2, 3, 1)
    padded = np.pad(x, [(0, 0), (1, 0), (0, 3), (0, 0)])
    np.testing.assert_array_equal(spread[0], padded[0, ::2, ::3])
    np.testing.assert_array_equal(spread[2 * 4 + 1], padded[1, 1::2, 1::3])
    np.testing.assert_array_equal(tf.batch_to_space(spread, [2, 3], [[1, 0], [0, 3]]), x)
    assert tf.nn.space_to_batch is tf.space_to_batch
    check_gradients(lambda x: tf.space_to_batch(x, [2, 3], [[1, 0], [0, 3]]), x)


# -- normalization -----------------------------------------------------------------------------------------------------
def test_moments():
    x = normal(4, 3, 2)
    mean, variance = tf.nn.moments(x, [0, -1])
    np.testing.assert_allclose(mean, x.mean((0, 2)))
    np.testing.assert_allclose(variance, x.var((0, 2)))
    assert tf.nn.moments(x, [0], keepdims=True)[0].shape == (1, 3, 2)
    assert tf.nn.moments(tf.cast(x, "float16"), [0])[1].dtype == tf.float16
    check_gradients(lambda x: list(tf.nn.moments(x, [0, 2])), x, order=1)


@pytest.mark.parametrize("compiled", [False, True])
def test_second_derivative_of_the_variance(compiled):
    """That of moments treats the mean as a constant, as TensorFlow's formula does; others are exact."""
    x = tf.constant([1.0, 2.0, 4.0], tf.float64)

    def hessian(f):
        f = tf.function(f) if compiled else f
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = f(x)
            slope = inner.gradient(y, x)
        return outer.jacobian(slope, x).numpy()

    np.testing.assert_allclose(hessian(lambda x: tf.nn.moments(x, [0])[1]), np.eye(3) * 2 / 3, atol=1e-12)
    exact = np.eye(3) * 2 / 3 - 2 / 9
    np.testing.assert_allclose(hessian(tf.math.reduce_variance), exact, atol=1e-12)
    weights = tf.ones([3], tf.float64)
    np.testing.assert_allclose(hessian(lambda x: tf.nn.weighted_moments(x, [0], weights)[1]), exact, atol=1e-12)


def test_statistics():
    x = normal(4, 3)
    for shift in (None, 0.5):
        count, sums, squares, back = tf.nn.sufficient_statistics(x, [0], shift=shift)
        assert count.numpy() == 4
        mean, variance = tf.nn.normalize_moments(count, sums, squares, back)
        np.testing.assert_allclose(mean, x.mean(0))
        np.testing.assert_allclose(variance, x.var(0))
    weights = np.array([[1.0], [2.0], [0.0], [3.0]])
    mean, variance = tf.nn.weighted_moments(x, [0], weights)
    repeated = np.repeat(x, [1, 2, 0, 3], 0)
    np.testing.assert_allclose(mean, repeated.mean(0))
    np.testing.assert_allclose(variance, repeated.var(0))


def test_batch_normalization():
    x, scale, offset = normal(5, 3), normal(3), normal(3)

    def whole(x, offset, scale):
        mean, variance = tf.reduce_mean(x, 0), tf.math.reduce_variance(x, 0)
        return tf.nn.batch_normalization(x, mean, variance, offset, scale, 1e-3)

    expected = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-3) * scale + offset
    np.testing.assert_allclose(whole(x, offset, scale), expected)
    check_gradients(whole, x, offset, scale)


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_fused_batch_norm(data_format):
    from gradtape._src.tf.normalization import fused_batch_norm

    x = normal(2, 3, 4, 5)
    at = 3 if data_format == "NHWC" else 1
    axes = tuple(i for i in range(4) if i != at)
    channels = x.shape[at]
    y, mean, variance = fused_batch_norm(x, np.ones(channels), np.zeros(channels), data_format=data_format)
    np.testing.assert_allclose(mean, x.mean(axes))
    np.testing.assert_allclose(variance, x.var(axes, ddof=1))
    np.testing.assert_allclose(y, (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-3))
    again, *_ = fused_batch_norm(
        x, np.ones(channels), np.zeros(channels), x.mean(axes), x.var(axes), data_format=data_format, is_training=False
    )
    np.testing.assert_allclose(again, y)


def test_local_response_normalization():
    x = normal(1, 2, 2, 6)
    found = tf.nn.lrn(tf.constant(x), depth_radius=1, bias=2.0, alpha=0.3, beta=0.75)
    squares = np.pad(x**2, [(0, 0)] * 3 + [(1, 1)])
    near = squares[..., :-2] + squares[..., 1:-1] + squares[..., 2:]
    np.testing.assert_allclose(found, x / (2 + 0.3 * near) ** 0.75)
    check_gradients(lambda x: tf.nn.lrn(x, depth_radius=1, bias=2.0, alpha=0.3, beta=0.75), x)


def test_dropout():
    x = tf.ones([200, 50])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.nn.dropout(x, 0.25, seed=7)
    kept = y.numpy() != 0
    assert set(np.unique(y.numpy())) == {0.0, np.float32(1 / 0.75)}
    assert kept.mean() == pytest.approx(0.75, abs=0.03)
    np.testing.assert_array_equal(tape.gradient(y, x), y)
    columns = tf.nn.dropout(x, 0.5, noise_shape=[1, None])
    assert (columns.numpy() == columns.numpy()[:1]).all()
    same = [tf.nn.experimental.stateless_dropout(x, 0.5, seed=[1, 2]).numpy() for _ in range(2)]
    np.testing.assert_array_equal(*same)
    sampler = lambda shape, dtype: tf.fill(shape, 0.4)  # noqa: E731
    assert tf.nn.experimental.general_dropout(x, 0.5, sampler).numpy().max() == 0
    assert tf.nn.dropout(x, tf.constant(0.5)).shape == x.shape


# -- losses ------------------------------------------------------------------------------------------------------------
def collapsed(path, blank):
    return tuple(k for k, _ in itertools.groupby(path) if k != blank)


@pytest.mark.parametrize("blank", [0, 1, -1])
@pytest.mark.parametrize(("labels", "length", "steps"), [
    ([0, 2], 2, 4), ([2, 2], 2, 4), ([2, 2], 2, 3), ([0, 0], 1, 3), ([2, 0], 0, 2), ([0, 2, 0], 3, 4),
])  # fmt: skip
def test_ctc_loss_is_the_sum_over_all_paths(blank, labels, length, steps):
    classes, time = 3, 4
    logits = normal(time, 1, classes)
    blank_class = blank % classes
    others = [c for c in range(classes) if c != blank_class]
    labels = [others[0] if v == 0 else others[1] for v in labels]
    p = np.exp(logits[:, 0]) / np.exp(logits[:, 0]).sum(-1, keepdims=True)
    total = sum(
        math.prod(p[t, c] for t, c in enumerate(path))
        for path in itertools.product(range(classes), repeat=steps)
        if collapsed(path, blank_class) == tuple(labels[:length])
    )
    found = tf.nn.ctc_loss([labels], logits, [length], [steps], blank_index=blank)
    np.testing.assert_allclose(found, [-math.log(total)], rtol=1e-10)
    across = tf.nn.ctc_loss([labels], np.moveaxis(logits, 0, 1), [length], [steps], False, blank_index=blank)
    np.testing.assert_allclose(across, found)


def test_derivatives_of_ctc_loss():
    logits = normal(4, 3, 3)
    labels, lengths, steps = [[1, 2], [2, 2], [1, 0]], [2, 2, 1], [4, 4, 3]
    check_gradients(lambda x: tf.nn.ctc_loss(labels, x, lengths, steps), logits)


def test_ctc_loss_of_what_cannot_be_is_large_and_finite():
    x = tf.constant(normal(2, 1, 3))
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.nn.ctc_loss([[1, 1]], x, [2], [2])
    assert 700 < loss.numpy().item() < 800
    assert np.isfinite(tape.gradient(loss, x)).all()


def test_weighted_cross_entropy():
    z, x = np.array([0.0, 1.0, 0.4]), np.array([-1.0, 0.5, 2.0])
    found = tf.nn.weighted_cross_entropy_with_logits(z, x, 2.5)
    p = 1 / (1 + np.exp(-x))
    np.testing.assert_allclose(found, -2.5 * z * np.log(p) - (1 - z) * np.log(1 - p))
    check_gradients(lambda z, x: tf.nn.weighted_cross_entropy_with_logits(z, x, 2.5), z, x)


def test_log_poisson_loss():
    z, c = np.array([0.0, 1.0, 5.0]), np.array([0.1, 0.2, 0.3])
    np.testing.assert_allclose(tf.nn.log_poisson_loss(z, c), np.exp(c) - c * z)
    full = tf.nn.log_poisson_loss(z, c, compute_full_loss=True)
    stirling = 5 * np.log(5) - 5 + 0.5 * np.log(2 * np.pi * 5)
    np.testing.assert_allclose(full, np.exp(c) - c * z + [0, 0, stirling])


@pytest.mark.parametrize("shape", [(3, 4), (2, 5, 3), (1500, 3), (2, 1500), (0, 4)])
@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_sparse_cross_entropy_of_few_and_many(shape, kind):
    logits = normal(*shape, dtype=np.float32)[..., ::-1]  # not in C order
    labels = RNG.integers(0, min(shape[-1], 200), shape[:-1]).astype(kind)
    x = tf.constant(logits)
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, x)
        total = tf.reduce_sum(loss)
    e = np.exp(logits.astype(np.float64))
    p, hot = e / e.sum(-1, keepdims=True), labels[..., None] == np.arange(shape[-1])
    np.testing.assert_allclose(loss, -np.log(p[hot].reshape(labels.shape)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(tape.gradient(total, x), p - hot, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("bad", [-1, 3, 255])
def test_labels_outside_the_classes_are_refused(bad):
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"label value of {bad} which is outside"):
        tf.nn.sparse_softmax_cross_entropy_with_logits([0, bad], tf.zeros([2, 3]))


def test_average_loss():
    assert tf.nn.compute_average_loss([1.0, 2.0, 6.0]).numpy() == 3
    assert tf.nn.compute_average_loss([1.0, 2.0], global_batch_size=4).numpy() == 0.75
    assert tf.nn.compute_average_loss([[1.0, 2.0], [3.0, 4.0]], sample_weight=[1.0, 2.0]).numpy() == 8.5
    assert tf.nn.compute_average_loss([1, 2]).dtype == tf.float64
    assert tf.nn.compute_average_loss([1.0], global_batch_size=0).numpy() == 0
    assert tf.nn.scale_regularization_loss([1.0, 2.0]).numpy() == 3


def test_sampled_losses():
    weights, biases, x = normal(6, 3), normal(6), normal(2, 3)
    labels = np.array([[1], [4]])
    everything = tf.nn.all_candidate_sampler(labels, 1, 6, True)
    full = tf.nn.sampled_softmax_loss(weights, biases, labels, x, 6, 6, 1, everything)
    expected = tf.nn.sparse_softmax_cross_entropy_with_logits(labels[:, 0], x @ weights.T + biases)
    np.testing.assert_allclose(full, expected)
    few = (np.array([0, 3]), np.full((2, 1), 0.5), np.array([0.4, 0.1]))
    check_gradients(lambda w, b, x: tf.nn.nce_loss(w, b, labels, x, 2, 6, 1, few), weights, biases, x)
    check_gradients(lambda w, b, x: tf.nn.sampled_softmax_loss(w, b, labels, x, 2, 6, 1, few), weights, biases, x)
    assert np.isfinite(tf.nn.nce_loss(weights, biases, labels, x, 3, 6)).all()


# -- ranking -----------------------------------------------------------------------------------------------------------
def test_top_k():
    x = np.array([[1.0, 3.0, 3.0, 2.0], [4.0, 0.0, -1.0, 4.0]])
    values, indices = tf.math.top_k(x, 2)
    assert values.numpy().tolist() == [[3, 3], [4, 4]]
    assert indices.numpy().tolist() == [[1, 2], [0, 3]]
    assert indices.dtype == tf.int32
    assert tf.nn.top_k is tf.math.top_k
    check_gradients(lambda x: tf.math.top_k(x, 3).values, distinct(2, 5))
    largest, where = tf.math.approx_max_k(x, 1, reduction_dimension=0)
    assert largest.numpy().tolist() == [[4, 3, 3, 4]]
    assert where.numpy().tolist() == [[1, 0, 0, 1]]
    assert tf.math.approx_min_k(x, 1)[0].numpy().tolist() == [[1], [-1]]


def test_in_top_k():
    scores = [[0.1, 0.9, 0.5], [0.9, 0.9, 0.1], [1.0, math.inf, 0.0], [0.0, 1.0, 2.0]]
    assert tf.math.in_top_k([2, 1, 0, 7], scores, 2).numpy().tolist() == [True, True, False, False]


# -- refusals ----------------------------------------------------------------------------------------------------------
IMAGE, FILTER = np.ones((1, 4, 4, 2), np.float32), np.ones((2, 2, 2, 1), np.float32)
Invalid, Missing = tf.errors.InvalidArgumentError, tf.errors.UnimplementedError
REFUSALS = [
    (lambda: tf.nn.conv2d(IMAGE, np.ones((2, 2, 3, 1), "f4"), 1, "VALID"), Invalid, "by filter depth: 2 vs 3"),
    (lambda: tf.nn.conv2d(IMAGE, np.ones((2, 2, 1, 3), "f4"), 1, "VALID"), Invalid, "number of groups: 3 vs 2"),
    (lambda: tf.nn.conv2d(IMAGE, FILTER, 1, "FULL"), Invalid, "'padding' of \"FULL\""),
    (lambda: tf.nn.conv2d(IMAGE[0], FILTER, 1, "VALID"), Invalid, "must be 4-dimensional"),
    (lambda: tf.nn.conv2d(IMAGE, FILTER[0], 1, "VALID"), Invalid, "filter must be 4-dimensional"),
    (lambda: tf.nn.conv2d(IMAGE, FILTER, [1, 2, 3], "VALID"), ValueError, "of length 1, 2 or 4"),
    (lambda: tf.nn.conv2d(IMAGE, FILTER, [2, 1, 1, 1], "VALID"), Missing, "batch and depth dimensions"),
    (lambda: tf.nn.conv2d(IMAGE, FILTER, 0, "VALID"), Invalid, "larger than 0"),
    (lambda: tf.nn.conv2d(tf.constant(IMAGE), tf.constant(FILTER, "float64"), 1, "VALID"), Invalid, "to be a float"),
    (lambda: tf.nn.conv2d(IMAGE.astype("i8"), FILTER.astype("i8"), 1, "VALID"), Invalid, "int64"),
    (lambda: tf.nn.conv2d(IMAGE, FILTER, 1, "VALID", "NWC"), Invalid, "data_format"),
    (lambda: tf.nn.conv2d(IMAGE, FILTER, 1, [[1, 1], [1, 1]]), ValueError, "must be of size 4"),
    (lambda: tf.nn.conv2d(IMAGE, FILTER, 1, [[1, 0], [1, 1], [1, 1], [0, 0]]), Invalid, "batch or depth"),
    (lambda: tf.nn.conv2d(IMAGE, FILTER, 1, [[0, 0], [-1, 1], [1, 1], [0, 0]]), Invalid, "nonnegative"),
    (lambda: tf.nn.convolution(IMAGE, FILTER[0, 0]), ValueError, "filters"),
    (lambda: tf.nn.conv2d_transpose(IMAGE, FILTER, [1, 9, 9, 2], 2), Invalid, "doesn't match|same out_depth"),
    (lambda: tf.nn.conv2d_transpose(IMAGE[..., :1], FILTER, [1, 9, 9, 2], 2), Invalid, "actual = 4, computed = 5"),
    (lambda: tf.nn.conv2d_transpose(IMAGE[..., :1], FILTER, [2, 8, 8, 2], 2), Invalid, "same batch size"),
    (lambda: tf.nn.conv2d_transpose(IMAGE[..., :1], FILTER, [1, 8, 8, 3], 2), Invalid, "input depth 3"),
    (lambda: tf.nn.conv2d_transpose(IMAGE[..., :1], FILTER, [8, 8], 2), ValueError, "output_shape"),
    (lambda: tf.nn.depthwise_conv2d(IMAGE, np.ones((2, 2, 3, 1), "f4"), [1] * 4, "SAME"), Invalid, "depth: 2 vs 3"),
    (lambda: tf.nn.max_pool2d(IMAGE[0], 2, 2, "VALID"), Invalid, "2 spatial dimensions"),
    (lambda: tf.nn.max_pool2d(IMAGE, [2, 2, 2], 2, "VALID"), ValueError, "ksize should be of length"),
    (lambda: tf.nn.max_pool2d(IMAGE, [2, 1, 1, 1], 1, "VALID"), Missing, "batch dimension"),
    (lambda: tf.nn.max_pool2d(IMAGE, 2, 1, [[0, 0], [2, 1], [1, 1], [0, 0]]), Invalid, "than the window size 2"),
    (lambda: tf.nn.max_pool2d(IMAGE, 0, 1, "VALID"), Invalid, "ksize must be positive"),
    (lambda: tf.nn.avg_pool2d(IMAGE.astype("i4"), 2, 1, "VALID"), Invalid, "int32"),
    (lambda: tf.nn.max_pool(IMAGE[0, 0], 2, 2, "VALID"), ValueError, "rank` must be 3, 4 or 5"),
    (lambda: tf.nn.pool(IMAGE, [2, 2], "MIN"), ValueError, "2-D MIN pooling is not supported"),
    (lambda: tf.nn.dilation2d(IMAGE, FILTER[..., 0], [1] * 4, "SAME", "NCHW", [1] * 4), ValueError, "NHWC"),
    (lambda: tf.nn.space_to_depth(IMAGE, 3), Invalid, "divisible by block_size: 3"),
    (lambda: tf.nn.space_to_depth(IMAGE, 1), Invalid, "at least minimum 2"),
    (lambda: tf.nn.depth_to_space(IMAGE, 2), Invalid, "divisible by: 4"),
    (lambda: tf.space_to_batch(IMAGE, [3, 3], [[0, 0], [0, 0]]), Invalid, r"padded_shape\[0\]=4"),
    (lambda: tf.batch_to_space(IMAGE, [2, 2], [[0, 0], [0, 0]]), Invalid, "product of block sizes"),
    (lambda: tf.nn.lrn(IMAGE[0]), Invalid, "4-dimensional"),
    (lambda: tf.nn.dropout(IMAGE, 1.5), ValueError, "rate=1.5"),
    (lambda: tf.nn.dropout(IMAGE.astype("i4"), 0.5), ValueError, "floating point"),
    (lambda: tf.nn.dropout(IMAGE, 0.5, noise_shape=[2, 2]), Invalid, "broadcastable"),
    (lambda: tf.nn.weighted_cross_entropy_with_logits([1.0], [1.0, 2.0], 1.0), ValueError, "same shape"),
    (lambda: tf.nn.log_poisson_loss([1.0], [1.0, 2.0]), ValueError, "same shape"),
    (lambda: tf.nn.compute_average_loss(1.0), ValueError, "at least rank 1"),
    (lambda: tf.nn.compute_average_loss([1.0], global_batch_size=2.0), TypeError, "integer"),
    (lambda: tf.nn.ctc_loss([[1]], IMAGE[0], [1, 1], [4, 4]), ValueError, "4 sequences"),
    (lambda: tf.nn.ctc_loss([[1]], IMAGE, [1], [4]), ValueError, "3 axes"),
    (lambda: tf.nn.ctc_loss([[1]], IMAGE[0, :, :1], [1], [4], blank_index=5), ValueError, "blank_index"),
    (lambda: tf.math.top_k([1.0], 2), Invalid, "Had 1, needed 2"),
    (lambda: tf.math.top_k([1.0], -1), Invalid, "k >= 0"),
    (lambda: tf.math.top_k(1.0), Invalid, "1-D"),
    (lambda: tf.math.in_top_k([1], [[1.0], [2.0]], 1), Invalid, "must match length of targets 1"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "says"), REFUSALS)
def test_refusals(call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_attention_against_numpy_and_numerically():
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(2, 4, 3)), rng.normal(size=(2, 5, 3)), rng.normal(size=(2, 5, 2))
    scores = q @ np.swapaxes(k, 1, 2) / np.sqrt(3)
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(tf.nn.scaled_dot_product_attention(q, k, v), weights @ v, rtol=1e-12)
    check_gradients(tf.nn.scaled_dot_product_attention, q, k, v)
    look = np.arange(5) < 3
    short = tf.nn.scaled_dot_product_attention(q, k[:, :3], v[:, :3])
    np.testing.assert_allclose(tf.nn.scaled_dot_product_attention(q, k, v, mask=look), short, rtol=1e-12)
    added = np.where(look, 0.0, -1e9)
    np.testing.assert_allclose(tf.nn.scaled_dot_product_attention(q, k, v, mask=added), short, rtol=1e-12)
    causal = tf.nn.scaled_dot_product_attention(k, k, v, is_causal=True, scale=1.0)
    np.testing.assert_allclose(np.asarray(causal)[:, 0], v[:, 0], rtol=1e-12)
    with pytest.raises(ValueError, match="exclude each other"):
        tf.nn.scaled_dot_product_attention(q, q, q, mask=look, is_causal=True)
    blind = tf.nn.scaled_dot_product_attention(q, k, v, mask=np.zeros(5, bool))
    assert np.isfinite(np.asarray(blind)).all()


# -- the sigmoid cross entropy: recorded from TensorFlow 2.21 ----------------------------------------------------------
def test_the_sigmoid_cross_entropy_does_not_cancel():
    """Where the sigmoid is near its label, loss and slopes are small numbers, not zeros."""
    x = tf.constant([-20.0, 0.0, 20.0, 200.0])
    for label, loss, slope in (
        (0.0, [2.0611537e-09, 0.6931472, 20.0, 200.0], [2.0611535e-09, 0.5, 1.0, 1.0]),
        (1.0, [20.0, 0.6931472, 2.0611537e-09, 0.0], [-1.0, -0.5, -2.0611535e-09, 0.0]),
    ):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.nn.sigmoid_cross_entropy_with_logits(tf.fill([4], label), x)
            first = inner.gradient(y, x)
        np.testing.assert_allclose(y, loss, rtol=1e-6)
        np.testing.assert_allclose(first, slope, rtol=1e-6)
        np.testing.assert_allclose(outer.gradient(first, x), [2.0611535e-09, 0.25, 2.0611535e-09, 0.0], rtol=1e-6)


def test_logsumexp_far_from_zero():
    """Its gradient adds up to 1 however large the result is; infinite numbers as in TensorFlow."""
    x = tf.constant([1e5, 1e5 + 0.1015625, 1e5])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_logsumexp(x)
    np.testing.assert_allclose(tape.gradient(y, x), [0.3218643, 0.3562713, 0.3218643], rtol=1e-5)
    x = tf.constant([np.inf, 1.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_logsumexp(x)
    np.testing.assert_array_equal(tape.gradient(y, x), [np.nan, 0.0])
