"""What a tape keeps, and that nothing is left when it is gone: all with the cycle collector switched off."""

from __future__ import annotations

import collections
import copy
import gc
import sys
import tracemalloc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gradtape as tf
from gradtape._src import memory, tensor
from gradtape._src.core.fast.calls import write_vjps
from gradtape._src.core.primitive import registry
from gradtape._src.core.tape import active_recorders
from gradtape._src.inspect.gradient_tape import GradientTape
from gradtape._src.tensor import Tensor
from gradtape._src.variable import peek


@pytest.fixture(autouse=True)
def no_collector():
    """Reference counts alone must do: a cycle would stay, and be found."""
    gc.freeze()  # what other tests left is none of ours, and in the way of every look at what is there
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()
    assert active_recorders() == ()


class Witness:
    """Remembers tensors, arrays and anything else by weak references."""

    def __init__(self):
        self.refs = []

    def __call__(self, *things):
        for thing in things:
            self.refs.append((type(thing).__name__, weakref.ref(thing)))
            if isinstance(thing, Tensor):
                self.refs.append(("array", weakref.ref(thing.array)))
        return things[0]

    def alive(self):
        return [name for name, ref in self.refs if ref() is not None]


@pytest.fixture
def see():
    return Witness()


def network(see, x, w1, w2):
    h = see(x @ w1)
    r = see(tf.nn.relu(h))
    e = see(tf.exp(r * 0.1))
    out = see(tf.reduce_sum(e @ w2))
    return out


def weights():
    rng = np.random.default_rng(0)
    return [tf.Variable(rng.normal(size=s).astype(np.float32)) for s in ((4, 5), (5, 3))]


X = tf.constant(np.random.default_rng(1).normal(size=(6, 4)).astype(np.float32))


# -- nothing is left -------------------------------------------------------------------------------
def test_nothing_is_left_of_a_step(see):
    w1, w2 = weights()
    with tf.GradientTape() as tape:
        loss = network(see, X, w1, w2)
    see(tape, *tape.gradient(loss, [w1, w2]))
    del tape, loss
    assert see.alive() == []


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("asked", [0, 1, 2])
def test_nothing_is_left_of_a_tape(see, persistent, asked):
    w1, w2 = weights()
    with tf.GradientTape(persistent) as tape:
        loss = network(see, X, w1, w2)
    see(tape)
    for _ in range(asked if persistent else min(asked, 1)):
        tape.gradient(loss, w1)
    del tape, loss
    assert see.alive() == []


def test_a_used_tape_keeps_nothing(see):
    w1, w2 = weights()
    with tf.GradientTape() as tape:
        loss = network(see, X, w1, w2)
    tape.gradient(loss, w1)
    del loss
    assert see.alive() == []
    assert len(tape.watched_variables()) == 2


def test_reset_lets_go(see):
    w1, w2 = weights()
    with tf.GradientTape() as tape:
        loss = network(see, X, w1, w2)
        del loss
        tape.reset()
        assert see.alive() == []


def test_nothing_is_left_of_nested_tapes(see):
    w1, w2 = weights()
    with tf.GradientTape(persistent=True) as outer:
        with tf.GradientTape(persistent=True) as inner:
            loss = network(see, X, w1, w2)
        g = see(inner.gradient(loss, w1))
        h = see(tf.reduce_sum(g * g))
    see(outer, inner, outer.gradient(h, w1))
    del outer, inner, loss, g, h
    assert see.alive() == []


def test_nothing_is_left_of_a_tape_that_differentiates_itself(see, caplog):
    x = tf.Variable(np.ones(3))
    with tf.GradientTape(persistent=True) as tape:
        y = see(x * x * x)
        d = see(tape.gradient(y, x))
        dd = see(tape.gradient(d, x))
    see(tape, tape.gradient(dd, x))
    del tape, y, d, dd
    assert see.alive() == []


