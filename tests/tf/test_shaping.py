"""Shaping, slicing, looking up and scattering, against NumPy; derivatives against numbers."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as tf
from gradtape.testing import check_gradients

Invalid = tf.errors.InvalidArgumentError


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def same(tensor, expected):
    expected = np.asarray(expected)
    assert tuple(tensor.shape) == expected.shape
    np.testing.assert_allclose(tensor.numpy(), expected, rtol=1e-6, atol=1e-7)


# -- repeating ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("shape", "times"), [((2, 3), (1, 2)), ((2, 3), (3, 1)), ((2, 1, 2), (2, 2, 2)), ((3,), (0,)), ((), ())]
)
def test_tile(shape, times):
    x = numbers(*shape)
    same(tf.tile(x, np.array(times, np.int32)), np.tile(x, times))
    if x.size and 0 not in times:
        check_gradients(lambda a: tf.tile(a, np.array(times, np.int32)) ** 2, x)


@pytest.mark.parametrize(
    ("repeats", "axis"), [(2, None), (2, 0), (3, -1), ([1, 0, 3], 1), ([2, 1], 0), ([2], 1), (0, 0)]
)
def test_repeat(repeats, axis):
    x = numbers(2, 3)
    same(tf.repeat(x, repeats, axis=axis), np.repeat(x, repeats, axis=axis))
    check_gradients(lambda a: tf.repeat(a, repeats, axis=axis) ** 2, x)


def test_repeat_has_a_dense_gradient():
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = tf.repeat(x, [1, 2], axis=0)
    assert isinstance(tape.gradient(y, x), tf.Tensor)


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_meshgrid(indexing):
    parts = [numbers(n, seed=n) for n in (2, 3, 4)]
    for count in (1, 2, 3):
        for got, expected in zip(
            tf.meshgrid(*parts[:count], indexing=indexing), np.meshgrid(*parts[:count], indexing=indexing), strict=True
        ):
            same(got, expected)
    check_gradients(lambda a, b: [g * g for g in tf.meshgrid(a, b, indexing=indexing)], parts[0], parts[1])


# -- padding -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("mode", "numpy_mode"), [("REFLECT", "reflect"), ("symmetric", "symmetric")])
def test_pad_mirrors(mode, numpy_mode):
    x, widths = numbers(3, 4), [[1, 2], [0, 3]]
    same(tf.pad(x, widths, mode), np.pad(x, widths, numpy_mode))
    check_gradients(lambda a: tf.pad(a, widths, mode) ** 2, x)


def test_pad_constant():
    x, widths = numbers(2, 3), [[1, 0], [2, 1]]
    same(tf.pad(x, widths), np.pad(x, widths))
    same(tf.pad(x, widths, constant_values=9.0), np.pad(x, widths, constant_values=9.0))
    same(tf.pad(tf.constant([1, 2]), [[1, 1]], constant_values=7), [7, 1, 2, 7])
    assert tf.pad([True], [[1, 0]]).numpy().tolist() == [False, True]
    assert tf.pad(["a"], [[1, 0]], constant_values="z").numpy().tolist() == [b"z", b"a"]
    assert tf.pad(3.0, np.zeros((0, 2), np.int32)).shape == ()
    check_gradients(lambda a: tf.pad(a, widths, constant_values=2.0) ** 2, x)
    value = tf.constant(3.0, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(value)
        y = tf.pad(x, widths, constant_values=value)
    assert tape.gradient(y, value) is None


# -- turning -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("shift", "axis"), [(1, 0), (-2, 1), ([1, 2], [0, -1]), ([1, 1], [0, 0]), (7, 1)])
def test_roll(shift, axis):
    x = numbers(2, 4)
    same(tf.roll(x, shift, axis), np.roll(x, shift, axis))
    check_gradients(lambda a: tf.roll(a, shift, axis) ** 2, x)


def test_reverse_sequence():
    x = numbers(3, 4, 2)
    lengths = [2, 0, 4]
    expected = x.copy()
    for i, n in enumerate(lengths):
        expected[i, :n] = x[i, :n][::-1]
    same(tf.reverse_sequence(x, lengths, seq_axis=1, batch_axis=0), expected)
    turned = tf.reverse_sequence(np.moveaxis(x, 0, 2), lengths, seq_axis=0, batch_axis=2)
    same(turned, np.moveaxis(expected, 0, 2))
    check_gradients(lambda a: tf.reverse_sequence(a, lengths, seq_axis=1, batch_axis=0) ** 2, x)


# -- slices ------------------------------------------------------------------------------------------------------------
def test_slice():
    x = numbers(3, 4)
    same(tf.slice(x, [1, 0], [2, 3]), x[1:3, :3])
    same(tf.slice(x, tf.constant([0, 1]), tf.constant([-1, 2])), x[:, 1:3])
    same(tf.slice(x, [3, 0], [0, 0]), x[3:3, :0])
    check_gradients(lambda a: tf.slice(a, [1, 0], [2, 3]) ** 2, x)


def test_strided_slice_and_its_masks():
    x = numbers(3, 4, 5)
    same(tf.strided_slice(x, [0, 1, 0], [3, 4, 5], [2, 1, 3]), x[0:3:2, 1:4, 0:5:3])
    same(tf.strided_slice(x, [2, 0], [0, 4], [-1, 2]), x[2:0:-1, 0:4:2])
    same(tf.strided_slice(x, [1], [2]), x[1:2])
    same(tf.strided_slice(x, [1, 1], [1, 2], begin_mask=1, end_mask=2), x[:1, 1:])
    same(tf.strided_slice(x, [0, 1], [0, 3], ellipsis_mask=1), x[..., 1:3])
    same(tf.strided_slice(x, [1, 0, 2], [2, 0, 3], ellipsis_mask=2, shrink_axis_mask=5), x[1, ..., 2])
    same(tf.strided_slice(x, [0, 0, 1], [1, 1, 3], new_axis_mask=1), x[None, 0:1, 1:3])
    same(tf.strided_slice(x, [-1], [0], shrink_axis_mask=1), x[-1])
    same(tf.strided_slice(x, [0, 0], [0, 2], new_axis_mask=2, ellipsis_mask=1), x[..., None])
    check_gradients(
        lambda a: tf.strided_slice(a, [1, 0, 4], [2, 0, 0], [1, 1, -2], ellipsis_mask=2, new_axis_mask=0) ** 2, x
    )


# -- masks and several at once -----------------------------------------------------------------------------------------
def test_sequence_mask():
    assert tf.sequence_mask([1, 3, 0], 4).numpy().tolist() == [[1, 0, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0]]
    assert tf.sequence_mask([[1, 2]]).shape == (1, 2, 2)
    assert tf.sequence_mask(2, 3).numpy().tolist() == [True, True, False]
    assert tf.sequence_mask([1, 2], dtype="float16").dtype == tf.float16
    assert tf.sequence_mask(tf.zeros([0], tf.int32)).shape == (0, 0)


def test_lists_of_tensors():
    x = tf.ones([2, 3])
    assert [s.numpy().tolist() for s in tf.shape_n([x, x[0]], "int64")] == [[2, 3], [3]]
    a, b = tf.identity_n([tf.constant(1), 2.0])
    assert (a.dtype, b.dtype) == (tf.int32, tf.float32)
    same(tf.parallel_stack([[1, 2], [3, 4]]), [[1, 2], [3, 4]])
    assert tf.get_static_value(tf.constant([1])).tolist() == [1]
    same(tf.unravel_index([1, 5], [2, 3]), [[0, 1], [1, 2]])


def test_bitcast():
    assert tf.bitcast(1.0, tf.int32).numpy() == 0x3F800000
    assert tf.bitcast(tf.constant([1, 2, 3, 4], tf.uint8), tf.int32).shape == ()
    assert tf.bitcast(tf.constant([1]), tf.uint8).numpy().tolist() == [[1, 0, 0, 0]]
    assert tf.bitcast([1.0, 2.0], tf.complex64).numpy() == 1 + 2j
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = tf.bitcast(x, tf.complex64)
    with pytest.raises(LookupError, match="no entry for: Bitcast"):
        tape.gradient(y, x)


# -- scatters ----------------------------------------------------------------------------------------------------------
def test_scatter_nd():
    u = numbers(3, 2)
    expected = np.zeros((4, 2))
    np.add.at(expected, [1, 3, 1], u)
    same(tf.scatter_nd([[1], [3], [1]], u, [4, 2]), expected)
    check_gradients(lambda a: tf.scatter_nd([[1], [3], [1]], a, [4, 2]) ** 2, u)
    same(tf.scatter_nd([[7], [1]], [1.0, 2.0], [3], bad_indices_policy="IGNORE"), [0, 2, 0])


@pytest.mark.parametrize(
    ("function", "ufunc"), [(tf.tensor_scatter_nd_add, np.add), (tf.tensor_scatter_nd_sub, np.subtract),
                            (tf.tensor_scatter_nd_max, np.maximum), (tf.tensor_scatter_nd_min, np.minimum)]
)  # fmt: skip
def test_tensor_scatter(function, ufunc):
    x, u, where = numbers(4, 2), numbers(3, 2, seed=1), np.array([[2], [0], [2]])
    expected = x.copy()
    ufunc.at(expected, where[:, 0], u)
    same(function(x, where, u), expected)
    check_gradients(lambda a, b: function(a, where, b) ** 2, x, u)
    single = np.array([[0, 1], [3, 0]])
    expected = x.copy()
    ufunc.at(expected, tuple(single.T), u[0])
    same(function(x, single, u[0]), expected)
    kept = function(x, [[9], [0]], u[:2], bad_indices_policy="IGNORE")
    expected = x.copy()
    ufunc.at(expected, [0], u[1:2])
    same(kept, expected)


def test_tensor_scatter_update():
    x, u = numbers(4, 2), numbers(2, 2, seed=1)
    expected = x.copy()
    expected[[2, 0]] = u
    same(tf.tensor_scatter_nd_update(x, [[2], [0]], u), expected)
    check_gradients(lambda a, b: tf.tensor_scatter_nd_update(a, [[2], [0]], b) ** 2, x, u)
    same(tf.tensor_scatter_nd_update([1.0, 2.0], [[0], [0]], [5.0, 6.0]), [6, 2])


@pytest.mark.parametrize("function", [tf.tensor_scatter_nd_max, tf.tensor_scatter_nd_min])
def test_tensor_scatter_shares_ties(function):
    x, u = tf.Variable([3.0, 2.0]), tf.Variable([3.0, 3.0])
    with tf.GradientTape() as tape:
        y = function(x, [[0], [0]], u)
    dx, du = tape.gradient(y, [x, u])
    same(dx, [1 / 3, 1])
    same(du, [1 / 3, 1 / 3])


# -- partitions --------------------------------------------------------------------------------------------------------
def test_dynamic_partition_and_stitch():
    x, ids = numbers(5, 2), [0, 1, 0, 1, 1]
    first, second, none = tf.dynamic_partition(x, ids, 3)
    same(first, x[[0, 2]])
    same(second, x[[1, 3, 4]])
    assert none.shape == (0, 2)
    check_gradients(lambda a: [p * p for p in tf.dynamic_partition(a, ids, 2)], x)
    matrix = tf.dynamic_partition(tf.reshape(tf.range(6), [2, 3]), [[0, 1, 0], [1, 1, 0]], 2)
    assert [m.numpy().tolist() for m in matrix] == [[0, 2, 5], [1, 3, 4]]
    same(tf.dynamic_stitch([[0, 2], [1, 3, 4]], [first, second]), x)
    same(tf.dynamic_stitch([0, [2]], [1.0, [2.0]]), [1, 0, 2])
    same(tf.dynamic_stitch([[0], [0, 1]], [[1.0], [2.0, 3.0]]), [2, 3])
    check_gradients(lambda a, b: tf.dynamic_stitch([[0, 2], [1, 3, 4]], [a, b]) ** 2, x[:2], x[2:])


# -- searching and counting --------------------------------------------------------------------------------------------
def test_searchsorted():
    rows, values = np.sort(numbers(2, 5), axis=1), numbers(2, 3, seed=1)
    for side in ("left", "right"):
        expected = [np.searchsorted(r, v, side) for r, v in zip(rows, values, strict=True)]
        same(tf.searchsorted(rows, values, side=side), expected)
    assert tf.searchsorted([1, 3], [2], out_type=tf.int64).dtype == tf.int64
    assert tf.searchsorted([1, 3], [2]).dtype == tf.int32


def test_unique():
    y, idx = tf.unique([3, 1, 3, 2, 1])
    assert (y.numpy().tolist(), idx.numpy().tolist(), idx.dtype) == ([3, 1, 2], [0, 1, 0, 2, 1], tf.int32)
    found = tf.unique_with_counts(["b", "a", "b"], out_idx=tf.int64)
    assert (found.y.numpy().tolist(), found.count.numpy().tolist(), found.idx.dtype) == ([b"b", b"a"], [2, 1], tf.int64)
    assert tf.unique(tf.zeros([0])).y.shape == (0,)
    x = tf.Variable([1.0, 2.0, 1.0])
    with tf.GradientTape() as tape:
        y = tf.unique(x).y
    with pytest.raises(LookupError, match="no entry for: Unique"):
        tape.gradient(y, x)


def test_permutations_and_order():
    assert tf.math.invert_permutation([2, 0, 1]).numpy().tolist() == [1, 2, 0]
    assert bool(tf.math.is_non_decreasing([1, 1, 2]))
    assert not bool(tf.math.is_strictly_increasing([1, 1, 2]))


def test_histogram_and_bincount():
    values = [-1.0, 0.0, 1.5, 2.0, 5.0, 15.0]
    assert tf.histogram_fixed_width_bins(values, [0.0, 5.0], nbins=5).numpy().tolist() == [0, 0, 1, 2, 4, 4]
    assert tf.histogram_fixed_width(values, [0.0, 5.0], nbins=5).numpy().tolist() == [2, 1, 1, 0, 2]
    assert tf.histogram_fixed_width([1, 2, 3], [0, 5], 5, "int64").dtype == tf.int64
    assert tf.math.bincount([1, 1, 7], minlength=4, maxlength=3).numpy().tolist() == [0, 2, 0]
    assert tf.math.bincount([[1, 1, 2], [0, 0, 0]], axis=-1).numpy().tolist() == [[0, 2, 1], [3, 0, 0]]
    assert tf.math.bincount([[1, 1, 2], [0, 0, 0]], axis=-1, binary_output=True).numpy().tolist() == [
        [0, 1, 1],
        [1, 0, 0],
    ]
    weights = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert tf.math.bincount([[1, 1, 2], [0, 0, 0]], weights, axis=-1).numpy().tolist() == [[0, 3, 3], [15, 0, 0]]
    assert tf.math.bincount([1], dtype=tf.float64).dtype == tf.float64
    assert tf.math.bincount(tf.zeros([0], tf.int32)).shape == (0,)


def test_confusion_matrix():
    assert tf.math.confusion_matrix([1, 2, 4], [2, 2, 4]).numpy().tolist() == [
        [0, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 1],
    ]  # fmt: skip
    got = tf.math.confusion_matrix([1, 2], [2, 2], num_classes=3, weights=[0.5, 2.0], dtype=tf.float32)
    assert got.numpy().tolist() == [[0, 0, 0], [0, 0, 0.5], [0, 0, 2]]
    check_gradients(lambda w: tf.math.confusion_matrix([1, 2], [2, 2], 3, w, "float64") ** 2, [0.5, 2.0])


# -- the older ones: edges that TensorFlow has facts about -------------------------------------------------------------
def test_edges_of_shapes():
    assert tf.reshape(tf.zeros([0, 3]), [-1, 0]).shape == (3, 0)
    assert tf.reshape(tf.zeros([0, 3]), [-1, 3]).shape == (0, 3)
    assert tf.stack([]).shape == (0,)
    assert tf.linspace(0.0, 10.0, 0).shape == (0,)
    assert tf.linspace(0, 10, 5).dtype == tf.float64
    assert tf.squeeze(tf.zeros([1, 2, 1]), axis=[-1]).shape == (1, 2)
    assert tf.one_hot([0, 1, 2], 2, axis=0).numpy().tolist() == [[1, 0, 0], [0, 1, 0]]
    assert tf.one_hot([0], 2, on_value="a", off_value="b").numpy().tolist() == [[b"a", b"b"]]
    known = tf.broadcast_static_shape(tf.TensorShape([None, 1]), tf.TensorShape([3]))
    assert known.as_list() == [None, 3]
    assert tf.gather_nd(tf.ones([2, 3]), [[0, 7], [1, 1]], bad_indices_policy="IGNORE").numpy().tolist() == [0, 1]
    assert tf.argmax([True, False]).numpy() == 0
    assert tf.argmax([1, 2], output_type=tf.int32).dtype == tf.int32
    assert tf.math.reduce_euclidean_norm([3, 5]).numpy() == 5
    assert tf.math.count_nonzero(["a", ""]).numpy() == 1
    assert np.isnan(tf.math.zero_fraction(tf.zeros([0])).numpy())


X = tf.ones([2, 3])
REFUSED = [
    (lambda: tf.tile(X, [-1, 1]), Invalid, r"Expected multiples\[0\] >= 0"),
    (lambda: tf.tile(X, [1]), Invalid, "vector of length 2 but got length 1"),
    (lambda: tf.repeat(tf.constant([1, 2, 3]), [1, 2], axis=0), ValueError, "Dimensions 3 and 2"),
    (lambda: tf.repeat([1, 2], [1.0, 2.0]), TypeError, "must be of type integer"),
    (lambda: tf.repeat([1, 2], 2, axis=3), ValueError, "out of bounds"),
    (lambda: tf.pad(X, [[1, 1], [0, 0]], "EDGE"), ValueError, "expected to be one of"),
    (lambda: tf.pad(X, [[1, 1]]), Invalid, "must be the rank of inputs"),
    (lambda: tf.pad(X, [[-1, 1], [0, 0]]), Invalid, "non-negative"),
    (lambda: tf.pad(X, [[2, 0], [0, 0]], "REFLECT"), Invalid, "less than the dimension size"),
    (lambda: tf.pad(X, [[3, 0], [0, 0]], "SYMMETRIC"), Invalid, "no greater than the dimension size"),
    (lambda: tf.pad(tf.constant([1]), [[1, 1]], constant_values=1.5), TypeError, "Cannot convert 1.5"),
    (lambda: tf.roll(X, [1, 2], [0]), Invalid, "same size"),
    (lambda: tf.roll(X, 1, 5), Invalid, "axis 5 is out of range"),
    (lambda: tf.roll(1.0, 1, 0), Invalid, "1-D or higher"),
    (lambda: tf.reverse_sequence(X, [1, 5], seq_axis=1, batch_axis=0), Invalid, r"seq_lens\(1\) > input.dims\(1\)"),
    (lambda: tf.reverse_sequence(X, [1], seq_axis=1), Invalid, "Length of seq_lengths"),
    (lambda: tf.reverse_sequence(X, [1, 1], seq_axis=0), Invalid, "batch_dim == seq_dim"),
    (lambda: tf.meshgrid([1], [2], indexing="zz"), ValueError, "'xy' or 'ij'"),
    (lambda: tf.meshgrid([1], foo=1), TypeError, "invalid keyword"),
    (lambda: tf.slice([1, 2, 3], [1], [5]), Invalid, r"Expected size\[0\] in \[0, 2\], but got 5"),
    (lambda: tf.slice([1, 2, 3], [-1], [1]), Invalid, r"Expected begin\[0\] in \[0, 3\]"),
    (lambda: tf.slice(X, [0], [1]), Invalid, "tensors of size 2"),
    (lambda: tf.strided_slice(X, [0, 0], [1, 1], [0, 1]), Invalid, "non-zero"),
    (lambda: tf.strided_slice(X, [5], [6], shrink_axis_mask=1), Invalid, "slice index 5 of dimension 0"),
    (lambda: tf.strided_slice(X, [0] * 3, [1] * 3), Invalid, "input has only 2 dims"),
    (lambda: tf.sequence_mask([1], [1, 2]), ValueError, "must be scalar"),
    (lambda: tf.bitcast(tf.constant([1, 2, 3], tf.uint8), tf.int32), Invalid, "Cannot bitcast"),
    (lambda: tf.unravel_index([9], [2, 3]), Invalid, "out of bound"),
    (lambda: tf.scatter_nd([[7]], [1.0], [3]), Invalid, r"indices\[0\] = \[7\] does not index into shape \[3\]"),
    (lambda: tf.scatter_nd([[1], [2]], [1.0], [3]), Invalid, "must match dimensions"),
    (lambda: tf.tensor_scatter_nd_add([1.0, 2.0], [[-1]], [1.0]), Invalid, "does not index into"),
    (lambda: tf.tensor_scatter_nd_update([1.0], [[0]], 1.0), Invalid, "rank at least one"),
    (lambda: tf.tensor_scatter_nd_add(tf.constant([1]), [[0]], [1.5]), TypeError, "Cannot convert"),
    (lambda: tf.dynamic_partition([1, 2], [0, 3], 2), Invalid, r"partitions\[1\] = 3 is not in \[0, 2\)"),
    (lambda: tf.dynamic_partition([1, 2], [0], 2), Invalid, "must start with"),
    (lambda: tf.dynamic_stitch([[-1]], [[1]]), Invalid, "out of range"),
    (lambda: tf.dynamic_stitch([[0]], [[1], [2]]), ValueError, "must match length"),
    (lambda: tf.searchsorted([1], [1], side="mid"), ValueError, "`side`"),
    (lambda: tf.searchsorted([1.0], [1]), Invalid, "was expected to be a float"),
    (lambda: tf.searchsorted([[1], [2]], [[1]]), Invalid, "Leading dim_size"),
    (lambda: tf.unique([[1]]), Invalid, "1D vector"),
    (lambda: tf.math.invert_permutation([2, 0, 2]), Invalid, "2 is duplicated"),
    (lambda: tf.math.invert_permutation([3, 0, 1]), Invalid, "3 is not between 0 and 3"),
    (lambda: tf.histogram_fixed_width([1.0], [5.0, 0.0]), Invalid, "value_range"),
    (lambda: tf.histogram_fixed_width([1.0], [0.0, 5.0], nbins=0), Invalid, "nbins"),
    (lambda: tf.histogram_fixed_width([float("nan")], [0.0, 5.0]), Invalid, "NaN"),
    (lambda: tf.math.bincount([1, -1]), Invalid, "non-negative"),
    (lambda: tf.math.confusion_matrix([1, 5], [2, 2], num_classes=3), Invalid, "out of bound"),
    (lambda: tf.math.confusion_matrix([1, -5], [2, 2]), Invalid, "negative"),
    (lambda: tf.reshape(X, [-2, 3]), Invalid, "Size 0 must be non-negative, not -2"),
    (lambda: tf.transpose(X, [0]), Invalid, "vector of size 2"),
    (lambda: tf.squeeze(X, axis=[3]), Invalid, "squeeze dim index 3"),
    (lambda: tf.reverse(X, [0, 0]), Invalid, "more than once"),
    (lambda: tf.concat([1.0, 2.0], 0), Invalid, "Can't concatenate scalars"),
    (lambda: tf.concat([X, [1.0]], 0), Invalid, "Ranks of all input tensors"),
    (lambda: tf.unstack(X, num=5), Invalid, "must equal 5"),
    (lambda: tf.unstack(1.0), ValueError, "not in range"),
    (lambda: tf.split(X, [-1, -1], axis=1), Invalid, "only be one -1"),
    (lambda: tf.split(X, 0), Invalid, "at least minimum 1"),
    (lambda: tf.where([1, 0], [1, 2], [3, 4]), TypeError, "Cannot convert \\[1, 0\\] to EagerTensor of dtype bool"),
    (lambda: tf.where(tf.constant([1, 0]), [1, 2], [3, 4]), ValueError, "requested dtype bool"),
    (lambda: tf.where([True, False], [1, 2], [3, 4, 5]), Invalid, "must be broadcastable"),
    (lambda: tf.gather(X, [0], axis=5), Invalid, "at least rank 6"),
    (lambda: tf.gather(X, [[0], [1], [1]], batch_dims=1), Invalid, "should be equal to indices.shape"),
    (lambda: tf.argmax(X, axis=5), Invalid, r"range \[-2, 2\), but got 5"),
    (lambda: tf.argmax(tf.zeros([0])), Invalid, "is empty"),
    (lambda: tf.reduce_sum(X, [0, 0]), Invalid, "duplicate dimension: 0"),
    (lambda: tf.reduce_sum([True]), Invalid, "not in the list of allowed values"),
    (lambda: tf.reduce_any([1.0]), TypeError, "Cannot convert \\[1.0\\] to EagerTensor of dtype bool"),
    (lambda: tf.reduce_max([1j]), Invalid, "not in the list of allowed values"),
    (lambda: tf.cumsum(X, 5), Invalid, "scan axis"),
    (lambda: tf.sort([1], direction="x"), ValueError, "ASCENDING, DESCENDING"),
    (lambda: tf.sort([True]), Invalid, "not in the list of allowed values"),
    (lambda: tf.zeros([-1]), Invalid, "Dimension -1 must be >= 0"),
    (lambda: tf.range([1, 2], 5), Invalid, "start must be a scalar"),
    (lambda: tf.one_hot([0], -2), Invalid, "depth must be non-negative"),
    (lambda: tf.one_hot([0.0], 2), Invalid, "not in the list of allowed values"),
    (lambda: tf.broadcast_to(X, [3]), Invalid, "Rank of input"),
    (lambda: tf.broadcast_static_shape(tf.TensorShape([2]), tf.TensorShape([3])), ValueError, "Incompatible shapes"),
    (lambda: tf.ensure_shape(X, [2, None, 2]), Invalid, "not compatible with expected shape"),
]


@pytest.mark.parametrize(("call", "error", "says"), REFUSED)
def test_refusals(call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_root_and_math_names_are_one():
    assert tf.math.cumsum is tf.cumsum
    assert tf.math.argmax is tf.argmax


def test_initializers():
    assert tf.zeros_initializer()([2]).numpy().tolist() == [0, 0]
    assert tf.ones_initializer()([2], tf.int32).dtype == tf.int32
    assert tf.constant_initializer([1, 2])([2]).numpy().tolist() == [1, 2]
    assert tf.constant_initializer.from_config({"value": 3})([1]).numpy().tolist() == [3]
    for made in (tf.random_normal_initializer(seed=1), tf.random_uniform_initializer(seed=1)):
        assert made([2, 3]).shape == (2, 3)
        assert type(made).from_config(made.get_config())([2], "float64").dtype == tf.float64
    for call, error, says in (
        (lambda: tf.zeros_initializer()([2], tf.string), ValueError, "numeric or boolean"),
        (lambda: tf.random_normal_initializer()([2], tf.int32), ValueError, "floating point"),
        (lambda: tf.constant_initializer({}), TypeError, "Invalid type for initial value"),
        (lambda: tf.constant_initializer([1, 2])([3]), TypeError, "unsupported shape"),
        (lambda: tf.zeros_initializer()([2], foo=1), TypeError, "Keyword argument"),
    ):
        with pytest.raises(error, match=says):
            call()


@pytest.mark.parametrize(
    ("call", "expected"),
    [  # recorded from TensorFlow
        (lambda: tf.concat([[1], [2]], [0]), [1, 2]),
        (lambda: tf.concat([[1.0], [2]], 0), [1.0, 2.0]),
        (lambda: tf.expand_dims([1, 2], [0]), [[1, 2]]),
        (lambda: tf.fill([2], [7]), [7, 7]),
        (lambda: tf.range([3]), [0, 1, 2]),
        (lambda: tf.reshape([1, 2], 2), [1, 2]),
        (lambda: tf.add_n(tf.constant([[1, 2], [3, 4]])), [4, 6]),  # a tensor is the list of its rows
        (lambda: tf.sequence_mask([1.7, 0.2], 2), [[True, False], [False, False]]),
        (lambda: tf.sequence_mask([1.7, 0.2]), [[True, True], [True, False]]),
        (lambda: tf.searchsorted([[1.0, 2.0]], [1.5]), [1]),
        (lambda: tf.math.bincount([1.0, 1.0, 3.0]), [0, 2, 0, 1]),
        (lambda: tf.math.bincount([1, 2], weights=[]), [0, 1, 1]),
        (lambda: tf.math.invert_permutation([]), []),
        (lambda: tf.math.zero_fraction(["", "a"]), 0.5),
        (lambda: tf.nn.weighted_moments([[1.0, 2.0], [3.0, 4.0]], [0], [[0, 1], [0, 1]])[0], [0.0, 3.0]),
        (lambda: tf.nn.compute_average_loss([1, 2, 3], [0.5, 0.5, 0.5]), 2 / 3),
        (lambda: tf.foldl(lambda a, x: a + x, tf.constant([1.0, 2.0]), initializer=0), 3.0),
        (lambda: tf.foldr(lambda a, x: 2 * a + x, tf.constant([1, 2], tf.int64), initializer=1), 9),
        (lambda: tf.signal.fft([1.0, 2.0]), [3, -1]),
        (lambda: tf.signal.rfft([1, 2]), [3, -1]),
        (lambda: tf.constant([True, False]) * tf.constant([True, True]), [True, False]),
        (lambda: tf.constant([np.float32(1.5), 2]), [1.5, 2.0]),
        (lambda: tf.constant([300, -1], tf.uint8), [44, 255]),
    ],
)
def test_arguments_that_are_fine(call, expected):
    np.testing.assert_allclose(call(), expected)


def test_lists_of_numpy_scalars_take_the_default_dtypes():
    assert tf.constant([np.int64(3)]).dtype == tf.int32
    assert tf.constant([np.int8(3), 2**40]).dtype == tf.int64
    assert tf.constant([np.float32(1.5), 2]).dtype == tf.float32
    assert tf.constant([2, np.float64(1.5)]).dtype == tf.float32
    assert tf.constant([np.float64(1.5), 2]).dtype == tf.float64
    assert tf.constant([np.array([1, 2]), np.array([3, 4])]).dtype == tf.int32
    assert tf.convert_to_tensor([tf.constant(1), 2.5], tf.float64).numpy().tolist() == [1.0, 2.5]


@pytest.mark.parametrize("dtype", ["float32", "int8", "int64", "complex64"])
def test_size_in_any_dtype_of_numbers(dtype):
    sizes = [tf.size(tf.ones([2, 3]), dtype), tf.function(lambda: tf.size(tf.ones([2, 3]), dtype))()]
    assert [(s.dtype.name, s.numpy()) for s in sizes] == [(dtype, 6)] * 2


def test_size_is_no_text():
    with pytest.raises(TypeError, match="Cannot convert 6 to EagerTensor of dtype string"):
        tf.size(tf.ones([2, 3]), tf.string)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda n: tf.tile(tf.ones([1, 2]), [n, 1]), [2, 2]),
        (lambda n: tf.reshape(tf.ones([4]), [n, -1]), [2, 2]),
        (lambda n: tf.fill([n, 1], 3.0), [2, 1]),
        (lambda n: tf.broadcast_to(1.0, [n, 2]), [2, 2]),
        (lambda n: tf.pad(tf.ones([2, 2]), [[n, 1], [0, 0]]), [5, 2]),
        (lambda n: tf.transpose(tf.ones([2, 3]), [n - 1, 0]), [3, 2]),
        (lambda n: tf.reduce_sum(tf.ones([2, 3]), [n - 1]), [2]),
    ],
)
def test_floating_point_tensors_in_lists_of_sizes_are_cast(function, shape, compiled):
    """As TensorFlow does where the dtype of a list is int32 by default; the tensor alone is refused."""
    run = tf.function(function) if compiled else function
    assert run(tf.constant(2.0)).shape == shape


def test_a_floating_point_tensor_of_sizes_is_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match="Tmultiples"):
        tf.tile(tf.ones([1]), tf.constant([2.0]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Tindices"):
        tf.gather(tf.ones([2]), [tf.constant(1.0), 0])


@pytest.mark.parametrize(
    ("start", "limit", "dtype"),
    [
        ("int32", "int64", "int64"),
        ("int64", "float16", "float16"),
        ("float16", "int32", "float16"),
        ("float16", "bfloat16", "bfloat16"),
        ("bfloat16", "float32", "float32"),
        ("float64", "float16", "float64"),
    ],
)
def test_a_range_has_the_wider_dtype(start, limit, dtype):
    first, last = tf.constant(1, start), tf.constant(4, limit)
    for numbers in (tf.range(first, last), tf.function(lambda: tf.range(first, last))()):
        assert numbers.dtype.name == dtype
        assert numbers.numpy().astype(float).tolist() == [1.0, 2.0, 3.0]


def test_a_range_of_half_precision_keeps_fractions():
    assert tf.range(tf.constant(0.5, tf.float16), 3.0, dtype=None).dtype == tf.float32
    assert tf.range(tf.constant(0.5, tf.float16), tf.constant(3.0, tf.float16)).numpy().tolist() == [0.5, 1.5, 2.5]


@pytest.mark.parametrize(
    ("arguments", "size"),  # recorded from TensorFlow 2.21, which computes the length in the dtype
    [
        ((0.0, 0.3, 0.1), 3),
        ((-2.0, 1.0, 0.00375), 800),
        ((0.0, 1.0, 0.1), 10),
        ((1.0, 0.0, -0.25), 4),
        ((0.0, 0.0, 0.1), 0),
    ],
)
def test_lengths_of_ranges_of_floats(arguments, size):
    assert tf.range(*arguments).shape == [size]
    assert tf.function(lambda: tf.range(*map(tf.constant, arguments)))().shape == [size]
    assert tf.range(*arguments, dtype=tf.float64).shape == [int(np.ceil((arguments[1] - arguments[0]) / arguments[2]))]
