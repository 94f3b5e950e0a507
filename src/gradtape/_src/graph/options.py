"""Options of programs that are compiled."""

from __future__ import annotations

from typing import Any

compiler_options: dict[str, Any] = {}
"""What XLA is told with every program that it compiles."""
