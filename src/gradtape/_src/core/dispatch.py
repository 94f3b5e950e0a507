"""The hot path of every op: run a kernel, wrap the result, append a record for each recorder that tracks an input.

`unary` and `binary` build closures that are both TensorFlow's functions and the tensor's operators, so that `x * y` is
one Python call. They repeat a few lines for speed (benchmark: chain).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy import ndarray

from gradtape._src import errors, processes
from gradtape._src.active import active_stack
from gradtape._src.arrays import common_namespace, namespace_of, numpy_namespace, register_namespace
from gradtape._src.arrays.base import Namespace, generic_kernels
from gradtape._src.arrays.batched import Batched, batch_rules, batched_namespace
from gradtape._src.arrays.dimensions import UnknownDimensionError
from gradtape._src.arrays.lazy import Lazy, are_colocated, lazy_namespace
from gradtape._src.arrays.symbolic import Symbolic, symbolic_namespace, zeros
from gradtape._src.calls import calls
from gradtape._src.conversion import (
    constant_operand,
    converter_of,
    converters,
    defers_to,
    has_dtype,
    hinted_operands,
    number_beside,
    operand,
    operands,
    register_converter,
    wrap,
)
from gradtape._src.core import observe, tape as stack
from gradtape._src.core.composites import NotDenseError, call_on_composites
from gradtape._src.core.primitive import Op, Rule, registry
from gradtape._src.core.tape import use_recorders
from gradtape._src.devices import beside_strings, colocate, placement
from gradtape._src.dtypes import as_dtype, dtype_of
from gradtape._src.tensor import CONSTANT, Tensor, uids

if TYPE_CHECKING:
    from gradtape._src.typing import Activation, Binary, OpCall, OpCallOfMany, Unary

_FLOAT32 = np.dtype(np.float32)  # kernels preserve it, so only other dtypes are checked
_NO_ATTRS: dict[str, Any] = {}


class TensorNamespace(Namespace):
    """The primitives over tensors: the namespace of rules while the backward pass is recorded."""

    rank = 3

    def is_complex(self, x: Tensor) -> bool:
        return bool(x.array.dtype.kind == "c")

    def zeros(self, shape: Any, dtype: Any) -> Tensor:
        return constant_operand(zeros(shape, dtype))


tensor_namespace: Any = TensorNamespace()
register_namespace(Tensor, tensor_namespace)
register_converter(Symbolic, constant_operand)  # a dynamic size, as an operand in a rule


def declare(op: Op, call: Callable[..., Any]) -> Callable[..., Any]:
    """Set the call of a primitive, and the name and docstring of the call.

    Modules of primitives are imported on first use, when kernels may be wrapped already.
    """
    call.__name__ = call.__qualname__ = op.name
    call.__module__ = "gradtape._src.ops.by_name"  # pickle finds it there
    call.__doc__ = op.docstring()
    op.call = call
    if hasattr(numpy_namespace, op.name):
        op.kernel = observe.wrapped(op, observe.numpy_kernel(op))
    op.recorder = observe.recorder(op)
    op.recorder_of_two = observe.recorder_of_two(op.recorder)
    calls[op.name] = call
    setattr(TensorNamespace, op.name, staticmethod(call))
    return call


def register_function(name: str, *, arrays: Any, batches: Any, tensors: Any) -> None:
    """Add a function that is not a primitive to all namespaces: for raw arrays, batches and recorded tensors."""
    generic_kernels[name] = arrays
    batch_rules[name] = batches
    setattr(TensorNamespace, name, staticmethod(tensors))


# -- recording -------------------------------------------------------------------------------------------------------
def record(op: Op, inputs: Sequence[Tensor], outputs: Tensor | tuple[Tensor, ...], attrs: dict[str, Any]) -> None:
    """Append a record to every recorder that tracks an input. The hot forms below inline these lines."""
    recorders = active_stack()
    while recorders is not None:
        tracked, append, recorder, recorders = recorders
        for tensor in inputs:
            if tensor.uid in tracked:
                break
        else:
            continue
        uids = tuple([t.uid for t in inputs])
        output: Any
        dtype: Any
        if type(outputs) is tuple:
            outs = outputs
            output, dtype = tuple([t.uid for t in outs]), tuple([t.array.dtype for t in outs])
        else:
            outs = (outputs,)  # type: ignore[assignment]
            output, dtype = outputs.uid, outputs.array.dtype  # type: ignore[union-attr]
        values: tuple[Tensor | None, ...] = ()
        if op.differentiable:  # others are recorded as well, so that the tape can report where a path ended
            for out in outs:
                tracked[out.uid] = out.array.shape
            if op.may_raise:
                recorder.may_raise = True
            if op.saves or op.vjp_all_saves:
                values = saved_values(op, uids, (*inputs, *outs))
        entry = (op, uids, output, values, attrs, dtype)
        if append(entry) is True:
            recorder.on_op(entry, inputs, outputs)


def saved_values(op: Op, uids: Sequence[int], slots: tuple[Tensor, ...]) -> tuple[Tensor | None, ...]:
    """The tensors to save: those that the rules need, except inputs that cannot be watched."""
    if op.vjp_all is not None:
        return tuple([t if i in op.vjp_all_saves else None for i, t in enumerate(slots)]) if op.vjp_all_saves else ()
    keep = op.saves
    if CONSTANT in uids:
        keep = frozenset().union(*[needs for uid, needs in zip(uids, op.keep, strict=True) if uid != CONSTANT])
    return tuple([t if i in keep else None for i, t in enumerate(slots)]) if keep else ()


# -- the general call ------------------------------------------------------------------------------------------------
def run(op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any], rewriting: bool = True) -> Any:
    """Run a primitive on tensors and record it. Without `rewriting`, no rewrite replaces it."""
    arrays = [t.array for t in inputs]
    if placement.several and not are_colocated(arrays):
        inputs = colocate(op, inputs)
        arrays = [t.array for t in inputs]
    kernel = op.kernel
    for array in arrays:
        if type(array) is not ndarray:
            if _recorded_inside(arrays):
                return _run_inside(op, inputs, attrs)
            if rewriting and op.rewrite is not None and (other := op.rewrite(op, inputs, attrs)) is not None:
                return other
            kernel = _kernel(op, common_namespace(arrays))
            break
    try:
        value = kernel(*arrays, **attrs)
    except UnknownDimensionError as error:
        value = _in_graph(op, arrays, attrs, error)
    except _RAW as error:
        on_host = beside_strings(inputs)
        if on_host is not inputs:
            return run(op, on_host, attrs)
        raise _explained(op, arrays, error) from None
    outputs: Any
    if type(value) is tuple:
        outputs = tuple([wrap(v if type(v) is ndarray else _as_array(v)) for v in value])
    else:
        outputs = wrap(value if type(value) is ndarray else _as_array(value))
    record(op, inputs, outputs, attrs)
    return outputs


def _in_graph(op: Op, arrays: Sequence[Any], attrs: dict[str, Any], error: UnknownDimensionError) -> Any:
    """Run a primitive on constants as part of the program, because its static arguments have dynamic sizes."""
    if any(type(array) is not ndarray for array in arrays):
        raise error
    return getattr(symbolic_namespace, op.name)(*arrays, **attrs)


def _recorded_inside(arrays: Sequence[Any]) -> bool:
    """Whether an operand is a batch of recorded tensors: then the op runs on them, and is recorded there."""
    return any(type(array) is Batched and type(array.array) is Tensor for array in arrays)


def _run_inside(op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
    """Run a primitive on a batch of recorded tensors.

    Recorders from outside the batch record the ops on the tensor inside, so operands that are not batched are passed as
    tensors, not as arrays. Recorders that started later record the batch as one tensor.
    """
    level = max(t.array.level for t in inputs if type(t.array) is Batched)
    operands = [t.array if type(t.array) is Batched and t.array.level == level else t for t in inputs]
    value = getattr(batched_namespace, op.name)(*operands, **attrs)
    outputs = tuple([wrap(v) for v in value]) if type(value) is tuple else wrap(value)
    later = tuple([recorder for recorder in stack.active_recorders() if recorder.born > level])
    if later:
        with use_recorders(later):
            record(op, inputs, outputs, attrs)
    return outputs


def _as_array(value: Any) -> Any:
    """Convert NumPy's scalars, which replace 0-d arrays, to arrays."""
    if isinstance(value, bytes):
        return np.array(value, object)  # a sum of two strings
    return np.asarray(value) if isinstance(value, np.generic) else value


