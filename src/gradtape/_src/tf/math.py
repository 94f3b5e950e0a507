"""`tf.math`: elementwise functions, reductions and scans. Most are the primitives themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays import namespace_of
from gradtape._src.arrays.dimensions import is_same_shape
from gradtape._src.conversion import constant_operand, convert, has_dtype, is_library, operand, operands, wrap
from gradtape._src.core.composites import NotDenseError, call_on_composites, dispatched
from gradtape._src.core.primitive import narrowed, widened
from gradtape._src.dtypes import as_dtype
from gradtape._src.indexed_slices import IndexedSlices, map_values
from gradtape._src.lazy_names import getattr_of, homes_of
from gradtape._src.literals import cannot_convert
from gradtape._src.ops import array, index, math, operators, reduce
from gradtape._src.ops.operators import no_zeros, without_kernel
from gradtape._src.ops.sparse_tensor import SparseTensor, map_values as map_sparse
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import axes_of, axis_of, flag, integer, scan_axis, static, truth
from gradtape._src.tf.array import cast, zeros_like

if TYPE_CHECKING:
    from gradtape._src.typing import Reduction, TensorLike

# -- elementwise: the primitives, under TensorFlow's names -----------------------------------------------------------
acos, acosh, asin, asinh = math.arccos, math.arccosh, math.arcsin, math.arcsinh
atan, atan2, atanh = math.arctan, math.arctan2, math.arctanh
add, subtract, multiply = math.add, math.subtract, math.multiply
ceil, floor = math.ceil, math.floor
cos, cosh, sin, sinh, tan, tanh = math.cos, math.cosh, math.sin, math.sinh, math.tan, math.tanh
exp, expm1, log, log1p = math.exp, math.expm1, math.log, math.log1p
equal, not_equal = math.equal, math.not_equal
greater, greater_equal, less, less_equal = math.greater, math.greater_equal, math.less, math.less_equal
logical_and, logical_or, logical_not = math.logical_and, math.logical_or, math.logical_not
logical_xor = math.logical_xor
is_nan, is_inf, is_finite = math.isnan, math.isinf, math.isfinite
maximum, minimum = math.maximum, math.minimum
negative, reciprocal, rint, rsqrt = math.negative, math.reciprocal, math.rint, math.rsqrt
sigmoid, softplus, sqrt, square = math.sigmoid, math.softplus, math.sqrt, math.square
truediv, floordiv, floormod, pow = (
    operators.true_divide,
    operators.floor_divide,
    operators.floor_mod,
    operators.power,
)
mod = floormod


# -- complex numbers -------------------------------------------------------------------------------------------------
@dispatched
def abs(x: TensorLike | SparseTensor, name: str | None = None) -> Tensor:
    """Compute the absolute value; the result is real for complex input.

    >>> tf.abs([-1.5, 2.0]).numpy().tolist()
    [1.5, 2.0]
    >>> tf.abs(3 + 4j).numpy().item()
    5.0
    """
    if type(x) is SparseTensor:
        return map_sparse(abs, x)  # type: ignore[return-value]
    result: Tensor = math.absolute(operand(x))
    return result


@dispatched
def angle(input: TensorLike, name: str | None = None) -> Tensor:
    """Compute the argument of complex numbers, in radians; for real input it is 0 or pi, without a gradient.

    >>> print(tf.math.angle([1 + 1j, -1 + 0j]).numpy().round(4))
    [0.7854 3.1416]
    """
    x = operand(_numeric(input, "fc", "angle"))
    result: Tensor = (
        math.angle(x)
        if x.dtype.is_complex
        else math.where(math.less(x, 0), operand(np.pi, x.dtype), operand(0, x.dtype))
    )
    return result


@dispatched
def real(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the real part; real input is returned unchanged.

    >>> tf.math.real([1 + 2j, 3 - 4j]).numpy().tolist()
    [1.0, 3.0]
    """
    x = _numeric(input, "fciu", "input must be a numeric tensor, but got tensor with dtype")
    result: Tensor = math.real(x) if x.dtype.is_complex else x
    return result


