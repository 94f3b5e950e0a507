"""`tf.function`: Python code with tapes, traced once for each kind of arguments and compiled by XLA.

Without JAX the code runs eagerly, op by op, and the first call says so: values and gradients are the same.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy import ndarray

from gradtape._src import errors, forks, nest
from gradtape._src.active import active
from gradtape._src.arrays.batched import Batched
from gradtape._src.arrays.dimensions import is_dimension
from gradtape._src.arrays.seeds import OpStreams, drawing_from, seeds
from gradtape._src.arrays.symbolic import (
    FollowConstantsError,
    Graph,
    NeedsEagerError,
    Symbolic,
    current_graph,
    graph_traced,
    is_known,
    no_value,
    tracing,
)
from gradtape._src.call_sites import logger
from gradtape._src.conversion import convert, wrap
from gradtape._src.core import tape as stack
from gradtape._src.interrupts import contextmanager, settings
from gradtape._src.shape import TensorSpec, VariableSpec
from gradtape._src.tensor import Tensor
from gradtape._src.variable import Creations, StreamState, Variable, VariableParam, creating, on_host, stored, updating

if TYPE_CHECKING:
    from gradtape._src.function.polymorphic import General
    from gradtape._src.graph.trace import Traced
    from gradtape._src.typing import P, PolymorphicFunction, R

_COMPUTED = object()
_said: set[str] = set()
_asked = [False]  # what `run_functions_eagerly` was last told
_eagerly = [False]
_CREATED_TWICE = (
    "tf.function only supports singleton tf.Variables created on the first call. Make sure the tf.Variable is only "
    "created once or created outside tf.function."
)


@functools.cache
def can_compile() -> bool:
    """Whether the extra `xla` is installed; nothing is imported to find out."""
    return importlib.util.find_spec("jax") is not None


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Whether every `tf.function` runs its code as written, op by op: to step through it, to print values.

    >>> import gradtape as tf
    >>> tf.config.run_functions_eagerly(True)
    >>> tf.config.functions_run_eagerly()
    True
    >>> tf.config.run_functions_eagerly(False)
    """
    _asked[0] = bool(run_eagerly)
    _eagerly[0] = _asked[0] or bool(forks.without_xla)


def functions_run_eagerly() -> bool:
    """What `run_functions_eagerly` was last told; True in a forked child in which nothing can be compiled."""
    return _eagerly[0]


def _begin_child() -> None:
    """Run functions eagerly in a forked child, if XLA was running before the fork."""
    if forks.without_xla:
        _eagerly[0] = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)


def inside_function() -> bool:
    """Whether the code is being traced for compilation."""
    return current_graph() is not None


def is_symbolic_tensor(tensor: Any) -> bool:
    """Whether a tensor has no value yet, because the function that computes it is being traced.

    >>> import gradtape as tf
    >>> tf.is_symbolic_tensor(tf.constant(1.0))
    False
    """
    return isinstance(tensor, Tensor) and not is_known(tensor)


