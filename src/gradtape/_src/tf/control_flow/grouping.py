"""`tf.group`, `tf.tuple`, `tf.no_op` and `tf.timestamp`. Their eager operands have already been computed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src.arrays.symbolic import current_graph, graph_for_ops
from gradtape._src.conversion import wrap
from gradtape._src.shape import TensorSpec
from gradtape._src.tensor import Tensor

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


def no_op(name: str | None = None) -> Any:
    """Do nothing; in a TensorFlow 1 graph, create an operation that does nothing.

    >>> tf.no_op()
    """
    graph = graph_for_ops()
    return None if graph is None else graph.add_grouping((), name or "NoOp")


def group(*inputs: Any, **kwargs: Any) -> Any:
    """Group ops; eager ops have already run. In a TensorFlow 1 graph, create an operation that runs them.

    >>> v = tf.Variable(1.0)
    >>> tf.group(v.assign_add(1.0), v.assign_add(2.0))
    >>> v.numpy()
    np.float32(4.0)
    """
    name = kwargs.pop("name", None)
    if kwargs:
        raise ValueError(f"Unknown keyword arguments: {', '.join(kwargs)}")
    graph = graph_for_ops()
    return None if graph is None else graph.group(inputs, name)


def tuple_(tensors: TensorLike, control_inputs: Any = None, name: str | None = None) -> Any:
    """Return the tensors; eager ones are already computed.

    >>> [t.numpy().item() for t in tf.tuple([tf.constant(1), tf.constant(2)])]
    [1, 2]
    """
    return tensors


tuple_.__name__ = tuple_.__qualname__ = "tuple"


def timestamp(name: str | None = None) -> Tensor:
    """Return the seconds since the epoch as float64; in a function, at the time the op runs.

    >>> float(tf.timestamp()) > 1.7e9
    True
    """
    if current_graph() is None:
        return wrap(np.asarray(time.time()))
    from gradtape._src.graph.host_calls import function_on_host

    seconds: Tensor = function_on_host(timestamp, [], [TensorSpec([], "float64")], differentiable=False, pure=True)[0]
    return seconds
