"""Arrays in notebooks, and sizes as text."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

EDGE = 5
"""The number of entries that are shown at each end of a long axis."""

_TABLE = '<table style="border-collapse:collapse">'
_CELL = 'style="text-align:right;font-variant-numeric:tabular-nums'


def bytes_text(n: int | None) -> str:
    """>>> bytes_text(0), bytes_text(640), bytes_text(1536), bytes_text(5 * 2**20), bytes_text(None)
    ('0 B', '640 B', '1.5 KiB', '5.0 MiB', '-')
    """
    if n is None:
        return "-"
    size = float(n)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{n} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def card(title: str, array: Any) -> str:
    """An array as HTML: its description, and its elements as a table if it has one or two axes."""
    if not isinstance(array, np.ndarray):
        return f"<code>{escape(title)}: {escape(repr(array))}</code>"
    if array.dtype.kind in "OSU":  # strings; the array holds references to them
        array, facts = _quoted(array), [f"shape {array.shape}", "string"]
    else:
        facts = [f"shape {array.shape}", str(array.dtype), bytes_text(array.nbytes)]
    if array.size > 1 and array.dtype.kind in "fiu":
        facts.append(_range(array))
    head = _head(title, facts)
    if array.ndim in (1, 2) and array.size:
        return f"{head}{_table(array if array.ndim == 2 else array[None, :])}</div>"
    text = np.array2string(array, threshold=60, edgeitems=2) if array.ndim else str(array[()])
    return f"{head}<pre>{escape(text)}</pre></div>"


def ragged_card(title: str, rows: list[Any], facts: list[str]) -> str:
    """Rows of different lengths as HTML."""
    parts = []
    for i in _shown(len(rows)):
        cells = [] if i is None else [None if j is None else rows[i][j] for j in _shown(len(rows[i]))]
        shown = ["⋮"] if i is None else ["…" if c is None else escape(_text(c)) for c in cells]
        row = "".join([f'<td {_CELL}">{text}</td>' for text in shown])
        parts.append(f"<tr>{row}</tr>")
    return f"{_head(title, facts)}{_TABLE}{''.join(parts)}</table></div>"


def sparse_card(title: str, places: Any, values: Any, facts: list[str]) -> str:
    """The elements or slices at some places as HTML."""
    parts = []
    for i in _shown(len(values)):
        where, what = ("⋮", "") if i is None else (str(np.asarray(places[i]).tolist()), _text(values[i]))
        parts.append(f'<tr><td><code>{escape(where)}</code></td><td {_CELL}">{escape(what)}</td></tr>')
    return f"{_head(title, facts)}{_TABLE}{''.join(parts)}</table></div>"


def _head(title: str, facts: list[str]) -> str:
    return f"<div><strong>{title}</strong> <span>{escape(' · '.join(f for f in facts if f))}</span>"


def _text(value: Any) -> str:
    """An element, or the elements of a slice."""
    if isinstance(value, (bytes, str)):
        return repr(value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value)
    if isinstance(value, (float, np.floating)):
        return f"{value:.4g}"
    if isinstance(value, np.ndarray):
        return np.array2string(value, threshold=12, edgeitems=3, precision=4)
    return str(value)


def _quoted(array: np.ndarray) -> np.ndarray:
    texts = np.empty(array.shape, object)
    for index, value in np.ndenumerate(array):
        texts[index] = _text(value)
    return texts


def _range(array: np.ndarray) -> str:
    finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array
    parts = []
    if finite.size:
        low, mean, high = finite.min(), finite.mean(dtype=np.float64), finite.max()
        parts.append(f"min {low:.4g}, mean {mean:.4g}, max {high:.4g}")
    if finite.size < array.size:
        parts.append(f"{array.size - finite.size:,} not finite")
    return ", ".join(parts)


def _table(array: np.ndarray) -> str:
    rows, columns = (_shown(n) for n in array.shape)
    scale = _scale(array)
    parts = [_TABLE]
    for i in rows:
        if i is None:
            parts.append(f'<tr><td colspan="{len(columns)}" style="text-align:center">⋮</td></tr>')
            continue
        cells = [f'<td {_CELL}">…</td>' if j is None else _cell(array[i, j], scale) for j in columns]
        parts.append(f"<tr>{''.join(cells)}</tr>")
    return "".join(parts) + "</table>"


def _shown(n: int) -> list[int | None]:
    return list(range(n)) if n <= 2 * EDGE + 1 else [*range(EDGE), None, *range(n - EDGE, n)]


def _scale(array: np.ndarray) -> float:
    if array.dtype.kind not in "fiu" or array.size < 2:
        return 0.0
    sizes = np.abs(array[np.isfinite(array)].astype(np.float64)) if array.dtype.kind == "f" else np.abs(array)
    return float(sizes.max()) if sizes.size else 0.0


def _cell(value: Any, scale: float) -> str:
    """An element with a background color: the larger, the stronger; blue above zero, red below; NaN
    and Inf stand out.
    """
    if isinstance(value, np.floating):
        text = f"{value:.4g}"
        if not np.isfinite(value):
            return f'<td {_CELL};background:#d33;color:#fff">{text}</td>'
    else:
        text = escape(str(value))
    if not scale or not isinstance(value, (np.floating, np.integer)):
        return f'<td {_CELL}">{text}</td>'
    colour = "66,133,244" if value >= 0 else "219,68,55"
    return f'<td {_CELL};background:rgba({colour},{0.35 * abs(float(value)) / scale:.2f})">{text}</td>'
