"""The reference is complete, and every example in it runs as it stands after the two imports that its index names."""

from __future__ import annotations

import contextlib
import doctest
import fnmatch
import importlib.util
import inspect
import io
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import gradtape as tf

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))

import public_names  # noqa: E402

PAGES = sorted(set(public_names.directives().values()))
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
NEEDS = {"dtensor.md": "jax", "image.md": "PIL"}

_SESSION = re.compile(r"^( *)```pycon\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)

WITHOUT_EXAMPLE = {
    *(f"tf.distribute.{name}.cluster_resolver" for name in ("MultiWorkerMirroredStrategy", "TPUStrategy")),
    "tf.distribute.experimental.PreemptionCheckpointHandler.save_checkpoint_if_preempted",  # needs a preemption
    "tf.distribute.experimental.PreemptionCheckpointHandler.watch_preemption_scope",
    "tf.distribute.experimental.PreemptionWatcher.block_until_worker_exit",
    *(f"tf.distribute.cluster_resolver.{kind}ClusterResolver" for kind in ("GCE", "Kubernetes", "TPU", "TFConfig")),
    "tf.train.experimental.PythonState",  # a subclass defines its methods
    "tf.summary.SummaryWriter.set_as_default",  # for the rest of the process
    "tf.load_ipython_extension",  # for IPython
    "tf.test.Benchmark.run_op_benchmark",
    *(f"tf.test.TestCase.{name}" for name in ("setUp", "tearDown", "test_session")),
}
"""Methods, or classes for all of their methods, that an example cannot show without a cluster or a test runner."""


class Entry(NamedTuple):
    name: str
    examples: str


def described() -> Iterator[tuple[str, str, Any, Any]]:
    """Every entry of the reference: page, name, object, and for a method its class."""
    for page, own in public_names.entries():
        for name, value in own:
            yield page.file, name, value, None
            if isinstance(value, type) and not issubclass(value, BaseException):
                for method, member in public_names.methods(name, value):
                    yield page.file, f"{name}.{method}", member, value


def examples(file: str) -> Iterator[Entry]:
    """The entries of a page that have examples, with all sessions of each as one."""
    for page, name, value, _ in described():
        if page == file:
            text = public_names.described(name, value, public_names.glossary())
            if sessions := [inspect.cleandoc(session) + "\n" for _, session in _SESSION.findall(text)]:
                yield Entry(name, "\n".join(sessions))


def failures(entry: Entry) -> str:
    """What doctest says of the examples, run with nothing but the two imports."""
    names = {"tf": tf, "np": np, "__name__": "__main__"}
    test = doctest.DocTestParser().get_doctest(entry.examples, names, entry.name, None, 0)
    said = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(test, out=said.write)
    return said.getvalue() if runner.failures else ""


@pytest.fixture(autouse=True)
def undisturbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Examples may set variables of the environment, seeds and default writers, and write into the current folder."""
    monkeypatch.chdir(tmp_path)
    environment = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(environment)
    tf.random.set_seed(None)
    tf.summary.create_noop_writer().set_as_default()


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.filterwarnings("default", "ignore::RuntimeWarning:gradtape")
def test_examples(page: str):
    if page in NEEDS and importlib.util.find_spec(NEEDS[page]) is None:
        pytest.skip(f"{NEEDS[page]} is not installed")
    found = list(examples(page))
    assert found
    with contextlib.redirect_stderr(io.StringIO()):
        said = "".join(map(failures, found))
    assert said == ""


def test_a_wrong_example_is_noticed():
    assert "Expected" in failures(Entry("f", ">>> tf.abs(-1.0).numpy().item()\n2.0\n"))
    assert "NameError" in failures(Entry("f", ">>> reduce_sum([1.0])\n"))


# -- completeness ------------------------------------------------------------------------------------------------------
def test_every_directive_names_something_public():
    assert [name for name in public_names.directives() if public_names.resolve(name) is None] == []
    assert [page.name for page, own in public_names.entries() if not own] == []
    index = (ROOT / "docs" / "reference" / "index.md").read_text(encoding="utf-8")
    assert [page for page in PAGES if f"]({page})" not in index] == []


def test_docstrings_become_markdown():
    text = public_names.with_fences("A sum.\n\n>>> 1 + 1\n2\n\nThe end.\n\n    >>> 2\n    2")
    assert text == "A sum.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nThe end.\n\n    ```pycon\n    >>> 2\n    2\n    ```"


def test_entries_link_to_the_source_and_to_tensorflow():
    places = public_names.places()
    line = public_names.links("tf.math.exp", tf.exp, ["tf.exp"], places)
    assert "[TensorFlow's `tf.math.exp`](https://www.tensorflow.org/api_docs/python/tf/math/exp)" in line
    file, number = re.search(r"\[source\]\(\.\./source/(\S+)\.md#__codelineno-0-(\d+)\)", line).groups()
    assert (ROOT / file).read_text(encoding="utf-8").splitlines()[int(number) - 1].startswith("exp = ")
    assert [name for _, own in public_names.entries() for name, value in own if not public_names.source(value)] == []
    assert "[differences](../differences.md#" in public_names.links("tf.math.abs", tf.abs, ["tf.abs"], places)


ADDED = {
    *(f"tf.config.{name}" for name in ("get_engine", "set_engine", "get_graph_mode", "set_graph_mode")),
    *(f"tf.config.{name}" for name in ("get_none_policy", "set_none_policy", "graph_mode_report")),
    *(f"tf.config.{name}" for name in ("set_compilation_cache", "set_compiler_options")),
    *(f"tf.errors.{name}" for name in ("ConvergenceError", "InaccessibleTensorError", "NumericsError")),
    *(f"tf.train.{name}" for name in ("ConvergenceReport", "LBFGS", "LevenbergMarquardt", "NewtonCG")),
    *(f"tf.nn.{name}" for name in ("layer_normalization", "scaled_dot_product_attention")),
    *("tf.debugging.LiveView", "tf.install_as_tensorflow", "tf.load_ipython_extension"),
}
"""Names that TensorFlow does not have, in its namespaces."""


def test_names_of_tensorflow_link_to_its_page():
    places = public_names.places()
    without = {
        name
        for _, own in public_names.entries()
        for name, value in own
        if "TensorFlow's `" not in public_names.links(name, value, public_names.names()[id(value)], places)
    }
    tensorflows = ("tf.autodiff.ForwardAccumulator",)
    own_namespaces = ("tf.autodiff.", "tf.testing.", "tf._results.")
    assert {name for name in without if name in tensorflows or not name.startswith(own_namespaces)} == ADDED


def test_every_name_has_a_see_also():
    places = public_names.places()
    lonely = []
    for _, own in public_names.entries():
        for name, value in own:
            line = public_names.links(name, value, public_names.names()[id(value)], places)
            if not name.startswith("tf._results.") and "See also" not in line:
                lonely.append(name)
    assert lonely == []
    assert [n for group in public_names.groups() for n in group if n not in places and ".compat." not in n] == []


def test_every_name_has_a_summary_and_an_example():
    missing = []
    for _, name, value, cls in described():
        text = public_names.text_of(name, value)
        method = getattr(value, "__name__", name.rpartition(".")[2])  # not that of an alias
        shown = ">>>" in text or (cls is not None and (_uses(inspect.getdoc(cls) or "", method) or not value.__doc__))
        if not text.strip() or not (shown or _excused(name)):
            missing.append(name)
    assert missing == []


def _uses(text: str, method: str) -> bool:
    return bool(re.search(rf"^(>>>|\.\.\.).*\.{method}\b", text, re.MULTILINE))


def _excused(name: str) -> bool:
    return name in WITHOUT_EXAMPLE or name.rpartition(".")[0] in WITHOUT_EXAMPLE


def test_every_exception_is_needed():
    names = {name for _, name, _, _ in described()}
    assert {name for name in WITHOUT_EXAMPLE if name not in names} == set()


def test_arguments_are_described():
    known = public_names.glossary()
    missing = []
    for _, name, value, _ in described():
        text = inspect.getdoc(value) or ""
        for p in public_names.parameters(value):
            if "Args:" not in text and not public_names._meaning(name, p.name, known):
                missing.append(f"{name}({p.name})")
    assert missing == []


def test_results_are_described():
    """Of every function that returns something."""
    known = public_names.glossary()
    missing = []
    for _, name, value, _ in described():
        function = getattr(value, "__func__", value)
        if isinstance(value, (property, type)) or not callable(function):
            continue
        nothing = str(function.__annotations__.get("return", "")) == "None"
        if not nothing and "Returns:" not in public_names.described(name, value, known):
            missing.append(name)
    assert missing == []


# -- errors ------------------------------------------------------------------------------------------------------------
def outcome(error: public_names.Error) -> str:
    """The class of the error that the call of a line in docs/data/raises.txt raises."""
    v, w = tf.Variable(1.0), tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y, z = v * v, w * w
    try:
        eval(error.call, {"tf": tf, "np": np, "tape": tape, "v": v, "w": w, "y": y, "z": z})
    except Exception as raised:
        return type(raised).__name__
    return "no error"


def test_functions_raise_what_the_reference_says():
    with contextlib.redirect_stderr(io.StringIO()):
        said = {error: outcome(error) for error in public_names.raised()}
    assert [f"{error.name}: {found}" for error, found in said.items() if found != error.cls] == []


def test_a_wrong_error_is_noticed():
    line = public_names.Error("tf.abs", "ValueError", "if the dtype is not supported", "tf.abs('text')")
    assert outcome(line) == "InvalidArgumentError"
    assert outcome(line._replace(call="tf.abs(1.0)")) == "no error"


def test_errors_belong_to_entries():
    names = {name for _, name, _, _ in described()}
    assert {error.name for error in public_names.raised()} - names == set()
    text = public_names.described("tf.math.abs", tf.abs, public_names.glossary())
    assert "Raises:\n    tf.errors.InvalidArgumentError: If the dtype of `x` is not supported." in text


def test_data_files_have_no_unused_line():
    paths = [name for _, name, _, _ in described()]
    assert [key for key in public_names._returns() if not fnmatch.filter(paths, key)] == []


def test_the_glossary_has_no_unused_word():
    used = {p.name for _, _, value, _ in described() for p in public_names.parameters(value)}
    assert {key for key in public_names.glossary() if key.rpartition(".")[2] not in used} == set()
