"""Derivatives of traced functions: a forward program that also returns residuals, and programs that use them.

A backward program is the backward pass over the inner tape, traced as well; a tangent program is the same for forward
mode. The values of the function's graph that they use are the residuals: extra outputs of the forward program.
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
    """The forward program of a function, which returns residuals, and its backward and tangent programs.

    There is a backward program for each set of outputs that have a cotangent, and a tangent program for each set of
    inputs that have a tangent.
    """

    _failure: Exception | None = None  # the error that was raised when the backward pass was traced
    _division: Division | None = None  # which residuals are recomputed, with a memory limit

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
        self._tangent_programs: dict[Any, TangentProgram] = {}
        self.residuals: list[Residual] = []
        self.connected = self._inputs_of_changing_size()  # inputs that some output depends on: others get None
        shapes = self._known_shapes()
        for uid, shape in zip(traced.inner_uids(), needs, strict=False):
            if shape is not None and not (traced.graph.polymorphic and uid in shapes):
                shapes[uid] = shape
        self._shapes = {uid: shape for uid, shape in shapes.items() if uid in uids}
        if self.reverse:
            self._try_to_add_residuals_of_backward(shapes)
        if self.forward:
            self._add(TangentProgram(traced, self.wanted, self._shapes, self._targets(self.residuals)).residuals)
        if limit is not None and self.backward_programs:
            self._divide(limit)
        self._positions = {r.key: i for i, r in enumerate(self.residuals)}
        self.program = traced.program(self.residuals)

    @property
    def plan(self) -> Any:
        """With a memory limit: the plan of what is recomputed."""
        return None if self._division is None else self._division.plan

    def _divide(self, limit: int) -> None:
        """Recompute residuals in the backward programs, so that the peak memory of both is within a limit."""
        from gradtape._src.graph.recomputation.calls import Division

        (program,) = self.backward_programs.values()
        self._division = division = Division(self.traced, program, self.residuals, limit)
        if not (division.parts or division.plan.rows):
            return
        gone: frozenset[int] = frozenset().union(*[part.replaced for part in division.parts])
        self.residuals = [r for r in self.residuals if id(r.symbol) not in gone]
        division.apply(program)
        self._add(program.residuals)
        if division.parts and (tier := program.traced.plain.tier) is not None:
            tier.stay_on_numpy("on the processor XLA computes values again before they are needed")

    def _try_to_add_residuals_of_backward(self, shapes: dict[int, Shape]) -> None:
        """Add the residuals of the backward pass. Within a trace, an error of a custom gradient is deferred until a
        gradient is computed.
        """
        try:
            self._add_residuals_of_backward(shapes)
        except (NeedsEagerError, UnknownDimensionError):  # the caller traces again or runs eagerly
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
        # In higher-order derivatives residuals have cotangents, too. The values that these need lie on the same paths
        # and are residuals already, except with ops of several outputs, whose rule may need other values for another
        # output, and with closures of custom gradients: for them, repeat until there are no new residuals.
        program = BackwardProgram(traced, seeds, self.wanted, shapes, None, self.connected)
        self.connected = self.connected | program.reached
        self._cache(program, shapes)
        while self._add(program.residuals) and traced.trace.may_raise:
            program = BackwardProgram(traced, [*seeds, *self._targets(self.residuals, ())], self.wanted, shapes)
        self._add(self._saved_by_ops_of_residuals())

    def _saved_by_ops_of_residuals(self) -> list[Residual]:
        """The saved values of those ops with several outputs of which one is a residual."""
        uids = {r.uid for r in self.residuals if r.uid}
        owners = _owners(self.traced)
        found = []
        for op, _, output, values, _, _ in self.traced.trace.records:
            if op.outputs and op.name in registry and not uids.isdisjoint(output):
                symbols = [v.array for v in values if v is not None and type(v.array) is Symbolic]
                own = [symbol for symbol in symbols if symbol.graph is self.traced.graph]
                found += [Residual(symbol, uid) for symbol in own for uid in owners.get(id(symbol), (0,))]
        return found

    def _inputs_of_changing_size(self) -> frozenset[int]:
        """The inputs of a loop's body whose sizes change between iterations.

        They always get a gradient: if it is zeros, only the body knows their shape.
        """
        graph = self.traced.graph
        if graph.iteration is None or not graph.root.dynamic_sizes:
            return frozenset()
        sizes = {name for name, size in graph.root.dynamic_sizes.items() if size.graph is graph}
        shapes = [t.array.shape for t in self.traced.inputs]
        return frozenset([i for i in self.wanted if i < len(shapes) and not sizes.isdisjoint(variables_in(shapes[i]))])

    def _cache(self, program: BackwardProgram, shapes: dict[int, Shape]) -> None:
        """Keep a program for calls in which every output has a cotangent, so that it is not traced again."""
        traced = self.traced
        present = tuple([i for i, t in enumerate(traced.outputs) if is_differentiable(t.array)])
        uids = traced.inner_uids()
        if all(traced.outputs[i].uid for i in present) and all(uids[i] in shapes for i in self.wanted):
            key = (present, self.wanted, tuple([shapes[uids[i]] for i in self.wanted]), None, self.connected)
            self.backward_programs[key] = program

    def _add(self, residuals: Sequence[Residual]) -> bool:
        """Add the residuals that are missing; return whether there were any."""
        have = {r.key for r in self.residuals}
        missing = [r for r in residuals if r.key not in have]
        self.residuals.extend(missing)
        return bool(missing)

    def _targets(self, residuals: Sequence[Residual], outputs: Sequence[Tensor] | None = None) -> list[Tensor]:
        """The outputs, followed by the residuals as tensors."""
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
        with _after_forward_program():  # the tapes that know the shapes of captured values may be closed by now
            return BackwardProgram(self.traced, seeds, self.wanted, self._shapes).reached | self.connected

    @cached_property
    def is_linear_with_constants(self) -> bool:
        """Whether the function is linear in its inputs, with constants of the trace as coefficients."""
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
        """Connect gradients that depend on constants alone to the inputs, with a derivative of 0.

        TensorFlow's forward function returns every value that its backward function takes, constants included, and
        its outputs count as functions of the inputs: so the second derivative is zeros, not None.
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
        """The backward program for the cotangents in `g` that are not None (batches of `rows`), and their positions.

        If several tapes have recorded the call, or a persistent one (`nested`), inputs that only a residual depends on
        get zeros, as in TensorFlow, whose forward function then returns the residuals.
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
        if traced.graph.polymorphic:  # the program is for all sizes, not for those of this call
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
            with _after_forward_program():
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
        """Run the backward program: a gradient for each input that needs one, None if no output depends on it."""
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
        """Run the tangent program: the tangent of each output and of these residuals.

        It is None for an output that depends on no input, and for a residual that no tangent reaches.
        """
        present = tuple([i for i in self.wanted if given[i] is not None])
        key = (present, tuple([r.key for r in residuals]), rows)
        program = self._tangent_programs.get(key)
        if program is None:
            with _after_forward_program():
                program = TangentProgram(self.traced, present, self._shapes, self._targets(residuals), rows)
            self._tangent_programs[key] = program
        results = self._run(program, saved, [given[i] for i in present], host, sizes, variable_args)
        found = [None if place is None else results[place] for place in program.slots]
        count = len(self.traced.outputs)
        of_residuals = iter(found[count:])
        return [*found[:count], *[next(of_residuals) if r.uid else None for r in residuals]]

    def _run(
        self,
        program: BackwardProgram | TangentProgram,
        saved: Sequence[Any],
        directions: Sequence[Any],
        host: bool,
        sizes: Sizes | None,
        variable_args: Sequence[Variable],
    ) -> Sequence[Any]:
        """The outputs of a backward or tangent program for these cotangents or tangents."""
        if not program.traced.outputs:
            return ()
        values = [*[saved[i] for i in self.positions(program.residuals)], *directions]
        if current_graph() is not None:
            return program.traced([as_tensor(v) for v in values], host, sizes, variable_args)
        call_program = common_namespace(values).traced_call
        try:
            results: Sequence[Any] = call_program(
                *values, traced=program.traced, host=host, sizes=sizes, variable_args=variable_args
            )
        except NeedsEagerError as error:  # of the program's own derivative: the forward program has already run
            raise error.reason from None
        return results

    def check_second_derivative(self) -> None:
        """Trace the derivatives of the backward programs, for nested tapes; raises if the code must run eagerly."""
        for program in list(self.backward_programs.values()):
            traced = program.traced
            if not traced.derivatives:
                traced.derivative(tuple([i for i, t in enumerate(traced.inputs) if is_differentiable(t.array)]))

    def positions(self, residuals: Sequence[Residual]) -> list[int]:
        """The positions of these residuals among those that the forward program returns."""
        return [self._positions[r.key] for r in residuals]


@contextmanager
def _after_forward_program() -> Iterator[None]:
    """Context for tracing after the forward program has run, when it is too late to run the code eagerly."""
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
    """The position of a gradient in the outputs of a backward program.

    A sparse gradient takes two outputs, values and indices; `rows` is the dense shape then.
    """

    first: int
    rows: Shape | None


class BackwardProgram:
    """The traced backward pass over the inner tape: from cotangents of some tensors to gradients of some inputs.

    An input that no cotangent reaches gets zeros if it is `connected`, otherwise None.
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
        primal = traced.graph
        graph = Graph(f"{primal.name}_gradient", outer=primal.outer, primal=primal)
        trace = Trace(graph)
        self.source_inputs = source_inputs
        uids = traced.inner_uids()
        sources = [uids[i] for i in source_inputs]
        lead = () if rows is None else (rows,)
        _take_sizes(graph, primal)
        with tracing(graph), stack.use_recorders((trace,)):
            upstream, cotangents = _cotangents(trace, graph, seeds, rows)
            records, reachable = _reachable(traced, frozenset(sources), shapes)
            found = traced_backward_pass(records, reachable, cotangents, kept=frozenset(), release=False)
            outputs: list[Tensor] = []
            results = [found.get(uid) for uid in sources]
            self.reached = _reached(source_inputs, results)
            if rows is not None:
                results = [_all_rows(c, rows, shapes[uid]) for uid, c in zip(sources, results, strict=True)]
            self.slots = [
                _add_output(c, (*lead, *shapes[uid]), traced.dtype_of(uid), outputs)
                if i in self.reached or i in connected
                else None
                for i, uid, c in zip(source_inputs, sources, results, strict=True)
            ]
        self.primal, self.upstream, self._outputs = traced, upstream, outputs
        self._graph, self._trace = graph, trace
        self.collect_residuals()

    def collect_residuals(self) -> None:
        """Find the values of the primal graph that it uses, and make them its first inputs."""
        self.residuals, inputs = _residuals(self.primal, self._graph, self._outputs)
        self.traced = self.primal.derived(self._graph, self._trace, [*inputs, *self.upstream], self._outputs)