def init_scope() -> settings:
    """Outside of every tape and every function that is being traced: what runs in the block runs now, once.

    >>> import gradtape as tf
    >>> @tf.function
    ... def f(x):
    ...     with tf.init_scope():
    ...         print(tf.executing_eagerly())
    ...     return x
    >>> _ = f(tf.constant(1.0))
    True
    """
    return settings((graph_traced, None), (active, None))


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
        jit_compile: bool = False,
    ) -> None:
        if not callable(python_function):
            raise TypeError(f"tf.function decorates functions. Received {python_function!r}.")
        functools.update_wrapper(self, python_function)
        self._python_function = python_function
        self._signature = None if input_signature is None else _checked_signature(input_signature)
        self._autograph = autograph
        self._reduce_retracing = reduce_retracing
        self._jit_compile = jit_compile  # never to run eagerly
        self._bound: weakref.WeakKeyDictionary[Any, Function] | None = None
        self._method: weakref.ref[BoundFunction] | None = None  # it together with its object, while somebody holds that
        self._concrete: dict[Any, ConcreteFunction] = {}
        self._general: General | None = None  # traces for unknown dimensions
        self._tracing = forks.rlock()
        self._traces = 0
        self._has_trace = False  # whether one came to its end: until then variables may be created
        self._created: list[Any] = []  # variables of the first call
        self._is_wrong_for_all = _never  # whether shapes do not fit, whatever the unknown dimensions are
        self._follows_constants = False  # whether it asks for gradients by constants that it makes
        self._storm: list[bool] = []  # of the last calls, whether they had to be traced

    # -- what it is --------------------------------------------------------------------------------------------------
    @property
    def python_function(self) -> Callable[..., Any]:
        """The function as it was written."""
        return self._python_function

    @property
    def input_signature(self) -> tuple[Any, ...] | None:
        """The declared specifications of the arguments, if any."""
        return self._signature

    @property
    def function_type(self) -> inspect.Signature:
        """The parameters of the Python function."""
        return self._parameters

    @property
    def __signature__(self) -> inspect.Signature:  # where `inspect.getfullargspec` looks, and so `keras.layers.Lambda`
        try:
            return self._parameters
        except ValueError as error:  # a builtin function that does not say
            raise AttributeError(str(error)) from None

    def experimental_get_tracing_count(self) -> int:
        """How often the Python code was run to be compiled.

        >>> import gradtape as tf
        >>> f = tf.function(lambda x: x + 1.0)
        >>> _ = f(tf.constant(1.0)), f(tf.constant(2.0)), f(tf.constant([1.0]))
        >>> f.experimental_get_tracing_count()
        2
        """
        return self._traces

    def pretty_printed_concrete_signatures(self, verbose: bool = True) -> str:
        """The signatures it was traced for, as text."""
        return "\n\n".join(concrete.pretty_printed_signature(verbose) for concrete in self._functions)

    def summary(self) -> str:
        """A table of what was compiled: signatures, seconds, and the work as XLA counts it.

        >>> import gradtape as tf
        >>> f = tf.function(lambda x: x @ x)
        >>> _ = f(tf.ones([8, 8]))
        >>> print(f.summary())  # doctest: +ELLIPSIS
        <lambda>: traced 1 time
        ...
        """
        from gradtape._src.function.summary import summary

        return summary(self.name, self._traces, self._functions)

    @property
    def _functions(self) -> list[ConcreteFunction]:
        """What was traced: a function for unknown dimensions is there under the key of each size."""
        return list(dict.fromkeys(self._concrete.values()))

    @property
    def name(self) -> str:
        """The name of the Python function."""
        return str(getattr(self, "__name__", type(self._python_function).__name__))

    def __repr__(self) -> str:
        return f"<gradtape.Function {self.name!r}, traced {self._traces} times>"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """A method: the function bound to its object, with traces of its own."""
        if instance is None:
            return self
        if self._bound is None:
            self._bound = weakref.WeakKeyDictionary()
        try:
            found = self._bound.get(instance)
            if found is None:
                # A weak reference: the object must not live as long as what is compiled for it.
                found = self._bound[instance] = self._for(_weak_method(self._python_function, instance))
        except TypeError:  # an object that cannot be hashed, or not be referred to weakly
            return self._for(functools.partial(self._python_function, instance))
        method = None if found._method is None else found._method()
        if method is None:
            method = BoundFunction(found, instance)
            found._method = weakref.ref(method)
        return method

    def _for(self, method: Callable[..., Any]) -> Function:
        bound = Function(method, self._signature, self._autograph, self._reduce_retracing, self._jit_compile)
        functools.update_wrapper(bound, self._python_function)
        return bound

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, and what is pickled, is the same function without its traces."""
        options = (self._signature, self._autograph, self._reduce_retracing, self._jit_compile)
        return Function, (self._python_function, *options)

    # -- calling -----------------------------------------------------------------------------------------------------
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        graph = current_graph()
        if graph is not None or _eagerly[0] or not can_compile():
            if graph is None and forks.without_xla and not _asked[0]:
                _say_once(f"tf.function runs its code eagerly, on NumPy. {forks.ADVICE}")
            elif graph is None and not _eagerly[0]:
                _say_once(
                    "tf.function runs its code eagerly, because JAX is not installed: values and gradients are the "
                    "same, nothing is compiled. Install it with: pip install 'gradtape[xla]'"
                )
            return self._run_python(args, kwargs)
        given = self._canonical(args, kwargs)
        leaves, key, passed = signature_of(given)
        if key is None:  # a batch within a vectorized_map
            return self._run_python(args, kwargs)
        concrete = self._found(given, leaves, key, passed)
        return concrete.run([leaf for leaf in leaves if type(leaf) is Tensor], passed)

    def prepared(self, *args: Any) -> tuple[ConcreteFunction, list[Tensor], Sequence[Variable]]:
        """What a call with these arguments would run, on which tensors and variables: where tracing may fail, apart
        from it."""
        leaves, key, passed = signature_of(args)
        return self._found(args, leaves, key, passed), [leaf for leaf in leaves if type(leaf) is Tensor], passed

    def _found(
        self, given: tuple[Any, ...], leaves: list[Any], key: Any, passed: Sequence[Variable]
    ) -> ConcreteFunction:
        """What was traced for arguments like these or, when there is nothing yet, will be now."""
        concrete = self._serving(key, passed) if passed else self._concrete.get(key)
        if concrete is not None and concrete.graph.blind and _sees_more(concrete.graph.blind):
            for place in [k for k, found in list(self._concrete.items()) if found is concrete]:
                self._concrete.pop(place, None)
            concrete = None
        if concrete is None:
            traces = self._traces
            concrete = self._trace(given, leaves, key, passed)
            self._watch_for_storms(self._traces > traces)
        elif len(self._storm) > 1:
            self._watch_for_storms(False)
        return concrete

    def _serving(self, key: Any, passed: Sequence[Variable]) -> ConcreteFunction | None:
        """What was traced for arguments like these: for any variables, or else for these very ones."""
        found = self._concrete.get(key)
        if passed and (found is None or not found.serves(passed)):
            found = self._concrete.get(_for_these(key, passed))
        return found

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """The compiled function for arguments like these; a `TensorSpec` stands for a tensor.

        >>> import gradtape as tf
        >>> f = tf.function(lambda x: x * x)
        >>> square = f.get_concrete_function(tf.TensorSpec([2], tf.float32))
        >>> square(tf.constant([1.0, 3.0])).numpy().tolist()
        [1.0, 9.0]
        """
        if not can_compile():
            raise ImportError("get_concrete_function needs JAX. Install it with: pip install 'gradtape[xla]'")
        if not args and not kwargs and self._signature is not None:
            args = self._signature
        unknown: dict[int, Any] = {}
        given = self._canonical(_example(args, unknown), _example(kwargs, unknown))
        leaves, key, passed = signature_of(given)
        if unknown:
            with self._tracing:
                return self._generalised().for_specs(self, given, leaves, key, passed, unknown)
        return self._serving(key, passed) or self._trace(given, leaves, key, passed)

    def _run_python(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._signature is not None:
            args, kwargs = self._canonical(args, kwargs), {}
        graph = current_graph()
        if graph is not None:
            with graph.numbering_ops():
                return call_python(self._python_function, self._autograph, args, kwargs)
        if _eagerly[0]:
            return call_python(self._python_function, self._autograph, args, kwargs)
        with drawing_from(self._op_streams):
            return call_python(self._python_function, self._autograph, args, kwargs)

    @functools.cached_property
    def _op_streams(self) -> OpStreams:
        """Where the random ops of a function are that is not compiled."""
        return OpStreams()

    @functools.cached_property
    def _converted(self) -> Callable[..., Any]:
        """The function with its control flow in a form that can be traced."""
        return _converted(self._python_function, self._autograph)

    @functools.cached_property
    def _parameters(self) -> inspect.Signature:
        return inspect.signature(self._python_function)

    @property
    def _known_parameters(self) -> inspect.Signature | None:
        try:
            return self._parameters
        except (TypeError, ValueError):
            return None

    @functools.cached_property
    def _plain_arity(self) -> int:
        """How many positional arguments a call without keywords has when nothing is left out; -1: it varies."""
        try:
            parameters = self._parameters.parameters.values()
        except (TypeError, ValueError):
            return -1
        plain = all(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
        return len(parameters) if plain else -1

    def _canonical(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments as a tuple that is the same however they were passed."""
        if self._signature is not None:
            return self._conforming(args, kwargs)
        if not kwargs and len(args) == self._plain_arity:
            return args
        bound = self._parameters.bind(*args, **kwargs)
        bound.apply_defaults()
        if not bound.kwargs:
            return bound.args
        return (*bound.args, _Keywords(sorted(bound.kwargs.items())))

    def _conforming(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments converted to what the signature declares, or TensorFlow's error."""
        assert self._signature is not None
        try:
            given = args
            if kwargs or len(args) != len(self._signature):
                bound = self._parameters.bind(*args, **kwargs)
                most = len(bound.args)
                bound.apply_defaults()
                given = bound.args[: max(most, len(self._signature))]
            if len(given) != len(self._signature):
                raise TypeError(f"{len(self._signature)} arguments are declared, {len(given)} were given")
            return tuple(_conforming(value, spec) for value, spec in zip(given, self._signature, strict=True))
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"Binding inputs to tf.function failed due to `{error}`. Received args: {args} and kwargs: {kwargs} "
                f"for signature: {self._signature}."
            ) from None

    # -- tracing -----------------------------------------------------------------------------------------------------
    def _trace(
        self, given: tuple[Any, ...], leaves: list[Any], key: Any, passed: Sequence[Variable], known: bool = False
    ) -> ConcreteFunction:
        """What runs a call. `known`: in any case a function for the shapes of this call alone."""
        with self._tracing:
            found = self._serving(key, passed)
            if found is not None and not (known and found.graph.open):  # another thread was faster
                return found
            concrete = None
            if not known and (self._general is not None or self._may_generalise):
                concrete = self._generalised().function_for(self, given, leaves, key, passed)
            if concrete is None:
                concrete = self._traced_or_eager(given, leaves, passed)
            if concrete.graph.transient:
                return concrete
            if passed:
                self._concrete[_for_these(key, passed)] = concrete
            if not concrete.graph.shared:
                self._concrete[key] = concrete
            return concrete

    @functools.cached_property
    def _declared(self) -> list[Any]:
        specs = () if self._signature is None else nest.flatten(self._signature)
        return [spec.shape for spec in specs if isinstance(spec, TensorSpec)]

    @functools.cached_property
    def _knows_shapes(self) -> bool:
        return all(shape.is_fully_defined() for shape in self._declared)

    @functools.cached_property
    def _knows_ranks(self) -> bool:
        return all(shape.rank is not None for shape in self._declared)

    @property
    def _may_generalise(self) -> bool:
        return self._reduce_retracing or not self._knows_shapes

    def _generalised(self) -> General:
        if self._general is None:
            from gradtape._src.function.polymorphic import General

            self._general = General(None if self._signature is None else self._declared)
        return self._general

    def _traced_or_eager(
        self, given: tuple[Any, ...], leaves: list[Any], passed: Sequence[Variable], kind: Any = None
    ) -> Any:
        """Traced or, where the code does what only eager execution can, to be run as it is.

        A trace that is given up leaves nothing behind: random numbers go on where they were, variables that it created
        are found by the code when it runs.
        """
        state = seeds.state()
        try:
            return self._traced_at_last(given, leaves, passed, None, kind)
        except NeedsEagerError as error:
            seeds.restore(state)
            return self.eager(given, leaves, error.reason)
        except errors.InvalidArgumentError as error:
            if self._is_wrong_for_all(error):
                raise _as_graph_error(error) from None
            raise
        finally:
            self._is_wrong_for_all = _never

    def eager(self, given: tuple[Any, ...], leaves: list[Any], reason: Exception) -> ConcreteFunction:
        """What runs the code as it is for arguments like these; the reason, where that was ruled out."""
        from gradtape._src.function.eager import EagerFunction

        if self._jit_compile:
            raise _as_graph_error(reason)
        concrete = EagerFunction(self, given, leaves, reason)
        signature = concrete.pretty_printed_signature(False)
        _say_once(f"The function '{self.name}' runs eagerly. {reason} Arguments: {signature}", self)
        return concrete

    def _traced_at_last(
        self,
        given: tuple[Any, ...],
        leaves: list[Any],
        passed: Sequence[Variable],
        shapes: Any = None,
        kind: Any = None,
    ) -> Any:
        """Traced once or, where variables come into being, twice.

        `shapes` take the place of those that the tensors have; `kind` is the class of the result.
        """
        first, created = not self._has_trace, len(self._created)
        while True:
            constants = self._follows_constants
            concrete = given_up = None
            try:
                concrete = self._traced(given, leaves, passed, first, shapes, kind)
            except NeedsEagerError as error:
                given_up = error
            if len(self._created) > created:
                # As TensorFlow does: variables belong to the first call. The second trace finds them there.
                first, created = False, len(self._created)
            elif constants == self._follows_constants:
                break
        self._has_trace = True
        if given_up is not None:
            raise given_up
        return concrete

    def _traced(
        self,
        given: tuple[Any, ...],
        leaves: list[Any],
        passed: Sequence[Variable],
        allow_creation: bool,
        shapes: Any,
        kind: Any,
    ) -> ConcreteFunction:
        from gradtape._src.graph.trace import Trace, Traced

        graph = Graph(self.name)
        graph.seed = seeds.seed
        graph.watched = tuple(recorder.tracked for recorder in stack.active_recorders())
        graph.open = shapes is not None
        graph.follows_constants = self._follows_constants
        creations = Creations(None if allow_creation else refuse_creation)
        self._traces += 1
        trace = Trace(graph)
        tensors = [leaf for leaf in leaves if type(leaf) is Tensor]
        graph.passed.update((v.uid, VariableParam(v, number, graph)) for number, v in enumerate(passed))
        with tracing(graph), stack.use_recorders((trace,)):
            inputs = []
            if any(map(_is_text, tensors)):
                raise NeedsEagerError(TypeError(f"'{self.name}' takes a string, and XLA has numbers only."))
            for i, tensor in enumerate(tensors):
                shape = tuple(tensor.array.shape) if shapes is None else shapes[i]
                inside = wrap(graph.argument(shape, tensor.array.dtype))
                trace.follow(inside)
                inputs.append(inside)
            graph.concrete = _evaluator(graph, inputs, tensors, passed)
            remaining = iter(inputs)
            filled = [
                next(remaining)
                if type(leaf) is Tensor
                else graph.passed[leaf.uid]
                if isinstance(leaf, Variable)
                else leaf
                for leaf in leaves
            ]
            args, kwargs = split_keywords(nest.pack_sequence_as(given, filled, expand_composites=True))
            unchanged = arguments_kept(self._python_function, args, kwargs)
            empty = shapes is None and self._may_generalise and any(0 in t.array.shape for t in tensors)
            try:
                with graph_errors(self._knows_shapes and not empty), creating(creations):
                    result = self._converted(*args, **kwargs)
            except FollowConstantsError:
                self._follows_constants = True
                result = None
            except RecursionError as error:
                raise errors.StagingError(
                    f"in user code:\n\n    RecursionError: {error}\n\n'{self.name}' calls itself, directly or through "
                    "others, until Python has no stack left. A condition on a tensor does not end that, because both "
                    "branches are traced: use a loop, or a Python number to count down."
                ) from None
            finally:
                self._created.extend(creations.created)
            unchanged()
            result = _as_results(result, self._python_function)
            flat = nest.flatten(result, expand_composites=True)
            outputs = [leaf for leaf in flat if leaf is not None and not _is_text(leaf)]
            for out in outputs:
                graph.own(out.array)  # raises for a value of a branch or a loop that was kept and not returned
        graph.watched = ()
        graph.concrete = no_value  # the arguments of this call go with it
        traced = Traced(graph, trace, inputs, outputs)
        result_kind = ConcreteFunction if kind is None else kind
        return result_kind(self, given, filled, traced, result)

    def _watch_for_storms(self, traced: bool) -> None:
        """Five traces in the last five calls: say so once, and which argument changes."""
        self._storm = [*self._storm[-4:], traced]
        if len(self._storm) == 5 and all(self._storm) and self._traces >= 5:
            signatures = [concrete.pretty_printed_signature(False) for concrete in self._functions[-2:]]
            _say_once(
                f"5 out of the last 5 calls to {self._python_function} triggered tf.function retracing. Tracing is "
                "expensive: each new shape, dtype or Python value among the arguments is compiled anew. Pass tensors "
                "instead of Python numbers, keep shapes the same, and create functions outside of loops. The last two "
                f"calls: {signatures[0]}, then {signatures[-1]}.",
                self,
            )


