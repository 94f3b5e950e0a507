"""Profiled tapes: times by op and by line, and Chrome's trace format."""

from __future__ import annotations

import json
import threading
import time

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.arrays import numpy_namespace
from gradtape._src.core import observe
from gradtape._src.inspect import profile as profiles


def profiled(**options):
    x = tf.Variable(np.ones((64, 64), np.float32))
    with tf.GradientTape(profile=True, **options) as tape:
        y = x
        for _ in range(3):
            y = tf.tanh(y @ x)
        z = tf.reduce_sum(y)
    return tape, x, z


def test_forward_and_backward_times_by_op():
    tape, x, z = profiled()
    before = tape.profile()
    assert before.backward == 0
    assert before.walks == 0
    tape.gradient(z, x)
    found = tape.profile()
    calls = {entry.what: entry.calls for entry in found.by_op}
    assert calls == {"matmul": 3, "tanh": 3, "reduce_sum": 1}
    assert all(entry.forward > 0 and entry.backward > 0 for entry in found.by_op)
    assert sum(entry.forward for entry in found.by_op) == found.forward == before.forward
    assert sum(entry.backward for entry in found.by_op) == found.backward
    assert [e.total for e in found.by_op] == sorted((e.total for e in found.by_op), reverse=True)
    assert found.walks == 1
    assert found.elsewhere > 0
    assert [row.op for row in found.rows] == ["matmul", "tanh"] * 3 + ["reduce_sum"]
    assert all(row.forward and row.backward for row in tape.summary().rows)


def test_times_by_line():
    tape, x, z = profiled()
    tape.gradient(z, x)
    by_line = tape.profile().by_line
    assert sorted(entry.calls for entry in by_line) == [1, 6]
    assert all(entry.what.startswith("test_profile.py:") for entry in by_line)
    assert sum(entry.saved for entry in by_line) == 3 * 64 * 64 * 4


def test_the_users_own_time_is_not_an_ops():
    x = tf.Variable(1.0)
    with tf.GradientTape(profile=True) as tape:
        y = tf.tanh(x)
        time.sleep(0.05)
        tf.tanh(y)
    found = tape.profile()
    assert found.forward < 40e6
    assert found.elsewhere > 45e6


def test_a_slow_kernel_is_seen(monkeypatch):
    def slow(x):
        time.sleep(0.02)
        return np.sort(x)

    x = tf.Variable([2.0, 1.0])
    with monkeypatch.context() as patch:
        patch.setattr(numpy_namespace, "tanh", slow)
        with tf.GradientTape(profile=True) as tape:
            tf.exp(tf.tanh(x))
    observe.wrap_kernels("profile", None)
    rows = {row.op: row for row in tape.summary().rows}
    assert rows["tanh"].forward > 19e6
    assert rows["exp"].forward < 15e6


def test_several_walks_add_up():
    tape, x, z = profiled(persistent=True)
    tape.gradient(z, x)
    once = tape.profile()
    tape.gradient(z, x)
    twice = tape.profile()
    assert twice.walks == 2
    assert twice.backward > once.backward
    assert "(2 walks)" in str(twice)


def test_results_are_the_same_as_without():
    tape, x, z = profiled()
    with tf.GradientTape() as plain:
        y = x
        for _ in range(3):
            y = tf.tanh(y @ x)
        w = tf.reduce_sum(y)
    np.testing.assert_array_equal(tape.gradient(z, x), plain.gradient(w, x))


def test_second_derivatives_and_jacobians_are_profiled():
    x = tf.Variable([0.5, 2.0])
    with tf.GradientTape(profile=True) as outer:
        with tf.GradientTape(profile=True) as inner:
            y = tf.reduce_sum(x**3)
        g = inner.gradient(y, x)
    h = outer.jacobian(g, x)
    np.testing.assert_allclose(h, np.diag(6 * np.array([0.5, 2.0])), rtol=1e-6)
    assert inner.profile().walks == 1
    assert outer.profile().walks >= 1
    assert outer.profile().forward >= inner.profile().forward


