"""Records, and who is recording.

A record is a plain tuple, because one is made for every op (benchmark: chain); `Record` names its parts for every
reader that is not in a hurry:

    op      the primitive
    inputs  uid of each input (0 for a Python or NumPy operand)
    output  uid of the output, or a tuple of uids where the primitive has several outputs
    values  the saved tensors by position: inputs first, then outputs; None where no rule needs the value
    attrs   the primitive's static arguments
    dtype   NumPy's dtype of the output, or a tuple of them

A recorder is anything with `tracked` (uid -> shape of what it follows) and `append(record)`: a tape appends to its
list, a forward accumulator consumes the record at once. A recorder whose `append` returns true is shown the result of
the op too, by `note`: that is how views look on (lines, times, NaNs) and why a plain tape pays nothing for them.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from gradtape import tensor

if TYPE_CHECKING:
    from gradtape.engine.op import Op


class Record(NamedTuple):
    """One op call, as a tape keeps it."""

    op: Op
    inputs: tuple[int, ...]
    output: int | tuple[int, ...]
    values: tuple[Any, ...]
    attrs: dict[str, Any]
    dtype: Any


class Recorder:
    """What ops look at: the uids it follows, and where to put a record."""

    __slots__ = ("append", "born", "fallible", "records", "tracked")

    tracked: dict[int, tuple[int, ...]]
    append: Callable[[Any], Any]

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.append = self.records.append
        self.tracked = {}
        self.born = 0  # when it first began to record: see `clock`
        self.fallible = False  # whether some record's rule may raise (user code, singular matrices)

    def note(self, outputs: Any) -> None:
        """The result of the op just recorded: a tensor, or a tuple of them. Only for who asked by `append`."""

    def access(self, variable: Any) -> None:
        """A variable that is not followed yet was read; a recorder may begin to follow it."""

    def saw(self, event: str, uid: int, other: int = 0) -> None:
        """A value went where no op is recorded: to Python or NumPy, into a branch, into a variable (`other`)."""


clock: Callable[[], int] = itertools.count(1).__next__
"""Numbers batches and recorders: one that began to record after a batch was made stands inside of it."""

# A context variable is per thread and per asyncio task: nobody records another one's ops.
_active: ContextVar[tuple[Recorder, ...]] = ContextVar("gradtape_active", default=())
active_recorders = _active.get
tensor.recorders = active_recorders

expecting: list[None] = []
"""One entry for every tape of any thread that records or pauses: while there is one, readings that nobody records are
noted, so that a tape can say what it missed."""

missed: deque[tuple[int, int, int, str]] = deque(maxlen=1000)
"""Readings of variables that nobody recorded: when (a uid), the variable's uid, the thread and its name."""


def miss(variable: Any) -> None:
    """A variable was read where nobody records, while a tape is open somewhere."""
    thread = threading.current_thread()
    missed.append((tensor.next_uid(), variable.uid, thread.ident or 0, thread.name))


def start(recorder: Recorder) -> None:
    """Let every op of this thread or task be seen by the recorder.

    The innermost recorder comes first: what it computes itself is seen by the ones outside.
    """
    if not recorder.born:
        recorder.born = clock()
    _active.set((recorder, *_active.get()))


def stop(recorder: Recorder) -> None:
    """Take the recorder out, wherever in the stack it is."""
    _active.set(tuple([r for r in _active.get() if r is not recorder]))


@contextmanager
def only(recorders: tuple[Recorder, ...]) -> Iterator[None]:
    """Within the block just these recorders see ops."""
    token = _active.set(recorders)
    try:
        yield
    finally:
        _active.reset(token)
