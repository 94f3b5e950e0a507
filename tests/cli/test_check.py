"""`gradtape check`: the names of TensorFlow that code uses, found in its text, and what gradtape says to each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import gradtape
from gradtape._src.cli import names
from gradtape._src.cli.check import check
from gradtape._src.cli.main import main
from gradtape._src.cli.names import MISSING, NOTE, SUPPORTED, Call, judge
from gradtape._src.cli.scan import read_notebook, read_source
from gradtape._src.reasons import RENAMED

SAMPLES = Path(__file__).parents[1] / "recorded" / "check"


def used(text: str) -> list[str]:
    uses, troubles = read_source(dedent(text))
    assert not troubles
    return [use.name for use in uses]


# -- names in a text ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import tensorflow as tf\ntf.abs(1)", ["tf.abs"]),
        ("import tensorflow\ntensorflow.nn.relu", ["tf.nn.relu"]),
        ("import tensorflow.math as m\nm.sin(1)", ["tf.math", "tf.math.sin"]),
        ("import tensorflow.math\ntensorflow.abs(1)", ["tf.math", "tf.abs"]),
        ("from tensorflow import GradientTape as T\nT()", ["tf.GradientTape", "tf.GradientTape"]),
        ("from tensorflow import keras\nkeras.layers.Dense(1)", ["tf.keras", "tf.keras.layers.Dense"]),
        ("from tensorflow.keras import layers as L\nL.Dense(1)", ["tf.keras.layers", "tf.keras.layers.Dense"]),
        ("from tensorflow.keras.layers import *", ["tf.keras.layers", "tf.keras.layers.*"]),
        ("import tensorflow.compat.v1 as tf\ntf.Session()", ["tf.compat.v1", "tf.compat.v1.Session"]),
        ("import importlib\ntf = importlib.import_module('tensorflow')\ntf.abs", ["tf.abs"]),
        ("tf = __import__('tensorflow')\ntf.abs", ["tf.abs"]),
        ("tf = pytest.importorskip('tensorflow')\ntf.abs", ["tf.abs"]),
        ("import tensorflow_probability as tfp\ntfp.anything", ["tensorflow_probability"]),
        ("from . import tensorflow\ntensorflow.x", []),
        ("from .tensorflow import x", []),
        ("import tensorflowish\ntensorflowish.x", []),
        ("tf.abs(1)", []),
        ("import gradtape as tf\ntf.abs(1)", []),
    ],
)
def test_every_form_of_import(text: str, expected: list[str]) -> None:
    assert used(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("layers = tf.keras.layers\nlayers.Dense", ["tf.keras.layers", "tf.keras.layers.Dense"]),
        ("K: object = tf.keras.backend\nK.mean", ["tf.keras.backend", "tf.keras.backend.mean"]),
        ("a, b = tf.nn, tf.math\na.relu\nb.sin", ["tf.nn", "tf.math", "tf.nn.relu", "tf.math.sin"]),
        ("if (n := tf.nn): n.relu", ["tf.nn", "tf.nn.relu"]),
        ("a = b = tf.nn\nb.relu", ["tf.nn", "tf.nn.relu"]),
        ("f = tf.abs\nf = f(x)\nf.numpy()", ["tf.abs", "tf.abs"]),
        ("x = tf.constant(1)\nx.shape", ["tf.constant"]),
        ("tf.constant(1).shape", ["tf.constant"]),
        ("a, *b = tf.nn, tf.abs\na.relu", ["tf.nn", "tf.abs"]),
        ("getattr(tf.nn, 'relu')(x)", ["tf.nn.relu"]),
        ("getattr(tf.nn, name)(x)", ["tf.nn", "tf.nn.*"]),
        ("tf.nn.relu = mine", []),
        ("for tf in range(3): tf.abs", []),
        ("with open(f) as tf: tf.read", []),
        ("[tf.x for tf in many]", []),
        ("[tf.abs(x) for x in many]", ["tf.abs"]),
        ("{tf.abs: tf.sin for x in tf.nn.many if tf.cos}", ["tf.nn.many", "tf.cos", "tf.abs", "tf.sin"]),
        ("lambda tf: tf.x", []),
        ("lambda x, f=tf.abs: tf.sin(f(x))", ["tf.abs", "tf.sin"]),
        ("tf.nn.relu(tf.abs(x), name=tf.y)", ["tf.nn.relu", "tf.abs", "tf.y"]),
    ],
)
def test_names_that_are_bound_again(text: str, expected: list[str]) -> None:
    assert used(f"import tensorflow as tf\n{text}") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(tf): return tf.x", []),
        ("def f(*tf, **kwargs): return tf.x", []),
        ("def f():\n tf = 1\n return tf.x", []),
        ("def f():\n for i, tf in many: tf.x", []),
        ("def f():\n global tf\n tf.abs", ["tf.abs"]),
        ("def f():\n import tensorflow.nn as tf\n tf.relu", ["tf.nn", "tf.nn.relu"]),
        ("def f(x: tf.Tensor = tf.e) -> tf.Shape: ...", ["tf.e", "tf.Shape", "tf.Tensor"]),
        ("async def f():\n async for x in y: tf.abs", ["tf.abs"]),
        ("def f(): return late.relu\nlate = tf.nn", ["tf.nn", "tf.nn.relu"]),
        ("def f():\n def g(): return late.relu\n late = tf.nn", ["tf.nn", "tf.nn.relu"]),
        (
            "class C(tf.Module):\n n = tf.nn\n r = n.relu\n def f(self): return n.x",
            ["tf.Module", "tf.nn", "tf.nn.relu"],
        ),
        ("@tf.function\ndef f(): ...", ["tf.function"]),
        ("@tf.function(jit_compile=True)\nclass C: ...", ["tf.function"]),
        ("try:\n import tensorflow.nn as n\nexcept ImportError:\n n = None\nn.relu", ["tf.nn", "tf.nn.relu"]),
        ("try: ...\nexcept tf.errors.NotFoundError as tf: tf.x", ["tf.errors.NotFoundError"]),
        ("if a:\n n = tf.nn\nelse:\n n = tf.math\nn.x", ["tf.nn", "tf.math", "tf.math.x"]),
        ("match x:\n case [tf, *rest]: tf.x", ["tf.x"]),  # bound by a pattern: not followed, and harmless
    ],
)
def test_scopes_are_pythons(text: str, expected: list[str]) -> None:
    assert used(f"import tensorflow as tf\n{text}") == expected


def test_calls_are_noted_with_their_arguments() -> None:
    uses, _ = read_source("import tensorflow as tf\ntf.a(1, 2, x=3)\ntf.b(*c)\ntf.d(**e)\ntf.f")
    assert [(use.line, use.call) for use in uses] == [
        (2, Call(2, ("x",))),
        (3, Call(None, ())),
        (4, Call(0, ())),
        (5, None),
    ]


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("x = = 1", "syntax error"),
        (b"\xff\xfe = 1", "syntax error"),
        (b"x = 1\0", ""),
        ("print 'python 2'", "syntax error"),
        ("x = 1" + " + 1" * 50_000, "nested too deeply"),
    ],
)
def test_what_cannot_be_read_is_said(source: str | bytes, why: str) -> None:
    uses, (trouble,) = read_source(source)
    assert uses == []
    assert trouble.why.startswith(why)


def test_an_encoding_cookie_is_followed() -> None:
    text = "# coding: latin-1\nimport tensorflow as tf\ntf.é".encode("latin-1")
    assert [use.name for use in read_source(text)[0]] == ["tf.é"]


# -- notebooks ---------------------------------------------------------------------------------------------------------
def notebook(*cells: str) -> str:
    code = [{"cell_type": "code", "source": cell.splitlines(True)} for cell in cells]
    return json.dumps({"cells": [{"cell_type": "markdown", "source": "tf.text"}, *code]})


def test_cells_are_one_program_without_magics() -> None:
    uses, troubles = read_notebook((SAMPLES / "dream.ipynb").read_bytes())
    assert troubles == []
    assert [(use.name, use.cell, use.line) for use in uses] == [
        ("tf.keras.layers", 2, 2),
        ("tf.constant", 2, 4),
        ("tf.keras.layers", 5, 1),
        ("tf.GradientTape", 4, 5),
        ("tf.reduce_mean", 4, 7),
        ("tf.keras.layers.Dense", 4, 7),
    ]


def test_a_broken_cell_does_not_hide_the_others() -> None:
    uses, troubles = read_notebook(notebook("import tensorflow as tf", "for for", "tf.abs(100\n  % 7)"))
    assert [(use.name, use.cell) for use in uses] == [("tf.abs", 3)]
    assert [(trouble.cell, trouble.line) for trouble in troubles] == [(2, 1)]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cells": 3}', "no json", b"\xff"])
def test_what_is_no_notebook_is_said(text: str | bytes) -> None:
    uses, (trouble,) = read_notebook(text)
    assert uses == []
    assert trouble.why.startswith("not a notebook")


# -- verdicts ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name",
    [
        "tf.abs",
        "tf.nn.relu",
        "tf.newaxis",
        "tf.float32.max",
        "tf.GradientTape.gradient",
        "tf.config",
        "tf.__version__",
        "tf.compat.v1",
        "tf.compat.v1.get_variable",
        "tf.UnconnectedGradients.ZERO",
        "tf.errors.InvalidArgumentError",
        "tf.train.Checkpoint.restore",
        "tf.train.experimental.PythonState",
        "tf.compat.v1.train.latest_checkpoint",
        "tf.compat.v1.train.AdamOptimizer",
        "tf.python.ops.math_ops.reduce_sum",
    ],
)
def test_supported(name: str) -> None:
    assert judge(name) == (SUPPORTED, "")


@pytest.mark.parametrize(
    ("name", "piece"),
    [
        ("tf.core.framework.graph_pb2", "private"),
        ("tf.reduce_maen", "did you mean tf.reduce_mean?"),
        ("tf.log", "here as tf.math.log"),
        ("tf.compat.v1.erfinv", "here as tf.math.erfinv"),
        ("tf.random_normal", "TensorFlow 1; since then tf.random.normal"),
        ("tf.get_variable", "available as tf.compat.v1.get_variable"),
        ("tf.placeholder", "available as tf.compat.v1.placeholder"),
        ("tf.contrib.layers.dense", "it was removed in TensorFlow 2"),
        ("tf.queue.FIFOQueue", "queue.Queue"),
        ("tf.train.Saver", "TensorFlow 1; since then tf.train.Checkpoint"),
        ("tf.train.AdamOptimizer", "tf.compat.v1.train has it"),
        ("tf.train.exponential_decay", "tf.compat.v1.train has it"),
        ("tf.train.get_or_create_global_step", "available as tf.compat.v1.train.get_or_create_global_step"),
        ("tf.compat.v1.train.MonitoredSession", "managed sessions and queues"),
        ("tf.data.Datset", "did you mean tf.data.Dataset?"),
        ("tf.data.batching", "not in gradtape"),
        ("tf.train.CheckpointView", "list_variables"),
        ("tf.train.Checkpiont", "did you mean tf.train.Checkpoint?"),
        ("tf.train.manager", "not in gradtape"),
        ("tf.engine", "not in gradtape"),
        ("tf.math.np", "not in gradtape"),
        ("tf.nothing_like_this", "not in gradtape"),
        ("tf.nn.relu.nothing", "not in gradtape"),
    ],
)
def test_missing(name: str, piece: str) -> None:
    status, why = judge(name)
    assert status == MISSING
    assert piece in why


@pytest.mark.parametrize(
    ("name", "call", "note"),
    [
        ("tf.reduce_mean", Call(1, ("axis", "keepdims")), ""),
        ("tf.reduce_mean", Call(1, ("keep_dims",)), "no argument 'keep_dims' here"),
        ("tf.reduce_mean", Call(1, ("a", "b")), "no argument 'a' or 'b' here"),
        ("tf.reduce_mean", Call(9, ()), "takes 4 positional arguments here, not 9"),
        ("tf.reduce_mean", Call(None, ()), ""),
        ("tf.GradientTape", Call(0, ("persistent",)), ""),
        ("tf.GradientTape", Call(0, ("persistant",)), "no argument 'persistant' here"),
        ("tf.print", Call(5, ("sep",)), ""),
        ("tf.float32", Call(1, ()), ""),
        ("tf.train.CheckpointManager", Call(2, ("max_to_keep",)), ""),
        ("tf.train.CheckpointManager", Call(2, ("keep",)), "no argument 'keep' here"),
        ("tf.device", None, "a GPU needs the extra gradtape[xla]"),
    ],
)
def test_notes(name: str, call: Call | None, note: str) -> None:
    assert judge(name, call) == (NOTE if note else SUPPORTED, note)


def test_keras_that_is_not_installed_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(parent: Any, name: str) -> Any:
        raise ModuleNotFoundError("No module named 'keras'", name="keras")

    monkeypatch.setattr(names, "_child", missing)
    names._find.cache_clear()
    try:
        assert judge("tf.keras.layers.Dense") == (NOTE, "needs Keras 3: pip install 'gradtape[keras]'")
    finally:
        names._find.cache_clear()


@pytest.mark.parametrize("name", ["tf._src", "tf._src.core", "tf.testing", "tf.math.np", "tf.train.checkpoint"])
def test_modules_of_gradtape_are_not_names_of_tensorflow(name: str) -> None:
    assert judge(name).status == MISSING


def test_new_names_exist() -> None:
    for new in RENAMED.values():
        if new.startswith("tf."):
            assert judge(new).status == SUPPORTED, new


# -- a code base -------------------------------------------------------------------------------------------------------
def test_a_folder_of_real_code() -> None:
    report = check([str(SAMPLES)])
    assert report.files == 4
    assert report.unreadable == []
    found = {entry.name: entry for entry in report.entries if entry.status != SUPPORTED}
    assert found["tf.reduce_mean"].why == "no argument 'keep_dims' here"
    assert found["tf.math.*"].status == found["tensorflow_datasets"].status == NOTE
    assert found["tf.reduce_maen"].status == MISSING
    assert "tf.compat.v1.Session" not in found
    assert not any("not_tensorflow" in entry.name for entry in report.entries)
    total = len({entry.name for entry in report.entries})
    assert report.count(SUPPORTED) + report.count(NOTE) + report.count(MISSING) == total
    line = next(i for i, text in enumerate((SAMPLES / "train_vae.py").read_text().splitlines(), 1) if "maen" in text)
    (place,) = found["tf.reduce_maen"].places
    assert (place.file, place.line) == (str(SAMPLES / "train_vae.py"), line)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    for name in (".venv/lib", "env/lib", "__pycache__", "node_modules", ".git", "sub"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "a.py").write_text(
            f"import tensorflow as tf\ntf.missing_in_{name.strip('._').partition('/')[0]}"
        )
    (tmp_path / "env" / "pyvenv.cfg").touch()
    (tmp_path / "good.py").write_text("import tensorflow as tf\ntf.abs(1)\ntf.abs(2)\n")
    (tmp_path / "bad.py").write_text("x = = 1")
    return tmp_path


def test_environments_and_hidden_folders_are_left_out(project: Path) -> None:
    report = check(["."])
    assert report.files == 3
    assert [entry.name for entry in report.entries] == ["tf.abs", "tf.missing_in_sub"]


def test_the_table_and_the_exit_code(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "."]) == 1
    out = capsys.readouterr().out
    assert out == dedent(f"""\
        supported (1)
          tf.abs  good.py:2 +1

        missing (1)
          tf.missing_in_sub  {os.path.join("sub", "a.py")}:2  not in gradtape

        not readable (1)
          bad.py:1  syntax error: invalid syntax

        2 tensorflow names in 3 files: 1 supported, 0 with a note, 1 missing, 1 not readable.
        """)

    assert main(["check", "good.py", "bad.py"]) == 0
    assert main(["check", ".", "--only", "missing"]) == 1
    assert "supported (" not in capsys.readouterr().out.rpartition("not readable")[0].rpartition("supported,")[2]


def test_every_place(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "good.py", "--places"]) == 0
    assert "  tf.abs  good.py:2\n          good.py:3\n" in capsys.readouterr().out


def test_json(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", ".", "--json", "--only", "supported"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["gradtape"] == gradtape.__version__
    assert found["counts"] == {"supported": 1, "note": 0, "missing": 1}
    assert found["names"] == [
        {
            "name": "tf.abs",
            "status": "supported",
            "why": "",
            "places": [{"file": "good.py", "line": n, "cell": None} for n in (2, 3)],
        }
    ]
    assert found["unreadable"] == [{"file": "bad.py", "line": 1, "cell": None, "why": "syntax error: invalid syntax"}]


@pytest.mark.parametrize("width", [60, 80, 140])
def test_the_table_fits(width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.chdir(SAMPLES.parent)
    assert main(["check", "check"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    assert not any(line.endswith(" ") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "arguments are required: PATH"),
        (["nowhere"], "no such file or directory: 'nowhere'"),
        ([".", "--only", "most"], "invalid choice: 'most'"),
        ([".", "--fast"], "unrecognized arguments: --fast"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--help"]) == 0
    assert "gradtape check . --only missing" in capsys.readouterr().out
    assert main(["help", "check"]) == 0
    assert "gradtape check . --only missing" in capsys.readouterr().out


def test_the_code_is_not_run(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "trap.py").write_text("import tensorflow as tf\nraise SystemExit('it ran')\n")
    before = set(sys.modules)
    assert main(["check", "trap.py"]) == 0
    assert "trap" not in set(sys.modules) - before
    assert "tensorflow" not in set(sys.modules) - before


def test_a_reader_that_leaves_early(project: Path) -> None:
    (project / "long.py").write_text(
        "import tensorflow as tf\n" + "\n".join(f"tf.x{i}" for i in range(2_000))
    )  # more than a pipe holds
    command = [sys.executable, "-m", "gradtape", "check", "long.py"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) == 141
