"""The model that `gradtape export` writes in several formats."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from gradtape._src.arrays.symbolic import Symbolic
from gradtape._src.function.concrete import ConcreteFunction
from gradtape._src.shape import TensorSpec
from gradtape._src.variable import Variable


def is_bfloat16(dtype: Any) -> bool:
    """Whether a dtype is bfloat16, which other formats store as float32 with fewer digits."""
    return np.dtype(dtype) == ml_dtypes.bfloat16


class ExportedModel(NamedTuple):
    """A model as one program: its inputs by name, the inputs of the program, and the names of its results."""

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
        """The name and the value of each weight, by the id of its symbol."""
        found, names = {}, {id(v): name for name, v in self.variables.items()}
        for i, feed in enumerate(self.program.feeds):
            if feed.kind == "variable":
                found[id(feed.symbol)] = (names.get(id(feed.value), f"variable_{i}"), np.asarray(feed.value.numpy()))
            elif feed.kind == "array":
                found[id(feed.symbol)] = (f"constant_{i}", np.asarray(feed.value))
        return found

    def input_symbols(self) -> dict[str, Symbolic]:
        """The symbols of the inputs, by name."""
        return dict(zip(self.inputs, self.concrete.traced.symbols, strict=True))
