"""Whether control flow belongs into a program, and what puts it there."""

from __future__ import annotations

from typing import Any

from gradtape._src.arrays.symbolic import current_graph, is_known
from gradtape._src.conversion import convert
from gradtape._src.tensor import Tensor
from gradtape._src.variable import Variable


def is_traced(*values: Any) -> bool:
    """Whether one of these has no value yet."""
    return current_graph() is not None and any(
        isinstance(v, (Tensor, Variable)) and not is_known(convert(v)) for v in values
    )


def staged_control_flow() -> Any:
    """Control flow of compiled programs; loaded when it is needed, because JAX comes with it."""
    from gradtape._src.graph import control_flow

    return control_flow
