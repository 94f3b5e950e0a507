"""How tensors, variables and tapes look in a notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src.inspect.tables import bytes_text, shape_text

if TYPE_CHECKING:
    from gradtape._src.autodiff.gradient_tape import GradientTape
    from gradtape._src.tensor import Tensor
    from gradtape._src.variable import Variable

EDGE = 5
"""Of a long axis, the first and the last so many entries are shown."""

_CELL = 'style="text-align:right;font-variant-numeric:tabular-nums'


def tensor(value: Tensor) -> str:
    """A tensor as HTML: what it is, and its numbers as a table where it has one or two axes."""
    return _card("tf.Tensor", value.array)


def variable(value: Variable) -> str:
    """A variable as HTML; looking at it is no reading of it."""
    fixed = "" if value.trainable else ", not trainable"
    return _card(f"tf.Variable {escape(repr(value.name.removesuffix(':0')))}{fixed}", value._tensor.array)


def tape(value: GradientTape) -> str:
    """A tape as HTML: its summary, with the picture left to `show`."""
    from gradtape._src.inspect.summary import summary

    return summary(value, max_rows=12)._repr_html_()


def _card(title: str, array: Any) -> str:
    if not isinstance(array, np.ndarray):
        return f"<code>{escape(title)}: {escape(repr(array))}</code>"
    facts = [f"shape {shape_text(array.shape)}", str(array.dtype), bytes_text(array.nbytes)]
    if array.size > 1 and array.dtype.kind in "fiu":
        facts.append(_spread(array))
    head = f"<div><strong>{title}</strong> <span>{escape(' · '.join(f for f in facts if f))}</span>"
    if array.ndim in (1, 2) and array.size:
        return f"{head}{_table(array if array.ndim == 2 else array[None, :])}</div>"
    text = np.array2string(array, threshold=60, edgeitems=2) if array.ndim else str(array[()])
    return f"{head}<pre>{escape(text)}</pre></div>"


def _spread(array: np.ndarray) -> str:
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
    parts = ['<table style="border-collapse:collapse">']
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
    """A number on a ground that is the stronger the larger it is: blue above zero, red below; NaN and Inf stand out."""
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
