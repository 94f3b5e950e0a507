"""Rules that turn functions which need eager execution into TensorFlow ops of a saved graph, by name.

A rule takes the collector of ops and the arguments of the function, and returns the function's result.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape._src.arrays.abstract import infer
from gradtape._src.arrays.dimensions import broadcast_shapes, is_dimension
from gradtape._src.arrays.graph_ops import NeedsEagerError, register_rule
from gradtape._src.arrays.symbolic import Symbolic, is_known, sizes_of
from gradtape._src.conversion import convert, has_dtype, is_library, operand, wrap
from gradtape._src.dtypes import DType, as_dtype, bool as boolean, int32, int64, string
from gradtape._src.function.staged import Collector
from gradtape._src.ops.ragged.partition import SymbolicPartition
from gradtape._src.ops.ragged.tensor import from_partitions
from gradtape._src.raw_ops.definition import definition
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array, math as reductions, strings
from gradtape._src.tf.indexing import Unique, UniqueWithCounts
from gradtape._src.tf.unicode import unicode_transcode


def _rule(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        register_rule(name, function)
        return function

    return register


# -- shapes that depend on values ------------------------------------------------------------------------------------
def _integers(value: Any) -> Tensor:
    return convert(value, None if has_dtype(value) else int32)


def _sizes(value: Any) -> list[Any]:
    """The known part of a vector of sizes: None for sizes that depend on values."""
    if isinstance(value, (list, tuple)):
        return [_size(each) for each in value]
    extents = getattr(getattr(value, "array", None), "extents", None)
    if extents is not None:
        return list(extents)
    if isinstance(value, Tensor) and not is_known(value):
        return [None] * int(value.array.shape[0])
    return [None if n < 0 else n for n in np.asarray(value).tolist()]


def _size(value: Any) -> Any:
    if is_dimension(value):
        return value
    extents = getattr(getattr(value, "array", None), "extents", None)
    if extents is not None:
        return extents.item()
    if isinstance(value, Tensor) and not is_known(value):
        return None
    found = int(np.asarray(value))
    return None if found < 0 else found


@_rule("tile")
def _tile(ops: Collector, input: Any, multiples: Any, name: Any = None) -> Tensor:
    x = operand(input)
    pairs = zip(x.array.shape, _sizes(multiples), strict=True)
    shape = [None if times is None else n * times for n, times in pairs]
    (found,) = ops.add("Tile", {"input": x, "multiples": _integers(multiples)}, {}, [(shape, x.dtype)])
    return found


@_rule("reshape")
def _reshape(ops: Collector, tensor: Any, shape: Any, name: Any = None) -> Tensor:
    x = operand(tensor)
    (found,) = ops.add("Reshape", {"tensor": x, "shape": _integers(shape)}, {}, [(_sizes(shape), x.dtype)])
    return found


@_rule("broadcast_to")
def _broadcast_to(ops: Collector, input: Any, shape: Any, name: Any = None) -> Tensor:
    x = operand(input)
    (found,) = ops.add("BroadcastTo", {"input": x, "shape": _integers(shape)}, {}, [(_sizes(shape), x.dtype)])
    return found


@_rule("fill")
def _fill(ops: Collector, dims: Any, value: Any, name: Any = None, layout: Any = None) -> Tensor:
    x = operand(value)
    (found,) = ops.add("Fill", {"dims": _integers(dims), "value": x}, {}, [(_sizes(dims), x.dtype)])
    return found


@_rule("zeros")
def _zeros(ops: Collector, shape: Any, dtype: Any = "float32", name: Any = None, layout: Any = None) -> Tensor:
    return _fill(ops, shape, convert(0, as_dtype(dtype)))


@_rule("ones")
def _ones(ops: Collector, shape: Any, dtype: Any = "float32", name: Any = None, layout: Any = None) -> Tensor:
    return _fill(ops, shape, convert(1, as_dtype(dtype)))


@_rule("range")
def _range(ops: Collector, start: Tensor, limit: Tensor, delta: Tensor, dtype: DType) -> Tensor:
    given = {"start": start, "limit": limit, "delta": delta}
    inputs = {name: array.cast(each, dtype) for name, each in given.items()}
    (found,) = ops.add("Range", inputs, {}, [([None], dtype)])
    return found


@_rule("where")
def _where(ops: Collector, condition: Any, x: Any = None, y: Any = None, name: Any = None) -> Tensor:
    truth = operand(condition)
    (found,) = ops.add("Where", {"condition": truth}, {}, [([None, len(truth.array.shape)], int64)])
    return found


@_rule("boolean_mask")
def _boolean_mask(ops: Collector, x: Any, mask: Any, axis: int | None = None) -> Tensor:
    values, truth, start = operand(x), operand(mask), axis or 0
    have, rank = values.array.shape, len(truth.array.shape)
    if rank > 1:
        count: Any = 1
        for n in truth.array.shape:
            count = count * n
        values = array.reshape(values, [*have[:start], count, *have[start + rank :]])
    places = _where(ops, array.reshape(truth, [-1]))
    return array.gather(values, places[:, 0], axis=start)


@_rule("unique")
def _unique(ops: Collector, x: Any, out_idx: Any = "int32", name: Any = None) -> Unique:
    values, kind = operand(x), as_dtype(out_idx)
    shapes = [([None], values.dtype), (values.array.shape, kind)]
    return Unique(*ops.add("Unique", {"x": values}, {"out_idx": kind}, shapes))


@_rule("unique_with_counts")
def _unique_with_counts(ops: Collector, x: Any, out_idx: Any = "int32", name: Any = None) -> UniqueWithCounts:
    values, kind = operand(x), as_dtype(out_idx)
    shapes = [([None], values.dtype), (values.array.shape, kind), ([None], kind)]
    y, idx, count = ops.add("UniqueWithCounts", {"x": values}, {"out_idx": kind}, shapes)
    same: Any = y.array.shape
    count.array.shape = same  # as many counts as values
    return UniqueWithCounts(y, idx, count)


@_rule("dynamic_partition")
def _dynamic_partition(ops: Collector, data: Any, partitions: Any, num_partitions: int, name: Any = None) -> list[Any]:
    x, which = operand(data), _integers(partitions)
    shape = [None, *x.array.shape[len(which.array.shape) :]]
    attrs = {"num_partitions": int(num_partitions)}
    return ops.add("DynamicPartition", {"data": x, "partitions": which}, attrs, [(shape, x.dtype)] * num_partitions)


@_rule("getitem")
def _getitem(ops: Collector, x: Tensor, key: Any) -> Tensor:
    """Apply positions and slices with known ends first, then the slices whose ends depend on values."""
    parts = list(key) if isinstance(key, (tuple, list)) else [key]
    if any(part is Ellipsis for part in parts):
        at = next(i for i, part in enumerate(parts) if part is Ellipsis)
        used = sum(part is not None and part is not Ellipsis for part in parts)
        parts[at : at + 1] = [slice(None)] * (len(x.array.shape) - used)
    later = {i: part for i, part in enumerate(parts) if isinstance(part, slice) and _has_unknown_end(part)}
    x = x[tuple(slice(None) if i in later else part for i, part in enumerate(parts))]
    places = {_axis(parts, i): part for i, part in later.items()}
    rank = len(x.array.shape)
    ends: list[list[Any]] = [[0] * rank, [0] * rank, [1] * rank]
    masks = [0, 0]
    for axis in range(rank):
        part = places.get(axis, slice(None))
        for number, end in enumerate((part.start, part.stop)):
            if end is None:
                masks[number] |= 1 << axis
            else:
                ends[number][axis] = array.cast(end, int32)
        ends[2][axis] = 1 if part.step is None else part.step
    shape = [None if axis in places else n for axis, n in enumerate(x.array.shape)]
    inputs = {"input": x, **dict(zip(("begin", "end", "strides"), map(_integers, ends), strict=True))}
    (found,) = ops.add("StridedSlice", inputs, {"begin_mask": masks[0], "end_mask": masks[1]}, [(shape, x.dtype)])
    return found


def _has_unknown_end(part: slice) -> bool:
    return any(isinstance(end, Tensor) and not is_known(end) for end in (part.start, part.stop, part.step))


def _axis(parts: Sequence[Any], i: int) -> int:
    """The axis of the result for a part of an index; positions have none."""
    return sum(part is None or isinstance(part, slice) for part in parts[:i])


# -- tables ----------------------------------------------------------------------------------------------------------
@_rule("table.lookup")
def _lookup(ops: Collector, table: Any, keys: Tensor, default: Tensor) -> Tensor:
    inputs = {"table_handle": table, "keys": keys, "default_value": default}
    (found,) = ops.add("LookupTableFindV2", inputs, {}, [(keys.array.shape, table.value_dtype)])
    return found


@_rule("vocabulary.lookup")
def _vocabulary(ops: Collector, table: Any, keys: Tensor, buckets: int) -> Tensor:
    texts = keys if keys.dtype == string else strings.as_string(keys)
    hashed = strings.to_hash_bucket_fast(texts, buckets)
    if table is None:
        return hashed
    if keys.dtype != table.key_dtype:
        keys = array.cast(keys, table.key_dtype)
    found = _lookup(ops, table, keys, convert(-1, int64))
    return array.where(found == -1, hashed + table.size(), found)


# -- strings ---------------------------------------------------------------------------------------------------------
def _string_rule(function: Any, op: str, result: DType | str) -> Callable[..., Any]:
    """A string function that is one op: inputs of the op by order and name, the rest are attrs."""
    parameters, spec = inspect.signature(function), definition(op)
    first = next(iter(parameters.parameters))

    def rule(ops: Collector, *args: Any, **kwargs: Any) -> Tensor:
        bound = parameters.bind(*args, **kwargs)
        bound.apply_defaults()
        given = dict(bound.arguments)
        inputs = {spec.inputs[0].name: operand(given.pop(first))}
        inputs |= {each.name: _integers(given.pop(each.name)) for each in spec.inputs[1:]}
        attrs = {attr.name: _plain(given[attr.name]) for attr in spec.attrs}
        dtype = result if isinstance(result, DType) else as_dtype(given[result])
        shape = broadcast_shapes(*(each.array.shape for each in inputs.values()))
        (found,) = ops.add(op, inputs, attrs, [(shape, dtype)])
        return found

    return rule


def _plain(value: Any) -> Any:
    """An attr, which may be given as a tensor."""
    found = np.asarray(value).item() if is_library(value) or isinstance(value, np.generic) else value
    return found.decode() if isinstance(found, bytes) else found


for _function, _op, _result in (
    (strings.lower, "StringLower", string), (strings.upper, "StringUpper", string),
    (strings.strip, "StringStrip", string), (strings.length, "StringLength", int32),
    (strings.substr, "Substr", string), (strings.regex_replace, "StaticRegexReplace", string),
    (strings.regex_full_match, "StaticRegexFullMatch", boolean),
    (strings.to_number, "StringToNumber", "out_type"), (strings.as_string, "AsString", string),
    (strings.to_hash_bucket, "StringToHashBucket", int64),
    (strings.to_hash_bucket_fast, "StringToHashBucketFast", int64),
    (strings.to_hash_bucket_strong, "StringToHashBucketStrong", int64),
    (unicode_transcode, "UnicodeTranscode", string),
):  # fmt: skip
    register_rule(f"strings.{_function.__name__}", _string_rule(_function, _op, _result))


@_rule("strings.split")
def _split(ops: Collector, input: Any, sep: Any, maxsplit: int) -> Any:
    """Split a vector of strings into a ragged tensor: each part has the index of its string, in order."""
    texts, between = operand(input), convert("" if sep is None else sep, string)
    rank = len(texts.array.shape)
    if rank > 1:
        raise NeedsEagerError(ValueError("tf.strings.split of strings in more than one dimension cannot be saved."))
    given = {"input": texts if rank else array.reshape(texts, [1]), "sep": between}
    shapes: list[tuple[list[Any], DType]] = [([None, 2], int64), ([None], string), ([2], int64)]
    indices, values, _ = ops.add("StringSplitV2", given, {"maxsplit": int(maxsplit)}, shapes)
    same: Any = (indices.array.shape[0],)
    values.array.shape = same
    if not rank:
        return values
    numbers = array.cast(array.range(array.shape(texts)[0] + 1), int64)
    before = array.cast(indices[:, 0][None, :] < numbers[:, None], int64)  # the string that each part belongs to
    return from_partitions(values, [SymbolicPartition(reductions.reduce_sum(before, axis=1))])


@_rule("RaggedTensor.with_flat_values")
def _with_flat_values(ops: Collector, ragged: Any, new_values: Any) -> Any:
    return from_partitions(operand(new_values), ragged._partitions)


@_rule("RaggedTensor.row_lengths")
def _row_lengths(ops: Collector, ragged: Any, axis: int = 1, name: Any = None) -> Tensor:
    splits = ragged.row_splits
    if axis != 1:
        raise NeedsEagerError(ValueError("RaggedTensor.row_lengths of an inner axis cannot be saved."))
    found: Tensor = splits[1:] - splits[:-1]
    return found


@_rule("read_file")
def _read_file(ops: Collector, filename: Any, name: Any = None) -> Tensor:
    (found,) = ops.add("ReadFile", {"filename": operand(filename)}, {}, [((), string)])
    return found


@_rule("strings.join")
def _join(ops: Collector, inputs: Any, separator: str = "", name: Any = None) -> Tensor:
    parts = [convert(part, string) for part in inputs]
    shape = next((part.array.shape for part in parts if part.array.shape), ())
    (found,) = ops.add("StringJoin", {"inputs": parts}, {"separator": separator}, [(shape, string)])
    return found


# -- primitives of strings -------------------------------------------------------------------------------------------
def _primitive(
    name: str, op: str, inputs: Callable[..., dict[str, Any]], attrs: Sequence[str] = ()
) -> Callable[..., Any]:
    """A string primitive that is one op; its shape is that of the same call on numbers."""

    def rule(ops: Collector, *arrays: Any, **given: Any) -> Any:
        numbers = tuple([_as_numbers(each) for each in arrays])
        _, ((shape, _),) = infer(name, numbers, given)
        tensors = [wrap(np.asarray(each) if not isinstance(each, (np.ndarray, Symbolic)) else each) for each in arrays]
        dtype = boolean if op in ("Equal", "NotEqual") else string
        made = ops.add(op, inputs(*tensors, **given), {each: given[each] for each in attrs}, [(shape, dtype)])
        return made[0].array

    return rule


def _as_numbers(value: Any) -> Any:
    """A numeric array with the shape of a string array."""
    dtype = getattr(value, "dtype", None)
    if dtype is None or dtype.kind != "O":
        return value
    return (
        Symbolic(value.graph, value.shape, np.dtype(np.int32))
        if isinstance(value, Symbolic)
        else np.zeros(value.shape, np.int32)
    )


def _vector(sizes: Any) -> Tensor:
    return wrap(sizes_of(tuple(sizes), np.int32))


def _index(x: Tensor, index: tuple[Any, ...]) -> dict[str, Any]:
    """The inputs of a strided slice by numbers; `_index_attrs` has its masks."""
    ends = [[], [], []]  # type: list[list[Any]]
    for part in index:
        start, stop, step = (part.start, part.stop, part.step) if isinstance(part, slice) else (part, None, None)
        ends[0].append(start or 0)
        ends[1].append(stop if stop is not None else (start or 0) + 1 if isinstance(part, int) else 0)
        ends[2].append(1 if step is None else step)
    return {"input": x, **dict(zip(("begin", "end", "strides"), map(_vector, ends), strict=True))}


def _index_attrs(index: tuple[Any, ...]) -> dict[str, int]:
    masks = dict.fromkeys(("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask"), 0)
    for i, part in enumerate(index):
        if part is None:
            masks["new_axis_mask"] |= 1 << i
        elif isinstance(part, slice):
            masks["begin_mask"] |= (part.start is None) << i
            masks["end_mask"] |= (part.stop is None) << i
        else:
            masks["shrink_axis_mask"] |= 1 << i
    return masks


@_rule("primitive getitem")
def _text_getitem(ops: Collector, x: Any, *, index: tuple[Any, ...]) -> Any:
    _, ((shape, _),) = infer("getitem", (_as_numbers(x),), {"index": index})
    return ops.add("StridedSlice", _index(wrap(x), index), _index_attrs(index), [(shape, string)])[0].array


register_rule("primitive identity", lambda ops, x: x)
register_rule("primitive equal", _primitive("equal", "Equal", lambda x, y: {"x": x, "y": y}))
register_rule("primitive not_equal", _primitive("not_equal", "NotEqual", lambda x, y: {"x": x, "y": y}))
register_rule(
    "primitive reshape", _primitive("reshape", "Reshape", lambda x, shape: {"tensor": x, "shape": _vector(shape)})
)
register_rule(
    "primitive broadcast_to",
    _primitive("broadcast_to", "BroadcastTo", lambda x, shape: {"input": x, "shape": _vector(shape)}),
)
register_rule(
    "primitive transpose", _primitive("transpose", "Transpose", lambda x, perm: {"x": x, "perm": _vector(perm)})
)
register_rule(
    "primitive concatenate",
    _primitive("concatenate", "ConcatV2", lambda *xs, axis: {"values": list(xs), "axis": convert(axis, int32)}),
)
register_rule("primitive stack", _primitive("stack", "Pack", lambda *xs, axis: {"values": list(xs)}, ["axis"]))
register_rule("primitive where", _primitive("where", "SelectV2", lambda c, x, y: {"condition": c, "t": x, "e": y}))
register_rule(
    "primitive take",
    _primitive(
        "take",
        "GatherV2",
        lambda x, indices, axis, batch_dims: {"params": x, "indices": indices, "axis": convert(axis, int32)},
        ["batch_dims"],
    ),
)

__all__: list[str] = []
