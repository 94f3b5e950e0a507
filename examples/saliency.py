"""What does the network look at? Saliency maps and integrated gradients.

    python examples/saliency.py

A tape can differentiate with respect to anything it watches, including the input. The gradient of a score with respect
to the pixels shows which pixels the score is sensitive to. Integrated gradients (Sundararajan, Taly and Yan, 2017) add
up such gradients along a path from an empty image to the digit, so that the attributions of all pixels sum up to the
increase of the score. All digits at all points of the path go through the network as one batch, so one backward pass is
enough.
"""

import numpy as np
from common import Adam, Progress, arguments, dense, get_pyplot, load_digits, save_picture

import gradtape as tf

BATCH = 50
WAY = 64  # points between the empty image and the digit


class Network:
    """64 pixels, one hidden layer, 10 scores."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.variables = [*dense(rng, 64, 64), *dense(rng, 64, 10)]

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        w1, b1, w2, b2 = self.variables
        return tf.matmul(tf.nn.relu(tf.matmul(images, w1) + b1), w2) + b2


def train(network: Network, rng: np.random.Generator, images: np.ndarray, labels: np.ndarray, steps: int) -> None:
    optimizer = Adam(network.variables, rate=0.003)
    for _ in (bar := Progress(steps)):
        chosen = rng.integers(0, len(images), BATCH)
        with tf.GradientTape() as tape:
            logits = network(tf.constant(images[chosen]))
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels[chosen], logits=logits)
            loss = tf.reduce_mean(losses)
        optimizer.apply(tape.gradient(loss, network.variables))
        bar.note = f"loss {float(loss):.4f}"


def scores_of(network: Network, images: tf.Tensor, classes: tf.Tensor) -> tf.Tensor:
    """The score that the network gives to one class of each image."""
    return tf.gather(network(images), classes, batch_dims=1)


def saliency(network: Network, images: tf.Tensor, classes: tf.Tensor) -> tf.Tensor:
    """d score / d pixel. Each score depends only on its own image, so the gradient of the sum has them all."""
    with tf.GradientTape() as tape:
        tape.watch(images)
        scores = scores_of(network, images, classes)
    return tape.gradient(scores, images)


def integrated_gradients(network: Network, images: tf.Tensor, classes: tf.Tensor) -> tf.Tensor:
    """The mean gradient along the path from an empty image, times the image."""
    along = (np.arange(WAY, dtype=np.float32) + 0.5) / WAY
    way = tf.reshape(along[:, None, None] * images, [-1, 64])  # every image, at every point of its path
    gradients = saliency(network, way, tf.tile(classes, [WAY]))
    return images * tf.reduce_mean(tf.reshape(gradients, [WAY, -1, 64]), axis=0)


def main() -> None:
    options = arguments(__doc__, steps=800, quick=250)
    rng = np.random.default_rng(options.seed)
    (images, labels), (test_images, test_labels) = load_digits(rng)
    images, test_images = images.reshape(-1, 64), test_images.reshape(-1, 64)
    network = Network(rng)
    train(network, rng, images, labels, options.steps)
    read = tf.argmax(network(tf.constant(test_images)), axis=1).numpy()
    print(f"\nTest accuracy: {100 * np.mean(read == test_labels):.1f} %")

    shown = np.array([np.flatnonzero(test_labels == digit)[0] for digit in range(10)])
    digits, classes = tf.constant(test_images[shown]), tf.constant(read[shown])
    gradients = saliency(network, digits, classes).numpy()
    shares = integrated_gradients(network, digits, classes).numpy()

    empty = tf.zeros_like(digits)
    gained = (scores_of(network, digits, classes) - scores_of(network, empty, classes)).numpy()
    print("\ndigit   score above that of an empty image   sum of all attributions")
    for digit, gain, total in zip(test_labels[shown], gained, shares.sum(axis=1), strict=True):
        print(f"{digit:5d}{gain:32.3f}{total:25.3f}")
    print(f"Largest difference: {np.abs(gained - shares.sum(axis=1)).max():.4f}")
    draw(options.out, test_images[shown], read[shown], gradients, shares)


def draw(out, digits, read, gradients, shares) -> None:
    if (pyplot := get_pyplot()) is None:
        return
    figure, axes = pyplot.subplots(3, 10, figsize=(14, 4.6), layout="constrained")
    rows = [
        ("the digit", digits, "gray_r", 0),
        ("gradient\n(sensitivity)", gradients, "RdBu_r", -1),
        ("integrated\ngradients\n(attribution)", shares, "RdBu_r", -1),
    ]
    for row, (name, pictures, colors, low) in zip(axes, rows, strict=True):
        for axis, picture in zip(row, pictures, strict=True):
            strongest = np.abs(picture).max()
            axis.imshow(picture.reshape(8, 8), cmap=colors, vmin=low * strongest, vmax=strongest)
            axis.set(xticks=[], yticks=[])
        row[0].set_ylabel(name, rotation=0, ha="right", va="center")
    for digit, axis in zip(read, axes[0], strict=True):
        axis.set_title(f'read as "{digit}"', fontsize=10)
    figure.suptitle("Which pixels support the prediction (red), and which contradict it (blue)")
    save_picture(figure, out, "saliency.png")


if __name__ == "__main__":
    main()
