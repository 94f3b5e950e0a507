"""Control flow: branches, loops, maps and folds over tensors.

Eagerly Python runs the functions, and tapes see the ops inside them. In a function that is being traced they become
branches and loops of the program (`graph/control_flow/`). `vectorized_map` runs its function once, for all rows.
"""

from __future__ import annotations

import builtins
import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod as _prod
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from gradtape._src import errors, nest
from gradtape._src.arrays.batched import Batched
from gradtape._src.arrays.dimensions import is_dimension
from gradtape._src.arrays.seeds import OpStreams, drawing_from, rows_drawn
from gradtape._src.arrays.symbolic import current_graph, graph_for_ops, is_known
from gradtape._src.autodiff.rows import next_level
from gradtape._src.conversion import convert, wrap
from gradtape._src.core.composites import is_composite
from gradtape._src.dtypes import DType, as_dtype
from gradtape._src.interrupts import contextmanager, is_interrupt, setting
from gradtape._src.ops import array, math, reduce
from gradtape._src.ops.sparse_tensor import (
    SparseTensor,
    SparseTensorSpec,
    stack as stack_sparse,
    unstack as unstack_sparse,
)
from gradtape._src.shape import TensorShape, TensorSpec
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import static, truth
from gradtape._src.tf.array import concat, stack, zeros
from gradtape._src.tf.debugging import Assert
from gradtape._src.tf.tensor_array import TensorArray, wrong_dtype
from gradtape._src.variable import Variable, traced_scope

if TYPE_CHECKING:
    from gradtape._src.typing import Leaf, Structure, TensorLike

R = TypeVar("R")
S = TypeVar("S")
L = TypeVar("L", bound="Leaf")


