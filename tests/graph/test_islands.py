"""Static islands: the parts of a program with dynamic shapes or strings that XLA can run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.function import modes
from gradtape._src.graph import tiers
from gradtape._src.graph.program import Program
from gradtape._src.graph.tiers import wait_for_compiler

TRIALS = tiers._TURN * tiers._TURNS

pytest.importorskip("jax")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA compiles an island after its first call."""
    monkeypatch.setattr(tiers, "_SECONDS", 0.0)
    monkeypatch.setattr(tiers, "_SECONDS_PER_NODE", 0.0)
    monkeypatch.setattr(tiers, "_LAUNCH", 0.0)
    monkeypatch.setattr(tiers, "_TRIAL", 0.0)
    monkeypatch.setattr(modes, "_jit", ["auto"])


def program_of(function: Any) -> Program:
    (concrete,) = function._functions
    program: Program = concrete._traced.plain
    return program


def by_xla(function: Callable[[], Any], islands: list[Program]) -> Any:
    """What it returns when XLA runs its islands, whatever is faster."""
    wait_for_compiler()
    for island in islands:
        assert island.is_compiled, island.tier.reason
        island.tier._best[False] = 0.0
    for _ in range(TRIALS + 1):
        found = function()
    assert not any(island.tier.on_numpy for island in islands)
    return found


def training(weights: list[tf.Variable]) -> Callable[..., Any]:
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            h = x
            for w in weights[:-1]:
                h = tf.nn.gelu(h @ w)
            error = tf.boolean_mask((h @ weights[-1])[:, 0] - y, y > 0)
            loss = tf.reduce_mean(tf.square(error))
        for w, g in zip(weights, tape.gradient(loss, weights), strict=True):
            w.assign_sub(0.1 * g)
        return loss

    return step


def test_layers_around_a_mask_run_by_xla() -> None:
    rng = np.random.default_rng(0)
    shapes = ((8, 16), (16, 16), (16, 1))
    first = [rng.normal(size=s) * 0.3 for s in shapes]
    x, y = tf.constant(rng.normal(size=(12, 8))), tf.constant(rng.normal(size=12))
    weights, expected_weights = ([tf.Variable(w) for w in first] for _ in range(2))
    step, eager = tf.function(training(weights)), training(expected_weights)
    for _ in range(3):
        np.testing.assert_allclose(step(x, y), eager(x, y), rtol=1e-10)
    islands = program_of(step).islands
    assert len(islands) == 2, "the forward pass, and the backward pass with the updates"
    loss = by_xla(lambda: step(x, y), islands)
    for _ in range(TRIALS + 1):
        expected = eager(x, y)
    np.testing.assert_allclose(loss, expected, rtol=1e-10)
    for w, wanted in zip(weights, expected_weights, strict=True):
        np.testing.assert_allclose(w, wanted, rtol=1e-10)
    lines = [line for line in step.summary().split("\n") if "island of values" in line]
    assert len(lines) == 2
    assert all(" XLA " in line for line in lines)


def test_variables_of_islands_can_be_assigned_eagerly() -> None:
    v = tf.Variable(np.ones(2000))

    @tf.function
    def step(x: Any) -> Any:
        n = tf.reduce_sum(tf.boolean_mask(x, x > 0.0))
        v.assign(tf.sin(v) * 0.5 + tf.cos(v) * n)
        return n

    x = tf.constant([1.0, -1.0], tf.float64)
    for _ in range(3):
        step(x)
    by_xla(lambda: step(x), program_of(step).islands)
    before = v.numpy().copy()
    v.assign_add(np.ones(2000))
    np.testing.assert_array_equal(v.numpy(), before + 1.0)


def test_effects_keep_their_order() -> None:
    seen: list[str] = []

    @tf.function
    def f(x: Any) -> Any:
        kept = tf.boolean_mask(x, x > 0.0)
        tf.py_function(lambda v: seen.append(f"mask {float(v):.1f}"), [tf.reduce_sum(kept)], [])
        y = tf.sin(x) * tf.cos(x) + tf.tanh(x) * 0.5
        tf.py_function(lambda v: seen.append(f"static {float(v):.1f}"), [tf.reduce_sum(y)], [])
        z = tf.exp(y) * tf.reduce_sum(kept) - tf.tanh(y)
        tf.py_function(lambda v: seen.append(f"last {float(v):.1f}"), [tf.reduce_sum(z)], [])
        return z

    x = tf.constant([1.0, -2.0, 3.0])
    expected = f.python_function(x)
    order = seen.copy()
    for _ in range(3):
        seen.clear()
        np.testing.assert_allclose(f(x), expected, rtol=1e-6)
        assert seen == order
    islands = program_of(f).islands
    assert islands
    seen.clear()
    np.testing.assert_allclose(by_xla(lambda: f(x), islands), expected, rtol=1e-6)
    assert seen == order * (TRIALS + 1)


def test_strings_stay_on_the_host() -> None:
    @tf.function
    def f(x: Any, name: Any) -> Any:
        y = tf.reduce_sum(tf.sin(x) * tf.cos(x) + tf.tanh(x))
        return tf.strings.join([name, tf.strings.as_string(y)], separator=" ")

    x, name = tf.zeros([3]), tf.constant("sum")
    for _ in range(3):
        assert f(x, name).numpy() == b"sum 0.000000"
    assert by_xla(lambda: f(x, name), program_of(f).islands).numpy() == b"sum 0.000000"


def test_gradients_outside_and_unknown_dimensions() -> None:
    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float64)])
    def f(x: Any) -> Any:
        y = tf.sin(x) * tf.cos(x) + tf.tanh(x) * x
        return tf.reduce_sum(tf.boolean_mask(y, y > 0.0) ** 2)

    def slope(n: int, run: Callable[..., Any]) -> Any:
        x = tf.constant(np.random.default_rng(n).normal(size=(n, 3)))
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = run(x)
        return tape.gradient(y, x)

    for _ in range(3):
        for n in (2, 5):
            np.testing.assert_allclose(slope(n, f), slope(n, f.python_function), rtol=1e-10)
        wait_for_compiler()
    assert "island of values for a tape" in f.summary()


def test_a_choice_of_numpy_means_all_of_it() -> None:
    @tf.function(jit_compile=False)
    def f(x: Any) -> Any:
        y = tf.sin(x) * tf.cos(x) + tf.tanh(x) * x
        return tf.boolean_mask(y, y > 0.0)

    for _ in range(3):
        f(tf.constant([1.0, 2.0]))
    assert not program_of(f).islands
