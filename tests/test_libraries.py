"""docs/libraries.md shows what is recorded, and the script that records it knows every library."""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import libraries  # noqa: E402


def test_the_page_shows_the_record():
    assert libraries.PAGE.read_text(encoding="utf-8") == libraries.page(), "python tools/libraries.py --page"


def test_every_library_has_tests():
    for library in libraries.LIBRARIES.values():
        assert library.tests or library.program.exists(), library.name


def test_no_library_installs_tensorflow():
    for library in libraries.LIBRARIES.values():
        names = {need.split("==")[0] for need in (*library.needs, *library.alone)}
        assert not names & {"tensorflow", "tensorflow-cpu", "tf-keras", "tf_keras"}, library.name


def test_outcomes_of_a_report(tmp_path):
    report = tmp_path / "report.xml"
    report.write_text(
        "<testsuites><testsuite>"
        "<testcase classname='a' name='one'/>"
        "<testcase classname='a' name='two'><failure/></testcase>"
        "<testcase classname='a' name='two'/>"
        "<testcase classname='a' name='three'><skipped/></testcase>"
        "</testsuite></testsuites>"
    )
    assert libraries._outcomes(report) == {"a::one": "passed", "a::two": "failed", "a::three": "skipped"}


def test_counts_are_of_what_passes_on_tensorflow():
    library = libraries.LIBRARIES["eagerpy"]
    ours, theirs = {"a": "passed", "b": "failed", "c": "passed"}, {"a": "passed", "b": "passed", "c": "failed"}
    entry = libraries._counts(library, ours, theirs)
    assert (entry["pass_on_tensorflow"], entry["of_these"], entry["differ"]) == (2, 1, ["b"])
    assert json.loads(json.dumps(entry)) == entry
