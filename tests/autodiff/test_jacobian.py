"""Jacobians and per-example gradients: one walk with many rows must give what a loop of gradients gives."""

from __future__ import annotations

import itertools
import re
from unittest import mock

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import gradtape as tf
from gradtape._src.arrays import batched
from gradtape._src.arrays.batched import Batched
from gradtape._src.arrays.row_index import RowIndex

rng = np.random.default_rng(7)
A = rng.normal(size=(3, 4))
B = rng.normal(size=(4, 2))
W = rng.normal(size=(4, 4))
S = rng.normal(size=(2, 3, 4))


@tf.custom_gradient
def doubled(x):
    return x * 2.0, lambda g: g * 5.0 + 0.0 * x


@tf.custom_gradient
def cubed(x):
    return x * x * x, lambda g: g * 3.0 * x * x


@tf.custom_gradient
def through_numpy(x):
    """Both the value and the gradient leave the library: no batch can follow them there."""
    value = np.sin(x.numpy())
    return tf.constant(value), lambda g: tf.constant(g.numpy() * np.cos(x.numpy()))


@tf.custom_gradient
def two_in_two_out(x, y):
    return (x * y, x + y), lambda da, db: (da * y + db, da * x + 2.0 * db)


PROGRAMS = {
    # elementwise, and kinds of operands
    "exp": (tf.exp, [A]),
    "powers": (lambda x: x**3 + 2.0 / (x * x + 1.0), [A]),
    "broadcast rows": (lambda x, y: x * y, [A, A[0]]),
    "broadcast columns": (lambda x, y: x / y, [A, 2.0 + A[:, :1] ** 2]),
    "broadcast scalar": (lambda x, y: tf.sin(x) * y, [A, np.array(1.5)]),
    "broadcast up": (lambda x, y: x * y, [A, S]),
    "constant on the left": (lambda x: A * x - x, [A]),
    "where": (lambda x: tf.where(x > 0.0, x * x, tf.exp(x)), [A]),
    "where with a broadcast": (lambda x, y: tf.where(A > 0.0, x, y), [A, np.array(0.3)]),
    "maximum": (lambda x: tf.maximum(x, 0.1) + tf.minimum(x * x, 0.5), [A]),
    "abs, sign, relu": (lambda x: tf.abs(x) + tf.sign(x) * x + tf.nn.relu(x), [A]),
    "softplus, sigmoid, tanh": (lambda x: tf.nn.softplus(x) + tf.sigmoid(x) * tf.tanh(x), [A]),
    "used twice": (lambda x: x * tf.reduce_sum(x) + x, [A]),
    # shaping
    "reshape": (lambda x: tf.reshape(x, [2, 6]) ** 2, [A]),
    "reshape keeping rows": (lambda x: tf.reshape(x, [3, 2, 2]) ** 2, [A]),
    "reshape to a vector": (lambda x: tf.reshape(x, [-1]) * 2.0, [A]),
    "transpose": (lambda x: tf.transpose(x) ** 2, [A]),
    "transpose behind the first axis": (lambda x: tf.transpose(x, [0, 2, 1]) ** 2, [S]),
    "transpose of the first axis": (lambda x: tf.transpose(x, [1, 0, 2]) ** 2, [S]),
    "expand and squeeze": (lambda x: tf.squeeze(tf.expand_dims(x, 0), 0) ** 2, [A]),
    "broadcast_to": (lambda x: tf.broadcast_to(x, [3, 4]) * A, [A[:, :1]]),
    "broadcast_to a new first axis": (lambda x: tf.broadcast_to(x, [3, 4]) * A, [A[0]]),
    "slices": (lambda x: x[1:, ::2] * x[:2, 1::2], [A]),
    "an index": (lambda x: x[1] * x[-1], [A]),
    "new axes": (lambda x: x[:, None] * x[None, :], [A[0]]),
    "mask": (lambda x: x[tf.constant(A > 0.0)] ** 2, [A]),
    "reverse": (lambda x: tf.reverse(x, [0]) * x, [A]),
    "concat": (lambda x, y: tf.concat([x, y, x], 0) ** 2, [A, A[:1]]),
    "concat columns": (lambda x, y: tf.concat([x, y], 1) ** 2, [A, A[:, :1]]),
    "stack": (lambda x, y: tf.stack([x, y, x * y]), [A, A + 1]),
    "stack last": (lambda x, y: tf.stack([x, y], axis=-1), [A, A + 1]),
    "unstack": (lambda x: tf.unstack(x)[0] * tf.unstack(x, axis=0)[2], [A]),
    "split": (lambda x: tf.split(x, 2, axis=1)[0] * tf.split(x, [1, 2, 1], axis=1)[1], [A]),
    "iteration": (lambda x: sum(row * row for row in x), [A]),
    # lookups
    "gather": (lambda x: tf.gather(x, [2, 0, 0, 1]) ** 2, [A]),
    "gather with a matrix of indices": (lambda x: tf.gather(x, [[2, 0], [0, 1]]) ** 2, [A]),
    "gather columns": (lambda x: tf.gather(x, [3, 3, 0], axis=1) ** 2, [A]),
    "gather in batches": (lambda x: tf.gather(x, [[0, 3], [1, 1], [2, 0]], axis=1, batch_dims=1) ** 2, [A]),
    "gather_nd": (lambda x: tf.gather_nd(x, [[0, 1], [2, 3], [0, 1]]) ** 2, [A]),
    "gather_nd of rows": (lambda x: tf.gather_nd(x, [[1], [1], [0]]) ** 2, [A]),
    "gather of an intermediate": (lambda x: tf.gather(tf.exp(x), [1, 1, 2]), [A]),
    # reductions and scans
    "sum": (tf.reduce_sum, [A]),
    "sum over rows": (lambda x: tf.reduce_sum(x * x, axis=0), [A]),
    "sum over columns": (lambda x: tf.reduce_sum(x * x, axis=1), [A]),
    "sum keeping axes": (lambda x: x / tf.reduce_sum(x * x, axis=1, keepdims=True), [A]),
    "sum over rows keeping axes": (lambda x: x / tf.reduce_sum(x * x, axis=0, keepdims=True), [A]),
    "mean": (lambda x: x - tf.reduce_mean(x, axis=0), [A]),
    "max and min": (lambda x: tf.reduce_max(x, axis=0) * tf.reduce_min(x, axis=1, keepdims=True), [A]),
    "prod": (lambda x: tf.reduce_prod(x, axis=1), [A]),
    "logsumexp": (lambda x: tf.reduce_logsumexp(x, axis=1), [A]),
    "cumsum": (lambda x: tf.cumsum(x * x, axis=0), [A]),
    "cumsum along columns": (lambda x: tf.cumsum(x * x, axis=1, exclusive=True, reverse=True), [A]),
    "softmax": (tf.nn.softmax, [A]),
    "log_softmax": (tf.nn.log_softmax, [A]),
    "softmax over rows": (lambda x: tf.nn.softmax(x, axis=0), [A]),
    "cross entropy": (
        lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.constant([0, 3, 1]), logits=x),
        [A],
    ),
    "sort": (lambda x: tf.sort(x, axis=1), [A]),
    # products
    "matmul": (lambda x, y: x @ y, [A, B]),
    "matmul, matrix on the left": (lambda x: W @ tf.transpose(x), [A]),
    "matmul, both sides": (lambda x: tf.transpose(B) @ (W @ tf.transpose(x)) @ x, [A]),
    "matmul transposed": (lambda x, y: tf.matmul(x, y, transpose_a=True, transpose_b=True), [A.T, B.T]),
    "matmul of stacks": (lambda x, y: x @ y, [S, np.stack([B, 2 * B])]),
    "matmul of a stack and a matrix": (lambda x, y: x @ y, [S, B]),
    "matmul of a matrix and a stack": (lambda x, y: x @ y, [A[:, :3], S]),
    "network": (lambda x, w, b: tf.nn.relu(x @ w + b) @ B, [A, W, W[0]]),
    "einsum": (lambda x, y: tf.einsum("ij,jk->ki", x, y), [A, B]),
    "einsum with a batch": (lambda x, y: tf.einsum("bij,bkj->bik", x, y), [S, S]),
    "tensordot": (lambda x, y: tf.tensordot(x, y, 1), [S, B]),
    "norm": (lambda x: x / tf.norm(x, axis=1, keepdims=True), [A]),
    # rules of the user's
    "custom gradient": (lambda x: doubled(x) * x, [A]),
    "custom gradient with its own second order": (lambda x: cubed(x) * x, [A]),
    "custom gradient in numpy": (lambda x: through_numpy(x) * x, [A]),
    "custom gradient with two outputs": (lambda x, y: two_in_two_out(x, y)[0] * two_in_two_out(x, x)[1], [A, A + 1]),
    "recompute_grad": (lambda x: tf.recompute_grad(lambda x: tf.exp(x) * x)(x), [A]),
    "stop_gradient": (lambda x: tf.stop_gradient(x) * x, [A]),
    # odd shapes
    "one row": (lambda x: tf.exp(x @ W), [A[:1]]),
    "one column": (lambda x: tf.exp(x), [A[:, :1]]),
    "scalar to scalar": (lambda x: x * x, [np.array(1.5)]),
    "scalar to vector": (lambda x: x * A[0], [np.array(1.5)]),
    "vector to scalar": (lambda x: tf.reduce_sum(x**3), [A[0]]),
    "identity": (lambda x: x, [A]),
    "dense layer on a vector": (lambda x: tf.squeeze(x[None, :] @ W, 0), [A[0]]),
}