@overload
def primitive(name: str, args: Sequence[str], *rules: Rule | None, outputs: int, **facts: Any) -> OpCallOfMany: ...
@overload
def primitive(name: str, args: Sequence[str], *rules: Rule | None, **facts: Any) -> OpCall: ...
def primitive(name: str, args: Sequence[str], *rules: Rule | None, **facts: Any) -> Callable[..., Any]:
    """Declare a primitive with `len(args)` tensor inputs; its call takes tensors and static keywords."""
    op = Op(name, args, rules or (None,) * len(args), **facts)

    def call(*inputs: Any, **attrs: Any) -> Any:
        return run(op, [t if type(t) is Tensor else operand(t) for t in inputs], attrs)

    return declare(op, _call_of_one(op) if len(op.args) == 1 and not op.outputs else call)


def _call_of_one(op: Op) -> Callable[..., Any]:
    """The call of a primitive with one input and one output: `run`, specialised (benchmark: mlp32)."""
    checked = bool(op.kinds) and op.kinds != "any"

    def call(x: Any, /, **attrs: Any) -> Any:
        if type(x) is not Tensor:
            x = operand(x)
        array = x.array
        if checked and array.dtype is not _FLOAT32 and not _allowed(op, array):
            raise errors.unsupported_dtype(op.tf_name, dtype_of(array), op.kinds)
        if type(array) is Lazy:
            kernel = op.recorder
        elif type(array) is not ndarray or placement.several:
            return run(op, (x,), attrs)
        else:
            kernel = op.kernel
        try:
            value = kernel(array, **attrs)
        except UnknownDimensionError as error:
            value = _in_graph(op, (array,), attrs, error)
        except _RAW as error:
            raise _explained(op, (array,), error) from None
        if type(value) is Lazy:  # stays lazy: no conversion
            out = Tensor()
            out.array = value
            out.uid = next(uids)
        else:
            out = wrap(value if type(value) is ndarray else _as_array(value))
        if active_stack() is not None:
            _record_one(op, x, out, attrs)
        return out

    return call


