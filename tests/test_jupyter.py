"""Notebooks: magics, what they show of objects, cells in the place of files, and progress."""

from __future__ import annotations

import io
import sys
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gradtape as tf
from gradtape._src import call_sites, progress


class Shell:
    """What the extension uses of IPython's shell."""

    def __init__(self) -> None:
        self.magics: dict[str, Any] = {}
        self.user_ns: dict[str, Any] = {"tf": tf}
        self.execution_count = 1

    def register_magic_function(self, function: Any, kind: str, name: str) -> None:
        assert kind == "cell"
        self.magics[name] = function

    def run_cell(self, code: str) -> Any:
        try:
            exec(compile(code, "<cell>", "exec"), self.user_ns)
        except ZeroDivisionError:
            return SimpleNamespace(success=False)
        return SimpleNamespace(success=True)


@pytest.fixture
def shell() -> Shell:
    made = Shell()
    tf.load_ipython_extension(made)
    return made


def test_tape_records_the_cell_and_shows_it(shell: Shell):
    shell.user_ns["x"] = tf.constant(3.0)
    page = shell.magics["tape"]("y x", "y = tf.exp(x * x)")
    assert "2 ops" in repr(page)
    assert shell.user_ns["tape"].gradient(shell.user_ns["y"], shell.user_ns["x"]).numpy() == pytest.approx(
        6 * np.exp(9)
    )
    assert "1 op" in repr(shell.magics["tape"]("", "z = tf.sin(tf.Variable(1.0))"))


def test_explain_says_why(shell: Shell):
    shell.user_ns.update(w=tf.Variable(1.0), b=tf.Variable(2.0))
    found = shell.magics["explain"]("loss w b", "loss = w * float(b)")
    assert [each.connected for each in found] == [True, False]
    assert [each.source for each in found] == ["w", "b"]
    assert shell.magics["explain"]("loss w", "loss = w * 2.0").connected is True
    with pytest.raises(ValueError, match="needs the names"):
        shell.magics["explain"]("loss", "loss = w")


@pytest.mark.parametrize("magic", ["tape", "explain"])
def test_a_name_that_the_cell_does_not_define_is_named(shell: Shell, magic: str):
    shell.user_ns["w"] = tf.Variable(1.0)
    with pytest.raises(ValueError, match="names 'los', which the cell does not define: name 'los' is not defined"):
        shell.magics[magic]("los w", "loss = w * 2.0")


def test_the_picture_has_the_names_of_the_notebook(shell: Shell):
    shell.user_ns.update(points=tf.ones([2, 2]), w=tf.Variable([[1.0], [2.0]]))
    page = shell.magics["tape"]("loss w", "loss = tf.reduce_sum(points @ w)")
    assert "points" in page.html


def test_a_line_in_an_earlier_cell(monkeypatch: pytest.MonkeyPatch):
    space: dict[str, Any] = {"tf": tf, "In": ["", "x = tf.Variable(2.0)", "x = x + 1.0"]}
    for cell in space["In"]:
        exec(compile(cell, "<cell>", "exec"), space)
    code = "with tf.GradientTape() as tape:\n    y = x * x\nwhy = tape.explain(y, x)"
    exec(compile(code, "<last cell>", "exec"), space)
    assert space["why"].reason.name == "REPLACED_BY_TENSOR"
    assert "until cell [2], line 1 bound the name" in str(space["why"])
    assert "line: cell [2], line 1  x = x + 1.0" in str(space["why"])


def test_a_cell_that_fails_leaves_the_old_tape(shell: Shell):
    shell.user_ns["tape"] = "old"
    assert shell.magics["tape"]("", "1 / 0") is None
    assert shell.magics["explain"]("a b", "1 / 0") is None
    assert shell.user_ns["tape"] == "old"
    with tf.GradientTape() as tape:  # the tape of the cell was closed
        pass
    assert len(tape.records) == 0


def test_the_extension_in_ipython():
    ipython = pytest.importorskip("IPython.core.interactiveshell")
    real = ipython.InteractiveShell.instance()
    real.run_line_magic("load_ext", "gradtape")
    real.run_cell("import gradtape as tf\nx = tf.Variable(3.0)")
    real.run_cell("a = 1", store_history=True)
    real.run_cell("%%explain y x\n\ny = x * x", store_history=True)
    assert len(real.user_ns["tape"].records) == 1
    assert "cell [2], line 3" in str(real.user_ns["tape"].summary())
    assert real.execution_count == 3
    ipython.InteractiveShell.clear_instance()


# -- lines and reprs ---------------------------------------------------------------------------------------------------
def test_cells_in_the_place_of_files(monkeypatch: pytest.MonkeyPatch):
    compiler = SimpleNamespace(format_code_name=lambda file: ("Cell", "In[4]") if "ipykernel" in file else None)
    module = SimpleNamespace(get_ipython=lambda: SimpleNamespace(compile=compiler))
    monkeypatch.setitem(sys.modules, "IPython", module)
    assert call_sites.shown_line(("/tmp/ipykernel_7/12.py", 2)) == "cell [4], line 2"
    assert call_sites.shown_line(("train.py", 2)) == "train.py:2"


def test_keras_layers_in_the_place_of_lines_in_keras(tmp_path: Any):
    keras = pytest.importorskip("keras") and tf.keras
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, name="score")])
    with tf.GradientTape(lines=True) as tape:
        loss = tf.reduce_sum(model(tf.ones([1, 2])))
    rows = tape.summary().rows
    assert [row.scope.rpartition("/")[2] for row in rows] == ["score", "score", ""]
    assert {row.line[0] for row in rows} == {__file__}
    assert "score" in tape.to_svg(target=loss)


