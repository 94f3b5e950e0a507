"""Large arrays: the same bits in any blocks and on any number of threads, and nothing left behind."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import weakref
from math import prod

import numpy as np
import pytest
from op_table import ROWS

import gradtape as tf
from gradtape._src import forks, threads
from gradtape._src.arrays import numpy_namespace
from gradtape._src.arrays.numpy import blocks, core
from gradtape._src.core.fast import backward
from gradtape._src.core.primitive import registry

SIZE = blocks.LARGE + 1234
NUMBERS = np.random.default_rng(0).standard_normal(SIZE).astype(np.float32) * 3


@pytest.fixture(autouse=True)
def _limit():
    yield
    threads.set_limit(0)


@pytest.fixture
def _two():
    threads.set_limit(2)


def bits(x):
    return np.ascontiguousarray(x).view(np.uint8).tobytes()


KERNELS = (
    "sigmoid",
    "softplus",
    "silu",
    "elu",
    "selu",
    "gelu",
    "gelu_slope",
    "gelu_tanh",
    "erf",
    "tanh",
    "exp",
    "relu6",
)


@pytest.mark.parametrize("name", KERNELS)
def test_the_number_of_threads_changes_no_bit(name, monkeypatch):
    kernel = getattr(numpy_namespace, name)
    results = []
    for count, block in itertools.product((1, 2, 3), (2**13, 2**15)):
        threads.set_limit(count)
        monkeypatch.setattr(blocks, "BLOCK", block)
        monkeypatch.setattr(blocks, "SHARED_BLOCK", block)
        results.append(bits(blocks.elementwise(kernel, (NUMBERS,))))
    assert len(set(results)) == 1
    assert results[0] == bits(np.concatenate([kernel(part) for part in np.split(NUMBERS, [1000, 5000, 70000])]))


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_rows_do_not_depend_on_threads(name):
    rows = NUMBERS[: SIZE // 100 * 100].reshape(-1, 4, 25)
    kernel, one = getattr(core, name), getattr(core, f"_{name}")
    for count in (1, 2, 3):
        threads.set_limit(count)
        assert bits(kernel(rows, axis=2)) == bits(one(rows, 2))


def operands():
    x = NUMBERS[: 400 * 330].reshape(400, 330)
    column, row = x[:, :1], x[0]
    yield x, x
    yield x, row
    yield x, column
    yield x, np.float32(2) * np.ones(())
    yield x.T.copy().T, x
    yield x[::-1], x
    yield np.broadcast_to(np.float32(3), x.shape), x
    yield x[:, ::-1], row


@pytest.mark.usefixtures("_two")
@pytest.mark.parametrize("case", range(8))
def test_operands_that_broadcast_or_have_other_orders_in_memory(case):
    x, y = list(operands())[case]

    def formula(x, y):
        return x * y - np.tanh(x)

    for function in (np.multiply, np.less, np.arctan2, formula):
        found, expected = blocks.elementwise(function, (x, y)), function(x, y)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.usefixtures("_two")
def test_a_ufunc_writes_into_the_memory_it_is_given():
    x = NUMBERS[: 400 * 330].reshape(400, 330)
    expected = x * x[0]
    for out in (np.empty_like(x), x.copy(), np.empty_like(x.T).T):
        operand = out if np.array_equal(out, x) else x
        assert blocks.elementwise(np.multiply, (operand, x[0]), {"out": out}) is out
        np.testing.assert_array_equal(out, expected)


@pytest.mark.usefixtures("_two")
def test_a_function_that_returns_its_argument_makes_no_copy():
    assert blocks.elementwise(lambda g: g, (NUMBERS,)) is NUMBERS
    assert blocks.elementwise(lambda g: g[::-1], (NUMBERS,)).base is NUMBERS


@pytest.mark.usefixtures("_two")
def test_gradients_of_large_arrays_are_those_of_their_parts():
    def gradient(values):
        x = tf.constant(values)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.tanh(x) * tf.exp(-x * x) + tf.nn.gelu(x) * tf.sigmoid(x) + tf.nn.elu(x) / (tf.abs(x) + 1.0)
        return tape.gradient(y, x).numpy()

    parts = [gradient(part) for part in np.array_split(NUMBERS, 7)]
    assert bits(gradient(NUMBERS)) == bits(np.concatenate(parts))


@pytest.mark.usefixtures("_two")
@pytest.mark.usefixtures("_two")
def test_sums_of_large_cotangents_are_those_of_their_parts(monkeypatch):
    added = []
    monkeypatch.setattr(backward, "_add_in_blocks", blocks.blockwise(lambda x, y, out=None: _added(added, x, y, out)))

    def gradient(numbers):
        x = tf.constant(numbers)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.tanh(x) * x + tf.exp(-x) * x  # x is used four times
        return tape.gradient(y, x).numpy()

    whole = gradient(NUMBERS)
    assert len(added) > 1  # several blocks
    parts = np.split(NUMBERS, range(10_000, SIZE, 10_000))
    assert bits(whole) == bits(np.concatenate([gradient(part) for part in parts]))


def _added(added, x, y, out):
    added.append(x.size)
    return np.add(x, y, out)


def test_float64_and_static_arguments_in_the_backward_pass():
    x = tf.constant(NUMBERS.astype(np.float64))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.nn.leaky_relu(x, 0.25) * tf.nn.softplus(x)
    slope = np.where(NUMBERS > 0, 1.0, 0.25)
    expected = slope * np.logaddexp(0, x) + slope * x.numpy() / (1 + np.exp(-x.numpy()))
    np.testing.assert_allclose(tape.gradient(y, x), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.usefixtures("_two")
def test_elementwise_kernels_run_in_blocks_only_after_the_first_large_array():
    tf.constant(NUMBERS)
    assert registry["tanh"].kernel is not np.tanh
    assert registry["matmul"].kernel is core.matmul
    np.testing.assert_array_equal(tf.tanh([0.5, 1.0]), np.tanh(np.float32([0.5, 1.0])))


FIRST_ARRAY = """
import resource, numpy as np, gradtape as tf
from gradtape._src.core.primitive import registry
def draw():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    tf.random.{function}([2_000_000])
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
tf.tanh(1.0)
faults = [draw() for _ in range(4)]
assert registry["tanh"].kernel is not np.tanh
print(min(faults))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="page faults of glibc's memory")
@pytest.mark.parametrize("function", ["normal", "uniform", "truncated_normal"])
def test_random_numbers_can_be_the_first_large_array(function):
    """Without the preparation for large arrays, the system clears thousands of pages for every call."""
    env = {**os.environ, "OMP_NUM_THREADS": "2"}
    code = FIRST_ARRAY.format(function=function)
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 500