def _take_sizes(graph: Graph, primal: Graph) -> None:
    """Make the sizes that depend on values of the primal graph inputs of its derivative's graph: any rule may use them,
    also in derivatives of that graph.
    """
    for size in graph.root.dynamic_sizes.values():
        if primal.reaches(size.graph) and not (primal.outer is not None and primal.outer.reaches(size.graph)):
            graph.own(size)


def _cotangents(
    trace: Trace, graph: Graph, seeds: Sequence[Tensor], rows: int | None
) -> tuple[list[Tensor], dict[int, Any]]:
    """Graph arguments for the cotangents of these tensors, and the cotangents by uid, as batches if `rows` is given."""
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


class TangentProgram:
    """The traced forward-mode pass over the inner tape: from tangents of some inputs to tangents of `targets`.

    The targets begin with the function's outputs. A differentiable output that no tangent reaches gets zeros.
    """

    def __init__(
        self,
        traced: Traced,
        given: tuple[int, ...],
        shapes: dict[int, Shape],
        targets: Sequence[Tensor],
        rows: int | None = None,
    ) -> None:
        primal = traced.graph
        graph = Graph(f"{primal.name}_tangent", outer=primal.outer, primal=primal)
        trace = Trace(graph)
        sources = [traced.inner_uids()[i] for i in given]
        level = next_level() if rows is not None else 0
        lead = () if rows is None else (rows,)
        _take_sizes(graph, primal)
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
    """By the id of each array, the uids of the tensors that hold it."""
    owners: dict[int, dict[int, None]] = {}
    for uid, array in traced.trace.arrays.items():
        owners.setdefault(id(array), {})[uid] = None
    for tensor in traced.inputs:
        owners.setdefault(id(tensor.array), {})[tensor.uid] = None
    for state in traced.graph.variables.values():
        owners.setdefault(id(state.read), {})[state.variable.uid] = None
    return owners


