"""Formulas that are recognised while they are recorded, and run as one operation.

    attention.py  softmax(q k' + mask) v
    norms.py      layer and RMS normalization
    losses.py     the cross entropy of a projection to many classes
    products.py   parts of a product

All look at what an op's operands were computed from (`sources.py`). Functions that are traced and lazy arrays share
them; elsewhere nothing is looked at.
"""

from __future__ import annotations

from gradtape._src.core.primitive import register_rewrite
from gradtape._src.graph.rewrites import attention, losses, norms, products


def register() -> None:
    """Let these ops look for formulas."""
    for name in ("einsum", "matmul"):
        register_rewrite(name, attention.instead)
    for name in ("divide", "multiply"):
        register_rewrite(name, norms.instead)
    register_rewrite("sparse_cross_entropy", losses.instead)
    register_rewrite("split", products.instead)
