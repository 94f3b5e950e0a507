"""`tf.saved_model.load`: restore the objects of a SavedModel: variables, functions, tables and assets."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.graph_ops import collector
from gradtape._src.arrays.symbolic import current_graph
from gradtape._src.checkpoint.tracking import GRAPH, VALUE, attributes_of
from gradtape._src.dtypes import as_dtype, string
from gradtape._src.formats import tensor_bundle
from gradtape._src.saved_model.functions import (
    SPECS,
    ConcreteFunction,
    FunctionSpec,
    RestoredFunction,
    bare_arguments,
    graph_input,
)
from gradtape._src.saved_model.interpreter import Captured, Library, RegisteredGradient
from gradtape._src.saved_model.messages import (
    MetaGraph,
    SavedObject,
    checkpoint_keys,
    integer,
    meta_graph,
    shape_of,
    text,
    texts,
)
from gradtape._src.saved_model.structures import structure
from gradtape._src.tensor import Tensor
from gradtape._src.tf.array import constant, zeros
from gradtape._src.variable import Variable

FILE = "saved_model.pb"
VARIABLES = os.path.join("variables", "variables")


class UserObject:
    """An object of a SavedModel: its parts are attributes."""

    def __init__(self) -> None:
        self._self_saveable_object_factories: dict[str, Any] = {}

    def _trackable_children(self) -> dict[str, Any]:
        return attributes_of(self)


class CallableObject(UserObject):
    """An object of a SavedModel that can be called."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return vars(self)["__call__"](*args, **kwargs)


class SignatureMap(Mapping[str, ConcreteFunction]):
    """The signatures of a SavedModel by name."""

    def __init__(self, signatures: dict[str, ConcreteFunction]) -> None:
        self._signatures = signatures

    def __getitem__(self, key: str) -> ConcreteFunction:
        return self._signatures[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._signatures)

    def __len__(self) -> int:
        return len(self._signatures)

    def __repr__(self) -> str:
        return f"_SignatureMap({self._signatures})"


class Asset:
    """A file that belongs to a SavedModel.

    >>> import gradtape as tf
    >>> tf.saved_model.Asset("words.txt").asset_path.numpy()
    b'words.txt'
    """

    def __init__(self, path: Any) -> None:
        self.path = os.fsdecode(np.asarray(path.array).item() if isinstance(path, Tensor) else path)

    @property
    def asset_path(self) -> Tensor:
        """The path, as a tensor; in a saved function, it is the path in the loaded model."""
        ops = collector()
        if ops is not None and current_graph() is not None:
            found: Tensor = ops.add("Identity", {"input": self}, {}, [((), string)])[0]
            return found
        return constant(self.path)

    def graph_input(self) -> Tensor:
        """The form in which a graph takes it."""
        return self.asset_path

    def _trackable_children(self) -> dict[str, Any]:
        return {}


class Resource(UserObject):
    """A table of a SavedModel: `resource_handle` is the table itself."""

    resource_handle: Any = None

    def graph_input(self) -> Any:
        """The form in which a graph takes it."""
        return self.resource_handle

    def _trackable_children(self) -> dict[str, Any]:
        return {name: part for name, part in attributes_of(self).items() if name != "resource_handle"}


class LoadOptions:
    """Options of `tf.saved_model.load`.

    >>> import gradtape as tf
    >>> tf.saved_model.LoadOptions().allow_partial_checkpoint
    False
    """

    def __init__(
        self,
        allow_partial_checkpoint: bool = False,
        experimental_io_device: Any = None,
        experimental_skip_checkpoint: bool = False,
        experimental_variable_policy: Any = None,
        experimental_load_function_aliases: bool = False,
    ) -> None:
        self.allow_partial_checkpoint = allow_partial_checkpoint
        self.experimental_io_device = experimental_io_device
        self.experimental_skip_checkpoint = experimental_skip_checkpoint
        self.experimental_variable_policy = experimental_variable_policy
        self.experimental_load_function_aliases = experimental_load_function_aliases


def contains_saved_model(export_dir: Any) -> bool:
    """Return whether a directory contains a SavedModel.

    >>> import gradtape as tf
    >>> tf.saved_model.contains_saved_model("no/such/folder")
    False
    """
    return os.path.isfile(os.path.join(os.fsdecode(export_dir), FILE))


