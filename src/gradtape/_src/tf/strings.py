"""`tf.strings`: functions of string tensors. They compute with NumPy and Python, and are not differentiable."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src import errors
from gradtape._src.arrays.graph_ops import NeedsEagerError, in_graph, kept_in_graph
from gradtape._src.arrays.value_text import element_text
from gradtape._src.conversion import has_dtype, is_library, operand, wrap
from gradtape._src.dtypes import DType, as_dtype, float32, int32, string
from gradtape._src.tensor import Tensor
from gradtape._src.text import digits, hashing, numbers, parts, regex, splitting
from gradtape._src.text.packed import Packed, interleaved
from gradtape._src.tf.arguments import allowed_text, as_int, text as text_attribute, text_bytes
from gradtape._src.tf.string_arrays import (
    FEW,
    Texts,
    converted,
    converted_texts,
    elementwise,
    flat,
    input_of,
    is_ragged,
    known,
    nested_rows,
    packed_tensor,
    ragged_rows,
    string_array,
    string_tensor,
    texts_in,
    texts_of,
)
from gradtape._src.tf.unicode import (
    unicode_decode,
    unicode_decode_with_offsets,
    unicode_encode,
    unicode_script,
    unicode_split,
    unicode_split_with_offsets,
    unicode_transcode,
)

_INTEGERS = ("int32", "int64")
_UNITS = ("BYTE", "UTF8_CHAR")
_ALL_BYTES = np.array([bytes([i]) for i in range(256)], object)


# -- letters ---------------------------------------------------------------------------------------------------------
def _changed_case(input: Any, encoding: Any, op: str, ascii_only: Any, unicode: Callable[[str], str]) -> Tensor:
    texts, name = texts_in(input, op), text_attribute(encoding, "encoding")
    if name not in ("", "utf-8"):
        raise errors.refused_value(f"only utf-8 or '' (no encoding) is supported, received {name}", op)
    if texts.is_large and (not name or texts.packed.is_ascii):
        return packed_tensor(texts.packed.mapped(ascii_only(texts.packed.bytes.tobytes())), texts.shape)
    rows = texts.rows
    if name and not b"".join(rows).isascii():
        return string_tensor(_changed_letters(rows, unicode), texts.shape)
    return string_tensor(list(map(ascii_only, rows)), texts.shape)


def _changed_letters(rows: list[bytes], change: Callable[[str], str]) -> list[bytes]:
    """Change the case of strings in one call: a zero byte between them is not a letter, and separates them."""
    whole = b"\0".join(rows)
    if whole.count(0) == len(rows) - 1:
        return change(whole.decode("utf-8", "replace")).encode().split(b"\0")
    return [change(row.decode("utf-8", "replace")).encode() for row in rows]


@elementwise
def lower(input: Any, encoding: str = "", name: str | None = None) -> Any:
    """Convert strings to lower case: ASCII letters only, or all letters with `encoding="utf-8"`.

    >>> tf.strings.lower(["Hello", "É"], encoding="utf-8").numpy().tolist()
    [b'hello', b'\\xc3\\xa9']
    """
    return _changed_case(input, encoding, "StringLower", bytes.lower, str.lower)


@elementwise
def upper(input: Any, encoding: str = "", name: str | None = None) -> Any:
    """Convert strings to upper case: ASCII letters only, or all letters with `encoding="utf-8"`.

    >>> tf.strings.upper(["Hello"]).numpy().tolist()
    [b'HELLO']
    """
    return _changed_case(input, encoding, "StringUpper", bytes.upper, str.upper)


@elementwise
def strip(input: Any, name: str | None = None) -> Any:
    """Remove ASCII whitespace from both ends of strings.

    >>> tf.strings.strip([" a b ", "c\\n"]).numpy().tolist()
    [b'a b', b'c']
    """
    texts = texts_in(input, "StringStrip")
    if texts.is_large and (found := parts.stripped(texts.packed)) is not None:
        return packed_tensor(found, texts.shape)
    return string_tensor(list(map(bytes.strip, texts.rows)), texts.shape)


# -- lengths and parts -----------------------------------------------------------------------------------------------
@elementwise
def length(input: Any, unit: str = "BYTE", name: str | None = None) -> Any:
    """Return the number of bytes in each string, or of characters with `unit="UTF8_CHAR"`.

    >>> tf.strings.length(["abc", "é"]).numpy().tolist(), tf.strings.length("é", unit="UTF8_CHAR").numpy().item()
    ([3, 2], 1)
    """
    texts = texts_in(input, "StringLength")
    by_characters = allowed_text(unit, "unit", _UNITS, "StringLength") == "UTF8_CHAR"
    packed = texts.packed
    counts = parts.character_counts(packed) if by_characters and len(packed) else packed.lengths
    return wrap(counts.astype(np.int32).reshape(texts.shape))


@elementwise
def substr(input: Any, pos: Any, len: Any, unit: str = "BYTE", name: str | None = None) -> Any:
    """Return the part of each string at `pos` with up to `len` bytes, or characters with `unit="UTF8_CHAR"`.

    `pos` counts from the end if it is negative. `pos` and `len` must have the same shape, which broadcasts with that of
    the strings.

    >>> tf.strings.substr(["hello", "world"], 1, 3).numpy().tolist()
    [b'ell', b'orl']
    """
    texts = texts_in(input, "Substr")
    starts, counts = _positions(pos, len)
    characters = allowed_text(unit, "unit", _UNITS, "Substr") == "UTF8_CHAR"
    packed, shape = texts.packed, texts.shape
    if starts.ndim and shape != starts.shape:
        try:
            shape = np.broadcast_shapes(shape, starts.shape)
        except ValueError:
            raise errors.incompatible_shapes("Substr", texts.shape, starts.shape) from None
        packed = packed.chosen(np.broadcast_to(np.arange(texts.size).reshape(texts.shape), shape).ravel())
        starts, counts = (np.broadcast_to(part, shape) for part in (starts, counts))
    if not packed.starts.size:
        return string_tensor([], shape)
    try:
        find = parts.characters if characters else parts.substrings
        return packed_tensor(find(packed, starts.ravel(), counts.ravel()), shape)
    except parts.PositionError as error:
        raise _out_of_range(packed.rows[error.index], starts.ravel(), error.index, characters) from None


def _out_of_range(text: bytes, starts: ndarray, i: int, characters: bool) -> errors.InvalidArgumentError:
    shown = "" if characters else f" b'{text.decode('utf-8', 'backslashreplace')}'"
    start = int(starts[i if starts.size > 1 else 0])
    return errors.refused_value(f"pos {start} out of range for string{shown} at index {i}", "Substr")


def _positions(pos: Any, count: Any) -> tuple[ndarray, ndarray]:
    first = pos if is_library(pos) else count
    dtype = operand(first).dtype if is_library(first) else None
    starts, counts = (operand(part, None if has_dtype(part) else dtype) for part in (pos, count))
    if starts.dtype.name not in _INTEGERS:
        raise errors.unsupported_dtype("Substr", starts.dtype, "int32, int64", "T")
    if counts.dtype != starts.dtype:
        raise errors.invalid_argument(
            f"cannot compute Substr as input #2(zero-based) was expected to be a {starts.dtype.word} tensor but is a "
            f"{counts.dtype.word} tensor",
            "Substr",
        )
    found = known(starts), known(counts)
    if found[0].shape != found[1].shape:
        shapes = " vs. ".join(errors.brackets(part.shape) for part in found)
        raise errors.invalid_argument(f"pos and len should have the same shape, got: {shapes}", "Substr")
    return found


# -- joining ---------------------------------------------------------------------------------------------------------
@kept_in_graph("strings.join")
def join(inputs: Any, separator: str = "", name: str | None = None) -> Any:
    """Join the strings of several tensors elementwise; scalars broadcast.

    >>> tf.strings.join([["a", "b"], "!"], separator="-").numpy().tolist()
    [b'a-!', b'b-!']
    """
    if not isinstance(inputs, (list, tuple, Tensor, ndarray)):
        raise TypeError(f"Expected list for 'inputs' argument to 'string_join' Op, not {inputs!r}.")
    between = text_bytes(separator, "separator")
    given: list[Any] = list(inputs)
    if any(map(is_ragged, given)):
        return _join_ragged(given, separator)
    columns = [converted(part) for part in given]
    shapes = [part.shape for part in columns if part.shape]
    for shape in shapes:
        if shape != shapes[0]:
            raise errors.invalid_argument(
                f"Input shapes do not match: {errors.brackets(shapes[0])} vs. {errors.brackets(shape)}", "StringJoin"
            )
    shape = shapes[0] if shapes else ()
    size = int(np.prod(shape))
    if size > FEW:
        return packed_tensor(_joined_columns(columns, size, between), shape)
    rows = [column.rows if column.shape or not shapes else column.rows * size for column in columns]
    return string_tensor(list(map(between.join, zip(*rows, strict=True))) if rows else [b""], shape)


def _joined_columns(columns: list[Texts], size: int, between: bytes) -> Packed:
    """Join the strings of each row of several columns; a single string is used in every row."""
    each = np.zeros(size, np.int64)
    packed = [column.packed if column.shape else column.packed.chosen(each) for column in columns]
    return parts.joined_rows(interleaved(packed), np.full(size, len(packed)), between)


def _join_ragged(parts: list[Any], separator: str) -> Any:
    first = next(part for part in parts if is_ragged(part))
    for part in parts:
        if is_ragged(part) and not _same_rows(first, part):
            raise errors.refused_value("Inputs must have identical ragged splits: join needs rows of equal length.")
    values = [part.flat_values if is_ragged(part) else part for part in parts]
    return first.with_flat_values(join(values, separator))


def _same_rows(a: Any, b: Any) -> bool:
    left, right = a.nested_row_splits, b.nested_row_splits
    return len(left) == len(right) and all(np.array_equal(x.array, y.array) for x, y in zip(left, right, strict=True))


@kept_in_graph("strings.reduce_join")
def reduce_join(
    inputs: Any, axis: Any = None, keepdims: bool = False, separator: str = "", name: str | None = None
) -> Any:
    """Join the strings along some axes, starting with the first one given.

    >>> tf.strings.reduce_join([["a", "b"], ["c", "d"]], axis=1, separator="-").numpy().tolist()
    [b'a-b', b'c-d']
    """
    between = text_bytes(separator, "separator")
    if is_ragged(inputs):
        return _reduce_join_ragged(inputs, axis, keepdims, between)
    return _reduce_join(inputs, axis, keepdims, between)


def _reduce_join(inputs: Any, axis: Any, keepdims: bool, between: bytes) -> Tensor:
    found = texts_in(inputs, "ReduceJoin")
    axes = _axes(axis, len(found.shape))
    if found.is_large and axes == [len(found.shape) - 1]:
        *outer, last = found.shape
        joined = parts.joined_rows(found.packed, np.full(found.size // last, last), between)
        return packed_tensor(joined, (*outer, 1) if keepdims else outer)
    texts = string_array(found.rows, found.shape)
    kept = [a for a in range(texts.ndim) if a not in axes]
    shape = [texts.shape[a] for a in kept]
    rows = texts.transpose([*kept, *reversed(axes)]).reshape(int(np.prod(shape)), -1 if texts.size else 0).tolist()
    shape = [1 if a in axes else texts.shape[a] for a in range(texts.ndim)] if keepdims else shape
    return string_tensor(list(map(between.join, rows)), shape)


def _axes(axis: Any, rank: int) -> list[int]:
    if axis is None:
        return list(reversed(range(rank)))
    found = known(input_of(axis, int32, "ReduceJoin", 1)).ravel().tolist()
    axes: list[int] = []
    for a in found:
        if not -rank <= a < rank:
            message = f"Invalid reduction dimension {a} for input with {rank} dimension(s)"
            raise errors.out_of_range(message, "ReduceJoin")
        if a % rank in axes:
            raise errors.refused_value(f"Duplicate reduction dimension {a % rank}", "ReduceJoin")
        axes.append(a % rank)
    return axes


def _reduce_join_ragged(inputs: Any, axis: Any, keepdims: bool, between: bytes) -> Any:
    """Join along one axis after the other, last one of the list first."""
    rank = len(inputs.shape)
    if axis is None:
        joined = string_tensor([between.join(flat(known(inputs.flat_values)))], (1,) * rank if keepdims else ())
        return joined
    axes = _axes(axis, rank)
    for a in reversed(axes):
        inputs = _join_ragged_axis(inputs, a, between) if is_ragged(inputs) else _reduce_join(inputs, a, False, between)
    if keepdims:
        from gradtape._src.tf.array import expand_dims

        for a in sorted(axes):
            inputs = expand_dims(inputs, a)
    return inputs


def _join_ragged_axis(inputs: Any, axis: int, between: bytes) -> Any:
    if axis > 1:
        values = inputs.values
        joined = _join_ragged_axis(values, axis - 1, between) if is_ragged(values) else None
        return inputs.with_values(_reduce_join(values, axis - 1, False, between) if joined is None else joined)
    if axis == 1 and not is_ragged(inputs.values) and inputs.values.shape.rank == 1:
        lengths = known(inputs.row_lengths())
        joined = parts.joined_rows(texts_in(inputs.values, "ReduceJoin").packed, lengths, between)
        return packed_tensor(joined, lengths.shape)
    from gradtape._src.tf import ragged

    lists = inputs.to_list()
    found = [_equal_places(row, between) for row in lists] if axis == 1 else _equal_places(lists, between)
    return ragged.constant(found, dtype=string, ragged_rank=inputs.ragged_rank - 1 or None)


def _equal_places(rows: list[Any], between: bytes) -> Any:
    """Join strings at equal positions of several rows."""
    if not rows or isinstance(rows[0], bytes):
        return between.join(rows)
    longest = max(map(len, rows))
    return [_equal_places([row[i] for row in rows if i < len(row)], between) for i in range(longest)]


@kept_in_graph("strings.unsorted_segment_join")
def unsorted_segment_join(
    inputs: Any, segment_ids: Any, num_segments: Any, separator: str = "", name: str | None = None
) -> Tensor:
    """Join the strings of each segment, in order; a segment without strings is empty.

    There is no separator behind empty texts at the beginning of a segment.

    >>> tf.strings.unsorted_segment_join(["a", "b", "c"], [1, 0, 1], 2, separator="-").numpy().tolist()
    [b'b', b'a-c']
    """
    op, between = "UnsortedSegmentJoin", text_bytes(separator, "separator")
    texts, ids, count = converted_texts(inputs), operand(segment_ids), operand(num_segments)
    for tensor, attr in ((ids, "Tindices"), (count, "Tnumsegments")):
        if tensor.dtype.name not in _INTEGERS:
            raise errors.unsupported_dtype(op, tensor.dtype, "int32, int64", attr)
    where, segments = known(ids), known(count)
    _check_segments(texts, where, segments, op)
    inner = texts.shape[where.ndim :]
    order = np.argsort(where.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(where.ravel(), minlength=int(segments))).tolist()
    columns = texts.reshape(where.size, int(np.prod(inner)))[order].T.tolist()
    cells = [[_joined(column[a:b], between) for a, b in itertools.pairwise([0, *ends])] for column in columns]
    return wrap(
        string_array(list(itertools.chain(*cells)), (len(cells), int(segments))).T.reshape(int(segments), *inner)
    )


def _joined(texts: list[bytes], between: bytes) -> bytes:
    return between.join(itertools.dropwhile(operator.not_, texts))


def _check_segments(texts: ndarray, where: ndarray, segments: ndarray, op: str) -> None:
    if segments.ndim:
        raise errors.invalid_argument("Number of segments must be a scalar", op)
    if segments < 0:
        raise errors.refused_value(f"Number of segments must be non-negative but got {segments}", op)
    if not where.ndim:
        raise errors.invalid_argument("Segment_id cannot have rank 0", op)
    if where.shape != texts.shape[: where.ndim]:
        raise errors.invalid_argument(
            f"Segment ids of shape {errors.brackets(where.shape)} must be the first dimensions of the input of shape "
            f"{errors.brackets(texts.shape)}",
            op,
        )
    if where.size and (where.min() < 0 or where.max() >= segments):
        raise errors.refused_value("segment_ids are not allowed to exceed num_segments or to have negative values.", op)


# -- splitting -------------------------------------------------------------------------------------------------------
def split(input: Any, sep: Any = None, maxsplit: int = -1, name: str | None = None) -> Any:
    """Split strings at whitespace, or at a separator. The parts of a string are a row of a `RaggedTensor`.

    >>> tf.strings.split("a b  c").numpy().tolist()
    [b'a', b'b', b'c']
    >>> tf.strings.split(["1,2", "3"], sep=",").to_list()
    [[b'1', b'2'], [b'3']]
    """
    if is_ragged(input):
        return nested_rows(split, input, sep, maxsplit)
    try:
        texts = converted(input, "input")
    except NeedsEagerError as error:
        return in_graph("strings.split", (input, sep, maxsplit), {}, error)
    between = texts_of("" if sep is None else sep, "StringSplitV2", 1)
    if between.ndim:
        raise errors.invalid_argument(
            f"sep must be a scalar, got shape: {errors.brackets(between.shape)}", "StringSplitV2"
        )
    separator, most = between.item(), as_int(maxsplit, "maxsplit")
    if texts.is_large and most < 0 and len(separator) < 2:
        found, counts = parts.split(texts.packed, separator)
        return ragged_rows(packed_tensor(found, (len(found),)), counts, texts.shape)
    rows, counts = splitting.split(texts.rows, separator, most)
    return ragged_rows(string_tensor(rows, (len(rows),)), counts, texts.shape)


def bytes_split(input: Any, name: str | None = None) -> Any:
    """Split each string into its bytes: a row of a `RaggedTensor`.

    >>> tf.strings.bytes_split(["hi", ""]).to_list()
    [[b'h', b'i'], []]
    """
    if is_ragged(input):
        return nested_rows(bytes_split, input)
    tensor = operand(input)
    if tensor.dtype != string:
        raise ValueError(
            f"Tensor conversion requested dtype string for Tensor with dtype {tensor.dtype.name}: {tensor!r}"
        )
    texts = known(tensor)
    rows = flat(texts)
    values = _ALL_BYTES[np.frombuffer(b"".join(rows), np.uint8)]
    return ragged_rows(wrap(values), list(map(len, rows)), texts.shape)


# -- regular expressions ---------------------------------------------------------------------------------------------
def _pattern(value: Any, op: str, number: int = 1, what: str = "Pattern") -> bytes:
    if isinstance(value, (str, bytes)):
        return value.encode() if isinstance(value, str) else value
    found = texts_of(value, op, number)
    if found.ndim:
        raise errors.invalid_argument(f"{what} must be scalar, but received {errors.brackets(found.shape)}", op)
    text: bytes = found.item()
    return text


def _compiled(pattern: bytes, op: str) -> regex.Regex:
    try:
        return regex.compiled(pattern.decode())
    except regex.PatternError as error:
        raise errors.refused_value(f"Invalid pattern: {pattern.decode()}, error: {error}", op) from None


@elementwise
def regex_replace(input: Any, pattern: Any, rewrite: Any, replace_global: bool = True, name: str | None = None) -> Any:
    """Replace matches of an RE2 regular expression, everywhere or once in each string.

    >>> tf.strings.regex_replace(["a1b22"], "[0-9]+", "<\\\\0>").numpy().tolist()
    [b'a<1>b<22>']
    """
    plain = isinstance(pattern, (str, bytes)) and isinstance(rewrite, (str, bytes))
    op = "StaticRegexReplace" if plain else "RegexReplace"
    texts = texts_in(input, op)
    replacement, compiled = _pattern(rewrite, op, 2, "Rewrite"), _compiled(_pattern(pattern, op), op)
    if texts.is_large and replace_global and (packed := compiled.replace_class(texts.packed, replacement)) is not None:
        return packed_tensor(packed, texts.shape)
    return string_tensor(compiled.replace(texts.rows, replacement, bool(replace_global)), texts.shape)


@elementwise
def regex_full_match(input: Any, pattern: Any, name: str | None = None) -> Any:
    """Return whether an RE2 regular expression matches each string as a whole.

    >>> tf.strings.regex_full_match(["cat", "cats"], "c.t").numpy().tolist()
    [True, False]
    """
    op = "StaticRegexFullMatch" if isinstance(pattern, (str, bytes)) else "RegexFullMatch"
    texts = texts_in(input, op)
    return wrap(_compiled(_pattern(pattern, op), op).full_match(texts.packed).reshape(texts.shape))


# -- numbers ---------------------------------------------------------------------------------------------------------
@elementwise
def to_number(input: Any, out_type: Any = float32, name: str | None = None) -> Any:
    """Parse numbers from strings.

    >>> tf.strings.to_number(["1.5", "-inf"]).numpy().tolist(), tf.strings.to_number("7", "int32").numpy().item()
    ([1.5, -inf], 7)
    """
    op, dtype = "StringToNumber", as_dtype(out_type)
    texts = texts_in(input, op)
    if dtype.name not in ("float32", "float64", "int32", "int64", "uint32", "uint64"):
        raise errors.unsupported_dtype(op, dtype, "float, double, int32, int64, uint32, uint64", "out_type")
    read = numbers.read_floats if dtype.is_floating else numbers.read_integers
    try:
        found = read(texts.packed if texts.is_large else texts.rows, dtype.numpy_dtype)
        return wrap(found.reshape(texts.shape))
    except numbers.NumberError as error:
        shown = error.text.decode("utf-8", "backslashreplace")
        raise errors.refused_value(f"StringToNumberOp could not correctly convert string: {shown}", op) from None


@elementwise
def as_string(
    input: Any,
    precision: int = -1,
    scientific: bool = False,
    shortest: bool = False,
    width: int = -1,
    fill: str = "",
    name: str | None = None,
) -> Any:
    """Format numbers as strings, as in C: `%f`, `%e` (scientific), `%g` (shortest), `%d`.

    >>> tf.as_string([1.5, -2.0], precision=2).numpy().tolist()
    [b'1.50', b'-2.00']
    >>> tf.as_string([5, 42], width=4, fill="0").numpy().tolist()
    [b'0005', b'0042']
    """
    x = operand(input)
    _check_format(x.dtype, precision, scientific, shortest, fill)
    values = known(x)
    letter = "e" if scientific else "g" if shortest else "f"
    row = values.ravel()
    if x.dtype == string:
        found = numbers.write_texts(row.tolist(), fill, width)
    elif x.dtype.is_bool:
        found = np.where(row, b"true", b"false").astype(object).tolist()
    elif x.dtype.is_integer:
        if row.size > FEW and not fill and width < 0 and (packed := digits.write_integers(row)) is not None:
            return packed_tensor(packed, values.shape)
        found = numbers.write_integers(row, fill, width)
    else:
        if row.size > FEW and letter == "f" and not fill and width < 0 and not x.dtype.is_complex:
            packed = digits.write_decimals(row, 6 if precision < 0 else precision)
            if packed is not None:
                return packed_tensor(packed, values.shape)
        write = numbers.write_complex if x.dtype.is_complex else numbers.write_floats
        found = write(row, letter, fill, width, precision)
    return string_tensor(found, values.shape)


def _check_format(dtype: DType, precision: int, scientific: bool, shortest: bool, fill: str) -> None:
    op = "AsString"
    if dtype.is_quantized or dtype.name in ("resource", "variant"):
        allowed = "float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, complex64"
        raise errors.unsupported_dtype(op, dtype, f"{allowed}, complex128, bool, variant, string", "T")
    if len(text_attribute(fill, "fill")) > 1:
        raise errors.refused_value("Fill string must be one or fewer characters", op)
    if fill not in ("", " ", "+", "-", "0"):
        raise errors.refused_value(f'Fill argument not supported: "{fill}"', op)
    if scientific and shortest:
        raise errors.refused_value("Cannot select both scientific and shortest notation", op)
    if dtype.is_floating or dtype.is_complex or dtype == string:
        return
    if scientific or shortest:
        raise errors.refused_value(f"scientific and shortest format not supported for datatype {dtype.word}", op)
    if precision >= 0:
        raise errors.refused_value(f"precision not supported for datatype {dtype.word}", op)


@kept_in_graph("strings.format")
def format(template: str, inputs: Any, placeholder: str = "{}", summarize: int = 3, name: str | None = None) -> Tensor:
    """Insert the values of tensors into a template; long axes show the first and last `summarize` elements.

    >>> tf.strings.format("x = {}", (np.arange(10),)).numpy()
    b'x = [0 1 2 ... 7 8 9]'
    """
    parts = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    count = template.count(placeholder)
    if count != len(parts):
        raise ValueError(
            f"The template expects {count} tensors, but the inputs only has {len(parts)}. Please ensure the number of "
            "placeholders in template matches inputs length."
        )
    shown = [_shown(known(operand(part)), summarize, 1) for part in parts]
    pieces = template.split(placeholder)
    text = pieces[0] + "".join(value + piece for value, piece in zip(shown, pieces[1:], strict=True))
    return string_tensor([text.encode("utf-8", "surrogateescape")], ())


def _shown(values: Any, most: int, depth: int) -> str:
    """Rows in brackets, each on its line and indented; the middle of a long axis is omitted."""
    if not values.ndim:
        return _element(values.item() if values.dtype.kind == "O" else values[()])
    count = len(values)
    chosen = range(count) if most < 0 or count <= 2 * most else [*range(most), *range(count - most, count)]
    if values.ndim == 1:
        parts = [_element(values[i]) for i in chosen]
    else:
        parts = [_shown(values[i], most, depth + 1) for i in chosen]
    if len(chosen) < count:
        parts.insert(most, "...")
    between = " " if values.ndim == 1 else "\n" * (values.ndim - 1) + " " * depth
    return f"[{between.join(parts)}]"


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "'": "\\'"}


def _element(value: Any) -> str:
    if not isinstance(value, bytes):
        return element_text(value)
    return '"' + "".join(_ESCAPES.get(char, char) for char in value.decode("utf-8", "surrogateescape")) + '"'


# -- hashes ----------------------------------------------------------------------------------------------------------
def _buckets(count: Any, op: str) -> int:
    buckets = as_int(count, "num_buckets")
    if buckets < 1:
        raise errors.invalid_argument(f"Value for attr 'num_buckets' of {buckets} must be at least minimum 1", op)
    return buckets


def _in_buckets(input: Any, count: Any, op: str, hashed: Callable[[Packed], ndarray]) -> Tensor:
    texts = texts_in(input, op)
    found = hashing.in_buckets(hashed(texts.packed), _buckets(count, op))
    return wrap(found.reshape(texts.shape))


@elementwise
def to_hash_bucket(input: Any, num_buckets: int, name: str | None = None) -> Any:
    """Hash each string to a bucket; the same in every process and in TensorFlow.

    >>> tf.strings.to_hash_bucket(["hello", "world"], 10).numpy().tolist()
    [8, 1]
    """
    return _in_buckets(input, num_buckets, "StringToHashBucket", hashing.murmur64)


@elementwise
def to_hash_bucket_fast(input: Any, num_buckets: int, name: str | None = None) -> Any:
    """Hash each string to a bucket with FarmHash's Fingerprint64, the usual choice.

    >>> tf.strings.to_hash_bucket_fast(["hello", "world"], 10).numpy().tolist()
    [6, 8]
    """
    return _in_buckets(input, num_buckets, "StringToHashBucketFast", hashing.fingerprint64)


@elementwise
def to_hash_bucket_strong(input: Any, num_buckets: int, key: Any, name: str | None = None) -> Any:
    """Hash each string to a bucket with SipHash and a key of two integers, to resist strings chosen to collide.

    >>> tf.strings.to_hash_bucket_strong(["hello", "world"], 10, key=[1, 2]).numpy().tolist()
    [2, 0]
    """
    op = "StringToHashBucketStrong"
    if not isinstance(key, (list, tuple)):
        raise TypeError(f"Expected list for 'key' argument to 'string_to_hash_bucket_strong' Op, not {key!r}.")
    words = [as_int(word, "key") for word in key]
    if len(words) != 2:
        raise errors.refused_value("Key must have 2 elements", op)
    return _in_buckets(input, num_buckets, op, lambda rows: hashing.siphash(rows, (words[0], words[1])))


@kept_in_graph("strings.fingerprint")
def fingerprint(data: Any, method: Any = "farmhash64", name: str | None = None) -> Tensor:
    """Compute an eight-byte hash of each row of a tensor.

    >>> tf.fingerprint([[1, 2], [3, 4]]).numpy().tolist()
    [[76, 18, 253, 133, 168, 204, 240, 10], [254, 162, 60, 240, 103, 244, 53, 255]]
    """
    op, chosen, values = "Fingerprint", _pattern(method, "Fingerprint"), known(operand(data))
    if not values.ndim:
        raise errors.invalid_argument("`data` should have at least one dimension: []", op)
    if chosen != b"farmhash64":
        raise errors.invalid_argument(f"Unsupported fingerprint method: {chosen.decode()}", op)
    if values.dtype.kind == "O":  # of strings, hashes of their hashes; with one string in a row, its hash
        values = hashing.fingerprint64(flat(values)).reshape(values.shape)
        if values.ndim == 1 or values[0].size == 1:
            return wrap(values.reshape(-1, 1).view(np.uint8))
    return wrap(hashing.fingerprint64([row.tobytes() for row in values]).reshape(-1, 1).view(np.uint8))


# -- n-grams ---------------------------------------------------------------------------------------------------------
@kept_in_graph("strings.ngrams")
def ngrams(
    data: Any,
    ngram_width: Any,
    separator: str = " ",
    pad_values: Any = None,
    padding_width: int | None = None,
    preserve_short_sequences: bool = False,
    name: str | None = None,
) -> Any:
    """Join every `ngram_width` neighbors along the last axis; for several widths, one width after another.

    `pad_values` are strings for the left and the right end, as many as the width needs, or at most `padding_width`.

    >>> tf.strings.ngrams(["a", "b", "c"], 2).numpy().tolist()
    [b'a b', b'b c']
    """
    widths = _widths(ngram_width)
    left, right = _pads(pad_values)
    if padding_width is not None and pad_values is None:
        raise ValueError("pad_values must be provided if padding_width is set.")
    if padding_width is not None and int(padding_width) <= 0:
        raise ValueError("padding_width must be greater than 0.")
    between = text_bytes(separator, "separator")
    if len(widths) == 1 and pad_values is None and not preserve_short_sequences:
        return _plain_ngrams(data, widths[0], between)

    def made(row: list[bytes]) -> list[bytes]:
        found: list[bytes] = []
        for width in widths:
            pad = 0 if pad_values is None else min(width - 1, width if padding_width is None else int(padding_width))
            padded = [left] * pad + row + [right] * pad
            found += [between.join(padded[i : i + width]) for i in range(len(padded) - width + 1)]
        if preserve_short_sequences and not found and row:
            pad = 0 if pad_values is None else min(widths[0] - 1, int(padding_width or widths[0]))
            found.append(between.join([left] * pad + row + [right] * pad))
        return found

    return _ngrams(data, made)


def _plain_ngrams(data: Any, width: int, between: bytes) -> Any:
    """N-grams of one width without padding: parts of all strings, joined."""
    if not is_ragged(data):
        texts = converted(data, "data")
        if not texts.shape:
            raise ValueError("Data must have rank>0")
        *outer, size = texts.shape
        lengths = np.full(texts.size // size if size else 0, size)
        found = parts.neighbours(texts.packed, lengths, width, between)
        return packed_tensor(found, (*outer, max(0, size - width + 1)))
    if is_ragged(data.values) or data.values.shape.rank > 1:
        return data.with_values(_plain_ngrams(data.values, width, between))
    lengths = np.diff(known(data.row_splits))
    found = parts.neighbours(converted(data.values, "data").packed, lengths, width, between)
    return ragged_rows(packed_tensor(found, (len(found),)), np.maximum(lengths - width + 1, 0), (len(lengths),))


def _ngrams(data: Any, made: Callable[[list[bytes]], list[bytes]]) -> Any:
    if not is_ragged(data):
        texts = converted_texts(data, "data")
        if not texts.ndim:
            raise ValueError("Data must have rank>0")
        rows = [made(row) for row in texts.reshape(int(np.prod(texts.shape[:-1])), texts.shape[-1]).tolist()]
        width = len(rows[0]) if rows else len(made([b""] * texts.shape[-1]))
        return string_tensor(list(itertools.chain.from_iterable(rows)), (*texts.shape[:-1], width))
    if is_ragged(data.values) or data.values.shape.rank > 1:
        return data.with_values(_ngrams(data.values, made))
    values = flat(converted_texts(data.values, "data"))
    splits = known(data.row_splits).tolist()
    rows = [made(values[a:b]) for a, b in itertools.pairwise(splits)]
    found = list(itertools.chain.from_iterable(rows))
    return ragged_rows(string_tensor(found, (len(found),)), list(map(len, rows)), (len(rows),))


def _widths(given: Any) -> list[int]:
    widths = [int(width) for width in given] if isinstance(given, (list, tuple)) else [int(given)]
    if any(width <= 0 for width in widths):
        raise ValueError(f"All ngram_widths must be greater than 0. Got {given}")
    return widths


def _pads(values: Any) -> tuple[bytes, bytes]:
    pair = (values, values) if isinstance(values, (str, bytes)) else ("", "") if values is None else values
    if not isinstance(pair, (list, tuple)) or not all(isinstance(v, (str, bytes)) for v in pair):
        raise TypeError("pad_values must be a string, tuple of strings, or None.")
    left, right = (v.encode() if isinstance(v, str) else v for v in pair[:2])
    return left, right


__all__ = [
    "as_string", "bytes_split", "format", "join", "length", "lower", "ngrams", "reduce_join", "regex_full_match",
    "regex_replace", "split", "strip", "substr", "to_hash_bucket", "to_hash_bucket_fast", "to_hash_bucket_strong",
    "to_number", "unicode_decode", "unicode_decode_with_offsets", "unicode_encode", "unicode_script", "unicode_split",
    "unicode_split_with_offsets", "unicode_transcode", "unsorted_segment_join", "upper",
]  # fmt: skip


def __dir__() -> list[str]:
    return list(__all__)
