"""Special functions and activations under TensorFlow's names; `tf/math.py` and `tf/nn.py` list them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.symbolic import is_known
from gradtape._src.conversion import convert, converter_of, is_library, operand, operands, wrap
from gradtape._src.core.composites import dispatched
from gradtape._src.dtypes import float32
from gradtape._src.ops import array, math, reduce, special as ops
from gradtape._src.ops.operators import no_zeros
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import axis_of, tensor_or, truth
from gradtape._src.tf.array import cast

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike

# -- functions of one tensor: the primitives themselves --------------------------------------------------------------
erf, erfc, erfinv, ndtri = ops.erf, ops.erfc, ops.erfinv, ops.ndtri
lgamma, digamma = ops.lgamma, ops.digamma
bessel_i0, bessel_i0e, bessel_i1, bessel_i1e = ops.bessel_i0, ops.bessel_i0e, ops.bessel_i1, ops.bessel_i1e
xlogy, xlog1py, xdivy = ops.xlogy, ops.xlog1py, ops.xdivy

special = SimpleNamespace(
    bessel_i0=bessel_i0,
    bessel_i0e=bessel_i0e,
    bessel_i1=bessel_i1,
    bessel_i1e=bessel_i1e,
    bessel_j0=ops.bessel_j0,
    bessel_j1=ops.bessel_j1,
    bessel_k0=ops.bessel_k0,
    bessel_k0e=ops.bessel_k0e,
    bessel_k1=ops.bessel_k1,
    bessel_k1e=ops.bessel_k1e,
    bessel_y0=ops.bessel_y0,
    bessel_y1=ops.bessel_y1,
    dawsn=ops.dawsn,
    expint=ops.expint,
    fresnel_cos=ops.fresnel_cos,
    fresnel_sin=ops.fresnel_sin,
    spence=ops.spence,
)


@dispatched
def erfcinv(x: TensorLike, name: str | None = None) -> Tensor:
    """Compute the inverse of erfc.

    >>> tf.math.erfcinv([0.5, 1.0]).numpy().round(4)
    array([0.4769, 0.    ], dtype=float32)
    """
    result: Tensor = ops.erfcinv(x)
    return result


# -- functions of several --------------------------------------------------------------------------------------------
@dispatched
def polygamma(a: TensorLike, x: TensorLike, name: str | None = None) -> Tensor:
    """Compute the derivative of order `a` of digamma; NaN if `a` is not a whole number. Only x has a gradient.

    >>> tf.math.polygamma(1.0, [1.0, 2.0]).numpy().round(4)
    array([1.6449, 0.6449], dtype=float32)
    """
    result: Tensor = ops.polygamma(a, x)
    return result


@dispatched
def zeta(x: TensorLike, q: Any, name: str | None = None) -> Tensor:
    """Compute the Hurwitz zeta function, the sum of (q + k)**-x over k = 0, 1, ... Only q has a gradient.

    >>> tf.math.zeta(2.0, [1.0, 2.0]).numpy().round(4)
    array([1.6449, 0.6449], dtype=float32)
    """
    result: Tensor = ops.zeta(x, q)
    return result


@dispatched
def igamma(a: TensorLike, x: TensorLike, name: str | None = None) -> Tensor:
    """Compute the regularized lower incomplete gamma function P(a, x); both arguments have gradients of every order.

    >>> tf.math.igamma(2.0, [1.0, 3.0]).numpy().round(4)
    array([0.2642, 0.8009], dtype=float32)
    """
    result: Tensor = ops.igamma(a, x)
    return result


@dispatched
def igammac(a: TensorLike, x: TensorLike, name: str | None = None) -> Tensor:
    """Compute the regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x), accurately where it is small.

    >>> tf.math.igammac(2.0, [1.0, 30.0]).numpy()
    array([7.3575890e-01, 2.9008631e-12], dtype=float32)
    """
    result: Tensor = ops.igammac(a, x)
    return result


@dispatched
def betainc(a: TensorLike, b: TensorLike, x: TensorLike, name: str | None = None) -> Tensor:
    """Compute the regularized incomplete beta function. Only x has a gradient, as in TensorFlow.

    The arguments must have the same shape, except for scalars.

    >>> tf.math.betainc(1.0, 2.0, [0.25, 0.5]).numpy().tolist()
    [0.4375, 0.75]
    """
    known = next((v for v in (a, b, x) if isinstance(v, Tensor) or converter_of(v) is not None), a)
    dtype = operand(known).dtype  # a tensor decides the dtype of plain values
    a, b, x = (operand(v, dtype) for v in (a, b, x))
    for other in (b, x):
        if other.array.dtype != a.array.dtype:
            raise errors.mismatched_dtypes("Betainc", a.dtype, other.dtype)
    if not a.dtype.is_floating:
        raise errors.unsupported_dtype("Betainc", a.dtype)
    for first, second, names in ((a, b, "a and b"), (a, x, "a and x"), (b, x, "b and x")):
        shapes = first.array.shape, second.array.shape
        if all(shapes) and shapes[0] != shapes[1]:
            raise errors.invalid_argument(
                f"Shapes of {names} are inconsistent: {errors.brackets(shapes[0])} vs. "
                f"{errors.brackets(shapes[1])}. Use tf.broadcast_to to give them the same shape.",
                "Betainc",
            )
    result: Tensor = ops.betainc(a, b, x)
    return result


def lbeta(x: TensorLike, name: str | None = None) -> Tensor:
    """Compute the logarithm of the beta function of the vectors along the last axis.

    >>> tf.math.lbeta([[1.0, 2.0], [3.0, 4.0]]).numpy().round(4)
    array([-0.6931, -4.0943], dtype=float32)
    """
    x = operand(x)
    last = axis_of(-1, len(x.array.shape), "Sum")
    logs = reduce.sum_(ops.lgamma(x), axis=(last,), keepdims=False)
    result: Tensor = logs - ops.lgamma(reduce.sum_(x, axis=(last,), keepdims=False))
    return result


@dispatched
def divide_no_nan(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Compute x / y, and 0 where y is 0; integers are divided as floats.

    >>> tf.math.divide_no_nan([1.0, 2.0], [0.0, 4.0]).numpy().tolist()
    [0.0, 0.5]
    """
    x, y = operands(x, y)
    if x.array.dtype != y.array.dtype:
        raise TypeError(f"`x` and `y` must have the same dtype, got {x.dtype!r} != {y.dtype!r}.")
    if x.array.dtype.kind in "iu":
        wide = np.dtype(np.float64 if x.array.dtype.itemsize > 2 else np.float32)
        x, y = (wrap(t.array.astype(wide)) for t in (x, y))
    result: Tensor = math.divide_no_nan(x, y)
    return result


