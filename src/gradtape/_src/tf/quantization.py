"""`tf.quantization`: round to few levels in the forward pass, with the gradient of clipping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradtape._src import errors
from gradtape._src.autodiff.arguments import UnconnectedGradients
from gradtape._src.conversion import convert, operand
from gradtape._src.dtypes import float32
from gradtape._src.inspect.gradient_tape import GradientTape
from gradtape._src.ops import array, math
from gradtape._src.tensor import Tensor
from gradtape._src.tf import math as tfmath
from gradtape._src.tf.arguments import as_int, flag, number, same_dtype, scalar_operand
from gradtape._src.tf.array import cast

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


def _levels(low: Tensor, high: Tensor, num_bits: int, narrow_range: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The range, shifted so that zero is one of its levels, the distance of levels, and its inverse."""
    first, last = (1.0 if narrow_range else 0.0), float(2**num_bits - 1)
    step = (high - low) / (last - first)
    zero = math.minimum(math.maximum(math.floor(first - low / step + 0.5), first), last)
    return (first - zero) * step, (last - zero) * step, step, (last - first) / (high - low)


def _fake_quant(inputs: Any, low: Tensor, high: Tensor, num_bits: Any, narrow_range: Any, op: str) -> Tensor:
    x, num_bits, narrow_range = (
        _float32(inputs, op),
        as_int(num_bits, "num_bits", 8),
        flag(narrow_range, "narrow_range"),
    )
    if not 2 <= num_bits <= 16:
        raise errors.invalid_argument(f"num_bits must be between 2 and 16, inclusive, got {num_bits}", op)
    # The value is the rounded one, the gradient that of clipping to the shifted range, including its ends.
    bottom, top, step, per_unit = _levels(array.stop_gradient(low), array.stop_gradient(high), num_bits, narrow_range)
    still = array.stop_gradient(x)
    clipped = math.maximum(math.minimum(still, top), bottom)
    # Between two levels rounding errors decide: one of TensorFlow's kernels divides, the others multiply.
    place = (clipped - bottom) / step if op == "FakeQuantWithMinMaxVars" else (clipped - bottom) * per_unit
    rounded = math.floor(place + 0.5) * step + bottom
    passed = math.where(math.less(still, bottom), low, math.where(math.greater(still, top), high, x))
    result: Tensor = passed + array.stop_gradient(rounded - passed)
    if op == "FakeQuantWithMinMaxArgs":
        return result
    # Bounds that are both zero, as variables are initially, give zeros, and pass gradients through.
    empty = math.logical_and(math.equal(low, 0), math.equal(high, 0))
    nothing: Tensor = math.where(empty, x - still, result)
    return nothing


