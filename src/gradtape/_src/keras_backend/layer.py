"""The base class of Keras layers: lets checkpoints track them, and graphs of TensorFlow 1 contain them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gradtape._src.arrays.symbolic import graph_for_ops
from gradtape._src.function.function import Function
from gradtape._src.shape import TensorSpec
from gradtape._src.tf.v1.graphs.tensors import graph_values
from gradtape._src.variable import Variable, unwrapped

_KERAS_OWN = frozenset({"_layers", "_metrics", "_seed_generators", "_trainable_variables", "_non_trainable_variables"})
"""Lists in which Keras collects the variables and layers of a layer."""

_NO_VALUE = object()


class Layer:
    """Tells checkpoints the names of a Keras layer's variables and layers; adds its calls to graphs."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the layer. With tensors of a TensorFlow 1 graph, the whole call is one operation of the graph.

        Keras' `Layer.__call__` creates the variables before it calls this.
        """
        call = super().__call__  # type: ignore[misc]
        graph = graph_for_ops()
        if graph is None or not graph_values((args, kwargs)):
            return call(*args, **kwargs)

        def layer(*args: Any, **kwargs: Any) -> Any:
            return call(*args, **kwargs)

        return graph.record(layer, args, kwargs, getattr(self, "name", None))

    def __setattr__(self, name: str, value: Any) -> None:
        if getattr(self, name, _NO_VALUE) is not value:  # `self.x = self.x` has no effect, not even on a property
            super().__setattr__(name, value)

    def _trackable_children(self) -> dict[str, Any]:
        """The attributes with variables and layers, and the variables that no attribute contains.

        The names are those that Keras with TensorFlow writes. They include layers in lists and dicts, which TensorFlow
        silently leaves out.
        """
        parts = {name: part for name, part in vars(self).items() if name not in _KERAS_OWN and _holds_state(part)}
        named = {id(unwrapped(leaf)) for part in parts.values() for leaf in _leaves(part)}
        for name in ("_trainable_variables", "_non_trainable_variables"):
            own = vars(self).get(name, ())
            rest = {str(i): v for i, v in enumerate(own) if id(unwrapped(v)) not in named}
            if rest:
                parts[name] = rest
        return parts

    @property
    def _default_save_signature(self) -> Any:
        """The default signature for `tf.saved_model.save` of a model."""
        from keras.src import tree
        from keras.src.models.functional import Functional
        from keras.src.models.model import Model
        from keras.src.models.sequential import Sequential

        if not isinstance(self, Model):
            return None
        functional = getattr(self, "_functional", None) if isinstance(self, Sequential) else self
        if isinstance(functional, Functional):
            signature: Any = (tree.map_structure(lambda x: TensorSpec(x.shape, x.dtype), functional.input),)
        else:
            shapes = getattr(self, "_build_shapes_dict", None) or {}
            signature = tuple(TensorSpec(shape, self.compute_dtype) for shape in shapes.values())

        def serving_default(inputs: Any) -> Any:
            return self(inputs)

        return Function(serving_default, signature) if signature else None


def _holds_state(value: Any) -> bool:
    return any(
        isinstance(unwrapped(leaf), Variable) or (hasattr(leaf, "_trackable_children") and not isinstance(leaf, type))
        for leaf in _leaves(value)
    )


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from _leaves(part)
    elif isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            for part in value.values():
                yield from _leaves(part)
    else:
        yield value
