"""tape.explain and the none policy: one program that a user would write for every reason a gradient can be None."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.autodiff import recording as recording_module
from gradtape._src.inspect.explain import (
    Explanation,
    Explanations,
    NoneGradientWarning,
    Reason,
    tensor_function,
    why_none,
)

LINES = pytest.mark.parametrize("lines", [None, True], ids=["plain", "lines"])


@pytest.fixture(autouse=True)
def silence():
    yield
    tf.config.set_none_policy("none")


def check(tape, target, source, reason, *, said=(), fix=(), before=True):
    """The reason before and after the tape is used up, and that gradient() gives None in between."""
    __tracebackhide__ = True  # explanations use the names of the test
    found = []
    if before:
        found.append(tape.explain(target, source))
    assert tape.gradient(target, source) is None
    found.append(tape.explain(target, source))
    for explanation in found:
        assert explanation.reason is reason, str(explanation)
        assert explanation.connected is False
        text = str(explanation)
        for word in (said,) if isinstance(said, str) else said:
            assert word in explanation.message, text
        for word in (fix,) if isinstance(fix, str) else fix:
            assert word in explanation.fix, text
        assert explanation.fix
        assert reason.value in text
    return found[-1]


# -- the source is not watched ---------------------------------------------------------------------------------------
@LINES
def test_not_watched(lines):
    x = tf.constant(3.0)
    with tf.GradientTape(lines=lines) as tape:
        y = x * x
    check(tape, y, x, Reason.NOT_WATCHED, said="x is a tensor", fix="tape.watch(x)")


@LINES
def test_not_watched_because_variables_are_not_watched_automatically(lines):
    w, b = tf.Variable(2.0, name="w"), tf.Variable(1.0, name="b")
    with tf.GradientTape(watch_accessed_variables=False, lines=lines) as tape:
        tape.watch(w)
        loss = w * 3.0 + b
    check(tape, loss, b, Reason.NOT_WATCHED, said="watch_accessed_variables=False", fix="tape.watch(b)")


def test_the_guides_list_of_what_is_watched():
    x0 = tf.Variable(3.0, name="x0")
    x1 = tf.Variable(3.0, name="x1", trainable=False)
    x2 = tf.Variable(2.0, name="x2") + 1.0
    x3 = tf.constant(3.0, name="x3")
    with tf.GradientTape() as tape:
        y = (x0**2) + (x1**2) + (x2**2)
    grads = tape.gradient(y, [x0, x1, x2, x3])
    assert [g is None for g in grads] == [False, True, True, True]
    found = tape.explain(y, [x0, x1, x2, x3])
    assert [e.reason for e in found] == [None, Reason.NOT_TRAINABLE, Reason.NOT_WATCHED, Reason.NOT_WATCHED]
    assert "1 of 4 connected: x0" in str(found)


@LINES
def test_not_trainable(lines):
    mean = tf.Variable(0.5, trainable=False, name="moving_mean")
    with tf.GradientTape(lines=lines) as tape:
        y = mean * 2.0
    check(tape, y, mean, Reason.NOT_TRAINABLE, said="trainable=False", fix="tape.watch(mean)")


@LINES
def test_watched_late(lines):
    x = tf.constant(3.0)
    with tf.GradientTape(lines=lines) as tape:
        y = x * x
        tape.watch(x)
    check(tape, y, x, Reason.WATCHED_LATE, fix="before")


@LINES
def test_watched_list_was_empty(lines):
    class Dense(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = None

        def __call__(self, x):
            if self.w is None:
                self.w = tf.Variable([[1.0], [2.0]])
            return x @ self.w

    layer = Dense()
    with tf.GradientTape(watch_accessed_variables=False, lines=lines) as tape:
        tape.watch(layer.trainable_variables)
        y = layer(tf.constant([[1.0, 2.0]]))
    check(tape, y, layer.w, Reason.WATCHED_EMPTY, said="test_explain.py", fix="build")


@LINES
def test_never_read(lines):
    used, unused = tf.Variable(1.0, name="used"), tf.Variable(2.0, name="unused")
    with tf.GradientTape(lines=lines) as tape:
        y = used * 2.0
    check(tape, y, unused, Reason.NEVER_READ, said=("No op read unused", "watched only used"), fix="inside the block")


# -- the wrong time --------------------------------------------------------------------------------------------------
@LINES
def test_the_target_was_computed_before_the_tape(lines):
    x = tf.Variable(3.0)
    y = x * x
    with tf.GradientTape(lines=lines) as tape:
        pass
    check(tape, y, x, Reason.BEFORE_TAPE, said="y was computed before", fix="into the block")


@LINES
def test_something_in_between_was_computed_before_the_tape(lines):
    x = tf.Variable([1.0, 2.0])
    features = tf.square(x)
    with tf.GradientTape(lines=lines) as tape:
        loss = tf.reduce_sum(features * 3.0)
    found = check(tape, loss, x, Reason.BEFORE_TAPE, said="features", fix="features = tf.square(x)")
    assert "features = tf.square(x)" in str(found)


@LINES
def test_the_loss_was_computed_after_the_tape(lines):
    w = tf.Variable(2.0)
    with tf.GradientTape(lines=lines) as tape:
        prediction = w * 3.0
    loss = (prediction - 1.0) ** 2
    check(tape, loss, w, Reason.AFTER_TAPE, said="after the tape's `with` block", fix="Indent")


@LINES
def test_nested_tapes_the_inner_gradient_was_taken_outside_the_outer_tape(lines):
    x = tf.Variable(3.0)
    with tf.GradientTape(lines=lines) as outer, tf.GradientTape() as inner:
        y = x**3
    dy = inner.gradient(y, x)
    found = check(
        outer, dy, x, Reason.AFTER_TAPE, said=".gradient() of another tape", fix="inside the outer tape's block"
    )
    assert "dy = inner.gradient(y, x)" in str(found)


@LINES
def test_nested_tapes_done_right(lines):
    x = tf.Variable(3.0)
    with tf.GradientTape(lines=lines) as outer:
        with tf.GradientTape(lines=lines) as inner:
            y = x**3
        dy = inner.gradient(y, x)
    assert outer.explain(dy, x).connected
    assert float(outer.gradient(dy, x)) == 18.0
    assert outer.explain(dy, x).connected
    assert inner.explain(y, x).connected


@LINES
def test_stop_recording(lines):
    x = tf.Variable(2.0)
    with tf.GradientTape(lines=lines) as tape:
        with tape.stop_recording():
            weight = x * x
        y = weight * 2.0
    check(tape, y, x, Reason.STOP_RECORDING, said="stop_recording()", fix="out of")


@LINES
def test_stop_recording_of_a_watched_tensor(lines):
    x, w = tf.constant(2.0), tf.Variable(3.0)
    with tf.GradientTape(lines=lines) as tape:
        tape.watch(x)
        with tape.stop_recording():
            weight = x * x
        y = weight * w
    check(tape, y, x, Reason.STOP_RECORDING)


@LINES
def test_the_target_was_computed_inside_stop_recording(lines):
    x = tf.Variable(2.0)
    with tf.GradientTape(lines=lines) as tape, tape.stop_recording():
        y = x * x
    check(tape, y, x, Reason.STOP_RECORDING)


@LINES
def test_paused(lines):
    x = tf.Variable(2.0)
    with tf.GradientTape(lines=lines) as tape:
        z = x + 1.0
        tape.pause()
        y = z * 2.0
        tape.resume()
        loss = y * 3.0
    check(tape, y, x, Reason.PAUSED, fix="resume")
    assert loss is not None


@LINES
def test_paused_in_between(lines):
    x, w = tf.Variable(2.0), tf.Variable(1.0)
    with tf.GradientTape(lines=lines) as tape:
        with tape.pause():
            y = x * 2.0
        loss = y * w
    check(tape, loss, x, Reason.PAUSED)


@LINES
def test_reset_forgot_the_target(lines):
    x = tf.Variable(2.0)
    with tf.GradientTape(lines=lines) as tape:
        y = x * x
        tape.reset()
    check(tape, y, x, Reason.RESET, said="reset()")


@LINES
def test_reset_forgot_the_watch(lines):
    x = tf.constant(2.0)
    with tf.GradientTape(lines=lines) as tape:
        tape.watch(x)
        y = x * x
        tape.reset()
        y = x * x
    check(tape, y, x, Reason.RESET, said="removed the watch on x", fix="watch")


# -- the wrong object ------------------------------------------------------------------------------------------------
def test_the_guide_replaced_a_variable_with_a_tensor():
    x = tf.Variable(2.0)
    for epoch in range(2):
        with tf.GradientTape() as tape:
            y = x + 1
        if epoch == 1:
            found = check(tape, y, x, Reason.REPLACED_BY_TENSOR, said="was a tf.Variable", fix="x.assign")
            assert "x = x + 1" in str(found)
        else:
            assert tape.explain(y, x).connected
        x = x + 1  # This should be `x.assign_add(1)`


def test_an_attribute_was_replaced_by_a_tensor():
    class Model:
        def __init__(self):
            self.w = tf.Variable(2.0, name="w")

    model = Model()
    for _ in range(2):
        with tf.GradientTape() as tape:
            loss = model.w * 3.0
        found = tape.explain(loss, model.w)
        gradient = tape.gradient(loss, model.w)
        if gradient is not None:
            model.w = model.w - 0.1 * gradient
    assert gradient is None
    assert found.reason is Reason.REPLACED_BY_TENSOR
    assert found.source == "model.w"


def test_weights_in_a_list_were_replaced_by_tensors():
    weights = [tf.Variable(1.0), tf.Variable(2.0)]
    for _ in range(2):
        with tf.GradientTape() as tape:
            loss = weights[0] * weights[1]
        found = tape.explain(loss, weights)
        grads = tape.gradient(loss, weights)
        if grads[0] is not None:
            weights = [w - 0.1 * g for w, g in zip(weights, grads, strict=True)]
    assert [e.reason for e in found] == [Reason.REPLACED_BY_TENSOR] * 2
    assert found[0].source == "weights[0]"


def test_a_copy_of_the_same_name():
    import copy

    w = tf.Variable(2.0, name="kernel")
    twin = copy.deepcopy(w)
    with tf.GradientTape() as tape:
        y = w * 2.0
    check(tape, y, twin, Reason.SAME_NAME, said="kernel")


def test_created_again_after_the_computation():
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    x = tf.constant(3.0)
    found = check(tape, y, x, Reason.SAME_NAME, said="created after y")
    assert "x = tf.constant(3.0)" in str(found)


# -- out of the library ----------------------------------------------------------------------------------------------
@LINES
def test_the_guide_did_calculations_outside_of_tensorflow(lines):
    x = tf.Variable([[1.0, 2.0], [3.0, 4.0]], dtype=tf.float32)
    with tf.GradientTape(lines=lines) as tape:
        x2 = x**2
        # This step is calculated with NumPy
        y = np.mean(x2, axis=0)
        y = tf.reduce_mean(y, axis=0)
    found = check(tape, y, x, Reason.LEFT_LIBRARY, said="np.mean", fix="tf.reduce_mean")
    assert "y = np.mean(x2, axis=0)" in str(found)
    assert [step.op for step in found.path] == ["pow"]


@LINES
@pytest.mark.parametrize(
    ("leave", "said"),
    [
        (lambda z: z.numpy(), ".numpy()"),
        (lambda z: float(z), "float()"),
        (lambda z: int(z), "int()"),
        (lambda z: np.asarray(z), "NumPy"),
        (lambda z: np.sin(z), "np.sin"),
    ],
    ids=["numpy", "float", "int", "asarray", "ufunc"],
)
def test_left_the_library(lines, leave, said):
    x, w = tf.Variable(2.0), tf.Variable(3.0)
    with tf.GradientTape(lines=lines) as tape:
        z = x * 2.0
        y = w * leave(z)
    found = check(tape, y, x, Reason.LEFT_LIBRARY)
    assert found.where is not None
    assert found.where[0].endswith("test_explain.py")
    if said != "np.sin":
        assert said in found.message or said == "NumPy"


def test_left_through_a_numpy_function_op():
    x = tf.Variable([2.0, 1.0])
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(tf.numpy_function(np.sort, [x], tf.float32))
    check(tape, y, x, Reason.LEFT_LIBRARY, said="numpy_function", fix="py_function")


def test_printing_a_value_is_no_reason():
    x, w = tf.Variable(2.0), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        f"{float(x * 2.0):.2f}"
        repr(x)
        y = w * w
    assert tape.explain(y, x).reason is Reason.UNRELATED


def test_numpys_functions_have_names_here():
    assert tensor_function("mean") == "tf.reduce_mean"
    assert tensor_function("tanh") == "tf.tanh"
    assert tensor_function("log1p") == "tf.math.log1p"
    assert tensor_function("no_such_function") == ""


# -- dtypes ----------------------------------------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore")
def test_the_guide_took_gradients_through_an_integer():
    x = tf.constant(10)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    check(tape, y, x, Reason.DTYPE, said="x is int32", fix="3.0 instead of 3")


def test_a_string_and_a_boolean():
    for value in ("text", True):
        x, w = tf.constant(value), tf.Variable(1.0)
        with tf.GradientTape() as tape:
            y = w * 2.0
        assert tape.explain(y, x).reason is Reason.DTYPE


def test_an_integer_target():
    x, k = tf.Variable(1.0), tf.constant(3)
    with tf.GradientTape() as tape:
        x * 2.0
        y = k * 2
    check(tape, y, x, Reason.DTYPE, said="y is int32")


@LINES
def test_cast_through_an_integer(lines):
    x = tf.Variable([1.5, 2.5])
    with tf.GradientTape(lines=lines) as tape:
        whole = tf.cast(x, tf.int32)
        y = tf.reduce_sum(tf.cast(whole, tf.float32) * 2.0)
    found = check(tape, y, x, Reason.CAST_THROUGH_DTYPE, said="int32", fix="floating")
    if lines:
        assert "whole = tf.cast(x, tf.int32)" in str(found)


# -- state -----------------------------------------------------------------------------------------------------------
@LINES
def test_the_guide_took_gradients_through_a_stateful_object(lines):
    x0 = tf.Variable(3.0)
    x1 = tf.Variable(0.0)
    with tf.GradientTape(lines=lines) as tape:
        # Update x1 = x1 + x0.
        x1.assign_add(x0)
        # The tape starts recording from x1.
        y = x1**2  # y = (x1 + x0)**2
    found = check(tape, y, x0, Reason.STATE, said="x1", fix="assign")
    assert "x1.assign_add(x0)" in str(found)


@pytest.mark.parametrize(
    "store",
    [
        lambda v, t: v.assign(t),
        lambda v, t: v.assign_sub(t),
        lambda v, t: v[0].assign(t[0]),
        lambda v, t: v.scatter_add(tf.IndexedSlices(t, [0, 1])),
        lambda v, t: v.scatter_nd_update([[0], [1]], t),
    ],
)
def test_every_way_to_store(store):
    x, v = tf.Variable([1.0, 2.0]), tf.Variable([0.0, 0.0])
    with tf.GradientTape() as tape:
        store(v, x * 2.0)
        y = tf.reduce_sum(v * v)
    check(tape, y, x, Reason.STATE)


def test_a_variable_made_of_a_result():
    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        v = tf.Variable(x * 2.0)
        y = v * v
    check(tape, y, x, Reason.STATE)


def test_a_variable_as_target():
    x, v = tf.Variable(2.0), tf.Variable(0.0)
    with tf.GradientTape() as tape:
        v.assign(x * 2.0)
    check(tape, v, x, Reason.STATE)


# -- ops -------------------------------------------------------------------------------------------------------------
@LINES
def test_stop_gradient(lines):
    x = tf.Variable(2.0)
    with tf.GradientTape(lines=lines) as tape:
        y = tf.stop_gradient(x * x) * 3.0
    check(tape, y, x, Reason.STOP_GRADIENT, fix="Remove it where you need the gradient")


@LINES
@pytest.mark.parametrize(
    ("severing", "op", "fix"),
    [
        (lambda x: tf.one_hot(tf.argmax(x), 3), "argmax", "softmax"),
        (lambda x: tf.round(x), "round", "grad_pass_through(tf.round)"),
        (lambda x: tf.floor(x), "floor", "grad_pass_through(tf.floor)"),
        (lambda x: tf.cast(x > 0.5, tf.float32), "greater", "sigmoid"),
        (lambda x: tf.cast(tf.equal(x, 0.5), tf.float32), "equal", "exp"),
        (lambda x: x // 2.0, "floor_divide", "x / y"),
        (lambda x: tf.cast(tf.argsort(x), tf.float32), "argsort", "tf.sort"),
        (lambda x: tf.cast(tf.math.top_k(x, 3).indices, tf.float32), "top_k", "Use the values"),
    ],
    ids=["argmax", "round", "floor", "greater", "equal", "floordiv", "argsort", "top_k"],
)
def test_an_op_without_a_derivative(lines, severing, op, fix):
    x, w = tf.Variable([0.1, 0.9, 0.3]), tf.Variable([1.0, 2.0, 3.0])
    with tf.GradientTape(lines=lines) as tape:
        y = tf.reduce_sum(w * severing(x * 1.0))
    found = check(tape, y, x, Reason.NON_DIFFERENTIABLE_OP, said=op, fix=fix)
    assert [step.op for step in found.path][:2] == ["multiply", op]


def test_an_input_without_a_derivative():
    x = tf.Variable([0.1, 0.9])
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(tf.where(x > 0.5, 1.0, 0.0))
    check(tape, y, x, Reason.NON_DIFFERENTIABLE_OP, said="greater", fix="sigmoid")
    a, x = tf.Variable(1.0), tf.Variable(2.0)
    with tf.GradientTape(persistent=True) as tape:
        y = tf.math.polygamma(a, x)
    check(tape, y, a, Reason.NON_DIFFERENTIABLE_OP, said="with respect to its x")


def test_every_op_without_a_derivative_has_advice():
    from gradtape._src.core.primitive import registry

    silent = {"bitwise_and", "bitwise_or", "bitwise_xor", "invert", "shift_left", "shift_right", "isnan", "isinf",
              "isfinite", "shuffle_rows", "discrete_cast", "stop_gradient"}  # fmt: skip
    assert {name for name, op in registry.items() if not op.differentiable and not op.instead} <= silent


@pytest.mark.parametrize("persistent", [False, True])
def test_a_custom_gradient_that_returns_none(persistent):
    @tf.custom_gradient
    def opaque(x):
        return x * 2.0, lambda upstream: None

    x = tf.Variable(2.0)
    with tf.GradientTape(persistent=persistent) as tape:
        y = opaque(x * 1.0) + 1.0
    assert tape.gradient(y, x) is None
    found = tape.explain(y, x)
    assert found.reason is Reason.CUSTOM_GRADIENT
    assert [step.op for step in found.path] == ["multiply", "custom_gradient"]


def test_zeros_that_were_asked_for_are_explained_too():
    x, w = tf.Variable(2.0), tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = tf.round(x) * w
    assert float(tape.gradient(y, x, unconnected_gradients="zero")) == 0.0
    assert tape.explain(y, x).reason is Reason.NON_DIFFERENTIABLE_OP


@LINES
def test_the_guide_only_a_branch_depended_on_it(lines):
    x = tf.constant(1.0)
    v0 = tf.Variable(2.0)
    v1 = tf.Variable(2.0)
    with tf.GradientTape(persistent=True, lines=lines) as tape:
        tape.watch(x)
        if x > 0.0:  # noqa: SIM108 - the guide's program
            result = v0
        else:
            result = v1**2
    assert float(tape.gradient(result, v0)) == 1.0
    assert tape.gradient(result, v1) is None
    assert tape.explain(result, v1).reason is Reason.NEVER_READ
    found = check(
        tape, result, x, Reason.BRANCH_ONLY, said="only determined which branch runs at test_explain.py", fix="sigmoid"
    )
    assert [step.op for step in found.path] == ["greater"]
    assert "if x > 0.0" in str(found)


@LINES
def test_a_branch_with_a_computed_result(lines):
    x, w = tf.Variable(1.0), tf.Variable(3.0)
    with tf.GradientTape(lines=lines) as tape:
        y = tf.cond(x > 0.0, lambda: w * 2.0, lambda: w * 3.0)
    check(tape, y, x, Reason.BRANCH_ONLY)


@LINES
def test_unrelated(lines):
    x, w = tf.Variable(1.0), tf.Variable(3.0)
    with tf.GradientTape(lines=lines) as tape:
        x * 2.0
        y = w * w
    check(tape, y, x, Reason.UNRELATED, said="1 op used x, but not to compute y", fix="unconnected_gradients='zero'")


def test_watched_and_never_used():
    x, w = tf.constant(1.0), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = w * w
    check(tape, y, x, Reason.UNRELATED, said="no recorded op used it")


# -- threads, and tapes that are gone --------------------------------------------------------------------------------
@LINES
def test_computed_in_another_thread(lines):
    w = tf.Variable(2.0, name="w")
    with tf.GradientTape(lines=lines) as tape:
        with ThreadPoolExecutor(1, thread_name_prefix="worker") as pool:
            losses = list(pool.map(lambda x: w * x, [1.0, 2.0]))
        loss = tf.add_n(losses)
    check(tape, loss, w, Reason.OTHER_THREAD, said="worker", fix="copy_context")


def test_watched_in_another_thread():
    x = tf.constant(2.0)
    results = []
    with tf.GradientTape() as tape:

        def work():
            tape.watch(x)
            results.append(x * x)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        y = results[0] * 2.0
    check(tape, y, x, Reason.OTHER_THREAD)


def test_a_task_that_was_started_before():
    w = tf.Variable(2.0)

    async def main():
        ready, done = asyncio.Event(), []

        async def work():
            await ready.wait()
            done.append(w * 3.0)

        task = asyncio.create_task(work())
        with tf.GradientTape() as tape:
            ready.set()
            await task
            loss = done[0] * 1.0
        return tape, loss

    tape, loss = asyncio.run(main())
    found = tape.explain(loss, w)
    assert found.reason is Reason.STOP_RECORDING
    assert "task" in found.message


def test_used_up_by_another_question():
    w = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        a = w * 2.0
        b = w * 3.0
    tape.gradient(a, w)
    with pytest.raises(RuntimeError, match="can only be used to compute one set"):
        tape.gradient(b, w)
    found = tape.explain(b, w)
    assert found.connected is True
    assert found.reason is Reason.USED_UP
    assert "persistent=True" in found.fix
    assert "tape.gradient(a, w)" in str(found)


def test_used_up_and_not_known_any_more():
    w, b = tf.Variable(2.0), tf.Variable(1.0)
    with tf.GradientTape() as tape:
        loss = w * 3.0 + b
    tape.gradient(loss, w)
    found = tape.explain(loss, b)
    assert found.connected is None
    assert found.reason is Reason.USED_UP


def test_never_entered():
    x = tf.Variable(1.0)
    found = tf.GradientTape().explain(x * 2.0, x)
    assert found.reason is Reason.NEVER_ENTERED


@LINES
def test_swapped_arguments(lines):
    x = tf.Variable(3.0)
    with tf.GradientTape(lines=lines) as tape:
        y = tf.exp(x * x)
    check(tape, x, y, Reason.SWAPPED, said="y was computed from x", fix=("Did you swap", "tape.gradient(y, x)"))


def test_an_earlier_result_is_not_called_swapped():
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = x * x
        z = tf.exp(y)
    check(tape, y, z, Reason.UNRELATED)


class _Model:
    def __init__(self):
        self.w = tf.Variable([1.0, 2.0])

    def predict(self, x):
        return (self.w * x).numpy()


@LINES
def test_predict_returns_arrays(lines):
    model = _Model()
    w = model.w
    with tf.GradientTape(lines=lines) as tape:
        scores = model.predict(3.0)
        loss = tf.reduce_sum(tf.constant(scores) ** 2)
    found = check(tape, loss, w, Reason.LEFT_LIBRARY, said="model.predict at test_explain.py", fix="model(x)")
    assert found.where is not None


@LINES
def test_a_result_of_predict_that_was_overwritten(lines):
    x, model = tf.constant(3.0), _Model()
    y = model.predict(x)
    with tf.GradientTape(lines=lines) as tape:
        y = x * 2.0
    check(tape, y, x, Reason.NOT_WATCHED, said="x", fix="tape.watch(x)")


def test_why_none_names_the_last_tape():
    w, b = tf.Variable(1.0, name="w"), tf.Variable(2.0, name="b", trainable=False)
    with tf.GradientTape() as tape:
        y = tf.constant(3.0) * 2.0
    assert tape.gradient(y, [w, b]) == [None, None]
    text = why_none([w, b], most=1)
    assert "No op read w" in text
    assert "and 1 more" in text
    assert why_none([tf.Variable(1.0)], most=1) == ""


def test_every_reason_has_a_test():
    names = ("test_explain.py", "test_explain_programs.py")
    source = "".join(Path(__file__).with_name(name).read_text("utf-8") for name in names)
    assert [r.name for r in Reason if f"Reason.{r.name}" not in source] == []


# -- connected -------------------------------------------------------------------------------------------------------
def test_the_path():
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        y = tf.reduce_sum(tf.tanh(x * 3.0))
    found = tape.explain(y, x)
    assert found.connected is True
    assert found.reason is None
    assert [(step.op, step.shape) for step in found.path] == [("multiply", (2,)), ("tanh", (2,)), ("reduce_sum", ())]
    assert "path: x → multiply (2,) → tanh (2,) → reduce_sum ()" in str(found)
    assert float(tf.reduce_sum(tape.gradient(y, x))) != 0.0  # asking took nothing away


def test_the_path_with_lines():
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape(lines=True) as tape:
        z = x * 3.0
        y = tf.reduce_sum(tf.tanh(z))
    assert tape.gradient(y, x) is not None
    text = str(tape.explain(y, x))  # also when the tape is used up
    assert "z = x * 3.0" in text
    assert "y = tf.reduce_sum(tf.tanh(z))" in text
    assert "test_explain.py:" in text


def test_a_target_with_axes_is_summed():
    x = tf.Variable([1.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        y = x * x
    assert any("y has shape (3,): gradient() differentiates the sum" in note for note in tape.explain(y, x).notes)


def test_several_targets():
    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y0, y1 = x**2, 1.0 / x
    found = tape.explain({"y0": y0, "y1": y1}, x)
    assert found.connected
    assert any("2 targets" in note for note in found.notes)


def test_the_target_itself():
    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        x * 1.0
    assert tape.explain(x, x).connected


def test_a_long_path_is_shortened():
    x = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = x
        for _ in range(100):
            y = tf.sin(y)
    found = tape.explain(y, x)
    assert len(found.path) == 100
    assert "… 89 more ops …" in str(found)
    assert len(str(found)) < 500


def test_after_release_a_connected_source_is_connected():
    x, w = tf.Variable(2.0), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = x * w
    tape.gradient(y, [x, w])
    assert [e.connected for e in tape.explain(y, [x, w])] == [True, True]
    assert "used up at test_explain.py:" in str(tape.explain(y, x))


def test_explaining_never_uses_the_tape_up():
    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = x * x
        assert tape.explain(y, x).connected  # while it is recording, too
    for _ in range(3):
        assert tape.explain(y, x).connected
    assert float(tape.gradient(y, x)) == 4.0


def test_sources_in_a_structure():
    params = {"w": tf.Variable(2.0), "frozen": tf.Variable(1.0, trainable=False)}
    with tf.GradientTape() as tape:
        loss = params["w"] * params["frozen"]
    found = tape.explain(loss, params)
    assert isinstance(found, Explanations)
    assert len(found) == 2
    assert found["w"].connected
    assert found["frozen"].reason is Reason.NOT_TRAINABLE
    assert found["frozen"].source == "params['frozen']"
    assert [e.reason for e in found.missing] == [Reason.NOT_TRAINABLE]


def test_what_is_no_tensor_is_refused():
    with tf.GradientTape() as tape:
        y = tf.constant(1.0)
    with pytest.raises(TypeError, match="Plain numbers and arrays have no history"):
        tape.explain(y, 3.0)


# -- how it looks ----------------------------------------------------------------------------------------------------
def test_the_text_reads_well():
    x = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape() as tape:
        x2 = x**2
        y = np.mean(x2)
    text = str(tape.explain(tf.constant(y), x))
    lines = text.splitlines()
    assert lines[0] == "x: no gradient: computed after the tape stopped recording"
    with tf.GradientTape() as tape:
        x2 = x**2
        y = tf.constant(np.mean(x2))
    lines = str(tape.explain(y, x)).splitlines()
    assert lines[0] == "x: no gradient: the value left the library"
    assert lines[1] == "  path: x → pow (2, 2)"
    assert lines[2].startswith("  why:  The value left the library through np.mean at test_explain.py:")
    assert any(line.startswith("  line: test_explain.py:") for line in lines)
    assert lines[-1] == "  fix:  Use tf.reduce_mean instead of np.mean: tapes record it."
    assert max(map(len, lines)) <= 100
    assert repr(tape.explain(y, x)) == str(tape.explain(y, x))


def test_html_is_escaped():
    weird = {"<b>": tf.constant(1.0)}
    with tf.GradientTape() as tape:
        y = tf.constant(2.0) * 1.0
    page = tape.explain(y, weird)._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>'" not in page
    assert page.count("<div") == page.count("</div>") == 1
    assert "fix" in page


def test_the_names_of_variables_are_used():
    def loss_of(model):
        with tf.GradientTape() as tape:
            loss = model[0] * 2.0
        return tape, loss

    model = [tf.Variable(1.0, name="kernel"), tf.Variable(1.0, name="bias")]
    tape, loss = loss_of(model)
    assert tape.explain(loss, model)[1].source == "model[1] ('bias')"


# -- the policy ------------------------------------------------------------------------------------------------------
def none_of(method="gradient", **options):
    x, w = tf.constant([1.0, 2.0]), tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = x * w
    return getattr(tape, method)(y, [w, x], **options)


def test_by_default_nothing_is_said():
    assert tf.config.get_none_policy() == "none"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert none_of()[1] is None


@pytest.mark.parametrize("method", ["gradient", "jacobian", "batch_gradient"])
def test_warn(method):
    tf.config.set_none_policy("warn")
    with pytest.warns(NoneGradientWarning) as caught:
        assert none_of(method)[1] is None
    (warning,) = caught
    text = str(warning.message)
    assert text.startswith(f"GradientTape.{method}: x: no gradient: the tape does not watch it.")
    assert "tape.watch(x)" in text
    assert "\n" not in text
    assert warning.filename == __file__
    with open(__file__, encoding="utf-8") as file:
        assert "getattr(tape, method)" in file.read().splitlines()[warning.lineno - 1]


@pytest.mark.parametrize("method", ["gradient", "jacobian", "batch_gradient"])
def test_raise(method):
    tf.config.set_none_policy("raise")
    with pytest.raises(ValueError, match="does not watch it"):
        none_of(method)


@pytest.mark.parametrize("policy", ["warn", "raise"])
def test_zeros_are_no_surprise(policy):
    tf.config.set_none_policy(policy)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for method in ("gradient", "jacobian", "batch_gradient"):
            assert none_of(method, unconnected_gradients="zero")[1] is not None


def test_an_integer_source_is_a_surprise():
    tf.config.set_none_policy("raise")
    x, k = tf.Variable(1.0), tf.constant(2)
    with tf.GradientTape() as tape:
        y = x * 2.0
    with pytest.raises(ValueError, match="k is int32"):
        tape.gradient(y, [x, k])


def test_the_policy_notes_lines():
    tf.config.set_none_policy("warn")
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        rounded = tf.round(x)
        y = tf.reduce_sum(rounded * 2.0)
    with pytest.warns(NoneGradientWarning, match="an op without a derivative"):
        tape.gradient(y, x)
    assert "rounded = tf.round(x)" in str(tape.explain(y, x))


def test_the_librarys_own_questions_are_quiet():
    tf.config.set_none_policy("raise")
    x, unused = tf.Variable(2.0), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = tf.recompute_grad(lambda a, b: a * a)(x, unused)
    assert [float(g) for g in tape.gradient(y, [x, unused])] == [4.0, 0.0]  # as in TensorFlow: zeros
    with tf.GradientTape() as tape:
        y = x**3 + unused
    assert float(tape.hessian(y, [x, unused])[0][0]) == 12.0


def test_an_unknown_policy():
    with pytest.raises(ValueError, match="Unknown none policy: 'loud'"):
        tf.config.set_none_policy("loud")


def test_results_are_the_same_under_every_policy():
    def step():
        x = tf.Variable([1.0, 2.0])
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                y = tf.reduce_sum(tf.sin(x) * x)
                with inner.stop_recording():
                    scale = x * 2.0
                y = y * tf.reduce_sum(scale)
            g = inner.gradient(y, x)
        return outer.jacobian(g, x).numpy()

    plain = step()
    tf.config.set_none_policy("warn")
    np.testing.assert_array_equal(step(), plain)


# -- what it costs ---------------------------------------------------------------------------------------------------
def test_a_plain_tape_records_with_the_lists_own_append():
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        recording = tape._recording
        for _ in range(100):
            y = tf.tanh(x * 2.0)
        assert recording.append == recording.records.append
        assert recording.events == []
        assert tape._op_logger is None
        assert len(tape._log) == 1
    assert tape.options == {}
    tape.gradient(y, x)
    assert [event[0] for event in tape._log] == ["start", "exit"]


def test_the_summary_holds_no_arrays_and_is_bounded(monkeypatch):
    monkeypatch.setattr(recording_module, "LIMIT", 100)
    x, w = tf.Variable(2.0), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        for _ in range(500):
            tf.round(x)
            float(x)
        for _ in range(500):
            x * 1.0
        y = w * w
    assert tape.gradient(y, x) is None
    summary = tape._summary
    assert len(summary.unreached) == 100
    assert summary.records == []
    assert len(summary.events) == 100
    assert len(summary.tracked) <= 100
    assert not [o for o in gc.get_referents(*summary.unreached) if isinstance(o, tf.Tensor)]
    assert tape.explain(y, x).connected is False


def test_the_summary_keeps_no_tensor_alive():
    import weakref

    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        dead_end = tf.round(x * 2.0)
        unused = tf.exp(x)
        y = tf.reduce_sum(x * x)
    alive = [weakref.ref(t) for t in (dead_end, unused, y)]
    tape.gradient(y, x)
    del dead_end, unused, y
    assert [ref() for ref in alive] == [None] * 3


def test_explanations_hold_no_tensors():
    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = tf.round(x)
    found = tape.explain(y, x)
    assert isinstance(found, Explanation)
    assert not [o for o in gc.get_referents(found.__dict__) if isinstance(o, (tf.Tensor, tf.Variable))]


# -- devices ---------------------------------------------------------------------------------------------------------
def test_devices():
    (cpu,) = tf.config.list_physical_devices("CPU")
    assert cpu.name == "/physical_device:CPU:0"
    assert tf.config.list_physical_devices() == [cpu]
    assert tf.config.list_physical_devices("GPU") == []
    assert tf.config.experimental.list_physical_devices("GPU") == []
    assert tf.config.list_logical_devices()[0].name == "/device:CPU:0"
    assert tf.config.get_visible_devices() == [cpu]
    tf.config.set_visible_devices([], "GPU")
    tf.config.set_visible_devices(cpu)
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
    tf.config.experimental.set_memory_growth(cpu, True)
    assert tf.config.experimental.get_memory_growth(cpu)
    with pytest.raises(ValueError, match="cannot be made invisible"):
        tf.config.set_visible_devices([])
    with pytest.raises(ValueError, match="Unrecognized device"):
        tf.config.experimental.set_memory_growth("GPU:0", True)
    assert tf.compat.v1.config is tf.config


# -- many sources ----------------------------------------------------------------------------------------------------
def test_sources_with_one_reason_are_explained_together():
    variables = {f"v{i}": tf.Variable(1.0, name=f"v{i}") for i in range(12)}
    with tf.GradientTape() as tape:
        loss = tf.constant(float(tf.add_n([v * 2.0 for v in variables.values()])))
    found = tape.explain(loss, variables)
    assert len(found.missing) == 12
    text = str(found)
    assert text.count("why:") == text.count("fix:") == found._repr_html_().count(">fix<") == 1
    assert "v0" in text
    assert "and 4 more: no gradient: the value left the library" in text


def test_different_reasons_are_explained_one_by_one():
    a, b = tf.Variable(1.0, name="a"), tf.Variable(1.0, name="b")
    with tf.GradientTape() as tape:
        loss = tf.stop_gradient(a) * float(b)
    found = tape.explain(loss, [a, b])
    assert str(found).count("why:") == 2


def test_a_policy_reports_one_reason_once():
    variables = [tf.Variable(1.0) for _ in range(3)]
    with tf.GradientTape(persistent=True) as tape:
        loss = tf.constant(float(tf.add_n([v * 2.0 for v in variables])))
    tf.config.set_none_policy("warn")
    try:
        with pytest.warns(UserWarning, match="the value left the library") as said:
            tape.gradient(loss, variables)
    finally:
        tf.config.set_none_policy("none")
    assert len(said) == 1


def test_a_variable_of_keras_has_one_explanation():
    keras = pytest.importorskip("keras") and tf.keras
    layer = keras.layers.Dense(1)
    layer.build((None, 2))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(tf.ones([1, 2])))
    found = tape.explain(loss, layer.kernel)
    assert found.connected
    assert [step.op for step in found.path] == ["matmul", "add", "reduce_sum"]