@pytest.mark.parametrize("method", ["jacobian", "batch_gradient", "batch_jacobian", "hessian"])
def test_nothing_is_left_of_jacobians(see, method):
    x = tf.Variable(np.ones((3, 2)))
    with tf.GradientTape() as tape:
        y = see(tf.exp(x) @ x.numpy().T @ x)
        s = see(tf.reduce_sum(y * y))
    see(tape, getattr(tape, method)(s if method == "hessian" else y, x))
    del tape, y, s
    assert see.alive() == []


def test_nothing_is_left_of_custom_gradients(see):
    @tf.custom_gradient
    def f(x):
        saved = see(x * 2.0)

        def grad(g):
            return see(g * saved)

        see(grad)
        return see(x * x), grad

    x = tf.Variable(np.ones(3))
    with tf.GradientTape() as tape:
        y = see(f(x) + f(x))
    tape.gradient(y, x)
    del tape, y
    assert see.alive() == []


def test_nothing_is_left_of_recompute_grad(see):
    x = tf.Variable(np.ones(3))
    with tf.GradientTape() as tape:
        y = see(tf.recompute_grad(lambda x: see(see(tf.exp(x)) * x))(x))
        kept = see.alive()
    assert len(kept) == 3  # the result, and the array that it shares with the body's last tensor
    tape.gradient(y, x)
    del tape, y
    assert see.alive() == []


def test_nothing_is_left_of_a_forward_accumulator(see):
    x = tf.constant(np.ones(3))
    with tf.autodiff.ForwardAccumulator(x, tf.ones([3], tf.float64)) as accumulator:
        y = see(tf.exp(x) * x)
    see(accumulator.jvp(y), accumulator)
    del accumulator, y
    assert see.alive() == []


def test_nothing_is_left_after_errors(see):
    x = tf.Variable(np.ones(3))

    def fails_inside():
        with tf.GradientTape() as tape:
            see(tape, x * x)
            raise ArithmeticError

    def fails_asking():
        with tf.GradientTape() as tape:
            y = see(x * x)
        see(tape)
        tape.gradient(y, x, output_gradients=tf.ones([7], tf.float64))

    @tf.custom_gradient
    def broken(x):
        def grad(g):
            raise ArithmeticError

        return see(x * 1.0), grad

    def fails_in_a_rule():
        with tf.GradientTape() as tape:
            y = see(broken(x) * x)
        see(tape)
        tape.gradient(y, x)

    def fails_in_an_op():
        with tf.GradientTape() as tape:
            see(tape)
            see(x * x) + tf.ones([7], tf.float64)

    for fails in (fails_inside, fails_asking, fails_in_a_rule, fails_in_an_op):
        with pytest.raises((ArithmeticError, tf.errors.InvalidArgumentError)):
            fails()
    assert see.alive() == []


def test_nothing_is_left_of_an_abandoned_generator(see):
    x = tf.Variable(np.ones(3))

    def steps():
        with tf.GradientTape() as tape:
            see(tape)
            yield see(x * x)

    generator = steps()
    next(generator)
    generator.close()
    del generator
    assert see.alive() == []


def test_copies_and_pauses_let_go(see):
    x = tf.Variable(np.ones(3))
    with tf.GradientTape() as tape:
        y = see(x * x)
        with tape.pause(), tape.stop_recording():
            see(x * x)
        twin = copy.copy(tape)
    del tape, y
    del twin
    assert see.alive() == []


def test_tensors_do_not_keep_the_tape_alive(see):
    x = tf.Variable(np.ones(3))
    with tf.GradientTape() as tape:
        y = tf.exp(x) * x
    see(tape)
    del tape
    assert see.alive() == []
    assert y.shape == (3,)


