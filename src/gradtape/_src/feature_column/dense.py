"""Dense columns: numbers, buckets, indicators and embeddings; and sequences of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from gradtape._src.feature_column.base import (
    CategoricalColumn,
    ColumnOfOneFeature,
    DenseColumn,
    IdWeightPair,
    SequenceDenseColumn,
    TensorSequenceLengthPair,
    api,
    combined,
    registered,
    sequence_lengths,
)
from gradtape._src.feature_column.categorical import SequenceCategoricalColumn


class _NumericFields(NamedTuple):
    key: str
    shape: tuple[int, ...]
    default_value: Any
    dtype: Any
    normalizer_fn: Any


class _NumbersOfOneFeature(ColumnOfOneFeature):
    """A column of numbers from one feature, as vectors or arrays of a shape."""

    shape: tuple[int, ...]

    @property
    def variable_shape(self) -> Any:
        """The shape of one array: of an example, or of a step of its sequence."""
        return api().TensorShape(self.shape)


@registered
class NumericColumn(_NumbersOfOneFeature, DenseColumn, _NumericFields):
    """Numbers: see `numeric_column`."""

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return {self.key: api().io.FixedLenFeature(self.shape, self.dtype, self.default_value)}

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> Any:
        tf, numbers = api(), transformation_cache.get(self.key, state_manager)
        if isinstance(numbers, tf.SparseTensor):
            raise ValueError(
                "The corresponding Tensor of numerical column must be a Tensor. SparseTensor is not supported. key: "
                f"{self.key}"
            )
        if self.normalizer_fn is not None:
            numbers = self.normalizer_fn(numbers)
        return tf.cast(numbers, tf.float32)

    def get_dense_tensor(self, transformation_cache: Any, state_manager: Any) -> Any:
        return transformation_cache.get(self, state_manager)


class _BucketizedFields(NamedTuple):
    source_column: Any
    boundaries: tuple[float, ...]


@registered
class BucketizedColumn(DenseColumn, CategoricalColumn, _BucketizedFields):
    """Numbers by their intervals: see `bucketized_column`."""

    @property
    def name(self) -> str:
        return f"{self.source_column.name}_bucketized"

    @property
    def parents(self) -> list[Any]:
        return [self.source_column]

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        found: dict[str, Any] = self.source_column.parse_example_spec
        return found

    @property
    def _buckets(self) -> int:
        return len(self.boundaries) + 1

    @property
    def variable_shape(self) -> Any:
        return api().TensorShape((*self.source_column.shape, self._buckets))

    @property
    def num_buckets(self) -> int:
        return self._buckets * int(self.source_column.shape[0])

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> Any:
        numbers = transformation_cache.get(self.source_column, state_manager)
        return api().raw_ops.Bucketize(input=numbers, boundaries=list(self.boundaries))

    def get_dense_tensor(self, transformation_cache: Any, state_manager: Any) -> Any:
        return api().one_hot(transformation_cache.get(self, state_manager), self._buckets)

    def get_sparse_tensors(self, transformation_cache: Any, state_manager: Any) -> IdWeightPair:
        """Return ids that are different for each element of the source column."""
        tf, buckets = api(), transformation_cache.get(self, state_manager)
        width = int(self.source_column.shape[0])
        batch = tf.shape(buckets)[0]
        ids = tf.reshape(buckets, [-1, width]) + self._buckets * tf.range(width)
        rows, columns = tf.meshgrid(tf.range(batch), tf.range(width), indexing="ij")
        where = tf.cast(tf.stack([tf.reshape(rows, [-1]), tf.reshape(columns, [-1])], axis=1), tf.int64)
        sizes = tf.cast(tf.stack([batch, width]), tf.int64)
        return IdWeightPair(tf.SparseTensor(where, tf.reshape(ids, [-1]), sizes), None)


class _OfCategories(DenseColumn, SequenceDenseColumn):
    """A dense column from the ids of a categorical one."""

    categorical_column: Any
    _kind = ""

    @property
    def parents(self) -> list[Any]:
        return [self.categorical_column]

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        found: dict[str, Any] = self.categorical_column.parse_example_spec
        return found

    def _refuse_sequence(self) -> None:
        if isinstance(self.categorical_column, SequenceCategoricalColumn):
            raise ValueError(
                f"In {self._kind}: {self.name}. categorical_column must not be of type SequenceCategoricalColumn. "
                "Suggested fix A: If you wish to use DenseFeatures, use a non-sequence categorical_column_with_*. "
                "Suggested fix B: If you wish to create sequence input, use SequenceFeatures instead of DenseFeatures. "
                f"Given (type {type(self.categorical_column)}): {self.categorical_column}"
            )

    def _sequence_ids(self, transformation_cache: Any, state_manager: Any) -> IdWeightPair:
        if not isinstance(self.categorical_column, SequenceCategoricalColumn):
            raise ValueError(
                f"In {self._kind}: {self.name}. categorical_column must be of type SequenceCategoricalColumn to use "
                "SequenceFeatures. Suggested fix: Use one of sequence_categorical_column_with_*. Given (type "
                f"{type(self.categorical_column)}): {self.categorical_column}"
            )
        return self.categorical_column.get_sparse_tensors(transformation_cache, state_manager)


class _IndicatorFields(NamedTuple):
    categorical_column: Any


@registered
class IndicatorColumn(_OfCategories, _IndicatorFields):
    """The count of each id: see `indicator_column`."""

    _kind = "indicator_column"

    @property
    def name(self) -> str:
        return f"{self.categorical_column.name}_indicator"

    @property
    def variable_shape(self) -> Any:
        return api().TensorShape([1, self.categorical_column.num_buckets])

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> Any:
        tf, size = api(), self.categorical_column.num_buckets
        ids, weights = self.categorical_column.get_sparse_tensors(transformation_cache, state_manager)
        if weights is None:
            return tf.reduce_sum(tf.one_hot(tf.sparse.to_dense(ids, default_value=-1), size), axis=-2)
        rows = ids.indices[:, :-1]
        where = tf.concat([rows, tf.cast(ids.values, tf.int64)[:, None]], axis=1)
        shape = tf.concat([ids.dense_shape[:-1], tf.constant([size], tf.int64)], 0)
        kept = tf.logical_and(ids.values >= 0, ids.values < size)
        return tf.scatter_nd(tf.boolean_mask(where, kept), tf.boolean_mask(weights.values, kept), shape)

    def get_dense_tensor(self, transformation_cache: Any, state_manager: Any) -> Any:
        self._refuse_sequence()
        return transformation_cache.get(self, state_manager)

    def get_sequence_dense_tensor(self, transformation_cache: Any, state_manager: Any) -> TensorSequenceLengthPair:
        ids = self._sequence_ids(transformation_cache, state_manager)
        return TensorSequenceLengthPair(transformation_cache.get(self, state_manager), sequence_lengths(ids.id_tensor))


class _Embedding(_OfCategories):
    """A column of embeddings, combined for each row."""

    combiner: str
    max_norm: Any
    use_safe_embedding_lookup: bool
    _kind = "embedding_column"

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> Any:
        return transformation_cache.get(self.categorical_column, state_manager)

    def _weights(self, state_manager: Any) -> Any:
        raise NotImplementedError

    def _combined(self, ids: IdWeightPair, state_manager: Any) -> Any:
        weights, safe = self._weights(state_manager), self.use_safe_embedding_lookup
        return combined(weights, ids, self.combiner, self.name, self.max_norm, safe)

    def get_dense_tensor(self, transformation_cache: Any, state_manager: Any) -> Any:
        self._refuse_sequence()
        ids = self.categorical_column.get_sparse_tensors(transformation_cache, state_manager)
        return self._combined(ids, state_manager)

    def get_sequence_dense_tensor(self, transformation_cache: Any, state_manager: Any) -> TensorSequenceLengthPair:
        ids = self._sequence_ids(transformation_cache, state_manager)
        return TensorSequenceLengthPair(self._combined(ids, state_manager), sequence_lengths(ids.id_tensor))

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        return {"use_safe_embedding_lookup": True}


class _EmbeddingFields(NamedTuple):
    categorical_column: Any
    dimension: int
    combiner: str
    initializer: Any
    ckpt_to_load_from: Any
    tensor_name_in_ckpt: Any
    max_norm: Any
    trainable: bool
    use_safe_embedding_lookup: bool = True


@registered
class EmbeddingColumn(_Embedding, _EmbeddingFields):
    """Trainable vectors, one for each id: see `embedding_column`."""

    @property
    def name(self) -> str:
        return f"{self.categorical_column.name}_embedding"

    @property
    def variable_shape(self) -> Any:
        return api().TensorShape([self.dimension])

    def create_state(self, state_manager: Any) -> None:
        shape = (self.categorical_column.num_buckets, self.dimension)
        made = state_manager.create_variable(
            self,
            name="embedding_weights",
            shape=shape,
            dtype=api().float32,
            trainable=self.trainable,
            initializer=self.initializer,
        )
        restore(made, self.ckpt_to_load_from, self.tensor_name_in_ckpt)

    def _weights(self, state_manager: Any) -> Any:
        return state_manager.get_variable(self, "embedding_weights")


def restore(variable: Any, checkpoint: Any, name: Any) -> None:
    """Restore a variable from a checkpoint, if one is given."""
    if checkpoint is not None:
        api().compat.v1.train.init_from_checkpoint(checkpoint, {name: variable})


class SharedEmbeddings:
    """The embeddings that several columns share: one variable in each graph.

    `saved` are a checkpoint and the name of the embeddings in it; `scope` is the variable's scope, or None.
    """

    def __init__(
        self,
        name: str,
        shape: tuple[int, int],
        initializer: Any,
        trainable: bool,
        saved: tuple[Any, Any],
        scope: str | None = None,
    ) -> None:
        self._name, self._shape, self._initializer = name, shape, initializer
        self._trainable, self._saved, self.scope = trainable, saved, scope
        self._variables: dict[int, tuple[Any, Any]] = {}

    def in_a_scope(self) -> SharedEmbeddings:
        """The same embeddings, with their name as the scope, as in TensorFlow 1."""
        self.scope, self._name = self._name, "embedding_weights"
        return self

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        return self._shape[1]

    @property
    def embedding_weights(self) -> Any:
        """The variable in the default graph."""
        tf = api()
        graph = tf.compat.v1.get_default_graph()
        if id(graph) not in self._variables:
            made = tf.compat.v1.get_variable(
                self._name, self._shape, tf.float32, initializer=self._initializer, trainable=self._trainable
            )
            restore(made, *self._saved)
            self._variables[id(graph)] = graph, made
        return self._variables[id(graph)][1]


class _SharedFields(NamedTuple):
    categorical_column: Any
    shared_embedding_column_creator: Any
    combiner: str
    max_norm: Any
    use_safe_embedding_lookup: bool = True


@registered
class SharedEmbeddingColumn(_Embedding, _SharedFields):
    """Vectors that several columns share: see `shared_embeddings`."""

    @property
    def name(self) -> str:
        return f"{self.categorical_column.name}_shared_embedding"

    @property
    def scope(self) -> str:
        return self.shared_embedding_column_creator.scope or super().scope

    @property
    def variable_shape(self) -> Any:
        return api().TensorShape([self.shared_embedding_column_creator.dimension])

    def _weights(self, state_manager: Any) -> Any:
        return self.shared_embedding_column_creator.embedding_weights


@registered
class SequenceNumericColumn(_NumbersOfOneFeature, SequenceDenseColumn, _NumericFields):
    """Sequences of numbers: see `sequence_numeric_column`."""

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return {self.key: api().io.VarLenFeature(self.dtype)}

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> Any:
        numbers = transformation_cache.get(self.key, state_manager)
        return numbers if self.normalizer_fn is None else self.normalizer_fn(numbers)

    def get_sequence_dense_tensor(self, transformation_cache: Any, state_manager: Any) -> TensorSequenceLengthPair:
        tf, sparse = api(), transformation_cache.get(self, state_manager)
        dense = tf.sparse.to_dense(sparse, default_value=self.default_value)
        steps = tf.reshape(dense, tf.concat([tf.shape(dense)[:1], [-1], list(self.shape)], 0))
        elements = self.variable_shape.num_elements() if sparse.shape.rank == 2 else 1
        return TensorSequenceLengthPair(steps, sequence_lengths(sparse, elements))
