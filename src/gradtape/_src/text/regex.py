"""Regular expressions with RE2's syntax and semantics, run by Python's `re`.

RE2 has no look-around and no back-references; its classes `\\d`, `\\s`, `\\w` and its word boundaries are ASCII only;
`$` is the end of the string; an empty match at the end of the previous match is skipped. A pattern is translated to
Python's syntax: for any string, for an ASCII string, and for many of these in one pass, joined by zero bytes.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Sequence

import numpy as np
from numpy import ndarray

from gradtape._src.text.packed import Packed

Range = tuple[int, int]

_LAST = 0x10FFFF
_JOIN = b"\0"
_INVALID = (0xD800, 0xDFFF)  # where `surrogateescape` puts bytes that are not UTF-8
_NEWLINE = [(10, 10)]
_DIGIT, _SPACE = [(48, 57)], [(9, 10), (12, 13), (32, 32)]
_WORD = [(48, 57), (65, 90), (95, 95), (97, 122)]
_PERL = {"d": _DIGIT, "s": _SPACE, "w": _WORD}
_UPPER, _LOWER = (65, 90), (97, 122)
_POSIX: dict[str, list[Range]] = {
    "alnum": [*_DIGIT, _UPPER, _LOWER],
    "alpha": [_UPPER, _LOWER],
    "ascii": [(0, 127)],
    "blank": [(9, 9), (32, 32)],
    "cntrl": [(0, 31), (127, 127)],
    "digit": _DIGIT,
    "graph": [(33, 126)],
    "lower": [_LOWER],
    "print": [(32, 126)],
    "punct": [(33, 47), (58, 64), (91, 96), (123, 126)],
    "space": [(9, 13), (32, 32)],
    "upper": [_UPPER],
    "word": _WORD,
    "xdigit": [*_DIGIT, (65, 70), (97, 102)],
}
_CONTROLS = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_REPEAT = re.compile(r"\{(\d+)(?:(,)(\d*))?\}")
_MOST_REPEATS = 1000
_OPERATORS = ".^$*+?{}()|"


class PatternError(ValueError):
    """A pattern that RE2 rejects, with RE2's message."""


def _complement(ranges: Sequence[Range]) -> list[Range]:
    found, start = [], 0
    for low, high in sorted(ranges):
        if low > start:
            found.append((start, low - 1))
        start = max(start, high + 1)
    return [*found, (start, _LAST)] if start <= _LAST else found


@functools.cache
def _categories() -> dict[str, list[Range]]:
    """The code points of each general category of Unicode, and of each of their first letters."""
    found: dict[str, list[Range]] = {}
    start, last = 0, unicodedata.category("\0")
    for code in range(1, _LAST + 2):
        category = unicodedata.category(chr(code)) if code <= _LAST else ""
        if category != last:
            for name in (last, last[0]):
                found.setdefault(name, []).append((start, code - 1))
            start, last = code, category
    return found


def _unicode_class(name: str) -> list[Range] | None:
    if name == "Any":
        return [(0, _LAST)]
    if name in _categories() and name != "Cn":
        return _categories()[name]
    from gradtape._src.text.scripts import ranges_of

    return ranges_of(name)


