"""Traced functions as StableHLO, which `XlaCallModule` nodes of TensorFlow run on CPUs and GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradtape._src import errors, nest
from gradtape._src.arrays.dimensions import (
    UnknownDimensionError,
    evaluated,
    is_dimension,
    register_kind,
    variables_in,
)
from gradtape._src.arrays.symbolic import NeedsEagerError, dimensions_as_values
from gradtape._src.autodiff.arguments import UnconnectedGradients
from gradtape._src.conversion import convert
from gradtape._src.devices import require_jax
from gradtape._src.dtypes import DType, as_dtype, dtype_of
from gradtape._src.function.concrete import ConcreteFunction, is_text
from gradtape._src.function.eager import EagerFunction
from gradtape._src.function.function import Function
from gradtape._src.function.staged import GraphOp, is_symbolic
from gradtape._src.inspect.gradient_tape import GradientTape
from gradtape._src.interrupts import contextmanager, is_interrupt
from gradtape._src.saved_model import programs
from gradtape._src.saved_model.messages import texts
from gradtape._src.shape import TensorShape
from gradtape._src.tensor import Tensor
from gradtape._src.variable import StreamState, Variable

if TYPE_CHECKING:
    from gradtape._src.graph.traced import Traced

PLATFORMS = ("cpu", "cuda")
ORDERS = 2
"""The number of derivatives of a program that are saved."""


class Value(NamedTuple):
    """The dtype and the shape of an input or a result; unknown dimensions are None."""

    dtype: DType
    shape: TensorShape


class Exported(NamedTuple):
    """A program for all platforms.

    `stored` is what gradtape runs. `backward` maps the inputs and the cotangents of floating results to cotangents of
    floating inputs; None without a derivative. `arguments` are the numbers of the function's values that it takes
    first, or constants; the values of `variables` follow. Its results are those of the function, then the new values of
    `assigned`.
    """

    module: bytes
    version: int
    stored: bytes
    backward: bytes | None
    arguments: list[Any]
    variables: list[Variable]
    inputs: list[Value]
    outputs: list[Value]
    assigned: list[Variable]


class Program(NamedTuple):
    """A step of a function: a program, and the numbers of its results among the function's values."""

    exported: Exported
    results: list[int]


class Op(NamedTuple):
    """A step of a function: an op of TensorFlow with values (numbers), constants (tensors), lists of both and objects
    as inputs; and the numbers of its results.
    """

    name: str
    inputs: dict[str, Any]
    attrs: dict[str, Any]
    results: list[int]


class Body(NamedTuple):
    """A function for a file.

    Its values are numbered: first `inputs`, then the results of all steps in order. `results` are numbers, or tensors
    for constants.
    """

    inputs: list[Value]
    steps: list[Program | Op]
    results: list[Any]
    outputs: list[Value]
    dtypes: dict[int, DType]

    @property
    def programs(self) -> list[Program]:
        """The steps that are programs."""
        return [step for step in self.steps if isinstance(step, Program)]

    @property
    def variables(self) -> list[Variable]:
        """All variables without repetitions, in the order in which a function takes their handles."""
        return [each for each in self._stored if not isinstance(each, StreamState)]

    @property
    def streams(self) -> list[StreamState]:
        """The states of random ops without repetitions, which a call draws."""
        return [each for each in self._stored if isinstance(each, StreamState)]

    @property
    def _stored(self) -> list[Variable]:
        found = [v for step in self.programs for v in (*step.exported.variables, *step.exported.assigned)]
        return list({id(variable): variable for variable in found}.values())

    @property
    def objects(self) -> list[Any]:
        """Tables and the like without repetitions: their handles follow those of variables."""
        found = [
            each for step in self.steps if isinstance(step, Op) for each in step.inputs.values() if _is_object(each)
        ]
        return list({id(each): each for each in found}.values())


class Level(NamedTuple):
    """A function, or a vjp of one: its trace, and the inputs of its program.

    An input is the number of an argument, or a variable. The program of a function that `updates` variables returns
    their new values after its results; that of a vjp, which runs the function again, does not.
    """

    concrete: ConcreteFunction
    inputs: list[int | Variable]
    updates: bool


def _is_object(value: Any) -> bool:
    return not isinstance(value, (int, Tensor, list))