@contextmanager
def graph_errors(known: bool = True) -> Iterator[None]:
    """What eager code calls an invalid argument is, while tracing, a ValueError or a TypeError: as in TensorFlow.

    But not where TensorFlow finds out about it when the program runs: of values and, where shapes are not `known`, of
    those. Arguments without elements are traced for themselves here, and not there.
    """
    try:
        yield
    except errors.OpError as error:
        other = _as_graph_error(error)
        if other is error or not known:
            raise
        raise other from None


def _never(error: errors.InvalidArgumentError) -> bool:
    return False


def _as_graph_error(error: Exception) -> Exception:
    kind = error.when_traced if isinstance(error, errors.OpError) else None
    if kind is None:
        return error
    given = (None, None, error.message) if issubclass(kind, errors.OpError) else (error.message,)  # type: ignore[attr-defined]
    return kind(*given).with_traceback(error.__traceback__)


def _sees_more(blind: set[int]) -> bool:
    """Whether a tape follows a tensor of whose shape nothing was known when the function was traced."""
    return any(uid in recorder.tracked for recorder in stack.active_recorders() for uid in blind)


class BoundFunction:
    """A compiled method together with its object, which lives as long as somebody holds the method."""

    __slots__ = ("__dict__", "__self__", "__weakref__", "_function")

    def __init__(self, function: Function, instance: Any) -> None:
        self._function, self.__self__ = function, instance

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


