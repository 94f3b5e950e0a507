"""GradientTape: a list of records with a beginning and an end, and the questions one can ask of it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from threading import get_ident
from types import FrameType, MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy import ndarray

from gradtape._src import buffers, nest, tensor as tensor_module, variable as variable_module
from gradtape._src.autodiff import directional, jacobian as jacobians
from gradtape._src.autodiff.arguments import (
    UnconnectedGradients,
    are_differentiable,
    array_of,
    as_policy,
    check_differentiable,
    components,
    finished,
    leaves,
    seed_cotangents,
    seeds_of,
)
from gradtape._src.conversion import wrap
from gradtape._src.core import tape as stack
from gradtape._src.core.fast.backward import backward_pass, traced_backward_pass
from gradtape._src.core.tape import Record, Recorder
from gradtape._src.core.zero_preserving import as_plain, zero_preserving
from gradtape._src.interrupts import float_errors_ignored, guarded
from gradtape._src.tensor import Tensor, is_differentiable, next_uid
from gradtape._src.variable import Variable, held

if TYPE_CHECKING:
    from logging import Logger

_NOTHING: frozenset[int] = frozenset()
SKELETON = 10_000
"""How many ops, shapes and events a tape remembers of a record that is gone."""


class Event(NamedTuple):
    """Something that no op can tell: what, when (a uid: they only grow), about which tensors, on which line."""

    what: str
    when: int
    uid: int = 0
    other: int = 0
    where: tuple[str, int] | None = None
    thread: int = 0


answers: deque[tuple[int, int, str, tuple[str, int]]] = deque(maxlen=32)
"""The last answers of all tapes: the uids of the results lie between the first two numbers; method; file and line."""


class _Recording(Recorder):
    """What a tape has recorded: the records, the uids it follows, and the variables among them."""

    __slots__ = (
        "asked",
        "consumed",
        "events",
        "roots",
        "size",
        "unreached",
        "unwatched",
        "variables",
        "watch_accessed",
    )

    def __init__(self, watch_accessed: bool) -> None:
        super().__init__()
        self.watch_accessed = watch_accessed
        self.consumed = False  # a sweep is freeing the records as it passes them
        self.roots: set[int] = set()
        self.variables: dict[int, Variable] = {}
        self.unwatched: set[int] = set()  # variables that were read without being watched
        self.events: list[Event] = []  # for `explain`; ordinary ops are none
        self.unreached: list[Any] = []  # what a walk that freed the records passed by, latest first
        self.asked: frozenset[int] = _NOTHING  # the sources of the last walk
        self.size = 0  # how many records there were when it began

    def twin(self) -> _Recording:
        """A recording of its own with the same past."""
        twin = _Recording(self.watch_accessed)
        twin.records.extend(self.records)
        twin.tracked.update(self.tracked)
        twin.roots, twin.variables, twin.may_raise = set(self.roots), dict(self.variables), self.may_raise
        twin.unwatched = set(self.unwatched)
        return twin

    def on_read(self, variable: Variable) -> None:
        if self.watch_accessed and variable._trainable:
            self.follow(variable)
        else:
            self.unwatched.add(variable.uid)

    def follow(self, source: Tensor | Variable) -> None:
        uid = source.uid
        if isinstance(source, Variable):
            self.variables.setdefault(uid, source)
            source = source._tensor
        value = source.array
        if is_differentiable(value) and uid not in self.tracked:
            self.tracked[uid] = tuple(value.shape)
            self.roots.add(uid)  # a result that is watched later on is no root: its own record stands behind it

    def disown(self, uid: int) -> None:
        """Take the ops that have read a variable until now for ops on another value: nobody watched it then."""
        if uid not in self.unwatched:
            return
        self.unwatched.discard(uid)
        other = next_uid()
        for i, record in enumerate(self.records):
            op, inputs, *rest = record
            if inputs == uid if type(inputs) is int else uid in inputs:
                inputs = other if type(inputs) is int else tuple([other if u == uid else u for u in inputs])
                self.records[i] = (op, inputs, *rest)

    def on_escape(self, event: str, uid: int, other: int = 0) -> None:
        if (uid in self.tracked or self._severed(uid)) and len(self.events) < SKELETON:
            frame = _user_frame(event)
            if frame is not None:
                where = (frame.f_code.co_filename, frame.f_lineno)
                self.events.append(Event(event, next_uid(), uid, other, where))

    def _severed(self, uid: int) -> bool:
        """Whether this is what an op without a derivative gave, a moment ago: `if x > 0`."""
        return any(record[2] == uid for record in self.records[-8:])

    def bury(self) -> _Recording:
        """Become a skeleton: no values, and not more than `SKELETON` of anything."""
        if not self.consumed:
            self.size = len(self.records)
            self.unreached = self.records[-1 : -SKELETON - 1 : -1]
        if self.unreached:
            self.unreached = [(r[0], r[1], r[2], (), None, r[5]) for r in self.unreached[:SKELETON]]
        self.consumed = True
        self.records.clear()
        if len(self.tracked) > SKELETON:
            self.tracked = {uid: self.tracked[uid] for uid, _ in zip(self.roots, range(SKELETON), strict=False)}
        return self


class GradientTape:
    """Record what runs inside a `with` block, then differentiate it.

    Trainable variables are watched as they are read, tensors when `watch` is called. Without `persistent`, a tape
    answers one question and is gone.

    Beyond TensorFlow, and off by default: `check_numerics` raises where the first NaN or Inf appears, forward or
    backward; `strong_zeros` lets a cotangent of exactly zero stay zero, so that a branch that `where` did not take
    spoils no gradient; `profile` measures every op; `lines` notes the user's line of every op.

    >>> import gradtape as tf
    >>> x = tf.Variable(3.0)
    >>> with tf.GradientTape() as tape:
    ...     y = x * x
    >>> tape.gradient(y, x)
    <tf.Tensor: shape=(), dtype=float32, numpy=6.0>
    """

    _observers: ClassVar[list[Callable[[GradientTape, Recorder], None]]] = []
    """Who prepares the recording of a tape that was made with options; the views put themselves here."""

    _none_observers: ClassVar[list[Callable[..., None]]] = []
    """Who is told of gradients that are None: `config.set_none_policy` puts `explain` here."""

    _on_sweep: ClassVar[Callable[..., Any] | None] = None
    """Who looks at every cotangent while somebody checks numbers; the walk back frees nothing then, so that a tape is
    still there after an error."""

    lines_by_default: ClassVar[bool] = False
    """Whether tapes note the user's line of every op when they are not told."""

    # What most tapes never have stays with the class: a tape is made for every step.
    _asked: Sequence[int] = ()  # the uids of the targets of the last question,
    _nones: Sequence[int] = ()  # and of the sources that got no gradient
    _skeleton: _Recording | None = None  # what stays of a record that is gone
    _forgotten: tuple[_Recording, ...] = ()  # what `reset` threw away
    _witness: Recorder | None = None  # sees every op of the block, if `lines` are asked for
    _recording: _Recording | None = None
    _active = False
    _paused = False
    _blocks: tuple[str, ...] = ()  # the `with` blocks that are open: of recording, or of a pause
    _stops = 0  # how many stop_recording blocks are open
    _variables: Mapping[int, Variable] = MappingProxyType({})  # the watched ones of a record that is gone
    _used_at: tuple[str, int] | None = None  # the file and line of the question that used it up
    _profiler: Any = None  # measures, if `profile` is asked for: see inspect/profile.py

    def __init__(
        self,
        persistent: bool = False,
        watch_accessed_variables: bool = True,
        *,
        check_numerics: bool = False,
        strong_zeros: bool = False,
        profile: bool = False,
        lines: bool | None = None,
    ) -> None:
        self._persistent = bool(persistent)
        self._watch_accessed = bool(watch_accessed_variables)
        if lines is None:
            lines = self.lines_by_default
        self.options = {}
        if check_numerics or strong_zeros or profile or lines:
            chosen = {
                "check_numerics": check_numerics,
                "strong_zeros": strong_zeros,
                "profile": profile,
                "lines": lines,
            }
            self.options = {name: value for name, value in chosen.items() if value}
        self._log: list[Any] = []  # the fields of events: recording begins and ends, something is watched

    # -- recording ---------------------------------------------------------------------------------------------------
    # A signal may interrupt all of this anywhere: see `gradtape._src.interrupts` for the rules.
    def __enter__(self) -> GradientTape:
        if self._paused:  # `with tape.pause():` - the block is the pause
            self._blocks = (*self._blocks, "pause")
            return self
        if self._active:
            raise ValueError("Tape is still recording, This can happen if you try to re-enter an already-active tape.")
        try:
            self._blocks = (*self._blocks, "record")
            self._start()
            stack.open_tapes.add(id(self))
            if self._witness is not None:
                stack.start(self._witness)
            return self
        except BaseException:
            self._abandon()
            self._blocks = self._blocks[:-1]
            raise

    @guarded
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._blocks and self._blocks[-1] == "pause":
                if self._paused:
                    self.resume()
            else:
                self._paused = False
                stack.open_tapes.discard(id(self))
                if self._witness is not None:
                    stack.stop(self._witness)
                if self._active:
                    self._stop("exit")
        except BaseException:
            if self._blocks and self._blocks[-1] == "pause":
                self._recover()
            else:
                self._abandon()
            raise
        finally:
            self._blocks = self._blocks[:-1]

    def _start(self) -> None:
        if self._recording is None:
            self._recording = _Recording(self._watch_accessed)
            if self.options:
                for observe in self._observers:
                    observe(self, self._recording)
        stack.start(self._recording)
        self._active = True
        if self._profiler is not None:
            self._profiler.enter()
        if len(self._log) < SKELETON:
            self._log.append(("start", next_uid(), 0, 0, None, get_ident()))

    def _stop(self, why: str) -> None:
        assert self._recording is not None
        stack.stop(self._recording)
        self._active = False
        if self._profiler is not None:
            self._profiler.leave()
        if len(self._log) < SKELETON:
            self._log.append((why, next_uid(), 0, 0, None if why == "exit" else _user_line()))

    def _abandon(self) -> None:
        """End a block of which nobody knows how far it began or ended."""
        stack.open_tapes.discard(id(self))
        for recorder in (self._witness, self._recording):
            if recorder is not None:
                stack.stop(recorder)
        self._active = self._paused = False
        if self._profiler is not None:
            self._profiler.leave()

    def _recover(self) -> None:
        """Record, wherever a change between recording and not recording was interrupted."""
        if self._recording is not None:
            stack.stop(self._recording)
        self._active = self._paused = False
        self._start()

    def _state(self) -> str:
        if self._active:
            return "recording"
        if self._paused:
            return "paused"
        if self._recording is not None:
            return "stopped inside stop_recording()" if self._stops else "not recording: its `with` block has ended"
        return "used up" if self._used_at else "new: it was never entered"

    def watch(self, tensor: Any) -> None:
        """Follow a tensor or variable, or every one in a structure of them.

        >>> import gradtape as tf
        >>> x = tf.constant(2.0)
        >>> with tf.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = x**3
        >>> float(tape.gradient(y, x))
        12.0
        """
        sources = [part for leaf in leaves(tensor) for part in components(leaf)]
        for source in sources:
            if not isinstance(source, (Tensor, Variable)):
                raise ValueError(
                    f"Passed in object {source} of type '{type(source).__name__}', not tf.Tensor or tf.Variable or "
                    "ExtensionType. Only what gradtape computes can be followed: make it a tf.constant or tf.Variable."
                )
        recording = self._recording
        if recording is None:
            raise RuntimeError(
                f"GradientTape.watch was called on a tape that is {self._state()}: there is nothing to watch on. "
                "Call it inside the tape's `with` block."
            )
        for source in sources:
            if not is_differentiable(array_of(source)):
                _warn_per_call_site(
                    "The dtype of the watched tensor must be floating (e.g. tf.float32), got %r", source.dtype, most=5
                )
            if isinstance(source, Variable) and source.uid not in recording.tracked:
                recording.disown(source.uid)
            recording.follow(source)
        if len(self._log) < SKELETON:
            if not sources:
                self._log.append(("watched nothing", next_uid(), 0, 0, _user_line()))
            for source in sources:
                self._log.append(("watch", next_uid(), source.uid, 0, None, get_ident()))

    def stop_recording(self) -> _Stopped:
        """Nothing in the block is recorded by this tape; other tapes go on. Blocks may be nested.

        >>> import gradtape as tf
        >>> x = tf.Variable(2.0)
        >>> with tf.GradientTape() as tape:
        ...     with tape.stop_recording():
        ...         weight = x * x
        ...     y = weight * x
        >>> float(tape.gradient(y, x))
        4.0
        """
        return _Stopped(self)

    def pause(self) -> GradientTape:
        """Stop recording until `resume`, or to the end of a `with tape.pause():` block. Returns the tape itself.

        >>> import gradtape as tf
        >>> x = tf.Variable(2.0)
        >>> with tf.GradientTape() as tape:
        ...     y = x * x
        ...     with tape.pause():
        ...         print("y is", float(y * 1.0))
        ...     z = y * x
        y is 4.0
        >>> float(tape.gradient(z, x))
        12.0
        """
        if not self._active:
            raise ValueError(f"pause() needs a tape that is recording, but this tape is {self._state()}.")
        try:
            self._stop("pause")
            self._paused = True
            return self
        except BaseException:
            self._recover()
            raise

    def resume(self) -> None:
        """Go on recording after `pause`."""
        if not self._paused:
            raise ValueError(f"resume() needs a tape that was paused, but this tape is {self._state()}.")
        try:
            self._paused = False
            self._start()
        except BaseException:
            self._recover()
            raise

    def reset(self) -> None:
        """Forget every op and every watch; recording goes on with an empty record."""
        if not self._active:
            raise ValueError(f"Tape is not recording. It is {self._state()}.")
        try:
            self._stop("reset")
            if self._recording is not None:
                self._forgotten = (*self._forgotten[-9:], self._recording.bury())
            self._recording = None
            self._start()
        except BaseException:
            if self._recording is not None and self._recording.consumed:
                self._recording = None
            self._recover()
            raise

    def watched_variables(self) -> tuple[Variable, ...]:
        """The variables this tape follows, in the order of their creation."""
        watched = self._variables if self._recording is None else self._recording.variables
        return tuple(v for _, v in sorted(watched.items()))

    @property
    def records(self) -> list[Record]:
        """The ops recorded so far, in order: what every view of the tape is made from."""
        return [] if self._recording is None else [Record.of(record) for record in self._recording.records]

    # -- questions ---------------------------------------------------------------------------------------------------
    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Any:
        """The gradient of the sum of all targets, in the structure of `sources`.

        >>> import gradtape as tf
        >>> w = {"a": tf.Variable(2.0), "b": tf.Variable(5.0)}
        >>> with tf.GradientTape() as tape:
        ...     y = w["a"] ** 2 * w["b"]
        >>> {name: float(g) for name, g in tape.gradient(y, w).items()}
        {'a': 20.0, 'b': 4.0}
        """
        recording = self._require_record()
        policy = as_policy(unconnected_gradients)
        if target is None:
            raise TypeError(
                "Argument `target` should be a list or nested structure of Tensors, Variables or CompositeTensors to "
                "be differentiated, but received None."
            )
        if type(target) is Tensor:
            targets: list[Any] = [target]
        else:
            targets = [part for leaf in leaves(target) for part in components(leaf)]
            check_differentiable("target", targets)
        flat = type(sources) is list and are_differentiable(sources)  # the common case, at once (benchmark: mlp32)
        flat_sources = sources if flat else leaves(sources)
        if not flat:
            check_differentiable("sources", flat_sources)
        seeds = seeds_of(target, targets, output_gradients)
        companions = _NOTHING
        for one in targets:
            if not is_differentiable(array_of(one)):
                _refuse_unregistered(recording, targets)
                companions = _companions(recording)
                break
        with _Question(self, "gradient") as traced, float_errors_ignored():
            start = seed_cotangents(targets, seeds, flat_sources, traced, companions)
            cotangents = self._sweep(recording, start, flat_sources, traced, last=True)
            found = [cotangents.get(source.uid) for source in flat_sources]
            results = [
                wrap(d) if type(d) is ndarray else finished(d, source, policy)
                for d, source in zip(found, flat_sources, strict=True)
            ]
        self._answered("gradient", targets, flat_sources, found, policy)
        return results if flat else nest.pack_sequence_as(sources, results)

    def jacobian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
        mode: str = "reverse",
    ) -> Any:
        """All partial derivatives of one target: shape `target.shape + source.shape` for each source.

        `parallel_iterations` is how many rows of the Jacobian one sweep carries; by default as many as memory bears.
        `mode` is "reverse" (by rows), "forward" (by columns) or "auto" (the fewer of the two).

        >>> import gradtape as tf
        >>> x = tf.constant([1.0, 2.0])
        >>> with tf.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = x * x
        >>> tape.jacobian(y, x).numpy().tolist()
        [[2.0, 0.0], [0.0, 4.0]]
        """
        return jacobians.jacobian(
            self, target, sources, as_policy(unconnected_gradients), parallel_iterations, experimental_use_pfor, mode
        )

    def batch_jacobian(
        self,
        target: Any,
        source: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        """The Jacobian of each row of `target` with respect to the same row of `source`: shape [b, y…, x…].

        >>> import gradtape as tf
        >>> x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        >>> with tf.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = x * x
        >>> tape.batch_jacobian(y, x).numpy().tolist()
        [[[2.0, 0.0], [0.0, 4.0]], [[6.0, 0.0], [0.0, 8.0]]]
        """
        return jacobians.batch_jacobian(
            self, target, source, as_policy(unconnected_gradients), parallel_iterations, experimental_use_pfor
        )

    def batch_gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Any:
        """Per-example gradients: for each source an axis B in front, row b being `gradient(target[b], source)`.

        >>> import gradtape as tf
        >>> w = tf.Variable([1.0, -1.0])
        >>> with tf.GradientTape() as tape:
        ...     losses = tf.reduce_sum(tf.constant([[1.0, 2.0], [3.0, 4.0]]) * w, axis=1) ** 2
        >>> tape.batch_gradient(losses, w).numpy().tolist()
        [[-2.0, -4.0], [-6.0, -8.0]]
        """
        return jacobians.batch_gradient(self, target, sources, output_gradients, as_policy(unconnected_gradients))

    def jvp(
        self, target: Any, sources: Any, tangents: Any, unconnected_gradients: Any = UnconnectedGradients.NONE
    ) -> Any:
        """The derivative of the targets along `tangents`, by a walk forward over what was recorded.

        >>> import gradtape as tf
        >>> x = tf.Variable([1.0, 2.0])
        >>> with tf.GradientTape() as tape:
        ...     y = x * x
        >>> tape.jvp(y, x, [1.0, 10.0]).numpy().tolist()
        [2.0, 40.0]
        """
        sources = held(sources)
        if isinstance(sources, (Tensor, Variable)) and isinstance(tangents, (list, tuple)):
            tangents = np.asarray(tangents, sources.dtype.as_numpy_dtype)
        return directional.jvp(self, target, sources, tangents, as_policy(unconnected_gradients))

    def hessian(self, target: Any, sources: Any, unconnected_gradients: Any = UnconnectedGradients.NONE) -> Any:
        """Second derivatives of one scalar target: for several sources a structure of structures of blocks.

        No outer tape is needed: the walk back is recorded behind what this tape holds.

        >>> import gradtape as tf
        >>> x = tf.Variable([1.0, 2.0])
        >>> with tf.GradientTape() as tape:
        ...     y = x[0] ** 2 * x[1]
        >>> tape.hessian(y, x).numpy().tolist()
        [[4.0, 2.0], [2.0, 0.0]]
        """
        return directional.hessian(self, target, sources, as_policy(unconnected_gradients))

    def hvp(
        self, target: Any, sources: Any, vectors: Any, unconnected_gradients: Any = UnconnectedGradients.NONE
    ) -> Any:
        """The Hessian of a target times vectors, without the Hessian: forward over reverse.

        >>> import gradtape as tf
        >>> x = tf.Variable([1.0, 2.0])
        >>> with tf.GradientTape() as tape:
        ...     y = tf.reduce_sum(x**3)
        >>> tape.hvp(y, x, tf.constant([1.0, 0.0])).numpy().tolist()
        [6.0, 0.0]
        """
        return directional.hvp(self, target, sources, vectors, as_policy(unconnected_gradients))

    # -- how a question is asked -------------------------------------------------------------------------------------
    def _quiet_gradient(self, target: Any, sources: list[Any]) -> list[Any]:
        """The recorded gradient, for the tape's own use: no question is asked, nothing is said or consumed."""
        assert self._recording is not None
        start = seed_cotangents([target], [None], sources, traced=True)
        with float_errors_ignored():
            cotangents = self._sweep(self._recording, start, sources, True, last=False)
        return [finished(cotangents.get(s.uid), s, UnconnectedGradients.NONE) for s in sources]

    def _require_record(self) -> _Recording:
        if self._recording is None:
            if self._used_at is None:
                first = "This tape was never entered: open it with `with tape:` first."
            else:
                where = ":".join(map(str, self._used_at))
                first = f"It was used at {where}. Create it with persistent=True to ask more than once."
            raise RuntimeError(
                "A non-persistent GradientTape can only be used to compute one set of gradients (or jacobians). "
                + first
            )
        return self._recording

    def _answered(
        self, method: str, targets: list[Any], sources: list[Any], found: list[Any], policy: UnconnectedGradients
    ) -> None:
        """Remember which sources got no gradient, and tell who wants to know."""
        self._asked = [target.uid for target in targets]
        lost = [i for i, d in enumerate(found) if d is None]
        self._nones = [sources[i].uid for i in lost] if lost else ()
        if lost and policy is UnconnectedGradients.NONE:
            for tell in self._none_observers:
                tell(self, method, targets, sources, [sources[i] for i in lost])

    def _asking(self, method: str) -> _Question:
        """Around the sweeps that answer one question: whether they are recorded, and what becomes of the tape."""
        return _Question(self, method)

    def _forget(self) -> None:
        if self._recording is not None:
            self._variables = self._recording.variables
            self._skeleton = self._recording.bury()
        self._recording = None
        asked = sys._getframe(2).f_back  # behind this, the end of the question and the method
        if asked is not None and not (file := asked.f_code.co_filename).startswith(_OURS):
            self._used_at = (file, asked.f_lineno)  # the common case, at once (benchmark: mlp32)
        else:
            self._used_at = _user_line()

    def _sweep(
        self,
        recording: _Recording,
        cotangents: dict[int, Any],
        sources: Sequence[Any],
        traced: bool,
        *,
        last: bool,
    ) -> dict[int, Any]:
        """One walk back. The last one of a tape that will not be asked again frees the record as it goes."""
        uids = frozenset([source.uid for source in sources])
        shapes = recording.tracked
        if not recording.roots <= uids:
            shapes = _reachable(recording, uids)
        strong = "strong_zeros" in self.options
        if strong:
            cotangents.update({uid: zero_preserving(d) for uid, d in cotangents.items()})
        watch = None if self._profiler is None else self._profiler.backward_pass
        checked = None
        if self._on_sweep is not None:
            checked = type(self)._on_sweep(self, recording, shapes, cotangents, watch)  # type: ignore[misc]
        release = last and not self._persistent and not recording.may_raise and not traced and checked is None
        recording.consumed = release
        recording.asked, recording.size = uids, len(recording.records)
        kept = uids - recording.roots  # the roots are never an output: what arrives there stays
        found = (traced_backward_pass if traced else backward_pass)(
            recording.records,
            shapes,
            cotangents,
            kept=kept,
            traced=traced,
            release=release,
            unreached=recording.unreached if release else None,
            watch=watch if checked is None else checked,
        )
        return {uid: as_plain(c) for uid, c in found.items()} if strong else found


class _Question:
    """The time in which a tape answers: it may be recorded itself, and at the end a plain tape is used up."""

    __slots__ = ("_first", "_method", "_tape", "_was_active")

    def __init__(self, tape: GradientTape, method: str) -> None:
        self._tape, self._method = tape, method

    def __enter__(self) -> bool:
        tape = self._tape
        self._was_active = tape._active
        if self._was_active and tape._persistent:
            _warn_per_call_site(
                "Calling GradientTape.%s on a persistent tape inside its context is significantly less efficient than "
                "calling it outside the context (the gradient ops are recorded too, which costs time and memory). Do "
                "it only to get higher-order derivatives; otherwise use stop_recording.",
                self._method,
                most=1,
            )
        try:
            if self._was_active and not tape._persistent:
                tape._stop("question")
            if tape._witness is not None:  # it looks at the program, not at the walk back
                stack.stop(tape._witness)
            self._first = next_uid()
            return stack.active_stack() is not None
        except BaseException:
            self._recover()
            raise

    @guarded
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            tape = self._tape
            if kind is not None:
                self._recover()
                return
            if not tape._persistent:
                tape._forget()
            if tape._witness is not None and "record" in tape._blocks:
                stack.start(tape._witness)
            where = _user_line() if tape._used_at is None else tape._used_at
            answers.append((self._first, next_uid(), self._method, where))
        except BaseException:
            self._recover()
            raise

    def _recover(self) -> None:
        """After an error the tape is what it was, or used up, if the walk back was freeing the record."""
        tape = self._tape
        if tape._recording is not None and tape._recording.consumed:
            tape._forget()
        elif tape._recording is not None and self._was_active and not tape._persistent:
            tape._recover()
        if tape._witness is not None and "record" in tape._blocks:
            stack.stop(tape._witness)
            stack.start(tape._witness)


class _Stopped(contextlib.ContextDecorator):
    """The block of `stop_recording`."""

    def __init__(self, tape: GradientTape) -> None:
        self._tape = tape

    def _recreate_cm(self) -> _Stopped:
        return _Stopped(self._tape)

    def __enter__(self) -> None:
        tape = self._tape
        if tape._recording is None and not tape._stops:
            raise RuntimeError("Trying to stop recording a tape which is not recording.")
        if not tape._active and not tape._stops and not tape._paused:
            raise ValueError(f"Tape is not recording. It is {tape._state()}.")
        self._before = tape._stops
        self._was_active = tape._active
        try:
            if self._was_active:
                tape._stop("stop_recording")
            tape._stops = self._before + 1
        except BaseException:
            self._recover()
            raise

    @guarded
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            tape = self._tape
            tape._stops = self._before
            if self._was_active:
                if tape._active:
                    raise ValueError(
                        "Tape is still recording, This can happen if you try to re-enter an already-active tape."
                    )
                tape._start()
        except BaseException:
            self._recover()
            raise

    def _recover(self) -> None:
        self._tape._stops = self._before
        if self._was_active:
            self._tape._recover()


def _refuse_unregistered(recording: _Recording, targets: list[Any]) -> None:
    """A target of integers or booleans has no gradient, silently; but some ops TensorFlow refuses to differentiate."""
    uids = {target.uid for target in targets}
    for op, _, output, *_ in recording.records:
        if op.unregistered and output in uids:
            raise LookupError(
                f"gradient registry has no entry for: {op.tf_name}. Its result is not a smooth function of its input; "
                "use it to choose between values (tf.where), not as a target."
            )


def _companions(recording: _Recording) -> frozenset[int]:
    """The uids of the outputs of ops that have several, and of compiled functions: integers among them have a
    gradient, of zeros."""
    several = [
        output
        for op, _, output, *_ in recording.records
        if op.outputs > 0 and op.differentiable and (op.args or op.tf_name == "PartitionedCall")
    ]
    return frozenset().union(*several)


def _reachable(recording: _Recording, sources: frozenset[int]) -> dict[int, tuple[int, ...]]:
    """The shapes of what depends on a source; the rest needs no cotangent."""
    reached = set(sources)
    for record in recording.records:
        inputs = record[1]
        if inputs in reached if type(inputs) is int else not reached.isdisjoint(inputs):
            output = record[2]
            if type(output) is tuple:
                reached.update(output)
            else:
                reached.add(output)
    tracked = recording.tracked
    return {uid: tracked[uid] for uid in reached if uid in tracked}


# -- where the user's code is ----------------------------------------------------------------------------------------
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep
_NUMPY = os.path.dirname(np.__file__) + os.sep
_OURS = (_PACKAGE, _NUMPY, contextlib.__file__, "<rule of ")  # the last one is what `write_vjps` compiles
_VALUES = (buffers.__file__, tensor_module.__file__, variable_module.__file__, __file__)
_HANDED_ON = {"bool()": "control_flow.py", ".numpy()": "python_functions.py"}
"""Where the library looks at a value because the user said so: tf.cond, tf.numpy_function."""
_said: dict[tuple[str, str, int], int] = {}


def _user_frame(event: str = "") -> FrameType | None:
    """The innermost frame of the user's code. Of an event: None where the library itself looks at a value."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_OURS):
            return frame
        if event and event != "assign" and not file.startswith((*_VALUES, _NUMPY)):
            through = _HANDED_ON.get(event)
            if through is None or not file.endswith(through):
                return None
        frame = frame.f_back
    return None


def _user_line() -> tuple[str, int]:
    frame = _user_frame()
    return ("an unknown file", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def _warn_per_call_site(message: str, *args: Any, most: int) -> None:
    """Log a warning, at most so many times for one line of the user's code."""
    frame = _user_frame()
    key = (message, "", 0) if frame is None else (message, frame.f_code.co_filename, frame.f_lineno)
    _said[key] = _said.get(key, 0) + 1
    if _said[key] <= most:
        logger().warning(message, *args)


def logger() -> Logger:
    """The logger that tapes warn on, under TensorFlow's name; logging is loaded when there is something to say."""
    import logging

    return logging.getLogger("tensorflow")
