"""Train without memorizing any single example: differentially private SGD with per-example gradients.

    python examples/private_sgd.py

An ordinary gradient is a mean over examples, and one unusual example can dominate it. Private SGD computes the gradient
of *every* example (`tape.batch_gradient`, in one backward pass), clips each to a fixed norm, and adds noise of that
size to the sum. No single digit can then change the network by much, and a number epsilon bounds how much: the smaller,
the more private. The price is accuracy.
"""

import math

import numpy as np
from common import Progress, arguments, dense, get_pyplot, load_digits, save_picture

import gradtape as tf

NOISES = [0.0, 1.0, 2.0, 4.0, 8.0]  # in units of the clipping norm
CLIP = 1.0
BATCH = 100  # on average: every example is sampled with the same probability, which epsilon assumes
RATE = 1.0
DELTA = 1e-4


class Network:
    """64 pixels, one hidden layer, 10 scores."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.variables = [*dense(rng, 64, 32), *dense(rng, 32, 10)]

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        w1, b1, w2, b2 = self.variables
        return tf.matmul(tf.tanh(tf.matmul(images, w1) + b1), w2) + b2


def example_gradients(network: Network, images: tf.Tensor, labels: tf.Tensor) -> tuple[list[tf.Tensor], tf.Tensor]:
    """The gradient of each example's loss, with a first axis for the examples, and their norms."""
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=network(images))
    gradients = tape.batch_gradient(losses, network.variables)
    squares = [tf.reduce_sum(tf.reshape(g, [g.shape[0], -1]) ** 2, axis=1) for g in gradients]
    return gradients, tf.sqrt(tf.add_n(squares))


def private_step(network: Network, rng: np.random.Generator, images: np.ndarray, labels: np.ndarray, noise: float):
    gradients, lengths = example_gradients(network, tf.constant(images), tf.constant(labels))
    scale = tf.minimum(1.0, CLIP / (lengths + 1e-12))  # gradients longer than CLIP are scaled down to it
    for variable, gradient in zip(network.variables, gradients, strict=True):
        total = tf.tensordot(scale, gradient, axes=1)
        total += tf.constant(rng.normal(0.0, 1.0, variable.shape) * noise * CLIP, tf.float32)
        variable.assign_sub(RATE / BATCH * total)


def epsilon(noise: float, chance: float, steps: int) -> float:
    """The privacy spent after `steps` steps: Renyi differential privacy of the subsampled Gaussian mechanism."""
    if noise == 0:
        return math.inf
    best = math.inf
    for order in range(2, 64):
        terms = [
            math.log(math.comb(order, k)) + (order - k) * math.log1p(-chance) + k * math.log(chance)
            + k * (k - 1) / (2 * noise**2)
            for k in range(order + 1)
        ]  # fmt: skip
        renyi = np.logaddexp.reduce(terms) / (order - 1)
        best = min(best, steps * renyi + math.log(1 / DELTA) / (order - 1))
    return best


def accuracy(network: Network, images: np.ndarray, labels: np.ndarray) -> float:
    return float(np.mean(tf.argmax(network(tf.constant(images)), axis=1).numpy() == labels))


def main() -> None:
    options = arguments(__doc__, steps=400, quick=60)
    rng = np.random.default_rng(options.seed)
    (images, labels), (test_images, test_labels) = load_digits(rng)
    images, test_images = images.reshape(-1, 64), test_images.reshape(-1, 64)

    first = Network(np.random.default_rng(options.seed))
    lengths = {"before training": example_gradients(first, tf.constant(images), tf.constant(labels))[1].numpy()}
    curves, spent = {}, {}
    for noise in NOISES:
        network = Network(np.random.default_rng(options.seed))
        scores = []
        for _ in (bar := Progress(options.steps, name=f"noise {noise:g}, step")):
            chosen = rng.random(len(images)) < BATCH / len(images)
            private_step(network, rng, images[chosen], labels[chosen], noise)
            scores.append(accuracy(network, test_images, test_labels))
            bar.note = f"test accuracy {100 * scores[-1]:.1f} %"
        curves[noise] = scores
        spent[noise] = epsilon(noise, BATCH / len(images), options.steps)
        if noise == 0:
            lengths["after training"] = example_gradients(network, tf.constant(images), tf.constant(labels))[1].numpy()

    print(f"\nnoise   epsilon (delta {DELTA:g})   test accuracy")
    for noise in NOISES:
        print(f"{noise:5g}{spent[noise]:12.1f}{100 * np.mean(curves[noise][-10:]):23.1f} %")
    draw(options.out, lengths, curves, spent)


def draw(out, lengths, curves, spent) -> None:
    if (pyplot := get_pyplot()) is None:
        return
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 4.6), layout="constrained")
    bins = np.linspace(0, max(values.max() for values in lengths.values()), 50)
    for (name, values), color in zip(lengths.items(), ("tab:blue", "tab:orange"), strict=True):
        left.hist(values, bins, color=color, alpha=0.6, label=name)
    left.axvline(CLIP, color="black", linestyle="--", label="clipping norm")
    left.set(title="Per-example gradients", xlabel="norm of the gradient", ylabel="examples")
    left.set_yscale("log")
    left.legend()
    for (noise, scores), color in zip(curves.items(), pyplot.cm.viridis(np.linspace(0, 0.9, len(curves))), strict=True):
        label = f"noise {noise:g}: " + ("not private" if math.isinf(spent[noise]) else f"epsilon {spent[noise]:.1f}")
        right.plot(np.arange(1, len(scores) + 1), 100 * np.array(scores), color=color, label=label, linewidth=1)
    right.set(title="Privacy costs accuracy", xlabel="step", ylabel="test accuracy (%)", ylim=(0, 100))
    right.legend(loc="lower right")
    right.grid(alpha=0.3)
    save_picture(figure, out, "private_sgd.png")


if __name__ == "__main__":
    main()
