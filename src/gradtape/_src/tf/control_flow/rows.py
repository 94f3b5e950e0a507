"""`tf.map_fn` and `tf.vectorized_map`: one function, many rows."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from gradtape._src import nest
from gradtape._src.arrays.batched import Batched
from gradtape._src.arrays.dimensions import is_dimension
from gradtape._src.arrays.seeds import OpStreams, drawing_from, rows_drawn
from gradtape._src.arrays.symbolic import current_graph
from gradtape._src.autodiff.rows import next_level
from gradtape._src.conversion import convert, wrap
from gradtape._src.core.composites import is_composite
from gradtape._src.dtypes import DType, as_dtype
from gradtape._src.interrupts import contextmanager, is_interrupt, setting
from gradtape._src.ops import array
from gradtape._src.ops.sparse_tensor import (
    SparseTensor,
    SparseTensorSpec,
    stack as stack_sparse,
    unstack as unstack_sparse,
)
from gradtape._src.shape import TensorSpec
from gradtape._src.tensor import Tensor
from gradtape._src.tf.array import stack, zeros
from gradtape._src.tf.control_flow.tracing import is_traced, staged_control_flow
from gradtape._src.tf.tensor_array import wrong_dtype
from gradtape._src.variable import Variable, traced_scope

if TYPE_CHECKING:
    from gradtape._src.typing import Leaf, TensorLike

R = TypeVar("R")
L = TypeVar("L", bound="Leaf")
Item = TypeVar("Item")


def rows_of(elems: Any) -> tuple[list[Tensor], list[list[Tensor]], int]:
    """The tensors of a structure, their rows, and the number of rows."""
    tensors = [convert(e) for e in nest.flatten(elems)]
    if not tensors:
        raise ValueError(
            f"elems must be a Tensor or (possibly nested) sequence of Tensors. Got {elems}, which does not contain any "
            "Tensors."
        )
    for t in tensors:
        if not t.array.shape:
            raise ValueError("Elements in elems must be 1+ dimensional Tensors, not scalars")
    count = tensors[0].array.shape[0]
    for t in tensors[1:]:
        if t.array.shape[0] != count:
            raise ValueError(f"Dimensions {count} and {t.array.shape[0]} are not compatible")
    apart = count and not is_dimension(count)
    return tensors, [list(array.unstack(t, axis=0)) if apart else [] for t in tensors], count


def iterations(items: Iterable[Item]) -> Iterator[Item]:
    """Iterate over items in an unrolled loop, in which all iterations share random ops and their streams."""
    graph = current_graph()
    if graph is None:
        yield from items
        return
    with graph.repeating_ops() as ops:
        for item in items:
            ops.next = 0
            yield item


@overload
def map_fn(
    fn: Callable[[Tensor], L],
    elems: Leaf,
    dtype: Any = None,
    parallel_iterations: Any = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Any = None,
) -> Tensor: ...
@overload
def map_fn(
    fn: Callable[[Tensor], R],
    elems: Leaf,
    dtype: Any = None,
    parallel_iterations: Any = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Any = None,
) -> R: ...
@overload
def map_fn(
    fn: Callable[[tuple[Tensor, ...]], R],
    elems: tuple[Leaf, ...],
    dtype: Any = None,
    parallel_iterations: Any = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Any = None,
) -> R: ...
@overload
def map_fn(
    fn: Callable[[Any], R],
    elems: Any,
    dtype: Any = None,
    parallel_iterations: Any = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Any = None,
) -> R: ...
def map_fn(
    fn: Callable[[Any], Any],
    elems: TensorLike | SparseTensor,
    dtype: Any = None,
    parallel_iterations: Any = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Any = None,
) -> Any:
    """Apply `fn` to every row and stack the results. `vectorized_map` does the same in one call if it can.

    >>> tf.map_fn(lambda r: r[0] * r[1], tf.constant([[1, 2], [3, 4]])).numpy().tolist()
    [2, 12]
    """
    if not callable(fn):
        raise TypeError(f"The provided function {fn} is not callable. fn must be callable.")
    signature = dtype if fn_output_signature is None else fn_output_signature
    if any(is_composite(leaf) or hasattr(leaf, "value_type") for leaf in nest.flatten((elems, signature))):
        return _mapped_composites(fn, elems, signature)
    tensors, rows, count = rows_of(elems)
    template = elems if signature is None else signature
    if is_traced(*tensors) and count:
        return _mapped(fn, elems, tensors, template, signature)
    specs = [(t.dtype, None) for t in tensors] if signature is None else [_spec(s) for s in nest.flatten(signature)]
    if not count and current_graph() is not None:
        specs = _inferred(fn, elems, tensors, specs)
    columns: list[list[Tensor]] = [[] for _ in specs]
    for i in iterations(builtins.range(count)):
        result = fn(nest.pack_sequence_as(elems, [r[i] for r in rows]))
        nest.assert_same_structure(template, result, check_types=signature is not None)
        for column, (kind, _), value in zip(columns, specs, nest.flatten(result), strict=True):
            column.append(_element(value, kind, column))
    stacked = [
        stack(column) if column else zeros((0, *(shape or ())), kind)
        for column, (kind, shape) in zip(columns, specs, strict=True)
    ]
    return nest.pack_sequence_as(template, stacked)


def _inferred(fn: Callable[[Any], Any], elems: Any, tensors: list[Tensor], specs: list[Any]) -> list[Any]:
    """Specifications with the shapes of the function's results, inferred by a trace without an element."""
    element = [wrap(np.zeros(tuple(t.array.shape[1:]), t.array.dtype)) for t in tensors]
    result = staged_control_flow().abstract_eval(
        lambda *leaves: fn(nest.pack_sequence_as(elems, list(leaves))), element
    )
    found = [tuple(convert(leaf).array.shape) for leaf in nest.flatten(result)]
    return [(kind, shape if shape is not None else inner) for (kind, shape), inner in zip(specs, found, strict=True)]