def test_variables_and_modules_are_freed(see):
    class Net(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = see(tf.Variable(np.ones(3)))
            self.inner = [tf.Module(), {"v": see(tf.Variable(1.0))}]

    net = see(Net())
    assert len(net.trainable_variables) == 2
    del net
    assert see.alive() == []


def growth(step, count):
    """How many objects, by type, `count` steps leave behind: of three rounds the least, because a leak never rests."""
    rounds = []
    for _ in range(3):
        before = collections.Counter(type(thing).__name__ for thing in gc.get_objects())
        for _ in range(count):
            step()
        after = collections.Counter(type(thing).__name__ for thing in gc.get_objects())
        rounds.append(after - before)
    return min(rounds, key=lambda left: left.total())


def test_ten_thousand_steps_do_not_grow():
    x = tf.constant([[1.0, 2.0, 3.0]])
    w, b = tf.Variable([[0.1], [0.2], [0.3]]), tf.Variable([0.0])

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ w + b - 1.0) ** 2)
        dw, db = tape.gradient(loss, [w, b])
        w.assign_sub(0.01 * dw)
        b.assign_sub(0.01 * db)

    left = growth(step, 3000)
    assert left.total() < 20, left
    blocks = sys.getallocatedblocks()
    for _ in range(1000):
        step()
    assert sys.getallocatedblocks() - blocks < 500


def test_a_thousand_jacobians_do_not_grow():
    x = tf.Variable(np.ones((3, 2)))

    def step():
        with tf.GradientTape() as tape:
            y = tf.exp(x) * x
        tape.jacobian(y, x)

    left = growth(step, 300)
    assert left.total() < 20, left


# -- what is saved ---------------------------------------------------------------------------------
def saved(tape, *known):
    """The arrays a tape keeps beside those given, each buffer once."""
    owners = {id(owner(t.array if isinstance(t, Tensor) else peek(t).array)) for t in known}
    found = {}
    for record in tape.records:
        for value in record.values:
            if value is not None:
                buffer = owner(value.array)
                if id(buffer) not in owners:
                    found[id(buffer)] = buffer
    return list(found.values())


def owner(array):
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def test_a_layer_keeps_one_activation():
    w, b = tf.Variable(np.ones((4, 5), np.float32)), tf.Variable(np.ones(5, np.float32))
    with tf.GradientTape() as tape:
        y = tf.nn.relu(X @ w + b)
    (activation,) = saved(tape, X, w, b)
    assert activation is owner(y.array)
    assert sum(a.nbytes for a in saved(tape, X, w, b)) == 6 * 5 * 4


SAVES = {  # how many arrays beside x an op keeps
    "add": (lambda x: x + x, 0),
    "neg": (lambda x: -x, 0),
    "scale": (lambda x: x * 2.0, 1),  # the number
    "exp": (tf.exp, 1),
    "log": (tf.math.log, 0),
    "tanh": (tf.tanh, 1),
    "square": (tf.square, 0),
    "sum": (tf.reduce_sum, 0),
    "mean": (tf.reduce_mean, 0),
    "reshape": (lambda x: tf.reshape(x, [-1]), 0),
    "transpose": (tf.transpose, 0),
    "slice": (lambda x: x[1:], 0),
    "concat": (lambda x: tf.concat([x, x], 0), 0),
    "stack": (lambda x: tf.stack([x, x]), 0),
    "softmax": (tf.nn.softmax, 1),
    "cast": (lambda x: tf.cast(x, tf.float64), 0),
    "floor": (tf.floor, 0),
    "comparison": (lambda x: x > 0.0, 0),
    "matmul with a constant": (lambda x: x @ np.ones((4, 2), np.float32), 1),
}


@pytest.mark.parametrize("name", SAVES)
def test_only_what_a_rule_needs_is_saved(name):
    f, count = SAVES[name]
    with tf.GradientTape() as tape:
        tape.watch(X)
        f(X)
    assert len(saved(tape, X)) == count


def test_inputs_that_only_other_rules_need_are_not_saved():
    """d(x w)/dx needs w and d(x w)/dw needs x: a constant x is kept, a constant w is what x's rule needs."""
    w = tf.Variable(np.ones((4, 2), np.float32))
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(X)
        tf.matmul(X, w)
    kept = [v for r in tape.records for v in r.values if v is not None]
    assert len(kept) <= 2


