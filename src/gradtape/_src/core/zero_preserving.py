"""Zero-preserving cotangents: exact zeros stay zero in products.

A branch that `where` did not take still gets a cotangent of zeros, and 0 · inf is NaN: one infinite slope in that
branch makes the gradient NaN. With `strong_zeros=True` the backward pass uses cotangents of this kind. They wrap arrays
and recorded tensors as `Batched` wraps rows: the same rules run on them, and only products differ,

    0 · anything   is 0: a cotangent of exactly zero stays zero through infinite and undefined slopes
    inf · 0        is 0: an infinite cotangent ends at a slope of exactly zero (the norm of a zero vector)

while NaN · 0 is NaN: undefined intermediate results are not hidden. All other products have the same values as without
it, bit for bit, and so have their derivatives: the infinite factor is replaced, never the cotangent.

    >>> import gradtape as tf
    >>> x = tf.Variable([0.0, 4.0])
    >>> for strong in (False, True):
    ...     with tf.GradientTape(strong_zeros=strong) as tape:
    ...         y = tf.where(x > 0.0, x**0.5, 0.0)
    ...     print(tape.gradient(y, x).numpy())
    [ nan 0.25]
    [0.   0.25]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape._src.arrays import attach_operators, common_namespace, namespace_of, register_namespace
from gradtape._src.arrays.base import Interpreter
from gradtape._src.arrays.batched import Batched
from gradtape._src.arrays.symbolic import is_known
from gradtape._src.conversion import constant_operand
from gradtape._src.core.sparse_cotangent import SparseCotangent
from gradtape._src.tensor import Tensor


class ZeroPreserving:
    """An array or a recorded tensor whose exact zeros stay zero in products."""

    __slots__ = ("array",)
    __array_ufunc__ = None  # NumPy's operators defer to these

    def __init__(self, array: Any) -> None:
        self.array = array

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        dtype = self.array.dtype
        return getattr(dtype, "numpy_dtype", dtype)

    def __repr__(self) -> str:
        return f"ZeroPreserving({self.array!r})"


def zero_preserving(value: Any) -> Any:
    """Wrap a cotangent as zero-preserving, also inside a batch, a sparse cotangent or a list."""
    if value is None or type(value) is ZeroPreserving:
        return value
    if type(value) is Batched:
        return value.mapped(zero_preserving)
    if type(value) is SparseCotangent:
        return SparseCotangent(zero_preserving(value.values), value.indices, value.shape)
    return ZeroPreserving(value)


def as_plain(value: Any) -> Any:
    """Unwrap a cotangent."""
    if type(value) is ZeroPreserving:
        return value.array
    if type(value) is Batched:
        return value.mapped(as_plain)
    if type(value) is SparseCotangent:
        return SparseCotangent(as_plain(value.values), value.indices, value.shape)
    return value


def is_zero_preserving(value: Any) -> bool:
    """Whether a cotangent, or one in a list, is zero-preserving."""
    if type(value) is list:
        return any(is_zero_preserving(v) for v in value)
    while type(value) is Batched:
        value = value.array
    return type(value) is ZeroPreserving


class ZeroPreservingNamespace(Interpreter):
    """The primitives over zero-preserving arrays."""

    rank = 5

    def interpret(self, name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        return apply(name, args, attrs)

    def zeros(self, shape: Any, dtype: Any) -> ZeroPreserving:
        return ZeroPreserving(np.zeros(shape, dtype))


_namespace: Any = ZeroPreservingNamespace()
register_namespace(ZeroPreserving, _namespace)


def apply(name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Run a primitive on zero-preserving operands: products by the rules above, others unchanged."""
    values = [a.array if type(a) is ZeroPreserving else a for a in args]
    strong = [i for i, a in enumerate(args) if type(a) is ZeroPreserving]
    xp = common_namespace(values)
    if not strong:  # a rule computes with saved values only
        return getattr(xp, name)(*values, **attrs)
    if name in _PRODUCTS:
        return zero_preserving(_PRODUCTS[name](xp, values, strong[0]))
    if name in _CONTRACTIONS:
        return zero_preserving(_contraction(xp, name, values, attrs))
    result = getattr(xp, name)(*values, **attrs)
    if type(result) is tuple:
        return tuple(zero_preserving(r) for r in result)
    if not _is_finite(result) and all(_is_zero(values[i]) for i in strong) and not _is_complex(result):
        result = xp.where(xp.isfinite(result), result, 0)  # a linear function of zeros, for any matrix
    return zero_preserving(result)


# -- tests of values ---------------------------------------------------------------------------------------------------
def bare(value: Any) -> Any:
    """The array of an engine inside a value of any kind."""
    while isinstance(value, (ZeroPreserving, Batched, Tensor)):
        value = value.array
    return np.asarray(value) if isinstance(value, (np.generic, int, float, complex)) else value


def concrete(value: Any) -> Any:
    """The NumPy array inside a value of any kind; None if it is unknown."""
    array = bare(value)
    return np.asarray(array) if is_known(array) and hasattr(array, "dtype") else None


