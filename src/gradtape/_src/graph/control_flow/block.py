"""Blocks: branches and loop bodies, each traced on its own, and the nodes for them in the outer graph."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from gradtape._src import nest
from gradtape._src.arrays.dimensions import evaluated, is_known_shape, variables_in
from gradtape._src.arrays.graph_ops import for_all_sizes
from gradtape._src.arrays.symbolic import (
    Graph,
    Symbolic,
    allows_dynamic_shapes,
    call,
    current_graph,
    dynamic_argument,
    only_eager,
    tracing,
    zeros,
)
from gradtape._src.conversion import convert, wrap
from gradtape._src.core import tape as stack
from gradtape._src.graph.program import Program
from gradtape._src.graph.trace import Trace
from gradtape._src.graph.traced import Traced
from gradtape._src.tensor import Tensor
from gradtape._src.variable import Variable, is_local_to, notice_reading, state_in, traced_scope

F = TypeVar("F", bound=Callable[..., Any])


def in_scope(name: str) -> Callable[[F], F]:
    """Decorate a function so that the ops it traces are named in this scope."""

    def scoped(function: F) -> F:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with traced_scope(name):
                return function(*args, **kwargs)

        return cast(F, inside)

    return scoped


class Block:
    """A branch or a loop body that has been traced: its result, and the variables it has assigned.

    `shapes` are the shapes of the inputs, where they differ from those outside: None for a size that each call
    determines.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        inputs: Sequence[Any],
        iteration: bool = False,
        shapes: Sequence[Sequence[Any]] | None = None,
    ) -> None:
        outer = current_graph()
        assert outer is not None
        self.graph = Graph(name, outer=outer)
        self.trace = Trace(self.graph)
        self.inputs: list[Tensor] = []
        with tracing(self.graph), stack.use_recorders((self.trace,)):
            if iteration:
                self.inputs.append(wrap(self.graph.argument((), np.dtype(np.int32))))
                self.graph.iteration = self.inputs[0].array
            for i, like in enumerate(inputs):
                shape = tuple(like.array.shape if shapes is None else shapes[i])
                inside = wrap(dynamic_argument(self.graph, shape, like.array.dtype))
                self.trace.track(inside)
                self.inputs.append(inside)
            self.result = function(*self.inputs[int(iteration) :])
        states = [s for s in self.graph.variables.values() if not is_local_to(s.variable, self.graph)]
        self.assigned = [s.variable for s in states if s.assigned]
        for state in states:  # outer tapes watch the variables that are read here
            notice_reading(state.variable)

    def outputs(self) -> list[Any]:
        """The leaves of the result as tensors; None stays None."""
        with tracing(self.graph), stack.use_recorders((self.trace,)):
            leaves = [None if leaf is None else _converted(leaf) for leaf in nest.flatten(self.result, True)]
            return [None if leaf is None else self._own(leaf) for leaf in leaves]

    def _own(self, tensor: Tensor) -> Tensor:
        """A tensor from outside that is returned unchanged: the same tensor, as a value of this graph."""
        if type(tensor.array) is not Symbolic or tensor.array.graph is self.graph:
            return tensor
        inside = Tensor()
        inside.array, inside.uid = self.graph.own(tensor.array), tensor.uid
        return inside

    def reading(self, variable: Variable) -> Tensor:
        """The value of a variable at the end of the block."""
        with tracing(self.graph), stack.use_recorders((self.trace,)):
            return self._own(state_in(variable, self.graph).reading)

    def traced(self, outputs: Sequence[Tensor]) -> Traced:
        """The block as a function of its inputs, with these outputs."""
        return Traced(self.graph, self.trace, self.inputs, outputs)


def _converted(leaf: Any) -> Tensor:
    return leaf if type(leaf) is Tensor else convert(leaf)


