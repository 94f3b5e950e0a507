"""Rules that turn functions of ragged tensors, with rows that a saved graph computes, into TensorFlow ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.graph_ops import NeedsEagerError, register_rule
from gradtape._src.arrays.symbolic import is_known, sizes_of
from gradtape._src.conversion import convert, operand, wrap
from gradtape._src.dtypes import as_dtype, int64, string
from gradtape._src.function.staged import Collector
from gradtape._src.ops.ragged.partition import SymbolicPartition
from gradtape._src.ops.ragged.tensor import RaggedTensor, from_partitions
from gradtape._src.shape import as_shape
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array, math


def _number(value: Any) -> int | None:
    """A bound that is a number; None if there is none, or the graph computes it."""
    if value is None or (isinstance(value, Tensor) and not is_known(value)):
        return None
    return int(value)


def _rows(splits: Tensor) -> Any:
    """The number of rows; None, a new size, for splits that are an argument, because these are never empty."""
    count = splits.array.shape[0]
    return None if str(count).isidentifier() else count - 1


def _count_of_bins(values: Tensor, minlength: Any, maxlength: Any) -> tuple[Tensor, int | None]:
    """The number of bins from 0 on, as a tensor; also as an int, if only the bounds determine it."""
    least, most = _number(minlength), _number(maxlength)
    if most is not None and (least or 0) >= most:
        return convert(most, values.dtype), most
    kind = values.dtype
    largest = math.reduce_max(array.concat([array.constant([-1], kind), array.reshape(values, [-1])], 0))
    size = largest + array.constant(1, kind)
    size = size if minlength is None else math.maximum(size, array.cast(minlength, kind))
    return size if maxlength is None else math.minimum(size, array.cast(maxlength, kind)), None


def _bincount(
    ops: Collector,
    arr: Any,
    weights: Any = None,
    minlength: Any = None,
    maxlength: Any = None,
    dtype: Any = "int32",
    name: Any = None,
    axis: Any = None,
    binary_output: bool = False,
) -> Tensor:
    rows = isinstance(arr, RaggedTensor) and axis == -1
    values = operand(arr.flat_values if isinstance(arr, RaggedTensor) else arr)
    if values.dtype.name not in ("int32", "int64") or (rows and arr.ragged_rank != 1):
        raise NeedsEagerError(ValueError(f"tf.math.bincount of {arr!r} cannot be saved: use rows of int32 or int64."))
    by_row = rows or (axis == -1 and len(values.array.shape) > 1)
    values = values if by_row else array.reshape(values, [-1])
    size, length = _count_of_bins(values, minlength, maxlength)
    given = weights.flat_values if isinstance(weights, RaggedTensor) else weights
    if given is None:
        each = convert([], as_dtype("int32" if dtype is None else dtype))
    else:
        each = operand(given) if by_row else array.reshape(operand(given), [-1])
    inputs = {"size": size, "weights": each}
    attrs = {"binary_output": bool(binary_output)}
    if rows:
        inputs |= {"splits": array.cast(arr.row_splits, int64), "values": values}
        shape: list[Any] = [_rows(arr.row_splits), length]
    else:
        inputs["input"] = values
        shape = [*values.array.shape[:-1], length]
    (found,) = ops.add("RaggedBincount" if rows else "DenseBincount", inputs, attrs, [(shape, each.dtype)])
    return found


def _to_tensor(ops: Collector, ragged: Any, default_value: Any = None, name: Any = None, shape: Any = None) -> Tensor:
    """Pad rows to the same length: that of the longest, or a given one."""
    flat = operand(ragged.flat_values)
    default = convert(("" if flat.dtype == string else 0) if default_value is None else default_value, flat.dtype)
    splits = [array.cast(each, int64) for each in ragged.nested_row_splits]
    inner = flat.array.shape[1:]
    need = [_rows(ragged.row_splits), *[None] * len(splits), *inner]
    if isinstance(shape, Tensor) and not is_known(shape):
        raise NeedsEagerError(ValueError("RaggedTensor.to_tensor with a shape that depends on values cannot be saved."))
    wanted = as_shape(shape)
    given = [None] * len(need) if wanted.rank is None else wanted.as_list()
    if len(given) != len(need):
        raise errors.invalid_argument(
            f"rt_input.shape and shape={wanted} are incompatible: rt_input.rank = {len(need)} but shape.rank = "
            f"{len(given)}",
            "RaggedTensorToTensor",
        )
    sizes = [n if size is None else size for n, size in zip(need, given, strict=True)]
    open_ends = [-1 if n is None or str(n) == str(size) else n for n, size in zip(given, need, strict=True)]
    inputs = {
        "shape": wrap(sizes_of(tuple(open_ends), np.int64)),
        "values": flat,
        "default_value": default,
        "row_partition_tensors": splits,
    }
    attrs = {"row_partition_types": ["ROW_SPLITS"] * len(splits)}
    (found,) = ops.add("RaggedTensorToTensor", inputs, attrs, [(sizes, flat.dtype)])
    return found


def _ngrams(
    ops: Collector,
    data: Any,
    ngram_width: Any,
    separator: str = " ",
    pad_values: Any = None,
    padding_width: int | None = None,
    preserve_short_sequences: bool = False,
    name: Any = None,
) -> Any:
    if not isinstance(data, RaggedTensor) or data.ragged_rank != 1 or len(data.flat_values.array.shape) != 1:
        raise NeedsEagerError(ValueError("tf.strings.ngrams of anything but rows of strings cannot be saved."))
    pads = ("", "") if pad_values is None else (pad_values, pad_values) if isinstance(pad_values, str) else pad_values
    attrs = {
        "separator": separator,
        "ngram_widths": list(ngram_width) if isinstance(ngram_width, (list, tuple)) else [int(ngram_width)],
        "left_pad": pads[0],
        "right_pad": pads[1],
        "pad_width": 0 if pad_values is None else -1 if padding_width is None else int(padding_width),
        "preserve_short_sequences": preserve_short_sequences,
    }
    splits = array.cast(data.row_splits, int64)
    shapes: list[Any] = [([None], string), (splits.array.shape, int64)]
    values, ends = ops.add("StringNGrams", {"data": data.flat_values, "data_splits": splits}, attrs, shapes)
    return from_partitions(values, [SymbolicPartition(ends)])


register_rule("bincount", _bincount)
register_rule("strings.ngrams", _ngrams)
register_rule("RaggedTensor.to_tensor", _to_tensor)

__all__: list[str] = []
