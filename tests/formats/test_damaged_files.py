"""Damaged and hostile files of every format that is read: a named error, or the very content; little memory, no hang.

The mutations are drawn from fixed seeds: a failure names the format and the number of the mutation. More of them:
`GRADTAPE_MUTATIONS=5000 pytest tests/formats/test_damaged_files.py -k mutations`.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.formats import leveldb as table, protobuf as wire
from gradtape._src.formats.crc32c import crc32c, masked

NAMED = (tf.errors.OpError, tf.train.Example.FromString.__globals__["DecodeError"])


def mutated(data, draw):
    """A damaged copy of bytes."""
    data = bytearray(data)
    for _ in range(draw.randint(1, 3)):
        if not data:
            break
        at, to = draw.randrange(len(data)), draw.randrange(len(data))
        match draw.choice(["bit", "bit", "byte", "cut", "insert", "zeros", "twice", "drop", "swap"]):
            case "bit":
                data[at] ^= 1 << draw.randrange(8)
            case "byte":
                data[at] = draw.choice([0, 1, 127, 128, 255])
            case "cut":
                del data[at:]
            case "insert":
                data[at:at] = draw.randbytes(draw.randint(1, 9))
            case "zeros":
                data[at : at + 20] = bytes(len(data[at : at + 20]))
            case "twice":
                data[at:at] = data[at : at + draw.randint(1, 30)]
            case "drop":
                del data[at : at + draw.randint(1, 30)]
            case "swap":
                data[at], data[to] = data[to], data[at]
    return bytes(data)


def plain(value):
    """A value as Python's own objects, to compare."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, tf.SparseTensor):
        return [plain(part) for part in (value.indices, value.values, value.dense_shape)]
    return np.asarray(value.numpy()).tolist() if hasattr(value, "numpy") else value


# -- the formats: what is written, what is changed, and how it is read -----------------------------------------------
ROWS = [b"one", b"", b"x" * 300, b"the end"]


def zeros_like(array):
    return np.full_like(array, b"" if array.dtype == object else 0)


def checkpoint_files(folder, part):
    values = {"a": np.arange(50, dtype=np.float32), "s": np.array([b"ab", b""], object), "b": np.array([True, False])}
    path = tf.train.Checkpoint(**{key: tf.Variable(value) for key, value in values.items()}).write(folder / "c")

    def read():
        made = {key: tf.Variable(zeros_like(value)) for key, value in values.items()}
        before = plain(made)
        try:
            tf.train.Checkpoint(**made).read(path).assert_consumed()
        except AssertionError as error:  # what the description does not name is not restored
            raise tf.errors.DataLossError(None, None, str(error)) from None
        except BaseException:
            assert plain(made) == before
            raise
        return plain(made), [tf.train.load_variable(path, key) for key, _ in tf.train.list_variables(path)] and 0

    return Path(f"{path}.{part}"), read


def record_files(folder, compression):
    path = folder / "records"
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for row in ROWS:
            writer.write(row)
    return path, lambda: plain(list(tf.data.TFRecordDataset(str(path), compression)))


def text_files(folder, compression):
    path = folder / "lines"
    path.write_bytes({"GZIP": gzip.compress, "ZLIB": zlib.compress}[compression](b"\n".join(ROWS) * 20))
    return path, lambda: plain(list(tf.data.TextLineDataset(str(path), compression)))


def pipeline():
    return tf.data.Dataset.range(20).map(lambda x: {"x": x, "row": tf.fill([3], x), "word": tf.constant("word")})


def cache_files(folder, _):
    cached = pipeline().cache(str(folder / "cache"))
    list(cached)
    return folder / "cache.data", lambda: plain(list(cached))


def saved_files(folder, name):
    pipeline().save(folder / "saved", compression="GZIP" if name == "packed" else None)
    path = folder / "saved" / ("elements.tfrecord" if name != "json" else "dataset_spec.json")

    def read():
        return plain(list(tf.data.Dataset.load(folder / "saved", compression="GZIP" if name == "packed" else None)))

    return path, read


