"""Small programs on text in the style of TensorFlow's pages: the same code runs on gradtape and on TensorFlow.

python text_programs.py tensorflow      # prints what the test compares with
"""

from __future__ import annotations

import importlib
import json
import re
import string
import sys

import numpy as np

SENTENCES = [
    "the quick fox runs over the hill",
    "a lazy dog sleeps near the river",
    "the fox and the dog run to the river",
    "a bird sings over the quiet hill",
    "the dog sees a quick bird near the hill",
    "birds and dogs sleep, foxes run!",
]


def word2vec(tf):
    """Skip-grams with negative samples, and a model of two embeddings."""
    layers = tf.keras.layers
    vectorize = layers.TextVectorization(
        standardize=lambda text: tf.strings.regex_replace(
            tf.strings.lower(text), f"[{re.escape(string.punctuation)}]", ""
        ),
        max_tokens=40,
        output_sequence_length=8,
    )
    lines = tf.data.Dataset.from_tensor_slices(SENTENCES).filter(lambda x: tf.cast(tf.strings.length(x), bool))
    vectorize.adapt(lines.batch(4))
    words = vectorize.get_vocabulary()
    sequences = [row.numpy() for row in lines.batch(4).map(vectorize).unbatch()]
    targets, contexts, labels = [], [], []
    for sequence in sequences:
        for at, target in enumerate(sequence):
            for near in sequence[max(0, at - 2) : at + 3]:
                if not target or not near or near == target:
                    continue
                positive = tf.expand_dims(tf.constant([near], tf.int64), 1)
                negative, _, _ = tf.random.log_uniform_candidate_sampler(
                    true_classes=positive, num_true=1, num_sampled=4, unique=True, range_max=len(words), seed=42
                )
                contexts.append(tf.concat([tf.squeeze(positive, 1), negative], 0))
                labels.append(tf.constant([1] + [0] * 4, tf.int64))
                targets.append(target)

    class Word2Vec(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.target_embedding = layers.Embedding(len(words), 8, name="w2v_embedding")
            self.context_embedding = layers.Embedding(len(words), 8)

        def call(self, pair):
            target, context = pair
            return tf.einsum("be,bce->bc", self.target_embedding(target), self.context_embedding(context))

    data = tf.data.Dataset.from_tensor_slices(((np.array(targets), tf.stack(contexts)), tf.stack(labels)))
    data = data.shuffle(1000, seed=1).batch(32, drop_remainder=True).cache().prefetch(tf.data.AUTOTUNE)
    model = Word2Vec()
    model.compile(
        optimizer=tf.keras.optimizers.Adam(0.02), loss=tf.keras.losses.CategoricalCrossentropy(from_logits=True)
    )
    losses = model.fit(data, epochs=12, verbose=0).history["loss"]
    return {
        "vocabulary": words,
        "first": sequences[0].tolist(),
        "pairs": len(targets),
        "weights": list(model.get_layer("w2v_embedding").get_weights()[0].shape),
    }, losses


def text_generation(tf):
    """Characters, one after the other, from a GRU whose state is carried along."""
    layers = tf.keras.layers
    text = " ".join(SENTENCES) * 4
    vocabulary = sorted(set(text))
    ids_of = layers.StringLookup(vocabulary=list(vocabulary), mask_token=None)
    chars_of = layers.StringLookup(vocabulary=ids_of.get_vocabulary(), invert=True, mask_token=None)
    ids = ids_of(tf.strings.unicode_split(text, "UTF-8"))
    again = tf.strings.reduce_join(chars_of(ids[:20]), axis=-1).numpy().decode()
    data = tf.data.Dataset.from_tensor_slices(ids).batch(25, drop_remainder=True)
    data = data.map(lambda row: (row[:-1], row[1:])).shuffle(100, seed=2).batch(8, drop_remainder=True)

    class Generator(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.embedding = layers.Embedding(len(ids_of.get_vocabulary()), 16)
            self.gru = layers.GRU(32, return_sequences=True, return_state=True)
            self.dense = layers.Dense(len(ids_of.get_vocabulary()))

        def call(self, inputs, states=None, return_state=False, training=False):
            x = self.embedding(inputs, training=training)
            if states is None:
                states = [tf.zeros([tf.shape(x)[0], 32])]
            x, states = self.gru(x, initial_state=states, training=training)
            x = self.dense(x, training=training)
            return (x, states) if return_state else x

    model, loss_of = Generator(), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer, losses = tf.keras.optimizers.Adam(0.01), []

    @tf.function
    def train_step(inputs, labels):
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(inputs, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    for _ in range(8):
        losses.append(float(np.mean([float(train_step(*batch)) for batch in data])))
    skip = ids_of(["[UNK]"])[:, None]
    mask = tf.sparse.to_dense(
        tf.SparseTensor(values=[-float("inf")] * len(skip), indices=skip, dense_shape=[len(ids_of.get_vocabulary())])
    )

    @tf.function
    def one_step(chars, states):
        inputs = ids_of(tf.strings.unicode_split(chars, "UTF-8")).to_tensor()
        logits, states = model(inputs, states=states, return_state=True)
        drawn = tf.random.categorical(logits[:, -1, :] + mask, num_samples=1)
        return chars_of(tf.squeeze(drawn, axis=-1)), states

    states, chars, result = tf.zeros([1, 32]), tf.constant(["t"]), [tf.constant(["t"])]
    for _ in range(12):
        chars, states = one_step(chars, states)
        result.append(chars)
    written = tf.strings.join(result)[0].numpy().decode()
    assert len(written) == 13
    assert set(written) <= set(vocabulary)
    return {"again": again, "ids": ids[:12].numpy().tolist(), "vocabulary": ids_of.vocabulary_size()}, losses


def translation(tf):
    """An encoder and a decoder with attention, which read tokens with marks for start and end."""
    layers = tf.keras.layers
    target = [" ".join(word[::-1] for word in line.split()) for line in SENTENCES]

    def standardize(text):
        text = tf.strings.lower(tf.strings.regex_replace(text, "[^ a-zA-Z.?!,¿]", ""))
        text = tf.strings.strip(tf.strings.regex_replace(text, "[.?!,¿]", r" \0 "))
        return tf.strings.join(["[START]", text, "[END]"], separator=" ")

    readers = []
    for lines in (SENTENCES, target):
        reader = layers.TextVectorization(standardize=standardize, max_tokens=60, ragged=True)
        reader.adapt(tf.data.Dataset.from_tensor_slices(lines).batch(3))
        readers.append(reader)
    read, write = readers

    def process(context, target):
        context, target = read(context).to_tensor(), write(target)
        return (context, target[:, :-1].to_tensor()), target[:, 1:].to_tensor()

    data = tf.data.Dataset.from_tensor_slices((SENTENCES, target)).batch(3).map(process, tf.data.AUTOTUNE).cache()

    class Translator(tf.keras.Model):
        def __init__(self, units=16):
            super().__init__()
            self.embed_context = layers.Embedding(read.vocabulary_size(), units, mask_zero=True)
            self.encoder = layers.Bidirectional(
                layers.GRU(units, return_sequences=True, recurrent_initializer="glorot_uniform"), merge_mode="sum"
            )
            self.embed_target = layers.Embedding(write.vocabulary_size(), units, mask_zero=True)
            self.decoder = layers.GRU(units, return_sequences=True, return_state=True)
            self.attention = layers.MultiHeadAttention(key_dim=units, num_heads=1)
            self.norm, self.add = layers.LayerNormalization(), layers.Add()
            self.out = layers.Dense(write.vocabulary_size())

        def call(self, inputs):
            context, x = inputs
            context = self.encoder(self.embed_context(context))
            x, _ = self.decoder(self.embed_target(x))
            attended, self.last_weights = self.attention(query=x, value=context, return_attention_scores=True)
            return self.out(self.norm(self.add([x, attended])))

    def masked_loss(y_true, y_pred):
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")(y_true, y_pred)
        mask = tf.cast(y_true != 0, loss.dtype)
        return tf.reduce_sum(loss * mask) / tf.reduce_sum(mask)

    def masked_accuracy(y_true, y_pred):
        match = tf.cast(y_true == tf.cast(tf.argmax(y_pred, axis=-1), y_true.dtype), tf.float32)
        mask = tf.cast(y_true != 0, tf.float32)
        return tf.reduce_sum(match * mask) / tf.reduce_sum(mask)

    model = Translator()
    model.compile(optimizer=tf.keras.optimizers.Adam(0.02), loss=masked_loss, metrics=[masked_accuracy, masked_loss])
    losses = model.fit(data, epochs=12, verbose=0).history["loss"]
    (context, start), _ = next(iter(data))
    words = tf.constant(write.get_vocabulary())
    guess = tf.gather(words, tf.argmax(model((context, start)), -1))
    lines = tf.strings.reduce_join(guess, axis=-1, separator=" ")
    cleaned = tf.strings.regex_replace(tf.strings.regex_replace(lines, r"^ *\[START\] *", ""), r" *\[END\] *$", "")
    assert cleaned.shape == [3]
    return {
        "context": context.numpy().tolist(),
        "target": start.numpy().tolist(),
        "words": write.get_vocabulary()[:6],
        "rows": list(model.last_weights.shape),
    }, losses


def classification(tf):
    """Positive and negative reviews: HTML removed, tokens embedded and averaged."""
    layers = tf.keras.layers
    good, bad = ["great", "fine", "lovely", "superb"], ["awful", "dull", "poor", "boring"]
    rng = np.random.default_rng(0)
    texts, labels = [], []
    for i in range(64):
        chosen = rng.choice(bad if i % 2 else good, 3).tolist()
        texts.append(f"This film was {chosen[0]},<br />{chosen[1]} and {chosen[2].upper()}!")
        labels.append(1 - i % 2)

    @tf.keras.utils.register_keras_serializable()
    def standardize(data):
        stripped = tf.strings.regex_replace(tf.strings.lower(data), "<br />", " ")
        return tf.strings.regex_replace(stripped, f"[{re.escape(string.punctuation)}]", "")

    vectorize = layers.TextVectorization(
        standardize=standardize, max_tokens=100, output_mode="int", output_sequence_length=10
    )
    data = tf.data.Dataset.from_tensor_slices((texts, labels)).batch(16)
    vectorize.adapt(data.map(lambda text, label: text))
    prepared = data.map(lambda text, label: (vectorize(tf.expand_dims(text, -1)), label)).cache().prefetch(1)
    model = tf.keras.Sequential(
        [
            layers.Embedding(100, 16),
            layers.Dropout(0.2),
            layers.GlobalAveragePooling1D(),
            layers.Dropout(0.2),
            layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(
        loss=tf.keras.losses.BinaryCrossentropy(),
        optimizer=tf.keras.optimizers.Adam(0.05),
        metrics=[tf.keras.metrics.BinaryAccuracy(threshold=0.5)],
    )
    losses = model.fit(prepared, epochs=10, verbose=0).history["loss"]
    whole = tf.keras.Sequential([vectorize, model, layers.Activation("linear")])
    found = whole.predict(tf.constant(["A lovely, superb film", "A dull, awful film"]), verbose=0)
    assert found[0, 0] > 0.5 > found[1, 0]
    return {"vocabulary": vectorize.get_vocabulary()[:8], "row": vectorize(texts[:1]).numpy().tolist()}, losses


def captioning(tf):
    """Captions of pictures: features of a small network, and a decoder with attention that is causal."""
    layers = tf.keras.layers
    rng = np.random.default_rng(0)
    shades = rng.integers(0, 2, 24)
    pictures = (shades[:, None, None, None] + rng.normal(size=(24, 16, 16, 3)) * 0.1).astype(np.float32)
    captions = [("a bright picture of snow" if shade else "a dark picture of night") for shade in shades]

    def standardize(text):
        text = tf.strings.regex_replace(tf.strings.lower(text), f"[{re.escape(string.punctuation)}]", "")
        return tf.strings.join(["[START]", text, "[END]"], separator=" ")

    tokenizer = layers.TextVectorization(max_tokens=50, standardize=standardize, ragged=True)
    tokenizer.adapt(tf.data.Dataset.from_tensor_slices(captions).batch(8))
    to_index = layers.StringLookup(mask_token="", vocabulary=tokenizer.get_vocabulary())
    to_word = layers.StringLookup(mask_token="", vocabulary=tokenizer.get_vocabulary(), invert=True)

    def prepare(images, texts):
        tokens = tokenizer(texts)
        return (images, tokens[..., :-1].to_tensor()), tokens[..., 1:].to_tensor()

    data = tf.data.Dataset.from_tensor_slices((pictures, captions)).batch(8).map(prepare)

    class Captioner(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.features = tf.keras.Sequential([layers.Conv2D(8, 3, 2, activation="relu"), layers.MaxPooling2D()])
            self.words = layers.Embedding(tokenizer.vocabulary_size(), 16, mask_zero=True)
            self.places = layers.Embedding(10, 16)
            self.self_attention = layers.MultiHeadAttention(2, 8)
            self.cross_attention = layers.MultiHeadAttention(2, 8)
            self.first, self.second = layers.LayerNormalization(), layers.LayerNormalization()
            self.out = layers.Dense(tokenizer.vocabulary_size())

        def call(self, inputs):
            image, text = inputs
            image = self.features(image)
            image = tf.reshape(image, [tf.shape(image)[0], -1, image.shape[-1]])
            x = self.words(text) + self.places(tf.range(tf.shape(text)[1]))[tf.newaxis]
            x = self.first(x + self.self_attention(query=x, value=x, use_causal_mask=True))
            return self.out(self.second(x + self.cross_attention(x, image)))

    def masked_loss(labels, predictions):
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.cast(labels, tf.int64), predictions)
        mask = tf.cast((labels != 0) & (loss < 1e8), loss.dtype)
        return tf.reduce_sum(loss * mask) / tf.reduce_sum(mask)

    model = Captioner()
    model.compile(tf.keras.optimizers.Adam(0.01), loss=masked_loss)
    losses = model.fit(data.repeat(), steps_per_epoch=3, epochs=12, verbose=0).history["loss"]
    tokens = to_index([["[START]"]])
    for _ in range(8):
        logits = model((pictures[:1], tokens)).numpy()[:, -1]
        drawn = tf.cast(tf.argmax(logits, axis=-1)[:, tf.newaxis], tokens.dtype)
        tokens = tf.concat([tokens, drawn], axis=1)
        if drawn[0] == to_index("[END]"):
            break
    words = tf.strings.reduce_join(to_word(tokens[0, 1:-1]), axis=-1, separator=" ").numpy().decode()
    return {"words": words, "vocabulary": tokenizer.get_vocabulary()}, losses


PROGRAMS = {
    "word2vec": word2vec,
    "text_generation": text_generation,
    "translation": translation,
    "classification": classification,
    "captioning": captioning,
}

if __name__ == "__main__":
    module = importlib.import_module(sys.argv[1])
    for name, program in PROGRAMS.items():
        module.keras.utils.set_random_seed(0)
        facts, losses = program(module)
        print(json.dumps({name: facts}), round(losses[0], 3), round(losses[-1], 3))