def exported(concrete: ConcreteFunction, has_assets: bool = False) -> tuple[ConcreteFunction, Body]:
    """A function for a file, for all sizes of unknown dimensions; and the trace that it was made from.

    With `has_assets` it is traced again: it may use the path of an asset, which is different when the file is loaded.
    """
    ops: list[GraphOp] = []
    needs_ops = isinstance(concrete, EagerFunction) or concrete.is_for_each_size
    needs_ops = needs_ops or concrete.traced.plain.needs_numpy or concrete.traced.plain.has_effects
    if needs_ops or has_assets:
        try:
            concrete, ops = _staged(concrete)
        except errors.UnimplementedError:
            if needs_ops:
                raise
    require_jax("Saving functions as a SavedModel")
    with _without_source_lines(), dimensions_as_values():
        return concrete, _Exporter(concrete, ops).body()


def _staged(concrete: ConcreteFunction) -> tuple[ConcreteFunction, list[GraphOp]]:
    """The function traced for a file."""
    from gradtape._src.saved_model import graph_rules, ragged_rules  # noqa: F401 - register what ops functions are

    try:
        staged, ops = concrete.staged()
        staged.names = concrete.names if staged.names is None else staged.names
        return staged, ops
    except NeedsEagerError as error:
        raise errors.UnimplementedError(
            None, None, f"The function {concrete.name!r} cannot be saved, as XLA cannot run it: {error.reason}"
        ) from error
    except UnknownDimensionError as error:
        raise errors.UnimplementedError(
            None,
            None,
            f"The function {concrete.name!r} cannot be saved for unknown dimensions: {error} Use complete shapes in "
            "its input_signature, or compute shapes only from tf.shape(x).",
        ) from error


class _Exporter:
    """Divides a trace into programs and ops."""

    def __init__(self, concrete: ConcreteFunction, ops: list[GraphOp]) -> None:
        self.concrete, self.ops, self.traced = concrete, ops, concrete.traced
        self.tensors = [*self.traced.inputs, *(tensor for op in ops for tensor in op.results)]
        self.numbers = {id(tensor.array): i for i, tensor in enumerate(self.tensors)}
        self.count = len(self.tensors)
        self.dtypes: dict[int, DType] = {}  # of the values that programs compute
        _check(self._part([], self.tensors), concrete.name)

    def body(self) -> Body:
        """Divide the function into ops, each after a program that computes its inputs, and a
        program for the results.
        """
        steps: list[Program | Op] = []
        there = len(self.traced.inputs)
        for op in self.ops:
            computed = [each for each in nest.flatten(list(op.inputs.values())) if self._is_computed(each)]
            if computed:
                steps.append(self._program(computed, there, updates=False))
            inputs = {name: self._reference(each) for name, each in op.inputs.items()}
            results = list(range(there, there + len(op.results)))
            is_program = op.name == "XlaCallModule"
            steps.append(_loaded(op, inputs["args"], results) if is_program else Op(op.name, inputs, op.attrs, results))
            there += len(op.results)
        leaves = [leaf for leaf in nest.flatten(self.concrete.template, expand_composites=True) if leaf is not None]
        computed = [leaf for leaf in leaves if not self._is_given(leaf)]
        if computed or self.traced.state:
            steps.append(self._program(computed, there, updates=True))
        results = [self._reference(leaf) for leaf in leaves]
        specs = [Value(leaf.dtype, TensorShape(_shape(leaf.array))) for leaf in leaves]
        inputs_ = [Value(each.dtype, TensorShape(_shape(each.array))) for each in self.traced.inputs]
        dtypes = {i: tensor.dtype for i, tensor in enumerate(self.tensors)} | self.dtypes
        return Body(inputs_, _needed(steps, results), results, specs, dtypes)

    def _is_given(self, leaf: Tensor) -> bool:
        """Whether no program computes a result: strings, and results of ops."""
        return is_text(leaf) or self.numbers.get(id(leaf.array), -1) >= len(self.traced.inputs)

    def _is_computed(self, value: Any) -> bool:
        return is_symbolic(value) and id(value.array) not in self.numbers

    def _reference(self, value: Any) -> Any:
        """The number of a value; constants and objects unchanged."""
        if isinstance(value, list):
            return [self._reference(each) for each in value]
        return self.numbers.get(id(value.array), value) if isinstance(value, Tensor) else value

    def _program(self, outputs: list[Tensor], there: int, updates: bool) -> Program:
        """A program for some values, computed from those with smaller numbers."""
        given = [tensor for tensor in self.tensors[:there] if not is_text(tensor)]
        whole = self._part(outputs, given)
        program = whole.plain if updates else whole.plain.with_outputs([each.array for each in outputs])
        places = {number for _, number in program.plan.arguments}
        used = [given[i] for i in sorted(_with_sizes(given, places))]
        part = self._part(outputs, used)
        concrete = ConcreteFunction(self.concrete.origin, tuple(used), list(used), part, list(outputs))
        variables = [feed.value for feed in program.feeds if feed.kind == "variable"]
        level = Level(concrete, [*range(len(used)), *variables], updates)
        results = []
        for tensor in outputs:
            number = self.numbers.setdefault(id(tensor.array), self.count)
            self.count += number == self.count
            self.dtypes[number] = tensor.dtype
            results.append(number)
        return Program(_exported(level, [self.numbers[id(tensor.array)] for tensor in used], variables), results)

    def _part(self, outputs: list[Tensor], inputs: list[Tensor]) -> Traced:
        traced = self.traced
        return type(traced)(traced.graph, traced.trace, inputs, outputs)


