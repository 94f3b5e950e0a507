"""`tf.function`: Python code that is traced once for each signature and runs as a graph, on NumPy or XLA."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Sequence, Set as AbstractSet
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from gradtape._src import forks, nest
from gradtape._src.arrays.seeds import OpStreams, drawing_from
from gradtape._src.arrays.symbolic import Graph, current_graph
from gradtape._src.conversion import convert, wrap
from gradtape._src.core import tape as stack
from gradtape._src.core.tape import active_recorders
from gradtape._src.function.arguments import Arguments, arguments_of, flattened
from gradtape._src.function.cache import Cache
from gradtape._src.function.concrete import ConcreteFunction, FunctionRef
from gradtape._src.function.modes import eagerly, traced_for, warn_not_compiled, warn_once
from gradtape._src.function.polymorphic import ShapePolymorphicTraces
from gradtape._src.function.python_code import call_python, weak_method
from gradtape._src.function.signature import Signature, example
from gradtape._src.function.tracing import Tracer
from gradtape._src.graph.calls import linked
from gradtape._src.graph.trace import Trace
from gradtape._src.tensor import Tensor, is_differentiable
from gradtape._src.variable import Variable

if TYPE_CHECKING:
    from gradtape._src.function.staged import StagedTrace
    from gradtape._src.shape import TensorShape
    from gradtape._src.typing import P, PolymorphicFunction, R


class Function:
    """A Python function that is traced and compiled when it is called.

    >>> import gradtape as tf
    >>> @tf.function
    ... def double(x):
    ...     return 2 * x
    >>> float(double(tf.constant(3.0)))
    6.0
    """

    def __init__(
        self,
        python_function: Callable[..., Any],
        input_signature: Sequence[Any] | None = None,
        autograph: bool = True,
        reduce_retracing: bool = False,
        jit_compile: bool | None = None,
        always_traced: bool = False,
    ) -> None:
        """With `always_traced`, a call raises an error if the code needs eager execution."""
        if not callable(python_function):
            raise TypeError(f"tf.function decorates functions. Received {python_function!r}.")
        functools.update_wrapper(self, python_function)
        self._python_function = python_function
        self._signature = Signature(python_function, input_signature)
        self._autograph, self._reduce_retracing, self._jit_compile = autograph, reduce_retracing, jit_compile
        self._always_traced = always_traced
        self._bound: weakref.WeakKeyDictionary[Any, Function] | None = None
        self._method: weakref.ref[BoundFunction] | None = None  # the method with its object, while that is alive
        self._cache = Cache()
        self._traces: ShapePolymorphicTraces | None = None  # with unknown dimensions
        self._tracing = forks.rlock()
        self._made_tracer: Tracer | None = None
        self._retracings = 0  # the number of traces in the most recent calls, reset by a call without one

    def _decorate(self, decorator: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Apply a decorator to the Python function; libraries do so before the first call."""
        if self._functions or self._made_tracer is not None:
            raise ValueError("Functions cannot be decorated after they have been traced.")
        self._python_function = decorator(self._python_function)
        self._signature = Signature(self._python_function, self._signature.declared)

    # -- properties --------------------------------------------------------------------------------------------------
    @property
    def python_function(self) -> Callable[..., Any]:
        """The Python function."""
        return self._python_function

    @property
    def input_signature(self) -> tuple[Any, ...] | None:
        """The declared specifications of the arguments, or None."""
        return self._signature.declared

    @property
    def function_type(self) -> inspect.Signature:
        """The parameters of the Python function."""
        return self._signature.parameters

    @property
    def __signature__(self) -> inspect.Signature:  # read by `inspect.getfullargspec`, and so by `keras.layers.Lambda`
        try:
            return self._signature.parameters
        except ValueError as error:  # a builtin function without a signature
            raise AttributeError(str(error)) from None

    def experimental_get_tracing_count(self) -> int:
        """The number of times that the Python code was traced.

        >>> import gradtape as tf
        >>> f = tf.function(lambda x: x + 1.0)
        >>> _ = f(tf.constant(1.0)), f(tf.constant(2.0)), f(tf.constant([1.0]))
        >>> f.experimental_get_tracing_count()
        2
        """
        return self._tracer.count

    def pretty_printed_concrete_signatures(self, verbose: bool = True) -> str:
        """The signatures that it was traced for, as text."""
        return "\n\n".join(concrete.pretty_printed_signature(verbose) for concrete in self._functions)

    def summary(self, detailed: bool = False) -> str:
        """A table of compiled programs: signatures, executors and the reason for them, and XLA's cost analysis.

        With `detailed` also the number of nodes after each pass, the planned memory, and the statements of the program
        that runs on NumPy.

        >>> import gradtape as tf
        >>> f = tf.function(lambda x: x @ x)
        >>> _ = f(tf.ones([8, 8]))
        >>> print(f.summary())  # doctest: +ELLIPSIS
        <lambda>: traced 1 time
        ...
        """
        from gradtape._src.function.summary import summary

        return summary(self.name, self._tracer.count, self._functions, detailed)

    @property
    def _functions(self) -> list[ConcreteFunction]:
        """All concrete functions."""
        return self._cache.functions()

    def traces(self) -> list[ConcreteFunction]:
        """The concrete functions that were created so far, by calls and by specifications with unknown dimensions."""
        polymorphic = [] if self._traces is None else self._traces.functions()
        return list({id(each): each for each in (*self._functions, *polymorphic)}.values())

    @property
    def name(self) -> str:
        """The name of the Python function."""
        return str(getattr(self, "__name__", type(self._python_function).__name__))

    def __repr__(self) -> str:
        count = self._tracer.count
        return f"<gradtape.Function {self.name!r}, traced {count} time{'' if count == 1 else 's'}>"

    def _repr_html_(self) -> str:
        from html import escape

        # Notebooks show pre in a proportional font, and wrap it.
        style = "font-family: monospace; white-space: pre; overflow-x: auto"
        return f'<pre style="{style}">{escape(self.summary())}</pre>'

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """A method: the function bound to its object, with its own traces."""
        if instance is None:
            return self
        if self._bound is None:
            self._bound = weakref.WeakKeyDictionary()
        try:
            found = self._bound.get(instance)
            if found is None:
                # A weak reference: traces must not keep the object alive.
                found = self._bound[instance] = self._for(weak_method(self._python_function, instance))
        except TypeError:  # an object that is not hashable, or does not support weak references
            return self._for(functools.partial(self._python_function, instance))
        method = None if found._method is None else found._method()
        if method is None:
            method = BoundFunction(found, instance)
            found._method = weakref.ref(method)
        return method

    def _for(self, method: Callable[..., Any]) -> Function:
        bound = Function(method, *self._options)
        functools.update_wrapper(bound, self._python_function)
        return bound

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle the function without its traces."""
        return Function, (self._python_function, *self._options)

    @property
    def _options(self) -> tuple[Any, ...]:
        options = (self._autograph, self._reduce_retracing, self._jit_compile, self._always_traced)
        return self._signature.declared, *options

    # -- calling -----------------------------------------------------------------------------------------------------
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        graph = current_graph()
        if graph is not None or eagerly[0]:
            if graph is None:
                warn_not_compiled()
            return self._run_python(args, kwargs)
        given = self._signature.canonical(args, kwargs)
        leaves, key, variable_args = flattened(given, self._jit_compile is True)
        if key is None:  # a batch within a vectorized_map
            return self._run_python(args, kwargs)
        if (replica := traced_for.get()) is not None:
            key = (replica, *key)
        concrete = self._find(given, leaves, key, variable_args)
        return concrete.run([leaf for leaf in leaves if type(leaf) is Tensor], variable_args)

    def prepared(self, *args: Any) -> tuple[ConcreteFunction, list[Tensor], Sequence[Variable]]:
        """The concrete function of a call with these arguments, and its tensors and variables:
        tracing without calling.
        """
        leaves, key, variable_args = flattened(args, self._jit_compile is True)
        return (
            self._find(args, leaves, key, variable_args),
            [leaf for leaf in leaves if type(leaf) is Tensor],
            variable_args,
        )

    def concrete_for(self, arguments: Arguments) -> ConcreteFunction:
        """The concrete function for a call with these arguments."""
        return self._find(*arguments)

    def _find(
        self, given: tuple[Any, ...], leaves: list[Any], key: Any, variable_args: Sequence[Variable]
    ) -> ConcreteFunction:
        """The concrete function for such arguments, traced now if there is none yet."""
        concrete = self._cache.find(key, variable_args)
        if concrete is not None and concrete.unknown_shapes and _sees_more(concrete.unknown_shapes):
            self._cache.remove(concrete)
            concrete = None
        if concrete is None:
            count = self._tracer.count
            concrete = self.trace(Arguments(given, leaves, key, variable_args))
            self._watch_retracing(self._tracer.count > count)
        elif self._retracings:
            self._retracings = 0
        return concrete

    def _watch_retracing(self, traced: bool) -> None:
        """Warn once when the last five calls were all traced, and name the argument that changes."""
        self._retracings = self._retracings + 1 if traced else 0
        if self._retracings >= 5:
            signatures = [concrete.pretty_printed_signature(False) for concrete in self._functions[-2:]]
            warn_once(
                f"5 out of the last 5 calls to {self._python_function} triggered tf.function retracing. Tracing is "
                "expensive: the function is traced again for each new shape, dtype or Python value among the "
                "arguments. Pass tensors instead of Python numbers, keep shapes the same, and create functions "
                f"outside loops. The last two calls: {signatures[0]}, then {signatures[-1]}.",
                self._tracer.origin,
            )

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """Return the concrete function for such arguments; a `TensorSpec` stands for a tensor.

        >>> import gradtape as tf
        >>> f = tf.function(lambda x: x * x)
        >>> square = f.get_concrete_function(tf.TensorSpec([2], tf.float32))
        >>> square(tf.constant([1.0, 3.0])).numpy().tolist()
        [1.0, 9.0]
        """
        if not args and not kwargs and self._signature.declared is not None:
            args = self._signature.declared
        unknown: dict[int, Any] = {}
        given = self._signature.canonical(example(args, unknown), example(kwargs, unknown))
        arguments = arguments_of(given, self._jit_compile is True)
        if unknown:
            with self._tracing:
                found = self._polymorphic.for_specs(arguments, unknown)
        else:
            found = self._cache.find(arguments.key, arguments.variable_args) or self.trace(arguments)
        found.name_inputs(self._signature.names(args, kwargs))
        return found

    def experimental_get_compiler_ir(self, *args: Any, **kwargs: Any) -> Callable[..., str | bytes]:
        """Return what XLA compiles for such arguments, as a function of the stage.

        Stages are "hlo", "hlo_serialized", "stablehlo", "optimized_hlo", "optimized_hlo_serialized",
        "optimized_hlo_proto_serialized" and "optimized_hlo_dot" (a drawing for Graphviz).

        >>> import gradtape as tf
        >>> f = tf.function(lambda x: x * x, jit_compile=True)
        >>> f.experimental_get_compiler_ir(tf.constant(2.0))(stage="hlo")[:9]
        'HloModule'
        """
        if not self._jit_compile:
            raise ValueError(
                "Compiler IR can only be returned for functions marked with 'jit_compile=True'. Received a function "
                f"with jit_compile={self._jit_compile}."
            )
        executor = self.get_concrete_function(*args, **kwargs).xla()

        def compiler_ir(stage: str = "hlo", device_name: str | None = None, platform_name: str | None = None) -> Any:
            from gradtape._src.graph.xla_executor import STAGES

            if stage not in STAGES:
                raise ValueError(f"Invalid stage selected: '{stage}'. Valid values are: {', '.join(map(repr, STAGES))}")
            return executor.compiler_ir(stage)

        return compiler_ir

    def _traced_into(self, graph: Graph, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Trace the function into the graph of another one."""
        trace = next((r for r in active_recorders() if isinstance(r, Trace)), None)
        first = 0 if trace is None else len(trace.records)
        args, kwargs = _with_tensors((args, kwargs))
        with graph.numbering_ops():
            result = call_python(self._python_function, self._autograph, args, kwargs)
        leaves = nest.flatten(result, expand_composites=True)
        places = [i for i, leaf in enumerate(leaves) if type(leaf) is Tensor and is_differentiable(leaf.array)]
        if trace is None or len(places) < 2:
            return result
        for i, tensor in zip(places, linked([leaves[i] for i in places], trace, first), strict=True):
            leaves[i] = tensor
        return nest.pack_sequence_as(result, leaves, expand_composites=True)

    def _run_python(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._signature.declared is not None:
            args, kwargs = self._signature.canonical(args, kwargs), {}
        graph = current_graph()
        if graph is not None:
            return self._traced_into(graph, args, kwargs)
        if eagerly[0]:
            return call_python(self._python_function, self._autograph, args, kwargs)
        with drawing_from(self._op_streams):
            return call_python(self._python_function, self._autograph, args, kwargs)

    @functools.cached_property
    def _op_streams(self) -> OpStreams:
        """The random number streams of a function that is not compiled."""
        return OpStreams()

    # -- tracing -----------------------------------------------------------------------------------------------------
    @property
    def _tracer(self) -> Tracer:
        return self._made_tracer or self._make_tracer()

    def _make_tracer(self) -> Tracer:
        """Create the tracer in the first call, when the function has its name."""
        with self._tracing:
            if self._made_tracer is None:
                origin = FunctionRef(self, self._signature.known_parameters)
                options = self._options[1:]
                self._made_tracer = Tracer(origin, self._python_function, self._signature, *options)
            return self._made_tracer

    def trace(self, arguments: Arguments, known_shapes: bool = False) -> ConcreteFunction:
        """What runs a call; with `known_shapes` a function for the shapes of this call alone, where they were unknown
        in a trace before.
        """
        key, variable_args = arguments.key, arguments.variable_args
        with self._tracing:
            found = self._cache.find(key, variable_args)
            if found is not None and not (known_shapes and found.graph.polymorphic):  # another thread has traced it
                return found
            concrete = None
            has_free_sizes = any(nest.sizes_of(arguments.given)) and not self._jit_compile
            if not (known_shapes or has_free_sizes) and (self._traces is not None or self._tracer.may_generalise):
                concrete = self._polymorphic.find(arguments)
            if concrete is None:
                concrete = self._tracer.trace_or_eager(arguments, knows_shapes=not known_shapes)
            if not concrete.graph.transient:
                self._cache.add(concrete, key, variable_args)
            return concrete

    @property
    def _polymorphic(self) -> ShapePolymorphicTraces:
        """The traces with unknown dimensions."""
        if self._traces is None:
            self._traces = ShapePolymorphicTraces(self._tracer)
        return self._traces

    def eager_beside(self, arguments: Arguments, reason: Exception) -> ConcreteFunction:
        """A function that runs the code eagerly, for calls with such arguments that a trace does not fit."""
        return self._tracer.eager(arguments, reason, beside_trace=True)

    def staged(self, arguments: Arguments, declared: Sequence[TensorShape]) -> StagedTrace:
        """A trace for a file, for arguments with declared shapes."""
        from gradtape._src.function.staged import staged

        with self._tracing:
            return staged(self._tracer, arguments, declared)

    def trace_for(self, symbols: Sequence[Any]) -> ConcreteFunction:
        """A trace for arguments with the shapes and dtypes of symbolic arrays, including unknown dimensions."""
        examples = [np.zeros([n if isinstance(n, int) else 1 for n in s.shape], s.dtype) for s in symbols]
        arguments = arguments_of(tuple([wrap(each) for each in examples]))
        with self._tracing:
            found: ConcreteFunction = self._tracer.trace(arguments, [tuple(s.shape) for s in symbols])
            return found

    def replace_by_eager(self, old: ConcreteFunction, arguments: Arguments, reason: Exception) -> ConcreteFunction:
        """Run the code eagerly from now on, instead of a concrete function that cannot be used."""
        new = self._tracer.eager(arguments, reason)
        self._cache.replace(old, new)
        return new


def _sees_more(unknown_shapes: AbstractSet[int]) -> bool:
    """Whether a tape tracks a tensor whose shape was unknown when the function was traced."""
    return any(uid in recorder.tracked for recorder in stack.active_recorders() for uid in unknown_shapes)


def _with_tensors(given: Any) -> Any:
    """The arguments with NumPy arrays and numbers converted to tensors."""
    if not any(isinstance(leaf, (np.ndarray, np.generic)) for leaf in nest.flatten(given)):
        return given
    return nest.map_structure(lambda leaf: convert(leaf) if isinstance(leaf, (np.ndarray, np.generic)) else leaf, given)


class BoundFunction:
    """A compiled method with its object, which it keeps alive."""

    __slots__ = ("__dict__", "__self__", "__weakref__", "_function")

    def __init__(self, function: Function, instance: Any) -> None:
        self._function, self.__self__ = function, instance

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """Pretend to be a Function: `isinstance(method, type(tf.function(f)))` tells whether a method is compiled."""
        return Function

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoundFunction) and other._function is self._function

    def __hash__(self) -> int:
        return hash(self._function)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self.__self__, self._function.name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)

    def __repr__(self) -> str:
        return repr(self._function)


