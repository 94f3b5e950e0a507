"""`tf.feature_column`: convert the features of a batch to the input of a model."""

import typing as _typing

from gradtape._src.feature_column.public import (
    bucketized_column as bucketized_column,
    categorical_column_with_hash_bucket as categorical_column_with_hash_bucket,
    categorical_column_with_identity as categorical_column_with_identity,
    categorical_column_with_vocabulary_file as categorical_column_with_vocabulary_file,
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
    shared_embeddings as shared_embeddings,
    weighted_categorical_column as weighted_categorical_column,
)

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