def test_activations_that_nobody_needs_die_while_recording(see):
    with tf.GradientTape() as tape:
        tape.watch(X)
        h = see(X + 1.0)
        y = see(h * 2.0)
        z = tf.reduce_sum(y)
        del h, y
        assert see.alive() == []
    assert float(tape.gradient(z, X)[0, 0]) == 2.0


def test_a_record_is_small():
    x = tf.Variable(1.0)
    n = 5000
    with tf.GradientTape() as tape:
        y = x * 1.0
        before = sys.getallocatedblocks()
        for _ in range(n):
            y = -y
    per_record = (sys.getallocatedblocks() - before) / n
    assert per_record < 8  # blocks: the record, its inputs, its values, the uid, an entry or two
    assert float(tape.gradient(y, x)) == 1.0


# -- freeing during the walk -----------------------------------------------------------------------
def test_the_walk_frees_what_it_has_passed(see, monkeypatch):
    """When the rule of the first op runs, the activations of the later ones are gone."""
    x = tf.constant(np.ones(1000))
    first = registry["exp"]
    write_vjps(first)
    alive = []

    def look(pull):
        def looking(g, values, attrs, shape):
            alive.append(len(see.alive()))
            return pull(g, values, attrs, shape)

        return looking

    for form in ("vjps", "checked_vjps"):
        monkeypatch.setattr(first, form, tuple(look(pull) for pull in getattr(first, form)))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.exp(x)
        for _ in range(5):
            y = see(tf.tanh(y))
        y = tf.reduce_sum(y)
    held = len(see.alive())
    assert held == 10  # five tensors and their arrays
    tape.gradient(y, x)
    assert alive == [0]

    alive.clear()
    see.refs.clear()
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = tf.exp(x)
        for _ in range(5):
            y = see(tf.tanh(y))
        y = tf.reduce_sum(y)
    tape.gradient(y, x)
    assert alive == [10]  # a persistent tape keeps them


def test_the_peak_of_a_walk_does_not_grow_with_depth():
    size = 250_000

    def peak(depth):
        x = tf.constant(np.ones(size, np.float32))
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in range(depth):
                y = tf.tanh(y)
            y = tf.reduce_sum(y)
        tracemalloc.reset_peak()
        start = tracemalloc.get_traced_memory()[0]
        tape.gradient(y, x)
        return tracemalloc.get_traced_memory()[1] - start

    tracemalloc.start()
    try:
        shallow, deep = peak(5), peak(40)
    finally:
        tracemalloc.stop()
    assert deep < shallow + 2 * size * 4


# -- depth -----------------------------------------------------------------------------------------
def test_a_million_ops():
    x = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = x * 1.0
        for _ in range(1_000_000):
            y = -y
    assert len(tape._recording.records) == 1_000_001
    assert float(tape.gradient(y, x)) == 1.0


@pytest.mark.parametrize("persistent", [False, True])
def test_a_deep_chain_dies_without_recursion(persistent):
    x = tf.Variable(1.0)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(200)
    try:
        with tf.GradientTape(persistent) as tape:
            y = x * 1.0
            for _ in range(100_000):
                y = tf.tanh(y) + 1e-3
        g = tape.gradient(y, x)
        del tape, y
    finally:
        sys.setrecursionlimit(limit)
    assert np.isfinite(float(g))


def test_a_deep_chain_that_was_never_asked_dies_without_recursion():
    x = tf.Variable(1.0)
    with GradientTape() as tape:
        y = x * 1.0
        for _ in range(100_000):
            y = tf.tanh(y)
    ref = weakref.ref(tape)
    del tape, y
    assert ref() is None


