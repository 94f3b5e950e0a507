"""`tf.while_loop`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from gradtape._src import errors, nest
from gradtape._src.arrays.symbolic import current_graph, is_known
from gradtape._src.conversion import convert
from gradtape._src.core.composites import is_composite
from gradtape._src.ops import math
from gradtape._src.shape import TensorShape, TensorSpec
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import static
from gradtape._src.tf.control_flow.tracing import staged_control_flow
from gradtape._src.tf.tensor_array import TensorArray

if TYPE_CHECKING:
    from gradtape._src.typing import Leaf, TensorTree

L = TypeVar("L", bound="Leaf")
Tree = TypeVar("Tree", bound="TensorTree")
Tree2 = TypeVar("Tree2", bound="TensorTree")


@overload
def while_loop(  # type: ignore[overload-overlap]  # more exact than those below
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: tuple[float, Tree],
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: Any = None,
    name: str | None = None,
) -> tuple[Tensor, Tree]: ...
@overload
def while_loop(  # type: ignore[overload-overlap]  # more exact than those below
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: tuple[float, Tree, Tree2],
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: Any = None,
    name: str | None = None,
) -> tuple[Tensor, Tree, Tree2]: ...
@overload
def while_loop(  # type: ignore[overload-overlap]  # more exact than those below
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Tree,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: Any = None,
    name: str | None = None,
) -> Tree: ...
@overload
def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: list[L],
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: Any = None,
    name: str | None = None,
) -> list[Tensor]: ...
@overload
def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: tuple[Leaf, ...],
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: Any = None,
    name: str | None = None,
) -> tuple[Tensor, ...]: ...
@overload
def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Leaf,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: Any = None,
    name: str | None = None,
) -> Tensor: ...
@overload
def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: Any = None,
    name: str | None = None,
) -> Any: ...
def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: Any = None,
    name: str | None = None,
) -> Any:
    """Call `body` on the loop variables as long as `cond` is true; gradients flow through every iteration.

    >>> i, total = tf.while_loop(lambda i, t: i < 4, lambda i, t: (i + 1, t + i), (tf.constant(0), tf.constant(0)))
    >>> int(total)
    6
    """
    for word, function in (("cond", cond), ("body", body)):
        if not callable(function):
            raise TypeError(f"'{word}' must be callable.")
    if not isinstance(parallel_iterations, int) or parallel_iterations < 1:
        raise TypeError("'parallel_iterations' must be a positive integer.")
    alone = not isinstance(loop_vars, (list, tuple))
    given = [loop_vars] if alone else loop_vars
    if not len(given):
        raise ValueError("'loop_vars' must be provided.")
    limit = None if maximum_iterations is None else _limit(maximum_iterations)
    if shape_invariants is not None:
        _check_invariants(given, [shape_invariants] if alone else shape_invariants)
    state = list(given)
    if current_graph() is not None:
        state = nest.map_structure(loop_value, state)
        _learn_element_shapes(body, state)
        declared = None if shape_invariants is None else [shape_invariants] if alone else shape_invariants
        result = staged_control_flow().while_loop(cond, body, state, limit, _invariants(state, declared))
        return result[0] if alone else nest.pack_sequence_as(given, nest.flatten(result))
    iterations, most = 0, None if limit is None else int(limit)
    while (most is None or iterations < most) and (holds := _condition(cond(*state), most is not None)):
        result = body(*state)
        if not alone and isinstance(result, Tensor) and isinstance(holds, Tensor) and not holds.dtype.is_bool:
            raise TypeError(  # TensorFlow rejects the result; with such a condition it may be the last one
                f"Cannot iterate over a scalar tensor. `body` returned one tensor where `loop_vars` is a sequence, and "
                f"`cond` a {holds.dtype.name} where a bool is expected."
            )
        if not isinstance(result, (list, tuple)) or (len(given) == 1 and nest.is_nested(given[0]) and len(result) != 1):
            result = [result]
        nest.assert_same_structure(state, list(result))
        state = list(result)
        iterations += 1
    state = nest.map_structure(loop_value, state)  # only now, as in TensorFlow: the condition gets Python's own numbers
    return state[0] if alone else nest.pack_sequence_as(given, nest.flatten(state))


def _invariants(state: Sequence[Any], declared: Any) -> list[Any]:
    """For each tensor of the loop variables, its declared shape, or None."""
    values = nest.flatten(list(state))
    shapes = [None] * len(values) if declared is None else nest.flatten(list(declared))
    found: list[Any] = []
    for value, shape in zip(values, shapes, strict=True):
        parts = nest.flatten(value, True)
        if isinstance(value, TensorArray) or is_composite(value):
            found += value.invariants() if isinstance(value, TensorArray) else [TensorShape(None)] * len(parts)
        elif nest.is_composite(value):  # from a library: its shapes do not change
            found += [None] * len(parts)
        else:
            found.append(shape.shape if isinstance(shape, TensorSpec) else shape)
    return found


def _limit(maximum_iterations: Any) -> Any:
    if isinstance(maximum_iterations, Tensor) and not is_known(maximum_iterations):
        if maximum_iterations.shape.rank:
            raise errors.refused_value(
                f"'maximum_iterations' must be a scalar. Received shape: {maximum_iterations.shape}", "While"
            )
        if not maximum_iterations.dtype.is_integer:
            raise ValueError(f"'maximum_iterations' must be an integer. Received: {maximum_iterations!r}")
        return maximum_iterations
    if current_graph() is not None and isinstance(maximum_iterations, (float, str)):
        kind = type(maximum_iterations).__name__
        raise TypeError(
            f"Expected int32, but got {maximum_iterations} of type '{kind}'. Pass 'maximum_iterations' as an int."
        )
    try:
        limit = np.asarray(static(maximum_iterations))
    except (ValueError, NotImplementedError):  # rows of several lengths, tensors without values
        limit = np.zeros(2)
    if limit.ndim or limit.dtype.kind not in "iufb" or limit != limit:
        raise ValueError(f"'maximum_iterations' must be a scalar number. Received: {maximum_iterations!r}")
    return limit.astype(np.int32) if limit.dtype.kind == "f" else limit


def _learn_element_shapes(body: Callable[..., Any], state: list[Any]) -> None:
    """Give an empty TensorArray the shape of its elements, from an abstract evaluation of the body."""
    empty = [v for v in nest.flatten(state) if isinstance(v, TensorArray) and not v.element_shape.is_fully_defined()]
    if not empty:
        return
    known = nest.map_structure(lambda v: v.identity() if isinstance(v, TensorArray) else v, state)
    after = nest.flatten(staged_control_flow().abstract_eval(body, known))
    for before, array_after in zip(nest.flatten(state), after, strict=False):
        if isinstance(before, TensorArray) and isinstance(array_after, TensorArray):
            before._element_shape = before.element_shape.merge_with(array_after.element_shape)
            before._rank = array_after._rank


def _condition(value: Any, is_limited: bool) -> Any:
    """What `cond` returned; an array or a list as a tensor, whose truth is that of its element, and has errors that say
    what to do. Beside a limit of iterations it has to be a bool, as in TensorFlow.
    """
    if isinstance(value, (np.ndarray, list, tuple)):
        value = convert(value)
    if not is_limited or isinstance(value, bool) or (isinstance(value, Tensor) and value.dtype.is_bool):
        return value
    return math.logical_and(True, value if isinstance(value, Tensor) else convert(value, "bool"))


def loop_value(value: Any) -> Any:
    """A loop variable as a tensor, or as an object that can be carried."""
    return value if value is None or nest.is_composite(value) else convert(value)


def _check_invariants(values: Any, shapes: Any) -> None:
    """Check that the initial values of loop variables fit their shape invariants."""
    flat = nest.flatten(list(values))
    wanted = [s.shape if isinstance(s, TensorSpec) else s for s in nest.flatten(list(shapes))]
    if len(wanted) != len(flat):
        raise ValueError(f"shape_invariants has {len(wanted)} entries for {len(flat)} loop variables.")
    for value, shape in zip(flat, wanted, strict=True):
        if shape is None or isinstance(value, TensorArray):
            continue
        have = convert(value).shape
        if not TensorShape(shape).is_compatible_with(have):
            raise ValueError(
                f"The shape invariant specified for a loop variable is not compatible with its initial shape. It "
                f"enters the loop with shape {have}, but the specified shape invariant is {TensorShape(shape)}."
            )
