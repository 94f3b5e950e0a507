"""Derivatives of traced functions: a first program with residuals, and second programs for what arrives.

The second program is the backward (or the forward) pass over the inner tape, which is traced too. Values of the first
graph that it uses are the residuals: further outputs of the first program, inputs of the second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradtape._src.arrays import common_namespace
from gradtape._src.arrays.batched import Batched
from gradtape._src.arrays.dimensions import Sizes, UnknownDimensionError, evaluated, variables_in
from gradtape._src.arrays.symbolic import Graph, NeedsEagerError, Symbolic, current_graph, tracing, zeros
from gradtape._src.autodiff.rows import next_level
from gradtape._src.conversion import wrap
from gradtape._src.core import tape as stack
from gradtape._src.core.dispatch import tensor_namespace
from gradtape._src.core.fast.backward import traced_backward_pass
from gradtape._src.core.jvp import push
from gradtape._src.core.primitive import registry
from gradtape._src.core.sparse_cotangent import SparseCotangent
from gradtape._src.core.tape import active_recorders
from gradtape._src.graph.trace import Modes, Residual, Shape, Trace, as_tensor, tracked_shape
from gradtape._src.interrupts import contextmanager
from gradtape._src.tensor import Tensor, dimensions_shown, is_differentiable
from gradtape._src.variable import Variable, abstract_value

if TYPE_CHECKING:
    from gradtape._src.graph.recomputation.calls import Division
    from gradtape._src.graph.traced import Traced


_DEFERRED = "_gradtape_deferred"
"""The attribute of an error that is raised only when a gradient is computed."""


class Derivative:
    """The first program with residuals, and second programs: one for each set of cotangents that arrives, and one for
    each set of tangents.
    """

    _failure: Exception | None = None  # what tracing the backward pass raised
    _division: Division | None = None  # which residuals are computed again, with a memory limit

    def __init__(
        self,
        traced: Traced,
        wanted: tuple[int, ...],
        needs: Sequence[Shape | None],
        modes: Modes,
        limit: int | None = None,
    ) -> None:
        self.traced = traced
        uids = traced.inner_uids()
        self.wanted = tuple([i for i in wanted if uids[i]])  # a residual without a uid depends on no input
        self.reverse, self.forward = modes
        self.backward_programs: dict[Any, BackwardProgram] = {}
        self._forward_programs: dict[Any, ForwardProgram] = {}
        self.residuals: list[Residual] = []
        self.connected = self._of_changing_sizes()  # the inputs that some output depends on: others get None
        shapes = self._known_shapes()
        for uid, shape in zip(traced.inner_uids(), needs, strict=False):
            if shape is not None and not (traced.graph.polymorphic and uid in shapes):
                shapes[uid] = shape
        if self.reverse:
            self._try_to_add_residuals_of_backward(shapes)
        if self.forward:
            self._shapes = {uid: shape for uid, shape in shapes.items() if uid in traced.inner_uids()}
            self._add(ForwardProgram(traced, self.wanted, self._shapes, self._targets(self.residuals)).residuals)
        if limit is not None and self.backward_programs:
            self._divide(limit)
        self._positions = {r.key: i for i, r in enumerate(self.residuals)}
        self.program = traced.program(self.residuals)

    @property
    def plan(self) -> Any:
        """With a memory limit, what is computed again."""
        return None if self._division is None else self._division.plan

    def _divide(self, limit: int) -> None:
        """Compute residuals again in the second programs, so that the peak of both is within a limit."""
        from gradtape._src.graph.recomputation.calls import Division

        (second,) = self.backward_programs.values()
        self._division = division = Division(self.traced, second, self.residuals, limit)
        if not division.parts:
            return
        gone = frozenset().union(*[part.replaced for part in division.parts])
        self.residuals = [r for r in self.residuals if id(r.symbol) not in gone]
        division.apply(second)
        self._add(second.residuals)

    def _try_to_add_residuals_of_backward(self, shapes: dict[int, Shape]) -> None:
        """Add them. Within a trace, an error of a custom gradient is raised when a gradient is computed."""
        try:
            self._add_residuals_of_backward(shapes)
        except (NeedsEagerError, UnknownDimensionError):  # trace again, another way
            raise
        except Exception as error:
            may_raise = self.traced.trace.may_raise or getattr(error, _DEFERRED, False)
            if current_graph() is None or not may_raise:
                raise
            setattr(error, _DEFERRED, True)  # for the loop around this one
            self._failure, self.residuals = error, []

    def _add_residuals_of_backward(self, shapes: dict[int, Shape]) -> None:
        traced = self.traced
        seeds = [t for t in traced.outputs if is_differentiable(t.array)]
        # Derivatives of derivatives have cotangents of residuals, too. What they need lies on the same paths, and is
        # among the residuals already. The exceptions are ops with several outputs, whose rule may need more for another
        # output, and closures of custom gradients: for them, until nothing new turns up.
        program = BackwardProgram(traced, seeds, self.wanted, shapes, None, self.connected)
        self.connected = self.connected | program.reached
        self._keep(program, shapes)
        while self._add(program.residuals) and traced.trace.may_raise:
            program = BackwardProgram(traced, [*seeds, *self._targets(self.residuals, ())], self.wanted, shapes)
        self._add(self._saved_with_several_outputs())

    def _saved_with_several_outputs(self) -> list[Residual]:
        """What the ops save of which an output is a residual, beside others."""
        uids = {r.uid for r in self.residuals if r.uid}
        owners = _owners(self.traced)
        found = []
        for op, _, output, values, _, _ in self.traced.trace.records:
            if op.outputs and op.name in registry and not uids.isdisjoint(output):
                symbols = [v.array for v in values if v is not None and type(v.array) is Symbolic]
                own = [symbol for symbol in symbols if symbol.graph is self.traced.graph]
                found += [Residual(symbol, uid) for symbol in own for uid in owners.get(id(symbol), (0,))]
        return found

    def _of_changing_sizes(self) -> frozenset[int]:
        """The inputs of a loop's body whose sizes change: where no output depends on one it gets zeros, of a shape that
        only the body knows.
        """
        graph = self.traced.graph
        if graph.iteration is None or not graph.root.dynamic_sizes:
            return frozenset()
        sizes = {name for name, size in graph.root.dynamic_sizes.items() if size.graph is graph}
        shapes = [t.array.shape for t in self.traced.inputs]
        return frozenset([i for i in self.wanted if i < len(shapes) and not sizes.isdisjoint(variables_in(shapes[i]))])

    def _keep(self, program: BackwardProgram, shapes: dict[int, Shape]) -> None:
        """Run this one where all cotangents arrive, instead of tracing it once more."""
        traced = self.traced
        present = tuple([i for i, t in enumerate(traced.outputs) if is_differentiable(t.array)])
        uids = traced.inner_uids()
        if all(traced.outputs[i].uid for i in present) and all(uids[i] in shapes for i in self.wanted):
            key = (present, self.wanted, tuple([shapes[uids[i]] for i in self.wanted]), None, self.connected)
            self.backward_programs[key] = program

    def _add(self, residuals: Sequence[Residual]) -> bool:
        """Add those that are not there yet; whether there are any."""
        have = {r.key for r in self.residuals}
        missing = [r for r in residuals if r.key not in have]
        self.residuals.extend(missing)
        return bool(missing)

    def _targets(self, residuals: Sequence[Residual], outputs: Sequence[Tensor] | None = None) -> list[Tensor]:
        """The outputs, and residuals as tensors."""
        return [
            *(self.traced.outputs if outputs is None else outputs),
            *[residual_tensor(r) for r in residuals if r.uid],
        ]

    def _known_shapes(self) -> dict[int, Shape]:
        traced = self.traced
        shapes = {t.uid: tuple(t.array.shape) for t in traced.inputs if is_differentiable(t.array)}
        for uid, variable in traced.graph.variable_params.items():
            if is_differentiable(abstract_value(variable)):
                shapes[uid] = tuple(abstract_value(variable).shape)
        for uid in traced.captured:
            if uid not in shapes and (shape := tracked_shape(uid, active_recorders())) is not None:
                shapes[uid] = shape
        return shapes

    @cached_property
    def connected_by_residuals(self) -> frozenset[int]:
        """The inputs that an output or a residual depends on."""
        seeds = [t for t in self._targets(self.residuals) if is_differentiable(t.array)]
        with _after_the_first_program():
            return BackwardProgram(self.traced, seeds, self.wanted, self._known_shapes()).reached | self.connected

    @cached_property
    def is_linear_with_constants(self) -> bool:
        """Whether gradients depend on constants of the function, and on nothing else that it computes."""
        if any(r.uid and is_differentiable(r.symbol) for r in self.residuals):
            return False
        sources = frozenset([self.traced.inner_uids()[i] for i in self.wanted])
        records, _ = _reachable(self.traced, sources, {})
        saved = [values if type(values) is tuple else (values,) for _, _, _, values, _, _ in records]
        return any(
            isinstance(v, Tensor) and type(v.array) is np.ndarray and is_differentiable(v.array)
            for values in saved
            for v in values
        )

    def link(self, gradients: list[Any], uids: tuple[int, ...]) -> None:
        """Make gradients depend on the inputs, with a derivative of 0, where they depend on constants alone.

        TensorFlow's forward function returns all that its backward function takes, constants among it, and what is
        returned counts as a function of the inputs: a second derivative is zeros then, not None.
        """
        recorders = active_recorders()
        if not recorders or not self.is_linear_with_constants:
            return
        for i in self.wanted:
            shape = tracked_shape(uids[i], recorders) if i in self.connected else None
            if shape is None:
                continue
            for k, gradient in enumerate(gradients):
                if isinstance(gradient, Tensor):
                    source = Tensor()
                    source.array, source.uid = np.zeros(shape, gradient.array.dtype), uids[i]
                    zero = tensor_namespace.multiply_no_nan(source, 0)
                    gradients[k] = gradient + tensor_namespace.sum(zero, axis=tuple(range(len(shape))))

    def backward(
        self, g: list[Any], needs: Sequence[Shape | None], rows: int | None = None, nested: bool = False
    ) -> tuple[BackwardProgram, list[int]]:
        """The second program for the cotangents that are there (`rows` of them at a time), and which it takes.

        Where several tapes have recorded the call, or a persistent one, zeros go to what a residual depends on too: as
        in TensorFlow, whose forward function returns it then.
        """
        if self._failure is not None:
            raise self._failure
        traced = self.traced
        tensors = [*traced.outputs, *[residual_tensor(r) for r in self.residuals]]
        present = tuple(
            [i for i, x in enumerate(g) if x is not None and tensors[i].uid and is_differentiable(tensors[i].array)]
        )
        source_inputs = tuple([i for i in self.wanted if needs[i] is not None])
        shapes = tuple([shape for i in source_inputs if (shape := needs[i]) is not None])
        if traced.graph.polymorphic:  # not for the sizes of this call alone
            own = [tuple(t.array.shape) for t in traced.inputs]
            shapes = tuple([own[i] if i < len(own) else shape for i, shape in zip(source_inputs, shapes, strict=True)])
        connected = self.connected
        if nested and not connected.issuperset(source_inputs):
            connected = self.connected_by_residuals
        key = (present, source_inputs, shapes, rows, connected)
        found = self.backward_programs.get(key)
        if found is None:
            known = dict(zip([traced.inner_uids()[i] for i in source_inputs], shapes, strict=True))
            seeds = [tensors[i] for i in present]
            with _after_the_first_program():
                found = BackwardProgram(traced, seeds, source_inputs, known, rows, connected)
                if self._division is not None:
                    self._division.apply(found)
                self.backward_programs[key] = found
        return found, list(present)

    def gradients(
        self,
        g: list[Any],
        needs: Sequence[Shape | None],
        saved: Sequence[Any],
        rows: int | None = None,
        host: bool = False,
        sizes: Sizes | None = None,
        variable_args: Sequence[Variable] = (),
        nested: bool = False,
    ) -> list[Any]:
        """Run the second program: a gradient for each input that needs one; None where no output depends on it."""
        program, present = self.backward(g, needs, rows, nested)
        results = self._run(program, saved, [g[i] for i in present], host, sizes, variable_args)
        gradients: list[Any] = [None] * len(needs)
        for i, slot in zip(program.source_inputs, program.slots, strict=True):
            if slot is None:
                continue
            dense = results[slot.first]
            if slot.rows is None:
                gradients[i] = dense
            else:
                shape = slot.rows if sizes is None else evaluated(slot.rows, dict(sizes))
                rows_at = SparseCotangent(dense, results[slot.first + 1], shape)
                gradients[i] = rows_at.dense() if type(dense) is Batched else rows_at  # a Jacobian is dense
        return gradients

    def tangents(
        self,
        given: Sequence[Any],
        saved: Sequence[Any],
        residuals: Sequence[Residual] = (),
        rows: int | None = None,
        host: bool = False,
        sizes: Sizes | None = None,
        variable_args: Sequence[Variable] = (),
    ) -> list[Any]:
        """Run the second program of forward mode: the tangent of each output and of these residuals.

        None for an output that depends on no input, and for a residual where no tangent arrives.
        """
        present = tuple([i for i in self.wanted if given[i] is not None])
        key = (present, tuple([r.key for r in residuals]), rows)
        program = self._forward_programs.get(key)
        if program is None:
            with _after_the_first_program():
                program = ForwardProgram(self.traced, present, self._shapes, self._targets(residuals), rows)
            self._forward_programs[key] = program
        results = self._run(program, saved, [given[i] for i in present], host, sizes, variable_args)
        found = [None if place is None else results[place] for place in program.slots]
        count = len(self.traced.outputs)
        of_residuals = iter(found[count:])
        return [*found[:count], *[next(of_residuals) if r.uid else None for r in residuals]]

    def _run(
        self,
        second: BackwardProgram | ForwardProgram,
        saved: Sequence[Any],
        directions: Sequence[Any],
        host: bool,
        sizes: Sizes | None,
        variable_args: Sequence[Variable],
    ) -> Sequence[Any]:
        """The outputs of a second program, for these cotangents or tangents."""
        if not second.traced.outputs:
            return ()
        values = [*[saved[i] for i in self.positions(second.residuals)], *directions]
        if current_graph() is not None:
            return second.traced([as_tensor(v) for v in values], host, sizes, variable_args)
        call_program = common_namespace(values).traced_call
        try:
            results: Sequence[Any] = call_program(
                *values, traced=second.traced, host=host, sizes=sizes, variable_args=variable_args
            )
        except NeedsEagerError as error:  # of a derivative of the second program: the first one has run
            raise error.reason from None
        return results

    def check_second(self) -> None:
        """Trace the derivative of the second program, for nested tapes; an error means that the code runs eagerly."""
        for program in list(self.backward_programs.values()):
            traced = program.traced
            if not traced.derivatives:
                traced.derivative(tuple([i for i, t in enumerate(traced.inputs) if is_differentiable(t.array)]))

    def positions(self, residuals: Sequence[Residual]) -> list[int]:
        """Where these residuals are among those that the first program gave."""
        return [self._positions[r.key] for r in residuals]


@contextmanager
def _after_the_first_program() -> Iterator[None]:
    """Around the trace of a second program, when the first one has run: it is too late to run the code eagerly."""
    try:
        yield
    except NeedsEagerError as error:
        if current_graph() is not None:
            raise
        raise error.reason from None


def residual_tensor(residual: Residual) -> Tensor:
    """A residual as a tensor."""
    tensor = Tensor()
    tensor.array, tensor.uid = residual.symbol, residual.uid
    return tensor


class _Slot(NamedTuple):
    """Where a gradient is among the outputs of the second program; `rows` is the shape of a table whose rows it is."""

    first: int
    rows: Shape | None


class BackwardProgram:
    """The backward pass over the inner tape, traced: from cotangents of some tensors to gradients of some inputs.

    An input that no cotangent reaches gets zeros where it is `connected`, and no gradient elsewhere.
    """

    def __init__(
        self,
        traced: Traced,
        seeds: Sequence[Tensor],
        source_inputs: tuple[int, ...],
        shapes: dict[int, Shape],
        rows: int | None = None,
        connected: frozenset[int] = frozenset(),
    ) -> None:
        first = traced.graph
        graph = Graph(f"{first.name}_gradient", outer=first.outer, first=first)
        trace = Trace(graph)
        self.source_inputs = source_inputs
        uids = traced.inner_uids()
        sources = [uids[i] for i in source_inputs]
        lead = () if rows is None else (rows,)
        _take_sizes(graph, first)
        with tracing(graph), stack.use_recorders((trace,)):
            upstream, cotangents = _cotangents(trace, graph, seeds, rows)
            records, reachable = _reachable(traced, frozenset(sources), shapes)
            found = traced_backward_pass(records, reachable, cotangents, kept=frozenset(), release=False)
            outputs: list[Tensor] = []
            results = [found.get(uid) for uid in sources]
            self.reached = frozenset([i for i, c in zip(source_inputs, results, strict=True) if c is not None])
            if rows is not None:
                results = [_all_rows(c, rows, shapes[uid]) for uid, c in zip(sources, results, strict=True)]
            self.slots = [
                _laid_out(c, (*lead, *shapes[uid]), traced.dtype_of(uid), outputs)
                if i in self.reached or i in connected
                else None
                for i, uid, c in zip(source_inputs, sources, results, strict=True)
            ]
        self.first, self.upstream, self._outputs = traced, upstream, outputs
        self._graph, self._trace = graph, trace
        self.collect_residuals()

    def collect_residuals(self) -> None:
        """Find out what it takes from the first program."""
        self.residuals, inputs = _residuals(self.first, self._graph, self._outputs)
        self.traced = self.first.derived(self._graph, self._trace, [*inputs, *self.upstream], self._outputs)


def _take_sizes(graph: Graph, first: Graph) -> None:
    """Make inputs of the sizes that depend on values of the first graph: any rule may compute with them, also of the
    derivative of the second graph, which has its values from there.
    """
    for size in graph.root.dynamic_sizes.values():
        if first.reaches(size.graph) and not (first.outer is not None and first.outer.reaches(size.graph)):
            graph.own(size)


def _cotangents(
    trace: Trace, graph: Graph, seeds: Sequence[Tensor], rows: int | None
) -> tuple[list[Tensor], dict[int, Any]]:
    """Arguments for the cotangents of these tensors, and the cotangents by uid: a batch where there are rows."""
    level = next_level() if rows is not None else 0
    lead = () if rows is None else (rows,)
    upstream = []
    cotangents: dict[int, Any] = {}
    for seed in seeds:
        argument = wrap(graph.argument((*lead, *seed.array.shape), seed.array.dtype))
        trace.track(argument)
        upstream.append(argument)
        g: Any = argument if rows is None else Batched(argument, level)
        cotangents[seed.uid] = cotangents[seed.uid] + g if seed.uid in cotangents else g
    return upstream, cotangents


class ForwardProgram:
    """The forward pass over the inner tape, traced: from the tangents of some inputs to those of some tensors.

    The first of these are the outputs. One that no tangent reaches gets zeros where it depends on anything.
    """

    def __init__(
        self,
        traced: Traced,
        given: tuple[int, ...],
        shapes: dict[int, Shape],
        targets: Sequence[Tensor],
        rows: int | None = None,
    ) -> None:
        first = traced.graph
        graph = Graph(f"{first.name}_tangent", outer=first.outer, first=first)
        trace = Trace(graph)
        sources = [traced.inner_uids()[i] for i in given]
        level = next_level() if rows is not None else 0
        lead = () if rows is None else (rows,)
        _take_sizes(graph, first)
        with tracing(graph), stack.use_recorders((trace,)), dimensions_shown():
            directions = []
            tangents: dict[int, Any] = {}
            for uid in sources:
                t = wrap(graph.argument((*lead, *shapes[uid]), traced.dtype_of(uid)))
                trace.track(t)
                directions.append(t)
                tangents[uid] = t if rows is None else Batched(t, level)
            records, reachable = _reachable(traced, frozenset(sources), shapes)
            for step in records:  # through a compiled function custom gradients hold in both modes, as in TensorFlow
                push(step, tangents, reachable, traced=True, bodies=False)
            outputs: list[Tensor] = []
            self.slots: list[int | None] = []
            for i, target in enumerate(targets):
                found = tangents.get(target.uid)
                if found is None and not (i < len(traced.outputs) and traced.differentiable[i]):
                    self.slots.append(None)
                    continue
                shape = tuple(target.array.shape)
                if found is not None and rows is not None:
                    found = _all_rows(found, rows, shape)
                self.slots.append(len(outputs))
                outputs.append(wrap(zeros((*lead, *shape), target.array.dtype)) if found is None else as_tensor(found))
        self.residuals, inputs = _residuals(traced, graph, outputs)
        self.traced = traced.derived(graph, trace, [*inputs, *directions], outputs)


def _owners(traced: Traced) -> dict[int, dict[int, None]]:
    """The uids of the tensors that hold an array, by its id."""
    owners: dict[int, dict[int, None]] = {}
    for uid, array in traced.trace.arrays.items():
        owners.setdefault(id(array), {})[uid] = None
    for tensor in traced.inputs:
        owners.setdefault(id(tensor.array), {})[tensor.uid] = None
    for state in traced.graph.variables.values():
        owners.setdefault(id(state.read), {})[state.variable.uid] = None
    return owners


def _residuals(traced: Traced, graph: Graph, outputs: Sequence[Tensor]) -> tuple[list[Residual], list[Tensor]]:
    """What the second graph takes from the first one, and the same as its inputs."""
    owners = _owners(traced)
    residuals, inputs = [], []
    for feed in graph.feeds:
        if feed.kind == "array" and type(feed.value) is Symbolic and feed.value.graph is traced.graph:
            for uid in owners.get(id(feed.value), (0,)):
                residuals.append(Residual(feed.value, uid))
                inside = Tensor()
                inside.array, inside.uid = feed.symbol, uid
                inputs.append(inside)
    return residuals, inputs


def _all_rows(gradient: Any, rows: int, shape: Shape) -> Any:
    """A batch of gradients as one tensor with a row for each."""
    if gradient is None:
        return None
    if type(gradient) is SparseCotangent:
        gradient = gradient.dense()
    if type(gradient) is Batched:
        return gradient.rows()
    return tensor_namespace.broadcast_to(as_tensor(gradient), shape=(rows, *shape))


def _laid_out(gradient: Any, shape: Shape, dtype: Any, outputs: list[Tensor]) -> _Slot:
    """Put a gradient among the outputs: zeros where there is none."""
    first = len(outputs)
    if type(gradient) is SparseCotangent and any(v.least == 0 for v in variables_in(gradient.shape).values()):
        gradient = gradient.dense()  # outside of the program there is no number for its size
    if type(gradient) is SparseCotangent:
        outputs.extend((as_tensor(gradient.values), as_tensor(gradient.indices)))
        return _Slot(first, gradient.shape)
    outputs.append(wrap(zeros(shape, dtype)) if gradient is None else as_tensor(gradient))
    return _Slot(first, None)


def _reachable(traced: Traced, sources: frozenset[int], shapes: dict[int, Shape]) -> tuple[list[Any], dict[int, Shape]]:
    """The records of what depends on a source, and the shapes there: a backward pass has nothing to do elsewhere.

    Of integers only the places that an op gives beside its values have a shape here: `vjp_all` gets zeros for them.
    """
    reached = set(sources)
    tracked = traced.trace.tracked
    arrays = traced.trace.arrays
    records = []
    result = {uid: shape for uid, shape in shapes.items() if uid in reached}
    for record in traced.trace.records:
        if reached.isdisjoint(record[1]):
            continue
        records.append(record)
        several = type(record[2]) is tuple
        for uid in record[2] if several else (record[2],):
            if uid in arrays and is_differentiable(arrays[uid]):
                reached.add(uid)
                result[uid] = tracked[uid]
            elif several and uid in arrays:
                result[uid] = tracked[uid]
    return records, {uid: shape for uid, shape in result.items() if shape is not None}
