"""The first call of a program on an accelerator: variables are not copied, and an interrupt leaves them whole."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as tf

pytest.importorskip("jax")
from gradtape._src.graph import xla_executor


@pytest.fixture(autouse=True)
def accelerator(monkeypatch):
    """The processor as JAX's device, treated like an accelerator."""
    begin = xla_executor.XlaExecutor.__init__

    def init(self, program):
        begin(self, program)
        self.default_is_processor = False

    monkeypatch.setattr(xla_executor.XlaExecutor, "__init__", init)
    tf.config.set_engine("xla")
    yield
    tf.config.set_engine("numpy")


def training():
    """A function that changes a variable it reads, one it does not read, and none of a third."""
    v, unread, kept = tf.Variable([1.0, 2.0]), tf.Variable([0.0, 0.0]), tf.Variable([3.0, 3.0])

    @tf.function(jit_compile=True)
    def step(x):
        v.assign_add(x)
        unread.assign(kept * x)
        return tf.reduce_sum(v)

    return step, v, unread, kept


def test_values_after_each_call(monkeypatch):
    monkeypatch.setattr(xla_executor.XlaExecutor, "_run_on_copies", None)  # it is not used
    step, v, unread, kept = training()
    x = tf.constant([1.0, 10.0])
    seen = v.read_value()
    for count in range(1, 4):
        assert float(step(x)) == 3 + 11 * count
        np.testing.assert_array_equal(v.numpy(), [1 + count, 2 + 10 * count])
        np.testing.assert_array_equal(unread.numpy(), [3, 30])
        np.testing.assert_array_equal(kept.numpy(), [3, 3])
    np.testing.assert_array_equal(seen.numpy(), [1, 2])


def test_what_is_assigned_between_calls():
    step, v, unread, _ = training()
    x = tf.constant([1.0, 1.0])
    step(x)
    v.assign([10.0, 10.0])
    unread.assign([7.0, 7.0])
    assert float(step(x)) == 22
    np.testing.assert_array_equal(unread.numpy(), [3, 3])


def test_a_call_that_is_interrupted_while_it_compiles(monkeypatch):
    step, v, _, _ = training()
    x = tf.constant([1.0, 1.0])
    apart = xla_executor._apart

    def interrupted(function):
        apart(function)
        raise KeyboardInterrupt

    monkeypatch.setattr(xla_executor, "_apart", interrupted)
    with pytest.raises(KeyboardInterrupt):
        step(x)
    monkeypatch.setattr(xla_executor, "_apart", apart)
    np.testing.assert_array_equal(v.numpy(), [1, 2])
    assert float(step(x)) == 5


def test_a_call_that_is_interrupted_while_it_starts(monkeypatch):
    step, v, unread, _ = training()
    x = tf.constant([1.0, 1.0])
    to_the_end = xla_executor._to_the_end

    def interrupted(function):
        to_the_end(function)
        raise KeyboardInterrupt

    monkeypatch.setattr(xla_executor, "_to_the_end", interrupted)
    with pytest.raises(KeyboardInterrupt):
        step(x)
    monkeypatch.setattr(xla_executor, "_to_the_end", to_the_end)
    np.testing.assert_array_equal(v.numpy(), [2, 3])  # all have the new values
    np.testing.assert_array_equal(unread.numpy(), [3, 3])
    assert float(step(x)) == 7
