"""`tf.foldl`, `tf.foldr` and `tf.scan`."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from gradtape._src import errors, nest
from gradtape._src.conversion import convert
from gradtape._src.ops import array
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import truth
from gradtape._src.tf.array import concat, stack, zeros
from gradtape._src.tf.control_flow.loops import loop_value
from gradtape._src.tf.control_flow.rows import iterations, rows_of
from gradtape._src.tf.control_flow.tracing import is_traced, staged_control_flow
from gradtape._src.tf.tensor_array import wrong_dtype
from gradtape._src.variable import traced_scope

if TYPE_CHECKING:
    from gradtape._src.typing import Fold, Leaf, Structure, TensorStructure

Several = TypeVar("Several", bound="TensorStructure")


def _typed(function: Callable[..., Any]) -> Fold:
    """The function itself, with the types of a fold."""
    return function


@_typed
def foldl(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """Call `fn(accumulated, row)` for the rows from first to last, and return the last result.

    >>> int(tf.foldl(lambda a, x: 2 * a + x, tf.constant([1, 2, 3])))
    11
    """
    return _folded(fn, elems, initializer, False)[0]


@_typed
def foldr(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """Call `fn(accumulated, row)` for the rows from last to first, and return the last result.

    >>> int(tf.foldr(lambda a, x: 2 * a + x, tf.constant([1, 2, 3])))
    17
    """
    return _folded(fn, elems, initializer, True)[0]


@overload
def scan(
    fn: Callable[[Tensor, Tensor], Any],
    elems: Leaf,
    initializer: Leaf | None = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: Any = False,
    name: str | None = None,
) -> Tensor: ...
@overload
def scan(
    fn: Callable[[Several, Several], Any],
    elems: Several,
    initializer: None = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: Any = False,
    name: str | None = None,
) -> Several: ...
@overload
def scan(
    fn: Callable[[Several, Any], Any],
    elems: Any,
    initializer: Several,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: Any = False,
    name: str | None = None,
) -> Several: ...
@overload
def scan(
    fn: Callable[[Tensor, Any], Any],
    elems: Structure,
    initializer: Leaf,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: Any = False,
    name: str | None = None,
) -> Tensor: ...
@overload
def scan(
    fn: Callable[[Any, Any], Any],
    elems: Structure,
    initializer: None = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: Any = False,
    name: str | None = None,
) -> Any: ...
@overload
def scan(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Structure,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: Any = False,
    name: str | None = None,
) -> Any: ...
def scan(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: Any = False,
    name: str | None = None,
) -> Any:
    """Fold like `foldl` (with `reverse`, like `foldr`), and stack all intermediate results.

    >>> tf.scan(lambda a, x: a + x, tf.constant([1, 2, 3])).numpy().tolist()
    [1, 3, 6]
    """
    template, reverse = elems if initializer is None else initializer, truth(reverse)
    if is_traced(*[convert(e) for e in nest.flatten((elems, initializer)) if e is not None]):
        return nest.pack_sequence_as(template, nest.flatten(_folded(fn, elems, initializer, reverse, every=True)[1]))
    states = _fold(fn, elems, initializer, reverse)
    if initializer is not None:
        first, states = states[0], states[1:]
    if not states:
        return nest.map_structure(lambda t: zeros((0, *t.array.shape), t.dtype), first)
    if reverse:
        states = states[::-1]
    columns = zip(*(nest.flatten(s) for s in states), strict=True)
    return nest.pack_sequence_as(template, [stack(list(column)) for column in columns])


def _folded(fn: Any, elems: Any, initializer: Any, reverse: bool, every: bool = False) -> tuple[Any, Any]:
    """The last state of a fold; if it is a loop of a program, also all states, stacked."""
    leaves = [convert(e) for e in nest.flatten((elems, initializer)) if e is not None]
    if not is_traced(*leaves) or not callable(fn):
        last = _fold(fn, elems, initializer, reverse, typed=False)[-1]
        return nest.map_structure(loop_value, last), None
    tensors, _, count = rows_of(elems)
    first: list[Tensor] = []
    if initializer is None:
        start = nest.pack_sequence_as(elems, [array.getitem(t, index=(-1 if reverse else 0,)) for t in tensors])
        part = slice(0, count - 1) if reverse else slice(1, count)
        tensors = [array.getitem(t, index=(part,)) for t in tensors]
        count -= 1
        first = nest.flatten(start)
    else:
        start = nest.map_structure(convert, initializer)

    def step(carry: list[Tensor], row: list[Tensor]) -> Any:
        result = fn(nest.pack_sequence_as(start, carry), nest.pack_sequence_as(elems, row))
        nest.assert_same_structure(start, result, check_types=False)
        new = [
            v if isinstance(v, Tensor) else convert(v, c.dtype)
            for v, c in zip(nest.flatten(result), carry, strict=True)
        ]
        return new, new if every else []

    with traced_scope("scan"):
        last, stacked = staged_control_flow().scan(step, nest.flatten(start), tensors, count, reverse)
    if every and first:
        ends = [array.reshape(f, shape=(1, *f.array.shape)) for f in first]
        stacked = [concat([s, e] if reverse else [e, s], 0) for s, e in zip(stacked, ends, strict=True)]
    return nest.pack_sequence_as(start, last), stacked


def _fold(fn: Callable[[Any, Any], Any], elems: Any, initializer: Any, reverse: bool, typed: bool = True) -> list[Any]:
    """All states of a fold, including the first one (the initializer, or else the first row).

    A scan stacks them, so they are tensors of one dtype (`typed`); a fold keeps a plain initializer as it is.
    """
    if not callable(fn):
        raise TypeError(f"The provided function {fn} is not callable. fn must be callable.")
    _, rows, count = rows_of(elems)
    order = list(builtins.range(count))
    if reverse:
        order.reverse()
    if initializer is None:
        if not count:
            raise errors.OutOfRangeError(None, None, "Tried to read from index 0 but array size is: 0")
        state = nest.pack_sequence_as(elems, [r[order[0]] for r in rows])
        order = order[1:]
    else:
        state = nest.map_structure(convert, initializer) if typed else initializer
    states = [state]
    for i in iterations(order):
        result = fn(state, nest.pack_sequence_as(elems, [r[i] for r in rows]))
        nest.assert_same_structure(state, result, check_types=False)
        if not typed:
            state = result
            states = [state]
            continue
        new = []
        for value, old in zip(nest.flatten(result), nest.flatten(state), strict=True):
            tensor = value if isinstance(value, Tensor) else convert(value, old.dtype)
            if tensor.dtype != old.dtype:
                raise wrong_dtype(old.dtype, tensor.dtype)
            if tensor.array.shape != old.array.shape:
                raise ValueError(f"Incompatible shape for value ({tensor.shape}), expected ({old.shape})")
            new.append(tensor)
        state = nest.pack_sequence_as(state, new)
        states.append(state)
    return states