def test_kernels_are_put_back():
    def kernels():
        return [op.kernel for op in observe.with_kernel()]

    originals = kernels()
    assert {"tanh", "matmul", "sum"} <= {op.name for op in observe.with_kernel()}

    x = tf.Variable(1.0)
    with tf.GradientTape(profile=True) as tape:
        assert kernels() != originals
        with tape.stop_recording():
            assert kernels() == originals
        with tf.GradientTape(profile=True):
            tf.tanh(x)
        assert kernels() != originals
        tape.pause()
        assert kernels() == originals
        tape.resume()
        tape.reset()
        assert kernels() != originals
    assert kernels() == originals
    with pytest.raises(ZeroDivisionError), tf.GradientTape(profile=True):
        raise ZeroDivisionError
    assert kernels() == originals
    assert not observe._wrappers
    assert not profiles._measuring


def test_threads_do_not_mix():
    seen = {}

    def work(n):
        x = tf.Variable(np.ones(n, np.float32))
        with tf.GradientTape(profile=True) as tape:
            for _ in range(50):
                tf.tanh(x)
        seen[n] = tape.profile()

    threads = [threading.Thread(target=work, args=(n,)) for n in (3, 4, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(seen[n].rows) for n in (3, 4, 5)] == [50] * 3
    assert all(entry.calls == 50 and entry.forward > 0 for found in seen.values() for entry in found.by_op)
    assert not profiles._measuring


def test_custom_gradients_and_functions_of_the_user():
    @tf.custom_gradient
    def double(x):
        return x * 2.0, lambda upstream: upstream * 2.0

    x = tf.Variable(1.0)
    with tf.GradientTape(profile=True) as tape:
        y = double(x)
    assert float(tape.gradient(y, x)) == 2.0
    rows = {row.op: row for row in tape.summary().rows}
    assert rows["multiply"].forward > 0
    assert rows["custom_gradient"].forward is None
    assert rows["custom_gradient"].backward > 0


def test_profile_needs_a_profiled_tape():
    with tf.GradientTape() as tape:
        pass
    with pytest.raises(RuntimeError, match=r"not profiled. Create it with GradientTape\(profile=True\)"):
        tape.profile()
    with pytest.raises(RuntimeError, match="has not recorded anything yet"):
        tf.GradientTape(profile=True).profile()


def test_it_prints():
    tape, x, z = profiled()
    tape.gradient(z, x)
    text = str(tape.profile())
    assert "Time by op: 7 ops" in text
    assert "Time by line" in text
    assert "forward in kernels" in text
    assert "<table>" in tape.profile()._repr_html_()


# -- Chrome's format ---------------------------------------------------------------------------------------------------
def test_chrome_trace(tmp_path):
    tape, x, z = profiled()
    tape.gradient(z, x)
    path = tape.profile().save(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text("utf-8"))
    assert path == str(tmp_path / "trace.json")
    events = trace["traceEvents"]
    for event in events:
        assert {"name", "ph", "ts", "pid", "tid"} <= set(event)
        assert event["ph"] in ("X", "M")
        if event["ph"] == "X":
            assert event["dur"] >= 0
            assert event["ts"] >= 0
    ops = [e for e in events if e.get("cat") in ("forward", "backward")]
    assert [e["name"] for e in ops if e["cat"] == "forward"] == ["matmul", "tanh"] * 3 + ["reduce_sum"]
    assert [e["name"] for e in ops if e["cat"] == "backward"] == ["reduce_sum"] + ["tanh", "matmul"] * 3
    assert ops[0]["args"]["output"] == "(64, 64)"
    assert ops[0]["args"]["line"].startswith(__file__)
    recording = next(e for e in events if e["name"] == "recording")
    walk = next(e for e in events if e["name"] == "backward pass 1")
    for event in ops:
        around = recording if event["cat"] == "forward" else walk
        assert around["ts"] <= event["ts"]
        assert event["ts"] + event["dur"] <= around["ts"] + around["dur"] + 1e-3
