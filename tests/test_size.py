"""No function is too long to be read at once: at most 40 lines without its docstring.

A longer one says why in a comment that names a benchmark.
"""

from __future__ import annotations

import ast
from pathlib import Path

import gradtape

PACKAGE = Path(gradtape.__file__).parent
LIMIT = 40


def long_functions() -> dict[str, int]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        lines = text.split("\n")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                body = node.body[1:] if ast.get_docstring(node) is not None else node.body
                length = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
                source = lines[node.lineno - 2 : node.end_lineno]
                if length > LIMIT and not any("benchmark" in line.partition("#")[2] for line in source):
                    found[f"{path.relative_to(PACKAGE).as_posix()}:{node.name}"] = length
    return found


def test_no_function_is_too_long():
    assert long_functions() == {}, "split them, or name the benchmark that forbids it in a comment"
