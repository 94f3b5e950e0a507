"""The script of each code point, numbered as in ICU: `scripts.txt` has a line for each run of one script."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
from numpy import ndarray

_LAST = 0x10FFFF
_COMMON = 0x10000


@functools.cache
def _runs() -> tuple[ndarray, ndarray, list[str]]:
    """The start, number and name of each run."""
    lines = [line.split() for line in (Path(__file__).parent / "scripts.txt").read_text("ascii").splitlines()]
    starts = np.array([int(start, 16) for start, _, _ in lines], np.int64)
    return starts, np.array([int(number) for _, number, _ in lines], np.int32), [name for _, _, name in lines]


@functools.cache
def _common_scripts() -> ndarray:
    """The scripts of the first code points, which most strings consist of, one by one."""
    starts, numbers, _ = _runs()
    found: ndarray = numbers[np.searchsorted(starts, np.arange(_COMMON), "right") - 1]
    return found


def script_of(codes: ndarray) -> ndarray:
    """The number of the script of each code point; -1 for numbers that are not code points.

    >>> script_of(np.array([ord("a"), ord("ω"), -1])).tolist()
    [25, 14, -1]
    """
    starts, numbers, _ = _runs()
    if codes.size and codes.min() >= 0 and codes.max() < _COMMON:
        return _common_scripts().take(codes)
    found = numbers[np.searchsorted(starts, codes, "right") - 1]
    return np.where((codes >= 0) & (codes <= _LAST), found, np.int32(-1))


def ranges_of(name: str) -> list[tuple[int, int]] | None:
    """The code points of a script, None if there is none of this name."""
    starts, _, names = _runs()
    ends = [*(starts[1:] - 1).tolist(), _LAST]
    found = [(start, end) for start, end, run in zip(starts.tolist(), ends, names, strict=True) if run == name]
    return found if found and name != "Unknown" else None
