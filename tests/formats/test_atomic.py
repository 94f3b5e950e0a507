"""Writes under attack: the process is killed before each file operation, others write and read at the same time."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.formats import atomic, tensor_bundle as bundle

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX")

KILLED = r"""
import os, sys
import numpy as np, gradtape as tf
from gradtape._src.formats import tensor_bundle as bundle

def each(folder, first, then, check):
    '''Let a child die before the first, second, ... file operation of `then`, and check what it leaves.'''
    for at in range(1, 200):
        place = os.path.join(folder, str(at))
        os.makedirs(place)
        first(place)
        child = os.fork()
        if not child:
            count = 0
            def step(*_):
                nonlocal count
                count += 1
                if count == at:
                    os._exit(9)
            def hook(event, args):
                if event in ("open", "os.rename", "os.remove", "os.link", "os.mkdir", "os.truncate", "os.scandir"):
                    step()
            fsync = os.fsync
            os.fsync = lambda handle: (step(), fsync(handle))
            sys.addaudithook(hook)
            then(place)
            os._exit(3)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        check(place, done=code == 3)
        if code == 3:
            assert at > 5, at
            return
        assert code == 9, code
    raise AssertionError("it never ends")
"""


def run(code, *args):
    done = subprocess.run([sys.executable, "-c", KILLED + code, *map(str, args)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def parts(folder):
    return [name for name in os.listdir(folder) if name.startswith(".part-")]


# -- killed ----------------------------------------------------------------------------------------------------------
def test_a_checkpoint_survives_a_kill_at_any_file_operation(tmp_path):
    run(
        """
def write(place, value):
    bundle.write(place + "/same", {"v": np.full(4, value)})

def check(place, done):
    found = bundle.Reader(place + "/same").get("v").tolist()
    assert found == [2.0] * 4 if done else found in ([1.0] * 4, [2.0] * 4), (place, found)
    write(place, 3.0)  # the next one removes what was left behind
    assert sorted(os.listdir(place)) == ["same.data-00000-of-00001", "same.index"], os.listdir(place)
    assert bundle.Reader(place + "/same").get("v").tolist() == [3.0] * 4

each(sys.argv[1], lambda place: write(place, 1.0), lambda place: write(place, 2.0), check)
""",
        tmp_path,
    )


def test_a_manager_survives_a_kill_at_any_file_operation(tmp_path):
    run(
        """
def manager(place):
    v = tf.Variable(0.0)
    made = tf.train.CheckpointManager(tf.train.Checkpoint(v=v), place, max_to_keep=1)
    made.restore_or_initialize()
    return made, v

def save(place):
    made, v = manager(place)
    v.assign_add(1.0)
    made.save()

def check(place, done):
    made, v = manager(place)
    assert int(v) == int(made.latest_checkpoint.rpartition("-")[2]), (place, made.latest_checkpoint, v)
    assert int(v) == 2 if done else int(v) in (1, 2), (place, v)
    save(place)
    now = int(v) + 1
    assert sorted(os.listdir(place)) == [
        "checkpoint", f"ckpt-{now}.data-00000-of-00001", f"ckpt-{now}.index"
    ], os.listdir(place)

each(sys.argv[1], save, save, check)
""",
        tmp_path,
    )


def test_temporary_files_of_dead_processes_are_removed_and_of_living_ones_never(tmp_path):
    code = "from gradtape._src.formats import atomic; part = atomic.Staged(sys.argv[1]); print(part.path, flush=True); "
    dead = run(code + "os._exit(0)", tmp_path).strip()
    assert os.path.exists(dead)
    living = subprocess.Popen(
        [sys.executable, "-c", "import sys; " + code + "input()", str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with living, atomic.Staged(str(tmp_path)) as own:
        other = living.stdout.readline().strip()
        (tmp_path / ".part-of-a-song").write_text("not a temporary file")
        (tmp_path / ".part-0123456789abcdef").mkdir()
        tf.train.Checkpoint(v=tf.Variable(1.0)).write(tmp_path / "x")
        assert not os.path.exists(dead)
        assert sorted(parts(tmp_path)) == sorted(
            [os.path.basename(own.path), os.path.basename(other), ".part-of-a-song", ".part-0123456789abcdef"]
        )
        living.communicate("\n")


def test_nothing_is_left_when_a_program_ends_in_the_middle(tmp_path):
    run(
        """
