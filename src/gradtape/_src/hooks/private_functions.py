"""Small functions of TensorFlow's private modules that libraries call: decorators, predicates, shapes, conditions.

Each one behaves as in TensorFlow; none needs TensorFlow's internals.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from gradtape._src import nest
from gradtape._src.active import active_stack
from gradtape._src.call_sites import logger
from gradtape._src.devices import chosen, logical_devices
from gradtape._src.interrupts import contextmanager, setting
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.raw_ops import public as raw_ops
from gradtape._src.shape import TensorShape
from gradtape._src.tensor import Tensor
from gradtape._src.tf import random, scopes
from gradtape._src.tf.array import cast, expand_dims, is_tensor, range as _range
from gradtape._src.tf.control_flow import vectorized_map
from gradtape._src.tf.linear_operator import LinearOperatorFullMatrix
from gradtape._src.tf.protos import DeviceSpec
from gradtape._src.tf.scopes import executing_eagerly
from gradtape._src.tf.shaping import get_static_value
from gradtape._src.tf.sparse_shaping import reorder
from gradtape._src.tf.v1.graphs.default import Graph
from gradtape._src.variable import name_prefix

__all__ = [
    "ENABLE_CONTROL_FLOW_V2",
    "ArgSpec",
    "Context",
    "add_operators",
    "as_it_is",
    "case_helper",
    "constant_value_as_shape",
    "context",
    "could_possibly_record",
    "deprecated",
    "deprecated_alias",
    "deprecated_args",
    "deprecated_endpoints",
    "expand_1d",
    "getargspec",
    "getfullargspec",
    "graph_mode",
    "make_decorator",
    "name_scope",
    "nothing",
    "parameterized_truncated_normal",
    "pfor",
    "prevent_gradient",
    "run_in_eager_mode",
    "should_record_backprop",
    "silence",
    "slice_helper",
    "sparse_reorder",
    "sticky_attribute_assignment",
]


def could_possibly_record() -> bool:
    """Whether a tape is recording."""
    return active_stack() is not None


def should_record_backprop(tensors: Sequence[Tensor]) -> bool:
    """Whether a recording tape watches one of these tensors."""
    stack = active_stack()
    while stack is not None:
        tracked, _, _, stack = stack
        if any(tensor.uid in tracked for tensor in tensors):
            return True
    return False


_silent: ContextVar[bool] = ContextVar("gradtape_silent_deprecations", default=False)


ENABLE_CONTROL_FLOW_V2 = True
"""Conditions and loops are functional ops."""


# -- decorators --------------------------------------------------------------------------------------------------------
def deprecated(date: str | None, instructions: str, warn_once: bool = True) -> Callable[[Any], Any]:
    """A decorator: calls log that the function is deprecated."""

    def decorate(function: Any) -> Any:
        if isinstance(function, type):
            return function
        said: list[bool] = []

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if (not said or not warn_once) and not _silent.get():
                said.append(True)
                when = "in a future version" if date is None else f"after {date}"
                logger().warning(
                    f"{function.__qualname__} is deprecated and will be removed {when}. Instructions: {instructions}"
                )
            return function(*args, **kwargs)

        return call

    return decorate


def deprecated_args(date: str | None, instructions: str, *names: Any, **options: Any) -> Callable[[Any], Any]:
    """A decorator: calls log that one of these arguments is deprecated, if given."""
    wanted = {name if isinstance(name, str) else name[0] for name in names}

    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            found = sorted(wanted & set(kwargs))
            if found and not _silent.get():
                logger().warning(f"{function.__qualname__}: {', '.join(found)} is deprecated. {instructions}")
            return function(*args, **kwargs)

        return call

    return decorate


deprecated_arg_values = deprecated_args


def deprecated_endpoints(*names: str) -> Callable[[Any], Any]:
    """A decorator that lists older names of a function; it returns the function unchanged."""
    return as_it_is


def as_it_is(function: Any = None, *args: Any, **kwargs: Any) -> Any:
    """A decorator without effect, with or without arguments."""
    return function if callable(function) else as_it_is


run_in_eager_mode = as_it_is


def make_decorator(target: Any, decorator_func: Any, *args: Any, **kwargs: Any) -> Any:
    """Return a decorated function with the name and documentation of its target."""
    return functools.update_wrapper(decorator_func, target)


def name_scope(
    name: str | None, default_name: str | None = None, values: Any = None, skip_on_eager: bool = True
) -> Any:
    """A prefix of names, in eager code too; without a name and a default, no prefix.

    >>> with name_scope("a"), name_scope(None, skip_on_eager=False) as scope:
    ...     print(repr(scope))
    ''
    """
    if name is None and default_name is None:
        return _no_scope()
    return scopes.name_scope(name, default_name, values)


@contextmanager
def _no_scope() -> Iterator[str]:
    with setting(name_prefix, ""):
        yield ""


def deprecated_alias(deprecated_name: str, name: str, func_or_class: Any, warn_once: bool = True) -> Any:
    """A function under an older name, whose calls log that it is deprecated."""
    if isinstance(func_or_class, type):
        return func_or_class

    def call(*args: Any, **kwargs: Any) -> Any:
        return func_or_class(*args, **kwargs)

    call.__qualname__ = deprecated_name
    return deprecated(None, f"Please use {name} instead.", warn_once)(call)


def silence() -> setting[bool]:
    """A context in which no deprecation is logged."""
    return setting(_silent, True)


def nothing(*args: Any, **kwargs: Any) -> None:
    """Return None, as TensorFlow's function does outside of its graphs."""


