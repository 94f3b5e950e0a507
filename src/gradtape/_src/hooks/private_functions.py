"""Small functions of TensorFlow's private modules that libraries call: decorators, walks over structures, predicates.

Each of them does here what it does there; none needs anything of TensorFlow's machinery.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from gradtape._src import nest
from gradtape._src.call_sites import logger
from gradtape._src.devices import chosen, logical_devices
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.tf.array import range as _range
from gradtape._src.tf.control_flow import vectorized_map
from gradtape._src.tf.protos import DeviceSpec
from gradtape._src.tf.scopes import executing_eagerly
from gradtape._src.tf.sparse_shaping import reorder

__all__ = [
    "Context",
    "as_it_is",
    "context",
    "deprecated",
    "deprecated_args",
    "deprecated_endpoints",
    "flatten_up_to",
    "flatten_with_joined_string_paths",
    "is_mapping",
    "make_decorator",
    "map_structure_up_to",
    "nothing",
    "pfor",
    "run_in_eager_mode",
    "sparse_reorder",
]


# -- decorators --------------------------------------------------------------------------------------------------------
def deprecated(date: str | None, instructions: str, warn_once: bool = True) -> Callable[[Any], Any]:
    """A decorator: calls of the function log that it goes away."""

    def decorate(function: Any) -> Any:
        if isinstance(function, type):
            return function
        said: list[bool] = []

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not said or not warn_once:
                said.append(True)
                when = "in a future version" if date is None else f"after {date}"
                logger().warning(
                    f"{function.__qualname__} is deprecated and will be removed {when}. Instructions: {instructions}"
                )
            return function(*args, **kwargs)

        return call

    return decorate


def deprecated_args(date: str | None, instructions: str, *names: Any, **options: Any) -> Callable[[Any], Any]:
    """A decorator: calls of the function that give one of these arguments log that it goes away."""
    wanted = {name if isinstance(name, str) else name[0] for name in names}

    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            found = sorted(wanted & set(kwargs))
            if found:
                logger().warning(f"{function.__qualname__}: {', '.join(found)} is deprecated. {instructions}")
            return function(*args, **kwargs)

        return call

    return decorate


deprecated_arg_values = deprecated_args


def deprecated_endpoints(*names: str) -> Callable[[Any], Any]:
    """A decorator that names older names of a function; it stays as it is."""
    return as_it_is


def as_it_is(function: Any = None, *args: Any, **kwargs: Any) -> Any:
    """A decorator without effect, with and without arguments."""
    return function if callable(function) else as_it_is


run_in_eager_mode = as_it_is


def make_decorator(target: Any, decorator_func: Any, *args: Any, **kwargs: Any) -> Any:
    """The decorator of a function, with its name and documentation."""
    return functools.update_wrapper(decorator_func, target)


def nothing(*args: Any, **kwargs: Any) -> None:
    """None: what TensorFlow's function finds here, where there is no graph of TensorFlow's."""


class Context:
    """What libraries ask TensorFlow's context: whether code runs eagerly, and on which device."""

    executing_eagerly = staticmethod(executing_eagerly)

    @property
    def device_spec(self) -> Any:
        """The device on which new tensors are created."""
        kind = "CPU" if chosen() is None else chosen().platform.upper()
        return DeviceSpec(device_type={"CUDA": "GPU", "ROCM": "GPU"}.get(kind, kind))

    def num_gpus(self) -> int:
        """How many GPUs there are."""
        return len(logical_devices("GPU"))


def context() -> Context:
    """The context of the code that calls it."""
    return Context()


# -- structures --------------------------------------------------------------------------------------------------------
def is_mapping(value: Any) -> bool:
    """Whether a structure is a dictionary or the like."""
    from collections.abc import Mapping

    return isinstance(value, Mapping)


def flatten_up_to(shallow_tree: Any, input_tree: Any, check_types: bool = True, **options: Any) -> list[Any]:
    """The parts of a structure in the places of the leaves of a shallower one.

    >>> flatten_up_to([0, {"a": 0}], [[1, 2], {"a": (3, 4)}])
    [[1, 2], (3, 4)]
    """
    if not nest.is_nested(shallow_tree):
        return [input_tree]
    if not nest.is_nested(input_tree):
        raise TypeError(
            f"If shallow structure is a sequence, input must also be a sequence. Input has type: {type(input_tree)}."
        )
    if len(shallow_tree) != len(input_tree):
        raise ValueError(
            f"The two structures don't have the same sequence length. Input structure has length {len(input_tree)}, "
            f"while shallow structure has length {len(shallow_tree)}."
        )
    pairs = zip(_parts(shallow_tree), _parts(input_tree), strict=True)
    return [leaf for shallow, part in pairs for leaf in flatten_up_to(shallow, part, check_types)]


def _parts(tree: Any) -> list[Any]:
    return [tree[key] for key in sorted(tree)] if is_mapping(tree) else list(tree)


def map_structure_up_to(shallow_tree: Any, func: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
    """A function over the parts of structures in the places of the leaves of a shallower one.

    >>> map_structure_up_to([0, 0], len, [[1, 2], [3]])
    [2, 1]
    """
    if not inputs:
        raise ValueError("Argument `inputs` is empty. Cannot map over no sequences.")
    columns = [flatten_up_to(shallow_tree, tree) for tree in inputs]
    return nest.pack_sequence_as(shallow_tree, [func(*parts) for parts in zip(*columns, strict=True)])


def flatten_with_joined_string_paths(
    structure: Any, separator: str = "/", expand_composites: bool = False
) -> list[tuple[str, Any]]:
    """The leaves of a structure, each with the keys and numbers that lead to it.

    >>> flatten_with_joined_string_paths({"a": [1, 2]})
    [('a/0', 1), ('a/1', 2)]
    """
    return [(separator.join(path), leaf) for path, leaf in _walk(structure, ())]


def _walk(structure: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not nest.is_nested(structure):
        yield path, structure
        return
    keys = sorted(structure) if is_mapping(structure) else getattr(structure, "_fields", range(len(structure)))
    for key, part in zip(keys, _parts(structure), strict=True):
        yield from _walk(part, (*path, str(key)))


# -- loops -------------------------------------------------------------------------------------------------------------
def pfor(
    loop_fn: Callable[..., Any], iters: Any, fallback_to_while_loop: bool = True, parallel_iterations: Any = None
) -> Any:
    """The results of a function of the numbers below `iters`, stacked: all iterations in one."""
    return vectorized_map(loop_fn, _range(iters), fallback_to_while_loop)


# -- ops ---------------------------------------------------------------------------------------------------------------
def sparse_reorder(input_indices: Any, input_values: Any, input_shape: Any, name: str | None = None) -> Any:
    """The indices and values of a sparse tensor, in the order of rows.

    >>> indices, values = sparse_reorder([[1, 0], [0, 1]], [5.0, 6.0], [2, 2])
    >>> indices.numpy().tolist(), values.numpy().tolist()
    ([[0, 1], [1, 0]], [6.0, 5.0])
    """
    found = reorder(SparseTensor(input_indices, input_values, input_shape))
    return found.indices, found.values
