"""`tape.compare`: the first op at which two recordings differ."""

from __future__ import annotations

import os

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.inspect.digests import SAMPLE, digest, places


def recorded(epsilon=1e-3, dtype="float32", wrap=lambda f: f, scale=1.0):
    x = tf.Variable(np.linspace(0.1, 1, 6).reshape(2, 3), dtype=dtype)
    w = tf.Variable(np.linspace(-1, 1, 12).reshape(3, 4) * scale, dtype=dtype)

    def loss(x):
        h = tf.tanh(x @ w)
        total = tf.reduce_sum(h * h) + epsilon
        return tf.reduce_mean(h / tf.sqrt(total))

    with tf.GradientTape(digests=True) as tape:
        y = wrap(loss)(x)
    tape.gradient(y, [x, w])
    return tape


def test_equal_recordings():
    found = recorded().compare(recorded())
    assert found
    assert found.first is None
    assert found.first_bits is None
    assert len(found.pairs) == 16
    assert "16 ops compared: no difference beyond rounding" in str(found)
    assert "<table" in found._repr_html_()


def test_first_op_with_its_line():
    found = recorded().compare(recorded(2e-3))
    assert not found
    assert (found.first.kind, found.first.index, found.first.op) == ("value", 4, "add")
    assert found.first.line.startswith("test_compare.py:")
    assert found.first.source == "total = tf.reduce_sum(h * h) + epsilon"
    assert found.first.relative == pytest.approx(0.001 / 1.24, rel=0.01)
    assert "op 4, add at test_compare.py" in str(found)


def test_precisions():
    single, double = recorded(), recorded(dtype="float64")
    assert single.compare(double)
    assert not single.compare(double, rtol=1e-9)
    assert single.compare(double, rtol=0.0, atol=1e-5)
    half = recorded(dtype="float16").compare(double)
    assert half
    assert max(gap for *_, gap in half.pairs) > 1e-5


def test_other_bits():
    found = recorded().compare(recorded(1e-3 * (1 + 2e-3)))
    assert found
    assert found.first_bits.op == "add"
    assert "First difference in any bit: op 4, add" in str(found)


@pytest.mark.parametrize("executor", [False, True])
def test_compiled_functions(executor):
    """The call returns what its derivative needs: values in the middle of it are compared, too."""
    if executor:
        pytest.importorskip("jax")
    compiled = recorded(wrap=lambda f: tf.function(f, jit_compile=executor))
    assert compiled.compare(recorded())
    assert recorded().compare(compiled)
    other = recorded(2e-3).compare(compiled)
    assert not other
    assert (other.first.op, other.first.other_op.split()[0]) == ("sqrt", "function")
    assert not compiled.compare(recorded(2e-3))
    assert compiled.compare(recorded(wrap=lambda f: tf.function(f, jit_compile=executor)))


STEPS = [
    tf.sin, tf.tanh, tf.exp, lambda x: x * x, lambda x: tf.reduce_sum(x) * x, tf.nn.softmax,
    lambda x: tf.sqrt(tf.square(x) + tf.constant(1.0, x.dtype)),
]  # fmt: skip


def random_run(seed, wrap=lambda f: f, wrong=None, dtype=tf.float32):
    """A chain of random steps with factors, of which one may be wrong."""
    rng = np.random.default_rng(seed)
    steps = [(STEPS[rng.integers(len(STEPS))], rng.uniform(0.5, 1.0)) for _ in range(rng.integers(3, 8))]
    x = tf.constant(rng.uniform(-1.0, 1.0, 4), dtype)

    @wrap
    def f(x):
        for k, (step, factor) in enumerate(steps):
            x = step(x) * tf.constant(factor * (1.01 if k == wrong else 1.0), x.dtype)
        return tf.reduce_sum(x * x)

    with tf.GradientTape(digests=True) as tape:
        tape.watch(x)
        y = f(x) + 1.0
    tape.gradient(y, x)
    return tape, len(steps)