class _Translator:
    """Recursive descent over a pattern. Each method returns Python's pattern, and whether it can match the empty
    string.

    The pattern is for strings that are `joined`, for one ASCII string (`ascii`), or for any string.
    """

    def __init__(self, pattern: str, *, joined: bool = False, ascii: bool = False) -> None:
        self.pattern, self.joined, self.at, self.groups = pattern, joined, 0, 0
        self.last = 127 if joined or ascii else _LAST
        self.outside: list[Range] = [(0, 0)] if joined else [] if ascii else [_INVALID]
        self.flags: frozenset[str] = frozenset()

    def whole(self) -> tuple[str, bool]:
        found = self.alternatives()
        if self.at < len(self.pattern):
            raise PatternError(f"unexpected ): {self.pattern}")
        return found

    def next_is(self, text: str) -> bool:
        return self.pattern.startswith(text, self.at)

    def alternatives(self) -> tuple[str, bool]:
        branches = [self.sequence()]
        while self.next_is("|"):
            self.at += 1
            branches.append(self.sequence())
        return "|".join(text for text, _ in branches), any(empty for _, empty in branches)

    def sequence(self) -> tuple[str, bool]:
        found, empty = [], True
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            atoms = self.quoted() if self.next_is("\\Q") else [self.atom()]
            if atoms:
                *before, (last, can_be_empty) = atoms
                last, can_be_empty = self.repeated(last, can_be_empty)
                found += [*[text for text, _ in before], last]
                empty = empty and can_be_empty and not before
        return "".join(found), empty

    # -- atoms -------------------------------------------------------------------------------------------------------
    def atom(self) -> tuple[str, bool]:
        char = self.pattern[self.at]
        if char in "*+?" or (char == "{" and _REPEAT.match(self.pattern, self.at)):
            raise PatternError(f"no argument for repetition operator: {self.operator()}")
        if char == "(":
            return self.group()
        if char == "[":
            return self.brackets(), False
        if char == "\\":
            return self.escape()
        self.at += 1
        if char == ".":
            return self.of_ranges([] if "s" in self.flags else [(10, 10)], negated=True), False
        if char == "^":
            return self.edge(start=True, lines="m" in self.flags), True
        if char == "$":
            return self.edge(start=False, lines="m" in self.flags), True
        return self.literal(ord(char)), False

    def edge(self, *, start: bool, lines: bool) -> str:
        """The start or the end of the string, or of a line."""
        around = "?<!" if start else "?!"
        if self.joined:
            return f"({around}[^\\x00\\n])" if lines else f"({around}[^\\x00])"
        return f"({around}[^\\n])" if lines else "\\A" if start else "\\Z"

    def literal(self, code: int) -> str:
        return self.folded(_escaped(code))

    def folded(self, text: str) -> str:
        return f"(?i:{text})" if "i" in self.flags else text

    def quoted(self) -> list[tuple[str, bool]]:
        end = self.pattern.find("\\E", self.at)
        text = self.pattern[self.at + 2 : end if end >= 0 else len(self.pattern)]
        self.at = len(self.pattern) if end < 0 else end + 2
        return [(self.literal(ord(char)), False) for char in text]

    def group(self) -> tuple[str, bool]:
        outside = self.flags
        opening = self.opening()
        if opening is None:  # only flags, which apply to the rest of the enclosing group
            return "(?:)", True
        inside, empty = self.alternatives()
        if not self.next_is(")"):
            raise PatternError(f"missing ): {self.pattern}")
        self.at += 1
        self.flags = outside
        return f"{opening}{inside})", empty

    def opening(self) -> str | None:
        """The opening of a group, None if it only sets flags."""
        if not self.next_is("(?"):
            self.at, self.groups = self.at + 1, self.groups + 1
            return "("
        if self.next_is("(?P<"):
            end = self.pattern.find(">", self.at)
            name = self.pattern[self.at + 4 : end if end >= 0 else len(self.pattern)]
            if end < 0 or not re.fullmatch(r"\w+", name):
                whole = self.pattern[self.at : end + 1 if end >= 0 else len(self.pattern)]
                raise PatternError(f"invalid named capture group: {whole}")
            self.at, self.groups = end + 1, self.groups + 1
            return "("
        return self.set_flags()

    def set_flags(self) -> str | None:
        start, on, flags = self.at, True, set(self.flags)
        self.at += 2
        while self.at < len(self.pattern):
            char = self.pattern[self.at]
            self.at += 1
            if char in ":)":
                self.flags = frozenset(flags)
                return "(?:" if char == ":" else None
            if char == "-" and on:
                on = False
            elif char in "imsU":
                flags = flags | {char} if on else flags - {char}
            else:
                break
        raise PatternError(f"invalid perl operator: {self.pattern[start : self.at]}")

    # -- escapes -----------------------------------------------------------------------------------------------------
    def escape(self) -> tuple[str, bool]:
        char = self.pattern[self.at + 1 : self.at + 2]
        if char and char in "Az":
            self.at += 2
            return self.edge(start=char == "A", lines=False), True
        if char and char in "bB":
            self.at += 2
            return "(?a:\\b)" if char == "b" else "(?!(?a:\\b))", True
        if char == "C":
            self.at += 2
            return self.of_ranges([], negated=True), False
        found = self.class_escape()
        return (self.of_ranges(found) if found is not None else self.literal(self.code_escape())), False

    def class_escape(self) -> list[Range] | None:
        """The code points of an escape such as `\\d` or `\\pL`, None for other escapes."""
        char = self.pattern[self.at + 1 : self.at + 2]
        if char and char in "dswDSW":
            self.at += 2
            ranges = _PERL[char.lower()]
            return ranges if char.islower() else _complement(ranges)
        if char and char in "pP":
            return self.unicode_escape(char)
        return None

    def unicode_escape(self, char: str) -> list[Range]:
        braces = self.next_is(f"\\{char}{{")
        end = self.pattern.find("}", self.at) if braces else self.at + 2
        whole = self.pattern[self.at : end + 1 if end >= 0 else len(self.pattern)]
        name = whole[3:-1] if braces else whole[2:]
        ranges = _unicode_class(name.removeprefix("^"))
        if ranges is None or end < 0:
            raise PatternError(f"invalid character class range: {whole}")
        self.at = end + 1
        return _complement(ranges) if (char == "P") != name.startswith("^") else ranges

    def code_escape(self) -> int:
        """The code point of an escape of one character."""
        start = self.at
        char = self.pattern[start + 1 : start + 2]
        if not char:
            raise PatternError("trailing \\")
        octal = re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}").match(self.pattern, start + 1)
        if octal:
            self.at = octal.end()
            return int(octal.group(), 8)
        if char == "x":
            return self.hexadecimal()
        self.at += 2
        if char in _CONTROLS:
            return _CONTROLS[char]
        if ord(char) < 128 and (char == "_" or not char.isalnum()):
            return ord(char)
        raise PatternError(f"invalid escape sequence: {self.pattern[start : self.at]}")

    def hexadecimal(self) -> int:
        start = self.at
        found = re.compile(r"\\x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]+)\})").match(self.pattern, start)
        code = int(found.group(1) or found.group(2), 16) if found else -1
        if found is None or code > _LAST:
            end = found.end() - 1 if found else start + 4
            raise PatternError(f"invalid escape sequence: {self.pattern[start:end]}")
        self.at = found.end()
        return code

    # -- classes -----------------------------------------------------------------------------------------------------
    def brackets(self) -> str:
        start = self.at
        self.at += 1
        negated = self.next_is("^")
        self.at += negated
        ranges: list[Range] = []
        first = True
        while first or not self.next_is("]"):
            if self.at >= len(self.pattern):
                raise PatternError(f"missing ]: {self.pattern[start:]}")
            ranges += self.posix_class() or self.class_in_brackets() or [self.range_in_brackets(start)]
            first = False
        self.at += 1
        return self.of_ranges(ranges, negated=negated)

    def posix_class(self) -> list[Range] | None:
        end = self.pattern.find(":]", self.at + 2) if self.next_is("[:") else -1
        if end < 0:
            return None
        whole = self.pattern[self.at : end + 2]
        name = whole[2:-2]
        ranges = _POSIX.get(name.removeprefix("^"))
        if ranges is None:
            raise PatternError(f"invalid character class range: {whole}")
        self.at = end + 2
        return _complement(ranges) if name.startswith("^") else ranges

    def class_in_brackets(self) -> list[Range] | None:
        return self.class_escape() if self.next_is("\\") else None

    def range_in_brackets(self, start: int) -> Range:
        begin = self.at
        low = self.code_in_brackets(start)
        if not self.next_is("-") or self.pattern[self.at + 1 : self.at + 2] == "]":
            return low, low
        self.at += 1
        high = self.code_in_brackets(start)
        if high < low:
            raise PatternError(f"invalid character class range: {self.pattern[begin : self.at]}")
        return low, high

    def code_in_brackets(self, start: int) -> int:
        if self.at >= len(self.pattern):
            raise PatternError(f"missing ]: {self.pattern[start:]}")
        if self.next_is("\\"):
            return self.code_escape()
        self.at += 1
        return ord(self.pattern[self.at - 1])

    def of_ranges(self, ranges: Sequence[Range], *, negated: bool = False) -> str:
        """A class of code points. None matches a byte that is not UTF-8, or the separator of joined strings."""
        last, outside = self.last, self.outside
        if negated:
            kept = [(low, min(high, last)) for low, high in ranges if low <= last] + outside
            return self.folded("(?s:.)" if not kept else "." if kept == _NEWLINE else f"[^{_ranges_text(kept)}]")
        kept = _complement([*_complement(ranges), *outside, (last + 1, _LAST)])
        return self.folded(f"[{_ranges_text(kept)}]") if kept else "(?!)"

    def only_class(self) -> tuple[str, bool] | None:
        """Python's class if the pattern is one class or one character, and whether a `+` is behind it."""
        char = self.pattern[:1]
        if char == "[":
            text = self.brackets()
        elif char == "\\":
            ranges = self.class_escape()
            if ranges is None:
                return None
            text = self.of_ranges(ranges)
        elif char in _OPERATORS:  # the empty pattern as well
            return None
        else:
            self.at, text = 1, self.literal(ord(char))
        rest = self.pattern[self.at :]
        return (text, rest == "+") if rest in ("", "+") else None

    # -- repetition --------------------------------------------------------------------------------------------------
    def repeated(self, text: str, empty: bool) -> tuple[str, bool]:
        start = self.at
        operator = self.operator()
        if not operator:
            return text, empty
        if self.operator():
            raise PatternError(f"bad repetition operator: {self.pattern[start : self.at]}")
        lazy = operator.endswith("?") and len(operator) > 1
        count = operator[:-1] if lazy else operator
        lazy = lazy != ("U" in self.flags)
        zero = count in ("*", "?") or re.match(r"\{0+[,}]", count) is not None
        return f"(?:{text}){count}{'?' if lazy else ''}", empty or zero

    def operator(self) -> str:
        """The repetition operator at this position, with its `?`, or nothing."""
        start, counted = self.at, _REPEAT.match(self.pattern, self.at)
        if self.pattern[start : start + 1] in ("*", "+", "?"):
            self.at += 1
        elif counted:
            low, high = int(counted.group(1)), int(counted.group(3) or counted.group(1))
            if low > _MOST_REPEATS or high > _MOST_REPEATS or high < low:
                raise PatternError(f"invalid repetition size: {counted.group()}")
            self.at = counted.end()
        else:
            return ""
        self.at += self.next_is("?")
        return self.pattern[start : self.at]


