"""The files of checkpoints: against files that TensorFlow wrote, and against every kind of damage."""

from __future__ import annotations

import gzip
import os
import runpy
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from gradtape import errors
from gradtape._src.formats import crc32c as checksum, leveldb as table, protobuf as wire, tensor_bundle as bundle

RECORDED = Path(__file__).parents[1] / "recorded" / "checkpoints"
CONTENTS = runpy.run_path(str(RECORDED / "contents.py"))
DATA = ".data-00000-of-00001"


@pytest.fixture
def recorded(tmp_path):
    """The folder of files that TensorFlow wrote, with the large one unpacked."""
    for path in RECORDED.iterdir():
        if ".data-" in path.name or path.suffix == ".index":
            shutil.copy(path, tmp_path)
    (tmp_path / "many.index").write_bytes(gzip.decompress((RECORDED / "many.index.gz").read_bytes()))
    return tmp_path


@pytest.fixture
def saved(tmp_path):
    prefix = str(tmp_path / "saved")
    bundle.write(prefix, {"a": np.arange(10, dtype=np.float32), "b/c": np.array([b"x", b"yy"], object)})
    return prefix


def same(got, want):
    assert isinstance(got, np.ndarray)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    assert got.tobytes() == want.tobytes() if want.dtype != object else got.tolist() == want.tolist()


def change(path, at, to=None):
    """Flip a bit of a file, or cut it."""
    data = bytearray(Path(path).read_bytes())
    if to is None:
        data[at] ^= 1
    else:
        data[at:] = to
    Path(path).write_bytes(data)


# -- files of TensorFlow ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["plain", "strings", "quantized", "many", "sliced"])
def test_reads_what_tensorflow_wrote(recorded, name):
    reader = bundle.Reader(str(recorded / name))
    contents = CONTENTS[name.upper()]
    assert reader.keys() == list(reader) == sorted(contents)
    assert len(reader) == len(contents)
    for key, want in contents.items():
        assert key in reader
        assert (reader.dtype(key), reader.shape(key)) == (want.dtype, want.shape)
        same(reader.get(key), want)


def test_the_large_index_has_several_blocks(recorded):
    assert len(table.blocks((recorded / "many.index").read_bytes())) == 2


@pytest.mark.parametrize("name", ["plain", "strings", "many"])
def test_writes_the_very_bytes_of_tensorflow(recorded, tmp_path, name):
    bundle.write(str(tmp_path / "new" / name), CONTENTS[name.upper()])
    for ending in (DATA, ".index"):
        assert (tmp_path / "new" / (name + ending)).read_bytes() == (recorded / (name + ending)).read_bytes()


def test_a_value_needs_only_its_own_shard(recorded):
    os.remove(recorded / "sliced.data-00001-of-00002")
    reader = bundle.Reader(str(recorded / "sliced"))
    assert reader.get("x") == 7
    with pytest.raises(errors.NotFoundError, match=r"sliced\.data-00001-of-00002; No such file or directory"):
        reader.get("w")


def test_missing_slices(recorded):
    reader = bundle.Reader(str(recorded / "gap"))
    assert reader.shape("w") == (4, 3)
    with pytest.raises(
        errors.InvalidArgumentError,
        match=r"Does not have sufficient slices for partitioned tensor w to restore in slice_spec: -:-. 6 of its 12",
    ):
        reader.get("w")


@pytest.mark.parametrize(
    ("number", "code"), [(0, "80"), (-1, "7f"), (63, "bf"), (64, "c040"), (300, "c12c"), (70_000, "e11170")]
)
def test_numbers_in_keys_of_slices(number, code):
    assert bundle._ordered(number).hex() == code


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_numbers_in_keys_sort_as_they_are(a, b):
    assert (bundle._ordered(a) < bundle._ordered(b)) == (a < b)


