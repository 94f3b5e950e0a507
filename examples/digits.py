"""Read handwritten digits: a small network, trained with `tf.GradientTape`.

This is plain TensorFlow code. It runs unchanged on either library:

    gradtape run examples/digits.py      on gradtape
    python examples/digits.py            on TensorFlow

It trains on 1400 of the 1797 digits in `data/digits.npz`, tests on the rest, and draws the loss in `digits_loss.png`.
"""

import importlib.util
import sys
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

DATA = Path(__file__).parent / "data" / "digits.npz"
TRAINING = 1400
HIDDEN = 64
BATCH = 50
EPOCHS = 30
# The seed determines which digits are held out. This one is typical, not lucky: on TensorFlow the seeds 0 to 9 and 1998
# gave test accuracies from 94.96 to 99.24 %, 97.30 % on average, and this one 97.48 %. The argument sets another.
SEED = 4


class Network:
    """64 pixels, one hidden layer, 10 scores."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.w1 = tf.Variable(rng.normal(0.0, (2 / 64) ** 0.5, (64, HIDDEN)).astype(np.float32))
        self.b1 = tf.Variable(np.zeros(HIDDEN, np.float32))
        self.w2 = tf.Variable(rng.normal(0.0, (2 / HIDDEN) ** 0.5, (HIDDEN, 10)).astype(np.float32))
        self.b2 = tf.Variable(np.zeros(10, np.float32))
        self.variables = [self.w1, self.b1, self.w2, self.b2]

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        hidden = tf.nn.relu(tf.matmul(images, self.w1) + self.b1)
        return tf.matmul(hidden, self.w2) + self.b2


class Adam:
    """Adam, by hand: a running mean of each gradient and of its square."""

    def __init__(self, variables: list[tf.Variable], rate: float = 0.003) -> None:
        self.variables = variables
        self.rate = rate
        self.means = [tf.Variable(np.zeros_like(v.numpy()), trainable=False) for v in variables]
        self.squares = [tf.Variable(np.zeros_like(v.numpy()), trainable=False) for v in variables]
        self.steps = 0

    def apply(self, gradients: list[tf.Tensor]) -> None:
        self.steps += 1
        rate = self.rate * (1 - 0.999**self.steps) ** 0.5 / (1 - 0.9**self.steps)
        for v, mean, square, g in zip(self.variables, self.means, self.squares, gradients, strict=True):
            mean.assign_sub(0.1 * (mean - g))
            square.assign_sub(0.001 * (square - tf.square(g)))
            v.assign_sub(rate * mean / (tf.sqrt(square) + 1e-7))


def train_step(network: Network, optimizer: Adam, images: tf.Tensor, labels: tf.Tensor) -> float:
    """Take one gradient step and return the loss before it."""
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=network(images))
        loss = tf.reduce_mean(losses)
    optimizer.apply(tape.gradient(loss, network.variables))
    return float(loss)


def accuracy(network: Network, images: tf.Tensor, labels: tf.Tensor) -> float:
    right = tf.equal(tf.argmax(network(images), axis=1), labels)
    return float(tf.reduce_mean(tf.cast(right, tf.float32)))


def show_progress(epoch: int, loss: float, score: float) -> None:
    """A progress bar on a terminal; elsewhere, a line now and then."""
    message = f"epoch {epoch:2d}/{EPOCHS}   loss {loss:.4f}   test accuracy {100 * score:.1f} %"
    if sys.stdout.isatty():
        done = 24 * epoch // EPOCHS
        print(f"\r[{'#' * done}{'.' * (24 - done)}] {message}", end="\n" if epoch == EPOCHS else "", flush=True)
    elif epoch == 1 or epoch % 5 == 0:
        print(message, flush=True)


def show_digits(images: np.ndarray, guesses: np.ndarray) -> None:
    """Some digits side by side as text, and what the network predicts."""
    shades = np.array(list(" .:-=+*#%@"))
    pixels = shades[images.astype(int) * 9 // 16]
    for row in range(8):
        print("   ".join("".join(np.repeat(picture[row], 2)) for picture in pixels).rstrip())
    print("   ".join(f"{guess:^16d}" for guess in guesses).rstrip())


def draw(losses: list[float]) -> str:
    """Draw the loss of every step and return the file name: a PNG with Matplotlib, otherwise a simple SVG."""
    if importlib.util.find_spec("matplotlib") is None:
        print("Matplotlib is not installed: the loss is drawn as a simple SVG.")
        return draw_svg(losses)
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    steps = np.arange(1, len(losses) + 1)
    per_epoch = np.reshape(losses, (EPOCHS, -1)).mean(axis=1)
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    axes.semilogy(steps, losses, color="tab:blue", alpha=0.3, linewidth=0.8, label="each step")
    axes.semilogy(steps.reshape(EPOCHS, -1).mean(axis=1), per_epoch, color="tab:blue", label="mean of an epoch")
    axes.set(title="Learning to read handwritten digits", xlabel="step", ylabel="cross-entropy loss")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig("digits_loss.png", dpi=120)
    pyplot.close(figure)
    return "digits_loss.png"


def draw_svg(losses: list[float]) -> str:
    width, height, margin = 560, 320, 30
    heights = np.log(np.maximum(losses, 1e-8))
    x = np.linspace(margin, width - margin, len(losses))
    y = np.interp(heights, (heights.min(), heights.max()), (height - margin, margin))
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    Path("digits_loss.svg").write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">'
        f'<rect width="{width}" height="{height}" fill="white"/>'
        f'<polyline points="{points}" fill="none" stroke="steelblue"/>'
        f'<text x="{margin}" y="20" font-size="13">loss of each step, logarithmic: '
        f"from {losses[0]:.3g} to {losses[-1]:.3g}</text></svg>\n",
        encoding="utf-8",
    )
    return "digits_loss.svg"


def main() -> None:
    rng = np.random.default_rng(int(sys.argv[1]) if len(sys.argv) > 1 else SEED)
    data = np.load(DATA)
    order = rng.permutation(len(data["labels"]))
    pictures = data["images"][order]
    images = pictures.reshape(-1, 64).astype(np.float32) / 16
    labels = data["labels"][order].astype(np.int64)
    test_images, test_labels = tf.constant(images[TRAINING:]), tf.constant(labels[TRAINING:])

    network = Network(rng)
    optimizer = Adam(network.variables)
    losses: list[float] = []
    score = 0.0
    start = time.perf_counter()
    for epoch in range(1, EPOCHS + 1):
        for batch in rng.permutation(TRAINING).reshape(-1, BATCH):
            losses.append(train_step(network, optimizer, tf.constant(images[batch]), tf.constant(labels[batch])))
        score = accuracy(network, test_images, test_labels)
        show_progress(epoch, float(np.mean(losses[-TRAINING // BATCH :])), score)
    seconds = time.perf_counter() - start

    print(f"\n{len(losses)} steps in {seconds:.1f} s. Four digits from the test set, and what the network reads:\n")
    show_digits(pictures[TRAINING : TRAINING + 4], tf.argmax(network(test_images[:4]), axis=1).numpy())
    print(f"\nTest accuracy: {100 * score:.2f} %. The loss curve is in {draw(losses)}.")


if __name__ == "__main__":
    main()
