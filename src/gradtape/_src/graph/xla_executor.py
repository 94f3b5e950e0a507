"""Programs compiled by XLA, through JAX.

A program that updates variables may be given their memory. XLA takes it when the program is launched: from then on the
old values are gone, and the new ones are in the results alone. So no signal handler may run between a launch and the
storing of its results (`XlaExecutor.launch`), and a program that can fail while it runs is given no memory: one that
calls Python, and one for which there may not be enough of it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cache, cached_property
from itertools import chain, starmap
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from gradtape._src import errors, forks, processes
from gradtape._src.arrays.dimensions import sized
from gradtape._src.graph import xla_checks
from gradtape._src.graph.checks import NONE, Mode
from gradtape._src.graph.options import options_for
from gradtape._src.interrupts import is_interrupt, setting
from gradtape._src.progress import waiting
from gradtape._src.threads import apart
from gradtape._src.variable import Loan, Storage, commit

if TYPE_CHECKING:
    from gradtape._src.graph.program import Program


T = TypeVar("T")


class XlaExecutor:
    """Compiles one program, when first called, and runs it.

    specs          shapes and dtypes of its inputs
    first_seconds  how long the first call took, compilation included
    default_is_processor  whether programs run on the processor where nothing else is said
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self.default_is_processor = default_is_processor()
        self.specs: list[Any] | None = None
        self.first_seconds: float | None = None
        self._kinds: set[tuple[Any, ...]] = set()  # of arrays, for which JAX launches it without Python code
        self._new_bytes = 0  # what a call allocates, where that is much
        self._lock = forks.lock()
        self._batched: dict[Any, Callable[..., Any]] = {}
        self._checked: dict[Mode, Callable[..., Any]] = {}
        self._keeping: dict[Mode, Callable[..., Any]] = {}
        self._explaining: dict[Any, Callable[..., Any]] = {}

    def placed(self, values: Sequence[Any]) -> list[Any]:
        """Values as arrays of JAX's; None stays."""
        return _apart(lambda: [None if value is None else jnp.asarray(value) for value in values])

    @cached_property
    def jitted(self) -> Callable[..., Any]:
        """The program as XLA compiles it."""
        return self._jit(self._program.replay)

    def checked(self, mode: Mode) -> Callable[..., Any]:
        """The program with checks: its last result is the number of the first that failed, or 0."""
        found = self._checked.get(mode)
        if found is None:
            found = self._checked[mode] = self._jit(xla_checks.checked(self._program, mode))
        return found

    def run_with_others(self, arrays: Sequence[Any], mode: Mode) -> tuple[Any, ...]:
        """Run it in this process as in all others, to the end. It is given no memory: a lost process ends it."""
        run: Any = self._keeping.get(mode)
        if run is None:
            replay = xla_checks.checked(self._program, mode) if mode else self._program.replay
            run = self._keeping[mode] = self._jit(replay, donated=())
        began = time.perf_counter()
        found: tuple[Any, ...] = processes.together(lambda: jax.block_until_ready(run(*arrays)))
        if self.first_seconds is None:
            self.specs = [jax.ShapeDtypeStruct(np.shape(a), a.dtype) for a in arrays]
            self.first_seconds = time.perf_counter() - began
        return found

    def _jit(self, run: Callable[..., Any], donated: Sequence[int] | None = None) -> Callable[..., Any]:
        layouts = self._program.layouts()

        def program(*arrays: Any) -> Any:
            results = run(*arrays)
            if not layouts:
                return results
            constrain: Any = jax.lax.with_sharding_constraint
            return tuple([constrain(x, layouts[i]) if i in layouts else x for i, x in enumerate(results)])

        program.__name__ = program.__qualname__ = self._program.name  # what profiles and XLA's dumps call it
        given = self._program.donated if donated is None else donated
        return jax.jit(program, donate_argnums=given, compiler_options=options_for(self._program.nodes))

    def _specs(self) -> list[Any]:
        symbols = [feed.symbol for feed in self._program.feeds]
        return [jax.ShapeDtypeStruct(sized(s.shape, self._program.sizes), s.dtype) for s in symbols]

    def compile(self, mode: Mode) -> None:
        """Compile it without running it."""
        run: Any = self.checked(mode) if mode else self.jitted
        specs = self._specs()
        with self._lock:
            began = time.perf_counter()
            compiled = run.lower(*specs).compile()
            if self.first_seconds is None:
                self._new_bytes = _new_bytes(compiled) if self._program.donated else 0
                self.specs, self.first_seconds = specs, time.perf_counter() - began

    def compiler_ir(self, stage: str) -> str | bytes:
        """The program before XLA optimises it, or after, as text or as a message."""
        lowered: Any = self.jitted.lower(*self._specs())  # type: ignore[attr-defined]
        return STAGES[stage](lowered)

    def __call__(self, arrays: Sequence[Any], mode: Mode = NONE) -> tuple[Any, ...]:
        """Run it; within a trace of JAX's, as a part of that. With checks as `checked` says."""
        run: Any = (self._checked.get(mode) or self.checked(mode)) if mode else self.jitted
        results: tuple[Any, ...]
        if self.first_seconds is not None:
            try:
                results = run(*arrays)
            except BaseException as error:
                if is_interrupt(error):  # JAX may have been setting up the launch
                    self._forget_compiled()
                raise
            return results
        with self._lock:
            specs = [jax.ShapeDtypeStruct(np.shape(a), a.dtype) for a in arrays]  # before some are given away
            began = time.perf_counter()
            try:
                if not any(isinstance(a, jax.core.Tracer) for a in arrays):
                    with waiting("XLA is compiling a function"):
                        compiled = _apart(lambda: run.lower(*arrays).compile())
                    self._new_bytes = _new_bytes(compiled) if self._program.donated else 0
                results = run(*arrays)
            except BaseException:
                self._forget_compiled()
                raise
            jax.block_until_ready(results)
            if self.first_seconds is None:
                self.specs = specs
                self.first_seconds = time.perf_counter() - began
        return results

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
        arrays: list[Any],
        loan: Loan,
        changing: Sequence[Storage],
        results: list[Any],
        mode: Mode,
    ) -> None:
        """Start it; what it gives is added to a list, and variables get their new values.

        It happens in the course of one call of C code: no signal handler runs in between, and no thread reads. For
        arrays of kinds that it has not seen, JAX runs Python code around the launch, and gets copies of the variables.
        """
        program = self._program
        kinds = (mode, *map(type, given), *loan.numpy_slots) if program.donated else ()
        if kinds not in self._kinds:
            program.commit_left()
            if program.donated and not loan.numpy_slots and not self.default_is_processor:
                self._launch_apart(arrays, loan, changing, results, mode)
                self._kinds.add(kinds)
                return
            results += self._run_on_copies(arrays, kinds, mode)
            commit(changing, program.new_values(results, len(changing)))
            return
        if program.unread:
            loan.stale += [changing[i] for i in program.unread]
        if self._new_bytes:
            _try_to_allocate(self._new_bytes)
        launching = map(results.extend, starmap(self.checked(mode) if mode else self.jitted, (arrays,)))
        any(chain(launching, program.committing(changing, results, loan)))

    def _launch_apart(
        self, arrays: list[Any], loan: Loan, changing: Sequence[Storage], results: list[Any], mode: Mode
    ) -> None:
        """Start it where no signal handler runs, and store the new values there: there need not be memory for copies.

        The memory of an accelerator is what limits a model, and it would be needed twice in the first call alone.
        """
        loan.keep_copies(arrays)
        run = self._compiled_for(arrays, mode)

        def start() -> None:
            results.extend(run(*arrays))
            commit(changing, self._program.new_values(results, len(changing)))

        _to_the_end(start)

    def run_apart(self, arrays: Sequence[Any], into: list[Any]) -> None:
        """Run it where no signal handler runs, and add what it gives to a list, also if an interrupt comes."""
        run = self._compiled_for(arrays, NONE)
        _to_the_end(lambda: into.append(run(*arrays)))

    def _compiled_for(self, arrays: Sequence[Any], mode: Mode) -> Callable[..., Any]:
        """The program, compiled where no signal handler runs. An interrupt leaves nothing but that undone."""
        run: Any = self.checked(mode) if mode else self.jitted
        with self._lock:
            specs = [jax.ShapeDtypeStruct(np.shape(a), a.dtype) for a in arrays]
            began = time.perf_counter()
            _apart(lambda: run.lower(*arrays).compile())
            if self.first_seconds is None:
                self.specs, self.first_seconds = specs, time.perf_counter() - began
        return run

    def _run_on_copies(self, arrays: list[Any], kinds: tuple[Any, ...], mode: Mode) -> tuple[Any, ...]:
        """Run it without giving memory away, to the end."""
        donated = self._program.donated
        first = self.first_seconds is None
        if donated:
            _apart(lambda: _copy_donated(arrays, donated, first))
        try:
            found = self(arrays, mode)
        except BaseException:
            self._forget_compiled()
            raise
        if donated:
            jax.block_until_ready(found)
            self._kinds.add(tuple([k for k in kinds if k not in donated]) if first else kinds)
        return found

    def batched(self, flags: tuple[bool, ...], mode: Mode) -> Callable[..., Any]:
        """The program, batched over rows of some inputs."""
        found = self._batched.get((flags, mode))
        if found is None:
            run = xla_checks.checked(self._program, mode) if mode else self._program.replay
            batched = jax.vmap(run, in_axes=[0 if flag else None for flag in flags])
            found = _set_up_apart(jax.jit(batched, compiler_options=options_for(self._program.nodes)))
            self._batched[flags, mode] = found
        return found

    def explaining(self, number: int, flags: tuple[bool, ...] = ()) -> Callable[..., Any]:
        """The program for the values that one of its checks reads, also batched over rows of some inputs."""
        found = self._explaining.get((number, flags))
        if found is None:
            run = xla_checks.explaining(self._program, number)
            batched = jax.vmap(run, in_axes=[0 if flag else None for flag in flags]) if any(flags) else run
            found = self._explaining[number, flags] = _set_up_apart(jax.jit(batched))
        return found

    def failure(self, number: int, arrays: Sequence[Any], batched: Sequence[bool] = ()) -> Exception:
        """The error of a check that failed in a run on these arrays, of which some are rows of a batch."""
        return xla_checks.failure(self._program, number, arrays, batched)

    def on_processor(self) -> Any:
        """A context in which programs that get NumPy arrays run on the processor, also where there is a GPU."""
        return on_processor()

    def on_device(self, device: Any) -> Any:
        """A context in which programs that get NumPy arrays run on a device of JAX's."""
        return on_device(device)

    def cost(self) -> dict[str, float]:
        """What XLA says of the compiled program: flops, bytes moved, bytes of temporary memory."""
        if self.specs is None:
            return {}
        return cost_of(self.jitted.lower(*self.specs).compile())  # type: ignore[attr-defined]


