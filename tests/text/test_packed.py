"""Texts packed in one buffer: parts, joins and numbers are those of the texts one by one."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.tensor import LazyTensor
from gradtape._src.text import digits, parts
from gradtape._src.text.index import TextIndex
from gradtape._src.text.packed import Packed, interleaved

LETTERS = ["a", "b", " ", "\t", "é", "☃", "𝄞", "\n"]


def random_rows(rng, longest=9, malformed=False):
    rows = ["".join(rng.choice(LETTERS, rng.integers(0, longest))).encode() for _ in range(rng.integers(1, 12))]
    return [row[rng.integers(0, 2) :] for row in rows] if malformed else rows


def random_packed(seed):
    """Random texts, with and without gaps between them in the buffer."""
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, [4, 9, 40, 300][seed % 4], seed % 3 == 0)
    packed = Packed(rows)
    if seed % 2:
        where = rng.integers(0, len(rows), 2 * len(rows))
        rows, packed = [rows[i] for i in where], packed.chosen(where)
    return rng, rows, packed


@pytest.mark.parametrize("seed", range(40))
def test_joining(seed):
    rng, rows, packed = random_packed(seed)
    assert Packed.at(packed.bytes, packed.starts, packed.lengths).rows == rows
    for between in (b"", b"-", b"::"):
        whole = packed.joined(between)
        assert whole.bytes.tobytes().startswith(between.join(rows))
        assert Packed.at(whole.bytes, whole.starts, whole.lengths, whole.is_apart).rows == rows
        lengths = rng.multinomial(len(rows), [0.25] * 4)
        ends = np.cumsum(lengths)
        assert parts.joined_rows(packed, lengths, between).rows == [
            between.join(rows[end - n : end]) for n, end in zip(lengths, ends, strict=True)
        ]
    assert interleaved([packed, packed]).rows == [row for row in rows for _ in range(2)]


def test_texts_with_bytes_0_and_long_ones():
    rows = [b"a\0b", b"", b"\0", b"x" * 1000, b"y"] * 20
    packed = Packed(rows).chosen(np.arange(len(rows)))
    assert packed.rows == rows
    assert packed.joined(b"--").bytes.tobytes().startswith(b"--".join(rows))


@pytest.mark.parametrize("seed", range(40))
def test_parts(seed):
    rng, rows, packed = random_packed(seed)
    found = parts.stripped(packed)
    assert found is None or found.rows == [row.strip() for row in rows]
    for separator in (b"", b"a"):
        split, counts = parts.split(packed, separator)
        expected = [row.split(separator or None) for row in rows]
        assert split.rows == [part for row in expected for part in row]
        assert counts.tolist() == [len(row) for row in expected]
    assert parts.character_counts(packed).tolist() == [sum(b & 0xC0 != 0x80 for b in row) for row in rows]
    count = rng.integers(0, 4, len(rows))
    assert parts.substrings(packed, np.zeros(1, int), count).rows == [r[:n] for r, n in zip(rows, count, strict=True)]


@pytest.mark.parametrize("seed", range(20))
def test_characters(seed):
    rng = np.random.default_rng(seed)
    rows = [row + b"abc" for row in random_rows(rng)]
    pos, count = rng.integers(-3, 4, len(rows)), rng.integers(0, 4, len(rows))
    texts = [row.decode() for row in rows]
    firsts = [p if p >= 0 else p + len(t) for p, t in zip(pos, texts, strict=True)]
    expected = [t[a : a + n].encode() for t, a, n in zip(texts, firsts, count, strict=True)]
    assert parts.characters(Packed(rows), pos, count).rows == expected
    with pytest.raises(parts.PositionError):
        parts.characters(Packed(rows), np.array([99]), np.array([1]))


@pytest.mark.parametrize("seed", range(30))
def test_numbers(seed):
    rng = np.random.default_rng(seed)
    floats = (rng.normal(size=60) * 10.0 ** rng.integers(-8, 8)).astype(np.float32)
    if seed % 3 == 0:  # ties
        floats = np.round(floats * 8) / np.float32(16)
    for precision in (1, 2, 6, 12):
        found = digits.write_decimals(floats, precision)
        assert found is None or found.rows == [b"%.*f" % (precision, float(x)) for x in floats]
    integers = rng.integers(-(10 ** int(rng.integers(1, 15))), 10 ** int(rng.integers(1, 15)), 60)
    assert digits.write_integers(integers).rows == [b"%d" % n for n in integers]
    small = rng.integers(-99_999_999, 10 ** int(rng.integers(1, 9)), 60)
    assert digits.read_integers(Packed([b"%d" % n for n in small])).tolist() == small.tolist()
    texts = [b"%.*f" % (int(rng.integers(0, 8)), x) for x in rng.normal(size=60) * 10.0 ** rng.integers(-2, 6)]
    assert digits.read_decimals(Packed(texts)).tolist() == [float(text) for text in texts]


@pytest.mark.parametrize(
    "text", [b"1.2.3", b"", b"-", b"+.", b"1e5", b"a", b"1 ", b"--1", b".", b"1-2", b"123456789.1"]
)
def test_what_is_no_plain_number(text):
    assert digits.read_decimals(Packed([b"1", text])) is None
    assert digits.read_integers(Packed([b"1", text])) is None


@pytest.mark.parametrize("seed", range(20))
def test_index(seed):
    rng, rows, _ = random_packed(seed)
    known = list(dict.fromkeys([*rows, *(bytes(rng.integers(0, 9, n).astype(np.uint8)) for n in (0, 7, 8, 8, 9, 20))]))
    index = TextIndex(known)
    texts = [known[i] for i in rng.integers(0, len(known), 50)] + [b"other", b"", b"a\0", b"a" * 8, b"\1" * 8]
    assert index.find(Packed(texts)).tolist() == [known.index(text) if text in known else -1 for text in texts]


def test_tables_find_texts_after_they_change():
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    keys = tf.constant([f"word {i}" for i in range(200)])
    assert table.lookup(keys).numpy().tolist() == [-1] * 200
    table.insert(keys, tf.range(200, dtype=tf.int64))
    assert table.lookup(keys).numpy().tolist() == list(range(200))
    table.remove(keys[:1])
    table.insert(keys[1:2], [7])
    assert table.lookup(keys).numpy().tolist()[:3] == [-1, 7, 2]


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16-BE", "UTF-32-BE"])
def test_transcoding_many_texts(encoding):
    rng = np.random.default_rng(0)
    rows = [row for _ in range(20) for row in random_rows(rng)]
    found = tf.strings.unicode_transcode(rows, "UTF-8", encoding).numpy().tolist()
    assert found == [row.decode().encode(encoding) for row in rows]
    halves = [b"\xc3", b"\xa9", *rows]  # valid together, and malformed one by one
    assert tf.strings.unicode_transcode(halves, "UTF-8", "UTF-8").numpy().tolist()[:2] == ["\ufffd".encode()] * 2


CALLS = {
    "lower": tf.strings.lower,
    "upper utf8": lambda x: tf.strings.upper(x, "utf-8"),
    "strip": tf.strings.strip,
    "length": tf.strings.length,
    "substr": lambda x: tf.strings.substr(x, 0, 2),
    "join": lambda x: tf.strings.join([x, "!", x], "-"),
    "hash": lambda x: tf.strings.to_hash_bucket_fast(x, 100),
}


@pytest.mark.parametrize("name", CALLS)
def test_many_texts_as_few(name):
    rng = np.random.default_rng(0)
    rows = [" " + row.decode() + "Ab " for _ in range(20) for row in random_rows(rng)]
    whole = CALLS[name](tf.constant(rows)).numpy().tolist()
    few = [CALLS[name](tf.constant(rows[i : i + 20])).numpy().tolist() for i in range(0, len(rows), 20)]
    assert whole == [value for part in few for value in part]


def test_tensors_of_packed_texts_are_tensors():
    rows = [f"Word {i}" for i in range(100)]
    x = tf.strings.lower(tf.constant(rows))
    assert isinstance(x, LazyTensor)
    assert (x.shape, x.dtype) == ((100,), tf.string)
    wanted = [row.lower().encode() for row in rows]
    assert pickle.loads(pickle.dumps(x)).numpy().tolist() == copy.deepcopy(x).numpy().tolist() == wanted
    x = tf.strings.lower(tf.constant(rows))
    assert tf.strings.upper(x)[3].numpy() == b"WORD 3"
    assert tf.reshape(tf.strings.upper(x), [10, 10])[9, 9].numpy() == b"WORD 99"
    assert "word 0" in repr(tf.strings.lower(tf.constant(rows)))
    changed = tf.strings.lower(tf.constant(rows))
    changed.numpy()[0] = b"other"
    assert changed.numpy().tolist() == wanted
    parts = tf.strings.split(tf.constant(rows))
    assert parts[99].numpy().tolist() == [b"Word", b"99"]
    assert tf.function(lambda t: tf.strings.upper(tf.strings.strip(t)))(changed).numpy()[5] == b"WORD 5"
    assert [t.numpy() for t in tf.data.Dataset.from_tensor_slices(changed).take(2)] == wanted[:2]


@pytest.mark.parametrize("seed", range(12))
def test_words_of_many_texts(seed):
    """From 257 words on they are put together of aligned words; also at the end of the buffer, of every length."""
    rng = np.random.default_rng(seed)
    rows = [bytes(rng.integers(0, 256, rng.integers(0, 20)).astype(np.uint8)) for _ in range(300 + seed)]
    packed = Packed(rows)
    assert packed.heads.tolist() == [int.from_bytes(row[:8], "little") for row in rows]
    data = packed.bytes.tobytes() + bytes(8)
    kept = np.minimum(packed.lengths, 8)
    for places, counts in ((packed.starts, kept), (packed.ends - kept, kept)):
        expected = [data[at : at + n] for at, n in zip(places.tolist(), counts.tolist(), strict=True)]
        words = packed.word(places).tobytes()
        assert [words[8 * i : 8 * i + n] for i, n in enumerate(counts.tolist())] == expected


@pytest.mark.parametrize("malformed", [False, True])
@pytest.mark.parametrize("pos", [0, 1, 2, -1])
def test_characters_near_the_beginning(pos, malformed):
    rng = np.random.default_rng(pos + 1)
    rows = [row + "né".encode() for _ in range(60) for row in random_rows(rng, malformed=malformed)]
    for packed in (Packed(rows), Packed(rows).chosen(np.arange(len(rows))[::-1])):
        for count in (0, 1, 3, -1):
            one_by_one = [
                parts.characters(Packed([row]), np.array([pos]), np.array([count])).rows for row in packed.rows
            ]
            assert parts.characters(packed, np.array([pos]), np.array([count])).rows == [row for (row,) in one_by_one]


def test_the_first_text_without_a_position_is_named():
    texts = Packed(["aé".encode(), "éaé".encode(), b"a", b"", b"ab"])
    with pytest.raises(parts.PositionError) as raised:
        parts.characters(texts, np.array([2]), np.array([1]))
    assert raised.value.index == 2


def test_valid_utf8_is_of_each_text():
    e = "é".encode()
    assert Packed([e, b"a"]).is_utf8
    halves = Packed.at(np.frombuffer(e + bytes(9), np.uint8), np.array([0, 1]), np.array([1, 1]))
    assert not halves.is_utf8
    assert not Packed([b"\xff"]).is_utf8
