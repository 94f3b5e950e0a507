"""Write what one op call, one gradient, one Jacobian and one compiled call cross into docs/design/core.md.

python tools/functions_crossed.py
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # the same calls on every machine: with more threads BLAS is told how many
os.environ["GRADTAPE_JIT"] = "numpy"  # and however busy it is: nothing is measured to choose between NumPy and XLA

import gradtape as tf

PACKAGE = Path(tf.__file__).parent / "_src"

Function = tuple[str, str]
"""A module, named without `gradtape._src.`, and the qualified name of a function in it."""


def calls_of(run: Callable[[], Any]) -> list[tuple[Function, Function | None]]:
    """Every call of a function of gradtape while something runs, and the function of gradtape that called it."""
    found: list[tuple[Function, Function | None]] = []
    stack: list[Function | None] = [None]

    def profile(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            function = _function(frame.f_code)
            if function is not None:
                found.append((function, next((f for f in reversed(stack) if f is not None), None)))
            stack.append(function)
        elif event == "return" and len(stack) > 1:
            stack.pop()

    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


def _function(code: Any) -> Function | None:
    """The function of a code object; comprehensions belong to the function around them."""
    name = code.co_qualname.replace("<locals>.", "")
    if code.co_filename.startswith("<rule of "):
        return "core.fast", f"{code.co_filename[1:-1]}, compiled"
    if not code.co_filename.startswith(str(PACKAGE)) or name.endswith(("comp>", "<genexpr>")):
        return None
    module = ".".join(Path(code.co_filename).relative_to(PACKAGE).with_suffix("").parts)
    return module.removesuffix(".__init__"), name


def crossings() -> dict[str, list[tuple[Function, Function | None]]]:
    """What runs -> its calls, once everything that is made at first use exists."""
    x, w = tf.ones([4, 4]), tf.Variable(tf.ones([4, 4]))
    compiled = tf.function(lambda x: tf.tanh(x @ w))

    def recorded() -> tuple[tf.GradientTape, Any]:
        with tf.GradientTape() as tape:
            y = tf.tanh(w @ x)
        return tape, y

    for _ in range(3):
        tape, y = recorded()
        gradient = calls_of(lambda: tape.gradient(y, [w]))  # noqa: B023 - it runs here
        tape, y = recorded()
        jacobian = calls_of(lambda: tape.jacobian(y, w))  # noqa: B023
        call = calls_of(lambda: compiled(x))
        with tf.GradientTape() as around:
            around.watch(x)
            op = calls_of(lambda: tf.tanh(x))
    return {"op": op, "gradient": gradient, "jacobian": jacobian, "compiled call": call}


def listing(calls: list[tuple[Function, Function | None]]) -> str:
    """The functions in the order of their first call, by module."""
    lines: list[tuple[str, list[str]]] = []
    for module, name in dict.fromkeys(function for function, _ in calls):
        if not lines or lines[-1][0] != module:
            lines.append((module, []))
        lines[-1][1].append(name)
    return "\n".join(f"{module:<24}{', '.join(names)}" for module, names in lines)


PAGE = Path(__file__).parents[1] / "docs" / "design" / "core.md"
_SECTION = re.compile(r"(<!-- crossed: (.*?) -->\n).*?(<!-- end -->)", re.S)


def page(text: str, found: dict[str, list[tuple[Function, Function | None]]]) -> str:
    """The page with these calls."""

    def section(match: re.Match[str]) -> str:
        calls = found[match.group(2)]
        count = f"{len(calls)} calls of {len({function for function, _ in calls})} functions"
        return f"{match.group(1)}{count}:\n\n```text\n{listing(calls)}\n```\n{match.group(3)}"

    return _SECTION.sub(section, text)


if __name__ == "__main__":
    found = crossings()
    text = PAGE.read_text("utf-8")
    if sys.argv[1:] == ["--check"]:
        print(json.dumps({"calls": found, "is current": page(text, found) == text}))
    else:
        PAGE.write_text(page(text, found), "utf-8")
