"""tf.io.gfile and the records of tf.io beyond the conformance programs; answers recorded from TensorFlow 2.21."""

from __future__ import annotations

import gzip
import sys
import types
import zlib

import pytest

import gradtape as tf
from gradtape._src.formats import file_systems

gfile = tf.io.gfile


# -- gfile -------------------------------------------------------------------------------------------------------------
@pytest.fixture(params=["disk", "ram"])
def folder(request, tmp_path):
    if request.param == "disk":
        return str(tmp_path)
    name = f"ram://{tmp_path.name}"
    gfile.makedirs(name)
    return name


def put(path, text):
    with gfile.GFile(path, "w") as file:
        file.write(text)


def test_positions(folder):
    path = gfile.join(folder, "x")
    put(path, "one\ntwo\nthree")
    file = gfile.GFile(path)
    assert (file.read(), file.read()) == ("one\ntwo\nthree", "")
    file.seek(4)
    assert (file.readline(), file.tell()) == ("two\n", 8)
    file.seek(-2, 2)
    assert file.tell() == 11
    for args, error, words in [
        ((1000,), tf.errors.OutOfRangeError, "reached end of file"),
        ((-1,), tf.errors.InvalidArgumentError, "Seeking to a negative position: -1"),
        ((0, 5), tf.errors.InvalidArgumentError, "Invalid whence argument: 5"),
        ((), TypeError, "offset argument required"),
    ]:
        with pytest.raises(error, match=words):
            file.seek(*args)
    file.close()
    assert file.read(3) == "one"  # a closed file is opened again
    assert (list(gfile.GFile(path)), next(gfile.GFile(path, "rb"))) == (["one\n", "two\n", "three"], b"one\n")


def test_reading_and_writing(folder):
    path = gfile.join(folder, "x")
    file = gfile.GFile(path, "w+")
    file.write("abc")
    assert file.size() == 0 if not folder.startswith("ram") else True
    file.flush()
    assert (file.read(), file.size()) == ("abc", 3)
    file.close()
    with gfile.GFile(path, "a") as file:
        assert file.tell() == 3
        file.write(b"d")
    assert gfile.GFile(path).read() == "abcd"
    with pytest.raises(tf.errors.InvalidArgumentError, match="mode is not"):
        gfile.GFile(path, "x")
    with pytest.raises(TypeError, match="Expected binary or unicode string, got 3"):
        gfile.GFile(path, "w").write(3)


def test_folders(folder):
    for name in ("b/y", "a", "c"):
        path = gfile.join(folder, name)
        gfile.makedirs(path.rpartition("/")[0])
        put(path, name)
    put(gfile.join(folder, ".hidden"), "")
    assert gfile.listdir(folder) == [".hidden", "a", "b", "c"]
    assert gfile.glob(gfile.join(folder, "[ab]*")) == [gfile.join(folder, name) for name in ("a", "b")]
    assert gfile.glob([gfile.join(folder, "*", "y"), gfile.join(folder, "a")]) == [
        gfile.join(folder, "b", "y"), gfile.join(folder, "a"),
    ]  # fmt: skip
    assert gfile.glob([]) == gfile.glob("") == gfile.glob(gfile.join(folder, "no", "*")) == []
    assert list(gfile.walk(folder, topdown=False)) == [
        (gfile.join(folder, "b"), [], ["y"]), (folder, ["b"], [".hidden", "a", "c"]),
    ]  # fmt: skip
    seen = []
    assert list(gfile.walk(gfile.join(folder, "no"), onerror=seen.append)) == []
    assert isinstance(seen[0], tf.errors.NotFoundError)
    gfile.rename(gfile.join(folder, "b"), gfile.join(folder, "moved"))
    assert gfile.GFile(gfile.join(folder, "moved", "y")).read() == "b/y"
    gfile.rmtree(folder)
    assert not gfile.exists(folder)


def test_files_move_between_file_systems(tmp_path):
    put("ram://from/x", "text")
    gfile.copy("ram://from/x", str(tmp_path / "x"))
    gfile.rename(str(tmp_path / "x"), "ram://to/x")
    assert gfile.GFile("ram://to/x").read() == "text"
    assert not gfile.exists(tmp_path / "x")
    assert tf.io.read_file("ram://to/x").numpy() == b"text"


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda d: gfile.makedirs(d + "/x/z"), tf.errors.FailedPreconditionError),
        (lambda d: gfile.remove(d), tf.errors.FailedPreconditionError),
        (lambda d: gfile.GFile(d).read(), tf.errors.FailedPreconditionError),
        (lambda d: gfile.GFile(d + "/no/x", "w").write(""), tf.errors.NotFoundError),
        (lambda d: gfile.copy(d + "/x", d), tf.errors.AlreadyExistsError),
        (lambda d: gfile.exists("foo://bucket"), tf.errors.UnimplementedError),
        (lambda d: gfile.exists(3), TypeError),
        (lambda d: tf.io.matching_files([[d]]), tf.errors.InvalidArgumentError),
    ],
)
def test_mistakes(tmp_path, call, error):
    put(str(tmp_path / "x"), "")
    with pytest.raises(error):
        call(str(tmp_path))


