"""Write the public SavedModels and their records: `python make.py [NAME...]`, with real TensorFlow."""

from __future__ import annotations

import collections
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from record import Model, make, weights

f32, f64, i32, i64 = tf.float32, tf.float64, tf.int32, tf.int64
Spec = tf.TensorSpec


def x(seed, *shape, scale=1.0, dtype="float32"):
    return tf.constant(weights(seed, *shape, scale=scale, dtype=dtype))


def kwargs(args, **keywords):
    return tuple(args), {"__kwargs__": True, **keywords}


# (a) --------------------------------------------------------------------------------------------------------------
class Affine(tf.Module):
    def __init__(self):
        super().__init__(name="affine")
        self.w = tf.Variable(weights(1, 3, 2), name="w")
        self.b = tf.Variable(weights(2, 2), name="b")

    @tf.function(input_signature=[Spec([None, 3], f32, name="x")])
    def f(self, x):
        return tf.tanh(x @ self.w + self.b)


def affine():
    batches = [(x(10 + n, n, 3),) for n in (1, 4, 7)]
    return Model(
        "One function with an input_signature, saved without `signatures`: TensorFlow exports it as serving_default.",
        Affine(),
        calls=[(".f", batches, "second")],
        signature_calls=[("serving_default", [{"x": b[0]} for b in batches])],
        rejected=[(".f", (x(1, 2, 4),)), (".f", (tf.constant([[1, 2, 3]]),)), (".f", (x(1, 3, 3), x(1, 3, 3)))],
    )


# (b) --------------------------------------------------------------------------------------------------------------
class Dense(tf.Module):
    def __init__(self, seed, inputs, outputs, name):
        super().__init__(name=name)
        self.w = tf.Variable(weights(seed, inputs, outputs), name="w")
        self.b = tf.Variable(weights(seed + 1, outputs), name="b")

    def __call__(self, x):
        return x @ self.w + self.b


class Nested(tf.Module):
    def __init__(self):
        super().__init__(name="nested")
        self.encoder = Dense(1, 4, 5, "encoder")
        self.heads = [Dense(3, 5, 2, "left"), Dense(5, 5, 3, "right")]
        self.scales = {"small": tf.Variable(0.5, name="small"), "large": tf.Variable(2.0, name="large")}
        self.pair = (tf.Variable(weights(9, 2), name="first"), Dense(7, 2, 2, "second"))
        self.first_head = self.heads[0]  # the same object by a second name
        self.deep = {"layers": [{"gain": tf.Variable([1.0, 2.0], name="gain")}], "empty": []}
        self.frozen = tf.Variable([3.0], trainable=False, name="frozen")
        self.note = "plain Python values are not saved"
        self.number = 7

    @tf.function(input_signature=[Spec([None, 4], f32, name="features")])
    def encode(self, features):
        return tf.nn.relu(self.encoder(features))

    @tf.function(input_signature=[Spec([None, 4], f32, name="features"), Spec([], f32, name="temperature")])
    def score(self, features, temperature):
        hidden = self.encode(features)
        left = self.heads[0](hidden) * self.scales["small"] * self.deep["layers"][0]["gain"]
        right = self.heads[1](hidden) * self.scales["large"] + self.frozen
        left = self.pair[1](left + self.pair[0])
        return {"left": left / temperature, "right": tf.nn.softmax(right)}

    @tf.function
    def __call__(self, features):
        return self.encode(features) * 2.0


def nested():
    module = Nested()
    module(x(0, 2, 4))  # two traces of __call__
    module(x(0, 3, 4))
    t = tf.constant(1.5)
    return Model(
        "Two exported functions, one calling the other, nested modules, lists, dictionaries, a tuple, a shared object, "
        "a plain tf.function with two traces as __call__.",
        module,
        signatures={"encode": module.encode, "score": module.score},
        calls=[
            (".encode", [(x(20, 1, 4),), (x(21, 5, 4),)]),
            (".score", [(x(22, 2, 4), t), (x(23, 6, 4), t)], "second"),
            ("", [(x(24, 2, 4),), (x(25, 3, 4),)]),
        ],
        signature_calls=[
            ("encode", [{"features": x(26, 3, 4)}]),
            ("score", [{"features": x(27, 3, 4), "temperature": t}]),
        ],
        rejected=[("", (x(28, 5, 4),)), (".score", (x(29, 2, 4),))],
    )


