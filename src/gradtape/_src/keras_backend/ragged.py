"""Ragged tensors in Keras' ops: decorators that compute with their values, or with TensorFlow's functions.

An op first runs as it is written, for dense tensors. It fails for a ragged one, and then runs as its decorator says, so
that dense tensors do not pay for it. Ops without a decorator raise their error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from gradtape._src.conversion import convert
from gradtape._src.dtypes import as_dtype as dtype_of
from gradtape._src.keras_backend._common import result_type
from gradtape._src.ops.by_name import logical_or
from gradtape._src.ops.ragged import RaggedTensor
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array, math

Function = Callable[..., Any]


def _rescued(function: Function, on_ragged: Function) -> Function:
    """A function whose arguments may be ragged: if it fails for them, `on_ragged` takes the same arguments."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception:
            if not any(_ragged_in((*args, *kwargs.values()))):
                raise
        return on_ragged(*args, **kwargs)

    return call


def _ragged_in(values: Any) -> Iterator[bool]:
    for value in values:
        yield type(value) is RaggedTensor
        if isinstance(value, (list, tuple)):
            yield from _ragged_in(value)


def elementwise(function: Function) -> Function:
    """Compute an op on the values; dense operands are broadcast to the rows of the ragged ones."""

    def on_ragged(*args: Any, **kwargs: Any) -> Any:
        first = next(value for value in (*args, *kwargs.values()) if type(value) is RaggedTensor)
        values = [_values_like(first, value) for value in args]
        options = {name: _values_like(first, value) for name, value in kwargs.items()}
        return first.with_flat_values(function(*values, **options))

    return _rescued(function, on_ragged)


def _values_like(first: Any, value: Any) -> Any:
    """The values of an operand, one for each value of a ragged tensor; options that are no tensors as they are."""
    if isinstance(value, Tensor) and len(value.shape) > 0:
        value = _broadcast(first, value)
    if type(value) is not RaggedTensor:
        return value
    # a sum of zeros: an error for other row splits
    return value.flat_values if value is first else _broadcast(first, value).flat_values


def _broadcast(first: Any, value: Any) -> Any:
    zeros: Any = array.zeros_like(first, dtype=value.dtype)
    return logical_or(zeros, value) if value.dtype.is_bool else zeros + value


def reduced_by(reduce: Function) -> Callable[[Function], Function]:
    """Compute an op by one of TensorFlow's reductions, in the dtype that the op has for dense tensors."""

    def decorate(function: Function) -> Function:
        def on_ragged(x: Any, axis: Any = None, keepdims: bool = False, **options: Any) -> Any:
            wanted = function(x.flat_values, None, **options).dtype
            return reduce(array.cast(x, wanted), axis=axis, keepdims=keepdims)

        return _rescued(function, on_ragged)

    return decorate


def of_values(function: Function) -> Function:
    """Compute an op on the values of its first argument; the others stay as they are."""
    return _rescued(function, lambda x, *args, **options: x.with_flat_values(function(x.flat_values, *args, **options)))


def by(on_ragged: Function) -> Callable[[Function], Function]:
    """Compute an op of ragged tensors by another function."""
    return lambda function: _rescued(function, on_ragged)


# -- what is neither -------------------------------------------------------------------------------------------------
def concatenate(xs: Any, axis: int = 0) -> Any:
    return array.concat(_promoted(xs), axis)


def stack(x: Any, axis: int = 0) -> Any:
    return array.stack(_promoted(x), axis)


def _promoted(xs: Any) -> list[Any]:
    values: list[Any] = [x if type(x) is RaggedTensor else convert(x) for x in xs]
    wanted = result_type(*[x.dtype for x in values])
    return [array.cast(x, wanted) for x in values]


def expand_dims(x: Any, axis: Any) -> Any:
    given = axis if isinstance(axis, (list, tuple)) else [axis]
    rank = len(x.shape) + len(given)
    found: Any = x
    for place in sorted(i % rank if -rank <= i < rank else i for i in given):
        found = array.expand_dims(found, place)
    return found


def flip(x: Any, axis: Any = None) -> Any:
    axes = range(len(x.shape)) if axis is None else [axis] if isinstance(axis, int) else axis
    return array.reverse(x, list(axes))


def cumsum(x: Any, axis: int | None = None, dtype: Any = None) -> Any:
    values = array.cast(x, "int32" if x.dtype.is_bool else x.dtype) if dtype is None else array.cast(x, dtype)
    return math.cumsum(values if axis is not None else values.flat_values, 0 if axis is None else axis)


def moments(x: Any, axes: Any, keepdims: bool = False, synchronized: bool = False) -> tuple[Any, Any]:
    """The mean and the variance; those of replicas are not joined."""
    if synchronized:
        raise ValueError("Moments of ragged tensors cannot be synchronized among replicas: use to_tensor() first.")
    return math.reduce_mean(x, axes, keepdims), math.reduce_variance(x, axes, keepdims)


def ravel(x: Any) -> Tensor:
    return x.flat_values


def where(condition: Any, x1: Any = None, x2: Any = None) -> Any:
    if x1 is None or x2 is None:
        raise TypeError("keras.ops.where of a ragged condition needs both x1 and x2. Use tf.where for the positions.")
    wanted = result_type(*[getattr(x, "dtype", type(x)) for x in (x1, x2)])
    kind = dtype_of(wanted)
    values: list[Any] = [_cast(x, kind) if type(x) is RaggedTensor else convert(x, kind) for x in (x1, x2)]
    return array.where(condition, *values)


def _cast(x: Any, dtype: Any) -> Any:
    return array.cast(x, dtype)
