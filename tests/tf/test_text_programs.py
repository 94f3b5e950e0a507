"""Programs on text in the style of TensorFlow's pages: what they compute without random numbers is TensorFlow's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gradtape as tf

pytest.importorskip("keras")

from text_programs import PROGRAMS

RECORDED = json.loads((Path(__file__).parents[1] / "recorded" / "text_programs.json").read_text("utf-8"))


@pytest.mark.filterwarnings("ignore::UserWarning")  # Keras' own, on TensorFlow too
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    tf.keras.utils.set_random_seed(0)
    facts, losses = PROGRAMS[name](tf)
    assert json.loads(json.dumps(facts)) == RECORDED[name]["facts"]
    assert losses[-1] < 0.7 * losses[0]
