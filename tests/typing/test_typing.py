"""Type checkers over programs that users write: mypy, strict, and pyright accept them, and flag mistakes."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import gradtape

HERE = Path(__file__).parent
PROGRAMS = sorted((HERE / "programs").glob("*.py"))
FLAGGED = HERE / "flagged.py"
SOURCE = Path(gradtape.__file__).parents[1]
CHECKERS = ["mypy", "pyright"]
CACHE = HERE.parents[1] / ".mypy_cache" / "programs"


def needs(*packages: str) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")


def run_mypy(*paths: Path, cwd: Path) -> set[tuple[str, int]]:
    """The lines with errors, as mypy reports them: (name of the file, line)."""
    options = ["--strict", "--follow-imports=silent", "--config-file=", f"--cache-dir={CACHE}"]
    environment = {**os.environ, "MYPYPATH": str(SOURCE)}
    command = [sys.executable, "-m", "mypy", *options, *map(str, paths)]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = re.findall(r"^(.+?):(\d+): error: ", done.stdout, re.MULTILINE)
    return {(Path(name).name, int(line)) for name, line in found}


def run_pyright(*paths: Path, cwd: Path) -> set[tuple[str, int]]:
    """The same, as pyright does: basedpyright is pyright with its JavaScript in the wheel, so that it works offline."""
    config = {
        "include": [str(path) for path in paths],
        "extraPaths": [str(SOURCE)],
        "typeCheckingMode": "standard",
        "reportUnusedExpression": False,  # what is flagged is written as a statement
    }
    (cwd / "pyrightconfig.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(cwd)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=500)
    errors = [d for d in json.loads(done.stdout)["generalDiagnostics"] if d["severity"] == "error"]
    return {(Path(d["file"]).name, d["range"]["start"]["line"] + 1) for d in errors}


RUN = {"mypy": run_mypy, "pyright": run_pyright}


@functools.cache
def reports(checker: str, cwd: Path) -> set[tuple[str, int]]:
    """What a checker says of all programs, in one run: most of its time goes into reading gradtape."""
    return RUN[checker](*PROGRAMS, FLAGGED, cwd=cwd)


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory):
    needs("mypy", "basedpyright", "keras", "jax")
    return functools.partial(reports, cwd=tmp_path_factory.mktemp("checked"))


@pytest.mark.parametrize("checker", CHECKERS)
def test_programs_are_clean(checker, reported):
    assert {place for place in reported(checker) if place[0] != FLAGGED.name} == set()


@pytest.mark.parametrize("checker", CHECKERS)
def test_mistakes_are_flagged(checker, reported):
    """A misspelled name or a wrong argument is an error on its line, and nothing else is."""
    lines = FLAGGED.read_text(encoding="utf-8").splitlines()
    wanted = {number for number, line in enumerate(lines, 1) if "  # error: " in line}
    got = {line for name, line in reported(checker) if name == FLAGGED.name}
    assert [lines[n - 1] for n in sorted(wanted ^ got)] == []


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_programs_run(path, tmp_path, monkeypatch):
    needs("jax", *(["keras"] if "keras" in path.stem else []))
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")


def test_the_package_is_typed():
    assert (Path(gradtape.__file__).parent / "py.typed").exists()
