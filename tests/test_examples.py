"""The examples run as a user runs them, and do what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


RUN = ["-m", "gradtape", "run"]
# The same command in a Python where Matplotlib cannot be found.
RUN_WITHOUT_MATPLOTLIB = [
    "-c",
    "import importlib.util, sys\n"
    "find = importlib.util.find_spec\n"
    "importlib.util.find_spec = lambda name, package=None: None if name == 'matplotlib' else find(name, package)\n"
    "from gradtape.cli import main\n"
    "sys.exit(main(['run', *sys.argv[1:]]))\n",
]


def run_digits(directory: Path, command: list[str]) -> str:
    done = subprocess.run(
        [sys.executable, *command, str(EXAMPLES / "digits.py")],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def accuracy_in(output: str) -> float:
    found = re.search(r"Test accuracy: ([\d.]+) %", output)
    assert found is not None, output
    return float(found[1])


def test_digits_learns_to_read_and_draws_its_loss(tmp_path: Path) -> None:
    output = run_digits(tmp_path, RUN)

    assert accuracy_in(output) > 95
    assert "\r" not in output, "no bar where there is no terminal"
    assert (tmp_path / "digits_loss.png").read_bytes().startswith(b"\x89PNG")


def test_digits_without_matplotlib_says_so_and_draws_svg(tmp_path: Path) -> None:
    output = run_digits(tmp_path, RUN_WITHOUT_MATPLOTLIB)

    assert "Matplotlib is not installed" in output
    assert accuracy_in(output) > 95
    assert (tmp_path / "digits_loss.svg").read_text(encoding="utf-8").startswith("<svg")
    assert not (tmp_path / "digits_loss.png").exists()
