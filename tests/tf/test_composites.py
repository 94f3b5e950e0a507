"""Expressions with ragged and sparse tensors give what they give in TensorFlow: see tf_cases/composites.py."""

from __future__ import annotations

import json

import pytest
from tf_cases.composites import RECORD, answer, expressions

import gradtape as tf

RECORDED = json.loads(RECORD.read_text("utf-8"))


@pytest.mark.parametrize("expression", expressions())
def test_expression(expression):
    assert answer(tf, expression) == RECORDED[expression]