# (c) --------------------------------------------------------------------------------------------------------------
class ControlFlow(tf.Module):
    def __init__(self):
        super().__init__(name="control_flow")
        self.w = tf.Variable(weights(31, 3, 3), name="w")
        self.calls = tf.Variable(0, trainable=False, name="calls")

    @tf.function(input_signature=[Spec([None, 3], f32)])
    def branch(self, x):
        return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.tanh(x @ self.w), lambda: x * 3.0 - 1.0)

    @tf.function(input_signature=[Spec([None, 3], f32), Spec([], i32)])
    def loop(self, x, n):
        def body(i, h):
            return i + 1, tf.tanh(h @ self.w + x)

        return tf.while_loop(lambda i, h: i < n, body, [tf.constant(0), tf.zeros_like(x)])[1]

    @tf.function(input_signature=[Spec([None, 3], f32), Spec([], i32)])
    def loop_reading_first(self, x, n):
        w = tf.identity(self.w)  # the loop captures a tensor, not the variable: second derivatives work once loaded
        step = lambda i, h, total: (i + 1, tf.tanh(h @ w + x), total + tf.reduce_sum(h))  # noqa: E731
        start = [tf.constant(0), tf.zeros_like(x), tf.constant(0.0)]
        return tf.while_loop(lambda i, h, total: i < n, step, start, maximum_iterations=5, parallel_iterations=1)[1:]

    @tf.function(input_signature=[Spec([None, 3], f32), Spec([], i32)])
    def autograph(self, x, n):
        total = tf.zeros_like(x)
        for i in tf.range(n):
            if i % 3 == 2:
                continue
            if tf.reduce_max(tf.abs(total)) > 4.0:
                break
            if tf.reduce_sum(total) > 1.0:
                total = total - x * tf.cast(i, f32)
            else:
                total = total + tf.sin(x @ self.w)
        return total

    @tf.function(input_signature=[Spec([None, 3], f32)])
    def rows(self, x):
        out = tf.TensorArray(f32, size=tf.shape(x)[0])
        state = tf.zeros([3])
        for i in tf.range(tf.shape(x)[0]):
            state = state * 0.5 + x[i]
            out = out.write(i, state * tf.reduce_sum(self.w, 0))
        return out.stack()

    @tf.function(input_signature=[Spec([], f32), Spec([], i32)])
    def switch(self, x, which):
        return tf.switch_case(which, [lambda: x * x, lambda: tf.exp(x), lambda: tf.constant(-1.0)])

    @tf.function(input_signature=[Spec([], f32)])
    def newton(self, x):
        guess = x
        while tf.abs(guess * guess - x) > 1e-4:
            guess = 0.5 * (guess + x / guess)
        self.calls.assign_add(1)
        return guess

    @tf.function(input_signature=[Spec([None, 3], f32)])
    def mapped(self, x):
        return tf.map_fn(lambda row: tf.reduce_sum(row * self.w, 1), x)


def control_flow():
    module = ControlFlow()
    n = tf.constant
    names = ("branch", "loop", "loop_reading_first", "autograph", "rows", "switch", "newton", "mapped")
    return Model(
        "tf.cond, tf.while_loop, loops and branches by AutoGraph with break and continue, TensorArray, switch_case, "
        "map_fn, a while loop over values, an assignment.",
        module,
        signatures={name: getattr(module, name) for name in names},
        calls=[
            (".branch", [(tf.abs(x(32, 2, 3)),), (-tf.abs(x(33, 4, 3)),)]),
            (".loop", [(x(34, 2, 3), n(0)), (x(34, 2, 3), n(1)), (x(35, 3, 3), n(6))], "second"),
            (".loop_reading_first", [(x(34, 2, 3), n(0)), (x(43, 2, 3), n(2)), (x(44, 1, 3), n(9))], "second"),
            (".autograph", [(x(36, 2, 3), n(0)), (x(37, 3, 3), n(9)), (x(38, 1, 3) * 3, n(20))]),
            (".rows", [(x(39, 1, 3),), (x(40, 5, 3),)]),
            (".switch", [(n(1.5), n(i)) for i in (0, 1, 2, 7)]),
            (".newton", [(n(2.0),), (n(9.0),)]),
            (".mapped", [(x(41, 4, 3),)]),
        ],
        signature_calls=[("loop", [{"x": x(42, 2, 3), "n": n(3)}]), ("newton", [{"x": n(5.0)}])],
    )


