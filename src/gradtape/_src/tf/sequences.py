"""`tf.io`: examples with sequences, and features that are parsed as ragged or sparse tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from gradtape._src import errors
from gradtape._src.conversion import convert, wrap
from gradtape._src.dtypes import as_dtype
from gradtape._src.formats.example import SequenceExample
from gradtape._src.ops.ragged.tensor import RaggedTensor
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.shape import TensorShape
from gradtape._src.tensor import Tensor
from gradtape._src.tf.parsing import (
    PARSERS,
    FixedLenSequenceFeature,
    VarLenFeature,
    parsed_examples,
    values_of,
)

__all__ = ["RaggedFeature", "SparseFeature", "parse_sequence_example", "parse_single_sequence_example"]

_OP = "ParseSequenceExampleV2"


# -- ragged features -------------------------------------------------------------------------------------------------
class _RowSplits(NamedTuple):
    """Rows given by where they begin and end, in another feature.

    >>> tf.io.RaggedFeature.RowSplits("splits").key
    'splits'
    """

    key: str


class _RowLengths(NamedTuple):
    """Rows given by their lengths, in another feature.

    >>> tf.io.RaggedFeature.RowLengths("lengths").key
    'lengths'
    """

    key: str


class _RowStarts(NamedTuple):
    """Rows given by where they begin, in another feature.

    >>> tf.io.RaggedFeature.RowStarts("starts").key
    'starts'
    """

    key: str


class _RowLimits(NamedTuple):
    """Rows given by where they end, in another feature.

    >>> tf.io.RaggedFeature.RowLimits("limits").key
    'limits'
    """

    key: str


class _ValueRowIds(NamedTuple):
    """Rows given by the row number of each value, in another feature.

    >>> tf.io.RaggedFeature.ValueRowIds("rows").key
    'rows'
    """

    key: str


class _UniformRowLength(NamedTuple):
    """Rows of equal length.

    >>> tf.io.RaggedFeature.UniformRowLength(3).length
    3
    """

    length: int


class _RaggedFields(NamedTuple):
    dtype: Any
    value_key: str | None = None
    partitions: Sequence[Any] = ()
    row_splits_dtype: Any = as_dtype("int32")
    validate: bool = False


class RaggedFeature(_RaggedFields):
    """A feature with any number of values, parsed as a RaggedTensor; `partitions` divide the values of an example.

    >>> import gradtape as tf
    >>> feature = tf.train.Feature(float_list=tf.train.FloatList(value=[1.0, 2.0]))
    >>> example = tf.train.Example(features=tf.train.Features(feature={"x": feature})).SerializeToString()
    >>> tf.io.parse_example([example], {"x": tf.io.RaggedFeature(tf.float32)})["x"].to_list()
    [[1.0, 2.0]]
    """

    RowSplits, RowLengths, RowStarts = _RowSplits, _RowLengths, _RowStarts
    RowLimits, ValueRowIds, UniformRowLength = _RowLimits, _ValueRowIds, _UniformRowLength

    def __repr__(self) -> str:
        return "RaggedFeature" + super().__repr__().removeprefix("RaggedFeature").removeprefix("_RaggedFields")


def _lengths(partition: Any, row: Any, count: int) -> ndarray:
    """The lengths of the rows into which a partition divides `count` values of an example."""
    found = values_of(partition.key, row, as_dtype("int64"))
    numbers = np.zeros(0, np.int64) if found is None else found
    if isinstance(partition, _RowLengths):
        return numbers
    if isinstance(partition, _RowSplits):
        return np.diff(numbers)
    if isinstance(partition, _RowStarts):
        return np.diff(np.append(numbers, count))
    if isinstance(partition, _RowLimits):
        return np.diff(np.append(0, numbers))
    return np.bincount(numbers, minlength=int(numbers[-1]) + 1 if len(numbers) else 0)


def _ragged(key: str, rows: list[Any], feature: Any, several: bool) -> Any:
    dtype, splits = as_dtype(feature.dtype), as_dtype(feature.row_splits_dtype)
    found = [values_of(feature.value_key or key, row, dtype) for row in rows]
    parts = [np.zeros(0, dtype.numpy_dtype) if values is None else values for values in found]
    counts = [len(values) for values in parts]
    current: Any = wrap(np.concatenate(parts) if parts else np.zeros(0, dtype.numpy_dtype))
    for partition in reversed(feature.partitions):
        if isinstance(partition, _UniformRowLength):
            counts = [count // max(1, int(partition.length)) for count in counts]
            current = _uniform(current, int(partition.length))
        else:
            lengths = [_lengths(partition, row, count) for row, count in zip(rows, counts, strict=True)]
            counts = [len(found) for found in lengths]
            current = _divided(current, np.concatenate(lengths), splits, feature.validate)
    return _divided(current, np.array(counts), splits, feature.validate) if several else current


def _uniform(values: Any, length: int) -> Any:
    if isinstance(values, Tensor):
        return wrap(np.asarray(values.array).reshape(-1, length, *values.array.shape[1:]))
    return RaggedTensor.from_uniform_row_length(values, length)


def _divided(values: Any, lengths: ndarray, dtype: Any, validate: bool = False) -> Any:
    try:
        return RaggedTensor.from_row_lengths(values, wrap(lengths.astype(dtype.numpy_dtype)), validate=True)
    except (ValueError, errors.InvalidArgumentError) as error:
        raise errors.invalid_argument(f"The partitions of a RaggedFeature are not consistent: {error}", _OP) from None


# -- sparse features -------------------------------------------------------------------------------------------------
class SparseFeature(NamedTuple):
    """A feature whose values have their positions in one or more other features, parsed as a SparseTensor.

    >>> import gradtape as tf
    >>> places = tf.train.Feature(int64_list=tf.train.Int64List(value=[3, 1]))
    >>> values = tf.train.Feature(float_list=tf.train.FloatList(value=[0.5, 0.25]))
    >>> example = tf.train.Example(features=tf.train.Features(feature={"i": places, "v": values})).SerializeToString()
    >>> parsed = tf.io.parse_single_example(example, {"x": tf.io.SparseFeature("i", "v", tf.float32, size=4)})
    >>> tf.sparse.to_dense(parsed["x"]).numpy().tolist()
    [0.0, 0.25, 0.0, 0.5]
    """

    index_key: Any
    value_key: str
    dtype: Any
    size: Any
    already_sorted: bool = False


def _sparse(key: str, rows: list[Any], feature: Any, several: bool) -> SparseTensor:
    dtype, int64 = as_dtype(feature.dtype), as_dtype("int64")
    keys = [feature.index_key] if isinstance(feature.index_key, str) else list(feature.index_key)
    sizes = np.atleast_1d(np.asarray(feature.size, np.int64))
    indices, values = [], []
    for i, row in enumerate(rows):
        columns = [_or_empty(values_of(name, row, int64), int64) for name in keys]
        found = _or_empty(values_of(feature.value_key, row, dtype), dtype)
        if any(len(column) != len(found) for column in columns):
            raise errors.invalid_argument(
                f"Sparse feature {key!r}: there are {len(found)} values but {[len(c) for c in columns]} positions", _OP
            )
        places = np.stack([np.full(len(found), i), *columns] if several else columns, 1)
        if not feature.already_sorted:
            order = np.lexsort(places.T[::-1])
            places, found = places[order], found[order]
        indices.append(places)
        values.append(found)
    shape = np.concatenate([[len(rows)], sizes]) if several else sizes
    joined = np.concatenate(indices) if indices else np.zeros((0, len(shape)), np.int64)
    flat = np.concatenate(values) if values else np.zeros(0, dtype.numpy_dtype)
    return SparseTensor(joined.astype(np.int64), flat, shape.astype(np.int64))


def _or_empty(values: Any, dtype: Any) -> ndarray:
    return np.zeros(0, dtype.numpy_dtype) if values is None else values


PARSERS.update({RaggedFeature: _ragged, SparseFeature: _sparse})


# -- examples with sequences -----------------------------------------------------------------------------------------
def parse_single_sequence_example(
    serialized: Any,
    context_features: Any = None,
    sequence_features: Any = None,
    example_name: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parse the context and the sequences of one `tf.train.SequenceExample` into tensors, by name.

    >>> import gradtape as tf
    >>> steps = [tf.train.Feature(int64_list=tf.train.Int64List(value=[i])) for i in (5, 6)]
    >>> lists = tf.train.FeatureLists(feature_list={"x": tf.train.FeatureList(feature=steps)})
    >>> example = tf.train.SequenceExample(feature_lists=lists).SerializeToString()
    >>> features = {"x": tf.io.FixedLenSequenceFeature([], tf.int64)}
    >>> tf.io.parse_single_sequence_example(example, sequence_features=features)[1]["x"].numpy().tolist()
    [5, 6]
    """
    texts = convert(serialized, "string")
    if texts.array.shape:
        raise ValueError(f"Input serialized must be a scalar, got a tensor of shape {texts.shape}.")
    context, sequences, _ = _parse([np.asarray(texts.array).item()], context_features, sequence_features, False)
    return context, sequences


