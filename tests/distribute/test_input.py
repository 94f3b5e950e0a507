"""How workers share datasets."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

import gradtape as tf
from gradtape._src.data.core import FileShard
from gradtape._src.data.iterator import OwnedIterator
from gradtape._src.distribute.input import _policy_for
from gradtape._src.distribute.values import PerReplica, UnevenPerReplica

POLICY = tf.data.experimental.AutoShardPolicy
Lines = tf.data.TextLineDataset


@pytest.fixture
def files(tmp_path):
    for i in range(4):
        (tmp_path / f"{i}.txt").write_text("\n".join(f"{i}{j}" for j in range(4)))
    return [str(tmp_path / f"{i}.txt") for i in range(4)]


def with_policy(dataset, policy):
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = policy
    return dataset.with_options(options)


def slices(files):
    return tf.data.Dataset.from_tensor_slices(files)


DATASETS = {
    "files": Lines,
    "a dataset of files": lambda files: Lines(slices(files)),
    "several files at a time": lambda files: Lines(files, num_parallel_reads=1),
    "interleaved": lambda files: slices(files).interleave(Lines, cycle_length=1),
    "a flat map": lambda files: tf.data.Dataset.list_files(files, shuffle=False).flat_map(Lines),
    "a flat map of ranges": lambda files: slices(files).flat_map(Lines).flat_map(tf.data.Dataset.from_tensors),
    "transformed": lambda files: Lines(files).shuffle(1).map(tf.strings.lower).prefetch(1).repeat(1),
    "concatenated": lambda files: Lines(files[:2]).concatenate(Lines(files[2:])),
}


@pytest.mark.parametrize("kind", DATASETS)
def test_the_files_of_a_worker(files, kind):
    """As TensorFlow's auto-sharding by files divides them."""
    dataset = with_policy(DATASETS[kind](files).batch(4), POLICY.AUTO)
    assert _policy_for(dataset, 2) is POLICY.FILE
    for worker in range(2):
        read = [batch.numpy().tolist() for batch in OwnedIterator(dataset._pipeline, FileShard(2, worker))]
        wanted = (0, 2) if worker == 0 else (1, 3)
        assert read == [[f"{i}{j}".encode() for j in range(4)] for i in wanted]
    assert len(list(dataset)) == 4


def test_policies(files):
    numbers = tf.data.Dataset.range(8).batch(4)
    assert _policy_for(numbers, 2) is POLICY.DATA
    assert _policy_for(with_policy(Lines(files), POLICY.DATA), 2) is POLICY.DATA
    assert _policy_for(with_policy(Lines(files), POLICY.OFF), 2) is POLICY.OFF
    assert _policy_for(with_policy(Lines(files), POLICY.FILE), 1) is POLICY.DATA
    assert _policy_for(tf.data.Dataset.zip((Lines(files), tf.data.Dataset.range(9))), 2) is POLICY.DATA
    with pytest.raises(tf.errors.NotFoundError, match="Found an unshardable source dataset"):
        _policy_for(with_policy(numbers, POLICY.FILE), 2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="the dataset only has 1 file"):
        next(OwnedIterator(Lines(files[:1])._pipeline, FileShard(2, 0)))


def test_a_function_tells_uneven_parts_from_others():
    traced = []

    @tf.function
    def f(value):
        traced.append(type(value))
        return value.parts[0] if isinstance(value, PerReplica) else value

    for value in (PerReplica([tf.constant(1.0)]), UnevenPerReplica([tf.constant(2.0)]), tf.constant(3.0)):
        f(value)
    assert [kind.__name__ for kind in traced] == ["PerReplica", "UnevenPerReplica", "Tensor"]


def test_a_function_tells_structures_of_parts_from_others():
    traced = []

    @tf.function
    def f(value):
        traced.append(value)
        return sum(tf.nest.flatten(value, expand_composites=True))

    one, two = tf.constant(1.0), tf.constant(2.0)
    for parts in ([one, two], [(one, two)], [{"a": one}, {"a": two}], [one, two]):
        assert f(PerReplica(parts)).numpy() == 3.0
    assert [len(value.parts) for value in traced] == [2, 1, 2]


PROGRAM = """
import sys
import gradtape as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = getattr(tf.data.experimental.AutoShardPolicy, sys.argv[1])
lines = tf.data.TextLineDataset(sys.argv[2:]).with_options(options)
data = lines.map(lambda line: tf.strings.to_number(line, tf.float32)).batch(4)
total = tf.function(lambda x: strategy.reduce("SUM", strategy.run(tf.reduce_sum, args=(x,)), axis=None))
sums = []
for batch in strategy.experimental_distribute_dataset(data):
    sums.append(float(total(batch)))
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input([1]), tf.keras.layers.Dense(1, kernel_initializer="zeros")])
    model.compile("sgd", "mse")
rows = data.map(lambda x: (x[:, None] / 100, x[:, None]))
loss = model.fit(rows, verbose=0).history["loss"][0]
print([sums, loss, model.get_weights()[0].item()])
"""


