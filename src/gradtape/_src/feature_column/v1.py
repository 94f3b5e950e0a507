"""`tf.compat.v1.feature_column`: the columns, and the models of TensorFlow 1 that read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gradtape._src.feature_column import public
from gradtape._src.feature_column.base import (
    CategoricalColumn,
    DenseColumn,
    FeatureTransformationCache,
    IdWeightPair,
    StateManager,
    api,
    check_batch_sizes,
    combined,
    normalized,
)
from gradtape._src.feature_column.categorical import VocabularyFileCategoricalColumn
from gradtape._src.feature_column.dense import SharedEmbeddingColumn
from gradtape._src.feature_column.public import (
    bucketized_column as bucketized_column,
    categorical_column_with_hash_bucket as categorical_column_with_hash_bucket,
    categorical_column_with_identity as categorical_column_with_identity,
    categorical_column_with_vocabulary_list as categorical_column_with_vocabulary_list,
    crossed_column as crossed_column,
    embedding_column as embedding_column,
    indicator_column as indicator_column,
    make_parse_example_spec as make_parse_example_spec,
    numeric_column as numeric_column,
    sequence_categorical_column_with_hash_bucket as sequence_categorical_column_with_hash_bucket,
    sequence_categorical_column_with_identity as sequence_categorical_column_with_identity,
    sequence_categorical_column_with_vocabulary_file as sequence_categorical_column_with_vocabulary_file,
    sequence_categorical_column_with_vocabulary_list as sequence_categorical_column_with_vocabulary_list,
    sequence_numeric_column as sequence_numeric_column,
    weighted_categorical_column as weighted_categorical_column,
)

__all__ = [
    *[name for name in public.__all__ if name != "shared_embeddings"],
    "input_layer",
    "linear_model",
    "shared_embedding_columns",
]


def categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: str,
    vocabulary_size: int | None = None,
    num_oov_buckets: int = 0,
    default_value: int | None = None,
    dtype: Any = None,
) -> VocabularyFileCategoricalColumn:
    """Create a column of ids from the lines of a file, with the arguments in TensorFlow 1's order."""
    return public.categorical_column_with_vocabulary_file(
        key, vocabulary_file, vocabulary_size, dtype, default_value, num_oov_buckets
    )


