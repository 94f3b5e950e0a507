"""Replicas on logical CPUs: what the recorded programs of the area `distribute` do not have."""

from __future__ import annotations

import contextlib
import copy
import json
import threading

import numpy as np
import pytest

import gradtape as tf
from distribute import training

SUM = tf.VariableAggregation.SUM
RECORDED = json.loads(training.RECORDED.read_text())


def strategy_over(count):
    return tf.distribute.MirroredStrategy([f"/CPU:{i}" for i in range(count)])


@pytest.fixture
def two():
    return strategy_over(2)


def replica_number():
    return tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)


def copies(strategy, value):
    return [part.numpy().tolist() for part in strategy.experimental_local_results(value)]


# -- training --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("mlp", "loop"),
        ("cnn", "loop"),
        pytest.param("mlp", "fit", marks=pytest.mark.slow),
        pytest.param("cnn", "fit", marks=pytest.mark.slow),
        pytest.param("block", "loop", marks=pytest.mark.slow),
        pytest.param("block", "fit", marks=pytest.mark.slow),
    ],
)
def test_training_equals_that_of_one_device_and_of_tensorflow(name, kind):
    train, steps = getattr(training, kind), 50
    alone, one = train(tf, name, tf.distribute.get_strategy(), steps)
    together, several = train(tf, name, strategy_over(8 if name == "mlp" else 4), steps)
    np.testing.assert_allclose(together, alone, rtol=2e-6)
    training.assert_same_weights(training.paths(one), several.get_weights(), one.get_weights())
    losses, trained = train(tf, name, strategy_over(4), 10)
    recorded = RECORDED[f"{kind}_{name}"]
    np.testing.assert_allclose(losses, recorded["losses"], rtol=2e-6)
    training.assert_same_weights(training.paths(trained), trained.get_weights(), recorded["weights"])


def test_sparse_gradients_are_added_up(two):
    with two.scope():
        v = tf.Variable(tf.zeros([4, 2]))
        optimizer = tf.keras.optimizers.SGD(1.0)
        optimizer.build([v])

    def replica(rows):
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.gather(v, rows) * (replica_number() + 1.0))
        g = tape.gradient(y, v)
        assert isinstance(g, tf.IndexedSlices)
        optimizer.apply_gradients([(g, v)])

    rows = two.experimental_distribute_values_from_function(lambda c: tf.constant([0, 1 + c.replica_id_in_sync_group]))
    two.run(replica, args=(rows,))
    expected = [[-3.0, -3.0], [-1.0, -1.0], [-2.0, -2.0], [0.0, 0.0]]
    assert copies(two, v) == [expected, expected]


def test_weight_decay_is_applied_to_every_copy(two):
    with two.scope():
        v = tf.Variable([1.0])
        optimizer = tf.keras.optimizers.SGD(0.5, weight_decay=0.5)
        optimizer.build([v])
    two.run(lambda: optimizer.apply_gradients([(tf.zeros([1]), v)]))
    assert copies(two, v) == [[0.75], [0.75]]


