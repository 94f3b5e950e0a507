"""The vocabulary: terms that were replaced do not come back."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import check_vocabulary  # noqa: E402


def test_replaced_terms_are_not_used():
    hits = [hit for path in check_vocabulary.files() for hit in check_vocabulary.check(path)]
    assert [f"{hit.file}:{hit.line}: {hit.text!r}, write {hit.advice}" for hit in hits] == []


@pytest.mark.parametrize(
    "line",
    [
        "the way back frees it",
        "a pull of tanh",
        "nobody follows it",
        "one sweep",
        "the tape answered another question",
        "uids that a tape may follow.",
        "spread over the axes",
        "primitives in families",
        "the joint rule",
    ],
)
def test_a_replaced_term_is_found(line, tmp_path, monkeypatch):
    monkeypatch.setattr(check_vocabulary, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text(f"# A page\n\n{line}\n", encoding="utf-8")
    (hit, *_) = check_vocabulary.check(tmp_path / "page.md")
    assert (hit.file, hit.line) == ("page.md", 3)


def test_every_exception_is_used():
    unused = [
        (file, phrase)
        for file, phrase in check_vocabulary.ALLOWED
        if phrase not in (ROOT / file).read_text(encoding="utf-8")
    ]
    assert unused == []
