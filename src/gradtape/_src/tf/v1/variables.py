"""`tf.compat.v1`: functions about variables, collections and checks that eager code still calls."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn

import numpy as np

from gradtape._src import nest
from gradtape._src.arrays.symbolic import current_graph, default_graph, graph_for_ops
from gradtape._src.conversion import convert, wrap
from gradtape._src.tensor import Tensor
from gradtape._src.tf import control_flow, debugging
from gradtape._src.tf.python_functions import numpy_function, print_
from gradtape._src.tf.scopes import current_scope
from gradtape._src.tf.v1.graphs.scopes import open_scope

__all__ = [
    "Print",
    "add_check_numerics_ops",
    "add_to_collection",
    "add_to_collections",
    "assert_variables_initialized",
    "colocate_with",
    "cond",
    "count_up_to",
    "get_local_variable",
    "get_variable_scope",
    "is_variable_initialized",
    "make_template",
    "no_regularizer",
    "py_func",
    "report_uninitialized_variables",
    "verify_tensor_all_finite",
    "while_loop",
]


def count_up_to(ref: Any, limit: int, name: str | None = None) -> Tensor:
    """Add one to a variable, and return what it was; OutOfRangeError at the limit."""
    result: Tensor = ref.count_up_to(limit)
    return result


def is_variable_initialized(variable: Any) -> Tensor:
    """Whether a variable has a value: true in eager code."""
    result: Tensor = variable.is_initialized()
    return result


def report_uninitialized_variables(var_list: Any = None, name: str = "report_uninitialized_variables") -> Tensor:
    """The names of variables without a value: none in eager code."""
    graph = graph_for_ops()
    if graph is None:
        return wrap(np.empty(0, object))
    variables = graph.get_collection("variables") if var_list is None else list(var_list)

    def names(session: Any) -> list[Any]:
        found = [variable.op.name.encode() for variable in variables if not session.has_value(variable)]
        return [np.array(found, object)]

    result: Tensor = graph.computed_before(names, [np.empty(0, object)], name)[0]
    return result


def assert_variables_initialized(var_list: Any = None) -> None:
    """Nothing to check: variables are initialized when they are created."""


def get_local_variable(name: str, shape: Any = None, dtype: Any = None, initializer: Any = None, **kwargs: Any) -> Any:
    """A variable that is not trainable; in a graph one of the collection of local variables."""
    from gradtape._src.tf.compat import get_variable

    options = {"collections": ["local_variables"], **kwargs, "trainable": False}
    return get_variable(name, shape, dtype, initializer, **options)


def no_regularizer(_: Any) -> None:
    """No regularizer."""


class _Scope:
    """The open variable scope, with its name."""

    def __init__(self, name: str) -> None:
        self.name = self.original_name_scope = name
        self.reuse, self.initializer, self.regularizer, self.dtype = False, None, None, None
        self.caching_device: Any = None

    def set_caching_device(self, caching_device: Any) -> None:
        """Keep the device on which reads are cached; it has no effect."""
        self.caching_device = caching_device

    def reuse_variables(self) -> None:
        """No effect: eager code never reuses a variable by its name."""


def get_variable_scope() -> Any:
    """The open variable scope."""
    if default_graph() is not None:
        return open_scope()
    return _Scope(current_scope().rstrip("/"))


def make_template(name_: str, func_: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """A function with some of its keyword arguments set; in a graph its calls share their variables."""
    import functools

    options = {"create_scope_now_", "unique_name_", "custom_getter_"}
    plain = functools.partial(func_, **{name: value for name, value in kwargs.items() if name not in options})
    if default_graph() is None:
        return plain
    opened: list[Any] = []

    def template(*args: Any, **kwargs: Any) -> Any:
        from gradtape._src.tf.compat import variable_scope

        with variable_scope(opened[0] if opened else None, name_, reuse=True if opened else None) as scope:
            opened.append(scope)
            return plain(*args, **kwargs)

    return template


def add_to_collection(name: Any, value: Any) -> None:
    """Put a value into a collection of the default graph. No effect in eager code, which has no collections."""
    graph = default_graph()
    if graph is not None:
        graph.add_to_collection(name, value)


def add_to_collections(names: Any, value: Any) -> None:
    """Put a value into several collections of the default graph."""
    graph = default_graph()
    if graph is not None:
        graph.add_to_collections(names, value)


def colocate_with(op: Any, ignore_existing: bool = False) -> AbstractContextManager[None]:
    """A block without effect: eager ops run where their inputs are."""
    return nullcontext()


def verify_tensor_all_finite(
    t: Any = None, msg: Any = None, name: str | None = None, x: Any = None, message: Any = None
) -> Any:
    """A tensor, if all of its elements are finite; otherwise InvalidArgumentError."""
    return debugging.check_numerics(t if x is None else x, msg if message is None else message)


def add_check_numerics_ops() -> NoReturn:
    """RuntimeError: checks are added to the ops that need them, by `tf.debugging.check_numerics`."""
    raise RuntimeError(
        "add_check_numerics_ops() is not compatible with eager execution. To check for Inf's and NaN's under eager "
        "execution, call tf.debugging.enable_check_numerics() once before executing the checked operations."
    )


def py_func(func: Callable[..., Any], inp: Any, Tout: Any, stateful: bool = True, name: str | None = None) -> Any:
    """Run a Python function on NumPy arrays as an op, without a gradient."""
    return numpy_function(func, inp, Tout, stateful)


def Print(
    input_: Any,
    data: Any,
    message: str | None = None,
    first_n: Any = None,
    summarize: Any = None,
    name: str | None = None,
) -> Any:
    """Print values, and return the first argument."""
    print_(message or "", *data, summarize=3 if summarize is None else summarize)
    return convert(input_)


def cond(
    pred: Any,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    strict: bool = False,
    name: str | None = None,
    fn1: Callable[[], Any] | None = None,
    fn2: Callable[[], Any] | None = None,
) -> Any:
    """The result of one of two functions; outside of functions a single one comes without its list, if not `strict`."""
    result = control_flow.cond(pred, fn1 if true_fn is None else true_fn, fn2 if false_fn is None else false_fn)
    single = type(result) in (list, tuple) and len(result) == 1 and current_graph() is None
    return result[0] if single and not strict else result


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
    maximum_iterations: Any = None,
    return_same_structure: bool = False,
) -> Any:
    """Call `body` while `cond` holds; a single variable of the loop comes back without its list."""
    result = control_flow.while_loop(
        cond, body, loop_vars, shape_invariants=shape_invariants, maximum_iterations=maximum_iterations
    )
    single = nest.is_nested(result) and len(result) == 1 and not isinstance(result, dict)
    return result[0] if single and not return_same_structure else result
