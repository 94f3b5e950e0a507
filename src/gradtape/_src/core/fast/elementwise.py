"""The fast path of elementwise ops: vjp rules as straight-line NumPy code that works in place.

A rule is a formula, `tanh: g * (1 - out * out)`. Called once with symbols instead of arrays, it becomes a list of
calls, whose generated and compiled source reuses the memory of intermediate results:

    def vjp(g, out):
        a = square(out)
        subtract(one, a, a)
        return multiply(g, a, a)

These are the calls of the rule, so the result is the same to the bit. A rule that reads values or shapes cannot be
generated; it runs unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src.arrays import numpy_namespace
from gradtape._src.arrays.base import generic_kernels
from gradtape._src.arrays.lazy import lazy_namespace
from gradtape._src.arrays.numpy.blocks import blockwise
from gradtape._src.arrays.symbolic import symbolic_namespace, symbolic_rules
from gradtape._src.core.observe import has_large_arrays
from gradtape._src.core.primitive import Op, Rule, parameters

ALL = -1
"""The slot of a function that takes all of the record's values instead of one array."""


Function = tuple[Callable[..., Any], int | None]
FastPath = tuple[Callable[..., Any], int | None, Function | None]
"""What the backward pass calls for a record of float32 arrays: a function, its slot, and the function of a second
operand.

A function gets the cotangent and, if its slot is not None, one saved array or (`ALL`) the record's values. This is a
plain tuple, because CPython takes 50 ns longer to unpack a named one (benchmark: chain).
"""


def write_fast_path(op: Op) -> None:
    """Give an elementwise op of one or two operands its fast path, if code can be generated for all of its rules."""
    if not _qualifies(op):
        return
    rules = [rule for rule in op.rules if rule is not None]
    functions = [_function(op, rule) for rule in rules]
    fast: FastPath = (*functions[0], functions[1] if len(functions) == 2 else None)
    recorders = [_recorder(op, i, rule) for i, rule in enumerate(rules)]
    lazy: FastPath = (*recorders[0], recorders[1] if len(recorders) == 2 else None)
    op.fast, op.recorder_fast = fast, lazy


def _qualifies(op: Op) -> bool:
    """Whether an op is elementwise, with one or two operands that all have rules, and without static arguments."""
    rules = [rule for rule in op.rules if rule is not None]
    if not op.elementwise or op.vjp_all is not None or not 1 <= len(rules) == len(op.args) <= 2:
        return False
    known = {*op.args, "g", "out", "xp", "half"}
    return all(known.issuperset(parameters(rule)) for rule in rules)


def _function(op: Op, rule: Rule) -> Function:
    names = [name for name in parameters(rule)[1:] if op.slot(name) is not None]
    slots = [op.slot(name) for name in names]
    written = blockwise(_written(op, rule)) if has_large_arrays() else _written(op, rule)
    if len(names) < 2:
        return written, slots[0] if slots else None
    if len(op.args) == 1:  # the record of an op with one input saves input and output, in this order
        return (lambda g, values: written(g, *[v.array for v in values])), ALL
    return (lambda g, values: written(g, *[values[slot].array for slot in slots])), ALL


def _recorder(op: Op, position: int, rule: Rule) -> Function:
    """A rule as one op of lazy arrays: a primitive whose kernel is the rule. A graph gets its calls instead."""
    name = f"{op.name}_vjp_{position}"
    names = [n for n in parameters(rule) if n not in ("xp", "half")]

    def kernel(xp: Any, *arrays: Any) -> Any:
        given = {**dict(zip(names, arrays, strict=True)), "xp": xp, "half": False}
        return rule(*[given[n] for n in parameters(rule)])

    generic_kernels[name] = kernel
    symbolic_rules[name] = partial(kernel, symbolic_namespace)
    record = getattr(lazy_namespace, name)
    slots = [op.slot(n) for n in names[1:]]
    if len(slots) < 2:
        return record, slots[0] if slots else None
    if len(op.args) == 1:
        return (lambda g, values: record(g, *[v.array for v in values])), ALL
    return (lambda g, values: record(g, *[values[slot].array for slot in slots])), ALL