def test_other_schemes_are_fsspecs(monkeypatch):
    """With a small file system of fsspec's interface, as fsspec itself may not be installed."""
    stored = {}

    class Small:
        def open(self, path, mode):
            if mode == "rb" and path not in stored:
                raise FileNotFoundError(path)
            return file_systems._Memory.open(types.SimpleNamespace(files=stored), path, mode)

        def info(self, path):
            if path not in stored:
                raise FileNotFoundError(path)
            return {"size": len(stored[path][0]), "type": "file", "mtime": 2.0}

    module = types.ModuleType("fsspec")
    module.filesystem = lambda scheme: Small()
    module.available_protocols = lambda: ["small"]
    monkeypatch.setitem(sys.modules, "fsspec", module)
    monkeypatch.setattr(file_systems, "_known", dict(file_systems._known))
    put("small://a", "text")
    assert gfile.GFile("small://a").read() == "text"
    assert gfile.stat("small://a") == (4, 2_000_000_000, False)
    assert not gfile.exists("small://b")
    assert "small" in gfile.get_registered_schemes()


# -- CSV ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("records", "defaults", "options", "expected"),
    [
        (["1,a,2.5", '2,"b,c",'], [0, "", 1.5], {}, [[1, 2], [b"a", b"b,c"], [2.5, 1.5]]),
        (['"a ""q"" b",c'], ["", ""], {}, [[b'a "q" b'], [b"c"]]),
        ("1,2", [0, 0], {}, [1, 2]),
        ([["1,2"], ["3,4"]], [0, 0], {}, [[[1], [3]], [[2], [4]]]),
        ([" 1 ,+2,-3"], [0, 0, 0], {}, [[1], [2], [-3]]),
        (["1;2"], [0, 0], {"field_delim": ";"}, [[1], [2]]),
        (['"a",b'], ["", ""], {"use_quote_delim": False}, [[b'"a"'], [b"b"]]),
        (["NA,1"], [7, 0], {"na_value": "NA"}, [[7], [1]]),
        (["1,2,3"], [0, 0], {"select_cols": [0, 2]}, [[1], [3]]),
    ],
)
def test_csv(records, defaults, options, expected):
    assert [column.numpy().tolist() for column in tf.io.decode_csv(records, defaults, **options)] == expected


@pytest.mark.parametrize(
    ("records", "defaults", "words"),
    [
        (["1,a"], [0, "", 1.5], "Expect 3 fields but have 2 in record 0"),
        ([""], ["x"], "Expect 1 fields but have 0"),
        ([",a"], [tf.constant([], tf.int32), ""], "Field 0 is required but missing in record 0!"),
        (["x"], [0], "Field 0 in record 0 is not a valid int32: x"),
        (["99999999999"], [0], "not a valid int32"),
        (["1_0"], [0.0], "not a valid float"),
        (['a"b'], [""], "Unquoted fields cannot have quotes"),
        (['"ab'], [""], "Quoted field has to end with quote"),
        (['"a"b'], [""], "has to be escaped by another quote"),
        (["a\r\n"], [""], "Unquoted fields cannot have quotes/CRLFs"),
        (["1"], [True], "not in the list of allowed values"),
        (["1"], [[1, 2]], "only be 1 default per field but field 0 has 2"),
    ],
)
def test_csv_mistakes(records, defaults, words):
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        tf.io.decode_csv(records, defaults)


def test_strings_in_other_forms():
    assert tf.io.encode_base64(["hello?>~", ""]).numpy().tolist() == [b"aGVsbG8_Pn4", b""]
    assert tf.io.encode_base64("ab", pad=True).numpy() == b"YWI="
    assert tf.io.decode_base64(["aGVsbG8_Pn4", "YWI="]).numpy().tolist() == [b"hello?>~", b"ab"]
    for bad in ("!!", "aGVsbG8/Pn4="):
        with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid character found in base64"):
            tf.io.decode_base64(bad)
    assert tf.io.decode_compressed([gzip.compress(b"abc")], "GZIP").numpy().tolist() == [b"abc"]
    with pytest.raises(tf.errors.DataLossError, match="inflate"):
        tf.io.decode_compressed([b"abc"], "ZLIB")
    with pytest.raises(tf.errors.InvalidArgumentError, match="Only ZLIB"):
        tf.io.decode_compressed([zlib.compress(b"")], "ZIP")
    with pytest.raises(tf.errors.InvalidArgumentError, match="Error while parsing JSON"):
        tf.io.decode_json_example("{")


