"""Values that TensorFlow refuses when an op runs are refused here too: eager, compiled, in branches and loops."""

from __future__ import annotations

import json
import re

import jax
import numpy as np
import pytest
import runtime_checks as checks

import gradtape as tf
from gradtape._src.arrays.value_text import summary
from gradtape._src.core.primitive import registry
from gradtape._src.graph import bounds

RECORDED = json.loads(checks.RECORD.read_text("utf-8"))
InvalidArgument = tf.errors.InvalidArgumentError

OTHERWISE = {  # where the answer is another one than TensorFlow's, and why
    "variable_scatter_mul": "TensorFlow leaves the update out of a function, and with it the check",
    "variable_scatter_div": "the same",
    "tensor_array_gather": "eager TensorFlow fails in a Python list, with its IndexError",
    "cholesky": "documented: an error, not NaN",
    "logdet": "the same",
}
CASES = [pytest.param(case, RECORDED[name], id=name) for name, case in checks.CASES.items() if name not in OTHERWISE]


def without_names(sentence: str) -> str:
    """A sentence without the names of tensors, which differ: x (xs_0:0) or x (shape=(2,) dtype=int32), (?, ?)."""
    sentence = re.sub(r"([xy]) \((shape=\(.*?\) dtype=\w+|[\w/]+:\d+)\)", r"\1 ()", sentence)
    sentence = re.sub(r"rtol = .*?, atol = (tf\.Tensor\(.*?dtype=\w+\)|Tensor\(.*?dtype=\w+\)|[^\]\n,]*)", "", sentence)
    return re.sub(r"conditions \(.*?\)", "conditions ()", sentence)


@pytest.mark.parametrize(("case", "recorded"), CASES)
def test_class_and_sentence(case, recorded):
    for mode, found in checks.modes(tf, case).items():
        kind, sentence = recorded[mode]
        assert found[0] == kind, (mode, found)
        static_assertion = mode == "constant" and sentence.startswith(("Condition", "same", "`"))
        near = "not equal to tolerance" in sentence and mode == "eager"
        if not static_assertion and not near:  # TensorFlow has two forms of these; the class is the same
            expected = without_names(sentence).removesuffix("/GatherNd")
            assert without_names(found[1]).startswith(expected), mode


@pytest.mark.parametrize("name", ["cholesky", "logdet"])
def test_what_only_gradtape_refuses(name):
    found = checks.modes(tf, checks.CASES[name])
    assert found["eager"] == found["function"] == found["constant"]
    assert found["eager"][0] == "InvalidArgumentError"


def within(case):
    """The case in the branch of a loop: `inside(taken, *values)`."""

    @tf.function(autograph=False)
    def inside(taken, *values):
        def compute():
            leaves = tf.nest.flatten(case.function(tf, *values))
            return tf.add_n([tf.reduce_sum(tf.cast(leaf, tf.float32)) for leaf in leaves])

        def body(k, total):
            return k + 1, total + tf.cond(tf.logical_and(taken, k > 0), compute, lambda: tf.constant(0.0))

        return tf.while_loop(lambda k, total: k < tf.where(taken, 3, 2), body, [0, 0.0])[1]

    return inside


NESTED = [
    "gather",
    "gather_nd",
    "index",
    "scatter_nd",
    "variable_scatter_add",
    "slice_assign",
    "unsorted_segment_sum",
    "tensor_array_write",
    "tensor_array_read",
    "sparse_cross_entropy",
    "crop_and_resize",
    "floordiv",
    "power",
    "inverse",
    "eigh_nan",
    "check_numerics",
    "assert",
    "case_none",
    "random_range",
    "invert_permutation",
    "crop_to_bounding_box",
]


@pytest.mark.parametrize("name", NESTED)
def test_in_branches_and_loops(name):
    case, (kind, sentence) = checks.CASES[name], RECORDED[name]["function"]
    inside, before = within(case), variables()
    bad, good = [[tf.constant(v) for v in values] for values in (case.bad, case.good)]
    inside(tf.constant(False), *bad)  # a branch that is not taken checks nothing
    assert variables() == before
    found = checks.ran(inside, tf.constant(True), *bad)
    assert found[0] == kind
    assert without_names(found[1]).startswith(without_names(sentence))
    assert variables() == before
    assert np.isfinite(inside(tf.constant(True), *good))


