"""A traced function: its graph, its tape, and what tapes outside see of a call.

While Python code is traced two lists are written. The graph holds what the program computes; the tape holds the same
computation as records, over tensors whose arrays are symbolic. A call runs the program. For a tape outside it is one
record, whose rule is a second program: the sweep over the inner tape, traced in its turn. Values of the first graph
that the second one uses are the residuals: further outputs of the first program, inputs of the second. The second
program is a traced function like the first, so that every order of derivative is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from gradtape._src import errors, forks
from gradtape._src.arrays import common_namespace
from gradtape._src.arrays.batched import Batched, EscapeError
from gradtape._src.arrays.dimensions import Sizes, UnknownDimensionError, evaluated, is_dimension
from gradtape._src.arrays.symbolic import Graph, NeedsEagerError, Symbolic, call, current_graph, tracing, zeros
from gradtape._src.autodiff.rows import next_level
from gradtape._src.conversion import wrap
from gradtape._src.core import dispatch, tape as stack
from gradtape._src.core.dispatch import tensor_namespace
from gradtape._src.core.fast.backward import traced_backward_pass
from gradtape._src.core.jvp import push
from gradtape._src.core.primitive import Op, program_op
from gradtape._src.core.sparse_cotangent import SparseCotangent
from gradtape._src.core.tape import Record, Recorder, active_recorders, active_stack
from gradtape._src.graph import rewrites as recognise
from gradtape._src.graph.checks import NONE, Mode, failure
from gradtape._src.graph.host_calls import effects
from gradtape._src.graph.program import Program, bound, default_is_processor, on_processor, to_numpy
from gradtape._src.interrupts import contextmanager, is_interrupt
from gradtape._src.memory import LazyArray
from gradtape._src.tensor import LazyTensor, Tensor, dimensions_shown, is_differentiable, next_uid
from gradtape._src.variable import Storage, Variable, commit, updating

Shape = tuple[int, ...]

for _name in ("einsum", "matmul"):
    dispatch.register_rewrite(_name, recognise.instead)


class _Followed(dict[int, Any]):
    """What a trace follows: all that it computes, and every value from before it, which a tape outside may watch."""

    def __init__(self, before: int, everything: bool = False) -> None:
        super().__init__()
        self.before = before
        self._last = 2**63 if everything else before

    def __contains__(self, uid: object) -> bool:
        return dict.__contains__(self, uid) or 0 < uid < self._last  # type: ignore[operator]

    def __missing__(self, uid: int) -> None:
        return None  # a value from before: its shape is known to whoever asks for its gradient


class Trace(Recorder):
    """The tape of a traced function: every op on anything that could be differentiated."""

    __slots__ = ("arrays",)

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.tracked = _Followed(next_uid(), graph.follows_constants)
        self.arrays = graph.arrays
        records = self.records

        def append(record: Any) -> bool:
            records.append(Record.of(record))
            return True  # on_op follows

        self.append = append

    def on_op(self, record: Any, inputs: Sequence[Any], outputs: Any) -> None:
        for tensor in outputs if type(outputs) is tuple else (outputs,):
            self.follow(tensor)

    def follow(self, tensor: Tensor) -> None:
        """Follow a tensor: an argument, or what an op gave."""
        self.tracked[tensor.uid] = tuple(tensor.array.shape)
        self.arrays[tensor.uid] = tensor.array

    def on_read(self, variable: Any) -> None:
        if variable.trainable and is_differentiable(variable.abstract_value()):  # it was created while tracing
            self.tracked[variable.uid] = tuple(variable.abstract_value().shape)


def shape_followed(uid: int, recorders: Sequence[Recorder]) -> Shape | None:
    """The shape of a tensor that somebody follows and that can have a derivative."""
    graph = current_graph()
    for recorder in recorders:
        if uid in recorder.tracked:
            found = None if graph is None else graph.behind(uid)
            if found is not None:
                return tuple(found.shape) if is_differentiable(found) else None
            shape: Shape | None = recorder.tracked[uid]  # None: see _Followed
            return shape if shape is not None or graph is None else graph.shape_outside(uid)
    return None


class _Residual(NamedTuple):
    """A value of the first program that the second one needs, and the tensor it belongs to (0: none that is known)."""

    symbol: Symbolic
    uid: int

    @property
    def key(self) -> tuple[int, int]:
        return id(self.symbol), self.uid


Modes = tuple[bool, bool]
"""Whether a derivative is for reverse mode, and whether for forward mode."""

REVERSE: Modes = (True, False)


def modes_of(recorders: Sequence[Recorder]) -> Modes:
    """What recorders need of a call: tapes go back over it, accumulators push tangents through it at once."""
    forward = [recorder.pushes for recorder in recorders]
    return not all(forward), any(forward)


def _differentiable_inputs(op: Op, uids: Sequence[int]) -> Sequence[int]:
    """The inputs of a record that its op has a derivative for."""
    if op.vjp_all is not None or len(op.rules) != len(uids):
        return uids
    return [uid for uid, rule in zip(uids, op.rules, strict=True) if rule is not None]


def _outputs_that_depend(attrs: dict[str, Any], count: int) -> list[bool]:
    """Which outputs of a record depend on its inputs: of a program within, those that do there."""
    inside = [attrs["traced"]] if "traced" in attrs else [d.traced for d in attrs.get("derivatives", ())]
    if "derivative" in attrs:
        inside = [attrs["derivative"].traced]
    flags = [any(column) for column in zip(*[traced.differentiable for traced in inside], strict=True)]
    return [*flags, *[True] * (count - len(flags))] if inside and "carried" not in attrs else [True] * count


class _Slot(NamedTuple):
    """Where a gradient is among the outputs of the second program; `rows` is the shape of a table whose rows it is."""

    first: int
    rows: Shape | None


class Traced:
    """A function that has been traced: call it with tensors, get tensors.

    Where it was traced for unknown dimensions a call says their sizes: its arguments do, or, for a second program,
    the call that it is the derivative of. Within the trace that they belong to there are none to say. The same holds
    for variables among the arguments: a call says in `passed` which they are, by number.
    """

    def __init__(self, graph: Graph, trace: Trace, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        self.graph, self.trace = graph, trace
        self.inputs, self.outputs = list(inputs), list(outputs)
        self.symbols = [t.array for t in inputs]
        states = [s for s in graph.variables.values() if not s.variable.is_local_to(graph)]
        self.state = [s for s in states if s.assigned]
        self.variables = [s.variable for s in states]
        self._changing: list[Variable] = [s.variable for s in self.state]
        self._storages: list[Storage] = [v.storage for v in self._changing]
        before: Any = trace.tracked
        own = {t.uid for t in inputs}
        captured = {uid for record in trace.records for uid in record[1] if 0 < uid < before.before}
        captured.update(t.uid for t in outputs if 0 < t.uid < before.before)
        captured.update(v.uid for v in self.variables)
        self.captured = tuple(sorted(captured - own))  # uids from outside that a tape there may follow
        # Memory is used again for a value of the same size: where the shape is not declared it may be another.
        self._donated = frozenset(s.variable.uid for s in self.state if s.reading.array.shape == s.read.shape)
        self.unknown: dict[str, tuple[int, int]] = {}  # where the sizes of unknown dimensions are read: input and axis
        if graph.open and graph.outer is None and graph.first is None:
            for i, symbol in enumerate(self.symbols):
                self.unknown.update({str(n): (i, axis) for axis, n in enumerate(symbol.shape) if is_dimension(n)})
        self._plain: Program | None = None
        self._derivatives: dict[tuple[tuple[int, ...], Modes], Derivative] = {}
        self._building = forks.rlock()

    # -- calling -----------------------------------------------------------------------------------------------------
    def __call__(
        self, tensors: Sequence[Tensor], host: bool, sizes: Sizes | None = None, passed: Sequence[Variable] = ()
    ) -> list[Tensor]:
        """Run the program. `host`: results are NumPy arrays, otherwise they stay where the program ran.

        Inside of another trace the program becomes a part of that one.
        """
        recorders = () if active_stack() is None else active_recorders()
        wanted: tuple[int, ...] = ()
        if self.unknown:
            sizes = tuple([(name, tensors[i].array.shape[axis]) for name, (i, axis) in self.unknown.items()])
        if current_graph() is not None:
            return self._called_within(tensors, sizes, passed)
        if recorders:
            for variable in [bound(v, passed) for v in self.variables] if passed else self.variables:
                variable.notice_reading()
            uids = self._uids(tensors, passed)
            wanted = tuple([i for i, uid in enumerate(uids) if shape_followed(uid, recorders) is not None])
        if not wanted:
            if host and self.in_parts is not None:
                return self.in_parts(self.run(self.in_parts.program, [t.array for t in tensors], host, sizes, passed))
            results = self.run(self.plain, [t.array for t in tensors], host, sizes, passed)
            return [wrap(value) for value in results[: len(self.outputs)]]
        derivative = self.derivative(wanted, modes=modes_of(recorders))
        results = self.run(derivative.program, [t.array for t in tensors], host, sizes, passed)
        count = len(self.outputs)
        outputs = tuple([wrap(value) for value in results])
        shared = len(recorders) > 1
        attrs = {
            "derivative": derivative,
            "host": host,
            "sizes": sizes,
            "passed": passed,
            "shared": shared,
            "nested": uids if shared else (),
        }
        record(recorders, CALL, uids, outputs, outputs[count:], attrs)
        return list(outputs[:count])

    def _called_within(
        self, tensors: Sequence[Tensor], sizes: Sizes | None, passed: Sequence[Variable]
    ) -> list[Tensor]:
        """Become a part of another trace. Its derivative is made when it is asked for, from the same inputs: what is
        then computed a second time is the same in the same program, and XLA computes it once. Where variables change
        the inputs are not the same later, and the derivative is made now.
        """
        recorders = active_recorders()
        uids = self._uids(tensors, passed)
        if self._changing and self.graph.outer is None:
            wanted = tuple([i for i, uid in enumerate(uids) if shape_followed(uid, recorders) is not None])
            if wanted:
                derivative = self.derivative(wanted, modes=modes_of(recorders))
                return self.with_residuals(tensors, derivative, sizes, passed)[0]
        arrays = self.run(self.plain, [t.array for t in tensors], False, sizes, passed)
        outputs = tuple([wrap(value) for value in arrays])
        record(recorders, PART, uids, outputs, tuple(tensors), {"traced": self, "sizes": sizes, "passed": passed})
        return list(outputs)

    def with_residuals(
        self,
        tensors: Sequence[Tensor],
        derivative: Derivative,
        sizes: Sizes | None = None,
        passed: Sequence[Variable] = (),
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Call it within a trace, for a derivative that is wanted at once: results and residuals."""
        results = self.run(derivative.program, [t.array for t in tensors], False, sizes, passed)
        outputs = tuple([wrap(value) for value in results])
        count = len(self.outputs)
        attrs = {
            "derivative": derivative,
            "host": False,
            "sizes": sizes,
            "passed": passed,
            "shared": True,
            "nested": (),
        }
        record(active_recorders(), CALL, self._uids(tensors, passed), outputs, outputs[count:], attrs)
        return list(outputs[:count]), list(outputs[count:])

    @cached_property
    def in_parts(self) -> InParts | None:
        """The program for callers who can write large results themselves, if there are such results."""
        if self.graph.open or all(type(t.array) is not Symbolic or t.array.recipe is None for t in self.outputs):
            return None
        with self._building:  # it adds to the graph
            return InParts(self)

    def _uids(self, tensors: Sequence[Tensor], passed: Sequence[Variable]) -> tuple[int, ...]:
        """The uids outside of all that a tape there may follow."""
        captured: Sequence[int] = self.captured
        if passed:
            places = self.graph.passed
            captured = [passed[places[uid].number].uid if uid in places else uid for uid in captured]
        return (*[t.uid for t in tensors], *captured)

    @property
    def plain(self) -> Program:
        """The program without anything for derivatives."""
        if self._plain is None:
            self._plain = self.program([])
        return self._plain

    def program(self, residuals: Sequence[_Residual], silent: bool = False, results: Any = None) -> Program:
        """The program with the results (or others), the residuals, and the new values of variables as outputs."""
        outputs = [t.array for t in self.outputs] if results is None else results
        kept = [r.symbol for r in residuals]
        state = [s.reading.array for s in self.state]
        return Program(self.graph, self.symbols, [*outputs, *kept, *state], self._donated, silent, self._changing)

    def run(
        self,
        program: Program,
        arrays: Sequence[Any],
        host: bool,
        sizes: Sizes | None = None,
        passed: Sequence[Variable] = (),
    ) -> list[Any]:
        """Results and residuals; variables get their new values."""
        count = len(self.outputs)
        if sizes is not None:
            program = program.with_sizes(sizes)
        if current_graph() is not None:
            inside = list(call("inline", tuple(program.operands(arrays, passed)), {"program": program}))
            if self._changing and self.graph.outer is None:  # `switch`, `scan` and `while_loop` store it themselves
                for variable in reversed(self._changing):
                    bound(variable, passed).store(inside.pop())
            return inside
        changing = [bound(v, passed).storage for v in self._changing] if passed else self._storages
        processor = default_is_processor()
        try:
            if host and not processor:
                with on_processor():
                    results = self._launched(program, arrays, passed, changing, program.modes[True])
            else:
                results = self._launched(program, arrays, passed, changing, program.modes[processor])
        except (RuntimeError, ValueError) as error:  # JAX has both
            kind, _, sentence = str(error).partition(": ")
            if kind != "RESOURCE_EXHAUSTED":
                raise
            raise errors.ResourceExhaustedError(None, None, f"{sentence} Variables are unchanged.") from error
        if host:
            return [*map(to_numpy, results[:count]), *results[count:]]
        return list(results)

    def _launched(
        self,
        program: Program,
        arrays: Sequence[Any],
        passed: Sequence[Variable],
        changing: Sequence[Storage],
        mode: Mode,
    ) -> Sequence[Any]:
        """What a program gives, without the new values of variables, which are stored: those of all, or of none."""
        on_numpy = program.is_on_numpy(arrays)
        if on_numpy:
            mode = NONE  # on NumPy a check that fails raises
        if not changing:
            given = program.arrays(arrays, passed)
            with effects() if program.acts else nullcontext():
                found = program.run_on_numpy(given) if on_numpy else program(*given, mode=mode)
            if not mode:
                return found
            number = np.asarray(found[-1])
            if number:
                raise failure(program, int(number), given)
            return found[:-1]
        end = len(program.outputs)
        first = end - len(changing)
        launched: list[Any] = []
        with updating():  # two threads that update a variable must not lose an update
            at_once = bool(program.donated) or not (program.acts or mode)
            if program.acts:
                with effects():
                    given = program.launch(arrays, passed, (), launched, mode)
            else:
                given = program.launch(arrays, passed, changing if at_once else (), launched, mode)
            failed = np.asarray(launched[end]) if mode else None
            if failed:  # then the program has given variables their old values, if it had their memory
                for position, slot in program.restored:
                    given[slot] = launched[position]
                raise failure(program, int(failed), given)
            if not at_once:
                commit(changing, program.new_values(launched, len(changing)))
        return launched[:first]

    # -- derivatives -------------------------------------------------------------------------------------------------
    def derivative(
        self, wanted: tuple[int, ...], needs: Sequence[Shape | None] = (), modes: Modes = REVERSE
    ) -> Derivative:
        """What is needed to differentiate by some of the inputs: positions in arguments, then captured values.

        `needs` are shapes of the inputs, where the caller knows them.
        """
        found = self._derivatives.get((wanted, modes))
        if found is None:
            with self._building:
                found = self._derivatives.get((wanted, modes))
                if found is None:
                    try:
                        found = self._derivatives[wanted, modes] = Derivative(self, wanted, needs, modes)
                    except (Exception, NeedsEagerError) as error:
                        if self.unknown and (isinstance(error, NeedsEagerError) or not is_interrupt(error)):
                            raise UnknownDimensionError(str(error)) from error
                        raise
        return found

    @cached_property
    def differentiable(self) -> list[bool]:
        """Which of the outputs depend, by ops that have derivatives, on an argument or on a captured value."""
        behind = self.graph.behind
        reached = {uid for uid in self.inner_uids() if (value := behind(uid)) is None or is_differentiable(value)}
        for op, uids, output, _, attrs, _ in self.trace.records:
            if op.differentiable and not reached.isdisjoint(_differentiable_inputs(op, uids)):
                outputs = output if type(output) is tuple else (output,)
                depend = _outputs_that_depend(attrs, len(outputs))
                pairs = zip(outputs, depend, strict=True)
                reached.update([uid for uid, flag in pairs if flag and is_differentiable(behind(uid))])
        return [t.uid in reached for t in self.outputs]

    def inner_uids(self) -> list[int]:
        """The uids inside the trace of all that a tape outside may follow, in the order of the call's record."""
        return [*[t.uid for t in self.inputs], *self.captured]

    def dtype_of(self, uid: int) -> Any:
        """The dtype of an input, by its uid inside the trace."""
        for tensor in self.inputs:
            if tensor.uid == uid:
                return tensor.array.dtype
        found = self.graph.behind(uid)
        if found is not None:
            return found.dtype
        for record in self.trace.records:  # a tensor from outside: floating operands have the dtype of the result
            if uid in record[1]:
                return record[5][0] if type(record[5]) is tuple else record[5]
        return np.dtype(np.float32)