def recorded(name, dtype="float64"):
    f, values = PROGRAMS[name]
    sources = [tf.constant(value, dtype) for value in values]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(sources)
        target = f(*sources)
    return tape, target, sources


def looped_jacobian(tape, target, source):
    """Row k is the gradient of element k."""
    shape, size = tuple(target.shape), int(np.prod(target.shape, dtype=int))
    rows = []
    for k in range(size):
        seed = np.zeros(size)
        seed[k] = 1.0
        row = tape.gradient(target, source, output_gradients=tf.constant(seed.reshape(shape), target.dtype))
        rows.append(None if row is None else tf.convert_to_tensor(row).numpy())
    if all(row is None for row in rows):
        return None
    return np.reshape(np.stack(rows), (*shape, *source.shape))


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("chunk", [None, 1, 2, 5, 1000], ids=lambda n: f"chunk={n}")
def test_a_jacobian_is_a_loop_of_gradients(name, chunk):
    tape, target, sources = recorded(name)
    found = tape.jacobian(target, sources, parallel_iterations=chunk)
    for source, jacobian in zip(sources, found, strict=True):
        assert jacobian.shape == target.shape + source.shape
        assert jacobian.dtype == source.dtype
        np.testing.assert_allclose(jacobian.numpy(), looped_jacobian(tape, target, source), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
def test_without_pfor(name):
    tape, target, sources = recorded(name)
    expected = [j.numpy() for j in tape.jacobian(target, sources)]
    rows = tape.jacobian(target, sources, experimental_use_pfor=False)
    for want, got in zip(expected, rows, strict=True):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
def test_batch_gradient_is_a_loop_of_gradients(name):
    tape, target, sources = recorded(name)
    if not target.shape.rank:
        with pytest.raises(ValueError, match=re.escape("Shape () must have rank at least 1")):
            tape.batch_gradient(target, sources)
        return
    weights = rng.normal(size=target.shape.as_list())
    for given in (None, weights):
        seed = np.ones(target.shape) if given is None else given
        found = tape.batch_gradient(target, sources, None if given is None else tf.constant(given))
        for source, rows in zip(sources, found, strict=True):
            jacobian = looped_jacobian(tape, target, source)
            axes = tuple(range(1, target.shape.rank))
            weighted = jacobian * seed.reshape(*target.shape, *[1] * source.shape.rank)
            assert rows.shape == [target.shape[0], *source.shape]
            np.testing.assert_allclose(rows.numpy(), weighted.sum(axis=axes), rtol=1e-10, atol=1e-12)
        totals = tape.gradient(target, sources, None if given is None else tf.constant(given))
        for rows, total in zip(found, totals, strict=True):
            total = tf.convert_to_tensor(total).numpy()
            np.testing.assert_allclose(rows.numpy().sum(axis=0), total, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("chunk", [None, 2], ids=lambda n: f"chunk={n}")
def test_batch_jacobian_is_a_loop_of_gradients(name, chunk):
    tape, target, sources = recorded(name)
    source = sources[0]
    if target.shape.rank < 2 or source.shape.rank < 2 or target.shape[0] != source.shape[0]:
        with pytest.raises(ValueError, match=r"must have rank at least 2|first dimension"):
            tape.batch_jacobian(target, source)
        return
    found = tape.batch_jacobian(target, source, parallel_iterations=chunk).numpy()
    rows = looped_jacobian(tape, target, source)
    rank = target.shape.rank
    # r[i] is the sum over k of d target[k] / d source[i]: the diagonal, where rows do not mix.
    expected = np.moveaxis(rows.sum(axis=0), rank - 1, 0)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    again = tape.batch_jacobian(target, source, experimental_use_pfor=False).numpy()
    np.testing.assert_allclose(again, expected, rtol=1e-10, atol=1e-12)


# -- the aligned path against the rows written out -------------------------------------------------
@pytest.mark.parametrize("name", PROGRAMS)
def test_aligned_rows_are_the_same_as_rows_written_out(name, monkeypatch):
    tape, target, sources = recorded(name)
    if not target.shape.rank:
        return  # a scalar has no first axis to align
    block_diagonal = tape.jacobian(target, sources) + tape.batch_gradient(target, sources)
    monkeypatch.setattr(batched, "block_diagonal_rules", {})  # no op keeps rows aligned any more
    dense = tape.jacobian(target, sources) + tape.batch_gradient(target, sources)
    for a, b in zip(block_diagonal, dense, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", PROGRAMS)
def test_batch_rules_are_the_same_as_a_loop(name, monkeypatch):
    tape, target, sources = recorded(name)
    fast = tape.jacobian(target, sources)
    for rules in ("block_diagonal_rules", "batch_rules"):
        monkeypatch.setattr(batched, rules, {})
    slow = tape.jacobian(target, sources)
    for a, b in zip(fast, slow, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-14)


def test_rows_of_independent_examples_stay_aligned(monkeypatch):
    """The reason for the aligned path: a batch through a network writes no rows out on the way to the weights."""
    written = []
    original = Batched.rows

    def rows(self):
        if self.block_diagonal:
            written.append(self.shape)
        return original(self)

    monkeypatch.setattr(Batched, "rows", rows)
    x, w, b = tf.constant(A), tf.Variable(W), tf.Variable(W[0])
    with tf.GradientTape() as tape:
        losses = tf.reduce_sum(tf.nn.relu(x @ w + b) ** 2, axis=1)
    tape.batch_gradient(losses, [w, b])
    assert written == []


def test_how_aligned_rows_look_written_out():
    array = np.arange(12.0).reshape(2, 3, 2)  # 2 columns, 3 positions, rows of shape (3, 2)
    rows = Batched(array, 1, block_diagonal=True).rows()
    assert rows.shape == (6, 3, 2)
    for position, column, other in itertools.product(range(3), range(2), range(3)):
        expected = array[column, position] if other == position else np.zeros(2)
        np.testing.assert_array_equal(rows[position * 2 + column, other], expected)
    plain = Batched(array, 1)
    assert plain.rows() is array
    assert (plain.shape, plain.ndim, plain.dtype, plain.batch_size) == ((3, 2), 2, np.float64, 2)
    assert "2 rows of shape (3, 2)" in repr(plain)
    with pytest.raises(TypeError, match="no single NumPy value"):
        np.asarray(plain)


# -- slices of the first axis: bands of a matrix instead of the matrix ------------------------------
def chained(x):
    return tf.reduce_sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


MOVES = {
    "neighbours": lambda x: (x[1:] - x[:-1]) ** 2,
    "every second": lambda x: x[::2] * 3.0,
    "backwards": lambda x: x[::-1] * x,
    "padded": lambda x: tf.pad(x, [[2, 1], *[[0, 0]] * (x.shape.rank - 1)]) ** 2,
    "second differences": lambda x: x[2:] - 2.0 * x[1:-1] ** 2 + x[:-2],
    "turned": lambda x: tf.concat([x[1:], x[:1]], 0) * x,
    "reversed": lambda x: tf.reverse(x, [0]) + x,
    "rolled": lambda x: tf.roll(x, 2, 0) * x,
    "one of them": lambda x: x * x[2:3],
    "a number of it": lambda x: x * tf.reshape(x, [-1])[1],
    "tanh": lambda x: tf.tanh(x),
    "cut to nothing": lambda x: tf.concat([x, x[3:3]], 0),
    "empty sum": lambda x: x + tf.reduce_sum(x[1:1] ** 2, 0),
}


@hypothesis.given(
    names=st.lists(st.sampled_from(list(MOVES)), min_size=1, max_size=4),
    shape=st.sampled_from([(9,), (9, 2), (8, 1)]),
    limit=st.sampled_from([0, 1, 2, 8]),
    worth=st.sampled_from([0, 2**16]),
)
@hypothesis.settings(max_examples=100, deadline=None)
def test_positions_that_move(names, shape, limit, worth):
    x = tf.constant(np.random.default_rng(len(names)).normal(size=shape))
    with mock.patch.object(batched, "MOST_PARTS", limit), mock.patch.object(batched, "LAZY_BYTES", worth):
        with tf.GradientTape(persistent=True) as outer:
            outer.watch(x)
            with tf.GradientTape(persistent=True) as tape:
                tape.watch(x)
                y = x
                for name in names:
                    y = MOVES[name](y) if y.shape[0] > 3 else y  # as long as there is something to cut
                loss = tf.reduce_sum(tf.sin(y))
            slope = tape.gradient(loss, x)
        np.testing.assert_allclose(
            tape.jacobian(y, x).numpy(), looped_jacobian(tape, y, x), rtol=1e-9, atol=1e-12, err_msg=str(names)
        )
        np.testing.assert_allclose(
            outer.jacobian(slope, x).numpy(),
            looped_jacobian(outer, slope, x),
            rtol=1e-9,
            atol=1e-12,
            err_msg=str(names),
        )


def test_a_band_is_never_written_out_on_the_way(monkeypatch):
    """The reason for owners: the Hessian of a chain costs as much as its band, not as the matrix."""
    x, largest = tf.constant(np.linspace(-1.0, 1.0, 1000)), []
    original = batched.apply

    def apply(name, args, attrs):
        result = original(name, args, attrs)
        largest.append(getattr(result, "array", result).size)
        return result

    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = chained(x)
        slope = inner.gradient(y, x)
    monkeypatch.setattr(batched, "apply", apply)
    hessian = outer.jacobian(slope, x).numpy()
    assert max(largest) <= 1000
    rows, columns = hessian.nonzero()
    assert np.abs(rows - columns).max() == 1
    np.testing.assert_allclose(np.diag(hessian)[1:-1], (1200 * x**2 + 202 - 400 * tf.roll(x, -1, 0)).numpy()[1:-1])
    np.testing.assert_allclose(np.diag(hessian, 1), -400 * x.numpy()[:-1])


def test_owners_join_where_they_do_not_disagree():
    first, second = RowIndex(4, np.array([1, 2, 0])), RowIndex(4, np.array([0, 2, 3]))
    joined = first.joined(second)
    assert joined is not None
    assert joined.of.tolist() == [1, 2, 3]
    assert first.joined(RowIndex(4, np.array([0, 3, 0]))) is None  # one position, two rows
    assert first.joined(RowIndex(4, np.array([0, 0, 1]))) is None  # one row, two positions
    assert first.joined(RowIndex(4, np.array([1, 2, 0]))) is first


# Square matrices: every axis has the same length, so that a wrong axis is not noticed by its length.
STEPS = {
    "exp": lambda x, m: tf.exp(0.3 * x),
    "tanh": lambda x, m: tf.tanh(x),
    "times row": lambda x, m: x * m[0],
    "times column": lambda x, m: x * m[:, 1:2],
    "transpose": lambda x, m: tf.transpose(x),
    "left": lambda x, m: m @ x,
    "right": lambda x, m: x @ m,
    "right transposed": lambda x, m: tf.matmul(x, m, transpose_b=True),
    "left transposed": lambda x, m: tf.matmul(m, x, transpose_a=True),
    "own transpose": lambda x, m: tf.matmul(x, x, transpose_a=True) * 0.3,
    "own square": lambda x, m: (x @ x) * 0.3,
    "sum of rows": lambda x, m: x + tf.reduce_sum(x, axis=0),
    "sum of columns": lambda x, m: x + tf.reduce_sum(x, axis=1),
    "sum of columns kept": lambda x, m: x * tf.reduce_sum(x, axis=1, keepdims=True) * 0.3,
    "gather": lambda x, m: tf.gather(x, [2, 0, 2]),
    "gather columns": lambda x, m: tf.gather(x, [1, 1, 0], axis=1),
    "reshape": lambda x, m: tf.reshape(tf.reshape(x, [-1]) * tf.reshape(m, [-1]), [3, 3]),
    "where": lambda x, m: tf.where(x > m, x * 2.0, m),
    "softmax": lambda x, m: tf.nn.softmax(x, axis=0),
    "cumsum": lambda x, m: tf.cumsum(x, axis=0) * 0.5,
    "outer": lambda x, m: x[0][:, None] * x[1][None, :],
    "diagonal sum": lambda x, m: tf.einsum("ii,jk->kj", x, m) + x,
    "reverse": lambda x, m: tf.reverse(x, [0]) + x,
    "concat": lambda x, m: tf.concat([x[1:], x[:1]], 0),
    "custom": lambda x, m: cubed(0.5 * x),
}


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_on_square_matrices(seed):
    chance = np.random.default_rng(seed)
    names = chance.choice(list(STEPS), size=5).tolist()
    x, m = tf.constant(chance.normal(size=(3, 3))), tf.constant(chance.normal(size=(3, 3)))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, m])
        y = x
        for name in names:
            y = STEPS[name](y, m)
        ends = [y, tf.reduce_sum(y * m, axis=int(chance.integers(2)))]
    for target, source in itertools.product(ends, (x, m)):
        expected = looped_jacobian(tape, target, source)
        found = tape.jacobian(target, source)
        if expected is None:
            assert found is None
            continue
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-12, err_msg=str(names))
        rows = tape.batch_gradient(target, source).numpy()
        summed = expected.sum(axis=tuple(range(1, target.shape.rank)))
        np.testing.assert_allclose(rows, summed, rtol=1e-9, atol=1e-12, err_msg=str(names))


