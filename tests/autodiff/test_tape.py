"""GradientTape: what it records, what it answers, and what it says when it cannot."""

from __future__ import annotations

import collections
import copy
import inspect
import logging
import re
from pathlib import Path

import numpy as np
import pytest

import gradtape as tf
from gradtape._src import call_sites
from gradtape._src.core.primitive import registry

X = 3.0


@pytest.fixture(autouse=True)
def nothing_said_yet(monkeypatch):
    """Warnings are counted for each line of a program; every test starts at zero."""
    monkeypatch.setattr(call_sites, "_warnings", {})


def c(value, dtype=tf.float32):
    return tf.constant(value, dtype)


def square_of(x):
    """A finished tape over y = x * x, and y."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    return tape, y


def said(caplog):
    return [r.getMessage() for r in caplog.records if r.name == "tensorflow" and r.levelno == logging.WARNING]


# -- construction ----------------------------------------------------------------------------------
def test_signatures_are_tensorflows():
    """Ours comes behind TensorFlow's, and by keyword only or with a default."""

    def names(method, count):
        parameters = [p for p in inspect.signature(method).parameters.values() if p.name != "self"]
        assert all(p.default is not inspect.Parameter.empty for p in parameters[count:])
        return [(p.name, p.default) for p in parameters[:count]]

    none, empty = tf.UnconnectedGradients.NONE, inspect.Parameter.empty
    assert names(tf.GradientTape, 2) == [("persistent", False), ("watch_accessed_variables", True)]
    assert names(tf.GradientTape.watch, 1) == [("tensor", empty)]
    assert names(tf.GradientTape.gradient, 4) == [
        ("target", empty), ("sources", empty), ("output_gradients", None), ("unconnected_gradients", none),
    ]  # fmt: skip
    vectorised = [("unconnected_gradients", none), ("parallel_iterations", None), ("experimental_use_pfor", True)]
    assert names(tf.GradientTape.jacobian, 5) == [("target", empty), ("sources", empty), *vectorised]
    assert names(tf.GradientTape.batch_jacobian, 5) == [("target", empty), ("source", empty), *vectorised]
    for method in ("stop_recording", "reset", "watched_variables", "pause", "resume"):
        assert names(getattr(tf.GradientTape, method), 0) == []


def test_tensorflows_methods_and_ours_are_there():
    tensorflows = {"watch", "gradient", "jacobian", "batch_jacobian", "stop_recording", "reset", "watched_variables"}
    ours = {"batch_gradient", "pause", "resume", "records", "jvp", "hvp", "hessian"}
    assert tensorflows | ours <= {name for name in dir(tf.GradientTape) if not name.startswith("_")}


@pytest.mark.parametrize("flag", [1, 2, "x", None, 0, ""])
def test_flags_are_truth_tested(flag):
    x = tf.Variable(X)
    with tf.GradientTape(flag, flag) as tape:
        y = x * x
    first = tape.gradient(y, x)
    if flag:
        assert float(first) == float(tape.gradient(y, x)) == 6.0
    else:
        assert first is None  # neither watched nor persistent
        with pytest.raises(RuntimeError):
            tape.gradient(y, x)


def test_unknown_keywords_are_refused():
    with pytest.raises(TypeError):
        tf.GradientTape(forever=True)


def test_a_tape_can_be_compared_hashed_and_copied():
    a, b = tf.GradientTape(), tf.GradientTape()
    assert a == a
    assert a != b
    assert len({a, b, a}) == 2
    assert "GradientTape" in repr(a)
    x = c(X)
    tape, y = square_of(x)
    twin = copy.copy(tape)
    assert isinstance(twin, tf.GradientTape)
    assert float(twin.gradient(y, x)) == 6.0


# -- the state machine -----------------------------------------------------------------------------
def test_enter_returns_the_tape():
    tape = tf.GradientTape()
    with tape as entered:
        assert entered is tape


def test_entering_a_recording_tape_is_refused():
    with tf.GradientTape() as tape:
        with pytest.raises(ValueError, match=re.escape(
            "Tape is still recording, This can happen if you try to re-enter an already-active tape."
        )), tape:  # fmt: skip
            pass
        x = tf.Variable(X)  # and the tape goes on as if nothing had been tried
        y = x * x
    assert float(tape.gradient(y, x)) == 6.0


def test_a_second_block_continues_the_record():
    x, tape = c(X), tf.GradientTape()
    with tape:
        tape.watch(x)
        y = x * x
    unrecorded = y * x
    with tape:
        z = y * x
    assert tape.gradient([unrecorded, z], x).numpy() == 27.0


def test_entering_after_the_answer_starts_afresh():
    x, v = c(X), tf.Variable(2.0)
    tape, y = square_of(x)
    assert float(tape.gradient(y, x)) == 6.0
    with tape:
        z = x * v
    assert tape.watched_variables() == (v,) or tape.watched_variables()[0] is v
    assert tape.gradient(z, x) is None  # the watch was forgotten
    with tape:
        tape.watch(x)
        z = x * v
    assert float(tape.gradient(z, x)) == 2.0


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, GeneratorExit, SystemExit])
def test_an_exception_inside_leaves_a_usable_record(kind):
    x, tape = c(X), tf.GradientTape(persistent=True)
    kept = []

    def interrupted():
        with tape:
            tape.watch(x)
            kept.append(x * x)
            raise kind

    with pytest.raises(kind):
        interrupted()
    (y,) = kept
    z = y * x  # the tape has stopped
    assert tape.gradient(z, x) is None
    assert float(tape.gradient(y, x)) == 6.0
    fresh, y = square_of(x)  # and nothing is left on the stack of tapes
    assert len(fresh.records) == 1
    assert len(tape.records) == 1


def test_exit_without_enter_does_nothing():
    tape = tf.GradientTape()
    tape.__exit__(None, None, None)
    x = c(X)
    with tape:
        tape.watch(x)
        y = x * x
    tape.__exit__(None, None, None)
    assert float(tape.gradient(y, x)) == 6.0


def test_tapes_may_end_in_any_order():
    x = c(X)
    first, second = tf.GradientTape(), tf.GradientTape()
    first.__enter__()
    first.watch(x)
    second.__enter__()
    second.watch(x)
    a = x * x
    first.__exit__(None, None, None)
    b = a * x  # only the second sees this
    second.__exit__(None, None, None)
    d = b * x  # and nobody this
    assert float(first.gradient(a, x)) == 6.0
    assert float(second.gradient([a, b, d], x)) == 6.0 + 27.0