def _mapped_composites(fn: Callable[[Any], Any], elems: Any, signature: Any) -> Any:
    """`map_fn` with sparse or ragged tensors as arguments or results: row by row."""
    leaves = [leaf if is_composite(leaf) else convert(leaf) for leaf in nest.flatten(elems)]
    columns = [_listed(leaf) for leaf in leaves]
    for column in columns[1:]:
        if len(column) != len(columns[0]):
            raise ValueError(f"Dimensions {len(columns[0])} and {len(column)} are not compatible")
    template = elems if signature is None else signature
    wanted = leaves if signature is None else nest.flatten(signature)
    results = []
    for row in iterations(zip(*columns, strict=True)):
        result = fn(nest.pack_sequence_as(elems, list(row)))
        nest.assert_same_structure(template, result, check_types=signature is not None)
        results.append(nest.flatten(result))
    made = [_stacked(i, like, [result[i] for result in results]) for i, like in enumerate(wanted)]
    return nest.pack_sequence_as(template, made)


def _listed(leaf: Any) -> list[Any]:
    """The rows of a tensor, or of a composite tensor."""
    if hasattr(leaf, "_rows_in_dataset"):
        rows: list[Any] = leaf._rows_in_dataset()
        return rows
    return unstack_sparse(leaf) if isinstance(leaf, SparseTensor) else list(leaf)


def _stacked(component: int, like: Any, rows: list[Any]) -> Any:
    """Stack the results for all rows in one tensor, of the type that `like` has or specifies."""
    if rows and hasattr(rows[0], "_joined_in_dataset"):
        return type(rows[0])._joined_in_dataset(rows)
    if hasattr(like, "ragged_rank"):
        return _stacked_ragged(component, like, rows)
    if not isinstance(like, (SparseTensor, SparseTensorSpec)):
        kind = like.dtype if isinstance(like, Tensor) else _spec(like)[0]
        tensors: list[Tensor] = []
        for row in rows:
            tensors.append(_element(row, kind, tensors))
        return stack(tensors)
    for row in rows:
        if not isinstance(row, SparseTensor) or row.dtype != like.dtype:
            expected = SparseTensorSpec(None, like.dtype) if isinstance(like, SparseTensor) else like
            raise ValueError(
                f"Error in map_fn:\n  Expected `fn` to return a:\n    {expected}\n  But it returned a:\n    {row}\n"
                f"  (component {component})"
            )
    if not rows:
        raise ValueError("map_fn over zero rows cannot determine the shape of a sparse result.")
    return stack_sparse(rows)


def _stacked_ragged(component: int, like: Any, rows: list[Any]) -> Any:
    """Stack tensors and ragged tensors, one for each row, in a ragged tensor."""
    from gradtape._src.tf import ragged

    depth = like.ragged_rank + (0 if is_composite(like) else 1)  # a specification describes one row
    for row in rows:
        if getattr(row, "dtype", None) != like.dtype:
            raise ValueError(
                f"Error in map_fn:\n  Expected `fn` to return a:\n    {like}\n  But it returned a:\n    {row}\n"
                f"  (component {component})"
            )
    if not rows:
        return ragged.constant([], like.dtype, depth)
    dtype = like.row_splits.dtype if is_composite(like) else like.row_splits_dtype
    return ragged.stack(rows).with_row_splits_dtype(dtype)


def _mapped(fn: Callable[[Any], Any], elems: Any, tensors: list[Tensor], template: Any, signature: Any) -> Any:
    """`map_fn` as a loop of the program."""
    kinds = [t.dtype for t in tensors] if signature is None else [_spec(s)[0] for s in nest.flatten(signature)]

    def step(carry: list[Tensor], row: list[Tensor]) -> Any:
        result = fn(nest.pack_sequence_as(elems, row))
        nest.assert_same_structure(template, result, check_types=signature is not None)
        return [], [_element(v, kind, []) for v, kind in zip(nest.flatten(result), kinds, strict=True)]

    with traced_scope("map"):
        _, stacked = staged_control_flow().scan(step, [], tensors, tensors[0].array.shape[0])
    return nest.pack_sequence_as(template, stacked)


