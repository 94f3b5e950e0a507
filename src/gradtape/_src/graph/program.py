"""Programs: a graph and some of its outputs, which one of two executors runs.

`numpy_executor.py` writes a program as straight-line Python, `xla_executor.py` compiles it. A graph says which one runs
its programs, or that the faster one does (`tiers.py`). Nothing here needs JAX.
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
"""From how many calls on, between which nothing looks at them, new values of variables are left in a list."""


class Plan(NamedTuple):
    """Which slots of a program's inputs a call fills with what.

    arguments  by their numbers
    kept       by the values of variables, which stay where they are
    donated    by those of variables whose memory the program may write to
    params     by those of variables among the arguments, by their numbers, and whether they are kept
    supplies   by what a function returns in every call
    """

    arguments: list[tuple[int, int]]
    kept: list[tuple[int, Storage, bool]]
    donated: list[tuple[int, Storage, bool]]
    params: list[tuple[int, int, bool]]
    supplies: list[tuple[int, Any]]


class Program:
    """What computes some values of a graph from the graph's inputs.

    `donated` are variables (uids) whose memory the program may write to; they get it back from the caller. What calls
    Python may fail, and gets none. `state` are the variables whose new values are the last outputs. `given` are
    bounds of integers among the inputs.
    """

    _uncommitted: Uncommitted | None = None  # new values of the donated variables, which the last call has left

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
        if self.checks and changing:  # it gives variables their old values where a check fails: it needs them all
            used |= {id(feed.symbol) for feed in graph.feeds if feed.kind == "variable" and feed.value.uid in changing}
        if self.has_effects or (self.checks and not changing <= donated):
            donated = frozenset()
        self.feeds, count = _donated_last([f for f in graph.feeds if id(f.symbol) in used], donated, state)
        self.donated = tuple(range(len(self.feeds) - count, len(self.feeds)))
        slots = {self.feeds[slot].value.uid: slot for slot in self.donated}
        first = len(self.outputs) - len(state)
        self.restored = [(first + i, slots[v.uid]) for i, v in enumerate(state) if v.uid in slots]
        """Outputs that are new values of variables, and the inputs that are the old ones, whose memory they get."""
        self.unread = [i for i, v in enumerate(state) if v.uid not in slots]
        """The numbers of the variables whose old values stay where they are: their memory is not given away."""
        self._state = state
        fixed = all(type(v) is not VariableParam for v in state)
        self._may_leave_values = fixed and 0 < len(self.donated) == len(state)
        self._calls_committed = 0  # how many calls have stored new values since something looked at uncommitted ones
        self._constants: dict[bool, list[Any]] = {}  # by whether the program runs on NumPy
        self._lock = forks.lock()
        self._xla: XlaExecutor | None = None
        self._sized: dict[Sizes, Program] = {}
        self.sizes: Sizes = ()
        self.has_run_on_numpy = False
        self.numpy_nodes = 0  # how many nodes are left for NumPy, once code was written for it
        self.passes: dict[str, int] = {}  # how many nodes each pass has left
        self.executable: numpy_executor.Executable | None = None  # what was written for NumPy
        self.islands: list[Program] = []  # its parts that XLA can run, where it cannot run all of it
        self.needs_numpy = graph.needs_numpy
        self.tier = Tier(self) if graph.root.executor == "auto" and not self.needs_numpy else None
        self.may_divide = False  # whether it is for values alone, and not for a derivative of the function
        self.undivided = ""  # why replicas run on one device, where they do

    def with_sizes(self, sizes: Sizes) -> Program:
        """The same program for these sizes of unknown dimensions, compiled by itself."""
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

    def versions(self) -> list[Program]:
        """The programs that are compiled: itself or, of one with unknown dimensions, one for each size."""
        return list(self._sized.values()) or [self]

    @cached_property
    def xla(self) -> XlaExecutor:
        """What compiles and runs it by XLA."""
        from gradtape._src.graph.xla_executor import XlaExecutor

        with self._lock:
            self._xla = self._xla or XlaExecutor(self)
        return self._xla

    @cached_property
    def over_replicas(self) -> SpmdExecutor | None:
        """What compiles and runs it by XLA on the devices of all replicas that are in it; None if there are none, or
        if they cannot be one program.
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
        """Compile it by XLA without running it."""
        (self.over_replicas or self.xla).compile(mode)

    @property
    def is_compiled(self) -> bool:
        """Whether XLA has compiled it."""
        return self.first_seconds is not None

    @property
    def first_seconds(self) -> float | None:
        """How long its first call took, compilation included."""
        executor = vars(self).get("over_replicas") or self._xla
        return None if executor is None else executor.first_seconds

    @property
    def device_count(self) -> int:
        """How many devices it runs on."""
        found = vars(self).get("over_replicas")
        return 1 if found is None else int(found.layout.total)

    def cost(self) -> dict[str, float]:
        """What XLA says of the compiled program: flops, bytes moved, bytes of temporary memory."""
        return (vars(self).get("over_replicas") or self.xla).cost()

    def number_of(self, feed: Feed) -> int:
        """Which of the arguments an input is."""
        return self._numbers[id(feed.symbol)]

    def replay(self, *arrays: Any, xp: Any = None) -> tuple[Any, ...]:
        """Run the nodes on arrays that stand for the feeds; without `xp` on those of the XLA engine."""
        if xp is _replaying:
            return self.on_numpy(*arrays)
        xp = xp or _xla_namespace()
        env = self.environment(arrays)
        evaluate(self.nodes, env, xp)
        return self.results(env, xp)

    def environment(self, arrays: Sequence[Any]) -> dict[int, Any]:
        """Values by the ids of their symbols, before the first node."""
        return {id(feed.symbol): array for feed, array in zip(self.feeds, arrays, strict=True)}

    def results(self, env: dict[int, Any], xp: Any) -> tuple[Any, ...]:
        """The outputs after the last node, with the dtypes that were inferred."""
        typed = xp.library.asarray
        return tuple([typed(env[id(out)], out.dtype) if type(out) is Symbolic else out for out in self.outputs])

    @cached_property
    def modes(self) -> tuple[checks.Mode, checks.Mode]:
        """Which of its checks it makes where it does not run on the processor, and where it does."""
        return checks.modes(self.checks)

    def layouts(self) -> dict[int, Any]:
        """How new values of variables are divided over a mesh, by the numbers of these outputs: as the old ones are."""
        if not placement.several:
            return {}
        first = len(self.outputs) - len(self._state)
        storages = [(first + i, v.storage.newest()) for i, v in enumerate(self._state) if type(v) is not VariableParam]
        return {i: x.sharding for i, x in storages if hasattr(x, "sharding") and len(x.sharding.device_set) > 1}

    @cached_property
    def plan(self) -> Plan:
        """Where the arrays of a call go."""
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
        """One array for each feed, for a call with these arguments, and these variables among them. Without a loan the
        program only reads the variables.
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
            with updating():  # or another thread's program gets the memory in between
                lend_all(chain(kept, donated), arrays)
        for slot, supply in supplies:
            arrays[slot] = supply()
        return on_same_devices(arrays) if placement.several else arrays

    def _lend_donated(self, loan: Loan, slots: Slots, arrays: list[Any], on_numpy: bool) -> None:
        """Fill the slots of donated variables: in one step, if nothing has looked at their new values."""
        found = self._uncommitted
        if found is not None:
            if found.is_whole and not on_numpy:
                arrays[self.donated[0] :] = found.values
                return
            self._uncommitted, self._calls_committed = None, 0
        loan.lend(slots, arrays)

    def committing(self, changing: Sequence[Storage], results: list[Any], loan: Loan) -> Iterator[None]:
        """Stores the new values of variables, or leaves them in a list for the next call, when C code consumes it."""
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
        """Store the values that the last call has left in a list. The caller holds the lock."""
        if self._uncommitted is not None:
            self._uncommitted.commit()
            self._uncommitted = None

    def __del__(self) -> None:
        """Store them, or the memory of all its variables would stay as long as one of them.

        The cycle collector calls this anywhere, also on a thread for which the one that has the lock waits.
        """
        if self._uncommitted is None or updating is None:  # Python clears the names of modules when it ends
            return
        lock = updating()
        if lock.acquire(blocking=False):
            try:
                self.commit_left()
            finally:
                lock.release()

    def _placed_constants(self, on_numpy: bool) -> list[Any]:
        """Arrays that the program captured, which stay where it runs; None for other inputs."""
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
        """A list with an array for each feed that the program captured, and None for the others."""
        return self._placed_constants(on_numpy=False)[:]

    def with_outputs(self, outputs: Sequence[Any]) -> Program:
        """The same with other outputs."""
        return Program(self._graph, self._arguments, outputs, given=self._given)

    def explicit_number(self, feed: Feed) -> int | None:
        """The number of an input among those that the caller gives; None for others."""
        return self._numbers.get(id(feed.symbol))

    def arguments(self) -> Sequence[Symbolic]:
        """The symbols that stand for the inputs which the caller gives."""
        return self._arguments

    def is_explicit(self, feed: Feed) -> bool:
        """Whether an input is given by the caller."""
        return id(feed.symbol) in self._numbers

    def operands(self, given: Sequence[Any], variable_args: Sequence[Variable] = ()) -> list[Any]:
        """One symbolic array for each feed, where the program is a part of the graph that is being traced."""
        others = iter(self.others(variable_args))
        numbers = [self._numbers.get(id(feed.symbol)) for feed in self.feeds]
        return [next(others) if number is None else given[number] for number in numbers]

    def others(self, variable_args: Sequence[Variable] = ()) -> list[Any]:
        """What the program captured from the graph that is being traced, and the variables among its arguments."""
        return [_outside(feed, variable_args) for feed in self.feeds if id(feed.symbol) not in self._numbers]

    def invoke(self, given: Sequence[Any], others: Sequence[Any], xp: Any = None) -> tuple[Any, ...]:
        """Run the nodes on arrays for the explicit inputs, and for what was captured."""
        remaining = iter(others)
        numbers = [self._numbers.get(id(feed.symbol)) for feed in self.feeds]
        return self.replay(*[next(remaining) if number is None else given[number] for number in numbers], xp=xp)

    def explicit(self) -> set[int]:
        """The numbers of the explicit inputs that the outputs depend on."""
        return {self._numbers[id(feed.symbol)] for feed in self.feeds if id(feed.symbol) in self._numbers}

    def is_on_numpy(self, host: bool, variable_args: Sequence[Variable] = ()) -> bool:
        """Whether a call runs on NumPy: where XLA cannot, or where that was chosen or is faster.

        `host`: its arguments are in the memory of the processor. What is on another device stays there.
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
        """Run it as straight-line Python, but for the first call, which runs its nodes one by one: a function that is
        called once is not worth writing code. What a check or a callback raises is raised by the call.
        """
        run = self.on_numpy if self.has_run_on_numpy else self._run_once
        given = map(_in_memory if forks.without_xla else np.asarray, arrays)
        if FLOAT_ERRORS is None:
            with float_errors_ignored():
                return run(*given)
        before = FLOAT_ERRORS.get()
        try:  # as `float_errors_ignored`, without its calls (benchmark: call_overhead)
            FLOAT_ERRORS.set(IGNORED)
            return run(*given)
        finally:
            FLOAT_ERRORS.set(before)

    def _run_once(self, *arrays: Any) -> tuple[Any, ...]:
        self.has_run_on_numpy = True
        return run_once(self, arrays, _replaying)

    def write_for_numpy(self) -> None:
        """Write the code for NumPy, if it has run there and that has not happened."""
        if self.has_run_on_numpy:
            self.on_numpy  # noqa: B018 - a cached property

    @cached_property
    def on_numpy(self) -> Callable[..., tuple[Any, ...]]:
        """The program as straight-line Python over NumPy kernels."""
        stages = passes.optimise(self.nodes, self.outputs, is_pure)
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
        """Some of its nodes as a program of their own, which XLA can compile."""
        graph = Graph(self.name)
        graph.executor, graph.nodes = "auto", nodes
        graph.feeds = [Feed("argument", None, symbol) for symbol in inputs]
        island = Program(graph, inputs, outputs)
        island.sizes = self.sizes
        self.islands.append(island)
        return island

    def _rows_on_numpy(self, flags: tuple[bool, ...], arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The same for rows of some inputs."""
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
        """Start it on these arguments and on the memory of variables; what it gives is added to a list, and variables
        get their new values. All of that happens, or nothing. Returns the arrays.
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
        """The new values of variables, which are the last outputs, as soon as the results are there."""
        end = len(self.outputs)
        return islice(results, end - count, end)

    def batched(self, flags: tuple[bool, ...], mode: checks.Mode, on_numpy: bool) -> Callable[..., Any]:
        """The program, batched over rows of some inputs."""
        if on_numpy:
            return lambda *arrays: self._rows_on_numpy(flags, arrays)
        return self.xla.batched(flags, mode)


@cache
def _xla_namespace() -> Any:
    from gradtape._src.arrays.xla import xla_namespace

    return xla_namespace


def _in_memory(array: Any) -> Any:
    """An array as NumPy's, in a process in which XLA may have no threads."""
    if isinstance(array, np.ndarray):
        return array
    from gradtape._src.arrays.xla import in_memory

    return in_memory(array)


_replaying: Any = Engine("NumPy", np, *numpy_namespace.modules)
"""NumPy's functions, with branches and loops of programs."""
for _function in control.FUNCTIONS:
    setattr(_replaying, _function.__name__, partial(_function, _replaying))
_replaying.island = run_island


def _outside(feed: Feed, variable_args: Sequence[Variable]) -> Any:
    """What an input is in the graph that is being traced around the program."""
    if feed.kind == "variable":
        return peek(bound(feed.value, variable_args)).array
    graph = current_graph() if feed.kind == "per_call" else None
    return feed.value if graph is None else graph.per_call_input(feed.symbol.shape, feed.symbol.dtype, feed.value)


def _sized(node: Node, sizes: dict[str, Any]) -> Node:
    attrs = {name: evaluated(value, sizes) for name, value in node.attrs.items()}
    return Node(node.name, tuple([evaluated(a, sizes) for a in node.args]), attrs, node.outputs)


def _donated_last(feeds: Sequence[Feed], donated: frozenset[int], state: Sequence[Variable]) -> tuple[list[Feed], int]:
    """The inputs, with variables whose memory is donated at the end, in the order of their new values; and how many."""
    order = {v.uid: i for i, v in enumerate(state) if v.uid in donated}
    places = [order.get(feed.value.uid, -1) if feed.kind == "variable" else -1 for feed in feeds]
    ordered = sorted(zip(places, range(len(feeds)), strict=True))
    return [feeds[i] for _, i in ordered], sum(place >= 0 for place in places)


def is_pure(node: Node) -> bool:
    """Whether nothing but its results comes of a node."""
    return not (_has_effects(node) or checks.asserts(node) or checks.found_in([node]))


def _has_effects(node: Node) -> bool:
    """Whether a node does something besides computing, itself or in one of its programs."""
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
            if dce is not None:  # a branch or a loop, without the outputs that are not used
                node = dce(node, [id(out) in used for out in node.outputs])
            kept.append(node)
            used.update(id(a) for a in node.args if type(a) is Symbolic)
    kept.reverse()
    return kept, used


def to_numpy(value: Any) -> Any:
    """A result for eager code on the processor: a read-only view, without copying."""
    return value if type(value) is np.ndarray else np.asarray(value)
