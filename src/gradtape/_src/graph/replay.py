"""Running the nodes of a graph one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape._src.arrays.symbolic import Node, Symbolic


def evaluate(nodes: Sequence[Node], env: dict[int, Any], xp: Any) -> None:
    """Run nodes: from values by the ids of their symbols to more of them."""
    for name, args, attrs, outputs in nodes:
        result = getattr(xp, name)(
            *[env[id(a)] if type(a) is Symbolic else a for a in args],
            **attrs,
        )
        if type(result) is tuple or type(result) is list:
            env.update((id(symbol), value) for symbol, value in zip(outputs, result, strict=True))
        else:
            env[id(outputs[0])] = np.asarray(result, outputs[0].dtype) if np.isscalar(result) else result
