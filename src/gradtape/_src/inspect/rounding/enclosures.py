"""Enclosures of the exact results of primitives, from enclosures of their operands: one rule for each primitive.

Kernels run in double precision; a rule adds their rounding errors. Two assumptions are made about NumPy: a sum of n
terms has n roundings in any order, and a function is accurate to the number of units in the last place given with its
rule (`tests/inspect/test_certify.py` measures them with more digits).

A primitive without a rule is estimated (`estimated`): its kernel runs at nearby points, which shows how it magnifies
errors, but proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gradtape._src.arrays import numpy_namespace
from gradtape._src.arrays.shared.elementwise import GELU_SCALE, GELU_TANH
from gradtape._src.core.primitive import Op
from gradtape._src.inspect.rounding.interval import (
    EPS,
    TINY,
    Array,
    Interval,
    around,
    as_interval,
    choose,
    hull,
    joined,
    monotone,
    outward,
    unknown,
)
from gradtape._src.interrupts import is_interrupt

Enclosures = tuple[Interval, ...]
Rule = Callable[..., Any]


class Call(NamedTuple):
    """One op of a recording: the computed values, and enclosures of the exact operands."""

    op: Op
    attrs: dict[str, Any]
    arrays: list[Array]  # the computed operands
    outputs: list[Array]  # the computed results
    inputs: list[Interval]
    varies: tuple[bool, ...] = ()  # whether each operand is not a constant

    def kernel(self, *arrays: Any) -> Any:
        """The kernel of the primitive, with the call's static arguments."""
        return getattr(numpy_namespace, self.op.name)(*arrays, **self.attrs)


class UndecidedError(Exception):
    """Rounding decides which elements an op selects."""


rules: dict[str, Rule] = {}
"""Functions that enclose the results of a primitive, from the call and the intervals of its operands."""

complex_rules: dict[str, Rule] = {}
"""The same for calls with complex operands or results: see `complex_numbers.py`."""


def enclose(call: Call) -> tuple[Enclosures, bool]:
    """Enclose the exact results, and tell whether that is proved."""
    kinds = {array.dtype.kind for array in (*call.arrays, *call.outputs)}
    if kinds & set("OSUV"):
        return estimated(call), False
    if kinds <= set("biu") and _are_points(call):
        return tuple(map(as_interval, call.outputs)), True
    rule = (complex_rules if "c" in kinds else rules).get(call.op.name)
    if rule is None:
        return estimated(call), False
    try:
        found = rule(call, *call.inputs)
    except UndecidedError:
        return estimated(call), False
    return found if type(found) is tuple else (found,), True


