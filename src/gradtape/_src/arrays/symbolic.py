"""Symbolic arrays: values that a compiled program will compute, and the graph that defines them.

While a function is traced its arguments are symbolic: they have a shape and a dtype, and no values. Every function of a
namespace that receives one adds a node with its name to the graph; a program replays the nodes on arrays. NumPy
computes everything that does not depend on a symbolic array while tracing; the result is a constant of the program.

A graph captures values from outside as inputs: variables, arrays, and values of the outer graph or of the primal graph
whose derivative it computes. So a closure may refer to a symbolic value, and no tracer leaks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from gradtape._src.arrays import attach_operators, numpy_namespace, register_namespace
from gradtape._src.arrays.abstract import infer
from gradtape._src.arrays.base import Interpreter, generic_kernels
from gradtape._src.arrays.dimension import Dimension, DimensionVariable, register_assume, register_assume_equal
from gradtape._src.arrays.dimensions import (
    DynamicSize,
    contains_dimension,
    dynamic_variable,
    extents_of,
    followed,
    is_dimension,
    is_known_shape,
    variables_in,
)
from gradtape._src.arrays.graph_ops import NeedsEagerError as NeedsEagerError, in_graph
from gradtape._src.errors import InaccessibleTensorError, OperatorNotAllowedInGraphError, invalid_argument
from gradtape._src.interrupts import contextmanager, graph_traced as graph_traced, setting
from gradtape._src.memory import LazyArray

Shape = tuple[int, ...]

_LITERAL_BYTES = 2**13
"""Arrays up to this size are constants of the program; larger ones are inputs of every call.

An input costs as much as an op (benchmark: rnn). But XLA folds large constants while it compiles, and stores results
that take longer to read than to compute (benchmark: hess).
"""


class Node(NamedTuple):
    """One call of a namespace's function: args are symbolic arrays, arrays or numbers; attrs are static."""

    name: str
    args: tuple[Any, ...]
    attrs: dict[str, Any]
    outputs: tuple[Symbolic, ...]


class Feed(NamedTuple):
    """The source of an input of a graph.

    kind is "argument" (value: None), "variable" (the variable), "array" (an array of any engine, or a symbolic one of
    another graph) or "per_call" (a function that makes a new array for each call).
    """

    kind: str
    value: Any
    symbol: Symbolic


class Symbolic:
    """A value of a graph: shape and dtype now, elements when the program runs.

    Unknown sizes in `shape` are `Dimension`s. `extents` are the values of integers that were computed from dimensions,
    as expressions of these. `lazy` is the lazy array of a large value that is computed from small ones.
    """

    __slots__ = ("dtype", "extents", "graph", "lazy", "shape")
    __array_ufunc__ = None  # NumPy's operators defer to these

    def __init__(self, graph: Graph, shape: Shape, dtype: Any) -> None:
        self.graph, self.shape, self.dtype = graph, shape, dtype
        self.extents: Any = None
        self.lazy: LazyArray | None = None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        count = 1
        for n in self.shape:
            count *= n
        return count

    @property
    def nbytes(self) -> int:
        return self.size * int(self.dtype.itemsize)

    @property
    def real(self) -> Any:
        return call("real", (self,), {})

    @property
    def imag(self) -> Any:
        return call("imag", (self,), {})

    @property
    def T(self) -> Any:
        return call("transpose", (self,), {"perm": tuple(reversed(range(self.ndim)))})

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """The array cast to another dtype, under NumPy's name."""
        dtype = np.dtype(dtype)
        return self if dtype == self.dtype else call("astype", (self,), {"dtype": dtype, "source": self.dtype})

    def reshape(self, *shape: Any) -> Any:
        """The array in another shape, under NumPy's name."""
        wanted = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
        if -1 in wanted:
            known = 1
            for n in wanted:
                known *= n if n != -1 else 1
            wanted = tuple(self.size // max(known, 1) if n == -1 else n for n in wanted)
        return call("reshape", (self,), {"shape": wanted})

    def __getitem__(self, index: Any) -> Any:
        return call("getitem", (self,), {"index": index if isinstance(index, tuple) else (index,)})

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"Cannot convert a symbolic tf.Tensor ({self!r}) to a numpy array. This error may indicate that you're "
            "trying to pass a Tensor to a NumPy call, which is not supported: it has no value while the function "
            "is being traced. Use tf operations inside a tf.function, or wrap the NumPy code with tf.py_function "
            "or tf.numpy_function."
        )

    def __bool__(self) -> bool:
        raise OperatorNotAllowedInGraphError("The truth value of a traced tensor is not known yet.")

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"Symbolic({self.dtype}{list(self.shape)})"