# (d) --------------------------------------------------------------------------------------------------------------
class MLP(tf.Module):
    def __init__(self):
        super().__init__(name="mlp")
        self.layers = [Dense(51, 6, 8, "one"), Dense(53, 8, 8, "two"), Dense(55, 8, 3, "three")]
        self.steps = tf.Variable(0, dtype=i64, trainable=False, name="steps")
        self.rate = tf.Variable(0.05, trainable=False, name="rate")

    def logits(self, x):
        for layer in self.layers[:-1]:
            x = tf.nn.relu(layer(x))
        return self.layers[-1](x)

    @tf.function(input_signature=[Spec([None, 6], f32, name="x")])
    def infer(self, x):
        return tf.nn.softmax(self.logits(x))

    @tf.function(input_signature=[Spec([None, 6], f32, name="x"), Spec([None], i64, name="labels")])
    def loss(self, x, labels):
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=self.logits(x))
        return tf.reduce_mean(losses)

    @tf.function(input_signature=[Spec([None, 6], f32, name="x"), Spec([None], i64, name="labels")])
    def train(self, x, labels):
        with tf.GradientTape() as tape:
            loss = self.loss(x, labels)
        variables = self.trainable_variables
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(self.rate * gradient)
        return {"loss": loss, "step": self.steps.assign_add(1)}

    @tf.function
    def call(self, x, training=False):
        return self.logits(x) if training else tf.argmax(self.logits(x), axis=1)


def mlp_training():
    module = MLP()
    module.call.get_concrete_function(Spec([None, 6], f32, name="x"), training=False)
    module.call.get_concrete_function(Spec([None, 6], f32, name="x"), training=True)
    data = [(x(60 + n, n, 6), tf.constant(np.arange(n) % 3)) for n in (2, 5, 8)]
    return Model(
        "Inference, loss and a training step with the gradient inside the graph: it assigns the weights and counts its "
        "calls; a function with a Python argument.",
        module,
        signatures={"serving_default": module.infer, "train": module.train},
        calls=[
            (".infer", [(b[0],) for b in data], "second"),
            (".loss", data, "second"),
            (".call", [(data[0][0],), kwargs((data[1][0],), training=True), (data[1][0], False)]),
            (".train", data),
            (".infer", [(data[2][0],)]),
        ],
        signature_calls=[
            ("serving_default", [{"x": data[1][0]}]),
            ("train", [{"x": data[0][0], "labels": data[0][1]}]),
        ],
        rejected=[(".call", (data[0][0], 3))],
    )


