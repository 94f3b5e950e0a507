"""Raw ops of neural networks: activations, losses, convolutions, pooling, normalization, quantization."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src.raw_ops.derivative import transposed, vjp
from gradtape._src.tf import array, convolution, indexing, losses, math, nn, pooling, quantization, special
from gradtape._src.tf.arguments import static
from gradtape._src.tf.normalization import fused_batch_norm, local_response_normalization

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradtape._src.tensor import Tensor


# -- activations and losses ------------------------------------------------------------------------------------------
def _elu_slope(gradients: Any, outputs: Any) -> Tensor:
    return array.where(outputs < 0, gradients * (outputs + 1), gradients)


_SELU = 1.0507009873554805, 1.7580993408473768  # scale, and scale times alpha


def _selu_slope(gradients: Any, outputs: Any) -> Tensor:
    scale, bend = _SELU
    return array.where(outputs < 0, gradients * (outputs + bend), gradients * scale)


def _gated(inside: Callable[[Any], Any]) -> Callable[[Any, Any], Tensor]:
    def op(gradients: Any, features: Any) -> Tensor:
        return array.where(inside(features), gradients, array.zeros_like(gradients))

    return op


def _leaky_relu_slope(gradients: Any, features: Any, alpha: float) -> Tensor:
    return array.where(features > 0, gradients, gradients * alpha)


def _with_backprop(loss: Callable[[Any, Any], Any]) -> Callable[..., tuple[Tensor, Tensor]]:
    """A loss and its gradient by the logits; the second output is not differentiable."""

    def op(features: Any, labels: Any) -> tuple[Tensor, Tensor]:
        out = loss(labels, features)
        backprop = vjp(lambda x: loss(labels, x), (array.stop_gradient(features),), array.ones_like(out))[0]
        return out, backprop

    return op


def _dense_loss(labels: Any, features: Any) -> Tensor:
    return nn.softmax_cross_entropy_with_logits(array.broadcast_to(labels, array.shape(features)), features)


def _ctc_loss(inputs: Any, labels_indices: Any, labels_values: Any, sequence_length: Any) -> tuple[Tensor, Tensor]:
    """The loss of sparse labels; the blank is the last class."""
    places, batch = np.asarray(static(labels_indices)), inputs.shape[1]
    counts = np.bincount(places[:, 0], minlength=batch) if places.size else np.zeros(batch, int)
    shape = [batch, max(int(counts.max(initial=0)), 1)]
    labels = indexing.scatter_nd(labels_indices, labels_values, array.constant(shape, "int64"))

    def loss(logits: Any) -> Any:
        lengths = array.constant(counts, "int32")
        return losses.ctc_loss(labels, logits, lengths, sequence_length, blank_index=-1)

    out = loss(inputs)
    return out, vjp(loss, (array.stop_gradient(inputs),), array.ones_like(out))[0]


# -- convolutions ----------------------------------------------------------------------------------------------------
def _padding(padding: str, explicit_paddings: list[int]) -> Any:
    """The `padding` argument of TensorFlow's Python functions."""
    if padding != "EXPLICIT":
        return padding
    return [explicit_paddings[i : i + 2] for i in range(0, len(explicit_paddings), 2)]


def _conv2d(
    input: Any,
    filter: Any,
    strides: list[int],
    padding: str,
    explicit_paddings: list[int],
    data_format: str,
    dilations: list[int],
) -> Tensor:
    return convolution.conv2d(input, filter, strides, _padding(padding, explicit_paddings), data_format, dilations)


def _conv2d_input_grad(input_sizes: Any, filter: Any, out_backprop: Any, **attrs: Any) -> Tensor:
    return transposed(lambda x: _conv2d(x, filter, **attrs), _spatial(input_sizes, out_backprop, attrs), out_backprop)


def _spatial(sizes: Any, g: Any, attrs: dict[str, Any]) -> Any:
    """The shape of a convolution's input, from the whole shape or only height and width."""
    known = [int(n) for n in np.asarray(static(sizes))]
    if len(known) == g.shape.rank:
        return known
    channels_first = attrs["data_format"].startswith("NC")
    batch = g.shape[0]
    return [batch, -1, *known] if channels_first else [batch, *known, -1]


def _conv2d_filter_grad(input: Any, filter_sizes: Any, out_backprop: Any, **attrs: Any) -> Tensor:
    return transposed(lambda w: _conv2d(input, w, **attrs), filter_sizes, out_backprop)


def _with_conv2d_attrs(function: Callable[..., Any]) -> Callable[..., Any]:
    def op(*inputs: Any, strides: Any, padding: Any, explicit_paddings: Any, data_format: Any, dilations: Any) -> Any:
        return function(
            *inputs,
            strides=strides,
            padding=padding,
            explicit_paddings=explicit_paddings,
            data_format=data_format,
            dilations=dilations,
        )

    return op