@pytest.mark.usefixtures("_two")
def test_programs_run_large_ops_in_blocks(monkeypatch):
    def formula(x):
        return tf.tanh(x * x + 1.0) / (tf.sigmoid(x) + 2.0)

    jobs, run = [], threads.run
    monkeypatch.setattr(threads, "run", lambda work, count: jobs.append(count) or run(work, count))
    expected = np.concatenate([formula(tf.constant(part)) for part in np.array_split(NUMBERS, 5)])
    assert not jobs
    assert bits(tf.function(formula, jit_compile=False)(NUMBERS)) == bits(expected)
    assert len(jobs) == 6


# -- where -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_where_chooses_bits(dtype):
    r = np.random.default_rng(1)
    x, y = (r.standard_normal((80, 70)).astype(dtype) for _ in range(2))
    x[0, :4] = x[1, 1:5] = [0, 1, 2, 3]
    if dtype is not np.int32:
        x[0, :4], y[0, 4:8] = [np.nan, -0.0, np.inf, -np.inf], [-0.0, np.nan, np.inf, -np.inf]
    condition = r.random((80, 70)) < 0.5
    condition[0, :4], condition[0, 4:8] = True, False
    for a, b in ((x, y), (x, 0), (0, y), (x, y[0]), (x[:, :1], y), (x, dtype(7))):
        assert bits(core.where(condition, a, b)) == bits(np.where(condition, a, b).astype(dtype))
    assert core.where(condition, np.stack([x, x]), y).shape == (2, 80, 70)


# -- formulas --------------------------------------------------------------------------------------------------------
def test_sigmoid_is_precise_at_both_ends():
    x = np.array([-np.inf, -103, -95, -50, -20, -1, 0, 1, 20, 50, 1000, np.inf], np.float32)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(
        core.sigmoid(x), np.exp(np.minimum(wide, 0)) / (1 + np.exp(-np.abs(wide))), rtol=3e-7, atol=1.5e-45
    )
    assert np.isnan(core.sigmoid(np.float32([np.nan])))[0]
    for dtype in (np.float16, tf.bfloat16.as_numpy_dtype):
        half = core.sigmoid(x.astype(dtype))
        assert half.dtype == dtype
        np.testing.assert_allclose(half.astype(np.float64), 1 / (1 + np.exp(-wide)), rtol=1e-2, atol=1e-7)


# -- threads ---------------------------------------------------------------------------------------------------------
def test_sigmoid_of_many_numbers_has_the_bits_of_few():
    special = np.float32([np.nan, np.inf, -np.inf, 40, 40.5, -88, -104, 0.0])
    numbers = np.concatenate([NUMBERS[:5000] * 20, special])
    few = [core.sigmoid(part) for part in np.array_split(numbers, 50)]
    assert bits(core.sigmoid(numbers)) == bits(np.concatenate(few))


def test_every_number_is_worked_on_once():
    for count, limit in itertools.product((0, 1, 2, 50), (1, 2, 5)):
        threads.set_limit(limit)
        done = []
        threads.run(done.append, count)
        assert sorted(done) == list(range(count))