def _are_points(call: Call) -> bool:
    return all(x.is_point() for x in call.inputs)


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register the rule of some primitives."""

    def declare(function: Rule) -> Rule:
        rules.update(dict.fromkeys(names, function))
        return function

    return declare


def of(name: str, *operands: Interval, **attrs: Any) -> Interval:
    """The enclosure of another primitive, as part of a rule."""
    call = Call(_Part(name), attrs, [], [], list(operands))  # type: ignore[arg-type]
    found: Interval = rules[name](call, *operands)
    return found


class _Part(NamedTuple):
    name: str


# -- ops that only move elements -------------------------------------------------------------------------------------
MOVES = (
    "identity", "reshape", "transpose", "unstack", "split", "concatenate", "stack", "getitem", "setitem", "take",
    "check_numerics", "stop_gradient", "guarantee_const", "broadcast_to", "pad", "flip", "roll", "pinned", "transfer",
    "gather_nd", "take_along_axis", "replace_nd", "conv_patches", "frame", "shuffle_rows", "real", "conj",
)  # fmt: skip


@rule(*MOVES)
def _moves(call: Call, *xs: Interval) -> Any:
    """Move both ends in the same way. Positions have to be known."""
    lows, highs = call.kernel(*_ends(xs, "lo")), call.kernel(*_ends(xs, "hi"))
    pools = {id(x.pool): x.pool for x in xs if x.lo.dtype.kind == "f"}
    pool = next(iter(pools.values())) if len(pools) == 1 else None
    if type(lows) is tuple:
        return tuple(Interval(lo, hi, pool) for lo, hi in zip(lows, highs, strict=True))
    return Interval(lows, highs, pool)


def _ends(xs: tuple[Interval, ...], end: str) -> list[Array]:
    for x in xs:
        if x.lo.dtype.kind in "iu" and not x.is_point():
            raise UndecidedError
    return [getattr(x, end) for x in xs]


@rule("astype", "discrete_cast")
def _cast(call: Call, x: Interval) -> Interval:
    """Casts between floating dtypes are exact: the rounding of a narrower one is an error of the computation."""
    dtype = np.dtype(call.attrs["dtype"])
    if dtype.kind == "b":
        zero = (x.lo <= 0) & (x.hi >= 0)
        return Interval(~zero, ~(zero & (x.lo == x.hi)))
    if dtype.kind in "iu":
        return Interval(x.lo.astype(dtype), x.hi.astype(dtype))
    return Interval(x.lo.astype(np.float64), x.hi.astype(np.float64), x.pool if x.lo.dtype.kind == "f" else None)


# -- arithmetic ------------------------------------------------------------------------------------------------------
rule("add")(lambda call, x, y: x + y)
rule("subtract")(lambda call, x, y: x - y)
rule("multiply")(lambda call, x, y: x * y)
rule("divide")(lambda call, x, y: x / y)
rule("negative")(lambda call, x: -x)
rule("reciprocal")(lambda call, x: 1.0 / x)
rule("squared_difference")(lambda call, x, y: square(x - y))
rule("square")(lambda call, x: square(x))
rule("divide_no_nan", "xdivy")(
    lambda call, x, y: _zero_where(y if call.op.name == "divide_no_nan" else x, x / _away_from_zero(y, call))
)
rule("multiply_no_nan")(lambda call, x, y: _zero_where(y, x * y))
rule("xlogy")(lambda call, x, y: _zero_where(x, x * of("log", y)))
rule("xlog1py")(lambda call, x, y: _zero_where(x, x * of("log1p", y)))


def square(x: Interval) -> Interval:
    """x squared, without the overestimate of x * x, which ignores that both factors are equal."""
    ends = x.lo * x.lo, x.hi * x.hi
    low = np.where((x.lo <= 0) & (x.hi >= 0), 0.0, np.minimum(*ends))
    return outward(low, np.maximum(*ends)).clipped(0.0, np.inf)


def _zero_where(x: Interval, product: Interval) -> Interval:
    """0 where x is 0, and possibly where x may be 0."""
    return choose(_compare("equal", x, as_interval(0.0)), as_interval(0.0), product)


def _away_from_zero(y: Interval, call: Call) -> Interval:
    """A divisor without zero; where it is exactly 0 the quotient is not used."""
    zero = (y.lo == 0) & (y.hi == 0)
    return Interval(np.where(zero, 1.0, y.lo), np.where(zero, 1.0, y.hi))


@rule("mod")
def _mod(call: Call, x: Interval, y: Interval) -> Interval:
    quotient = x / y
    turns = Interval(np.floor(quotient.lo), np.floor(quotient.hi))
    remainder = x - y * Interval(turns.lo, turns.lo)
    somewhere = hull(as_interval(0.0), y)
    same = turns.lo == turns.hi
    return Interval(np.where(same, remainder.lo, somewhere.lo), np.where(same, remainder.hi, somewhere.hi))


@rule("power")
def _power(call: Call, x: Interval, y: Interval) -> Interval:
    """Monotone in each operand, so that the extremes are at the corners."""
    corners = [np.power(a, b) for a in (x.lo, x.hi) for b in (y.lo, y.hi)]
    lo = np.minimum.reduce(np.broadcast_arrays(*corners))
    hi = np.maximum.reduce(np.broadcast_arrays(*corners))
    spans = (x.lo < 0) & (x.hi > 0)
    whole = (y.lo == y.hi) & (y.lo == np.rint(y.lo))
    lo = np.where(spans & whole & (y.lo > 0), np.minimum(lo, 0.0), lo)
    lost = ((x.lo <= 0) & ~whole & ~((x.lo >= 0) & (y.lo > 0))) | ((x.lo <= 0) & (x.hi >= 0) & (y.lo < 0))
    found = outward(lo, hi, ulps=4)
    return Interval(np.where(lost, -np.inf, found.lo), np.where(lost, np.inf, found.hi))


@rule("arctan2")
def _arctan2(call: Call, y: Interval, x: Interval) -> Interval:
    """The angle has its extremes at corners of a rectangle that does not touch the branch cut."""
    corners = np.broadcast_arrays(*[np.arctan2(b, a) for b in (y.lo, y.hi) for a in (x.lo, x.hi)])
    found = outward(np.minimum.reduce(corners), np.maximum.reduce(corners), ulps=4)
    cut = (x.lo <= 0) & (y.lo <= 0) & (y.hi >= 0)
    return Interval(
        np.where(cut, -np.nextafter(math.pi, 4), found.lo), np.where(cut, np.nextafter(math.pi, 4), found.hi)
    )


# -- functions of one variable ---------------------------------------------------------------------------------------
ACCURACY = {"erf": 16.0, "erfc": 16.0, "ndtr": 16.0, "erfinv": 16.0, "erfcinv": 16.0, "ndtri": 16.0}
"""The accuracy of our own functions in units in the last place (3 were measured); NumPy's functions have 4."""

