"""Compiler options of programs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from gradtape._src.arrays.dimensions import is_known_shape
from gradtape._src.arrays.symbolic import Node, Symbolic
from gradtape._src.devices import jax_devices

compiler_options: dict[str, Any] = {}
"""The user's options, which XLA gets with every program."""

LARGE = 2**22
"""The number of elements of a product from which on it has options of its own."""

_FOR_LARGE_PRODUCTS = {"xla_gpu_dot_merger_threshold_mb": 0}
"""Products with a common operand, such as queries, keys and values, are not merged: the parts of a merged one would be
copied. Measured on GPT-2 small (H200): 31.05 ms a step without, 30.6 with."""


def options_for(nodes: Sequence[Node]) -> dict[str, Any] | None:
    """The options for a program with these nodes: those that pay off for its ops, and the user's."""
    found = _FOR_LARGE_PRODUCTS if any(map(_is_large_product, nodes)) and jax_devices("GPU") else {}
    return {**found, **compiler_options} or None


def _is_large_product(node: Node) -> bool:
    out = node.outputs[0] if node.outputs else None
    return (
        node.name == "matmul"
        and type(out) is Symbolic
        and out.dtype.itemsize == 2
        and is_known_shape(out.shape)
        and prod(out.shape) >= LARGE
    )
