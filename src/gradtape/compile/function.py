"""`tf.function`, run eagerly: decorated code computes and differentiates as written, op by op.

Compilation through XLA is not here yet. Until then the decorator keeps TensorFlow's contract with callers (arguments
are bound and converted by the signature, results are tensors, methods bind) and says once that nothing is compiled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from gradtape import nest
from gradtape.autodiff.gradient_tape import logger
from gradtape.conversion import convert
from gradtape.indexed_slices import IndexedSlices
from gradtape.shape import TensorSpec
from gradtape.tensor import Tensor
from gradtape.variable import Variable

_said: list[str] = []


class Function:
    """A Python function that TensorFlow would compile; here each call runs it.

    >>> import gradtape as tf
    >>> @tf.function
    ... def double(x):
    ...     return 2 * x
    >>> float(double(tf.constant(3.0)))
    6.0
    """

    def __init__(self, python_function: Callable[..., Any], input_signature: Sequence[Any] | None = None) -> None:
        if not callable(python_function):
            raise TypeError(f"tf.function decorates functions. Received {python_function!r}.")
        functools.update_wrapper(self, python_function)
        self._python_function = python_function
        self._signature = None if input_signature is None else tuple(input_signature)

    @property
    def python_function(self) -> Callable[..., Any]:
        """The function as it was written."""
        return self._python_function

    @property
    def input_signature(self) -> tuple[Any, ...] | None:
        """The declared specifications of the arguments, if any."""
        return self._signature

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        _say_once()
        if self._signature is not None:
            args = self._bound(args, kwargs)
            kwargs = {}
        return nest.map_structure(_as_result, self._python_function(*args, **kwargs))

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """A method: the function bound to its object."""
        if instance is None:
            return self
        bound = Function(functools.partial(self._python_function, instance), self._signature)
        functools.update_wrapper(bound, self._python_function)
        return bound

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments converted to what the signature declares, or TensorFlow's error."""
        assert self._signature is not None
        try:
            given = self._positional(args, kwargs)
            if len(given) != len(self._signature):
                raise TypeError(f"{len(self._signature)} arguments are declared, {len(given)} were given")
            return tuple(_conforming(value, spec) for value, spec in zip(given, self._signature, strict=True))
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"Binding inputs to tf.function failed due to `{error}`. Received args: {args} and kwargs: {kwargs} "
                f"for signature: {self._signature}."
            ) from None

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        if not kwargs:
            return args
        import inspect

        bound = inspect.signature(self._python_function).bind(*args, **kwargs)
        return tuple(bound.arguments.values())

    def __repr__(self) -> str:
        return f"<gradtape.Function {getattr(self, '__name__', self._python_function)!r}, run eagerly>"


def _conforming(value: Any, spec: Any) -> Any:
    if not isinstance(spec, TensorSpec):
        return nest.map_structure(_conforming, value, spec) if nest.is_nested(spec) else value
    tensor = convert(value, None if isinstance(value, (Tensor, Variable)) else spec.dtype)
    if tensor.dtype != spec.dtype or not spec.shape.is_compatible_with(tensor.shape):
        raise TypeError(f"Can not cast TensorSpec(shape={tensor.shape}, dtype={tensor.dtype!r}, name=None) to {spec!r}")
    return tensor


def _as_result(value: Any) -> Any:
    if value is None or isinstance(value, (Tensor, IndexedSlices)):
        return value
    return value.value() if isinstance(value, Variable) else convert(value)


def _say_once() -> None:
    if not _said:
        _said.append("eager")
        logger().warning(
            "tf.function runs its code eagerly: this version of gradtape does not compile. Values and gradients are "
            "the same."
        )


def function(
    func: Callable[..., Any] | None = None,
    input_signature: Sequence[Any] | None = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    experimental_implements: str | None = None,
    experimental_autograph_options: Any = None,
    experimental_attributes: Any = None,
    experimental_relax_shapes: bool | None = None,
    experimental_compile: bool | None = None,
    experimental_follow_type_hints: bool | None = None,
) -> Any:
    """Decorate a function that TensorFlow would compile; with and without arguments.

    >>> import gradtape as tf
    >>> @tf.function(jit_compile=True)
    ... def energy(x):
    ...     return tf.reduce_sum(x * x)
    >>> x = tf.Variable([1.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     y = energy(x)
    >>> tape.gradient(y, x).numpy().tolist()
    [2.0, 4.0]
    """

    def decorate(python_function: Callable[..., Any]) -> Function:
        return Function(python_function, input_signature)

    return decorate if func is None else decorate(func)


def do_not_convert(func: Callable[..., Any] | None = None) -> Any:
    """Leave a function's control flow as it is: eager code is never converted."""
    return do_not_convert if func is None else func


def inside_function() -> bool:
    """Whether the code is being compiled: it runs eagerly."""
    return False
