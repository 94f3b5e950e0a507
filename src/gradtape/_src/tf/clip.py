"""Clipping values and gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from gradtape._src import errors
from gradtape._src.conversion import convert, operand
from gradtape._src.core.composites import dispatched
from gradtape._src.core.primitive import narrowed, widened
from gradtape._src.dtypes import DType
from gradtape._src.indexed_slices import IndexedSlices, map_values
from gradtape._src.ops import math, reduce
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import axes_of
from gradtape._src.tf.array import cast
from gradtape._src.tf.linalg import global_norm

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


@overload
def clip_by_value(
    t: TensorLike, clip_value_min: TensorLike, clip_value_max: TensorLike, name: str | None = None
) -> Tensor: ...
@overload
def clip_by_value(
    t: IndexedSlices, clip_value_min: TensorLike, clip_value_max: TensorLike, name: str | None = None
) -> IndexedSlices: ...
@dispatched
def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Any:
    """Clip each value to an interval; the gradient at a bound is 1.

    >>> tf.clip_by_value([-3.0, 0.5, 9.0], -1.0, 2.0).numpy().tolist()
    [-1.0, 0.5, 2.0]
    """

    def clip(x: Tensor) -> Tensor:
        low, high = operand(clip_value_min, x.dtype), operand(clip_value_max, x.dtype)
        result: Tensor = math.maximum(math.minimum(x, high), low)
        if result.array.shape != x.array.shape:
            raise errors.incompatible_shapes("ClipByValue", x.array.shape, low.array.shape)
        return result

    return map_values(clip, t)


@overload
def clip_by_norm(t: TensorLike, clip_norm: Any, axes: Any = None, name: str | None = None) -> Tensor: ...
@overload
def clip_by_norm(t: IndexedSlices, clip_norm: Any, axes: Any = None, name: str | None = None) -> IndexedSlices: ...
def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: str | None = None) -> Any:
    """Scale down to a Euclidean norm of at most `clip_norm`; a negative `clip_norm` counts as 0.

    >>> [round(float(v), 3) for v in tf.clip_by_norm([3.0, 4.0], 1.0)]
    [0.6, 0.8]
    """

    def clip(x: Tensor) -> Tensor:
        y, limit = widened(x), widened(_at_least_zero(clip_norm, x.dtype))
        over = axes_of(axes, len(x.array.shape), "ClipByNorm")
        squares = reduce.sum_(y * y, axis=over, keepdims=True)
        positive = math.greater(squares, 0)
        length = math.where(positive, math.sqrt(math.where(positive, squares, 1)), squares)
        result: Tensor = narrowed(y * limit / math.maximum(length, limit), x.array.dtype)
        if result.array.shape != x.array.shape:
            raise ValueError(f"Shapes {x.shape} and {result.shape} are incompatible: `clip_norm` must be a scalar.")
        return result

    return map_values(clip, t)


def _at_least_zero(clip_norm: Any, dtype: DType) -> Tensor:
    if np.isscalar(clip_norm):
        try:
            negative = clip_norm < 0  # type: ignore[operator]
        except TypeError:  # a string, a complex number, a date
            raise TypeError(f"Expected a number for argument 'clip_norm', but got {clip_norm!r}.") from None
        return operand(0 if negative else clip_norm, dtype)  # NaN stays NaN
    limit = math.maximum(operand(clip_norm), 0)
    return cast(limit, dtype)


@overload
def clip_by_global_norm(
    t_list: Sequence[Tensor], clip_norm: TensorLike, use_norm: TensorLike | None = None, name: str | None = None
) -> tuple[list[Tensor], Tensor]: ...
@overload
def clip_by_global_norm(
    t_list: Sequence[Any], clip_norm: TensorLike, use_norm: TensorLike | None = None, name: str | None = None
) -> tuple[list[Tensor | None], Tensor]: ...
def clip_by_global_norm(t_list: Any, clip_norm: Any, use_norm: Any = None, name: str | None = None) -> Any:
    """Scale all tensors by one factor, so that their global norm is at most `clip_norm`; also returns that norm.

    >>> clipped, norm = tf.clip_by_global_norm([[3.0], None, [4.0]], 1.0)
    >>> float(norm), round(float(clipped[0][0]), 3), clipped[1]
    (5.0, 0.6, None)
    """
    if not isinstance(t_list, Sequence) or isinstance(t_list, (str, bytes)):
        raise TypeError(f"`t_list` should be a sequence of tensors. Received {t_list!r}.")
    tensors = list(t_list)
    norm = global_norm(tensors) if use_norm is None else convert(use_norm)
    limit = operand(clip_norm, norm.dtype)
    # A norm that is not finite makes the factor NaN: an invalid step must not look like a small one.
    factor = limit * math.minimum(1 / norm, 1 / limit) + (norm - norm)
    return [None if t is None else map_values(lambda x: x * factor, t) for t in tensors], norm
