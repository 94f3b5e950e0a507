"""`gradtape stubs`: type checkers resolve `import tensorflow` to gradtape."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from checkers import CHECKERS, marked

from gradtape._src.cli import UsageError, stubs

PROGRAM = """
import tensorflow as tf
import tensorflow.compat.v1 as tf1
import tensorflow.keras as keras
from tensorflow import math, nn
from tensorflow.keras import layers
from tensorflow.keras.layers import Dense
from typing_extensions import assert_type

x = tf.constant([[1.0, 2.0]])
assert_type(tf.tanh(x), tf.Tensor)
assert_type(nn.relu(math.exp(x)), tf.Tensor)
print(tf.__version__, keras.Sequential([layers.Dense(2), Dense(1)]), tf1.placeholder)
for batch in tf.data.Dataset.from_tensor_slices(x).batch(2):
    print(batch)
tf.reduce_men(x)  # error: a misspelled function
tf.linalg.invv(x)  # error: a misspelled function of a namespace
layers.Dens(1)  # error: a misspelled layer
"""


@pytest.mark.parametrize(
    "checker", [pytest.param(c, marks=[pytest.mark.slow] if c == "mypy" else []) for c in CHECKERS]
)
def test_checkers_resolve_tensorflow(checker, tmp_path):
    for package in ("mypy", "basedpyright", "keras"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    assert stubs.main(["--to", str(tmp_path / "typings")]) == 0
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    flagged = CHECKERS[checker](program, cwd=tmp_path, stubs=tmp_path / "typings")
    assert sorted(flagged ^ marked(program)) == []


def test_every_public_module_has_a_stub(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert stubs.main([]) == 0
    assert "mypy_path = 'typings'" in capsys.readouterr().out
    written = {path.relative_to("typings/tensorflow").as_posix() for path in Path("typings").rglob("*.pyi")}
    assert written == set(stubs.texts())
    assert {"__init__.pyi", "nn.pyi", "data/__init__.pyi", "keras/layers.pyi", "compat/v1.pyi"} <= written
    assert stubs.main([]) == 0  # again: they are its own


def test_other_stubs_are_left_alone(tmp_path):
    other = tmp_path / "tensorflow" / "__init__.pyi"
    other.parent.mkdir()
    other.write_text("class Tensor: ...\n")
    with pytest.raises(UsageError, match="another tensorflow stub"):
        stubs.main(["--to", str(tmp_path)])
    assert other.read_text() == "class Tensor: ...\n"
