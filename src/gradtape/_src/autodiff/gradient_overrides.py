"""Gradient functions that replace vjp rules: for ops of graphs, by TensorFlow's names of their types.

`tf.RegisterGradient`, `graph.gradient_override_map`, and TensorFlow's private registry, which libraries write to
(shap's `DeepExplainer`), take functions of an operation and of the gradients of its outputs. A backward pass in a graph
replaces the records of such ops by records with the function as their vjp; a pass over eager records does not, because
these save only the values that their own rules need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradtape._src import nest
from gradtape._src.arrays.symbolic import current_graph
from gradtape._src.autodiff.arguments import UnconnectedGradients, finished
from gradtape._src.autodiff.custom_op import CUSTOM
from gradtape._src.autodiff.settings import settings
from gradtape._src.core.primitive import registry
from gradtape._src.core.tape import Record
from gradtape._src.core.vjp import vjp
from gradtape._src.tensor import Tensor, is_differentiable

GradientFunction = Callable[..., Any]
"""A function of an operation and of the gradients of its outputs, which returns the gradients of its inputs."""


_registered: dict[str, GradientFunction | None] = {}


def register(name: str, function: GradientFunction | None) -> None:
    """Register a gradient function under a name; None means that there is no gradient."""
    if name in _registered or any(op.tf_name == name and op.differentiable for op in registry.values()):
        raise KeyError(f"Registering two gradient with name '{name}'!")
    _registered[name] = function


def registered(name: str, operation: Any) -> GradientFunction:
    """The function that is registered under a name, for an operation that needs it."""
    if name not in _registered:
        raise LookupError(
            f"No gradient defined for operation '{operation.name}' (op type: {operation.type}). In general every "
            "operation must have an associated `@tf.RegisterGradient` for correct autodiff, which this op is lacking: "
            f"nothing is registered as {name!r}."
        )
    return _registered[name] or _no_gradient


def _no_gradient(operation: Any, *upstream: Any) -> list[Any]:
    return [None] * len(operation.inputs)


def check_map(op_type_map: Any) -> None:
    """Raise TypeError unless this maps types of ops to names of gradient functions."""
    strings = isinstance(op_type_map, dict) and all(isinstance(s, str) for pair in op_type_map.items() for s in pair)
    if not strings:
        raise TypeError("op_type_map must be a dictionary mapping strings to strings")


def with_overrides(records: Sequence[Any], mapped: Callable[[Any], GradientFunction | None] | None = None) -> list[Any]:
    """The records of a trace, with the gradients of some operations replaced.

    `mapped` takes an operation of the graph and returns a gradient function, or None: then the type of the operation
    decides.
    """
    graph: Any = current_graph()
    if graph is None:
        return list(records)
    return [_overridden(record, graph, mapped) for record in records]


def _overridden(entry: Any, graph: Any, mapped: Callable[[Any], GradientFunction | None] | None) -> Any:
    record = Record.of(entry)
    outputs = record.output if type(record.output) is tuple else (record.output,)
    array = graph.lookup(outputs[0])
    operations = getattr(getattr(array, "graph", None), "operation_of", None)
    if operations is None or record.op.name not in registry:
        return entry
    operation = operations(array)
    function = None if mapped is None else mapped(operation)
    function = function or settings.gradient_overrides.get(operation.type)
    if function is None:
        return entry
    operation.record = record
    dtypes = record.dtype if type(record.dtype) is tuple else (record.dtype,)
    call = _Call(function, operation, len(record.inputs))
    return (CUSTOM, record.inputs, outputs, (None,) * len(record.inputs), {"call": call, "body": ()}, dtypes)


class _Call:
    """One call of a gradient function, with the data of its vjp rule."""

    __slots__ = ("_count", "_function", "_operation")

    def __init__(self, function: GradientFunction, operation: Any, count: int) -> None:
        self._function, self._operation, self._count = function, operation, count

    def __call__(self, upstream: list[Tensor]) -> list[Any]:
        """The gradients of inputs that are tensors; further ones belong to static arguments."""
        given = self._function(self._operation, *upstream)
        found = list(given) if isinstance(given, (list, tuple)) else [given]
        inputs = len(self._operation.inputs)
        if len(found) not in (self._count, inputs):
            raise ValueError(
                f"Num gradients {len(found)} generated for op {self._operation!r} do not match num inputs {inputs}"
            )
        return found[: self._count]


def original_gradient(operation: Any, *upstream: Any) -> Any:
    """The gradients that the vjp rules of an operation's record return: a list with one for each input, or the only
    one.

    A function that replaces a gradient calls this to get the original one.
    """
    record: Record = operation.record
    graph: Any = current_graph()
    arrays = [graph.lookup(uid) for uid in record.inputs]
    shapes = {
        uid: tuple(array.shape)
        for uid, array in zip(record.inputs, arrays, strict=True)
        if array is not None and is_differentiable(array)
    }
    outputs = record.output if type(record.output) is tuple else (record.output,)
    shapes |= {uid: tuple(graph.lookup(uid).shape) for uid in outputs}
    cotangents = {uid: g for uid, g in zip(outputs, nest.flatten(list(upstream)), strict=True) if g is not None}
    found = [finished(g, None, UnconnectedGradients.NONE) for g in vjp(record, cotangents, shapes, traced=True)]
    found += [None] * (len(operation.inputs) - len(found))
    return found if len(found) > 1 else found[0]
