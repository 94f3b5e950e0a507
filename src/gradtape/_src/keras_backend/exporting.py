"""Export of Keras models as SavedModels: `model.export` and `keras.export.ExportArchive`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from keras.src import layers, tree
from keras.src.backend.common import KerasVariable
from keras.src.export.export_utils import make_tf_tensor_spec
from keras.src.utils import io_utils

from gradtape._src.checkpoint.tracking import attributes_of, objects_below
from gradtape._src.function.concrete import ConcreteFunction
from gradtape._src.function.function import BoundFunction, Function
from gradtape._src.saved_model.functions import RestoredFunction
from gradtape._src.saved_model.load import Asset
from gradtape._src.saved_model.save import SaveOptions, save
from gradtape._src.tf.lookup.tables import LookupInterface
from gradtape._src.variable import Variable, unwrapped
from gradtape._src.version import TENSORFLOW

_FUNCTIONS = (Function, BoundFunction, RestoredFunction)


class _Root:
    """The object that is saved: variables and endpoints are its attributes."""

    def _trackable_children(self) -> dict[str, Any]:
        return attributes_of(self)


class ExportArchive:
    """Collects the endpoints of layers and models, and writes them as a SavedModel."""

    def __init__(self) -> None:
        self._endpoint_names: list[str] = []
        self._endpoint_signatures: dict[str, Any] = {}
        self._tracked: list[Any] = []
        self.tensorflow_version = TENSORFLOW
        self._root = _Root()
        for name in ("variables", "trainable_variables", "non_trainable_variables"):
            vars(self._root)[name] = []

    @property
    def variables(self) -> list[Any]:
        """The variables of the tracked objects."""
        found: list[Any] = vars(self._root)["variables"]
        return found

    @property
    def trainable_variables(self) -> list[Any]:
        """The trainable variables of the tracked objects."""
        found: list[Any] = vars(self._root)["trainable_variables"]
        return found

    @property
    def non_trainable_variables(self) -> list[Any]:
        """The other variables of the tracked objects."""
        found: list[Any] = vars(self._root)["non_trainable_variables"]
        return found

    def track(self, resource: Any) -> None:
        """Track the variables, tables and assets of a layer, a model or another object."""
        if isinstance(resource, layers.Layer):
            if not resource.built:
                raise ValueError("The layer provided has not yet been built. It must be built before export.")
            self.variables.extend(resource.variables)
            self.trainable_variables.extend(resource.trainable_variables)
            self.non_trainable_variables.extend(resource.non_trainable_variables)
        elif not hasattr(resource, "_trackable_children") and not isinstance(resource, Variable):
            raise ValueError(
                "Invalid resource type. Expected a Keras `Layer` or `Model` or a TensorFlow `Trackable` object. "
                f"Received object {resource} of type '{type(resource)}'. "
            )
        self._tracked.append(resource)

    def add_endpoint(self, name: str, fn: Any, input_signature: Any = None, **kwargs: Any) -> Any:
        """Add a function under a name: a `tf.function` that was called, or any function with an input_signature."""
        if name in self._endpoint_names:
            raise ValueError(f"Endpoint name '{name}' is already taken.")
        if "jax2tf_kwargs" in kwargs or "is_static" in kwargs:
            raise ValueError(
                "'jax2tf_kwargs' and 'is_static' are only supported with the jax backend. Current backend: gradtape"
            )
        if input_signature is None:
            function = self._called_function(fn)
        else:
            signature = tree.map_structure(make_tf_tensor_spec, input_signature)
            self._endpoint_signatures[name] = signature
            function = Function(fn, signature, autograph=False)
        vars(self._root)[name] = function
        self._endpoint_names.append(name)
        return function

    def _called_function(self, fn: Any) -> Any:
        if not isinstance(fn, _FUNCTIONS):
            raise ValueError(
                "If the `fn` argument provided is not a `tf.function`, you must provide an `input_signature` argument "
                "to specify the shape and dtype of the function arguments. Example:\n\nexport_archive.add_endpoint(\n"
                "    name='call',\n    fn=model.call,\n    input_signature=[\n        keras.InputSpec(\n"
                "            shape=(None, 224, 224, 3),\n            dtype='float32',\n        )\n    ],\n)"
            )
        if not _concrete_functions(fn):
            raise ValueError(
                f"The provided tf.function '{fn}' has never been called. To specify the expected shape and dtype of "
                "the function's arguments, you must either provide a function that has been called at least once, or "
                "alternatively pass an `input_signature` argument in `add_endpoint()`."
            )
        return fn

    def track_and_add_endpoint(self, name: str, resource: Any, input_signature: Any, **kwargs: Any) -> Any:
        """Track a layer or a model, and add its `__call__`."""
        self.track(resource)
        return self.add_endpoint(name, resource.__call__, input_signature, **kwargs)

    def add_variable_collection(self, name: str, variables: Any) -> None:
        """Save a list of variables under a name."""
        if not isinstance(variables, (list, tuple, set)):
            raise ValueError(
                f"Expected `variables` to be a list/tuple/set. Received instead object of type '{type(variables)}'."
            )
        if not all(isinstance(v, (Variable, KerasVariable)) for v in variables):
            raise ValueError(
                "Expected all elements in `variables` to be `tf.Variable` instances. Found instead the following "
                f"types: {list({type(v) for v in variables})}"
            )
        vars(self._root)[name] = list(variables)

    def write_out(self, filepath: Any, options: SaveOptions | None = None, verbose: bool | None = True) -> None:
        """Write the SavedModel: every endpoint is a signature, the first one `serving_default` as well."""
        if not self._endpoint_names:
            raise ValueError("No endpoints have been set yet. Call add_endpoint().")
        functions = {name: self._concrete(name) for name in self._endpoint_names}
        attributes = vars(self._root)
        found = {id(v): v for function in functions.values() for v in function.variables}
        trainable = [v for v in found.values() if v.trainable]
        attributes["_all_variables"] = [*trainable, *(v for v in found.values() if not v.trainable)]
        attributes["_misc_assets"] = list(self._resources())
        signatures = dict(functions)
        signatures.setdefault("serving_default", functions[self._endpoint_names[0]])
        save(self._root, os.fspath(filepath), signatures=signatures, options=options)
        if verbose or verbose is None:
            shown = [_described(name, function) for name, function in functions.items()]
            endpoints = "\n\n".join(shown)
            io_utils.print_msg(f"Saved artifact at '{filepath}'. The following endpoints are available:\n\n{endpoints}")

    def _concrete(self, name: str) -> Any:
        return _concrete_functions(vars(self._root)[name])[0]

    def _resources(self) -> Iterator[Any]:
        """The tables and assets of the tracked objects."""
        for root in self._tracked:
            for each in objects_below(root):
                if isinstance(unwrapped(each.value), (LookupInterface, Asset)):
                    yield each.value


def _concrete_functions(function: Any) -> list[Any]:
    if isinstance(function, RestoredFunction):
        return function.concrete_functions
    if function.input_signature is not None:
        return [function.get_concrete_function()]
    return list(function.traces())


def _described(name: str, function: ConcreteFunction) -> str:
    lines = function.pretty_printed_signature().split("\n")
    return "\n".join([f"* Endpoint '{name}'", *lines[1:]])
