"""Keras 2's layers of feature columns, for programs that import `tf_keras`; Keras 3 has none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import keras

from gradtape._src.feature_column.base import (
    DenseColumn,
    FeatureTransformationCache,
    SequenceDenseColumn,
    StateManager,
    api,
    check_batch_sizes,
    deserialize_feature_column,
    normalized,
    serialize_feature_column,
)

__all__ = ["DenseFeatures", "SequenceFeatures"]


class _FeatureLayer(keras.layers.Layer):
    """A layer with feature columns and their variables."""

    _kind: type = object
    _complaint = ""

    def __init__(
        self, feature_columns: Iterable[Any], trainable: bool = True, name: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(name=name, trainable=trainable, autocast=False, **kwargs)
        self._convert_input_args = False  # features include strings and sparse tensors
        self._allow_non_tensor_positional_args = True
        self._feature_columns = normalized(feature_columns, self._kind, self._complaint)
        self._state_manager = StateManager(self._make, trainable)

    def build(self, input_shape: Any = None) -> None:
        """Create the variables of the columns."""
        for column in self._feature_columns:
            column.create_state(self._state_manager)
        self.built = True

    def _make(self, column: Any, name: str, shape: Any, initializer: Any, trainable: bool) -> Any:
        def start(shape: Any, dtype: Any = None) -> Any:
            return initializer(shape, dtype=api().float32)

        return self.add_weight(
            shape=tuple(shape), initializer=start, trainable=trainable, name=f"{column.scope}_{name}", dtype="float32"
        )

    def _refuse_other(self, features: Any) -> None:
        if not isinstance(features, Mapping):
            raise ValueError(f"We expected a dictionary here. Instead we got: {features}")

    def get_config(self) -> dict[str, Any]:
        """The columns as dictionaries."""
        columns = [serialize_feature_column(column) for column in self._feature_columns]
        return {"name": self.name, "trainable": self.trainable, "feature_columns": columns}

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Any = None) -> Any:
        """Create a layer from its configuration."""
        known: dict[str, Any] = {}
        columns = [deserialize_feature_column(each, custom_objects, known) for each in config["feature_columns"]]
        return cls(**{**config, "feature_columns": columns})


class DenseFeatures(_FeatureLayer):
    """The tensors of dense columns, concatenated in the order of their names.

    Args:
      feature_columns: Dense columns of `tf.feature_column`.
      trainable: Whether embeddings are trained.
      name: The name of the layer.
    """

    _kind = DenseColumn
    _complaint = (
        "Items of feature_columns must be a <class 'tensorflow.python.feature_column.feature_column_v2.DenseColumn'>. "
        "You can wrap a categorical column with an embedding_column or indicator_column."
    )

    def call(self, features: Mapping[str, Any], cols_to_output_tensors: Any = None, training: Any = None) -> Any:
        """The tensor for a batch of features, which are given by key."""
        self._refuse_other(features)
        tf, cache, found = api(), FeatureTransformationCache(features), []
        for column in self._feature_columns:
            tensor = column.get_dense_tensor(cache, self._state_manager)
            found.append(tf.reshape(tensor, [tf.shape(tensor)[0], column.variable_shape.num_elements()]))
            if cols_to_output_tensors is not None:
                cols_to_output_tensors[column] = found[-1]
        check_batch_sizes(found, self._feature_columns)
        return tf.concat(found, 1)


class SequenceFeatures(_FeatureLayer):
    """The sequences of columns, concatenated, and their lengths.

    Args:
      feature_columns: Sequence columns of `tf.feature_column`, or embeddings and indicators of them.
      trainable: Whether embeddings are trained.
      name: The name of the layer.
    """

    _kind = SequenceDenseColumn
    _complaint = "Items of feature_columns must be a SequenceDenseColumn."

    def call(self, features: Mapping[str, Any], training: Any = None) -> Any:
        """The tensor [batch, steps, elements] for a batch of features, and the lengths of its sequences."""
        self._refuse_other(features)
        tf, cache, found, lengths = api(), FeatureTransformationCache(features), [], []
        for column in self._feature_columns:
            tensor, length = column.get_sequence_dense_tensor(cache, self._state_manager)
            sizes = tf.shape(tensor)
            found.append(tf.reshape(tensor, [sizes[0], sizes[1], column.variable_shape.num_elements()]))
            lengths.append(length)
        check_batch_sizes(found, self._feature_columns)
        for length in lengths[1:]:
            tf.debugging.assert_equal(lengths[0], length)
        return tf.concat(found, -1), lengths[0]
