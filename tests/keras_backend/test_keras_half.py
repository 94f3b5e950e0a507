"""Keras in half precision gives what it gives with TensorFlow: see tf_cases/keras_half.py."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest
from tf_cases.keras_half import cases

import gradtape as tf

pytest.importorskip("gradtape.keras", exc_type=ImportError)
pytest.importorskip("jax")

RECORD = json.loads((pathlib.Path(__file__).parents[1] / "recorded" / "keras_half_tensorflow.json").read_text())
CASES = cases(tf, tf.keras)


def pairs(value):
    return [value] if isinstance(value[0], str) else value


@pytest.mark.parametrize("name", CASES)
def test_half_precision(name):
    """A few units in the last place of what is rounded in between, of numbers that are not small beside the others."""
    step = 2.0**-8 if "bfloat16" in name else 2.0**-11
    for (dtype, found), (expected_dtype, expected) in zip(pairs(CASES[name]()), pairs(RECORD[name]), strict=True):
        assert dtype == expected_dtype
        np.testing.assert_allclose(found, expected, rtol=4 * step, atol=4 * step * np.abs(expected).max() + 1e-7)


def test_the_record_is_complete():
    assert sorted(CASES) == sorted(RECORD)
