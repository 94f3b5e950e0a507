"""`keras.ops.numpy` over gradtape: NumPy's functions, with Keras' dtype promotion, recorded on tapes."""

from __future__ import annotations

import builtins
import math as pymath
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
from keras.src.backend import config
from keras.src.backend.common.backend_utils import vectorize_impl

from gradtape._src.arrays.checks import checked
from gradtape._src.arrays.symbolic import filled, is_known
from gradtape._src.conversion import wrap
from gradtape._src.core.composites import is_composite
from gradtape._src.dtypes import as_dtype
from gradtape._src.keras_backend import ragged, sparse
from gradtape._src.keras_backend._common import (
    along,
    axes_of,
    axis_of,
    broadcast,
    broadcast_together,
    cast,
    constant,
    convert_to_tensor,
    counted_from_the_front,
    cut,
    expand,
    flat,
    floats,
    gathered_last,
    kept_dims,
    look_up,
    move,
    numbers,
    promoted,
    result_type,
    shape as sizes_of,
    shape_of,
    truth,
    wide,
)
from gradtape._src.keras_backend.core import cast as cast_either, convert_to_tensor as convert_either, of_values
from gradtape._src.keras_backend.sparse import bincount as sparse_bincount
from gradtape._src.ops import array as ops, index, linalg, math, operators, reduce, segment, signal, special as bits
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.tensor import Tensor
from gradtape._src.tf import indexing, linalg as tflinalg, math as tfmath, shaping, special
from gradtape._src.tf.array import gather, shapes
from gradtape._src.tf.control_flow import while_loop


# -- making tensors --------------------------------------------------------------------------------------------------
def array(x, dtype=None):
    return convert_either(x, dtype=dtype)


def full(shape, fill_value, dtype=None):
    fill = convert_to_tensor(fill_value, dtype=dtype or config.floatx())
    return broadcast(fill, shape_of(shape))


def zeros(shape, dtype=None):
    return wrap(filled(shape_of(shape), as_dtype(dtype or config.floatx()).numpy_dtype, 0))


def ones(shape, dtype=None):
    return wrap(filled(shape_of(shape), as_dtype(dtype or config.floatx()).numpy_dtype, 1))


def empty(shape, dtype=None):
    return zeros(shape, dtype)


@ragged.elementwise
def full_like(x, fill_value, dtype=None):
    x = convert_to_tensor(x)
    return full(sizes_of(x), fill_value, dtype or x.dtype)


@ragged.elementwise
def zeros_like(x, dtype=None):
    if isinstance(x, SparseTensor):
        return of_values(lambda values: zeros_like(values, dtype), x)
    x = convert_to_tensor(x)
    return zeros(sizes_of(x), dtype or x.dtype)


@ragged.elementwise
def ones_like(x, dtype=None):
    x = convert_to_tensor(x)
    return ones(sizes_of(x), dtype or x.dtype)


def empty_like(x, dtype=None):
    return zeros_like(x, dtype)


def eye(N, M=None, k=0, dtype=None):
    rows, columns = int(N), int(N if M is None else M)
    return constant(np.eye(rows, columns, k=int(k)), as_dtype(dtype or config.floatx()).numpy_dtype)


def identity(n, dtype=None):
    return eye(n, dtype=dtype)


def tri(N, M=None, k=0, dtype=None):
    band = np.tri(int(N), None if M is None else int(M), int(k))
    return constant(band, as_dtype(dtype or config.floatx()).numpy_dtype)


def arange(start, stop=None, step=None, dtype=None):
    given = [x for x in (start, stop, step) if x is not None]
    if dtype is None:
        dtype = result_type(*[getattr(x, "dtype", type(x)) for x in given])
    first, last = (0, start) if stop is None else (start, stop)
    bounds: list[Any] = [x.numpy() if isinstance(x, Tensor) else x for x in (first, last, 1 if step is None else step)]
    kind = as_dtype(dtype)
    steps = np.arange(*bounds, dtype=np.float64 if kind.is_floating else None)
    return constant(steps, kind.numpy_dtype)


def _spacing(start, stop, num, endpoint, axis):
    """Evenly spaced numbers along a new axis, with exact ends, and their distance."""
    count = int(num)
    gaps = count - 1 if endpoint else count
    start, stop = broadcast_together(start, stop)
    at = axis_of(axis, len(sizes_of(start)) + 1)
    ahead = np.arange(count) / builtins.max(gaps, 1)
    ahead = ahead.reshape([count if i == at else 1 for i in builtins.range(len(sizes_of(start)) + 1)])
    first, last = expand(start, at), expand(stop, at)
    spaced = first * constant(1 - ahead, start) + last * constant(ahead, start)
    step = (stop - start) / float(gaps) if gaps > 0 else full_like(start, float("nan"))
    return spaced, step


def _ends(start, stop, dtype):
    """Both ends in the dtype of the computation, and the dtype of the result."""
    ends = [x if isinstance(x, (int, float)) else convert_to_tensor(x) for x in (start, stop)]
    kinds = [getattr(x, "dtype", type(x)) for x in ends]
    wanted = as_dtype(dtype or result_type(*kinds, float))
    compute = "float64" if wanted.is_integer or wanted.size < 4 or isinstance(start, (int, float)) else wanted
    return *[convert_to_tensor(x, compute) for x in ends], wanted


def _rounded_down(x, dtype):
    return cast(math.floor(x), dtype) if dtype.is_integer else cast(x, dtype)


def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0):
    first, last, wanted = _ends(start, stop, dtype)
    spaced, step = _spacing(first, last, num, endpoint, axis)
    spaced = _rounded_down(spaced, wanted)
    return (spaced, step) if retstep else spaced


def logspace(start, stop, num=50, endpoint=True, base=10, dtype=None, axis=0):
    first, last, wanted = _ends(start, stop, dtype)
    spaced, _ = _spacing(first, last, num, endpoint, axis)
    return cast(math.power(convert_to_tensor(base, spaced.dtype), spaced), wanted)


def geomspace(start, stop, num=50, endpoint=True, dtype=None, axis=0):
    first, last, _ = _ends(start, stop, "float64")
    spaced, _ = _spacing(math.log(math.absolute(first)), math.log(math.absolute(last)), num, endpoint, axis)
    side = expand(math.sign(broadcast_together(first, last)[0]), axis)
    return cast(side * math.exp(spaced), dtype or config.floatx())


def meshgrid(*x, indexing="xy"):
    xs = [flat(convert_to_tensor(v)) for v in x]
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Argument `indexing` must be 'xy' or 'ij'. Received: indexing={indexing}")
    places = list(builtins.range(len(xs)))
    if indexing == "xy" and len(xs) > 1:
        places[:2] = [1, 0]
    lifted = [
        ops.reshape(v, shape=tuple(sizes_of(v)[0] if i == place else 1 for i in builtins.range(len(xs))))
        for v, place in zip(xs, places, strict=True)
    ]
    grid = np.broadcast_shapes(*[sizes_of(v) for v in lifted]) if lifted else ()
    return [broadcast(v, grid) for v in lifted]


# -- windows ---------------------------------------------------------------------------------------------------------
def _window(function):
    """Make a window function return a constant: its length is known."""

    def window(x):
        return constant(function(int(x)), as_dtype(config.floatx()).numpy_dtype)

    window.__name__ = window.__qualname__ = function.__name__
    return window


bartlett = _window(np.bartlett)
blackman = _window(np.blackman)
hamming = _window(np.hamming)
hanning = _window(np.hanning)


def kaiser(x, beta):
    length = int(x)
    beta = cast(convert_to_tensor(beta), "float64")
    place = np.linspace(-1, 1, length) if length > 1 else np.zeros(length)
    window = special.bessel_i0(beta * wrap(np.sqrt(1 - place * place))) / special.bessel_i0(beta)
    return cast(window, config.floatx())


# -- arithmetic ------------------------------------------------------------------------------------------------------
@ragged.elementwise
@sparse.unites
def add(x1, x2):
    x1, x2 = promoted(x1, x2)
    return math.logical_or(x1, x2) if x1.dtype.is_bool else math.add(x1, x2)


@ragged.elementwise
@sparse.unites
def subtract(x1, x2):
    x1, x2 = promoted(x1, x2)
    return math.subtract(x1, x2)


@ragged.elementwise
@sparse.intersects
def multiply(x1, x2):
    x1, x2 = promoted(x1, x2)
    return math.logical_and(x1, x2) if x1.dtype.is_bool else math.multiply(x1, x2)


@ragged.elementwise
@sparse.divides
def divide(x1, x2):
    x1, x2 = promoted(x1, x2, also=(float,))
    return math.divide(x1, x2)


def true_divide(x1, x2):
    return divide(x1, x2)


@ragged.elementwise
@sparse.divides
def divide_no_nan(x1, x2):
    x1, x2 = promoted(x1, x2, also=(float,))
    return special.divide_no_nan(x1, x2)