def _written(op: Op, rule: Rule) -> Callable[..., Any]:
    """The rule as a function of the cotangent and the saved arrays that it names."""
    plain = _bound(rule, parameters(rule))
    traced = _traced(rule)
    if traced is None:
        return plain
    given, steps = traced
    first = steps[0]
    if len(steps) == 1 and first.function in _UFUNCS and _are(first.args, given):
        return _UFUNCS[first.function]  # a single call of C code
    source, scope = _source([symbol.name for symbol in given], steps)
    scope |= {"__name__": f"{__name__}.{op.name}", "plain": plain}
    exec(compile(source, f"<rule of {op.name}>", "exec"), scope)
    vjp: Callable[..., Any] = scope["vjp"]
    return vjp


def source_of(op: Op, position: int) -> str | None:
    """The generated code for one operand of an op, for debugging; None if there is none."""
    rule = op.rules[position] if _qualifies(op) else None
    traced = None if rule is None else _traced(rule)
    return None if traced is None else _source([symbol.name for symbol in traced[0]], traced[1])[0]


def _are(args: Iterable[Any], symbols: Iterable[_Symbol]) -> bool:
    """Whether these are the same symbols: `==` would build a call."""
    return [id(a) for a in args] == [id(symbol) for symbol in symbols]


def _bound(rule: Rule, names: tuple[str, ...]) -> Callable[..., Any]:
    """The rule itself, bound to NumPy's kernels."""
    if "xp" not in names and "half" not in names:
        return rule
    filled = {"xp": numpy_namespace, "half": False}
    order = [name for name in names if name not in filled]
    return lambda *arrays: rule(
        *[filled[n] if n in filled else given[n] for given in [dict(zip(order, arrays, strict=True))] for n in names]
    )


# -- tracing ---------------------------------------------------------------------------------------------------------
class _Symbol:
    """A symbolic array: an argument (with a name), or the result of a call."""

    __slots__ = ("args", "attrs", "calls", "function", "name")
    __array_ufunc__ = None

    def __init__(
        self, calls: list[_Symbol], function: str = "", args: tuple[Any, ...] = (), attrs: Any = None, name: Any = None
    ) -> None:
        self.calls, self.function, self.args, self.attrs, self.name = calls, function, args, attrs or {}, name

    def __bool__(self) -> bool:
        raise TypeError("the value of an array decides what the rule does")

    def is_of_full_size(self) -> bool:
        """Whether it has the shape of the cotangent: operands may be smaller."""
        if self.name is not None:
            return self.name in ("g", "out")
        return any(type(a) is _Symbol and a.is_of_full_size() for a in self.args)


def _operator(function: str, swapped: bool) -> Callable[..., _Symbol]:
    def method(self: _Symbol, *other: Any) -> _Symbol:
        call = _Symbol(self.calls, function, (*other, self) if swapped else (self, *other))
        self.calls.append(call)
        return call

    return method


_OPERATORS = {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "neg": "negative"}
_COMPARISONS = {
    "gt": "greater", "lt": "less", "ge": "greater_equal", "le": "less_equal", "eq": "equal", "ne": "not_equal",
}  # fmt: skip
for _name, _ufunc in (_OPERATORS | _COMPARISONS).items():
    setattr(_Symbol, f"__{_name}__", _operator(_ufunc, False))
for _name in ("add", "sub", "mul", "truediv"):
    setattr(_Symbol, f"__r{_name}__", _operator(_OPERATORS[_name], True))

_UFUNCS: dict[str, Callable[..., Any]] = {
    name: getattr(np, name) for name in (*_OPERATORS.values(), *_COMPARISONS.values())
}


class _Symbols:
    """The namespace of a rule that is traced."""

    def __init__(self, calls: list[_Symbol]) -> None:
        self._calls = calls

    def is_complex(self, x: Any) -> bool:
        return False

    def __getattr__(self, name: str) -> Callable[..., _Symbol]:
        getattr(numpy_namespace, name)

        def call(*args: Any, **attrs: Any) -> _Symbol:
            symbol = _Symbol(self._calls, f".{name}", args, attrs)
            self._calls.append(symbol)
            return symbol

        return call


