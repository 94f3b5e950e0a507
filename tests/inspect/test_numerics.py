"""NaN and Inf: who made them, why, and how a zero stays a zero."""

from __future__ import annotations

import contextlib
import gc
import inspect
import pickle
import threading
import traceback
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.core import observe
from gradtape._src.core.tape import active_recorders
from gradtape._src.errors import NumericsError
from gradtape._src.inspect.causes import Cause, operand
from gradtape._src.inspect.numerics import Checker, Origin
from gradtape._src.inspect.op_names import shown_op
from gradtape._src.variable import peek

Invalid = tf.errors.InvalidArgumentError
INF, NAN = float("inf"), float("nan")


def line() -> int:
    """The line that asks."""
    return inspect.currentframe().f_back.f_lineno  # type: ignore[union-attr]


def f16(*values: float) -> Any:
    return tf.constant(values, tf.float16)


# -- forward: every cause, in a program that somebody could have written ---------------------------------------------
def probability_of_nothing(x):
    return -tf.reduce_sum(x * tf.math.log(x))


def geometric_mean(x):
    return tf.exp(tf.reduce_mean(tf.math.log(x - 1.0)))


def standard_score(x):
    return (x - tf.reduce_mean(x)) / tf.math.reduce_std(x)


def inverse_distance(x):
    return tf.reduce_sum(1.0 / x)


def boltzmann(x):
    weights = tf.exp(x * 100.0)
    return weights / tf.reduce_sum(weights)


def softmax_of_a_masked_row(x):
    return tf.nn.softmax(tf.where(tf.constant([False, False]), x, -np.inf) + tf.constant([-INF, -INF]))


def masked_by_zero(x):
    return tf.constant([0.0, 1.0]) * tf.constant([INF, 1.0]) + x


FORWARD = [
    (probability_of_nothing, [0.0, 1.0], "log", Cause.LOG_OF_ZERO),
    (geometric_mean, [0.5, 3.0], "log", Cause.OUTSIDE_DOMAIN),
    (lambda x: tf.sqrt(x), [-1.0, 1.0], "sqrt", Cause.OUTSIDE_DOMAIN),
    (lambda x: x**0.5, [-1.0, 1.0], "pow", Cause.OUTSIDE_DOMAIN),
    (lambda x: tf.acos(x), [1.0001, 0.0], "acos", Cause.OUTSIDE_DOMAIN),
    (lambda x: tf.math.log1p(x), [-1.0, 0.0], "log1p", Cause.LOG_OF_ZERO),
    (standard_score, [3.0, 3.0], "divide", Cause.ZERO_OVER_ZERO),
    (lambda x: tf.reduce_mean(tf.boolean_mask(x, x > 100.0)), [1.0, 2.0], "reduce_mean", Cause.ZERO_OVER_ZERO),
    (inverse_distance, [0.0, 2.0], "divide", Cause.DIVISION_BY_ZERO),
    (lambda x: x**-1.0, [0.0, 2.0], "pow", Cause.DIVISION_BY_ZERO),
    (lambda x: tf.math.rsqrt(x), [0.0, 2.0], "rsqrt", Cause.DIVISION_BY_ZERO),
    (boltzmann, [1.0, 0.5], "exp", Cause.OVERFLOW),
    (lambda x: tf.cosh(x), [100.0, 0.0], "cosh", Cause.OVERFLOW),
    (lambda x: x**40.0, [10.0, 0.0], "pow", Cause.OVERFLOW),
    (lambda x: tf.reduce_prod(x), [1e30, 1e30], "reduce_prod", Cause.OVERFLOW),
    (lambda x: tf.linalg.matvec(tf.fill([2, 2], 1e30), x), [1e30, 1.0], "matmul", Cause.OVERFLOW),
    (lambda x: tf.cast(x, tf.float16), [1e5, 1.0], "cast", Cause.LOW_PRECISION),
    (lambda x: tf.reduce_sum(tf.cast(x, tf.float16) * f16(4e4)), [2.0, 1.0], "multiply", Cause.LOW_PRECISION),
    (lambda x: tf.reduce_sum(tf.cast(x, tf.float16)), [4e4, 4e4], "reduce_sum", Cause.LOW_PRECISION),
    (lambda x: tf.exp(tf.cast(x, tf.bfloat16)), [200.0, 1.0], "exp", Cause.OVERFLOW),
    (lambda x: x * 2.0, [NAN, 1.0], "multiply", Cause.BAD_INPUT),
    (lambda x: tf.reshape(x, [1, 2]), [INF, 1.0], "reshape", Cause.BAD_INPUT),
    (lambda x: tf.where(x > 0.0, x, -INF), [-1.0, 1.0], "where", Cause.BAD_INPUT),
    (lambda x: x + tf.constant([NAN, 0.0]), [0.0, 1.0], "add", Cause.BAD_INPUT),
    (lambda x: tf.constant([INF, 0.0]) - tf.constant([INF, 0.0]) + x, [0.0, 1.0], "subtract", Cause.INF_MINUS_INF),
    (lambda x: tf.nn.softmax(x), [-INF, -INF], "softmax", Cause.INF_MINUS_INF),
    (masked_by_zero, [0.0, 1.0], "multiply", Cause.ZERO_TIMES_INF),
    (lambda x: tf.math.lgamma(x), [0.0, 1.0], "lgamma", Cause.OUTSIDE_DOMAIN),
]  # fmt: skip


