"""Signals: wherever one arrives, recording, tracing and locks are as they were, and variables have a value.

See interrupts.py for how a signal is made to arrive at every place, one after the other.
"""

from __future__ import annotations

import ast
import dis
import functools
import importlib.util
import itertools
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextvars import ContextVar
from pathlib import Path

import jax
import numpy as np
import pytest
from interrupts import Interrupt, every_interrupt, interrupted_at

import gradtape as tf
from gradtape import keras
from gradtape._src import devices, interrupts, tensor, threads, variable
from gradtape._src.arrays.symbolic import current_graph
from gradtape._src.arrays.xla import xla_namespace
from gradtape._src.checkpoint.checkpoint import saving
from gradtape._src.core import observe, tape as stack
from gradtape._src.formats import atomic
from gradtape._src.graph import xla_executor
from gradtape._src.interrupts import is_interrupt
from gradtape._src.keras_backend.execution import CompiledSteps
from gradtape._src.tf import compat
from gradtape._src.variable import storage

pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("by_xla"),
]
"""A signal that arrives in a finalizer is lost, in every Python program."""


def state():
    """All that a block may set."""
    return {
        "recorders": stack.active_stack(),
        "open tapes": set(stack.open_tapes),
        "graph": current_graph(),
        "dimensions shown": tensor._shown.get(),
        "NumPy's errors": np.geterr(),
        "names": (variable.name_prefix.get(), compat._variable_prefix.get()),
        "device": devices.chosen_device.get(),
        "lock": (storage.updating() is storage._callback_lock, storage.updating()._is_owned()),
        "kernels": {op.name: op.kernel for op in observe.with_kernel()},
    }


KERAS = os.path.join(os.path.dirname(importlib.util.find_spec("keras").origin), "src", "backend", "common")
w = tf.Variable([1.0, 2.0, 3.0])
x = tf.constant([4.0, 5.0, 6.0])


def recorded():
    with tf.GradientTape() as tape:
        y = tf.sin(w)
    tape.gradient(y, w)


def nested():
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = w * w
        with outer.stop_recording():
            w * 2.0
        g = inner.gradient(y, w)
    outer.gradient(g, w)


def paused():
    with tf.GradientTape() as tape:
        y = w * w
        with tape.pause():
            w * 1.0
        tape.pause()
        tape.resume()
        tape.reset()
        y = w * 2.0
    tape.gradient(y, w)


def with_options():
    with tf.GradientTape(profile=True, lines=True, check_numerics=True) as tape:
        y = w * w
    tape.gradient(y, w)


def jacobians():
    with tf.GradientTape(persistent=True) as tape:
        y = w * w
    tape.jacobian(y, w)
    tape.jacobian(y, w, experimental_use_pfor=False)


def second_derivatives():
    with tf.GradientTape(persistent=True) as tape:
        y = tf.reduce_sum(w * w)
    tape.hvp(y, w, x)
    tape.jvp(y, w, x)


def forward():
    with tf.autodiff.ForwardAccumulator(w, x) as accumulator:
        y = w * w
    accumulator.jvp(y)


@tf.custom_gradient
def tripled(z):
    return z * 3.0, lambda upstream: upstream * 3.0


def custom():
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.recompute_grad(tripled)(x)
    tape.gradient(y, x)


def scopes():
    with (
        tf.name_scope("a"),
        tf.compat.v1.variable_scope("b"),
        tf.device("/CPU:0"),
        tf.init_scope(),
        tf.control_dependencies([]),
    ):
        w * 1.0


def rows():
    tf.vectorized_map(lambda row: row * row, tf.ones([3, 2]))
    tf.map_fn(lambda row: row * row, tf.ones([3, 2]))


def random_numbers():
    tf.random.normal([3])
    tf.random.Generator.from_seed(1).uniform([2])


def assigned():
    w.assign([1.0, 2.0, 3.0])
    w.assign_add(x)
    w.assign_sub(x)
    w[0].assign(1.0)
    w.scatter_nd_update([[0]], [1.0])


def traced():
    @tf.function
    def loop(z):
        total = tf.zeros([])
        for _ in tf.range(3):
            if total > 1.0:
                total += tf.reduce_sum(z)
            else:
                total += 1.0
        with tf.GradientTape() as tape:
            y = w * z
        return tape.gradient(y, w), total

    loop.get_concrete_function(x)