# (e) --------------------------------------------------------------------------------------------------------------
class CNN(tf.Module):
    def __init__(self):
        super().__init__(name="cnn")
        self.kernel = tf.Variable(weights(71, 3, 3, 2, 4, scale=0.3), name="kernel")
        self.bias = tf.Variable(weights(72, 4, scale=0.1), name="bias")
        self.gamma = tf.Variable(1 + weights(73, 4, scale=0.1), name="gamma")
        self.beta = tf.Variable(weights(74, 4, scale=0.1), name="beta")
        self.mean = tf.Variable(weights(75, 4, scale=0.1), trainable=False, name="mean")
        self.variance = tf.Variable(1 + np.abs(weights(76, 4, scale=0.1)), trainable=False, name="variance")
        self.depthwise = tf.Variable(weights(77, 3, 3, 4, 2, scale=0.3), name="depthwise")
        self.up = tf.Variable(weights(78, 2, 2, 3, 8, scale=0.3), name="up")
        self.head = tf.Variable(weights(79, 3, 5), name="head")

    def features(self, x, normalise):
        x = tf.nn.bias_add(tf.nn.conv2d(x, self.kernel, strides=1, padding="SAME"), self.bias)
        x = tf.nn.relu(normalise(x))
        x = tf.nn.max_pool2d(x, 2, 2, "VALID")
        x = tf.nn.depthwise_conv2d(x, self.depthwise, strides=[1, 1, 1, 1], padding="SAME")
        x = tf.nn.leaky_relu(x, 0.1)
        size = tf.shape(x)
        x = tf.nn.conv2d_transpose(x, self.up, tf.stack([size[0], size[1] * 2, size[2] * 2, 3]), strides=2)
        x = tf.nn.avg_pool2d(tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]), 3, 2, "SAME")
        return tf.reduce_mean(x, axis=[1, 2]) @ self.head

    @tf.function(input_signature=[Spec([None, 8, 8, 2], f32, name="image")])
    def predict(self, image):
        def normalise(x):
            return tf.nn.batch_normalization(x, self.mean, self.variance, self.beta, self.gamma, 1e-3)

        return self.features(image, normalise)

    @tf.function(input_signature=[Spec([None, None, None, 2], f32, name="image")])
    def fused(self, image):
        def normalise(x):
            return tf.compat.v1.nn.fused_batch_norm(
                x, self.gamma, self.beta, self.mean, self.variance, epsilon=1e-3, is_training=False
            )[0]

        return self.features(image, normalise)

    @tf.function(input_signature=[Spec([None, 8, 8, 2], f32, name="image")])
    def train(self, image):
        def normalise(x):
            y, mean, variance = tf.compat.v1.nn.fused_batch_norm(x, self.gamma, self.beta, epsilon=1e-3)
            self.mean.assign(0.9 * self.mean + 0.1 * mean)
            self.variance.assign(0.9 * self.variance + 0.1 * variance)
            return y

        return self.features(image, normalise)


def cnn():
    module = CNN()
    return Model(
        "Convolution, depthwise and transposed convolution, batch normalisation written out and fused (inference and "
        "training, with moving averages), maximum and average pooling.",
        module,
        signatures={"serving_default": module.predict, "train": module.train},
        calls=[
            (".predict", [(x(80, 1, 8, 8, 2),), (x(81, 3, 8, 8, 2),)]),
            (".fused", [(x(82, 2, 8, 8, 2),), (x(83, 1, 6, 10, 2),)]),
            (".train", [(x(84, 3, 8, 8, 2),), (x(85, 2, 8, 8, 2),)]),
            (".predict", [(x(86, 1, 8, 8, 2),)]),
        ],
        signature_calls=[("serving_default", [{"image": x(87, 2, 8, 8, 2)}])],
        rejected=[(".predict", (x(88, 1, 8, 9, 2),))],
    )


# (g) --------------------------------------------------------------------------------------------------------------
class Attention(tf.Module):
    def __init__(self, width=8, heads=2):
        super().__init__(name="attention")
        self.heads, self.size = heads, width // heads
        self.projections = {
            k: tf.Variable(weights(90 + i, width, heads, self.size), name=k) for i, k in enumerate("qkv")
        }
        self.out = tf.Variable(weights(94, heads, self.size, width), name="out")
        self.norms = [[tf.Variable(tf.ones([width])), tf.Variable(tf.zeros([width]))] for _ in range(2)]
        self.up = tf.Variable(weights(95, width, 2 * width), name="up")
        self.down = tf.Variable(weights(96, 2 * width, width), name="down")

    def norm(self, x, i):
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        return (x - mean) * tf.math.rsqrt(variance + 1e-5) * self.norms[i][0] + self.norms[i][1]

    @tf.function(input_signature=[Spec([None, None, 8], f32, name="x"), Spec([None, None], tf.bool, name="mask")])
    def block(self, x, mask):
        h = self.norm(x, 0)
        q, k, v = (tf.einsum("btc,chd->bhtd", h, self.projections[n]) for n in "qkv")
        scores = tf.einsum("bhtd,bhsd->bhts", q, k) / tf.sqrt(tf.cast(self.size, f32))
        length = tf.shape(x)[1]
        causal = tf.linalg.band_part(tf.ones([length, length], tf.bool), -1, 0)
        scores = tf.where(causal & mask[:, tf.newaxis, tf.newaxis, :], scores, -1e9)
        x = x + tf.einsum("bhts,bhsd,hdc->btc", tf.nn.softmax(scores), v, self.out)
        h = tf.nn.gelu(self.norm(x, 1) @ self.up, approximate=True)
        return x + h @ self.down


