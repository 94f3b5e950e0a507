"""Isotonic regression: the closest monotone sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.symbolic import is_known
from gradtape._src.conversion import operand
from gradtape._src.shape import TensorSpec
from gradtape._src.tf import array, math
from gradtape._src.tf.arguments import axis_of
from gradtape._src.tf.python_functions import numpy_function
from gradtape._src.tf.segments import unsorted_segment_mean

if TYPE_CHECKING:
    from gradtape._src.tensor import Tensor
    from gradtape._src.typing import TensorLike


class IsotonicRegression(NamedTuple):
    """The monotone values, and the block of equal values that each of them belongs to."""

    output: Any
    segments: Any


def isotonic_regression(inputs: TensorLike, decreasing: bool = True, axis: int = -1) -> IsotonicRegression:
    """Find the decreasing (or increasing) sequence along an axis that fits the inputs best, by least squares.

    The values of a block are the mean of its inputs, and so are the gradients.

    >>> values, blocks = tf.nn.isotonic_regression([3.0, 1.0, 2.0])
    >>> values.numpy().tolist(), blocks.numpy().tolist()
    ([3.0, 1.5, 1.5], [0, 1, 1])
    """
    x = operand(inputs)
    if not (x.dtype.is_floating or x.dtype.is_integer):
        raise errors.unsupported_dtype("IsotonicRegression", x.dtype, "fiu")
    wide = "float32" if x.dtype.size < 4 else "float64"
    x = array.cast(x, wide) if x.dtype.is_integer else x
    rank = len(x.array.shape)
    if not rank:
        return IsotonicRegression(x, array.zeros([], "int32"))
    at = axis_of(axis, rank, "IsotonicRegression")
    order = [i for i in range(rank) if i != at] + [at]
    rows = array.transpose(x, order)
    values, blocks = _of_last_axis(rows if decreasing else -rows)
    back = np.argsort(order).tolist()
    return IsotonicRegression(array.transpose(values if decreasing else -values, back), array.transpose(blocks, back))


def _of_last_axis(x: Tensor) -> tuple[Tensor, Tensor]:
    shape = array.shape(x)
    flat = array.reshape(x, [-1, shape[-1]])
    if is_known(x):
        blocks = array.constant(_blocks(np.asarray(flat.array)))
    else:
        blocks = array.reshape(numpy_function(_blocks, [flat], TensorSpec(flat.shape, "int32")), array.shape(flat))
    blocks = array.reshape(blocks, shape)
    return means_of_blocks(x, blocks), blocks


def means_of_blocks(x: Tensor, blocks: Tensor) -> Tensor:
    """The mean of each block along the last axis, in the places of its elements."""
    shape = array.shape(x)
    size = array.shape(array.reshape(x, [-1, shape[-1]]))
    ids = array.reshape(array.reshape(blocks, size) + array.range(size[0])[:, None] * size[1], [-1])
    means = unsorted_segment_mean(array.reshape(x, [-1]), ids, math.reduce_prod(size))
    return array.reshape(array.gather(means, ids), shape)


def _blocks(rows: Any) -> Any:
    """The number of the block of each element in decreasing rows: neighbors in the wrong order are pooled."""
    found = np.zeros(rows.shape, np.int32)
    for i, row in enumerate(rows.astype(np.float64)):
        sums: list[float] = []
        sizes: list[int] = []
        for value in row.tolist():
            sums.append(value)
            sizes.append(1)
            while len(sums) > 1 and sums[-1] * sizes[-2] > sums[-2] * sizes[-1]:
                total, size = sums.pop(), sizes.pop()
                sums[-1] += total
                sizes[-1] += size
        found[i] = np.repeat(np.arange(len(sizes)), sizes)
    return found
