"""tf.train: what is saved, what comes back, what is said when it does not; files of TensorFlow's own."""

from __future__ import annotations

import gc
import importlib.util
import json
import logging
import os
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.checkpoint import state, tracking
from gradtape._src.devices import get_graph_mode
from gradtape._src.formats import tensor_bundle as bundle
from gradtape._src.variable import deferred_restores

HERE = Path(__file__).parents[1] / "recorded" / "checkpoints"
RECORDED = json.loads((HERE / "values.json").read_text("utf-8"))  # what TensorFlow reads in its own files
END = "/.ATTRIBUTES/VARIABLE_VALUE"


@pytest.fixture(autouse=True)
def nothing_waits():
    yield
    if deferred_restores:  # for something that only a cycle holds
        gc.collect()
    assert not deferred_restores


@pytest.fixture
def keras():
    if importlib.util.find_spec("keras") is None:
        pytest.skip("Keras is not installed")
    return tf.keras


class Empty(tf.Module):
    pass


def module(**parts):
    made = Empty()
    for name, part in parts.items():
        setattr(made, name, part)
    return made


def keys(path):
    return [key.removesuffix(END) for key, _ in tf.train.list_variables(path) if key != tracking.GRAPH]


def values(path):
    return {key.removesuffix(END): tf.train.load_variable(path, key) for key, _ in tf.train.list_variables(path)}


# -- saving ----------------------------------------------------------------------------------------------------------
def test_names_lead_to_values(tmp_path):
    inner = module(w=tf.Variable([1.0]))
    outer = module(
        items=[tf.Variable(1.0), [tf.Variable(2.0)]],
        pair=(tf.Variable(3.0), (tf.Variable(4.0),)),
        table={"a/b": tf.Variable(5.0), "c.d": tf.Variable(6.0), "": tf.Variable(7.0), "..": tf.Variable(8.0)},
        mixed=[tf.Variable(9.0), 3, "text", None],
        inner=inner,
        number=3,
        array=np.ones(2),
        tensor=tf.constant(1.0),
    )
    path = tf.train.Checkpoint(m=outer, same=inner).write(tmp_path / "one")
    assert keys(path) == [
        "m/items/0",
        "m/items/1/0",
        "m/mixed/0",
        "m/pair/0",
        "m/pair/1/0",
        "m/table/....",
        "m/table/",
        "m/table/a.Sb",
        "m/table/c..d",
        "same/w",
    ]


def test_a_cycle_is_no_problem(tmp_path):
    loop = module(v=tf.Variable(1.0))
    loop.itself = [loop]
    path = tf.train.Checkpoint(a=loop).write(tmp_path / "one")
    loop.v.assign(2.0)
    tf.train.Checkpoint(a=loop).read(path).assert_consumed()
    assert loop.v.numpy() == 1.0


def test_saves_are_counted_and_the_last_is_noted(tmp_path):
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    paths = [checkpoint.save(tmp_path / "ck") for _ in range(2)]
    assert paths == [f"{tmp_path}/ck-1", f"{tmp_path}/ck-2"]
    assert checkpoint.save_counter.numpy() == 2
    assert checkpoint.save_counter.dtype == tf.int64
    assert (tmp_path / "checkpoint").read_text() == (
        'model_checkpoint_path: "ck-2"\nall_model_checkpoint_paths: "ck-2"\n'
    )
    assert tf.train.latest_checkpoint(tmp_path) == paths[1]
    assert sorted(os.listdir(tmp_path)) == [
        "checkpoint",
        "ck-1.data-00000-of-00001",
        "ck-1.index",
        "ck-2.data-00000-of-00001",
        "ck-2.index",
    ]


def test_writing_counts_and_notes_nothing(tmp_path):
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    assert checkpoint.write(str(tmp_path / "ck"), tf.train.CheckpointOptions()) == f"{tmp_path}/ck"
    assert sorted(os.listdir(tmp_path)) == ["ck.data-00000-of-00001", "ck.index"]
    assert keys(tmp_path / "ck") == ["v"]


def test_a_root_lends_its_names(tmp_path):
    root = module(w=tf.Variable([1.0, 2.0]))
    path = tf.train.Checkpoint(root, extra=tf.Variable(3)).save(tmp_path / "ck")
    assert keys(path) == ["extra", "save_counter", "w"]
    other = module(w=tf.Variable([0.0, 0.0]))
    tf.train.Checkpoint(other, extra=tf.Variable(0)).restore(path).assert_consumed()
    assert other.w.numpy().tolist() == [1.0, 2.0]


def test_a_variable_may_be_the_root(tmp_path):
    path = tf.train.Checkpoint(tf.Variable(4.0)).write(tmp_path / "ck")
    assert keys(path) == [""]
    v = tf.Variable(0.0)
    tf.train.Checkpoint(v).read(path).assert_consumed()
    assert v.numpy() == 4.0