STEPS = {traced: 211, second_derivatives: 5, jacobians: 3, with_options: 17}


@pytest.mark.parametrize(
    "action",
    [
        recorded,
        nested,
        paused,
        with_options,
        jacobians,
        second_derivatives,
        forward,
        custom,
        scopes,
        rows,
        random_numbers,
        assigned,
        traced,
    ],
)
def test_a_signal_leaves_everything_as_it_was(action):
    action()
    before = state()
    count = 0
    for where in every_interrupt(action, step=STEPS.get(action, 1)):
        count += 1
        assert state() == before, where
    assert count > 50
    action()


def test_an_iterator_goes_on_where_it_was():
    data = tf.data.Dataset.range(4).map(lambda i: i + 1).batch(1).filter(lambda b: True)
    iterators, position = [], 0

    def read():
        iterators.append(iter(data))
        next(iterators[-1])
        next(iterators[-1])

    for where in every_interrupt(read, step=3):
        if not iterators:
            continue
        rest = [int(b[0]) for b in iterators.pop()]
        assert rest in ([1, 2, 3, 4], [2, 3, 4], [3, 4]), where
        position = max(position, 4 - len(rest))
    assert position == 2


def test_prefetching_leaves_no_lock_locked():
    data = tf.data.Dataset.range(20).map(lambda i: i + 1).filter(lambda i: True).prefetch(1)
    for _ in every_interrupt(lambda: next(iter(data)), step=2):
        pass
    assert [int(i) for i in data] == list(range(1, 21))


# -- compiled updates ------------------------------------------------------------------------------------------------
def updated(variables):
    """A compiled function that adds 1 to every variable."""

    @tf.function
    def step(z):
        for v in variables:
            v.assign_add(z)
        return z * 2.0

    return step


def values_of(variables):
    return [float(v.numpy()[0]) for v in variables]


def all_old_or_all_new(before, after):
    return after in (before, [value + 1.0 for value in before])


ONE = tf.constant([1.0, 1.0])


def test_a_signal_in_a_compiled_update_leaves_all_variables_old_or_all_new():
    variables = [tf.Variable([0.0, 0.0]) for _ in range(5)]
    step = updated(variables)
    step(ONE)
    before, outcomes = values_of(variables), set()
    for where in every_interrupt(lambda: step(ONE)):
        after = values_of(variables)
        assert all_old_or_all_new(before, after), (where, before, after)
        outcomes.add(after == before)
        before = after
    assert outcomes == {True, False}
    variables[0].assign_add(ONE)  # one is NumPy's now: JAX sees arrays of a new kind
    variables[1].numpy()
    before = values_of(variables)
    for where in every_interrupt(lambda: step(ONE), step=2):
        after = values_of(variables)
        assert all_old_or_all_new(before, after), (where, before, after)
        variables[0].assign(after[0] * ONE)
        before = after


@pytest.mark.parametrize("grows", [False, True])
def test_a_signal_in_a_compiled_update_with_checks(grows):
    """A check that fails gives back old values: also of a variable that is not read, or whose memory does not fit."""
    read, written = tf.Variable(ONE), tf.Variable(ONE, shape=[None])
    table = tf.constant([[1.0, 1.0], [2.0, 2.0]])

    @tf.function
    def step(n, written):
        read.assign_add(tf.gather(table, n))
        written.assign(tf.concat([read, read], 0) if grows else read + 0.0)

    def failing():
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices = 2 is not in \[0, 2\)"):
            step(tf.constant(2), written)

    def reset():
        if grows:
            written.assign(read.numpy())

    step(tf.constant(0), written)
    reset()
    for where in every_interrupt(lambda: step(tf.constant(0), written)):
        first, second = values_of([read, written])
        assert first == second, where
        reset()
    before = values_of([read, written])
    for where in every_interrupt(failing):
        assert values_of([read, written]) == before, where
    reset()
    step(tf.constant(0), written)
    assert values_of([read, written]) == [before[0] + 1.0] * 2


