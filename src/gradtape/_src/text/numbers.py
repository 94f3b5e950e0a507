"""Format numbers as strings and parse strings as numbers, as in C."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src.interrupts import float_errors_ignored
from gradtape._src.text import digits
from gradtape._src.text.packed import Packed, packed_form

_FLOAT = re.compile(
    rb"[ \t-\r]*([+-]?)(?:(inf(?:inity)?)|(nan(?:\(\w*\))?)|(0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(?:p[+-]?\d+)?)"
    rb"|((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?))[ \t-\r]*",
    re.IGNORECASE,
)
_INTEGER = re.compile(rb"[ \t-\r]*[+-]?\d+[ \t-\r]*")
_HALFWAY = np.uint64(1 << 28)  # of a double between two floats: the bits beyond a float's
_BEYOND_FLOAT = np.uint64((1 << 29) - 1)


_FEW = 64
"""The number of strings up to which they are parsed one by one, because NumPy does not pay off."""


class NumberError(ValueError):
    """A string that is not a number."""

    def __init__(self, text: bytes) -> None:
        super().__init__(text)
        self.text = text


# -- parsing -----------------------------------------------------------------------------------------------------------
def read_floats(texts: Sequence[bytes] | Packed, dtype: Any) -> ndarray:
    """Numbers of texts, in the nearest value of the dtype.

    >>> read_floats([b" 1.5", b"0x10", b"-inf"], np.float32).tolist()
    [1.5, 16.0, -inf]
    """
    found = digits.read_decimals(packed_form(texts)) if len(texts) > _FEW else None
    numbers = np.array([_float(text) for text in _rows(texts)], np.float64) if found is None else found
    if np.dtype(dtype) == np.float64:
        return numbers
    with float_errors_ignored():
        rounded = numbers.astype(np.float32)
    tied = np.flatnonzero((numbers.view(np.uint64) & _BEYOND_FLOAT) == _HALFWAY)
    rows = _rows(texts) if len(tied) else ()
    for i in tied.tolist():  # rounded twice: the string decides on which side of the tie the number is
        rounded[i] = _nearest_float(rows[i], rounded[i])
    return rounded


def _rows(texts: Sequence[bytes] | Packed) -> Sequence[bytes]:
    """The texts one by one."""
    return texts.rows if isinstance(texts, Packed) else texts


def _float(text: bytes) -> float:
    match = _FLOAT.fullmatch(text)
    if match is None:
        raise NumberError(text)
    sign, infinite, nan, hexadecimal, decimal = match.groups()
    if infinite or nan:
        value = math.inf if infinite else math.nan
    else:
        value = float.fromhex(hexadecimal.decode()) if hexadecimal else float(decimal)
    return -value if sign == b"-" else value


def _nearest_float(text: bytes, rounded: np.float32) -> np.float32:
    from fractions import Fraction

    try:
        exact = Fraction(text.strip().decode())
    except ValueError:  # hexadecimal numbers are doubles
        return rounded
    if not np.isfinite(rounded):
        return rounded
    near = [rounded, np.nextafter(rounded, np.float32(-np.inf)), np.nextafter(rounded, np.float32(np.inf))]
    return min([n for n in near if np.isfinite(n)], key=lambda n: (abs(Fraction(float(n)) - exact), n != rounded))


def read_integers(texts: Sequence[bytes] | Packed, dtype: Any) -> ndarray:
    """Decimal integers of texts, which must be in the range of the dtype.

    >>> read_integers([b"12", b" -3 "], np.int32).tolist()
    [12, -3]
    """
    info = np.iinfo(dtype)
    if (
        len(texts) > _FEW
        and (found := digits.read_integers(packed_form(texts))) is not None
        and found.min() >= info.min
    ):
        return found.astype(dtype)  # at most eight digits
    rows = _rows(texts)
    try:
        if b"_" in b"".join(rows):
            raise ValueError
        numbers = list(map(int, rows))
    except ValueError:
        raise NumberError(next(text for text in rows if _INTEGER.fullmatch(text) is None)) from None
    if numbers and (min(numbers) < info.min or max(numbers) > info.max):
        raise NumberError(next(t for t, n in zip(rows, numbers, strict=True) if not info.min <= n <= info.max))
    return np.array(numbers, dtype)


# -- formatting --------------------------------------------------------------------------------------------------------
def write_integers(values: ndarray, flag: str, width: int) -> list[bytes]:
    """Integers in C's format `%d`, with a flag and a width.

    >>> write_integers(np.array([5, -42]), "0", 5)
    [b'00005', b'-0042']
    """
    numbers = values.tolist()
    if not flag and width < 0:  # the text of the list, taken apart
        return str(numbers)[1:-1].encode().split(b", ") if numbers else []
    form = f"%{flag}{width if width >= 0 else ''}d".encode()
    return [form % n for n in numbers]


def write_floats(values: ndarray, letter: str, flag: str, width: int, precision: int) -> list[bytes]:
    """Floating point numbers in C's formats `%f`, `%e` and `%g`.

    >>> write_floats(np.array([1.5, np.inf]), "f", "0", 8, 2)
    [b'00001.50', b'     inf']
    """
    wide = f"{width if width >= 0 else ''}"
    form = f"%{flag}{wide}{f'.{precision}' if precision >= 0 else ''}{letter}"
    numbers = values.astype(np.float64)
    found = ((form + "\n") * len(numbers) % tuple(numbers.tolist())).encode().split(b"\n")[:-1]
    plain = f"%{'' if flag == '0' else flag}{wide}s"
    for i in np.flatnonzero(~np.isfinite(numbers)).tolist():  # never padded with zeros, and NaN has a sign
        sign = "-" if np.signbit(numbers[i]) else flag if flag in ("+", " ") else ""
        found[i] = (plain % (sign + ("nan" if np.isnan(numbers[i]) else "inf"))).encode()
    return found


def write_complex(values: ndarray, letter: str, flag: str, width: int, precision: int) -> list[bytes]:
    """Format complex numbers as pairs of floating-point numbers in parentheses."""
    real = write_floats(values.real, letter, flag, width, precision)
    imaginary = write_floats(values.imag, letter, flag, width, precision)
    return [b"(%s,%s)" % pair for pair in zip(real, imaginary, strict=True)]


def write_texts(values: Sequence[bytes], flag: str, width: int) -> list[bytes]:
    """Format strings with C's `%s`."""
    if width < 0:
        return list(values)
    return [text.ljust(width) if flag == "-" else text.rjust(width) for text in values]
