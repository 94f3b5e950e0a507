"""Two processes on the loopback address: what `worker_programs.py` has, each in both of them."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import gradtape as tf
from distribute import worker_programs
from gradtape._src import processes
from gradtape._src.core import dispatch
from gradtape._src.core.primitive import registry

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


def test_an_op_names_a_process_that_is_lost(monkeypatch):
    """Of arrays over several processes; other errors of JAX stay what they are."""
    raised = ValueError("UNKNOWN: Gloo all-reduce failed: Connection closed by peer")
    arguments = (registry["sum"], (np.ones(2),), raised)
    assert isinstance(dispatch._explained(*arguments), tf.errors.InvalidArgumentError)
    monkeypatch.setattr(processes, "client", object)
    assert isinstance(dispatch._explained(*arguments), tf.errors.UnavailableError)
