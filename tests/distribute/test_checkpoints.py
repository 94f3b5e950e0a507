"""Checkpoints that several processes write together."""

from __future__ import annotations

import errno
import subprocess
import sys
import threading

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.formats import tensor_bundle as bundle


class Meeting:
    """Exchanges bytes between threads, as processes do."""

    def __init__(self, count):
        self.count, self.told, self.barrier = count, {}, threading.Barrier(count)

    def group(self, number):
        def exchange(name, content):
            self.told[name, number] = content
            self.barrier.wait(10)
            return [self.told[name, i] for i in range(self.count)]

        return bundle.Group(self.count, number, exchange)


def write_in_threads(prefix, values):
    meeting = Meeting(len(values))
    failed = []

    def write(number):
        try:
            bundle.write_together(str(prefix), values[number], meeting.group(number))
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(len(values))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failed


def halves(x):
    rows = len(x) // 2
    full = (0, x.shape[1])
    return [bundle.Slices(x.shape, [(((i * rows, rows), full), x[i * rows : (i + 1) * rows])]) for i in range(2)]


def test_parts_are_read_as_one_tensor(tmp_path):
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    first, second = halves(x)
    assert write_in_threads(tmp_path / "c", [{"x": first, "a": np.ones(2)}, {"x": second, "b": np.zeros(1)}]) == []
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.data-00000-of-00002", "c.data-00001-of-00002", "c.index"]
    reader = bundle.Reader(str(tmp_path / "c"))
    assert reader.keys() == ["a", "b", "x"]
    np.testing.assert_array_equal(reader.get("x"), x)
    np.testing.assert_array_equal(reader.get("a"), np.ones(2))


def test_without_all_parts_there_is_no_checkpoint(tmp_path):
    """If one process fails all of them raise, and none waits for it."""
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    first, _ = halves(x)
    failed = write_in_threads(tmp_path / "c", [{"x": first}, {"x": np.array([object()])}])
    assert sorted(type(error).__name__ for error in failed) == ["AbortedError", "TypeError"]
    assert "process 1" in str(next(error for error in failed if isinstance(error, tf.errors.AbortedError)))
    assert tf.train.latest_checkpoint(str(tmp_path)) is None
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(tf.errors.NotFoundError):
        bundle.Reader(str(tmp_path / "c"))


def full(*args, **kwargs):
    raise OSError(errno.ENOSPC, "No space left on device")


FAULTS = {
    "opened": (bundle.os, "makedirs"),
    "values": (bundle, "_write_values"),
    "moved": (bundle.Staged, "move"),
    "index": (bundle, "write_file"),
}


@pytest.mark.parametrize("prefix", ["c-1", "c-2"])
@pytest.mark.parametrize("stage", FAULTS)
def test_a_full_disk_leaves_the_checkpoint_before(tmp_path, monkeypatch, stage, prefix):
    """Also if it has the same name."""
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    first, second = halves(x)
    assert write_in_threads(tmp_path / "c-1", [{"x": first}, {"x": second}]) == []
    files = sorted(tmp_path.iterdir())
    monkeypatch.setattr(*FAULTS[stage], full)
    failed = write_in_threads(tmp_path / prefix, [{"x": part} for part in halves(x + 1)])
    assert len(failed) == 2
    assert all("No space left on device" in str(error) for error in failed)
    assert sorted(tmp_path.iterdir()) == files
    np.testing.assert_array_equal(bundle.Reader(str(tmp_path / "c-1")).get("x"), x)


def test_a_checkpoint_of_the_same_name_is_replaced(tmp_path):
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    for number in range(3):
        assert write_in_threads(tmp_path / "c", [{"x": part} for part in halves(x + number)]) == []
        np.testing.assert_array_equal(bundle.Reader(str(tmp_path / "c")).get("x"), x + number)
        assert len(list(tmp_path.iterdir())) == 3


