"""Public modules while a graph is built: their functions add operations to it.

The first graph gives the public modules a class whose attributes depend on the default graph. Without one, and while
operations run, functions are unchanged.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from gradtape._src.arrays.symbolic import graph_for_ops
from gradtape._src.core.composites import register_handler
from gradtape._src.tensor import Tensor
from gradtape._src.tf.v1.graphs.graph import register_part
from gradtape._src.tf.v1.graphs.op_names import OPERATORS
from gradtape._src.tf.v1.graphs.tensors import GraphTensor, active_mode, graph_values
from gradtape._src.tf.v1.graphs.variables import GraphVariable

_PACKAGES = ("gradtape", "tensorflow")
_OPS = frozenset(
    """audio bitwise debugging dtypes functions gradtape image io linalg losses math nn quantization ragged random
    raw_ops sets signal sparse strings tensorflow v1 v2""".split()  # noqa: SIM905
)
"""The modules whose functions become operations."""

_PYTHON = frozenset(
    """Graph as_dtype broadcast_static_shape control_dependencies custom_gradient device
    disable_check_numerics disable_traceback_filtering enable_check_numerics enable_traceback_filtering
    executing_eagerly function get_current_name_scope get_log_device_placement get_logger get_seed get_static_value
    grad_pass_through gradients group hessians init_scope inside_function install_as_tensorflow is_numeric_tensor
    is_symbolic_tensor is_tensor is_traceback_filtering_enabled make_ndarray make_tensor_proto no_gradient no_op
    recompute_grad register_tensor_conversion_function set_log_device_placement set_random_seed set_seed
    add_loss assert_proper_iterable get_global_generator get_losses get_regularization_loss
    get_regularization_losses get_total_loss set_global_generator type_spec_from_value uninstall_as_tensorflow
    variable_creator_scope""".split()  # noqa: SIM905
)
"""Functions that are not operations."""

_HOMES = (
    "gradtape._src.tf.v1.misc",
    "gradtape._src.tf.v1.train",
    "gradtape._src.tf.v1.graphs",
    "gradtape._src.tf.v1.logging",
    "gradtape._src.tf.v1.summary",
    "gradtape._src.tf.compat",
    "gradtape._src.tf.scopes",
    "gradtape._src.function",
    "gradtape._src.nest",
    "gradtape._src.tf.config",
    "gradtape._src.tf.gfile",
)
_LOSSES = "gradtape._src.tf.v1.losses"
_CALLING_PYTHON = frozenset({"numpy_function", "py_func", "py_function"})
_OPS_OF_VARIABLES = frozenset({"Print", "cond", "py_func", "verify_tensor_all_finite", "while_loop"})


class _View(ModuleType):
    """A public module, if there may be graphs."""

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name.startswith("_") or graph_for_ops() is None:
            return value
        if isinstance(value, ModuleType):
            _show(value)
            return value
        if isinstance(value, type) or not callable(value) or not _is_op(self, name, value):
            return value
        return as_operation(value)


def _is_op(module: ModuleType, name: str, function: Any) -> bool:
    """Whether a function of a module becomes an operation."""
    home = getattr(function, "__module__", "") or ""
    if home == "gradtape._src.tf.v1.variables":
        return name in _OPS_OF_VARIABLES
    if name in _PYTHON or home.startswith(_HOMES):
        return False
    return ModuleType.__getattribute__(module, "__name__").rpartition(".")[2] in _OPS


_operations: dict[int, tuple[Any, Callable[..., Any]]] = {}


def as_operation(function: Any) -> Callable[..., Any]:
    """A function that adds a call of another one to the default graph."""
    found = _operations.get(id(function))
    if found is None:
        found = _operations[id(function)] = function, _adding(function)
    return found[1]


def _adding(function: Any) -> Callable[..., Any]:
    calls_python = getattr(function, "__name__", "") in _CALLING_PYTHON
    bind: Any = inspect.signature(function).bind if calls_python else None
    place, is_loss = _place_of_name(function), getattr(function, "__module__", "") == _LOSSES

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        graph = graph_for_ops()
        if graph is None:
            return function(*args, **kwargs)
        name = kwargs.get("name")
        if name is None and place is not None and len(args) > place:
            name = args[place]
        if calls_python:
            dtypes = bind(*args, **kwargs).arguments["Tout"]
            return graph.record_python(function, args, kwargs, dtypes, name)
        result = graph.record(function, args, kwargs, name if isinstance(name, str) else None)
        if is_loss and (collection := kwargs.get("loss_collection", "losses")):
            graph.add_to_collection(collection, result)
        return result

    return call


def _place_of_name(function: Any) -> int | None:
    """The position of the parameter `name`."""
    try:
        parameters = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None
    return parameters.index("name") if "name" in parameters else None


def _show(module: ModuleType) -> None:
    """Make a module, and those in it, return operations."""
    kind = type(module)
    name = vars(module).get("__name__", "")
    if issubclass(kind, _View) or not name.startswith(_PACKAGES):
        return
    if "._src." in name and ".tf.v1." not in name:
        return
    module.__class__ = type("module", (_View, kind), {}) if kind is not ModuleType else _View
    for value in list(vars(module).values()):
        if isinstance(value, ModuleType):
            _show(value)


def show_all() -> None:
    """Make the public modules return operations."""
    for name in _PACKAGES:
        module = sys.modules.get(name)
        if module is not None and (name == "gradtape" or hasattr(module, "_gradtape")):
            _show(module)
            for full in [full for full in sys.modules if full.startswith(f"{name}.") and "._src" not in full]:
                _show(sys.modules[full])


# -- operators, and functions imported by name -----------------------------------------------------------------------
def _operator(name: str) -> Callable[..., Any]:
    of_tensors = getattr(Tensor, name, None)

    @functools.wraps(of_tensors)  # type: ignore[arg-type]
    def method(self: Any, *args: Any) -> Any:
        if active_mode() is not None:
            own = self._read() if isinstance(self, GraphVariable) else self
            return of_tensors(own, *args)  # type: ignore[misc]
        return self.graph.record(of_tensors, (self, *args), {}, OPERATORS[name])

    return method


def _same(self: Any, other: Any) -> bool:
    return self is other


def _different(self: Any, other: Any) -> bool:
    return self is not other


for _kind in (GraphTensor, GraphVariable):
    for _name in OPERATORS:
        if hasattr(Tensor, _name):
            setattr(_kind, _name, _operator(_name))
    setattr(_kind, "__eq__", _same)  # noqa: B010 - as the operators
    setattr(_kind, "__ne__", _different)  # noqa: B010


def _recorded(name: str, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    values = graph_values((args, kwargs))
    return values[0].graph.record(call, args, kwargs)


register_handler(GraphTensor, _recorded)
register_handler(GraphVariable, _recorded)
register_part("modules", show_all)
