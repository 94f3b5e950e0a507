"""The site's search finds the answers to questions that users of TensorFlow ask most.

The ranking is that of the site: sections with a title and a text, Okapi BM25 on both, and a title counts a thousand
times as much; pages are ranked by their best section, times the boost of the page. The texts are the pages in docs/, so
nothing has to be built; tests/test_built_site.py types the questions into the search of the built site.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from test_reference import described, public_names

DOCS = Path(__file__).parent.parent / "docs"
sys.path.insert(0, str(DOCS))

import search_boost  # noqa: E402

TITLE = 1000.0
K, B = 1.2, 0.75
STOP = re.compile(
    r"(?:an?|and|any|are|as|at|be|but|by|can|did|do|does|for|from|get|ha[ds]|have|how|i|if|in|into|its?|just|may|me|more|"
    r"most|my|no|not|of|on|once|only|or|other|our|own|say|so|some|than|that|the[mnyir]*|there|these|this|too?|us|was|we|"
    r"were|what|when|where|which|while|who|why|will|with|would|you|your|is)"
)
"""Words that the search leaves out."""

QUESTIONS = {
    "why is my gradient None": "faq.md",
    "No gradients provided for any variable": "faq.md",
    "zeros instead of None for unconnected gradients": "faq.md",
    "tape.gradient called more than once persistent": "faq.md",
    "gradient with respect to the input of a model": "faq.md",
    "second derivative nested tapes Hessian": "higher-order.md",
    "Jacobian out of memory": "faq.md",
    "per-example gradients": "higher-order.md",
    "where does NaN in gradient come from": "faq.md",
    "NaN gradient of masked tf.where": "faq.md",
    "clip gradients": "faq.md",
    "define custom gradient": "custom-gradients.md",
    "save memory backward pass recompute": "faq.md",
    "save and resume training": "faq.md",
    "tf.function retracing": "faq.md",
    "train on several GPUs": "faq.md",
    "Python 3.14 Windows Mac": "faq.md",
    "Keras model custom train_step": "faq.md",
    "add integer and float tensors": "faq.md",
    "load a SavedModel": "saved-models.md",
    "Grad-CAM gradient of a layer output": "faq.md",
    "int variable gradient None": "faq.md",
    "tape computed loss outside with block": "tapes.md",
    "difference between gradient and jacobian": "faq.md",
    "batch_jacobian": "higher-order.md",
    "Hessian vector product": "higher-order.md",
    "nested tapes second derivative None": "higher-order.md",
    "forward Laplacian": "taylor-mode.md",
    "complex gradient conjugate": "faq.md",
    "straight-through estimator": "custom-gradients.md",
    "gradient checkpointing memory": "faq.md",
    "memory leak tape in loop": "faq.md",
    "persistent tape memory": "faq.md",
    "mixed precision loss scale": "compiled-functions.md",
    "float16 overflow": "compiled-functions.md",
    "visualize computation graph": "faq.md",
    "retracing": "faq.md",
    "profile which op is slow": "faq.md",
    "tf.function print runs once": "faq.md",
    "reproducible results seed": "faq.md",
    "threads tape": "faq.md",
    "scipy optimize": "faq.md",
    "gradient of the solution of an equation": "implicit-derivatives.md",
    "sparse gradient IndexedSlices embedding": "tapes.md",
    "GPU not used": "faq.md",
    "install size": "faq.md",
    "convert TensorFlow code": "faq.md",
    "retain_graph": "coming-from.md",
    "export ONNX": "saved-models.md",
}
"""What users search for, and the page with the answer, which is among the first three."""


def words(text: str) -> list[str]:
    return [_stem(word) for word in re.findall(r"[a-z0-9_]+", text.lower()) if not STOP.fullmatch(word)]


def _stem(word: str) -> str:
    """A little of Porter's stemmer: endings of plurals and verbs."""
    for ending, least in (("ations", 4), ("ation", 4), ("ing", 4), ("ed", 4), ("es", 4), ("s", 3), ("e", 3)):
        if word.endswith(ending) and len(word) - len(ending) >= least:
            return word[: -len(ending)]
    return word


def _pages() -> dict[str, str]:
    found = {p.relative_to(DOCS).as_posix(): p.read_text(encoding="utf-8") for p in DOCS.rglob("*.md")}
    for notebook in DOCS.rglob("*.ipynb"):
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        found[notebook.relative_to(DOCS).as_posix()] = "\n\n".join("".join(cell["source"]) for cell in cells)
    return found


class Section(NamedTuple):
    """A section of a page: what the search ranks."""

    page: str
    title: Counter[str]
    text: Counter[str]

    @classmethod
    def of(cls, page: str, title: str, text: str) -> Section:
        return cls(page, Counter(words(title)), Counter(words(text)))


@cache
def sections() -> tuple[Section, ...]:
    """The sections of the pages in docs/, and the entries of the reference."""
    found = []
    for name, text in _pages().items():
        outside = re.sub(r"^ *```.*?^ *```$", lambda code: re.sub(r"(?m)^#", " ", code[0]), text, flags=re.M | re.S)
        for part in re.split(r"(?m)^(?=#{1,6} )", outside):
            title, _, body = part.partition("\n") if part.startswith("#") else ("", "", part)
            found.append(Section.of(name, title, body))
    for page, name, value, _ in described():
        found.append(Section.of(f"reference/{page}", name, public_names.text_of(name, value)))
    return tuple(found)


def ranked(query: str, among: tuple[Section, ...]) -> list[str]:
    """The pages, best first."""
    searched = words(query)
    best: dict[str, float] = dict.fromkeys((section.page for section in among), 0.0)
    scores = [0.0] * len(among)
    for field, boost in ((1, TITLE), (2, 1.0)):
        texts: list[Counter[str]] = [section[field] for section in among]
        lengths = [text.total() for text in texts]
        average = sum(lengths) / len(lengths)
        for word in searched:
            n = sum(word in text for text in texts)
            weight = math.log(1 + (len(texts) - n + 0.5) / (n + 0.5))
            for i, text in enumerate(texts):
                if word in text:
                    norm = K * (1 - B + B * lengths[i] / average)
                    scores[i] += boost * weight * text[word] * (K + 1) / (text[word] + norm)
    for section, score in zip(among, scores, strict=True):
        best[section.page] = max(best[section.page], score * search_boost.boost(section.page))
    return sorted(best, key=lambda page: -best[page])


@pytest.mark.parametrize(("query", "page"), QUESTIONS.items(), ids=list(QUESTIONS))
def test_the_answer_is_among_the_first_three(query: str, page: str):
    assert page in ranked(query, sections())[:3]


def test_the_ranking_can_fail():
    assert "faq.md" not in ranked("TensorArray scatter", sections())[:3]