def variables():
    checks.variable(tf)
    return {key: v.numpy().tolist() for key, v in checks.VARIABLES.items()}


X = tf.constant([1.0, 2.0, 3.0])


@tf.function
def squares(x, n):
    return tf.gather(x, n) ** 2


def test_under_a_tape():
    good, bad = tf.constant([1]), tf.constant([3])
    with tf.GradientTape() as tape:
        tape.watch(X)
        with pytest.raises(InvalidArgument, match=r"indices\[0\] = 3 is not in \[0, 3\)"):
            squares(X, bad)
        y = squares(X, good)
    np.testing.assert_array_equal(tf.convert_to_tensor(tape.gradient(y, X)), [0, 4, 0])
    with tf.autodiff.ForwardAccumulator(X, tf.ones([3])) as forward:
        with pytest.raises(InvalidArgument, match="not in"):
            squares(X, bad)
        y = squares(X, good)
    np.testing.assert_array_equal(forward.jvp(y), [4])


@tf.function
def doubled(x, n):
    """Its gradient looks up indices: the check is in the second program."""

    @tf.custom_gradient
    def double(x):
        return 2 * x, lambda g: 2 * g * tf.gather(tf.ones([3]), n)

    return double(x)


def test_in_the_program_of_a_gradient():
    for n, bad in ((tf.constant([0, 1, 2]), False), (tf.constant([0, 1, 3]), True)):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(X)
            y = doubled(X, n)
        if not bad:
            np.testing.assert_array_equal(tape.gradient(y, X), [2, 2, 2])
            np.testing.assert_array_equal(tape.jacobian(y, X), 2 * np.eye(3))
            continue
        with pytest.raises(InvalidArgument, match=r"indices\[2\] = 3 is not in \[0, 3\)"):
            tape.gradient(y, X)
        with pytest.raises(InvalidArgument, match=r"indices\[2\] = 3 is not in \[0, 3\)"):
            tape.jacobian(y, X)


def test_in_a_batch_of_rows():
    pick = tf.function(lambda n: tf.vectorized_map(lambda k: X[k] + tf.gather(X, k), n))
    np.testing.assert_array_equal(pick(tf.constant([0, 2])), [2, 6])
    for run in (pick, lambda n: tf.vectorized_map(lambda k: tf.gather(X, k), n)):
        with pytest.raises(InvalidArgument, match=r"4 (is not in|of dimension 0 out of bounds)"):
            run(tf.constant([0, 4]))


def test_with_unknown_dimensions():
    last = tf.function(
        lambda x, n: tf.gather(x, n), input_signature=[tf.TensorSpec([None]), tf.TensorSpec([None], "int32")]
    )
    for size in (2, 3):
        np.testing.assert_array_equal(last(tf.range(size, dtype=tf.float32), [size - 1]), [size - 1])
        with pytest.raises(InvalidArgument, match=rf"indices\[1\] = {size} is not in \[0, {size}\)"):
            last(tf.ones([size]), [0, size])
    assert last.experimental_get_tracing_count() == 1


def test_a_function_within_a_function():
    outer = tf.function(lambda n: tf.reduce_sum(squares(X, n)))
    assert float(outer(tf.constant([0, 2]))) == 10
    with pytest.raises(InvalidArgument, match=r"indices\[1\] = -1 is not in"):
        outer(tf.constant([0, -1]))


def test_a_loop_ends_when_a_check_fails():
    @tf.function
    def length(n):  # without the zero that it looks for it would go on for ever
        while tf.gather(X, n) != 0.0:
            n += 1
        return n

    with pytest.raises(InvalidArgument, match="indices = 3 is not in"):
        length(tf.constant(0))

    @tf.function
    def remainder(n):
        while n > 0:
            n += 7 // (n - 2)
        return n

    assert int(remainder(tf.constant(1))) == -6
    with pytest.raises(InvalidArgument, match="Integer division by zero"):
        remainder(tf.constant(2))


def test_an_op_that_nothing_needs_is_not_checked():
    @tf.function
    def f(n):
        tf.gather(X, n)
        7 // n
        return n + 1

    assert f(tf.constant(0)) == 1
    assert f(tf.constant(9)) == 10


