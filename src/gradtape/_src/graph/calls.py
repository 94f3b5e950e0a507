"""Calls of traced functions as ops: their vjp and jvp rules, and their kernels in every namespace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src.arrays.dimensions import Sizes, evaluated
from gradtape._src.arrays.symbolic import Symbolic, zeros
from gradtape._src.conversion import wrap
from gradtape._src.core import dispatch
from gradtape._src.core.expansion import SeriesCall
from gradtape._src.core.primitive import Op, program_op
from gradtape._src.core.series import Unsaved
from gradtape._src.core.structure import OpCall, Propagation, dense
from gradtape._src.core.tape import Record, active_recorders
from gradtape._src.graph.checks import NONE
from gradtape._src.graph.program import to_numpy
from gradtape._src.graph.trace import Trace, as_tensor, modes_of, record, tracked_shape, unbatched
from gradtape._src.tensor import Tensor, is_differentiable
from gradtape._src.variable import Variable

if TYPE_CHECKING:
    from gradtape._src.graph.derivative import Derivative
    from gradtape._src.graph.traced import Traced


def _vjp_of_call(
    xp: Any,
    g: list[Any],
    needs: list[Any],
    *saved: Any,
    derivative: Derivative,
    host: bool,
    sizes: Sizes | None,
    variable_args: Sequence[Variable],
    keeps_residuals: bool,
    nested: tuple[int, ...],
) -> list[Any]:
    """The vjp rule of a call: run the backward program on the residuals and the cotangents.

    `nested` are the uids of the inputs if several tapes recorded the call, or a persistent one.
    """
    rows, g, batched_again = unbatched(g)
    found = derivative.gradients(g, needs, saved, rows, host, sizes, variable_args, bool(nested))
    if nested and rows is None:
        derivative.link(found, nested)
    return batched_again(found)


def _jvp_of_call(given: list[Any], saved: list[Any], attrs: dict[str, Any], _: Any) -> tuple[Any, ...] | None:
    """The jvp rule of a call; None if it was recorded for tapes alone."""
    derivative: Derivative = attrs["derivative"]
    if not derivative.forward:
        return None
    rows, given, batched_again = unbatched(given)
    residuals = derivative.residuals if attrs["keeps_residuals"] else ()
    host, sizes, variable_args = attrs["host"], attrs["sizes"], attrs["variable_args"]
    found = derivative.tangents(given, saved, residuals, rows, host, sizes, variable_args)
    return (*batched_again(found), *[None] * (len(saved) - len(residuals)))


def _vjp_of_part(
    xp: Any,
    g: list[Any],
    needs: list[Any],
    *inputs: Any,
    traced: Traced,
    sizes: Sizes | None,
    variable_args: Sequence[Variable],
) -> list[Any]:
    """The vjp rule of a call that a trace has inlined: call the forward program again with residuals, then the backward
    program.
    """
    rows, g, batched_again = unbatched(g)
    g = [None if x is None else as_tensor(x) for x in g]
    tensors = [as_tensor(t) for t in inputs]
    derivative = _derivative_of_part(traced, tensors, needs, variable_args, forward=False)
    _, residuals = traced.with_residuals(tensors, derivative, sizes, variable_args)
    g = [*g, *[None] * len(residuals)]
    return batched_again(derivative.gradients(g, needs, residuals, rows, sizes=sizes, variable_args=variable_args))


def _jvp_of_part(given: list[Any], inputs: list[Any], attrs: dict[str, Any], _: Any) -> tuple[Any, ...]:
    """The jvp rule of a call that a trace has inlined: call it again with residuals, then the tangent program."""
    traced, sizes, variable_args = attrs["traced"], attrs["sizes"], attrs["variable_args"]
    rows, given, batched_again = unbatched(given)
    given = [None if t is None else as_tensor(t) for t in given]
    tensors = [as_tensor(t) for t in inputs]
    lead = 0 if rows is None else 1
    shapes = [None if t is None else tuple(t.array.shape)[lead:] for t in given]
    derivative = _derivative_of_part(traced, tensors, shapes, variable_args, forward=True)
    _, residuals = traced.with_residuals(tensors, derivative, sizes, variable_args)
    return tuple(
        batched_again(derivative.tangents(given, residuals, (), rows, sizes=sizes, variable_args=variable_args))
    )


def _derivative_of_part(
    traced: Traced, tensors: Sequence[Tensor], needs: Sequence[Any], variable_args: Sequence[Variable], forward: bool
) -> Derivative:
    """The derivative with respect to the inputs whose gradients are needed, and to tracked ones: residuals depend on
    these, too.
    """
    recorders = active_recorders()
    around, pushing = modes_of(recorders)
    wanted = [
        i
        for i, (uid, shape) in enumerate(zip(traced.outer_uids(tensors, variable_args), needs, strict=True))
        if (i >= len(tensors) or is_differentiable(tensors[i].array))
        and (shape is not None or tracked_shape(uid, recorders) is not None)
    ]
    return traced.derivative(tuple(wanted), needs, (around or not forward, pushing or forward))


# -- functions that are traced into others ---------------------------------------------------------------------------
def linked(outputs: Sequence[Tensor], trace: Trace, first: int) -> Sequence[Tensor]:
    """The outputs of a function that was traced into another one, from the record `first` on, as outputs of one op.

    As in TensorFlow, the gradient of one output is zeros, not None, for inputs that only another output depends on.
    """
    found = _dependence(trace, first)
    external, masks = found.external, [found.mask(t.uid) for t in outputs]
    together = each = masks[0]
    for mask in masks[1:]:
        together, each = together | mask, each & mask
    missing = [uid for uid, bit in external.items() if bit & together & ~each]
    if not missing:
        return outputs
    recorders = active_recorders()
    uids = (*[t.uid for t in outputs], *missing)
    same = tuple([wrap(t.array) for t in outputs])
    arrays = [trace.arrays.get(uid) for uid in missing]
    dtypes = [same[0].array.dtype if array is None else array.dtype for array in arrays]
    record(recorders, LINK, uids, same, (), {"count": len(same), "dtypes": dtypes})
    return same


def joined(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
    """Tensors as outputs of one op with these inputs: unconnected gradients are zeros, not None."""
    same = tuple([wrap(t.array) for t in outputs])
    uids = (*[t.uid for t in outputs], *[t.uid for t in inputs])
    record(active_recorders(), LINK, uids, same, (), {"count": len(same), "dtypes": [t.array.dtype for t in inputs]})
    return list(same)


class _Dependence:
    """The values from before some records that the results of the records depend on, as bit masks."""

    def __init__(self) -> None:
        self.external: dict[int, int] = {}
        self.masks: dict[int, int] = {}

    def mask(self, uid: int) -> int:
        """The mask of the values that a value depends on; a value from before the records has a bit of its own."""
        found = self.masks.get(uid)
        return self.external.setdefault(uid, 1 << len(self.external)) if found is None else found


def _dependence(trace: Trace, first: int) -> _Dependence:
    found = _Dependence()
    for entry in trace.records[first:]:
        op, uids, results = entry[0], entry[1], entry[2]
        mask = 0
        if op.differentiable:
            for uid in uids:
                if uid in trace.tracked:
                    mask |= found.mask(uid)
        for uid in results if type(results) is tuple else (results,):
            found.masks[uid] = mask
    return found


def _vjp_of_link(xp: Any, g: list[Any], needs: list[Any], *saved: Any, count: int, dtypes: Sequence[Any]) -> list[Any]:
    """Pass the cotangents through, with zeros for the other inputs."""
    pairs = zip(needs[count:], dtypes, strict=True)
    return [*g, *[None if shape is None else wrap(zeros(shape, dtype)) for shape, dtype in pairs]]


def _jvp_of_link(given: list[Any], saved: list[Any], attrs: dict[str, Any], _: Any) -> tuple[Any, ...]:
    return tuple(given[: attrs["count"]])


def _structure_of_call(call: OpCall) -> Any:
    """Propagate index sets through the tape of the function, to its outputs and residuals.

    Values are unknown there. If dimensions are unknown as well, the call counts as dense.
    """
    derivative = call.attrs.get("derivative")
    traced: Traced = call.attrs["traced"] if derivative is None else derivative.traced
    if traced.graph.polymorphic:
        return dense(call)
    inside = Propagation(call.sets, traced.trace.tracked, call.local)
    pairs = zip(traced.inner_uids(), call.ids, strict=True)
    found = inside.run(traced.trace.records, {uid: ids for uid, ids in pairs if ids is not None})
    call.propagation.dense_ops.extend(inside.dense_ops)
    uids = [t.uid for t in traced.outputs]
    uids += [] if derivative is None else [r.uid for r in derivative.residuals]
    if not all(uids):
        return dense(call)  # a residual is not a tensor of the trace
    outputs = enumerate(zip(uids, call.outputs, strict=True))
    return tuple(
        call.empty(i) if shape is None or uid not in found else np.broadcast_to(found[uid], shape)
        for i, (uid, shape) in outputs
    )


def _structure_of_link(call: OpCall) -> Any:
    return tuple(call.dense_input(i) for i in range(call.attrs["count"]))


def _series_of_link(call: SeriesCall) -> Any:
    return call.given[: call.record.attrs["count"]]


def _series_of_call(call: SeriesCall) -> Any:
    """Taylor mode through the tape of the function, with the residuals of the forward program as saved values."""
    derivative: Derivative = call.record.attrs["derivative"]
    return _series_inside(call, derivative, call.record.values)


def _series_of_part(call: SeriesCall) -> Any:
    """The same for a call that a trace has inlined, which is run again with residuals."""
    traced, sizes, variable_args = (call.record.attrs[name] for name in ("traced", "sizes", "variable_args"))
    tensors = call.record.values
    needs = [None if x is None else x.shape for x in call.given]
    derivative = _derivative_of_part(traced, tensors, needs, variable_args, forward=False)
    _, residuals = traced.with_residuals(tensors, derivative, sizes, variable_args)
    return _series_inside(call, derivative, residuals)


def _series_inside(call: SeriesCall, derivative: Derivative, residuals: Sequence[Any]) -> list[Any]:
    """The series of the outputs of a call; residuals are not differentiated."""
    traced = derivative.traced
    if traced.graph.root.dynamic_sizes:
        raise NotImplementedError(
            "Taylor mode does not support compiled functions in which shapes depend on values. Open the tape "
            "inside the function, or call its `python_function`."
        )
    sizes = dict(call.record.attrs["sizes"] or ())
    known = {id(r.symbol): value for r, value in zip(derivative.residuals, residuals, strict=True)}
    records = [_with_values(entry, known, sizes) for entry in traced.trace.records]
    shapes = {uid: evaluated(shape, sizes) for uid, shape in traced.trace.tracked.items()}
    targets = [t.uid for t in traced.outputs]
    found = call.inside(records, shapes, traced.inner_uids(), targets)
    return [*found, *[None] * (len(call.outputs) - len(found))]


def _with_values(entry: Record, known: dict[int, Any], sizes: dict[str, int]) -> Record:
    """A record of a trace, with arrays instead of symbols."""
    values = [None if v is None else _value_of(entry.op, v, known, sizes) for v in entry.values]
    attrs = {name: evaluated(value, sizes) for name, value in entry.attrs.items()} if sizes else entry.attrs
    return entry._replace(values=tuple(values), attrs=attrs)


def _value_of(op: Op, tensor: Tensor, known: dict[int, Any], sizes: dict[str, int]) -> Any:
    if type(tensor.array) is not Symbolic:
        return tensor
    found = known.get(id(tensor.array))
    if found is None:
        return Unsaved(op, evaluated(tuple(tensor.array.shape), sizes), tensor.array.dtype)
    return found


def _refuse_derivative(*given: Any, **attrs: Any) -> Any:
    """Raise TensorFlow's error for the derivative of a sum over processes: this process knows only its own part."""
    raise LookupError(
        "No gradient defined for operation 'CollectiveReduceV2' (op type: CollectiveReduceV2). A function that reduces "
        "over the replicas of several processes has no derivative. Put the tape in the function that strategy.run "
        "calls; tf.distribute.get_replica_context().all_reduce has a gradient there."
    )