def carried_variables(block: Block) -> tuple[list[tuple[Tensor, Tensor]], list[Variable]]:
    """Make the variables that a body assigns loop-carried: for each, the tensor inside and the one outside."""
    pairs = []
    for variable in block.assigned:
        read = block.graph.variables[variable.uid].read
        place = next(i for i, feed in enumerate(block.graph.feeds) if feed.symbol is read)
        outside = wrap(block.graph.feeds[place].value)
        block.graph.feeds[place] = block.graph.feeds[place]._replace(kind="argument", value=None)
        pairs.append((wrap(read), outside))
    return pairs, block.assigned


Axes = list[tuple[int, ...]]
"""Axes of each loop-carried value."""


def check_carry(before: Sequence[Tensor], after: Sequence[Any], changing: Axes = [], free: Axes = []) -> Axes:  # noqa: B006 - nothing writes to them
    """Check that a body returns what it takes: as many values, with the same dtypes, and shapes except in `changing`
    axes.

    Returns the axes that change; raises an error for those that are not `free` to.
    """
    if len(before) != len(after):
        sentence = f"The loop has {len(before)} variables, but its body returned {len(after)} values."
        raise for_all_sizes(ValueError(sentence))
    found = []
    for i, (a, b) in enumerate(zip(before, after, strict=True)):
        if b is None or a.dtype != b.dtype:
            what = "None" if b is None else b.dtype.name
            raise for_all_sizes(
                TypeError(
                    f"Input tensor enters the loop with dtype {a.dtype.name}, but has dtype {what} after one "
                    "iteration. Use tf.cast inside the loop, or start with the final dtype."
                )
            )
        old, new = tuple(a.array.shape), tuple(b.array.shape)
        may_change = free[i] if free else ()
        differing = {axis for axis, (n, m) in enumerate(zip(old, new, strict=False)) if n != m}
        if len(old) == len(new) and allows_dynamic_shapes() and differing <= {*may_change}:
            found.append(tuple(sorted(differing | {*changing[i]} if changing else differing)))
            continue
        if old != new:
            problem = ValueError(
                f"Input tensor enters the loop with shape {a.shape}, but has shape {b.shape} after one iteration. To "
                "allow the shape to vary across iterations, use the `shape_invariants` argument of tf.while_loop to "
                "specify a less-specific shape. A compiled loop keeps shapes: write into a tensor of the final size "
                "(tf.tensor_scatter_nd_update, tf.TensorArray), or loop over Python numbers, which are unrolled."
            )
            raise only_eager(problem) if may_change else problem
        found.append(())
    return found


def without_outputs(program: Program, used: Sequence[bool]) -> tuple[Program, list[int]]:
    """A program with only some of its outputs, and the positions of the captured operands that it still needs."""
    smaller = program.with_outputs([out for out, wanted in zip(program.outputs, used, strict=True) if wanted])
    before = [f for f in program.feeds if not program.is_explicit(f)]
    after = {id(f.symbol) for f in smaller.feeds}
    return smaller, [i for i, feed in enumerate(before) if id(feed.symbol) in after]


def zeros_like_symbol(symbol: Symbolic, lead: tuple[int, ...] = ()) -> Any:
    """Zeros with a symbol's shape and dtype, after leading axes; of known shape, they take no memory.

    Sizes that only another branch computes are 0.
    """
    graph = current_graph()
    shape = (*lead, *symbol.shape)
    if graph is not None and not is_known_shape(shape):
        gone = {name: 0 for name, v in variables_in(shape).items() if not graph.knows(v)}
        return zeros(evaluated(shape, gone), symbol.dtype)
    return np.broadcast_to(np.zeros((), symbol.dtype), shape)


def add_node(name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> tuple[Any, ...]:
    """Add a node to the graph that is being traced; return its outputs, always as a tuple."""
    found = call(name, args, attrs)
    return found if type(found) is tuple else (found,)


def iteration_number() -> Tensor:
    """The index of the iteration that is being traced."""
    graph = current_graph()
    assert graph is not None
    return wrap(graph.iteration)
