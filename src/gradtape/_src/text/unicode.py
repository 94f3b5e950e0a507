"""Convert strings to Unicode code points, and back, with Python's codecs under ICU's names."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

import numpy as np
from numpy import ndarray

from gradtape._src.text.packed import Packed

_PYTHON_NAMES = {"utf-16": "utf-16-be", "utf-32": "utf-32-be"}  # big-endian without a byte order mark
_MARKS = {
    "utf-16": ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")),
    "utf-32": ((codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be")),
}
_LAST, _SURROGATES = 0x10FFFF, (0xD800, 0xDFFF)
_MALFORMED = -1
OUTPUT_ENCODINGS = {"UTF-8": "utf-8", "UTF-16-BE": "utf-16-be", "UTF-32-BE": "utf-32-be"}


class UnknownEncodingError(LookupError):
    """An encoding without a codec."""


class MalformedError(ValueError):
    """Bytes that are invalid in the encoding, where they must be valid."""


def codec(encoding: str) -> str:
    """Python's name of an encoding.

    >>> codec("ISO-8859-1"), codec("UTF-16")
    ('iso8859-1', 'utf-16')
    """
    try:
        return codecs.lookup(encoding).name
    except LookupError:
        raise UnknownEncodingError(encoding) from None


def is_utf8(encoding: str) -> bool:
    """Whether this is a name of UTF-8."""
    try:
        return codec(encoding) == "utf-8"
    except UnknownEncodingError:
        return False


class Decoded:
    """The concatenated code points of strings, with the byte offset of each; `counts` are the
    lengths of the strings.
    """

    __slots__ = ("codes", "counts", "is_changed", "offsets")

    def __init__(self, codes: ndarray, counts: ndarray, offsets: ndarray, is_changed: bool = False) -> None:
        self.codes, self.counts, self.offsets, self.is_changed = codes, counts, offsets, is_changed

    def replace(self, errors: str, replacement: int, control_characters: bool) -> Decoded:
        """Replace, drop or reject malformed input and, with `control_characters`, control characters."""
        bad = self.codes == _MALFORMED
        if errors == "strict" and bad.any():
            raise MalformedError
        if control_characters:
            bad = bad | ((self.codes >= 0) & (self.codes < 32))
        if not bad.any():
            return self
        if errors != "ignore":
            return Decoded(np.where(bad, np.int32(replacement), self.codes), self.counts, self.offsets, True)
        rows = np.repeat(np.arange(len(self.counts)), self.counts)[~bad]
        counts = np.bincount(rows, minlength=len(self.counts)).astype(np.int64)
        return Decoded(self.codes[~bad], counts, self.offsets[~bad], True)


def decode(texts: Sequence[bytes], encoding: str) -> Decoded:
    """Code points of texts, -1 for each malformed piece.

    >>> found = decode(["é!".encode(), b"a"], "utf-8")
    >>> found.codes.tolist(), found.counts.tolist(), found.offsets.tolist()
    ([233, 33, 97], [2, 1], [0, 2, 0])
    """
    name = codec(encoding)
    found = _decode_utf8(texts) if name == "utf-8" else None
    return _decode_each(texts, name) if found is None else found


def _decode_utf8(texts: Sequence[bytes]) -> Decoded | None:
    """Decode all strings in one step; None if one of them is malformed."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    starts = np.cumsum(lengths) - lengths
    whole = b"".join(texts)
    if whole.isascii():
        codes = np.frombuffer(whole, np.uint8).astype(np.int32)
        return Decoded(codes, lengths, np.arange(len(whole)) - np.repeat(starts, lengths))
    data = np.frombuffer(whole, np.uint8)
    leads = (data & 0xC0) != 0x80
    if not leads[starts[lengths > 0]].all():
        return None
    try:
        codes = np.frombuffer(whole.decode("utf-8").encode("utf-32-le"), np.int32)
    except UnicodeDecodeError:
        return None
    before = np.concatenate([[0], np.cumsum(leads)])
    counts = before[starts + lengths] - before[starts]
    return Decoded(codes, counts, np.flatnonzero(leads) - np.repeat(starts, counts))


