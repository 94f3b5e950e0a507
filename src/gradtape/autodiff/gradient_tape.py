"""GradientTape: a list of records with a beginning and an end, and the questions one can ask of it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from types import FrameType, TracebackType
from typing import Any

import numpy as np

from gradtape import errors, nest
from gradtape.autodiff import jacobian as jacobians
from gradtape.conversion import convert, wrap
from gradtape.engine import tape as stack
from gradtape.engine.backward import sweep
from gradtape.engine.sparse import Rows
from gradtape.engine.tape import Record, Recorder, active_recorders
from gradtape.indexed_slices import IndexedSlices
from gradtape.tensor import CONSTANT, Array, Tensor, is_followable
from gradtape.variable import Variable

logger = logging.getLogger("tensorflow")


class UnconnectedGradients(Enum):
    """What a gradient is where no path leads from the target to the source: None, or zeros."""

    NONE = "none"
    ZERO = "zero"


class _Recording(Recorder):
    """What a tape has recorded: the records, the uids it follows, and the variables among them."""

    __slots__ = ("roots", "variables", "watch_accessed")

    def __init__(self, watch_accessed: bool) -> None:
        super().__init__()
        self.watch_accessed = watch_accessed
        self.roots: set[int] = set()
        self.variables: dict[int, Variable] = {}

    def access(self, variable: Variable) -> None:
        if self.watch_accessed and variable.trainable:
            self.follow(variable)

    def follow(self, source: Tensor | Variable) -> None:
        value = source._tensor.array if isinstance(source, Variable) else source.array
        if isinstance(source, Variable):
            self.variables.setdefault(source.uid, source)
        if is_followable(value) and source.uid not in self.tracked:
            self.tracked[source.uid] = tuple(value.shape)
            self.roots.add(source.uid)  # a result that is watched later on is no root: its own record stands behind it


class GradientTape:
    """Record what runs inside a `with` block, then differentiate it.

    Trainable variables are watched as they are read, tensors when `watch` is called. Without `persistent`, a tape
    answers one question and is gone.

    >>> import gradtape as tf
    >>> x = tf.Variable(3.0)
    >>> with tf.GradientTape() as tape:
    ...     y = x * x
    >>> tape.gradient(y, x)
    <tf.Tensor: shape=(), dtype=float32, numpy=6.0>
    """

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        self._persistent = bool(persistent)
        self._watch_accessed = bool(watch_accessed_variables)
        self._recording: _Recording | None = None
        self._active = False
        self._paused = False
        self._stops = 0  # how many stop_recording blocks are open
        self._blocks: list[str] = []  # the `with` blocks that are open: of recording, or of a pause
        self._variables: tuple[Variable, ...] = ()  # the watched ones of a record that is gone
        self._used_at: str | None = None

    # -- recording ---------------------------------------------------------------------------------------------------
    def __enter__(self) -> GradientTape:
        if self._paused:  # `with tape.pause():` - the block is the pause
            self._blocks.append("pause")
            return self
        if self._active:
            raise ValueError("Tape is still recording, This can happen if you try to re-enter an already-active tape.")
        self._start()
        self._blocks.append("record")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        block = self._blocks.pop() if self._blocks else "record"
        if block == "pause":
            if self._paused:
                self.resume()
            return
        self._paused = False
        if self._active:
            self._stop()

    def _start(self) -> None:
        if self._recording is None:
            self._recording = _Recording(self._watch_accessed)
        stack.start(self._recording)
        self._active = True

    def _stop(self) -> None:
        assert self._recording is not None
        stack.stop(self._recording)
        self._active = False

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
        ...     y = x ** 3
        >>> float(tape.gradient(y, x))
        12.0
        """
        sources = [part for leaf in nest.flatten(tensor) for part in _components(leaf)]
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
            if not is_followable(source._tensor.array if isinstance(source, Variable) else source.array):
                _warn_per_call_site(
                    "The dtype of the watched tensor must be floating (e.g. tf.float32), got %r", source.dtype, most=5
                )
            recording.follow(source)

    @contextmanager
    def stop_recording(self) -> Iterator[None]:
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
        if self._recording is None and not self._stops:
            raise RuntimeError("Trying to stop recording a tape which is not recording.")
        if not self._active and not self._stops and not self._paused:
            raise ValueError(f"Tape is not recording. It is {self._state()}.")
        was_active = self._active
        if was_active:
            self._stop()
        self._stops += 1
        try:
            yield
        finally:
            self._stops -= 1
            if was_active:
                if self._active:
                    raise ValueError(
                        "Tape is still recording, This can happen if you try to re-enter an already-active tape."
                    )
                self._start()

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
        self._stop()
        self._paused = True
        return self

    def resume(self) -> None:
        """Go on recording after `pause`."""
        if not self._paused:
            raise ValueError(f"resume() needs a tape that was paused, but this tape is {self._state()}.")
        self._paused = False
        self._start()

    def reset(self) -> None:
        """Forget every op and every watch; recording goes on with an empty record."""
        if not self._active:
            raise ValueError(f"Tape is not recording. It is {self._state()}.")
        self._stop()
        self._recording = None
        self._start()

    def watched_variables(self) -> tuple[Variable, ...]:
        """The variables this tape follows, in the order of their creation."""
        if self._recording is None:
            return self._variables
        return tuple(v for _, v in sorted(self._recording.variables.items()))

    @property
    def records(self) -> list[Record]:
        """The ops recorded so far, in order: what every view of the tape is made from."""
        return [] if self._recording is None else [Record(*record) for record in self._recording.records]

    # -- questions ----------------------------------------------------------------------------------------------------
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
        targets = [part for leaf in nest.flatten(target) for part in _components(leaf)]
        flat_sources = nest.flatten(sources)
        for kind, items in (("target", targets), ("sources", flat_sources)):
            for item in items:
                _check_differentiable(kind, item)
        seeds = _seeds(target, targets, output_gradients)
        with self._asking("gradient") as traced:
            cotangents = self._sweep(recording, _seed_cotangents(targets, seeds, flat_sources, traced), flat_sources,
                                     traced, last=True)  # fmt: skip
        results = [
            finished(cotangents.get(source.uid), source, policy) for source in flat_sources
        ]
        return nest.pack_sequence_as(sources, results)

    def jacobian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        """All partial derivatives of one target: shape `target.shape + source.shape` for each source.

        `parallel_iterations` is how many rows of the Jacobian one sweep carries; by default as many as memory bears.

        >>> import gradtape as tf
        >>> x = tf.constant([1.0, 2.0])
        >>> with tf.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = x * x
        >>> tape.jacobian(y, x).numpy().tolist()
        [[2.0, 0.0], [0.0, 4.0]]
        """
        return jacobians.jacobian(
            self, target, sources, as_policy(unconnected_gradients), parallel_iterations, experimental_use_pfor
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

    # -- how a question is asked ----------------------------------------------------------------------------------------
    def _require_record(self) -> _Recording:
        if self._recording is None:
            if self._used_at is None:
                first = "This tape was never entered: open it with `with tape:` first."
            else:
                first = f"It was used at {self._used_at}. Create it with persistent=True to ask more than once."
            raise RuntimeError(
                "A non-persistent GradientTape can only be used to compute one set of gradients (or jacobians). "
                + first
            )
        return self._recording

    @contextmanager
    def _asking(self, method: str) -> Iterator[bool]:
        """Around the sweeps that answer one question: whether they are recorded, and what becomes of the tape."""
        recording = self._recording
        was_active = self._active
        if was_active:
            if self._persistent:
                _warn_per_call_site(
                    "Calling GradientTape.%s on a persistent tape inside its context is significantly less efficient "
                    "than calling it outside the context (the gradient ops are recorded too, which costs time and "
                    "memory). Do it only to get higher-order derivatives; otherwise use stop_recording.",
                    method,
                    most=1,
                )
            else:
                self._stop()
        try:
            with np.errstate(all="ignore"):
                yield bool(active_recorders())
        except BaseException:
            if self._recording is recording and recording is not None and recording.records is None:
                self._forget()  # interrupted in the middle of a sweep that was freeing the record
            elif was_active and not self._persistent:
                self._start()
            raise
        if not self._persistent:
            self._forget()

    def _forget(self) -> None:
        self._variables = self.watched_variables()
        self._recording = None
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
        uids = frozenset(source.uid for source in sources)
        shapes = recording.tracked
        if not recording.roots <= uids:
            shapes = _reachable(recording, uids)
        release = last and not self._persistent and not recording.fallible and not traced
        records = recording.records
        if release:
            recording.records = None  # type: ignore[assignment]  # marks that the record is being consumed
        kept = uids - recording.roots  # the roots are never an output: what arrives there stays
        return sweep(records, shapes, cotangents, kept=kept, traced=traced, release=release)


def _reachable(recording: _Recording, sources: frozenset[int]) -> dict[int, tuple[int, ...]]:
    """The shapes of what depends on a source; the rest needs no cotangent."""
    reached = set(sources)
    for record in recording.records:
        if not reached.isdisjoint(record[1]):
            output = record[2]
            if type(output) is tuple:
                reached.update(output)
            else:
                reached.add(output)
    tracked = recording.tracked
    return {uid: tracked[uid] for uid in reached if uid in tracked}


# -- targets, sources and results ------------------------------------------------------------------------------------------
def as_policy(value: Any) -> UnconnectedGradients:
    """The enum, or exactly its values as strings."""
    if isinstance(value, UnconnectedGradients):
        return value
    if isinstance(value, str) and value in ("none", "zero"):
        return UnconnectedGradients(value)
    raise ValueError(f"Unknown value for unconnected_gradients: {value!r}. Use 'none' or 'zero'.")


def _components(leaf: Any) -> list[Any]:
    if isinstance(leaf, IndexedSlices):
        return [part for part in (leaf.values, leaf.indices, leaf.dense_shape) if part is not None]
    return [leaf]


def _check_differentiable(kind: str, item: Any) -> None:
    if not isinstance(item, (Tensor, Variable)):
        raise TypeError(
            f"Argument `{kind}` should hold Tensors or Variables, but it has {item!r} of type "
            f"'{type(item).__name__}'. Plain numbers and arrays have no history to differentiate."
        )


def _array(value: Tensor | Variable) -> Array:
    return value._tensor.array if isinstance(value, Variable) else value.array


def _seeds(target: Any, targets: list[Any], output_gradients: Any) -> list[Any]:
    """The upstream gradient of each target, checked: None stands for ones."""
    if output_gradients is None:
        return [None] * len(targets)
    single = isinstance(target, (Tensor, Variable))
    if single and isinstance(output_gradients, (list, tuple)) and len(output_gradients) == 1:
        flat = list(output_gradients) if np.ndim(_plain(output_gradients[0])) == _array(target).ndim else [output_gradients]
    elif single:
        flat = [output_gradients]
    else:
        flat = nest.flatten(output_gradients)
    if len(flat) != len(targets):
        raise ValueError(
            f"output_gradients has {len(flat)} entries for {len(targets)} targets. Give one for each target, in the "
            "same structure, or None for all of them."
        )
    return [_seed(t, g) for t, g in zip(targets, flat, strict=True)]


def _plain(value: Any) -> Any:
    return value._tensor.array if isinstance(value, Variable) else value.array if isinstance(value, Tensor) else value


def _seed(target: Any, gradient: Any) -> Tensor:
    dtype = target.dtype
    seed = convert(gradient) if isinstance(gradient, (Tensor, Variable, np.ndarray)) else convert(gradient, dtype)
    if seed.dtype != dtype:
        raise errors.mismatched_dtypes("Mul", seed.dtype, dtype)
    shape = tuple(_array(target).shape)
    if seed.array.shape != shape:
        try:
            fits = np.broadcast_shapes(seed.array.shape, shape) == shape
        except ValueError:
            fits = False
        if not fits:
            raise errors.invalid_argument(
                f"Incompatible shapes: {errors.brackets(seed.array.shape)} vs. {errors.brackets(shape)}. An entry of "
                "output_gradients has the shape of its target.", "Mul",
            )  # fmt: skip
        from gradtape.ops.array import broadcast_to

        seed = broadcast_to(seed, shape=shape)
    return seed


def _seed_cotangents(
    targets: list[Any], seeds: list[Tensor | None], sources: list[Any], traced: bool
) -> dict[int, Any]:
    """Where the walk starts: the upstream gradients by uid, added up for a target that is given twice."""
    cotangents: dict[int, Any] = {}
    direct = {source.uid for source in sources}
    for target, seed in zip(targets, seeds, strict=True):
        value, uid = _array(target), target.uid
        if not is_followable(value) and uid not in direct:
            continue  # integers and booleans carry no gradient, except to themselves
        if value.dtype.kind == "O":
            continue
        if seed is None:
            start: Any = np.ones(value.shape, value.dtype)
            if traced:
                start = wrap(start)
        else:
            start = seed if traced else seed.array
        cotangents[uid] = cotangents[uid] + start if uid in cotangents else start
    return cotangents


def finished(result: Any, source: Any, policy: UnconnectedGradients) -> Any:
    """A cotangent as the user gets it: a tensor, IndexedSlices, zeros or None."""
    if result is None:
        if policy is UnconnectedGradients.NONE:
            return None
        value = _array(source)
        return wrap(np.full(value.shape, b"", object) if value.dtype.kind == "O" else np.zeros_like(value))
    if type(result) is Rows:
        shape = wrap(np.array(result.shape, np.int32))
        return IndexedSlices(as_tensor(result.values), as_tensor(result.indices), shape)
    return as_tensor(result)


def as_tensor(result: Any) -> Tensor:
    """A raw result as a tensor of its own; a recorded one as it is."""
    if isinstance(result, Tensor):
        return wrap(result.array) if result.uid == CONSTANT else result
    return wrap(result if type(result) is np.ndarray else _solid(result))


def _solid(result: Any) -> Any:
    return np.asarray(result) if isinstance(result, np.generic) else result


# -- where the user's code is ----------------------------------------------------------------------------------------------
_PACKAGE = __name__.split(".")[0]
_said: dict[tuple[str, str, int], int] = {}


def _user_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.split(".")[0] != _PACKAGE and module != "contextlib":
            return frame
        frame = frame.f_back
    return None


def _user_line() -> str:
    frame = _user_frame()
    return "an unknown line" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _warn_per_call_site(message: str, *args: Any, most: int) -> None:
    """Log a warning, at most so many times for one line of the user's code."""
    frame = _user_frame()
    key = (message, "", 0) if frame is None else (message, frame.f_code.co_filename, frame.f_lineno)
    _said[key] = _said.get(key, 0) + 1
    if _said[key] <= most:
        logger.warning(message, *args)