def _loaded(op: GraphOp, arguments: list[Any], results: list[int]) -> Program:
    """A program of a loaded model, which a function calls."""
    program: programs.StoredProgram = op.attrs["program"]
    modules = [each[1][-1] for each in program.orders]
    given, found = ([_stored_value(each) for each in texts(program.orders[0], number)] for number in (2, 3))
    backward = modules[1] if len(modules) > 1 else None
    exported = Exported(modules[0], program.version, program.data, backward, arguments, [], given, found, [])
    return Program(exported, results)


def _stored_value(text: str) -> Value:
    dtype, _, shape = text.partition("|")
    sizes = [int(n) if n.isdecimal() else None for n in shape.split(",")] if shape else []
    return Value(as_dtype(dtype), TensorShape(sizes))


def _with_sizes(given: list[Tensor], used: set[int]) -> set[int]:
    """The numbers of inputs, and of those that determine the sizes of dimensions that no other input determines."""
    wanted = set(used)
    plain = [{str(n) for n in tensor.array.shape if is_dimension(n)} for tensor in given]
    known = {name for i in used for name in plain[i]}
    for i, names in enumerate(plain):
        if names - known:
            wanted.add(i)
            known |= names
    return wanted


def _needed(steps: list[Program | Op], results: list[Any]) -> list[Program | Op]:
    """The steps without ops whose results are unused."""
    used = {each for each in results if isinstance(each, int)}
    kept: list[Program | Op] = []
    for step in reversed(steps):
        if isinstance(step, Program):
            used.update(each for each in step.exported.arguments if isinstance(each, int))
        elif used.isdisjoint(step.results):
            continue
        else:
            used.update(each for each in nest.flatten(list(step.inputs.values())) if isinstance(each, int))
        kept.append(step)
    return kept[::-1]


def _exported(level: Level, arguments: list[int], variables: list[Variable]) -> Exported:
    found = _program(level)
    orders = [found, *_derivatives(level)]
    count = len(level.concrete.traced.outputs)
    return Exported(
        bytes(found.mlir_module_serialized),
        found.calling_convention_version,
        programs.sealed([(4, count), *((1, programs.stored(each)) for each in orders)]),
        bytes(orders[1].mlir_module_serialized) if len(orders) > 1 else None,
        arguments,
        variables,
        [_value(each) for each in found.in_avals],
        [_value(each) for each in found.out_avals],
        [state.variable for state in level.concrete.traced.state] if level.updates else [],
    )


def _check(traced: Traced, name: str) -> None:
    program = traced.plain
    if program.has_effects or program.plan.params or program.plan.supplies:
        raise errors.UnimplementedError(
            None,
            None,
            f"The function {name!r} cannot be saved: it calls Python or takes variables, but a SavedModel written "
            "by gradtape contains only programs.",
        )


def _program(level: Level) -> Any:
    """Export the program of a level: for sizes from 0 on, if JAX can decide everything it has to with such sizes.

    Otherwise sizes of arguments (d0, ...) are at least 1, and finally also those that depend on values (s0, ...).
    """
    for may_be_empty in ("ds", "s"):
        try:
            return _program_for(level, may_be_empty)
        except Exception as error:
            if is_interrupt(error):
                raise
    return _program_for(level, "")


def _sizes_for_jax(shapes: Sequence[Any], may_be_empty: str) -> dict[str, Any]:
    """JAX's dimensions for the variables in shapes, by name: at least 1, minus 1 for those that may be 0."""
    from jax import export

    scope = export.SymbolicScope()
    found = {name: export.symbolic_shape(name, scope=scope)[0] for name in variables_in(shapes)}
    for size in found.values():
        register_kind(type(size))
    return {name: size - int(name[0] in may_be_empty) for name, size in found.items()}


