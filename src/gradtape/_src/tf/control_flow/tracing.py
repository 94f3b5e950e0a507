"""Whether control flow becomes part of a program, and the module that implements this."""

from __future__ import annotations

from typing import Any

from gradtape._src.arrays.symbolic import current_graph, is_known
from gradtape._src.conversion import convert
from gradtape._src.tensor import Tensor
from gradtape._src.variable import Variable


def is_traced(*values: Any) -> bool:
    """Whether one of these values is symbolic."""
    return current_graph() is not None and any(
        isinstance(v, (Tensor, Variable)) and not is_known(convert(v)) for v in values
    )


def staged_control_flow() -> Any:
    """The control flow of compiled programs, imported on demand, because it imports JAX."""
    from gradtape._src.graph import control_flow

    return control_flow
