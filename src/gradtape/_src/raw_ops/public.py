"""`tf.raw_ops`: TensorFlow's ops by their names in graphs, with keyword arguments."""

from __future__ import annotations

import typing as _typing

from gradtape._src.raw_ops.table import function, names

_LAZY = frozenset(names())
"""The functions are created on first access."""

__all__ = sorted(_LAZY)


def __getattr__(name: str) -> _typing.Any:
    found = function(name) if name in _LAZY else None
    if found is None:
        raise AttributeError(f"module 'gradtape.raw_ops' has no attribute {name!r}{_hint(name)}", name=name)
    return found


def _hint(name: str) -> str:
    if name.startswith("_"):
        return ""
    return ": TensorFlow's op of this name, if there is one, has no counterpart in gradtape."


def __dir__() -> list[str]:
    return sorted(_LAZY)