@pytest.mark.parametrize("value", [3, "s", None, np.ones(2), object(), len, (1, 2), {1, 2}])
def test_what_is_not_trackable_is_refused(value):
    with pytest.raises(ValueError, match="`Checkpoint` was expecting a to be a trackable object"):
        tf.train.Checkpoint(a=value)


def test_roots_that_are_refused():
    for root in ([tf.Variable(1.0)], {"a": tf.Variable(1.0)}, 1):
        with pytest.raises(ValueError, match="`Checkpoint` was expecting root to be a trackable object"):
            tf.train.Checkpoint(root)
    root = module(a=tf.Variable(1.0))
    tf.train.Checkpoint(root, a=root.a)
    with pytest.raises(ValueError, match=r"keyword argument a if root\.a already exists"):
        tf.train.Checkpoint(root, a=tf.Variable(1.0))


def test_dicts_need_names(tmp_path):
    with pytest.raises(ValueError, match="contains a non-string key which maps to a trackable object"):
        tf.train.Checkpoint(m=module(d={1: tf.Variable(1.0)})).write(tmp_path / "ck")
    tf.train.Checkpoint(m=module(d={1: 2, "v": tf.Variable(1.0)})).write(tmp_path / "ck")


def test_lists_may_change_before_they_are_saved(tmp_path):
    m = module(items=[tf.Variable(1.0)])
    m.items.insert(0, tf.Variable(2.0))
    del m.items[1]
    m.old, m.old = tf.Variable(3.0), 3
    assert keys(tf.train.Checkpoint(m=m).write(tmp_path / "ck")) == ["m/items/0"]


def test_a_failed_save_leaves_everything_as_it_was(tmp_path, monkeypatch):
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    path = checkpoint.save(tmp_path / "ck")
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    checkpoint.v.assign(2.0)
    with pytest.raises(tf.errors.ResourceExhaustedError, match="; No space left on device"):
        checkpoint.save(tmp_path / "ck")
    assert checkpoint.save_counter.numpy() == 1
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == before
    assert tf.train.latest_checkpoint(tmp_path) == path


def test_threads_that_save_get_numbers_of_their_own(tmp_path):
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: checkpoint.save(tmp_path / "ck"), range(12)))
    assert len(set(paths)) == 12
    assert checkpoint.save_counter.numpy() == 12


def test_python_state(tmp_path):
    class Words(tf.train.experimental.PythonState):
        def __init__(self, *words):
            self.words = list(words)

        def serialize(self):
            return json.dumps(self.words)

        def deserialize(self, string_value):
            self.words = json.loads(string_value)

    path = tf.train.Checkpoint(words=Words("a", "ü"), v=tf.Variable(1.0)).write(tmp_path / "ck")
    assert tf.train.load_variable(path, "words/.ATTRIBUTES/py_state") == json.dumps(["a", "ü"]).encode()
    other = tf.train.Checkpoint(words=Words(), v=tf.Variable(0.0))
    other.read(path).assert_consumed()
    assert other.words.words == ["a", "ü"]

    class Broken(Words):
        def deserialize(self, string_value):
            raise RuntimeError("not mine")

    other = tf.train.Checkpoint(v=tf.Variable(0.0), words=Broken())
    with pytest.raises(RuntimeError, match="not mine"):
        other.read(path)
    assert other.v.numpy() == 0.0


def test_generators_and_loss_scales(tmp_path):
    source = tf.random.Generator.from_seed(1)
    scale = tf.mixed_precision.LossScale(8.0)
    path = tf.train.Checkpoint(g=source, scale=scale).write(tmp_path / "ck")
    wanted = source.normal([3]).numpy()
    other, small = tf.random.Generator.from_seed(2), tf.mixed_precision.LossScale(1.0)
    tf.train.Checkpoint(g=other, scale=small).read(path).assert_consumed()
    np.testing.assert_array_equal(other.normal([3]), wanted)
    assert small.loss_scale.numpy() == 8.0


def test_folders_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    with pytest.raises(tf.errors.FailedPreconditionError, match="file; "):
        checkpoint.save(tmp_path / "file" / "ck")
    with pytest.raises((tf.errors.NotFoundError, tf.errors.PermissionDeniedError)):
        checkpoint.save("/proc/nope/ck")
    assert checkpoint.save_counter.numpy() == 0


def test_write_callbacks(tmp_path):
    calls = []

    def with_path(path):
        calls.append((path, os.path.exists(f"{path}.index")))

    options = tf.train.CheckpointOptions(experimental_write_callbacks=[with_path, lambda: calls.append("without")])
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    manager = tf.train.CheckpointManager(checkpoint, tmp_path / "managed", max_to_keep=1)
    paths = [
        checkpoint.write(str(tmp_path / "w"), options),
        checkpoint.save(str(tmp_path / "s"), options=options),
        manager.save(options=options),
    ]
    checkpoint.restore(paths[1], options)
    assert calls == [call for path in paths for call in ((path, True), "without")]

    def fails(path):
        raise KeyError(path)

    with pytest.raises(KeyError):
        checkpoint.save(tmp_path / "s", tf.train.CheckpointOptions(experimental_write_callbacks=[fails]))
    assert tf.train.latest_checkpoint(tmp_path) == f"{tmp_path}/s-2"  # written before, and not lost
    with pytest.raises(AssertionError, match="at most one parameter, the path"):
        tf.train.CheckpointOptions(experimental_write_callbacks=[lambda path, more: None])
    with pytest.raises(TypeError, match="3 is not a callable object"):
        tf.train.CheckpointOptions(experimental_write_callbacks=[3])


