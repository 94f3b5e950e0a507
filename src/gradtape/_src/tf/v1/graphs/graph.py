"""TensorFlow 1 graphs: operations by name, collections, and the scopes that are open during construction."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

import numpy as np

from gradtape._src import nest
from gradtape._src.arrays.dimensions import variable as dimension
from gradtape._src.arrays.symbolic import Symbolic, building, default_graph
from gradtape._src.autodiff.gradient_overrides import check_map
from gradtape._src.conversion import convert, wrap
from gradtape._src.devices import chosen
from gradtape._src.dtypes import DType, as_dtype
from gradtape._src.formats.event import GraphDef
from gradtape._src.graph import host_calls as host_calls  # registers how functions without a rule run in graphs
from gradtape._src.graph.listing import type_of
from gradtape._src.graph.operations import FuncGraph
from gradtape._src.graph.trace import Trace
from gradtape._src.interrupts import contextmanager, setting
from gradtape._src.shape import TensorShape
from gradtape._src.tensor import Tensor
from gradtape._src.tf.v1.graphs.inference import inferred, is_result, tensor_of
from gradtape._src.tf.v1.graphs.op_names import default_name
from gradtape._src.tf.v1.graphs.tensors import GraphTensor, Operation, Target, is_graph_value, running
from gradtape._src.variable import name_prefix, variable_maker

_control: ContextVar[tuple[Operation, ...]] = ContextVar("gradtape_control_inputs", default=())
_gradient_map: ContextVar[Mapping[str, str]] = ContextVar("gradtape_gradient_map", default=MappingProxyType({}))
_sessions: ContextVar[tuple[Any, ...]] = ContextVar("gradtape_sessions", default=())
_axes = itertools.count()


_parts: dict[str, Callable[..., Any]] = {}


def register_part(name: str, part: Callable[..., Any]) -> None:
    """Register a function that methods of graphs call: the modules of variables and ops import this one."""
    _parts[name] = part


class _Kind(type):
    """The metaclass of `tf.Graph`: the graphs of functions are instances as well."""

    def __instancecheck__(cls, value: Any) -> bool:
        return type.__instancecheck__(FuncGraph, value) if cls is Graph else type.__instancecheck__(cls, value)


class Graph(FuncGraph, metaclass=_Kind):
    """A TensorFlow 1 graph: while it is the default, functions add operations to it, which a session runs.

    >>> import gradtape as tf
    >>> with tf.Graph().as_default():
    ...     x = tf.compat.v1.placeholder(tf.float32, [None], name="x")
    ...     y = tf.reduce_sum(x * x, name="y")
    ...     with tf.compat.v1.Session() as session:
    ...         print(session.run(y, {x: [1.0, 2.0]}))
    5.0

    Operations have names, and can be placed in scopes, on devices, after others, and in collections:

    >>> graph = tf.Graph()
    >>> with graph.as_default(), graph.device("/CPU:0"):
    ...     with graph.name_scope("layer"):
    ...         b = tf.square(tf.constant(2.0, name="a"), name="b")
    ...         scope = graph.get_name_scope()
    ...     with graph.control_dependencies([b.op]):
    ...         c = tf.identity(b, name="c")
    >>> [op.name for op in graph.get_operations()], scope, graph.version, len(graph.as_graph_def().node)
    (['layer/a', 'layer/b', 'c'], 'layer', 3, 3)
    >>> graph.get_operation_by_name("c") is c.op, graph.get_tensor_by_name("c:0") is c
    (True, True)
    >>> graph.as_graph_element("c:0") is c, graph.is_feedable(c), graph.is_fetchable(c), graph.unique_name("c")
    (True, True, True, 'c_1')
    >>> graph.add_to_collection("losses", b)
    >>> graph.add_to_collections(["losses", "outputs"], c)
    >>> graph.get_collection("losses") == [b, c], graph.get_collection_ref("outputs") == [c]
    (True, True)
    >>> graph.clear_collection("losses")
    >>> graph.get_all_collection_keys()
    ['outputs']
    >>> graph.finalize()  # from now on adding an operation raises RuntimeError
    """

    def __init__(self) -> None:
        super().__init__("graph")
        self.polymorphic = self.tracks_constants = True
        self.trace = Trace(self)
        self.operations: list[Operation] = []
        self.collections: dict[Any, list[Any]] = {}
        self.variable_store: dict[str, Any] = {}
        self.finalized = False
        self.building_function = False
        self._names: dict[str, Operation] = {}
        self.variable_values: dict[str, Any] = {}  # by the name of the variable, without its number
        self._variable_symbols: dict[int, Symbolic] = {}

    # -- building ----------------------------------------------------------------------------------------------------
    @contextmanager
    def as_default(self) -> Iterator[Graph]:
        """Make this the default graph inside a `with` block: functions add operations to it."""
        prepare_modules()
        make = setting(variable_maker, self.make_variable)
        with building(self), make, setting(name_prefix, ""), setting(_control, ()):
            yield self

    def make_variable(self, *args: Any, **kwargs: Any) -> Any:
        """Implement `tf.Variable(...)` in this graph."""
        return _parts["variable"](self, *args, **kwargs)

    def stand_in(self, shape: TensorShape, dtype: DType, uid: int = 0) -> Symbolic:
        """A symbolic array with a shape, for inference; unknown first dimensions are assumed to be equal."""
        sizes = [_unknown_size(axis) if n is None else n for axis, n in enumerate(shape.as_list())]
        symbol = self.argument(tuple(sizes), dtype.numpy_dtype)
        if dtype.name == "string":
            self.leave_to_numpy()
        if uid:
            self.trace.arrays[uid] = symbol
        return symbol

    def own_stand_in(self, variable: Any) -> Symbolic:
        """The symbolic array of a variable, for inference."""
        if variable.uid not in self._variable_symbols:
            self._variable_symbols[variable.uid] = self.stand_in(variable.shape, variable.dtype, variable.uid)
        return self._variable_symbols[variable.uid]

    def record(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None = None
    ) -> Any:
        """Add a call of a function as an operation; return its result, with tensors of the graph."""
        op = Operation(self, function, args, kwargs, self.control_inputs())
        self._check_inputs(op)
        count = len(self.nodes)
        result, tensors, shapes = inferred(op)
        op.type = type_of(self.nodes[-1]) if len(self.nodes) > count else "Const" if not op.inputs else "Identity"
        if (gradient := _gradient_map.get().get(op.type)) is not None:
            op.attributes["_gradient_op_type"] = gradient.encode()
        return self.add_operation(op, result, tensors, shapes, name or default_name(function, op.type))

    def add_operation(
        self, op: Operation, result: Any, tensors: Sequence[Tensor], shapes: Sequence[TensorShape], name: str
    ) -> Any:
        """Add an operation that returns tensors like these; its result contains tensors of the graph instead."""
        if self.finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")
        op.name = self.unique_name(name)
        op.number, op.device = len(self.operations), chosen_device()
        self.operations.append(op)
        self._names[op.name] = op
        leaves = nest.flatten(result, expand_composites=True)
        op.places = [i for i, leaf in enumerate(leaves) if is_result(leaf)]
        for i, (place, like, shape) in enumerate(zip(op.places, tensors, shapes, strict=True)):
            output = leaves[place] = GraphTensor.of(op, i, as_dtype(like.array.dtype), shape, like)
            op.outputs.append(output)
        if not op.outputs:
            return op
        with running(_Packing()):
            return nest.pack_sequence_as(result, leaves, expand_composites=True)

    def add_grouping(self, control_inputs: Iterable[Operation], name: str, type: str = "NoOp") -> Operation:
        """An operation without results that runs others."""
        op = Operation(self, _nothing, (), {}, [*self.control_inputs(), *control_inputs])
        op.type = type
        self.add_operation(op, None, (), (), name)
        return op

    def record_python(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], dtypes: Any, name: str | None
    ) -> Any:
        """Add a call of Python code, which runs only in a session: only the dtypes are known."""
        op = Operation(self, function, args, kwargs, self.control_inputs())
        self._check_inputs(op)
        op.type = "EagerPyFunc"
        likes = [wrap(np.zeros((), as_dtype(getattr(t, "dtype", t)).numpy_dtype)) for t in nest.flatten(dtypes)]
        shapes = [TensorShape(getattr(t, "shape", None)) for t in nest.flatten(dtypes)]
        result = nest.pack_sequence_as(dtypes, likes) if dtypes is not None else None
        return self.add_operation(op, result, likes, shapes, name or default_name(function, op.type))

    def computed_before(self, source: Callable[[Any], Sequence[Any]], examples: Sequence[Any], name: str) -> list[Any]:
        """Tensors whose values Python computes before each run: `source(session)`. They have the specifications of the
        examples, in which a size of 0 means any size.
        """
        op = Operation(self, _nothing, (), {}, self.control_inputs())
        op.source, op.type = source, name
        tensors = [wrap(np.asarray(each)) for each in examples]
        shapes = [TensorShape([n or None for n in each.shape]) for each in examples]
        return list(self.add_operation(op, tensors, tensors, shapes, name))

    # -- library functions that are operations -------------------------------------------------------------------------
    def group(self, inputs: Sequence[Any], name: str | None) -> Operation:
        """`tf.group`."""
        return _parts["group"](self, inputs, name)

    def target(self, variable: Any) -> Target:
        """A variable as an argument of an operation that changes it."""
        return Target(variable)

    def gradients(self, *args: Any) -> Any:
        """`tf.gradients`."""
        return _parts["gradients"](self, *args)

    def hessians(self, *args: Any) -> Any:
        """`tf.hessians`."""
        return _parts["hessians"](self, *args)

    def _check_inputs(self, op: Operation) -> None:
        for value in op.inputs:
            if value.graph is not self:
                raise ValueError(
                    f"{value!r} must be from the same graph as the default one: it is a tensor of another graph. Build "
                    "the whole program in one graph, or feed the value that a session computed."
                )

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """Return a name in the open scope that no operation has."""
        full = name[:-1] if name.endswith("/") else f"{name_prefix.get()}{name}"
        return self._unique(full, mark_as_used)

    def _unique(self, full: str, mark_as_used: bool = True) -> str:
        key = full.lower()
        count = self.scopes.get(key, 0)
        if mark_as_used:
            self.scopes[key] = count + 1
        found = full
        while count and found.lower() in self.scopes:
            found = f"{full}_{count}"
            count += 1
        if mark_as_used and found != full:
            self.scopes[key] = count
            self.scopes[found.lower()] = 1
        return found

    def scope_name(self, full: str) -> str:
        """The prefix of a name scope that is opened now."""
        return f"{self._unique(full)}/"

    def name_scope(self, name: str | None) -> Any:
        """Prefix the names of the operations of a `with` block."""
        from gradtape._src.tf.scopes import name_scope

        return setting(name_prefix, "") if not name else name_scope(name)

    def get_name_scope(self) -> str:
        """Return the open name scope."""
        return name_prefix.get().rstrip("/")

    def control_inputs(self) -> tuple[Operation, ...]:
        """The operations that new ones have to run after."""
        return _control.get()

    def control_dependencies(self, control_inputs: Iterable[Any] | None) -> setting[tuple[Operation, ...]]:
        """Run the operations of a `with` block after these; None clears the dependencies."""
        if control_inputs is None:
            return setting(_control, ())
        return setting(_control, (*_control.get(), *map(operation_of, control_inputs)))

    def gradient_override_map(self, op_type_map: Any) -> Any:
        """Use gradients registered with `tf.RegisterGradient` for the ops of these types in a `with` block.

        >>> import gradtape as tf
        >>> with tf.Graph().as_default() as graph, graph.gradient_override_map({"Tanh": "NotRegistered"}):
        ...     tf.tanh(tf.constant(1.0)).op.get_attr("_gradient_op_type")
        b'NotRegistered'
        """
        check_map(op_type_map)
        return setting(_gradient_map, {**_gradient_map.get(), **op_type_map})

    def device(self, device_name_or_function: Any) -> Any:
        """Place the operations of a `with` block on a device."""
        from gradtape._src.tf.scopes import device

        return device(None if callable(device_name_or_function) else device_name_or_function)

    def finalize(self) -> None:
        """Refuse further operations."""
        self.finalized = True

    # -- collections -------------------------------------------------------------------------------------------------
    def add_to_collection(self, name: Any, value: Any) -> None:
        """Put a value into a collection."""
        self.collections.setdefault(name, []).append(value)

    def add_to_collections(self, names: Any, value: Any) -> None:
        """Put a value into several collections."""
        for name in {*((names,) if isinstance(names, str) else names)}:
            self.add_to_collection(name, value)

    def get_collection(self, name: Any, scope: str | None = None) -> list[Any]:
        """Return the members of a collection whose names begin with the scope."""
        import re

        values = self.collections.get(name, [])
        if scope is None:
            return list(values)
        return [value for value in values if re.match(scope, getattr(value, "name", ""))]

    def get_collection_ref(self, name: Any) -> list[Any]:
        """Return the collection itself."""
        return self.collections.setdefault(name, [])

    def get_all_collection_keys(self) -> list[Any]:
        """Return the names of all collections."""
        return [key for key, values in self.collections.items() if values]

    def clear_collection(self, name: Any) -> None:
        """Empty a collection."""
        self.collections.pop(name, None)

    # -- looking up --------------------------------------------------------------------------------------------------
    def get_operations(self) -> list[Any]:
        """Return the operations, in the order in which they were added."""
        return list(self.operations)

    def get_operation_by_name(self, name: str) -> Any:
        """Return the operation with this name."""
        if not isinstance(name, str):
            raise TypeError(f"Operation names are strings (or similar), not {type(name).__name__}.")
        if name not in self._names:
            colon = " looks like a Tensor name, not an Operation" if ":" in name else ""
            if colon:
                raise ValueError(f"Name {name!r} appears to refer to a Tensor, not an Operation.")
            raise KeyError(f"The name {name!r} refers to an Operation not in the graph.")
        return self._names[name]

    def get_tensor_by_name(self, name: str) -> Any:
        """Return the tensor with this name: the name of its operation and the number of the output."""
        if not isinstance(name, str):
            raise TypeError(f"Tensor names are strings (or similar), not {type(name).__name__}.")
        operation, colon, number = name.partition(":")
        if not colon or not number.isdecimal():
            raise ValueError(
                f"The name {name!r} looks like an (invalid) Operation name, not a Tensor. Tensor names must be of the "
                'form "<op_name>:<output_index>".'
            )
        if operation not in self._names:
            raise KeyError(
                f"The name {name!r} refers to a Tensor which does not exist. The operation, {operation!r}, does not "
                "exist in the graph."
            )
        outputs = self._names[operation].outputs
        if operation in self.variable_values:  # "w:0" is the value of the variable
            outputs = [self.variable_values[operation]]
        if int(number) >= len(outputs):
            raise KeyError(
                f"The name {name!r} refers to a Tensor which does not exist. The operation, {operation!r}, exists but "
                f"only has {len(outputs)} outputs."
            )
        return outputs[int(number)]

    def as_graph_element(self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True) -> Any:
        """Return the tensor or operation for an object or a name."""
        if isinstance(obj, str):
            if ":" in obj and allow_tensor:
                return self.get_tensor_by_name(obj)
            return self.get_operation_by_name(obj)
        if is_graph_value(obj) or isinstance(obj, Operation):
            if obj.graph is not self:
                kind = "Operation" if isinstance(obj, Operation) else "Tensor"
                raise ValueError(f"{kind} {obj} is not an element of this graph.")
            return obj
        raise TypeError(f"Can not convert a {type(obj).__name__} into a Tensor or Operation.")

    def is_feedable(self, tensor: Any) -> bool:
        """Return whether a session can be fed a value for a tensor."""
        return is_graph_value(tensor) and tensor.graph is self

    def is_fetchable(self, tensor_or_op: Any) -> bool:
        """Return whether a session can fetch a tensor or run an operation."""
        return (is_graph_value(tensor_or_op) or isinstance(tensor_or_op, Operation)) and tensor_or_op.graph is self

    def as_graph_def(self, from_version: int | None = None, add_shapes: bool = False) -> GraphDef:
        """Return the graph as a `GraphDef` message: a node for each operation."""
        return GraphDef(node=[op.node_def for op in self.operations])

    @property
    def version(self) -> int:
        """How many operations there are."""
        return len(self.operations)

    def session_for(self, session: Any, what: str) -> Any:
        """The session of a call of `eval` or `run`."""
        found = session or default_session()
        method = "eval" if "tensor" in what else "run"
        if found is None:
            raise ValueError(
                f"Cannot {what} using `{method}()`: No default session is registered. Use `with sess.as_default()` or "
                f"pass an explicit session to `{method}(session=sess)`"
            )
        if found.graph is not self:
            raise ValueError(
                f"Cannot use the given session to {what}: the tensor's graph is different from the session's graph."
            )
        return found


@functools.cache
def prepare_modules() -> None:
    """Make public modules return functions that add operations; called before the first graph is built."""
    _parts["modules"]()


class _Packing:
    """Active while a structure is built from tensors of the graph: composite tensors check only static shapes."""

    def tensor(self, tensor: GraphTensor) -> Any:
        return tensor_of(tensor.symbol, tensor.inferred_uid)


def packing() -> Any:
    """The mode for building composite tensors from tensors of a graph."""
    return _Packing()


def _unknown_size(axis: int) -> Any:
    return dimension("b0") if axis == 0 else dimension(f"g{next(_axes)}")


def _nothing() -> None:
    return None


def chosen_device() -> str:
    """The device of new operations."""
    device = chosen()
    return "" if device is None else str(getattr(device, "name", device))


def operation_of(value: Any) -> Operation:
    """The operation of a tensor, a variable or an operation."""
    if isinstance(value, Operation):
        return value
    if is_graph_value(value):
        return value.op
    graph = default_graph()
    if graph is not None and (isinstance(value, Tensor) or hasattr(value, "values")):
        part = value if isinstance(value, Tensor) else value.values
        found: Operation = part.op if is_graph_value(part) else graph.record(convert, (part,), {}).op  # type: ignore[union-attr]
        return found
    raise TypeError(f"Can not convert a {type(value).__name__} into a Tensor or Operation.")


def default_session() -> Any:
    """The session of the innermost block."""
    stack = _sessions.get()
    return stack[-1] if stack else None


def as_default_session(session: Any) -> setting[tuple[Any, ...]]:
    """Context with a default session."""
    return setting(_sessions, (*_sessions.get(), session))
