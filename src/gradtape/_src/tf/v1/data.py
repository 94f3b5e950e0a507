"""`tf.compat.v1.data`: `tf.data`, and iterators under their older names."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gradtape._src.arrays.symbolic import graph_for_ops
from gradtape._src.tf.v1.graphs.iterators import GraphIterator

__all__ = ["get_output_classes", "get_output_shapes", "get_output_types", "make_initializable_iterator",
           "make_one_shot_iterator"]  # fmt: skip


def make_one_shot_iterator(dataset: Any) -> Any:
    """An iterator over a dataset.

    >>> import gradtape as tf
    >>> int(tf.compat.v1.data.make_one_shot_iterator(tf.data.Dataset.range(3)).get_next())
    0
    """
    graph = graph_for_ops()
    return iter(dataset) if graph is None else GraphIterator(graph, dataset, starts_itself=True)


def make_initializable_iterator(dataset: Any, shared_name: str | None = None) -> Any:
    """An iterator of a graph that starts whenever its `initializer` runs. RuntimeError in eager code."""
    graph = graph_for_ops()
    if graph is not None:
        return GraphIterator(graph, dataset, starts_itself=False)
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
