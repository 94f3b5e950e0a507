"""Several models under one tape: train them together, or freeze one.

    python examples/two_models.py

An encoder compresses a digit into two numbers, a decoder draws it again from them, and a classifier names it. One tape
records all three, and `tape.gradient` returns gradients in the structure of its sources: a dict of models in, a dict of
gradients out. First the encoder and the decoder are trained alone. Then the classifier is trained twice: once on the
frozen encoder (whose variables are simply not among the sources), and once with everything trained together, which
arranges the two numbers for both tasks.
"""

from itertools import pairwise

import numpy as np
from common import Adam, Progress, arguments, dense, get_pyplot, load_digits, save_picture

import gradtape as tf

BATCH = 100


class Model:
    """Layers with tanh between them."""

    def __init__(self, rng: np.random.Generator, *sizes: int) -> None:
        self.layers = [dense(rng, a, b) for a, b in pairwise(sizes)]
        self.variables = [variable for layer in self.layers for variable in layer]

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        for i, (weights, bias) in enumerate(self.layers):
            x = tf.matmul(x if i == 0 else tf.tanh(x), weights) + bias
        return x


def new_models(seed: int) -> dict[str, Model]:
    rng = np.random.default_rng(seed)
    return {
        "encoder": Model(rng, 64, 64, 32, 2),
        "decoder": Model(rng, 2, 32, 64, 64),
        "classifier": Model(rng, 2, 32, 10),
    }


def losses_of(models: dict[str, Model], images: tf.Tensor, labels: tf.Tensor) -> dict[str, tf.Tensor]:
    code = models["encoder"](images)
    drawn = tf.sigmoid(models["decoder"](code))
    logits = models["classifier"](code)
    return {
        "drawing": tf.reduce_mean(tf.reduce_sum((drawn - images) ** 2, axis=1)),
        "naming": tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)),
    }


def train(models, trained: list[str], wanted: list[str], images, labels, options, title: str) -> None:
    """Train some of the models on some of the losses; the other models are used but not changed."""
    rng = np.random.default_rng(options.seed)
    optimizers = {name: Adam(models[name].variables, rate=0.005) for name in trained}
    for step in (bar := Progress(options.steps, name=f"{title}: step")):
        chosen = rng.integers(0, len(images), BATCH)
        with tf.GradientTape() as tape:
            losses = losses_of(models, tf.constant(images[chosen]), tf.constant(labels[chosen]))
            loss = sum(losses[name] for name in wanted)
        gradients = tape.gradient(loss, {name: models[name].variables for name in trained})
        for name, optimizer in optimizers.items():
            optimizer.rate = 0.005 * (1 - 0.9 * step / options.steps)
            optimizer.apply(gradients[name])
        bar.note = "   ".join(f"{name} {float(losses[name]):.3f}" for name in wanted)


def accuracy(models: dict[str, Model], images: np.ndarray, labels: np.ndarray) -> float:
    logits = models["classifier"](models["encoder"](tf.constant(images)))
    return float(np.mean(tf.argmax(logits, axis=1).numpy() == labels))


def main() -> None:
    options = arguments(__doc__, steps=1500, quick=200)
    (images, labels), (test_images, test_labels) = load_digits(np.random.default_rng(options.seed))
    images, test_images = images.reshape(-1, 64), test_images.reshape(-1, 64)

    frozen = new_models(options.seed)
    train(frozen, ["encoder", "decoder"], ["drawing"], images, labels, options, "encoder + decoder")
    before = [variable.numpy() for variable in frozen["encoder"].variables]
    train(frozen, ["classifier"], ["naming"], images, labels, options, "classifier on the frozen encoder")
    same = all(np.array_equal(a, v.numpy()) for a, v in zip(before, frozen["encoder"].variables, strict=True))
    together = new_models(options.seed)
    train(together, list(together), ["drawing", "naming"], images, labels, options, "all three together")

    print(f"\nIs the frozen encoder unchanged? {'yes' if same else 'no'}")
    print(f"\n{'encoder':16}{'drawing loss':>14}{'test accuracy':>16}")
    scores = {}
    for name, models in (("frozen", frozen), ("together", together)):
        losses = losses_of(models, tf.constant(test_images), tf.constant(test_labels))
        scores[name] = accuracy(models, test_images, test_labels)
        print(f"{name:16}{float(losses['drawing']):14.2f}{100 * scores[name]:14.1f} %")
    draw(options.out, frozen, together, scores, test_images, test_labels)


def draw(out, frozen, together, scores, images, labels) -> None:
    if (pyplot := get_pyplot()) is None:
        return
    figure = pyplot.figure(figsize=(13, 8), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(3, 2))
    titles = [
        f"Trained to draw; classifier on the frozen code: {100 * scores['frozen']:.0f} %",
        f"Trained to draw and to classify: {100 * scores['together']:.0f} %",
    ]
    maps = above.subplots(1, 2)
    for axis, models, title in zip(maps, (frozen, together), titles, strict=True):
        code = models["encoder"](tf.constant(images)).numpy()
        dots = axis.scatter(*code.T, c=labels, cmap="tab10", s=12, vmin=-0.5, vmax=9.5)
        for digit in range(10):
            middle = np.median(code[labels == digit], axis=0)
            box = {"boxstyle": "circle,pad=0.15", "facecolor": "white", "alpha": 0.8, "edgecolor": "none"}
            axis.text(*middle, str(digit), fontsize=13, weight="bold", ha="center", va="center", bbox=box)
        axis.set(title=title, xlabel="first number of the code", ylabel="second number")
    above.colorbar(dots, ax=maps, ticks=range(10), label="digit")

    shown = [np.flatnonzero(labels == digit)[0] for digit in range(10)]
    rows = [("test digit", images[shown])]
    for name, models in (("drawn, frozen", frozen), ("drawn, together", together)):
        code = models["encoder"](tf.constant(images[shown]))
        rows.append((name, tf.sigmoid(models["decoder"](code)).numpy()))
    for row, (name, pictures) in zip(below.subplots(3, 10), rows, strict=True):
        for axis, picture in zip(row, pictures, strict=True):
            axis.imshow(picture.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
            axis.set(xticks=[], yticks=[])
        row[0].set_ylabel(name, rotation=0, ha="right", va="center")
    save_picture(figure, out, "two_models.png")


if __name__ == "__main__":
    main()
