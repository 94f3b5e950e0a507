"""Threads and tasks: everybody records their own ops and nobody else's."""

from __future__ import annotations

import _thread
import asyncio
import contextvars
import gc
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.core.tape import active_recorders


def in_thread(function):
    """Run in a thread of its own; its exception is ours."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result(timeout=60)


def test_a_tape_does_not_see_another_threads_ops():
    v = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        mine = v * v
        theirs = in_thread(lambda: v * v * v)
    assert tape.gradient(theirs, v) is None
    with pytest.raises(RuntimeError):
        tape.gradient(mine, v)
    with tf.GradientTape() as tape:
        in_thread(lambda: v * 1.0)
    assert tape.watched_variables() == ()
    assert tape.records == []


def test_another_thread_may_ask():
    v = tf.Variable(3.0)
    with tf.GradientTape(persistent=True) as tape:
        y = v * v
    assert float(in_thread(lambda: tape.gradient(y, v))) == 6.0
    assert float(in_thread(lambda: tape.jacobian(y, v))) == 6.0
    assert float(tape.gradient(y, v)) == 6.0


def test_asking_from_another_thread_while_recording():
    """The other thread's sweep is not recorded by a tape that is open here, and this tape goes on."""
    x = tf.constant(3.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        before = len(tape.records)
        g = in_thread(lambda: tape.gradient(y, x))
        assert len(tape.records) == before
        z = g * x
    assert float(g) == 6.0
    assert float(tape.gradient(z, x)) == 6.0


def test_a_thread_works_on_with_anothers_results():
    x = tf.constant(3.0)

    def produce():
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        return tape, y

    tape, y = in_thread(produce)
    with tf.GradientTape() as outer:
        outer.watch(x)
        g = tape.gradient(y, x)  # recorded here, by the tape that is open here
    assert float(g) == 6.0
    assert float(outer.gradient(g, x)) == 2.0


def test_many_threads_in_step():
    """Barriers make the threads meet inside their tapes, at every op and at the question."""
    count = 8
    barrier = threading.Barrier(count)
    shared = tf.Variable([1.0, 2.0])

    def work(k):
        own = tf.constant([float(k), 1.0])
        for _ in range(5):
            with tf.GradientTape(persistent=True) as tape:
                tape.watch(own)
                barrier.wait(60)
                y = own * shared
                barrier.wait(60)
                z = tf.reduce_sum(y * own)
                barrier.wait(60)
            assert len(tape.records) == 3
            first = tape.gradient(z, [own, shared])
            barrier.wait(60)
            j = tape.jacobian(y, own)
        return first[0].numpy().tolist(), first[1].numpy().tolist(), j.numpy().tolist()

    with ThreadPoolExecutor(count) as pool:
        results = list(pool.map(work, range(count)))
    for k, (d_own, d_shared, j) in enumerate(results):
        assert d_own == [2.0 * k, 4.0]
        assert d_shared == [float(k * k), 1.0]
        assert j == [[1.0, 0.0], [0.0, 2.0]]


def test_many_threads_train_networks_of_their_own():
    def train(seed):
        rng = np.random.default_rng(seed)
        x, y = tf.constant(rng.normal(size=(16, 3))), tf.constant(rng.normal(size=(16, 1)))
        w, b = tf.Variable(rng.normal(size=(3, 1))), tf.Variable(np.zeros(1))
        for _ in range(20):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((x @ w + b - y) ** 2)
            dw, db = tape.gradient(loss, [w, b])
            w.assign_sub(0.1 * dw)
            b.assign_sub(0.1 * db)
        return w.numpy(), b.numpy()

    alone = [train(seed) for seed in range(6)]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(train, range(6)))
    for (w, b), (w2, b2) in zip(alone, together, strict=True):
        np.testing.assert_array_equal(w, w2)
        np.testing.assert_array_equal(b, b2)


def test_uids_are_never_given_twice():
    def make():
        return [(tf.constant(1.0) * 2.0).uid for _ in range(2000)]

    with ThreadPoolExecutor(4) as pool:
        uids = [uid for made in pool.map(lambda _: make(), range(4)) for uid in made]
    assert len(set(uids)) == len(uids)


def test_a_thread_starts_without_tapes():
    with tf.GradientTape():
        assert len(active_recorders()) == 1
        assert in_thread(active_recorders) == ()
    assert active_recorders() == ()


def test_a_context_can_be_carried_over_on_purpose():
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        context = contextvars.copy_context()
        y = in_thread(lambda: context.run(lambda: x * x))
    assert float(tape.gradient(y, x)) == 6.0


# -- asyncio ---------------------------------------------------------------------------------------
def test_tasks_do_not_see_each_others_ops():
    async def work(power):
        x = tf.constant(float(power))
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x
            for _ in range(power - 1):
                await asyncio.sleep(0)
                y = y * x
        return len(tape.records), float(tape.gradient(y, x))

    async def main():
        return await asyncio.gather(*(work(power) for power in (2, 3, 4, 5)))

    assert asyncio.run(main()) == [(1, 4.0), (2, 27.0), (3, 256.0), (4, 3125.0)]


def test_a_shared_tensor_is_recorded_only_by_the_task_that_uses_it():
    x = tf.Variable(2.0)

    async def recording(seen, done):
        with tf.GradientTape() as tape:
            y = x * x
            seen.set()
            await done.wait()
        return tape, y

    async def other(seen, done):
        await seen.wait()
        z = x * x * x
        done.set()
        return z

    async def main():
        seen, done = asyncio.Event(), asyncio.Event()
        return await asyncio.gather(recording(seen, done), other(seen, done))

    (tape, y), z = asyncio.run(main())
    assert len(tape.records) == 1
    assert float(tape.gradient([y, z], x)) == 4.0