# -- branches --------------------------------------------------------------------------------------------------------
@overload
def cond(pred: Any, true_fn: Callable[[], R], false_fn: Callable[[], S], name: str | None = None) -> R | S: ...
@overload
def cond(
    pred: Any,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Any: ...
def cond(
    pred: Any,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Any:
    """The result of one of two functions.

    >>> x = tf.constant(3.0)
    >>> float(tf.cond(x > 0, lambda: x * 2, lambda: -x))
    6.0
    """
    for word, function in (("true_fn", true_fn), ("false_fn", false_fn)):
        if function is None:
            raise TypeError(f"cond(): '{word}' argument required")
        if not callable(function):
            raise TypeError(f"'{word}' must be callable.")
    wrong = current_graph() is not None and isinstance(pred, (Tensor, Variable)) and not pred.dtype.is_bool
    if wrong or _is_traced(pred):
        return _staged().cond(pred, true_fn, false_fn)
    chosen = true_fn if _holds(pred) else false_fn
    return chosen()  # type: ignore[misc]


def _holds(pred: Any) -> bool:
    """The truth of a condition: one value, of which there must be one."""
    if type(pred) is bool:
        return pred
    tensor = convert(pred)
    if _prod(tensor.array.shape) != 1:
        raise ValueError(
            f"The truth value of an array with more than one element is ambiguous: the condition of tf.cond must be "
            f"one value, but has shape {tensor.shape}."
        )
    return bool(tensor)


def _is_traced(*values: Any) -> bool:
    """Whether one of these has no value yet."""
    return current_graph() is not None and any(
        isinstance(v, (Tensor, Variable)) and not is_known(convert(v)) for v in values
    )


def _staged() -> Any:
    """Control flow of compiled programs; loaded when it is needed, because JAX comes with it."""
    from gradtape._src.graph import control_flow

    return control_flow


def _single(result: Any) -> Any:
    """A list or tuple of one thing counts as the thing, as in TensorFlow's eager `case` where there is a choice."""
    return result[0] if type(result) in (list, tuple) and len(result) == 1 else result


@overload
def case(
    pred_fn_pairs: Iterable[tuple[Any, Callable[[], list[Any]]]] | Mapping[Any, Callable[[], list[Any]]],
    default: Callable[[], list[Any]] | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any: ...
@overload
def case(
    pred_fn_pairs: Iterable[tuple[Any, Callable[[], R]]] | Mapping[Any, Callable[[], R]],
    default: Callable[[], R] | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> R: ...
def case(
    pred_fn_pairs: Any,
    default: Callable[[], Any] | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """The result of the first function whose condition is true.

    >>> x = tf.constant(3)
    >>> tf.case([(x < 2, lambda: "small"), (x < 5, lambda: "middle")], default=lambda: "large")
    'middle'
    """
    if isinstance(pred_fn_pairs, Mapping):
        if not exclusive and type(pred_fn_pairs).__name__ != "OrderedDict":
            raise ValueError(
                "Unordered dictionaries are not supported for the 'pred_fn_pairs' argument when `exclusive=False` and "
                "eager mode is enabled."
            )
        pairs = [(p.deref() if hasattr(p, "deref") else p, f) for p, f in pred_fn_pairs.items()]
    elif isinstance(pred_fn_pairs, (list, tuple)):
        pairs = list(pred_fn_pairs)
    else:
        raise TypeError(f"'pred_fn_pairs' must be a list, tuple, or dict. Received: {type(pred_fn_pairs)}")
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"Each entry in 'pred_fn_pairs' must be a 2-tuple. Received {pair}.")
        pred, function = pair
        if not isinstance(pred, (Tensor, Variable)):
            raise TypeError(f"pred must be a Tensor, got: {pred}")
        if not pred.dtype.is_bool:
            raise TypeError(f"pred must be Tensor of type bool: {pred}")
        if not callable(function):
            raise TypeError(f"fn for pred {pred} must be callable.")
    if default is not None and not callable(default):
        raise TypeError("default must be callable.")
    if not pairs:
        raise ValueError("'pred_fn_pairs' is empty. Give at least one pair of a condition and a function.")
    if exclusive:
        # As in TensorFlow, where the last function stands in for a default its condition is not looked at.
        checked = pairs if default is not None else pairs[:-1]
        if checked:
            _assert_exclusive(checked)
    if _is_traced(*[pred for pred, _ in pairs]):
        return _nested_conditions(pairs, default)
    chosen = next((function for pred, function in pairs if pred), default)
    if chosen is None:
        _assert_one(pairs)
        chosen = pairs[-1][1]  # in a program, which fails after it
    result = chosen()
    return _single(result) if not strict and (default is not None or len(pairs) > 1) else result


def _assert_one(pairs: list[Any]) -> None:
    """Without a default, a condition holds."""
    preds = [convert(pred) for pred, _ in pairs]
    holds = functools.reduce(math.logical_or, preds)
    Assert(holds, ["Input error: None of conditions evaluated as True:", stack(preds)], len(pairs))


def _assert_exclusive(pairs: list[Any]) -> None:
    """At most one condition holds."""
    preds = stack([convert(pred) for pred, _ in pairs])
    count = reduce.sum_(array.astype(preds, dtype=np.dtype(np.int32), source=preds.array.dtype), axis=(0,))
    names = ", ".join("?" for _ in pairs)
    text = f"Input error: exclusive=True: more than 1 conditions ({names}) evaluated as True:"
    Assert(math.less_equal(count, 1), [text, preds], len(pairs))


def _nested_conditions(pairs: list[Any], default: Callable[[], Any] | None, above: Sequence[Any] = ()) -> Any:
    """The first function whose condition holds, as conditions inside of each other."""
    (pred, function), *rest = pairs
    if not rest and default is None:  # nothing else is left
        _assert_one([*above, *pairs])
        return function()
    otherwise = default if not rest else lambda: _nested_conditions(rest, default, [*above, pairs[0]])
    return _staged().cond(pred, function, otherwise) if _is_traced(pred) else (function if pred else otherwise)()  # type: ignore[misc]


@overload
def switch_case(
    branch_index: Any,
    branch_fns: Iterable[Callable[[], list[Any]]]
    | Iterable[tuple[int, Callable[[], list[Any]]]]
    | Mapping[int, Callable[[], list[Any]]],
    default: Callable[[], list[Any]] | None = None,
    name: str = "switch_case",
) -> Any: ...
@overload
def switch_case(
    branch_index: Any,
    branch_fns: Iterable[Callable[[], R]] | Iterable[tuple[int, Callable[[], R]]] | Mapping[int, Callable[[], R]],
    default: Callable[[], R] | None = None,
    name: str = "switch_case",
) -> R: ...
def switch_case(branch_index: Any, branch_fns: Any, default: Any = None, name: str = "switch_case") -> Any:
    """The result of function number `branch_index`; of the default (or the last one) if there is no such number.

    >>> tf.switch_case(tf.constant(1), [lambda: "a", lambda: "b"])
    'b'
    """
    if not isinstance(branch_index, (Tensor, Variable)):
        raise TypeError(f"'branch_index' must be a Tensor, got {type(branch_index)}")
    if not branch_index.dtype.is_integer:
        raise TypeError(f"'branch_index' must be an integer Tensor, got {branch_index.dtype!r}")
    branches = _branches(branch_fns)
    if branch_index.shape.rank:
        raise errors.refused_value(f"branch_index must be one integer, got shape {branch_index.shape}", "Case")
    if default is not None and not callable(default) and not _is_traced(branch_index) and int(branch_index) in branches:
        default = None  # TensorFlow does not look at a default that is not needed
    if default is not None and not callable(default):
        raise TypeError("default must be callable.")
    last = default or branches[len(branches) - 1]
    if _is_traced(branch_index):
        functions = [*[branches[i] for i in builtins.range(len(branches))], last]
        number = convert(branch_index)
        outside = math.logical_or(number < 0, number >= len(branches))
        number = math.where(outside, wrap(np.asarray(len(branches), number.array.dtype)), number)
        with traced_scope("switch_case"), traced_scope("indexed_case"):
            return _staged().switch(number, functions, [f"branch {i}" for i in builtins.range(len(functions))])
    return branches.get(int(branch_index), last)()


def _branches(branch_fns: Any) -> dict[int, Callable[[], Any]]:
    """The functions of `switch_case` by their numbers, which are those from 0 on."""
    if not isinstance(branch_fns, (list, tuple, Mapping)) and (
        not isinstance(branch_fns, (np.ndarray, Tensor, Variable)) or not np.shape(static(branch_fns))
    ):
        raise TypeError(f"'branch_fns' must be a list, tuple, or dict. Received: {branch_fns!r}")
    if isinstance(branch_fns, (np.ndarray, Tensor, Variable)):
        raise ValueError(f"'branch_fns' must be a list, tuple, or dict. Received: {branch_fns!r}")
    if not branch_fns:
        raise ValueError("Must provide at least one item in 'branch_fns'")
    if isinstance(branch_fns, Mapping):
        branches = dict(branch_fns)
    elif all(callable(f) for f in branch_fns):
        branches = dict(enumerate(branch_fns))
    else:
        for pair in branch_fns:
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise TypeError(f"Each entry in 'branch_fns' must be a 2-tuple. Received {pair}.")
        branches = dict(branch_fns)
    keys = sorted(branches)
    if any(not isinstance(k, int) for k in keys):
        raise TypeError(f"key must be a Python `int`, got {next(type(k) for k in keys if not isinstance(k, int))}")
    if keys != list(builtins.range(len(keys))):
        raise ValueError(
            f"branch indices (keys) must form contiguous range of [0 to {len(keys)}) but found "
            f"{{{','.join(map(str, keys))}}}"
        )
    for key, function in branches.items():
        if not callable(function):
            raise TypeError(f"fn for key {key} must be callable.")
    return branches


# -- the loop --------------------------------------------------------------------------------------------------------
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
    state = nest.map_structure(_loop_value, list(given))
    if current_graph() is not None:
        _learn_element_shapes(body, state)
        declared = None if shape_invariants is None else [shape_invariants] if alone else shape_invariants
        result = _staged().while_loop(cond, body, state, limit, _invariants(state, declared))
        return result[0] if alone else nest.pack_sequence_as(given, nest.flatten(result))
    iterations, most = 0, None if limit is None else int(limit)
    while (most is None or iterations < most) and (holds := cond(*state)):
        result = body(*state)
        if not alone and isinstance(result, Tensor) and isinstance(holds, Tensor) and not holds.dtype.is_bool:
            raise TypeError(  # TensorFlow refuses the result; with such a condition it may well be the last
                f"Cannot iterate over a scalar tensor. `body` returned one tensor where `loop_vars` is a sequence, and "
                f"`cond` a {holds.dtype.name} where a bool is expected."
            )
        if not isinstance(result, (list, tuple)) or (len(given) == 1 and nest.is_nested(given[0]) and len(result) != 1):
            result = [result]
        nest.assert_same_structure(state, list(result))
        state = nest.map_structure(_loop_value, list(result))
        iterations += 1
    return state[0] if alone else nest.pack_sequence_as(given, nest.flatten(state))


def _invariants(state: Sequence[Any], declared: Any) -> list[Any]:
    """For each tensor of a loop's variables the shape that was declared, None if there is none."""
    values = nest.flatten(list(state))
    shapes = [None] * len(values) if declared is None else nest.flatten(list(declared))
    found: list[Any] = []
    for value, shape in zip(values, shapes, strict=True):
        parts = nest.flatten(value, True)
        if isinstance(value, TensorArray) or is_composite(value):
            found += value.invariants() if isinstance(value, TensorArray) else [TensorShape(None)] * len(parts)
        elif nest.is_composite(value):  # of a library: shapes stay as they are
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
            f"Expected int32, but got {maximum_iterations} of type '{kind}'. Give 'maximum_iterations' as an int."
        )
    try:
        limit = np.asarray(static(maximum_iterations))
    except ValueError:
        limit = np.zeros(2)
    if limit.ndim or limit.dtype.kind not in "iufb" or limit != limit:
        raise ValueError(f"'maximum_iterations' must be a scalar number. Received: {maximum_iterations!r}")
    return limit.astype(np.int32) if limit.dtype.kind == "f" else limit


def _learn_element_shapes(body: Callable[..., Any], state: list[Any]) -> None:
    """An empty TensorArray gets the shape of its elements from an abstract evaluation of the body."""
    empty = [v for v in nest.flatten(state) if isinstance(v, TensorArray) and not v.element_shape.is_fully_defined()]
    if not empty:
        return
    known = nest.map_structure(lambda v: v.identity() if isinstance(v, TensorArray) else v, state)
    after = nest.flatten(_staged().abstract_eval(body, known))
    for before, array_after in zip(nest.flatten(state), after, strict=False):
        if isinstance(before, TensorArray) and isinstance(array_after, TensorArray):
            before._element_shape = before.element_shape.merge_with(array_after.element_shape)
            before._rank = array_after._rank


def _loop_value(value: Any) -> Any:
    """What goes round in a loop: tensors, and what knows how to be carried by itself."""
    return value if value is None or nest.is_composite(value) else convert(value)


def _check_invariants(values: Any, shapes: Any) -> None:
    """Shapes that the loop's variables promise to keep: at least the first values must fit."""
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


# -- one function, many rows -----------------------------------------------------------------------------------------
def _rows(elems: Any) -> tuple[list[Tensor], list[list[Tensor]], int]:
    """The tensors of a structure, the rows of each, and how many rows there are."""
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


Item = TypeVar("Item")


def _turns(items: Iterable[Item]) -> Iterator[Item]:
    """The items, for a loop that is written out: in each iteration its random ops are the same, and read on."""
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
    tensors, rows, count = _rows(elems)
    template = elems if signature is None else signature
    if _is_traced(*tensors) and count:
        return _mapped(fn, elems, tensors, template, signature)
    specs = [(t.dtype, None) for t in tensors] if signature is None else [_spec(s) for s in nest.flatten(signature)]
    if not count and current_graph() is not None:
        specs = _inferred(fn, elems, tensors, specs)
    columns: list[list[Tensor]] = [[] for _ in specs]
    for i in _turns(builtins.range(count)):
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
    """Specifications with the shapes that the function returns, which a trace infers without an element."""
    element = [wrap(np.zeros(tuple(t.array.shape[1:]), t.array.dtype)) for t in tensors]
    result = _staged().abstract_eval(lambda *leaves: fn(nest.pack_sequence_as(elems, list(leaves))), element)
    found = [tuple(convert(leaf).array.shape) for leaf in nest.flatten(result)]
    return [(kind, shape if shape is not None else inner) for (kind, shape), inner in zip(specs, found, strict=True)]


def _mapped_composites(fn: Callable[[Any], Any], elems: Any, signature: Any) -> Any:
    """`map_fn` where sparse or ragged tensors go in or come out: row by row."""
    leaves = [leaf if is_composite(leaf) else convert(leaf) for leaf in nest.flatten(elems)]
    columns = [_listed(leaf) for leaf in leaves]
    for column in columns[1:]:
        if len(column) != len(columns[0]):
            raise ValueError(f"Dimensions {len(columns[0])} and {len(column)} are not compatible")
    template = elems if signature is None else signature
    wanted = leaves if signature is None else nest.flatten(signature)
    results = []
    for row in _turns(zip(*columns, strict=True)):
        result = fn(nest.pack_sequence_as(elems, list(row)))
        nest.assert_same_structure(template, result, check_types=signature is not None)
        results.append(nest.flatten(result))
    made = [_stacked(i, like, [result[i] for result in results]) for i, like in enumerate(wanted)]
    return nest.pack_sequence_as(template, made)


def _listed(leaf: Any) -> list[Any]:
    """The rows of a tensor, or of a composite one."""
    if hasattr(leaf, "_rows_in_dataset"):
        rows: list[Any] = leaf._rows_in_dataset()
        return rows
    return unstack_sparse(leaf) if isinstance(leaf, SparseTensor) else list(leaf)


def _stacked(component: int, like: Any, rows: list[Any]) -> Any:
    """What the function returned for each row, as one tensor of the kind that `like` is or describes."""
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
        raise ValueError("map_fn over no rows cannot tell the shape of a sparse result.")
    return stack_sparse(rows)


def _stacked_ragged(component: int, like: Any, rows: list[Any]) -> Any:
    """Tensors and ragged tensors, one for each row, as one ragged tensor."""
    from gradtape._src.tf import ragged

    depth = like.ragged_rank + (0 if is_composite(like) else 1)  # a specification describes one row
    for row in rows:
        if getattr(row, "dtype", None) != like.dtype:
            raise ValueError(
                f"Error in map_fn:\n  Expected `fn` to return a:\n    {like}\n  But it returned a:\n    {row}\n"
                f"  (component {component})"
            )
    return ragged.stack(rows) if rows else ragged.constant([], like.dtype, depth)


def _mapped(fn: Callable[[Any], Any], elems: Any, tensors: list[Tensor], template: Any, signature: Any) -> Any:
    """`map_fn` as a loop of the program."""
    kinds = [t.dtype for t in tensors] if signature is None else [_spec(s)[0] for s in nest.flatten(signature)]

    def step(carry: list[Tensor], row: list[Tensor]) -> Any:
        result = fn(nest.pack_sequence_as(elems, row))
        nest.assert_same_structure(template, result, check_types=signature is not None)
        return [], [_element(v, kind, []) for v, kind in zip(nest.flatten(result), kinds, strict=True)]

    with traced_scope("map"):
        _, stacked = _staged().scan(step, [], tensors, tensors[0].array.shape[0])
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
def vectorized_map(fn: Callable[[Any], R], elems: Any, fallback_to_while_loop: bool = True, warn: bool = True) -> R: ...
def vectorized_map(
    fn: Callable[[Any], Any], elems: TensorLike, fallback_to_while_loop: bool = True, warn: bool = True
) -> Any:
    """Apply `fn` to every row and stack the results, with one call of `fn` on a batch of all rows.

    A function that looks at the values of its argument (`if row[0] > 0`, `.numpy()`) is called row by row instead.

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
            raise ValueError(f"elems have {t.array.shape[0]} and {count} rows: they should have equally many.")
    # What has a single row is the same for all.
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
    # Row by row the function's own mistakes show up as what they are, whatever went wrong on the batch.
    result = _row_by_row(fn, elems, tensors, count)
    if warn:
        import logging

        logging.getLogger("tensorflow").info("vectorized_map called %s row by row: %s", fn, reason)
    return result


@contextmanager
def _rows_drawing(level: int, count: int) -> Iterator[None]:
    """Within the block random ops draw for all rows, and are those of a function of its own, as in TensorFlow."""
    graph = current_graph()
    own = drawing_from(OpStreams()) if graph is None else graph.numbering_ops()
    with own, setting(rows_drawn, (*rows_drawn.get(), (level, count))):
        yield


def _unwrapped(leaf: Any, level: int, count: int) -> Any:
    """A result of a batched call as a tensor with one row for each element."""
    if leaf is None:
        return None
    tensor = convert(leaf)
    value = tensor.array
    if type(value) is Batched and value.level == level:
        return convert(value.rows())
    return array.broadcast_to(tensor, shape=(count, *value.shape))


def _row_by_row(fn: Callable[[Any], Any], elems: Any, tensors: list[Tensor], count: int) -> Any:
    rows = [list(array.unstack(t, axis=0)) * (count if t.array.shape[0] == 1 else 1) if count else [] for t in tensors]
    results = [fn(nest.pack_sequence_as(elems, [r[i] for r in rows])) for i in _turns(builtins.range(count))]
    if not results:
        raise ValueError("vectorized_map has no rows to learn the shape of the result from.")
    columns = zip(*(nest.flatten(r) for r in results), strict=True)
    return nest.pack_sequence_as(
        results[0], [None if column[0] is None else stack([convert(c) for c in column]) for column in columns]
    )


# -- folds and scans -------------------------------------------------------------------------------------------------
@overload
def foldl(
    fn: Callable[[Tensor, Tensor], Any],
    elems: Leaf,
    initializer: Leaf | None = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Tensor: ...
@overload
def foldl(
    fn: Callable[[Any, Any], Any],
    elems: Structure,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any: ...
@overload
def foldl(
    fn: Callable[[Any, Any], Any],
    elems: Leaf,
    initializer: Structure,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any: ...
def foldl(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """`fn(accumulated, row)` over the rows from the first to the last; the last result.

    >>> int(tf.foldl(lambda a, x: 2 * a + x, tf.constant([1, 2, 3])))
    11
    """
    return _folded(fn, elems, initializer, False)[0]


@overload
def foldr(
    fn: Callable[[Tensor, Tensor], Any],
    elems: Leaf,
    initializer: Leaf | None = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Tensor: ...
@overload
def foldr(
    fn: Callable[[Any, Any], Any],
    elems: Structure,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any: ...
@overload
def foldr(
    fn: Callable[[Any, Any], Any],
    elems: Leaf,
    initializer: Structure,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any: ...
def foldr(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """`fn(accumulated, row)` over the rows from the last to the first; the last result.

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
    fn: Callable[[Any, Any], Any],
    elems: Structure,
    initializer: Any = None,
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
    elems: Leaf,
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
    """Like `foldl` (in reverse, `foldr`), but stacks all intermediate results.

    >>> tf.scan(lambda a, x: a + x, tf.constant([1, 2, 3])).numpy().tolist()
    [1, 3, 6]
    """
    template, reverse = elems if initializer is None else initializer, truth(reverse)
    if _is_traced(*[convert(e) for e in nest.flatten((elems, initializer)) if e is not None]):
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
    """The last state of a fold and, of one that is a loop of a program, all of them stacked."""
    leaves = [convert(e) for e in nest.flatten((elems, initializer)) if e is not None]
    if not _is_traced(*leaves) or not callable(fn):
        last = _fold(fn, elems, initializer, reverse, typed=False)[-1]
        return nest.map_structure(_loop_value, last), None
    tensors, _, count = _rows(elems)
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
        last, stacked = _staged().scan(step, nest.flatten(start), tensors, count, reverse)
    if every and first:
        ends = [array.reshape(f, shape=(1, *f.array.shape)) for f in first]
        stacked = [concat([s, e] if reverse else [e, s], 0) for s, e in zip(stacked, ends, strict=True)]
    return nest.pack_sequence_as(start, last), stacked


def _fold(fn: Callable[[Any, Any], Any], elems: Any, initializer: Any, reverse: bool, typed: bool = True) -> list[Any]:
    """All states of a fold, the first one (the initializer, or else the first row) included.

    A scan stacks them, so they are tensors of one dtype (`typed`); a fold leaves a plain initializer as it is.
    """
    if not callable(fn):
        raise TypeError(f"The provided function {fn} is not callable. fn must be callable.")
    _, rows, count = _rows(elems)
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
    for i in _turns(order):
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


# -- order and grouping: eager ops have run by the time these see them -----------------------------------------------
def no_op(name: str | None = None) -> Any:
    """Nothing; in a graph of TensorFlow 1, an operation that does nothing.

    >>> tf.no_op()
    """
    graph = graph_for_ops()
    return None if graph is None else graph.add_grouping((), name or "NoOp")


def group(*inputs: Any, **kwargs: Any) -> Any:
    """Group ops; eager ops have already run. In a graph of TensorFlow 1, an operation that runs them.

    >>> v = tf.Variable(1.0)
    >>> tf.group(v.assign_add(1.0), v.assign_add(2.0))
    >>> v.numpy()
    np.float32(4.0)
    """
    name = kwargs.pop("name", None)
    if kwargs:
        raise ValueError(f"Unknown keyword arguments: {', '.join(kwargs)}")
    graph = graph_for_ops()
    return None if graph is None else graph.group(inputs, name)


def tuple_(tensors: TensorLike, control_inputs: Any = None, name: str | None = None) -> Any:
    """The tensors; eager ones are already computed.

    >>> [t.numpy().item() for t in tf.tuple([tf.constant(1), tf.constant(2)])]
    [1, 2]
    """
    return tensors


tuple_.__name__ = tuple_.__qualname__ = "tuple"


def timestamp(name: str | None = None) -> Tensor:
    """Seconds since the epoch, as a float64: in a function, when the program comes to it.

    >>> float(tf.timestamp()) > 1.7e9
    True
    """
    if current_graph() is None:
        return wrap(np.asarray(time.time()))
    from gradtape._src.graph.host_calls import function_on_host

    seconds: Tensor = function_on_host(timestamp, [], [TensorSpec([], "float64")], differentiable=False, pure=True)[0]
    return seconds