@dispatched
def imag(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the imaginary part; zeros for real input.

    >>> tf.math.imag([1 + 2j, 3 - 4j]).numpy().tolist()
    [2.0, -4.0]
    """
    x = operand(input)
    if x.dtype.name == "string":
        return wrap(np.full(x.array.shape, b"", object))
    result: Tensor = math.imag(x) if x.dtype.is_complex else wrap(namespace_of(x.array).zeros_like(x.array))
    return result


@dispatched
def conj(x: TensorLike, name: str | None = None) -> Tensor:
    """Compute the complex conjugate; real input is returned unchanged.

    >>> tf.math.conj(1 + 2j).numpy().item()
    (1-2j)
    """
    x = _numeric(x, "fciu", "Expected numeric or variant tensor, got dtype")
    result: Tensor = math.conj(x) if x.dtype.is_complex else x
    return result


def _numeric(value: Any, kinds: str, sentence: str) -> Tensor:
    """A numeric input; others raise a TypeError here."""
    x = operand(value)
    if x.array.dtype.kind.replace("V", "f") not in kinds:
        if sentence == "angle":
            raise cannot_convert(3.141592653589793 if x.dtype.is_integer else 0, x.dtype)
        raise TypeError(f"{sentence} {x.dtype!r}. Use tf.cast first.")
    return x


@dispatched
def sign(x: TensorLike | SparseTensor, name: str | None = None) -> Tensor:
    """Compute the sign: -1, 0 or 1; for complex numbers x / |x|, and 0 at 0.

    >>> tf.sign([-2.0, 0.0, 3.0]).numpy().tolist()
    [-1.0, 0.0, 1.0]
    """
    if type(x) is SparseTensor:
        return map_sparse(sign, x)  # type: ignore[return-value]
    result: Tensor = math.sign(operand(x))
    return result


@dispatched
def squared_difference(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Compute (x - y) squared; for complex numbers, (x - y) times its conjugate.

    >>> tf.math.squared_difference([1.0, 5.0], 3.0).numpy().tolist()
    [4.0, 4.0]
    """
    x, y = operands(x, y)
    if x.dtype.is_complex:
        difference = math.subtract(x, y)
        product: Tensor = math.multiply(difference, math.conj(difference))
        return product
    result: Tensor = math.squared_difference(x, y)
    return result


def divide(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Compute x / y, with Python's true division.

    >>> tf.math.divide([6, 3], 4).numpy().tolist()
    [1.5, 0.75]
    """
    if not is_library(x) and not is_library(y) and type(x) is not SparseTensor:
        x = convert(x)
    return x / y


@dispatched
def realdiv(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Compute x / y for floating-point or complex numbers.

    >>> tf.realdiv([3.0, 1.0], 2.0).numpy().tolist()
    [1.5, 0.5]
    """
    x, y = operands(x, y)
    if x.array.dtype.kind not in "fcV":
        raise errors.unsupported_dtype("RealDiv", x.dtype, "fc")
    return math.divide(x, y)


@dispatched
def round(x: TensorLike, name: str | None = None) -> Tensor:
    """Round to the nearest integer, halves to even.

    >>> tf.round([0.5, 1.5, -2.7]).numpy().tolist()
    [0.0, 2.0, -3.0]
    """
    x = operand(x)
    if x.array.dtype.kind in "bO":
        raise errors.unsupported_dtype("Round", x.dtype, "fciu")
    result: Tensor = x if x.dtype.is_integer else math.rint(x)
    return result


@dispatched
def truncatemod(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Compute the remainder of division toward zero, which has the sign of the dividend.

    >>> tf.truncatemod([7, -7], 3).numpy().tolist()
    [1, -1]
    """
    x, y = operands(x, y)
    if x.array.dtype != y.array.dtype:
        raise errors.mismatched_dtypes("TruncateMod", x.dtype, y.dtype)
    if x.dtype.name in ("float16", "bfloat16"):
        x = without_kernel(x, "TruncateMod")
    elif x.dtype.name not in ("int32", "int64", "float32", "float64"):
        raise errors.unsupported_dtype("TruncateMod", x.dtype)
    result: Tensor = math.fmod(x, no_zeros(x, y, "TruncateMod"))
    return result


@dispatched
def multiply_no_nan(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Compute x * y, and 0 where y is 0 even if x is infinite or NaN.

    >>> tf.math.multiply_no_nan([float("nan"), 2.0], [0.0, 3.0]).numpy().tolist()
    [0.0, 6.0]
    """
    first = convert(x)
    result: Tensor = math.multiply_no_nan(first, convert(y, first.dtype))
    return result


@dispatched
def scalar_mul(scalar: Any, x: TensorLike | IndexedSlices, name: str | None = None) -> Any:
    """Multiply a tensor, or the values of IndexedSlices, by a scalar.

    >>> tf.math.scalar_mul(2.0, [1.0, 3.0]).numpy().tolist()
    [2.0, 6.0]
    """
    factor = operand(scalar, None if isinstance(x, IndexedSlices) or is_library(scalar) else convert(x).dtype)
    if factor.array.shape:
        raise ValueError(f"The argument `scalar` must be a 0-D tensor. Received a tensor of shape {factor.shape}.")
    if not isinstance(x, IndexedSlices) and factor.dtype != convert(x).dtype:
        raise ValueError(
            f"Tensor conversion requested dtype {convert(x).dtype.name} for Tensor with dtype {factor.dtype.name}: "
            f"{factor!r}. Use tf.cast first."
        )
    return map_values(lambda t: factor * t, x)


@dispatched
def add_n(inputs: TensorLike, name: str | None = None) -> Tensor:
    """Add a list of tensors of the same shape.

    >>> tf.add_n([1.0, 2.0, 3.0]).numpy().item()
    6.0
    """
    tensors = _listed(inputs)
    if not tensors:
        raise ValueError(
            "Inputs to `add_n` must be a non-empty Python iterable of Tensors with the same dtype and shape."
        )
    if tensors[0].array.dtype.kind in "bO" and len(tensors) > 1:
        raise errors.unsupported_dtype("AddN", tensors[0].dtype, "fciu")
    total = widened(tensors[0])
    for tensor in tensors[1:]:
        if tensor.array.dtype != tensors[0].array.dtype:
            raise errors.mismatched_dtypes("AddN", tensors[0].dtype, tensor.dtype)
        if not is_same_shape(tensor.array.shape, total.array.shape):
            raise errors.invalid_argument(
                f"Shapes of all inputs must match: {errors.brackets(total.array.shape)} vs. "
                f"{errors.brackets(tensor.array.shape)}",
                "AddN",
            )
        total = total + widened(tensor)
    result: Tensor = narrowed(total, tensors[0].array.dtype)
    return result


def _listed(inputs: Any) -> list[Tensor]:
    """The tensors of a list argument, each with its own dtype; a tensor is the list of its rows."""
    if isinstance(inputs, IndexedSlices):
        return [convert(inputs)]
    if isinstance(inputs, (dict, str)) or not hasattr(inputs, "__iter__"):
        raise TypeError(f"Inputs to `add_n` must be a Python iterable of Tensors, got {inputs!r}.")
    return [convert(value) for value in inputs]


@dispatched
def log_sigmoid(x: TensorLike, name: str | None = None) -> Tensor:
    """Compute log(sigmoid(x)), without overflow.

    >>> print(tf.math.log_sigmoid([-100.0, 0.0]).numpy().round(4))
    [-100.       -0.6931]
    """
    return -math.softplus(-operand(x))


def _condition(value: Any) -> Tensor:
    """A plain value that must be boolean."""
    return operand(value, None if has_dtype(value) else as_dtype("bool"))


# -- reductions ------------------------------------------------------------------------------------------------------
def _reduction(name: str, function: Any, doc: str, kinds: str = "fciuV") -> Reduction:
    convert_first = _condition if kinds == "b" else operand
    public = name

    def reduction(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Any:
        try:
            x = input_tensor if type(input_tensor) is Tensor else convert_first(input_tensor)
        except NotDenseError:
            return call_on_composites(public, reduction, (input_tensor, axis, keepdims), {})
        if x.array.dtype.kind not in kinds:
            raise errors.unsupported_dtype(function.__name__.title(), x.dtype, kinds)
        result: Tensor = function(x, axis=axes_of(axis, len(x.array.shape)), keepdims=truth(keepdims))
        return result

    reduction.__name__ = reduction.__qualname__ = name
    reduction.__doc__ = doc
    return reduction


reduce_sum = _reduction(
    "reduce_sum",
    reduce.sum_,
    """Compute the sum along axes, all of them by default.

>>> tf.reduce_sum([[1, 2], [3, 4]], axis=1).numpy().tolist()
[3, 7]
""",
)
reduce_mean = _reduction(
    "reduce_mean",
    reduce.mean,
    """Compute the mean along axes, all of them by default.

>>> tf.reduce_mean([1.0, 2.0, 6.0]).numpy().item()
3.0
>>> tf.reduce_mean([[1.0, 3.0], [5.0, 7.0]], axis=0, keepdims=True).numpy().tolist()
[[3.0, 5.0]]
""",
)
reduce_prod = _reduction(
    "reduce_prod",
    reduce.prod,
    """Compute the product along axes; its gradient is exact at zeros.

>>> tf.reduce_prod([2, 3, 4]).numpy().item()
24
""",
)
reduce_max = _reduction(
    "reduce_max",
    reduce.max_,
    """Compute the maximum along axes; equal elements share the gradient.

>>> tf.reduce_max([[1, 5], [7, 2]], axis=1).numpy().tolist()
[5, 7]
""",
    "fiuV",
)
reduce_min = _reduction(
    "reduce_min",
    reduce.min_,
    """Compute the minimum along axes; equal elements share the gradient.

>>> tf.reduce_min([[1, 5], [7, 2]], axis=1).numpy().tolist()
[1, 2]
""",
    "fiuV",
)
reduce_any = _reduction(
    "reduce_any",
    reduce.any_,
    """Return whether any element along axes is true.

>>> tf.reduce_any([[True, False], [False, False]], axis=1).numpy().tolist()
[True, False]
""",
    "b",
)
reduce_all = _reduction(
    "reduce_all",
    reduce.all_,
    """Return whether all elements along axes are true.

>>> tf.reduce_all([[True, False], [True, True]], axis=1).numpy().tolist()
[False, True]
""",
    "b",
)
reduce_logsumexp = _reduction(
    "reduce_logsumexp",
    reduce.logsumexp,
    """Compute log(sum(exp(x))) along axes, without overflow.

>>> print(tf.reduce_logsumexp([1000.0, 1000.0]).numpy().round(4))
1000.6932
""",
    "fV",
)


@dispatched
def reduce_variance(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """Compute the variance along axes: the mean squared distance from the mean.

    >>> tf.math.reduce_variance([[1.0, 3.0], [2.0, 6.0]], axis=1).numpy().tolist()
    [1.0, 4.0]
    """
    x = operand(input_tensor)
    if x.dtype.is_integer:
        raise TypeError(f"Input must be either real or complex. Received integer type {x.dtype!r}.")
    result: Tensor = narrowed(_variance(widened(x), axis, keepdims), x.array.dtype)
    return result


def _variance(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    centred = x - reduce_mean(x, axis, keepdims=True)
    squared = math.real(centred * math.conj(centred)) if x.dtype.is_complex else math.square(centred)
    return reduce_mean(squared, axis, keepdims)


@dispatched
def reduce_std(input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Compute the standard deviation along axes.

    >>> tf.math.reduce_std([1.0, 3.0]).numpy().item()
    1.0
    """
    x = operand(input_tensor)
    variance = reduce_variance(widened(x), axis, keepdims)
    result: Tensor = narrowed(math.sqrt(variance), x.array.dtype)
    return result


def reduce_euclidean_norm(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """Compute the square root of the sum of squares along axes.

    >>> tf.math.reduce_euclidean_norm([3.0, 4.0]).numpy().item()
    5.0
    """
    x = operand(input_tensor)
    if x.dtype.is_integer:  # TensorFlow truncates the norm of integers
        total = reduce_sum(math.square(x), axis, keepdims)
        return cast(math.sqrt(cast(total, "float64")), total.dtype)
    y = widened(x)
    squared = math.real(y * math.conj(y)) if x.dtype.is_complex else y * y
    result: Tensor = narrowed(math.sqrt(reduce_sum(squared, axis, keepdims)), x.array.dtype)
    return result


def count_nonzero(
    input: TensorLike, axis: Any = None, keepdims: bool = False, dtype: Any = "int64", name: str | None = None
) -> Tensor:
    """Count the nonzero elements.

    >>> tf.math.count_nonzero([[0, 1, 2], [0, 0, 3]]).numpy().item()
    3
    """
    x, keep = operand(input), truth(keepdims)
    return cast(reduce_sum(cast(_is_nonzero(x), "int64"), axis, keep), dtype)


def _is_nonzero(x: Tensor) -> Tensor:
    """Where x is not the zero of its dtype, which is "" for strings."""
    zero = np.array(b"", object) if x.dtype.name == "string" else np.zeros((), x.array.dtype)
    by_zero = x.dtype.name == "string" or x.dtype.is_complex  # a cast to bool uses the real part
    there: Tensor = math.not_equal(x, constant_operand(zero)) if by_zero else cast(x, "bool")
    return there


def zero_fraction(value: TensorLike, name: str | None = None) -> Tensor:
    """Compute the fraction of elements that are zero.

    >>> tf.math.zero_fraction([0, 1, 0, 2]).numpy().item()
    0.5
    """
    x = operand(value)
    absent = math.logical_not(_is_nonzero(x))
    result: Tensor = reduce.mean(cast(absent, "float32"), axis=tuple(range(len(x.array.shape))))
    return result


def argmax(input: TensorLike, axis: Any = None, output_type: Any = "int64", name: str | None = None) -> Tensor:
    """Return the index of the largest element along an axis (0 by default); for ties, the first one.

    >>> tf.argmax([[1, 5], [7, 2]]).numpy().tolist()
    [1, 0]
    """
    return _arg(reduce.argmax, input, axis, output_type, "ArgMax", "int16, uint16, int32, int64")


def argmin(input: TensorLike, axis: Any = None, output_type: Any = "int64", name: str | None = None) -> Tensor:
    """Return the index of the smallest element along an axis (0 by default); for ties, the first one.

    >>> tf.math.argmin([[4, 1, 2], [0, 5, 3]], axis=1).numpy().tolist()
    [1, 0]
    """
    return _arg(reduce.argmin, input, axis, output_type, "ArgMin", "int32, int64")


def _arg(function: Any, input: Any, axis: Any, output_type: Any, op: str, allowed: str) -> Tensor:
    x, wanted = operand(input), as_dtype("int64" if output_type is None else output_type)
    if x.dtype.name == "string" or x.dtype.is_complex:
        raise errors.unsupported_dtype(op, x.dtype, "fiub")
    if wanted.name not in allowed.split(", "):
        raise errors.unsupported_dtype(op, wanted, allowed, "output_type")
    shape, at = tuple(x.array.shape), 0 if axis is None else _position(axis, op)
    if not -len(shape) <= at < len(shape):
        late = len(shape) <= 1  # TensorFlow's functions check the axis of more than a vector while they are traced
        kind = errors.refused_value if late else errors.invalid_argument
        raise kind(f"Expected dimension in the range [{-len(shape)}, {len(shape)}), but got {at}", op)
    at += len(shape) if at < 0 else 0
    if not shape[at]:
        raise errors.refused_value(f"Reduction axis {at} is empty in shape {errors.brackets(shape)}", op)
    where = function(x, axis=at)
    if where.array.dtype != wanted.numpy_dtype:
        where = array.discrete_cast(where, dtype=wanted.numpy_dtype)
    return where


def _position(axis: Any, op: str) -> int:
    if isinstance(axis, (list, tuple, range, dict, str, bytes, complex)) or not (
        is_library(axis) or isinstance(axis, (int, float, np.number, np.ndarray))
    ):
        raise TypeError(f"axis must be int or Tensor with integer datatype, got {axis!r}")
    return integer(axis, op)


# -- scans -----------------------------------------------------------------------------------------------------------
@dispatched
def cumsum(
    x: TensorLike, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Tensor:
    """Compute cumulative sums.

    >>> tf.cumsum([1, 2, 3]).numpy().tolist()
    [1, 3, 6]
    """
    return scan_along(reduce.cumsum, x, axis, exclusive, reverse, "Cumsum")


def scan_along(function: Any, x: Any, axis: Any, exclusive: bool, reverse: bool, op: str) -> Tensor:
    """Run a primitive that scans an axis."""
    x = operand(x)
    if x.array.dtype.kind in "bO":
        raise errors.unsupported_dtype(op, x.dtype, "fciu")
    result: Tensor = function(
        x,
        axis=scan_axis(axis, len(x.array.shape), op),
        exclusive=flag(exclusive, "exclusive"),
        reverse=flag(reverse, "reverse"),
    )
    return result


# -- order -----------------------------------------------------------------------------------------------------------
def argsort(
    values: TensorLike, axis: Any = -1, direction: Any = "ASCENDING", stable: bool = False, name: str | None = None
) -> Tensor:
    """Return the indices that sort a tensor; equal elements keep their order.

    >>> tf.argsort([30, 10, 20], direction="DESCENDING").numpy().tolist()
    [0, 2, 1]
    """
    x, at = operand(values), _sort_axis(axis)
    if not isinstance(direction, str):
        unhashable = isinstance(direction, (list, dict, set, np.ndarray, Tensor))
        kind = TypeError if unhashable else ValueError
        raise kind(f"Argument `direction` should be one of ASCENDING, DESCENDING. Received: direction={direction!r}")
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(
            f"Argument `direction` should be one of ASCENDING, DESCENDING. Received: direction={direction}"
        )
    if x.dtype.is_bool or x.dtype.is_complex or x.dtype.name == "string":
        raise errors.unsupported_dtype("TopKV2", x.dtype, "fiu")
    order = reduce.argsort(x, axis=axis_of(at, len(x.array.shape), "TopKV2"), descending=direction == "DESCENDING")
    return array.discrete_cast(order, dtype=np.dtype(np.int32))


def _sort_axis(axis: Any) -> int:
    plain = static(axis) if is_library(axis) else axis
    if isinstance(plain, np.ndarray) and not plain.ndim:
        plain = plain.item()
    if not isinstance(plain, (int, float, np.number)) or plain != plain:
        raise ValueError(f"axis must be a constant scalar, got {axis!r}.")
    return int(plain)


def sort(values: TensorLike, axis: Any = -1, direction: str = "ASCENDING", name: str | None = None) -> Tensor:
    """Sort the elements along an axis.

    >>> tf.sort([3.0, 1.0, 2.0]).numpy().tolist()
    [1.0, 2.0, 3.0]
    """
    x = operand(values)
    order = argsort(x, axis, direction)
    result: Tensor = index.take_along_axis(x, order, axis=axis_of(_sort_axis(axis), len(x.array.shape)))
    return result


def l2_normalize(x: TensorLike, axis: Any = None, epsilon: float = 1e-12, name: str | None = None) -> Tensor:
    """Divide x by its Euclidean norm along axes, which is clipped to at least sqrt(epsilon).

    >>> print(tf.math.l2_normalize([3.0, 4.0]).numpy().round(4))
    [0.6 0.8]
    """
    x = operand(x)
    y = widened(x)
    squared = math.real(y * math.conj(y)) if x.dtype.is_complex else math.square(y)
    inverse = math.rsqrt(math.maximum(reduce_sum(squared, axis, keepdims=True), epsilon))
    if x.dtype.is_complex:
        inverse = array.astype(inverse, dtype=x.array.dtype, source=inverse.array.dtype)
    result: Tensor = narrowed(y * inverse, x.array.dtype)
    return result


# -- polynomials -----------------------------------------------------------------------------------------------------
def polyval(coeffs: Sequence[Any], x: TensorLike, name: str | None = None) -> Tensor:
    """Evaluate the polynomial with these coefficients, highest power first, using Horner's rule.

    >>> tf.math.polyval([2.0, 0.0, 1.0], 3.0).numpy().item()
    19.0
    """
    if not isinstance(coeffs, list):
        raise ValueError(f"Argument coeffs must be list type. Received type {type(coeffs)}.")
    x = operand(x)
    if not coeffs:
        return zeros_like(x)
    total, *others = [operand(c) for c in coeffs]
    for c in others:
        total = c + total * x
    return total


# -- functions that are imported on first use ------------------------------------------------------------------------
_HOMES = homes_of(
    ("tf.indexing", "bincount confusion_matrix invert_permutation is_non_decreasing is_strictly_increasing"),
    ("tf.nn", "log_softmax softmax"),
    ("tf.ranking", "approx_max_k approx_min_k in_top_k top_k"),
    (
        "tf.segments",
        "accumulate_n cumprod cumulative_logsumexp segment_max segment_mean segment_min segment_prod segment_sum "
        "unsorted_segment_max unsorted_segment_mean unsorted_segment_min unsorted_segment_prod "
        "unsorted_segment_sqrt_n unsorted_segment_sum",
    ),
    (
        "tf.special",
        "bessel_i0 bessel_i0e bessel_i1 bessel_i1e betainc digamma divide_no_nan erf erfc erfcinv erfinv igamma "
        "igammac lbeta lgamma ndtri nextafter polygamma reciprocal_no_nan softsign special truncatediv xdivy "
        "xlog1py xlogy zeta",
    ),
)

if TYPE_CHECKING:
    from gradtape._src.tf.indexing import (
        bincount as bincount,
        confusion_matrix as confusion_matrix,
        invert_permutation as invert_permutation,
        is_non_decreasing as is_non_decreasing,
        is_strictly_increasing as is_strictly_increasing,
    )
    from gradtape._src.tf.nn import log_softmax as log_softmax, softmax as softmax
    from gradtape._src.tf.ranking import (
        approx_max_k as approx_max_k,
        approx_min_k as approx_min_k,
        in_top_k as in_top_k,
        top_k as top_k,
    )
    from gradtape._src.tf.segments import (
        accumulate_n as accumulate_n,
        cumprod as cumprod,
        cumulative_logsumexp as cumulative_logsumexp,
        segment_max as segment_max,
        segment_mean as segment_mean,
        segment_min as segment_min,
        segment_prod as segment_prod,
        segment_sum as segment_sum,
        unsorted_segment_max as unsorted_segment_max,
        unsorted_segment_mean as unsorted_segment_mean,
        unsorted_segment_min as unsorted_segment_min,
        unsorted_segment_prod as unsorted_segment_prod,
        unsorted_segment_sqrt_n as unsorted_segment_sqrt_n,
        unsorted_segment_sum as unsorted_segment_sum,
    )
    from gradtape._src.tf.special import (
        bessel_i0 as bessel_i0,
        bessel_i0e as bessel_i0e,
        bessel_i1 as bessel_i1,
        bessel_i1e as bessel_i1e,
        betainc as betainc,
        digamma as digamma,
        divide_no_nan as divide_no_nan,
        erf as erf,
        erfc as erfc,
        erfcinv as erfcinv,
        erfinv as erfinv,
        igamma as igamma,
        igammac as igammac,
        lbeta as lbeta,
        lgamma as lgamma,
        ndtri as ndtri,
        nextafter as nextafter,
        polygamma as polygamma,
        reciprocal_no_nan as reciprocal_no_nan,
        softsign as softsign,
        special as special,
        truncatediv as truncatediv,
        xdivy as xdivy,
        xlog1py as xlog1py,
        xlogy as xlogy,
        zeta as zeta,
    )
else:  # type checkers would accept any misspelled name
    __getattr__ = getattr_of(__name__, _HOMES)


# -- the namespace: TensorFlow's names, and nothing else -------------------------------------------------------------
# Primitives that have the name of the function are public by their declaration.
__all__ = [
    "abs",
    "accumulate_n",
    "acos",
    "acosh",
    "add_n",
    "angle",
    "approx_max_k",
    "approx_min_k",
    "argmax",
    "argmin",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "betainc",
    "bincount",
    "confusion_matrix",
    "conj",
    "count_nonzero",
    "cumprod",
    "cumsum",
    "cumulative_logsumexp",
    "divide",
    "divide_no_nan",
    "erfcinv",
    "floordiv",
    "floormod",
    "igamma",
    "igammac",
    "imag",
    "in_top_k",
    "invert_permutation",
    "is_finite",
    "is_inf",
    "is_nan",
    "is_non_decreasing",
    "is_strictly_increasing",
    "l2_normalize",
    "lbeta",
    "log_sigmoid",
    "log_softmax",
    "mod",
    "multiply_no_nan",
    "nextafter",
    "polygamma",
    "polyval",
    "pow",
    "real",
    "reciprocal_no_nan",
    "reduce_all",
    "reduce_any",
    "reduce_euclidean_norm",
    "reduce_logsumexp",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_std",
    "reduce_sum",
    "reduce_variance",
    "round",
    "scalar_mul",
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_prod",
    "segment_sum",
    "sign",
    "softmax",
    "softsign",
    "special",
    "squared_difference",
    "top_k",
    "truediv",
    "unsorted_segment_max",
    "unsorted_segment_mean",
    "unsorted_segment_min",
    "unsorted_segment_prod",
    "unsorted_segment_sqrt_n",
    "unsorted_segment_sum",
    "zero_fraction",
    "zeta",
]


def __dir__() -> list[str]:
    return list(__all__)
