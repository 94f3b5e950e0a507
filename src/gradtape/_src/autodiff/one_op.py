"""Record a computation as one op, whose vjp is a function of its inputs and outputs.

A tape keeps one record with the inputs and outputs, whatever the computation did. The vjp computes with tensors, which
outer tapes record, so it has derivatives of every order. Forward mode transposes it (`core/jvp.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape._src.arrays.batched import Batched, EscapeError
from gradtape._src.arrays.symbolic import current_graph
from gradtape._src.autodiff.custom_gradient import VariableWatcher
from gradtape._src.autodiff.custom_op import received, row_by_row, shown
from gradtape._src.conversion import wrap
from gradtape._src.core import tape as stack
from gradtape._src.core.dispatch import record
from gradtape._src.core.observe import in_rule
from gradtape._src.core.primitive import Op, numpy_dtype
from gradtape._src.core.structure import dense
from gradtape._src.core.tape import Record, Recorder, active_recorders
from gradtape._src.interrupts import setting
from gradtape._src.tensor import Tensor, is_differentiable
from gradtape._src.variable import Variable, abstract_value

Vjp = Callable[[list[Tensor], list[Tensor], list[Tensor], list[bool]], list[Any]]
"""`vjp(inputs, outputs, cotangents, needed)` returns a gradient for each input, or None."""


def one_op(inputs: Sequence[Tensor], outputs: Sequence[Tensor], vjp: Vjp, name: str) -> tuple[Tensor, ...]:
    """The outputs as new tensors that depend on the inputs through this vjp; views of the tape show the `name`."""
    same = tuple(wrap(t.array) for t in outputs)
    record(_op(name), inputs, same, {"count": len(inputs), "vjp": vjp})
    return same


def _vjp(xp: Any, g: list[Any], needs: list[Any], *saved: Any, count: int, vjp: Vjp) -> list[Any]:
    tensors = [shown(value) for value in saved]
    inputs, outputs = tensors[:count], tensors[count:]
    needed = [shape is not None for shape in needs]
    cts = [Batched(x.rows(), x.level) if type(x) is Batched and x.block_diagonal else x for x in g]
    traced = any(isinstance(x, Tensor) or (type(x) is Batched and isinstance(x.array, Tensor)) for x in cts)
    level = next((x.level for x in cts if type(x) is Batched), None)

    def call(cotangents: list[Tensor]) -> list[Any]:
        with setting(in_rule, False):
            return vjp(inputs, outputs, cotangents, needed)

    try:
        return [received(x, traced) for x in call([shown(ct) for ct in cts])]
    except EscapeError:  # a loop inside depends on values: one row at a time
        if level is None:
            raise
        return row_by_row(call, cts, level, traced)


@functools.cache
def _op(name: str) -> Op:
    return Op(
        name,
        (),
        (),
        vjp_all=_vjp,
        vjp_all_saves=range(1 << 30),  # all inputs and outputs
        outputs=1,
        may_raise=True,
        trusted=True,
        structure=dense,
        listed=False,
        category="other",
        doc="A computation whose derivative is known by other means than its ops.",
    )


# -- captured values ---------------------------------------------------------------------------------------------------
class _Around(dict[int, Any]):
    """The values that any of several recorders tracks."""

    def __init__(self, recorders: Sequence[Recorder]) -> None:
        super().__init__()
        self.recorders = recorders

    def __contains__(self, uid: object) -> bool:
        return dict.__contains__(self, uid) or any(uid in recorder.tracked for recorder in self.recorders)

    def __missing__(self, uid: int) -> Any:
        return next(recorder.tracked[uid] for recorder in self.recorders if uid in recorder.tracked)


class _Captures(Recorder):
    """Finds the tracked tensors that a function captures: that it uses and that are not its arguments."""

    __slots__ = ("given", "tensors", "uids")

    def __init__(self, given: Sequence[Tensor]) -> None:
        super().__init__()
        self.tracked = _Around(active_recorders())
        self.given = {t.uid for t in given}
        self.uids: dict[int, None] = {}
        self.tensors: dict[int, Tensor] = {}
        self.append = self._note

    def _note(self, record: Any) -> bool:
        for uid in Record.of(record).inputs:
            known = uid in self.given or dict.__contains__(self.tracked, uid)
            if uid and not known and uid in self.tracked:
                self.uids[uid] = None
        return True  # on_op follows

    def on_op(self, record: Any, inputs: Any, outputs: Any) -> None:
        for tensor in inputs if isinstance(inputs, (tuple, list)) else (inputs,):
            if tensor.uid in self.uids:
                self.tensors[tensor.uid] = tensor

    def found(self, like: Any) -> list[Tensor]:
        """The captured tensors, in the order of their first use.

        The record of a call of a program has only the uids of its inputs: a new tensor with such a uid represents it.
        """
        tensors = [self.tensors[uid] if uid in self.tensors else self._substitute(uid, like) for uid in self.uids]
        return [t for t in tensors if t is not None and is_differentiable(t.array)]

    def _substitute(self, uid: int, like: Any) -> Tensor | None:
        graph = current_graph()
        array = None if graph is None else graph.lookup(uid)
        if array is None:
            shape: Any = self.tracked[uid]
            if shape is None:  # a value from before a trace
                return None
            array = np.zeros(shape, numpy_dtype(like))
        tensor = Tensor()
        tensor.array, tensor.uid = array, uid
        return tensor


def captured(function: Callable[[], Any], given: Sequence[Tensor], like: Tensor) -> tuple[list[Tensor], list[Variable]]:
    """The tensors and trainable variables that a function captures and that can have a gradient.

    Calls the function without the active recorders. `like` has the dtype that it computes in.
    """
    if stack.active_stack() is None:
        return [], []
    captures, watcher = _Captures(given), VariableWatcher()
    with stack.use_recorders((captures, watcher)):
        function()
    found = watcher.variables
    variables = [v for uid, v in sorted(found.items()) if is_differentiable(abstract_value(v, current_graph()))]
    return [t for t in captures.found(like) if t.uid not in found], variables
