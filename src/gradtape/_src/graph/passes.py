"""Passes over the nodes of a graph before it runs on NumPy: each returns fewer or cheaper nodes with the same values.

XLA has its own passes. These are exact, signed zeros included.

        simplify            algebra: move negations towards the results, where they cancel, and drop ops without effect
        pool_before_relu    algebra: apply relu after max pooling, to fewer values
        share               common subexpressions: run the same op on the same values once
        needed              dead code: drop nodes that no output depends on
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradtape._src.arrays.dimensions import is_known_shape
from gradtape._src.arrays.symbolic import Node, Symbolic

_NO_CONSTANTS: Mapping[int, Any] = {}
_COMMUTATIVE = frozenset({"add", "multiply", "maximum", "minimum", "equal", "not_equal"})
_LITERAL_BYTES = 2**13
_COPIES = frozenset({"identity", "stop_gradient"})
_MOVES = frozenset({"reshape", "transpose", "broadcast_to", "getitem", "expand_dims", "squeeze", "flip"})
"""Ops that only move values, and so commute with negation. A sum does not: 1 - 1 is 0, and -(1 - 1) is -0."""


class Code(NamedTuple):
    """Nodes, and the outputs that are computed from them: symbols or constants."""

    nodes: list[Node]
    outputs: list[Any]


def optimise(
    nodes: Sequence[Node], outputs: Sequence[Any], is_pure: Any, constants: Mapping[int, Any] = _NO_CONSTANTS
) -> dict[str, Code]:
    """The code after each pass; the last one runs. `is_pure(node)` says whether an unused node may be dropped, and
    `constants` are the arrays that the program captured, by the ids of their symbols.
    """
    code = Code(list(nodes), list(outputs))
    found = {"traced": code}
    found["common subexpressions"] = code = share(code, is_pure)
    found["algebra"] = code = share(pool_before_relu(simplify(code, constants)), is_pure)
    found["dead code"] = needed(code, is_pure)
    return found


def needed(code: Code, is_pure: Any) -> Code:
    """The nodes that the outputs depend on, and those with effects."""
    used = {id(out) for out in code.outputs if type(out) is Symbolic}
    kept = []
    for node in reversed(code.nodes):
        if not is_pure(node) or any(id(out) in used for out in node.outputs):
            kept.append(node)
            used.update(id(a) for a in node.args if type(a) is Symbolic)
    return Code(kept[::-1], code.outputs)


# -- algebra ---------------------------------------------------------------------------------------------------------
class _Value(NamedTuple):
    """The replacement of a symbol: another value, and whether it has to be negated."""

    value: Any
    negated: bool


class _Simplifier:
    def __init__(self, constants: Mapping[int, Any] = _NO_CONSTANTS) -> None:
        self.nodes: list[Node] = []
        self._constants = constants
        self._numbers: dict[int, Any] = {}  # by the ids of constants: the element, if all are equal
        self._values: dict[int, _Value] = {}
        self._negatives: dict[int, Symbolic] = {}
        self._made_by: dict[int, Node] = {}

    def signed(self, value: Any) -> _Value:
        """The replacement of a value, without negating it."""
        return self._values.get(id(value), _Value(value, False)) if type(value) is Symbolic else _Value(value, False)

    def operands(self, node: Node) -> tuple[_Value, _Value]:
        """The replacements of both operands of an op. A constant whose elements are all equal becomes a number, if the
        other operand has the shape of the result: cotangents of sums and means are such constants.
        """
        x, y = (self.signed(a) for a in node.args)
        number = self._as_number(x) if self.same_shape(y.value, node) else x
        if number is x and self.same_shape(x.value, node):
            return x, self._as_number(y)
        return number, y

    def _as_number(self, found: _Value) -> _Value:
        array = self._constants.get(id(found.value), found.value)
        if not isinstance(array, np.ndarray) or not array.ndim:
            return found
        if id(array) not in self._numbers:
            self._numbers[id(array)] = _only_element(array)
        number = self._numbers[id(array)]
        if number is None:
            return found
        return _Value(np.negative(number) if found.negated else number, False)

    def plain(self, value: Any) -> Any:
        """The replacement of a value, negated if necessary."""
        return self.negated(self.signed(value))

    def negated(self, found: _Value) -> Any:
        """A replacement, negated if necessary."""
        if not found.negated:
            return found.value
        out = self._negatives.get(id(found.value))
        if out is None:
            out = Symbolic(found.value.graph, found.value.shape, found.value.dtype)
            self.add(Node("negative", (found.value,), {}, (out,)))
            self._negatives[id(found.value)] = out
        return out

    def add(self, node: Node) -> None:
        self.nodes.append(node)
        for out in node.outputs:
            self._made_by[id(out)] = node

    def replace(self, node: Node, value: Any, negated: bool = False) -> None:
        self._values[id(node.outputs[0])] = _Value(value, negated)

    def visit(self, node: Node) -> None:
        rule = _RULES.get(node.name)
        if rule is None or len(node.outputs) != 1 or not _is_real(node.outputs[0].dtype) or not rule(self, node):
            self.add(node._replace(args=tuple([self.plain(a) for a in node.args])))

    def with_args(self, node: Node, args: tuple[Any, ...], negated: bool = False, name: str = "") -> None:
        """Keep a node with other operands. If `negated`, its result is negated where it is used."""
        out = node.outputs[0]
        if negated:
            inner = Symbolic(out.graph, out.shape, out.dtype)
            self.add(Node(name or node.name, args, node.attrs, (inner,)))
            self.replace(node, inner, True)
        else:
            self.add(Node(name or node.name, args, node.attrs, node.outputs))

    def same_shape(self, value: Any, node: Node) -> bool:
        shape = node.outputs[0].shape
        return type(value) is Symbolic and is_known_shape(shape) and tuple(value.shape) == tuple(shape)


def _negative(s: _Simplifier, node: Node) -> bool:
    found = s.signed(node.args[0])
    if type(found.value) is not Symbolic:
        return False
    s.replace(node, found.value, not found.negated)
    return True


def _multiply(s: _Simplifier, node: Node) -> bool:
    x, y = s.operands(node)
    for one, other in ((x, y), (y, x)):
        if _is_number(one.value, 1) and s.same_shape(other.value, node):
            s.replace(node, other.value, other.negated)
            return True
    s.with_args(node, (x.value, y.value), x.negated != y.negated)
    return True


def _divide(s: _Simplifier, node: Node) -> bool:
    x, y = s.operands(node)
    if _is_number(y.value, 1) and s.same_shape(x.value, node):
        s.replace(node, x.value, x.negated)
    else:
        s.with_args(node, (x.value, y.value), x.negated != y.negated)
    return True


def _add(s: _Simplifier, node: Node) -> bool:
    x, y = s.operands(node)
    if x.negated and y.negated and x.value is y.value:
        s.with_args(node, (x.value, x.value), True)  # -x - x is -(x + x), at 0 too
    elif y.negated:
        s.with_args(node, (s.negated(x), y.value), name="subtract")
    elif x.negated:
        s.with_args(node, (y.value, x.value), name="subtract")
    else:
        s.with_args(node, (x.value, y.value))
    return True


def _subtract(s: _Simplifier, node: Node) -> bool:
    x, y = s.operands(node)
    if x.negated and not y.negated and x.value is y.value:
        s.with_args(node, (x.value, x.value), True, name="add")
    elif x.negated and y.negated:
        s.with_args(node, (y.value, x.value))
    elif y.negated:
        s.with_args(node, (x.value, y.value), name="add")
    else:
        s.with_args(node, (s.negated(x), y.value))
    return True


def _square(s: _Simplifier, node: Node) -> bool:
    s.with_args(node, (s.signed(node.args[0]).value,))
    return True


def _move(s: _Simplifier, node: Node) -> bool:
    x = s.signed(node.args[0])
    if node.name in ("reshape", "broadcast_to") and len(node.args) == 1:
        maker = s._made_by.get(id(x.value))
        if node.name == "reshape" and maker is not None and maker.name == "reshape" and len(maker.args) == 1:
            x = _Value(maker.args[0], x.negated)
        if s.same_shape(x.value, node):
            s.replace(node, x.value, x.negated)
            return True
    s.with_args(node, (x.value, *[s.plain(a) for a in node.args[1:]]), x.negated)
    return True


def _copy(s: _Simplifier, node: Node) -> bool:
    x = s.signed(node.args[0])
    if type(x.value) is not Symbolic:
        return False
    s.replace(node, x.value, x.negated)
    return True


_RULES: dict[str, Any] = {
    "negative": _negative,
    "multiply": _multiply,
    "divide": _divide,
    "add": _add,
    "subtract": _subtract,
    "square": _square,
    **dict.fromkeys(_MOVES, _move),
    **dict.fromkeys(_COPIES, _copy),
}


def simplify(code: Code, constants: Mapping[int, Any] = _NO_CONSTANTS) -> Code:
    """Move negations towards the results, where they cancel or turn sums into differences, and drop neutral ops."""
    simplifier = _Simplifier(constants)
    for node in code.nodes:
        simplifier.visit(node)
    outputs = [simplifier.plain(out) for out in code.outputs]
    return Code(simplifier.nodes, outputs)


def _is_real(dtype: Any) -> bool:
    return np.dtype(dtype).kind == "f"


def _only_element(array: np.ndarray) -> Any:
    """The element of an array whose elements have equal bits, as an array without axes; None for other arrays."""
    if array.dtype.kind != "f" or not array.size:
        return None
    element = np.array(array[(0,) * array.ndim])
    if any(array.strides):
        rows = np.ascontiguousarray(array).reshape(-1, 1).view(np.uint8)
        bits = np.frombuffer(element.tobytes(), np.uint8)
        if np.any(rows[-1] != bits) or np.any(rows != bits):  # the last row usually differs
            return None
    return element


def _is_number(value: Any, number: float) -> bool:
    return (
        isinstance(value, (int, float, np.generic, np.ndarray))
        and np.size(value) == 1
        and bool(np.all(value == number))
    )


# -- relu and pooling ------------------------------------------------------------------------------------------------
def pool_before_relu(code: Code) -> Code:
    """Apply relu after the maxima of windows: relu is monotone, and then has fewer values.

    In the backward pass, only the cotangents of the maxima go through the mask of relu. Windows must not overlap: their
    cotangents would be summed, and a sum of zeros has another sign.
    """
    uses: dict[int, list[Node]] = {}
    for node in code.nodes:
        for a in node.args:
            uses.setdefault(id(a), []).append(node)
    results = {id(out) for out in code.outputs}
    swaps: dict[int, tuple[Any, Symbolic]] = {}  # by the results of relu: its operand, and the maxima of that
    gates: dict[int, Symbolic] = {}  # by results of `max_unpool`: what replaces them after the mask
    nodes: list[Node] = []
    for node in code.nodes:
        out = node.outputs[0] if node.outputs else None
        if node.name == "relu" and _is_only_pooled(node, uses, results):
            (pool,) = (user for user in uses[id(out)] if user.name == "max_pool")
            top = pool.outputs[0]
            swaps[id(out)] = node.args[0], Symbolic(top.graph, top.shape, top.dtype)
        elif node.name == "max_pool" and id(node.args[0]) in swaps:
            x, top = swaps[id(node.args[0])]
            nodes += [Node("max_pool", (x,), node.attrs, (top,)), Node("relu", (top,), {}, node.outputs)]
        elif node.name == "max_unpool" and id(node.args[1]) in swaps:
            (gate,) = uses[id(out)]
            z, (x, top) = node.args[0], swaps[id(node.args[1])]
            open_ = Symbolic(z.graph, z.shape, z.dtype)
            nodes.append(Node("gate", (z, node.args[2]), {}, (open_,)))
            nodes.append(Node("max_unpool", (open_, x, top), node.attrs, gate.outputs))
            gates[id(out)] = open_
        elif node.name != "gate" or id(node.args[0]) not in gates:
            nodes.append(node)
    return Code(nodes, code.outputs)


def _is_only_pooled(relu: Node, uses: dict[int, list[Node]], results: set[int]) -> bool:
    """Whether relu's result is used only by one `max_pool` and, after its mask, by gradients of both."""
    out = relu.outputs[0]
    users = uses.get(id(out), [])
    pools = [user for user in users if user.name == "max_pool"]
    if len(pools) != 1 or id(out) in results or not _is_real(out.dtype) or not _is_apart(pools[0].attrs):
        return False
    unpools = [user for user in users if user.name == "max_unpool"]
    behind = [id(node) for unpool in unpools for node in _gates_behind(unpool, pools[0], out, uses, results)]
    return len(behind) == len(unpools) and all(
        user.name in ("max_pool", "max_unpool") or id(user) in behind for user in users
    )


