"""Type checkers over programs that users write: mypy, strict, and pyright accept them, and flag mistakes."""

from __future__ import annotations

import importlib.util
import runpy
from pathlib import Path

import pytest
from checkers import CHECKERS, marked

import gradtape

HERE = Path(__file__).parent
PROGRAMS = sorted((HERE / "programs").glob("*.py"))
FLAGGED = HERE / "flagged.py"
README = HERE.parents[1] / "README.md"


def needs(*packages: str) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")


@pytest.mark.parametrize("checker", [pytest.param("mypy", marks=pytest.mark.slow), "pyright"])
def test_programs_are_clean_and_mistakes_are_flagged(checker, tmp_path):
    """A misspelled name or a wrong argument is an error on its line, and nothing else is."""
    needs("mypy", "basedpyright", "keras", "jax")
    first = tmp_path / "readme.py"
    first.write_text(README.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0], encoding="utf-8")
    assert sorted(CHECKERS[checker](first, *PROGRAMS, FLAGGED, cwd=tmp_path) ^ marked(FLAGGED)) == []


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_programs_run(path, tmp_path, monkeypatch):
    needs("jax", *(["keras"] if "keras" in path.stem else []))
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")


def test_the_package_is_typed():
    assert (Path(gradtape.__file__).parent / "py.typed").exists()
