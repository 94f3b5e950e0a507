"""Elementwise primitives. Read each line as mathematics: the differential of the function, where g is dx (or dy).

At kinks and ties the lines say what TensorFlow does there.
"""

from __future__ import annotations

from typing import Any

from gradtape._src import errors
from gradtape._src.arrays import namespace_of
from gradtape._src.arrays.half import generic_in_float32
from gradtape._src.arrays.shared import elementwise
from gradtape._src.conversion import operand, operands
from gradtape._src.core.dispatch import binary, declare, linear, primitive, run, unary
from gradtape._src.core.primitive import Op

REAL = "fiu"


def zero(g: Any, xp: Any) -> Any:
    """0, also where g is infinite or NaN."""
    return xp.multiply_no_nan(g, 0)


# -- arithmetic ------------------------------------------------------------------------------------------------------
add = binary("add", lambda g: g, lambda g: g, tf_name="AddV2", kinds="fciuO", hinted=True)  # words are joined
subtract = binary("subtract", lambda g: g, lambda g: -g, tf_name="Sub")
multiply = binary("multiply", lambda g, y: g * y, lambda g, x: x * g, tf_name="Mul")


# Rules of hot functions are written with += and *=, which work in place on arrays (and make new tensors of tensors): a
# temporary of a large array costs more than the arithmetic.
def _divide_dy(g: Any, y: Any, out: Any) -> Any:
    """-g out / y"""
    part = g * out
    part /= y
    return -part


divide = binary("divide", lambda g, y: g / y, _divide_dy, tf_name="RealDiv")
negative = unary("negative", lambda g: -g, tf_name="Neg", kinds="fci")


square = unary("square", lambda g, x: g * (2 * x), kinds="fciu")
# 0 where y is 0, whatever x is: what TensorFlow's kernels do with an infinite slope where the cotangent is 0. A `where`
# would do for the value, but not for the next order: the derivative by y is x also at 0.
multiply_no_nan = binary(
    "multiply_no_nan",
    lambda g, y, xp: xp.multiply_no_nan(g, y),
    lambda g, x, xp: xp.multiply_no_nan(x, g),
    kernel=elementwise.multiply_no_nan,
    tf_name="MulNoNan",
    kinds="fc",
)
reciprocal = unary("reciprocal", lambda g, out, xp: xp.multiply_no_nan(-out * out, g))


def _squared_difference_dx(g: Any, x: Any, y: Any, xp: Any) -> Any:
    """2 g (x - y). Of complex numbers it is |x - y|², whose derivative has the conjugate."""
    part = g + g
    part *= xp.conj(x - y) if xp.is_complex(g) else x - y
    return part


squared_difference = binary(
    "squared_difference",
    _squared_difference_dx,
    lambda g, x, y, xp: _squared_difference_dx(g, y, x, xp),
)


def _no_remainder(g: Any) -> Any:
    raise LookupError("gradient registry has no entry for: TruncateMod. tf.math.floormod has a gradient.")


floor_divide = binary("floor_divide", None, None, kernel=elementwise.floor_divide, tf_name="FloorDiv", kinds="fiu")
fmod = primitive(
    "fmod",
    ("x", "y"),
    _no_remainder,
    _no_remainder,
    tf_name="TruncateMod",
    elementwise=True,
    kinds="fiu",
    may_raise=True,
)
mod = binary("mod", lambda g: g, lambda g, x, y, xp: -g * xp.floor(x / y), tf_name="FloorMod", kinds="fiu")
maximum = binary("maximum", lambda g, x, y, xp: xp.where(x >= y, g, 0), lambda g, x, y, xp: xp.where(x >= y, 0, g),
                 kinds=REAL)  # fmt: skip  # a tie goes to x
minimum = binary(
    "minimum", lambda g, x, y, xp: xp.where(x <= y, g, 0), lambda g, x, y, xp: xp.where(x <= y, 0, g), kinds=REAL
)


def _power_dy(g, x, out, xp):
    """g out log(x), where log counts as 0 for x <= 0, so that integer powers of negative numbers have a derivative."""
    positive = xp.not_equal(x, 0) if xp.is_complex(g) else xp.greater(x, 0)
    return g * out * xp.where(positive, xp.log(xp.where(positive, x, 1)), 0)