@pytest.mark.parametrize(("f", "x", "op", "cause"), FORWARD)
def test_the_first_bad_op_raises_where_it_stands(f: Any, x: list[float], op: str, cause: Cause) -> None:
    v = tf.Variable(x)
    with pytest.raises(Invalid) as caught, tf.GradientTape(check_numerics=True) as tape:
        f(v)
    origin = caught.value.origin
    assert (origin.op, origin.cause, origin.forward) == (op, cause, True)
    assert bool(origin)
    assert cause.sentence in " ".join(str(caught.value).split())
    frames = traceback.extract_tb(caught.tb)
    users = [frame for frame in frames if frame.filename == __file__]
    assert (users[-1].filename, users[-1].lineno) == origin.where
    assert origin.operands[-1].first_bad is not None
    assert tape._recording is not None
    assert all(np.isfinite(np.asarray(r.values[-1].array)).all() for r in tape.records if r.values and r.values[-1])
    assert not active_recorders()


@pytest.mark.parametrize(("f", "x", "op", "cause"), FORWARD)
def test_afterwards_the_same_is_found_on_a_plain_tape(f: Any, x: list[float], op: str, cause: Cause) -> None:
    v = tf.Variable(x)
    with tf.GradientTape() as tape:
        y = f(v)
    origin = tape.nan_origin(y)
    if np.isfinite(y.numpy().astype(float)).all():
        assert not origin
        return
    seen = {shown_op(record.op) for record in tape.records}
    if op in seen:
        assert (origin.op, origin.forward) == (op, True)
        assert origin.cause in (cause, Cause.UNKNOWN)
        assert origin.where is None
        assert shown_op(tape.records[origin.position].op) == op
    else:
        assert origin.cause is Cause.BAD_INPUT  # it was made outside of what the tape follows
    assert tape.gradient(y, v) is not None  # the tape has answered nothing yet


def test_a_message_with_everything_in_it() -> None:
    x = tf.Variable([1.0, 0.0, 4.0])
    at = line() + 2
    with pytest.raises(Invalid) as caught, tf.GradientTape(check_numerics=True):
        tf.math.log(x)
    text = str(caught.value)
    assert text.startswith(f"log(0) gave -Inf at [1] (test_numerics.py:{at})")
    parts = ["tf.math.log(x)", "LOG_OF_ZERO", "x: float32[3], 0 … 4, 1 zero", "1 Inf", "first bad at [1]", "1e-7"]
    for part in parts:
        assert part in text
    assert "<table" in caught.value.origin._repr_html_()
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, NumericsError)
    assert again.origin.cause is Cause.LOG_OF_ZERO


def test_summary_of_an_operand() -> None:
    found = operand("x", np.array([[0.0, NAN], [INF, -2.0]], np.float32))
    assert found is not None
    assert (found.nans, found.infs, found.zeros, found.low, found.high) == (1, 1, 1, -2.0, 0.0)
    assert found.first_bad == (0, 1)
    assert operand("x", np.array(["a"], object)) is None
    assert str(operand("n", np.arange(3))) == "n: int64[3], 0 … 2, 1 zero"
    assert operand("z", np.array([1j, complex(NAN, 0)])).nans == 1  # type: ignore[union-attr]


def test_every_cause_has_a_sentence_and_advice() -> None:
    assert len({cause.sentence for cause in Cause}) == len(Cause)
    assert all(cause.advice.endswith(".") for cause in Cause)
    tested = {cause for *_, cause in (*FORWARD, *BACKWARD)}
    assert tested == set(Cause) - {Cause.UNKNOWN}


# -- backward --------------------------------------------------------------------------------------------------------
def distance_to_self(x):
    return tf.norm(x - x)


def masked_root(x):
    return tf.reduce_sum(tf.where(x > 0.0, x**0.5, 0.0))


def masked_norm_of_rows(x):
    length = tf.reduce_sum(x * x) ** 0.5
    return tf.where(length > 0.0, length, 0.0)


@tf.custom_gradient
def careless(x):
    return x * 1.0, lambda g: g / 0.0


def half_step(x):
    h = tf.cast(x, tf.float16)
    return tf.cast(tf.reduce_sum(h * 1.0), tf.float32) * 1e6


BACKWARD = [
    (distance_to_self, [1.0, 2.0], "sqrt", Cause.INFINITE_SLOPE),
    (lambda x: tf.reduce_sum(tf.sqrt(x)), [0.0, 1.0], "sqrt", Cause.INFINITE_SLOPE),
    (lambda x: tf.reduce_sum(x**0.5), [0.0, 1.0], "pow", Cause.INFINITE_SLOPE),
    (lambda x: tf.reduce_sum(tf.acos(x)), [1.0, 0.0], "acos", Cause.INFINITE_SLOPE),
    (masked_root, [0.0, 1.0], "pow", Cause.MASKED_BRANCH),
    (masked_norm_of_rows, [0.0, 0.0], "pow", Cause.MASKED_BRANCH),
    (lambda x: tf.reduce_sum(tf.constant([0.0, 1.0]) * x**0.5), [0.0, 1.0], "pow", Cause.ZERO_TIMES_INF),
    (lambda x: tf.reduce_sum(1e30 * tf.sin(1e30 * x)), [0.0, 1e-30], "multiply", Cause.OVERFLOW),
    (half_step, [1.0, 2.0], "cast", Cause.LOW_PRECISION),
    (lambda x: tf.reduce_sum(careless(x)), [1.0, 2.0], "custom_gradient", Cause.USER_GRADIENT),
    (lambda x: tf.reduce_sum(tf.linalg.sqrtm(tf.linalg.diag(x))), [1.0, 0.0], "sqrtm", Cause.DEGENERATE_MATRIX),
]


