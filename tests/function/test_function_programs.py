"""Programs with tf.function give what they give in TensorFlow: see tf_cases/functions.py."""

from __future__ import annotations

import json
import pathlib

import pytest
from tf_cases.functions import answer, programs

import gradtape as tf
from gradtape._src.function import modes

RECORD = json.loads((pathlib.Path(__file__).parents[1] / "recorded" / "functions_tensorflow.json").read_text())
PROGRAMS = programs(tf)

DIFFERENT: dict[str, str] = {
    **dict.fromkeys(
        ("gv_gather", "gv_map", "gv_scan", "gv_split"),
        "TensorFlow has no Jacobian of a lookup in a variable that grows",
    ),
    **dict.fromkeys(
        ("gv_gradients", "gv_static_shape", "gv_traces", "cp_static", "cp_set_shape", "cp_assign_fixed"),
        "what depends on shapes that only a run tells is run eagerly, each time",
    ),
    "gv_control": "a TensorFlow function takes the size after the assignment for the one before it",
    "cp_forward": "TensorFlow loses the Python function",
    **dict.fromkeys(
        ("cp_out_list_for_none_nu_fn", "cp_out_list_for_none_py_fn"), "a function may return a call without results"
    ),
    **dict.fromkeys(
        ("tc_dict_fn", "tc_integer_eager", "tc_not_callable_eager"),
        "TensorFlow raises AttributeError while it writes the error's message",
    ),
    **dict.fromkeys(("tc_none_fn", "tc_structures_fn"), "branches of different structures are a TypeError"),
    "tc_switch_int64_fn": "any integer dtype chooses a branch",
    **dict.fromkeys(
        (
            *(f"sm_scatter_{how}_rows_wide" for how in ("add", "sub", "update", "mul", "div", "min", "max")),
            *(f"sm_scatter_{how}_rows_narrow" for how in ("add", "update")),
        ),
        "TensorFlow checks the width of updates in functions only",
    ),
    "sl_elements": "a function may enumerate a tensor",
    **dict.fromkeys(("mi_int64_fn",), "any integer dtype limits a loop"),
    "mi_text_eager": "text is no number of iterations",
    "sa_variables": "variables that change places are not traced again",
    "lf_shape": "the initial value is known while the function is traced",
    "pf_spec_wrong": "the shape that was announced is checked",
    "tg_cond": "a constant that is made inside of the function and used in a branch",
    "while_dyn": "a loop whose shapes depend on values runs eagerly, and may change them",
}
"""Program -> why it gives something else, on purpose: docs/differences.md says so to users."""


@pytest.fixture(autouse=True)
def without_compiling(monkeypatch):
    """Programs run on NumPy: what matters here is what they are, and XLA would take the time."""
    monkeypatch.setattr(modes, "_jit", ["numpy"])


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
