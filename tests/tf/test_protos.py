"""Messages of tensors, names of devices, AutoGraph by hand, profiles, switches."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest

import gradtape as tf


@pytest.mark.parametrize(
    "value",
    [1.5, [1, 2], [[True], [False]], "text", ["a", "b"], np.zeros((0, 2), np.float64), np.float16(2), 3 + 4j],
    ids=str,
)
def test_tensors_as_messages(value):
    message = tf.make_tensor_proto(value)
    again = tf.make_ndarray(type(message).FromString(message.SerializeToString()))
    expected = tf.constant(value)
    assert again.shape == tuple(expected.shape)
    assert again.tolist() == np.asarray(expected.numpy(), object).tolist()


def test_messages_of_one_value_and_shapes():
    assert list(tf.make_tensor_proto(2.5).float_val) == [2.5]
    assert tf.make_ndarray(tf.make_tensor_proto(1, dtype=tf.int64, shape=[2], allow_broadcast=True)).tolist() == [1, 1]
    with pytest.raises(TypeError, match="Expected Tensor's shape"):
        tf.make_tensor_proto([1, 2], shape=[3], verify_shape=True)
    with pytest.raises(TypeError, match="Expected Tensor's shape"):
        tf.make_tensor_proto([1, 2], shape=[3], allow_broadcast=True)
    with pytest.raises(ValueError, match=r"Too many elements provided\. Takes at most 1, but got 2"):
        tf.make_tensor_proto([1, 2], shape=[1])


KINDS = ["bfloat16", "bool", "complex64", "complex128", "float16", "float32", "float64"]
KINDS += [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


@pytest.mark.parametrize("dtype", KINDS)
def test_the_last_value_of_a_message_fills_its_shape(dtype):
    values = [False, True] if dtype == "bool" else [0, 1]
    message = tf.make_tensor_proto(values, dtype, shape=[2, 2])
    assert not message.tensor_content
    assert tf.make_ndarray(message).tolist() == tf.cast([[0, 1], [1, 1]], dtype).numpy().tolist()
    one = tf.make_tensor_proto(values[1], dtype)
    assert not one.tensor_content
    assert tf.make_ndarray(one) == tf.cast(1, dtype).numpy()
    if dtype in ("float16", "bfloat16"):
        assert list(one.half_val) == [{"float16": 15360, "bfloat16": 16256}[dtype]]


def test_names_of_devices():
    spec = tf.DeviceSpec.from_string("/job:worker/replica:1/task:2/device:GPU:3")
    assert (spec.job, spec.replica, spec.task, spec.device_type, spec.device_index) == ("worker", 1, 2, "GPU", 3)
    assert spec.to_string() == "/job:worker/replica:1/task:2/device:GPU:3"
    assert str(spec) == "<DeviceSpec(job=worker, replica=1, task=2, device_type=GPU, device_index=3)>"
    assert spec.replace(device_type="cpu", device_index=None).to_string().endswith("/device:CPU:*")
    assert spec.make_merged_spec(tf.DeviceSpec(task=5)).task == 5
    assert tf.DeviceSpec.from_string("/CPU:0") == tf.DeviceSpec(device_type="CPU", device_index=0)
    with tf.device(tf.DeviceSpec(device_type="CPU", device_index=0)):
        assert tf.constant(1.0).device.endswith("CPU:0")
    with pytest.raises(ValueError, match="Unknown attribute 'nothing'"):
        tf.DeviceSpec.from_string("/nothing:1")


def positive(x):
    if x > 0:  # noqa: SIM108 - to be converted
        y = x
    else:
        y = -x
    return y


def test_autograph_by_hand():
    assert "if_stmt" in tf.autograph.to_code(positive)
    assert float(tf.autograph.to_graph(positive)(tf.constant(-2.0))) == 2.0


def test_profiles(tmp_path):
    with pytest.raises(tf.errors.UnavailableError, match="No profiler is running"):
        tf.profiler.experimental.stop()
    with tf.profiler.experimental.Profile(str(tmp_path)), tf.profiler.experimental.Trace("step", step_num=1):
        tf.constant(1.0) + 1.0
        with pytest.raises(tf.errors.AlreadyExistsError, match="Another profiler is running"):
            tf.profiler.experimental.start(str(tmp_path))
    assert any(name.endswith(".pb") for _, _, names in os.walk(tmp_path) for name in names)


def test_switches():
    experimental = tf.config.experimental
    assert experimental.get_synchronous_execution()
    experimental.set_synchronous_execution(False)
    assert not experimental.get_synchronous_execution()
    experimental.set_synchronous_execution(None)
    assert experimental.tensor_float_32_execution_enabled()
    experimental.enable_mlir_bridge()


def test_graphs_of_tensorflow_1():
    graph = tf.function(lambda x: x).get_concrete_function(tf.constant(1.0)).graph
    assert isinstance(graph, tf.Graph)
    with pytest.raises(RuntimeError, match="is complete: nothing can be added to it"):
        graph.as_default()


def test_types():
    assert isinstance(tf.function(lambda: 1), tf.types.experimental.GenericFunction)


def test_device_names_have_one_type():
    assert tf.DeviceSpec.from_string("/job:muu/device:MyFunnyDevice:2").to_string() == "/job:muu/device:MyFunnyDevice:2"
    assert tf.DeviceSpec.from_string("/cpu:0").device_type == "CPU"
    with pytest.raises(ValueError, match="Multiple device types are not allowed while parsing the device spec"):
        tf.DeviceSpec.from_string("/job:muu/device:GPU:2/cpu:0")


def test_dimensions_are_true_unless_zero_and_can_be_pickled():
    dimension = tf.compat.v1.Dimension
    assert [bool(dimension(n)) for n in (0, 1, None)] == [False, True, False]
    assert pickle.loads(pickle.dumps(dimension(3))).value == 3
