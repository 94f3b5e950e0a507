"""`tf.compat.v1`: functions about variables, collections and checks that eager code still calls."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn

import numpy as np

from gradtape._src import nest
from gradtape._src.conversion import convert, wrap
from gradtape._src.tensor import Tensor
from gradtape._src.tf import control_flow, debugging
from gradtape._src.tf.python_functions import numpy_function, print_
from gradtape._src.tf.scopes import current_scope

__all__ = [
    "Print",
    "add_check_numerics_ops",
    "add_to_collection",
    "add_to_collections",
    "assert_variables_initialized",
    "colocate_with",
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
    """True: variables are initialized when they are created."""
    result: Tensor = variable.is_initialized()
    return result


def report_uninitialized_variables(var_list: Any = None, name: str = "report_uninitialized_variables") -> Tensor:
    """No names: variables are initialized when they are created."""
    return wrap(np.empty(0, object))


def assert_variables_initialized(var_list: Any = None) -> None:
    """Nothing to check: variables are initialized when they are created."""


def get_local_variable(name: str, shape: Any = None, dtype: Any = None, initializer: Any = None, **kwargs: Any) -> Any:
    """A new variable that is not trainable."""
    from gradtape._src.tf.compat import get_variable

    return get_variable(name, shape, dtype, initializer, **{**kwargs, "trainable": False})


def no_regularizer(_: Any) -> None:
    """No regularizer."""


class _Scope:
    """The open variable scope: its name."""

    def __init__(self, name: str) -> None:
        self.name = self.original_name_scope = name
        self.reuse, self.initializer, self.regularizer, self.dtype = False, None, None, None
        self.caching_device: Any = None

    def set_caching_device(self, caching_device: Any) -> None:
        """Keep the device on which reads are cached; it has no effect."""
        self.caching_device = caching_device

    def reuse_variables(self) -> None:
        """No effect: eager code never reuses a variable by its name."""


def get_variable_scope() -> _Scope:
    """The open variable scope."""
    return _Scope(current_scope().rstrip("/"))


def make_template(name_: str, func_: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """A function with some of its keyword arguments set."""
    import functools

    options = {"create_scope_now_", "unique_name_", "custom_getter_"}
    return functools.partial(func_, **{name: value for name, value in kwargs.items() if name not in options})


def add_to_collection(name: Any, value: Any) -> None:
    """No effect: eager code has no collections."""


add_to_collections = add_to_collection


def colocate_with(op: Any, ignore_existing: bool = False) -> AbstractContextManager[None]:
    """A block without effect: eager ops run where their inputs are."""
    return nullcontext()


def verify_tensor_all_finite(
    t: Any = None, msg: Any = None, name: str | None = None, x: Any = None, message: Any = None
) -> Any:
    """A tensor, if all of its elements are finite; otherwise InvalidArgumentError."""
    return debugging.check_numerics(t if x is None else x, msg if message is None else message)


def add_check_numerics_ops() -> NoReturn:
    """RuntimeError: there is no graph to add checks to."""
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