def test_an_assertion_that_nothing_needs_is_made():
    @tf.function
    def f(x):
        tf.debugging.assert_all_finite(x, "x")
        tf.debugging.assert_positive(x, "positive")
        assert tf.reduce_sum(x) < 10.0, "too large"
        return x

    f(tf.constant([1.0]))
    for value, sentence in (
        (np.nan, "x : Tensor had NaN values"),
        (-1.0, "assertion failed: [positive.  ] [Condition x > 0 did not hold element-wise:] ["),
        (10.0, "assertion failed: [too large]"),
    ):
        with pytest.raises(InvalidArgument, match=re.escape(sentence)):
            f(tf.constant([value]))


# -- variables -------------------------------------------------------------------------------------------------------
def test_variables_have_their_old_values_after_an_error():
    dense, rows, part = tf.Variable(tf.ones([4])), tf.Variable(tf.zeros([4, 2])), tf.Variable([0.0, 0.0])
    looped, grown = tf.Variable(0), tf.Variable([1.0], shape=tf.TensorShape([None]))
    generator = tf.random.Generator.from_seed(1)

    @tf.function
    def step(n, grown):
        dense.assign_add(generator.uniform([4]))
        rows.scatter_nd_add(n[:, None], tf.ones([2, 2]))
        part[0].assign(tf.reduce_sum(dense))
        for _ in tf.range(3):
            looped.assign_add(1)
        grown.assign(tf.concat([grown, dense], 0)[:1])
        rows.scatter_update(tf.IndexedSlices(tf.ones([1, 2]), n[:1]))
        return tf.gather(rows, n)

    held = [dense, rows, part, looped, grown, generator.state]
    for good, bad in (([0, 1], [0, 4]), ([2, 2], [-1, 0]), ([0, 3], [4, 4])):
        step(tf.constant(good), grown)
        before = [v.numpy() for v in held]
        with pytest.raises(InvalidArgument, match=r"does not index into shape \[4,2\]"):
            step(tf.constant(bad), grown)
        for v, value in zip(held, before, strict=True):
            np.testing.assert_array_equal(v, value)
    assert int(looped) == 9


def test_a_check_that_depends_on_an_update():
    place, table = tf.Variable(0), tf.Variable([0.0, 0.0])

    @tf.function
    def push(x):
        table.scatter_nd_update([[place]], [x])
        place.assign_add(1)
        return tf.gather(table, tf.cast(tf.gather(table, 0), tf.int32))

    assert float(push(tf.constant(1.0))) == 0
    assert float(push(tf.constant(2.0))) == 2
    with pytest.raises(InvalidArgument, match=r"indices\[0\] = \[2\] does not index into shape \[2\]"):
        push(tf.constant(3.0))
    assert int(place) == 2
    assert table.numpy().tolist() == [1, 2]
    place.assign(0)
    with pytest.raises(InvalidArgument, match=r"indices = 5 is not in \[0, 2\)"):
        push(tf.constant(5.0))
    assert int(place) == 0
    assert table.numpy().tolist() == [1, 2]


def test_updates_of_rows_are_made_in_place(by_xla):
    table = tf.Variable(tf.zeros([1000, 8]))

    @tf.function
    def push(n, x):
        table.scatter_nd_update(n[:, None], x)
        return tf.reduce_sum(x)

    push(tf.constant([1, 2]), tf.ones([2, 8]))
    program = push._functions[0]._traced.plain
    assert program.checks
    compiled = program.xla.checked("all").lower(*program.xla.specs).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < table.numpy().nbytes  # no copy of the table


def test_a_check_that_fails_again_compiles_nothing(by_xla, monkeypatch):
    rows = tf.function(lambda x: tf.gather(T, x))
    both = tf.function(lambda x: tf.vectorized_map(lambda i: tf.gather(T, i), x))
    compilations, jit = [], jax.jit
    monkeypatch.setattr(jax, "jit", lambda *args, **options: compilations.append(args) or jit(*args, **options))
    for function in (rows, both):
        for value in (10, 11, 12):
            compilations.clear()
            with pytest.raises(InvalidArgument, match=rf"indices.* = {value} is not in \[0, 10\)"):
                function(tf.constant([1, value]))
        assert compilations == []


