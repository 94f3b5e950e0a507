"""A memory limit changes what a tape keeps, and no bit of a gradient."""

from __future__ import annotations

import gc
import os
import tracemalloc
from typing import Any

import numpy as np
import pytest
from benchmarks import memory_limit
from hypothesis import given, settings
from op_table import ROWS
from random_programs import programs

import gradtape as tf
from gradtape._src import devices
from gradtape._src.autodiff import budget
from gradtape._src.autodiff.budget import BOOKKEEPING, parse_limit


def rnn(steps: int, width: int = 48) -> tuple[Any, list[tf.Variable]]:
    rng = np.random.default_rng(0)
    w = tf.Variable(rng.normal(size=(width, width)).astype("f") / width**0.5)
    b = tf.Variable(np.zeros(width, "f"))
    x = tf.constant(rng.normal(size=(steps, width, width)).astype("f"))

    def loss() -> Any:
        h = tf.zeros((width, width))
        for i in range(steps):
            h = tf.tanh(h @ w + x[i] + b)
        return tf.reduce_sum(h * h)

    return loss, [w, b]


def convolutions(layers: int, shape: tuple[int, ...] = (2, 8, 8, 4)) -> tuple[Any, list[tf.Variable]]:
    rng = np.random.default_rng(0)
    filters = [tf.Variable(rng.normal(size=(3, 3, 4, 4)).astype("f") * 0.1) for _ in range(layers)]
    x = tf.constant(rng.normal(size=shape).astype("f"))

    def loss() -> Any:
        h = x
        for f in filters:
            h = h + tf.nn.relu(tf.nn.conv2d(h, f, 1, "SAME"))
        return tf.reduce_mean(h * h)

    return loss, filters


def gradients(program: tuple[Any, list[Any]], **options: Any) -> tuple[list[np.ndarray], Any]:
    loss, variables = program
    with tf.GradientTape(**options) as tape:
        y = loss()
    return [g.numpy() for g in tape.gradient(y, variables)], tape


@pytest.mark.parametrize("spill", [None, "disk"])
@pytest.mark.parametrize("divisor", [2, 4, 8])
@pytest.mark.parametrize("program", [rnn(40), convolutions(30)], ids=["rnn", "residual"])
def test_gradients_are_equal_to_the_bit(program, divisor, spill):
    expected, _ = gradients(program)
    _, tape = gradients(program, memory_limit="1GB")
    peak, records = tape.memory_report().limit.peak, tape._summary.size
    limit = peak // divisor + records * BOOKKEEPING
    found, tape = gradients(program, memory_limit=limit, spill=spill)
    for e, f in zip(expected, found, strict=True):
        assert e.tobytes() == f.tobytes()
    outcome = tape.memory_report().limit
    assert outcome.dropped > 0
    assert outcome.peak <= limit + 48 * 48 * 4, "one value more, before others are dropped"
    assert outcome.recomputed > 0 or outcome.spilled > 0
    assert outcome.recomputed < 6 * records, "values in between are kept while they are needed"
    assert outcome.kept == 0


def peaks(program: tuple[Any, list[Any]], **options: Any) -> tuple[int, int, Any]:
    """The bytes of arrays and Python objects after the forward pass, and their peak in both passes."""
    loss, variables = program
    gc.collect()
    tracemalloc.start()
    with tf.GradientTape(**options) as tape:
        y = loss()
    forward = tracemalloc.get_traced_memory()[0]
    tape.gradient(y, variables)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return forward, peak, tape.memory_report().limit


@pytest.mark.parametrize(
    ("make", "divisors"), [(lambda: rnn(240, 112), (2, 4, 8)), (lambda: convolutions(160, (4, 16, 16, 4)), (2, 4))]
)
def test_the_peak_is_within_the_limit(make, divisors):
    program = make()
    gradients(program, memory_limit=0)  # what is imported and compiled once
    forward, peak, _ = peaks(program)
    for divisor in divisors:
        limit = peak // divisor
        _, limited, outcome = peaks(program, memory_limit=limit)
        assert outcome.peak <= limit
        assert limited <= 1.05 * limit + (peak - forward), "what a rule takes cannot be dropped"