class InParts:
    """A program that gives the small arrays which large results are made of, one after the other in one array."""

    def __init__(self, traced: Traced) -> None:
        self._recipes: list[tuple[LazyArray, list[Any]] | None] = []  # and what each array is, or where in the flat one
        results: list[Any] = []
        with tracing(traced.graph):
            for tensor in traced.outputs:
                recipe = tensor.array.recipe if type(tensor.array) is Symbolic else None
                if recipe is None:
                    self._recipes.append(None)
                    results.append(tensor.array)
                    continue
                flat, places, start = [], [], 0
                for array in recipe.arrays:
                    if type(array) is Symbolic:
                        flat.append(call("reshape", (array,), {"shape": (array.size,)}))
                        places.append((slice(start, start + array.size), array.shape))
                        start += array.size
                    else:
                        places.append(array)
                self._recipes.append((recipe, places))
                results.append(call("concatenate", tuple(flat), {"axis": 0}) if len(flat) > 1 else flat[0])
        self.program = traced.program([], results=results)

    def __call__(self, results: Sequence[Any]) -> list[Tensor]:
        """The results as tensors; those with a recipe will be written by who reads them."""
        tensors = []
        for value, found in zip(results, self._recipes, strict=False):
            if found is None:
                tensors.append(wrap(value))
            else:
                recipe, places = found
                arrays = tuple([value[p[0]].reshape(p[1]) if type(p) is tuple else p for p in places])
                tensors.append(LazyTensor.of(LazyArray(recipe.shape, recipe.dtype, arrays, recipe.make)))
        return tensors


