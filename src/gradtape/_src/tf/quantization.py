"""`tf.quantization`: round to few levels in the forward pass, with the gradient of clipping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradtape._src import errors
from gradtape._src.conversion import operand
from gradtape._src.dtypes import float32
from gradtape._src.ops import array, math
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import as_int, flag, number, same_dtype, scalar_operand

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


def _float32(value: Any, op: str) -> Tensor:
    return same_dtype(value, float32, op, "an input")


__all__ = [
    "fake_quant_with_min_max_args",
    "fake_quant_with_min_max_vars",
    "fake_quant_with_min_max_vars_per_channel",
]


def __dir__() -> list[str]:
    return list(__all__)
