"""Models that Keras trains on different backends, from the same weights and data: what they compute must be the same.

KERAS_BACKEND=jax python tests/keras_models.py     record what Keras computes on JAX, in tests/recorded/keras_on_jax.npz
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

RECORD = Path(__file__).parent / "recorded" / "keras_on_jax.npz"
STEPS = 10


def _sequential(keras, *layers):
    return keras.Sequential([layer for layer in layers if layer is not None])


def mlp(keras):
    layers = keras.layers
    return _sequential(keras, keras.Input((6,)), layers.Dense(8, activation="relu"), layers.Dense(3)), "classes"


def cnn(keras):
    layers = keras.layers
    model = _sequential(
        keras,
        keras.Input((8, 8, 2)),
        layers.Conv2D(4, 3, padding="same"),
        layers.BatchNormalization(),
        layers.Activation("relu"),
        layers.MaxPooling2D(),
        layers.Dropout(0.0),
        layers.Conv2D(3, 3, activation="relu"),
        layers.AveragePooling2D(2),
        layers.Flatten(),
        layers.Dense(3),
    )
    return model, "classes"


def lstm(keras):
    layers = keras.layers
    return _sequential(keras, keras.Input((5, 3)), layers.LSTM(4), layers.Dense(1)), "numbers"


def gru(keras):
    layers = keras.layers
    return _sequential(keras, keras.Input((5, 3)), layers.GRU(4, return_sequences=True), layers.Dense(1)), "numbers"


def embedding(keras):
    layers = keras.layers
    stack = (layers.Embedding(11, 4), layers.GlobalAveragePooling1D(), layers.Dense(3))
    return _sequential(keras, keras.Input((5,), dtype="int32"), *stack), "classes"


def transformer(keras):
    layers = keras.layers
    tokens = keras.Input((5,), dtype="int32")
    x = layers.Embedding(11, 6, mask_zero=True)(tokens)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 3)(x, x, use_causal_mask=True))
    x = layers.LayerNormalization()(x + layers.Dense(6)(layers.Dense(8, activation="gelu")(x)))
    return keras.Model(tokens, layers.Dense(11)(x)), "tokens"


def generator(keras):
    layers = keras.layers
    model = _sequential(
        keras,
        keras.Input((5,)),
        layers.Dense(2 * 2 * 6, use_bias=False),
        layers.BatchNormalization(),
        layers.LeakyReLU(),
        layers.Reshape((2, 2, 6)),
        layers.Conv2DTranspose(4, 5, strides=1, padding="same", use_bias=False),
        layers.BatchNormalization(),
        layers.LeakyReLU(),
        layers.Conv2DTranspose(1, 5, strides=2, padding="same", use_bias=False, activation="tanh"),
    )
    return model, "numbers"


def discriminator(keras):
    layers = keras.layers
    model = _sequential(
        keras,
        keras.Input((8, 8, 1)),
        layers.Conv2D(4, 5, strides=2, padding="same"),
        layers.LeakyReLU(),
        layers.Dropout(0.0),
        layers.Conv2D(6, 5, strides=2, padding="same"),
        layers.LeakyReLU(),
        layers.Flatten(),
        layers.Dense(1),
    )
    return model, "truths"


MODELS = {f.__name__: f for f in (mlp, cnn, lstm, gru, embedding, transformer, generator, discriminator)}


def prepared(keras, name, **options):
    """A compiled model with weights that a seed gives, inputs and targets, and its loss."""
    model, kind = MODELS[name](keras)
    rng = np.random.default_rng(len(name))
    model.set_weights([_weight(rng, w) for w in model.weights])
    shape, dtype = tuple(model.input_shape[1:]), model.inputs[0].dtype
    x = rng.integers(0, 11, (12, *shape)) if "int" in str(dtype) else rng.normal(size=(12, *shape))
    losses = keras.losses
    rows = (12, *model.output_shape[1:])
    if kind == "numbers":
        y, loss = np.tanh(rng.normal(size=rows)).astype("float32"), losses.MeanSquaredError()
    elif kind == "truths":
        y, loss = rng.integers(0, 2, rows).astype("float32"), losses.BinaryCrossentropy(from_logits=True)
    else:
        y = rng.integers(0, rows[-1], rows[:-1])
        loss = losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, **options)
    return model, x.astype("int32" if "int" in str(dtype) else "float32"), y, loss


def _weight(rng, weight):
    """Scales, statistics and all other weights about where training would have them."""
    if weight.name in ("gamma", "moving_variance"):
        return rng.uniform(0.5, 1.5, weight.shape).astype("float32")
    return rng.normal(scale=0.3, size=weight.shape).astype("float32")


def losses_of(model, x, y):
    """The losses of some training steps."""
    return np.array([float(model.train_on_batch(x, y)) for _ in range(STEPS)], "float32")


def _on_jax(keras, name):
    import jax

    model, x, y, loss = prepared(keras, name)
    trainable = [v.value for v in model.trainable_variables]
    state = [v.value for v in model.non_trainable_variables]

    def of_weights(weights):
        return loss(y, model.stateless_call(weights, state, x, training=True)[0])

    # Compiled as wholes: one by one, the ops take far longer to compile.
    gradients = jax.jit(jax.grad(of_weights))(trainable)
    forward = jax.jit(lambda weights: model.stateless_call(weights, state, x, training=False)[0])(trainable)
    named = {f"{name}/forward": np.asarray(forward), f"{name}/losses": losses_of(model, x, y)}
    return named | {f"{name}/gradient {i}": np.asarray(g) for i, g in enumerate(gradients)}


def record(path):
    """Write what Keras computes on JAX."""
    import keras

    assert keras.config.backend() == "jax", "run with KERAS_BACKEND=jax"
    found = {}
    for name in MODELS:
        found |= _on_jax(keras, name)
    np.savez_compressed(path, **found)


if __name__ == "__main__":
    import sys

    record(Path(sys.argv[1]) if len(sys.argv) > 1 else RECORD)
