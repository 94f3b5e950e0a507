"""Fourier transforms and frames. NumPy's transforms keep single precision single."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape._src.arrays.half import in_float32

Array = Any
Axes = tuple[int, ...]


def fft(x: Array, *, axis: Axes, inverse: bool = False) -> Array:
    """The complex transform over the given axes; the inverse divides by the number of points."""
    return np.fft.ifftn(x, axes=axis) if inverse else np.fft.fftn(x, axes=axis)


def rfft(x: Array, *, axis: Axes) -> Array:
    """The transform of real numbers: for the last axis only the first half is returned."""
    return np.fft.rfftn(x, axes=axis)


def irfft(x: Array, *, axis: Axes, length: int) -> Array:
    """Real numbers from half a spectrum; `length` is the size of the last axis of the result."""
    if len(axis) > 1:
        x = np.fft.ifftn(x, axes=axis[:-1])
    return np.fft.irfft(x, length, axis=axis[-1])


def frame(x: Array, *, axis: int, length: int, step: int) -> Array:
    """Windows of `length` every `step` along an axis, which becomes two axes: [frames, length]."""
    if x.shape[axis] < length:
        return np.zeros((*x.shape[:axis], 0, length, *x.shape[axis + 1 :]), x.dtype)
    windows = np.lib.stride_tricks.sliding_window_view(x, length, axis)
    every = windows[(slice(None),) * axis + (slice(None, None, step),)]
    return np.ascontiguousarray(np.moveaxis(every, -1, axis + 1))


@in_float32
def overlap_add(x: Array, *, axis: int, step: int, size: int) -> Array:
    """Frames laid `step` apart and added up: axes [frames, length] become one of `size`, zeros where nothing lies."""
    frames, length = x.shape[axis], x.shape[axis + 1]
    lead, rest = x.shape[:axis], x.shape[axis + 2 :]
    pieces = -(-length // step)  # a frame as pieces of `step`: each row of pieces falls on a block of its own
    blocks = np.zeros((*lead, frames + pieces, step, *rest), x.dtype)
    before = (slice(None),) * axis
    for i in range(pieces):
        piece = x[(*before, slice(None), slice(i * step, (i + 1) * step))]
        blocks[(*before, slice(i, i + frames), slice(0, piece.shape[axis + 1]))] += piece
    flat = blocks.reshape(*lead, (frames + pieces) * step, *rest)
    if flat.shape[axis] >= size:
        return np.ascontiguousarray(flat[(*before, slice(0, size))])
    result = np.zeros((*lead, size, *rest), x.dtype)
    result[(*before, slice(0, flat.shape[axis]))] = flat
    return result
