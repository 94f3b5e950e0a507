"""NumPy's elementwise functions of one array or two."""

from __future__ import annotations

import math as _math
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src.numpy_api.types import floating, promoted, tensor
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array, bitwise as tf_bitwise, math as tf_math, special
from gradtape._src.tf.array import cast
from gradtape._src.tf.control_flow import while_loop

if TYPE_CHECKING:
    from collections.abc import Callable


# -- declarations ----------------------------------------------------------------------------------------------------
def _unary(name: str, function: Callable[[Tensor], Any], doc: str, to_float: bool = False) -> Any:
    """A function of one array; `to_float` computes integers in the default floating dtype."""

    def call(x: Any) -> Any:
        given = tensor(x)
        return function(floating(given) if to_float else given)

    return named(call, name, doc)


def _binary(
    name: str,
    function: Callable[[Tensor, Tensor], Any],
    doc: str,
    to_float: bool = False,
    of_bools: Callable[[Tensor, Tensor], Any] | None = None,
) -> Any:
    """A function of two arrays of one dtype; `of_bools` is its variant for booleans, if it differs."""

    def call(x1: Any, x2: Any) -> Any:
        a, b = promoted(x1, x2)
        if to_float:
            a, b = floating(a), floating(b)
        if of_bools is not None and a.dtype.is_bool:
            return of_bools(a, b)
        return function(a, b)

    return named(call, name, doc)


def named(call: Any, name: str, doc: str) -> Any:
    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc
    return call


def _as_bools(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs: function(*(cast(x, "bool") for x in xs))


def _as_int8(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs: function(*(cast(x, "int8") for x in xs))


# -- one array -------------------------------------------------------------------------------------------------------
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


# -- two arrays ------------------------------------------------------------------------------------------------------
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


def _over_bools(name: str, doc: str) -> Any:
    return _binary(name, _as_bools(getattr(tf_math, name)), doc)


def _bits(name: str, doc: str) -> Any:
    logical = {"bitwise_and": tf_math.logical_and, "bitwise_or": tf_math.logical_or, "bitwise_xor": tf_math.logical_xor}
    return _binary(name, getattr(tf_bitwise, name), doc, of_bools=logical[name])


add = _binary("add", tf_math.add, "The sum of two arrays; of booleans: either.", of_bools=tf_math.logical_or)
subtract = _binary("subtract", tf_math.subtract, "The difference of two arrays.")
multiply = _binary("multiply", tf_math.multiply, "The product of elements.", of_bools=tf_math.logical_and)
true_divide = _binary("true_divide", tf_math.divide, "The quotient of elements, in a floating dtype.", True)
divide = named(lambda x1, x2: true_divide(x1, x2), "divide", "The quotient of elements, in a floating dtype.")
floor_divide = _binary(
    "floor_divide", tf_math.floordiv, "The quotient, rounded down.", of_bools=_as_int8(tf_math.floordiv)
)
mod = _binary("mod", tf_math.floormod, "The remainder of `floor_divide`.", of_bools=_as_int8(tf_math.floormod))
remainder = _binary(
    "remainder", tf_math.floormod, "The remainder of `floor_divide`.", of_bools=_as_int8(tf_math.floormod)
)
power = _binary("power", tf_math.pow, "Elements to the power of others.")
float_power = _binary("float_power", tf_math.pow, "Elements to the power of others, in their common dtype.")
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


__all__ = (
    "abs",
    "absolute",
    "add",
    "allclose",
    "angle",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "around",
    "array_equal",
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
    "deg2rad",
    "divide",
    "divmod",
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
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "power",
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
    "subtract",
    "tan",
    "tanh",
    "true_divide",
)
