"""Settings for all tapes, which `tf.config` and `tf.debugging` change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref


class _Settings:
    none_policy = "none"
    """The reaction to a gradient of None: "none", "warn" or "raise". With the last two, tapes log source lines."""

    last_unconnected: ref[Any] | None = None
    """The last tape with a gradient of None, while it exists: errors of optimizers then explain why."""

    checks_numerics = False
    """Whether any tape, or all ops, have ever been checked for NaN: only then do backward passes look at it."""

    def __init__(self) -> None:
        self.gradient_overrides: dict[str, Callable[..., Any]] = {}
        """Functions that replace vjp rules in graphs, by TensorFlow's type of the op."""


settings = _Settings()


def remember_unconnected(tape: Any) -> None:
    """Remember a tape whose gradient call returned None."""
    settings.last_unconnected = ref(tape)


def replace_gradient(op_type: str, function: Callable[..., Any] | None) -> None:
    """Replace the gradient of ops of a type in every graph; None restores their own."""
    if function is None:
        settings.gradient_overrides.pop(op_type, None)
    else:
        settings.gradient_overrides[op_type] = function
