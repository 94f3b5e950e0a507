"""Programs: a graph and some of its outputs, compiled by XLA when first called.

A program that updates variables may be given their memory. XLA takes it when the program is launched: from then on the
old values are gone, and the new ones are in the results alone. So no signal handler may run between a launch and the
storing of its results (`Program.launch`), and a program that can fail while it runs is given no memory: one that calls
Python, and one for which there may not be enough of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cache, cached_property, partial
from itertools import chain, islice, starmap
from typing import Any

import jax
import numpy as np

from gradtape._src import errors, forks
from gradtape._src.arrays import numpy_namespace
from gradtape._src.arrays.base import Engine
from gradtape._src.arrays.dimensions import Sizes, evaluated
from gradtape._src.arrays.numpy import control
from gradtape._src.arrays.symbolic import Feed, Graph, Node, Symbolic, current_graph
from gradtape._src.arrays.xla import in_memory, xla_namespace
from gradtape._src.devices import chosen, on_same_devices, placement
from gradtape._src.graph import checks, numpy_executor, passes
from gradtape._src.graph.bounds import Given, without_proved
from gradtape._src.interrupts import float_errors_ignored, setting
from gradtape._src.variable import Loan, Storage, Variable, VariableParam, commit, lend_all, peek, updating

compiler_options: dict[str, Any] = {}
"""What XLA is told with every program that it compiles."""


class Program:
    """What computes some values of a graph from the graph's inputs.

    `donated` are variables (uids) whose memory the program may write to; they get it back from the caller. What calls
    Python may fail, and gets none. `state` are the variables whose new values are the last outputs. `given` are
    bounds of integers among the inputs.
    """

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
        self.nodes = without_proved(nodes, given, {})
        self.has_effects = any(map(_has_effects, self.nodes))
        self.checks = checks.found_in(self.nodes)
        changing = {v.uid for v in state}
        if self.checks and changing:  # it gives variables their old values where a check fails: it needs them all
            used |= {id(feed.symbol) for feed in graph.feeds if feed.kind == "variable" and feed.value.uid in changing}
        self.feeds = [feed for feed in graph.feeds if id(feed.symbol) in used]
        if self.has_effects or (self.checks and not changing <= donated):
            donated = frozenset()
        self.donated = tuple(
            i for i, feed in enumerate(self.feeds) if feed.kind == "variable" and feed.value.uid in donated
        )
        slots = {self.feeds[slot].value.uid: slot for slot in self.donated}
        first = len(self.outputs) - len(state)
        self.restored = [(first + i, slots[v.uid]) for i, v in enumerate(state) if v.uid in slots]
        """Outputs that are new values of variables, and the inputs that are the old ones, whose memory they get."""
        self.unread = [i for i, v in enumerate(state) if v.uid not in slots]
        """The numbers of the variables whose old values stay where they are: their memory is not given away."""
        self.specs: list[Any] | None = None  # shapes and dtypes of its inputs
        self.first_seconds: float | None = None  # how long the first call took, compilation included
        self._kinds: set[tuple[Any, ...]] = set()  # of arrays, for which JAX launches it without Python code
        self._new_bytes = 0  # what a call allocates, where that is much
        self._constants: list[Any] | None = None
        self._lock = forks.lock()
        self._batched: dict[Any, Callable[..., Any]] = {}
        self._checked: dict[checks.Mode, Callable[..., Any]] = {}
        self._explaining: dict[Any, Callable[..., Any]] = {}
        self._sized: dict[Sizes, Program] = {}
        self.sizes: Sizes = ()

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
            found.checks = checks.found_in(found.nodes) if self.checks else {}
            self._sized[sizes] = found
        return found

    def versions(self) -> list[Program]:
        """The programs that are compiled: itself or, of one with unknown dimensions, one for each size."""
        return list(self._sized.values()) or [self]

    def replay(self, *arrays: Any, xp: Any = xla_namespace) -> tuple[Any, ...]:
        """Run the nodes on arrays that stand for the feeds."""
        env = self.environment(arrays)
        evaluate(self.nodes, env, xp)
        return self.results(env, xp)

    def environment(self, arrays: Sequence[Any]) -> dict[int, Any]:
        """Values by the ids of their symbols, before the first node."""
        return {id(feed.symbol): array for feed, array in zip(self.feeds, arrays, strict=True)}

    def results(self, env: dict[int, Any], xp: Any = xla_namespace) -> tuple[Any, ...]:
        """The outputs after the last node."""
        typed = _typed if xp is xla_namespace else np.asarray
        return tuple([typed(env[id(out)], out.dtype) if type(out) is Symbolic else out for out in self.outputs])

    @cached_property
    def modes(self) -> tuple[checks.Mode, checks.Mode]:
        """Which of its checks it makes where it does not run on the processor, and where it does."""
        return checks.modes(self.checks)

    @cached_property
    def jitted(self) -> Callable[..., Any]:
        """The program as XLA compiles it."""
        return self._jit(self.replay)

    def checked(self, mode: checks.Mode) -> Callable[..., Any]:
        """The program with checks: its last result is the number of the first that failed, or 0."""
        found = self._checked.get(mode)
        if found is None:
            found = self._checked[mode] = self._jit(checks.checked(self, mode))
        return found

    def _jit(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def program(*arrays: Any) -> Any:
            return run(*arrays)

        program.__name__ = program.__qualname__ = self.name  # what profiles and XLA's dumps call it
        return jax.jit(program, donate_argnums=self.donated, compiler_options=dict(compiler_options) or None)

    @cached_property
    def plan(self) -> tuple[Any, ...]:
        """Where the arrays of a call go: arguments by their number, storages of variables (and whether to keep them),
        variables among the arguments by their number (and whether to keep them), supplies.
        """
        arguments: list[tuple[int, int]] = []
        variables: list[tuple[int, Storage, bool]] = []
        passed: list[tuple[int, int, bool]] = []
        supplies: list[tuple[int, Any]] = []
        for slot, feed in enumerate(self.feeds):
            if id(feed.symbol) in self._numbers:
                arguments.append((slot, self._numbers[id(feed.symbol)]))
            elif feed.kind == "variable" and type(feed.value) is VariableParam:
                passed.append((slot, feed.value.number, slot not in self.donated))
            elif feed.kind == "variable":
                variables.append((slot, feed.value.storage, slot not in self.donated))
            elif feed.kind == "per_call":
                supplies.append((slot, feed.value))
        return arguments, variables, passed, supplies

    def arrays(self, given: Sequence[Any], passed: Sequence[Variable] = (), loan: Loan | None = None) -> list[Any]:
        """One array for each feed, for a call with these arguments, and these variables among them. Without a loan the
        program only reads the variables.
        """
        if self._constants is None:
            # Constants are handed over once, and stay where the program runs.
            placed = np.asarray if forks.without_xla or self._graph.root.on_numpy else jax.numpy.asarray
            self._constants = [
                placed(feed.value) if feed.kind == "array" and id(feed.symbol) not in self._numbers else None
                for feed in self.feeds
            ]
        arrays = self._constants[:]
        arguments, variables, places, supplies = self.plan
        for slot, number in arguments:
            arrays[slot] = given[number]
        if variables or places:
            lend = lend_all if loan is None else loan.lend
            with updating():  # or another thread's program gets the memory in between
                lend(variables, arrays)
                if places:
                    lend([(slot, passed[number].storage, keep) for slot, number, keep in places], arrays)
        for slot, supply in supplies:
            arrays[slot] = supply()
        return on_same_devices(arrays) if placement.several else arrays

    def with_outputs(self, outputs: Sequence[Any]) -> Program:
        """The same with other outputs."""
        return Program(self._graph, self._arguments, outputs, given=self._given)

    def is_explicit(self, feed: Feed) -> bool:
        """Whether an input is given by the caller."""
        return id(feed.symbol) in self._numbers

    def operands(self, given: Sequence[Any], passed: Sequence[Variable] = ()) -> list[Any]:
        """One symbolic array for each feed, where the program is a part of the graph that is being traced."""
        others = iter(self.others(passed))
        numbers = [self._numbers.get(id(feed.symbol)) for feed in self.feeds]
        return [next(others) if number is None else given[number] for number in numbers]

    def others(self, passed: Sequence[Variable] = ()) -> list[Any]:
        """What the program captured from the graph that is being traced, and the variables among its arguments."""
        return [_outside(feed, passed) for feed in self.feeds if id(feed.symbol) not in self._numbers]

    def invoke(self, given: Sequence[Any], others: Sequence[Any], xp: Any = xla_namespace) -> tuple[Any, ...]:
        """Run the nodes on arrays for the explicit inputs, and for what was captured."""
        remaining = iter(others)
        numbers = [self._numbers.get(id(feed.symbol)) for feed in self.feeds]
        return self.replay(*[next(remaining) if number is None else given[number] for number in numbers], xp=xp)

    def explicit(self) -> set[int]:
        """The numbers of the explicit inputs that the outputs depend on."""
        return {self._numbers[id(feed.symbol)] for feed in self.feeds if id(feed.symbol) in self._numbers}

    def __call__(self, *arrays: Any, mode: checks.Mode = checks.NONE) -> tuple[Any, ...]:
        """Run it, compiled; within a trace of JAX's, as a part of that. With checks as `checked` says."""
        if forks.without_xla:
            return self.run_on_numpy(arrays)
        run = (self._checked.get(mode) or self.checked(mode)) if mode else self.jitted
        if self.first_seconds is not None:
            return run(*arrays)
        with self._lock:
            specs = [jax.ShapeDtypeStruct(np.shape(a), a.dtype) for a in arrays]  # before some are given away
            began = time.perf_counter()
            try:
                if self.donated and not self._new_bytes:
                    self._new_bytes = _new_bytes(run.lower(*arrays).compile())  # type: ignore[attr-defined]
                results: tuple[Any, ...] = run(*arrays)
            except BaseException:
                self._forget_compiled()
                raise
            jax.block_until_ready(results)
            if self.first_seconds is None:
                self.specs = specs
                self.first_seconds = time.perf_counter() - began
        return results

    def is_on_numpy(self, arrays: Sequence[Any], passed: Sequence[Variable] = ()) -> bool:
        """Whether a call with these arguments runs on NumPy: where XLA cannot, or where that was chosen.

        What is on another device stays there, and so do its results.
        """
        if forks.without_xla:
            return True
        if not self._graph.root.on_numpy or not all(type(array) is np.ndarray for array in arrays):
            return False
        if not placement.places:
            return True
        storages = [storage for _, storage, _ in self.plan[1]] + [variable.storage for variable in passed]
        return chosen() is None and all(storage.is_on_host() for storage in storages)

    def run_on_numpy(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Run it as straight-line Python. What a check or a callback raises is raised by the call."""
        with float_errors_ignored():
            return self.on_numpy(*map(in_memory if forks.without_xla else np.asarray, arrays))

    @property
    def is_made_for_numpy(self) -> bool:
        """Whether it has run on NumPy."""
        return "on_numpy" in vars(self)

    @cached_property
    def on_numpy(self) -> Callable[..., tuple[Any, ...]]:
        """The program as straight-line Python over NumPy kernels."""
        code = passes.optimise(self.nodes, self.outputs, _is_pure)
        run = numpy_executor.executor(self.name, [feed.symbol for feed in self.feeds], code, _replaying)
        dtypes = [out.dtype if type(out) is Symbolic else None for out in self.outputs]
        if all(type(out) is Symbolic for out in code.outputs):
            return run
        return lambda *arrays: tuple(
            [x if dtype is None else np.asarray(x, dtype) for x, dtype in zip(run(*arrays), dtypes, strict=True)]
        )

    def _rows_on_numpy(self, flags: tuple[bool, ...], arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The same for rows of some inputs, one after the other."""
        values = [in_memory(array) for array in arrays]
        count = next(len(value) for value, flag in zip(values, flags, strict=True) if flag)
        if not count:
            return tuple([np.zeros((0, *out.shape), out.dtype) for out in self.outputs])
        rows = [[v[i] if flag else v for v, flag in zip(values, flags, strict=True)] for i in range(count)]
        return tuple(map(np.stack, zip(*[self.run_on_numpy(row) for row in rows], strict=True)))

    def _forget_compiled(self) -> None:
        """Compile it again next time: after an exception (of a signal, say) in the first call with arrays of some
        kinds, JAX runs Python code for every later one.
        """
        self.__dict__.pop("jitted", None)
        self._checked.clear()
        self.first_seconds = None
        self._kinds.clear()

    def launch(
        self,
        given: Sequence[Any],
        passed: Sequence[Variable],
        changing: Sequence[Storage],
        results: list[Any],
        mode: checks.Mode = checks.NONE,
    ) -> list[Any]:
        """Start it on these arguments and on the memory of variables; what it gives is added to a list, and variables
        get their new values. All of that happens, or nothing. Returns the arrays.

        It happens in the course of one call of C code: no signal handler runs in between, and no thread reads. For
        arrays of kinds that it has not seen, JAX runs Python code around the launch, and gets copies of the variables.
        """
        loan = Loan()
        arrays = self.arrays(given, passed, loan)
        kinds = (mode, *map(type, given), *loan.numpy_slots) if self.donated else ()
        on_numpy = self.is_on_numpy(given, passed)
        if kinds not in self._kinds or on_numpy:
            results += self.run_on_numpy(arrays) if on_numpy else self._run_on_copies(arrays, kinds, mode)
            commit(changing, self.new_values(results, len(changing)))
            return arrays
        if self.unread:
            loan.stale += [changing[i] for i in self.unread]
        if self._new_bytes:
            _try_to_allocate(self._new_bytes)
        launching = map(results.extend, starmap(self.checked(mode) if mode else self.jitted, (arrays,)))
        any(chain(launching, loan.committing(changing, self.new_values(results, len(changing)))))
        return arrays

    def new_values(self, results: list[Any], count: int) -> islice[Any]:
        """The new values of variables, which are the last outputs, as soon as the results are there."""
        end = len(self.outputs)
        return islice(results, end - count, end)

    def _run_on_copies(self, arrays: list[Any], kinds: tuple[Any, ...], mode: checks.Mode) -> tuple[Any, ...]:
        """Run it without giving memory away, to the end."""
        first = self.first_seconds is None
        for slot in self.donated:
            if type(arrays[slot]) is not np.ndarray:
                arrays[slot] = arrays[slot].copy()
            elif first:  # as JAX will have it from the second call on
                arrays[slot] = jax.device_put(arrays[slot])
        try:
            found = self(*arrays, mode=mode)
        except BaseException:
            self._forget_compiled()
            raise
        if self.donated:
            jax.block_until_ready(found)
            self._kinds.add(tuple([k for k in kinds if k not in self.donated]) if first else kinds)
        return found

    def batched(self, flags: tuple[bool, ...], mode: checks.Mode = checks.NONE) -> Callable[..., Any]:
        """The program, batched over rows of some inputs."""
        if forks.without_xla or self._graph.root.on_numpy:
            return lambda *arrays: self._rows_on_numpy(flags, arrays)
        found = self._batched.get((flags, mode))
        if found is None:
            run = checks.checked(self, mode) if mode else self.replay
            batched = jax.vmap(run, in_axes=[0 if flag else None for flag in flags])
            found = jax.jit(batched, compiler_options=dict(compiler_options) or None)
            self._batched[flags, mode] = found
        return found

    def explaining(self, number: int, flags: tuple[bool, ...] = ()) -> Callable[..., Any]:
        """The program for the values that one of its checks reads, also batched over rows of some inputs."""
        found = self._explaining.get((number, flags))
        if found is None:
            run = checks.explaining(self, number)
            batched = jax.vmap(run, in_axes=[0 if flag else None for flag in flags]) if any(flags) else run
            found = self._explaining[number, flags] = jax.jit(batched)
        return found


_replaying: Any = Engine("NumPy", np, *numpy_namespace.modules)
"""NumPy's functions, with branches and loops of programs."""
for _function in control.FUNCTIONS:
    setattr(_replaying, _function.__name__, partial(_function, _replaying))


def bound(variable: Variable, passed: Sequence[Variable]) -> Variable:
    """A variable of a program in a call that passes these: what stands for an argument is one of them."""
    return passed[variable.number] if passed and isinstance(variable, VariableParam) else variable


def _outside(feed: Feed, passed: Sequence[Variable]) -> Any:
    """What an input is in the graph that is being traced around the program."""
    if feed.kind == "variable":
        return peek(bound(feed.value, passed)).array
    graph = current_graph() if feed.kind == "per_call" else None
    return feed.value if graph is None else graph.per_call_input(feed.symbol.shape, feed.symbol.dtype, feed.value)


def _new_bytes(compiled: Any) -> int:
    """What a call of a compiled program allocates on the processor, besides the memory it is given; 0 if it is less
    than a megabyte.
    """
    memory = compiled.memory_analysis()
    if memory is None or not default_is_processor():
        return 0
    new = memory.temp_size_in_bytes + memory.output_size_in_bytes - memory.alias_size_in_bytes
    return int(new) if new >= 2**20 else 0


def _try_to_allocate(size: int) -> None:
    """Fail before a program is launched that would find no memory. On the processor XLA allocates it after the launch:
    the program fails when its old values are gone.
    """
    try:
        np.empty(size, np.uint8)
    except MemoryError:
        raise errors.ResourceExhaustedError(
            None, None, f"Out of memory allocating {size} bytes. The program has not run; variables are unchanged."
        ) from None


def cost(program: Program) -> dict[str, float]:
    """What XLA says of the compiled program: flops, bytes moved, bytes of temporary memory."""
    if program.specs is None:
        return {}
    compiled = program.jitted.lower(*program.specs).compile()  # type: ignore[attr-defined]
    analysis = compiled.cost_analysis() or {}
    memory = compiled.memory_analysis()
    known = dict(analysis[0] if isinstance(analysis, list) else analysis)
    if memory is not None:
        known["temporary"] = float(memory.temp_size_in_bytes)
    return known


def evaluate(nodes: Sequence[Node], env: dict[int, Any], xp: Any = xla_namespace) -> None:
    """Run nodes: from values by the ids of their symbols to more of them."""
    for name, args, attrs, outputs in nodes:
        result = getattr(xp, name)(
            *[env[id(a)] if type(a) is Symbolic else a for a in args],
            **attrs,
        )
        if type(result) is tuple or type(result) is list:
            env.update((id(symbol), value) for symbol, value in zip(outputs, result, strict=True))
        else:
            env[id(outputs[0])] = np.asarray(result) if isinstance(result, np.generic) else result


def _typed(value: Any, dtype: Any) -> Any:
    """A result with the dtype that was inferred, also where JAX would have called it a Python number's."""
    return jax.numpy.asarray(value, dtype)


def _sized(node: Node, sizes: dict[str, Any]) -> Node:
    attrs = {name: evaluated(value, sizes) for name, value in node.attrs.items()}
    return Node(node.name, tuple([evaluated(a, sizes) for a in node.args]), attrs, node.outputs)


def _is_pure(node: Node) -> bool:
    """Whether nothing but its results comes of a node."""
    return not (_has_effects(node) or checks.asserts(node) or node.name == "check" or checks.found_in([node]))


def _has_effects(node: Node) -> bool:
    """Whether a node does something besides computing, itself or in one of its programs."""
    return bool(node.attrs.get("effect")) or any(program.has_effects for program in checks.programs_in(node))


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


class _DefaultDevice:
    """JAX's device for this thread, as a context variable."""

    get = staticmethod(getattr(jax.default_device, "get_local", lambda: None))
    set = staticmethod(getattr(jax.default_device, "set_local", lambda device: None))


def on_processor() -> Any:
    """A context in which programs that get NumPy arrays run on the processor, also where there is a GPU."""
    if default_is_processor():
        return nullcontext()
    processor = jax.devices("cpu")[0]
    if not hasattr(jax.default_device, "set_local"):
        return jax.default_device(processor)  # which a signal may leave in the middle
    variable: Any = _DefaultDevice
    return setting(variable, processor)


@cache
def default_is_processor() -> bool:
    """Whether programs run on the processor where nothing else is said."""
    return bool(jax.default_backend() == "cpu")


def to_numpy(value: Any) -> Any:
    """A result for eager code on the processor: a read-only view, without copying."""
    return value if type(value) is np.ndarray else np.asarray(value)
