"""`tf.compat.v1`: dimensions, switches of TensorFlow's runtime, placeholders and collections of graphs."""

from __future__ import annotations

from typing import Any, ClassVar

from gradtape._src.arrays.symbolic import current_graph, default_graph, graph_for_ops
from gradtape._src.conversion import convert
from gradtape._src.dtypes import int64
from gradtape._src.formats.schema import Field, Record, mapping
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.shape import TensorShape
from gradtape._src.tf.v1.graphs import ops
from gradtape._src.tf.v1.graphs.default import (
    disable_eager_execution as disable_eager_execution,
    enable_eager_execution as enable_eager_execution,
    get_default_graph as get_default_graph,
    reset_default_graph as reset_default_graph,
)
from gradtape._src.tf.v1.graphs.graph import Graph, default_session
from gradtape._src.tf.v1.graphs.scopes import AUTO_REUSE as AUTO_REUSE, VariableScope as VariableScope
from gradtape._src.tf.v1.graphs.session import InteractiveSession as InteractiveSession, Session as Session
from gradtape._src.tf.v1.graphs.values import (
    IndexedSlicesValue as IndexedSlicesValue,
    SparseTensorValue as SparseTensorValue,
)

_NO_GRAPH = Graph()  # the collections of functions that are being traced: nothing is added to them

__all__ = [
    "AUTO_REUSE",
    "ConfigProto",
    "Dimension",
    "GPUOptions",
    "GraphKeys",
    "GraphOptions",
    "IndexedSlicesValue",
    "InteractiveSession",
    "OptimizerOptions",
    "RunOptions",
    "Session",
    "SparseTensorValue",
    "VariableScope",
    "control_flow_v2_enabled",
    "dimension_at_index",
    "dimension_value",
    "disable_eager_execution",
    "disable_v2_behavior",
    "enable_eager_execution",
    "enabled",
    "executing_eagerly_outside_functions",
    "get_collection",
    "get_collection_ref",
    "get_default_graph",
    "get_default_session",
    "global_variables",
    "global_variables_initializer",
    "is_enabled",
    "local_variables",
    "local_variables_initializer",
    "model_variables",
    "moving_average_variables",
    "placeholder",
    "placeholder_with_default",
    "reset_default_graph",
    "sparse_placeholder",
    "tables_initializer",
    "trainable_variables",
    "variables_initializer",
]


