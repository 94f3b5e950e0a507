"""Lazy arrays, and the traces that compute them.

An op on lazy arrays adds a few integers to the trace of its thread and returns a new lazy array: a shape, a dtype and a
number in the trace. When a value is needed, the trace is cut: `programs.py` looks it up and runs it. Results that
nothing refers to any more are not computed.

An op takes no lock. It changes the trace with one `append` to one list, and the entry refers to operands and results by
number; a signal handler, or a thread that cuts the trace, runs before or after that. An op whose trace was cut before
its `append` detects this afterwards, and records itself again.
"""

from __future__ import annotations

import itertools
import sys
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from contextvars import ContextVar
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from gradtape._src import forks
from gradtape._src.arrays.base import LIBRARY_FUNCTIONS
from gradtape._src.arrays.lazy.calls import Kind, Spec, UnknownKindError, are_quick, kind_of, kinds, spec_of
from gradtape._src.arrays.refusals import refusals
from gradtape._src.call_sites import Line, user_line
from gradtape._src.interrupts import setting

if TYPE_CHECKING:
    from gradtape._src.arrays.lazy.programs import Plan

LIMIT = 5000
"""How many results a trace has at most: XLA takes more than twice as long to compile twice as much."""

_MOST_BYTES = 2**30
"""How many bytes the inputs of a trace on the host have at most: it keeps them alive. Those on a device are weights."""

IMMEDIATE = frozenset({
    "check", "check_numerics", "concrete_only", "host_effect", "host_function", "transfer", "unique",
    "unique_with_counts",
})  # fmt: skip
"""Functions that look at values, whose results' shapes depend on values, or which do more than compute.

On the processor those that refuse some matrices run immediately, too: an error comes where it is made, as in eager
code.
"""

getrefcount: Callable[[Any], int] = getattr(sys, "getrefcount", lambda value: 0)  # not every Python counts


