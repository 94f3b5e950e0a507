"""A page that shows a training run: loss, gradient norms, update ratios and dead units of every variable."""

from __future__ import annotations

import html
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gradtape._src.formats import atomic
from gradtape._src.indexed_slices import IndexedSlices
from gradtape._src.variable import unwrapped

MOST_POINTS = 200
"""The length from which on a curve is thinned out to every other point."""


class Measured(NamedTuple):
    """One variable at one step."""

    gradient: float | None
    """The norm of the gradient; None if there is none."""
    update: float
    """The change of the variable since the previous step, relative to its norm."""
    dead: float
    """The fraction of units (positions of the last axis) whose gradient is 0 for all inputs."""


class LiveView:
    """Write an HTML page about a training run that refreshes itself: open it in a browser while the program runs.

    Call `step` after computing the gradients. The page shows the loss and, for every variable, the norm of its
    gradient, its relative update and the fraction of units without a gradient (dead units of a ReLU, for example). It
    is one file, written at most every `seconds`, and once more by `close` or at the end of a `with` block.

    Args:
      path: The file to write.
      seconds: How often the page is written and reloaded.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "live.html")
    >>> w = tf.Variable([1.0, 2.0], name="w")
    >>> with tf.debugging.LiveView(path) as view:
    ...     for _ in range(3):
    ...         with tf.GradientTape() as tape:
    ...             loss = tf.reduce_sum(w**2)
    ...         gradient = tape.gradient(loss, w)
    ...         view.step(loss, [gradient], [w])
    ...         _ = w.assign_sub(0.1 * gradient)
    >>> os.path.exists(path), round(view.latest["w"].gradient, 2)
    (True, 2.86)

    `write` writes the page now, and `close` writes it for the last time:

    >>> view = tf.debugging.LiveView(path)
    >>> view.step(loss, [gradient], [w])
    >>> view.write()
    >>> view.close()
    """

    def __init__(self, path: str | os.PathLike[str] = "live.html", seconds: float = 2.0) -> None:
        self.path, self.seconds = Path(path), seconds
        self.losses: list[float] = []
        self.steps = 0
        self.latest: dict[str, Measured] = {}
        self._curves: dict[str, list[Measured]] = {}
        self._before: dict[str, np.ndarray] = {}
        self._stride, self._written = 1, 0.0

    def step(self, loss: Any, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        """Record one training step: its loss, and the gradients of its variables, in the same order."""
        self.steps += 1
        if self.steps % self._stride == 0:
            self.losses.append(float(loss))
            for name, gradient, variable in zip(_names(variables), gradients, variables, strict=True):
                measured = self._measure(name, gradient, np.asarray(unwrapped(variable)))
                self.latest[name] = measured
                self._curves.setdefault(name, []).append(measured)
            self._thin_out()
        if time.monotonic() - self._written >= self.seconds:
            self.write()

    def write(self, running: bool = True) -> None:
        """Write the page now; it reloads itself during training."""
        self._written = time.monotonic()
        text = self._page("" if running else ", finished", reload=running).encode("utf-8")
        atomic.write(str(self.path), lambda file: file.write(text), durable=False)

    def close(self) -> None:
        """Write the page for the last time."""
        self.write(running=False)

    def __repr__(self) -> str:
        return f"<LiveView {str(self.path)!r}: {self.steps} steps>"

    def _repr_html_(self) -> str:
        """The page as it is now; in a notebook, display it in the loop or after it."""
        style = 'width="100%" height="520" style="border:1px solid #8884;border-radius:8px" title="live view"'
        return f'<iframe srcdoc="{html.escape(self._page())}" {style}></iframe>'

    def __enter__(self) -> LiveView:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # -- measuring ---------------------------------------------------------------------------------------------------
    def _measure(self, name: str, gradient: Any, value: np.ndarray) -> Measured:
        before = self._before.get(name)
        self._before[name] = value.copy()
        update = 0.0 if before is None else _norm(value - before) / max(_norm(value), 1e-30)
        if gradient is None:
            return Measured(None, update, 1.0)
        rows = np.asarray(gradient.values if isinstance(gradient, IndexedSlices) else gradient)
        units = rows.reshape(-1, rows.shape[-1]) if rows.ndim else rows.reshape(1, 1)
        dead = float(np.mean(~units.any(axis=0))) if units.size else 0.0
        return Measured(_norm(rows), update, dead)

    def _thin_out(self) -> None:
        if len(self.losses) > MOST_POINTS:
            self._stride *= 2
            self.losses = self.losses[1::2]
            self._curves = {name: curve[1::2] for name, curve in self._curves.items()}

    # -- the page ----------------------------------------------------------------------------------------------------
    def _page(self, state: str = "", reload: bool = False) -> str:
        rows = "".join(self._row(name, curve) for name, curve in self._curves.items())
        state = f"step {self.steps:,}{state}"
        loss = f"{self.losses[-1]:.4g}" if self.losses else "-"
        refresh = f'<meta http-equiv="refresh" content="{max(1, round(self.seconds))}">' if reload else ""
        return (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8">{_VIEWPORT}{refresh}'
            f"<title>{state}: loss {loss}</title><style>{_STYLE}</style></head><body><h1>{state}</h1>"
            f"<p>loss <strong>{loss}</strong> {_curve(self.losses, 420, 70)}</p><div><table><thead><tr>"
            "<th>variable</th><th>gradient norm</th><th></th><th>update / weight</th><th></th><th>dead units</th></tr>"
            f"</thead><tbody>{rows}</tbody></table></div></body></html>"
        )

    def _row(self, name: str, curve: list[Measured]) -> str:
        last = curve[-1]
        norm = "None" if last.gradient is None else f"{last.gradient:.3g}"
        bad = last.gradient is None or not np.isfinite(last.gradient)
        return (
            f"<tr><td><code>{html.escape(name)}</code></td><td{_mark(bad)}>{norm}</td>"
            f"<td>{_curve([0.0 if m.gradient is None else m.gradient for m in curve])}</td>"
            f"<td{_mark(last.update > 0.1)}>{last.update:.2g}</td><td>{_curve([m.update for m in curve])}</td>"
            f"<td{_mark(last.dead > 0.5)}>{last.dead:.0%}</td></tr>"
        )


_VIEWPORT = '<meta name="viewport" content="width=device-width">'
_STYLE = (
    ":root{color-scheme:light dark}body{font:14px system-ui,sans-serif;margin:2rem;max-width:60rem}"
    "table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #8884}"
    "td:nth-child(2),td:nth-child(4),td:nth-child(6){text-align:right;font-variant-numeric:tabular-nums}"
    ".bad{color:#d33;font-weight:600}div{overflow-x:auto}svg{vertical-align:middle;max-width:100%}"
    "td svg{max-width:none}polyline{fill:none;stroke:#0a8f87;stroke-width:1.5}"
)


def _mark(bad: bool) -> str:
    return ' class="bad"' if bad else ""


def _norm(array: np.ndarray) -> float:
    return float(np.sqrt(np.sum(np.square(np.abs(array.astype(np.float64))))))


def _names(variables: Sequence[Any]) -> list[str]:
    """The names of the variables; equal ones are numbered."""
    given = [str(getattr(v, "path", "") or v.name).removesuffix(":0") for v in variables]
    return [name if given.count(name) == 1 else f"{name} [{i}]" for i, name in enumerate(given)]


def _curve(values: Sequence[float], width: int = 140, height: int = 28) -> str:
    """A small curve as SVG."""
    finite = [v for v in values if np.isfinite(v)]
    if len(finite) < 2:
        return ""
    low, high = min(finite), max(finite)
    span = (high - low) or 1.0
    step = width / (len(values) - 1)
    points = " ".join(
        f"{i * step:.1f},{height - 2 - (v - low) / span * (height - 4):.1f}"
        for i, v in enumerate(values)
        if np.isfinite(v)
    )
    label = f"from {values[0]:.3g} to {values[-1]:.3g}"
    return f'<svg width="{width}" height="{height}" role="img" aria-label="{label}"><polyline points="{points}"/></svg>'
