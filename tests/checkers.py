"""Type checkers, run over files: the lines that they flag."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import gradtape

SOURCE = Path(gradtape.__file__).parents[1]
CACHE = Path(__file__).parents[1] / ".mypy_cache" / "programs"

Flagged = set[tuple[str, int]]
"""Names of files, and lines."""


def run_mypy(*paths: Path, cwd: Path, stubs: Path | None = None) -> Flagged:
    """The lines with errors, as mypy reports them in strict mode."""
    options = ["--strict", "--follow-imports=silent", "--config-file=", f"--cache-dir={CACHE}"]
    environment = {**os.environ, "MYPYPATH": os.pathsep.join(map(str, [stubs, SOURCE] if stubs else [SOURCE]))}
    command = [sys.executable, "-m", "mypy", *options, *map(str, paths)]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = re.findall(r"^(.+?):(\d+): error: ", done.stdout, re.MULTILINE)
    return {(Path(name).name, int(line)) for name, line in found}


def run_pyright(*paths: Path, cwd: Path, stubs: Path | None = None) -> Flagged:
    """The same, as pyright does: basedpyright is pyright with its JavaScript in the wheel, so that it works offline."""
    config = {
        "include": [str(path) for path in paths],
        "extraPaths": [str(SOURCE)],
        "typeCheckingMode": "standard",
        "reportUnusedExpression": False,  # what is flagged is written as a statement
        **({"stubPath": str(stubs)} if stubs else {}),
    }
    (cwd / "pyrightconfig.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(cwd)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=500)
    errors = [d for d in json.loads(done.stdout)["generalDiagnostics"] if d["severity"] == "error"]
    return {(Path(d["file"]).name, d["range"]["start"]["line"] + 1) for d in errors}


CHECKERS = {"mypy": run_mypy, "pyright": run_pyright}


def marked(path: Path) -> Flagged:
    """The lines of a file that are to be flagged: those with a comment that begins with `error: `."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {(path.name, number) for number, line in enumerate(lines, 1) if "  # error: " in line}