def test_effects_happen_once(capfd):
    calls = []

    @tf.function
    def f(x, n):
        tf.print("printed")
        y = tf.numpy_function(lambda a: calls.append(1) or a, [x], tf.TensorSpec([3], tf.float32))
        return tf.gather(x, n) + y[0]

    with pytest.raises(InvalidArgument, match=r"indices = 3 is not in"):
        f(X, tf.constant(3))
    assert capfd.readouterr().err.count("printed") == 1
    assert len(calls) == 1


def test_updates_that_do_not_fit():
    v, w = tf.Variable(tf.zeros([3])), tf.Variable(tf.zeros([3, 2]))
    slices = tf.IndexedSlices
    for update, sentence in (
        (
            lambda: v.scatter_add(slices(tf.ones([3]), [0, 1])),
            "The shape of indices ([2]) must be a prefix of the shape",
        ),
        (lambda: v.scatter_update(slices(tf.ones([2, 2]), [0, 1])), "Must have updates.shape = indices.shape + params"),
        (lambda: w.scatter_add(slices(tf.ones([2]), [0, 1])), "Must have updates.shape = indices.shape + params.shape"),
        (lambda: w.scatter_add(slices(tf.ones([2, 3]), [0, 1])), "Must have updates.shape = indices.shape + params"),
        (lambda: v.scatter_nd_add([[0], [1]], tf.ones([3])), "Dimensions [0,1) of indices[shape=[2,1]] = 2 must match"),
        (lambda: w.scatter_nd_add([[0], [1]], tf.ones([2, 3])), "Dimensions [1,2) of input[shape=[3,2]] must match"),
        (lambda: v.batch_scatter_update(slices(tf.ones([3]), [0, 1])), "Dimensions [0,1) of indices[shape=[2,1]] = 2"),
    ):
        with pytest.raises(InvalidArgument, match=re.escape(sentence)):
            update()
        with pytest.raises(ValueError, match=re.escape(sentence)):
            tf.function(update, autograph=False)()
    w.scatter_add(slices(tf.constant(5.0), [0, 1]))
    assert w.numpy().tolist() == [[5, 5], [5, 5], [0, 0]]
    assert not v.numpy().any()


def test_slices_of_variables_at_positions_of_the_program():
    w = tf.Variable([[1.0, 2.0], [3.0, 4.0]])

    @tf.function
    def f(n):
        w[n].assign([5.0, 6.0])
        w[:, n].assign(7.0)
        w[0, n].assign(tf.reduce_sum(w))
        for k in tf.range(2):
            w[k, 0].assign(tf.cast(k, tf.float32))
        return w[n, None, -n]

    assert float(f(tf.constant(1))[0]) == 7
    assert w.numpy().tolist() == [[0, 20], [1, 7]]
    with pytest.raises(InvalidArgument, match=r"slice index 2 of dimension 0 out of bounds"):
        f(tf.constant(2))
    assert w.numpy().tolist() == [[0, 20], [1, 7]]


@pytest.mark.parametrize(
    ("function", "values"),
    [
        (lambda n: tf.linalg.band_part(tf.reshape(tf.range(9.0), [3, 3]), n, 1), (0, 1, -1, 3)),
        (lambda n: tf.linalg.band_part(tf.reshape(tf.range(6.0), [2, 3]), 0, n), (0, 1, -1)),
        (lambda n: tf.image.crop_to_bounding_box(tf.reshape(tf.range(12.0), [3, 4, 1]), n, 1, 2, 3), (0, 1)),
        (lambda n: tf.image.pad_to_bounding_box(tf.reshape(tf.range(6.0), [2, 3, 1]), n, 1, 4, 5), (0, 1, 2)),
        (lambda n: tf.TensorArray(tf.float32, 3, element_shape=[]).scatter([n, 0], [1.0, 2.0]).stack(), (1, 2)),
        (lambda n: tf.TensorArray(tf.float32, 3).unstack([1.0, 2.0, 3.0]).gather([n, 0]), (1, 2)),
    ],
)
def test_positions_of_the_program_mean_what_eager_ones_do(function, values):
    compiled = tf.function(function, autograph=False)
    for n in values:
        np.testing.assert_array_equal(compiled(tf.constant(n)), function(tf.constant(n)))


