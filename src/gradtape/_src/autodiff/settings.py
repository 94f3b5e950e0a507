"""What applies to every tape; `tf.config` and `tf.debugging` change it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref


class _Settings:
    none_policy = "none"
    """What happens when a gradient is None: "none", "warn" or "raise". With the last two, tapes log lines."""

    last_unconnected: ref[Any] | None = None
    """The last tape whose gradient call gave None, while it exists: errors of optimizers say why."""

    checks_numerics = False
    """Whether some tape, or every op, has been checked for NaN: then backward passes look whether they are, too."""

    def __init__(self) -> None:
        self.gradient_overrides: dict[str, Callable[..., Any]] = {}
        """By TensorFlow's type of an op: the function in the place of its vjp rules, in graphs."""


settings = _Settings()


def remember_unconnected(tape: Any) -> None:
    """A gradient call of this tape gave None."""
    settings.last_unconnected = ref(tape)


def replace_gradient(op_type: str, function: Callable[..., Any] | None) -> None:
    """Let ops of a type have this gradient in every graph; None: their own again."""
    if function is None:
        settings.gradient_overrides.pop(op_type, None)
    else:
        settings.gradient_overrides[op_type] = function