# -- writing ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("given_", "read"),
    [
        (np.arange(3, dtype=">i4"), np.arange(3, dtype=np.int32)),
        (np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.arange(6.0).reshape(2, 3)),
        (np.arange(10)[::-3], np.array([9, 6, 3, 0])),
        (np.float32(1.5), np.array(1.5, np.float32)),
        (np.array(["ab", "ü"]), np.array([b"ab", "ü".encode()], object)),
        (np.array([b"ab", b"c"]), np.array([b"ab", b"c"], object)),
        (np.array(["ab", b"c"], object), np.array([b"ab", b"c"], object)),
    ],
    ids=["other-order", "fortran", "strides", "scalar", "text", "bytes", "both"],
)
def test_arrays_of_all_kinds(tmp_path, given_, read):
    bundle.write(str(tmp_path / "x"), {"v": given_})
    same(bundle.Reader(str(tmp_path / "x")).get("v"), read)


def test_no_tensors(tmp_path):
    bundle.write(str(tmp_path / "x"), {})
    assert bundle.Reader(str(tmp_path / "x")).keys() == []


@given(st.dictionaries(st.text(st.characters(codec="utf-8"), min_size=1), st.integers(-128, 127), max_size=80))
@settings(max_examples=30, deadline=None)
def test_any_keys(tmp_path_factory, values):
    prefix = str(tmp_path_factory.mktemp("keys") / "x")
    bundle.write(prefix, {key: np.int8(value) for key, value in values.items()})
    reader = bundle.Reader(prefix)
    assert {key: int(reader.get(key)) for key in reader} == values
    assert reader.keys() == sorted(values)


def test_numbers_are_stored_with_the_lowest_byte_first(tmp_path, monkeypatch):
    prefix = str(tmp_path / "x")
    values = {"i": np.array([1, 2], np.int32), "z": np.array([1 + 2j], np.complex64)}
    monkeypatch.setattr(sys, "byteorder", "big" if sys.byteorder == "little" else "little")
    bundle.write(prefix, values)
    assert Path(prefix + DATA).read_bytes() == values["i"].byteswap().tobytes() + values["z"].byteswap().tobytes()
    for key, want in values.items():
        same(bundle.Reader(prefix).get(key), want)


def files(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}


def test_leaves_only_its_two_files(tmp_path, saved):
    bundle.write(saved, {"a": np.zeros(3)})
    assert set(files(tmp_path)) == {"saved" + DATA, "saved.index"}
    assert bundle.Reader(saved).keys() == ["a"]


@pytest.mark.parametrize(
    ("tensors", "error", "match"),
    [
        ({"a": np.ones(3), "b": np.array(["2020-01-01"], "M8[D]")}, TypeError, "The tensor b cannot be saved: Cannot"),
        (
            {"a": np.array([b"x", 3], object)},
            TypeError,
            "The tensor a cannot be saved: strings must be bytes, .* contains 3",
        ),
        ({"": np.ones(3)}, ValueError, "needs a name"),
    ],
    ids=["dtype", "objects", "name"],
)
def test_what_cannot_be_saved_changes_nothing(tmp_path, saved, tensors, error, match):
    before = files(tmp_path)
    with pytest.raises(error, match=match):
        bundle.write(saved, tensors)
    assert files(tmp_path) == before


@pytest.fixture
def disk_goes(monkeypatch, failing):
    """The disk is gone when a file is renamed for the given time."""
    replace, calls = os.replace, []

    def fails_once(*paths):
        calls.append(paths)
        if len(calls) == failing + 1:
            raise OSError("the disk is gone")
        replace(*paths)

    monkeypatch.setattr(os, "replace", fails_once)


@pytest.mark.parametrize("failing", range(2))
def test_a_failure_before_the_index_is_replaced_changes_nothing(tmp_path, saved, disk_goes):
    before = files(tmp_path)
    with pytest.raises(OSError, match="the disk is gone"):
        bundle.write(saved, {"a": np.zeros(3)})
    assert files(tmp_path) == before


