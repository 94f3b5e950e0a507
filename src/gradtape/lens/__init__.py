"""Views of a tape: they read its records, and a plain tape pays nothing for them.

Each view is a method of `GradientTape`, attached here and loaded when it is first called.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from gradtape.autodiff.gradient_tape import GradientTape

VIEWS: dict[str, str] = {}
"""The method's name -> the module in this room that has a function `<name>(tape, ...)`."""


def attach() -> None:
    """Give `GradientTape` its views."""
    for name, module in VIEWS.items():
        setattr(GradientTape, name, _view(name, module))


def _view(name: str, module: str) -> Callable[..., Any]:
    def method(self: GradientTape, *args: Any, **kwargs: Any) -> Any:
        function = getattr(import_module(f"gradtape.lens.{module}"), name)
        return function(self, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"See `gradtape.lens.{module}.{name}`."
    return method