def _escaped(code: int) -> str:
    char = chr(code)
    return char if char.isalnum() else f"\\U{code:08x}" if code > 0xFF else f"\\x{code:02x}"


def _ranges_text(ranges: Sequence[Range]) -> str:
    return "".join(_escaped(a) if a == b else f"{_escaped(a)}-{_escaped(b)}" for a, b in sorted(ranges))


class Regex:
    """A compiled pattern of RE2.

    >>> Regex(r"[0-9]+").replace([b"a1b22", b"c"], rb"<\\0>")
    [b'a<1>b<22>', b'c']
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        translated = _Translator(pattern)
        text, self._can_be_empty = translated.whole()
        self._groups = translated.groups
        self._text = re.compile(text)
        self._joined = self._class = None
        self._has_runs = False
        if pattern.isascii() and "\0" not in pattern:
            joined = _Translator(pattern, joined=True).whole()[0].encode()
            self._joined, self._between = re.compile(joined), b"%b(?:%b)(?=%b)" % (_JOIN, joined, _JOIN)
            self._class, self._has_runs = _Translator(pattern, joined=True).only_class() or (None, False)

    def replace(self, texts: Sequence[bytes], rewrite: bytes, everywhere: bool = True) -> list[bytes]:
        """Replace every match, or the first one in each string; `\\1` in the rewrite is the match of a group."""
        pieces = self._rewrite_pieces(rewrite, everywhere)
        if pieces is None:
            return list(texts)
        if everywhere and not self._can_be_empty and self._joined is not None and len(texts):
            whole = _JOIN.join(texts)
            if whole.isascii() and whole.count(_JOIN) == len(texts) - 1 and _JOIN not in rewrite:
                return self._joined.sub(_template(pieces).encode(), whole).split(_JOIN)
        return [_bytes(self._replaced(_text(text), pieces, everywhere)) for text in texts]

    def replace_class(self, texts: Packed, rewrite: bytes) -> Packed | None:
        """Replace every match of a pattern that is one class of characters, or a run of it; None for what is not that.

        >>> Regex("[a-c]+").replace_class(Packed([b"abxc", b"y"]), b"-").rows
        [b'-x-', b'y']
        """
        pieces = self._rewrite_pieces(rewrite, everywhere=True)
        if self._class is None or pieces is None or not all(isinstance(piece, str) for piece in pieces):
            return None
        if _JOIN in rewrite or not len(texts) or not texts.is_ascii:
            return None
        whole = texts.joined(_JOIN)
        data = whole.bytes[: int(whole.ends[-1])].tobytes()
        if data.count(_JOIN) != len(texts) - 1:
            return None
        new, members = "".join(map(str, pieces)).encode(), _members(self._class)
        return Packed.between(_replaced_bytes(data, members, new, self._has_runs), _JOIN)

    def full_match(self, texts: Packed) -> ndarray:
        """Whether the pattern matches each text from its start to its end.

        >>> Regex("a.*b").full_match(Packed([b"ab", b"abc"])).tolist()
        [True, False]
        """
        if self._joined is not None and texts.is_ascii and len(texts):
            whole = texts.joined(_JOIN)
            data = _JOIN + whole.bytes[: int(whole.ends[-1])].tobytes() + _JOIN
            if data.count(_JOIN) == len(texts) + 1:
                places = [match.start() for match in re.compile(self._between).finditer(data)]
                found = np.zeros(len(texts), bool)
                found[np.searchsorted(whole.starts, places)] = True
                return found
        return np.array([self._text.fullmatch(_text(text)) is not None for text in texts.rows], bool)

    def _rewrite_pieces(self, rewrite: bytes, everywhere: bool) -> list[str | int] | None:
        """The parts of a rewrite: strings, and numbers of groups. None if RE2 replaces nothing."""
        pieces: list[str | int] = []
        text = _text(rewrite)
        at = 0
        for escape in re.finditer(r"\\(.?)", text, re.DOTALL):
            pieces.append(text[at : escape.start()])
            at = escape.end()
            what = escape.group(1)
            if what == "\\":
                pieces.append("\\")
            elif what and what in "0123456789":
                pieces.append(int(what))
                if int(what) > self._groups:
                    return None
            else:  # RE2 stops here, and logs that the rewrite is invalid
                return pieces if everywhere else None
        return [*pieces, text[at:]]

    def _replaced(self, text: str, pieces: list[str | int], everywhere: bool) -> str:
        if not self._can_be_empty:
            return self._text.sub(_template(pieces), text, 0 if everywhere else 1)
        found, at, last = [], 0, -1
        while at <= len(text):
            match = self._text.search(text, at)
            if match is None:
                break
            found.append(text[at : match.start()])
            at = match.start()
            if match.end() == at == last:  # empty, at the end of the previous match: continue after the next character
                found.append(text[at : at + 1])
                at += 1
                continue
            found.append("".join(p if isinstance(p, str) else match.group(p) or "" for p in pieces))
            at = last = match.end()
            if not everywhere:
                break
        return "".join(found) + text[at:]


@functools.lru_cache(maxsize=512)
def _members(text: str) -> bytes:
    """The ASCII characters that a class of Python's matches."""
    matches = re.compile(text.encode()).fullmatch
    return bytes([i for i in range(1, 128) if matches(bytes([i]))])


