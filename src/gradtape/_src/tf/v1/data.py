"""`tf.compat.v1.data`: `tf.data`, and iterators by their older names."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NoReturn

__all__ = ["get_output_classes", "get_output_shapes", "get_output_types", "make_initializable_iterator",
           "make_one_shot_iterator"]  # fmt: skip


def make_one_shot_iterator(dataset: Any) -> Any:
    """An iterator over a dataset.

    >>> import gradtape as tf
    >>> int(tf.compat.v1.data.make_one_shot_iterator(tf.data.Dataset.range(3)).get_next())
    0
    """
    return iter(dataset)


def make_initializable_iterator(dataset: Any, shared_name: str | None = None) -> NoReturn:
    """RuntimeError, as in TensorFlow's eager code."""
    raise RuntimeError(
        "`make_initializable_iterator()` is not supported in eager mode. Use Python-style iteration instead."
    )


def _mapped(dataset_or_iterator: Any, part: str) -> Any:
    from gradtape._src import nest

    return nest.map_structure(lambda spec: getattr(spec, part), dataset_or_iterator.element_spec)


def get_output_shapes(dataset_or_iterator: Any) -> Any:
    """The shapes of a dataset's elements."""
    return _mapped(dataset_or_iterator, "shape")


def get_output_types(dataset_or_iterator: Any) -> Any:
    """The dtypes of a dataset's elements."""
    return _mapped(dataset_or_iterator, "dtype")


def get_output_classes(dataset_or_iterator: Any) -> Any:
    """The classes of a dataset's elements."""
    return _mapped(dataset_or_iterator, "value_type")


def __getattr__(name: str) -> Any:
    return getattr(import_module("gradtape.data"), name)
