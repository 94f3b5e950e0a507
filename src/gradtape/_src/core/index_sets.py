"""Sets of indices, many at a time: the elements of the sources that each element of a tensor depends on.

A table holds the sets, and each element of a tensor has the number of a set. Ops that rearrange elements rearrange the
numbers of sets in the same way, so their own kernels propagate dependence. Elements with the same dependence share a
set: after a dense layer, all elements of a row refer to one set.

Set 0 is empty, which is also what padding and scatters fill in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape._src import errors

Ids = np.ndarray[Any, np.dtype[np.int64]]

LIMIT = 2**27
"""The largest number of indices in all sets of a table."""


class IndexSets:
    """A table of sets of integers from 0 to `size` - 1."""

    def __init__(self, size: int, limit: int = LIMIT) -> None:
        self.size, self._limit = size, limit
        self._items = np.empty(64, np.int32 if size < 2**31 else np.int64)
        self._ends = np.zeros(64, np.int64)  # set k is items[ends[k - 1] : ends[k]]
        self._count, self._used = 1, 0

    def units(self, first: int, shape: tuple[int, ...]) -> Ids:
        """A set with one integer for each element: first, first + 1, …"""
        count = math.prod(shape)
        return self._add(np.arange(first, first + count), np.ones(count, np.int64)).reshape(shape)

    def members(self, ids: Ids) -> tuple[Any, Any]:
        """The concatenated members of sets, and for each member the position of its set in `ids`."""
        ids = ids.reshape(-1)
        starts, sizes = self._ends[ids - 1], self._sizes(ids)
        starts[ids == 0] = 0
        total = int(sizes.sum())
        if total > self._limit:
            raise self._full(total)
        owners = np.repeat(np.arange(len(ids)), sizes)
        offsets = np.arange(total) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self._items[np.repeat(starts, sizes) + offsets], owners

    def union(self, *arrays: Ids) -> Ids:
        """The elementwise union of sets; shapes broadcast."""
        result = arrays[0]
        for other in arrays[1:]:
            result = self._pairs(*np.broadcast_arrays(result, other))
        return result

    def union_over(self, ids: Ids, axes: Sequence[int], keepdims: bool = False) -> Ids:
        """The union over axes."""
        kept = [i for i in range(ids.ndim) if i not in axes]
        rows = np.transpose(ids, (*kept, *[i for i in range(ids.ndim) if i in axes]))
        count = math.prod(ids.shape[i] for i in kept)
        rows = rows.reshape(count, -1 if ids.size else 0)
        found = self.group(rows, np.broadcast_to(np.arange(count)[:, None], rows.shape), count)
        shape = tuple(1 if i in axes else n for i, n in enumerate(ids.shape) if keepdims or i not in axes)
        return found.reshape(shape)

    def group(self, ids: Ids, groups: Any, count: int) -> Ids:
        """The union of the sets in each of `count` groups; `groups` has the group of each set."""
        ids, groups = ids.reshape(-1), groups.reshape(-1)
        result = np.zeros(count, np.int64)
        keys = _unique((groups * self._count + ids)[ids != 0])
        groups, ids = keys // self._count, keys % self._count
        last = np.append(groups[1:] != groups[:-1], True) if len(groups) else np.zeros(0, bool)
        first = np.append(True, last[:-1]) if len(groups) else last
        alone = first & last
        result[groups[alone]] = ids[alone]
        if not alone.all():
            groups, ids = groups[~alone], ids[~alone]
            names, numbers = np.unique(groups, return_inverse=True)
            result[names] = self._merged(ids, numbers, len(names))
        return result

    def _pairs(self, a: Ids, b: Ids) -> Ids:
        """The elementwise union of two arrays of sets, computed once for each pair that occurs."""
        shape = a.shape
        a, b = a.reshape(-1), b.reshape(-1)
        result = np.where(a == 0, b, a)
        mixed = np.flatnonzero((a != 0) & (b != 0) & (a != b))
        if len(mixed):
            keys, numbers = np.unique(a[mixed] * self._count + b[mixed], return_inverse=True)
            both = np.stack([keys // self._count, keys % self._count], 1).reshape(-1)
            result[mixed] = self._merged(both, np.repeat(np.arange(len(keys)), 2), len(keys))[numbers]
        return result.reshape(shape)

    def _merged(self, ids: Ids, groups: Any, count: int) -> Ids:
        """The union of each group; `groups` is sorted and has every number below `count`.

        A union with as many members as its largest part is that part, and gets no new number.
        """
        items, owners = self.members(ids)
        keys = _unique(groups[owners] * self.size + items)
        sizes = np.bincount(keys // self.size, minlength=count)
        parts = self._sizes(ids)
        order = np.lexsort((parts, groups))
        largest = order[np.append(groups[order][1:] != groups[order][:-1], True)]
        result = ids[largest].copy()
        new = sizes > parts[largest]
        if new.any():
            mine = np.repeat(new, sizes)
            result[new] = self._add(keys[mine] % self.size, sizes[new])
        return result

    def _sizes(self, ids: Ids) -> Any:
        sizes = self._ends[ids] - self._ends[ids - 1]
        sizes[ids == 0] = 0
        return sizes

    def _add(self, items: Any, sizes: Any) -> Ids:
        """Append sets to the table; return their numbers."""
        used, count = self._used + len(items), self._count + len(sizes)
        if used > self._limit:
            raise self._full(used)
        self._items = _grown(self._items, used)
        self._ends = _grown(self._ends, count)
        self._items[self._used : used] = items
        self._ends[self._count : count] = self._used + np.cumsum(sizes)
        numbers = np.arange(self._count, count)
        self._used, self._count = used, count
        return numbers

    def _full(self, needed: int) -> Exception:
        return errors.ResourceExhaustedError(
            None,
            None,
            f"The index sets of this sparsity pattern would hold {needed} entries, but at most {self._limit} are "
            "allowed: most elements depend on most of the sources, so this Jacobian is not sparse. Compute it "
            "without `sparse`, or move sums and scans out of the target.",
        )


def _unique(keys: Any) -> Any:
    """The sorted unique numbers (np.unique without its overhead for sorted input)."""
    if len(keys) > 1 and not (keys[1:] > keys[:-1]).all():
        keys = np.sort(keys)
        keys = keys[np.append(True, keys[1:] != keys[:-1])]
    return keys


def _grown(array: Any, needed: int) -> Any:
    if needed <= len(array):
        return array
    larger = np.zeros(max(needed, 2 * len(array)), array.dtype)
    larger[: len(array)] = array
    return larger
