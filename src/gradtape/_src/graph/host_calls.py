"""Python inside of compiled programs: printing, and functions of NumPy arrays or eager tensors.

The program calls back when it comes to them. What they raise is kept until the program has run, and raised then, as
it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from gradtape._src import errors, forks
from gradtape._src.arrays.symbolic import call, only_eager, tracing
from gradtape._src.conversion import convert, wrap
from gradtape._src.core import tape as stack
from gradtape._src.core.primitive import program_op
from gradtape._src.core.tape import active_recorders
from gradtape._src.dtypes import as_dtype
from gradtape._src.graph.program import raises_directly
from gradtape._src.graph.trace import record
from gradtape._src.interrupts import guarded
from gradtape._src.shape import TensorSpec
from gradtape._src.tensor import Tensor, is_differentiable
from gradtape._src.variable import called_back

failures: list[BaseException] = []
"""What callbacks raised while a program ran."""

_abandoned: list[None] = []
"""An entry for each program whose caller was interrupted by a signal. Errors of its callbacks are ignored."""


class effects:
    """Around the launch of a program that calls Python: at the end wait for it, and raise what went wrong."""

    __slots__ = ()

    def __enter__(self) -> None:
        if _abandoned:
            _wait_for_effects()
            failures.clear()
            _abandoned.clear()

    @guarded
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                _wait_for_effects()
            else:
                _abandoned.append(None)
        except BaseException:
            _abandoned.append(None)
            raise
        if failures and kind is None:
            first = failures[0]
            failures.clear()
            raise first


def _wait_for_effects() -> None:
    if not forks.without_xla:
        import jax  # not at the top: while Keras infers shapes, there may be effects to trace and no JAX

        jax.effects_barrier()


def forget_failures() -> None:
    """Wait for callbacks, and forget what they raised: they were called for values alone."""
    _wait_for_effects()
    failures.clear()


def effect(function: Callable[..., Any], tensors: Sequence[Tensor]) -> None:
    """Call a function with the values of tensors, as eager tensors, whenever the program comes to this place."""

    def host(*arrays: Any) -> Any:
        try:
            with called_back(), tracing(None), stack.use_recorders(()):
                function(*[wrap(np.array(a)) for a in arrays])
        except BaseException as error:
            if raises_directly.get():
                raise
            failures.append(error)
        return np.int32(0)

    call("host_effect", tuple(t.array for t in tensors), {"function": host, "effect": True})


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

    def host(*arrays: Any) -> Any:
        try:
            with called_back():
                results = _computed(function, arrays)
            for result, (shape, _) in zip(results, specs, strict=True):
                if tuple(result.shape) != shape:
                    raise errors.invalid_argument(
                        f"{function} returned an array of shape {errors.brackets(result.shape)}, where "
                        f"{errors.brackets(shape)} was announced: a compiled program has fixed shapes"
                    )
            return tuple(results)
        except BaseException as error:
            if raises_directly.get():
                raise
            failures.append(error)
            return tuple(np.zeros(shape or (), dtype) for shape, dtype in specs)

    attrs = {"function": host, "specs": tuple(specs), "effect": True}
    values = call("host_function", tuple(t.array for t in tensors), attrs)
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
    with tracing(None), stack.use_recorders(()):
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
        with Tape() as tape:
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
