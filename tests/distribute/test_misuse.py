"""Mistakes in programs with strategies: TensorFlow's class of error, and the beginning of its sentence."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gradtape as tf

SUM, NONE = tf.VariableAggregation.SUM, tf.VariableAggregation.NONE
ON_READ = tf.VariableSynchronization.ON_READ
D = tf.distribute
two = D.MirroredStrategy(["/CPU:0", "/CPU:1"])
other = D.MirroredStrategy(["/CPU:0"])


def variable(*args, **kwargs):
    with two.scope():
        return tf.Variable(*args, **kwargs)


def per_replica(function=lambda context: tf.constant([1.0, 2.0])):
    return two.experimental_distribute_values_from_function(function)


def in_scope(function):
    with two.scope():
        return function()


def context():
    return D.get_replica_context()


def run(function):
    return two.run(function)


def numbers(batch=2):
    return tf.data.Dataset.range(4).batch(batch)


def different_merges():
    if int(context().replica_id_in_sync_group) == 0:
        context().merge_call(lambda strategy: None)


def context_of_another_call():
    found = []
    run(lambda: found.append(context()))
    in_scope(lambda: found[0].merge_call(lambda strategy: None))


def with_cluster(task):
    config = json.dumps({"cluster": {"worker": ["localhost:1"]}, "task": task})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TF_CONFIG", config)
        D.MultiWorkerMirroredStrategy()


def outside_of_a_slurm_step():
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SLURM_PROCID", raising=False)
        D.cluster_resolver.SlurmClusterResolver()


def tape_in_scope():
    v = variable(1.0)
    with two.scope():
        with tf.GradientTape() as tape:
            y = v * 2.0
        tape.gradient(y, v)


def model_of_another_scope():
    model = tf.keras.Sequential([tf.keras.Input([2]), tf.keras.layers.Dense(1)])
    in_scope(lambda: model.compile("sgd", "mse"))
    model.fit(np.ones([4, 2], "f"), np.ones([4, 1], "f"), verbose=0)


PER_REPLICA = D.InputOptions(experimental_replication_mode=D.InputReplicationMode.PER_REPLICA)
CROSS = "Method requires being in cross-replica context, use get_replica_context().merge_call()"

MISUSES = {
    "unknown device": (lambda: D.MirroredStrategy(["foo"]), ValueError, "Unknown attribute 'foo' is encountered"),
    "device twice": (lambda: D.MirroredStrategy(["/CPU:0"] * 2), AssertionError, "No duplicates allowed in `devices`"),
    "tensor as args": (
        lambda: two.run(abs, args=tf.constant(1.0)),
        ValueError,
        "positional args must be a list or tuple, got",
    ),
    "run in run": (lambda: run(lambda: run(lambda: 1)), RuntimeError, CROSS),
    "reduce in run": (lambda: run(lambda: two.reduce("SUM", tf.constant(1.0), None)), RuntimeError, CROSS),
    "gather in run": (
        lambda: run(lambda: two.gather(tf.constant([1.0]), 0)),
        RuntimeError,
        "tf.distribute.Strategy.gather method requires cross-replica context, use get_replica_context().all_gather()",
    ),
    "two strategies": (
        lambda: in_scope(lambda: other.scope().__enter__()),
        RuntimeError,
        "Mixing different tf.distribute.Strategy",
    ),
    "variable of another strategy": (
        lambda: other.run(variable(1.0).assign, (2.0,)),
        RuntimeError,
        "Mixing different tf.distribute.Strategy",
    ),
    "sum of a tensor": (
        lambda: two.reduce("SUM", tf.constant(1.0), None),
        ValueError,
        "A non-DistributedValues value tf.Tensor(1.0, shape=(), dtype=float32) cannot be reduced with the given reduce",
    ),
    "unknown reduction": (lambda: two.reduce("MAX", per_replica(), None), ValueError, "'MAX' is not a valid ReduceOp"),
    "axis of scalars": (
        lambda: two.reduce("SUM", per_replica(lambda c: tf.constant(1.0)), 0),
        ValueError,
        "Invalid reduction dimension 0 for input with 0 dimensions",
    ),
    "axis of a structure": (lambda: two.reduce("SUM", {"a": per_replica()}, 0), TypeError, "Expected one tensor per"),
    "sum of strings": (
        lambda: two.reduce("SUM", per_replica(lambda c: tf.constant("a")), None),
        tf.errors.InvalidArgumentError,
        "Value for attr 'T' of string is not in the list of allowed values",
    ),
    "sum of different shapes": (
        lambda: two.reduce("SUM", per_replica(lambda c: tf.ones([c.replica_id_in_sync_group + 1])), None),
        tf.errors.InvalidArgumentError,
        "Inputs to operation AddN of type AddN must have the same size and shape.  Input 0: [1] != input 1: [2]",
    ),
    "gathered scalars": (lambda: two.gather(per_replica(lambda c: tf.constant(1.0)), 0), ValueError, "Scalars"),
    "gathered along no axis": (lambda: two.gather(per_replica(), 1), ValueError, "Values of rank 1 cannot be gathered"),
    "all_reduce of a number": (
        lambda: run(lambda: context().all_reduce("SUM", 1.0)),
        AttributeError,
        "'float' object has no attribute",
    ),
    "all_reduce across replicas": (
        lambda: in_scope(lambda: context().all_reduce("SUM", tf.constant(1.0))),
        AttributeError,
        "'NoneType' object has no attribute 'all_reduce'",
    ),
    "all_gather of slices": (
        lambda: run(lambda: context().all_gather(tf.IndexedSlices(tf.ones([1]), tf.constant([0])), 0)),
        NotImplementedError,
        "all_gather does not support IndexedSlices",
    ),
    "different merges": (
        lambda: run(different_merges),
        RuntimeError,
        "Some replicas made a different number of replica_context().",
    ),
    "context of another call": (context_of_another_call, RuntimeError, "Need to be inside `call_for_each_replica()`"),
    "arithmetic": (lambda: per_replica() + 1, TypeError, "unsupported operand type(s) for +: 'PerReplica' and 'int'"),
    "values as a tensor": (
        lambda: tf.convert_to_tensor(per_replica()),
        ValueError,
        "It looks like you are using a PerReplica object while not inside a replica context, which is not supported.",
    ),
    "assigned number": (
        lambda: two.run(variable(1.0, aggregation=SUM).assign_add, (1.0,)),
        ValueError,
        "A non-DistributedValues",
    ),
    "assigned shape": (
        lambda: two.run(variable(1.0, aggregation=SUM).assign, (tf.ones([2]),)),
        ValueError,
        "A non-DistributedValues value tf.Tensor([1. 1.], shape=(2,), dtype=float32) cannot be reduced with",
    ),
    "sum across replicas": (
        lambda: in_scope(lambda: variable(0.0, synchronization=ON_READ, aggregation=SUM).assign_add(1.0)),
        ValueError,
        "SyncOnReadVariable does not support `assign_add` in cross-replica context when aggregation is set to",
    ),
    "read without aggregation": (
        lambda: variable(0.0, synchronization=ON_READ, aggregation=NONE).numpy(),
        ValueError,
        "Could not convert from `tf.VariableAggregation` VariableAggregation.NONE to",
    ),
    "no synchronization": (
        lambda: variable(0.0, synchronization=tf.VariableSynchronization.NONE, name="v"),
        ValueError,
        "`NONE` variable synchronization mode is not supported with tf.distribute strategy. Please change the "
        "`synchronization` for variable: v",
    ),
    "name as aggregation": (
        lambda: tf.Variable(1.0, aggregation="SUM"),
        ValueError,
        "Invalid variable aggregation mode: SUM for variable:",
    ),
    "name as synchronization": (
        lambda: variable(1.0, synchronization="ON_READ", name="v"),
        ValueError,
        "Invalid variable synchronization mode: ON_READ for variable: v",
    ),
    "tape in a scope": (tape_in_scope, ValueError, "DistributedVariable.handle is not available outside the replica"),
    "loss in a scope": (
        lambda: in_scope(lambda: tf.nn.compute_average_loss([1.0])),
        RuntimeError,
        "You are calling `compute_average",
    ),
    "size of several batches": (
        lambda: tf.nn.compute_average_loss([1.0], global_batch_size=[1, 2]),
        ValueError,
        "global_batch_size must be",
    ),
    "no batches": (lambda: two.experimental_distribute_dataset(tf.data.Dataset.range(4)), IndexError, "list index out"),
    "an array": (
        lambda: two.experimental_distribute_dataset(np.ones([4, 2])),
        AttributeError,
        "'ndarray' object has no",
    ),
    "a dataset for each replica": (
        lambda: two.experimental_distribute_dataset(numbers(), PER_REPLICA),
        NotImplementedError,
        "InputReplicationMode.PER_REPLICA is only supported in `distribute_datasets_from_function`",
    ),
    "no dataset": (
        lambda: two.distribute_datasets_from_function(lambda context: None),
        AttributeError,
        "'NoneType' object has no attribute 'element_spec'",
    ),
    "rows that do not divide": (
        lambda: D.InputContext(1, 0, 3).get_per_replica_batch_size(4),
        ValueError,
        "The `global_batch_size` 4 is not",
    ),
    "update of a tensor": (
        lambda: in_scope(lambda: two.extended.update(tf.constant(1.0), abs)),
        AssertionError,
        "`update` takes",
    ),
    "task of another job": (
        lambda: with_cluster({"type": "ps", "index": 0}),
        ValueError,
        "`task_type` 'ps' not found in cluster_spec.",
    ),
    "task that is missing": (
        lambda: with_cluster({"type": "worker", "index": 3}),
        ValueError,
        "The `task_id` 3 exceeds the maximum id of worker.",
    ),
    "no SLURM": (outside_of_a_slurm_step, RuntimeError, "SLURM_PROCID not found in environment. Not running inside a"),
    "packs": (lambda: D.NcclAllReduce(-1), ValueError, "NCCL all-reduce requires num_packs >= 0, but -1 is specified"),
    "packs of copies": (lambda: D.HierarchicalCopyAllReduce(-1), ValueError, "HierarchicalCopy requires num_packs >="),
    "model of another scope": (model_of_another_scope, ValueError, "The model 'sequential"),
}


@pytest.mark.parametrize("name", MISUSES)
def test_misuse(name):
    function, error, sentence = MISUSES[name]
    with pytest.raises(error) as found:
        function()
    assert str(found.value).startswith(sentence)
    assert not D.has_strategy()


def test_an_update_in_a_replica_is_one_of_all():
    v = variable(1.0)
    two.run(lambda: two.extended.update(v, lambda copy, x: copy.assign_add(x), args=(tf.constant(3.0),)))
    assert [float(copy) for copy in two.experimental_local_results(v)] == [4.0, 4.0]


def test_a_dataset_for_each_replica():
    contexts = []

    def dataset(context):
        contexts.append((context.num_input_pipelines, context.input_pipeline_id, context.num_replicas_in_sync))
        return tf.data.Dataset.range(3 + 2 * context.input_pipeline_id).batch(2)

    data = two.distribute_datasets_from_function(dataset, PER_REPLICA)
    found = [[part.numpy().tolist() for part in two.experimental_local_results(batch)] for batch in data]
    assert contexts == [(2, 0, 2), (2, 1, 2)]
    assert found == [[[0, 1], [0, 1]], [[2], [2, 3]], [[], [4]]]
