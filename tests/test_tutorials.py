"""The notebooks of docs/tutorials run from top to bottom, each in a process of its own: some configure devices."""

from __future__ import annotations

import ast
import importlib.util
import json
import linecache
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "tutorials"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SLOW = {"gan"}
# What a notebook uses, and may not be installed.
NEEDS = {"distributed": "jax", "gan": "keras", "quantum": "tensorcircuit"}

_INSTALL = re.compile(r"^(\s*)%pip install -q (.+)$", re.MULTILINE)


def cells(notebook: Path, kind: str) -> list[str]:
    """The sources of the cells of a kind."""
    found = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == kind]


def code(notebook: Path) -> list[str]:
    """The code of a notebook as Python: nothing is installed."""
    return [_INSTALL.sub(r"\1raise ImportError('''install \2''')", source) for source in cells(notebook, "code")]


def run(notebook: Path) -> None:
    """Run the cells of a notebook."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, source in enumerate(code(notebook)):
        file = f"<{notebook.name} [{number}]>"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)  # for AutoGraph and explain
        exec(compile(source, file, "exec"), names)


@pytest.mark.parametrize(
    "notebook",
    [pytest.param(p, id=p.stem, marks=[pytest.mark.slow] if p.stem in SLOW else []) for p in NOTEBOOKS],
)
def test_notebook(notebook: Path, tmp_path: Path):
    for module in ("matplotlib", NEEDS.get(notebook.stem, "numpy")):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    command = [sys.executable, __file__, str(notebook)]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "MPLBACKEND": "agg"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("notebook", [pytest.param(p, id=p.stem) for p in NOTEBOOKS])
def test_notebooks_check_what_they_say_and_have_no_outputs(notebook: Path):
    source = "\n".join(code(notebook))
    assert any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(source)))
    text = notebook.read_text(encoding="utf-8")
    assert json.loads(text)["nbformat"] == 4
    assert [cell for cell in json.loads(text)["cells"] if cell.get("outputs") or cell.get("execution_count")] == []
    assert cells(notebook, "markdown")[0].startswith("# ")


@pytest.mark.parametrize("notebook", [pytest.param(p, id=p.stem) for p in NOTEBOOKS])
def test_notebooks_install_extras_that_exist(notebook: Path):
    (installed,) = [match[2] for source in cells(notebook, "code") for match in _INSTALL.finditer(source)]
    (extra,) = re.findall(r'"gradtape\[(\w+)\]"', installed)
    assert re.search(rf"^{extra} = \[", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("notebook", [pytest.param(p, id=p.stem) for p in NOTEBOOKS])
def test_links_lead_somewhere(notebook: Path):
    text = "\n".join(cells(notebook, "markdown"))
    links = re.findall(r"\]\(([^)#\s]+)", text)
    files = re.findall(r"`(examples/[^`]+)`", text)
    assert [link for link in links if "://" not in link and not (FOLDER / link).exists()] == []
    assert [file for file in files if not (ROOT / file).exists()] == []


def test_the_index_lists_every_notebook():
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    assert [p.name for p in NOTEBOOKS if f"]({p.name})" not in index] == []


if __name__ == "__main__":
    run(Path(sys.argv[1]))
