"""Datasets of CSV files: names, dtypes and batches as TensorFlow finds them."""

from __future__ import annotations

import gzip

import pytest

import gradtape as tf

make_csv_dataset, CsvDataset = tf.data.experimental.make_csv_dataset, tf.data.experimental.CsvDataset
TABLE = "x,y,name,big,f\n1,1.5,a,3000000000,1e300\n2,,b,4,2\n3,2.5,,5,3\n4,3.5,d,6,4\n"
ONCE = {"num_epochs": 1, "shuffle": False}


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    return str(path)


def read(dataset):
    return [{name: column.numpy().tolist() for name, column in batch.items()} for batch in dataset]


def test_names_and_dtypes_are_found_in_the_file(table):
    dataset = make_csv_dataset(table, 3, **ONCE)
    kinds = {name: spec.dtype.name for name, spec in dataset.element_spec.items()}
    assert kinds == {"x": "int32", "y": "float32", "name": "string", "big": "int64", "f": "float64"}
    first, second = read(dataset)
    assert list(first) == ["x", "y", "name", "big", "f"]
    assert (first["x"], first["y"], first["name"]) == ([1, 2, 3], [1.5, 0.0, 2.5], [b"a", b"b", b""])
    assert (second["big"], second["f"]) == ([6], [4.0])
    assert tf.compat.v1.data.experimental.make_csv_dataset is make_csv_dataset


def test_labels_and_chosen_columns(table):
    ((columns, labels),) = make_csv_dataset(table, 4, label_name="x", select_columns=["y", "x"], **ONCE)
    assert list(columns) == ["y"]
    assert labels.numpy().tolist() == [1, 2, 3, 4]
    (only,) = read(make_csv_dataset(table, 4, select_columns=[2, 0], na_value="b", **ONCE))
    assert only == {"x": [1, 2, 3, 4], "name": [b"a", b"", b"", b"d"]}


def test_defaults_of_columns(table):
    defaults = [0, 0.5, "?", tf.int64, tf.float64]
    (batch,) = read(make_csv_dataset(table, 4, column_defaults=defaults, **ONCE))
    assert batch["y"] == [1.5, 0.5, 2.5, 3.5]
    assert batch["name"] == [b"a", b"b", b"?", b"d"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="Field 1 is required but missing in record 1"):
        read(make_csv_dataset(table, 4, column_defaults=[tf.int32, tf.float32, *defaults[2:]], **ONCE))


def test_several_files_and_epochs(table, tmp_path):
    (tmp_path / "a.csv").write_text("x,y,name,big,f\n10,1.5,z,3,1\n")
    both = read(make_csv_dataset(str(tmp_path / "*.csv"), 3, select_columns=["x"], **ONCE))
    assert both == [{"x": [10, 1, 2]}, {"x": [3, 4]}]
    twice = make_csv_dataset(table, 3, select_columns=["x"], num_epochs=2, shuffle=False)
    assert [batch["x"] for batch in read(twice)] == [[1, 2, 3], [4, 1, 2], [3, 4]]
    endless = make_csv_dataset(table, 3, select_columns=["x"], shuffle_seed=1).take(4)
    assert sorted(x for batch in read(endless) for x in batch["x"])[:3] == [1, 1, 1]
    (tmp_path / "other.csv").write_text("x,z\n1,2\n")
    with pytest.raises(ValueError, match="should have the same column names"):
        make_csv_dataset(str(tmp_path / "*.csv"), 3)


def test_files_without_a_header(tmp_path):
    path = tmp_path / "plain.csv.gz"
    path.write_bytes(gzip.compress(b"1;2\n3;4\n"))
    settings = {"header": False, "field_delim": ";", "compression_type": "GZIP", **ONCE}
    assert read(make_csv_dataset(str(path), 2, column_names=["p", "q"], **settings)) == [{"p": [1, 3], "q": [2, 4]}]
    with pytest.raises(ValueError, match="Neither is provided"):
        make_csv_dataset(str(path), 2, **settings)


def test_records_that_cannot_be_read_are_left_out(tmp_path):
    path = tmp_path / "wrong.csv"
    path.write_text("x,y\n1,2\n3\n5,6\n")
    with pytest.raises(ValueError, match=r"CSV row 3 has 1 number of fields\. Expected: 2"):
        make_csv_dataset(str(path), 1, **ONCE)
    settings = {"column_defaults": [tf.int32, tf.int32], **ONCE}
    with pytest.raises(tf.errors.InvalidArgumentError, match="Expect 2 fields but have 1"):
        read(make_csv_dataset(str(path), 3, **settings))
    assert read(make_csv_dataset(str(path), 3, ignore_errors=True, **settings)) == [{"x": [1, 5], "y": [2, 6]}]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"label_name": "q"}, "`label_name` provided must be one of the columns"),
        ({"select_columns": ["q"]}, "Column q specified in `select_columns`"),
        ({"select_columns": [9]}, "Column index 9"),
        ({"select_columns": [1, "y"]}, "duplicate columns"),
        ({"column_names": ["a", "a", "b", "c", "d"]}, "contains duplicate column names: {'a'}"),
    ],
)
def test_mistakes(table, settings, words):
    with pytest.raises(ValueError, match=words):
        make_csv_dataset(table, 2, **settings)


def test_no_file(tmp_path):
    with pytest.raises(ValueError, match="No files match `file_pattern`"):
        make_csv_dataset(str(tmp_path / "*.csv"), 2)
    with pytest.raises(tf.errors.NotFoundError):
        list(CsvDataset(str(tmp_path / "none.csv"), [tf.int32]))


def test_single_records(table, tmp_path):
    rows = CsvDataset(table, [[0], "?"], header=True, select_cols=[0, 2])
    assert isinstance(rows, tf.data.Dataset)
    assert [(int(x), name.numpy()) for x, name in rows] == [(1, b"a"), (2, b"b"), (3, b"?"), (4, b"d")]
    rows = CsvDataset([table], [tf.int32], header=True, exclude_cols=[1, 2, 3, 4])
    assert [int(x) for (x,) in rows] == [1, 2, 3, 4]
    with pytest.raises(tf.errors.InvalidArgumentError, match="Either select_cols or exclude_cols"):
        CsvDataset(table, [tf.int32], select_cols=[0], exclude_cols=[1])
    (tmp_path / "quoted.csv").write_text('"a,b",1\n"c\nd",2\n')
    rows = CsvDataset(str(tmp_path / "quoted.csv"), [tf.string, tf.int32])
    assert [(text.numpy(), int(number)) for text, number in rows] == [(b"a,b", 1), (b"c\nd", 2)]