def state_files(folder, _):
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    for _ in range(2):
        checkpoint.save(folder / "c")

    def read():
        try:
            return tf.train.latest_checkpoint(folder) and 0
        except ValueError as error:
            if not str(error).startswith("Invalid checkpoint state"):
                raise
            raise tf.errors.DataLossError(None, None, str(error)) from None

    return folder / "checkpoint", read


def feature(**kinds):
    ((kind, values),) = kinds.items()
    return tf.train.Feature(**{kind: {"value": values}})


FEATURES = {
    "a": feature(int64_list=[1, -2, 3]),
    "b": feature(bytes_list=[b"xy", b""]),
    "c": feature(float_list=[1.5, 2.5]),
}


def example_files(folder, kind):
    (folder / "example").write_bytes(tf.train.Example(features={"feature": FEATURES}).SerializeToString())
    spec = {
        "a": tf.io.FixedLenFeature([3], tf.int64, [7, 8, 9]),
        "b": tf.io.VarLenFeature(tf.string),
        "c": tf.io.FixedLenSequenceFeature([], tf.float32, allow_missing=True),
    }

    def read():
        data = (folder / "example").read_bytes()
        if kind == "message":
            return tf.train.Example.FromString(data) and 0
        if kind == "batch":
            return plain(tf.io.parse_example([data, data], spec)) and 0
        return plain(tf.io.parse_single_example(data, spec)) and 0

    return folder / "example", read


def sequence_files(folder, _):
    lists = {"s": {"feature": [FEATURES["a"], FEATURES["b"]]}, "t": {"feature": [FEATURES["c"]]}}
    example = tf.train.SequenceExample(context={"feature": FEATURES}, feature_lists={"feature_list": lists})
    (folder / "example").write_bytes(example.SerializeToString())
    return folder / "example", lambda: tf.train.SequenceExample.FromString((folder / "example").read_bytes()) and 0


def tensor_files(folder, dtype):
    value = tf.constant([["a", "bc"]]) if dtype == "string" else tf.cast([[1, 0], [3, 4]], dtype)
    (folder / "tensor").write_bytes(tf.io.serialize_tensor(value).numpy())
    return folder / "tensor", lambda: tf.io.parse_tensor((folder / "tensor").read_bytes(), dtype).dtype


def image_files(folder, kind):
    image = np.random.default_rng(0).integers(0, 255, (8, 6, 3)).astype(np.uint8)
    pillow = pytest.importorskip("PIL.Image")
    pillow.fromarray(image).save(folder / "image", kind.upper())
    decode = getattr(tf.io, f"decode_{kind}")

    def read():
        data = (folder / "image").read_bytes()
        return decode(data).dtype, tf.io.decode_image(data).dtype, tf.io.is_jpeg(data) and 0

    return folder / "image", read


FORMATS = {  # name -> (what writes and reads, its argument, whether a checksum guards all of it)
    "index": (checkpoint_files, "index", True),
    "values": (checkpoint_files, "data-00000-of-00001", True),
    "state": (state_files, None, False),
    "records": (record_files, "", False),
    "records-gzip": (record_files, "GZIP", True),
    "records-zlib": (record_files, "ZLIB", True),
    "text-gzip": (text_files, "GZIP", True),
    "text-zlib": (text_files, "ZLIB", True),
    "cache": (cache_files, None, True),
    "saved": (saved_files, "plain", True),
    "saved-gzip": (saved_files, "packed", True),
    "saved-json": (saved_files, "json", False),
    "example": (example_files, "single", False),
    "examples": (example_files, "batch", False),
    "example-message": (example_files, "message", False),
    "sequence-example": (sequence_files, None, False),
    "tensor": (tensor_files, "float32", False),
    "tensor-string": (tensor_files, "string", False),
    "tensor-bool": (tensor_files, "bool", False),
    "png": (image_files, "png", False),
    "jpeg": (image_files, "jpeg", False),
    "gif": (image_files, "gif", False),
    "bmp": (image_files, "bmp", False),
    "webp": (image_files, "webp", False),
}