LINK = program_op("identity_n", "IdentityN", _vjp_of_link, _jvp_of_link, _structure_of_link, _series_of_link)
CALL = program_op("function", "PartitionedCall", _vjp_of_call, _jvp_of_call, _structure_of_call, _series_of_call)
PART = program_op("part", "PartitionedCall", _vjp_of_part, _jvp_of_part, _structure_of_call, _series_of_part)
ACROSS_PROCESSES = program_op(
    "across_processes", "CollectiveReduceV2", _refuse_derivative, _refuse_derivative, dense, _refuse_derivative
)


# A call is a function of every namespace, because a backward pass runs on raw arrays, batches or recorded tensors.
def _call_arrays(
    xp: Any, *arrays: Any, traced: Traced, host: bool, sizes: Sizes | None, variable_args: Sequence[Variable]
) -> tuple[Any, ...]:
    return tuple(traced.run(traced.plain, arrays, host, sizes, variable_args))


def _call_batches(
    xp: Any,
    size: int,
    flags: Sequence[bool],
    *arrays: Any,
    traced: Traced,
    host: bool,
    sizes: Sizes | None,
    variable_args: Sequence[Variable],
) -> Any:
    if xp.rank > 1:  # rows are recorded: call it for each one, because a compiled batch has no tape
        return None
    program = traced.plain if sizes is None else traced.plain.with_sizes(sizes)
    batched = [False] * len(program.feeds)
    for slot, number in program.plan.arguments:
        batched[slot] = flags[number]
    if not any(batched):  # the same for every row
        results = traced.run(traced.plain, arrays, host, sizes, variable_args)
        return tuple([xp.broadcast_to(value, shape=(size, *value.shape)) for value in results])
    on_numpy = program.is_on_numpy(host, variable_args)
    mode = NONE if on_numpy else program.modes[host or program.xla.default_is_processor]
    given = program.arrays(arrays, variable_args, None, on_numpy)
    results = program.batched(tuple(batched), mode, on_numpy)(*given)
    if mode:
        *results, numbers = results
        if to_numpy(numbers).any():
            raise program.xla.failure(int(to_numpy(numbers).max()), given, batched)
    # vmap has repeated results that do not depend on a batched input.
    return tuple([to_numpy(value) for value in results]) if host else tuple(results)


def _call_tensors(
    *tensors: Any, traced: Traced, host: bool, sizes: Sizes | None, variable_args: Sequence[Variable]
) -> tuple[Tensor, ...]:
    return tuple(traced([as_tensor(t) for t in tensors], host, sizes, variable_args))


dispatch.register_function("traced_call", arrays=_call_arrays, batches=_call_batches, tensors=_call_tensors)