@pytest.mark.usefixtures("_two")
def test_small_arrays_start_no_thread(monkeypatch):
    monkeypatch.setattr(threads, "run", None)
    x = tf.constant(NUMBERS[:1000])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.nn.gelu(tf.sigmoid(x))
    assert tape.gradient(y, x).shape == x.shape


@pytest.mark.parametrize("limit", [1, 3])
def test_an_error_in_any_block_is_raised_and_ends_the_others(limit):
    threads.set_limit(limit)
    done = []

    def work(i):
        if i == 5:
            raise FloatingPointError("block 5")
        done.append(i)

    with pytest.raises(FloatingPointError, match="block 5"):
        threads.run(work, 100_000)
    assert len(done) < 100_000
    threads.run(done.append, 3)


@pytest.mark.usefixtures("_two")
def test_helpers_have_the_callers_handling_of_floating_point_errors():
    zeros = np.zeros(SIZE, np.float32)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        blocks.elementwise(np.log, (zeros,))
    with np.errstate(divide="ignore"):
        assert np.isneginf(blocks.elementwise(np.log, (zeros,))).all()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers")
@pytest.mark.usefixtures("_two")
def test_an_interrupt_leaves_no_thread_at_work():
    running = []

    def work(i):
        running.append(i)
        np.exp(NUMBERS)
        running.remove(i)

    def interrupt(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(KeyboardInterrupt):
            threads.run(work, 10**9)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert len(running) <= 1  # the block in which the signal arrived
    done = []
    threads.run(done.append, 10)
    assert len(done) == 10


@pytest.mark.usefixtures("_two")
def test_several_threads_share_the_helpers():
    expected, found = blocks.elementwise(core.sigmoid, (NUMBERS,)), []
    callers = [
        threading.Thread(target=lambda: found.extend(blocks.elementwise(core.sigmoid, (NUMBERS,)) for _ in range(5)))
        for _ in range(3)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(30)
    assert len(found) == 15
    assert all(bits(each) == bits(expected) for each in found)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning", "ignore:.*use of fork:DeprecationWarning")
@pytest.mark.usefixtures("_two")
def test_a_forked_child_starts_its_own_helpers():
    expected, generation = blocks.elementwise(core.sigmoid, (NUMBERS,)), forks.generation
    child = os.fork()
    if not child:
        signal.alarm(60)
        equal = bits(blocks.elementwise(core.sigmoid, (NUMBERS,))) == bits(expected)
        os._exit(0 if equal and forks.generation == generation + 1 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_the_limit(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert threads.limit() == 3
    tf.config.threading.set_intra_op_parallelism_threads(2)
    assert threads.limit() == 2
    tf.config.threading.set_intra_op_parallelism_threads(0)
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert 1 <= threads.limit() <= threads.MOST


# -- every elementwise op --------------------------------------------------------------------------------------------
ELEMENTWISE = [row for row in ROWS.values() if row.op.elementwise and row.function is None]


@pytest.mark.usefixtures("_two")
@pytest.mark.parametrize("row", ELEMENTWISE, ids=lambda row: row.name)
def test_values_and_gradients_of_the_op_table_in_blocks(row, monkeypatch):
    def results(operands):
        xs = [tf.constant(a) for a in operands]
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([x for x in xs if x.dtype.is_floating])
            y = row.call(*xs, **sample.attrs)
        found = [] if row.error or not row.differentiable else tape.gradient(y, [x for x in xs if x.dtype.is_floating])
        return [np.asarray(each) for each in (y, *found) if each is not None]

    tf.constant(NUMBERS)
    sample = row.samples[0]
    shape = np.broadcast_shapes(*[a.shape for a in sample.args])
    full = [
        np.concatenate([np.broadcast_to(a, shape).reshape(-1)] * (2000 // prod(shape) // 40 * 40)) for a in sample.args
    ]
    full = [a.astype(np.float32) if a.dtype.kind == "f" else a for a in full]
    for operands in (full, [a.reshape(40, -1) if i else a.reshape(40, -1)[:, :1] for i, a in enumerate(full)]):
        expected = results(operands)
        with monkeypatch.context() as patch:
            patch.setattr(blocks, "LARGE", 40)
            patch.setattr(blocks, "BLOCK", 256)
            patch.setattr(blocks, "SHARED_BLOCK", 256)
            found = results(operands)
        for a, b in zip(found, expected, strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            np.testing.assert_array_equal(a, b)


def test_a_job_that_is_done_holds_no_arrays():
    """A helper may find it in its queue long after it is done."""
    x = np.zeros(3)
    job = threads._Job(lambda i, x=x: x.__setitem__(i, 1.0), 3, helpers=1)
    gone = weakref.ref(x)
    job.run_share()
    assert x.tolist() == [1.0] * 3
    job.finish()
    del x
    assert gone() is None
    job.help()  # too late: nothing is left to do