def test_sparse_tensors_as_strings():
    sparse = tf.SparseTensor([[0, 1], [2, 0]], [1.0, 2.0], [3, 4])
    assert [len(text) for text in tf.io.serialize_sparse(sparse).numpy()] == [46, 18, 26]
    again = tf.io.deserialize_many_sparse(tf.io.serialize_many_sparse(sparse), tf.float32)
    assert again.indices.numpy().tolist() == [[0, 1], [2, 0]]
    assert again.dense_shape.numpy().tolist() == [3, 4]
    stacked = tf.io.deserialize_many_sparse(tf.stack([tf.io.serialize_sparse(sparse)] * 2), tf.float32)
    assert stacked.indices.numpy().tolist() == [[0, 0, 1], [0, 2, 0], [1, 0, 1], [1, 2, 0]]


# -- sequences ---------------------------------------------------------------------------------------------------------
def ints(*values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def floats(*values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def sequence(context, lists):
    found = {key: tf.train.FeatureList(feature=steps) for key, steps in lists.items()}
    return tf.train.SequenceExample(
        context=tf.train.Features(feature=context), feature_lists=tf.train.FeatureLists(feature_list=found)
    ).SerializeToString()


def example(**features):
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


LONG = sequence({"n": ints(2)}, {"token": [ints(1), ints(2, 3)], "vector": [floats(1, 2), floats(3, 4)]})
SHORT = sequence({"n": ints(1)}, {"token": [ints(7)], "vector": [floats(5, 6)]})
EMPTY = sequence({"n": ints(0)}, {})
VECTOR = {"vector": tf.io.FixedLenSequenceFeature([2], tf.float32)}


def test_one_sequence():
    features = {**VECTOR, "token": tf.io.VarLenFeature(tf.int64)}
    context, found = tf.io.parse_single_sequence_example(LONG, {"n": tf.io.FixedLenFeature([], tf.int64)}, features)
    assert int(context["n"]) == 2
    assert found["vector"].numpy().tolist() == [[1, 2], [3, 4]]
    assert tf.sparse.to_dense(found["token"]).numpy().tolist() == [[1, 0], [2, 3]]
    ragged = tf.io.parse_single_sequence_example(LONG, None, {"token": tf.io.RaggedFeature(tf.int64)})[1]["token"]
    assert ragged.to_list() == [[1], [2, 3]]
    assert ragged.row_splits.dtype == tf.int32


def test_several_sequences():
    features = {"vector": tf.io.FixedLenSequenceFeature([2], tf.float32, allow_missing=True),
                "token": tf.io.VarLenFeature(tf.int64)}  # fmt: skip
    _, found, lengths = tf.io.parse_sequence_example([LONG, EMPTY, SHORT], None, features)
    assert found["vector"].numpy().tolist() == [[[1, 2], [3, 4]], [[0, 0], [0, 0]], [[5, 6], [0, 0]]]
    assert lengths["vector"].numpy().tolist() == [2, 0, 1]
    assert found["token"].dense_shape.numpy().tolist() == [3, 2, 2]
    ragged = tf.io.parse_sequence_example([LONG, SHORT], None, {"token": tf.io.RaggedFeature(tf.int64)})[1]["token"]
    assert ragged.to_list() == [[[1], [2, 3]], [[7]]]


@pytest.mark.parametrize(
    ("serialized", "features", "error", "words"),
    [
        (EMPTY, VECTOR, tf.errors.InvalidArgumentError, "Feature list 'vector' is required but could not be found"),
        (LONG, {"vector": tf.io.FixedLenSequenceFeature([3], tf.float32)}, tf.errors.InvalidArgumentError,
         "has an unexpected number of values"),
        (LONG, {"vector": tf.io.FixedLenSequenceFeature([2], tf.int64)}, tf.errors.InvalidArgumentError,
         "Data types don't match"),
        (LONG, {"vector": tf.io.FixedLenFeature([2], tf.float32)}, ValueError, "Unsupported FixedLenFeature"),
        ([LONG], VECTOR, ValueError, "must be a scalar"),
        (LONG, None, ValueError, "Both context_features and sequence_features are None"),
    ],
)  # fmt: skip
def test_mistakes_with_sequences(serialized, features, error, words):
    with pytest.raises(error, match=words):
        tf.io.parse_single_sequence_example(serialized, None, features)


def test_ragged_and_sparse_features():
    both = [example(v=floats(1, 2, 3), n=ints(1, 2), s=ints(0, 1, 3)), example(v=floats(4), n=ints(1), s=ints(0, 1))]
    ragged = tf.io.RaggedFeature
    assert tf.io.parse_example(both, {"v": ragged(tf.float32)})["v"].to_list() == [[1, 2, 3], [4]]
    for partition in (ragged.RowLengths("n"), ragged.RowSplits("s")):
        feature = ragged(tf.float32, value_key="v", partitions=[partition])
        assert tf.io.parse_example(both, {"p": feature})["p"].to_list() == [[[1], [2, 3]], [[4]]]
        assert tf.io.parse_single_example(both[0], {"p": feature})["p"].to_list() == [[1], [2, 3]]
    uniform = ragged(tf.float32, value_key="v", partitions=[ragged.UniformRowLength(2)])
    square = tf.io.parse_single_example(example(v=floats(1, 2, 3, 4)), {"p": uniform})["p"]
    assert square.numpy().tolist() == [[1, 2], [3, 4]]
    sparse = tf.io.SparseFeature(["i", "j"], "v", tf.float32, size=[5, 2])
    found = tf.io.parse_single_example(example(i=ints(3, 1), j=ints(0, 1), v=floats(0.5, 0.75)), {"x": sparse})["x"]
    assert found.indices.numpy().tolist() == [[1, 1], [3, 0]]
    assert found.values.numpy().tolist() == [0.75, 0.5]


# -- names of TensorFlow 1, and private ones ---------------------------------------------------------------------------
def test_older_names_have_older_arguments(folder):
    old = tf.compat.v1.gfile
    inner = gfile.join(folder, "inner")
    old.MkDir(dirname=inner)
    put(gfile.join(inner, "a"), "text")
    old.Copy(oldpath=gfile.join(inner, "a"), newpath=gfile.join(folder, "b"))
    old.Rename(oldname=gfile.join(folder, "b"), newname=gfile.join(folder, "c"))
    assert old.ListDirectory(dirname=folder) == ["c", "inner"]
    assert [path for path, _, _ in old.Walk(folder, in_order=False)] == [inner, folder]
    assert old.Exists(filename=inner)
    assert old.IsDirectory(dirname=inner)
    assert old.Stat(filename=gfile.join(folder, "c")).length == 4
    assert old.Glob(filename=gfile.join(folder, "c*")) == [gfile.join(folder, "c")]
    old.Remove(filename=gfile.join(folder, "c"))
    old.DeleteRecursively(dirname=inner)
    assert old.ListDirectory(folder) == []


def test_whole_files_of_the_private_module(folder):
    from gradtape._src.hooks.tensorflow_python import find

    files = find("lib.io.file_io")
    a, b = gfile.join(folder, "a"), gfile.join(folder, "b")
    files.write_string_to_file(a, "täxt")
    files.atomic_write_string_to_file(b, "other")
    assert (files.read_file_to_string(a), files.read_file_to_string(a, True)) == ("täxt", "täxt".encode())
    assert not files.filecmp(a, b)
    files.atomic_write_string_to_file(b, "täxt")
    assert files.filecmp(a, b)
    with pytest.raises(tf.errors.AlreadyExistsError):
        files.atomic_write_string_to_file(b, "x", overwrite=False)
    assert gfile.listdir(folder) == ["a", "b"]
    assert files.file_crc32(a, 2) == files.file_crc32(a) == hex(zlib.crc32("täxt".encode()))
    with files.FileIO(a, "r", "latin1") as file:
        assert file.read() == "täxt".encode().decode("latin1")
    assert files.file_exists(a)
    assert next(iter(files.walk(folder, in_order=True)))[2] == ["a", "b"]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda file: file.read(-2), tf.errors.InvalidArgumentError, "Can't read a negative number of bytes: -2"),
        (lambda file: file.seek("1"), TypeError, "offset must be an integer, got '1'"),
        (lambda file: file.seek(0, position=1), TypeError, "offset and position may not be set simultaneously"),
        (lambda file: gfile.GFile(file.name, 3), TypeError, "mode must be text"),
    ],
)
def test_mistakes_with_positions(tmp_path, call, error, words):
    put(str(tmp_path / "x"), "text")
    with gfile.GFile(str(tmp_path / "x")) as file, pytest.raises(error, match=words):
        call(file)
