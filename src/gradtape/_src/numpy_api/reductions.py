"""NumPy's sums, extremes, means and cumulative functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradtape._src.dtypes import as_dtype
from gradtape._src.numpy_api.elementwise import named
from gradtape._src.numpy_api.shapes import moveaxis, ravel
from gradtape._src.numpy_api.types import default_dtype, floating, numpy_result_type, promoted, tensor, wanted_dtype
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array, math as tf_math
from gradtape._src.tf.array import cast

if TYPE_CHECKING:
    from collections.abc import Callable


def _widened(x: Tensor, dtype: Any, to_float: bool = False) -> Tensor:
    """The operand of a sum: small integers as int64 (uint64), for means floating numbers."""
    if dtype is not None:
        return cast(x, wanted_dtype(dtype))
    if to_float:
        return floating(x)
    if x.dtype.is_bool or (x.dtype.is_integer and x.dtype.size < default_dtype(int).itemsize):
        wide = default_dtype(int).name
        return cast(x, f"u{wide}" if x.dtype.is_unsigned else wide)
    return x


def _sum_like(name: str, function: Callable[..., Any], doc: str) -> Any:
    def call(a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = None) -> Any:
        return function(_widened(tensor(a), dtype), axis, bool(keepdims))

    return named(call, name, doc)


sum = _sum_like("sum", tf_math.reduce_sum, "The sum over axes; small integers add up as int64.")
prod = _sum_like("prod", tf_math.reduce_prod, "The product over axes; small integers multiply as int64.")


def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = None) -> Tensor:
    """The mean over axes; of integers in float64.

    >>> import gradtape as tf
    >>> float(tf.experimental.numpy.mean([1, 2]))
    1.5
    """
    if out is not None:
        raise ValueError("Setting out is not supported.")
    return tf_math.reduce_mean(_widened(tensor(a), dtype, to_float=True), axis, bool(keepdims))


def _extreme(function: Callable[..., Any], of_bools: Callable[..., Any], a: Any, axis: Any, keepdims: Any) -> Tensor:
    x = tensor(a)
    return (of_bools if x.dtype.is_bool else function)(x, axis, bool(keepdims))


def max(a: Any, axis: Any = None, keepdims: Any = None) -> Tensor:
    """The largest element over axes.

    >>> import gradtape as tf
    >>> int(tf.experimental.numpy.max([1, 3, 2]))
    3
    """
    return _extreme(tf_math.reduce_max, tf_math.reduce_any, a, axis, keepdims)


def min(a: Any, axis: Any = None, keepdims: Any = None) -> Tensor:
    """The smallest element over axes.

    >>> import gradtape as tf
    >>> int(tf.experimental.numpy.min([1, 3, 2]))
    1
    """
    return _extreme(tf_math.reduce_min, tf_math.reduce_all, a, axis, keepdims)


def amax(a: Any, axis: Any = None, out: Any = None, keepdims: Any = None) -> Tensor:
    """The same as `max`."""
    return max(a, axis, keepdims)


def amin(a: Any, axis: Any = None, out: Any = None, keepdims: Any = None) -> Tensor:
    """The same as `min`."""
    return min(a, axis, keepdims)


def ptp(a: Any, axis: Any = None, keepdims: Any = None) -> Tensor:
    """The distance from the smallest to the largest element.

    >>> import gradtape as tf
    >>> int(tf.experimental.numpy.ptp([1, 3, 2]))
    2
    """
    return max(a, axis, keepdims) - min(a, axis, keepdims)


def all(a: Any, axis: Any = None, keepdims: Any = None) -> Tensor:
    """Whether all elements are true.

    >>> import gradtape as tf
    >>> bool(tf.experimental.numpy.all([1, 0]))
    False
    """
    return tf_math.reduce_all(cast(tensor(a), "bool"), axis, bool(keepdims))


def any(a: Any, axis: Any = None, keepdims: Any = None) -> Tensor:
    """Whether an element is true.

    >>> import gradtape as tf
    >>> bool(tf.experimental.numpy.any([1, 0]))
    True
    """
    return tf_math.reduce_any(cast(tensor(a), "bool"), axis, bool(keepdims))


def var(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, keepdims: Any = None) -> Tensor:
    """The variance over axes; `ddof` is subtracted from the number of elements.

    >>> import gradtape as tf
    >>> float(tf.experimental.numpy.var([1, 2, 3], ddof=1))
    1.0
    """
    if out is not None:
        raise ValueError("Setting out is not supported.")
    given = tensor(a)
    x = floating(given) if dtype is None else cast(given, as_dtype(numpy_result_type(given, wanted_dtype(dtype))))
    deviation = x - tf_math.reduce_mean(x, axis, True)
    squares = tf_math.real(deviation * tf_math.conj(deviation)) if x.dtype.is_complex else tf_math.square(deviation)
    total = tf_math.reduce_sum(squares, axis, bool(keepdims))
    number = cast(array.size(x), total.dtype) / cast(array.size(total), total.dtype)
    found = total / (number - ddof)
    return found if dtype is None else cast(found, wanted_dtype(dtype))


def std(a: Any, axis: Any = None, keepdims: Any = None) -> Tensor:
    """The standard deviation over axes.

    >>> import gradtape as tf
    >>> float(tf.experimental.numpy.std([1, 2]))
    0.5
    """
    x = floating(tensor(a))
    return tf_math.reduce_std(x, axis, bool(keepdims))


def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False) -> Any:
    """The weighted mean.

    >>> import gradtape as tf
    >>> float(tf.experimental.numpy.average([1, 3], weights=[1, 3]))
    2.5
    """
    if axis is not None and not isinstance(axis, int):
        raise ValueError(
            f"The `axis` argument must be an `int`. Tuple of ints is not supported yet. Received axis={axis}"
        )
    x = tensor(a)
    if weights is None:
        found = mean(x, axis)
        scale: Any = cast(array.size(x) // array.size(found), found.dtype)
        return (found, array.broadcast_to(scale, array.shape(found))) if returned else found
    x, w = (floating(each) for each in promoted(x, weights))
    if x.shape.rank != w.shape.rank and w.shape.rank == 1:
        place = (axis or 0) % int(x.shape.rank or 1)
        w = array.reshape(w, [-1 if i == place else 1 for i in range(int(x.shape.rank or 0))])
    w = array.broadcast_to(w, array.shape(x))
    scale = tf_math.reduce_sum(w, axis)
    found = tf_math.reduce_sum(x * w, axis) / scale
    return (found, scale) if returned else found


def _without_nan(name: str, function: Callable[..., Any], neutral: float, doc: str) -> Any:
    def call(a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> Any:
        x = tensor(a)
        if x.dtype.is_floating or x.dtype.is_complex:
            x = array.where(tf_math.is_nan(tf_math.abs(x)), tensor(neutral, x.dtype), x)
        return function(x, axis, dtype, keepdims)

    return named(call, name, doc)


nansum = _without_nan("nansum", sum, 0.0, "The sum of the elements that are not NaN.")
nanprod = _without_nan("nanprod", prod, 1.0, "The product of the elements that are not NaN.")


def nanmean(a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = None) -> Tensor:
    """The mean of the elements that are not NaN.

    >>> import gradtape as tf
    >>> import numpy as np
    >>> float(tf.experimental.numpy.nanmean([1.0, np.nan, 3.0]))
    2.0
    """
    x = tensor(a)
    if x.dtype.is_integer or x.dtype.is_bool:
        return mean(x, axis, dtype, None, keepdims)
    total = nansum(x, axis, dtype, keepdims)
    known = cast(tf_math.logical_not(tf_math.is_nan(tf_math.abs(x))), total.dtype)
    return total / tf_math.reduce_sum(known, axis, bool(keepdims))


def count_nonzero(a: Any, axis: Any = None) -> Tensor:
    """How many elements are not zero.

    >>> import gradtape as tf
    >>> int(tf.experimental.numpy.count_nonzero([1, 0, 2]))
    2
    """
    return tf_math.count_nonzero(tensor(a), axis)


def argmax(a: Any, axis: int | None = None) -> Tensor:
    """The position of the largest element.

    >>> import gradtape as tf
    >>> int(tf.experimental.numpy.argmax([1, 3, 2]))
    1
    """
    x = tensor(a)
    return tf_math.argmax(ravel(x) if axis is None or not x.shape.rank else x, axis or 0)


def argmin(a: Any, axis: int | None = None) -> Tensor:
    """The position of the smallest element.

    >>> import gradtape as tf
    >>> int(tf.experimental.numpy.argmin([3, 1, 2]))
    1
    """
    x = tensor(a)
    return tf_math.argmin(ravel(x) if axis is None or not x.shape.rank else x, axis or 0)


def _cumulative(name: str, function: Callable[..., Any], doc: str) -> Any:
    def call(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
        x = _widened(tensor(a), dtype)
        return function(ravel(x) if axis is None else x, axis or 0)

    return named(call, name, doc)


cumsum = _cumulative("cumsum", tf_math.cumsum, "Sums of the elements so far.")
cumprod = _cumulative("cumprod", tf_math.cumprod, "Products of the elements so far.")


def diff(a: Any, n: int = 1, axis: int = -1) -> Tensor:
    """Differences of neighbours, n times.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.diff([1, 4, 9]).numpy()
    array([3, 5])
    """
    if n < 0:
        raise ValueError(f"Argument `order` must be a non-negative integer. Received: axis={n}")
    x = moveaxis(tensor(a), axis, -1)
    for _ in range(n):
        x = tf_math.not_equal(x[..., 1:], x[..., :-1]) if x.dtype.is_bool else x[..., 1:] - x[..., :-1]
    return moveaxis(x, -1, axis)


__all__ = (
    "all",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "average",
    "count_nonzero",
    "cumprod",
    "cumsum",
    "diff",
    "max",
    "mean",
    "min",
    "nanmean",
    "nanprod",
    "nansum",
    "prod",
    "ptp",
    "std",
    "sum",
    "var",
)