def test_a_signal_in_the_first_calls_of_a_compiled_update():
    """JAX runs Python code there, before and after the launch."""
    variables = [tf.Variable([0.0, 0.0]) for _ in range(2)]
    step = updated(variables)
    jax_code = os.path.dirname(jax.__file__)
    for place in range(1, 9_000, 599):
        step = updated(variables)
        before = values_of(variables)
        interrupted_at(place, lambda: (step(ONE), step(ONE)), (jax_code,))  # noqa: B023 - called at once
        after = values_of(variables)
        assert after[0] in (before[0], before[0] + 1.0, before[0] + 2.0)
        assert after[0] == after[1]
    before = values_of(variables)
    updated(variables)(ONE)
    assert values_of(variables) == [value + 1.0 for value in before]


def test_a_signal_leaves_the_device_as_it_was(monkeypatch):
    """Beside a GPU, programs for NumPy arrays are sent to the processor."""
    monkeypatch.setattr(xla_executor, "default_is_processor", lambda: False)
    before = jax.config.jax_default_device

    def use():
        with xla_executor.on_processor():
            assert jax.config.jax_default_device.platform == "cpu"

    for where in every_interrupt(use, files=(os.path.dirname(jax.__file__),)):
        assert jax.config.jax_default_device == before, where


def fails(z):
    raise KeyError("no")


def test_a_callback_that_fails_leaves_all_variables_old():
    a, b = tf.Variable([1.0]), tf.Variable([2.0])

    @tf.function
    def step(z):
        a.assign_add(z)
        b.assign_add(tf.py_function(lambda y: y if y[0] < 5.0 else fails(y), [z], tf.TensorSpec([1], tf.float32)))
        a.assign_add(z)

    step(tf.constant([1.0]))
    assert (a.numpy().item(), b.numpy().item()) == (3.0, 3.0)
    for _ in range(2):
        with pytest.raises(tf.errors.UnknownError, match="KeyError: 'no'"):
            step(tf.constant([7.0]))
        assert (a.numpy().item(), b.numpy().item()) == (3.0, 3.0)
    step(tf.constant([1.0]))
    assert (a.numpy().item(), b.numpy().item()) == (5.0, 4.0)


def test_what_an_abandoned_program_raises_is_of_no_interest():
    v, begun = tf.Variable([1.0]), threading.Event()

    def slow(z):
        begun.set()
        time.sleep(0.3)
        return fails(z) if z[0] > 5.0 else z

    step = tf.function(lambda z: v.assign_add(tf.py_function(slow, [z], tf.TensorSpec([1], tf.float32))))
    step(tf.constant([1.0]))
    begun.clear()

    def interrupt():
        begun.wait()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises((KeyboardInterrupt, tf.errors.UnknownError)):  # or it fails before the signal is noticed
        step(tf.constant([7.0]))
    thread.join()
    assert v.numpy().item() == 2.0
    step(tf.constant([1.0]))
    assert v.numpy().item() == 3.0


def test_a_program_that_would_find_no_memory_does_not_begin(monkeypatch):
    v = tf.Variable(np.ones(600, np.float32))

    @tf.function
    def step():
        v.assign_add(tf.sort(tf.reshape(v[:, None] * v, [-1]))[-600:])  # 600 * 600 numbers on the way

    step()
    (program,) = [concrete._traced.plain.xla for concrete in step._functions]
    assert program._new_bytes >= 600 * 600 * 4
    monkeypatch.setattr(program, "_new_bytes", 2**62)
    with pytest.raises(tf.errors.ResourceExhaustedError, match="variables are unchanged"):
        step()
    assert v.numpy()[0] == 2.0
    monkeypatch.undo()
    step()
    assert v.numpy()[0] == 6.0


@pytest.mark.parametrize("kind", [ValueError, RuntimeError])
def test_a_program_that_finds_no_memory_leaves_all_variables_old(monkeypatch, kind):
    a, b = tf.Variable(0.0), tf.Variable(0.0)

    @tf.function
    def step(z):
        a.assign(z)
        b.assign(-z)

    def no_memory(*arrays):
        raise kind("RESOURCE_EXHAUSTED: Out of memory allocating 4800000016 bytes.")

    step(tf.constant(1.0))
    (program,) = [concrete._traced.plain.xla for concrete in step._functions]
    monkeypatch.setitem(vars(program), "jitted", no_memory)
    with pytest.raises(tf.errors.ResourceExhaustedError, match="Out of memory allocating 4800000016 bytes"):
        step(tf.constant(2.0))
    assert (float(a), float(b)) == (1.0, -1.0)
    monkeypatch.undo()
    step(tf.constant(3.0))
    assert (float(a), float(b)) == (3.0, -3.0)