class Derivative:
    """The first program with residuals, and second programs: one for each set of cotangents that arrives, and one for
    each set of tangents.
    """

    def __init__(self, traced: Traced, wanted: tuple[int, ...], needs: Sequence[Shape | None], modes: Modes) -> None:
        self.traced, self.wanted = traced, wanted
        self.reverse, self.forward = modes
        self._pulls: dict[Any, _Pull] = {}
        self._pushes: dict[Any, _Push] = {}
        self.residuals: list[_Residual] = []
        self.connected: frozenset[int] = frozenset()  # the inputs that some output depends on: others get None
        shapes = self._known_shapes()
        for uid, shape in zip(traced.inner_uids(), needs, strict=False):
            if shape is not None and not (traced.graph.open and uid in shapes):
                shapes[uid] = shape
        if self.reverse:
            self._add_residuals_of_pulls(shapes)
        if self.forward:
            self._shapes = {uid: shape for uid, shape in shapes.items() if uid in traced.inner_uids()}
            self._add(_Push(traced, wanted, self._shapes, self._targets(self.residuals)).residuals)
        self._positions = {r.key: i for i, r in enumerate(self.residuals)}
        self.program = traced.program(self.residuals)

    def _add_residuals_of_pulls(self, shapes: dict[int, Shape]) -> None:
        traced = self.traced
        seeds = [t for t in traced.outputs if is_differentiable(t.array)]
        # Derivatives of derivatives pull on residuals too. What they need lies on the same paths, and is among the
        # residuals already; closures of custom gradients are the exception: for them, until nothing new turns up.
        pull = _Pull(traced, seeds, self.wanted, shapes)
        self.connected = pull.reached
        self._keep(pull, shapes)
        while self._add(pull.residuals) and traced.trace.may_raise:
            pull = _Pull(traced, [*seeds, *self._targets(self.residuals, ())], self.wanted, shapes)

    def _keep(self, pull: _Pull, shapes: dict[int, Shape]) -> None:
        """Run this one where all cotangents arrive, instead of tracing it once more."""
        traced = self.traced
        present = tuple([i for i, t in enumerate(traced.outputs) if is_differentiable(t.array)])
        uids = traced.inner_uids()
        if all(traced.outputs[i].uid for i in present) and all(uids[i] in shapes for i in self.wanted):
            key = (present, self.wanted, tuple([shapes[uids[i]] for i in self.wanted]), None, self.connected)
            self._pulls[key] = pull

    def _add(self, residuals: Sequence[_Residual]) -> bool:
        """Add those that are not there yet; whether there are any."""
        have = {r.key for r in self.residuals}
        missing = [r for r in residuals if r.key not in have]
        self.residuals.extend(missing)
        return bool(missing)

    def _targets(self, residuals: Sequence[_Residual], outputs: Sequence[Tensor] | None = None) -> list[Tensor]:
        """The outputs, and residuals as tensors."""
        return [*(self.traced.outputs if outputs is None else outputs), *[_tensor(r) for r in residuals if r.uid]]

    @cached_property
    def silent_program(self) -> Program:
        """The first program where its results are there already, and only the residuals are wanted."""
        return self.traced.program(self.residuals, silent=True)

    def _known_shapes(self) -> dict[int, Shape]:
        traced = self.traced
        shapes = {t.uid: tuple(t.array.shape) for t in traced.inputs if is_differentiable(t.array)}
        for uid, variable in traced.graph.passed.items():
            if is_differentiable(variable.abstract_value()):
                shapes[uid] = tuple(variable.abstract_value().shape)
        for uid in traced.captured:
            if uid not in shapes and (shape := shape_followed(uid, active_recorders())) is not None:
                shapes[uid] = shape
        return shapes

    @cached_property
    def connected_by_residuals(self) -> frozenset[int]:
        """The inputs that an output or a residual depends on."""
        seeds = [t for t in self._targets(self.residuals) if is_differentiable(t.array)]
        with _no_way_back():
            return _Pull(self.traced, seeds, self.wanted, self._known_shapes()).reached | self.connected

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
            shape = shape_followed(uids[i], recorders) if i in self.connected else None
            if shape is None:
                continue
            for k, gradient in enumerate(gradients):
                if isinstance(gradient, Tensor):
                    source = Tensor()
                    source.array, source.uid = np.zeros(shape, gradient.array.dtype), uids[i]
                    zero = tensor_namespace.multiply_no_nan(source, 0)
                    gradients[k] = gradient + tensor_namespace.sum(zero, axis=tuple(range(len(shape))))

    def pull(
        self, g: list[Any], needs: Sequence[Shape | None], rows: int | None = None, nested: bool = False
    ) -> tuple[_Pull, list[int]]:
        """The second program for the cotangents that are there (`rows` of them at a time), and which it takes.

        Where several tapes have recorded the call, zeros go to what a residual depends on too: as in TensorFlow, whose
        forward function returns it then.
        """
        traced = self.traced
        tensors = [*traced.outputs, *[_tensor(r) for r in self.residuals]]
        present = tuple(
            [i for i, x in enumerate(g) if x is not None and tensors[i].uid and is_differentiable(tensors[i].array)]
        )
        asked = tuple([i for i in self.wanted if needs[i] is not None])
        shapes = tuple([shape for i in asked if (shape := needs[i]) is not None])
        if traced.graph.open:  # not for the sizes of this call alone
            own = [tuple(t.array.shape) for t in traced.inputs]
            shapes = tuple([own[i] if i < len(own) else shape for i, shape in zip(asked, shapes, strict=True)])
        connected = self.connected
        if nested and not connected.issuperset(asked):
            connected = self.connected_by_residuals
        key = (present, asked, shapes, rows, connected)
        found = self._pulls.get(key)
        if found is None:
            known = dict(zip([traced.inner_uids()[i] for i in asked], shapes, strict=True))
            seeds = [tensors[i] for i in present]
            with _no_way_back():
                found = self._pulls[key] = _Pull(traced, seeds, asked, known, rows, connected)
        return found, list(present)

    def gradients(
        self,
        g: list[Any],
        needs: Sequence[Shape | None],
        saved: Sequence[Any],
        rows: int | None = None,
        host: bool = False,
        sizes: Sizes | None = None,
        passed: Sequence[Variable] = (),
        nested: bool = False,
    ) -> list[Any]:
        """Run the second program: a gradient for each input that needs one; None where no output depends on it."""
        pull, present = self.pull(g, needs, rows, nested)
        results = self._run(pull, saved, [g[i] for i in present], host, sizes, passed)
        gradients: list[Any] = [None] * len(needs)
        for i, slot in zip(pull.asked, pull.slots, strict=True):
            if slot is None:
                continue
            dense = results[slot.first]
            if slot.rows is None:
                gradients[i] = dense
            else:
                shape = slot.rows if sizes is None else evaluated(slot.rows, dict(sizes))
                gradients[i] = SparseCotangent(dense, results[slot.first + 1], shape)
        return gradients

    def tangents(
        self,
        given: Sequence[Any],
        saved: Sequence[Any],
        residuals: Sequence[_Residual] = (),
        rows: int | None = None,
        host: bool = False,
        sizes: Sizes | None = None,
        passed: Sequence[Variable] = (),
    ) -> list[Any]:
        """Run the second program of forward mode: the tangent of each output and of these residuals.

        None for an output that depends on no input, and for a residual where no tangent arrives.
        """
        present = tuple([i for i in self.wanted if given[i] is not None])
        key = (present, tuple([r.key for r in residuals]), rows)
        push = self._pushes.get(key)
        if push is None:
            with _no_way_back():
                push = _Push(self.traced, present, self._shapes, self._targets(residuals), rows)
            self._pushes[key] = push
        results = self._run(push, saved, [given[i] for i in present], host, sizes, passed)
        found = [None if place is None else results[place] for place in push.slots]
        count = len(self.traced.outputs)
        of_residuals = iter(found[count:])
        return [*found[:count], *[next(of_residuals) if r.uid else None for r in residuals]]

    def _run(
        self,
        second: _Pull | _Push,
        saved: Sequence[Any],
        directions: Sequence[Any],
        host: bool,
        sizes: Sizes | None,
        passed: Sequence[Variable],
    ) -> Sequence[Any]:
        """The outputs of a second program, for these cotangents or tangents."""
        if not second.traced.outputs:
            return ()
        values = [*[saved[i] for i in self.positions(second.residuals)], *directions]
        if current_graph() is not None:
            return second.traced([_as_tensor(v) for v in values], host, sizes, passed)
        call_program = common_namespace(values).traced_call
        results: Sequence[Any] = call_program(*values, traced=second.traced, host=host, sizes=sizes, passed=passed)
        return results

    def positions(self, residuals: Sequence[_Residual]) -> list[int]:
        """Where these residuals are among those that the first program gave."""
        return [self._positions[r.key] for r in residuals]


