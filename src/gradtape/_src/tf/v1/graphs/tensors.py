"""Tensors and operations of a TensorFlow 1 graph: calls that a session will make, and their results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from gradtape._src import errors, nest
from gradtape._src.arrays.symbolic import Symbolic, graph_mode, running as running
from gradtape._src.core.composites import NotDenseError
from gradtape._src.dtypes import DType
from gradtape._src.shape import TensorShape
from gradtape._src.tensor import Tensor

if TYPE_CHECKING:
    from gradtape._src.tf.v1.graphs.graph import Graph

_ADVICE = (
    "it is a tensor of a graph, which has a value only while a session runs it. Call the function as an attribute "
    "of the module (tf.name, tf.compat.v1.name) while the graph is the default, so that it becomes an op of the "
    "graph."
)


class Mode:
    """Provides values for tensors of a graph, while the functions of its operations run."""

    def tensor(self, tensor: GraphTensor) -> Tensor:
        """The tensor that replaces a tensor of a graph."""
        raise NotImplementedError

    def read(self, variable: Any) -> Tensor:
        """The value of a variable of a graph."""
        raise NotImplementedError

    def change(self, variable: Any, method: str, args: tuple[Any, ...]) -> Tensor:
        """Call a method that changes a variable of a graph, and return the new value."""
        raise NotImplementedError


active_mode: Callable[[], Mode | None] = graph_mode


class GraphTensor(Tensor):
    """A result of an operation of a graph. It has no value; `Session.run` computes one.

    In a block of `running` it is replaced by a tensor with an array.
    """

    __slots__ = ("_dtype", "_op", "_static", "_symbol", "_uid", "is_exact", "value_index")

    _dtype: DType
    _op: Operation
    _static: TensorShape
    _uid: int
    _symbol: Symbolic | None
    is_exact: bool  # whether its tape has everything that it was computed from
    value_index: int

    @staticmethod
    def of(op: Operation, index: int, dtype: DType, shape: TensorShape, like: Tensor) -> GraphTensor:
        """An output of an operation; `like` is the corresponding tensor in inference."""
        made = GraphTensor()
        made._op, made.value_index = op, index
        made._dtype, made._static, made._uid = dtype, shape, like.uid
        is_inferred = type(like.array) is Symbolic and like.array.graph is op.graph
        made.is_exact = is_inferred and shape.rank is not None
        made._symbol = like.array if made.is_exact else None
        if made._symbol is None and shape.rank is not None:
            made._symbol = op.graph.stand_in(shape, dtype, like.uid)
        return made

    # -- replacements ------------------------------------------------------------------------------------------------
    @property
    def array(self) -> Any:
        mode = graph_mode()
        if mode is None:
            raise NotDenseError(self, _ADVICE)
        return mode.tensor(self).array

    def check_operand(self) -> None:
        if graph_mode() is None:
            raise NotDenseError(self, _ADVICE)

    @property
    def uid(self) -> int:  # type: ignore[override]
        mode = graph_mode()
        return self._uid if mode is None else mode.tensor(self).uid

    @property
    def symbol(self) -> Symbolic | None:
        """Its replacement in the graph in which shapes are inferred; None if its rank is unknown."""
        return self._symbol

    @property
    def inferred_uid(self) -> int:
        """The uid of its replacement while shapes were inferred."""
        return self._uid

    # -- static properties -------------------------------------------------------------------------------------------
    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def shape(self) -> TensorShape:
        return self._static if graph_mode() is None else _shape_of(self)

    @property
    def ndim(self) -> Any:
        return self._static.rank if graph_mode() is None else len(self.array.shape)

    def get_shape(self) -> TensorShape:
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Merge another shape into the static shape."""
        merged = self._static.merge_with(shape)
        if merged.rank is not None and (self._symbol is None or merged.as_list() != self._static.as_list()):
            self._symbol = self.graph.stand_in(merged, self._dtype, self._uid)
        self._static = merged

    @property
    def op(self) -> Operation:
        """The operation that returns it."""
        return self._op

    @property
    def graph(self) -> Graph:
        """The graph that it belongs to."""
        return self._op.graph

    @property
    def name(self) -> str:
        """The name of its operation, and its index among the results."""
        return f"{self._op.name}:{self.value_index}"

    @property
    def device(self) -> str:
        return self._op.device

    def consumers(self) -> list[Operation]:
        """The operations that take it."""
        return [op for op in self.graph.operations if any(value is self for value in op.inputs)]

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Its value, computed by the given session, or the default one."""
        return self.graph.session_for(session, "evaluate tensor").run(self, feed_dict)

    # -- conversion to Python: there is no value ---------------------------------------------------------------------
    @property
    def numpy(self) -> Any:
        """AttributeError: it has no value."""
        if graph_mode() is not None:
            return functools.partial(Tensor.numpy, self)
        raise AttributeError(
            f"'SymbolicTensor' object has no attribute 'numpy': '{self.name}' is a tensor of a graph. Use session.run."
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise NotImplementedError(
            f"Cannot convert a symbolic tf.Tensor ({self.name}) to a numpy array. This error may indicate that you're "
            "trying to pass a Tensor to a NumPy call, which is not supported. Use session.run to get its value."
        )

    def _refuse(self, what: str) -> NoReturn:
        raise errors.OperatorNotAllowedInGraphError(
            f"{what} is not allowed: '{self.name}' is a tensor of a graph, which has a value only while a session "
            "runs. Use tf.cond, tf.where or tf.while_loop."
        )

    def __bool__(self) -> bool:
        return (
            Tensor.__bool__(self) if graph_mode() else self._refuse("Using a symbolic `tf.Tensor` as a Python `bool`")
        )

    def __iter__(self) -> Iterator[Any]:
        if graph_mode() is not None:
            return Tensor.__iter__(self)
        self._refuse("Iterating over a symbolic `tf.Tensor`")

    def __len__(self) -> int:
        if graph_mode() is not None:
            return Tensor.__len__(self)
        raise TypeError(f"len is not well defined for a symbolic Tensor ({self.name}). Please call `x.shape` instead.")

    def _no_number(self, kind: str) -> NoReturn:
        raise TypeError(f"{kind}() argument must be a number, not a tensor of a graph: '{self.name}'. Use session.run.")

    def __float__(self) -> float:
        return Tensor.__float__(self) if graph_mode() else self._no_number("float")

    def __int__(self) -> int:
        return Tensor.__int__(self) if graph_mode() else self._no_number("int")

    def __complex__(self) -> complex:
        return Tensor.__complex__(self) if graph_mode() else self._no_number("complex")

    def __index__(self) -> int:
        return Tensor.__index__(self) if graph_mode() else self._no_number("index")

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<tf.Tensor '{self.name}' shape={self._static} dtype={self._dtype.name}>"

    def __str__(self) -> str:
        return f'Tensor("{self.name}", shape={self._static}, dtype={self._dtype.name})'

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __copy__(self) -> GraphTensor:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphTensor:
        return self


class Operation:
    """An operation of a graph: a function that sessions call, its arguments, and the tensors it returns.

    >>> import gradtape as tf
    >>> with tf.Graph().as_default() as graph:
    ...     op = tf.square(tf.constant(2.0), name="y").op
    >>> op.name, op.type, op.get_attr("T"), op.node_def.op, op.op_def
    ('y', 'Square', tf.float32, 'Square', 'Square')
    >>> with tf.compat.v1.Session(graph=graph) as session:
    ...     op.run(session=session)
    ...     print(session.run(op.values()[0]))
    4.0
    """

    # `source`, if set, computes the results before each run of a session, instead of the function.

    def __init__(
        self,
        graph: Graph,
        function: Callable[..., Any],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        control_inputs: Sequence[Operation] = (),
    ) -> None:
        self.graph, self.function = graph, function
        self.args, self.kwargs = args, kwargs or {}
        self.inputs: tuple[Any, ...] = tuple(graph_values((args, self.kwargs)))
        self.control_inputs = list(control_inputs)
        self.outputs: list[GraphTensor] = []
        self.places: list[int] = []  # the positions of tensors among the leaves of the result
        self.name, self.type, self.device = "", "", ""
        self.number = 0
        self.is_placeholder = False
        self.source: Callable[[Any], Sequence[Any]] | None = None
        self.attributes: dict[str, Any] = {}

    def values(self) -> tuple[GraphTensor, ...]:
        """Return the output tensors."""
        return tuple(self.outputs)

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        """Run it in a session: the given one or the default one."""
        self.graph.session_for(session, "execute operation").run(self, feed_dict)

    @property
    def op_def(self) -> str:
        """TensorFlow's name of the op."""
        return self.type

    @property
    def node_def(self) -> Any:
        """The message `NodeDef`."""
        from gradtape._src.formats.event import AttrValue, NodeDef, shape_proto

        attrs = {}
        if self.outputs:
            first = self.outputs[0]
            attrs["dtype"] = AttrValue(type=first.dtype.as_datatype_enum)
            if first._static.rank is not None:
                attrs["_output_shapes"] = AttrValue(shape=shape_proto(first._static.as_list()))
        inputs = [getattr(value, "name", "").removesuffix(":0") for value in self.inputs]
        return NodeDef(
            name=self.name, op=self.type, input=[*inputs, *[f"^{op.name}" for op in self.control_inputs]], attr=attrs
        )

    def get_attr(self, name: str) -> Any:
        """Return the value of an attribute."""
        if name in self.attributes:
            return self.attributes[name]
        if name not in ("T", "dtype") or not self.outputs:
            raise ValueError(f"Operation '{self.name}' has no attr named '{name}'.")
        return self.outputs[0].dtype

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<tf.Operation '{self.name}' type={self.type}>"


class Target:
    """A variable that an operation changes, which is not an input. The function gets the variable itself."""

    def __init__(self, variable: Any) -> None:
        self.variable = variable


def is_graph_value(value: Any) -> bool:
    """Whether a value is a tensor or a variable of a graph."""
    return isinstance(value, GraphTensor) or hasattr(type(value), "is_graph_variable")


def graph_values(structure: Any) -> list[Any]:
    """The tensors and variables of graphs in a structure."""
    return [leaf for leaf in nest.flatten(structure, expand_composites=True) if is_graph_value(leaf)]


_shape_of: Callable[[Tensor], TensorShape] = vars(Tensor)["shape"].fget
