"""A sparsity pattern as a picture: a square for each entry, with a tint for the pass that computes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from gradtape._src.autodiff.sparsity import Sparsity

_CELLS = 120
"""The number of cells along the longer side for larger matrices; a cell is drawn if it contains an entry."""


def to_svg(plan: Sparsity, size: int) -> str:
    """See `Sparsity.to_svg`."""
    longest = max(*plan.shape, 1)
    cells = min(longest, _CELLS)
    side = size / cells
    rows, columns = plan.rows * cells // longest, plan.columns * cells // longest
    colors = plan.color_of_entries()
    _, first = np.unique(rows * cells + columns, return_index=True)
    height, width = (max(n * size / longest, side) for n in plan.shape)
    marks = "".join(
        f'<rect x="{columns[i] * side:.1f}" y="{rows[i] * side:.1f}" width="{side:.1f}" height="{side:.1f}" '
        f'fill="{_tint(int(colors[i]), plan.passes)}"/>'
        for i in first.tolist()
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + 2:.0f}" height="{height + 2:.0f}" '
        f'viewBox="-1 -1 {width + 2:.1f} {height + 2:.1f}"><title>{_escaped(repr(plan))}</title>'
        f'<rect width="{width:.1f}" height="{height:.1f}" fill="white" stroke="#888"/>{marks}</svg>'
    )


def _tint(color: int, count: int) -> str:
    """A color for each pass, far from each other around the color wheel."""
    return f"hsl({round(360 * ((color * 0.618034) % 1 if count > 6 else color / max(count, 1)))},65%,45%)"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
