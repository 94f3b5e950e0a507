"""DeepDream: find the digits that a digit classifier sees in a landscape, by gradient ascent on the image.

A small convolutional network learns to detect handwritten digits drawn over crops of a photograph. Then the weights are
frozen, and gradient ascent changes the *image* so that the network finds more digits in it. As in TensorFlow's
tutorial, this is repeated at several image sizes (octaves), and each step shifts the image by a random offset.

Both parts differentiate with respect to the input. During training, each batch is first perturbed along the gradient of
its own loss (adversarial training), which makes the dreamed digits readable for people, too.

    python examples/deepdream.py          about 15 seconds; writes deepdream.png
    python examples/deepdream.py --quick  a short run
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from common import DATA, Adam, Progress, arguments, get_pyplot, load_digits, save_picture

import gradtape as tf

SIZE = 16  # of the window that the network classifies
NOTHING = 10  # the class of windows without a digit
BATCH = 64
OCTAVES = (0.7, 1.0, 1.5)  # image sizes, relative to the file
DREAM_STEPS = 20  # at each size
DREAM_RATE = 0.008


class Network:
    """Map a window of 16 x 16 pixels to 11 scores; map a larger image to the scores of all windows, 4 pixels apart."""

    def __init__(self, rng: np.random.Generator) -> None:
        shapes = [(5, 5, 3, 24), (3, 3, 24, 48), (4, 4, 48, 96), (1, 1, 96, 11)]
        self.filters = [
            tf.Variable(rng.normal(0, (2 / np.prod(shape[:3])) ** 0.5, shape).astype(np.float32)) for shape in shapes
        ]
        self.biases = [tf.Variable(tf.zeros(shape[3])) for shape in shapes]
        self.variables = [*self.filters, *self.biases]

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        x = images - 0.5
        for layer in (0, 1):
            x = tf.nn.relu(tf.nn.conv2d(x, self.filters[layer], strides=1, padding="SAME") + self.biases[layer])
            x = tf.nn.avg_pool2d(x, 2, 2, "SAME")
        x = tf.nn.relu(tf.nn.conv2d(x, self.filters[2], strides=1, padding="VALID") + self.biases[2])
        return tf.nn.conv2d(x, self.filters[3], strides=1, padding="VALID") + self.biases[3]


def make_batch(
    rng: np.random.Generator, digits: Any, labels: Any, backgrounds: list[Any]
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return crops of the image, most of them with a digit drawn in a random color, and their labels."""
    windows = np.empty((BATCH, SIZE, SIZE, 3), np.float32)
    for window in windows:
        background = backgrounds[rng.integers(len(backgrounds))]
        i, j = (rng.integers(0, length - SIZE + 1) for length in background.shape[:2])
        window[:] = background[i : i + SIZE, j : j + SIZE]
    chosen = rng.integers(0, len(digits), BATCH)
    empty = rng.random(BATCH) < 0.25
    ink = np.where(empty[:, None, None, None], 0, digits[chosen]) * rng.uniform(0.6, 1, (BATCH, 1, 1, 1))
    # Bright ink on dark backgrounds and dark ink on bright ones, so that the digit is readable.
    bright = windows.mean(axis=(1, 2, 3), keepdims=True) > 0.5
    colors = np.where(bright, 0.0, 0.6) + 0.4 * rng.random((BATCH, 1, 1, 3))
    windows += ink * (colors - windows)
    return tf.constant(windows.astype(np.float32)), tf.constant(np.where(empty, NOTHING, labels[chosen]))


def losses_of(network: Network, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=network(images)[:, 0, 0])


def train_step(network: Network, optimizer: Adam, images: tf.Tensor, labels: tf.Tensor, push: float) -> float:
    """Perturb each image by an adversarial step of length `push`, then update the weights on the perturbed images."""
    with tf.GradientTape() as tape:
        tape.watch(images)
        loss = tf.reduce_sum(losses_of(network, images, labels))
    slope = tape.gradient(loss, images)
    images += push * slope / (tf.sqrt(tf.reduce_sum(slope**2, axis=[1, 2, 3], keepdims=True)) + 1e-9)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(losses_of(network, images, labels))
    optimizer.apply(tape.gradient(loss, network.variables))
    return float(loss)


def belief(network: Network, image: tf.Tensor) -> tf.Tensor:
    """Return how confident the network is: the best digit score in each cell of 28 x 28 pixels, averaged."""
    # Mean log probability. One digit per cell, because digits in overlapping windows would overwrite each other.
    digits = tf.nn.log_softmax(network(image[None]))[..., :NOTHING]
    best = tf.reduce_max(digits, axis=-1, keepdims=True)
    return tf.reduce_mean(tf.nn.max_pool2d(best, 7, 7, "SAME"))


