"""The notebooks of docs/tutorials run from top to bottom."""

from __future__ import annotations

import ast
import json
import linecache
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent / "docs" / "tutorials"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SLOW = {"gan"}


def cells(notebook: Path, kind: str) -> list[str]:
    """The sources of the cells of a kind."""
    found = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == kind]


@pytest.mark.parametrize(
    "notebook",
    [pytest.param(p, id=p.stem, marks=[pytest.mark.slow] if p.stem in SLOW else []) for p in NOTEBOOKS],
)
def test_notebook(notebook: Path):
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, source in enumerate(cells(notebook, "code")):
        file = f"<{notebook.name} [{number}]>"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)  # for AutoGraph and explain
        exec(compile(source, file, "exec"), names)


@pytest.mark.parametrize("notebook", [pytest.param(p, id=p.stem) for p in NOTEBOOKS])
def test_notebooks_check_what_they_say_and_have_no_outputs(notebook: Path):
    source = "\n".join(cells(notebook, "code"))
    assert any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(source)))
    text = notebook.read_text(encoding="utf-8")
    assert json.loads(text)["nbformat"] == 4
    assert [cell for cell in json.loads(text)["cells"] if cell.get("outputs") or cell.get("execution_count")] == []
    assert cells(notebook, "markdown")[0].startswith("# ")


def test_the_index_lists_every_notebook():
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    assert [p.name for p in NOTEBOOKS if f"]({p.name})" not in index] == []
