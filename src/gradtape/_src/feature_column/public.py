"""`tf.feature_column`: convert the features of a batch to the input of a model.

New code uses Keras' preprocessing layers or `tf.keras.utils.FeatureSpace`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from gradtape._src import nest
from gradtape._src.feature_column.base import CategoricalColumn, FeatureColumn, api
from gradtape._src.feature_column.categorical import (
    CrossedColumn,
    HashedCategoricalColumn,
    IdentityCategoricalColumn,
    SequenceCategoricalColumn,
    VocabularyFileCategoricalColumn,
    VocabularyListCategoricalColumn,
    WeightedCategoricalColumn,
    check_key,
    check_string_or_integer,
)
from gradtape._src.feature_column.dense import (
    BucketizedColumn,
    EmbeddingColumn,
    IndicatorColumn,
    NumericColumn,
    SequenceNumericColumn,
    SharedEmbeddingColumn,
    SharedEmbeddings,
)

__all__ = [
    "bucketized_column",
    "categorical_column_with_hash_bucket",
    "categorical_column_with_identity",
    "categorical_column_with_vocabulary_file",
    "categorical_column_with_vocabulary_list",
    "crossed_column",
    "embedding_column",
    "indicator_column",
    "make_parse_example_spec",
    "numeric_column",
    "sequence_categorical_column_with_hash_bucket",
    "sequence_categorical_column_with_identity",
    "sequence_categorical_column_with_vocabulary_file",
    "sequence_categorical_column_with_vocabulary_list",
    "sequence_numeric_column",
    "shared_embeddings",
    "weighted_categorical_column",
]


# -- numbers -----------------------------------------------------------------------------------------------------------
def numeric_column(
    key: str,
    shape: Any = (1,),
    default_value: Any = None,
    dtype: Any = None,
    normalizer_fn: Callable[[Any], Any] | None = None,
) -> NumericColumn:
    """Create a column of numbers.

    Args:
      key: The name of the feature.
      shape: The shape of an example.
      default_value: The value of a missing feature when examples are parsed: a number, or numbers of this shape.
      dtype: The dtype of the feature in examples; float32 by default. The column always returns float32.
      normalizer_fn: A function that is applied to the tensor of the feature.

    >>> price = tf.feature_column.numeric_column("price", normalizer_fn=lambda x: (x - 3.0) / 4.2)
    >>> price.name, price.shape
    ('price', (1,))
    >>> tf.compat.v1.feature_column.input_layer({"price": [[3.0], [7.2]]}, [price]).numpy().round(2).tolist()
    [[0.0], [1.0]]
    """
    dtype = _dtype(dtype, api().float32)
    shape = _shape(shape, key)
    _check_number(dtype, key)
    default_value = _default(shape, default_value, dtype, key)
    _check_callable(normalizer_fn)
    check_key(key)
    return NumericColumn(key, shape, default_value, dtype, normalizer_fn)


def bucketized_column(source_column: NumericColumn, boundaries: Sequence[float]) -> BucketizedColumn:
    """Create a column that converts numbers to the index of the interval they are in, as one-hot vectors.

    The first interval ends before the first boundary, and the last one starts at the last boundary.

    Args:
      source_column: A column of numbers, of one dimension.
      boundaries: Numbers in ascending order.

    >>> price = tf.feature_column.numeric_column("price")
    >>> column = tf.feature_column.bucketized_column(price, [0.0, 10.0])
    >>> tf.compat.v1.feature_column.input_layer({"price": [[-1.0], [0.0], [15.0]]}, [column]).numpy().tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    if not isinstance(source_column, NumericColumn):
        raise ValueError(f"source_column must be a column generated with numeric_column(). Given: {source_column}")
    if len(source_column.shape) > 1:
        raise ValueError(f"source_column must be one-dimensional column. Given: {source_column}")
    if not boundaries:
        raise ValueError("boundaries must not be empty.")
    if not isinstance(boundaries, (list, tuple)) or any(a >= b for a, b in pairwise(boundaries)):
        raise ValueError("boundaries must be a sorted list.")
    return BucketizedColumn(source_column, tuple(boundaries))


