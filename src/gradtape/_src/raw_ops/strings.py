"""Raw ops of strings and lookup tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.conversion import convert
from gradtape._src.ops.ragged import RaggedTensor
from gradtape._src.tf import array, strings
from gradtape._src.tf.arguments import static
from gradtape._src.tf.lookup import experimental as tables
from gradtape._src.tf.lookup.initializers import TextFileInitializer

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradtape._src.tensor import Tensor


def _text(value: Any) -> str:
    """An input that is a single string."""
    found = np.asarray(static(value)).item()
    return found.decode() if isinstance(found, bytes) else str(found)


def _sparse(pieces: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of different lengths as the indices, values and shape of a sparse tensor."""
    found = pieces if isinstance(pieces, RaggedTensor) else RaggedTensor.from_row_lengths(pieces, [array.size(pieces)])
    sparse = found.to_sparse()
    return sparse.indices, sparse.values, sparse.dense_shape


def _split(input: Any, sep: Any, maxsplit: int) -> tuple[Tensor, Tensor, Tensor]:
    return _sparse(strings.split(input, _text(sep), maxsplit))


def _split_at_any(input: Any, delimiter: Any, skip_empty: bool) -> tuple[Tensor, Tensor, Tensor]:
    """`StringSplit`: every character of the delimiter separates; an empty one splits into characters."""
    marks = _text(delimiter)
    rows = []
    for text in np.asarray(static(input)).ravel().tolist():
        pieces = [bytes([each]) for each in text] if not marks else [text]
        for mark in marks.encode():
            pieces = [piece for part in pieces for piece in part.split(bytes([mark]))]
        rows.append([piece for piece in pieces if piece or not skip_empty])
    values = [piece for row in rows for piece in row]
    places = [[i, j] for i, row in enumerate(rows) for j in range(len(row))]
    shape = [len(rows), max(map(len, rows), default=0)]
    return (
        array.reshape(array.constant(places, "int64"), [-1, 2]),
        array.constant(values, "string"),
        array.constant(shape, "int64"),
    )


def _reduce_join(inputs: Any, reduction_indices: Any, keep_dims: bool, separator: str) -> Tensor:
    axes = np.asarray(static(reduction_indices))
    return strings.reduce_join(inputs, axes.tolist(), keep_dims, separator)