def attention():
    module = Attention()
    masks = [tf.constant([[True] * 3]), tf.constant([[True] * 5, [True] * 3 + [False] * 2])]
    return Model(
        "A transformer block: einsum, causal and padding masks, softmax, layer norm, gelu.",
        module,
        signatures=module.block,
        calls=[(".block", [(x(97, 1, 3, 8), masks[0]), (x(98, 2, 5, 8), masks[1])], "second")],
        signature_calls=[("serving_default", [{"x": x(99, 2, 5, 8), "mask": masks[1]}])],
    )


# (i) --------------------------------------------------------------------------------------------------------------
class Dtypes(tf.Module):
    def __init__(self):
        super().__init__(name="dtypes")
        self.half = tf.Variable(weights(101, 3), dtype=tf.float16, name="half")
        self.brain = tf.Variable(tf.cast(weights(102, 3), tf.bfloat16), name="brain")
        self.double = tf.Variable(weights(103, 3, dtype="float64"), name="double")
        self.wide = tf.Variable(weights(104, 3) + 1j * weights(105, 3), dtype=tf.complex64, name="wide")
        self.whole = tf.Variable([2**40, -3, 0], dtype=i64, trainable=False, name="whole")
        self.byte = tf.Variable([0, 127, 255], dtype=tf.uint8, trainable=False, name="byte")
        self.flag = tf.Variable([True, False, True], trainable=False, name="flag")
        self.words = tf.Variable(["a", "", "\u00fcber"], trainable=False, name="words")

    @tf.function(input_signature=[Spec([None, 3], f32, name="x"), Spec([None], i64, name="n")])
    def f(self, x, n):
        half = tf.cast(x, tf.float16) * self.half
        brain = tf.cast(x, tf.bfloat16) + self.brain
        return {
            "half": half,
            "brain": tf.nn.relu(brain),
            "double": tf.cast(x, f64) * self.double,
            "real": tf.math.real(tf.complex(x, x * 2.0) * self.wide),
            "complex": tf.complex(x, -x) * self.wide,
            "whole": n * 3 + self.whole[0],
            "small": tf.cast(n, tf.int8) - tf.constant(1, tf.int8),
            "byte": tf.bitwise.bitwise_and(tf.cast(n, tf.uint8), self.byte[1]),
            "flag": tf.logical_or(n > 2, self.flag[1]),
            "text": tf.strings.join(["n=", tf.strings.as_string(n), ":", self.words[2]]),
            "floor": tf.math.floordiv(n, -4),
            "mod": tf.math.floormod(n, -4),
            "nan": tf.math.log(tf.minimum(x[:, 0], 0.0)) * 0.0,
        }

    @tf.function(
        input_signature=[
            Spec([None], tf.float16),
            Spec([None], tf.bfloat16),
            Spec([None], f64),
            Spec([], tf.string),
            Spec([], tf.uint8),
        ]
    )
    def inputs(self, half, brain, double, text, byte):
        total = tf.cast(half, f64) + tf.cast(brain, f64) + double
        return total * tf.cast(byte, f64), tf.strings.length(text), tf.strings.join([text, "!"])


def dtypes():
    module = Dtypes()
    n = [tf.constant([5], i64), tf.constant([-7, 0, 300], i64)]
    return Model(
        "Variables, inputs and outputs of 11 dtypes, strings among them; constants of small dtypes; a NaN.",
        module,
        signatures={"f": module.f, "inputs": module.inputs},
        calls=[
            (".f", [(x(106, 1, 3), n[0]), (x(107, 3, 3), n[1])]),
            (
                ".inputs",
                [
                    (
                        x(108, 2, dtype="float16"),
                        tf.cast(x(109, 2), tf.bfloat16),
                        x(110, 2, dtype="float64"),
                        tf.constant("caf\u00e9"),
                        tf.constant(3, tf.uint8),
                    )
                ],
            ),
        ],
        signature_calls=[("f", [{"x": x(111, 2, 3), "n": tf.constant([1, 2], i64)}])],
    )


