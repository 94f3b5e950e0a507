"""tf.summary beyond the conformance programs: functions, errors, graphs, Keras' callback, speed."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.formats.event import GraphDef
from gradtape._src.formats.event_file import event_files, read_events
from gradtape._src.formats.tensor_proto import parsed
from gradtape._src.tf.v1 import summary as v1_summary


def written(folder):
    """(step, tag, value) of every summary."""
    return [
        (event.step, value.tag, parsed(value.tensor.SerializeToString()).numpy())
        for path in event_files(str(folder))
        for event in read_events(path)
        for value in event.summary.value
    ]


@pytest.fixture
def writer(tmp_path):
    made = tf.summary.create_file_writer(str(tmp_path))
    yield made
    made.close()


def test_names_in_a_function_have_tensorflows_scopes(tmp_path, writer):
    @tf.function
    def step(x):
        with tf.name_scope("a"):
            tf.summary.scalar("p", x, step=0)
        with tf.name_scope("a"):
            tf.summary.scalar("q", x, step=0)
        if x > 0:
            tf.summary.scalar("r", x, step=0)
        if x > 1:
            tf.summary.scalar("s", x, step=0)
        for i in tf.range(2):
            tf.summary.scalar("l", x, step=tf.cast(i, tf.int64))
        while x < 3.0:
            with tf.name_scope("in"):
                tf.summary.scalar("n", x, step=0)
            x += 1.0
            if x > 2.0:
                tf.summary.scalar("deep", x, step=0)
        return x

    with writer.as_default():
        step(tf.constant(1.5))
    writer.close()
    assert [(where, tag) for where, tag, _ in written(tmp_path)] == [  # recorded from TensorFlow 2.21
        (0, "a/p"), (0, "a_1/q"), (0, "cond/r"), (0, "cond_1/s"), (0, "while/l"), (1, "while/l"), (0, "while_1/in/n"),
        (0, "while_1/cond/deep"), (0, "while_1/in/n"), (0, "while_1/cond/deep"),
    ]  # fmt: skip


def test_a_function_writes_where_it_was_traced(tmp_path, writer):
    @tf.function
    def with_writer(x):
        return tf.summary.scalar("x", x, step=0)

    @tf.function
    def without(x):
        return tf.summary.scalar("never", x, step=0)

    assert not without(tf.constant(1.0))
    with writer.as_default():
        assert with_writer(tf.constant(1.0))
        assert not without(tf.constant(1.0))
    assert with_writer(tf.constant(2.0))
    writer.close()
    assert [(tag, float(value)) for _, tag, value in written(tmp_path)] == [("x", 1.0), ("x", 2.0)]


def test_conditions_and_steps_in_a_function(tmp_path, writer):
    moment = tf.Variable(0, dtype=tf.int64)

    @tf.function
    def step(x):
        moment.assign_add(1)
        with tf.summary.record_if(x > 1.0):
            recorded = tf.summary.scalar("x", x)
        tf.summary.histogram("h", tf.stack([x, x + 1.0]), buckets=2)
        tf.summary.image("i", tf.ones([1, 1, 1, 1]) * x)
        return recorded

    tf.summary.experimental.set_step(moment)
    with writer.as_default():
        assert [bool(step(tf.constant(float(i)))) for i in (1, 2)] == [False, True]
    tf.summary.experimental.set_step(None)
    writer.close()
    assert [(where, tag) for where, tag, _ in written(tmp_path)] == [(1, "h"), (1, "i"), (2, "x"), (2, "h"), (2, "i")]


@pytest.mark.parametrize(
    ("values", "expected"),  # recorded from TensorBoard, with three buckets
    [
        ([1.0, np.inf], [[1.0, np.inf, 1.0], [np.inf, np.inf, 0.0], [np.inf, np.inf, 0.0]]),
        ([-np.inf, 1.0], [[-np.inf, np.nan, 0.0], [np.nan, np.nan, 0.0], [np.nan, 1.0, 0.0]]),
        ([1.0, np.nan], [[np.nan, np.nan, 0.0]] * 3),
        ([[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0, 1.0], [2.0, 3.0, 1.0], [3.0, 4.0, 2.0]]),
        ([True, False], [[0.0, 1 / 3, 1.0], [1 / 3, 2 / 3, 0.0], [2 / 3, 1.0, 1.0]]),
        (5.0, [[5.0, 5.0, 0.0], [5.0, 5.0, 0.0], [5.0, 5.0, 1.0]]),
    ],
)
def test_histograms(tmp_path, writer, values, expected):
    with writer.as_default():
        tf.summary.histogram("h", values, step=0, buckets=3)
    writer.close()
    np.testing.assert_allclose(written(tmp_path)[0][2], expected)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: tf.summary.scalar("x", 1.0), ValueError, "No step set"),
        (lambda: tf.summary.scalar("x", [1.0], step=0), ValueError, r"Expected scalar shape, saw shape: \(1,\)"),
        (lambda: tf.summary.scalar(3, 1.0, step=0), TypeError, "expected string"),
        (lambda: tf.summary.scalar("x", 1.0, step=1.5), TypeError, "Cannot convert 1.5"),
        (lambda: tf.summary.scalar("x", 1.0, step=tf.constant(4)), ValueError, "conversion requested dtype int64"),
        (lambda: tf.summary.image("i", np.zeros((2, 2, 3)), step=0), ValueError, "must have rank 4"),
        (lambda: tf.summary.image("i", np.zeros((1, 2, 2, 5)), step=0), tf.errors.InvalidArgumentError, "got 5"),
        (lambda: tf.summary.image("i", np.zeros((1, 2, 2, 1)), step=0, max_outputs=-1),
         tf.errors.InvalidArgumentError, "x >= 0"),
        (lambda: tf.summary.text("t", 1.5, step=0), TypeError, "must be of type tf.string"),
        (lambda: tf.summary.audio("a", np.zeros((1, 5)), 8000, step=0), ValueError, "must have rank 3"),
        (lambda: tf.summary.audio("a", np.zeros((1, 5, 1)), 8000, step=0), tf.errors.InvalidArgumentError, "EncodeWav"),
        (lambda: tf.summary.audio("a", 0, 8000, step=0, encoding="mp3"), ValueError, "Unknown encoding: 'mp3'"),
        (lambda: tf.summary.graph("a"), ValueError, "is not tf.Graph"),
        (lambda: tf.summary.flush(3), ValueError, "Invalid argument to flush"),
        (lambda: tf.summary.create_file_writer(None), ValueError, "cannot be None"),
        (lambda: tf.summary.create_file_writer(3), TypeError, "Cannot convert 3"),
        (lambda: tf.summary.experimental.write_raw_pb("x", step=0), tf.errors.DataLossError, "Bad tf.compat"),
        (lambda: tf.summary.write("x", 1.0, step=0, metadata=3), TypeError, "Cannot convert 3"),
        (lambda: tf.summary.trace_export("x", step=0), ValueError, "Must enable trace"),
    ],
)  # fmt: skip
def test_mistakes(writer, call, error, words):
    with writer.as_default(), pytest.raises(error, match=words):
        call()


def test_a_closed_writer(tmp_path):
    writer = tf.summary.create_file_writer(str(tmp_path))
    writer.set_as_default(5)
    try:
        assert tf.summary.scalar("x", 1.0)
        writer.close()
        writer.close()
        writer.flush()
        with pytest.raises(tf.errors.NotFoundError):
            tf.summary.scalar("x", 1.0, step=1)
        with pytest.raises(RuntimeError, match="is already closed"):
            writer.set_as_default()
    finally:
        from gradtape._src.tf import summary_writer

        summary_writer._writer.set(None)
        tf.summary.experimental.set_step(None)
    with pytest.raises(tf.errors.FailedPreconditionError):
        tf.summary.create_file_writer(event_files(str(tmp_path))[0])


def test_graphs_and_traces(tmp_path, writer):
    square = tf.function(lambda x: tf.sin(x * x))
    tf.summary.trace_on()
    square(tf.constant(2.0))
    with writer.as_default():
        tf.summary.trace_export("trace", step=4)
        assert tf.summary.graph(square.get_concrete_function(tf.constant(1.0)).graph)
    writer.close()
    events = list(read_events(event_files(str(tmp_path))[0]))
    nodes = GraphDef.FromString(events[-1].graph_def).node
    assert [(node.op, list(node.input)) for node in nodes] == [
        ("Placeholder", []), ("Mul", ["x", "x"]), ("Sin", ["mul"]), ("Identity", ["Sin"]),
    ]  # fmt: skip
    assert [(event.step, value.tag) for event in events for value in event.summary.value] == [(4, "trace")]


def test_threads_write_to_one_file(tmp_path, writer):
    def write(first):
        with writer.as_default():
            for i in range(200):
                tf.summary.scalar("x", 1.0, step=first + i)

    threads = [threading.Thread(target=write, args=(1000 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    expected = {1000 * i + j for i in range(4) for j in range(200)}
    assert {step for step, _, _ in written(tmp_path)} == expected


def test_a_scalar_is_cheap(writer):
    value = tf.constant(0.5)
    best = np.inf
    with writer.as_default():
        for _ in range(20):
            start = time.process_time()
            for step in range(200):
                tf.summary.scalar("loss", value, step=step)
            best = min(best, (time.process_time() - start) / 200)
    assert best < 40e-6  # 8 on a quiet machine


def test_keras_writes_summaries(tmp_path):
    model = tf.keras.Sequential([tf.keras.layers.Dense(2), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    callback = tf.keras.callbacks.TensorBoard(str(tmp_path), histogram_freq=1, write_images=True, update_freq=1)
    x, y = np.ones((4, 3), np.float32), np.ones((4, 1), np.float32)
    model.fit(x, y, epochs=2, batch_size=2, validation_data=(x, y), callbacks=[callback], verbose=0)
    tags = {tag for _, tag, _ in written(tmp_path / "train")}
    assert {"keras", "epoch_loss", "batch_loss", "epoch_learning_rate"} <= tags
    assert any(tag.endswith("kernel/histogram") for tag in tags)
    assert any(tag.endswith("kernel/image") for tag in tags)
    losses = [(step, float(value)) for step, tag, value in written(tmp_path / "validation") if tag == "epoch_loss"]
    assert [step for step, _ in losses] == [0, 1]
    assert losses[1][1] < losses[0][1]


def test_steps_must_be_scalars(writer):
    with writer.as_default(step=1):
        for step in ((), [], [1, 2], tf.ones([2], tf.int64), tf.ones([1, 2], tf.int64)):
            with pytest.raises(ValueError, match=r"Argument `step` must be a scalar\. Received step with shape \("):
                tf.summary.write("x", 1.0, step=step)
            with pytest.raises(ValueError, match="Argument `step` must be a scalar"):
                tf.summary.scalar("x", 1.0, step=step)
    with tf.summary.record_if(False), writer.as_default():
        assert not bool(tf.summary.write("no step is needed", 1.0))
        assert not bool(tf.summary.scalar("no step is needed", 1.0))


def test_metadata_and_messages_as_tensors(tmp_path, writer):
    plugin = tf.compat.v1.SummaryMetadata(plugin_data={"plugin_name": "own"}).SerializeToString()
    both = [tf.compat.v1.Summary(value=[{"tag": tag, "simple_value": 1.0}]).SerializeToString() for tag in "ab"]
    with writer.as_default(step=1):
        tf.summary.write("x", 1.0, metadata=tf.constant(plugin))
        tf.summary.experimental.write_raw_pb(tf.constant(both))
        with pytest.raises(tf.errors.DataLossError, match="at index 1"):
            tf.summary.experimental.write_raw_pb([both[0], b"\xff"])
    writer.close()
    events = [event for path in event_files(str(tmp_path)) for event in read_events(path)]
    found = [(value.tag, value.metadata.plugin_data.plugin_name) for event in events for value in event.summary.value]
    assert found == [("x", "own"), ("a", ""), ("b", "")]


def test_a_summary_scope_takes_the_default_name(writer):
    with tf.summary.experimental.summary_scope("???", "backup") as (tag, scope):
        assert (tag, scope) == ("???", "backup/")


def test_traces_are_controlled_in_eager_code(caplog):
    @tf.function
    def inside():
        tf.summary.trace_on()
        tf.summary.trace_export("x", 0)
        with pytest.raises(ValueError, match=r"graph\(\) cannot be invoked inside a graph context"):
            tf.summary.graph(None)
        with pytest.raises(ValueError, match="Invalid graph Tensor argument 'logdir="):
            tf.summary.create_file_writer(tf.strings.join(["a", tf.as_string(tf.random.uniform([]))]))

    inside()
    with tf.Graph().as_default():
        tf.summary.trace_on()
        tf.summary.trace_export("x", 0)
    tf.summary.trace_on(graph=False, profiler=True)
    tf.summary.trace_off()
    assert [record.getMessage() for record in caplog.records] == [
        "Cannot enable trace inside a tf.function.",
        "Cannot export trace inside a tf.function.",
        "Must enable trace in eager mode.",
        "Can only export trace while executing eagerly.",
        "No `profiler_outdir` passed to trace_on(). Profiler won't be enabled.",
    ]


# -- summaries of TensorFlow 1 -----------------------------------------------------------------------------------------
def in_eager(function):
    """The values of a summary that an eager call returns, which warns that there is no writer."""
    with pytest.warns(UserWarning, match="default summary writer not found"):
        return tf.compat.v1.Summary.FromString(function().numpy()).value


def test_older_summaries_go_to_the_writer(tmp_path, writer, monkeypatch):
    old = tf.compat.v1.summary
    monkeypatch.setattr(v1_summary, "get_global_step", lambda: None)  # other tests create one for the whole process

    @tf.function
    def traced(x):
        return old.scalar("traced", x)

    with writer.as_default(step=3):
        results = [
            old.scalar("a", 1.0),
            old.histogram("h", [1.0, 2.0]),
            old.image("i", tf.zeros([1, 2, 2, 1])),
            old.audio("s", tf.zeros([1, 4]), 8000),
            old.text("t", tf.constant("hi")),
            traced(tf.constant(2.0)),
        ]
        with tf.name_scope("out"):
            old.scalar("b c", 1.0)
            old.scalar("d", 1.0, family="f")
            old.text("e", tf.constant("x"))
    assert [result.numpy() for result in results] == [b""] * 6
    writer.close()
    assert [(step, tag) for step, tag, _ in written(tmp_path)] == [  # recorded from TensorFlow 2.21
        *((3, tag) for tag in ("a", "h", "i", "s", "t", "traced", "out/b_c", "f/out/f/d", "out/e"))
    ]  # fmt: skip
    with writer_without_step(tmp_path), pytest.warns(UserWarning, match="global step not set"):
        old.scalar("a", 1.0)


def writer_without_step(folder):
    return tf.summary.create_file_writer(str(folder / "another")).as_default()


def test_older_histograms_have_tensorflows_buckets():
    old = tf.compat.v1.summary
    (value,) = in_eager(lambda: old.histogram("h", [1.0, 2.0, 2.0, -3.0, 0.0]))
    assert value.histo.bucket_limit == pytest.approx([  # recorded from TensorFlow 2.21
        -3.166583305388, -2.878712095807, 0.0, 1e-12, 0.91724638904, 1.008971027944, 1.966199095559, 2.162819005114,
        1.7976931348623157e308,
    ], rel=1e-9)  # fmt: skip
    assert list(value.histo.bucket) == [0, 1, 0, 1, 0, 1, 0, 2, 0]
    assert (value.histo.min, value.histo.max, value.histo.num, value.histo.sum_squares) == (-3, 2, 5, 18)
    (empty,) = in_eager(lambda: old.histogram("h", tf.zeros([0])))
    assert (list(empty.histo.bucket), empty.histo.min) == ([0], 1.7976931348623157e308)
    for bad, word in ((float("nan"), "Nan"), (float("inf"), "Infinity")):
        with (
            pytest.raises(tf.errors.InvalidArgumentError, match=f"{word} in summary histogram"),
            pytest.warns(UserWarning, match="writer not found"),
        ):
            old.histogram("h", [bad])


@pytest.mark.parametrize(
    ("pixels", "expected"),
    [  # recorded from TensorFlow 2.21
        (np.float32([[0], [0.5], [1], [2]]), [[0], [63], [127], [255]]),
        (np.float32([[0], [-0.5], [1], [2]]), [[128], [96], [191], [255]]),
        (np.float32([[0, np.nan, 1], [2, 0, 0], [0, 0, 1], [2, 3, 4]]),
         [[255, 0, 0], [127, 0, 0], [0, 0, 63], [127, 191, 255]]),
        (np.float64([[4], [5], [6], [7]]), [[145], [182], [218], [254]]),
        (np.uint8([[0], [1], [2], [3]]), [[0], [1], [2], [3]]),
        (np.float32([[0], [0], [0], [0]]), [[0], [0], [0], [0]]),
    ],
)  # fmt: skip
def test_older_images_are_scaled(pixels, expected):
    (value,) = in_eager(lambda: tf.compat.v1.summary.image("i", pixels.reshape(1, 2, 2, -1), max_outputs=1))
    assert value.tag == "i/image"
    assert tf.io.decode_png(value.image.encoded_image_string).numpy().reshape(4, -1).tolist() == expected


def test_older_sounds_and_texts():
    old = tf.compat.v1.summary
    values = in_eager(lambda: old.audio("s", np.linspace(-1, 1, 8).astype(np.float32).reshape(2, 4), 8000.0))
    assert [(each.tag, each.audio.num_channels, each.audio.length_frames) for each in values] == [
        ("s/audio/0", 1, 4),
        ("s/audio/1", 1, 4),
    ]
    assert values[0].audio.encoded_audio_string[-8:] == b"\x00\x80\x92\xa4%\xc9\xb7\xed"  # TensorFlow's
    (value,) = in_eager(lambda: old.text("t", tf.constant(["a", "b"])))
    assert (value.tag, value.metadata.plugin_data.plugin_name) == ("t", "text")
    assert list(value.tensor.string_val) == [b"a", b"b"]
    with pytest.raises(ValueError, match="to have dtype string"):
        old.text("t", tf.constant(1.0))


def test_file_writers_take_messages_of_any_kind(tmp_path):
    class Other:
        def SerializeToString(self):
            return tf.compat.v1.Summary(value=[{"tag": "x", "simple_value": 1.0}]).SerializeToString()

    old = tf.compat.v1.summary
    with tf.Graph().as_default() as graph:
        tf.constant(1.0, name="one")
        writer = old.FileWriterCache.get(str(tmp_path))
        assert old.FileWriterCache.get(str(tmp_path)) is writer
        writer.add_summary(Other(), 2)
        writer.add_session_log(old.SessionLog(status=1), 3)
        writer.add_graph(graph_def=graph.as_graph_def())
        with pytest.raises(ValueError, match="not both"):
            writer.add_graph(graph, graph_def=graph.as_graph_def())
        with pytest.raises(TypeError, match="must be an instance of `Graph` or `GraphDef`"):
            writer.add_graph("graph")
        old.FileWriterCache.clear()
    events = [event for path in event_files(str(tmp_path)) for event in read_events(path)]
    assert [event.step for event in events] == [0, 0, 2, 3, 0]
    assert [bool(event.graph_def) for event in events] == [False, True, False, False, True]