@pytest.mark.slow
def test_two_processes(files, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "4.txt").write_text("40\n41\n42\n43")
    names = [*files, str(tmp_path / "4.txt")]
    found = {}
    for policy in ("FILE", "DATA", "OFF"):
        command = [sys.executable, "-m", "gradtape", "launch", "--nproc", "2", str(tmp_path / "program.py"), policy]
        done = subprocess.run([*command, *names], capture_output=True, text=True, timeout=200)
        lines = [line for line in done.stdout.splitlines() if line[3:].strip().startswith("[[")]
        assert len(lines) == 2, done.stderr
        one, two = (ast.literal_eval(line[4:]) for line in lines)
        assert one == two
        found[policy] = one
    assert found["FILE"][0] == [22, 30, 102, 110, 81, 85]
    assert found["DATA"][0] == [6, 46, 86, 126, 166]
    assert found["OFF"][0] == [2, 10, 42, 50, 82, 90, 122, 130, 162, 170]
    assert len({loss for _, loss, _ in found.values()}) == 3


KERAS = """
import json, os
import numpy as np
import gradtape as tf

keras = tf.keras
cluster = json.loads(os.environ.get("TF_CONFIG", "{}"))
if cluster:
    addresses, number = cluster["cluster"]["worker"], cluster["task"]["index"]
    keras.distribution.initialize(",".join(addresses), len(addresses), number)
    assert len(keras.distribution.list_devices()) == 2
    keras.distribution.set_distribution(keras.distribution.DataParallel())
rng = np.random.default_rng(0)
x = rng.normal(size=(32, 4)).astype("f")
data = tf.data.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).batch(8)


def trained():
    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(2)])
    model.set_weights([np.full(w.shape, 0.1, "f") + np.arange(w.size, dtype="f").reshape(w.shape) / 50
                       for w in model.get_weights()])
    model.compile("adam", "mse")
    losses = model.fit(data, epochs=2, verbose=0).history["loss"]
    return [losses, float(sum(np.abs(w).sum() for w in model.get_weights()))], model


found = [trained()[0]]
if cluster:
    mesh = keras.distribution.DeviceMesh((1, 2), ["batch", "model"], devices=keras.distribution.list_devices())
    layouts = keras.distribution.LayoutMap(mesh)
    layouts[".*kernel"] = (None, "model")
    keras.distribution.set_distribution(keras.distribution.ModelParallel(layout_map=layouts, batch_dim_name="batch"))
    results, model = trained()
    found.append(results)
    assert [part.data.shape for part in model.layers[0].kernel.value.array.addressable_shards] == [(4, 4)]
    rows = data.map(lambda x, y: x)
    np.testing.assert_allclose(model.predict(rows, verbose=0), np.asarray(model(x)), rtol=1e-5, atol=1e-6)
    assert model.evaluate(data, verbose=0) < results[0][-1]
print(found)
"""


@pytest.mark.slow
def test_keras_distribution_over_two_processes(tmp_path):
    """Data parallelism and divided weights give what one process gives."""
    (tmp_path / "program.py").write_text(KERAS)
    commands = [[sys.executable], [sys.executable, "-m", "gradtape", "launch", "--nproc", "2"]]
    outputs = []
    for command in commands:
        done = subprocess.run([*command, "program.py"], capture_output=True, text=True, timeout=200, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        outputs.append(
            [ast.literal_eval(line[line.index("[[[") :]) for line in done.stdout.splitlines() if "[[[" in line]
        )
    ((alone,),), workers = outputs
    assert len(workers) == 2
    for found in (each for worker in workers for each in worker):
        assert found[0] == pytest.approx(alone[0], rel=1e-5)
        assert found[1] == pytest.approx(alone[1], rel=1e-5)


CALLBACKS = """
import os, sys
import numpy as np
import gradtape as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential([tf.keras.Input([4]), tf.keras.layers.Dense(1)])
    model.compile("adam", "mse", steps_per_execution=2)


class Fail(tf.keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if sys.argv[1] == "fails" and epoch == 3 and strategy.cluster_resolver.task_id == 1:
            if os.environ["GRADTAPE_RESTART"] == "0":
                sys.exit(9)


x = np.random.default_rng(0).normal(size=(64, 4)).astype("f")
kinds = tf.keras.callbacks
files = [kinds.BackupAndRestore("backup"), kinds.ModelCheckpoint("{epoch}.keras"), kinds.CSVLogger("log.csv")]
callbacks = [*files, Fail()]
history = model.fit(x, x.sum(1), batch_size=16, epochs=5, shuffle=False, verbose=0, callbacks=callbacks).history
assert callbacks[1].filepath == "{epoch}.keras"
print("found", history["loss"], [w.ravel().tolist() for w in model.get_weights()])
"""


@pytest.mark.slow
def test_the_first_process_writes_the_files_of_callbacks(tmp_path):
    """Backups restore all processes after a failure."""
    (tmp_path / "program.py").write_text(CALLBACKS)
    command = [sys.executable, "-m", "gradtape", "launch", "--max-restarts", "1", str(tmp_path / "program.py")]
    found = {}
    for name in ("calm", "fails"):
        folder = tmp_path / name
        folder.mkdir()
        done = subprocess.run([*command, name], capture_output=True, text=True, timeout=200, cwd=folder)
        assert done.returncode == 0, done.stderr
        one, two = [line.split("found ")[1] for line in done.stdout.splitlines() if "found" in line]
        assert one == two
        found[name] = ast.literal_eval(one.replace("] [", "], ["))
        expected = ["log.csv", *(f"{epoch}.keras" for epoch in range(1, 6))]
        assert sorted(path.name for path in folder.iterdir()) == sorted(expected)
    assert found["fails"] == (found["calm"][0][3:], found["calm"][1])
