"""Elementwise primitives. Read each line as mathematics: the differential of the function, where g is dx (or dy).

At kinks and ties, the formulas give the subgradients that TensorFlow uses.
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
SMOOTH_STEP = "A comparison is a step; tf.sigmoid(k * (a - b)) is a smooth one."
SMOOTH_TRUTH = "Compute with probabilities in place of truth values: a * b for `and`, 1 - (1 - a) * (1 - b) for `or`."


def zero(g: Any, xp: Any) -> Any:
    """0, even where g is infinite or NaN."""
    return xp.multiply_no_nan(g, 0)


# -- arithmetic ------------------------------------------------------------------------------------------------------
# Strings are concatenated.
add = binary(
    "add", lambda g: g, lambda g: g, tf_name="AddV2", kinds="fciuO", hinted=True,
    names=("add", "math.add"), doc="Compute x + y, elementwise.", example=("tf.add([1.0, 2.0], 0.5)", "[1.5 2.5]"),
    hazards=("sum",), nan_free=True, linear=True,
)  # fmt: skip
subtract = binary(
    "subtract", lambda g: g, lambda g: -g, tf_name="Sub",
    names=("subtract", "math.subtract"), doc="Compute x - y, elementwise.",
    example=("tf.subtract([1.0, 2.0], 0.5)", "[0.5 1.5]"), hazards=("sum",), nan_free=True, linear=True,
)  # fmt: skip
multiply = binary(
    "multiply", lambda g, y: g * y, lambda g, x: x * g, tf_name="Mul",
    names=("multiply", "math.multiply"), doc="Compute x * y, elementwise.",
    example=("tf.multiply([1.0, 2.0], 3.0)", "[3. 6.]"), hazards=("product",), nan_free=True, multilinear=True,
)  # fmt: skip


# Rules of hot functions are written with += and *=, which work in place on arrays (and make new tensors of tensors): a
# temporary of a large array costs more than the arithmetic.
def _divide_dy(g: Any, y: Any, out: Any) -> Any:
    """-g out / y"""
    part = g * out
    part /= y
    return -part


divide = binary(
    "divide", lambda g, y: g / y, _divide_dy, tf_name="RealDiv",
    names=("divide",), doc="x / y, elementwise.", hazards=("division",),
    inverts=(1, lambda xp, y, out: y * out),
)  # fmt: skip
divide_no_nan = binary(
    "divide_no_nan", lambda g, y, xp: xp.divide_no_nan(g, y), lambda g, y, out, xp: -g * xp.divide_no_nan(out, y),
    tf_name="DivNoNan", kinds="fc", kernel=elementwise.divide_no_nan,
    names=("math.divide_no_nan",), doc="x / y, and 0 where y is 0.", inverts=(1, lambda xp, y, out: y * out),
)  # fmt: skip
negative = unary(
    "negative", lambda g: -g, tf_name="Neg", kinds="fci",
    names=("negative", "math.negative"),
    doc="Compute -x.", example=("tf.negative([1.0, -2.0])", "[-1.  2.]"), nan_free=True,
    sparse=True, linear=True,
)  # fmt: skip


square = unary(
    "square", lambda g, x: g * (2 * x), kinds="fciu",
    names=("square", "math.square"),
    doc="Compute x * x.", example=("tf.square([3.0, -4.0])", "[ 9. 16.]"), nan_free=True,
    sparse=True,
)  # fmt: skip
# 0 where y is 0, whatever x is: what TensorFlow's kernels do with an infinite slope where the cotangent is 0. A `where`
# would do for the value, but not for the next order: the derivative by y is x also at 0.
multiply_no_nan = binary(
    "multiply_no_nan", lambda g, y, xp: xp.multiply_no_nan(g, y), lambda g, x, xp: xp.multiply_no_nan(x, g),
    kernel=elementwise.multiply_no_nan, tf_name="MulNoNan", kinds="fc",
    names=("math.multiply_no_nan",), doc="x * y, and 0 where y is 0.", multilinear=True,
)  # fmt: skip
reciprocal = unary(
    "reciprocal", lambda g, out, xp: xp.multiply_no_nan(-out * out, g),
    names=("math.reciprocal",), doc="Compute 1 / x.", example=("tf.math.reciprocal([2.0, 4.0])", "[0.5  0.25]"),
    hazards=("division",),
)  # fmt: skip


def _squared_difference_dx(g: Any, x: Any, y: Any, xp: Any) -> Any:
    """2 g (x - y). For complex numbers the function is |x - y|², whose derivative contains the conjugate."""
    part = g + g
    part *= xp.conj(x - y) if xp.is_complex(g) else x - y
    return part


squared_difference = binary(
    "squared_difference", _squared_difference_dx, lambda g, x, y, xp: _squared_difference_dx(g, y, x, xp),
    names=("math.squared_difference",), doc="(x - y) squared; of complex numbers its absolute value.",
    hazards=("sum",),
)  # fmt: skip


def _no_remainder(g: Any) -> Any:
    raise LookupError("gradient registry has no entry for: TruncateMod. tf.math.floormod has a gradient.")


floor_divide = binary(
    "floor_divide", None, None, kernel=elementwise.floor_divide, tf_name="FloorDiv", kinds="fiu",
    doc="x / y, rounded down; no gradient.", hazards=("division",),
    instead="Use x / y; to round and still learn, tf.grad_pass_through(tf.floor)(x / y).",
)  # fmt: skip
fmod = primitive(
    "fmod", ("x", "y"), _no_remainder, _no_remainder, tf_name="TruncateMod", elementwise=True, kinds="fiu",
    may_raise=True,
    doc="The remainder of x / y, with the sign of x.", hazards=("division",),
)  # fmt: skip
mod = binary(
    "mod", lambda g: g, lambda g, x, y, xp: -g * xp.floor(x / y), tf_name="FloorMod", kinds="fiu",
    names=("math.mod",), doc="The remainder of x / y, with the sign of y.", hazards=("division",),
)  # fmt: skip
# A tie goes to x.
maximum = binary(
    "maximum", lambda g, x, y, xp: xp.where(x >= y, g, 0), lambda g, x, y, xp: xp.where(x >= y, 0, g), kinds=REAL,
    names=("maximum", "math.maximum"),
    doc="Return the larger of x and y, elementwise; where they are equal, the gradient goes to x.",
    example=("tf.maximum([1.0, 3.0], 2.0)", "[2. 3.]"), nan_free=True, moves_only=True,
)  # fmt: skip
minimum = binary(
    "minimum", lambda g, x, y, xp: xp.where(x <= y, g, 0), lambda g, x, y, xp: xp.where(x <= y, 0, g), kinds=REAL,
    names=("minimum", "math.minimum"),
    doc="Return the smaller of x and y, elementwise; where they are equal, the gradient goes to x.",
    example=("tf.minimum([1.0, 3.0], 2.0)", "[1. 2.]"), nan_free=True, moves_only=True,
)  # fmt: skip


def _power_dy(g, x, out, xp):
    """g out log(x), where log counts as 0 for x <= 0, so that integer powers of negative numbers have a derivative."""
    positive = xp.not_equal(x, 0) if xp.is_complex(g) else xp.greater(x, 0)
    return g * out * xp.where(positive, xp.log(xp.where(positive, x, 1)), 0)


power = binary(
    "power", lambda g, x, y, xp: g * y * xp.power(x, y - 1), _power_dy, tf_name="Pow",
    names=("pow",), doc="x to the power of y.", hazards=("power",),
)  # fmt: skip
arctan2 = binary(
    "arctan2", lambda g, x, y, xp: y * (g / (xp.square(x) + xp.square(y))),
    lambda g, x, y, xp: -x * (g / (xp.square(x) + xp.square(y))), tf_name="Atan2", kinds="f",
    names=("atan2", "math.atan2"), doc="Compute the angle of the point (x, y) from its coordinates: atan2(y, x).",
    example=("tf.atan2([1.0], [-1.0])", "[2.3562]"),
)  # fmt: skip

# -- exponentials, powers, trigonometry ------------------------------------------------------------------------------
exp = unary(
    "exp", lambda g, out: g * out,
    names=("exp", "math.exp"),
    doc="Compute the exponential, e to the power of x.", example=("tf.exp([0.0, 1.0])", "[1.     2.7183]"),
    nan_free=True,
)  # fmt: skip
expm1 = unary(
    "expm1", lambda g, x, xp: g * xp.exp(x),
    names=("math.expm1",), doc="Compute exp(x) - 1, accurately for small x.",
    example=("tf.math.expm1([0.0, 1.0])", "[0.     1.7183]"),
)  # fmt: skip


def _log_dx(g, x, xp):
    """g / x; the derivative of this reciprocal is 0 where g is 0 (for complex numbers this makes no difference)."""
    return g / x if xp.is_complex(g) else g * xp.reciprocal(x)


log = unary(
    "log", _log_dx,
    names=("math.log",), doc="Compute the natural logarithm.", example=("tf.math.log([1.0, 2.0])", "[0.     0.6931]"),
    hazards=("log",),
)  # fmt: skip
log1p = unary(
    "log1p", lambda g, x: g / (1 + x),
    names=("math.log1p",), doc="Compute log(1 + x), accurately for small x.",
    example=("tf.math.log1p([0.0, 1.0])", "[0.     0.6931]"), hazards=("log",),
)  # fmt: skip


def _sqrt_dx(g, out, xp):
    """g / (2 sqrt(x)); for real numbers 0 where g is 0, even at x = 0."""
    return 0.5 * g / out if xp.is_complex(g) else xp.multiply_no_nan(0.5 / out, g)


sqrt = unary(
    "sqrt", _sqrt_dx,
    names=("sqrt", "math.sqrt"),
    doc="Compute the square root.", example=("tf.sqrt([4.0, 9.0])", "[2. 3.]"), sparse=True,
)  # fmt: skip
rsqrt = unary(
    "rsqrt", lambda g, out, xp: xp.multiply_no_nan(-0.5 * out * out * out, g),
    names=("math.rsqrt",), doc="Compute 1 / sqrt(x).", example=("tf.math.rsqrt([4.0, 16.0])", "[0.5  0.25]"),
    hazards=("division",),
)  # fmt: skip


def _sigmoid_dx(g: Any, out: Any) -> Any:
    """g out (1 - out)"""
    part = g * out
    part -= part * out
    return part


sin = unary(
    "sin", lambda g, x, xp: g * xp.cos(x),
    names=("sin", "math.sin"), doc="Compute the sine of an angle in radians.",
    example=("tf.sin([0.0, 1.0])", "[0.     0.8415]"), sparse=True,
)  # fmt: skip
cos = unary(
    "cos", lambda g, x, xp: -g * xp.sin(x),
    names=("cos", "math.cos"), doc="Compute the cosine of an angle in radians.",
    example=("tf.cos([0.0, 1.0])", "[1.     0.5403]"),
)  # fmt: skip
tan = unary(
    "tan", lambda g, out: g + g * out * out,
    names=("tan", "math.tan"), doc="Compute the tangent of an angle in radians.",
    example=("tf.tan([0.0, 1.0])", "[0.     1.5574]"), sparse=True,
)  # fmt: skip


def _arcsin_dx(g, x, xp):
    """g / sqrt(1 - x²). On the branch cut the sign of a zero counts: TensorFlow squares the conjugate."""
    if xp.is_complex(g):
        return g * xp.conj(xp.reciprocal(xp.sqrt(1 - xp.square(xp.conj(x)))))
    return g * xp.reciprocal(xp.sqrt(1 - xp.square(x)))


arcsin = unary(
    "arcsin", _arcsin_dx, tf_name="Asin",
    names=("asin", "math.asin"), doc="Compute the arcsine: the angle in [-pi/2, pi/2] whose sine is x.",
    example=("tf.asin([0.0, 1.0])", "[0.     1.5708]"), sparse=True,
)  # fmt: skip
arccos = unary(
    "arccos", lambda g, x, xp: _arcsin_dx(-g, x, xp), tf_name="Acos",
    names=("acos", "math.acos"), doc="Compute the arccosine: the angle in [0, pi] whose cosine is x.",
    example=("tf.acos([1.0, 0.0])", "[0.     1.5708]"),
)  # fmt: skip
arctan = unary(
    "arctan", lambda g, x, xp: g * xp.reciprocal(1 + xp.square(x)), tf_name="Atan",
    names=("atan", "math.atan"), doc="Compute the arctangent: the angle in (-pi/2, pi/2) whose tangent is x.",
    example=("tf.atan([0.0, 1.0])", "[0.     0.7854]"), sparse=True,
)  # fmt: skip
sinh = unary(
    "sinh", lambda g, x, xp: g * xp.cosh(x),
    names=("sinh", "math.sinh"),
    doc="Compute the hyperbolic sine, (exp(x) - exp(-x)) / 2.", example=("tf.sinh([0.0, 1.0])", "[0.     1.1752]"),
)  # fmt: skip
cosh = unary(
    "cosh", lambda g, x, xp: g * xp.sinh(x),
    names=("cosh", "math.cosh"),
    doc="Compute the hyperbolic cosine, (exp(x) + exp(-x)) / 2.", example=("tf.cosh([0.0, 1.0])", "[1.     1.5431]"),
)  # fmt: skip
tanh = unary(
    "tanh", lambda g, out: g * (1 - out * out),
    names=("tanh", "nn.tanh", "math.tanh"), doc="Compute the hyperbolic tangent.",
    example=("tf.tanh([0.0, 1.0])", "[0.     0.7616]"), category="activation", nan_free=True, sparse=True,
)  # fmt: skip

arcsinh = unary(
    "arcsinh", lambda g, out, xp: g / xp.cosh(out), tf_name="Asinh",
    names=("asinh", "math.asinh"),
    doc="Compute the inverse hyperbolic sine.", example=("tf.asinh([0.0, 1.0])", "[0.     0.8814]"),
    sparse=True,
)  # fmt: skip
arccosh = unary(
    "arccosh", lambda g, out, xp: g / xp.sinh(out), tf_name="Acosh",
    names=("acosh", "math.acosh"), doc="Compute the inverse hyperbolic cosine, for x >= 1.",
    example=("tf.acosh([1.0, 2.0])", "[0.    1.317]"),
)  # fmt: skip
arctanh = unary(
    "arctanh", lambda g, x, xp: g * xp.reciprocal(1 - xp.square(x)), tf_name="Atanh",
    names=("atanh", "math.atanh"), doc="Compute the inverse hyperbolic tangent, for -1 < x < 1.",
    example=("tf.atanh([0.0, 0.5])", "[0.     0.5493]"), hazards=("log",), sparse=True,
)  # fmt: skip
sigmoid = unary(
    "sigmoid", _sigmoid_dx,
    names=("sigmoid", "nn.sigmoid", "math.sigmoid"), doc="Compute 1 / (1 + exp(-x)), accurately for large and small x.",
    example=("tf.sigmoid([0.0, 2.0])", "[0.5    0.8808]"), category="activation", nan_free=True,
)  # fmt: skip
softplus = unary(
    "softplus", lambda g, x, xp: g * xp.sigmoid(x), kernel=elementwise.softplus, kinds="f", arg="features",
    names=("nn.softplus", "math.softplus"), doc="Compute log(1 + exp(x)), without overflow.",
    example=("tf.math.softplus([0.0, 100.0])", "[  0.6931 100.    ]"), category="activation",
)  # fmt: skip


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
    "sigmoid_cross_entropy", _sigmoid_cross_entropy_dx, lambda g, x: -x * g, kinds="f", kernel=_sigmoid_cross_entropy,
    doc="The cross entropy of logits and probabilities of independent classes, without overflow.",
    category="activation",
)  # fmt: skip

# -- kinks and steps -------------------------------------------------------------------------------------------------
relu = unary(
    "relu", lambda g, out, xp: xp.gate(g, out), kinds=REAL, arg="features",
    names=("nn.relu",),
    doc="Compute x where x is positive, 0 elsewhere.", example=("tf.nn.relu([-1.0, 2.0])", "[0. 2.]"),
    category="activation", nan_free=True,
)  # fmt: skip
gate = binary(
    "gate", lambda g, y, xp: xp.gate(g, y), zero, tf_name="ReluGrad", kinds=REAL,
    doc="x where y is positive, 0 elsewhere.",
)  # fmt: skip
floor = unary(
    "floor", None, kinds="f",
    names=("floor", "math.floor"), doc="Round down to the next integer, as a float; there is no gradient.",
    example=("tf.floor([0.2, -0.2])", "[ 0. -1.]"),
    instead="Let the gradient pass: tf.grad_pass_through(tf.floor)(x), or x + tf.stop_gradient(tf.floor(x) - x).",
)  # fmt: skip
ceil = unary(
    "ceil", None, kinds="f",
    names=("math.ceil",), doc="Round up to the next integer, as a float; there is no gradient.",
    example=("tf.math.ceil([0.2, -0.2])", "[ 1. -0.]"),
    instead="Let the gradient pass: tf.grad_pass_through(tf.math.ceil)(x), or "
    "x + tf.stop_gradient(tf.math.ceil(x) - x).",
)  # fmt: skip
rint = unary(
    "rint", None, kinds="f",
    names=("round", "math.rint"), doc="Round to the nearest integer, halves to even; there is no gradient.",
    example=("tf.math.rint([0.5, 1.5])", "[0. 2.]"),
    instead="Let the gradient pass: tf.grad_pass_through(tf.round)(x), or x + tf.stop_gradient(tf.round(x) - x).",
)  # fmt: skip

# -- truth -----------------------------------------------------------------------------------------------------------
equal = binary(
    "equal", None, None, kinds="any",
    names=("equal", "math.equal"), doc="Compute x == y, elementwise.", example=("tf.equal([1, 2], 2)", "[False  True]"),
    instead="Equality has no derivative; tf.exp(-k * (a - b) ** 2) is a smooth one.",
)  # fmt: skip
not_equal = binary(
    "not_equal", None, None, kinds="any",
    names=("not_equal", "math.not_equal"), doc="Compute x != y, elementwise.",
    example=("tf.not_equal([1, 2], 2)", "[ True False]"),
    instead="Equality has no derivative; tf.exp(-k * (a - b) ** 2) is a smooth one.",
)  # fmt: skip
less = binary(
    "less", None, None, kinds=REAL,
    names=("less", "math.less"),
    doc="Compute x < y, elementwise.", example=("tf.less([1.0, 3.0], 2.0)", "[ True False]"),
    instead=SMOOTH_STEP,
)  # fmt: skip
less_equal = binary(
    "less_equal", None, None, kinds=REAL,
    names=("less_equal", "math.less_equal"), doc="Compute x <= y, elementwise.",
    example=("tf.less_equal([1.0, 2.0], 2.0)", "[ True  True]"), instead=SMOOTH_STEP,
)  # fmt: skip
greater = binary(
    "greater", None, None, kinds=REAL,
    names=("greater", "math.greater"), doc="Compute x > y, elementwise.",
    example=("tf.greater([1.0, 3.0], 2.0)", "[False  True]"), instead=SMOOTH_STEP,
)  # fmt: skip
greater_equal = binary(
    "greater_equal", None, None, kinds=REAL,
    names=("greater_equal", "math.greater_equal"), doc="Compute x >= y, elementwise.",
    example=("tf.greater_equal([1.0, 2.0], 2.0)", "[False  True]"), instead=SMOOTH_STEP,
)  # fmt: skip
logical_and = binary(
    "logical_and", None, None, kinds="b",
    names=("logical_and", "math.logical_and"), doc="Compute the logical AND, elementwise.",
    example=("tf.logical_and([True, True], [True, False])", "[ True False]"), instead=SMOOTH_TRUTH,
)  # fmt: skip
logical_or = binary(
    "logical_or", None, None, kinds="b",
    names=("logical_or", "math.logical_or"), doc="Compute the logical OR, elementwise.",
    example=("tf.logical_or([True, False], [False, False])", "[ True False]"), instead=SMOOTH_TRUTH,
)  # fmt: skip
logical_xor = binary(
    "logical_xor", None, None, kinds="b",
    names=("math.logical_xor",), doc="Compute the logical XOR, elementwise.",
    example=("tf.math.logical_xor([True, True], [True, False])", "[False  True]"), instead=SMOOTH_TRUTH,
)  # fmt: skip
logical_not = unary(
    "logical_not", None, kinds="b",
    names=("logical_not", "math.logical_not"), doc="Compute the logical NOT, elementwise.",
    example=("tf.logical_not([True, False])", "[False  True]"), instead=SMOOTH_TRUTH,
)  # fmt: skip
bitwise_and = binary(
    "bitwise_and", None, None, kinds="iub",
    names=("bitwise.bitwise_and",), doc="The bits that both numbers have.",
)  # fmt: skip
bitwise_or = binary(
    "bitwise_or", None, None, kinds="iub",
    names=("bitwise.bitwise_or",), doc="The bits that either number has.",
)  # fmt: skip
bitwise_xor = binary(
    "bitwise_xor", None, None, kinds="iub",
    names=("bitwise.bitwise_xor",), doc="The bits that one number has and the other has not.",
)  # fmt: skip
invert = unary(
    "invert", None, kinds="iu",
    names=("bitwise.invert",), doc="All bits the other way.",
)  # fmt: skip
isnan = unary(
    "isnan", None, tf_name="IsNan", kinds="f", unregistered=True,
    names=("math.is_nan",), doc="Return whether each number is NaN.",
    example=("tf.math.is_nan([1.0, float('nan')])", "[False  True]"),
)  # fmt: skip
isinf = unary(
    "isinf", None, tf_name="IsInf", kinds="f", unregistered=True,
    names=("math.is_inf",), doc="Return whether each number is infinite.",
    example=("tf.math.is_inf([1.0, float('inf')])", "[False  True]"),
)  # fmt: skip
isfinite = unary(
    "isfinite", None, tf_name="IsFinite", kinds="f", unregistered=True,
    names=("math.is_finite",), doc="Return whether each number is neither infinite nor NaN.",
    example=("tf.math.is_finite([1.0, float('inf')])", "[ True False]"),
)  # fmt: skip

_where = Op(
    "where", ("condition", "x", "y"),
    (None, lambda g, condition, xp: xp.where(condition, g, 0), lambda g, condition, xp: xp.where(condition, 0, g)),
    tf_name="SelectV2", elementwise=True, kinds="any", linear=True,
    names=("where",), doc="x where a condition holds, y elsewhere.", category="indexing", nan_free=True,
)  # fmt: skip


def _select(condition: Any, x: Any, y: Any) -> Any:
    x, y = operands(x, y)
    if x.array.dtype != y.array.dtype:
        raise errors.mismatched_dtypes("SelectV2", x.dtype, y.dtype)
    return run(_where, [operand(condition), x, y], {})


where = declare(_where, _select)

# -- complex numbers: these change the dtype, so each states both directions -----------------------------------------
conj = linear(
    "conj", lambda g, xp: xp.conj(g), batch=lambda xp, size, batched, x: xp.conj(x),
    names=("math.conj",), doc="The complex conjugate.", category="elementwise",
)  # fmt: skip
real = linear(
    "real", lambda g, xp: xp.complex(g, zero(g, xp)), batch=lambda xp, size, batched, x: xp.real(x),
    names=("math.real",), doc="The real part.", category="elementwise",
)  # fmt: skip
imag = linear(
    "imag", lambda g, xp: xp.complex(zero(g, xp), g), batch=lambda xp, size, batched, x: xp.imag(x),
    names=("math.imag",), doc="The imaginary part.", category="elementwise",
)  # fmt: skip
complex_ = primitive(
    "complex", ("x", "y"), lambda g, xp: xp.real(g), lambda g, xp: xp.imag(g), elementwise=True, kinds="f",
    jvp=lambda given, values, attrs, tangents: _complex_jvp(*given), linear=True,
    names=("complex",), doc="Complex numbers of real and imaginary parts.",
)  # fmt: skip


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
        return xp.stop_gradient(zero(g, xp))
    along = xp.real(xp.conj(out) * g)
    across, size = g - out * xp.complex(along, zero(along, xp)), xp.absolute(x)
    # Divided in two parts, zeros stay zeros in the second derivative, also where 1 / |x|² overflows.
    return xp.complex(xp.divide_no_nan(xp.real(across), size), xp.divide_no_nan(xp.imag(across), size))


def _angle_dx(g, x, xp):
    """i g / conj(x), and TensorFlow's parts at 0."""
    return xp.complex(-g, zero(g, xp)) / xp.complex(xp.imag(x), xp.real(x))


absolute = primitive(
    "absolute", ("x",), _absolute_dx, tf_name="Abs", kinds="fci", batch=lambda xp, size, batched, x: xp.absolute(x),
    names=("abs",), doc="The absolute value.", category="elementwise", nan_free=True, sparse=True,
)  # fmt: skip
sign = primitive(
    "sign", ("x",), _sign_dx, kinds="fci", batch=lambda xp, size, batched, x: xp.sign(x),
    names=("sign",), doc="-1, 0 or 1; of complex numbers x / |x|.", category="elementwise", sparse=True,
)  # fmt: skip
angle = primitive(
    "angle", ("x",), _angle_dx, batch=lambda xp, size, batched, x: xp.angle(x),
    names=("math.angle",), doc="The argument of complex numbers, in radians.", category="elementwise",
)  # fmt: skip
