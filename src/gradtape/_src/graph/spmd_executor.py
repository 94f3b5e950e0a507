"""Programs that XLA compiles for the devices of all replicas, which run them at the same time.

Every device runs the nodes that `spmd.py` keeps, on the values of its replica; collectives combine values. Values of
variables stay on the devices between calls: the copies of all replicas are one array (`Mirror`), which a program
replaces as a whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from itertools import chain, islice, starmap
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from gradtape._src import errors, forks, processes
from gradtape._src.arrays.dimensions import evaluated
from gradtape._src.arrays.symbolic import Feed, Node
from gradtape._src.arrays.xla import xla_namespace
from gradtape._src.arrays.xla.checks import Collector, collecting, first
from gradtape._src.devices import jax_devices
from gradtape._src.graph.checks import ASSERTIONS, Mode
from gradtape._src.graph.lanes import Layout
from gradtape._src.graph.options import compiler_options
from gradtape._src.graph.spmd import Divided, Input, NotAlikeError, Output
from gradtape._src.graph.xla_executor import cost_of
from gradtape._src.variable import (
    Mirror,
    Storage,
    Variable,
    VariableParam,
    bound,
    buffer_of,
    commit,
    mirror,
    mirror_of,
    set_whole,
    updating,
)

if TYPE_CHECKING:
    from gradtape._src.graph.program import Program

_AXIS = "replica"


@cache
def mesh_of(layout: Layout) -> Mesh:
    """The devices of all replicas, in the order of the replicas."""
    kinds = {device.kind for device in layout.devices}
    if len(kinds) > 1:
        raise NotAlikeError("replicas are on devices of different kinds")
    (kind,) = kinds
    local = jax_devices(kind)
    if any(device.number >= len(local) for device in layout.devices):
        raise NotAlikeError(f"JAX has only {len(local)} devices of the kind {kind}")
    if layout.workers == 1:
        return Mesh(np.array([local[device.number] for device in layout.devices]), (_AXIS,))
    return Mesh(np.array(_of_all_workers(layout, kind, local)), (_AXIS,))


def _of_all_workers(layout: Layout, kind: str, local: Sequence[Any]) -> list[Any]:
    """The devices of all processes: each process uses those with the same numbers as this one."""
    everywhere = jax.devices(local[0].platform)
    found: list[Any] = []
    for worker in range(layout.workers):
        there = sorted([d for d in everywhere if d.process_index == worker], key=lambda d: d.id)
        if len(there) < layout.local:
            raise NotAlikeError(f"process {worker} has {len(there)} devices, but this one uses {layout.local}")
        found += [there[device.number] for device in layout.devices]
    return found


class _Collectives:
    """The functions of the XLA engine, and the collectives."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def __getattr__(self, name: str) -> Any:
        return getattr(xla_namespace, name)

    def replica_sum(self, *parts: Any) -> Any:
        total = jax.lax.psum(tuple(map(jnp.asarray, parts)), _AXIS)
        return total if len(total) > 1 else total[0]

    def replica_gather(self, part: Any, axis: int) -> Any:
        return jax.lax.all_gather(part, _AXIS, axis=axis, tiled=True)

    def replica_split(self, batch: Any) -> Any:
        size = batch.shape[0] // self._layout.total
        return jax.lax.dynamic_slice_in_dim(batch, jax.lax.axis_index(_AXIS) * size, size, 0)

    def replica_pick(self, part: Any, number: int) -> Any:
        part = jnp.asarray(part)
        chosen = jax.lax.axis_index(_AXIS) == number
        if part.dtype == bool:
            return jax.lax.psum(jnp.where(chosen, part, False).astype(np.int32), _AXIS) != 0
        return jax.lax.psum(jnp.where(chosen, part, jnp.zeros_like(part)), _AXIS)

    def replica_select(self, *values: Any) -> Any:
        return jnp.stack([jnp.asarray(v) for v in values])[jax.lax.axis_index(_AXIS) % self._layout.local]


class _State(NamedTuple):
    """Variables that are one array over all devices: their positions among the assigned ones, and the input, if any."""

    numbers: tuple[int, ...]
    symbol: Any
    slot: int | None