@pytest.mark.parametrize("failing", [2, 3])
def test_a_failure_after_the_index_is_replaced_leaves_the_new_values(tmp_path, saved, disk_goes):
    bundle.write(saved, {"a": np.zeros(3)})
    reader = bundle.Reader(saved)
    assert reader.keys() == ["a"]
    same(reader.get("a"), np.zeros(3))
    bundle.write(saved, {"a": np.ones(2)})  # the next one finds the usual names again
    assert set(files(tmp_path)) == {"saved" + DATA, "saved.index"}
    same(bundle.Reader(saved).get("a"), np.ones(2))


@pytest.mark.parametrize("failing", range(2))
def test_a_first_checkpoint_appears_whole_or_not_at_all(tmp_path, disk_goes):
    with pytest.raises(OSError, match="the disk is gone"):
        bundle.write(str(tmp_path / "x"), {"a": np.zeros(3)})
    assert not files(tmp_path)


def test_the_index_comes_last_and_everything_is_on_disk_before(tmp_path, saved, monkeypatch):
    events = []
    replace, flush = os.replace, os.fsync
    monkeypatch.setattr(os, "replace", lambda a, b: (events.append(os.path.basename(b)), replace(a, b)))
    monkeypatch.setattr(os, "fsync", lambda handle: (events.append("flush"), flush(handle)))
    bundle.write(str(tmp_path / "x"), {"a": np.zeros(3)})
    assert events == ["flush", "flush", "x" + DATA, "flush", "x.index", "flush"]  # the folder is flushed, too


def test_a_folder_in_the_way(tmp_path):
    (tmp_path / "x.index").mkdir()
    with pytest.raises(OSError, match=r"x\.index"):
        bundle.write(str(tmp_path / "x"), {"a": np.zeros(3)})
    assert not files(tmp_path)


# -- what is not there -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "help_"),
    [
        ("nowhere/x", "There is no checkpoint in the directory"),
        ("other", "The checkpoints in that directory are 'saved'"),
        ("saved.index", r"Give the path without '\.index'"),
        ("", "This is a directory: tf.train.latest_checkpoint"),
    ],
)
def test_no_such_checkpoint(saved, tmp_path, name, help_):
    prefix = str(tmp_path / name)
    with pytest.raises(errors.NotFoundError) as caught:
        bundle.Reader(prefix)
    sentence = f"Unsuccessful TensorSliceReader constructor: Failed to find any matching files for {prefix}. "
    assert str(caught.value).startswith(sentence)
    caught.match(help_)


def test_no_such_key(saved):
    reader = bundle.Reader(saved)
    assert "b/d" not in reader
    for ask in (reader.get, reader.dtype, reader.shape):
        with pytest.raises(errors.NotFoundError, match=r"^Key b/d not found in checkpoint. Did you mean 'b/c'\?"):
            ask("b/d")


def test_no_values(saved):
    os.remove(saved + DATA)
    with pytest.raises(errors.NotFoundError, match=rf"{DATA}; No such file or directory. .* copy both together"):
        bundle.Reader(saved).get("a")


# -- damage ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("at", "to", "sentence"),
    [
        (0, b"", "^file is too short to be an sstable. .* use an earlier checkpoint"),
        (20, b"", "^file is too short to be an sstable"),
        (-10, b"", r"^not an sstable \(bad magic number\)"),
        (0, b"some text\n" * 30, r"^not an sstable \(bad magic number\)"),
        (-46, None, "^block checksum mismatch"),
        (10, None, r"\(failed to seek to header entry\): block checksum mismatch. .* is damaged"),
    ],
    ids=["empty", "short", "cut", "text", "footer", "block"],
)
def test_a_damaged_index(saved, at, to, sentence):
    change(f"{saved}.index", at, to)
    with pytest.raises(errors.DataLossError, match=sentence):
        bundle.Reader(saved)


