"""`tf.compat.v1.metrics`: names that raise an error in eager code, as in TensorFlow. Use `tf.keras.metrics`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

__all__ = [  # noqa: F822 - made below
    "accuracy", "auc", "average_precision_at_k", "false_negatives", "false_negatives_at_thresholds", "false_positives",
    "false_positives_at_thresholds", "mean", "mean_absolute_error", "mean_cosine_distance", "mean_iou",
    "mean_per_class_accuracy", "mean_relative_error", "mean_squared_error", "mean_tensor", "percentage_below",
    "precision", "precision_at_k", "precision_at_thresholds", "precision_at_top_k", "recall", "recall_at_k",
    "recall_at_thresholds", "recall_at_top_k", "root_mean_squared_error", "sensitivity_at_specificity",
    "sparse_average_precision_at_k", "sparse_precision_at_k", "specificity_at_sensitivity", "true_negatives",
    "true_negatives_at_thresholds", "true_positives", "true_positives_at_thresholds",
]  # fmt: skip


def _refusal(name: str) -> Callable[..., NoReturn]:
    def metric(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            f"tf.metrics.{name} is not supported when eager execution is enabled. Use tf.keras.metrics instead."
        )

    metric.__name__ = metric.__qualname__ = name
    metric.__doc__ = "RuntimeError: it needs a graph of TensorFlow 1."
    return metric


globals().update({name: _refusal(name) for name in __all__})
