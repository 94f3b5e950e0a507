"""Elementwise functions, reductions, shaping, lookups and products on JAX arrays.

See arrays/numpy/core.py for the meaning of each function. Nothing here reads values, so that everything can be traced:
operands are JAX arrays, tracers, NumPy arrays and Python numbers in any mixture.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.numpy import (  # noqa: F401 - these are the kernels
    arctan2,
    ceil,
    floor,
    fmod,
    log1p,
    mod,
    ones_like,
    sign,
    zeros,
    zeros_like,
)

from gradtape._src.arrays.dimensions import is_known_shape
from gradtape._src.arrays.half import in_float32, is_half, mean_dtype, sum_dtype, widened
from gradtape._src.arrays.shared.elementwise import complex_rsqrt
from gradtape._src.arrays.symbolic import only_eager
from gradtape._src.arrays.xla.frames import is_zero
from gradtape._src.processes import put

Array = Any
Axes = tuple[int, ...]


# -- elementwise -----------------------------------------------------------------------------------------------------
def power(x: Array, y: Array) -> Array:
    """x**y, with faster formulas for common constant exponents."""
    if type(y) is np.ndarray and not y.ndim and y.dtype.kind in "fiu":
        exponent = y.item()
        if exponent == 0.5:
            return jnp.sqrt(x)
        if exponent in (1, 2, 3) or (exponent == -1 and x.dtype.kind not in "iu"):
            return lax.integer_pow(x, int(exponent))
    return jnp.power(x, y)


def reciprocal(x: Array) -> Array:
    return (1 / x).astype(x.dtype)


def rsqrt(x: Array) -> Array:
    if is_complex(x):
        return _complex_rsqrt(x)
    return 1 / jnp.sqrt(x)  # XLA's own is less accurate on a CPU; on a GPU this becomes its instruction


def _complex_rsqrt(z: Array) -> Array:
    return complex(*complex_rsqrt(jnp, jnp.real(z), jnp.imag(z), jnp.absolute(z)))


def sigmoid(x: Array) -> Array:
    if not is_complex(x):
        return lax.logistic(x)
    positive = jnp.real(x) >= 0
    small = jnp.exp(jnp.where(positive, -x, x))
    return jnp.where(positive, 1, small) / (1 + small)


def relu(x: Array) -> Array:
    return jnp.maximum(x, 0)


def gate(x: Array, y: Array) -> Array:
    return jnp.where(y > 0, x, 0)


@in_float32
def squared_difference(x: Array, y: Array) -> Array:
    difference = jnp.subtract(x, y)
    return jnp.multiply(difference, jnp.conj(difference)) if is_complex(difference) else jnp.square(difference)


def is_complex(x: Array) -> bool:
    return bool(x.dtype.kind == "c")


def conj(x: Array) -> Array:
    return jnp.conj(x) if is_complex(x) else x


def real(x: Array) -> Array:
    return jnp.real(x)


def imag(x: Array) -> Array:
    return jnp.imag(x)


def angle(x: Array) -> Array:
    return jnp.arctan2(jnp.imag(x), jnp.real(x))


def complex(x: Array, y: Array) -> Array:
    x, y = jnp.broadcast_arrays(x, y)
    part = jnp.promote_types(jnp.promote_types(x.dtype, y.dtype), jnp.float32)
    return lax.complex(x.astype(part), y.astype(part))


def where(condition: Array, x: Array, y: Array) -> Array:
    result = jnp.where(condition, x, y)
    dtype = getattr(x if hasattr(x, "dtype") else y, "dtype", None)
    return result if dtype is None or result.dtype == dtype else result.astype(dtype)


def astype(x: Array, *, dtype: Any, source: Any = None) -> Array:
    x = jnp.asarray(x)
    if is_complex(x) and dtype.kind != "c":
        x = jnp.real(x)
    if dtype.kind == "b":
        return jnp.logical_not(is_zero(x))
    return x.astype(dtype)  # XLA saturates, and converts NaN to 0


def identity(x: Array) -> Array:
    return x


# -- reductions and scans --------------------------------------------------------------------------------------------
def sum(x: Array, *, axis: Axes, keepdims: bool = False) -> Array:
    return jnp.sum(x, axis=axis, dtype=sum_dtype(x.dtype), keepdims=keepdims).astype(x.dtype)


def prod(x: Array, *, axis: Axes, keepdims: bool = False) -> Array:
    return jnp.prod(x, axis=axis, dtype=sum_dtype(x.dtype), keepdims=keepdims).astype(x.dtype)


def mean(x: Array, *, axis: Axes, keepdims: bool = False) -> Array:
    count = math.prod([x.shape[i] for i in axis])
    total = jnp.sum(x, axis=axis, dtype=mean_dtype(x.dtype), keepdims=keepdims)
    if x.dtype.kind in "iu":
        return (lax.div(total, jnp.full_like(total, count)) if count else total).astype(x.dtype)
    return (total / count).astype(x.dtype)


def max(x: Array, *, axis: Axes, keepdims: bool = False) -> Array:
    return jnp.max(x, axis=axis, keepdims=keepdims, initial=None if x.size else _lowest(x.dtype))


def min(x: Array, *, axis: Axes, keepdims: bool = False) -> Array:
    return jnp.min(x, axis=axis, keepdims=keepdims, initial=None if x.size else _highest(x.dtype))


def _lowest(dtype: Any) -> Any:
    return int(np.iinfo(dtype).min) if dtype.kind in "iu" else -np.inf


def _highest(dtype: Any) -> Any:
    return int(np.iinfo(dtype).max) if dtype.kind in "iu" else np.inf


def any(x: Array, *, axis: Axes, keepdims: bool = False) -> Array:
    return jnp.any(x, axis=axis, keepdims=keepdims)


def all(x: Array, *, axis: Axes, keepdims: bool = False) -> Array:
    return jnp.all(x, axis=axis, keepdims=keepdims)


def argmax(x: Array, *, axis: int) -> Array:
    return jnp.argmax(_without_nan(x, -np.inf), axis=axis).astype(np.int64)


def argmin(x: Array, *, axis: int) -> Array:
    return jnp.argmin(_without_nan(x, np.inf), axis=axis).astype(np.int64)


def _without_nan(x: Array, last: float) -> Array:
    return jnp.where(jnp.isnan(x), last, x).astype(x.dtype) if x.dtype.kind in "fV" else x


def argsort(x: Array, *, axis: int, descending: bool = False) -> Array:
    return jnp.argsort(x, axis=axis, stable=True, descending=descending).astype(np.int64)


@in_float32
def cumsum(x: Array, *, axis: int, exclusive: bool = False, reverse: bool = False) -> Array:
    return shifted_scan(lax.cumsum(x, axis=axis, reverse=reverse), 0, axis, exclusive, reverse)


@in_float32
def cumprod(x: Array, *, axis: int, exclusive: bool = False, reverse: bool = False) -> Array:
    return shifted_scan(lax.cumprod(x, axis=axis, reverse=reverse), 1, axis, exclusive, reverse)


def shifted_scan(result: Array, start: Any, axis: int, exclusive: bool, reverse: bool) -> Array:
    """Shift an inclusive scan by one if it is to be exclusive, with `start` as the first element."""
    if not exclusive or not result.shape[axis]:
        return result
    widths = [(0, 0, 0)] * result.ndim
    widths[axis] = (-1, 1, 0) if reverse else (1, -1, 0)
    return lax.pad(result, jnp.asarray(start, result.dtype), widths)


# -- shaping ---------------------------------------------------------------------------------------------------------
def reshape(x: Array, *, shape: Axes) -> Array:
    return jnp.reshape(x, shape)


def transpose(x: Array, *, perm: Axes) -> Array:
    return jnp.transpose(x, perm)


def broadcast_to(x: Array, *, shape: Axes) -> Array:
    return jnp.broadcast_to(x, shape)


def concatenate(*xs: Array, axis: int, sizes: Axes = ()) -> Array:
    return jnp.concatenate(xs, axis)


def stack(*xs: Array, axis: int) -> Array:
    return jnp.stack(xs, axis)


def unstack(x: Array, *, axis: int) -> tuple[Array, ...]:
    return tuple(jnp.unstack(x, axis=axis))


def split(x: Array, *, sizes: Axes, axis: int) -> tuple[Array, ...]:
    return tuple(lax.split(x, sizes, axis))


def pad(x: Array, *, before: Axes, after: Axes) -> Array:
    return lax.pad(x, jnp.zeros((), x.dtype), [(b, a, 0) for b, a in zip(before, after, strict=True)])


def flip(x: Array, *, axis: Axes) -> Array:
    return jnp.flip(x, axis)


def roll(x: Array, *, shift: Axes, axis: Axes) -> Array:
    return jnp.roll(x, shift, axis)


def getitem(x: Array, *, index: tuple[Any, ...]) -> Array:
    """One slice, then the reversed axes, then the axes that appear and disappear."""
    if not _is_static(index) or not is_known_shape(x.shape):
        return x[index]
    spans, shape, backward = _spans(index, x.shape)
    limits = [start + (count - 1) * step + 1 if count else start for start, count, step in spans]
    sliced = lax.slice(x, [start for start, _, _ in spans], limits, [step for _, _, step in spans])
    return jnp.reshape(lax.rev(sliced, backward) if backward else sliced, shape)


def setitem(x: Array, *, index: tuple[Any, ...], shape: Axes) -> Array:
    """The transpose of `getitem`, step by step in reverse; slices become padding."""
    if not _is_static(index) or not is_known_shape(shape):
        return jnp.zeros(shape, x.dtype).at[index].set(x)
    spans, taken, backward = _spans(index, shape)
    sliced = jnp.reshape(jnp.broadcast_to(x, taken), [count for _, count, _ in spans])
    if backward:
        sliced = lax.rev(sliced, backward)
    widths = []
    for (start, count, step), n in zip(spans, shape, strict=True):
        used = start + (count - 1) * step + 1 if count else start
        widths.append((start, n - used, step - 1))
    return lax.pad(sliced, jnp.zeros((), x.dtype), widths)


def _is_static(index: tuple[Any, ...]) -> bool:
    return builtins.all(part is None or part is Ellipsis or isinstance(part, (int, slice)) for part in index)


def _spans(index: tuple[Any, ...], shape: Axes) -> tuple[list[tuple[int, int, int]], list[int], list[int]]:
    """For each axis the first position, the count and the step; the shape of the result; the reversed axes."""
    named = builtins.sum(part is not None and part is not Ellipsis for part in index)
    parts: list[Any] = []
    for part in index if Ellipsis in index else (*index, Ellipsis):
        parts += [slice(None)] * (len(shape) - named) if part is Ellipsis else [part]
    spans: list[tuple[int, int, int]] = []
    result: list[int] = []
    backward = []
    for part in parts:
        if part is None:
            result.append(1)
            continue
        axis, n = len(spans), shape[len(spans)]
        if isinstance(part, slice):
            run = range(n)[part]
            if run.step < 0:
                backward.append(axis)
                run = run[::-1]
            result.append(len(run))
            spans.append((run.start if run else 0, len(run), run.step))
        else:
            spans.append((range(n)[part], 1, 1))
    return spans, result, backward


# -- indexing --------------------------------------------------------------------------------------------------------
def _walked_together(function: Callable[..., Array], batch_dims: int) -> Callable[..., Array]:
    """Map a function over batch axes."""
    for _ in range(batch_dims):
        function = jax.vmap(function)
    return function


def take(x: Array, indices: Array, *, axis: int, batch_dims: int = 0) -> Array:
    """Known indices were checked before; XLA clips those that are out of range."""
    at = axis - batch_dims

    def one(x: Array, indices: Array) -> Array:
        if _has_no_element(x.shape[at : at + 1]):
            return jnp.zeros((*x.shape[:at], *jnp.shape(indices), *x.shape[at + 1 :]), x.dtype)
        return jnp.take(x, indices, axis=at, mode="clip")

    return _walked_together(one, batch_dims)(jnp.asarray(x), jnp.asarray(indices))


def _has_no_element(shape: Sequence[Any]) -> bool:
    """Whether there is nothing to take, as in the body of a loop that runs 0 times: JAX traces that, too."""
    return builtins.any(isinstance(n, int) and n == 0 for n in shape)


@in_float32
def add_rows(values: Array, indices: Array, *, shape: Axes) -> Array:
    flat = jnp.reshape(values, (-1, *shape[1:])) if jnp.ndim(indices) != 1 else values
    return jax.ops.segment_sum(flat, jnp.ravel(indices), num_segments=shape[0])


def coordinates(indices: Array) -> tuple[Array, ...]:
    """Split indices whose last axis has coordinates into one array for each coordinate."""
    return tuple(indices[..., i] for i in range(indices.shape[-1]))


def gather_nd(x: Array, indices: Array, *, batch_dims: int = 0) -> Array:
    def one(x: Array, indices: Array) -> Array:
        if not indices.shape[-1]:  # coordinates of length 0 select the whole tensor
            return jnp.broadcast_to(x, (*indices.shape[:-1], *x.shape))
        if _has_no_element(x.shape[: indices.shape[-1]]):
            return jnp.zeros((*indices.shape[:-1], *x.shape[indices.shape[-1] :]), x.dtype)
        return x.at[coordinates(indices)].get(mode="clip")

    return _walked_together(one, batch_dims)(jnp.asarray(x), jnp.asarray(indices))


@in_float32
def scatter_nd(updates: Array, indices: Array, *, shape: Axes, batch_dims: int = 0) -> Array:
    row = shape[batch_dims:]

    def one(updates: Array, indices: Array) -> Array:
        if not indices.shape[-1]:
            return jnp.sum(jnp.reshape(updates, (-1, *row)), axis=0, dtype=updates.dtype)
        return jnp.zeros(row, updates.dtype).at[coordinates(indices)].add(updates)

    return _walked_together(one, batch_dims)(jnp.asarray(updates), jnp.asarray(indices))


def replace_nd(x: Array, updates: Array, indices: Array) -> Array:
    return jnp.asarray(x).at[coordinates(indices)].set(updates)


def one_hot(indices: Array, *, depth: int, dtype: Any) -> Array:
    return (indices[..., None] == jnp.arange(depth, dtype=indices.dtype)).astype(dtype)


def take_along_axis(x: Array, indices: Array, *, axis: int) -> Array:
    return jnp.take_along_axis(x, indices, axis, mode="clip")


@in_float32
def put_along_axis(x: Array, indices: Array, *, axis: int, size: int) -> Array:
    def one(x: Array, indices: Array) -> Array:
        return jnp.zeros((size,), x.dtype).at[indices].add(x)

    ends = [jnp.moveaxis(a, axis, -1) for a in (x, jnp.broadcast_to(indices, x.shape))]
    return jnp.moveaxis(_walked_together(one, jnp.ndim(x) - 1)(*ends), -1, axis)


# -- linear algebra --------------------------------------------------------------------------------------------------
def matmul(x: Array, y: Array, *, adjoint_x: bool = False, adjoint_y: bool = False) -> Array:
    """One product; XLA reads a transposed operand in place, and accumulates float16 and bfloat16 in float32."""
    if x.ndim < 2 or y.ndim < 2:
        raise ValueError("matmul multiplies matrices")
    if adjoint_x:
        x = conj(jnp.swapaxes(x, -1, -2))
    if adjoint_y:
        y = conj(jnp.swapaxes(y, -1, -2))
    return jnp.matmul(x, y)


def einsum(*xs: Array, equation: str) -> Array:
    """XLA accumulates a product of two half-precision arrays in float32, but not sums before and between products."""
    if not is_half(xs[0].dtype) or _is_one_product(equation):
        return jnp.einsum(equation, *xs)
    return jnp.einsum(equation, *map(widened, xs)).astype(xs[0].dtype)


@lru_cache(maxsize=256)
def _is_one_product(equation: str) -> bool:
    """Whether there are two operands, and no axis of only one of them is summed."""
    inputs, _, output = equation.partition("->")
    operands = inputs.split(",")
    return len(operands) == 2 and set(operands[0]) ^ set(operands[1]) <= set(output)


def from_numpy(x: Array) -> Array:
    """Uncommitted: an op moves it to the device of its other operands."""
    return jnp.asarray(x)


def alongside(x: Array, y: Array) -> Array:
    if len(y.sharding.device_set) > 1 and np.shape(x) != y.shape:  # it cannot be divided like `y`
        return jnp.asarray(x)
    return jax.device_put(x, y.sharding) if isinstance(x, jax.core.Tracer) else put(x, y.sharding)


def transfer(x: Array, *, device: Any, source: Any) -> Array:
    """NumPy gets a view of host memory, which neither of them writes to. Programs stay where they are."""
    if isinstance(x, jax.core.Tracer):
        return jax.lax.with_sharding_constraint(x, device) if hasattr(device, "mesh") else x
    return np.asarray(x) if device is None else put(x, device)


def concrete_only(x: Array, op: str) -> None:
    """Raise an error for an op whose result shape depends on values, while a program is compiled."""
    if isinstance(x, jax.core.Tracer):
        raise only_eager(
            ValueError(
                f"The shape of the result of {op} depends on the values of its input, but a compiled program has "
                f"fixed shapes; the input here is a value of a program that is being compiled ({x.aval}). Call it "
                "outside the compiled function, or use a form with a fixed size."
            )
        )
