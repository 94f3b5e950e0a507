"""Variables with a special role in compiled functions: arguments, and the states of random ops."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.seeds import seeds
from gradtape._src.arrays.symbolic import Graph, Symbolic, current_graph, tracing
from gradtape._src.conversion import register_converter
from gradtape._src.tensor import Reference, Tensor
from gradtape._src.variable.storage import Storage
from gradtape._src.variable.variable import Creations, Variable, VariableView, abstract_value, creating


class StreamState(Variable):
    """The position of a random op of a compiled function in its stream: a variable that only its program uses."""

    def __init__(self, key: int, counter: int, seeds_of_op: tuple[int, int] | None = None) -> None:
        self.seeds_of_op = seeds_of_op  # None: no seed, the stream starts anywhere
        self._start = np.array([counter % 2**64, counter >> 64, key], np.uint64).view(np.int64)
        with tracing(None), creating(Creations(None)):
            super().__init__(self._start.copy(), trainable=False, name="stream")
        seeds.restart_with(self)

    def restart(self) -> None:
        """Restart the stream."""
        with tracing(None):
            self._store(self._start.copy())


class VariableParam(Variable):
    """A placeholder for a variable among the arguments of a function that is being traced.

    In the program it is the variable that a call passes. The code sees the name and flags of the variable that the
    function was traced with. If it uses more of that variable (its reference, another attribute, its value outside of
    the program), the program is specific to it, and the graph records this in `also_captured`.
    """

    __slots__ = ("_also_captured", "_itself", "number")
    _is_param = True

    def __init__(self, variable: Variable, number: int, graph: Graph) -> None:
        self.number, self.uid = number, variable.uid
        self._itself = weakref.ref(variable)  # traces must not keep it alive
        self._also_captured = graph.also_captured
        self._name, self._trainable, self._constraint = variable.name, variable.trainable, variable.constraint
        self._synchronization, self._aggregation = variable.synchronization, variable.aggregation
        self._declared_shape, self._may_grow = variable.shape, False
        like = abstract_value(variable)
        symbol = Symbolic(graph, tuple(like.shape), np.dtype(like.dtype))
        self.storage = Storage(self.uid, symbol, unread=True)  # for its shape and dtype only

    def itself(self) -> Variable:
        """The variable that the function was traced with."""
        found = self._itself()
        if found is None:
            raise errors.FailedPreconditionError(
                None,
                None,
                f"Variable '{self.name}' no longer exists. It was an argument of a tf.function and is used outside "
                "the traced program: return its value from the function instead.",
            )
        self._also_captured.add(self.uid)
        return found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(self._itself(), name):
            raise AttributeError(f"'Variable' object has no attribute '{name}'")
        return getattr(self.itself(), name)

    def _peek(self) -> Tensor:
        return super()._peek() if current_graph() is not None else self.itself()._peek()

    def _store(self, value: Any) -> None:
        if current_graph() is not None:
            super()._store(value)
        else:
            self.itself()._store(value)

    @property
    def handle(self) -> Reference:
        return self.ref()

    def ref(self) -> Reference:
        return Reference(self.itself())


def stored(variable: Variable) -> Variable:
    """The variable with the storage: for the result of an assignment, or an argument of a traced function."""
    while type(variable) is not Variable:
        if isinstance(variable, VariableView):
            variable = variable.variable
        elif isinstance(variable, VariableParam):
            variable = variable.itself()
        else:
            break
    return variable


register_converter(VariableParam, VariableParam._read)


def bound(variable: Variable, variable_args: Sequence[Variable]) -> Variable:
    """The variable of a program in a call with these arguments: a placeholder is replaced by the one that is passed."""
    return variable_args[variable.number] if variable_args and isinstance(variable, VariableParam) else variable
