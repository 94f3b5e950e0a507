"""Programs of replicas that XLA compiles for four devices. `python -m distribute.spmd_programs` runs all of them,
in a process of its own: JAX has to be told of the devices before it starts.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

import numpy as np
import pytest

import gradtape as tf

N = 4
SUM = tf.VariableAggregation.SUM


def program(function, *args):
    return function.get_concrete_function(*args).traced.plain


def devices(function, *args):
    return program(function, *args).device_count


def number():
    return tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)


def copies(strategy, value):
    return [part.numpy().tolist() for part in strategy.experimental_local_results(value)]


def batches(strategy, x, size):
    data = tf.data.Dataset.from_tensor_slices(x).batch(size)
    return list(strategy.experimental_distribute_dataset(data))


def a_step_runs_on_all_devices(strategy):
    with strategy.scope():
        v = tf.Variable([1.0, 2.0])
        optimizer = tf.keras.optimizers.SGD(0.5, momentum=0.5)
        optimizer.build([v])

    def replica(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(x * v)
        optimizer.apply_gradients([(tape.gradient(loss, v), v)])
        return loss

    @tf.function(jit_compile=True)
    def step(x):
        return strategy.reduce("SUM", strategy.run(replica, args=(x,)), axis=None)

    (x,) = batches(strategy, np.arange(16.0, dtype="f").reshape(8, 2), 8)
    losses = [float(step(x)) for _ in range(3)]
    assert devices(step, x) == N
    assert program(step, x).over_replicas.compiled().as_text().count("all-reduce(") <= 2
    # The gradient is the sum of all rows: [56, 64]; momentum 0.5.
    np.testing.assert_allclose(losses, [184.0, -3432.0, -8856.0])
    assert copies(strategy, v) == [v.numpy().tolist()] * N
    whole = {id(copy.storage.newest().mirror) for copy in strategy.experimental_local_results(v)}
    assert len(whole) == 1


def copies_may_differ(strategy):
    with strategy.scope():
        own = tf.Variable(0.0)
        total = tf.Variable(0.0, synchronization=tf.VariableSynchronization.ON_READ, aggregation=SUM)

    @tf.function(jit_compile=True)
    def step():
        strategy.run(lambda: own.assign_add(number()))
        strategy.run(lambda: total.assign_add(number() + 1.0))

    for _ in range(3):
        step()
    assert devices(step) == N
    assert copies(strategy, own) == [0.0, 3.0, 6.0, 9.0]
    assert float(total) == 30.0


def a_failed_check_changes_nothing(strategy):
    with strategy.scope():
        v = tf.Variable([1.0, 2.0, 3.0], aggregation=SUM)

    @tf.function(jit_compile=True)
    def step(rows):
        strategy.run(lambda i: v.assign_add(tf.gather([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]], i)[0]), args=(rows,))

    (rows,) = batches(strategy, np.array([0, 1, 0, 1]), 4)
    step(rows)
    step(rows)
    assert v.numpy().tolist() == [13.0, 14.0, 15.0]
    (wrong,) = batches(strategy, np.array([0, 1, 7, 1]), 4)
    for _ in range(2):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[0\] = 7 is not in \[0, 2\)"):
            step(wrong)
        assert copies(strategy, v) == [[13.0, 14.0, 15.0]] * N
    step(rows)
    assert v.numpy().tolist() == [19.0, 20.0, 21.0]
    assert devices(step, rows) == N


def a_signal_leaves_all_copies_old_or_all_new(strategy):
    """Also one that arrives in JAX's Python code, which copies the batch to the devices within a launch."""
    import jax
    from interrupts import every_interrupt

    with strategy.scope():
        variables = [tf.Variable([0.0, 0.0], aggregation=SUM) for _ in range(3)]

    @tf.function(jit_compile=True)
    def step(rows):
        strategy.run(lambda x: [v.assign_add(x[0]) for v in variables], args=(rows,))

    (rows,) = batches(strategy, np.ones([N, 2], "f"), N)
    step(rows)
    assert devices(step, rows) == N
    before, outcomes = float(N), set()
    for where in every_interrupt(lambda: step(rows), step=3, files=(str(Path(jax.__file__).parent),)):
        found = [copies(strategy, v) for v in variables]
        after = found[0][0][0]
        assert after in (before, before + N), (where, before, found)
        assert found == [[[after, after]] * N] * len(variables), (where, before, found)
        outcomes.add(after == before)
        before = after
    assert outcomes == {True, False}


def uneven_batches_run_on_one_device(strategy):
    @tf.function(jit_compile=True)
    def total(x):
        return strategy.reduce("SUM", strategy.run(lambda x: x * x, args=(x,)), axis=0)

    found = [float(total(x)) for x in batches(strategy, np.arange(10.0, dtype="f"), 8)]
    assert found == [140.0, 145.0]
    assert devices(total, batches(strategy, np.arange(8.0, dtype="f"), 8)[0]) == N
    assert "on one device, because values of replicas have different shapes" in str(total.summary())


