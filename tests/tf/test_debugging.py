"""Assertions, check_numerics, print, and functions that come from Python."""

from __future__ import annotations

import collections
import sys

import numpy as np
import pytest

import gradtape as tf

d = tf.debugging
Invalid = tf.errors.InvalidArgumentError
X = tf.ones([2, 3])

HOLD = [
    lambda: d.assert_equal([1, 1], 1),
    lambda: d.assert_none_equal([1, 2], [3, 4]),
    lambda: d.assert_less([1.0], 2.0),
    lambda: d.assert_less_equal([1, 2], [1, 3]),
    lambda: d.assert_greater(tf.Variable(2.0), 1.0),
    lambda: d.assert_greater_equal([1.0], [1.0]),
    lambda: d.assert_near(1.0, 1.0),
    lambda: d.assert_near(tf.constant(1.0, tf.float16), tf.constant(1.0005, tf.float16)),
    lambda: d.assert_near(tf.constant(1.0, tf.bfloat16), tf.constant(1.0, tf.bfloat16)),
    lambda: d.assert_near([1.0, 2.0], [1.1, 2.1], atol=0.2),
    lambda: d.assert_positive([1, 2]),
    lambda: d.assert_negative([-1.0]),
    lambda: d.assert_non_negative([0, 1]),
    lambda: d.assert_non_positive([0.0]),
    lambda: d.assert_rank(X, 2),
    lambda: d.assert_rank(X, tf.constant(2)),
    lambda: d.assert_rank_at_least(X, 1),
    lambda: d.assert_rank_in(X, [1, 2]),
    lambda: d.assert_scalar(1.0),
    lambda: d.assert_type(X, tf.float32),
    lambda: d.assert_integer([1]),
    lambda: d.assert_proper_iterable([1]),
    lambda: d.Assert(tf.constant(True), ["x"]),
    lambda: d.assert_shapes([(X, ("N", 3)), ([1, 2], ("N",))]),
    lambda: d.assert_shapes([(X, "NQ"), ([1, 2], "N")]),
    lambda: d.assert_shapes([(X, (..., "M")), ([1, 2, 3], "M")]),
    lambda: d.assert_shapes([(X, ("*", 3))]),
    lambda: d.assert_shapes([(X, (None, "."))]),
    lambda: d.assert_shapes({X.ref(): (2, 3)}),
    lambda: d.assert_shapes([(1.0, ())]),
]

