"""Categorical columns: ids from hashes, vocabularies, integers, crosses, and with weights."""

from __future__ import annotations

from typing import Any, NamedTuple

from gradtape._src.feature_column.base import (
    CategoricalColumn,
    ColumnOfOneFeature,
    FeatureColumn,
    IdWeightPair,
    api,
    as_sparse,
    as_tensor,
    registered,
)


def check_key(key: Any) -> None:
    """Raise ValueError if the key of a feature is not a string."""
    if not isinstance(key, str):
        raise ValueError(f"key must be a string. Got: type {type(key)}. Given key: {key}.")


def check_string_or_integer(dtype: Any, prefix: str) -> None:
    """Raise ValueError for any other dtype."""
    if dtype != api().string and not dtype.is_integer:
        raise ValueError(f"{prefix} dtype must be string or integer. dtype: {dtype}.")


class _OfOneFeature(ColumnOfOneFeature, CategoricalColumn):
    """A column of ids from one feature, in a sparse tensor of any length."""

    dtype: Any

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return {self.key: api().io.VarLenFeature(self.dtype)}

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> Any:
        return self._ids(as_sparse(transformation_cache.get(self.key, state_manager)), state_manager)

    def _ids(self, sparse: Any, state_manager: Any) -> Any:
        raise NotImplementedError

    def _check_dtype(self, dtype: Any) -> None:
        """Raise ValueError if one of the feature and the column has numbers and the other strings."""
        check_string_or_integer(dtype, f"column_name: {self.key} input_tensor")
        if self.dtype.is_integer != dtype.is_integer:
            raise ValueError(
                f"Column dtype and SparseTensors dtype must be compatible. key: {self.key}, column dtype: "
                f"{self.dtype}, tensor dtype: {dtype}"
            )


class _HashedFields(NamedTuple):
    key: str
    hash_bucket_size: int
    dtype: Any


@registered
class HashedCategoricalColumn(_OfOneFeature, _HashedFields):
    """Ids from hashes: see `categorical_column_with_hash_bucket`."""

    @property
    def num_buckets(self) -> int:
        return self.hash_bucket_size

    def _ids(self, sparse: Any, state_manager: Any) -> Any:
        tf = api()
        self._check_dtype(sparse.dtype)
        texts = sparse.values if self.dtype == tf.string else tf.strings.as_string(sparse.values)
        ids = tf.strings.to_hash_bucket_fast(texts, self.hash_bucket_size)
        return tf.SparseTensor(sparse.indices, ids, sparse.dense_shape)


class _WithVocabulary(_OfOneFeature):
    """Ids from a lookup table, which the state manager holds."""

    num_oov_buckets: int
    default_value: int

    def _ids(self, sparse: Any, state_manager: Any) -> Any:
        tf = api()
        self._check_dtype(sparse.dtype)
        if sparse.dtype.is_integer:
            sparse = tf.cast(sparse, tf.int64)
        return self._table(state_manager).lookup(sparse)

    def _table(self, state_manager: Any) -> Any:
        name = f"{self.key}_lookup"
        if state_manager is not None and state_manager.has_resource(self, name):
            return state_manager.get_resource(self, name)
        tf = api()
        with tf.init_scope():
            words = self._vocabulary(tf.int64 if self.dtype.is_integer else tf.string)
            if self.num_oov_buckets:
                table = tf.lookup.StaticVocabularyTable(words, self.num_oov_buckets)
            else:
                table = tf.lookup.StaticHashTable(words, self.default_value)
        if state_manager is not None:
            state_manager.add_resource(self, name, table)
        return table

    def _vocabulary(self, dtype: Any) -> Any:
        """The initializer of the table for keys of a dtype."""
        raise NotImplementedError


class _FileFields(NamedTuple):
    key: str
    vocabulary_file: str
    vocabulary_size: int
    num_oov_buckets: int
    dtype: Any
    default_value: int
    file_format: str | None = None


@registered
class VocabularyFileCategoricalColumn(_WithVocabulary, _FileFields):
    """Ids from the lines of a file: see `categorical_column_with_vocabulary_file`."""

    @property
    def num_buckets(self) -> int:
        return self.vocabulary_size + self.num_oov_buckets

    def _vocabulary(self, dtype: Any) -> Any:
        tf = api()
        if self.file_format == "tfrecord_gzip":
            words = [record.numpy() for record in tf.data.TFRecordDataset(self.vocabulary_file, "GZIP")]
            return _numbered(words[: self.vocabulary_size], dtype)
        whole, number = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
        size = self.vocabulary_size
        return tf.lookup.TextFileInitializer(self.vocabulary_file, dtype, whole, tf.int64, number, size)

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        return {"file_format": None}


class _ListFields(NamedTuple):
    key: str
    vocabulary_list: tuple[Any, ...]
    dtype: Any
    default_value: int
    num_oov_buckets: int


@registered
class VocabularyListCategoricalColumn(_WithVocabulary, _ListFields):
    """Ids from the elements of a list: see `categorical_column_with_vocabulary_list`."""

    @property
    def num_buckets(self) -> int:
        return len(self.vocabulary_list) + self.num_oov_buckets

    def _vocabulary(self, dtype: Any) -> Any:
        return _numbered(self.vocabulary_list, dtype)


def _numbered(words: Any, dtype: Any) -> Any:
    """The initializer of a table from words to their indices."""
    tf = api()
    keys = tf.constant(list(words))
    if keys.dtype != dtype:
        keys = tf.strings.to_number(keys, dtype) if keys.dtype == tf.string else tf.cast(keys, dtype)
    return tf.lookup.KeyValueTensorInitializer(keys, tf.range(len(words), dtype=tf.int64))