def assignments_of_eager_code_are_seen(strategy):
    with strategy.scope():
        v = tf.Variable(1.0, aggregation=tf.VariableAggregation.MEAN)

    @tf.function(jit_compile=True)
    def double():
        strategy.run(lambda: v.assign(2.0 * v))

    double()
    v.assign(10.0)
    double()
    assert float(v) == 20.0
    strategy.experimental_local_results(v)[1].assign(0.0)
    assert copies(strategy, v) == [20.0, 0.0, 20.0, 20.0]


def replicas_draw_numbers_of_their_own(strategy):
    tf.random.set_seed(1)

    @tf.function(jit_compile=True)
    def draw():
        return strategy.run(lambda: tf.random.uniform([2]))

    first, second = copies(strategy, draw()), copies(strategy, draw())
    assert devices(draw) == N
    assert len({tuple(row) for row in first + second}) == 2 * N


def control_flow_is_a_part_of_the_program(strategy):
    @tf.function
    def inner(x):
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2.0), (0, x))[1]

    @tf.function(jit_compile=True)
    def outer():
        def replica():
            y = inner(number())
            return tf.cond(y > 8.0, lambda: -y, lambda: y)

        return strategy.run(replica)

    assert copies(strategy, outer()) == [0.0, 8.0, -16.0, -24.0]
    assert devices(outer) == N


def derivatives_are_a_part_of_the_program(strategy):
    with strategy.scope():
        v = tf.Variable([1.0, 2.0])

    @tf.custom_gradient
    def tripled(x):
        return x, lambda g: 3.0 * g * (number() + 1.0)

    def replica(x):
        with tf.GradientTape() as outer, tf.autodiff.ForwardAccumulator(v, tf.constant([1.0, 0.5])) as tangents:
            with tf.GradientTape(persistent=True) as tape:
                y = v**3 * x
                z = tf.reduce_sum(y)
                w = tf.distribute.get_replica_context().all_reduce("SUM", z)
                c = tf.reduce_sum(tripled(v))
            gradient = tape.gradient(z, v)
        found = [gradient, tape.jacobian(y, v), tape.gradient(w, v), tape.gradient(c, v), tangents.jvp(y)]
        return [*found, tangents.jvp(gradient), outer.gradient(gradient, v)]

    step = tf.function(lambda x: strategy.run(replica, args=(x,)), jit_compile=True)
    (x,) = batches(strategy, np.arange(1.0, N + 1, dtype="f")[:, None] * np.ones(2, "f"), N)
    for k, *found in zip(range(1, N + 1), *[copies(strategy, part) for part in step(x)], strict=True):
        gradient, jacobian, reduced, custom, tangent, of_gradient, second = [np.reshape(part, [-1]) for part in found]
        np.testing.assert_allclose(gradient, [3.0 * k, 12.0 * k])
        np.testing.assert_allclose(jacobian, [3.0 * k, 0.0, 0.0, 12.0 * k])
        np.testing.assert_allclose(reduced, N * gradient)  # the sum is a value of all N replicas
        np.testing.assert_allclose(custom, [3.0 * k] * 2)
        np.testing.assert_allclose(tangent, [3.0 * k, 6.0 * k])
        np.testing.assert_allclose(of_gradient, [6.0 * k, 6.0 * k])
        np.testing.assert_allclose(second, [6.0 * k, 12.0 * k])
    assert devices(step, x) == N


def functions_with_replicas_have_derivatives(strategy):
    with strategy.scope():
        w = tf.Variable(3.0)

    @tf.function(jit_compile=True)
    def total(u, x):
        return strategy.reduce("SUM", strategy.run(lambda x: tf.reduce_sum(u * u * x) * w, args=(x,)), axis=None)

    (x,) = batches(strategy, np.arange(1.0, N + 1, dtype="f")[:, None] * np.ones(2, "f"), N)
    u = tf.constant([1.0, 2.0])
    with tf.GradientTape() as outer, tf.autodiff.ForwardAccumulator(u, tf.ones([2])) as tangents:
        outer.watch(u)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(u)
            y = total(u, x)
        gradient = tape.gradient(y, u)
    assert gradient.numpy().tolist() == [60.0, 120.0]
    assert float(tangents.jvp(y)) == 180.0
    assert outer.jacobian(gradient, u).numpy().tolist() == [[60.0, 0.0], [0.0, 60.0]]
    copies_of_w = strategy.experimental_local_results(w)
    assert [float(tape.gradient(y, copy)) for copy in copies_of_w] == [5.0, 10.0, 15.0, 20.0]  # as in TensorFlow
    assert float(tape.gradient(y, w)) == 5.0


def values_are_gathered(strategy):
    with strategy.scope():
        table = tf.Variable(tf.zeros([4, 2]))
        optimizer = tf.keras.optimizers.SGD(1.0)
        optimizer.build([table])

    @tf.function(jit_compile=True)
    def step():
        def replica():
            row = tf.reshape(tf.cast(number(), tf.int32), [1])
            with tf.GradientTape() as tape:
                y = tf.reduce_sum(tf.gather(table, row)) * (number() + 1.0)
            optimizer.apply_gradients([(tape.gradient(y, table), table)])
            return tf.distribute.get_replica_context().all_gather(row, axis=0)

        return strategy.run(replica)

    assert copies(strategy, step()) == [[0, 1, 2, 3]] * N
    assert table.numpy()[:, 0].tolist() == [-1.0, -2.0, -3.0, -4.0]
    assert devices(step) == N


