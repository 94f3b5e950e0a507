"""`tape.show()` and others: the graph of a tape as a page, as SVG, and in the languages of Graphviz and Mermaid."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from html import escape
from importlib import resources
from itertools import pairwise, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradtape._src.call_sites import user_frame
from gradtape._src.core.primitive import CATEGORIES
from gradtape._src.inspect import layout
from gradtape._src.inspect.layout import Box
from gradtape._src.inspect.op_names import op_shown_as
from gradtape._src.inspect.op_table import OpTable, Row, Source, op_table
from gradtape._src.inspect.tables import bytes_text, line_text, plural, shape_text, time_text
from gradtape._src.tensor import CONSTANT, Tensor
from gradtape._src.variable import Variable

if TYPE_CHECKING:
    from gradtape._src.autodiff.gradient_tape import Tape

TIMES = "\u00d7"
MOST_OPS = 20_000
"""The largest number of ops that the page draws: the last ones of the tape."""

KINDS = (*CATEGORIES[:-1], "no gradient", CATEGORIES[-1])


def kind_of(op: str, differentiable: bool) -> str:
    """The category of a primitive, for its colour.

    >>> kind_of("matmul", True), kind_of("tanh", True), kind_of("argmax", False)
    ('linear algebra', 'activation', 'no gradient')
    """
    if not differentiable:
        return "no gradient"
    found = op_shown_as(op)
    return "other" if found is None else found.category


# -- the graph -------------------------------------------------------------------------------------------------------
class _Graph:
    """The ops and sources of a tape with their edges, for all pictures."""

    def __init__(self, facts: OpTable) -> None:
        self.facts = facts
        rows = facts.rows
        self.left_out = max(0, len(rows) - MOST_OPS)
        self.rows = rows[self.left_out :]
        producer = {uid: i for i, row in enumerate(self.rows) for uid in row.outputs}
        self.sources: list[tuple[Source, int]] = []  # with its uid
        self.operands: list[list[str]] = [[] for _ in self.rows]  # numbers that are shown in the op itself
        self.edges: list[tuple[int, int]] = []  # from an op (i) or a source (-1 - k) to an op
        numbered: dict[int, int] = {}
        for i, row in enumerate(self.rows):
            taken = set()
            for position, uid in enumerate(row.inputs):
                if uid in producer and producer[uid] < i:
                    begin = producer[uid]
                elif uid == CONSTANT:
                    constant = facts.constants.get((row.index, position))
                    if constant is None or not constant.shape:
                        if constant is not None and constant.shape is not None:
                            self.operands[i].append(constant.name)
                        continue
                    begin = self._add(constant, CONSTANT)
                else:
                    if uid not in numbered:
                        unknown = Source(f"t{uid}", "earlier", facts.names.get(uid, "earlier value"), None, "", None)
                        numbered[uid] = self._add(facts.sources.get(uid, unknown), uid)
                    begin = numbered[uid]
                if begin not in taken:
                    taken.add(begin)
                    self.edges.append((begin, i))
        self.targets = {producer[uid] for uid in facts.targets if uid in producer}
        self.requested = {producer[uid] for uid in facts.requested if uid in producer}
        self.requested_sources = {k for k, (_, uid) in enumerate(self.sources) if uid in facts.requested}
        self.target_sources = {k for k, (_, uid) in enumerate(self.sources) if uid and uid in facts.targets}

    def _add(self, source: Source, uid: int) -> int:
        self.sources.append((source, uid))
        return -len(self.sources)

    def label(self, i: int) -> str:
        row = self.rows[i]
        return " ".join([row.op, *self.operands[i]])

    def source_label(self, k: int) -> str:
        source = self.sources[k][0]
        return source.name if source.shape is None else f"{source.name} {shape_text(source.shape)}"


class _Picture:
    """A graph with a layout."""

    def __init__(self, graph: _Graph, most: int | None = None) -> None:
        self.graph = graph
        rows = graph.rows
        have_lines = any(row.line is not None for row in rows)
        signatures = [(row.op, len(row.inputs), row.line if have_lines else row.shapes) for row in rows]
        lines = [row.line[1] if row.line is not None else 10**9 for row in rows] if have_lines else None
        self.root = layout.tree(signatures, graph.edges, lines)
        self.ops: dict[int, Box] = {box.key: box for box in self.root.walk() if box.kind == "op"}
        for i, box in self.ops.items():
            text = max(len(graph.label(i)) * 9.0, len(_output_text(rows[i])) * 6.6)
            box.width, box.height = min(max(96.0, text + 26), 260.0), 44.0
        if most is not None:
            layout.close_rounds(self.root)
            if len(rows) > most:
                layout.collapse(self.root, most)
        self.sources = [self._source(k) for k in range(len(graph.sources))]
        for box in self.root.walk():
            if box.collapsed:
                text = max(7.4 * len(self.title(box)) + 30, 6.2 * len(_collapsed_facts(self.graph, box)) + 24)
                box.width, box.height = min(max(150.0, text), 380.0), 62.0
        between = [(self.sources[-1 - u] if u < 0 else self.ops[u], self.ops[v]) for u, v in graph.edges]
        self.routes = layout.place(self.root, between)

    def _source(self, k: int) -> Box:
        """Place a source in the smallest box that contains all ops that take it."""
        box = Box("source", key=k, width=min(max(70.0, 7.4 * len(self.graph.source_label(k)) + 20), 340.0), height=32.0)
        takers = self._takers().get(k, [])
        home = self.ops[takers[0]].parent if takers else self.root
        while (
            home is not self.root
            and home is not None
            and (home.kind in ("repeat", "run", "rest") or not all(home.first <= i < home.last for i in takers))
        ):
            home = home.parent
        home = home or self.root
        box.parent = home
        home.children.append(box)
        return box

    def _takers(self) -> dict[int, list[int]]:
        if not hasattr(self, "_taken"):
            self._taken: dict[int, list[int]] = {}
            for u, v in self.graph.edges:
                if u < 0:
                    self._taken.setdefault(-1 - u, []).append(v)
        return self._taken

    def title(self, box: Box) -> str:
        """The label of a box of ops."""
        rows = self.graph.rows[box.first : box.last]
        if box.kind == "run":
            return f"{rows[0].op} {TIMES}{len(rows)}"
        if box.kind in ("repeat", "rest"):
            period = box.children[0].last - box.children[0].first
            return f"{self._words(rows[:period])}  {TIMES}{len(rows) // period}"
        if box.kind == "round" and box.parent is not None:
            whole = box.parent
            return f"{(box.first - whole.first) // len(rows) + 1} of {(whole.last - whole.first) // len(rows)}"
        return self._words(rows)

    @staticmethod
    def _words(rows: Sequence[Row]) -> str:
        """The layer or scope of all of the ops, or else their names."""
        shared = _common_scope(rows)
        if shared:
            return shared
        if len(rows) <= 4:
            return " → ".join(row.op for row in rows)
        common = Counter(row.op for row in rows).most_common(3)
        return ", ".join(f"{op} {TIMES}{n}" if n > 1 else op for op, n in common) + ("…" if len(common) == 3 else "")


def _common_scope(rows: Sequence[Row]) -> str:
    """The common scope of ops (`model/dense` for `model/dense/act` and `model/dense`), or an empty string."""
    paths = [row.scope.split("/") if row.scope else [] for row in rows]
    levels = takewhile(lambda level: len(set(level)) == 1, zip(*paths, strict=False))
    return "/".join(level[0] for level in levels)


def _output_text(row: Row) -> str:
    return ", ".join(map(shape_text, row.shapes)) if len(row.shapes) <= 3 else f"{len(row.shapes)} outputs"


def _names_around() -> dict[int, str]:
    """The names of the caller's variables that refer to tensors and variables."""
    frame = user_frame()
    names: dict[int, str] = {}
    if frame is None:
        return names
    for scope in (frame.f_globals, frame.f_locals):
        for name, value in list(scope.items()):
            if name.startswith("_"):
                continue
            if isinstance(value, (Tensor, Variable)):
                names[value.uid] = name
            elif type(value) in (list, tuple, dict) and len(value) <= 1000:
                pairs = value.items() if type(value) is dict else enumerate(value)
                for key, item in pairs:
                    if isinstance(item, (Tensor, Variable)):
                        names.setdefault(item.uid, f"{name}[{key!r}]")
    return names


