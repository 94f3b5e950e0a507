"""`GradientTape`: the tape with its views.

Each view reads the tape's records, and its module is imported when it is first called: a plain tape has no cost for
them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from gradtape._src.arrays.symbolic import NeedsEagerError, current_graph
from gradtape._src.autodiff.gradient_tape import Tape
from gradtape._src.autodiff.recording import Recording
from gradtape._src.autodiff.settings import remember_unconnected, settings
from gradtape._src.core.observe import Observer, Observers

if TYPE_CHECKING:
    from gradtape._src.inspect.digests import Comparison
    from gradtape._src.inspect.explain import Explanation, Explanations
    from gradtape._src.inspect.memory import MemoryReport
    from gradtape._src.inspect.numerics import Origin
    from gradtape._src.inspect.profile import Profile
    from gradtape._src.inspect.summary import Summary
    from gradtape._src.typing import Source


class GradientTape(Tape):
    __doc__ = Tape.__doc__

    # -- views -------------------------------------------------------------------------------------------------------
    @overload
    def explain(self, target: Any, sources: Source) -> Explanation: ...
    @overload
    def explain(self, target: Any, sources: Sequence[Any] | Mapping[Any, Any]) -> Explanations: ...
    def explain(self, target: Any, sources: Any) -> Explanation | Explanations:
        """Say for each source whether and how it is connected to the target and, if it is not, why and how to fix it.

        This computes no gradient and does not use up the tape. You can call it before or after `gradient`, even on a
        non-persistent tape, which keeps a summary of its records. `GradientTape(lines=True)` logs every op with its
        line, including ops that the tape did not record, so that the explanation does not have to guess.

        Returns:
          An `Explanation`, or for a structure of sources `Explanations`.

        >>> import gradtape as tf
        >>> x = tf.constant(3.0)
        >>> with tf.GradientTape() as tape:
        ...     y = x * x
        >>> tape.gradient(y, x)
        >>> print(tape.explain(y, x))
        x: no gradient: the tape does not watch it
          why:  x is a tensor; tapes watch only trainable variables automatically.
          fix:  Call tape.watch(x) at the beginning of the block, or make it a tf.Variable.
        >>> tape.explain(y, x).reason
        <Reason.NOT_WATCHED: 'the tape does not watch it'>
        """
        from gradtape._src.inspect.explain import explain

        found: Explanation | Explanations = explain(self, target, sources)
        return found

    def compare(
        self, other: GradientTape | str | os.PathLike[str], *, rtol: float | None = None, atol: float = 0.0
    ) -> Comparison:
        """Find the first op at which two recordings differ, forward or backward.

        Both tapes must be created with `digests=True`, which keeps a digest of every result and of every cotangent. The
        other recording can be a file written by `save_digests` on another machine. Results differ if they are farther
        apart than `rtol` times the largest number plus `atol`; by default, `rtol` is 100 units in the last place of the
        least precise dtype so far, so that you can compare a float32 run with a float64 run.

        A call to a compiled function is one op. If the other recording contains the function's individual ops, the
        results of the call are compared with the most similar ones.

        Returns:
          A `Comparison`: true if nothing differs; `.first` is the first op that differs, `.first_bits` the first one
          that differs in any bit, `.pairs` the relative difference of each pair of ops.

        >>> import gradtape as tf
        >>> tapes = []
        >>> for epsilon in (1e-3, 1e-2):
        ...     x = tf.Variable([1.0, 2.0])
        ...     with tf.GradientTape(digests=True) as tape:
        ...         y = tf.reduce_sum(x / tf.sqrt(x * x + epsilon))
        ...     tapes.append(tape)
        >>> found = tapes[0].compare(tapes[1])
        >>> bool(found), found.first.index, found.first.op
        (False, 1, 'add')
        """
        from gradtape._src.inspect.digests import compare

        return compare(self, other, rtol, atol)

    def save_digests(self, path: str | os.PathLike[str]) -> None:
        """Write the digests of a tape with `digests=True` to a file, for `compare` on another machine.

        >>> import gradtape as tf
        >>> import os, tempfile
        >>> x = tf.Variable(2.0)
        >>> with tf.GradientTape(digests=True) as tape:
        ...     y = tf.tanh(x * x)
        >>> path = os.path.join(tempfile.mkdtemp(), "run.npz")
        >>> tape.save_digests(path)
        >>> bool(tape.compare(path))
        True
        """
        from gradtape._src.inspect.digests import save_digests

        save_digests(self, path)

    def memory_report(self) -> MemoryReport:
        """Report what the tape keeps alive, by op and by line of the user's code, largest first.

        `saved` is memory that only the tape (or data you hold yourself) keeps alive; `elsewhere` counts variables and
        watched tensors, which exist without the tape too. Lines are known if the tape has `lines=True`.

        >>> import gradtape as tf
        >>> x = tf.ones([8, 4])
        >>> w = tf.Variable(tf.ones([4, 16]))
        >>> with tf.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = tf.nn.relu(x @ w)
        >>> report = tape.memory_report()
        >>> report.saved, report.elsewhere
        (512, 384)
        >>> [(entry.what, entry.saved, entry.elsewhere) for entry in report.by_op]
        [('relu', 512, 0), ('matmul', 0, 384)]
        """
        from gradtape._src.inspect.memory import memory_report

        return memory_report(self)

    def nan_origin(self, target: Any, sources: Any = None) -> Origin:
        """Find the first op that produced NaN or Inf, on the path to the target or in the backward pass.

        This looks at what the tape saved and recomputes the rest; it runs none of your code and does not use up the
        tape. If the target is finite, it searches the backward pass, to the `sources` or, without them, to everything
        that is watched. With `lines=True` or `check_numerics=True` the result includes the line.

        >>> import gradtape as tf
        >>> x = tf.Variable([0.0, 4.0])
        >>> with tf.GradientTape(lines=True) as tape:
        ...     y = tf.reduce_sum(tf.where(x > 0, x**0.5, 0.0))
        >>> origin = tape.nan_origin(y, x)
        >>> origin.op, origin.forward, origin.cause.name
        ('pow', False, 'MASKED_BRANCH')
        >>> float(y), bool(tape.nan_origin(y * 0, x))
        (2.0, False)
        """
        from gradtape._src.inspect.numerics import nan_origin

        return nan_origin(self, target, sources)

    def profile(self) -> Profile:
        """Report where the time went, by op and by line, forward and backward, for a tape with `profile=True`.

        Call it after `gradient` to include the backward pass. `.by_op`, `.by_line` and `.rows` contain the times in
        nanoseconds; `.save(path)` writes a trace for chrome://tracing or ui.perfetto.dev.

        >>> import gradtape as tf
        >>> x = tf.Variable([1.0, 2.0])
        >>> with tf.GradientTape(profile=True) as tape:
        ...     y = tf.reduce_sum(tf.tanh(x) * x)
        >>> _ = tape.gradient(y, x)
        >>> sorted((entry.what, entry.calls) for entry in tape.profile().by_op)
        [('multiply', 1), ('reduce_sum', 1), ('tanh', 1)]
        """
        from gradtape._src.inspect.profile import profile

        return profile(self)

    def show(self, path: str | os.PathLike[str] | None = None, target: Any = None, sources: Any = None) -> Any:
        """Draw the tape as a page on which you can zoom, pan, search, and hover for shape, bytes, time and line.

        Given a `path`, this writes one self-contained HTML file and returns the path; if the path ends in .svg, .dot or
        .mmd, it writes the result of `to_svg`, `to_dot` or `to_mermaid`. Without a path, the result is displayed in a
        notebook, and has a method `.save(path)`. `target` and `sources` are highlighted, and ops that the target does
        not depend on are faded. Use dictionaries (`sources={"w": w}`) to name values.

        >>> import gradtape as tf
        >>> x = tf.Variable(2.0, name="x")
        >>> with tf.GradientTape() as tape:
        ...     y = tf.tanh(x * x)
        >>> tape.show(target=y, sources=x)
        <picture of a tape with 2 ops: .save(path) writes the page>
        """
        from gradtape._src.inspect.picture import show

        return show(self, path, target, sources)

    def summary(self, target: Any = None, max_rows: int | None = 40) -> Summary:
        """Return a table of the recorded ops: shapes, dtype, bytes saved and, if known, time and line.

        With a `target`, the table shows which ops the target depends on. `lines=True` on the tape adds source lines,
        `profile=True` adds times. A long table is cut in the middle; `max_rows=None` shows all of it. `.rows` returns
        the table as data.

        >>> import gradtape as tf
        >>> x = tf.constant([[1.0, 2.0]])
        >>> w = tf.Variable([[1.0], [-1.0]], name="w")
        >>> with tf.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = tf.nn.relu(x @ w)
        >>> print(tape.summary())
        GradientTape: 2 ops, 4 B saved, not recording: its `with` block has ended
        #  op      output  dtype    saved
        ─  ──────  ──────  ───────  ─────
        0  matmul  (1, 1)  float32    0 B
        1  relu    (1, 1)  float32    4 B
        """
        from gradtape._src.inspect.summary import summary

        return summary(self, target, max_rows)

    def to_dot(self, target: Any = None, sources: Any = None) -> str:
        """Return the graph in the DOT language of Graphviz.

        >>> import gradtape as tf
        >>> x = tf.Variable(2.0, name="x")
        >>> with tf.GradientTape() as tape:
        ...     y = tf.tanh(x * x)
        >>> print(tape.to_dot(target=y))
        digraph tape {
          rankdir=TB;
          node [fontname="Helvetica", fontsize=11];
          s0 [label="x\\n()", shape=ellipse];
          n0 [label="multiply\\n()", shape=box];
          n1 [label="tanh\\n()", shape=box, penwidth=3];
          s0 -> n0;
          n0 -> n1;
        }
        """
        from gradtape._src.inspect.picture import to_dot

        return to_dot(self, target, sources)

    def to_mermaid(self, target: Any = None, sources: Any = None) -> str:
        """Return the graph as Mermaid text, which Markdown viewers can draw.

        >>> import gradtape as tf
        >>> x = tf.Variable(2.0, name="x")
        >>> with tf.GradientTape() as tape:
        ...     y = tf.tanh(x * x)
        >>> print(tape.to_mermaid())
        flowchart TD
          s0(["x<br/>#40;#41;"])
          n0["multiply<br/>#40;#41;"]
          n1["tanh<br/>#40;#41;"]
          s0 --> n0
          n0 --> n1
        """
        from gradtape._src.inspect.picture import to_mermaid

        return to_mermaid(self, target, sources)

    def to_svg(self, target: Any = None, sources: Any = None, max_ops: int = 400) -> str:
        """Return the graph as SVG text, in which long loops are drawn as one round and a closed box.

        Beyond `max_ops` ops, other repeated blocks and long stretches become one box each.

        >>> import gradtape as tf
        >>> x = tf.Variable(2.0, name="x")
        >>> with tf.GradientTape() as tape:
        ...     y = tf.tanh(x * x)
        >>> tape.to_svg().startswith("<svg ")
        True
        """
        from gradtape._src.inspect.picture import to_svg

        return to_svg(self, target, sources, max_ops)

    @property
    def nbytes(self) -> int:
        """The number of bytes that the tape keeps alive, not counting variables and watched tensors.

        Each array counts once, however often it is saved; a view counts as its base. A used-up tape keeps nothing.

        >>> import gradtape as tf
        >>> x = tf.ones([8, 4])
        >>> w, b = tf.Variable(tf.ones([4, 16])), tf.Variable(tf.zeros(16))
        >>> with tf.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = tf.nn.relu(x @ w + b)
        >>> tape.nbytes == 8 * 16 * 4  # of three results, the backward pass needs one
        True
        """
        from gradtape._src.inspect.memory import nbytes

        return nbytes(self)

    def __repr__(self) -> str:
        return f"<tf.{str(self.summary(max_rows=0)).splitlines()[0]}>"

    def _repr_html_(self) -> str:
        return self.summary(max_rows=12)._repr_html_()

    # -- observers ---------------------------------------------------------------------------------------------------
    def _observe(self, recording: Recording) -> None:
        for name in ("check_numerics", "profile", "digests"):
            if name in self.options and current_graph() is not None:
                raise NeedsEagerError(
                    RuntimeError(
                        f"GradientTape({name}=True) observes every op, but the ops of a compiled program "
                        "cannot be observed."
                    )
                )
        if self._budget is not None:
            graph, recording.budget = current_graph(), self._budget
            if graph is None:
                self._budget.attach(recording)
            else:
                _limits().check_plannable(graph, self._budget)
        if "profile" in self.options:
            from gradtape._src.inspect.profile import Profiler

            self.options = {**self.options, "lines": True}
            self._profiler = Profiler(recording)
            recording.observe(self._profiler)
        if "digests" in self.options:
            self._keep_digests()
        elif "check_numerics" in self.options:
            from gradtape._src.inspect.numerics import Checker

            if self._op_logger is None:
                self._op_logger = Checker()
            self._op_logger.attend(recording)  # type: ignore[attr-defined]
        elif "lines" in self.options and self._op_logger is None:
            from gradtape._src.inspect.events import OpLogger

            self._op_logger = OpLogger()

    def _plan(self) -> Callable[[Iterable[Any]], None]:
        plan: Callable[[Iterable[Any]], None] = _limits().begin(self._budget)
        return plan

    def _keep_digests(self) -> None:
        from gradtape._src.inspect.digests import DigestLogger

        if "check_numerics" in self.options:
            raise ValueError("digests=True cannot be combined with check_numerics=True.")
        if self._op_logger is None:
            self._op_logger = DigestLogger()
        self._observes_backward = True

    def _backward_observer(
        self, recording: Recording, shapes: dict[int, tuple[int, ...]], cotangents: dict[int, Any]
    ) -> Observer | None:
        observers: list[Observer] = []
        if self._profiler is not None:
            observers.append(self._profiler.backward_pass(recording.records))
        if "digests" in self.options:
            from gradtape._src.inspect.digests import DigestObserver

            observers.append(DigestObserver(self._op_logger))  # type: ignore[arg-type]
        if settings.checks_numerics:
            from gradtape._src.inspect.numerics import backward_checker

            checker = backward_checker(self, recording, shapes, cotangents)
            if checker is not None:
                observers.append(checker)
        if len(observers) > 1:
            return Observers(observers)
        return observers[0] if observers else None

    def _on_unconnected(self, method: str, targets: list[Any], sources: list[Any], lost: list[Any]) -> None:
        self._lost_targets = targets
        remember_unconnected(self)
        if settings.none_policy != "none":
            from gradtape._src.inspect.explain import report

            report(self, method, targets, sources, lost)


def _limits() -> Any:
    from gradtape._src.inspect import limits

    return limits