def _all(array: Any, test: str, *operands: Any) -> bool:
    """Whether all elements are known to pass a test; those of a program that is being traced are unknown."""
    if not is_known(array):
        return False
    xp = namespace_of(array)
    return bool(xp.all(getattr(xp, test)(array, *operands), axis=tuple(range(array.ndim))))


def _is_finite(value: Any) -> bool:
    """Whether all elements are known to be finite."""
    array = bare(value)
    return array.dtype.kind in "iub" or _all(array, "isfinite")


def _is_zero(value: Any) -> bool:
    return _all(bare(value), "equal", 0)


def _is_complex(*values: Any) -> bool:
    return any(bare(value).dtype.kind == "c" for value in values)


# -- products --------------------------------------------------------------------------------------------------------
def _finite_where_zero(xp: Any, g: Any, y: Any) -> Any:
    """The factor y, with 0 instead of nonfinite elements where g is 0."""
    return xp.where(xp.logical_and(xp.equal(g, 0), xp.logical_not(xp.isfinite(y))), 0, y)


def _multiply(xp: Any, values: list[Any], strong: int) -> Any:
    g, y = values[strong], values[1 - strong]
    if _is_finite(g) and _is_finite(y):
        return xp.multiply(*values)
    if _is_complex(g, y):
        return xp.multiply_no_nan(y, g)
    ended = g if _is_finite(g) else xp.where(xp.logical_and(xp.isinf(g), xp.equal(y, 0)), 0, g)
    return xp.multiply(ended, y if _is_finite(y) else _finite_where_zero(xp, g, y))


def _multiply_no_nan(xp: Any, values: list[Any], strong: int) -> Any:
    x, y = values
    if strong == 0 and not _is_finite(y) and not _is_complex(x, y):
        y = _finite_where_zero(xp, x, y)
    return xp.multiply_no_nan(x, y)


def _divide(xp: Any, values: list[Any], strong: int) -> Any:
    g, y = values
    divisor = bare(y)
    if _all(divisor, "not_equal", 0) and _all(divisor, "equal", divisor):  # neither zeros nor NaN
        return xp.divide(g, y)
    if _is_complex(g, y):
        return xp.multiply_no_nan(xp.reciprocal(y), g)
    undefined = xp.logical_or(xp.equal(y, 0), xp.isnan(y))
    return xp.divide(g, xp.where(xp.logical_and(xp.equal(g, 0), undefined), 1, y))


def _gate(xp: Any, values: list[Any], strong: int) -> Any:
    g, y = values
    if strong == 0 and not _is_finite(g):
        g = xp.where(xp.logical_and(xp.isinf(g), xp.less_equal(y, 0)), 0, g)
    return xp.gate(g, y)


_PRODUCTS: dict[str, Callable[[Any, list[Any], int], Any]] = {
    "multiply": _multiply,
    "multiply_no_nan": _multiply_no_nan,
    "divide": _divide,
    "gate": _gate,
}

# Sums of products: linear in each operand.
_CONTRACTIONS = frozenset({"matmul", "einsum", "conv", "conv_input_grad", "conv_filter_grad"})


def _contraction(xp: Any, name: str, values: list[Any], attrs: dict[str, Any]) -> Any:
    """A sum of products in which 0 · inf is 0.

    The sum over the finite factors is right if each infinite factor is multiplied by 0, which the same contraction of
    ones and zeros counts.
    """
    function = getattr(xp, name)
    result = function(*values, **attrs)
    arrays = [bare(v) for v in values]
    if all(_is_finite(v) for v in values) or any(a.dtype.kind != "f" for a in arrays):
        return result
    if any(tuple(v.shape) != a.shape for v, a in zip(values, arrays, strict=True)):  # rows inside a tensor
        return result
    raw = common_namespace(arrays)
    present = [raw.astype(raw.not_equal(a, 0), dtype=a.dtype) for a in arrays]
    wild: Any = 0
    for i, a in enumerate(arrays):
        infinite = raw.astype(raw.logical_not(raw.isfinite(a)), dtype=a.dtype)
        others = [infinite if j == i else present[j] for j in range(len(arrays))]
        wild = wild + getattr(raw, name)(*others, **attrs)
    traced = any(type(v) is Tensor for v in values)
    known = constant_operand if traced else lambda array: array
    kept = [xp.where(known(raw.isfinite(a)), v, 0) for v, a in zip(values, arrays, strict=True)]
    return xp.where(known(raw.greater(wild, 0)), result, function(*kept, **attrs))


# -- operators -------------------------------------------------------------------------------------------------------
def _operator(name: str, swapped: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        if type(other) is SparseCotangent:
            return NotImplemented
        if type(other) is Batched:
            return _beside_batch(name, self, other, swapped)
        return apply(name, (other, self) if swapped else (self, other), {})

    return method


def _beside_batch(name: str, strong: ZeroPreserving, batch: Batched, swapped: bool) -> Any:
    """Combine one cotangent for all rows with a batch."""
    return getattr(namespace_of(batch), name)(*((batch, strong) if swapped else (strong, batch)))


attach_operators(ZeroPreserving, _operator, lambda name: lambda self: apply(name, (self,), {}))
