"""tf.test.TestCase beyond the conformance programs: assertions that hold, and that fail."""

from __future__ import annotations

import collections
import os
import subprocess
import sys
import unittest

import numpy as np
import pytest

import gradtape as tf

Point = collections.namedtuple("Point", "x y")


class Sample(tf.test.TestCase):
    __test__ = False

    def runTest(self):
        pass


@pytest.fixture
def case():
    made = Sample()
    made.setUp()
    yield made
    made.tearDown()
    made.doCleanups()


HOLDS = {
    "named tuples": lambda t: t.assertAllClose(Point(tf.constant(1.0), [2.0]), Point(1.0, [2.0])),
    "ragged": lambda t: t.assertAllClose(tf.ragged.constant([[1.0], [2.0, 3.0]]), [[1.0], [2.0, 3.0]]),
    "strings": lambda t: t.assertAllClose([["a"]], [[b"a"]]),
    "unequal shapes inside": lambda t: t.assertAllClose([tf.zeros([2]), tf.zeros([3])], [[0.0, 0.0], [0.0] * 3]),
    "half": lambda t: t.assertAllCloseAccordingToType(np.float16(1.0), np.float32(1.0005)),
    "slices": lambda t: t.assertAllEqual(
        t.evaluate(tf.IndexedSlices(tf.constant([1.0]), tf.constant([0]))).values, [1.0]
    ),
    "subsequence": lambda t: t.assertContainsSubsequence([1, 2, 3], [1, 3]),
    "exact subsequence": lambda t: t.assertContainsExactSubsequence([1, 2, 3], [2, 3]),
    "in order": lambda t: t.assertContainsInOrder(["a", "c"], "abc"),
    "ordered": lambda t: t.assertTotallyOrdered([1, 1.0], [2], [3]),
    "mapping": lambda t: t.assertMappingEqual({"a": 1}, {"a": 1}),
    "almost": lambda t: t.assertDictAlmostEqual({"a": 1.0}, {"a": 1.01}, delta=0.1),
    "sequence": lambda t: t.assertSequenceAlmostEqual([1.0], [1.01], places=1),
    "start": lambda t: t.assertSequenceStartsWith([1], [1, 2]),
    "not start": lambda t: t.assertNotStartsWith("abc", "b"),
    "not end": lambda t: t.assertNotEndsWith("abc", "b"),
    "no common": lambda t: t.assertNoCommonElements([1], [2]),
    "regex": lambda t: t.assertRegexMatch("abc", ["x", "b"]),
    "json": lambda t: t.assertJsonEqual('{"a": 1, "b": 2}', '{"b": 2, "a": 1}'),
    "url": lambda t: t.assertUrlEqual("http://a/?x=1&y=2", "http://a/?y=2&x=1"),
    "subclass": lambda t: t.assertIsSubclass(bool, int),
    "not subclass": lambda t: t.assertNotIsSubclass(str, int),
    "command": lambda t: t.assertCommandSucceeds("echo hello", ["hel"]),
    "failing command": lambda t: t.assertCommandFails("echo bad; exit 3", ["bad"]),
}
FAILS = {
    "named tuples": lambda t: t.assertAllClose(Point(1.0, [2.0]), Point(1.0, [2.5])),
    "ragged": lambda t: t.assertAllEqual(tf.ragged.constant([["a"], []]), [["a"], ["b"]]),
    "unequal shapes inside": lambda t: t.assertAllClose([tf.zeros([2]), tf.zeros([3])], [[0.0, 0.0], [0.0, 0.0, 1.0]]),
    "lengths": lambda t: t.assertAllClose([tf.zeros([2]), tf.zeros([3])], [tf.zeros([2])]),
    "integers": lambda t: t.assertAllEqual([1, 2, 3], tf.constant([1, 2, 4])),
    "range": lambda t: t.assertAllInRange([1.0, np.nan], 0.0, 2.0),
    "texts in a range": lambda t: t.assertAllInRange(["a"], 0.0, 2.0),
    "near": lambda t: t.assertNDArrayNear(np.zeros(2), np.ones(2), 0.1),
    "subsequence": lambda t: t.assertContainsSubsequence([1, 2, 3], [3, 1]),
    "exact subsequence": lambda t: t.assertContainsExactSubsequence([1, 2, 3], [1, 3]),
    "in order": lambda t: t.assertContainsInOrder(["c", "a"], "abc"),
    "ordered": lambda t: t.assertTotallyOrdered([2], [1]),
    "mapping": lambda t: t.assertMappingEqual({"a": 1}, {"a": 2}),
    "almost": lambda t: t.assertDictAlmostEqual({"a": 1.0}, {"a": 2.0}, delta=0.1),
    "start": lambda t: t.assertSequenceStartsWith([2], [1, 2]),
    "not start": lambda t: t.assertNotStartsWith("abc", "a"),
    "no common": lambda t: t.assertNoCommonElements([1], [1]),
    "same": lambda t: t.assertSameElements([1], [1, 2]),
    "regex": lambda t: t.assertRegexMatch("abc", ["x"]),
    "json": lambda t: t.assertJsonEqual("[1]", "[2]"),
    "url": lambda t: t.assertUrlEqual("http://a/?x=1", "http://a/?x=2"),
    "subclass": lambda t: t.assertIsSubclass(str, int),
    "between": lambda t: t.assertBetween(4, 1, 3),
    "command": lambda t: t.assertCommandSucceeds("exit 1"),
    "lines": lambda t: t.assertMultiLineEqual("a\nb", "a\nc"),
    "structure": lambda t: t.assertSameStructure([1], [2]),
    "message": lambda t: t.assertProtoEquals("tag: 'b'", tf.train.Example()),
}


