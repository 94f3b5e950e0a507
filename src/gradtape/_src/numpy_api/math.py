"""Elementwise functions, comparisons, reductions and products, with NumPy's promotion."""

from __future__ import annotations

import math as _math
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.dtypes import as_dtype
from gradtape._src.numpy_api.shapes import moveaxis, ravel
from gradtape._src.numpy_api.types import (
    default_dtype,
    floating,
    numpy_result_type,
    promoted,
    sizes,
    tensor,
    wanted_dtype,
)
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array, bitwise as tf_bitwise, linalg, math as tf_math, special
from gradtape._src.tf.array import cast
from gradtape._src.tf.control_flow import while_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


# -- declarations ----------------------------------------------------------------------------------------------------
def _unary(name: str, function: Callable[[Tensor], Any], doc: str, to_float: bool = False) -> Any:
    """A function of one array; `to_float` computes integers in the default floating dtype."""

    def call(x: Any) -> Any:
        given = tensor(x)
        return function(floating(given) if to_float else given)

    return _named(call, name, doc)


def _binary(
    name: str,
    function: Callable[[Tensor, Tensor], Any],
    doc: str,
    to_float: bool = False,
    of_bools: Callable[[Tensor, Tensor], Any] | None = None,
) -> Any:
    """A function of two arrays of one dtype; `of_bools` is what it means for booleans, if anything else."""

    def call(x1: Any, x2: Any) -> Any:
        a, b = promoted(x1, x2)
        if to_float:
            a, b = floating(a), floating(b)
        if of_bools is not None and a.dtype.is_bool:
            return of_bools(a, b)
        return function(a, b)

    return _named(call, name, doc)


def _named(call: Any, name: str, doc: str) -> Any:
    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc
    return call