iterator = iter(tf.data.Dataset.range(1000).cache(sys.argv[1] + "/cache").prefetch(2))
next(iterator)
assert len(os.listdir(sys.argv[1])) == 1
""",
        tmp_path,
    )
    assert os.listdir(tmp_path) == []


def test_a_temporary_file_that_is_removed_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    lock, removed = atomic._lock, []

    def late(handle, wait=True):
        if not removed:
            removed.extend(tmp_path.iterdir())
            removed[0].unlink()
        return lock(handle, wait)

    monkeypatch.setattr(atomic, "_lock", late)
    with atomic.Staged(str(tmp_path)) as part:
        assert [str(path) for path in tmp_path.iterdir()] == [part.path] != [str(removed[0])]


def test_a_forked_child_leaves_the_temporary_file_alone(tmp_path):
    run(
        """
from gradtape._src.formats import atomic
with atomic.Staged(sys.argv[1]) as part:
    part.file.write(b"once")  # in the buffer of both
    if not os.fork():
        part.close()
        sys.exit()
    os.wait()
    part.move(sys.argv[1] + "/name")
""",
        tmp_path,
    )
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"name": b"once"}


# -- at the same time ------------------------------------------------------------------------------------------------
def test_readers_of_a_checkpoint_that_is_replaced_see_the_old_or_the_new_one(tmp_path):
    prefix = str(tmp_path / "same")
    bundle.write(prefix, {"a": np.zeros(999), "b": np.zeros(7)})
    done = threading.Event()

    def writes():
        for i in range(1, 61):
            bundle.write(prefix, {"a": np.full(999, i), "b": np.full(i % 7 + 1, i)})
        done.set()

    def reads(_):
        last, count = 0.0, 0
        a, b = tf.Variable(np.zeros(999)), tf.Variable(np.zeros(7), shape=tf.TensorShape(None))
        while not done.is_set() or not count:
            both = bundle.read(prefix, lambda reader: (reader.get("a"), reader.get("b")))
            (value,) = {*both[0].tolist(), *both[1].tolist()}
            assert value >= last
            last, count = value, count + 1
        return a, b

    with ThreadPoolExecutor(3) as pool:
        reading = [pool.submit(reads, i) for i in range(2)]
        pool.submit(writes).result()
        for one in reading:
            one.result()
    assert bundle.Reader(prefix).get("b").tolist() == [60] * 5


def test_a_restore_begins_again_if_the_checkpoint_is_replaced_meanwhile(tmp_path, monkeypatch):
    def checkpoint(value):
        return tf.train.Checkpoint(a=tf.Variable([value, value]), b=tf.Variable([value] * 3))

    path = checkpoint(1.0).write(tmp_path / "same")
    get, keys = bundle.Reader.get, []

    def replaced_meanwhile(reader, key):
        keys.append(key)
        if len(keys) == 3:  # after the objects and one value
            checkpoint(2.0).write(tmp_path / "same")
        return get(reader, key)

    monkeypatch.setattr(bundle.Reader, "get", replaced_meanwhile)
    other = checkpoint(0.0)
    other.read(path).assert_consumed()
    assert (other.a.numpy().tolist(), other.b.numpy().tolist()) == ([2.0, 2.0], [2.0, 2.0, 2.0])
    assert len(keys) == 6


def test_damage_is_no_reason_to_begin_again(tmp_path):
    path = tf.train.Checkpoint(v=tf.Variable(1.0)).write(tmp_path / "x")
    data = Path(f"{path}.data-00000-of-00001")
    data.write_bytes(b"\xff" * len(data.read_bytes()))
    with pytest.raises(tf.errors.DataLossError):
        tf.train.Checkpoint(v=tf.Variable(0.0)).read(path)


def test_many_who_write_one_prefix(tmp_path):
    prefix = str(tmp_path / "same")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: bundle.write(prefix, {"v": np.full(50, i)}), range(40)))
    assert sorted(os.listdir(tmp_path)) == ["same.data-00000-of-00001", "same.index"]
    assert len(set(bundle.Reader(prefix).get("v").tolist())) == 1


def test_two_managers_in_one_folder(tmp_path):
    def manager(value):
        checkpoint = tf.train.Checkpoint(v=tf.Variable(value))
        return tf.train.CheckpointManager(checkpoint, tmp_path, max_to_keep=2)

    one, two = manager(1.0), manager(2.0)
    for turn in [one, one, one, one, two, two, two, one, two, one]:
        path = turn.save()
        assert tf.train.latest_checkpoint(tmp_path) == path
        tf.train.Checkpoint(v=tf.Variable(0.0)).restore(path).expect_partial()
    names = {name.partition(".")[0] for name in os.listdir(tmp_path)}
    assert len(names) <= 5  # two each, and the state
    three = manager(3.0)
    for _ in range(3):
        one.save()
    assert three.restore_or_initialize() == one.latest_checkpoint  # the latest one of then is gone
    assert three.checkpoint.v.numpy() == 1.0


def test_a_reader_of_the_latest_checkpoint_of_a_folder(tmp_path, monkeypatch):
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    manager = tf.train.CheckpointManager(checkpoint, tmp_path, max_to_keep=1)
    manager.save()
    make = bundle.Reader.__init__

    def after_another_save(self, prefix):
        if prefix.endswith("ckpt-1"):
            manager.save()
        make(self, prefix)

    monkeypatch.setattr(bundle.Reader, "__init__", after_another_save)
    assert tf.train.load_variable(tmp_path, "save_counter/.ATTRIBUTES/VARIABLE_VALUE") == 2


def test_threads_with_managers_of_their_own_in_one_folder(tmp_path):
    def work(i):
        checkpoint = tf.train.Checkpoint(v=tf.Variable(float(i)))
        made = tf.train.CheckpointManager(checkpoint, tmp_path, max_to_keep=1)
        for _ in range(10):
            made.save()
            while (path := tf.train.latest_checkpoint(tmp_path)) is None:
                raise AssertionError("there is always a latest one")
        return path

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    path = tf.train.latest_checkpoint(tmp_path)
    assert tf.train.load_variable(path, "v/.ATTRIBUTES/VARIABLE_VALUE") in (0.0, 1.0, 2.0)


def test_the_latest_checkpoint_is_looked_up_again_if_it_is_removed_just_then(tmp_path, monkeypatch):
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    manager = tf.train.CheckpointManager(checkpoint, tmp_path, max_to_keep=1)
    first = manager.save()
    exists = os.path.exists

    def later(path):
        if path == f"{first}.index" and exists(path):
            manager.save()
        return exists(path)

    monkeypatch.setattr(os.path, "exists", later)
    assert tf.train.latest_checkpoint(tmp_path) == f"{tmp_path}/ckpt-2"


# -- one file --------------------------------------------------------------------------------------------------------
def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "name"
    path.write_bytes(b"old")

    def fails(file):
        file.write(b"half of")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        atomic.write(str(path), fails)
    assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == {"name": b"old"}


def test_links_and_devices_are_written_through(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    atomic.write(str(tmp_path / "link"), lambda file: file.write(b"new"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"new"
    atomic.write(os.devnull, lambda file: file.write(b"nothing"))
    assert not os.path.isfile(os.devnull)


def test_permissions_are_those_of_any_new_file(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    tf.train.Checkpoint(v=tf.Variable(1.0)).save(tmp_path / "x")
    assert {os.stat(path).st_mode for path in tmp_path.iterdir()} == {os.stat(tmp_path / "plain").st_mode}


def write_a_file(folder):
    tf.io.write_file(str(folder / "name"), b"content")


def write_records(folder):
    tf.data.experimental.TFRecordWriter(str(folder / "records")).write(tf.data.Dataset.from_tensors(b"x"))


@pytest.mark.parametrize(
    "save",
    [
        write_a_file,
        write_records,
        lambda folder: tf.train.Checkpoint(v=tf.Variable(1.0)).write(folder / "x"),
        lambda folder: tf.data.Dataset.range(3).save(str(folder)),
    ],
)
def test_a_file_that_is_replaced_keeps_its_permissions(save, tmp_path):
    save(tmp_path)
    for path in tmp_path.iterdir():
        path.chmod(0o600)
    save(tmp_path)
    assert {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()} == {
        path.name: "0o600" for path in tmp_path.iterdir()
    }
    (first := next(tmp_path.iterdir())).chmod(0o664)  # more than the mask of the process gives
    save(tmp_path)
    assert oct(first.stat().st_mode & 0o777) == "0o664"


def counted_calls(monkeypatch, *names):
    """How often functions of `os` are called from now on."""
    counts = dict.fromkeys(names, 0)

    def counting(name, function):
        def counted(*args, **options):
            counts[name] += 1
            return function(*args, **options)

        return counted

    for name in names:
        monkeypatch.setattr(os, name, counting(name, getattr(os, name)))
    return counts


def test_a_plain_file_waits_for_no_disk_and_searches_no_folder(tmp_path, monkeypatch):
    counts = counted_calls(monkeypatch, "fsync", "scandir")
    write_a_file(tmp_path)
    assert counts == {"fsync": 0, "scandir": 0}
    assert [path.name for path in tmp_path.iterdir()] == ["name"]


def test_a_folder_is_searched_once_and_again_after_a_fork(tmp_path):
    run(
        """