MONOTONE: dict[str, dict[str, Any]] = {
    "exp": {"bounds": (0.0, np.inf)}, "expm1": {"bounds": (-1.0, np.inf)}, "log": {"domain": (0.0, np.inf)},
    "log1p": {"domain": (-1.0, np.inf)}, "sqrt": {"domain": (0.0, np.inf), "bounds": (0.0, np.inf)},
    "rsqrt": {"domain": (0.0, np.inf), "bounds": (0.0, np.inf), "rising": False},
    "arcsin": {"domain": (-1.0, 1.0)}, "arccos": {"domain": (-1.0, 1.0), "rising": False}, "arctan": {}, "sinh": {},
    "tanh": {"bounds": (-1.0, 1.0)}, "arcsinh": {}, "arccosh": {"domain": (1.0, np.inf), "bounds": (0.0, np.inf)},
    "arctanh": {"domain": (-1.0, 1.0)}, "sigmoid": {"bounds": (0.0, 1.0)}, "softplus": {"bounds": (0.0, np.inf)},
    "elu": {}, "selu": {}, "softsign": {"bounds": (-1.0, 1.0)}, "erf": {"bounds": (-1.0, 1.0)},
    "erfc": {"bounds": (0.0, 2.0), "rising": False}, "ndtr": {"bounds": (0.0, 1.0)}, "erfinv": {"domain": (-1.0, 1.0)},
    "erfcinv": {"domain": (0.0, 2.0), "rising": False}, "ndtri": {"domain": (0.0, 1.0)},
}  # fmt: skip
EXACT = ("relu", "relu6", "floor", "ceil", "rint", "sign")
"""Monotone functions without rounding."""


def _monotone_rule(name: str) -> Rule:
    facts = {"ulps": ACCURACY.get(name, 4.0), **MONOTONE[name]}
    return lambda call, x: monotone(getattr(numpy_namespace, name), x, **facts)


for _name in MONOTONE:
    rule(_name)(_monotone_rule(_name))


@rule(*EXACT)
def _exact(call: Call, x: Interval) -> Interval:
    return Interval(call.kernel(x.lo), call.kernel(x.hi))


@rule("absolute")
def _absolute(call: Call, x: Interval) -> Interval:
    ends = np.abs(x.lo), np.abs(x.hi)
    return Interval(np.where((x.lo <= 0) & (x.hi >= 0), 0, np.minimum(*ends)), np.maximum(*ends))


@rule("cosh")
def _cosh(call: Call, x: Interval) -> Interval:
    return monotone(np.cosh, _absolute(call, x), bounds=(1.0, np.inf))


