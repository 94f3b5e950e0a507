"""Functions with replicas as one program on all devices."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from distribute import spmd_programs
from gradtape._src.graph.spmd import alike

pytest.importorskip("jax")


@cache
def results():
    path = Path(spmd_programs.__file__)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = [line.split(" ", 2) for line in done.stdout.splitlines()]
    return {line[1]: line for line in lines if line[0] in ("passed", "failed")}


@pytest.mark.parametrize("name", [program.__name__ for program in spmd_programs.PROGRAMS])
def test_program_on_four_devices(name):
    found = results()[name]
    assert found[0] == "passed", found[-1].encode().decode("unicode_escape")


def test_arguments_are_compared_by_value():
    def made(k):
        return lambda x: x + k

    assert alike({"a": (1, np.ones(2))}, {"a": (1, np.ones(2))})
    assert alike(made(1), made(1))
    assert not alike(made(1), made(2))
    assert not alike(np.ones(2), np.ones(2, np.float32))
    assert not alike((1,), [1])
