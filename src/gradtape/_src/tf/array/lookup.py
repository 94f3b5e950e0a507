"""Elements of tensors by index or mask."""

from __future__ import annotations

import builtins
import math as _math
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.dimensions import is_dimension, is_same
from gradtape._src.conversion import operand
from gradtape._src.core.composites import NotDenseError, call_on_composites, dispatched
from gradtape._src.dtypes import as_dtype
from gradtape._src.ops import array, index, math, reduce
from gradtape._src.ops.indexing import boolean_mask as _boolean_mask
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import as_int, extent, index_operand, integer, static

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


def gather(
    params: TensorLike,
    indices: TensorLike,
    validate_indices: Any = None,
    axis: Any = None,
    batch_dims: int = 0,
    name: str | None = None,
) -> Tensor:
    """Gather slices along an axis; for the first axis the gradient is sparse.

    >>> tf.gather([10, 20, 30], [2, 0]).numpy().tolist()
    [30, 10]
    """
    try:
        x, where = operand(params), index_operand(indices, "GatherV2", "Tindices", "int16, int32, int64", empty=False)
    except NotDenseError:
        return call_on_composites("gather", gather, (params, indices, None, axis, batch_dims), {})
    rank, depth = len(x.array.shape), len(where.array.shape)
    if not rank:
        raise errors.invalid_argument("params must be at least 1 dimensional", "GatherV2")
    lead = as_int(batch_dims, "batch_dims", 0)
    lead += depth if lead < 0 else 0
    if isinstance(axis, bool):
        raise errors.unsupported_dtype("GatherV2", as_dtype("bool"), "int32, int64", "Taxis")
    at = lead if axis is None else integer(axis, "GatherV2", "Taxis")
    if at == 0:  # TensorFlow ignores batch_dims then
        lead = 0
    if not -rank <= at < rank:
        raise errors.invalid_argument(
            f"Shape must be at least rank {at + 1 if at >= 0 else -at} but is rank {rank}", "GatherV2"
        )
    at += rank if at < 0 else 0
    if not 0 <= lead <= min(depth, at):
        raise errors.invalid_argument(
            f"batch_dims ({batch_dims}) must be less than or equal to axis ({at}) and the rank of indices ({depth})",
            "GatherV2",
        )
    for i in builtins.range(lead):
        if not is_same(x.array.shape[i], where.array.shape[i]):
            raise errors.invalid_argument(
                f"params.shape[{i}]: {x.array.shape[i]} should be equal to indices.shape[{i}]: {where.array.shape[i]}",
                "GatherV2",
            )
    result: Tensor = index.checked_take(x, where, at, lead)
    return result


@dispatched
def gather_nd(
    params: TensorLike, indices: TensorLike, batch_dims: int = 0, name: str | None = None, bad_indices_policy: str = ""
) -> Tensor:
    """Return elements or slices at coordinates (the last axis of indices); with IGNORE, zeros for those out of range.

    >>> tf.gather_nd([[1, 2], [3, 4]], [[0, 1], [1, 0]]).numpy().tolist()
    [2, 3]
    """
    x, where = operand(params), index_operand(indices, "GatherNd", "Tindices", "int16, int32, int64", empty=False)
    batch_dims = _batch_dims(batch_dims)
    if not where.array.shape:
        raise errors.invalid_argument("indices must be at least a vector", "GatherNd")
    _check_batch_dims(x.array.shape, where.array.shape, batch_dims)
    if bad_indices_policy == "IGNORE":
        sizes = np.array(x.array.shape[batch_dims : batch_dims + where.array.shape[-1]])
        within = math.logical_and(math.greater_equal(where, 0), math.less(where, sizes.astype(where.array.dtype)))
        inside = reduce.all_(within, axis=(len(where.array.shape) - 1,), keepdims=True)
        found = index.gather_nd(x, math.where(inside, where, 0), batch_dims=batch_dims)
        rest = len(found.array.shape) - len(where.array.shape) + 1
        kept = array.reshape(inside, shape=(*where.array.shape[:-1], *[1] * rest))
        return math.where(kept, found, np.zeros((), x.array.dtype))
    result: Tensor = index.checked_gather_nd(x, where, batch_dims)
    return result


def _batch_dims(given: Any) -> int:
    plain = static(given)
    if isinstance(plain, np.ndarray) and not plain.ndim:
        plain = plain.item()
    if not isinstance(plain, (int, np.integer)) and not is_dimension(plain):
        raise TypeError(f"Expected an integer for argument 'batch_dims', but got {given!r}.")
    if plain < 0:
        raise ValueError(f"tf.gather_nd does not allow negative batch_dims. Received {plain}.")
    return plain


def _check_batch_dims(params: tuple[int, ...], indices: tuple[int, ...], batch_dims: int) -> None:
    """Check that the operands of `gather_nd` have these batch axes in common."""
    for name, shape in (("indices", indices), ("params", params)):
        if batch_dims and batch_dims >= len(shape):
            raise ValueError(f"Argument `batch_dims` = {batch_dims} must be less than rank(`{name}`) = {len(shape)}")
    if params[:batch_dims] != indices[:batch_dims]:
        requested = _math.prod((*params[:batch_dims], *indices[batch_dims:]))
        raise errors.invalid_argument(
            f"Input to reshape is a tensor with {_math.prod(indices)} values, but the requested shape has {requested}: "
            f"the first {batch_dims} dimensions of indices {errors.brackets(indices)} and of params "
            f"{errors.brackets(params)} must be equal",
            "Reshape",
        )


def boolean_mask(tensor: TensorLike, mask: TensorLike, axis: Any = None, name: str = "boolean_mask") -> Tensor:
    """Return the elements where a mask is true.

    >>> tf.boolean_mask([10, 20, 30], [True, False, True]).numpy().tolist()
    [10, 30]
    """
    return _boolean_mask(tensor, mask, None if axis is None else extent(axis, "axis", "Where"))
