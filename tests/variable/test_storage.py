"""The memory of variables between calls of compiled programs: values are right whatever looks at them, and whenever."""

from __future__ import annotations

import gc
import random
import threading
import weakref

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.graph import program as programs
from gradtape._src.variable import storage as storages
from gradtape._src.variable.storage import Uncommitted

pytest.importorskip("jax")
COUNT = 4
CALLS = programs._UNDISTURBED + 2


class Model:
    """Variables, and programs of all kinds over them, beside the same in NumPy."""

    def __init__(self):
        self.variables = [tf.Variable(np.full(3, i, np.float32)) for i in range(COUNT)]
        self.expected = [np.full(3, i, np.float32) for i in range(COUNT)]

        @tf.function(jit_compile=True)
        def step(x):
            for v in self.variables:
                v.assign_add(x)
            return tf.add_n(self.variables)

        @tf.function(jit_compile=True)
        def half(x):
            for v in self.variables[::2]:
                v.assign(v * 2.0 + x)

        @tf.function(jit_compile=True)
        def reset(x):
            self.variables[1].assign(x)  # which it does not read

        @tf.function(jit_compile=True)
        def total():
            return tf.add_n(self.variables)

        @tf.function(jit_compile=False)
        def on_numpy(x):
            for v in self.variables:
                v.assign_sub(x)

        self.step, self.half, self.reset, self.total, self.on_numpy = step, half, reset, total, on_numpy

    def state(self):
        return [v.storage._buffer for v in self.variables]

    def check(self):
        for variable, expected in zip(self.variables, self.expected, strict=True):
            np.testing.assert_array_equal(variable.numpy(), expected)

    # -- what a program may do ---------------------------------------------------------------------------------------
    def run_step(self):
        x = np.full(3, 0.5, np.float32)
        self.expected = [e + x for e in self.expected]
        np.testing.assert_array_equal(self.step(tf.constant(x)), sum(self.expected))

    def run_many_steps(self):
        for _ in range(CALLS):
            self.run_step()

    def run_half(self):
        self.expected[::2] = [e * 2 + 1 for e in self.expected[::2]]
        self.half(tf.ones(3))

    def run_reset(self):
        self.expected[1] = np.full(3, 7, np.float32)
        self.reset(tf.constant(self.expected[1]))

    def run_total(self):
        np.testing.assert_array_equal(self.total(), sum(self.expected))

    def run_on_numpy(self):
        self.expected = [e - np.float32(1) for e in self.expected]
        self.on_numpy(tf.ones(3))

    def read_one(self):
        np.testing.assert_array_equal(self.variables[2].numpy(), self.expected[2])

    def assign_one(self):
        self.expected[3] = np.full(3, 2, np.float32)
        self.variables[3].assign(self.expected[3])

    def add_in_place(self):
        self.expected[0] = self.expected[0] + np.float32(1)
        self.variables[0].assign_add(np.ones(3, np.float32))

    def record(self):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(self.variables[0] * self.variables[2])
        np.testing.assert_array_equal(tape.gradient(loss, self.variables[0]), self.expected[2])

    def copy(self):
        copied = tf.Variable(self.variables[1])
        np.testing.assert_array_equal(copied.numpy(), self.expected[1])


ACTIONS = [
    getattr(Model, name) for name in vars(Model) if name.startswith(("run_", "read", "assign", "add", "record", "copy"))
]


def test_values_are_left_in_a_list_while_nothing_looks():
    model = Model()
    model.run_many_steps()
    assert {type(buffer) for buffer in model.state()} == {Uncommitted}
    model.check()
    assert Uncommitted not in {type(buffer) for buffer in model.state()}


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.__name__)
def test_whatever_looks_at_values_finds_them(action):
    model = Model()
    model.run_many_steps()
    action(model)
    model.run_step()
    model.check()
    model.run_many_steps()
    model.check()


@pytest.mark.parametrize("seed", range(8))
def test_any_order_of_actions(seed):
    rng, model = random.Random(seed), Model()
    for _ in range(40):
        action = rng.choice(ACTIONS)
        action(model)
        if rng.random() < 0.3:
            model.check()
    model.check()


def test_an_interrupt_while_values_are_stored_loses_none():
    model = Model()
    model.run_many_steps()
    left = model.state()[0]
    values = left.values

    class Interrupted(list):
        def __iter__(self):
            yield from values[:2]
            raise KeyboardInterrupt

    left.values = Interrupted(values)
    with pytest.raises(KeyboardInterrupt):
        model.variables[3].numpy()
    left.values = values
    assert [buffer is left for buffer in model.state()] == [False, False, True, True]
    model.run_step()
    model.check()


def test_a_launch_that_fails_leaves_the_values():
    model = Model()
    for _ in range(programs._UNDISTURBED):
        model.run_step()
    program = model.step.get_concrete_function(tf.ones(3)).traced.plain
    jitted = program.xla.jitted

    def failing(*arrays):
        raise RuntimeError("no launch")

    for _ in range(2):
        program.xla.__dict__["jitted"] = failing
        with pytest.raises(RuntimeError, match="no launch"):
            model.step(tf.ones(3))
        program.xla.__dict__["jitted"] = jitted
        model.run_step()
    model.check()


def test_memory_is_released_with_the_function():
    """Values that a program has left in a list are no longer together when it is gone."""
    model = Model()
    model.run_many_steps()
    kept, buffers = model.variables[0], [weakref.ref(value) for value in model.state()[0].values]
    expected = model.expected[0]
    del model
    gc.collect()
    assert [ref() is None for ref in buffers] == [False, True, True, True]
    np.testing.assert_array_equal(kept.numpy(), expected)


def test_threads_read_while_a_program_runs():
    model, errors = Model(), []

    def read():
        try:
            for _ in range(200):
                values = model.variables[1].numpy()
                assert (values == values[0]).all()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        model.run_many_steps()
    for thread in threads:
        thread.join()
    assert errors == []
    model.check()


def test_storages_agree_on_the_layout():
    """What `committing` sets by name are attributes of storages."""
    assert {"_buffer", "_aliased", "tensor"} <= set(storages.Storage.__slots__)