def _graph(tape: Tape, target: Any, sources: Any) -> _Graph:
    return _Graph(op_table(tape, target, sources, _names_around()))


# -- the page --------------------------------------------------------------------------------------------------------
def show(tape: Tape, path: str | os.PathLike[str] | None = None, target: Any = None, sources: Any = None) -> Any:
    """See `GradientTape.show`."""
    written = None if path is None else _WRITERS.get(Path(path).suffix.lower())
    if path is not None and written is not None:
        Path(path).write_text(written(tape, target, sources), "utf-8")
        return os.fspath(path)
    page = Page(_graph(tape, target, sources))
    return page if path is None else page.save(path)


class Page:
    """A page that draws a tape."""

    def __init__(self, graph: _Graph) -> None:
        self.data = _page_data(_Picture(graph))
        """The data for the page: see the head of page.html."""

    @property
    def html(self) -> str:
        """The whole page."""
        template = resources.files("gradtape._src.inspect").joinpath("page.html").read_text("utf-8")
        data = json.dumps(self.data, separators=(",", ":"), ensure_ascii=False)
        # A script must not contain anything that looks like its end.
        data = data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
        return template.replace("/*DATA*/null", data, 1)

    def save(self, path: str | os.PathLike[str]) -> str:
        """Write the page and return its path."""
        suffix = Path(path).suffix.lower()
        if suffix not in ("", ".html", ".htm"):
            raise ValueError(
                f"The page of a tape is HTML, not {suffix!r}: use a file name that ends in .html. tape.show(path) "
                f"can also write {', '.join(_WRITERS)}."
            )
        Path(path).write_text(self.html, "utf-8")
        return os.fspath(path)

    def _repr_html_(self) -> str:
        frame = 'width="100%" height="600" style="border:1px solid #8884;border-radius:8px" title="picture of a tape"'
        return f'<iframe srcdoc="{escape(self.html)}" {frame}></iframe>'

    def __repr__(self) -> str:
        return f"<picture of a tape with {plural(len(self.data['ops']), 'op')}: .save(path) writes the page>"


