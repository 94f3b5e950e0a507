"""The functions of `tf.data` that Keras' dataset utilities call; imported before the rest of Keras."""

from __future__ import annotations

from typing import Any

from gradtape._src.data.dataset import Dataset
from gradtape._src.tf.array import cast, expand_dims, one_hot


def is_dataset(x: Any) -> bool:
    """Whether this is a dataset of `tf.data`."""
    return isinstance(x, Dataset)


def labels_to_dataset(labels: Any, label_mode: str, num_classes: int) -> Dataset:
    """Labels as elements: one number each, or one-hot rows for classes."""
    dataset = Dataset.from_tensor_slices(labels)
    if label_mode == "binary":
        return dataset.map(lambda label: expand_dims(cast(label, "float32"), axis=-1))
    if label_mode == "categorical":
        return dataset.map(lambda label: one_hot(label, num_classes))
    return dataset
