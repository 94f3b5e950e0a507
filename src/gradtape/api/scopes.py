"""Context managers of TensorFlow's graph days that eager code still opens: names, devices, dependencies, lifting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from gradtape.engine import tape as stack
from gradtape.variable import name_prefix


class name_scope:
    """A prefix for names; the value of the `with` block is the full scope with a slash at its end.

    >>> with name_scope("outer"), name_scope("inner") as scope:
    ...     print(scope)
    outer/inner/
    """

    def __init__(self, name: str | None, default_name: str | None = None, values: Any = None) -> None:
        if name is not None and not isinstance(name, str):
            raise ValueError("name for name_scope must be a string.")
        self._name = name or default_name or ""
        self._tokens: list[Any] = []

    @property
    def name(self) -> str:
        return self._name

    def __enter__(self) -> str:
        outer = name_prefix.get()
        full = self._name
        if full and not full.endswith("/"):
            full = f"{outer}{full}/"
        self._tokens.append(name_prefix.set(full))
        return full

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        name_prefix.reset(self._tokens.pop())


def current_scope() -> str:
    """The prefix that names get here."""
    return name_prefix.get()


def get_current_name_scope() -> str:
    """The open name scopes, joined by slashes.

    >>> with name_scope("a"), name_scope("b"):
    ...     print(get_current_name_scope())
    a/b
    """
    return name_prefix.get().rstrip("/")


class device:
    """Where ops run. With the NumPy engine that is always the CPU; another device is refused.

    >>> with device("/CPU:0"):
    ...     pass
    """

    def __init__(self, device_name: Any) -> None:
        self._name = device_name
        text = str(device_name or "").upper()
        if (text and "GPU" in text) or "TPU" in text:
            raise RuntimeError(
                f"{device_name} is not available: eager computation on NumPy runs on the CPU. "
                "Use tf.device('/CPU:0'), or leave the device out."
            )

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


@contextmanager
def control_dependencies(control_inputs: Any) -> Iterator[None]:
    """Eager ops run in the order they are written: nothing is left to arrange."""
    for item in control_inputs or ():
        if callable(item):
            item()
    yield


@contextmanager
def init_scope() -> Iterator[None]:
    """Outside of every tape: nothing in the block is recorded."""
    with stack.only(()):
        yield


def executing_eagerly() -> bool:
    """Whether ops run as they are called."""
    return True


def no_automatic_dependency_tracking(method: Callable[..., Any]) -> Callable[..., Any]:
    """Accepted for TensorFlow's sake: attributes are never wrapped here."""
    return method
