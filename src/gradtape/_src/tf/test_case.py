"""`tf.test.TestCase`: Python's test case with assertions about tensors; `main` and `Benchmark`."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import json
import random
import re
import sys
import threading
import time
import unittest
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy import ndarray

from gradtape._src import errors, nest
from gradtape._src.arrays.symbolic import default_graph
from gradtape._src.dtypes import as_dtype
from gradtape._src.indexed_slices import IndexedSlices
from gradtape._src.interrupts import contextmanager, float_errors_ignored
from gradtape._src.ops.ragged.tensor import RaggedTensor
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.tensor import Tensor
from gradtape._src.tf import random as tf_random
from gradtape._src.tf.protos import DeviceSpec
from gradtape._src.tf.test_assertions import Assertions
from gradtape._src.variable import Variable

__all__ = [
    "Benchmark",
    "TestCase",
    "assert_equal_graph_def",
    "disable_with_predicate",
    "main",
    "with_eager_op_as_function",
]

_SEED = 87654321  # TensorFlow's, for tests that compare with its random numbers


class SparseTensorValue(NamedTuple):
    """A sparse tensor as arrays."""

    indices: ndarray
    values: ndarray
    dense_shape: ndarray


class IndexedSlicesValue(NamedTuple):
    """IndexedSlices as arrays."""

    values: ndarray
    indices: ndarray
    dense_shape: ndarray | None


class RaggedTensorValue:
    """A ragged tensor as arrays: the values, and where rows start and end."""

    def __init__(self, values: Any, row_splits: ndarray) -> None:
        self.values, self.row_splits = values, row_splits

    @property
    def flat_values(self) -> Any:
        """The innermost values."""
        return self.values.flat_values if isinstance(self.values, RaggedTensorValue) else self.values

    def to_list(self) -> list[Any]:
        """The rows as nested lists."""
        inner = self.values.to_list() if isinstance(self.values, RaggedTensorValue) else self.values.tolist()
        return [inner[a:b] for a, b in zip(self.row_splits[:-1], self.row_splits[1:], strict=True)]

    def __repr__(self) -> str:
        return f"tf.RaggedTensorValue(values={self.values!r}, row_splits={self.row_splits!r})"


def _value_of(leaf: Any) -> Any:
    """Convert a tensor of any kind to NumPy arrays."""
    if leaf is None or isinstance(leaf, (SparseTensorValue, IndexedSlicesValue, RaggedTensorValue)):
        return leaf
    if isinstance(leaf, SparseTensor):
        return SparseTensorValue(leaf.indices.numpy(), leaf.values.numpy(), leaf.dense_shape.numpy())
    if isinstance(leaf, IndexedSlices):
        shape = None if leaf.dense_shape is None else _value_of(leaf.dense_shape)
        return IndexedSlicesValue(_value_of(leaf.values), _value_of(leaf.indices), shape)
    if isinstance(leaf, RaggedTensor):
        return RaggedTensorValue(_value_of(leaf.values), leaf.row_splits.numpy())
    if callable(leaf):
        return evaluated(leaf())
    if not hasattr(leaf, "numpy"):
        raise ValueError(f"Unsupported type {type(leaf)}.")
    return leaf.numpy()


def evaluated(tensors: Any) -> Any:
    """Convert a structure of tensors to NumPy arrays."""
    return _value_of(tensors) if tensors is None else nest.map_structure(_value_of, tensors)


class _EagerSession:
    """The result of `session()` in eager code: `run` returns the values of tensors."""

    def run(self, fetches: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the values of tensors. Eager code has no feeds."""
        if (args and args[0]) or kwargs.get("feed_dict"):
            raise NotImplementedError("feed_dict is not implemented with eager execution.")
        return evaluated(fetches)

    def as_default(self) -> Any:
        """Return a `with` block without effect."""
        return contextlib.nullcontext(self)

    graph = None


def _session_of(graph: Any) -> Any:
    """A session of a graph, which is the default one inside of it; eager code has one that runs nothing."""
    from gradtape._src.tf.v1.graphs.graph import default_session
    from gradtape._src.tf.v1.graphs.session import Session

    if graph is None and default_graph() is None:
        return contextlib.nullcontext(_EagerSession())
    found = default_session()
    if found is not None and graph in (None, found.graph):
        return contextlib.nullcontext(found)
    return Session(graph=graph)


