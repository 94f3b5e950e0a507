"""`tensorflow.python.framework.ops._gradient_registry`: gradient functions by op type, which libraries override.

An entry is a dictionary with the function under "type". Writing it overrides the gradient of all ops of this type in
graphs, until the original function is written back.
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
    """The entry of an op type: writing "type" overrides the gradient function."""

    def __init__(self, op_type: str) -> None:
        super().__init__(type=original_gradient, location=("gradtape", 0, op_type, ""))
        self._op_type = op_type

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        if key == "type":
            replace_gradient(self._op_type, None if value is original_gradient else value)


class _Entries(MutableMapping[str, Any]):
    """The entries of all op types that primitives have, and of those that were registered."""

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
    """TensorFlow's registry object: a dictionary with methods to look up and to register."""

    def __init__(self) -> None:
        self._registry = _Entries()

    def register(self, candidate: Any, name: str | None = None) -> None:
        """Register a gradient function."""
        register(name or candidate.__name__, candidate)

    def lookup(self, name: str) -> Any:
        """Return the gradient function of a type, or of a name given to `tf.RegisterGradient`."""
        if name in self._registry:
            return self._registry[name]["type"]
        try:
            return registered(name, _Named(name))
        except LookupError:
            raise LookupError(f"gradient registry has no entry for: {name}") from None

    def list(self) -> list[str]:
        """Return all types."""
        return [*self._registry]


class _Named:
    """An operation of which only the type is known."""

    def __init__(self, type: str) -> None:
        self.name = self.type = type


gradient_registry = _Registry()


def get_gradient_function(op: Any) -> Any:
    """Return the gradient function of an operation."""
    return gradient_registry.lookup(op.type)


def is_backpropagatable(tensor: Any) -> bool:
    """Whether a gradient goes through a tensor."""
    return bool(tensor.dtype.is_floating or tensor.dtype.is_complex)


def record_gradient(op_name: str, inputs: Any, attrs: Any, results: Any) -> NoReturn:
    """Do nothing: TensorFlow's ops call this to be recorded, but the ops of gradtape record themselves."""
    raise NotImplementedError(
        f"record_gradient({op_name!r}): ops record themselves in gradtape. Use tf.custom_gradient to define your "
        "own gradient."
    )