# -- dimensions ------------------------------------------------------------------------------------------------------
class Dimension:
    """The size of an axis, or None if it is unknown; arithmetic with an unknown one is unknown.

    >>> (Dimension(3) + 2).value, (Dimension(3) * Dimension(None)).value
    (5, None)
    """

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        if isinstance(value, Dimension):
            value = value.value
        if value is not None and not hasattr(type(value), "__index__"):
            raise TypeError(f"Dimension value must be integer or None or have an __index__ method, got value {value!r}")
        self._value = None if value is None else int(value.__index__())
        if self._value is not None and self._value < 0:
            raise ValueError(f"Dimension {self._value} must be >= 0")

    @property
    def value(self) -> int | None:
        """The size, or None."""
        return self._value

    def __repr__(self) -> str:
        return f"Dimension({self._value!r})"

    def __str__(self) -> str:
        return "?" if self._value is None else str(self._value)

    def __hash__(self) -> int:
        return hash(self._value)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __reduce__(self) -> Any:
        return Dimension, (self._value,)

    def __int__(self) -> int:
        return self._value  # type: ignore[return-value]  # of an unknown one, Python raises its TypeError

    __index__ = __int__

    def _compared(self, other: Any, compare: str) -> Any:
        try:
            size = as_dimension(other).value
        except (TypeError, ValueError):
            return NotImplemented
        if self._value is None or size is None:
            return None
        return getattr(self._value, compare)(size)

    def __eq__(self, other: object) -> Any:
        return self._compared(other, "__eq__")

    def __ne__(self, other: object) -> Any:
        return self._compared(other, "__ne__")

    def __lt__(self, other: Any) -> Any:
        return self._compared(other, "__lt__")

    def __le__(self, other: Any) -> Any:
        return self._compared(other, "__le__")

    def __gt__(self, other: Any) -> Any:
        return self._compared(other, "__gt__")

    def __ge__(self, other: Any) -> Any:
        return self._compared(other, "__ge__")

    def _computed(self, other: Any, operator: str, swapped: bool = False) -> Any:
        try:
            size = as_dimension(other).value
        except (TypeError, ValueError):
            return NotImplemented
        if self._value is None or size is None:
            return Dimension(None)
        one, two = (size, self._value) if swapped else (self._value, size)
        return Dimension(getattr(one, operator)(two))

    def __add__(self, other: Any) -> Any:
        return self._computed(other, "__add__")

    def __radd__(self, other: Any) -> Any:
        return self._computed(other, "__add__", True)

    def __sub__(self, other: Any) -> Any:
        return self._computed(other, "__sub__")

    def __rsub__(self, other: Any) -> Any:
        return self._computed(other, "__sub__", True)

    def __mul__(self, other: Any) -> Any:
        return self._computed(other, "__mul__")

    def __rmul__(self, other: Any) -> Any:
        return self._computed(other, "__mul__", True)

    def __floordiv__(self, other: Any) -> Any:
        return self._computed(other, "__floordiv__")

    def __rfloordiv__(self, other: Any) -> Any:
        return self._computed(other, "__floordiv__", True)

    def __mod__(self, other: Any) -> Any:
        return self._computed(other, "__mod__")

    def __rmod__(self, other: Any) -> Any:
        return self._computed(other, "__mod__", True)

    def is_compatible_with(self, other: Any) -> bool:
        """Whether two sizes may be equal."""
        size = as_dimension(other).value
        return self._value is None or size is None or self._value == size

    def assert_is_compatible_with(self, other: Any) -> None:
        """ValueError if two sizes are not equal."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Dimensions {self} and {other} are not compatible")

    def merge_with(self, other: Any) -> Dimension:
        """What is known from either of two sizes."""
        self.assert_is_compatible_with(other)
        return as_dimension(other) if self._value is None else Dimension(self._value)


def as_dimension(value: Any) -> Dimension:
    """A size as a `Dimension`."""
    return value if isinstance(value, Dimension) else Dimension(value)


def dimension_value(dimension: Any) -> int | None:
    """The size of an axis, as an int or None.

    >>> dimension_value(Dimension(3)), dimension_value(4), dimension_value(None)
    (3, 4, None)
    """
    return dimension.value if isinstance(dimension, Dimension) else dimension


def dimension_at_index(shape: Any, index: int) -> Dimension:
    """The size of an axis of a shape, as a `Dimension`.

    >>> dimension_at_index(TensorShape([2, None]), 0).value
    2
    """
    found = shape if isinstance(shape, TensorShape) else TensorShape(shape)
    return Dimension(None) if found.rank is None else Dimension(found[index])


# -- switches --------------------------------------------------------------------------------------------------------
def enabled(*args: Any, **kwargs: Any) -> None:
    """Do nothing: gradtape behaves like TensorFlow 2."""


def is_enabled() -> bool:
    """True: gradtape behaves like TensorFlow 2."""
    return True


control_flow_v2_enabled = is_enabled


def executing_eagerly_outside_functions() -> bool:
    """Whether ops run when they are called, outside of functions: not where a graph is built."""
    return default_graph() is None


def disable_v2_behavior() -> None:
    """Build graphs from now on, as TensorFlow 1 does: see `disable_eager_execution`."""
    disable_eager_execution()


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Any:
    """A tensor of a graph whose value is fed when a session runs. RuntimeError in eager code.

    >>> import gradtape as tf
    >>> with tf.Graph().as_default():
    ...     x = placeholder(tf.float32, [None, 2], name="x")
    >>> x
    <tf.Tensor 'x:0' shape=(None, 2) dtype=float32>
    """
    graph = graph_for_ops()
    if graph is None:
        raise RuntimeError(
            "tf.placeholder() is not compatible with eager execution. Build a graph, inside `with "
            "tf.Graph().as_default()` or after tf.compat.v1.disable_eager_execution(), or pass the value to a "
            "function."
        )
    return ops.placeholder(graph, dtype, shape, name)


def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Any:
    """A tensor of a graph whose value may be fed; the default in eager code."""
    graph = graph_for_ops()
    return convert(input) if graph is None else ops.placeholder_with_default(graph, input, shape, name)


def sparse_placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Any:
    """A sparse tensor of a graph whose values are fed. RuntimeError in eager code."""
    rank = TensorShape(shape).rank
    base = name or "Placeholder"
    parts = [
        placeholder(int64, [None, rank], f"{base}/indices"),
        placeholder(dtype, [None], f"{base}/values"),
        placeholder(int64, [rank], f"{base}/shape"),
    ]
    return SparseTensor(*parts)


def get_default_session() -> Any:
    """The session of the innermost block; None if there is none."""
    return default_session()


# -- collections: eager code has none --------------------------------------------------------------------------------
class GraphKeys:
    """The names of TensorFlow's collections."""

    GLOBAL_VARIABLES, VARIABLES = "variables", "variables"
    LOCAL_VARIABLES, MODEL_VARIABLES = "local_variables", "model_variables"
    TRAINABLE_VARIABLES, METRIC_VARIABLES = "trainable_variables", "metric_variables"
    SUMMARIES, UPDATE_OPS, LOSSES = "summaries", "update_ops", "losses"
    REGULARIZATION_LOSSES, GLOBAL_STEP = "regularization_losses", "global_step"
    WEIGHTS, BIASES, ACTIVATIONS = "weights", "biases", "activations"
    MOVING_AVERAGE_VARIABLES, TABLE_INITIALIZERS = "moving_average_variables", "table_initializer"
    TRAIN_OP, INIT_OP, SAVERS, QUEUE_RUNNERS = "train_op", "init_op", "savers", "queue_runners"