def shared_embedding_columns(
    categorical_columns: Sequence[Any],
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
    """Create embedding columns that several categorical columns of a graph share.

    The arguments are those of `tf.feature_column.shared_embeddings`.
    """
    saved, name = (ckpt_to_load_from, tensor_name_in_ckpt), shared_embedding_collection_name
    shared = public.shared_by(categorical_columns, dimension, initializer, name, saved, trainable).in_a_scope()
    return [
        SharedEmbeddingColumn(column, shared, combiner, max_norm, use_safe_embedding_lookup)
        for column in categorical_columns
    ]


def input_layer(
    features: Mapping[str, Any],
    feature_columns: Iterable[Any],
    weight_collections: Iterable[str] | None = None,
    trainable: bool = True,
    cols_to_vars: dict[Any, Any] | None = None,
    cols_to_output_tensors: dict[Any, Any] | None = None,
) -> Any:
    """The tensors of dense columns side by side, in the order of their names. Embeddings are new in every call.

    Args:
      features: The tensors of a batch, by the keys of features.
      feature_columns: Dense columns.
      weight_collections: Collections of the graph to which embeddings are added.
      trainable: Whether embeddings are trained.
      cols_to_vars: A dictionary that gets the variables of each column.
      cols_to_output_tensors: A dictionary that gets the tensor of each column.

    >>> import gradtape as tf
    >>> fc = tf.compat.v1.feature_column
    >>> day = fc.indicator_column(fc.categorical_column_with_identity("day", 3))
    >>> features = {"price": [[1.5], [2.5]], "day": [[0], [2]]}
    >>> fc.input_layer(features, [fc.numeric_column("price"), day]).numpy().tolist()
    [[1.0, 0.0, 0.0, 1.5], [0.0, 0.0, 1.0, 2.5]]
    """
    tf, cache, found = api(), FeatureTransformationCache(features), []
    complaint = (
        "Items of feature_columns must be a _DenseColumn. You can wrap a categorical column with an embedding_column "
        "or indicator_column."
    )
    columns = normalized(feature_columns, DenseColumn, complaint)
    vars_of = {} if cols_to_vars is None else cols_to_vars
    outputs_of = {} if cols_to_output_tensors is None else cols_to_output_tensors
    with tf.compat.v1.variable_scope(None, "input_layer"):
        for column in columns:
            with tf.compat.v1.variable_scope(None, column.scope):
                made: list[Any] = []
                state = StateManager(_maker(made, weight_collections), trainable)
                column.create_state(state)
                tensor = column.get_dense_tensor(cache, state)
                found.append(tf.reshape(tensor, [tf.shape(tensor)[0], column.variable_shape.num_elements()]))
            vars_of[column], outputs_of[column] = made, found[-1]
    check_batch_sizes(found, columns)
    return tf.concat(found, 1)


def linear_model(
    features: Mapping[str, Any],
    feature_columns: Iterable[Any],
    units: int = 1,
    sparse_combiner: str = "sum",
    weight_collections: Iterable[str] | None = None,
    trainable: bool = True,
    cols_to_vars: dict[Any, Any] | None = None,
) -> Any:
    """The predictions of a linear model of the columns, whose weights begin with 0. They are new in every call.

    Args:
      features: The tensors of a batch, by the keys of features.
      feature_columns: Dense and categorical columns.
      units: How many predictions there are for each example.
      sparse_combiner: What becomes of several ids of an example: "sum", "mean" or "sqrtn" of their weights.
      weight_collections: Collections of the graph to which weights are added.
      trainable: Whether weights are trained.
      cols_to_vars: A dictionary that gets the variables of each column, and those of "bias".

    >>> import gradtape as tf
    >>> fc, variables = tf.compat.v1.feature_column, {}
    >>> prices = fc.numeric_column("price")
    >>> y = fc.linear_model({"price": [[1.5], [2.5]]}, [prices], cols_to_vars=variables)
    >>> y.shape, variables[prices][0].shape, variables["bias"][0].shape
    (TensorShape([2, 1]), TensorShape([1, 1]), TensorShape([1]))
    """
    tf, cache, sums = api(), FeatureTransformationCache(features), []
    variables = {} if cols_to_vars is None else cols_to_vars
    complaint = "Items of feature_columns must be either a _DenseColumn or _CategoricalColumn."
    columns = normalized(feature_columns, (DenseColumn, CategoricalColumn), complaint)
    with tf.compat.v1.variable_scope(None, "linear_model"):
        for column in columns:
            with tf.compat.v1.variable_scope(None, column.scope):
                made = variables[column] = []
                state = StateManager(_maker(made, weight_collections), trainable)
                column.create_state(state)
                sums.append(_weighted_sum(column, cache, state, units, sparse_combiner))
        made = variables["bias"] = []
        zeros = tf.compat.v1.zeros_initializer()
        bias = _maker(made, weight_collections)(None, "bias_weights", [units], zeros, trainable)
    check_batch_sizes(sums, columns)
    return tf.nn.bias_add(tf.add_n(sums), bias)


def _weighted_sum(column: Any, cache: Any, state: StateManager, units: int, combiner: str) -> Any:
    tf, zeros = api(), api().compat.v1.zeros_initializer()
    categorical = isinstance(column, CategoricalColumn)
    size = column.num_buckets if categorical else column.variable_shape.num_elements()
    weights = state.create_variable(column, "weights", [size, units], initializer=zeros)
    if not categorical:
        tensor = column.get_dense_tensor(cache, state)
        return tf.matmul(tf.reshape(tensor, [tf.shape(tensor)[0], size]), weights)
    ids = [None if part is None else _as_matrix(part) for part in column.get_sparse_tensors(cache, state)]
    return combined(weights, IdWeightPair(*ids), combiner, column.name)


def _as_matrix(sparse: Any) -> Any:
    tf = api()
    if sparse.shape.rank == 2:
        return sparse
    return tf.sparse.reshape(sparse, tf.concat([sparse.dense_shape[:1], [-1]], 0))


def _maker(made: list[Any], collections: Iterable[str] | None) -> Any:
    """A function that creates the variables of columns, lists them, and adds them to collections of a graph."""
    v1 = api().compat.v1
    names = [v1.GraphKeys.GLOBAL_VARIABLES, v1.GraphKeys.MODEL_VARIABLES, *(collections or ())]

    def make(column: Any, name: str, shape: Any, initializer: Any, trainable: bool) -> Any:
        options = {"initializer": initializer, "trainable": trainable, "collections": list(dict.fromkeys(names))}
        variable = v1.get_variable(name, shape, api().float32, **options)
        made.append(variable)
        return variable

    return make
