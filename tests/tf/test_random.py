"""tf.random: streams are TensorFlow's and never change; distributions are what they say; draws follow parameters."""

from __future__ import annotations

import hashlib
import math
import threading

import numpy as np
import pytest
from tf_cases import random as questions
from tf_cases.record import load

import gradtape as tf
from gradtape._src.arrays import numpy_namespace
from gradtape._src.arrays.numpy import random as kernels
from gradtape.testing import check_gradients

STORED = load("random")
CASES = questions.cases(tf)


@pytest.fixture(autouse=True)
def _no_global_seed():
    yield
    tf.random.set_seed(None)


# All stateful ops in one function, which takes long to compile
SLOW = {"function_None_42", "function_7_None"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in CASES])
def test_equals_tensorflow(name: str):
    for got, want in zip(CASES[name](), STORED[name], strict=True):
        array = np.asarray(got)
        assert array.shape == want.shape
        if want.dtype.kind == "f":
            assert array.dtype == want.dtype
            np.testing.assert_allclose(array, want, rtol={"e": 2e-3, "f": 1e-6, "d": 1e-14}[want.dtype.char], atol=1e-6)
        else:
            np.testing.assert_array_equal(array, want)


# -- bits ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [  # the published test vectors of Philox 4x32-10
        ([0, 0], 0, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([2**64 - 1, 2**64 - 1], 2**64 - 1, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x85A308D3243F6A88, 0x0370734413198A2E],
            0x299F31D0A4093822,
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_philox_known_answers(counter: list[int], key: int, words: list[int]):
    found = kernels.philox(key, *(np.array([c], np.uint64) for c in counter))
    assert [int(w[0]) for w in found] == words


def test_bits_never_change():
    digest = hashlib.sha256()
    digest.update(kernels.random_bits(kernels.stream_of(12345, 678), count=100_003).tobytes())
    digest.update(tf.random.stateless_uniform([1001], [1, 2]).numpy().tobytes())
    digest.update(tf.random.stateless_uniform([1001], [3, 4], -5, 10**9, dtype=tf.int64).numpy().tobytes())
    digest.update(tf.random.stateless_categorical(np.zeros((3, 7)), 100, [5, 6]).numpy().tobytes())
    digest.update(tf.random.experimental.stateless_shuffle(tf.range(100), [7, 8]).numpy().tobytes())
    assert digest.hexdigest() == "f3238cf428d5137731234c4ba144a87195303e0d3a456f19e168b98a4ba4b66d"


def test_numbers_never_change():
    """Distributions go through logarithms and the like: their last bit may differ between machines, no more."""
    found = [
        tf.random.stateless_normal([3], [1, 2]),
        tf.random.stateless_truncated_normal([3], [1, 2]),
        tf.random.stateless_gamma([3], [1, 2], [0.3, 2.0, 50.0]),
        tf.random.stateless_poisson([3], [1, 2], [0.3, 20.0, 5000.0], tf.float32),
        tf.random.stateless_binomial([3], [1, 2], 100, [0.01, 0.4, 0.9], tf.float32),
        tf.random.stateless_parameterized_truncated_normal([3], [1, 2], 1.0, [0.1, 1.0, 10.0], 0.0, 2.0),
    ]
    expected = [
        [0.544110119, 0.20738031, 0.0735643208],
        [0.544110119, 0.20738031, 0.0735643208],
        [0.00577490916, 1.92413652, 57.1143761],
        [1.0, 23.0, 5104.0],
        [3.0, 43.0, 86.0],
        [1.05441105, 0.54398036, 0.956777334],
    ]
    np.testing.assert_allclose(np.stack([np.asarray(f) for f in found]), expected, rtol=1e-6)


def test_parts_of_a_stream():
    start = 2**64 - 3  # the counter carries over into its upper half
    whole = kernels.random_bits(kernels.stream_of(7, start), count=40_000)
    part = kernels.random_bits(kernels.stream_of(7, start + 1000), count=36_000)
    np.testing.assert_array_equal(whole[4 * 1000 :], part)


def test_uniform_never_reaches_one(monkeypatch):
    monkeypatch.setattr(kernels, "_scrambled", lambda key, low, high: np.full((2, 2, len(low)), 0xFFFFFFFF, np.uint64))
    for dtype in (np.float16, np.float32, np.float64, tf.bfloat16.as_numpy_dtype):
        top = kernels.random_uniform(kernels.stream_of(0, 0), shape=(2,), dtype=dtype)
        assert np.all(top < 1)
        assert np.all(top > 0.98)


# -- seeds ---------------------------------------------------------------------------------------
def test_set_seed_repeats_everything():
    def draw():
        tf.random.set_seed(42)
        return [
            tf.random.normal([3]), tf.random.uniform([3]), tf.random.truncated_normal([3]), tf.random.gamma([3], 2.0),
            tf.random.poisson([3], 4.0), tf.random.shuffle(tf.range(9)), tf.random.categorical([[0.0, 1.0]], 9),
            tf.random.uniform([3], seed=5), tf.random.uniform([3], seed=5),
        ]  # fmt: skip

    first, second = draw(), draw()
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(first[-1], first[-2])  # an op with its own seed reads on
    tf.random.set_seed(43)
    assert not np.array_equal(first[0], tf.random.normal([3]))


def test_without_seed_numbers_differ():
    assert not np.array_equal(tf.random.normal([4]), tf.random.normal([4]))
    a, b = (tf.random.Generator.from_non_deterministic_state() for _ in range(2))
    assert not np.array_equal(a.normal([4]), b.normal([4]))


def test_streams_of_ops_are_separate():
    tf.random.set_seed(1)
    u = tf.random.uniform([4], seed=9)
    tf.random.set_seed(1)
    tf.random.normal([4], seed=9)
    np.testing.assert_array_equal(u, tf.random.uniform([4], seed=9))


def test_split_and_fold_in():
    seeds = tf.random.split([1, 2], 5).numpy()
    assert len({tuple(s) for s in seeds.tolist()}) == 5
    assert tf.random.fold_in([1, 2], 3).numpy()[1] == 3
    assert not np.array_equal(tf.random.fold_in([1, 2], 3), tf.random.fold_in([1, 3], 3))
    assert tf.random.experimental.stateless_split is tf.random.split
    assert tf.random.experimental.stateless_fold_in is tf.random.fold_in


def test_functions_that_run_eagerly_draw_what_compiled_ones_draw():
    """Each place that draws is an op, which reads on: also in a loop."""

    def draw(n, text):
        total = tf.constant(0.0)
        for _ in tf.range(n):
            total = total * 2 + tf.random.uniform([], seed=3) + tf.random.uniform([], seed=3)
        return total, tf.random.uniform([]), tf.random.uniform([])

    def drawn(text):
        tf.random.set_seed(1)
        function = tf.function(draw)
        found = [function(tf.constant(3), text) for _ in range(2)]
        tf.random.set_seed(1)
        return np.array([*found, function(tf.constant(2), text)])

    np.testing.assert_allclose(drawn(tf.constant("strings are not compiled")), drawn(None), rtol=1e-6)


def test_traces_leave_no_symbolic_state():
    specs = [tf.TensorSpec([None, 2], tf.float32)]
    first = tf.random.uniform([2], seed=42).numpy()
    tf.random.set_seed(None)
    tf.function(lambda x: tf.random.uniform(tf.shape(x), seed=42)).get_concrete_function(*specs)
    np.testing.assert_array_equal(tf.random.uniform([2], seed=42), first)
    function = tf.function(lambda x: tf.random.uniform(tf.shape(x), seed=42))
    assert not function.get_concrete_function(*specs).variables


# -- generators ----------------------------------------------------------------------------------
def test_generator_goes_on_copies_and_resets():
    g = tf.random.Generator.from_seed(3)
    g.normal([2])
    copy, same = tf.random.Generator(copy_from=g), tf.random.Generator.from_state(g.state, g.algorithm)
    expected = g.normal([3])
    np.testing.assert_array_equal(copy.normal([3]), expected)
    np.testing.assert_array_equal(same.normal([3]), expected)
    g.reset(tf.random.create_rng_state(3, "philox"))
    g.normal([2])
    np.testing.assert_array_equal(g.normal([3]), expected)
    g.reset_from_seed(3)
    g.skip(2)
    np.testing.assert_array_equal(g.normal([3]), expected)
    other = tf.random.Generator.from_key_counter(5, [1, 2], "philox")
    assert other.state.numpy().tolist() == [1, 2, 5]
    assert int(other.key) == 5
    assert other.algorithm == tf.random.Algorithm.PHILOX


def test_generator_draws_everything():
    g = tf.random.Generator.from_seed(1)
    assert g.truncated_normal([50]).numpy().max() <= 2
    assert g.binomial([50], 10, 0.3).numpy().max() <= 10
    assert g.uniform_full_int([3], tf.int32).dtype == tf.int32
    assert g.uniform([3], minval=None, maxval=None, dtype=tf.uint32).dtype == tf.uint32
    streams = g.split(3)
    assert len({float(s.normal([])) for s in streams}) == 3


def test_global_generator():
    before = tf.random.get_global_generator()
    assert tf.random.get_global_generator() is before
    mine = tf.random.Generator.from_seed(1)
    tf.random.set_global_generator(mine)
    assert tf.random.get_global_generator() is mine
    tf.random.set_global_generator(before)


def test_threads_never_share_numbers():
    g = tf.random.Generator.from_seed(1)
    found: list[float] = []

    def work():
        for _ in range(50):
            found.extend(g.uniform([4], dtype=tf.float64).numpy().tolist())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(set(found)) == 800


# -- distributions (seeds are fixed: these tests either always pass or never) --------------------
N = 40_000


def distance(sample: np.ndarray, cdf) -> float:
    """The largest distance between a distribution and what was drawn, in units where 1.63 is the 1 % point."""
    x = np.sort(sample.astype(np.float64).ravel())
    p = np.asarray(cdf(x), np.float64)
    steps = np.arange(len(x) + 1) / len(x)
    return float(max(np.max(steps[1:] - p), np.max(p - steps[:-1])) * math.sqrt(len(x)))


def normal_cdf(x: np.ndarray) -> np.ndarray:
    return np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in x])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_continuous_distributions(dtype: str):
    tf.random.set_seed(5)
    assert distance(tf.random.uniform([N], dtype=dtype).numpy(), lambda x: x) < 1.63
    assert distance(tf.random.uniform([N], -2.0, 3.0, dtype=dtype).numpy(), lambda x: (x + 2) / 5) < 1.63
    assert distance(tf.random.normal([N], dtype=dtype).numpy(), normal_cdf) < 1.63
    assert distance(tf.random.normal([N], 3.0, 0.5, dtype=dtype).numpy(), lambda x: normal_cdf((x - 3) / 0.5)) < 1.63
    tail = normal_cdf(np.array([-2.0]))[0]
    truncated = tf.random.truncated_normal([N], dtype=dtype).numpy()
    assert np.abs(truncated).max() <= 2
    assert distance(truncated, lambda x: (normal_cdf(x) - tail) / (1 - 2 * tail)) < 1.63