# -- restoring -------------------------------------------------------------------------------------------------------
def test_restored_values_and_counter(tmp_path):
    source = tf.train.Checkpoint(a=tf.Variable(1.0), b=tf.Variable([1, 2], dtype=tf.int64))
    path = source.save(tmp_path / "ck")
    other = tf.train.Checkpoint(a=tf.Variable(0.0), b=tf.Variable([0, 0], dtype=tf.int64))
    status = other.restore(path).assert_consumed().assert_existing_objects_matched().assert_nontrivial_match()
    assert status.initialize_or_restore() is None
    assert other.a.numpy() == 1.0
    assert other.b.numpy().tolist() == [1, 2]
    assert other.save(tmp_path / "next").endswith("next-2")


def test_earlier_readings_stay_as_they_were(tmp_path):
    v = tf.Variable([1.0, 2.0])
    checkpoint = tf.train.Checkpoint(v=v)
    path = checkpoint.write(tmp_path / "ck")
    v.assign([3.0, 4.0])
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(v * v)
    checkpoint.read(path)
    assert tape.gradient(y, v).numpy().tolist() == [6.0, 8.0]
    assert v.numpy().tolist() == [1.0, 2.0]


def test_nothing_to_restore():
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    status = checkpoint.restore(None)
    assert status.expect_partial() is status
    for method in ("assert_consumed", "assert_existing_objects_matched", "assert_nontrivial_match"):
        with pytest.raises(AssertionError, match="No checkpoint specified"):
            getattr(status, method)()


def test_a_checkpoint_with_more(tmp_path, caplog):
    path = tf.train.Checkpoint(a=tf.Variable(1.0), m=module(b=tf.Variable(2.0))).save(tmp_path / "ck")
    other = tf.train.Checkpoint(a=tf.Variable(0.0))
    status = other.restore(path).assert_existing_objects_matched()
    with pytest.raises(AssertionError, match=r"Unresolved object in checkpoint \(root\).m.b") as raised:
        status.assert_consumed()
    assert f'checkpoint_key: "m/b{END}"' in str(raised.value)
    with caplog.at_level(logging.WARNING, logger="tensorflow"):
        del status, other, raised
        gc.collect()
    assert "Value in checkpoint could not be found in the restored object: (root).m.b" in caplog.text
    assert "expect_partial" in caplog.text


def test_a_checkpoint_with_more_that_is_expected(tmp_path, caplog):
    path = tf.train.Checkpoint(a=tf.Variable(1.0), b=tf.Variable(2.0)).save(tmp_path / "ck")
    with caplog.at_level(logging.WARNING, logger="tensorflow"):
        tf.train.Checkpoint(a=tf.Variable(0.0)).restore(path).expect_partial()
        gc.collect()
    assert not caplog.text


def test_objects_without_a_value(tmp_path):
    path = tf.train.Checkpoint(a=tf.Variable(1.0)).write(tmp_path / "ck")
    other = tf.train.Checkpoint(a=tf.Variable(0.0), b=tf.Variable(5.0, name="mine"))
    status = other.read(path)
    for check in (status.assert_consumed, status.assert_existing_objects_matched):
        with pytest.raises(AssertionError, match=r"Found 1 Python objects that were not bound.*'mine:0'"):
            check()
    status.assert_nontrivial_match()
    lonely = tf.train.Checkpoint(z=tf.Variable(0.0)).read(path).expect_partial()
    with pytest.raises(AssertionError, match="Nothing except the root object matched a checkpointed value"):
        lonely.assert_nontrivial_match()
    empty = tf.train.Checkpoint().read(path).expect_partial()
    with pytest.raises(AssertionError, match="No dependencies have been added"):
        empty.assert_nontrivial_match()


def test_an_object_of_another_kind(tmp_path):
    path = tf.train.Checkpoint(a=tf.Variable(1.0)).write(tmp_path / "ck")
    status = tf.train.Checkpoint(a=module()).read(path).expect_partial()
    with pytest.raises(AssertionError, match=r"Unused attributes in these objects.*\n\(root\).a: \['VARIABLE_VALUE'\]"):
        status.assert_consumed()