FAIL = [
    (lambda: d.assert_equal(1, 2), Invalid, "Condition x == y did not hold.\nFirst 1 elements of x:\n[1]\n"
                                            "First 1 elements of y:\n[2]"),
    (lambda: d.assert_equal([1, 2, 3, 4, 5], [1, 2, 3, 4, 6], message="hello"), Invalid,
     "hello\nCondition x == y did not hold.\nIndices of first 1 different values:\n[[4]]\nCorresponding x values:\n"
     "[5]\nCorresponding y values:\n[6]\nFirst 3 elements of x:\n[1 2 3]\nFirst 3 elements of y:\n[1 2 3]"),
    (lambda: d.assert_equal([1, 2, 3], [0, 0, 0], summarize=2), Invalid, "[[0]\n [1]]"),
    (lambda: d.assert_equal([1, 2], [1, 2, 3]), Invalid, "Incompatible shapes: [2] vs. [3]"),
    (lambda: d.assert_equal(tf.constant(1), tf.constant(1.0)), Invalid, "was expected to be a int32 tensor"),
    (lambda: d.assert_none_equal([1, 2], [2, 2]), Invalid, "Condition x != y did not hold."),
    (lambda: d.assert_less([2.0], [1.0]), Invalid, "Condition x < y did not hold."),
    (lambda: d.assert_less_equal([2.0], [1.0]), Invalid, "Condition x <= y did not hold."),
    (lambda: d.assert_greater([1.0], [1.0]), Invalid, "Condition x > y did not hold."),
    (lambda: d.assert_greater_equal([1.0], [2.0]), Invalid, "Condition x >= y did not hold."),
    (lambda: d.assert_near(1.0, 1.1, message="m"), Invalid, "x and y not equal to tolerance rtol"),
    (lambda: d.assert_near(1.0, float("nan")), Invalid, "not equal to tolerance"),
    (lambda: d.assert_near(tf.constant(1), tf.constant(1)), ValueError, "not inexact"),
    (lambda: d.assert_positive([-1.0, 2.0], "mm"), Invalid, "mm.  \nCondition x > 0 did not hold element-wise:\n"
                                                            "x (shape=(2,) dtype=float32) = \n['-1.0', '2.0']"),
    (lambda: d.assert_negative([1]), Invalid, "x < 0"),
    (lambda: d.assert_non_negative([-1]), Invalid, "x >= 0"),
    (lambda: d.assert_non_positive([1]), Invalid, "x <= 0"),
    (lambda: d.assert_rank(X, 3, "mm"), ValueError, "mm.  Tensor  must have rank 3.  Received rank 2, shape (2, 3)"),
    (lambda: d.assert_rank(X, [3]), ValueError, "Rank must be a scalar."),
    (lambda: d.assert_rank(X, 3.5), TypeError, "tensor must be of type tf.int32; got tf.float32"),
    (lambda: d.assert_rank_at_least(X, 3), ValueError, "must have rank at least 3"),
    (lambda: d.assert_rank_in(X, [3, 4]), ValueError, "must have rank in (3, 4)"),
    (lambda: d.assert_scalar(X), ValueError, "Expected scalar shape, saw shape: (2, 3)."),
    (lambda: d.assert_type(X, tf.int32), TypeError, "tensor must be of type tf.int32; got tf.float32"),
    (lambda: d.assert_integer(X), TypeError, 'Expected "x" to be integer type.'),
    (lambda: d.assert_proper_iterable(X), TypeError, '"proper" iterable'),
    (lambda: d.assert_proper_iterable(1), TypeError, "to be iterable"),
    (lambda: d.Assert(False, ["x", tf.constant([1, 2, 3, 4])]), Invalid,
     "Expected 'False' to be true. Summarized data: b'x'\n1, 2, 3, ..."),
    (lambda: d.Assert(tf.constant([True, False]), ["x"]), ValueError, "ambiguous"),
    (lambda: d.assert_shapes([(X, (2, 4))]), ValueError,
     "Specified explicitly.  Tensor shape=(2, 3) dtype=float32 dimension 1 must have size 4.  Received size 3"),
    (lambda: d.assert_shapes([(X, ("N", "M")), ([1, 2], ("M",))], message="mm"), ValueError,
     "mm.  Specified by tensor shape=(2, 3) dtype=float32 dimension 1.  Tensor shape=(2,) dtype=int32 dimension 0 must "
     "have size 3.  Received size 2"),
    (lambda: d.assert_shapes([(X, ("N",))]), ValueError, "must have rank in (0, 1)"),
    (lambda: d.assert_shapes([(X, (..., ...))]), ValueError, "only allowed as the first entry"),
    (lambda: d.assert_shapes([(X, (..., 1, 2, 3))]), ValueError, "must have rank at least 3"),
    (lambda: d.check_numerics([1.0, np.inf], "mm"), Invalid, "mm : Tensor had Inf values"),
    (lambda: d.check_numerics([np.nan], "mm"), Invalid, "mm : Tensor had NaN values"),
    (lambda: d.assert_all_finite([np.nan, np.inf], "mm"), Invalid, "mm : Tensor had Inf and NaN values"),
    (lambda: d.check_numerics([1], "mm"), Invalid, "not in the list of allowed values"),
    (lambda: d.assert_same_float_dtype([tf.constant(1)]), ValueError, "Expected floating point type"),
    (lambda: d.assert_same_float_dtype([X, tf.constant(1.0, tf.float64)]), ValueError, "must be of the same type"),
]  # fmt: skip


@pytest.mark.parametrize("call", HOLD)
def test_what_holds_returns_none(call):
    assert call() is None


@pytest.mark.parametrize(("call", "error", "says"), FAIL)
def test_what_fails_says_so(call, error, says):
    with pytest.raises(error) as caught:
        call()
    assert says in str(caught.value)


def test_names_at_the_root():
    assert tf.Assert is d.Assert
    assert (tf.assert_equal, tf.assert_less) == (d.assert_equal, d.assert_less)
    assert (tf.assert_greater, tf.assert_rank) == (d.assert_greater, d.assert_rank)


def test_same_float_dtype_and_numeric():
    assert d.assert_same_float_dtype([X]) == tf.float32
    assert d.assert_same_float_dtype() == tf.float32
    assert [d.is_numeric_tensor(x) for x in (X, tf.constant("a"), 1.0, tf.constant(True))] == [True] + [False] * 3


def test_switches():
    d.disable_traceback_filtering()
    assert not d.is_traceback_filtering_enabled()
    d.enable_traceback_filtering()
    assert d.is_traceback_filtering_enabled()
    d.set_log_device_placement(True)
    assert d.get_log_device_placement()
    d.set_log_device_placement(False)


def test_check_numerics_checks_the_gradient_too():
    x = tf.Variable([4.0, 0.0])
    with tf.GradientTape() as tape:
        y = tf.sqrt(d.check_numerics(x, "mine"))
    with pytest.raises(Invalid, match=r"detected in gradient\. mine"):
        tape.gradient(y, x)
    with tf.GradientTape() as tape:
        y = tf.square(d.check_numerics(x, "mine"))
    assert tape.gradient(y, x).numpy().tolist() == [8, 0]


# -- print -------------------------------------------------------------------------------------------------------------
Pair = collections.namedtuple("Pair", "u v")
c = tf.constant


