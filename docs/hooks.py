"""What the site needs beyond the pages in docs/: files of the repository that they link to.

A page may link to `../src/gradtape/_src/core/primitive.py`: right for a reader of the repository, but outside of the
site. Such files become pages of the site, and the links are bent to them.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))

import mathematics
import public_names
import search_boost

ROOT = Path(__file__).parent.parent
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks.md",
}
"""Files outside of docs/ that are pages of their own; the first is another form of one that is there."""

_LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_PREFORMATTED = re.compile(r"(<pre\b.*?</pre>)", re.DOTALL)
_NAME = re.compile(r"(?<=<code>)[^<]{12,}(?=</code>)|(?<=-name\">)tf\.[^<]+")
_BREAK = re.compile(r"(?<=\w[._/=,(])(?=[\w&])|(?<=[a-z])(?=[A-Z])")


def _origin(src_uri: str) -> str:
    """Where a page of the site stands in the repository."""
    back = {place: path for path, place in PAGES.items() if place != "index.md"}
    return back.get(src_uri, f"docs/{src_uri}")


def _targets(text: str, src_uri: str) -> list[str]:
    """The files of the repository, by their path from its root, that a page links to."""
    links = [target for _, target, _ in _LINK.findall(_FENCE.sub("", text)) if "://" not in target]
    return [_resolved(target, src_uri) for target in links]


def _resolved(target: str, src_uri: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(_origin(src_uri)), target))


def _place(path: str) -> str | None:
    """Where a file of the repository stands in the site; a folder has no place."""
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"source/{path}.md" if (ROOT / path).is_file() else None


def _bent(text: str, src_uri: str) -> str:
    """The text of a page with its links as the site needs them."""

    def bend(match: re.Match[str]) -> str:
        words, target, part = match[1], match[2], match[3] or ""
        path = _resolved(target, src_uri)
        if "://" in target or not (ROOT / path).exists():  # a wrong link is left for mkdocs to complain about
            return match[0]
        place = _place(path)
        if place is None:
            return words
        return f"[{words}]({posixpath.relpath(place, posixpath.dirname(src_uri) or '.')}{part})"

    parts, end = [], 0
    for fence in _FENCE.finditer(text):
        parts += [_LINK.sub(bend, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, _LINK.sub(bend, text[end:])])


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that stand elsewhere in the repository, and the source files that pages link to."""
    for path, place in PAGES.items():
        if place != "index.md":
            files.append(File.generated(config, place, content=(ROOT / path).read_text(encoding="utf-8")))
    pages = list(files.documentation_pages())
    linked = {path for file in pages for path in _targets(file.content_string, file.src_uri)}
    linked |= {
        place[0] for _, own in public_names.entries() for _, value in own if (place := public_names.source(value))
    }
    linked = {path for path in linked if str(_place(path)).startswith("source/")}
    for path in sorted(linked):
        language = {".py": "python", ".toml": "toml"}.get(Path(path).suffix, "text")
        text = (ROOT / path).read_text(encoding="utf-8")
        page = f"---\nsearch:\n  exclude: true\n---\n# {path}\n\n`````{language}\n{text}`````\n"
        files.append(File.generated(config, f"source/{path}.md", content=page))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Bend the links that lead out of docs/, and set the rank of the page in the search."""
    page.meta.setdefault("search", {}).setdefault("boost", search_boost.boost(page.file.src_uri))
    return markdown if page.file.src_uri.startswith("source/") else _bent(markdown, page.file.src_uri)


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Draw formulas, and resolve the links of notebooks to other pages: only those of Markdown pages are resolved."""
    if page.file.src_uri.startswith("source/"):
        return html
    html = mathematics.rendered(html)
    if not page.file.src_uri.endswith(".ipynb"):
        return html

    def resolve(match: re.Match[str]) -> str:
        target = files.get_file_from_path(_resolved(match[1], page.file.src_uri).removeprefix("docs/"))
        return match[0] if target is None else f'href="{target.url_relative_to(page.file)}{match[2] or ""}"'

    return re.sub(r'href="([^":#]+\.md)(#[^"]*)?"', resolve, html)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Let long names break after a dot or an underscore, and before a capital: never in the middle of a word."""
    parts = _PREFORMATTED.split(output)
    parts[::2] = [_NAME.sub(lambda name: _BREAK.sub("<wbr>", name[0]), part) for part in parts[::2]]
    return "".join(parts)


_LABELS, _SEPARATED = "=e+s+o.id}return e", '=e+","+s+o.id}return e'


def on_post_build(config: Any) -> None:
    """Repair the search: lunr takes nodes of its index for equal if labels and numbers of their edges run together.

    An edge "1" to node 23 and an edge "12" to node 3 then look alike, and some words find nothing.
    """
    workers = list((Path(config["site_dir"]) / "assets" / "javascripts" / "workers").glob("search.*.js"))
    texts = {path: path.read_text(encoding="utf-8") for path in workers}
    if [text.count(_LABELS) for text in texts.values()] != [1]:
        raise PluginError("The search of the theme has changed: does lunr.TokenSet.toString separate its labels now?")
    for path, text in texts.items():
        path.write_text(text.replace(_LABELS, _SEPARATED), encoding="utf-8")