@rule("sin", "cos")
def _wave(call: Call, x: Interval) -> Interval:
    """Monotone between its extremes; an interval that may contain one ends there."""
    f, shift = (np.sin, 0.25) if call.op.name == "sin" else (np.cos, 0.0)
    found = outward(*_ordered(f(x.lo), f(x.hi)), ulps=4).clipped(-1.0, 1.0)
    turns = [end / (2 * math.pi) - shift for end in (x.lo, x.hi)]  # a maximum at every integer
    slack = 1e-14 + 4 * EPS * np.maximum(np.abs(turns[0]), np.abs(turns[1]))
    top = np.floor(turns[1] + slack) >= np.ceil(turns[0] - slack)
    bottom = np.floor(turns[1] + 0.5 + slack) >= np.ceil(turns[0] + 0.5 - slack)
    lost = ~(slack < 0.1)
    return Interval(np.where(bottom | lost, -1.0, found.lo), np.where(top | lost, 1.0, found.hi))


@rule("tan")
def _tan(call: Call, x: Interval) -> Interval:
    found = outward(np.tan(x.lo), np.tan(x.hi), ulps=4)
    turns = [end / math.pi + 0.5 for end in (x.lo, x.hi)]  # a pole at every integer
    slack = 1e-14 + 4 * EPS * np.maximum(np.abs(turns[0]), np.abs(turns[1]))
    pole = ~(np.floor(turns[1] + slack) < np.ceil(turns[0] - slack))
    return Interval(np.where(pole, -np.inf, found.lo), np.where(pole, np.inf, found.hi))


def _ordered(x: Array, y: Array) -> tuple[Array, Array]:
    return np.minimum(x, y), np.maximum(x, y)


@rule("leaky_relu")
def _leaky_relu(call: Call, x: Interval) -> Interval:
    positive = _compare("greater", x, as_interval(0.0))
    slope = float(np.float64(call.attrs["alpha"]))
    return choose(positive, x, x * around(slope, abs(slope) * 2.0**-24))  # the kernel rounds it to the dtype of x


_SCALE: Interval = hull(as_interval(1.0), as_interval(GELU_SCALE))  # some kernels have TensorFlow's factor
rule("silu")(lambda call, x: x * of("sigmoid", x))
rule("gelu")(lambda call, x: x * of("ndtr", x * _SCALE))
rule("gelu_slope")(lambda call, x: _gelu_slope(x * _SCALE))
rule("sigmoid_cross_entropy")(lambda call, x, y: of("relu", x) - x * y + of("log1p", of("exp", -_absolute(call, x))))


def _gelu_slope(x: Interval) -> Interval:
    bell = of("exp", square(x) * -0.5) * outward(*[1 / math.sqrt(2 * math.pi)] * 2)
    return of("ndtr", x) + x * bell


@rule("gelu_tanh")
def _gelu_tanh(call: Call, x: Interval) -> Interval:
    scale, cubic = GELU_TANH
    return x * 0.5 * (of("tanh", x * scale * (square(x) * cubic + 1.0)) + 1.0)


@rule("gelu_tanh_slope")
def _gelu_tanh_slope(call: Call, x: Interval) -> Interval:
    scale, cubic = GELU_TANH
    squared = square(x)
    t = of("tanh", x * scale * (squared * cubic + 1.0))
    slope = x * scale * (squared * (3 * cubic) + 1.0) * (1.0 - square(t))
    return (slope + t + 1.0) * 0.5


# -- comparisons and choices -----------------------------------------------------------------------------------------
COMPARISONS: dict[str, Callable[[Array, Array, Array, Array], tuple[Array, Array]]] = {
    "less": lambda a, b, c, d: (b < c, a < d),
    "less_equal": lambda a, b, c, d: (b <= c, a <= d),
    "greater": lambda a, b, c, d: (a > d, b > c),
    "greater_equal": lambda a, b, c, d: (a >= d, b >= c),
    "equal": lambda a, b, c, d: ((a == b) & (c == d) & (a == c), (a <= d) & (c <= b)),
    "not_equal": lambda a, b, c, d: ((a > d) | (c > b), ~((a == b) & (c == d) & (a == c))),
}
"""Whether the comparison of [a, b] and [c, d] is certainly true, and whether it may be true."""


def _compare(name: str, x: Interval, y: Interval) -> Interval:
    return Interval(*COMPARISONS[name](x.lo, x.hi, y.lo, y.hi))


