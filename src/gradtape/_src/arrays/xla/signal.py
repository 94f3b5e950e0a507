"""Fourier transforms and frames on JAX arrays: see arrays/numpy/signal.py for the meaning of each function."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from gradtape._src.arrays.half import in_float32

Array = Any
Axes = tuple[int, ...]

_GROUP = 3  # XLA transforms up to three axes in one call


def fft(x: Array, *, axis: Axes, inverse: bool = False) -> Array:
    transform = jnp.fft.ifftn if inverse else jnp.fft.fftn
    for start in range(0, len(axis), _GROUP):
        x = transform(x, axes=axis[start : start + _GROUP])
    return jnp.asarray(x)


def rfft(x: Array, *, axis: Axes) -> Array:
    half = jnp.fft.rfft(x, axis=axis[-1])
    return fft(half, axis=axis[:-1])


def irfft(x: Array, *, axis: Axes, length: int) -> Array:
    return jnp.fft.irfft(fft(x, axis=axis[:-1], inverse=True), length, axis=axis[-1])


def frame(x: Array, *, axis: int, length: int, step: int) -> Array:
    count = max(0, (x.shape[axis] - length) // step + 1)
    positions = step * np.arange(count)[:, None] + np.arange(length)
    return jnp.take(jnp.asarray(x), positions, axis=axis)


@in_float32
def overlap_add(x: Array, *, axis: int, step: int, size: int) -> Array:
    frames, length = x.shape[axis], x.shape[axis + 1]
    positions = step * np.arange(frames)[:, None] + np.arange(length)
    result = jnp.zeros((*x.shape[:axis], size, *x.shape[axis + 2 :]), x.dtype)
    return result.at[(slice(None),) * axis + (positions,)].add(x, mode="drop")  # nothing is beyond the end
