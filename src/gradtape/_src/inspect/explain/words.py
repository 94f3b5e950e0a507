"""The words of explanations: names of ops, and alternatives to ops without a derivative."""

from __future__ import annotations

import sys
from typing import Any

from gradtape._src.core.primitive import registry
from gradtape._src.inspect.op_names import shown_op as shown_op

LIKELY = "This is the most likely reason; GradientTape(lines=True) records more."
INSTEAD = {
    "indices": (
        "Positions have no derivative, but weights do: multiply by tf.nn.softmax(scores) instead of selecting."
    ),
    "condition": "A condition is a step function; blend instead: w = tf.sigmoid(k * x); y = w * a + (1 - w) * b.",
}
"""Alternatives to an input without a derivative, by its name. Those of ops are in their declarations."""

_OF_NUMPY = {
    "amax": "tf.reduce_max",
    "amin": "tf.reduce_min",
    "array": "tf.stack",
    "asarray": "tf.convert_to_tensor",
    "clip": "tf.clip_by_value",
    "dot": "tf.tensordot",
    "fabs": "tf.abs",
    "float32": "tf.cast",
    "hstack": "tf.concat",
    "inner": "tf.tensordot",
    "std": "tf.math.reduce_std",
    "var": "tf.math.reduce_variance",
    "vstack": "tf.concat",
}
"""NumPy's functions that are not primitives under the same name."""


def tensor_function(name: str) -> str:
    """The function of this library that corresponds to NumPy's function with this name; empty if there is none."""
    if name in _OF_NUMPY:
        return _OF_NUMPY[name]
    if name in registry and registry[name].names:
        return f"tf.{registry[name].names[0]}"
    root = sys.modules["gradtape"]
    for prefix, module in (("tf", root), ("tf.math", root.math), ("tf.linalg", root.linalg)):
        if callable(getattr(module, name, None)):
            return f"{prefix}.{name}"
    return ""


def dtype_of_numpy(dtype: Any) -> str:
    """The name of a record's dtype."""
    first = dtype[0] if type(dtype) is tuple else dtype
    return str(getattr(first, "name", first))