def test_slices_with_negative_indices_are_left_out():
    dense = lambda n: tf.convert_to_tensor(tf.IndexedSlices(tf.constant([1.0, 2.0]), n, tf.constant([3])))  # noqa: E731
    for convert in (dense, tf.function(dense)):
        assert convert(tf.constant([-1, 1])).numpy().tolist() == [0, 2, 0]


def test_an_empty_argument_of_a_function_for_unknown_dimensions():
    first = tf.function(lambda x: x[0], input_signature=[tf.TensorSpec([None])])
    assert float(first(tf.constant([3.0]))) == 3
    with pytest.raises(InvalidArgument, match="slice index 0 of dimension 0 out of bounds"):
        first(tf.ones([0]))


# -- checks that are not made ----------------------------------------------------------------------------------------
T = tf.ones([10, 2])


def in_array(x):
    array = tf.TensorArray(tf.float32, 4)
    for k in tf.range(4):
        array = array.write(k, x[k, 0] + T[k, 0])
    return array.stack()


@pytest.mark.parametrize(
    ("function", "count"),
    [
        (lambda x: tf.gather(T, tf.argmax(x, 1)), 0),
        (lambda x: tf.gather(T, tf.argsort(x, 1)), 0),
        (lambda x: tf.gather(T, tf.math.top_k(x, 2).indices), 0),
        (lambda x: tf.gather(T, tf.math.top_k(tf.cast(x, tf.int32), 2).values), 1),
        (lambda x: tf.gather(T, tf.math.top_k(tf.cast(x, tf.int32) % 10, 2).values), 0),
        (lambda x: tf.gather(T, tf.reduce_max(tf.cast(x, tf.int32) % 10)), 0),
        (lambda x: tf.gather(T, tf.reduce_min(tf.cast(x[:, :0], tf.int32) % 10, 1)), 1),
        (lambda x: tf.gather(T, tf.clip_by_value(tf.cast(x, tf.int32), 0, 9)), 0),
        (lambda x: tf.gather(T, tf.clip_by_value(tf.cast(x, tf.int32), 0, 10)), 1),
        (lambda x: tf.gather(T, tf.cast(x, tf.int32) % 10), 0),
        (lambda x: tf.gather(T, tf.cast(x > 0, tf.int64)), 0),
        (lambda x: tf.gather(tf.ones([256]), tf.cast(tf.cast(x, tf.uint8), tf.int32)), 0),
        (lambda x: tf.gather(T, tf.cast(tf.cast(x, tf.uint8), tf.int32)), 1),
        (lambda x: tf.gather(T, tf.where(x > 0, 1, tf.range(5))), 0),
        (lambda x: tf.gather(T, tf.random.categorical(x, 2)), 0),
        (lambda x: tf.gather(T, tf.random.uniform([3], 0, 10, tf.int32)), 0),
        (lambda x: tf.gather(T, tf.searchsorted([0.0, 1.0], x[0])), 0),
        (lambda x: tf.gather(x, tf.range(4)), 0),
        (lambda x: tf.cast(x, tf.int32) // 3 + tf.cast(x, tf.int32) % tf.range(1, 6), 0),
        (lambda x: tf.while_loop(lambda k, s: k < 4, lambda k, s: (k + 1, s + x[k, k]), [0, 0.0])[1], 0),
        (lambda x: tf.while_loop(lambda k, s: k < 4, lambda k, s: (k + 1, s + x[k + 1, k]), [0, 0.0])[1], 1),
        (in_array, 0),
        (lambda x: tf.gather(T, tf.cast(x, tf.int32)), 1),
        (lambda x: tf.gather(T, tf.gather(tf.range(10), tf.cast(x, tf.int32))), 1),
    ],
)
def test_checks_that_always_hold_are_left_out(function, count):
    concrete = tf.function(function).get_concrete_function(tf.TensorSpec([4, 5]))
    assert len(concrete._traced.plain.checks) == count


@pytest.mark.parametrize(
    ("indices", "values", "refused"),
    [
        (lambda x: tf.math.top_k(x, 1).values, [100, 5, 3], "indices[0] = 100"),
        (lambda x: tf.reduce_max(tf.clip_by_value(x, 0, 2)), [], "indices = -2147483648"),
        (lambda x: tf.reduce_min(tf.clip_by_value(x, 0, 2)), [], "indices = 2147483647"),
    ],
)
@pytest.mark.parametrize("size", [None, ...])
def test_checks_that_may_fail_are_made(indices, values, refused, size):
    shape = [len(values) if size is ... else None]
    function = tf.function(lambda x: tf.gather([1.0, 2.0, 3.0], indices(x)), [tf.TensorSpec(shape, tf.int32)])
    with pytest.raises(InvalidArgument, match=re.escape(f"{refused} is not in [0, 3)")):
        function(tf.constant(values, tf.int32))


def test_bounds_of_ops_with_several_outputs_say_which_one():
    alike = {"split", "unstack"}
    for name in (set(bounds._RULES) & set(registry)) - alike:
        assert isinstance(bounds._RULES[name], tuple) == bool(registry[name].outputs), name


def test_programs_on_a_gpu_make_assertions_alone():
    @tf.function
    def f(x, n):
        tf.debugging.assert_positive(x)
        return tf.gather(x, n) + tf.linalg.inv(x[None, :1])[0, 0]

    program = f.get_concrete_function(X, tf.constant(1))._traced.plain
    assert program.modes == ("assertions", "all")
    squares_only = squares.get_concrete_function(X, tf.constant([1]))._traced.plain
    assert squares_only.modes == ("", "all")
    *_, number = program.xla(program.arrays([X.array, np.array(7, np.int32)]), "assertions")
    assert not number
    *_, number = program.xla(program.arrays([-X.array, np.array(1, np.int32)]), "assertions")
    assert number
    plain = tf.function(lambda x: x * 2).get_concrete_function(X)._traced.plain
    assert plain.modes == ("", "")


# -- Keras -----------------------------------------------------------------------------------------------------------
def test_a_step_of_keras_refuses_ids_and_labels():
    keras = pytest.importorskip("gradtape.keras")
    layers = [keras.layers.Embedding(3, 2), keras.layers.Flatten(), keras.layers.Dense(2)]
    model = keras.Sequential([keras.Input([1]), *layers])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(np.array([[1], [2]]), np.array([0, 1]), verbose=0)
    before = model.get_weights()
    with pytest.raises(InvalidArgument, match=r"indices\[[01],0\] = 3 is not in \[0, 3\)"):
        model.fit(np.array([[1], [3]]), np.array([0, 1]), verbose=0)
    with pytest.raises(
        InvalidArgument, match=r"Received a label value of 2 which is outside the valid range of \[0, 2\)"
    ):
        model.fit(np.array([[1], [2]]), np.array([0, 2]), verbose=0)
    for value, old in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(value, old)
    with pytest.raises(InvalidArgument, match="is not in"):
        model.predict(np.array([[7]]), verbose=0)


@pytest.mark.parametrize(
    ("value", "most", "text"),
    [
        (np.float32(1.5), 3, "1.5"),
        (np.arange(5.0), 3, "0 1 2..."),
        (np.arange(4).reshape(2, 2), 3, "[0 1][2...]..."),
        (np.arange(6).reshape(2, 3), 3, "[0 1 2]..."),
        (np.arange(6).reshape(3, 2), 10, "[0 1][2 3][4 5]"),
        (np.arange(8).reshape(2, 2, 2), 3, "[[0 1][2...]]..."),
        (np.arange(8).reshape(2, 2, 2), -1, "[[0 1][2 3]][[4 5][6 7]]"),
        (np.zeros(0, np.float32), 3, ""),
        (np.float32([1 / 3, 1e10, 1e-5, np.nan, -np.inf, 123456789]), -1, "0.333333343 1e+10 1e-05 nan -inf 123456792"),
        (np.float64([1 / 3, 1e10]), -1, "0.33333333333333331 10000000000"),
        (np.array([True, False]), 3, "1 0"),
        ("abc", 3, "abc"),
        (np.array([b"a", b"b"], object), 3, "a b"),
        (np.float16([0.1]), 3, "0.0999755859"),
    ],
)
def test_summaries_are_those_of_tensorflow(value, most, text):
    assert summary(value, most) == text