def _page_data(picture: _Picture) -> dict[str, Any]:
    graph, facts = picture.graph, picture.graph.facts
    lines: dict[str, int] = {}
    boxes = [box for box in picture.root.walk() if box.kind not in ("op", "source")]
    number = {id(box): k for k, box in enumerate(boxes)}
    edges = [
        [u, v, *[round(n, 1) for point in route for n in point]]
        for (u, v), route in zip(graph.edges, picture.routes, strict=True)
    ]
    remarks = [facts.remark] if facts.remark else []
    if graph.left_out:
        remarks.append(f"Only the last {MOST_OPS:,} of {len(facts.rows):,} ops are drawn.")
    return {
        "ops": [_op_data(picture, i, number, lines) for i in range(len(graph.rows))],
        "sources": [_source_data(picture, k, number) for k in range(len(graph.sources))],
        "groups": [_group_data(picture, box, number) for box in boxes],
        "edges": edges,
        "kinds": KINDS,
        "lines": list(lines),
        "state": facts.state,
        "remarks": remarks,
        "saved": _total([row.saved for row in facts.rows]),
        "forward": _total([row.forward for row in facts.rows]),
        "backward": _total([row.backward for row in facts.rows]),
    }


def _place(box: Box) -> list[float]:
    return [round(box.x, 1), round(box.y, 1), round(box.width, 1), round(box.height, 1)]