def parse_sequence_example(
    serialized: Any,
    context_features: Any = None,
    sequence_features: Any = None,
    example_names: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Parse contexts and sequences of several `tf.train.SequenceExample`s, and the lengths of dense sequences.

    Dense sequences are padded with zeros to the longest one.

    >>> step = tf.train.Feature(int64_list=tf.train.Int64List(value=[7]))
    >>> lists = tf.train.FeatureLists(feature_list={"x": tf.train.FeatureList(feature=[step, step])})
    >>> record = tf.train.SequenceExample(feature_lists=lists).SerializeToString()
    >>> wanted = {"x": tf.io.FixedLenSequenceFeature([], tf.int64)}
    >>> context, sequences, lengths = tf.io.parse_sequence_example([record], sequence_features=wanted)
    >>> sequences["x"].numpy().tolist(), lengths["x"].numpy().tolist()
    ([[7, 7]], [2])
    """
    texts = np.asarray(convert(serialized, "string").array)
    if texts.ndim > 1:
        raise errors.invalid_argument(
            f"Expected serialized to be a scalar or vector, got shape: {errors.brackets(texts.shape)}", _OP
        )
    return _parse(list(np.ravel(texts)), context_features, sequence_features, bool(texts.ndim))


def _parse(texts: list[bytes], context: Any, sequences: Any, several: bool) -> Any:
    if not context and not sequences:
        raise ValueError("Both context_features and sequence_features are None, but at least one should have values.")
    examples = [_example(text) for text in texts]
    contexts = [example.context.feature for example in examples]
    made = parsed_examples(contexts, context, (len(texts),) if several else ()) if context else {}
    lists = [example.feature_lists.feature_list for example in examples]
    found: dict[str, Any] = {}
    lengths: dict[str, Any] = {}
    for key, feature in sorted((sequences or {}).items()):
        steps = [_steps(key, each, feature) for each in lists]
        if isinstance(feature, FixedLenSequenceFeature):
            found[key], lengths[key] = _dense(key, steps, feature, several)
        elif isinstance(feature, VarLenFeature):
            found[key] = _sparse_steps(steps, feature, several)
        elif isinstance(feature, RaggedFeature):
            found[key] = _ragged_steps(steps, feature, several)
        else:
            raise ValueError(f"Unsupported {type(feature).__name__} {feature} for key '{key}'")
    return made, found, lengths


def _example(text: bytes) -> SequenceExample:
    example = SequenceExample()
    try:
        example._merge(text, strict=True)
    except ValueError:
        raise errors.invalid_argument("Invalid protocol message input, example id: <unknown>", _OP) from None
    return example


def _steps(key: str, lists: Any, feature: Any) -> list[ndarray] | None:
    """The values of each step of a sequence; None if it is missing."""
    name = getattr(feature, "value_key", None) or key
    if name not in lists:
        return None
    dtype = as_dtype(feature.dtype)
    steps = [values_of(key, {key: step}, dtype, _OP) for step in lists[name].feature]
    return [_or_empty(values, dtype) for values in steps]


def _dense(key: str, steps: list[Any], feature: Any, several: bool) -> tuple[Tensor, Tensor]:
    dtype, shape = as_dtype(feature.dtype), tuple(int(n or 0) for n in TensorShape(feature.shape))
    size = math.prod(shape)
    for found in steps:
        if found is None and not feature.allow_missing:
            raise errors.invalid_argument(
                f"Name: <unknown>, Feature list '{key}' is required but could not be found.  Did you mean to include "
                "it in feature_list_dense_missing_assumed_empty or feature_list_dense_defaults? Set allow_missing=True "
                "for a sequence that may be missing",
                _OP,
            )
        for i, values in enumerate(found or ()):
            if len(values) != size:
                raise errors.invalid_argument(
                    f"Feature list '{key}' has an unexpected number of values. Step {i} has {len(values)}, which is "
                    f"not consistent with output shape: {errors.brackets(shape)}",
                    _OP,
                )
    lengths = np.array([len(found or ()) for found in steps], np.int64)
    empty = b"" if dtype.name == "string" else 0
    made = np.full((len(steps), max(lengths, default=0), size), empty, dtype.numpy_dtype)
    for i, found in enumerate(steps):
        for k, values in enumerate(found or ()):
            made[i, k] = values
    made = made.reshape(len(steps), -1 if made.size else made.shape[1], *shape)
    return (wrap(made), wrap(lengths)) if several else (wrap(made[0]), wrap(lengths[0]))


def _sparse_steps(steps: list[Any], feature: Any, several: bool) -> SparseTensor:
    dtype = as_dtype(feature.dtype)
    indices = [(i, k, j) for i, found in enumerate(steps) for k, v in enumerate(found or ()) for j in range(len(v))]
    flat = [values for found in steps for values in found or ()]
    shape = [len(steps), max((len(found or ()) for found in steps), default=0), max(map(len, flat), default=0)]
    places = np.array(indices, np.int64).reshape(-1, 3)
    values = np.concatenate(flat) if flat else np.zeros(0, dtype.numpy_dtype)
    if several:
        return SparseTensor(places, values, np.array(shape, np.int64))
    return SparseTensor(places[:, 1:], values, np.array(shape[1:], np.int64))


def _ragged_steps(steps: list[Any], feature: Any, several: bool) -> Any:
    dtype, splits = as_dtype(feature.dtype), as_dtype(feature.row_splits_dtype)
    flat = [values for found in steps for values in found or ()]
    values = wrap(np.concatenate(flat) if flat else np.zeros(0, dtype.numpy_dtype))
    rows = _divided(values, np.array([len(v) for v in flat], np.int64), splits)
    return _divided(rows, np.array([len(found or ()) for found in steps]), splits) if several else rows
