"""Graphs of traced functions: programs for XLA, their derivatives, control flow, checks and rewrites."""

from __future__ import annotations

from typing import Any

from gradtape._src.arrays.lazy import register_compiler
from gradtape._src.core.primitive import register_rewrite


def _compiled(program: Any) -> Any:
    """What runs a program of lazy arrays; loaded with the first of them."""
    from gradtape._src.graph.lazy_programs import compile_lazily

    return compile_lazily(program)


register_compiler(_compiled)


def _rewritten(op: Any, inputs: Any, attrs: dict[str, Any]) -> Any:
    """What runs instead of an op; loaded with the first one that is recorded, which then has its own rewrite."""
    from gradtape._src.graph import rewrites

    rewrites.register()
    return op.rewrite(op, inputs, attrs)


for _name in ("divide", "einsum", "matmul", "multiply", "sparse_cross_entropy", "split"):
    register_rewrite(_name, _rewritten)
