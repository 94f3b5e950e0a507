"""`tf.quantization`: round to few levels in the forward pass, with the gradient of clipping."""

import typing as _typing

from gradtape._src.tf.quantization import (
    fake_quant_with_min_max_args as fake_quant_with_min_max_args,
    fake_quant_with_min_max_args_gradient as fake_quant_with_min_max_args_gradient,
    fake_quant_with_min_max_vars as fake_quant_with_min_max_vars,
    fake_quant_with_min_max_vars_gradient as fake_quant_with_min_max_vars_gradient,
    fake_quant_with_min_max_vars_per_channel as fake_quant_with_min_max_vars_per_channel,
    fake_quant_with_min_max_vars_per_channel_gradient as fake_quant_with_min_max_vars_per_channel_gradient,
    quantize_and_dequantize as quantize_and_dequantize,
    quantize_and_dequantize_v2 as quantize_and_dequantize_v2,
)

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