def test_every_changed_bit_of_the_index_is_noticed_or_harmless(saved):
    size = os.path.getsize(f"{saved}.index")
    want = bundle.Reader(saved).get("a")
    noticed = 0
    for at in range(size):
        change(f"{saved}.index", at)
        try:
            same(bundle.Reader(saved).get("a"), want)
        except errors.DataLossError:
            noticed += 1
        change(f"{saved}.index", at)
    # What nobody reads: the block about the whole, its handle, and the room behind the handles.
    assert noticed > size - 13 - 2 - 36 - 1


def test_damaged_values(saved):
    change(saved + DATA, 3)
    reader = bundle.Reader(saved)
    with pytest.raises(
        errors.DataLossError,
        match=r"shard 0 \(40 bytes\): Checksum does not match: stored 1432745814 vs. calculated on the restored bytes "
        "2852161268",
    ):
        reader.get("a")
    assert reader.get("b/c").tolist() == [b"x", b"yy"]  # which is not damaged


@pytest.mark.parametrize(
    ("at", "sentence"),
    [
        (40, "The length checksum does not match: expected 2054417452 but actual is 860852491"),
        (43, "The length checksum does not match: expected 2046028844 but actual is 2054417452"),
        (47, "Checksum does not match: stored 4247803295 vs. calculated on the restored bytes 4002598376"),
    ],
)
def test_damaged_strings(saved, at, sentence):
    change(saved + DATA, at)
    with pytest.raises(errors.DataLossError, match=sentence):
        bundle.Reader(saved).get("b/c")


def test_values_cut_short(saved):
    change(saved + DATA, 48, b"")
    reader = bundle.Reader(saved)
    assert reader.get("a").size == 10
    with pytest.raises(errors.OutOfRangeError, match=r"^Read less bytes than requested. .* has 48 bytes"):
        reader.get("b/c")


HEADER = (b"", wire.encode([(1, 1), (3, [(1, 1)])]))


def entry(dtype=1, shape=(2,), size=8, values=bytes(8), **more):
    crc = wire.Fixed32(checksum.masked(checksum.crc32c(values)))
    return b"a", wire.encode(
        [(1, dtype), (2, [(2, [(1, n)]) for n in shape]), (5, size), (6, crc), *more.get("fields", ())]
    )


@pytest.mark.parametrize(
    ("rows", "error", "sentence"),
    [
        ([entry()], errors.DataLossError, r"format changes \(there is no header entry\)"),
        ([(b"", b"\xff"), entry()], errors.DataLossError, r"\(unable to parse header\)"),
        (
            [(b"", wire.encode([(3, [(2, 2)])])), entry()],
            errors.InvalidArgumentError,
            "^Checkpoint min consumer version 2",
        ),
        ([HEADER, (b"a", b"\xff")], errors.DataLossError, "^Entry for key a not parseable"),
        ([HEADER, (b"a", wire.encode([(2, 3)]))], errors.DataLossError, "not parseable. Field 2 should be a message"),
        (
            [HEADER, (b"a", wire.encode([(5, -1)]))],
            errors.DataLossError,
            "not parseable. Field 5 should be a nonnegative number",
        ),
        ([HEADER, entry(size=4)], errors.DataLossError, "^Invalid size .* key a; stored size 4; expected size 8"),
        ([HEADER, entry(dtype=7, shape=(9,))], errors.DataLossError, "stored size 8; expected size is at least 13"),
        ([HEADER, entry(dtype=77)], errors.UnimplementedError, "dtype number 77, which gradtape does not support"),
        ([HEADER, entry(dtype=20)], errors.UnimplementedError, "dtype number 20, which gradtape does not support"),
        ([HEADER, entry(fields=[(7, [(1, [])])])], errors.DataLossError, "slice of the tensor a is missing"),
    ],
)
def test_sound_tables_with_nonsense(tmp_path, rows, error, sentence):
    prefix = str(tmp_path / "x")
    Path(f"{prefix}.index").write_bytes(b"".join(table.written(rows)))
    Path(prefix + DATA).write_bytes(bytes(16))
    with pytest.raises(error, match=sentence):
        bundle.Reader(prefix).get("a")


