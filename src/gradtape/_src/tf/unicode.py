"""The Unicode functions of `tf.strings`: code points of strings, strings of code points, encodings, scripts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src.conversion import operand, wrap
from gradtape._src.dtypes import int32
from gradtape._src.errors import invalid_argument, refused_value
from gradtape._src.tensor import Tensor
from gradtape._src.text import scripts, unicode as codecs
from gradtape._src.tf.arguments import allowed_text, as_int, text as text_attribute
from gradtape._src.tf.string_arrays import (
    elementwise,
    flat,
    input_of,
    is_ragged,
    known,
    packed_tensor,
    ragged_rows,
    string_tensor,
    texts_in,
    texts_of,
)

_POLICIES = ("strict", "replace", "ignore")
_WRITTEN = tuple(codecs.OUTPUT_ENCODINGS)
_LAST = 0x10FFFF


def _replacement(char: Any, op: str) -> int:
    code = as_int(char, "replacement_char")
    if not 0 <= code <= _LAST:
        raise invalid_argument("replacement_char out of unicode codepoint range", op)
    return code


def _decoded(
    texts: list[bytes], encoding: Any, policy: Any, replacement: Any, control_characters: bool, op: str
) -> codecs.Decoded:
    name = text_attribute(encoding, "input_encoding")
    policy = allowed_text(policy, "errors", _POLICIES, op)
    code = _replacement(replacement, op)
    try:
        return codecs.decode(texts, name).replace(policy, code, bool(control_characters))
    except codecs.UnknownEncodingError:
        raise refused_value(f"Could not create converter for input encoding: {name}", op) from None
    except codecs.MalformedError:
        raise refused_value("Invalid formatting on input string", op) from None


def unicode_decode(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 0xFFFD,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> Any:
    """Decode each string to its code points: a row of a `RaggedTensor`.

    >>> tf.strings.unicode_decode(["é!", ""], "UTF-8").to_list()
    [[233, 33], []]
    """
    if is_ragged(input):
        decoded = unicode_decode(
            input.flat_values, input_encoding, errors, replacement_char, replace_control_characters
        )
        return input.with_flat_values(decoded)
    texts = texts_of(input, "UnicodeDecode")
    found = _decoded(flat(texts), input_encoding, errors, replacement_char, replace_control_characters, "UnicodeDecode")
    return ragged_rows(wrap(found.codes), found.counts, texts.shape)


def unicode_decode_with_offsets(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 0xFFFD,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Decode each string to its code points, and return the byte at which each of them starts.

    >>> codes, offsets = tf.strings.unicode_decode_with_offsets(["é!"], "UTF-8")
    >>> codes.to_list(), offsets.to_list()
    ([[233, 33]], [[0, 2]])
    """
    options = (input_encoding, errors, replacement_char, replace_control_characters)
    if is_ragged(input):
        codes, offsets = unicode_decode_with_offsets(input.flat_values, *options)
        return input.with_flat_values(codes), input.with_flat_values(offsets)
    texts = texts_of(input, "UnicodeDecodeWithOffsets")
    found = _decoded(flat(texts), *options, "UnicodeDecodeWithOffsets")
    offsets = wrap(found.offsets.astype(np.int64, copy=False))
    return ragged_rows(wrap(found.codes), found.counts, texts.shape), ragged_rows(offsets, found.counts, texts.shape)


def unicode_split(
    input: Any, input_encoding: str, errors: str = "replace", replacement_char: int = 0xFFFD, name: str | None = None
) -> Any:
    """Split each string into its characters: a row of a `RaggedTensor`.

    >>> tf.strings.unicode_split("né", "UTF-8").numpy().tolist()
    [b'n', b'\\xc3\\xa9']
    """
    return unicode_split_with_offsets(input, input_encoding, errors, replacement_char)[0]


