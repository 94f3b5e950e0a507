"""Two processes on the loopback address: what `worker_programs.py` has, each in both of them."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from distribute import worker_programs

pytest.importorskip("jax")


@cache
def results():
    command = [sys.executable, "-m", "gradtape", "launch", "--nproc", "2", str(Path(worker_programs.__file__))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = [line.partition("] ")[2].split(" ", 2) for line in done.stdout.splitlines()]
    return [line for line in lines if line[0] in ("passed", "failed")]


@pytest.mark.parametrize("name", [program.__name__ for program in worker_programs.PROGRAMS])
def test_program_in_two_processes(name):
    found = [line for line in results() if line[1] == name]
    assert len(found) == 2
    for line in found:
        assert line[0] == "passed", line[-1].encode().decode("unicode_escape")
