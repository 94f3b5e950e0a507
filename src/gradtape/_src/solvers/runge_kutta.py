"""Steps of explicit Runge-Kutta methods, their errors, and interpolation between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradtape._src.solvers.vectors import length
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array
from gradtape._src.tf.math import maximum, minimum, reduce_max, reduce_sum

Field = Callable[[Tensor, Tensor, Sequence[Tensor]], Tensor]
"""The right-hand side f(t, y, tensors) of y' = f, on vectors."""

# The pair of Dormand and Prince (1980): nodes, stages, the weights of order 5, and their difference from order 4.
_NODES = (0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
_STAGES: tuple[tuple[float, ...], ...] = (
    (),
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
_ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)
# The coefficients of the last term of the interpolation of order 4 (Hairer, Nørsett and Wanner, II.6).
_DENSE = (
    -12715105075 / 11282082432,
    0.0,
    87487479700 / 32700410799,
    -10690763975 / 1880347072,
    701980252875 / 199316789632,
    -1453857185 / 822651844,
    69997945 / 29380423,
)


def classic_step(field: Field, t: Tensor, h: Tensor, y: Tensor, inputs: Sequence[Tensor]) -> tuple[Tensor, None]:
    """One step of the classic fourth-order method."""
    half = 0.5 * h
    k1 = field(t, y, inputs)
    k2 = field(t + half, y + half * k1, inputs)
    k3 = field(t + half, y + half * k2, inputs)
    k4 = field(t + h, y + h * k3, inputs)
    return y + h / 6.0 * (k1 + 2.0 * (k2 + k3) + k4), None


def dormand_prince_step(
    field: Field,
    t: Tensor,
    h: Tensor,
    y: Tensor,
    inputs: Sequence[Tensor],
    slope: Tensor | None = None,
    tolerances: tuple[float, float] | None = None,
) -> tuple[Any, ...]:
    """The state after a step, and the data for interpolation; with tolerances, also the step's error and last slope.

    The error is relative to the largest allowed one. `slope` is f at the start, if it is known.
    """
    slopes = [field(t, y, inputs) if slope is None else slope]
    new = y
    for node, weights in zip(_NODES[1:], _STAGES[1:], strict=True):
        new = y + h * _combined(weights, slopes)
        slopes.append(field(t + node * h, new, inputs))
    detail = array.stack([h * slopes[0], h * slopes[6], h * _combined(_DENSE, slopes)], 0)
    if tolerances is None:
        return new, detail
    rtol, atol = tolerances
    error = h * _combined(_ERROR, slopes) / (atol + rtol * maximum(abs(y), abs(new)))
    size = _root_mean_square(error)
    finite = reduce_max(abs(new)) < float("inf")  # also false for NaN
    return new, detail, array.where(finite, size, float("inf")), slopes[6]


def _root_mean_square(x: Tensor) -> Tensor:
    """The root mean square; 0 for no elements."""
    return (reduce_sum(x * x) / max(length(x), 1)) ** 0.5


def _combined(weights: Sequence[float], slopes: Sequence[Tensor]) -> Tensor:
    terms = [w * k for w, k in zip(weights, slopes, strict=True) if w]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def next_size(h: Tensor, error: Tensor) -> Tensor:
    """The size of the next step, from the error of the last one."""
    factor = 0.9 * maximum(error, 1e-10) ** -0.2
    return h * minimum(maximum(factor, 0.2), 10.0)


def starting_size(field: Field, y: Tensor, slope: Tensor, inputs: Sequence[Tensor], rtol: float, atol: float) -> Tensor:
    """The size of the first step, on an interval of length 1, from the magnitudes of y, y' and y''."""
    scale = atol + rtol * abs(y)

    def size(x: Tensor) -> Tensor:
        return _root_mean_square(x / scale)

    d0, d1 = size(y), size(slope)
    tiny = array.where((d0 < 1e-5) | (d1 < 1e-5), array.zeros_like(d0) + 1e-6, 0.01 * d0 / maximum(d1, 1e-5))
    h = minimum(tiny, 1.0)
    curvature = size(field(h, y + h * slope, inputs) - slope) / h
    largest = maximum(d1, curvature)
    guess = array.where(largest <= 1e-15, maximum(h * 1e-3, 1e-6), (0.01 / maximum(largest, 1e-15)) ** 0.2)
    return minimum(minimum(100.0 * h, guess), 1.0)


def interpolated(
    states: Tensor, details: Tensor, starts: Tensor, sizes: Tensor, place: Tensor, times: Tensor
) -> Tensor:
    """The states at some times, each of which is in the step with the number `place`."""
    before, after = array.gather(states, place), array.gather(states, place + 1)
    detail = array.gather(details, place)
    first, last, bend = detail[:, 0], detail[:, 1], detail[:, 2]
    share = ((times - array.gather(starts, place)) / array.gather(sizes, place))[:, None]
    rest = 1.0 - share
    change = after - before
    left = first - change
    return before + share * (change + rest * (left + share * (change - last - left + rest * bend)))
