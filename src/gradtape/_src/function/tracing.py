"""Tracing: run the Python code of a function with symbolic tensors, and record what it computes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape._src import errors, nest
from gradtape._src.arrays.dimensions import is_dimension
from gradtape._src.arrays.graph_ops import collector
from gradtape._src.arrays.seeds import seeds
from gradtape._src.arrays.symbolic import (
    FollowConstantsError,
    Graph,
    NeedsEagerError,
    Symbolic,
    dynamic_argument,
    tracing,
)
from gradtape._src.conversion import wrap
from gradtape._src.core import tape as stack
from gradtape._src.function.arguments import Arguments, arguments_kept, split_keywords
from gradtape._src.function.autograph import is_available
from gradtape._src.function.concrete import ConcreteFunction, FunctionRef, is_text
from gradtape._src.function.eager import EagerFunction, refuse_creation
from gradtape._src.function.modes import executor_of, warn_once
from gradtape._src.function.python_code import as_graph_error, as_results, converted, graph_errors
from gradtape._src.function.signature import Signature
from gradtape._src.graph.trace import Trace
from gradtape._src.interrupts import is_interrupt
from gradtape._src.tensor import Tensor
from gradtape._src.variable import Creations, Variable, VariableParam, creating, is_distributed

Kind = Callable[..., Any]
"""The class of a concrete function."""


class Tracer:
    """Traces a function, for one signature after the other.

    count             the number of traces
    tracks_constants  whether the code needs gradients with respect to constants that it creates
    never_fits        whether an error of shapes occurs for all sizes of the unknown dimensions
    """

    def __init__(
        self,
        origin: FunctionRef,
        python_function: Callable[..., Any],
        signature: Signature,
        autograph: bool,
        reduce_retracing: bool,
        jit_compile: bool | None,
        always_traced: bool,
    ) -> None:
        self.origin, self.signature, self.reduce_retracing = origin, signature, reduce_retracing
        self._python_function, self._autograph = python_function, autograph
        self._jit_compile = jit_compile  # True: XLA, False: NumPy, None: `set_jit` decides
        self._never_eager = bool(jit_compile) or always_traced
        self.count = 0
        self.tracks_constants = False
        self.never_fits: Callable[[errors.InvalidArgumentError], bool] = may_fit
        self._knows_shapes = signature.knows_shapes  # whether TensorFlow's trace would have the sizes of this one
        self._has_trace = False  # whether a trace has succeeded: until then variables may be created
        self._created: list[Any] = []  # variables that the first call created

    @property
    def may_generalise(self) -> bool:
        """Whether functions may be traced with unknown dimensions."""
        return self.reduce_retracing or not self.signature.knows_shapes

    @functools.cached_property
    def _converted(self) -> Callable[..., Any]:
        """The function converted by AutoGraph."""
        return converted(self._python_function, self._autograph)

    def trace_or_eager(self, arguments: Arguments, kind: Kind = ConcreteFunction, *, knows_shapes: bool = True) -> Any:
        """Trace the function; if the code needs eager execution, return a function that runs it eagerly.

        A discarded trace has no effect: random number streams are restored, and the code finds the variables that the
        trace created. `knows_shapes` is False for sizes that are unknown in TensorFlow's trace, where incompatible
        shapes are errors of the call.
        """
        state = seeds.state()
        self._knows_shapes = knows_shapes and self.signature.knows_shapes
        try:
            return self.trace(arguments, None, kind)
        except NeedsEagerError as error:
            seeds.restore(state)
            return self.eager(arguments, error.reason)
        except errors.InvalidArgumentError as error:
            if self.never_fits(error):
                raise as_graph_error(error) from None
            raise
        finally:
            self.never_fits = may_fit
            self._knows_shapes = self.signature.knows_shapes

    def eager(self, arguments: Arguments, reason: Exception, beside_trace: bool = False) -> ConcreteFunction:
        """A function that runs the code eagerly for such arguments; raises the reason if that was excluded."""
        if self._never_eager:
            raise as_graph_error(reason)
        concrete = EagerFunction(self.origin, self._python_function, self._autograph, arguments, reason, beside_trace)
        text = concrete.pretty_printed_signature(False)
        if not getattr(self._python_function, "is_quiet", False):
            warn_once(f"The function '{self.origin.name}' runs eagerly. {reason} Arguments: {text}", self.origin)
        return concrete

    def trace(self, arguments: Arguments, shapes: Any = None, kind: Kind = ConcreteFunction) -> Any:
        """Trace once, or twice if the code creates variables.

        `shapes` replace those of the tensors; `kind` is the class of the result.
        """
        first, created = not self._has_trace, len(self._created)
        while True:
            constants = self.tracks_constants
            concrete = given_up = None
            try:
                concrete = self.trace_once(arguments, first, shapes, kind)
            except NeedsEagerError as error:
                given_up = error
            if len(self._created) > created:
                # As in TensorFlow, the first trace creates variables. The second trace finds them.
                first, created = False, len(self._created)
            elif constants == self.tracks_constants:
                break
        self._has_trace = True
        if given_up is not None:
            raise given_up
        return concrete

    def trace_once(
        self, arguments: Arguments, may_create: bool, shapes: Any = None, kind: Kind = ConcreteFunction
    ) -> ConcreteFunction:
        """Trace the code; with `may_create` it may create variables."""
        from gradtape._src.graph.operations import FuncGraph
        from gradtape._src.graph.traced import Traced

        graph = FuncGraph(self.origin.name)
        graph.seed, graph.executor = seeds.seed, executor_of(self._jit_compile)
        graph.watched = tuple(recorder.tracked for recorder in stack.active_recorders())
        graph.polymorphic = shapes is not None
        ops = collector()
        graph.static = bool(self._jit_compile) or ops is not None
        graph.argument_names = self.signature.argument_names(arguments.given, arguments.leaves)
        graph.tracks_constants = self.tracks_constants
        graph.variable_params.update((v.uid, VariableParam(v, i, graph)) for i, v in enumerate(arguments.variable_args))
        self.count += 1
        trace = Trace(graph)
        tensors = arguments.tensors
        if ops is not None:
            ops.begin(graph, trace)
        with tracing(graph), stack.use_recorders((trace,)):
            if ops is None and any(map(is_text, tensors)):
                graph.leave_to_numpy()
            inputs = _inputs(graph, tensors, shapes if graph.static else _free_sizes(arguments, shapes))
            for tensor in inputs:
                trace.track(tensor)
            if ops is not None:
                ops.measure(inputs)
            graph.concrete = _evaluator(graph, inputs, tensors, arguments.variable_args)
            leaves = _filled(arguments.leaves, inputs, graph)
            empty = shapes is None and self.may_generalise and any(map(_is_empty, tensors))
            given = nest.pack_sequence_as(arguments.given, leaves, expand_composites=True)
            result = self._run_dynamic(graph, given, may_create, self._knows_shapes and not empty)
            outputs = [*filter(_is_output, nest.flatten(result, expand_composites=True))]
            for out in outputs:
                graph.own(out.array)  # raises an error for a value that escaped from a branch or a loop
        traced = Traced(graph, trace, inputs, outputs)
        graph.complete(traced)
        traced.check_divided()
        made: ConcreteFunction = kind(self.origin, arguments.given, leaves, traced, result)
        return made

    def _run_dynamic(self, graph: Graph, given: tuple[Any, ...], may_create: bool, knows_shapes: bool) -> Any:
        """Like `_run`; code with dynamic sizes that cannot be traced runs eagerly."""
        try:
            return self._run(given, may_create, knows_shapes)
        except Exception as error:
            if not graph.needs_numpy or is_interrupt(error) or hasattr(error, "occurs_for_all_sizes"):
                raise
            raise NeedsEagerError(error) from error

    def _run(self, given: tuple[Any, ...], may_create: bool, knows_shapes: bool) -> Any:
        """The results of the code for symbolic arguments, as tensors."""
        args, kwargs = split_keywords(given)
        check_unchanged = arguments_kept(self._python_function, args, kwargs)
        creations = Creations(None if may_create else refuse_creation)
        try:
            with graph_errors(knows_shapes), creating(creations):
                result = self._converted(*args, **kwargs)
        except FollowConstantsError:
            self.tracks_constants = True
            result = None
        except (errors.OperatorNotAllowedInGraphError, NotImplementedError) as error:
            if not self._autograph or is_available():
                raise
            raise NeedsEagerError(error) from None  # an `if` or a loop that AutoGraph would have converted
        except RecursionError as error:
            raise errors.StagingError(
                f"in user code:\n\n    RecursionError: {error}\n\n'{self.origin.name}' calls itself, directly or "
                "indirectly, until Python's stack is exhausted. A condition on a tensor does not stop the "
                "recursion, because both branches are traced: use a loop, or a Python number to count down."
            ) from None
        finally:
            self._created.extend(creations.created)
        check_unchanged()
        return as_results(result, self._python_function)


def may_fit(error: errors.InvalidArgumentError) -> bool:
    """False: there may be sizes that fit."""
    return False


def _is_output(leaf: Any) -> bool:
    return leaf is not None and not is_text(leaf)


def _is_empty(tensor: Tensor) -> bool:
    return 0 in tensor.array.shape


def _inputs(graph: Graph, tensors: Sequence[Tensor], shapes: Any) -> list[Tensor]:
    """Symbolic tensors instead of the tensors of a call."""
    found = [tuple(t.array.shape) for t in tensors] if shapes is None else shapes
    return [wrap(dynamic_argument(graph, shape, t.array.dtype)) for t, shape in zip(tensors, found, strict=True)]


def _free_sizes(arguments: Arguments, shapes: Any) -> Any:
    """The shapes of a trace, with None for sizes that each call determines: those of ragged and sparse tensors."""
    if shapes is not None or not any(nest.sizes_of(arguments.given)):
        return shapes
    free = nest.free_axes(arguments.given)
    pairs = [(leaf, axes) for leaf, axes in zip(arguments.leaves, free, strict=True) if type(leaf) is Tensor]
    return [tuple([None if axis in axes else n for axis, n in enumerate(leaf.array.shape)]) for leaf, axes in pairs]


def _filled(leaves: Sequence[Any], inputs: Sequence[Tensor], graph: Graph) -> list[Any]:
    """The arguments of the trace: symbolic tensors, stand-ins for variables, and Python values."""
    remaining = iter(inputs)

    def inside(leaf: Any) -> Any:
        if type(leaf) is Tensor:
            return next(remaining)
        return graph.variable_params[leaf.uid] if isinstance(leaf, Variable) and not is_distributed(leaf) else leaf

    return [inside(leaf) for leaf in leaves]


def _evaluator(
    graph: Graph, inputs: list[Tensor], tensors: list[Tensor], variable_args: Sequence[Variable]
) -> Callable[[Symbolic], Any]:
    """A function that computes symbolic values immediately: initial values of variables created while tracing."""

    def concrete(symbol: Symbolic) -> Any:
        from gradtape._src.graph.program import Program

        program = Program(graph, [t.array for t in inputs], [symbol])
        if graph.polymorphic:
            pairs = [zip(t.array.shape, like.array.shape, strict=True) for t, like in zip(inputs, tensors, strict=True)]
            sizes = {str(n): size for pair in pairs for n, size in pair if is_dimension(n)}
            program = program.with_sizes(tuple(sizes.items()))
        with tracing(None):
            arrays = program.arrays([t.array for t in tensors], variable_args, None, on_numpy=True)
            return np.array(program.run_on_numpy(arrays)[0])

    return concrete