@dispatched
def reciprocal_no_nan(x: TensorLike, name: str | None = None) -> Tensor:
    """Compute 1 / x, and 0 where x is 0.

    >>> tf.math.reciprocal_no_nan([2.0, 0.0]).numpy().tolist()
    [0.5, 0.0]
    """
    x = operand(x)
    if x.array.dtype.kind in "iub":
        raise errors.unsupported_dtype("DivNoNan", x.dtype)
    result: Tensor = math.divide_no_nan(operand(1, x.dtype), x)
    return result


@dispatched
def nextafter(x1: TensorLike, x2: TensorLike, name: str | None = None) -> Tensor:
    """Return the next representable number after x1 in the direction of x2.

    >>> float(tf.math.nextafter(1.0, 2.0)) - 1
    1.1920928955078125e-07
    """
    tensors = is_library(x1) or is_library(x2)
    x, y = operands(x1, x2) if tensors else (tensor_or(v, float32, ("float64",)) for v in (x1, x2))
    if x.array.dtype.itemsize < 4:
        raise errors.unsupported_dtype("NextAfter", x.dtype)
    result: Tensor = ops.nextafter(x, y)
    return result


@dispatched
def truncatediv(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Divide, rounding toward zero.

    >>> tf.truncatediv([7, -7], [2, 2]).numpy().tolist()
    [3, -3]
    """
    x, y = operands(x, y)
    if x.dtype.is_complex:
        raise errors.no_kernel("TruncateDiv", x.dtype)
    result: Tensor = ops.truncate_divide(x, no_zeros(x, y, "TruncateDiv"))
    return result


# -- activations -----------------------------------------------------------------------------------------------------
@dispatched
def relu6(features: TensorLike, name: str | None = None) -> Tensor:
    """Clip x to [0, 6].

    >>> tf.nn.relu6([-1.0, 3.0, 8.0]).numpy().tolist()
    [0.0, 3.0, 6.0]
    """
    result: Tensor = ops.relu6(features)
    return result


@dispatched
def leaky_relu(features: TensorLike, alpha: float = 0.2, name: str | None = None) -> Tensor:
    """Compute x where x is positive, alpha * x elsewhere; integers become float32.

    >>> tf.nn.leaky_relu([-1.0, 2.0]).numpy().tolist()
    [-0.2..., 2.0]
    """
    x = convert(features)
    if x.dtype.is_integer:
        x = wrap(x.array.astype(np.float32))
    if not x.dtype.is_floating:
        raise errors.unsupported_dtype("LeakyRelu", x.dtype, "half, bfloat16, float, double")
    slope = _slope(alpha)
    if not is_known(slope):
        scaled: Tensor = math.where(math.greater(x, 0), x, x * cast(array.stop_gradient(slope), x.dtype))
        return scaled
    result: Tensor = ops.leaky_relu(x, alpha=float(np.asarray(slope.array)))
    return result


def _slope(alpha: Any) -> Tensor:
    """The attribute alpha, which may also be a floating-point scalar tensor."""
    if alpha is None:
        return operand(0.2, float32)
    if is_library(alpha) and not isinstance(alpha, (list, tuple)):
        slope = operand(alpha)
        if slope.dtype.is_floating and not slope.array.shape:
            return slope
    elif isinstance(alpha, (int, float, np.floating, np.integer)):
        return operand(float(alpha), float32)
    raise TypeError(f"Expected float for argument 'alpha' not {alpha!r}.")


@dispatched
def elu(features: TensorLike, name: str | None = None) -> Tensor:
    """Compute x where x is positive, exp(x) - 1 elsewhere.

    >>> tf.nn.elu([-1.0, 2.0]).numpy().round(4)
    array([-0.6321,  2.    ], dtype=float32)
    """
    result: Tensor = ops.elu(features)
    return result


@dispatched
def selu(features: TensorLike, name: str | None = None) -> Tensor:
    """Compute the scaled exponential linear unit, which preserves mean 0 and variance 1.

    >>> tf.nn.selu([-1.0, 1.0]).numpy().round(4)
    array([-1.1113,  1.0507], dtype=float32)
    """
    result: Tensor = ops.selu(features)
    return result


@dispatched
def gelu(features: TensorLike, approximate: bool = False, name: str | None = None) -> Tensor:
    """Compute x times the standard normal distribution function of x, or the tanh approximation of it.

    >>> tf.nn.gelu([-1.0, 1.0]).numpy().round(4)
    array([-0.1587,  0.8413], dtype=float32)
    """
    x = convert(features)
    if not x.dtype.is_floating:
        raise ValueError(f"`features.dtype` must be a floating point tensor. Received: features.dtype={x.dtype}")
    result: Tensor = ops.gelu_tanh(x) if truth(approximate) else ops.gelu(x)
    return result


@dispatched
def silu(features: Any, beta: Any = 1.0) -> Tensor:
    """Compute x * sigmoid(beta * x).

    >>> tf.nn.silu([-1.0, 1.0]).numpy().round(4)
    array([-0.2689,  0.7311], dtype=float32)
    """
    x = operand(features)
    if x.array.dtype.kind in "iub":
        raise errors.unsupported_dtype("Sigmoid", x.dtype, "fc")
    if type(beta) is float and beta == 1.0:
        result: Tensor = ops.silu(x)
        return result
    result = x * math.sigmoid(x * cast(operand(beta), x.dtype))
    return result


@dispatched
def softsign(features: TensorLike, name: str | None = None) -> Tensor:
    """Compute x / (1 + |x|).

    >>> tf.nn.softsign([-1.0, 3.0]).numpy().tolist()
    [-0.5, 0.75]
    """
    result: Tensor = ops.softsign(features)
    return result


def crelu(features: TensorLike, axis: Any = -1, name: str | None = None) -> Tensor:
    """Concatenate relu(x) and relu(-x) along an axis.

    >>> tf.nn.crelu([-1.0, 2.0]).numpy().tolist()
    [0.0, 2.0, 1.0, 0.0]
    """
    x = operand(features)
    at = axis_of(axis, len(x.array.shape), "ConcatV2")
    both = array.concatenate(x, -x, axis=at)
    result: Tensor = math.relu(both)
    return result
