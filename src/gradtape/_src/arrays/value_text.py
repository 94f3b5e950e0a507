"""Print values like TensorFlow's kernels: in assertions, `tf.print`, and tensors on a mesh."""

from __future__ import annotations

from typing import Any

import numpy as np


def summary(value: Any, most: int) -> str:
    """The first elements of an array, as TensorFlow's kernels print them: [0 1][2...]..."""
    if isinstance(value, (str, bytes)):
        return element_text(value)
    values = np.asarray(value)
    limit = values.size if most < 0 else most
    left = [limit]
    return _axis_summary(values, left) + ("..." if values.size > limit else "")


def _axis_summary(values: Any, left: list[int], depth: int = 0) -> str:
    """Print elements until none are left to be shown."""
    if isinstance(values, (bytes, str)) or not values.ndim:
        return element_text(values if isinstance(values, (bytes, str)) else values[()])
    parts: list[str] = []
    for row in values:
        if left[0] <= 0:
            return " ".join(parts) + ("..." if depth else "") if values.ndim == 1 else "".join(parts)
        if values.ndim == 1:
            left[0] -= 1
            parts.append(_axis_summary(row, left))
        else:
            parts.append(f"[{_axis_summary(row, left, depth + 1)}]")
    return (" " if values.ndim == 1 else "").join(parts)


def element_text(value: Any) -> str:
    """One element, as TensorFlow's kernels print it."""
    if isinstance(value, (bytes, str)):
        return decoded(value)
    if isinstance(value, (np.bool_, bool, np.integer, int)):
        return str(int(value))
    if isinstance(value, (np.complexfloating, complex)):
        return f"({element_text(value.real)},{element_text(value.imag)})"
    if float(value) != float(value):
        return "nan"
    # The shorter precision of two that reads back as the same number.
    double = isinstance(value, np.float64)
    short = f"{float(value):.15g}" if double else f"{float(value):.6g}"
    same = float(short) == float(value) if double else np.float32(short) == np.float32(value)
    return short if same else f"{float(value):.17g}" if double else f"{float(value):.9g}"


def nested_text(values: Any, most: int, depth: int = 1) -> str:
    """Rows in brackets, each on its line and indented; `most` elements at each end of an axis (-1: all)."""
    if not isinstance(values, np.ndarray) or not values.ndim:
        value = values[()] if isinstance(values, np.ndarray) else values
        return f'"{decoded(value)}"' if isinstance(value, (bytes, str)) else element_text(value)
    count = len(values)
    if most < 0 or count <= 2 * most:
        parts = [nested_text(values[i], most, depth + 1) for i in range(count)]
    else:
        parts = [nested_text(values[i], most, depth + 1) for i in range(most)]
        parts += ["...", *(nested_text(values[i], most, depth + 1) for i in range(count - most, count))]
    between = " " if values.ndim == 1 else "\n" * (values.ndim - 1) + " " * depth
    return f"[{between.join(parts)}]"


def decoded(value: Any) -> str:
    """A string element as a Python str."""
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