@pytest.mark.filterwarnings("ignore:Image size:Warning")
@pytest.mark.parametrize("name", FORMATS)
def test_mutations(tmp_path, name, caplog):
    make, argument, guarded = FORMATS[name]
    path, read = make(tmp_path, argument)
    sound, content = path.read_bytes(), read()
    draw = random.Random(name)
    for number in range(int(os.environ.get("GRADTAPE_MUTATIONS", "60"))):
        damaged = mutated(sound, draw)
        path.write_bytes(damaged)
        try:
            found = read()
        except NAMED:
            continue
        except Exception as error:
            pytest.fail(f"{name} {number}: {type(error).__name__}: {error}\n{damaged[:400]!r}")
        lost = guarded and damaged  # an empty file has no records, compressed or not
        assert found == content or not lost, f"{name} {number}: another content without an error"
    path.write_bytes(sound)
    assert read() == content


# -- hostile content -------------------------------------------------------------------------------------------------
def limited(code, *args, megabytes=1500):
    """Run code in a process with little memory and time."""
    limit = f"import resource, sys; resource.setrlimit(resource.RLIMIT_AS, ({megabytes} << 20,) * 2); "
    done = subprocess.run(
        [sys.executable, "-c", limit + "import gradtape as tf\n" + code, *map(str, args)],
        capture_output=True, text=True, timeout=120,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-1500:]
    return done.stdout.splitlines()


def framed_length(length, body=b"abc"):
    head = struct.pack("<Q", length)
    return head + struct.pack("<I", masked(crc32c(head))) + body


def png(width, height):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(99))) + chunk(b"IEND", b"")
    )


def gif(width, height, frames):
    frame = b"\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x44\x01\0"
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + bytes(6) + frame * frames + b";"


def bmp(width, height):
    header = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 154, 0, 0, 54) + header + bytes(100)


def tensor_message(dtype, shape, *values):
    return wire.encode([(1, dtype), (2, [(2, [(1, size)]) for size in shape]), *values])


def write_index(path, rows):
    header = (b"", wire.encode([(1, 1), (3, [(1, 1)])]))
    path.write_bytes(b"".join(table.written([header, *rows])))
    Path(f"{str(path).removesuffix('.index')}.data-00000-of-00001").write_bytes(b"1234")


def entry(shape, slices=(), size=4):
    parts = [(7, [(1, [(1, start), (2, length)]) for start, length in extents]) for extents in slices]
    return wire.encode([(1, 1), (2, [(2, [(1, n)]) for n in shape]), (5, size), (6, wire.Fixed32(0)), *parts])


def index_with_long_keys():
    """60,000 rows whose keys of a megabyte differ in the last byte."""
    key = random.Random(0).randbytes(1 << 20)
    rows = bytearray(wire.varint(0) + wire.varint(len(key)) + wire.varint(0) + key)
    for i in range(60_000):
        rows += wire.varint(len(key) - 1) + wire.varint(1) + wire.varint(0) + bytes([i % 256])
    return one_block(bytes(rows) + struct.pack("<II", 0, 1), handles=1)


def one_block(block, handles):
    """A table whose index names its only block several times."""
    sealed = table._sealed(block)
    handle = wire.varint(0) + wire.varint(len(block))
    rows = b"".join(
        wire.varint(0) + wire.varint(8) + wire.varint(len(handle)) + b"%08d" % i + handle for i in range(handles)
    )
    rows += struct.pack("<II", 0, 1)
    footer = wire.varint(0) * 2 + wire.varint(len(sealed)) + wire.varint(len(rows))
    return sealed + table._sealed(rows) + footer.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)


def small_block():
    row = wire.varint(0) + wire.varint(4) + wire.varint(0)
    return b"".join(row + b"%04d" % i for i in range(5000)) + struct.pack("<II", 0, 1)


