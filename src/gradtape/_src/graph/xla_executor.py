"""Programs that XLA compiles, through JAX.

A program that updates variables may take their memory. XLA takes it when the program is launched: from then on the old
values are gone, and the new ones are only in the results. So no signal handler may run between a launch and the storing
of its results (`XlaExecutor.launch`), and no memory is donated to a program that can fail while it runs: one that calls
Python, or one that may run out of memory.
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
from gradtape._src.formats.protobuf import encode
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
    """Compiles a program when it is first called, and runs it.

    specs          shapes and dtypes of its inputs
    first_seconds  duration of the first call, compilation included
    default_is_processor  whether the default device is the CPU
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self.default_is_processor = default_is_processor()
        self.specs: list[Any] | None = None
        self.first_seconds: float | None = None
        self._kinds: set[tuple[Any, ...]] = set()  # of arrays: for these, JAX launches the program without Python code
        self._new_bytes = 0  # allocated by a call, if that is much
        self._lock = forks.lock()
        self._batched: dict[Any, Callable[..., Any]] = {}
        self._checked: dict[Mode, Callable[..., Any]] = {}
        self._keeping: dict[Mode, Callable[..., Any]] = {}
        self._explaining: dict[Any, Callable[..., Any]] = {}

    def placed(self, values: Sequence[Any]) -> list[Any]:
        """Values as JAX arrays; None stays None."""
        return _apart(lambda: [None if value is None else jnp.asarray(value) for value in values])

    @cached_property
    def jitted(self) -> Callable[..., Any]:
        """The program, jitted."""
        return self._jit(self._program.replay)

    def checked(self, mode: Mode) -> Callable[..., Any]:
        """The program with checks, jitted: its last result is the number of the first check that failed, or 0."""
        found = self._checked.get(mode)
        if found is None:
            found = self._checked[mode] = self._jit(xla_checks.checked(self._program, mode))
        return found

    def run_with_others(self, arrays: Sequence[Any], mode: Mode) -> tuple[Any, ...]:
        """Run the program in all processes, to the end. Nothing is donated: a process that is lost ends the program."""
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

        program.__name__ = program.__qualname__ = self._program.name  # for profiles and XLA's dumps
        given = self._program.donated if donated is None else donated
        return jax.jit(program, donate_argnums=given, compiler_options=options_for(self._program.nodes))

    def _specs(self) -> list[Any]:
        symbols = [feed.symbol for feed in self._program.feeds]
        return [jax.ShapeDtypeStruct(sized(s.shape, self._program.sizes), s.dtype) for s in symbols]

    def compile(self, mode: Mode) -> None:
        """Compile the program without running it."""
        run: Any = self.checked(mode) if mode else self.jitted
        specs = self._specs()
        with self._lock:
            began = time.perf_counter()
            compiled = run.lower(*specs).compile()
            if self.first_seconds is None:
                self._new_bytes = _new_bytes(compiled) if self._program.donated else 0
                self.specs, self.first_seconds = specs, time.perf_counter() - began

    def compiler_ir(self, stage: str) -> str | bytes:
        """The program as text or as a message, before or after XLA optimises it."""
        lowered: Any = self.jitted.lower(*self._specs())  # type: ignore[attr-defined]
        return STAGES[stage](lowered)

    def __call__(self, arrays: Sequence[Any], mode: Mode = NONE) -> tuple[Any, ...]:
        """Run the program. A trace of JAX's inlines it. For the result of checks see `checked`."""
        run: Any = (self._checked.get(mode) or self.checked(mode)) if mode else self.jitted
        results: tuple[Any, ...]
        if self.first_seconds is not None:
            try:
                results = run(*arrays)
            except BaseException as error:
                if is_interrupt(error):  # JAX may have been preparing the launch
                    self._forget_compiled()
                raise
            return results
        with self._lock:
            specs = [jax.ShapeDtypeStruct(np.shape(a), a.dtype) for a in arrays]  # before some are donated
            began = time.perf_counter()
            try:
                if not any(map(_is_traced, arrays)):
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
        """Compile it again next time: after an exception (of a signal, say) in the first call with some kinds of
        arrays, JAX runs Python code in every later call.
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
        """Run the program; append its results to a list, and store the new values of variables.

        All of it happens in one call of C code: no signal handler runs in between, and no thread reads variables. The
        first time that it gets certain kinds of arrays, JAX runs Python code around the launch, so the program gets
        copies of variables.
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
        """Launch it on a thread without signal handlers, and store the new values there, without copies of variables.

        The memory of an accelerator limits the size of models, and only the first call would need it twice.
        """
        loan.keep_copies(arrays)
        run = self._compiled_for(arrays, mode)

        def start() -> None:
            results.extend(run(*arrays))
            commit(changing, self._program.new_values(results, len(changing)))

        _to_the_end(start)

    def run_apart(self, arrays: Sequence[Any], into: list[Any]) -> None:
        """Run it on a thread without signal handlers, and append the results to a list, even if an interrupt comes."""
        run = self._compiled_for(arrays, NONE)
        _to_the_end(lambda: into.append(run(*arrays)))

    def _compiled_for(self, arrays: Sequence[Any], mode: Mode) -> Callable[..., Any]:
        """The program, compiled on a thread without signal handlers; after an interrupt it is simply not compiled."""
        run: Any = self.checked(mode) if mode else self.jitted
        with self._lock:
            specs = [jax.ShapeDtypeStruct(np.shape(a), a.dtype) for a in arrays]
            began = time.perf_counter()
            _apart(lambda: run.lower(*arrays).compile())
            if self.first_seconds is None:
                self.specs, self.first_seconds = specs, time.perf_counter() - began
        return run

    def _run_on_copies(self, arrays: list[Any], kinds: tuple[Any, ...], mode: Mode) -> tuple[Any, ...]:
        """Run the program on copies of the arrays that it may overwrite, to the end."""
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
        """The program batched over the inputs that are flagged."""
        found = self._batched.get((flags, mode))
        if found is None:
            run = xla_checks.checked(self._program, mode) if mode else self._program.replay
            batched = jax.vmap(run, in_axes=[0 if flag else None for flag in flags])
            found = _set_up_apart(jax.jit(batched, compiler_options=options_for(self._program.nodes)))
            self._batched[flags, mode] = found
        return found

    def explaining(self, number: int, flags: tuple[bool, ...] = ()) -> Callable[..., Any]:
        """The program that computes the values of one of its checks, optionally batched over some inputs."""
        found = self._explaining.get((number, flags))
        if found is None:
            run = xla_checks.explaining(self._program, number)
            batched = jax.vmap(run, in_axes=[0 if flag else None for flag in flags]) if any(flags) else run
            found = self._explaining[number, flags] = _set_up_apart(jax.jit(batched))
        return found

    def failure(self, number: int, arrays: Sequence[Any], batched: Sequence[bool] = ()) -> Exception:
        """The error of a check that failed in a run on these arrays, some of which may be batches."""
        return xla_checks.failure(self._program, number, arrays, batched)

    def on_processor(self) -> Any:
        """A context in which programs with NumPy arguments run on the CPU, even if there is a GPU."""
        return on_processor()

    def on_device(self, device: Any) -> Any:
        """A context in which programs with NumPy arguments run on a JAX device."""
        return on_device(device)

    def cost(self) -> dict[str, float]:
        """XLA's cost analysis of the compiled program: flops, bytes moved, bytes of temporary memory."""
        if self.specs is None:
            return {}
        return cost_of(self.jitted.lower(*self.specs).compile())  # type: ignore[attr-defined]


