"""A traced function as StableHLO: what an `XlaCallModule` node of TensorFlow's runs, on processors and GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gradtape._src import errors, nest
from gradtape._src.arrays.dimensions import evaluated, is_dimension, register_kind, variables_in
from gradtape._src.arrays.symbolic import NeedsEagerError, dimensions_as_values
from gradtape._src.autodiff.arguments import UnconnectedGradients
from gradtape._src.conversion import convert
from gradtape._src.dtypes import DType, dtype_of
from gradtape._src.formats.protobuf import encode
from gradtape._src.function.concrete import ConcreteFunction
from gradtape._src.function.eager import EagerFunction
from gradtape._src.function.function import Function
from gradtape._src.inspect.gradient_tape import GradientTape
from gradtape._src.interrupts import contextmanager, is_interrupt
from gradtape._src.saved_model import programs
from gradtape._src.shape import TensorShape, TensorSpec
from gradtape._src.variable import StreamState, Variable

if TYPE_CHECKING:
    from gradtape._src.graph.traced import Traced

PLATFORMS = ("cpu", "cuda")
ORDERS = 2
"""How many derivatives of a program are saved."""


class Value(NamedTuple):
    """The dtype and the shape of an input or a result; unknown dimensions are None."""

    dtype: DType
    shape: TensorShape


class Exported(NamedTuple):
    """A program for any platform.

    `stored` is what gradtape runs again. `backward` takes the inputs and the cotangents of floating results, and gives
    the cotangents of floating inputs; None where there is no derivative. `arguments` are the numbers of the function's
    inputs that it takes first, then come the values of `variables`. Its results are those of the function, then the new
    values of `assigned`.
    """

    module: bytes
    version: int
    stored: bytes
    backward: bytes | None
    arguments: list[int]
    variables: list[Variable]
    inputs: list[Value]
    outputs: list[Value]
    assigned: list[Variable]

    @property
    def captured(self) -> list[Variable]:
        """All variables, each once: the order of the handles that a function takes."""
        return list({id(variable): variable for variable in (*self.variables, *self.assigned)}.values())


class Level(NamedTuple):
    """A function, or a vjp of one: what it was traced to, and the inputs of its program.

    An input is the number of an argument, or a variable. The program of the function itself gives new values of
    variables after its results; that of a vjp, which runs the function again, leaves them out.
    """

    concrete: ConcreteFunction
    inputs: list[int | Variable]
    is_vjp: bool


def exported(concrete: ConcreteFunction) -> Exported:
    """The program of a traced function, for sizes of unknown dimensions that a call decides."""
    traced = concrete.traced
    _check(traced, concrete.name)
    variables = [feed.value for feed in traced.plain.feeds if feed.kind == "variable"]
    level = Level(concrete, [*range(len(traced.inputs)), *variables], is_vjp=False)
    with _without_source_lines(), dimensions_as_values():
        found = _program(level)
        orders = [found, *_derivatives(level)]
    return Exported(
        bytes(found.mlir_module_serialized),
        found.calling_convention_version,
        encode([(4, len(traced.outputs)), *((1, programs.stored(each)) for each in orders)]),
        bytes(orders[1].mlir_module_serialized) if len(orders) > 1 else None,
        list(range(len(traced.inputs))),
        variables,
        [_value(each) for each in found.in_avals],
        [_value(each) for each in found.out_avals],
        [state.variable for state in traced.state],
    )


def _check(traced: Traced, name: str) -> None:
    program = traced.plain
    _, _, passed, supplies = program.plan
    draws = any(type(feed.value) is StreamState for feed in program.feeds)
    if program.is_late:
        raise errors.UnimplementedError(
            None,
            None,
            f"The function {name!r} cannot be saved: shapes in it depend on values, and a SavedModel of gradtape holds "
            "programs of XLA, whose shapes do not.",
        )
    if program.has_effects or passed or supplies or draws:
        raise errors.UnimplementedError(
            None,
            None,
            f"The function {name!r} cannot be saved: it draws random numbers, calls Python or takes variables, and a "
            "SavedModel of gradtape holds pure programs. Take random numbers from tf.random.stateless_*.",
        )


def _program(level: Level) -> Any:
    """A level's program, exported."""
    import jax
    from jax import export

    traced = level.concrete.traced
    program = traced.plain
    if level.is_vjp:
        program = program.with_outputs([each.array for each in traced.outputs])
    sizes = _sizes_for_jax([symbol.shape for symbol in traced.symbols])
    program = program.with_sizes(tuple(sizes.items())) if sizes else program
    places, variables, _, _ = program.plan
    numbers = {("argument", number): slot for slot, number in places}
    numbers |= {("variable", id(program.feeds[slot].value)): slot for slot, _, _ in variables}
    constants = program.constants_for_xla()

    def call(*arrays: Any) -> Any:
        given = list(constants)
        for each, array in zip(level.inputs, arrays, strict=True):
            slot = numbers.get(("variable", id(each)) if isinstance(each, Variable) else ("argument", each))
            if slot is not None:
                given[slot] = array
        return program.replay(*given)

    specs = []
    for each in level.inputs:
        symbol = each if isinstance(each, Variable) else traced.symbols[each]
        dtype = each.dtype.numpy_dtype if isinstance(each, Variable) else symbol.dtype
        shape = each.shape.as_list() if isinstance(each, Variable) else symbol.shape
        specs.append(jax.ShapeDtypeStruct(evaluated(tuple(shape), sizes), dtype))
    return export.export(jax.jit(call, keep_unused=True), platforms=PLATFORMS)(*specs)