def _as_bools(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs: function(*(cast(x, "bool") for x in xs))


def _as_int8(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs: function(*(cast(x, "int8") for x in xs))


# -- of one array ----------------------------------------------------------------------------------------------------
def _sinc(x: Tensor) -> Tensor:
    scaled = x * np.pi
    safe = array.where(tf_math.equal(x, 0), array.ones_like(x), scaled)
    return array.where(tf_math.equal(x, 0), array.ones_like(x), tf_math.sin(safe) / safe)


absolute = _unary("absolute", tf_math.abs, "The absolute value of each element.")
arccos = _unary("arccos", tf_math.acos, "The inverse cosine.", True)
arccosh = _unary("arccosh", tf_math.acosh, "The inverse hyperbolic cosine.", True)
arcsin = _unary("arcsin", tf_math.asin, "The inverse sine.", True)
arcsinh = _unary("arcsinh", tf_math.asinh, "The inverse hyperbolic sine.", True)
arctan = _unary("arctan", tf_math.atan, "The inverse tangent.", True)
arctanh = _unary("arctanh", tf_math.atanh, "The inverse hyperbolic tangent.", True)
cbrt = _unary("cbrt", lambda x: tf_math.sign(x) * tf_math.pow(tf_math.abs(x), 1.0 / 3), "The cube root.", True)
ceil = _unary("ceil", tf_math.ceil, "The smallest integer that is not below.", True)
conjugate = _unary("conjugate", tf_math.conj, "The complex conjugate.")
cos = _unary("cos", tf_math.cos, "The cosine.", True)
cosh = _unary("cosh", tf_math.cosh, "The hyperbolic cosine.", True)
deg2rad = _unary("deg2rad", lambda x: x * (np.pi / 180.0), "Degrees as radians.", True)
exp = _unary("exp", tf_math.exp, "e to the power of each element.", True)
exp2 = _unary("exp2", lambda x: tf_math.pow(tensor(2, x.dtype), x), "2 to the power of each element.", True)
expm1 = _unary("expm1", tf_math.expm1, "exp(x) - 1.", True)
fabs = _unary("fabs", tf_math.abs, "The absolute value.")
fix = _unary("fix", lambda x: array.where(x < 0, tf_math.ceil(x), tf_math.floor(x)), "The integer towards 0.", True)
floor = _unary("floor", tf_math.floor, "The largest integer that is not above.", True)
isfinite = _unary("isfinite", tf_math.is_finite, "Whether elements are neither infinite nor NaN.", True)
isinf = _unary("isinf", tf_math.is_inf, "Whether elements are infinite.", True)
isnan = _unary("isnan", tf_math.is_nan, "Whether elements are NaN.", True)
isneginf = _unary("isneginf", lambda x: tf_math.equal(x, tensor(-np.inf, x.dtype)), "Whether elements are -inf.", True)
isposinf = _unary("isposinf", lambda x: tf_math.equal(x, tensor(np.inf, x.dtype)), "Whether elements are inf.", True)
log = _unary("log", tf_math.log, "The natural logarithm.", True)
log10 = _unary("log10", lambda x: tf_math.log(x) / _math.log(10), "The logarithm of base 10.", True)
log1p = _unary("log1p", tf_math.log1p, "log(1 + x).", True)
log2 = _unary("log2", lambda x: tf_math.log(x) / _math.log(2), "The logarithm of base 2.", True)
logical_not = _unary("logical_not", _as_bools(tf_math.logical_not), "Whether elements are false.")
negative = _unary("negative", tf_math.negative, "The elements with the other sign.")
positive = _unary("positive", lambda x: array.identity(x), "The elements as they are.")
reciprocal = _unary("reciprocal", lambda x: tf_math.reciprocal(x), "1 / x.", True)
sin = _unary("sin", tf_math.sin, "The sine.", True)
sinc = _unary("sinc", _sinc, "sin(pi x) / (pi x).", True)
sinh = _unary("sinh", tf_math.sinh, "The hyperbolic sine.", True)
sqrt = _unary("sqrt", tf_math.sqrt, "The square root.", True)
square = _unary("square", tf_math.square, "The square of each element.")
tan = _unary("tan", tf_math.tan, "The tangent.", True)
tanh = _unary("tanh", tf_math.tanh, "The hyperbolic tangent.", True)
bitwise_not = _unary(
    "bitwise_not", lambda x: tf_math.logical_not(x) if x.dtype.is_bool else tf_bitwise.invert(x), "The inverted bits."
)
abs, conj = absolute, conjugate


def rad2deg(x: Any) -> Any:
    """Radians as degrees; a Python number stays one.

    >>> import gradtape as tf
    >>> import numpy as np
    >>> tf.experimental.numpy.rad2deg(np.pi)
    180.0
    """
    return x * (180.0 / np.pi) if isinstance(x, (int, float)) else floating(tensor(x)) * (180.0 / np.pi)


def sign(x: Any, out: Any = None, where: Any = None, **kwargs: Any) -> Tensor:
    """-1, 0 or 1.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.sign([-2.0, 0.0, 3.0]).numpy()
    array([-1.,  0.,  1.])
    """
    for name, value in {"out": out, "where": where, **kwargs}.items():
        if value is not None:
            raise ValueError(f"tf.numpy doesnt support setting {name}.")
    given = tensor(x)
    if given.dtype.is_complex:
        return cast(tf_math.sign(tf_math.real(given)), given.dtype)
    return tf_math.sign(given)


def signbit(x: Any) -> Tensor:
    """Whether elements are negative.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.signbit([1.0, -1.0]).numpy()
    array([False,  True])
    """
    given = tensor(x)
    return array.zeros_like(given) if given.dtype.is_bool else tf_math.less(given, tensor(0, given.dtype))


def angle(z: Any, deg: bool = False) -> Tensor:
    """The angle of complex numbers.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.angle([1j], deg=True).numpy()
    array([90.])
    """
    found = tf_math.angle(floating(tensor(z)))
    return found * (180.0 / np.pi) if deg else found


def real(val: Any) -> Tensor:
    """The real part.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.real([1 + 2j]).numpy()
    array([1.])
    """
    x = tensor(val)
    return tf_math.real(x) if x.dtype.is_complex else x


def imag(val: Any) -> Tensor:
    """The imaginary part.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.imag([1 + 2j]).numpy()
    array([2.])
    """
    x = tensor(val)
    return tf_math.imag(x) if x.dtype.is_complex else array.zeros_like(x)


def iscomplex(x: Any) -> Tensor:
    """Whether elements have an imaginary part."""
    given = tensor(x)
    return tf_math.not_equal(imag(given), tensor(0, imag(given).dtype))


def isreal(x: Any) -> Tensor:
    """Whether elements have no imaginary part."""
    return tf_math.logical_not(iscomplex(x))


def iscomplexobj(x: Any) -> bool:
    """Whether an array has a complex dtype.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.iscomplexobj([1j])
    True
    """
    return bool(tensor(x).dtype.is_complex)


def isrealobj(x: Any) -> bool:
    """Whether an array has no complex dtype."""
    return not iscomplexobj(x)


def around(a: Any, decimals: int = 0) -> Tensor:
    """Numbers rounded to decimals, halves to even ones.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.around([1.25, 2.35], 1).numpy()
    array([1.2, 2.4])
    """
    x = tensor(a)
    wide = floating(x)
    factor = tensor(10.0**decimals, wide.dtype)
    found = tf_math.round(wide * factor) / factor if decimals else tf_math.round(wide)
    return cast(found, x.dtype)


round = around


# -- of two arrays ---------------------------------------------------------------------------------------------------
def _heaviside(x: Tensor, y: Tensor) -> Tensor:
    one = array.where(x < 0, array.zeros_like(x), array.where(x > 0, array.ones_like(x), y))
    return array.where(tf_math.is_nan(x), x, one)


def _logaddexp(a: Tensor, b: Tensor) -> Tensor:
    largest = tf_math.maximum(a, b)
    difference = a - b
    same = tf_math.is_nan(difference)
    return array.where(same, a + b, largest + tf_math.log1p(tf_math.exp(-tf_math.abs(difference))))


def _logaddexp2(a: Tensor, b: Tensor) -> Tensor:
    scale = tensor(_math.log(2), a.dtype)
    return _logaddexp(a * scale, b * scale) / scale


def _gcd(a: Tensor, b: Tensor) -> Tensor:
    shape = array.broadcast_static_shape(a.shape, b.shape)
    x, y = (tf_math.abs(array.broadcast_to(each, shape)) for each in (a, b))

    def step(x: Any, y: Any) -> Any:
        safe = array.where(tf_math.equal(y, 0), array.ones_like(y), y)
        rest = tf_math.floormod(x, safe)
        going = tf_math.not_equal(y, 0)
        return array.where(going, y, x), array.where(going, rest, y)

    found = while_loop(lambda x, y: tf_math.reduce_any(tf_math.not_equal(y, 0)), step, (x, y))
    return found[0]


def _lcm(a: Tensor, b: Tensor) -> Tensor:
    divisor = _gcd(a, b)
    safe = array.where(tf_math.equal(divisor, 0), array.ones_like(divisor), divisor)
    return array.where(tf_math.equal(divisor, 0), array.zeros_like(divisor), tf_math.abs(a * b) // safe)


def _float_power(a: Tensor, b: Tensor) -> Tensor:
    wide = as_dtype(np.result_type(a.dtype.numpy_dtype, default_dtype(float)))
    return tf_math.pow(cast(a, wide), cast(b, wide))


def _over_bools(name: str, doc: str) -> Any:
    return _binary(name, _as_bools(getattr(tf_math, name)), doc)


def _bits(name: str, doc: str) -> Any:
    logical = {"bitwise_and": tf_math.logical_and, "bitwise_or": tf_math.logical_or, "bitwise_xor": tf_math.logical_xor}
    return _binary(name, getattr(tf_bitwise, name), doc, of_bools=logical[name])


add = _binary("add", tf_math.add, "The sum of two arrays; of booleans: either.", of_bools=tf_math.logical_or)
subtract = _binary("subtract", tf_math.subtract, "The difference of two arrays.")
multiply = _binary("multiply", tf_math.multiply, "The product of elements.", of_bools=tf_math.logical_and)
true_divide = _binary("true_divide", tf_math.divide, "The quotient of elements, in a floating dtype.", True)
divide = _named(lambda x1, x2: true_divide(x1, x2), "divide", "The quotient of elements, in a floating dtype.")
floor_divide = _binary(
    "floor_divide", tf_math.floordiv, "The quotient, rounded down.", of_bools=_as_int8(tf_math.floordiv)
)
mod = _binary("mod", tf_math.floormod, "The remainder of `floor_divide`.", of_bools=_as_int8(tf_math.floormod))
remainder = _binary(
    "remainder", tf_math.floormod, "The remainder of `floor_divide`.", of_bools=_as_int8(tf_math.floormod)
)
power = _binary("power", tf_math.pow, "Elements to the power of others.")
float_power = _binary("float_power", _float_power, "Elements to the power of others, in float64.")
maximum = _binary("maximum", tf_math.maximum, "The larger of two elements.", of_bools=tf_math.logical_or)
minimum = _binary("minimum", tf_math.minimum, "The smaller of two elements.", of_bools=tf_math.logical_and)
arctan2 = _binary("arctan2", tf_math.atan2, "The angle of points.", True)
heaviside = _binary("heaviside", _heaviside, "0 below zero, 1 above, and the second array at zero.", True)
hypot = _binary("hypot", lambda a, b: tf_math.sqrt(a * a + b * b), "The length of the hypotenuse.", True)
logaddexp = _binary("logaddexp", _logaddexp, "log(exp(x1) + exp(x2)).", True)
logaddexp2 = _binary("logaddexp2", _logaddexp2, "log2(2**x1 + 2**x2).", True)
nextafter = _binary("nextafter", special.nextafter, "The next floating number towards another.", True)
gcd = _binary("gcd", _gcd, "The greatest common divisor.")
lcm = _binary("lcm", _lcm, "The least common multiple.")
bitwise_and = _bits("bitwise_and", "The bits of both.")
bitwise_or = _bits("bitwise_or", "The bits of either.")
bitwise_xor = _bits("bitwise_xor", "The bits of one alone.")
equal = _binary("equal", tf_math.equal, "Whether elements are equal.")
not_equal = _binary("not_equal", tf_math.not_equal, "Whether elements differ.")
greater = _binary("greater", tf_math.greater, "Whether elements are larger.", of_bools=_as_int8(tf_math.greater))
greater_equal = _binary(
    "greater_equal",
    tf_math.greater_equal,
    "Whether elements are not smaller.",
    of_bools=_as_int8(tf_math.greater_equal),
)
less = _binary("less", tf_math.less, "Whether elements are smaller.", of_bools=_as_int8(tf_math.less))
less_equal = _binary(
    "less_equal", tf_math.less_equal, "Whether elements are not larger.", of_bools=_as_int8(tf_math.less_equal)
)
logical_and = _over_bools("logical_and", "Whether both are true.")
logical_or = _over_bools("logical_or", "Whether one is true.")
logical_xor = _over_bools("logical_xor", "Whether one alone is true.")


def divmod(x1: Any, x2: Any) -> tuple[Tensor, Tensor]:
    """The quotient, rounded down, and the remainder.

    >>> import gradtape as tf
    >>> [int(x) for x in tf.experimental.numpy.divmod(7, 2)]
    [3, 1]
    """
    return floor_divide(x1, x2), mod(x1, x2)


def clip(a: Any, a_min: Any, a_max: Any) -> Tensor:
    """Elements limited to an interval.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.clip([-1, 0, 5], 0, 3).numpy()
    array([0, 0, 3])
    """
    if a_min is None and a_max is None:
        raise ValueError("Not more than one of `a_min` and `a_max` may be `None`.")
    found = tensor(a)
    if a_min is not None:
        found = maximum(found, a_min)
    return found if a_max is None else minimum(found, a_max)


def isclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Whether elements are equal within tolerances; infinite ones are not, as in TensorFlow.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.isclose([1.0, 2.0], [1.0, 2.1]).numpy()
    array([ True, False])
    """
    x, y = promoted(a, b)
    if not x.dtype.is_floating and not x.dtype.is_complex:
        return tf_math.equal(x, y)
    found = tf_math.abs(x - y) <= atol + rtol * tf_math.abs(y)
    if equal_nan:
        found = tf_math.logical_or(
            found, tf_math.logical_and(tf_math.is_nan(tf_math.abs(x)), tf_math.is_nan(tf_math.abs(y)))
        )
    return found


def allclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Whether all elements are equal within tolerances."""
    return tf_math.reduce_all(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: Any, a2: Any) -> Tensor:
    """Whether shapes and elements are equal.

    >>> import gradtape as tf
    >>> bool(tf.experimental.numpy.array_equal([1, 2], [1, 2]))
    True
    """
    x, y = promoted(a1, a2)
    if not x.shape.is_compatible_with(y.shape):
        return array.constant(False)
    return tf_math.reduce_all(tf_math.equal(x, y))


# -- reductions ------------------------------------------------------------------------------------------------------
def _widened(x: Tensor, dtype: Any, to_float: bool = False) -> Tensor:
    """What a sum adds: small integers as int64 (uint64), in a mean floating numbers."""
    if dtype is not None:
        return cast(x, wanted_dtype(dtype))
    if to_float:
        return floating(x)
    if x.dtype.is_bool or (x.dtype.is_integer and x.dtype.size < default_dtype(int).itemsize):
        wide = default_dtype(int).name
        return cast(x, f"u{wide}" if x.dtype.is_unsigned else wide)
    return x


def _sum_like(name: str, function: Callable[..., Any], doc: str) -> Any:
    def call(a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = None) -> Any:
        return function(_widened(tensor(a), dtype), axis, bool(keepdims))

    return _named(call, name, doc)


sum = _sum_like("sum", tf_math.reduce_sum, "The sum over axes; small integers add up as int64.")
prod = _sum_like("prod", tf_math.reduce_prod, "The product over axes; small integers multiply as int64.")


def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = None) -> Tensor:
    """The mean over axes; of integers in float64.

    >>> import gradtape as tf
    >>> float(tf.experimental.numpy.mean([1, 2]))
    1.5
    """
    if out is not None:
        raise ValueError("Setting out is not supported.")
    return tf_math.reduce_mean(_widened(tensor(a), dtype, to_float=True), axis, bool(keepdims))


def _extreme(function: Callable[..., Any], of_bools: Callable[..., Any], a: Any, axis: Any, keepdims: Any) -> Tensor:
    x = tensor(a)
    return (of_bools if x.dtype.is_bool else function)(x, axis, bool(keepdims))


def max(a: Any, axis: Any = None, keepdims: Any = None) -> Tensor:
    """The largest element over axes.

    >>> import gradtape as tf
    >>> int(tf.experimental.numpy.max([1, 3, 2]))
    3
    """
    return _extreme(tf_math.reduce_max, tf_math.reduce_any, a, axis, keepdims)


def min(a: Any, axis: Any = None, keepdims: Any = None) -> Tensor:
    """The smallest element over axes.

    >>> import gradtape as tf
    >>> int(tf.experimental.numpy.min([1, 3, 2]))
    1
    """
    return _extreme(tf_math.reduce_min, tf_math.reduce_all, a, axis, keepdims)


def amax(a: Any, axis: Any = None, out: Any = None, keepdims: Any = None) -> Tensor:
    """The same as `max`."""
    return max(a, axis, keepdims)


def amin(a: Any, axis: Any = None, out: Any = None, keepdims: Any = None) -> Tensor:
    """The same as `min`."""
    return min(a, axis, keepdims)


def ptp(a: Any, axis: Any = None, keepdims: Any = None) -> Tensor:
    """The distance from the smallest to the largest element.

    >>> import gradtape as tf
    >>> int(tf.experimental.numpy.ptp([1, 3, 2]))
    2
    """
    return max(a, axis, keepdims) - min(a, axis, keepdims)


def all(a: Any, axis: Any = None, keepdims: Any = None) -> Tensor:
    """Whether all elements are true.

    >>> import gradtape as tf
    >>> bool(tf.experimental.numpy.all([1, 0]))
    False
    """
    return tf_math.reduce_all(cast(tensor(a), "bool"), axis, bool(keepdims))


def any(a: Any, axis: Any = None, keepdims: Any = None) -> Tensor:
    """Whether an element is true.

    >>> import gradtape as tf
    >>> bool(tf.experimental.numpy.any([1, 0]))
    True
    """
    return tf_math.reduce_any(cast(tensor(a), "bool"), axis, bool(keepdims))


def var(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, keepdims: Any = None) -> Tensor:
    """The variance over axes; `ddof` is subtracted from the number of elements.

    >>> import gradtape as tf
    >>> float(tf.experimental.numpy.var([1, 2, 3], ddof=1))
    1.0
    """
    if out is not None:
        raise ValueError("Setting out is not supported.")
    given = tensor(a)
    x = floating(given) if dtype is None else cast(given, as_dtype(numpy_result_type(given, wanted_dtype(dtype))))
    deviation = x - tf_math.reduce_mean(x, axis, True)
    squares = tf_math.real(deviation * tf_math.conj(deviation)) if x.dtype.is_complex else tf_math.square(deviation)
    total = tf_math.reduce_sum(squares, axis, bool(keepdims))
    number = cast(array.size(x), total.dtype) / cast(array.size(total), total.dtype)
    found = total / (number - ddof)
    return found if dtype is None else cast(found, wanted_dtype(dtype))


def std(a: Any, axis: Any = None, keepdims: Any = None) -> Tensor:
    """The standard deviation over axes.

    >>> import gradtape as tf
    >>> float(tf.experimental.numpy.std([1, 2]))
    0.5
    """
    x = floating(tensor(a))
    return tf_math.reduce_std(x, axis, bool(keepdims))


def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False) -> Any:
    """The weighted mean.

    >>> import gradtape as tf
    >>> float(tf.experimental.numpy.average([1, 3], weights=[1, 3]))
    2.5
    """
    if axis is not None and not isinstance(axis, int):
        raise ValueError(
            f"The `axis` argument must be an `int`. Tuple of ints is not supported yet. Received axis={axis}"
        )
    x = tensor(a)
    if weights is None:
        found = mean(x, axis)
        scale: Any = cast(array.size(x) // array.size(found), found.dtype)
        return (found, array.broadcast_to(scale, array.shape(found))) if returned else found
    x, w = (floating(each) for each in promoted(x, weights))
    if x.shape.rank != w.shape.rank and w.shape.rank == 1:
        place = (axis or 0) % int(x.shape.rank or 1)
        w = array.reshape(w, [-1 if i == place else 1 for i in range(int(x.shape.rank or 0))])
    w = array.broadcast_to(w, array.shape(x))
    scale = tf_math.reduce_sum(w, axis)
    found = tf_math.reduce_sum(x * w, axis) / scale
    return (found, scale) if returned else found


def _without_nan(name: str, function: Callable[..., Any], neutral: float, doc: str) -> Any:
    def call(a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> Any:
        x = tensor(a)
        if x.dtype.is_floating or x.dtype.is_complex:
            x = array.where(tf_math.is_nan(tf_math.abs(x)), tensor(neutral, x.dtype), x)
        return function(x, axis, dtype, keepdims)

    return _named(call, name, doc)


nansum = _without_nan("nansum", sum, 0.0, "The sum of the elements that are not NaN.")
nanprod = _without_nan("nanprod", prod, 1.0, "The product of the elements that are not NaN.")


def nanmean(a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = None) -> Tensor:
    """The mean of the elements that are not NaN.

    >>> import gradtape as tf
    >>> import numpy as np
    >>> float(tf.experimental.numpy.nanmean([1.0, np.nan, 3.0]))
    2.0
    """
    x = tensor(a)
    if x.dtype.is_integer or x.dtype.is_bool:
        return mean(x, axis, dtype, None, keepdims)
    total = nansum(x, axis, dtype, keepdims)
    known = cast(tf_math.logical_not(tf_math.is_nan(tf_math.abs(x))), total.dtype)
    return total / tf_math.reduce_sum(known, axis, bool(keepdims))


def count_nonzero(a: Any, axis: Any = None) -> Tensor:
    """How many elements are not zero.

    >>> import gradtape as tf
    >>> int(tf.experimental.numpy.count_nonzero([1, 0, 2]))
    2
    """
    return tf_math.count_nonzero(tensor(a), axis)


def argmax(a: Any, axis: int | None = None) -> Tensor:
    """The position of the largest element.

    >>> import gradtape as tf
    >>> int(tf.experimental.numpy.argmax([1, 3, 2]))
    1
    """
    x = tensor(a)
    return tf_math.argmax(ravel(x) if axis is None or not x.shape.rank else x, axis or 0)


def argmin(a: Any, axis: int | None = None) -> Tensor:
    """The position of the smallest element.

    >>> import gradtape as tf
    >>> int(tf.experimental.numpy.argmin([3, 1, 2]))
    1
    """
    x = tensor(a)
    return tf_math.argmin(ravel(x) if axis is None or not x.shape.rank else x, axis or 0)


def _cumulative(name: str, function: Callable[..., Any], doc: str) -> Any:
    def call(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
        x = _widened(tensor(a), dtype)
        return function(ravel(x) if axis is None else x, axis or 0)

    return _named(call, name, doc)


cumsum = _cumulative("cumsum", tf_math.cumsum, "Sums of the elements so far.")
cumprod = _cumulative("cumprod", tf_math.cumprod, "Products of the elements so far.")


def diff(a: Any, n: int = 1, axis: int = -1) -> Tensor:
    """Differences of neighbours, n times.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.diff([1, 4, 9]).numpy()
    array([3, 5])
    """
    if n < 0:
        raise ValueError(f"Argument `order` must be a non-negative integer. Received: axis={n}")
    x = moveaxis(tensor(a), axis, -1)
    for _ in range(n):
        x = tf_math.not_equal(x[..., 1:], x[..., :-1]) if x.dtype.is_bool else x[..., 1:] - x[..., :-1]
    return moveaxis(x, -1, axis)


# -- products --------------------------------------------------------------------------------------------------------
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
    except errors.InvalidArgumentError as error:  # TensorFlow converts the class, as NumPy's users expect
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
    return tf_math.polyval(array.unstack(coefficients), at)


__all__: Sequence[str] = (
    "abs",
    "absolute",
    "add",
    "all",
    "allclose",
    "amax",
    "amin",
    "angle",
    "any",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "argmax",
    "argmin",
    "around",
    "array_equal",
    "average",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "clip",
    "conj",
    "conjugate",
    "cos",
    "cosh",
    "count_nonzero",
    "cross",
    "cumprod",
    "cumsum",
    "deg2rad",
    "diff",
    "divide",
    "divmod",
    "dot",
    "einsum",
    "equal",
    "exp",
    "exp2",
    "expm1",
    "fabs",
    "fix",
    "float_power",
    "floor",
    "floor_divide",
    "gcd",
    "greater",
    "greater_equal",
    "heaviside",
    "hypot",
    "imag",
    "inner",
    "isclose",
    "iscomplex",
    "iscomplexobj",
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "isreal",
    "isrealobj",
    "kron",
    "lcm",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "matmul",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "mod",
    "multiply",
    "nanmean",
    "nanprod",
    "nansum",
    "negative",
    "nextafter",
    "not_equal",
    "outer",
    "polyval",
    "positive",
    "power",
    "prod",
    "ptp",
    "rad2deg",
    "real",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinc",
    "sinh",
    "sqrt",
    "square",
    "std",
    "subtract",
    "sum",
    "tan",
    "tanh",
    "tensordot",
    "true_divide",
    "var",
    "vdot",
)  # fmt: skip