def test_a_value_that_does_not_fit_changes_nothing(tmp_path):
    path = tf.train.Checkpoint(a=tf.Variable(1.0), b=tf.Variable([1.0, 2.0])).write(tmp_path / "ck")
    other = tf.train.Checkpoint(a=tf.Variable(0.0), b=tf.Variable([0.0] * 3, name="bias"))
    with pytest.raises(ValueError, match=r"incompatible tensor with shape \(2,\).*with shape \(3,\) and name bias:0"):
        other.read(path)
    assert other.a.numpy() == 0.0
    other.b = tf.Variable(["s", "t"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected dtype string does not equal original"):
        other.read(path)
    assert other.a.numpy() == 0.0
    other.b = tf.Variable([0.0] * 3, shape=tf.TensorShape([None]))
    other.read(path).assert_consumed()
    assert other.b.numpy().tolist() == [1.0, 2.0]


def test_whole_numbers_may_change_their_width(tmp_path):
    path = tf.train.Checkpoint(n=tf.Variable([7, 300], dtype=tf.int64)).write(tmp_path / "ck")
    narrow = tf.train.Checkpoint(n=tf.Variable([0, 0], dtype=tf.int32))
    narrow.read(path).assert_consumed()
    assert narrow.n.numpy().tolist() == [7, 300]
    assert narrow.n.dtype == tf.int32
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected dtype uint8 does not equal original"):
        tf.train.Checkpoint(n=tf.Variable([0, 0], dtype=tf.uint8)).read(path)


def test_one_value_for_two_variables_and_the_other_way_round(tmp_path):
    v = tf.Variable(3.0)
    path = tf.train.Checkpoint(a=v, b=v).write(tmp_path / "one")
    two = tf.train.Checkpoint(a=tf.Variable(0.0), b=tf.Variable(0.0))
    two.read(path)
    assert (two.a.numpy(), two.b.numpy()) == (3.0, 0.0)
    path = tf.train.Checkpoint(a=tf.Variable(1.0), b=tf.Variable(2.0)).write(tmp_path / "two")
    v = tf.Variable(0.0)
    tf.train.Checkpoint(a=v, b=v).read(path).assert_consumed()
    assert v.numpy() == 1.0


def test_paths_that_are_wrong(tmp_path):
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    checkpoint.save(tmp_path / "ck")
    with pytest.raises(tf.errors.NotFoundError, match="Failed to find any matching files") as raised:
        checkpoint.restore(tmp_path / "ck")
    assert "You may be missing the checkpoint suffix" in raised.value.message
    assert "ck-1" in raised.value.message
    with pytest.raises(tf.errors.NotFoundError, match="latest_checkpoint"):
        checkpoint.restore(tmp_path)
    with pytest.raises(TypeError):
        checkpoint.restore(3)


def test_a_checkpoint_without_objects(tmp_path):
    bundle.write(str(tmp_path / "old"), {"weights": np.ones(2, np.float32)})
    with pytest.raises(ValueError, match="load_checkpoint"):
        tf.train.Checkpoint(v=tf.Variable(1.0)).restore(tmp_path / "old")
    assert tf.train.load_variable(tmp_path / "old", "weights:0").tolist() == [1.0, 1.0]


def test_damaged_data_changes_nothing(tmp_path):
    checkpoint = tf.train.Checkpoint(a=tf.Variable([1.0] * 8), b=tf.Variable([2.0] * 8))
    path = checkpoint.write(tmp_path / "ck")
    data = Path(f"{path}.data-00000-of-00001")
    content = bytearray(data.read_bytes())
    at = content.index(np.full(8, 2.0, np.float32).tobytes())
    content[at] ^= 1
    data.write_bytes(content)
    checkpoint.a.assign([0.0] * 8)
    with pytest.raises(tf.errors.DataLossError):
        checkpoint.read(path)
    assert checkpoint.a.numpy().tolist() == [0.0] * 8


def test_inside_of_a_function(tmp_path):
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    pytest.importorskip("jax")
    for use in (lambda: checkpoint.save(tmp_path / "ck"), lambda: checkpoint.read(tmp_path / "ck")):
        with pytest.raises(NotImplementedError, match="from a function is not supported"):
            tf.function(use)()
    assert not os.listdir(tmp_path)


def test_a_function_goes_on_with_restored_values(tmp_path):
    v = tf.Variable([0.0, 0.0])
    step = tf.function(lambda: v.assign_add([1.0, 1.0]))
    checkpoint = tf.train.Checkpoint(v=v)
    step()
    path = checkpoint.save(tmp_path / "ck")
    step()
    checkpoint.restore(path)
    assert v.numpy().tolist() == [1.0, 1.0]
    step()
    assert v.numpy().tolist() == [2.0, 2.0]


# -- what does not exist yet -----------------------------------------------------------------------------------------
@pytest.fixture
def saved(tmp_path):
    source = module(
        w=tf.Variable([1.0]),
        items=[tf.Variable(2.0), [tf.Variable(3.0)]],
        table={"k": tf.Variable(4.0)},
        sub=module(v=tf.Variable(5.0)),
    )
    return tf.train.Checkpoint(m=source, step=tf.Variable(6)).save(tmp_path / "ck")


def test_attributes_that_come_later(saved):
    m = Empty()
    checkpoint = tf.train.Checkpoint(m=m)
    status = checkpoint.restore(saved)
    m.w = tf.Variable([0.0])
    assert m.w.numpy().tolist() == [1.0]
    m.w = tf.Variable([9.0])  # only the first one gets it
    assert m.w.numpy().tolist() == [9.0]
    m.items = []
    m.items.append(tf.Variable(0.0))
    m.items.append([tf.Variable(0.0)])
    assert (m.items[0].numpy(), m.items[1][0].numpy()) == (2.0, 3.0)
    m.table = {}
    m.table["k"] = tf.Variable(0.0)
    m.sub = module(v=tf.Variable(0.0))
    assert (m.table["k"] + m.sub.v).numpy() == 9.0
    with pytest.raises(AssertionError, match=r"\(root\).step"):
        status.assert_consumed()
    checkpoint.step = tf.Variable(0)
    assert checkpoint.step.numpy() == 6
    assert not deferred_restores


def test_variables_read_before_they_are_attached(saved):
    m = Empty()
    tf.train.Checkpoint(m=m).restore(saved).expect_partial()
    v = tf.Variable([0.0])
    assert v.numpy().tolist() == [0.0]
    m.w = v
    assert v.numpy().tolist() == [1.0]


@pytest.fixture(params=["numpy", "lazy", "xla"])
def engine(request):
    """What eager code computes with."""
    if request.param == "xla":
        pytest.importorskip("jax")
    before = get_graph_mode()
    tf.config.set_engine("xla" if request.param == "xla" else "numpy")
    tf.config.set_graph_mode("auto" if request.param == "lazy" else "off")
    yield request.param
    tf.config.set_engine("numpy")
    tf.config.set_graph_mode(before)


class Hidden:
    """Tells nobody of what is attached to it, as the objects of Keras do."""

    def __init__(self):
        self.parts = {}

    def _trackable_children(self):
        return self.parts


@pytest.mark.parametrize("how", ["eager", "function"])
def test_the_first_read_has_the_restored_value(tmp_path, engine, how):
    """Of every engine, also of the variable that was created last."""
    source = Hidden()
    source.parts = {"a": tf.Variable([1.0, 2.0]), "b": tf.Variable([3.0, 4.0])}
    path = tf.train.Checkpoint(hidden=source).save(tmp_path / "ckpt")
    target = Hidden()
    status = tf.train.Checkpoint(hidden=target).restore(path)
    for name in ("a", "b"):
        target.parts[name] = tf.Variable(tf.zeros([2]) + 0.0)

    def total():
        return target.parts["b"] + target.parts["a"]

    assert (tf.function(total) if how == "function" else total)().numpy().tolist() == [4.0, 6.0]
    status.assert_consumed()


def test_parts_outlive_the_checkpoint_and_the_status(saved):
    m = Empty()
    tf.train.Checkpoint(m=m).restore(saved).expect_partial()
    gc.collect()
    m.w = tf.Variable([0.0])
    assert m.w.numpy().tolist() == [1.0]
    gone = weakref.ref(m)
    del m
    assert gone() is None
    assert not deferred_restores


def test_the_newest_restoration_wins(tmp_path):
    paths = [tf.train.Checkpoint(v=tf.Variable(x)).write(tmp_path / f"ck{x}") for x in (10.0, 20.0)]
    checkpoint = tf.train.Checkpoint()
    for path in paths:
        checkpoint.read(path)
    checkpoint.v = tf.Variable(0.0)
    assert checkpoint.v.numpy() == 20.0


def test_what_does_not_fit_is_not_attached(saved):
    m = Empty()
    tf.train.Checkpoint(m=m).restore(saved).expect_partial()
    with pytest.raises(ValueError, match="incompatible tensor"):
        m.w = tf.Variable([1.0, 2.0])
    assert not hasattr(m, "w")
    m.sub = module(v=tf.Variable(0.0))  # the others come all the same
    assert m.sub.v.numpy() == 5.0
    m.items = []
    m.items.append(tf.Variable([1.0, 2.0]))
    with pytest.raises(ValueError, match="incompatible tensor"):
        m.items[0].numpy()
    assert m.items[0].numpy().tolist() == [1.0, 2.0]  # it is said once
    m.table = {"k": tf.Variable(0.0)}
    assert m.table["k"].numpy() == 4.0


def test_variables_that_a_function_reads_first(saved):
    m = Empty()
    tf.train.Checkpoint(m=m).restore(saved).expect_partial()
    m.items = []
    m.items.append(tf.Variable(0.0))  # nobody notices
    double = tf.function(lambda: 2.0 * m.items[0])
    assert double().numpy() == 4.0
    m.items.append([tf.Variable(0.0)])
    add = tf.function(lambda: m.items[1][0].assign_add(1.0))
    add()
    assert m.items[1][0].numpy() == 4.0


class Bias(tf.Module):
    def __init__(self):
        super().__init__()
        self.b = None

    def __call__(self, x):
        if self.b is None:
            self.b = tf.Variable([0.0], name="b")
        return x + self.b


@pytest.mark.parametrize("in_function", [False, True])
@pytest.mark.parametrize("devices", [0, 1, 2])
def test_variables_that_a_function_creates(tmp_path, devices, in_function):
    first = Bias()
    first(0.0)
    first.b.assign([7.0])
    path = tf.train.Checkpoint(module=first).save(tmp_path / "ck")
    strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(devices)]) if devices else None
    second = Bias()
    forward = (lambda: strategy.run(lambda: second(2.0))) if strategy else (lambda: second(2.0))
    status = tf.train.Checkpoint(module=second).restore(path)
    result = (tf.function(forward) if in_function else forward)()
    results = strategy.experimental_local_results(result) if strategy else [result]
    assert [each.numpy().tolist() for each in results] == [[9.0]] * max(devices, 1)
    assert second.b.read_value().numpy().tolist() == [7.0]
    status.assert_consumed()