def _sizes_for_jax(shapes: Sequence[Any]) -> dict[str, Any]:
    """JAX's dimensions for the variables in shapes, by their names."""
    from jax import export

    scope = export.SymbolicScope()
    sizes = {name: export.symbolic_shape(name, scope=scope)[0] for name in variables_in(shapes)}
    for size in sizes.values():
        register_kind(type(size))
    return sizes


def _derivatives(level: Level) -> list[Any]:
    """The vjp of a program, and the vjp of that one, as far as there are some: gradtape differentiates, not JAX."""
    made: list[Any] = []
    for _ in range(ORDERS):
        try:
            level = _vjp(level)
            made.append(_program(level))
        except (Exception, NeedsEagerError) as error:  # a program without a derivative: loading it says so
            if not isinstance(error, NeedsEagerError) and is_interrupt(error):
                raise
            break
    return made


def _vjp(level: Level) -> Level:
    """A function of the inputs and the cotangents of floating results that gives the cotangents of floating inputs."""
    concrete = level.concrete
    specs, outputs = concrete.inputs, concrete.outputs
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

    cotangents = [TensorSpec(outputs[i].shape, outputs[i].dtype) for i in floats]
    made = Function(backward).get_concrete_function(*specs, *cotangents)
    if made.is_for_each_size or isinstance(made, EagerFunction):
        raise LookupError("the gradient has no program for unknown sizes")
    _check(made.traced, concrete.name)
    new = list(range(len(specs), len(specs) + len(floats)))
    return Level(made, [*level.inputs, *new], is_vjp=True)


_ZERO = UnconnectedGradients.ZERO


def _is_float(spec: Any) -> bool:
    return bool(spec.dtype.is_floating or spec.dtype.is_complex)


def _value(array: Any) -> Value:
    import numpy as np

    shape = [None if is_dimension(n) or not isinstance(n, int) else n for n in array.shape]
    return Value(dtype_of(np.empty(0, array.dtype)), TensorShape(shape))


@contextmanager
def _without_source_lines() -> Iterator[None]:
    """Within the block programs do not name the files that they come from."""
    import jax

    option = "jax_traceback_in_locations_limit"
    before = getattr(jax.config, option)
    jax.config.update(option, 0)
    try:
        yield
    finally:
        jax.config.update(option, before)
