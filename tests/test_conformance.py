"""Programs that TensorFlow 2.21 has run: gradtape must give what was recorded then, each program a test of its own."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conformance import runner

import gradtape as tf

AREAS = (
    "tape_basics",
    "tape_control",
    "higher_order",
    "jacobian",
    "variable",
    "tensor",
    "custom",
    "sparse_slices",
    "math_grads",
    "array_grads",
    "linalg_grads",
    "nn_grads",
    "forward",
    "misc",
    "strings",
    "lookup",
    "numpy_api",
    "gfile",
    "compat_v1",
    "compat_more",
    "graphs",
    "summary",
    "testcase",
    "ragged",
    "sparse",
    "raw_ops",
    "feature_columns",
)

GOLDEN = {area: runner.load_golden(area) for area in AREAS}


@pytest.mark.parametrize(("area", "name"), [(area, name) for area in AREAS for name in runner.load_cases(area)])
def test_program(area, name):
    program = runner.load_cases(area)[name]
    with np.errstate(all="ignore"):
        difference = runner.diff(GOLDEN[area][name], runner.run(program, tf))
    assert difference is None, difference


ON_FOUR_CPUS = ("distribute", "dtensor")
"""Areas whose programs divide the processor into four devices, before anything else: each has a process of its own."""


@pytest.mark.parametrize("area", ON_FOUR_CPUS)
def test_programs_on_four_cpus(area):
    # Functions run as they are traced, on NumPy: the programs are many and small, and XLA would compile all of them.
    code = (
        "import json, warnings, gradtape as tf; from conformance import runner; warnings.simplefilter('ignore'); "
        f"tf.config.optimizer.set_jit(False); print(json.dumps(runner.problems({area!r}, tf)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert set(found) == set(runner.load_cases(area))
    assert {name: problem for name, problem in found.items() if problem is not None} == {}


@pytest.mark.parametrize("area", runner.AREAS)
def test_every_program_has_a_recorded_result(area):
    assert set(runner.load_cases(area)) == set(runner.load_golden(area))


# -- the comparison itself must be able to say no ----------------------------------------------------------------------
def test_every_recorded_result_is_equal_to_itself():
    for area in AREAS:
        for name, golden in GOLDEN[area].items():
            assert runner.diff(golden, copy.deepcopy(golden)) is None, (area, name)


def encoded(x):
    return runner.encode(x, tf)


@pytest.mark.parametrize(
    ("recorded", "fresh", "words"),
    [
        (tf.constant([1.0, 2.0]), tf.constant([1.0, 2.0002]), r"result\[1\]: 2.0002, expected 2.0 \(1 of 2 differ\)"),
        (tf.constant([1.0, 2.0]), tf.constant([[1.0, 2.0]]), r"shape \[1, 2\], expected \[2\]"),
        (tf.constant(1.0), tf.constant(1.0, tf.float64), "dtype float64, expected float32"),
        (tf.constant(1.0), tf.Variable(1.0), "variable .*, expected tensor"),
        (tf.constant(1.0), None, "none, expected tensor"),
        (tf.constant(float("nan")), tf.constant(1.0), "1.0, expected nan"),
        (tf.constant(float("inf")), tf.constant(float("-inf")), "-inf, expected inf"),
        (tf.constant(1 + 2j), tf.constant(1 + 2.1j), "expected"),
        ([1, 2], (1, 2), "tuple, expected list"),
        ([1, 2], [1], "1 elements, expected 2"),
        ({"a": 1}, {"b": 1}, "keys"),
        (1, 2, "2, expected 1"),
        (1.0, 1.01, "1.01, expected 1.0"),
        ("a", "b", "'b', expected 'a'"),
        (tf.float32, tf.float64, "'float64', expected 'float32'"),
        (runner.raises(lambda: 1), runner.raises(lambda: 1 / 0), "ZeroDivisionError .*, expected no exception"),
        (runner.raises(lambda: [][0]), runner.raises(lambda: 1 / 0), "ZeroDivisionError .*, expected IndexError"),
        (
            tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([0]), tf.constant([2, 1])),
            tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([1]), tf.constant([2, 1])),
            "indices",
        ),
        (runner.tol(tf.constant(1.0), rtol=0.1), tf.constant(1.2), "1.2.*, expected 1.0"),
    ],
)
def test_the_comparison_finds_differences(recorded, fresh, words):
    difference = runner.diff(encoded(recorded), encoded(fresh))
    assert difference is not None
    assert re.search(words, difference), difference


def test_the_comparison_is_lenient_where_it_says_so():
    assert runner.diff(encoded(runner.tol(tf.constant(1.0), rtol=0.1)), encoded(tf.constant(1.05))) is None
    slices = tf.IndexedSlices(tf.constant([[1.0], [2.0]]), tf.constant([0, 0]), tf.constant([2, 1]))
    assert runner.diff(encoded(runner.dense(slices)), encoded(tf.constant([[3.0], [0.0]]))) is None
    arithmetic = runner.raises(lambda: 1 / 0, "IndexError")
    assert runner.diff(encoded(arithmetic), encoded(runner.raises(lambda: [][0]))) is None