def dream_step(network: Network, image: tf.Tensor, rng: np.random.Generator) -> tuple[tf.Tensor, float]:
    """Take one step of gradient ascent on the image."""
    shift = rng.integers(-2, 3, 2)
    image = tf.roll(image, shift, axis=[0, 1])
    with tf.GradientTape() as tape:
        tape.watch(image)
        seen = belief(network, image)
    slope = tf.nn.avg_pool2d(tape.gradient(seen, image)[None], 3, 1, "SAME")[0]  # smoother than the gradient
    image = tf.clip_by_value(image + DREAM_RATE * slope / (tf.math.reduce_std(slope) + 1e-8), 0.0, 1.0)
    return tf.roll(image, -shift, axis=[0, 1]), float(seen)


def draw(original: Any, dreams: list[Any], out: Path) -> None:
    pyplot = get_pyplot()
    if pyplot is None:
        return
    figure, axes = pyplot.subplots(2, 2, figsize=(11, 8.6), layout="constrained")
    titles = ["original", *(f"octave {i + 1}: {d.shape[1]} x {d.shape[0]} pixels" for i, d in enumerate(dreams))]
    for place, picture, title in zip(axes.flat, [original, *dreams], titles, strict=True):
        place.imshow(picture, interpolation="bicubic", vmin=0, vmax=1)
        place.set(title=title, xticks=[], yticks=[])
    figure.suptitle("What a digit classifier sees in a landscape")
    save_picture(figure, out, "deepdream.png")


def main() -> None:
    chosen = arguments(__doc__, steps=600, quick=80)
    rng = np.random.default_rng(chosen.seed)
    (digits, labels), (unseen, unseen_labels) = load_digits(rng)
    larger = [tf.image.resize(x[..., None], [SIZE, SIZE], method="bicubic") for x in (digits, unseen)]
    digits, unseen = (tf.clip_by_value(x, 0.0, 1.0).numpy() for x in larger)
    picture = tf.cast(tf.io.decode_jpeg(tf.io.read_file(str(DATA / "lighthouse.jpg"))), tf.float32) / 255
    height, width, _ = picture.shape
    backgrounds = [
        tf.image.resize(picture, [height // part, width // part], antialias=True).numpy() for part in (1, 2, 4)
    ]

    network = Network(rng)
    optimizer = Adam(network.variables, 0.003)
    for step in (bar := Progress(chosen.steps, "training step")):
        optimizer.rate = 0.003 * (1 - step / (chosen.steps + 1))
        batch = make_batch(rng, digits, labels, backgrounds)
        loss = train_step(network, optimizer, *batch, push=min(1.5, 3 * step / chosen.steps))
        bar.note = f"loss {loss:.3f}"
    seconds = bar.seconds
    tests = [make_batch(rng, unseen, unseen_labels, backgrounds) for _ in range(8)]
    right = [tf.reduce_mean(tf.cast(tf.argmax(network(x)[:, 0, 0], axis=-1) == y, tf.float32)) for x, y in tests]

    dream_steps = 6 if chosen.quick else DREAM_STEPS
    detail = tf.zeros_like(picture)
    dreams, beliefs = [], []
    for step in (bar := Progress(len(OCTAVES) * dream_steps, "dream step")):
        octave, done = divmod(step - 1, dream_steps)
        if done == 0:  # next octave: enlarge the details found so far and add them to the image
            size = [round(OCTAVES[octave] * height), round(OCTAVES[octave] * width)]
            base = tf.image.resize(picture, size, antialias=True)
            image = tf.clip_by_value(base + tf.image.resize(detail, size, method="bicubic"), 0.0, 1.0)
        image, seen = dream_step(network, image, rng)
        beliefs.append(np.exp(seen))
        bar.note = f"{size[1]} x {size[0]} pixels, probability {beliefs[-1]:.3f}"
        if done == dream_steps - 1:
            detail = image - base
            dreams.append(image.numpy())

    print(f"\nTrained for {seconds:.1f} s, dreamed for {bar.seconds:.1f} s.")
    print(f"Test accuracy: {100 * float(tf.reduce_mean(right)):.1f} % of {8 * BATCH} windows.")
    print(f"Probability that a cell contains a digit: {beliefs[0]:.2g} before, {beliefs[-1]:.2g} after.")
    draw(picture.numpy(), dreams, chosen.out)


if __name__ == "__main__":
    main()
