"""Graphs as TensorFlow's users look at them."""

from __future__ import annotations

import pytest

import gradtape as tf


@pytest.fixture
def graph():
    v = tf.Variable(2.0)

    @tf.function
    def f(x):
        large, small = tf.split(tf.tanh(x * v), 2)
        return large + small

    return f.get_concrete_function(tf.TensorSpec([4])).graph


def test_operations_are_in_order_and_have_tensorflows_types(graph):
    kinds = [op.type for op in graph.get_operations()]
    assert kinds == ["Placeholder", "ReadVariableOp", "Mul", "Tanh", "SplitV", "AddV2"]
    split = graph.get_operation_by_name("split")
    assert [t.shape for t in split.outputs] == [(2,), (2,)]
    assert split.inputs[0].name == "tanh:0"
    assert split.get_attr("T") == tf.float32
    assert split.graph is graph


def test_tensors_by_name(graph):
    assert graph.get_tensor_by_name("split:1").name == "split:1"
    assert [t.name for t in graph.inputs] == ["args_0:0"]
    with pytest.raises(ValueError, match="looks like an operation"):
        graph.get_tensor_by_name("split")
    with pytest.raises(KeyError, match="does not exist"):
        graph.get_tensor_by_name("split:2")
    with pytest.raises(KeyError, match="not in the graph"):
        graph.get_operation_by_name("cosh")


def test_graph_def_can_be_read_again(graph):
    message = graph.as_graph_def()
    nodes = {node.name: node for node in type(message).FromString(message.SerializeToString()).node}
    assert list(nodes["add"].input) == ["split", "split:1"]
    assert nodes["args_0"].attr["dtype"].type == tf.float32.as_datatype_enum


def test_control_flow_and_shapes_from_values():
    @tf.function
    def f(x):
        for _ in tf.range(3):
            x = tf.cond(x[0] > 0, lambda: x * 2, lambda: x + 1)  # noqa: B023 - it runs here
        return x[: tf.cast(x[0], tf.int32)]

    kinds = {node.op for node in f.get_concrete_function(tf.TensorSpec([4])).graph.as_graph_def().node}
    assert {"While", "StridedSlice"} <= kinds


@pytest.mark.parametrize("stage", ["hlo", "stablehlo", "optimized_hlo", "optimized_hlo_dot"])
def test_compiler_ir(stage):
    pytest.importorskip("jax")
    f = tf.function(lambda x: tf.tanh(x) * 2, jit_compile=True)
    text = f.experimental_get_compiler_ir(tf.ones([3]))(stage=stage)
    assert "tanh" in text
    serialized = f"{stage}_serialized"
    if stage.endswith("hlo") and stage != "stablehlo":
        assert type(f.experimental_get_compiler_ir(tf.TensorSpec([3]))(stage=serialized)) is bytes


def test_compiler_ir_of_what_is_not_compiled():
    f = tf.function(lambda x: x)
    with pytest.raises(ValueError, match="only be returned for functions marked with 'jit_compile=True'"):
        f.experimental_get_compiler_ir(tf.ones([3]))
    pytest.importorskip("jax")
    f = tf.function(lambda x: x * 1.0, jit_compile=True)
    with pytest.raises(ValueError, match="Invalid stage selected: 'fast'"):
        f.experimental_get_compiler_ir(tf.ones([3]))(stage="fast")


def test_tensors_of_a_graph_know_their_operations():
    seen = {}

    @tf.function
    def f(x):
        both = tf.concat([x, x], 0)
        y = tf.reduce_sum(both, axis=0) + 1.0
        seen.update(
            type=y.op.type,
            inputs=[t.name for t in y.op.inputs],
            same=y.op == y.op and y.op != both.op and len({y.op, y.op}) == 1,
            concat=[tuple(t.shape) for t in both.op.inputs],
            consumers=[op.type for op in x.consumers()],
            first=(x.op.type, x.op.inputs, y.value_index),
            outputs=[t.name for t in both.op.outputs] == [both.name],
        )
        return y

    f(tf.constant([1.0, -1.0]))
    assert seen["type"] == "AddV2"
    assert seen["inputs"][0] == "sum:0"
    assert len(seen["inputs"]) == 2
    assert seen["same"]
    assert seen["outputs"]
    assert seen["concat"][:2] == [(2,), (2,)]
    assert len(seen["concat"]) == 3
    assert seen["consumers"] == ["ConcatV2", "ConcatV2"]
    assert seen["first"] == ("Placeholder", (), 0)


def test_eager_tensors_have_no_operation():
    for name in ("op", "consumers", "value_index"):
        with pytest.raises(AttributeError, match=f"Tensor.{name} is undefined when eager execution is enabled"):
            getattr(tf.constant(1.0), name)
