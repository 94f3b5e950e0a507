"""What `gradtape export` writes in several forms."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from gradtape._src.arrays.symbolic import Symbolic
from gradtape._src.function.concrete import ConcreteFunction
from gradtape._src.shape import TensorSpec
from gradtape._src.variable import Variable


def is_bfloat16(dtype: Any) -> bool:
    """Whether a dtype is bfloat16, which other forms have as float32 with fewer digits."""
    return np.dtype(dtype) == ml_dtypes.bfloat16


class ExportedModel(NamedTuple):
    """A model as one program: its inputs by name, what the program takes, and the names of its results."""

    name: str
    inputs: dict[str, TensorSpec]
    outputs: list[str]
    concrete: ConcreteFunction
    variables: dict[str, Variable]

    @property
    def program(self) -> Any:
        """The program."""
        return self.concrete.traced.plain

    def weights(self) -> dict[int, tuple[str, np.ndarray]]:
        """By the id of the symbol that stands for it, the name and the value of each weight."""
        found, names = {}, {id(v): name for name, v in self.variables.items()}
        for i, feed in enumerate(self.program.feeds):
            if feed.kind == "variable":
                found[id(feed.symbol)] = (names.get(id(feed.value), f"variable_{i}"), np.asarray(feed.value.numpy()))
            elif feed.kind == "array":
                found[id(feed.symbol)] = (f"constant_{i}", np.asarray(feed.value))
        return found

    def input_symbols(self) -> dict[str, Symbolic]:
        """By name, the symbols that stand for the inputs."""
        return dict(zip(self.inputs, self.concrete.traced.symbols, strict=True))