from gradtape._src.formats import atomic
searches = []
sys.addaudithook(lambda event, args: searches.append(args) if event == "os.scandir" else None)
for _ in range(3):
    atomic.remove_abandoned(sys.argv[1])
assert len(searches) == 1, searches
if not os.fork():
    os._exit(0)
os.wait()
atomic.remove_abandoned(sys.argv[1])
assert len(searches) == 2, searches
""",
        tmp_path,
    )


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errno.ENOSPC, tf.errors.ResourceExhaustedError),
        (errno.EROFS, tf.errors.PermissionDeniedError),
        (errno.EFBIG, tf.errors.OutOfRangeError),
        (errno.EISDIR, tf.errors.FailedPreconditionError),
        (errno.ENAMETOOLONG, tf.errors.InvalidArgumentError),
        (errno.EIO, tf.errors.UnknownError),
    ],
)
def test_errors_of_the_system_have_tensorflows_classes(code, kind):
    with pytest.raises(kind, match=f"there; {os.strerror(code)}"), atomic.named_errors("there"):
        raise OSError(code, os.strerror(code))


def test_a_save_into_a_folder_that_vanishes(tmp_path, monkeypatch):
    folder = tmp_path / "gone"
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    checkpoint.save(folder / "x")
    flush = atomic.Staged.flush

    def vanishes(part):
        flush(part)
        if folder.exists():
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()

    monkeypatch.setattr(atomic.Staged, "flush", vanishes)
    with pytest.raises(tf.errors.NotFoundError):
        checkpoint.save(folder / "x")
    assert checkpoint.save_counter.numpy() == 1


# -- datasets in files -----------------------------------------------------------------------------------------------
def shuffled_words(path):
    words = [b"a" * (i * 37 % 600) for i in range(100)]
    return words, tf.data.Dataset.from_tensor_slices(words).shuffle(100).cache(path)


def test_a_cache_that_two_iterators_write(tmp_path):
    words, cached = shuffled_words(str(tmp_path / "cache"))
    assert len(list(tf.data.Dataset.zip(cached, cached))) == 100
    first, second = [[x.numpy() for x in cached] for _ in range(2)]
    assert first == second
    assert sorted(first) == sorted(words)
    assert os.listdir(tmp_path) == ["cache.data"]


def test_a_cache_that_threads_write(tmp_path):
    words, cached = shuffled_words(str(tmp_path / "cache"))
    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(lambda _: len(list(cached)), range(8)))
    assert counts == [100] * 8
    assert sorted(x.numpy() for x in cached) == sorted(words)
    assert os.listdir(tmp_path) == ["cache.data"]


def test_a_cache_that_processes_write_and_that_are_killed(tmp_path):
    code = """
