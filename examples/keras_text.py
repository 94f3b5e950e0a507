"""Classify short reviews as good or bad: text classification with Keras, Embedding and LSTM.

In `data/reviews.txt` the word order matters: "not" negates the next word, and what follows "but" outweighs the rest. An
LSTM reads the words in order and learns this. A model that averages the word embeddings cannot, however long it is
trained. Both are trained with `fit`.

    python examples/keras_text.py          about 15 seconds; writes keras_text.png
    python examples/keras_text.py --quick  a short run
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from common import DATA, arguments, get_pyplot, save_picture

import gradtape as tf
from gradtape.keras import layers

TRAINING = 800
SHOWN = (
    "the soup was delicious but the bill was absurd",
    "the soup was not delicious but the bill was fair",
    "the waiter was never rude and the fish is tender",
    "the room was dark but the cook is hardly lazy",
    "to be fair the music was not so awful",
    "the cake was light but the coffee was not strong",
)


def load() -> tuple[list[list[str]], Any]:
    """Return the reviews as lists of words, and labels: 1 for good reviews, 0 for bad ones."""
    lines = (DATA / "reviews.txt").read_text(encoding="utf-8").splitlines()
    labels = np.array([line.startswith("+") for line in lines], np.float32)
    return [line[2:].split() for line in lines], labels


class Vocabulary:
    """Maps words to integers: 0 is padding, 1 is an unknown word."""

    def __init__(self, reviews: list[list[str]]) -> None:
        self.numbers = {word: i for i, word in enumerate(sorted({w for review in reviews for w in review}), 2)}
        self.length = max(map(len, reviews))

    def __len__(self) -> int:
        return len(self.numbers) + 2

    def __call__(self, reviews: list[list[str]]) -> Any:
        """Return the reviews as rows of integers, padded with zeros at the end."""
        rows = [[self.numbers.get(word, 1) for word in review] for review in reviews]
        return tf.keras.utils.pad_sequences(rows, self.length, padding="post")


def make_model(name: str, reader: tf.keras.layers.Layer, words: int) -> tf.keras.Model:
    """Return a model that embeds the words, reduces them to one vector, and predicts whether the review is good."""
    model = tf.keras.Sequential(
        [
            layers.Embedding(words, 16, mask_zero=True),  # the next layers skip the zeros
            reader,
            layers.Dense(1, activation="sigmoid"),
        ],
        name=name,
    )
    model.compile(tf.keras.optimizers.Adam(0.01), loss="binary_crossentropy", metrics=["accuracy"])
    return model


def draw(histories: dict[str, Any], beliefs: list[Any], out: Path) -> None:
    """Plot the accuracy of the models, and the LSTM's prediction after each word of reviews it was not trained on."""
    pyplot = get_pyplot()
    if pyplot is None:
        return
    figure, (curves, reading) = pyplot.subplots(2, 1, figsize=(10, 7.2), layout="constrained", height_ratios=(3, 4))
    for (name, history), color in zip(histories.items(), ("C0", "C1"), strict=True):
        epochs = np.arange(1, len(history["accuracy"]) + 1)
        curves.plot(epochs, history["accuracy"], ":", color=color, label=f"{name}, training")
        curves.plot(epochs, history["val_accuracy"], "-", color=color, marker=".", label=f"{name}, test")
    curves.set(xlabel="epoch", ylabel="accuracy", ylim=(0.45, 1.02))
    curves.legend(loc="upper right", bbox_to_anchor=(1, 0.94))
    curves.grid(alpha=0.3)
    for row, (review, belief) in enumerate(zip(SHOWN, beliefs, strict=True)):
        for place, (word, good) in enumerate(zip(review.split(), belief, strict=True)):
            color = pyplot.get_cmap("RdYlGn")(0.15 + 0.7 * float(good))
            reading.add_patch(pyplot.Rectangle((place, row + 0.1), 0.96, 0.8, color=color))
            reading.text(place + 0.48, row + 0.5, word, ha="center", va="center", fontsize=10)
    reading.set(xlim=(0, max(len(review.split()) for review in SHOWN)), ylim=(len(SHOWN), 0), yticks=[], xticks=[])
    reading.set_title("Prediction of the LSTM after each word: good (green) or bad (red)")
    reading.spines[:].set_visible(False)
    save_picture(figure, out, "keras_text.png")


def main() -> None:
    chosen = arguments(__doc__, steps=15, quick=8)
    tf.keras.utils.set_random_seed(chosen.seed)
    reviews, labels = load()
    order = np.random.default_rng(chosen.seed).permutation(len(reviews))
    learned = [reviews[i] for i in order[:TRAINING]]
    vocabulary = Vocabulary(learned)
    x, y = vocabulary(learned), labels[order[:TRAINING]]
    test = vocabulary([reviews[i] for i in order[TRAINING:]]), labels[order[TRAINING:]]

    readers = {"mean of the words": layers.GlobalAveragePooling1D(), "LSTM": layers.LSTM(24)}
    models, histories = {}, {}
    for name, reader in readers.items():
        print(f"{name}, {chosen.steps} epochs of {TRAINING} reviews")
        models[name] = make_model(name.replace(" ", "_"), reader, len(vocabulary))
        bar = 1 if sys.stdout.isatty() else 2  # a progress bar on a terminal, one line per epoch elsewhere
        history = models[name].fit(x, y, 32, epochs=chosen.steps, validation_data=test, verbose=bar)
        histories[name] = history.history
    print()
    for name, model in models.items():
        _, accuracy = model.evaluate(*test, verbose=0)
        print(f"{name:18} {100 * accuracy:.1f} % of {len(test[1])} test reviews")

    beliefs = []
    for review in SHOWN:
        words = review.split()
        beginnings = vocabulary([words[: i + 1] for i in range(len(words))])
        beliefs.append(models["LSTM"].predict(beginnings, verbose=0)[:, 0])
    draw(histories, beliefs, chosen.out)


if __name__ == "__main__":
    main()