def is_known(array: Any) -> bool:
    """Whether the values of an array are known; otherwise checks of values are skipped."""
    while hasattr(array, "array"):  # a tensor or a batch
        array = array.array
    return type(array) is not Symbolic


_eager_function: ContextVar[bool] = ContextVar("gradtape_eager_function", default=False)
inside_eager_function: Callable[[], bool] = _eager_function.get
"""Whether the code belongs to a tf.function that runs eagerly, because it cannot be compiled."""


def running_eagerly() -> setting[bool]:
    """Context for the code of such a function."""
    return setting(_eager_function, True)


class FollowConstantsError(BaseException):
    """The function differentiates by one of its constants: trace it again with a tape that tracks constants."""


def only_eager(reason: Exception) -> BaseException:
    """The error for code that needs a value while it is traced: in a trace, the function may then run eagerly."""
    return reason if current_graph() is None else NeedsEagerError(reason)


def unknown_shape(function: str, instead: str, op: str | None = None) -> BaseException:
    """The error for a result whose shape depends on unknown values."""
    return only_eager(
        invalid_argument(
            f"The shape of the result of {function} depends on values, which are not known while a tf.function is "
            f"traced: a compiled program has fixed shapes. {instead}",
            op,
        )
    )


class VariableState:
    """The value of a variable at the current point of a trace."""

    __slots__ = ("assigned", "read", "reading", "variable")

    def __init__(self, variable: Any, reading: Any) -> None:
        self.variable, self.reading = variable, reading
        self.read = reading.array  # its value when the program starts
        self.assigned = False


class Repeated:
    """The states of the random ops in an unrolled loop, in order, which its iterations share."""

    __slots__ = ("next", "states")

    def __init__(self) -> None:
        self.states: list[Any] = []
        self.next = 0


def _can_move(node: Node) -> bool:
    """Whether a node may move before a callback that precedes it: it has no callbacks and no checks."""
    values = [v for value in node.attrs.values() for v in (value if isinstance(value, tuple) else (value,))]
    programs = [v for v in values if hasattr(v, "has_effects")]
    return not (
        node.attrs.get("effect")
        or node.name == "check"
        or node.attrs.get("of") == "check"
        or any(program.has_effects or program.checks for program in programs)
    )


