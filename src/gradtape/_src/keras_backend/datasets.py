"""Datasets of `tf.data` as data for Keras models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from keras.src import tree
from keras.src.trainers.data_adapters import data_adapter_utils
from keras.src.trainers.data_adapters.data_adapter import DataAdapter

from gradtape._src.conversion import wrap
from gradtape._src.data.core import AUTOTUNE
from gradtape._src.data.dataset import Dataset


class DatasetAdapter(DataAdapter):
    """Adapts a dataset whose elements are batches."""

    def __init__(self, dataset: Any, class_weight: Any = None, distribution: Any = None) -> None:
        self._dataset = dataset if class_weight is None else _weighted(dataset, class_weight)

    def get_numpy_iterator(self) -> Iterator[Any]:
        """The batches as tensors, which the trainer takes."""
        return iter(self._dataset)

    @property
    def num_batches(self) -> int | None:
        size = int(self._dataset.cardinality())
        return size if size >= 0 else None

    @property
    def batch_size(self) -> int | None:
        return tree.flatten(self._dataset.element_spec)[0].shape[0]

    @property
    def has_partial_batch(self) -> None:
        return None

    @property
    def partial_batch_size(self) -> None:
        return None


def _weighted(dataset: Dataset, class_weight: Any) -> Dataset:
    """Add a weight for each sample, by its class, to the batches of a dataset."""

    def with_weights(*data: Any) -> Any:
        x, y, sample_weight = data_adapter_utils.unpack_x_y_sample_weight(data)
        if sample_weight is not None:
            raise ValueError("You cannot `class_weight` and `sample_weight` at the same time.")
        if tree.is_nested(y):
            raise ValueError("`class_weight` is only supported for Models with a single output.")
        weights = data_adapter_utils.class_weight_to_sample_weights(y.numpy(), class_weight)
        return x, y, wrap(np.asarray(weights, np.float32))

    return dataset.map(with_weights).prefetch(AUTOTUNE)