# -- categories --------------------------------------------------------------------------------------------------------
def categorical_column_with_hash_bucket(key: str, hash_bucket_size: int, dtype: Any = None) -> HashedCategoricalColumn:
    """Create a column that hashes strings or integers to ids, for large or unknown vocabularies.

    Args:
      key: The name of the feature.
      hash_bucket_size: The number of ids.
      dtype: The dtype of the feature, a string or an integer type; string by default.

    >>> words = tf.feature_column.categorical_column_with_hash_bucket("word", 10)
    >>> column = tf.feature_column.indicator_column(words)
    >>> found = tf.compat.v1.feature_column.input_layer({"word": [["cat"], ["dog"]]}, [column])
    >>> tf.argmax(found, axis=1).numpy().tolist()
    [6, 2]
    """
    if hash_bucket_size is None:
        raise ValueError(f"hash_bucket_size must be set. key: {key}")
    if hash_bucket_size < 1:
        raise ValueError(f"hash_bucket_size must be at least 1. hash_bucket_size: {hash_bucket_size}, key: {key}")
    dtype = _dtype(dtype, api().string)
    check_key(key)
    check_string_or_integer(dtype, f"column_name: {key}")
    return HashedCategoricalColumn(key, hash_bucket_size, dtype)


def categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: str,
    vocabulary_size: int | None = None,
    dtype: Any = None,
    default_value: int | None = None,
    num_oov_buckets: int = 0,
    file_format: str | None = None,
) -> VocabularyFileCategoricalColumn:
    """Create a column that converts words to ids: their line numbers in a file, from 0.

    Args:
      key: The name of the feature.
      vocabulary_file: The path of the file.
      vocabulary_size: The number of lines that are used; all of them by default.
      dtype: The dtype of the feature, a string or an integer type; string by default.
      default_value: The id of words that are not in the file, -1 by default; not with `num_oov_buckets`.
      num_oov_buckets: The number of ids for such words, which are hashed.
      file_format: None for text, or "tfrecord_gzip".

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "words.txt")
    >>> with open(path, "w") as file:
    ...     _ = file.write("cat\\ndog\\n")
    >>> words = tf.feature_column.categorical_column_with_vocabulary_file("word", path, num_oov_buckets=1)
    >>> column = tf.feature_column.indicator_column(words)
    >>> tf.compat.v1.feature_column.input_layer({"word": [["dog"], ["cow"]]}, [column]).numpy().tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    if not vocabulary_file:
        raise ValueError(f"Missing vocabulary_file in {key}.")
    if file_format is None and str(vocabulary_file).endswith("tfrecord.gz"):
        file_format = "tfrecord_gzip"
    if vocabulary_size is None:
        vocabulary_size = _count(key, vocabulary_file, file_format)
    if vocabulary_size < 1:
        raise ValueError(f"Invalid vocabulary_size in {key}.")
    _check_buckets(key, num_oov_buckets, default_value is not None)
    dtype = _dtype(dtype, api().string)
    check_string_or_integer(dtype, f"column_name: {key}")
    check_key(key)
    return VocabularyFileCategoricalColumn(
        key,
        vocabulary_file,
        vocabulary_size,
        num_oov_buckets or 0,
        dtype,
        -1 if default_value is None else default_value,
        file_format,
    )


def categorical_column_with_vocabulary_list(
    key: str, vocabulary_list: Sequence[Any], dtype: Any = None, default_value: int = -1, num_oov_buckets: int = 0
) -> VocabularyListCategoricalColumn:
    """Create a column that converts words to ids: their positions in a list, from 0.

    Args:
      key: The name of the feature.
      vocabulary_list: Strings or integers.
      dtype: The dtype of the feature, a string or an integer type; that of the list by default.
      default_value: The id of words that are not in the list; not with `num_oov_buckets`.
      num_oov_buckets: The number of ids for such words, which are hashed.

    >>> colors = tf.feature_column.categorical_column_with_vocabulary_list("color", ["R", "G", "B"])
    >>> column = tf.feature_column.indicator_column(colors)
    >>> tf.compat.v1.feature_column.input_layer({"color": [["G"], ["X"]]}, [column]).numpy().tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    if vocabulary_list is None or len(vocabulary_list) < 1:
        raise ValueError(f"vocabulary_list {vocabulary_list} must be non-empty, column_name: {key}")
    if len(set(vocabulary_list)) != len(vocabulary_list):
        raise ValueError(f"Duplicate keys in vocabulary_list {vocabulary_list}, column_name: {key}")
    own = api().as_dtype(np.array(vocabulary_list).dtype)
    _check_buckets(key, num_oov_buckets, default_value != -1)
    check_string_or_integer(own, f"column_name: {key} vocabulary")
    dtype = _dtype(dtype, own)
    if dtype.is_integer != own.is_integer:
        raise ValueError(f"dtype {dtype} and vocabulary dtype {own} do not match, column_name: {key}")
    check_string_or_integer(dtype, f"column_name: {key}")
    check_key(key)
    return VocabularyListCategoricalColumn(key, tuple(vocabulary_list), dtype, default_value, num_oov_buckets)