@pytest.mark.parametrize(("f", "x", "op", "cause"), BACKWARD)
def test_the_first_bad_cotangent_raises_and_names_the_forward_line(
    f: Any, x: list[float], op: str, cause: Cause
) -> None:
    v = tf.Variable(x)
    with tf.GradientTape(check_numerics=True) as tape:
        y = f(v)
    records = len(tape.records)
    for _ in range(2):  # the error has consumed nothing
        with pytest.raises(Invalid) as caught:
            tape.gradient(y, v)
        origin = caught.value.origin
        assert (origin.op, origin.cause, origin.forward) == (op, cause, False)
        assert len(tape.records) == records
    assert origin.where is not None
    assert origin.where[0] == __file__
    assert f"test_numerics.py:{origin.where[1]}" in str(origin)
    assert tape.nan_origin(y, v) == origin
    with tf.GradientTape(lines=True) as plain:
        y = f(v)
    again = plain.nan_origin(y)
    assert (again.op, again.cause, again.where) == (op, cause, origin.where)
    assert plain.gradient(y, v) is not None


def test_the_line_of_a_bad_cotangent_is_the_forward_one() -> None:
    x = tf.Variable([0.0, 4.0])
    with tf.GradientTape(check_numerics=True) as tape:
        at = line() + 1
        root = x**0.5
        masked = tf.where(x > 0.0, root, 0.0)
        loss = tf.reduce_sum(masked)
    with pytest.raises(Invalid, match="MASKED_BRANCH") as caught:
        tape.gradient(loss, x)
    assert caught.value.origin.where == (__file__, at)
    assert f"tf.where at test_numerics.py:{at + 1}" in str(caught.value)


def test_masked_log_is_found_behind_a_finite_loss() -> None:
    x = tf.Variable([0.0, 4.0])
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(tf.where(x > 0.0, tf.math.log(x), 0.0))
    origin = tape.nan_origin(y)
    assert (origin.op, origin.cause, origin.forward) == ("log", Cause.MASKED_BRANCH, False)


def test_a_norm_of_zeros_is_called_one() -> None:
    x = tf.Variable([0.0, 0.0])
    with tf.GradientTape() as tape:
        y = tf.norm(x)
    assert "norm of a vector of zeros" in str(tape.nan_origin(y))


def test_upstream_gradients_are_looked_at() -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape(check_numerics=True) as tape:
        y = x * 2.0
    with pytest.raises(Invalid, match="output_gradients"):
        tape.gradient(y, x, output_gradients=tf.constant([NAN, 1.0]))
    assert tape.gradient(y, x).numpy().tolist() == [2.0, 2.0]


def test_backward_division_and_log_by_the_user_s_own_derivative() -> None:
    x = tf.Variable([1.0, 2.0])

    def grad(g):
        return g / tf.zeros([2])

    with tf.GradientTape(check_numerics=True) as tape:
        y = tf.custom_gradient(lambda x: (x * 1.0, grad))(x)
    with pytest.raises(Invalid) as caught:
        tape.gradient(y, x)
    assert caught.value.origin.cause is Cause.USER_GRADIENT


@pytest.mark.parametrize("question", ["jacobian", "batch_gradient", "batch_jacobian", "hessian"])
def test_other_questions_are_checked_too(question: str) -> None:
    x = tf.Variable([[0.0, 4.0]])
    with tf.GradientTape(persistent=True, check_numerics=True) as tape:
        root = x**0.5
        y = tf.reduce_sum(root) if question == "hessian" else root
    with pytest.raises(Invalid) as caught:
        getattr(tape, question)(y, x)
    assert caught.value.origin.op == "pow"


def test_the_other_questions_answer_where_all_is_well() -> None:
    x = tf.Variable([[1.0, 4.0]])
    with tf.GradientTape(persistent=True, check_numerics=True) as tape:
        y = tf.sqrt(x)
    plain = [[0.5, 0.25]]
    assert tape.gradient(y, x).numpy().tolist() == plain
    assert tape.batch_gradient(y, x).numpy().tolist() == [plain]
    assert tape.jacobian(y, x).numpy()[0, 1].tolist() == [[0.0, 0.25]]
    assert not tape.nan_origin(y, x)


# -- the tape around it ----------------------------------------------------------------------------------------------
def test_a_tape_goes_on_after_an_error() -> None:
    x = tf.Variable([0.0, 1.0])
    with tf.GradientTape(check_numerics=True) as tape:
        y = x * 3.0
        with pytest.raises(Invalid):
            tf.math.log(x)
        z = y * y
    assert [record.op.name for record in tape.records] == ["multiply", "multiply"]
    assert tape.gradient(z, x).numpy().tolist() == [0.0, 18.0]


