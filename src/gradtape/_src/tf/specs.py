"""Specifications of values."""

from __future__ import annotations

from typing import Any

from gradtape._src.conversion import convert
from gradtape._src.core.composites import is_composite
from gradtape._src.data.structure import spec_of
from gradtape._src.shape import TensorSpec
from gradtape._src.tensor import Tensor
from gradtape._src.variable import Variable


def type_spec_from_value(value: Any) -> Any:
    """The specification of a tensor, ragged tensor, sparse tensor, dataset, or of what becomes a tensor.

    >>> import gradtape as tf
    >>> tf.type_spec_from_value(tf.ragged.constant([[1], [2, 3]]))
    RaggedTensorSpec(TensorShape([2, None]), tf.int32, 1, tf.int64)
    """
    if is_composite(value):
        return value._type_spec
    if isinstance(value, (Tensor, Variable)):
        return TensorSpec(value.shape, value.dtype)
    if hasattr(value, "_element_of_dataset"):
        return spec_of(value)
    try:
        return TensorSpec.from_tensor(convert(value))
    except (TypeError, ValueError):
        raise TypeError(f"Could not build a TypeSpec for {value!r} of unsupported type {type(value)}.") from None