def _traced(rule: Rule) -> tuple[list[_Symbol], list[_Symbol]] | None:
    """The array arguments of a rule, and the calls that compute its result; None if it cannot be traced."""
    names, calls = parameters(rule), list[_Symbol]()
    given = {name: _Symbol(calls, name=name) for name in names if name not in ("xp", "half")}
    try:
        result = rule(*[_Symbols(calls) if n == "xp" else False if n == "half" else given[n] for n in names])
    except Exception:
        return None  # it reads values, shapes or dtypes, or raises: then it raises when it is called
    if type(result) is not _Symbol or result.name is not None:
        return None
    return list(given.values()), _needed(calls, result)


# -- writing ---------------------------------------------------------------------------------------------------------
def _needed(calls: list[_Symbol], result: _Symbol) -> list[_Symbol]:
    """The calls that the result depends on, in order."""
    needed, steps = {id(result)}, []
    for call in reversed(calls):
        if id(call) in needed:
            steps.append(call)
            needed.update(map(id, call.args))
    return steps[::-1]


def _source(arguments: list[str], steps: list[_Symbol]) -> tuple[str, dict[str, Any]]:
    """The source of a function `vjp` that makes these calls, and its globals."""
    last_use = {id(a): i for i, step in enumerate(steps) for a in step.args}
    scope: dict[str, Any] = {"ndarray": ndarray}
    names: dict[int, str] = {}
    lines, checked = [], False
    for i, step in enumerate(steps):
        function, args = _UFUNCS.get(step.function) or getattr(numpy_namespace, step.function[1:]), step.args
        if function is np.multiply and args[0] is args[1]:
            function, args = np.square, args[:1]
        target = _reusable(i, step, function, last_use)
        names[id(step)] = f"t{i}" if target is None else names[id(target)]
        written = [_argument(a, names, scope, function) for a in args]
        written += [f"{name}={_argument(value, names, scope, None)}" for name, value in step.attrs.items()]
        called = _global(scope, "square" if function is np.square else step.function.lstrip("."), function)
        if target is not None:
            lines.append(f"{called}({', '.join([*written, names[id(step)]])})")
            continue
        lines.append(f"t{i} = {called}({', '.join(written)})")
        if not checked and isinstance(function, np.ufunc):  # NumPy returns scalars for 0-d arrays
            lines.append(f"if type(t{i}) is not ndarray: return plain({', '.join(arguments)})")
            checked = True
    lines.append(f"return {names[id(steps[-1])]}")
    return f"def vjp({', '.join(arguments)}):\n    " + "\n    ".join(lines) + "\n", scope


def _global(scope: dict[str, Any], name: str, value: Any) -> str:
    """A global name for a value."""
    while scope.setdefault(name, value) is not value:
        name += "_"
    return name


def _argument(value: Any, names: dict[int, str], scope: dict[str, Any], function: Any) -> str:
    """The source of an argument; numbers beside arrays become arrays once, not in every call."""
    if type(value) is _Symbol:
        return value.name or names[id(value)]
    if type(value) in (int, float) and isinstance(function, np.ufunc):
        value = np.array(value, np.float32)
    return _global(scope, f"c{len(scope)}", value)


def _reusable(i: int, step: _Symbol, function: Any, last_use: dict[int, int]) -> _Symbol | None:
    """An intermediate result of full size that nothing reads later, so that a ufunc can write into its memory."""
    if not isinstance(function, np.ufunc) or step.attrs or not _is_float32(step):
        return None
    for a in step.args:
        if type(a) is _Symbol and a.name is None and last_use[id(a)] == i and _is_float32(a) and a.is_of_full_size():
            return a
    return None


def _is_float32(symbol: _Symbol) -> bool:
    """Whether it is a new float32 array: other kernels may return an argument, and comparisons return booleans."""
    return symbol.function in _UFUNCS and symbol.function not in _COMPARISONS.values()