def test_an_op_that_failed_is_on_no_tape_also_after_a_pause() -> None:
    x = tf.Variable([0.0, 1.0])
    with tf.GradientTape(check_numerics=True) as tape:
        with tape.pause():
            assert not np.isfinite(tf.math.log(x).numpy()).all()  # not the tape's business
        with tape.stop_recording():
            tf.math.log(x)
        y = x * 3.0
        with tf.GradientTape() as inner, pytest.raises(Invalid):
            tf.math.log(x)
        assert not inner.records
        tape.reset()
        with pytest.raises(Invalid):
            tf.math.log(x)
        y = x * 2.0
    assert [record.op.name for record in tape.records] == ["multiply"]
    assert tape.gradient(y, x).numpy().tolist() == [2.0, 2.0]


def test_ops_that_the_tape_does_not_follow_are_checked_too() -> None:
    x = tf.Variable([1.0, 1.0])
    data = tf.constant([0.0, 2.0])
    with tf.GradientTape(check_numerics=True), pytest.raises(Invalid) as caught:
        tf.reduce_sum(x * tf.math.log(data))
    assert caught.value.origin.op == "log"


def test_nested_tapes_judge_a_rule_by_its_result() -> None:
    x = tf.Variable([0.0, 4.0])
    with tf.GradientTape(check_numerics=True):
        with tf.GradientTape() as inner:
            y = tf.reduce_sum(tf.where(x > 0.0, tf.sqrt(x), 0.0))  # TensorFlow's 0 · inf is 0 for sqrt
        d = inner.gradient(y, x)  # 0.5 / sqrt(0) is computed on the way, and thrown away
    assert d.numpy().tolist() == [0.0, 0.25]
    with tf.GradientTape(check_numerics=True):
        with tf.GradientTape() as inner:
            y = tf.reduce_sum(x**0.5)
        with pytest.raises(Invalid) as caught:
            inner.gradient(y, x)
    assert (caught.value.origin.op, caught.value.origin.forward) == ("pow", False)


def test_rules_of_forward_mode_are_no_ops_of_the_program() -> None:
    x, ones = tf.Variable([0.0, 4.0]), tf.ones([2])
    with tf.GradientTape(check_numerics=True):
        with tf.autodiff.ForwardAccumulator(x, ones) as acc:
            y = tf.where(x > 0.0, tf.sqrt(x), 0.0)  # the tangent of sqrt is infinite, and thrown away
        assert acc.jvp(y).numpy().tolist() == [0.0, 0.25]
        with pytest.raises(Invalid):  # and ops after that are checked
            tf.math.log(x)


def test_ops_of_a_gradient_by_the_user_are_ops_of_the_program() -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape(check_numerics=True):
        with tf.GradientTape() as inner:
            y = tf.custom_gradient(lambda x: (x * 1.0, lambda g: tf.where(g > 0.0, g, g / 0.0)))(x)
        with pytest.raises(Invalid) as caught:
            inner.gradient(y, x)
    assert (caught.value.origin.op, caught.value.origin.forward) == ("divide", True)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: tf.math.divide_no_nan(x, tf.zeros([3])),
        lambda x: tf.math.xlogy(tf.zeros([3]), x * 0.0),
        lambda x: tf.math.xdivy(tf.zeros([3]), x * 0.0),
        lambda x: tf.math.multiply_no_nan(x, tf.zeros([3])),
        lambda x: tf.nn.softmax(x * 1e4),
        lambda x: tf.nn.log_softmax(x * 1e4),
        lambda x: tf.reduce_logsumexp(x * 1e4),
        lambda x: tf.nn.softplus(x * 1e4),
        lambda x: tf.math.log_sigmoid(x * 1e4),
        lambda x: tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.ones([3]), logits=x * 1e4),
        lambda x: tf.nn.softmax_cross_entropy_with_logits(labels=tf.constant([0.0, 0.0, 1.0]), logits=x * 1e4),
        lambda x: tf.math.l2_normalize(x * 0.0),
        lambda x: tf.clip_by_norm(x * 0.0, 1.0),
        lambda x: tf.nn.elu(x * 1e4),
        lambda x: tf.nn.gelu(x * 1e4),
        lambda x: tf.nn.selu(-x * 1e4),
        lambda x: tf.math.reduce_std(x),
        lambda x: tf.sigmoid(-x * 1e4),
        lambda x: tf.tanh(x * 1e4),
        lambda x: tf.math.softsign(x),
    ],
)
def test_functions_that_take_care_of_themselves_raise_no_alarm(f: Any) -> None:
    x = tf.Variable([1.0, 2.0, 3.0])
    with tf.GradientTape(check_numerics=True) as tape:
        y = f(x)
    assert np.isfinite(tape.gradient(y, x).numpy()).all()


def test_a_checked_tape_explains_and_leaves_nothing_behind() -> None:
    x = tf.Variable(2.0)
    with tf.GradientTape(check_numerics=True) as tape:
        y = x * x
    assert isinstance(tape._op_logger, Checker)
    kept = weakref.ref(tape._recording.records[0][3][0])
    assert kept() is peek(x)
    assert float(tape.gradient(y, x)) == 4.0
    assert not active_recorders()
    middle = tf.Variable(3.0)
    with tf.GradientTape(check_numerics=True) as tape:
        hidden = tf.exp(middle)
        gone = weakref.ref(hidden)
        z = hidden * hidden
        del hidden
    tape.gradient(z, middle)
    gc.collect()
    assert gone() is None


