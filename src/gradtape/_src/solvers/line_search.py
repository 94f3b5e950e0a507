"""The line search of Moré and Thuente (1994): a step with sufficient decrease and a small slope."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

Evaluation = Callable[[float], tuple[float, float]]
"""The value and the slope of a function along a line."""


class Point(NamedTuple):
    """A step, and the value and slope there."""

    step: float
    value: float
    slope: float


class Found(NamedTuple):
    """The result of a search; `message` is empty if the step fulfils both conditions."""

    step: float
    value: float
    slope: float
    evaluations: int
    message: str


def search(
    evaluate: Evaluation,
    value: float,
    slope: float,
    step: float,
    *,
    decrease: float = 1e-4,
    curvature: float = 0.9,
    tolerance: float = 0.1,
    smallest: float = 0.0,
    largest: float = 1e10,
    most: int = 20,
) -> Found:
    """A step with value(step) <= value + decrease step slope, and |slope(step)| <= curvature |slope|.

    `value` and `slope` are those at 0, and the slope is negative. `tolerance` is the relative width of the interval of
    uncertainty at which the search ends.
    """
    test = decrease * slope
    low = high = Point(0.0, value, slope)
    bracketed, auxiliary = False, True
    width = largest - smallest
    before = 2.0 * width
    ends = (0.0, step + 4.0 * step)
    step = min(max(step, smallest), largest)
    for count in range(1, most + 1):
        current = Point(step, *evaluate(step))
        message = _verdict(current, value, slope, test, curvature, bracketed, ends, tolerance, smallest, largest)
        if message is not None:
            return Found(*current, count, message)
        bound = value + current.step * test
        auxiliary = auxiliary and not (current.value <= bound and current.slope >= 0.0)
        if auxiliary and current.value <= low.value and current.value > bound:
            low, high, step, bracketed = _updated(low, high, current, bracketed, ends, test)
        else:
            low, high, step, bracketed = _updated(low, high, current, bracketed, ends, 0.0)
        if bracketed:
            if abs(high.step - low.step) >= 0.66 * before:
                step = low.step + 0.5 * (high.step - low.step)
            before, width = width, abs(high.step - low.step)
            ends = (min(low.step, high.step), max(low.step, high.step))
        else:
            ends = (step + 1.1 * (step - low.step), step + 4.0 * (step - low.step))
        step = min(max(step, smallest), largest)
        if bracketed and (step <= ends[0] or step >= ends[1] or ends[1] - ends[0] <= tolerance * ends[1]):
            step = low.step
    return Found(*low, most, f"no step was found in {most} evaluations")


def _verdict(
    current: Point,
    value: float,
    slope: float,
    test: float,
    curvature: float,
    bracketed: bool,
    ends: tuple[float, float],
    tolerance: float,
    smallest: float,
    largest: float,
) -> str | None:
    """Why the search ends: "" if the step is good; None to continue."""
    bound = value + current.step * test
    enough = current.value <= bound
    if enough and abs(current.slope) <= curvature * -slope:
        return ""
    if not math.isfinite(current.value) or not math.isfinite(current.slope):
        return "the function is not finite along the direction"
    if bracketed and (current.step <= ends[0] or current.step >= ends[1]):
        return "rounding errors prevent progress"
    if bracketed and ends[1] - ends[0] <= tolerance * ends[1]:
        return "the interval of steps has become too small"
    if current.step == largest and enough and current.slope <= test:
        return "the step has reached its maximum length"
    if current.step == smallest and (not enough or current.slope >= test):
        return "the step has reached its minimum length"
    return None


def _updated(
    low: Point, high: Point, current: Point, bracketed: bool, ends: tuple[float, float], tilt: float
) -> tuple[Point, Point, float, bool]:
    """The interval that contains a good step, and the next trial step, from values minus `tilt` times the step."""
    leaning = _leant(low, tilt), _leant(high, tilt), _leant(current, tilt)
    low, high, step, bracketed = _safeguarded_step(*leaning, bracketed, *ends)
    return _leant(low, -tilt), _leant(high, -tilt), step, bracketed


def _leant(point: Point, tilt: float) -> Point:
    return Point(point.step, point.value - point.step * tilt, point.slope - tilt)


def _safeguarded_step(
    low: Point, high: Point, new: Point, bracketed: bool, nearest: float, farthest: float
) -> tuple[Point, Point, float, bool]:
    opposite = new.slope * math.copysign(1.0, low.slope) < 0.0
    if new.value > low.value:  # a higher value: the minimum is between
        step, bracketed = _after_higher(low, new), True
    elif opposite:  # a lower value, and the slope turned: the minimum is between
        step, bracketed = _after_turn(low, new), True
    elif abs(new.slope) < abs(low.slope):  # the slope flattens
        step = _after_flatter(low, high, new, bracketed, nearest, farthest)
    elif bracketed:  # lower, and as steep
        step = _cubic(new, high)
    else:
        step = farthest if new.step > low.step else nearest
    if new.value > low.value:
        high = new
    else:
        high, low = (low if opposite else high), new
    return low, high, step, bracketed


def _cubic_parts(a: Point, b: Point) -> tuple[float, float]:
    """Terms of the minimum of the cubic through two points with their slopes."""
    theta = 3.0 * (a.value - b.value) / (b.step - a.step) + a.slope + b.slope
    scale = max(abs(theta), abs(a.slope), abs(b.slope))
    inside = (theta / scale) ** 2 - (a.slope / scale) * (b.slope / scale)
    return theta, scale * math.sqrt(max(0.0, inside))  # rounding can make it negative


def _after_higher(low: Point, new: Point) -> float:
    theta, gamma = _cubic_parts(low, new)
    if new.step < low.step:
        gamma = -gamma
    r = (gamma - low.slope + theta) / (gamma - low.slope + gamma + new.slope)
    cubic = low.step + r * (new.step - low.step)
    fall = (low.value - new.value) / (new.step - low.step) + low.slope
    quadratic = low.step + low.slope / fall / 2.0 * (new.step - low.step)
    return cubic if abs(cubic - low.step) <= abs(quadratic - low.step) else cubic + (quadratic - cubic) / 2.0


def _after_turn(low: Point, new: Point) -> float:
    theta, gamma = _cubic_parts(low, new)
    if new.step > low.step:
        gamma = -gamma
    r = (gamma - new.slope + theta) / (gamma - new.slope + gamma + low.slope)
    cubic = new.step + r * (low.step - new.step)
    secant = new.step + new.slope / (new.slope - low.slope) * (low.step - new.step)
    return cubic if abs(cubic - new.step) > abs(secant - new.step) else secant


def _after_flatter(low: Point, high: Point, new: Point, bracketed: bool, nearest: float, farthest: float) -> float:
    theta, gamma = _cubic_parts(low, new)
    if new.step > low.step:
        gamma = -gamma
    p, q = gamma - new.slope + theta, gamma + (low.slope - new.slope) + gamma
    r = p / q if q else math.inf
    if r < 0.0 and gamma != 0.0:
        cubic = new.step + r * (low.step - new.step)
    else:
        cubic = farthest if new.step > low.step else nearest
    secant = new.step + new.slope / (new.slope - low.slope) * (low.step - new.step)
    closer = abs(cubic - new.step) < abs(secant - new.step)
    if bracketed:
        step = cubic if closer else secant
        limit = new.step + 0.66 * (high.step - new.step)
        return min(limit, step) if new.step > low.step else max(limit, step)
    step = secant if closer else cubic
    return max(nearest, min(farthest, step))


def _cubic(new: Point, high: Point) -> float:
    """The minimum of the cubic through two points, beyond the new one."""
    theta, gamma = _cubic_parts(new, high)
    if new.step > high.step:
        gamma = -gamma
    r = (gamma - new.slope + theta) / (gamma - new.slope + gamma + high.slope)
    return new.step + r * (high.step - new.step)
