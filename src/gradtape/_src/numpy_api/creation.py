"""Creation of arrays: `array`, `arange`, `zeros`, `eye` and others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src.dtypes import as_dtype
from gradtape._src.numpy_api.types import (
    default_dtype,
    floating,
    numpy_result_type,
    promoted,
    sizes,
    tensor,
    wanted_dtype,
)
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array as tf_array, diagonals, math, shaping
from gradtape._src.tf.array import cast

if TYPE_CHECKING:
    from collections.abc import Sequence


def _shape(shape: Any) -> list[int]:
    return [int(n) for n in np.atleast_1d(np.asarray(shape))] if np.ndim(shape) or np.size(shape) else []


def array(val: Any, dtype: Any = None, copy: bool = True, ndmin: int = 0) -> Tensor:
    """A tensor of nested lists, numbers, arrays or tensors; Python's numbers are int64 and float64.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.array([1, 2.5]).dtype
    tf.float64
    """
    if dtype is not None:
        dtype = wanted_dtype(dtype)
    found = tensor(val, dtype)
    if copy and found is val:
        found = tf_array.identity(found)
    missing = ndmin - (found.shape.rank or 0)
    for _ in range(missing):
        found = tf_array.expand_dims(found, 0)
    return found


def asarray(a: Any, dtype: Any = None) -> Tensor:
    """A tensor: the same one if it already is one of this dtype.

    >>> import gradtape as tf
    >>> x = tf.constant([1.0])
    >>> tf.experimental.numpy.asarray(x) is x
    True
    """
    return array(a, dtype, copy=False)


def asanyarray(a: Any, dtype: Any = None) -> Tensor:
    """The same as `asarray`."""
    return asarray(a, dtype)


def ascontiguousarray(a: Any, dtype: Any = None) -> Tensor:
    """A tensor of at least one dimension.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.ascontiguousarray(3).shape
    TensorShape([1])
    """
    return array(a, dtype, ndmin=1)


def copy(a: Any) -> Tensor:
    """A copy of an array."""
    return array(a, copy=True)


def zeros(shape: Any, dtype: Any = float) -> Tensor:
    """Zeros, of float64 unless told otherwise.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.zeros(2).numpy()
    array([0., 0.])
    """
    return tf_array.zeros(_shape(shape), wanted_dtype(dtype))


def ones(shape: Any, dtype: Any = float) -> Tensor:
    """Ones, of float64 unless told otherwise.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.ones((2,)).numpy()
    array([1., 1.])
    """
    return tf_array.ones(_shape(shape), wanted_dtype(dtype))


def empty(shape: Any, dtype: Any = float) -> Tensor:
    """An array whose values have no meaning: zeros."""
    return zeros(shape, dtype)


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    """An array of one value, which may broadcast.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.full((2,), 7).numpy()
    array([7, 7])
    """
    return tf_array.broadcast_to(array(fill_value, dtype), _shape(shape))


def zeros_like(a: Any, dtype: Any = None) -> Tensor:
    """Zeros of the shape and dtype of another array.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.zeros_like([1, 2]).numpy()
    array([0, 0])
    """
    return tf_array.zeros_like(tensor(a), None if dtype is None else wanted_dtype(dtype))


def ones_like(a: Any, dtype: Any = None) -> Tensor:
    """Ones of the shape and dtype of another array.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.ones_like([1.0]).numpy()
    array([1.])
    """
    return tf_array.ones_like(tensor(a), None if dtype is None else wanted_dtype(dtype))


def empty_like(a: Any, dtype: Any = None) -> Tensor:
    """An array of the shape and dtype of another one: zeros."""
    return zeros_like(a, dtype)


def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None
) -> Tensor:
    """One value in the shape and dtype of another array.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.full_like([1, 2], 5).numpy()
    array([5, 5])
    """
    if order != "K" or not subok or shape is not None:
        raise ValueError(
            f"Non-standard orders, subok=False and shape are not supported. Received: {order!r}, {subok!r}, {shape!r}"
        )
    like = tensor(a)
    value = tensor(fill_value, like.dtype if dtype is None else wanted_dtype(dtype))
    return tf_array.broadcast_to(value, tf_array.shape(like))


def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = float) -> Tensor:
    """Ones on a diagonal.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.eye(2, 3, k=1).numpy().tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    return tf_array.constant(np.eye(N, M, k), wanted_dtype(dtype))