def test_hostile_files_take_little_memory_and_end(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "one")) as writer:
        writer.write(b"hello")
    bomb = gzip.compress((tmp_path / "one").read_bytes()) + gzip.compress(bytes(1 << 24)) * 192
    (tmp_path / "bomb").write_bytes(bomb)
    (tmp_path / "bomb.zlib").write_bytes(zlib.compress(framed_length(2**32, bytes(1 << 27)), 9))
    for power in (31, 33, 40, 62, 63):
        (tmp_path / f"length{power}").write_bytes(framed_length(2**power))
        (tmp_path / f"length{power}.zlib").write_bytes(zlib.compress(framed_length(2**power)))
    one = (5, struct.pack("<f", 1.0))
    tensors = {
        "float32": [(2**40,), (2**62, 4), (2**31, 2**31), (2**30,), (1,) * 100, (0, 2**62, 2**62), (2**64 - 1,)],
        "string": [(2**40,), (2**29,)],
    }
    for dtype, shapes in tensors.items():
        for i, shape in enumerate(shapes):
            number = {"float32": 1, "string": 7}[dtype]
            (tmp_path / f"tensor{i}.{dtype}").write_bytes(tensor_message(number, shape, one))
    for name, picture in {
        "a.png": png(60000, 60000), "b.png": png(2**31 - 1, 2**31 - 1), "c.png": png(30000, 10000),
        "d.gif": gif(65535, 65535, 1), "e.gif": gif(5000, 5000, 3000), "f.bmp": bmp(2**30, 2**30),
        "g.bmp": bmp(-5, 5), "h.bmp": bmp(20000, 20000),
    }.items():  # fmt: skip
        (tmp_path / name).write_bytes(picture)
    (tmp_path / "keys.index").write_bytes(index_with_long_keys())
    (tmp_path / "again.index").write_bytes(one_block(small_block(), handles=20_000))
    for i, row in enumerate([
        entry((2**33,), [[(0, 1)]]), entry((2**62, 2**62), [[(0, 1), (0, 1)]]), entry((3 * 10**9,), [[(0, 1)]]),
        entry((1,) * 100), entry((1,) * 300, [[(0, 1)] * 300]), entry((2**40,), size=2**42), entry((0, 2**62), size=0),
        entry((4,), [[(2**63 - 1, 1)]]),
    ]):  # fmt: skip
        write_index(tmp_path / f"entry{i}.index", [(b"v", row)])

    output = limited(
        """
import glob, os, time
def read(path):
    name = os.path.basename(path)
    if name == "bomb":  # the first record, of a file that holds three gigabytes
        first = next(iter(tf.data.TFRecordDataset(path, "GZIP")))
        assert first.numpy() == b"hello"
        return "first"
    if name.startswith(("length", "bomb")):
        return [len(x.numpy()) for x in tf.data.TFRecordDataset(path, "ZLIB" if "zlib" in name else "")]
    if name.startswith("tensor"):
        return tf.io.parse_tensor(tf.io.read_file(path), path.rpartition(".")[2]).shape
    if name.endswith(".index"):
        prefix = path.removesuffix(".index")
        return [tf.train.load_variable(prefix, key).shape for key, _ in tf.train.list_variables(prefix)]
    return tf.io.decode_image(tf.io.read_file(path)).shape

for path in sorted(glob.glob(sys.argv[1] + "/*")):
    if ".data-" in path or path.endswith("/one"):
        continue
    began = time.time()
    try:
        said = str(read(path))
    except tf.errors.OpError as error:
        said = f"{type(error).__name__}: {str(error)[:300]}"
    print(os.path.basename(path), "|", said.replace("\\n", " "), "|", round(time.time() - began, 1))
""",
        tmp_path,
    )
    said = {name: what for name, what, _ in (line.split(" | ") for line in output)}
    assert len(said) == len([p for p in tmp_path.iterdir() if ".data-" not in p.name]) - 1
    fine = {name for name, what in said.items() if "Error" not in what}
    assert fine <= {"bomb", "tensor5.float32", "entry6.index"}, said  # empty arrays of large shapes may be
    kinds = {name: what.partition(":")[0] for name, what in said.items()}
    for name, kind in kinds.items():
        if name in fine:
            continue
        wanted = "DataLossError" if name.startswith(("length", "bomb", "keys", "again")) else "InvalidArgumentError"
        assert kind == wanted or name.startswith("entry"), said[name]
        assert "numpy" not in said[name].lower()
        assert "unpack" not in said[name]
    assert all(float(line.rpartition("|")[2]) < 20 for line in output), output


