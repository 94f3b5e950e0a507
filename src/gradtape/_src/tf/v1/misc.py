"""`tf.compat.v1`: dimensions, switches of TensorFlow's runtime, and what sessions and graphs would need."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from gradtape._src.arrays.symbolic import Graph, current_graph
from gradtape._src.conversion import convert
from gradtape._src.formats.schema import Field, Record, mapping
from gradtape._src.shape import TensorShape

__all__ = [
    "AUTO_REUSE",
    "ConfigProto",
    "Dimension",
    "GPUOptions",
    "GraphKeys",
    "GraphOptions",
    "InteractiveSession",
    "OptimizerOptions",
    "RunOptions",
    "Session",
    "control_flow_v2_enabled",
    "dimension_at_index",
    "dimension_value",
    "disable_eager_execution",
    "disable_v2_behavior",
    "enabled",
    "executing_eagerly_outside_functions",
    "get_collection",
    "get_default_graph",
    "get_default_session",
    "global_variables",
    "global_variables_initializer",
    "is_enabled",
    "local_variables_initializer",
    "placeholder",
    "placeholder_with_default",
    "reset_default_graph",
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
    """Nothing to switch: gradtape behaves as TensorFlow 2 does."""


def is_enabled() -> bool:
    """True: gradtape behaves as TensorFlow 2 does."""
    return True


control_flow_v2_enabled = is_enabled


def executing_eagerly_outside_functions() -> bool:
    """True: there are no graphs outside of functions."""
    return True


_ADVICE = (
    "gradtape has no graphs and sessions of TensorFlow 1. Run the code eagerly, or decorate a function with "
    "tf.function and call it with what was fed."
)


def _refuse(what: str) -> NoReturn:
    raise RuntimeError(f"{what} is not compatible with eager execution. {_ADVICE}")


def disable_eager_execution() -> NoReturn:
    """RuntimeError: gradtape has no graphs and sessions of TensorFlow 1."""
    raise RuntimeError(f"tf.compat.v1.disable_eager_execution: {_ADVICE}")


def disable_v2_behavior() -> NoReturn:
    """RuntimeError: gradtape has no graphs and sessions of TensorFlow 1."""
    raise RuntimeError(f"tf.compat.v1.disable_v2_behavior: {_ADVICE}")


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> NoReturn:
    """RuntimeError: eager code has no placeholders."""
    _refuse("tf.placeholder()")


def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Any:
    """The default: nothing is fed in eager code."""
    return convert(input)


class Session:
    """RuntimeError: gradtape has no graphs and sessions of TensorFlow 1."""

    def __init__(self, target: str = "", graph: Any = None, config: Any = None) -> None:
        raise RuntimeError(f"The Session graph is empty. Add operations to the graph before calling run(). {_ADVICE}")


class InteractiveSession(Session):
    """RuntimeError: gradtape has no graphs and sessions of TensorFlow 1."""


def get_default_session() -> None:
    """None: there are no sessions."""


_default_graph: list[Graph] = []


def get_default_graph() -> Any:
    """The graph that is traced here; in eager code one that has no ops, and gets none."""
    graph = current_graph()
    if graph is not None:
        return graph.root
    if not _default_graph:
        _default_graph.append(Graph("default"))
    return _default_graph[0]


def reset_default_graph() -> None:
    """Let `get_default_graph` return another graph in eager code."""
    _default_graph.clear()


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
    """Empty: eager code has no collections. Variables belong to the objects that create them."""
    return []


def global_variables(scope: Any = None) -> list[Any]:
    """Empty: eager code has no collections. Variables belong to the objects that create them."""
    return []


trainable_variables = global_variables


def global_variables_initializer() -> None:
    """Nothing to run: variables are initialized when they are created."""


local_variables_initializer = tables_initializer = global_variables_initializer


def variables_initializer(var_list: Any, name: str = "init") -> None:
    """Nothing to run: variables are initialized when they are created."""


class _AutoReuse:
    def __repr__(self) -> str:
        return "<_ReuseMode.AUTO_REUSE: 1>"


AUTO_REUSE = _AutoReuse()


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
