"""The built site, where GRADTAPE_SITE names its folder: `make docs` runs these tests after it has built the site.

Every public name has an entry, every example of the reference runs as a reader would paste it, every link leads
somewhere, and the search leads to the answers. Where there is a Chromium, it opens every page and types the questions.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urldefrag

import browser
import pytest
from test_reference import Entry, failures, public_names, undisturbed
from test_search import QUESTIONS, Section, ranked

SITE = Path(os.environ.get("GRADTAPE_SITE", "nowhere")).absolute()
pytestmark = pytest.mark.skipif(not SITE.exists(), reason="GRADTAPE_SITE does not name a built site")

_ = undisturbed  # a fixture that every test here uses


class Block(NamedTuple):
    heading: str
    text: str


class Page(HTMLParser):
    """The ids, links and preformatted blocks of a page, each block with the id of the heading above it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.blocks: list[Block] = []
        self._heading, self._block = "", None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.ids |= {found[key] for key in ("id", "name") if key in found}
        self.links += [found[key] for key in ("href", "src") if key in found]
        if re.fullmatch(r"h\d", tag) and "id" in found:
            self._heading = found["id"]
        if tag == "pre":
            self._block = ""

    def handle_data(self, data: str) -> None:
        if self._block is not None:
            self._block += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "pre" and self._block is not None:
            self.blocks.append(Block(self._heading, self._block))
            self._block = None


@cache
def page(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


REFERENCE = sorted({name.replace(".md", ".html") for name in public_names.directives().values()})


def test_every_public_name_has_an_entry():
    places = [place.split(".md#") for place in public_names.places().values()]
    assert [name for file, name in places if name not in page(SITE / "reference" / f"{file}.html").ids] == []


@pytest.mark.parametrize("file", REFERENCE)
@pytest.mark.filterwarnings("default", "ignore::RuntimeWarning:gradtape")
def test_examples(file: str):
    if file == "dtensor.html":
        pytest.importorskip("jax")
    sessions: dict[str, str] = {}
    for heading, text in page(SITE / "reference" / file).blocks:
        if text.startswith(">>>"):
            sessions[heading] = sessions.get(heading, "") + text.rstrip() + "\n\n"
    assert sessions
    with contextlib.redirect_stderr(io.StringIO()):
        said = "".join(failures(Entry(name, session)) for name, session in sessions.items())
    assert said == ""


def test_links_lead_somewhere():
    dead = []
    for path in SITE.rglob("*.html"):
        for link in page(path).links if path.name != "404.html" else ():
            target, fragment = urldefrag(link)
            if re.match(r"[a-z]+:", target):
                continue
            file = (path.parent / unquote(target)).resolve() if target else path
            file = file / "index.html" if file.is_dir() else file
            if not file.exists() or (fragment and file.suffix == ".html" and unquote(fragment) not in page(file).ids):
                dead.append(f"{path.relative_to(SITE)}: {link}")
    assert dead == []


@cache
def sections() -> tuple[Section, ...]:
    found = json.loads((SITE / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    return tuple(
        Section.of(entry["location"].partition("#")[0], entry["title"], re.sub(r"<[^>]*>", " ", entry["text"]))
        for entry in found
    )


@pytest.mark.parametrize(("query", "answer"), QUESTIONS.items(), ids=list(QUESTIONS))
def test_the_search_finds_the_answer(query: str, answer: str):
    assert answer.replace(".md", ".html") in ranked(query, sections())[:3]


def test_the_reference_is_searchable():
    assert ranked("tf.linalg.cholesky", sections())[0] == "reference/linalg.html"


def test_the_index_of_the_search_is_repaired():
    (worker,) = (SITE / "assets" / "javascripts" / "workers").glob("search.*.js")
    assert '=e+","+s+o.id}return e' in worker.read_text(encoding="utf-8")  # see docs/hooks.py


@pytest.fixture(scope="module")
def chromium():
    if browser.executable() is None:
        pytest.skip("no Chromium")
    with browser.Browser() as opened:
        yield opened


@pytest.mark.parametrize("width", [1440, 390])
def test_no_page_is_wider_than_the_screen(width: int, chromium: browser.Browser):
    chromium.call(
        "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500
    )
    wide = []
    for path in sorted(SITE.rglob("*.html")):
        if "source" not in path.relative_to(SITE).parts:
            chromium.open(path)
            if chromium.run("document.documentElement.scrollWidth") > width:
                wide.append(path.relative_to(SITE).as_posix())
    assert wide == []


def test_nothing_is_loaded_from_elsewhere(chromium: browser.Browser):
    chromium.problems.clear()
    for name in ("index.html", "gallery.html", "tutorials/autodiff.html", "reference/tape.html"):
        chromium.open(SITE / name)
    assert [problem["request"] for problem in chromium.problems if "request" in problem] == []


def search(chromium: browser.Browser, query: str, least: int) -> None:
    """Type a query and wait for results. The page may miss what is typed before its scripts run: then try again."""
    found = f"document.querySelectorAll('.md-search-result__item').length >= {least}"
    for seconds in (10, 30, 90, 270):
        chromium.open(SITE / "index.html", ready="document.querySelector('.md-search__input') !== null")
        chromium.run("document.querySelector('.md-search__input').focus()")
        chromium.type(query)
        if chromium.holds_within(found, seconds):
            return
    pytest.fail(f"fewer than {least} results for {query!r}")


@pytest.mark.parametrize(("query", "answer"), QUESTIONS.items(), ids=list(QUESTIONS))
def test_a_reader_finds_the_answer(query: str, answer: str, chromium: browser.Browser):
    chromium.call("Emulation.clearDeviceMetricsOverride")
    search(chromium, query, 3)
    links = "[...document.querySelectorAll('.md-search-result__item')].slice(0, 3).map(e => e.querySelector('a').href)"
    found = [unquote(urldefrag(link)[0].partition("?")[0]) for link in chromium.run(links)]
    assert (SITE / answer.replace(".md", ".html")).as_uri() in found


NAMES = {
    "tf.linalg.solve": "linalg",
    "tf.nn.conv2d": "nn",
    "tf.reduce_mean": "math",
    "reduce_mean": "math",
    "tf.where": "root",
    "tf.gradients": "root",
}


@pytest.mark.parametrize(("name", "page"), NAMES.items(), ids=list(NAMES))
def test_a_reader_finds_a_name_in_the_reference(name: str, page: str, chromium: browser.Browser):
    search(chromium, name, 1)
    link = chromium.run("document.querySelector('.md-search-result__item a').href")
    assert unquote(urldefrag(link)[0].partition("?")[0]) == (SITE / "reference" / f"{page}.html").as_uri()


def test_formulas_are_drawn(chromium: browser.Browser):
    for name in ("scaling.html", "tutorials/physics_informed.html"):
        chromium.open(SITE / name)
        assert chromium.run("document.querySelectorAll('math').length") >= 4
        assert "\\frac" not in chromium.run("document.querySelector('article').innerText")
