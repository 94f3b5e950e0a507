"""Names of a module that are imported when they are first used, so that `import gradtape` is fast."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def getattr_of(module: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a module.

    `homes` maps each name to the module that defines it: "module", "module:name" if it has another name there, or
    "module:" for a module.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
        found = resolve(homes[name], name)
        setattr(sys.modules[module], name, found)
        return found

    return load


def of_public(module: str, load: Callable[[str], Any] | None = None) -> Callable[[str], Any]:
    """The `__getattr__` of a public module: what `load` returns, or an error that says why a name is missing."""

    def find(name: str) -> Any:
        try:
            if load is not None:
                return load(name)
        except AttributeError as error:
            if error.name != name:
                raise
        from gradtape._src.reasons import missing

        raise missing(sys.modules.get(module, module), f"tf.{module.partition('.')[2]}.{name}", name)

    return find


def resolve(home: str, name: str) -> Any:
    """The attribute of a module with this name, or the one after the colon; the module itself before a bare colon."""
    path, colon, other = home.partition(":")
    module = importlib.import_module(path)
    return module if colon and not other else getattr(module, other or name)


def homes_of(*groups: tuple[str, str]) -> dict[str, str]:
    """The modules of names: for each module below `gradtape._src`, its names separated by spaces."""
    return {name: f"gradtape._src.{module}" for module, names in groups for name in names.split()}
