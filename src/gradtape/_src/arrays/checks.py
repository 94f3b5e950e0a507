"""Checks of values: indices in range, divisors other than zero, labels that are classes.

Eager code runs a check immediately. While a function is traced there are no values yet: the check becomes a node of the
graph, and the compiled program also returns the number of the first check that failed. The caller then raises the
error, for which another program computes the offending values (graph/checks.py).

The node returns the value that it checks, for the ops that use it: if there are none, the check is dropped, as
TensorFlow does not run ops that nothing needs. If a check fails on constants while a function is traced, it is left to
the program as well: TensorFlow raises such errors when the op runs, which it may never do.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.base import generic_kernels
from gradtape._src.arrays.batched import Batched
from gradtape._src.arrays.dimensions import is_dimension
from gradtape._src.arrays.symbolic import Symbolic, current_graph
from gradtape._src.arrays.value_text import summary
from gradtape._src.conversion import wrap
from gradtape._src.devices import is_jax_array
from gradtape._src.tensor import Tensor

Interval = tuple[int, int]
"""The smallest and the largest possible value of integers in a program."""

numbers = itertools.count(1)
"""The numbers of the checks of all programs."""


class Rule(NamedTuple):
    """A check and its error.

    fails       `fails(xp, *arrays, **params)`: true for values that fail; `xp` is `numpy` or `jax.numpy`
    error       `error(*arrays, **params)`: TensorFlow's error for NumPy arrays that fail
    proved      `proved(*intervals, **params)`: whether intervals of the values prove that it holds
    always      an assertion: it is made even if nothing uses the value, and on GPUs, whose kernels in TensorFlow omit
                most checks
    needed      whether the op exists only for the check: it raises if no check is possible, in a user's own jax.jit
    """

    fails: Callable[..., Any]
    error: Callable[..., Exception]
    proved: Callable[..., bool] | None = None
    always: bool = False
    needed: bool = False


def verify(rule: Rule, *arrays: Any, **params: Any) -> Any:
    """Check values, now or, if they are unknown, when the program runs; return the first array.

    Ops must use the array that is returned: otherwise the program drops the check.
    """
    first = arrays[0]
    if len(arrays) == 1 and type(first) is np.ndarray and current_graph() is None:  # the fast path of eager code
        if not np.any(rule.fails(np, first, **params)):
            return first
        raise rule.error(first, **params)
    rows = _unbatched(arrays)
    if any(type(a) is Symbolic for a in rows) or any(map(is_dimension, _leaves(params))):
        return _staged(rule, first, rows, params)
    if not rule.always and any(map(_is_on_accelerator, rows)):
        return first  # as in programs there; a check would wait for the device
    known = _values(rows, rule.needed)
    if known is None or not np.any(rule.fails(np, *known, **params)):
        return first
    if current_graph() is None:
        raise rule.error(*known, **params)
    return _staged(rule, first, known, params)


def _is_on_accelerator(array: Any) -> bool:
    found = array.devices() if is_jax_array(array) or hasattr(array, "settled") else ()
    return any(device is not None and device.platform != "cpu" for device in found)


def _values(arrays: Sequence[Any], needed: bool) -> list[Any] | None:
    """The values of arrays; None inside a user's own jax.jit, where they are unknown and no check is made."""
    try:
        return [np.asarray(a) for a in arrays]
    except TypeError:
        if not any(type(a).__module__.partition(".")[0] == "jax" for a in arrays):
            raise
        if not needed:
            return None
    raise TypeError(
        "A check of values was called inside jax.jit, where tensors are traced and have no values. Use tf.function "
        "instead of jax.jit, which checks them when the function runs, or check the results outside."
    )


def checked(rule: Rule, tensor: Tensor, *arrays: Any, **params: Any) -> Tensor:
    """`verify` for an integer tensor."""
    array = verify(rule, tensor.array, *arrays, **params)
    return tensor if array is tensor.array else wrap(array)


def _leaves(params: dict[str, Any]) -> list[Any]:
    return [v for value in params.values() for v in (value if type(value) is tuple else (value,))]


def _staged(rule: Rule, first: Any, arrays: Sequence[Any], params: dict[str, Any]) -> Any:
    """Add a check as a node of the graph; return the first array as its result."""
    graph = current_graph()
    if graph is None:
        return first  # a value out of scope: the ops that use it raise
    owned = tuple([graph.own(a) for a in arrays])
    output = Symbolic(graph, tuple(owned[0].shape), np.dtype(owned[0].dtype))
    if type(owned[0]) is Symbolic:
        output.extents = owned[0].extents
    attrs = {"rule": rule, "number": next(numbers), "params": tuple(params.items())}
    graph.add("check", owned, attrs, (output,))
    return _rewrapped(first, output)


def _rewrapped(like: Any, array: Symbolic) -> Any:
    """Wrap an array in the kind of object that it was taken from: a batch, a tensor."""
    if type(like) is Batched:
        return Batched(_rewrapped(like.array, array.reshape(like.array.shape)), like.level)
    return wrap(array) if isinstance(like, Tensor) else array


def _unbatched(arrays: tuple[Any, ...]) -> list[Any]:
    """The arrays inside tensors and batches, with the rows of a batch along leading axes.

    Rows with fewer axes than others get axes of length 1, so that arrays of different batches broadcast.
    """
    if not any(hasattr(a, "array") for a in arrays):
        return list(arrays)
    rank = max(len(np.shape(a)) if not hasattr(a, "shape") else len(a.shape) for a in arrays)
    return [_engine_array(a, rank if len(arrays) > 1 else 0) for a in arrays]


def _engine_array(value: Any, rank: int) -> Any:
    while hasattr(value, "array"):
        if type(value) is Batched:
            rows, missing = value.rows(), max(rank - len(value.shape), 0)
            value = rows.reshape((rows.shape[0], *[1] * missing, *rows.shape[1:])) if missing else rows
        else:
            value = value.array
    return value


def _pass(xp: Any, *arrays: Any, **attrs: Any) -> Any:
    """The kernel of a check in a graph that is evaluated for its values alone: return the first array."""
    return arrays[0]


generic_kernels["check"] = _pass


# -- assertions ------------------------------------------------------------------------------------------------------
def require(condition: Any, data: Sequence[Any], summarize: int | None = None) -> None:
    """Add an assertion to the program that is being traced; its error shows the data.

    `data` are arrays and text, of which `summarize` elements are shown (3; a negative number: all).
    """
    shown = tuple([None if hasattr(d, "shape") and d.dtype.kind != "O" else d for d in data])
    arrays = [d for d, text in zip(data, shown, strict=True) if text is None]
    params = {"shown": shown, "most": 3 if summarize is None else summarize}
    rows = _unbatched((condition, *arrays))
    _staged(_ASSERTION, rows[0], rows, params)


def _does_not_hold(xp: Any, condition: Any, *arrays: Any, **_: Any) -> Any:
    return ~condition


def _assertion_failed(condition: Any, *arrays: Any, shown: tuple[Any, ...], most: int) -> Exception:
    remaining = iter(arrays)
    values = [next(remaining) if text is None else text for text in shown]
    return errors.invalid_argument(" ".join(["assertion failed:", *[f"[{summary(v, most)}]" for v in values]]))


_ASSERTION = Rule(_does_not_hold, _assertion_failed, always=True, needed=True)
