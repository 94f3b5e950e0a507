"""The site: its navigation has every page, what is generated is up to date, and it builds."""

from __future__ import annotations

import importlib.util
import os
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


@pytest.mark.parametrize(
    ("formula", "spaces"), [(r"x \sin x", 2), (r"\sin(x)", 0), (r"e^{-t} \cos t + 2", 2), (r"\tanh^2 x", 0)]
)
def test_functions_in_formulas_have_spaces_around_them(formula: str, spaces: int):
    pytest.importorskip("latex2mathml", reason="the extra 'docs' is not installed")
    assert load("mathematics").rendered(f"<p>${formula}$</p>").count("<mspace") == spaces


def test_it_builds(tmp_path: Path):
    """With the checks of tests/test_built_site.py, as `make docs` does."""
    pytest.importorskip("mkdocstrings", reason="the extra 'docs' is not installed")
    site = tmp_path / "site"
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)]
    check = [sys.executable, "-m", "pytest", "-q", "tests/test_built_site.py"]
    for command in (build, check):
        environment = {**os.environ, "GRADTAPE_SITE": str(site)}
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
        assert run.returncode == 0, run.stdout + run.stderr