class Lazy:
    """A lazy array: its shape and dtype are known, its value is computed when needed.

    value   the array of an engine, once it is computed
    trace   what computes it
    slot    its number in the trace
    code    what the trace has of the op that it is the (first) result of
    """

    __slots__ = ("__weakref__", "code", "dtype", "shape", "slot", "spec", "trace", "value")

    code: tuple[int, ...]
    dtype: Any
    shape: tuple[int, ...]
    slot: int
    spec: Spec
    trace: Any
    value: Any

    # -- properties -------------------------------------------------------------------------------------------------
    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        return self.spec.nbytes

    @property
    def itemsize(self) -> int:
        return int(self.dtype.itemsize)

    def is_colocated_with(self, other: Any) -> bool:
        """Whether an operand is on the same device, or a scalar of NumPy, which need not be moved."""
        kind = type(other)
        return other.spec.device is self.spec.device if kind is Lazy else kind is ndarray and not other.shape

    def devices(self) -> set[Any]:
        """The device that it is on; None means the memory of the CPU."""
        return {self.spec.device}

    @property
    def committed(self) -> bool:
        """True: it is bound to its device."""
        return True

    @property
    def sharding(self) -> Any:
        return settled(self).sharding

    @property
    def is_fully_replicated(self) -> bool:
        return True

    def is_deleted(self) -> bool:
        """False: its memory was not donated."""
        return False

    def copy(self) -> Any:
        """A copy of the value, as an array of its engine."""
        return settled(self).copy()

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        state = "computed" if self.value is not None else "not computed yet"
        return f"Lazy({self.dtype}{list(self.shape)}, {state})"

    # -- the value ---------------------------------------------------------------------------------------------------
    def settled(self) -> Any:
        """The value, as an array of its engine."""
        return settled(self)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Call the op with the name of NumPy's function; for other functions, compute the value first."""
        if method == "__call__" and not options and len(inputs) == ufunc.nin and ufunc.__name__ in LIBRARY_FUNCTIONS:
            return record(ufunc.__name__, inputs, {})
        if any(type(x) is Lazy for x in options.get("out", ())):
            return NotImplemented  # there is no memory to write to
        return getattr(ufunc, method)(*[settled(x, "NumPy needs its value") for x in inputs], **options)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> ndarray:
        value = np.asarray(settled(self, "its value is read"))
        if dtype is not None and value.dtype != dtype:
            return value.astype(dtype)
        return value.copy() if copy else value

    def __bool__(self) -> bool:
        return bool(self.__array__())

    def __float__(self) -> float:
        return float(self.__array__())

    def __int__(self) -> int:
        return int(self.__array__())

    def __index__(self) -> int:
        return self.__array__().__index__()

    def item(self) -> Any:
        """The value as a Python number."""
        return self.__array__().item()

    def tolist(self) -> Any:
        """The values as lists of Python numbers."""
        return self.__array__().tolist()

    # -- NumPy's names for ops ---------------------------------------------------------------------------------------
    @property
    def real(self) -> Any:
        return record("real", (self,), {})

    @property
    def imag(self) -> Any:
        return record("imag", (self,), {})

    @property
    def T(self) -> Any:
        return record("transpose", (self,), {"perm": tuple(reversed(range(self.ndim)))})

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """The value in another dtype, by NumPy's name for it."""
        dtype = np.dtype(dtype)
        return self if dtype == self.dtype else record("astype", (self,), {"dtype": dtype, "source": self.dtype})

    def reshape(self, *shape: Any) -> Any:
        """The value in another shape, by NumPy's name for it."""
        wanted = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
        if -1 in wanted:
            known = -int(np.prod(wanted, dtype=np.int64))
            wanted = tuple([self.size // max(known, 1) if n == -1 else n for n in wanted])
        return record("reshape", (self,), {"shape": wanted})

    def ravel(self) -> Any:
        """The value without axes but one, by NumPy's name for it."""
        return self.reshape(self.size)

    def __getitem__(self, index: Any) -> Any:
        return record("getitem", (self,), {"index": index if isinstance(index, tuple) else (index,)})


def lazy_array(value: Any, device: Any = None) -> Lazy:
    """Convert an array of an engine to a lazy array that has its value. Nothing else may write to it."""
    made = Lazy()
    made.value = value
    made.shape, made.dtype = tuple(value.shape), value.dtype
    made.spec = spec_of(made.shape, made.dtype, device)
    made.trace, made.slot, made.code = None, -1, ()
    return made


def settled(array: Any, reason: str = "a program takes it") -> Any:
    """The value of a lazy array, which is computed now if necessary; other arrays unchanged."""
    if type(array) is not Lazy:
        return array
    while array.value is None:
        array.trace.run(reason)
    return array.value


def call_of(array: Lazy, names: Collection[str] = ()) -> tuple[str, tuple[Any, ...], dict[str, Any]] | None:
    """What computes a lazy array: name, arguments and static arguments; None if it is computed, one of several, or by
    an op that is not among these names.
    """
    trace, code = array.trace, array.code
    if array.value is not None or not code:
        return None
    kind = kinds[code[0]]
    if kind.several or (names and kind.name not in names) or type(trace) is not LazyTrace:
        return None
    results, place = trace.results, 0
    args = []
    try:
        for o in kind.operands:
            if type(o) is Spec:
                place += 1
                number = code[place]
                found = results[number] if 0 <= number < len(results) else None
                args.append(found if found is not None and found.slot == number else trace.operand(number))
            else:
                args.append(o[0])
    except (IndexError, KeyError, StopIteration):  # another thread has cut the trace
        return None
    return kind.name, tuple(args), kind.attrs


def is_result_of(array: Lazy, names: Collection[str]) -> bool:
    """Whether a lazy array is without a value, and one of these ops computes it."""
    return array.value is None and bool(array.code) and kinds[array.code[0]].name in names


# -- traces ----------------------------------------------------------------------------------------------------------
_running = forks.rlock()
"""Held while a trace is cut and runs."""


def _referenced(results: list[Lazy]) -> list[Lazy]:
    """The results that something besides the trace refers to."""
    return [array for array in results if getrefcount(array) > _UNUSED]


class LazyTrace:
    """What ops of one thread or task have recorded on one device, since the last cut.

    results   the lazy arrays, in order: each has the code of its op
    feeds     inputs by identity: their numbers, and the arrays or lazy arrays
    literals  numbers (arrays without axes) by their number
    lines     of ops that may raise, by the number of their result
    limit     the number of results at which it is cut; -1 once it is
    assigned  whether variables have values of it
    """

    is_pattern = False  # whether its arrays will never have values: see `blocks.py`

    __slots__ = (
        "_begun",
        "_bytes",
        "_launched",
        "append",
        "assigned",
        "device",
        "feeds",
        "is_done",
        "limit",
        "lines",
        "literals",
        "next_feed",
        "next_literal",
        "next_slot",
        "results",
        "siblings",
    )

    def __init__(self, device: Any, siblings: dict[Any, LazyTrace]) -> None:
        self.device, self.siblings = device, siblings
        self.results: list[Lazy] = []
        self.append = self.results.append
        self.feeds: dict[int, tuple[int, Any]] = {}
        self.literals: dict[int, Any] = {}
        self.lines: dict[int, Line | None] = {}
        self.next_slot = itertools.count().__next__
        self.next_feed = itertools.count(-1, -2).__next__
        self.next_literal = itertools.count(-2, -2).__next__
        self.limit, self.is_done, self.assigned, self._bytes = LIMIT, False, False, 0
        self._begun: tuple[list[Lazy], tuple[Plan, ...]] | None = None
        self._launched: list[Any] = []

    def feed(self, array: Any) -> int:
        """The number of an input, an array whose value is known or computed now."""
        found = self.feeds.get(id(array))
        if found is None:
            if type(array) is Lazy and array.value is None:
                settled(array, "another trace uses it")
            found = self.feeds.setdefault(id(array), (self.next_feed(), array))
            if self.device is None or type(array) is ndarray:
                self._bytes += int(array.nbytes)
            if self._bytes > _MOST_BYTES and self.limit > 0:
                self.limit = 0
        return found[0]

    def literal(self, array: ndarray) -> int:
        """The number of a literal."""
        number = self.next_literal()
        self.literals[number] = array
        return number

    def operand(self, number: int) -> Any:
        """The array with this number."""
        if number >= 0:
            results = self.results
            if number < len(results) and (found := results[number]).slot == number:
                return found
            place = bisect_left(results, number, key=_slot_of)
            if place < len(results) and (found := results[place]).slot == number:
                return found
            return next(a for a in results if a.slot == number)
        if number % 2:  # mostly they are in the order of their numbers
            for known, array in itertools.islice(self.feeds.values(), (-1 - number) // 2, None):
                if known == number:
                    return array
            return next(array for known, array in self.feeds.values() if known == number)
        return self.literals[number]

    def size(self) -> int:
        """The number of results, including those inside blocks."""
        results = self.results
        return results[-1].slot + 1 if results else 0

    def crossed(self, added: Lazy) -> bool:
        """Handle the limit; return whether the op that added this result must be recorded again."""
        with _running:
            if self.limit < 0:
                self._leave()
                return added.value is None
            self.run(f"it has {self.size()} results, the most there may be")
            return False

    def _leave(self) -> None:
        """Make the next op start a new trace."""
        if _current() is self:
            _trace.set(None)
        if self.siblings.get(self.device) is self:
            self.siblings.pop(self.device, None)

    def run(self, reason: str) -> None:
        """Cut the trace and compute the results that are still referenced; after an interrupt, call it again."""
        with _running:
            if self.is_done:
                return
            self.limit = -1
            self._leave()
            if self._begun is None:
                alive = _referenced(self.results)
                codes = tuple([array.code for array in self.results])
                self._begun = alive, _programs().plan_of(codes, tuple([array.slot for array in alive])) if alive else ()
            self._compute(*self._begun, reason)
            self.is_done, self._begun = True, None
            for part in (self.results, self.feeds, self.literals, self.lines, self._launched):
                part.clear()

    def _compute(self, alive: list[Lazy], plans: tuple[Plan, ...], reason: str) -> None:
        by_slot = {array.slot: array for array in alive}
        failure = _programs().Failure
        for i, plan in enumerate(plans):
            if len(self._launched) == i:
                cut = (reason, user_line())
                plan.program.cuts[cut] = plan.program.cuts.get(cut, 0) + 1
                self._launch(plan, {feed for other in plans if other is not plan for feed in other.feeds})
            for slot, value in zip(plan.results, self._launched[i], strict=True):
                if type(value) is failure:
                    by_slot[slot].trace = value
                else:
                    by_slot[slot].value = value

    def _launch(self, plan: Plan, kept: set[int]) -> None:
        """Start a program. Its results are then in `_launched`, even after an interrupt. Other code uses `kept`."""
        dying = set() if self.device is None else self._dying()
        inputs = dict(self.feeds.values())
        numbers = [-1 - 2 * i for i in plan.feeds]
        feeds = [settled(inputs[number]) for number in numbers]
        literals = [self.literals[-2 - 2 * i] for i in plan.literals]
        lines: dict[int, Line] = {}
        if self.lines:
            found = [(i, self.lines.get(slot)) for i, slot in enumerate(plan.origins)]
            lines = {i: line for i, line in found if line is not None}
        donated = [i for i, feed in enumerate(plan.feeds) if numbers[i] in dying and feed not in kept]
        plan.program.run(feeds, donated, literals, lines, self._launched)

    def _dying(self) -> set[int]:
        """The numbers of the inputs that nothing but this trace refers to: programs may write to them."""
        return {
            number
            for number, array in self.feeds.values()
            if type(array) is Lazy
            and getrefcount(array) <= _UNUSED_FEED
            and type(array.value) is not ndarray
            and getrefcount(array.value) <= _UNUSED_VALUE
            and (self.device.platform != "cpu" or getattr(array.value, "_npy_value", None) is None)  # a view of NumPy's
        }


def _programs() -> Any:
    """Import programs when the first trace runs."""
    from gradtape._src.arrays.lazy import programs

    return programs


_slot_of: Callable[[Lazy], int] = attrgetter("slot")

_trace: ContextVar[LazyTrace | None] = ContextVar("gradtape_lazy_trace", default=None)
_current: Callable[[], LazyTrace | None] = _trace.get
current_trace = _current
"""The trace of this thread or task."""


def recording_on(trace: LazyTrace) -> setting[LazyTrace | None]:
    """Add ops on its device to this trace in a `with` block."""
    return setting(_trace, trace)


def trace_on(device: Any) -> LazyTrace:
    """The trace of this thread or task on a device; it becomes the current one."""
    now = _current()
    siblings: dict[Any, LazyTrace] = {} if now is None else now.siblings
    found = siblings.get(device)
    if found is None or found.limit < 0:
        found = siblings[device] = LazyTrace(device, siblings)
    _trace.set(found)
    return found


def end_step(reason: str, least: int | None = None) -> None:
    """Cut the trace of this thread at the end of a step: if variables have its values, or it has `least` results."""
    now = _current()
    if now is not None:
        for trace in (*now.siblings.values(),):
            if trace.assigned or (least is not None and trace.size() >= least):
                trace.run(reason)


def assigned(old: Any, new: Any) -> None:
    """Record that a variable is assigned. The second assignment in a trace ends the step."""
    if type(new) is not Lazy or new.value is not None:
        return
    trace = new.trace
    if type(old) is Lazy and old.value is None and old.trace is trace and trace.size() >= _MANY:
        trace.run("a variable is assigned a second time")
    else:
        trace.assigned = True


_MANY = 256
"""The number of results from which on a trace ends where a variable is assigned a second time."""


# -- recording -------------------------------------------------------------------------------------------------------
_UNKNOWN: Any = object()


def current_device() -> Any:
    """The device of the last op."""
    now = _current()
    return None if now is None else now.device


def constant(shape: tuple[int, ...], number: ndarray, device: Any = _UNKNOWN) -> Any:
    """An array filled with a number, which the program creates, by default on the last op's device."""
    if device is _UNKNOWN:
        device = current_device()
    shape = tuple(shape)
    if [*map(type, shape)].count(int) < len(shape):
        return record("broadcast_to", (number,), {"shape": shape}, device)
    made = spec_of(shape, number.dtype, device)
    kind = _constants.get(made)
    if kind is None:
        kind = kind_of("broadcast_to", (spec_of((), number.dtype, device),), {"shape": shape}, device)
        _constants[made] = kind
    return _added(kind, (number,), device)


_constants: dict[Spec, Kind] = {}
"""The kinds of calls that make arrays of one number, by what they make."""


def record(name: str, args: tuple[Any, ...], attrs: dict[str, Any], device: Any = None) -> Any:
    """Add a call to the trace; returns its results. The device is that of the lazy arrays among the arguments."""
    if name in IMMEDIATE:
        return run_immediately(name, args, attrs)
    try:
        args = tuple([_operand(a) for a in args])
        found = [a.spec.device for a in args if type(a) is Lazy]
        if found:
            device = found[0]
            if found.count(device) != len(found):
                device, args = _together(args)
        if name in refusals and (device is None or device.platform == "cpu"):
            return run_immediately(name, args, attrs)
        kind = kind_of(name, tuple([_spec(a, device) for a in args]), attrs, device)
    except UnknownKindError:
        return run_immediately(name, args, attrs)
    return _added(kind, args, device)


def _added(kind: Kind, args: Sequence[Any], device: Any) -> Any:
    """Add a call of a known kind to the trace on a device."""
    trace = _current()
    if trace is None or trace.device is not device:
        trace = trace_on(device)
    inputs = [number_of(a, trace) for a in args if type(a) is Lazy or type(a) is ndarray]
    made = [new_result(spec, trace) for spec in kind.outputs]
    first = made[0]
    first.code = (kind.number, *inputs, *[array.slot for array in made])
    if kind.name in refusals:
        trace.lines[first.slot] = user_line()
    trace.results.extend(made)
    if made[-1].slot >= trace.limit and trace.crossed(first):
        return _added(kind, args, device)
    return tuple(made) if kind.several else first


def _together(args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """The first device of the arguments that is not the processor, and the arguments with values of others' there."""
    device = next(a.spec.device for a in args if type(a) is Lazy and a.spec.device is not None)
    return device, tuple(
        [np.asarray(settled(a)) if type(a) is Lazy and a.spec.device is not device else a for a in args]
    )


def _operand(value: Any) -> Any:
    """An argument in the form in which a trace stores it: a lazy array, a NumPy array or a Python number."""
    kind = type(value)
    if kind is Lazy or kind is ndarray:
        if kind is ndarray and value.dtype.kind == "O":
            raise UnknownKindError("strings")
        return value
    if kind is float or kind is int or kind is bool or kind is complex:
        return value
    if isinstance(value, np.generic):
        return np.asarray(value)
    if hasattr(value, "devices") and len(found := value.devices()) == 1:
        (device,) = found
        return lazy_array(value, device)
    if isinstance(value, ndarray):
        return np.asarray(value)
    raise UnknownKindError(kind.__name__)


def _spec(value: Any, device: Any) -> Any:
    kind = type(value)
    if kind is Lazy:
        return value.spec
    return spec_of(value.shape, value.dtype, device) if kind is ndarray else (value,)


def number_of(value: Any, trace: LazyTrace) -> int:
    """The number of an operand in a trace."""
    if type(value) is Lazy:
        return value.slot if value.value is None and value.trace is trace else trace.feed(value)
    return trace.feed(value) if value.ndim else trace.literal(value)


def run_immediately(name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Run a call on the values of its arguments."""
    now = _current()
    if now is not None and now.is_pattern:
        now.run(f"'{name}' runs immediately")
    device = next((a.spec.device for a in args if type(a) is Lazy), None)
    values = [settled(a, f"'{name}' needs its value") for a in args]
    result = getattr(_programs().engine(device), name)(*values, **attrs)
    if name == "transfer":
        return result
    return tuple(map(_as_lazy, result)) if type(result) is tuple else _as_lazy(result)


def _as_lazy(value: Any) -> Any:
    """Convert the result of an engine to a lazy array; strings and sharded arrays do not change."""
    if isinstance(value, (ndarray, np.generic)):
        value = np.asarray(value)
        return value if value.dtype.kind == "O" else lazy_array(value)
    found = value.devices() if hasattr(value, "devices") else ()
    return lazy_array(value, next(iter(found))) if len(found) == 1 else value


Known = tuple[int, Spec, tuple[int, ...], Any]
"""The kind of a call with one result, and the result's spec, shape and dtype."""


_NUMBERS = frozenset({int, float})


def recorder_of(name: str) -> Callable[..., Any]:
    """The function of a primitive on lazy arrays: `record`, with fast paths."""
    known: dict[Any, Known] = {}
    is_plain = name not in IMMEDIATE and name not in refusals
    call_of_many = _recorder_of_many(name) if is_plain else partial(_record, name)

    def learn(key: Any, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        """Record a call without the fast path, and cache its kind."""
        result = call_of_many(*args, **attrs)
        if is_plain and type(result) is Lazy and result.code and are_quick(attrs):
            known[key] = (result.code[0], result.spec, result.shape, result.dtype)
        return result

    return _fast_recorder(name, known, learn, call_of_many)


def _record(name: str, *args: Any, **attrs: Any) -> Any:
    return record(name, args, attrs)


def _recorder_of_many(name: str) -> Callable[..., Any]:
    """The function of a primitive for any number of arrays, with one result or several."""
    known: dict[Any, tuple[int, tuple[Spec, ...], bool]] = {}

    def call(*args: Any, **attrs: Any) -> Any:
        static = attrs.values()
        lazy: Any = None
        specs: list[Any] = []
        for x in args:
            if type(x) is Lazy:
                lazy = x
                specs.append(x.spec)
            elif type(x) is ndarray:
                specs.append((x.shape, x.dtype))
            else:
                return record(name, args, attrs)
        try:
            found = known.get(key := (*specs, *attrs, *static, *map(type, static)))
        except TypeError:  # a list among them
            return record(name, args, attrs)
        if found is None:
            result = record(name, args, attrs)
            first = result[0] if type(result) is tuple else result
            if lazy is not None and type(first) is Lazy and first.code and are_quick(attrs) and _are_on_one(specs):
                known[key] = (first.code[0], kinds[first.code[0]].outputs, type(result) is tuple)
            return result
        number, outputs, several = found
        device = lazy.spec.device
        trace = _current()
        if trace is None or trace.device is not device:
            trace = trace_on(device)
        inputs = [number_of(x, trace) for x in args]
        made = tuple([new_result(spec, trace) for spec in outputs])
        first = made[0]
        first.code = (number, *inputs, *[array.slot for array in made])
        trace.results.extend(made)
        if made[-1].slot >= trace.limit and trace.crossed(first):
            return record(name, args, attrs, device)
        return made if several else first

    return call


def new_result(spec: Spec, trace: LazyTrace) -> Lazy:
    """A new result of a trace."""
    array = Lazy()
    array.spec, array.shape, array.dtype = spec, spec.shape, spec.dtype
    array.value, array.trace, array.code = None, trace, ()
    array.slot = trace.next_slot()
    return array


def _are_on_one(specs: Sequence[Any]) -> bool:
    """Whether arrays are on one device."""
    return len({spec.device for spec in specs if type(spec) is Spec}) == 1


def _fast_recorder(  # noqa: C901 - one call an op (benchmark: gpu/eager)
    name: str, known: dict[Any, Known], learn: Callable[..., Any], call_of_many: Callable[..., Any]
) -> Callable[..., Any]:
    # One call an op (benchmark: gpu/eager).
    def call(x: Any = None, y: Any = None, *others: Any, **attrs: Any) -> Any:  # noqa: C901 - as above
        lazy = x if type(x) is Lazy else y
        if type(lazy) is not Lazy or others:
            return call_of_many(x, *(() if y is None and not others else (y, *others)), **attrs)
        spec = lazy.spec
        if y is None:
            key: Any = spec
        elif lazy is not x:
            key = (x.dtype, spec) if type(x) is ndarray and not x.shape else None
        elif type(y) is Lazy:
            key = (spec, y.spec)
        elif type(y) is ndarray and not y.shape:
            key = (spec, y.dtype)
        else:
            key = (spec, type(y), y) if type(y) in _NUMBERS and y else None  # 0.0 and -0.0 are the same key
        if key is None:
            return call_of_many(x, y, **attrs)
        try:
            found = known.get((key, *attrs, *(static := attrs.values()), *map(type, static)) if attrs else key)
        except TypeError:  # a list among them
            found = None
        if found is None:
            if attrs:
                key = (key, *attrs, *attrs.values(), *map(type, attrs.values()))
            return learn(key, (x,) if y is None else (x, y), attrs)
        trace = _current()
        if trace is None or trace.device is not spec.device:
            trace = trace_on(spec.device)
        if lazy is not x:
            trace.literals[first := trace.next_literal()] = x
        elif x.value is None and x.trace is trace:
            first = x.slot
        else:
            first = trace.feed(x)
        array = Lazy()
        if y is None or type(y) in _NUMBERS:
            array.slot = slot = trace.next_slot()
            array.code = (found[0], first, slot)
        else:
            if type(y) is Lazy:
                second = y.slot if y.value is None and y.trace is trace else trace.feed(y)
            else:
                trace.literals[second := trace.next_literal()] = y
            array.slot = slot = trace.next_slot()
            array.code = (found[0], first, second, slot)
        _, array.spec, array.shape, array.dtype = found
        array.value, array.trace = None, trace
        trace.append(array)
        if slot >= trace.limit and trace.crossed(array):
            return call(x, **attrs) if y is None else call(x, y, **attrs)
        return array

    call.of_two = _recorder_of_two(known, call)  # type: ignore[attr-defined]
    return call


def _recorder_of_two(known: dict[Any, Known], general: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """The same for two operands without static arguments: a call without dictionaries (benchmark: gpu/naive_gpt)."""

    def call(x: Any, y: Any) -> Any:
        if type(x) is Lazy:
            spec = x.spec
            found = known.get((spec, y.spec if type(y) is Lazy else y.dtype if not y.shape else None))
        else:
            spec = y.spec
            found = known.get((x.dtype, spec)) if not x.shape else None
        if found is None:
            return general(x, y)
        trace = _current()
        if trace is None or trace.device is not spec.device:
            trace = trace_on(spec.device)
        if type(x) is not Lazy:
            trace.literals[first := trace.next_literal()] = x
        else:
            first = x.slot if x.value is None and x.trace is trace else trace.feed(x)
        if type(y) is not Lazy:
            trace.literals[second := trace.next_literal()] = y
        else:
            second = y.slot if y.value is None and y.trace is trace else trace.feed(y)
        array = Lazy()
        array.slot = slot = trace.next_slot()
        array.code = (found[0], first, second, slot)
        _, array.spec, array.shape, array.dtype = found
        array.value, array.trace = None, trace
        trace.append(array)
        return call(x, y) if slot >= trace.limit and trace.crossed(array) else array

    return call


def _unused() -> tuple[int, int, int]:
    """The reference counts of a result, an input and its value to which only a trace refers."""
    results = [Lazy()]
    feeds = {0: (0, Lazy())}
    feeds[0][1].value = object()
    result = max([getrefcount(array) for array in results])
    feed, value = max([(getrefcount(array), getrefcount(array.value)) for _, array in feeds.values()])
    return result, feed, value


_UNUSED, _UNUSED_FEED, _UNUSED_VALUE = _unused() if hasattr(sys, "getrefcount") else (-1, -1, -1)