@contextmanager
def _no_way_back() -> Iterator[None]:
    """Around the trace of a second program, when the first one has run: it is too late to run the code eagerly."""
    try:
        yield
    except NeedsEagerError as error:
        if current_graph() is not None:
            raise
        raise error.reason from None


def _tensor(residual: _Residual) -> Tensor:
    tensor = Tensor()
    tensor.array, tensor.uid = residual.symbol, residual.uid
    return tensor


class _Pull:
    """A sweep over the inner tape, traced: from the cotangents of some tensors to the gradients of some inputs.

    An input that no cotangent reaches gets zeros where it is `connected`, and no gradient elsewhere.
    """

    def __init__(
        self,
        traced: Traced,
        seeds: Sequence[Tensor],
        asked: tuple[int, ...],
        shapes: dict[int, Shape],
        rows: int | None = None,
        connected: frozenset[int] = frozenset(),
    ) -> None:
        first = traced.graph
        graph = Graph(f"{first.name}_gradient", outer=first.outer, first=first)
        trace = Trace(graph)
        self.asked = asked
        uids = traced.inner_uids()
        sources = [uids[i] for i in asked]
        level = next_level() if rows is not None else 0
        lead = () if rows is None else (rows,)
        with tracing(graph), stack.use_recorders((trace,)):
            upstream = []
            cotangents: dict[int, Any] = {}
            for seed in seeds:
                d: Any = wrap(graph.argument((*lead, *seed.array.shape), seed.array.dtype))
                trace.follow(d)
                upstream.append(d)
                d = d if rows is None else Batched(d, level)
                cotangents[seed.uid] = cotangents[seed.uid] + d if seed.uid in cotangents else d
            records, reachable = _reachable(traced, frozenset(sources), shapes)
            found = traced_backward_pass(
                records,
                reachable,
                cotangents,
                kept=frozenset(),
                release=False,
            )
            outputs: list[Tensor] = []
            results = [found.get(uid) for uid in sources]
            self.reached = frozenset([i for i, c in zip(asked, results, strict=True) if c is not None])
            if rows is not None:
                results = [_all_rows(c, rows, shapes[uid]) for uid, c in zip(sources, results, strict=True)]
            self.slots = [
                _laid_out(c, (*lead, *shapes[uid]), traced.dtype_of(uid), outputs)
                if i in self.reached or i in connected
                else None
                for i, uid, c in zip(asked, sources, results, strict=True)
            ]
        self.residuals, inputs = _residuals(traced, graph, outputs)
        self.traced = Traced(graph, trace, [*inputs, *upstream], outputs)


