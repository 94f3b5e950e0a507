"""``import tf_keras`` under the alias: `tf.keras`, which is Keras 3.

`tf_keras` is Keras 2, built on TensorFlow's private code. The names that both versions have exist below `tf_keras` and
`tf_keras.api._v1.keras`, so that libraries which import Keras 2 get layers, optimizers and initializers. Names that
only Keras 2 has raise an error that says so, except for the layers of feature columns. `optimizers.Optimizer`, which
libraries subclass, takes Keras 2's arguments.
"""

from __future__ import annotations

import functools
import importlib
from types import ModuleType
from typing import Any

__all__ = ["NAME", "find"]

NAME = "tf_keras"
_ROOTS = ("api._v1.keras", "api._v2.keras", "api")
_EMPTY = ("experimental", "__internal__", "__internal__.legacy", "__internal__.legacy.layers", "__internal__.utils")
"""Private modules that libraries import; Keras 3 has none of their contents."""


def _register_symbolic_tensor_type(symbolic_tensor_type: type) -> None:
    """Ignore a class that represents tensors in models: Keras 3 only has `KerasTensor`."""


_FUNCTIONS = {"__internal__.utils": {"register_symbolic_tensor_type": _register_symbolic_tensor_type}}


_FEATURE_LAYERS = {("layers", "DenseFeatures"), ("experimental", "SequenceFeatures")}


@functools.cache
def _optimizer() -> type:
    """Return the base class of optimizers with Keras 2's signature: name first, learning rate in subclasses."""
    base: Any = importlib.import_module("gradtape").keras.optimizers.Optimizer

    class OfEitherVersion(type(base)):  # type: ignore[misc]
        """Makes every optimizer of Keras 3 an instance of the class."""

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, base) if cls is Optimizer else super().__instancecheck__(instance)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, base) if cls is Optimizer else super().__subclasscheck__(subclass)

    class Optimizer(base, metaclass=OfEitherVersion):  # type: ignore[misc]
        def __init__(self, name: str, weight_decay: Any = 0, *args: Any, **kwargs: Any) -> None:
            names = ("clipnorm", "clipvalue", "global_clipnorm", "use_ema", "ema_momentum", "ema_overwrite_frequency")
            kwargs.update(zip(names, args, strict=False))
            kwargs.pop("jit_compile", None)
            super().__init__(0.001, name=name, weight_decay=weight_decay or None, **kwargs)

    Optimizer.__module__, Optimizer.__qualname__ = f"{NAME}.optimizers", "Optimizer"
    return Optimizer


class _Module(ModuleType):
    """A module of Keras 2: the names of Keras 3 at the same place."""

    def __init__(self, path: str, inner: str, found: Any) -> None:
        super().__init__(f"{NAME}.{path}".rstrip("."), "What Keras 2 and Keras 3 have in common.")
        names = [name for name in dir(found) if not name.startswith("_")] if found is not None else []
        self.__dict__.update(_inner=inner, _found=found, __path__=[], __all__=names)

    def __getattr__(self, name: str) -> Any:
        inner, found = vars(self)["_inner"], vars(self)["_found"]
        if (inner, name) == ("optimizers", "Optimizer"):
            return _optimizer()
        if inner == "" and name in ("experimental", "layers", "optimizers"):
            return find(name)
        if not name.startswith("__") and hasattr(found, name):
            return getattr(found, name)
        if (inner, name) in _FEATURE_LAYERS:
            return getattr(importlib.import_module("gradtape._src.keras_backend.feature_layers"), name)
        if name in _FUNCTIONS.get(inner, {}):
            return _FUNCTIONS[inner][name]
        child = find(f"{inner}.{name}".lstrip(".")) if name == "__internal__" or inner in _EMPTY else None
        if child is not None:
            return child
        if name == "__version__":
            return found.__version__
        raise AttributeError(
            f"module {self.__name__!r} has no attribute {name!r}: tf_keras is Keras 2; gradtape provides Keras 3 "
            "instead, which does not have this name.",
            name=name,
        )


@functools.cache
def find(path: str) -> ModuleType | None:
    """Return the module `tf_keras.path`; None if Keras 3 has no such module."""
    inner = path
    for root in _ROOTS:
        if path == root or path.startswith(root + "."):
            inner = path[len(root) :].lstrip(".")
            break
    if inner in _EMPTY:
        return _Module(path, inner, None)
    found: Any = importlib.import_module("gradtape").keras
    for part in filter(None, inner.split(".")):
        found = getattr(found, part, None)
    if path in ("api._v1", "api._v2"):
        return _Module(path, "", importlib.import_module("gradtape").keras)
    return _Module(path, inner, found) if isinstance(found, ModuleType) else None
