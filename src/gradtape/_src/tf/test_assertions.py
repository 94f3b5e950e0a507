"""Assertions of TensorFlow's test cases about Python values: containers, strings, numbers and errors."""

from __future__ import annotations

import difflib
import itertools
import json
import os
import re
import subprocess
import tempfile
import unittest
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

from gradtape._src.interrupts import contextmanager

__all__ = ["Assertions"]


class Assertions(unittest.TestCase):
    """A test case with assertions of containers, texts, numbers and errors."""

    maxDiff = None

    # -- containers --------------------------------------------------------------------------------------------------
    def assertLen(self, container: Any, expected_len: int, msg: Any = None) -> None:
        """Assert that a container has this many elements."""
        if len(container) != expected_len:
            self.fail(
                self._formatMessage(msg, f"{container!r} has length of {len(container)}, expected {expected_len}.")
            )

    def assertEmpty(self, container: Any, msg: Any = None) -> None:
        """Assert that a container is empty."""
        if not hasattr(container, "__len__"):
            self.fail(self._formatMessage(msg, f"Expected a Sized object, got: {type(container).__name__!r}"))
        if len(container):
            self.fail(self._formatMessage(msg, f"{container!r} has length of {len(container)}."))

    def assertNotEmpty(self, container: Any, msg: Any = None) -> None:
        """Assert that a container is not empty."""
        if not hasattr(container, "__len__"):
            self.fail(self._formatMessage(msg, f"Expected a Sized object, got: {type(container).__name__!r}"))
        if not len(container):
            self.fail(self._formatMessage(msg, f"{container!r} has length of 0."))

    def assertItemsEqual(self, first: Any, second: Any, msg: Any = None) -> None:
        """Assert that two iterables have the same elements with the same counts, in any order."""
        self.assertCountEqual(first, second, msg)

    def assertSameElements(self, expected_seq: Any, actual_seq: Any, msg: Any = None) -> None:
        """Assert that two iterables have the same elements, in any order and with any counts."""
        for given in (expected_seq, actual_seq):
            if isinstance(given, str):
                self.fail(self._formatMessage(msg, f"A string does not count as a sequence of elements: {given!r}"))
        expected, actual = list(expected_seq), list(actual_seq)
        missing = [x for x in expected if x not in actual]
        unexpected = [x for x in actual if x not in expected]
        if missing or unexpected:
            self.fail(self._formatMessage(msg, f"Missing elements: {missing}; unexpected elements: {unexpected}"))

    def assertContainsSubset(self, expected_subset: Any, actual_set: Any, msg: Any = None) -> None:
        """Assert that all expected elements are in a set."""
        missing = set(expected_subset) - set(actual_set)
        if missing:
            text = f"Missing elements {missing}\nExpected: {expected_subset}\nActual: {actual_set}"
            self.fail(self._formatMessage(msg, text))

    def assertNoCommonElements(self, expected_seq: Any, actual_seq: Any, msg: Any = None) -> None:
        """Assert that two iterables have no element in common."""
        common = set(expected_seq) & set(actual_seq)
        if common:
            self.fail(
                self._formatMessage(msg, f"Common elements {common}\nExpected: {expected_seq}\nActual: {actual_seq}")
            )

    def assertSequenceStartsWith(self, prefix: Any, whole: Any, msg: Any = None) -> None:
        """Assert that a sequence starts with the elements of another one."""
        wanted = list(prefix) if isinstance(prefix, Sequence) and not isinstance(prefix, str) else [prefix]
        if not wanted:
            self.fail("Prefix length must be positive.")
        if list(whole[: len(wanted)]) != wanted:
            self.fail(self._formatMessage(msg, f"prefix: {prefix} not found at start of whole: {whole}."))

    def assertContainsSubsequence(self, container: Any, subsequence: Any, msg: Any = None) -> None:
        """Assert that a container has these elements in order, possibly with others between them."""
        remaining = iter(container)
        if not all(any(x == wanted for x in remaining) for wanted in subsequence):
            self.fail(self._formatMessage(msg, f"{subsequence} not a subsequence of {container}."))

    def assertContainsExactSubsequence(self, container: Any, subsequence: Any, msg: Any = None) -> None:
        """Assert that a container has these elements in order, one after the other."""
        items, wanted = list(container), list(subsequence)
        if not any(items[i : i + len(wanted)] == wanted for i in range(len(items) - len(wanted) + 1)):
            self.fail(self._formatMessage(msg, f"{subsequence} not an exact subsequence of {container}."))

    def assertContainsInOrder(self, strings: Any, target: str, msg: Any = None) -> None:
        """Assert that strings occur in another one, in this order."""
        at = 0
        for text in [strings] if isinstance(strings, str) else strings:
            found = target.find(text, at)
            if found < 0:
                self.fail(self._formatMessage(msg, f"Did not find {text!r} in {target!r} at or after position {at}."))
            at = found + len(text)

    def assertTotallyOrdered(self, *groups: Any, **kwargs: Any) -> None:
        """Assert that each group of equal values is less than the next one, by all comparisons."""
        for lower, upper in itertools.combinations(groups, 2):
            for a, b in itertools.product(lower, upper):
                ok = a < b and b > a and a <= b and b >= a and a != b and not (a == b or a > b or b < a)
                if not ok:
                    self.fail(self._formatMessage(kwargs.get("msg"), f"{a!r} should be less than {b!r}"))
        for group in groups:
            for a, b in itertools.product(group, group):
                if not (a == b and a <= b and a >= b and not (a != b or a < b or a > b)):
                    self.fail(self._formatMessage(kwargs.get("msg"), f"{a!r} should be equal to {b!r}"))

    def assertMappingEqual(
        self,
        a: Any,
        b: Any,
        msg: Any = None,
        mapping_type: type = Mapping,
        check_values_equality: Callable[[Any, Any], bool] = lambda x, y: x is y or bool(x == y),
    ) -> None:
        """Assert that two mappings have equal keys and values."""
        for given in (a, b):
            if not isinstance(given, mapping_type):
                self.fail(self._formatMessage(msg, f"Expected a {mapping_type.__name__}, got {type(given).__name__}"))
        different = [key for key in a if key not in b or not check_values_equality(a[key], b[key])]
        missing = [key for key in b if key not in a]
        if different or missing:
            self.fail(self._formatMessage(msg, f"{a} != {b}; different: {different}, missing: {missing}"))

    def _almost(self, x: Any, y: Any, places: int | None, delta: Any, msg: Any) -> None:
        tolerance: Any = {"places": places} if delta is None else {"delta": delta}
        self.assertAlmostEqual(x, y, msg=msg, **tolerance)

    def assertDictAlmostEqual(
        self, a: Any, b: Any, places: int | None = None, msg: Any = None, delta: float | None = None
    ) -> None:
        """Assert that two dicts have equal keys and almost equal numbers."""
        self.assertEqual(set(a), set(b), msg)
        for key in a:
            self._almost(a[key], b[key], places, delta, self._formatMessage(msg, f"at {key!r}"))

    def assertSequenceAlmostEqual(
        self, expected_seq: Any, actual_seq: Any, places: int | None = None, msg: Any = None, delta: float | None = None
    ) -> None:
        """Assert that two sequences have almost equal numbers."""
        expected, actual = list(expected_seq), list(actual_seq)
        self.assertEqual(len(expected), len(actual), msg)
        for i, (x, y) in enumerate(zip(expected, actual, strict=True)):
            self._almost(x, y, places, delta, self._formatMessage(msg, f"at index {i}"))

    def assertDataclassEqual(self, first: Any, second: Any, msg: Any = None) -> None:
        """Assert that two dataclasses have the same class and equal fields."""
        self.assertIs(type(first), type(second), msg)
        self.assertEqual(vars(first), vars(second), msg)

    def assertIsSubclass(self, cls: type, superclass: type, msg: Any = None) -> None:
        """Assert that a class is derived from another one."""
        if not issubclass(cls, superclass):
            self.fail(self._formatMessage(msg, f"{cls.__name__} is not a subclass of {superclass.__name__}"))

    def assertNotIsSubclass(self, cls: type, superclass: type, msg: Any = None) -> None:
        """Assert that a class is not derived from another one."""
        if issubclass(cls, superclass):
            self.fail(self._formatMessage(msg, f"{cls.__name__} is a subclass of {superclass.__name__}"))

    # -- texts -------------------------------------------------------------------------------------------------------
    def assertStartsWith(self, actual: str, expected_start: str, msg: Any = None) -> None:
        """Assert that a string starts with another one."""
        if not actual.startswith(expected_start):
            self.fail(self._formatMessage(msg, f"{actual!r} does not start with {expected_start!r}"))

    def assertNotStartsWith(self, actual: str, unexpected_start: str, msg: Any = None) -> None:
        """Assert that a string does not start with another one."""
        if actual.startswith(unexpected_start):
            self.fail(self._formatMessage(msg, f"{actual!r} does start with {unexpected_start!r}"))

    def assertEndsWith(self, actual: str, expected_end: str, msg: Any = None) -> None:
        """Assert that a string ends with another one."""
        if not actual.endswith(expected_end):
            self.fail(self._formatMessage(msg, f"{actual!r} does not end with {expected_end!r}"))

    def assertNotEndsWith(self, actual: str, unexpected_end: str, msg: Any = None) -> None:
        """Assert that a string does not end with another one."""
        if actual.endswith(unexpected_end):
            self.fail(self._formatMessage(msg, f"{actual!r} does end with {unexpected_end!r}"))

    def assertRegexMatch(self, actual_str: Any, regexes: Any, message: Any = None) -> None:
        """Assert that at least one regular expression matches a part of a string."""
        if not any(re.search(regex, actual_str) for regex in regexes):
            self.fail(self._formatMessage(message, f"{actual_str!r} matches none of {list(regexes)}"))

    def assertJsonEqual(self, first: str, second: str, msg: Any = None) -> None:
        """Assert that two strings contain the same JSON value."""
        self.assertEqual(json.loads(first), json.loads(second), msg)

    def assertUrlEqual(self, a: str, b: str, msg: Any = None) -> None:
        """Assert that two URLs are equal, with parameters in any order."""
        one, other = urlsplit(a), urlsplit(b)
        self.assertEqual(one[:3], other[:3], msg)
        self.assertEqual(parse_qs(one.query), parse_qs(other.query), msg)
        self.assertEqual(one.fragment, other.fragment, msg)

    def assertMultiLineEqual(self, first: str, second: str, msg: Any = None, **kwargs: Any) -> None:
        """Assert that two strings are equal, and show a difference line by line."""
        if first != second:
            lines = difflib.unified_diff(first.splitlines(), second.splitlines(), "first", "second", lineterm="")
            self.fail(self._formatMessage(msg, "\n".join(lines)))

    # -- numbers -----------------------------------------------------------------------------------------------------
    def assertBetween(self, value: Any, minv: Any, maxv: Any, msg: Any = None) -> None:
        """Assert that a value is between two others, or equal to one of them."""
        if not minv <= value <= maxv:
            self.fail(self._formatMessage(msg, f"{value!r} unexpectedly not between {minv!r} and {maxv!r}"))

    # -- errors ------------------------------------------------------------------------------------------------------
    def assertRaisesWithLiteralMatch(
        self,
        expected_exception: Any,
        expected_exception_message: str,
        callable_obj: Callable[..., Any] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Assert that a function, or a `with` block, raises an error with this message."""
        block = self._raising(expected_exception, lambda error: str(error) == expected_exception_message,
                              f"an error with the message {expected_exception_message!r}")  # fmt: skip
        if callable_obj is None:
            return block
        with block:
            callable_obj(*args, **kwargs)
        return None

    @contextmanager
    def _raising(self, kind: Any, accepts: Callable[[Exception], bool], wanted: str) -> Iterator[Any]:
        """A context for code that raises an error which `accepts`."""
        caught = _Caught()
        try:
            yield caught
        except kind as error:
            caught.exception = error
            if not accepts(error):
                raise AssertionError(f"Expected {wanted}, got {type(error).__name__}: {error}") from error
        else:
            raise AssertionError(f"Expected {wanted} ({getattr(kind, '__name__', kind)}), but nothing was raised.")

    # -- files and programs ------------------------------------------------------------------------------------------
    def create_tempdir(self, name: str | None = None, cleanup: Any = None) -> TemporaryFolder:
        """Create a folder for this test."""
        path = os.path.join(self.get_temp_dir(), name) if name else tempfile.mkdtemp(dir=self.get_temp_dir())
        os.makedirs(path, exist_ok=True)
        return TemporaryFolder(path)

    def create_tempfile(
        self,
        file_path: str | None = None,
        content: Any = None,
        mode: str = "w",
        encoding: str = "utf8",
        errors: str = "strict",
        cleanup: Any = None,
    ) -> TemporaryFile:
        """Create a file for this test."""
        path = os.path.join(self.get_temp_dir(), file_path or next(tempfile._get_candidate_names()))  # type: ignore[attr-defined]
        os.makedirs(os.path.dirname(path), exist_ok=True)
        made = TemporaryFile(path)
        if isinstance(content, bytes) or "b" in mode:
            made.write_bytes(content or b"")
        else:
            made.write_text(content or "")
        return made

    def get_temp_dir(self) -> str:
        """Return the folder of this test, which is the same at every call."""
        if not hasattr(self, "_folder"):
            self._folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
            self.addCleanup(_remove, self._folder)
        return self._folder

    def enter_context(self, manager: Any) -> Any:
        """Enter a context until the end of the test."""
        value = manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        return value

    def _output_of(self, command: Any, env: Any) -> tuple[int, bytes]:
        arguments = ["/bin/sh", "-c", command] if isinstance(command, str) else command
        ended = subprocess.run(arguments, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return ended.returncode, ended.stdout

    def assertCommandSucceeds(
        self, command: Any, regexes: Any = (b"",), env: Any = None, close_fds: bool = True, msg: Any = None
    ) -> None:
        """Assert that a command succeeds, and that its output matches at least one regular expression."""
        status, output = self._output_of(command, env)
        self.assertEqual(status, 0, self._formatMessage(msg, output.decode("utf-8", "replace")))
        self.assertRegexMatch(output, [r.encode() if isinstance(r, str) else r for r in regexes], msg)

    def assertCommandFails(
        self, command: Any, regexes: Any, env: Any = None, close_fds: bool = True, msg: Any = None
    ) -> None:
        """Assert that a command fails, and that its output matches at least one regular expression."""
        status, output = self._output_of(command, env)
        self.assertNotEqual(status, 0, self._formatMessage(msg, "the command succeeded"))
        self.assertRegexMatch(output, [r.encode() if isinstance(r, str) else r for r in regexes], msg)

    @contextmanager
    def captureWritesToStream(self, stream: Any) -> Iterator[Captured]:
        """Capture the output of a `with` block to `sys.stdout` or `sys.stderr`, also from other libraries."""
        handle, captured = stream.fileno(), Captured()
        with tempfile.TemporaryFile() as file:
            stream.flush()
            before = os.dup(handle)
            try:
                os.dup2(file.fileno(), handle)
                yield captured
            finally:
                stream.flush()
                os.dup2(before, handle)
                os.close(before)
            file.seek(0)
            captured.text = file.read().decode("utf-8", "replace")


class _Caught:
    """The error raised in a `with` block."""

    exception: Exception | None = None


class Captured:
    """The output of a `with` block."""

    text = ""

    def contents(self) -> str:
        """Return the captured text."""
        return self.text


class TemporaryFolder:
    """A folder of a test."""

    def __init__(self, path: str) -> None:
        self.full_path = path

    def __fspath__(self) -> str:
        return self.full_path

    def create_file(self, file_path: str | None = None, content: Any = "", mode: str = "w") -> TemporaryFile:
        """Create a file in the folder."""
        made = TemporaryFile(os.path.join(self.full_path, file_path or next(tempfile._get_candidate_names())))  # type: ignore[attr-defined]
        os.makedirs(os.path.dirname(made.full_path), exist_ok=True)
        made.write_bytes(content) if isinstance(content, bytes) else made.write_text(content or "")
        return made

    def mkdir(self, dir_path: str | None = None) -> TemporaryFolder:
        """Create a folder in the folder."""
        path = os.path.join(self.full_path, dir_path) if dir_path else tempfile.mkdtemp(dir=self.full_path)
        os.makedirs(path, exist_ok=True)
        return TemporaryFolder(path)


class TemporaryFile:
    """A file of a test."""

    def __init__(self, path: str) -> None:
        self.full_path = path

    def __fspath__(self) -> str:
        return self.full_path

    def read_text(self) -> str:
        """Return the content as text."""
        with open(self.full_path, encoding="utf-8") as file:
            return file.read()

    def write_text(self, text: str) -> None:
        """Replace the content."""
        with open(self.full_path, "w", encoding="utf-8") as file:
            file.write(text)

    def read_bytes(self) -> bytes:
        """Return the content as bytes."""
        with open(self.full_path, "rb") as file:
            return file.read()

    def write_bytes(self, data: bytes) -> None:
        """Replace the content."""
        with open(self.full_path, "wb") as file:
            file.write(data)


def _remove(folder: str) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
