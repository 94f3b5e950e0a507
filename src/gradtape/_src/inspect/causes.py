"""Find the cause of a NaN or Inf from an op, its inputs and its outputs.

All values here are NumPy arrays. Elementwise ops are judged by the elements at the first bad position, others by
whether their operands contain certain values.
"""

from __future__ import annotations

import warnings
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradtape._src.arrays import numpy_namespace
from gradtape._src.core.fast.calls import vjps_of
from gradtape._src.core.zero_preserving import concrete
from gradtape._src.interrupts import float_errors_ignored, is_interrupt

if TYPE_CHECKING:
    from gradtape._src.core.primitive import Op

Index = tuple[int, ...]


class Cause(Enum):
    """Why a value, or a cotangent in the backward pass, is NaN or infinite.

    >>> Cause.LOG_OF_ZERO.sentence
    'the logarithm of zero is -inf'
    """

    sentence: str
    advice: str

    BAD_INPUT = (
        "an operand was already NaN or infinite",
        "Check where it comes from: the data (np.isfinite(data).all()), a variable that an earlier step corrupted, "
        "or a constant. For masks, use the lowest finite number (tf.float32.min) instead of -inf.",
    )
    LOG_OF_ZERO = (
        "the logarithm of zero is -inf",
        "Keep the argument away from 0: tf.math.log(x + 1e-7) or tf.math.log(tf.maximum(x, 1e-7)); use tf.math.xlogy "
        "for p log p, tf.nn.log_softmax for the log of a softmax, and losses with from_logits=True.",
    )
    OUTSIDE_DOMAIN = (
        "the function is undefined there (the logarithm, square root or fractional power of a negative number)",
        "Clip the argument to the domain of the function (tf.maximum(x, 0.0), tf.clip_by_value(x, -1.0, 1.0)); if "
        "it should never leave the domain, find out why it does.",
    )
    DIVISION_BY_ZERO = (
        "division by zero",
        "Use tf.math.divide_no_nan (0 where the divisor is 0), add a small number to the divisor, or guard the divisor "
        "itself: x / tf.where(y != 0, y, 1.0).",
    )
    ZERO_OVER_ZERO = (
        "0 / 0 is undefined",
        "Use tf.math.divide_no_nan (0 where the divisor is 0). A mean over an empty set is 0 / 0 too: check that "
        "the batch, or what remains after masking, is not empty.",
    )
    INF_MINUS_INF = (
        "inf - inf is undefined",
        "Find where the infinities come from. A softmax over a row of -inf is one such case: leave at least one "
        "entry unmasked, or mask with the lowest finite number (tf.float32.min).",
    )
    ZERO_TIMES_INF = (
        "0 · inf is undefined",
        "Do not mask by multiplying with 0; select with tf.where and give the function a safe argument in the "
        "branch that is not taken. For derivatives, GradientTape(strong_zeros=True) keeps zeros at zero.",
    )
    OVERFLOW = (
        "the result is larger than its dtype can hold",
        "Clip the argument (tf.clip_by_value), clip gradients (tf.clip_by_global_norm), lower the learning rate, or "
        "use a stable form: tf.nn.softplus for log(1 + exp(x)), tf.reduce_logsumexp, tf.nn.log_softmax.",
    )
    LOW_PRECISION = (
        "the result is too large for this dtype, though float32 would hold it",
        "Compute this part in float32 (tf.cast), or rescale: smaller inputs in the forward pass, a smaller loss "
        "scale in the backward pass. bfloat16 has the range of float32.",
    )
    INFINITE_SLOPE = (
        "the derivative is infinite at this point; for sqrt, norms and powers below 1, that is at 0",
        "Stay away from that point: use tf.sqrt(x + 1e-12), or the squared norm if that is enough.",
    )
    MASKED_BRANCH = (
        "the branch that tf.where did not take: its cotangent is 0, and 0 times its infinite derivative is NaN",
        "Give the branch a safe argument too, tf.where(ok, f(tf.where(ok, x, 1.0)), other), or use "
        "GradientTape(strong_zeros=True), which keeps zeros at zero.",
    )
    DEGENERATE_MATRIX = (
        "the derivative does not exist: the matrix is singular, or has equal eigenvalues or singular values",
        "Add a small multiple of the identity, or make the eigenvalues differ; use only quantities that are unique "
        "(eigenvalues rather than eigenvectors, tf.linalg.logdet rather than an inverse).",
    )
    USER_GRADIENT = (
        "the gradient function of a tf.custom_gradient returned it",
        "Check the gradient function: the cotangent it received is finite.",
    )
    UNKNOWN = (
        "the recorded operands do not show the reason",
        "Record again with GradientTape(check_numerics=True), which checks every operand.",
    )

    def __init__(self, sentence: str, advice: str) -> None:
        self.sentence, self.advice = sentence, advice


