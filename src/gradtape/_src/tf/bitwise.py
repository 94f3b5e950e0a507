"""`tf.bitwise`: bitwise operations on integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradtape._src import errors
from gradtape._src.conversion import operand, operands
from gradtape._src.core.composites import dispatched
from gradtape._src.ops import math, special
from gradtape._src.tensor import Tensor

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


@dispatched
def bitwise_and(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Compute the bitwise AND.

    >>> tf.bitwise.bitwise_and([12, 7], [10, 1]).numpy().tolist()
    [8, 1]
    """
    return _of_integers(math.bitwise_and, "BitwiseAnd", *operands(x, y))


@dispatched
def bitwise_or(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Compute the bitwise OR.

    >>> tf.bitwise.bitwise_or(12, 10).numpy().item()
    14
    """
    return _of_integers(math.bitwise_or, "BitwiseOr", *operands(x, y))


@dispatched
def bitwise_xor(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Compute the bitwise XOR.

    >>> tf.bitwise.bitwise_xor(12, 10).numpy().item()
    6
    """
    return _of_integers(math.bitwise_xor, "BitwiseXor", *operands(x, y))


@dispatched
def invert(x: TensorLike, name: str | None = None) -> Tensor:
    """Invert every bit.

    >>> tf.bitwise.invert([0, 5]).numpy().tolist()
    [-1, -6]
    """
    return _of_integers(math.invert, "Invert", operand(x))


@dispatched
def left_shift(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Shift the bits of x to the left by y, which is clipped to [0, width of the dtype).

    >>> tf.bitwise.left_shift([1, 3], [4, 1]).numpy().tolist()
    [16, 6]
    """
    return _of_integers(special.shift_left, "LeftShift", *operands(x, y))


@dispatched
def right_shift(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Shift the bits of x to the right by y; the sign is kept.

    >>> tf.bitwise.right_shift([16, -8], [4, 1]).numpy().tolist()
    [1, -4]
    """
    return _of_integers(special.shift_right, "RightShift", *operands(x, y))


def _of_integers(function: Callable[..., Any], op: str, *tensors: Tensor) -> Tensor:
    if not tensors[0].dtype.is_integer:
        raise errors.unsupported_dtype(op, tensors[0].dtype)
    result: Tensor = function(*tensors)
    return result


# -- the namespace: TensorFlow's names, and nothing else -------------------------------------------------------------
__all__ = [
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "invert",
    "left_shift",
    "right_shift",
]


def __dir__() -> list[str]:
    return list(__all__)