def cost_of(compiled: Any) -> dict[str, float]:
    """What XLA says of a compiled program."""
    analysis = compiled.cost_analysis() or {}
    memory = compiled.memory_analysis()
    known = dict(analysis[0] if isinstance(analysis, list) else analysis)
    if memory is not None:
        known["temporary"] = float(memory.temp_size_in_bytes)
    return known


# -- signals ---------------------------------------------------------------------------------------------------------
def _apart(function: Callable[[], T]) -> T:
    """Run Python code of JAX's where no signal handler runs: on another thread, for the same device.

    An exception in the middle of it stays in JAX's caches: what was being traced or compiled, `jnp.where` for some
    shapes, say, raises `RecursionError` from then on, in every program.
    """
    device = _DefaultDevice.get()

    def run() -> T:
        if _DefaultDevice.get() is not device:
            _DefaultDevice.set(device)
        return function()

    return apart(run)


def _to_the_end(function: Callable[[], None]) -> None:
    """Run a function where no signal handler runs, and return, or raise what a handler raises, when it has ended."""
    ended = threading.Event()

    def run() -> None:
        try:
            function()
        finally:
            ended.set()

    try:
        _apart(run)
    except BaseException:
        ended.wait(_PATIENCE)
        raise


_PATIENCE = 10.0
"""The seconds that an interrupt waits for a launch: one that was never begun does not end."""


