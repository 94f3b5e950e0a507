"""Names that public programs use and that belong to no family of ops."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.hooks.tensorflow_python import find


def named(name):
    def creator(next_creator, **kwargs):
        kwargs["name"] = f"{kwargs['name'] or ''}{name}"
        return next_creator(**kwargs)

    return creator


def test_creators_of_variables_nest():
    with tf.variable_creator_scope(named("outer")), tf.variable_creator_scope(named("inner")):
        v = tf.Variable([1.0, 2.0], trainable=False)
    assert v.name == "innerouter:0"
    assert not v.trainable
    assert v.numpy().tolist() == [1.0, 2.0]
    assert tf.Variable(1.0).name == "Variable:0"


def test_a_creator_may_return_something_else():
    with tf.variable_creator_scope(lambda next_creator, **kwargs: kwargs["initial_value"]):
        assert tf.Variable(3.0) == 3.0


def test_a_creator_that_fails_leaves_nothing():
    def creator(next_creator, **kwargs):
        raise KeyError("no")

    with pytest.raises(KeyError, match="no"), tf.variable_creator_scope(creator):
        tf.Variable(1.0)
    assert float(tf.Variable(1.0)) == 1.0


def test_compiling_one_call():
    (y,) = tf.xla.experimental.compile(lambda x: x * 2.0, [2.0])
    assert float(y) == 4.0
    assert tf.xla.experimental.compile(lambda: None) == []
    with pytest.raises(RuntimeError, match=r"inside tf\.function"), tf.xla.experimental.jit_scope():
        pass


def test_tpus_are_not_here():
    with pytest.raises(ValueError, match="Please provide a TPU Name"):
        tf.distribute.cluster_resolver.TPUClusterResolver()
    with pytest.raises(ValueError, match="Please provide a TPU Name"):
        tf.tpu.experimental.initialize_tpu_system()


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.int32, tf.uint8, tf.complex64])
def test_memory_goes_to_other_libraries_and_back(dtype):
    x = tf.cast([[1, 2], [3, 4]], dtype)
    capsule = tf.experimental.dlpack.to_dlpack(x)
    again = tf.experimental.dlpack.from_dlpack(capsule)
    assert again.dtype == dtype
    np.testing.assert_array_equal(again.numpy(), x.numpy())
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be a TF tensor"):
        tf.experimental.dlpack.to_dlpack(np.ones(2))


def test_older_names_in_eager_code():
    v1 = tf.compat.v1
    assert int(v1.data.make_one_shot_iterator(tf.data.Dataset.range(3)).get_next()) == 0
    with pytest.raises(RuntimeError, match="not supported in eager mode"):
        v1.data.make_initializable_iterator(tf.data.Dataset.range(3))
    assert v1.data.get_output_types(tf.data.Dataset.range(3)) == tf.int64
    assert v1.data.Dataset is tf.data.Dataset
    with pytest.raises(RuntimeError, match=r"tf.metrics.auc is not supported"):
        v1.metrics.auc([1], [1])
    graph = v1.get_default_graph()
    assert v1.get_default_graph() is graph
    v1.reset_default_graph()
    assert v1.get_default_graph() is not graph
    assert not isinstance(tf.constant(1.0), tf.Operation)


def test_products_of_sparse_matrices():
    sparse = find("ops.linalg.sparse.sparse")
    rng = np.random.default_rng(0)
    a = (rng.normal(size=(2, 4, 5)) * (rng.uniform(size=(2, 4, 5)) < 0.4)).astype(np.float32)
    b = (rng.normal(size=(2, 5, 3)) * (rng.uniform(size=(2, 5, 3)) < 0.4)).astype(np.float32)
    ours = sparse.matmul(sparse.CSRSparseMatrix(a), sparse.CSRSparseMatrix(b))
    np.testing.assert_allclose(ours.to_dense().numpy(), a @ b, rtol=1e-5, atol=1e-6)
    one, two = sparse.CSRSparseMatrix(a[0]), sparse.CSRSparseMatrix(b[0])
    np.testing.assert_allclose(sparse.matmul(one, two).to_dense().numpy(), a[0] @ b[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(sparse.matmul(one, b[0]).numpy(), a[0] @ b[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(sparse.matmul(a[0], two).numpy(), a[0] @ b[0], rtol=1e-5, atol=1e-6)
    empty = sparse.matmul(sparse.CSRSparseMatrix(tf.zeros([2, 2])), sparse.CSRSparseMatrix(tf.ones([2, 2])))
    assert empty.to_dense().numpy().tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_products_of_sparse_matrices_have_gradients():
    sparse = find("ops.linalg.sparse.sparse")
    values = tf.constant([1.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        tape.watch(values)
        a = sparse.CSRSparseMatrix(tf.SparseTensor([[0, 0], [0, 1], [1, 1]], values, [2, 2]))
        loss = tf.reduce_sum(sparse.matmul(a, a).to_sparse_tensor().values)
    # (A A) = [[v0², v0 v1 + v1 v2], [0, v2²]]
    assert tf.convert_to_tensor(tape.gradient(loss, values)).numpy().tolist() == [4.0, 4.0, 8.0]


def test_private_functions_do_what_tensorflows_do():
    nested, deprecation = find("util.nest"), find("util.deprecation")
    assert nested.flatten_up_to([0, {"a": 0}], [[1, 2], {"a": (3, 4)}]) == [[1, 2], (3, 4)]
    assert nested.map_structure_up_to([0, 0], len, [[1, 2], [3]]) == [2, 1]
    with pytest.raises(ValueError, match="same sequence length"):
        nested.flatten_up_to([0, 0], [1])
    with pytest.raises(TypeError, match="must also be a sequence"):
        nested.flatten_up_to([0, 0], 1)
    assert nested.flatten_with_joined_string_paths({"a": [1, 2]}) == [("a/0", 1), ("a/1", 2)]
    old = deprecation.deprecated(None, "Use new.")(lambda x: x + 1)
    assert (old(1), old(2)) == (2, 3)
    assert deprecation.deprecated_args(None, "No.", "y")(lambda x, y=0: x + y)(1, y=2) == 3
    pfor = find("ops.parallel_for.control_flow_ops").pfor
    assert pfor(lambda i: i * 2, 3).numpy().tolist() == [0, 2, 4]


@pytest.mark.parametrize("function", [tf.nn.relu, tf.tanh, tf.exp, tf.math.log, tf.matmul, tf.reduce_sum])
def test_functions_are_pickled_by_name(function):
    assert pickle.loads(pickle.dumps(function)) is function


def test_a_loop_reads_elements_after_one_that_was_read():
    @tf.function
    def total(x):
        elements = tf.TensorArray(tf.float32, size=3).unstack(x)
        y = elements.read(0)
        for i in tf.range(1, 3):
            y = y + elements.read(i)
        return y

    assert float(total(tf.constant([1.0, 2.0, 4.0]))) == 7.0


def test_the_context_says_where_code_runs():
    context = find("eager.context").context()
    assert context.executing_eagerly()
    assert context.device_spec.device_type == "CPU"
    assert context.num_gpus() == 0


def test_a_creator_returns_an_object_of_a_subclass():
    """Its `__init__` does not run a second time, with the arguments of tf.Variable."""

    class Kept(tf.Variable):
        def __init__(self, value, flag):
            self.kept, self.flag = value, flag

        dtype = property(lambda self: self.kept.dtype)

    tf.register_tensor_conversion_function(Kept, lambda value, dtype=None, name=None, as_ref=False: value.kept)
    with tf.variable_creator_scope(lambda next_creator, **kwargs: Kept(tf.constant(kwargs["initial_value"]), "made")):
        made = tf.Variable(2.0, name="v")
    assert type(made) is Kept
    assert made.flag == "made"
    assert float(tf.cast(made, tf.float64)) == 2.0
    assert float(tf.square(made)) == 4.0
    direct = Kept(tf.constant(1.0), flag="direct")
    assert direct.flag == "direct"
    with pytest.raises(TypeError, match="flag"):
        Kept(tf.constant(1.0))


def test_references_have_an_order():
    references = [tf.constant(float(i)).ref() for i in range(5)]
    assert sorted(references) == sorted(references, key=lambda r: id(r.deref()))
    assert (references[0] < references[1]) != (references[0] > references[1])
    with pytest.raises(TypeError, match="Cannot compare wrapped object with unwrapped object"):
        _ = references[0] < 3


def test_static_values_of_what_is_no_tensor():
    shape = tf.constant([2, 3])
    assert tf.get_static_value(shape).tolist() == [2, 3]
    assert isinstance(tf.get_static_value(tf.constant(3)), np.int32)
    for value in (None, 3, [1, 2], "text", tf.int32, object):
        assert tf.get_static_value(value) is value
    assert tf.get_static_value(tf.Variable(2)) is None
    assert tf.get_static_value(tf.ragged.constant([[1]])) is None


def test_the_operators_that_libraries_wrap():
    x = tf.constant([7.0, -7.0])
    assert {"__add__", "__rdiv__", "__getitem__", "__invert__"} < tf.Tensor.OVERLOADABLE_OPERATORS
    assert all(hasattr(tf.Tensor, name) for name in tf.Tensor.OVERLOADABLE_OPERATORS)
    assert x.__div__(2.0).numpy().tolist() == [3.5, -3.5]
    assert tf.constant([7, -7]).__div__(2).numpy().tolist() == [3, -4]
    assert x.__rdiv__(14.0).numpy().tolist() == [2.0, -2.0]


def test_unique_names_in_a_graph():
    names = []

    @tf.function
    def program(x):
        graph = tf.compat.v1.get_default_graph()
        names.extend(graph.unique_name(name) for name in ("a", "a", "A", "b", "a_1"))
        names.append(graph.unique_name("b", mark_as_used=False))
        names.append(graph.unique_name("b"))
        return x

    program(tf.constant(1.0))
    assert names == ["a", "a_1", "A_2", "b", "a_1_1", "b_1", "b_1"]


def test_a_scope_of_variables_is_entered_again():
    v1 = tf.compat.v1
    with v1.variable_scope("outer"):
        scope = v1.get_variable_scope()
    with v1.variable_scope(scope) as entered:
        assert entered is scope
        entered.set_caching_device("/cpu:0")
        assert v1.get_variable("v", [1]).name == "outer/v:0"
    with v1.variable_scope(v1.get_variable_scope()):
        assert v1.get_variable("v", [1]).name == "v:0"


def test_a_name_of_tensorflow_that_is_missing_says_why():
    names = (Path(__file__).parents[2] / "docs" / "data" / "tensorflow_names.txt").read_text("utf-8").splitlines()
    plain = []
    for name in [line.split()[0] for line in names if line.startswith("tf.")]:
        found = tf
        try:
            for part in name.split(".")[1:]:
                found = getattr(found, part)
        except AttributeError as error:
            if not any(words in str(error) for words in ("is not in gradtape: ", "is a TensorFlow 1 name: ")):
                plain.append(name)
    assert plain == []
    with pytest.raises(AttributeError, match=r"tf\.data\.experimental\.at is not in gradtape: internals"):
        tf.data.experimental.at  # noqa: B018
    with pytest.raises(AttributeError, match=r"^module 'gradtape\.linalg' has no attribute 'no_such_name'$"):
        tf.linalg.no_such_name  # noqa: B018
