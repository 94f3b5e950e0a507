"""IndexedSlices: the gradient of a lookup stays sparse until something needs it dense."""

from __future__ import annotations

import re

import numpy as np
import pytest

import gradtape as tf

c = tf.constant
TABLE = np.arange(8.0, dtype=np.float32).reshape(4, 2)


def lookup_gradient(f, source=None, seed=None):
    x = c(TABLE) if source is None else source
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x, output_gradients=seed)


SPARSE = {
    "gather": lambda x: tf.gather(x, [2, 0, 2]),
    "gather of a matrix of indices": lambda x: tf.gather(x, [[2, 0], [2, 1]]),
    "gather of one": lambda x: tf.gather(x, 2),
    "gather with int64": lambda x: tf.gather(x, c([2, 0], tf.int64)),
    "embedding_lookup": lambda x: tf.nn.embedding_lookup(x, [3, 3]),
    "gather_nd of rows": lambda x: tf.gather_nd(x, [[1], [1]]),
    "two lookups": lambda x: tf.gather(x, [0, 1]) + tf.gather(x, [1, 3]),
}
DENSE = {
    "columns": lambda x: tf.gather(x, [0, 0], axis=1),
    "batches": lambda x: tf.gather(x, [[0], [1], [1], [0]], axis=1, batch_dims=1),
    "gather_nd of elements": lambda x: tf.gather_nd(x, [[0, 1], [3, 0]]),
    "slice": lambda x: x[1:3],
    "an index": lambda x: x[2],
    "mask": lambda x: tf.boolean_mask(x, [True, False, True, False]),
    "an intermediate": lambda x: tf.gather(x * 2.0, [0, 0]),
    "sparse and dense": lambda x: tf.gather(x, [0, 0]) * tf.reduce_sum(x),
}


def reference(f):
    """The dense gradient, by finite differences of the sum."""
    out = np.zeros_like(TABLE)
    for index in np.ndindex(*TABLE.shape):
        step = np.zeros_like(TABLE)
        step[index] = 0.5
        up, down = (float(tf.reduce_sum(f(c(TABLE + s * step)))) for s in (1, -1))
        out[index] = up - down
    return out


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("make", [c, tf.Variable])
def test_lookups_give_slices(name, make):
    found = lookup_gradient(SPARSE[name], make(TABLE))
    assert isinstance(found, tf.IndexedSlices)
    assert found.dense_shape.numpy().tolist() == [4, 2]
    assert found.dense_shape.dtype == tf.int32
    assert found.shape == (4, 2)
    assert found.values.shape[0] == found.indices.shape[0]
    assert found.values.shape[1:] == (2,)
    np.testing.assert_allclose(tf.convert_to_tensor(found).numpy(), reference(SPARSE[name]), rtol=1e-3)


@pytest.mark.parametrize("name", DENSE)
def test_other_ways_give_tensors(name):
    found = lookup_gradient(DENSE[name])
    assert isinstance(found, tf.Tensor)
    np.testing.assert_allclose(found.numpy(), reference(DENSE[name]), rtol=1e-3)


