"""The tape of a traced function, and the recording of calls of programs on outer tapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gradtape._src.arrays.batched import Batched, EscapeError
from gradtape._src.arrays.symbolic import Graph, Symbolic, current_graph
from gradtape._src.conversion import wrap
from gradtape._src.core.dispatch import tensor_namespace
from gradtape._src.core.primitive import Op
from gradtape._src.core.tape import Record, Recorder, active_recorders
from gradtape._src.tensor import Tensor, is_differentiable, next_uid
from gradtape._src.variable import abstract_value

Shape = tuple[int, ...]

Modes = tuple[bool, bool]
"""The modes that a derivative is for: whether reverse mode, and whether forward mode."""

REVERSE: Modes = (True, False)


class _Tracked(dict[int, Any]):
    """The values that a trace tracks: all that it computes, and all from before it, which an outer tape may track."""

    def __init__(self, before: int, everything: bool = False) -> None:
        super().__init__()
        self.before = before
        self._last = 2**63 if everything else before

    def __contains__(self, uid: object) -> bool:
        return dict.__contains__(self, uid) or 0 < uid < self._last  # type: ignore[operator]

    def __missing__(self, uid: int) -> None:
        return None  # a value from before the trace: its shape is supplied when its gradient is computed


class Trace(Recorder):
    """The tape of a traced function: it records every op on values that may have a derivative."""

    __slots__ = ("arrays",)

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.tracked = _Tracked(next_uid(), graph.tracks_constants)
        self.arrays = graph.arrays
        records = self.records

        def append(record: Any) -> bool:
            records.append(Record.of(record))
            return True  # on_op follows

        self.append = append

    def on_op(self, record: Any, inputs: Sequence[Any], outputs: Any) -> None:
        for tensor in outputs if type(outputs) is tuple else (outputs,):
            self.track(tensor)

    def track(self, tensor: Tensor) -> None:
        """Track a tensor: an argument, or the output of an op."""
        self.tracked[tensor.uid] = tuple(tensor.array.shape)
        self.arrays[tensor.uid] = tensor.array

    def on_read(self, variable: Any) -> None:
        if variable.trainable and is_differentiable(abstract_value(variable)):  # it was created while tracing
            self.tracked[variable.uid] = tuple(abstract_value(variable).shape)


def tracked_shape(uid: int, recorders: Sequence[Recorder]) -> Shape | None:
    """The shape of a tensor that a recorder tracks and that can have a derivative."""
    graph = current_graph()
    for recorder in recorders:
        if uid in recorder.tracked:
            found = None if graph is None else graph.lookup(uid)
            if found is not None:
                return tuple(found.shape) if is_differentiable(found) else None
            shape: Shape | None = recorder.tracked[uid]  # None: see _Tracked
            return shape if shape is not None or graph is None else graph.shape_outside(uid)
    return None


class Residual(NamedTuple):
    """A value of the forward program that a derivative needs, and the uid of its tensor (0 if unknown)."""

    symbol: Symbolic
    uid: int

    @property
    def key(self) -> tuple[int, int]:
        """A key for dictionaries: two residuals are the same if symbol and uid are."""
        return id(self.symbol), self.uid


def modes_of(recorders: Sequence[Recorder]) -> Modes:
    """The modes that recorders need: reverse mode for tapes, forward mode for accumulators."""
    forward = [recorder.pushes for recorder in recorders]
    return not all(forward), any(forward)


def record(
    recorders: Sequence[Recorder],
    op: Op,
    uids: tuple[int, ...],
    outputs: tuple[Tensor, ...],
    values: tuple[Tensor, ...],
    attrs: dict[str, Any],
) -> None:
    """Append a record to every recorder that tracks an input."""
    output = tuple([t.uid for t in outputs])
    dtypes = tuple([t.array.dtype for t in outputs])
    for recorder in reversed(recorders):  # the outermost first: see core.tape
        tracked = recorder.tracked
        if not any(uid in tracked for uid in uids):
            continue
        for out in outputs:
            if is_differentiable(out.array):
                tracked[out.uid] = tuple(out.array.shape)
        entry = (op, uids, output, values, attrs, dtypes)
        if recorder.append(entry) is True:
            recorder.on_op(entry, (), outputs)
        recorder.on_call(entry)


def unbatched(values: list[Any]) -> tuple[int | None, list[Any], Callable[[list[Any]], list[Any]]]:
    """Replace batches of recorded tensors by tensors with a leading batch axis.

    Returns the batch size (None without such a batch), the tensors, and a function that turns gradients into batches
    again. A batch may also be the array of a tensor, as in forward mode. Batches of raw arrays stay as they are,
    because programs accept them.
    """
    batch_of = [_batch_in(x) for x in values]
    batches = [x for x in batch_of if x is not None]
    if not batches:
        return None, values, lambda gradients: gradients
    level = max(x.level for x in batches)
    rows = next(x.batch_size for x in batches if x.level == level)
    inside = any(isinstance(x, Tensor) and type(x.array) is Batched for x in values)
    if inside and any(recorder.born > level for recorder in active_recorders()):
        raise EscapeError("a compiled function is needed row by row where a tape is inside of the rows")

    def batched_again(gradients: list[Any]) -> list[Any]:
        found = [None if g is None else Batched(g, level) for g in gradients]
        return [None if g is None else wrap(g) for g in found] if inside else found

    tensors = [
        None if x is None else _with_rows(x if batch is None else batch, level, rows)
        for x, batch in zip(values, batch_of, strict=True)
    ]
    return rows, tensors, batched_again


def _batch_in(x: Any) -> Batched | None:
    """A value that is a batch of recorded tensors, or the batch that is the array of a tensor; None for others."""
    batch = x.array if isinstance(x, Tensor) else x
    return batch if type(batch) is Batched and (batch is not x or isinstance(batch.array, Tensor)) else None


def _with_rows(x: Any, level: int, rows: int) -> Tensor:
    """A batch as a tensor with a leading axis; other values are repeated along it."""
    if type(x) is Batched and x.level == level:
        return as_tensor(x.rows())
    result: Tensor = tensor_namespace.broadcast_to(as_tensor(x), shape=(rows, *x.shape))
    return result


def as_tensor(value: Any) -> Tensor:
    """Wrap an array as a tensor; return a tensor unchanged."""
    return value if isinstance(value, Tensor) else wrap(value)