@rule(*COMPARISONS)
def _comparison(call: Call, x: Interval, y: Interval) -> Interval:
    """Elements of one pool, such as a maximum and its operands, are known to be equal or not."""
    found, same = _compare(call.op.name, x, y), x.is_same(y)
    if same is None:
        return found
    when_same = call.op.name in ("equal", "less_equal", "greater_equal")
    return Interval(np.where(same, when_same, found.lo), np.where(same, when_same, found.hi))


@rule("logical_and", "logical_or", "any", "all")
def _logical(call: Call, *xs: Interval) -> Interval:
    return Interval(call.kernel(*[x.lo for x in xs]), call.kernel(*[x.hi for x in xs]))


rule("logical_not")(lambda call, x: Interval(~x.hi, ~x.lo))
rule("isfinite", "isnan", "isinf")(lambda call, x: as_interval(call.outputs[0]))
rule("where")(lambda call, condition, x, y: choose(condition, x, y))
rule("gate")(lambda call, x, y: choose(_compare("greater", y, as_interval(0.0)), x, as_interval(0.0)))


@rule("maximum", "minimum")
def _extreme_of_two(call: Call, x: Interval, y: Interval) -> Interval:
    return Interval(call.kernel(x.lo, y.lo), call.kernel(x.hi, y.hi))


@rule("max", "min", "segment_max", "segment_min", "scatter_max", "scatter_min", "max_pool")
def _extreme(call: Call, *xs: Interval) -> Interval:
    """Monotone in each element, and selects one of them."""
    floating = [x for x in xs if x.lo.dtype.kind == "f"]
    pool = floating[0].pool if len(floating) == 1 else None
    return Interval(call.kernel(*_ends(xs, "lo")), call.kernel(*_ends(xs, "hi")), pool)


@rule("argmax", "argmin", "argsort", "max_position")
def _position(call: Call, x: Interval, *others: Interval) -> Interval:
    if not x.is_ordered():
        raise UndecidedError
    return as_interval(call.kernel(x.lo, *[other.lo for other in others]))


@rule("top_k")
def _top_k(call: Call, x: Interval) -> Enclosures:
    """The sorted lower ends and sorted upper ends enclose the sorted elements."""
    if not x.is_ordered():
        raise UndecidedError
    (low, positions), (high, _) = call.kernel(x.lo), call.kernel(x.hi)
    return Interval(low, high, x.pool), as_interval(positions)


@rule("max_unpool", "max_pick")
def _by_position(call: Call, z: Interval, x: Interval, top: Interval) -> Interval:
    """Linear in z, at positions that the maxima of x determine."""
    if not x.is_ordered():
        raise UndecidedError
    return _sums(call, z, x.lo, numpy_namespace.max_pool(x.lo, **call.attrs))


# -- sums ------------------------------------------------------------------------------------------------------------
SUMS = (
    "sum", "mean", "cumsum", "sum_pool", "sum_unpool", "avg_pool", "avg_unpool", "conv_patches_grad", "overlap_add",
)  # fmt: skip


@rule(*SUMS)
def _sum(call: Call, x: Interval) -> Interval:
    if call.op.name in ("sum", "mean"):
        return _reduced(call.op.name, x, **call.attrs)
    return _sums(call, x)


@rule("add_rows", "scatter_nd", "put_along_axis")
def _scattered(call: Call, x: Interval, indices: Interval) -> Interval:
    _ends((indices,), "lo")
    return _sums(call, x, indices.lo)


def _sums(call: Call, x: Interval, *rest: Array) -> Interval:
    """Sums of elements with positive weights: each end of the result is the sum of ends, up to n roundings."""
    slack = (x.size + 2) * EPS * call.kernel(x.magnitude, *rest) + TINY * x.size
    return outward(call.kernel(x.lo, *rest) - slack, call.kernel(x.hi, *rest) + slack)


def _reduced(name: str, x: Interval, axis: Any, keepdims: bool = False) -> Interval:
    kernel = getattr(numpy_namespace, name)
    lo, hi, size = (kernel(a, axis=axis, keepdims=keepdims) for a in (x.lo, x.hi, x.magnitude))
    terms = math.prod(x.shape[i] for i in axis)
    slack = (terms + 2) * EPS * size + TINY * terms
    return outward(lo - slack, hi + slack)


