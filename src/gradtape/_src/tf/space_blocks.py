"""Convert spatial blocks to channels or batches, and back."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.conversion import operand, wrap
from gradtape._src.ops import array
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import as_int, integers, shape_of
from gradtape._src.tf.windows import Axes, Pairs, channels_second, to_channels_last, to_channels_second

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


def _block(block_size: Any, op: str) -> int:
    size = as_int(block_size, "block_size")
    if size < 2:
        raise errors.invalid_argument(f"Value for attr 'block_size' of {size} must be at least minimum 2", op)
    return size


def _four_axes(x: Tensor, op: str) -> Axes:
    shape = tuple(x.array.shape)
    if len(shape) != 4:
        raise errors.invalid_argument(f"Input rank should be 4 instead of {len(shape)}", op)
    return shape


def space_to_depth(input: TensorLike, block_size: Any, data_format: str = "NHWC", name: str | None = None) -> Tensor:
    """Rearrange blocks of pixels into channels.

    >>> tf.nn.space_to_depth([[[[1.0], [2.0]], [[3.0], [4.0]]]], 2).numpy().ravel().tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    op = "SpaceToDepth"
    x, b = operand(input), _block(block_size, op)
    second = channels_second(data_format, 2, op)
    _four_axes(x, op)
    if second:
        x = to_channels_last(x)
    batch, height, width, channels = x.array.shape
    if height % b or width % b:
        raise errors.invalid_argument(
            f"Image width {width} and height {height} should be divisible by block_size: {b}", op
        )
    split = array.reshape(x, shape=(batch, height // b, b, width // b, b, channels))
    moved = array.transpose(split, perm=(0, 1, 3, 2, 4, 5))
    result: Tensor = array.reshape(moved, shape=(batch, height // b, width // b, b * b * channels))
    return to_channels_second(result) if second else result


def depth_to_space(input: TensorLike, block_size: Any, data_format: str = "NHWC", name: str | None = None) -> Tensor:
    """Rearrange channels into blocks of pixels: the inverse of `space_to_depth`.

    >>> tf.nn.depth_to_space(tf.reshape([1, 2, 3, 4], [1, 1, 1, 4]), 2)[0, :, :, 0].numpy().tolist()
    [[1, 2], [3, 4]]
    """
    op = "DepthToSpace"
    x, b = operand(input), _block(block_size, op)
    second = channels_second(data_format, 2, op)
    _four_axes(x, op)
    if second:
        x = to_channels_last(x)
    batch, height, width, channels = x.array.shape
    if channels % (b * b):
        raise errors.invalid_argument(f"Input depth dimension {channels} should be divisible by: {b * b}", op)
    split = array.reshape(x, shape=(batch, height, width, b, b, channels // (b * b)))
    moved = array.transpose(split, perm=(0, 1, 3, 2, 4, 5))
    result: Tensor = array.reshape(moved, shape=(batch, height * b, width * b, channels // (b * b)))
    return to_channels_second(result) if second else result


def _blocks(x: Tensor, block_shape: Any, pairs: Any, name: str, op: str) -> tuple[Axes, Pairs]:
    """The size of a block along each spatial axis, and the pairs of paddings or crops."""
    if isinstance(block_shape, int) and name == "crops":  # TensorFlow accepts a number there, but not in space_to_batch
        block_shape = [block_shape, block_shape]
    plain, table = integers(block_shape, op, "Tblock_shape"), integers(pairs, op, f"T{name}")
    if np.ndim(table) != 2 or np.ndim(plain) != 1:
        raise errors.invalid_argument(f"{name} should be a matrix of pairs, and block_shape a vector", op)
    amounts = np.asarray(table).tolist()
    blocks = shape_of(plain)
    if len(amounts) != len(blocks) or any(len(pair) != 2 for pair in amounts):
        raise errors.invalid_argument(
            f"{name} should have shape [{len(blocks)}, 2]: a pair for each of the {len(blocks)} blocks", op
        )
    if any(b < 1 for b in blocks) or any(v < 0 for pair in amounts for v in pair):
        raise errors.invalid_argument(f"block_shape must be positive and {name} non-negative", op)
    rank = len(x.array.shape)
    if rank < len(blocks) + 1:
        raise errors.invalid_argument(f"input rank should be >= {len(blocks) + 1} instead of {rank}", op)
    return blocks, tuple((low, high) for low, high in amounts)


def space_to_batch(input: TensorLike, block_shape: Any, paddings: TensorLike, name: str | None = None) -> Tensor:
    """Rearrange blocks of pixels into separate images.

    >>> tf.space_to_batch([[[[1], [2]], [[3], [4]]]], [2, 2], [[0, 0], [0, 0]]).numpy().ravel().tolist()
    [1, 2, 3, 4]
    """
    op = "SpaceToBatchND"
    x = operand(input)
    blocks, pairs = _blocks(x, block_shape, paddings, "paddings", op)
    n, shape = len(blocks), tuple(x.array.shape)
    rest = shape[n + 1 :]
    if any(low or high for low, high in pairs):
        before = (0, *(low for low, _ in pairs), *[0] * len(rest))
        after = (0, *(high for _, high in pairs), *[0] * len(rest))
        x = array.pad(x, before=before, after=after)
    sizes = x.array.shape[1 : n + 1]
    for i, (size, b) in enumerate(zip(sizes, blocks, strict=True)):
        if size % b:
            raise errors.invalid_argument(f"padded_shape[{i}]={size} is not divisible by block_shape[{i}]={b}", op)
    split = [v for size, b in zip(sizes, blocks, strict=True) for v in (size // b, b)]
    x = array.reshape(x, shape=(shape[0], *split, *rest))
    perm = (*range(2, 2 * n + 1, 2), 0, *range(1, 2 * n + 1, 2), *range(2 * n + 1, 2 * n + 1 + len(rest)))
    x = array.transpose(x, perm=perm)
    outer = tuple(size // b for size, b in zip(sizes, blocks, strict=True))
    result: Tensor = array.reshape(x, shape=(prod(blocks) * shape[0], *outer, *rest))
    return result


space_to_batch_nd = space_to_batch


def required_space_to_batch_paddings(
    input_shape: Any, block_shape: Any, base_paddings: Any = None, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Compute paddings, at least `base_paddings`, that make dimensions divisible by blocks, and the crops to undo them.

    >>> paddings, crops = tf.required_space_to_batch_paddings([3, 4], [2, 2])
    >>> paddings.numpy().tolist(), crops.numpy().tolist()
    ([[0, 1], [0, 0]], [[0, 1], [0, 0]])
    """
    sizes, blocks = (np.asarray(integers(given, "SpaceToBatchND")) for given in (input_shape, block_shape))
    base = np.zeros((len(blocks), 2), np.int32) if base_paddings is None else integers(base_paddings, "SpaceToBatchND")
    start, end = np.asarray(base).T
    more = -(sizes + start + end) % blocks
    paddings, crops = (np.stack(pair, 1).astype(np.int32) for pair in ((start, end + more), (0 * more, more)))
    return wrap(paddings), wrap(crops)


def batch_to_space(input: TensorLike, block_shape: Any, crops: Any, name: str | None = None) -> Tensor:
    """Rearrange images into blocks of pixels: the inverse of `space_to_batch`.

    >>> tf.batch_to_space([[[[1]]], [[[2]]], [[[3]]], [[[4]]]], [2, 2], [[0, 0], [0, 0]]).numpy().ravel().tolist()
    [1, 2, 3, 4]
    """
    op = "BatchToSpaceND"
    x = operand(input)
    blocks, pairs = _blocks(x, block_shape, crops, "crops", op)
    n, shape = len(blocks), tuple(x.array.shape)
    if shape[0] % prod(blocks):
        raise errors.invalid_argument(
            f"Input batch dimension ({shape[0]}) is not divisible by product of block sizes ({prod(blocks)})", op
        )
    batch, sizes, rest = shape[0] // prod(blocks), shape[1 : n + 1], shape[n + 1 :]
    x = array.reshape(x, shape=(*blocks, batch, *sizes, *rest))
    between = [v for i in range(n) for v in (n + 1 + i, i)]
    x = array.transpose(x, perm=(n, *between, *range(2 * n + 1, 2 * n + 1 + len(rest))))
    whole = tuple(size * b for size, b in zip(sizes, blocks, strict=True))
    x = array.reshape(x, shape=(batch, *whole, *rest))
    if any(low or high for low, high in pairs):
        if any(low + high > size for (low, high), size in zip(pairs, whole, strict=True)):
            raise errors.invalid_argument(f"crops {list(pairs)} are larger than the result {list(whole)}", op)
        keep = [slice(low, size - high) for (low, high), size in zip(pairs, whole, strict=True)]
        x = array.getitem(x, index=(slice(None), *keep))
    return x
