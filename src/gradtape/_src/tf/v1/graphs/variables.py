"""Variables of a TensorFlow 1 graph: every session has its own values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.symbolic import Symbolic, tracing
from gradtape._src.conversion import convert
from gradtape._src.core.tape import use_recorders
from gradtape._src.dtypes import DType, as_dtype
from gradtape._src.interrupts import setting
from gradtape._src.ops import array
from gradtape._src.shape import TensorShape
from gradtape._src.tensor import Tensor, next_uid
from gradtape._src.tf.v1.graphs.graph import _control, register_part
from gradtape._src.tf.v1.graphs.tensors import GraphTensor, Operation, Target, active_mode, is_graph_value, running
from gradtape._src.variable import (
    Storage,
    Variable,
    VariableAggregation,
    VariableSynchronization,
    name_prefix,
)

if TYPE_CHECKING:
    from gradtape._src.tf.v1.graphs.graph import Graph

_CHANGES = (
    "assign", "assign_add", "assign_sub", "batch_scatter_update", "scatter_add", "scatter_div", "scatter_max",
    "scatter_min", "scatter_mul", "scatter_nd_add", "scatter_nd_max", "scatter_nd_min", "scatter_nd_sub",
    "scatter_nd_update", "scatter_sub", "scatter_update",
)  # fmt: skip
_TYPES = {"assign": "AssignVariableOp", "assign_add": "AssignAddVariableOp", "assign_sub": "AssignSubVariableOp"}
_NAMES = {"assign": "Assign", "assign_add": "AssignAdd", "assign_sub": "AssignSub"}


def change(variable: GraphVariable, method: str, *args: Any) -> Tensor:
    """The function of an operation that changes a variable."""
    mode = active_mode()
    assert mode is not None
    return mode.change(variable, method, args)


class GraphVariable(Variable):
    """A variable of a graph. Reading and changing it are operations; `initializer` assigns its initial value."""

    is_graph_variable = True

    def __init__(
        self,
        graph: Any,
        initial_value: Any = None,
        trainable: bool | None = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        variable_def: Any = None,
        dtype: Any = None,
        import_scope: Any = None,
        constraint: Callable[[Any], Any] | None = None,
        synchronization: VariableSynchronization = VariableSynchronization.AUTO,
        aggregation: VariableAggregation = VariableAggregation.NONE,
        shape: Any = None,
        experimental_enable_variable_lifting: bool = True,
        collections: Sequence[Any] | None = None,
        expected_shape: Any = None,
        use_resource: Any = None,
        full_name: str | None = None,
    ) -> None:
        if hasattr(self, "graph"):
            return  # completed by `Variable.__new__`
        if initial_value is None:
            raise ValueError("The `initial_value` arg to `tf.Variable` must not be None except when you are not "
                             "providing a `variable_def`. Pass a value, or a function that returns one.")  # fmt: skip
        self.graph: Graph = graph
        with running(None), tracing(None), use_recorders(()), setting(_control, ()):
            handle = graph.add_grouping((), f"{full_name}/" if full_name else name or "Variable", "VarHandleOp")
            self._op: Operation = handle
            self._name = f"{handle.name}:0"
            with setting(name_prefix, f"{handle.name}/"):
                self._initial = _initial_tensor(graph, initial_value, dtype)
                self.uid = next_uid()
                declared = TensorShape(shape) if shape is not None else self._initial.shape
                self._declared_shape = declared if validate_shape else TensorShape(None)
                self._may_grow = False
                self._dtype: DType = self._initial.dtype
                self._trainable = (
                    synchronization is not VariableSynchronization.ON_READ if trainable is None else trainable
                )
                self._constraint, self._synchronization, self._aggregation = constraint, synchronization, aggregation
                self.symbol: Symbolic = graph.stand_in(_ranked(self._declared_shape), self._dtype, self.uid)
                self.storage = Storage(self.uid, self.symbol, unread=True)  # for its shape and dtype only
                self._initializer = self._changing("assign", self._initial).op
                self.graph_element: GraphTensor = self._read()  # type: ignore[assignment]
                graph.variable_values[handle.name] = self.graph_element
        self._add_to_collections(collections)

    def initialize_with(self, value: Any) -> None:
        """Make `initializer` assign another value."""
        building, prefix = (running(None), tracing(None)), setting(name_prefix, f"{self._op.name}/")
        with building[0], building[1], use_recorders(()), setting(_control, ()), prefix:
            self._initial = _initial_tensor(self.graph, value, self._dtype)
            self._initializer = self._changing("assign", self._initial).op

    def _add_to_collections(self, collections: Sequence[Any] | None) -> None:
        keys = ["variables"] if collections is None else list(collections)
        if self._trainable and "trainable_variables" not in keys:
            keys.append("trainable_variables")
        for key in keys:
            self.graph.add_to_collection(key, self)

    # -- properties --------------------------------------------------------------------------------------------------
    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def op(self) -> Operation:
        """The operation that represents its memory."""
        return self._op

    @property
    def device(self) -> str:
        return self._op.device

    @property
    def initial_value(self) -> GraphTensor:
        """The value that `initializer` assigns."""
        return self._initial

    def initialized_value(self) -> GraphTensor:
        """The initial value, for the initial values of other variables."""
        return self._initial

    @property
    def initializer(self) -> Any:
        """The operation that gives it its initial value."""
        return self._initializer

    @property
    def ndim(self) -> Any:
        return self._declared_shape.rank

    def eval(self, session: Any = None) -> Any:
        """Its value in the given session, or the default one."""
        return self.graph.session_for(session, "evaluate tensor").run(self)

    def load(self, value: Any, session: Any = None) -> None:
        """Give it a value in a session."""
        self.graph.session_for(session, "evaluate tensor").run(self._initializer, {self._initial: value})

    def is_initialized(self, name: str | None = None) -> Any:
        """Whether it has a value in the session that computes this."""
        return self.graph.computed_before(
            lambda session: [np.asarray(session.has_value(self))], [np.zeros((), bool)], name or "IsInitialized"
        )[0]

    def __repr__(self) -> str:
        return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}>"

    def __hash__(self) -> int:
        return id(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphVariable:
        return self

    # -- reading and changing ----------------------------------------------------------------------------------------
    def _read(self) -> Tensor:
        mode = active_mode()
        if mode is not None:
            return mode.read(self)
        read: GraphTensor = self.graph.record(array.identity, (self,), {}, f"{self._op.name}/Read/ReadVariableOp/")
        read.op.type = "ReadVariableOp"
        return read

    _peek = _read

    def value(self) -> Tensor:
        return self._read() if active_mode() is None else array.identity(self._read())

    def numpy(self) -> Any:
        raise NotImplementedError(
            "numpy() is only available when eager execution is enabled. Use session.run, or variable.eval()."
        )

    def count_up_to(self, limit: int) -> Any:
        """Add one, and return what it was; OutOfRangeError at the limit."""
        return self.graph.record(_count_up_to, (Target(self), limit), {}, "CountUpTo")

    def changed(self, method: str, args: tuple[Any, ...]) -> Tensor:
        """The result of a method that changes it, in shape inference."""
        if method == "assign":
            value = convert(args[0], self._dtype)
            if not self._declared_shape.is_compatible_with(value.shape):
                raise ValueError(
                    f"Dimension mismatch: Shapes {self._declared_shape} and {value.shape} are incompatible. The first "
                    f"is that of '{self.name}', the second that of the value."
                )
            if self._declared_shape.rank is None:
                return array.identity(value)
        mode = active_mode()
        assert mode is not None
        result: Tensor = array.identity(mode.read(self))
        return result

    def _changing(self, method: str, *args: Any, name: str | None = None) -> Any:
        mode = active_mode()
        if mode is not None:
            return mode.change(self, method, args)
        result = self.graph.record(change, (Target(self), method, *args), {}, name or _NAMES.get(method, method))
        result.op.type = _TYPES.get(method, "ResourceScatterUpdate")
        return result


def _initial_tensor(graph: Any, value: Any, dtype: Any) -> GraphTensor:
    if callable(value) and not is_graph_value(value):
        value = graph.record(value, (), {}, "initial_value")
    if isinstance(value, GraphTensor) and (dtype is None or as_dtype(dtype) == value.dtype):
        return value
    result: GraphTensor = graph.record(_converted, (value, dtype), {}, "initial_value")
    return result


def _converted(value: Any, dtype: Any) -> Tensor:
    return convert(value, dtype)


def _ranked(shape: TensorShape) -> TensorShape:
    return TensorShape([]) if shape.rank is None else shape


def _count_up_to(variable: GraphVariable, limit: int) -> Tensor:
    from gradtape._src.tf.python_functions import numpy_function

    def checked(value: Any) -> Any:
        if value >= limit:
            raise errors.OutOfRangeError(None, None, f"Reached limit of {limit} [Op:CountUpTo]")
        return value

    mode = active_mode()
    assert mode is not None
    before: Tensor = numpy_function(checked, [mode.read(variable)], variable.dtype)
    before.set_shape([])
    mode.change(variable, "assign_add", (1,))
    return before


def _method(name: str) -> Callable[..., Any]:
    def method(self: GraphVariable, *args: Any, **kwargs: Any) -> Any:
        given = kwargs.pop("name", None)
        options = {"use_locking", "read_value"}
        values = (*args[:1], *[v for v in args[1:] if not isinstance(v, (bool, str)) and v is not None])
        return self._changing(name, *values, *[v for k, v in kwargs.items() if k not in options], name=given)

    method.__name__ = name
    method.__doc__ = getattr(Variable, name).__doc__
    return method


for _name in _CHANGES:
    if hasattr(Variable, _name):
        setattr(GraphVariable, _name, _method(_name))

register_part("variable", GraphVariable)