class Operand(NamedTuple):
    """A summary of one operand: its range, and the first element that is NaN or infinite."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    low: float | None
    high: float | None
    nans: int
    infs: int
    zeros: int
    first_bad: Index | None

    def __str__(self) -> str:
        parts = [f"{self.name}: {self.dtype}{list(self.shape)}"]
        if self.low is not None:
            values = f"= {self.low:.6g}" if self.low == self.high else f"{self.low:.6g} … {self.high:.6g}"
            parts.append(values)
        parts += [f"{n} {word}" for n, word in ((self.nans, "NaN"), (self.infs, "Inf"), (self.zeros, "zero")) if n]
        if self.first_bad is not None and self.shape:
            parts.append(f"first bad at {list(self.first_bad)}")
        return ", ".join(parts)


def operand(name: str, value: Any) -> Operand | None:
    """The summary of an array, tensor or batch; None if its values are unknown."""
    array = concrete(value)
    if array is None or array.dtype.kind in "OSU":
        return None
    dtype = array.dtype.name
    if array.dtype.kind in "biu":
        bad = np.zeros(array.shape, bool)
        nans = infs = 0
    else:
        bad = ~np.isfinite(array)
        nans = int(np.isnan(array).sum())
        infs = int(bad.sum()) - nans
    zeros = int((array == 0).sum())
    finite = np.abs(array[~bad]) if array.dtype.kind == "c" else array[~bad]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (None, None)
    return Operand(name, array.shape, dtype, low, high, nans, infs, zeros, first_bad(array))


def first_bad(array: Any) -> Index | None:
    """The position of the first element that is NaN or infinite."""
    if array.dtype.kind in "biuOSU":
        return None
    bad = np.argwhere(~np.isfinite(array))
    return tuple(int(i) for i in bad[0]) if len(bad) else None


# -- forward: the declaration of an op says what is dangerous (`HAZARDS` in core/primitive.py) -----------------------
def forward_cause(op: Op, inputs: list[Any], output: Any, attrs: dict[str, Any]) -> Cause:
    """Why an op returned NaN or Inf; unknown inputs are None."""
    at = first_bad(output)
    assert at is not None
    numbers = _numbers_at(inputs, output, at) if op.elementwise else None
    spoiled = [a for a in (numbers or inputs) if a is not None and a.dtype.kind not in "biuOSU" and not _finite(a)]
    if spoiled:
        undefined = np.isnan(output[at]) and not any(np.isnan(a).any() for a in spoiled)
        return _of_infinities(op, inputs, numbers) if undefined else Cause.BAD_INPUT
    if numbers is not None and all(n is not None for n in numbers):
        return _of_numbers(op, [n.item() for n in numbers], numbers, output[at], attrs)
    if "empty" in op.hazards and np.isnan(output[at]):
        return Cause.ZERO_OVER_ZERO
    if "softmax" in op.hazards and np.isnan(output[at]):
        return Cause.INF_MINUS_INF
    if "matrix" in op.hazards:
        return Cause.DEGENERATE_MATRIX
    if any(a is None for a in inputs):
        harmless = op.linear or op.nan_free
        return Cause.BAD_INPUT if harmless and np.isnan(output[at]) else Cause.UNKNOWN
    return _too_large(op, inputs, output, attrs)


def _finite(array: Any) -> bool:
    return bool(np.isfinite(array).all())


def _numbers_at(inputs: list[Any], output: Any, at: Index) -> list[Any]:
    """The elements of all inputs at one position."""
    return [None if a is None else np.broadcast_to(a, output.shape)[at] for a in inputs]


def _of_infinities(op: Op, inputs: list[Any], numbers: list[Any] | None) -> Cause:
    """Why infinite inputs have given NaN."""
    if "sum" in op.hazards or "softmax" in op.hazards:
        return Cause.INF_MINUS_INF
    given = numbers if numbers is not None else inputs
    if "product" in op.hazards and any(a is not None and np.any(np.asarray(a) == 0) for a in given):
        return Cause.ZERO_TIMES_INF
    return Cause.BAD_INPUT


def _of_numbers(op: Op, values: list[Any], numbers: list[Any], result: Any, attrs: dict[str, Any]) -> Cause:
    """Why finite inputs of an elementwise op have given NaN or Inf."""
    hazards, last = op.hazards, values[-1]
    if "division" in hazards and last == 0:
        return Cause.ZERO_OVER_ZERO if len(values) == 2 and values[0] == 0 else Cause.DIVISION_BY_ZERO
    if "power" in hazards and values[0] == 0 and not isinstance(last, complex) and last < 0:
        return Cause.DIVISION_BY_ZERO
    if np.isnan(result):
        return Cause.OUTSIDE_DOMAIN
    if "log" in hazards:
        return Cause.LOG_OF_ZERO
    if "pole" in hazards:
        return Cause.OUTSIDE_DOMAIN
    return _too_large(op, numbers, np.asarray(result), attrs)


def _too_large(op: Op, inputs: list[Any], output: Any, attrs: dict[str, Any]) -> Cause:
    if not has_small_range(output.dtype):
        return Cause.OVERFLOW if np.isinf(output).any() else Cause.UNKNOWN
    if op.tf_name == "Cast":
        return Cause.LOW_PRECISION
    wide = [a.astype(np.float32) if has_small_range(a.dtype) else a for a in map(np.asarray, inputs)]
    again = recomputed(op, wide, attrs)
    return Cause.LOW_PRECISION if again is not None and _finite(again[0]) else Cause.OVERFLOW


def has_small_range(dtype: Any) -> bool:
    """Whether a floating dtype has a much smaller range than float32: float16 and float8, but not bfloat16."""
    return dtype.itemsize <= 2 and dtype.kind in "fV" and dtype.name != "bfloat16"


def recomputed(op: Op, arrays: list[Any], attrs: dict[str, Any]) -> list[Any] | None:
    """Compute the op's outputs again from NumPy arrays; None if it has no kernel, or fails."""
    kernel = getattr(numpy_namespace, op.name, None)
    if kernel is None:
        return None
    try:
        with float_errors_ignored(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = kernel(*arrays, **attrs)
    except Exception as error:  # a kernel may reject values that differ from the original ones
        if is_interrupt(error):
            raise
        return None
    return [np.asarray(r) for r in result] if type(result) is tuple else [np.asarray(result)]


# -- backward --------------------------------------------------------------------------------------------------------
class BackwardStep(NamedTuple):
    """One step of the backward pass: the cotangent of a record, and the result of its vjp for one input."""

    op: Op
    position: int  # of the input
    values: tuple[Any, ...]
    attrs: dict[str, Any]
    incoming: Any
    given: Any


def backward_cause(step: BackwardStep) -> tuple[Cause, bool]:
    """Why a rule returned NaN or Inf for a finite cotangent, and whether a zero was involved."""
    op, d, c = step.op, concrete(step.incoming), concrete(step.given)
    if op.name == "custom_gradient":
        return Cause.USER_GRADIENT, False
    if d is None or c is None:
        return Cause.UNKNOWN, False
    if any((v := concrete(s)) is not None and v.dtype.kind in "fc" and not _finite(v) for s in step.values):
        spoiled = True
    else:
        spoiled = False
    if "matrix" in op.hazards and not spoiled:
        return Cause.DEGENERATE_MATRIX, False
    found = _by_slope(step, d) if op.elementwise else None
    if found is not None:
        return found
    if not d.any():
        return Cause.ZERO_TIMES_INF, True
    if spoiled:
        zeros = bool(np.isnan(c).any() and not d.all())
        return (Cause.ZERO_TIMES_INF if zeros else Cause.BAD_INPUT), zeros
    return (Cause.LOW_PRECISION if has_small_range(c.dtype) else Cause.OVERFLOW), False


def _by_slope(step: BackwardStep, g: Any) -> tuple[Cause, bool] | None:
    """Check an elementwise rule, g times a slope, where the product is not finite."""
    op = step.op
    vjp = vjps_of(op, g.dtype, traced=False)[step.position]
    values = tuple(None if v is None else _Plain(concrete(v)) for v in step.values)
    assert vjp is not None
    with float_errors_ignored():
        product, slope = (concrete(vjp(each, values, step.attrs, each.shape)) for each in (g, np.ones_like(g)))
    at = None if product is None or product.shape != g.shape else first_bad(product)
    if at is None:
        return None
    known = [np.broadcast_to(v.array, g.shape)[at] if v is not None and _fits(v.array, g) else None for v in values]
    if np.isfinite(slope[at]):
        return (Cause.LOW_PRECISION if has_small_range(g.dtype) else Cause.OVERFLOW), False
    if g[at] == 0:
        return Cause.ZERO_TIMES_INF, True
    if any(v is not None and v.dtype.kind in "fc" and np.isnan(v) for v in known):
        return Cause.BAD_INPUT, False
    if "log" in op.hazards:
        return Cause.LOG_OF_ZERO, False
    if "division" in op.hazards:
        return Cause.DIVISION_BY_ZERO, False
    return Cause.INFINITE_SLOPE, False


class _Plain(NamedTuple):
    """A saved value, instead of its tensor."""

    array: Any


def _fits(array: Any, g: Any) -> bool:
    try:
        return np.broadcast_shapes(array.shape, g.shape) == g.shape
    except ValueError:
        return False