def fake_quant_with_min_max_args(
    inputs: TensorLike,
    min: float = -6,
    max: float = 6,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """Round to 2**num_bits levels between two numbers; gradients pass only inside the range.

    >>> import gradtape as tf
    >>> [round(float(v), 4) for v in tf.quantization.fake_quant_with_min_max_args([3.0, 7.0], 0.0, 6.0)]
    [3.0118, 6.0]
    """
    bottom, top = (
        otherwise if bound is None else number(bound, word)
        for word, bound, otherwise in (("min", min, -6.0), ("max", max, 6.0))
    )
    if bottom >= top:
        sentence = f"min has to be smaller than max, was: {bottom:g} >= {top:g}"
        raise errors.invalid_argument(sentence, "FakeQuantWithMinMaxArgs")
    low, high = (array.stop_gradient(operand(bound, float32)) for bound in (bottom, top))
    return _fake_quant(inputs, low, high, num_bits, narrow_range, "FakeQuantWithMinMaxArgs")


def fake_quant_with_min_max_vars(
    inputs: TensorLike, min: Any, max: Any, num_bits: int = 8, narrow_range: bool = False, name: str | None = None
) -> Tensor:
    """Round to 2**num_bits levels between two tensors, which get the gradient of values beyond them.

    >>> print(tf.quantization.fake_quant_with_min_max_vars([-1.0, 0.33, 2.0], 0.0, 1.0, num_bits=2).numpy().round(4))
    [0.     0.3333 1.    ]
    """
    op = "FakeQuantWithMinMaxVars"
    low, high = (scalar_operand(bound, float32, op, word) for word, bound in (("min", min), ("max", max)))
    return _fake_quant(inputs, low, high, num_bits, narrow_range, op)


def fake_quant_with_min_max_vars_per_channel(
    inputs: TensorLike, min: Any, max: Any, num_bits: int = 8, narrow_range: bool = False, name: str | None = None
) -> Tensor:
    """Round to 2**num_bits levels, with bounds for each position of the last axis.

    >>> low, high = [0.0, 0.0], [1.0, 3.0]
    >>> y = tf.quantization.fake_quant_with_min_max_vars_per_channel([[0.3, 0.3], [2.0, 2.0]], low, high, 2)
    >>> print(y.numpy().round(4))
    [[0.3333 0.    ]
     [1.     2.    ]]
    """
    op = "FakeQuantWithMinMaxVarsPerChannel"
    x, low, high = (_float32(value, op) for value in (inputs, min, max))
    for word, bound in (("min", low), ("max", high)):
        if not x.array.shape or bound.array.shape != x.array.shape[-1:]:
            raise errors.invalid_argument(
                f"{word} has incorrect size: expected {errors.brackets(x.array.shape[-1:])}, got "
                f"{errors.brackets(bound.array.shape)}",
                op,
            )
    return _fake_quant(x, low, high, num_bits, narrow_range, op)


# -- gradients ---------------------------------------------------------------------------------------------------------
def _vjp(function: Any, gradients: Any, *inputs: Any) -> list[Tensor]:
    tensors = [convert(value, float32) for value in inputs]
    with GradientTape() as tape:
        tape.watch(tensors)
        result = function(*tensors)
    found: list[Tensor] = tape.gradient(result, tensors, operand(gradients, float32), UnconnectedGradients.ZERO)
    return found


def fake_quant_with_min_max_args_gradient(
    gradients: TensorLike,
    inputs: TensorLike,
    min: float = -6,
    max: float = 6,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the gradient of `fake_quant_with_min_max_args`: `gradients` inside the range, 0 outside.

    >>> tf.quantization.fake_quant_with_min_max_args_gradient([1.0, 2.0], [3.0, 7.0], 0.0, 6.0).numpy().tolist()
    [1.0, 0.0]
    """
    call = lambda x: fake_quant_with_min_max_args(x, min, max, num_bits, narrow_range)  # noqa: E731
    return _vjp(call, gradients, inputs)[0]


def fake_quant_with_min_max_vars_gradient(
    gradients: TensorLike,
    inputs: TensorLike,
    min: Any,
    max: Any,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of `fake_quant_with_min_max_vars` for the inputs and the two bounds.

    >>> found = tf.quantization.fake_quant_with_min_max_vars_gradient([1.0, 2.0, 4.0], [-1.0, 0.5, 7.0], 0.0, 6.0)
    >>> [x.numpy().tolist() for x in found]
    [[0.0, 2.0, 0.0], 1.0, 4.0]
    """
    call = lambda x, low, high: fake_quant_with_min_max_vars(x, low, high, num_bits, narrow_range)  # noqa: E731
    wrt_inputs, wrt_min, wrt_max = _vjp(call, gradients, inputs, min, max)
    return wrt_inputs, wrt_min, wrt_max


def fake_quant_with_min_max_vars_per_channel_gradient(
    gradients: TensorLike,
    inputs: TensorLike,
    min: Any,
    max: Any,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of `fake_quant_with_min_max_vars_per_channel` for the inputs and the two bounds.

    >>> low, high = [0.0, 0.0], [6.0, 6.0]
    >>> found = tf.quantization.fake_quant_with_min_max_vars_per_channel_gradient(
    ...     [[1.0, 2.0]], [[-1.0, 3.0]], low, high
    ... )
    >>> [x.numpy().tolist() for x in found]
    [[[0.0, 2.0]], [1.0, 0.0], [0.0, 0.0]]
    """
    call = lambda x, low, high: fake_quant_with_min_max_vars_per_channel(x, low, high, num_bits, narrow_range)  # noqa: E731
    wrt_inputs, wrt_min, wrt_max = _vjp(call, gradients, inputs, min, max)
    return wrt_inputs, wrt_min, wrt_max


# -- symmetric levels --------------------------------------------------------------------------------------------------
def quantize_and_dequantize(
    input: TensorLike,
    input_min: Any,
    input_max: Any,
    signed_input: bool = True,
    num_bits: int = 8,
    range_given: bool = False,
    round_mode: str = "HALF_TO_EVEN",
    name: str | None = None,
    narrow_range: bool = False,
    axis: int | None = None,
) -> Tensor:
    """Round to the levels of an integer of `num_bits` bits and scale back; gradients pass unchanged.

    >>> tf.quantization.quantize_and_dequantize([0.26, -1.0], -1.0, 0.75, num_bits=3, range_given=True).numpy().tolist()
    [0.25, -1.0]
    """
    x, _, _, rounded = _rounded(
        input, input_min, input_max, signed_input, num_bits, range_given, round_mode, narrow_range, axis
    )
    result: Tensor = x + array.stop_gradient(rounded - x)
    return result


def quantize_and_dequantize_v2(
    input: TensorLike,
    input_min: Any,
    input_max: Any,
    signed_input: bool = True,
    num_bits: int = 8,
    range_given: bool = False,
    round_mode: str = "HALF_TO_EVEN",
    name: str | None = None,
    narrow_range: bool = False,
    axis: int | None = None,
) -> Tensor:
    """Round as `quantize_and_dequantize`; gradients pass from `input_min` to `input_max`.

    >>> x = tf.constant([0.26, -2.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = tf.quantization.quantize_and_dequantize_v2(x, -1.0, 0.75, num_bits=3, range_given=True)
    >>> y.numpy().tolist(), tape.gradient(y, x).numpy().tolist()
    ([0.25, -1.0], [1.0, 0.0])
    """
    x, low, high, rounded = _rounded(
        input, input_min, input_max, signed_input, num_bits, range_given, round_mode, narrow_range, axis
    )
    still = array.stop_gradient(x)
    inside = math.logical_and(math.greater_equal(still, low), math.less_equal(still, high))
    never = math.less(still, still)
    passed = math.where(inside, x, math.where(never, low, math.where(never, high, 0)))  # bounds get zeros
    result: Tensor = passed + array.stop_gradient(rounded - passed)
    return result


def _rounded(
    input: Any,
    input_min: Any,
    input_max: Any,
    signed_input: bool,
    num_bits: int,
    range_given: bool,
    round_mode: str,
    narrow_range: bool,
    axis: int | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The input, its bounds along its axes, and the rounded input."""
    x = operand(input)
    low, high = (_along(operand(bound, x.dtype), x, axis) for bound in (input_min, input_max))
    if round_mode not in ("HALF_TO_EVEN", "HALF_UP"):
        raise errors.invalid_argument(
            f"Round mode string must be 'HALF_TO_EVEN' or 'HALF_UP', is '{round_mode}'", "QuantizeAndDequantizeV4"
        )
    if not 0 < num_bits <= 63:
        raise errors.invalid_argument(f"num_bits is out of range: {num_bits} with signed_input_ {signed_input}")
    first, last = _whole_levels(signed_input, num_bits, narrow_range)
    still, bottom, top = (array.stop_gradient(value) for value in (x, low, high))
    if not range_given:
        over = None if axis is None else [i for i in range(len(x.array.shape)) if i != axis % len(x.array.shape)]
        bottom, top = (
            find(still, axis=over, keepdims=axis is not None) for find in (tfmath.reduce_min, tfmath.reduce_max)
        )
    scale, step = _scale(bottom, top, first, last)
    if range_given:  # the bounds, of which one is moved to a level
        still = math.maximum(math.minimum(still, last * step), first * step)
    place = still * scale
    whole = tfmath.round(place) if round_mode == "HALF_TO_EVEN" else math.floor(place + 0.5)
    rounded: Tensor = whole * step
    return x, low, high, rounded


def _along(bound: Tensor, x: Tensor, axis: int | None) -> Tensor:
    """A bound for each position of an axis in the shape that broadcasts with the input."""
    if axis is None or not bound.array.shape:
        return bound
    sizes = [1] * len(x.array.shape)
    sizes[axis] = -1
    found: Tensor = array.reshape(bound, shape=tuple(sizes))
    return found


def _whole_levels(signed: bool, bits: int, narrow: bool) -> tuple[int, int]:
    if not signed:
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)) + int(narrow), 2 ** (bits - 1) - 1


def _scale(low: Tensor, high: Tensor, first: int, last: int) -> tuple[Tensor, Tensor]:
    """Levels per unit and units per level, so that both bounds are inside."""
    huge = cast(3.4028234663852886e38, low.dtype)
    of_low = math.where(math.greater(first * low, 0), first / math.where(math.equal(low, 0), 1, low), huge)
    of_high = math.where(math.greater(last * high, 0), last / math.where(math.equal(high, 0), 1, high), huge)
    by_low = math.less(of_low, of_high)
    step = math.where(by_low, low / float(first or 1), high / float(last))
    return math.where(by_low, of_low, of_high), step


def _float32(value: Any, op: str) -> Tensor:
    return same_dtype(value, float32, op, "an input")


__all__ = [
    "fake_quant_with_min_max_args",
    "fake_quant_with_min_max_args_gradient",
    "fake_quant_with_min_max_vars",
    "fake_quant_with_min_max_vars_gradient",
    "fake_quant_with_min_max_vars_per_channel",
    "fake_quant_with_min_max_vars_per_channel_gradient",
    "quantize_and_dequantize",
    "quantize_and_dequantize_v2",
]


def __dir__() -> list[str]:
    return list(__all__)
