"""`tf.data.experimental.CsvDataset` and `make_csv_dataset`: datasets of the records of CSV files."""

from __future__ import annotations

import csv
import io
import itertools
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gradtape._src import errors
from gradtape._src.conversion import convert
from gradtape._src.data.dataset import Dataset
from gradtape._src.data.files import FileDataset
from gradtape._src.dtypes import DType, as_dtype, float32, float64, int32, int64, string
from gradtape._src.formats.tfrecord import lines_in, opened
from gradtape._src.interrupts import float_errors_ignored
from gradtape._src.tensor import Tensor
from gradtape._src.tf import gfile
from gradtape._src.tf.text_records import decode_csv

__all__ = ["CsvDataset", "make_csv_dataset"]

_TYPES = (int32, int64, float32, float64, string)


# -- records -----------------------------------------------------------------------------------------------------------
class _RecordDataset(FileDataset):
    """The records of CSV files as texts; one in quotes may have line breaks."""

    def __init__(self, filenames: Any, compression_type: Any, header: bool, quotes: bool) -> None:
        def reader(path: str) -> Iterator[bytes]:
            with opened(path, compression_type or "") as file:
                yield from itertools.islice(_records(lines_in(file), quotes), int(header), None)

        self._read("CSVDatasetV2", filenames, None, reader)


def _records(lines: Iterator[bytes], quotes: bool) -> Iterator[bytes]:
    """Lines, with those joined that a text in quotes goes over."""
    for line in lines:
        while quotes and line.count(b'"') % 2:
            more = next(lines, None)
            if more is None:
                break
            line += b"\n" + more
        yield line


class CsvDataset(Dataset):
    """A dataset of the records of CSV files: tuples of one scalar for each column.

    `record_defaults` has a default value for each column, or a dtype for one that is required. `select_cols` or
    `exclude_cols` are the numbers of columns.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "table.csv")
    >>> tf.io.write_file(path, "x,name" + chr(10) + "1,a" + chr(10) + "2,b" + chr(10))
    >>> rows = tf.data.experimental.CsvDataset(path, [tf.int32, tf.string], header=True)
    >>> [(int(x), name.numpy()) for x, name in rows]
    [(1, b'a'), (2, b'b')]
    """

    def __init__(
        self,
        filenames: Any,
        record_defaults: Sequence[Any],
        compression_type: Any = None,
        buffer_size: Any = None,
        header: bool = False,
        field_delim: str = ",",
        use_quote_delim: bool = True,
        na_value: str = "",
        select_cols: Sequence[int] | None = None,
        exclude_cols: Sequence[int] | None = None,
    ) -> None:
        if select_cols is not None and exclude_cols is not None:
            raise errors.invalid_argument("Either select_cols or exclude_cols should be empty", "CSVDatasetV2")
        defaults = [_default(value) for value in record_defaults]
        if exclude_cols is not None:
            left_out = set(exclude_cols)
            select_cols = [i for i in range(len(defaults) + len(left_out)) if i not in left_out]
        records = _RecordDataset(filenames, compression_type, header, use_quote_delim)

        def parsed(record: Tensor) -> tuple[Tensor, ...]:
            return tuple(decode_csv(record, defaults, field_delim, use_quote_delim, na_value, select_cols))

        made = records.map(parsed)
        self._pipeline, self._options = made._pipeline, made._options


def _default(value: Any) -> Tensor:
    """The default value of a column; a dtype stands for none."""
    if isinstance(value, (DType, type, np.dtype)):
        return convert([], as_dtype(value))
    return convert(value) if isinstance(value, (list, tuple, Tensor)) else convert([value])


# -- whole tables ------------------------------------------------------------------------------------------------------
def make_csv_dataset(
    file_pattern: Any,
    batch_size: int,
    column_names: Sequence[str] | None = None,
    column_defaults: Sequence[Any] | None = None,
    label_name: str | None = None,
    select_columns: Sequence[Any] | None = None,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    header: bool = True,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: int = 10000,
    shuffle_seed: int | None = None,
    prefetch_buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    sloppy: bool = False,
    num_rows_for_inference: int | None = 100,
    compression_type: Any = None,
    ignore_errors: bool = False,
    encoding: str = "utf-8",
) -> Dataset:
    """Read CSV files as batches: a dict from names of columns to tensors, with `label_name` a pair with the labels.

    Names are those of the first row, or `column_names`. Dtypes are found in the first `num_rows_for_inference` rows,
    or given as `column_defaults`. The records are shuffled, and repeated `num_epochs` times, without an end if it is
    None.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "table.csv")
    >>> tf.io.write_file(path, "x,y" + chr(10) + "1,0.5" + chr(10) + "2,1.5" + chr(10))
    >>> rows = tf.data.experimental.make_csv_dataset(path, 2, label_name="y", num_epochs=1, shuffle=False)
    >>> [(columns["x"].numpy().tolist(), labels.numpy().tolist()) for columns, labels in rows]
    [([1, 2], [0.5, 1.5])]
    """
    paths = _matching(file_pattern, shuffle)
    table = _Table(paths, field_delim, use_quote_delim, na_value, header, compression_type, encoding)
    names = _checked_names(table, column_names)
    chosen = None if select_columns is None else _numbers_of(names, select_columns)
    if column_defaults is None:
        defaults: list[Any] = table.defaults(len(names), chosen, num_rows_for_inference)
    else:
        defaults = [_default(value) for value in column_defaults]
    names = names if chosen is None else [names[i] for i in chosen]
    if label_name is not None and label_name not in names:
        raise ValueError(f"`label_name` provided must be one of the columns: {names}. Received: {label_name}.")

    def records_of(path: Any) -> Dataset:
        return _RecordDataset(path, compression_type, header, use_quote_delim)

    def columns_of(records: Tensor) -> Any:
        columns = decode_csv(records, defaults, field_delim, use_quote_delim, na_value, chosen)
        found = OrderedDict(zip(names, columns, strict=True))
        return found if label_name is None else (found, found.pop(label_name))

    files = Dataset.from_tensor_slices(paths)
    if shuffle:
        files = files.shuffle(len(paths), shuffle_seed)
    several = num_parallel_reads is not None and num_parallel_reads > 1
    rows = files.interleave(records_of, cycle_length=num_parallel_reads if several else 1)
    if ignore_errors:  # a record is tried on its own, so that only this one is left out
        rows = rows.map(lambda record: (record, columns_of(record))).ignore_errors().map(lambda record, _: record)
    if shuffle:
        rows = rows.shuffle(shuffle_buffer_size, shuffle_seed)
    if num_epochs != 1:
        rows = rows.repeat(num_epochs)
    batches = rows.batch(batch_size, drop_remainder=num_epochs is None).map(columns_of)
    return batches.prefetch(prefetch_buffer_size) if prefetch_buffer_size else batches


