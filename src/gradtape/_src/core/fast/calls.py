"""Generated calls: each vjp rule of a primitive as `vjp(g, values, attrs, shape)`."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gradtape._src import memory, threads
from gradtape._src.arrays import common_namespace, namespace_of, namespaces
from gradtape._src.arrays.base import generic_kernels
from gradtape._src.arrays.half import is_half
from gradtape._src.arrays.lazy import lazy_namespace
from gradtape._src.arrays.numpy.blocks import blockwise
from gradtape._src.arrays.symbolic import symbolic_namespace, symbolic_rules
from gradtape._src.core.fast.elementwise import write_fast_path
from gradtape._src.core.observe import expect_large_arrays, has_large_arrays
from gradtape._src.core.primitive import (
    VJP,
    Op,
    Rule,
    kind_of,
    narrowed,
    numpy_dtype,
    parameters,
    registry,
    unbroadcast,
    widened,
)

_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


def write_vjps(op: Op) -> None:
    """Generate a call `vjp(g, values, attrs, shape)` for each rule of a primitive, when a backward pass first needs it.

    The parameter names of a rule become the arguments of a call, which is generated and compiled once, the way
    namedtuple makes its classes: a backward pass runs it for every record (benchmarks: chain, rnn). The forms:

        vjps              raw arrays of float32 and float64
        checked_vjps      raw arrays of any dtype: conjugates for complex numbers, casts for bfloat16
        traced_vjps       tensors, when the backward pass is itself recorded
        half_vjps,        float16 and bfloat16 of a wide op: in float32, rounded once
        traced_half_vjps

    The last two are generated with the first record of such a dtype.
    """
    _write(op, "vjps", "checked_vjps", "traced_vjps")
    write_fast_path(op)


def recorder_fast(op: Op) -> Any:
    """Generate the fast path of lazy arrays with the first record of an op: every pass records the same calls."""
    if op.vjps is None and op.vjp_all is None:
        write_vjps(op)
    return op.recorder_fast


AS_ONE = frozenset({
    "astype", "broadcast_to", "identity", "log_softmax", "matmul", "mean", "reshape", "softmax", "stop_gradient", "sum",
    "transpose",
})  # fmt: skip
"""Ops besides the elementwise ones whose vjps are single calls of lazy arrays: their rules depend on shapes and static
arguments alone, and always return an array.
"""


def recorder_vjps(op: Op, dtype: Any) -> tuple[VJP | None, ...]:
    """The vjps of lazy arrays: each adds one call to the trace, whose kernel is the rule.

    For ops that are not in `AS_ONE` they are the rules themselves, which add each of their calls.
    """
    found = op.recorder_vjps.get(dtype)
    if found is None:
        found = vjps_of(op, dtype, False)
        if op.elementwise or op.name in AS_ONE:
            found = tuple([None if vjp is None else _recorder_vjp(op, i, dtype) for i, vjp in enumerate(found)])
        op.recorder_vjps[dtype] = found
    return found


def _recorder_vjp(op: Op, position: int, dtype: Any) -> VJP:
    rule = op.rules[position]
    assert rule is not None
    names = parameters(rule)[1:]
    slots = [slot for slot in map(op.slot, names) if slot is not None]
    static = [n for n in names if op.slot(n) is None and n not in ("xp", "half", f"{op.args[position]}_shape")]

    def kernel(xp: Any, g: Any, *saved: Any, shape: Any, **attrs: Any) -> Any:
        values: Any = [None] * (max(slots, default=-1) + 1)
        for slot, array in zip(slots, saved, strict=True):
            values[slot] = _Saved(array)
        vjp = vjps_of(op, dtype, False)[position]
        assert vjp is not None
        return vjp(g, values, attrs, shape)

    name = f"{op.name}_vjp_{position}_{dtype.name}"
    generic_kernels[name] = kernel
    symbolic_rules[name] = partial(kernel, symbolic_namespace)
    arguments = ["g", *[f"values[{slot}].array" for slot in slots], *[f"{n}=attrs[{n!r}]" for n in static]]
    source = f"lambda g, values, attrs, shape: record({', '.join(arguments)}, shape=shape)"
    vjp: VJP = eval(compile(source, f"<rule of {op.name}>", "eval"), {"record": getattr(lazy_namespace, name)})
    return vjp


class _Saved(NamedTuple):
    """A saved value, with the attributes that rules read."""

    array: Any


def _write(op: Op, *forms: str) -> None:
    for form in forms:
        setattr(op, form, tuple(_vjp(op, i, rule, form) for i, rule in enumerate(op.rules)))


def vjps_of(op: Op, dtype: Any, traced: bool) -> tuple[VJP | None, ...]:
    """The form for records of a dtype, or a tuple of dtypes if there are several outputs."""
    if op.vjps is None:
        write_vjps(op)
    if op.wide and type(dtype) is not tuple and is_half(dtype):
        if op.half_vjps is None:
            _write(op, "half_vjps", "traced_half_vjps")
        return op.traced_half_vjps if traced else op.half_vjps  # type: ignore[return-value]
    if traced:
        return op.traced_vjps  # type: ignore[return-value]
    return op.vjps if dtype is _FLOAT32 or dtype is _FLOAT64 else op.checked_vjps  # type: ignore[return-value]


def _vjp(op: Op, position: int, rule: Rule | None, form: str) -> VJP | None:
    if rule is None:
        return None
    traced, half = form.startswith("traced"), form.endswith("half_vjps")
    names = parameters(rule)[1:]
    args = [_argument(op, position, name, traced, half) for name in names]
    slots = [name for name in names if op.slot(name) is not None]
    call = f"rule({', '.join(['g', *args])})"
    # Without saved values an elementwise formula is linear with real coefficients: it is the same for every dtype.
    if op.elementwise and slots and form in ("checked_vjps", "traced_vjps"):
        call = f"({call} if kind_of(g) != 'c' else conjugated(rule, g, [{', '.join(args)}]))"
    elif form == "checked_vjps" and not op.elementwise and not op.outputs and op.name != "astype":
        call = f"narrow({call}, g)"
    if not (op.elementwise and len(op.args) == 1):  # operands broadcast: sum the cotangents back
        fits = f"(c := {call}).shape == shape" if op.elementwise else f"(c := {call}) is None or c.shape == shape"
        call = f"c if {fits} else unbroadcast(c, shape)"
    source = f"lambda g, values, attrs, shape: {call}"
    scope = {
        "rule": blockwise(rule) if op.elementwise and not traced and has_large_arrays() else rule,
        "namespaces": namespaces,
        "common_namespace": common_namespace,
        "kind_of": kind_of,
        "conjugated": _conjugated,
        "narrow": _narrow,
        "widened": widened,
        "unbroadcast": unbroadcast,
    }
    vjp: VJP = eval(compile(source, f"<rule of {op.name}>", "eval"), scope)
    return _rounded_once(vjp) if half else vjp


def _argument(op: Op, position: int, name: str, traced: bool, half: bool) -> str:
    """The source of the argument that the generated call passes for a parameter of a rule."""
    slot = op.slot(name)
    if slot is not None:
        value = f"values[{slot}]" if traced else f"values[{slot}].array"
        return f"widened({value})" if half else value
    if name == "xp":
        # Zeros, plain arrays, replace missing cotangents beside a batch.
        return "common_namespace(g)" if op.outputs else "namespaces[type(g)]"
    if name == "half":
        return str(half)
    return "shape" if name == f"{op.args[position]}_shape" else f"attrs[{name!r}]"


def _expect_large_arrays() -> bool:
    """With the first large array, run elementwise kernels and rules in blocks, if there are several cores."""
    if threads.limit() == 1:
        return False
    expect_large_arrays()
    for op in registry.values():
        if op.vjps is not None:
            write_vjps(op)
    return True


memory.at_large_arrays(_expect_large_arrays)


def _rounded_once(vjp: VJP) -> VJP:
    """Compute a vjp in float32, sums over broadcast axes included, for a half-precision cotangent."""
    return lambda g, values, attrs, shape: narrowed(vjp(widened(g), values, attrs, shape), numpy_dtype(g))


def _conjugated(rule: Rule, g: Any, args: list[Any]) -> Any:
    """Apply TensorFlow's convention for complex cotangents: g times the conjugate of f'."""
    found = rule(namespace_of(g).conj(g), *args)
    return namespace_of(found).conj(found)


def _narrow(c: Any, g: Any) -> Any:
    """Cast to bfloat16 again if a Python number in a rule has widened it."""
    if c is None or numpy_dtype(g).kind != "V" or numpy_dtype(c).kind != "f":
        return c
    return narrowed(c, numpy_dtype(g))