def _op_data(picture: _Picture, i: int, number: dict[int, int], lines: dict[str, int]) -> list[Any]:
    """The data of an op for the page; lines of the user's code are numbered."""
    graph, box = picture.graph, picture.ops[i]
    row = graph.rows[i]
    text = "" if row.line is None else f"{row.line[0]}:{row.line[1]}"
    cell = line_text(row.line)
    text = cell if cell.startswith("cell ") else text
    return [
        row.index,
        row.op,
        graph.label(i),
        *_place(box),
        number[id(box.parent)],
        _output_text(row),
        ", ".join(dict.fromkeys(row.dtypes)),
        row.saved,
        row.forward,
        row.backward,
        lines.setdefault(text, len(lines)) if text else -1,
        -1 if row.used is None else int(row.used),
        KINDS.index(kind_of(row.op, row.differentiable)),
        (1 if i in graph.targets else 0) | (2 if i in graph.requested else 0),
        " · ".join(filter(None, (row.scope, row.attrs))),
    ]


def _source_data(picture: _Picture, k: int, number: dict[int, int]) -> list[Any]:
    graph, box = picture.graph, picture.sources[k]
    source, _ = graph.sources[k]
    return [
        source.name,
        source.kind,
        *_place(box),
        number[id(box.parent)],
        "" if source.shape is None else shape_text(source.shape),
        source.dtype,
        source.nbytes,
        (1 if k in graph.target_sources else 0) | (2 if k in graph.requested_sources else 0),
    ]


def _group_data(picture: _Picture, box: Box, number: dict[int, int]) -> list[Any]:
    rows = picture.graph.rows[box.first : box.last]
    return [
        box.kind,
        "" if box.kind == "root" else picture.title(box),
        *_place(box),
        -1 if box.parent is None else number[id(box.parent)],
        box.first,
        box.last,
        _total([row.saved for row in rows]),
        _total([row.forward for row in rows]),
        _total([row.backward for row in rows]),
    ]


def _total(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


# -- SVG -------------------------------------------------------------------------------------------------------------
COLOURS = ("#7c9cf5", "#f2a65a", "#e4717a", "#5fb3a1", "#9aa5b1", "#b08bd9", "#d9d9d9", "#c9b458")
_SOURCE_COLOURS = {"variable": "#2f6fde", "watched": "#2e9e5b", "constant": "#8a8f98", "earlier": "#8a8f98"}
_STYLE = (
    "text{font:13px system-ui,-apple-system,Segoe UI,Helvetica,Arial,sans-serif;fill:#1c2330}"
    ".s{font-size:11px;fill:#566072}.e{fill:none;stroke:#8793a6;stroke-width:1.3}.far{stroke-opacity:.35}"
    ".b{fill:#8793a614;stroke:#8793a6;stroke-dasharray:4 3}.n{stroke:#1c233033}.p{opacity:.35}"
    ".w{fill:#fff}.t{stroke:#d6336c;stroke-width:3}.a{stroke:#2f6fde;stroke-width:3}"
)


def to_svg(tape: Tape, target: Any = None, sources: Any = None, max_ops: int = 400) -> str:
    """See `GradientTape.to_svg`."""
    picture = _Picture(_graph(tape, target, sources), max_ops)
    graph, root = picture.graph, picture.root
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {root.width:.0f} {root.height:.0f}" '
        f'width="{root.width:.0f}" height="{root.height:.0f}" role="img" aria-label="A tape: '
        f'{plural(len(graph.rows), "op")}"><style>{_STYLE}</style><rect class="w" width="100%" height="100%"/>'
    ]
    visible = _visible(root)
    parts += [_svg_group(box, picture.title(box)) for box in visible if box.children and not box.collapsed]
    drawn = set()
    fan = Counter(u for u, _ in {(u, id(picture.ops[v].seen())) for u, v in graph.edges})
    for (u, v), route in zip(graph.edges, picture.routes, strict=True):
        a, b = (picture.sources[-1 - u] if u < 0 else picture.ops[u]).seen(), picture.ops[v].seen()
        if a is not b and (id(a), id(b)) not in drawn:
            drawn.add((id(a), id(b)))
            parts.append(f'<path class="e{" far" if fan[u] > layout.FAN else ""}" d="{_curve(a, b, route)}"/>')
    for box in visible:
        if box.kind == "source":
            parts.append(_svg_source(graph, box))
        elif box.kind == "op":
            parts.append(_svg_op(graph, box))
        elif box.collapsed:
            parts.append(_svg_collapsed(graph, box, picture.title(box)))
    return "".join(parts) + "</svg>"


