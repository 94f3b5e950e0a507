"""Forked children: no lock stays locked, and what XLA would compute runs on NumPy."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import traceback

import numpy as np
import pytest

import gradtape as tf
from gradtape import keras
from gradtape._src import forks
from gradtape._src.variable import updating

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork"),
    pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
]


def in_child(function, *args):
    """What a function gives in a forked child, which has a minute; its exception is ours."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(60)
        try:
            result = True, function(*args)
        except BaseException:
            result = False, traceback.format_exc()
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(result, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        content = pipe.read()
    _, status = os.waitpid(child, 0)
    assert not status, f"the child ended with status {status}"
    done, value = pickle.loads(content)
    assert done, value
    return value


x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
v = tf.Variable([[0.5, 0.25], [0.125, 1.0]])


@tf.function
def plain(z):
    return tf.reduce_sum(tf.matmul(z, v) ** 2)


@tf.function
def loops(z):
    total = tf.zeros([])
    for i in tf.range(5):
        if total > 3.0:
            total += tf.reduce_sum(z) * 0.1
        else:
            total += tf.cast(i, tf.float32) + tf.reduce_mean(z)
    while total < 50.0:
        total *= 1.5
    return total


@tf.function
def rows(z):
    return tf.map_fn(lambda row: tf.sin(row) * tf.reduce_sum(row), z), tf.scan(lambda a, b: a * 0.5 + b, z)


@tf.function
def update(z):
    v.assign_add(z * 0.0 + 1.0)
    return v.read_value()


@tf.function
def with_python(z):
    return z + tf.numpy_function(lambda a: a * 2.0, [z], tf.TensorSpec([2, 2], tf.float32))


@tf.function(reduce_retracing=True)
def any_size(z):
    return tf.reduce_sum(z * z, axis=0)


FUNCTIONS = (plain, loops, rows, with_python, any_size)


def numbers(value):
    return [np.asarray(leaf).tolist() for leaf in tf.nest.flatten(value)]


def values():
    return [numbers(f(x)) for f in FUNCTIONS]


def gradients():
    found = []
    for f in (plain, loops, rows, any_size):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = f(x)
        found.append(numbers(tape.gradient(y, [x, v], unconnected_gradients="zero")))
    return found


def test_functions_and_gradients_are_the_same_in_a_child(by_xla):
    wanted = [values(), gradients()]
    concrete = [f.get_concrete_function(x) for f in FUNCTIONS]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = plain(x)
        z = loops(x)
    recorded = [numbers(tape.gradient(t, [x, v], unconnected_gradients="zero")) for t in (y, z)]
    jacobian = numbers(tape.jacobian(y, x))

    def child():
        assert forks.without_xla
        assert tf.config.functions_run_eagerly()
        tf.config.run_functions_eagerly(False)
        found = [values(), gradients()]
        again = [numbers(tape.gradient(t, [x, v], unconnected_gradients="zero")) for t in (y, z)]
        programs = [numbers(f(x)) for f in concrete]  # these were traced before, and run on NumPy
        fresh = float(tf.function(lambda a: tf.reduce_sum(a) + 1.0)(x))
        return found, programs, again, numbers(tape.jacobian(y, x)), fresh

    found, programs, again, jacobians, fresh = in_child(child)
    close = {"rtol": 1e-5, "atol": 1e-6}
    for a, b in ((found, wanted), (programs, wanted[0]), (again, recorded), (jacobians, jacobian)):
        for one, other in zip(tf.nest.flatten(a), tf.nest.flatten(b), strict=True):
            np.testing.assert_allclose(one, other, **close)
    assert fresh == 11.0
    assert not forks.without_xla


def test_variables_of_programs_are_read_and_updated_in_a_child():
    update(x)
    before = v.numpy()
    concrete = update.get_concrete_function(x)

    def child():
        first = numbers(update(x))
        second = numbers(concrete(x))  # a program
        v.assign_add(x * 0.0)
        return first, second, v.numpy().tolist()

    first, second, last = in_child(child)
    np.testing.assert_allclose(first, [before + 1.0])
    np.testing.assert_allclose(second, [before + 2.0])
    np.testing.assert_allclose(last, before + 2.0)
    np.testing.assert_array_equal(v.numpy(), before)


def test_a_model_in_a_child():
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(3, activation="tanh"), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(x.numpy(), x.numpy()[:, :1], verbose=0)
    wanted = model.predict(x.numpy(), verbose=0)

    def child():
        found = model.predict(x.numpy(), verbose=0)
        model.fit(x.numpy(), x.numpy()[:, :1], verbose=0)
        return found

    np.testing.assert_allclose(in_child(child), wanted, rtol=1e-5)


def test_arrays_of_jax_are_numpys_in_a_child(by_xla):
    tf.config.set_engine("xla")
    try:
        a = tf.constant([1.0, 2.0])

        def child():
            with tf.GradientTape() as tape:
                tape.watch(a)
                y = tf.reduce_sum(tf.tanh(a) * tf.constant([2.0, 3.0]))
            return numbers(tape.gradient(y, a))

        np.testing.assert_allclose(in_child(child)[0], [2, 3] * (1 - np.tanh([1.0, 2.0]) ** 2), rtol=1e-5)
    finally:
        tf.config.set_engine("numpy")


def test_an_iterator_goes_on_in_a_child():
    data = tf.data.Dataset.range(6).map(lambda i: i * 2).filter(lambda i: True).prefetch(2)
    iterator = iter(data)
    assert [int(next(iterator)), int(next(iterator))] == [0, 2]
    assert in_child(lambda: [int(i) for i in iterator]) == [4, 6, 8, 10]
    assert [int(i) for i in iterator] == [4, 6, 8, 10]


def squares(number):
    row = tf.constant([float(number), 1.0])
    with tf.GradientTape() as tape:
        tape.watch(row)
        y = tf.function(lambda z: tf.reduce_sum(z * z))(row)
    return float(y), tape.gradient(y, row).numpy().tolist()


def test_a_pool_of_forked_workers():
    plain(x)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = pool.map_async(squares, range(4)).get(timeout=60)
    assert found == [(number**2 + 1.0, [2.0 * number, 2.0]) for number in range(4)]


def test_a_lock_that_another_thread_holds_is_free_in_a_child():
    locks = [forks.lock(), forks.rlock()]
    held, done = threading.Event(), threading.Event()

    def hold():
        with locks[0], locks[1]:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        assert in_child(lambda: [made.acquire(timeout=5) for made in locks]) == [True, True]
    finally:
        done.set()
        thread.join()


def test_a_fork_waits_for_an_update():
    """Between the launch of a program and the storing of its results variables have no memory."""
    begun, done = threading.Event(), threading.Event()

    def hold():
        with updating():
            begun.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    begun.wait()
    threading.Timer(0.3, done.set).start()
    finished = in_child(lambda: done.is_set())
    thread.join()
    assert finished
    assert updating().acquire(blocking=False)
    updating().release()
