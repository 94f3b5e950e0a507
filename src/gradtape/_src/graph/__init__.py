"""Graphs of traced functions: XLA programs, their derivatives, control flow, checks and rewrites."""

from __future__ import annotations

from typing import Any

from gradtape._src.arrays.lazy import register_compiler
from gradtape._src.core.primitive import register_rewrite


def _compiled(program: Any) -> Any:
    """The runner for a program of lazy arrays; imported when the first one is compiled."""
    from gradtape._src.graph.lazy_programs import compile_lazily

    return compile_lazily(program)


register_compiler(_compiled)


def _rewritten(op: Any, inputs: Any, attrs: dict[str, Any]) -> Any:
    """Rewrite an op. The rewrites are imported with the first op that is recorded, which then calls its own rewrite."""
    from gradtape._src.graph import rewrites

    rewrites.register()
    return op.rewrite(op, inputs, attrs)


for _name in ("divide", "einsum", "matmul", "multiply", "sparse_cross_entropy", "split"):
    register_rewrite(_name, _rewritten)
