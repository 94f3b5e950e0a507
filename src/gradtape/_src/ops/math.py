"""Elementwise primitives. Read each line as mathematics: the differential of the function, where d is dx (or dy).

At kinks and ties the lines say what TensorFlow does there.
"""

from __future__ import annotations

from typing import Any

from gradtape._src import errors
from gradtape._src.arrays import namespace_of
from gradtape._src.arrays.half import generic_in_float32
from gradtape._src.conversion import operand, operands
from gradtape._src.core.dispatch import binary, declare, linear, primitive, run, unary
from gradtape._src.core.primitive import Op

REAL = "fiu"


def zero(d: Any, xp: Any) -> Any:
    """0, also where d is infinite or NaN."""
    return xp.multiply_no_nan(d, 0)


# -- arithmetic ------------------------------------------------------------------------------------------------------
add = binary("add", lambda d: d, lambda d: d, tf_name="AddV2", kinds="fciuO", hinted=True)  # words are joined
subtract = binary("subtract", lambda d: d, lambda d: -d, tf_name="Sub")
multiply = binary("multiply", lambda d, y: d * y, lambda d, x: x * d, tf_name="Mul")


# Rules of hot functions are written with += and *=, which work in place on arrays (and make new tensors of tensors): a
# temporary of a large array costs more than the arithmetic.
def _divide_dy(d: Any, y: Any, out: Any) -> Any:
    """-d out / y"""
    part = d * out
    part /= y
    return -part


divide = binary("divide", lambda d, y: d / y, _divide_dy, tf_name="RealDiv")
negative = unary("negative", lambda d: -d, tf_name="Neg", kinds="fci")


square = unary("square", lambda d, x: d * (2 * x), kinds="fciu")
# 0 where y is 0, whatever x is: what TensorFlow's kernels do with an infinite slope where the cotangent is 0. A `where`
# would do for the value, but not for the next order: the derivative by y is x also at 0.
multiply_no_nan = binary(
    "multiply_no_nan",
    lambda d, y, xp: xp.multiply_no_nan(d, y),
    lambda d, x, xp: xp.multiply_no_nan(x, d),
    tf_name="MulNoNan",
    kinds="fc",
)
reciprocal = unary("reciprocal", lambda d, out, xp: xp.multiply_no_nan(-out * out, d))


def _squared_difference_dx(d: Any, x: Any, y: Any, xp: Any) -> Any:
    """2 d (x - y). Of complex numbers it is |x - y|², whose derivative has the conjugate."""
    part = d + d
    part *= xp.conj(x - y) if xp.is_complex(d) else x - y
    return part


squared_difference = binary(
    "squared_difference",
    _squared_difference_dx,
    lambda d, x, y, xp: _squared_difference_dx(d, y, x, xp),
)


def _no_remainder(d: Any) -> Any:
    raise LookupError("gradient registry has no entry for: TruncateMod. tf.math.floormod has a gradient.")


floor_divide = binary("floor_divide", None, None, tf_name="FloorDiv", kinds="fiu")
fmod = primitive(
    "fmod",
    ("x", "y"),
    _no_remainder,
    _no_remainder,
    tf_name="TruncateMod",
    elementwise=True,
    kinds="fiu",
    fallible=True,
)
mod = binary("mod", lambda d: d, lambda d, x, y, xp: -d * xp.floor(x / y), tf_name="FloorMod", kinds="fiu")
maximum = binary("maximum", lambda d, x, y, xp: xp.where(x >= y, d, 0), lambda d, x, y, xp: xp.where(x >= y, 0, d),
                 kinds=REAL)  # fmt: skip  # a tie goes to x
minimum = binary(
    "minimum", lambda d, x, y, xp: xp.where(x <= y, d, 0), lambda d, x, y, xp: xp.where(x <= y, 0, d), kinds=REAL
)


def _power_dy(d, x, out, xp):
    """d out log(x), where log counts as 0 for x <= 0, so that integer powers of negative numbers have a derivative."""
    positive = xp.not_equal(x, 0) if xp.is_complex(d) else xp.greater(x, 0)
    return d * out * xp.where(positive, xp.log(xp.where(positive, x, 1)), 0)


power = binary("power", lambda d, x, y, xp: d * y * xp.power(x, y - 1), _power_dy, tf_name="Pow")
arctan2 = binary(
    "arctan2",
    lambda d, x, y, xp: y * (d / (xp.square(x) + xp.square(y))),
    lambda d, x, y, xp: -x * (d / (xp.square(x) + xp.square(y))),
    tf_name="Atan2",
    kinds="f",
)

# -- exponentials, powers, trigonometry ------------------------------------------------------------------------------
exp = unary("exp", lambda d, out: d * out)
expm1 = unary("expm1", lambda d, x, xp: d * xp.exp(x))


def _log_dx(d, x, xp):
    """d / x; the reciprocal is the one whose own derivative is 0 where d is 0 (of complex numbers it is no better)."""
    return d / x if xp.is_complex(d) else d * xp.reciprocal(x)


log = unary("log", _log_dx)
log1p = unary("log1p", lambda d, x: d / (1 + x))


def _sqrt_dx(d, out, xp):
    """d / (2 sqrt(x)); of real numbers 0 where d is 0, even at 0."""
    return 0.5 * d / out if xp.is_complex(d) else xp.multiply_no_nan(0.5 / out, d)


sqrt = unary("sqrt", _sqrt_dx)
rsqrt = unary("rsqrt", lambda d, out, xp: xp.multiply_no_nan(-0.5 * out * out * out, d))


