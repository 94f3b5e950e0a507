"""Recognise attention that is written as separate ops.

Tutorials and papers write attention as two products with a softmax in between. A GPU has one operation for all three,
which never stores the weights of all pairs of positions. At the second product, the ops that computed its first operand
are known: if it is the softmax of a product, scaled and perhaps masked, the primitive `attention` replaces it. Ops that
computed only the weights are then unused, and dropped from the program.

A mask is a condition in `where`, or an added bias: 0, or a number so low that softmax gives the score no weight. A
position whose scores are all masked attends to all values alike, as in the formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gradtape._src.arrays.lazy import Lazy
from gradtape._src.core.primitive import Op, registry
from gradtape._src.graph.rewrites import sources
from gradtape._src.graph.rewrites.sources import Call, Path, Value, recall, remembered
from gradtape._src.ops import array, linalg, math, reduce
from gradtape._src.ops.attention import attention
from gradtape._src.tensor import CONSTANT, Tensor

FAR: dict[Any, float] = {np.dtype(np.float16): -3e4}
"""A score that is so low that softmax gives it no weight, by the dtype of the softmax."""
_FAR = -9.9e8  # -1e9, also rounded to bfloat16

_MOVES = frozenset({"broadcast_to", "expand_dims", "getitem", "reshape", "squeeze", "transpose"})
_SCALES = frozenset({"divide", "multiply"})
_LAST = frozenset({"softmax", "where"})
"""The last step to the weights, besides a cast."""


def instead(op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Tensor | None:
    """Attention instead of its second product, if the formula matches."""
    if len(inputs) != 2:
        return None
    weights, values = inputs
    dtype = weights.array.dtype
    if dtype.itemsize != 2 or values.array.dtype != dtype or not sources.is_worthwhile(weights.array):
        return None
    if not sources.is_result_of(weights.array, _LAST) and not sources.is_cast_of(weights.array, _LAST):
        return None
    path = Path()
    found = _scores(path, weights)
    if found is None or found.product.args[0].array.dtype != dtype:
        return None
    ranks = tuple([len(x.shape) for x in (*[a.array for a in found.product.args], weights.array, values.array)])
    axes = _axes_of(found.product.name, found.product.attrs, op.name, attrs, ranks)
    if axes is None:
        return None
    order, *letters, back = axes
    queries, keys = found.product.args[::order]
    if not path.leads_back_to(queries, keys):
        return None
    sizes = dict(zip(letters[0][1][:-2], found.shape[:-2], strict=True))
    if any(n not in (1, sizes[c]) for c, n in zip(letters[2][0], values.array.shape, strict=True) if c in sizes):
        return None  # there are more values than weights
    given = (queries.tensor(), keys.tensor(), values)
    operands = [_arranged(x, have, want, sizes) for x, (have, want) in zip(given, letters, strict=True)]
    out = _attend(operands, found)
    if back != tuple(range(len(back))):
        out = array.transpose(out, perm=back)
    path.replaced(op, inputs, attrs, [out])
    return out


class _Mask(NamedTuple):
    """One step that masks scores.

    condition  true for scores that count: an array if it is known, else a tensor
    replaces   whether masked scores are replaced, not added to
    lowest     the largest value of masked scores in the softmax
    """

    condition: Any
    replaces: bool
    lowest: float


class _Scores(NamedTuple):
    """The product inside a softmax, and the steps in between; the last mask comes first.

    zeroed  whether masked weights were also set to 0 after the softmax
    """

    product: Call
    scale: float
    masks: list[_Mask]
    shape: tuple[Any, ...]
    zeroed: bool


def _attend(operands: list[Tensor], found: _Scores) -> Tensor:
    is_known = [isinstance(mask.condition, np.ndarray) for mask in found.masks]
    causal = [known and _is_causal(m.condition, found.shape) for m, known in zip(found.masks, is_known, strict=True)]
    others = [_as_tensor(mask.condition) for mask, is_causal in zip(found.masks, causal, strict=True) if not is_causal]
    mask: list[Tensor] = [reduce_masks(others)] if others else []
    out: Tensor = attention(*operands, *mask, scale=found.scale, causal=any(causal))[0]
    if not mask or found.zeroed or not _may_be_blind(found.masks):
        return out
    allowed = mask[0]
    if any(causal):
        allowed = math.logical_and(allowed, _as_tensor(np.tri(*found.shape[-2:], dtype=bool)))
    seeing = reduce.any_(allowed, axis=(len(allowed.array.shape) - 1,), keepdims=True)
    return math.where(seeing, out, _blind(operands, found))


def _blind(operands: Sequence[Tensor], found: _Scores) -> Tensor:
    """The output of a position whose scores are all masked: the mean of all values.

    If a bias was added to its scores, derivatives go through them: with n weights of 1/n, a change of the scores by c
    changes the weighted sum of the values v by Σ (c - mean(c)) v / n. This term is computed from queries and keys,
    minus its value.
    """
    queries, keys, values = operands
    columns = len(values.array.shape) - 2
    mean = partial(reduce.mean, axis=(columns,), keepdims=True)
    out: Tensor = mean(values)
    if found.masks[0].lowest == -np.inf:
        return out * float("nan")
    if found.masks[0].replaces:
        return out
    centered = array.stop_gradient(values - mean(values))
    change = linalg.matmul(keys, centered, adjoint_x=True, adjoint_y=False)
    moved = linalg.matmul(queries, change, adjoint_x=False, adjoint_y=False)
    moved = moved * (found.scale / values.array.shape[columns])
    return out + (moved - array.stop_gradient(moved))


def reduce_masks(conditions: Sequence[Tensor]) -> Tensor:
    """The conjunction of all conditions."""
    first, *others = conditions
    for other in others:
        first = math.logical_and(first, other)
    return first


def _as_tensor(condition: Any) -> Tensor:
    return Value(condition, CONSTANT).tensor() if isinstance(condition, np.ndarray) else condition


def _may_be_blind(masks: Sequence[_Mask]) -> bool:
    """Whether the scores of some position may all be masked."""
    if not all(isinstance(mask.condition, np.ndarray) for mask in masks):
        return True
    if len(masks) == 1:
        known = masks[0].condition
        return remembered(known, "blind", lambda: not known.any(-1).all())
    together: Any = True
    for mask in masks:
        together = together & mask.condition
    return not together.any(-1).all()


def _are_alike(masks: Sequence[_Mask]) -> bool:
    """Whether all masked scores are equally low, however many masks apply: otherwise a position whose scores are all
    masked attends to the highest of them.
    """
    return len(masks) < 2 or (all(mask.replaces for mask in masks) and len({mask.lowest for mask in masks}) == 1)


# -- from the weights to the product ---------------------------------------------------------------------------------
def _scores(path: Path, weights: Tensor) -> _Scores | None:
    call = path.call(weights, "astype", "softmax", "where")
    if call is not None and call.name == "astype":
        call = path.call(call.args[0], "softmax", "where")
    if call is None:
        return None
    zeroed = None
    if call.name == "where":
        condition, value, zero = call.args
        zeroed = _condition(path, condition) if path.number(zero) == 0 and value.shape == call.shape else None
        call = None if zeroed is None else path.call(value, "softmax")
    if call is None or call.attrs["axis"] != len(call.shape) - 1:
        return None
    value, shape = call.args[0], call.shape
    scale = 1.0
    masks: list[_Mask] = []
    while True:
        call = path.call(value)
        if call is None or call.shape != shape or len(shape) < 2:
            return None
        if call.name in ("einsum", "matmul") and len(call.args) == 2:
            return _checked(_Scores(call, scale, masks, shape, zeroed is not None), zeroed)
        if call.name == "astype":
            value = call.args[0]
        elif call.name in _SCALES and (scaled := _scaled(path, call)) is not None:
            value, factor = scaled
            scale *= factor
        elif (masked := _masked(path, call, scale)) is not None:
            value, mask = masked
            masks.append(mask)
        else:
            return None


def _checked(found: _Scores, zeroed: Any) -> _Scores | None:
    """The scores, if attention gives the same result as the formula where all scores are masked."""
    masks = found.masks
    if found.zeroed:
        return found if len(masks) == 1 and _are_same(masks[0].condition, zeroed) else None
    return found if _are_alike(masks) or not _may_be_blind(masks) else None


def _are_same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return type(one) is type(other) and np.array_equal(one, other)
    return one.array is other.array


def _scaled(path: Path, call: Call) -> tuple[Value, float] | None:
    """A value, and the number that it is multiplied by."""
    x, y = call.args
    if (number := path.number(y)) is not None and x.shape == call.shape:
        return (x, number) if call.name == "multiply" else (x, 1 / number) if number else None
    number = path.number(x) if call.name == "multiply" and y.shape == call.shape else None
    return None if number is None else (y, number)


def _masked(path: Path, call: Call, scale: float) -> tuple[Value, _Mask] | None:
    """The scores before a mask was applied, and the mask.

    `scale` is what the scores are multiplied by afterwards.
    """
    far = FAR.get(getattr(call.args[-1].array, "dtype", None), _FAR) / max(scale, 1e-30)
    if call.name == "where":
        condition, x, y = call.args
        for scores, fill, negated in ((x, y, False), (y, x, True)):
            number = path.number(fill)
            if number is not None and number <= far and scores.shape == call.shape:
                found = _condition(path, condition)
                holds = None if found is None else _negated(found) if negated else found
                return None if holds is None else (scores, _Mask(holds, True, number * scale))
        return None
    if call.name == "subtract":
        pairs, sign = [call.args], -1
    elif call.name == "add":
        pairs, sign = [call.args, call.args[::-1]], 1
    else:
        return None
    for scores, bias in pairs:
        if scores.shape == call.shape and (allowed := _allowed_once(path, bias, sign, far)) is not None:
            holds, number = allowed
            return scores, _Mask(holds, False, number * scale)
    return None


def _condition(path: Path, value: Value) -> Any:
    """A boolean operand: an array if it is known, else a tensor."""
    if getattr(value.array, "dtype", None) != np.bool_:
        return None
    known = path.known(value)
    return Value(value.array, CONSTANT).tensor() if known is None else known


def _negated(condition: Any) -> Any:
    return ~condition if isinstance(condition, np.ndarray) else math.logical_not(condition)


def _allowed_once(path: Path, bias: Value, sign: int, far: float) -> tuple[Any, float] | None:
    """Like `_allowed`, but cached for a lazy array, because every layer uses the same mask."""
    if type(bias.array) is not Lazy:
        return _allowed(path.beside(), bias, sign, far)
    known = recall(bias.array, ("allowed", sign, far))
    if known is None:
        known = _allowed(path.beside(), bias, sign, far)
        if known is not None and isinstance(known[0], np.ndarray):
            remembered(bias.array, ("allowed", sign, far), lambda: known)
    return known


def _allowed(path: Path, bias: Value, sign: int, far: float) -> tuple[Any, float] | None:
    """The condition that a bias is 0, if it is at most `far` everywhere else; and its largest value there."""
    known = path.known(bias)
    if known is not None:
        zero, low = _zeros_and_highest(known, sign)
        return (zero, low) if known.dtype.kind in "fV" and low <= far else None
    call = path.call(bias)
    if call is None:
        return None
    if call.name == "astype":
        return _allowed(path, call.args[0], sign, far)
    if call.name in _MOVES and len(call.args) == 1:
        found = _allowed(path, call.args[0], sign, far)
        if found is None:
            return None
        condition, number = found
        return registry[call.name].call(_as_tensor(condition), **call.attrs), number
    if call.name == "where":
        return _chosen(path, call, sign, far)
    if call.name == "multiply":
        for factor, other in (call.args, call.args[::-1]):
            lowest = path.number(factor)
            if lowest is not None and sign * lowest <= far and (truth := _truth(path, other)) is not None:
                return _negated(truth), sign * lowest
    return None


def _zeros_and_highest(bias: np.ndarray, sign: int) -> tuple[np.ndarray, float]:
    """The condition that numbers are 0, and the largest of the others, times a sign."""

    def find() -> tuple[np.ndarray, float]:
        zero = bias == 0
        zero.flags.writeable = False
        low = sign * bias[~zero]
        return zero, float(low.max()) if low.size else -np.inf

    return remembered(bias, ("zeros", sign), find)


def _chosen(path: Path, call: Call, sign: int, far: float) -> tuple[Any, float] | None:
    """Like `_allowed`, for a choice between two numbers."""
    condition = _condition(path, call.args[0])
    x, y = [path.number(value) for value in call.args[1:]]
    if condition is None or x is None or y is None:
        return None
    if x == 0 and sign * y <= far:
        return condition, sign * y
    return (_negated(condition), sign * x) if y == 0 and sign * x <= far else None


def _truth(path: Path, value: Value) -> Any:
    """The condition of numbers that are 1 where it is true, and 0 elsewhere."""
    known = path.known(value)
    if known is not None:
        is_one = known == 1
        return is_one if (is_one | (known == 0)).all() else None
    call = path.call(value, "astype", "maximum", "subtract", "where", *_MOVES)
    if call is None:
        return None
    if call.name == "astype":
        source = call.args[0]
        return _condition(path, source) if source.array.dtype == np.bool_ else _truth(path, source)
    if call.name == "subtract":
        found = _truth(path, call.args[1]) if path.number(call.args[0]) == 1 else None
        return None if found is None else _negated(found)
    if call.name == "where":
        condition, x, zero = call.args
        parts = [_condition(path, condition), _truth(path, x) if path.number(zero) == 0 else None]
    else:
        parts = [_truth(path, arg) for arg in call.args]
    if any(part is None for part in parts):
        return None
    if call.name in _JOINED:
        return _joined(call.name, *parts)
    return registry[call.name].call(_as_tensor(parts[0]), **call.attrs)


_JOINED = {"maximum": (np.logical_or, math.logical_or), "where": (np.logical_and, math.logical_and)}
"""Ops on 0 and 1 as ops on conditions, for known and for computed ones."""


def _joined(name: str, one: Any, other: Any) -> Any:
    known, computed = _JOINED[name]
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return known(one, other)
    return computed(_as_tensor(one), _as_tensor(other))


def _is_causal(allowed: np.ndarray, shape: Sequence[Any]) -> bool:
    """Whether a condition is exactly the causal mask: no position attends to later ones."""
    rows, columns = shape[-2:]
    if allowed.shape[-2:] != (rows, columns) or allowed.size != rows * columns:  # differs along leading axes
        return False
    return remembered(allowed, "causal", lambda: np.array_equal(allowed.reshape(rows, columns), np.tri(rows, columns)))


# -- axes ------------------------------------------------------------------------------------------------------------
_known_axes: dict[Any, list[Any] | None] = {}


def _axes_of(
    first: str, first_attrs: dict[str, Any], second: str, second_attrs: dict[str, Any], ranks: tuple[int, ...]
) -> list[Any] | None:
    """The result of `_axes` for two products, cached: all layers have the same."""
    key = (first, *first_attrs.items(), second, *second_attrs.items(), ranks)
    try:
        return _known_axes[key]
    except KeyError:
        found = _axes(_letters(first, first_attrs, ranks[:2]), _letters(second, second_attrs, ranks[2:]))
        if len(_known_axes) >= 1000:
            _known_axes.clear()
        _known_axes[key] = found
        return found


def _axes(first: tuple[str, str, str] | None, second: tuple[str, str, str] | None) -> list[Any] | None:
    """The order of queries and keys, 1 or -1; for these and the values, the letters of their axes and those of the
    wanted order [..., positions, features]; and how the result is transposed.
    """
    if first is None or second is None:
        return None
    (q, k, scores), (shares, v, out) = first, second
    order = 1
    if scores[-2:-1] not in q:  # the keys are the first operand
        (q, k), order = (k, q), -1
    if len(scores) < 2 or len(shares) != len(scores) or len({*shares}) != len(shares):
        return None
    same = dict(zip(shares, scores, strict=True))
    fresh = iter("ABCDEFGHIJKLMNOPQRSTUVWXYZ")  # distinct from `scores`, whose letters are lowercase
    v, out = ["".join([same[c] if c in same else same.setdefault(c, next(fresh)) for c in term]) for term in (v, out)]
    front, row, column = scores[:-2], scores[-2], scores[-1]
    feature, value = {*q} - {*scores}, {*v} - {*scores}
    if len(feature) != 1 or len(value) != 1:
        return None
    wanted = [front + row + min(feature), front + column + min(feature), front + column + min(value)]
    for have, want in zip((q, k, v), wanted, strict=True):
        if len({*have}) != len(have) or not {*want[-2:]} <= {*have} <= {*want}:
            return None
    result = front + row + min(value)
    if sorted(out) != sorted(result):
        return None
    return [order, *zip((q, k, v), wanted, strict=True), tuple(result.index(c) for c in out)]


def _letters(name: str, attrs: dict[str, Any], ranks: Sequence[int]) -> tuple[str, str, str] | None:
    """A product as an equation: the letters of its operands and of its result."""
    if name == "einsum":
        terms, result = attrs["equation"].split("->")
        x, y = terms.split(",")
        return (x, y, result) if (x + y + result).islower() and (x + y + result).isalpha() else None
    if min(ranks) < 2:
        return None
    front = "abcdefghijklmnop"[: max(ranks) - 2]
    x = front[max(ranks) - ranks[0] :] + ("wu" if attrs.get("adjoint_x") else "uw")
    y = front[max(ranks) - ranks[1] :] + ("vw" if attrs.get("adjoint_y") else "wv")
    return x, y, front + "uv"


def _arranged(x: Tensor, have: str, want: str, sizes: dict[str, Any]) -> Tensor:
    """An operand with its axes in the wanted order; missing axes and axes of length 1 are broadcast."""
    order = tuple([have.index(c) for c in want if c in have])
    if order != tuple(range(len(order))):
        x = array.transpose(x, perm=order)
    if len(have) < len(want):
        lengths = dict(zip([c for c in want if c in have], x.array.shape, strict=True))
        x = array.reshape(x, shape=tuple([lengths.get(c, 1) for c in want]))
    shape = (*[sizes[c] for c in want[:-2]], *x.array.shape[-2:])
    return x if tuple(x.array.shape) == shape else array.broadcast_to(x, shape=shape)