def _record_one(op: Op, x: Tensor, out: Tensor, attrs: dict[str, Any]) -> None:
    """`record` for one input and one output (benchmark: mlp32)."""
    recorders = active_stack()
    source, uid = x.uid, out.uid
    while recorders is not None:
        tracked, append, recorder, recorders = recorders
        if source not in tracked:
            continue
        values: tuple[Tensor | None, ...] = ()
        if op.differentiable:
            tracked[uid] = out.array.shape
            if op.may_raise:
                recorder.may_raise = True
            if op.saves or op.vjp_all_saves:
                values = saved_values(op, (source,), (x, out))
        entry = (op, (source,), uid, values, attrs, out.array.dtype)
        if append(entry) is True:
            recorder.on_op(entry, (x,), out)


def linear(name: str, transpose: Rule, **facts: Any) -> OpCall:
    """Declare a linear primitive of one tensor: its vjp rule is the transpose, its jvp rule the primitive itself."""
    return primitive(name, ("x",), transpose, linear=True, **facts)


# -- the hot forms ---------------------------------------------------------------------------------------------------
@overload
def unary(name: str, dx: Rule | None, *, arg: Literal["features"], **facts: Any) -> Activation: ...
@overload
def unary(name: str, dx: Rule | None, **facts: Any) -> Unary: ...
def unary(
    name: str, dx: Rule | None, *, tf_name: str | None = None, kinds: str = "fc", arg: str = "x", **facts: Any
) -> Callable[..., Any]:
    """Declare an elementwise primitive of one tensor, which users of TensorFlow may pass as `arg=...`."""
    op = Op(name, ("x",), (dx,), tf_name=tf_name, elementwise=True, kinds=kinds, **facts)
    call = _differentiable_unary(op) if op.differentiable else _non_differentiable_unary(op)
    if arg != "x":  # the name of a parameter belongs to the code object: a wrapper would cost a call
        code = call.__code__
        call.__code__ = code.replace(co_varnames=(arg, *code.co_varnames[1:]))
    return declare(op, call)