def test_profile_lines_and_checks_together() -> None:
    x = tf.Variable([0.0, 1.0])
    with tf.GradientTape(check_numerics=True, profile=True, lines=True, strong_zeros=True) as tape:
        y = tf.reduce_sum(tf.where(x > 0.0, x**0.5, 0.0))
    assert tape.gradient(y, x).numpy().tolist() == [0.0, 0.5]
    assert "pow" in str(tape.profile())
    with tf.GradientTape(check_numerics=True, profile=True) as tape:
        y = tf.reduce_sum(x**0.5)
    with pytest.raises(Invalid):
        tape.gradient(y, x)


def test_half_precision_and_complex_numbers() -> None:
    x = tf.Variable(np.array([1.0, 2.0], np.float16))
    with tf.GradientTape(check_numerics=True) as tape:
        y = tf.reduce_sum(x * 3.0)
    with pytest.raises(Invalid) as caught:
        tape.gradient(y, x, output_gradients=tf.constant(6e4, tf.float16))
    assert caught.value.origin.cause is Cause.LOW_PRECISION
    z = tf.constant([0j, 1 + 1j])
    with tf.GradientTape(check_numerics=True) as tape, pytest.raises(Invalid) as caught:
        tf.math.log(z)
    assert caught.value.origin.op == "log"


# -- nan_origin ------------------------------------------------------------------------------------------------------
def test_everything_finite_is_false() -> None:
    x = tf.Variable([1.0, 4.0])
    with tf.GradientTape() as tape:
        y = tf.sqrt(x)
    origin = tape.nan_origin(y)
    assert not origin
    assert origin.cause is None
    assert "finite" in str(origin)
    assert "finite" in origin._repr_html_()
    assert tape.gradient(y, x).numpy().tolist() == [0.5, 0.25]


def test_a_masked_infinity_that_does_no_harm_is_mentioned() -> None:
    x = tf.Variable([0.0, 4.0])
    with tf.GradientTape(strong_zeros=True) as tape:
        y = tf.reduce_sum(tf.where(x > 0.0, tf.math.log(x), 0.0))
    origin = tape.nan_origin(y)
    assert not origin
    assert "log(0) gave -Inf" in origin.note


def test_nan_origin_inside_the_block_of_a_used_tape_and_of_a_stranger() -> None:
    x = tf.Variable([0.0, 1.0])
    with tf.GradientTape() as tape:
        y = tf.math.log(x)
        count = len(tape.records)
        assert tape.nan_origin(y).op == "log"
        assert len(tape.records) == count
    tape.gradient(y, x)
    with pytest.raises(RuntimeError, match="Call nan_origin before the gradient"):
        tape.nan_origin(y)
    with tf.GradientTape() as tape:
        tf.exp(x)
    found = tape.nan_origin(y)
    assert (found.op, found.cause) == (None, Cause.BAD_INPUT)
    with pytest.raises(TypeError, match="target"):
        tape.nan_origin(3.0)


def test_nan_origin_of_structures_and_of_sources_in_the_middle() -> None:
    x = tf.Variable([0.0, 1.0])
    with tf.GradientTape(persistent=True) as tape:
        a = x * 2.0
        b = tf.sqrt(a)
    assert tape.nan_origin({"b": b, "a": a}, [x]).op == "sqrt"
    assert tape.nan_origin([b], a).op == "sqrt"
    assert not tape.nan_origin(a, x)


def test_a_spoiled_variable_is_a_bad_input() -> None:
    v = tf.Variable([NAN, 1.0])
    with tf.GradientTape() as tape:
        y = tf.reduce_sum((v + 1.0) * 2.0)
    origin = tape.nan_origin(y)
    assert (origin.op, origin.cause) == ("add", Cause.BAD_INPUT)


def test_the_first_of_many_bad_ops_is_named() -> None:
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape(lines=True) as tape:
        a = x * 50.0
        at = line() + 1
        b = tf.exp(a)
        c = b - b
        d = tf.reduce_sum(c * 0.0)
    origin = tape.nan_origin(d)
    assert (origin.op, origin.where, origin.cause) == ("exp", (__file__, at), Cause.OVERFLOW)


# -- enable_check_numerics -------------------------------------------------------------------------------------------
@pytest.fixture
def everywhere() -> Any:
    tf.debugging.enable_check_numerics()
    yield
    tf.debugging.disable_check_numerics()
    assert not observe._wrappers


def test_every_op_is_checked(everywhere: None) -> None:
    at = line() + 2
    with pytest.raises(Invalid) as caught:
        tf.math.log(tf.constant([1.0, 0.0, -1.0]))
    text = str(caught.value)
    assert 'Detected Infinity or NaN in output 0 of eagerly-executing op "Log" (# of outputs: 1)' in text
    assert "# of -Inf elements: 1" in text
    assert "# of +NaN elements: 1" in text
    assert f"test_numerics.py:{at}" in text
    assert f"(L{at}) test_every_op_is_checked" in text
    with pytest.raises(Invalid):
        1.0 / tf.zeros([2])
    assert tf.reshape(tf.constant([INF]), [1, 1]).shape == (1, 1)  # only moves the number
    assert tf.sqrt(4.0).numpy() == 2.0