class Context:
    """The part of TensorFlow's context that libraries use: whether code runs eagerly, and on which device."""

    executing_eagerly = staticmethod(executing_eagerly)

    @property
    def device_spec(self) -> Any:
        """The device of new tensors."""
        kind = "CPU" if chosen() is None else chosen().platform.upper()
        return DeviceSpec(device_type={"CUDA": "GPU", "ROCM": "GPU"}.get(kind, kind))

    def num_gpus(self) -> int:
        """The number of GPUs."""
        return len(logical_devices("GPU"))


def context() -> Context:
    """Return the current context."""
    return Context()


# -- loops -------------------------------------------------------------------------------------------------------------
def pfor(
    loop_fn: Callable[..., Any], iters: Any, fallback_to_while_loop: bool = True, parallel_iterations: Any = None
) -> Any:
    """Return the stacked results of a function of the numbers below `iters`, vectorized."""
    return vectorized_map(loop_fn, _range(iters), fallback_to_while_loop)


# -- ops ---------------------------------------------------------------------------------------------------------------
def prevent_gradient(input: Any, message: str = "", name: str | None = None) -> Tensor:
    """Return the tensor itself; a gradient through it raises an error with this message."""
    found: Tensor = raw_ops.PreventGradient(input=input, message=message, name=name)
    return found


def slice_helper(tensor: Any, slice_spec: Any, var: Any = None) -> Any:
    """What `tensor[slice_spec]` is.

    >>> import gradtape as tf
    >>> slice_helper(tf.constant([1, 2, 3]), slice(1, None)).numpy().tolist()
    [2, 3]
    """
    return tensor[slice_spec]


def expand_1d(data: Any) -> Any:
    """Vectors in a structure as columns.

    >>> import gradtape as tf
    >>> expand_1d({"x": tf.constant([1, 2])})["x"].shape
    TensorShape([2, 1])
    """

    def expanded(leaf: Any) -> Any:
        return expand_dims(leaf, -1) if isinstance(leaf, Tensor) and leaf.shape.rank == 1 else leaf

    return nest.map_structure(expanded, data)


def sparse_reorder(input_indices: Any, input_values: Any, input_shape: Any, name: str | None = None) -> Any:
    """The indices and values of a sparse tensor, in the order of rows.

    >>> indices, values = sparse_reorder([[1, 0], [0, 1]], [5.0, 6.0], [2, 2])
    >>> indices.numpy().tolist(), values.numpy().tolist()
    ([[0, 1], [1, 0]], [6.0, 5.0])
    """
    found = reorder(SparseTensor(input_indices, input_values, input_shape))
    return found.indices, found.values