import time
def slow(x):
    time.sleep(0.002)
    return x
made = tf.data.Dataset.range(300).map(slow).cache(sys.argv[1] + "/cache")
for _ in range(2):
    assert [int(x) for x in made] == list(range(300))
"""
    script = [sys.executable, "-c", KILLED + code, str(tmp_path)]
    ones = [subprocess.Popen(script, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    victim = subprocess.Popen(script, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(parts(tmp_path)) < 3 and time.monotonic() < deadline and not (tmp_path / "cache.data").exists():
        time.sleep(0.01)
    victim.kill()
    victim.wait()
    for one in ones:
        _, said = one.communicate()
        assert one.returncode == 0, said[-1500:]
    made = tf.data.Dataset.range(300).cache(str(tmp_path / "cache"))
    assert [int(x) for x in made] == list(range(300))
    list(tf.data.Dataset.range(3).cache(str(tmp_path / "other")))
    assert sorted(os.listdir(tmp_path)) == ["cache.data", "other.data"]


def test_an_iteration_that_does_not_end_caches_nothing(tmp_path):
    cached = tf.data.Dataset.range(10).cache(str(tmp_path / "cache"))
    iterator = iter(cached)
    next(iterator)
    assert len(parts(tmp_path)) == 1
    del iterator
    assert os.listdir(tmp_path) == []
    failing = tf.data.Dataset.range(4).map(lambda x: 12 // (x - 2)).cache(str(tmp_path / "cache"))
    with pytest.raises(tf.errors.InvalidArgumentError):
        list(failing)
    assert os.listdir(tmp_path) == []
    assert len(list(cached)) == 10


@pytest.mark.parametrize("made", ["made._pipeline.elements(Run())", "iter(made)"])
def test_a_forked_child_leaves_the_cache_of_its_parent_alone(tmp_path, made):
    """A child that goes on with the very generator writes nothing; one that begins anew writes a cache of its own."""
    run(
        f"""