class TestCase(Assertions):
    """Python's `unittest.TestCase` with TensorFlow's assertions. Each test starts with the same random seeds.

    >>> import gradtape as tf, io, unittest
    >>> class SquareTest(tf.test.TestCase):
    ...     def test_square(self):
    ...         self.assertAllClose(tf.square([1.0, 2.0]), [1.0, 4.0])
    >>> result = unittest.TextTestRunner(stream=io.StringIO()).run(SquareTest("test_square"))
    >>> result.wasSuccessful()
    True

    >>> case = tf.test.TestCase()
    >>> x = tf.constant([1.0, 2.0])
    >>> case.assertAllEqual(x, [1.0, 2.0])
    >>> case.assertAllCloseAccordingToType(x, [1.0, 2.0000001])
    >>> case.assertAllGreater(x, 0.5)
    >>> case.assertAllGreaterEqual(x, 1.0)
    >>> case.assertAllLess(x, 3.0)
    >>> case.assertAllLessEqual(x, 2.0)
    >>> case.assertAllInRange(x, 1.0, 2.0)
    >>> case.assertAllInSet(x, {1.0, 2.0})
    >>> case.assertArrayNear([1.0], [1.1], err=0.2)
    >>> case.assertNDArrayNear(np.ones(2), np.ones(2), err=0.1)
    >>> case.assertNear(1.0, 1.1, err=0.2)
    >>> case.assertNotAllClose(x, [5.0, 5.0])
    >>> case.assertNotAllEqual(x, [1.0, 3.0])
    >>> case.assertShapeEqual(np.ones(2), x)
    >>> case.assertDTypeEqual(x, np.float32)
    >>> case.assertDeviceEqual("/CPU:0", "/device:CPU:0")
    >>> case.assertSameStructure({"a": 1}, {"a": 1})
    >>> with case.assertRaisesOpError("Incompatible shapes"):
    ...     _ = x + tf.ones([3])
    >>> with case.assertRaisesIncompatibleShapesError():
    ...     _ = x + tf.ones([3])
    >>> with case.assertRaisesWithPredicateMatch(ValueError, "bad"):
    ...     raise ValueError("bad")
    >>> case.evaluate(x).tolist()
    [1.0, 2.0]
    >>> with case.session() as session:
    ...     session.run(x).tolist()
    [1.0, 2.0]
    """

    __test__: Any = False  # pytest collects the subclasses, not this class

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__test__" not in cls.__dict__:
            cls.__test__ = True

    def __init__(self, methodName: str = "runTest") -> None:
        super().__init__(methodName)
        self._threads: list[_CheckedThread] = []

    def setUp(self) -> None:
        """Set the seeds of Python, NumPy and TensorFlow's functions."""
        super().setUp()
        random.seed(_SEED)
        np.random.seed(_SEED)
        tf_random.set_seed(_SEED)

    def tearDown(self) -> None:
        """Check that the threads of the test were joined."""
        for thread in self._threads:
            thread.check_termination()
        super().tearDown()

    # -- running -----------------------------------------------------------------------------------------------------
    def evaluate(self, tensors: Any) -> Any:
        """Convert tensors, or a structure of them, to NumPy arrays. Functions are called. Tensors of a graph are
        computed by the session around it.
        """
        if default_graph() is None:
            return evaluated(tensors)
        with _session_of(None) as session:
            return session.run(tensors)

    @contextmanager
    def session(
        self, graph: Any = None, config: Any = None, use_gpu: bool = True, force_gpu: bool = False
    ) -> Iterator[Any]:
        """Open a `with` block for code that expects a session; `run` returns the values of tensors.

        Inside of `graph.as_default()` it is a session of the graph.
        """
        with _session_of(graph) as session:
            yield session

    @contextmanager
    def cached_session(
        self, graph: Any = None, config: Any = None, use_gpu: bool = True, force_gpu: bool = False
    ) -> Iterator[Any]:
        """Open a `with` block for code that expects a session; `run` returns the values of tensors.

        >>> with tf.test.TestCase().cached_session() as session:
        ...     session.run(tf.constant(3)).item()
        3
        """
        with _session_of(graph) as session:
            yield session

    def test_session(self, *args: Any, **kwargs: Any) -> Any:
        """Open a session: the older name of `session`, which looks like a test but is not one."""
        if self.id().endswith(".test_session"):
            self.skipTest("Not a test.")
        return self.session(*args, **kwargs)

    def checkedThread(self, target: Callable[..., Any], args: Any = None, kwargs: Any = None) -> _CheckedThread:
        """Create a thread whose errors become errors of the test.

        >>> case = tf.test.TestCase()
        >>> case.setUp()
        >>> thread = case.checkedThread(target=case.assertEqual, args=(1, 1))
        >>> thread.start()
        >>> thread.join()
        >>> case.tearDown()
        """
        made = _CheckedThread(self, target, args or (), kwargs or {})
        self._threads.append(made)
        return made

    # -- values ------------------------------------------------------------------------------------------------------
    def _array(self, value: Any) -> ndarray:
        if isinstance(value, (Tensor, Variable, IndexedSlices)) or callable(value):
            value = evaluated(value)
        if isinstance(value, IndexedSlicesValue):
            raise self.failureException("IndexedSlices are not an array: use tf.convert_to_tensor.")
        if isinstance(value, (list, tuple)):
            value = [item if isinstance(item, (str, bytes)) or callable(item) else self._array(item) for item in value]
        return value if isinstance(value, ndarray) else np.array(value)

    def _compared(self, a: Any, b: Any, same: Callable[[ndarray, ndarray], Any], what: str, msg: Any) -> None:
        """Fail if two arrays are not the `same`, and report where they differ."""
        one, other = self._array(a), self._array(b)
        if one.shape != other.shape:
            self.fail(self._formatMessage(msg, f"Shape mismatch: expected {one.shape}, got {other.shape}."))
        different = ~np.asarray(same(one, other))
        if not different.any():
            return
        places = np.argwhere(np.atleast_1d(different))
        first = [tuple(int(i) for i in place) for place in places[:10]]
        shown = "\n".join(
            f"  at {list(place)}: {np.atleast_1d(one)[place]!r} and {np.atleast_1d(other)[place]!r}" for place in first
        )
        more = f"\n  and {len(places) - 10} more" if len(places) > 10 else ""
        text = f"Arrays are {what} at {len(places)} of {max(1, one.size)} positions.\n{shown}{more}"
        self.fail(self._formatMessage(msg, text))

    def assertAllClose(self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: Any = None) -> None:
        """Assert that two structures of tensors or arrays are close: |a - b| <= atol + rtol * |b|. NaN equals NaN."""
        self._all_close(a, b, rtol, atol, msg, ())

    def _all_close(self, a: Any, b: Any, rtol: float, atol: float, msg: Any, path: tuple[Any, ...]) -> None:
        where = self._formatMessage(msg, f"at {''.join(f'[{part!r}]' for part in path)}") if path else msg
        a, b = _as_dict(a), _as_dict(b)
        if isinstance(a, Mapping) or isinstance(b, Mapping):
            if not isinstance(a, Mapping) or not isinstance(b, Mapping) or set(a) != set(b):
                keys = [sorted(map(str, x)) if isinstance(x, Mapping) else type(x).__name__ for x in (a, b)]
                self.fail(self._formatMessage(where, f"Can't compare dict with different keys: {keys[0]} vs {keys[1]}"))
            for key in a:
                self._all_close(a[key], b[key], rtol, atol, msg, (*path, key))
        elif _is_ragged(a) or _is_ragged(b):
            self._all_close(_rows_of(a), _rows_of(b), rtol, atol, msg, path)
        elif _are_structures(a, b):
            self.assertEqual(len(a), len(b), self._formatMessage(where, f"{len(a)} elements and {len(b)}"))
            for i, (x, y) in enumerate(zip(a, b, strict=True)):
                self._all_close(x, y, rtol, atol, msg, (*path, i))
        else:
            self._compared(a, b, functools.partial(_is_close, rtol=rtol, atol=atol), "not close", where)

    def assertNotAllClose(self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: Any = None) -> None:
        """Assert that two tensors or arrays are not close."""
        try:
            self.assertAllClose(a, b, rtol, atol)
        except AssertionError:
            return
        self.fail(self._formatMessage(msg, "The two values are close at all elements."))

    def assertAllCloseAccordingToType(
        self,
        a: Any,
        b: Any,
        rtol: float = 1e-6,
        atol: float = 1e-6,
        float_rtol: float = 1e-6,
        float_atol: float = 1e-6,
        half_rtol: float = 1e-3,
        half_atol: float = 1e-3,
        bfloat16_rtol: float = 1e-2,
        bfloat16_atol: float = 1e-2,
        msg: Any = None,
    ) -> None:
        """Assert closeness like `assertAllClose`, with tolerances for the less precise of two dtypes."""
        kinds = {as_dtype(self._array(x).dtype).name for x in (a, b)}
        for names, relative, absolute in (
            (("float32", "complex64"), float_rtol, float_atol),
            (("float16",), half_rtol, half_atol),
            (("bfloat16",), bfloat16_rtol, bfloat16_atol),
        ):
            if kinds & set(names):
                rtol, atol = max(rtol, relative), max(atol, absolute)
        self.assertAllClose(a, b, rtol, atol, msg)

    def assertAllEqual(self, a: Any, b: Any, msg: Any = None) -> None:
        """Assert that two tensors or arrays have equal elements; NaN equals NaN, and a str equals its bytes."""
        if _is_ragged(a) or _is_ragged(b):
            one, other = _rows_of(a), _rows_of(b)
            self.assertEqual(_plain(one), _plain(other), msg)
            return
        self._compared(a, b, _is_equal, "not equal", msg)

    def assertNotAllEqual(self, a: Any, b: Any, msg: Any = None) -> None:
        """Assert that two tensors or arrays are not equal."""
        try:
            self.assertAllEqual(a, b)
        except AssertionError:
            return
        self.fail(self._formatMessage(msg, f"The two values are equal at all elements. {msg or ''}".strip()))

    def _all(self, a: Any, holds: Callable[[ndarray], Any], text: str) -> None:
        values = self._array(a)
        wrong = values[~np.asarray(holds(values))]
        if wrong.size:
            self.fail(f"{text}: {wrong.size} of {values.size} elements are not, such as {wrong.ravel()[:10].tolist()}.")

    def assertAllGreater(self, a: Any, comparison_target: Any) -> None:
        """Assert that all elements are greater than a number."""
        self._all(a, lambda x: x > comparison_target, f"All elements should be greater than {comparison_target}")

    def assertAllLess(self, a: Any, comparison_target: Any) -> None:
        """Assert that all elements are less than a number."""
        self._all(a, lambda x: x < comparison_target, f"All elements should be less than {comparison_target}")

    def assertAllGreaterEqual(self, a: Any, comparison_target: Any) -> None:
        """Assert that all elements are at least a number."""
        self._all(a, lambda x: x >= comparison_target, f"All elements should be at least {comparison_target}")

    def assertAllLessEqual(self, a: Any, comparison_target: Any) -> None:
        """Assert that all elements are at most a number."""
        self._all(a, lambda x: x <= comparison_target, f"All elements should be at most {comparison_target}")

    def assertAllInRange(
        self,
        target: Any,
        lower_bound: Any,
        upper_bound: Any,
        open_lower_bound: bool = False,
        open_upper_bound: bool = False,
    ) -> None:
        """Assert that all elements are between two bounds, which are included unless they are open."""
        if self._array(target).dtype.kind in "OSU":
            raise AssertionError("The value has no numbers to compare with bounds.")

        def holds(x: ndarray) -> Any:
            above = x > lower_bound if open_lower_bound else x >= lower_bound
            return above & (x < upper_bound if open_upper_bound else x <= upper_bound)

        bounds = f"{'(' if open_lower_bound else '['}{lower_bound}, {upper_bound}{')' if open_upper_bound else ']'}"
        self._all(target, holds, f"All elements should be in {bounds}")

    def assertAllInSet(self, target: Any, expected_set: Any) -> None:
        """Assert that all elements are in a set."""
        self._all(target, lambda x: np.isin(x, list(expected_set)), f"All elements should be in {expected_set}")

    def assertNear(self, f1: Any, f2: Any, err: float, msg: Any = None) -> None:
        """Assert that two numbers differ by at most `err`."""
        if not (f1 == f2 or abs(f1 - f2) <= err):
            self.fail(f"{f1} != {f2} +/- {err}" + (f" ({msg})" if msg else ""))

    def assertArrayNear(self, farray1: Any, farray2: Any, err: float, msg: Any = None) -> None:
        """Assert that two lists of numbers differ by at most `err`."""
        self.assertEqual(len(farray1), len(farray2), msg)
        for f1, f2 in zip(farray1, farray2, strict=True):
            self.assertNear(float(f1), float(f2), err, msg)

    def assertNDArrayNear(self, ndarray1: Any, ndarray2: Any, err: float, msg: Any = None) -> None:
        """Assert that the distance between two arrays is less than `err`."""
        difference = np.linalg.norm(self._array(ndarray1) - self._array(ndarray2))
        if not difference < err:
            self.fail(self._formatMessage(msg, f"The arrays differ by {difference}, not less than {err}."))

    def assertShapeEqual(self, input_a: Any, input_b: Any, msg: Any = None) -> None:
        """Assert that two arrays or tensors have the same shape."""
        for given in (input_a, input_b):
            if not isinstance(given, (ndarray, np.generic, Tensor, Variable)):
                raise TypeError(f"`input` must be a numpy array or a Tensor, got {type(given).__name__}")
        one, other = (tuple(x.shape) for x in (input_a, input_b))
        self.assertEqual(one, other, self._formatMessage(msg, f"Shapes {one} and {other}"))

    def assertDTypeEqual(self, target: Any, expected_dtype: Any) -> None:
        """Assert that elements have a dtype; for lists, the dtype of an array of them."""
        found, wanted = self._array(target).dtype, as_dtype(expected_dtype).numpy_dtype
        self.assertEqual(found, wanted, f"The dtype is {found}, not {wanted}.")

    def assertDeviceEqual(self, device1: Any, device2: Any, msg: Any = None) -> None:
        """Assert that two names, in whichever form they are written, name the same device."""
        first, second = (DeviceSpec.from_string(str(d)).to_string() for d in (device1, device2))
        self.assertEqual(first, second, msg)

    def assertSameStructure(self, a: Any, b: Any, aname: str = "a", bname: str = "b", msg: Any = None) -> None:
        """Assert that two nested structures have the same lists, tuples and keys, and equal leaves."""
        try:
            nest.assert_same_structure(a, b)
        except (TypeError, ValueError) as error:
            self.fail(self._formatMessage(msg, f"{aname} and {bname} do not have the same structure: {error}"))
        self.assertEqual(a, b, msg)

    def assertProtoEquals(
        self,
        expected_message_maybe_ascii: Any,
        validate_message: Any,
        msg: Any = None,
        relative_tolerance: float | None = None,
    ) -> None:
        """Assert that two messages are equal; the expected one may be given as text.

        >>> one = tf.train.Int64List(value=[1])
        >>> tf.test.TestCase().assertProtoEquals(one, tf.train.Int64List(value=[1]))
        """
        expected = expected_message_maybe_ascii
        if isinstance(expected, (str, bytes)):
            wanted = " ".join((expected if isinstance(expected, str) else expected.decode()).split())
            self.assertEqual(wanted, " ".join(str(validate_message).split()), msg)
        else:
            self.assertEqual(expected, validate_message, msg)

    # -- errors ------------------------------------------------------------------------------------------------------
    def assertRaisesWithPredicateMatch(self, exception_type: Any, expected_err_re_or_predicate: Any) -> Any:
        """Assert that a `with` block raises an error that matches an expression or a predicate."""
        accepts, wanted = expected_err_re_or_predicate, expected_err_re_or_predicate
        if not callable(accepts):

            def accepts(error: Exception) -> bool:
                return re.search(wanted, str(error)) is not None

        return self._raising(exception_type, accepts, f"an error that matches {wanted!r}")

    def assertRaisesOpError(self, expected_err_re_or_predicate: Any) -> Any:
        """Assert that a `with` block raises an op's error that matches a regular expression."""
        return self.assertRaisesWithPredicateMatch(errors.OpError, expected_err_re_or_predicate)

    def assertRaisesIncompatibleShapesError(self, exception_type: Any = errors.InvalidArgumentError) -> Any:
        """Assert that a `with` block raises an error about incompatible shapes."""
        words = r"(?i)incompatible shape|broadcast|dimensions must be equal|shapes? .* (not compatible|incompatible)"
        return self.assertRaisesWithPredicateMatch(exception_type, words)