def _set_up_apart(run: Any) -> Callable[..., Any]:
    """A function of JAX's, compiled where no signal handler runs."""
    seen: set[Any] = set()

    def call(*arrays: Any) -> Any:
        kinds = tuple([(np.shape(a), type(a)) for a in arrays])
        if kinds not in seen:
            _apart(lambda: run.lower(*arrays).compile())
            seen.add(kinds)
        return run(*arrays)

    return call


def _copy_donated(arrays: list[Any], donated: Sequence[int], first: bool) -> None:
    """Replace arrays whose memory the program may write to by copies."""
    bound = [a.sharding for a in arrays if isinstance(a, jax.Array) and getattr(a, "committed", False)]
    where = bound[0] if bound and len(bound[0].device_set) == 1 else None  # results are bound to the same device
    for slot in donated:
        if type(arrays[slot]) is not np.ndarray:
            arrays[slot] = arrays[slot].copy()
        elif first:  # as JAX will have it from the second call on: for anything else it compiles the program again
            arrays[slot] = jax.device_put(arrays[slot], where)


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
            None, None, f"Out of memory allocating {size} bytes. The program did not run; variables are unchanged."
        ) from None


# -- devices ---------------------------------------------------------------------------------------------------------
class _DefaultDevice:
    """JAX's device for this thread, as a context variable."""

    get = staticmethod(getattr(jax.default_device, "get_local", lambda: None))
    set = staticmethod(getattr(jax.default_device, "set_local", lambda device: None))