def get_collection(key: Any, scope: Any = None) -> list[Any]:
    """The members of a collection of the default graph. Eager code puts nothing into them."""
    found: list[Any] = _graph().get_collection(key, scope)
    return found


def get_collection_ref(key: Any) -> list[Any]:
    """A collection of the default graph itself."""
    found: list[Any] = _graph().get_collection_ref(key)
    return found


def _graph() -> Any:
    found = default_graph()
    return get_default_graph() if found is None and current_graph() is None else found or _NO_GRAPH


def global_variables(scope: Any = None) -> list[Any]:
    """The variables of the default graph. In eager code they belong to the objects that create them."""
    return get_collection(GraphKeys.GLOBAL_VARIABLES, scope)


def trainable_variables(scope: Any = None) -> list[Any]:
    """The trainable variables of the default graph."""
    return get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)


def local_variables(scope: Any = None) -> list[Any]:
    """The local variables of the default graph."""
    return get_collection(GraphKeys.LOCAL_VARIABLES, scope)


def model_variables(scope: Any = None) -> list[Any]:
    """The variables in the collection of model variables of the default graph."""
    return get_collection(GraphKeys.MODEL_VARIABLES, scope)


def moving_average_variables(scope: Any = None) -> list[Any]:
    """The variables of the default graph that have moving averages."""
    return get_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, scope)


def variables_initializer(var_list: Any, name: str = "init") -> Any:
    """An operation that initializes variables. In eager code variables are initialized when they are created."""
    graph = graph_for_ops()
    return None if graph is None else ops.initializers(graph, var_list, name)


def global_variables_initializer() -> Any:
    """An operation that initializes all variables. In eager code variables are initialized when they are created."""
    return variables_initializer(global_variables())


def local_variables_initializer() -> Any:
    """An operation that initializes all local variables."""
    return variables_initializer(local_variables())


def tables_initializer(name: str = "init_all_tables") -> Any:
    """An operation that does nothing: tables are initialized when they are created."""
    return variables_initializer((), name)


# -- options of sessions, which programs set before they begin -------------------------------------------------------
class GPUOptions(Record):
    """How TensorFlow uses a GPU; gradtape reads none of it."""

    schema: ClassVar[dict[str, Field]] = {
        "per_process_gpu_memory_fraction": Field(1, "double"),
        "allocator_type": Field(2, "string"),
        "allow_growth": Field(4, "bool"),
        "visible_device_list": Field(5, "string"),
    }


class OptimizerOptions(Record):
    """How TensorFlow optimizes graphs; gradtape reads none of it."""

    L1, L0, DEFAULT, OFF, ON_1, ON_2 = 0, -1, 0, -1, 1, 2
    schema: ClassVar[dict[str, Field]] = {
        "do_common_subexpression_elimination": Field(1, "bool"),
        "do_constant_folding": Field(2, "bool"),
        "opt_level": Field(3, "int"),
        "do_function_inlining": Field(4, "bool"),
        "global_jit_level": Field(5, "int"),
    }


class GraphOptions(Record):
    """Options of graphs; gradtape reads none of it."""

    schema: ClassVar[dict[str, Field]] = {"optimizer_options": Field(3, OptimizerOptions)}


class ConfigProto(Record):
    """Options of a session; gradtape reads none of it. `tf.config` has the ones that matter here.

    >>> config = ConfigProto(allow_soft_placement=True)
    >>> config.gpu_options.allow_growth = True
    """

    schema: ClassVar[dict[str, Field]] = {
        "device_count": mapping(1, "int"),
        "intra_op_parallelism_threads": Field(2, "int"),
        "inter_op_parallelism_threads": Field(5, "int"),
        "gpu_options": Field(6, GPUOptions),
        "allow_soft_placement": Field(7, "bool"),
        "log_device_placement": Field(8, "bool"),
        "graph_options": Field(10, GraphOptions),
        "operation_timeout_in_ms": Field(11, "int"),
    }


class RunOptions(Record):
    """Options of a run; gradtape reads none of it."""

    NO_TRACE, SOFTWARE_TRACE, HARDWARE_TRACE, FULL_TRACE = range(4)
    schema: ClassVar[dict[str, Field]] = {"trace_level": Field(1, "int"), "timeout_in_ms": Field(2, "int")}
