"""Elementwise functions on large arrays: they run on all cores, in blocks that stay in the cache.

A formula on 4 million elements makes large temporary arrays, each of which goes through memory. In blocks, the
temporaries stay in the cache. Every element is computed by the same calls in any block, so the result is the same to
the bit for all blocks and numbers of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from gradtape._src import memory, threads

Array = Any
Function = Callable[..., Array]

LARGE = 2**17
"""The number of elements from which on threads pay off."""

SHARE = 2**15
"""The number of elements of the smallest part of an array that a ufunc gets."""

BLOCK = 2**17
"""The number of elements of a block for functions with temporary arrays, on one thread: they stay in the cache."""

SHARED_BLOCK = 2**19
"""The same for several threads, which wait for the interpreter lock between two steps: with shorter steps, they wait
more than they save by the cache."""

_NO_ATTRS: dict[str, Any] = {}


def blockwise(function: Function) -> Function:
    """Make an elementwise function run in blocks on large arrays.

    A ufunc may get an array for its result (`out`), which may be an operand.
    """

    def call(*args: Any, **attrs: Any) -> Any:
        for a in args:
            if type(a) is ndarray and a.size >= LARGE:
                return elementwise(function, args, attrs)
        return function(*args, **attrs)

    return call


def elementwise(function: Function, args: Sequence[Any], attrs: dict[str, Any] = _NO_ATTRS) -> Array:
    """Compute `function(*args, **attrs)` in blocks. Arguments that are not arrays with axes go to every block.

    A function that is not a ufunc does not accept `out`.
    """
    if isinstance(function, np.ufunc) and threads.limit() == 1:
        return function(*args, **attrs)
    shape = np.broadcast_shapes(*[a.shape for a in args if type(a) is ndarray])
    cuts = _cuts(args, shape)
    if cuts is None:
        return function(*args, **attrs)
    given = attrs.get("out")
    if given is not None:
        if not given.flags.c_contiguous or given.shape != shape:
            return function(*args, **attrs)
        attrs = {**attrs, "out": given.reshape(cuts.shape)}
    out = _in_blocks(function, cuts, attrs)
    if out is None:
        return function(*args, **attrs)
    return out.reshape(shape) if given is None else given


def in_blocks(
    function: Callable[..., Sequence[Array]], shape: Sequence[int], dtypes: Sequence[np.dtype[Any]]
) -> Function:
    """Make an elementwise function run in blocks: its results have one shape, to which its operands are broadcast.

    After its arguments, the function gets an array for each result, which it may write to and return, or None. Arrays
    with another memory order are not divided, as in `elementwise`.
    """
    shape = tuple(shape)

    def call(*args: Any) -> tuple[Array, ...]:
        cuts = _cuts(args, shape)
        ends = [] if cuts is None else _ends(cuts.shape[0], prod(cuts.shape[1:]), is_ufunc=False)
        if cuts is None or len(ends) == 2:
            return tuple(function(*args, *[None] * len(dtypes)))
        results = [memory.empty(shape, dtype) for dtype in dtypes]
        divided = [result.reshape(cuts.shape) for result in results]

        def write(i: int) -> None:
            start, stop = ends[i], ends[i + 1]
            outs = [out[start:stop] for out in divided]
            for out, part in zip(outs, function(*cuts.block(start, stop), *outs), strict=True):
                if part is not out:
                    out[...] = part

        threads.run(write, len(ends) - 1)
        return tuple(results)

    return call


def by_rows(function: Function, x: Array) -> Array:
    """Apply a function to the rows of an array (its last axis), some rows at a time; results have equal lengths."""
    rows = np.ascontiguousarray(x).reshape(-1, x.shape[-1])
    out = _in_blocks(function, _Cuts((rows,), (True,), rows.shape), _NO_ATTRS)
    return function(x) if out is None else out.reshape(x.shape)


class _Cuts(NamedTuple):
    """Arguments, whether each of them is divided along its first axis, and the shape of the result."""

    args: Sequence[Any]
    is_cut: Sequence[bool]
    shape: tuple[int, ...]

    def block(self, start: int, stop: int) -> list[Any]:
        """The arguments of a block."""
        return [a[start:stop] if cut else a for a, cut in zip(self.args, self.is_cut, strict=True)]


def _cuts(args: Sequence[Any], shape: tuple[int, ...]) -> _Cuts | None:
    """How to divide arguments: anywhere if none is broadcast, otherwise along the first axis; None: not at all.

    Arrays with another memory order are not divided: NumPy has its own loops for them, which round differently.
    """
    arrays = [a for a in args if type(a) is ndarray and a.ndim]
    if not all(a.flags.c_contiguous or not any(a.strides) for a in arrays) or any(a.dtype.hasobject for a in arrays):
        return None
    if all(a.shape == shape for a in arrays):
        args = [_flat(a) if type(a) is ndarray and a.ndim else a for a in args]
        shape = (prod(shape),)
    is_cut = [type(a) is ndarray and a.ndim == len(shape) and a.shape[0] == shape[0] for a in args]
    return _Cuts(args, is_cut, shape) if shape and shape[0] > 1 else None


def _flat(a: Array) -> Array:
    """An array as a 1-d view, or one element, broadcast."""
    return a.reshape(-1) if a.flags.c_contiguous else np.broadcast_to(a[(0,) * a.ndim], (a.size,))


def _in_blocks(function: Function, cuts: _Cuts, attrs: dict[str, Any]) -> Array | None:
    """Compute a function in blocks; None unless its result is a new array with one element for each position."""
    length, *rest = cuts.shape
    ends = _ends(length, max(prod(rest), 1), isinstance(function, np.ufunc))
    out: Any = attrs.get("out")
    if out is None:
        sample = cuts.block(0, 1 if rest else 2)  # for the dtype
        first = function(*sample, **attrs)
        if type(first) is not ndarray or first.base is not None or any(first is a for a in sample):
            return None
        if first.shape != (1 if rest else 2, *rest):
            return None
        out = memory.empty(cuts.shape, first.dtype)
    options = {name: value for name, value in attrs.items() if name != "out"}

    def fill(i: int) -> None:
        function(*cuts.block(ends[i], ends[i + 1]), out=out[ends[i] : ends[i + 1]], **options)

    def write(i: int) -> None:
        out[ends[i] : ends[i + 1]] = function(*cuts.block(ends[i], ends[i + 1]), **options)

    threads.run(fill if isinstance(function, np.ufunc) else write, len(ends) - 1)
    return out


def _ends(length: int, row: int, is_ufunc: bool) -> list[int]:
    """Where blocks of an axis begin and end. A ufunc has no temporary arrays: it gets a few long blocks."""
    limit = threads.limit()
    block = BLOCK if limit == 1 else SHARED_BLOCK
    count = 2 * limit if is_ufunc else max(-(-length * row // block), limit)
    count = max(min(count, length * row // SHARE, length), 1)
    return [i * length // count for i in range(count + 1)]
