"""Reads of variables whose shape has changed since a tape first read them.

A tape identifies a variable by one uid, with the shape of the first read. A later read with another shape is recorded
as an op, which passes cotangents through. `check_reads` refuses to add cotangents of different shapes, as TensorFlow
does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from gradtape._src import errors
from gradtape._src.core.dispatch import record
from gradtape._src.core.primitive import program_op
from gradtape._src.core.structure import OpCall
from gradtape._src.core.tape import Record, active_stack, use_recorders
from gradtape._src.ops.array import identity
from gradtape._src.tensor import Tensor

if TYPE_CHECKING:
    from gradtape._src.core.expansion import SeriesCall


def _vjp_of_read(xp: Any, g: list[Any], needs: list[Any], *saved: Any, count: int, shape: Any) -> list[Any]:
    return g


def _jvp_of_read(given: list[Any], saved: list[Any], attrs: dict[str, Any], _: Any) -> tuple[Any, ...]:
    """The tangent of the variable, broadcast to the new shape if possible."""
    (tangent,), shape = given, attrs["shape"]
    lengths = tuple(tangent.shape)
    if len(lengths) > len(shape) or any(n not in (1, m) for n, m in zip(lengths[::-1], shape[::-1], strict=False)):
        raise _one_shape()
    return (tangent,)


def _one_shape() -> errors.InvalidArgumentError:
    return errors.invalid_argument(
        "A variable changed its shape after forward mode began, but its tangent has one shape. Use tape.gradient or "
        "tape.jacobian, or change the shape before",
        "ReadVariableOp",
    )


def _structure_of_read(call: OpCall) -> Any:
    return (call.dense_input(0),)


def _series_of_read(call: SeriesCall) -> Any:
    return call.given


READ = program_op("identity_n", "ReadVariableOp", _vjp_of_read, _jvp_of_read, _structure_of_read, _series_of_read)


grown: set[int] = set()
"""The uids of variables that a tape has read with several shapes."""


def has_another_shape(value: Tensor) -> bool:
    """Whether an active recorder tracks the variable of this value with another shape."""
    shape, stack = tuple(value.array.shape), active_stack()
    while stack is not None:
        tracked, _, _, stack = stack
        if tracked.get(value.uid, shape) != shape:
            return True
    return False


def recorded_read(value: Tensor) -> Tensor:
    """The value of a variable as the result of a recorded op."""
    grown.add(value.uid)
    with use_recorders(()):
        out: Tensor = identity(value)
    record(READ, (value,), (out,), {"count": 1, "shape": tuple(value.array.shape)})
    return out


def check_reads(records: Sequence[Any], first: dict[int, Any], targets: Iterable[int], sources: frozenset[int]) -> None:
    """Raise an error if a target depends on reads of a variable with several shapes: their gradients cannot be added.

    `first` has the shapes of the first reads.
    """
    reached, shapes = set(targets), dict[int, Any]()
    for entry in reversed(records):
        op, inputs, output, _, attrs, _ = Record.of(entry)
        if not op.differentiable or reached.isdisjoint(output if type(output) is tuple else (output,)):
            continue
        reached.update(inputs)
        for uid in sources.intersection(inputs):
            shape = attrs["shape"] if op is READ else first.get(uid)
            if shapes.setdefault(uid, shape) != shape:
                raise errors.invalid_argument(
                    "Inputs to operation AddN must have the same size and shape. Input 0: "
                    f"{errors.brackets(shape)} != input 1: {errors.brackets(shapes[uid])}. The target depends on a "
                    "variable in both shapes; read it once, or differentiate with respect to each value",
                    "AddN",
                )


def refuse_tangents(records: Sequence[Any], sources: Iterable[int]) -> None:
    """Raise an error if a tape has read a source with several shapes: its tangent has only one."""
    uids = grown.intersection(sources)
    if uids and any(record[0] is READ and record[1][0] in uids for record in records):
        raise _one_shape()