def _gates_behind(
    unpool: Node, pool: Node, x: Symbolic, uses: dict[int, list[Node]], results: set[int]
) -> Sequence[Node]:
    """The mask of x if it is the only use of the gradient of a `max_pool` of x; nothing if there are other uses."""
    z, found = unpool.args[0], unpool.outputs[0]
    users = uses.get(id(found), [])
    is_gradient = unpool.args[1] is x and unpool.args[2] is pool.outputs[0] and unpool.attrs == pool.attrs
    is_plain = type(z) is Symbolic and z.dtype == x.dtype and tuple(z.shape) == tuple(pool.outputs[0].shape)
    is_gated = len(users) == 1 and users[0].name == "gate" and users[0].args[0] is found and users[0].args[1] is x
    return users if is_gradient and is_plain and is_gated and id(found) not in results else []


def _is_apart(attrs: dict[str, Any]) -> bool:
    """Whether windows do not overlap."""
    extents = zip(attrs["window"], attrs["strides"], attrs["dilations"], strict=True)
    return all(isinstance(s, int) and (k - 1) * d < s for k, s, d in extents)


# -- common subexpressions -------------------------------------------------------------------------------------------
def share(code: Code, is_pure: Any) -> Code:
    """Run each op once for the same operands."""
    same: dict[int, Symbolic] = {}
    seen: dict[Any, tuple[Symbolic, ...]] = {}
    nodes = []

    def current(value: Any) -> Any:
        return same.get(id(value), value) if type(value) is Symbolic else value

    for node in code.nodes:
        node = node._replace(args=tuple([current(a) for a in node.args]))
        key = _key(node) if is_pure(node) else None
        if key is not None and key in seen:
            same.update((id(out), other) for out, other in zip(node.outputs, seen[key], strict=True))
            continue
        if key is not None:
            seen[key] = node.outputs
        nodes.append(node)
    return Code(nodes, [current(out) for out in code.outputs])


def _key(node: Node) -> Any:
    """A key that is equal for nodes that compute the same; None if that is unknown."""
    operands = [_frozen(a) for a in node.args]
    if node.name in _COMMUTATIVE:
        operands.sort(key=repr)
    key = (node.name, tuple(operands), tuple([(k, _frozen(v)) for k, v in sorted(node.attrs.items())]))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _frozen(value: Any) -> Any:
    """A value that is equal only for equal operands or static arguments, and hashable if the argument is.

    It includes the type: 1, 1.0 and True are equal in Python.
    """
    if type(value) is Symbolic:
        return "symbol", id(value)
    if isinstance(value, np.ndarray):
        if value.nbytes > _LITERAL_BYTES or value.dtype.kind == "O":
            return "array", id(value)
        return "array", value.shape, value.dtype, value.tobytes()
    if isinstance(value, (tuple, list)):
        return type(value), tuple([_frozen(v) for v in value])
    if isinstance(value, slice):
        return slice, _frozen((value.start, value.stop, value.step))
    if isinstance(value, (float, complex, np.generic)):
        return type(value), repr(value)  # tells -0.0 from 0.0, and NaN equals itself
    return type(value), value