def _of_integers(x1, x2):
    """Convert two operands to one dtype; booleans become int32."""
    x1, x2 = promoted(x1, x2)
    return (cast(x1, "int32"), cast(x2, "int32")) if x1.dtype.is_bool else (x1, x2)


@ragged.elementwise
def floor_divide(x1, x2):
    return operators.floor_divide(*_of_integers(x1, x2))


@ragged.elementwise
def mod(x1, x2):
    return operators.floor_mod(*_of_integers(x1, x2))


@ragged.elementwise
def fmod(x1, x2):
    """The remainder with the sign of the dividend: x1 minus a multiple of x2."""
    x1, x2 = _of_integers(x1, x2)
    x2 = operators.no_zeros(x1, x2, "FloorMod")
    rest = math.mod(math.absolute(x1), math.absolute(x2)) if not x1.dtype.is_unsigned else math.mod(x1, x2)
    return rest if x1.dtype.is_unsigned else math.where(math.less(x1, 0), -rest, rest)


@ragged.elementwise
def power(x1, x2):
    return operators.power(*_of_integers(x1, x2))


@ragged.elementwise
@sparse.keeps_zeros
def negative(x):
    return math.negative(convert_to_tensor(x))


@ragged.elementwise
@sparse.keeps_zeros
def absolute(x):
    x = convert_to_tensor(x)
    return x if x.dtype.is_bool or x.dtype.is_unsigned else math.absolute(x)


def abs(x):
    return absolute(x)


@ragged.elementwise
@sparse.keeps_zeros
def fabs(x):
    x = convert_to_tensor(x)
    return math.absolute(x if x.dtype.is_floating else cast(x, config.floatx()))


@ragged.elementwise
@sparse.keeps_zeros
def square(x):
    x = convert_to_tensor(x)
    return math.square(cast(x, "int32") if x.dtype.is_bool else x)


@ragged.elementwise
def reciprocal(x):
    x = convert_to_tensor(x)
    return math.reciprocal(x) if x.dtype.is_floating or x.dtype.is_complex else math.floor_divide(ones_like(x), x)


def _larger(x1, x2):
    return math.logical_or(x1, x2) if x1.dtype.is_bool else math.maximum(x1, x2)


def _smaller(x1, x2):
    return math.logical_and(x1, x2) if x1.dtype.is_bool else math.minimum(x1, x2)


@ragged.elementwise
@sparse.unites
def maximum(x1, x2):
    return _larger(*promoted(x1, x2))


@ragged.elementwise
@sparse.unites
def minimum(x1, x2):
    return _smaller(*promoted(x1, x2))


@ragged.elementwise
@sparse.unites
def fmax(x1, x2):
    return _but_no_nan(_larger, *promoted(x1, x2))


@ragged.elementwise
@sparse.unites
def fmin(x1, x2):
    return _but_no_nan(_smaller, *promoted(x1, x2))


def _but_no_nan(function, x1, x2):
    """A function of two numbers; where one of them is NaN, the other one."""
    if not x1.dtype.is_floating:
        return function(x1, x2)
    x1, x2 = broadcast_together(x1, x2)
    return function(math.where(math.isnan(x1), x2, x1), math.where(math.isnan(x2), x1, x2))


@ragged.elementwise
def clip(x, x_min, x_max):
    x = convert_to_tensor(x)
    if x.dtype.is_bool:
        x = cast(x, "int32")
    bounds = [b if isinstance(b, (int, float)) else convert_to_tensor(b) for b in (x_min, x_max)]
    wanted = x.dtype
    if wanted.is_integer and builtins.any(isinstance(b, float) or not _integral(b) for b in bounds):
        x = cast(x, "float64")
    low, high = (convert_to_tensor(b, x.dtype) for b in bounds)
    return cast(math.minimum(math.maximum(x, low), high), wanted)


def _integral(x):
    return isinstance(x, int) or not (x.dtype.is_floating or x.dtype.is_complex)


@ragged.elementwise
@sparse.keeps_zeros
def sign(x):
    x = convert_to_tensor(x)
    if x.dtype.is_bool:
        return x
    return cast(math.greater(x, 0), x.dtype) if x.dtype.is_unsigned else math.sign(x)


@ragged.elementwise
@sparse.keeps_zeros
def signbit(x):
    """Whether the sign is negative, also of zeros, by the sign of 1/x."""
    x = convert_to_tensor(x)
    if not x.dtype.is_floating:
        return math.less(numbers(x), 0)
    return math.less(math.where(math.equal(x, 0), 1 / x, x), 0)


@ragged.elementwise
def heaviside(x1, x2):
    x1, x2 = promoted(x1, x2)
    if not x1.dtype.is_floating:
        wanted = "float64" if x1.dtype.name == "int64" else config.floatx()
        x1, x2 = cast(x1, wanted), cast(x2, wanted)
    step = math.where(math.isnan(x1), x1, cast(math.greater(x1, 0), x1.dtype))
    return math.where(math.equal(x1, 0), x2, step)


@ragged.elementwise
def hypot(x1, x2):
    """The root of the sum of squares, scaled so that squares do not overflow."""
    x1, x2 = promoted(x1, x2)
    if not x1.dtype.is_floating:
        wanted = "float64" if x1.dtype.name == "int64" else config.floatx()
        x1, x2 = cast(x1, wanted), cast(x2, wanted)
    scale = ops.stop_gradient(math.maximum(math.absolute(x1), math.absolute(x2)))
    scale = math.where(math.logical_and(math.greater(scale, 0), math.isfinite(scale)), scale, ones_like(scale))
    return scale * math.sqrt(math.square(x1 / scale) + math.square(x2 / scale))


def gcd(x1, x2):
    return _euclid(*promoted(x1, x2))


def _euclid(x1, x2):
    x1, x2 = broadcast_together(absolute(x1), absolute(x2))
    wanted = x1.dtype
    pair = (cast(x1, "int32"), cast(x2, "int32")) if wanted.is_bool else (x1, x2)

    def step(a, b):
        done = math.equal(b, 0)
        rest = math.mod(a, math.where(done, ones_like(b), b))
        return math.where(done, a, b), math.where(done, b, rest)

    found, _ = while_loop(lambda a, b: any(math.not_equal(b, 0)), step, pair)
    return cast(found, wanted)


def lcm(x1, x2):
    x1, x2 = promoted(x1, x2)
    if x1.dtype.is_bool:
        return math.logical_and(x1, x2)
    divisor = _euclid(x1, x2)
    x1, x2 = absolute(x1), absolute(x2)
    return x1 * math.floor_divide(x2, math.where(math.equal(divisor, 0), ones_like(divisor), divisor))


@ragged.elementwise
def ldexp(x1, x2):
    """x1 times 2**x2, in two steps so that no factor overflows before the product does."""
    x1, x2 = convert_to_tensor(x1), convert_to_tensor(x2)
    if not x2.dtype.is_integer:
        raise TypeError(f"ldexp exponent must be an integer type. Received: x2 dtype={x2.dtype.name}")
    x1 = cast(x1, result_type(x1, x2, float))
    x2 = cast(x2, "int32")
    half = math.floor_divide(x2, 2)
    two = constant(2, x1)
    return x1 * math.power(two, cast(half, x1.dtype)) * math.power(two, cast(x2 - half, x1.dtype))


@ragged.elementwise
def nextafter(x1, x2):
    x1, x2 = convert_to_tensor(x1), convert_to_tensor(x2)
    wanted = result_type(x1, x2, float)
    compute = wanted if wanted in ("float32", "float64") else "float32"
    x1, x2 = broadcast_together(cast(x1, compute), cast(x2, compute))
    return cast(tfmath.nextafter(x1, x2), wanted)


# -- functions of real numbers ---------------------------------------------------------------------------------------
def _of_floats(name, function):
    def of_floats(x):
        return function(floats(x))

    of_floats.__name__ = of_floats.__qualname__ = name
    return ragged.elementwise(of_floats)


arccos = _of_floats("arccos", math.arccos)
arccosh = _of_floats("arccosh", math.arccosh)
arcsin = sparse.keeps_zeros(_of_floats("arcsin", math.arcsin))
arcsinh = sparse.keeps_zeros(_of_floats("arcsinh", math.arcsinh))
arctan = sparse.keeps_zeros(_of_floats("arctan", math.arctan))
arctanh = sparse.keeps_zeros(_of_floats("arctanh", math.arctanh))
ceil = sparse.keeps_zeros(_of_floats("ceil", math.ceil))
cos = _of_floats("cos", math.cos)
cosh = _of_floats("cosh", math.cosh)
floor = sparse.keeps_zeros(_of_floats("floor", math.floor))
log = _of_floats("log", math.log)
log1p = sparse.keeps_zeros(_of_floats("log1p", math.log1p))
log2 = _of_floats("log2", lambda x: math.log(x) / pymath.log(2))
log10 = _of_floats("log10", lambda x: math.log(x) / pymath.log(10))
sin = sparse.keeps_zeros(_of_floats("sin", math.sin))
sinh = sparse.keeps_zeros(_of_floats("sinh", math.sinh))
sqrt = sparse.keeps_zeros(_of_floats("sqrt", math.sqrt))
tan = sparse.keeps_zeros(_of_floats("tan", math.tan))
tanh = sparse.keeps_zeros(_of_floats("tanh", math.tanh))