def test_keras_says_why_there_are_no_gradients():
    keras = pytest.importorskip("keras") and tf.keras
    layer = keras.layers.Dense(1)
    layer.build((None, 2))
    x = np.ones([1, 2], np.float32)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(x).numpy())
    gradients = tape.gradient(loss, layer.trainable_variables)
    with pytest.raises(ValueError, match="No gradients provided for any variable") as caught:
        keras.optimizers.SGD().apply_gradients(zip(gradients, layer.trainable_variables, strict=True))
    assert "left the library" in str(caught.value)


def test_functions_and_datasets_have_a_table():
    f = tf.function(lambda x: x * 2.0)
    f(tf.ones([2]))
    assert "traced 1 time" in f._repr_html_()
    assert "font-family: monospace; white-space: pre" in f._repr_html_()  # columns stand below one another
    dataset = tf.data.Dataset.from_tensor_slices({"x": [1.0, 2.0]}).repeat()
    assert "infinite" in dataset._repr_html_()
    assert "float32" in dataset._repr_html_()
    assert "2 elements" in tf.data.Dataset.range(2)._repr_html_()
    assert "1 element<" in tf.data.Dataset.range(1)._repr_html_()
    nested = tf.data.Dataset.from_tensors({"image": tf.ones([2, 3]), "labels": (1, 2.0)})._repr_html_()
    assert "[&#x27;image&#x27;]" in nested
    assert "[&#x27;labels&#x27;][1]" in nested
    assert "(2, 3)" in nested
    assert repr(f).endswith("traced 1 time>")


def test_strings_are_shown_as_strings():
    page = tf.constant(["hello", "<b>"])._repr_html_()
    assert "string" in page
    assert "object" not in page
    assert "&#x27;hello&#x27;" in page
    assert "<b>" not in page
    assert "&#x27;a&#x27;" in tf.constant("a")._repr_html_()


def test_ragged_and_sparse_tensors_have_a_table():
    ragged = tf.ragged.constant([[1.0, 2.5], [], list(range(40))])._repr_html_()
    assert "shape (3, None) · float32" in ragged
    assert "2.5" in ragged
    assert "…" in ragged
    assert "[b&#x27;" not in tf.ragged.constant([["a"], []])._repr_html_()
    sparse = tf.sparse.from_dense([[0.0, 1.5], [0.0, 0.0]])._repr_html_()
    assert "1 of 4 elements" in sparse
    assert "<code>[0, 1]</code>" in sparse
    table = tf.Variable(tf.ones([1000, 2]))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.gather(table, [3, 5]))
    slices = tape.gradient(loss, table)
    assert "2 slices of 1,000 rows · slices of shape (2,) · float32" in slices._repr_html_()


def test_symbolic_values_have_no_table():
    seen: list[Any] = []

    @tf.function
    def f(x: Any) -> Any:
        slices = tf.IndexedSlices(x, tf.constant([1]), tf.constant([4, 2]))
        seen.extend([slices._repr_html_(), tf.sparse.from_dense(x)._repr_html_()])
        seen.append(tf.RaggedTensor.from_row_splits(x[0], [0, 1, 2])._repr_html_())
        return x

    f(tf.ones([1, 2]))
    assert seen == [None, None, None]


def test_a_live_view_is_a_page(tmp_path: Any):
    view = tf.debugging.LiveView(tmp_path / "live.html")
    w = tf.Variable([1.0, 2.0], name="w")
    view.step(0.5, [tf.constant([1.0, 0.0])], [w])
    assert repr(view).endswith("live.html': 1 steps>")
    assert view._repr_html_().startswith("<iframe srcdoc=")
    assert "w" in view._repr_html_()
    assert "step 1:" in view._repr_html_()
    assert "refresh" not in view._repr_html_()  # the page in the notebook does not reload itself


# -- progress ----------------------------------------------------------------------------------------------------------
class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_long_jacobian_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch):
    seen = Terminal()
    monkeypatch.setattr(sys, "stderr", seen)
    monkeypatch.setattr(progress, "SLOW", 0.0)
    x = tf.Variable([1.0, 2.0, 3.0])
    with tf.GradientTape(persistent=True) as tape:
        y = x * x
    tape.jacobian(y, x, experimental_use_pfor=False)
    assert "/3" in seen.getvalue()
    assert "rows of a Jacobian" in seen.getvalue()


def test_a_pipe_sees_nothing(capsys: pytest.CaptureFixture[str]):
    assert list(progress.over([1, 2], "rows")) == [1, 2]
    with progress.waiting("compiling"):
        pass
    assert capsys.readouterr().err == ""


def test_waiting_says_what_for(monkeypatch: pytest.MonkeyPatch):
    seen = Terminal()
    monkeypatch.setattr(sys, "stderr", seen)
    monkeypatch.setattr(progress, "SLOW", 0.0)
    with progress.waiting("compiling"):
        for _ in range(1000):
            if seen.getvalue():
                break
            time.sleep(0.001)
    assert seen.getvalue() == "compiling …\n"


def test_a_cell_keeps_the_last_state_of_the_bar(monkeypatch: pytest.MonkeyPatch):
    seen: list[str] = []

    class Shown:
        def update(self, data: dict[str, str], raw: bool) -> None:
            seen.append(data["text/plain"])

    def display(data: dict[str, str], raw: bool, display_id: bool) -> Shown:
        assert not seen, "a second line"
        seen.append(data["text/plain"])
        return Shown()

    stream = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(display=SimpleNamespace(display=display)))
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "SLOW", 0.0)
    for _ in progress.over([1, 2, 3], "rows"):
        time.sleep(0.06)
    assert "1/3" in seen[0]
    assert (seen[-1], stream.getvalue()) == ("", "")
    assert len(seen) > 2