def lstm(steps: int, width: int = 32) -> tuple[Any, list[tf.Variable]]:
    rng = np.random.default_rng(0)
    w = tf.Variable((rng.normal(size=(width, 4 * width)) * 0.1).astype("f"))
    x = tf.constant(rng.normal(size=(steps, 1, 4 * width)).astype("f"))

    def loss() -> Any:
        h = c = tf.zeros((64, width))
        for i in range(steps):
            z, f, g, o = tf.split(h @ w + x[i], 4, 1)
            c = tf.sigmoid(f) * c + tf.sigmoid(z) * tf.tanh(g)
            h = tf.sigmoid(o) * tf.tanh(c)
        return tf.reduce_sum(h * h)

    return loss, [w]


def two_chains(steps: int) -> tuple[Any, list[tf.Variable]]:
    a, b = tf.Variable(np.full((24, 24), 0.04, "f")), tf.Variable(np.full((24, 24), 0.7, "f"))

    def loss() -> Any:
        p, q = tf.ones((24, 24)), tf.ones((24, 24))
        for _ in range(steps):
            p, q = tf.tanh(p @ a), tf.sin(q * b)
        return tf.reduce_sum(p * q)

    return loss, [a, b]


@pytest.mark.parametrize("program", [lstm(150), two_chains(200), rnn(200)], ids=["lstm", "two chains", "rnn"])
def test_no_op_runs_again_many_times(program):
    """Also where cheap ops depend on each other over the whole program, beside expensive ones."""
    expected, tape = gradients(program, memory_limit="1GB")
    peak, records = tape.memory_report().limit.peak, tape._summary.size
    for divisor, most in ((2, 0.8), (4, 1.1), (8, 2), (16, 2)):
        found, tape = gradients(program, memory_limit=peak // divisor + records * BOOKKEEPING)
        assert [g.tobytes() for g in found] == [g.tobytes() for g in expected]
        assert 0 < tape.memory_report().limit.recomputed <= most * records


@settings(deadline=None, max_examples=15)
@given(example=programs())
def test_random_programs(example):
    function, args = example
    tensors = [tf.constant(np.asarray(a, "float32")) for a in args]

    def run(**options: Any) -> list[Any]:
        with tf.GradientTape(**options) as tape:
            tape.watch(tensors)
            y = function(*tensors)
        found = tape.gradient(y, tensors, unconnected_gradients="zero")
        return [tf.convert_to_tensor(g).numpy().tobytes() for g in found]

    expected = run()
    for limit in (0, 500, 5_000):
        assert run(memory_limit=limit) == expected
        assert run(memory_limit=limit, spill="disk") == expected


def test_every_primitive_is_computed_again():
    """With no memory at all each value that a rule reads is computed by the ops before it."""
    recomputed = 0
    for row in ROWS.values():
        if not row.differentiable or row.error is not None or row.name in ("custom_gradient", "numpy_function"):
            continue
        sample = row.samples[0]

        def run(row: Any = row, sample: Any = sample, **options: Any) -> list[Any]:
            sources = [tf.constant(a) for a in sample.args]
            floating = [s for s in sources if s.dtype.is_floating]
            with tf.GradientTape(**options) as tape:
                tape.watch(floating)
                inputs = [s * 1.0 if s.dtype.is_floating else s for s in sources]
                outputs = [y for y in tf.nest.flatten(row.call(*inputs, **sample.attrs)) if y.dtype.is_floating]
                outputs = [y * y for y in outputs]
            found = tape.gradient(outputs, floating, unconnected_gradients="zero") if outputs else []
            if options:
                nonlocal recomputed
                recomputed += tape.memory_report().limit.recomputed > 0
            return [np.asarray(tf.convert_to_tensor(g)).tobytes() for g in found]

        assert run() == run(memory_limit=0), row.name
    assert recomputed > 150


def test_random_numbers_are_the_same_again():
    x = tf.Variable(tf.ones((64, 64)))

    def loss() -> Any:
        h = x * 1.0
        for _ in range(10):
            h = tf.nn.dropout(tf.tanh(h), 0.5)
        return tf.reduce_sum(h)

    tf.random.set_seed(1)
    expected, _ = gradients((loss, [x]))
    tf.random.set_seed(1)
    found, tape = gradients((loss, [x]), memory_limit=60_000)
    assert np.array_equal(expected[0], found[0])
    assert tape.memory_report().limit.recomputed > 0


@pytest.mark.parametrize("limit", [0, 700, 3_000])
def test_second_order_and_jacobians(limit):
    loss, (w, b) = rnn(6, width=5)
    for call in (
        lambda tape, y: tape.hvp(y, [w, b], [tf.ones_like(w), tf.ones_like(b)]),
        lambda tape, y: tape.hessian(y, [b])[0],
        lambda tape, y: [tape.jacobian(y, b)],
        lambda tape, y: [tape.jvp(y, [b], [tf.ones_like(b)])],
    ):
        results = []
        for options in ({}, {"memory_limit": limit}):
            with tf.GradientTape(**options) as tape:
                y = loss()
            results.append([t.numpy().tobytes() for t in call(tape, y)])
        assert results[0] == results[1]


def test_nested_and_persistent_tapes():
    x = tf.Variable([0.3, 0.7])

    def run(**options: Any) -> list[Any]:
        with tf.GradientTape(persistent=True, **options) as outer:
            with tf.GradientTape(**options) as inner:
                y = tf.reduce_sum(tf.sin(tf.exp(x * x)))
            slope = inner.gradient(y, x)
        return [outer.gradient(slope, x).numpy().tolist() for _ in range(2)]

    assert run() == run(memory_limit=0)


@pytest.mark.parametrize("spill", [None, "disk"])
def test_persistent_tapes(spill):
    """Each pass drops what it has computed again: the second one does not keep more than the first."""
    loss, variables = rnn(60)
    expected, _ = gradients((loss, variables))
    with tf.GradientTape(persistent=True, memory_limit=200_000, spill=spill) as tape:
        y = loss()
    peaks = []
    for _ in range(3):
        found = tape.gradient(y, variables)
        assert [g.numpy().tobytes() for g in found] == [g.tobytes() for g in expected]
        peaks.append(tape.memory_report().limit.peak)
    assert peaks[0] == peaks[1] == peaks[2] <= 200_000


def test_an_outer_tape_without_a_limit():
    """It holds values that the inner one has dropped, and needs them when the inner one is used up."""
    w = tf.Variable(np.linspace(-1, 1, 64, dtype="f").reshape(8, 8))
    data = tf.constant(np.linspace(1, 2, 64, dtype="f").reshape(8, 8))

    def run(**options: Any) -> list[Any]:
        with tf.GradientTape() as outer:
            with tf.GradientTape(**options) as inner:
                h = w * 1.0
                for _ in range(12):
                    h = tf.tanh(h @ w) * data
                y = tf.reduce_sum(h)
            g = inner.gradient(y, w)
            total = tf.reduce_sum(g * g)
            del inner
        gc.collect()
        return [g.numpy().tobytes(), outer.gradient(total, w).numpy().tobytes()]

    assert run() == run(memory_limit=0) == run(memory_limit=2_000) == run(memory_limit=2_000, spill="disk")


def test_what_cannot_be_computed_again_in_the_middle():
    """Calls of functions, custom gradients and data: what comes after them is computed from them."""
    w = tf.Variable(np.linspace(-1, 1, 1024, dtype="f").reshape(32, 32))
    data = tf.constant(np.linspace(0, 1, 1024, dtype="f").reshape(32, 32))
    call = tf.function(lambda x: tf.sin(x) * x)

    @tf.custom_gradient
    def doubled(x: Any) -> Any:
        return 2.0 * x, lambda g: g * 3.0

    def loss() -> Any:
        h = w + data
        for i in range(20):
            h = tf.tanh(h + data * float(i))
            h = call(h) if i % 5 == 2 else doubled(h) if i % 5 == 4 else h * data
        return tf.reduce_sum(h)

    expected, _ = gradients((loss, [w]))
    for limit in (0, 20_000, 60_000):
        for spill in (None, "disk"):
            found, tape = gradients((loss, [w]), memory_limit=limit, spill=spill)
            assert found[0].tobytes() == expected[0].tobytes()
            outcome = tape.memory_report().limit
            assert outcome.kept == 0
            assert outcome.recomputed + outcome.spilled > 0


@pytest.mark.parametrize("after", [1, 3])
def test_an_interruption_leaves_the_tape_usable(monkeypatch, after):
    loss, variables = rnn(60)
    expected, _ = gradients((loss, variables))
    with tf.GradientTape(persistent=True, memory_limit=150_000) as tape:
        y = loss()
    calls = 0

    def interrupted(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > after:
            raise KeyboardInterrupt
        return run(*args)

    run = budget.run
    monkeypatch.setattr(budget, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tape.gradient(y, variables)
    monkeypatch.undo()
    found = tape.gradient(y, variables)
    assert [g.numpy().tobytes() for g in found] == [g.tobytes() for g in expected]
    assert tape.memory_report().limit.peak <= 150_000


def test_an_error_of_a_rule_leaves_the_tape_usable():
    x = tf.Variable(np.ones((16, 16), "f"))
    fails = True

    @tf.custom_gradient
    def delicate(x: Any) -> Any:
        def gradient(g: Any) -> Any:
            if fails:
                raise ValueError("not now")
            return g

        return x * 1.0, gradient

    with tf.GradientTape(memory_limit=4_000) as tape:
        h = x
        for _ in range(5):
            h = tf.tanh(h * x)
        h = delicate(h)
        for _ in range(5):
            h = tf.tanh(h * x)
        y = tf.reduce_sum(h)
    with pytest.raises(ValueError, match="not now"):
        tape.gradient(y, x)
    fails = False
    assert np.isfinite(tape.gradient(y, x)).all()


def test_a_tape_that_is_reset():
    loss, variables = rnn(40)
    expected, _ = gradients((loss, variables))
    with tf.GradientTape(memory_limit=100_000) as tape:
        loss()
        tape.reset()
        y = loss()
    found = tape.gradient(y, variables)
    assert [g.numpy().tobytes() for g in found] == [g.tobytes() for g in expected]
    assert tape.memory_report().limit.kept == 0


def test_variables_that_change_while_the_tape_records():
    w = tf.Variable(np.full((16, 16), 0.5, "f"))

    def run(**options: Any) -> bytes:
        w.assign(np.full((16, 16), 0.5, "f"))
        with tf.GradientTape(**options) as tape:
            h = w * 1.0
            for _ in range(8):
                h = tf.tanh(h @ w)
                w.assign(w * 0.9)
            y = tf.reduce_sum(h)
        return tape.gradient(y, w).numpy().tobytes()

    assert run() == run(memory_limit=0) == run(memory_limit=4_000)


def test_inside_and_around_functions():
    x = tf.Variable([0.3, 0.7])

    @tf.function
    def inside(x: Any) -> Any:
        with tf.GradientTape(memory_limit=0) as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.exp(tf.sin(x)))
        return tape.gradient(y, x)

    body = tf.function(lambda x: tf.exp(tf.sin(x)))
    with tf.GradientTape(memory_limit=0) as tape:
        y = tf.reduce_sum(body(x) * x)
    around = tape.gradient(y, x)
    with tf.GradientTape() as tape:
        first = tf.reduce_sum(tf.exp(tf.sin(x)))
    np.testing.assert_allclose(inside(tf.constant(x)), tape.gradient(first, x))
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(tf.exp(tf.sin(x)) * x)
    np.testing.assert_allclose(around, tape.gradient(y, x), rtol=1e-6)


def test_memory_is_really_freed():
    loss, variables = rnn(60, width=96)
    peaks = []
    for options in ({}, {"memory_limit": 60 * 96 * 96 * 4 // 4}):
        gc.collect()
        tracemalloc.start()
        with tf.GradientTape(**options) as tape:
            y = loss()
        tape.gradient(y, variables)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 0.5 * peaks[0]


def test_a_training_loop_does_not_map_its_memory_again(monkeypatch):
    """The first step learns how much memory its records take, and returns it to the system piece by piece."""
    calls = []
    monkeypatch.setattr(budget, "return_freed_memory", lambda: calls.append(None))
    w = tf.Variable(np.eye(64, dtype="f"))
    x = tf.ones((64, 64))
    found = []
    for _ in range(3):
        calls.clear()
        with tf.GradientTape(memory_limit=20_000_000) as tape:
            h = x
            for _ in range(1500):
                h = tf.tanh(tf.tanh(tf.tanh(h @ w)))
            loss = tf.reduce_sum(h)
        g = tape.gradient(loss, w)
        limit = tape.memory_report().limit
        found.append((len(calls), limit.peak <= 20_000_000, limit.recomputed > 0, g.numpy().tobytes()))
    (first, *_), *later = found
    assert first > 0
    assert [number for number, *_ in later] == [0, 0]
    assert all(within and again and g == found[0][3] for _, within, again, g in found)


def test_the_report_and_a_dropped_tape():
    loss, variables = rnn(20)
    with tf.GradientTape(memory_limit=100_000) as tape:
        y = loss()
    before = tape.memory_report()
    assert before.saved <= 100_000
    assert "The limit is" in str(before)
    assert tape.gradient(y, variables)[0] is not None
    assert "ops recomputed in" in str(tape.memory_report())


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (1000, 1000),
        ("2GB", 2 * 10**9),
        ("1.5 MiB", 3 * 2**19),
        ("512", 512),
        (0, 0),
        (2e9, 2 * 10**9),
        (np.int64(7), 7),
    ],
)
def test_limits(limit, expected):
    assert parse_limit(limit) == expected


def test_a_share_of_the_machine():
    assert parse_limit("50%") == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def test_a_share_of_a_device(monkeypatch):
    """Of the device of new arrays, if that is an accelerator that reports its memory."""

    class Accelerator:
        platform = "gpu"

        def memory_stats(self) -> Any:
            return stats

    stats: Any = {"bytes_limit": 8 * 10**9, "bytes_in_use": 10**9}
    monkeypatch.setattr(devices, "chosen", Accelerator)
    assert parse_limit("25%") == 2 * 10**9
    stats = None
    assert parse_limit("100%") == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_bad_arguments():
    for limit in ("two", "2XB", -1, True, [1], "1.2.3GB", float("nan"), float("inf"), 0.5):
        with pytest.raises(ValueError, match="memory_limit must be a whole number of bytes"):
            tf.GradientTape(memory_limit=limit)
    with pytest.raises(ValueError, match="spill must be None, 'disk' or 'host'"):
        tf.GradientTape(memory_limit="1GB", spill="moon")
    with pytest.raises(ValueError, match="spill needs a memory_limit"):
        tf.GradientTape(spill="disk")
    with pytest.raises(ValueError, match="together with profile=True"):
        tf.GradientTape(memory_limit="1GB", profile=True)


@pytest.mark.slow
@pytest.mark.parametrize("divisor", [2, 4, 8])
def test_a_residual_network_in_a_process_of_its_own(divisor):
    """100 convolutions of the benchmark: the peak of the process is within 5 % of the limit."""
    unlimited = memory_limit._started("gradtape", "residual", False, None)
    limit = unlimited["peak"] // divisor
    found = memory_limit._started("gradtape", "residual", False, limit)
    assert found["sum"] == unlimited["sum"]
    assert found["recomputed"] > 0
    assert found["peak"] <= 1.05 * limit
