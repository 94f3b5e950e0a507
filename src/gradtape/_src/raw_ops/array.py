"""Raw ops of shapes and positions: reshaping, slicing, gathering, scattering, joining, padding, constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.raw_ops.derivative import transposed
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array, control_flow, indexing, math, shaping, space_blocks
from gradtape._src.tf.arguments import static
from gradtape._src.variable import Variable

if TYPE_CHECKING:
    from collections.abc import Callable

_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


def _select(condition: Any, x: Any, y: Any) -> Tensor:
    """`Select`: a vector of conditions chooses rows."""
    if condition.shape.rank == 1 and (x.shape.rank or 0) > 1:
        condition = array.reshape(condition, [-1] + [1] * (x.shape.rank - 1))
    return array.where(condition, x, y)


def _sliced(x: Any, begin: Any, end: Any, strides: Any, masks: dict[str, Any]) -> Tensor:
    return shaping.strided_slice(x, begin, end, strides, **masks)


def _strided_slice_grad(shape: Any, begin: Any, end: Any, strides: Any, dy: Any, **masks: int) -> Tensor:
    return transposed(lambda x: _sliced(x, begin, end, strides, masks), shape, dy)


def _with_masks(function: Callable[..., Any]) -> Callable[..., Any]:
    """An op with the five masks of a strided slice."""

    def op(
        *inputs: Any,
        begin_mask: int,
        end_mask: int,
        ellipsis_mask: int,
        new_axis_mask: int,
        shrink_axis_mask: int,
    ) -> Any:
        masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
        return function(*inputs, **dict(zip(_MASKS, masks, strict=True)))

    return op


def _strided_slice_update(input: Any, begin: Any, end: Any, strides: Any, value: Any, **masks: int) -> Tensor:
    """A tensor with the elements of a strided slice replaced."""
    places = array.reshape(array.range(array.size(input)), array.shape(input))
    at = _sliced(places, begin, end, strides, masks)
    flat = array.reshape(input, [-1])
    values = array.reshape(array.broadcast_to(value, array.shape(at)), [-1])
    updated = indexing.tensor_scatter_nd_update(flat, array.reshape(at, [-1, 1]), values)
    return array.reshape(updated, array.shape(input))


def _unique(x: Any, axis: Any, out_idx: Any) -> tuple[Tensor, Tensor]:
    y, idx, _ = _unique_with_counts(x, axis, out_idx)
    return y, idx


def _unique_with_counts(x: Any, axis: Any, out_idx: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Unique slices along an axis, in the order of their first appearance."""
    axes = np.asarray(static(axis)).reshape(-1)
    if not axes.size:
        return indexing.unique_with_counts(x, out_idx)
    axis = int(axes[0])
    values = np.asarray(static(x))
    _, first, inverse, counts = np.unique(values, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    order = np.argsort(first, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    idx, number = place[inverse.reshape(-1)], counts[order]
    return (
        array.gather(x, np.sort(first), axis=axis),
        array.constant(idx, out_idx),
        array.constant(number, out_idx),
    )


def _list_difference(x: Any, y: Any, out_idx: Any) -> tuple[Tensor, Tensor]:
    kept = math.logical_not(math.reduce_any(math.equal(x[:, None], y[None, :]), 1))
    places = array.reshape(array.where(kept), [-1])
    return array.gather(x, places), array.cast(places, out_idx)


def _dim_map(x: Any, src_format: str, dst_format: str) -> Tensor:
    places = [dst_format.index(letter) for letter in src_format]
    return array.gather(array.constant(places, x.dtype), math.floormod(x, len(src_format)))


def _vec_permute(x: Any, src_format: str, dst_format: str) -> Tensor:
    source, target = src_format, dst_format
    if x.shape[0] == len(src_format) - 2:
        source, target = (form.replace("N", "").replace("C", "") for form in (source, target))
    return array.gather(x, [source.index(letter) for letter in target])


def _broadcast_args(s0: Any, s1: Any) -> Tensor:
    return array.cast(array.broadcast_dynamic_shape(s0, s1), s0.dtype)


def _concat_offset(concat_dim: Any, shape: list[Any]) -> list[Tensor]:
    axis = int(static(concat_dim))
    rows = [np.asarray(static(each)) for each in shape]
    starts = np.cumsum([0] + [row[axis] for row in rows[:-1]])
    return [
        array.constant(np.where(np.arange(len(row)) == axis, start, 0), each.dtype)
        for row, start, each in zip(rows, starts, shape, strict=True)
    ]


def _mirror_pad_grad(input: Any, paddings: Any, mode: str) -> Tensor:
    amounts = np.asarray(static(paddings))
    shape = [n - int(a) - int(b) for n, (a, b) in zip(input.shape, amounts, strict=True)]
    return transposed(lambda x: shaping.pad(x, paddings, mode), shape, input)


def _squeeze(input: Any, axis: list[int]) -> Tensor:
    return array.squeeze(input, axis or None)


def _one_hot(indices: Any, depth: Any, on_value: Any, off_value: Any, axis: int) -> Tensor:
    return array.one_hot(indices, depth, on_value, off_value, axis, on_value.dtype)


def _reverse(tensor: Any, dims: Any) -> Tensor:
    return array.reverse(tensor, [i for i, flipped in enumerate(np.asarray(static(dims)).tolist()) if flipped])


def _pack(values: list[Any], axis: int) -> Tensor:
    return array.stack(values, axis)


def _where(condition: Any) -> Tensor:
    return array.where(condition if condition.dtype.is_bool else math.not_equal(condition, 0))


def _empty(shape: Any, dtype: Any) -> Tensor:
    """Zeros, because uninitialized memory is not reproducible."""
    return array.zeros(shape, dtype)


def _identity(input: Any) -> Any:
    """Return the tensor; handles, such as lists of tensors, are passed through."""
    return array.identity(input) if isinstance(input, (Tensor, Variable)) else input


def _const(value: Any, dtype: Any) -> Tensor:
    if value.dtype != dtype:
        raise errors.invalid_argument(f"The value has dtype {value.dtype.name}, `dtype` is {dtype.name}", "Const")
    return value


def _space_to_batch(input: Any, paddings: Any, block_size: int) -> Tensor:
    return space_blocks.space_to_batch_nd(input, [block_size, block_size], paddings)


def _batch_to_space(input: Any, crops: Any, block_size: int) -> Tensor:
    return space_blocks.batch_to_space(input, [block_size, block_size], crops)


def _prevent_gradient(input: Any, message: str) -> Tensor:
    from gradtape._src.autodiff.custom_gradient import custom_gradient

    @custom_gradient
    def pinned(x: Any) -> Any:
        def refuse(*_: Any) -> Any:
            raise LookupError(f"Gradient explicitly disabled. Reason: {message!r}.")

        return array.identity(x), refuse

    return pinned(input)


OPS: dict[str, Callable[..., Any]] = {
    # -- unchanged
    "Const": _const,
    "CopyHost": array.identity,
    "Copy": array.identity,
    "DebugGradientIdentity": array.identity,
    "DeepCopy": array.identity,
    "EnsureShape": array.ensure_shape,
    "GuaranteeConst": shaping.guarantee_const,
    "Identity": _identity,
    "IdentityN": shaping.identity_n,
    "PlaceholderWithDefault": lambda input, shape: array.ensure_shape(input, shape),
    "PreventGradient": _prevent_gradient,
    "Snapshot": array.identity,
    "StopGradient": array.stop_gradient,
    "Timestamp": control_flow.timestamp,
    "NoOp": lambda: None,
    # -- dtypes
    "Bitcast": shaping.bitcast,
    "Cast": lambda x, DstT: array.cast(x, DstT),
    # -- shapes
    "BroadcastArgs": _broadcast_args,
    "BroadcastTo": array.broadcast_to,
    "ExpandDims": array.expand_dims,
    "Rank": array.rank,
    "Reshape": array.reshape,
    "Shape": array.shape,
    "ShapeN": shaping.shape_n,
    "Size": array.size,
    "Squeeze": _squeeze,
    "ConjugateTranspose": lambda x, perm: array.transpose(x, perm, conjugate=True),
    "Transpose": array.transpose,
    "UnravelIndex": shaping.unravel_index,
    "DataFormatDimMap": _dim_map,
    "DataFormatVecPermute": _vec_permute,
    # -- constants
    "Empty": _empty,
    "Fill": array.fill,
    "LinSpace": array.linspace,
    "OneHot": _one_hot,
    "OnesLike": array.ones_like,
    "Range": array.range,
    "ZerosLike": array.zeros_like,
    # -- joining and splitting
    "Concat": lambda concat_dim, values: array.concat(values, concat_dim),
    "ConcatOffset": _concat_offset,
    "ConcatV2": lambda values, axis: array.concat(values, axis),
    "Pack": _pack,
    "ParallelConcat": lambda values: array.concat(values, 0),
    "Split": lambda axis, value, num_split: array.split(value, num_split, axis),
    "SplitV": lambda value, size_splits, axis, num_split: array.split(value, size_splits, axis, num_split),
    "Tile": shaping.tile,
    "Unpack": lambda value, num, axis: array.unstack(value, num, axis),
    # -- padding and reversing
    "MirrorPad": lambda input, paddings, mode: shaping.pad(input, paddings, mode),
    "MirrorPadGrad": _mirror_pad_grad,
    "Pad": lambda input, paddings: shaping.pad(input, paddings),
    "PadV2": lambda input, paddings, constant_values: shaping.pad(input, paddings, constant_values=constant_values),
    "Reverse": _reverse,
    "ReverseSequence": lambda input, seq_lengths, seq_dim, batch_dim: shaping.reverse_sequence(
        input, seq_lengths, seq_dim, batch_dim
    ),
    "ReverseV2": array.reverse,
    "Roll": shaping.roll,
    "BatchToSpace": _batch_to_space,
    "BatchToSpaceND": space_blocks.batch_to_space,
    "DepthToSpace": space_blocks.depth_to_space,
    "SpaceToBatch": _space_to_batch,
    "SpaceToBatchND": space_blocks.space_to_batch_nd,
    "SpaceToDepth": space_blocks.space_to_depth,
    # -- slices
    "Slice": shaping.slice,
    "StridedSlice": _with_masks(shaping.strided_slice),
    "StridedSliceGrad": _with_masks(_strided_slice_grad),
    "TensorStridedSliceUpdate": _with_masks(_strided_slice_update),
    # -- gathering and scattering
    "DynamicPartition": indexing.dynamic_partition,
    "DynamicStitch": indexing.dynamic_stitch,
    "ParallelDynamicStitch": indexing.dynamic_stitch,
    "Gather": lambda params, indices: array.gather(params, indices),
    "GatherNd": array.gather_nd,
    "GatherV2": lambda params, indices, axis, batch_dims: array.gather(
        params, indices, axis=axis, batch_dims=batch_dims
    ),
    "InplaceAdd": lambda x, i, v: indexing.tensor_scatter_nd_add(x, array.reshape(i, [-1, 1]), v),
    "InplaceSub": lambda x, i, v: indexing.tensor_scatter_nd_sub(x, array.reshape(i, [-1, 1]), v),
    "InplaceUpdate": lambda x, i, v: indexing.tensor_scatter_nd_update(x, array.reshape(i, [-1, 1]), v),
    "InvertPermutation": indexing.invert_permutation,
    "ListDiff": _list_difference,
    "ScatterNd": indexing.scatter_nd,
    "ScatterNdNonAliasingAdd": lambda input, indices, updates: indexing.tensor_scatter_nd_add(input, indices, updates),
    "Select": _select,
    "SelectV2": array.where,
    "TensorScatterAdd": indexing.tensor_scatter_nd_add,
    "TensorScatterMax": indexing.tensor_scatter_nd_max,
    "TensorScatterMin": indexing.tensor_scatter_nd_min,
    "TensorScatterSub": indexing.tensor_scatter_nd_sub,
    "TensorScatterUpdate": indexing.tensor_scatter_nd_update,
    "Unique": lambda x, out_idx: indexing.unique(x, out_idx),
    "UniqueV2": _unique,
    "UniqueWithCounts": lambda x, out_idx: indexing.unique_with_counts(x, out_idx),
    "UniqueWithCountsV2": _unique_with_counts,
    "Where": _where,
}