def _differentiable_unary(op: Op) -> Callable[..., Any]:
    keep_x, keep_out = [slot in op.saves for slot in range(2)]
    keep_out_only = keep_out and not keep_x

    def call(x: Any, name: str | None = None) -> Any:  # one Python call for each op (benchmark: chain)
        if type(x) is not Tensor:
            try:
                x = operand(x)
            except ValueError:
                return call_on_composites(op.name, call, (x,), {})
        array = x.array
        try:
            if type(array) is ndarray:
                kernel = op.kernel
                value = kernel(array)
                if type(value) is not ndarray:
                    value = _as_array(value)
            elif type(array) is Lazy:
                value = op.recorder(array)
            else:
                value = _kernel(op, namespace_of(array))(array)
        except _RAW as error:
            raise _explained(op, (array,), error) from None
        dtype = array.dtype
        if dtype is not _FLOAT32:
            value = _settle(op, array, value, op.kinds)
        out = Tensor()
        out.array = value
        out.uid = uid = next(uids)
        recorders = active_stack()
        while recorders is not None:
            tracked, append, recorder, recorders = recorders
            source = x.uid
            if source in tracked:
                tracked[uid] = tracked[source]
                saved = out if keep_out_only else (x, out) if keep_out else x if keep_x else ()
                entry = (op, source, uid, saved, _NO_ATTRS, dtype)
                if append(entry) is True:
                    recorder.on_op(entry, (x,), out)
        return out

    return call


def _non_differentiable_unary(op: Op) -> Callable[..., Any]:
    """The call of a primitive without a derivative: rounding, predicates. Tapes record only that a path ends here."""
    plain = as_dtype("bool") if op.kinds == "b" else None

    def call(x: Any, name: str | None = None) -> Any:
        try:
            x = operand(x, None if plain is None or has_dtype(x) else plain)
        except ValueError:
            return call_on_composites(op.name, call, (x,), {})
        array = x.array
        if not _allowed(op, array):
            raise errors.unsupported_dtype(op.tf_name, dtype_of(array), op.kinds)
        out = wrap(_as_array(_kernel(op, namespace_of(array))(array)))
        record(op, (x,), out, _NO_ATTRS)
        return out

    return call


def binary(
    name: str,
    dx: Rule | None,
    dy: Rule | None,
    *,
    tf_name: str | None = None,
    kinds: str = "fciu",
    **facts: Any,
) -> Binary:
    """Declare an elementwise primitive of two tensors of one dtype; the engine un-broadcasts its derivative."""
    op = Op(name, ("x", "y"), (dx, dy), tf_name=tf_name, elementwise=True, kinds=kinds, **facts)
    return declare(op, _binary_call(op, operator=False))


def product(
    name: str, dx: Rule, dy: Rule, flags: tuple[str, str], **facts: Any
) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """Declare a product of two tensors of the same dtype with two static flags.

    Returns its call, and two without flags: a plain call and the operator (benchmarks: rnn, mlp32).
    """
    op = Op(name, ("x", "y"), (dx, dy), **facts)
    calls = {
        (a, b): _differentiable_call(op, False, {flags[0]: a, flags[1]: b})
        for a in (False, True)
        for b in (False, True)
    }
    plain = calls[False, False]

    def call(x: Any, y: Any, **given: bool) -> Any:
        if not given:
            return plain(x, y)
        return calls[given.get(flags[0], False), given.get(flags[1], False)](x, y)

    return declare(op, call), plain, _differentiable_call(op, True, dict.fromkeys(flags, False))


