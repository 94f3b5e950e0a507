"""`tf.distribute.experimental.partitioners`: the number of parts of a large variable along its first axis."""

from __future__ import annotations

import math
from typing import Any

from gradtape._src.dtypes import as_dtype
from gradtape._src.shape import TensorShape

__all__ = ["FixedShardsPartitioner", "MaxSizePartitioner", "MinSizePartitioner", "Partitioner"]


class Partitioner:
    """Computes the number of parts of each axis of a variable."""

    def __call__(self, shape: Any, dtype: Any, axis: int = 0) -> list[int]:
        """The number of parts along each axis."""
        raise NotImplementedError


def _positive(**values: Any) -> None:
    for name, value in values.items():
        if value is not None and value < 1:
            raise ValueError(f"Argument `{name}` must be positive. Received: {value}")


def _row(shape: Any, dtype: Any, axis: int, bytes_per_string: int) -> tuple[list[int], int, int]:
    """The shape, the number of rows along an axis, and the bytes of one row."""
    sizes: list[int] = TensorShape(shape).as_list()  # type: ignore[assignment]
    rows = sizes[axis]
    kind = as_dtype(dtype)
    size = bytes_per_string if kind.name == "string" else kind.size
    return sizes, rows, math.prod(sizes) // max(rows, 1) * size


def _along(sizes: list[int], axis: int, parts: int) -> list[int]:
    return [parts if i == axis else 1 for i in range(len(sizes))]


class FixedShardsPartitioner(Partitioner):
    """Divide into a fixed number of parts, at most one for each row.

    >>> import gradtape as tf
    >>> partitioner = tf.distribute.experimental.partitioners.FixedShardsPartitioner(num_shards=2)
    >>> partitioner(tf.TensorShape([10, 3]), tf.float32)
    [2, 1]
    """

    def __init__(self, num_shards: int) -> None:
        self._num_shards = num_shards

    def __call__(self, shape: Any, dtype: Any, axis: int = 0) -> list[int]:
        sizes, rows, _ = _row(shape, dtype, axis, 1)
        return _along(sizes, axis, min(self._num_shards, rows))


class MinSizePartitioner(Partitioner):
    """Divide into as many parts as possible with at least `min_shard_bytes` bytes.

    >>> import gradtape as tf
    >>> partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(min_shard_bytes=4, max_shards=2)
    >>> partitioner(tf.TensorShape([6, 1]), tf.float32)
    [2, 1]
    """

    def __init__(self, min_shard_bytes: int = 256 << 10, max_shards: int = 1, bytes_per_string: int = 16) -> None:
        _positive(min_shard_bytes=min_shard_bytes, max_shards=max_shards, bytes_per_string=bytes_per_string)
        self._least, self._max_shards, self._string = min_shard_bytes, max_shards, bytes_per_string

    def __call__(self, shape: Any, dtype: Any, axis: int = 0) -> list[int]:
        sizes, rows, row = _row(shape, dtype, axis, self._string)
        parts = max(1, math.ceil(rows * row / self._least))
        return _along(sizes, axis, min(parts, self._max_shards, rows))


class MaxSizePartitioner(Partitioner):
    """Divide into as few parts as possible with at most `max_shard_bytes` bytes.

    >>> import gradtape as tf
    >>> partitioner = tf.distribute.experimental.partitioners.MaxSizePartitioner(max_shard_bytes=4)
    >>> partitioner(tf.TensorShape([6, 1]), tf.float32)
    [6, 1]
    """

    def __init__(self, max_shard_bytes: int, max_shards: int | None = None, bytes_per_string: int = 16) -> None:
        _positive(max_shard_bytes=max_shard_bytes, max_shards=max_shards, bytes_per_string=bytes_per_string)
        self._most, self._max_shards, self._string = max_shard_bytes, max_shards, bytes_per_string

    def __call__(self, shape: Any, dtype: Any, axis: int = 0) -> list[int]:
        sizes, rows, row = _row(shape, dtype, axis, self._string)
        parts = math.ceil(rows / max(1, self._most // max(row, 1)))
        return _along(sizes, axis, parts if self._max_shards is None else min(parts, self._max_shards))
