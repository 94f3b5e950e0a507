"""Backward passes on lazy arrays that are recorded once: the same gradients, programs and errors as without that."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from interrupts import every_interrupt
from random_programs import programs

import gradtape as tf
from gradtape._src.arrays.lazy import trace as traces
from gradtape._src.arrays.lazy.calls import kinds
from gradtape._src.arrays.lazy.programs import forget_programs
from gradtape._src.autodiff import gradient_tape
from gradtape._src.core.fast import backward, known_passes
from gradtape._src.devices import get_graph_mode


@pytest.fixture
def lazily() -> Iterator[None]:
    """New tensors are lazy, and no structure is known."""
    before = get_graph_mode()
    tf.config.set_graph_mode("auto")
    forget_programs()
    known_passes._known.forget()
    yield
    tf.config.set_graph_mode(before)


@pytest.fixture
def passes(lazily: None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What each backward pass did: "rules" for one that ran the rules to record or to compute, "block" for others."""
    found: list[str] = []
    run, add = backward.backward_pass, known_passes.Block.add

    def running(*args: Any, **options: Any) -> Any:
        found.append("rules")
        return run(*args, **options)

    def adding(*args: Any) -> Any:
        found.append("block")
        return add(*args)

    monkeypatch.setattr(gradient_tape, "backward_pass", running)
    monkeypatch.setattr(known_passes, "backward_pass", running)
    monkeypatch.setattr(known_passes.Block, "add", adding)
    return found


ONCE = ["rules", "block", "block", "block"]
"""A structure that is recorded in the first of three passes."""

NEVER = ["rules"] * 3


def report() -> Any:
    return tf.config.graph_mode_report().programs


def gradients(function: Any, *args: Any, **options: Any) -> Any:
    """The gradient of a function at arrays, as arrays."""
    sources = [tf.Variable(a) for a in args]
    with tf.GradientTape() as tape:
        y = function(*sources)
    found = tape.gradient(y, sources, **options)
    return [None if g is None else tf.convert_to_tensor(g).numpy() for g in found]


def arrays(i: int, *shapes: Any) -> list[np.ndarray]:
    rng = np.random.default_rng(i)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def agree(function: Any, *shapes: Any, rounds: int = 3, **options: Any) -> None:
    """Gradients at several points, against those that are computed immediately."""
    for i in range(rounds):
        args = arrays(i, *shapes)
        found = gradients(function, *args, **options)
        tf.config.set_graph_mode("off")
        expected = gradients(function, *args, **options)
        tf.config.set_graph_mode("auto")
        for a, b in zip(found, expected, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                assert (a.dtype, a.shape) == (b.dtype, b.shape)
                np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=1e-5, atol=1e-6)


# -- what is recorded once -------------------------------------------------------------------------------------------
def halves(x: Any, y: Any) -> Any:
    h = tf.cast(x, tf.bfloat16)
    return tf.reduce_sum(tf.cast(h * h + tf.sin(h) + tf.exp(h), tf.float32) * y)


IDS = np.array([[0, 2, 2], [1, 0, 3]], np.int32)