# -- dtypes ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(
    "name", ["powers", "matmul", "network", "gather", "sum over rows", "softmax", "broadcast rows"]
)
def test_jacobians_keep_the_dtype(name, dtype):
    tape, target, sources = recorded(name, dtype)
    reference = recorded(name)
    expected = reference[0].jacobian(reference[1], reference[2])
    tolerance = {"float16": 0.02, "bfloat16": 0.15, "float32": 1e-4, "float64": 1e-12}[dtype]
    for found, want in zip(tape.jacobian(target, sources), expected, strict=True):
        assert found.dtype == dtype
        np.testing.assert_allclose(found.numpy().astype(float), want.numpy(), rtol=tolerance, atol=tolerance)
    for found in tape.batch_gradient(target, sources):
        assert found.dtype == dtype


def test_complex_jacobians_follow_the_convention():
    z = tf.constant([1 + 2j, 3 - 1j])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(z)
        y = z * z
        norm = tf.abs(z)
    np.testing.assert_allclose(tape.jacobian(y, z).numpy(), np.diag(np.conj(2 * z.numpy())))
    np.testing.assert_allclose(tape.jacobian(norm, z).numpy(), np.diag(z.numpy() / np.abs(z.numpy())))


def test_source_and_target_of_different_dtypes():
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = tf.cast(x, tf.float64) ** 2
    for pfor in (True, False):
        j = tape.jacobian(y, x, experimental_use_pfor=pfor)
        assert j.dtype == tf.float32
        assert j.numpy().tolist() == [[2.0, 0.0], [0.0, 4.0]]