def unicode_split_with_offsets(
    input: Any, input_encoding: str, errors: str = "replace", replacement_char: int = 0xFFFD, name: str | None = None
) -> tuple[Any, Any]:
    """Split each string into its characters, and return the byte at which each of them starts.

    >>> characters, offsets = tf.strings.unicode_split_with_offsets(["né"], "UTF-8")
    >>> characters.to_list(), offsets.to_list()
    ([[b'n', b'\\xc3\\xa9']], [[0, 1]])
    """
    if is_ragged(input):
        parts, offsets = unicode_split_with_offsets(input.flat_values, input_encoding, errors, replacement_char)
        return input.with_flat_values(parts), input.with_flat_values(offsets)
    texts = texts_of(input, "UnicodeDecodeWithOffsets")
    found = _decoded(flat(texts), input_encoding, errors, replacement_char, False, "UnicodeDecodeWithOffsets")
    encoding = allowed_text(input_encoding, "output_encoding", _WRITTEN, "UnicodeEncode")
    parts = wrap(codecs.encode_each(found.codes, encoding))
    offsets = wrap(found.offsets.astype(np.int64, copy=False))
    return ragged_rows(parts, found.counts, texts.shape), ragged_rows(offsets, found.counts, texts.shape)


@elementwise
def unicode_transcode(
    input: Any,
    input_encoding: str,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = 0xFFFD,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> Any:
    """Convert strings to another encoding: UTF-8, UTF-16-BE or UTF-32-BE.

    >>> tf.strings.unicode_transcode(["é"], "UTF-8", "UTF-16-BE").numpy().tolist()
    [b'\\x00\\xe9']
    """
    op = "UnicodeTranscode"
    texts = texts_in(input, op)
    encoding = allowed_text(output_encoding, "output_encoding", _WRITTEN, op)
    if not replace_control_characters and codecs.is_utf8(text_attribute(input_encoding, "input_encoding")):
        allowed_text(errors, "errors", _POLICIES, op)
        _replacement(replacement_char, op)
        whole = codecs.reencode(texts.packed, encoding)
        if whole is not None:
            return packed_tensor(whole, texts.shape)
    found = _decoded(texts.rows, input_encoding, errors, replacement_char, replace_control_characters, op)
    codes = np.where(codecs.is_valid(found.codes), found.codes, np.int32(0xFFFD))
    return string_tensor(codecs.encode(codes, found.counts.tolist(), encoding), texts.shape)


def unicode_encode(
    input: Any, output_encoding: str, errors: str = "replace", replacement_char: int = 0xFFFD, name: str | None = None
) -> Any:
    """Encode code points as strings: each row of a tensor or a `RaggedTensor` becomes a string.

    >>> tf.strings.unicode_encode([104, 233], "UTF-8").numpy()
    b'h\\xc3\\xa9'
    """
    op = "UnicodeEncode"
    options = (output_encoding, errors, replacement_char)
    encoding = allowed_text(output_encoding, "output_encoding", _WRITTEN, op)
    policy = allowed_text(errors, "errors", ("ignore", "replace", "strict"), op)
    if is_ragged(input):
        if is_ragged(input.values) or input.values.shape.rank > 1:
            return input.with_values(unicode_encode(input.values, *options))
        counts, codes = known(input.row_lengths()), known(input_of(input.values, int32, op))
        return _encoded(codes, counts, counts.shape, policy, replacement_char, encoding)
    tensor = operand(input, int32) if isinstance(input, (list, tuple)) and not input else operand(input)
    if not tensor.array.shape:
        raise ValueError("input_tensor's rank must be at least 1.")
    codes = known(input_of(tensor, int32, op))
    *outer, last = codes.shape
    counts = np.full(int(np.prod(outer)), last)
    return _encoded(codes.reshape(-1), counts, tuple(outer), policy, replacement_char, encoding)


def _encoded(
    codes: ndarray, counts: ndarray, shape: tuple[int, ...], policy: str, replacement: Any, encoding: str
) -> Tensor:
    code, valid = _replacement(replacement, "UnicodeEncode"), codecs.is_valid(codes)
    if not valid.all():
        if policy == "strict":
            raise refused_value("Code point is out of range for Unicode, or is a surrogate.", "UnicodeEncode")
        if policy == "replace":
            codes = np.where(valid, codes, code)
        else:
            rows = np.repeat(np.arange(len(counts)), counts)[valid]
            codes, counts = codes[valid], np.bincount(rows, minlength=len(counts))
    return string_tensor(codecs.encode(codes, counts.tolist(), encoding), shape)


@elementwise
def unicode_script(input: Any, name: str | None = None) -> Any:
    """Return the script of each code point, as numbered by ICU: 0 is common to many, 25 is Latin, -1 is none.

    >>> tf.strings.unicode_script([ord("a"), ord("1"), ord("я")]).numpy().tolist()
    [25, 0, 8]
    """
    return wrap(scripts.script_of(known(input_of(input, int32, "UnicodeScript"))))