def _sigmoid_dx(d: Any, out: Any) -> Any:
    """d out (1 - out)"""
    part = d * out
    part -= part * out
    return part


sin = unary("sin", lambda d, x, xp: d * xp.cos(x))
cos = unary("cos", lambda d, x, xp: -d * xp.sin(x))
tan = unary("tan", lambda d, out: d + d * out * out)


def _arcsin_dx(d, x, xp):
    """d / sqrt(1 - x²). On the branch cut the zero of the imaginary part decides: TensorFlow squares the conjugate."""
    if xp.is_complex(d):
        return d * xp.conj(xp.reciprocal(xp.sqrt(1 - xp.square(xp.conj(x)))))
    return d * xp.reciprocal(xp.sqrt(1 - xp.square(x)))


arcsin = unary("arcsin", _arcsin_dx, tf_name="Asin")
arccos = unary("arccos", lambda d, x, xp: _arcsin_dx(-d, x, xp), tf_name="Acos")
arctan = unary("arctan", lambda d, x, xp: d * xp.reciprocal(1 + xp.square(x)), tf_name="Atan")
sinh = unary("sinh", lambda d, x, xp: d * xp.cosh(x))
cosh = unary("cosh", lambda d, x, xp: d * xp.sinh(x))
tanh = unary("tanh", lambda d, out: d - d * (out * out))

arcsinh = unary("arcsinh", lambda d, out, xp: d / xp.cosh(out), tf_name="Asinh")
arccosh = unary("arccosh", lambda d, out, xp: d / xp.sinh(out), tf_name="Acosh")
arctanh = unary("arctanh", lambda d, x, xp: d * xp.reciprocal(1 - xp.square(x)), tf_name="Atanh")
sigmoid = unary("sigmoid", _sigmoid_dx)
softplus = unary("softplus", lambda d, x, xp: d * xp.sigmoid(x), kinds="f", arg="features")


@generic_in_float32
def _sigmoid_cross_entropy(xp: Any, x: Any, y: Any) -> Any:
    """softplus(x) - x y, in the form that does not cancel where x is large."""
    return xp.maximum(x, 0) - x * y + xp.log1p(xp.exp(-xp.absolute(x)))


def _sigmoid_cross_entropy_dx(d, x, y, xp):
    """d (sigmoid(x) - y), in the form that does not cancel where the sigmoid is near 1."""
    positive = xp.greater_equal(x, 0)
    small = xp.sigmoid(xp.where(positive, -x, x))
    return d * xp.where(positive, 1 - y - small, small - y)


sigmoid_cross_entropy = binary(
    "sigmoid_cross_entropy", _sigmoid_cross_entropy_dx, lambda d, x: -x * d, kinds="f", kernel=_sigmoid_cross_entropy
)

# -- kinks and steps -------------------------------------------------------------------------------------------------
relu = unary("relu", lambda d, out, xp: xp.gate(d, out), kinds=REAL, arg="features")
gate = binary("gate", lambda d, y, xp: xp.gate(d, y), zero, tf_name="ReluGrad", kinds=REAL)
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
    (None, lambda d, condition, xp: xp.where(condition, d, 0), lambda d, condition, xp: xp.where(condition, 0, d)),
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
conj = linear("conj", lambda d, xp: xp.conj(d), batch=lambda xp, size, batched, x: xp.conj(x))
real = linear(
    "real",
    lambda d, xp: xp.complex(d, zero(d, xp)),
    batch=lambda xp, size, batched, x: xp.real(x),
)
imag = linear(
    "imag",
    lambda d, xp: xp.complex(zero(d, xp), d),
    batch=lambda xp, size, batched, x: xp.imag(x),
)
complex_ = primitive(
    "complex",
    ("x", "y"),
    lambda d, xp: xp.real(d),
    lambda d, xp: xp.imag(d),
    elementwise=True,
    kinds="f",
    jvp=lambda given, values, attrs, tangents: _complex_jvp(*given),
)


def _complex_jvp(x: Any, y: Any) -> Any:
    some = x if x is not None else y
    xp = namespace_of(some)
    return xp.complex(zero(some, xp) if x is None else x, zero(some, xp) if y is None else y)


def _absolute_dx(d, x, out, xp):
    if not xp.is_complex(x):
        return d * xp.sign(x)
    return xp.divide_no_nan(xp.complex(d, zero(d, xp)) * x, xp.complex(out, zero(out, xp)))  # 0 at 0


def _sign_dx(d, x, out, xp):
    """x / |x| moves only across x: the part of d along x is taken out. At 0 the derivative is taken as 0."""
    if not xp.is_complex(d):
        return zero(d, xp)
    along = xp.real(xp.conj(out) * d)
    size = xp.absolute(x)
    slope = xp.divide_no_nan(1.0, size)
    return (d - out * xp.complex(along, zero(along, xp))) * xp.complex(slope, zero(slope, xp))


def _angle_dx(d, x, xp):
    """i d / conj(x), and TensorFlow's parts at 0."""
    return xp.complex(-d, zero(d, xp)) / xp.complex(xp.imag(x), xp.real(x))


absolute = primitive(
    "absolute", ("x",), _absolute_dx, tf_name="Abs", kinds="fci", batch=lambda xp, size, batched, x: xp.absolute(x)
)
sign = primitive("sign", ("x",), _sign_dx, kinds="fci", batch=lambda xp, size, batched, x: xp.sign(x))
angle = primitive("angle", ("x",), _angle_dx, batch=lambda xp, size, batched, x: xp.angle(x))