def identity(n: int, dtype: Any = float) -> Tensor:
    """The identity matrix.

    >>> import gradtape as tf
    >>> import numpy as np
    >>> tf.experimental.numpy.identity(2, np.int32).numpy().tolist()
    [[1, 0], [0, 1]]
    """
    return eye(n, n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Tensor:
    """Ones at and below a diagonal.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.tri(2).numpy().tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    return tf_array.constant(np.tri(N, M, k), wanted_dtype(float if dtype is None else dtype))


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Tensor:
    """Numbers at equal distances.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.arange(1, 2, 0.25).numpy()
    array([1.  , 1.25, 1.5 , 1.75])
    """
    if not np.ndim(step) and not isinstance(step, Tensor) and not step:
        raise ValueError("Argument `step` must be nonzero. Received: step=0")
    known = [value for value in (start, stop, step) if value is not None]
    wanted = as_dtype(numpy_result_type(*known) if dtype is None else wanted_dtype(dtype))
    low, high = (0, start) if stop is None else (start, stop)
    low, high, by = (tensor(v, wanted) for v in (low, high, step))
    return tf_array.range(low, high, by)


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = float,
    axis: int = 0,
) -> Any:
    """A number of values at equal distances, with both ends or without the last.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.linspace(0, 1, 5, endpoint=False).numpy()
    array([0. , 0.2, 0.4, 0.6, 0.8])
    """
    low, high = (cast(x, default_dtype(float)) if not x.dtype.is_complex else x for x in promoted(start, stop))
    if num < 0:
        raise ValueError(f"Argument `num` (number of samples) must be a non-negative integer. Received: num={num}")
    parts = num - 1 if endpoint else num
    step = (high - low) / parts if parts > 0 else (high - low) * np.nan
    if num == 0:
        found: Any = tf_array.zeros([0], low.dtype)
    elif endpoint:
        found = tf_array.linspace(low, high, num, axis=axis)
    else:
        found = tf_array.linspace(low, high - step, num, axis=axis)
    found = found if dtype is None else cast(found, wanted_dtype(dtype))
    return (found, step) if retstep else found


def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: float = 10.0, dtype: Any = None, axis: int = 0
) -> Tensor:
    """Powers of a base, whose exponents are at equal distances.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.logspace(0, 2, 3).numpy()
    array([  1.,  10., 100.])
    """
    exponents = linspace(start, stop, num, endpoint, axis=axis)
    found = math.pow(tf_array.cast(base, exponents.dtype), exponents)
    return found if dtype is None else cast(found, wanted_dtype(dtype))


def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Tensor:
    """Values with equal quotients.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.geomspace(1.0, 8.0, 4).numpy().round(6)
    array([1., 2., 4., 8.])
    """
    low, high = (floating(x) for x in promoted(start, stop))
    wanted = low.dtype if dtype is None else wanted_dtype(dtype)
    negative = math.logical_and(low < 0, high < 0)
    sign = tf_array.where(negative, -tf_array.ones_like(low), tf_array.ones_like(low))
    logs = linspace(math.log(low * sign), math.log(high * sign), num, endpoint, dtype=None, axis=axis)
    return cast(math.exp(logs) * sign, wanted)


def diag(v: Any, k: int = 0) -> Tensor:
    """A matrix with a diagonal, or the diagonal of a matrix.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.diag([[1, 2], [3, 4]]).numpy()
    array([1, 4])
    """
    x = tensor(v)
    if x.shape.rank == 1:
        return diagonals.diag(x, k=k)
    if x.shape.rank != 2:
        raise ValueError("Input must be 1- or 2-d.")
    rows, columns = sizes(x)
    if k >= columns or -k >= rows:
        return tf_array.zeros([0], x.dtype)
    return diagonals.diag_part(x, k=k)


def diagflat(v: Any, k: int = 0) -> Tensor:
    """A matrix with the flattened values on a diagonal.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.diagflat([1, 2]).numpy().tolist()
    [[1, 0], [0, 2]]
    """
    return diag(tf_array.reshape(tensor(v), [-1]), k)


def diag_indices(n: int, ndim: int = 2) -> tuple[Tensor, ...]:
    """The positions on the main diagonal.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.diag_indices(2)[0].numpy().tolist()
    [0, 1]
    """
    if n < 0:
        raise ValueError(f"n argument to diag_indices must be nonnegative, but got {n}")
    if ndim < 0:
        raise ValueError(f"ndim argument to diag_indices must be nonnegative, but got {ndim}")
    return (tf_array.range(n),) * ndim


def meshgrid(*xi: Any, **kwargs: Any) -> list[Tensor]:
    """Coordinates of a grid.

    >>> import gradtape as tf
    >>> [x.numpy().tolist() for x in tf.experimental.numpy.meshgrid([1, 2], [3, 4])]
    [[[1, 2], [1, 2]], [[3, 3], [4, 4]]]
    """
    if kwargs.get("sparse"):
        raise ValueError("Function `meshgrid` does not support returning sparse arrays yet. Received: sparse=True")
    if not kwargs.get("copy", True):
        raise ValueError("Function `meshgrid` only supports copy=True. Received: copy=False")
    indexing = kwargs.get("indexing", "xy")
    return list(shaping.meshgrid(*(tensor(x) for x in xi), indexing=indexing))


def ix_(*args: Any) -> list[Tensor]:
    """An open grid of positions.

    >>> import gradtape as tf
    >>> [x.shape.as_list() for x in tf.experimental.numpy.ix_([0, 1], [2])]
    [[2, 1], [1, 1]]
    """
    found = []
    for i, arg in enumerate(args):
        x = tensor(arg)
        if x.shape.rank != 1:
            raise ValueError(f"Arguments must be 1-d, got arg {i} of rank {x.shape.rank}")
        if x.dtype.is_bool:
            x = tf_array.where(x)[:, 0]
        found.append(tf_array.reshape(x, [-1 if j == i else 1 for j in range(len(args))]))
    return found


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Tensor:
    """Powers of a vector, as columns.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.vander([1, 2, 3], 2).numpy().tolist()
    [[1, 1], [2, 1], [3, 1]]
    """
    values = tensor(x)
    count = sizes(values)[0] if N is None else N
    if count < 0:
        raise ValueError("N must be nonnegative.")
    if not count:
        return tf_array.zeros([sizes(values)[0], 0], values.dtype)
    columns = [tf_array.ones_like(values)]
    for _ in range(count - 1):
        columns.append(columns[-1] * values)
    return tf_array.stack(columns if increasing else columns[::-1], axis=1)


__all__: Sequence[str] = (
    "arange", "array", "asanyarray", "asarray", "ascontiguousarray", "copy", "diag", "diag_indices", "diagflat",
    "empty", "empty_like", "eye", "full", "full_like", "geomspace", "identity", "ix_", "linspace", "logspace",
    "meshgrid", "ones", "ones_like", "tri", "vander", "zeros", "zeros_like",
)  # fmt: skip