def test_files_that_are_gone_by_then(saved):
    m = Empty()
    tf.train.Checkpoint(m=m).restore(saved).expect_partial()
    os.remove(f"{saved}.data-00000-of-00001")
    with pytest.raises(tf.errors.OpError):
        m.w = tf.Variable([0.0])


# -- managers and state ----------------------------------------------------------------------------------------------
def test_a_manager_keeps_the_last_ones(tmp_path):
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    manager = tf.train.CheckpointManager(checkpoint, tmp_path / "new", max_to_keep=2)
    assert (manager.checkpoints, manager.latest_checkpoint) == ([], None)
    paths = [manager.save() for _ in range(3)]
    assert manager.checkpoints == paths[1:]
    assert manager.latest_checkpoint == paths[2] == f"{tmp_path}/new/ckpt-3"
    assert sorted(os.listdir(tmp_path / "new")) == [
        "checkpoint",
        "ckpt-2.data-00000-of-00001",
        "ckpt-2.index",
        "ckpt-3.data-00000-of-00001",
        "ckpt-3.index",
    ]
    (tmp_path / "new" / "ckpt-2.notes").write_text("mine")
    assert manager.save(checkpoint_number=100).endswith("ckpt-100")
    assert manager.save(tf.constant(7)).endswith("ckpt-7")
    assert manager.save().endswith("ckpt-6")
    assert (tmp_path / "new" / "ckpt-2.notes").exists()
    os.rename(tmp_path / "new", tmp_path / "moved")
    again = tf.train.CheckpointManager(checkpoint, tmp_path / "moved", max_to_keep=2)
    assert again.checkpoints == [f"{tmp_path}/moved/ckpt-7", f"{tmp_path}/moved/ckpt-6"]
    assert again.latest_checkpoint == tf.train.latest_checkpoint(tmp_path / "moved") == f"{tmp_path}/moved/ckpt-6"
    assert again.directory == str(tmp_path / "moved")


