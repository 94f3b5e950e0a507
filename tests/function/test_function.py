"""tf.function: the contract with callers, the same with a compiler and without one."""

from __future__ import annotations

import functools
import logging

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.function import autograph, modes, tracing
from gradtape._src.function.function import Function
from gradtape._src.variable import storage


@pytest.fixture(autouse=True, params=["auto", "xla", "numpy", "no jax", "no jax, no malt"])
def executor(request, monkeypatch):
    """By every executor, and as in an installation without JAX and AutoGraph."""
    monkeypatch.setattr(modes, "_warnings", set())
    if request.param.startswith("no jax"):
        monkeypatch.setattr(modes, "can_compile", lambda: False)
        if request.param.endswith("no malt"):
            for user in (autograph, tracing):
                monkeypatch.setattr(user, "is_available", lambda: False)
    else:
        pytest.importorskip("jax")
        monkeypatch.setattr(modes, "_jit", [request.param])
    return request.param


def test_decorated_with_and_without_arguments_and_called():
    @tf.function
    def plain(x):
        return x * 2.0

    @tf.function(jit_compile=True, autograph=False, reduce_retracing=True)
    def with_arguments(x):
        return x * 3.0

    assert float(plain(tf.constant(2.0))) == 4.0
    assert float(with_arguments(tf.constant(2.0))) == 6.0
    assert float(tf.function(lambda x: x + 1.0)(tf.constant(2.0))) == 3.0
    assert (plain.__name__, float(plain.python_function(tf.constant(1.0)))) == ("plain", 2.0)
    with pytest.raises(TypeError, match="decorates functions"):
        tf.function(3)


