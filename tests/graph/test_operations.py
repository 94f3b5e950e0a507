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
    assert kinds == [
        "Placeholder", "Placeholder", "ReadVariableOp", "Mul", "Tanh", "Const", "Const", "SplitV", "AddV2", "Identity",
        "NoOp",
    ]  # fmt: skip
    split = graph.get_operation_by_name("split")
    assert [t.shape for t in split.outputs] == [(2,), (2,)]
    assert split.inputs[0].name == "Tanh:0"
    assert split.get_attr("T") == tf.float32
    assert split.graph is graph


def vectors(x, y):
    return tf.reduce_sum(tf.tanh(x + y) * 2.0 - 1.0), tf.argmax(x), tf.nn.relu(x) / y


def matrices(a, _b):
    c = tf.matmul(a, tf.transpose(a))
    return tf.reduce_max(c, axis=1), tf.concat([a, a], 0)[1:, 0], tf.gather(c, [1, 0]), tf.cast(a > 0.0, tf.int32)


def structures(values, *rest, scale, **others):
    return values["b"] ** 2.0 + values["a"], rest[0] % rest[1], -scale, tf.stack([others["z"], scale])


RECORDED = {
    vectors: "x:Placeholder y:Placeholder add:AddV2 Tanh mul/y:Const mul:Mul sub/y:Const sub:Sub Const Sum "
    "ArgMax/dimension:Const ArgMax Relu truediv:RealDiv Identity Identity_1:Identity Identity_2:Identity",
    matrices: "a:Placeholder Placeholder transpose/perm:Const transpose:Transpose MatMul Max/reduction_indices:Const "
    "Max concat/axis:Const concat:ConcatV2 strided_slice/stack:Const strided_slice/stack_1:Const "
    "strided_slice/stack_2:Const strided_slice:StridedSlice GatherV2/indices:Const GatherV2/axis:Const GatherV2 "
    "Greater/y:Const Greater Cast Identity Identity_1:Identity Identity_2:Identity Identity_3:Identity",
    structures: "values:Placeholder values_1:Placeholder rest_0:Placeholder rest_1:Placeholder scale:Placeholder "
    "z:Placeholder pow/y:Const pow:Pow add:AddV2 mod:FloorMod Neg stack:Pack Identity Identity_1:Identity "
    "Identity_2:Identity Identity_3:Identity",
}
"""The operations in TensorFlow 2.21, by name and type; only the type if it is the name."""


@pytest.mark.parametrize("function", RECORDED, ids=lambda f: f.__name__)
def test_names_and_constants_are_tensorflows(function):
    vector, matrix = tf.TensorSpec([2]), tf.TensorSpec([2, 2])
    args = {
        vectors: [[vector, vector], {}],
        matrices: [[matrix, matrix], {}],
        structures: [[{"a": vector, "b": vector}, vector, vector], {"scale": vector, "z": vector}],
    }
    given, keywords = args[function]
    graph = tf.function(function).get_concrete_function(*given, **keywords).graph
    found = [op.name if op.name == op.type else f"{op.name}:{op.type}" for op in graph.get_operations()]
    assert " ".join(found) == RECORDED[function]


def test_names_of_inputs_come_from_their_specifications():
    f = tf.function(lambda x, X: x + X)
    concrete = f.get_concrete_function(tf.TensorSpec([2], name="image"), tf.TensorSpec([2]))
    assert [t.name for t in concrete.inputs] == ["image:0", "X:0"]
    assert [t.name for t in f.get_concrete_function(tf.TensorSpec([3]), tf.TensorSpec([3])).inputs] == ["x:0", "X_1:0"]
    assert [(t.name, tuple(t.shape)) for t in concrete.outputs] == [("Identity:0", (2,))]
    assert [t.name for t in concrete.graph.outputs] == ["Identity:0"]


def test_variables_and_assignments_are_operations():
    v = tf.Variable([1.0, 2.0])

    @tf.function
    def f(x):
        v.assign(tf.sin(v) * x)
        return x * v

    concrete = f.get_concrete_function(tf.TensorSpec([2]))
    operations = {op.name: op for op in concrete.graph.get_operations()}
    assert list(operations["Sin/ReadVariableOp"].node_def.input) == ["Sin/ReadVariableOp/resource"]
    assert list(operations["AssignVariableOp"].node_def.input) == ["Sin/ReadVariableOp/resource", "mul"]
    assert operations["Sin/ReadVariableOp/resource"].get_attr("dtype") == tf.resource
    assert [handle.deref() is v for handle in concrete.captured_inputs] == [True]
    assert concrete.graph.version == len(operations)
    assert concrete.graph.as_graph_element("mul_1:0").op == concrete.graph.as_graph_element("mul_1")