def test_a_manager_keeps_some_for_good(tmp_path, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    manager = tf.train.CheckpointManager(checkpoint, tmp_path, 1, keep_checkpoint_every_n_hours=1.0)
    for _ in range(7):
        manager.save()
        now[0] += 1800
    left = sorted(name.removesuffix(".index") for name in os.listdir(tmp_path) if name.endswith(".index"))
    assert left == ["ckpt-3", "ckpt-5", "ckpt-7"]
    assert [path.rpartition("/")[2] for path in manager.checkpoints] == ["ckpt-7"]


def test_a_manager_that_decides_when(tmp_path):
    step = tf.Variable(0)
    checkpoint = tf.train.Checkpoint(step=step)
    manager = tf.train.CheckpointManager(checkpoint, tmp_path, None, step_counter=step, checkpoint_interval=3)
    saved = []
    for _ in range(8):
        saved.append(manager.save() is not None)
        step.assign_add(1)
    assert saved == [True, False, False, True, False, False, True, False]
    assert manager.checkpoint_interval == 3
    assert manager.save(check_interval=False) is not None
    assert manager.save(check_interval=False) is None


def test_a_manager_that_begins_or_goes_on(tmp_path):
    calls = []
    checkpoint = tf.train.Checkpoint(v=tf.Variable(5.0))
    manager = tf.train.CheckpointManager(checkpoint, tmp_path, 2, init_fn=lambda: calls.append(1))
    assert manager.restore_or_initialize() is None
    path = manager.save()
    checkpoint.v.assign(0.0)
    assert manager.restore_or_initialize() == path
    assert checkpoint.v.numpy() == 5.0
    assert calls == [1]


def test_managers_refuse():
    checkpoint = tf.train.Checkpoint()
    with pytest.raises(ValueError, match="Expected a positive integer or `None` for `max_to_keep`, got 0"):
        tf.train.CheckpointManager(checkpoint, "x", max_to_keep=0)
    with pytest.raises(ValueError, match="`step_counter` should be passed if `checkpoint_interval` is not None"):
        tf.train.CheckpointManager(checkpoint, "x", max_to_keep=1, checkpoint_interval=2)
    with pytest.raises(TypeError):
        tf.train.CheckpointManager(checkpoint, "x")


def test_state_files(tmp_path, caplog):
    assert tf.train.get_checkpoint_state(tmp_path) is None
    odd = f'{tmp_path}/we"ird\\o\nne-1'
    state.update_checkpoint_state(tmp_path, odd, [odd, "/elsewhere/two"], all_model_checkpoint_timestamps=[1.5, 2.0])
    found = tf.train.get_checkpoint_state(tmp_path)
    assert found.model_checkpoint_path == odd
    assert found.all_model_checkpoint_paths == [odd, "/elsewhere/two"]
    assert found.all_model_checkpoint_timestamps == [1.5, 2.0]
    assert tf.train.latest_checkpoint(tmp_path) is None  # it is noted, and not there
    assert "Couldn't match files" in caplog.text
    (tmp_path / "checkpoint").write_text("# mine\nmodel_checkpoint_path: 'a-1' last_preserved_timestamp: 2  # later\n")
    assert tf.train.get_checkpoint_state(tmp_path).model_checkpoint_path == f"{tmp_path}/a-1"
    assert tf.train.get_checkpoint_state(tmp_path).last_preserved_timestamp == 2.0
    (tmp_path / "checkpoint").write_text("hello world")
    assert tf.train.latest_checkpoint(tmp_path) is None
    assert "Checkpoint ignored" in caplog.text
    (tmp_path / "checkpoint").write_text("")
    with pytest.raises(ValueError, match="Invalid checkpoint state"):
        tf.train.latest_checkpoint(tmp_path)
    with pytest.raises(ValueError, match="must match checkpoint paths"):
        state.update_checkpoint_state(tmp_path, "a", ["a"], all_model_checkpoint_timestamps=[1.0, 2.0])


def test_new_checkpoints_as_they_come(tmp_path):
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    first = checkpoint.save(tmp_path / "ck")
    seen = []
    for path in tf.train.checkpoints_iterator(tmp_path, timeout=0.2):
        seen.append(path)
        if len(seen) < 3:
            checkpoint.save(tmp_path / "ck")
    assert seen == [first, f"{tmp_path}/ck-2", f"{tmp_path}/ck-3"]
    answers = [False, True]
    assert list(tf.train.checkpoints_iterator(tmp_path / "none", timeout=0.05, timeout_fn=lambda: answers.pop(0))) == []
    assert answers == []


# -- looking into files ----------------------------------------------------------------------------------------------
def test_readers(tmp_path):
    checkpoint = tf.train.Checkpoint(a=tf.Variable([1, 2]), s=tf.Variable("text"))
    path = checkpoint.save(tmp_path / "ck")
    reader = tf.train.load_checkpoint(tmp_path)
    assert reader.has_tensor(f"a{END}")
    assert not reader.has_tensor("nope")
    assert reader.get_tensor(f"a{END}").tolist() == [1, 2]
    assert reader.get_tensor(f"s{END}") == b"text"
    assert reader.get_variable_to_shape_map()[f"a{END}"] == [2]
    assert reader.get_variable_to_dtype_map()[f"a{END}"] == tf.int32
    assert f"a{END} (DT_INT32) [2]\n" in reader.debug_string().decode()
    assert type(tf.train.load_variable(path, f"save_counter{END}")) is np.int64
    with pytest.raises(tf.errors.NotFoundError, match="Key nope not found in checkpoint"):
        reader.get_tensor("nope")
    with pytest.raises(ValueError, match="Couldn't find 'checkpoint' file or checkpoints in given directory"):
        tf.train.list_variables(tmp_path / "..")


# -- TensorFlow's own files ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["module", "lists", "keras"])
def test_values_in_files_of_tensorflow(name):
    wanted = RECORDED[name]
    found = tf.train.load_checkpoint(HERE / f"{name}-1")
    dtypes = found.get_variable_to_dtype_map()
    assert set(dtypes) - {tracking.GRAPH} == set(wanted)
    for key, facts in wanted.items():
        value = np.asarray(found.get_tensor(key))
        assert dtypes[key].name == facts["dtype"]
        assert list(value.shape) == facts["shape"]
        flat = [v.decode() if isinstance(v, bytes) else v for v in value.ravel().tolist()]
        if value.dtype.kind == "c":
            flat = [[v.real, v.imag] for v in flat]
        assert flat == facts["flat"], key


def test_objects_in_files_of_tensorflow():
    inner = module(scale=tf.Variable(np.zeros((2, 2), np.float32)))
    outer = module(
        w=tf.Variable([0.0] * 3),
        inner=inner,
        again=inner.scale,
        steps=tf.Variable(0, dtype=tf.int64),
        f64=tf.Variable(0.0, dtype=tf.float64),
        half=tf.Variable(0.0, dtype=tf.float16),
        bf16=tf.Variable(tf.cast([0.0, 0.0], tf.bfloat16)),
        flag=tf.Variable([False, True]),
        cplx=tf.Variable(0j, dtype=tf.complex64),
        text=tf.Variable(["", "", ""]),
        empty=tf.Variable(np.zeros((0, 3), np.float32)),
        u8=tf.Variable([0, 0], dtype=tf.uint8),
        table={"plain": tf.Variable(0.0), "a/b": tf.Variable(0.0), "c.d": tf.Variable(0.0)},
    )
    tf.train.Checkpoint(module=outer, extra=tf.Variable(0)).restore(HERE / "module-1").assert_consumed()
    assert outer.inner.scale.numpy().tolist() == [[1.5, -2.0], [0.25, 8.0]]
    assert [v.decode() for v in outer.text.numpy()] == ["a", "", "grüß"]
    assert outer.table["a/b"].numpy() == 2.0
    root = tf.train.Checkpoint(items=[], table={"x": tf.Variable(0.0), "nested": {"y": [tf.Variable(0.0)]}})
    root.restore(HERE / "lists-1").expect_partial()
    root.items.append(tf.Variable(0.0))
    assert root.items[0].numpy() == 1.0
    assert root.table["nested"]["y"][0].numpy() == 8.0


@pytest.mark.parametrize("built", [True, False])
def test_keras_in_files_of_tensorflow(keras, built):
    model = keras.Sequential([keras.layers.Dense(3), keras.layers.Dense(2)])
    optimizer = keras.optimizers.Adam(0.5)
    x = np.array([[1, 0, -1, 2], [0.5, 1, 0, -1]], np.float32)
    y = np.array([[1, 0], [0, 1]], np.float32)

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return float(loss)

    if built:
        step()
    status = tf.train.Checkpoint(model=model, optimizer=optimizer).restore(HERE / "keras-1")
    np.testing.assert_allclose(model(x), RECORDED["keras_prediction_after_step"], rtol=1e-6)
    assert step() == pytest.approx(RECORDED["keras_loss_before_second_step"], rel=1e-6)
    np.testing.assert_allclose(model(x), RECORDED["keras_prediction_after_second_step"], rtol=1e-5)
    status.assert_consumed()
    assert int(optimizer.iterations) == 2


# -- Keras -----------------------------------------------------------------------------------------------------------
def test_keras_names_are_those_that_tensorflow_writes(keras, tmp_path):
    model = keras.Sequential([keras.layers.Dense(3), keras.layers.Dense(2)])
    optimizer = keras.optimizers.Adam()
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(tf.ones([2, 4])))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.variables), model.variables, strict=True))
    path = tf.train.Checkpoint(model=model, optimizer=optimizer).save(tmp_path / "ck")
    assert tf.train.list_variables(path) == tf.train.list_variables(HERE / "keras-1")
    dtypes = [tf.train.load_checkpoint(p).get_variable_to_dtype_map() for p in (path, HERE / "keras-1")]
    assert dtypes[0] == dtypes[1]


