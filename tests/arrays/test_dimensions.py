"""Dimensions without a number: polynomials that compute as the numbers do which they stand for."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import gradtape as tf
from gradtape._src.arrays.dimension import Dimension, UnknownDimensionError, bounds, maximum, root, variable

A, B, LATE = variable("a"), variable("b"), variable("n", least=0)

_OPERATORS = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, maximum)
_leaves = st.one_of(st.sampled_from([A, B]), st.integers(-4, 7))
_steps = st.lists(st.tuples(st.sampled_from(_OPERATORS), _leaves, st.booleans()), max_size=6)


def _computed(start: Any, steps: Any, sizes: dict[str, int] | None) -> Any:
    def sized(value: Any) -> Any:
        return value.evaluated(sizes) if sizes is not None and type(value) is Dimension else value

    found = sized(start)
    for function, value, swapped in steps:
        pair = (sized(value), found) if swapped else (found, sized(value))
        found = function(*pair)
    return found


@settings(max_examples=300, deadline=None)
@given(_leaves, _steps, st.integers(1, 9), st.integers(1, 9))
def test_expressions_compute_as_numbers_do(start, steps, a, b):
    sizes = {"a": a, "b": b}
    try:
        number = _computed(start, steps, sizes)
    except ZeroDivisionError:
        return
    try:
        expression = _computed(start, steps, None)
    except ZeroDivisionError:  # a divisor that is 0 for all sizes: then it was for these
        pytest.fail("no number divided by zero")
    found = expression.evaluated(sizes) if type(expression) is Dimension else expression
    assert found == number
    low, high = bounds(expression)
    assert low <= number <= high
    if type(expression) is Dimension:
        names = {"floordiv": operator.floordiv, "mod": operator.mod, "max": max}
        assert eval(str(expression), {**names, **sizes}) == number  # it prints as Python


def test_what_is_known_is_an_int():
    assert type(A - A) is int
    assert (2 * A - A - A, A // A, (A * B) // B - A) == (0, 1, 0)
    assert (6 * A + 4) // 2 == 3 * A + 2
    assert (6 * A + 1) // 2 == 3 * A
    assert (6 * A + 1) % 2 == 1


def test_equal_is_the_same_polynomial():
    assert (A + 1) * (A - 1) == A * A - 1
    assert hash(A + B) == hash(B + A)
    assert A != B
    assert A != 3


def test_comparisons_follow_from_the_smallest_sizes():
    assert A >= 1
    assert A + B > 1
    assert not A < 1
    assert bool(A)
    assert maximum(A, 1) is A
    with pytest.raises(UnknownDimensionError, match="a >= b"):
        assert A >= B
    with pytest.raises(UnknownDimensionError, match="n != 0"):
        bool(LATE)
    with pytest.raises(UnknownDimensionError, match="The size of the dimension a is unknown while"):
        np.zeros((A,))


def test_parts_may_be_evaluated():
    assert (A * B + 1).evaluated({"a": 3}) == 3 * B + 1


def test_shapes_show_none():
    shown = []
    f = tf.function(lambda x: shown.append(x.shape.as_list()) or x, input_signature=[tf.TensorSpec([None, 2])])
    f(tf.ones([3, 2]))
    assert shown == [[None, 2]]


def test_the_term_for_which_a_difference_is_0():
    a, b, c, d = map(variable, "abcd")
    assert root(4 * a - 4 * b * c) == ("a", b * c)
    assert root(b * c * d - a * d) == ("a", b * c)
    assert root(2 * a - 6 * b) == ("a", 3 * b)
    assert root(3 * a * b - c * b) == ("c", 3 * a)
    assert root(2 * a - 3 * b) is None  # neither is a whole number for all of the other
    assert root(a * a - b * b) is None
    assert root(a + b) is None  # sizes are at least 1
    assert root(a * b - a) == ("b", 1)
    assert root(a // 2 - b * (a % 2)) is None