power = binary("power", lambda g, x, y, xp: g * y * xp.power(x, y - 1), _power_dy, tf_name="Pow")
arctan2 = binary(
    "arctan2",
    lambda g, x, y, xp: y * (g / (xp.square(x) + xp.square(y))),
    lambda g, x, y, xp: -x * (g / (xp.square(x) + xp.square(y))),
    tf_name="Atan2",
    kinds="f",
)

# -- exponentials, powers, trigonometry ------------------------------------------------------------------------------
exp = unary("exp", lambda g, out: g * out)
expm1 = unary("expm1", lambda g, x, xp: g * xp.exp(x))


def _log_dx(g, x, xp):
    """g / x; the reciprocal is the one whose own derivative is 0 where g is 0 (of complex numbers it is no better)."""
    return g / x if xp.is_complex(g) else g * xp.reciprocal(x)


log = unary("log", _log_dx)
log1p = unary("log1p", lambda g, x: g / (1 + x))


def _sqrt_dx(g, out, xp):
    """g / (2 sqrt(x)); of real numbers 0 where g is 0, even at 0."""
    return 0.5 * g / out if xp.is_complex(g) else xp.multiply_no_nan(0.5 / out, g)


sqrt = unary("sqrt", _sqrt_dx)
rsqrt = unary("rsqrt", lambda g, out, xp: xp.multiply_no_nan(-0.5 * out * out * out, g))


def _sigmoid_dx(g: Any, out: Any) -> Any:
    """g out (1 - out)"""
    part = g * out
    part -= part * out
    return part


sin = unary("sin", lambda g, x, xp: g * xp.cos(x))
cos = unary("cos", lambda g, x, xp: -g * xp.sin(x))
tan = unary("tan", lambda g, out: g + g * out * out)


def _arcsin_dx(g, x, xp):
    """g / sqrt(1 - x²). On the branch cut the zero of the imaginary part decides: TensorFlow squares the conjugate."""
    if xp.is_complex(g):
        return g * xp.conj(xp.reciprocal(xp.sqrt(1 - xp.square(xp.conj(x)))))
    return g * xp.reciprocal(xp.sqrt(1 - xp.square(x)))


arcsin = unary("arcsin", _arcsin_dx, tf_name="Asin")
arccos = unary("arccos", lambda g, x, xp: _arcsin_dx(-g, x, xp), tf_name="Acos")
arctan = unary("arctan", lambda g, x, xp: g * xp.reciprocal(1 + xp.square(x)), tf_name="Atan")
sinh = unary("sinh", lambda g, x, xp: g * xp.cosh(x))
cosh = unary("cosh", lambda g, x, xp: g * xp.sinh(x))
tanh = unary("tanh", lambda g, out: g - g * (out * out))

arcsinh = unary("arcsinh", lambda g, out, xp: g / xp.cosh(out), tf_name="Asinh")
arccosh = unary("arccosh", lambda g, out, xp: g / xp.sinh(out), tf_name="Acosh")
arctanh = unary("arctanh", lambda g, x, xp: g * xp.reciprocal(1 - xp.square(x)), tf_name="Atanh")
sigmoid = unary("sigmoid", _sigmoid_dx)
softplus = unary("softplus", lambda g, x, xp: g * xp.sigmoid(x), kernel=elementwise.softplus, kinds="f", arg="features")


@generic_in_float32
def _sigmoid_cross_entropy(xp: Any, x: Any, y: Any) -> Any:
    """softplus(x) - x y, in the form that does not cancel where x is large."""
    return xp.maximum(x, 0) - x * y + xp.log1p(xp.exp(-xp.absolute(x)))


def _sigmoid_cross_entropy_dx(g, x, y, xp):
    """g (sigmoid(x) - y), in the form that does not cancel where the sigmoid is near 1.

    With s = sigmoid(-|x|) it is g (1 - y - s) for positive x, g (s - y) elsewhere; `gate` is faster than `where`.
    """
    small = g * xp.sigmoid(xp.minimum(x, -x))
    return (xp.gate(g, x) - g * y) + (small - 2 * xp.gate(small, x))


sigmoid_cross_entropy = binary(
    "sigmoid_cross_entropy", _sigmoid_cross_entropy_dx, lambda g, x: -x * g, kinds="f", kernel=_sigmoid_cross_entropy
)

# -- kinks and steps -------------------------------------------------------------------------------------------------
relu = unary("relu", lambda g, out, xp: xp.gate(g, out), kinds=REAL, arg="features")
gate = binary("gate", lambda g, y, xp: xp.gate(g, y), zero, tf_name="ReluGrad", kinds=REAL)
floor = unary("floor", None, kinds="f")
ceil = unary("ceil", None, kinds="f")
rint = unary("rint", None, kinds="f")