def test_every_walk_back_is_checked(everywhere: None) -> None:
    x = tf.Variable([0.0, 1.0])
    with tf.GradientTape(persistent=True) as tape:
        y = tf.sqrt(x)
    for question in (tape.gradient, tape.jacobian):
        with pytest.raises(Invalid, match='op "SqrtGrad"'):
            question(y, x)
    tf.debugging.disable_check_numerics()
    assert tape.gradient(y, x).numpy()[0] == INF


def test_every_thread_is_checked(everywhere: None) -> None:
    barrier = threading.Barrier(4)

    def work(n: int) -> str:
        barrier.wait(10)
        for i in range(200):
            bad = i % 7 == n % 7
            with pytest.raises(Invalid, match='op "Log"') if bad else contextlib.nullcontext():
                tf.math.log(tf.constant([0.0 if bad else 1.0])) + tf.exp(1.0)
        return "ok"

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == ["ok"] * 4
    tf.debugging.disable_check_numerics()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: float(tf.math.log(0.0))).result() == -INF


def test_second_derivatives_and_maps_under_checks(everywhere: None) -> None:
    x = tf.Variable([0.0, 4.0])
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = tf.reduce_sum(tf.where(x > 0.0, tf.sqrt(x), 0.0))
        d = inner.gradient(y, x)  # 0.5 / sqrt(0) is computed on the way, and thrown away
        z = tf.reduce_sum(x * x)
    assert d.numpy().tolist() == [0.0, 0.25]
    assert outer.gradient(z, x).numpy().tolist() == [0.0, 8.0]
    assert tf.vectorized_map(lambda row: row * 2.0, tf.ones([2, 2])).numpy().tolist() == [[2.0, 2.0], [2.0, 2.0]]
    with pytest.raises(Invalid):
        tf.vectorized_map(lambda row: tf.math.log(row), tf.zeros([2, 2]))


def test_limits_of_what_is_shown() -> None:
    def deep(n: int) -> Any:
        return tf.math.log(0.0) if n == 0 else deep(n - 1)

    tf.debugging.enable_check_numerics(stack_height_limit=2, path_length_limit=10)
    try:
        with pytest.raises(Invalid) as caught:
            deep(5)
    finally:
        tf.debugging.disable_check_numerics()
    text = str(caught.value)
    assert text.count("(L") == 2
    assert "Omitted" in text
    assert "+ ...umerics.py (L" in text


def test_nothing_is_left_when_it_is_off() -> None:
    before = [op.kernel for op in observe.with_kernel()]
    tf.debugging.disable_check_numerics()  # twice is as good as once
    tf.debugging.enable_check_numerics()
    tf.debugging.enable_check_numerics()
    assert [op.kernel for op in observe.with_kernel()] != before
    tf.debugging.disable_check_numerics()
    assert [op.kernel for op in observe.with_kernel()] == before
    x = tf.Variable([0.0, 1.0])
    with tf.GradientTape() as tape:
        y = tf.math.log(x)
    assert tape._op_logger is None
    assert tape._recording.append == tape._recording.records.append
    assert tape._backward_observer(tape._recording, {}, {}) is None
    assert tape.gradient(y, x).numpy()[0] == INF


# -- strong zeros ----------------------------------------------------------------------------------------------------
def masked(f: Any, other: float = 0.0) -> Any:
    return lambda x: tf.where(x > 0.0, f(x), other)


