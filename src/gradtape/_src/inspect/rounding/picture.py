"""A certificate as a picture: the number of certain digits after each op, forward and backward."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import TYPE_CHECKING

from gradtape._src.inspect.tables import line_text

if TYPE_CHECKING:
    from gradtape._src.inspect.rounding.certificate import Certificate, CertifiedOp

MOST_DIGITS = 16.0
NAMED = 3
"""The number of largest losses that are named."""

_COLORS = {False: "#4477aa", True: "#cc6677"}


def to_svg(certificate: Certificate, width: int, height: int) -> str:
    """See `Certificate.to_svg`."""
    ops = certificate.ops
    left, top, right, bottom = 44.0, 30.0, 12.0, 34.0
    wide, high = width - left - right, height - top - bottom
    step = wide / max(len(ops), 1)
    digits = [min(op.digits, MOST_DIGITS) for op in ops]
    most = max(8.0, *digits) if digits else 8.0

    def y(value: float) -> float:
        return top + high * (1 - value / most)

    parts = [_axis(left, width - right, y, int(most))]
    for i, (op, value) in enumerate(zip(ops, digits, strict=True)):
        parts.append(
            f'<rect x="{left + i * step + step * 0.1:.1f}" y="{y(value):.1f}" width="{step * 0.8:.1f}" '
            f'height="{top + high - y(value):.1f}" fill="{_COLORS[op.backward]}" '
            f'fill-opacity="{1 if op.proved else 0.45}"><title>{_title(op)}</title></rect>'
        )
    for op in certificate.losses[:NAMED]:
        x = left + (op.index + 0.5) * step
        parts.append(
            f'<text x="{min(max(x, left + 30), width - 60):.1f}" y="{y(min(op.digits, most)) - 4:.1f}" '
            f'text-anchor="middle">{html.escape(op.op)} -{op.lost:.1f}</text>'
        )
    legend = "".join(
        f'<rect x="{left + k * 90:.0f}" y="{height - 14}" width="10" height="10" fill="{_COLORS[bool(k)]}"/>'
        f'<text x="{left + 14 + k * 90:.0f}" y="{height - 5}">{name}</text>'
        for k, name in enumerate(("forward", "backward"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="11"><rect width="{width}" height="{height}" fill="white"/>'
        f'<text x="{left}" y="16" font-size="12">Certain decimal digits after each op</text>'
        f"{''.join(parts)}{legend}</svg>"
    )


def _axis(left: float, right: float, y: Callable[[float], float], most: int) -> str:
    return "".join(
        f'<line x1="{left}" x2="{right}" y1="{y(n):.1f}" y2="{y(n):.1f}" stroke="#ddd"/>'
        f'<text x="{left - 6}" y="{y(n) + 4:.1f}" text-anchor="end">{n}</text>'
        for n in range(0, most + 1, 2 if most <= 10 else 4)
    )


def _title(op: CertifiedOp) -> str:
    place = line_text(op.line)
    return html.escape(f"{op.index}: {op.op} {place}, condition {op.condition:.2g}, error {op.relative:.2g}")
