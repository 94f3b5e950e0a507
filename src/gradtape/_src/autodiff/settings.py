"""What applies to every tape; `tf.config` and `tf.debugging` change it."""

from __future__ import annotations

from typing import Any
from weakref import ref


class _Settings:
    none_policy = "none"
    """What happens when a gradient is None: "none", "warn" or "raise". With the last two, tapes log lines."""

    last_unconnected: ref[Any] | None = None
    """The last tape whose gradient call gave None, while it exists: errors of optimizers say why."""

    checks_numerics = False
    """Whether some tape, or every op, has been checked for NaN: then backward passes look whether they are, too."""


settings = _Settings()


def remember_unconnected(tape: Any) -> None:
    """A gradient call of this tape gave None."""
    settings.last_unconnected = ref(tape)
