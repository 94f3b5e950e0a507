"""Functions of `tf.compat.v1` on sparse tensors, and others that were moved, with the arguments of TensorFlow 1."""

from __future__ import annotations

from typing import Any

from gradtape._src.conversion import convert
from gradtape._src.indexed_slices import IndexedSlices
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.tf import array, image, nn, random, sparse
from gradtape._src.tf.v1.functions import renamed

__all__ = [
    "convert_to_tensor_or_indexed_slices",
    "convert_to_tensor_or_sparse_tensor",
    "depth_to_space",
    "extract_image_patches",
    "random_poisson",
    "space_to_depth",
    "sparse_add",
    "sparse_concat",
    "sparse_merge",
    "sparse_reduce_max",
    "sparse_reduce_max_sparse",
    "sparse_reduce_sum",
    "sparse_reduce_sum_sparse",
    "sparse_split",
]


def sparse_add(a: Any, b: Any, threshold: Any = None, thresh: Any = None) -> Any:
    """The sum; `threshold` is the size below which sums of two elements are left out."""
    limit = renamed(threshold, thresh, "threshold", "thresh")
    return sparse.add(a, b, 0 if limit is None else limit)


def sparse_concat(
    axis: Any,
    sp_inputs: Any,
    name: str | None = None,
    expand_nonconcat_dim: bool = False,
    concat_dim: Any = None,
    expand_nonconcat_dims: bool | None = None,
) -> SparseTensor:
    """The sparse tensors one after another along an axis."""
    expand = expand_nonconcat_dim if expand_nonconcat_dims is None else expand_nonconcat_dims
    return sparse.concat(renamed(axis, concat_dim, "axis", "concat_dim"), sp_inputs, expand, name)


def sparse_split(
    keyword_required: None = None,
    sp_input: Any = None,
    num_split: Any = None,
    axis: Any = None,
    name: str | None = None,
    split_dim: Any = None,
) -> list[SparseTensor]:
    """The parts of a sparse tensor along an axis. All arguments are given by name."""
    if keyword_required is not None or sp_input is None or num_split is None:
        raise ValueError("Keyword arguments are required for this function: sp_input, num_split and axis.")
    return sparse.split(sp_input, num_split, renamed(axis, split_dim, "axis", "split_dim"), name)


def _reduced(function: Any, sp_input: Any, axis: Any, keepdims: Any, axes: Any, keep_dims: Any, is_sparse: bool) -> Any:
    chosen = renamed(axis, axes, "axis", "reduction_axes")
    return function(sp_input, chosen, bool(renamed(keepdims, keep_dims, "keepdims", "keep_dims")), is_sparse)


def sparse_reduce_sum(
    sp_input: Any, axis: Any = None, keepdims: Any = None, reduction_axes: Any = None, keep_dims: Any = None
) -> Any:
    """The sums along axes, as a tensor."""
    return _reduced(sparse.reduce_sum, sp_input, axis, keepdims, reduction_axes, keep_dims, False)


def sparse_reduce_sum_sparse(
    sp_input: Any, axis: Any = None, keepdims: Any = None, reduction_axes: Any = None, keep_dims: Any = None
) -> Any:
    """The sums along axes, as a sparse tensor."""
    return _reduced(sparse.reduce_sum, sp_input, axis, keepdims, reduction_axes, keep_dims, True)


def sparse_reduce_max(
    sp_input: Any, axis: Any = None, keepdims: Any = None, reduction_axes: Any = None, keep_dims: Any = None
) -> Any:
    """The largest elements along axes, as a tensor."""
    return _reduced(sparse.reduce_max, sp_input, axis, keepdims, reduction_axes, keep_dims, False)


def sparse_reduce_max_sparse(
    sp_input: Any, axis: Any = None, keepdims: Any = None, reduction_axes: Any = None, keep_dims: Any = None
) -> Any:
    """The largest elements along axes, as a sparse tensor."""
    return _reduced(sparse.reduce_max, sp_input, axis, keepdims, reduction_axes, keep_dims, True)


def sparse_merge(
    sp_ids: Any, sp_values: Any, vocab_size: Any, name: str | None = None, already_sorted: bool = False
) -> SparseTensor:
    """A sparse tensor of values whose last coordinate is an id: ids and values have the same coordinates otherwise."""
    many = isinstance(sp_ids, (list, tuple))
    ids, sizes = (list(sp_ids), list(vocab_size)) if many else ([sp_ids], [vocab_size])
    if len(ids) != len(sizes):
        raise ValueError("sp_ids and vocab_size have to have equal lengths.")
    first = ids[0]
    columns = [array.reshape(array.cast(each.values, "int64"), [-1, 1]) for each in ids]
    where = array.concat([first.indices[:, :-1], *columns], 1)
    last = [array.cast(array.reshape(convert(size), [1]), "int64") for size in sizes]
    shape = array.concat([first.dense_shape[:-1], *last], 0)
    merged = SparseTensor(where, sp_values.values, shape)
    return merged if already_sorted else sparse.reorder(merged)


def convert_to_tensor_or_sparse_tensor(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """A tensor of a value; a sparse tensor as it is."""
    if not isinstance(value, SparseTensor):
        return array.convert_to_tensor(value, dtype)
    if dtype is not None and value.dtype != dtype:
        raise RuntimeError(f"Sparse dtype mismatch. Requested: {dtype},  Actual: {value.dtype}")
    return value


def convert_to_tensor_or_indexed_slices(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """A tensor of a value; slices as they are."""
    return value if isinstance(value, IndexedSlices) else array.convert_to_tensor(value, dtype)


def depth_to_space(input: Any, block_size: int, name: str | None = None, data_format: str = "NHWC") -> Any:
    """Blocks of the depth as blocks of the image."""
    return nn.depth_to_space(input, block_size, data_format)


def space_to_depth(input: Any, block_size: int, name: str | None = None, data_format: str = "NHWC") -> Any:
    """Blocks of the image as parts of the depth."""
    return nn.space_to_depth(input, block_size, data_format)


def extract_image_patches(
    images: Any,
    ksizes: Any = None,
    strides: Any = None,
    rates: Any = None,
    padding: Any = None,
    name: str | None = None,
    sizes: Any = None,
) -> Any:
    """The patches of images, in the depth of the result."""
    return image.extract_patches(images, renamed(ksizes, sizes, "ksizes", "sizes"), strides, rates, padding)


def random_poisson(lam: Any, shape: Any, dtype: Any = "float32", seed: Any = None, name: str | None = None) -> Any:
    """Random numbers of a Poisson distribution."""
    return random.poisson(shape, lam, dtype, seed)
