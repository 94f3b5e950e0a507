"""Arguments of the functions of `tf.image`, and arithmetic that they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.symbolic import is_known
from gradtape._src.conversion import constant_operand, operand
from gradtape._src.dtypes import DType, float16, float32
from gradtape._src.ops import array, reduce
from gradtape._src.shape import TensorSpec
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import scalar_operand
from gradtape._src.tf.array import cast
from gradtape._src.tf.debugging import Assert
from gradtape._src.tf.io import convert_image_dtype


def image_operand(image: Any) -> Tensor:
    """A tensor with at least three axes: height, width, channels."""
    x = operand(image)
    if len(x.array.shape) < 3:
        raise ValueError(f"'image' (shape {x.shape}) must be at least three-dimensional.")
    return with_pixels(x)


def with_pixels(x: Tensor) -> Tensor:
    if any(type(n) is int and n == 0 for n in x.array.shape[-3:]):
        raise ValueError(f"inner 3 dims of 'image.shape' must be > 0: {x.shape}")
    return x


def image_or_batch(image: Any) -> Tensor:
    """An image, or a batch of them."""
    x = image_operand(image)
    if len(x.array.shape) not in (3, 4):
        raise ValueError(f"'image' (shape {x.shape}) must have either 3 or 4 dimensions.")
    return x


def kernel_operand(images: Any, op: str, channels: int | None = None) -> Tensor:
    """An image of any size, validated like in TensorFlow's kernels."""
    x = operand(images)
    shape = x.array.shape
    if len(shape) < 3:
        raise errors.invalid_argument(f"input must be at least 3-D, got shape{errors.brackets(shape)}", op)
    if channels is not None and shape[-1] != channels:
        raise errors.invalid_argument(f"input must have {channels} channels but instead has {shape[-1]} channels.", op)
    return x


def scalar_factor(value: Any, dtype: DType, op: str, name: str) -> Tensor:
    """The factor of an adjustment: a scalar, converted to float32, then to the dtype of the image."""
    return cast(scalar_operand(value, float32, op, name), dtype)


def as_batch(images: Any, what: str = "image") -> tuple[Tensor, bool]:
    """Images as [batch, height, width, channels], and whether there was only one."""
    x = operand(images)
    rank = len(x.array.shape)
    if rank == 3:
        return array.reshape(x, shape=(1, *x.array.shape)), True
    if rank != 4:
        raise ValueError(f"'{what}' must have either 3 or 4 dimensions.")
    return x, False


def without_batch(x: Tensor, single: bool) -> Tensor:
    result: Tensor = array.reshape(x, shape=x.array.shape[1:]) if single else x
    return result


def sliced(x: Tensor, *index_: Any) -> Tensor:
    result: Tensor = array.getitem(x, index=tuple(index_))
    return result


def constant_like(value: Any, like: Tensor) -> Tensor:
    return constant_operand(np.asarray(value).astype(like.array.dtype))


def sum_over(x: Tensor, *axes: int, keepdims: bool = False) -> Tensor:
    result: Tensor = reduce.sum_(x, axis=positive_axes(x, axes), keepdims=keepdims)
    return result


def mean_over(x: Tensor, *axes: int, keepdims: bool = False) -> Tensor:
    result: Tensor = reduce.mean(x, axis=positive_axes(x, axes), keepdims=keepdims)
    return result


def positive_axes(x: Tensor, axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(a % len(x.array.shape) for a in axes))


def as_floating(image: Tensor, *kept: Any) -> Tensor:
    """Convert an image to floating point, if its dtype is not `kept`: to float32 in [0, 1]."""
    return image if image.dtype in (kept or (float16, float32)) else convert_image_dtype(image, float32)


def require(condition: Any, message: str) -> None:
    """Check a condition: on Python numbers immediately; on tensors as an assertion, like TensorFlow."""
    if isinstance(condition, Tensor):
        Assert(condition, [message])
    elif not condition:
        raise ValueError(message)


def stack_channels(*channels: Tensor) -> Tensor:
    result: Tensor = array.stack(*channels, axis=len(channels[0].array.shape))
    return result


def on_host(function: Callable[..., list[Tensor]], inputs: list[Any], specs: list[TensorSpec]) -> Any:
    """Call a non-differentiable function of arrays, by a callback in a program."""
    tensors = [operand(value) for value in inputs]
    if all(map(is_known, tensors)):
        return None
    from gradtape._src.graph.host_calls import function_on_host

    return function_on_host(function, tensors, specs, differentiable=False, pure=True)