class SpmdExecutor:
    """Compiles a program for the devices of all replicas when it is first called, and runs it."""

    def __init__(self, program: Program, divided: Divided, changing: Sequence[Variable]) -> None:
        self._program, self._divided = program, divided
        self.layout, self.inputs = divided.layout, divided.inputs
        self.first_seconds: float | None = None
        self._mesh = mesh_of(self.layout)
        self.on_processor = self._mesh.devices.flat[0].platform == "cpu"
        self._lanes = NamedSharding(self._mesh, PartitionSpec(_AXIS))
        self._everywhere = NamedSharding(self._mesh, PartitionSpec())
        self._nodes = _merged_sums(divided.nodes)
        self._sizes = dict(program.sizes)
        self._jitted: dict[Mode, Callable[..., Any]] = {}
        self._ran: set[Mode] = set()
        self._constants: dict[int, Any] = {}
        self._expected: list[Any] = []
        self._mirrors: list[Mirror] = []
        self._lock = forks.lock()
        self._changing = changing
        self._state, self._single = self._grouped(divided.outputs[len(divided.outputs) - len(changing) :], changing)
        self._results = divided.outputs[: len(divided.outputs) - len(changing)]

    # -- what changes ------------------------------------------------------------------------------------------------
    def _grouped(
        self, outputs: Sequence[Output], changing: Sequence[Variable]
    ) -> tuple[list[_State], list[tuple[int, Output]]]:
        """The variables that are replaced together, and the others with their outputs."""
        slots = {
            tuple([feed.value.uid for feed in i.feeds]): slot for slot, i in enumerate(self.inputs) if _is_variable(i)
        }
        places = {variable.uid: number for number, variable in enumerate(changing)}
        groups = {uid: uids for uids in slots for uid in uids}
        for variable in changing:  # copies that are only written
            copies = getattr(getattr(variable, "container", None), "values", ())
            if variable.uid not in groups and len(copies) == self.layout.local:
                groups[variable.uid] = tuple([copy.uid for copy in copies])
        together: list[_State] = []
        done: set[int] = set()
        for variable in changing:
            uids = groups.get(variable.uid, ())
            if variable.uid in done or len(uids) != self.layout.local or not all(uid in places for uid in uids):
                continue
            found = [outputs[places[uid]] for uid in uids]
            if all(out.symbol is found[0].symbol is not None and out.lane in (None, i) for i, out in enumerate(found)):
                together.append(_State(tuple([places[uid] for uid in uids]), found[0].symbol, slots.get(uids)))
                done.update(uids)
        together.sort(key=lambda state: state.slot is None)  # those that are inputs first
        return together, [(places[v.uid], outputs[places[v.uid]]) for v in changing if v.uid not in done]

    @cached_property
    def _donated(self) -> tuple[int, ...]:
        """The inputs whose memory is donated.

        A program that other processes take part in may fail while it runs. On the CPU it gets no memory, so that
        variables keep their values after such a failure; on accelerators memory is too scarce for that.
        """
        if self.layout.workers > 1 and self.on_processor:
            return ()
        uids = {self._program.feeds[slot].value.uid for slot in self._program.donated}
        given = [state for state in self._state if state.slot is not None]
        return tuple(
            [
                state.slot
                for state in given
                if state.slot is not None and all(feed.value.uid in uids for feed in self.inputs[state.slot].feeds)
            ]
        )

    # -- the program -------------------------------------------------------------------------------------------------
    def _function(self, mode: Mode) -> Callable[..., Any]:
        found = self._jitted.get(mode)
        if found is None:
            shardings = tuple(map(self._sharding, self.inputs))
            specs = [sharding.spec for sharding in shardings]
            outputs = [PartitionSpec()] * len(self._state)
            outputs += [PartitionSpec() if out.lane is None else PartitionSpec(_AXIS) for out in self._computed]
            outputs += [PartitionSpec()] if mode else []
            body = self._body(mode)
            body.__name__ = body.__qualname__ = self._program.name
            spmd = jax.shard_map(
                body, mesh=self._mesh, in_specs=tuple(specs), out_specs=tuple(outputs), check_vma=False
            )
            found = self._jitted[mode] = jax.jit(
                spmd,
                in_shardings=shardings,  # so that a call accepts NumPy arrays (see `_input`)
                donate_argnums=self._donated,
                compiler_options=dict(compiler_options) or None,
            )
        return found

    @cached_property
    def _computed(self) -> list[Output]:
        """The outputs that are computed, each once, without the variables that are replaced together."""
        outputs = [*self._results, *[out for _, out in self._single]]
        return list({(id(o.symbol), o.lane is None): o for o in outputs if o.symbol is not None}.values())

    def _body(self, mode: Mode) -> Callable[..., Any]:
        from gradtape._src.graph.replay import evaluate

        namespace = _Collectives(self.layout)

        def body(*blocks: Any) -> tuple[Any, ...]:
            stacked = [i.kind == "lane" and not _is_variable(i) for i in self.inputs]
            parts = [x[0] if flag else x for flag, x in zip(stacked, blocks, strict=True)]
            env = {id(i.symbol): part for i, part in zip(self.inputs, parts, strict=True)}
            with collecting(Collector(assertions_only=mode is ASSERTIONS)) as records:
                evaluate(self._nodes, env, namespace)
            state = [jnp.asarray(env[id(s.symbol)], s.symbol.dtype) for s in self._state]
            results = [jnp.asarray(env[id(o.symbol)], o.symbol.dtype) for o in self._computed]  # type: ignore[union-attr]
            results = [x if o.lane is None or x.ndim else x[None] for o, x in zip(self._computed, results, strict=True)]
            if not mode:
                return (*state, *results)
            number = jax.lax.pmax(first(records)[0], _AXIS)
            for k, s in enumerate(self._state):
                if s.slot is not None:
                    state[k] = jnp.where(number != 0, parts[s.slot], state[k])
            return (*state, *results, number)

        return body

    def compile(self, mode: Mode) -> None:
        """Compile it without running it."""
        run: Any = self._function(mode)
        began = time.perf_counter()
        with self._lock:
            run.lower(*[self._spec(i) for i in self.inputs]).compile()
        self.first_seconds = time.perf_counter() - began

    def compiled(self) -> Any:
        """The compiled program, for its cost analysis."""
        run: Any = self._function("")
        return run.lower(*[self._spec(i) for i in self.inputs]).compile()

    def cost(self) -> dict[str, float]:
        """XLA's cost analysis of the compiled program, for one device."""
        return cost_of(self.compiled())

    def _spec(self, given: Input) -> Any:
        shape = tuple(evaluated(given.symbol.shape, self._sizes))
        if given.kind == "lane" and not _is_variable(given):
            shape = (self.layout.total, *shape)
        elif given.kind == "rows":
            shape = (self.layout.total * shape[0], *shape[1:])
        return jax.ShapeDtypeStruct(shape, given.symbol.dtype, sharding=self._sharding(given))

    def _sharding(self, given: Input) -> NamedSharding:
        return self._everywhere if given.kind == "whole" or _is_variable(given) else self._lanes

    # -- calling -----------------------------------------------------------------------------------------------------
    def run(
        self,
        given: Sequence[Any],
        variable_args: Sequence[Variable],
        changing: Sequence[Storage],
        mode: Mode,
        host: bool,
    ) -> list[Any]:
        """Run the program and store the new values of all variables, or of none; return the other outputs."""
        results: list[Any] = []
        with updating():
            arrays = self._arrays(given, variable_args)
            if self.layout.workers == 1:
                self._launch(arrays, results, mode)
            else:
                self._launch_with_others(arrays, results, mode)
            if mode and int(np.asarray(results[-1].addressable_data(0))):
                raise self._failure(given, variable_args)
            self._commit_others(changing, results, host, bool(self._donated) or not mode)
        return [self._value(out, results, host) for out in self._results]

    def _launch(self, arrays: list[Any], results: list[Any], mode: Mode) -> None:
        run = self._function(mode)
        count = sum(state.slot is not None for state in self._state)
        slots = [state.slot for state in self._state[:count]]
        mirrors = [self._mirrors[slot] for slot in slots]  # type: ignore[index]
        donates = bool(self._donated) or not mode
        if mode not in self._ran or (self.layout.workers > 1 and not self._donated):
            began = time.perf_counter()
            for slot in self._donated:  # JAX runs Python code in the first launch: a signal must not lose values
                arrays[slot] = self._together([shard.data for shard in arrays[slot].addressable_shards])
            results += run(*arrays)
            jax.block_until_ready(results)  # in other processes, too, before variables get their values
            self._ran.add(mode)
            self.first_seconds = self.first_seconds or time.perf_counter() - began
            if donates:
                any(map(set_whole, mirrors, results))
            return
        launching = map(results.extend, starmap(run, (arrays,)))
        any(chain(launching, map(set_whole, mirrors, islice(results, count))) if donates else launching)

    def _commit_others(self, changing: Sequence[Storage], results: list[Any], host: bool, is_stored: bool) -> None:
        """Store the values of variables that are not inputs, or that the launch has not stored."""
        for k, state in enumerate(self._state):
            if is_stored and state.slot is not None:
                continue
            storages = [changing[number] for number in state.numbers]
            found = mirror_of(storages)
            if found is None:
                mirror(storages, results[k])
            elif found.whole is not results[k]:
                found.whole = results[k]
        if self._single:
            storages = [changing[number] for number, _ in self._single]
            for storage in storages:
                storage.committed()
            commit(storages, [self._value(out, results, host) for _, out in self._single])

    @cached_property
    def _positions(self) -> dict[tuple[int, bool], int]:
        first_result = len(self._state)
        return {(id(o.symbol), o.lane is None): first_result + k for k, o in enumerate(self._computed)}

    def _value(self, out: Output, results: Sequence[Any], host: bool) -> Any:
        """An output of the graph: the value of a replica, or of all devices."""
        if out.symbol is None:
            return out.constant
        array = results[self._positions[id(out.symbol), out.lane is None]].addressable_data(out.lane or 0)
        part = np.asarray(array) if host else array
        return part if out.lane is None or out.symbol.shape else part[0]

    def _failure(self, given: Sequence[Any], variable_args: Sequence[Variable]) -> Exception:
        """The error of a failed check, which NumPy raises when it computes the same."""
        program = self._program
        try:
            program.run_on_numpy(program.arrays(given, variable_args, None, on_numpy=True))
        except Exception as error:
            return error
        where = ", in another process, whose error names it" if self.layout.workers > 1 else ""
        return errors.invalid_argument(f"A check of the values failed{where}", program.name)

    def _launch_with_others(self, arrays: list[Any], results: list[Any], mode: Mode) -> None:
        """Launch the program in all processes, and wait: an error means that one of them is lost."""

        def launch() -> None:
            self._launch(arrays, results, mode)
            jax.block_until_ready(results)

        processes.together(launch)

    # -- inputs ------------------------------------------------------------------------------------------------------
    @cached_property
    def _plan(self) -> tuple[Any, ...]:
        """The sources of the inputs: variables of all replicas, and the other inputs."""
        variables: list[tuple[int, Input]] = []
        others: list[tuple[int, Input]] = []
        for slot, given in enumerate(self.inputs):
            (variables if _is_variable(given) else others).append((slot, given))
        fixed = not any(isinstance(feed.value, VariableParam) for _, i in variables for feed in i.feeds)
        flat = [feed.value.storage for _, i in variables for feed in i.feeds] if fixed else None
        return variables, others, flat

    def _arrays(self, given: Sequence[Any], variable_args: Sequence[Variable]) -> list[Any]:
        arrays: list[Any] = [None] * len(self.inputs)
        variables, others, flat = self._plan
        if flat is None or list(map(buffer_of, flat)) != self._expected or not self._mirrors:
            self._mirrors = [None] * len(self.inputs)  # type: ignore[list-item]
            for slot, i in variables:
                self._mirrors[slot] = self._mirrored([bound(feed.value, variable_args).storage for feed in i.feeds])
            self._expected = [] if flat is None else list(map(buffer_of, flat))
        for slot, _ in variables:
            arrays[slot] = self._mirrors[slot].whole
        for slot, i in others:
            arrays[slot] = self._input(slot, i, given, variable_args)
        return arrays

    def _mirrored(self, storages: Sequence[Storage]) -> Mirror:
        found = mirror_of(storages)
        return found or mirror(storages, self._together([storage.lend(keep=True) for storage in storages]))

    def _together(self, copies: Sequence[Any]) -> Any:
        """The copies of a variable, each on its device, as one array."""
        places = self._everywhere.addressable_devices_indices_map(np.shape(copies[0]))
        own = [np.array(c) if type(c) is np.ndarray else c.copy() for c in copies]
        blocks = [jax.device_put(c, device) for c, device in zip(own, places, strict=True)]
        return jax.make_array_from_single_device_arrays(np.shape(copies[0]), self._everywhere, blocks)

    def _input(self, slot: int, given: Input, arguments: Sequence[Any], variable_args: Sequence[Variable]) -> Any:
        """The array of an input. Host memory stays where it is: the launch copies it to the devices in less time than
        `jax.device_put` takes (benchmark: replicas).
        """
        if slot in self._constants:
            return self._constants[slot]
        values = [self._fed(feed, arguments, variable_args) for feed in given.feeds]
        in_memory = self.layout.workers == 1 and all(type(value) is np.ndarray for value in values)
        if in_memory and any(feed.kind != "array" for feed in given.feeds):
            return _as_one(values) if given.kind == "lane" else values[0]
        if given.kind == "lane":
            array = self._stacked(values)
        else:
            array = self._rows(values[0]) if given.kind == "rows" else self._copied(values[0])
        if all(feed.kind == "array" for feed in given.feeds):
            self._constants[slot] = array
        return array

    def _fed(self, feed: Feed, arguments: Sequence[Any], variable_args: Sequence[Variable]) -> Any:
        program = self._program
        if program.is_explicit(feed):
            return arguments[program.number_of(feed)]
        if feed.kind == "variable":
            return bound(feed.value, variable_args).storage.lend(keep=True)
        return feed.value() if feed.kind == "per_call" else feed.value

    def _stacked(self, parts: Sequence[Any]) -> Any:
        """The values of the replicas of this process, as one array over all devices."""
        whole = _as_one(parts) if self.layout.workers == 1 else None
        if whole is not None:
            return jax.device_put(whole, self._lanes)
        shape = (self.layout.total, *np.shape(parts[0]))
        places = self._lanes.addressable_devices_indices_map(shape)
        blocks = [
            jax.device_put(part[None] if np.ndim(part) else jnp.reshape(part, (1,)), device)
            for part, device in zip(parts, places, strict=True)
        ]
        return jax.make_array_from_single_device_arrays(shape, self._lanes, blocks)

    def _rows(self, batch: Any) -> Any:
        """A batch whose rows are divided among the devices."""
        if self.layout.workers == 1:
            return jax.device_put(batch, self._lanes)
        size = batch.shape[0] // self.layout.workers
        mine = batch[self.layout.worker * size : (self.layout.worker + 1) * size]
        return jax.make_array_from_process_local_data(self._lanes, np.asarray(mine), batch.shape)

    def _copied(self, value: Any) -> Any:
        """A value that is copied to all devices."""
        if self.layout.workers == 1:
            return jax.device_put(value, self._everywhere)
        return jax.make_array_from_process_local_data(self._everywhere, np.asarray(value), np.shape(value))


