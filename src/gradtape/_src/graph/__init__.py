"""Graphs of traced functions: programs for XLA, their derivatives, control flow, checks and rewrites."""

from __future__ import annotations

from typing import Any

from gradtape._src.arrays.lazy import register_compiler


def _compiled(program: Any) -> Any:
    """What runs a program of lazy arrays; loaded with the first of them."""
    from gradtape._src.graph.lazy_programs import compile_lazily

    return compile_lazily(program)


register_compiler(_compiled)
