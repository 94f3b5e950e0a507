"""`tf.experimental`: NumPy's functions, and runtime settings of TensorFlow."""

import typing as _typing

from gradtape._src.experimental import (
    BatchableExtensionType as BatchableExtensionType,
    DynamicRaggedShape as DynamicRaggedShape,
    ExtensionType as ExtensionType,
    ExtensionTypeBatchEncoder as ExtensionTypeBatchEncoder,
    ExtensionTypeSpec as ExtensionTypeSpec,
    Optional as Optional,
    async_clear_error as async_clear_error,
    async_scope as async_scope,
    dispatch_for_api as dispatch_for_api,
    dispatch_for_binary_elementwise_apis as dispatch_for_binary_elementwise_apis,
    dispatch_for_binary_elementwise_assert_apis as dispatch_for_binary_elementwise_assert_apis,
    dispatch_for_unary_elementwise_apis as dispatch_for_unary_elementwise_apis,
    enable_strict_mode as enable_strict_mode,
    extension_type as extension_type,
    float8_e4m3b11fnuz as float8_e4m3b11fnuz,
    float8_e4m3fn as float8_e4m3fn,
    float8_e4m3fnuz as float8_e4m3fnuz,
    float8_e5m2 as float8_e5m2,
    float8_e5m2fnuz as float8_e5m2fnuz,
    function_executor_type as function_executor_type,
    int4 as int4,
    uint4 as uint4,
    unregister_dispatch_for as unregister_dispatch_for,
)
from gradtape.experimental import dlpack as dlpack, dtensor as dtensor, numpy as numpy

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