# -- truth -----------------------------------------------------------------------------------------------------------
equal = binary("equal", None, None, kinds="any")
not_equal = binary("not_equal", None, None, kinds="any")
less = binary("less", None, None, kinds=REAL)
less_equal = binary("less_equal", None, None, kinds=REAL)
greater = binary("greater", None, None, kinds=REAL)
greater_equal = binary("greater_equal", None, None, kinds=REAL)
logical_and = binary("logical_and", None, None, kinds="b")
logical_or = binary("logical_or", None, None, kinds="b")
logical_xor = binary("logical_xor", None, None, kinds="b")
logical_not = unary("logical_not", None, kinds="b")
bitwise_and = binary("bitwise_and", None, None, kinds="iub")
bitwise_or = binary("bitwise_or", None, None, kinds="iub")
bitwise_xor = binary("bitwise_xor", None, None, kinds="iub")
invert = unary("invert", None, kinds="iu")
isnan = unary("isnan", None, tf_name="IsNan", kinds="f", unregistered=True)
isinf = unary("isinf", None, tf_name="IsInf", kinds="f", unregistered=True)
isfinite = unary("isfinite", None, tf_name="IsFinite", kinds="f", unregistered=True)

_where = Op(
    "where",
    ("condition", "x", "y"),
    (None, lambda g, condition, xp: xp.where(condition, g, 0), lambda g, condition, xp: xp.where(condition, 0, g)),
    tf_name="SelectV2",
    elementwise=True,
    kinds="any",
)


def _select(condition: Any, x: Any, y: Any) -> Any:
    x, y = operands(x, y)
    if x.array.dtype != y.array.dtype:
        raise errors.mismatched_dtypes("SelectV2", x.dtype, y.dtype)
    return run(_where, [operand(condition), x, y], {})


where = declare(_where, _select)

# -- complex numbers: these change the dtype, so each states both directions -----------------------------------------
conj = linear("conj", lambda g, xp: xp.conj(g), batch=lambda xp, size, batched, x: xp.conj(x))
real = linear(
    "real",
    lambda g, xp: xp.complex(g, zero(g, xp)),
    batch=lambda xp, size, batched, x: xp.real(x),
)
imag = linear(
    "imag",
    lambda g, xp: xp.complex(zero(g, xp), g),
    batch=lambda xp, size, batched, x: xp.imag(x),
)
complex_ = primitive(
    "complex",
    ("x", "y"),
    lambda g, xp: xp.real(g),
    lambda g, xp: xp.imag(g),
    elementwise=True,
    kinds="f",
    jvp=lambda given, values, attrs, tangents: _complex_jvp(*given),
)


def _complex_jvp(x: Any, y: Any) -> Any:
    some = x if x is not None else y
    xp = namespace_of(some)
    return xp.complex(zero(some, xp) if x is None else x, zero(some, xp) if y is None else y)


def _absolute_dx(g, x, out, xp):
    if not xp.is_complex(x):
        return g * xp.sign(x)
    return xp.divide_no_nan(xp.complex(g, zero(g, xp)) * x, xp.complex(out, zero(out, xp)))  # 0 at 0


def _sign_dx(g, x, out, xp):
    """x / |x| moves only across x: the part of g along x is taken out. At 0 the derivative is taken as 0."""
    if not xp.is_complex(g):
        return zero(g, xp)
    along = xp.real(xp.conj(out) * g)
    size = xp.absolute(x)
    slope = xp.divide_no_nan(1.0, size)
    return (g - out * xp.complex(along, zero(along, xp))) * xp.complex(slope, zero(slope, xp))


def _angle_dx(g, x, xp):
    """i g / conj(x), and TensorFlow's parts at 0."""
    return xp.complex(-g, zero(g, xp)) / xp.complex(xp.imag(x), xp.real(x))


absolute = primitive(
    "absolute", ("x",), _absolute_dx, tf_name="Abs", kinds="fci", batch=lambda xp, size, batched, x: xp.absolute(x)
)
sign = primitive("sign", ("x",), _sign_dx, kinds="fci", batch=lambda xp, size, batched, x: xp.sign(x))
angle = primitive("angle", ("x",), _angle_dx, batch=lambda xp, size, batched, x: xp.angle(x))