def a_value_of_one_replica_is_used_across(strategy):
    @tf.function(jit_compile=True)
    def f():
        parts = strategy.experimental_local_results(strategy.run(lambda: number() + 1.0))
        return parts[0] * parts[2] + tf.distribute.get_strategy().num_replicas_in_sync

    with strategy.scope():
        assert float(f()) == 7.0
    assert devices(f) == N


def keras_fit_runs_on_all_devices(strategy):
    tf.config.optimizer.set_jit(True)
    with strategy.scope():
        layers = [tf.keras.Input([3]), tf.keras.layers.Dropout(0.2), tf.keras.layers.Dense(2)]
        model = tf.keras.Sequential([*layers, tf.keras.layers.BatchNormalization(synchronized=True)])
        model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    x = np.random.default_rng(0).normal(size=(16, 3)).astype("f")
    model.fit(x, (x[:, 0] > 0).astype("int64"), batch_size=8, epochs=2, verbose=0)
    (concrete,) = model.train_function._one.traces()
    assert concrete.traced.plain.device_count == N
    assert all(copies(strategy, w._value)[0] == copies(strategy, w._value)[3] for w in model.weights[:2])
    tf.config.optimizer.set_jit("auto")


def each_device_holds_its_part_of_a_model(strategy):
    keras = tf.keras
    mesh = keras.distribution.DeviceMesh((1, N), ["batch", "model"], devices=[f"cpu:{i}" for i in range(N)])
    layouts = keras.distribution.LayoutMap(mesh)
    layouts[".*kernel.*"] = (None, "model")
    keras.distribution.set_distribution(keras.distribution.ModelParallel(layout_map=layouts, batch_dim_name="batch"))
    try:
        model = keras.Sequential([keras.Input([8]), keras.layers.Dense(64), keras.layers.Dense(8)])
        model.compile("adam", "mse")
        x = np.ones([4, 8], "f")
        before = model.get_weights()[0]
        model.fit(x, x, batch_size=4, epochs=2, verbose=0)
        assert np.abs(model.get_weights()[0] - before).max() > 0
        divided = [v for v in [*model.weights, *model.optimizer.variables] if "kernel" in v.path]
        assert len(divided) == 6  # two kernels, and two moments of each
        for v in divided:
            array = v.value.array if hasattr(v.value, "array") else v._value.storage.newest()
            assert [shard.data.nbytes for shard in array.addressable_shards] == [array.nbytes // N] * N
    finally:
        keras.distribution.set_distribution(None)


def the_state_of_an_optimizer_is_divided(strategy):
    """Every device has all weights, and its part of the moments; what it trains is the same."""
    keras = tf.keras
    x = np.random.default_rng(0).normal(size=(16, 8)).astype("f")

    def trained():
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input([8]), keras.layers.Dense(64, activation="tanh"), keras.layers.Dense(8)])
        model.compile(keras.optimizers.Adam(0.01), "mse")
        model.fit(x, x, batch_size=8, epochs=2, shuffle=False, verbose=0)
        return model

    alone = trained()
    layouts = keras.distribution.LayoutMap(keras.distribution.DeviceMesh((N,), ["batch"]))
    layouts["adam.*kernel_(momentum|velocity)"] = ("batch", None)
    layouts["adam.*bias_(momentum|velocity)"] = ("batch",)
    keras.distribution.set_distribution(keras.distribution.ModelParallel(layout_map=layouts))
    try:
        model = trained()
        for found, expected in zip(model.get_weights(), alone.get_weights(), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-6)
        for variables, parts in ((model.weights, 1), (model.optimizer.variables[2:], N)):
            for v in variables:
                array = v._value.storage.newest()
                sizes = [shard.data.nbytes for shard in array.addressable_shards]
                assert sizes == [array.nbytes // parts] * N, v.path
    finally:
        keras.distribution.set_distribution(None)


PROGRAMS = (
    a_step_runs_on_all_devices,
    copies_may_differ,
    a_failed_check_changes_nothing,
    a_signal_leaves_all_copies_old_or_all_new,
    uneven_batches_run_on_one_device,
    assignments_of_eager_code_are_seen,
    replicas_draw_numbers_of_their_own,
    control_flow_is_a_part_of_the_program,
    derivatives_are_a_part_of_the_program,
    functions_with_replicas_have_derivatives,
    values_are_gathered,
    a_value_of_one_replica_is_used_across,
    keras_fit_runs_on_all_devices,
    each_device_holds_its_part_of_a_model,
    the_state_of_an_optimizer_is_divided,
)

if __name__ == "__main__":
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * N)
    strategy = tf.distribute.MirroredStrategy()
    for run in PROGRAMS if len(sys.argv) == 1 else [globals()[name] for name in sys.argv[1:]]:
        try:
            run(strategy)
        except Exception:
            print("failed", run.__name__, repr(traceback.format_exc()))
        else:
            print("passed", run.__name__)