def test_a_replica_may_get_no_row_of_the_last_batch(two):
    x = (np.arange(18).reshape(9, 2) % 5 - 2).astype(np.float32)
    y = x[:, :1] - 0.5 * x[:, 1:]
    with two.scope():
        model = tf.keras.Sequential([tf.keras.Input([2]), tf.keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    model.set_weights([np.array([[0.1], [-0.2]], np.float32), np.zeros(1, np.float32)])
    found = model.evaluate(x, y, batch_size=4, verbose=0)
    assert found == pytest.approx(np.mean((x @ [[0.1], [-0.2]] - y) ** 2), rel=1e-5)
    assert np.isfinite(model.fit(x, y, batch_size=4, verbose=0).history["loss"][0])


def test_a_model_is_saved_and_loaded(two, tmp_path):
    with two.scope():
        model = tf.keras.Sequential([tf.keras.Input([2]), tf.keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    x = np.ones([5, 2], np.float32)
    model.fit(x, x[:, :1], batch_size=4, verbose=0)
    model.save(tmp_path / "model.keras")
    alone = tf.keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(alone.predict(x, verbose=0), model.predict(x, batch_size=3, verbose=0), rtol=1e-6)


# -- variables -------------------------------------------------------------------------------------------------------
def test_checkpoints_restore_every_copy(two, tmp_path):
    with two.scope():
        v = tf.Variable([1.0, 2.0])
        total = tf.Variable(0.0, synchronization=tf.VariableSynchronization.ON_READ, aggregation=SUM)
    two.run(lambda: total.assign_add(replica_number() + 1.0))
    path = tf.train.Checkpoint(v=v, total=total).save(tmp_path / "ckpt")
    v.assign([0.0, 0.0])
    total.assign(0.0)
    tf.train.Checkpoint(v=v, total=total).restore(path).assert_consumed()
    assert copies(two, v) == [[1.0, 2.0], [1.0, 2.0]]
    assert copies(two, total) == [1.5, 1.5]
    plain = tf.Variable(0.0)
    tf.train.Checkpoint(total=plain).restore(path)
    assert float(plain) == 3.0


def trained_on(strategy, folder, steps, path=None):
    """Losses of a model and an optimizer, which is built in its first step: restored, if there is a checkpoint."""
    with strategy.scope():
        w = tf.Variable([[0.5], [-1.0]])
        optimizer = tf.keras.optimizers.Adam(0.1)
        checkpoint = tf.train.Checkpoint(w=w, optimizer=optimizer)
    if path:
        checkpoint.restore(path)

    def replica():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(tf.constant([[1.0, 2.0], [3.0, 4.0]]) @ w)) / strategy.num_replicas_in_sync
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return loss

    @tf.function
    def step():
        return strategy.reduce("sum", strategy.run(replica), axis=None)

    losses = [float(step()) for _ in range(steps)]
    return losses, checkpoint.save(folder / "ckpt")


@pytest.mark.parametrize("replicas", [1, 2])
def test_an_optimizer_is_restored_before_it_is_built(replicas, tmp_path):
    """Its variables, which the first step creates, have their restored values in that step."""
    strategy = strategy_over(replicas)
    expected, _ = trained_on(strategy, tmp_path, 6)
    first, path = trained_on(strategy, tmp_path, 3)
    rest, _ = trained_on(strategy, tmp_path, 3, path)
    assert first + rest == pytest.approx(expected, rel=1e-6)


def test_scatters_follow_the_aggregation(two):
    with two.scope():
        v = tf.Variable([0.0, 0.0, 0.0], aggregation=SUM)
        own = tf.Variable([0.0, 0.0])

    def replica():
        i = replica_number()
        v.scatter_add(tf.IndexedSlices(tf.reshape(i + 1.0, [1]), tf.reshape(tf.cast(i, tf.int32), [1])))
        own.scatter_nd_update([[1]], tf.reshape(i + 5.0, [1]))

    two.run(replica)
    assert copies(two, v) == [[1.0, 2.0, 0.0]] * 2
    assert copies(two, own) == [[0.0, 5.0], [0.0, 6.0]]


def test_a_mirrored_variable_is_an_argument_of_a_function(two):
    with two.scope():
        v, w = tf.Variable(1.0), tf.Variable(2.0)

    @tf.function
    def f(variable):
        return two.reduce("SUM", two.run(lambda: variable * (replica_number() + 1.0)), axis=None)

    assert [float(f(v)), float(f(w)), float(f(v))] == [3.0, 6.0, 3.0]


def test_a_deep_copy_has_copies_of_its_own(two):
    with two.scope():
        v = tf.Variable([1.0], name="v")
    other = copy.deepcopy(v)
    other.assign([2.0])
    assert copies(two, v) == [[1.0], [1.0]]
    assert copies(two, other) == [[2.0], [2.0]]
    assert other.name == "v:0"


def test_callable_initial_values_are_called_once(two):
    calls = []
    with two.scope():
        v = tf.Variable(lambda: calls.append(1) or tf.constant(3.0))
    assert len(calls) == 1
    assert copies(two, v) == [3.0, 3.0]


def test_a_model_is_built_in_the_replicas(two):
    with two.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(2), tf.keras.layers.Dense(1)])
        optimizer = tf.keras.optimizers.SGD(0.1)

    @tf.function
    def step(x):
        def replica(x):
            with tf.GradientTape() as tape:
                loss = tf.nn.compute_average_loss(tf.reduce_sum(model(x), axis=1))
            optimizer.apply_gradients(zip(tape.gradient(loss, model.weights), model.weights, strict=True))
            return loss

        return two.reduce("SUM", two.run(replica, args=(x,)), axis=None)

    x = two.experimental_distribute_values_from_function(lambda c: tf.ones([2, 3]))
    first, second = step(x), step(x)
    assert float(second) < float(first)
    assert len(model.weights) == 4
    kernel = model.weights[0]
    assert [len(two.experimental_local_results(v)) for v in (kernel._value, optimizer.iterations._value)] == [2, 2]
    assert int(optimizer.iterations.numpy()) == 2


def test_only_replica_0_decides_what_is_created(two):
    def replica():
        return tf.Variable(1.0) if int(replica_number()) == 1 else None

    with pytest.raises(RuntimeError, match="replica 0 has not created"):
        two.run(replica)


# -- replicas --------------------------------------------------------------------------------------------------------
def test_replicas_run_in_order_up_to_each_merge(two):
    seen = []

    def replica():
        context = tf.distribute.get_replica_context()
        for step in range(2):
            seen.append((step, int(context.replica_id_in_sync_group)))
            context.merge_call(lambda strategy: seen.append("merged"))

    two.run(replica)
    assert seen == [(0, 0), (0, 1), "merged", (1, 0), (1, 1), "merged"]


def test_an_error_ends_the_threads_of_all_replicas(two):
    def replica():
        tf.distribute.get_replica_context().merge_call(lambda strategy: None)
        if int(replica_number()) == 0:
            raise KeyError("first")
        tf.distribute.get_replica_context().merge_call(lambda strategy: None)

    before = threading.active_count()
    for _ in range(3):
        with pytest.raises(KeyError, match="first"):
            two.run(replica)
    for thread in threading.enumerate():
        if thread.name.startswith("replica"):
            thread.join(10.0)
    assert threading.active_count() == before


def test_a_replica_that_ends_does_not_wait_in_a_finally_block(two):
    def replica():
        context = tf.distribute.get_replica_context()
        try:
            context.merge_call(lambda strategy: None)
            if int(replica_number()) == 0:
                raise KeyError("first")
            context.merge_call(lambda strategy: None)
        finally:
            if int(replica_number()) == 1:
                context.merge_call(lambda strategy: None)

    with pytest.raises(KeyError, match="first"):
        two.run(replica)
    left = [thread for thread in threading.enumerate() if thread.name.startswith("replica")]
    for thread in left:
        thread.join(10.0)
    assert not any(thread.is_alive() for thread in left)


def test_a_merge_in_a_loop_of_a_program_is_refused(two):
    def replica():
        context = tf.distribute.get_replica_context()
        return tf.while_loop(lambda i: i < 3, lambda i: [context.all_reduce("SUM", i)], [tf.constant(1)])

    with pytest.raises(RuntimeError, match="`merge_call` called while defining a new graph"):
        tf.function(lambda: two.run(replica))()


def test_the_gradient_of_an_all_reduce_has_a_gradient(two):
    def replica():
        x = replica_number() + 1.0
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.distribute.get_replica_context().all_reduce("SUM", x**3)
            g = inner.gradient(y, x)
        return g, outer.gradient(g, x)

    # Every replica computes y, so the upstream gradients add up to 2: g = 2 · 3x², and its derivative 2 · 2 · 6x.
    g, second = two.run(replica)
    assert copies(two, g) == [6.0, 24.0]
    assert copies(two, second) == [12.0, 24.0]


def test_values_reduce_in_their_dtypes(two):
    for dtype in ("float16", "uint8", "int64", "complex64"):
        x = two.experimental_distribute_values_from_function(
            lambda c, dtype=dtype: tf.cast([1 + c.replica_id_in_sync_group, 2], dtype)
        )
        assert two.reduce("SUM", x, axis=None).dtype == two.reduce("SUM", x, axis=0).dtype == tf.as_dtype(dtype)


def test_the_strategy_can_be_set(two):
    tf.distribute.experimental_set_strategy(two)
    try:
        assert tf.distribute.get_strategy() is two
        assert len(two.experimental_local_results(tf.Variable(1.0))) == 2
    finally:
        tf.distribute.experimental_set_strategy(None)
    assert not tf.distribute.has_strategy()
    with two.scope(), pytest.raises(RuntimeError, match="Must not be called inside"):
        tf.distribute.experimental_set_strategy(None)


def test_slurm_describes_the_cluster(monkeypatch):
    for name, value in {
        "SLURM_PROCID": "2",
        "SLURM_STEP_NUM_TASKS": "3",
        "SLURM_STEP_NODELIST": "n[01-02]",
        "SLURM_STEP_TASKS_PER_NODE": "2,1",
    }.items():
        monkeypatch.setenv(name, value)
    resolver = tf.distribute.cluster_resolver.SlurmClusterResolver()
    assert resolver.cluster_spec().as_dict() == {"worker": ["n01:8888", "n01:8889", "n02:8888"]}
    assert (resolver.task_type, resolver.task_id, resolver.master()) == ("worker", 2, "grpc://n02:8888")


# -- functions -------------------------------------------------------------------------------------------------------
def test_run_takes_a_function_that_merges(two):
    with two.scope():
        v = tf.Variable(1.0, aggregation=SUM)

    @tf.function
    def replica(x):
        v.assign_add(x)
        return v.read_value()

    x = two.experimental_distribute_values_from_function(lambda c: tf.constant(float(c.replica_id_in_sync_group)))
    assert copies(two, two.run(replica, args=(x,))) == [2.0, 2.0]
    assert copies(two, two.run(replica, args=(x,))) == [3.0, 3.0]
    assert len(two._compiled) == 1


def test_run_compares_arguments_with_the_signature_of_a_function(two):
    total = tf.function(tf.reduce_sum, input_signature=[tf.TensorSpec([None], tf.float32)])
    assert copies(two, two.run(total, args=(tf.ones([3]),))) == [3.0, 3.0]
    with pytest.raises(TypeError, match="Can not cast"):
        two.run(total, args=(tf.ones([2, 2]),))


def test_run_takes_a_function_that_names_a_later_variable(two):
    @tf.function
    def replica(x):
        return 2.0 * later if x is None else x + 1.0

    assert copies(two, two.run(replica, args=(tf.constant(1.0),))) == [2.0, 2.0]
    later = tf.constant(3.0)
    assert copies(two, two.run(replica, args=(None,))) == [6.0, 6.0]


@pytest.mark.parametrize("options", [None, {}, {"jit_compile": True}], ids=["eager", "function", "compiled"])
def test_replicas_draw_different_numbers(two, options):
    """TensorFlow's. Outside of replicas the numbers of a generator are those of any other one with its seed."""
    with two.scope():
        generator = tf.random.Generator.from_seed(1)

    def run():
        return two.run(lambda: generator.normal([2]))

    run = run if options is None else tf.function(run, **options)
    expected = [[-0.87930447, 1.46807885], [0.02066157, 1.94733453]]
    np.testing.assert_allclose(copies(two, run()), expected, rtol=1e-5)
    two.run(lambda: generator.uniform([2]))
    expected = [[0.16718747, 0.30425787], [-0.35701847, -0.47952694]]
    np.testing.assert_allclose(copies(two, run()), expected, rtol=1e-5)
    alone = tf.random.Generator.from_state(two.experimental_local_results(generator.state)[0], "philox")
    np.testing.assert_array_equal(generator.normal([3]), alone.normal([3]))


def test_a_function_that_reads_a_dataset_compiles_its_replicas(two):
    traces = []

    @tf.function
    def epoch(dataset):
        total = 0.0
        for x in dataset:

            def replica(x):
                traces.append(1)
                return tf.reduce_sum(x)

            total += two.reduce("SUM", two.run(replica, args=(x,)), axis=None)
        return total

    data = tf.data.Dataset.from_tensor_slices(np.arange(8.0, dtype=np.float32)).batch(2)
    data = two.experimental_distribute_dataset(data)
    before = len(traces)
    assert [float(epoch(data)) for _ in range(3)] == [28.0] * 3
    assert len(traces) - before < 8  # of 24 calls


def test_ragged_batches_are_divided(two):
    rows = tf.ragged.constant([[1.0], [2.0, 3.0], [4.0], [5.0], [6.0]])
    data = two.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((rows, tf.range(5))).batch(4))

    @tf.function
    def total(batch):
        return two.reduce("sum", two.run(lambda ragged, dense: tf.reduce_sum(ragged), args=batch), axis=None)

    parts = [[part.to_list() for part in two.experimental_local_results(ragged)] for ragged, _ in data]
    assert parts == [[[[1.0], [2.0, 3.0]], [[4.0], [5.0]]], [[[6.0]], []]]
    assert [float(total(batch)) for batch in data] == [15.0, 6.0]