class _IdentityFields(NamedTuple):
    key: str
    number_buckets: int
    default_value: int | None


@registered
class IdentityCategoricalColumn(_OfOneFeature, _IdentityFields):
    """Integers as ids: see `categorical_column_with_identity`."""

    @property
    def num_buckets(self) -> int:
        return self.number_buckets

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return {self.key: api().io.VarLenFeature(api().int64)}

    def _ids(self, sparse: Any, state_manager: Any) -> Any:
        tf = api()
        if not sparse.dtype.is_integer:
            raise ValueError(f"Invalid input, not integer. key: {self.key} dtype: {sparse.dtype}")
        ids = tf.cast(sparse.values, tf.int64)
        if self.default_value is not None:
            outside = tf.logical_or(ids < 0, ids >= self.number_buckets)
            ids = tf.where(outside, tf.constant(self.default_value, tf.int64), ids)
        return tf.SparseTensor(sparse.indices, ids, sparse.dense_shape)


class _WeightedFields(NamedTuple):
    categorical_column: Any
    weight_feature_key: str
    dtype: Any


@registered
class WeightedCategoricalColumn(CategoricalColumn, _WeightedFields):
    """Ids with weights: see `weighted_categorical_column`."""

    @property
    def name(self) -> str:
        return f"{self.categorical_column.name}_weighted_by_{self.weight_feature_key}"

    @property
    def parents(self) -> list[Any]:
        return [self.categorical_column, self.weight_feature_key]

    @property
    def num_buckets(self) -> int:
        count: int = self.categorical_column.num_buckets
        return count

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        found = dict(self.categorical_column.parse_example_spec)
        if self.weight_feature_key in found:
            raise ValueError(
                f"Parse config {found[self.weight_feature_key]} already exists for {self.weight_feature_key}."
            )
        return {**found, self.weight_feature_key: api().io.VarLenFeature(self.dtype)}

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> Any:
        tf = api()
        weights = as_tensor(transformation_cache.get(self.weight_feature_key, state_manager))
        if self.dtype != weights.dtype:
            raise ValueError(f"Bad dtype, expected {self.dtype}, but got {weights.dtype}.")
        weights = as_sparse(weights, missing=0)
        if not weights.dtype.is_floating:
            weights = tf.cast(weights, tf.float32)
        return as_sparse(transformation_cache.get(self.categorical_column, state_manager)), weights

    def get_sparse_tensors(self, transformation_cache: Any, state_manager: Any) -> IdWeightPair:
        return IdWeightPair(*transformation_cache.get(self, state_manager))


class _CrossedFields(NamedTuple):
    keys: tuple[Any, ...]
    hash_bucket_size: int
    hash_key: int | None


@registered
class CrossedColumn(CategoricalColumn, _CrossedFields):
    """Combinations of features, hashed: see `crossed_column`."""

    @property
    def name(self) -> str:
        names = [key.name if isinstance(key, FeatureColumn) else key for key in self._leaves()]
        return "_X_".join(sorted(names))

    @property
    def parents(self) -> list[Any]:
        return list(self.keys)

    @property
    def num_buckets(self) -> int:
        return self.hash_bucket_size

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        tf = api()
        found: dict[str, Any] = {}
        for key in self.keys:
            found |= key.parse_example_spec if isinstance(key, FeatureColumn) else {key: tf.io.VarLenFeature(tf.string)}
        return found

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> Any:
        parts = [self._part(key, transformation_cache, state_manager) for key in self._leaves()]
        return api().sparse.cross_hashed(parts, self.hash_bucket_size, self.hash_key)

    def _part(self, key: Any, transformation_cache: Any, state_manager: Any) -> Any:
        if isinstance(key, str):
            return transformation_cache.get(key, state_manager)
        found = key.get_sparse_tensors(transformation_cache, state_manager)
        if found.weight_tensor is not None:
            raise ValueError(
                "crossed_column does not support weight_tensor, but the given column populates weight_tensor. Given "
                f"column: {key.name}"
            )
        return found.id_tensor

    def _leaves(self) -> list[Any]:
        """The keys, with nested crosses replaced by their keys."""
        return [leaf for key in self.keys for leaf in (key._leaves() if isinstance(key, CrossedColumn) else [key])]


class _SequenceFields(NamedTuple):
    categorical_column: Any


@registered
class SequenceCategoricalColumn(CategoricalColumn, _SequenceFields):
    """The ids of a categorical column, with the second axis for the steps of a sequence."""

    @property
    def name(self) -> str:
        return str(self.categorical_column.name)

    @property
    def parents(self) -> list[Any]:
        return [self.categorical_column]

    @property
    def num_buckets(self) -> int:
        count: int = self.categorical_column.num_buckets
        return count

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        found: dict[str, Any] = self.categorical_column.parse_example_spec
        return found

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> Any:
        return self.categorical_column.transform_feature(transformation_cache, state_manager)

    def get_sparse_tensors(self, transformation_cache: Any, state_manager: Any) -> IdWeightPair:
        pair = self.categorical_column.get_sparse_tensors(transformation_cache, state_manager)
        return IdWeightPair(*[None if part is None else _with_three_axes(part) for part in pair])


def _with_three_axes(sparse: Any) -> Any:
    """A sparse tensor whose third axis holds the ids of a step."""
    tf, sizes = api(), sparse.dense_shape
    return tf.sparse.reshape(sparse, tf.concat([sizes[:2], [tf.reduce_prod(sizes[2:])]], 0))