class Graph:
    """A program under construction: nodes in order, and inputs that are added when they are needed.

    outer   the graph in which this one is a branch or a loop body, and whose values it may use
    primal  the graph whose derivative this one computes: the values that it takes from there are the residuals
    iteration  in a loop body, the index of the iteration
    polymorphic  whether shapes have unknown dimensions
    variable_params  by uid, the stand-ins for variables among the arguments, which each call supplies
    also_captured  uids of these that the code also reaches in another way: the program is only for these variables
    root    the outermost graph
    seed    the global seed when the trace began
    scopes  how often each name scope was opened (shared with inner graphs)
    repeated  the random ops of an unrolled loop, which its iterations share
    op_seeds  the number of random ops without a seed, which is the seed of the next one
    replicas  the replicas of a strategy whose nodes are in it, if any: see `graph/lanes.py`
    executor (of the root) what runs its programs on NumPy arrays: "xla", "numpy", or "auto"
    dynamic_sizes (of the root) by name, the dimensions that depend on values, and these values
    static  (of the root) whether dynamic sizes are forbidden, because XLA has to compile it
    is_only_for_numpy (of the root) whether it has strings or eager ops, which XLA cannot run
    transient (of the root) whether it is valid for this call only: the program is not cached
    assumes (of the root) whether the program checks assumed sizes; if such a check fails, the call runs eagerly
    first_effect (of the root) the number of nodes before the first callback, which must not run twice
    tracks_constants  whether the tape also tracks what depends only on constants created inside

    >>> @tf.function
    ... def f(x):
    ...     return x * x
    >>> type(f.get_concrete_function(tf.TensorSpec([], tf.float32)).graph) is tf.Graph
    False
    """

    def __init__(self, name: str = "", outer: Graph | None = None, primal: Graph | None = None) -> None:
        self.name, self.outer, self.primal = name, outer, primal
        self.iteration: Symbolic | None = None
        self.polymorphic: bool = any(g is not None and g.polymorphic for g in (outer, primal))
        self.tracks_constants: bool = any(g is not None and g.tracks_constants for g in (outer, primal))
        around = outer or primal
        self.root: Graph = self if around is None else around.root
        self.transient, self.executor = False, "xla"
        self.dynamic_sizes: dict[str, Symbolic] = {}
        self.static = self.is_only_for_numpy = self.assumes = False
        self.first_effect: int | None = None
        self.seed: Any = None if around is None else around.seed
        self.op_seeds = 0
        self.scopes: dict[str, int] = {} if around is None else around.scopes
        self.repeated: Repeated | None = None if around is None else around.repeated
        self.replicas: Any = None
        self.variable_params: dict[int, Any] = {} if around is None else around.variable_params
        self.also_captured: set[int] = set() if around is None else around.also_captured
        self.nodes: list[Node] = []
        self._producers: dict[int, Node] = {}  # by the ids of their outputs, up to `_indexed`
        self._indexed = 0
        self.feeds: list[Feed] = []
        self.variables: dict[int, VariableState] = {}
        self.arrays: dict[int, Any] = {}  # by uid, the array of each tensor that the tape tracks
        self.concrete: Callable[[Symbolic], Any] = no_value  # computes a value now, for objects that outlive the trace
        self.dynamic_calls: dict[Any, Any] = {}  # results with dynamic shapes, by their calls
        self._captured: dict[int, Symbolic] = {}
        self._makers: dict[int, Node] = {}  # by the id of each output
        # Only outer tapes know the shapes of tensors from before the trace: what they track, and the uids that a branch
        # or a loop used and no tape tracked. A trace under another tape may find more shapes.
        self.watched: tuple[dict[int, Any], ...] = ()
        self.unknown_shapes: set[int] = set()

    def as_default(self) -> Any:
        """RuntimeError: the graph of a function is complete once it has been traced.

        >>> tf.function(lambda x: x).get_concrete_function(1.0).graph.as_default()
        Traceback (most recent call last):
            ...
        RuntimeError: The graph of the function '<lambda>' is complete: nothing can be added to it. Use tf.Graph()...
        """
        raise RuntimeError(
            f"The graph of the function '{self.name}' is complete: nothing can be added to it. Use tf.Graph() to "
            "create a graph that you can add ops to."
        )

    def scope_name(self, full: str) -> str:
        """The prefix of a new name scope: the second scope with a name is `name_1`."""
        count = self.scopes[full] = self.scopes.get(full, -1) + 1
        return f"{full}_{count}/" if count else f"{full}/"

    def argument(self, shape: Shape, dtype: Any) -> Symbolic:
        """Add an input that the caller passes."""
        return self.input("argument", None, Symbolic(self, shape, dtype))

    def per_call_input(self, shape: Shape, dtype: Any, supply: Callable[[], Any]) -> Symbolic:
        """Add an input that `supply` makes for every call; there is one for each `supply`."""
        known = next((f.symbol for f in self.feeds if f.kind == "per_call" and f.value is supply), None)
        if known is not None:
            return known
        if self.outer is None:
            return self.input("per_call", supply, Symbolic(self, tuple(shape), dtype))
        symbol: Symbolic = self.own(self.outer.per_call_input(shape, dtype, supply))
        return symbol

    @contextmanager
    def numbering_ops(self) -> Iterator[None]:
        """Context for tracing another function into this graph, with its own numbers of random ops."""
        outside = self.op_seeds
        try:
            self.op_seeds = 0
            yield
        finally:
            self.op_seeds = outside

    @contextmanager
    def repeating_ops(self) -> Iterator[Repeated]:
        """Context for unrolling a loop: its random ops are the same again whenever `next` is set to 0."""
        outside, own = self.repeated, Repeated()
        try:
            self.repeated = own
            with self.numbering_ops():
                yield own
        finally:
            self.repeated = outside

    def op_state(self, make: Callable[[], Any]) -> Any:
        """The state of the next random op."""
        found = self.repeated
        if found is None:
            return make()
        if found.next == len(found.states):
            found.states.append(make())
        found.next += 1
        return found.states[found.next - 1]

    def capture(self, value: Any) -> Symbolic:
        """Make an array from outside an input; repeated captures share it."""
        found = self._captured.get(id(value))
        if found is None:  # the feed keeps the value alive, so that its id stays unique
            self._captured[id(value)] = found = self.input("array", value)
        return found

    def input(self, kind: str, value: Any, like: Any = None) -> Symbolic:
        """Add an input, with the shape and dtype of its value, or of `like`."""
        like = value if like is None else like
        symbol = Symbolic(self, tuple(like.shape), np.dtype(like.dtype))
        self.feeds.append(Feed(kind, value, symbol))
        if type(value) is Symbolic:
            symbol.extents = value.extents
        return symbol

    def add(self, name: str, args: tuple[Any, ...], attrs: dict[str, Any], outputs: tuple[Symbolic, ...]) -> None:
        """Add a node. Static arguments that depend on dynamic dimensions are evaluated when it runs."""
        dynamic = self.root.dynamic_sizes
        if dynamic and (names := [n for n in variables_in(attrs.values()) if n in dynamic]):
            args = (*[self.own(dynamic[n]) for n in names], *args)
            attrs = _with_dynamic_attrs(name, names, attrs)
            name = "dynamic"
        node = Node(name, args, attrs, outputs)
        self.nodes.append(node)
        self._makers.update((id(out), node) for out in outputs)

    def replace_nodes(self, nodes: list[Node], first: int) -> None:
        self.nodes[first:] = nodes[first:]
        self._indexed = min(self._indexed, first)
        self._makers.update((id(out), node) for node in nodes[first:] for out in node.outputs)

    def compute_inputs(self, symbols: set[int]) -> None:
        self.feeds = [feed for feed in self.feeds if id(feed.symbol) not in symbols]

    def maker(self, value: Symbolic) -> Node | None:
        """The node that outputs a value; None for an input."""
        return self._makers.get(id(value))

    def add_effect(self) -> None:
        """Note that a callback comes next. Nodes that run again after a failed check of sizes must not contain one."""
        root = self.root
        if root.assumes and any(graph.iteration is not None for graph in _around(self)):
            raise NeedsEagerError(_check_after_effect())
        if root.first_effect is None:
            root.first_effect = len(root.nodes)

    def assume(self, attrs: dict[str, Any]) -> Symbolic:
        """Add a check of sizes, before all callbacks."""
        output = Symbolic(self, (), np.dtype(np.int64))
        self.add("assume", (), {**attrs, "effect": True}, (output,))
        place = self.root.first_effect
        if place is not None:
            if self is not self.root or self.replicas is not None:
                raise NeedsEagerError(_check_after_effect())
            self._move_before(place)
        self.root.assumes = True
        return output

    def _move_before(self, place: int) -> None:
        """Move the last node before the one at `place`, with all later nodes that it needs."""
        later = self.nodes[place:]
        needed, used = [later[-1]], {id(a) for a in later[-1].args}
        for node in reversed(later[:-1]):
            if used.isdisjoint(map(id, node.outputs)):
                continue
            if not _can_move(node):
                raise NeedsEagerError(_check_after_effect())
            needed.append(node)
            used.update(map(id, node.args))
        moved = {id(node) for node in needed}
        self.nodes[place:] = [*reversed(needed), *[node for node in later if id(node) not in moved]]
        self.root.first_effect = place + len(needed)
        self._indexed = min(self._indexed, place)

    def include(self, other: Graph) -> None:
        """Take over the properties of the root of a program that is inlined into this one."""
        if other.first_effect is not None:
            self.add_effect()
        if other.assumes:
            if self.root.first_effect is not None:
                raise NeedsEagerError(_check_after_effect())
            self.root.assumes = True

    def producer(self, value: Symbolic) -> Node | None:
        """The node that computes a value; None for an input."""
        for node in self.nodes[self._indexed :]:
            self._producers.update((id(out), node) for out in node.outputs)
        self._indexed = len(self.nodes)
        return self._producers.get(id(value))

    def find_out(self, size: Symbolic) -> Any:
        """The dimension whose size is an integer scalar of the program."""
        dimension = dynamic_variable()
        self.root.dynamic_sizes[str(dimension)] = size
        for graph in _around(self):
            graph.polymorphic = True
        self.root.polymorphic = True
        return dimension

    def has(self, size: Any) -> bool:
        """Whether a size can be used here."""
        return type(size) is not DynamicSize and all(map(self.knows, variables_in((size,)).values()))

    def knows(self, variable: DimensionVariable) -> bool:
        """Whether a dimension can be used here: an argument has it, or a reachable value is its size."""
        size = self.root.dynamic_sizes.get(variable.name)
        return variable.least > 0 if size is None else self.reaches(size.graph)

    def leave_to_numpy(self) -> None:
        """Run the graph on NumPy only, for strings and eager ops; raises an error if XLA has to compile it."""
        if self.root.static:
            raise only_eager(_no_strings())
        self.root.is_only_for_numpy = True

    @property
    def needs_numpy(self) -> bool:
        """Whether XLA cannot run it: it has dynamic shapes, strings or eager ops."""
        return bool(self.root.dynamic_sizes) or self.root.is_only_for_numpy

    def own(self, value: Any) -> Any:
        """Convert a value so that this graph's nodes may refer to it."""
        if type(value) is Symbolic:
            if value.dtype.kind == "O":
                self.leave_to_numpy()
            return value if value.graph is self else self._from(value)
        if isinstance(value, np.ndarray):
            if value.dtype.kind == "O":
                self.leave_to_numpy()
            return self.capture(value) if value.nbytes > _LITERAL_BYTES else value
        if hasattr(value, "settled"):
            return self.own(value.settled())
        if hasattr(value, "shape") and not isinstance(value, np.generic):  # an XLA array
            return self.capture(value)
        return value

    def _from(self, value: Symbolic) -> Any:
        """A value of another graph, as an input of this one."""
        if self.outer is not None and self.outer.reaches(value.graph):
            return self.capture(self.outer.own(value))  # from further out, through all graphs in between
        if self.primal is None:
            raise _out_of_scope(value)
        value = self.primal.own(value)
        for feed in self.primal.feeds:
            if feed.symbol is value and feed.kind == "array" and not _is_residual(feed.value, self.primal):
                return self.own(feed.value)  # not computed there: take it from its source
        return self.capture(value)

    def name_of(self, symbol: Symbolic) -> str:
        """The name of a value for text: its op with a number, or its kind of input with a number."""
        return self.names().get(id(symbol), f"{self.name}/input:0")

    def names(self) -> dict[int, str]:
        """The names of all inputs and values, by the ids of the symbols."""
        names: dict[int, str] = {}
        counts: dict[str, int] = {}
        for feed in self.feeds:
            kind = {"argument": "args", "variable": "variable"}.get(feed.kind, "input")
            counts[kind] = counts.get(kind, -1) + 1
            names[id(feed.symbol)] = f"{kind}_{counts[kind]}:0"
        for node in self.nodes:
            count = counts[node.name] = counts.get(node.name, -1) + 1
            name = f"{node.name}_{count}" if count else node.name
            names.update((id(output), f"{name}:{i}") for i, output in enumerate(node.outputs))
        return names

    def shape_outside(self, uid: int) -> Shape | None:
        """The shape of a tensor from before the trace, if an outer tape tracks it."""
        root = self
        while (above := root.outer or root.primal) is not None:
            root = above
        for tracked in root.watched:
            if uid in tracked:
                return tracked[uid]
        root.unknown_shapes.add(uid)
        return None

    def lookup(self, uid: int) -> Any:
        """The array of a tensor of this graph, or of one whose values it can use, by uid; None if unknown."""
        if uid in self.arrays:
            return self.arrays[uid]
        if uid in self.variables:
            return self.variables[uid].read
        for graph in (self.outer, self.primal):
            found = None if graph is None else graph.lookup(uid)
            if found is not None:
                return found
        return None

    def reaches(self, graph: Graph) -> bool:
        """Whether this graph can use values of that one."""
        return (
            graph is self
            or (self.outer is not None and self.outer.reaches(graph))
            or (self.primal is not None and self.primal.reaches(graph))
        )


