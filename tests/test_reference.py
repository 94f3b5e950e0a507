"""The reference is complete, and every example in it runs as it stands after the two imports that its index names."""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import inspect
import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

import gradtape as tf

ROOT = Path(__file__).parent.parent
PAGES = sorted(p for p in (ROOT / "docs" / "reference").glob("*.md") if p.name != "index.md")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
NEEDS = {"dtensor.md": "jax", "image.md": "PIL"}

_HEADING = re.compile(r"^#{2,3} `(.+)`$", re.MULTILINE)
_SESSION = re.compile(r"^```pycon\n(.*?)^```$", re.MULTILINE | re.DOTALL)

WITHOUT_EXAMPLE = {
    *(f"tf.distribute.{name}.cluster_resolver" for name in ("MultiWorkerMirroredStrategy", "TPUStrategy")),
    "tf.distribute.experimental.PreemptionCheckpointHandler.save_checkpoint_if_preempted",  # needs a preemption
    "tf.distribute.experimental.PreemptionCheckpointHandler.watch_preemption_scope",
    "tf.distribute.experimental.PreemptionWatcher.block_until_worker_exit",
    *(f"tf.distribute.cluster_resolver.{kind}ClusterResolver" for kind in ("GCE", "Kubernetes", "TPU", "TFConfig")),
    "tf.train.experimental.PythonState",  # a subclass defines its methods
    "tf.summary.SummaryWriter.set_as_default",  # for the rest of the process
    "tf.test.Benchmark.run_op_benchmark",
    *(f"tf.test.TestCase.{name}" for name in ("setUp", "tearDown", "test_session")),
}
"""Methods, or classes for all of their methods, that an example cannot show without a cluster or a test runner."""


class Entry(NamedTuple):
    name: str
    examples: str


def entries(text: str) -> Iterator[Entry]:
    """The entries of a page that have examples, with all sessions of each as one."""
    headings = list(_HEADING.finditer(text))
    for heading, following in zip(headings, [*headings[1:], None], strict=True):
        body = text[heading.end() : following.start() if following else len(text)]
        if sessions := _SESSION.findall(body):
            yield Entry(heading[1], "\n".join(sessions))


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


@pytest.mark.parametrize("page", [pytest.param(p, id=p.name) for p in PAGES])
@pytest.mark.filterwarnings("default", "ignore::RuntimeWarning:gradtape")
def test_examples(page: Path):
    if page.name in NEEDS and importlib.util.find_spec(NEEDS[page.name]) is None:
        pytest.skip(f"{NEEDS[page.name]} is not installed")
    found = list(entries(page.read_text(encoding="utf-8")))
    assert found
    with contextlib.redirect_stderr(io.StringIO()):
        said = "".join(map(failures, found))
    assert said == ""


def test_a_wrong_example_is_noticed():
    assert "Expected" in failures(Entry("f", ">>> tf.abs(-1.0).numpy().item()\n2.0\n"))
    assert "NameError" in failures(Entry("f", ">>> reduce_sum([1.0])\n"))


# -- completeness ------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_reference", ROOT / "docs" / "make_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def described(maker: ModuleType) -> Iterator[tuple[str, Any, Any]]:
    """Every entry of the reference: name, object, and for a method its class."""
    for _, own in maker.entries():
        for name, value in own:
            yield name, value, None
            if isinstance(value, type) and not issubclass(value, BaseException):
                for method, _, _ in maker.methods(name, value):
                    yield f"{name}.{method}", inspect.getattr_static(value, method), value


def test_every_name_has_a_summary_and_an_example(maker: ModuleType):
    missing = []
    for name, value, cls in described(maker):
        text = maker.text_of(name, value)
        method = name.rpartition(".")[2]
        shown = ">>>" in text or (cls is not None and (_uses(inspect.getdoc(cls) or "", method) or not value.__doc__))
        if not text.strip() or not (shown or _excused(name)):
            missing.append(name)
    assert missing == []


def _uses(text: str, method: str) -> bool:
    return bool(re.search(rf"^(>>>|\.\.\.).*\.{method}\b", text, re.MULTILINE))


def _excused(name: str) -> bool:
    return name in WITHOUT_EXAMPLE or name.rpartition(".")[0] in WITHOUT_EXAMPLE


def test_every_exception_is_needed(maker: ModuleType):
    names = {name for name, _, _ in described(maker)}
    assert {name for name in WITHOUT_EXAMPLE if name not in names} == set()


def test_arguments_are_described(maker: ModuleType):
    """All arguments of the functions that programs use most; of the others, at least nine in ten."""
    known = maker.glossary()
    total, missing = 0, []
    for name, value, _ in described(maker):
        text = inspect.getdoc(value) or ""
        for p in maker.parameters(value):
            total += 1
            if "Args:" not in text and f"`{p.name}`" not in text and not maker._meaning(name, p.name, known):
                missing.append(f"{name}({p.name})")
    assert [m for m in missing if re.match(r"tf\.(math|linalg|nn)\.[a-z]|tf\.[a-z_]+\(", m)] == []
    assert len(missing) <= total / 10


def test_the_glossary_has_no_unused_word(maker: ModuleType):
    used = {p.name for _, value, _ in described(maker) for p in maker.parameters(value)}
    assert {key for key in maker.glossary() if key.rpartition(".")[2] not in used} == set()