# (j) --------------------------------------------------------------------------------------------------------------
class Vocabulary(tf.Module):
    def __init__(self, file, numbers):
        super().__init__(name="vocabulary")
        init = tf.lookup.TextFileInitializer(
            file, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, i64, tf.lookup.TextFileIndex.LINE_NUMBER
        )
        self.ids = tf.lookup.StaticHashTable(init, default_value=-1)
        self.with_unknown = tf.lookup.StaticVocabularyTable(
            tf.lookup.TextFileInitializer(
                file, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, i64, tf.lookup.TextFileIndex.LINE_NUMBER
            ),
            1,
        )
        columns = tf.lookup.TextFileInitializer(numbers, tf.string, 0, f32, 1, delimiter="\t")
        self.prices = tf.lookup.StaticHashTable(columns, default_value=float("nan"))
        self.names = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(tf.constant([0, 1, 2], i64), tf.constant(["red", "green", "blue"])),
            "unknown",
        )
        self.embedding = tf.Variable(weights(121, 6, 4), name="embedding")
        self.file = tf.saved_model.Asset(file)

    @tf.function(input_signature=[Spec([None], tf.string, name="words")])
    def lookup(self, words):
        return {
            "ids": self.ids.lookup(words),
            "known": self.with_unknown.lookup(words),
            "price": self.prices.lookup(words),
        }

    @tf.function(input_signature=[Spec([None], tf.string, name="words")])
    def embed(self, words):
        return tf.nn.embedding_lookup(self.embedding, self.with_unknown.lookup(words))

    @tf.function(input_signature=[Spec([None], i64, name="ids")])
    def decode(self, ids):
        return self.names.lookup(ids), self.names.size()

    @tf.function(input_signature=[])
    def read(self):
        return tf.io.read_file(self.file.asset_path)


def vocabulary():
    os.chdir(tempfile.mkdtemp(prefix="savedmodel_"))  # TensorFlow puts the path of a file into the name of its table
    Path("vocabulary.txt").write_text("the\ncat\nsat\non\nmat\n")
    Path("prices.tsv").write_text("cat\t2.5\nmat\t0.75\n")
    module = Vocabulary("vocabulary.txt", "prices.tsv")
    words = [tf.constant(["cat"]), tf.constant(["the", "mat", "dog", "", "on"])]
    return Model(
        "Static hash tables from text files kept as assets, from tensors, with unknown words; an asset read directly.",
        module,
        signatures={"serving_default": module.lookup, "embed": module.embed},
        calls=[
            (".lookup", [(w,) for w in words]),
            (".embed", [(w,) for w in words]),
            (".decode", [(tf.constant([2, 0, 9], i64),)]),
            (".read", [()]),
        ],
        signature_calls=[("serving_default", [{"words": words[1]}]), ("embed", [{"words": words[0]}])],
    )


# (l) --------------------------------------------------------------------------------------------------------------
class Dynamic(tf.Module):
    def __init__(self):
        super().__init__(name="dynamic")
        self.scale = tf.Variable(weights(131, 4), name="scale")

    @tf.function(input_signature=[Spec([None, None, 4], f32, name="x")])
    def flatten(self, x):
        shape = tf.shape(x)
        flat = tf.reshape(x * self.scale, [shape[0] * shape[1], 4])
        tiled = tf.tile(flat, [1, shape[1]])
        return tf.reshape(tiled, tf.concat([shape[:2], [-1]], 0)), tf.size(x), tf.rank(x)

    @tf.function(input_signature=[Spec(None, f32, name="x")])
    def any_rank(self, x):
        return tf.reduce_sum(tf.reshape(x, [-1])) * tf.ones_like(x) + tf.cast(tf.rank(x), f32)

    @tf.function(input_signature=[Spec([None, None], f32, name="x"), Spec([None, None], f32, name="y")])
    def pairs(self, x, y):
        n, m = tf.shape(x)[0], tf.shape(y)[0]
        left = tf.broadcast_to(x[:, None, :], [n, m, tf.shape(x)[1]])
        right = tf.repeat(y[None], n, axis=0)
        return tf.transpose(tf.concat([left, right], -1), [1, 0, 2])

    @tf.function(input_signature=[Spec([None, 4], f32, name="x")])
    def slices(self, x):
        n = tf.shape(x)[0]
        half = n // 2
        positions = tf.cast(tf.range(n), f32)[:, None]
        padded = tf.pad(x[::-1, 1:3], [[0, tf.maximum(0, 6 - n)], [1, 0]], constant_values=1.0)
        kept = tf.boolean_mask(x, x[:, 0] > 0.0)
        top = tf.math.top_k(x[:, 1], k=tf.minimum(2, n)).values
        halves = tf.split(x, [half, n - half])
        return {
            "first": x[:half] * positions[:half],
            "last": x[-1, ...],
            "padded": padded,
            "kept": kept,
            "top": top,
            "sorted": tf.sort(x, axis=0, direction="DESCENDING"),
            "halves": tf.reduce_mean(halves[1], 0),
            "cumulative": tf.cumsum(x, axis=0, exclusive=True),
            "where": tf.where(x > 0.0),
            "grid": tf.stack(tf.meshgrid(tf.range(half), tf.range(n), indexing="ij"), -1),
        }