def _matching(pattern: Any, shuffle: bool) -> list[str]:
    patterns = pattern if isinstance(pattern, (list, tuple)) else [pattern]
    found: list[str] = [path for one in patterns for path in gfile.glob(one)]
    if not found:
        raise ValueError(f"No files match `file_pattern` {pattern}.")
    return found if shuffle else sorted(found)


def _checked_names(table: _Table, given: Sequence[str] | None) -> list[str]:
    if given is None and not table.header:
        raise ValueError("Expected `column_names` or `header` arguments. Neither is provided.")
    names = table.names() if given is None else list(given)
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise ValueError(
            f"Either `column_names` argument or CSV header row contains duplicate column names: {repeated}."
        )
    return names


def _numbers_of(names: list[str], chosen: Sequence[Any]) -> list[int]:
    """The numbers of columns that are given by number or by name, in order."""
    numbers = []
    for column in chosen:
        if isinstance(column, int):
            if not 0 <= column < len(names):
                raise ValueError(
                    f"Column index {column} specified in `select_columns` should be > 0 and <= {len(names)}, which is "
                    "the number of columns."
                )
            numbers.append(column)
        elif column in names:
            numbers.append(names.index(column))
        else:
            raise ValueError(
                f"Column {column} specified in `select_columns` must be of one of the columns: "
                f"{dict.fromkeys(names).keys()}."
            )
    if len(set(numbers)) != len(numbers):
        raise ValueError("The argument `select_columns` contains duplicate columns: each column can be selected once.")
    return sorted(numbers)


class _Table:
    """The rows of CSV files, read by Python before there is a dataset."""

    def __init__(
        self,
        paths: list[str],
        delimiter: str,
        quotes: bool,
        missing: str,
        header: bool,
        compression: Any,
        encoding: str,
    ) -> None:
        self.paths, self.missing, self.header = paths, missing, header
        self._delimiter, self._quotes, self._compression, self._encoding = delimiter, quotes, compression, encoding

    def _rows_of(self, path: str) -> Iterator[list[str]]:
        with opened(path, self._compression or "") as file:
            text = io.TextIOWrapper(file, self._encoding, newline="")
            if self._quotes:
                yield from csv.reader(text, delimiter=self._delimiter)
            else:
                yield from csv.reader(text, delimiter=self._delimiter, quoting=csv.QUOTE_NONE)

    def names(self) -> list[str]:
        """The first row, which all files share."""
        first = next(self._rows_of(self.paths[0]))
        for path in self.paths[1:]:
            if next(self._rows_of(path)) != first:
                raise ValueError(
                    "All input CSV files should have the same column names in the header row. File "
                    f"{path} has different column names."
                )
        return first

    def _rows(self, count: int) -> Iterator[list[str]]:
        for path in self.paths:
            for number, row in enumerate(self._rows_of(path), 1):
                if number == 1 and self.header:
                    continue
                if len(row) != count:
                    raise ValueError(
                        f"Problem inferring types: CSV row {number} has {len(row)} number of fields. Expected: {count}."
                    )
                yield row

    def defaults(self, count: int, chosen: list[int] | None, most: int | None) -> list[Tensor]:
        """An empty text or 0 for each column, of the first dtype that all of its texts can be read in."""
        columns = range(count) if chosen is None else chosen
        kinds: list[int | None] = [None] * len(columns)
        for row in itertools.islice(self._rows(count), most):
            kinds = [self._kind(row[i], kind) for i, kind in zip(columns, kinds, strict=True)]
        dtypes = [string if kind is None else _TYPES[kind] for kind in kinds]
        return [convert([""] if dtype == string else [0], dtype) for dtype in dtypes]

    def _kind(self, text: str, least: int | None) -> int | None:
        if text in ("", self.missing):
            return least
        return next(i for i in range(least or 0, len(_TYPES)) if _is_valid(text, _TYPES[i]))


def _is_valid(text: str, dtype: DType) -> bool:
    """Whether a text is a number that a dtype can hold."""
    if dtype == string:
        return True
    try:
        if dtype.is_integer:
            return dtype.min <= int(text) <= dtype.max
        with float_errors_ignored():
            return bool(dtype.as_numpy_dtype(text) < np.inf)
    except (ValueError, OverflowError):
        return False
