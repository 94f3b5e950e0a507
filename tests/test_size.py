"""No function is too long to be read at once: at most 40 lines without its docstring. No file has more than 900.

A longer function says why in a comment that names a benchmark.
"""

from __future__ import annotations

import ast
from pathlib import Path

import gradtape

PACKAGE = Path(gradtape.__file__).parent
LIMIT = 40
FILE_LIMIT = 900
LONG_FILES = {"_src/keras_backend/numpy.py"}  # Keras has these functions in one file too


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


def test_no_file_is_too_long():
    lines = {
        path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8").count("\n")
        for path in PACKAGE.rglob("*.py")
    }
    long = {name for name, count in lines.items() if count > FILE_LIMIT}
    assert long == LONG_FILES, "divide them along their concerns"
