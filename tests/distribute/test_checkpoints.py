"""Checkpoints that several processes write together."""

from __future__ import annotations

import errno
import subprocess
import sys
import textwrap
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


@pytest.mark.parametrize("stage", ["values", "index"])
def test_a_full_disk_leaves_the_checkpoint_before(tmp_path, monkeypatch, stage):
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    first, second = halves(x)
    assert write_in_threads(tmp_path / "c-1", [{"x": first}, {"x": second}]) == []

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    if stage == "index":
        monkeypatch.setattr(bundle, "write_file", full)
    else:
        monkeypatch.setattr(bundle, "_write_values", full)
    failed = write_in_threads(tmp_path / "c-2", [{"x": first}, {"x": second}])
    assert len(failed) == 2
    assert all("No space left on device" in str(error) for error in failed)
    with pytest.raises(tf.errors.NotFoundError):
        bundle.Reader(str(tmp_path / "c-2"))
    np.testing.assert_array_equal(bundle.Reader(str(tmp_path / "c-1")).get("x"), x)


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


def test_two_processes_save_and_one_restores(tmp_path):
    pytest.importorskip("jax")
    (tmp_path / "program.py").write_text(textwrap.dedent(PROGRAM))
    done = subprocess.run(
        [sys.executable, "-m", "gradtape", "launch", "program.py"],
        capture_output=True, text=True, timeout=120, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = sorted(line.split("] ", 1)[1] for line in done.stdout.splitlines() if "part" in line)
    assert found == ["part 0 [0.0, 1.0, 2.0, 3.0]", "part 1 [4.0, 5.0, 6.0, 7.0]"]
    v, w = tf.Variable(tf.zeros([4, 2])), tf.Variable(np.zeros(3, np.int64))
    tf.train.Checkpoint(v=v, w=w).restore(tf.train.latest_checkpoint(str(tmp_path))).assert_consumed()
    np.testing.assert_array_equal(v.numpy(), np.arange(8.0).reshape(4, 2))
    assert w.numpy().tolist() == [0, 1, 2]
