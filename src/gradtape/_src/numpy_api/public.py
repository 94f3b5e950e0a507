"""`tf.experimental.numpy`: NumPy's functions with its dtype rules, on tensors."""

from __future__ import annotations

from gradtape._src.numpy_api import creation, elementwise, products, random as random, reductions, shapes
from gradtape._src.numpy_api.behavior import experimental_enable_numpy_behavior as experimental_enable_numpy_behavior
from gradtape._src.numpy_api.creation import *  # noqa: F403
from gradtape._src.numpy_api.elementwise import *  # noqa: F403
from gradtape._src.numpy_api.products import *  # noqa: F403
from gradtape._src.numpy_api.reductions import *  # noqa: F403
from gradtape._src.numpy_api.shapes import *  # noqa: F403
from gradtape._src.numpy_api.types import (
    bool_ as bool_,
    complex64 as complex64,
    complex128 as complex128,
    complex_ as complex_,
    e as e,
    finfo as finfo,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    float_ as float_,
    iinfo as iinfo,
    inexact as inexact,
    inf as inf,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    int_ as int_,
    isscalar as isscalar,
    issubdtype as issubdtype,
    ndarray as ndarray,
    newaxis as newaxis,
    object_ as object_,
    pi as pi,
    promote_types as promote_types,
    result_type as result_type,
    string_ as string_,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
    unicode_ as unicode_,
)

_TYPES = (
    "bool_", "complex128", "complex64", "complex_", "e", "finfo", "float16", "float32", "float64", "float_", "iinfo",
    "inexact", "inf", "int16", "int32", "int64", "int8", "int_", "isscalar", "issubdtype", "ndarray", "newaxis",
    "object_", "pi", "promote_types", "result_type", "string_", "uint16", "uint32", "uint64", "uint8", "unicode_",
)  # fmt: skip

__all__ = [
    *creation.__all__,
    *elementwise.__all__,
    *products.__all__,
    *reductions.__all__,
    *shapes.__all__,
    *_TYPES,
    "experimental_enable_numpy_behavior",
    "random",
]
