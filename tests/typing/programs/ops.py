"""Functions of tensors give tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
from typing_extensions import assert_type

import gradtape as tf

x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
assert_type(x, tf.Tensor)
assert_type(tf.tanh(x), tf.Tensor)
assert_type(tf.nn.relu([1.0, -1.0]), tf.Tensor)
assert_type(tf.math.softplus(0.5), tf.Tensor)
assert_type(tf.add(x, 1), tf.Tensor)
assert_type(tf.maximum(x, np.zeros((2, 2), np.float32)), tf.Tensor)
assert_type(tf.reduce_sum(x, axis=[0, 1], keepdims=True), tf.Tensor)
assert_type(tf.matmul(x, x, transpose_b=True), tf.Tensor)
assert_type(tf.einsum("ij,jk->ik", x, x), tf.Tensor)
assert_type(tf.where(x > 1.0, x, tf.zeros_like(x)), tf.Tensor)
assert_type(tf.cast(x, "int32"), tf.Tensor)
assert_type(tf.stack([x, x]), tf.Tensor)
assert_type(tf.concat([x, x], axis=0), tf.Tensor)
assert_type(tf.split(x, 2), list[tf.Tensor])
assert_type(tf.unstack(x), list[tf.Tensor])
assert_type(tf.nn.softmax(x, axis=-1), tf.Tensor)
assert_type(tf.nn.conv2d(tf.ones([1, 4, 4, 1]), tf.ones([2, 2, 1, 1]), strides=1, padding="SAME"), tf.Tensor)
assert_type(tf.linalg.inv(x), tf.Tensor)
assert_type(tf.linalg.norm(x), tf.Tensor)
assert_type(tf.random.uniform([2, 3], minval=-1.0, maxval=1.0, dtype=tf.float64), tf.Tensor)
assert_type(tf.signal.fft(tf.complex(x, x)), tf.Tensor)
assert_type(tf.image.resize(tf.ones([1, 4, 4, 3]), [2, 2]), tf.Tensor)
assert_type(tf.range(10), tf.Tensor)
assert_type(tf.one_hot([0, 2], depth=3), tf.Tensor)
assert_type(tf.gather(x, [0]), tf.Tensor)
assert_type(tf.shape(x), tf.Tensor)
assert_type(tf.reshape(x, (-1,)), tf.Tensor)
assert_type(tf.transpose(x), tf.Tensor)

# operators
assert_type(x + 1, tf.Tensor)
assert_type(1 - x, tf.Tensor)
assert_type(x * x / 2, tf.Tensor)
assert_type(x @ x, tf.Tensor)
assert_type(x**2, tf.Tensor)
assert_type(-x, tf.Tensor)
assert_type(abs(x), tf.Tensor)
assert_type(x > 0, tf.Tensor)
assert_type(x[0, :, tf.newaxis], tf.Tensor)
assert_type(list(x), list[tf.Tensor])
assert_type(np.float32(2) * x, tf.Tensor)

# attributes, and out to Python and NumPy
assert_type(x.shape, tf.TensorShape)
assert_type(x.dtype, tf.DType)
assert_type(x.numpy().shape, tuple[Any, ...])
assert_type(float(x[0, 0]), float)
assert_type(int(tf.size(x)), int)
array: np.ndarray[Any, Any] = np.asarray(x)
pixels: list[list[float]] = x.numpy().tolist()

# variables
v = tf.Variable([1.0, 2.0], trainable=True, name="v")
assert_type(v, tf.Variable)
assert_type(v + 1, tf.Tensor)
assert_type(2 * v, tf.Tensor)
assert_type(v.read_value(), tf.Tensor)
assert_type(v.shape, tf.TensorShape)
assert_type(v.trainable, bool)
v.assign(v * 2).assign_add([1.0, 1.0])
v[0].assign(3.0)
assert_type(v[0] + 1, tf.Tensor)
