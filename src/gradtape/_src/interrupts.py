"""State that is restored even if a signal arrives, at any time.

CPython runs signal handlers at certain points: when a Python function starts, after a call of a C function, and when a
loop jumps back. A handler that raises an exception (as with Ctrl-C) raises it there, also inside `__enter__`, and also
before the first line of `__exit__`, where no `try` of that function is active yet. Code that changes state follows four
rules:

    1. A change of state is one call of a C function, or an assignment: it has happened or it has not.
    2. `__enter__` undoes a change that it may have made: everything after the change is inside a `try`.
    3. `__exit__` is `guarded`: an exception anywhere in it, also at its start, reaches its handler, which restores the
       state again. Restoring twice has the same effect as restoring once.
    4. No `try` starts with `while True`. When a loop jumps back, Python 3.11 and 3.12 raise the exception of a handler
       before the first instruction of the loop, which is outside of such a `try`.

`finally: variable.set(before)` is safe by rule 1: no handler can run between the end of the block and the call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import ContextDecorator, _GeneratorContextManager
from contextvars import ContextVar, copy_context
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar, cast

import numpy as np

T = TypeVar("T")
P = ParamSpec("P")
Function = TypeVar("Function", bound=Callable[..., Any])


def guarded(function: Function) -> Function:
    """Extend the `try` that a function starts with, so that it also covers the start of the function.

    From Python 3.11 on, a function starts with an instruction that runs signal handlers, followed by its first
    statement. The exception table of the code says which instructions a `try` covers; its first entry belongs to the
    first statement. Python 3.10 has neither such an instruction nor a table, and runs no handlers before a `try`.
    """
    code: Any = function.__code__
    table: bytes = getattr(code, "co_exceptiontable", b"")
    if table:
        rest = iter(table)
        start, length = _read(rest), _read(rest)
        entry = (*_written(0, first=True), *_written(start + length))
        function.__code__ = code.replace(co_exceptiontable=bytes([*entry, *rest]))
    return function


def _read(table: Iterator[int]) -> int:
    """Decode a number of an exception table: six bits in a byte, highest first; 64 is set if another byte follows."""
    byte = next(table)
    value = byte & 63
    while byte & 64:
        byte = next(table)
        value = value << 6 | byte & 63
    return value


def _written(value: int, first: bool = False) -> Iterable[int]:
    """Encode a number for an exception table; 128 marks the first byte of an entry."""
    digits = [value & 63]
    while value := value >> 6:
        digits.append(value & 63 | 64)
    digits[-1] |= 128 * first
    return reversed(digits)


def is_interrupt(error: BaseException) -> bool:
    """Whether a signal handler has raised an exception: then it says nothing about the code where it was raised.

    KeyboardInterrupt is not an `Exception`, but handlers may raise any class, such as TimeoutError.
    """
    if not isinstance(error, Exception):
        return True
    import signal  # importing it takes half a millisecond (benchmark: import)

    handlers = {_code(signal.getsignal(number)) for number in signal.valid_signals()}
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return False


def _code(handler: Any) -> Any:
    while isinstance(handler, functools.partial):
        handler = handler.func
    function = getattr(handler, "__func__", handler)
    if not hasattr(function, "__code__"):
        function = vars(type(function)).get("__call__")
    return getattr(function, "__code__", None)


class _Block(_GeneratorContextManager[T]):
    """A generator as a context manager, which is closed even if a signal arrives on entry or exit."""

    def __enter__(self) -> T:
        try:
            return super().__enter__()
        except BaseException:
            self.gen.close()
            raise

    @guarded
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        try:
            return super().__exit__(kind, error, trace)
        except BaseException:
            self.gen.close()
            raise


def contextmanager(function: Callable[P, Iterator[T]]) -> Callable[P, _Block[T]]:
    """`contextlib.contextmanager`, by the rules above. What the generator acquires, it acquires inside of its `try`.

    >>> @contextmanager
    ... def block():
    ...     try:
    ...         yield 3
    ...     finally:
    ...         print("left")
    >>> with block() as value:
    ...     print(value)
    3
    left
    """

    @functools.wraps(function)
    def block(*args: P.args, **kwargs: P.kwargs) -> _Block[T]:
        return _Block(cast(Any, function), args, kwargs)

    return block


graph_traced: ContextVar[Any] = ContextVar("gradtape_graph", default=None)
"""The graph that ops are added to while a function is traced; None in eager code."""


class setting(Generic[T]):
    """Within the block a context variable has another value.

    >>> from contextvars import ContextVar
    >>> color = ContextVar("color", default="white")
    >>> with setting(color, "red"):
    ...     print(color.get())
    red
    >>> color.get()
    'white'
    """

    __slots__ = ("_outer", "_value", "_variable")

    def __init__(self, variable: ContextVar[T], value: T) -> None:
        self._variable, self._value = variable, value
        self._outer: tuple[T, ...] = ()  # the values to restore: a block may be entered again, even inside itself

    def __enter__(self) -> Any:
        self._outer = (*self._outer, self._variable.get())
        try:
            self._variable.set(self._value)
        except BaseException:
            self._variable.set(self._outer[-1])
            self._outer = self._outer[:-1]
            raise

    @guarded
    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            self._variable.set(self._outer[-1])
        except BaseException:
            self._variable.set(self._outer[-1])
            raise
        finally:
            self._outer = self._outer[:-1]


class settings(ContextDecorator):
    """Context in which several context variables have other values. It can also decorate a function."""

    def __init__(self, *pairs: tuple[ContextVar[Any], Any]) -> None:
        self._pairs = pairs
        self._outer: tuple[list[tuple[ContextVar[Any], Any]], ...] = ()  # the values to restore, for each entry

    def _recreate_cm(self) -> settings:
        from copy import copy  # imported here, because decorators are rare (benchmark: import)

        again = copy(self)
        again._outer = ()
        return again

    def __enter__(self) -> Any:
        self._outer = (*self._outer, [(variable, variable.get()) for variable, _ in self._pairs])
        try:
            for variable, value in self._pairs:
                variable.set(value)
        except BaseException:
            self._restore()
            self._outer = self._outer[:-1]
            raise

    @guarded
    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            self._restore()
        except BaseException:
            self._restore()
            raise
        finally:
            self._outer = self._outer[:-1]

    def _restore(self) -> None:
        for variable, before in self._outer[-1]:
            variable.set(before)


def _error_handling() -> tuple[Any, Any]:
    """NumPy's context variable for floating-point errors, and its value when all of them are ignored."""
    with np.errstate(all="ignore"):
        context = copy_context()
    return next(((variable, value) for variable, value in context.items() if "extobj" in variable.name), (None, None))


FLOAT_ERRORS, IGNORED = _error_handling()


def float_errors_ignored() -> Any:
    """Context in which NumPy ignores floating-point errors: `np.errstate(all="ignore")`, by the rules above."""
    return np.errstate(all="ignore") if FLOAT_ERRORS is None else setting(FLOAT_ERRORS, IGNORED)
