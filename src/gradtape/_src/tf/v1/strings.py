"""Functions of `tf.compat.v1.strings` whose arguments are those of TensorFlow 1."""

from __future__ import annotations

from typing import Any

from gradtape._src.conversion import convert
from gradtape._src.dtypes import float32, string
from gradtape._src.tf import strings
from gradtape._src.tf.array import expand_dims
from gradtape._src.tf.string_arrays import is_ragged
from gradtape._src.tf.v1.functions import renamed

__all__ = ["length", "split", "substr", "to_hash_bucket", "to_number"]


def length(input: Any, name: str | None = None, unit: str = "BYTE") -> Any:
    """The number of bytes in each string, or of characters with `unit="UTF8_CHAR"`."""
    return strings.length(input, unit, name)


def substr(input: Any, pos: Any, len: Any, name: str | None = None, unit: str = "BYTE") -> Any:
    """The part of each string at `pos` with up to `len` bytes, or characters with `unit="UTF8_CHAR"`."""
    return strings.substr(input, pos, len, unit, name)


def to_number(string_tensor: Any = None, out_type: Any = float32, name: str | None = None, input: Any = None) -> Any:
    """Numbers of texts."""
    return strings.to_number(renamed(string_tensor, input, "string_tensor", "input"), out_type, name)


def to_hash_bucket(
    string_tensor: Any = None, num_buckets: int | None = None, name: str | None = None, input: Any = None
) -> Any:
    """The bucket of each string, by a hash that is the same in every process."""
    return strings.to_hash_bucket(renamed(string_tensor, input, "string_tensor", "input"), num_buckets, name)  # type: ignore[arg-type]


def split(
    input: Any = None,
    sep: Any = None,
    maxsplit: int = -1,
    result_type: str = "SparseTensor",
    source: Any = None,
    name: str | None = None,
) -> Any:
    """Texts in parts, at whitespace or at a separator: a SparseTensor or, with `result_type`, a RaggedTensor.

    >>> tf.compat.v1.strings.split(["a b", "c"], result_type="RaggedTensor").to_list()
    [[b'a', b'b'], [b'c']]
    """
    texts = renamed(input, source, "input", "source")
    texts = texts if is_ragged(texts) else convert(texts, string)
    if not is_ragged(texts) and texts.shape.rank == 0:
        texts = expand_dims(texts, 0)
    if result_type not in ("SparseTensor", "RaggedTensor"):
        raise ValueError("result_type must be 'RaggedTensor' or 'SparseTensor'.")
    found = strings.split(texts, sep, maxsplit)
    return found if result_type == "RaggedTensor" else found.to_sparse()