def _visible(root: Box) -> list[Box]:
    found, stack = [], list(reversed(root.children))
    while stack:
        box = stack.pop()
        found.append(box)
        if not box.collapsed:
            stack.extend(reversed(box.children))
    return found


def _curve(a: Box, b: Box, route: layout.Route) -> str:
    """A curve from the bottom of one box to the top of another, through a route; like `curve` in page.html."""
    points = [(a.x + a.width / 2, a.y + a.height), *route, (b.x + b.width / 2, b.y)]
    parts = [f"M{points[0][0]:.0f},{points[0][1]:.0f}"]
    rises = [y1 < y0 - 1 for (_, y0), (_, y1) in pairwise(points)]
    for i, ((x0, y0), (x1, y1)) in enumerate(pairwise(points)):
        if abs(x0 - x1) < 0.5:
            parts.append(f"L{x1:.0f},{y1:.0f}")
            continue
        reach = (y1 - y0) / 2
        if rises[i]:
            low, high = y0 + 30, y1 - 30
        elif i + 1 < len(rises) and rises[i + 1]:  # turn from down to up, or from up to down
            low = high = y1 + 24
        elif i and rises[i - 1]:
            low = high = y0 - 24
        else:
            low, high = y0 + reach, y1 - reach
        parts.append(f"C{x0:.0f},{low:.0f} {x1:.0f},{high:.0f} {x1:.0f},{y1:.0f}")
    return " ".join(parts)


def _rect(box: Box, radius: int, more: str) -> str:
    return (
        f'<rect x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="{box.height:.0f}" rx="{radius}" '
        f"{more}/>"
    )


def _text(box: Box, dy: float, text: str, small: bool = False) -> str:
    most = int(box.width / (6.2 if small else 7.4))
    cut = text if len(text) <= most else text[: max(1, most - 1)] + "…"
    style = ' class="s"' if small else ""
    return (
        f'<text{style} x="{box.x + box.width / 2:.0f}" y="{box.y + dy:.0f}" text-anchor="middle">{escape(cut)}</text>'
    )


def _svg_group(box: Box, title: str) -> str:
    return (
        _rect(box, 10, 'class="b"') + f'<text class="s" x="{box.x + 10:.0f}" y="{box.y + 17:.0f}">'
        f"{escape(title)}</text>"
    )


def _svg_op(graph: _Graph, box: Box) -> str:
    row = graph.rows[box.key]
    colour = COLOURS[KINDS.index(kind_of(row.op, row.differentiable))]
    mark = " t" if box.key in graph.targets else " a" if box.key in graph.requested else ""
    pale = " p" if row.used is False else ""
    return (
        f'<g class="op{pale}"><title>{escape(_facts_text(row))}</title>'
        + _rect(box, 7, f'class="n{mark}" fill="{colour}" fill-opacity=".55"')
        + _text(box, 19, graph.label(box.key))
        + _text(box, 35, _output_text(row), True)
        + "</g>"
    )


def _facts_text(row: Row) -> str:
    facts = [f"#{row.index} {row.op} {_output_text(row)} {', '.join(dict.fromkeys(row.dtypes))}"]
    if row.scope:
        facts.append(row.scope)
    if row.saved is not None:
        facts.append(f"saved {bytes_text(row.saved)}")
    if row.forward is not None:
        facts.append(f"forward {time_text(row.forward)}")
    if row.backward is not None:
        facts.append(f"backward {time_text(row.backward)}")
    return " · ".join([*facts, line_text(row.line)] if row.line else facts)


def _svg_source(graph: _Graph, box: Box) -> str:
    source = graph.sources[box.key][0]
    mark = " t" if box.key in graph.target_sources else " a" if box.key in graph.requested_sources else ""
    title = f"{source.kind} {graph.source_label(box.key)} {source.dtype}"
    colour = _SOURCE_COLOURS[source.kind]
    return (
        f'<g class="source"><title>{escape(title)}</title>'
        + _rect(box, 16, f'class="n{mark}" fill="{colour}" fill-opacity=".22" stroke="{colour}"')
        + _text(box, 21, graph.source_label(box.key))
        + "</g>"
    )


