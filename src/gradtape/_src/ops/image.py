"""Resizing along one axis, a linear primitive and its transpose; colours by hue, saturation and value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradtape._src.core.dispatch import linear, primitive
from gradtape._src.core.structure import matrix_along_axis, mixes_last
from gradtape._src.ops.batching import shift_axis

resample = linear(
    "resample",
    lambda g, x_shape, xp, axis, method, antialias: xp.unsample(
        g, axis=axis, size=x_shape[axis], method=method, antialias=antialias
    ),
    tf_name="ScaleAndTranslate",
    batch=shift_axis("resample"),
    structure=matrix_along_axis,
    category="linear algebra",
    doc="An axis of an image resized.",
)
unsample = linear(
    "unsample",
    lambda g, x_shape, xp, axis, method, antialias: xp.resample(
        g, axis=axis, size=x_shape[axis], method=method, antialias=antialias
    ),
    tf_name="ScaleAndTranslateGrad",
    batch=shift_axis("unsample"),
    structure=matrix_along_axis,
    category="linear algebra",
    doc="The transpose of resample.",
)


def _channels(x: Any, xp: Any) -> list[Any]:
    return [xp.getitem(x, index=(*[slice(None)] * (len(x.shape) - 1), i)) for i in range(3)]


def _extremes(r: Any, g: Any, b: Any) -> tuple[list[Any], list[Any]]:
    """Whether red, green and blue are the largest (of equals, the first), and the smallest (the last)."""
    red, green = (r >= g) & (r >= b), (g > r) & (g >= b)
    blue, low_green = (b <= r) & (b <= g), (g <= r) & (g < b)
    return [red, green, ~(red | green)], [~(blue | low_green), low_green, blue]


def _choose(chosen: Sequence[Any], values: Sequence[Any], xp: Any) -> Any:
    return xp.where(chosen[0], values[0], xp.where(chosen[1], values[1], values[2]))


def _hsv(xp: Any, x: Any) -> Any:
    r, g, b = colours = _channels(x, xp)
    largest, smallest = _extremes(*colours)
    value = _choose(largest, colours, xp)
    span = value - _choose(smallest, colours, xp)
    coloured, bright = span > 0, value > 0
    saturation = xp.where(bright, span / xp.where(bright, value, 1), 0)
    sixth = 1 / (6 * xp.where(coloured, span, 1))
    hue = _choose(largest, ((g - b) * sixth, (b - r) * sixth + 2 / 6, (r - g) * sixth + 4 / 6), xp)
    hue = xp.where(coloured, xp.where(hue < 0, hue + 1, hue), 0)
    return xp.stack(hue, saturation, value, axis=len(x.shape) - 1)


def _hsv_vjp(g: Any, x: Any, out: Any, xp: Any) -> Any:
    """TensorFlow's subgradients where colors are equal, and where one is not positive (in images all are).

    The second derivative is that of this formula. To have TensorFlow's terms, saturation times value replaces the
    difference of the largest and the smallest color in the derivative by the largest one, and only there.
    """
    colours = _channels(x, xp)
    dhue, dsaturation, dvalue = _channels(g, xp)
    _, saturation, value = _channels(out, xp)
    largest, smallest = _extremes(*colours)
    top, bottom = _choose(largest, colours, xp), _choose(smallest, colours, xp)
    over_span, over_top = xp.divide_no_nan(1, top - bottom), xp.divide_no_nan(1, top)
    over_product = xp.divide_no_nan(1, saturation * value)
    parts = []
    for i, colour in enumerate(colours):
        # The hue is (y - z) / (x - the smallest) with the largest colour as x and the next ones as y and z.
        next_, last = colours[(i + 1) % 3], colours[(i + 2) % 3]
        as_x = (last - next_) * over_product * over_product
        as_smallest = (last - next_) * over_span * over_span
        as_y = xp.where(smallest[i], as_smallest, over_span)
        as_z = xp.where(smallest[i], as_smallest, -over_span)
        turn = xp.where(largest[i], as_x, xp.where(largest[(i + 2) % 3], as_y, as_z))
        fade = xp.where(largest[i], bottom * over_top * over_top, 0) - xp.where(smallest[i], over_top, 0)
        parts.append(
            xp.where(largest[i], dvalue, 0)
            + dsaturation * xp.where(colour > 0, fade, 0)
            + dhue * xp.where(top > 0, turn, 0) / 6
        )
    return xp.stack(*parts, axis=len(x.shape) - 1)


rgb_to_hsv = primitive(
    "rgb_to_hsv",
    ("x",),
    _hsv_vjp,
    tf_name="RGBToHSV",
    kernel=_hsv,
    batch=lambda xp, size, batched, x: xp.rgb_to_hsv(x),
    structure=mixes_last,
    category="elementwise",
    doc="Hue, saturation and value of colours.",
)
