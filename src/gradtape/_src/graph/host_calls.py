"""Calls of Python from compiled programs: printing, and functions of NumPy arrays or eager tensors.

An exception in a callback is kept until the program has run. The call that launched the program then raises it.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np

from gradtape._src import errors, forks, nest
from gradtape._src.arrays.dimensions import DynamicSize, DynamicSizeError, is_dimension
from gradtape._src.arrays.graph_ops import register_on_host
from gradtape._src.arrays.symbolic import (
    allows_dynamic_shapes,
    call,
    current_graph,
    is_known,
    no_value,
    only_eager,
    tracing,
)
from gradtape._src.conversion import convert, wrap
from gradtape._src.core import tape as stack
from gradtape._src.core.composites import valid_example
from gradtape._src.core.observe import in_rule
from gradtape._src.core.primitive import program_op
from gradtape._src.core.tape import active_recorders
from gradtape._src.dtypes import as_dtype
from gradtape._src.graph.trace import as_tensor, record, unbatched
from gradtape._src.interrupts import contextmanager, is_interrupt, setting
from gradtape._src.ops import array
from gradtape._src.shape import TensorSpec
from gradtape._src.tensor import Tensor, is_differentiable
from gradtape._src.variable import Variable, called_back

T = TypeVar("T")


class _Launch:
    """A launch of a program that calls Python, and the exceptions of its callbacks."""

    __slots__ = ("__weakref__", "errors", "number")

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.errors: list[BaseException] = []
        _running[self.number] = self


_numbers = itertools.cycle(range(1, 2**31 - 1))
_running: weakref.WeakValueDictionary[int, _Launch] = weakref.WeakValueDictionary()
_launching: ContextVar[_Launch | None] = ContextVar("gradtape_launching", default=None)


@contextmanager
def effects() -> Iterator[None]:
    """Context for launching a program with callbacks: wait for it at the end, and raise the exceptions of its
    callbacks.

    Callbacks run in threads of XLA, which different launches share. So each launch has a number, an input of its
    program and of its callbacks, by which exceptions are assigned to it. Exceptions that come after the block, which a
    signal may have left early, are ignored.
    """
    outside = _launching.get()
    launch = _Launch()
    try:
        _launching.set(launch)
        yield
        _wait_for_effects()
    finally:
        _launching.set(outside)
    if launch.errors:
        raise launch.errors[0]


def _wait_for_effects() -> None:
    if not forks.without_xla:
        import jax  # imported here: while Keras infers shapes, there may be effects to trace without JAX

        jax.effects_barrier()


def _number() -> Any:
    """The number of the current launch; 0 if callbacks run in the thread of the caller, on NumPy."""
    launch = _launching.get()
    return np.asarray(0 if launch is None else launch.number, np.int32)


def _number_input() -> Any:
    """The number of the launch, as an input of the program that is being traced."""
    graph = current_graph()
    assert graph is not None
    return graph.per_call_input((), np.dtype(np.int32), _number)


def _called_back(number: Any, function: Callable[[], T], zeros: T) -> T:
    """Call Python for a program. An exception is assigned to the launch with that number, and the program gets zeros;
    on NumPy it propagates.
    """
    try:
        with called_back(), tracing(None), stack.use_recorders(()), setting(_launching, None):
            return function()
    except BaseException as error:
        if not number:
            raise
        if (launch := _running.get(int(number))) is not None:
            launch.errors.append(error)
        return zeros


def effect(function: Callable[..., Any], tensors: Sequence[Tensor]) -> None:
    """Call a function with the values of tensors, as eager tensors, when the program reaches this point."""

    def host(number: Any, *arrays: Any) -> Any:
        _called_back(number, lambda: function(*[wrap(np.array(a)) for a in arrays]), None)
        return np.int32(0)

    current_graph().add_effect()  # type: ignore[union-attr]
    args = (_number_input(), *[t.array for t in tensors])
    call("host_effect", args, {"function": host, "effect": True})


def function_on_host(
    function: Callable[..., Any], tensors: Sequence[Tensor], wanted: Any, *, differentiable: bool, pure: bool = False
) -> list[Tensor]:
    """Call a Python function from the program. `wanted` are the `TensorSpec`s of its results. A `pure` function depends
    on its arguments alone, and may be called again.

    A program has to know the shapes of its values: without them in the specifications, the function runs eagerly.
    """
    specs = [_spec(w) for w in wanted]
    if any(shape is None for shape, _ in specs) or not (
        allows_dynamic_shapes() or all(_is_static(shape) for shape, _ in specs)
    ):
        raise only_eager(
            ValueError(
                f"The shape of the result of {function} is not known before it is called, but a compiled program "
                "has fixed shapes. Pass a tf.TensorSpec instead of the dtype."
            )
        )

    def computed(arrays: Sequence[Any]) -> tuple[Any, ...]:
        results = _computed(function, arrays)
        for result, (shape, _) in zip(results, specs, strict=True):
            if not _fits(result.shape, shape):
                announced = [n if type(n) is int else -1 for n in shape or ()]
                if pure:  # the rank is that of an example
                    raise DynamicSizeError(f"The rank of an array depends on values: it is {result.ndim}.")
                raise errors.invalid_argument(
                    f"{function} returned an array of shape {errors.brackets(result.shape)}, but declared "
                    f"{errors.brackets(announced)}: a compiled program has fixed shapes"
                )
        return tuple(results)

    def host(number: Any, *arrays: Any) -> tuple[Any, ...]:
        zeros = tuple([_zeros(shape, dtype) for shape, dtype in specs])
        return _called_back(number, lambda: computed(arrays), zeros)

    if not pure:
        current_graph().add_effect()  # type: ignore[union-attr]
    attrs = {"function": host, "specs": tuple(specs), "effect": True}
    values = call("host_function", (_number_input(), *[t.array for t in tensors]), attrs)
    outputs = tuple([wrap(v) for v in values])
    uids = tuple([t.uid for t in tensors])
    rule = _SEEN if differentiable else _UNSEEN
    record(active_recorders(), rule, uids, outputs, tuple(tensors), {"function": function, "pure": pure})
    return list(outputs)


def _spec(wanted: Any) -> tuple[tuple[Any, ...] | None, Any]:
    """The shape of a specification, with dynamic sizes for unknown ones, and its dtype; None for an unknown rank."""
    if not isinstance(wanted, TensorSpec):
        return None, as_dtype(wanted).numpy_dtype
    if wanted.shape.rank is None:
        return None, wanted.dtype.numpy_dtype
    return tuple([DynamicSize() if n is None else n for n in wanted.shape.as_list()]), wanted.dtype.numpy_dtype


def _is_static(shape: tuple[Any, ...] | None) -> bool:
    return shape is not None and all(type(n) is not DynamicSize for n in shape)


def _fits(found: tuple[int, ...], shape: tuple[Any, ...] | None) -> bool:
    wanted = shape or ()
    return len(found) == len(wanted) and all(type(n) is not int or n == m for n, m in zip(wanted, found, strict=True))


def _zeros(shape: tuple[Any, ...] | None, dtype: Any) -> Any:
    return np.zeros([n if type(n) is int else 0 for n in shape or ()], dtype)


def _computed(function: Callable[..., Any], arrays: Sequence[Any]) -> list[Any]:
    result = function(*[wrap(np.array(a)) for a in arrays])
    values = [] if result is None else list(result) if isinstance(result, (list, tuple)) else [result]
    return [np.asarray(convert(v).array) for v in values]


def _is_watchable(x: Tensor) -> bool:
    return is_differentiable(x.array)


def _vjp_function(
    xp: Any, g: list[Any], needs: list[Any], *inputs: Any, function: Callable[..., Any], pure: bool
) -> list[Any]:
    """The gradient of a Python function is another Python function: it runs the first one again under a tape."""
    from gradtape._src.autodiff.gradient_tape import Tape

    rows, g, batched_again = unbatched(g)
    tensors = [as_tensor(x) for x in inputs]
    source_inputs = [i for i, shape in enumerate(needs) if shape is not None]
    there = [i for i, x in enumerate(g) if x is not None]

    def gradient(*values: Tensor) -> list[Any]:
        xs, upstream = list(values[: len(tensors)]), list(values[len(tensors) :])
        with Tape(persistent=rows is not None) as tape, setting(in_rule, False):
            tape.watch([*filter(_is_watchable, xs)])
            result = function(*xs)
            results = list(result) if isinstance(result, (list, tuple)) else [result]
            targets = [convert(results[i]) for i in there]  # under the tape, so that a sparse gradient becomes dense
        sources = [xs[i] for i in source_inputs]
        if rows is None:
            return tape.gradient(targets, sources, upstream, "zero")
        return _row_by_row(lambda *row: tape.gradient(targets, sources, list(row), "zero"), sources, upstream)

    lead = [] if rows is None else [None if is_dimension(rows) else rows]
    wanted = [TensorSpec([*lead, *tensors[i].shape], tensors[i].dtype) for i in source_inputs]
    upstream = [as_tensor(g[i]) for i in there]
    found = function_on_host(gradient, [*tensors, *upstream], wanted, differentiable=True, pure=pure)
    gradients: list[Any] = [None] * len(needs)
    for i, value in zip(source_inputs, found, strict=True):
        gradients[i] = value
    return batched_again(gradients)


def _row_by_row(gradient: Callable[..., list[Any]], sources: list[Tensor], upstream: list[Tensor]) -> list[Tensor]:
    """The gradients of sources for each row of the upstream gradients, stacked."""
    every = [gradient(*row) for row in zip(*[array.unstack(x, axis=0) for x in upstream], strict=True)]
    if not every:
        return [wrap(np.zeros((0, *x.array.shape), x.array.dtype)) for x in sources]
    return [array.stack(*map(convert, column), axis=0) for column in zip(*every, strict=True)]


def _vjp_nothing(xp: Any, g: list[Any], needs: list[Any], *inputs: Any, function: Any, pure: bool) -> list[Any]:
    return [None] * len(needs)


_SEEN = program_op("py_function", "PyFunction", _vjp_function)
_UNSEEN = program_op("numpy_call", "PyFunc", _vjp_nothing)


# -- ops that exist only in eager code -------------------------------------------------------------------------------
_EXAMPLES = (b"1", b"", b"a b c")
"""Strings to try a function with: the first one can be parsed as a number, the last one can be split."""


def _call_on_host(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], error: BaseException, changes: bool
) -> Any:
    """Call a function of strings or tables with eager tensors, as one node of the graph.

    The structure, dtypes and ranks of its results are found by calling it with examples; sizes are dynamic. A function
    that `changes` state returns nothing, and is not tried.
    """
    given = (tuple(args), dict(kwargs))
    flat = nest.flatten(given, expand_composites=True)
    if not changes:
        flat = [convert(leaf) if _is_variable(leaf) else leaf for leaf in flat]
    places = [i for i, leaf in enumerate(flat) if isinstance(leaf, Tensor) and not is_known(leaf)]
    if not allows_dynamic_shapes() or any(map(_is_not_for_host, flat)):
        raise error

    def called(tensors: Sequence[Tensor]) -> Any:
        leaves = list(flat)
        for place, tensor in zip(places, tensors, strict=True):
            leaves[place] = tensor
        packed_args, packed_kwargs = nest.pack_sequence_as(given, leaves, expand_composites=True)
        return function(*packed_args, **packed_kwargs)

    tensors = [flat[i] for i in places]
    if changes:
        current_graph().leave_to_numpy()  # type: ignore[union-attr]
        return effect(lambda *values: called(values), tensors)
    example = _example(called, _examples(given, flat, places), error)
    leaves = nest.flatten(example, expand_composites=True)
    wanted = [TensorSpec([None] * len(leaf.array.shape), leaf.dtype) for leaf in leaves]
    differentiable = any(is_differentiable(t.array) for t in tensors)

    def on_host(*values: Tensor) -> list[Tensor]:
        return nest.flatten(called(values), expand_composites=True)

    current_graph().leave_to_numpy()  # type: ignore[union-attr]
    found = function_on_host(on_host, tensors, wanted, differentiable=differentiable, pure=True)
    return nest.pack_sequence_as(example, found, expand_composites=True)


def _is_variable(leaf: Any) -> bool:
    """Whether an argument is a variable, of eager code or of a graph of TensorFlow 1."""
    return isinstance(leaf, Variable) or hasattr(type(leaf), "is_graph_variable")


def _is_not_for_host(leaf: Any) -> bool:
    """Whether an argument is Python code or a variable, which may contain values of the graph."""
    return _is_variable(leaf) or (callable(leaf) and not isinstance(leaf, (Tensor, type)))


def _example(called: Callable[[Sequence[Tensor]], Any], examples: Iterable[Sequence[Tensor]], error: Any) -> Any:
    """The result of a function for one of the examples; None unless all of its leaves are tensors."""
    for tensors in examples:
        try:
            with tracing(None), stack.use_recorders(()):
                found = called(tensors)
        except Exception as failed:
            if is_interrupt(failed):
                raise
            continue
        if all(isinstance(leaf, Tensor) for leaf in nest.flatten(found, expand_composites=True)):
            return found
    raise error


def _examples(given: Any, flat: Sequence[Any], places: Sequence[int]) -> Iterator[list[Tensor]]:
    """Example arguments: tensors of ones or of strings for the given leaves; composite tensors are valid."""
    for text in _EXAMPLES:
        leaves = list(flat)
        for place in places:
            leaves[place] = _filled_example(flat[place].array, text)
        start = 0
        for value in nest.flatten(given):
            stop = start + len(nest.flatten(value, expand_composites=True))
            unknown = [i - start for i in places if start <= i < stop]
            leaves[start:stop] = valid_example(value, leaves[start:stop], unknown)
            start = stop
        yield [leaves[place] for place in places]
    concrete = current_graph().concrete  # type: ignore[union-attr]
    if concrete is not no_value:  # what this call has: sizes may have to fit others
        yield [wrap(concrete(flat[place].array)) for place in places]


def _filled_example(array: Any, text: bytes) -> Tensor:
    shape = [n if isinstance(n, int) else 2 for n in array.shape]
    return wrap(np.full(shape, text, object) if array.dtype.kind == "O" else np.ones(shape, array.dtype))


register_on_host(_call_on_host)