def _conv3d_input_grad(
    input_sizes: Any,
    filter: Any,
    out_backprop: Any,
    strides: Any,
    padding: str,
    dilations: Any,
    data_format: str = "NDHWC",
) -> Tensor:
    return transposed(
        lambda x: convolution.conv3d(x, filter, strides, padding, data_format, dilations), input_sizes, out_backprop
    )


def _conv3d_filter_grad(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: str,
    dilations: Any,
    data_format: str = "NDHWC",
) -> Tensor:
    return transposed(
        lambda w: convolution.conv3d(input, w, strides, padding, data_format, dilations), filter_sizes, out_backprop
    )


def _depthwise(
    input: Any,
    filter: Any,
    strides: list[int],
    padding: str,
    explicit_paddings: list[int],
    data_format: str,
    dilations: list[int],
) -> Tensor:
    inner = dilations[2:] if data_format == "NCHW" else dilations[1:3]
    form = _padding(padding, explicit_paddings)
    return convolution.depthwise_conv2d(input, filter, strides, form, data_format, inner)


def _depthwise_input_grad(input_sizes: Any, filter: Any, out_backprop: Any, **attrs: Any) -> Tensor:
    return transposed(lambda x: _depthwise(x, filter, **attrs), input_sizes, out_backprop)


def _depthwise_filter_grad(input: Any, filter_sizes: Any, out_backprop: Any, **attrs: Any) -> Tensor:
    return transposed(lambda w: _depthwise(input, w, **attrs), filter_sizes, out_backprop)


def _dilation(input: Any, filter: Any, strides: list[int], rates: list[int], padding: str) -> Tensor:
    return convolution.dilation2d(input, filter, strides, padding, "NHWC", rates)


def _dilation_grad(which: int) -> Callable[..., Tensor]:
    def op(input: Any, filter: Any, out_backprop: Any, strides: Any, rates: Any, padding: str) -> Tensor:
        found = vjp(lambda x, w: _dilation(x, w, strides, rates, padding), (input, filter), out_backprop)
        return found[which]

    return op


# -- pooling ---------------------------------------------------------------------------------------------------------
def _max_pool(
    input: Any, ksize: Any, strides: Any, padding: str, data_format: str, explicit_paddings: Any = ()
) -> Tensor:
    return pooling.max_pool2d(input, ksize, strides, _padding(padding, list(explicit_paddings)), data_format)


def _max_pool_grad(
    orig_input: Any, orig_output: Any, grad: Any, ksize: Any, strides: Any, padding: str, data_format: str,
    explicit_paddings: Any = (),
) -> Tensor:  # fmt: skip
    found = vjp(lambda x: _max_pool(x, ksize, strides, padding, data_format, explicit_paddings), (orig_input,), grad)
    return found[0]


def _integers(values: Any) -> list[int]:
    return [int(n) for n in np.asarray(static(values))]


def _max_pool3d_grad(
    orig_input: Any, orig_output: Any, grad: Any, ksize: Any, strides: Any, padding: str, data_format: str
) -> Tensor:
    return vjp(lambda x: pooling.max_pool3d(x, ksize, strides, padding, data_format), (orig_input,), grad)[0]


def _max_pool_with_argmax(
    input: Any, ksize: Any, strides: Any, padding: str, Targmax: Any, include_batch_in_index: bool
) -> Any:
    return pooling.max_pool_with_argmax(
        input, ksize, strides, padding, output_dtype=Targmax, include_batch_in_index=include_batch_in_index
    )


def _max_pool_grad_with_argmax(
    input: Any, grad: Any, argmax: Any, ksize: Any, strides: Any, padding: str, include_batch_in_index: bool
) -> Tensor:
    """Cotangents scattered to the recorded positions."""
    batch = 1 if include_batch_in_index else int(input.shape[0])
    size = int(input.shape.num_elements()) // batch
    at = array.reshape(array.cast(argmax, "int64"), [batch, -1])
    flat = array.reshape(at + array.range(batch, dtype="int64")[:, None] * size, [-1, 1])
    total = array.constant([batch * size], "int64")
    return array.reshape(indexing.scatter_nd(flat, array.reshape(grad, [-1]), total), array.shape(input))


def _pool_grad(pool: Callable[..., Any]) -> Callable[..., Tensor]:
    def op(orig_input_shape: Any, grad: Any, ksize: Any, strides: Any, padding: str, data_format: str) -> Tensor:
        return transposed(lambda x: pool(x, ksize, strides, padding, data_format), orig_input_shape, grad)

    return op


