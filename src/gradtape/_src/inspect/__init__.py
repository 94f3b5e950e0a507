"""Views of a tape: they read its records, and a plain tape pays nothing for them.

Each view is a method of `GradientTape`, attached here and loaded when it is first called.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from gradtape._src.autodiff.gradient_tape import GradientTape
from gradtape._src.core.tape import Recorder
from gradtape._src.tensor import Tensor
from gradtape._src.variable import Variable

VIEWS: dict[str, str] = {
    "explain": "explain",
    "memory_report": "memory",
    "nan_origin": "numerics",
    "profile": "profile",
    "show": "picture",
    "summary": "summary",
    "to_dot": "picture",
    "to_mermaid": "picture",
    "to_svg": "picture",
}
"""The method's name -> the module of this package that has a function `<name>(tape, ...)`."""


def attach() -> None:
    """Give `GradientTape` its views."""
    for name, module in VIEWS.items():
        setattr(GradientTape, name, _view(name, module))
    GradientTape._observers.append(_numerics)  # first: its witness notes lines as well
    GradientTape._observers.append(_lines)
    GradientTape._observers.append(_profile)
    GradientTape.nbytes = property(_view("nbytes", "memory"))  # type: ignore[attr-defined]
    for kind, name in ((GradientTape, "tape"), (Tensor, "tensor"), (Variable, "variable")):
        setattr(kind, "_repr_html_", _view(name, "html"))  # noqa: B010 - it is not declared there


def _numerics(tape: GradientTape, recording: Recorder) -> None:
    if "check_numerics" in tape.options:
        from gradtape._src.inspect.numerics import observe

        observe(tape, recording)


def _lines(tape: GradientTape, recording: Recorder) -> None:
    if "lines" in tape.options:
        from gradtape._src.inspect.events import observe

        observe(tape, recording)


def _profile(tape: GradientTape, recording: Recorder) -> None:
    if "profile" in tape.options:
        from gradtape._src.inspect.profile import observe

        observe(tape, recording)


def _view(name: str, module: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        function = getattr(import_module(f"gradtape._src.inspect.{module}"), name)
        return function(self, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"See `gradtape._src.inspect.{module}.{name}`."
    return method
