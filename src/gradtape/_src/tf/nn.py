"""`tf.nn`: activations and losses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.checks import checked
from gradtape._src.arrays.dimensions import broadcast_shapes, is_same_shape
from gradtape._src.conversion import hinted_operands, operand, operands
from gradtape._src.core.composites import dispatched
from gradtape._src.core.primitive import narrowed, widened
from gradtape._src.ops import array, index, math, nn
from gradtape._src.ops.attention import attention
from gradtape._src.tensor import Tensor
from gradtape._src.tf import math as tfmath
from gradtape._src.tf.arguments import axis_of, extent, integer
from gradtape._src.tf.array import cast, moveaxis_last
from gradtape._src.tf.convolution import (
    atrous_conv2d as atrous_conv2d,
    atrous_conv2d_transpose as atrous_conv2d_transpose,
    conv1d as conv1d,
    conv1d_transpose as conv1d_transpose,
    conv2d as conv2d,
    conv2d_transpose as conv2d_transpose,
    conv3d as conv3d,
    conv3d_transpose as conv3d_transpose,
    conv_transpose as conv_transpose,
    convolution as convolution,
    depthwise_conv2d as depthwise_conv2d,
    depthwise_conv2d_backprop_filter as depthwise_conv2d_backprop_filter,
    depthwise_conv2d_backprop_input as depthwise_conv2d_backprop_input,
    dilation2d as dilation2d,
    erosion2d as erosion2d,
    separable_conv2d as separable_conv2d,
)
from gradtape._src.tf.ctc_decoders import (
    ctc_beam_search_decoder as ctc_beam_search_decoder,
    ctc_greedy_decoder as ctc_greedy_decoder,
    ctc_unique_labels as ctc_unique_labels,
)
from gradtape._src.tf.embedding import embedding_lookup as embedding_lookup
from gradtape._src.tf.isotonic import isotonic_regression as isotonic_regression
from gradtape._src.tf.losses import (
    collapse_repeated as collapse_repeated,
    compute_accidental_hits as compute_accidental_hits,
    compute_average_loss as compute_average_loss,
    ctc_loss as ctc_loss,
    log_poisson_loss as log_poisson_loss,
    nce_loss as nce_loss,
    sampled_softmax_loss as sampled_softmax_loss,
    scale_regularization_loss as scale_regularization_loss,
    weighted_cross_entropy_with_logits as weighted_cross_entropy_with_logits,
)
from gradtape._src.tf.normalization import (
    batch_norm_with_global_normalization as batch_norm_with_global_normalization,
    batch_normalization as batch_normalization,
    dropout as dropout,
    general_dropout as _general_dropout,
    local_response_normalization as local_response_normalization,
    lrn as lrn,
    moments as moments,
    normalize_moments as normalize_moments,
    stateless_dropout as _stateless_dropout,
    sufficient_statistics as sufficient_statistics,
    weighted_moments as weighted_moments,
)
from gradtape._src.tf.pooling import (
    avg_pool as avg_pool,
    avg_pool1d as avg_pool1d,
    avg_pool2d as avg_pool2d,
    avg_pool3d as avg_pool3d,
    max_pool as max_pool,
    max_pool1d as max_pool1d,
    max_pool2d as max_pool2d,
    max_pool3d as max_pool3d,
    max_pool_with_argmax as max_pool_with_argmax,
    pool as pool,
)
from gradtape._src.tf.random import all_candidate_sampler as all_candidate_sampler
from gradtape._src.tf.ranking import (
    approx_max_k as approx_max_k,
    approx_min_k as approx_min_k,
    in_top_k as in_top_k,
    top_k as top_k,
)
from gradtape._src.tf.space_blocks import (
    depth_to_space as depth_to_space,
    space_to_batch as space_to_batch,
    space_to_depth as space_to_depth,
)
from gradtape._src.tf.special import (
    crelu as crelu,
    elu as elu,
    gelu as gelu,
    leaky_relu as leaky_relu,
    relu6 as relu6,
    selu as selu,
    silu as silu,
    softsign as softsign,
)

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike

relu = math.relu
sigmoid, softplus, tanh = math.sigmoid, math.softplus, math.tanh
experimental = SimpleNamespace(general_dropout=_general_dropout, stateless_dropout=_stateless_dropout)
l2_normalize, zero_fraction = tfmath.l2_normalize, tfmath.zero_fraction


@dispatched
def softmax(logits: TensorLike, axis: Any = None, name: str | None = None) -> Tensor:
    """Compute exp(x) / sum(exp(x)) along an axis, the last by default.

    >>> print(tf.math.softmax([0.0, 0.0, 1.0]).numpy().round(4))
    [0.2119 0.2119 0.5761]
    """
    x = operand(logits)
    result: Tensor = nn.softmax(x, axis=_softmax_axis(x, axis, "Softmax"))
    return result


def _softmax_axis(x: Tensor, axis: Any, op: str) -> int:
    if x.array.dtype.kind not in "fV":
        raise errors.unsupported_dtype(op, x.dtype, "half, bfloat16, float, double")
    rank, at = len(x.array.shape), -1 if axis is None else extent(axis, "axis", op)
    if not -rank <= at < rank:
        kind = errors.refused_value if rank else errors.invalid_argument
        raise kind(f"{op} axis {at} is not in [{-rank}, {rank}): logits must have at least 1 dimension", op)
    return at + rank if at < 0 else at


def log_softmax(logits: TensorLike, axis: Any = None, name: str | None = None) -> Tensor:
    """Compute log(softmax(x)), without overflow.

    >>> print(tf.math.log_softmax([1.0, 1.0, 1000.0]).numpy().round(4))
    [-999. -999.    0.]
    """
    x = operand(logits)
    result: Tensor = nn.log_softmax(x, axis=_softmax_axis(x, axis, "LogSoftmax"))
    return result


swish = silu


def bias_add(value: TensorLike, bias: TensorLike, data_format: str | None = None, name: str | None = None) -> Tensor:
    """Add a bias along the channel axis: the last, or the second in NC… formats.

    >>> tf.nn.bias_add([[1.0, 2.0], [3.0, 4.0]], [10.0, 20.0]).numpy().tolist()
    [[11.0, 22.0], [13.0, 24.0]]
    """
    x, b = operands(value, bias)
    second = data_format is not None and _channels_come_second(data_format)
    have, size = tuple(x.array.shape), tuple(b.array.shape)
    if x.array.dtype != b.array.dtype:
        raise errors.mismatched_dtypes("BiasAdd", x.dtype, b.dtype)
    if x.array.dtype.kind in "bO":
        raise errors.unsupported_dtype("BiasAdd", x.dtype, "fciu")
    if len(have) < 2:
        raise errors.invalid_argument(f"Input tensor must be at least 2D: {errors.brackets(have)}", "BiasAdd")
    if len(size) != 1:
        raise errors.invalid_argument(f"Biases must be 1D: {errors.brackets(size)}", "BiasAdd")
    if size[0] != have[1 if second else -1]:
        raise errors.invalid_argument(
            "Must provide as many biases as the channel dimension of the input tensor: "
            f"{errors.brackets(size)} vs. {have[1 if second else -1]} in {errors.brackets(have)}",
            "BiasAdd",
        )
    if second:
        b = array.reshape(b, shape=(size[0], *[1] * (len(have) - 2)))
    return x + b


def _channels_come_second(data_format: Any) -> bool:
    if not isinstance(data_format, str):
        raise TypeError(f"Expected a string for argument 'data_format', but got {data_format!r}.")
    if not data_format.startswith(("NC", "N...C", "N..C", "NHWC", "NWC", "NDHWC")):
        raise ValueError(f"`data_format` must be of the form `N...C` or `NC...`. Received: data_format={data_format}")
    return data_format.startswith("NC")


def l2_loss(t: TensorLike, name: str | None = None) -> Tensor:
    """Compute half the sum of squares.

    >>> tf.nn.l2_loss([3.0, 4.0]).numpy().item()
    12.5
    """
    x = operand(t)
    if not x.dtype.is_floating:
        raise errors.unsupported_dtype("L2Loss", x.dtype, "half, bfloat16, float, double")
    y = widened(x)
    result: Tensor = narrowed(tfmath.reduce_sum(y * y) / 2, x.array.dtype)
    return result


def embedding_lookup_sparse(
    params: TensorLike,
    sp_ids: Any,
    sp_weights: Any,
    combiner: str | None = None,
    max_norm: Any = None,
    name: str | None = None,
    allow_fast_lookup: bool = False,
) -> Tensor:
    """Combine the table rows of each row of sparse or ragged ids: weighted mean, sum, or sum over sqrt(n).

    >>> import gradtape as tf
    >>> ids = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [0, 1, 1], [2, 2])
    >>> tf.nn.embedding_lookup_sparse(tf.constant([[1.0], [3.0]]), ids, None).numpy().tolist()
    [[2.0], [3.0]]
    """
    from gradtape._src.tf import sparse_lookup

    return sparse_lookup.embedding_lookup_sparse(params, sp_ids, sp_weights, combiner, max_norm)


def safe_embedding_lookup_sparse(
    embedding_weights: TensorLike,
    sparse_ids: Any,
    sparse_weights: Any = None,
    combiner: str = "mean",
    default_id: Any = None,
    max_norm: Any = None,
    name: str | None = None,
    allow_fast_lookup: bool = False,
) -> Tensor:
    """Look up embeddings like `embedding_lookup_sparse`, ignoring negative ids and weights that are not positive.

    Rows without ids get the embedding of `default_id`, or zeros.

    >>> import gradtape as tf
    >>> ids = tf.SparseTensor([[0, 0]], [1], [2, 2])
    >>> tf.nn.safe_embedding_lookup_sparse(tf.constant([[1.0], [3.0]]), ids).numpy().tolist()
    [[3.0], [0.0]]
    """
    from gradtape._src.tf import sparse_lookup

    return sparse_lookup.safe_embedding_lookup_sparse(
        embedding_weights, sparse_ids, sparse_weights, combiner, default_id, max_norm
    )


def layer_normalization(
    x: TensorLike,
    scale: TensorLike | None = None,
    offset: TensorLike | None = None,
    epsilon: float = 1e-5,
    name: str | None = None,
) -> Tensor:
    """Normalize each row (the last axis) to mean 0 and variance 1, multiply by `scale` and add `offset`.

    Sums are computed in float32 if x has 16 bits. This function is an addition to TensorFlow, which has it only inside
    Keras. It is a single op, and saves two numbers per row in addition to its input.

    >>> import gradtape as tf
    >>> tf.nn.layer_normalization([[1.0, 3.0], [10.0, 30.0]], epsilon=0.0).numpy().tolist()
    [[-1.0, 1.0], [-1.0, 1.0]]
    """
    x = operand(x)
    if not x.dtype.is_floating:
        raise errors.unsupported_dtype("LayerNorm", x.dtype, "f")
    if not x.array.shape:
        raise errors.invalid_argument("input must be at least 1-D, received a scalar", "LayerNorm")
    out: Tensor = nn.standardize(x, epsilon=float(epsilon))[0]
    if scale is not None:
        out = out * scale
    return out if offset is None else out + offset


def scaled_dot_product_attention(
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    mask: TensorLike | None = None,
    scale: TensorLike | None = None,
    is_causal: bool = False,
    name: str | None = None,
) -> Tensor:
    """Compute softmax(query key^T * scale + mask) value over the last two axes of [..., heads, positions, features].

    `scale` is 1 / sqrt(features) by default. `mask` is added to the scores or, if boolean, selects the positions to
    attend to; a position with nothing to attend to returns zeros. Axes before the last two broadcast. This function is
    an addition to TensorFlow, which has it only inside Keras.

    It is a single op. On NumPy it saves nothing whose size grows with the number of pairs of positions; on NVIDIA GPUs,
    float16 and bfloat16 use cuDNN's flash attention. If a reshape has put the heads after the positions, use
    `tf.transpose(x, [0, 2, 1, 3])`; compilation removes the transpose.

    >>> import gradtape as tf
    >>> q = k = tf.constant([[1.0, 0.0], [0.0, 1.0]])
    >>> tf.nn.scaled_dot_product_attention(q, k, tf.constant([[1.0], [3.0]]), is_causal=True).numpy()[0].tolist()
    [1.0]
    """
    q, k = operands(query, key)
    v = operand(value, q.dtype)
    if scale is not None and not isinstance(scale, (int, float)):  # a tensor, which may be trainable
        q, scale = q * scale, 1.0
    given = [q, k, v]
    shape = _attention_shape(*given)
    if mask is not None:
        if is_causal:
            raise ValueError("`mask` and `is_causal` exclude each other: put both conditions into the mask.")
        allowed = operand(mask, None if _is_boolean(mask) else q.dtype)
        if not allowed.dtype.is_bool and allowed.dtype != q.dtype:
            raise errors.mismatched_dtypes(_ATTENTION, q.dtype, allowed.dtype)
        try:
            full = np.broadcast_shapes(shape, allowed.array.shape)
        except ValueError:
            full = ()
        if full[-2:] != shape[-2:]:
            raise errors.incompatible_shapes(_ATTENTION, shape, tuple(allowed.array.shape))
        shape = full
    for i, x in enumerate(given):
        full = (*shape[:-2], *x.array.shape[-2:])
        if tuple(x.array.shape) != full:
            given[i] = array.broadcast_to(x, shape=full)
    factor = max(q.array.shape[-1], 1) ** -0.5 if scale is None else float(scale)
    extra = [] if mask is None else [allowed]
    result: Tensor = attention(*given, *extra, scale=factor, causal=bool(is_causal))[0]
    return result


_ATTENTION = "ScaledDotProductAttention"


def _attention_shape(q: Tensor, k: Tensor, v: Tensor) -> tuple[int, ...]:
    """The shape of the scores, if the operands fit."""
    shapes = [tuple(x.array.shape) for x in (q, k, v)]
    for x, other in ((k, shapes[1]), (v, shapes[2])):
        if x.dtype != q.dtype:
            raise errors.mismatched_dtypes(_ATTENTION, q.dtype, x.dtype)
        if len(shapes[0]) < 2 or len(other) < 2:
            raise errors.incompatible_shapes(_ATTENTION, shapes[0], other)
    if not q.dtype.is_floating:
        raise errors.unsupported_dtype(_ATTENTION, q.dtype, "f")
    if shapes[0][-1] != shapes[1][-1]:
        raise errors.incompatible_shapes(_ATTENTION, shapes[0], shapes[1])
    if shapes[1][-2] != shapes[2][-2]:
        raise errors.incompatible_shapes(_ATTENTION, shapes[1], shapes[2])
    try:
        lead = broadcast_shapes(*(shape[:-2] for shape in shapes))
    except ValueError:
        raise errors.invalid_argument(
            f"The axes in front of the last two do not broadcast: query {errors.brackets(shapes[0])}, key "
            f"{errors.brackets(shapes[1])}, value {errors.brackets(shapes[2])}",
            _ATTENTION,
        ) from None
    return (*lead, shapes[0][-2], shapes[1][-2])


def _is_boolean(mask: Any) -> bool:
    return bool(operand(mask).dtype.is_bool)


# -- cross entropies -------------------------------------------------------------------------------------------------
def softmax_cross_entropy_with_logits(
    labels: TensorLike, logits: TensorLike, axis: int = -1, name: str | None = None
) -> Tensor:
    """Compute the cross entropy between rows of probabilities and the softmax of logits.

    >>> loss = tf.nn.softmax_cross_entropy_with_logits([[0.0, 1.0]], [[0.0, 0.0]])
    >>> round(loss.numpy().item(), 4)
    0.6931
    """
    if labels is None or logits is None:
        raise ValueError("Both labels and logits must be provided.")
    x, y, op = operand(logits), operand(labels), "SoftmaxCrossEntropyWithLogits"
    if "string" in (x.dtype.name, y.dtype.name):
        raise errors.UnimplementedError(None, None, f"Cast string to float is not supported [Op:{op}]")
    if not x.dtype.is_floating:
        raise errors.unsupported_dtype(op, x.dtype, "half, bfloat16, float, double")
    if y.array.dtype != x.array.dtype:
        y = cast(y, x.dtype)
    rank, last = len(x.array.shape), -1 if axis is None else integer(axis, op)
    if not rank:
        raise errors.invalid_argument("logits must be at least 1-dimensional", op)
    last = axis_of(last, rank, op)
    if not 1 <= len(y.array.shape) <= rank:
        raise errors.invalid_argument(
            f"logits and labels must be broadcastable: logits_size={errors.brackets(x.array.shape)} "
            f"labels_size={errors.brackets(y.array.shape)}",
            op,
        )
    x, y = moveaxis_last(x, last), moveaxis_last(y, last)
    try:
        shape = broadcast_shapes(x.array.shape, y.array.shape)
    except ValueError:
        raise errors.invalid_argument(
            f"logits and labels must be broadcastable: logits_size={errors.brackets(x.array.shape)} "
            f"labels_size={errors.brackets(y.array.shape)}",
            "SoftmaxCrossEntropyWithLogits",
        ) from None
    if x.array.shape != shape:
        x = array.broadcast_to(x, shape=shape)
    if y.array.shape != shape:
        y = array.broadcast_to(y, shape=shape)
    result: Tensor = nn.cross_entropy(x, y)
    return result


def sparse_softmax_cross_entropy_with_logits(labels: TensorLike, logits: TensorLike, name: str | None = None) -> Tensor:
    """Compute the cross entropy between class indices and the softmax of logits.

    >>> loss = tf.nn.sparse_softmax_cross_entropy_with_logits([1], [[0.0, 0.0]])
    >>> round(loss.numpy().item(), 4)
    0.6931
    """
    if labels is None or logits is None:
        raise ValueError("Both labels and logits must be provided.")
    x, y = operand(logits), operand(labels)
    shape, have = tuple(x.array.shape), tuple(y.array.shape)
    if not shape:
        raise ValueError("`logits` cannot be a scalar.")
    if len(have) != len(shape) - 1:
        raise ValueError(
            "`labels.shape.rank` must equal `logits.shape.rank - 1`. Received: "
            f"labels.shape={have} of rank {len(have)} and logits.shape={shape} of rank {len(shape)}"
        )
    if have != shape[:-1]:
        raise ValueError(
            f"`labels.shape` must equal `logits.shape` except for the last dimension. Received: labels.shape={have} "
            f"and logits.shape={shape}"
        )
    if y.array.dtype.kind != "i" or y.array.dtype.itemsize < 4:
        raise errors.unsupported_dtype("SparseSoftmaxCrossEntropyWithLogits", y.dtype, "int32, int64", "Tlabels")
    if x.array.dtype.kind not in "fV":
        raise errors.unsupported_dtype("SparseSoftmaxCrossEntropyWithLogits", x.dtype, "half, bfloat16, float, double")
    values = y.array
    if type(values) is not np.ndarray or (values.size and not _within(values, shape[-1])):
        y = checked(LABELS, y, size=shape[-1])  # on a GPU the loss is NaN there
    loss: Tensor = nn.sparse_cross_entropy(x, y)[0]
    return loss


def _no_label(labels: Any, size: int) -> Exception:
    bad = labels[(labels < 0) | (labels >= size)][-1]  # TensorFlow's error names the last one
    return errors.invalid_argument(
        f"Received a label value of {bad} which is outside the valid range of [0, {size}).  Label values: "
        f"{' '.join(map(str, labels.reshape(-1).tolist()))}",
        "SparseSoftmaxCrossEntropyWithLogits",
    )


LABELS = index.WITHIN._replace(error=_no_label)
"""Labels are valid classes."""


def _within(labels: Any, classes: int) -> bool:
    """Whether all labels are in [0, classes); for few, NumPy's argmax is faster than max."""
    return bool(labels.item(labels.argmax()) < classes and labels.item(labels.argmin()) >= 0)


