"""Write docs/images/speed.svg: the times of the README's table as bars, for the landing page.

python docs/make_chart.py
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
ROWS = {
    "1000 small ops, forward and gradient": "1000 small ops",
    "training step, 3-layer network, batch 32": "training step, batch 32",
    "recurrent network, 100 steps": "recurrent network",
    "Jacobian, 512 by 8192": "Jacobian, 512 by 8192",
    "Hessian in 200 dimensions": "Hessian, 200 by 200",
    "per-example gradients, batch 64": "per-example gradients",
}
"""Rows of the table, and what the chart calls them."""
COLUMNS = {"gradtape": "#0a8f87", "TensorFlow 2.21": "#f2a65a", "PyTorch 2.13": "#b08bd9"}
WIDTH, BAR, GROUP = 520, 13, 60  # narrow, so that the text is legible on a phone
_LEFT, _ROOM = 180, 266


def times() -> dict[str, dict[str, float]]:
    """The milliseconds of each row, by library."""
    text = (HERE.parent / "README.md").read_text(encoding="utf-8")
    lines = re.search(r"^\| \| gradtape \|.*\n(?:\|.*\n)+", text, re.MULTILINE)
    assert lines is not None
    head, _, *rows = ([cell.strip() for cell in line.strip("| ").split("|")] for line in lines[0].splitlines())
    libraries = head if head[0] else head[1:]
    found = {row[0]: dict(zip(libraries, row[1:], strict=True)) for row in rows}
    return {row: {name: float(found[row][name]) for name in COLUMNS} for row in ROWS}


def build() -> str:
    """The picture."""
    measured = times()
    height = GROUP * len(measured) + 46
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'role="img" aria-label="Milliseconds of gradtape, TensorFlow and PyTorch on one core">',
        "<style>text{font:14px system-ui,sans-serif;fill:#1c2330}.n{font-size:13px;fill:#5a6472}</style>",
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#fff"/>',
    ]
    for i, (name, colour) in enumerate(COLUMNS.items()):
        x = 40 + i * 155
        parts.append(f'<rect x="{x}" y="14" width="12" height="12" rx="2" fill="{colour}"/>')
        parts.append(f'<text x="{x + 18}" y="25">{escape(name)}</text>')
    for i, (row, values) in enumerate(measured.items()):
        top = 46 + i * GROUP
        parts.append(f'<text x="{_LEFT - 12}" y="{top + 24}" text-anchor="end">{escape(ROWS[row])}</text>')
        most = max(values.values())
        for j, (name, value) in enumerate(values.items()):
            y, width = top + j * (BAR + 3), max(2.0, value / most * _ROOM)
            parts.append(
                f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2" fill="{COLUMNS[name]}"/>'
            )
            parts.append(f'<text class="n" x="{_LEFT + width + 6:.1f}" y="{y + 11}">{value:g} ms</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    (HERE / "images" / "speed.svg").write_text(build(), encoding="utf-8")