def dynamic():
    module = Dynamic()
    return Model(
        "None dimensions and an unknown rank: shape arithmetic, reshape, tile, broadcast, strided slices, masks.",
        module,
        signatures={name: getattr(module, name) for name in ("pairs", "slices")},
        calls=[
            (".flatten", [(x(132, 1, 1, 4),), (x(133, 3, 2, 4),), (x(134, 0, 2, 4),)]),
            (".any_rank", [(x(135),), (x(136, 3),), (x(137, 2, 1, 2, 2),)]),
            (".pairs", [(x(138, 2, 3), x(139, 4, 2)), (x(140, 5, 1), x(141, 1, 1))]),
            (".slices", [(x(142, 2, 4),), (x(143, 7, 4),)]),
        ],
        signature_calls=[("slices", [{"x": x(144, 4, 4)}]), ("pairs", [{"x": x(145, 2, 2), "y": x(146, 3, 2)}])],
    )


# (m) --------------------------------------------------------------------------------------------------------------
@tf.custom_gradient
def clip_gradient(x, limit):
    def grad(upstream):
        return tf.clip_by_value(upstream, -limit, limit), None

    return tf.identity(x), grad


@tf.custom_gradient
def straight_through_sign(x):
    def grad(upstream):
        return tf.where(tf.abs(x) <= 1.0, upstream, tf.zeros_like(upstream))

    return tf.sign(x), grad


class CustomGradient(tf.Module):
    def __init__(self):
        super().__init__(name="custom_gradient")
        self.w = tf.Variable(weights(151, 3, 3), name="w")
        self.limit = tf.Variable(0.5, trainable=False, name="limit")

        @tf.custom_gradient
        def scaled(x):
            y = tf.exp(x @ self.w)

            def grad(upstream, variables=None):
                into = tf.matmul(upstream * y, self.w, transpose_b=True) * 10.0
                return into, [tf.matmul(x, upstream * y, transpose_a=True) * 100.0 for _ in variables]

            return y, grad

        self._scaled = scaled

    @tf.function(input_signature=[Spec([None, 3], f32, name="x")])
    def clipped(self, x):
        return clip_gradient(x @ self.w, self.limit) * 2.0

    @tf.function(input_signature=[Spec([None, 3], f32, name="x")])
    def binary(self, x):
        return straight_through_sign(x @ self.w) + straight_through_sign(x * 2.0)

    @tf.function(input_signature=[Spec([None, 3], f32, name="x")])
    def with_variable(self, x):
        return self._scaled(x)

    @tf.function(input_signature=[Spec([None, 3], f32, name="x")])
    def stopped(self, x):
        through = tf.grad_pass_through(tf.round)(x)
        return tf.stop_gradient(tf.exp(x)) * x + through


def custom_gradient():
    module = CustomGradient()
    batches = [(x(152, 1, 3),), (x(153, 4, 3),)]
    names = ("clipped", "binary", "with_variable", "stopped")
    return Model(
        "tf.custom_gradient with captured tensors, with a variable, straight-through estimators, stop_gradient; saved "
        "with experimental_custom_gradients.",
        module,
        signatures={name: getattr(module, name) for name in names},
        calls=[(f".{name}", batches) for name in names],
        signature_calls=[(name, [{"x": x(154, 2, 3)}]) for name in names],
        options={"experimental_custom_gradients": True},
    )


