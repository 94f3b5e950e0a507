"""Event files: bytes that TensorFlow has written, crashes, full disks, forks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import ClassVar

import numpy as np
import pytest

from gradtape import errors
from gradtape._src.formats import event_file
from gradtape._src.formats.crc32c import crc32c, crc32c_small
from gradtape._src.formats.event import Event, Summary, SummaryMetadata
from gradtape._src.formats.event_file import EventFile, event_files, read_events
from gradtape._src.formats.media import encode_png, encode_wav
from gradtape._src.formats.schema import Field, Record, mapping, repeated

# A scalar 0.5 of the tag `loss` at step 3, as TensorFlow 2.21 writes it.
RECORDED = bytes.fromhex(
    "2e00000000000000c5cb57fa09f65db314bfbeda4110032a210a1f0a046c6f7373420a0801120022040000003f4a0b0a090a077363616c617273"
)


def steps(folder):
    return [event.step for path in event_files(str(folder)) for event in read_events(path)][1:]


def test_a_scalar_has_tensorflows_bytes(tmp_path, monkeypatch):
    record = RECORDED[12:]
    moment = Event.FromString(record).wall_time
    file = EventFile(str(tmp_path))
    monkeypatch.setattr(event_file.time, "time", lambda: moment)
    file.add_scalar("loss", 0.5, 3)
    file.close()
    with open(file.path, "rb") as opened:
        assert opened.read().endswith(RECORDED + bytes.fromhex("1662484a"))


@pytest.mark.parametrize("size", [0, 1, 15, 16, 399, 400, 401, 5000])
def test_small_checksums_are_the_large_ones(size):
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8).tobytes()
    assert crc32c_small(data) == crc32c(data)


def test_records_reach_the_file_when_enough_are_pending(tmp_path):
    file = EventFile(str(tmp_path), max_queue=3)
    for step in (1, 2, 3):
        file.add_scalar("x", 1.0, step)
    assert steps(tmp_path) == []
    file.add_scalar("x", 1.0, 4)
    assert steps(tmp_path) == [1, 2, 3, 4]
    file.add_scalar("x", 1.0, 5)
    file.flush()
    assert steps(tmp_path) == [1, 2, 3, 4, 5]
    file.close()


def test_records_reach_the_file_when_time_has_passed(tmp_path, monkeypatch):
    file = EventFile(str(tmp_path), flush_seconds=60)
    file.add_scalar("x", 1.0, 1)
    later = time.time() + 61
    monkeypatch.setattr(event_file.time, "time", lambda: later)
    file.add_scalar("x", 1.0, 2)
    assert steps(tmp_path) == [1, 2]
    file.close()


def test_a_forgotten_file_is_written(tmp_path):
    file = EventFile(str(tmp_path))
    file.add_scalar("x", 1.0, 7)
    del file
    assert steps(tmp_path) == [7]


def test_a_reader_stops_at_a_record_that_is_cut_off(tmp_path):
    file = EventFile(str(tmp_path))
    for step in (1, 2):
        file.add_scalar("x", 1.0, step)
    file.close()
    for _ in range(50):  # all of the second record's bytes but a few
        os.truncate(file.path, os.path.getsize(file.path) - 1)
        assert steps(tmp_path) == [1]


def test_a_full_disk_leaves_whole_records(tmp_path, monkeypatch):
    file = EventFile(str(tmp_path), max_queue=0)
    file.add_scalar("x", 1.0, 1)
    write = os.write

    def half(handle, data):
        if len(data) < 10:
            raise OSError(28, "No space left on device")
        return write(handle, data[: len(data) - 5])

    monkeypatch.setattr(event_file.os, "write", half)
    with pytest.raises(errors.ResourceExhaustedError):
        file.add_scalar("x", 1.0, 2)
    assert steps(tmp_path) == [1]
    monkeypatch.undo()
    file.close()  # what was pending is written when there is room again
    assert steps(tmp_path) == [1, 2]


def test_a_killed_process_leaves_whole_records(tmp_path):
    program = (
        "import os, sys\nfrom gradtape._src.formats.event_file import EventFile\n"
        "file = EventFile(sys.argv[1])\n"
        "for step in range(25):\n    file.add_scalar('x', 1.0, step + 1)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert steps(tmp_path) == list(range(1, 23))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_a_file_of_its_own(tmp_path):
    program = (
        "import os, sys\nfrom gradtape._src.formats.event_file import EventFile\n"
        "file = EventFile(sys.argv[1])\nfile.add_scalar('x', 1.0, 1)\n"
        "child = os.fork()\nfile.add_scalar('x', 1.0, 3 if child else 2)\nfile.close()\n"
        "sys.exit(os.waitpid(child, 0)[1] if child else 0)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    found = [[event.step for event in read_events(path)][1:] for path in event_files(str(tmp_path))]
    assert sorted(found) == [[1, 3], [2]]


# -- messages ----------------------------------------------------------------------------------------------------------
def test_messages_are_read_as_they_were_written():
    made = Summary(value=[Summary.Value(tag="a", simple_value=0.0, metadata={"plugin_data": {"plugin_name": "p"}})])
    again = Summary.FromString(made.SerializeToString())
    assert again == made
    assert again.value[0].WhichOneof("value") == "simple_value"
    assert again.value[0].metadata.plugin_data.plugin_name == "p"
    assert str(again).startswith('value {\n  tag: "a"')


def test_a_oneof_has_one_field():
    event = Event(file_version="x")
    event.graph_def = b"y"
    assert event.WhichOneof("what") == "graph_def"
    assert not event.HasField("file_version")


def test_mistakes_with_messages():
    with pytest.raises(ValueError, match='has no "nothing" field'):
        SummaryMetadata(nothing=1)
    metadata = SummaryMetadata()
    with pytest.raises(AttributeError, match="Assignment not allowed"):
        metadata.plugin_data = 3
    with pytest.raises(AttributeError, match='has no "nothing" field'):
        metadata.nothing = 3
    with pytest.raises(TypeError):
        metadata.display_name = 3


def test_maps_and_packed_numbers():
    class Inner(Record):
        schema: ClassVar = {"x": Field(1, "int")}

    class Outer(Record):
        schema: ClassVar = {"items": mapping(1, Inner), "numbers": repeated(2, "double"), "ids": repeated(3, "int")}

    made = Outer(items={"a": Inner(x=-3)}, numbers=[0.5, -1.0], ids=[1, 300, -1])
    again = Outer.FromString(made.SerializeToString())
    assert (again.items["a"].x, list(again.numbers), list(again.ids)) == (-3, [0.5, -1.0], [1, 300, -1])
    assert again.items["new"].x == 0


# -- images and sounds -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_png_files_hold_their_pixels(channels):
    image = pytest.importorskip("PIL.Image")
    import io

    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, channels), np.uint8)
    with image.open(io.BytesIO(encode_png(pixels))) as opened:
        assert np.array_equal(np.asarray(opened).reshape(pixels.shape), pixels)


def test_wav_files_are_clipped_and_rounded_as_tensorflow_does():
    samples = np.array([-1.2, -0.975, 0.0, 0.5, 0.975, 1.2], np.float32)[:, None]
    assert np.frombuffer(encode_wav(samples, 8000)[44:], "<i2").tolist() == [-32768, -31949, 0, 16384, 31949, 32767]
