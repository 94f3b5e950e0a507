"""NumPy's products of vectors and matrices, and polynomials."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape._src import errors
from gradtape._src.numpy_api.shapes import moveaxis, ravel
from gradtape._src.numpy_api.types import promoted, sizes
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array, linalg, math as tf_math
from gradtape._src.tf.array import cast


def matmul(x1: Any, x2: Any) -> Tensor:
    """The product of matrices and vectors.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.matmul([[1, 2]], [3, 4]).numpy()
    array([11])
    """
    a, b = promoted(x1, x2)
    if a.dtype.is_bool:
        return cast(matmul(cast(a, "int32"), cast(b, "int32")), "bool")
    if b.shape.rank == 1 and a.shape.rank:
        return linalg.tensordot(a, b, axes=[[-1], [-1]])
    if a.shape.rank == 1 and (b.shape.rank or 0) > 1:
        return linalg.tensordot(a, b, axes=[[0], [-2]])
    try:
        return linalg.matmul(a, b)
    except errors.InvalidArgumentError as error:  # TensorFlow converts the class, as users of NumPy expect
        raise ValueError(error.message) from None


def dot(a: Any, b: Any) -> Tensor:
    """NumPy's product: of scalars, vectors, matrices, or over the last axis and the last but one.

    >>> import gradtape as tf
    >>> int(tf.experimental.numpy.dot([1, 2], [3, 4]))
    11
    """
    x, y = promoted(a, b)
    if x.dtype.is_bool:
        return cast(dot(cast(x, "int32"), cast(y, "int32")), "bool")
    if not x.shape.rank or not y.shape.rank:
        return x * y
    return linalg.tensordot(x, y, axes=[[-1], [-1 if y.shape.rank == 1 else -2]])


def inner(a: Any, b: Any) -> Tensor:
    """Products summed over the last axes.

    >>> import gradtape as tf
    >>> int(tf.experimental.numpy.inner([1, 2], [3, 4]))
    11
    """
    x, y = promoted(a, b)
    if not x.shape.rank or not y.shape.rank:
        return x * y
    return linalg.tensordot(x, y, axes=[[-1], [-1]])


def outer(a: Any, b: Any) -> Tensor:
    """All products of two flattened arrays.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.outer([1, 2], [3, 4]).numpy().tolist()
    [[3, 4], [6, 8]]
    """
    x, y = promoted(a, b)
    return array.reshape(x, [-1, 1]) * ravel(y)


def vdot(a: Any, b: Any) -> Tensor:
    """The product of two flattened arrays, the first one conjugated.

    >>> import gradtape as tf
    >>> int(tf.experimental.numpy.vdot([1, 2], [3, 4]))
    11
    """
    x, y = promoted(a, b)
    return linalg.tensordot(tf_math.conj(ravel(x)), ravel(y), axes=[[-1], [-1]])


def tensordot(a: Any, b: Any, axes: Any = 2) -> Tensor:
    """Products summed over axes.

    >>> import gradtape as tf
    >>> int(tf.experimental.numpy.tensordot([1, 2], [3, 4], axes=1))
    11
    """
    x, y = promoted(a, b)
    return linalg.tensordot(x, y, axes)


def einsum(subscripts: str, *operands: Any, **kwargs: Any) -> Tensor:
    """Einstein's sum.

    >>> import gradtape as tf
    >>> int(tf.experimental.numpy.einsum("i,i", [1, 2], [3, 4]))
    11
    """
    if kwargs.get("casting", "safe") != "safe":
        raise ValueError(f"Unsupported value for argument casting={kwargs['casting']}: only 'safe' is supported.")
    return linalg.einsum(subscripts, *promoted(*operands))


def kron(a: Any, b: Any) -> Tensor:
    """Kronecker's product.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.kron([1, 2], [1, 10]).numpy()
    array([ 1, 10,  2, 20])
    """
    x, y = promoted(a, b)
    rank = np.maximum(x.shape.rank or 0, y.shape.rank or 0)
    x, y = (array.reshape(each, [1] * (int(rank) - len(each.shape)) + sizes(each)) for each in (x, y))
    separated = array.reshape(x, [n for size in sizes(x) for n in (size, 1)])
    inserted = array.reshape(y, [n for size in sizes(y) for n in (1, size)])
    return array.reshape(separated * inserted, [m * n for m, n in zip(sizes(x), sizes(y), strict=True)])


def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Tensor:
    """The cross product of vectors of two or three numbers.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.cross([1, 0, 0], [0, 1, 0]).numpy()
    array([0, 0, 1])
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = promoted(a, b)
    x, y = moveaxis(x, axisa, -1), moveaxis(y, axisb, -1)
    for each in (x, y):
        if each.shape[-1] not in (2, 3):
            raise ValueError("Incompatible dimensions for cross product. The dimension must be 2 or 3")
    if x.shape[-1] == y.shape[-1] == 2:
        return x[..., 0] * y[..., 1] - x[..., 1] * y[..., 0]
    (x0, x1, x2), (y0, y1, y2) = _three(x), _three(y)
    parts = (x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0)
    return moveaxis(array.stack(parts, -1), -1, axisc)


def _three(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    third = x[..., 2] if x.shape[-1] == 3 else array.zeros_like(x[..., 0])
    return x[..., 0], x[..., 1], third


def polyval(p: Any, x: Any) -> Tensor:
    """The value of a polynomial; the highest coefficient comes first.

    >>> import gradtape as tf
    >>> float(tf.experimental.numpy.polyval([1.0, 2.0], 3.0))
    5.0
    """
    coefficients, at = promoted(p, x)
    if coefficients.shape.rank == 0:
        coefficients = array.reshape(coefficients, [1])
    value = tf_math.polyval(list(array.unstack(coefficients)), at)
    return value if coefficients.shape[0] != 1 else array.broadcast_to(value, at.shape)  # a constant has the shape of x


__all__ = (
    "cross",
    "dot",
    "einsum",
    "inner",
    "kron",
    "matmul",
    "outer",
    "polyval",
    "tensordot",
    "vdot",
)
