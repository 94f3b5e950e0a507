"""`tensorflow.python.*` under the alias: a table of public names."""

from __future__ import annotations

import subprocess
import sys

import pytest

import gradtape as tf
from gradtape._src.hooks import tensorflow_python

LATER = {"saved_model.load", "saved_model.save", "ops.template", "ops.rnn"}
"""Modules whose names wait for namespaces that gradtape does not have yet."""


@pytest.mark.parametrize("path", sorted(set(tensorflow_python.TABLE) - LATER))
def test_every_entry_of_the_table_leads_to_something(path):
    for where in tensorflow_python.TABLE[path].split():
        public = where.partition("=")[2] or where
        if public.startswith(("tf.keras", "tf.compat.v1.flags", "tf.compat.v1.app")):
            continue  # of packages that may be missing
        assert tensorflow_python._public(public) is not None, where


def test_programs_import_private_modules():
    program = """
import gradtape
gradtape.install_as_tensorflow()
import tensorflow as tf
import tensorflow.python.ops.math_ops as m
from tensorflow.python.framework import ops, dtypes, tensor_shape
from tensorflow.python.framework.ops import convert_to_tensor
from tensorflow.python.ops import array_ops, control_flow_ops, gen_math_ops
from tensorflow.python.eager import backprop, context
from tensorflow.python.client import device_lib
from tensorflow.python.util import nest
assert array_ops.concat is tf.concat and m.reduce_sum is tf.reduce_sum and gen_math_ops.mat_mul is tf.matmul
assert ops.EagerTensor is tf.Tensor and dtypes.float32 is tf.float32 and convert_to_tensor is tf.convert_to_tensor
assert backprop.GradientTape is tf.GradientTape and context.executing_eagerly() and nest.flatten is tf.nest.flatten
assert tensor_shape.as_shape([1]).rank == 1 and control_flow_ops.cond is tf.cond
assert device_lib.list_local_devices()[0].device_type == 'CPU'
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("import tensorflow.python.pywrap_tensorflow", "TensorFlow's private code"),
        ("import tensorflow.python.ops.nothing", "TensorFlow's private code"),
        ("import tensorflow.core.framework", "TensorFlow's private code"),
        ("import tensorflow.contrib", "tf.contrib is not in gradtape: it was removed in TensorFlow 2"),
        ("import tensorflow.estimator", "tf.estimator is not in gradtape: it was removed"),
        ("import tensorflow.summry", "Did you mean 'tensorflow.summary'"),
        ("import tensorflow as t; t.contrib", "tf.contrib is not in gradtape"),
        ("import tensorflow as t; t.placeholder", "tf.placeholder is of TensorFlow 1"),
        ("from tensorflow.python.ops import array_ops; array_ops.nothing", "TensorFlow's private code"),
    ],
)
def test_what_is_missing_says_so(statement, words):
    tf.install_as_tensorflow()
    try:
        with pytest.raises((ImportError, AttributeError), match=words):
            exec(statement, {})
    finally:
        from gradtape._src.hooks.tensorflow import uninstall_as_tensorflow

        uninstall_as_tensorflow()


def test_settings_are_read_where_libraries_read_them():
    import gradtape as tf
    from gradtape._src.hooks.tensorflow_python import find

    context, config = find("eager.context"), find("framework.config")
    tf.random.set_seed(5)
    assert context.global_seed() == 5
    tf.random.set_seed(None)
    assert context.global_seed() is None
    before = tf.config.optimizer.get_jit()
    config.enable_op_determinism()
    assert config.is_op_determinism_enabled()
    config.disable_op_determinism()
    assert not config.is_op_determinism_enabled()
    assert tf.config.optimizer.get_jit() == before


def test_sizes_of_convolutions_are_those_of_keras_2():
    from gradtape._src.hooks.tensorflow_python import find

    sizes = find("keras.utils.conv_utils")
    assert sizes.normalize_tuple((3, 5), 2, "kernel_size") == (3, 5)
    with pytest.raises(ValueError, match="tuple of 2 integers"):
        sizes.normalize_tuple((3, 5, 7), 2, "kernel_size")
    assert sizes.conv_output_length(10, 3, "valid", 1, dilation=2) == 6
    assert find("keras.utils").to_categorical is not None


def test_limits_of_dtypes_take_tensorflows():
    import gradtape as tf

    tnp = tf.experimental.numpy
    assert tnp.finfo(tf.float16).eps == tnp.finfo("float16").eps
    assert tnp.iinfo(tf.int8).max == 127
    assert tnp.issubdtype(tf.int32, tnp.int32)