def _is_close(a: ndarray, b: ndarray, rtol: float, atol: float) -> Any:
    if a.dtype.kind in "OSU" or b.dtype.kind in "OSU":
        return _is_equal(a, b)
    wide = [x.astype(np.float64) if x.dtype.kind in "fV" else x for x in (a, b)]
    with float_errors_ignored():
        return np.isclose(wide[0], wide[1], rtol=rtol, atol=atol, equal_nan=True)


def _is_equal(a: ndarray, b: ndarray) -> Any:
    if a.dtype.kind in "OSU" or b.dtype.kind in "OSU":
        one, other = (np.array([_as_bytes(x) for x in np.ravel(v)], object).reshape(v.shape) for v in (a, b))
        return one == other
    same = np.asarray(a == b)
    if a.dtype.kind in "fcV" and b.dtype.kind in "fcV":
        same |= (a != a) & (b != b)
    return same


def _as_bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _as_dict(value: Any) -> Any:
    """Convert named tuples and dataclasses to dicts."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return value._asdict()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return vars(value)
    return value


def _is_ragged(value: Any) -> bool:
    return isinstance(value, (RaggedTensor, RaggedTensorValue))


def _rows_of(value: Any) -> Any:
    return value.to_list() if _is_ragged(value) else value


def _plain(value: Any) -> Any:
    """Convert to nested lists of Python values, with strings as bytes."""
    if isinstance(value, (Tensor, Variable, ndarray)):
        value = np.asarray(evaluated(value) if not isinstance(value, ndarray) else value).tolist()
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else _as_bytes(value)


def _are_structures(a: Any, b: Any) -> bool:
    """Whether two lists cannot be compared as arrays: their elements have different shapes, or are dicts."""
    if not isinstance(a, (list, tuple)) or not isinstance(b, (list, tuple)):
        return False
    for value in (a, b):
        leaves = nest.flatten(list(value))
        if any(isinstance(leaf, (SparseTensor, IndexedSlices)) or _is_ragged(leaf) for leaf in leaves):
            return True
        if any(isinstance(item, Mapping) or _as_dict(item) is not item for item in value):
            return True
        try:
            array = np.array([np.asarray(evaluated(x)) if hasattr(x, "numpy") else x for x in value])
        except ValueError:
            return True
        if array.dtype.kind == "O" and not all(isinstance(leaf, (str, bytes)) for leaf in leaves):
            return True
    return False


class _CheckedThread:
    """A thread whose errors are raised when it is joined."""

    def __init__(self, case: TestCase, target: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self._case, self._target, self._args, self._kwargs = case, target, args, kwargs
        self._thread = threading.Thread(target=self._run)
        self._error: BaseException | None = None
        self._is_joined = False

    def _run(self) -> None:
        try:
            self._target(*self._args, **self._kwargs)
        except BaseException as error:
            self._error = error

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def join(self) -> None:
        """Wait for the thread, and fail the test if it raised an error."""
        self._is_joined = True
        self._thread.join()
        if self._error is not None:
            self._case.fail(f"Error in checkedThread: {self._error}")

    def is_alive(self) -> bool:
        """Return whether the thread is running."""
        return self._thread.is_alive()

    def check_termination(self) -> None:
        """Fail the test if the thread was not joined."""
        if not self._is_joined:
            self._case.fail("A checked thread was not joined.")


# -- decorators ------------------------------------------------------------------------------------------------------
def disable_with_predicate(pred: Callable[[], bool], skip_message: str) -> Callable[[Any], Any]:
    """Skip a test if a function returns true when the test runs.

    >>> skipped = tf.test.disable_with_predicate(lambda: True, "not here")
    """

    def decorated(function: Any) -> Any:
        @functools.wraps(function)
        def test(self: Any, *args: Any, **kwargs: Any) -> Any:
            if pred():
                self.skipTest(skip_message)
            return function(self, *args, **kwargs)

        return test

    return decorated


def with_eager_op_as_function(cls: Any = None, only_as_function: bool = False) -> Any:
    """No effect; deprecated in TensorFlow.

    >>> tf.test.with_eager_op_as_function(int)
    <class 'int'>
    """
    return cls if cls is not None else with_eager_op_as_function


def assert_equal_graph_def(expected: Any, actual: Any) -> None:
    """Assert that two `GraphDef`s have the same nodes, in any order.

    >>> from gradtape._src.formats.event import GraphDef
    >>> tf.test.assert_equal_graph_def(GraphDef(), GraphDef())
    """
    for given in (expected, actual):
        if not hasattr(given, "node"):
            raise TypeError(f"Expected tf.GraphDef for expected, got {type(given).__name__}")
    one, other = ({node.name: str(node) for node in graph.node} for graph in (expected, actual))
    different = sorted(name for name in {*one, *other} if one.get(name) != other.get(name))
    if different:
        raise AssertionError(f"The graphs differ in the nodes {different}.")


# -- benchmarks and running ------------------------------------------------------------------------------------------
class Benchmark:
    """A class of benchmarks: methods named `benchmark…`, which `tf.test.main` runs if `--benchmarks=REGEX` matches.

    >>> class Sums(tf.test.Benchmark):
    ...     def benchmark_sum(self):
    ...         self.report_benchmark(iters=1, wall_time=0.5)

    >>> class Products(tf.test.Benchmark):
    ...     def benchmark_square(self):
    ...         return self.evaluate(tf.constant([1, 2]) * 2)
    >>> Products.is_abstract(), Products().benchmark_square().tolist()
    (False, [2, 4])
    """

    _found: ClassVar[list[type[Benchmark]]] = []

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Benchmark._found.append(cls)

    @classmethod
    def is_abstract(cls) -> bool:
        """Return whether the class has no benchmarks."""
        return not any(name.startswith("benchmark") for name in dir(cls))

    def _name(self) -> str:
        callers = (frame.function for frame in inspect.stack())
        method = next((name for name in callers if name.startswith("benchmark")), "benchmark")
        return f"{type(self).__name__}.{method}"

    def report_benchmark(
        self,
        iters: int | None = None,
        cpu_time: float | None = None,
        wall_time: float | None = None,
        throughput: float | None = None,
        extras: Any = None,
        name: str | None = None,
        metrics: Any = None,
    ) -> None:
        """Print the result of a benchmark, as a line of JSON."""
        numbers = {"iters": iters, "cpu_time": cpu_time, "wall_time": wall_time, "throughput": throughput}
        line = {"name": name or self._name(), **{key: value for key, value in numbers.items() if value is not None}}
        print(json.dumps({**line, **(extras or {}), **({"metrics": metrics} if metrics else {})}, default=str))

    def evaluate(self, tensors: Any) -> Any:
        """Convert tensors, or a structure of them, to NumPy arrays."""
        return evaluated(tensors)

    def run_op_benchmark(
        self,
        sess: Any,
        op_or_tensor: Any,
        feed_dict: Any = None,
        burn_iters: int = 2,
        min_iters: int = 10,
        store_trace: bool = False,
        store_memory_usage: bool = True,
        name: str | None = None,
        extras: Any = None,
        mbs: float = 0,
    ) -> dict[str, Any]:
        """Measure a fetch of a session, and report it."""
        for _ in range(burn_iters):
            sess.run(op_or_tensor, feed_dict=feed_dict)
        times = []
        for _ in range(min_iters):
            start = time.perf_counter()
            sess.run(op_or_tensor, feed_dict=feed_dict)
            times.append(time.perf_counter() - start)
        median = float(np.median(times))
        throughput = mbs / median if mbs > 0 else None
        self.report_benchmark(min_iters, None, median, throughput, extras, name or self._name())
        return {"iters": min_iters, "wall_time": median, "throughput": throughput, "extras": extras, "name": name}


def _run_benchmarks(pattern: str) -> None:
    for kind in Benchmark._found:
        for name in sorted(dir(kind)):
            if name.startswith("benchmark") and (pattern == "all" or re.search(pattern, f"{kind.__name__}.{name}")):
                getattr(kind(), name)()


def main(argv: list[str] | None = None) -> None:
    """Run the tests of the program, as `unittest.main` does; or its benchmarks, with `--benchmarks=REGEX`.

    >>> tf.test.main(["program", "--benchmarks=^nothing$"])
    """
    arguments = list(sys.argv if argv is None else argv)
    chosen = [text for text in arguments if text.startswith("--benchmarks=")]
    if chosen:
        _run_benchmarks(chosen[0].partition("=")[2])
        return
    unittest.main(module="__main__", argv=arguments)
