"""tf.test.TestCase assertions, evaluate, and tf.test.compute_gradient."""

from conformance.runner import raises, tol


def make(tf):
    class T(tf.test.TestCase):
        def runTest(self):
            pass

    t = T()
    t.setUp()
    return t


def case_all_close(tf, np):
    t = make(tf)
    a = tf.constant([1.0, 2.0])
    return [
        t.assertAllClose(a, [1.0, 2.0]),
        t.assertAllClose(a, np.array([1.0, 2.0 + 1e-7])),
        t.assertAllClose(a, [1.1, 2.1], atol=0.2),
        t.assertAllClose({"a": a, "b": [a, 1.0]}, {"a": [1.0, 2.0], "b": [[1.0, 2.0], 1.0]}),
        t.assertAllClose((a, a), (a, a)),
        raises(lambda: t.assertAllClose(a, [1.0, 2.1])),
        raises(lambda: t.assertAllClose(a, [1.0])),
        raises(lambda: t.assertAllClose({"a": a}, {"b": a}), "*"),
        raises(lambda: t.assertAllClose(a, [1.0, float("nan")])),
        t.assertAllClose([float("nan")], [float("nan")]),
        raises(lambda: t.assertAllClose(a, [1.0, 2.1], msg="why"), match="why"),
        t.assertNotAllClose(a, [1.0, 2.1]),
        raises(lambda: t.assertNotAllClose(a, [1.0, 2.0])),
    ]


def case_all_equal(tf, np):
    t = make(tf)
    s = tf.constant(["a", "b"])
    return [
        t.assertAllEqual(tf.constant([1, 2]), [1, 2]),
        t.assertAllEqual(s, ["a", "b"]),
        t.assertAllEqual(s, [b"a", b"b"]),
        t.assertAllEqual([1.0, float("nan")], [1.0, float("nan")]),
        raises(lambda: t.assertAllEqual([1, 2], [1, 3])),
        raises(lambda: t.assertAllEqual([1, 2], [[1, 2]])),
        t.assertAllEqual(tf.ragged.constant([[1], [2, 3]]), [[1], [2, 3]]),
        raises(lambda: t.assertAllEqual(tf.ragged.constant([[1], [2, 3]]), [[1], [2, 4]])),
        t.assertNotAllEqual([1, 2], [1, 3]),
        raises(lambda: t.assertNotAllEqual([1], [1])),
        t.assertAllEqual([], []),
        t.assertAllEqual(True, tf.constant(True)),
    ]


def case_ranges_and_sets(tf, np):
    t = make(tf)
    x = tf.constant([1, 5, 3])
    return [
        t.assertAllInRange(x, 1, 5),
        raises(lambda: t.assertAllInRange(x, 1, 5, open_upper_bound=True)),
        t.assertAllInSet(x, {1, 3, 5, 7}),
        raises(lambda: t.assertAllInSet(x, {1, 3})),
        t.assertAllGreater(x, 0),
        raises(lambda: t.assertAllGreater(x, 1)),
        t.assertAllLess(x, 6),
        t.assertAllGreaterEqual(x, 1),
        t.assertAllLessEqual(x, 5),
        raises(lambda: t.assertAllLess(x, 5)),
    ]


def case_near(tf, np):
    t = make(tf)
    return [
        t.assertNear(1.0, 1.05, 0.1),
        raises(lambda: t.assertNear(1.0, 1.5, 0.1)),
        t.assertArrayNear([1.0, 2.0], [1.05, 1.95], 0.1),
        raises(lambda: t.assertArrayNear([1.0], [1.0, 2.0], 0.1)),
        t.assertNDArrayNear(np.array([1.0]), np.array([1.01]), 0.1),
        t.assertAllCloseAccordingToType(tf.constant([1.0], tf.float16), [1.0005]),
        raises(lambda: t.assertAllCloseAccordingToType(tf.constant([1.0]), [1.0005])),
        t.assertDTypeEqual(tf.constant([1.0]), np.float32),
        raises(lambda: t.assertDTypeEqual(tf.constant([1.0]), np.int32)),
    ]


def case_evaluate(tf, np):
    t = make(tf)
    v = tf.Variable([1.0, 2.0])
    r = t.evaluate({"x": tf.constant(3), "y": [v, tf.constant("s")]})
    s = t.evaluate(tf.sparse.from_dense([0, 1]))
    return [
        r["x"],
        type(r["y"]).__name__,
        r["y"][0],
        r["y"][1],
        t.evaluate(tf.constant([1, 2])),
        t.evaluate(None),
        t.evaluate(lambda: tf.constant(4.0)),
        s.values,
        t.evaluate(tf.ragged.constant([[1], [2, 3]])).to_list(),
    ]