def test_a_generator_holds_its_tape_open():
    x = c(X)
    tapes = []

    def steps():
        with tf.GradientTape() as tape:
            tapes.append(tape)
            tape.watch(x)
            yield x * x
            yield x * x * x

    generator = steps()
    y = next(generator)
    outside = y * x  # between two steps the tape is still open in this thread
    z = next(generator)
    assert next(generator, None) is None
    after = z * x
    assert tapes[0].gradient(after, x) is None
    with pytest.raises(RuntimeError):
        tapes[0].gradient(outside, x)
    generator = steps()
    y = next(generator)
    outside = y * x
    generator.close()
    assert float(tapes[1].gradient([y, outside], x)) == 6.0 + 27.0


def test_interleaved_generators_do_not_disturb_each_other():
    x = c(X)

    def recorded(power):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in range(power - 1):
                yield None
                y = y * x
        yield tape.gradient(y, x)

    generators = {power: recorded(power) for power in (2, 3, 4)}
    found = {}
    while generators:
        for power, generator in list(generators.items()):
            result = next(generator)
            if result is not None:
                found[power] = float(result)
                del generators[power]
    assert found == {2: 6.0, 3: 27.0, 4: 108.0}


def test_gradient_inside_its_own_block_ends_the_recording(caplog):
    x = c(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        assert float(tape.gradient(y, x)) == 6.0
        y * x  # not recorded any more
        with pytest.raises(RuntimeError, match="non-persistent GradientTape can only be used to compute one set"):
            tape.gradient(y, x)
        with pytest.raises(RuntimeError, match="tape that is used up"):
            tape.watch(x)
        with pytest.raises(ValueError, match=r"Tape is not recording\."):
            tape.reset()
        assert tape.records == []
    assert said(caplog) == []


# -- errors of a tape without a record -------------------------------------------------------------
CONSUMED = "A non-persistent GradientTape can only be used to compute one set of gradients (or jacobians)"
QUESTIONS = {
    "gradient": lambda tape, y, x: tape.gradient(y, x),
    "jacobian": lambda tape, y, x: tape.jacobian(y, x),
    "batch_jacobian": lambda tape, y, x: tape.batch_jacobian(y, x),
    "batch_gradient": lambda tape, y, x: tape.batch_gradient(y, x),
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("persistent", [False, True])
def test_a_tape_that_was_never_entered(question, persistent):
    with pytest.raises(RuntimeError, match=re.escape(CONSUMED)) as error:
        QUESTIONS[question](tf.GradientTape(persistent), c([[1.0]]), c([[1.0]]))
    assert "never entered" in str(error.value)


@pytest.mark.parametrize("first", QUESTIONS)
@pytest.mark.parametrize("second", QUESTIONS)
def test_a_used_tape_names_the_line_of_its_use(first, second):
    x = c([[1.0, 2.0]])
    tape, y = square_of(x)
    QUESTIONS[first](tape, y, x)
    lines = Path(__file__).read_text("utf-8").split("\n")
    line = next(i for i, text in enumerate(lines, 1) if f"lambda tape, y, x: tape.{first}(" in text)
    with pytest.raises(RuntimeError, match=re.escape(CONSUMED)) as error:
        QUESTIONS[second](tape, y, x)
    assert f"{__file__}:{line}" in str(error.value)
    assert "persistent=True" in str(error.value)


def test_other_calls_on_a_tape_without_a_record():
    x = c(X)
    used, y = square_of(x)
    used.gradient(y, x)
    for tape, state in ((tf.GradientTape(), "never entered"), (used, "used up")):
        with pytest.raises(RuntimeError, match=state):
            tape.watch(x)
        with pytest.raises(ValueError, match=r"'ndarray', not tf\.Tensor"):  # bad types are named first
            tape.watch(np.ones(2))
        with (
            pytest.raises(RuntimeError, match=r"Trying to stop recording a tape which is not recording\."),
            tape.stop_recording(),
        ):
            pass
        with pytest.raises(ValueError, match=r"Tape is not recording\."):
            tape.reset()
        with pytest.raises(ValueError, match=state):
            tape.pause()
        with pytest.raises(ValueError, match=state):
            tape.resume()
        assert tape.watched_variables() == ()
        assert tape.records == []


def test_a_used_tape_remembers_its_variables():
    v = tf.Variable(X)
    with tf.GradientTape() as tape:
        y = v * v
    tape.gradient(y, v)
    (found,) = tape.watched_variables()
    assert found is v


FAILING = {
    "no target": lambda tape, y, x: tape.gradient(None, x),
    "target of floats": lambda tape, y, x: tape.gradient(1.0, x),
    "source of floats": lambda tape, y, x: tape.gradient(y, 1.0),
    "unknown policy": lambda tape, y, x: tape.gradient(y, x, unconnected_gradients="NONE"),
    "seed of another dtype": lambda tape, y, x: tape.gradient(y, x, tf.ones([2], tf.float64)),
    "seed of another shape": lambda tape, y, x: tape.gradient(y, x, tf.ones([3])),
    "too many seeds": lambda tape, y, x: tape.gradient([y], x, [tf.ones([2])] * 2),
    "jacobian of a list": lambda tape, y, x: tape.jacobian([y], x),
    "jacobian without pfor": lambda tape, y, x: tape.jacobian(y, x, experimental_use_pfor=False),
    "batch_jacobian of vectors": lambda tape, y, x: tape.batch_jacobian(y, x),
    "batch_gradient of a list": lambda tape, y, x: tape.batch_gradient([y], x),
}


@pytest.mark.parametrize("failing", FAILING)
@pytest.mark.parametrize("inside", [False, True])
def test_a_failing_call_does_not_use_the_tape_up(failing, inside):
    x = c([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        if inside:
            with pytest.raises((TypeError, ValueError, RuntimeError, tf.errors.InvalidArgumentError)):
                FAILING[failing](tape, y, x)
            y = y * x  # and it is still recording
    if not inside:
        with pytest.raises((TypeError, ValueError, RuntimeError, tf.errors.InvalidArgumentError)):
            FAILING[failing](tape, y, x)
    expected = [3.0, 12.0] if inside else [2.0, 4.0]
    assert tape.gradient(y, x).numpy().tolist() == expected


def test_an_exception_in_a_users_rule_does_not_use_the_tape_up():
    fails = [True]

    @tf.custom_gradient
    def f(x):
        def grad(g):
            if fails:
                fails.clear()
                raise ArithmeticError("once")
            return g * 5.0

        return x * 1.0, grad

    x = c(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x) * 2.0
    with pytest.raises(ArithmeticError, match="once"):
        tape.gradient(y, x)
    assert float(tape.gradient(y, x)) == 10.0


@pytest.mark.parametrize("persistent", [False, True])
def test_an_interrupt_in_the_middle_of_a_walk(persistent, monkeypatch):
    """A walk that frees the record as it goes cannot be repeated; the tape says so instead of giving half an answer."""
    exp = registry["exp"]

    def interrupted(g, *values):
        raise KeyboardInterrupt

    x = c([1.0, 2.0])
    with tf.GradientTape(persistent) as tape:
        tape.watch(x)
        y = tf.tanh(tf.exp(x))
    with monkeypatch.context() as patch:
        patch.setattr(exp, "fast", (interrupted, None, None))
        with pytest.raises(KeyboardInterrupt):
            tape.gradient(y, x)
    if persistent:
        assert tape.gradient(y, x).shape == (2,)
    else:
        with pytest.raises(RuntimeError, match="non-persistent GradientTape"):
            tape.gradient(y, x)
        with pytest.raises(ValueError, match="used up"):
            tape.pause()


# -- watch -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
def test_floating_tensors_are_watched_silently(dtype, caplog):
    x = tf.cast(tf.constant([1.0, 2.0]), dtype)
    tape, y = square_of(x)
    g = tape.gradient(y, x)
    assert g.dtype == dtype
    assert np.asarray(g.numpy()).astype(complex).tolist() == [2.0, 4.0]
    assert said(caplog) == []


@pytest.mark.parametrize(
    ("value", "name"),
    [(1, "tf.int32"), (True, "tf.bool"), ("a", "tf.string"), (np.int64(1), "tf.int64"), (np.uint8(1), "tf.uint8")],
)
@pytest.mark.parametrize("make", [tf.constant, tf.Variable])
def test_other_dtypes_are_watched_with_a_warning(value, name, make, caplog):
    x = make(value)
    with tf.GradientTape() as tape:
        tape.watch(x)
    assert said(caplog) == [f"The dtype of the watched tensor must be floating (e.g. tf.float32), got {name}"]
    assert tape.gradient(c(1.0), x) is None


def test_the_dtype_warning_is_given_five_times_for_a_line(caplog):
    with tf.GradientTape() as tape:
        for _ in range(8):
            tape.watch(c(1, tf.int32))
        assert len(said(caplog)) == 5
        tape.watch(c(1, tf.int32))  # another line
    assert len(said(caplog)) == 6


@pytest.mark.parametrize(
    ("bad", "name"),
    [
        (None, "NoneType"),
        ([None], "NoneType"),
        (1.0, "float"),
        ([1.0], "float"),
        (np.ones(2), "ndarray"),
        (np.float32(1), "float32"),
        ("x", "str"),
        ({1.0}, "set"),
        ((i for i in ()), "generator"),
    ],
)
def test_what_cannot_be_watched(bad, name):
    shown = bad[0] if isinstance(bad, list) else bad
    sentence = f"Passed in object {shown} of type '{name}', not tf.Tensor or tf.Variable or ExtensionType."
    with tf.GradientTape() as tape, pytest.raises(ValueError, match=re.escape(sentence)):
        tape.watch(bad)


def test_a_refused_structure_watches_nothing():
    x = c(X)
    with tf.GradientTape() as tape:
        with pytest.raises(ValueError, match=r"not tf\.Tensor"):
            tape.watch([x, 1.0])
        y = x * x
    assert tape.gradient(y, x) is None


def test_structures_are_watched_whole():
    Pair = collections.namedtuple("Pair", "a b")
    x, y, z, v = c(1.0), c(2.0), c(3.0), tf.Variable(4.0, trainable=False)
    with tf.GradientTape() as tape:
        assert tape.watch({"k": [x, (y,)], "p": Pair(z, v)}) is None
        tape.watch([])
        tape.watch({})
        s = x * y * z * v
    assert [float(g) for g in tape.gradient(s, [x, y, z, v])] == [24.0, 12.0, 8.0, 6.0]
    assert len(tape.watched_variables()) == 1


def test_indexed_slices_are_watched_by_their_parts(caplog):
    values = c([[1.0], [2.0]])
    slices = tf.IndexedSlices(values, tf.constant([0, 1]), tf.constant([2, 1]))
    with tf.GradientTape() as tape:
        tape.watch(slices)
        y = tf.reduce_sum(tf.convert_to_tensor(slices) ** 2)
    assert tape.gradient(y, values).numpy().tolist() == [[2.0], [4.0]]
    assert all("tf.int32" in message for message in said(caplog))


def test_watching_twice_counts_once():
    x = c(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        tape.watch([x, [x]])
        y = x * x
    assert float(tape.gradient(y, x)) == 6.0


def test_watching_an_intermediate_keeps_the_path_before_it():
    x = c(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        tape.watch(y)
        z = 2 * y
    assert [float(g) for g in tape.gradient(z, [x, y])] == [12.0, 2.0]


def test_watching_after_the_op_is_too_late():
    x = c(X)
    with tf.GradientTape() as tape:
        y = x * x
        tape.watch(x)
        z = x * x
    assert float(tape.gradient([y, z], x)) == 6.0


def test_watching_is_by_identity():
    x = c([1.0, 2.0])
    for new in (tf.identity, lambda t: t[...], lambda t: tf.reshape(t, [2])):
        with tf.GradientTape() as tape:
            twin = new(x)
            assert twin is not x
            tape.watch(twin)
            y = x * x
        assert tape.gradient(y, twin) is None
    for same in (tf.convert_to_tensor, tf.constant, lambda t: tf.cast(t, tf.float32)):
        assert same(x) is x
    equal = c([1.0, 2.0])
    tape, y = square_of(x)
    assert tape.gradient(y, equal) is None


def test_a_rebound_name_is_another_tensor():
    x = c(X)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        first = x
        x = x * 2
        y = x * x
    assert float(tape.gradient(y, x)) == 12.0
    assert float(tape.gradient(y, first)) == 24.0


def test_watch_in_init_scope_and_ops_there():
    x = c(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        with tf.init_scope():
            hidden = x * x
        y = hidden * x
    assert float(tape.gradient(y, x)) == 9.0


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64, tf.uint8])
def test_integers_carry_no_gradient_but_to_themselves(dtype):
    x = c(3, dtype)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z = tf.cast(x, tf.float32) * 2.0
    assert tape.gradient(y, x) is None
    assert tape.gradient(z, x) is None
    own = tape.gradient(x, x)
    assert own.dtype == dtype
    assert int(own) == 1


def test_booleans_and_strings_as_their_own_target():
    for value, expected in ((True, True), ("a", None)):
        x = tf.constant(value)
        with tf.GradientTape() as tape:
            tape.watch(x)
        own = tape.gradient(x, x)
        assert (own if own is None else bool(own)) is expected


# -- structures of targets and sources -------------------------------------------------------------
def test_targets_are_summed_and_repeated_ones_count_twice():
    x = c(X)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y, s = x * x, x * 5.0
    assert float(tape.gradient([y, s], x)) == 11.0
    assert float(tape.gradient({"b": y, "a": [s, (s,)]}, x)) == 16.0
    assert float(tape.gradient([y, y], x)) == 12.0
    assert tape.gradient([], x) is None
    assert float(tape.gradient([], x, unconnected_gradients="zero")) == 0.0


def test_results_have_the_structure_of_the_sources():
    Pair = collections.namedtuple("Pair", "a b")
    x, v = c(X), tf.Variable(2.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x * v
    for sources in ([x, v], (x, v), {"z": x, "a": v}, Pair(x, v), [x, {"k": (v, [x])}], [], {}, (), x, [x, x]):
        result = tape.gradient(y, sources)
        tf.nest.assert_same_structure(sources, result)
        assert type(result) is type(sources)
        flat = [float(g) for g in tf.nest.flatten(result)]
        assert flat == [12.0 if s is x else 9.0 for s in tf.nest.flatten(sources)]
    assert list(tape.gradient(y, {"z": x, "a": v})) == ["z", "a"]


def test_gradients_are_total_derivatives():
    x = c(X)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z = y * y
    assert [float(g) for g in tape.gradient(z, [x, y])] == [108.0, 18.0]
    assert tape.gradient(x, y) is None  # the wrong way
    assert [float(g) for g in tape.gradient([z, y], [y, x])] == [19.0, 114.0]


def test_a_vector_target_means_its_sum():
    x = c([1.0, 2.0])
    tape, y = square_of(x)
    assert tape.gradient(y, x).numpy().tolist() == [2.0, 4.0]


def test_a_target_that_is_its_source_gives_ones():
    x, unwatched = c([1.0, 2.0]), c([[1.0]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
    assert tape.gradient(x, x).numpy().tolist() == [1.0, 1.0]
    assert tape.gradient(unwatched, unwatched).numpy().tolist() == [[1.0]]
    assert tape.gradient([x, unwatched], [unwatched], unconnected_gradients="zero")[0].numpy().tolist() == [[1.0]]
    assert float(tape.gradient(c(1.0), c(1.0), unconnected_gradients="zero")) == 0.0


def test_only_what_runs_inside_counts():
    v, x = tf.Variable(X), c(X)
    early = v * 1.0
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = early * x
    late = v * x
    assert tape.gradient(y, v) is None
    assert tape.gradient(late, [v, x]) == [None, None]
    assert float(tape.gradient(y, x)) == 3.0


# -- variables -------------------------------------------------------------------------------------
def test_every_reading_of_a_variable_counts():
    v = tf.Variable(2.0)
    with tf.GradientTape(persistent=True) as tape:
        y = v * v
        v.assign(5.0)
        z = v * v
        v.assign_add(1.0)
        w = v * v
    assert [float(tape.gradient(t, v)) for t in (y, z, w)] == [4.0, 10.0, 12.0]
    assert float(tape.gradient([y, z, w], v)) == 26.0


def test_variables_as_targets():
    v, x = tf.Variable(2.0), c(X)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        r = v.read_value()
        y = r * x
    assert float(tape.gradient(v, v)) == 1.0
    assert tape.gradient(v, x) is None
    assert float(tape.gradient([v, y], v)) == 4.0
    assert float(tape.gradient(y, r)) == 3.0
    assert float(tape.gradient(r, v)) == 1.0


def test_assigned_values_are_not_differentiated_through():
    v, x = tf.Variable(2.0), c(X)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        v.assign(x * x)
        y = v * 1.0
        inside = tf.Variable(x * x)
        z = inside * 1.0
    assert tape.gradient([y, z], x) is None
    assert float(tape.gradient(y, v)) == 1.0
    assert float(tape.gradient(z, inside)) == 1.0


def test_a_tape_works_on_the_values_it_saved():
    v = tf.Variable([2.0, 3.0])
    with tf.GradientTape() as tape:
        y = v * v
    v.assign([100.0, 100.0])
    v.assign_add([1.0, 1.0])
    v[0].assign(7.0)
    v.scatter_add(tf.IndexedSlices(c([1.0]), tf.constant([1])))
    assert tape.gradient(y, v).numpy().tolist() == [4.0, 6.0]


ACCESSES = {
    "read_value": lambda v: v.read_value(),
    "value": lambda v: v.value(),
    "numpy": lambda v: v.numpy(),
    "np.array": lambda v: np.array(v),
    "float": lambda v: float(v[0]) if v.ndim else float(v),
    "repr": repr,
    "str": str,
    "operator": lambda v: 1.0 + v,
    "op": lambda v: tf.exp(v),
    "tf.shape": lambda v: tf.shape(v),
    "comparison": lambda v: v > 1.0,
    "assign": lambda v: v.assign(2.0),
    "assign_add": lambda v: v.assign_add(2.0, read_value=False),
    "bool": bool,
}
NO_ACCESSES = {
    "shape": lambda v: v.shape,
    "dtype": lambda v: v.dtype,
    "name": lambda v: v.name,
    "handle": lambda v: v.handle,
    "ref": lambda v: v.ref(),
    "is_initialized": lambda v: v.is_initialized(),
    "trainable": lambda v: v.trainable,
    "device": lambda v: v.device,
}


@pytest.mark.parametrize("access", [*ACCESSES, *NO_ACCESSES])
def test_what_counts_as_an_access(access):
    v, frozen = tf.Variable(1.5), tf.Variable(1.5, trainable=False)
    look = (ACCESSES | NO_ACCESSES)[access]
    with tf.GradientTape() as tape, tf.GradientTape(watch_accessed_variables=False) as blind:
        look(v)
        look(frozen)
    assert [w.ref() for w in tape.watched_variables()] == ([v.ref()] if access in ACCESSES else [])
    assert blind.watched_variables() == ()


def test_watched_variables_come_in_the_order_of_their_creation():
    first, second, third = (tf.Variable(float(i)) for i in range(3))
    whole = tf.Variable(3)
    frozen = tf.Variable(1.0, trainable=False)
    with tf.GradientTape() as tape:
        _ = third * second
        _ = whole + 1
        tape.watch(frozen)
        _ = first * third
        made = tf.Variable(1.0)
        _ = made * 1.0
    expected = [first, second, third, whole, frozen, made]
    found = tape.watched_variables()
    assert isinstance(found, tuple)
    assert [v.ref() for v in found] == [v.ref() for v in expected]


def test_untrainable_variables_are_followed_only_on_request():
    v = tf.Variable(X, trainable=False)
    with tf.GradientTape() as tape, tf.GradientTape() as asked:
        asked.watch(v)
        y = v * v
    assert tape.gradient(y, v) is None
    assert float(asked.gradient(y, v)) == 6.0


def test_what_was_read_before_a_variable_is_watched_does_not_count():
    v, w, x = tf.Variable(2.0, trainable=False), tf.Variable(5.0, trainable=False), c(3.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        before = v * x * tf.square(v)
        tape.watch([v, w])
        after = v * x * w
    assert tape.gradient(before, v) is None
    assert float(tape.gradient(before, x)) == 8.0
    assert [float(g) for g in tape.gradient(after, [v, w, x])] == [15.0, 6.0, 10.0]


def test_without_watching_accessed_variables():
    v, w = tf.Variable(2.0), tf.Variable(X)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(v)
        y = v * w
    dv, dw = tape.gradient(y, [v, w])
    assert float(dv) == 3.0
    assert dw is None
    assert [u.ref() for u in tape.watched_variables()] == [v.ref()]


# -- unconnected_gradients -------------------------------------------------------------------------
@pytest.mark.parametrize("value", ["NONE", "Zero", None, 0, True, "", 1.0, object])
@pytest.mark.parametrize("method", ["gradient", "jacobian", "batch_jacobian", "batch_gradient"])
def test_unknown_policies(value, method):
    x = c([[1.0]])
    tape, y = square_of(x)
    with pytest.raises(ValueError, match=re.escape(f"Unknown value for unconnected_gradients: {value!r}")):
        getattr(tape, method)(y, x, unconnected_gradients=value)
    assert tape.gradient(y, x).numpy().tolist() == [[2.0]]


@pytest.mark.parametrize("policy", ["zero", tf.UnconnectedGradients.ZERO])
@pytest.mark.parametrize(
    "source",
    [
        tf.constant([1.0, 2.0]),
        tf.constant([[1]]),
        tf.constant(True),
        tf.constant(1j),
        tf.constant(1.0, tf.float16),
        tf.constant(1.0, tf.bfloat16),
        tf.Variable([[2.0, 3.0]], dtype=tf.float64),
    ],
)
def test_zeros_have_the_sources_shape_and_dtype(policy, source):
    x = c(X)
    tape, y = square_of(x)
    zeros = tape.gradient(y, source, unconnected_gradients=policy)
    assert zeros.dtype == source.dtype
    assert zeros.shape == source.shape
    assert not np.any(zeros.numpy())


def test_zero_of_a_string_is_an_empty_string():
    x, text = c(X), tf.constant(["a", "bc"])
    tape, y = square_of(x)
    zeros = tape.gradient(y, text, unconnected_gradients="zero")
    assert zeros.dtype == tf.string
    assert zeros.numpy().tolist() == [b"", b""]


BLOCKED = {
    "stop_gradient": tf.stop_gradient,
    "round": tf.round,
    "floor": tf.floor,
    "int cast": lambda x: tf.cast(tf.cast(x, tf.int32), tf.float32),
    "comparison": lambda x: tf.cast(x > 0.0, tf.float32),
    "argmax": lambda x: tf.cast(tf.argmax([x, x]), tf.float32),
    "zeros_like": tf.zeros_like,
    "numpy": lambda x: tf.constant(x.numpy()),
    "np ufunc": lambda x: tf.constant(np.exp(x)),
}


@pytest.mark.parametrize("blocked", BLOCKED)
def test_blocked_paths_are_unconnected(blocked):
    x = c(X)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = BLOCKED[blocked](x) * 2.0
    assert tape.gradient(y, x) is None
    assert float(tape.gradient(y, x, unconnected_gradients="zero")) == 0.0


def test_a_derivative_of_zero_is_no_missing_path():
    x = c(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * 0.0
    assert float(tape.gradient(y, x)) == 0.0


# -- output_gradients ------------------------------------------------------------------------------
def seeded(output_gradients, x=None):
    x = c([1.0, 2.0, 3.0]) if x is None else x
    tape, y = square_of(x)
    return tape.gradient(y, x, output_gradients=output_gradients).numpy().tolist()


@pytest.mark.parametrize(
    ("seed", "expected"),
    [
        (None, [2.0, 4.0, 6.0]),
        (tf.constant([1.0, 10.0, 100.0]), [2.0, 40.0, 600.0]),
        (np.array([1, 10, 100], np.float32), [2.0, 40.0, 600.0]),
        ([tf.constant([1.0, 10.0, 100.0])], [2.0, 40.0, 600.0]),
        ((np.array([1, 10, 100], np.float32),), [2.0, 40.0, 600.0]),
        (tf.Variable([1.0, 10.0, 100.0]), [2.0, 40.0, 600.0]),
        (tf.constant(10.0), [20.0, 40.0, 60.0]),
        (10.0, [20.0, 40.0, 60.0]),
        (2, [4.0, 8.0, 12.0]),
        (tf.constant([10.0]), [20.0, 40.0, 60.0]),
        ([1.0, 10.0, 100.0], [2.0, 40.0, 600.0]),  # TensorFlow would take the first number only
    ],
)
def test_output_gradients_of_one_target(seed, expected):
    assert seeded(seed) == expected


def test_output_gradients_of_several_targets_are_paired_by_position():
    x = c(X)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y, s = x * x, x * 5.0
    ten, one = c(10.0), c(1.0)
    assert float(tape.gradient([y, s], x, output_gradients=[one, ten])) == 56.0
    assert float(tape.gradient([y, [s]], x, output_gradients=(ten, [one]))) == 65.0
    # dicts are flattened by sorted keys
    assert float(tape.gradient({"z": y, "a": s}, x, output_gradients={"z": one, "a": ten})) == 56.0
    assert float(tape.gradient({"z": y, "a": s}, x, output_gradients=[ten, one])) == 56.0
    assert float(tape.gradient([y, y], x, output_gradients=[ten, one])) == 66.0


@pytest.mark.parametrize("seed", [tf.ones([3], tf.float64), np.ones(3), tf.constant([1, 1, 1])])
def test_output_gradients_of_another_dtype(seed):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"was expected to be a .* tensor but is a float"):
        seeded(seed)


@pytest.mark.parametrize("shape", [[2], [2, 3], [3, 1], [1, 3], [0]])
def test_output_gradients_of_another_shape(shape):
    with pytest.raises(tf.errors.InvalidArgumentError, match="Incompatible shapes"):
        seeded(tf.ones(shape))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_output_gradients_of_another_number(count):
    x = c(X)
    tape, y = square_of(x)
    with pytest.raises(ValueError, match=f"{count} entries for 2 targets"):
        tape.gradient([y, y], x, output_gradients=[c(1.0)] * count)


def test_output_gradients_with_a_hole():
    x = c(X)
    tape, y = square_of(x)
    with pytest.raises(ValueError, match="None"):
        tape.gradient([y, y], x, output_gradients=[None, c(1.0)])


def test_output_gradients_where_target_is_source():
    x, seed = c([1.0, 2.0]), c([5.0, 7.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
    assert tape.gradient(x, x, output_gradients=seed).numpy().tolist() == [5.0, 7.0]


def test_output_gradients_can_be_differentiated():
    x, seed = c(X), c(10.0)
    with tf.GradientTape() as outer:
        outer.watch([x, seed])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        g = tape.gradient(y, x, output_gradients=seed)
    assert [float(d) for d in outer.gradient(g, [x, seed])] == [20.0, 6.0]


# -- misuse ----------------------------------------------------------------------------------------
def test_a_missing_target():
    x = c(X)
    tape, _ = square_of(x)
    sentence = (
        "Argument `target` should be a list or nested structure of Tensors, Variables or CompositeTensors to be "
        "differentiated, but received None."
    )
    with pytest.raises(TypeError, match=re.escape(sentence)):
        tape.gradient(None, x)
    with pytest.raises(TypeError, match="sources"):
        tape.gradient(x)


@pytest.mark.parametrize("bad", [1.0, np.float32(1), "text", None, np.ones(2), object()])
@pytest.mark.parametrize("place", ["target", "sources"])
@pytest.mark.parametrize("wrap", [lambda bad, good: bad, lambda bad, good: [good, {"k": bad}]])
def test_what_has_no_history_is_named(bad, place, wrap):
    x = c(X)
    tape, y = square_of(x)
    arguments = {"target": y, "sources": x}
    arguments[place] = wrap(bad, arguments[place])
    if arguments["target"] is None:  # has a sentence of its own
        arguments["target"] = [None]
    with pytest.raises(TypeError, match=f"Argument `{place}` .*'{type(bad).__name__}'") as error:
        tape.gradient(**arguments)
    assert repr(bad) in str(error.value)


def test_targets_of_other_dtypes_are_ignored():
    x = c(X)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        sign = x > 0.0
    assert tape.gradient(sign, x) is None
    assert float(tape.gradient([sign, y], x)) == 6.0
    assert tape.gradient(y, sign) is None


# -- persistence -----------------------------------------------------------------------------------
def test_a_persistent_tape_answers_again_and_again():
    x = c([[1.0, 2.0]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z = y * x
    orders = []
    for _ in range(2):
        orders.append([tape.gradient(z, x), tape.gradient(y, x), tape.jacobian(z, x), tape.batch_jacobian(y, x)])
        orders.append([tape.batch_gradient(z, x), tape.gradient([y, z], [x, y])])
    for first, again in zip(orders[:2], orders[2:], strict=True):
        for a, b in zip(tf.nest.flatten(first), tf.nest.flatten(again), strict=True):
            assert a.numpy().tolist() == b.numpy().tolist()


def test_results_do_not_share_memory_with_what_the_tape_keeps():
    x = c([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x + x * 1.0
    first = tape.gradient(y, x)
    first.numpy()[:] = 99.0
    assert tape.gradient(y, x).numpy().tolist() == [2.0, 2.0]
    assert y.numpy().tolist() == [2.0, 4.0]


# -- questions inside the block --------------------------------------------------------------------
def in_context_derivatives(x):
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x * x
        d1 = tape.gradient(y, x)
        d2 = tape.gradient(d1, x)
    return [float(d1), float(d2), float(tape.gradient(d2, x))]


def test_a_persistent_tape_differentiates_its_own_answer(caplog):
    assert in_context_derivatives(c(2.0)) == [12.0, 12.0, 6.0]
    warned = said(caplog)
    assert len(warned) == 2  # two lines of this file
    start = "Calling GradientTape.gradient on a persistent tape inside its context is significantly less efficient than"
    assert all(message.startswith(start + " calling it outside the context") for message in warned)


def test_the_in_context_warning_is_given_once_for_a_line(caplog):
    x = c([[2.0]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        for _ in range(4):
            tape.gradient(y, x)
        assert len(said(caplog)) == 1
        tape.gradient(y, x)
        assert len(said(caplog)) == 2
        for _ in range(3):
            tape.jacobian(y, x)
        assert len(said(caplog)) == 3
        with tape.stop_recording():
            tape.gradient(y, x)  # the cheap way is not warned about
    tape.gradient(y, x)
    assert len(said(caplog)) == 3


def test_jacobians_inside_the_block():
    x = c([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x**3
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tf.get_logger(), "disabled", True)
            j = tape.jacobian(y, x)
    second = tape.jacobian(j, x).numpy()
    expected = np.zeros((2, 2, 2))
    expected[0, 0, 0], expected[1, 1, 1] = 6.0, 12.0
    np.testing.assert_allclose(second, expected)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x**3
        assert tape.jacobian(y, x).shape == (2, 2)
        y * x
    with pytest.raises(RuntimeError):
        tape.gradient(y, x)


# -- reset -----------------------------------------------------------------------------------------
def test_reset_forgets_ops_watches_and_variables():
    x, v = c(X), tf.Variable(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * v
        tape.reset()
        assert tape.watched_variables() == ()
        assert tape.records == []
        unwatched = x * x
        tape.watch(x)
        w = y * x
    assert float(tape.gradient([unwatched, w], x)) == 6.0  # y is a constant now


@pytest.mark.parametrize("state", ["new", "ended", "stopped", "paused"])
def test_reset_needs_a_recording_tape(state):
    tape = tf.GradientTape()
    if state != "new":
        tape.__enter__()
    if state == "ended":
        tape.__exit__(None, None, None)
    if state == "paused":
        tape.pause()
    if state == "stopped":
        with tape.stop_recording(), pytest.raises(ValueError, match=r"Tape is not recording\. .*stop_recording"):
            tape.reset()
    else:
        with pytest.raises(ValueError, match=r"Tape is not recording\."):
            tape.reset()
    tape.__exit__(None, None, None)


# -- stop_recording --------------------------------------------------------------------------------
def test_nothing_is_recorded_inside_stop_recording():
    x, v = c(X), tf.Variable(2.0)
    with tf.GradientTape() as outer, tf.GradientTape() as tape:
        outer.watch(x)
        tape.watch(x)
        with tape.stop_recording() as nothing:
            assert nothing is None
            hidden = x * v
        y = hidden * x
    assert [v.ref() for v in outer.watched_variables()] == [v.ref()]
    assert tape.watched_variables() == ()
    assert float(tape.gradient(y, x)) == 6.0
    assert [float(g) for g in outer.gradient(y, [x, v])] == [12.0, 9.0]


def test_recording_goes_on_after_an_exception_in_stop_recording():
    x = c(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        with pytest.raises(KeyboardInterrupt), tape.stop_recording():
            raise KeyboardInterrupt
        y = x * x
    assert float(tape.gradient(y, x)) == 6.0


def test_stop_recording_may_be_nested():
    x = c(X)

    def logged(tape, value):
        with tape.stop_recording():
            return value * 1.0

    with tf.GradientTape() as tape:
        tape.watch(x)
        with tape.stop_recording():
            with tape.stop_recording():
                a = x * x
            b = x * x
            kept = logged(tape, x)
        y = x * x
        also = logged(tape, x)
        z = x * x
    total = a + b + kept + also
    assert tape.gradient([total, y, z], x).numpy() == 12.0


def test_stop_recording_after_the_block():
    x = c(X)
    tape, y = square_of(x)
    with pytest.raises(ValueError, match=r"Tape is not recording\. .*`with` block has ended"), tape.stop_recording():
        pass
    assert float(tape.gradient(y, x)) == 6.0


def test_a_block_inside_stop_recording_records_again():
    x = c(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        with tape.stop_recording():
            a = x * x
            with tape:
                b = x * x
            d = x * x
        e = x * x
    assert float(tape.gradient([a, b, d, e], x)) == 12.0


def test_a_block_left_open_inside_stop_recording():
    with tf.GradientTape() as tape, pytest.raises(ValueError, match="Tape is still recording"):  # noqa: SIM117
        with tape.stop_recording():
            tape.__enter__()


def test_gradients_inside_stop_recording(caplog):
    x = c(X)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        with tape.stop_recording():
            g = tape.gradient(y, x)
        z = g * x
    assert said(caplog) == []
    assert float(tape.gradient(z, x)) == 6.0  # g is a constant
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        with tape.stop_recording():
            assert float(tape.gradient(y, x)) == 6.0
        z = x * x  # a fresh record: the watch was lost
        tape.watch(x)
        w = x * x
    assert float(tape.gradient([z, w], x)) == 6.0


# -- pause and resume ------------------------------------------------------------------------------
def test_pause_until_resume():
    x = c(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        assert tape.pause() is tape
        hidden = y * x
        tape.resume()
        w = y * x
    assert float(tape.gradient([hidden, w], x)) == 27.0


def test_a_with_block_of_pause_is_not_recorded():
    x, v = c(X), tf.Variable(1.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        with tape.pause() as paused:
            assert paused is tape
            hidden = y * x * v
        w = y * x
    assert float(tape.gradient([hidden, w], x)) == 27.0
    assert tape.watched_variables() == ()


def test_pauses_in_a_loop_and_inside_each_other():
    x = c(X)
    recorded, hidden = [], []
    with tf.GradientTape() as tape:
        tape.watch(x)
        for _ in range(3):
            recorded.append(x * x)
            with tape.pause():
                hidden.append(x * x)
                with pytest.raises(ValueError, match="paused"):
                    tape.pause()
        recorded.append(x * x)
    assert float(tape.gradient(recorded + hidden, x)) == 24.0


def test_resume_inside_a_pause_block():
    x = c(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        with tape.pause():
            a = x * x
            tape.resume()
            b = x * x
        d = x * x
    assert float(tape.gradient([a, b, d], x)) == 12.0


def test_recording_resumes_after_an_exception_in_a_pause_block():
    x = c(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        with pytest.raises(KeyboardInterrupt), tape.pause():
            raise KeyboardInterrupt
        y = x * x
    assert float(tape.gradient(y, x)) == 6.0


def test_questions_while_paused():
    x = c(X)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        tape.pause()
        g = tape.gradient(y, x)
        tape.resume()
        z = g * x
    assert float(tape.gradient(z, x)) == 6.0


def test_a_block_that_ends_while_paused_ends_the_pause():
    x = c(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        tape.pause()
    with pytest.raises(ValueError, match="`with` block has ended"):
        tape.resume()
    y * x
    assert float(tape.gradient(y, x)) == 6.0


@pytest.mark.parametrize("method", ["pause", "resume"])
def test_misuse_of_pause_and_resume_says_the_state(method):
    x = c(X)
    tape = tf.GradientTape()
    with pytest.raises(ValueError, match="never entered"):
        getattr(tape, method)()
    with tape:
        tape.watch(x)
        y = x * x
        if method == "resume":
            with pytest.raises(ValueError, match="recording"):
                tape.resume()
        else:
            tape.pause()
            with pytest.raises(ValueError, match="paused"):
                tape.pause()
            tape.resume()
        with tape.stop_recording(), pytest.raises(ValueError, match="stop_recording"):
            getattr(tape, method)()
    with pytest.raises(ValueError, match="`with` block has ended"):
        getattr(tape, method)()
    tape.gradient(y, x)
    with pytest.raises(ValueError, match="used up"):
        getattr(tape, method)()


def test_other_tapes_go_on_while_one_is_paused():
    x = c(X)
    with tf.GradientTape() as outer, tf.GradientTape() as tape:
        outer.watch(x)
        tape.watch(x)
        with tape.pause():
            y = x * x
    assert tape.gradient(y, x) is None
    assert float(outer.gradient(y, x)) == 6.0


# -- nested tapes ----------------------------------------------------------------------------------
def nth_derivative(f, x, n):
    if n == 0:
        return f(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = nth_derivative(f, x, n - 1)
    return tape.gradient(y, x)


def test_derivatives_of_every_order():
    x = c(2.0, tf.float64)
    assert [float(nth_derivative(lambda x: x**4, x, n)) for n in range(6)] == [16.0, 32.0, 48.0, 48.0, 24.0, 0.0]
    found = [float(nth_derivative(tf.sin, x, n)) for n in range(9)]
    np.testing.assert_allclose(found, [np.sin(2 + n * np.pi / 2) for n in range(9)])


@pytest.mark.parametrize("inside", [True, False])
def test_where_the_inner_question_is_asked_does_not_matter(inside):
    x = c(2.0)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = x**3
            if inside:
                d = inner.gradient(y, x)
        if not inside:
            d = inner.gradient(y, x)
    assert float(d) == 12.0
    assert float(outer.gradient(d, x)) == 12.0


def test_a_question_asked_outside_the_outer_tape_is_not_recorded():
    x = c(2.0)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = x**3
    d = inner.gradient(y, x)
    assert outer.gradient(d, x) is None


def test_a_stopped_outer_tape_takes_the_answer_for_a_constant():
    x = c(2.0)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = x**3
        with outer.stop_recording():
            d = inner.gradient(y, x)
        z = d * x
    assert float(outer.gradient(z, x)) == 12.0


def test_each_tape_needs_its_own_watch():
    x = c(2.0)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = x**3
        d = inner.gradient(y, x)
    assert outer.gradient(d, x) is None
    v = tf.Variable(2.0)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = v**3
        d = inner.gradient(y, v)
    assert float(outer.gradient(d, v)) == 12.0


def test_a_persistent_inner_tape():
    x = c(2.0)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape(persistent=True) as inner:
            inner.watch(x)
            cube, sq = x**3, x**2
        s = inner.gradient(cube, x) * inner.gradient(sq, x)
    assert float(outer.gradient(s, x)) == 72.0


def test_re_entering_a_tape_around_its_own_question():
    x = c(2.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x**3
    with tape:
        d = tape.gradient(y, x)
    assert float(tape.gradient(d, x)) == 12.0


SECOND_ORDER = {
    "maximum": (lambda x: tf.maximum(x, 0.0), None),
    "clip": (lambda x: tf.clip_by_value(x, -9.0, 9.0), None),
    "where": (lambda x: tf.where(x > 0.0, x, 0.0), None),
    "add": (lambda x: x + 1.0, None),
    "scale": (lambda x: x * 3.0, None),
    "relu": (tf.nn.relu, 0.0),
    "abs": (tf.abs, 0.0),
    "square": (tf.square, 2.0),
    "exp": (tf.exp, float(np.exp(np.float32(2.0)))),
}


@pytest.mark.parametrize("name", SECOND_ORDER)
def test_whether_a_second_derivative_is_none_or_zero(name):
    f, expected = SECOND_ORDER[name]
    found = nth_derivative(f, c(2.0), 2)
    assert found is None if expected is None else float(found) == pytest.approx(expected)


def test_ten_tapes_record_the_same_op():
    x = c(X)
    tapes = [tf.GradientTape() for _ in range(10)]
    for tape in tapes:
        tape.__enter__()
        tape.watch(x)
    y = x * x
    for tape in tapes:
        tape.__exit__(None, None, None)
    assert [float(tape.gradient(y, x)) for tape in tapes] == [6.0] * 10


# -- the record as data ----------------------------------------------------------------------------
def test_records_say_what_happened():
    x, v = c([1.0, 2.0]), tf.Variable([3.0, 4.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(tf.exp(x) * v)
        _ = x > 0.0
        _ = tf.constant(1.0) * 2.0  # follows nothing: not recorded
    names = [record.op.name for record in tape.records]
    assert names == ["exp", "multiply", "sum", "greater"]
    exp, multiply, total, _ = tape.records
    assert exp.inputs == (x.uid,)
    assert multiply.inputs == (exp.output, v.uid)
    assert total.output == y.uid
    assert total.dtype == np.float32
    assert total.attrs["axis"] == (0,)
    tape.records.clear()  # a list of one's own
    assert len(tape.records) == 4


@pytest.mark.parametrize(
    ("op", "saved"),
    [
        (tf.exp, [None, "y"]),
        (tf.sin, ["x", None]),
        (tf.negative, []),
        (tf.identity, []),
        (lambda x: x * x, ["x", "x"]),
        (lambda x: x + x, []),
        (lambda x: x * 2.0, [None, "2.0"]),
    ],
)
def test_records_have_values_by_position(op, saved):
    x = c(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = op(x)
    (record,) = tape.records
    assert record.inputs[0] == x.uid
    names = {x.uid: "x", y.uid: "y", 0: "2.0"}
    found = [None if value is None else names[value.uid] for value in record.values]
    assert found[: len(saved)] == saved
    assert not any(found[len(saved) :])


def test_no_tape_no_record():
    x = c(X)
    with tf.GradientTape() as tape:
        y = x * x
    assert tape.records == []
    assert tape.gradient(y, x) is None


def test_the_repr_of_a_tape_is_the_head_of_its_summary():
    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        x * x
    assert repr(tape).startswith("<tf.GradientTape: 1 op")


def test_a_misspelled_argument_of_a_tape():
    with pytest.raises(TypeError, match=r"^GradientTape.__init__\(\) got .* 'persistant'. Did you mean 'persistent'\?"):
        tf.GradientTape(persistant=True)
    with pytest.raises(TypeError, match=r"argument 'x'\. Its arguments are persistent, watch_accessed_variables, "):
        tf.GradientTape(x=1)
    assert list(inspect.signature(tf.GradientTape).parameters)[-1] == "digests"
