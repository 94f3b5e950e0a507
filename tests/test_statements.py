"""What the documentation says is missing is missing, and what it advises exists.

Every line of the pages that says so is listed here with a check of the package. A line that is not listed fails the
test: add it, with a check.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gradtape as tf
from gradtape._src import reasons

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
GENERATED = {"supported.md", "libraries.md"}  # tests compare them with the package


def lookup(name: str) -> Any:
    found: Any = tf
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    return found


def absent(*names: str) -> Callable[[], None]:
    def check() -> None:
        assert [name for name in names if lookup(name) is not None] == []

    return check


def refused(call: Callable[[], Any], *kinds: type[BaseException]) -> Callable[[], None]:
    def check() -> None:
        with pytest.raises(kinds):
            call()

    return check


def of_keras(call: Callable[[Any], Any]) -> Callable[[], None]:
    def check() -> None:
        pytest.importorskip("keras")
        with pytest.raises(ValueError, match="not supported"):
            call(tf.keras)

    return check


def _attention(keras: Any) -> Any:
    x = tf.ones([1, 2, 1, 8])
    return keras.ops.dot_product_attention(x, x, x, flash_attention=True)


def _no_parameter_server() -> None:
    with pytest.raises(tf.errors.UnimplementedError):
        tf.distribute.ParameterServerStrategy(None)


_QUEUES = ("FIFOQueue", "queue", "import_graph_def", "train.MonitoredSession", "train.start_queue_runners")
_no_queues = absent(*(f"tf.compat.v1.{name}" for name in _QUEUES), "tf.queue", "tf.import_graph_def")


def _outside() -> None:
    _no_queues()
    _no_parameter_server()
    absent("tf.lite")()


STATEMENTS: list[tuple[str, str, Callable[[], None]]] = [
    ("README.md", "Not supported: parameter servers, TensorFlow Lite, queues and imported graphs", _outside),
    ("coming-from.md", "| missing | parameter servers, TensorFlow Lite, queues and imported graphs", _outside),
    ("coming-from.md", "`jax.custom_jvp` | missing", absent("tf.custom_jvp", "tf.autodiff.custom_jvp")),
    ("distributed-training.md", "## What is missing", _no_parameter_server),
    ("keras.md", "`Input(ragged=True)`) | not supported", of_keras(lambda k: k.Input((2,), ragged=True))),
    ("keras.md", "flash attention | not supported", of_keras(_attention)),
    ("tensorflow1.md", "`MonitoredSession` are not supported", _no_queues),
]
"""(page, words of the statement, check that it holds)."""

OTHERWISE = {
    "README.md": ["A missing name raises"],
    "adding-an-op.md": ["a test fails if one is missing"],
    "autodiff-in-100-lines.md": ["bookkeeping is missing"],
    "checkpoints.md": ["to check for missing ones", "You may be missing"],
    "coming-from.md": ["missing.", "--only missing"],
    "compiled-functions.md": ["the memory that is planned"],
    "debugging.md": [".missing", "--only missing"],
    "differences.md": ["space is missing"],
    "files.md": ["ram://results/missing"],
    "migrating.md": ["--only missing", "missing (1)", "1 missing.", "a name is missing"],
    "raw-ops.md": ["missing 1 required"],
    "saved-models.md": ["0 missing"],
}
"""Lines with these words say nothing about what gradtape has."""

_SAYS = re.compile(r"\bmissing\b|[Nn]ot (?:yet )?supported|[Nn]ot yet\b|\bplanned\b|gradtape has no\b|outside gradtape")


@pytest.mark.parametrize(("page", "words", "check"), STATEMENTS, ids=[words[:40] for _, words, _ in STATEMENTS])
def test_what_is_missing(page: str, words: str, check: Callable[[], None]):
    path = ROOT / page if page == "README.md" else ROOT / "docs" / page
    assert words in path.read_text(encoding="utf-8")
    check()


def test_every_statement_is_checked():
    listed: dict[str, list[str]] = {page: list(words) for page, words in OTHERWISE.items()}
    for page, words, _ in STATEMENTS:
        listed.setdefault(page, []).append(words)
    unchecked = [
        f"{page.name}:{number}: {line.strip()}"
        for page in PAGES
        if page.name not in GENERATED
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        if _SAYS.search(line) and not any(words in line for words in listed.get(page.name, ()))
    ]
    assert unchecked == []


def test_names_that_pages_call_missing_by_a_table_exist_otherwise():
    """The left column of coming-from.md names other libraries; every `tf.` name on the right is gradtape's."""
    text = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`(tf\.[A-Za-z_.]+[A-Za-z_])", text))
    if importlib.util.find_spec("keras") is None:
        names = {name for name in names if not name.startswith("tf.keras")}
    assert {name for name in names if lookup(name) is None and name != "tf.reduce_men"} == set()


def test_reasons_advise_what_exists():
    texts = [why for _, why in reasons.REASONS] + list(reasons.RENAMED.values())
    names = {name for text in texts for name in re.findall(r"\btf\.[\w.]*\w", text)}
    if importlib.util.find_spec("keras") is None:
        names = {name for name in names if not name.startswith("tf.keras")}
    assert {name for name in names if lookup(name) is None} == set()


def test_reasons_promise_nothing():
    assert [why for _, why in reasons.REASONS if re.search(r"\bplanned\b|\bnot yet\b|outside gradtape", why)] == []