def test_links_to_devices_and_to_themselves(tmp_path):
    for name in ("zero.index", "checkpoint", "dataset_spec.json"):
        (tmp_path / name).symlink_to("/dev/zero")
    (tmp_path / "loop.index").symlink_to(tmp_path / "loop.index")
    with pytest.raises(tf.errors.DataLossError, match="too short"):
        tf.train.load_checkpoint(str(tmp_path / "zero"))
    with pytest.raises(tf.errors.UnknownError, match="Too many levels of symbolic links"):
        tf.train.load_checkpoint(str(tmp_path / "loop"))
    with pytest.raises(ValueError, match="Invalid checkpoint state"):
        tf.train.latest_checkpoint(tmp_path)
    with pytest.raises(tf.errors.DataLossError, match="does not describe a dataset"):
        tf.data.Dataset.load(tmp_path)
    with pytest.raises(tf.errors.DataLossError, match="corrupted record at 0"):
        list(tf.data.TFRecordDataset("/dev/zero"))


# -- what is lost must be said ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("keep", [0.5, 0.6, 0.999])
def test_a_saved_dataset_that_is_cut_is_not_taken_for_a_shorter_one(tmp_path, keep):
    tf.data.Dataset.range(100).save(tmp_path / "saved")
    path = tmp_path / "saved" / "elements.tfrecord"
    data = path.read_bytes()
    size = len(data) // 100
    for cut in (int(len(data) * keep), int(100 * keep) * size):  # within a record, and between two
        path.write_bytes(data[:cut])
        with pytest.raises(tf.errors.DataLossError, match="truncated"):
            list(tf.data.Dataset.load(tmp_path / "saved"))


def test_a_cache_that_is_cut_is_not_taken_for_a_shorter_one(tmp_path):
    cached = tf.data.Dataset.range(100).cache(str(tmp_path / "cache"))
    list(cached)
    data = (tmp_path / "cache.data").read_bytes()
    record = (len(data) - 16 - 2) // 100
    (tmp_path / "cache.data").write_bytes(data[: 60 * record])
    with pytest.raises(tf.errors.DataLossError, match="has 60 elements, but the end is missing"):
        list(cached)


def test_a_compressed_file_without_its_end(tmp_path):
    path = tmp_path / "records"
    path.write_bytes(gzip.compress(b"line\n" * 1000)[:-8])
    found = []
    with pytest.raises(tf.errors.DataLossError, match="truncated: the end of the compressed data is missing"):
        found.extend(tf.data.TextLineDataset(str(path), "GZIP"))
    assert len(found) <= 1000


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", "3", '{"count": 3}', '{"count": "3", "spec": null}',
        '{"count": 1, "spec": {"tensor": 3}}',
        '{"count": 1, "spec": {"tensor": [[], "nope"]}}', '{"count": 1, "spec": {"other": []}}', "[" * 100_000,
        '{"count": 1, "spec": {"tensor": [[-2], "int64"]}}',
        '{"count": 1, "spec": {"tensor": [[], "int64"]}, "elements": "../../etc/passwd"}',
        '{"count": 1, "spec": {"tensor": [[], "int64"]}, "elements": 3}',
    ],
)  # fmt: skip
def test_descriptions_that_describe_nothing(tmp_path, text):
    tf.data.Dataset.range(3).save(tmp_path / "saved")
    (tmp_path / "saved" / "dataset_spec.json").write_text(text)
    with pytest.raises(tf.errors.DataLossError, match="is damaged: it does not describe a dataset"):
        tf.data.Dataset.load(tmp_path / "saved")