# -- the rest --------------------------------------------------------------------------------------------------------
def keras_scopes():
    from keras.src.backend.common.global_state import get_global_attribute

    return [get_global_attribute(name) for name in ("stateless_scope", "symbolic_scope")]


def test_a_signal_in_a_training_step():
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(2)])
    model.compile(keras.optimizers.SGD(0.5), "mse")
    data = np.ones([4, 2], np.float32), np.zeros([4, 2], np.float32)
    for _ in range(3):
        model.train_on_batch(*data)
    before, scopes = state(), keras_scopes()
    steps = int(model.optimizer.iterations.numpy())
    weights = {steps: [v.numpy() for v in model.trainable_variables]}
    for where in every_interrupt(lambda: model.train_on_batch(*data), step=5):
        assert state() == before, where
        assert keras_scopes() == scopes, where
        steps = int(model.optimizer.iterations.numpy())
        found = [v.numpy() for v in model.trainable_variables]  # those of so many steps, all of them
        for now, then in zip(found, weights.setdefault(steps, found), strict=True):
            np.testing.assert_array_equal(now, then, where)
    assert len(weights) > 1


@pytest.fixture
def keras_name_scopes():
    """A signal within Keras' own code may leave a scope of names open there, for the next test."""
    from keras.src.backend.common.global_state import get_global_attribute

    yield
    (get_global_attribute("name_scope_stack") or []).clear()


@pytest.mark.usefixtures("keras_name_scopes")
def test_a_signal_while_a_model_is_built():
    before, scopes = state(), keras_scopes()

    def build():
        keras.Sequential([keras.Input([2]), keras.layers.Dense(2)])

    for where in every_interrupt(build, step=29, files=(KERAS,)):
        assert state() == before, where
        assert keras_scopes() == scopes, where


def test_a_signal_while_a_checkpoint_is_saved_or_restored(tmp_path):
    a, b = tf.Variable([1.0]), tf.Variable([2.0])
    checkpoint = tf.train.Checkpoint(a=a, b=b)
    path = checkpoint.save(tmp_path / "kept")
    a.assign([3.0])
    b.assign([4.0])
    outcomes = set()
    for where in every_interrupt(lambda: checkpoint.restore(path).expect_partial(), step=11):
        outcomes.add((a.numpy().item(), b.numpy().item()))
        assert outcomes <= {(1.0, 2.0), (3.0, 4.0)}, where
        a.assign([3.0])
        b.assign([4.0])
    assert len(outcomes) == 2
    for where in every_interrupt(lambda: checkpoint.save(tmp_path / "new"), step=97):
        assert not saving._is_owned(), where
        assert not atomic._held.folders, where
    assert tf.train.Checkpoint(a=a).restore(checkpoint.save(tmp_path / "last")).expect_partial()


def test_an_interrupted_first_trace_is_made_again():
    created = []

    @tf.function
    def f(z):
        if not created:
            created.append(tf.Variable([1.0]))
        return created[0] * z

    for _ in every_interrupt(lambda: f(tf.constant([2.0])), step=101):
        if f.experimental_get_tracing_count() and not f._tracer._has_trace:
            created.clear()
    assert f(tf.constant([2.0])).numpy().item() == 2.0


class Late(Exception):
    """What a handler raises that limits the time of something."""


def handler(number, frame):
    raise Late


@pytest.fixture
def limited():
    before = signal.signal(signal.SIGUSR2, handler)
    yield lambda: signal.raise_signal(signal.SIGUSR2)
    signal.signal(signal.SIGUSR2, before)