PROGRAM = """
import numpy as np, gradtape as tf
from gradtape.experimental import dtensor
dtensor.initialize_accelerator_system("CPU")
mesh = dtensor.create_distributed_mesh([("x", 2)])
v = dtensor.DVariable(np.arange(8, dtype="f").reshape(4, 2), layout=dtensor.Layout(["x", "unsharded"], mesh))
w = dtensor.DVariable(np.arange(3), layout=dtensor.Layout(["unsharded"], mesh))
path = dtensor.DTensorCheckpoint(mesh, v=v, w=w).save("c")
v.assign(0.0 * v)
dtensor.DTensorCheckpoint(mesh, v=v, w=w).restore(path).assert_consumed()
(part,) = v._read().array.addressable_shards
print("part", dtensor.client_id(), np.asarray(part.data).ravel().tolist())
"""


def output_of(folder, program):
    """The lines that two processes print, sorted."""
    (folder / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "-m", "gradtape", "launch", "--nproc", "2", "program.py"],
        capture_output=True, text=True, timeout=120, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return sorted(line.split("] ", 1)[1] for line in done.stdout.splitlines())


def test_two_processes_save_and_one_restores(tmp_path):
    pytest.importorskip("jax")
    found = [line for line in output_of(tmp_path, PROGRAM) if line.startswith("part")]
    assert found == ["part 0 [0.0, 1.0, 2.0, 3.0]", "part 1 [4.0, 5.0, 6.0, 7.0]"]
    v, w = tf.Variable(tf.zeros([4, 2])), tf.Variable(np.zeros(3, np.int64))
    tf.train.Checkpoint(v=v, w=w).restore(tf.train.latest_checkpoint(str(tmp_path))).assert_consumed()
    np.testing.assert_array_equal(v.numpy(), np.arange(8.0).reshape(4, 2))
    assert w.numpy().tolist() == [0, 1, 2]


FAILING = """
import os, resource, signal, sys, numpy as np, gradtape as tf
from gradtape.experimental import dtensor
dtensor.initialize_accelerator_system("CPU")
mesh = dtensor.create_distributed_mesh([("x", 2)])
v = dtensor.DVariable(np.arange(8192, dtype="f").reshape(4096, 2), layout=dtensor.Layout(["x", "unsharded"], mesh))
manager = tf.train.CheckpointManager(dtensor.DTensorCheckpoint(mesh, v=v), "saved", max_to_keep=2)
for _ in range(3):
    manager.save()
files = sorted(os.listdir("saved"))
v.assign(0.0 * v)
dtensor.barrier(mesh)
if dtensor.client_id() == 1:  # its files may have 1,000 bytes, as on a disk that is full
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
try:
    manager.save()
except tf.errors.OpError as error:
    print("error", type(error).__name__, str(error))
assert [os.path.basename(path) for path in manager.checkpoints] == ["ckpt-2", "ckpt-3"]
dtensor.barrier(mesh)
assert sorted(os.listdir("saved")) == files
dtensor.barrier(mesh)
manager.restore_or_initialize()
(part,) = v._read().array.addressable_shards
np.testing.assert_array_equal(np.asarray(part.data).ravel()[:2], [[0.0, 1.0], [4096.0, 4097.0]][dtensor.client_id()])
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print("saved", manager.save())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limits of file sizes")
def test_a_process_that_cannot_write_its_part(tmp_path):
    """All processes raise an error, the checkpoint before stays whole, and the next save works."""
    pytest.importorskip("jax")
    found = output_of(tmp_path, FAILING)
    (aborted,) = [line for line in found if line.startswith("error AbortedError")]
    assert "another process has failed to write its part. process 1: [Errno 27] File too large" in aborted
    (own,) = [line for line in found if line.startswith("error OutOfRangeError")]
    assert "File too large" in own
    assert [line for line in found if line.startswith("saved")] == ["saved saved/ckpt-4"] * 2
    v = tf.Variable(tf.zeros([4096, 2]))
    tf.train.Checkpoint(v=v).restore(tf.train.latest_checkpoint(str(tmp_path / "saved"))).expect_partial()
    np.testing.assert_array_equal(v.numpy(), np.arange(8192.0).reshape(4096, 2))