def _check_after_effect() -> RuntimeError:
    return RuntimeError(
        "A size that depends on values has to be checked after Python code was called, which cannot be undone if the "
        "check fails."
    )


def _no_strings() -> TypeError:
    return TypeError("An op on strings cannot be part of a compiled program: XLA supports only numbers.")


def _is_residual(value: Any, graph: Graph) -> bool:
    """Whether an input of a graph is a value of its primal graph."""
    return type(value) is Symbolic and graph.primal is not None and value.graph is graph.primal


def no_value(value: Symbolic) -> Any:
    """The `concrete` of a graph that is not being traced: raises an error."""
    return np.asarray(value)  # raises the error of a symbolic array


def _out_of_scope(value: Symbolic) -> Exception:
    """TensorFlow's error: its class depends on whether the value belongs to a branch or a loop of the current trace."""
    kind = InaccessibleTensorError if {*_around(value.graph)} & {*_around(current_graph())} else TypeError
    error: Any = kind(
        f"{value!r} is out of scope and cannot be used here. Use return values, explicit Python locals or "
        f"TensorFlow collections to access it: it was computed while tracing '{value.graph.name}', and has no value "
        "outside it. Return it from the function, or store it in a tf.Variable."
    )
    error.is_out_of_scope = True  # not from a kernel of NumPy or JAX: do not translate it
    return error


