"""tape.explain in programs as people write them: with models, functions, helpers and slices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.inspect.explain import Explanation, Reason

KINDS = pytest.mark.parametrize("options", [{}, {"lines": True}, {"persistent": True}], ids=str)


def explained(tape: Any, target: Any, source: Any) -> list[Explanation]:
    """The explanations before and after the gradient, which is None."""
    __tracebackhide__ = True  # explanations use the names of the test
    before = tape.explain(target, source)
    assert tape.gradient(target, source) is None
    return [before, tape.explain(target, source)]


# -- inside functions --------------------------------------------------------------------------------------------------
def _argmax(w: Any, x: Any) -> Any:
    return tf.cast(tf.argmax(w * x), tf.float32)


def _stopped(w: Any, x: Any) -> Any:
    return tf.stop_gradient(w * x) + x


def _rounded(w: Any, x: Any) -> Any:
    return tf.cast(tf.cast(w * x, tf.int32), tf.float32)


@KINDS
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    ("compute", "reason", "op"),
    [
        (_argmax, Reason.NON_DIFFERENTIABLE_OP, "argmax"),
        (_stopped, Reason.STOP_GRADIENT, "stop_gradient"),
        (_rounded, Reason.CAST_THROUGH_DTYPE, "cast"),
    ],
)
def test_the_derivative_ends_inside_a_function(options, nested, compute, reason, op):
    w, b = tf.Variable([2.0, 3.0]), tf.Variable(1.0)
    x = tf.constant([1.0, 2.0])

    @tf.function
    def score(x):
        return compute(w, x)

    @tf.function
    def scaled(x):
        return score(x) * b

    f = scaled if nested else score
    with tf.GradientTape(**options) as tape:
        loss = tf.reduce_sum(f(x) * 2.0)
    for why in explained(tape, loss, w):
        assert why.reason is reason
        assert why.message.startswith(f"In the function '{'scaled' if nested else 'score'}'")
        assert [step.op for step in why.path][-2:] == ["multiply", op]


@KINDS
def test_a_function_that_uses_it_is_connected(options):
    w, x = tf.Variable([2.0, 3.0]), tf.constant([1.0, 2.0])

    @tf.function
    def f(x):
        return tf.stop_gradient(w) * x * w

    with tf.GradientTape(**options) as tape:
        y = f(x)
    assert tape.explain(y, w).connected is True
    assert tape.gradient(y, w) is not None
    assert tape.explain(y, w).connected is True


def test_the_prediction_of_a_function_was_computed_before_the_tape():
    w = tf.Variable(2.0)

    @tf.function
    def predict(x):
        return tf.sin(w * x)

    p = predict(tf.constant(3.0))
    with tf.GradientTape() as tape:
        loss = (p - 1.0) ** 2
    for why in explained(tape, loss, w):
        assert why.reason is Reason.BEFORE_TAPE
        assert "Move `p = predict(tf.constant(3.0))` into the block" in why.fix


class _Net(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = tf.Variable(2.0)

    def __call__(self, x: Any) -> Any:
        return self.w * x


def test_the_prediction_of_a_module_was_computed_before_the_tape():
    net, other = _Net(), _Net()
    p = net(tf.constant(3.0))
    with tf.GradientTape() as tape:
        loss = (p - 1.0) ** 2
    (w,) = net.trainable_variables
    assert "Move `p = net(tf.constant(3.0))` into the block" in tape.explain(loss, w).fix
    assert tape.explain(loss, other.w).reason is Reason.NEVER_READ


# -- watched, and not used ---------------------------------------------------------------------------------------------
@KINDS
def test_inputs_were_joined_before_the_tape(options):
    x, t = tf.ones([4, 1]), tf.zeros([4, 1])
    inputs = tf.concat([x, t], 1)
    with tf.GradientTape(**options) as tape:
        tape.watch([x, t])
        u = tf.tanh(inputs)
    for why in explained(tape, u, x):
        assert why.reason is Reason.BEFORE_TAPE
        assert "inputs = tf.concat" in why.fix


@KINDS
def test_watched_between_the_ops(options):
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape(**options) as tape:
        squared = x**2
        tape.watch(x)
        total = tf.reduce_sum(squared)
    for why in explained(tape, total, x):
        assert why.reason is Reason.WATCHED_LATE


@KINDS
def test_a_slice_of_what_was_used(options):
    x = tf.ones([4, 2])
    with tf.GradientTape(**options) as tape:
        tape.watch(x)
        first = x[:, 0:1]
        u = tf.tanh(x)
    for why in explained(tape, u, first):
        assert why.reason is Reason.UNRELATED
        assert "No recorded op used first, which is the result of an op itself" in why.message
        assert "slice the gradient" in why.fix


def test_a_slice_that_was_taken_afterwards():
    x = tf.ones([4, 2])
    with tf.GradientTape() as tape:
        tape.watch(x)
        u = tf.tanh(x)
    first = x[:, 0]
    for why in explained(tape, u, first):
        assert why.reason is Reason.CREATED_LATE
        assert why.fix == "Slice the gradient instead: tape.gradient(u, x)[:, 0]."
        assert "x[:, 0]" in str(why)


@pytest.mark.parametrize("options", [{"lines": True}, {"persistent": True}], ids=str)
def test_activations_of_another_pass(options):
    w, v, x = tf.Variable([[2.0]]), tf.Variable([[3.0]]), tf.ones([1, 1])
    with tf.GradientTape(**options) as tape:
        features = tf.nn.relu(x @ w)
        score = tf.nn.relu(x @ w) @ v
    for why in explained(tape, score, features):
        assert why.reason is Reason.COMPUTED_AGAIN
        assert "one call" in why.fix


def test_activations_of_another_pass_whose_records_are_freed():
    w, v, x = tf.Variable([[2.0]]), tf.Variable([[3.0]]), tf.ones([1, 1])
    with tf.GradientTape() as tape:
        features = tf.nn.relu(x @ w)
        score = tf.nn.relu(x @ w) @ v
    before, after = explained(tape, score, features)
    assert before.reason is Reason.COMPUTED_AGAIN
    assert "calling a model again" in after.fix


@KINDS
def test_the_derivative_of_a_linear_function(options):
    x = tf.Variable(3.0)
    with tf.GradientTape(**options) as outer:
        with tf.GradientTape() as inner:
            y = x * 4.0
        slope = inner.gradient(y, x)
        penalty = (slope - 1.0) ** 2
    for target in (slope, penalty):
        with_value = outer.explain(target, x)
        assert with_value.reason is Reason.CONSTANT_DERIVATIVE
        assert "linear" in with_value.message
    assert outer.gradient(penalty, x) is None
    assert outer.explain(penalty, x).reason is Reason.CONSTANT_DERIVATIVE


# -- state -------------------------------------------------------------------------------------------------------------
@KINDS
def test_a_recurrence_through_a_variable_that_is_not_trainable(options):
    state, w = tf.Variable(0.0, trainable=False), tf.Variable(0.5)
    with tf.GradientTape(**options) as tape:
        for _ in range(3):
            state.assign(tf.tanh(w + state))
        loss = state * 2.0
    for why in explained(tape, loss, w):
        assert why.reason is Reason.STATE
        assert "stored in state" in why.message


@KINDS
def test_a_loss_in_a_metric_of_keras(options):
    keras = pytest.importorskip("keras") and tf.keras
    w, metric = tf.Variable([1.0, 2.0]), keras.metrics.Mean()
    with tf.GradientTape(**options) as tape:
        for _ in range(2):
            metric.update_state(tf.reduce_sum(w * 2.0))
        loss = metric.result()
    for why in explained(tape, loss, w):
        assert why.reason is Reason.STATE
        assert why.where is not None
        assert why.where[0] == __file__


# -- models ------------------------------------------------------------------------------------------------------------
def _model(keras: Any, name: str) -> Any:
    layers = [keras.layers.Dense(2, name="first"), keras.layers.Dense(1, name="second")]
    return keras.Sequential([keras.Input((2,)), *layers], name=name)


def test_the_variables_of_another_model():
    keras = pytest.importorskip("keras") and tf.keras
    online, target = _model(keras, "online"), _model(keras, "target")
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(target(tf.ones([3, 2])))
    found = tape.explain(loss, online.trainable_variables)
    assert {why.reason for why in found} == {Reason.NEVER_READ}
    text = str(found)
    assert text.count("no gradient") == 1  # all of them together
    assert "'online' was not called; the tape watched target/first/kernel" in " ".join(text.split())


def test_a_layer_that_was_not_called():
    keras = pytest.importorskip("keras") and tf.keras

    class Model(keras.Model):
        def __init__(self) -> None:
            super().__init__(name="net")
            self.body, self.aux = keras.layers.Dense(2, name="body"), keras.layers.Dense(2, name="aux")

        def build(self, shape: Any) -> None:
            self.body.build(shape)
            self.aux.build(shape)

        def call(self, x: Any) -> Any:
            return self.body(x)

    net = Model()
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(net(tf.ones([1, 2])))
    text = " ".join(str(tape.explain(loss, net.trainable_variables)).split())
    assert "net/aux/kernel, net/aux/bias: no gradient" in text
    assert "'net/aux' was not called" in text
    gradients = tape.gradient(loss, net.trainable_variables)
    with pytest.warns(UserWarning, match="'net/aux' was not called"):
        keras.optimizers.SGD().apply_gradients(zip(gradients, net.trainable_variables, strict=True))


def test_the_variables_of_a_layer_that_was_not_built():
    keras = pytest.importorskip("keras") and tf.keras
    dense = keras.layers.Dense(3)
    variables = dense.trainable_variables
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(dense(tf.ones([1, 2])))
    assert "no variables before it is built" in str(tape.explain(loss, variables))
    assert "no variables before it is built" in tape.explain(loss, variables)._repr_html_()
    with pytest.raises(ValueError, match="no variables before it is built"):
        keras.optimizers.SGD().apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))


def test_swapped_arguments_with_the_variables_of_a_model():
    keras = pytest.importorskip("keras") and tf.keras
    model = _model(keras, "net")
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(tf.ones([1, 2])))
    why = tape.explain(model.trainable_variables, loss)
    assert why.reason is Reason.SWAPPED
    assert "tape.gradient(loss, …)" in why.fix


# -- arguments ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda model, loss: (loss, model), "model.trainable_variables"),
        (lambda model, loss: (loss, model.get_weights()), "instead of the copies of model.get_weights()"),
        (lambda model, loss: (loss, model.inputs[0]), "It is symbolic"),
        (lambda model, loss: (loss, [None]), "such as the bias of a layer without one"),
        (lambda model, loss: (loss, ["w"]), "Make it a tf.Variable"),
        (lambda model, loss: (float(loss), model.trainable_variables), "before float(), .numpy() or NumPy's functions"),
        (lambda model, loss: (lambda: loss, model.trainable_variables), "Call it inside the tape's `with` block"),
    ],
)
def test_what_has_no_history(make, advice):
    keras = pytest.importorskip("keras") and tf.keras
    model = _model(keras, "net")
    with tf.GradientTape(persistent=True) as tape:
        loss = tf.reduce_sum(model(tf.ones([1, 2])))
    target, sources = make(model, loss)
    for method in (tape.gradient, tape.explain):
        with pytest.raises(TypeError, match="should contain Tensors or Variables") as caught:
            method(target, sources)
        assert advice in str(caught.value)


def test_integers_together():
    n, m = tf.Variable(3), tf.Variable([1, 2])
    with tf.GradientTape() as tape:
        y = tf.cast(n, tf.float32) * tf.reduce_sum(tf.cast(m, tf.float32))
    text = str(tape.explain(y, [n, m]))
    assert "n, m: no gradient" in text
    assert "n = tf.cast(n, tf.float32)" in tape.explain(y, n).fix


def test_a_persistent_tape_around_a_function_with_a_variable_without_a_gradient():
    w, b, c = tf.Variable([2.0, 3.0]), tf.Variable(1.0), tf.constant([1.0, 2.0])

    @tf.function
    def f(x: Any) -> Any:
        return tf.stop_gradient(w * c) * x * b * c

    with tf.GradientTape(persistent=True) as tape:
        tape.watch(c)
        y = f(tf.constant([3.0, 4.0]))
    assert tape.gradient(y, w) is None  # as in TensorFlow, after the block as well
    np.testing.assert_allclose(tape.gradient(y, b), 54.0)


# -- where a derivative ends -------------------------------------------------------------------------------------------
@KINDS
@pytest.mark.parametrize(
    "compute",
    [lambda w: w // 2.0, tf.floor, tf.math.rint, lambda w: tf.cast(tf.argsort(w), tf.float32)],
    ids=["floordiv", "floor", "rint", "argsort"],
)
def test_the_target_is_the_result_of_an_op_without_a_derivative(options, compute):
    w = tf.Variable([2.0, 3.0])
    with tf.GradientTape(**options) as tape:
        y = compute(w)
    for why in explained(tape, y, w):
        assert why.reason is Reason.NON_DIFFERENTIABLE_OP


def test_a_variable_that_only_a_dataset_reads():
    scale, w = tf.Variable(2.0), tf.Variable([1.0, 1.0])
    batches = tf.data.Dataset.from_tensor_slices(tf.ones([6, 2])).map(lambda x: x * scale).batch(3)
    with tf.GradientTape() as tape:
        loss = tf.add_n([tf.reduce_sum(batch * w) for batch in batches])
    for why in explained(tape, loss, scale):
        assert "in a function of a dataset" in why.message
