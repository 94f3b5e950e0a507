"""The declaring words: a primitive, its kernel and its derivative stand in one entry.

A rule is a formula whose parameter names say what it needs:

    d            the cotangent of the output (or, going forward, the tangent of the input)
    x, y, ...    an input, by the name in the declaration; saved only if some rule names it
    out          the output (out0, out1, ... where there are several)
    x_shape      the shape of the input that the rule is for
    xp           the namespace to compute in: raw arrays, recorded tensors, batched arrays
    anything else is a static argument of the primitive

Elementwise rules state the differential, `tanh: d - d * out * out`; the same line serves reverse and forward mode,
because the matrix behind it is diagonal. The engine un-broadcasts, accumulates, conjugates and skips what nobody
asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from gradtape.arrays import batched, generic_kernels, namespace_of

Rule = Callable[..., Any]
Pull = Callable[[Any, tuple[Any, ...], dict[str, Any], Any], Any]

registry: dict[str, Op] = {}
"""Every primitive by name: the list that the op table in the tests must cover."""


class Op:
    """A primitive: everything the engine knows about it."""

    __slots__ = (
        "args",
        "checked_pulls",
        "call",
        "elementwise",
        "fallible",
        "joint",
        "joint_saves",
        "jvp",
        "keep",
        "kinds",
        "linear",
        "name",
        "outputs",
        "pulls",
        "rules",
        "tf_name",
        "traced_pulls",
    )

    def __init__(
        self,
        name: str,
        args: Sequence[str],
        rules: Sequence[Rule | None],
        *,
        tf_name: str | None = None,
        kernel: Callable[..., Any] | None = None,
        elementwise: bool = False,
        linear: bool = False,
        outputs: int = 0,
        kinds: str = "",
        batch: Callable[..., Any] | None = None,
        aligned: Callable[..., Any] | None = None,
        jvp: Rule | None = None,
        joint: Rule | None = None,
        joint_saves: bool = False,
        fallible: bool = False,
    ) -> None:
        self.name, self.args, self.rules = name, tuple(args), tuple(rules)
        self.tf_name = tf_name or name.title().replace("_", "")
        self.elementwise, self.linear, self.outputs = elementwise, linear, outputs
        self.kinds = kinds
        self.jvp, self.joint, self.joint_saves, self.fallible = jvp, joint, joint_saves, fallible
        indexed = tuple(enumerate(self.rules))
        self.pulls = None if joint else tuple(_pull(self, i, rule, traced=False, plain=True) for i, rule in indexed)
        self.checked_pulls = tuple(_pull(self, i, rule, traced=False) for i, rule in indexed)
        self.traced_pulls = tuple(_pull(self, i, rule, traced=True) for i, rule in indexed)
        self.keep = tuple(self._keep(rule) for rule in self.rules)
        self.call: Callable[..., Any] = _undeclared
        if kernel is not None:
            generic_kernels[name] = kernel
        if elementwise:
            batch, aligned = batched.elementwise_rule(name), batched.elementwise_aligned(name)
        if batch is not None:
            batched.batch_rules[name] = batch
        if aligned is not None:
            batched.aligned_rules[name] = aligned
        registry[name] = self

    @property
    def differentiable(self) -> bool:
        return self.joint is not None or any(rule is not None for rule in self.rules)

    def slot(self, name: str) -> int | None:
        """Where a named value stands in a record's values: inputs first, then outputs."""
        if name in self.args:
            return self.args.index(name)
        if name == "out":
            return len(self.args)
        if name.startswith("out") and name[3:].isdigit():
            return len(self.args) + int(name[3:])
        return None

    def _keep(self, rule: Rule | None) -> frozenset[int]:
        """The slots that a rule needs saved."""
        if rule is None:
            return frozenset()
        return frozenset(s for s in map(self.slot, parameters(rule)) if s is not None)

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"


def _undeclared(*args: Any, **attrs: Any) -> Any:
    raise RuntimeError("this primitive has no call: declare it with a word of engine.dispatch")


