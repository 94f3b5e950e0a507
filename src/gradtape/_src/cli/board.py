"""``gradtape board``: the summaries of a folder as one HTML page, without a server."""

from __future__ import annotations

import base64
import html
import json
import math
import os
import webbrowser
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

import numpy as np

from gradtape._src.cli import UsageError
from gradtape._src.cli.arguments import Parser, positive
from gradtape._src.errors import OpError
from gradtape._src.formats import atomic
from gradtape._src.formats.event import Event
from gradtape._src.formats.event_file import event_files, read_events
from gradtape._src.formats.schema import Record
from gradtape._src.formats.tensor_proto import parsed

__all__ = ["collect", "main", "page"]

DESCRIPTION = """\
Writes the summaries in LOGDIR and its subdirectories to one HTML page: curves, histograms, images, text and audio.
The page needs no server and no network; you can send it, or archive it with your results."""

EPILOG = """\
examples:
  gradtape board logs                  writes logs/board.html
  gradtape board logs -o run.html      writes another file
  gradtape board logs --open           also opens it in the browser"""

_KINDS = {"scalars": "scalars", "histograms": "histograms", "images": "images", "text": "texts", "audio": "audio"}
"""The parts of the page for TensorBoard's plugins."""


def main(arguments: Sequence[str]) -> int:
    """Write the page, and print its path."""
    parser = Parser("board", DESCRIPTION, EPILOG)
    parser.add_argument(
        "logdir", metavar="LOGDIR", help="the directory with event files, or with subdirectories that have them"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write the page (LOGDIR/board.html)")
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    parser.add_argument("--images", metavar="N", type=positive(int), default=10,
                        help="number of steps of each tag for which to show images, text and audio (10)")  # fmt: skip
    options = parser.parse_args(list(arguments))
    if not os.path.isdir(options.logdir):
        raise UsageError(f"{options.logdir!r} is no folder", status=1)
    output = options.output or os.path.join(options.logdir, "board.html")
    data = collect(options.logdir, int(options.images))
    if not data["runs"]:
        raise UsageError(f"there are no event files in {options.logdir!r}", status=1)
    text = page(data, os.path.basename(os.path.abspath(options.logdir)))
    atomic.write(output, lambda file: file.write(text.encode()))
    count = sum(len(data[kind]) for kind in _KINDS.values())
    runs = len(data["runs"])
    print(f"{output}: {runs} run{'s' * (runs != 1)}, {count} tag{'s' * (count != 1)}, {len(text) / 1e6:.1f} MB")
    if options.open:
        webbrowser.open(f"file://{os.path.abspath(output)}")
    return 0


def page(data: dict[str, Any], title: str) -> str:
    """The page as text. Nothing of the data can be read as HTML.

    >>> "<title>a &lt; b</title>" in page(collect("."), "a < b")
    True
    """
    template = resources.files("gradtape._src.cli").joinpath("board.html").read_text("utf-8")
    head, _, rest = template.partition(">DATA<")
    text = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return f"{head.replace('TITLE', html.escape(title))}>{text}<{rest}"


def collect(logdir: str, steps: int = 10) -> dict[str, Any]:
    """The data of the page: see the head of board.html. At most `steps` images, texts and sounds, evenly chosen."""
    data: dict[str, Any] = {"runs": [], **{kind: {} for kind in _KINDS.values()}}
    for folder, _, names in sorted(os.walk(logdir)):
        if any("tfevents" in name for name in names):
            run = len(data["runs"])
            data["runs"].append(os.path.relpath(folder, logdir))
            for (kind, tag), points in _points(folder).items():
                data[kind].setdefault(tag, []).append([run, *_SHOWN[kind](points, steps)])
    for kind in _KINDS.values():
        data[kind] = dict(sorted(data[kind].items()))
    return data


_Point = tuple[int, float, Any]


def _points(folder: str) -> dict[tuple[str, str], list[_Point]]:
    """The step, time and value of each summary, sorted by step, by (part, tag)."""
    found: dict[tuple[str, str], list[_Point]] = {}
    plugins: dict[str, str] = {}
    start: float | None = None
    for path in event_files(folder):
        for event in read_events(path):
            start = event.wall_time if start is None else start
            for value in _values(event):
                plugin = plugins.setdefault(value.tag, _plugin(value))
                content = _content(value) if plugin in _KINDS else None
                if content is not None:
                    point = event.step, event.wall_time - start, content
                    found.setdefault((_KINDS[plugin], value.tag), []).append(point)
    for points in found.values():
        points.sort(key=lambda point: point[0])
    return found


def _values(event: Event) -> Sequence[Any]:
    return event.summary.value if event.WhichOneof("what") == "summary" else ()


_FIRST_VERSION = {"simple_value": "scalars", "image": "images", "histo": "histograms", "audio": "audio"}


def _plugin(value: Record) -> str:
    """The plugin that shows a value; summaries of TensorFlow 1 have a field for each kind instead."""
    return _FIRST_VERSION.get(value.WhichOneof("value") or "") or str(value.metadata.plugin_data.plugin_name)


def _content(value: Record) -> Any:
    """The numbers, bytes or strings of a value; None if they cannot be read."""
    kind = value.WhichOneof("value")
    if kind == "simple_value":
        return float(value.simple_value)
    if kind == "image":
        return np.array([b"", b"", value.image.encoded_image_string], object)
    if kind == "audio":
        return np.array([[value.audio.encoded_audio_string, b""]], object)
    if kind == "histo":
        limits, counts = list(value.histo.bucket_limit), list(value.histo.bucket)
        edges = [value.histo.min, *limits[:-1]]
        return np.array([edges, limits, counts]).T if len(limits) == len(counts) else None
    if kind != "tensor":
        return None
    try:
        return parsed(value.tensor.SerializeToString()).numpy()
    except OpError:
        return None


# -- parts of the page -----------------------------------------------------------------------------------------------
_MOST = 2000  # points of a curve: it has fewer pixels


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _curve(points: list[_Point], steps: int) -> list[Any]:
    if len(points) > _MOST:
        points = [points[i] for i in _chosen(len(points), _MOST)]
    values = [_finite(float(f"{float(np.ravel(value)[0]):.7g}")) if np.size(value) else None for *_, value in points]
    return [[step for step, *_ in points], [round(seconds, 3) for _, seconds, _ in points], values]


def _histogram(points: list[_Point], steps: int) -> list[Any]:
    rows = []
    for step, _, table in points:
        if np.ndim(table) == 2 and len(table) and np.isfinite(table).all():
            rows.append([step, table[:, 0].tolist(), float(table[-1, 1]), table[:, 2].tolist()])
    return [rows]


def _chosen(count: int, most: int) -> list[int]:
    """At most `most` positions of a list, evenly chosen, including the first and the last."""
    kept = min(count, most)
    return [round(i * (count - 1) / max(1, kept - 1)) for i in range(kept)]


def _files(kind: str, parts: Callable[[Any], Any]) -> Callable[[list[_Point], int], list[Any]]:
    def shown(points: list[_Point], steps: int) -> list[Any]:
        rows = []
        for i in _chosen(len(points), steps):
            step, _, value = points[i]
            urls = [f"data:{_type_of(file, kind)};base64,{base64.b64encode(file).decode()}" for file in parts(value)]
            rows.append([step, urls])
        return [rows]

    return shown


def _type_of(file: bytes, kind: str) -> str:
    if kind == "audio/wav":
        return kind
    return {b"\xff\xd8": "image/jpeg", b"GI": "image/gif"}.get(file[:2], "image/png")


def _texts(points: list[_Point], steps: int) -> list[Any]:
    rows = []
    for i in _chosen(len(points), steps):
        step, _, value = points[i]
        rows.append([step, _lines(np.asarray(value, object))])
    return [rows]


def _lines(texts: np.ndarray) -> str:
    if not texts.ndim:
        return bytes(texts.item()).decode("utf-8", "replace")
    return ("\t" if texts.ndim == 1 else "\n").join(_lines(np.asarray(row, object)) for row in texts)


_SHOWN: dict[str, Callable[[list[_Point], int], list[Any]]] = {
    "scalars": _curve,
    "histograms": _histogram,
    "images": _files("image/png", lambda value: value[2:]),
    "texts": _texts,
    "audio": _files("audio/wav", lambda value: value[:, 0]),
}
