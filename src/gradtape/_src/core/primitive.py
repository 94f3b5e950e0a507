"""The declaring words: a primitive, its kernel and its derivative stand in one entry.

A rule is a formula whose parameter names say what it needs:

    d            the cotangent of the output (or, going forward, the tangent of the input)
    x, y, ...    an input, by the name in the declaration; saved only if some rule names it
    out          the output (out0, out1, ... where there are several)
    x_shape      the shape of the input that the rule is for
    xp           the namespace to compute in: raw arrays, recorded tensors, batched arrays
    half         whether what was saved had been rounded to half precision (a constant of each form of the rule)
    anything else is a static argument of the primitive

Elementwise rules state the differential, `tanh: d - d * out * out`; the same line serves reverse and forward mode,
because the matrix behind it is diagonal. The engine un-broadcasts, accumulates, conjugates and skips what nobody
asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src.arrays import batched, common_namespace, generic_kernels, namespace_of, namespaces, numpy_namespace
from gradtape._src.arrays.half import is_half

_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)

Rule = Callable[..., Any]
Pull = Callable[[Any, tuple[Any, ...], dict[str, Any], Any], Any]
ShortWay = tuple[Rule, int | None, tuple[Rule, int | None] | None]

registry: dict[str, Op] = {}
"""Every primitive by name: the list that the op table in the tests must cover."""


class Op:
    """A primitive: everything the engine knows about it.

    `outputs` is 0 for one output, else their number (-1: it varies); a rule's d is then a list.
    `listed` is false for records of whole programs (a compiled call, a branch, a loop), which have no kernel.
    `hinted` marks a primitive of two operands whose first one alone decides about the dtype of a plain second one.
    `wide` says that in half precision its rules compute in float32, and the result is rounded once: those that do
    more than move numbers or call one kernel. Elementwise rules with saved values always do.
    `unregistered` marks a primitive without a derivative whose gradient TensorFlow refuses instead of leaving it out.
    """

    __slots__ = (
        "args",
        "as_given",
        "call",
        "checked_pulls",
        "differentiable",
        "elementwise",
        "explain",
        "fallible",
        "half_pulls",
        "hinted",
        "joint",
        "joint_saves",
        "joint_zeros",
        "jvp",
        "keep",
        "kinds",
        "linear",
        "name",
        "outputs",
        "pulls",
        "rules",
        "saves",
        "short",
        "tf_name",
        "traced_half_pulls",
        "traced_pulls",
        "unregistered",
        "wide",
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
        joint_saves: Container[int] = (),
        joint_zeros: bool = True,
        as_given: bool = False,
        fallible: bool = False,
        hinted: bool = False,
        unregistered: bool = False,
        wide: bool = False,
        explain: Callable[[Any, Any], Exception | None] | None = None,
        listed: bool = True,
    ) -> None:
        self.name, self.args, self.rules = name, tuple(args), tuple(rules)
        self.tf_name = tf_name or name.title().replace("_", "")
        self.elementwise, self.linear, self.outputs = elementwise, linear, outputs
        self.kinds = kinds
        self.jvp, self.joint, self.fallible, self.unregistered = jvp, joint, fallible, unregistered
        self.hinted = hinted
        self.joint_saves, self.joint_zeros, self.as_given, self.explain = joint_saves, joint_zeros, as_given, explain
        for rule in self.rules:
            if rule is not None and parameters(rule)[:1] != ("d",):
                raise TypeError(f"the first parameter of a rule is d, the cotangent; {name} has {parameters(rule)}")
        self.pulls: tuple[Pull | None, ...] | None = None  # written when first needed
        self.checked_pulls: tuple[Pull | None, ...] | None = None
        self.traced_pulls: tuple[Pull | None, ...] | None = None
        self.half_pulls: tuple[Pull | None, ...] | None = None
        self.traced_half_pulls: tuple[Pull | None, ...] | None = None
        self.keep = tuple(self._keep(rule) for rule in self.rules)
        self.saves = frozenset().union(*self.keep)
        self.wide = wide or (elementwise and bool(self.saves))
        self.short: ShortWay | None = None  # for the words whose calls make records of that form
        self.differentiable = joint is not None or any(rule is not None for rule in self.rules)
        self.call: Callable[..., Any] = _undeclared
        if kernel is not None:
            generic_kernels[name] = kernel
        if elementwise:
            batch, aligned = batched.elementwise_rule(name), batched.elementwise_aligned(name)
        if batch is not None:
            batched.batch_rules[name] = batch
        if aligned is not None:
            batched.aligned_rules[name] = aligned
        if listed:
            registry[name] = self

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


def program_op(name: str, tf_name: str, joint: Rule, jvp: Rule | None = None) -> Op:
    """The op of records that stand for a whole program: a call, a branch, a loop, a function in Python.

    It has no kernel. Its rule gets the cotangents that arrived, and gives gradients as they are.
    """
    return Op(
        name, (), (), tf_name=tf_name, joint=joint, joint_zeros=False, jvp=jvp, outputs=1, as_given=True, listed=False
    )


_PRODUCT = (lambda d, y: d * y).__code__.co_code


def short_way(op: Op) -> ShortWay | None:
    """How to pull float32 arrays of NumPy through an elementwise op with one or two operands, at least cost.

    The rule of the first operand, the slot of the one value it needs or None; and both for the second operand, if
    there is one. None where a rule needs more than that. A rule that is one product is called as what it is, without a
    frame of Python, and NumPy's engine may have a kernel for another one, under the name of the op and `_pull`.
    """
    kernel = getattr(numpy_namespace, f"{op.name}_pull", None)
    pairs = []
    for rule in op.rules:
        names = () if rule is None else parameters(rule)[1:]
        slots = [op.slot(name) for name in names if kernel is None or name != "xp"]
        if rule is None or len(slots) > 1 or None in slots:
            return None
        bare = kernel or (np.multiply if rule.__code__.co_code == _PRODUCT else rule)
        pairs.append((bare, slots[0] if slots else None))
    return (*pairs[0], pairs[1] if len(pairs) == 2 else None)


def _undeclared(*args: Any, **attrs: Any) -> Any:
    raise RuntimeError("this primitive has no call: declare it with a word of engine.dispatch")


def parameters(rule: Rule) -> tuple[str, ...]:
    """The names in a rule's signature (faster than inspect, which import time would notice)."""
    code = rule.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def write_pulls(op: Op) -> None:
    """Turn each rule of a primitive into `pull(d, values, attrs, shape)`, when the first sweep meets it.

    The parameter names of a rule become the arguments of a call that is written out and compiled once, the way
    namedtuple makes its classes: a sweep runs it for every record (benchmarks: chain, rnn). The forms:

        pulls              raw arrays of float32 and float64
        checked_pulls      raw arrays of any dtype: conjugates for complex numbers, casts for bfloat16
        traced_pulls       tensors, when the sweep is itself recorded
        half_pulls,        float16 and bfloat16 of a wide op: in float32, rounded once
        traced_half_pulls

    The last two are written when a record of such a dtype is met.
    """
    _write(op, "pulls", "checked_pulls", "traced_pulls")