FUNCTIONS = {
    "network": (lambda x, w: tf.reduce_mean(tf.nn.relu(x @ w) ** 2), ((3, 4), (4, 5))),
    "broadcast": (lambda x, y: tf.reduce_sum(tf.tanh(x + y) * 2.0), ((3, 4), (4,))),
    "used_twice": (lambda x, y: tf.reduce_sum(x * x * y + x), ((3,), (3,))),
    "several_outputs": (lambda x, y: tf.reduce_sum(tf.split(x, 2)[0] * y), ((4, 2), (2, 2))),
    "unconnected": (lambda x, y: tf.reduce_sum(x * x), ((3,), (3,))),
    "stopped": (lambda x, y: tf.reduce_sum(tf.stop_gradient(x) * y), ((3,), (3,))),
    "half": (halves, ((6,), (6,))),
    "lookup": (lambda x, y: tf.reduce_sum(tf.gather(x, IDS) * y), ((4, 5), (2, 3, 5))),
    "two_lookups": (lambda x, y: tf.reduce_sum(tf.gather(x, IDS) * tf.gather(x, IDS + 0) * y), ((4, 5), (2, 3, 5))),
    "tied": (lambda x, y: tf.reduce_sum(tf.gather(x, IDS) @ tf.transpose(x)) + tf.reduce_sum(y), ((4, 5), (2,))),
    "indexed": (lambda x, y: tf.reduce_sum(x[1:, ::2] * y[:, None]), ((3, 4), (2,))),
    "attention": (
        lambda x, y: tf.reduce_sum(tf.nn.softmax(x @ tf.transpose(x) / 2.0 + np.triu(np.full((3, 3), -1e9), 1)) @ y),
        ((3, 4), (3, 2)),
    ),
    "loss": (
        lambda x, y: tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[0, 3, 1], logits=x * y)),
        ((3, 4), (4,)),
    ),
    "the_source_itself": (lambda x, y: x, ((3,), (3,))),
    "sum_of_sources": (lambda x, y: x + y, ((3,), (3,))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_agree(lazily, name):
    function, shapes = FUNCTIONS[name]
    agree(function, *shapes)
    agree(function, *shapes, unconnected_gradients="zero")


@pytest.mark.parametrize("name", sorted({*FUNCTIONS} - {"two_lookups"}))
def test_rules_run_once(passes, name):
    function, shapes = FUNCTIONS[name]
    for i in range(3):
        gradients(function, *arrays(i, *shapes))
    assert passes == ONCE


@settings(deadline=None, max_examples=40)
@given(example=programs())
def test_random_programs_agree_with_eager(example):
    function, args = example

    def found() -> list[np.ndarray]:
        tensors = [tf.constant(np.asarray(a, "float64")) for a in args]
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(tensors)
            y = function(*tensors)
        return [tape.gradient(y, tensors, unconnected_gradients="zero") for _ in range(2)]

    expected = [[tf.convert_to_tensor(g).numpy() for g in gs] for gs in found()]
    tf.config.set_graph_mode("auto")
    try:
        for _ in range(2):
            for gs, hs in zip(found(), expected, strict=True):
                for g, h in zip(gs, hs, strict=True):
                    np.testing.assert_allclose(tf.convert_to_tensor(g), h, rtol=1e-10, atol=1e-12)
    finally:
        tf.config.set_graph_mode("accelerators")


# -- what a pass depends on ------------------------------------------------------------------------------------------
def test_structures_are_told_apart(lazily):
    """By ops, wiring, static arguments, shapes, dtypes, the target, the sources and what is saved."""
    x, y = (tf.constant(a) for a in arrays(0, (2, 2), (2, 2)))
    functions = [
        lambda: x * y,
        lambda: y * x,
        lambda: x * x,
        lambda: x + y,
        lambda: tf.reduce_sum(x * y, axis=0),
        lambda: tf.reduce_sum(x * y, axis=1),
        lambda: tf.reduce_sum(x * y, axis=1, keepdims=True),
        lambda: x[0] * y[1],
        lambda: x[1] * y[0],
        lambda: tf.cast(x, tf.float64) * tf.cast(y, tf.float64),
        lambda: tf.stop_gradient(x) * y,
        lambda: x * 2.0,
        lambda: x * 3.0,
        lambda: tf.transpose(x) @ y,
        lambda: tf.matmul(x, y, transpose_a=True),
    ]
    found = []
    for mode in ("auto", "auto", "off"):
        tf.config.set_graph_mode(mode)
        results = []
        for function in functions:
            with tf.GradientTape(persistent=True) as tape:
                tape.watch((x, y))
                z = function()
                w = tf.sin(z)
            for target, sources in ((z, (x, y)), (w, (x, y)), (w, (y, x)), (w, (x,)), (w, (z, x)), (w, (x, x))):
                gs = tape.gradient(target, sources)
                results.append([None if g is None else g.numpy() for g in gs])
        found.append(results)
    for results in found[:2]:
        for gs, hs in zip(results, found[2], strict=True):
            for g, h in zip(gs, hs, strict=True):
                assert (g is None) == (h is None)
                if g is not None:
                    assert g.dtype == h.dtype
                    np.testing.assert_allclose(g, h, rtol=1e-5)


def test_numbers_may_change(passes):
    """Numbers in the program text are inputs of a pass."""
    x = tf.constant([1.0, 2.0])
    for rate in (0.5, 0.25, 2.0):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.exp(x * rate))
        np.testing.assert_allclose(tape.gradient(y, x), rate * np.exp(np.array([1.0, 2.0]) * rate), rtol=1e-5)
    assert passes == ONCE