@pytest.mark.parametrize("executor", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", range(20))
def test_random_programs(seed, executor):
    """Eager and compiled runs agree; a wrong factor is found where it is, or at the next value that a call saves."""

    def compiled(f):
        return tf.function(f, jit_compile=executor, autograph=False)

    (eager, count), function = random_run(seed), random_run(seed, compiled)[0]
    assert eager.compare(function), eager.compare(function)
    assert function.compare(eager)
    for k in range(count):
        other = random_run(seed, wrong=k)[0]
        found = eager.compare(other)
        assert (found.first.op, found.first.kind) == ("multiply", "value")
        for one, two in ((other, function), (eager, random_run(seed, compiled, k)[0])):
            later = one.compare(two)
            assert later or 0 <= later.first.index - found.first.index <= 4
    assert not eager.compare(random_run(seed, compiled, count - 1)[0])


def test_values_that_only_a_derivative_needs():
    """A call saves cos(x) for the derivative of sin, which no op of an eager run computes."""

    def run(wrap):
        x = tf.Variable([0.5, 2.0])

        @wrap
        def f():
            return tf.reduce_sum(tf.sin(3.0 * x) ** 3)

        with tf.GradientTape(digests=True) as tape:
            y = f() * 2.0
        tape.gradient(y, x)
        return tape

    found = run(lambda f: f).compare(run(lambda f: tf.function(f, jit_compile=False)))
    assert found, found


def test_backward_pass():
    @tf.custom_gradient
    def half(x):
        return tf.identity(x), lambda g: g * 0.5

    def run(f):
        x = tf.Variable([1.0, 2.0])
        with tf.GradientTape(digests=True) as tape:
            y = tf.reduce_sum(f(tf.sin(x)) ** 2)
        tape.gradient(y, x)
        return tape

    found = run(half).compare(run(tf.custom_gradient(lambda x: (tf.identity(x), lambda g: g))))
    assert found.first.op == "the cotangent of sin"


def test_other_ops_shapes_and_lengths():
    def run(f, x=(1.0, 2.0)):
        x = tf.Variable(x)
        with tf.GradientTape(digests=True) as tape:
            f(x)
        return tape

    first = run(lambda x: tf.exp(tf.sin(x)))
    assert first.compare(run(lambda x: tf.exp(tf.cos(x)))).first.kind == "op"
    assert "has cos" in str(first.compare(run(lambda x: tf.exp(tf.cos(x)))).first)
    assert first.compare(run(tf.sin)).first.kind == "length"
    assert run(tf.sin).compare(first).first.kind == "length"
    assert "only the other recording has exp" in str(run(tf.sin).compare(first).first)
    assert first.compare(run(lambda x: tf.exp(tf.sin(x)), (1.0, 2.0, 3.0))).first.kind == "shape"
    nan = run(lambda x: tf.exp(tf.sin(x)), (1.0, float("nan")))
    assert nan.compare(run(lambda x: tf.exp(tf.sin(x)), (1.0, float("nan"))))
    assert not first.compare(nan)


def test_files(tmp_path):
    path = tmp_path / "run.npz"
    recorded().save_digests(path)
    assert recorded().compare(path)
    found = recorded(2e-3).compare(str(path))
    assert found.first.op == "add"
    assert os.path.getsize(path) < 20_000


def test_files_that_are_none(tmp_path):
    path = tmp_path / "run.npz"
    recorded().save_digests(path)
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(60):
        damaged = bytearray(data)
        damaged[rng.integers(len(data))] ^= 1 << rng.integers(8)
        path.write_bytes(bytes(damaged[: rng.integers(1, len(data) + 1)]) if rng.random() < 0.3 else bytes(damaged))
        try:
            recorded().compare(path)
        except (ValueError, OSError) as error:
            assert str(error)  # noqa: PT017 - either outcome is right
    with pytest.raises(OSError, match="absent"):
        recorded().compare(tmp_path / "absent.npz")
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    with pytest.raises(ValueError, match=r"is not a file written by tape\.save_digests"):
        recorded().compare(tmp_path / "other.npz")


def test_digests_of_large_values():
    x = np.random.default_rng(0).normal(size=10_000).astype("float32")
    found = digest(x)
    assert found.sample.size == SAMPLE
    assert found.largest == np.abs(x).max()
    moved = x.copy()
    moved[5000] += 1e-6
    assert digest(moved).checksum != found.checksum
    chosen = places(10_000)
    assert (chosen[0], chosen[-1]) == (0, 9999)
    assert len(set(chosen.tolist())) == SAMPLE


def test_strings_integers_and_complex_numbers(tmp_path):
    def run(word, number=3, imaginary=2.0):
        with tf.GradientTape(digests=True) as tape:
            tf.reshape(tf.constant([word, "b"]), [2, 1])
            tf.constant([1, 2]) + number
            tf.complex(1.0, imaginary) * 2
        return tape

    run("A").save_digests(tmp_path / "run.npz")
    for other in (run("A"), tmp_path / "run.npz"):
        assert run("A").compare(other)
        assert run("C").compare(other).first.op == "reshape"
        assert run("A", number=4).compare(other).first.op == "add"
        assert run("A", imaginary=2.5).compare(other).first.op == "complex"


def test_nested_tapes():
    def run(power):
        x = tf.Variable(1.5)
        with tf.GradientTape(digests=True) as outer:
            with tf.GradientTape() as inner:
                y = x**power
            g = inner.gradient(y, x)
        outer.gradient(g, x)
        return outer

    assert run(3.0).compare(run(3.0))
    assert run(3.0).compare(run(3.5)).first.op == "pow"


def test_wrong_arguments():
    plain = tf.GradientTape()
    kept = recorded()
    with pytest.raises(ValueError, match=r"GradientTape\(digests=True\)"):
        kept.compare(plain)
    with pytest.raises(ValueError, match=r"GradientTape\(digests=True\)"):
        plain.compare(kept)
    with pytest.raises(TypeError, match="Received: 3"):
        kept.compare(3)
    with pytest.raises(ValueError, match="rtol=-1"):
        kept.compare(kept, rtol=-1)
    with pytest.raises(TypeError, match=r"Tolerances must be real numbers.*rtol='a'"):
        kept.compare(kept, rtol="a")
    with pytest.raises(TypeError, match=r"Tolerances must be real numbers.*atol=None"):
        kept.compare(kept, atol=None)
    with pytest.raises(ValueError, match="check_numerics"), tf.GradientTape(digests=True, check_numerics=True):
        pass
    assert tf.GradientTape(digests=True).compare(tf.GradientTape(digests=True))