def case_shapes_and_structures(tf, np):
    t = make(tf)
    return [
        t.assertShapeEqual(np.zeros((2, 3)), tf.zeros([2, 3])),
        raises(lambda: t.assertShapeEqual(np.zeros((2, 3)), tf.zeros([3, 2])), "AssertionError"),
        t.assertLen([1, 2], 2),
        raises(lambda: t.assertLen([1], 2)),
        t.assertEmpty([]),
        t.assertNotEmpty([0]),
        t.assertStartsWith("abc", "ab"),
        t.assertEndsWith("abc", "bc"),
        t.assertBetween(2, 1, 3),
        t.assertSameElements([1, 2], [2, 1]),
        t.assertItemsEqual([1, 2], [2, 1]),
        t.assertContainsSubset([1], [1, 2]),
        t.assertSameStructure({"a": [1]}, {"a": [1]}),
        raises(lambda: t.assertSameStructure({"a": [1]}, {"b": [1]})),
        raises(lambda: t.assertContainsSubset([3], [1, 2])),
        raises(lambda: t.assertNotEmpty([])),
    ]


def case_raises_helpers(tf, np):
    t = make(tf)

    def bad():
        return tf.constant([1.0, 2.0]) + tf.constant([1.0, 2.0, 3.0])

    def uses(cm):
        with cm:
            bad()

    return [
        uses(t.assertRaises(tf.errors.InvalidArgumentError)),
        uses(t.assertRaisesRegex(tf.errors.InvalidArgumentError, "ncompatible shapes")),
        uses(t.assertRaisesOpError("ncompatible shapes")),
        uses(t.assertRaisesWithPredicateMatch(tf.errors.InvalidArgumentError, "ncompatible")),
        uses(t.assertRaisesIncompatibleShapesError((ValueError, tf.errors.InvalidArgumentError))),
        raises(lambda: uses(t.assertRaisesRegex(tf.errors.InvalidArgumentError, "another text"))),
        raises(lambda: uses(t.assertRaises(KeyError)), "*"),
        t.assertEqual(1, 1),
        raises(lambda: t.assertTrue(False)),
        raises(lambda: t.assertIsInstance(1, str)),
    ]


def case_temporary_folder_and_session(tf, np):
    t = make(tf)
    d = t.get_temp_dir()
    with t.cached_session():
        c = t.evaluate(tf.constant(2.0) * 3.0)
    with t.session():
        s = tf.constant(1.0) + 1.0
    return [
        isinstance(d, str),
        d == t.get_temp_dir(),
        tf.io.gfile.isdir(d),
        c,
        s,
        isinstance(tf.test.is_gpu_available(), bool),
        tf.test.is_built_with_cuda() in (True, False),
        isinstance(tf.test.gpu_device_name(), str),
    ]


def case_running_a_suite(tf, np):
    import io
    import unittest

    class Sample(tf.test.TestCase):
        def setUp(self):
            super().setUp()
            self.v = tf.Variable(2.0)

        def test_ok(self):
            self.assertAllClose(self.v * 2.0, 4.0)

        def test_bad(self):
            self.assertAllEqual(self.v, 3.0)

        def test_error(self):
            raise KeyError("x")

        def test_skip(self):
            self.skipTest("later")

        def test_seed(self):
            a = tf.random.uniform([3])
            tf.random.set_seed(87654321)
            self.assertAllEqual(tf.shape(a), [3])

    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Sample)
    names = sorted(c.id().split(".")[-1] for c in suite)
    res = unittest.TextTestRunner(stream=io.StringIO()).run(suite)
    return [names, len(res.failures), len(res.errors), len(res.skipped), res.wasSuccessful(), res.testsRun]


def case_compute_gradient(tf, np):
    x, y = tf.constant([[1.0, 2.0]], tf.float64), tf.constant([[3.0], [4.0]], tf.float64)
    th, nu = tf.test.compute_gradient(lambda a, b: tf.matmul(a, b), [x, y])
    th2, nu2 = tf.test.compute_gradient(lambda a: a**3, [tf.constant([1.0, -2.0], tf.float64)])
    return [
        th,
        [tol(z, 1e-3, 1e-3) for z in nu],
        len(th),
        th2,
        [tol(z, 1e-3, 1e-3) for z in nu2],
        tf.test.compute_gradient(lambda a: tf.square(a), [tf.constant([3.0])], delta=0.01)[0],
        raises(lambda: tf.test.compute_gradient(tf.square, tf.constant([1.0])), "ValueError"),
    ]


def case_same_seed_in_setup(tf, np):
    t = make(tf)
    a = tf.random.uniform([4])
    t.setUp()
    b = tf.random.uniform([4])
    return [bool(tf.reduce_all(a == b)), tf.test.TestCase.maxDiff is None or isinstance(tf.test.TestCase.maxDiff, int)]
