"""The docstrings of primitives that are TensorFlow functions: what their declarations say, with an example that runs.

Their calls are built by the core. The examples are tests through `__test__`.
"""

from __future__ import annotations

from gradtape._src.core.primitive import Op, registry

__test__: dict[str, str] = {}


def docstring_of(op: Op) -> str:
    """The sentence of a declaration, and its example."""
    if op.example is None:
        return f"{op.doc}\n"
    expression, value = op.example
    array = f"{expression}.numpy()"
    shown = array if value.strip("[ ")[:1] in ("T", "F") else f"{array}.round(4)"
    return f"{op.doc}\n\n>>> import gradtape as tf\n>>> print({shown})\n{value}\n"


def document() -> None:
    """Give the call of every primitive its docstring."""
    for op in registry.values():
        if op.call.__name__ == op.name:  # a primitive without a call of its own has another function for it
            op.call.__doc__ = docstring_of(op)
            if op.example is not None:
                __test__[op.name] = op.call.__doc__


document()