@pytest.mark.parametrize("alpha", [0.05, 0.5, 1.0, 3.3, 40.0, 3000.0])
def test_gamma_distribution(alpha: float):
    x = tf.random.stateless_gamma([N // 4], [3, int(alpha * 100)], alpha, 2.0, tf.float64).numpy()
    tiny = x[x <= 1e-300]  # what underflows is set to the smallest number
    assert len(tiny) < 0.01 * len(x)
    assert distance(x, lambda v: tf.math.igamma(np.full_like(v, alpha), v * 2)) < 1.63


@pytest.mark.parametrize(("low", "high"), [(-1.0, 2.0), (0.5, 3.0), (3.0, 5.0), (-9.0, -6.0), (6.0, 40.0), (-0.1, 0.1)])
def test_truncated_between_bounds(low: float, high: float):
    x = tf.random.stateless_parameterized_truncated_normal(
        [N // 4], [1, 2], *map(np.float64, (0, 1, low, high))
    ).numpy()
    assert x.min() >= low
    assert x.max() <= high
    side = -1 if low + high > 0 else 1  # compare in the tail that has all its digits
    a, b = sorted((side * low, side * high))
    below, above = normal_cdf(np.array([a, b]))
    assert distance(side * x, lambda v: (normal_cdf(v) - below) / (above - below)) < 1.63


def test_truncated_far_out():
    x = tf.random.stateless_parameterized_truncated_normal([1000], [1, 2], *map(np.float64, (0, 1, 50, 60))).numpy()
    assert x.min() >= 50
    assert distance((x - 50) * 50, lambda v: -np.expm1(-v)) < 1.9  # nearly exponential there


def chi_square(counts: np.ndarray, probabilities: np.ndarray) -> tuple[float, float]:
    """The statistic, and a bound that chance passes once in a thousand times (Wilson and Hilferty)."""
    expected = counts.sum() * probabilities
    few = expected < 8
    merged = [*((counts[i], expected[i]) for i in np.flatnonzero(~few)), (counts[few].sum(), expected[few].sum())]
    statistic = sum((c - e) ** 2 / e for c, e in merged if e > 0)
    k = max(len(merged) - 1, 1)
    return float(statistic), k * (1 - 2 / (9 * k) + 3.1 * math.sqrt(2 / (9 * k))) ** 3


@pytest.mark.parametrize("rate", [0.2, 2.0, 9.9, 10.0, 30.0, 400.0])
def test_poisson_distribution(rate: float):
    x = tf.random.stateless_poisson([N], [1, int(rate * 10)], rate).numpy()
    k = np.arange(int(x.max()) + 50)
    p = np.exp(k * math.log(rate) - rate - np.array([math.lgamma(v + 1) for v in k]))
    statistic, bound = chi_square(np.bincount(x, minlength=len(k)), p)
    assert statistic < bound


@pytest.mark.parametrize(("n", "prob"), [(5, 0.3), (30, 0.05), (60, 0.5), (200, 0.9), (1000, 0.3)])
def test_binomial_distribution(n: int, prob: float):
    x = tf.random.stateless_binomial([N], [3, n], n, prob).numpy()
    k = np.arange(n + 1)
    logs = np.array([math.lgamma(n + 1) - math.lgamma(v + 1) - math.lgamma(n - v + 1) for v in k])
    p = np.exp(logs + k * math.log(prob) + (n - k) * math.log1p(-prob))
    statistic, bound = chi_square(np.bincount(x, minlength=n + 1), p)
    assert statistic < bound


def test_categorical_distribution():
    logits = np.array([[0.0, 1.0, 2.0, -np.inf], [3.0, 3.0, 3.0, 3.0]])
    x = tf.random.categorical(logits, N, seed=1).numpy()
    for row, drawn in zip(logits, x, strict=True):
        p = np.exp(row) / np.exp(row).sum()
        statistic, bound = chi_square(np.bincount(drawn, minlength=4), p)
        assert statistic < bound
    assert x[0].max() == 2


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (0, 10, "int32"),
        (-7, 6, "int64"),
        (-(2**31), 2**31 - 1, "int32"),
        (-(2**63), 2**63 - 1, "int64"),
    ],
)
def test_integers_are_even(low: int, high: int, dtype: str):
    x = tf.random.stateless_uniform([N], [4, 4], low, high, dtype=dtype).numpy()
    assert x.dtype == dtype
    assert x.min() >= low
    assert x.max() < high
    bins = min(high - low, 13)
    which = ((x.astype(object) - low) * bins // (high - low)).astype(int)
    edges = [-(-b * (high - low) // bins) for b in range(bins + 1)]
    p = np.diff(np.array(edges, object)).astype(float) / (high - low)
    statistic, bound = chi_square(np.bincount(which, minlength=bins), p)
    assert statistic < bound


def test_shuffle_is_fair():
    tf.random.set_seed(1)
    orders = [tuple(tf.random.shuffle(tf.range(3)).numpy().tolist()) for _ in range(1200)]
    counts = np.array([orders.count(o) for o in sorted(set(orders))])
    assert len(counts) == 6
    statistic, bound = chi_square(counts, np.full(6, 1 / 6))
    assert statistic < bound


def test_index_shuffle_is_an_order():
    where = [int(tf.random.experimental.index_shuffle(i, [1, 2], 9)) for i in range(10)]
    assert sorted(where) == list(range(10))


def test_candidate_samplers():
    true = np.array([[0, 3], [5, 9]])
    for sampler in (tf.random.log_uniform_candidate_sampler, tf.random.uniform_candidate_sampler):
        ids, of_true, of_ids = sampler(true, 2, 6, True, 10, seed=3)
        assert len(set(ids.numpy().tolist())) == 6
        assert of_true.shape == (2, 2)
        assert of_ids.shape == (6,)
        assert np.all(of_true.numpy() > 0)
        assert np.all(of_true.numpy() <= 1)
        many, _, expected = sampler(true, 2, N, False, 10, seed=3)
        counts = np.bincount(many.numpy(), minlength=10)
        p = np.zeros(10)
        p[many.numpy()] = expected.numpy() / N
        statistic, bound = chi_square(counts, p)
        assert statistic < bound
    weights = [1.0, 2.0, 3.0, 4.0]
    many, of_true, _ = tf.random.fixed_unigram_candidate_sampler(
        [[1], [4]], 1, N, False, 5, num_reserved_ids=1, unigrams=weights, distortion=0.5, seed=1
    )
    p = np.sqrt([0.0, *weights]) / np.sqrt(weights).sum()
    np.testing.assert_allclose(of_true.numpy().ravel(), N * p[[1, 4]], rtol=1e-6)
    statistic, bound = chi_square(np.bincount(many.numpy(), minlength=5), p)
    assert statistic < bound
    ids, of_true, _ = tf.random.all_candidate_sampler(true, 2, 10, True)
    assert ids.numpy().tolist() == list(range(10))
    with pytest.raises(tf.errors.InvalidArgumentError, match="range is too small"):
        tf.random.uniform_candidate_sampler(true, 2, 11, True, 10)
    with pytest.raises(tf.errors.InvalidArgumentError, match="num_true"):
        tf.random.uniform_candidate_sampler(true, 1, 3, True, 10)


# -- draws follow their parameters ---------------------------------------------------------------
def test_location_and_scale():
    check_gradients(lambda m, s: tf.random.stateless_normal([4], [1, 2], m, s, tf.float64), 0.3, [1.0, 2.0, 0.5, 0.1])
    check_gradients(lambda m, s: tf.random.stateless_truncated_normal([4], [1, 2], m, s, tf.float64), 0.3, 1.5)
    check_gradients(lambda a, b: tf.random.stateless_uniform([4], [1, 2], a, b, tf.float64), -1.0, 2.0)


def test_variables_are_followed():
    v = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = tf.random.normal([3], mean=v) + tf.random.uniform([3], maxval=v, seed=1) + tf.random.gamma([3], v)
    assert np.all(np.isfinite(tape.gradient(y, v)))


def test_draws_have_no_other_history():
    with tf.GradientTape() as tape:
        x = tf.random.normal([3])
        tape.watch(x)
        y = x * x
    np.testing.assert_allclose(tape.gradient(y, x), 2 * x.numpy())
    for call in (lambda v: tf.random.poisson([2], v), lambda v: tf.random.categorical(v, 2), tf.random.shuffle):
        v = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        with tf.GradientTape() as tape:
            tape.watch(v)
            out = tf.cast(call(v), tf.float32)
        assert tape.gradient(out, v) is None


def test_stateless_shuffle_is_followed():
    v = tf.constant([1.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        tape.watch(v)
        y = tf.random.experimental.stateless_shuffle(v, [1, 2]) * [10.0, 20.0, 30.0]
    order = tf.random.experimental.stateless_shuffle(tf.range(3), [1, 2]).numpy()
    expected = np.zeros(3)
    expected[order] = [10, 20, 30]
    np.testing.assert_array_equal(tf.convert_to_tensor(tape.gradient(y, v)), expected)


def quantiles(alpha: np.ndarray, p: float) -> np.ndarray:
    """The gamma numbers with P = p, by bisection: of the logarithm first, then of the number."""
    low, high = np.where(alpha < 5, 1e-300, alpha / 100), 10 * alpha + 100
    while np.any(high - low > 2.3e-16 * high):
        middle = np.where(high > 2 * low, np.sqrt(low * high), (low + high) / 2)
        if np.all((middle == low) | (middle == high)):
            break
        below = np.asarray(tf.math.igamma(alpha, middle)) < p
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2


@pytest.mark.parametrize("alpha", [0.1, 0.7, 1.0, 4.0, 49.0, 60.0, 900.0])
@pytest.mark.parametrize("p", [0.03, 0.4, 0.9])
def test_gamma_numbers_move_with_alpha(alpha: float, p: float):
    """The derivatives, first and second, of a gamma number at a fixed quantile."""
    from gradtape._src.ops.random import gamma_sample

    h = 1e-4 * min(alpha, 300)
    below, here, above = quantiles(np.array([alpha - h, alpha, alpha + h]), p)
    a = tf.constant(alpha, tf.float64)
    with tf.GradientTape() as outer:
        outer.watch(a)
        with tf.GradientTape() as inner:
            inner.watch(a)
            x = gamma_sample(a, np.float64(here))
        first = inner.gradient(x, a)
    second = outer.gradient(first, a)
    np.testing.assert_allclose(float(first), (above - below) / (2 * h), rtol=2e-5)
    np.testing.assert_allclose(float(second), (above - 2 * here + below) / h**2, rtol=1e-3, atol=2e-4 / alpha)


def test_gamma_gradient_of_the_mean():
    """The derivative of the mean of many draws is near the derivative of the mean: 1/beta and -alpha/beta^2."""
    alpha, beta = tf.Variable([0.5, 3.0], dtype=tf.float64), tf.Variable(2.0, dtype=tf.float64)
    with tf.GradientTape() as tape:
        mean = tf.reduce_mean(tf.random.gamma([N], alpha, beta, tf.float64, seed=1), axis=0)
    of_alpha, of_beta = tape.gradient(mean, [alpha, beta])
    np.testing.assert_allclose(of_alpha, [0.5, 0.5], rtol=0.02)
    np.testing.assert_allclose(float(of_beta), -3.5 / 4, rtol=0.02)


@pytest.mark.parametrize(("low", "high"), [(-1.0, 2.0), (0.5, 0.75), (3.0, 8.0), (-9.0, -3.0), (20.0, 30.0)])
def test_bounds_are_followed(low: float, high: float):
    """A number moves with its bounds so that as much of the distribution stays below it."""
    parameters = [tf.constant([v] * 6, tf.float64) for v in (0.2, 1.3, low, high)]
    with tf.GradientTape() as tape:
        tape.watch(parameters)
        drawn = tf.random.stateless_parameterized_truncated_normal([6], [1, 2], *parameters)
    gradients = tape.gradient(drawn, parameters)

    def part(drawn, mean, stddev, low, high):
        return numpy_namespace.truncated_part(*(np.asarray((v - mean) / stddev) for v in (low, high, drawn)))

    here = part(drawn, *parameters)
    for number, gradient in enumerate(gradients):
        moved = [p + 1e-6 * (i == number) for i, p in enumerate(parameters)]
        np.testing.assert_allclose(part(drawn + 1e-6 * gradient, *moved), here, rtol=0, atol=1e-8)
    assert np.all(np.abs(sum(gradients[2:]) - 1) > 1e-6)  # the bounds are not all there is


# -- shapes, dtypes, refusals --------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_dtypes(dtype: str):
    r = tf.random
    for x in (
        r.normal([2, 3], dtype=dtype),
        r.uniform([2, 3], dtype=dtype),
        r.truncated_normal([2, 3], dtype=dtype),
        r.gamma([2], [1.0, 2.0, 3.0], dtype=dtype),
        r.Generator.from_seed(1).normal([2, 3], dtype=dtype),
    ):
        assert x.dtype == dtype
        assert x.shape == (2, 3)


def test_shapes():
    r = tf.random
    assert r.normal([]).shape == ()
    assert r.normal([0, 3]).shape == (0, 3)
    assert r.uniform(tf.constant([2, 1])).shape == (2, 1)
    assert r.gamma([4], [[1.0], [2.0]], [1.0, 2.0, 3.0]).shape == (4, 2, 3)
    assert r.stateless_gamma([4, 2], [1, 2], [1.0, 2.0]).shape == (4, 2)
    assert r.poisson([2], [[1.0, 2.0]]).shape == (2, 1, 2)
    assert r.shuffle(np.zeros((4, 2))).shape == (4, 2)
    assert r.categorical(np.zeros((2, 3)), 0).shape == (2, 0)


def test_refusals():
    r, invalid = tf.random, tf.errors.InvalidArgumentError
    with pytest.raises(ValueError, match="Must specify maxval"):
        r.uniform([2], dtype=tf.int32)
    with pytest.raises(invalid, match="Need minval < maxval, got 5 >= 5"):
        r.uniform([2], 5, 5, dtype=tf.int32)
    with pytest.raises(ValueError, match="Accepted dtypes"):
        r.uniform([2], dtype=tf.uint8)
    with pytest.raises(TypeError, match=r"Cannot convert 0\.0"):
        r.normal([2], dtype=tf.int32)
    with pytest.raises(TypeError, match="Cannot convert"):
        r.gamma([2], 1.0, dtype=tf.int32)
    with pytest.raises(invalid, match="must be >= 0"):
        r.normal([-1])
    with pytest.raises(invalid, match=r"seed must have shape \[2\], not \[3\]"):
        r.stateless_uniform([2], [1, 2, 3])
    with pytest.raises(invalid, match="Tseed"):
        r.stateless_uniform([2], [1.0, 2.0])
    with pytest.raises(ValueError, match="both None or not None"):
        r.stateless_uniform([2], [1, 2], dtype=tf.int32)
    with pytest.raises(invalid, match="logits should be a matrix"):
        r.categorical([1.0, 2.0], 3)
    with pytest.raises(invalid, match="must end with broadcasted shape"):
        r.stateless_gamma([3], [1, 2], [1.0, 2.0])
    with pytest.raises(invalid, match="stddev must be positive"):
        r.stateless_parameterized_truncated_normal([3], [1, 2], 0.0, 0.0)
    with pytest.raises(invalid, match="minval must be less"):
        r.stateless_parameterized_truncated_normal([3], [1, 2], 0.0, 1.0, 2.0, 1.0)
    with pytest.raises(ValueError, match="needs a state"):
        r.Generator()
    with pytest.raises(ValueError, match="incompatible"):
        r.Generator.from_state([1, 2], "philox")
    with pytest.raises(ValueError, match="unsupported value x"):
        r.Generator.from_seed(1, alg="x")
    with pytest.raises(tf.errors.UnimplementedError, match="ThreeFry"):
        r.Generator.from_seed(1, alg="threefry").normal([2])
    with pytest.raises(invalid, match="Unsupported algorithm id: 3"):
        r.Generator.from_seed(1, alg="auto_select").binomial([2], 5.0, 0.5)
    with pytest.raises(TypeError, match="Expected int for argument 'seed2' not nan"):
        r.uniform([2], seed=float("inf"))
    with pytest.raises(invalid, match="max_index must be >= index, but 4 < 7"):
        r.experimental.index_shuffle(7, [1, 2], 4)
    with pytest.raises(invalid, match="index must be >= 0 but was -1"):
        r.experimental.index_shuffle(-1, [1, 2], 4)
    with pytest.raises(invalid, match="Seed must be a vector"):
        r.experimental.index_shuffle(1, [1, 2, 3], 4)
    with pytest.raises(invalid, match="Invalid parameters"):
        r.stateless_parameterized_truncated_normal([3], [1, 2], 0.0, 1.0, -np.inf, np.inf)
    with pytest.raises(ValueError, match="don't use unsigned"):
        r.stateless_uniform([2], [1, 2], 1, 9, dtype=tf.uint32)
    with pytest.raises(invalid, match="ThreeFry"):
        r.stateless_normal([2], [1, 2], alg="threefry")


def test_unigrams_from_a_file(tmp_path):
    path = tmp_path / "words.csv"
    path.write_text("a,3\nb,0\nc,1\n")
    ids, *_ = tf.random.fixed_unigram_candidate_sampler([[0]], 1, 50, False, 3, vocab_file=str(path), seed=1)
    assert set(ids.numpy().tolist()) == {0, 2}
    for wrong in ({"range_max": 3}, {"range_max": 4, "unigrams": [1.0, 2.0]}):
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.random.fixed_unigram_candidate_sampler([[0]], 1, 5, False, **wrong)


def test_strange_parameters_give_nan():
    assert np.isnan(tf.random.stateless_gamma([1], [1, 2], -1.0).numpy()).all()
    truncated = tf.random.stateless_parameterized_truncated_normal
    for mean, high in (np.nan, 3.0), (np.inf, 3.0), (-1e30, np.inf):
        assert np.isnan(truncated([2], [1, 2], mean, 1.0, 2.0, high).numpy()).all()
    for deviation, low, high in (np.nan, 2.0, 3.0), (1.0, np.nan, 3.0), (1.0, 2.0, np.nan):
        with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid parameters"):
            truncated([2], [1, 2], 0.0, deviation, low, high)
    assert np.isnan(tf.random.stateless_binomial([2], [1, 2], [np.inf, np.nan], 0.5, tf.float32).numpy()).all()
    assert np.isnan(tf.random.stateless_poisson([2], [1, 2], [np.nan, np.inf], tf.float32).numpy()).all()
    assert np.isnan(tf.random.stateless_binomial([1], [1, 2], [5.0], [np.nan], tf.float32).numpy()).all()
    for found in (
        tf.random.stateless_poisson([2], [1, 2], [0.0, -1.0]),
        tf.random.stateless_binomial([5], [1, 2], [-1.0, -1.0, 5.0, 0.0, 5.0], [0.5, 0.9, -0.5, 0.5, np.nan]),
    ):
        np.testing.assert_array_equal(found, 0)
    np.testing.assert_array_equal(tf.random.stateless_binomial([2], [1, 2], 5.0, [1.0, 1.5]), 5)
