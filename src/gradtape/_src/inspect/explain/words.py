"""The words of explanations: names of ops, and alternatives to ops without a derivative."""

from __future__ import annotations

import sys
from typing import Any

from gradtape._src.core.primitive import registry
from gradtape._src.inspect.events import OpEvent
from gradtape._src.inspect.explain.explanation import Reason
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


def why_blocked(node: OpEvent, position: int) -> tuple[Reason, str, str]:
    """Reason, message and fix for a non-differentiable op."""
    op, name = node.op, shown_op(node.op)
    if op.name == "stop_gradient":
        return (
            Reason.STOP_GRADIENT,
            "tf.stop_gradient turns its input into a constant.",
            "Remove it where you need the gradient.",
        )
    if op.name == "discrete_cast":
        return (
            Reason.CAST_THROUGH_DTYPE,
            f"A cast to {dtype_of_numpy(node.dtype)} stops every derivative, even if the value is cast back later.",
            "Stay in a floating dtype (tf.cast(x, tf.float32)); to round and still train, use "
            "tf.grad_pass_through(tf.round)(x).",
        )
    if op.name == "numpy_function":
        return (
            Reason.LEFT_LIBRARY,
            "tf.numpy_function computes in NumPy, which tapes do not record.",
            "Use tf.py_function, or write it with tf functions.",
        )
    if op.differentiable:
        arg = op.args[position] if position < len(op.args) else "input"
        return (
            Reason.NON_DIFFERENTIABLE_OP,
            f"{name} has no derivative with respect to its {arg}.",
            INSTEAD.get(arg, "Use an op that is smooth in this input."),
        )
    return (
        Reason.NON_DIFFERENTIABLE_OP,
        f"{name} is constant almost everywhere: it has no derivative.",
        op.instead or "Use an op that is smooth in its input, or give it a gradient with tf.custom_gradient.",
    )