def _collapsed_facts(graph: _Graph, box: Box) -> str:
    rows = graph.rows[box.first : box.last]
    facts = [plural(len(rows), "op")]
    saved, times = _total([r.saved for r in rows]), _total([r.forward for r in rows])
    facts += [bytes_text(saved)] if saved is not None else []
    facts += [time_text(times)] if times is not None else []
    return " · ".join(facts)


def _svg_collapsed(graph: _Graph, box: Box, title: str) -> str:
    return (
        f'<g class="group"><title>{escape(title)}</title>'
        + _rect(box, 10, 'class="n" fill="#8793a6" fill-opacity=".25" stroke-dasharray="4 3"')
        + _text(box, 27, title)
        + _text(box, 47, _collapsed_facts(graph, box), True)
        + "</g>"
    )


# -- text ------------------------------------------------------------------------------------------------------------
def to_dot(tape: Tape, target: Any = None, sources: Any = None) -> str:
    """See `GradientTape.to_dot`."""
    graph = _graph(tape, target, sources)
    lines = ["digraph tape {", "  rankdir=TB;", '  node [fontname="Helvetica", fontsize=11];']
    for k, (source, _) in enumerate(graph.sources):
        marked = k in graph.requested_sources or k in graph.target_sources
        label = _quoted(source.name, "" if source.shape is None else shape_text(source.shape))
        lines.append(f"  s{k} [label={label}, shape=ellipse{', penwidth=3' if marked else ''}];")
    for i, row in enumerate(graph.rows):
        extra = ", penwidth=3" if i in graph.targets or i in graph.requested else ""
        extra += ", style=dashed" if row.used is False else ""
        label = _quoted(graph.label(i), _output_text(row), line_text(row.line))
        lines.append(f"  n{i} [label={label}, shape=box{extra}];")
    lines += [f"  {_id(u)} -> n{v};" for u, v in graph.edges]
    return "\n".join([*lines, "}"])


def _id(u: int) -> str:
    return f"s{-1 - u}" if u < 0 else f"n{u}"


def _quoted(*lines: str) -> str:
    shown = [line.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") for line in lines if line]
    return '"' + "\\n".join(shown) + '"'


def to_mermaid(tape: Tape, target: Any = None, sources: Any = None) -> str:
    """See `GradientTape.to_mermaid`."""
    graph = _graph(tape, target, sources)
    lines = ["flowchart TD"]
    for k, (source, _) in enumerate(graph.sources):
        lines.append(f'  s{k}(["{_mermaid(source.name, "" if source.shape is None else shape_text(source.shape))}"])')
    for i, row in enumerate(graph.rows):
        lines.append(f'  n{i}["{_mermaid(graph.label(i), _output_text(row), line_text(row.line))}"]')
    lines += [f"  {_id(u)} --> n{v}" for u, v in graph.edges]
    marked = [f"n{i}" for i in sorted(graph.targets)] + [f"s{k}" for k in sorted(graph.target_sources)]
    requested = [f"n{i}" for i in sorted(graph.requested)] + [f"s{k}" for k in sorted(graph.requested_sources)]
    pale = [f"n{i}" for i, row in enumerate(graph.rows) if row.used is False]
    for name, style, nodes in (
        ("target", "stroke:#d6336c,stroke-width:3px", marked),
        ("source", "stroke:#2f6fde,stroke-width:3px", requested),
        ("unused", "opacity:0.4", pale),
    ):
        if nodes:
            lines += [f"  classDef {name} {style}", f"  class {','.join(nodes)} {name}"]
    return "\n".join(lines)


def _mermaid(*lines: str) -> str:
    """Escape all characters except letters, digits and a few harmless signs by their codes."""
    shown = ["".join(c if c.isalnum() or c in " _.,-:/" else f"#{ord(c)};" for c in line) for line in lines if line]
    return "<br/>".join(shown)


_WRITERS = {".svg": to_svg, ".dot": to_dot, ".gv": to_dot, ".mmd": to_mermaid, ".mermaid": to_mermaid}
"""Functions that write a tape to a file, by file extension; all other files are pages."""
