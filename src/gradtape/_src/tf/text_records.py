"""The functions of `tf.io` that read and write texts: base64, and records of comma-separated values."""

from __future__ import annotations

import binascii
import itertools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src import errors
from gradtape._src.conversion import operand, wrap
from gradtape._src.dtypes import DType, string
from gradtape._src.tensor import Tensor
from gradtape._src.text import numbers
from gradtape._src.text.packed import Packed
from gradtape._src.tf.arguments import text_bytes
from gradtape._src.tf.string_arrays import (
    Texts,
    elementwise,
    flat,
    known,
    packed_tensor,
    string_array,
    string_tensor,
    texts_in,
    texts_of,
)

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_TO_WEB, _FROM_WEB = bytes.maketrans(b"+/", b"-_"), bytes.maketrans(b"-_", b"+/")
_BASE64 = re.compile(rb"(?:[\w-]{4})*(?:[\w-]{2}(?:==)?|[\w-]{3}=?)?", re.ASCII)


@elementwise
def encode_base64(input: Any, pad: bool = False, name: str | None = None) -> Any:
    """Encode strings as web-safe base64, without `=` at the end unless `pad` is true.

    >>> tf.io.encode_base64(["hello"]).numpy().tolist()
    [b'aGVsbG8']
    """
    texts = texts_of(input, "EncodeBase64")
    whole = b"\0".join([binascii.b2a_base64(row, newline=False) for row in flat(texts)]).translate(_TO_WEB)
    rows = (whole if pad else whole.replace(b"=", b"")).split(b"\0") if texts.size else []
    return string_tensor(rows, texts.shape)


@elementwise
def decode_base64(input: Any, name: str | None = None) -> Any:
    """Decode strings that `encode_base64` encoded.

    >>> tf.io.decode_base64(["aGVsbG8"]).numpy().tolist()
    [b'hello']
    """
    op = "DecodeBase64"
    texts = texts_of(input, op)
    rows = flat(texts)
    if b"".join(rows).translate(None, _ALPHABET) or 1 in {len(row) % 4 for row in rows}:
        _check_base64(rows, op)
    whole = b"\0".join(rows).translate(_FROM_WEB)
    decoded = [binascii.a2b_base64(row + b"==") for row in whole.split(b"\0")] if rows else []
    return string_tensor(decoded, texts.shape)


def _check_base64(rows: list[bytes], op: str) -> None:
    for row in rows:
        if _BASE64.fullmatch(row) is None:
            if not row.translate(None, _ALPHABET):
                raise errors.refused_value("Base64 string length cannot be 1 modulo 4.", op)
            raise errors.refused_value("Invalid character found in base64.", op)


# -- comma-separated values ------------------------------------------------------------------------------------------
_CSV = "DecodeCSV"
_NEWLINE = np.uint8(10)
_CSV_TYPES = ("float32", "float64", "int32", "int64", "string")


def decode_csv(
    records: Any,
    record_defaults: Sequence[Any],
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
    name: str | None = None,
) -> list[Tensor]:
    """Parse records of comma-separated values into columns, one tensor for each.

    `record_defaults` contains the dtype of each column and the value of an empty field; an empty list means that the
    field is required.

    >>> [column.numpy().tolist() for column in tf.io.decode_csv(["1,a", "2,"], [[0], ["?"]])]
    [[1, 2], [b'a', b'?']]
    """
    defaults = [operand(default) for default in record_defaults]
    texts = texts_in(records, _CSV)
    delimiter, missing = text_bytes(field_delim, "field_delim"), text_bytes(na_value, "na_value")
    _check_columns(defaults, delimiter, select_cols)
    plain = None if select_cols is not None else _plain_columns(texts, delimiter, len(defaults))
    columns: list[Any] = plain or _columns_of(texts.rows, delimiter, use_quote_delim, select_cols, len(defaults))
    return [
        _column(column, i, default, missing, texts.shape)
        for i, (column, default) in enumerate(zip(columns, defaults, strict=True))
    ]


def _check_columns(defaults: list[Tensor], delimiter: bytes, chosen: Sequence[int] | None) -> None:
    if chosen is not None and any(a >= b for a, b in itertools.pairwise(chosen)):
        raise ValueError("select_cols is not strictly increasing.")
    if chosen is not None and len(chosen) != len(defaults):
        raise ValueError("Length of select_cols and record_defaults do not match.")
    if not defaults:
        raise errors.invalid_argument("Length for attr 'OUT_TYPE' of 0 must be at least minimum 1", _CSV)
    if len(delimiter) != 1:
        raise errors.invalid_argument("field_delim should be only 1 char", _CSV)
    for i, default in enumerate(defaults):
        if default.dtype.name not in _CSV_TYPES:
            raise errors.unsupported_dtype(_CSV, default.dtype, "float, double, int32, int64, string", "OUT_TYPE")
        if known(default).size > 1:
            raise errors.invalid_argument(
                f"There should only be 1 default per field but field {i} has {known(default).size}", _CSV
            )