def _exponent(x):
    x = convert_to_tensor(x)
    return x if x.dtype.is_floating or x.dtype.is_complex else cast(x, config.floatx())


@ragged.elementwise
def exp(x):
    return math.exp(_exponent(x))


@ragged.elementwise
def exp2(x):
    x = _exponent(x)
    return math.power(constant(2, x), x)


@ragged.elementwise
@sparse.keeps_zeros
def expm1(x):
    return math.expm1(_exponent(x))


@ragged.elementwise
def arctan2(x1, x2):
    x1, x2 = promoted(x1, x2, also=(float,))
    return math.arctan2(x1, x2)


def _wide_floats(x):
    """Convert x to floats; int64 becomes float64."""
    x = convert_to_tensor(x)
    if x.dtype.is_floating:
        return x
    return cast(x, "float64" if x.dtype.name == "int64" else config.floatx())


@ragged.elementwise
def deg2rad(x):
    return _wide_floats(x) * (pymath.pi / 180)


@ragged.elementwise
def rad2deg(x):
    return _wide_floats(x) * (180 / pymath.pi)


@ragged.elementwise
def cbrt(x):
    x = _wide_floats(x)
    return math.sign(x) * math.power(math.absolute(x), constant(1 / 3, x))


def i0(x):
    x = convert_to_tensor(x)
    x = x if x.dtype.is_floating else _wide_floats(x)
    return cast(special.bessel_i0(wide(x)), x.dtype)


@ragged.elementwise
def sinc(x):
    x = floats(x) * pymath.pi
    zero = math.equal(x, 0)
    safe = math.where(zero, ones_like(x), x)
    return math.where(zero, ones_like(x), math.sin(safe) / safe)


@ragged.elementwise
def logaddexp(x1, x2):
    x1, x2 = broadcast_together(*promoted(x1, x2, also=(float,)))
    return reduce.logsumexp(ops.stack(x1, x2, axis=0), axis=(0,), keepdims=False)


@ragged.elementwise
def logaddexp2(x1, x2):
    x1, x2 = promoted(x1, x2, also=(float,))
    return logaddexp(x1 * pymath.log(2), x2 * pymath.log(2)) / pymath.log(2)


@ragged.elementwise
def trunc(x):
    x = convert_to_tensor(x)
    if not x.dtype.is_floating:
        return x
    return math.where(math.less(x, 0), math.ceil(x), math.floor(x))


@sparse.keeps_zeros
def round(x, decimals=0):
    x = convert_to_tensor(x)
    if x.dtype.is_floating or x.dtype.is_complex:
        return _rounded(x, decimals)
    if x.dtype.is_bool:
        return _rounded(cast(x, config.floatx()), decimals)
    return x if decimals >= 0 else cast(_rounded(cast(x, "float64"), decimals), x.dtype)


def _rounded(x, decimals):
    if x.dtype.is_complex:
        return math.complex_(_rounded(math.real(x), decimals), _rounded(math.imag(x), decimals))
    if not decimals:
        return math.rint(x)
    scale = 10.0 ** builtins.abs(decimals)
    return math.rint(x * scale) / scale if decimals > 0 else math.rint(x / scale) * scale


# -- complex numbers -------------------------------------------------------------------------------------------------
@sparse.keeps_zeros
def real(x):
    x = convert_to_tensor(x)
    return math.real(x) if x.dtype.is_complex else x


@ragged.elementwise
@sparse.keeps_zeros
def imag(x):
    x = convert_to_tensor(x)
    return math.imag(x) if x.dtype.is_complex else zeros_like(x)


@sparse.keeps_zeros
def conjugate(x):
    x = convert_to_tensor(x)
    return math.conj(x) if x.dtype.is_complex else x


def conj(x):
    return conjugate(x)


@ragged.elementwise
def angle(x):
    return tfmath.angle(floats(x))


@ragged.elementwise
def isreal(x):
    x = convert_to_tensor(x)
    return math.equal(math.imag(x), 0) if x.dtype.is_complex else ones_like(x, "bool")


# -- truth -----------------------------------------------------------------------------------------------------------
def _comparison(name, function):
    def comparison(x1, x2):
        x1, x2 = promoted(x1, x2)
        return function(numbers(x1), numbers(x2))

    comparison.__name__ = comparison.__qualname__ = name
    return ragged.elementwise(comparison)


equal = _comparison("equal", math.equal)
not_equal = _comparison("not_equal", math.not_equal)
greater = _comparison("greater", math.greater)
greater_equal = _comparison("greater_equal", math.greater_equal)
less = _comparison("less", math.less)
less_equal = _comparison("less_equal", math.less_equal)


@ragged.elementwise
def logical_and(x1, x2):
    return math.logical_and(truth(x1), truth(x2))


@ragged.elementwise
def logical_or(x1, x2):
    return math.logical_or(truth(x1), truth(x2))


@ragged.elementwise
def logical_xor(x1, x2):
    return math.logical_xor(truth(x1), truth(x2))


def logical_not(x):
    return math.logical_not(truth(x))


def _predicate(function, x):
    """A predicate that only floats can fulfil: NaN, infinity."""
    x = convert_to_tensor(x)
    if x.dtype.is_complex:
        return math.logical_or(function(math.real(x)), function(math.imag(x)))
    return function(x) if x.dtype.is_floating else zeros_like(x, "bool")


def isnan(x):
    return _predicate(math.isnan, x)


def isinf(x):
    return _predicate(math.isinf, x)


def isfinite(x):
    return math.logical_not(math.logical_or(isnan(x), isinf(x)))


@ragged.elementwise
def isneginf(x):
    return math.logical_and(isinf(x), math.less(numbers(x), 0))


@ragged.elementwise
def isposinf(x):
    return math.logical_and(isinf(x), math.greater(numbers(x), 0))


@ragged.elementwise
def isclose(x1, x2, rtol=1e-5, atol=1e-8, equal_nan=False):
    x1, x2 = promoted(x1, x2, also=(float,))
    finite = math.logical_and(math.isfinite(x1), math.isfinite(x2))
    distance = math.absolute(math.where(finite, x1 - x2, zeros_like(x1 - x2)))
    near = math.less_equal(distance, atol + rtol * math.absolute(x2))
    close = math.where(finite, near, math.equal(x1, x2))
    return math.logical_or(close, math.logical_and(math.isnan(x1), math.isnan(x2))) if equal_nan else close


def allclose(x1, x2, rtol=1e-5, atol=1e-8, equal_nan=False):
    return all(isclose(x1, x2, rtol, atol, equal_nan))


def isin(x1, x2, assume_unique=False, invert=False):
    x1, x2 = promoted(x1, x2)
    found = reduce.any_(math.equal(expand(x1, -1), flat(x2)), axis=(len(sizes_of(x1)),), keepdims=False)
    return math.logical_not(found) if invert else found


@ragged.by(ragged.where)
def where(condition, x1=None, x2=None):
    if x1 is None or x2 is None:
        return nonzero(condition)
    return math.where(truth(condition), *promoted(x1, x2))


def select(condlist, choicelist, default=0):
    chosen = promoted(*choicelist, default)
    result = chosen.pop()
    for condition, choice in reversed(list(zip(condlist, chosen, strict=True))):
        result = math.where(truth(condition), choice, result)
    return result


@ragged.elementwise
def nan_to_num(x, nan=0.0, posinf=None, neginf=None):
    x = convert_to_tensor(x)
    if not x.dtype.is_floating:
        return x
    info = ml_dtypes.finfo(x.array.dtype)
    high = constant(info.max if posinf is None else posinf, x)
    low = constant(info.min if neginf is None else neginf, x)
    x = math.where(math.isnan(x), constant(nan, x), x)
    x = math.where(math.equal(x, float("inf")), high, x)
    return math.where(math.equal(x, float("-inf")), low, x)


# -- bits ------------------------------------------------------------------------------------------------------------
def bitwise_and(x, y):
    x1, x2 = promoted(x, y)
    return math.bitwise_and(x1, x2)


def bitwise_or(x, y):
    x1, x2 = promoted(x, y)
    return math.bitwise_or(x1, x2)


def bitwise_xor(x, y):
    x1, x2 = promoted(x, y)
    return math.bitwise_xor(x1, x2)


def bitwise_invert(x):
    x = convert_to_tensor(x)
    return math.logical_not(x) if x.dtype.is_bool else math.invert(x)


def bitwise_not(x):
    return bitwise_invert(x)


def _shifted(function, x, y):
    x = convert_to_tensor(x)
    x, y = (x, convert_to_tensor(y, x.dtype)) if isinstance(y, int) else promoted(x, y)
    return function(x, y)


def bitwise_left_shift(x, y):
    return _shifted(bits.shift_left, x, y)


def left_shift(x, y):
    return bitwise_left_shift(x, y)