def test_values_that_were_computed_in_between(passes):
    x = tf.constant([0.5, 1.0])
    for read in (False, True, True, False):
        with tf.GradientTape() as tape:
            tape.watch(x)
            h = tf.sin(x)
            if read:
                assert h.numpy().shape == (2,)
            y = tf.reduce_sum(h * h)
        np.testing.assert_allclose(tape.gradient(y, x), 2 * np.sin([0.5, 1.0]) * np.cos([0.5, 1.0]), rtol=1e-5)
    assert passes == [*ONCE, "block"]


def test_persistent_tapes_keep_their_records(passes):
    x = tf.constant([0.5, 1.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = tf.sin(x)
        z = y * y
    for _ in range(2):
        np.testing.assert_allclose(tape.gradient(y, x), np.cos([0.5, 1.0]), rtol=1e-6)
        np.testing.assert_allclose(tape.gradient(z, x), np.sin([1.0, 2.0]), rtol=1e-5)
    assert len(tape.records) == 2
    assert passes == ["rules", "block", "rules", "block", "block", "block"]


def test_recorded_passes_are_differentiated(lazily):
    x = tf.constant([0.5, 1.0])
    for _ in range(3):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.reduce_sum(tf.sin(x) * x)
            first = inner.gradient(y, x)
        second = outer.gradient(first, x)
        np.testing.assert_allclose(first, np.sin([0.5, 1.0]) + np.array([0.5, 1.0]) * np.cos([0.5, 1.0]), rtol=1e-5)
        np.testing.assert_allclose(
            second, 2 * np.cos([0.5, 1.0]) - np.array([0.5, 1.0]) * np.sin([0.5, 1.0]), rtol=1e-5
        )


def test_gradients_of_the_user_run_each_time(passes):
    calls = []

    @tf.custom_gradient
    def double(x: Any) -> Any:
        def grad(g: Any) -> Any:
            calls.append(1)
            return g * float(len(calls))

        return x * 2.0, grad

    x = tf.constant([1.0])
    for i in range(3):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = double(tf.sin(x))
        np.testing.assert_allclose(tape.gradient(y, x), np.cos([1.0]) * (i + 1), rtol=1e-6)
    assert passes == NEVER


def test_rules_that_need_values_run_each_time(lazily):
    """Where the recorded call needs a value, too, the pass is as before."""
    x = tf.constant([1.0, 2.0, 3.0, 4.0])
    for mask in ([True, False, True, True], [False, False, True, True], [True, False, True, True]):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.boolean_mask(x * x, mask))
        np.testing.assert_allclose(tape.gradient(y, x), 2 * x.numpy() * np.array(mask))


def test_sources_inside_of_the_tape_and_unreached_records(lazily):
    x = tf.Variable([1.0, 2.0])
    explanations = []
    for mode in ("auto", "auto", "off"):
        tf.config.set_graph_mode(mode)
        with tf.GradientTape() as tape:
            y = x * x
            lost = tf.cos(tf.sin(x))
            z = tf.reduce_sum(y * 3.0)
        found = tape.gradient(z, [y, x, lost])
        assert [None if g is None else g.numpy().tolist() for g in found] == [[3.0, 3.0], [6.0, 12.0], None]
        explanations.append(str(tape.explain(z, [x, y, lost])))
    assert explanations[0] == explanations[1] == explanations[2]


def test_observers_see_each_step(lazily):
    x = tf.constant([1.0, 0.0])
    for options in ({"check_numerics": True}, {"profile": True}, {"strong_zeros": True}, {"memory_limit": "1MB"}):
        for _ in range(2):
            with tf.GradientTape(**options) as tape:
                tape.watch(x)
                y = tf.reduce_sum(tf.sqrt(x + 1.0))
            np.testing.assert_allclose(tape.gradient(y, x), 0.5 / np.sqrt([2.0, 1.0]), rtol=1e-6)
    for _ in range(2):
        with tf.GradientTape(check_numerics=True) as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.sqrt(x))
        with pytest.raises(tf.errors.InvalidArgumentError):
            tape.gradient(y, x)