def categorical_column_with_identity(
    key: str, num_buckets: int, default_value: int | None = None
) -> IdentityCategoricalColumn:
    """Create a column of integers that are ids, from 0 to `num_buckets - 1`.

    Args:
      key: The name of the feature.
      num_buckets: The number of ids.
      default_value: The id of numbers out of this range; without it, they have no indicator and lookups raise an error.

    >>> weekday = tf.feature_column.categorical_column_with_identity("day", 3, default_value=0)
    >>> column = tf.feature_column.indicator_column(weekday)
    >>> tf.compat.v1.feature_column.input_layer({"day": [[2], [9]]}, [column]).numpy().tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    if num_buckets < 1:
        raise ValueError(f"num_buckets {num_buckets} < 1, column_name {key}")
    if default_value is not None and not 0 <= default_value < num_buckets:
        raise ValueError(f"default_value {default_value} not in range [0, {num_buckets}), column_name {key}")
    check_key(key)
    return IdentityCategoricalColumn(key, num_buckets, default_value)


def weighted_categorical_column(
    categorical_column: CategoricalColumn, weight_feature_key: str, dtype: Any = None
) -> WeightedCategoricalColumn:
    """Create a column of ids with weights, which are another feature.

    Args:
      categorical_column: The column of the ids.
      weight_feature_key: The name of the feature with the weights.
      dtype: The dtype of that feature; float32 by default.

    >>> words = tf.feature_column.categorical_column_with_identity("word", 3)
    >>> column = tf.feature_column.indicator_column(tf.feature_column.weighted_categorical_column(words, "weight"))
    >>> features = {"word": [[0, 2]], "weight": [[0.5, 2.0]]}
    >>> tf.compat.v1.feature_column.input_layer(features, [column]).numpy().tolist()
    [[0.5, 0.0, 2.0]]
    """
    dtype = _dtype(dtype, api().float32)
    if not (dtype.is_integer or dtype.is_floating):
        raise ValueError(f"dtype {dtype} is not convertible to float.")
    return WeightedCategoricalColumn(categorical_column, weight_feature_key, dtype)


def crossed_column(keys: Iterable[Any], hash_bucket_size: int, hash_key: int | None = None) -> CrossedColumn:
    """Create a column that hashes each combination of several features to an id.

    Args:
      keys: Two or more names of features, or categorical columns except those with hash buckets.
      hash_bucket_size: The number of ids.
      hash_key: A key of the hash function.

    >>> cross = tf.feature_column.crossed_column(["color", "size"], 10)
    >>> column = tf.feature_column.indicator_column(cross)
    >>> found = tf.compat.v1.feature_column.input_layer({"color": [["R"]], "size": [["L"]]}, [column])
    >>> cross.name, float(tf.reduce_sum(found))
    ('color_X_size', 1.0)
    """
    if not hash_bucket_size or hash_bucket_size < 1:
        raise ValueError(f"hash_bucket_size must be > 1. hash_bucket_size: {hash_bucket_size}")
    given = tuple(keys or ())
    if len(given) < 2:
        raise ValueError(f"keys must be a list with length > 1. Given: {keys}")
    for key in given:
        if not isinstance(key, (str, CategoricalColumn)):
            raise ValueError(
                "Unsupported key type. All keys must be either string, or categorical column except "
                f"HashedCategoricalColumn. Given: {key}"
            )
        if isinstance(key, HashedCategoricalColumn):
            raise ValueError(
                "categorical_column_with_hash_bucket is not supported for crossing. Hashing before crossing will "
                f"increase probability of collision. Instead, use the feature name as a string. Given: {key}"
            )
    return CrossedColumn(given, hash_bucket_size, hash_key)


# -- dense tensors of categories ---------------------------------------------------------------------------------------
def indicator_column(categorical_column: CategoricalColumn) -> IndicatorColumn:
    """Create a column that counts how often each id of a categorical column occurs in an example.

    Args:
      categorical_column: The column of the ids.

    >>> day = tf.feature_column.categorical_column_with_identity("day", 3)
    >>> column = tf.feature_column.indicator_column(day)
    >>> tf.compat.v1.feature_column.input_layer({"day": [[1, 1], [0, 2]]}, [column]).numpy().tolist()
    [[0.0, 2.0, 0.0], [1.0, 0.0, 1.0]]
    """
    if not isinstance(categorical_column, CategoricalColumn):
        raise ValueError(f"Unsupported input type. Input must be a CategoricalColumn. Given: {categorical_column}")
    return IndicatorColumn(categorical_column)


def embedding_column(
    categorical_column: CategoricalColumn,
    dimension: int,
    combiner: str = "mean",
    initializer: Any = None,
    ckpt_to_load_from: Any = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
    use_safe_embedding_lookup: bool = True,
) -> EmbeddingColumn:
    """Create a column that looks up a trainable vector for each id of a categorical column.

    Args:
      categorical_column: The column of the ids.
      dimension: The length of a vector.
      combiner: How the vectors of several ids of an example are combined: "mean", "sqrtn" or "sum".
      initializer: The initializer of the vectors; by default truncated normal, with deviation `1 / sqrt(dimension)`.
      ckpt_to_load_from: A checkpoint that contains the vectors.
      tensor_name_in_ckpt: The name of the vectors in the checkpoint.
      max_norm: The norm to which longer vectors are clipped.
      trainable: Whether the vectors are trained.
      use_safe_embedding_lookup: Whether examples without an id, and ids below 0, are allowed.

    >>> day = tf.feature_column.categorical_column_with_identity("day", 7)
    >>> column = tf.feature_column.embedding_column(day, 2, initializer=tf.keras.initializers.Ones())
    >>> tf.compat.v1.feature_column.input_layer({"day": [[1], [5]]}, [column]).numpy().tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    _check_embeddings(dimension, initializer, ckpt_to_load_from, tensor_name_in_ckpt, categorical_column)
    return EmbeddingColumn(
        categorical_column,
        dimension,
        combiner,
        _initializer(initializer, dimension),
        ckpt_to_load_from,
        tensor_name_in_ckpt,
        max_norm,
        trainable,
        use_safe_embedding_lookup,
    )