# -- signatures --------------------------------------------------------------------------------------------------------
def getfullargspec(obj: Any) -> inspect.FullArgSpec:
    """The parameters of a function, behind its decorators. Functions of gradtape have no annotations, as TensorFlow's.

    >>> import gradtape as tf
    >>> getfullargspec(tf.rank).args
    ['input', 'name']
    """
    found = inspect.getfullargspec(inspect.unwrap(obj) if callable(obj) and not isinstance(obj, type) else obj)
    is_own = str(getattr(obj, "__module__", "")).partition(".")[0] == __name__.partition(".")[0]
    return found._replace(annotations={}) if is_own else found


# -- shapes ------------------------------------------------------------------------------------------------------------
class ArgSpec(NamedTuple):
    """The parameters of a function, without keyword-only ones."""

    args: list[str]
    varargs: str | None
    keywords: str | None
    defaults: tuple[Any, ...] | None


def getargspec(obj: Any) -> ArgSpec:
    """The parameters of a function, as Python 2 described them.

    >>> getargspec(lambda a, b=2, *c, **d: 0)
    ArgSpec(args=['a', 'b'], varargs='c', keywords='d', defaults=(2,))
    """
    return ArgSpec(*getfullargspec(obj)[:4])


def constant_value_as_shape(tensor: Any) -> TensorShape:
    """A tensor of sizes as a shape; sizes that are not known, and -1, are None.

    >>> constant_value_as_shape([2, -1])
    TensorShape([2, None])
    """
    known = get_static_value(tensor) if is_tensor(tensor) else tensor
    if known is not None:
        return TensorShape([None if n == -1 else int(n) for n in np.ravel(known)])
    rank = TensorShape(tensor.shape).as_list()
    return TensorShape(None) if rank[0] is None else TensorShape([None] * rank[0])


# -- conditions --------------------------------------------------------------------------------------------------------
def case_helper(
    cond_fn: Callable[..., Any],
    pred_fn_pairs: Any,
    default: Any,
    exclusive: bool,
    name: str | None,
    allow_python_preds: bool = False,
    **options: Any,
) -> Any:
    """Return the result of the first function whose condition holds, with a function that chooses between two."""
    pairs = list(pred_fn_pairs.items()) if isinstance(pred_fn_pairs, Mapping) else list(pred_fn_pairs)
    if default is None:
        default = pairs.pop()[1]
    chosen = default
    for pred, function in reversed(pairs):
        chosen = functools.partial(cond_fn, pred, true_fn=function, false_fn=chosen, **options)
    return chosen()


# -- linear operators --------------------------------------------------------------------------------------------------
def add_operators(operators: Any, operator_name: str | None = None, **options: Any) -> list[Any]:
    """The sum of linear operators, as a list with one operator."""
    operators = list(operators)
    if len(operators) == 1:
        return operators
    total = operators[0].to_dense()
    for operator in operators[1:]:
        total = total + operator.to_dense()
    return [LinearOperatorFullMatrix(total, name=operator_name or "add_operators")]


def sticky_attribute_assignment(trackable: Any, name: str, value: Any) -> Any:
    """The value to store as an attribute that checkpoints track: the value itself."""
    return value


# -- random numbers ----------------------------------------------------------------------------------------------------
def parameterized_truncated_normal(
    shape: Any,
    means: Any = 0.0,
    stddevs: Any = 1.0,
    minvals: Any = -2.0,
    maxvals: Any = 2.0,
    dtype: Any = "float32",
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Normal numbers between bounds, each with its own mean, standard deviation and bounds.

    >>> parameterized_truncated_normal([3], minvals=0.5, maxvals=0.6, seed=1).shape
    TensorShape([3])
    """
    pair = random.uniform([2], maxval=2**31 - 1, dtype="int32", seed=seed)
    given = [cast(value, dtype) for value in (means, stddevs, minvals, maxvals)]
    return random.stateless_parameterized_truncated_normal(shape, pair, *given)


def graph_mode() -> Any:
    """A context in which a new graph of TensorFlow 1 is built."""
    return Graph().as_default()