# -- the table -------------------------------------------------------------------------------------------------------
def test_blocks_and_what_separates_them():
    rows = [(b"%05d" % i, b"v" * 100) for i in range(10_000)]
    data = b"".join(table.written(rows))
    handles = table.blocks(data)
    assert len(handles) == 4  # 1.05 MB
    assert [row for handle in handles for row in table.rows(data, handle)] == rows


@pytest.mark.parametrize(
    ("low", "high", "key"),
    [(b"abc", b"axy", b"ac"), (b"abc", b"abd", b"abc"), (b"a", b"ab", b"a"), (b"ab", b"b", b"ab")],
)
def test_keys_between(low, high, key):
    assert table._between(low, high) == key
    assert low <= key < high


def compressed(block: bytes) -> bytes:
    """A table of one block that says it is compressed."""
    sealed = block + b"\1"
    sealed += checksum.masked(checksum.crc32c(sealed)).to_bytes(4, "little")
    handles = b"".join(table.written([(b"z", wire.varint(0) + wire.varint(len(block)))]))
    # Of the second table, the block of rows serves as the index of the first.
    size = wire.read_varint(table.blocks(handles)[0], 1)[0]
    footer = wire.varint(0) * 2 + wire.varint(len(sealed)) + wire.varint(size)
    return sealed + handles[: size + 5] + footer.ljust(40, b"\0") + handles[-8:]


def test_compressed_blocks():
    """A literal, copies with offsets of one, two and four bytes, one that runs into itself, and a long literal."""
    letters = b"abcdefghij"
    value = letters + b"ij" * 5 + b"abcd" + b"cdefg" + b"." * 70
    row = bytes([0, 1, len(value)]) + b"k" + value
    end = (0).to_bytes(4, "little") + (1).to_bytes(4, "little")
    stream = (
        wire.varint(len(row) + len(end))
        + bytes([13 << 2])
        + row[:14]  # a literal of 14: three numbers, the key, ten letters
        + bytes([1 | (10 - 4) << 2, 2])  # ten bytes from two back
        + bytes([2 | (4 - 1) << 2, 20, 0])  # four bytes from twenty back
        + bytes([3 | (5 - 1) << 2, 22, 0, 0, 0])  # five bytes from 22 back
        + bytes([60 << 2, 69])
        + b"." * 70
        + bytes([7 << 2])
        + end
    )
    data = compressed(stream)
    assert table.rows(data, table.blocks(data)[0]) == [(b"k", value)]
    for broken in (stream[:-1], stream + b"\0", wire.varint(7) + stream[1:], wire.varint(5) + bytes([1, 9])):
        data = compressed(broken)
        with pytest.raises(ValueError, match="corrupted compressed block contents"):
            table.rows(data, table.blocks(data)[0])


# -- messages --------------------------------------------------------------------------------------------------------
numbers = st.integers(1, 2**29 - 1)
scalars = st.integers(0, 2**64 - 1) | st.binary() | st.integers(0, 2**32 - 1).map(wire.Fixed32)
values = scalars | st.integers(0, 2**64 - 1).map(wire.Fixed64)


@given(st.lists(st.tuples(numbers, values)))
def test_messages_survive(message):
    got = wire.decode(wire.encode(message))
    assert got == message
    assert [type(value) for _, value in got] == [type(value) for _, value in message]


def test_messages_within_messages():
    inner = [(1, 5), (2, b"x")]
    assert wire.decode(wire.encode([(4, inner), (5, []), (6, None)])) == [(4, wire.encode(inner)), (5, b"")]