def shared_embeddings(
    categorical_columns: Sequence[CategoricalColumn],
    dimension: int,
    combiner: str = "mean",
    initializer: Any = None,
    shared_embedding_collection_name: str | None = None,
    ckpt_to_load_from: Any = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
    use_safe_embedding_lookup: bool = True,
) -> list[SharedEmbeddingColumn]:
    """Create embedding columns that share one table. As in TensorFlow, this works only in graphs.

    Args:
      categorical_columns: Columns of the same kind, with the same number of ids.
      dimension: The length of a vector.
      combiner: How the vectors of several ids of an example are combined: "mean", "sqrtn" or "sum".
      initializer: The initializer of the vectors; by default truncated normal, with deviation `1 / sqrt(dimension)`.
      shared_embedding_collection_name: The name of the variable.
      ckpt_to_load_from: A checkpoint that contains the vectors.
      tensor_name_in_ckpt: The name of the vectors in the checkpoint.
      max_norm: The norm to which longer vectors are clipped.
      trainable: Whether the vectors are trained.
      use_safe_embedding_lookup: Whether examples without an id, and ids below 0, are allowed.

    Returns:
      A column for each of the categorical columns, in their order.

    >>> with tf.Graph().as_default():
    ...     watched, clicked = [tf.feature_column.categorical_column_with_identity(key, 9) for key in ("w", "c")]
    ...     columns = tf.feature_column.shared_embeddings([watched, clicked], 2)
    >>> [column.name for column in columns]
    ['w_shared_embedding', 'c_shared_embedding']
    """
    shared = shared_by(
        categorical_columns,
        dimension,
        initializer,
        shared_embedding_collection_name,
        (ckpt_to_load_from, tensor_name_in_ckpt),
        trainable,
    )
    return [
        SharedEmbeddingColumn(column, shared, combiner, max_norm, use_safe_embedding_lookup)
        for column in categorical_columns
    ]


