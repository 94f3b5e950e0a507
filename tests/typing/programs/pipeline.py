"""An input pipeline."""

from __future__ import annotations

import numpy as np
from typing_extensions import assert_type

import gradtape as tf

features, labels = np.ones((10, 3), np.float32), np.zeros(10, np.int64)
dataset = (
    tf.data.Dataset.from_tensor_slices((features, labels))
    .shuffle(10, seed=1)
    .map(lambda x, y: (x * 2.0, y), num_parallel_calls=tf.data.AUTOTUNE)
    .batch(4, drop_remainder=True)
    .repeat(2)
    .prefetch(tf.data.AUTOTUNE)
)
assert_type(dataset, tf.data.Dataset)
for x, y in dataset.take(2):
    print(x.shape, y.dtype)
numbers = tf.data.Dataset.range(5).filter(lambda n: n > 1)
print([int(n) for n in numbers.as_numpy_iterator()])
checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
manager = tf.train.CheckpointManager(checkpoint, "checkpoints", max_to_keep=2)
