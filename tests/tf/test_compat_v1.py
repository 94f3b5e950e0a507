"""tf.compat.v1: the table of names, what is refused, and what the conformance programs leave out."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.formats.event_file import event_files
from gradtape._src.tf.v1 import functions, misc, names, nn

v1 = tf.compat.v1


@pytest.mark.parametrize("name", sorted({*names.LAZY, *names.NAMESPACES} - {"app", "flags"}))
def test_every_name_of_the_table_is_there(name):
    assert getattr(v1, name) is not None


def test_the_table_lists_what_the_modules_list():
    assert {name for name in names.LAZY if names.LAZY[name].endswith(f"v1.functions:{name}")} == set(functions.__all__)
    assert set(misc.__all__) - set(names.LAZY) == {"enabled", "is_enabled"}
    assert set(nn.__all__) == names.NN
    for name in names.NN:
        assert getattr(v1.nn, name) is getattr(nn, name)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: v1.placeholder(tf.float32), r"tf.placeholder\(\) is not compatible with eager execution"),
        (lambda: v1.Session(graph=tf.Graph()).run(tf.constant(1.0)), "The Session graph is empty"),
        (lambda: v1.summary.FileWriter("logs"), "tf.summary.create_file_writer"),
        (lambda: v1.train.AdamOptimizer().compute_gradients(tf.constant(1.0)), "should be a function"),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(RuntimeError, match=words):
        call()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: v1.reduce_sum([1.0], axis=0, reduction_indices=0), ValueError, "Cannot specify both 'axis'"),
        (lambda: v1.nn.dropout([1.0]), ValueError, "`rate` must be provided"),
        (lambda: v1.nn.dropout([1.0], 0.5, rate=0.5), ValueError, "Only one of"),
        (lambda: v1.nn.sigmoid_cross_entropy_with_logits([1.0], [1.0]), ValueError, "with named arguments"),
        (lambda: v1.where([True], [1.0]), ValueError, "both be non-None"),
        (lambda: v1.losses.mean_squared_error([[1.0]], [[2.0]], weights=[1.0, 2.0]), ValueError, "broadcast"),
        (lambda: v1.losses.compute_weighted_loss([1.0], reduction="all"), ValueError, "Invalid Reduction Key all"),
        (lambda: v1.train.AdagradOptimizer(0.1, 0.0), ValueError, "must be positive"),
        (lambda: v1.train.AdamOptimizer().apply_gradients([]), ValueError, "No variables provided"),
        (lambda: v1.train.piecewise_constant(0, [1], [1.0]), ValueError, "1 less than"),
        (lambda: v1.orthogonal_initializer()([3]), ValueError, "at least two-dimensional"),
        (lambda: v1.expand_dims([1.0]), ValueError, "Must specify an axis"),
        (lambda: v1.contrib, AttributeError, "tf.compat.v1.contrib is not in gradtape: it was removed"),
        (lambda: v1.nothing_like_it, AttributeError, "has no attribute 'nothing_like_it'$"),
    ],
)
def test_mistakes(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_initializers_have_the_variance_they_promise():
    for make, variance in (
        (v1.glorot_normal_initializer, 2 / 300), (v1.initializers.he_normal, 2 / 100),
        (v1.initializers.lecun_uniform, 1 / 100), (v1.variance_scaling_initializer, 1 / 100),
    ):  # fmt: skip
        assert np.var(make(seed=1)([100, 200]).numpy()) == pytest.approx(variance, rel=0.05)
    q = v1.orthogonal_initializer(gain=2.0, seed=1)([4, 3]).numpy()
    np.testing.assert_allclose(q.T @ q, 4 * np.eye(3), atol=1e-5)
    again = v1.glorot_uniform_initializer.from_config(v1.glorot_uniform_initializer(seed=3).get_config())
    assert again.seed == 3


def test_logging_counts_lines(caplog):
    caplog.set_level("INFO", "tensorflow")
    for i in range(5):
        v1.logging.log_every_n(v1.logging.INFO, "every %d", 2, i)
        v1.logging.log_first_n(v1.logging.INFO, "first %d", 2, i)
    assert [record.getMessage() for record in caplog.records] == [
        "every 0", "first 0", "first 1", "every 2", "every 4",
    ]  # fmt: skip


def test_events_are_read_and_summaries_merged(tmp_path):
    writer = tf.summary.create_file_writer(str(tmp_path))
    with pytest.warns(UserWarning, match="default summary writer not found"):
        both = [v1.summary.scalar("a", 1.0), v1.summary.histogram("h", [1.0, 2.0])]
    with writer.as_default():
        tf.summary.experimental.write_raw_pb(v1.summary.merge(both), step=2)
    writer.close()
    events = list(v1.train.summary_iterator(event_files(str(tmp_path))[0]))
    assert [(event.step, [value.tag for value in event.summary.value]) for event in events[1:]] == [(2, ["a", "h"])]


def test_flags_and_app(tmp_path):
    pytest.importorskip("absl")
    program = tmp_path / "program.py"
    program.write_text(
        "import gradtape as tf\nv1 = tf.compat.v1\nv1.flags.DEFINE_integer('n', 1, 'a number')\n"
        "def main(argv): print(v1.flags.FLAGS.n + 1, argv[1:])\n"
        "if __name__ == '__main__': v1.app.run()\n"
    )
    ended = subprocess.run([sys.executable, str(program), "--n=41", "rest"], capture_output=True, text=True, check=True)
    assert ended.stdout == "42 ['rest']\n"


def test_options_are_messages():
    config = v1.ConfigProto(allow_soft_placement=True, gpu_options=v1.GPUOptions(allow_growth=True))
    assert v1.ConfigProto.FromString(config.SerializeToString()).gpu_options.allow_growth is True


def test_the_global_step_is_one():
    step = v1.train.get_or_create_global_step()
    assert step is v1.train.get_global_step()
    assert (step.dtype, step.name) == (tf.int64, "global_step:0")
    with pytest.raises(ValueError, match="already exists"):
        v1.train.create_global_step()


def test_variables_under_older_names(capfd):
    v = tf.Variable(3)
    assert v.initializer is None
    v.load(4)
    assert (int(v1.count_up_to(v, 6)), int(v.count_up_to(6)), int(v)) == (4, 5, 6)
    with pytest.raises(tf.errors.OutOfRangeError, match="Reached limit of 6"):
        v.count_up_to(6)
    with pytest.raises(RuntimeError, match="not supported when eager"):
        v.eval()
    assert v1.is_variable_initialized(v)
    assert v1.report_uninitialized_variables().shape == (0,)
    assert not v1.get_local_variable("x", [2]).trainable
    with v1.variable_scope("outer"):
        assert v1.get_variable_scope().name == "outer"
    assert v1.make_template("t", lambda x, y: x + y, y=2)(1) == 3
    assert float(v1.py_func(lambda x: x + 1, [tf.constant(1.0)], tf.float32)) == 2.0
    assert float(v1.Print(tf.constant(1.0), [tf.constant(7.0)], "see:")) == 1.0
    assert "see: 7" in capfd.readouterr().err
    assert int(v1.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)])) == 3
    with pytest.raises(tf.errors.InvalidArgumentError, match="bad"):
        v1.verify_tensor_all_finite(tf.constant(np.nan), "bad")


@pytest.mark.parametrize("space", ["experimental", "lookup", "ragged", "saved_model", "sets", "sparse", "strings"])
def test_namespaces_of_newer_functions(space):
    newer, older = getattr(tf, space), getattr(v1, space)
    shared = [name for name in dir(older) if not name.startswith("_") and hasattr(newer, name)]
    assert shared
    with pytest.raises(AttributeError, match="nothing_like_it"):
        older.nothing_like_it  # noqa: B018


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: v1.strings.length("é", None, "UTF8_CHAR"), 1),
        (lambda: v1.strings.substr("hello", 1, 2, None, "BYTE"), b"el"),
        (lambda: v1.strings.to_number(string_tensor="5", out_type=tf.int32), 5),
        (lambda: v1.string_to_number(input="5"), 5.0),
        (lambda: v1.strings.to_hash_bucket(input="5", num_buckets=1), 0),
        (lambda: v1.string_to_hash_bucket(string_tensor="5", num_buckets=1), 0),
        (lambda: v1.strings.reduce_join(["a", "b"], reduction_indices=0), b"ab"),
        (lambda: v1.sparse.reduce_sum(v1.sparse.from_dense([[1.0, 2.0]]), reduction_axes=[0, 1]), 3.0),
        (lambda: v1.sets.set_size(v1.sparse.from_dense([[1, 2]]))[0], 2),
    ],
)
def test_arguments_of_the_first_version(call, expected):
    assert call().numpy() == expected


def test_strings_are_split_into_sparse_tensors():
    found = v1.strings.split(["a b", "c"])
    assert found.indices.numpy().tolist() == [[0, 0], [0, 1], [1, 0]]
    assert found.values.numpy().tolist() == [b"a", b"b", b"c"]
    assert v1.strings.split(source="a,b", sep=",", result_type="RaggedTensor").to_list() == [[b"a", b"b"]]
    with pytest.raises(ValueError, match="result_type must be 'RaggedTensor' or 'SparseTensor'"):
        v1.strings.split(["a"], result_type="list")
    with pytest.raises(ValueError, match="Cannot specify both 'input' and 'source'"):
        v1.strings.split(["a"], source=["b"])
    traced = tf.function(lambda x: v1.strings.split(x).values)
    assert traced(tf.constant(["a b", "c"])).numpy().tolist() == [b"a", b"b", b"c"]


def test_tables_have_an_initializer():
    words = v1.lookup.KeyValueTensorInitializer(["cat", "dog"], tf.constant([0, 1], tf.int64))
    table, vocabulary = v1.lookup.StaticHashTable(words, -1), v1.lookup.StaticVocabularyTable(words, 2)
    assert isinstance(table, tf.lookup.StaticHashTable)
    assert table.lookup(tf.constant(["dog", "cow"])).numpy().tolist() == [1, -1]
    assert vocabulary.lookup(tf.constant(["dog"])).numpy().tolist() == [1]
    with tf.Graph().as_default(), v1.Session() as session:
        assert session.run([v1.tables_initializer(), table.initializer, vocabulary.initializer]) == [None] * 3


def test_parts_of_device_names_can_be_set():
    spec = v1.DeviceSpec(job="a")
    spec.job, spec.device_type, spec.device_index = "b", "gpu", "1"
    spec.merge_from(tf.DeviceSpec(task=3))
    assert spec.to_string() == "/job:b/task:3/device:GPU:1"
    assert spec.parse_from_string("/job:w") is spec
    assert (spec.job, spec.task, spec.device_index) == ("w", None, None)
    assert v1.DeviceSpec(job="w") == spec != tf.DeviceSpec(job="w")
    assert isinstance(spec, tf.DeviceSpec)