def _write(op: Op, *forms: str) -> None:
    for form in forms:
        setattr(op, form, tuple(_pull(op, i, rule, form) for i, rule in enumerate(op.rules)))


def pulls_of(op: Op, dtype: Any, traced: bool) -> tuple[Pull | None, ...]:
    """The form for records of a dtype (a tuple of dtypes, if there are several outputs)."""
    if op.pulls is None:
        write_pulls(op)
    if op.wide and type(dtype) is not tuple and is_half(dtype):
        if op.half_pulls is None:
            _write(op, "half_pulls", "traced_half_pulls")
        return op.traced_half_pulls if traced else op.half_pulls  # type: ignore[return-value]
    if traced:
        return op.traced_pulls  # type: ignore[return-value]
    return op.pulls if dtype is _FLOAT32 or dtype is _FLOAT64 else op.checked_pulls  # type: ignore[return-value]


def _pull(op: Op, position: int, rule: Rule | None, form: str) -> Pull | None:
    if rule is None:
        return None
    traced, half = form.startswith("traced"), form.endswith("half_pulls")
    slots, args = [], []
    for name in parameters(rule)[1:]:
        slot = op.slot(name)
        if slot is not None:
            slots.append(slot)
            value = f"values[{slot}]" if traced else f"values[{slot}].array"
            args.append(f"widened({value})" if half else value)
        elif name == "xp":
            # Zeros stand in for outputs without a cotangent, and are plain arrays beside a batch.
            args.append("common_namespace(d)" if op.outputs else "namespaces[type(d)]")
        elif name == "half":
            args.append(str(half))
        elif name == f"{op.args[position]}_shape":
            args.append("shape")
        else:
            args.append(f"attrs[{name!r}]")
    call = f"rule({', '.join(['d', *args])})"
    # Without saved values an elementwise formula is linear with real coefficients: the same for every dtype.
    if op.elementwise and slots and form in ("checked_pulls", "traced_pulls"):
        call = f"({call} if kind_of(d) != 'c' else conjugated(rule, d, [{', '.join(args)}]))"
    elif form == "checked_pulls" and not op.elementwise and not op.outputs and op.name != "astype":
        call = f"narrow({call}, d)"
    if not (op.elementwise and len(op.args) == 1):  # where operands broadcast, cotangents are summed back
        fits = f"(c := {call}).shape == shape" if op.elementwise else f"(c := {call}) is None or c.shape == shape"
        call = f"c if {fits} else unbroadcast(c, shape)"
    source = f"lambda d, values, attrs, shape: {call}"
    names = {
        "rule": rule,
        "namespaces": namespaces,
        "common_namespace": common_namespace,
        "kind_of": kind_of,
        "conjugated": _conjugated,
        "narrow": _narrow,
        "widened": widened,
        "unbroadcast": unbroadcast,
    }
    pull: Pull = eval(compile(source, f"<rule of {op.name}>", "eval"), names)
    return _rounded_once(pull) if half else pull


