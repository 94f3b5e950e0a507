"""The ops that a value was computed by, in a graph that is being traced and in a trace of lazy arrays.

A rewrite matches the last op of a formula, and searches the calls before it. It must not change derivatives: the
operands that it finds are tensors with uids that recorders know. If a recorder lacks a record in between, or watches a
value in between, nothing is rewritten.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import islice, repeat
from typing import Any, NamedTuple, TypeVar

import numpy as np

from gradtape._src.arrays import numpy_namespace
from gradtape._src.arrays.lazy import Lazy, call_of as lazy_call_of, is_result_of as is_lazy_result_of
from gradtape._src.arrays.symbolic import Symbolic, current_graph
from gradtape._src.autodiff.recording import Recording, Rewritten
from gradtape._src.core.dispatch import saved_values
from gradtape._src.core.primitive import Op
from gradtape._src.core.tape import active_recorders
from gradtape._src.devices import jax_devices
from gradtape._src.graph.trace import Trace
from gradtape._src.tensor import CONSTANT, Tensor

T = TypeVar("T")

_FOLDED = frozenset({"astype", "divide", "multiply", "negative", "power", "reciprocal", "rsqrt", "sqrt", "square"})
"""Ops that are folded if their operands are known: the square root of a size, for example."""

_LOOKED_AT = 2**24
"""The largest number of elements of a constant whose values are read."""

_RECORDS = 96
"""The number of most recent records that are searched."""


class Value(NamedTuple):
    """An operand of a call: an array or a number, and the uid of its tensor."""

    array: Any
    uid: int

    @property
    def shape(self) -> tuple[Any, ...]:
        """Its shape; () for numbers."""
        return tuple(getattr(self.array, "shape", ()))

    def tensor(self) -> Tensor:
        """A tensor that recorders identify with the operand."""
        made = Tensor()
        made.array, made.uid = np.asarray(self.array) if np.isscalar(self.array) else self.array, self.uid
        return made


_value: Callable[[tuple[Any, int]], Value] = partial(tuple.__new__, Value)
"""A value, and below a call, without a call of Python code (benchmark: gpu/naive_gpt)."""


class Call(NamedTuple):
    """The call that computed a value."""

    name: str
    args: tuple[Value, ...]
    attrs: dict[str, Any]
    shape: tuple[Any, ...]


_call: Callable[[tuple[Any, ...]], Call] = partial(tuple.__new__, Call)


def is_worthwhile(array: Any) -> bool:
    """Whether programs with this array run on a GPU."""
    if type(array) is Lazy:
        device = array.spec.device
        return device is not None and device.platform == "gpu"
    return type(array) is Symbolic and bool(jax_devices("GPU"))


class Path:
    """The calls before a tensor, and the values in between that have been found."""

    def __init__(self) -> None:
        self._recorders = active_recorders()
        self._passed: set[int] = set()

    def call(self, value: Value | Tensor, *names: str) -> Call | None:
        """What computed a value, if it is one of these ops; None where that, or a record of it, is not known."""
        array = value.array
        found = call_of(array, names)
        if found is None:
            return None
        name, args, attrs = found
        uid, uids = value.uid, None
        for recorder in self._recorders:
            if uid in recorder.tracked:
                uids = _inputs_of(uid, recorder.records)
                if uids is None or len(uids) != len(args):
                    return None
        self._passed.add(uid)
        values = zip(args, repeat(CONSTANT) if uids is None else uids, strict=False)
        return _call((name, (*map(_value, values),), attrs, tuple(array.shape)))

    def beside(self) -> Path:
        """A path for an operand that derivatives do not reach, such as a mask."""
        return Path()

    def leads_back_to(self, *operands: Value | Tensor) -> bool:
        """Whether the derivatives with respect to these operands take the whole path, for every recorder."""
        for recorder in self._recorders:
            tracked = recorder.tracked
            if not tracked.keys() >= self._passed and any(operand.uid in tracked for operand in operands):
                return False
        return True

    def replaced(self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any], outputs: Sequence[Tensor]) -> None:
        """Tell tapes that another op has computed these outputs, for derivatives of values in between."""
        uids = tuple([x.uid for x in outputs])
        dtypes = tuple([x.array.dtype for x in outputs])
        given = tuple([x.uid for x in inputs])
        values = saved_values(op, given, (*inputs, *outputs)) if op.saves or op.vjp_all_saves else ()
        several = bool(op.outputs)
        entry = (op, given, uids if several else uids[0], values, attrs, dtypes if several else dtypes[0])
        for recorder in self._recorders:
            if isinstance(recorder, Recording) and any(uid in recorder.tracked for uid in uids):
                recorder.rewritten.append(Rewritten(frozenset(self._passed), frozenset(uids), entry))

    def known(self, value: Value) -> np.ndarray | None:
        """The value of a constant; None if it is computed or differentiated."""
        if any(value.uid in r.tracked for r in self._recorders if type(r) is not Trace):
            return None
        graph = current_graph()
        if graph is not None and any(value.uid in tracked for tracked in graph.root.watched):
            return None
        return _folded(value.array)

    def number(self, value: Value) -> float | None:
        """The value of a constant with one element; None otherwise."""
        array = value.array
        if value.uid == CONSTANT and type(array) is np.ndarray and not array.shape:  # a number of the program's text
            return float(array)
        found = self.known(value) if math.prod(value.shape) == 1 else None
        return None if found is None else float(found.reshape(()))


def _inputs_of(uid: int, records: list[Any]) -> tuple[int, ...] | None:
    """The uids of the inputs in the record of an output, if it is recent."""
    for record in islice(reversed(records), _RECORDS):
        if record[2] == uid:
            inputs = record[1]
            return (inputs,) if type(inputs) is int else inputs
    return None


def call_of(array: Any, names: Collection[str] = ()) -> tuple[str, tuple[Any, ...], dict[str, Any]] | None:
    """What computed an array, if it is one of these ops: name, arguments and static arguments."""
    if type(array) is Lazy:
        return lazy_call_of(array, names)
    if type(array) is not Symbolic:
        return None
    node = array.graph.producer(array)
    return None if node is None or (names and node.name not in names) else (node.name, node.args, node.attrs)


def is_result_of(array: Any, names: Collection[str]) -> bool:
    """Whether one of these ops computed an array: a cheap test before a search."""
    if type(array) is Lazy:
        return is_lazy_result_of(array, names)
    return call_of(array, names) is not None


def is_cast_of(array: Any, names: Collection[str]) -> bool:
    """Whether an array is a cast of the result of one of these ops."""
    found = call_of(array, _CAST)
    return found is not None and is_result_of(found[1][0], names)


_CAST = ("astype",)


def _folded(array: Any) -> np.ndarray | None:
    """The value of an array that is known, or can be folded from small ones that are."""
    found = call_of(array)
    if found is None:
        return _constant(array)
    name, args, attrs = found
    if name not in _FOLDED or math.prod(array.shape) != 1:
        return None
    known = [_folded(a) for a in args]
    if any(a is None for a in known):
        return None
    return np.asarray(getattr(numpy_namespace, name)(*known, **attrs))


def _constant(array: Any) -> np.ndarray | None:
    if type(array) is Symbolic:
        array = next((f.value for f in array.graph.feeds if f.symbol is array and f.kind == "array"), None)
    if type(array) is Lazy:
        array = array.value
    if array is None or type(array) is Symbolic or math.prod(np.shape(array)) > _LOOKED_AT:
        return None
    return array if type(array) is np.ndarray else np.asarray(array)


_remembered: dict[tuple[int, Any], tuple[weakref.ref[Any], Any]] = {}


def remembered(array: Any, key: Any, find: Callable[[], T]) -> T:
    """Cache what `find` returns for an array that does not change: eager code uses a mask in every step."""
    found = recall(array, key)
    if found is None:
        if len(_remembered) > 64:
            _remembered.clear()
        found = find()
        _remembered[id(array), key] = (weakref.ref(array), found)
    result: T = found
    return result


def recall(array: Any, key: Any) -> Any:
    """The cached result for an array; None if there is none."""
    found = _remembered.get((id(array), key))
    return None if found is None or found[0]() is not array else found[1]