# -- normalization ---------------------------------------------------------------------------------------------------
def _fused_batch_norm(reserved: int) -> Callable[..., Any]:
    """The result, the statistics, and `reserved` outputs for TensorFlow's gradient op."""

    def op(
        x: Any, scale: Any, offset: Any, mean: Any, variance: Any,
        epsilon: float, exponential_avg_factor: float, data_format: str, is_training: bool,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        before = (None, None) if is_training and exponential_avg_factor == 1 else (mean, variance)
        y, new_mean, new_variance = fused_batch_norm(
            x, scale, offset, before[0], before[1], epsilon, data_format, is_training, None, exponential_avg_factor
        )
        if not is_training:
            none = array.zeros_like(mean)
            return (y, mean, variance, none, none, array.zeros([], mean.dtype))[: 3 + reserved]
        axes = [i for i, letter in enumerate(_letters(x, data_format)) if letter != "C"]
        wide = array.cast(x, scale.dtype)
        batch_mean = math.reduce_mean(wide, axes)
        batch_variance = math.reduce_variance(wide, axes)
        rest = (batch_mean, batch_variance, array.zeros([], scale.dtype))
        return (y, new_mean, new_variance, *rest)[: 3 + reserved]

    return op


def _letters(x: Any, data_format: str) -> str:
    return data_format if len(data_format) == x.shape.rank else "NDHWC"


def _fused_batch_norm_grad(
    y_backprop: Any, x: Any, scale: Any, mean: Any, variance: Any,
    *unused: Any, epsilon: float, data_format: str, is_training: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    def forward(x: Any, scale: Any, offset: Any) -> Any:
        used = (None, None) if is_training else (mean, variance)
        return fused_batch_norm(x, scale, offset, used[0], used[1], epsilon, data_format, is_training)[0]

    dx, dscale, doffset = vjp(forward, (x, scale, array.zeros_like(scale)), y_backprop)
    none = array.zeros([0], scale.dtype)
    return dx, dscale, doffset, none, none


def _lrn(input: Any, depth_radius: int, bias: float, alpha: float, beta: float) -> Tensor:
    return local_response_normalization(input, depth_radius, bias, alpha, beta)


def _lrn_grad(input_grads: Any, input_image: Any, depth_radius: int, bias: float, alpha: float, beta: float) -> Tensor:
    return vjp(lambda x: _lrn(x, depth_radius, bias, alpha, beta), (input_image,), input_grads)[0]


def _bias_grad(out_backprop: Any, data_format: str = "NHWC") -> Tensor:
    rank = out_backprop.shape.rank
    channel = 1 if data_format == "NCHW" else rank - 1
    return math.reduce_sum(out_backprop, [i for i in range(rank) if i != channel])


# -- quantization ----------------------------------------------------------------------------------------------------
def _fake_quant_args_grad(
    gradients: Any, inputs: Any, min: float, max: float, num_bits: int, narrow_range: bool
) -> Tensor:
    def forward(x: Any) -> Any:
        return quantization.fake_quant_with_min_max_args(x, min, max, num_bits, narrow_range)

    return vjp(forward, (inputs,), gradients)[0]


def _fake_quant_grad(function: Callable[..., Any]) -> Callable[..., tuple[Tensor, ...]]:
    def op(gradients: Any, inputs: Any, min: Any, max: Any, num_bits: int, narrow_range: bool) -> tuple[Tensor, ...]:
        return vjp(lambda *xs: function(*xs, num_bits, narrow_range), (inputs, min, max), gradients)

    return op


OPS: dict[str, Callable[..., Any]] = {
    # -- activations
    "Elu": special.elu,
    "EluGrad": _elu_slope,
    "LeakyRelu": lambda features, alpha: special.leaky_relu(features, alpha),
    "LeakyReluGrad": _leaky_relu_slope,
    "LogSoftmax": lambda logits: nn.log_softmax(logits),
    "Relu": nn.relu,
    "Relu6": nn.relu6,
    "Relu6Grad": _gated(lambda x: math.logical_and(x > 0, x < 6)),
    "ReluGrad": _gated(lambda x: x > 0),
    "Selu": special.selu,
    "SeluGrad": _selu_slope,
    "Softmax": lambda logits: nn.softmax(logits),
    "Softplus": nn.softplus,
    "SoftplusGrad": lambda gradients, features: gradients * math.sigmoid(features),
    "Softsign": nn.softsign,
    "SoftsignGrad": lambda gradients, features: gradients / math.square(1 + math.abs(features)),
    # -- losses
    "CTCLoss": _ctc_loss,
    "SoftmaxCrossEntropyWithLogits": _with_backprop(_dense_loss),
    "SparseSoftmaxCrossEntropyWithLogits": _with_backprop(nn.sparse_softmax_cross_entropy_with_logits),
    # -- convolutions
    "BiasAdd": lambda value, bias, data_format: nn.bias_add(value, bias, data_format),
    "BiasAddGrad": _bias_grad,
    "BiasAddV1": lambda value, bias: nn.bias_add(value, bias),
    "Conv2D": _conv2d,
    "Conv2DBackpropFilter": _with_conv2d_attrs(_conv2d_filter_grad),
    "Conv2DBackpropFilterV2": _with_conv2d_attrs(
        lambda x, w, g, **attrs: _conv2d_filter_grad(x, array.shape(w), g, **attrs)
    ),
    "Conv2DBackpropInput": _with_conv2d_attrs(_conv2d_input_grad),
    "Conv2DBackpropInputV2": _with_conv2d_attrs(
        lambda x, w, g, **attrs: _conv2d_input_grad(array.shape(x), w, g, **attrs)
    ),
    "Conv3D": lambda input, filter, strides, padding, data_format, dilations: convolution.conv3d(
        input, filter, strides, padding, data_format, dilations
    ),
    "Conv3DBackpropFilter": lambda input, filter, out_backprop, strides, padding, dilations: _conv3d_filter_grad(
        input, array.shape(filter), out_backprop, strides, padding, dilations
    ),
    "Conv3DBackpropFilterV2": _conv3d_filter_grad,
    "Conv3DBackpropInput": lambda input, filter, out_backprop, strides, padding, dilations: _conv3d_input_grad(
        array.shape(input), filter, out_backprop, strides, padding, dilations
    ),
    "Conv3DBackpropInputV2": _conv3d_input_grad,
    "DepthwiseConv2dNative": _depthwise,
    "DepthwiseConv2dNativeBackpropFilter": _with_conv2d_attrs(_depthwise_filter_grad),
    "DepthwiseConv2dNativeBackpropInput": _with_conv2d_attrs(_depthwise_input_grad),
    "Dilation2D": _dilation,
    "Dilation2DBackpropFilter": _dilation_grad(1),
    "Dilation2DBackpropInput": _dilation_grad(0),
    # -- pooling
    "AvgPool": lambda value, ksize, strides, padding, data_format: pooling.avg_pool2d(
        value, ksize, strides, padding, data_format
    ),
    "AvgPool3D": lambda input, ksize, strides, padding, data_format: pooling.avg_pool3d(
        input, ksize, strides, padding, data_format
    ),
    "AvgPool3DGrad": _pool_grad(pooling.avg_pool3d),
    "AvgPoolGrad": _pool_grad(pooling.avg_pool2d),
    "MaxPool": _max_pool,
    "MaxPool3D": lambda input, ksize, strides, padding, data_format: pooling.max_pool3d(
        input, ksize, strides, padding, data_format
    ),
    "MaxPool3DGrad": _max_pool3d_grad,
    "MaxPoolGrad": _max_pool_grad,
    "MaxPoolGradV2": lambda orig_input, orig_output, grad, ksize, strides, padding, data_format: _max_pool_grad(
        orig_input, orig_output, grad, _integers(ksize), _integers(strides), padding, data_format
    ),
    "MaxPoolGradWithArgmax": _max_pool_grad_with_argmax,
    "MaxPoolV2": lambda input, ksize, strides, padding, data_format: _max_pool(
        input, _integers(ksize), _integers(strides), padding, data_format
    ),
    "MaxPoolWithArgmax": _max_pool_with_argmax,
    # -- normalization
    "FusedBatchNorm": _fused_batch_norm(2),
    "FusedBatchNormGrad": _fused_batch_norm_grad,
    "FusedBatchNormGradV2": _fused_batch_norm_grad,
    "FusedBatchNormGradV3": _fused_batch_norm_grad,
    "FusedBatchNormV2": _fused_batch_norm(2),
    "FusedBatchNormV3": _fused_batch_norm(3),
    "LRN": _lrn,
    "LRNGrad": lambda input_grads, input_image, output_image, depth_radius, bias, alpha, beta: _lrn_grad(
        input_grads, input_image, depth_radius, bias, alpha, beta
    ),
    # -- recurrent cells
    # -- quantization
    "FakeQuantWithMinMaxArgs": quantization.fake_quant_with_min_max_args,
    "FakeQuantWithMinMaxArgsGradient": _fake_quant_args_grad,
    "FakeQuantWithMinMaxVars": quantization.fake_quant_with_min_max_vars,
    "FakeQuantWithMinMaxVarsGradient": _fake_quant_grad(quantization.fake_quant_with_min_max_vars),
    "FakeQuantWithMinMaxVarsPerChannel": quantization.fake_quant_with_min_max_vars_per_channel,
    "FakeQuantWithMinMaxVarsPerChannelGradient": _fake_quant_grad(
        quantization.fake_quant_with_min_max_vars_per_channel
    ),
}