def _rounded_once(pull: Pull) -> Pull:
    """A pull that computes in float32, sums over broadcast axes included, for a half-precision cotangent."""
    return lambda d, values, attrs, shape: narrowed(pull(widened(d), values, attrs, shape), numpy_dtype(d))


def widened(value: Any) -> Any:
    """A half-precision array, batch or tensor as float32; a tensor's cast is recorded."""
    dtype = numpy_dtype(value)
    return namespace_of(value).astype(value, dtype=_FLOAT32, source=dtype) if is_half(dtype) else value


def narrowed(value: Any, dtype: Any) -> Any:
    """The other way: rounded, if `dtype` is a half-precision one and the value is not."""
    if value is None or not is_half(dtype) or is_half(wide := numpy_dtype(value)):
        return value
    return namespace_of(value).astype(value, dtype=dtype, source=wide)


def kind_of(value: Any) -> str:
    """NumPy's letter for the dtype of an array, or of what a tensor or batch holds."""
    while not hasattr(value.dtype, "kind"):
        value = value.array
    kind: str = value.dtype.kind
    return kind


def _conjugated(rule: Rule, d: Any, args: list[Any]) -> Any:
    """Complex cotangents follow TensorFlow's convention: g times the conjugate of f'."""
    xp = namespace_of(d)
    return xp.conj(rule(xp.conj(d), *args))


def _narrow(c: Any, d: Any) -> Any:
    """bfloat16 stays bfloat16, also where a Python number in a rule has widened it."""
    if c is None or numpy_dtype(d).kind != "V" or numpy_dtype(c).kind != "f":
        return c
    return narrowed(c, numpy_dtype(d))


def numpy_dtype(value: Any) -> Any:
    """NumPy's dtype of an array, a batch or a tensor."""
    dtype = value.dtype
    return getattr(dtype, "numpy_dtype", dtype)


def unbroadcast(c: Any, shape: tuple[int, ...]) -> Any:
    """Sum over the axes along which an operand was repeated (or repeat, where a rule gave less than asked)."""
    have = tuple(c.shape)
    extra = len(have) - len(shape)
    if extra > 0 and have[extra:] == shape and type(c) is ndarray:  # a bias: the common case, at once (benchmark: rnn)
        return numpy_namespace.sum_rows(c) if extra == 1 else numpy_namespace.sum(c, axis=tuple(range(extra)))
    xp = namespace_of(c)
    if extra < 0:
        return xp.broadcast_to(c, shape=shape)
    axes = tuple(i for i, n in enumerate(have) if i < extra or (shape[i - extra] == 1 and n != 1))
    if axes:
        c = xp.sum(c, axis=axes, keepdims=False)
    if math.prod(c.shape) == math.prod(shape):
        return c if tuple(c.shape) == shape else xp.reshape(c, shape=shape)
    return xp.broadcast_to(c, shape=shape)