class _Push:
    """A walk forward over the inner tape, traced: from the tangents of some inputs to those of some tensors.

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
        with tracing(graph), stack.use_recorders((trace,)), dimensions_shown():
            directions = []
            tangents: dict[int, Any] = {}
            for uid in sources:
                t = wrap(graph.argument((*lead, *shapes[uid]), traced.dtype_of(uid)))
                trace.follow(t)
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
                outputs.append(wrap(zeros((*lead, *shape), target.array.dtype)) if found is None else _as_tensor(found))
        self.residuals, inputs = _residuals(traced, graph, outputs)
        self.traced = Traced(graph, trace, [*inputs, *directions], outputs)


def _residuals(traced: Traced, graph: Graph, outputs: Sequence[Tensor]) -> tuple[list[_Residual], list[Tensor]]:
    """What the second graph takes from the first one, and the same as its inputs."""
    owners: dict[int, dict[int, None]] = {}  # the tensors that hold an array
    for uid, array in traced.trace.arrays.items():
        owners.setdefault(id(array), {})[uid] = None
    for tensor in traced.inputs:
        owners.setdefault(id(tensor.array), {})[tensor.uid] = None
    for state in traced.graph.variables.values():
        owners.setdefault(id(state.read), {})[state.variable.uid] = None
    residuals, inputs = [], []
    for feed in graph.feeds:
        if feed.kind == "array" and type(feed.value) is Symbolic and feed.value.graph is traced.graph:
            for uid in owners.get(id(feed.value), {0: None}):
                residuals.append(_Residual(feed.value, uid))
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
    return tensor_namespace.broadcast_to(_as_tensor(gradient), shape=(rows, *shape))


def _laid_out(gradient: Any, shape: Shape, dtype: Any, outputs: list[Tensor]) -> _Slot:
    """Put a gradient among the outputs: zeros where there is none."""
    first = len(outputs)
    if type(gradient) is SparseCotangent:
        outputs.extend((_as_tensor(gradient.values), _as_tensor(gradient.indices)))
        return _Slot(first, gradient.shape)
    outputs.append(wrap(zeros(shape, dtype)) if gradient is None else _as_tensor(gradient))
    return _Slot(first, None)


def _as_tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else wrap(value)


def _reachable(traced: Traced, sources: frozenset[int], shapes: dict[int, Shape]) -> tuple[list[Any], dict[int, Shape]]:
    """The records of what depends on a source, and the shapes there: a sweep has no business elsewhere.

    Of integers only the places that an op gives beside its values have a shape here: a joint rule gets zeros for them.
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