def _decode_each(texts: Sequence[bytes], name: str) -> Decoded:
    codes: list[int] = []
    offsets: list[int] = []
    counts = []
    for text in texts:
        before = len(codes)
        start, own = _byte_order(text, name)
        while start < len(text):
            start = _decode_on(text, start, own, codes, offsets)
        counts.append(len(codes) - before)
    return Decoded(np.array(codes, np.int32), np.array(counts, np.int64), np.array(offsets, np.int64))


def _byte_order(text: bytes, name: str) -> tuple[int, str]:
    """The start of a string after its byte order mark, and its codec."""
    for mark, own in _MARKS.get(name, ()):
        if text.startswith(mark):
            return len(mark), own
    return 0, _PYTHON_NAMES.get(name, name)


def _decode_on(text: bytes, start: int, name: str, codes: list[int], offsets: list[int]) -> int:
    """Decode up to and including the next malformed piece; return the position to continue from."""
    try:
        part, end, malformed = codecs.decode(text[start:], name), len(text), None
    except UnicodeDecodeError as error:
        part, malformed = codecs.decode(text[start : start + error.start], name), start + error.start
        end = start + error.end
    for char in part:
        codes.append(ord(char))
        offsets.append(start)
        start += len(char.encode(name))
    if malformed is not None:
        codes.append(_MALFORMED)
        offsets.append(malformed)
    return end


def is_valid(codes: ndarray) -> ndarray:
    """Whether numbers are valid code points."""
    low, high = _SURROGATES
    return (codes >= 0) & (codes <= _LAST) & ((codes < low) | (codes > high))


def encode(codes: ndarray, counts: Sequence[int], encoding: str) -> list[bytes]:
    """Texts of code points that are valid; `counts` has how many each text takes.

    >>> encode(np.array([104, 233, 33]), [2, 1], "UTF-8")
    [b'h\\xc3\\xa9', b'!']
    """
    name = OUTPUT_ENCODINGS[encoding]
    text = codes.astype("<u4").tobytes().decode("utf-32-le")
    ends = np.cumsum(counts).tolist()
    return [text[end - count : end].encode(name) for end, count in zip(ends, counts, strict=True)]


def reencode(texts: Packed, encoding: str) -> Packed | None:
    """Texts in UTF-8 in another encoding; None if one of them is malformed.

    >>> reencode(Packed(["é!".encode(), b""]), "UTF-16-BE").rows
    [b'\\x00\\xe9\\x00!', b'']
    """
    name, some = OUTPUT_ENCODINGS[encoding], texts.lengths > 0
    whole = texts.joined(b"")
    data = whole.bytes[: int(texts.lengths.sum())]
    continued = (data & 0xC0) == 0x80
    if continued[whole.starts[some]].any():
        return None
    try:
        text = data.tobytes().decode()
    except UnicodeDecodeError:
        return None
    if name == "utf-8":
        return texts
    units = np.where(continued, 0, np.where((data >= 0xF0) & (name == "utf-16-be"), 2, 1))
    until = np.concatenate([[0], np.cumsum(units)]) * (2 if name == "utf-16-be" else 4)
    starts = until[whole.starts]
    buffer = np.frombuffer(text.encode(name) + bytes(9), np.uint8)
    return Packed.at(buffer, starts, until[whole.ends] - starts)


def encode_each(codes: ndarray, encoding: str) -> ndarray:
    """Encode each code point as a separate string."""
    distinct, which = np.unique(codes, return_inverse=True)
    found = np.empty(len(distinct), object)
    found[:] = encode(distinct, [1] * len(distinct), encoding)
    texts: ndarray = found[which]
    return texts