def test_the_parts_of_a_lookup():
    seed = c([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    found = lookup_gradient(SPARSE["gather"], seed=seed)
    assert found.values.numpy().tolist() == seed.numpy().tolist()  # duplicates are not merged
    assert found.indices.numpy().tolist() == [2, 0, 2]
    assert found.indices.dtype == tf.int32
    assert lookup_gradient(SPARSE["gather with int64"]).indices.dtype == tf.int64
    assert lookup_gradient(SPARSE["gather of one"]).values.shape == (1, 2)
    assert lookup_gradient(SPARSE["gather of a matrix of indices"]).values.shape == (4, 2)


def test_lookups_of_variables():
    v = tf.Variable(TABLE)
    for read in (lambda: v.sparse_read([1, 1]), lambda: v.gather_nd([[1], [1]]), lambda: tf.gather(v, [1, 1])):
        with tf.GradientTape() as tape:
            y = read() * 3.0
        found = tape.gradient(y, v)
        assert isinstance(found, tf.IndexedSlices)
        assert found.indices.numpy().tolist() == [1, 1]
        assert tf.convert_to_tensor(found).numpy()[1].tolist() == [6.0, 6.0]


def test_several_lookups_stay_sparse():
    found = lookup_gradient(lambda x: tf.reduce_sum(tf.gather(x, [0])) + tf.reduce_sum(tf.gather(x, [1, 0])))
    assert isinstance(found, tf.IndexedSlices)
    assert sorted(found.indices.numpy().tolist()) == [0, 0, 1]


def test_sparse_and_dense_paths_are_dense():
    found = lookup_gradient(lambda x: tf.reduce_sum(tf.gather(x, [0, 0])) + tf.reduce_sum(x))
    assert isinstance(found, tf.Tensor)
    assert found.numpy().tolist() == [[3.0, 3.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
    found = lookup_gradient(lambda x: tf.reduce_sum(x) + tf.reduce_sum(tf.gather(x, [0, 0])))
    assert found.numpy().tolist() == [[3.0, 3.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]


def test_targets_that_are_sources_and_lookups():
    x = c(TABLE)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.gather(x, [0])
    found = tape.gradient([x, y], x)
    assert isinstance(found, tf.Tensor)
    assert found.numpy()[:, 0].tolist() == [2.0, 1.0, 1.0, 1.0]


def test_jacobians_and_per_example_gradients_are_dense():
    x = c(TABLE)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = tf.gather(x, [1, 3])
    j = tape.jacobian(y, x)
    assert isinstance(j, tf.Tensor)
    expected = np.zeros((2, 2, 4, 2))
    for row, (k, i) in enumerate([(0, 1), (1, 3)]):
        assert row == k
        expected[k, [0, 1], i, [0, 1]] = 1.0
    np.testing.assert_array_equal(j.numpy(), expected)
    assert isinstance(tape.batch_gradient(y, x), tf.Tensor)


def test_second_order_through_slices():
    x = c(TABLE)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.reduce_sum(tf.gather(x, [1, 1, 2]) ** 3)
        g = inner.gradient(y, x)
        assert isinstance(g, tf.IndexedSlices)
        total = tf.reduce_sum(tf.convert_to_tensor(g) ** 2)
    found = tf.convert_to_tensor(outer.gradient(total, x)).numpy()
    v = TABLE.astype(float)
    weight = np.array([0.0, 2.0, 1.0, 0.0])[:, None]  # g = 3 n x^2, d(g^2) = 2 g 6 n x
    np.testing.assert_allclose(found, 36 * weight**2 * v**3, rtol=1e-5)


def test_unconnected_lookups():
    x, other = c(TABLE), c([1.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.gather(x, [0])
    assert tape.gradient(y, [other], unconnected_gradients="zero")[0].numpy().tolist() == [0.0]


@pytest.mark.parametrize("bad", [-1, 4])
def test_indices_out_of_range(bad):
    with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(f"indices[1] = {bad} is not in [0, 4)")):
        tf.gather(c(TABLE), [0, bad])


# -- the class -------------------------------------------------------------------------------------
def slices():
    return tf.IndexedSlices(c([[1.0, 2.0], [3.0, 4.0]]), c([2, 2]), c([3, 2]))


def test_properties():
    s = slices()
    assert s.values.numpy().tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert s.indices.numpy().tolist() == [2, 2]
    assert s.dense_shape.numpy().tolist() == [3, 2]
    assert s.shape == (3, 2)
    assert s.dtype == tf.float32
    assert "CPU" in s.device
    assert tf.IndexedSlices(s.values, s.indices).shape.rank is None
    assert tf.IndexedSlices(s.values, s.indices).dense_shape is None
    for name in ("name", "op", "graph"):
        with pytest.raises(AttributeError):
            getattr(s, name)
    assert not hasattr(s, "numpy")
    with pytest.raises(TypeError):
        s[0]
    assert str(s).startswith("IndexedSlices(indices=tf.Tensor([2 2]")
    assert "dense_shape=" in str(s)
    assert "IndexedSlices object at" in repr(s)
    odd = tf.IndexedSlices("anything", None)
    assert odd.values == "anything"


def test_conversion_adds_duplicates_up():
    dense = [[0.0, 0.0], [0.0, 0.0], [4.0, 6.0]]
    assert tf.convert_to_tensor(slices()).numpy().tolist() == dense
    assert tf.convert_to_tensor(slices(), tf.float32).numpy().tolist() == dense
    with pytest.raises(ValueError, match="dtype"):
        tf.convert_to_tensor(slices(), tf.float64)
    s = slices()
    with pytest.raises(ValueError, match=re.escape(
        "Tensor conversion requested for IndexedSlices for argument `value` without dense_shape"
    )):  # fmt: skip
        tf.convert_to_tensor(tf.IndexedSlices(s.values, s.indices))


@pytest.mark.parametrize(
    "f",
    [
        lambda s: -s,
        lambda s: tf.cast(s, tf.float64),
        tf.identity,
        lambda s: tf.math.scalar_mul(2.0, s),
        lambda s: tf.clip_by_norm(s, 1.0),
        lambda s: tf.clip_by_global_norm([s], 1.0)[0][0],
    ],
)
def test_functions_that_keep_slices(f):
    assert isinstance(f(slices()), tf.IndexedSlices)


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda s: s + tf.ones([3, 2]), [[1.0, 1.0], [1.0, 1.0], [5.0, 7.0]]),
        (lambda s: tf.ones([3, 2]) + s, [[1.0, 1.0], [1.0, 1.0], [5.0, 7.0]]),
        (lambda s: tf.add(s, s), [[0.0, 0.0], [0.0, 0.0], [8.0, 12.0]]),
        (lambda s: tf.add_n([s, s]), [[0.0, 0.0], [0.0, 0.0], [8.0, 12.0]]),
        (tf.square, [[0.0, 0.0], [0.0, 0.0], [16.0, 36.0]]),
        (tf.reduce_sum, 10.0),
    ],
)
def test_functions_that_make_slices_dense(f, expected):
    found = f(slices())
    assert isinstance(found, tf.Tensor)
    assert found.numpy().tolist() == expected


@pytest.mark.parametrize("f", [lambda s: s * 2.0, lambda s: s + s, lambda s: s - s, lambda s: s / 2.0, lambda s: s @ s])
def test_operators_that_slices_do_not_have(f):
    with pytest.raises(TypeError, match="unsupported operand"):
        f(slices())


def test_norms_use_the_values_as_they_are():
    assert float(tf.linalg.global_norm([slices()])) == pytest.approx(np.sqrt(30.0))


def test_a_leaf_of_structures():
    s = slices()
    assert tf.nest.flatten([s, {"a": s}]) == [s, s]


def test_training_with_slices():
    v = tf.Variable(TABLE)
    for _ in range(3):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(v, [1, 1]) ** 2)
        g = tape.gradient(loss, v)
        v.scatter_sub(tf.IndexedSlices(0.1 * g.values, g.indices, g.dense_shape))
    expected = TABLE.copy()
    expected[1] *= (1 - 0.4) ** 3
    np.testing.assert_allclose(v.numpy(), expected, rtol=1e-5)