def test_constants_have_values():
    graph = (
        tf.function(lambda x: tf.reshape(tf.add(x, [1.0, 2.0]), [2, 1])).get_concrete_function(tf.TensorSpec([2])).graph
    )
    constants = {op.name: tf.make_ndarray(op.get_attr("value")).tolist() for op in graph.get_operations()[1:4:2]}
    assert constants == {"add/y": [1.0, 2.0], "Reshape/shape": [2, 1]}
    assert graph.get_tensor_by_name("add/y:0").op.type == "Const"
    assert [t.name for t in graph.get_operation_by_name("Reshape").inputs] == ["add:0", "Reshape/shape:0"]
    with pytest.raises(ValueError, match="has no attr named 'strides'"):
        graph.get_operation_by_name("Reshape").get_attr("strides")


def test_branches_and_bodies_are_functions_of_the_library():
    @tf.function
    def f(x, n):
        y = tf.cond(x > 0.0, lambda: tf.sin(x), lambda: tf.cos(x) * 2.0)
        return tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.exp(y)), (0, y))[1]

    message = f.get_concrete_function(tf.TensorSpec([]), tf.TensorSpec([], tf.int32)).graph.as_graph_def()
    message = type(message).FromString(message.SerializeToString())
    functions = {each.signature.name: [node.op for node in each.node_def] for each in message.library.function}
    calls = {node.op: node for node in message.node if node.op.startswith("Stateless")}
    branches = calls["StatelessIf"].attr
    assert functions[branches["then_branch"].func.name] == ["Sin", "Identity"]
    assert functions[branches["else_branch"].func.name] == ["Cos", "Const", "Mul", "Identity"]
    assert "Exp" in functions[calls["StatelessWhile"].attr["body"].func.name]
    assert "Less" in functions[calls["StatelessWhile"].attr["cond"].func.name]
    definition = f.get_concrete_function(tf.TensorSpec([]), tf.TensorSpec([], tf.int32)).function_def
    assert [arg.name for arg in definition.signature.input_arg] == ["x", "n"]
    assert dict(definition.ret) == {"output_0": "Identity:0"}


def test_tensors_by_name(graph):
    assert graph.get_tensor_by_name("split:1").name == "split:1"
    assert [t.name for t in graph.inputs] == ["x:0"]
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
    assert nodes["x"].attr["dtype"].type == tf.float32.as_datatype_enum


def test_control_flow_and_shapes_from_values():
    @tf.function
    def f(x):
        for _ in tf.range(3):
            x = tf.cond(x[0] > 0, lambda: x * 2, lambda: x + 1)  # noqa: B023 - it runs here
        return x[: tf.cast(x[0], tf.int32)]

    kinds = {node.op for node in f.get_concrete_function(tf.TensorSpec([4])).graph.as_graph_def().node}
    assert {"StatelessWhile", "StridedSlice"} <= kinds


@pytest.mark.parametrize("stage", ["hlo", "stablehlo", "optimized_hlo", "optimized_hlo_dot"])
def test_compiler_ir(stage):
    pytest.importorskip("jax")
    f = tf.function(lambda x: tf.tanh(x) * 2, jit_compile=True)
    text = f.experimental_get_compiler_ir(tf.ones([3]))(stage=stage)
    assert "tanh" in text
    serialized = f"{stage}_serialized"
    if stage.endswith("hlo") and stage != "stablehlo":
        assert type(f.experimental_get_compiler_ir(tf.TensorSpec([3]))(stage=serialized)) is bytes


def test_the_optimized_module_as_a_message_of_its_own():
    pytest.importorskip("jax")
    ir = tf.function(lambda x: tf.tanh(x) * 2, jit_compile=True).experimental_get_compiler_ir(tf.ones([3]))
    module, message = ir("optimized_hlo_serialized"), ir("optimized_hlo_proto_serialized")
    assert message[0] == 1 << 3 | 2  # field 1, with a length
    assert message.endswith(module)


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
    assert seen["inputs"][0] == "Sum:0"
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