@dispatched
def sigmoid_cross_entropy_with_logits(
    labels: TensorLike | None = None, logits: TensorLike | None = None, name: str | None = None
) -> Tensor:
    """Compute the cross entropy between probabilities and the sigmoid of logits, elementwise.

    >>> print(tf.nn.sigmoid_cross_entropy_with_logits(labels=[1.0, 0.0], logits=[0.0, 2.0]).numpy().round(4))
    [0.6931 2.1269]
    """
    if labels is None or logits is None:
        raise ValueError("Both labels and logits must be provided.")
    x = operand(logits)
    y = hinted_operands(x, labels)[1]
    if not is_same_shape(x.array.shape, y.array.shape):
        raise ValueError(f"`logits` and `labels` must have the same shape, received ({x.shape} vs {y.shape}).")
    result: Tensor = math.sigmoid_cross_entropy(x, y)
    return result


# -- the namespace: TensorFlow's names, and nothing else -------------------------------------------------------------
# Primitives that have the name of the function are public by their declaration.
__all__ = [
    "all_candidate_sampler",
    "approx_max_k",
    "approx_min_k",
    "atrous_conv2d",
    "atrous_conv2d_transpose",
    "avg_pool",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm_with_global_normalization",
    "batch_normalization",
    "bias_add",
    "collapse_repeated",
    "compute_accidental_hits",
    "compute_average_loss",
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "conv_transpose",
    "convolution",
    "crelu",
    "ctc_beam_search_decoder",
    "ctc_greedy_decoder",
    "ctc_loss",
    "ctc_unique_labels",
    "depth_to_space",
    "depthwise_conv2d",
    "depthwise_conv2d_backprop_filter",
    "depthwise_conv2d_backprop_input",
    "dilation2d",
    "dropout",
    "elu",
    "embedding_lookup",
    "embedding_lookup_sparse",
    "erosion2d",
    "experimental",
    "gelu",
    "in_top_k",
    "isotonic_regression",
    "l2_loss",
    "l2_normalize",
    "layer_normalization",
    "leaky_relu",
    "local_response_normalization",
    "log_poisson_loss",
    "log_softmax",
    "lrn",
    "max_pool",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_pool_with_argmax",
    "moments",
    "nce_loss",
    "normalize_moments",
    "pool",
    "relu6",
    "safe_embedding_lookup_sparse",
    "sampled_softmax_loss",
    "scale_regularization_loss",
    "scaled_dot_product_attention",
    "selu",
    "separable_conv2d",
    "sigmoid_cross_entropy_with_logits",
    "silu",
    "softmax",
    "softmax_cross_entropy_with_logits",
    "softsign",
    "space_to_batch",
    "space_to_depth",
    "sparse_softmax_cross_entropy_with_logits",
    "sufficient_statistics",
    "swish",
    "top_k",
    "weighted_cross_entropy_with_logits",
    "weighted_moments",
    "zero_fraction",
]


def __dir__() -> list[str]:
    return list(__all__)
