"""Gradient functions in the place of vjp rules: RegisterGradient, gradient_override_map and the private registry."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.autodiff.settings import settings
from gradtape._src.hooks.gradient_registry import get_gradient_function, gradient_registry

X = [1.0, -1.0, 2.0]


@tf.RegisterGradient("test_gradient_overrides.Guided")
def guided(op, upstream):
    return tf.where((op.inputs[0] > 0.0) & (upstream > 0.0), upstream, 0.0)


@tf.RegisterGradient("test_gradient_overrides.Times3")
def times3(op, upstream):
    return 3.0 * upstream


@tf.RegisterGradient("test_gradient_overrides.TwoOfOne")
def two_of_one(op, upstream):
    return [upstream, upstream]


tf.no_gradient("test_gradient_overrides.None")


def mapped(name):
    return {"Relu": f"test_gradient_overrides.{name}"}


def slopes(name, tape=False):
    """The gradients of two relus, of which the first is made under the map."""

    @tf.function
    def f(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with x.graph.gradient_override_map(mapped(name)):
                y = tf.nn.relu(x) * [1.0, 1.0, -1.0]
            z = tf.nn.relu(x)
        if tape:
            return outer.gradient(y, x)
        return [*tf.gradients(y, x), *tf.gradients(z, x)]

    return f(tf.constant(X))


def test_a_map_changes_gradients_of_the_ops_in_its_block():
    y, z = slopes("Guided")
    np.testing.assert_array_equal(y, [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(z, [1.0, 0.0, 1.0])


def test_a_map_does_not_change_tapes():
    np.testing.assert_array_equal(slopes("Guided", tape=True), [1.0, 0.0, -1.0])


def test_the_inner_map_counts():
    @tf.function
    def f(x):
        graph = x.graph
        with graph.gradient_override_map(mapped("Guided")):
            with graph.gradient_override_map(mapped("Times3")):
                y = tf.nn.relu(x)
            z = tf.nn.relu(x)
            inside = tf.gradients(z * [1.0, 1.0, -1.0], x)
        return [*tf.gradients(y, x), *inside]

    y, z = f(tf.constant(X))
    np.testing.assert_array_equal(y, [3.0, 3.0, 3.0])
    np.testing.assert_array_equal(z, [1.0, 0.0, 0.0])


def test_a_name_without_a_gradient_gives_none():
    @tf.function
    def f(x):
        with x.graph.gradient_override_map(mapped("None")):
            y = tf.nn.relu(x)
        found.append(tf.gradients(y, x)[0])
        return y

    found = []
    f(tf.constant(X))
    assert found == [None]


def in_graph(name):
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [3])
        with graph.gradient_override_map(mapped(name)):
            y = tf.nn.relu(x) * [1.0, 1.0, -1.0]
        z = tf.nn.relu(x)
        gradients = tf.gradients(y, x) + tf.gradients(z, x)
        with tf.compat.v1.Session() as session:
            return session.run(gradients, {x: X})


def test_maps_of_graphs_of_tensorflow_1():
    y, z = in_graph("Guided")
    np.testing.assert_array_equal(y, [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(z, [1.0, 0.0, 1.0])


@pytest.mark.parametrize("run", [slopes, in_graph])
def test_errors(run):
    with pytest.raises(LookupError, match=r"No gradient defined for operation .* nothing is registered"):
        run("Nothing")
    with pytest.raises(ValueError, match="gradients"):
        run("TwoOfOne")


@pytest.mark.parametrize("wrong", [3, {3: "a"}, {"Relu": None}, [("Relu", "a")]])
def test_maps_are_of_strings(wrong):
    graph = tf.function(lambda x: x).get_concrete_function(1.0).graph
    for each in (tf.Graph(), graph):
        with (
            pytest.raises(TypeError, match="op_type_map must be a dictionary mapping strings to strings"),
            each.gradient_override_map(wrong),
        ):
            pass


def test_names_of_ops_are_taken():
    for name in ("Relu", "test_gradient_overrides.Guided"):
        with pytest.raises(KeyError, match=f"Registering two gradient with name '{name}'"):
            tf.RegisterGradient(name)(guided)


# -- the registry that libraries write to ------------------------------------------------------------------------------
@pytest.fixture
def replaced():
    """Set the gradient of a type of ops, until the test ends."""
    changed = {}

    def replace(op_type, function):
        entry = gradient_registry._registry[op_type]
        changed.setdefault(op_type, entry["type"])
        entry["type"] = function
        return changed[op_type]

    yield replace
    for op_type, function in changed.items():
        gradient_registry._registry[op_type]["type"] = function
    assert not settings.gradient_overrides


def gradient_in_function(f, *args):
    @tf.function
    def run(*xs):
        with tf.GradientTape() as tape:
            tape.watch(xs)
            y = f(*xs)
        return tape.gradient(y, xs)

    return run(*map(tf.constant, args))


def test_a_replaced_gradient_is_called_with_the_operation(replaced):
    seen = []

    def gradient(op, upstream):
        seen.append((op.type, len(op.inputs), [tuple(t.shape) for t in op.outputs]))
        return original(op, 2.0 * upstream)

    original = replaced("Relu", gradient)
    (found,) = gradient_in_function(tf.nn.relu, X)
    np.testing.assert_array_equal(found, [2.0, 0.0, 2.0])
    assert seen == [("Relu", 1, [(3,)])]


CASES = {
    "Mul": (lambda x, y: x * y, ([2.0, 3.0], [5.0, 7.0])),
    "AddV2": (lambda x, y: x + y, ([2.0, 3.0], [5.0])),
    "MatMul": (tf.matmul, ([[2.0, 3.0]], [[5.0], [7.0]])),
    "ConcatV2": (lambda x, y: tf.concat([x, y], 0) ** 2.0, ([2.0, 3.0], [5.0])),
    "Sum": (lambda x: tf.reduce_sum(x, axis=0), ([[2.0, 3.0]],)),
    "Max": (lambda x: tf.reduce_max(x, axis=1), ([[2.0, 3.0]],)),
    "Reshape": (lambda x: tf.reshape(x, [4, 1]), ([[2.0, 3.0], [1.0, 0.0]],)),
    "Unpack": (lambda x: tf.unstack(x)[1] * 3.0, ([2.0, 3.0],)),
    "GatherV2": (lambda x: tf.gather(x, [1, 1]), ([2.0, 3.0],)),
    "Softmax": (lambda x: tf.nn.softmax(x)[0], ([2.0, 3.0],)),
}


@pytest.mark.parametrize("op_type", CASES)
def test_the_original_gradient_is_that_of_the_op(op_type, replaced):
    """A function that returns what the original one returns changes nothing; one that scales it scales the result."""
    f, args = CASES[op_type]
    expected = gradient_in_function(f, *args)
    calls = []

    def same(op, *upstream):
        calls.append(op.type)
        return original(op, *upstream)

    original = replaced(op_type, same)
    for found, wanted in zip(gradient_in_function(f, *args), expected, strict=True):
        np.testing.assert_allclose(tf.convert_to_tensor(found), tf.convert_to_tensor(wanted), rtol=1e-6)
    assert op_type in calls


def test_an_inner_gradient_uses_it_too(replaced):
    """DeepExplainer takes tf.gradients of ops that its gradient function makes."""

    def gradient(op, upstream):
        x = op.inputs[0]
        return tf.gradients(tf.exp(x), x, grad_ys=upstream)[0]

    replaced("Relu", gradient)
    replaced("Exp", lambda op, upstream: 5.0 * upstream)
    (found,) = gradient_in_function(tf.nn.relu, X)
    np.testing.assert_array_equal(found, [5.0, 5.0, 5.0])


def test_the_registry_is_a_dictionary_of_entries():
    entries = gradient_registry._registry
    assert {"Relu", "MatMul", "Conv2D", "MaxPool"} <= {*entries}
    assert "NoSuchOp" not in entries
    entries["shap_Relu"] = {"type": guided, "location": entries["Relu"]["location"]}
    assert gradient_registry.lookup("shap_Relu") is guided
    assert "shap_Relu" in gradient_registry.list()
    del entries["shap_Relu"]
    assert gradient_registry.lookup("test_gradient_overrides.Times3") is times3
    with pytest.raises(LookupError, match="gradient registry has no entry for: shap_Relu"):
        gradient_registry.lookup("shap_Relu")
    op = tf.function(tf.nn.relu).get_concrete_function(tf.constant(X)).graph.get_operations()[-1]
    assert get_gradient_function(op) is entries["Relu"]["type"]
