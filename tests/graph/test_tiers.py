"""Tiers: functions run on NumPy first, and by XLA once that is compiled and measures faster."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from interrupts import every_interrupt

import gradtape as tf
from gradtape._src import threads
from gradtape._src.function import modes
from gradtape._src.graph import tiers
from gradtape._src.graph.checks import NONE
from gradtape._src.graph.tiers import wait_for_compiler

jax = pytest.importorskip("jax")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA compiles a program after its first call."""
    monkeypatch.setattr(tiers, "_SECONDS", 0.0)
    monkeypatch.setattr(tiers, "_SECONDS_PER_NODE", 0.0)
    monkeypatch.setattr(tiers, "_LAUNCH", 0.0)
    monkeypatch.setattr(tiers, "_TRIAL", 0.0)
    monkeypatch.setattr(tiers, "_UNCLEAR_TURNS", 0)
    monkeypatch.setattr(modes, "_jit", ["auto"])


def tier_of(function: Any) -> Any:
    (concrete,) = function._functions
    return concrete._traced.plain.tier


def settle(function: Any, *args: Any) -> Any:
    """Call it until the choice is made."""
    function(*args)
    wait_for_compiler()
    while not tier_of(function).is_settled:
        function(*args)
    return tier_of(function)


MOST = tiers._TURN * tiers._TURNS
"""Calls after which the choice is made."""


def test_the_first_call_runs_without_jax() -> None:
    code = """
import sys
import gradtape as tf
f = tf.function(lambda x: tf.reduce_sum(tf.tanh(x) @ x))
with tf.GradientTape() as tape:
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    tape.watch(x)
    y = f(x)
assert tape.gradient(y, x).shape == (2, 2)
assert "jax" not in sys.modules
"""
    environment = {**os.environ, "GRADTAPE_JIT": "auto"}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, env=environment)


def test_the_choice_is_measured() -> None:
    f = tf.function(lambda x: tf.sin(x) * 2.0)
    x = tf.constant([1.0, 2.0])
    expected = f.python_function(x)
    f(x)
    assert tier_of(f).on_numpy
    wait_for_compiler()
    assert not tier_of(f).on_numpy, "the next calls try XLA"
    tier = tier_of(f)
    for _ in range(MOST):
        np.testing.assert_allclose(f(x), expected, rtol=1e-6)
    assert tier.is_settled
    assert tier.on_numpy == (tier._best[True] <= tier._best[False])
    assert tier.reason.startswith("NumPy took ")
    assert tier.reason in f.summary()
    np.testing.assert_allclose(f(x), expected, rtol=1e-6)


@pytest.mark.parametrize("faster", [True, False])
def test_the_faster_executor_runs_it(faster: bool) -> None:
    f = tf.function(lambda x: x * 2.0)
    x = tf.constant([1.0, 2.0])
    f(x)
    wait_for_compiler()
    tier_of(f)._best[faster] = 0.0
    for _ in range(MOST + 1):
        assert f(x).numpy().tolist() == [2.0, 4.0]
    assert tier_of(f).on_numpy is faster


PATIENCE = {
    "small": (lambda x: tf.tanh(x @ x), (20, 20), 0.1),
    "large product": (lambda x: x @ x, (300, 300), 1.0),
    "stacked product": (lambda x: x @ x, (4, 20, 20), 0.1),
    "large elementwise op": (tf.tanh, (300, 500), 1.0),
    "large copy": (tf.transpose, (300, 500), 0.1),
}


@pytest.mark.parametrize(("function", "shape", "share"), PATIENCE.values(), ids=PATIENCE)
@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("jax_is_imported", [False, True])
def test_a_program_on_all_cores_is_compiled_later(
    monkeypatch: pytest.MonkeyPatch, function: Any, shape: Any, share: float, cores: int, jax_is_imported: bool
) -> None:
    monkeypatch.setattr(tiers, "_SECONDS", 0.25)
    monkeypatch.setattr(tiers, "_SECONDS_PER_NODE", 1.0)
    monkeypatch.setattr(tiers, "_SECONDS_OF_IMPORT", 5.0)
    monkeypatch.setattr(tiers, "_LAUNCH", 0.0)
    monkeypatch.setattr(threads, "_chosen", cores)
    if not jax_is_imported:
        monkeypatch.delitem(sys.modules, "jax")
    submitted: list[Any] = []
    monkeypatch.setattr(tiers._compiler, "submit", submitted.append)
    program = tf.function(function).get_concrete_function(tf.TensorSpec(shape))._traced.plain
    expected = 0.25 + len(program.nodes) + (0.0 if jax_is_imported else 5.0)
    tier = tiers.Tier(program)
    tier.add(True, 0.99 * expected * (share if cores > 1 else 0.1))
    assert not submitted
    tier.add(True, 0.02 * expected)
    assert len(submitted) == 1


