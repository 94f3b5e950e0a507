"""`tf.cond`, `tf.case` and `tf.switch_case`."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod as _prod
from typing import Any, TypeVar, overload

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.symbolic import current_graph
from gradtape._src.conversion import convert, wrap
from gradtape._src.ops import array, math, reduce
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import static
from gradtape._src.tf.array import stack
from gradtape._src.tf.control_flow.tracing import is_traced, staged_control_flow
from gradtape._src.tf.debugging import Assert
from gradtape._src.variable import Variable, traced_scope

R = TypeVar("R")
S = TypeVar("S")


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
    """Return the result of one of two functions.

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
    if wrong or is_traced(pred):
        return staged_control_flow().cond(pred, true_fn, false_fn)
    chosen = true_fn if _holds(pred) else false_fn
    return chosen()  # type: ignore[misc]


def _holds(pred: Any) -> bool:
    """The truth value of a condition, which must be a scalar."""
    if type(pred) is bool:
        return pred
    tensor = convert(pred)
    if _prod(tensor.array.shape) != 1:
        raise ValueError(
            f"The truth value of an array with more than one element is ambiguous: the condition of tf.cond must be "
            f"one value, but has shape {tensor.shape}."
        )
    return bool(tensor)


def _single(result: Any) -> Any:
    """Unwrap a list or tuple with one element, as in TensorFlow's eager `case` if there is a choice."""
    return result[0] if type(result) in (list, tuple) and len(result) == 1 else result


@overload
def case(
    pred_fn_pairs: Iterable[tuple[Any, Callable[[], list[S]]]] | Mapping[Any, Callable[[], list[S]]],
    default: Callable[[], list[S]] | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> list[S] | Any: ...  # a list of one may be returned as its element
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
    """Return the result of the first function whose condition is true.

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
        raise ValueError("'pred_fn_pairs' is empty. Pass at least one pair of a condition and a function.")
    if exclusive:
        # As in TensorFlow: if the last function replaces the default, its condition is not evaluated.
        checked = pairs if default is not None else pairs[:-1]
        if checked:
            _assert_exclusive(checked)
    if is_traced(*[pred for pred, _ in pairs]):
        return _nested_conditions(pairs, default)
    chosen = next((function for pred, function in pairs if pred), default)
    if chosen is None:
        _assert_one(pairs)
        chosen = pairs[-1][1]  # in a program, which fails after it
    result = chosen()
    return _single(result) if not strict and (default is not None or len(pairs) > 1) else result


def _assert_one(pairs: list[Any]) -> None:
    """Assert that a condition is true if there is no default."""
    preds = [convert(pred) for pred, _ in pairs]
    holds = functools.reduce(math.logical_or, preds)
    Assert(holds, ["Input error: None of conditions evaluated as True:", stack(preds)], len(pairs))


def _assert_exclusive(pairs: list[Any]) -> None:
    """Assert that at most one condition is true."""
    preds = stack([convert(pred) for pred, _ in pairs])
    count = reduce.sum_(array.astype(preds, dtype=np.dtype(np.int32), source=preds.array.dtype), axis=(0,))
    names = ", ".join("?" for _ in pairs)
    text = f"Input error: exclusive=True: more than 1 conditions ({names}) evaluated as True:"
    Assert(math.less_equal(count, 1), [text, preds], len(pairs))


def _nested_conditions(pairs: list[Any], default: Callable[[], Any] | None, above: Sequence[Any] = ()) -> Any:
    """The first function whose condition is true, as nested conditions."""
    (pred, function), *rest = pairs
    if not rest and default is None:  # it is the only one left
        _assert_one([*above, *pairs])
        return function()
    otherwise = default if not rest else lambda: _nested_conditions(rest, default, [*above, pairs[0]])
    if is_traced(pred):
        return staged_control_flow().cond(pred, function, otherwise)
    return (function if pred else otherwise)()  # type: ignore[misc]


def switch_case(
    branch_index: Any,
    branch_fns: Iterable[Callable[[], R]] | Iterable[tuple[int, Callable[[], R]]] | Mapping[int, Callable[[], R]],
    default: Callable[[], R] | None = None,
    name: str = "switch_case",
) -> R:
    """Return the result of function number `branch_index`, or of the default (or last) one if there is no such number.

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
    otherwise: Any = default
    if otherwise is not None and not callable(otherwise):
        if is_traced(branch_index) or int(branch_index) not in branches:
            raise TypeError("default must be callable.")
        otherwise = None  # TensorFlow does not validate an unneeded default
    last: Callable[[], R] = otherwise or branches[len(branches) - 1]
    if is_traced(branch_index):
        functions = [*[branches[i] for i in builtins.range(len(branches))], last]
        number = convert(branch_index)
        outside = math.logical_or(number < 0, number >= len(branches))
        number = math.where(outside, wrap(np.asarray(len(branches), number.array.dtype)), number)
        with traced_scope("switch_case"), traced_scope("indexed_case"):
            names = [f"branch {i}" for i in builtins.range(len(functions))]
            result: R = staged_control_flow().switch(number, functions, names)
            return result
    return branches.get(int(branch_index), last)()


def _branches(branch_fns: Any) -> dict[int, Callable[[], Any]]:
    """The functions of `switch_case` by number, which must be 0, 1, …"""
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
