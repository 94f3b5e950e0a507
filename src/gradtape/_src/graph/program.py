"""Programs: a graph and some of its outputs, which one of two executors runs.

`numpy_executor.py` writes a program as straight-line Python, `xla_executor.py` compiles it. A graph says which executor
runs its programs, or that the faster one does (`tiers.py`). Nothing here needs JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property, partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradtape._src import forks
from gradtape._src.arrays import numpy_namespace
from gradtape._src.arrays.base import Engine
from gradtape._src.arrays.dimensions import Sizes, evaluated
from gradtape._src.arrays.lazy import settled
from gradtape._src.arrays.numpy import control
from gradtape._src.arrays.symbolic import Feed, Graph, Node, Symbolic, current_graph
from gradtape._src.devices import chosen, has_jax, on_same_devices, placement
from gradtape._src.graph import checks, numpy_executor, passes
from gradtape._src.graph.batched_replay import replay_rows
from gradtape._src.graph.bounds import Given, without_proved
from gradtape._src.graph.islands import run_island, with_islands
from gradtape._src.graph.merges import merged
from gradtape._src.graph.replay import evaluate, run_once
from gradtape._src.graph.tiers import Tier
from gradtape._src.interrupts import FLOAT_ERRORS, IGNORED, float_errors_ignored
from gradtape._src.variable import (
    Loan,
    Slots,
    Storage,
    Uncommitted,
    Variable,
    VariableParam,
    bound,
    commit,
    committing,
    lend_all,
    peek,
    updating,
)

if TYPE_CHECKING:
    from gradtape._src.graph.spmd_executor import SpmdExecutor
    from gradtape._src.graph.xla_executor import XlaExecutor

_UNDISTURBED = 8
"""The number of undisturbed calls after which the new values of variables stay in a list, uncommitted."""


class Plan(NamedTuple):
    """What a call puts into the slots of a program's inputs.

    arguments  slots of arguments, with their numbers
    kept       slots of variables that are not donated
    donated    slots of variables whose memory is donated
    params     slots of variables among the arguments, with their numbers and whether they are kept
    supplies   slots of per-call inputs, with the functions that make them
    """

    arguments: list[tuple[int, int]]
    kept: list[tuple[int, Storage, bool]]
    donated: list[tuple[int, Storage, bool]]
    params: list[tuple[int, int, bool]]
    supplies: list[tuple[int, Any]]


class Program:
    """A program that computes some values of a graph from the graph's inputs.

    `donated` are the uids of variables whose memory is donated: the caller stores the new values. A program that calls
    Python may fail, and gets no memory. `state` are the variables whose new values are the last outputs. `given` are
    the intervals of integers among the inputs.
    """

    _uncommitted: Uncommitted | None = None  # new values of the donated variables from the last call

    def __init__(
        self,
        graph: Graph,
        arguments: Sequence[Symbolic],
        outputs: Sequence[Any],
        donated: frozenset[int] = frozenset(),
        state: Sequence[Variable] = (),
        given: Given = {},  # noqa: B006 - nothing writes to it
    ) -> None:
        self.name = graph.name
        self._graph, self._arguments, self._given = graph, arguments, given
        self._numbers = {id(symbol): i for i, symbol in enumerate(arguments)}
        self.outputs = list(outputs)
        nodes, used = _needed(graph.nodes, self.outputs)
        self.nodes = merged(without_proved(nodes, given, {}), is_pure)
        self.has_effects = any(map(_has_effects, self.nodes))
        self.checks = checks.found_in(self.nodes)
        changing = {v.uid for v in state}
        if self.checks and changing:  # a failed check restores the old values of variables, so all of them are inputs
            used |= {id(feed.symbol) for feed in graph.feeds if feed.kind == "variable" and feed.value.uid in changing}
        if self.has_effects or (self.checks and not changing <= donated):
            donated = frozenset()
        self.feeds, count = _donated_last([f for f in graph.feeds if id(f.symbol) in used], donated, state)
        self.donated = tuple(range(len(self.feeds) - count, len(self.feeds)))
        slots = {self.feeds[slot].value.uid: slot for slot in self.donated}
        first = len(self.outputs) - len(state)
        self.restored = [(first + i, slots[v.uid]) for i, v in enumerate(state) if v.uid in slots]
        """Outputs with new values of variables, and the donated inputs whose memory they take."""
        self.unread = [i for i, v in enumerate(state) if v.uid not in slots]
        """The positions of variables whose memory is not donated."""
        self._state = state
        fixed = all(type(v) is not VariableParam for v in state)
        self._may_leave_values = fixed and 0 < len(self.donated) == len(state)
        self._calls_committed = 0  # calls since the uncommitted values were last read
        self._constants: dict[bool, list[Any]] = {}  # by whether the program runs on NumPy
        self._lock = forks.lock()
        self._xla: XlaExecutor | None = None
        self._sized: dict[Sizes, Program] = {}
        self.sizes: Sizes = ()
        self.has_run_on_numpy = False
        self.numpy_nodes = 0  # the number of nodes of the code for NumPy, once it is written
        self.passes: dict[str, int] = {}  # the number of nodes after each pass
        self.executable: numpy_executor.Executable | None = None  # the code for NumPy
        self.islands: list[Program] = []  # the parts that XLA can run, if it cannot run the whole program
        self.needs_numpy = graph.needs_numpy
        self.tier = Tier(self) if graph.root.executor == "auto" and not self.needs_numpy else None
        self.may_divide = False  # whether it computes values alone, without residuals for a derivative
        self.undivided = ""  # why replicas run on one device, if they do

    def with_sizes(self, sizes: Sizes) -> Program:
        """The same program for these sizes of unknown dimensions, which is compiled separately."""
        found = self._sized.get(sizes)
        if found is None:
            found = Program(self._graph, self._arguments, ())
            found.sizes = sizes
            by_name = dict(sizes)
            found.nodes = without_proved([_sized(node, by_name) for node in self.nodes], self._given, by_name)
            found.outputs, found.feeds, found.donated = self.outputs, self.feeds, self.donated
            found.has_effects, found.restored, found.unread = self.has_effects, self.restored, self.unread
            found._state, found.may_divide = self._state, self.may_divide
            found._may_leave_values = self._may_leave_values
            found.checks = checks.found_in(found.nodes) if self.checks else {}
            self._sized[sizes] = found
        return found

    @property
    def graph(self) -> Graph:
        """The graph that it computes values of."""
        return self._graph

    def versions(self) -> list[Program]:
        """The programs that are compiled: this one or, with unknown dimensions, one for each set of sizes."""
        return list(self._sized.values()) or [self]

    @cached_property
    def xla(self) -> XlaExecutor:
        """The executor that compiles and runs it with XLA."""
        from gradtape._src.graph.xla_executor import XlaExecutor

        with self._lock:
            self._xla = self._xla or XlaExecutor(self)
        return self._xla

    @cached_property
    def over_replicas(self) -> SpmdExecutor | None:
        """The executor for the devices of all its replicas; None without replicas, and if they cannot become one
        program.
        """
        graph = self._graph
        if graph.replicas is None or not self.may_divide or forks.without_xla or not has_jax():
            return None
        from gradtape._src.graph.spmd import Divided, NotAlikeError

        try:
            if self.has_effects:
                raise NotAlikeError("the function calls Python")
            divided = Divided(graph, dict(self.sizes), self.outputs)
            divided.nodes = without_proved(divided.nodes, self._given, dict(self.sizes))
            from gradtape._src.graph.spmd_executor import SpmdExecutor

            return SpmdExecutor(self, divided, self._state)
        except NotAlikeError as error:
            self.undivided = str(error)
            return None

    def compile(self, mode: checks.Mode) -> None:
        """Compile it with XLA, without running it."""
        (self.over_replicas or self.xla).compile(mode)

    @property
    def is_compiled(self) -> bool:
        """Whether XLA has compiled it."""
        return self.first_seconds is not None

    @property
    def first_seconds(self) -> float | None:
        """The duration of its first call, compilation included."""
        executor = vars(self).get("over_replicas") or self._xla
        return None if executor is None else executor.first_seconds

    @property
    def device_count(self) -> int:
        """The number of devices that it runs on."""
        found = vars(self).get("over_replicas")
        return 1 if found is None else int(found.layout.total)

    def cost(self) -> dict[str, float]:
        """XLA's cost analysis of the compiled program: flops, bytes moved, bytes of temporary memory."""
        return (vars(self).get("over_replicas") or self.xla).cost()

    def number_of(self, feed: Feed) -> int:
        """The number of the argument that an input is."""
        return self._numbers[id(feed.symbol)]

    def replay(self, *arrays: Any, xp: Any = None) -> tuple[Any, ...]:
        """Run the nodes on one array for each feed, with the kernels of `xp` (by default, those of the XLA engine)."""
        if xp is _replaying:
            return self.on_numpy(*arrays)
        xp = xp or _xla_namespace()
        env = self.environment(arrays)
        evaluate(self.nodes, env, xp)
        return self.results(env, xp)

    def environment(self, arrays: Sequence[Any]) -> dict[int, Any]:
        """The values of the feeds, by the ids of their symbols."""
        return {id(feed.symbol): array for feed, array in zip(self.feeds, arrays, strict=True)}

    def results(self, env: dict[int, Any], xp: Any) -> tuple[Any, ...]:
        """The outputs after the last node, in their inferred dtypes."""
        typed = xp.library.asarray
        return tuple([typed(env[id(out)], out.dtype) if type(out) is Symbolic else out for out in self.outputs])

    @cached_property
    def modes(self) -> tuple[checks.Mode, checks.Mode]:
        """The modes of its checks on a GPU, and on the CPU."""
        return checks.modes(self.checks)

    def layouts(self) -> dict[int, Any]:
        """The shardings of new values of variables on a mesh, by output: those of the old values."""
        if not placement.several:
            return {}
        first = len(self.outputs) - len(self._state)
        storages = [(first + i, v.storage.newest()) for i, v in enumerate(self._state) if type(v) is not VariableParam]
        return {i: x.sharding for i, x in storages if hasattr(x, "sharding") and len(x.sharding.device_set) > 1}

    @cached_property
    def plan(self) -> Plan:
        """The plan that assigns the inputs of a call to slots."""
        plan = Plan([], [], [], [], [])
        for slot, feed in enumerate(self.feeds):
            keep = slot not in self.donated
            if id(feed.symbol) in self._numbers:
                plan.arguments.append((slot, self._numbers[id(feed.symbol)]))
            elif feed.kind == "variable" and type(feed.value) is VariableParam:
                plan.params.append((slot, feed.value.number, keep))
            elif feed.kind == "variable":
                (plan.kept if keep else plan.donated).append((slot, feed.value.storage, keep))
            elif feed.kind == "per_call":
                plan.supplies.append((slot, feed.value))
        return plan

    def arrays(
        self,
        given: Sequence[Any],
        variable_args: Sequence[Variable] = (),
        loan: Loan | None = None,
        on_numpy: bool = False,
    ) -> list[Any]:
        """One array for each feed, for a call with these arguments, and these variables among them. Without a loan, the
        program only reads variables.
        """
        arrays = (self._constants.get(on_numpy) or self._placed_constants(on_numpy))[:]
        arguments, kept, donated, params, supplies = self.plan
        for slot, number in arguments:
            arrays[slot] = settled(given[number]) if placement.places else given[number]
        if params:
            kept = [*kept, *[(slot, variable_args[number].storage, keep) for slot, number, keep in params]]
        if loan is not None:
            self._lend_donated(loan, donated, arrays, on_numpy)
            if kept:
                loan.lend(kept, arrays)
        elif kept or donated:
            with updating():  # another thread's program could take the memory in between
                lend_all(chain(kept, donated), arrays)
        for slot, supply in supplies:
            arrays[slot] = supply()
        return on_same_devices(arrays) if placement.several else arrays

    def _lend_donated(self, loan: Loan, slots: Slots, arrays: list[Any], on_numpy: bool) -> None:
        """Fill the slots of donated variables: in one step, if their new values have not been read
        since the last call.
        """
        found = self._uncommitted
        if found is not None:
            if found.is_whole and not on_numpy:
                arrays[self.donated[0] :] = found.values
                return
            self._uncommitted, self._calls_committed = None, 0
        loan.lend(slots, arrays)

    def committing(self, changing: Sequence[Storage], results: list[Any], loan: Loan) -> Iterator[None]:
        """An iterator for C code to consume, which stores the new values of variables, or keeps
        them for the next call.
        """
        values = self.new_values(results, len(changing))
        if self._uncommitted is None:
            if loan.stale or loan.numpy_slots or not self._may_leave_values:
                return committing(changing, values, loan.stale)
            self._calls_committed += 1
            if self._calls_committed < _UNDISTURBED:
                return committing(changing, values, ())
            self._uncommitted = Uncommitted(changing)
        return self._uncommitted.filling(values)

    def commit_left(self) -> None:
        """Store the values that the last call has kept uncommitted. The caller holds the lock."""
        if self._uncommitted is not None:
            self._uncommitted.commit()
            self._uncommitted = None

    def __del__(self) -> None:
        """Store uncommitted values: otherwise one variable would keep the memory of all of them.

        The garbage collector may call this anywhere, also on a thread that the holder of the lock waits for.
        """
        if self._uncommitted is None or updating is None:  # Python clears the globals of modules when it exits
            return
        lock = updating()
        if lock.acquire(blocking=False):
            try:
                self.commit_left()
            finally:
                lock.release()

    def _placed_constants(self, on_numpy: bool) -> list[Any]:
        """The arrays that the program captured, on its device; None for other inputs."""
        values = [
            feed.value if feed.kind == "array" and id(feed.symbol) not in self._numbers else None for feed in self.feeds
        ]
        if on_numpy:
            found = [None if value is None else np.asarray(value) for value in values]
        else:
            found = self.xla.placed(values)
        self._constants[on_numpy] = found
        return found

    def constants_for_xla(self) -> list[Any]:
        """A list with the captured array of each feed, and None for other feeds."""
        return self._placed_constants(on_numpy=False)[:]

    def with_outputs(self, outputs: Sequence[Any]) -> Program:
        """The same program with other outputs."""
        return Program(self._graph, self._arguments, outputs, given=self._given)

    def explicit_number(self, feed: Feed) -> int | None:
        """The number of an input among those that the caller passes; None for other inputs."""
        return self._numbers.get(id(feed.symbol))

    def arguments(self) -> Sequence[Symbolic]:
        """The symbols of the inputs that the caller passes."""
        return self._arguments

    def is_explicit(self, feed: Feed) -> bool:
        """Whether the caller passes an input."""
        return id(feed.symbol) in self._numbers

    def operands(self, given: Sequence[Any], variable_args: Sequence[Variable] = ()) -> list[Any]:
        """One symbolic array for each feed, if the program is inlined into the graph that is being traced."""
        others = iter(self.others(variable_args))
        numbers = [self._numbers.get(id(feed.symbol)) for feed in self.feeds]
        return [next(others) if number is None else given[number] for number in numbers]

    def others(self, variable_args: Sequence[Variable] = ()) -> list[Any]:
        """The operands that are not explicit: values captured from the graph that is being traced, and variables."""
        return [_outside(feed, variable_args) for feed in self.feeds if id(feed.symbol) not in self._numbers]

    def invoke(self, given: Sequence[Any], others: Sequence[Any], xp: Any = None) -> tuple[Any, ...]:
        """Run the nodes on arrays for the explicit inputs, and for those that were captured."""
        remaining = iter(others)
        numbers = [self._numbers.get(id(feed.symbol)) for feed in self.feeds]
        return self.replay(*[next(remaining) if number is None else given[number] for number in numbers], xp=xp)

    def explicit(self) -> set[int]:
        """The numbers of the explicit inputs that the outputs depend on."""
        return {self._numbers[id(feed.symbol)] for feed in self.feeds if id(feed.symbol) in self._numbers}

    def is_on_numpy(self, host: bool, variable_args: Sequence[Variable] = ()) -> bool:
        """Whether a call runs on NumPy: if XLA cannot run the program, or if NumPy was chosen or is faster.

        `host`: the arguments are in host memory. A call with arrays on other devices runs on XLA.
        """
        root = self._graph.root
        if forks.without_xla or root.dynamic_sizes or root.is_only_for_numpy:
            return True
        if not host or not (root.executor == "numpy" if self.tier is None else self.tier.on_numpy):
            return False
        if not placement.places:
            return True
        slots = chain(self.plan.kept, self.plan.donated)
        storages = [storage for _, storage, _ in slots] + [variable.storage for variable in variable_args]
        return chosen() is None and all(storage.is_on_host() for storage in storages)

    def run_on_numpy(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Run it on NumPy: the first call runs node by node, because writing code does not pay off for a single call,
        later calls as straight-line Python. Exceptions of checks and callbacks propagate.
        """
        run = self.on_numpy if self.has_run_on_numpy else self._run_once
        given = map(_in_memory if forks.without_xla else np.asarray, arrays)
        if FLOAT_ERRORS is None:
            with float_errors_ignored():
                return run(*given)
        before = FLOAT_ERRORS.get()
        try:  # like `float_errors_ignored`, without its calls (benchmark: call_overhead)
            FLOAT_ERRORS.set(IGNORED)
            return run(*given)
        finally:
            FLOAT_ERRORS.set(before)

    def _run_once(self, *arrays: Any) -> tuple[Any, ...]:
        self.has_run_on_numpy = True
        return run_once(self, arrays, _replaying)

    def write_for_numpy(self) -> None:
        """Write the code for NumPy now, if the program has run on NumPy and the code is not yet written."""
        if self.has_run_on_numpy:
            self.on_numpy  # noqa: B018 - a cached property

    @cached_property
    def on_numpy(self) -> Callable[..., tuple[Any, ...]]:
        """The program as straight-line Python over NumPy kernels."""
        captured = {id(feed.symbol): feed.value for feed in self.feeds if feed.kind == "array"}
        stages = passes.optimise(self.nodes, self.outputs, is_pure, captured)
        self.passes = {name: len(stage.nodes) for name, stage in stages.items()}
        code = stages["dead code"]
        self.numpy_nodes = len(code.nodes)
        if self.needs_numpy and self._graph.root.executor == "auto" and has_jax():
            code = with_islands(code, self.sizes, is_pure, self._island)
        feeds = [feed.symbol for feed in self.feeds]
        self.executable = numpy_executor.executor(self.name, feeds, code, _replaying, self.sizes)
        run = self.executable.run
        dtypes = [out.dtype if type(out) is Symbolic else None for out in self.outputs]
        if all(type(out) is Symbolic for out in code.outputs):
            return run
        return lambda *arrays: tuple(
            [x if dtype is None else np.asarray(x, dtype) for x, dtype in zip(run(*arrays), dtypes, strict=True)]
        )

    def _island(self, nodes: list[Node], inputs: list[Symbolic], outputs: list[Symbolic]) -> Program:
        """Some of its nodes as a separate program, which XLA can compile."""
        graph = Graph(self.name)
        graph.executor, graph.nodes = "auto", nodes
        graph.feeds = [Feed("argument", None, symbol) for symbol in inputs]
        island = Program(graph, inputs, outputs)
        island.sizes = self.sizes
        self.islands.append(island)
        return island

    def _rows_on_numpy(self, flags: tuple[bool, ...], arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Run it on NumPy for a batch of the inputs that are flagged."""
        with float_errors_ignored():
            return replay_rows(self, flags, [*map(_in_memory, arrays)], _replaying)

    def launch(
        self,
        given: Sequence[Any],
        variable_args: Sequence[Variable],
        changing: Sequence[Storage],
        results: list[Any],
        mode: checks.Mode,
        on_numpy: bool,
    ) -> list[Any]:
        """Run it with these arguments and the values of variables; append its results to `results`, and store the new
        values of variables. All of that happens, or nothing. Returns the input arrays.
        """
        loan = Loan()
        arrays = self.arrays(given, variable_args, loan, on_numpy)
        if on_numpy:
            results += self.run_on_numpy(arrays)
            commit(changing, self.new_values(results, len(changing)))
        else:
            self.xla.launch(given, arrays, loan, changing, results, mode)
        return arrays

    def new_values(self, results: list[Any], count: int) -> islice[Any]:
        """The new values of variables, which are the last outputs, as a lazy slice of the results."""
        end = len(self.outputs)
        return islice(results, end - count, end)

    def batched(self, flags: tuple[bool, ...], mode: checks.Mode, on_numpy: bool) -> Callable[..., Any]:
        """The program batched over the inputs that are flagged."""
        if on_numpy:
            return lambda *arrays: self._rows_on_numpy(flags, arrays)
        return self.xla.batched(flags, mode)


@cache
def _xla_namespace() -> Any:
    from gradtape._src.arrays.xla import xla_namespace

    return xla_namespace


def _in_memory(array: Any) -> Any:
    """An array as a NumPy array, in a process in which XLA may have no threads."""
    if isinstance(array, np.ndarray):
        return array
    from gradtape._src.arrays.xla import in_memory

    return in_memory(array)


_replaying: Any = Engine("NumPy", np, *numpy_namespace.modules)
"""NumPy's functions, and the branches and loops of programs."""
for _function in control.FUNCTIONS:
    setattr(_replaying, _function.__name__, partial(_function, _replaying))
_replaying.island = run_island


def _outside(feed: Feed, variable_args: Sequence[Variable]) -> Any:
    """The value of an input in the graph that the program is inlined into."""
    if feed.kind == "variable":
        return peek(bound(feed.value, variable_args)).array
    graph = current_graph() if feed.kind == "per_call" else None
    return feed.value if graph is None else graph.per_call_input(feed.symbol.shape, feed.symbol.dtype, feed.value)


def _sized(node: Node, sizes: dict[str, Any]) -> Node:
    attrs = {name: evaluated(value, sizes) for name, value in node.attrs.items()}
    return Node(node.name, tuple([evaluated(a, sizes) for a in node.args]), attrs, node.outputs)


def _donated_last(feeds: Sequence[Feed], donated: frozenset[int], state: Sequence[Variable]) -> tuple[list[Feed], int]:
    """Move inputs that are donated variables to the end, in the order of their new values; and their number."""
    order = {v.uid: i for i, v in enumerate(state) if v.uid in donated}
    places = [order.get(feed.value.uid, -1) if feed.kind == "variable" else -1 for feed in feeds]
    ordered = sorted(zip(places, range(len(feeds)), strict=True))
    return [feeds[i] for _, i in ordered], sum(place >= 0 for place in places)


def is_pure(node: Node) -> bool:
    """Whether a node does nothing but compute its results."""
    return not (_has_effects(node) or checks.asserts(node) or checks.found_in([node]))


def _has_effects(node: Node) -> bool:
    """Whether a node or one of its programs has side effects."""
    attrs = node.attrs
    if not attrs:
        return False
    return bool(attrs.get("effect")) or any(program.has_effects for program in checks.programs_in(node))


def _needed(nodes: Sequence[Node], outputs: Sequence[Any]) -> tuple[list[Node], set[int]]:
    """The nodes that the outputs depend on, in order, and the ids of all values among them."""
    used = {id(out) for out in outputs if type(out) is Symbolic}
    kept = []
    for node in reversed(nodes):
        if any(id(out) in used for out in node.outputs) or _has_effects(node) or checks.asserts(node):
            dce = node.attrs.get("dce")
            if dce is not None:  # drop unused outputs of a branch or a loop
                node = dce(node, [id(out) in used for out in node.outputs])
            kept.append(node)
            used.update(id(a) for a in node.args if type(a) is Symbolic)
    kept.reverse()
    return kept, used


def to_numpy(value: Any) -> Any:
    """A result for eager code on the CPU: a read-only view, without a copy."""
    return value if type(value) is np.ndarray else np.asarray(value)
