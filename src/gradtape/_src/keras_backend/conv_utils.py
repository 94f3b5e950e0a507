"""The sizes of convolutions, computed like Keras 2's `conv_utils`: layers of other libraries still call it."""

from __future__ import annotations

from typing import Any

__all__ = [
    "conv_input_length",
    "conv_output_length",
    "deconv_output_length",
    "normalize_data_format",
    "normalize_padding",
    "normalize_tuple",
]


def normalize_tuple(value: Any, n: int, name: str) -> tuple[int, ...]:
    """A number, or `n` of them, as a tuple of `n`.

    >>> normalize_tuple(3, 2, "kernel_size")
    (3, 3)
    """
    if isinstance(value, int):
        return (value,) * n
    try:
        found = tuple(value)
        numbers = tuple(int(each) for each in found)
    except (TypeError, ValueError):
        found, numbers = (), ()
    if len(numbers) != n:
        raise ValueError(f"The `{name}` argument must be a tuple of {n} integers. Received: {value!r}")
    return numbers


def normalize_data_format(value: str | None) -> str:
    """The order of the axes; None means Keras' default."""
    import keras

    found = (keras.config.image_data_format() if value is None else value).lower()
    if found not in ("channels_first", "channels_last"):
        raise ValueError(
            f'The `data_format` argument must be one of "channels_first", "channels_last". Received: {value!r}'
        )
    return found


def normalize_padding(value: Any) -> Any:
    """The name of a padding in lower case; a list or tuple unchanged."""
    if isinstance(value, (list, tuple)):
        return value
    found = value.lower()
    if found not in ("valid", "same", "causal"):
        raise ValueError(
            'The `padding` argument must be a list/tuple or one of "valid", "same" (or "causal", only for `Conv1D`). '
            f"Received: {value!r}"
        )
    return found


def conv_output_length(
    input_length: int | None, filter_size: int, padding: str, stride: int, dilation: int = 1
) -> int | None:
    """The length of a convolution's output.

    >>> conv_output_length(10, 3, "valid", 2), conv_output_length(10, 3, "same", 2)
    (4, 5)
    """
    if input_length is None:
        return None
    wide = filter_size + (filter_size - 1) * (dilation - 1)
    shorter = {"same": 0, "causal": 0, "valid": wide - 1, "full": 1 - wide}[padding]
    return (input_length - shorter + stride - 1) // stride


def conv_input_length(output_length: int | None, filter_size: int, padding: str, stride: int) -> int | None:
    """The length of a convolution's input, from that of its output.

    >>> conv_input_length(4, 3, "valid", 2)
    9
    """
    if output_length is None:
        return None
    pad = {"same": filter_size // 2, "valid": 0, "full": filter_size - 1}[padding]
    return (output_length - 1) * stride - 2 * pad + filter_size


def deconv_output_length(
    input_length: int | None,
    filter_size: int,
    padding: str,
    output_padding: int | None = None,
    stride: int = 0,
    dilation: int = 1,
) -> int | None:
    """The length of a transposed convolution's output.

    >>> deconv_output_length(5, 3, "same", stride=2), deconv_output_length(5, 3, "valid", stride=2)
    (10, 11)
    """
    if input_length is None:
        return None
    wide = filter_size + (filter_size - 1) * (dilation - 1)
    if output_padding is None:
        more = {"valid": max(wide - stride, 0), "full": -(stride + wide - 2), "same": 0}[padding]
        return input_length * stride + more
    pad = {"same": wide // 2, "valid": 0, "full": wide - 1}[padding]
    return (input_length - 1) * stride + wide - 2 * pad + output_padding