def cost_of(compiled: Any) -> dict[str, float]:
    """XLA's cost analysis of a compiled program."""
    analysis = compiled.cost_analysis() or {}
    memory = compiled.memory_analysis()
    known = dict(analysis[0] if isinstance(analysis, list) else analysis)
    if memory is not None:
        known["temporary"] = float(memory.temp_size_in_bytes)
    return known


# -- signals ---------------------------------------------------------------------------------------------------------
def _is_traced(array: Any) -> bool:
    return isinstance(array, jax.core.Tracer)


def _apart(function: Callable[[], T]) -> T:
    """Run Python code of JAX on a thread without signal handlers, for the same device.

    An exception in the middle of it would stay in JAX's caches: what was being traced or compiled, `jnp.where` for some
    shapes, say, would raise `RecursionError` from then on, in every program.
    """
    device = _DefaultDevice.get()

    def run() -> T:
        if _DefaultDevice.get() is not device:
            _DefaultDevice.set(device)
        return function()

    return apart(run)


def _to_the_end(function: Callable[[], None]) -> None:
    """Run a function on a thread without signal handlers; when it has ended, return, or raise what a handler raised."""
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
"""The seconds that an interrupt waits for a launch, which may never have begun."""


def _set_up_apart(run: Any) -> Callable[..., Any]:
    """A JAX function that is compiled on a thread without signal handlers."""
    seen: set[Any] = set()

    def call(*arrays: Any) -> Any:
        kinds = tuple([(np.shape(a), type(a)) for a in arrays])
        if kinds not in seen:
            _apart(lambda: run.lower(*arrays).compile())
            seen.add(kinds)
        return run(*arrays)

    return call


