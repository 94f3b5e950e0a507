"""`keras.ops.linalg` over gradtape."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from keras.src import tree

from gradtape._src.autodiff.forward_accumulator import ForwardAccumulator
from gradtape._src.keras_backend import numpy as knp
from gradtape._src.keras_backend._common import (
    along,
    axes_of,
    cast,
    constant,
    convert_to_tensor,
    expand,
    floats,
    kept_dims,
    move,
    promoted,
    result_type,
    shape as sizes_of,
)
from gradtape._src.ops import array as ops, linalg, math, reduce
from gradtape._src.tf import decompositions as tf, linear_systems


def _adjoint(x):
    return knp.conjugate(knp.swapaxes(x, -1, -2))


# -- inverses and systems --------------------------------------------------------------------------------------------
def det(a):
    return tf.det(floats(a))


def inv(a):
    return tf.inv(floats(a))


def pinv(x, rcond=None):
    x = floats(x)
    return tf.pinv(x, _relative_cut(x) if rcond is None else rcond)


def _relative_cut(x):
    """The relative tolerance below which singular values count as zero."""
    return float(ml_dtypes.finfo(x.array.dtype).eps) * max(sizes_of(x)[-2:])


def _columns(function, a, b):
    """Apply a function of a matrix and columns to columns or to a vector."""
    a, b = promoted(a, b, also=(float,))
    if len(sizes_of(b)) != len(sizes_of(a)) - 1:
        return function(a, b)
    return knp.squeeze(function(a, expand(b, -1)), -1)


def solve(a, b):
    return _columns(linear_systems.solve, a, b)


def solve_triangular(a, b, lower=False):
    return _columns(lambda matrix, columns: linear_systems.triangular_solve(matrix, columns, lower=lower), a, b)


def lstsq(a, b, rcond=None):
    return _columns(lambda matrix, columns: linalg.matmul(pinv(matrix, rcond), columns), a, b)


# -- factorisations --------------------------------------------------------------------------------------------------
def cholesky(a, upper=False):
    lower = tf.cholesky(floats(a))
    return _adjoint(lower) if upper else lower


def cholesky_inverse(a, upper=False):
    a = floats(a)
    inverse = linear_systems.triangular_solve(a, knp.eye(sizes_of(a)[-1], dtype=a.dtype), lower=not upper)
    return linalg.matmul(inverse, _adjoint(inverse)) if upper else linalg.matmul(_adjoint(inverse), inverse)


def eig(a):
    return tuple(tf.eig(floats(a)))


def eigh(a):
    return tuple(tf.eigh(floats(a)))


def qr(x, mode="reduced"):
    if mode not in ("reduced", "complete"):
        raise ValueError(
            f"`mode` argument value not supported. Expected one of {{'reduced', 'complete'}}. Received: mode={mode}"
        )
    return tuple(tf.qr(floats(x), full_matrices=mode == "complete"))


def svd(x, full_matrices=True, compute_uv=True):
    if not compute_uv:
        return tf.svd(floats(x), compute_uv=False)
    values, left, right = tf.svd(floats(x), full_matrices=full_matrices)
    return left, values, _adjoint(right)


def lu_factor(a):
    """LU decomposition with row exchanges: L below the diagonal, U on and above it, and the row of each pivot."""
    a = floats(a)
    *lead, rows, columns = sizes_of(a)
    matrix_axis, places = len(lead), np.arange(rows)
    exchanged = []
    for i in range(min(rows, columns)):
        candidates = math.absolute(a[..., i:, i])
        top = cast(reduce.argmax(candidates, axis=matrix_axis), "int32") + i
        exchanged.append(top)
        top = expand(top, -1)
        here = constant(places, top)
        order = math.where(math.equal(here, top), constant(i, top), here)
        order = math.where(constant(places == i, "bool"), top, order)
        a = along(a, expand(order, -1), matrix_axis)
        pivot = a[..., i : i + 1, i : i + 1]
        safe = math.where(math.equal(pivot, 0), knp.ones_like(pivot), pivot)
        factors = a[..., i + 1 :, i : i + 1] / safe
        rest = a[..., i + 1 :, i + 1 :] - factors * a[..., i : i + 1, i + 1 :]
        below = ops.concatenate(a[..., i + 1 :, :i], factors, rest, axis=matrix_axis + 1)
        a = ops.concatenate(a[..., : i + 1, :], below, axis=matrix_axis)
    return a, ops.stack(*exchanged, axis=matrix_axis)


# -- sizes -----------------------------------------------------------------------------------------------------------
def norm(x, ord=None, axis=None, keepdims=False):
    x = convert_to_tensor(x)
    if not (x.dtype.is_floating or x.dtype.is_complex):
        x = cast(x, result_type(x, "float32"))
    rank = len(sizes_of(x))
    if axis is None and ord is None:
        return _euclidean(x, axes_of(None, rank), keepdims)
    if axis is None and rank > 2:
        raise ValueError(f"Improper number of dimensions to norm. Received: x.shape={sizes_of(x)}, ord={ord}")
    axes = axes_of(axis, rank)
    if len(axes) == 1:
        return _vector_norm(x, ord, axes, keepdims)
    if len(axes) == 2:
        return _matrix_norm(x, ord, axes, keepdims)
    raise ValueError(f"Invalid axis values. Received: axis={axis}")


def _euclidean(x, axes, keepdims):
    squares = math.real(x * math.conj(x)) if x.dtype.is_complex else math.square(x)
    return math.sqrt(reduce.sum_(squares, axis=axes, keepdims=keepdims))


def _vector_norm(x, ord, axes, keepdims):
    if ord is None or ord == 2:
        return _euclidean(x, axes, keepdims)
    if isinstance(ord, str):
        raise ValueError(f"Invalid `ord` argument for vector norm. Received: ord={ord}")
    size = math.absolute(x)
    if ord == np.inf:
        return reduce.max_(size, axis=axes, keepdims=keepdims)
    if ord == -np.inf:
        return reduce.min_(size, axis=axes, keepdims=keepdims)
    if ord == 0:
        return reduce.sum_(cast(math.not_equal(size, 0), size.dtype), axis=axes, keepdims=keepdims)
    if ord == 1:
        return reduce.sum_(size, axis=axes, keepdims=keepdims)
    powers = reduce.sum_(math.power(size, constant(ord, size)), axis=axes, keepdims=keepdims)
    return math.power(powers, constant(1 / ord, size))


def _matrix_norm(x, ord, axes, keepdims):
    rows, columns = axes
    if ord is None or ord == "fro":
        return _euclidean(x, axes, keepdims)
    if ord in (1, -1, np.inf, -np.inf):
        over, then = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = reduce.sum_(math.absolute(x), axis=(over,), keepdims=True)
        found = (reduce.max_ if ord > 0 else reduce.min_)(sums, axis=(then,), keepdims=True)
    elif ord in (2, -2, "nuc"):
        values = tf.svd(move(x, axes, (-2, -1)), compute_uv=False)
        reduction = reduce.sum_ if ord == "nuc" else reduce.max_ if ord == 2 else reduce.min_
        found = reduction(values, axis=(len(sizes_of(values)) - 1,), keepdims=False)
    else:
        raise ValueError(f"Invalid `ord` argument for matrix norm. Received: ord={ord}")
    kept = kept_dims(sizes_of(x), axes)
    return ops.reshape(found, shape=kept if keepdims else tuple(n for i, n in enumerate(kept) if i not in axes))


def matrix_rank(x, tol=None):
    x = floats(x)
    if len(sizes_of(x)) < 2:
        raise ValueError(f"Expected input to have rank >= 2. Received input with shape {sizes_of(x)}.")
    values = tf.svd(x, compute_uv=False)
    last = len(sizes_of(values)) - 1
    if tol is None:
        tol = reduce.max_(values, axis=(last,), keepdims=True) * _relative_cut(x)
    else:
        tol = expand(convert_to_tensor(tol, values.dtype), -1)
    return reduce.sum_(cast(math.greater(values, tol), "int32"), axis=(last,), keepdims=False)


# -- forward mode ----------------------------------------------------------------------------------------------------
def jvp(fun, primals, tangents, has_aux=False):
    """The value of a function, and its directional derivative along the tangents."""
    primals = tree.map_structure(knp.copy, primals)
    points = tree.flatten(primals)
    moves = [cast(convert_to_tensor(t), p.dtype) for t, p in zip(tree.flatten(tangents), points, strict=True)]
    with ForwardAccumulator(points, moves) as accumulator:
        results = fun(*primals)
        values, aux = results if has_aux else (results, None)
        changes = tree.map_structure(lambda value: _change(accumulator, value), values)
    return (values, changes, aux) if has_aux else (values, changes)


def _change(accumulator, value):
    found = accumulator.jvp(value)
    return knp.zeros_like(value) if found is None else found
