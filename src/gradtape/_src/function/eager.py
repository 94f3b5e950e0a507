"""Functions that cannot be compiled: for some arguments the Python code runs eagerly, op by op.

If a trace reaches something that needs values (a shape that depends on them, a string, a dataset) it is discarded, and
calls with such arguments run the Python code. Functions that this code calls are compiled if they can be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gradtape._src import nest
from gradtape._src.arrays.seeds import OpStreams, drawing_from
from gradtape._src.arrays.symbolic import running_eagerly
from gradtape._src.core import tape as stack
from gradtape._src.core.tape import Recorder
from gradtape._src.function.arguments import Arguments, arguments_kept, distinct, split_keywords
from gradtape._src.function.concrete import ConcreteFunction, FunctionRef
from gradtape._src.function.python_code import call_python
from gradtape._src.function.signature import spec_of
from gradtape._src.shape import TensorSpec
from gradtape._src.tensor import Tensor
from gradtape._src.variable import Creations, Variable, creating, is_distributed
from gradtape._src.variable.spec import VariableSpec

if TYPE_CHECKING:
    from gradtape._src.graph.operations import FuncGraph

_CREATED_TWICE = (
    "tf.function only supports singleton tf.Variables created on the first call. Make sure the tf.Variable is only "
    "created once or created outside tf.function."
)


def refuse_creation() -> None:
    """Raise an error: only the first call may create variables."""
    raise ValueError(_CREATED_TWICE)


class _Reads(Recorder):
    """Collects the variables that are read or assigned, without recording ops."""

    __slots__ = ("variables",)

    def __init__(self) -> None:
        super().__init__()
        self.variables: dict[int, Variable] = {}

    def on_read(self, variable: Variable) -> None:
        self.variables[variable.uid] = variable


class EagerFunction(ConcreteFunction):
    """A function that runs eagerly for some arguments, and the reason.

    With `beside_trace` it runs only calls with sizes that the trace does not fit.
    """

    def __init__(
        self,
        origin: FunctionRef,
        python_function: Callable[..., Any],
        autograph: bool,
        arguments: Arguments,
        reason: Exception,
        beside_trace: bool = False,
    ) -> None:
        from gradtape._src.graph.operations import FuncGraph

        self._origin, self.name, self.reason = origin, origin.name, reason
        self._python_function, self._autograph = python_function, autograph
        given, leaves = arguments.given, arguments.leaves
        plain = [isinstance(leaf, Variable) and not is_distributed(leaf) for leaf in leaves]
        variable_args = distinct([leaf for leaf, is_plain in zip(leaves, plain, strict=True) if is_plain])
        pairs = zip(leaves, plain, strict=True)
        specs = [_variable_spec(leaf, variable_args) if is_plain else spec_of(leaf) for leaf, is_plain in pairs]
        self._given = nest.pack_sequence_as(given, specs, expand_composites=True)
        self._graph = FuncGraph(self.name)
        self._captured: list[Variable] = []
        self._structure: Any = None
        self._op_streams = OpStreams(beside_trace=beside_trace)
        self._ran = False

    @property
    def graph(self) -> FuncGraph:
        """An empty graph: the trace was discarded."""
        return self._graph

    @property
    def structured_outputs(self) -> Any:
        """The structure of the results with their dtypes, without shapes; known after the first call."""
        if not self._ran:
            raise ValueError(
                f"{self.pretty_printed_signature(False)} runs eagerly, so its results are known only after a call. "
                f"{self.reason}"
            )
        return self._structure

    @property
    def inputs(self) -> list[Any]:
        return [spec for spec in nest.flatten(self._given, expand_composites=True) if isinstance(spec, TensorSpec)]

    @property
    def outputs(self) -> list[Any]:
        return [s for s in nest.flatten(self.structured_outputs, expand_composites=True) if isinstance(s, TensorSpec)]

    def pretty_printed_signature(self, verbose: bool = True) -> str:
        return super().pretty_printed_signature(verbose and self._ran)

    def matches(self, variable_args: Sequence[Variable]) -> bool:
        return True

    def run(self, tensors: list[Tensor], variable_args: Sequence[Variable] = ()) -> Any:
        given = self._arguments_of_call(tensors, variable_args).given
        if self._ran:
            with creating(Creations(refuse_creation)):
                return self._called(given)
        reads = _Reads()
        unchanged = arguments_kept(self._python_function, *split_keywords(given))
        stack.start(reads)
        try:
            result = self._called(given)
        finally:
            stack.stop(reads)
        unchanged()
        self._captured = [v for v in reads.variables.values() if all(v is not p for p in variable_args)]
        self._structure = nest.map_structure(_result_spec, result, expand_composites=True)
        self._ran = True
        return result

    def _called(self, given: Any) -> Any:
        args, kwargs = split_keywords(given)
        with running_eagerly(), drawing_from(self._op_streams):
            return call_python(self._python_function, self._autograph, args, kwargs)


def _variable_spec(variable: Variable, variable_args: Sequence[Variable]) -> VariableSpec:
    number = next(i for i, v in enumerate(variable_args) if v.uid == variable.uid)
    return VariableSpec(variable.shape, variable.dtype, variable.trainable, number)


def _result_spec(leaf: Any) -> Any:
    return TensorSpec(None, leaf.dtype) if isinstance(leaf, Tensor) else leaf
