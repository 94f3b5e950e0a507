"""Taylor mode over records: from the series of sources to those of targets (`core/series.py` has the primitives).

Records of whole programs, such as calls of compiled functions, have a rule of their own, `Op.series`, which expands the
records of that program.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradtape._src.core.primitive import registry
from gradtape._src.core.series import Series, constant, extend
from gradtape._src.core.tape import Record

Shapes = dict[int, tuple[int, ...]]


class SeriesCall(NamedTuple):
    """A record of a program, as seen by its series rule; `given` are the series of its inputs, None for constants."""

    record: Record
    given: list[Series | None]
    series: dict[int, Series]
    order: int
    traced: bool

    @property
    def outputs(self) -> tuple[int, ...]:
        return _as_tuple(self.record.output)

    def inside(
        self, records: Sequence[Any], shapes: Shapes, inputs: Iterable[int], targets: Sequence[int]
    ) -> list[Series | None]:
        """Expand records with uids of their own: from the given series to those of their targets."""
        start = {uid: x for uid, x in zip(inputs, self.given, strict=True) if x is not None}
        found = expand(records, shapes, start, targets, self.order, self.traced)
        return [found.get(uid) for uid in targets]


def expand(
    records: Sequence[Any], shapes: Shapes, start: dict[int, Series], targets: Iterable[int], order: int, traced: bool
) -> dict[int, Series]:
    """The series of targets by uid, up to `order`, computed record by record from the series of sources."""
    series = dict(start)
    wanted = set(targets)
    found = {uid: x for uid, x in start.items() if uid in wanted}
    ends = _last_uses(records)
    for i, entry in enumerate(records if traced else list(records)):
        record = Record.of(entry)
        if record.op.differentiable and any(uid in series for uid in record.inputs):
            for uid, out in zip(_as_tuple(record.output), _pushed(record, series, shapes, order, traced), strict=True):
                if out is None:
                    continue
                if uid in start:  # the source is also the result of an op: add both series
                    out = out.moved(start[uid][1])
                out[order]
                series[uid] = out
                if uid in wanted:
                    found[uid] = out
        for uid in ends.get(i, ()):
            series.pop(uid, None)
    return found


def _as_tuple(output: Any) -> tuple[Any, ...]:
    return output if type(output) is tuple else (output,)


def _last_uses(records: Sequence[Any]) -> dict[int, list[int]]:
    """By position of a record, the uids that no later record reads."""
    last: dict[int, int] = {}
    for i, record in enumerate(records):
        record = Record.of(record)
        for uid in record.inputs:
            last[uid] = i
        for uid in record.attrs.get("body", ()) if record.op.name == "custom_gradient" else ():
            last[uid] = i
    ends: dict[int, list[int]] = {}
    for uid, i in last.items():
        ends.setdefault(i, []).append(uid)
    return ends


def _pushed(
    record: Record, series: dict[int, Series], shapes: Shapes, order: int, traced: bool
) -> Sequence[Series | None]:
    """The series of the outputs of a record."""
    op, inputs, output, values, attrs, dtype = record
    if op.series is not None:
        found: Sequence[Series | None] = op.series(
            SeriesCall(record, [series.get(uid) for uid in inputs], series, order, traced)
        )
        return found
    if op.name not in registry:
        raise _unexpanded(op)
    outputs = _as_tuple(output)
    saved = [None if v is None else v if traced else v.array for v in values]
    saved += [None] * (len(inputs) + len(outputs) - len(saved))
    args = []
    for uid, value in zip(inputs, saved, strict=False):
        if uid in series:
            series[uid].set_value(value)
            args.append(series[uid])
        else:  # not saved, because the rules do not read it
            args.append(Series((), np.dtype(np.float32), [None]) if value is None else constant(value))
    outs = [
        Series(shapes[uid], kind, [value]) if uid in shapes else None
        for uid, kind, value in zip(outputs, _as_tuple(dtype), saved[len(inputs) :], strict=True)
    ]
    known = [out if out is not None else Series((), np.dtype(np.int32), [None]) for out in outs]
    extend(op, args, attrs, known)
    return outs


def _unexpanded(op: Any) -> NotImplementedError:
    """The error for a program whose ops are not known individually."""
    return NotImplementedError(
        f"Taylor mode needs the individual ops of a program, but this tape recorded a single op ({op.tf_name}): a "
        "solver of tf.autodiff, tf.py_function, or a loop or branch inside a function. Write loops and branches in "
        "plain Python, outside functions, or use nested tapes, which differentiate such an op to any order."
    )
