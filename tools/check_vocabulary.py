"""Find terms that the project has replaced by the standard terms of the field.

    python tools/check_vocabulary.py [PATH ...]    # default: src, docs, README.md, CONTRIBUTING.md

Prints `file:line: term -> what to write` and exits with 1 if it finds any. `ALLOWED` lists the phrases in which a term
has its ordinary meaning.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PLACES = ("src", "docs", "README.md", "CONTRIBUTING.md")

TERMS = {
    r"(?:way|ways|walk|walks|walked|walking|trip) back\b": "backward pass",
    r"\bsweeps?\b(?! of (?:a )?parameters?)": "backward pass (or jvp: forward pass)",
    r"\bpull(?:s|ed|ing|back)?\b(?! requests?)|\b_pull_\w+|\w_pull\b": "vjp",
    r"\bshort way\b|\bhurr(?:y|ied|ies)\b": "fast path",
    r"\bat once\b": "immediately, in one call, concurrently",
    r"\bat hand\b": "available (a cotangent: pending)",
    r"\b(?:as_given|fallible|gives_way|exchange_kernels|is_followable)\b": "trusted, may_raise, wrap_kernels",
    r"\bsever(?:s|ed|ing)\b": "non-differentiable",
    r"\bdeclaring words?\b": "op builders",
    r"\bunasked\b|\b(?:ask|asks|asked|asking) (?:for|it|about|what|whether|again|twice|which)\b": "call, check",
    r"\b(?:answers?|answered) (?:a|one|the|this) question\b|\bquestions? (?:to|of) (?:a|the) tape\b": "gradient call",
    r"\btapes? (?:does not |do not |can |may )?follows?\b|\bfollowed by (?:a|the|this|any|no) tape": "watch, track",
    r"\b(?:bury|buries|buried|skeleton|witness)\b": "summarise, summary, op logger",
    r"\b(?:Rows|Strong)(?=[\(\]`])|\bstrengthen\w*": "SparseCotangent, zero-preserving",
    r"\b[Aa]ligned batch(?:es)?\b|\w_aligned\b": "block-diagonal batch",
    r"\bowners? of (?:a|the|each|every) (?:row|position)s?\b": "row index",
    r"\b[Rr]ecipes?\b|\b[Uu]nwritten\b": "lazy array, LazyTensor",
    r"\bfamil(?:y|ies) of kernels\b|\bkernel famil(?:y|ies)\b": "kernel modules",
    r"\b[Ll]ens\b|\bledgers?\b": "inspect, op table",
    r"\bstorms?\b|\brehears(?:e|ed|al)s?\b|Glimpse\b|\b(?:Pulled|Passed)(?=[\(\]`])": "retracing, abstract_eval, peek",
    r"\b[Nn]obody\b|\b[Ss]omebody\b|\banybody\b|\bwhoever\b": "say what happens, in the passive or with a subject",
    r"\b(?:by|of) (?:who|whoever)\b|\bwho (?:reads|asks|calls|holds|wants|needs|is)\b": "what uses it, the caller",
    r"\b_?spread(?:s|ing|_\w+)?\b": "say which: in blocks, broadcast, divided, dilated, repeated",
    r"\b(?:same_)?questions?\b(?!,| marks?)|\banswer(?:s|ed) (?:one|another|more)\b": "gradient call; predicate",
    r"\b(?:can|may|must)(?:not)? follow\b(?= it| them|\"|\.|,|$)|\bfollowable\b": "watch, track, record",
    r"\bfamilies\b|\bfamily on\b": "kernel modules, kinds",
    r"\b(?:asker|asking|asks|asked)\b|\bask more\b|_asked\b": "caller, call; wanted (sources, devices)",
    r"\b(?:one|a|the) (?:program|trace|function)s? serves?\b": "runs, matches",
    r"\b(?:open|blind) graphs?\b|\b(?:graphs?|shapes?) behind\b": "shape-polymorphic, unknown shapes, lookup",
    r"\b(?:joint|at_hand|skeletons?|twins?|delivered)\b": "vjp_all, pending, summary, copy, to_device",
    r"\bgradients? at kinks?\b": "subgradient",
    r"\b(?:loss of the deceit|value of now|as many as memory bears|is no more|without a word)\b": "plain words",
}
"""Regular expression of a replaced term, and what to write."""


class Hit(NamedTuple):
    """A replaced term in a line of a file."""

    file: str
    line: int
    text: str
    advice: str


ALLOWED = {
    ("docs/faq.md", "Frequently asked questions"),
    ("docs/index.md", "find answers to common questions"),
    ("src/gradtape/_src/checkpoint/checkpoint.py", "values in question"),  # TensorFlow's sentence
    ("CONTRIBUTING.md", "Bug reports, questions and changes"),
    ("src/gradtape/_src/tf/random/candidates.py", "number of distinct classes asked for"),
}
"""(file, phrase) where the term has its ordinary meaning. The phrase must be in the line."""

SKIPPED: tuple[str, ...] = ()
"""Folders that are not converted yet."""


def files(places: tuple[str, ...] = PLACES) -> Iterator[Path]:
    """The Python and Markdown files under `places`."""
    for place in places:
        path = ROOT / place
        yield from [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.suffix in (".py", ".md"))


def check(path: Path) -> Iterator[Hit]:
    """The replaced terms in a file."""
    name = path.relative_to(ROOT).as_posix()
    if name.startswith(SKIPPED):
        return
    allowed = [phrase for file, phrase in ALLOWED if file == name]
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for pattern, advice in _PATTERNS:
            found = pattern.search(line)
            if found and not any(phrase in line for phrase in allowed):
                yield Hit(name, number, found[0], advice)


_PATTERNS = [(re.compile(pattern), advice) for pattern, advice in TERMS.items()]


def main(arguments: list[str]) -> int:
    """Print every hit; the exit code."""
    hits = [hit for path in files(tuple(arguments) or PLACES) for hit in check(path)]
    for hit in hits:
        print(f"{hit.file}:{hit.line}: {hit.text!r} -> {hit.advice}")
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
