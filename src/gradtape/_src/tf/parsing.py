"""`tf.io`: parse records into tensors: `tf.train.Example`, and serialized tensors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.graph_ops import kept_in_graph
from gradtape._src.conversion import convert, has_dtype, operand, wrap
from gradtape._src.dtypes import as_dtype
from gradtape._src.formats.example import Example, Feature
from gradtape._src.formats.tensor_proto import parsed, serialized as _serialized
from gradtape._src.formats.tfrecord import TFRecordOptions as TFRecordOptions, TFRecordWriter as TFRecordWriter
from gradtape._src.ops.sparse_tensor import SparseTensor, stack as stack_sparse, unstack as unstack_sparse
from gradtape._src.shape import TensorShape
from gradtape._src.tensor import Tensor
from gradtape._src.tf.string_arrays import known

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike

__all__ = [
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "TFRecordOptions",
    "TFRecordWriter",
    "VarLenFeature",
    "deserialize_many_sparse",
    "parse_example",
    "parse_single_example",
    "parse_tensor",
    "serialize_many_sparse",
    "serialize_sparse",
    "serialize_tensor",
]

_OP = "ParseExampleV2"
_LISTS = {"string": "bytes_list", "float32": "float_list", "int64": "int64_list"}
_WORDS = {"bytes_list": "string", "float_list": "float", "int64_list": "int64"}


class FixedLenFeature(NamedTuple):
    """A feature with a fixed shape; `default_value` is used if it is missing.

    >>> features = tf.train.Features(feature={"x": tf.train.Feature(float_list=tf.train.FloatList(value=[1.0, 2.0]))})
    >>> record = tf.train.Example(features=features).SerializeToString()
    >>> tf.io.parse_single_example(record, {"x": tf.io.FixedLenFeature([2], tf.float32)})["x"].numpy().tolist()
    [1.0, 2.0]
    """

    shape: Any
    dtype: Any
    default_value: Any = None


class FixedLenSequenceFeature(NamedTuple):
    """A feature with any number of values of a shape; batches are padded with `default_value`.

    >>> features = tf.train.Features(feature={"x": tf.train.Feature(float_list=tf.train.FloatList(value=[1.0, 2.0]))})
    >>> record = tf.train.Example(features=features).SerializeToString()
    >>> kind = tf.io.FixedLenSequenceFeature([], tf.float32, allow_missing=True)
    >>> tf.io.parse_single_example(record, {"x": kind})["x"].numpy().tolist()
    [1.0, 2.0]
    """

    shape: Any
    dtype: Any
    allow_missing: bool = False
    default_value: Any = None


class VarLenFeature(NamedTuple):
    """A feature with any number of values, parsed as a SparseTensor.

    >>> features = tf.train.Features(feature={"x": tf.train.Feature(float_list=tf.train.FloatList(value=[1.0, 2.0]))})
    >>> record = tf.train.Example(features=features).SerializeToString()
    >>> tf.io.parse_single_example(record, {"x": tf.io.VarLenFeature(tf.float32)})["x"].values.numpy().tolist()
    [1.0, 2.0]
    """

    dtype: Any


# -- examples --------------------------------------------------------------------------------------------------------
def parse_single_example(
    serialized: Any, features: TensorLike, example_names: Any = None, name: str | None = None
) -> Any:
    """Parse the features of one example into tensors, by name.

    >>> import gradtape as tf
    >>> feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[1, 2]))
    >>> example = tf.train.Example(features=tf.train.Features(feature={"x": feature})).SerializeToString()
    >>> tf.io.parse_single_example(example, {"x": tf.io.FixedLenFeature([2], "int64")})["x"].numpy().tolist()
    [1, 2]
    """
    texts = convert(serialized, "string")
    if texts.array.shape:
        raise ValueError(f"Input serialized must be a scalar, got a tensor of shape {texts.shape}.")
    return parsed_examples([_example(np.asarray(texts.array).item())], features, ())


def parse_example(serialized: Any, features: TensorLike, example_names: Any = None, name: str | None = None) -> Any:
    """Parse the features of several examples into tensors with an additional first axis, by name.

    >>> features = tf.train.Features(feature={"x": tf.train.Feature(int64_list=tf.train.Int64List(value=[7]))})
    >>> record = tf.train.Example(features=features).SerializeToString()
    >>> tf.io.parse_example([record, record], {"x": tf.io.FixedLenFeature([], tf.int64)})["x"].numpy().tolist()
    [7, 7]
    """
    texts = convert(serialized, "string")
    shape = tuple(texts.array.shape)
    if len(shape) > 1:
        raise errors.invalid_argument(
            f"Expected serialized to be a scalar or vector, got shape: {errors.brackets(shape)}", _OP
        )
    rows = [_example(text) for text in np.ravel(np.asarray(texts.array))]
    return parsed_examples(rows, features, shape)


_SHOWN = 200  # bytes of an example that an error shows


def _example(text: bytes) -> Any:
    example = Example()
    try:
        example._merge(text, strict=True)
    except ValueError:
        shown = text[:_SHOWN].decode("ascii", "backslashreplace") + ("..." if len(text) > _SHOWN else "")
        raise errors.refused_value(f"Could not parse example input, value: '{shown}'", _OP) from None
    return example.features.feature


def parsed_examples(rows: list[Any], features: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    """The features of examples, by name; of one example if the shape is empty."""
    if not features:
        raise ValueError("Invalid argument: features cannot be empty.")
    made = {}
    for key, feature in sorted(features.items()):
        parse = PARSERS.get(type(feature))
        if parse is None:
            raise ValueError(f"Unsupported {type(feature).__name__} {feature} for key '{key}'")
        made[key] = parse(key, rows, feature, bool(shape))
    return made


def values_of(key: str, row: Any, dtype: Any, op: str = _OP) -> Any:
    """The values of a feature in an example, or None if it is missing."""
    feature: Feature | None = row.get(key)
    kind = None if feature is None else feature.WhichOneof("kind")
    if feature is None or kind is None:
        return None
    if kind != _LISTS[dtype.name]:
        raise errors.refused_value(
            f"Key: {key}.  Data types don't match. Data type: {_WORDS[kind]} but expected type: "
            f"{_WORDS[_LISTS[dtype.name]]}",
            op,
        )
    found = getattr(feature, kind).value
    values = np.empty(len(found), dtype.numpy_dtype)
    values[:] = found
    return values


def _dtype(given: Any) -> Any:
    dtype = as_dtype(given)
    if dtype.name not in _LISTS:
        raise errors.invalid_argument(
            f"Value for attr 'Tdense' of {dtype.word} is not in the list of allowed values: float, int64, string. "
            "Parse one of these and use tf.cast.",
            _OP,
        )
    return dtype


def _shape(key: str, feature: Any) -> tuple[int, ...]:
    shape = TensorShape(feature.shape)
    if not shape.is_fully_defined():
        raise ValueError(
            f"First dimension of shape for feature {key} unknown. Consider using FixedLenSequenceFeature. Received "
            f"feature={feature}."
        )
    return tuple(int(n or 0) for n in shape)


def _fixed(key: str, rows: list[Any], feature: Any, several: bool) -> Tensor:
    dtype, shape = _dtype(feature.dtype), _shape(key, feature)
    size = math.prod(shape)
    default = None if feature.default_value is None else _default(feature.default_value, dtype, shape, size)
    found = []
    for i, row in enumerate(rows):
        values = values_of(key, row, dtype)
        values = default if values is None else values
        if values is None:
            who = "Name: <unknown>, " if several else ""
            raise errors.refused_value(
                f"{who}Feature: {key} (data type: {dtype.word}) is required but could not be found.", _OP
            )
        if len(values) != size and not several:
            raise errors.refused_value(
                f"Key: {key}.  Can't parse serialized Example: Some {_LISTS[dtype.name]} slice was not parsed. It "
                f"has {len(values)} values, but the shape is {errors.brackets(shape)}",
                _OP,
            )
        if len(values) != size:
            raise errors.refused_value(
                f"Name: <unknown>, Key: {key}, Index: {i}.  Number of {dtype.word} values != expected.  Values size: "
                f"{len(values)} but output shape: {errors.brackets(shape)}",
                _OP,
            )
        found.append(values)
    made = np.concatenate(found) if found else np.zeros(0, dtype.numpy_dtype)
    return wrap(made.reshape((len(rows), *shape) if several else shape))


def _default(value: Any, dtype: Any, shape: tuple[int, ...], size: int) -> Any:
    array = np.ravel(np.asarray(convert(value, dtype).array))
    if len(array) != size:
        raise errors.invalid_argument(
            f"Input to reshape is a tensor with {len(array)} values, but the requested shape has {size}", "Reshape"
        )
    return array


def _sequence(key: str, rows: list[Any], feature: Any, several: bool) -> Tensor:
    if not feature.allow_missing:
        raise ValueError("Unsupported: FixedLenSequenceFeature requires allow_missing to be True.")
    dtype, shape = _dtype(feature.dtype), _shape(key, feature)
    found = [values_of(key, row, dtype) for row in rows]
    size = math.prod(shape)
    for values in found:
        if values is not None and len(values) and (not size or len(values) % size):
            raise errors.refused_value(
                f"Error while parsing feature with key {key}: number of elements should be divisible by {size}, found "
                f"{len(values)} instead",
                _OP,
            )
    longest = max((len(values) // (size or 1) for values in found if values is not None), default=0)
    empty = b"" if dtype.name == "string" else 0
    default = empty if feature.default_value is None else np.asarray(convert(feature.default_value, dtype).array)[()]
    made = np.full((len(rows), longest * size), default, dtype.numpy_dtype)
    for row, values in zip(made, found, strict=True):
        if values is not None:
            row[: len(values)] = values
    made = made.reshape(len(rows), longest, *shape)
    return wrap(made if several else made[0])


def _variable(key: str, rows: list[Any], feature: Any, several: bool) -> SparseTensor:
    dtype = _dtype(feature.dtype)
    found = [values_of(key, row, dtype) for row in rows]
    lists = [np.zeros(0, dtype.numpy_dtype) if values is None else values for values in found]
    longest = max(map(len, lists), default=0)
    lengths = np.array([len(values) for values in lists], np.int64)
    ends = np.cumsum(lengths)
    rows_ = np.repeat(np.arange(len(lists)), lengths)
    indices = np.stack([rows_, np.arange(len(rows_)) - np.repeat(ends - lengths, lengths)], 1)
    values = np.concatenate(lists) if lists else np.zeros(0, dtype.numpy_dtype)
    if several:
        return SparseTensor(indices, values, np.array([len(rows), longest], np.int64))
    return SparseTensor(indices[:, 1:], values, np.array([longest], np.int64))


PARSERS: dict[type, Any] = {
    FixedLenFeature: _fixed,
    FixedLenSequenceFeature: _sequence,
    VarLenFeature: _variable,
}


# -- tensors ---------------------------------------------------------------------------------------------------------
@kept_in_graph("serialize_tensor")
def serialize_tensor(tensor: TensorLike, name: str | None = None) -> Tensor:
    """Serialize a tensor to a string, in TensorFlow's format.

    >>> tf.io.parse_tensor(tf.io.serialize_tensor([1, 2]), "int32").numpy().tolist()
    [1, 2]
    """
    x = convert(tensor)
    known(x)
    value = np.empty((), object)
    value[()] = _serialized(x)
    return wrap(value)


def parse_tensor(serialized: Any, out_type: Any, name: str | None = None) -> Tensor:
    """Parse a tensor that `serialize_tensor` wrote.

    >>> tf.io.parse_tensor(tf.io.serialize_tensor([1, 2]), tf.int32).numpy().tolist()
    [1, 2]
    """
    text = operand(serialized, None if has_dtype(serialized) else as_dtype("string"))
    if text.dtype.name != "string":
        raise errors.invalid_argument(
            f"cannot compute ParseTensor as input #0(zero-based) was expected to be a string tensor but is a "
            f"{text.dtype.word} tensor",
            "ParseTensor",
        )
    if text.array.shape:
        raise errors.invalid_argument(
            f"Expected `serialized` to be a scalar, got shape: {errors.brackets(text.array.shape)}", "ParseTensor"
        )
    return parsed(np.asarray(text.array).item(), as_dtype(out_type))


# -- sparse tensors --------------------------------------------------------------------------------------------------
@kept_in_graph("serialize_sparse")
def serialize_sparse(sp_input: SparseTensor, out_type: Any = "string", name: str | None = None) -> Tensor:
    """Serialize a sparse tensor to three strings: its indices, its values and its shape.

    >>> [int(tf.strings.length(part)) > 0 for part in tf.io.serialize_sparse(tf.sparse.from_dense([1, 0, 2]))]
    [True, True, True]
    """
    if not isinstance(sp_input, SparseTensor):
        raise TypeError(f"Input must be a SparseTensor. Received {sp_input!r}.")
    if as_dtype(out_type).name != "string":
        raise errors.unsupported_dtype("SerializeSparse", as_dtype(out_type), "string", "out_type")
    return wrap(np.array([_serialized(part) for part in _parts(sp_input)], object))


@kept_in_graph("serialize_many_sparse")
def serialize_many_sparse(sp_input: SparseTensor, out_type: Any = "string", name: str | None = None) -> Tensor:
    """Serialize the rows of a sparse tensor, each to three strings.

    >>> import gradtape as tf
    >>> s = tf.sparse.from_dense([[0, 1], [2, 0]])
    >>> tf.io.deserialize_many_sparse(tf.io.serialize_many_sparse(s), tf.int32).values.numpy().tolist()
    [1, 2]
    """
    if not isinstance(sp_input, SparseTensor):
        raise TypeError(f"Input must be a SparseTensor. Received {sp_input!r}.")
    _parts(sp_input)
    rows = np.empty((len(unstack_sparse(sp_input)), 3), object)
    for i, row in enumerate(unstack_sparse(sp_input)):
        rows[i] = np.array([_serialized(part) for part in _parts(row)], object)
    return wrap(rows)


def _parts(x: SparseTensor) -> tuple[Tensor, Tensor, Tensor]:
    parts = x.indices, x.values, x.dense_shape
    for part in parts:
        known(part)
    return parts


def deserialize_many_sparse(
    serialized_sparse: Any, dtype: Any, rank: Any = None, name: str | None = None
) -> SparseTensor:
    """Combine rows that `serialize_sparse` or `serialize_many_sparse` wrote into a sparse tensor.

    >>> parts = tf.io.serialize_many_sparse(tf.sparse.from_dense([[1, 0], [0, 2]]))
    >>> tf.sparse.to_dense(tf.io.deserialize_many_sparse(parts, tf.int32)).numpy().tolist()
    [[1, 0], [0, 2]]
    """
    texts, wanted, op = np.asarray(convert(serialized_sparse).array), as_dtype(dtype), "DeserializeManySparse"
    if texts.ndim != 2 or texts.shape[-1] != 3:
        raise errors.invalid_argument(
            f"Serialized sparse should have 3 as the last dimension {errors.brackets(texts.shape)}", op
        )
    rows = []
    for i, (where, values, sizes) in enumerate(texts.tolist()):
        try:
            indices, shape = parsed(where, as_dtype("int64")), parsed(sizes, as_dtype("int64"))
        except errors.InvalidArgumentError:
            raise errors.refused_value("Could not parse serialized proto", op) from None
        try:
            rows.append(SparseTensor(indices, parsed(values, wanted), shape))
        except errors.InvalidArgumentError:
            raise errors.refused_value(
                f"Requested SparseTensor of type {wanted.word} but SparseTensor[{i}].values has another dtype", op
            ) from None
    return stack_sparse(rows, op)