def _around(graph: Graph | None) -> Iterator[Graph]:
    """A graph and its outer graphs."""
    while graph is not None:
        yield graph
        graph = graph.outer


def _before(graph: Graph | None) -> Iterator[Graph]:
    """A graph, its outer graphs, and their primal graphs."""
    while graph is not None:
        yield graph
        graph = graph.outer or graph.primal


current_graph: Callable[[], Graph | None] = graph_traced.get


_default_graph: ContextVar[Any] = ContextVar("gradtape_default_graph", default=None)
default_graph: Callable[[], Any] = _default_graph.get
"""The TensorFlow 1 graph that functions add operations to; None in eager code."""


def building(graph: Any) -> setting[Any]:
    """Context in which functions add operations to this graph."""
    return setting(_default_graph, graph)


_graph_mode: ContextVar[Any] = ContextVar("gradtape_graph_mode", default=None)
graph_mode: Callable[[], Any] = _graph_mode.get
"""What runs operations of such a graph; None while operations are added to it."""


def running(mode: Any) -> setting[Any]:
    """Context in which tensors of such a graph are replaced by those of this mode."""
    return setting(_graph_mode, mode)


def graph_for_ops() -> Any:
    """The graph that functions add operations to; None in eager code, in traces, and while operations run."""
    graph = _default_graph.get()
    return graph if graph is not None and _graph_mode.get() is None and graph_traced.get() is None else None