def load(export_dir: Any, tags: Any = None, options: LoadOptions | None = None) -> Any:
    """Load an object that `tf.saved_model.save`, of gradtape or TensorFlow, wrote.

    Variables are trainable and tracked, functions can be called and differentiated, and `signatures` maps names to
    concrete functions. Only the graphs in the file are executed, and only when their functions are called.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> module = tf.Module()
    >>> module.v = tf.Variable(3.0)
    >>> tf.saved_model.save(module, folder)
    >>> float(tf.saved_model.load(folder).v)
    3.0
    """
    folder = os.fsdecode(export_dir)
    path = os.path.join(folder, FILE)
    try:
        with open(path, "rb") as file:
            data = file.read()
    except (FileNotFoundError, NotADirectoryError):
        raise OSError(
            f"SavedModel file does not exist at: {folder}{os.path.sep}{{saved_model.pbtxt|saved_model.pb}}"
        ) from None
    try:
        meta = meta_graph(data)
    except (ValueError, TypeError) as error:
        raise OSError(f"Cannot parse file {path}: {error}") from error
    _check_tags(tags, meta.tags, folder)
    loader = Loader(meta, folder, options or LoadOptions())
    try:
        loader.build()
    except (ValueError, TypeError) as error:
        raise OSError(f"Cannot parse file {path}: {error}") from error
    return loader.root()


def _check_tags(wanted: Any, stored: list[str], folder: str) -> None:
    if wanted is None:
        return
    given = {wanted} if isinstance(wanted, str) else set(wanted)
    if given != set(stored):
        raise ValueError(
            f"Got an incompatible argument to `tags`: {wanted}. The SavedModel at {folder} has one MetaGraph with tags "
            f"{stored}. You may omit the argument, pass 'None', or pass matching tags."
        )


