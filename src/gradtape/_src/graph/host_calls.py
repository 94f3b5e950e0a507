"""Python inside of compiled programs: printing, and functions of NumPy arrays or eager tensors.

The program calls back when it comes to them. What they raise is kept until the program has run, and raised by the call
that launched it, as it was.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np

from gradtape._src import errors, forks
from gradtape._src.arrays.symbolic import call, current_graph, only_eager, tracing
from gradtape._src.conversion import convert, wrap
from gradtape._src.core import tape as stack
from gradtape._src.core.observe import in_rule
from gradtape._src.core.primitive import program_op
from gradtape._src.core.tape import active_recorders
from gradtape._src.dtypes import as_dtype
from gradtape._src.graph.trace import record
from gradtape._src.interrupts import contextmanager, setting
from gradtape._src.shape import TensorSpec
from gradtape._src.tensor import Tensor, is_differentiable
from gradtape._src.variable import called_back

T = TypeVar("T")


class _Launch:
    """A call of a program that calls Python, and what its callbacks have raised."""

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
    """Around the launch of a program that calls Python: at the end wait for it, and raise what its callbacks raised.

    Callbacks run in threads of XLA, where those of several calls mix. So each call has a number, which is an input of
    its program and of its callbacks: what they raise belongs to that call. After the block, which a signal may have
    left early, what they raise is ignored.
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
        import jax  # not at the top: while Keras infers shapes, there may be effects to trace and no JAX

        jax.effects_barrier()


def _number() -> Any:
    """The number of the call that is being launched; 0 where callbacks run in the thread of the caller, on NumPy."""
    launch = _launching.get()
    return np.asarray(0 if launch is None else launch.number, np.int32)


def _number_input() -> Any:
    """The number of the call, as an input of the program that is being traced."""
    graph = current_graph()
    assert graph is not None
    return graph.per_call_input((), np.dtype(np.int32), _number)


def _called_back(number: Any, function: Callable[[], T], zeros: T) -> T:
    """Call Python for a program. What it raises goes to the call with that number, and the program gets zeros; on
    NumPy it goes on to the caller.
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
    """Call a function with the values of tensors, as eager tensors, whenever the program comes to this place."""

    def host(number: Any, *arrays: Any) -> Any:
        _called_back(number, lambda: function(*[wrap(np.array(a)) for a in arrays]), None)
        return np.int32(0)

    args = (_number_input(), *[t.array for t in tensors])
    call("host_effect", args, {"function": host, "effect": True})


def function_on_host(
    function: Callable[..., Any], tensors: Sequence[Tensor], wanted: Any, *, differentiable: bool
) -> list[Tensor]:
    """A Python function as a part of the program. `wanted` are `TensorSpec`s with shapes.

    A program has to know the shapes of its values: where a specification does not say them there is no program.
    """
    specs = [_spec(w) for w in wanted]
    if any(shape is None for shape, _ in specs):
        raise only_eager(
            ValueError(
                f"The shape of what {function} returns is not known before it is called, and a compiled program has "
                "fixed shapes. Say it with a tf.TensorSpec in the place of the dtype."
            )
        )

    def computed(arrays: Sequence[Any]) -> tuple[Any, ...]:
        results = _computed(function, arrays)
        for result, (shape, _) in zip(results, specs, strict=True):
            if tuple(result.shape) != shape:
                raise errors.invalid_argument(
                    f"{function} returned an array of shape {errors.brackets(result.shape)}, where "
                    f"{errors.brackets(shape)} was announced: a compiled program has fixed shapes"
                )
        return tuple(results)

    def host(number: Any, *arrays: Any) -> tuple[Any, ...]:
        zeros = tuple([np.broadcast_to(np.zeros((), dtype), shape or ()) for shape, dtype in specs])
        return _called_back(number, lambda: computed(arrays), zeros)

    attrs = {"function": host, "specs": tuple(specs), "effect": True}
    values = call("host_function", (_number_input(), *[t.array for t in tensors]), attrs)
    outputs = tuple([wrap(v) for v in values])
    uids = tuple([t.uid for t in tensors])
    rule = _SEEN if differentiable else _UNSEEN
    record(active_recorders(), rule, uids, outputs, tuple(tensors), {"function": function})
    return list(outputs)


def _spec(wanted: Any) -> tuple[tuple[int, ...] | None, Any]:
    if isinstance(wanted, TensorSpec):
        known = wanted.shape.is_fully_defined()
        return tuple(wanted.shape.as_list()) if known else None, wanted.dtype.numpy_dtype  # type: ignore[arg-type]
    return None, as_dtype(wanted).numpy_dtype


def _computed(function: Callable[..., Any], arrays: Sequence[Any]) -> list[Any]:
    result = function(*[wrap(np.array(a)) for a in arrays])
    values = [] if result is None else list(result) if isinstance(result, (list, tuple)) else [result]
    return [np.asarray(convert(v).array) for v in values]


def _vjp_function(xp: Any, g: list[Any], needs: list[Any], *inputs: Any, function: Callable[..., Any]) -> list[Any]:
    """The gradient of a Python function is a Python function: run it again under a tape."""
    from gradtape._src.autodiff.gradient_tape import Tape

    tensors = [t if isinstance(t, Tensor) else wrap(t) for t in inputs]
    asked = [i for i, shape in enumerate(needs) if shape is not None]
    there = [i for i, x in enumerate(g) if x is not None]

    def gradient(*values: Tensor) -> list[Any]:
        xs, upstream = list(values[: len(tensors)]), values[len(tensors) :]
        with Tape() as tape, setting(in_rule, False):
            tape.watch([x for x in xs if is_differentiable(x.array)])
            result = function(*xs)
        results = list(result) if isinstance(result, (list, tuple)) else [result]
        targets = [convert(results[i]) for i in there]
        return tape.gradient(targets, [xs[i] for i in asked], list(upstream), "zero")

    wanted = [TensorSpec(tensors[i].shape, tensors[i].dtype) for i in asked]
    upstream = [x if isinstance(x, Tensor) else wrap(x) for x in (g[i] for i in there)]
    found = function_on_host(gradient, [*tensors, *upstream], wanted, differentiable=True)
    gradients: list[Any] = [None] * len(needs)
    for i, value in zip(asked, found, strict=True):
        gradients[i] = value
    return gradients


def _vjp_nothing(xp: Any, g: list[Any], needs: list[Any], *inputs: Any, function: Any) -> list[Any]:
    return [None] * len(needs)


_SEEN = program_op("py_function", "PyFunction", _vjp_function)
_UNSEEN = program_op("numpy_call", "PyFunc", _vjp_nothing)