# -- sequences ---------------------------------------------------------------------------------------------------------
def sequence_categorical_column_with_identity(
    key: str, num_buckets: int, default_value: int | None = None
) -> SequenceCategoricalColumn:
    """Create a column of sequences of integers that are ids.

    Args:
      key: The name of the feature.
      num_buckets: The number of ids.
      default_value: The id of numbers out of this range; without it, they have no indicator and lookups raise an error.

    >>> tf.feature_column.sequence_categorical_column_with_identity("watched", 10).num_buckets
    10
    """
    return SequenceCategoricalColumn(categorical_column_with_identity(key, num_buckets, default_value))


def sequence_categorical_column_with_hash_bucket(
    key: str, hash_bucket_size: int, dtype: Any = None
) -> SequenceCategoricalColumn:
    """Create a column that hashes sequences of strings or integers to ids.

    Args:
      key: The name of the feature.
      hash_bucket_size: The number of ids.
      dtype: The dtype of the feature, a string or an integer type; string by default.

    >>> tf.feature_column.sequence_categorical_column_with_hash_bucket("words", 100).name
    'words'
    """
    return SequenceCategoricalColumn(categorical_column_with_hash_bucket(key, hash_bucket_size, dtype))


def sequence_categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: str,
    vocabulary_size: int | None = None,
    num_oov_buckets: int = 0,
    default_value: int | None = None,
    dtype: Any = None,
) -> SequenceCategoricalColumn:
    """Create a column that converts sequences of words to ids: their line numbers in a file.

    Args:
      key: The name of the feature.
      vocabulary_file: The path of the file.
      vocabulary_size: The number of lines that are used; all of them by default.
      num_oov_buckets: The number of ids for words that are not in the file, which are hashed.
      default_value: The id of such words, -1 by default; not with `num_oov_buckets`.
      dtype: The dtype of the feature, a string or an integer type; string by default.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "words.txt")
    >>> with open(path, "w") as file:
    ...     _ = file.write("cat\\ndog\\n")
    >>> tf.feature_column.sequence_categorical_column_with_vocabulary_file("words", path).num_buckets
    2
    """
    return SequenceCategoricalColumn(
        categorical_column_with_vocabulary_file(
            key, vocabulary_file, vocabulary_size, dtype, default_value, num_oov_buckets
        )
    )


def sequence_categorical_column_with_vocabulary_list(
    key: str, vocabulary_list: Sequence[Any], dtype: Any = None, default_value: int = -1, num_oov_buckets: int = 0
) -> SequenceCategoricalColumn:
    """Create a column that converts sequences of words to ids: their positions in a list.

    Args:
      key: The name of the feature.
      vocabulary_list: Strings or integers.
      dtype: The dtype of the feature, a string or an integer type; that of the list by default.
      default_value: The id of words that are not in the list; not with `num_oov_buckets`.
      num_oov_buckets: The number of ids for such words, which are hashed.

    >>> tf.feature_column.sequence_categorical_column_with_vocabulary_list("colors", ["R", "G"]).num_buckets
    2
    """
    return SequenceCategoricalColumn(
        categorical_column_with_vocabulary_list(key, vocabulary_list, dtype, default_value, num_oov_buckets)
    )


