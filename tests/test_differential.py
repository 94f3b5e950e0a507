"""What TensorFlow 2.21 answered to many small questions: gradtape answers the same, except where a reason is given."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from conformance import runner
from differential import differences, flagged, questions

import gradtape as tf

DOCS = Path(__file__).parents[1] / "docs" / "differences.md"
ON_PURPOSE = {question for group in differences.ON_PURPOSE.values() for question in group}


@pytest.mark.parametrize("topic", questions.TOPICS)
def test_questions(topic):
    names, recorded = questions.vocabulary(tf), questions.load_answers(topic)
    assert list(recorded) == questions.load(topic), "record the answers again: python -m differential.record"
    wrong = []
    for question, expected in recorded.items():
        found = questions.answer(question, tf, names)
        differs = None if expected["t"] == "crash" else runner.diff(expected, found, question)
        if question in ON_PURPOSE:
            if differs is None and expected["t"] != "crash":
                wrong.append(f"{question}: no longer differs, take it off the list")
        elif differs is not None:
            wrong.append(differs)
    assert not wrong, "\n".join(wrong)


def test_reasons_are_documented():
    page = " ".join(DOCS.read_text().split())
    for reason, sentence in differences.REASONS.items():
        assert sentence in page, f"docs/differences.md does not say: {sentence}"
        assert differences.ON_PURPOSE.get(reason), f"nothing differs because of {reason}"


def test_causes_of_random_cases_are_documented():
    page = " ".join(DOCS.read_text().split())
    found = flagged.load()
    used = {cause for causes in found.values() for cause in causes.values()}
    assert used == set(flagged.CAUSES)
    for cause, sentence in flagged.CAUSES.items():
        assert sentence in page, f"docs/differences.md does not say, about {cause}: {sentence}"
        eager, function = (
            ", ".join(str(seed) for seed, why in sorted(seeds.items()) if why == cause) or "none"
            for seeds in found.values()
        )
        assert f"| {cause} | {eager} | {function} |" in page, f"the table of random cases is not up to date: {cause}"


def test_counts_of_random_cases_are_documented():
    found = flagged.load()
    counts = f"{len(found['eager'])} of 8,000 eager cases differ, and {len(found['function'])} of 1,000 in functions"
    sentence = f"{counts} ({sum(seed < 1500 for seed in found['function'])} of the first 500)."
    assert sentence in " ".join(DOCS.read_text().split()), f"docs/differences.md does not say: {sentence}"


def test_a_random_case_has_one_cause():
    for mode, causes in json.loads((flagged.HERE / "flagged.json").read_text()).items():
        listed = Counter(seed for seeds in causes.values() for seed in seeds)
        assert [seed for seed, count in listed.items() if count > 1] == [], mode