@overload
def function(
    func: Callable[P, R],
    input_signature: Sequence[Any] | None = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    experimental_implements: str | None = None,
    experimental_autograph_options: Any = None,
    experimental_attributes: Any = None,
    experimental_relax_shapes: bool | None = None,
    experimental_compile: bool | None = None,
    experimental_follow_type_hints: bool | None = None,
) -> PolymorphicFunction[P, R]: ...
@overload
def function(
    func: None = None,
    input_signature: Sequence[Any] | None = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    experimental_implements: str | None = None,
    experimental_autograph_options: Any = None,
    experimental_attributes: Any = None,
    experimental_relax_shapes: bool | None = None,
    experimental_compile: bool | None = None,
    experimental_follow_type_hints: bool | None = None,
) -> Callable[[Callable[P, R]], PolymorphicFunction[P, R]]: ...
def function(
    func: Callable[..., Any] | None = None,
    input_signature: Sequence[Any] | None = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    experimental_implements: str | None = None,
    experimental_autograph_options: Any = None,
    experimental_attributes: Any = None,
    experimental_relax_shapes: bool | None = None,
    experimental_compile: bool | None = None,
    experimental_follow_type_hints: bool | None = None,
) -> Any:
    """Compile a Python function into one program, which runs on NumPy and, with the extra `xla`, on XLA once that is
    compiled and faster.

    The Python code runs once for each combination of shapes, dtypes and Python values; after that, the compiled program
    runs. Tapes can be inside, outside, or both. For dimensions that `input_signature` declares as None, or with
    `reduce_retracing` from the second shape on, the code runs once for all sizes and XLA compiles for each; code that
    needs the size as a number, such as `range(len(x))`, is traced for each size.

    >>> import gradtape as tf
    >>> @tf.function(jit_compile=True)
    ... def energy(x):
    ...     return tf.reduce_sum(x * x)
    >>> x = tf.Variable([1.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     y = energy(x)
    >>> tape.gradient(y, x).numpy().tolist()
    [2.0, 4.0]
    """

    def decorate(python_function: Callable[..., Any]) -> Function:
        relaxed = reduce_retracing or bool(experimental_relax_shapes)
        compiled = experimental_compile if jit_compile is None else jit_compile
        if compiled is not None and not isinstance(compiled, (bool, int, np.bool_)):
            raise TypeError(
                "jit_compile must be True (always compile with XLA), False (run on NumPy, without compiling) or "
                f"None (use the setting of tf.config.optimizer.set_jit). Received: {compiled!r}."
            )
        return Function(python_function, input_signature, autograph, relaxed, compiled)

    return decorate if func is None else decorate(func)
