"""The functions of primitives as attributes, by name, to which their pickles refer.

The examples of their declarations are tests through `__test__`.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from gradtape._src.calls import calls
from gradtape._src.core.primitive import registry


def load_all() -> None:
    """Import every module of primitives; programs only import those that they use."""
    package = __name__.rpartition(".")[0]
    for info in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        importlib.import_module(info.name)


def __getattr__(name: str) -> Any:
    if name == "__test__":
        load_all()
        return {op.name: op.docstring() for op in registry.values() if op.name in calls and op.example is not None}
    if name not in calls and not name.startswith("_"):
        load_all()
    try:
        return calls[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name) from None