# (n) --------------------------------------------------------------------------------------------------------------
def keras_dense():
    import keras

    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.layers.Input((5,), name="features"),
            keras.layers.Dense(7, activation="gelu", name="hidden"),
            keras.layers.BatchNormalization(name="norm"),
            keras.layers.Dropout(0.5, name="drop"),
            keras.layers.Dense(3, activation="softmax", name="classes"),
        ],
        name="mlp",
    )
    for i, variable in enumerate(model.variables):
        if "seed" not in variable.path:
            variable.assign(
                np.abs(weights(160 + i, *variable.shape))
                if "variance" in variable.path
                else weights(160 + i, *variable.shape)
            )
    batches = [(x(170 + n, n, 5),) for n in (1, 4)]
    return Model(
        "A Keras 3 Sequential model through model.export: Dense, batch normalisation, dropout that does nothing.",
        export=lambda path: model.export(path, verbose=False),
        calls=[(".serve", batches)],
        signature_calls=[("serving_default", [{"features": b[0]} for b in batches])],
    )


# (o) --------------------------------------------------------------------------------------------------------------
Point = collections.namedtuple("Point", ["x", "y"])


class Structured(tf.Module):
    def __init__(self):
        super().__init__(name="structured")
        self.w = tf.Variable(weights(181, 2), name="w")
        self.table = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        self.concrete = self.outputs.get_concrete_function(Spec([None, 2], f32, name="points"))

    @tf.function
    def outputs(self, points):
        moved = points + self.w
        return {
            "moved": moved,
            "nested": {"sum": tf.reduce_sum(moved, 1), "parts": [moved[:, 0], (moved[:, 1], tf.shape(moved)[0])]},
            "point": Point(moved[:, 0] * 2.0, self.table @ self.table),
            "nothing": None,
            "same": points,
        }

    @tf.function(
        input_signature=[
            {"a": Spec([None], f32), "b": [Spec([], f32), Spec([2], f32)]},
            (Spec([None], f32, name="late"),),
        ]
    )
    def inputs(self, tree, pair):
        return tree["a"] * tree["b"][0] + tf.reduce_sum(tree["b"][1] * self.w) + pair[0]

    @tf.function(input_signature=[Spec([None, 2], f32, name="points")])
    def flat(self, points):
        return {"norm": tf.norm(points + self.w, axis=1), "count": tf.shape(points)[0], "points": points}

    @tf.function
    def options(self, points, power=2, *, mode="sum", shift=None):
        y = points**power
        y = tf.reduce_sum(y, 1) if mode == "sum" else tf.reduce_mean(y, 1)
        return y if shift is None else y + shift

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], f32)])
    def ragged(self, rows):
        return rows * self.w[0], tf.reduce_sum(rows, axis=1)


def structured():
    module = Structured()
    points = Spec([None, 2], f32, name="points")
    module.options.get_concrete_function(points)
    module.options.get_concrete_function(points, 3, mode="mean")
    module.options.get_concrete_function(points, power=2, mode="sum", shift=Spec([], f32))
    p = [x(182, 1, 2), x(183, 4, 2)]
    tree = {"a": x(184, 3), "b": [tf.constant(2.0), x(185, 2)]}
    rows = tf.ragged.constant([[1.0, 2.0], [], [3.0]])
    return Model(
        "Dictionaries, lists, tuples, a named tuple and None as outputs, nested and ragged inputs, default values and "
        "keyword-only Python arguments, a concrete function and a constant as attributes.",
        module,
        signatures={"serving_default": module.flat},
        calls=[
            (".concrete", [(b,) for b in p]),
            (".outputs", [(p[1],)]),
            (".flat", [(b,) for b in p]),
            (".inputs", [(tree, (x(186, 3),))]),
            (".options", [(p[0],), kwargs((p[1], 3), mode="mean"), kwargs((p[1],), shift=tf.constant(1.5))]),
            (".ragged", [(rows,)]),
        ],
        signature_calls=[("serving_default", [{"points": b} for b in p])],
        rejected=[(".options", (p[0], 5)), (".inputs", (tree,))],
    )


BUILDERS = [
    affine,
    nested,
    control_flow,
    mlp_training,
    cnn,
    attention,
    dtypes,
    vocabulary,
    dynamic,
    custom_gradient,
    keras_dense,
    structured,
]

if __name__ == "__main__":
    make(BUILDERS, Path(__file__).resolve().parent, sys.argv[1:])