@pytest.mark.parametrize(
    ("items", "options", "expected"),
    [
        ([c([1, 2, 3])], {}, "[1 2 3]"),
        ([c([1.0, 2.5, 3.0])], {}, "[1 2.5 3]"),
        ([c([[1, 2], [3, 4]])], {}, "[[1 2]\n [3 4]]"),
        ([tf.range(100)], {}, "[0 1 2 ... 97 98 99]"),
        ([tf.range(10)], {"summarize": 2}, "[0 1 ... 8 9]"),
        ([tf.range(10)], {"summarize": -1}, "[0 1 2 3 4 5 6 7 8 9]"),
        (["a", c("b"), c(["c", "d"]), 1, 2.5, None, True], {}, 'a "b" ["c" "d"] 1 2.5 None True'),
        ([c("b")], {}, "b"),
        ([{"a": c(1), "b": [c(2.0), "z"]}], {}, "{'a': 1, 'b': [2, 'z']}"),
        ([Pair(c(1), 2)], {}, "Pair(u=1, v=2)"),
        ([c(1.0), c(2)], {"sep": "|"}, "1|2"),
        ([c([True, False]), tf.Variable([1.0])], {}, "[1 0] [1]"),
        ([c([1e10, 1e-5, 123456789.0])], {}, "[1e+10 1e-05 123456792]"),
        ([c(1 / 3), c([0.1, 1 / 3], tf.float64)], {}, "0.333333343 [0.1 0.33333333333333331]"),
        ([c([np.nan, np.inf, -np.inf])], {}, "[nan inf -inf]"),
        ([c(1.5, tf.float16), c(1.5, tf.bfloat16), c(3, tf.int8)], {}, "1.5 1.5 3"),
        ([tf.reshape(tf.range(24), [2, 3, 4])], {"summarize": 1},
         "[[[0 ... 3]\n  ...\n  [8 ... 11]]\n\n [[12 ... 15]\n  ...\n  [20 ... 23]]]"),
        ([], {}, ""),
    ],
)  # fmt: skip
def test_print(items, options, expected, capsys):
    assert tf.print(*items, **options) is None
    assert capsys.readouterr().err == expected + "\n"


def test_print_elsewhere(capsys, tmp_path):
    tf.print("x", end="$", output_stream=sys.stdout)
    assert capsys.readouterr().out == "x$"
    path = tmp_path / "printed.txt"
    for _ in range(2):
        tf.print("line", tf.constant(1), output_stream=f"file://{path}")
    assert path.read_text() == "line 1\nline 1\n"
    lines = []
    tf.print("logged", output_stream=lines.append)
    assert lines == ["logged"]
    with pytest.raises(ValueError, match="Unrecognized keyword"):
        tf.print(1, foo=2)
    with pytest.raises(ValueError, match="Unsupported output stream"):
        tf.print(1, output_stream=3)
    with pytest.raises(TypeError, match="summarize"):
        tf.print(1, summarize="a")


# -- functions from Python ---------------------------------------------------------------------------------------------
def test_py_function_is_differentiable():
    x = tf.Variable([3.0, 4.0])
    with tf.GradientTape() as outer:
        with tf.GradientTape() as tape:
            y = tf.py_function(lambda a: a**3, [x], tf.float32)
        g = tape.gradient(y, x)
    assert g.numpy().tolist() == [27, 48]
    assert outer.gradient(g, x).numpy().tolist() == [18, 24]


def test_py_function_results():
    two = tf.py_function(lambda a: [a * 2, 1], [1.0], [tf.float32, tf.int32])
    assert [t.dtype for t in two] == [tf.float32, tf.int32]
    assert tf.py_function(lambda: None, [], []) == []
    assert tf.py_function(lambda a: np.float64(3.0), [1.0], tf.float32).dtype == tf.float32
    assert tf.py_function(Tout=tf.float32)(lambda a: a)(1.0).numpy() == 1
    for function, error in (
        (lambda: 1 / 0, tf.errors.UnknownError),
        (lambda: int("x"), Invalid),
        (lambda: None, Invalid),
        (lambda: tf.constant(1), Invalid),
    ):
        with pytest.raises(error):
            tf.py_function(function, [], tf.float32)


def test_numpy_function_ends_the_path():
    x = tf.Variable([3.0, 4.0])
    with tf.GradientTape() as tape:
        y = tf.numpy_function(lambda a: a * a, [x], tf.float32)
        a, b = tf.numpy_function(lambda a: (a, a), [x], [tf.float32, tf.float32])
    assert y.numpy().tolist() == [9, 16]
    assert a.dtype == b.dtype == tf.float32
    assert tape.gradient([y, a], x) is None
    with pytest.raises(ZeroDivisionError):
        tf.numpy_function(lambda: 1 / 0, [], tf.float32)


def test_registered_names():
    @tf.RegisterGradient("test_debugging.Op")
    def gradient(op, upstream):
        return upstream

    assert gradient(None, 1) == 1
    tf.no_gradient("test_debugging.Other")
    for name in ("test_debugging.Op", "test_debugging.Other"):
        with pytest.raises(KeyError, match="two gradient"):
            tf.no_gradient(name)
    for call in (tf.no_gradient, tf.RegisterGradient):
        with pytest.raises(TypeError, match="op_type must be a string"):
            call(3)