STRONG = {
    "sqrt": (masked(tf.sqrt), [0.0, 4.0], [0.0, 0.25]),
    "power": (masked(lambda x: x**0.5), [0.0, 4.0], [0.0, 0.25]),
    "log": (masked(tf.math.log), [0.0, 4.0], [0.0, 0.25]),
    "log of a negative": (masked(tf.math.log), [-1.0, 4.0], [0.0, 0.25]),
    "rsqrt": (masked(tf.math.rsqrt), [0.0, 4.0], [0.0, -0.0625]),
    "division": (masked(lambda x: 1.0 / x), [0.0, 4.0], [0.0, -0.0625]),
    "sinc": (masked(lambda x: tf.sin(x) / x, 1.0), [0.0, np.pi / 2], [0.0, -0.4052847]),
    "x log x": (masked(lambda x: x * tf.math.log(x)), [0.0, 1.0], [0.0, 1.0]),
    "softplus by hand": (
        lambda x: tf.where(x > 30.0, x, tf.math.log(1.0 + tf.exp(x))), [200.0, 0.0], [1.0, 0.5],
    ),
    "arccos": (lambda x: tf.where(x < 1.0, tf.acos(x), 0.0), [1.0, 0.0], [0.0, -1.0]),
    "arctan2": (masked(lambda x: tf.atan2(x, 2.0 * x)), [0.0, 1.0], [0.0, 0.0]),
    "product": (lambda x: masked(lambda p: p)(tf.reduce_prod(1.0 / (x * x)) * 0.0), [0.0, 4.0], [0.0, 0.0]),
    "maximum": (lambda x: tf.reduce_max(masked(tf.math.log, -9.0)(x)), [0.0, 4.0], [0.0, 0.25]),
    "gather": (lambda x: tf.gather(tf.math.log(x), [1]), [0.0, 4.0], [0.0, 0.25]),
    "slice": (lambda x: tf.math.log(x)[1:], [0.0, 4.0], [0.0, 0.25]),
    "norm": (tf.norm, [0.0, 0.0], [0.0, 0.0]),
    "norm by hand": (lambda x: tf.sqrt(tf.reduce_sum(x * x)), [0.0, 0.0], [0.0, 0.0]),
    "masked norm": (lambda x: masked(lambda n: n)(tf.reduce_sum(x * x) ** 0.5), [0.0, 0.0], [0.0, 0.0]),
    "multiplied by a mask": (lambda x: tf.constant([0.0, 1.0]) * tf.math.log(x), [0.0, 4.0], [0.0, 0.25]),
    "matmul": (
        lambda x: tf.where([[True], [False]], tf.stack([x, 1.0 / x]) @ tf.ones([2, 1]), 0.0), [0.0, 4.0], [1.0, 1.0],
    ),
    "bad rows of data": (
        lambda x: tf.where([True, False], tf.linalg.matvec(tf.constant([[1.0, 2.0], [NAN, INF]]), x), 0.0),
        [1.0, 1.0], [1.0, 2.0],
    ),
    "einsum": (
        lambda x: tf.where([True, False], tf.einsum("ij,j->i", tf.stack([x, 1.0 / x]), x), 0.0), [0.0, 4.0], [0.0, 8.0],
    ),
    "softmax": (
        lambda x: tf.where([[True], [False]], tf.nn.softmax(tf.stack([x, x / 0.0])), 0.0)[:, 0], [0.0, 0.0],
        [0.25, -0.25],
    ),
    "a custom gradient": (masked(lambda x: tf.grad_pass_through(tf.floor)(tf.math.log(x))), [0.0, 4.0], [0.0, 0.25]),
    "float16": (
        lambda x: tf.cast(masked(lambda h: h**0.5)(tf.cast(x, tf.float16)), tf.float32), [0.0, 4.0], [0.0, 0.25],
    ),
    "bfloat16": (
        lambda x: tf.cast(masked(lambda h: h**0.5)(tf.cast(x, tf.bfloat16)), tf.float32), [0.0, 4.0], [0.0, 0.25],
    ),
    "relu": (lambda x: tf.nn.relu(tf.sqrt(x)), [0.0, 4.0], [0.0, 0.25]),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", STRONG)
def test_a_zero_cotangent_stays_zero(name: str) -> None:
    f, x, expected = STRONG[name]
    v = tf.Variable(x)
    with tf.GradientTape(persistent=True, strong_zeros=True) as tape:
        y = f(v)
        total = tf.reduce_sum(y)
    assert np.allclose(tape.gradient(y, v).numpy(), expected, rtol=1e-3)
    rows = tape.jacobian(y, v).numpy()
    assert np.allclose(rows.reshape(-1, 2).sum(0), expected, rtol=1e-3)
    if y.shape.rank:
        assert np.allclose(tape.batch_gradient(y, v).numpy().sum(0), expected, rtol=1e-3)
        one_by_one = tape.jacobian(y, v, experimental_use_pfor=False).numpy()
        assert np.array_equal(rows, one_by_one)
    hessian = tape.hessian(total, v)
    assert hessian is None or np.isfinite(hessian.numpy()).all()
    with tf.GradientTape(strong_zeros=True) as outer:
        with tf.GradientTape(strong_zeros=True) as inner:
            y = f(v)
        first = inner.gradient(y, v)
    assert np.allclose(first.numpy(), expected, rtol=1e-3)
    second = outer.gradient(first, v)
    if second is not None:
        assert np.allclose(second.numpy(), hessian.numpy().sum(0), atol=1e-6)
    assert not (np.isfinite(y.numpy()).all() and tape.nan_origin(y, v))


def test_the_default_is_as_in_tensorflow() -> None:
    v = tf.Variable([0.0, 4.0])
    with tf.GradientTape(persistent=True) as tape:
        y = tf.where(v > 0.0, v**0.5, 0.0)
    assert np.isnan(tape.gradient(y, v).numpy()[0])


def test_a_zero_by_chance_has_its_second_derivative() -> None:
    """The cotangent 2 g is 0 at the minimum of g²; the second derivative is not."""
    x = tf.Variable([0.0, 3.0])
    with tf.GradientTape(persistent=True, strong_zeros=True) as outer:
        with tf.GradientTape(strong_zeros=True) as inner:
            y = tf.reduce_sum(tf.sin(x) ** 2.0)
        d = inner.gradient(y, x)
    plain = 2.0 * np.cos(2.0 * x.numpy())
    assert np.allclose(outer.gradient(d, x).numpy(), plain)
    assert np.allclose(np.diag(outer.jacobian(d, x).numpy()), plain)
    with tf.GradientTape(strong_zeros=True) as tape:
        y = tf.reduce_sum(tf.sin(x) ** 2.0)
    assert np.allclose(np.diag(tape.hessian(y, x).numpy()), plain)


def test_what_is_undefined_or_infinite_is_not_hidden() -> None:
    x = tf.Variable([0.0, 4.0])
    with tf.GradientTape(strong_zeros=True) as tape:
        y = tf.sqrt(x)
    assert tape.gradient(y, x).numpy()[0] == INF
    with tf.GradientTape(strong_zeros=True) as tape:
        y = tf.linalg.matvec(tf.constant([[NAN, 1.0], [1.0, 1.0]]), x)
    assert np.isnan(tape.gradient(y, x).numpy()[0])
    with tf.GradientTape(strong_zeros=True) as tape:
        y = x * 0.0
    assert np.isnan(tape.gradient(y, x, output_gradients=tf.constant([NAN, 1.0])).numpy()[0])


def random_network(x: Any, w: Any) -> Any:
    h = tf.nn.relu(x @ w)
    p = tf.nn.softmax(tf.tanh(h) / (1.0 + h * h))
    looked_up = tf.gather(w, [0, 2, 0])
    conv = tf.nn.conv1d(tf.reshape(p, [1, -1, 1]), tf.reshape(w[:3, 0], [3, 1, 1]), 1, "SAME")
    return tf.reduce_mean(p) + tf.reduce_max(looked_up) + tf.reduce_sum(conv**2.0) + tf.reduce_prod(w[0])


def test_where_all_is_finite_nothing_changes_bit_for_bit() -> None:
    rng = np.random.default_rng(0)
    x, w = tf.constant(rng.normal(size=(5, 4)), tf.float32), tf.Variable(rng.normal(size=(4, 3)), dtype=tf.float32)
    results = []
    for strong in (False, True):
        with tf.GradientTape(persistent=True, strong_zeros=strong) as outer:
            with tf.GradientTape(strong_zeros=strong) as inner:
                loss = random_network(x, w)
            d = inner.gradient(loss, w)
        with tf.GradientTape(strong_zeros=strong) as tape:
            loss = random_network(x, w)
        raw = tape.gradient(loss, w)
        results.append([t.numpy() for t in (d, raw, outer.gradient(d, w), outer.jacobian(d, w))])
    for plain, strong_one in zip(*results, strict=True):
        assert plain.tobytes() == strong_one.tobytes()


def test_sparse_gradients_stay_sparse() -> None:
    table = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape(strong_zeros=True) as tape:
        y = tf.gather(table, [1, 1])
    found = tape.gradient(y, table)
    assert isinstance(found, tf.IndexedSlices)
    assert tf.convert_to_tensor(found).numpy().tolist() == [[0.0, 0.0], [2.0, 2.0]]


def test_complex_numbers_and_several_outputs() -> None:
    x = tf.Variable([0.0, 4.0])
    with tf.GradientTape(strong_zeros=True) as tape:
        z = tf.complex(x, x * 0.0)
        y = tf.where(x > 0.0, tf.abs(1.0 / z), 0.0)
    assert np.allclose(tape.gradient(y, x).numpy(), [0.0, -0.0625])
    with tf.GradientTape(strong_zeros=True) as tape:
        a, b = tf.split(x, 2)
        y = tf.where(a > 0.0, tf.math.log(a), 0.0) + b
    assert tape.gradient(y, x).numpy().tolist() == [0.0, 1.0]


def test_origin_of_nothing_is_false() -> None:
    assert not Origin(None, None, True, None, (), "nothing")


@pytest.mark.parametrize("limit", [np.nan, np.float32(np.nan), tf.constant(np.nan)])
def test_a_norm_of_nan_clips_to_nan(limit):
    assert np.isnan(tf.clip_by_norm([3.0, 4.0], limit)).all()
    assert np.isnan(tf.nn.embedding_lookup([[3.0, 4.0]], [0], max_norm=limit)).all()


# -- functions -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("option", ["check_numerics", "profile"])
def test_a_function_with_a_tape_that_looks_at_every_op_runs_eagerly(option: str, caplog: Any) -> None:
    @tf.function
    def f(v: Any) -> Any:
        with tf.GradientTape(**{option: True}) as tape:
            tape.watch(v)
            y = tf.math.log(v)
        return tape.gradient(y, v)

    assert float(f(tf.constant(2.0))) == 0.5
    assert f"GradientTape({option}=True) observes every op" in caplog.text
    if option == "check_numerics":
        with pytest.raises(NumericsError, match=r"log\(0\) gave -Inf"):
            f(tf.constant(0.0))


def test_functions_run_eagerly_while_every_op_is_checked() -> None:
    f = tf.function(lambda x: tf.math.log(x) + 1.0)
    assert np.isnan(f(tf.constant(-1.0)).numpy())
    tf.debugging.enable_check_numerics()
    try:
        with pytest.raises(tf.errors.InvalidArgumentError, match='op "Log"'):
            f(tf.constant(-1.0))
    finally:
        tf.debugging.disable_check_numerics()
    assert not tf.config.functions_run_eagerly()
    assert np.isnan(f(tf.constant(-1.0)).numpy())


def test_a_used_up_tape_says_when_to_look_for_the_origin() -> None:
    x = tf.Variable([0.0, 2.0])
    with tf.GradientTape() as tape:
        y = tf.math.log(x) * 0.0
    at = line() + 1
    tape.gradient(y, x)
    with pytest.raises(
        RuntimeError, match=rf"freed its recorded values at .*:{at}\. Call nan_origin before the gradient"
    ):
        tape.nan_origin(y, x)