def bitwise_right_shift(x, y):
    return _shifted(bits.shift_right, x, y)


def right_shift(x, y):
    return bitwise_right_shift(x, y)


def view(x, dtype=None):
    """Reinterpret the bytes as another dtype; the last axis grows or shrinks with the size of an element."""
    x = convert_to_tensor(x)
    if dtype is None:
        return x
    wanted = as_dtype(dtype)
    if x.dtype.is_bool:
        x = cast(x, "uint8")
    if wanted.is_bool:
        return cast(shaping.bitcast(x, "uint8"), "bool")
    have, want, sizes = x.dtype.size, wanted.size, sizes_of(x)
    if have == want:
        return shaping.bitcast(x, wanted)
    if not sizes:
        raise ValueError(
            f"A scalar cannot be viewed as a dtype of another size. Received: x of {x.dtype.name}, dtype={wanted.name}"
        )
    if have > want:
        return ops.reshape(shaping.bitcast(x, wanted), shape=(*sizes[:-1], sizes[-1] * (have // want)))
    if sizes[-1] * have % want:
        raise ValueError(
            f"When changing to a larger dtype, its size must be a divisor of the total size in bytes of the last axis. "
            f"Received: x.shape={sizes} of {x.dtype.name}, dtype={wanted.name}"
        )
    parts = ops.reshape(x, shape=(*sizes[:-1], sizes[-1] * have // want, want // have))
    return shaping.bitcast(parts, wanted)


# -- reductions ------------------------------------------------------------------------------------------------------
def _added_up(x):
    """Cast x to the dtype in which Keras computes sums and products: small integers become 32-bit ones."""
    if x.dtype.name in ("bool", "int8", "int16"):
        return cast(x, "int32")
    return cast(x, "uint32") if x.dtype.name in ("uint8", "uint16") else x


@ragged.reduced_by(tfmath.reduce_sum)
def sum(x, axis=None, keepdims=False):
    if sparse.is_placed(x):
        return sparse.sum_(of_values(_added_up, x), axis, keepdims)
    x = _added_up(convert_to_tensor(x))
    return reduce.sum_(x, axis=axes_of(axis, len(sizes_of(x))), keepdims=keepdims)


@ragged.reduced_by(tfmath.reduce_prod)
def prod(x, axis=None, keepdims=False, dtype=None):
    x = convert_to_tensor(x)
    x = _added_up(x) if dtype is None else cast(x, dtype)
    return reduce.prod(x, axis=axes_of(axis, len(sizes_of(x))), keepdims=keepdims)


def _averaged(x):
    """Cast x to the dtype in which Keras computes means."""
    return x if x.dtype.is_floating or x.dtype.is_complex else cast(x, result_type(x, "float32"))


@ragged.reduced_by(tfmath.reduce_mean)
def mean(x, axis=None, keepdims=False):
    if sparse.is_placed(x):
        sizes = sizes_of(x)
        count = pymath.prod(sizes[a] for a in axes_of(axis, len(sizes)))
        return true_divide(sum(of_values(_averaged, x), axis, keepdims), count)
    x = _averaged(convert_to_tensor(x))
    return reduce.mean(x, axis=axes_of(axis, len(sizes_of(x))), keepdims=keepdims)


def average(x, axis=None, weights=None):
    if weights is None:
        return mean(promoted(x, also=(float,))[0], axis)
    x, weights = promoted(x, weights, also=(float,))
    axes = axes_of(axis, len(sizes_of(x)))
    if sizes_of(weights) != sizes_of(x):
        wanted = tuple(sizes_of(x)[a] for a in axes)
        if sizes_of(weights) != wanted:
            raise ValueError(
                f"The shape of weights must be that of x, or of its axes {axis}. Received: x.shape={sizes_of(x)}, "
                f"weights.shape={sizes_of(weights)}"
            )
        order = builtins.sorted(builtins.range(len(axes)), key=lambda i: axes[i])
        weights = ops.transpose(weights, perm=tuple(order))
        weights = ops.reshape(weights, shape=tuple(n if i in axes else 1 for i, n in enumerate(sizes_of(x))))
        weights = broadcast(weights, sizes_of(x))
    parts = reduce.sum_(x * weights, axis=axes, keepdims=False)
    return parts / reduce.sum_(weights, axis=axes, keepdims=False)


@ragged.reduced_by(tfmath.reduce_variance)
def var(x, axis=None, keepdims=False):
    x = convert_to_tensor(x)
    wanted = result_type(x, float)
    x = cast(x, result_type(x, "float32"))
    return cast(tfmath.reduce_variance(x, axes_of(axis, len(sizes_of(x))), keepdims), as_dtype(wanted).real_dtype)


@ragged.reduced_by(tfmath.reduce_std)
def std(x, axis=None, keepdims=False):
    x = convert_to_tensor(x)
    x = x if x.dtype.is_floating or x.dtype.is_complex else cast(x, config.floatx())
    return math.sqrt(var(x, axis, keepdims))


def _extreme(reduction, of_bools, compare, x, axis, keepdims, initial):
    x = convert_to_tensor(x)
    axes = axes_of(axis, len(sizes_of(x)))
    if initial is None and builtins.any(not sizes_of(x)[a] for a in axes):
        raise ValueError(f"zero-size array to reduction operation which has no identity. Received: x.shape={x.shape}")
    result = (of_bools if x.dtype.is_bool else reduction)(x, axis=axes, keepdims=keepdims)
    return result if initial is None else compare(result, convert_to_tensor(initial, x.dtype))


@ragged.reduced_by(tfmath.reduce_max)
def max(x, axis=None, keepdims=False, initial=None):
    return _extreme(reduce.max_, reduce.any_, _larger, x, axis, keepdims, initial)


@ragged.reduced_by(tfmath.reduce_min)
def min(x, axis=None, keepdims=False, initial=None):
    return _extreme(reduce.min_, reduce.all_, _smaller, x, axis, keepdims, initial)


@ragged.reduced_by(tfmath.reduce_max)
def amax(x, axis=None, keepdims=False):
    return max(x, axis, keepdims)


@ragged.reduced_by(tfmath.reduce_min)
def amin(x, axis=None, keepdims=False):
    return min(x, axis, keepdims)


def ptp(x, axis=None, keepdims=False):
    return subtract(max(x, axis, keepdims), min(x, axis, keepdims))


@ragged.reduced_by(tfmath.reduce_all)
def all(x, axis=None, keepdims=False):
    x = truth(x)
    return reduce.all_(x, axis=axes_of(axis, len(sizes_of(x))), keepdims=keepdims)


@ragged.reduced_by(tfmath.reduce_any)
def any(x, axis=None, keepdims=False):
    x = truth(x)
    return reduce.any_(x, axis=axes_of(axis, len(sizes_of(x))), keepdims=keepdims)


def count_nonzero(x, axis=None):
    return sum(cast(truth(x), "int32"), axis)


def _position(function, x, axis, keepdims):
    x = numbers(x)
    sizes = sizes_of(x)
    if axis is None:
        found = function(flat(x), axis=0)
        found = ops.reshape(found, shape=(1,) * len(sizes)) if keepdims else found
    elif not sizes:
        found = zeros((), "int32")
    else:
        at = axis_of(axis, len(sizes))
        found = function(x, axis=at)
        found = expand(found, at) if keepdims else found
    return cast(found, "int32")


def argmax(x, axis=None, keepdims=False):
    return _position(reduce.argmax, x, axis, keepdims)


def argmin(x, axis=None, keepdims=False):
    return _position(reduce.argmin, x, axis, keepdims)


@ragged.by(ragged.cumsum)
def cumsum(x, axis=None, dtype=None):
    return _scan(reduce.cumsum, convert_to_tensor(x), axis, dtype)


def cumprod(x, axis=None, dtype=None):
    return _scan(segment.running_product, convert_to_tensor(x), axis, dtype)


def _scan(function, x, axis, dtype):
    wanted = result_type(dtype or x.dtype)
    x = cast(x, "int32" if wanted == "bool" else wanted)
    if axis is None:
        x, axis = flat(x), 0
    return function(x, axis=axis_of(axis, len(sizes_of(x))), exclusive=False, reverse=False)


def diff(a, n=1, axis=-1):
    a = convert_to_tensor(a)
    if n < 0:
        raise ValueError(f"Order `n` must be non-negative. Received: n={n}")
    at = axis_of(axis, len(sizes_of(a)))
    for _ in builtins.range(n):
        later, earlier = cut(a, at, 1, None), cut(a, at, None, -1)
        a = math.not_equal(later, earlier) if a.dtype.is_bool else later - earlier
    return a


def trapezoid(y, x=None, dx=1.0, axis=-1):
    y = convert_to_tensor(y)
    wanted = result_type(y, float)
    y = cast(y, wanted)
    at = axis_of(axis, len(sizes_of(y)))
    if x is None:
        widths = convert_to_tensor(dx, wanted)
    else:
        x = cast(convert_to_tensor(x), wanted)
        widths = diff(x, axis=axis if len(sizes_of(x)) > 1 else 0)
        if len(sizes_of(x)) == 1:
            widths = ops.reshape(widths, shape=tuple(-1 if i == at else 1 for i in builtins.range(len(sizes_of(y)))))
    heights = (cut(y, at, 1, None) + cut(y, at, None, -1)) / 2
    return reduce.sum_(widths * heights, axis=(at,), keepdims=False)


# -- reductions that ignore NaN --------------------------------------------------------------------------------------
def _without_nan(x, instead):
    """x with NaNs replaced, and where they were (None if there can be none)."""
    x = convert_to_tensor(x)
    if not x.dtype.is_floating:
        return x, None
    nan = math.isnan(x)
    return math.where(nan, constant(instead, x), x), nan


def nansum(x, axis=None, keepdims=False):
    if sparse.is_placed(x):
        return sum(of_values(lambda values: _without_nan(values, 0)[0], sparse.distinct(x)), axis, keepdims)
    return sum(_without_nan(x, 0)[0], axis, keepdims)


def nanprod(x, axis=None, keepdims=False):
    return prod(_without_nan(x, 1)[0], axis, keepdims)


def nancumsum(x, axis=None, dtype=None):
    return cumsum(_without_nan(x, 0)[0], axis, dtype)


def nancumprod(x, axis=None, dtype=None):
    return cumprod(_without_nan(x, 1)[0], axis, dtype)


def _or_nan(result, nan, axis, keepdims):
    """The result of a reduction that ignores NaN; NaN where all elements are NaN."""
    if nan is None:
        return result
    return math.where(all(nan, axis, keepdims), constant(np.nan, result), result)


def nanmax(x, axis=None, keepdims=False):
    x, nan = _without_nan(x, -np.inf)
    return _or_nan(max(x, axis, keepdims), nan, axis, keepdims)


def nanmin(x, axis=None, keepdims=False):
    x, nan = _without_nan(x, np.inf)
    return _or_nan(min(x, axis, keepdims), nan, axis, keepdims)


def _nan_position(function, x, instead, axis, keepdims):
    x, nan = _without_nan(x, instead)
    found = function(x, axis, keepdims)
    return found if nan is None else math.where(all(nan, axis, keepdims), constant(-1, found), found)


def nanargmax(x, axis=None, keepdims=False):
    return _nan_position(argmax, x, -np.inf, axis, keepdims)


def nanargmin(x, axis=None, keepdims=False):
    return _nan_position(argmin, x, np.inf, axis, keepdims)


def nanmean(x, axis=None, keepdims=False):
    x = convert_to_tensor(x)
    wanted = result_type(x, float)
    x, nan = _without_nan(cast(x, result_type(x, "float32")), 0)
    count = sum(cast(math.logical_not(nan), x.dtype), axis, keepdims)
    return cast(sum(x, axis, keepdims) / count, wanted)


def nanvar(x, axis=None, keepdims=False):
    x = convert_to_tensor(x)
    wanted = result_type(x, float)
    x = cast(x, result_type(x, "float32"))
    centred = x - nanmean(x, axis, keepdims=True)
    return cast(nanmean(math.square(centred), axis, keepdims), wanted)


def nanstd(x, axis=None, keepdims=False):
    return math.sqrt(nanvar(x, axis, keepdims))


# -- order -----------------------------------------------------------------------------------------------------------
def argsort(x, axis=-1):
    x = numbers(x)
    if axis is None or not sizes_of(x):
        x, axis = flat(x), 0
    return cast(reduce.argsort(x, axis=axis_of(axis, len(sizes_of(x))), descending=False), "int32")


def sort(x, axis=-1):
    x = convert_to_tensor(x)
    if axis is None:
        x, axis = flat(x), 0
    return index.take_along_axis(x, argsort(x, axis), axis=axis_of(axis, len(sizes_of(x))))


def argpartition(x, kth, axis=-1):
    """A full sort is a partition for all positions."""
    return argsort(x, axis)


def median(x, axis=None, keepdims=False):
    return _quantiles(x, 0.5, axis, "midpoint", keepdims, _quantile_dtype(x))


def nanmedian(x, axis=None, keepdims=False):
    return _quantiles(x, 0.5, axis, "midpoint", keepdims, _quantile_dtype(x), past_nan=True)


def quantile(x, q, axis=None, method="linear", keepdims=False):
    x = convert_to_tensor(x)
    wanted = config.floatx() if x.dtype.name == "int64" else _quantile_dtype(x)
    return _quantiles(x, q, axis, method, keepdims, wanted)


def nanquantile(x, q, axis=None, method="linear", keepdims=False):
    return _quantiles(x, q, axis, method, keepdims, _quantile_dtype(x), past_nan=True)


def percentile(x, q, axis=None, method="linear", keepdims=False):
    return _quantiles(x, _hundredth(q), axis, method, keepdims, _quantile_dtype(x))


def nanpercentile(x, q, axis=None, method="linear", keepdims=False):
    x = convert_to_tensor(x)
    wanted = x.dtype if x.dtype.is_floating else config.floatx()
    return _quantiles(x, _hundredth(q), axis, method, keepdims, wanted, past_nan=True)


def _hundredth(q):
    return cast(convert_to_tensor(q), "float64") / 100


def _quantile_dtype(x):
    return result_type(convert_to_tensor(x), float)


def _quantiles(x, q, axis, method, keepdims, dtype, past_nan=False):
    """Sort, and take the elements at the quantiles q (ignoring NaN with `past_nan`)."""
    x = convert_to_tensor(x)
    axes = axes_of(axis, len(sizes_of(x)))
    kept = kept_dims(sizes_of(x), axes) if keepdims else tuple(n for i, n in enumerate(sizes_of(x)) if i not in axes)
    rows = gathered_last(wide(cast(x, dtype)), axes)
    last, size = len(sizes_of(rows)) - 1, sizes_of(rows)[-1]
    rows = sort(rows)
    nan = math.isnan(rows)
    q = cast(convert_to_tensor(q), "float64")
    places = flat(q)
    if past_nan:
        count = reduce.sum_(cast(math.logical_not(nan), "float64"), axis=(last,), keepdims=True)
        place = places * math.maximum(count - 1, 0)
    else:
        place = broadcast(places * float(size - 1), (*sizes_of(rows)[:-1], *sizes_of(places)))
    below, above = math.floor(place), math.ceil(place)

    def at(where):
        return along(rows, cast(where, "int32"), last)

    if method == "linear":
        low = at(below)
        found = low + (at(above) - low) * cast(place - below, rows.dtype)
    elif method == "midpoint":
        found = (at(below) + at(above)) / 2
    elif method in ("lower", "higher", "nearest"):
        found = at({"lower": below, "higher": above, "nearest": math.rint(place)}[method])
    else:
        raise ValueError(
            "Argument `method` must be one of 'linear', 'lower', 'higher', 'midpoint', 'nearest'. "
            f"Received: method={method}"
        )
    spoilt = (reduce.all_ if past_nan else reduce.any_)(nan, axis=(last,), keepdims=True)
    found = move(math.where(spoilt, constant(np.nan, found), found), (-1,), (0,))
    return cast(ops.reshape(found, shape=(*sizes_of(q), *kept)), dtype)


def searchsorted(sorted_sequence, values, side="left"):
    sorted_sequence = convert_to_tensor(sorted_sequence)
    if len(sizes_of(sorted_sequence)) != 1:
        raise ValueError(
            "`searchsorted` only supports 1-D sorted sequences. You can use `keras.ops.vectorized_map` to extend it to "
            f"N-D sequences. Received: sorted_sequence.shape={sizes_of(sorted_sequence)}"
        )
    sequence, values = promoted(sorted_sequence, values)
    return _bisect(sequence, values, side)


def _bisect(sequence, values, side):
    """The positions of values in a sorted sequence: a bisection of all values in parallel."""
    sequence, values = numbers(sequence), numbers(values)
    size = sizes_of(sequence)[0]
    goes_behind = math.less if side == "left" else math.less_equal
    low, high = zeros_like(values, "int32"), full_like(values, size, "int32")
    for _ in builtins.range(size.bit_length()):
        middle = math.floor_divide(low + high, 2)
        behind = goes_behind(look_up(sequence, math.minimum(middle, size - 1), 0), values)
        behind = math.logical_and(behind, math.less(low, high))
        low, high = math.where(behind, middle + 1, low), math.where(behind, high, middle)
    return low


@ragged.of_values
def digitize(x, bins):
    if sparse.is_sparse(x) and is_known(first := digitize(0.0, bins)) and not np.asarray(first.array):
        return sparse.keeps_zeros(digitize)(x, bins)
    x, bins = promoted(x, bins)
    size = sizes_of(bins)[0]
    if not size:
        return zeros_like(x, "int32")
    falling = math.greater(numbers(bins)[0], numbers(bins)[-1])
    down = size - _bisect(ops.flip(bins, axis=(0,)), x, "right")
    return math.where(falling, down, _bisect(bins, x, "right"))


def bincount(x, weights=None, minlength=0, sparse=False):
    if sparse or isinstance(x, SparseTensor):
        x, weights = convert_either(x), None if weights is None else convert_either(weights)
        if weights is not None:
            weights = cast_either(weights, result_type(x.dtype, weights.dtype))
        return sparse_bincount(x, weights, minlength)
    x = convert_to_tensor(x)
    if weights is None:
        weights = ones_like(x, "int32")
    else:
        weights = cast(convert_to_tensor(weights), result_type(x, convert_to_tensor(weights)))
    x = cast(x, "int32")
    values = np.asarray(indexing.non_negative(x.array))
    length = builtins.max(int(minlength), int(values.max(initial=-1)) + 1)
    if len(sizes_of(x)) < 2:
        return index.add_rows(weights, x, shape=(length,))
    rows = sizes_of(x)[0]
    offsets = constant(np.arange(rows)[:, None] * length, x)
    return ops.reshape(index.add_rows(flat(weights), flat(x + offsets), shape=(rows * length,)), shape=(rows, length))


def histogram(x, bins=10, range=None):
    """Counts between edges; the last bin includes both of its edges."""
    x = flat(convert_to_tensor(x))
    values = x if x.dtype.is_floating else cast(x, config.floatx())
    if isinstance(bins, int):
        if range is None:
            low, high = (min(values), max(values)) if sizes_of(x)[0] else (constant(0, values), constant(1, values))
        else:
            low, high = (convert_to_tensor(float(end), values.dtype) for end in range)
        flat_range = math.equal(low, high)
        low = math.where(flat_range, low - 0.5, low)
        high = math.where(flat_range, high + 0.5, high)
        edges, _ = _spacing(low, high, bins + 1, True, 0)
    else:
        edges = cast(convert_to_tensor(bins), values.dtype)
    count = sizes_of(edges)[0] - 1
    values = cast(values, edges.dtype)
    bin_of = _bisect(edges, values, "right") - 1
    bin_of = math.where(math.equal(values, edges[-1]), constant(count - 1, bin_of), bin_of)
    inside = math.logical_and(math.greater_equal(values, edges[0]), math.less_equal(values, edges[-1]))
    bin_of = math.where(inside, bin_of, constant(0, bin_of))
    return index.add_rows(cast(inside, "int32"), bin_of, shape=(count,)), edges


def unique(
    x,
    sorted=True,
    return_index=False,
    return_inverse=False,
    return_counts=False,
    axis=None,
    size=None,
    fill_value=None,
):
    """The number of results depends on the values, which must be known; results are taken from x."""
    x = convert_to_tensor(x)
    source, along_axis = (flat(x), 0) if axis is None else (x, axis_of(axis, len(sizes_of(x))))
    _, first, inverse, counts = np.unique(
        np.asarray(source.array),
        return_index=True,
        return_inverse=True,
        return_counts=True,
        axis=None if axis is None else along_axis,
        equal_nan=False,
    )
    if axis is None:
        inverse = inverse.reshape(sizes_of(x))
    values = look_up(source, first, along_axis)
    if size is not None:
        missing = builtins.max(size - len(first), 0)
        values = cut(values, along_axis, 0, size)
        width = [(0, missing if i == along_axis else 0) for i in builtins.range(len(sizes_of(values)))]
        values = pad(values, width, constant_values=0 if fill_value is None else fill_value)
        counts = np.pad(counts[:size], (0, missing))
        first = np.pad(first[:size], (0, missing), constant_values=1)
    extras = [(return_index, first), (return_inverse, inverse), (return_counts, counts)]
    found = [values, *(wrap(extra.astype(np.int32)) for requested, extra in extras if requested)]
    return found[0] if len(found) == 1 else tuple(found)


# -- products --------------------------------------------------------------------------------------------------------
def _multiplied(function, x1, x2):
    """A sum of products; booleans are converted to numbers."""
    x1, x2 = promoted(x1, x2)
    if x1.dtype.is_bool:
        return truth(function(cast(x1, "int32"), cast(x2, "int32")))
    return function(x1, x2)


def matmul(x1, x2):
    if sparse.is_elements(x1) or sparse.is_elements(x2):
        return sparse.matmul(x1, x2)
    x1, x2 = convert_to_tensor(x1), convert_to_tensor(x2)
    if x1.dtype.name == x2.dtype.name == "int8":
        x1, x2 = cast(x1, "int32"), cast(x2, "int32")
    return _multiplied(_matmul, x1, x2)


def _matmul(x1, x2):
    """The product over the last two axes; a vector is a row on the left, a column on the right."""
    if not sizes_of(x1) or not sizes_of(x2):
        raise ValueError(
            f"`matmul` does not accept scalars. Received: x1.shape={sizes_of(x1)}, x2.shape={sizes_of(x2)}"
        )
    row, column = len(sizes_of(x1)) == 1, len(sizes_of(x2)) == 1
    result = linalg.matmul(expand(x1, 0) if row else x1, expand(x2, 1) if column else x2)
    if not (row or column):
        return result
    *lead, rows, columns = sizes_of(result)
    return ops.reshape(result, shape=(*lead, *([] if row else [rows]), *([] if column else [columns])))


def dot(x1, x2):
    return _multiplied(_dot, x1, x2)


def _dot(x1, x2):
    if not sizes_of(x1) or not sizes_of(x2):
        return x1 * x2
    over = -2 if len(sizes_of(x2)) > 1 else -1
    return tflinalg.tensordot(x1, x2, [[-1], [over]])


def inner(x1, x2):
    return _multiplied(
        lambda a, b: tflinalg.tensordot(a, b, [[-1], [-1]]) if sizes_of(a) and sizes_of(b) else a * b, x1, x2
    )


def vdot(x1, x2):
    return _multiplied(lambda a, b: tflinalg.tensordot(flat(conj(a)), flat(b), 1), x1, x2)


def outer(x1, x2):
    return _multiplied(lambda a, b: expand(flat(a), 1) * expand(flat(b), 0), x1, x2)


def tensordot(x1, x2, axes=2):
    return _multiplied(lambda a, b: tflinalg.tensordot(a, b, axes), x1, x2)


def einsum(subscripts, *operands, **kwargs):
    xs = [convert_to_tensor(x) for x in operands]
    names = {x.dtype.name for x in xs}
    wanted = "int32" if names == {"int8"} else result_type(*names)
    compute = "int32" if wanted == "bool" else wanted
    return cast(tflinalg.einsum(subscripts, *[cast(x, compute) for x in xs]), wanted)


def kron(x1, x2):
    return _multiplied(_kron, x1, x2)


def _kron(x1, x2):
    rank = builtins.max(len(sizes_of(x1)), len(sizes_of(x2)))
    first, second = ((1,) * (rank - len(sizes_of(x))) + sizes_of(x) for x in (x1, x2))
    apart = [n for pair in zip(first, (1,) * rank, strict=True) for n in pair]
    beside = [n for pair in zip((1,) * rank, second, strict=True) for n in pair]
    product = ops.reshape(x1, shape=tuple(apart)) * ops.reshape(x2, shape=tuple(beside))
    return ops.reshape(product, shape=tuple(n * m for n, m in zip(first, second, strict=True)))


def cross(x1, x2, axisa=-1, axisb=-1, axisc=-1, axis=None):
    x1, x2 = promoted(x1, x2)
    if axis is not None:
        axisa = axisb = axisc = axis
    x1, x2 = move(x1, (axisa,), (-1,)), move(x2, (axisb,), (-1,))
    for x in (x1, x2):
        if sizes_of(x)[-1] not in (2, 3):
            raise ValueError(
                "Both `x1` and `x2` must have length 2 or 3 along the axis of vectors. "
                f"Received: x1.shape={sizes_of(x1)}, x2.shape={sizes_of(x2)}"
            )
    flat_plane = sizes_of(x1)[-1] == sizes_of(x2)[-1] == 2
    a, b = ([x[..., i] for i in builtins.range(sizes_of(x)[-1])] for x in (x1, x2))
    upward = a[0] * b[1] - a[1] * b[0]
    if flat_plane:
        return upward
    for parts in (a, b):
        if len(parts) == 2:
            parts.append(zeros_like(parts[0]))
    parts = broadcast_together(a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], upward)
    return move(ops.stack(*parts, axis=len(sizes_of(parts[0]))), (-1,), (axisc,))


def trace(x, offset=0, axis1=0, axis2=1):
    x = _added_up(diagonal(x, offset, axis1, axis2))
    return reduce.sum_(x, axis=(len(sizes_of(x)) - 1,), keepdims=False)


def slogdet(x):
    return tuple(tflinalg.slogdet(convert_to_tensor(x)))


def corrcoef(x):
    """The covariances of rows, divided by both standard deviations."""
    x = convert_to_tensor(x)
    wanted = x.dtype if x.dtype.is_floating else "float64" if x.dtype.name == "int64" else config.floatx()
    x = wide(cast(x, wanted))
    rows = x if len(sizes_of(x)) > 1 else expand(x, 0)
    centred = rows - reduce.mean(rows, axis=(1,), keepdims=True)
    together = linalg.matmul(centred, centred, adjoint_y=True)
    deviation = math.sqrt(diagonal(together))
    result = together / expand(deviation, 1) / expand(deviation, 0)
    result = math.minimum(math.maximum(result, -1), 1)
    return cast(result if len(sizes_of(x)) > 1 else ops.reshape(result, shape=()), wanted)


def correlate(x1, x2, mode="valid"):
    wanted = result_type(getattr(x1, "dtype", type(x1)), getattr(x2, "dtype", type(x2)))
    if wanted == "int64":
        wanted = "float64"
    elif wanted not in ("bfloat16", "float16", "float64"):
        wanted = "float32"
    x1, x2 = convert_to_tensor(x1, wanted), convert_to_tensor(x2, wanted)
    if len(sizes_of(x1)) != 1 or len(sizes_of(x2)) != 1:
        raise ValueError(
            f"Both `x1` and `x2` must have one axis. Received: x1.shape={sizes_of(x1)}, x2.shape={sizes_of(x2)}"
        )
    swapped = sizes_of(x1)[0] < sizes_of(x2)[0]
    if swapped:
        x1, x2 = x2, x1
    length = sizes_of(x2)[0]
    widths = {"valid": (0, 0), "same": (length // 2, length - length // 2 - 1), "full": (length - 1, length - 1)}
    if mode not in widths:
        raise ValueError(f"Argument `mode` must be one of {tuple(widths)}. Received: mode={mode}")
    before, after = widths[mode]
    padded = ops.pad(x1, before=(before,), after=(after,))
    result = _matmul(signal.frame(padded, axis=0, length=length, step=1), x2)
    return ops.flip(result, axis=(0,)) if swapped else result


def vander(x, N=None, increasing=False):
    x = convert_to_tensor(x)
    wanted = result_type(x)
    x = cast(x, result_type(x, config.floatx()))
    count = sizes_of(x)[0] if N is None else int(N)
    powers = np.arange(count) if increasing else np.arange(count)[::-1]
    return cast(math.power(expand(x, 1), constant(powers, x)), wanted)


# -- shaping ---------------------------------------------------------------------------------------------------------
@ragged.elementwise
@sparse.keeps_zeros
def copy(x):
    return ops.identity(convert_to_tensor(x))


def ndim(x):
    return len(sizes_of(convert_either(x)))


@ragged.by(shapes.size)
def size(x):
    return pymath.prod(sizes_of(convert_either(x)))


def reshape(x, newshape):
    x = sparse.kept(x)
    wanted, sizes = shape_of(newshape), sizes_of(x)
    have, known = pymath.prod(sizes), pymath.prod(n for n in wanted if n != -1)
    if wanted.count(-1) == 1 and known and not have % known:
        wanted = tuple(have // known if n == -1 else n for n in wanted)
    if -1 in wanted or pymath.prod(wanted) != have:
        raise ValueError(f"cannot reshape a tensor of shape {sizes} into shape {shape_of(newshape)}")
    return sparse.reshape(x, wanted)


@ragged.by(ragged.ravel)
def ravel(x):
    return flat(convert_to_tensor(x))


def broadcast_to(x, shape):
    return broadcast(convert_to_tensor(x), shape_of(shape))


@ragged.by(ragged.expand_dims)
def expand_dims(x, axis):
    x = sparse.kept(x)
    given = axis if isinstance(axis, (list, tuple)) else (axis,)
    sizes = sizes_of(x)
    total = len(sizes) + len(given)
    places, rest = axes_of(given, total), iter(sizes)
    return sparse.reshape(x, tuple(1 if i in places else next(rest) for i in builtins.range(total)))


@ragged.by(shapes.squeeze)
def squeeze(x, axis=None):
    x = sparse.kept(x)
    sizes = sizes_of(x)
    gone = tuple(i for i, n in enumerate(sizes) if n == 1) if axis is None else axes_of(axis, len(sizes))
    if builtins.any(sizes[i] != 1 for i in gone):
        raise ValueError(f"Cannot squeeze axis={axis}, because the dimension is not 1. Received: x.shape={sizes}")
    return sparse.reshape(x, tuple(n for i, n in enumerate(sizes) if i not in gone))


def transpose(x, axes=None):
    x = sparse.kept(x)
    rank = len(sizes_of(x))
    order = tuple(reversed(builtins.range(rank))) if axes is None else axes_of(tuple(axes), rank)
    return sparse.transpose(x, order)


def moveaxis(x, source, destination):
    x = convert_to_tensor(x)
    sources, goals = (tuple(a) if isinstance(a, (list, tuple)) else (a,) for a in (source, destination))
    return move(x, sources, goals)


def swapaxes(x, axis1, axis2):
    x = convert_to_tensor(x)
    order = list(builtins.range(len(sizes_of(x))))
    a, b = axis_of(axis1, len(order)), axis_of(axis2, len(order))
    order[a], order[b] = order[b], order[a]
    return ops.transpose(x, perm=tuple(order))


@ragged.by(ragged.flip)
def flip(x, axis=None):
    x = convert_to_tensor(x)
    return ops.flip(x, axis=axes_of(axis, len(sizes_of(x))))


def flipud(x):
    return flip(x, 0)


def fliplr(x):
    return flip(x, 1)


def rot90(array, k=1, axes=(0, 1)):
    x = convert_to_tensor(array)
    if len(sizes_of(x)) < 2:
        raise ValueError(f"Input array must have at least 2 dimensions. Received: array.ndim={len(sizes_of(x))}")
    if len(axes) != 2 or axes[0] == axes[1]:
        raise ValueError(f"Invalid axes: {axes}. Axes must be a tuple of two different dimensions.")
    turns = k % 4
    if turns == 2:
        return flip(x, tuple(axes))
    if turns == 1:
        return swapaxes(flip(x, axes[1]), *axes)
    return flip(swapaxes(x, *axes), axes[1]) if turns == 3 else x


def roll(x, shift, axis=None):
    x = convert_to_tensor(x)
    shifts = tuple(int(s) for s in shift) if isinstance(shift, (list, tuple)) else (int(shift),)
    if axis is None:
        return ops.reshape(ops.roll(flat(x), shift=(builtins.sum(shifts),), axis=(0,)), shape=sizes_of(x))
    axes = axes_of(axis, len(sizes_of(x)))
    if len(shifts) < len(axes):
        shifts = shifts * len(axes)
    elif len(axes) < len(shifts):
        axes = axes * len(shifts)
    return ops.roll(x, shift=shifts, axis=axes)


@ragged.by(shaping.tile)
def tile(x, repeats):
    x = convert_to_tensor(x)
    times = shape_of(repeats)
    rank = builtins.max(len(times), len(sizes_of(x)))
    times = (1,) * (rank - len(times)) + times
    sizes = (1,) * (rank - len(sizes_of(x))) + sizes_of(x)
    apart = ops.reshape(x, shape=tuple(m for n in sizes for m in (1, n)))
    repeated = broadcast(apart, tuple(m for t, n in zip(times, sizes, strict=True) for m in (t, n)))
    return ops.reshape(repeated, shape=tuple(t * n for t, n in zip(times, sizes, strict=True)))


def repeat(x, repeats, axis=None):
    x = convert_to_tensor(x)
    if axis is None:
        x, axis = flat(x), 0
    at = axis_of(axis, len(sizes_of(x)))
    times = np.asarray(repeats.array if isinstance(repeats, Tensor) else repeats)
    return look_up(x, np.repeat(np.arange(sizes_of(x)[at]), times), at)


def pad(x, pad_width, mode="constant", constant_values=None):
    x = convert_to_tensor(x)
    if constant_values is not None and mode != "constant":
        raise ValueError(
            f"Argument `constant_values` can only be provided when `mode == 'constant'`. Received: mode={mode}"
        )
    rank = len(sizes_of(x))
    widths = np.broadcast_to(np.asarray(_plain_widths(pad_width)), (rank, 2))
    before, after = (tuple(int(n) for n in side) for side in widths.T)
    if mode in ("constant", "empty"):
        return _surrounded(x, before, after, 0 if constant_values is None else constant_values)
    if mode == "circular":
        mode = "wrap"
    for axis, pair in enumerate(zip(before, after, strict=True)):
        if pair != (0, 0):
            x = _extended(x, axis, pair, mode)
    return x


def _plain_widths(pad_width):
    """The widths as nested lists of ints."""
    if isinstance(pad_width, Tensor):
        return np.asarray(pad_width.array)
    return [_plain_widths(p) for p in pad_width] if isinstance(pad_width, (list, tuple)) else int(pad_width)


def _surrounded(x, before, after, value):
    widths = {"before": before, "after": after}
    padded = ops.pad(x, **widths)
    fill = convert_to_tensor(value)
    if not isinstance(value, Tensor) and not np.any(np.asarray(value)):
        return padded
    inside = np.pad(np.ones(sizes_of(x), bool), list(zip(before, after, strict=True)))
    return math.where(wrap(inside), padded, cast(fill, x.dtype))


_STATISTICS = {"maximum": max, "minimum": min, "mean": mean, "median": median}


def _extended(x, axis, pair, mode):
    """Pad one axis at both ends with values that depend on the mode."""
    length = sizes_of(x)[axis]
    if mode in ("edge", "reflect", "symmetric", "wrap"):
        return look_up(x, np.pad(np.arange(length), pair, mode=mode), axis)
    if mode in _STATISTICS:
        value = cast(_STATISTICS[mode](x, axis, keepdims=True), x.dtype)
        ends = [broadcast(value, (*sizes_of(x)[:axis], n, *sizes_of(x)[axis + 1 :])) for n in pair]
        return ops.concatenate(ends[0], x, ends[1], axis=axis)
    if mode == "linear_ramp":
        edges = look_up(x, np.pad(np.arange(length), pair, mode="edge"), axis)
        ramp = np.pad(np.ones(length), pair, mode="linear_ramp")
        ramp = ramp.reshape([-1 if i == axis else 1 for i in builtins.range(len(sizes_of(x)))])
        return edges * constant(ramp, edges)
    raise ValueError(f"Unknown value for argument `mode`. Received: mode={mode}")


# -- joining and splitting -------------------------------------------------------------------------------------------
@ragged.by(ragged.concatenate)
def concatenate(xs, axis=0):
    if axis is not None and builtins.all(sparse.is_elements(x) for x in xs):
        return sparse.concatenate(xs, axis)
    xs = promoted(*[convert_to_tensor(x) for x in xs])
    if axis is None:
        xs, axis = [flat(x) for x in xs], 0
    return ops.concatenate(*xs, axis=axis_of(axis, len(sizes_of(xs[0]))))


def append(x1, x2, axis=None):
    return concatenate([x1, x2], axis)


@ragged.by(ragged.stack)
def stack(x, axis=0):
    xs = promoted(*[convert_to_tensor(v) for v in x])
    return ops.stack(*xs, axis=axis_of(axis, len(sizes_of(xs[0])) + 1))


def vstack(xs):
    xs = [convert_to_tensor(x) for x in xs]
    xs = [x if len(sizes_of(x)) > 1 else ops.reshape(x, shape=(1, *(sizes_of(x) or (1,)))) for x in xs]
    return concatenate(xs, 0)


def hstack(xs):
    xs = [convert_to_tensor(x) for x in xs]
    xs = [x if sizes_of(x) else flat(x) for x in xs]
    return concatenate(xs, 0 if len(sizes_of(xs[0])) == 1 else 1)


def dstack(xs):
    return concatenate([_three_axes(convert_to_tensor(x)) for x in xs], 2)


def _three_axes(x):
    sizes = sizes_of(x) or (1,)
    sizes = (1, *sizes) if len(sizes) == 1 else sizes
    return ops.reshape(x, shape=(*sizes, 1) if len(sizes) == 2 else sizes)


def _split_at(x, places, axis):
    """Pieces between positions along an axis; positions that are not sorted give empty pieces, as in NumPy."""
    size = sizes_of(x)[axis]
    ends = [0, *places, size]
    whole = [slice(a, b).indices(size)[:2] for a, b in pairwise(ends)]
    if [b for _, b in whole[:-1]] == [a for a, _ in whole[1:]] and builtins.all(b >= a for a, b in whole):
        return list(ops.split(x, sizes=tuple(b - a for a, b in whole), axis=axis))
    return [cut(x, axis, a, builtins.max(a, b)) for a, b in whole]


@ragged.by(shapes.split)
def split(x, indices_or_sections, axis=0):
    x = convert_to_tensor(x)
    at = axis_of(axis, len(sizes_of(x)))
    if isinstance(indices_or_sections, int):
        length, rest = divmod(sizes_of(x)[at], indices_or_sections)
        if rest:
            raise ValueError(
                "array split does not result in an equal division. Received: "
                f"x.shape={sizes_of(x)}, axis={axis}, indices_or_sections={indices_or_sections}"
            )
        places = tuple(length * i for i in builtins.range(1, indices_or_sections))
    else:
        places = shape_of(indices_or_sections)
    return _split_at(x, places, at)


def array_split(x, indices_or_sections, axis=0):
    x = convert_to_tensor(x)
    at = axis_of(axis, len(sizes_of(x)))
    if not isinstance(indices_or_sections, int):
        return _split_at(x, shape_of(indices_or_sections), at)
    length, longer = divmod(sizes_of(x)[at], indices_or_sections)
    return _split_at(x, [length * i + builtins.min(i, longer) for i in builtins.range(1, indices_or_sections)], at)


def vsplit(x, indices_or_sections):
    return split(x, indices_or_sections, 0)


def hsplit(x, indices_or_sections):
    x = convert_to_tensor(x)
    return split(x, indices_or_sections, 1 if len(sizes_of(x)) > 1 else 0)


def dsplit(x, indices_or_sections):
    return split(x, indices_or_sections, 2)


# -- looking up ------------------------------------------------------------------------------------------------------
def take(x, indices, axis=None):
    x, indices = convert_to_tensor(x), convert_to_tensor(indices)
    if axis is None:
        x, axis = flat(x), 0
    at = axis_of(axis, len(sizes_of(x)))
    if is_composite(indices) or is_composite(x):
        return gather(x, indices, axis=at)
    return index.checked_take(x, counted_from_the_front(indices, sizes_of(x)[at]), at)


def take_along_axis(x, indices, axis=None):
    x, indices = convert_to_tensor(x), convert_to_tensor(indices)
    if axis is None:
        x, indices, axis = flat(x), flat(indices), 0
    at = axis_of(axis, len(sizes_of(x)))
    size = sizes_of(x)[at]
    return along(x, checked(index.WITHIN, counted_from_the_front(indices, size), size=size, op="GatherV2"), at)


def nonzero(x):
    """The number of results depends on the values, which must be known."""
    return tuple(wrap(places.astype(np.int32)) for places in np.nonzero(np.asarray(truth(x).array)))


def unravel_index(indices, shape):
    indices = convert_to_tensor(indices)
    sizes = shape_of(shape)
    places, rest = [], counted_from_the_front(indices, pymath.prod(sizes))
    for length in reversed(sizes):
        places.append(math.mod(rest, length))
        rest = math.floor_divide(rest, length)
    return tuple(reversed(places))


def _diagonal_places(rows, columns, offset):
    """The positions of a diagonal in a flattened matrix."""
    start = offset if offset >= 0 else -offset * columns
    length = builtins.min(rows + builtins.min(offset, 0), columns - builtins.max(offset, 0))
    return start + np.arange(builtins.max(length, 0)) * (columns + 1)


def diagonal(x, offset=0, axis1=0, axis2=1):
    x = convert_to_tensor(x)
    rank = len(sizes_of(x))
    if rank < 2:
        raise ValueError(f"`x` must have at least two axes. Received: x.shape={sizes_of(x)}")
    axes = (axis_of(axis1, rank), axis_of(axis2, rank))
    rows, columns = (sizes_of(x)[a] for a in axes)
    return look_up(gathered_last(x, axes), _diagonal_places(rows, columns, offset), rank - 2)


def diag(x, k=0):
    x = convert_to_tensor(x)
    if len(sizes_of(x)) == 2:
        return diagonal(x, k)
    if len(sizes_of(x)) != 1:
        raise ValueError(f"`x` must be 1-D or 2-D. Received: x.shape={sizes_of(x)}")
    side = sizes_of(x)[0] + builtins.abs(k)
    values = cast(x, "int32") if x.dtype.is_bool else x
    placed = index.add_rows(values, _diagonal_places(side, side, k), shape=(side * side,))
    return cast(ops.reshape(placed, shape=(side, side)), x.dtype)


def diagflat(x, k=0):
    return diag(ravel(x), k)


def tril(x, k=0):
    x = convert_to_tensor(x)
    return math.where(_lower_band(x, k), x, zeros_like(x))


def triu(x, k=0):
    x = convert_to_tensor(x)
    return math.where(_lower_band(x, k - 1), zeros_like(x), x)


def _lower_band(x, k):
    rows, columns = sizes_of(x)[-2:]
    return wrap(np.tri(rows, columns, k, dtype=bool))


# -- functions of functions ------------------------------------------------------------------------------------------
def _mapped(function, in_axes):
    """Map a function over the first axis of the arguments with 0 in `in_axes`, row by row."""

    def over_rows(*args):
        count = next(sizes_of(a)[0] for a, axis in zip(args, in_axes, strict=True) if axis is not None)
        rows = [
            function(*[a if axis is None else a[i] for a, axis in zip(args, in_axes, strict=True)])
            for i in builtins.range(count)
        ]
        if isinstance(rows[0], (list, tuple)):
            return tuple(stack(list(parts)) for parts in zip(*rows, strict=True))
        return stack(rows)

    return over_rows


def vectorize(pyfunc, *, excluded=None, signature=None):
    return vectorize_impl(pyfunc, _mapped, excluded=excluded, signature=signature)