@given(st.binary(max_size=40))
def test_foreign_bytes_are_a_message_or_an_error(data):
    try:
        message = wire.decode(data)
    except ValueError:
        return
    assert wire.decode(wire.encode(message)) == message


@pytest.mark.parametrize(
    ("data", "match"),
    [
        ("08", "end within the number at byte 1"),
        ("0a05aabb", "Field 1 should have 5 bytes, but only 2 are present"),
        ("0d010203", "Field 1 should have 4 bytes, but only 3 are present"),
        ("0e", "Field 1 has the unknown wire type 6"),
        ("0b 0801", "The group 1 does not end"),
        ("0b 14", "The group 2 ends, but has not begun"),
        ("0c", "The group 1 ends, but has not begun"),
        ("0b" * 101, "nested more than 100 times"),
        ("00", "no field with the number 0"),
        ("08" + "ff" * 10 + "01", "more than 64 bits"),
        ("08" + "ff" * 9 + "02", "more than 64 bits"),
    ],
)
def test_broken_messages(data, match):
    with pytest.raises(ValueError, match=match):
        wire.decode(bytes.fromhex(data))


def test_groups_are_passed_over():
    assert wire.decode(bytes.fromhex("0801 1b 0805 13 14 1c 0807")) == [(1, 1), (1, 7)]


@given(st.integers(-(2**63), 2**64 - 1))
def test_varints(number):
    data = wire.varint(number)
    assert wire.read_varint(data) == (number % 2**64, len(data))


def test_numbers_beyond_64_bits_are_refused():
    with pytest.raises(ValueError, match="at most 64 bits"):
        wire.varint(2**64)


# -- checksums -------------------------------------------------------------------------------------------------------
TABLE = []
for _byte in range(256):
    for _ in range(8):
        _byte = _byte >> 1 ^ (0x82F63B78 if _byte & 1 else 0)
    TABLE.append(_byte)


def byte_by_byte(data, register=0xFFFFFFFF):
    for byte in bytes(data):
        register = TABLE[(register ^ byte) & 255] ^ register >> 8
    return register ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "want"),
    [  # the first is the usual check, the others are those of RFC 3720
        (b"123456789", 0xE3069283),
        (b"", 0),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_known_checksums(data, want):
    assert checksum.crc32c(data) == want == byte_by_byte(data)


@given(st.binary(max_size=200), st.integers(0, 2**32 - 1))
def test_short_checksums(data, before):
    assert checksum.crc32c(data, before) == byte_by_byte(data, before ^ 0xFFFFFFFF)


@given(st.integers(0, 150_000), st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_long_checksums(size, seed):
    data = np.random.default_rng(seed).integers(0, 256, size, np.uint8)
    assert checksum.crc32c(data) == byte_by_byte(data)


@pytest.mark.parametrize("size", [15, 16, 17, 6776, 6777, 6778, 6783, 6784, 6785, 54_215, 54_216, 54_217, 2**20 + 3])
def test_checksums_where_the_way_changes(size):
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    before = data.copy()
    assert checksum.crc32c(data) == byte_by_byte(data)
    np.testing.assert_array_equal(data, before)


@given(st.binary(max_size=100), st.integers(0, 100))
def test_checksums_go_on(data, at):
    assert checksum.crc32c(data[at:], checksum.crc32c(data[:at])) == checksum.crc32c(data)


@given(st.integers(0, 2**32 - 1))
def test_masks(value):
    assert checksum.unmasked(checksum.masked(value)) == value


def test_the_mask_is_leveldbs():
    assert checksum.masked(0) == 0xA282EAD8
    assert checksum.masked(0x80) == 0xA382EAD8  # turned by 15 bits: bit 7 becomes bit 24


def test_checksums_of_arrays_of_numbers():
    numbers_ = np.arange(5000, dtype=np.float64)
    assert checksum.crc32c(numbers_) == checksum.crc32c(numbers_.tobytes())