# -- the record of a call --------------------------------------------------------------------------------------------
def record(
    recorders: Sequence[Recorder],
    op: Op,
    uids: tuple[int, ...],
    outputs: tuple[Tensor, ...],
    values: tuple[Tensor, ...],
    attrs: dict[str, Any],
) -> None:
    """Tell every recorder that follows an input."""
    output = tuple([t.uid for t in outputs])
    dtypes = tuple([t.array.dtype for t in outputs])
    for recorder in reversed(recorders):  # the outermost first: see engine.tape
        tracked = recorder.tracked
        if not any(uid in tracked for uid in uids):
            continue
        for out in outputs:
            if is_differentiable(out.array):
                tracked[out.uid] = tuple(out.array.shape)
        entry = (op, uids, output, values, attrs, dtypes)
        if recorder.append(entry) is True:
            recorder.on_op(entry, (), outputs)


def _pull_call(
    xp: Any,
    g: list[Any],
    needs: list[Any],
    *saved: Any,
    derivative: Derivative,
    host: bool,
    sizes: Sizes | None,
    passed: Sequence[Variable],
    shared: bool,
    nested: tuple[int, ...],
) -> list[Any]:
    """The rule of a call: run the second program on the residuals and the cotangents.

    `nested` are the uids of the inputs where more than one tape recorded the call.
    """
    rows, g, batched_again = unbatched(g)
    found = derivative.gradients(g, needs, saved, rows, host, sizes, passed, bool(nested))
    if nested and rows is None:
        derivative.link(found, nested)
    return batched_again(found)