def test_upstream_gradients(passes):
    x = tf.constant([1.0, 2.0])
    for i in range(3):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        seed = tf.constant([1.0, float(i)])
        np.testing.assert_allclose(tape.gradient(y, x, output_gradients=seed), [2.0, 4.0 * i])
    assert passes == ONCE


def test_sparse_gradients_keep_their_indices_on_the_host(passes):
    table = tf.Variable(arrays(0, (4, 3))[0])
    for ids in ([[1, 2], [0, 1]], [[3, 3], [1, 1]], [[0, 1], [2, 3]]):
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.gather(table, np.array(ids, np.int32)) ** 2)
        found = tape.gradient(y, table)
        assert isinstance(found, tf.IndexedSlices)
        assert type(found.indices.array) is np.ndarray
        assert found.indices.numpy().tolist() == np.ravel(ids).tolist()
        np.testing.assert_allclose(found.values, 2 * table.numpy()[np.ravel(ids)], rtol=1e-6)
    assert passes == ONCE


# -- traces and programs ---------------------------------------------------------------------------------------------
def test_programs_do_not_show_how_they_were_recorded(lazily, monkeypatch):
    """With and without blocks they are the same."""
    w = tf.Variable(arrays(0, (4, 4))[0])
    x = tf.constant(arrays(1, (3, 4))[0])

    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.tanh(x @ w) ** 2)
        w.assign_sub(0.1 * tape.gradient(loss, w))

    for i in range(6):
        monkeypatch.setattr(known_passes, "known_backward_pass", (lambda *args, **options: None) if i < 3 else known)
        step()
    w.numpy()
    assert [program.runs for program in report()] == [6]


known = known_passes.known_backward_pass


