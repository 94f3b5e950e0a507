"""The tape: record what runs in a `with` block, then differentiate it.

`Tape` has everything that TensorFlow's class has; `inspect/gradient_tape.py` adds the views and is what users see.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Mapping, Sequence
from threading import get_ident
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, overload

import numpy as np
from numpy import ndarray

from gradtape._src import nest
from gradtape._src.arrays.lazy import end_step
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
from gradtape._src.autodiff.recording import LIMIT, Recording, gradient_calls
from gradtape._src.autodiff.settings import settings
from gradtape._src.call_sites import Line, is_library, user_line, warn_per_call_site
from gradtape._src.conversion import wrap
from gradtape._src.core import tape as stack
from gradtape._src.core.composites import differentiable_part, with_gradient
from gradtape._src.core.fast.backward import backward_pass, traced_backward_pass
from gradtape._src.core.observe import Observer
from gradtape._src.core.tape import Record, Recorder
from gradtape._src.core.zero_preserving import as_plain, zero_preserving
from gradtape._src.devices import placement
from gradtape._src.interrupts import float_errors_ignored, guarded
from gradtape._src.tensor import Tensor, is_differentiable, next_uid
from gradtape._src.variable import Variable, unwrapped

_NOTHING: frozenset[int] = frozenset()

if TYPE_CHECKING:
    from gradtape._src.autodiff.sparsity import Sparsity
    from gradtape._src.typing import Gradient, Source

K = TypeVar("K")
T = TypeVar("T", bound="Tape")


class Tape:
    """Record what runs inside a `with` block, then differentiate it.

    Trainable variables are watched as they are read, tensors when `watch` is called. You can call `gradient` or one of
    the other derivatives once, unless the tape is `persistent`.

    Additions to TensorFlow, off by default: `check_numerics` raises an error at the first NaN or Inf, forward or
    backward; `strong_zeros` preserves cotangents of exactly zero, so that the branch that `where` did not take cannot
    make a gradient NaN; `profile` measures every op; `lines` records the user's line of every op; `graph` lets what is
    watched, and what is computed from it, run from graphs, as `tf.config.set_graph_mode("auto")` does for a program;
    `memory_limit` (bytes, "2GB", or "25%" of the machine's memory) keeps only so much of the saved values, and computes
    the others again when the backward pass reads them; `spill="disk"` writes them to files where that is faster;
    `digests` keeps a digest of every result, by which `compare` finds the first op where two runs differ.

    >>> import gradtape as tf
    >>> x = tf.Variable(3.0)
    >>> with tf.GradientTape() as tape:
    ...     y = x * x
    >>> tape.gradient(y, x)
    <tf.Tensor: shape=(), dtype=float32, numpy=6.0>
    """

    # Attributes that most tapes never set have a default in the class: a tape is created for every step.
    _targets: Sequence[int] = ()  # the uids of the targets of the last gradient call,
    _unconnected: Sequence[int] = ()  # and of the sources that got no gradient
    _lost_targets: Sequence[Any] = ()  # the targets themselves, if some source got none
    _summary: Recording | None = None  # the summary of a freed record
    _discarded: tuple[Recording, ...] = ()  # what `reset` discarded
    _op_logger: Recorder | None = None  # sees every op of the block, with `lines=True`
    _recording: Recording | None = None
    _active = False
    _paused = False
    _blocks: tuple[str, ...] = ()  # the `with` blocks that are open: of recording, or of a pause
    _stops = 0  # how many stop_recording blocks are open
    _variables: Mapping[int, Variable] = MappingProxyType({})  # the watched ones of a record that is gone
    _used_at: Line | None = None  # the file and line of the gradient call that used it up
    options: Mapping[str, Any] = MappingProxyType({})  # what is switched on beyond TensorFlow's arguments
    _budget: Any = None  # with `memory_limit`: see autodiff/budget.py
    _profiler: Any = None  # with `profile=True`: see inspect/profile.py
    _observes_backward = False  # whether `_backward_observer` has an observer of every pass

    def __init__(
        self,
        persistent: bool = False,
        watch_accessed_variables: bool = True,
        *,
        check_numerics: bool = False,
        strong_zeros: bool = False,
        profile: bool = False,
        lines: bool | None = None,
        graph: bool = False,
        memory_limit: int | str | None = None,
        spill: str | None = None,
        digests: bool = False,
        **unknown: NoReturn,
    ) -> None:
        if unknown:
            raise _unknown_argument(next(iter(unknown)))
        self._persistent = bool(persistent)
        self._watch_accessed = bool(watch_accessed_variables)
        if lines is None:
            lines = settings.none_policy != "none"
        if check_numerics or strong_zeros or profile or lines or graph or digests:
            chosen = {
                "check_numerics": check_numerics,
                "strong_zeros": strong_zeros,
                "profile": profile,
                "lines": lines,
                "graph": graph,
                "digests": digests,
            }
            self.options = {name: value for name, value in chosen.items() if value}
        if memory_limit is not None or spill is not None:
            self._budget = budget_of(memory_limit, spill, self.options)
            self.options = {**self.options, "memory_limit": self._budget.limit}
        self._log: list[Any] = []  # the fields of events: recording begins and ends, something is watched

    # -- recording ---------------------------------------------------------------------------------------------------
    # A signal may interrupt all of this anywhere: see `gradtape._src.interrupts` for the rules.
    def __enter__(self: T) -> T:
        if self._paused:  # `with tape.pause():` - the block is the pause
            self._blocks += ("pause",)
            return self
        if self._active:
            raise ValueError("Tape is still recording, This can happen if you try to re-enter an already-active tape.")
        if (placement.places or self.options) and stack.active_stack() is None:
            end_step("a new tape begins")
        try:
            self._blocks += ("record",)
            self._start()
            stack.open_tapes.add(id(self))
            if self._op_logger is not None:
                stack.start(self._op_logger)
            return self
        except BaseException:
            self._abandon()
            self._blocks = self._blocks[:-1]
            raise

    @guarded
    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if self._blocks and self._blocks[-1] == "pause":
                if self._paused:
                    self.resume()
            else:
                self._paused = False
                stack.open_tapes.discard(id(self))
                if self._op_logger is not None:
                    stack.stop(self._op_logger)
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
            self._recording = Recording(self._watch_accessed)
            if self.options:
                self._recording.lazy = "graph" in self.options
                self._observe(self._recording)
        stack.start(self._recording)
        self._active = True
        if self._profiler is not None:
            self._profiler.enter()
        if len(self._log) < LIMIT:
            self._log.append(("start", next_uid(), 0, 0, None, get_ident()))

    def _stop(self, why: str) -> None:
        assert self._recording is not None
        stack.stop(self._recording)
        self._active = False
        if self._profiler is not None:
            self._profiler.leave()
        if len(self._log) < LIMIT:
            self._log.append((why, next_uid(), 0, 0, None if why == "exit" else user_line() or _UNKNOWN))

    def _abandon(self) -> None:
        """End a block that was interrupted while it began or ended."""
        stack.open_tapes.discard(id(self))
        for recorder in (self._op_logger, self._recording):
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
        """Track a tensor or variable, or every one in a structure of them.

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
                    "ExtensionType. A tape watches only values of gradtape: make it a tf.constant or tf.Variable."
                )
        recording = self._recording
        if recording is None:
            raise RuntimeError(
                f"GradientTape.watch was called on a tape that is {self._state()}: there is nothing to watch on. "
                "Call it inside the tape's `with` block."
            )
        for source in sources:
            if not is_differentiable(array_of(source)):
                warn_per_call_site(
                    "The dtype of the watched tensor must be floating (e.g. tf.float32), got %r", source.dtype, most=5
                )
            if isinstance(source, Variable) and source.uid not in recording.tracked:
                recording.detach_reads(source.uid)
            recording.track(source)
        if len(self._log) < LIMIT:
            if not sources:
                self._log.append(("watched nothing", next_uid(), 0, 0, user_line() or _UNKNOWN))
            for source in sources:
                self._log.append(("watch", next_uid(), source.uid, 0, None, get_ident()))

    def stop_recording(self) -> _Stopped:
        """Do not record the ops of the block on this tape; other tapes still record them. Blocks may be nested.

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

    def pause(self: T) -> T:
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
        """Resume recording after `pause`.

        >>> x = tf.Variable(2.0)
        >>> with tf.GradientTape() as tape:
        ...     tape.pause()
        ...     scale = tf.reduce_max(tf.abs(x))
        ...     tape.resume()
        ...     y = scale * x
        <tf.GradientTape: 0 ops, 0 B saved, paused>
        >>> tape.gradient(y, x).numpy()
        np.float32(2.0)
        """
        if not self._paused:
            raise ValueError(f"resume() needs a tape that was paused, but this tape is {self._state()}.")
        try:
            self._paused = False
            self._start()
        except BaseException:
            self._recover()
            raise

    def reset(self) -> None:
        """Discard all recorded ops and all watched tensors, and continue recording.

        >>> x = tf.Variable(2.0)
        >>> with tf.GradientTape() as tape:
        ...     y = x * x
        ...     tape.reset()
        ...     z = 3.0 * x
        >>> tape.gradient([y, z], x).numpy()
        np.float32(3.0)
        """
        if not self._active:
            raise ValueError(f"Tape is not recording. It is {self._state()}.")
        try:
            self._stop("reset")
            if self._recording is not None:
                self._discarded = (*self._discarded[-9:], self._recording.summarise())
            self._recording = None
            self._start()
        except BaseException:
            if self._recording is not None and self._recording.consumed:
                self._recording = None
            self._recover()
            raise

    def watched_variables(self) -> tuple[Variable, ...]:
        """The variables this tape watches, in the order of their creation.

        >>> w, b = tf.Variable(2.0, name="w"), tf.Variable(1.0, name="b")
        >>> with tf.GradientTape() as tape:
        ...     y = w * 3.0
        >>> [v.name for v in tape.watched_variables()]
        ['w:0']
        """
        watched = self._variables if self._recording is None else self._recording.variables
        return tuple(v for _, v in sorted(watched.items()))

    @property
    def records(self) -> list[Record]:
        """The ops recorded so far, in order.

        >>> x = tf.Variable(2.0)
        >>> with tf.GradientTape() as tape:
        ...     y = tf.exp(x * x)
        >>> len(tape.records)
        2
        """
        return [] if self._recording is None else [Record.of(record) for record in self._recording.records]

    # -- derivatives ---------------------------------------------------------------------------------------------------
    @overload
    def gradient(
        self,
        target: Any,
        sources: Source,
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Gradient: ...
    @overload
    def gradient(
        self,
        target: Any,
        sources: tuple[Source, ...],
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> tuple[Gradient, ...]: ...
    @overload
    def gradient(
        self,
        target: Any,
        sources: Sequence[Source],
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> list[Gradient]: ...
    @overload
    def gradient(
        self,
        target: Any,
        sources: Mapping[K, Source],
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> dict[K, Gradient]: ...
    @overload
    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Any: ...
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
            targets = [part for leaf in leaves(target) for part in components(differentiable_part(leaf))]
            check_differentiable("target", targets)
        # The common cases, one source or a list of them (benchmark: mlp32).
        single = type(sources) is Tensor or type(sources) is Variable
        flat = single or (type(sources) is list and are_differentiable(sources))
        given = flat_sources = [sources] if single else sources if flat else leaves(sources)
        if not flat:
            flat_sources = [differentiable_part(source) for source in given]
            check_differentiable("sources", flat_sources)
        seeds = seeds_of(target, targets, output_gradients)
        companions = _NOTHING
        for one in targets:
            if not is_differentiable(array_of(one)):
                recording.refuse_unregistered(targets)
                companions = recording.grouped_outputs()
                break
        with _GradientCall(self, "gradient") as traced, float_errors_ignored():
            start = seed_cotangents(targets, seeds, flat_sources, traced, companions)
            cotangents = self._backward(recording, start, flat_sources, traced, last=True)
            found = [cotangents.get(source.uid) for source in flat_sources]
            results = [
                wrap(d) if type(d) is ndarray else finished(d, source, policy)
                for d, source in zip(found, flat_sources, strict=True)
            ]
        self._finish("gradient", targets, flat_sources, found, policy)
        if flat:
            return results[0] if single else results
        return nest.pack_sequence_as(sources, [with_gradient(*pair) for pair in zip(given, results, strict=True)])

    @overload
    def jacobian(
        self,
        target: Any,
        sources: Source,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
        mode: str = "reverse",
    ) -> Gradient: ...
    @overload
    def jacobian(
        self,
        target: Any,
        sources: tuple[Source, ...],
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
        mode: str = "reverse",
    ) -> tuple[Gradient, ...]: ...
    @overload
    def jacobian(
        self,
        target: Any,
        sources: Sequence[Source],
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
        mode: str = "reverse",
    ) -> list[Gradient]: ...
    @overload
    def jacobian(
        self,
        target: Any,
        sources: Mapping[K, Source],
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
        mode: str = "reverse",
    ) -> dict[K, Gradient]: ...
    @overload
    def jacobian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
        mode: str = "reverse",
        *,
        sparse: Any = False,
    ) -> Any: ...
    def jacobian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
        mode: str = "reverse",
        *,
        sparse: Any = False,
    ) -> Any:
        """All partial derivatives of one target: shape `target.shape + source.shape` for each source.

        `parallel_iterations` is the number of rows that one backward pass computes; by default it is chosen to fit in
        memory. `mode` is "reverse" (by rows), "forward" (by columns) or "auto" (whichever needs fewer).

        With `sparse=True` the result is a `tf.SparseTensor` of the same shape, with `sparse="scipy"` a
        `scipy.sparse.csr_array` of shape [elements of the target, elements of the source]. The tape finds out from its
        records where derivatives can be different from zero, and needs a few passes instead of one for each row;
        `mode` is then chosen as by "auto", unless it is "forward". `sparse=plan` uses a plan of `sparsity` again.

        >>> import gradtape as tf
        >>> x = tf.constant([1.0, 2.0])
        >>> with tf.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = x * x
        >>> tape.jacobian(y, x).numpy().tolist()
        [[2.0, 0.0], [0.0, 4.0]]
        """
        if sparse is not False:
            return sparsities().sparse_jacobian(
                self, target, sources, as_policy(unconnected_gradients), sparse, "auto" if mode == "reverse" else mode
            )
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
    ) -> Gradient:
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

    @overload
    def batch_gradient(
        self,
        target: Any,
        sources: Source,
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Gradient: ...
    @overload
    def batch_gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Any: ...
    def batch_gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Any:
        """Per-example gradients, stacked along a new first axis: row b is `gradient(target[b], source)`.

        >>> import gradtape as tf
        >>> w = tf.Variable([1.0, -1.0])
        >>> with tf.GradientTape() as tape:
        ...     losses = tf.reduce_sum(tf.constant([[1.0, 2.0], [3.0, 4.0]]) * w, axis=1) ** 2
        >>> tape.batch_gradient(losses, w).numpy().tolist()
        [[-2.0, -4.0], [-6.0, -8.0]]
        """
        return jacobians.batch_gradient(self, target, sources, output_gradients, as_policy(unconnected_gradients))

    @overload
    def jvp(
        self, target: Source, sources: Any, tangents: Any, unconnected_gradients: Any = UnconnectedGradients.NONE
    ) -> Gradient: ...
    @overload
    def jvp(
        self, target: Any, sources: Any, tangents: Any, unconnected_gradients: Any = UnconnectedGradients.NONE
    ) -> Any: ...
    def jvp(
        self, target: Any, sources: Any, tangents: Any, unconnected_gradients: Any = UnconnectedGradients.NONE
    ) -> Any:
        """The derivative of the targets along `tangents`, by a forward pass over the records.

        >>> import gradtape as tf
        >>> x = tf.Variable([1.0, 2.0])
        >>> with tf.GradientTape() as tape:
        ...     y = x * x
        >>> tape.jvp(y, x, [1.0, 10.0]).numpy().tolist()
        [2.0, 40.0]
        """
        sources = unwrapped(sources)
        if isinstance(sources, (Tensor, Variable)) and isinstance(tangents, (list, tuple)):
            tangents = np.asarray(tangents, sources.dtype.as_numpy_dtype)
        return directional.jvp(self, target, sources, tangents, as_policy(unconnected_gradients))

    @overload
    def hessian(
        self, target: Any, sources: Source, unconnected_gradients: Any = UnconnectedGradients.NONE
    ) -> Gradient: ...
    @overload
    def hessian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        *,
        sparse: Any = False,
    ) -> Any: ...
    def hessian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        *,
        sparse: Any = False,
    ) -> Any:
        """Second derivatives of one scalar target; for several sources, a block for each pair of them.

        No outer tape is needed: this records the backward pass and differentiates it again. `sparse` is the same as
        for `jacobian`; a plan for it is `tape.sparsity(target, sources, order=2)`.

        >>> import gradtape as tf
        >>> x = tf.Variable([1.0, 2.0])
        >>> with tf.GradientTape() as tape:
        ...     y = x[0] ** 2 * x[1]
        >>> tape.hessian(y, x).numpy().tolist()
        [[4.0, 2.0], [2.0, 0.0]]
        """
        if sparse is not False:
            return sparsities().sparse_hessian(self, target, sources, as_policy(unconnected_gradients), sparse)
        return directional.hessian(self, target, sources, as_policy(unconnected_gradients))

    def sparsity(
        self,
        target: Any,
        sources: Any,
        *,
        order: int = 1,
        mode: str = "auto",
        local: bool = False,
        format: str = "tensor",
    ) -> Sparsity:
        """Where the Jacobian (or, with `order=2`, the Hessian) can be different from zero: a plan to compute it.

        The plan can be used many times, also by another tape that recorded the same program at another point. This
        computes no derivative, and does not use up the tape.

        Args:
          target: The tensor to be differentiated; for `order=2` a scalar.
          sources: Tensors or variables; several of them are one matrix, side by side.
          order: 1 for `jacobian`, 2 for `hessian`.
          mode: "forward" (passes by columns), "reverse" (by rows), "both" (some rows by rows, the rest by columns) or
            "auto", the one that needs the fewest passes. Hessians have the mode "symmetric".
          local: Whether the pattern holds at this point only: a factor that is zero here then counts as no dependence,
            and so does the branch of `where` that was not taken.
          format: What the results are: "tensor" (`tf.SparseTensor`) or "scipy" (`scipy.sparse.csr_array`).

        >>> import gradtape as tf
        >>> x = tf.Variable(tf.range(5.0))
        >>> with tf.GradientTape(persistent=True) as tape:
        ...     y = x[2:] - 2.0 * x[1:-1] ** 2 + x[:-2]
        >>> plan = tape.sparsity(y, x)
        >>> plan
        <sparsity of a 3 x 5 Jacobian: 9 entries, 3 reverse passes>
        >>> plan.to_dense().astype(int).tolist()
        [[1, 1, 1, 0, 0], [0, 1, 1, 1, 0], [0, 0, 1, 1, 1]]
        >>> tape.jacobian(y, x, sparse=plan).values.numpy().tolist()
        [1.0, -4.0, 1.0, 1.0, -8.0, 1.0, 1.0, -12.0, 1.0]
        """
        return sparsities().sparsity(self, target, sources, order=order, mode=mode, local=local, format=format)

    @overload
    def hvp(
        self, target: Any, sources: Source, vectors: Any, unconnected_gradients: Any = UnconnectedGradients.NONE
    ) -> Gradient: ...
    @overload
    def hvp(
        self, target: Any, sources: Any, vectors: Any, unconnected_gradients: Any = UnconnectedGradients.NONE
    ) -> Any: ...
    def hvp(
        self, target: Any, sources: Any, vectors: Any, unconnected_gradients: Any = UnconnectedGradients.NONE
    ) -> Any:
        """Hessian-vector products without computing the Hessian (forward over reverse).

        >>> import gradtape as tf
        >>> x = tf.Variable([1.0, 2.0])
        >>> with tf.GradientTape() as tape:
        ...     y = tf.reduce_sum(x**3)
        >>> tape.hvp(y, x, tf.constant([1.0, 0.0])).numpy().tolist()
        [6.0, 0.0]
        """
        return directional.hvp(self, target, sources, vectors, as_policy(unconnected_gradients))

    # -- gradient calls -------------------------------------------------------------------------------------
    def _recorded_gradient(self, target: Any, sources: list[Any]) -> list[Any]:
        """The recorded gradient, for internal use: it does not warn and does not use up the tape."""
        assert self._recording is not None
        start = seed_cotangents([target], [None], sources, traced=True)
        with float_errors_ignored():
            cotangents = self._backward(self._recording, start, sources, True, last=False)
        return [finished(cotangents.get(s.uid), s, UnconnectedGradients.NONE) for s in sources]

    def _require_record(self) -> Recording:
        if self._recording is None:
            if self._used_at is None:
                first = "This tape was never entered: open it with `with tape:` first."
            else:
                where = ":".join(map(str, self._used_at))
                first = f"It was used at {where}. Create it with persistent=True to compute more than one gradient."
            raise RuntimeError(
                "A non-persistent GradientTape can only be used to compute one set of gradients (or jacobians). "
                + first
            )
        return self._recording

    def _finish(
        self, method: str, targets: list[Any], sources: list[Any], found: list[Any], policy: UnconnectedGradients
    ) -> None:
        """Keep which sources got no gradient."""
        self._targets = [target.uid for target in targets]
        lost = [i for i, d in enumerate(found) if d is None]
        self._unconnected = [sources[i].uid for i in lost] if lost else ()
        if lost and policy is UnconnectedGradients.NONE:
            self._on_unconnected(method, targets, sources, [sources[i] for i in lost])

    def _gradient_call(self, method: str) -> _GradientCall:
        """The context of one gradient call: whether its passes are recorded, and whether it uses up the tape."""
        return _GradientCall(self, method)

    def _use_up(self) -> None:
        if self._recording is not None:
            self._variables = self._recording.variables
            self._summary = self._recording.summarise()
            if self._budget is not None:
                self._budget.clear()
        self._recording = None
        caller = sys._getframe(2).f_back  # around this, the end of the gradient call and the method
        if caller is not None and not is_library(file := caller.f_code.co_filename):
            self._used_at = (file, caller.f_lineno)  # the common case, without a search (benchmark: mlp32)
        else:
            self._used_at = user_line() or _UNKNOWN

    def _backward(
        self,
        recording: Recording,
        cotangents: dict[int, Any],
        sources: Sequence[Any],
        traced: bool,
        *,
        last: bool,
    ) -> dict[int, Any]:
        """One backward pass. The last one of a tape that is not persistent frees the records it has used."""
        uids = frozenset([source.uid for source in sources])
        shapes = recording.shapes_between(uids)
        strong = "strong_zeros" in self.options
        if strong:
            cotangents.update({uid: zero_preserving(g) for uid, g in cotangents.items()})
        observed = self._observes_backward or self._profiler is not None or settings.checks_numerics
        observer = self._backward_observer(recording, shapes, cotangents) if observed else None
        may_raise = recording.may_raise or (observer is not None and observer.may_raise)
        release = last and not self._persistent and not traced and not may_raise
        recording.consumed = release
        recording.sources, recording.size = uids, len(recording.records)
        found = (traced_backward_pass if traced else backward_pass)(
            recording.records,
            shapes,
            cotangents,
            kept=uids - recording.roots,  # a root is never an output, so its cotangent is not removed
            traced=traced,
            release=release,
            unreached=recording.unreached if release else None,
            observer=observer,
        )
        return {uid: as_plain(c) for uid, c in found.items()} if strong else found

    # -- what a subclass observes ------------------------------------------------------------------------------------
    def _observe(self, recording: Recording) -> None:
        """Prepare a new recording for the options of this tape."""

    def _backward_observer(
        self, recording: Recording, shapes: dict[int, tuple[int, ...]], cotangents: dict[int, Any]
    ) -> Observer | None:
        """The observer of a backward pass that is about to begin."""
        return None

    def _on_unconnected(self, method: str, targets: list[Any], sources: list[Any], lost: list[Any]) -> None:
        """Some sources have no gradient."""


def budget_of(limit: Any, spill: Any, options: Mapping[str, Any]) -> Any:
    """The budget of a tape with `memory_limit`."""
    from gradtape._src.autodiff.budget import Budget, parse_limit

    if spill not in (None, "disk"):
        raise ValueError(f"spill is None or 'disk'; received {spill!r}.")
    if limit is None:
        raise ValueError(
            "spill says where values go that exceed memory_limit: give a limit, such as memory_limit='2GB'."
        )
    for name in ("profile", "check_numerics", "graph"):
        if name in options:
            raise ValueError(f"memory_limit cannot be used together with {name}=True: both observe every op.")
    return Budget(parse_limit(limit), spill)


def sparsities() -> Any:
    """The module of sparse derivatives, which is loaded when it is first needed."""
    from gradtape._src.autodiff import sparsity

    return sparsity


_UNKNOWN: Line = ("an unknown file", 0)


# Arguments that a tape does not have are taken for the sake of the error: the signature is without them.
_known = [p for p in inspect.signature(Tape.__init__).parameters.values() if p.kind is not p.VAR_KEYWORD]
setattr(Tape.__init__, "__signature__", inspect.Signature(_known, return_annotation=None))  # noqa: B010 - for mypy


def _unknown_argument(name: str) -> TypeError:
    """The error of Python for an argument that a tape does not have, with the nearest one that it has."""
    import difflib

    known = list(inspect.signature(Tape).parameters)
    close = difflib.get_close_matches(name, known, 1)
    advice = f"Did you mean '{close[0]}'?" if close else f"Its arguments are {', '.join(known)}."
    return TypeError(f"GradientTape.__init__() got an unexpected keyword argument '{name}'. {advice}")


class _GradientCall:
    """One gradient call: the backward pass may itself be recorded, and at the end a plain tape is used up."""

    __slots__ = ("_first", "_method", "_tape", "_was_active")

    def __init__(self, tape: Tape, method: str) -> None:
        self._tape, self._method = tape, method

    def __enter__(self) -> bool:
        tape = self._tape
        self._was_active = tape._active
        if self._was_active and tape._persistent:
            warn_per_call_site(
                "Calling GradientTape.%s on a persistent tape inside its context is significantly less efficient than "
                "calling it outside the context (the gradient ops are recorded too, which costs time and memory). Do "
                "it only to get higher-order derivatives; otherwise use stop_recording.",
                self._method,
                most=1,
            )
        try:
            if self._was_active and not tape._persistent:
                tape._stop("gradient call")
            if tape._op_logger is not None:  # it logs the program's ops, not those of the backward pass
                stack.stop(tape._op_logger)
            self._first = next_uid()
            return stack.active_stack() is not None
        except BaseException:
            self._recover()
            raise

    @guarded
    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            tape = self._tape
            if kind is not None:
                self._recover()
                return
            if not tape._persistent:
                tape._use_up()
            if tape._op_logger is not None and "record" in tape._blocks:
                stack.start(tape._op_logger)
            where = user_line() if tape._used_at is None else tape._used_at
            gradient_calls.append((self._first, next_uid(), self._method, where or _UNKNOWN))
        except BaseException:
            self._recover()
            raise

    def _recover(self) -> None:
        """After an error the tape is as before, or used up, if the backward pass was freeing the records."""
        tape = self._tape
        if tape._recording is not None and tape._recording.consumed:
            tape._use_up()
        elif tape._recording is not None and self._was_active and not tape._persistent:
            tape._recover()
        if tape._op_logger is not None and "record" in tape._blocks:
            stack.stop(tape._op_logger)
            stack.start(tape._op_logger)


class _Stopped(contextlib.ContextDecorator):
    """The block of `stop_recording`."""

    def __init__(self, tape: Tape) -> None:
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
    def __exit__(self, kind: object, error: object, trace: object) -> None:
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
