"""The windows of convolutions and pooling: formats, strides, dilations and paddings.

Channels come last (NWC, NHWC, NDHWC) or second (NCW, NCHW, NCDHW); padding is "SAME", "VALID" or a list with a pair for
each axis.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.symbolic import current_graph
from gradtape._src.ops import array
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import allowed_text, as_int, choice, text

Axes = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]
CHANNELS_LAST = {1: "NWC", 2: "NHWC", 3: "NDHWC"}
CHANNELS_SECOND = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def channels_second(data_format: Any, n: int, op: str) -> bool:
    """Whether a data_format says that channels come second; None means last."""
    if data_format is None:
        return False
    if n == 1 and op.startswith("Conv"):
        return choice(data_format, "data_format", ("NWC", "NCW")) == "NCW"
    return allowed_text(
        data_format, "data_format", (CHANNELS_LAST.get(n, ""), CHANNELS_SECOND.get(n, "")), op
    ) == CHANNELS_SECOND.get(n)


def per_axis(value: Any, n: int, second: bool, name: str) -> Axes:
    """A stride, dilation or window argument as one int for each axis: batch, spatial axes, channels."""
    if value is None:
        return (1,) * (n + 2)
    if isinstance(value, Tensor) and not value.array.shape:
        raise TypeError(f"Cannot iterate over a scalar tensor: {name} must be an int or a list of ints, got {value!r}.")
    members = list(value) if _is_sized(value) else [value]
    if len(members) not in (1, n, n + 2):
        raise ValueError(
            f"{name} should be of length 1, {n} or {n + 2}. Received: {name}={value} of length {len(members)}"
        )
    given = [as_int(member, name) for member in members]
    if any(v >= 2**31 for v in given):
        raise OverflowError(f"{name} is too large: {value}")
    if len(given) == n + 2:
        return (given[0], *given[2:], given[1]) if second else tuple(given)
    return (1, *(given * n if len(given) == 1 else given), 1)


def _is_sized(value: Any) -> bool:
    if isinstance(value, Tensor):
        return bool(value.array.shape)
    return hasattr(value, "__len__") and not (isinstance(value, np.ndarray) and not value.ndim)


def per_space_axis(value: Any, n: int, second: bool, name: str, op: str) -> Axes:
    """The spatial part of a stride or dilation argument: the rest must be 1."""
    first, *space, last = per_axis(value, n, second, name)
    if first != 1 or last != 1:
        raise errors.UnimplementedError(
            None,
            None,
            f"Current implementation does not yet support {name} in the batch and depth dimensions. "
            f"Received: {name}={value} [Op:{op}]",
        )
    if any(v < 1 for v in space):
        raise errors.invalid_argument(f"Row and column {name} should be larger than 0. Received: {name}={value}", op)
    return tuple(space)


def same_padding(size: int, window: int, stride: int, dilation: int) -> tuple[int, int]:
    total = max((-(-size // stride) - 1) * stride + (window - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


def padding_pairs(
    padding: Any,
    sizes: Axes,
    window: Axes,
    strides: Axes,
    dilations: Axes,
    second: bool,
    op: str,
    explicit: bool = True,
) -> Pairs:
    """A padding argument as a pair for each spatial axis; not every op accepts a list (`explicit`)."""
    if not isinstance(padding, (list, tuple)):
        padding = text(padding, "padding")
        if padding == "VALID":
            return ((0, 0),) * len(sizes)
        if padding == "SAME":
            return tuple(map(same_padding, sizes, window, strides, dilations))
        raise errors.invalid_argument(
            f'Value for attr \'padding\' of "{padding}" is not in the list of allowed values: "SAME", "VALID", '
            '"EXPLICIT". Use one of the first two, or a list of pairs',
            op,
        )
    n = len(sizes)
    if not explicit:
        raise TypeError(f"Expected string for argument 'padding' not {padding!r}.")
    if any(not isinstance(pair, (list, tuple)) or len(pair) != 2 for pair in padding):
        raise ValueError(
            "When padding is a list, each element of padding must be a list/tuple of size 2. "
            f"Received: padding={padding}"
        )
    if len(padding) != n + 2:
        raise ValueError(
            f"When padding is a list, it must be of size {n + 2}. Received: padding={padding} of size {len(padding)}"
        )
    first, *rest = [tuple(as_int(v, "explicit_paddings") for v in pair) for pair in padding]
    last = rest.pop(0 if second else -1)
    if any(first) or any(last):
        raise errors.invalid_argument(
            f"Nonzero explicit padding in the batch or depth dimensions is not supported. Received: {padding}", op
        )
    if any(v < 0 for pair in rest for v in pair):
        raise errors.invalid_argument(f"All elements of explicit_paddings must be nonnegative. Received: {padding}", op)
    return tuple((low, high) for low, high in rest)


def check_fit(
    sizes: Axes, window: Axes, strides: Axes, dilations: Axes, pairs: Pairs, op: str, inferred: bool = True
) -> None:
    """Reject windows larger than the padded image; in eager code only those larger by more than a stride."""
    traced = inferred and current_graph() is not None  # TensorFlow's functions infer shapes before they run
    for size, k, s, d, (low, high) in zip(sizes, window, strides, dilations, pairs, strict=True):
        reach, padded = (k - 1) * d + 1, size + low + high
        if traced and type(padded) is int and padded < reach:
            raise ValueError(f"Negative dimension size caused by subtracting {reach} from {padded} [Op:{op}]")
        room = padded - reach + s
        if room <= -s:
            raise errors.invalid_argument(
                f"Computed output size would be negative: {-(-room // s)} [input_size: {size}, "
                f"effective_filter_size: {reach}, stride: {s}]",
                op,
            )


def to_channels_last(x: Tensor) -> Tensor:
    rank = len(x.array.shape)
    result: Tensor = array.transpose(x, perm=(0, *range(2, rank), 1))
    return result


def to_channels_second(x: Tensor) -> Tensor:
    rank = len(x.array.shape)
    result: Tensor = array.transpose(x, perm=(0, rank - 1, *range(1, rank - 1)))
    return result