@rule("prod", "cumprod", "running_product")
def _products(call: Call, x: Interval) -> Interval:
    if call.op.name == "prod":
        axes, kept = call.attrs["axis"], call.attrs.get("keepdims", False)
        rest = [i for i in range(len(x.shape)) if i not in axes]
        lo, hi = (a.transpose(*axes, *rest).reshape(-1, *[x.shape[i] for i in rest]) for a in (x.lo, x.hi))
        total = _running(Interval(lo, hi), exclusive=False)
        shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape) if kept or i not in axes)
        last = total[-1] if total else as_interval(np.ones([x.shape[i] for i in rest]))
        return Interval(last.lo.reshape(shape), last.hi.reshape(shape))
    axis, reverse = call.attrs["axis"], call.attrs["reverse"]
    lo, hi = (np.moveaxis(a, axis, 0)[:: -1 if reverse else 1] for a in (x.lo, x.hi))
    steps = _running(Interval(lo, hi), call.attrs["exclusive"])[:: -1 if reverse else 1]
    if not steps:
        return x
    return Interval(np.stack([s.lo for s in steps], axis), np.stack([s.hi for s in steps], axis))


def _running(x: Interval, exclusive: bool) -> list[Interval]:
    """The products of the first row, the first two, and so on; exclusive: without the last of each."""
    total = as_interval(np.ones(x.shape[1:]))
    steps = []
    for lo, hi in zip(x.lo, x.hi, strict=True):
        following = total * Interval(lo, hi)
        steps.append(total if exclusive else following)
        total = following
    return steps


# -- sums of products ------------------------------------------------------------------------------------------------
@rule("matmul", "einsum", "conv", "conv_input_grad", "conv_filter_grad")
def _product(call: Call, *xs: Interval) -> Interval:
    """Linear in each operand, with weights 0 and 1: midpoints give the midpoint, radii times magnitudes the radius."""
    middles, radii = [x.middle for x in xs], [x.radius for x in xs]
    if not all(np.isfinite(r).all() for r in radii):
        return unknown(call.outputs[0].shape)
    sizes = [x.magnitude for x in xs]
    moved = sum(call.kernel(*sizes[:i], radius, *sizes[i + 1 :]) for i, radius in enumerate(radii))
    terms = max(x.size for x in xs) if call.op.name != "matmul" else max(xs[0].shape[-2:])
    slack = (terms + len(xs)) * EPS
    return around(call.kernel(*middles), (1 + slack) * moved + slack * call.kernel(*sizes) + TINY * terms)


# -- compositions ----------------------------------------------------------------------------------------------------
@rule("logsumexp")
def _logsumexp(call: Call, x: Interval) -> Interval:
    return _log_of_sum(x, call.attrs["axis"], call.attrs.get("keepdims", False))


def _log_of_sum(x: Interval, axis: Any, keepdims: bool) -> Interval:
    """Monotone in each element."""
    lo, hi = (numpy_namespace.logsumexp(a, axis=axis, keepdims=keepdims) for a in (x.lo, x.hi))
    size = np.max(x.magnitude, axis=tuple(axis), keepdims=keepdims, initial=0)
    slack = EPS * (math.prod(x.shape[i] for i in axis) + 16 + 4 * np.maximum(np.maximum(np.abs(lo), np.abs(hi)), size))
    return outward(lo - slack, hi + slack)


@rule("softmax")
def _softmax(call: Call, x: Interval) -> Interval:
    axis = call.attrs["axis"] % len(x.shape)
    top = np.max(x.hi, axis=axis, keepdims=True, initial=-np.inf)
    powers = of("exp", x - np.where(np.isfinite(top), top, 0.0))
    return (powers / _reduced("sum", powers, (axis,), keepdims=True)).clipped(0.0, 1.0)


@rule("log_softmax")
def _log_softmax(call: Call, x: Interval) -> Interval:
    axis = call.attrs["axis"] % len(x.shape)
    return x - _log_of_sum(x, (axis,), True)


