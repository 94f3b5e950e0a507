"""Convert values to tensors, and tensors to other dtypes: `tf.convert_to_tensor`, `tf.cast`, `tf.identity`."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from gradtape._src import devices
from gradtape._src.conversion import cast as cast_tensor, convert, converters, operand
from gradtape._src.core.composites import NotDenseError, call_on_composites, dispatched, is_composite
from gradtape._src.dtypes import DType, as_dtype
from gradtape._src.indexed_slices import IndexedSlices, map_values
from gradtape._src.ops import array, math
from gradtape._src.ops.sparse_tensor import SparseTensor, map_values as map_sparse
from gradtape._src.tensor import Tensor
from gradtape._src.variable import Variable, unwrapped

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


def convert_to_tensor(value: TensorLike, dtype: Any = None, dtype_hint: Any = None, name: str | None = None) -> Tensor:
    """Convert a value to a tensor; a tensor is returned unchanged.

    >>> tf.convert_to_tensor([1.0, tf.constant(2.0)]).numpy().tolist()
    [1.0, 2.0]
    """
    if dtype_hint is not None:
        dtype_hint = as_dtype(dtype_hint)
    if isinstance(value, Variable):
        tensor = value.value()
        return convert(tensor, dtype)
    return convert(value, dtype, dtype_hint)


@overload
def cast(x: TensorLike, dtype: Any, name: str | None = None) -> Tensor: ...
@overload
def cast(x: SparseTensor, dtype: Any, name: str | None = None) -> SparseTensor: ...
@overload
def cast(x: IndexedSlices, dtype: Any, name: str | None = None) -> IndexedSlices: ...
def cast(x: TensorLike | SparseTensor | IndexedSlices, dtype: Any, name: str | None = None) -> Any:
    """Convert to another dtype. Conversion to integers truncates toward zero; integers wrap around in a smaller dtype.

    Floating-point numbers beyond the range of an integer dtype become its largest or smallest number; NaN becomes 0.

    >>> tf.cast([1.7, -1.7, 300.0], "int8").numpy().tolist()
    [1, -1, 127]
    """
    wanted = as_dtype(dtype)
    if type(x) is Tensor:
        return cast_tensor(x, wanted)
    if isinstance(x, (IndexedSlices, SparseTensor)):
        over: Any = map_values if isinstance(x, IndexedSlices) else map_sparse
        return over(lambda t: cast(t, wanted), x)
    try:
        tensor = converters[type(x)](x) if type(x) in converters else convert(x)
    except NotDenseError:
        return call_on_composites("cast", cast, (x, dtype), {})
    if tensor.dtype is wanted:
        return tensor if not isinstance(x, Variable) else x.value()
    return cast_tensor(tensor, wanted)


@dispatched
def saturate_cast(value: TensorLike, dtype: Any, name: str | None = None) -> Tensor:
    """Convert to another dtype, after clipping to the range of that dtype.

    For complex numbers, each part is clipped, or only the real part if the new dtype is real.

    >>> tf.saturate_cast([300.0, -1.0, 7.5], "uint8").numpy().tolist()
    [255, 0, 7]
    """
    tensor, wanted = convert(value), as_dtype(dtype)
    if tensor.dtype.is_complex:
        parts = math.real(tensor), math.imag(tensor)
        if not wanted.is_complex:
            tensor = parts[0]
        elif tensor.dtype.size > wanted.size:
            limited = [saturate_cast(part, wanted.real_dtype) for part in parts]
            pair: Tensor = math.complex_(*limited)
            return pair
        else:
            return cast(tensor, wanted)
    low, high = _shared_limits(tensor.dtype, wanted.real_dtype)
    result: Tensor = cast(math.maximum(math.minimum(tensor, high), low), wanted)
    return result


def _shared_limits(have: DType, wanted: DType) -> tuple[Any, Any]:
    """The smallest and the largest number of one real dtype in the range of another, as numbers of the first."""
    ends = [[float(v) if t.is_floating else v for v in (t.min, t.max)] for t in (have, wanted)]
    limits = [builtins.max(ends[0][0], ends[1][0]), builtins.min(ends[0][1], ends[1][1])]
    if not have.is_floating:
        return int(limits[0]), int(limits[1])
    kind = have.as_numpy_dtype
    low, high = (kind(float(limit)) for limit in limits)  # may round to a number out of range
    low = np.nextafter(low, kind(0)) if float(low) < wanted.min else low
    high = np.nextafter(high, kind(0)) if float(high) > wanted.max else high
    return low, high


@overload
def identity(input: TensorLike, name: str | None = None) -> Tensor: ...
@overload
def identity(input: SparseTensor, name: str | None = None) -> SparseTensor: ...
@overload
def identity(input: IndexedSlices, name: str | None = None) -> IndexedSlices: ...
@dispatched
def identity(input: Any, name: str | None = None) -> Any:
    """Copy the tensor; inside `tf.device`, to that device.

    >>> v = tf.Variable(1.0)
    >>> copy = tf.identity(v)
    >>> _ = v.assign(2.0)
    >>> copy.numpy()
    np.float32(1.0)
    """
    if type(input) is SparseTensor:
        return map_sparse(identity, input)
    return map_values(array.identity if not devices.placement.places else _identity, input)


def _identity(x: Any) -> Tensor:
    return devices.identity(operand(x))


@overload
def stop_gradient(input: TensorLike | IndexedSlices, name: str | None = None) -> Tensor: ...
@overload
def stop_gradient(input: SparseTensor, name: str | None = None) -> SparseTensor: ...
@dispatched
def stop_gradient(input: Any, name: str | None = None) -> Any:
    """Return the same values, and treat them as constants in gradients.

    >>> x = tf.Variable(3.0)
    >>> with tf.GradientTape() as tape:
    ...     y = x * tf.stop_gradient(x)
    >>> tape.gradient(y, x).numpy()
    np.float32(3.0)
    """
    if type(input) is SparseTensor:
        return map_sparse(stop_gradient, input)
    result: Tensor = array.stop_gradient(operand(input))
    return result


def is_tensor(x: TensorLike | SparseTensor | IndexedSlices) -> bool:
    """Return whether x is a tensor, dense or sparse, a variable, or IndexedSlices.

    >>> tf.is_tensor(tf.constant(1)), tf.is_tensor(np.ones(2))
    (True, False)
    """
    value = unwrapped(x)
    return isinstance(value, (Tensor, Variable, IndexedSlices)) or is_composite(value)


@dispatched
def complex(real: TensorLike, imag: TensorLike, name: str | None = None) -> Tensor:
    """Create complex numbers from their real and imaginary parts, both float32 or both float64.

    >>> tf.complex(1.0, -2.0).numpy().item()
    (1-2j)
    """
    x, y = operand(real), operand(imag)
    if x.dtype != y.dtype or x.dtype.name not in ("float32", "float64"):
        raise TypeError(
            f"The `real` and `imag` components have incorrect types: {x.dtype.name} {y.dtype.name}. They must be "
            "consistent, and one of [tf.float32, tf.float64]"
        )
    result: Tensor = math.complex_(x, y)
    return result
