"""`tf.signal`: frames of a signal, and a signal of its frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradtape._src import errors
from gradtape._src.conversion import convert, operand
from gradtape._src.dtypes import DType
from gradtape._src.ops import array, signal as ops
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import axis_of, count_of, integer, truth

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


def frame(
    signal: TensorLike,
    frame_length: Any,
    frame_step: Any,
    pad_end: bool = False,
    pad_value: Any = 0,
    axis: int = -1,
    name: str | None = None,
) -> Tensor:
    """Divide an axis into frames, overlapping or not; with `pad_end`, the last frames are padded with `pad_value`.

    >>> tf.signal.frame([0, 1, 2, 3, 4], 3, 2).numpy().tolist()
    [[0, 1, 2], [2, 3, 4]]
    """
    x, pad_end = operand(signal), truth(pad_end)
    rank = len(x.array.shape)
    if not rank:
        raise ValueError("Shape must be at least rank 1 but is rank 0: frames are cut from an axis.")
    at = axis_of(count_of(axis, "axis"), rank, "Frame")
    length, step = count_of(frame_length, "frame_length"), count_of(frame_step, "frame_step")
    if x.array.dtype.kind in "bO":
        raise TypeError(f"tf.signal.frame takes numbers, but got a tensor of {x.dtype.name}.")
    if step < 1:
        raise errors.invalid_argument(f"Integer division by zero: frame_step must be positive, got {step}", "FloorDiv")
    if length < 0:
        raise errors.invalid_argument(f"Requires start <= limit when delta > 0: 0/{length}", "Range")
    size = x.array.shape[at]
    if pad_end:
        need = max((-(-size // step) - 1) * step + length if size else 0, size)
        if need > size:
            filling = array.stop_gradient(_pad_value(pad_value, x.dtype))
            filler = array.broadcast_to(filling, shape=(*x.array.shape[:at], need - size, *x.array.shape[at + 1 :]))
            x = array.concatenate(x, filler, axis=at)
    result: Tensor = ops.frame(x, axis=at, length=length, step=step)
    if pad_end:
        result = array.getitem(result, index=(slice(None),) * at + (slice(0, -(-size // step)),))
    return result


def _pad_value(value: Any, dtype: DType) -> Tensor:
    found = convert(value, dtype)
    if found.array.shape:
        raise ValueError(f"Shape must be rank 0 but is rank {len(found.array.shape)} for argument 'pad_value'.")
    return found


def overlap_and_add(signal: TensorLike, frame_step: Any, name: str | None = None) -> Tensor:
    """Add frames [..., frames, length] that are `frame_step` apart: the transpose of `frame`.

    >>> tf.signal.overlap_and_add([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]], 2).numpy().tolist()
    [1.0, 1.0, 2.0, 1.0, 1.0]
    """
    x = operand(signal)
    rank = len(x.array.shape)
    if rank < 2:
        raise ValueError(f"signal should have at least 2 dimensions (frames and their samples). Received: {x.shape}")
    given = operand(frame_step)
    if given.array.shape or not given.dtype.is_integer:
        raise ValueError(f"frame_step must be an integer scalar. Received: {frame_step!r}")
    step = integer(given)
    if step < 1:
        raise errors.invalid_argument(f"Integer division by zero: frame_step must be positive, got {step}", "FloorDiv")
    frames, length = x.array.shape[-2:]
    result: Tensor = ops.overlap_add(x, axis=rank - 2, step=step, size=max(frames - 1, 0) * step + length)
    return result
