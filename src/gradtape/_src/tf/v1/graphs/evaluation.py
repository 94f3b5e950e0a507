"""Run the operations of a graph: call their functions, in the order in which they were added."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from gradtape._src import errors, nest
from gradtape._src.arrays.symbolic import current_graph, tracing
from gradtape._src.autodiff.custom_gradient import custom_gradient
from gradtape._src.autodiff.gradient_overrides import registered
from gradtape._src.conversion import convert
from gradtape._src.core.tape import active_recorders, use_recorders
from gradtape._src.graph.trace import Trace
from gradtape._src.tensor import Tensor, is_differentiable
from gradtape._src.tf.v1.graphs.tensors import GraphTensor, Mode, Operation, Target, is_graph_value, running
from gradtape._src.variable import Variable


class Evaluation(Mode):
    """The values of tensors of a graph, each computed once: now or, in a trace, by its program."""

    def __init__(self, given: Iterable[tuple[GraphTensor, Tensor]]) -> None:
        self._values: dict[int, Tensor] = {id(tensor): value for tensor, value in given}
        self._done: set[int] = set()
        self._graph, self._recorders = current_graph(), active_recorders()
        self.tape: Any = None  # records eager ops, for gradients

    def tensor(self, tensor: GraphTensor) -> Tensor:
        found = self._values.get(id(tensor))
        if found is None:  # used by a closure: it does not belong to the branch or loop that is being traced
            with tracing(self._graph), use_recorders(self._recorders):
                self.run_with_inputs(tensor.op)
            found = self._values[id(tensor)]
        return found

    def has(self, tensor: GraphTensor) -> bool:
        """Whether the value of a tensor was computed."""
        return id(tensor) in self._values

    def run_with_inputs(self, op: Operation) -> None:
        """Run an operation after its dependencies."""
        for each in needed([op], self._values):
            self.run(each)

    def run(self, op: Operation) -> None:
        """Run an operation whose inputs were computed."""
        if id(op) in self._done:
            return
        self._done.add(id(op))
        if op.is_placeholder:
            self.refuse_placeholder(op)
            return
        with running(self):
            self.prepare(op)
            args, kwargs = nest.map_structure(self.inside, (op.args, op.kwargs), expand_composites=True)
            try:
                function = op.function if "_gradient_op_type" not in op.attributes else _with_registered_gradient(op)
                result = function(*args, **kwargs)
            except errors.OpError as error:
                error.when_traced = None  # sizes are known by now: the run fails, not the construction of the graph
                raise
        leaves = nest.flatten(result, expand_composites=True)
        for place, output in zip(op.places, op.outputs, strict=True):
            if id(output) not in self._values:
                value = self._values[id(output)] = convert(leaves[place])
                self._track(value)

    def _track(self, value: Tensor) -> None:
        """Make a value differentiable, even if it was computed from constants alone."""
        if not is_differentiable(value.array):
            return
        if self.tape is not None:
            self.tape.watch_constant(value)
        for recorder in active_recorders():
            if isinstance(recorder, Trace):
                recorder.track(value)

    def prepare(self, op: Operation) -> None:
        """Called before the function of an operation."""

    def refuse_placeholder(self, op: Operation) -> None:
        """The error for a placeholder without a fed value."""
        output = op.outputs[0]
        shape = "" if output._static.rank is None else f" and shape {output._static}"
        error = errors.InvalidArgumentError(
            None,
            op,
            f"You must feed a value for placeholder tensor '{op.name}' with dtype {output.dtype.name}{shape}. Pass it "
            "in feed_dict.",
        )
        error.when_traced = None
        raise error

    def inside(self, value: Any) -> Any:
        """An argument of an operation, in the form that its function takes."""
        if isinstance(value, GraphTensor):
            return self.tensor(value)
        if isinstance(value, Target):
            return value.variable
        return self.variable(value) if is_graph_value(value) else value

    def variable(self, variable: Any) -> Any:
        """What a function gets instead of a variable of the graph."""
        return self.read(variable)


class _Running(NamedTuple):
    """An operation while it runs, as seen by the gradient function that is registered for it."""

    operation: Operation
    inputs: tuple[Any, ...]
    outputs: list[Any]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.operation, name)


def _with_registered_gradient(op: Operation) -> Callable[..., Any]:
    """The function of an operation, with the gradient chosen by `gradient_override_map`."""

    def call(*args: Any, **kwargs: Any) -> Any:
        leaves = nest.flatten((args, kwargs), expand_composites=True)
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, (Tensor, Variable))]

        @custom_gradient
        def run(*inputs: Any) -> Any:
            given = list(leaves)
            for place, value in zip(places, inputs, strict=True):
                given[place] = value
            inner, named = nest.pack_sequence_as((args, kwargs), given, expand_composites=True)
            result = op.function(*inner, **named)

            def gradient(*upstream: Any, variables: Any = ()) -> Any:
                running_op = _Running(op, inputs, nest.flatten(result))
                found = registered(op.attributes["_gradient_op_type"].decode(), op)(running_op, *upstream)
                return found if not variables else (found, [None] * len(variables))

            return result, gradient

        return run(*[leaves[place] for place in places])

    return call


def needed(fetches: Sequence[Operation], given: Any) -> list[Operation]:
    """The operations that `fetches` depend on, and these, in graph order; `given` has the ids of fed tensors."""
    found: dict[int, Operation] = {}
    stack = list(fetches)
    while stack:
        op = stack.pop()
        if id(op) in found:
            continue
        found[id(op)] = op
        stack.extend(op.control_inputs)
        for value in op.inputs:
            if isinstance(value, GraphTensor) and id(value) not in given:
                stack.append(value.op)
    return sorted(found.values(), key=lambda op: op.number)