def sequence_numeric_column(
    key: str,
    shape: Any = (1,),
    default_value: float = 0.0,
    dtype: Any = None,
    normalizer_fn: Callable[[Any], Any] | None = None,
) -> SequenceNumericColumn:
    """Create a column of sequences of numbers.

    Args:
      key: The name of the feature.
      shape: The shape of a step.
      default_value: What stands behind the end of shorter sequences.
      dtype: The dtype of the feature; float32 by default.
      normalizer_fn: A function of the feature's sparse tensor.

    >>> tf.feature_column.sequence_numeric_column("temperature").variable_shape.as_list()
    [1]
    """
    dtype = _dtype(dtype, api().float32)
    shape = _shape(shape, key)
    _check_number(dtype, key)
    _check_callable(normalizer_fn)
    return SequenceNumericColumn(key, shape, default_value, dtype, normalizer_fn)


def make_parse_example_spec(feature_columns: Iterable[FeatureColumn]) -> dict[str, Any]:
    """Return the feature specification with which `tf.io.parse_example` reads the features of columns.

    Args:
      feature_columns: The columns.

    >>> price = tf.feature_column.numeric_column("price")
    >>> tf.feature_column.make_parse_example_spec([price])
    {'price': FixedLenFeature(shape=(1,), dtype=tf.float32, default_value=None)}
    """
    found: dict[str, Any] = {}
    for column in feature_columns:
        if not isinstance(column, FeatureColumn):
            raise ValueError(f"All feature_columns must be FeatureColumn instances. Given: {column}")
        for key, value in column.parse_example_spec.items():
            if found.setdefault(key, value) != value:
                raise ValueError(
                    f"feature_columns contain different parse_spec for key {key}. Given {value} and {found[key]}"
                )
    return found


# -- arguments ---------------------------------------------------------------------------------------------------------
def _dtype(given: Any, default: Any) -> Any:
    return default if given is None else api().as_dtype(given)


def _shape(shape: Any, key: str) -> tuple[int, ...]:
    sizes = tuple(shape) if isinstance(shape, (list, tuple)) else (shape,)
    for size in sizes:
        if not isinstance(size, int):
            raise TypeError(f"shape dimensions must be integer. shape: {sizes}, key: {key}")
        if size < 1:
            raise ValueError(f"shape dimensions must be greater than 0. shape: {sizes}, key: {key}")
    return sizes


def _check_number(dtype: Any, key: str) -> None:
    if not (dtype.is_integer or dtype.is_floating):
        raise ValueError(f"dtype must be convertible to float. dtype: {dtype}, key: {key}")


def _check_callable(normalizer_fn: Any) -> None:
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise TypeError(f"normalizer_fn must be a callable. Given: {normalizer_fn}")


def _check_buckets(key: str, num_oov_buckets: int | None, has_default: bool) -> None:
    if num_oov_buckets:
        if has_default:
            raise ValueError(f"Can't specify both num_oov_buckets and default_value in {key}.")
        if num_oov_buckets < 0:
            raise ValueError(f"Invalid num_oov_buckets {num_oov_buckets} in {key}.")


def _default(shape: tuple[int, ...], value: Any, dtype: Any, key: str) -> Any:
    """A default value as nested tuples of the shape."""
    if value is None:
        return None
    if hasattr(value, "tolist"):
        value = value.tolist()
    numbers = nest.flatten(value)
    whole = all(isinstance(number, int) for number in numbers)
    fits = whole or (dtype.is_floating and all(isinstance(number, (int, float)) for number in numbers))
    if isinstance(value, (list, tuple)) and _shape_of(value) != shape:
        raise ValueError(
            "The shape of default_value must be equal to given shape. "
            f"default_value: {value}, shape: {shape}, key: {key}"
        )
    if not fits:
        raise TypeError(
            f"default_value must be compatible with dtype. default_value: {value}, dtype: {dtype}, key: {key}"
        )
    return _tuples(value) if isinstance(value, (list, tuple)) else _filled(shape, value)