def _push_call(given: list[Any], saved: list[Any], attrs: dict[str, Any], _: Any) -> tuple[Any, ...] | None:
    """The forward rule of a call; None where it was recorded for tapes alone."""
    derivative: Derivative = attrs["derivative"]
    if not derivative.forward:
        return None
    rows, given, batched_again = unbatched(given)
    residuals = derivative.residuals if attrs["shared"] else ()
    host, sizes, passed = attrs["host"], attrs["sizes"], attrs["passed"]
    found = derivative.tangents(given, saved, residuals, rows, host, sizes, passed)
    return (*batched_again(found), *[None] * (len(saved) - len(residuals)))


def _pull_part(
    xp: Any,
    g: list[Any],
    needs: list[Any],
    *inputs: Any,
    traced: Traced,
    sizes: Sizes | None,
    passed: Sequence[Variable],
) -> list[Any]:
    """The rule of a part of a trace: run it again with residuals, then the second program.

    Residuals are functions of all inputs, also of those that this sweep needs no gradient of.
    """
    rows, g, batched_again = unbatched(g)
    g = [None if x is None else _as_tensor(x) for x in g]
    tensors = [_as_tensor(t) for t in inputs]
    derivative = _derivative_of_part(traced, tensors, needs, passed, forward=False)
    _, residuals = traced.with_residuals(tensors, derivative, sizes, passed)
    g = [*g, *[None] * len(residuals)]
    return batched_again(derivative.gradients(g, needs, residuals, rows, sizes=sizes, passed=passed))


