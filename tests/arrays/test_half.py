"""float16 and bfloat16: what adds up many numbers does so in float32 and rounds once, in every engine and mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.conversion import wrap

HALF = ("float16", "bfloat16")
EPSILON = {"float16": 2**-10, "bfloat16": 2**-7}
N = 3000  # a sum of so many ones stops at 2048 in float16 and at 256 in bfloat16

RNG = np.random.default_rng(0)
LONG = RNG.uniform(0.5, 1.5, N)
ROWS = RNG.uniform(0.5, 1.5, (N, 2))
SIGNED = RNG.normal(size=(2, N)) + 0.3
NEAR_ONE = 1 + RNG.uniform(-0.02, 0.02, 300)
BITS = (RNG.uniform(size=N) < 0.3).astype(np.float64)
FIRST = np.zeros(N, np.int32)
SEGMENTS = np.arange(N, dtype=np.int32) % 2


def segments(name: str) -> Callable[[Any], Any]:
    return lambda x: getattr(tf.math, f"unsorted_segment_{name}")(x, SEGMENTS, 2)


def conv(x: Any, y: Any) -> Any:
    return tf.nn.conv1d(x[None], y[:, :, None], 1, "VALID")


CASES: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    # reductions and scans
    "sum": (tf.reduce_sum, (LONG,)),
    "sum of rows": (lambda x: tf.reduce_sum(x, 0), (ROWS,)),
    "mean": (lambda x: tf.reduce_mean(x, 1), (SIGNED * 1000,)),
    "prod": (tf.reduce_prod, (NEAR_ONE,)),
    "variance": (tf.math.reduce_variance, (LONG * 100,)),
    "std": (lambda x: tf.math.reduce_std(x, 1, keepdims=True), (SIGNED * 300,)),
    "logsumexp": (lambda x: tf.reduce_logsumexp(x, 1), (SIGNED,)),
    "cumsum": (tf.cumsum, (LONG,)),
    "reversed cumsum": (lambda x: tf.cumsum(x, axis=1, exclusive=True, reverse=True), (SIGNED,)),
    "cumprod": (tf.math.cumprod, (NEAR_ONE,)),
    "cumulative_logsumexp": (tf.math.cumulative_logsumexp, (LONG,)),
    "add_n": (lambda x: tf.add_n([x * 1.0 for _ in range(300)]), (ROWS[:3],)),
    "accumulate_n": (lambda x: tf.math.accumulate_n([x] * 300), (ROWS[:3],)),
    # norms
    "norm": (tf.norm, (LONG * 100,)),
    "norm of order 3": (lambda x: tf.norm(x, 3, axis=1), (SIGNED,)),
    "euclidean norm": (tf.math.reduce_euclidean_norm, (LONG * 100,)),
    "l2_normalize": (lambda x: tf.math.l2_normalize(x, 1), (SIGNED * 50,)),
    "normalize": (lambda x: tf.linalg.normalize(x, axis=0)[0], (ROWS * 100,)),
    "l2_loss": (tf.nn.l2_loss, (LONG,)),
    "global_norm": (lambda x, y: tf.linalg.global_norm([x, y]), (LONG, ROWS)),
    "clip_by_norm": (lambda x: tf.clip_by_norm(x, 5.0), (LONG * 100,)),
    "trace": (lambda x: tf.linalg.trace(x * tf.eye(600, dtype=x.dtype)), (LONG[:1],)),
    # softmax and losses
    "softmax": (lambda x: tf.nn.softmax(x) * tf.cast(BITS, x.dtype), (SIGNED,)),
    "log_softmax": (tf.nn.log_softmax, (SIGNED,)),
    "cross entropy": (lambda x: tf.nn.softmax_cross_entropy_with_logits(tf.cast([BITS / BITS.sum()], x.dtype), x), (
        SIGNED[:1] * 3,)),
    "sparse cross entropy": (lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits([3, 5], x), (SIGNED * 3,)),
    "sigmoid cross entropy": (
        lambda x: tf.nn.sigmoid_cross_entropy_with_logits(tf.cast([BITS, BITS], x.dtype), x), (SIGNED * 5,)),
    # normalization
    "moments": (lambda x: tf.stack(tf.nn.moments(x, [1])), (SIGNED * 100 + 20,)),
    "weighted_moments": (lambda x: tf.stack(tf.nn.weighted_moments(x, [0], tf.cast(BITS[:, None], x.dtype))), (ROWS,)),
    "sufficient_statistics": (lambda x: tf.nn.sufficient_statistics(x, [0])[2], (ROWS,)),
    "batch_normalization": (
        lambda x, scale: tf.nn.batch_normalization(x, *tf.nn.moments(x, [0]), scale, scale, 1e-3), (ROWS, ROWS[0])),
    "layer_normalization": (lambda x: tf.nn.layer_normalization(x) * x, (SIGNED * 100,)),
    "local_response_normalization": (
        lambda x: tf.nn.local_response_normalization(x[None, None], 700), (SIGNED,)),
    # rows that meet: segments, scatters, lookups
    "segment sum": (segments("sum"), (ROWS,)),
    "segment mean": (segments("mean"), (ROWS,)),
    "segment sqrt_n": (segments("sqrt_n"), (ROWS,)),
    "segment prod": (segments("prod"), (1 + RNG.uniform(-0.01, 0.01, (N, 1)),)),
    "scatter_nd": (lambda x: tf.scatter_nd(FIRST[:, None], x, [2]), (LONG,)),
    "tensor_scatter_nd_add": (lambda x: tf.tensor_scatter_nd_add(x[:2], FIRST[:, None], x), (LONG,)),
    "tensor_scatter_nd_sub": (lambda x: tf.tensor_scatter_nd_sub(x[:2], FIRST[:, None], x), (LONG,)),
    "gather": (lambda x: tf.gather(x, FIRST, axis=1), (ROWS[:2],)),
    "embedding_lookup": (lambda x: tf.nn.embedding_lookup(x, FIRST), (ROWS[:2],)),
    "gather_nd": (lambda x: tf.gather_nd(x, np.zeros((N, 2), np.int32)), (ROWS[:2],)),
    # operands that are repeated
    "bias": (lambda x, b: tf.nn.bias_add(x, b), (ROWS, ROWS[0])),
    "product": (lambda x, y: x * y, (ROWS, ROWS[0])),
    "quotient": (lambda x, y: x / y, (ROWS, ROWS[:1])),
    "scalar": (lambda x, y: x * y, (ROWS, LONG[0])),
    "broadcast_to": (lambda x: tf.broadcast_to(x, [N, 2]), (ROWS[0],)),
    "tile": (lambda x: tf.tile(x, [N]), (ROWS[0],)),
    "repeat": (lambda x: tf.repeat(x, N, axis=0), (ROWS[:1],)),
    "where": (lambda x, y: tf.where(BITS[:, None] > 0, x, y), (ROWS, ROWS[0])),
    "many uses": (lambda x: tf.concat([x * 1.0 for _ in range(300)], 0), (ROWS[0],)),
    # products and windows
    "matmul": (tf.matmul, (SIGNED, ROWS)),
    "einsum": (lambda x, y, z: tf.einsum("ij,jk,j->k", x, y, z), (SIGNED, ROWS, LONG)),
    "tensordot": (lambda x, y: tf.tensordot(x, y, [[1], [0]]), (SIGNED, ROWS)),
    "matvec": (lambda x, y: tf.linalg.matvec(x, y), (SIGNED, LONG)),
    "conv": (conv, (ROWS, ROWS)),
    "depthwise conv": (
        lambda x, y: tf.nn.depthwise_conv2d(x[None, None], y[None, :, :, None], [1] * 4, "VALID"), (ROWS, ROWS[:2])),
    "avg_pool": (lambda x: tf.nn.avg_pool1d(x[None], 2500, 1, "VALID"), (ROWS,)),
    "max_pool": (lambda x: tf.nn.max_pool1d(x[None], 40, 1, "SAME"), (ROWS,)),
    "overlap_and_add": (lambda x: tf.signal.overlap_and_add(tf.tile(x[None], [N, 1]), 1)[N // 2 : N // 2 + 2], (LONG,)),
}  # fmt: skip


def in_dtype(arrays: tuple[np.ndarray, ...], dtype: str, computed: str) -> list[Any]:
    """Numbers of one dtype, in the one to compute in."""
    return [tf.cast(tf.constant(a, dtype), computed) for a in arrays]


def value_and_gradients(function: Callable[..., Any], args: list[Any]) -> list[Any]:
    """What a function gives, and what its arguments get from a cotangent that is not the same everywhere."""
    with tf.GradientTape() as tape:
        tape.watch(args)
        y = function(*args)
        cotangent = tf.cast(tf.reshape(0.5 + tf.range(tf.size(y)) % 3 / 2, tf.shape(y)), y.dtype)
    return [y, *map(tf.convert_to_tensor, tape.gradient(y, args, output_gradients=cotangent))]


def roundings(got: Any, exact: Any, dtype: str) -> float:
    """The largest difference in units of the last place of the largest number."""
    got, exact = (np.asarray(tf.cast(x, tf.float64)) for x in (got, exact))
    assert got.shape == exact.shape
    return float(np.max(np.abs(got - exact)) / (EPSILON[dtype] * np.max(np.abs(exact))))


def check(function: Callable[..., Any], case: str, dtype: str) -> None:
    arrays = CASES[case][1]
    exact = value_and_gradients(CASES[case][0], in_dtype(arrays, dtype, "float32"))
    got = function(*in_dtype(arrays, dtype, dtype))
    assert all(t.dtype == dtype for t in got)
    worst = [roundings(g, e, dtype) for g, e in zip(got, exact, strict=True)]
    assert worst[0] <= 0.51, "the value is not float32's, rounded once"
    # Derivatives start from saved values, which have been rounded. Their errors differ from one number to the next.
    assert max(worst[1:]) <= 4, worst


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("case", CASES)
def test_eager(case: str, dtype: str):
    check(lambda *args: value_and_gradients(CASES[case][0], list(args)), case, dtype)


@pytest.mark.parametrize("dtype", HALF)
def test_the_gradient_of_cumprod_is_rounded_once(dtype: str):
    """The products are computed again in float32: those of the forward pass were rounded."""
    arrays = (1 + RNG.uniform(-0.3, 0.3, (50, 8)),)
    exact = value_and_gradients(lambda x: tf.math.cumprod(x, 1), in_dtype(arrays, dtype, "float32"))
    got = value_and_gradients(lambda x: tf.math.cumprod(x, 1), in_dtype(arrays, dtype, dtype))
    np.testing.assert_array_equal(got[1], tf.cast(exact[1], dtype))


COMPILED = (  # one case for each kernel that adds up, and for each way in which cotangents meet
    "sum", "mean", "prod", "std", "logsumexp", "cumsum", "cumprod", "norm", "softmax", "log_softmax", "cross entropy",
    "sparse cross entropy", "moments", "layer_normalization", "segment sum", "tensor_scatter_nd_add", "gather",
    "gather_nd", "product", "quotient", "matmul", "einsum", "avg_pool",
)  # fmt: skip


@pytest.mark.parametrize("dtype", HALF)
def test_compiled(dtype: str):
    """In one program, which takes less time to compile than many."""
    pytest.importorskip("jax")

    @tf.function
    def together(given):
        return {case: value_and_gradients(CASES[case][0], given[case]) for case in COMPILED}

    found = together({case: in_dtype(CASES[case][1], dtype, dtype) for case in COMPILED})
    for case in COMPILED:
        check(lambda *args, case=case: found[case], case, dtype)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("case", COMPILED)
def test_jax_arrays(case: str, dtype: str):
    jnp = pytest.importorskip("jax.numpy")
    from gradtape._src.arrays import xla as xla_engine

    def on_jax(*args):
        given = [wrap(jnp.asarray(t.numpy())) for t in args]
        found = value_and_gradients(CASES[case][0], given)
        assert isinstance(found[0].array, xla_engine.jax.Array)
        return found

    check(on_jax, case, dtype)


# -- other modes -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", HALF)
def test_forward_mode(dtype: str):
    """A tangent of ones: a sum of three thousand, a mean of one, and the differential of a product."""
    x = tf.constant(LONG, dtype)
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
        total, mean, scaled = tf.reduce_sum(x), tf.reduce_mean(x), tf.reduce_logsumexp(x) * 3.0
    assert float(accumulator.jvp(total)) == float(tf.cast(float(N), dtype))
    assert float(accumulator.jvp(mean)) == 1.0
    assert abs(float(accumulator.jvp(scaled)) - 3.0) <= 3 * EPSILON[dtype]
    assert accumulator.jvp(total).dtype == accumulator.jvp(scaled).dtype == dtype


@pytest.mark.parametrize("dtype", HALF)
def test_batches(dtype: str):
    """Rows of a Jacobian and of a vectorized map accumulate as one sweep does."""
    b, x = tf.constant(ROWS[0], dtype), tf.constant(ROWS, dtype)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(b)
        y = tf.reduce_sum(x + b, 0)
        z = tf.reduce_sum(tf.nn.softmax(x * b, 0) * x, 0)
    expected = float(tf.cast(float(N), dtype))
    assert tape.jacobian(y, b).numpy().tolist() == [[expected, 0.0], [0.0, expected]]
    rows = [tape.gradient(z, b, output_gradients=tf.one_hot(i, 2, dtype=dtype)) for i in range(2)]
    assert roundings(tape.jacobian(z, b), tf.stack(rows), dtype) <= 1
    sums = tf.vectorized_map(lambda row: tf.reduce_sum(row) / 2.0, tf.constant(SIGNED, dtype))
    assert roundings(sums, tf.reduce_sum(tf.constant(SIGNED, dtype), 1) / 2.0, dtype) <= 0.01


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", HALF)
def test_second_order(dtype: str, compiled: bool):
    def curvature(b, x):
        with tf.GradientTape() as outer:
            outer.watch(b)
            with tf.GradientTape() as inner:
                inner.watch(b)
                y = tf.reduce_sum(tf.square(x * b), 0)
            slope = inner.gradient(y, b)
        return slope, outer.gradient(slope, b)

    if compiled:
        pytest.importorskip("jax")
    given = in_dtype((ROWS[0], ROWS), dtype, dtype)
    exact = curvature(*in_dtype((ROWS[0], ROWS), dtype, "float32"))
    for g, e in zip((tf.function(curvature) if compiled else curvature)(*given), exact, strict=True):
        assert g.dtype == dtype
        assert roundings(g, e, dtype) <= 3


@pytest.mark.parametrize("dtype", HALF)
def test_many_contributions_of_every_kind(dtype: str):
    """Dense and sparse, kept in the middle and at the source: float32 until the sum is complete."""
    table, x = tf.constant(ROWS[:3], dtype), tf.constant(ROWS[0], dtype)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([table, x])
        middle = x * 1.0
        uses = tf.add_n([tf.reduce_sum(middle + 0.0) for _ in range(600)])
        dense = tf.add_n([tf.reduce_sum(table) for _ in range(299)])
        both = dense + tf.reduce_sum(tf.gather(table, np.zeros(N, np.int32)))
    assert [t.numpy().tolist() for t in tape.gradient(uses, [middle, x])] == [[600.0, 600.0]] * 2
    got = tape.gradient(both, table)
    assert got.dtype == dtype
    expected = tf.cast(299.0 + np.array([[N], [0], [0]]) * np.ones(2), dtype)
    np.testing.assert_array_equal(tf.cast(got, tf.float32), tf.cast(expected, tf.float32))


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("length", [N, None])
def test_loops(length: int | None, dtype: str):
    """What a loop captures gets a contribution from each iteration, whether their number is known or not."""
    pytest.importorskip("jax")

    @tf.function
    def slope(b, n):
        with tf.GradientTape() as tape:
            tape.watch(b)
            y = tf.zeros([2])
            for _ in tf.range(length or n):
                y = y + tf.cast(b, tf.float32)
        return tape.gradient(y, b)

    got = slope(tf.ones([2], dtype), tf.constant(N))
    assert got.dtype == dtype
    assert got.numpy().astype(float).tolist() == [float(tf.cast(float(N), dtype))] * 2


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("how", ["scatter_add", "scatter_sub", "scatter_nd_add"])
def test_updates_of_variables(how: str, dtype: str):
    v, ones = tf.Variable(tf.zeros([2], dtype)), tf.ones([N], dtype)
    if how == "scatter_nd_add":
        v.scatter_nd_add(FIRST[:, None], ones)
    else:
        getattr(v, how)(tf.IndexedSlices(ones, FIRST))
    assert float(v[0]) == float(tf.cast(-float(N) if how == "scatter_sub" else float(N), dtype))


def test_overflow_between_does_not_show():
    """Squares and sums that float16 has no room for, in results that it has room for."""
    x = tf.constant([32000.0, 24000.0], tf.float16)
    assert float(tf.norm(x)) == 40000.0
    assert float(tf.reduce_mean(tf.fill([100000], tf.constant(10.0, tf.float16)))) == 10.0
    assert float(tf.add_n([x[0], x[0], x[0], -x[0], -x[0]])) == 32000.0
    assert float(tf.reduce_prod(tf.constant([300.0, 300.0, 0.001], tf.float16))) == 90.0625
    assert np.isinf(float(tf.reduce_sum(tf.concat([x, x], 0))))