@rule("sparse_cross_entropy")
def _sparse_cross_entropy(call: Call, logits: Interval, labels: Interval) -> Enclosures:
    (hot,) = _ends((labels,), "lo")
    marks = hot[..., None] == np.arange(logits.shape[-1])
    lo, hi = (np.take_along_axis(a, hot[..., None].astype(np.int64), -1)[..., 0] for a in (logits.lo, logits.hi))
    loss = _log_of_sum(logits, (len(logits.shape) - 1,), False) - Interval(lo, hi)
    return loss.clipped(0.0, np.inf), of("softmax", logits, axis=-1) - marks.astype(np.float64)


@rule("cross_entropy")
def _cross_entropy(call: Call, logits: Interval, labels: Interval) -> Interval:
    return -_reduced("sum", labels * of("log_softmax", logits, axis=-1), (len(logits.shape) - 1,))


@rule("variance")
def _variance(call: Call, x: Interval) -> Interval:
    axis = call.attrs["axis"]
    centered = x - _reduced("mean", x, axis, keepdims=True)
    return _reduced("mean", square(centered), axis, keepdims=call.attrs.get("keepdims", False))


@rule("standardize")
def _standardize(call: Call, x: Interval) -> Enclosures:
    last = (len(x.shape) - 1,)
    centered = x - _reduced("mean", x, last, keepdims=True) if call.attrs.get("centered", True) else x
    mean_square = _reduced("mean", square(centered), last, keepdims=True) + float(call.attrs["epsilon"])
    inverse = of("rsqrt", mean_square)
    return centered * inverse, inverse


# -- estimates -------------------------------------------------------------------------------------------------------
PROBES = 4
STEP = 2.0**-26
"""The relative distance of nearby points: large compared with rounding, small compared with everything else."""

MARGIN = 8.0
"""The factor by which an estimated error is assumed to exceed what probes show."""


def estimated(call: Call) -> Enclosures:
    """The kernel in double precision, and its magnification of relative errors at a few nearby points."""
    centers = [_center(x, array) for x, array in zip(call.inputs, call.arrays, strict=True)]
    try:
        found = _kernel_results(call, centers)
        moving = list(zip(centers, call.varies, strict=True))
        moved = [_kernel_results(call, [_probed(c, k) if v else c for c, v in moving]) for k in range(PROBES)]
    except Exception as error:  # a kernel may reject other dtypes, and programs have none
        if is_interrupt(error):
            raise
        return tuple(unknown(array.shape, array.dtype) for array in call.outputs)
    relative = max([_relative(x) for x in call.inputs if x.lo.dtype.kind in "fc"], default=0.0) + 16 * EPS
    return tuple(
        _estimate(value, [probe[i] for probe in moved], relative, output)
        for i, (value, output) in enumerate(zip(found, call.outputs, strict=True))
    )


def _estimate(value: Array, probes: list[Array], relative: float, output: Array) -> Interval:
    if output.dtype.kind not in "fc" or value.shape != output.shape:
        return as_interval(output) if output.dtype.kind in "biu" else unknown(output.shape, output.dtype)
    slope = np.max([np.abs(probe - value) for probe in probes], axis=0) / STEP
    radius = MARGIN * (relative * slope + 16 * EPS * (np.abs(value) + np.max(np.abs(value), initial=0)))
    radius = np.where(np.isnan(radius), np.inf, radius)
    if output.dtype.kind == "c":
        return joined(around(np.real(value), radius), around(np.imag(value), radius))
    return around(value, radius)


def _center(x: Interval, array: Array) -> Array:
    return x.middle if x.lo.dtype.kind in "fc" else array


def _relative(x: Interval) -> float:
    """The largest radius relative to the largest number: elements near 0 have no relative error of their own."""
    size = float(np.max(np.abs(x.middle), initial=0))
    radius = float(np.max(x.radius, initial=0))
    return radius / size if size else radius


def _probed(x: Array, probe: int) -> Array:
    """A nearby point."""
    if x.dtype.kind not in "fc":
        return x
    signs = np.random.default_rng(probe).choice([-1.0, 1.0] if x.dtype.kind == "f" else [1, 1j, -1, -1j], x.shape)
    return x + STEP * signs * np.maximum(np.abs(x), np.max(np.abs(x), initial=0) * 2.0**-10)


def _kernel_results(call: Call, arrays: list[Array]) -> list[Array]:
    found = call.kernel(*arrays)
    return [np.asarray(each) for each in (found if type(found) is tuple else (found,))]