@pytest.mark.parametrize("name", HOLDS)
def test_what_holds(case, name):
    HOLDS[name](case)


@pytest.mark.parametrize("name", FAILS)
def test_what_fails(case, name):
    with pytest.raises(AssertionError):
        FAILS[name](case)


def test_a_failure_says_where(case):
    with pytest.raises(AssertionError, match=r"not close at 1 of 4 positions.\n  at \[1, 0\]: .*3.0.* and .*5.0"):
        case.assertAllClose(tf.constant([[1.0, 2.0], [3.0, 4.0]]), [[1.0, 2.0], [5.0, 4.0]])
    with pytest.raises(AssertionError, match=r"at \['a'\]\[1\]"):
        case.assertAllClose({"a": [tf.zeros([2]), tf.zeros([3])]}, {"a": [tf.zeros([2]), tf.ones([3])]})


def test_errors(case):
    with case.assertRaisesWithLiteralMatch(ValueError, "a.b") as caught:
        raise ValueError("a.b")
    assert str(caught.exception) == "a.b"
    case.assertRaisesWithLiteralMatch(ValueError, "x", lambda: (_ for _ in ()).throw(ValueError("x")))
    with pytest.raises(AssertionError, match="nothing was raised"), case.assertRaisesOpError("x"):
        pass
    with case.assertRaisesWithPredicateMatch(ValueError, lambda error: "a" in str(error)):
        raise ValueError("a")


def test_threads(case):
    thread = case.checkedThread(lambda: 1 / 0)
    thread.start()
    with pytest.raises(AssertionError, match="division by zero"):
        thread.join()


def test_files_and_output(case):
    file = case.create_tempfile("a/b.txt", content="text")
    assert (file.read_text(), os.path.basename(file.full_path)) == ("text", "b.txt")
    assert case.create_tempdir("x").create_file("y", content=b"1").read_bytes() == b"1"
    with case.captureWritesToStream(sys.__stderr__) as captured:
        os.write(sys.__stderr__.fileno(), b"from anywhere")
    assert "from anywhere" in captured.contents()


def test_sessions_of_eager_code(case):
    with case.cached_session() as session:
        assert session.run([tf.constant(2.0) * 3.0]) == [6.0]
        with pytest.raises(NotImplementedError):
            session.run(tf.constant(1.0), feed_dict={"x": 1})


def test_sessions_inside_of_a_graph(case):
    v1 = tf.compat.v1
    with v1.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32)
        for open_session in (case.session, case.cached_session):
            with open_session() as session:
                assert session.graph is graph
                assert session.run(x * 2.0, feed_dict={x: 3.0}) == 6.0
                assert case.evaluate(tf.constant(4.0)) == 4.0
        with v1.Session() as outer, case.cached_session() as session:
            assert session is outer
        assert case.evaluate([tf.constant(1.0), tf.constant(2.0)]) == [1.0, 2.0]
    with case.session(graph=graph) as session:
        assert session.run(x, feed_dict={x: 1.0}) == 1.0


def test_main_runs_tests_and_benchmarks(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import gradtape as tf\n"
        "class T(tf.test.TestCase):\n"
        "    def test_ok(self): self.assertAllEqual(tf.constant(1), 1)\n"
        "    @tf.test.disable_with_predicate(lambda: True, 'not here')\n"
        "    def test_off(self): raise KeyError\n"
        "class B(tf.test.Benchmark):\n"
        "    def benchmark_x(self): self.report_benchmark(iters=3, wall_time=0.5, extras={'k': 1})\n"
        "if __name__ == '__main__': tf.test.main()\n"
    )
    ended = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True)
    assert "Ran 3 tests" in ended.stderr
    assert "skipped=2" in ended.stderr
    ended = subprocess.run([sys.executable, str(program), "--benchmarks=B"], capture_output=True, text=True, check=True)
    assert ended.stdout == '{"name": "B.benchmark_x", "iters": 3, "wall_time": 0.5, "k": 1}\n'


def test_it_is_a_test_case_of_unittest():
    assert issubclass(tf.test.TestCase, unittest.TestCase)


def test_functions_within_lists_are_values():
    case, function = tf.test.TestCase(), lambda x: x
    case.assertAllEqual([function, function], (function,) * 2)
    with pytest.raises(AssertionError):
        case.assertAllEqual([function], [len])
