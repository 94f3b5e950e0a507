"""The site: its reference is what the package says of itself, its navigation has every page, and it builds."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def load(name: str):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_up_to_date():
    built = load("make_reference").build()
    assert {p.name for p in (DOCS / "reference").glob("*.md")} == set(built)
    old = [name for name, text in built.items() if (DOCS / "reference" / name).read_text(encoding="utf-8") != text]
    assert old == [], "run python docs/make_reference.py"


def test_no_page_of_the_reference_is_empty():
    built = load("make_reference").build()
    assert [name for name, text in built.items() if name != "index.md" and "\n## " not in text] == []


def test_views_are_described_as_methods():
    page = (DOCS / "reference" / "tape.md").read_text(encoding="utf-8")
    for method in ("explain(target, sources)", "summary(target=None", "show(path=None", "memory_report()"):
        assert f"\n{method}" in page
    assert "See `gradtape._src.inspect" not in page


def test_docstrings_become_markdown():
    maker = load("make_reference")
    text = maker.prose("A sum.\n\nArgs:\n  x: a number\n    or two\n\n>>> 1 + 1\n2\n\nThe end.")
    assert "- `x`: a number\n  or two" in text
    assert "```pycon\n>>> 1 + 1\n2\n```\n\nThe end." in text
    assert maker.signature("f", lambda x, *, k=1, **more: x) == "f(x, *, k=1, **more)"


def test_the_navigation_has_every_page():
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    pages = {str(page.relative_to(DOCS)) for kind in ("*.md", "*.ipynb") for page in DOCS.rglob(kind)}
    elsewhere = {"benchmarks.md", "contributing.md", "changelog.md"}
    assert set(re.findall(r"[\w/-]+\.(?:md|ipynb)", nav)) == pages | elsewhere


def test_the_table_of_times_is_that_of_the_readme():
    table = re.compile(r"^\| \| gradtape \|.*\n(?:\|.*\n)+", re.MULTILINE)
    readme, page = (table.search(p.read_text(encoding="utf-8")) for p in (ROOT / "README.md", DOCS / "performance.md"))
    assert readme is not None
    assert page is not None
    assert readme[0] == page[0], "copy the table of README.md to docs/performance.md"


def test_every_reason_is_in_the_guide():
    from gradtape._src.inspect.explain import Reason

    page = (DOCS / "tapes.md").read_text(encoding="utf-8")
    assert [r.name for r in Reason if f"| `{r.name}` | {r.value} |" not in page] == []


def test_generated_pages_and_pictures_are_up_to_date():
    chart, gallery = load("make_chart"), load("make_gallery")
    assert (DOCS / "images" / "speed.svg").read_text(encoding="utf-8") == chart.build(), "run python docs/make_chart.py"
    assert (DOCS / "gallery.md").read_text(encoding="utf-8") == gallery.build(), "run python docs/make_gallery.py"


def test_it_builds(tmp_path: Path):
    pytest.importorskip("material", reason="the extra 'docs' is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    page = (tmp_path / "site" / "how-it-works.html").read_text(encoding="utf-8")
    assert 'href="source/src/gradtape/_src/core/dispatch.py.html"' in page
    assert (tmp_path / "site" / "source/src/gradtape/_src/core/dispatch.py.html").exists()