def test_a_block_is_one_call(lazily):
    x = tf.constant([0.5, 1.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.sin(tf.exp(x)) * 2.0
    trace = y.array.trace
    before = len(trace.results)
    found = tape.gradient(y, x)
    made = [kinds[array.code[0]].name for array in trace.results[before:]]
    assert made == ["broadcast_to", "block"]
    z = found * 2.0
    for array in (found.array, z.array):
        assert trace.operand(array.slot) is array
    np.testing.assert_allclose(z, 4 * np.cos(np.exp([0.5, 1.0])) * np.exp([0.5, 1.0]), rtol=1e-5)


def test_calls_of_blocks_count(lazily, monkeypatch):
    """A trace with blocks is cut where one without would be."""
    monkeypatch.setattr(traces, "LIMIT", 40)
    x = tf.constant([0.5, 1.0])
    total = tf.zeros([2])
    for _ in range(12):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in range(6):
                y = tf.sin(y)
        total += tape.gradient(y, x)
    expected, slope = np.array([0.5, 1.0]), np.ones(2)
    for _ in range(6):
        slope, expected = slope * np.cos(expected), np.sin(expected)
    np.testing.assert_allclose(total, 12 * slope, rtol=1e-5)
    assert all(program.ops <= 40 for program in report())


def test_passes_longer_than_a_trace_run_as_before(passes, monkeypatch):
    monkeypatch.setattr(traces, "LIMIT", 10)
    x = tf.constant([0.5])
    for _ in range(2):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in range(30):
                y = tf.tanh(y)
        tape.gradient(y, x).numpy()
    assert passes == ["rules"] * 3


def test_structures_that_do_not_come_again_are_forgotten(lazily, monkeypatch):
    monkeypatch.setattr(known_passes.Table, "most", 200)
    x = tf.constant([0.5])
    for n in range(1, 30):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in range(n):
                y = tf.tanh(y)
        tape.gradient(y, x).numpy()
    assert sum(len(key[0]) for key in known_passes._known) <= 200


def test_old_values_of_variables_are_not_kept(lazily):
    import weakref

    w = tf.Variable(np.ones(1000, np.float32))
    for _ in range(3):
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.exp(w * 0.1))
        w.assign_sub(tape.gradient(y, w))
    w.numpy()
    old = weakref.ref(w._peek().array)
    w.assign(w * 2.0)
    w.numpy()
    assert old() is None


# -- threads and signals ---------------------------------------------------------------------------------------------
def test_signals_lose_nothing(lazily):
    """Also while a block is recorded."""
    x, kept = tf.constant([0.5, 1.0]), [tf.constant(0.0)]

    def action() -> None:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.exp(x) * x
        kept[:] = [tape.gradient(y, x)]

    expected = np.exp([0.5, 1.0]) * np.array([1.5, 2.0])
    action()
    for forget in (False, True):
        for where in every_interrupt(action, step=11 if forget else 7):
            np.testing.assert_allclose(kept[0], expected, rtol=1e-5, err_msg=where)
            if forget:
                known_passes._known.forget()
            action()
            np.testing.assert_allclose(kept[0], expected, rtol=1e-5, err_msg=where)


def test_threads_share_what_is_known(lazily):
    results: list[Any] = []

    def work(i: int) -> None:
        x = tf.constant([float(i), 1.0])
        for _ in range(20):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.sin(x) * x
            g = tape.gradient(y, x)
        results.append((i, g))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, g in results:
        x = np.array([float(i), 1.0])
        np.testing.assert_allclose(g, np.sin(x) + x * np.cos(x), rtol=1e-5)


def test_a_thread_may_cut_the_trace_of_a_pass(lazily):
    shared: list[Any] = [tf.constant([0.5])]
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            np.asarray(shared[0])

    reader = threading.Thread(target=read)
    reader.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(400):
            with tf.GradientTape() as tape:
                tape.watch(shared[0])
                y = shared[0] * shared[0] * 0.5 + 1.0
            shared[0] = shared[0] * 0.5 + tape.gradient(y, shared[0]) * 0.5
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        reader.join()
    np.testing.assert_allclose(shared[0], [0.5], rtol=1e-5)


def test_on_arrays_of_xla(passes):
    """The numbers of the program text, integers on the host and arrays of a device are inputs of one block."""
    pytest.importorskip("jax")
    tf.config.set_engine("xla")
    try:
        table, w = tf.Variable(arrays(0, (4, 3))[0]), tf.Variable(arrays(1, (3, 2))[0])
        for rate, ids in ((0.5, [0, 1, 1]), (0.25, [3, 2, 0]), (0.25, [1, 1, 1])):
            with tf.GradientTape() as tape:
                h = tf.gather(table, np.array(ids, np.int32))
                y = tf.reduce_sum(tf.tanh((h @ w) * rate)) + tf.reduce_sum(table * table)
            found = [g.numpy() for g in tape.gradient(y, [table, w])]
            a, b = table.numpy(), w.numpy()
            slope = rate * (1 - np.tanh(a[ids] @ b * rate) ** 2)
            expected = 2 * a
            np.add.at(expected, ids, slope @ b.T)
            np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(found[1], a[ids].T @ slope, rtol=1e-4, atol=1e-5)
    finally:
        tf.config.set_engine("numpy")
    assert passes == ONCE


def test_memory_limits_beside_blocks(lazily):
    """A pass that computes values again finds blocks among the calls before it."""
    found = []
    for mode in ("auto", "auto", "off"):
        tf.config.set_graph_mode(mode)
        x = tf.constant(np.linspace(0.0, 1.0, 1000, dtype=np.float32))
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.sin(x) ** 2)
        g = tape.gradient(y, x)
        with tf.GradientTape(memory_limit="10KB") as tape:
            tape.watch(g)
            z = g
            for _ in range(8):
                z = tf.tanh(z * 1.5) + tf.sin(z)
            z = tf.reduce_sum(z)
        found.append(tape.gradient(z, g).numpy())
    for a in found[:2]:
        np.testing.assert_allclose(a, found[2], rtol=1e-4, atol=1e-6)