def _is_variable(given: Input) -> bool:
    """Whether an input is a variable with a copy for each replica."""
    return given.kind == "lane" and given.feeds[0].kind == "variable"


def _as_one(parts: Sequence[Any]) -> Any:
    """Stack NumPy arrays along a new axis, without copying if they are adjacent parts of one array."""
    if not all(type(part) is np.ndarray for part in parts):
        return None
    first_part = parts[0]
    base, size = first_part.base, first_part.nbytes
    if (
        type(base) is np.ndarray
        and base.flags.c_contiguous
        and all(part.base is base and part.flags.c_contiguous for part in parts)
    ):
        start = _address(first_part)
        if all(_address(part) == start + k * size for k, part in enumerate(parts)):
            offset = start - _address(base)
            memory = base.reshape(-1).view(np.uint8)[offset : offset + len(parts) * size]
            return memory.view(first_part.dtype).reshape(len(parts), *first_part.shape)
    return np.stack(parts)


def _address(array: np.ndarray) -> int:
    found: int = array.__array_interface__["data"][0]
    return found


def _merged_sums(nodes: Sequence[Node]) -> list[Node]:
    """Merge adjacent sums over replicas, so that the devices communicate once for all of them."""
    merged: list[Node] = []
    for node in nodes:
        last = merged[-1] if merged else None
        if (
            node.name == "replica_sum"
            and last is not None
            and last.name == "replica_sum"
            and not any(a is out for a in node.args for out in last.outputs)
        ):
            merged[-1] = last._replace(args=(*last.args, *node.args), outputs=(*last.outputs, *node.outputs))
        else:
            merged.append(node)
    return merged
