"""The random kernels of the XLA engine against NumPy's: the same bits, integers and choices, the same numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
import ml_dtypes

import gradtape as tf
from gradtape._src.arrays import numpy_namespace
from gradtape._src.arrays.numpy import random as plain
from gradtape._src.arrays.seeds import OpStreams, drawing_from
from gradtape._src.arrays.xla import random as xla, xla_namespace

STREAMS = [
    plain.stream_of(0, 0),
    plain.stream_of(87654321, 42 << 64),
    plain.stream_of(2**64 - 1, 2**128 - 5),  # the counter carries, and starts again at 0
    plain.stream_of(0x299F31D0A4093822, 2**64 - 2),
    *(
        plain.stream_of(*(int.from_bytes(np.random.default_rng(i).bytes(16), "little") for _ in range(2)))
        for i in (1, 2)
    ),
]
FLOATS = [np.dtype(d) for d in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)]
INTEGERS = [np.dtype(d) for d in (np.int32, np.int64)]
SHAPES = [(), (0,), (5,), (3, 4, 7)]
ULPS = 4 * np.finfo(np.float64).eps  # numbers are computed as doubles, and rounded once to a narrower dtype


@cache  # compiled once for all streams
def compiled(name: str, **attrs: Any) -> Callable[..., Any]:
    return jax.jit(partial(getattr(xla_namespace, name), **attrs))


def both(name: str, *arrays: Any, **attrs: Any) -> tuple[Any, Any]:
    """What NumPy's kernel gives, and what XLA's gives when compiled, with a stream that it does not know before."""
    return np.asarray(getattr(numpy_namespace, name)(*arrays, **attrs)), np.asarray(compiled(name, **attrs)(*arrays))


def agree(a: np.ndarray, b: np.ndarray) -> None:
    assert a.shape == b.shape
    assert a.dtype == b.dtype
    if a.dtype.kind in "iu":
        np.testing.assert_array_equal(a, b)
        return
    last = max(ULPS, float(ml_dtypes.finfo(a.dtype).eps))
    np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=last, atol=ULPS)


@pytest.mark.parametrize("stream", STREAMS, ids=range(len(STREAMS)))
@pytest.mark.slow
class TestDraws:
    @pytest.mark.parametrize("count", [0, 1, 4, 7, 4096 * 4 + 3])
    def test_bits(self, stream: Any, count: int):
        np.testing.assert_array_equal(*both("random_bits", stream, count=count))

    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("dtype", [*INTEGERS, np.dtype(np.uint32), np.dtype(np.uint64)])
    def test_integers(self, stream: Any, shape: tuple[int, ...], dtype: Any):
        agree(*both("random_integers", stream, shape=shape, dtype=dtype))

    @pytest.mark.parametrize("dtype", INTEGERS)
    @pytest.mark.parametrize(
        ("low", "high"), [(0, 1), (-5, 10), (0, 2**20), (-(2**31), 2**31 - 1), (-7, 3 * 2**29), (3, 3)]
    )
    def test_range(self, stream: Any, low: int, high: int, dtype: Any):
        agree(*both("random_range", stream, np.array(low, dtype), np.array(high, dtype), shape=(7, 11), dtype=dtype))

    def test_wide_range(self, stream: Any):
        bounds = np.array(-(2**63)), np.array(2**63 - 1)
        agree(*both("random_range", stream, *bounds, shape=(50,), dtype=np.dtype(np.int64)))

    @pytest.mark.parametrize("count", [0, 1, 2, 100])
    def test_order(self, stream: Any, count: int):
        agree(*both("random_order", stream, count=count))

    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("dtype", FLOATS, ids=str)
    @pytest.mark.parametrize("name", ["random_uniform", "random_normal", "random_truncated"])
    def test_floats(self, stream: Any, name: str, shape: tuple[int, ...], dtype: Any):
        ours, theirs = both(name, stream, shape=shape, dtype=dtype)
        agree(ours, theirs)
        if name == "random_uniform":  # made of bits alone
            np.testing.assert_array_equal(ours, theirs)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_gamma(self, stream: Any, dtype: Any):
        alpha = np.append(np.geomspace(0.01, 1e4, 199), 1).reshape(2, 100).astype(dtype)
        ours, theirs = both("random_gamma", stream, alpha, samples=2)
        # Small numbers are powers: what the last bit of a logarithm is worth grows with it.
        # XLA takes what is smaller than the smallest normal number for 0.
        np.testing.assert_allclose(ours, theirs, rtol=1e-6 if dtype == np.float32 else 1e-13, atol=np.finfo(dtype).tiny)

    @pytest.mark.parametrize("dtype", [*INTEGERS, np.dtype(np.float32)])
    def test_poisson(self, stream: Any, dtype: Any):
        agree(*both("random_poisson", stream, np.geomspace(1e-3, 1e6, 200).reshape(2, 100), samples=3, dtype=dtype))

    @pytest.mark.parametrize("dtype", [*INTEGERS, np.dtype(np.float32)])
    def test_binomial(self, stream: Any, dtype: Any):
        counts, probs = np.array([[0.0], [1.0], [9.0], [100.0], [1e6]]), np.linspace(0, 1, 101)
        agree(*both("random_binomial", stream, counts, probs, samples=2, dtype=dtype))

    @pytest.mark.parametrize(("samples", "dtype"), [(7, np.float16), (5000, np.float32), (7, np.float64)])
    def test_between(self, stream: Any, samples: int, dtype: Any):
        low = np.array([-2.0, -0.5, 0.5, 3.0, -9.0, -np.inf, 2.0], dtype)
        high = np.array([2.0, 0.25, 4.0, 8.0, -3.0, -1.0, np.inf], dtype)
        ours, theirs = both("random_between", stream, low, high, samples=samples)
        last = 4 * float(np.finfo(dtype).eps)  # XLA multiplies and adds in one step
        np.testing.assert_allclose(ours, theirs, rtol=last, atol=last)

    def test_categorical(self, stream: Any):
        logits = np.random.default_rng(0).normal(0, 3, (4, 9)).astype(np.float32)
        logits[1, 2:5], logits[2], logits[3, :8] = -np.inf, np.nan, -np.inf
        agree(*both("random_categorical", stream, logits, count=200, dtype=np.dtype(np.int64)))


@pytest.mark.parametrize(
    ("name", "arrays", "attrs"),
    [
        ("random_bits", (), {"count": 9}),
        ("random_normal", (), {"shape": (9,), "dtype": np.float32}),
        ("random_range", (np.array(-3), np.array(9)), {"shape": (9,), "dtype": np.int32}),
        ("random_gamma", (np.array([0.5, 2.0]),), {"samples": 2}),
        ("random_poisson", (np.array([0.5, 20.0]),), {"samples": 2, "dtype": np.int32}),
    ],
)
def test_without_compiling(name: str, arrays: Any, attrs: dict[str, Any]):
    found = getattr(xla, name)(jax.numpy.asarray(STREAMS[1]), *arrays, **attrs)
    assert isinstance(found, jax.Array)
    agree(np.asarray(found), getattr(plain, name)(STREAMS[1], *arrays, **attrs))


def test_philox_known_answer():
    """A published test vector of Philox 4x32-10."""
    words = xla.philox(*(np.uint64(n) for n in (0x299F31D0A4093822, 0x85A308D3243F6A88, 0x0370734413198A2E)))
    assert [int(w) for w in words] == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


@pytest.mark.slow
def test_bad_parameters_give_nan():
    bad = np.array([np.nan, -1.0, np.inf, 0.0, 3.0])
    for name, arrays in {
        "random_poisson": (bad,),
        "random_binomial": (
            np.array([np.nan, -1.0, 5.0, 0.0, 4.0, np.inf]),
            np.array([0.5, 0.5, np.nan, 0.3, 0.0, 0.7]),
        ),
    }.items():
        for dtype in (np.float64, np.int32):
            np.testing.assert_array_equal(*both(name, STREAMS[1], *arrays, samples=1, dtype=np.dtype(dtype)))
    for bounds in (
        (np.array([np.nan, 0.0]), np.array([1.0, np.nan])),
        (np.array([np.nan]), np.array([np.nan])),
        (np.array([-np.inf, np.inf, 1e200, -np.inf]), np.array([-np.inf, np.inf, np.inf, -1e200])),
    ):
        ours, theirs = both("random_between", STREAMS[1], *bounds, samples=2)
        assert np.isnan(ours).all()
        assert np.isnan(theirs).all()
    ours, theirs = both("random_gamma", STREAMS[1], np.array([np.nan, 2.0]), samples=1)
    assert np.isnan(ours[0, 0])
    np.testing.assert_allclose(ours, theirs, rtol=1e-14)


# -- streams -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", [[0, 0], [1, 2], [-1, 2**31 - 1], [-(2**63), 2**63 - 1]])
def test_streams_of_seeds(seed: list[int]):
    np.testing.assert_array_equal(*both("stream_of_seed", np.array(seed, np.int64)))


@pytest.mark.parametrize("state", [[0, 0, 7], [-1, -1, -1], [2**63 - 1, -5, 3], [-200, 4, 0]])
@pytest.mark.parametrize("delta", [0, 1, 5, 2**40, 2**56, 2**62 + 3, -1, -(2**60)])
def test_states(state: list[int], delta: int):
    words = np.array(state, np.int64)
    np.testing.assert_array_equal(*both("stream_of_state", words))
    ours, theirs = both("advanced_state", words, np.array(delta, np.int64))
    np.testing.assert_array_equal(ours, theirs)
    low, high, key = (int(n) % 2**64 for n in state)
    counter = (low + (high << 64) + 256 * delta % 2**64) % 2**128
    assert [int(n) % 2**64 for n in ours] == [counter % 2**64, counter >> 64, key]


@pytest.mark.parametrize("seed", [[1, 2], pytest.param([-3, 2**31 - 1], marks=pytest.mark.slow)])
def test_shuffled_index(seed: list[int]):
    for most in (0, 9, 1000, 2**16, 2**40 + 5, 2**63 - 1):
        index = np.unique(np.linspace(0, most, 10, dtype=np.float64).astype(np.uint64).clip(0, most)).astype(np.int64)
        agree(*both("shuffled_index", index, np.array(seed), np.array(most)))


# -- how numbers move with their parameters ----------------------------------------------------------------------------
@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_gamma_tail(order: int):
    alpha = np.geomspace(0.02, 3e3, 60)[:, None]
    sample = alpha * np.array([1e-6, 0.1, 0.7, 1.0, 1.02, 1.5, 3.0])
    ours, theirs = both("gamma_tail", alpha, sample, order=order)
    np.testing.assert_allclose(ours, theirs, rtol=1e-11)
    np.testing.assert_array_equal(
        *both("gamma_tail", np.array([-1.0, np.nan, 2.0]), np.array([1.0, 1.0, -1.0]), order=0)
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_truncated_part(dtype: Any):
    x = np.array([-40.0, -9.0, -3.0, -1.0, 0.0, 0.5, 3.0, 12.0, 37.5], dtype)[:, None, None]
    y = x + np.array([1e-3, 0.5, 2.0, 30.0], dtype)[:, None]
    z = x + (y - x) * np.array([0.0, 0.01, 0.3, 0.5, 0.99, 1.0], dtype)
    ours, theirs = both("truncated_part", x, y, z)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6 if dtype == np.float32 else 1e-11, atol=1e-12)
    np.testing.assert_allclose(ours[..., 0], 0, atol=1e-12)
    np.testing.assert_allclose(ours[..., -1], 1, atol=1e-12)


# -- in compiled functions ---------------------------------------------------------------------------------------------
IMAGE = np.arange(4 * 5 * 3, dtype=np.float32).reshape(4, 5, 3)
STATEFUL: dict[str, Callable[[], Any]] = {
    "normal": lambda: tf.random.normal([3], 1.0, 2.0),
    "uniform": lambda: tf.random.uniform([3], 2, 5),
    "integers": lambda: tf.random.uniform([3], 2, 500, tf.int32),
    "an op's own seed": lambda: tf.random.normal([3], seed=4),
    "truncated_normal": lambda: tf.random.truncated_normal([3]),
    "gamma": lambda: tf.random.gamma([3], [0.5, 2.0], 3.0),
    "poisson": lambda: tf.random.poisson([3], [0.5, 20.0]),
    "categorical": lambda: tf.random.categorical([[0.1, 0.5, 1.0]], 5),
    "shuffle": lambda: tf.random.shuffle(tf.range(10)),
    "dropout": lambda: tf.nn.dropout(tf.ones([10]), 0.5),
    "initializer": lambda: tf.random_normal_initializer()([3]),
    "log_uniform": lambda: tf.random.log_uniform_candidate_sampler([[1, 2]], 2, 5, True, 20),
    "uniform_candidates": lambda: tf.random.uniform_candidate_sampler([[1, 2]], 2, 5, False, 20),
    "unigram": lambda: tf.random.fixed_unigram_candidate_sampler(
        [[1, 2]], 2, 3, True, 4, unigrams=[1.0, 2.0, 3.0, 4.0]
    ),
    "flip": lambda: tf.image.random_flip_left_right(IMAGE),
    "flips": lambda: tf.image.random_flip_up_down(np.stack([IMAGE, IMAGE])),
    "crop": lambda: tf.image.random_crop(IMAGE, [2, 2, 3]),
}
STATELESS: dict[str, Callable[[Any], Any]] = {
    "normal": lambda seed: tf.random.stateless_normal([2], seed),
    "uniform": lambda seed: tf.random.stateless_uniform([3], seed, -1.0, 2.0),
    "bounds": lambda seed: tf.random.stateless_uniform([3], seed, tf.minimum(seed[0], 0), tf.constant(9), tf.int32),
    "whole range": lambda seed: tf.random.stateless_uniform([3], seed, None, None, tf.uint64),
    "truncated_normal": lambda seed: tf.random.stateless_truncated_normal([2], seed),
    "between": lambda seed: tf.random.stateless_parameterized_truncated_normal([2], seed, 0.0, 1.0, -1.0, 1.0),
    "gamma": lambda seed: tf.random.stateless_gamma([2], seed, [0.4, 3.0]),
    "poisson": lambda seed: tf.random.stateless_poisson([2], seed, [0.4, 30.0]),
    "binomial": lambda seed: tf.random.stateless_binomial([2], seed, 30.0, [0.1, 0.6]),
    "categorical": lambda seed: tf.random.stateless_categorical([[1.0, 2.0]], 3, seed),
    "shuffle": lambda seed: tf.random.experimental.stateless_shuffle(tf.range(9), seed),
    "index_shuffle": lambda seed: tf.random.experimental.index_shuffle(tf.constant(3), seed, 9),
    "split": lambda seed: tf.random.split(seed, 3),
    "fold_in": lambda seed: tf.random.fold_in(seed, seed[1]),
    "dropout": lambda seed: tf.nn.experimental.stateless_dropout(tf.ones([4]), 0.5, seed),
}


def same(ours: Any, theirs: Any) -> None:
    for a, b in zip(tf.nest.flatten(ours), tf.nest.flatten(theirs), strict=True):
        agree(np.asarray(a), np.asarray(b))


def traced_once(function: Callable[..., Any]) -> tuple[Any, list[int]]:
    """The function compiled, and a list that grows whenever Python runs it."""
    runs: list[int] = []

    def counted(*args: Any) -> Any:
        runs.append(1)
        return function(*args)

    return tf.function(counted), runs


@pytest.mark.parametrize("name", STATEFUL)
def test_every_call_of_a_function_draws_what_it_would_without_xla(name: str):
    try:
        tf.random.set_seed(5)
        streams = OpStreams()

        def uncompiled() -> Any:
            with drawing_from(streams):
                return STATEFUL[name]()

        expected = [uncompiled() for _ in range(3)]
        function, runs = traced_once(STATEFUL[name])
        same([function() for _ in range(3)], expected)
        tf.random.set_seed(6)  # what was traced keeps its seeds, and starts again
        same([function() for _ in range(3)], expected)
        assert len(runs) == 1
    finally:
        tf.random.set_seed(None)


@pytest.mark.parametrize("name", STATELESS)
def test_seeds_that_a_function_is_given(name: str):
    function, runs = traced_once(STATELESS[name])
    for seed in ([1, 2], [-5, 9]):
        same(function(tf.constant(seed)), STATELESS[name](tf.constant(seed)))
    assert len(runs) == 1


def test_generators_in_functions():
    def draw(generator: Any, delta: Any) -> Any:
        before = generator.skip(delta)
        numbers = generator.normal([2]), generator.uniform([2], 0, 9, tf.int32), generator.binomial([2], 5.0, 0.5)
        return before, numbers, generator.make_seeds(2), generator.key, generator.uniform_full_int([2])

    eager, used = (tf.random.Generator.from_seed([1, -2, 3]) for _ in range(2))
    function, runs = traced_once(lambda delta: draw(used, delta))
    for delta in (1, 5, -7):
        same(function(tf.constant(delta)), draw(eager, tf.constant(delta)))
        same(used.state.value(), eager.state.value())
    assert len(runs) == 1
    reset = tf.function(used.reset)
    reset(tf.constant([7, 8, 9], tf.int64))
    assert used.state.numpy().tolist() == [7, 8, 9]
    tf.function(used.reset_from_key_counter)(tf.constant(4), tf.constant([5, 6]))
    assert used.state.numpy().tolist() == [5, 6, 4]


def test_the_gradient_uses_the_numbers_that_were_drawn():
    x = tf.Variable(np.arange(1.0, 21.0, dtype=np.float32))
    function = tf.function(lambda: tf.nn.dropout(x, 0.5))
    with tf.GradientTape() as tape:
        y = function()
    np.testing.assert_allclose(tape.gradient(y, x) * x, y, rtol=1e-6)


def test_large_draws_do_not_depend_on_threads():
    """Nor on how many are drawn at a time."""
    from gradtape._src import threads
    from gradtape._src.arrays.numpy import random

    stream = random.stream_of(7, 2**64 - 5)  # the counter's low word overflows
    count = 4 * random._CHUNK + 5
    kernels = (random.random_normal, random.random_uniform)
    for kernel, dtype in itertools.product(kernels, (np.float32, np.float64, np.float16)):
        results = []
        for limit in (1, 3):
            threads.set_limit(limit)
            results.append(kernel(stream, shape=(count,), dtype=dtype).tobytes())
        threads.set_limit(0)
        assert results[0] == results[1]
        assert results[0].startswith(kernel(stream, shape=(1001,), dtype=dtype).tobytes())


def test_sines_and_cosines_of_float32_angles():
    from gradtape._src.arrays.numpy.random import _sine_and_cosine

    angles = np.linspace(0, 2 * np.pi, 200_001).astype(np.float32)
    sine, cosine = _sine_and_cosine(angles)
    np.testing.assert_allclose(sine, np.sin(angles.astype(np.float64)), rtol=0, atol=1e-15)
    np.testing.assert_allclose(cosine, np.cos(angles.astype(np.float64)), rtol=0, atol=1e-15)
    assert (sine[0], cosine[0]) == (0, 1)
