"""Initializers of static tables: from tensors of keys and values, or the lines of a text file."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src import errors
from gradtape._src.conversion import convert
from gradtape._src.dtypes import DType, as_dtype, int64, string
from gradtape._src.formats.atomic import open_to_read
from gradtape._src.text import numbers
from gradtape._src.tf.string_arrays import known, string_array

_OP = "InitializeTableFromTextFileV2"


class TextFileIndex:
    """What to use as key or value besides a column number: `WHOLE_LINE` or `LINE_NUMBER`.

    >>> tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
    (-2, -1)
    """

    WHOLE_LINE = -2
    LINE_NUMBER = -1


class KeysAndValues:
    """The dtypes of tables and their initializers."""

    def __init__(self, key_dtype: Any, value_dtype: Any) -> None:
        self._key_dtype, self._value_dtype = as_dtype(key_dtype), as_dtype(value_dtype)

    @property
    def key_dtype(self) -> DType:
        return self._key_dtype

    @property
    def value_dtype(self) -> DType:
        return self._value_dtype


class TableInitializer(KeysAndValues):
    """Keys and values for a table."""

    def initialize(self, table: Any) -> None:
        """Fill an empty table."""
        if table.key_dtype != self.key_dtype or table.value_dtype != self.value_dtype:
            raise TypeError(
                f"Invalid key/value dtypes for table {table}: the initializer has {self.key_dtype!r} and "
                f"{self.value_dtype!r}."
            )
        table.fill(*self.pairs())

    def pairs(self) -> tuple[ndarray, ndarray]:
        """Arrays of keys and values."""
        raise NotImplementedError(f"{type(self).__name__} must define its keys and values.")


class KeyValueTensorInitializer(TableInitializer):
    """The keys and values of a table, as tensors.

    >>> import gradtape as tf
    >>> words = tf.lookup.KeyValueTensorInitializer(["cat", "dog"], [0, 1])
    >>> tf.lookup.StaticHashTable(words, default_value=-1).lookup(tf.constant(["dog", "cow"])).numpy().tolist()
    [1, -1]
    """

    def __init__(
        self, keys: Any, values: Any, key_dtype: Any = None, value_dtype: Any = None, name: str | None = None
    ) -> None:
        self._keys, self._values = convert(keys, key_dtype), convert(values, value_dtype)
        super().__init__(self._keys.dtype, self._values.dtype)

    def pairs(self) -> tuple[ndarray, ndarray]:
        return known(self._keys), known(self._values)


class TextFileInitializer(TableInitializer):
    """The keys and values of a table, from the lines of a text file: columns, whole lines or line numbers.

    >>> import gradtape as tf, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "words.txt")
    >>> with open(path, "w") as file:
    ...     _ = file.write("cat\\ndog\\n")
    >>> line = tf.lookup.TextFileIndex
    >>> words = tf.lookup.TextFileInitializer(path, tf.string, line.WHOLE_LINE, tf.int64, line.LINE_NUMBER)
    >>> tf.lookup.StaticHashTable(words, default_value=-1).lookup(tf.constant(["dog", "cow"])).numpy().tolist()
    [1, -1]
    """

    def __init__(
        self,
        filename: Any,
        key_dtype: Any,
        key_index: int,
        value_dtype: Any,
        value_index: int,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str | None = None,
        value_index_offset: int = 0,
    ) -> None:
        if filename is None or (isinstance(filename, str) and not filename):
            raise ValueError("`filename` argument required for tf.lookup.TextFileInitializer")
        super().__init__(key_dtype, value_dtype)
        _check_column("key", key_index, self.key_dtype)
        _check_column("value", value_index, self.value_dtype)
        if vocab_size is not None and vocab_size <= 0:
            raise ValueError(f"`vocab_size` should be > 0, received: {vocab_size}")
        path = filename if isinstance(filename, (str, bytes, os.PathLike)) else known(convert(filename, string)).item()
        self.path = os.fsdecode(path)
        self.columns, self.size, self.delimiter = (key_index, value_index), vocab_size, delimiter
        self.offset = value_index_offset

    def pairs(self) -> tuple[ndarray, ndarray]:
        if len(self.delimiter) != 1:
            raise errors.invalid_argument("delimiter should be only 1 char", _OP)
        lines = self._lines()
        most = max(self.columns)
        fields = [line.split(self.delimiter.encode()) for line in lines] if most >= 0 else []
        for number, (line, row) in enumerate(zip(lines, fields, strict=False)):
            if len(row) <= most:
                raise errors.invalid_argument(
                    f"Invalid number of columns in {self.path} line {number} ({line.decode(errors='replace')}) : "
                    f"expected at least {most + 1} got {len(row)}",
                    _OP,
                )
        key, value = self.columns
        return (
            _column(lines, fields, key, self.key_dtype, 0),
            _column(lines, fields, value, self.value_dtype, self.offset),
        )

    def _lines(self) -> list[bytes]:
        with open_to_read(self.path, _OP) as file:
            lines: list[bytes] = [line.removesuffix(b"\r") for line in file.read().split(b"\n")]
        if lines[-1] == b"":
            lines.pop()
        lines = lines[: self.size]
        if b"" in lines:
            where = sum(len(line) + 1 for line in lines[: lines.index(b"")]) + 1
            raise errors.invalid_argument(f"Invalid content in {self.path}: empty line found at position {where}.", _OP)
        if self.size is not None and len(lines) < self.size:
            raise errors.invalid_argument(
                f"Invalid vocab_size in {self.path}: expected {self.size} but got {len(lines)}", _OP
            )
        return lines


def _check_column(what: str, index: int, dtype: DType) -> None:
    if index < TextFileIndex.WHOLE_LINE:
        raise ValueError(f"`{what}_index` should be >= -2, received: {index}.")
    if index == TextFileIndex.LINE_NUMBER and dtype != int64:
        condition = "if `key_index` is" if what == "key" else "for `value_index`"
        raise ValueError(f"`{what}_dtype` must be int64 {condition} {index}, received: {dtype}")
    if index == TextFileIndex.WHOLE_LINE and what == "key" and not (dtype.is_integer or dtype == string):
        raise ValueError(f"`key_dtype` should be either integer or string for `key_index` {index}, received: {dtype}")
    if index == TextFileIndex.WHOLE_LINE and what == "value" and dtype != string:
        raise ValueError(f"`value_dtype` must be string for `value_index` {index}, received: {dtype}")


def _column(lines: list[bytes], fields: list[list[bytes]], index: int, dtype: DType, offset: int) -> ndarray:
    if index == TextFileIndex.LINE_NUMBER:
        return np.arange(offset, len(lines) + offset, dtype=np.int64)
    texts = lines if index == TextFileIndex.WHOLE_LINE else [row[index] for row in fields]
    if dtype == string:
        return string_array(texts, (len(texts),))
    read = numbers.read_floats if dtype.is_floating else numbers.read_integers
    try:
        return read(texts, dtype.numpy_dtype)
    except numbers.NumberError as error:
        shown = error.text.decode(errors="replace")
        raise errors.invalid_argument(
            f"Field {shown} in line {texts.index(error.text)} is not a valid {dtype.word}.", _OP
        ) from None