def as_operator(function: Callable[..., Any]) -> Callable[..., Any]:
    """The operator of a binary primitive: it defers to operands that implement it themselves."""
    return _binary_call(registry[function.__name__], operator=True)


def _binary_call(op: Op, *, operator: bool) -> Callable[..., Any]:
    call = _differentiable_call(op, operator) if op.differentiable else _non_differentiable_call(op)
    call.__name__ = call.__qualname__ = op.name
    return call


def _differentiable_call(  # noqa: C901 - one call a binary op (benchmarks: chain, rnn)
    op: Op, operator: bool, attrs: dict[str, Any] = _NO_ATTRS
) -> Callable[..., Any]:
    hinted = op.hinted
    first_decides = hinted and not operator
    broadcasts = op.elementwise
    reflected = _REFLECTED.get(op.name, "")
    multiplies = operator and op.name == "multiply"  # x * y of booleans is logical_and
    kinds = op.kinds + "b" if multiplies else op.kinds
    given = attrs if any(attrs.values()) else None  # the flags, if one of them is True: False is the kernel's default
    keep_x, keep_y, keep_out = [slot in op.saves for slot in range(3)]
    keep_both, keep_nothing = op.saves == {0, 1}, not op.saves

    def call(x: Any, y: Any, name: str | None = None) -> Any:  # noqa: C901 - benchmarks: chain, rnn
        if type(x) is not Tensor or type(y) is not Tensor:
            # A variable after a tensor, a number before one: `operands` does the same, with more calls
            # (benchmarks: rnn, mlp32).
            try:
                if type(x) is Tensor and (converter := converters.get(type(y))) is not None:
                    y = converter(y)
                elif type(x) is float and type(y) is Tensor and not first_decides:
                    x = number_beside(x, y.array)
                elif type(x) is Tensor and (type(y) is float or type(y) is int):
                    try:
                        y = number_beside(y, x.array)
                    except (TypeError, ValueError):
                        if multiplies and x.array.dtype.kind == "b":
                            y = _truth(y)
                        elif hinted:  # the op rejects two different dtypes
                            y = operand(y)
                        else:
                            raise
                elif type(x) is float and type(y) in converters and type(y) not in defers_to and not first_decides:
                    y = converters[type(y)](y)
                    x = number_beside(x, y.array)
                elif operator and defers(y, reflected):
                    return NotImplemented
                elif first_decides or (hinted and has_dtype(x)):
                    x, y = hinted_operands(x, y)
                elif multiplies and type(x) is Tensor and x.array.dtype.kind == "b":
                    y = _truth(y)
                else:
                    x, y = operands(x, y)
            except NotDenseError:
                return call_on_composites(op.name, call, (x, y), {})
            except (TypeError, ValueError) as error:
                if multiplies and (repeated := _repeated(x, y, error)) is not None:
                    return repeated
                raise
        a, b = x.array, y.array
        dtype = a.dtype
        if dtype is b.dtype and type(a) is ndarray and type(b) is ndarray:
            try:
                kernel = op.kernel
                value = kernel(a, b) if given is None else kernel(a, b, **given)
            except (ValueError, TypeError):
                value = _general_binary(op, a, b, attrs, (x, y))
                if type(value) is Tensor:
                    return value
            if type(value) is not ndarray:
                value = _as_array(value)
        else:
            if dtype is b.dtype and (
                (b.spec.device is a.spec.device if type(b) is Lazy else type(b) is ndarray and not b.shape)
                if type(a) is Lazy
                else type(b) is Lazy and b.is_colocated_with(a)
            ):
                if (
                    op.rewrite is not None
                    and (not broadcasts or (a.shape != b.shape and a.shape and b.shape))  # a formula has a column there
                    and (other := op.rewrite(op, (x, y), attrs)) is not None
                ):
                    return other
                try:
                    value = op.recorder_of_two(a, b) if given is None else op.recorder(a, b, **given)
                except (ValueError, TypeError):
                    value = _general_binary(op, a, b, attrs, (x, y))
            else:
                value = _general_binary(op, a, b, attrs, (x, y))
            if type(value) is Tensor:
                return value
        if dtype is not _FLOAT32:
            value = _settle(op, a, value, kinds)
        out = Tensor()
        out.array = value
        out.uid = uid = next(uids)
        recorders = active_stack()
        values: tuple[Tensor | None, ...]
        while recorders is not None:
            tracked, append, recorder, recorders = recorders
            first, second = x.uid, y.uid
            if first in tracked or second in tracked:
                if keep_both and first != 0 and second != 0:
                    values = (x, y)
                elif keep_nothing:
                    values = ()
                elif first and second:
                    values = (x if keep_x else None, y if keep_y else None, out if keep_out else None)
                else:  # the rule of an operand that cannot be watched never runs: it needs nothing saved
                    slots = op.keep[0] if first else op.keep[1]
                    values = (x if 0 in slots else None, y if 1 in slots else None, out if 2 in slots else None)
                tracked[uid] = value.shape
                entry = (op, (first, second), uid, values, attrs, dtype)
                if append(entry) is True:
                    recorder.on_op(entry, (x, y), out)
        return out

    return call