def test_the_elements_of_a_dataset_are_folded(two):
    data = two.experimental_distribute_dataset(tf.data.Dataset.range(10).batch(4))

    def add(state, x):
        rows = two.run(lambda x: tf.reduce_sum(x), args=(x,))
        return {"total": state["total"] + two.reduce("SUM", rows, axis=None), "steps": state["steps"] + 1.0}

    start = {"total": tf.constant(0, tf.int64), "steps": 0.0}
    for fold in (data.reduce, tf.function(data.reduce)):
        found = fold(start, add)
        assert (int(found["total"]), float(found["steps"])) == (45, 3.0)
    with pytest.raises((TypeError, ValueError), match="structure"):
        data.reduce(start, lambda state, x: state["total"])


def test_the_specification_of_a_dataset_is_a_signature(two):
    data = two.experimental_distribute_dataset(tf.data.Dataset.range(5).batch(4))

    @tf.function(input_signature=[data.element_spec])
    def doubled(x):
        return two.run(lambda x: 2 * x, args=(x,))

    assert [copies(two, doubled(x)) for x in data] == [[[0, 2], [4, 6]], [[8], []]]
    with pytest.raises(TypeError, match="Can not cast"):
        doubled(tf.constant([1]))


def test_a_model_with_copies_is_exported(two, tmp_path):
    with two.scope():
        model = tf.keras.Sequential([tf.keras.Input([2]), tf.keras.layers.Dense(1)])
    tf.saved_model.save(model, str(tmp_path / "model"))
    x = np.array([[1.0, 2.0]], np.float32)
    (found,) = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"](tf.constant(x)).values()
    np.testing.assert_allclose(found, model(x), rtol=1e-6)


