"""The tape of a traced function, and how calls of programs are recorded on the tapes around them."""

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
"""Whether a derivative is for reverse mode, and whether for forward mode."""

REVERSE: Modes = (True, False)


class _Tracked(dict[int, Any]):
    """What a trace tracks: all that it computes, and every value from before it, which a tape outside may watch."""

    def __init__(self, before: int, everything: bool = False) -> None:
        super().__init__()
        self.before = before
        self._last = 2**63 if everything else before

    def __contains__(self, uid: object) -> bool:
        return dict.__contains__(self, uid) or 0 < uid < self._last  # type: ignore[operator]

    def __missing__(self, uid: int) -> None:
        return None  # a value from before: its shape is known where its gradient is computed


class Trace(Recorder):
    """The tape of a traced function: every op on anything that could be differentiated."""

    __slots__ = ("arrays",)

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.tracked = _Tracked(next_uid(), graph.follows_constants)
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
        """Track a tensor: an argument, or what an op gave."""
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
    """A value of the first program that the second one needs, and the tensor it belongs to (0: none that is known)."""

    symbol: Symbolic
    uid: int

    @property
    def key(self) -> tuple[int, int]:
        """What it is, as a key of dictionaries."""
        return id(self.symbol), self.uid


def modes_of(recorders: Sequence[Recorder]) -> Modes:
    """What recorders need of a call: tapes record it, accumulators compute its tangents."""
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
    """Tell every recorder that tracks an input."""
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


def unbatched(d: list[Any]) -> tuple[int | None, list[Any], Callable[[list[Any]], list[Any]]]:
    """Batches of recorded tensors as tensors with an axis for the rows: how many rows, the tensors, and how to make
    batches of the gradients again. A batch may come as it is, or as the array of a tensor (forward mode does that).

    Raw batches are left alone: programs take them as they are.
    """
    whole = [_batch_in(x) for x in d]
    batches = [x for x in whole if x is not None]
    if not batches:
        return None, d, lambda gradients: gradients
    level = max(x.level for x in batches)
    rows = next(x.batch_size for x in batches if x.level == level)
    inside = any(isinstance(x, Tensor) and type(x.array) is Batched for x in d)
    if inside and any(recorder.born > level for recorder in active_recorders()):
        raise EscapeError("a compiled function is needed row by row where a tape is inside of the rows")

    def again(gradients: list[Any]) -> list[Any]:
        found = [None if g is None else Batched(g, level) for g in gradients]
        return [None if g is None else wrap(g) for g in found] if inside else found

    tensors = [
        None if x is None else _with_rows(x if batch is None else batch, level, rows)
        for x, batch in zip(d, whole, strict=True)
    ]
    return rows, tensors, again


def _batch_in(x: Any) -> Batched | None:
    batch = x.array if isinstance(x, Tensor) else x
    return batch if type(batch) is Batched and (batch is not x or isinstance(batch.array, Tensor)) else None


def _with_rows(x: Any, level: int, rows: int) -> Any:
    if type(x) is Batched and x.level == level:
        return as_tensor(x.rows())
    return tensor_namespace.broadcast_to(as_tensor(x), shape=(rows, *x.shape))


def as_tensor(value: Any) -> Tensor:
    """An array as a tensor; a tensor as it is."""
    return value if isinstance(value, Tensor) else wrap(value)
