"""`tf.experimental`: NumPy's functions, and runtime settings of TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gradtape._src import dtensor as dtensor
from gradtape._src.data.iterator import Optional as Optional
from gradtape._src.dtypes import (
    float8_e4m3b11fnuz as float8_e4m3b11fnuz,
    float8_e4m3fn as float8_e4m3fn,
    float8_e4m3fnuz as float8_e4m3fnuz,
    float8_e5m2 as float8_e5m2,
    float8_e5m2fnuz as float8_e5m2fnuz,
    int4 as int4,
    uint4 as uint4,
)
from gradtape._src.interrupts import contextmanager
from gradtape._src.numpy_api import public as numpy
from gradtape._src.tf import dlpack as dlpack, extension_type as extension_type
from gradtape._src.tf.api_dispatch import (
    dispatch_for_api as dispatch_for_api,
    dispatch_for_binary_elementwise_apis as dispatch_for_binary_elementwise_apis,
    dispatch_for_binary_elementwise_assert_apis as dispatch_for_binary_elementwise_assert_apis,
    dispatch_for_unary_elementwise_apis as dispatch_for_unary_elementwise_apis,
    unregister_dispatch_for as unregister_dispatch_for,
)
from gradtape._src.tf.extension_type import (
    BatchableExtensionType as BatchableExtensionType,
    ExtensionType as ExtensionType,
    ExtensionTypeBatchEncoder as ExtensionTypeBatchEncoder,
    ExtensionTypeSpec as ExtensionTypeSpec,
)
from gradtape._src.tf.ragged_shape import DynamicRaggedShape as DynamicRaggedShape

__all__ = [
    "BatchableExtensionType",
    "DynamicRaggedShape",
    "ExtensionType",
    "ExtensionTypeBatchEncoder",
    "ExtensionTypeSpec",
    "Optional",
    "async_clear_error",
    "async_scope",
    "dispatch_for_api",
    "dispatch_for_binary_elementwise_apis",
    "dispatch_for_binary_elementwise_assert_apis",
    "dispatch_for_unary_elementwise_apis",
    "dlpack",
    "dtensor",
    "enable_strict_mode",
    "extension_type",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "function_executor_type",
    "int4",
    "numpy",
    "uint4",
    "unregister_dispatch_for",
]


@contextmanager
def async_scope() -> Iterator[None]:
    """A block in which TensorFlow runs ops without waiting for them; ops run one after the other here.

    >>> import gradtape as tf
    >>> with tf.experimental.async_scope():
    ...     x = tf.constant(1.0) + 1.0
    >>> float(x)
    2.0
    """
    yield


def async_clear_error() -> None:
    """Forget errors of ops that run without being waited for: there are none.

    >>> import gradtape as tf
    >>> tf.experimental.async_clear_error()
    """


@contextmanager
def function_executor_type(executor_type: Any) -> Iterator[None]:
    """A block in which TensorFlow runs functions with another executor; it has no effect here.

    >>> import gradtape as tf
    >>> with tf.experimental.function_executor_type("SINGLE_THREADED_EXECUTOR"):
    ...     float(tf.constant(1.0))
    1.0
    """
    yield


def enable_strict_mode() -> None:
    """Refuse what TensorFlow has deprecated: nothing of that is in gradtape.

    >>> import gradtape as tf
    >>> tf.experimental.enable_strict_mode()
    """