from gradtape._src.data.core import Run
made = tf.data.Dataset.range(100).cache(sys.argv[1] + "/cache")
iterator = {made}
for _ in range(50):
    next(iterator)
if not (child := os.fork()):
    os._exit(0 if [int(x) for x in iterator] == list(range(50, 100)) else 1)
assert os.waitpid(child, 0)[1] == 0
assert [int(x) for x in iterator] == list(range(50, 100))
assert [int(x) for x in made] == list(range(100))
""",
        tmp_path,
    )
    assert os.listdir(tmp_path) == ["cache.data"]


def test_a_saved_dataset_survives_a_kill_at_any_file_operation(tmp_path):
    run(
        """
def save(place, start):
    tf.data.Dataset.range(start, start + 5).save(place)

def load(place):
    return [int(x) for x in tf.data.Dataset.load(place)]

def check(place, done):
    found = load(place)
    assert found == [10, 11, 12, 13, 14] if done else found in ([0, 1, 2, 3, 4], [10, 11, 12, 13, 14]), (place, found)
    save(place, 20)
    assert load(place) == [20, 21, 22, 23, 24]
    assert sorted(os.listdir(place)) == ["dataset_spec.json", "elements.tfrecord"], os.listdir(place)

each(sys.argv[1], lambda place: save(place, 0), lambda place: save(place, 10), check)
""",
        tmp_path,
    )


def test_a_cache_survives_a_kill_at_any_file_operation(tmp_path):
    run(
        """
