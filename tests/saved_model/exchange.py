"""Models that gradtape saves and TensorFlow loads: `python exchange.py write FOLDER`, then with TensorFlow
`python exchange.py read FOLDER`.

Every model is called with three batch sizes; results and variables are compared.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

BATCHES = (1, 3, 8)


def _fill(model):
    rng = np.random.default_rng(7)
    for variable in model.variables:
        if "seed" in variable.path:
            continue
        value = rng.normal(size=variable.shape).astype("float32") * 0.3
        variable.assign(np.abs(value) + 0.5 if "variance" in variable.path else value)
    return model


def mlp(tf):
    layers = tf.keras.layers
    inputs = layers.Input((6,), name="features")
    hidden = layers.Dropout(0.5)(layers.Dense(9, activation="relu")(inputs))
    return _fill(tf.keras.Model(inputs, layers.Dense(4, activation="softmax")(hidden))), [(6,)]


def cnn(tf):
    layers = tf.keras.layers
    model = tf.keras.Sequential([
        layers.Input((12, 12, 3)),
        layers.Conv2D(8, 3, padding="same", use_bias=False),
        layers.BatchNormalization(),
        layers.ReLU(),
        layers.MaxPooling2D(),
        layers.DepthwiseConv2D(3, strides=2, padding="same"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(5),
    ])  # fmt: skip
    return _fill(model), [(12, 12, 3)]


def lstm(tf):
    layers = tf.keras.layers
    model = tf.keras.Sequential([
        layers.Input((7, 4)),
        layers.Bidirectional(layers.LSTM(5, return_sequences=True)),
        layers.GRU(6),
        layers.Dense(2),
    ])  # fmt: skip
    return _fill(model), [(7, 4)]


def transformer(tf):
    layers = tf.keras.layers
    x = layers.Input((9, 16))
    attended = layers.MultiHeadAttention(4, 4)(x, x)
    y = layers.LayerNormalization()(x + attended)
    z = layers.Dense(16)(layers.Dense(32, activation="gelu")(y))
    return _fill(tf.keras.Model(x, layers.LayerNormalization()(y + z))), [(9, 16)]


def two_inputs(tf):
    layers = tf.keras.layers
    left, right = layers.Input((3,), name="left"), layers.Input((5,), name="right")
    both = layers.Concatenate()([layers.Dense(4)(left), layers.Dense(4)(right)])
    outputs = {"sum": layers.Dense(1)(both), "scaled": layers.Rescaling(0.5)(both)}
    return _fill(tf.keras.Model({"left": left, "right": right}, outputs)), {"left": (3,), "right": (5,)}


def mixed(tf, policy):
    layers = tf.keras.layers
    tf.keras.mixed_precision.set_global_policy(policy)
    try:
        inputs = layers.Input((6,))
        hidden = layers.Dense(16, activation="tanh")(inputs)
        model = tf.keras.Model(inputs, layers.Dense(3, dtype="float32")(hidden))
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    return _fill(model), [(6,)]


def words(tf):
    layers = tf.keras.layers
    inputs = layers.Input((4,), dtype="string", name="words")
    ids = layers.StringLookup(vocabulary=["red", "green", "blue"])(inputs)
    return _fill(tf.keras.Model(inputs, layers.Dense(2)(layers.Embedding(5, 3)(ids)))), "words"


KERAS = {
    "mlp": mlp,
    "cnn": cnn,
    "lstm": lstm,
    "transformer": transformer,
    "two_inputs": two_inputs,
    "mixed_float16": lambda tf: mixed(tf, "mixed_float16"),
    "mixed_bfloat16": lambda tf: mixed(tf, "mixed_bfloat16"),
    "words": words,
}


def sample(shapes, batch):
    rng = np.random.default_rng(batch)
    if shapes == "words":
        return [rng.choice(["red", "green", "blue", "pink"], size=(batch, 4)).tolist()]
    if isinstance(shapes, dict):
        return {name: rng.normal(size=(batch, *shape)).astype("float32") for name, shape in shapes.items()}
    return [rng.normal(size=(batch, *shape)).astype("float32") for shape in shapes]


class Modules:
    """Models without Keras."""

    @staticmethod
    def vocabulary(tf):
        class Model(tf.Module):
            def __init__(self):
                super().__init__(name="vocabulary")
                Path("colours.txt").write_text("red\ngreen\nblue\n")
                self.file = tf.saved_model.Asset("colours.txt")
                kinds = tf.lookup.TextFileIndex
                init = tf.lookup.TextFileInitializer(
                    "colours.txt", tf.string, kinds.WHOLE_LINE, tf.int64, kinds.LINE_NUMBER
                )
                self.table = tf.lookup.StaticVocabularyTable(init, num_oov_buckets=3)
                pairs = tf.lookup.KeyValueTensorInitializer([0, 1, 2], ["warm", "mild", "cold"], tf.int64, tf.string)
                self.names = tf.lookup.StaticHashTable(pairs, default_value="unknown")
                self.weights = tf.Variable(np.arange(12, dtype="float32").reshape(6, 2), name="weights")

            @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="texts")])
            def __call__(self, texts):
                lower = tf.strings.lower(tf.strings.strip(texts))
                ids = self.table.lookup(lower)
                lengths = tf.strings.length(lower)
                scores = tf.gather(self.weights, ids) * tf.cast(lengths, tf.float32)[:, None]
                kept = tf.boolean_mask(scores, lengths > 3)
                names = tf.strings.join([self.names.lookup(ids), "!"])
                size = tf.strings.length(tf.io.read_file(self.file.asset_path))
                return {"ids": ids, "scores": scores, "kept": kept, "names": names, "size": size, "is": lower == "red"}

        return Model(), lambda batch: [(["Red ", "green", "x", "blue", " pink"] * 2)[:batch]]

    @staticmethod
    def shapes(tf):
        class Model(tf.Module):
            @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32), tf.TensorSpec([], tf.int32, name="n")])
            def __call__(self, x, n):
                first = x[:n] * 2.0
                ranged = tf.reduce_sum(tf.cast(tf.range(n), tf.float32))
                filled = tf.fill([n, 2], tf.reduce_sum(x))
                positive = tf.where(x[:, 0] > 0)
                values, places = tf.unique(tf.cast(tf.round(x[:, 1]), tf.int32))
                return (
                    first,
                    ranged,
                    filled,
                    positive,
                    values,
                    places,
                    tf.zeros([n + 1]),
                    tf.reshape(x, [n - n + 1, -1]),
                )

        return Model(), lambda batch: [
            np.random.default_rng(batch).normal(size=(batch, 3)).astype("float32"),
            np.int32(2),
        ]


MODULES = {"vocabulary": Modules.vocabulary, "shapes": Modules.shapes}


def write(folder):
    import gradtape as tf

    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    expected = {}
    for name, build in KERAS.items():
        model, shapes = build(tf)
        model.export(name, verbose=False)
        for batch in BATCHES:
            given = sample(shapes, batch)
            given = given if isinstance(given, dict) else tf.constant(given[0])
            call = tf.function(lambda x: model(x, training=False), jit_compile="mixed" in name)  # noqa: B023
            found = tf.nest.flatten(call(given))  # NumPy and XLA round products of bfloat16 differently
            expected |= {f"{name}/{batch}/{i}": np.asarray(each, "float32") for i, each in enumerate(found)}
        expected |= {f"{name}/v{i}": np.asarray(v.numpy(), "float32") for i, v in enumerate(model.variables)}
    for name, build in MODULES.items():
        model, arguments = build(tf)
        tf.saved_model.save(model, name)
        for batch in BATCHES:
            found = tf.nest.flatten(model(*map(tf.constant, arguments(batch))))
            expected |= {f"{name}/{batch}/{i}": each.numpy() for i, each in enumerate(found)}
    Path("colours.txt").unlink()
    np.savez("expected.npz", **expected)
    print(f"{len(KERAS) + len(MODULES)} models written")


def read(folder):
    import tensorflow as tf

    expected = np.load(os.path.join(folder, "expected.npz"), allow_pickle=True)
    failed = 0
    for name in [*KERAS, *MODULES]:
        try:
            loaded = tf.saved_model.load(os.path.join(folder, name))
            worst = _compared(tf, name, loaded, expected)
            print(f"{name}: equal to {worst:.1e}", flush=True)
            failed += worst > 1e-5
        except Exception as error:
            failed += 1
            print(f"{name}: FAILED {type(error).__name__}: {str(error)[:300]}", flush=True)
    print(f"{len(KERAS) + len(MODULES) - failed} passed, {failed} failed")
    return failed


def _compared(tf, name, loaded, expected):
    worst = 0.0
    for batch in BATCHES:
        if name in KERAS:
            given = sample(_shapes(name), batch)
            given = given if isinstance(given, dict) else tf.constant(given[0])
            found = tf.nest.flatten(loaded.serve(given))
        else:
            found = tf.nest.flatten(loaded(*map(tf.constant, _arguments(tf, name)(batch))))
        for i, each in enumerate(found):
            wanted, value = expected[f"{name}/{batch}/{i}"], each.numpy()
            assert value.shape == wanted.shape, (value.shape, wanted.shape)
            if value.dtype.kind == "f":
                worst = max(worst, float(np.max(np.abs(value - wanted) / (1 + np.abs(wanted)), initial=0)))
            else:
                assert (value == wanted).all(), (value, wanted)
    for i, variable in enumerate(getattr(loaded, "variables", ())):
        np.testing.assert_array_equal(np.asarray(variable.numpy(), "float32"), expected[f"{name}/v{i}"])
    return worst


def _shapes(name):
    return {
        "mlp": [(6,)], "cnn": [(12, 12, 3)], "lstm": [(7, 4)], "transformer": [(9, 16)], "words": "words",
        "two_inputs": {"left": (3,), "right": (5,)},
    }.get(name, [(6,)])  # fmt: skip


def _arguments(tf, name):
    if name == "vocabulary":
        return lambda batch: [(["Red ", "green", "x", "blue", " pink"] * 2)[:batch]]
    return lambda batch: [np.random.default_rng(batch).normal(size=(batch, 3)).astype("float32"), np.int32(2)]


if __name__ == "__main__":
    sys.exit({"write": write, "read": read}[sys.argv[1]](sys.argv[2]))
