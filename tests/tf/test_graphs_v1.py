"""Graphs of TensorFlow 1: what the recorded programs (tests/conformance/cases/graphs.py) do not show."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import gradtape as tf

v1 = tf.compat.v1


def test_modules_are_what_they_were_outside_of_graphs():
    with tf.Graph().as_default():
        inside = tf.reduce_sum
        assert inside([1.0, 2.0]).name == "Sum:0"
    assert tf.reduce_sum is not inside
    assert float(tf.reduce_sum([1.0, 2.0])) == 3.0
    assert float(inside([1.0, 2.0])) == 3.0  # a function that was looked up in a graph
    assert isinstance(tf.Variable(1.0).numpy(), np.float32)


def test_functions_that_were_imported_by_their_names():
    multiply, matmul = tf.multiply, tf.matmul
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [2, 2])
        y = multiply(x, x)
        assert session.run(y, {x: np.full((2, 2), 3.0)}).tolist() == [[9.0, 9.0], [9.0, 9.0]]
        assert session.run(matmul(y, x), {x: np.eye(2)}).tolist() == np.eye(2).tolist()


def test_a_program_is_traced_once_for_a_shape():
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None])
        y = tf.reduce_sum(x * x)
        for _ in range(3):
            session.run(y, {x: [1.0, 2.0]})
        (step,) = session._steps.values()
        assert step._function.experimental_get_tracing_count() == 1


def test_a_whole_program_without_eager_execution():
    program = """
import gradtape.compat as compat
import gradtape as g
g.compat.v1.disable_v2_behavior()
tf = g.compat.v1
assert not tf.executing_eagerly()
x = tf.placeholder(tf.float32)
w = tf.Variable(2.0)
y = x * w
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    print(session.run(y, {x: [1.0, 2.0]}).tolist(), session.run(y, {x: 3.0}).tolist())
tf.reset_default_graph()
assert tf.global_variables() == []
""".replace("import gradtape.compat as compat\n", "")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[2.0, 4.0] 6.0", done.stderr


def test_a_failing_run_leaves_variables_as_they_were():
    with tf.Graph().as_default(), v1.Session() as session:
        v = tf.Variable(1.0)
        flag = v1.placeholder(tf.bool, [])
        with tf.control_dependencies([v.assign_add(1.0)]):
            check = tf.debugging.Assert(flag, ["no"])
        session.run(v1.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(check, {flag: False})
        assert session.run(v) == 1.0
        session.run(check, {flag: True})
        assert session.run(v) == 2.0


def test_threads_have_their_own_default_graph():
    import threading

    seen = []
    with tf.Graph().as_default():
        thread = threading.Thread(target=lambda: seen.append(tf.executing_eagerly()))
        thread.start()
        thread.join()
        assert not tf.executing_eagerly()
    assert seen == [True]


def test_the_name_of_a_variable_stands_for_its_value():
    with tf.Graph().as_default() as graph, v1.Session() as session:
        with v1.variable_scope("net"):
            w = v1.get_variable("w", [2], initializer=v1.ones_initializer())
        session.run(v1.global_variables_initializer())
        session.run(w.assign([1.0, 3.0]))
        assert session.run("net/w:0").tolist() == [1.0, 3.0]
        assert session.run(graph.get_tensor_by_name("net/w:0") * 2.0).tolist() == [2.0, 6.0]
        with pytest.raises(KeyError, match="only has 1 outputs"):
            graph.get_tensor_by_name("net/w:1")


def test_an_interactive_session_without_a_graph_leaves_eager_code_eager():
    """Programs create one to set GPU options, and go on with tapes."""
    session = v1.InteractiveSession(config=v1.ConfigProto())
    assert tf.executing_eagerly()
    assert float(tf.constant(1.0) + 1.0) == 2.0
    assert v1.get_default_session() is session
    session.close()
    assert v1.get_default_session() is None
    graph = tf.Graph()
    session = v1.InteractiveSession(graph=graph)
    assert not tf.executing_eagerly()
    assert tf.constant(2.0).eval() == 2.0
    session.close()
    assert tf.executing_eagerly()


# -- shapes that depend on values --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "vector", "value", "expected"),
    [
        ("transpose", [1, 0], None, None),
        ("transpose", [1, 0], [2, 3], [None, None]),
        ("transpose", [1, 0], [None, 3], [None, None]),
        ("tile", [1, 2], [2, 3], [None, None]),
        ("reshape", [3, 2], None, None),
        ("reshape", [6], [2, 3], None),
        ("reshape", [1, 6, 1], [None, 3], None),
        ("broadcast_to", [4, 2, 3], [2, 3], None),
    ],
)
def test_a_vector_of_unknown_length_that_decides_a_shape(name, vector, value, expected):
    with tf.Graph().as_default(), v1.Session() as session:
        x, wanted = v1.placeholder(tf.float32, value), v1.placeholder(tf.int32)
        y = getattr(tf, name)(x, wanted)
        assert y.dtype is tf.float32
        assert y.shape.rank is None if expected is None else y.shape.as_list() == expected
        data = np.arange(6.0, dtype=np.float32).reshape(2, 3)
        found = session.run(y, {x: data, wanted: vector})
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(y, {x: data, wanted: [7, 7, -3]})
    np.testing.assert_array_equal(found, getattr(tf, name)(data, vector))


def test_a_vector_of_known_length_that_decides_a_shape():
    with tf.Graph().as_default(), v1.Session() as session:
        x, order = v1.placeholder(tf.float32, [2, 3]), v1.placeholder(tf.int32, [2])
        y = tf.transpose(x, order)
        assert y.shape.as_list() == [None, None]
        assert session.run(y, {x: np.ones((2, 3)), order: [1, 0]}).shape == (3, 2)
        with pytest.raises(ValueError, match="transpose expects a vector of size 2"):
            tf.transpose(x, v1.placeholder(tf.int32, [3]))
        assert tf.broadcast_to(x, v1.placeholder(tf.int32, [3])).shape.rank == 3


def test_the_number_of_results_is_not_guessed_from_zeros():
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.int32, [None])
        left = v1.setdiff1d(x, [1, 2])
        assert [t.shape.as_list() for t in left] == [[None], [None]]
        out, idx = session.run(left, {x: [3, 1, 4, 2, 3]})
        assert out.tolist() == [3, 4, 3]
        assert idx.tolist() == [0, 2, 4]


def test_setdiff1d_in_functions():
    out, idx = tf.function(lambda x, y: v1.setdiff1d(x, y, tf.int64))([5, 1, 2, 3, 1], [2, 5])
    assert out.numpy().tolist() == [1, 3, 1]
    assert idx.dtype is tf.int64
    assert idx.numpy().tolist() == [1, 3, 4]


def test_operations_and_tensors_of_a_graph_can_be_fetched():
    with tf.Graph().as_default() as graph:
        x = tf.constant(1.0)
        nothing = tf.no_op()
    assert [graph.is_fetchable(each) for each in (x, x.op, nothing, tf.constant(1.0))] == [True, True, True, False]
    assert not tf.Graph().is_fetchable(x)


def test_gradients_of_rows_in_a_graph():
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        v = v1.get_variable("rows", initializer=[[1.0], [2.0]])
        rows = tf.IndexedSlices(tf.constant([[0.1], [0.2]]), tf.constant([0, 0]), tf.constant([2, 1]))
        train = v1.train.GradientDescentOptimizer(3.0).apply_gradients([(rows, v)])
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(train)
            assert session.run(v).ravel().tolist() == pytest.approx([0.1, 2.0], abs=1e-6)
