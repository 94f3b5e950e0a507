"""Lazy arrays: what is recorded, when it runs, what is compiled, and that nothing but the time of it changes."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from conformance import runner
from hypothesis import given, settings
from interrupts import every_interrupt
from op_table import ROWS
from random_programs import programs

import gradtape as tf
from gradtape._src import devices
from gradtape._src.arrays.lazy import Lazy, lazy_array, programs as lazy_programs, trace as traces
from gradtape._src.arrays.lazy.calls import kinds
from gradtape._src.arrays.lazy.programs import Failure, LazyProgram, Step, forget_programs
from gradtape._src.devices import get_graph_mode


@pytest.fixture
def lazily() -> Iterator[None]:
    """New tensors are lazy."""
    before = get_graph_mode()
    tf.config.set_graph_mode("auto")
    forget_programs()
    yield
    tf.config.set_graph_mode(before)


@pytest.fixture
def compiled(lazily: None) -> Iterator[None]:
    """New tensors are lazy, and what is recorded is compiled the first time."""
    before = lazy_programs.compile_after[0]
    lazy_programs.compile_after[0] = 0
    yield
    lazy_programs.compile_after[0] = before


def pending(*tensors: Any) -> list[bool]:
    return [type(t.array) is Lazy and t.array.value is None for t in tensors]


def report() -> Any:
    return tf.config.graph_mode_report().programs


# -- when things run -------------------------------------------------------------------------------------------------
def test_meshes_do_not_make_ops_wait(lazily, monkeypatch):
    """A program that has a mesh of devices records its other ops as before."""
    monkeypatch.setattr(devices.placement, "several", True)
    monkeypatch.setitem(devices.sharded_meshes, "mesh", "mesh")
    tf.config.set_graph_mode("off")
    mask = tf.constant([False, True])
    tf.config.set_graph_mode("auto")
    x = tf.constant([1.0, 2.0])
    large = tf.exp(x)
    y = tf.where(mask, large, x)
    assert pending(large, y) == [True, True]
    assert y.numpy().tolist() == [1.0, np.exp(np.float32(2.0))]


def test_a_change_of_the_mode_runs_what_was_recorded(lazily):
    x = tf.exp(tf.constant([0.0, 1.0]))
    assert pending(x) == [True]
    tf.config.set_graph_mode("off")
    assert pending(x) == [False]


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.numpy(),
        float,
        int,
        bool,
        complex,
        str,
        repr,
        lambda x: f"{x:.2f}",
        np.asarray,
        memoryview,
        lambda x: 2 if x > 0.5 else 3,
        lambda x: [0, 1][tf.cast(x, "int32")],
    ],
)
def test_values_are_computed_when_python_needs_them(lazily, read):
    y = tf.sqrt(tf.constant(1.0) * 1.0)
    assert pending(y) == [True]
    expected = tf.constant(1.0)
    assert str(read(y)) == str(read(expected)) or type(read(y)) is memoryview
    assert pending(y) == [False]


def test_shapes_dtypes_and_devices_are_known_before(lazily):
    y = tf.matmul(tf.ones([2, 3]), tf.ones([3, 4]))
    parts = tf.split(y, 2, axis=1)
    assert (y.shape, y.dtype, y.device[-5:]) == ((2, 4), tf.float32, "CPU:0")
    assert [part.shape for part in parts] == [(2, 2), (2, 2)]
    assert pending(y, *parts) == [True, True, True]


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: tf.ones([2, 3]) @ tf.ones([2, 3]), tf.errors.InvalidArgumentError, "Matrix size-incompatible"),
        (lambda: tf.ones([2]) + tf.ones([3]), tf.errors.InvalidArgumentError, "Incompatible shapes"),
        (lambda: tf.ones([2]) + tf.ones([2], tf.float64), tf.errors.InvalidArgumentError, "cannot compute AddV2"),
        (lambda: tf.reshape(tf.ones([2]), [3]), tf.errors.InvalidArgumentError, "Input to reshape"),
        (lambda: tf.linalg.inv(tf.zeros([2, 2])), tf.errors.InvalidArgumentError, "not invertible"),
        (lambda: tf.debugging.check_numerics(tf.math.log(tf.zeros([1])), "found"), tf.errors.OpError, "found"),
    ],
)
def test_errors_come_from_the_op(lazily, call, kind, words):
    before = tf.ones([2]) * 2.0
    with pytest.raises(kind, match=words):
        call()
    assert before.numpy().tolist() == [2.0, 2.0]


def test_what_nothing_refers_to_is_not_computed(lazily):
    x = tf.ones([4])
    for _ in range(10):
        tf.exp(x)
    y = tf.sin(x)
    del x
    y.numpy()
    assert [program.ops for program in report()][-1] <= 2  # the ones, and the sine of them


def test_results_that_are_alive_are_computed_together(lazily):
    x = tf.constant([0.5])
    kept, y = tf.sin(x), tf.tanh(tf.sin(x) * 2.0)
    y.numpy()
    assert pending(kept) == [False]
    assert len(report()) == 1


def test_a_trace_is_cut_at_its_limit(lazily, monkeypatch):
    monkeypatch.setattr(traces, "LIMIT", 10)
    x = tf.constant([1.0, 2.0])
    for _ in range(35):
        x = x * 1.5
    np.testing.assert_allclose(x, np.array([1.0, 2.0], np.float32) * 1.5**35, rtol=1e-5)
    assert sum(program.runs for program in report()) == 4
    assert any("the most there may be" in cut.reason for program in report() for cut in program.cuts)


def test_inputs_of_a_trace_are_limited(lazily, monkeypatch):
    monkeypatch.setattr(traces, "_MOST_BYTES", 1000)
    total = tf.constant(0.0)
    for i in range(20):
        total = total + tf.reduce_sum(tf.constant(np.full(64, i, np.float32)))
    assert float(total) == 64 * 190
    assert sum(program.runs for program in report()) > 3


# -- programs --------------------------------------------------------------------------------------------------------
def train(steps: int, rate: Any = lambda i: 0.1, read: bool = False) -> tuple[np.ndarray, float]:
    """Adam by hand."""
    x = tf.constant(np.arange(8, dtype=np.float32).reshape(2, 4) / 8)
    w, m, v = (tf.Variable(np.full((4, 3), value, np.float32)) for value in (0.5, 0.0, 0.0))
    for i in range(steps):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.tanh(x @ w) - 1.0) ** 2)
        if read:
            float(loss)
        g = tape.gradient(loss, w)
        m.assign(0.9 * m + 0.1 * g)
        v.assign(0.99 * v + 0.01 * g * g)
        w.assign_sub(rate(i) * (m / (1 - 0.9 ** (i + 1))) / (tf.sqrt(v / (1 - 0.99 ** (i + 1))) + 1e-7))
    return w.numpy(), float(loss)


@pytest.mark.parametrize("read", [False, True])
def test_a_training_loop_is_one_program_a_step(lazily, read):
    found = train(8, lambda i: 0.1 / (1 + i), read)
    steps = [program for program in report() if program.runs > 4]
    assert len(steps) == (2 if read else 1)  # reading the loss divides a step in two
    assert all(len(program.compiled) == 1 for program in steps)
    tf.config.set_graph_mode("off")
    for a, b in zip(found, train(8, lambda i: 0.1 / (1 + i), read), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_a_vjp_is_one_call(lazily, dtype):
    """Also of ops whose rules make several: products, casts, moves and reductions."""
    x, w = tf.ones((2, 3, 4)), tf.ones((4, 5))
    x, w = (tf.cast(tf.Variable(t), dtype) for t in (x, w))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch((x, w))
        y = tf.transpose(tf.reshape(tf.matmul(x, w), (3, 2, 5)), (1, 0, 2))
        loss = tf.reduce_sum(tf.cast(y * y, "float32"))
    before = len(loss.array.trace.results)
    gradients = tape.gradient(loss, (x, w))
    codes = tuple([array.code for array in loss.array.trace.results[before:] if array.code])
    calls = [kinds[code[0]].name for code in lazy_programs.without_blocks(codes)]
    assert pending(*gradients) == [True, True]
    assert sorted(name for name in calls if "matmul" in name) == [f"matmul_vjp_{i}_{dtype}" for i in range(2)]
    assert {"matmul", "transpose", "reshape"}.isdisjoint(calls)
    tf.config.set_graph_mode("off")
    values = [t.numpy() for t in (x, w)]
    x, w = map(tf.constant, values)
    with tf.GradientTape() as tape:
        tape.watch((x, w))
        y = tf.transpose(tf.reshape(tf.matmul(x, w), (3, 2, 5)), (1, 0, 2))
        loss = tf.reduce_sum(tf.cast(y * y, "float32"))
    for found, wanted in zip(gradients, tape.gradient(loss, (x, w)), strict=True):
        assert found.dtype == wanted.dtype
        assert found.numpy().tolist() == wanted.numpy().tolist()


def test_kinds_of_calls_are_told_apart(lazily):
    """By every static argument, in the type too, and by shapes, dtypes and the number of results."""
    x, mask = tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([True, False])
    for _ in range(2):
        assert [t.shape for t in tf.split(x, 2)] == [(1, 2), (1, 2)]
        assert [t.shape for t in tf.split(x, [1, 1], 1)] == [(2, 1), (2, 1)]
        assert tf.where(mask, x, -x).numpy().tolist() == [[1.0, -2.0], [3.0, -4.0]]
        assert tf.where(mask[:, None], x, 0.0).numpy().tolist() == [[1.0, 2.0], [0.0, 0.0]]
        assert [x[i].numpy().tolist() for i in (0, 1)] == [[1.0, 2.0], [3.0, 4.0]]
        assert x[0:1].numpy().tolist() == [[1.0, 2.0]]
        assert x[1, 0].numpy() == 3.0
        for dtype in ("bfloat16", "float16", "float64", "float32"):
            assert tf.cast(x, dtype).dtype == dtype
        assert [tf.nn.leaky_relu(-x, slope).numpy()[0, 0] for slope in (0.5, 0.25)] == [-0.5, -0.25]


def test_a_number_that_changes_becomes_an_input(lazily):
    def step(rate: float) -> float:
        return float(tf.reduce_max(tf.constant([1.0, 2.0]) * rate))

    assert [step(r) for r in (1.0, 1.0, 1.0, 2.0, 3.0, -0.0)] == [2.0, 2.0, 2.0, 4.0, 6.0, 0.0]
    assert np.signbit(step(-0.0))
    assert not np.signbit(step(0.0))
    (program,) = report()
    assert program.runs == 8
    assert program.compiled == ("it was there before", "a number has changed: it is an input now")


def test_numbers_of_the_same_value_and_another_type_are_not_mixed_up(lazily):
    x = tf.constant([4.0, 9.0])
    for exponent, expected in ((2.0, [16.0, 81.0]), (0.5, [2.0, 3.0]), (1.0, [4.0, 9.0]), (2.0, [16.0, 81.0])):
        for _ in range(3):
            np.testing.assert_allclose((x + 0.0) ** exponent, expected, rtol=1e-6)


def test_a_loop_over_a_dataset_is_one_program_an_element(lazily):
    w, total = tf.ones([3, 1]), tf.constant(0.0)
    for x in tf.data.Dataset.from_tensor_slices(np.ones((10, 2, 3), np.float32)):
        y = x @ w
        for _ in range(40):
            y = tf.tanh(y) + 1.0
        total = total + tf.reduce_sum(y)
    float(total)
    assert max(program.runs for program in report()) >= 8
    assert any(cut.reason == "a dataset gives the next element" for program in report() for cut in program.cuts)


def test_unrelated_ops_leave_the_program_of_a_step_as_it_is(lazily):
    x, kept = tf.constant([0.5]), []
    for i in range(6):
        y = x
        for _ in range(20):
            y = tf.tanh(y) * 1.5
        for j in range(i):
            kept.append(tf.cos(tf.constant(float(j))))
        y.numpy()
    (step,) = [program for program in report() if program.ops == 40]
    assert (step.runs, len(step.compiled)) == (6, 1)
    assert [float(k) for k in kept] == pytest.approx([np.cos(j) for i in range(6) for j in range(i)])


def test_the_report_says_where_and_why(lazily):
    for _ in range(3):
        tf.tanh(tf.constant([1.0])).numpy()
    (program,) = report()
    (cut,) = program.cuts
    assert (program.ops, program.runs, cut.times, cut.line[0]) == (1, 3, 3, __file__)
    text = str(tf.config.graph_mode_report())
    assert "1 programs, 0 compilations" in text
    assert f"3 x cut at {__file__}" in text


def test_only_two_modes_and_the_default_are_known():
    with pytest.raises(ValueError, match=r"Unknown graph mode: 'lazy'. Use 'auto', 'off' or 'accelerators'"):
        tf.config.set_graph_mode("lazy")
    assert tf.config.get_graph_mode() == get_graph_mode()


@pytest.mark.parametrize(("value", "mode"), [("0", "off"), ("1", "auto"), (None, "accelerators")])
def test_the_environment_sets_the_mode(value, mode):
    environment = {k: v for k, v in os.environ.items() if k != "GRADTAPE_LAZY"}
    if value is not None:
        environment["GRADTAPE_LAZY"] = value
    code = "import gradtape as tf; print(tf.config.get_graph_mode(), type(tf.constant(1.0).array).__name__)"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [mode, "Lazy" if mode == "auto" else "ndarray"]


def test_a_tape_with_graph_makes_what_it_watches_lazy():
    x, w = tf.constant([1.0, 2.0]), tf.Variable([3.0, 4.0])
    with tf.GradientTape(graph=True) as tape:
        tape.watch(x)
        y = tf.reduce_sum(w * x * 2.0)
    assert pending(y) == [True]
    dx, dw = tape.gradient(y, [x, w])
    assert pending(dx, dw) == [True, True]
    assert (dx.numpy().tolist(), dw.numpy().tolist(), float(y)) == ([6.0, 8.0], [2.0, 4.0], 22.0)
    assert type((tf.constant(1.0) + 1.0).array) is np.ndarray


def test_functions_take_and_give_lazy_arrays(lazily):
    v = tf.Variable([1.0, 2.0])

    @tf.function
    def f(x):
        v.assign_add(x)
        return tf.reduce_sum(v * x)

    x = tf.constant([1.0, 1.0]) * 2.0
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x) * 3.0
    assert float(y) == 42.0
    assert tape.gradient(y, x).numpy().tolist() == [9.0, 12.0]
    assert (v * 1.0).numpy().tolist() == [3.0, 4.0]


def test_observers_see_values(lazily):
    tf.debugging.enable_check_numerics()
    try:
        with pytest.raises(tf.errors.InvalidArgumentError, match="Log"):
            tf.math.log(tf.constant([-1.0]))
    finally:
        tf.debugging.disable_check_numerics()
    with tf.GradientTape(profile=True) as tape:
        x = tf.Variable(tf.ones([64, 64]))
        y = tf.reduce_sum(tf.matmul(x, x))
    tape.gradient(y, x)
    times = {entry.what: entry.forward for entry in tape.profile().by_op}
    assert times["matmul"] > 10_000  # nanoseconds: the product, not its recording


def test_a_tape_counts_the_memory_of_lazy_arrays(lazily):
    x, w = tf.ones([8, 4]), tf.Variable(tf.ones([4, 16]))
    with tf.GradientTape() as tape:
        tape.watch(x)
        tf.nn.relu(x @ w)
    report = tape.memory_report()
    assert (report.saved, report.elsewhere) == (512, 384)


def test_arrays_of_xla_are_lazy_and_their_programs_compiled(lazily):
    pytest.importorskip("jax")
    w = tf.Variable([1.0, 2.0])
    with tf.device("/CPU:0"):
        tf.config.set_engine("xla")
    try:
        x, v = tf.constant([3.0, 4.0]), tf.Variable([1.0, 2.0])
        old = v.value()
        first = v._peek().array
        for _ in range(4):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.tanh(v * x))
            v.assign_sub(0.1 * tape.gradient(loss, v) * (1.0 + w[0] - w[0]))
            assert "CPU" in v.device
        values = v.numpy()
        (step,) = [program for program in report() if program.executor == "XLA"]
        assert len(step.compiled) == 1
        assert old.numpy().tolist() == [1.0, 2.0]
        assert np.asarray(first).tolist() == [1.0, 2.0]  # not donated: the test has it
    finally:
        tf.config.set_engine("numpy")
    expected = np.array([1.0, 2.0])
    for _ in range(4):
        expected -= 0.1 * np.array([3.0, 4.0]) * (1 - np.tanh(expected * [3.0, 4.0]) ** 2)
    np.testing.assert_allclose(values, expected, rtol=1e-5)


def test_memory_that_nothing_refers_to_is_donated(lazily):
    jax = pytest.importorskip("jax")
    tf.config.set_engine("xla")
    try:
        v = tf.Variable(np.ones(100_000, np.float32))
        pointers = []
        for _ in range(6):
            v.assign(v * 2.0 + 1.0)
            value = traces.settled(v._peek().array)
            assert isinstance(value, jax.Array)
            pointers.append(value.unsafe_buffer_pointer())
            del value
        assert len({*pointers[3:]}) == 1
        assert v.numpy()[0] == 127.0
    finally:
        tf.config.set_engine("numpy")


# -- errors when a program runs --------------------------------------------------------------------------------------
def test_an_error_names_the_line_and_comes_whenever_the_value_is_needed(monkeypatch):
    x = lazy_array(np.ones(2, np.float32))
    good = traces.record("sin", (x,), {})
    bad = traces.record("cos", (x,), {})
    used = traces.record("add", (bad, good), {})
    bad.trace.lines[bad.slot] = ("model.py", 7)

    def refuse(*args: Any) -> Any:
        raise tf.errors.InvalidArgumentError(None, None, "refused")

    monkeypatch.setattr(lazy_programs.numpy_namespace, "cos", refuse)
    np.testing.assert_allclose(good, np.sin(np.ones(2)), rtol=1e-6)  # what does not depend on it is there
    for value in (bad, used, bad):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"refused The op 'cos' was called in model.py:7"):
            np.asarray(value)


def test_a_compiled_program_that_fails_runs_op_by_op(monkeypatch):
    def refuse(*args: Any) -> None:
        raise ValueError("no")

    monkeypatch.setattr(lazy_programs, "compilers", [lambda program: refuse])
    x = lazy_array(np.ones(2, np.float32))
    for _ in range(3):
        np.testing.assert_allclose(traces.record("exp", (traces.record("tan", (x,), {}),), {}), np.exp(np.tan([1, 1])))


def test_failures_spread():
    program = LazyProgram([], [], [], ())
    assert program.run_by_op([], [], {}) == []
    assert Step(0, (), (), ()) == (0, (), (), ())
    with pytest.raises(ValueError, match="why"):
        Failure(ValueError("why")).run("it is read")


# -- threads, signals, forks -----------------------------------------------------------------------------------------
def test_threads_use_each_others_values(lazily):
    x = tf.constant(np.arange(6, dtype=np.float32))
    y = tf.sin(x)  # of the main thread's trace
    found: list[Any] = [None] * 4

    def work(i: int) -> None:
        z = y * float(i)
        for _ in range(50):
            z = tf.tanh(z) + y
        found[i] = z

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = sum(found, tf.zeros([6]))  # of traces whose threads have ended
    expected = np.zeros(6)
    for i in range(4):
        z = np.sin(np.arange(6.0)) * i
        for _ in range(50):
            z = np.tanh(z) + np.sin(np.arange(6.0))
        expected += z
    np.testing.assert_allclose(total, expected, rtol=1e-5)


def test_a_thread_may_cut_the_trace_of_another(lazily):
    shared: list[Any] = [tf.constant(1.0)]
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            np.asarray(shared[0])

    reader = threading.Thread(target=read)
    reader.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(2000):
            shared[0] = shared[0] + 1.0
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        reader.join()
    assert float(shared[0]) == 2001.0


@pytest.mark.parametrize("compile_after", [0, 100])
def test_signals_lose_nothing(lazily, monkeypatch, compile_after):
    monkeypatch.setattr(lazy_programs, "compile_after", [compile_after])
    x, v = tf.constant([0.5, 1.0]), tf.Variable([1.0, 1.0])
    kept: list[Any] = []

    def action() -> None:
        y = tf.exp(x) * 2.0
        kept[:] = [y]
        v.assign(y + tf.sin(y))
        v.numpy()

    action()
    expected, value = kept[0].numpy(), v.numpy()
    for where in every_interrupt(action, step=7):
        np.testing.assert_array_equal(kept[0].numpy(), expected, err_msg=where)
        found = v.numpy()
        np.testing.assert_array_equal(found, value, err_msg=where)
        np.testing.assert_array_equal((tf.exp(x) * 2.0).numpy(), expected, err_msg=where)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning", "ignore:.*use of fork:DeprecationWarning")
def test_a_forked_child_computes_what_its_parent_recorded(lazily):
    y = tf.sin(tf.constant([1.0, 2.0])) * 2.0
    child = os.fork()
    if not child:
        os._exit(0 if np.allclose(y.numpy(), 2 * np.sin([1.0, 2.0])) else 1)
    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_allclose(y, 2 * np.sin([1.0, 2.0]), rtol=1e-6)


def test_a_trace_keeps_nothing_alive_after_it_has_run(lazily):
    x = tf.constant(np.ones(1000, np.float32))
    y = tf.sin(x) * 2.0
    trace = y.array.trace
    y.numpy()
    assert (trace.results, trace.feeds, trace.literals) == ([], {}, {})
    gc.collect()
    assert not [o for o in gc.get_referrers(x.array) if type(o) is traces.LazyTrace]


# -- the same numbers ------------------------------------------------------------------------------------------------
AREAS = [area for area in runner.AREAS if area not in ("distribute", "dtensor", "gfile", "compat_v1")]
CASES = [(area, name) for area in AREAS for name in runner.load_cases(area)]
SAMPLE = [case for case in CASES if "keras" not in case[1]][::17]


def conform(area: str, name: str) -> None:
    with np.errstate(all="ignore"):
        difference = runner.diff(runner.load_golden(area)[name], runner.run(runner.load_cases(area)[name], tf))
    assert difference is None, difference


@pytest.mark.parametrize(("area", "name"), SAMPLE)
def test_recorded_programs_of_tensorflow(lazily, area, name):
    conform(area, name)


@pytest.mark.slow
@pytest.mark.parametrize(("area", "name"), CASES)
def test_recorded_programs_of_tensorflow_compiled(compiled, area, name):
    conform(area, name)


ALL_ROWS = [row for row in ROWS.values() if row.samples]


@pytest.mark.parametrize("row", ALL_ROWS, ids=lambda row: row.name)
def test_op_table(compiled, row):
    sample = row.samples[0]
    function = row.function or row.op.call
    tf.config.set_graph_mode("off")
    expected = tf.nest.flatten(function(*[tf.constant(a) for a in sample.args], **sample.attrs))
    tf.config.set_graph_mode("auto")
    found = tf.nest.flatten(function(*[tf.constant(a) for a in sample.args], **sample.attrs))
    for a, b in zip(found, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_array_equal(a, b)


def derivatives(function: Any, args: Any) -> list[Any]:
    tensors = [tf.constant(np.asarray(a, "float64")) for a in args]
    with tf.GradientTape(persistent=True) as outer:
        outer.watch(tensors)
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            y = function(*tensors)
        first = tape.gradient(y, tensors, unconnected_gradients="zero")
        total = tf.add_n([tf.reduce_sum(tf.sin(g)) for g in first])
    second = outer.gradient(total, tensors, unconnected_gradients="zero")
    return [tf.convert_to_tensor(g) for g in (y, *first, *second)]


@settings(deadline=None, max_examples=25)
@given(example=programs())
def test_random_programs_agree_with_eager(example):
    """Values, gradients and second derivatives: op by op, and compiled."""
    function, args = example
    expected = [x.numpy() for x in derivatives(function, args)]
    tf.config.set_graph_mode("auto")
    try:
        for _ in range(2):
            for a, b in zip(derivatives(function, args), expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    finally:
        tf.config.set_graph_mode("accelerators")


def test_programs_that_do_not_come_again_are_forgotten(lazily, monkeypatch):
    monkeypatch.setattr(lazy_programs.Table, "most", 100)
    x = tf.constant([1.0])
    for n in range(1, 40):
        for _ in range(3):
            (tf.tanh(x) * 2.0).numpy()
        y = x
        for _ in range(n % 20 + 3):
            y = tf.sin(y)
        y.numpy()
    assert sum(program.ops for program in report()) <= 100
    assert max(program.runs for program in report()) == 117


def test_results_are_not_handed_out(lazily):
    seed, x = tf.constant(np.full(100_000, 2.0, np.float32)), tf.constant(np.ones(100_000, np.float32))
    with tf.GradientTape() as tape:
        tape.watch(x)
    tape.gradient(x, x, output_gradients=seed).numpy()[...] = 0.0
    assert float(seed[0]) == 2.0


@pytest.mark.parametrize("use_pfor", [True, False])
def test_seeds_of_jacobians_are_lazy(lazily, use_pfor):
    x = tf.constant([[0.5, -1.0], [2.0, 3.0]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = tf.nn.relu(x) * tf.reduce_prod(x, axis=0) + x[:, ::-1]
    found = tape.jacobian(y, x, experimental_use_pfor=use_pfor).numpy()
    tf.config.set_graph_mode("off")
    x = tf.constant(x.numpy())
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = tf.nn.relu(x) * tf.reduce_prod(x, axis=0) + x[:, ::-1]
    np.testing.assert_allclose(found, tape.jacobian(y, x), rtol=1e-6)


def test_long_chains_of_elementwise_ops_are_divided(lazily, monkeypatch):
    pytest.importorskip("jax")
    from gradtape._src.graph import lazy_programs as compiling

    monkeypatch.setattr(compiling, "_DEEPEST", 8)
    tf.config.set_engine("xla")
    try:
        x = tf.constant([0.25, 0.5])
        for rate in (1.1, 1.1, 1.2, 1.3):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = x
                for _ in range(20):
                    y = tf.tanh(y) * rate
                y = tf.reduce_sum(y)
            found = tape.gradient(y, x).numpy()
            expected, slope = np.array([0.25, 0.5]), np.ones(2)
            for _ in range(20):
                slope *= rate * (1 - np.tanh(expected) ** 2)
                expected = np.tanh(expected) * rate
            np.testing.assert_allclose(found, slope, rtol=1e-4)
            np.testing.assert_allclose(y, expected.sum(), rtol=1e-5)
        whole = max(report(), key=lambda program: program.ops)
        assert "in 10 parts of" in whole.executor
        assert all("not compiled" not in program.executor for program in report())
    finally:
        tf.config.set_engine("numpy")