def test_a_summary_has_one_line_for_a_program(two):
    """The text of values with several parts has several."""

    @tf.function
    def doubled(x):
        return two.run(lambda x: 2 * x, args=(x,))

    for batch in two.experimental_distribute_dataset(tf.data.Dataset.range(4).batch(4)):
        doubled(batch)
    _, header, _, row = doubled.summary().splitlines()
    assert row.startswith("doubled(PerReplica:{ 0: TensorSpec(shape=(2,), dtype=tf.int64, name=None), 1: TensorSpec(")
    assert row.index("values") == header.index("program")


def test_unwrap_is_the_first_name_of_local_results():
    strategy = tf.distribute.get_strategy()
    assert [float(x) for x in strategy.unwrap(tf.constant(1.0))] == [1.0]


# -- scopes ------------------------------------------------------------------------------------------------------------
class Counting(tf.distribute.MirroredStrategy):
    """A strategy whose own scope changes how variables are created, as some libraries do."""

    @contextlib.contextmanager
    def scope(self):
        def on_read(next_creator, **kwargs):
            kwargs["synchronization"] = tf.VariableSynchronization.ON_READ
            return next_creator(**kwargs)

        with super().scope(), tf.variable_creator_scope(on_read):
            yield


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("compiled", [False, True])
def test_run_enters_the_scope_of_a_subclass(count, compiled):
    strategy = Counting([f"/CPU:{i}" for i in range(count)])
    made = []

    def step():
        if len(made) < count:
            made.append(tf.Variable(1.0))
        return made[0] + 1.0

    strategy.run(tf.function(step) if compiled else step)
    assert made[0].synchronization is tf.VariableSynchronization.ON_READ
