"""Wrong arguments: TensorFlow's class of error, a sentence of our own library, and nothing changed behind it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tf_cases import conversions

import gradtape as tf

DATA = Path(__file__).parent / "data"


# -- values that become tensors --------------------------------------------------------------------------------------
def _recorded(name):
    stored = json.loads((DATA / f"{name}_tensorflow.json").read_text())
    return stored["outcomes"], stored["rows"]


OUTCOMES, ROWS = _recorded("conversions")

CONVERSIONS_THAT_DIFFER = {
    # A class: TensorFlow fails on NumPy's unbound __array__ (TypeError); here it is an unsupported value like others.
    "np.float32": "ValueError",
}


def _differs_on_purpose(form, dtype, value, expected, found):
    if value in CONVERSIONS_THAT_DIFFER:
        return found == CONVERSIONS_THAT_DIFFER[value]
    if value.startswith("range("):  # TensorFlow runs the op Range, which has kernels for few dtypes
        return form in ("convert", "hint", "variable")
    if dtype == "tf.uint64":  # what does not fit: TensorFlow raises SystemError, or makes 2**64 - 1 of it
        strange = expected == "SystemError" or "18446744073709551615" in expected
        return strange and (found in ("ValueError", "TypeError") or form == "hint")
    # Strings from a list with tensors: TensorFlow refuses to cast the tensor, here the plain member comes first.
    return dtype == "tf.string" and expected == "UnimplementedError" and "tf." in value


@pytest.mark.parametrize("key", ROWS)
def test_conversions(key):
    form, dtype = key.split(" ")
    expected = [OUTCOMES[int(n)] for n in ROWS[key].split(" ")]
    found = conversions.outcomes(tf, form, dtype)
    wrong = [
        f"{value}: TensorFlow {theirs}, here {ours}"
        for value, theirs, ours in zip(conversions.VALUES, expected, found, strict=True)
        if theirs != ours and not _differs_on_purpose(form, dtype, value, theirs, ours)
    ]
    assert not wrong, "\n".join(wrong)