def build_from_now_on(graph: Any) -> None:
    """Make a graph the default, or none, for the rest of this thread."""
    _default_graph.set(graph)


def tracing(graph: Graph | None) -> setting[Graph | None]:
    """Context in which ops on symbolic arrays are added to this graph (None: code runs eagerly)."""
    return setting(graph_traced, graph)


def _with_dynamic_attrs(name: str, names: Sequence[str], attrs: dict[str, Any]) -> dict[str, Any]:
    """The static arguments of a `dynamic` node: the function, and the arguments that are evaluated when it runs."""
    plain = {key: value for key, value in attrs.items() if not contains_dimension((value,))}
    plain.pop("dce", None)
    dynamic = tuple([(key, value) for key, value in attrs.items() if contains_dimension((value,))])
    return {"of": name, "names": tuple(names), "dynamic": dynamic, **plain}


def allows_dynamic_shapes() -> bool:
    """Whether the function that is being traced may have dynamic shapes."""
    graph = current_graph()
    return graph is not None and not graph.root.static


def _assumed(difference: Dimension, at_least_0: bool) -> bool:
    """Make the program check an assumption about dynamic dimensions."""
    graph = current_graph()
    if graph is None or not allows_dynamic_shapes():
        return False
    variables = [*difference.variables()]
    if not all(v.name in graph.root.dynamic_sizes and graph.knows(v) for v in variables):
        return False
    _check_later(graph, difference, at_least_0)
    return True


def _check_later(graph: Graph, difference: Dimension, at_least_0: bool) -> None:
    key = ("assume", difference, at_least_0)
    if not any(key in other.dynamic_calls for other in _before(graph)):
        graph.dynamic_calls[key] = graph.assume({"size": difference, "at_least_0": at_least_0})


register_assume(_assumed)


def _assumed_equal(difference: Dimension) -> bool:
    """Make the program check that dynamic dimensions are equal to others."""
    graph = current_graph()
    if graph is None or not allows_dynamic_shapes() or not graph.has(difference):
        return False
    _check_later(graph, difference, at_least_0=True)
    _check_later(graph, -difference, at_least_0=True)
    return True


register_assume_equal(_assumed_equal)


def sizes_from(value: Symbolic) -> Any:
    """Dimensions whose sizes are integers of the program: of a scalar, or of a vector of known length."""
    graph = current_graph()
    assert graph is not None
    if value.extents is None:
        value = graph.own(value)
        rank = len(value.shape)
        parts = [call("getitem", (value,), {"index": (i,)}) for i in range(value.shape[0])] if rank else [value]
        extents = np.empty(len(parts), object)
        extents[:] = [graph.find_out(part) for part in parts]
        value.extents = extents.reshape(value.shape)
        for size in extents:
            _assumed(size, at_least_0=True)
    return value.extents


