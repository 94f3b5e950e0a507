"""What applies to every tape; `tf.config` and `tf.debugging` change it."""

from __future__ import annotations


class _Settings:
    none_policy = "none"
    """What happens when a gradient is None: "none", "warn" or "raise". With the last two, tapes log lines."""

    checks_numerics = False
    """Whether some tape, or every op, has been checked for NaN: then backward passes look whether they are, too."""


settings = _Settings()