def _copy_donated(arrays: list[Any], donated: Sequence[int], first: bool) -> None:
    """Replace arrays that the program may overwrite by copies."""
    bound = [a.sharding for a in arrays if isinstance(a, jax.Array) and getattr(a, "committed", False)]
    where = bound[0] if bound and len(bound[0].device_set) == 1 else None  # results are committed to the same device
    for slot in donated:
        if type(arrays[slot]) is not np.ndarray:
            arrays[slot] = arrays[slot].copy()
        elif first:  # as in all later calls, so that JAX does not compile it twice
            arrays[slot] = jax.device_put(arrays[slot], where)


def _new_bytes(compiled: Any) -> int:
    """The bytes that a call of a compiled program allocates on the CPU, besides donated memory; 0
    if below a megabyte.
    """
    memory = compiled.memory_analysis()
    if memory is None or not default_is_processor():
        return 0
    new = memory.temp_size_in_bytes + memory.output_size_in_bytes - memory.alias_size_in_bytes
    return int(new) if new >= 2**20 else 0


def _try_to_allocate(size: int) -> None:
    """Raise an error before launching a program that would run out of memory. On the CPU, XLA allocates memory after
    the launch, when the old values of variables are already gone.
    """
    try:
        np.empty(size, np.uint8)
    except MemoryError:
        raise errors.ResourceExhaustedError(
            None, None, f"Out of memory allocating {size} bytes. The program did not run; variables are unchanged."
        ) from None


# -- devices ---------------------------------------------------------------------------------------------------------
class _DefaultDevice:
    """JAX's default device of this thread, as a context variable."""

    get = staticmethod(getattr(jax.default_device, "get_local", lambda: None))
    set = staticmethod(getattr(jax.default_device, "set_local", lambda device: None))


def on_processor() -> Any:
    """A context in which programs with NumPy arguments run on the CPU, even if there is a GPU."""
    return nullcontext() if default_is_processor() else on_device(_processor())


def on_device(device: Any) -> Any:
    """A context in which programs with NumPy arguments run on a JAX device."""
    if device == _first_device() and default_is_processor() == (device.platform == "cpu"):
        return nullcontext()
    if not hasattr(jax.default_device, "set_local"):
        return jax.default_device(device)  # a signal may leave it unbalanced
    variable: Any = _DefaultDevice
    return setting(variable, device)


# JAX takes a lock to find its devices, which Python 3.14 leaves locked if a signal arrives there: it runs apart.
@cache
def _processor() -> Any:
    return apart(lambda: jax.devices("cpu")[0])


@cache
def _first_device() -> Any:
    return apart(lambda: jax.local_devices()[0])


@cache
def default_is_processor() -> bool:
    """Whether the default device is the CPU."""
    return bool(apart(jax.default_backend) == "cpu")


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
    "optimized_hlo_proto_serialized": lambda lowered: encode(
        [(1, _optimized(lowered).as_serialized_hlo_module_proto())]  # HloProto, whose field 1 is the module
    ),
    "optimized_hlo_dot": _as_dot,
}
"""The stages of `experimental_get_compiler_ir`, by TensorFlow's names."""
