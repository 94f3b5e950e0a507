"""Keras in half precision: losses, batch normalisation and `fit`. What they give with TensorFlow is stored.

KERAS_BACKEND=tensorflow python -m tests.tf_cases.keras_half tests/recorded/keras_half_tensorflow.json
"""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

DTYPES = ("float16", "bfloat16")


def cases(tf: Any, keras: Any) -> dict[str, Callable[[], Any]]:
    """Name -> program; a program gives a dtype and numbers."""
    random = np.random.default_rng(0)
    p, y = (random.uniform(0.05, 0.95, (64, 8)).astype("float32") for _ in range(2))
    soft = np.exp(p) / np.exp(p).sum(-1, keepdims=True)
    labels = random.integers(0, 8, 64)
    hot, binary, signs = np.eye(8, dtype="float32")[labels], (y > 0.5).astype("float32"), np.sign(y - 0.5)
    images = (random.standard_normal((8, 9, 9, 4)) * 3 + 5).astype("float32")
    losses = keras.losses
    pairs = {
        "MeanSquaredError": (y, p),
        "MeanAbsoluteError": (y, p),
        "MeanSquaredLogarithmicError": (y, p),
        "BinaryCrossentropy": (binary, p),
        "BinaryFocalCrossentropy": (binary, p),
        "CategoricalCrossentropy": (hot, soft),
        "SparseCategoricalCrossentropy": (labels, soft),
        "KLDivergence": (soft[::-1].copy(), soft),
        "Poisson": (y * 5, p * 5),
        "CosineSimilarity": (y, p),
        "Hinge": (signs, p),
        "Huber": (y * 4, p * 4),
        "Dice": (binary, p),
    }

    def shown(value: Any) -> list[Any]:
        numbers = np.asarray(keras.ops.convert_to_numpy(keras.ops.cast(value, "float32")), np.float64)
        return [keras.backend.standardize_dtype(value.dtype), np.ravel(numbers)[:12].round(6).tolist()]

    def loss(name: str, dtype: str, compiled: bool) -> Any:
        true, predicted = (tf.cast(a, dtype) if a.dtype.kind == "f" else tf.constant(a) for a in pairs[name])
        function = getattr(losses, name)(dtype=dtype)
        with tf.GradientTape() as tape:
            tape.watch(predicted)
            value = (tf.function(function) if compiled else function)(true, predicted)
        return [shown(value), shown(tape.gradient(value, predicted))]

    def many(name: str, dtype: str, reduction: str) -> Any:
        ones, zeros = (tf.cast(a, dtype) for a in (np.ones((5000, 1)), np.zeros((5000, 1))))
        return shown(getattr(losses, name)(reduction=reduction, dtype=dtype)(ones, zeros))

    def normalised(policy: str, training: bool, compiled: bool) -> Any:
        layer = keras.layers.BatchNormalization(dtype=keras.DTypePolicy(policy))
        layer.build(images.shape)
        call = lambda x: layer(x, training=training)  # noqa: E731
        x = tf.cast(images, policy.replace("mixed_", ""))
        with tf.GradientTape() as tape:
            tape.watch(x)
            out = (tf.function(call) if compiled else call)(x)
            total = tf.reduce_sum(tf.cast(out, tf.float32) ** 3)
        results = [out, tape.gradient(total, x), layer.moving_mean.value, layer.moving_variance.value]
        return [shown(tf.convert_to_tensor(result)) for result in results]

    def fitted(policy: str, eagerly: bool) -> Any:
        draws = np.random.default_rng(5)
        before = keras.config.dtype_policy()
        keras.config.set_dtype_policy(policy)
        try:
            layers = [
                keras.layers.Dense(8, "relu"),
                keras.layers.BatchNormalization(),
                keras.layers.Dense(3, "softmax"),
            ]
            model = keras.Sequential([keras.Input((6,)), *layers])
            for layer in (layers[0], layers[2]):
                layer.set_weights([(draws.standard_normal(w.shape) * 0.3).astype("float32") for w in layer.weights])
            model.compile(keras.optimizers.SGD(0.05), "sparse_categorical_crossentropy", run_eagerly=eagerly)
            x = draws.standard_normal((96, 6)).astype("float32")
            history = model.fit(x, (x[:, 0] > 0) + (x[:, 1] > 0) * 1, 32, 2, verbose=0, shuffle=False)
            return [["float32", history.history["loss"]], shown(tf.convert_to_tensor(model.predict(x[:2], verbose=0)))]
        finally:
            keras.config.set_dtype_policy(before)

    found: dict[str, Callable[[], Any]] = {}
    for dtype in DTYPES:
        for name in pairs:
            found[f"{name} {dtype}"] = lambda name=name, dtype=dtype: loss(name, dtype, False)
        for name in ("MeanSquaredError", "BinaryCrossentropy", "SparseCategoricalCrossentropy"):
            found[f"{name} {dtype} compiled"] = lambda name=name, dtype=dtype: loss(name, dtype, True)
        for name in ("MeanSquaredError", "MeanAbsoluteError", "Huber"):
            for way in ("sum", "sum_over_batch_size"):
                found[f"many {name} {way} {dtype}"] = lambda name=name, way=way, dtype=dtype: many(name, dtype, way)
        for policy in (dtype, f"mixed_{dtype}"):
            for training in (True, False):
                found[f"BatchNormalization {training} {policy}"] = lambda policy=policy, training=training: normalised(
                    policy, training, False
                )
            found[f"BatchNormalization {policy} compiled"] = lambda policy=policy: normalised(policy, True, True)
        for eagerly in (True, False):
            found[f"fit mixed_{dtype} {eagerly}"] = lambda dtype=dtype, e=eagerly: fitted(f"mixed_{dtype}", e)
    return found


if __name__ == "__main__":
    import keras
    import tensorflow as tf

    answers = {name: program() for name, program in cases(tf, keras).items()}
    pathlib.Path(sys.argv[1]).write_text(json.dumps(answers, indent=0))