def test_an_exception_of_a_handler_is_not_taken_for_the_codes_own(limited):
    """Where an error leads to another way of doing the same, a signal does not."""

    def late(z):
        limited()
        return z * 2.0

    steps = CompiledSteps(lambda batch: late(batch))
    data = tf.data.Dataset.range(3).map(late)
    for action in (
        lambda: tf.vectorized_map(late, tf.ones([3, 2])),
        lambda: steps([np.ones([2], np.float32)]),
        lambda: list(data),
        lambda: list(data.ignore_errors()),
        lambda: data.element_spec,
        lambda: keras.ops.vectorized_map(late, keras.KerasTensor([None, 2])),
    ):
        with pytest.raises(Late):
            action()
    assert not steps._cannot


def raised(function, *args):
    with pytest.raises(Late) as caught:
        function(*args)
    return caught.value


@pytest.mark.parametrize("kind", ["function", "partial", "method", "object"])
def test_what_a_handler_raised_is_known(kind):
    def inner(number, frame):
        raise Late

    handlers = {"function": inner, "partial": functools.partial(inner)}
    handlers.update(method=Handlers(inner).method, object=Handlers(inner))
    before = signal.signal(signal.SIGUSR2, handlers[kind])
    try:
        assert is_interrupt(raised(signal.raise_signal, signal.SIGUSR2))
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert not is_interrupt(raised(inner, 0, None))


class Handlers:
    def __init__(self, function):
        self.function = function

    def method(self, number, frame):
        self.function(number, frame)

    def __call__(self, number, frame):
        self.function(number, frame)


def test_a_generator_as_a_block_is_closed():
    entered = []

    @interrupts.contextmanager
    def block():
        entered.append(1)
        try:
            yield len(entered)
        finally:
            entered.pop()

    def use():
        with block() as count:
            assert count

    def raising():
        with block():
            raise KeyError

    for where in every_interrupt(use):
        assert entered in ([], [1]), where  # the one of a signal before the `try`
        entered.clear()
    with pytest.raises(KeyError):
        raising()
    assert not entered


def test_blocks_follow_the_rules():
    """`contextlib.contextmanager` and `np.errstate` may be left in the middle by a signal."""
    source = Path(tf.__file__).parent
    allowed = {"interrupts.py", "keras.py", "tensorflow_python.py"}  # the last one names Python's own for programs
    careless = re.compile(r"np\.errstate\(|from contextlib import .*contextmanager|contextlib\.contextmanager\b")
    files = [path for path in source.rglob("*.py") if path.name not in allowed]
    assert [str(path) for path in files if careless.search(path.read_text("utf-8"))] == []


# -- code of JAX's ---------------------------------------------------------------------------------------------------
def test_no_try_begins_with_an_endless_loop():
    """Python 3.11 and 3.12 raise what a handler raises at the end of such a loop outside of the `try`."""
    package = Path(interrupts.__file__).parent
    found = [
        f"{path.relative_to(package)}:{node.lineno}"
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Try)
        and isinstance(node.body[0], ast.While)
        and isinstance(node.body[0].test, ast.Constant)
    ]
    assert found == []


def unprotected_jumps(code):
    """The lines of jumps back to the start of a loop that are outside of a block that the loop is in.

    From Python 3.12 on, the compiler leaves conditional ones out of the exception table: of a comprehension with a
    condition, and of a loop whose body ends with an `if`. What a handler raises there passes by `__exit__` and
    `finally`. A loop in a function of its own has no such block.
    """
    instructions, entries = list(dis.get_instructions(code)), dis.Bytecode(code).exception_entries
    for jump in instructions:
        if jump.opname == "JUMP_BACKWARD" and jump.positions.lineno:  # that of `yield from` has no line
            start, end = (_restores(instructions, entries, offset) for offset in (jump.argval, jump.offset))
            if start and not end:
                yield jump.positions.lineno
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            yield from unprotected_jumps(constant)


def _restores(instructions, entries, offset):
    """Whether an exception at this place leads to an `__exit__`, a `finally` or an `except BaseException`."""
    handler = next((entry.target for entry in entries if entry.start <= offset < entry.end), None)
    if handler is None:
        return False
    first, second, *rest = [i for i in instructions if i.offset >= handler]
    if (
        first.opname != "PUSH_EXC_INFO" or second.opname == "CALL_INTRINSIC_1"
    ):  # the end of a comprehension or generator
        return _restores(instructions, entries, handler)
    before_raising = itertools.takewhile(lambda i: i.opname != "RERAISE", (second, *rest))
    matching = [i.opname for i in before_raising if i.opname in ("WITH_EXCEPT_START", "CHECK_EXC_MATCH")]
    return matching[:1] != ["CHECK_EXC_MATCH"] or second.argval == "BaseException"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has no exception tables")