def _shape_of(value: Any) -> tuple[int, ...] | None:
    """The shape of nested lists; None if their lengths differ."""
    if not isinstance(value, (list, tuple)):
        return ()
    inner = {_shape_of(item) for item in value}
    first = inner.pop() if len(inner) == 1 else None
    return None if first is None else (len(value), *first)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, (list, tuple)) else value


def _filled(shape: tuple[int, ...], value: Any) -> Any:
    return tuple([_filled(shape[1:], value) for _ in range(shape[0])]) if shape else value


def _count(key: str, path: str, file_format: str | None) -> int:
    """The number of words in a file."""
    tf = api()
    if not tf.io.gfile.exists(path):
        raise ValueError(f"vocabulary_file in {key} does not exist.")
    if file_format == "tfrecord_gzip":
        return sum(1 for _ in tf.data.TFRecordDataset(path, "GZIP"))
    with tf.io.gfile.GFile(path, "rb") as file:
        return sum(1 for _ in file)


def _check_embeddings(dimension: Any, initializer: Any, checkpoint: Any, name: Any, column: Any) -> None:
    if dimension is None or dimension < 1:
        raise ValueError(f"Invalid dimension {dimension}.")
    if (checkpoint is None) != (name is None):
        raise ValueError("Must specify both `ckpt_to_load_from` and `tensor_name_in_ckpt` or none of them.")
    if initializer is not None and not callable(initializer):
        of = "" if column is None else f" Embedding of column_name: {column.name}"
        raise ValueError(f"initializer must be callable if specified.{of}")


def _initializer(given: Any, dimension: int) -> Any:
    return given or api().compat.v1.truncated_normal_initializer(mean=0.0, stddev=1 / math.sqrt(dimension))


def shared_by(
    columns: Sequence[Any], dimension: int, initializer: Any, name: str | None, saved: tuple[Any, Any], trainable: bool
) -> SharedEmbeddings:
    """The shared embeddings of columns of a graph."""
    if api().executing_eagerly():
        raise RuntimeError("shared_embedding_columns are not supported when eager execution is enabled.")
    _check_embeddings(dimension, initializer, *saved, None)
    default, buckets = _check_shared(columns)
    shape = (buckets, dimension)
    return SharedEmbeddings(name or default, shape, _initializer(initializer, dimension), trainable, saved)


def _check_shared(columns: Sequence[Any]) -> tuple[str, int]:
    """The name of the shared embeddings of columns, and the number of their ids."""
    by_name = sorted(columns, key=lambda column: column.name)
    for column in by_name:
        if not isinstance(column, CategoricalColumn):
            raise ValueError(
                "All categorical_columns must be subclasses of CategoricalColumn. "
                f"Given: {column}, of type: {type(column)}"
            )
    inner = [_innermost(column) for column in by_name]
    for column in inner[1:]:
        if not isinstance(column, type(inner[0])):
            raise ValueError(
                "To use shared_embedding_column, all categorical_columns must have the same type, or be "
                "weighted_categorical_column or sequence column of the same type. Given column: "
                f"{inner[0]} of type: {type(inner[0])} does not match given column: {column} of type: {type(column)}"
            )
        if column.num_buckets != inner[0].num_buckets:
            raise ValueError(
                "To use shared_embedding_column, all categorical_columns must have the same number of buckets. Given "
                f"column: {inner[0]} with buckets: {inner[0].num_buckets} does  not match column: {column} with "
                f"buckets: {column.num_buckets}"
            )
    return "_".join([column.name for column in by_name]) + "_shared_embedding", inner[0].num_buckets


def _innermost(column: Any) -> Any:
    while isinstance(column, (WeightedCategoricalColumn, SequenceCategoricalColumn)):
        column = column.categorical_column
    return column
