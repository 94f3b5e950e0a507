"""Interval analysis of the integers in a graph: leave out checks that always hold.

For `tf.gather(x, tf.argmax(y))`, clipped indices or the counter of a loop, the smallest and largest values follow from
the nodes that compute them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradtape._src.arrays.checks import Interval
from gradtape._src.arrays.dimensions import evaluated, is_dimension
from gradtape._src.arrays.symbolic import Node, Symbolic
from gradtape._src.ops.index import inside

Given = Mapping[int, Interval]
"""The known intervals of inputs of a graph, by the id of their symbol."""

_DEEPEST = 16
"""The largest depth of nodes that is searched."""

_LARGEST = 2**16
"""The largest number of elements of a constant that are read."""


def without_proved(nodes: Sequence[Node], given: Given, sizes: Mapping[str, Any]) -> list[Node]:
    """The nodes of a program without checks that always hold. `sizes` are the values of unknown dimensions."""
    if not any(node.name == "check" and node.attrs["rule"].proved is not None for node in nodes):
        return list(nodes)
    bounds = Bounds(given, sizes)
    return [Node("identity", node.args[:1], {}, node.outputs) if bounds.prove(node) else node for node in nodes]


class Bounds:
    """The intervals of values of a graph, and of the graphs around it."""

    def __init__(self, given: Given = {}, sizes: Mapping[str, Any] = {}) -> None:  # noqa: B006 - nothing writes to them
        self._given, self._sizes = given, sizes

    def prove(self, node: Node) -> bool:
        """Whether a node is a check that holds for all values that are possible."""
        if node.name != "check" or node.attrs["rule"].proved is None:
            return False
        params = dict(node.attrs["params"])
        intervals = [self.interval(a) for a in node.args]
        if None in intervals or any(
            is_dimension(n) for v in params.values() for n in (v if type(v) is tuple else (v,))
        ):
            return False
        return bool(node.attrs["rule"].proved(*intervals, **params))

    def interval(self, value: Any, depth: int = 0) -> Interval | None:
        """The smallest and the largest possible value; None if unknown."""
        if type(value) is not Symbolic:
            return _of_constant(value)
        found = self._given.get(id(value)) or self._derived(value, depth)
        return _of_dtype(value.dtype) if found is None else found

    def _derived(self, symbol: Symbolic, depth: int) -> Interval | None:
        if depth > _DEEPEST or symbol.dtype.kind not in "iub":
            return None
        node = symbol.graph.maker(symbol)
        if node is not None:
            rule = _rule_of(node, symbol)
            found = None if rule is None else rule(self, node, depth + 1)
            return found if found is None or _fits(found, symbol.dtype) else None
        feed = next((f for f in symbol.graph.feeds if f.symbol is symbol and f.kind == "array"), None)
        return None if feed is None else self.interval(feed.value, depth + 1)

    def size(self, n: Any) -> int | None:
        """A dimension as an int; None if it is unknown."""
        found = evaluated(n, self._sizes) if is_dimension(n) and self._sizes else n
        return None if is_dimension(found) else int(found)


def _of_constant(value: Any) -> Interval | None:
    array = np.asarray(value)
    if array.dtype.kind not in "iub" or not 0 < array.size <= _LARGEST:
        return None
    return int(array.min()), int(array.max())


def _of_dtype(dtype: Any) -> Interval | None:
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind == "u" or (dtype.kind == "i" and dtype.itemsize < 4):
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    return None


def _fits(interval: Interval, dtype: Any) -> bool:
    """Whether all values of an interval are representable in a dtype: integers wrap around."""
    if dtype.kind == "b":
        return interval[0] >= 0 and interval[1] <= 1
    return int(np.iinfo(dtype).min) <= interval[0] and interval[1] <= int(np.iinfo(dtype).max)


# -- interval rules of ops -------------------------------------------------------------------------------------------
_Rule = Callable[[Bounds, Node, int], "Interval | None"]


def _same(bounds: Bounds, node: Node, depth: int) -> Interval | None:
    """The elements of the first operand, rearranged."""
    first = node.args[0]
    if type(first) is Symbolic and first.dtype.kind not in "iub":
        return None
    return bounds.interval(first, depth)


def _reduced(bounds: Bounds, node: Node, depth: int) -> Interval | None:
    """One element of the first operand for each reduction; an empty reduction gives the limit of the dtype."""
    sizes = [bounds.size(node.args[0].shape[axis]) for axis in node.attrs["axis"]]
    return _same(bounds, node, depth) if all(size is not None and size > 0 for size in sizes) else None


def _below(size: int | None) -> Interval | None:
    """A position in an axis of this size, unless it is empty."""
    return None if size is None or size < 1 else (0, size - 1)


def _checked(bounds: Bounds, node: Node, depth: int) -> Interval | None:
    """The value that a check returns; after a check of indices, it is in range."""
    if node.attrs["rule"].proved is inside:
        found = _below(bounds.size(dict(node.attrs["params"])["size"]))
        if found is not None:
            return found
    return _same(bounds, node, depth)


def _union(first: int = 0) -> _Rule:
    """An element of one of the operands, from the operand `first` on."""

    def rule(bounds: Bounds, node: Node, depth: int) -> Interval | None:
        found = [bounds.interval(a, depth) for a in node.args[first:]]
        known = [interval for interval in found if interval is not None]
        if len(known) < len(found):
            return None
        return min(low for low, _ in known), max(high for _, high in known)

    return rule


def _corners(function: Callable[[int, int], int]) -> _Rule:
    """A function of two operands whose extremes are at the ends of their intervals."""

    def rule(bounds: Bounds, node: Node, depth: int) -> Interval | None:
        x, y = (bounds.interval(a, depth) for a in node.args)
        if x is None or y is None:
            return None
        corners = [function(a, b) for a in x for b in y]
        return min(corners), max(corners)

    return rule


def _extreme(choose: Callable[[int, int], int]) -> _Rule:
    """The maximum or minimum of two operands, of which one may be unknown."""

    def rule(bounds: Bounds, node: Node, depth: int) -> Interval | None:
        if node.outputs[0].dtype.kind not in "iu":
            return None
        limits = np.iinfo(node.outputs[0].dtype)
        x, y = (bounds.interval(a, depth) or (int(limits.min), int(limits.max)) for a in node.args)
        return choose(x[0], y[0]), choose(x[1], y[1])

    return rule


def _remainder(bounds: Bounds, node: Node, depth: int) -> Interval | None:
    """The remainder of floor division by positive numbers."""
    divisor = bounds.interval(node.args[1], depth)
    return None if divisor is None or divisor[0] <= 0 else (0, divisor[1] - 1)


def _quotient(bounds: Bounds, node: Node, depth: int) -> Interval | None:
    """Floor division by positive numbers."""
    x, divisor = (bounds.interval(a, depth) for a in node.args)
    if x is None or divisor is None or divisor[0] <= 0:
        return None
    corners = [a // b for a in x for b in divisor]
    return min(corners), max(corners)


def _places(bounds: Bounds, node: Node, depth: int) -> Interval | None:
    """Positions along an axis of the first operand."""
    return _below(bounds.size(node.args[0].shape[node.attrs.get("axis", -1)]))


def _gaps(bounds: Bounds, node: Node, depth: int) -> Interval | None:
    """Positions between the elements of the last axis."""
    size = bounds.size(node.args[0].shape[-1])
    return None if size is None else (0, size)


def _classes(bounds: Bounds, node: Node, depth: int) -> Interval | None:
    return _below(bounds.size(node.args[1].shape[-1]))


def _drawn(bounds: Bounds, node: Node, depth: int) -> Interval | None:
    low, high = (bounds.interval(a, depth) for a in node.args[1:3])
    return None if low is None or high is None else (low[0], high[1] - 1)


def _counted(bounds: Bounds, node: Node, depth: int) -> Interval | None:
    first, count, step = (bounds.size(node.attrs[name]) for name in ("first", "count", "step"))
    if first is None or count is None or step is None or count < 1:
        return None
    last = first + (count - 1) * step
    return min(first, last), max(first, last)


def _dimensions(bounds: Bounds, node: Node, depth: int) -> Interval | None:
    sizes = [bounds.size(n) for n in node.attrs["values"]]
    known = [n for n in sizes if n is not None]
    return (min(known), max(known)) if known and len(known) == len(sizes) else None


_RULES: dict[str, _Rule | tuple[_Rule, ...]] = {
    **dict.fromkeys(("identity", "stop_gradient", "reshape", "transpose", "broadcast_to", "getitem"), _same),
    **dict.fromkeys(("flip", "take", "take_along_axis", "gather_nd", "unstack", "split", "roll", "sort"), _same),
    **dict.fromkeys(("astype", "discrete_cast"), _same),
    **dict.fromkeys(("max", "min"), _reduced),
    **dict.fromkeys(("argmax", "argmin", "argsort"), _places),
    "top_k": (_same, _places),
    **dict.fromkeys(("concatenate", "stack"), _union()),
    "check": _checked,
    "where": _union(1),
    "add": _corners(lambda a, b: a + b),
    "subtract": _corners(lambda a, b: a - b),
    "multiply": _corners(lambda a, b: a * b),
    "maximum": _extreme(max),
    "minimum": _extreme(min),
    "mod": _remainder,
    "floor_divide": _quotient,
    "searchsorted": _gaps,
    "random_categorical": _classes,
    "random_range": _drawn,
    "arange": _counted,
    "extents": _dimensions,
}
"""By op: one rule for all outputs, or one for each."""


def _rule_of(node: Node, symbol: Symbolic) -> _Rule | None:
    """The rule for one output of a node."""
    rules = _RULES.get(node.name)
    if isinstance(rules, tuple):
        return next(rule for rule, output in zip(rules, node.outputs, strict=True) if output is symbol)
    return rules