def _repeated(x: Any, y: Any, error: Exception) -> Any:
    """A string or sequence repeated x times: Python's `n * "ab"`, where n is an integer scalar tensor.

    None for other calls, whose error remains. A scalar of another dtype raises what Python raises in TensorFlow.
    """
    if type(y) not in (str, bytes, list, tuple) or isinstance(x, (str, bytes, list, tuple)):
        return None
    array = operand(x).array
    if array.shape or array.dtype.kind in "bO" or type(array) is Lazy:
        return None
    if array.dtype.kind in "iu":
        return y * int(array)
    kind = array.dtype.type
    raise AttributeError(f"'{kind.__module__}.{kind.__name__}' object has no attribute '__index__'. {error}") from None


def _truth(y: Any) -> Tensor:
    """The right operand of `x * y` with a boolean x: numbers other than 0 are true."""
    y = operand(y)
    return wrap(namespace_of(y.array).astype(y.array, dtype=np.dtype(np.bool_))) if y.array.dtype.kind in "fciu" else y


def _non_differentiable_call(op: Op) -> Callable[..., Any]:
    """The call of a primitive without a derivative: comparisons, logic. Tapes record only that a path ends here."""
    plain = as_dtype("bool") if op.kinds == "b" else None

    def call(x: Any, y: Any, name: str | None = None) -> Any:
        try:
            if plain is None:
                x, y = operands(x, y)
            else:
                x, y = (operand(t, None if has_dtype(t) else plain) for t in (x, y))
        except NotDenseError:
            return call_on_composites(op.name, call, (x, y), {})
        a, b = x.array, y.array
        if not _allowed(op, a):
            raise errors.unsupported_dtype(op.tf_name, dtype_of(a), op.kinds)
        value = _general_binary(op, a, b, _NO_ATTRS, (x, y))
        if type(value) is Tensor:
            return value
        out = wrap(value)
        record(op, (x, y), out, _NO_ATTRS)
        return out

    return call


def _kernel(op: Op, xp: Any) -> Callable[..., Any]:
    """The kernel of a primitive in a namespace."""
    if xp is numpy_namespace:
        return op.kernel
    if xp is lazy_namespace:
        return op.recorder
    return observe.wrapped(op, getattr(xp, op.name))


_REFLECTED = {
    "add": "__radd__",
    "subtract": "__rsub__",
    "multiply": "__rmul__",
    "divide": "__rtruediv__",
    "matmul": "__rmatmul__",
}