def _ngrams(
    data: Any, data_splits: Any, separator: str, ngram_widths: list[int], left_pad: str, right_pad: str, pad_width: int,
    preserve_short_sequences: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    rows = RaggedTensor.from_row_splits(data, data_splits)
    padded = None if not left_pad and not right_pad and not pad_width else (left_pad, right_pad)
    width = None if pad_width < 0 or padded is None else pad_width
    found = strings.ngrams(rows, tuple(ngram_widths), separator, padded, width, preserve_short_sequences)
    return found.values, array.cast(found.row_splits, data_splits.dtype)


def _decoded(with_offsets: bool) -> Callable[..., tuple[Tensor, ...]]:
    def op(
        input: Any,
        input_encoding: str,
        errors: str,
        replacement_char: int,
        replace_control_characters: bool,
        Tsplits: Any,
    ) -> tuple[Tensor, ...]:
        rows = array.reshape(input, [-1])
        words = (input_encoding, errors, replacement_char, replace_control_characters)
        if with_offsets:
            values, starts = strings.unicode_decode_with_offsets(rows, *words)
            return array.cast(values.row_splits, Tsplits), values.values, starts.values
        values = strings.unicode_decode(rows, *words)
        return array.cast(values.row_splits, Tsplits), values.values

    return op


def _encoded(input_values: Any, input_splits: Any, output_encoding: str, errors: str, replacement_char: int) -> Tensor:
    rows = RaggedTensor.from_row_splits(input_values, input_splits)
    return strings.unicode_encode(rows, output_encoding, errors, replacement_char)


# -- tables ----------------------------------------------------------------------------------------------------------
def _table(key_dtype: Any, value_dtype: Any, value_shape: Any = None) -> Any:
    """An empty table; the default for missing keys is an argument of lookups."""
    shape = [] if value_shape is None else value_shape
    return tables.MutableHashTable(key_dtype, value_dtype, array.zeros(shape, value_dtype))


def _anonymous(key_dtype: Any, value_dtype: Any) -> Any:
    return _table(key_dtype, value_dtype)


def _import(table_handle: Any, keys: Any, values: Any) -> None:
    table_handle.insert(keys, values)


def _from_text_file(
    table_handle: Any, filename: Any, key_index: int, value_index: int, vocab_size: int, delimiter: str, offset: int
) -> None:
    found = TextFileInitializer(
        _text(filename), table_handle.key_dtype, key_index, table_handle.value_dtype, value_index,
        None if vocab_size < 0 else vocab_size, delimiter, value_index_offset=offset,
    )  # fmt: skip
    keys, values = found.pairs()
    if len(set(keys.tolist())) != len(keys):
        raise errors.FailedPreconditionError(
            None, None, f"HashTable has different value for same key in the file {_text(filename)!r}."
        )
    table_handle.insert(convert(keys), convert(values))


def _find(table_handle: Any, keys: Any, default_value: Any) -> Any:
    return table_handle.lookup(keys, default_value)


OPS: dict[str, Callable[..., Any]] = {
    "AsString": strings.as_string,
    "ReduceJoin": _reduce_join,
    "RegexFullMatch": lambda input, pattern: strings.regex_full_match(input, _text(pattern)),
    "RegexReplace": lambda input, pattern, rewrite, replace_global: strings.regex_replace(
        input, _text(pattern), _text(rewrite), replace_global
    ),
    "StaticRegexFullMatch": lambda input, pattern: strings.regex_full_match(input, pattern),
    "StaticRegexReplace": lambda input, pattern, rewrite, replace_global: strings.regex_replace(
        input, pattern, rewrite, replace_global
    ),
    "StringFormat": lambda inputs, template, placeholder, summarize: strings.format(
        template, inputs, placeholder, summarize
    ),
    "StringJoin": lambda inputs, separator: strings.join(inputs, separator),
    "StringLength": lambda input, unit: strings.length(input, unit),
    "StringLower": lambda input, encoding: strings.lower(input, encoding),
    "StringNGrams": _ngrams,
    "StringSplit": _split_at_any,
    "StringSplitV2": _split,
    "StringStrip": lambda input: strings.strip(input),
    "StringToHashBucket": lambda string_tensor, num_buckets: strings.to_hash_bucket(string_tensor, num_buckets),
    "StringToHashBucketFast": lambda input, num_buckets: strings.to_hash_bucket_fast(input, num_buckets),
    "StringToHashBucketStrong": lambda input, num_buckets, key: strings.to_hash_bucket_strong(input, num_buckets, key),
    "StringToNumber": lambda string_tensor, out_type: strings.to_number(string_tensor, out_type),
    "StringUpper": lambda input, encoding: strings.upper(input, encoding),
    "Substr": lambda input, pos, len, unit: strings.substr(input, pos, len, unit),
    "UnicodeDecode": _decoded(with_offsets=False),
    "UnicodeDecodeWithOffsets": _decoded(with_offsets=True),
    "UnicodeEncode": _encoded,
    "UnicodeScript": lambda input: strings.unicode_script(input),
    "UnicodeTranscode": strings.unicode_transcode,
    "UnsortedSegmentJoin": lambda inputs, segment_ids, num_segments, separator: strings.unsorted_segment_join(
        inputs, segment_ids, num_segments, separator
    ),
    # -- tables
    "AnonymousHashTable": _anonymous,
    "AnonymousMutableHashTable": _anonymous,
    "AnonymousMutableHashTableOfTensors": _table,
    "HashTableV2": _anonymous,
    "InitializeTableFromTextFileV2": _from_text_file,
    "InitializeTableV2": _import,
    "LookupTableExportV2": lambda table_handle: table_handle.export(),
    "LookupTableFindV2": _find,
    "LookupTableImportV2": _import,
    "LookupTableInsertV2": _import,
    "LookupTableRemoveV2": lambda table_handle, keys: table_handle.remove(keys),
    "LookupTableSizeV2": lambda table_handle: table_handle.size(),
    "MutableHashTableOfTensorsV2": _table,
    "MutableHashTableV2": _anonymous,
}
