"""Programs of two processes, which `gradtape launch --nproc 2 tests/distribute/worker_programs.py` runs one after the
other.
"""

from __future__ import annotations

import sys
import traceback
from unittest import mock

import numpy as np
import pytest

import gradtape as tf
from gradtape._src import processes
from gradtape.experimental import dtensor


def number():
    return tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)


def predictions_are_those_of_all_rows(strategy):
    """In every process, also of a batch that does not divide evenly."""
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.Input([1]), tf.keras.layers.Dense(1, use_bias=False)])
        model.compile("sgd", "mse")
    model.set_weights([np.full([1, 1], 2.0, "f")])
    x = np.arange(11, dtype="f")[:, None]
    for rows in (8, 11):
        assert model.predict(x[:rows], batch_size=4, verbose=0).ravel().tolist() == (2 * x[:rows]).ravel().tolist()
    assert model.predict_on_batch(x).ravel().tolist() == (2 * x).ravel().tolist()


def a_reduction_over_processes_has_no_derivative(strategy):
    """As in TensorFlow. A step that a tape surrounds by chance is compiled."""
    with strategy.scope():
        v = tf.Variable(3.0, aggregation=tf.VariableAggregation.SUM)

    @tf.function
    def total(x):
        return strategy.reduce("SUM", strategy.run(lambda: x * v * (number() + 1.0)), axis=None)

    x = tf.constant(2.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = total(x)
    assert float(y) == 18.0
    for source in (x, v):
        with pytest.raises(LookupError, match="No gradient defined for operation 'CollectiveReduceV2'"):
            tape.gradient(y, source)
    with pytest.raises(LookupError, match="CollectiveReduceV2"), tf.autodiff.ForwardAccumulator(x, x):
        total(x)

    @tf.function
    def step():
        strategy.run(lambda: v.assign_add(number() + 1.0))

    with tf.GradientTape():
        step()
    assert float(v) == 6.0
    assert step.get_concrete_function().traced.plain.device_count == strategy.num_replicas_in_sync


def gradients_in_replicas_are_reduced(strategy):
    v = tf.Variable(2.0)

    @tf.function
    def step():
        def replica():
            with tf.GradientTape() as tape:
                total = tf.distribute.get_replica_context().all_reduce("SUM", v**2 * (number() + 1.0))
            return tape.gradient(total, v)

        return strategy.gather(tf.reshape(strategy.run(replica), [1]), axis=0)

    assert step().numpy().tolist() == [8.0, 16.0]  # of a sum that both replicas have


def parts_may_have_different_sizes(strategy):
    worker = strategy.cluster_resolver.task_id
    gathered = strategy.run(lambda: tf.distribute.get_replica_context().all_gather(tf.range(worker + 1), axis=0))
    assert gathered.numpy().tolist() == [0, 0, 1]
    with pytest.raises(TypeError, match="DataType string not in list of allowed values"):
        strategy.gather(strategy.run(lambda: tf.constant(["a"])), axis=0)


def a_failed_check_is_an_error_in_all_processes(strategy):
    @tf.function
    def pick(i):
        return strategy.reduce("SUM", strategy.run(lambda: tf.gather([1.0, 2.0], i)), axis=None)

    assert float(pick(tf.constant(1))) == 4.0
    worker = strategy.cluster_resolver.task_id
    with pytest.raises(tf.errors.InvalidArgumentError, match=("in another process", "indices = 7 is not in")[worker]):
        pick(tf.constant(7 * worker))
    assert float(pick(tf.constant(0))) == 2.0


def values_that_all_processes_have_are_not_exchanged(strategy):
    """JAX would compare them, in a collective that takes all of the value."""
    mesh = dtensor.create_distributed_mesh([("x", strategy.num_replicas_in_sync)])
    layout = dtensor.Layout(["x"], mesh)
    with mock.patch("jax.experimental.multihost_utils.assert_equal", side_effect=AssertionError):
        v = dtensor.DVariable(tf.constant([1.0, 2.0]), layout=layout)
        v.assign([3.0, 4.0])
        x = dtensor.copy_to_mesh(np.array([5.0, 6.0], "f"), layout)
    (part,), (row,) = (each.array.addressable_shards for each in (v.read_value(), x))
    worker = strategy.cluster_resolver.task_id
    assert (float(part.data[0]), float(row.data[0])) == (3.0 + worker, 5.0 + worker)
    assert dtensor.relayout(x, dtensor.Layout.replicated(mesh, rank=1)).numpy().tolist() == [5.0, 6.0]


def each_process_packs_its_own_shards(strategy):
    mesh = dtensor.create_distributed_mesh([("x", strategy.num_replicas_in_sync)])
    worker = strategy.cluster_resolver.task_id
    packed = dtensor.pack([tf.constant([1.0, 2.0]) + 2.0 * worker], dtensor.Layout(["x"], mesh))
    assert [part.numpy().tolist() for part in dtensor.unpack(packed)] == [[1.0 + 2 * worker, 2.0 + 2 * worker]]
    assert dtensor.relayout(packed, dtensor.Layout.replicated(mesh, 1)).numpy().tolist() == [1.0, 2.0, 3.0, 4.0]


def a_call_of_all_processes_may_make_another(strategy):
    """A thread makes such calls, which must not wait for itself."""
    mesh = dtensor.create_distributed_mesh([("x", strategy.num_replicas_in_sync)])
    x = dtensor.copy_to_mesh(tf.constant([1.0, 2.0]), dtensor.Layout(["x"], mesh))
    assert processes.together(lambda: float(tf.reduce_sum(x))) == 3.0
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(x**3)
    g = tape.gradient(y, x)
    assert dtensor.relayout(g, dtensor.Layout.replicated(mesh, 1)).numpy().tolist() == [3.0, 12.0]


def means_of_integers_are_those_of_one_process(strategy):
    def mean():
        parts = strategy.run(lambda: tf.constant([1, 2]) + tf.cast(2 * number(), tf.int32))
        return strategy.reduce("mean", parts, axis=0)

    for found in (mean(), tf.function(mean)()):
        assert (found.dtype, float(found)) == (tf.float64, 2.5)


PROGRAMS = (
    predictions_are_those_of_all_rows,
    a_reduction_over_processes_has_no_derivative,
    gradients_in_replicas_are_reduced,
    parts_may_have_different_sizes,
    a_failed_check_is_an_error_in_all_processes,
    values_that_all_processes_have_are_not_exchanged,
    each_process_packs_its_own_shards,
    a_call_of_all_processes_may_make_another,
    means_of_integers_are_those_of_one_process,
)

if __name__ == "__main__":
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    for run in PROGRAMS if len(sys.argv) == 1 else [globals()[name] for name in sys.argv[1:]]:
        try:
            run(strategy)
        except Exception:
            print("failed", run.__name__, repr(traceback.format_exc()), flush=True)
        else:
            print("passed", run.__name__, flush=True)
