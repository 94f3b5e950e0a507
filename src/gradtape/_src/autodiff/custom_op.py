"""The primitive of functions with custom gradients: its vjp rule calls the user's function with tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape._src import nest
from gradtape._src.arrays.batched import Batched, EscapeError
from gradtape._src.conversion import convert, wrap
from gradtape._src.core.expansion import SeriesCall
from gradtape._src.core.observe import in_rule
from gradtape._src.core.primitive import Op
from gradtape._src.core.sparse_cotangent import SparseCotangent
from gradtape._src.core.structure import dense
from gradtape._src.indexed_slices import IndexedSlices
from gradtape._src.interrupts import setting
from gradtape._src.tensor import CONSTANT, Tensor

_GradFn = Callable[[list[Tensor]], list[Any]]


def _vjp_custom(xp: Any, cotangents: list[Any], needs: list[Any], *saved: Any, call: _GradFn, body: Any) -> list[Any]:
    """Pass the cotangents to the user's function as tensors, and convert its results."""
    # The user's function need not be linear, so it gets the full rows.
    cts = [Batched(x.rows(), x.level) if type(x) is Batched and x.block_diagonal else x for x in cotangents]
    traced = any(isinstance(x, Tensor) or (type(x) is Batched and isinstance(x.array, Tensor)) for x in cts)
    level = next((x.level for x in cts if type(x) is Batched), None)
    if in_rule.get():
        call = _outside_rules(call)
    if level is None:
        return [received(g, traced) for g in call([shown(ct) for ct in cts])]
    try:
        return [received(g, traced) for g in call([shown(ct) for ct in cts])]
    except EscapeError:  # the user's function reads values: call it row by row
        return row_by_row(call, cts, level, traced)


def _outside_rules(call: _GradFn) -> _GradFn:
    """Wrap the user's function so that its ops count as user code, not as steps of a rule."""

    def called(upstream: list[Tensor]) -> list[Any]:
        with setting(in_rule, False):
            return call(upstream)

    return called


def shown(x: Any) -> Tensor:
    """A cotangent or a saved value as the tensor that the user's function gets."""
    return x if isinstance(x, Tensor) else wrap(np.asarray(x) if isinstance(x, np.generic) else x)


def received(g: Any, traced: bool) -> Any:
    """Convert a result of the user's function for the backward pass: to a tensor, if the pass is recorded."""
    if g is None:
        return None
    if isinstance(g, IndexedSlices):
        shape = tuple(int(n) for n in np.asarray(convert(g.dense_shape).array))
        return SparseCotangent(received(g.values, traced), received(g.indices, traced), shape)
    tensor = convert(g)
    if type(tensor.array) is Batched:
        return tensor.array
    return tensor if traced else tensor.array


def row_by_row(call: _GradFn, cotangents: list[Any], level: int, traced: bool) -> list[Any]:
    """The gradients for a batch of cotangents, from one call for each row."""
    from gradtape._src.arrays import namespace_of

    stacked = [x.rows() if type(x) is Batched and x.level == level else None for x in cotangents]
    size = next(len(rows) for rows in stacked if rows is not None)
    columns: list[list[Any]] = []
    for i in range(size):
        upstream = [
            shown(x if rows is None else namespace_of(rows).getitem(rows, index=(i,)))
            for x, rows in zip(cotangents, stacked, strict=True)
        ]
        columns.append([received(g, traced) for g in call(upstream)])
    return [
        None if any(g is None for g in column) else Batched(namespace_of(column[0]).stack(*column, axis=0), level)
        for column in zip(*columns, strict=True)
    ]


def _jvp_custom(given: list[Any], values: list[Any], attrs: dict[str, Any], tangents: dict[int, Any]) -> Any:
    """Forward mode differentiates the ops of the body, as in TensorFlow; for an opaque body it uses the gradient."""
    found = tuple(tangents.get(uid) for uid in attrs["body"])
    return found if any(t is not None for t in found) else None


def _series_custom(call: SeriesCall) -> Any:
    """Taylor mode differentiates the ops of the body as well."""
    found = [call.series.get(uid) for uid in call.record.attrs["body"]]
    if any(x is not None for x in found):
        return found
    own: Any = call.record.attrs["call"]
    run_again = getattr(getattr(own, "grad_fn", None), "run_again", None)
    if run_again is None:
        raise NotImplementedError(
            "Taylor mode needs the ops of a function, but the body of this tf.custom_gradient was not recorded. "
            "Compute its result with gradtape ops, without stop_recording or tf.stop_gradient, or use nested "
            "tapes, which use its gradient."
        )
    try:
        tape, args, results = run_again()
    except Exception as error:
        if not getattr(error, "is_out_of_scope", False):
            raise
        raise NotImplementedError(
            "Taylor mode does not support tf.recompute_grad in a compiled function, because its arguments exist "
            "only inside. Open the tape inside the function, or call its `python_function`."
        ) from None
    inputs = [leaf.uid if isinstance(leaf, Tensor) else CONSTANT for leaf in nest.flatten(args)]
    inputs += [variable.uid for variable in own.variables]
    outputs = [convert(leaf).uid for leaf in nest.flatten(results)]
    return call.inside(tape._recording.records, tape._recording.tracked, inputs, outputs)


CUSTOM = Op(
    "custom_gradient",
    (),
    (),
    vjp_all=_vjp_custom,
    jvp=_jvp_custom,
    outputs=1,
    may_raise=True,
    trusted=True,
    structure=dense,
    series=_series_custom,
    category="other",
    names=("custom_gradient",),
    doc="A function with a gradient of its own.",
)
