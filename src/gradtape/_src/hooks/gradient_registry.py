"""`tensorflow.python.framework.ops._gradient_registry`: gradient functions by types of ops, which libraries replace.

An entry is a dictionary with the function under "type". What is written there is the gradient of all ops of this type
in graphs, until the function that was there before is written back.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any, NoReturn

from gradtape._src.autodiff.gradient_overrides import original_gradient, register, registered
from gradtape._src.autodiff.settings import replace_gradient
from gradtape._src.core.primitive import registry
from gradtape._src.ops.by_name import load_all

__all__ = ["get_gradient_function", "gradient_registry", "is_backpropagatable", "record_gradient"]


class _Entry(dict[str, Any]):
    """The entry of a type of ops: what is written to it under "type" is the gradient function."""

    def __init__(self, op_type: str) -> None:
        super().__init__(type=original_gradient, location=("gradtape", 0, op_type, ""))
        self._op_type = op_type

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        if key == "type":
            replace_gradient(self._op_type, None if value is original_gradient else value)


class _Entries(MutableMapping[str, Any]):
    """The entries of all types that primitives have, and those that were added."""

    def __init__(self) -> None:
        load_all()
        self._entries: dict[str, Any] = {op.tf_name: _Entry(op.tf_name) for op in registry.values()}

    def __getitem__(self, op_type: str) -> Any:
        return self._entries[op_type]

    def __setitem__(self, op_type: str, entry: Any) -> None:
        self._entries[op_type] = entry

    def __delitem__(self, op_type: str) -> None:
        del self._entries[op_type]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


class _Registry:
    """TensorFlow's object: a dictionary, and functions to read it and to add to it."""

    def __init__(self) -> None:
        self._registry = _Entries()

    def register(self, candidate: Any, name: str | None = None) -> None:
        """Add a function."""
        register(name or candidate.__name__, candidate)

    def lookup(self, name: str) -> Any:
        """The function of a type, or of a name that `tf.RegisterGradient` was called with."""
        if name in self._registry:
            return self._registry[name]["type"]
        try:
            return registered(name, _Named(name))
        except LookupError:
            raise LookupError(f"gradient registry has no entry for: {name}") from None

    def list(self) -> list[str]:
        """All types."""
        return [*self._registry]


class _Named:
    """An operation of which only the type is known."""

    def __init__(self, type: str) -> None:
        self.name = self.type = type


gradient_registry = _Registry()


def get_gradient_function(op: Any) -> Any:
    """The gradient function of an operation."""
    return gradient_registry.lookup(op.type)


def is_backpropagatable(tensor: Any) -> bool:
    """Whether a gradient goes through a tensor."""
    return bool(tensor.dtype.is_floating or tensor.dtype.is_complex)


def record_gradient(op_name: str, inputs: Any, attrs: Any, results: Any) -> NoReturn:
    """TensorFlow's ops call it to be recorded; the ops of gradtape are recorded without it."""
    raise NotImplementedError(
        f"record_gradient({op_name!r}): ops record themselves in gradtape. Use tf.custom_gradient to define your "
        "own gradient."
    )
