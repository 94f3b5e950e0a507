"""`tf.io`: compressed strings, and examples in JSON."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src import errors
from gradtape._src.conversion import convert, wrap
from gradtape._src.formats.example import Example
from gradtape._src.tensor import Tensor

__all__ = [
    "decode_compressed",
    "decode_json_example",
]


def _texts(value: Any, op: str) -> ndarray:
    tensor = value if isinstance(value, Tensor) else convert(value, "string")
    if tensor.dtype.name != "string":
        raise errors.invalid_argument(
            f"cannot compute {op} as input #0(zero-based) was expected to be a string tensor but is a "
            f"{tensor.dtype.word} tensor",
            op,
        )
    return np.asarray(tensor.array)


def _mapped(function: Callable[[bytes], bytes], texts: ndarray) -> Tensor:
    results = np.empty(texts.size, object)
    results[:] = [function(text) for text in texts.reshape(-1)]
    return wrap(results.reshape(texts.shape))


# -- compression and JSON --------------------------------------------------------------------------------------------
_WAYS = {"ZLIB": 15, "GZIP": 31}


def decode_compressed(bytes: Any, compression_type: str = "", name: str | None = None) -> Tensor:
    """Decompress strings that were compressed with "ZLIB" or "GZIP".

    >>> import gradtape as tf, zlib
    >>> tf.io.decode_compressed(zlib.compress(b"abc"), "ZLIB").numpy()
    b'abc'
    """
    texts = _texts(bytes, "DecodeCompressed")
    if not compression_type:
        return wrap(texts)
    if compression_type not in _WAYS:
        raise errors.invalid_argument(
            f"Only ZLIB, ZSTD, GZIP or NONE are supported compressions: got {compression_type!r}. gradtape does not "
            "support ZSTD",
            "DecodeCompressed",
        )

    def inflated(text: Any) -> Any:
        try:
            return zlib.decompress(text, _WAYS[compression_type])
        except zlib.error as error:
            why = str(error).replace("Error ", "error ").replace(" while decompressing data", "")
            raise errors.DataLossError(None, None, f"inflate() failed with {why} [Op:DecodeCompressed]") from None

    return _mapped(inflated, texts)


def decode_json_example(json_examples: Any, name: str | None = None) -> Tensor:
    """Convert examples written as JSON to strings that `tf.io.parse_example` reads.

    >>> import gradtape as tf
    >>> text = '{"features": {"feature": {"a": {"int64List": {"value": ["1", "2"]}}}}}'
    >>> tf.io.parse_single_example(tf.io.decode_json_example(text), {"a": tf.io.FixedLenFeature([2], tf.int64)})["a"]
    <tf.Tensor: shape=(2,), dtype=int64, numpy=array([1, 2])>
    """
    return _mapped(_example_from_json, _texts(json_examples, "DecodeJSONExample"))


def _example_from_json(text: bytes) -> bytes:
    try:
        found = json.loads(text)
        example = Example()
        for key, feature in found.get("features", {}).get("feature", {}).items():
            for kind, values in feature.items():
                _fill(example.features.feature[key], kind, values.get("value", []))
        return example.SerializeToString()
    except (ValueError, TypeError, AttributeError) as error:
        raise errors.refused_value(f"Error while parsing JSON: {error}", "DecodeJSONExample") from None


def _fill(feature: Any, kind: str, values: list[Any]) -> None:
    if kind in ("int64List", "int64_list"):
        feature.int64_list.value.extend(int(value) for value in values)
    elif kind in ("floatList", "float_list"):
        feature.float_list.value.extend(float(value) for value in values)
    elif kind in ("bytesList", "bytes_list"):
        feature.bytes_list.value.extend(base64.b64decode(value) for value in values)
    else:
        raise ValueError(f"no such field: '{kind}'")
