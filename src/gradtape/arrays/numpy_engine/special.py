"""Special functions that NumPy lacks."""

from __future__ import annotations