def _replaced_bytes(data: bytes, members: bytes, new: bytes, runs: bool) -> bytes:
    """Bytes with each of some members, or each run of them, replaced.

    >>> _replaced_bytes(b"aabca", b"ab", b"--", False), _replaced_bytes(b"aabca", b"ab", b"--", True)
    (b'------c--', b'--c--')
    """
    if not members or not data:
        return data
    if not runs and len(new) == 1:
        return data.translate(bytes.maketrans(members, new * len(members)))
    if not runs and not new:
        return data.translate(None, members)
    among = np.frombuffer(data.translate(_truth(members)), bool)
    found = np.frombuffer(data, np.uint8)
    counts = np.where(among, len(new), 1)
    if runs:
        counts[1:][among[1:] & among[:-1]] = 0
        among = among & (np.concatenate([[True], ~among[:-1]]))
    result = np.repeat(found, counts)
    starts = (np.cumsum(counts) - counts)[among]
    for i, byte in enumerate(new):
        result[starts + i] = byte
    return result.tobytes()


@functools.lru_cache(maxsize=512)
def _truth(members: bytes) -> bytes:
    """The table that translates some bytes to 1, and the others to 0."""
    return bytes([i in members for i in range(256)])


def _template(pieces: list[str | int]) -> str:
    """The parts of a rewrite in Python's syntax."""
    return "".join(p.replace("\\", "\\\\") if isinstance(p, str) else f"\\g<{p}>" for p in pieces)


def _text(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


compiled: Callable[[str], Regex] = functools.lru_cache(maxsize=512)(Regex)