def _push_part(given: list[Any], inputs: list[Any], attrs: dict[str, Any], _: Any) -> tuple[Any, ...]:
    """The forward rule of a part of a trace: run it again with residuals, then the second program."""
    traced, sizes, passed = attrs["traced"], attrs["sizes"], attrs["passed"]
    rows, given, batched_again = unbatched(given)
    given = [None if t is None else _as_tensor(t) for t in given]
    tensors = [_as_tensor(t) for t in inputs]
    lead = 0 if rows is None else 1
    shapes = [None if t is None else tuple(t.array.shape)[lead:] for t in given]
    derivative = _derivative_of_part(traced, tensors, shapes, passed, forward=True)
    _, residuals = traced.with_residuals(tensors, derivative, sizes, passed)
    return tuple(batched_again(derivative.tangents(given, residuals, (), rows, sizes=sizes, passed=passed)))


def _derivative_of_part(
    traced: Traced, tensors: Sequence[Tensor], needs: Sequence[Any], passed: Sequence[Variable], forward: bool
) -> Derivative:
    """By the inputs that are needed and by those that somebody follows: residuals are functions of all of them."""
    recorders = active_recorders()
    around, pushing = modes_of(recorders)
    wanted = [
        i
        for i, (uid, shape) in enumerate(zip(traced._uids(tensors, passed), needs, strict=True))
        if (i >= len(tensors) or is_differentiable(tensors[i].array))
        and (shape is not None or shape_followed(uid, recorders) is not None)
    ]
    return traced.derivative(tuple(wanted), needs, (around or not forward, pushing or forward))


PART = program_op("part", "PartitionedCall", _pull_part, _push_part)


def unbatched(d: list[Any]) -> tuple[int | None, list[Any], Callable[[list[Any]], list[Any]]]:
    """Batches of recorded tensors as tensors with an axis for the rows: how many rows, the tensors, and how to make
    batches of the gradients again. A batch may come as it is, or as the array of a tensor (forward mode does that).

    Raw batches are left alone: programs take them as they are.
    """
    whole = [_batch_in(x) for x in d]
    batches = [x for x in whole if x is not None]
    if not batches:
        return None, d, lambda gradients: gradients
    level = max(x.level for x in batches)
    rows = next(x.batch_size for x in batches if x.level == level)
    inside = any(isinstance(x, Tensor) and type(x.array) is Batched for x in d)
    if inside and any(recorder.born > level for recorder in active_recorders()):
        raise EscapeError("a compiled function is needed row by row where a tape is inside of the rows")

    def again(gradients: list[Any]) -> list[Any]:
        found = [None if g is None else Batched(g, level) for g in gradients]
        return [None if g is None else wrap(g) for g in found] if inside else found

    spread = [
        None if x is None else _spread(x if batch is None else batch, level, rows)
        for x, batch in zip(d, whole, strict=True)
    ]
    return rows, spread, again


def _batch_in(x: Any) -> Batched | None:
    batch = x.array if isinstance(x, Tensor) else x
    return batch if type(batch) is Batched and (batch is not x or isinstance(batch.array, Tensor)) else None


def _spread(x: Any, level: int, rows: int) -> Any:
    if type(x) is Batched and x.level == level:
        return _as_tensor(x.rows())
    return tensor_namespace.broadcast_to(_as_tensor(x), shape=(rows, *x.shape))


CALL = program_op("function", "PartitionedCall", _pull_call, _push_call)


# A call is a function of every namespace, so that a sweep may make it with raw arrays, batches and recorded tensors.
def _call_arrays(
    xp: Any, *arrays: Any, traced: Traced, host: bool, sizes: Sizes | None, passed: Sequence[Variable]
) -> tuple[Any, ...]:
    return tuple(traced.run(traced.plain, arrays, host, sizes, passed))


def _call_batches(
    xp: Any,
    size: int,
    flags: Sequence[bool],
    *arrays: Any,
    traced: Traced,
    host: bool,
    sizes: Sizes | None,
    passed: Sequence[Variable],
) -> Any:
    if xp.rank > 1:  # recorded rows: a call for each, because a compiled batch has no tape
        return None
    program = traced.plain if sizes is None else traced.plain.with_sizes(sizes)
    batched = [False] * len(program.feeds)
    for slot, number in program.plan[0]:
        batched[slot] = flags[number]
    if not any(batched):  # the same for every row
        results = traced.run(traced.plain, arrays, host, sizes, passed)
        return tuple([xp.broadcast_to(value, shape=(size, *value.shape)) for value in results])
    mode = NONE if forks.without_xla else program.modes[host or default_is_processor()]
    given = program.arrays(arrays, passed)
    results = program.batched(tuple(batched), mode)(*given)
    if mode:
        *results, numbers = results
        if to_numpy(numbers).any():
            raise failure(program, int(to_numpy(numbers).max()), given, batched)
    # What does not depend on a row has no row axis of its own inside: vmap has repeated it.
    return tuple([to_numpy(value) for value in results]) if host else tuple(results)


def _call_tensors(
    *tensors: Any, traced: Traced, host: bool, sizes: Sizes | None, passed: Sequence[Variable]
) -> tuple[Tensor, ...]:
    return tuple(traced([_as_tensor(t) for t in tensors], host, sizes, passed))


dispatch.register_function("traced_call", arrays=_call_arrays, batches=_call_batches, tensors=_call_tensors)
