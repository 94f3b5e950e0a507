"""Tables of a tape: what was recorded, what it keeps alive."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import gradtape as tf


def layer(persistent=False, **options):
    x = tf.constant(np.ones((8, 4), np.float32))
    w, b = tf.Variable(np.ones((4, 16), np.float32), name="w"), tf.Variable(np.zeros(16, np.float32), name="b")
    with tf.GradientTape(persistent=persistent, **options) as tape:
        tape.watch(x)
        y = tf.nn.relu(x @ w + b)
        aside = tf.argmax(y, 1)
        z = tf.reduce_sum(y)
    return tape, x, w, b, y, aside, z


# -- summary -----------------------------------------------------------------------------------------------------------
def test_summary_has_a_row_for_each_op():
    tape, *_, z = layer()
    rows = tape.summary(z).rows
    assert [row.op for row in rows] == ["matmul", "add", "relu", "argmax", "reduce_sum"]
    assert [row.shapes for row in rows] == [((8, 16),), ((8, 16),), ((8, 16),), (None,), ((),)]
    assert [row.dtypes for row in rows] == [("float32",)] * 3 + [("int64",), ("float32",)]
    assert [row.saved for row in rows] == [0, 0, 8 * 16 * 4, 0, 0]
    assert [row.used for row in rows] == [True, True, True, False, True]
    assert [row.differentiable for row in rows] == [True, True, True, False, True]
    assert all(row.line is None and row.forward is None and row.backward is None for row in rows)
    assert tape.summary().rows[0].used is None


def test_summary_prints_an_aligned_table():
    tape, *_, z = layer()
    lines = str(tape.summary(z)).splitlines()
    assert lines[0] == "GradientTape: 5 ops, 512 B saved, not recording: its `with` block has ended"
    assert lines[1].split() == ["#", "op", "output", "dtype", "saved", "used"]
    column = lines[1].index("output")
    assert lines[3][column:].startswith("(8, 16)")
    assert lines[-1] == "The target depends on 4 of 5 ops."
    assert repr(tape.summary(z)) == str(tape.summary(z))


def test_long_tapes_are_cut_in_the_middle():
    x = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = x
        for _ in range(100):
            y = tf.tanh(y)
    text = str(tape.summary(max_rows=7))
    assert "⋮ 93 more" in text
    shown = [line.split()[0] for line in text.splitlines() if line.split()[1:2] == ["tanh"]]
    assert shown == ["0", "1", "2", "3", "97", "98", "99"]
    assert str(tape.summary(max_rows=None)).count("tanh") == 100
    assert len(tape.summary()) == 100


def test_lines_are_told_where_the_tape_kept_them():
    tape, *_ = layer(lines=True)
    rows = tape.summary().rows
    assert {row.line[0] for row in rows} == {__file__}
    assert len({row.line[1] for row in rows[:3]}) == 1
    assert rows[4].line[1] == rows[0].line[1] + 2
    assert rows[3].shapes == ((8,),)  # the witness has seen what the tape does not follow
    assert f"test_summary.py:{rows[0].line[1]}" in str(tape.summary())


def test_summary_of_a_tape_that_is_recording():
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = tf.exp(x)
        inside = tape.summary()
        tf.exp(y)
    assert [row.op for row in inside.rows] == ["exp"]
    assert "recording" in str(inside).splitlines()[0]


def test_summary_of_used_up_tapes():
    tape, x, *_, z = layer()
    unused = tf.GradientTape()
    assert str(unused.summary()).startswith("GradientTape: 0 ops, 0 B saved, new")
    tape.gradient(z, x)
    table = tape.summary()
    assert [row.op for row in table.rows] == ["argmax"]  # what the backward pass did not reach
    assert table.nbytes is None
    assert "was used up at test_summary.py:" in str(table)
    assert "persistent=True" in str(table)
    told, x, *_, z = layer(lines=True)
    told.gradient(z, x)
    assert [row.op for row in told.summary(z).rows] == ["matmul", "add", "relu", "argmax", "reduce_sum"]
    assert "was used up" not in str(told.summary())
    kept, x, *_, z = layer(persistent=True)
    before = str(kept.summary(z))
    kept.gradient(z, x)
    assert str(kept.summary(z)) == before


def test_several_outputs_stand_in_one_row():
    x = tf.Variable(np.arange(6.0).reshape(2, 3))
    with tf.GradientTape() as tape:
        tf.split(x, 3, axis=1)
    (row,) = tape.summary().rows
    assert row.shapes == ((2, 1),) * 3
    assert len(row.outputs) == 3


def test_target_must_be_a_tensor():
    tape, *_ = layer()
    with pytest.raises(TypeError, match="`target` should be Tensors or Variables, but received 3"):
        tape.summary(3)


def test_html_of_a_summary_is_escaped():
    tape, *_ = layer()
    text = tape.summary()._repr_html_()
    assert "<table>" in text
    assert text.count("<tr>") == 6
    assert "`with` block" in text
    assert tape._repr_html_().startswith("<div><strong>GradientTape")


# -- bytes -------------------------------------------------------------------------------------------------------------
def test_a_layer_keeps_one_activation():
    tape, *_ = layer()
    assert tape.nbytes == 8 * 16 * 4


def test_data_that_is_not_watched_counts_once():
    x = tf.constant(np.ones((8, 4), np.float32))
    w = tf.Variable(np.ones((4, 4), np.float32))
    with tf.GradientTape() as tape:
        tf.matmul(x, w)
        tf.matmul(x, w)
    assert tape.nbytes == x.numpy().nbytes


def test_shared_arrays_and_views_count_once():
    x = tf.constant(np.ones((8, 4), np.float32))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.exp(x)  # saves its output
        z = tf.reshape(y, [4, 8])  # a view of it
        tf.square(y)  # saves it again
        tf.square(z)
    assert tape.nbytes == 8 * 4 * 4
    assert [row.saved for row in tape.summary().rows] == [128, 0, 0, 0]


def test_an_old_value_of_a_variable_is_kept_by_the_tape():
    v = tf.Variable(np.ones(100, np.float32))
    with tf.GradientTape(persistent=True) as tape:
        tf.square(v)
        assert tape.nbytes == 0
        v.assign(np.zeros(100, np.float32))
    assert tape.nbytes == 400


def test_a_used_up_tape_keeps_nothing():
    tape, x, *_, z = layer()
    tape.gradient(z, x)
    assert tape.nbytes == 0
    assert tf.GradientTape().nbytes == 0
    assert "The tape keeps nothing: it is used up." in str(tape.memory_report())


def test_closures_of_custom_gradients_count():
    @tf.custom_gradient
    def double(x):
        kept = tf.exp(x)

        def grad(upstream):
            return upstream * kept

        return x * 2.0, grad

    x = tf.constant(np.ones(50, np.float32))
    with tf.GradientTape() as tape:
        tape.watch(x)
        double(x)
    assert 200 <= tape.nbytes <= 408  # exp's result, and the constants of the body


# -- the report --------------------------------------------------------------------------------------------------------
def test_memory_report_by_op_and_line():
    tape, x, w, *_ = layer(lines=True)
    report = tape.memory_report()
    assert report.saved == report.nbytes == tape.nbytes == 512
    assert report.elsewhere == x.numpy().nbytes + w.numpy().nbytes
    assert [(e.what, e.saved, e.elsewhere) for e in report.by_op][:2] == [("relu", 512, 0), ("matmul", 0, 384)]
    assert sum(e.records for e in report.by_op) == 5
    line = tape.summary().rows[0].line[1]
    assert report.by_line[0][:5] == (f"test_summary.py:{line}", 3, 3, 512, 384)
    assert 100 * 5 < report.overhead < 2000 * 5
    text = str(report)
    assert "Memory by op" in text
    assert "Memory by line" in text
    assert "512 B saved, 384 B in variables and watched tensors" in text
    assert "relu #2" in text
    assert "<table>" in report._repr_html_()


def test_memory_report_puts_the_biggest_first():
    x = tf.constant(np.ones(10, np.float32))
    with tf.GradientTape() as tape:
        tape.watch(x)
        tf.exp(x)
        tf.tanh(tf.tile(x, [100]))
    report = tape.memory_report()
    assert report.by_op[0].what == "tanh"
    assert [e.saved for e in report.by_op] == sorted((e.saved for e in report.by_op), reverse=True)


def test_reports_keep_no_arrays_alive():
    tape, *_ = layer()
    kept = weakref.ref(tape.records[2].values[1])
    assert kept() is not None
    reports = [tape.summary(), tape.memory_report()]
    del tape, _
    gc.collect()
    assert kept() is None
    assert all(map(str, reports))


# -- notebooks ---------------------------------------------------------------------------------------------------------
def test_tensors_and_variables_in_a_notebook():
    text = tf.constant([[1.0, -2.0], [np.nan, 0.5]])._repr_html_()
    assert "shape (2, 2)" in text
    assert "min -2, mean -0.1667, max 1, 1 not finite" in text
    assert text.count("<td") == 4
    assert "#d33" in text  # a NaN stands out
    text = tf.Variable(np.zeros((3, 200), np.int32), name="<b>")._repr_html_()
    assert "&lt;b&gt;" in text
    assert text.count("<td") == 3 * 11
    assert "<pre>" in tf.zeros([2, 2, 2])._repr_html_()
    assert "<pre>3.0</pre>" in tf.constant(3.0)._repr_html_()
    assert "&lt;script&gt;" in tf.constant(["<script>"])._repr_html_()
    assert tf.constant([], tf.float32)._repr_html_()
    assert tf.constant([True, False])._repr_html_().count("<td") == 2


def test_looking_is_not_reading():
    v = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        v._repr_html_()
    assert tape.watched_variables() == ()