def _program_for(level: Level, may_be_empty: str) -> Any:
    import jax
    from jax import export

    traced = level.concrete.traced
    program = traced.plain
    if not level.updates:
        program = program.with_outputs([each.array for each in traced.outputs])
    sizes = _sizes_for_jax([symbol.shape for symbol in traced.symbols], may_be_empty)
    program = program.with_sizes(tuple(sizes.items())) if sizes else program
    plan = program.plan
    variables = {slot: program.feeds[slot].value for slot, _, _ in (*plan.kept, *plan.donated)}
    numbers = {("argument", number): slot for slot, number in plan.arguments}
    numbers |= {("variable", id(variable)): slot for slot, variable in variables.items()}
    constants = program.constants_for_xla()
    taken = {id(each) for each in level.inputs}
    others = [(slot, variable) for slot, variable in variables.items() if id(variable) not in taken]

    def call(*arrays: Any) -> Any:
        given = list(constants)
        for slot, other in others:  # a vjp names all variables of the trace: no result depends on these
            given[slot] = jax.numpy.zeros(other.shape.as_list(), other.dtype.numpy_dtype)
        for each, array in zip(level.inputs, arrays, strict=True):
            found = numbers.get(("variable", id(each)) if isinstance(each, Variable) else ("argument", each))
            if found is not None:
                given[found] = array
        return program.replay(*given)

    specs = []
    for each in level.inputs:
        symbol = each if isinstance(each, Variable) else traced.symbols[each]
        dtype = each.dtype.numpy_dtype if isinstance(each, Variable) else symbol.dtype
        shape = each.shape.as_list() if isinstance(each, Variable) else symbol.shape
        specs.append(jax.ShapeDtypeStruct(evaluated(tuple(shape), sizes), dtype))
    return export.export(jax.jit(call, keep_unused=True), platforms=PLATFORMS)(*specs)


def _derivatives(level: Level) -> list[Any]:
    """The vjp of a program, and the vjp of that, if they exist: gradtape differentiates, not JAX."""
    made: list[Any] = []
    for _ in range(ORDERS):
        try:
            level = _vjp(level)
            made.append(_program(level))
        except (Exception, NeedsEagerError) as error:  # a program without a derivative, which loading it reports
            if not isinstance(error, NeedsEagerError) and is_interrupt(error):
                raise
            break
    return made


def _vjp(level: Level) -> Level:
    """A function from the inputs and the cotangents of floating results to the cotangents of floating inputs."""
    concrete = level.concrete
    specs, outputs = concrete.input_specs, concrete.output_specs
    wanted = [each for each in level.inputs if _is_float(each if isinstance(each, Variable) else specs[each])]
    floats = [i for i, spec in enumerate(outputs) if _is_float(spec)]
    if not wanted or not floats:
        raise LookupError("nothing is differentiable")

    def backward(*arguments: Any) -> Any:
        xs, g = arguments[: len(specs)], arguments[len(specs) :]
        sources = [each if isinstance(each, Variable) else xs[each] for each in wanted]
        with GradientTape(watch_accessed_variables=False) as tape:
            for source in sources:
                tape.watch(source)
            results = nest.flatten(concrete.run(list(xs)), expand_composites=True)
        found = tape.gradient(
            [results[i] for i in floats], sources, output_gradients=list(g), unconnected_gradients=_ZERO
        )
        return [convert(each) for each in found]

    symbols = [*(t.array for t in concrete.traced.inputs), *(concrete.traced.outputs[i].array for i in floats)]
    made = Function(backward, jit_compile=True).trace_for(symbols)
    _check(made.traced, concrete.name)
    new = list(range(len(specs), len(specs) + len(floats)))
    return Level(made, [*level.inputs, *new], updates=False)


_ZERO = UnconnectedGradients.ZERO


def _is_float(spec: Any) -> bool:
    return bool(spec.dtype.is_floating or spec.dtype.is_complex)


def _value(array: Any) -> Value:
    return Value(dtype_of(np.empty(0, array.dtype)), TensorShape(_shape(array)))


def _shape(array: Any) -> list[int | None]:
    return [None if is_dimension(n) or not isinstance(n, (int, np.integer)) else int(n) for n in array.shape]


@contextmanager
def _without_source_lines() -> Iterator[None]:
    """Context in which programs do not contain the names of source files."""
    import jax

    option = "jax_traceback_in_locations_limit"
    before = getattr(jax.config, option)
    jax.config.update(option, 0)
    try:
        yield
    finally:
        jax.config.update(option, before)