def test_deep_second_derivatives():
    x = tf.Variable(1.0, dtype=tf.float64)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = x * 1.0
            for _ in range(3000):
                y = y * x
        g = inner.gradient(y, x)
    assert float(g) == 3001.0
    assert float(outer.gradient(g, x)) == 3001.0 * 3000.0


def test_a_wide_sum_of_many_readings():
    v = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        total = tf.add_n([v * float(i) for i in range(3000)])
    assert tape.gradient(total, v).numpy().tolist() == [3000 * 2999 / 2] * 2


# -- memory that is used again ---------------------------------------------------------------------------------------
@pytest.fixture
def small_is_large(monkeypatch):
    """Blocks are kept from 1 kB on, and not more than 10 kB of them."""
    monkeypatch.setattr(memory, "LARGE", 1000)
    monkeypatch.setattr(memory, "KEPT", 10_000)
    monkeypatch.setattr(memory, "_blocks", [])


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_of_large_arrays_is_used_again(small_is_large):
    first = memory.empty((1000,), np.dtype(np.float32))
    was = address(first)
    assert was % 64 == 0
    second = memory.empty((1000,), np.dtype(np.float32))
    assert address(second) != was  # somebody holds it
    del first
    assert address(memory.empty((25, 40), np.dtype(np.float32))) == was
    assert address(memory.empty((700,), np.dtype(np.int32))) == was  # a smaller one fits
    assert address(memory.empty((200,), np.dtype(np.float64))) != was  # in one that is not much too large


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[3:4],
        lambda a: a.T,
        lambda a: a.reshape(-1)[::2].view(np.int32)[1:],
        memoryview,
        lambda a: np.broadcast_to(a[0], (3, *a.shape[1:])),
        np.from_dlpack,
        lambda a: holding(a[1:]).numpy(),
    ],
)
def test_memory_is_not_used_again_while_a_view_of_it_lives(view, small_is_large):
    whole = memory.empty((20, 20), np.dtype(np.float32))
    whole[...] = 7.0
    part = view(whole)
    del whole
    memory.empty((20, 20), np.dtype(np.float32))[...] = 0.0
    assert (np.asarray(part).view(np.float32) == 7.0).all()


def holding(array):
    tensor = tf.constant(0.0)
    tensor.array = array
    return tensor


def test_memory_that_is_kept_has_a_limit(small_is_large):
    arrays = [memory.empty((500 + 100 * i,), np.dtype(np.float32)) for i in range(10)]
    assert sum(block.nbytes for block in memory._blocks) <= 10_000
    for i, array in enumerate(arrays):
        array[...] = i
    assert all((array == i).all() for i, array in enumerate(arrays))
    memory.empty((10_000,), np.dtype(np.float32))
    assert not memory._blocks  # more than is kept: nobody else's memory stays for it either


def test_large_results_are_copied_as_small_ones_are(small_is_large):
    x = tf.Variable(np.ones((30, 40), np.float32))
    for _ in range(3):
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.matmul(tf.ones([5, 30]), x), 1)
        rows = tape.jacobian(y, x)
        seen = rows.numpy()
        seen[...] = 5.0
        assert (rows.numpy() == 1.0).all()


@pytest.mark.skipif(not tensor._LAST, reason="this Python cannot tell")
def test_a_large_result_that_nobody_else_holds_is_handed_over(small_is_large, monkeypatch):
    monkeypatch.setattr(memory, "KEPT", 10**6)
    held = holding(memory.empty((20_000,), np.dtype(np.float32)))
    copied = held.numpy()
    assert len(memory._blocks) == 2
    del held, copied
    memory._blocks.clear()
    given = holding(memory.empty((20_000,), np.dtype(np.float32))).numpy()
    assert len(memory._blocks) == 1
    assert given.base is memory._blocks[0]


def test_threads_do_not_get_the_same_memory(small_is_large):
    def work(k):
        for _ in range(200):
            mine = memory.empty((400,), np.dtype(np.int32))
            mine[...] = k
            assert (mine == k).all()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
