"""Functions traced for a file: programs, and ops in between that XLA cannot compile.

The results of such an op are inputs of the programs after it. If their sizes depend on values, they have dimensions of
their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gradtape._src.arrays.dimensions import is_known_shape, variable
from gradtape._src.arrays.graph_ops import collecting
from gradtape._src.arrays.symbolic import NeedsEagerError, Symbolic
from gradtape._src.conversion import wrap
from gradtape._src.dtypes import int32, string
from gradtape._src.function.concrete import ConcreteFunction
from gradtape._src.function.polymorphic import candidates
from gradtape._src.interrupts import is_interrupt
from gradtape._src.shape import TensorShape
from gradtape._src.tensor import Tensor

if TYPE_CHECKING:
    from gradtape._src.arrays.symbolic import Graph
    from gradtape._src.dtypes import DType
    from gradtape._src.function.arguments import Arguments
    from gradtape._src.function.tracing import Tracer
    from gradtape._src.graph.trace import Trace


class GraphOp(NamedTuple):
    """An op of TensorFlow in a traced function.

    Inputs, by name, are tensors, lists of tensors, or objects that a graph refers to by handles; results are tensors
    that programs take as inputs.
    """

    name: str
    inputs: dict[str, Any]
    attrs: dict[str, Any]
    results: tuple[Tensor, ...]


class StagedTrace(NamedTuple):
    """A function for a file: its trace, and the ops between its programs in execution order."""

    concrete: ConcreteFunction
    ops: list[GraphOp]


class Collector:
    """Collects the ops of a trace."""

    def __init__(self) -> None:
        self.graph: Graph | None = None
        self.ops: list[GraphOp] = []

    def begin(self, graph: Graph, trace: Trace) -> None:
        """Start a trace, or start it again."""
        self.graph, self._trace, self.ops = graph, trace, []
        self._sizes = 0

    def measure(self, inputs: Sequence[Tensor]) -> None:
        """Make sizes of string inputs available to programs, which take no strings, as those of the
        strings' lengths.
        """
        for tensor in inputs:
            if tensor.dtype == string and not is_known_shape(tensor.array.shape):
                self.add("StringLength", {"input": tensor}, {}, [(tensor.array.shape, int32)])

    def add(
        self, op: str, inputs: dict[str, Any], attrs: dict[str, Any], results: Sequence[tuple[Sequence[Any], DType]]
    ) -> list[Tensor]:
        """Add an op; `results` are shapes and dtypes, with None for a size that depends on values."""
        assert self.graph is not None
        made = []
        for shape, dtype in results:
            known = tuple([self._size() if n is None else n for n in shape])
            tensor = wrap(self.graph.argument(known, dtype.numpy_dtype))
            self._trace.track(tensor)
            made.append(tensor)
        self.ops.append(GraphOp(op, inputs, attrs, tuple(made)))
        return made

    def _size(self) -> Any:
        self._sizes += 1
        return variable(f"s{self._sizes - 1}")


def staged(tracer: Tracer, arguments: Arguments, declared: Sequence[TensorShape]) -> StagedTrace:
    """Trace a function for arguments of declared shapes; raises the last error if no pattern of sizes fits.

    An unknown size may have to be a certain number, such as the number of features that weights are multiplied with.
    The numbers to try are those in the errors of earlier tries.
    """
    failure: BaseException = NeedsEagerError(ValueError("its arguments have unknown ranks"))
    numbers: set[int] = set()
    for shapes in _shapes(declared, numbers):
        for patterns in candidates(arguments.tensors, shapes):
            collector, count = Collector(), tracer.count
            try:
                with collecting(collector):
                    concrete = tracer.trace(arguments, patterns)
                return StagedTrace(concrete, collector.ops)
            except (Exception, NeedsEagerError) as error:
                if not isinstance(error, NeedsEagerError) and is_interrupt(error):
                    raise
                failure = failure if shapes is not declared else error
                numbers |= _numbers_in(error)
            finally:
                tracer.count = count
    raise failure


_MOST_NUMBERS = 12


def _shapes(declared: Sequence[TensorShape], numbers: set[int]) -> Iterator[Sequence[TensorShape]]:
    """The declared shapes, then the same with a number for their last sizes, from the errors of earlier tries."""
    yield declared
    for number in sorted(numbers)[:_MOST_NUMBERS]:
        sizes = [None if shape.rank is None else shape.as_list() for shape in declared]
        if any(each is not None and len(each) > 1 and each[-1] is None for each in sizes):
            yield [
                TensorShape([*each[:-1], number] if each is not None and len(each) > 1 and each[-1] is None else each)
                for each in sizes
            ]


def _numbers_in(error: BaseException | None) -> set[int]:
    """The numbers in the messages of an error and of its causes."""
    found: set[int] = set()
    while error is not None:
        found |= {int(word) for word in re.findall(r"\b\d{1,6}\b", str(error))}
        error = error.__cause__ or error.__context__
    return found - {0}


def is_symbolic(value: Any) -> bool:
    """Whether the traced function computes a tensor."""
    return isinstance(value, Tensor) and type(value.array) is Symbolic