def on_processor() -> Any:
    """A context in which programs that get NumPy arrays run on the processor, also where there is a GPU."""
    return nullcontext() if default_is_processor() else on_device(jax.devices("cpu")[0])


def on_device(device: Any) -> Any:
    """A context in which programs that get NumPy arrays run on a device of JAX's."""
    if device == _first_device() and default_is_processor() == (device.platform == "cpu"):
        return nullcontext()
    if not hasattr(jax.default_device, "set_local"):
        return jax.default_device(device)  # which a signal may leave in the middle
    variable: Any = _DefaultDevice
    return setting(variable, device)


@cache
def _first_device() -> Any:
    return jax.local_devices()[0]


@cache
def default_is_processor() -> bool:
    """Whether programs run on the processor where nothing else is said."""
    return bool(jax.default_backend() == "cpu")


def _optimized(lowered: Any) -> Any:
    """The module of an optimised program."""
    return lowered.compile().runtime_executable().hlo_modules()[0]


def _as_dot(lowered: Any) -> str:
    computation = type(lowered.compiler_ir("hlo"))
    text: str = computation(_optimized(lowered).as_serialized_hlo_module_proto()).as_hlo_dot_graph()
    return text


STAGES: dict[str, Callable[[Any], str | bytes]] = {
    "hlo": lambda lowered: lowered.as_text("hlo"),
    "hlo_no_metadata": lambda lowered: lowered.as_text("hlo"),
    "hlo_serialized": lambda lowered: lowered.compiler_ir("hlo").as_serialized_hlo_module_proto(),
    "stablehlo": lambda lowered: lowered.as_text("stablehlo"),
    "optimized_hlo": lambda lowered: lowered.compile().as_text(),
    "optimized_hlo_serialized": lambda lowered: _optimized(lowered).as_serialized_hlo_module_proto(),
    "optimized_hlo_dot": _as_dot,
}
"""What `experimental_get_compiler_ir` shows, by TensorFlow's names for it."""
