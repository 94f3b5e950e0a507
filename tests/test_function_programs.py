"""Programs with tf.function give what they give in TensorFlow: see tf_cases/functions.py."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest
from tf_cases.functions import answer, programs

import gradtape as tf
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
def without_compiling(monkeypatch):
    """Let programs run on NumPy, node by node: what matters here is what they are, and XLA would take the time."""

    def call(self: Program, *arrays: Any, mode: str = "") -> Any:
        results = self._on_numpy(arrays)
        return (*results, np.int32(0)) if mode else results

    def launch(self: Program, given: Any, passed: Any, results: list[Any], mode: str = "") -> list[Any]:
        arrays = self.arrays(given, passed)
        results.append(call(self, *arrays, mode=mode))
        return arrays

    def batched(self: Program, flags: tuple[bool, ...], mode: str = "") -> Any:
        def rows(*arrays: Any) -> Any:
            results = self._rows_on_numpy(flags, arrays)
            return (*results, np.zeros(1, np.int32)) if mode else results

        return rows

    for name, method in (("__call__", call), ("launch", launch), ("batched", batched)):
        monkeypatch.setattr(Program, name, method)


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
