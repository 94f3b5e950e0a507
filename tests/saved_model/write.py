"""Build eight models with a module and save them: `python write.py MODULE FOLDER [NAME...]`.

`read_back.py FOLDER`, run by real TensorFlow, then loads them. MODULE is imported and used as `tf`.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.dont_write_bytecode = True

import numpy as np


def weights(seed, *shape, scale=0.5):
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype("float32")


def two_functions(tf, path):
    class Dense(tf.Module):
        def __init__(self, seed, inputs, outputs, name):
            super().__init__(name=name)
            self.w = tf.Variable(weights(seed, inputs, outputs), name="w")
            self.b = tf.Variable(weights(seed + 1, outputs), name="b")

        def __call__(self, x):
            return tf.matmul(x, self.w) + self.b

    class Model(tf.Module):
        def __init__(self):
            super().__init__(name="two_functions")
            self.layers = [Dense(1, 4, 6, "one"), Dense(3, 6, 3, "two")]
            self.scales = {"low": tf.Variable(0.5, name="low"), "high": tf.Variable([1.0, 2.0, 3.0], name="high")}
            self.frozen = tf.Variable(weights(5, 3), trainable=False, name="frozen")

        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
        def hidden(self, x):
            return tf.nn.relu(self.layers[0](x)) * self.scales["low"]

        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
        def scores(self, x):
            logits = self.layers[1](self.hidden(x)) * self.scales["high"] + self.frozen
            return {"logits": logits, "probabilities": tf.nn.softmax(logits), "best": tf.argmax(logits, axis=1)}

    model = Model()
    tf.saved_model.save(model, path, signatures={"hidden": model.hidden, "serving_default": model.scores})


def cnn(tf, path):
    class Model(tf.Module):
        def __init__(self):
            super().__init__(name="cnn")
            self.kernel = tf.Variable(weights(11, 3, 3, 2, 4, scale=0.3), name="kernel")
            self.bias = tf.Variable(weights(12, 4), name="bias")
            self.gamma, self.beta = (
                tf.Variable(1 + weights(13, 4), name="gamma"),
                tf.Variable(weights(14, 4), name="beta"),
            )
            self.mean = tf.Variable(weights(15, 4), trainable=False, name="mean")
            self.variance = tf.Variable(0.1 + np.abs(weights(16, 4)), trainable=False, name="variance")
            self.head = tf.Variable(weights(17, 4 * 4 * 4, 3), name="head")

        @tf.function(input_signature=[tf.TensorSpec([None, 8, 8, 2], tf.float32, name="image")])
        def __call__(self, image):
            x = tf.nn.conv2d(image, self.kernel, strides=1, padding="SAME") + self.bias
            x = tf.nn.batch_normalization(x, self.mean, self.variance, self.beta, self.gamma, 1e-3)
            x = tf.nn.max_pool2d(tf.nn.relu(x), 2, 2, "VALID")
            return tf.matmul(tf.reshape(x, [-1, 4 * 4 * 4]), self.head)

    model = Model()
    tf.saved_model.save(model, path, signatures=model.__call__)


def rnn(tf, path):
    class Model(tf.Module):
        def __init__(self):
            super().__init__(name="rnn")
            self.kernel = tf.Variable(weights(21, 3, 4), name="kernel")
            self.recurrent = tf.Variable(weights(22, 4, 4), name="recurrent")
            self.bias = tf.Variable(weights(23, 4), name="bias")

        @tf.function(input_signature=[tf.TensorSpec([None, None, 3], tf.float32, name="sequence")])
        def run(self, sequence):
            # Read the weights before the loop: loaded loops that capture variables fail under persistent or nested tapes.
            kernel, recurrent, bias = tf.identity(self.kernel), tf.identity(self.recurrent), tf.identity(self.bias)
            steps = tf.transpose(sequence, [1, 0, 2])
            count = tf.shape(steps)[0]

            def body(t, h):
                return t + 1, tf.tanh(tf.matmul(tf.gather(steps, t), kernel) + tf.matmul(h, recurrent) + bias)

            start = tf.zeros([tf.shape(sequence)[0], 4])
            return tf.while_loop(lambda t, h: t < count, body, [tf.constant(0), start])[1]

    model = Model()
    tf.saved_model.save(model, path, signatures={"serving_default": model.run})


def attention(tf, path):
    class Model(tf.Module):
        def __init__(self):
            super().__init__(name="attention")
            self.qkv = [tf.Variable(weights(31 + i, 8, 2, 4), name=n) for i, n in enumerate(("query", "key", "value"))]
            self.out = tf.Variable(weights(34, 2, 4, 8), name="out")
            self.norm = {
                "scale": tf.Variable(1 + weights(35, 8), name="scale"),
                "offset": tf.Variable(weights(36, 8), name="offset"),
            }

        @tf.function(
            input_signature=[
                tf.TensorSpec([None, None, 8], tf.float32, name="x"),
                tf.TensorSpec([None, None], tf.bool, name="mask"),
            ]
        )
        def block(self, x, mask):
            mean = tf.reduce_mean(x, axis=-1, keepdims=True)
            variance = tf.reduce_mean(tf.square(x - mean), axis=-1, keepdims=True)
            h = (x - mean) * tf.math.rsqrt(variance + 1e-5) * self.norm["scale"] + self.norm["offset"]
            q, k, v = (tf.einsum("btc,chd->bhtd", h, w) for w in self.qkv)
            scores = tf.where(mask[:, None, None, :], tf.einsum("bhtd,bhsd->bhts", q, k) * 0.5, -1e9)
            return x + tf.einsum("bhtd,hdc->btc", tf.einsum("bhts,bhsd->bhtd", tf.nn.softmax(scores), v), self.out)

    model = Model()
    tf.saved_model.save(model, path, signatures={"serving_default": model.block})


def keras_mlp(tf, path):
    keras = tf.keras
    model = keras.Sequential(
        [
            keras.layers.Input((5,), name="features"),
            keras.layers.Dense(7, activation="tanh", name="hidden"),
            keras.layers.Dense(3, activation="softmax", name="classes"),
        ],
        name="mlp",
    )
    model.set_weights([weights(41 + i, *w.shape) for i, w in enumerate(model.get_weights())])
    model.export(path, verbose=False)


def table(tf, path):
    class Model(tf.Module):
        def __init__(self, file):
            super().__init__(name="table")
            whole, number = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
            init = tf.lookup.TextFileInitializer(file, tf.string, whole, tf.int64, number)
            self.words = tf.lookup.StaticHashTable(init, default_value=0)
            self.embedding = tf.Variable(weights(51, 4, 3), name="embedding")

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="words")])
        def ids(self, words):
            return self.words.lookup(words)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="words")])
        def embed(self, words):
            return tf.gather(self.embedding, self.words.lookup(words))

    file = Path("colours.txt")  # in the folder of the models; removed, so that only the copy in assets/ is left
    file.write_text("unknown\nred\ngreen\nblue\n")
    try:
        model = Model(str(file))
        tf.saved_model.save(model, path, signatures={"serving_default": model.ids, "embed": model.embed})
    finally:
        file.unlink()


def dynamic(tf, path):
    class Model(tf.Module):
        def __init__(self):
            super().__init__(name="dynamic")
            self.scale = tf.Variable(weights(61, 4), name="scale")

        @tf.function(
            input_signature=[
                tf.TensorSpec([None, None, 4], tf.float32, name="x"),
                tf.TensorSpec([], tf.int32, name="times"),
            ]
        )
        def tile(self, x, times):
            shape = tf.shape(x)
            flat = tf.reshape(x * self.scale, [shape[0] * shape[1], 4])
            rows = tf.cast(tf.range(shape[0] * shape[1]), tf.float32)[:, None]
            return {
                "tiled": tf.tile(flat + rows, [1, times]),
                "count": shape[0] * shape[1],
                "back": tf.reshape(flat, shape)[:, ::-1],
            }

    model = Model()
    tf.saved_model.save(model, path, signatures={"serving_default": model.tile})


def counter(tf, path):
    class Model(tf.Module):
        def __init__(self):
            super().__init__(name="counter")
            self.steps = tf.Variable(np.int64(3), trainable=False, name="steps")
            self.total = tf.Variable(tf.zeros([2]), trainable=False, name="total")
            self.w = tf.Variable(weights(71, 3, 2), name="w")

        @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
        def update(self, x):
            y = tf.matmul(x, self.w)
            self.total.assign_add(tf.reduce_sum(y, axis=0))
            return {"step": self.steps.assign_add(1), "total": self.total.read_value(), "y": y}

        @tf.function(input_signature=[])
        def reset(self):
            self.steps.assign(0)
            self.total.assign(tf.zeros([2]))
            return self.steps.read_value()

    model = Model()
    tf.saved_model.save(model, path, signatures={"update": model.update, "reset": model.reset})


BUILDERS = [two_functions, cnn, rnn, attention, keras_mlp, table, dynamic, counter]


def main(module, folder, *only):
    tf = importlib.import_module(module)
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    failed, chosen = 0, [b for b in BUILDERS if not only or b.__name__ in only]
    for builder in chosen:
        try:
            builder(tf, builder.__name__)
            size = sum(f.stat().st_size for f in Path(builder.__name__).rglob("*") if f.is_file())
            print(f"{builder.__name__}: saved, {size:,} bytes", flush=True)
        except Exception as error:
            failed += 1
            where = traceback.extract_tb(error.__traceback__)[-1]
            print(
                f"{builder.__name__}: FAILED {type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:200]} ({os.path.basename(where.filename)}:{where.lineno})",
                flush=True,
            )
    print(f"{len(chosen) - failed} saved, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
