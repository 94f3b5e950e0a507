"""Random bits: the same for the same seed, on every machine."""

from __future__ import annotations