# -- recording nodes -------------------------------------------------------------------------------------------------
def call(name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Add a node for a function call to the graph; returns its outputs."""
    graph = current_graph()
    if graph is None:
        raise _out_of_scope(next(a for a in args if type(a) is Symbolic))
    try:
        owned = tuple([graph.own(a) for a in args])
    except NeedsEagerError as error:
        return in_graph(f"primitive {name}", args, attrs, error)
    several, specs = infer(name, owned, attrs)
    if not all(graph.has(n) for shape, _ in specs for n in shape if type(n) is not int):
        return _call_dynamic(graph, name, owned, attrs, specs, several)
    outputs = tuple([Symbolic(graph, shape, dtype) for shape, dtype in specs])
    graph.add(name, owned, attrs, outputs)
    if graph.polymorphic:
        _follow_extents(name, owned, attrs, outputs)
    return outputs if several else outputs[0]


def _call_dynamic(
    graph: Graph, name: str, args: tuple[Any, ...], attrs: dict[str, Any], specs: Sequence[Any], several: bool
) -> Any:
    """`call` for results whose shapes only the running program knows. Equal calls have the same results."""
    if graph.root.static:
        raise unknown_shape(f"tf.{name}", "Call it outside the function, or use a form with a fixed size.")
    key = (name, tuple([_origin(graph, a) for a in args]), tuple([id(v) for v in attrs.values()]))
    if key in graph.dynamic_calls:
        return graph.dynamic_calls[key][0]
    outputs = tuple([Symbolic(graph, (), dtype) for _, dtype in specs])
    graph.add(name, args, attrs, outputs)
    found: dict[Any, Any] = {}
    for output, (shape, _) in zip(outputs, specs, strict=True):
        for axis, n in enumerate(shape):
            if n not in found:
                found[n] = n if graph.has(n) else _found_out(graph, output, axis)
        output.shape = tuple([found[n] for n in shape])
    result = outputs if several else outputs[0]
    graph.dynamic_calls[key] = result, args, attrs  # which keeps their ids unique
    return result


_SIMPLE = {int, bool, float, str, tuple, type(None), np.dtype}
_DEEPEST = 8
"""The number of nodes that are followed to find out whether two values are equal."""


def _origin(graph: Graph, value: Any, depth: int = 0) -> Any:
    """A key that is equal for equal values: their ops and operands."""
    if type(value) is not Symbolic:
        return id(value) if isinstance(value, np.ndarray) and value.ndim else repr(value)
    node = graph.maker(value)
    if node is None or depth == _DEEPEST or not _SIMPLE.issuperset(map(type, node.attrs.values())):
        return id(value)
    number = next(i for i, out in enumerate(node.outputs) if out is value)
    return node.name, number, tuple([_origin(graph, a, depth + 1) for a in node.args]), repr(node.attrs)


def _found_out(graph: Graph, output: Symbolic, axis: int) -> Any:
    """The size of an axis of a result, as a dimension."""
    size = Symbolic(graph, (), np.dtype(np.int64))
    graph.add("size_of", (output,), {"axis": axis}, (size,))
    size.extents = np.array(graph.find_out(size), object)
    return size.extents.item()


def dynamic_argument(graph: Graph, shape: Sequence[Any], dtype: Any) -> Symbolic:
    """An input of a graph; None sizes become dynamic dimensions."""
    symbol = graph.argument((), dtype)
    symbol.shape = tuple([_found_out(graph, symbol, axis) if n is None else n for axis, n in enumerate(shape)])
    return symbol


def _follow_extents(name: str, args: tuple[Any, ...], attrs: dict[str, Any], outputs: tuple[Symbolic, ...]) -> None:
    found = followed(name, args, attrs, getattr(numpy_namespace, name, None))
    if found is not None:
        for symbol, value in zip(outputs, found if type(found) is tuple else (found,), strict=True):
            extents = np.asarray(value, object)
            symbol.extents = extents if extents.shape == symbol.shape else None


symbolic_rules: dict[str, Callable[..., Any]] = {}
"""Primitive -> rule(*arrays, **attrs) that a trace calls instead of adding one node."""


class SymbolicNamespace(Interpreter):
    """The functions of every engine; each call adds a node to the graph."""

    rank = 2

    def find(self, name: str) -> Callable[..., Any]:
        return symbolic_rules[name] if name in symbolic_rules else super().find(name)

    def interpret(self, name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        return call(name, args, attrs)

    def zeros(self, shape: Shape, dtype: Any) -> Any:
        return _filled(shape, dtype, 0)

    def ones_like(self, x: Any) -> Any:
        return _filled(x.shape, x.dtype, 1)


def _filled(shape: Shape, dtype: Any, value: int) -> Any:
    """A constant that takes no memory: one element, broadcast within the program."""
    graph = current_graph()
    one = np.full((), value, dtype)
    if graph is None or (not shape and not graph.polymorphic):
        return np.full(shape, value, dtype)
    output = Symbolic(graph, tuple(shape), np.dtype(dtype))
    graph.add("broadcast_to", (one,), {"shape": tuple(shape)}, (output,))
    return output


def filled(shape: Shape, dtype: Any, value: int) -> Any:
    """A constant: an array or, with unknown dimensions, a value of the program."""
    return np.full(shape, value, dtype) if is_known_shape(shape) else _filled(shape, dtype, value)


def zeros(shape: Shape, dtype: Any) -> Any:
    """Zeros: an array or a value of the program."""
    return np.zeros(shape, dtype) if is_known_shape(shape) else _filled(shape, dtype, 0)


def number(value: Any, dtype: Any) -> Any:
    """A count as an operand: a number or, if it depends on unknown dimensions, a value of the program."""
    return _computed(np.array(value, object), dtype) if is_dimension(value) else value


def sizes_of(shape: Any, dtype: Any) -> Any:
    """A shape as an integer array or, with unknown dimensions, as a value of the program."""
    return np.array(shape, dtype) if is_known_shape(shape) else _computed(extents_of(shape), dtype)


def arange(first: Any, last: Any, step: int, dtype: Any) -> Any:
    """Integers from `first` up to `last`, an unknown number of them."""
    graph = current_graph()
    assert graph is not None
    count = -((first - last) // step)
    output = Symbolic(graph, (count,), np.dtype(dtype))
    attrs = {"first": first, "count": count, "step": step, "dtype": output.dtype}
    graph.add("arange", (), attrs, (output,))
    return output


def _arange(xp: Any, *, first: int, count: int, step: int, dtype: Any) -> Any:
    if not is_known_shape((first, count)):
        if not _dimensions_are_values.get():
            return xp.zeros((count,), dtype)
        return (first + step * xp.library.arange(count)).astype(dtype)
    return (first + step * np.arange(count)).astype(dtype)


def as_value(array: Any) -> Any:
    """Convert an array to a value of the program."""
    return array if type(array) is Symbolic else call("identity", (array,), {})


def _computed(extents: Any, dtype: Any) -> Symbolic:
    graph = current_graph()
    if graph is None:
        raise TypeError("A dimension that is not known yet is used outside the function that is being traced.")
    output = Symbolic(graph, extents.shape, np.dtype(dtype))
    output.extents = extents if output.dtype.kind in "iu" else None
    attrs = {"values": tuple(extents.ravel()), "shape": extents.shape, "dtype": output.dtype}
    graph.add("extents", (), attrs, (output,))
    return output


_dimensions_are_values: ContextVar[bool] = ContextVar("gradtape_dimensions_are_values", default=False)


def dimensions_as_values() -> setting[bool]:
    """Context in which programs compute with unknown dimensions, to be exported for all sizes."""
    return setting(_dimensions_are_values, True)


def _extents(xp: Any, *, values: tuple[int, ...], shape: Shape, dtype: Any) -> Any:
    if not is_known_shape(values) and _dimensions_are_values.get():
        numbers = [xp.library.asarray(value).astype(dtype) for value in values]
        return xp.library.reshape(xp.library.stack(numbers), shape)
    if not is_known_shape(values):  # a program inside one that is being traced: only the shape matters
        return np.zeros(shape, dtype)
    return np.array(values, dtype).reshape(shape)


generic_kernels["extents"] = _extents
generic_kernels["arange"] = _arange

symbolic_namespace: Any = SymbolicNamespace()
register_namespace(Symbolic, symbolic_namespace)


def _operator(name: str, swapped: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, (int, float, complex, np.ndarray, np.generic, Symbolic)) and not (
            hasattr(other, "dtype") and hasattr(other, "devices")
        ):
            if not is_dimension(other):
                return NotImplemented
            other = number(other, self.dtype)
        return call(name, (other, self) if swapped else (self, other), {})

    return method


attach_operators(Symbolic, _operator, lambda name: lambda self: call(name, (self,), {}))
