"""`tf.experimental`: NumPy's functions, and switches of TensorFlow's runtime."""

from gradtape._src.experimental import (
    DynamicRaggedShape as DynamicRaggedShape,
    Optional as Optional,
    async_clear_error as async_clear_error,
    async_scope as async_scope,
    enable_strict_mode as enable_strict_mode,
    function_executor_type as function_executor_type,
)
from gradtape.experimental import dlpack as dlpack, dtensor as dtensor, numpy as numpy