class _Keywords(dict[str, Any]):
    """Keyword-only arguments, at the end of the positional ones."""


def arguments_kept(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], None]:
    """A check for later: a call must not have changed the lists and dicts among its arguments."""
    try:
        signature = inspect.signature(function)
        given = signature.bind(*args, **kwargs).arguments
    except (TypeError, ValueError):  # nothing is known of it, or the call will say what is wrong
        return lambda: None
    nested = {name: value for name, value in given.items() if nest.is_nested(value)}
    before = {name: (_structure_key(value), nest.flatten(value)) for name, value in nested.items()}

    def check() -> None:
        modified = [
            name
            for name, value in nested.items()
            if before[name][0] != _structure_key(value) or not all(map(_is_same, before[name][1], nest.flatten(value)))
        ]
        if modified:
            name = getattr(function, "__qualname__", repr(function))
            raise ValueError(
                f"{name}{signature} should not modify its Python input arguments. Modifying a copy is allowed. The "
                f"following parameter(s) were modified: {', '.join(modified)}"
            )

    return check


def split_keywords(given: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The positional arguments and the keywords of a call."""
    return (given[:-1], dict(given[-1])) if given and type(given[-1]) is _Keywords else (given, {})


def call_python(function: Callable[..., Any], autograph: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run the code of a function here and now: eagerly, or as a part of what is being traced."""
    code = function if current_graph() is None else _converted(function, autograph)
    return _as_results(code(*args, **kwargs), function)


def _converted(function: Callable[..., Any], autograph: bool) -> Callable[..., Any]:
    """The function with its control flow in a form that can be traced."""
    if not autograph:
        return function
    from gradtape._src.function.autograph import converted

    return converted(function)


def _weak_method(function: Callable[..., Any], instance: Any) -> Callable[..., Any]:
    reference = weakref.ref(instance)

    @functools.wraps(function)
    def method(*args: Any, **kwargs: Any) -> Any:
        return function(reference(), *args, **kwargs)

    parameters = inspect.signature(function)
    method.__signature__ = parameters.replace(parameters=[*parameters.parameters.values()][1:])  # type: ignore[attr-defined]
    method.__wrapped_method__ = (function, reference)  # type: ignore[attr-defined]
    return method


def refuse_creation() -> None:
    """Variables belong to the first call."""
    raise ValueError(_CREATED_TWICE)


def _evaluator(
    graph: Graph, inputs: list[Tensor], tensors: list[Tensor], passed: Sequence[Variable]
) -> Callable[[Symbolic], Any]:
    """How to compute a symbolic value at once: the initial value of a variable that is created while tracing."""

    def concrete(symbol: Symbolic) -> Any:
        from gradtape._src.graph.program import Program, on_processor

        program = Program(graph, [t.array for t in inputs], [symbol])
        if graph.open:
            pairs = [zip(t.array.shape, like.array.shape, strict=True) for t, like in zip(inputs, tensors, strict=True)]
            sizes = {str(n): size for pair in pairs for n, size in pair if is_dimension(n)}
            program = program.with_sizes(tuple(sizes.items()))
        with tracing(None), on_processor():
            return np.array(program.replay(*program.arrays([t.array for t in tensors], passed))[0])

    return concrete


class ConcreteFunction:
    """A function traced for one kind of arguments."""

    _heir: Function | None = None  # in the place of the function that made it, where that is gone

    def __init__(self, function: Function, given: Any, leaves: list[Any], traced: Traced, result: Any) -> None:
        self._function = weakref.ref(function)
        self._made_by = function.__reduce__()
        self._parameters = function._known_parameters
        self.name = function.name
        self._given = nest.pack_sequence_as(given, [_spec_of(leaf) for leaf in leaves], expand_composites=True)
        self._traced = traced
        flat = nest.flatten(result, expand_composites=True)
        self._single = type(result) is Tensor and not _is_text(result)
        # What no program computes is a part of the result as it is: None, and strings.
        self._leaves = [leaf if leaf is None or _is_text(leaf) else _COMPUTED for leaf in flat]
        self._structure = nest.pack_sequence_as(result, [_spec_of(leaf) for leaf in flat], expand_composites=True)
        self._template = result
        self._captured = [v for v in traced.variables if type(v) not in (VariableParam, StreamState)]
        self._on_host = all(map(_is_on_host, self._captured))

    @property
    def graph(self) -> Graph:
        """What was traced: nodes, inputs, variables."""
        return self._traced.graph

    @property
    def structured_outputs(self) -> Any:
        """The results as `TensorSpec`s in their structure."""
        return self._structure

    @property
    def structured_input_signature(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments as `TensorSpec`s in their structure, and keyword-only ones."""
        args, kwargs = split_keywords(tuple(self._given))
        if self._parameters is None:
            return args, kwargs
        plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        names = [p.name for p in self._parameters.parameters.values() if p.kind in plain]
        named = [_named(spec, name) for spec, name in zip(args, names, strict=False)]
        return (*named, *args[len(named) :]), {name: _named(spec, name) for name, spec in kwargs.items()}

    @property
    def inputs(self) -> list[Any]:
        """The tensors it takes, as `TensorSpec`s."""
        return [_spec_of(t) for t in self._traced.inputs]

    @property
    def outputs(self) -> list[Any]:
        """The tensors it gives, as `TensorSpec`s."""
        return [_spec_of(t) for t in self._traced.outputs]

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables it reads or assigns, without those among its arguments."""
        return tuple(self._captured)

    @property
    def trainable_variables(self) -> tuple[Variable, ...]:
        """The trainable ones among them."""
        return tuple(v for v in self._captured if v.trainable)

    def pretty_printed_signature(self, verbose: bool = True) -> str:
        """The signature as text: one line, or with the results below it."""
        args, kwargs = self.structured_input_signature
        given = [_short(value) for value in args] + [f"{name}={_short(value)}" for name, value in kwargs.items()]
        line = f"{self.name}({', '.join(given)})"
        return f"{line}\n  Returns: {_short(self._structure)}" if verbose else line

    @property
    def output_shapes(self) -> Any:
        """The shapes of the results in their structure."""
        return nest.map_structure(
            lambda leaf: leaf.shape if isinstance(leaf, TensorSpec) else leaf, self.structured_outputs
        )

    @property
    def output_dtypes(self) -> Any:
        """The dtypes of the results in their structure."""
        return nest.map_structure(
            lambda leaf: leaf.dtype if isinstance(leaf, TensorSpec) else leaf, self.structured_outputs
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = self._bound(args, kwargs)
        tensors = [leaf for leaf, spec in given if isinstance(spec, TensorSpec)]
        variables = [leaf for leaf, spec in given if isinstance(spec, VariableSpec)]
        specs = [spec for _, spec in given]
        passed = distinct(variables)
        numbers = [next(i for i, v in enumerate(passed) if v.uid == variable.uid) for variable in variables]
        alike = numbers == [spec.alias_id for spec in specs if isinstance(spec, VariableSpec)]
        fitting = all(
            spec.shape.is_compatible_with(leaf.array.shape) for leaf, spec in given if isinstance(spec, TensorSpec)
        )
        if fitting and (not variables or (alike and self.serves(passed))):
            return self.run(tensors, passed)
        return self._for_others(tensors, variables).run(tensors, passed)

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[Any, Any]]:
        """The tensors and variables of a call, each with what is declared for it; Python values have to be the same."""
        try:
            places = {id(spec): leaf for leaf, spec in self._pairs(args, kwargs)}
        except TypeError as error:
            raise TypeError(
                f"Binding inputs to tf.function failed due to `{error}`. Received args: {args} and kwargs: {kwargs} "
                f"for signature: {self.pretty_printed_signature(False)}."
            ) from None
        specs = [s for s in nest.flatten(self._given, True) if isinstance(s, (TensorSpec, VariableSpec))]
        return [
            (self._checked(places[id(s)], s) if isinstance(s, VariableSpec) else self._converted(places[id(s)], s), s)
            for s in specs
        ]

    def _pairs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
        declared_args, declared_kwargs = split_keywords(self._given)
        if self._parameters is None:  # nothing is known of them: by their order
            given, declared = {"": args}, {"": declared_args}
        else:
            given = self._parameters.bind_partial(*args, **kwargs).arguments
            declared = self._parameters.bind_partial(*declared_args, **declared_kwargs).arguments
        for name, value in given.items():
            if name not in declared and value not in ((), {}):
                raise TypeError(f"got an unexpected argument '{name}'")
        for name, spec in declared.items():
            if name not in given:
                if any(isinstance(s, (TensorSpec, VariableSpec)) for s in nest.flatten(spec, True)):
                    raise TypeError(f"missing a required argument: '{name}'")
                continue  # a Python value: it can be left out
            yield from _paired(given[name], spec)

    def _converted(self, leaf: Any, spec: TensorSpec) -> Tensor:
        """A tensor for the place of one."""
        if isinstance(leaf, Variable):
            leaf = leaf.read()
        tensor = leaf if isinstance(leaf, Tensor) else convert(leaf, spec.dtype)
        if tensor.dtype != spec.dtype:
            raise errors.invalid_argument(
                f"cannot compute {self.name} as input was expected to be a {spec.dtype.word} tensor but is a "
                f"{tensor.dtype.word} tensor",
                self.name,
            )
        return tensor if type(tensor) is Tensor else _plain(tensor)

    def _checked(self, leaf: Any, spec: VariableSpec) -> Variable:
        """A variable for the place of one."""
        if not isinstance(leaf, Variable):
            raise errors.invalid_argument(
                f"cannot compute {self.name}: {self.pretty_printed_signature(False)} was given {leaf!r} where it takes "
                "a tf.Variable",
                self.name,
            )
        variable = leaf if isinstance(leaf, VariableParam) and current_graph() is not None else stored(leaf)
        like = variable.abstract_value()
        if variable.dtype != spec.dtype or not spec.shape.is_compatible_with(like.shape):
            raise TypeError(
                f"Binding inputs to tf.function failed: {self.pretty_printed_signature(False)} was given a variable of "
                f"shape {variable.shape} and dtype {variable.dtype.name}, where it takes {spec!r}."
            )
        return variable

    def serves(self, passed: Sequence[Variable]) -> bool:
        """Whether its program is right for these variables, among arguments of the kind that it was traced for.

        It is not if the code got hold of a variable in another way than as an argument: then it matters whether that
        is the one which is passed.
        """
        shared = self.graph.shared
        own = [v.uid for v in self._captured]
        return all(
            v.uid == uid or (uid not in shared and v.uid not in own)
            for uid, v in zip(self.graph.passed, passed, strict=True)
        )

    def _for_others(self, tensors: Sequence[Tensor], variables: Sequence[Variable]) -> ConcreteFunction:
        """What its function would run where this one cannot."""
        given = self._arguments(tensors, variables)
        return self._owner_again._found(given, *signature_of(given))

    @property
    def _owner_again(self) -> Function:
        """Its function or, where that is gone, another one that is the same."""
        owner = self._function() or self._heir
        if owner is None:
            make, options = self._made_by
            owner = self._heir = make(*options)
        return owner

    def _arguments(self, tensors: Sequence[Tensor], variables: Sequence[Variable]) -> Any:
        """The arguments of a call that has these tensors and variables, in order."""
        of = {TensorSpec: iter(tensors), VariableSpec: iter(variables)}
        leaves = nest.flatten(self._given, expand_composites=True)
        filled = [next(of[type(leaf)]) if type(leaf) in of else leaf for leaf in leaves]
        return nest.pack_sequence_as(self._given, filled, expand_composites=True)

    def run(self, tensors: list[Tensor], passed: Sequence[Variable] = ()) -> Any:
        """Call it with just the tensors among the arguments, in order, and the variables, each once."""
        host = self._on_host
        for tensor in tensors:
            if type(tensor.array) is not ndarray:
                host = False
                break
        if passed:
            with updating():  # while another program has the memory of one, nobody can say where it is
                host = host and all(map(_is_on_host, passed))
            for variable in passed:  # to a tape, whatever is passed is read
                variable.notice_reading()
        try:
            outputs = self._traced(tensors, host, None, passed)
        except NeedsEagerError as error:  # of a derivative, before anything has run
            return self._given_up(error, tensors, passed).run(tensors, passed)
        if self._single:
            return outputs[0]
        remaining = iter(outputs)
        flat = [next(remaining) if leaf is _COMPUTED else leaf for leaf in self._leaves]
        return nest.pack_sequence_as(self._template, flat, expand_composites=True)

    def _given_up(self, error: NeedsEagerError, tensors: list[Tensor], passed: Sequence[Variable]) -> ConcreteFunction:
        """What runs instead of this one from now on."""
        if current_graph() is not None:
            raise error
        owner = self._owner_again
        specs = nest.flatten(self._given, expand_composites=True)
        given = self._arguments(tensors, [passed[s.alias_id] for s in specs if isinstance(s, VariableSpec)])
        instead = owner.eager(given, signature_of(given)[0], error.reason)
        for key in [key for key, found in list(owner._concrete.items()) if found is self]:
            owner._concrete[key] = instead
        return instead

    def __repr__(self) -> str:
        return f"<ConcreteFunction {self.pretty_printed_signature(False)}>"


# -- arguments -------------------------------------------------------------------------------------------------------
def signature_of(given: tuple[Any, ...]) -> tuple[list[Any], Any, Sequence[Variable]]:
    """The leaves, arrays made tensors; what tells calls apart that need programs of their own; the variables passed."""
    key: list[Any] = []
    passed: Sequence[Variable] = ()
    if all([type(value) is Tensor for value in given]):  # noqa: C419 - faster, and what most calls are like
        leaves = list(given)
    else:
        leaves = nest.flatten(given, expand_composites=True)
        if len(leaves) != len(given) or not all(map(_is_same, leaves, given)):
            key.append(_structure_key(given))
    for i, leaf in enumerate(leaves):
        if type(leaf) is not Tensor:
            if isinstance(leaf, (ndarray, np.generic)):
                leaves[i] = leaf = convert(leaf)
            elif isinstance(leaf, Tensor):  # a slice of a variable
                leaves[i] = leaf = wrap(leaf.array) if not leaf.uid else _plain(leaf)
            elif isinstance(leaf, Variable):
                leaves[i] = leaf = stored(leaf)
                passed = distinct((*passed, leaf))
                key.append(_variable_key(leaf, passed))
                continue
            else:
                key.append(_static_key(leaf))
                continue
        array = leaf.array
        if type(array) is Batched:
            return leaves, None, ()
        key.append((array.shape, array.dtype))
    return leaves, tuple(key), passed


def distinct(variables: Sequence[Variable]) -> list[Variable]:
    """The variables in order, each once."""
    return list({v.uid: v for v in variables}.values())


def _variable_key(variable: Variable, passed: Sequence[Variable]) -> Any:
    """Not which variable it is, but which of those passed: the program is told when it is called."""
    number = next(i for i, v in enumerate(passed) if v is variable)
    like = variable.abstract_value()
    return ("variable", number, variable.shape, tuple(like.shape), np.dtype(like.dtype), variable.trainable)


def _for_these(key: Any, passed: Sequence[Variable]) -> Any:
    """A key for these very variables."""
    return (tuple([v.uid for v in passed]), key)


def _is_on_host(variable: Variable) -> bool:
    storage = variable.abstract_value()
    return type(storage) is ndarray or type(storage) is Symbolic or on_host(storage)


def _is_same(a: Any, b: Any) -> bool:
    return a is b


def _plain(tensor: Tensor) -> Tensor:
    plain = Tensor()
    plain.array, plain.uid = tensor.array, tensor.uid
    return plain


def _structure_key(value: Any) -> Any:
    """What tells structures apart: the order of a mapping's keys, and its class, do not."""
    if isinstance(value, Mapping):
        keys = sorted(value)
        return ("mapping", *keys, *[_structure_key(value[key]) for key in keys])
    if isinstance(value, (list, tuple)):
        return (type(value), *map(_structure_key, value))
    if not nest.is_nested(value) and len(nest.flatten(value, expand_composites=True)) == 1:
        return 0
    return (type(value), str(nest.map_structure(lambda _: 0, value, expand_composites=True)))


def _static_key(leaf: Any) -> Any:
    """A Python value as a part of the key: numbers and strings by value, objects by identity."""
    if leaf is None or isinstance(leaf, (bool, int, float, complex, str, bytes)):
        return leaf  # by equality, as TensorFlow has it: 1, 1.0 and True are one
    try:
        hash(leaf)
    except TypeError:
        raise TypeError(
            f"Could not generate a generic TraceType for {leaf!r}. Please verify that it is immutable/hashable. "
            "Otherwise, consider implementing the Tracing Protocol for it."
        ) from None
    try:
        return weakref.ref(leaf)
    except TypeError:
        return (type(leaf), leaf)


def _spec_of(leaf: Any) -> Any:
    if isinstance(leaf, VariableParam):
        return VariableSpec(leaf.shape, leaf.dtype, leaf.trainable, leaf.number)
    if not isinstance(leaf, Tensor):
        return leaf
    return TensorSpec(leaf.shape, leaf.dtype)


def _named(spec: Any, name: str) -> Any:
    """The specification of an argument under its name."""
    return TensorSpec(spec.shape, spec.dtype, name) if type(spec) is TensorSpec and spec.name is None else spec


def _short(value: Any) -> str:
    if isinstance(value, TensorSpec):
        return f"{value.dtype.name}{value.shape.as_list() if value.shape.rank is not None else '?'}".replace(" ", "")
    if isinstance(value, VariableSpec):
        return f"Variable({_short(TensorSpec(value.shape, value.dtype))})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {_short(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        inside = ", ".join(_short(v) for v in value)
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    return repr(value)


def _paired(value: Any, declared: Any) -> Iterator[tuple[Any, Any]]:
    """What was given for each specification of a structure, or TensorFlow's complaint."""
    if isinstance(declared, (TensorSpec, VariableSpec)):
        yield value, declared
    elif isinstance(declared, Mapping):
        if not isinstance(value, Mapping) or sorted(value) != sorted(declared):
            raise TypeError(f"Can not cast {value!r} to {_short(dict(declared))}")
        for key in declared:
            yield from _paired(value[key], declared[key])
    elif isinstance(declared, (list, tuple)):
        if not isinstance(value, (list, tuple)) or len(value) != len(declared):
            raise TypeError(f"Can not cast {value!r} to {_short(declared)}")
        for one, spec in zip(value, declared, strict=True):
            yield from _paired(one, spec)
    elif len(nest.flatten(declared, True)) > 1:  # a sparse tensor, and the like
        yield from zip(nest.flatten(value, True), nest.flatten(declared, True), strict=True)
    elif not _is_same_value(value, declared):
        raise TypeError(f"Can not cast {value!r} to Literal[{declared!r}]")


def _is_same_value(value: Any, declared: Any) -> bool:
    numbers = isinstance(value, (int, float)) and isinstance(declared, (int, float))
    return value is declared or ((numbers or type(value) is type(declared)) and bool(value == declared))


def _example(structure: Any, unknown: dict[int, Any]) -> Any:
    """Arguments in which tensors stand for their specifications; unknown sizes are taken to be 1, and noted."""

    def stand_in(leaf: Any) -> Any:
        if not isinstance(leaf, TensorSpec):
            return leaf
        shape = [1 if n is None else n for n in leaf.shape.as_list()] if leaf.shape.rank is not None else []
        tensor = wrap(np.zeros(shape, leaf.dtype.numpy_dtype))
        if not leaf.shape.is_fully_defined():
            unknown[id(tensor)] = leaf.shape
        return tensor

    return nest.map_structure(stand_in, structure)


def _conforming(value: Any, spec: Any) -> Any:
    if not isinstance(spec, TensorSpec):
        if not nest.is_nested(spec):
            return value
        if isinstance(spec, Mapping):
            if not isinstance(value, Mapping) or sorted(value) != sorted(spec):
                raise TypeError(f"Can not cast {value!r} to a structure like {spec!r}")
            return {key: _conforming(value[key], spec[key]) for key in spec}
        if not isinstance(value, (list, tuple)) or len(value) != len(spec):
            raise TypeError(f"Can not cast {value!r} to a structure like {spec!r}")
        return nest.pack_sequence_as(
            nest.map_structure(lambda _: 0, spec),
            nest.flatten([_conforming(v, s) for v, s in zip(value, spec, strict=True)]),
        )
    tensor = convert(value, None if isinstance(value, (Tensor, Variable)) else spec.dtype)
    if tensor.dtype != spec.dtype or not spec.shape.is_compatible_with(tensor.shape):
        raise TypeError(f"Can not cast TensorSpec(shape={tensor.shape}, dtype={tensor.dtype!r}, name=None) to {spec!r}")
    return tensor


def _is_text(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.array.dtype.kind == "O"


def _checked_signature(signature: Any) -> tuple[Any, ...]:
    if not isinstance(signature, (list, tuple)):
        raise TypeError(f"input_signature must be either a tuple or a list, got {type(signature)}.")
    leaves = nest.flatten(list(signature))
    wrong = [leaf for leaf in leaves if not (hasattr(leaf, "shape") or hasattr(leaf, "dtype"))]
    if wrong:
        raise TypeError(
            "input_signature must be a possibly nested sequence of TensorSpec objects, got invalid args "
            f"{wrong} with types {[type(leaf) for leaf in wrong]}."
        )
    return tuple(signature)


def _as_results(structure: Any, function: Callable[..., Any]) -> Any:
    """What a function returns, as tensors."""

    def as_tensor(value: Any) -> Any:
        if value is None or isinstance(value, Tensor):
            return value
        try:
            return value.value() if isinstance(value, Variable) else convert(value)
        except (TypeError, ValueError):
            raise TypeError(
                "To be compatible with tf.function, Python functions must return zero or more Tensors or "
                f"ExtensionTypes or None values; in compilation of {function}, found return value of type "
                f"{type(value).__name__}, which is not a Tensor or ExtensionType."
            ) from None

    return nest.map_structure(as_tensor, structure, expand_composites=True)


def _say_once(message: str, about: Any = None) -> None:
    key = message if about is None else str(id(about))
    if key not in _said:
        _said.add(key)
        logger().warning(message)


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
    """Compile a function with XLA; with and without arguments, on functions, methods and lambdas.

    The Python code runs once for each kind of arguments (shapes, dtypes, Python values); from then on the compiled
    program runs. Tapes may be inside, outside, or both. Where `input_signature` says None, or with `reduce_retracing`
    from the second shape on, the code runs once for all sizes and XLA compiles for each; code that needs the number
    itself, such as `range(len(x))`, is traced for each size.

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
        return Function(python_function, input_signature, autograph, relaxed, bool(jit_compile or experimental_compile))

    return decorate if func is None else decorate(func)
