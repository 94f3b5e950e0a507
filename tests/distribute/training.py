"""Keras models that are trained in the scope of a strategy, by a custom loop or by `fit`.

`python tests/distribute/training.py`, where TensorFlow is installed, records what TensorFlow's MirroredStrategy on four
logical CPUs gives.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

RECORDED = Path(__file__).parents[1] / "recorded" / "distribute_tensorflow.json"
BATCH = 16


def mlp(tf):
    layers = tf.keras.layers
    return tf.keras.Sequential([tf.keras.Input([6]), layers.Dense(16, activation="relu"), layers.Dense(3)])


def cnn(tf):
    layers = tf.keras.layers
    normalized = [layers.Conv2D(4, 3), layers.BatchNormalization(synchronized=True), layers.ReLU()]
    return tf.keras.Sequential([tf.keras.Input([8, 8, 2]), *normalized, layers.Flatten(), layers.Dense(3)])


def block(tf):
    layers = tf.keras.layers
    inputs = tf.keras.Input([5, 8])
    normal = layers.LayerNormalization()(inputs)
    x = layers.MultiHeadAttention(2, 4)(normal, normal) + inputs
    x = x + layers.Dense(8)(layers.Dense(16, activation="gelu")(layers.LayerNormalization()(x)))
    return tf.keras.Model(inputs, layers.Dense(3)(layers.GlobalAveragePooling1D()(x)))


MODELS = {"mlp": mlp, "cnn": cnn, "block": block}


def data(model, steps):
    rng = np.random.default_rng(0)
    batches = [
        (rng.normal(size=(BATCH, *model.input_shape[1:])).astype("float32"), rng.integers(0, 3, size=BATCH))
        for _ in range(steps)
    ]
    return np.concatenate([x for x, _ in batches]), np.concatenate([y for _, y in batches])


def created(tf, name):
    """A model with weights that do not depend on the framework."""
    rng = np.random.default_rng(1)
    model = MODELS[name](tf)
    model.set_weights(
        [
            w if w.ndim == 1 else (rng.normal(size=w.shape) / np.sqrt(w.shape[0])).astype("float32")
            for w in model.get_weights()
        ]
    )
    optimizer = tf.keras.optimizers.AdamW(0.01) if name != "cnn" else tf.keras.optimizers.SGD(0.05, momentum=0.9)
    return model, optimizer


def loop(tf, name, strategy, steps):
    """The losses of a custom loop, and the trained model."""
    with strategy.scope():
        model, optimizer = created(tf, name)
        optimizer.build(model.trainable_variables)
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def replica(x, y):
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(loss_of(y, model(x, training=True)), global_batch_size=BATCH)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))  # noqa: B905 - TensorFlow's Python
        return loss

    @tf.function
    def step(batch):
        return strategy.reduce("SUM", strategy.run(replica, args=batch), axis=None)

    dataset = tf.data.Dataset.from_tensor_slices(data(model, steps)).batch(BATCH)
    return [float(step(batch)) for batch in strategy.experimental_distribute_dataset(dataset)], model


def fit(tf, name, strategy, steps):
    """Loss and accuracy of `fit` and `evaluate`, and the trained model."""
    with strategy.scope():
        model, optimizer = created(tf, name)
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer, loss, metrics=["accuracy"])
    x, y = data(model, steps)
    history = model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0).history
    return [history["loss"][0], history["accuracy"][0], *model.evaluate(x[:20], y[:20], verbose=0)], model


def paths(model):
    return [variable.path for variable in model.weights]


def assert_same_weights(names, found, expected):
    """Compare weights, given their paths.

    The bias of the keys shifts all scores of a query by the same amount, which the softmax takes out again: its
    gradient is zero, and what is computed for it is the rounding error of a sum. Adam divides that by its own size.
    """
    for name, values, wanted in zip(names, found, expected, strict=True):
        atol = 2e-3 if name.endswith("key/bias") else 5e-6
        np.testing.assert_allclose(np.ravel(values), np.ravel(wanted), rtol=0, atol=atol, err_msg=name)


def rounded(weight):
    """The numbers of a weight, to seven digits."""
    return [float(f"{number:.7g}") for number in weight.ravel()]


if __name__ == "__main__":
    import tensorflow

    cpu = tensorflow.config.list_physical_devices("CPU")[0]
    tensorflow.config.set_logical_device_configuration(cpu, [tensorflow.config.LogicalDeviceConfiguration()] * 4)
    mirrored = tensorflow.distribute.MirroredStrategy()
    kinds = {f"{kind.__name__}_{name}": (kind, name) for name in MODELS for kind in (loop, fit)}
    found = {}
    for key, (kind, name) in kinds.items():
        losses, trained = kind(tensorflow, name, mirrored, 10)
        found[key] = {"losses": losses, "weights": [rounded(w) for w in trained.get_weights()]}
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in found.items()]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