def test_executors_take_turns() -> None:
    """A busy second of the machine slows down both."""
    tier = tiers.Tier(SimpleNamespace(nodes=[], compile=lambda mode: None, modes=(NONE, NONE)))  # type: ignore[arg-type]
    tier.add(True, 1.0)
    wait_for_compiler()
    turns = []
    while not tier.is_settled:
        turns.append(tier.on_numpy)
        busy = 100.0 if len(turns) < 6 else 1.0
        tier.add(tier.on_numpy, busy * (3.0 if tier.on_numpy else 2.0))
    assert turns == ([False] * tiers._TURN + [True] * tiers._TURN) * (tiers._TURNS // 2)
    assert not tier.on_numpy
    assert tier.reason == "NumPy took 3e+03 ms, XLA 2e+03 ms"


@pytest.mark.parametrize(
    ("seconds", "turns"), [(1e-3, 18), (1e-9, tiers._MOST_TURNS), (1.0, tiers._TURNS)], ids=["short", "tiny", "long"]
)
def test_short_calls_are_tried_more_often(monkeypatch: pytest.MonkeyPatch, seconds: float, turns: int) -> None:
    """On a busy machine few calls of a millisecond run without an interruption."""
    monkeypatch.setattr(tiers, "_TRIAL", 0.05)
    tier = tiers.Tier(SimpleNamespace(nodes=[], compile=lambda mode: None, modes=(NONE, NONE)))  # type: ignore[arg-type]
    tier.add(True, 1.0)
    wait_for_compiler()
    ran = {True: 0, False: 0}
    while not tier.is_settled:
        ran[tier.on_numpy] += 1
        tier.add(tier.on_numpy, seconds)
    assert ran[True] == ran[False] == turns * tiers._TURN // 2


def test_one_lucky_call_does_not_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA is faster in most turns, but on a busy machine NumPy has the best time of the first ones."""
    monkeypatch.setattr(tiers, "_TRIAL", 0.15)
    tier = tiers.Tier(SimpleNamespace(nodes=[], compile=lambda mode: None, modes=(NONE, NONE)))  # type: ignore[arg-type]
    tier.add(True, 1.0)
    wait_for_compiler()
    calls = 0
    while not tier.is_settled:
        calls += 1
        if tier.on_numpy:
            tier.add(True, 0.009 if calls <= 6 else 0.02)
        else:
            tier.add(False, 0.018 if calls <= 40 else 0.008)
    assert not tier.on_numpy
    assert calls * 0.01 < tiers._PATIENCE * tiers._TRIAL


def test_long_calls_without_a_clear_winner_get_more_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call of a second is as likely to be slowed down as one of a millisecond, and one turn of three is not much."""
    monkeypatch.setattr(tiers, "_TRIAL", 0.15)
    monkeypatch.setattr(tiers, "_UNCLEAR_TURNS", 12)
    calls = {}
    for lucky in (False, True):
        tier = tiers.Tier(SimpleNamespace(nodes=[], compile=lambda mode: None, modes=(NONE, NONE)))  # type: ignore[arg-type]
        tier.add(True, 1.0)
        wait_for_compiler()
        calls[lucky] = 0
        while not tier.is_settled:
            calls[lucky] += 1
            slow = 5.0 if lucky and calls[lucky] <= 4 * tiers._TURN and not tier.on_numpy else 1.0
            tier.add(tier.on_numpy, (3.0 if tier.on_numpy else 2.0) * slow)
        assert not tier.on_numpy
    assert calls == {False: 6 * tiers._TURN, True: 12 * tiers._TURN}


@pytest.mark.parametrize("seconds", [1e-9, 1e-3, 0.1])
def test_a_trial_without_a_winner_ends(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(tiers, "_TRIAL", 0.15)
    tier = tiers.Tier(SimpleNamespace(nodes=[], compile=lambda mode: None, modes=(NONE, NONE)))  # type: ignore[arg-type]
    tier.add(True, 1.0)
    wait_for_compiler()
    ran = {True: 0, False: 0}
    while not tier.is_settled:
        ran[tier.on_numpy] += 1
        slow = (ran[tier.on_numpy] - 1) // (
            2 * tiers._TURN
        ) % 2 == tier.on_numpy  # each wins every second pair of turns
        tier.add(tier.on_numpy, 2 * seconds if slow else seconds)
    assert ran[True] == ran[False] <= tiers._PATIENCE * max(tiers._MOST_TURNS, 1) * tiers._TURN // 2


def test_a_call_that_began_before_xla_compiled_does_not_count() -> None:
    tier = tiers.Tier(SimpleNamespace(nodes=[], compile=lambda mode: None, modes=(NONE, NONE)))  # type: ignore[arg-type]
    tier.add(True, 1.0)
    wait_for_compiler()
    tier.add(True, 0.0)
    for _ in range(MOST):
        assert not tier.is_settled
        tier.add(tier.on_numpy, 3.0 if tier.on_numpy else 2.0)
    assert tier.is_settled
    assert not tier.on_numpy


def test_everything_happens_once() -> None:
    """Variables, random numbers and Python calls, whatever runs the program."""
    calls: list[float] = []
    v = tf.Variable(0.0)
    generator = tf.random.Generator.from_seed(1)

    @tf.function
    def step() -> Any:
        v.assign_add(1.0)
        tf.py_function(lambda n: calls.append(float(n)), [v], [])
        return generator.uniform([])

    drawn = []
    for _ in range(3):
        drawn.append(float(step()))
    wait_for_compiler()
    for _ in range(MOST + 1):
        drawn.append(float(step()))
    assert tier_of(step).is_settled
    count = MOST + 4
    assert float(v) == count
    assert calls == [float(n) for n in range(1, count + 1)]
    again = tf.random.Generator.from_seed(1)
    np.testing.assert_allclose(drawn, [float(again.uniform([])) for _ in range(count)], rtol=1e-6)


def test_gradients_outside_change_tiers_too() -> None:
    w = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    f = tf.function(lambda x: tf.reduce_sum(tf.tanh(x @ w)))
    x = tf.constant([[0.1, 0.2]])

    def gradient(f: Callable[..., Any]) -> Any:
        with tf.GradientTape() as tape:
            y = f(x)
        return tape.gradient(y, w)

    expected = gradient(f.python_function)
    for _ in range(MOST + 2):
        np.testing.assert_allclose(gradient(f), expected, rtol=1e-5)
        wait_for_compiler()
    (concrete,) = f._functions
    (derivative,) = concrete._traced.derivatives.values()
    assert derivative.program.tier.is_settled


def test_a_program_that_xla_does_not_compile_stays_on_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    from gradtape._src.graph.xla_executor import XlaExecutor

    def fail(self: Any, mode: Any) -> None:
        raise RuntimeError("no such instruction")

    monkeypatch.setattr(XlaExecutor, "compile", fail)
    f = tf.function(lambda x: x + 1.0)
    tier = settle(f, tf.constant(1.0))
    assert (tier.on_numpy, float(f(tf.constant(2.0)))) == (True, 3.0)
    assert "no such instruction" in f.summary()


def test_a_check_fails_by_either_executor() -> None:
    table = tf.constant([1.0, 2.0, 3.0])
    f = tf.function(lambda n: tf.gather(table, n))
    for _ in range(MOST + 2):
        assert float(f(tf.constant(2))) == 3.0
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices = 7 is not in \[0, 3\)"):
            f(tf.constant(7))
        wait_for_compiler()
    assert tier_of(f).is_settled


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in a callback of a weak reference
def test_signals_find_all_variables_old_or_all_new() -> None:
    a, b = tf.Variable(0.0), tf.Variable(0.0)

    @tf.function
    def step() -> None:
        a.assign_add(1.0)
        b.assign_sub(1.0)

    step()
    for where in every_interrupt(step):
        assert float(a) == -float(b), where
    wait_for_compiler()
    for where in every_interrupt(step):
        assert float(a) == -float(b), where


def test_threads_share_a_function() -> None:
    v = tf.Variable(tf.zeros([8]))
    step = tf.function(lambda: v.assign_add(tf.ones([8])))
    threads = [threading.Thread(target=lambda: [step() for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert v.numpy().tolist() == [200.0] * 8


def test_determinism_keeps_functions_on_one_executor() -> None:
    tf.config.experimental.enable_op_determinism()
    f = tf.function(lambda x: x + 1.0)
    f(tf.constant(1.0))
    assert f._functions[0].graph.executor == "xla"


def test_a_process_ends_while_xla_compiles() -> None:
    code = """
import gradtape as tf
from gradtape._src.function import modes
from gradtape._src.graph import tiers
tiers._SECONDS = tiers._SECONDS_PER_NODE = tiers._SECONDS_OF_IMPORT = 0.0
x = tf.ones([20, 20])
functions = [tf.function(lambda x, n=n: tf.reduce_sum(tf.tanh(x @ x) * float(n))) for n in range(20)]
print(sum(float(f(x)) for f in functions))
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, timeout=120, capture_output=True, text=True)
    assert (float(done.stdout), done.stderr) == (190 * 400.0, "")


def test_what_takes_less_than_a_launch_stays_on_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "_LAUNCH", 1.0)
    submitted: list[Any] = []
    monkeypatch.setattr(tiers._compiler, "submit", submitted.append)
    f = tf.function(lambda x: x + 1.0)
    assert f(tf.constant(1.0)) == 2.0
    tier = tier_of(f)
    assert (tier.on_numpy, tier.is_settled, submitted) == (True, True, [])
    assert "less than XLA takes to launch a program" in tier.reason


def test_a_signal_while_the_compiler_is_started() -> None:
    """The thread may be dead before it has begun: the next program starts another one."""

    class Dead(threading.Thread):
        def is_alive(self) -> bool:
            return False

    compiler = tiers._Compiler()
    compiler._thread = Dead()
    done: list[int] = []
    compiler.submit(lambda: done.append(1))
    compiler.wait()
    assert done == [1]


def test_an_interrupted_submission_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def submit(compile_: Any) -> None:
        calls.append(compile_)
        if len(calls) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(tiers._compiler, "submit", submit)
    f = tf.function(lambda x: x * 3.0)
    with pytest.raises(KeyboardInterrupt):
        f(tf.constant(1.0))
    f(tf.constant(1.0))
    assert len(calls) == 2