def parameters(rule: Rule) -> tuple[str, ...]:
    """The names in a rule's signature (faster than inspect, which import time would notice)."""
    code = rule.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _pull(op: Op, position: int, rule: Rule | None, *, traced: bool, plain: bool = False) -> Pull | None:
    """Turn a rule into `pull(d, values, attrs, shape)`: fetch what the parameter names ask for, and call.

    A plain pull is for float32 and float64, where elementwise rules need no care for conjugates and casts.
    """
    if rule is None:
        return None
    names = parameters(rule)
    if not names or names[0] != "d":
        raise TypeError(f"a rule's first parameter is d, the cotangent; the rule of {op.name} has {names}")
    wants = names[1:]
    slots = [op.slot(name) for name in wants]
    if op.elementwise and None not in slots and len(slots) <= 2:
        return _elementwise_pull(rule, [s for s in slots if s is not None], len(op.args) == 1, traced, plain)
    sources = [
        ("slot", s) if s is not None
        else ("xp", None) if name == "xp"
        else ("shape", None) if name == f"{_arg_name(op, position)}_shape"
        else ("attr", name)
        for name, s in zip(wants, slots, strict=True)
    ]  # fmt: skip
    alone = op.elementwise and len(op.args) == 1  # nothing was broadcast against it
    conjugated = op.elementwise and not plain and any(s is not None for s in slots)

    def pull(d: Any, values: tuple[Any, ...], attrs: dict[str, Any], shape: Any) -> Any:
        args: list[Any] = []
        for kind, key in sources:
            if kind == "slot":
                value = values[key]
                args.append(value if traced or value is None else value.array)
            elif kind == "xp":
                args.append(namespace_of(d[0] if type(d) is list else d))
            elif kind == "shape":
                args.append(shape)
            else:
                args.append(attrs[key])
        if conjugated and kind_of(d) != "f":
            result = _unusual(rule, d, args)
        else:
            result = rule(d, *args)
        return result if alone or result is None or result.shape == shape else unbroadcast(result, shape)

    return pull


def _arg_name(op: Op, position: int) -> str:
    return op.args[position]


def kind_of(value: Any) -> str:
    """NumPy's letter for the dtype of an array, or of what a tensor or batch holds."""
    while not hasattr(value.dtype, "kind"):
        value = value.array
    kind: str = value.dtype.kind
    return kind


def _elementwise_pull(rule: Rule, slots: list[int], alone: bool, traced: bool, plain: bool) -> Pull:
    """Formulas of d and at most two saved values; the plain ones are spelled out (benchmark: chain)."""
    if plain and len(slots) == 1:
        i = slots[0]
        if alone:
            return lambda d, values, attrs, shape: rule(d, values[i].array)

        def pull(d: Any, values: tuple[Any, ...], attrs: dict[str, Any], shape: Any) -> Any:
            c = rule(d, values[i].array)
            return c if c.shape == shape else unbroadcast(c, shape)

        return pull

    def pull_any(d: Any, values: tuple[Any, ...], attrs: dict[str, Any], shape: Any) -> Any:
        args = [values[k] if traced else values[k].array for k in slots]
        # Without saved values the formula is linear with real coefficients: the same for every dtype.
        c = rule(d, *args) if plain or not slots or kind_of(d) == "f" else _unusual(rule, d, args)
        return c if alone or c.shape == shape else unbroadcast(c, shape)

    return pull_any


def _unusual(rule: Rule, d: Any, args: list[Any]) -> Any:
    """Complex cotangents follow TensorFlow's convention (g times the conjugate of f'); bfloat16 stays bfloat16."""
    xp = namespace_of(d)
    if xp.is_complex(d):
        return xp.conj(rule(xp.conj(d), *args))
    result = rule(d, *args)
    return result if result.dtype == d.dtype else xp.astype(result, dtype=numpy_dtype(d), source=numpy_dtype(result))


def numpy_dtype(value: Any) -> Any:
    """NumPy's dtype of an array, a batch or a tensor."""
    dtype = value.dtype
    return getattr(dtype, "numpy_dtype", dtype)


def unbroadcast(c: Any, shape: tuple[int, ...]) -> Any:
    """Sum over the axes along which an operand was repeated (or repeat, where a rule gave less than asked)."""
    xp, have = namespace_of(c), tuple(c.shape)
    extra = len(have) - len(shape)
    if extra < 0:
        return xp.broadcast_to(c, shape=shape)
    axes = tuple(i for i, n in enumerate(have) if i < extra or (shape[i - extra] == 1 and n != 1))
    if axes:
        c = xp.sum(c, axis=axes, keepdims=False)
    if math.prod(c.shape) == math.prod(shape):
        return c if tuple(c.shape) == shape else xp.reshape(c, shape=shape)
    return xp.broadcast_to(c, shape=shape)