# -- structures, and sources without a path --------------------------------------------------------
def test_structures_of_sources():
    x, v = tf.constant([1.0, 2.0]), tf.Variable([[3.0], [4.0]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x[None, :] @ v
    for sources in (x, [x, v], (v, (x,)), {"b": x, "a": v}, (), [], {}):
        for method in (tape.jacobian, tape.batch_gradient):
            found = method(y, sources)
            tf.nest.assert_same_structure(sources, found)
    assert tape.jacobian(y, {"b": x, "a": v})["a"].shape == (1, 1, 2, 1)


def test_sources_without_a_path():
    x, v, whole = tf.constant([1.0, 2.0]), tf.Variable([[3.0, 4.0, 5.0]]), tf.constant([1, 2])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
    assert tape.jacobian(y, [x, v, whole])[1:] == [None, None]
    assert tape.batch_gradient(y, [v, whole]) == [None, None]
    zeros = tape.jacobian(y, [v, whole], unconnected_gradients="zero")
    assert [tuple(z.shape) for z in zeros] == [(2, 1, 3), (2, 2)]
    assert [z.dtype for z in zeros] == [tf.float32, tf.int32]
    assert not any(np.any(z.numpy()) for z in zeros)
    zeros = tape.batch_gradient(y, [v, whole], unconnected_gradients="zero")
    assert [tuple(z.shape) for z in zeros] == [(2, 1, 3), (2, 2)]


def test_batch_jacobian_without_a_path_is_zeros():
    x, other = tf.constant([[1.0, 2.0]]), tf.constant([[1.0, 2.0, 3.0]])
    for policy in ("none", "zero"):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        zeros = tape.batch_jacobian(y, other, unconnected_gradients=policy)
        assert zeros.shape == (1, 2, 3)
        assert not np.any(zeros.numpy())


def test_integers_have_no_jacobian():
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        whole = tf.cast(x, tf.int32)
        y = x * x
    assert tape.jacobian(whole, x) is None
    assert tape.jacobian(whole, whole) is None
    assert tape.jacobian(y, whole) is None
    assert tape.batch_gradient(whole, x) is None
    assert tape.jacobian(whole, x, unconnected_gradients="zero").numpy().tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_variables_and_targets_that_are_sources():
    v = tf.Variable([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        y = v * v
    identity = [[1.0, 0.0], [0.0, 1.0]]
    assert tape.jacobian(v, v).numpy().tolist() == identity
    assert tape.jacobian(y, y).numpy().tolist() == identity
    assert tape.batch_gradient(v, v).numpy().tolist() == identity
    assert tape.jacobian(v, [v, v])[1].numpy().tolist() == identity


def test_intermediate_sources():
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        z = y * y
    dx, dy = tape.jacobian(z, [x, y])
    np.testing.assert_allclose(dx.numpy(), np.diag([4.0, 32.0]))
    np.testing.assert_allclose(dy.numpy(), np.diag([2.0, 8.0]))


# -- empty arrays ----------------------------------------------------------------------------------
@pytest.mark.parametrize("pfor", [True, False])
@pytest.mark.parametrize(
    ("shape", "f"),
    [
        ([0], lambda x: x * x),
        ([0], lambda x: x * 2.0),
        ([0, 3], lambda x: x * x),
        ([3, 0], lambda x: x * x),
        ([2, 3], lambda x: x[:0] * 2.0),
        ([2, 3], lambda x: tf.gather(x, tf.zeros([0], tf.int32))),
        ([0, 3], lambda x: tf.reduce_sum(x, axis=1)),
    ],
)
def test_empty_targets(shape, f, pfor):
    x = tf.zeros(shape)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = f(x)
    j = tape.jacobian(y, x, experimental_use_pfor=pfor)
    assert j.shape == y.shape + x.shape
    assert tape.jacobian(y, tf.constant(1.0), experimental_use_pfor=pfor) is None


def test_a_sum_over_nothing():
    x = tf.zeros([0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(x)
    assert tape.jacobian(y, x).shape == (0,)


def test_batch_jacobian_of_an_empty_batch():
    for shape in ([0, 3], [3, 0]):
        x = tf.zeros(shape)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        assert tape.batch_jacobian(y, x).shape == (*shape, shape[1])


def test_batch_gradient_of_an_empty_batch():
    w = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(tf.zeros([0, 2]) * w, axis=1)
    assert tape.batch_gradient(y, w).shape == (0, 2)


# -- nested ----------------------------------------------------------------------------------------
def test_jacobian_of_a_jacobian():
    x = tf.constant([1.0, 2.0], tf.float64)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = x[:, None] * x[None, :] * tf.reduce_sum(x)
        j = inner.jacobian(y, x)
    h = outer.jacobian(j, x)
    assert h.shape == (2, 2, 2, 2)
    assert h.dtype == tf.float64
    eye = np.eye(2)
    v = x.numpy()
    total = np.einsum("ia,jb->ijab", eye, eye)
    total = (total + np.swapaxes(total, 2, 3)) * v.sum()
    first = np.einsum("ia,j->ija", eye, v) + np.einsum("ja,i->ija", eye, v)
    np.testing.assert_allclose(h.numpy(), total + first[:, :, :, None] + first[:, :, None, :])


TWICE = """powers|where|matmul|matmul, both sides|gather|sum keeping axes|softmax|transpose|einsum|used twice|logsumexp
custom gradient with two outputs|custom gradient with its own second order|stack|cumsum|norm|network|mask
recompute_grad|prod|cross entropy|broadcast up"""


@pytest.mark.parametrize("name", re.split(r"[|\n]", TWICE))
def test_hessians_by_every_way(name):
    """Jacobian of a gradient, gradient of a Jacobian's sum, and Jacobian of a Jacobian agree."""
    f, values = PROGRAMS[name]
    x = tf.constant(values[0], tf.float64)
    rest = [tf.constant(v, tf.float64) for v in values[1:]]

    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = f(x, *rest)
        g = tf.convert_to_tensor(inner.gradient(y, x))
    by_gradient = outer.jacobian(g, x, unconnected_gradients="zero").numpy()

    with tf.GradientTape(persistent=True) as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = f(x, *rest)
        j = inner.jacobian(y, x)
        summed = tf.reduce_sum(j, axis=list(range(y.shape.rank)))
    by_jacobian = outer.jacobian(summed, x, unconnected_gradients="zero").numpy()
    np.testing.assert_allclose(by_jacobian, by_gradient, rtol=1e-8, atol=1e-10)
    third_rank = outer.jacobian(j, x, unconnected_gradients="zero").numpy()
    axes = tuple(range(y.shape.rank))
    np.testing.assert_allclose(third_rank.sum(axis=axes), by_gradient, rtol=1e-8, atol=1e-10)


def test_third_derivatives_as_a_tensor():
    x = tf.constant([0.5, 1.5], tf.float64)
    with tf.GradientTape() as t3:
        t3.watch(x)
        with tf.GradientTape() as t2:
            t2.watch(x)
            with tf.GradientTape() as t1:
                t1.watch(x)
                y = tf.reduce_sum(x) ** 4
            g = t1.gradient(y, x)
        h = t2.jacobian(g, x)
    third = t3.jacobian(h, x)
    np.testing.assert_allclose(h.numpy(), np.full((2, 2), 12 * 4.0))
    np.testing.assert_allclose(third.numpy(), np.full((2, 2, 2), 24 * 2.0))


def test_gradients_through_per_example_gradients():
    """A penalty on the norm of per-example gradients, differentiated once more."""
    x, w = tf.constant(A), tf.Variable(W[:, :1])
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            losses = tf.reduce_sum((x @ w) ** 2, axis=1)
        per_example = inner.batch_gradient(losses, w)
        penalty = tf.reduce_sum(per_example**2)
    found = outer.gradient(penalty, w).numpy()
    expected = np.zeros((4, 1))
    for row in A:  # g = 2 (r.w) r, |g|^2 = 4 (r.w)^2 |r|^2
        expected += 8 * (row @ w.numpy()) * (row @ row) * row[:, None]
    np.testing.assert_allclose(found, expected)


def test_a_batch_jacobian_can_be_differentiated():
    x = tf.constant(A[:, :2])
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = x**3
        j = inner.batch_jacobian(y, x)
        total = tf.reduce_sum(j)
    np.testing.assert_allclose(outer.gradient(total, x).numpy(), 6 * A[:, :2])


# -- errors and use --------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["jacobian", "batch_gradient", "batch_jacobian"])
@pytest.mark.parametrize("target", [None, 1.0, [tf.constant([[1.0]])], np.ones((1, 1))])
def test_targets_that_are_no_tensors(method, target):
    x = tf.constant([[1.0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    with pytest.raises(TypeError, match="`target` should be one Tensor or Variable"):
        getattr(tape, method)(target, x)
    with pytest.raises(TypeError, match="should be one Tensor or Variable"):
        getattr(tape, method)(y, 1.0)
    assert getattr(tape, method)(y, x) is not None


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ("jacobian", "GradientTape must be created with persistent=True to compute the jacobian with eager execution "
                     "enabled and with  experimental_use_pfor set to False."),
        ("batch_jacobian", "GradientTape must be created with persistent=True to compute the batch_jacobian with eager "
                           "execution enabled and  with experimental_use_pfor set to False."),
    ],
)  # fmt: skip
def test_row_by_row_needs_a_persistent_tape(method, sentence):
    x = tf.constant([[1.0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    with pytest.raises(RuntimeError, match=re.escape(sentence)):
        getattr(tape, method)(y, x, experimental_use_pfor=False)
    assert getattr(tape, method)(y, x).numpy().ravel().tolist() == [2.0]


def test_chunks_work_on_a_tape_that_is_not_persistent():
    x = tf.constant(A)
    for method, size in itertools.product(("jacobian", "batch_jacobian"), (1, 2, 3, 100)):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.exp(x) * x
        found = getattr(tape, method)(y, x, parallel_iterations=size)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.exp(x) * x
        np.testing.assert_allclose(found.numpy(), getattr(tape, method)(y, x).numpy(), rtol=1e-12)


def test_shapes_that_batch_jacobian_refuses():
    x, short, row = tf.ones([2, 3]), tf.ones([1, 3]), tf.ones([2])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, short, row])
        y, from_short, from_row, scalar = x * x, short * short, row * row, tf.reduce_sum(x)
    for target, source, shape in ((from_row, x, "(2,)"), (y, row, "(2,)"), (scalar, x, "()")):
        with pytest.raises(ValueError, match=re.escape(f"Shape {shape} must have rank at least 2")):
            tape.batch_jacobian(target, source)
    sentence = "Need first dimension of target shape ((1, 3)) and source shape ((2, 3)) to match."
    with pytest.raises(ValueError, match=re.escape(sentence)):
        tape.batch_jacobian(from_short, x)


def test_rows_that_are_not_independent_are_summed():
    x = tf.ones([2, 2])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.cumsum(x, axis=0)
    eye = np.eye(2)
    np.testing.assert_allclose(tape.batch_jacobian(y, x).numpy(), [2 * eye, eye])


def test_the_specified_examples_of_batch_gradient():
    x, w = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), tf.constant([1.0, -1.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, w])
        squares = tf.reduce_sum(x * w, axis=1) ** 2
        products = x * w
    assert tape.batch_gradient(squares, w).numpy().tolist() == [[-2.0, -4.0], [-6.0, -8.0], [-10.0, -12.0]]
    assert tape.gradient(squares, w).numpy().tolist() == [-18.0, -24.0]
    assert tape.batch_gradient(products, w).numpy().tolist() == x.numpy().tolist()
    picked = tape.batch_gradient(products, w, output_gradients=tf.constant([1.0, 0.0]))
    assert picked.numpy().tolist() == [[1.0, 0.0], [3.0, 0.0], [5.0, 0.0]]
    blocks = tape.batch_gradient(squares, x).numpy()
    assert blocks.shape == (3, 3, 2)
    expected = np.zeros((3, 3, 2))
    expected[np.arange(3), np.arange(3)] = [-2.0, 2.0]
    np.testing.assert_array_equal(blocks, expected)


def test_output_gradients_of_batch_gradient_are_checked():
    x = tf.constant([[1.0, 2.0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    with pytest.raises(tf.errors.InvalidArgumentError, match="Incompatible shapes"):
        tape.batch_gradient(y, x, tf.ones([3]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected to be a"):
        tape.batch_gradient(y, x, tf.ones([2], tf.float64))
    assert tape.batch_gradient(y, x, 3.0).numpy().tolist() == [[[6.0, 12.0]]]


def test_a_users_gradient_is_called_once_for_all_rows():
    calls = []

    @tf.custom_gradient
    def f(x):
        def grad(g):
            calls.append(g.shape)
            return g * 3.0

        return x * 1.0, grad

    x = tf.constant([1.0, 2.0, 3.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = f(x) * 2.0
    np.testing.assert_allclose(tape.jacobian(y, x).numpy(), 6.0 * np.eye(3))
    assert calls == [(3,)]
    tape.jacobian(y, x, experimental_use_pfor=False)
    assert len(calls) == 4


def test_modes():
    tape, target, sources = recorded("network")
    by_rows = tape.jacobian(target, sources)
    for mode in ("forward", "auto"):
        for a, b in zip(tape.jacobian(target, sources, mode=mode), by_rows, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10, atol=1e-12)
    with pytest.raises(ValueError, match="Unknown value for mode: 'sideways'"):
        tape.jacobian(target, sources, mode="sideways")


@pytest.mark.parametrize("name", PROGRAMS)
def test_forward_mode_gives_the_same_jacobian(name):
    if "custom gradient" in name or name == "recompute_grad":
        return  # going forward the body of a custom gradient counts, not its gradient: as in TensorFlow
    tape, target, sources = recorded(name)
    by_rows = tape.jacobian(target, sources)
    by_columns = tape.jacobian(target, sources, mode="forward")
    for a, b in zip(by_columns, by_rows, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10, atol=1e-12)