def test_loops_are_inside_of_their_blocks():
    package = Path(interrupts.__file__).parent
    found = [
        f"{path.relative_to(package)}:{line}"
        for path in package.rglob("*.py")
        if path.parent.name != "cli"  # a signal ends a command
        for line in unprotected_jumps(compile(path.read_bytes(), path, "exec"))
    ]
    assert found == []


@pytest.mark.skipif(sys.version_info < (3, 12), reason="older compilers cover every jump")
def test_a_loop_outside_of_its_block_is_found():
    code = "with block:\n    found = [x for x in xs if x]\n    for x in xs:\n        if x:\n            f(x)\n"
    assert list(unprotected_jumps(compile(code, "here", "exec"))) == [2, 4]
    assert list(unprotected_jumps(compile("with block:\n    for x in xs:\n        f(x)\n", "here", "exec"))) == []


def test_apart_runs_where_no_handler_does():
    setting = ContextVar("setting", default=0)
    setting.set(3)
    ran = threads.apart(lambda: (threading.current_thread() is threading.main_thread(), setting.get()))
    assert ran == (False, 3)
    with pytest.raises(KeyError):
        threads.apart(lambda: {}["missing"])


def test_a_handler_that_raises_does_not_end_what_runs_apart():
    done = []
    arrived = threading.Event()

    def work():
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
        arrived.wait(30)
        done.append(1)

    def handler(number, frame):
        raise Interrupt

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(Interrupt):
            threads.apart(work)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not done
    running = [t for t in threading.enumerate() if t.name == "gradtape-errand"]
    assert all(t.is_alive() and not t.daemon for t in running)
    assert running, "Python waits for it when the process ends"
    arrived.set()
    for thread in threading.enumerate():
        if thread.name == "gradtape-errand":
            thread.join()
    assert done


def test_jax_traces_apart(monkeypatch):
    """An exception in the middle of a trace would stay in JAX's caches."""
    traced_by = []
    sinh = xla_namespace.sinh

    def seen(x):
        traced_by.append(threading.current_thread())
        return sinh(x)

    monkeypatch.setattr(xla_namespace, "sinh", seen)
    v, k = tf.Variable([1.0, 2.0]), tf.constant([3.0, 4.0])
    update = tf.function(lambda x: v.assign_add(tf.sinh(x) * k), jit_compile=True)
    value = tf.function(lambda x: tf.sinh(x) * k, jit_compile=True)
    for _ in range(2):
        update(k)
        value(k)
    with tf.GradientTape() as tape:
        tape.watch(k)
        y = value(k)
    tape.jacobian(y, k)
    assert traced_by
    assert threading.main_thread() not in traced_by


@pytest.mark.parametrize("own", [KeyError("forgotten"), RuntimeError("release unlocked lock")], ids=type)
def test_a_thread_that_a_signal_ends_while_it_is_started(own):
    """`Thread.start` forgets the thread, which has forgotten itself already, or releases its lock once more."""

    class Forgotten(threading.Thread):
        def start(self):
            try:
                raise Interrupt
            except Interrupt:
                raise own  # noqa: B904 - as in the standard library

    with pytest.raises(Interrupt):
        threads.start(Forgotten())


def test_a_thread_that_cannot_be_started_while_an_error_is_handled():
    class Refused(threading.Thread):
        def start(self):
            raise RuntimeError("can't start new thread")

    try:
        raise KeyError("another error")
    except KeyError:
        with pytest.raises(RuntimeError, match="can't start new thread"):
            threads.start(Refused())


def test_a_process_that_is_interrupted_while_it_compiles_ends_in_peace():
    """Python waits for the thread that compiles."""
    code = """
import os, signal, threading
import gradtape as tf
from gradtape._src import threads

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts jobs in the background with SIGINT ignored

def compile_():
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    threading.Event().wait(0.5)
    print("compiled", flush=True)

threads.apart(compile_)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.returncode) == ("compiled\n", -signal.SIGINT)
    assert done.stderr.strip().endswith("KeyboardInterrupt")