def _spec(entry: Any) -> tuple[DType, Any]:
    """The dtype, and the shape if known, of an entry of fn_output_signature."""
    if isinstance(entry, TensorSpec):
        return entry.dtype, tuple(entry.shape.as_list()) if entry.shape.is_fully_defined() else None
    return as_dtype(entry), None


def _element(value: Any, kind: DType, before: list[Tensor]) -> Tensor:
    tensor = value if isinstance(value, Tensor) else convert(value, None if isinstance(value, Variable) else kind)
    if tensor.dtype != kind:
        raise wrong_dtype(kind, tensor.dtype)
    if before and before[0].array.shape != tensor.array.shape:
        raise ValueError(f"Incompatible shape for value ({tensor.shape}), expected ({before[0].shape})")
    return tensor


@overload
def vectorized_map(
    fn: Callable[[Tensor], L], elems: Leaf, fallback_to_while_loop: bool = True, warn: bool = True
) -> Tensor: ...
@overload
def vectorized_map(
    fn: Callable[[Tensor], R], elems: Leaf, fallback_to_while_loop: bool = True, warn: bool = True
) -> R: ...
@overload
def vectorized_map(
    fn: Callable[[tuple[Tensor, ...]], R],
    elems: tuple[Leaf, ...],
    fallback_to_while_loop: bool = True,
    warn: bool = True,
) -> R: ...
@overload
def vectorized_map(fn: Callable[[Any], R], elems: Any, fallback_to_while_loop: bool = True, warn: bool = True) -> R: ...
def vectorized_map(
    fn: Callable[[Any], Any], elems: TensorLike, fallback_to_while_loop: bool = True, warn: bool = True
) -> Any:
    """Apply `fn` to every row and stack the results, with one call of `fn` on a batch of all rows.

    A function that reads the values of its argument (`if row[0] > 0`, `.numpy()`) is called row by row instead.

    >>> tf.vectorized_map(lambda r: r * r, tf.constant([1.0, 2.0, 3.0])).numpy().tolist()
    [1.0, 4.0, 9.0]
    """
    if not callable(fn):
        raise TypeError(f"'{type(fn).__name__}' object is not callable: vectorized_map needs a function.")
    tensors = [convert(e) for e in nest.flatten(elems)]
    if not tensors or any(not t.array.shape for t in tensors):
        raise ValueError("vectorized_map needs elems with at least one axis: the rows to map over.")
    count = builtins.max(t.array.shape[0] for t in tensors) if all(t.array.shape[0] for t in tensors) else 0
    for t in tensors:
        if t.array.shape[0] not in (1, count):
            raise ValueError(f"elems have {t.array.shape[0]} and {count} rows, but must have the same number.")
    # A single row is the result for all.
    level = next_level()
    shells = [wrap(Batched(t, level)) if t.array.shape[0] == count else array.getitem(t, index=(0,)) for t in tensors]
    try:
        with _rows_drawing(level, count):
            result = fn(nest.pack_sequence_as(elems, shells))
        return nest.map_structure(lambda leaf: _unwrapped(leaf, level, count), result)
    except Exception as error:
        if is_interrupt(error):
            raise
        if not fallback_to_while_loop:
            raise ValueError(
                f"vectorized_map could not run {fn} on a batch of all rows ({error}), and fallback_to_while_loop=False."
            ) from error
        reason = error
    # Row by row, the function raises its own errors, whatever went wrong with the batch.
    result = _row_by_row(fn, elems, tensors, count)
    if warn:
        import logging

        logging.getLogger("tensorflow").info("vectorized_map called %s row by row: %s", fn, reason)
    return result


@contextmanager
def _rows_drawing(level: int, count: int) -> Iterator[None]:
    """Context in which random ops draw for all rows, as ops of a separate function, like in TensorFlow."""
    graph = current_graph()
    own = drawing_from(OpStreams()) if graph is None else graph.numbering_ops()
    with own, setting(rows_drawn, (*rows_drawn.get(), (level, count))):
        yield


def _unwrapped(leaf: Any, level: int, count: int) -> Any:
    """The result of a batched call as a tensor with one row for each element."""
    if leaf is None:
        return None
    tensor = convert(leaf)
    value = tensor.array
    if type(value) is Batched and value.level == level:
        return convert(value.rows())
    return array.broadcast_to(tensor, shape=(count, *value.shape))


def _row_by_row(fn: Callable[[Any], Any], elems: Any, tensors: list[Tensor], count: int) -> Any:
    rows = [list(array.unstack(t, axis=0)) * (count if t.array.shape[0] == 1 else 1) if count else [] for t in tensors]
    results = [fn(nest.pack_sequence_as(elems, [r[i] for r in rows])) for i in iterations(builtins.range(count))]
    if not results:
        raise ValueError("vectorized_map has no rows from which to determine the shape of the result.")
    columns = zip(*(nest.flatten(r) for r in results), strict=True)
    return nest.pack_sequence_as(
        results[0], [None if column[0] is None else stack([convert(c) for c in column]) for column in columns]
    )
