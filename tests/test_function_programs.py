"""Programs with tf.function give what they give in TensorFlow: see tf_cases/functions.py."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest
from tf_cases.functions import answer, programs

import gradtape as tf
from gradtape.arrays import numpy_namespace
from gradtape.compile.program import Program

RECORD = json.loads((pathlib.Path(__file__).parent / "data" / "functions_tensorflow.json").read_text())
PROGRAMS = programs(tf)

DIFFERENT: dict[str, str] = {
    "lf_shape": "the initial value is known while the function is traced",
    "loop_ta": "a TensorArray that nothing was written to does not know the shape of its elements",
    "pf_count": "TensorFlow drops what was not announced",
    "pf_spec_wrong": "the shape that was announced is checked",
    "tg_cond": "a constant that is made inside of the function and used in a branch",
    "while_dyn": "a loop whose shapes depend on values runs eagerly, and may change them",
}
"""Program -> why it gives something else, on purpose: docs/differences.md says so to users."""


@pytest.fixture(autouse=True)
def few_compilations(monkeypatch):
    """Programs without control flow run node by node: XLA would take most of the time."""
    compiled = Program.__call__

    def run(self: Program, *arrays: Any) -> Any:
        if all(hasattr(numpy_namespace, node.name) for node in self.nodes):
            return self.replay(*map(np.asarray, arrays), xp=numpy_namespace)
        return compiled(self, *arrays)

    monkeypatch.setattr(Program, "__call__", run)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_program(name):
    found = json.loads(json.dumps(answer(PROGRAMS[name])))
    if name in DIFFERENT:
        assert found != RECORD[name]
    else:
        assert found == RECORD[name]


def test_the_record_is_complete():
    assert sorted(RECORD) == sorted(PROGRAMS)
    assert set(DIFFERENT) <= set(RECORD)
