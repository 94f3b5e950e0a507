"""Strategies, resolvers and handlers for clusters."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace

import pytest

import gradtape as tf

experimental = tf.distribute.experimental
resolvers = tf.distribute.cluster_resolver


@pytest.mark.parametrize(
    ("partitioner", "expected"),  # recorded from TensorFlow
    [
        (experimental.partitioners.MinSizePartitioner(1000, max_shards=3), [[3, 1], [3, 1], [1], [3, 1]]),
        (experimental.partitioners.MinSizePartitioner(max_shards=8), [[1, 1], [1, 1], [1], [8, 1]]),
        (experimental.partitioners.MaxSizePartitioner(1000), [[3, 1], [3, 1], [1], [8000, 1]]),
        (experimental.partitioners.MaxSizePartitioner(1000, max_shards=3), [[3, 1], [3, 1], [1], [3, 1]]),
        (experimental.partitioners.FixedShardsPartitioner(4), [[4, 1], [3, 1], [4], [4, 1]]),
    ],
)
def test_partitioners(partitioner, expected):
    shapes = ([6, 100], [3, 1000], [10], [1000000, 2])
    dtypes = (tf.float32, tf.float64, tf.int32, tf.float32)
    assert [partitioner(tf.TensorShape(s), d) for s, d in zip(shapes, dtypes, strict=True)] == expected
    with pytest.raises(ValueError, match="`min_shard_bytes` must be positive"):
        experimental.partitioners.MinSizePartitioner(0)


def test_central_variables_are_shared_by_replicas():
    strategy = experimental.CentralStorageStrategy(["/CPU:0", "/CPU:1"], "/CPU:0")
    with strategy.scope():
        plain = tf.Variable(1.0)
        mean = tf.Variable(1.0, aggregation=tf.VariableAggregation.MEAN)
        weights = tf.Variable([1.0, 2.0])
        optimizer = tf.keras.optimizers.SGD(0.1)
        optimizer.build([weights])
    assert len(strategy.experimental_local_results(plain)) == 1
    assert len(strategy.extended.parameter_devices) == 1

    def replica():
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        mean.assign_add(tf.cast(number, tf.float32) + 1.0)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weights**2)
        optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])
        return plain * 2.0

    for run in (strategy.run, tf.function(strategy.run)):
        run(replica)
    assert float(mean) == 4.0
    assert weights.numpy() == pytest.approx([0.36, 0.72])
    with pytest.raises(ValueError, match="You must specify an aggregation method"):
        strategy.run(lambda: plain.assign_add(tf.constant(1.0)))


def test_parameter_servers_are_refused():
    for make in (
        lambda: tf.distribute.ParameterServerStrategy(None),
        lambda: tf.distribute.coordinator.ClusterCoordinator(None),
    ):
        with pytest.raises(tf.errors.UnimplementedError, match="MultiWorkerMirroredStrategy"):
            make()
    assert not isinstance(tf.distribute.get_strategy(), experimental.ParameterServerStrategy)


def pod(name, address, phase="Running"):
    return SimpleNamespace(metadata=SimpleNamespace(name=name), status=SimpleNamespace(host_ip=address, phase=phase))


def test_kubernetes_describes_the_cluster():
    pods = {"job-name=tensorflow": [pod("b", "10.0.0.2"), pod("a", "10.0.0.1")]}
    client = SimpleNamespace(
        list_pod_for_all_namespaces=lambda label_selector: SimpleNamespace(items=pods[label_selector])
    )
    resolver = resolvers.KubernetesClusterResolver(override_client=client)
    assert resolver.cluster_spec().as_dict() == {"worker": ["10.0.0.1:8470", "10.0.0.2:8470"]}
    assert resolver.master("worker", 1) == "grpc://10.0.0.2:8470"
    pods["job-name=tensorflow"].append(pod("c", "10.0.0.3", "Failed"))
    with pytest.raises(RuntimeError, match='Pod "c" is not running; phase: "Failed"'):
        resolver.cluster_spec()


def test_compute_engine_describes_the_cluster():
    class Service:
        def instanceGroups(self):
            return self

        def instances(self):
            return self

        def listInstances(self, **options):
            assert options["instanceGroup"] == "group"
            items = [{"instance": "https://compute/zone/b"}, {"instance": "https://compute/zone/a"}]
            return SimpleNamespace(execute=lambda: {"items": items})

        def listInstances_next(self, **options):
            return None

        def get(self, instance, **options):
            return SimpleNamespace(execute=lambda: {"networkInterfaces": [{"networkIP": f"ip-{instance}"}]})

    resolver = resolvers.GCEClusterResolver("project", "zone", "group", 8470, service=Service())
    assert resolver.cluster_spec().as_dict() == {"worker": ["ip-a:8470", "ip-b:8470"]}
    assert resolver.master() == "grpc://ip-a:8470"


def test_tpus_are_those_of_this_machine(monkeypatch):
    monkeypatch.delenv("TPU_NAME", raising=False)
    with pytest.raises(ValueError, match="Please provide a TPU Name"):
        resolvers.TPUClusterResolver()
    with pytest.raises(ValueError, match="Could not lookup TPU metadata"):
        resolvers.TPUClusterResolver("far-away")
    assert resolvers.TPUClusterResolver("local").num_accelerators() == {"TPU": 0}


def test_a_preempted_program_continues(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    n = tf.Variable(0)
    saved = tf.train.Checkpoint(n=n)
    try:
        handler = experimental.PreemptionCheckpointHandler(resolvers.TFConfigClusterResolver(), saved, str(tmp_path))
        for _ in range(3):
            handler.run(lambda: n.assign_add(1))
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(SystemExit) as ended:
            handler.run(lambda: n.assign_add(1))
        assert (ended.value.code, int(n)) == (42, 3)
        n.assign(-1)
        again = experimental.PreemptionCheckpointHandler(resolvers.TFConfigClusterResolver(), saved, str(tmp_path))
        assert (int(n), again.total_run_calls) == (3, 3)
        config = experimental.TerminationConfig(termination_watcher_fn=lambda: True, exit_fn=lambda: n.assign(100))
        told = experimental.PreemptionCheckpointHandler(None, saved, str(tmp_path), config)
        told.save_checkpoint_if_preempted()
        assert int(n) == 100
    finally:
        signal.signal(signal.SIGTERM, before)


def test_all_watchers_notice_a_signal():
    before = signal.getsignal(signal.SIGTERM)
    try:
        watchers = [experimental.PreemptionWatcher() for _ in range(3)]
        os.kill(os.getpid(), signal.SIGTERM)
        assert [watcher.preemption_message is not None for watcher in watchers] == [True] * 3
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_server_is_a_task_and_runs_nothing():
    with pytest.raises(tf.errors.InternalError, match='Job "ps" was not defined in cluster'):
        tf.distribute.Server({"worker": ["localhost:22222"]}, "ps", 0, start=False)
    with pytest.raises(tf.errors.InternalError, match='Task 3 was not defined in job "worker"'):
        tf.distribute.Server({"worker": ["localhost:22222"]}, "worker", 3, start=False)
    with pytest.raises(ValueError, match="Must specify an explicit `job_name`"):
        tf.distribute.Server({"worker": ["localhost:1"], "ps": ["localhost:2"]}, start=False)
    with pytest.raises(TypeError, match="Could not convert `server_or_cluster_def`"):
        tf.distribute.Server(3, start=False)
    server = tf.distribute.Server.create_local_server()
    host, _, port = server.target.removeprefix("grpc://").rpartition(":")
    assert (host, int(port) > 0) == ("localhost", True)
    assert tf.distribute.Server(server.server_def, start=False).server_def.task_index == 0
    with pytest.raises(tf.errors.UnknownError, match="Could not start gRPC server"):
        tf.distribute.Server({"worker": [f"localhost:{port}"]})
    with pytest.raises(tf.errors.UnimplementedError, match="MultiWorkerMirroredStrategy"):
        server.join()