def _residuals(traced: Traced, graph: Graph, outputs: Sequence[Tensor]) -> tuple[list[Residual], list[Tensor]]:
    """The residuals: the values of a function's graph that its derivative's graph captured. Also as input tensors."""
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


def _reached(source_inputs: tuple[int, ...], cotangents: Sequence[Any]) -> frozenset[int]:
    """The inputs that have a cotangent."""
    return frozenset([i for i, c in zip(source_inputs, cotangents, strict=True) if c is not None])


def _all_rows(gradient: Any, rows: int, shape: Shape) -> Any:
    """A batch of gradients as one tensor with a leading axis of `rows`."""
    if gradient is None:
        return None
    if type(gradient) is SparseCotangent:
        gradient = gradient.dense()
    if type(gradient) is Batched:
        return gradient.rows()
    return tensor_namespace.broadcast_to(as_tensor(gradient), shape=(rows, *shape))


def _add_output(gradient: Any, shape: Shape, dtype: Any, outputs: list[Tensor]) -> _Slot:
    """Append a gradient to the outputs, zeros for None."""
    first = len(outputs)
    if type(gradient) is SparseCotangent and any(v.least == 0 for v in variables_in(gradient.shape).values()):
        gradient = gradient.dense()  # its size is not known outside of the program
    if type(gradient) is SparseCotangent:
        outputs.extend((as_tensor(gradient.values), as_tensor(gradient.indices)))
        return _Slot(first, gradient.shape)
    outputs.append(wrap(zeros(shape, dtype)) if gradient is None else as_tensor(gradient))
    return _Slot(first, None)


def _reachable(traced: Traced, sources: frozenset[int], shapes: dict[int, Shape]) -> tuple[list[Any], dict[int, Shape]]:
    """The records whose outputs depend on a source, and the shapes of these outputs by uid.

    An integer output is included only if its op has several outputs: `vjp_all` gets zeros as its cotangent.
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