def test_methods_bind_and_variables_are_followed():
    class Layer(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable([[1.0, 2.0]])

        @tf.function
        def __call__(self, x, *, scale=1.0):
            return tf.reduce_sum(x * self.w) * scale

    layer = Layer()
    with tf.GradientTape() as tape:
        y = layer(tf.constant([[3.0, 4.0]]), scale=2.0)
    np.testing.assert_allclose(tape.gradient(y, layer.w), [[6.0, 8.0]])
    assert isinstance(Layer.__call__, Function)


def test_results_are_tensors_in_their_structure():
    v = tf.Variable(5.0)

    @tf.function
    def f(x):
        return {"number": 1, "none": None, "tensor": x, "variable": v}

    result = f(tf.constant(2.0))
    assert isinstance(result["number"], tf.Tensor)
    assert result["none"] is None
    assert isinstance(result["variable"], tf.Tensor)


def test_a_signature_converts_and_refuses():
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def total(x):
        return tf.reduce_sum(x)

    assert float(total([1, 2, 3])) == 6.0
    assert float(total(x=np.array([1.0, 2.0]))) == 3.0
    for bad in ([tf.constant([[1.0]])], [tf.constant([1])], [], [tf.constant([1.0]), tf.constant(1.0)]):
        with pytest.raises(TypeError, match=r"Binding inputs to tf\.function failed"):
            total(*bad)


def test_state_and_control_flow_run_as_written():
    v = tf.Variable(1.0)

    @tf.function
    def step(x):
        if tf.reduce_sum(x) > 0.0:
            v.assign_add(1.0)
        for i in tf.range(3):
            x = x + tf.cast(i, tf.float32)
        return x * v

    with tf.GradientTape() as tape:
        y = step(tf.constant(1.0))
    assert (float(y), float(v), float(tape.gradient(y, v))) == (8.0, 2.0, 4.0)


def test_it_says_once_that_nothing_can_be_compiled(executor, caplog):
    f, g = (tf.function(lambda x: x + 1.0, jit_compile=True) for _ in range(2))
    with caplog.at_level(logging.WARNING, logger="tensorflow"):
        assert (float(f(tf.constant(1.0))), float(g(tf.constant(1.0)))) == (2.0, 2.0)
    said = [record.message for record in caplog.records if "JAX, which is not installed" in record.message]
    assert len(said) == executor.startswith("no jax")


def test_control_flow_that_nothing_converts_runs_eagerly(executor):
    @tf.function
    def f(x):
        if tf.reduce_sum(x) > 0.0:
            return x * 2.0
        return -x

    assert f(tf.constant([1.0, 2.0])).numpy().tolist() == [2.0, 4.0]
    assert f(tf.constant([-1.0, -2.0])).numpy().tolist() == [1.0, 2.0]
    assert ("runs eagerly" in f.summary()) == executor.endswith("no malt")


def test_switches_are_accepted():
    assert tf.inside_function() is False

    @tf.autograph.experimental.do_not_convert
    def same(x):
        return x

    assert same(3) == 3
    assert tf.autograph.experimental.do_not_convert()(same) is same
    assert tf.config.functions_run_eagerly() is False
    tf.config.run_functions_eagerly(True)
    try:
        assert tf.config.functions_run_eagerly() is True
    finally:
        tf.config.run_functions_eagerly(False)


@pytest.mark.parametrize("through", [lambda v: v, lambda v: v.assign_add(tf.zeros(1000))], ids=["itself", "a view"])
def test_updates_between_calls_are_not_lost(monkeypatch, through):
    monkeypatch.setattr(storage, "other_threads", lambda: 0)  # so that memory is used again, also under a test runner
    v = tf.Variable(np.zeros(1000, np.float32))

    @tf.function
    def step():
        v.assign_add(tf.ones(1000))

    for i in range(3):
        step()
        assert v.numpy()[0] == 1.5 * i + 1  # eager code has a copy now
        through(v).assign_sub(tf.fill([1000], 0.5))
        through(v).assign_add(tf.ones(1000))
        assert v.numpy()[0] == 1.5 * i + 1.5


@pytest.mark.parametrize("value", [object(), len, {1}, int, tf.float32], ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("within", [lambda v: v, lambda v: [1.0, v], lambda v: {"a": v}], ids=["alone", "list", "dict"])
def test_functions_return_tensors(value, within):
    kind = type(value).__name__
    with pytest.raises(TypeError, match=f"must return zero or more Tensors .* found return value of type {kind}"):
        tf.function(lambda x: within(value))(tf.constant(1.0))


def test_jit_compile_is_a_truth_value():
    with pytest.raises(TypeError, match=r"jit_compile must be True .* Received: 'no'"):
        tf.function(lambda x: x, jit_compile="no")


def test_concrete_functions_take_tensors_in_their_order():
    """As in TensorFlow: where a call does not have the structure of the arguments."""
    f = tf.function(lambda x, y: x + y[0] * 10.0 + y[1] * 100.0)
    one, five, six = (tf.constant(n) for n in (1.0, 5.0, 6.0))
    concrete = f.get_concrete_function(one, [one, 3.0])
    assert (
        concrete(one, [five, 3.0]) == concrete(one, five) == concrete(x=one, y=five) == concrete(one, y=five) == 351.0
    )
    assert f.get_concrete_function(one, [one, one])(one, five, six) == 651.0
    of_dict = tf.function(lambda d: d["a"] - d["b"]).get_concrete_function({"b": one, "a": one})
    assert of_dict({"a": five, "b": one}) == of_dict(five, one) == of_dict(d=five, d_1=one) == 4.0
    for wrong in (lambda: concrete(one, 5.0), lambda: concrete(one, five, six), lambda: concrete(one, z=five)):
        with pytest.raises(TypeError, match=r"Binding inputs to tf\.function failed"):
            wrong()
    with pytest.raises(TypeError, match="Can not cast"):
        concrete(one, (five, 3.0))
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected to be a float tensor but is a int32"):
        concrete(one, tf.constant(5))


def test_decorated_before_the_first_call():
    """`_decorate` is private in TensorFlow, and what Sonnet calls."""

    class Scaled:
        @tf.function
        def forward(self, x, *, factor=2.0):
            return x * factor

    def plus_one(method):
        @functools.wraps(method)
        def call(self, *args, **kwargs):
            return method(self, *args, **kwargs) + 1.0

        return call

    vars(Scaled)["forward"]._decorate(plus_one)
    scaled = Scaled()
    assert isinstance(scaled.forward, type(tf.function(plus_one)))
    assert float(scaled.forward(tf.constant(3.0))) == 7.0
    assert float(scaled.forward(tf.constant(3.0), factor=3.0)) == 10.0
    square = tf.function(lambda x: x * x)
    square(tf.constant(2.0))
    with pytest.raises(ValueError, match="cannot be decorated after they have been traced"):
        square._decorate(plus_one)


def test_arrays_are_tensors_in_functions_within_functions():
    kinds = []

    @tf.function
    def inner(x, rest=None):
        kinds.append([type(leaf).__name__ for leaf in tf.nest.flatten([x, rest])])
        return tf.zeros([])

    @tf.function
    def outer():
        inner(np.ones(2), {"a": [np.float32(2.0), 3], "b": "text"})
        return inner(True, 2.5)

    outer()
    assert kinds == [["Tensor", "Tensor", "int", "str"], ["bool", "float"]]
