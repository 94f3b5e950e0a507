"""What the primitives that are TensorFlow functions say of themselves: a sentence, and an example that runs.

Their calls are built by the engine, so the words stand here. The examples are tests through `__test__`.
"""

from __future__ import annotations

from gradtape._src.tf import math, nn

WORDS: dict[str, tuple[str, str, str]] = {
    "acos": (
        "The angle whose cosine is x, in [0, pi].",
        "tf.acos([1.0, 0.0]).numpy().round(4).tolist()",
        "[0.0, 1.5707999467849731]",
    ),
    "acosh": (
        "The inverse of cosh, for x >= 1.",
        "tf.acosh([1.0, 2.0]).numpy().round(4).tolist()",
        "[0.0, 1.3170000314712524]",
    ),
    "add": (
        "x + y, elementwise.",
        "tf.add([1.0, 2.0], 0.5).numpy().round(4).tolist()",
        "[1.5, 2.5]",
    ),
    "asin": (
        "The angle whose sine is x, in [-pi/2, pi/2].",
        "tf.asin([0.0, 1.0]).numpy().round(4).tolist()",
        "[0.0, 1.5707999467849731]",
    ),
    "asinh": (
        "The inverse of sinh.",
        "tf.asinh([0.0, 1.0]).numpy().round(4).tolist()",
        "[0.0, 0.8813999891281128]",
    ),
    "atan": (
        "The angle whose tangent is x.",
        "tf.atan([0.0, 1.0]).numpy().round(4).tolist()",
        "[0.0, 0.7853999733924866]",
    ),
    "atan2": (
        "The angle of the point (x, y), from the two coordinates: atan2(y, x).",
        "tf.atan2([1.0], [-1.0]).numpy().round(4).tolist()",
        "[2.3561999797821045]",
    ),
    "atanh": (
        "The inverse of tanh, for -1 < x < 1.",
        "tf.atanh([0.0, 0.5]).numpy().round(4).tolist()",
        "[0.0, 0.5493000149726868]",
    ),
    "bessel_i0": (
        "The modified Bessel function of the first kind, of order 0.",
        "tf.math.bessel_i0([0.0, 1.0]).numpy().round(4).tolist()",
        "[1.0, 1.2661000490188599]",
    ),
    "bessel_i0e": (
        "bessel_i0(x) times exp(-|x|), which does not overflow.",
        "tf.math.bessel_i0e([0.0, 1.0]).numpy().round(4).tolist()",
        "[1.0, 0.4657999873161316]",
    ),
    "bessel_i1": (
        "The modified Bessel function of the first kind, of order 1.",
        "tf.math.bessel_i1([0.0, 1.0]).numpy().round(4).tolist()",
        "[0.0, 0.5651999711990356]",
    ),
    "bessel_i1e": (
        "bessel_i1(x) times exp(-|x|), which does not overflow.",
        "tf.math.bessel_i1e([0.0, 1.0]).numpy().round(4).tolist()",
        "[0.0, 0.2079000025987625]",
    ),
    "ceil": (
        "The next integer above, as a float; no gradient.",
        "tf.math.ceil([0.2, -0.2]).numpy().round(4).tolist()",
        "[1.0, -0.0]",
    ),
    "cos": (
        "The cosine of an angle in radians.",
        "tf.cos([0.0, 1.0]).numpy().round(4).tolist()",
        "[1.0, 0.5403000116348267]",
    ),
    "cosh": (
        "(exp(x) + exp(-x)) / 2.",
        "tf.cosh([0.0, 1.0]).numpy().round(4).tolist()",
        "[1.0, 1.5430999994277954]",
    ),
    "digamma": (
        "The derivative of lgamma.",
        "tf.math.digamma([1.0, 2.0]).numpy().round(4).tolist()",
        "[-0.5771999955177307, 0.4228000044822693]",
    ),
    "equal": (
        "x == y, elementwise.",
        "tf.equal([1, 2], 2).numpy().tolist()",
        "[False, True]",
    ),
    "erf": (
        "The error function.",
        "tf.math.erf([0.0, 1.0]).numpy().round(4).tolist()",
        "[0.0, 0.8427000045776367]",
    ),
    "erfc": (
        "1 - erf(x), exact for large x.",
        "tf.math.erfc([0.0, 1.0]).numpy().round(4).tolist()",
        "[1.0, 0.15729999542236328]",
    ),
    "erfinv": (
        "The inverse of erf.",
        "tf.math.erfinv([0.0, 0.5]).numpy().round(4).tolist()",
        "[0.0, 0.47690001130104065]",
    ),
    "exp": (
        "e to the power of x.",
        "tf.exp([0.0, 1.0]).numpy().round(4).tolist()",
        "[1.0, 2.7183001041412354]",
    ),
    "expm1": (
        "exp(x) - 1, exact for small x.",
        "tf.math.expm1([0.0, 1.0]).numpy().round(4).tolist()",
        "[0.0, 1.7182999849319458]",
    ),
    "floor": (
        "The next integer below, as a float; no gradient.",
        "tf.floor([0.2, -0.2]).numpy().round(4).tolist()",
        "[0.0, -1.0]",
    ),
    "greater": (
        "x > y, elementwise.",
        "tf.greater([1.0, 3.0], 2.0).numpy().tolist()",
        "[False, True]",
    ),
    "greater_equal": (
        "x >= y, elementwise.",
        "tf.greater_equal([1.0, 2.0], 2.0).numpy().tolist()",
        "[False, True]",
    ),
    "is_finite": (
        "Whether each number is neither infinite nor NaN.",
        "tf.math.is_finite([1.0, float('inf')]).numpy().tolist()",
        "[True, False]",
    ),
    "is_inf": (
        "Whether each number is infinite.",
        "tf.math.is_inf([1.0, float('inf')]).numpy().tolist()",
        "[False, True]",
    ),
    "is_nan": (
        "Whether each number is NaN.",
        "tf.math.is_nan([1.0, float('nan')]).numpy().tolist()",
        "[False, True]",
    ),
    "less": (
        "x < y, elementwise.",
        "tf.less([1.0, 3.0], 2.0).numpy().tolist()",
        "[True, False]",
    ),
    "less_equal": (
        "x <= y, elementwise.",
        "tf.less_equal([1.0, 2.0], 2.0).numpy().tolist()",
        "[True, True]",
    ),
    "lgamma": (
        "The logarithm of |gamma(x)|.",
        "tf.math.lgamma([1.0, 4.0]).numpy().round(4).tolist()",
        "[-0.0, 1.7918000221252441]",
    ),
    "log": (
        "The natural logarithm.",
        "tf.math.log([1.0, 2.0]).numpy().round(4).tolist()",
        "[0.0, 0.6930999755859375]",
    ),
    "log1p": (
        "log(1 + x), exact for small x.",
        "tf.math.log1p([0.0, 1.0]).numpy().round(4).tolist()",
        "[0.0, 0.6930999755859375]",
    ),
    "logical_and": (
        "Both, elementwise.",
        "tf.logical_and([True, True], [True, False]).numpy().tolist()",
        "[True, False]",
    ),
    "logical_not": (
        "The opposite, elementwise.",
        "tf.logical_not([True, False]).numpy().tolist()",
        "[False, True]",
    ),
    "logical_or": (
        "Either or both, elementwise.",
        "tf.logical_or([True, False], [False, False]).numpy().tolist()",
        "[True, False]",
    ),
    "logical_xor": (
        "Either but not both, elementwise.",
        "tf.math.logical_xor([True, True], [True, False]).numpy().tolist()",
        "[False, True]",
    ),
    "maximum": (
        "The larger of x and y; where they are equal, the gradient goes to x.",
        "tf.maximum([1.0, 3.0], 2.0).numpy().round(4).tolist()",
        "[2.0, 3.0]",
    ),
    "minimum": (
        "The smaller of x and y; where they are equal, the gradient goes to x.",
        "tf.minimum([1.0, 3.0], 2.0).numpy().round(4).tolist()",
        "[1.0, 2.0]",
    ),
    "multiply": (
        "x * y, elementwise.",
        "tf.multiply([1.0, 2.0], 3.0).numpy().round(4).tolist()",
        "[3.0, 6.0]",
    ),
    "ndtri": (
        "The number below which a standard normal variable falls with probability x.",
        "tf.math.ndtri([0.5, 0.9]).numpy().round(4).tolist()",
        "[0.0, 1.281599998474121]",
    ),
    "negative": (
        "-x.",
        "tf.negative([1.0, -2.0]).numpy().round(4).tolist()",
        "[-1.0, 2.0]",
    ),
    "not_equal": (
        "x != y, elementwise.",
        "tf.not_equal([1, 2], 2).numpy().tolist()",
        "[True, False]",
    ),
    "reciprocal": (
        "1 / x.",
        "tf.math.reciprocal([2.0, 4.0]).numpy().round(4).tolist()",
        "[0.5, 0.25]",
    ),
    "relu": (
        "x where x is positive, 0 elsewhere.",
        "tf.nn.relu([-1.0, 2.0]).numpy().round(4).tolist()",
        "[0.0, 2.0]",
    ),
    "rint": (
        "To the nearest integer, halves to even; no gradient.",
        "tf.math.rint([0.5, 1.5]).numpy().round(4).tolist()",
        "[0.0, 2.0]",
    ),
    "rsqrt": (
        "1 / sqrt(x).",
        "tf.math.rsqrt([4.0, 16.0]).numpy().round(4).tolist()",
        "[0.5, 0.25]",
    ),
    "sigmoid": (
        "1 / (1 + exp(-x)), exact at both ends.",
        "tf.sigmoid([0.0, 2.0]).numpy().round(4).tolist()",
        "[0.5, 0.8808000087738037]",
    ),
    "sin": (
        "The sine of an angle in radians.",
        "tf.sin([0.0, 1.0]).numpy().round(4).tolist()",
        "[0.0, 0.8414999842643738]",
    ),
    "sinh": (
        "(exp(x) - exp(-x)) / 2.",
        "tf.sinh([0.0, 1.0]).numpy().round(4).tolist()",
        "[0.0, 1.1751999855041504]",
    ),
    "softplus": (
        "log(1 + exp(x)), without overflow.",
        "tf.math.softplus([0.0, 100.0]).numpy().round(4).tolist()",
        "[0.6930999755859375, 100.0]",
    ),
    "sqrt": (
        "The square root.",
        "tf.sqrt([4.0, 9.0]).numpy().round(4).tolist()",
        "[2.0, 3.0]",
    ),
    "square": (
        "x * x.",
        "tf.square([3.0, -4.0]).numpy().round(4).tolist()",
        "[9.0, 16.0]",
    ),
    "subtract": (
        "x - y, elementwise.",
        "tf.subtract([1.0, 2.0], 0.5).numpy().round(4).tolist()",
        "[0.5, 1.5]",
    ),
    "tan": (
        "The tangent of an angle in radians.",
        "tf.tan([0.0, 1.0]).numpy().round(4).tolist()",
        "[0.0, 1.5573999881744385]",
    ),
    "tanh": (
        "The hyperbolic tangent.",
        "tf.tanh([0.0, 1.0]).numpy().round(4).tolist()",
        "[0.0, 0.7616000175476074]",
    ),
    "xdivy": (
        "x / y, and 0 where x is 0.",
        "tf.math.xdivy([0.0, 1.0], [0.0, 4.0]).numpy().round(4).tolist()",
        "[0.0, 0.25]",
    ),
    "xlog1py": (
        "x log(1 + y), and 0 where x is 0.",
        "tf.math.xlog1py([0.0, 2.0], [-1.0, 1.0]).numpy().round(4).tolist()",
        "[0.0, 1.386299967765808]",
    ),
    "xlogy": (
        "x log(y), and 0 where x is 0.",
        "tf.math.xlogy([0.0, 2.0], [0.0, 3.0]).numpy().round(4).tolist()",
        "[0.0, 2.197200059890747]",
    ),
}

__test__: dict[str, str] = {}


def document() -> None:
    """Give every such primitive its docstring."""
    for name, (sentence, example, result) in WORDS.items():
        text = f"{sentence}\n\n>>> import gradtape as tf\n>>> {example}\n{result}\n"
        function = getattr(math, name, None) or getattr(nn, name)
        function.__doc__ = __test__[name] = text


document()