def test_all_of_a_keras_model_is_saved(keras, tmp_path):

    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.blocks = [keras.layers.Dense(2), keras.layers.Dense(2)]
            self.by_name = {"norm": keras.layers.BatchNormalization()}
            self.scale = tf.Variable(2.0)

        def build(self, shape):
            self.add_weight(shape=(2,), name="anonymous", initializer="ones")

        def call(self, x):
            for block in self.blocks:
                x = block(x)
            return self.by_name["norm"](x) * self.scale + self.weights[0]

    model, other = Model(), Model()
    x = np.ones((3, 2), np.float32)
    model(x)
    for i, v in enumerate(model.variables):
        v.assign(v + 0.5 * (i + 1))
    path = tf.train.Checkpoint(model=model).save(tmp_path / "ck")
    assert "model/blocks/1/_kernel" in keys(path)
    status = tf.train.Checkpoint(model=other).restore(path)
    other(x)
    status.assert_consumed()
    for a, b in zip(model.variables, other.variables, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(model(x), other(x))


def test_training_goes_on_where_it_was(keras, tmp_path):
    x = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
    y = x @ np.array([[1.0], [2.0], [3.0]], np.float32)

    def compiled():
        keras.utils.set_random_seed(3)
        model = keras.Sequential([keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(1)])
        model.compile("adam", "mse")
        return model

    straight, first, second = compiled(), compiled(), compiled()
    straight.fit(x, y, epochs=4, batch_size=16, shuffle=False, verbose=0)
    first.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
    path = tf.train.Checkpoint(first).save(tmp_path / "ck")
    status = tf.train.Checkpoint(second).restore(path)
    second.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
    status.assert_consumed()
    for a, b in zip(straight.variables, second.variables, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)


def test_keras_metrics_are_refused(keras):
    with pytest.raises(ValueError, match="trackable"):
        tf.train.Checkpoint(m=keras.metrics.Mean())