class Loader:
    """Builds the objects of one SavedModel."""

    def __init__(self, meta: MetaGraph, folder: str, options: LoadOptions) -> None:
        self.meta, self.folder, self.options = meta, folder, options
        self.library = Library(meta.graph, meta.ops, os.path.join(folder, FILE))
        self.objects: list[Any] = [None] * len(meta.objects)

    def build(self) -> None:
        """Create the objects, without values."""
        if not self.meta.objects:
            raise ValueError("it contains no objects; gradtape does not support TensorFlow 1 graphs")
        for i, saved in enumerate(self.meta.objects):
            if saved.kind not in ("function", "bare_concrete_function", "captured_tensor"):
                self.objects[i] = self._made(saved)
        for i, saved in enumerate(self.meta.objects):
            if saved.kind in ("function", "bare_concrete_function"):
                self.objects[i] = self._function(saved)
        for i, saved in enumerate(self.meta.objects):
            self._connect(self.objects[i], saved)
        self._register_gradients()

    def root(self) -> Any:
        """The first object, with values."""
        self._restore_variables()
        self._create_tables()
        root = self.objects[0]
        if isinstance(root, UserObject):
            root.tensorflow_version = self.meta.version  # type: ignore[attr-defined]
            root.tensorflow_git_version = self.meta.git_version  # type: ignore[attr-defined]
            root.graph_debug_info = None  # type: ignore[attr-defined]
            if not hasattr(root, "signatures"):
                root.signatures = SignatureMap({})  # type: ignore[attr-defined]
        return root

    # -- objects -----------------------------------------------------------------------------------------------------
    def _made(self, saved: SavedObject) -> Any:
        if saved.kind == "variable":
            return self._variable(saved)
        if saved.kind == "constant":
            return self.library.constant(text(saved.message, 1))
        if saved.kind == "asset":
            return Asset(self._asset_path(integer(saved.message, 1)))
        if saved.kind == "resource":
            return Resource()
        kind = text(saved.message, 1)
        if kind in ("trackable_list_wrapper", "trackable_tuple_wrapper"):
            return []
        if kind == "trackable_dict_wrapper":
            return {}
        if kind == "signature_map":
            return SignatureMap({})
        return CallableObject() if any(name == "__call__" for name, _ in saved.children) else UserObject()

    def _variable(self, saved: SavedObject) -> Variable:
        message = saved.message
        dtype, shape = as_dtype(integer(message, 1)), shape_of(message.get(2, [b""])[-1])
        known = [0 if n is None else n for n in shape.as_list()] if shape.rank is not None else []
        start = zeros(known, dtype)
        return Variable(start, trainable=bool(integer(message, 3)), name=text(message, 6) or "Variable", shape=shape)

    def _asset_path(self, index: int) -> str:
        if not 0 <= index < len(self.meta.asset_files):
            raise ValueError(f"there is no asset {index}")
        name = self.meta.asset_files[index]
        path = os.path.abspath(os.path.join(self.folder, "assets", name))
        if os.path.dirname(path) != os.path.abspath(os.path.join(self.folder, "assets")):
            raise ValueError(f"the asset {name!r} is outside the directory `assets`")
        return path

    def _connect(self, owner: Any, saved: SavedObject) -> None:
        """Attach the parts of an object."""
        if isinstance(owner, (RestoredFunction, ConcreteFunction, Variable, Tensor)) or owner is None:
            return
        for name, node in saved.children:
            part = self._object(node)
            if isinstance(owner, list):
                owner.append(part)
            elif isinstance(owner, dict):
                owner[name] = part
            elif isinstance(owner, SignatureMap):
                if isinstance(part, ConcreteFunction):
                    owner._signatures[name] = part
            else:
                vars(owner)[name] = part

    def _object(self, node: int) -> Any:
        if not 0 <= node < len(self.objects):
            raise ValueError(f"there is no object {node}")
        return self.objects[node]

    # -- functions ---------------------------------------------------------------------------------------------------
    def _function(self, saved: SavedObject) -> Any:
        message = saved.message
        if saved.kind == "bare_concrete_function":
            name, keywords, positional = bare_arguments(message)
            concrete = self._concrete(name)
            if isinstance(concrete, ConcreteFunction) and keywords:
                concrete = self._concrete(name, shared=False)
                concrete.take_keywords(keywords, positional)
            return concrete
        spec = FunctionSpec.read(message.get(2, [b""])[-1])
        names = texts(message, 1)
        return RestoredFunction(_short(names), spec, [self._concrete(name) for name in names])

    def _concrete(self, name: str, shared: bool = True) -> ConcreteFunction:
        if shared and name in self._concrete_functions:
            return self._concrete_functions[name]
        if name not in self.meta.functions:
            raise ValueError(f"there is no concrete function {name!r}")
        saved = self.meta.functions[name]
        found = ConcreteFunction(
            self.library.function(name), saved, functools.partial(self._captures, saved.bound_inputs)
        )
        if shared:
            self._concrete_functions[name] = found
        return found

    @functools.cached_property
    def _concrete_functions(self) -> dict[str, ConcreteFunction]:
        return {}

    def _register_gradients(self) -> None:
        """Register the gradient functions of custom-gradient ops, with the tensors of forward
        functions that they need.
        """
        for kind, name in self.meta.graph.gradients.items():
            if name not in self.meta.functions:
                continue
            saved = self.meta.functions[name]
            bound = functools.partial(self._captures, saved.bound_inputs)
            for each in bound():
                if isinstance(each, Captured):
                    self.library.captures.setdefault(each.function, []).append(each.tensor)
            self.library.registered[kind] = RegisteredGradient(
                name, bound, saved.input_signature, saved.output_signature
            )
            self.library.gradients[kind] = functools.partial(self._gradient, kind)

    def _captures(self, nodes: list[int]) -> list[Any]:
        """The objects that a function captures; tensors of forward functions by name."""
        found = []
        for node in nodes:
            value, saved = self._object(node), self.meta.objects[node]
            is_tensor = saved.kind == "captured_tensor"
            found.append(Captured(text(saved.message, 1), text(saved.message, 2)) if is_tensor else value)
        return found

    def _gradient(self, kind: str, lookup: Any, *cotangents: Any) -> list[Any]:
        """Call the gradient function of a custom-gradient op."""
        gradient = self.library.registered[kind]
        bound = [lookup(each.tensor) if isinstance(each, Captured) else graph_input(each) for each in gradient.bound()]
        function = self.library.function(gradient.name)
        flat = iter(function(*cotangents[: len(function.arguments) - len(bound)], *bound))
        expected = structure(gradient.output_signature)
        outputs = list(expected) if isinstance(expected, (list, tuple)) else [expected]
        return [next(flat) if isinstance(each, SPECS) else None for each in outputs]

    # -- values ------------------------------------------------------------------------------------------------------
    def _restore_variables(self) -> None:
        wanted = [i for i, each in enumerate(self.objects) if isinstance(each, Variable)]
        if not wanted or self.options.experimental_skip_checkpoint:
            return
        tensor_bundle.read(os.path.join(self.folder, VARIABLES), functools.partial(self._assign, wanted))

    def _assign(self, wanted: list[int], reader: tensor_bundle.Reader) -> None:
        graph = reader.get(GRAPH).item() if GRAPH in reader else b""
        keys = checkpoint_keys(graph)
        for i in wanted:
            key = keys.get(i, {}).get(VALUE)
            variable = self.objects[i]
            if key is None or key not in reader:
                if self.options.allow_partial_checkpoint:
                    continue
                raise errors.NotFoundError(
                    None, None, f"The variable {variable.name!r} has no value in {self.folder}{os.path.sep}{VARIABLES}."
                )
            variable.assign(reader.get(key))

    def _create_tables(self) -> None:
        """Run the functions that create and fill tables."""
        for each in self.objects:
            if isinstance(each, Resource):
                create = vars(each).get("_create_resource")
                if create is None:
                    raise errors.UnimplementedError(None, None, f"A resource of {self.folder} cannot be created.")
                each.resource_handle = create()
        for each in self.objects:
            if isinstance(each, Resource) and "_initialize" in vars(each):
                vars(each)["_initialize"]()


def _short(names: list[str]) -> str:
    """The Python name of a function, from `__inference_NAME_123` or `__inference_NAME_copy_123`."""
    if not names:
        return "function"
    words = names[0].removeprefix("__inference_")
    return words.rpartition("_")[0].removesuffix("_copy") or words