def test_a_task_that_is_cancelled_closes_its_tape():
    tapes = []

    async def work():
        with tf.GradientTape() as tape:
            tapes.append((tape, x, x * x))
            await asyncio.sleep(60)

    x = tf.Variable(3.0)

    async def main():
        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return active_recorders()

    assert asyncio.run(main()) == ()
    tape, v, y = tapes[0]
    assert float(tape.gradient(y, v)) == 6.0


def test_a_task_inherits_the_tape_it_was_started_under():
    """A task begins with its parent's context, as every context variable says."""
    x = tf.Variable(3.0)

    async def helper():
        return x * x

    async def main():
        with tf.GradientTape() as tape:
            y = await asyncio.create_task(helper())
        return tape, y

    tape, y = asyncio.run(main())
    assert float(tape.gradient(y, x)) == 6.0


def test_name_scopes_are_per_thread():
    with tf.name_scope("outer"), tf.compat.v1.variable_scope("inner"):
        assert in_thread(lambda: tf.Variable(1.0, name="w").name) == "w:0"
        assert in_thread(lambda: tf.compat.v1.get_variable("w", [1]).name) == "w:0"
        assert tf.Variable(1.0, name="w").name == "outer/inner/w:0"


# -- shared variables ------------------------------------------------------------------------------
def test_reading_while_another_thread_updates():
    """Every reading is one whole value: in-place updates never touch what somebody holds."""
    v = tf.Variable(np.zeros(1000, np.float32))
    one = tf.ones([1000])
    torn = []
    stop = threading.Event()

    def read():
        while not stop.is_set():
            value = v.read_value()
            first = value.numpy()
            if len(set(first.tolist())) != 1 or not np.array_equal(first, value.numpy()):
                torn.append(first)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for thread in readers:
        thread.start()
    for _ in range(2000):
        v.assign_add(one)
    stop.set()
    for thread in readers:
        thread.join()
    assert torn == []
    assert v.numpy().tolist() == [2000.0] * 1000


def test_no_update_is_lost():
    v = tf.Variable([0.0, 0.0])

    def add(_):
        for _ in range(1000):
            v.assign_add([1.0, 2.0])
            v.assign_sub([0.0, 1.0])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(4)))
    assert v.numpy().tolist() == [4000.0, 4000.0]


def test_nothing_of_a_finished_thread_stays():
    gc.collect()
    gc.disable()
    try:

        def work():
            x = tf.Variable(np.ones(3))
            with tf.GradientTape() as tape:
                y = x * x
            kept.append(weakref.ref(y))
            kept.append(weakref.ref(x))
            tape.gradient(y, x)

        kept = []
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert [ref() for ref in kept] == [None, None]
    finally:
        gc.enable()


def test_a_thread_that_is_nothing_but_a_question(monkeypatch):
    """No code of the user's is behind it, so there is no line to remember."""
    failures = []
    monkeypatch.setattr(sys, "unraisablehook", failures.append)
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = x * x
    _thread.start_new_thread(tape.gradient, (y, x))
    end = time.monotonic() + 10
    while tape._used_at is None and not failures and time.monotonic() < end:
        time.sleep(0.001)
    assert failures == []
    with pytest.raises(RuntimeError, match="It was used at an unknown file"):
        tape.gradient(y, x)


def test_errors_of_callbacks_belong_to_the_call_that_caused_them():
    """Two threads call one compiled function, side by side; the callback of one of them raises."""
    both = threading.Barrier(2)

    def checked(x):
        if x:
            both.wait(timeout=10)  # both programs run now
        if x < 0:
            raise ValueError(f"negative: {int(x)}")
        return x

    @tf.function(jit_compile=True)
    def f(x):
        return tf.numpy_function(checked, [x], tf.TensorSpec([], tf.float32)) + 1

    def outcome(value):
        try:
            return float(f(tf.constant(value)))
        except Exception as error:
            return str(error)

    assert outcome(0.0) == 1.0  # compiled before the threads begin
    with ThreadPoolExecutor(2) as pool:
        for i in range(10):
            good, bad = pool.map(outcome, [1.0, -1.0 - i])
            assert good == 2.0
            assert f"negative: {-1 - i}" in bad


def test_a_compiled_callback_inside_of_a_callback_raises_there():
    @tf.function(jit_compile=True)
    def inner(x):
        return tf.py_function(lambda x: x // 0, [x], tf.TensorSpec([], tf.int32))

    def recovering(x):
        try:
            return inner(x)
        except tf.errors.InvalidArgumentError:
            return x + 1

    @tf.function(jit_compile=True)
    def outer(x):
        return tf.py_function(recovering, [x], tf.TensorSpec([], tf.int32))

    assert int(outer(tf.constant(1))) == 2


def test_a_program_that_calls_python_as_a_part_of_another():
    """The backward pass of the first is traced into the second."""

    @tf.function(jit_compile=True)
    def cube(x):
        return tf.py_function(lambda x: x**3, [x], tf.TensorSpec([], tf.float32))

    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = cube(x)

    @tf.function(jit_compile=True)
    def gradient():
        return 10 * tape.gradient(y, x)

    assert float(gradient()) == 120.0