def _plain_columns(texts: Texts, delimiter: bytes, count: int) -> list[Packed] | None:
    """The columns of many records that have `count` fields each, and nothing in quotes; None for others."""
    if not texts.is_large or delimiter in (b"\n", b'"') or not texts.packed.lengths.all():
        return None
    whole = texts.packed.joined(b"\n")
    found = whole.bytes[: int(whole.ends[-1])]
    data = found.tobytes()
    if b'"' in data or b"\r" in data or np.count_nonzero(found == _NEWLINE) != texts.size - 1:
        return None
    if count == 1:
        return None if delimiter in data else [whole]
    places = np.flatnonzero(found == delimiter[0])
    if len(places) != (count - 1) * texts.size:
        return None
    marks = places.reshape(-1, count - 1)
    if (marks[:, 0] < whole.starts).any() or (marks[:, -1] >= whole.ends).any():
        return None  # some record has more fields, and another one fewer
    limits = np.concatenate([whole.starts[:, None] - 1, marks, whole.ends[:, None]], axis=1)
    starts, lengths = limits[:, :-1] + 1, np.diff(limits) - 1
    return [Packed.at(whole.bytes, starts[:, i].copy(), lengths[:, i].copy()) for i in range(count)]


def _columns_of(
    lines: list[bytes], delimiter: bytes, quotes: bool, chosen: Sequence[int] | None, count: int
) -> list[list[bytes]]:
    """The columns of records, each of which is divided into fields on its own."""
    rows = [_fields(row, delimiter, quotes) for row in lines]
    if chosen is not None:
        rows = [[row[i] for i in chosen if i < len(row)] for row in rows]
    for number, row in enumerate(rows):
        if len(row) != count:
            raise errors.refused_value(f"Expect {count} fields but have {len(row)} in record {number}", _CSV)
    return [[row[i] for row in rows] for i in range(count)]


def _fields(record: bytes, delimiter: bytes, quotes: bool) -> list[bytes]:
    """The fields of a record; in quotes a field may have delimiters, line breaks and doubled quotes."""
    if not record:
        return []
    if not quotes or delimiter == b'"':
        return record.split(delimiter)
    found, at = [], 0
    while True:
        field, at = _quoted(record, at + 1, delimiter) if record[at : at + 1] == b'"' else _plain(record, at, delimiter)
        found.append(field)
        if at >= len(record):
            return found
        at += 1
        if at == len(record):  # a delimiter at the end has an empty field behind it
            return [*found, b""]


def _plain(record: bytes, start: int, delimiter: bytes) -> tuple[bytes, int]:
    end = record.find(delimiter, start)
    end = len(record) if end < 0 else end
    field = record[start:end]
    if any(char in field for char in (b'"', b"\n", b"\r")):
        raise errors.refused_value("Unquoted fields cannot have quotes/CRLFs inside", _CSV)
    return field, end


def _quoted(record: bytes, start: int, delimiter: bytes) -> tuple[bytes, int]:
    found = re.compile(rb'(?:[^"]|"")*').match(record, start)
    end = len(record) if found is None else found.end()
    if record[end : end + 1] != b'"':
        raise errors.refused_value("Quoted field has to end with quote followed by delim or end", _CSV)
    if record[end + 1 : end + 2] not in (delimiter, b""):
        raise errors.refused_value("Quote inside a string has to be escaped by another quote", _CSV)
    return record[start:end].replace(b'""', b'"'), end + 1


def _column(
    fields: list[bytes] | Packed, number: int, default: Tensor, missing: bytes, shape: tuple[int, ...]
) -> Tensor:
    values, dtype = known(default), default.dtype
    if isinstance(fields, Packed) and fields.lengths.all() and not (fields.lengths == (len(missing) or -1)).any():
        if dtype == string:
            return packed_tensor(fields, shape)
        return wrap(_numbers(fields, number, dtype).reshape(shape))
    rows = fields.rows if isinstance(fields, Packed) else fields
    empty = [i for i, field in enumerate(rows) if not field or field == missing]
    if empty and not values.size:
        raise errors.refused_value(f"Field {number} is required but missing in record {empty[0]}!", _CSV)
    if dtype == string:
        column = string_array(rows, (len(rows),))
    else:
        given = list(rows)
        for i in empty:
            given[i] = b"0"
        column = _numbers(given, number, dtype)
    if empty:
        column[empty] = values.reshape(-1)[0]
    return wrap(column.reshape(shape))


def _numbers(fields: list[bytes] | Packed, number: int, dtype: DType) -> ndarray:
    read = numbers.read_floats if dtype.is_floating else numbers.read_integers
    try:
        return np.asarray(read(fields, dtype.numpy_dtype))
    except numbers.NumberError as error:
        rows = fields.rows if isinstance(fields, Packed) else fields
        raise errors.refused_value(
            f"Field {number} in record {rows.index(error.text)} is not a valid {dtype.word}: "
            f"{error.text.decode(errors='replace')}",
            _CSV,
        ) from None