def test_a_description_that_does_not_fit_its_elements(tmp_path):
    tf.data.Dataset.range(3).save(tmp_path / "saved")
    path = tmp_path / "saved" / "dataset_spec.json"
    found = json.loads(path.read_text())
    path.write_text(json.dumps({**found, "spec": {"tensor": [[], "string"]}}))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Data type mismatch at component 0: expected string but"):
        list(tf.data.Dataset.load(tmp_path / "saved"))
    path.write_text(json.dumps({**found, "spec": {"tuple": [found["spec"]] * 2}}))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Component count mismatch: expected 2 but got 1"):
        list(tf.data.Dataset.load(tmp_path / "saved"))


# -- tensors whose values are listed one by one ----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("dtype", "number", "field", "data", "want"),
    [
        ("float16", 19, 13, wire.varint(0x3C00) + wire.varint(0x4000), [1, 2, 2]),
        ("bfloat16", 14, 13, wire.varint(0x3F80) + wire.varint(0x4000), [1, 2, 2]),
        ("float32", 1, 5, struct.pack("<ff", 1, 2), [1, 2, 2]),
        ("float64", 2, 6, struct.pack("<dd", 1, 2), [1, 2, 2]),
        ("complex64", 8, 9, struct.pack("<ffff", 1, 2, 3, 4), [1 + 2j, 3 + 4j, 3 + 4j]),
        ("complex128", 18, 12, struct.pack("<dddd", 1, 2, 3, 4), [1 + 2j, 3 + 4j, 3 + 4j]),
        ("int32", 3, 7, wire.varint(1) + wire.varint(-2), [1, -2, -2]),
        ("int8", 6, 7, wire.varint(300), [44, 44, 44]),
        ("int64", 9, 10, wire.varint(1) + wire.varint(-2), [1, -2, -2]),
        ("int64", 9, 7, wire.varint(5), [0, 0, 0]),  # the field of another dtype
        ("uint32", 22, 16, wire.varint(2**32 - 1), [2**32 - 1] * 3),
        ("uint64", 23, 17, wire.varint(2**64 - 1), [2**64 - 1] * 3),
        ("bool", 10, 11, b"\x01\x00", [True, False, False]),
        ("string", 7, 8, b"word", [b"word"] * 3),
        ("string", 7, 5, b"", [b""] * 3),
    ],
)
def test_listed_values(dtype, number, field, data, want):
    """TensorFlow 2.21 was asked for each of these."""
    found = tf.io.parse_tensor(tensor_message(number, (3,), (field, data)), dtype)
    assert found.dtype.name == dtype
    assert found.numpy().tolist() == want


@pytest.mark.parametrize("size", [7, 8, 16])
def test_content_has_to_fit_the_shape(size):
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=f"Cannot parse tensor from proto: {size} bytes do not hold float32"
    ):
        tf.io.parse_tensor(tensor_message(1, (3,), (4, bytes(size))), tf.float32)


def test_messages_leave_out_what_they_do_not_know_and_examples_do_not():
    """As protocol buffers and as TensorFlow's parser of examples have it."""
    lists = wire.encode([(3, [(1, b"\x05")])])
    known = wire.encode([(1, [(1, [(1, b"a"), (2, lists)])])])
    spec = {"a": tf.io.FixedLenFeature([1], tf.int64, [7])}
    cases = {
        "wrong kind of value": [(1, 5)],
        "another field of an entry": [(1, [(1, b"a"), (9, b""), (2, lists)])],
        "a number for a key": [(1, [(1, 3), (2, lists)])],
        "two keys": [(1, [(1, b"b"), (2, lists), (1, b"c")])],
        "another field of the features": [(7, b"")],
    }
    for name, fields in cases.items():
        data = known + wire.encode([(1, fields)])
        assert tf.train.Example.FromString(data).features.feature["a"].int64_list.value == [5], name
        with pytest.raises(tf.errors.InvalidArgumentError, match="Could not parse example input"):
            tf.io.parse_single_example(data, spec)
    assert tf.io.parse_single_example(known + wire.encode([(9, b"")]), spec)["a"].numpy().tolist() == [5]
    with pytest.raises(TypeError, match="read from bytes, got int"):
        tf.train.Example.FromString(2**40)
