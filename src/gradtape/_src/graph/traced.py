"""A traced function: its graph, its tape, and how tapes outside record a call.

Tracing Python code writes two lists: the nodes of the graph, which a program runs, and the records of the inner tape,
over tensors whose arrays are symbolic. A call runs the forward program. An outer tape records it as one op, whose vjp
rule runs the backward program: the traced backward pass over the inner tape. Values of the forward program that the
backward program needs are the residuals. The backward program is a traced function as well, so it can be
differentiated again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import cached_property
from itertools import chain
from time import perf_counter
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src import errors, forks, processes
from gradtape._src.arrays.dimensions import Sizes, UnknownDimensionError, is_variable
from gradtape._src.arrays.symbolic import Graph, NeedsEagerError, Symbolic, call, current_graph, tracing
from gradtape._src.conversion import wrap
from gradtape._src.core.primitive import Op
from gradtape._src.core.tape import active_recorders, active_stack
from gradtape._src.devices import chosen, placement
from gradtape._src.graph.calls import ACROSS_PROCESSES, CALL, PART
from gradtape._src.graph.checks import NONE, Mode
from gradtape._src.graph.derivative import Derivative
from gradtape._src.graph.host_calls import effects
from gradtape._src.graph.program import Program, to_numpy
from gradtape._src.graph.trace import REVERSE, Modes, Residual, Shape, Trace, modes_of, record, tracked_shape
from gradtape._src.interrupts import is_interrupt
from gradtape._src.memory import LazyArray
from gradtape._src.tensor import LazyTensor, Tensor, is_differentiable
from gradtape._src.variable import Storage, Variable, bound, commit, is_local_to, notice_reading, store, updating


def _differentiable_inputs(op: Op, uids: Sequence[int]) -> Sequence[int]:
    """The inputs of a record that its op can be differentiated by."""
    if op.vjp_all is not None or len(op.rules) != len(uids):
        return uids
    return [uid for uid, rule in zip(uids, op.rules, strict=True) if rule is not None]


def _outputs_that_depend(attrs: dict[str, Any], count: int) -> list[bool]:
    """Which outputs of a record depend on its inputs: for a call of a traced function, those that depend on its own."""
    inside = [attrs["traced"]] if "traced" in attrs else [d.traced for d in attrs.get("derivatives", ())]
    if "derivative" in attrs:
        inside = [attrs["derivative"].traced]
    flags = [any(column) for column in zip(*[traced.differentiable for traced in inside], strict=True)]
    return [*flags, *[True] * (count - len(flags))] if inside and "carried" not in attrs else [True] * count


class Traced:
    """A function that has been traced: call it with tensors, get tensors.

    If it was traced with unknown dimensions, a call supplies their sizes: they are those of its arguments or, for a
    backward program, those of the forward call. A call within the same trace needs none. If there are variables among
    the arguments, a call passes them in `variable_args`.
    """

    def __init__(self, graph: Graph, trace: Trace, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        self.graph, self.trace = graph, trace
        self.inputs, self.outputs = list(inputs), list(outputs)
        self.symbols = [t.array for t in inputs]
        states = [s for s in graph.variables.values() if not is_local_to(s.variable, graph)]
        self.state = [s for s in states if s.assigned]
        self.variables = [s.variable for s in states]
        self._changing: list[Variable] = [s.variable for s in self.state]
        self._storages: list[Storage] = [v.storage for v in self._changing]
        before: Any = trace.tracked
        own = {t.uid for t in inputs}
        captured = {uid for record in trace.records for uid in record[1] if 0 < uid < before.before}
        captured.update(t.uid for t in outputs if 0 < t.uid < before.before)
        captured.update(v.uid for v in self.variables)
        self.captured = tuple(sorted(captured - own))  # uids from outside, which an outer tape may track
        # A variable of undeclared shape may get a value of another size, which does not fit into its old memory.
        self._donated = frozenset(s.variable.uid for s in self.state if s.reading.array.shape == s.read.shape)
        self.unknown: dict[str, tuple[int, int]] = {}  # the input and axis with the size of each unknown dimension
        if graph.polymorphic and graph.outer is None and graph.primal is None:
            for i, symbol in enumerate(self.symbols):
                self.unknown.update({str(n): (i, axis) for axis, n in enumerate(symbol.shape) if is_variable(n)})
        self.derivatives: dict[tuple[tuple[int, ...], Modes, int | None], Derivative] = {}
        self._building = forks.rlock()

    # -- calling -----------------------------------------------------------------------------------------------------
    def __call__(
        self, tensors: Sequence[Tensor], host: bool, sizes: Sizes | None = None, variable_args: Sequence[Variable] = ()
    ) -> list[Tensor]:
        """Run the program. With `host` results are NumPy arrays, otherwise they stay on the program's device.

        Within another trace, the program is inlined into that trace.
        """
        recorders = () if active_stack() is None else active_recorders()
        wanted: tuple[int, ...] = ()
        if self.unknown:
            sizes = tuple([(name, tensors[i].array.shape[axis]) for name, (i, axis) in self.unknown.items()])
        if current_graph() is not None:
            return self._called_within(tensors, sizes, variable_args)
        if recorders:
            for variable in [bound(v, variable_args) for v in self.variables] if variable_args else self.variables:
                notice_reading(variable)
            uids = self.outer_uids(tensors, variable_args)
            wanted = tuple([i for i, uid in enumerate(uids) if tracked_shape(uid, recorders) is not None])
        if not wanted or self._crosses_processes:
            in_parts = self.in_parts if host else None
            program = self.plain if in_parts is None else in_parts.program
            if sizes is not None:
                program = program.with_sizes(sizes)
            results = self._executed(program, [t.array for t in tensors], host, variable_args)
            found = list(map(wrap, results)) if in_parts is None else in_parts(results)
            if wanted:
                record(recorders, ACROSS_PROCESSES, uids, tuple(found), (), {})
            return found
        several = len(recorders) > 1
        higher = several or recorders[0].persistent  # as in TensorFlow, which then prepares for higher orders
        derivative = self._derivative_within(None if higher else recorders[0].budget, wanted, modes_of(recorders))
        if several and self.graph.needs_numpy:
            derivative.check_second_derivative()  # now, while the code can still run eagerly instead
        results = self.run(derivative.program, [t.array for t in tensors], host, sizes, variable_args)
        count = len(self.outputs)
        outputs = tuple([wrap(value) for value in results])
        attrs = {
            "derivative": derivative,
            "host": host,
            "sizes": sizes,
            "variable_args": variable_args,
            "keeps_residuals": several,
            "nested": uids if higher else (),
        }
        record(recorders, CALL, uids, outputs, outputs[count:], attrs)
        return list(outputs[:count])

    def _called_within(
        self, tensors: Sequence[Tensor], sizes: Sizes | None, variable_args: Sequence[Variable]
    ) -> list[Tensor]:
        """Inline the function into another trace. Its derivative is traced on demand, from the same inputs: that
        repeats computations of the same program, which XLA merges. If the function assigns variables, inputs will be
        different later, so the derivative is traced now.
        """
        self._refuse_across_processes("A function within a function")
        recorders = active_recorders()
        uids = self.outer_uids(tensors, variable_args)
        if self._changing and self.graph.outer is None:
            wanted = tuple([i for i, uid in enumerate(uids) if tracked_shape(uid, recorders) is not None])
            if wanted:
                derivative = self.derivative(wanted, modes=modes_of(recorders))
                return self.with_residuals(tensors, derivative, sizes, variable_args)[0]
        arrays = self.run(self.plain, [t.array for t in tensors], False, sizes, variable_args)
        outputs = tuple([wrap(value) for value in arrays])
        record(
            recorders,
            PART,
            uids,
            outputs,
            tuple(tensors),
            {"traced": self, "sizes": sizes, "variable_args": variable_args},
        )
        return list(outputs)

    def with_residuals(
        self,
        tensors: Sequence[Tensor],
        derivative: Derivative,
        sizes: Sizes | None = None,
        variable_args: Sequence[Variable] = (),
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Call the function within a trace, for a derivative that is computed immediately: results and residuals."""
        results = self.run(derivative.program, [t.array for t in tensors], False, sizes, variable_args)
        outputs = tuple([wrap(value) for value in results])
        count = len(self.outputs)
        attrs = {
            "derivative": derivative,
            "host": False,
            "sizes": sizes,
            "variable_args": variable_args,
            "keeps_residuals": True,
            "nested": (),
        }
        record(active_recorders(), CALL, self.outer_uids(tensors, variable_args), outputs, outputs[count:], attrs)
        return list(outputs[:count]), list(outputs[count:])

    @cached_property
    def in_parts(self) -> InParts | None:
        """The program that returns, instead of lazy results, the small arrays that they are made of; None if there are
        none.
        """
        if (
            self.graph.polymorphic
            or self.graph.replicas is not None
            or all(type(t.array) is not Symbolic or t.array.lazy is None for t in self.outputs)
        ):
            return None
        with self._building:  # it adds to the graph
            return InParts(self)

    def outer_uids(self, tensors: Sequence[Tensor], variable_args: Sequence[Variable]) -> tuple[int, ...]:
        """The outer uids of all inputs that an outer tape may track: arguments, then captured values."""
        captured: Sequence[int] = self.captured
        if variable_args:
            places = self.graph.variable_params
            captured = [variable_args[places[uid].number].uid if uid in places else uid for uid in captured]
        return (*[t.uid for t in tensors], *captured)

    @property
    def built(self) -> Program | None:
        """The program without residuals, if a call has needed it."""
        return vars(self).get("plain")

    @cached_property
    def plain(self) -> Program:
        """The program without residuals."""
        found = self.program([])
        found.may_divide = self.graph.replicas is not None
        return found

    def _derivative_within(self, budget: Any, wanted: tuple[int, ...], modes: Modes) -> Derivative:
        """The derivative for a tape, within its memory limit if sizes are known and one device runs the program."""
        if budget is None or self.graph.polymorphic or self.graph.needs_numpy or self.graph.replicas is not None:
            return self.derivative(wanted, modes=modes)
        found = self.derivative(wanted, modes=modes, limit=budget.limit_of_call())
        if found.plan is not None:
            budget.add_plan(found.plan)
        return found

    @property
    def _crosses_processes(self) -> bool:
        return self.graph.replicas is not None and self.graph.replicas.crosses_processes

    def check_divided(self) -> None:
        """Refuse to compile replicas of several processes that cannot be one program."""
        if not self._crosses_processes or (self.graph.polymorphic and not self.graph.root.dynamic_sizes):
            return
        if self.graph.root.dynamic_sizes or self.plain.over_replicas is None:
            raise NeedsEagerError(
                RuntimeError(
                    "The replicas of several processes cannot be compiled into one program: "
                    f"{self.plain.undivided}. Their reductions run when they are called."
                )
            )

    def _refuse_across_processes(self, what: str) -> None:
        if self._crosses_processes:
            raise NeedsEagerError(RuntimeError(f"{what} of replicas in several processes cannot be compiled."))

    def program(self, residuals: Sequence[Residual], results: Any = None) -> Program:
        """The program whose outputs are the results (or those given), the residuals, and new values of variables."""
        outputs = [t.array for t in self.outputs] if results is None else results
        kept = [r.symbol for r in residuals]
        state = [s.reading.array for s in self.state]
        return Program(self.graph, self.symbols, [*outputs, *kept, *state], self._donated, self._changing)

    def run(
        self,
        program: Program,
        arrays: Sequence[Any],
        host: bool,
        sizes: Sizes | None = None,
        variable_args: Sequence[Variable] = (),
    ) -> list[Any]:
        """Run a program and store the new values of variables; return results and residuals. A trace inlines it."""
        if sizes is not None:
            program = program.with_sizes(sizes)
        graph = current_graph()
        if graph is None:
            return self._executed(program, arrays, host, variable_args)
        if graph.root is not self.graph.root:
            graph.include(self.graph.root)
        inside = list(call("inline", tuple(program.operands(arrays, variable_args)), {"program": program}))
        for variable in reversed(self._changing):
            value = inside.pop()
            if self.graph.outer is None:  # `switch`, `scan` and `while_loop` have it among their results
                store(bound(variable, variable_args), value)
        return inside

    def _executed(
        self, program: Program, arrays: Sequence[Any], host: bool, variable_args: Sequence[Variable]
    ) -> list[Any]:
        """Results and residuals of an eager call, from the chosen or the faster executor."""
        changing = [bound(v, variable_args).storage for v in self._changing] if variable_args else self._storages
        on_numpy = program.is_on_numpy(host, variable_args)
        tier = program.tier
        began = 0.0
        results: Sequence[Any]
        if tier is not None and host and not tier.is_settled:  # time calls until the faster executor is known
            program.write_for_numpy()  # outside of the timed part
            began = perf_counter()
        try:
            if on_numpy and not changing:  # a check that fails raises
                results = program.run_on_numpy(program.arrays(arrays, variable_args, None, True))
            elif on_numpy:
                results = self._launched(program, arrays, variable_args, changing, NONE, on_numpy)
            else:
                results = self._placed(program, arrays, host, variable_args, changing)
        except (RuntimeError, ValueError) as error:  # JAX has both
            kind, _, sentence = str(error).partition(": ")
            if kind != "RESOURCE_EXHAUSTED":
                raise
            raise errors.ResourceExhaustedError(None, None, f"{sentence} Variables are unchanged.") from error
        if began:
            tier.add(on_numpy, perf_counter() - began)  # type: ignore[union-attr]
        found = results if type(results) is list else list(results)
        if host:
            for i in range(len(self.outputs)):
                if type(found[i]) is not ndarray:
                    found[i] = to_numpy(found[i])
        return found

    def _placed(
        self,
        program: Program,
        arrays: Sequence[Any],
        host: bool,
        variable_args: Sequence[Variable],
        changing: Sequence[Storage],
    ) -> Sequence[Any]:
        """Run a program with XLA: on the devices of all replicas, on the chosen device, or on that of the arrays."""
        if self.graph.replicas is not None:
            if (over_replicas := program.over_replicas) is not None:
                return over_replicas.run(
                    arrays, variable_args, changing, program.modes[over_replicas.on_processor], host
                )
            self._refuse_across_processes(f"A program ({program.undivided})")
        if processes.have_peers() and processes.is_of_several(chain(arrays, [s.newest() for s in changing])):
            return self._launched_with_others(program, arrays, variable_args, changing)
        processor = program.xla.default_is_processor
        if host and not processor:
            with program.xla.on_processor():
                return self._launched(program, arrays, variable_args, changing, program.modes[True], False)
        target = chosen() if placement.places else None
        if target is not None:
            with program.xla.on_device(target):
                return self._launched(program, arrays, variable_args, changing, program.modes[processor], False)
        return self._launched(program, arrays, variable_args, changing, program.modes[processor], False)

    def _launched_with_others(
        self, program: Program, arrays: Sequence[Any], variable_args: Sequence[Variable], changing: Sequence[Storage]
    ) -> Sequence[Any]:
        """Like `_launched`, for a program that all processes run. If a process fails, no variable changes."""
        mode = program.modes[program.xla.default_is_processor]
        with updating():
            for i in program.unread:
                changing[i].committed()
            given = program.arrays(arrays, variable_args)
            with effects() if program.has_effects else nullcontext():
                found = list(program.xla.run_with_others(given, mode))
            number = int(np.asarray(found.pop())) if mode else 0
            if number:
                raise program.xla.failure(number, given)
            commit(changing, program.new_values(found, len(changing)))
        return found[: len(program.outputs) - len(changing)]

    def _launched(
        self,
        program: Program,
        arrays: Sequence[Any],
        variable_args: Sequence[Variable],
        changing: Sequence[Storage],
        mode: Mode,
        on_numpy: bool,
    ) -> Sequence[Any]:
        """Run a program and store the new values of all variables, or of none; return the other outputs."""
        calls_back = program.has_effects and not on_numpy  # with NumPy callbacks run on this thread, and can raise
        if not changing:
            if calls_back:
                with effects():
                    given = program.arrays(arrays, variable_args)
                    found = program.xla(given, mode)
            else:
                given = program.arrays(arrays, variable_args, None, on_numpy)
                found = program.run_on_numpy(given) if on_numpy else program.xla(given, mode)
            if not mode:
                return found
            number = np.asarray(found[-1])
            if number:
                raise program.xla.failure(int(number), given)
            return found[:-1]
        end = len(program.outputs)
        first = end - len(changing)
        launched: list[Any] = []
        with updating():  # two threads that update a variable must not lose an update
            at_once = bool(program.donated) or not (program.has_effects or mode)
            stored = changing if at_once else ()
            for i in program.unread:  # another program may hold their values, uncommitted
                changing[i].committed()
            if calls_back:
                with effects():
                    given = program.launch(arrays, variable_args, stored, launched, mode, on_numpy)
            else:
                given = program.launch(arrays, variable_args, stored, launched, mode, on_numpy)
            failed = np.asarray(launched[end]) if mode else None
            if failed:  # the program has then returned the old values of variables whose memory was donated
                for position, slot in program.restored:
                    given[slot] = launched[position]
                raise program.xla.failure(int(failed), given)
            if not at_once:
                commit(changing, program.new_values(launched, len(changing)))
        del launched[first:]
        return launched

    def derived(self, graph: Graph, trace: Trace, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Traced:
        """A traced function of another graph that takes values of this one: a derivative."""
        return Traced(graph, trace, inputs, outputs)

    # -- derivatives -------------------------------------------------------------------------------------------------
    def derivative(
        self,
        wanted: tuple[int, ...],
        needs: Sequence[Shape | None] = (),
        modes: Modes = REVERSE,
        limit: int | None = None,
    ) -> Derivative:
        """The derivative with respect to some inputs, given by their positions: arguments, then captured values.

        `needs` are the shapes of inputs that the caller knows. With a `limit` in bytes, residuals are recomputed so
        that peak memory stays below it.
        """
        key = (wanted, modes, limit)
        found = self.derivatives.get(key)
        if found is None:
            self._refuse_across_processes("The derivative of a function")
            with self._building:
                found = self.derivatives.get(key)
                if found is None:
                    try:
                        found = self.derivatives[key] = Derivative(self, wanted, needs, modes, limit)
                    except (Exception, NeedsEagerError) as error:
                        if self.graph.needs_numpy and isinstance(error, Exception) and not is_interrupt(error):
                            raise NeedsEagerError(error) from error
                        if self.unknown and (isinstance(error, NeedsEagerError) or not is_interrupt(error)):
                            raise UnknownDimensionError(str(error)) from error
                        raise
        return found

    @cached_property
    def differentiable(self) -> list[bool]:
        """Which outputs depend on an argument or a captured value through differentiable ops."""
        lookup = self.graph.lookup
        reached = {uid for uid in self.inner_uids() if (value := lookup(uid)) is None or is_differentiable(value)}
        for op, uids, output, _, attrs, _ in self.trace.records:
            if op.differentiable and not reached.isdisjoint(_differentiable_inputs(op, uids)):
                outputs = output if type(output) is tuple else (output,)
                depend = _outputs_that_depend(attrs, len(outputs))
                pairs = zip(outputs, depend, strict=True)
                reached.update([uid for uid, flag in pairs if flag and is_differentiable(lookup(uid))])
        return [t.uid in reached for t in self.outputs]

    def inner_uids(self) -> list[int]:
        """The uids within the trace of all inputs that an outer tape may track, in the order of the call's record."""
        return [*[t.uid for t in self.inputs], *self.captured]

    def dtype_of(self, uid: int) -> Any:
        """The dtype of an input, by its uid inside the trace."""
        for tensor in self.inputs:
            if tensor.uid == uid:
                return tensor.array.dtype
        found = self.graph.lookup(uid)
        if found is not None:
            return found.dtype
        for entry in self.trace.records:  # a tensor from outside: assume the dtype of the result of an op that uses it
            if uid in entry[1]:
                return entry[5][0] if type(entry[5]) is tuple else entry[5]
        return np.dtype(np.float32)


class InParts:
    """A program for functions with lazy results: it returns the small arrays that these are made of, as one flat array
    for each result.
    """

    def __init__(self, traced: Traced) -> None:
        self._lazy: list[tuple[LazyArray, list[Any]] | None] = []  # with its arrays, or their slices of the flat one
        results: list[Any] = []
        with tracing(traced.graph):
            for tensor in traced.outputs:
                lazy = tensor.array.lazy if type(tensor.array) is Symbolic else None
                if lazy is None:
                    self._lazy.append(None)
                    results.append(tensor.array)
                    continue
                flat, places, start = [], [], 0
                for array in lazy.arrays:
                    if type(array) is Symbolic:
                        flat.append(call("reshape", (array,), {"shape": (array.size,)}))
                        places.append((slice(start, start + array.size), array.shape))
                        start += array.size
                    else:
                        places.append(array)
                self._lazy.append((lazy, places))
                results.append(call("concatenate", tuple(flat), {"axis": 0}) if len(flat) > 1 else flat[0])
        self.program = traced.program([], results=results)

    def __call__(self, results: Sequence[Any]) -> list[Tensor]:
        """The results as tensors; lazy ones are computed when they are read."""
        tensors = []
        for value, found in zip(results, self._lazy, strict=False):
            if found is None:
                tensors.append(wrap(value))
            else:
                lazy, places = found
                arrays = tuple([value[p[0]].reshape(p[1]) if type(p) is tuple else p for p in places])
                tensors.append(LazyTensor.of(LazyArray(lazy.shape, lazy.dtype, arrays, lazy.make)))
        return tensors