_CONVERTED = (Tensor, int, float, complex, str, bytes, list, tuple, set, frozenset, dict, ndarray, np.generic)
"""Types of operands that are converted or rejected; their own operators are never called."""


def defers(other: Any, reflected: str) -> bool:
    """Whether an operator defers to the other operand: a foreign object with its own operator,
    which is not an array.
    """
    kind = type(other)
    if kind is Tensor or kind is float or kind is int:
        return False
    if kind in converters:
        return kind in defers_to
    return (
        kind is Batched
        or kind in defers_to
        or (
            not isinstance(other, _CONVERTED)
            and hasattr(kind, reflected)
            and converter_of(other) is None
            and not hasattr(other, "__array__")
            and not hasattr(other, "__dlpack__")
        )
    )


# -- off the hot path: TensorFlow's errors for mismatched operands ---------------------------------------------------
def _general_binary(op: Op, a: Any, b: Any, attrs: dict[str, Any], tensors: tuple[Tensor, Tensor]) -> Any:
    """The result as an array or, with batches of recorded tensors, as a recorded tensor."""
    if a.dtype != b.dtype:
        raise errors.mismatched_dtypes(op.tf_name, dtype_of(a), dtype_of(b))
    if placement.several and (together := colocate(op, tensors)) is not tensors:
        return op.call(*together, **attrs)
    if op.explain is not None and (problem := op.explain(a, b, **attrs)) is not None:
        raise problem
    if op.rewrite is not None and (other := op.rewrite(op, tensors, attrs)) is not None:
        return other
    try:
        if _recorded_inside((a, b)):
            return _run_inside(op, tensors, attrs)
        return _as_array(_kernel(op, common_namespace((a, b)))(a, b, **attrs))
    except _RAW as error:
        raise _binary_error(op, a, b) or _explained(op, (a, b), error) from None


def _binary_error(op: Op, a: Any, b: Any) -> Exception | None:
    try:
        np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return errors.incompatible_shapes(op.tf_name, a.shape, b.shape)
    return None if _allowed(op, a) else errors.unsupported_dtype(op.tf_name, dtype_of(a), op.kinds)


_RAW = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, MemoryError, NotImplementedError)
"""Exceptions that kernels of NumPy or JAX raise; TensorFlow's errors are not among them."""


def _explained(op: Op, arrays: Sequence[Any], error: Exception) -> Exception:
    """TensorFlow's error for an exception that NumPy or JAX raised inside a kernel."""
    if isinstance(error, (errors.OperatorNotAllowedInGraphError, errors.InaccessibleTensorError)):
        return error
    if getattr(error, "is_out_of_scope", False):
        return error
    if processes.tells_of_others(error):
        return errors.lost_worker(error)
    for array in arrays:
        if array.dtype.kind == "O" or (op.kinds and not _allowed(op, array)):
            return errors.unsupported_dtype(op.tf_name, dtype_of(array), op.kinds)
    if isinstance(error, MemoryError) or "too big" in str(error):
        largest = max(arrays, key=lambda array: len(array.shape))
        return errors.out_of_memory(largest.shape, dtype_of(largest), op.tf_name)
    sentence = str(error).strip().split("\n")[0] or type(error).__name__
    return errors.invalid_argument(
        f"{sentence} Received shapes {', '.join(errors.brackets(array.shape) for array in arrays)}.", op.tf_name
    )


def _allowed(op: Op, array: Any) -> bool:
    kind = "f" if array.dtype.kind == "V" else array.dtype.kind
    return kind in op.kinds or op.kinds == "any"


def _settle(op: Op, array: Any, value: Any, kinds: str) -> Any:
    """Cast the result to the dtype of the input, if the primitive accepts it; NumPy may have promoted it."""
    kind = "f" if array.dtype.kind == "V" else array.dtype.kind
    if kind not in kinds and kinds != "any":
        raise errors.unsupported_dtype(op.tf_name, dtype_of(array), kinds)
    return value if value.dtype == array.dtype else value.astype(array.dtype)