def read(place):
    return [int(x) for x in tf.data.Dataset.range(5).cache(place + "/cache")]

def check(place, done):
    assert os.path.exists(place + "/cache.data") or not done
    assert read(place) == read(place) == [0, 1, 2, 3, 4]
    assert os.listdir(place) == ["cache.data"], os.listdir(place)

each(sys.argv[1], lambda place: None, read, check)
""",
        tmp_path,
    )


def test_a_dataset_that_is_saved_again_while_it_is_read(tmp_path):
    tf.data.Dataset.range(5).save(tmp_path / "d")
    loaded = tf.data.Dataset.load(tmp_path / "d")
    iterator = iter(loaded)
    next(iterator)
    tf.data.Dataset.range(10, 17).save(tmp_path / "d")
    assert [int(x) for x in iterator] == [1, 2, 3, 4]  # what was opened stays
    assert [int(x) for x in loaded] == list(range(10, 17))
    tf.data.Dataset.from_tensor_slices(["a"]).save(tmp_path / "d")
    with pytest.raises(tf.errors.FailedPreconditionError, match="replaced by a dataset with different elements"):
        next(iter(loaded))


def test_threads_that_save_and_load_one_dataset(tmp_path):
    path = tmp_path / "d"
    tf.data.Dataset.range(7).save(path)

    def work(i):
        if i % 2:
            tf.data.Dataset.range(i, i + 5 + i % 3).save(path)
            return True
        found = [int(x) for x in tf.data.Dataset.load(path)]
        return found == list(range(found[0], found[0] + len(found)))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(40)))
    assert sorted(os.listdir(path)) == ["dataset_spec.json", "elements.tfrecord"]


def test_a_save_that_fails_leaves_the_older_one(tmp_path):
    tf.data.Dataset.range(5).save(tmp_path / "d")
    before = {entry.name: entry.read_bytes() for entry in (tmp_path / "d").iterdir()}
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.data.Dataset.range(4).map(lambda x: 12 // (x - 2)).save(tmp_path / "d")
    assert {entry.name: entry.read_bytes() for entry in (tmp_path / "d").iterdir()} == before
    writer = tf.data.experimental.TFRecordWriter(str(tmp_path / "records"))
    writer.write(tf.data.Dataset.from_tensor_slices(["a", "b"]))
    with pytest.raises(TypeError):
        writer.write(tf.data.Dataset.range(3))
    assert [x.numpy() for x in tf.data.TFRecordDataset(str(tmp_path / "records"))] == [b"a", b"b"]


def test_files_are_written_whole(tmp_path):
    path = str(tmp_path / "new" / "file")
    tf.io.write_file(path, b"old")
    with pytest.raises(tf.errors.FailedPreconditionError, match="Is a directory"):
        tf.io.write_file(str(tmp_path), b"x")
    with pytest.raises(tf.errors.ResourceExhaustedError, match="No space left"):
        tf.io.write_file("/dev/full", b"x" * 10**6)
    assert tf.io.read_file(path).numpy() == b"old"
    writer = tf.io.TFRecordWriter(str(tmp_path / "records"), "GZIP")
    writer.write(b"x")
    del writer  # also without close() everything is there
    assert [x.numpy() for x in tf.data.TFRecordDataset(str(tmp_path / "records"), "GZIP")] == [b"x"]
    writer = tf.io.TFRecordWriter(str(tmp_path / "records"))
    writer.close()
    for call in (lambda: writer.write(b"y"), writer.flush):
        with pytest.raises(tf.errors.FailedPreconditionError, match="Writer is closed"):
            call()
