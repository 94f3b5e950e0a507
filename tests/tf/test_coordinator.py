"""tf.train.Coordinator: threads that stop together."""

from __future__ import annotations

import sys
import threading

import pytest

import gradtape as tf


def test_a_stop_that_is_requested_and_forgotten():
    coordinator = tf.train.Coordinator()
    assert (coordinator.should_stop(), coordinator.joined, coordinator.wait_for_stop(0.001)) == (False, False, False)
    coordinator.request_stop()
    assert coordinator.should_stop()
    coordinator.join([])
    assert coordinator.joined
    coordinator.clear_stop()
    assert (coordinator.should_stop(), coordinator.joined) == (False, False)
    assert tf.compat.v1.train.Coordinator is tf.train.Coordinator


def test_threads_stop_together():
    coordinator, steps = tf.train.Coordinator(), []

    def work():
        while not coordinator.should_stop():
            steps.append(1)
            if len(steps) >= 10:
                coordinator.request_stop()

    threads = [threading.Thread(target=work) for _ in range(3)]
    coordinator.register_thread(threads[0])
    for thread in threads:
        thread.start()
    coordinator.join(threads[1:])
    assert not any(thread.is_alive() for thread in threads)
    assert len(steps) >= 10


@pytest.mark.parametrize("as_tuple", [False, True])
def test_the_first_exception_is_raised_by_join(as_tuple):
    coordinator = tf.train.Coordinator()
    for number in range(2):
        try:
            raise KeyError(number)
        except KeyError as error:
            coordinator.request_stop(sys.exc_info() if as_tuple else error)
    for call in (coordinator.raise_requested_exception, coordinator.join):
        with pytest.raises(KeyError, match="0"):
            call()
    with pytest.raises(ValueError, match="late"):
        coordinator.request_stop(ValueError("late"))


def test_exceptions_of_a_block():
    coordinator = tf.train.Coordinator()
    with coordinator.stop_on_exception():
        raise TypeError("wrong")
    assert coordinator.should_stop()
    with pytest.raises(TypeError, match="wrong"):
        coordinator.join()


@pytest.mark.parametrize(
    ("types", "error"), [(None, tf.errors.OutOfRangeError(None, None, "end")), ((TypeError,), TypeError())]
)
def test_exceptions_that_only_stop(types, error):
    coordinator = tf.train.Coordinator(clean_stop_exception_types=types)
    with coordinator.stop_on_exception():
        raise error
    assert coordinator.should_stop()
    coordinator.join()


def test_threads_that_do_not_stop():
    release = threading.Event()
    thread = threading.Thread(target=release.wait, name="slow", daemon=True)
    thread.start()
    coordinator = tf.train.Coordinator()
    coordinator.request_stop()
    with pytest.raises(RuntimeError, match="threads still running: slow"):
        coordinator.join([thread], stop_grace_period_secs=0.02)
    coordinator.join([thread], stop_grace_period_secs=0.02, ignore_live_threads=True)
    release.set()
    coordinator.join([thread])
