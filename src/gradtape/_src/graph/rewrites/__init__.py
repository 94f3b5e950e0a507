"""Formulas that are recognised while they are recorded, and replaced by one op.

    attention.py  softmax(q k' + mask) v
    norms.py      layer and RMS normalization
    losses.py     the cross entropy of a projection to many classes
    products.py   parts of a product

They match the ops that an op's operands were computed by (`sources.py`), in traced functions and lazy arrays alike.
Eager code is not searched.
"""

from __future__ import annotations

from gradtape._src.core.primitive import register_rewrite
from gradtape._src.graph.rewrites import attention, losses, norms, products


def register() -> None:
    """Register the rewrites with their ops."""
    for name in ("einsum", "matmul"):
        register_rewrite(name, attention.instead)
    for name in ("divide", "multiply"):
        register_rewrite(name, norms.instead)
    register_rewrite("sparse_cross_entropy", losses.instead)
    register_rewrite("split", products.instead)
