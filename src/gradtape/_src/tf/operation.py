"""`tf.Operation`, for annotations and `isinstance`."""

from __future__ import annotations

from typing import Any

__all__ = ["Operation"]


class Operation:
    """An op of a graph of TensorFlow's. gradtape makes none: tensors come from ops that have run, or from a trace.

    Programs use the class in annotations and tests.

    >>> import gradtape as tf
    >>> isinstance(tf.constant(1.0), tf.Operation)
    False
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError("gradtape has no graphs of TensorFlow 1, and so no ops that are not called: call a function.")
