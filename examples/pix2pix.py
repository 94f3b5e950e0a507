"""Fill outlines with color: image-to-image translation with Pix2Pix, trained with two tapes.

The input is the outline of a digit; the target is the filled digit, in a color that depends on the class. The network
must therefore fill the outline and recognize the digit. As in the paper (Isola et al., 2017) and TensorFlow's tutorial,
the generator is a U-Net, the discriminator judges patches instead of the whole image (PatchGAN), and the generator
minimizes an adversarial loss plus the L1 distance to the target. The digits are in `data/digits.npz`.

    python examples/pix2pix.py          about half a minute; writes pix2pix.png
    python examples/pix2pix.py --quick  a short run
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from common import Adam, Progress, arguments, get_pyplot, load_digits, save_picture

import gradtape as tf

BATCH = 32
RATE = 0.001
L1_WEIGHT = 100.0
# The colors of the ten classes: easy to tell apart on white paper.
COLORS = np.array(
    [
        [0.90, 0.10, 0.15], [0.10, 0.45, 0.90], [0.10, 0.65, 0.25], [0.98, 0.55, 0.05], [0.55, 0.15, 0.70],
        [0.05, 0.75, 0.80], [0.95, 0.25, 0.75], [0.55, 0.35, 0.15], [0.95, 0.80, 0.10], [0.20, 0.20, 0.25],
    ],
    np.float32,
)  # fmt: skip


def pairs(digits: Any, labels: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """Return outlines [n, 16, 16, 1] and colored digits [n, 16, 16, 3], both from -1 to 1."""
    ink = tf.clip_by_value(tf.image.resize(digits[..., None], [16, 16], method="bicubic"), 0.0, 1.0)
    ink = tf.sigmoid(12 * (ink - 0.45))
    slopes = tf.norm(tf.image.sobel_edges(ink), axis=-1)
    outlines = 1 - 2 * tf.clip_by_value(slopes / 2.2, 0.0, 1.0)
    pictures = 1 - 2 * ink * (1 - tf.gather(COLORS, labels)[:, None, None, :])
    return outlines, pictures


class Convolution:
    """A strided convolution, transposed if `up`, followed by batch normalization or a bias."""

    def __init__(
        self, rng: np.random.Generator, inputs: int, outputs: int, norm: bool = True, up: bool = False
    ) -> None:
        shape = (4, 4, outputs, inputs) if up else (4, 4, inputs, outputs)
        self.filters = tf.Variable(rng.normal(0.0, 0.05, shape).astype(np.float32))
        self.offset, self.scale = tf.Variable(tf.zeros(outputs)), tf.Variable(tf.ones(outputs))
        self.outputs, self.norm, self.up = outputs, norm, up
        self.variables = [self.filters, self.offset, self.scale] if norm else [self.filters, self.offset]

    def __call__(self, x: tf.Tensor, stride: int = 2) -> tf.Tensor:
        if self.up:
            n, height, width, _ = x.shape
            shape = [n, stride * height, stride * width, self.outputs]
            y = tf.nn.conv2d_transpose(x, self.filters, shape, strides=stride)
        else:
            y = tf.nn.conv2d(x, self.filters, strides=stride, padding="SAME")
        if not self.norm:
            return y + self.offset
        mean, variance = tf.nn.moments(y, axes=[0, 1, 2])
        return tf.nn.batch_normalization(y, mean, variance, self.offset, self.scale, 1e-5)


class Generator:
    """A U-Net: down to 2 x 2 pixels and up again, with skip connections between layers of the same size."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.down = [Convolution(rng, 1, 24, norm=False), Convolution(rng, 24, 48), Convolution(rng, 48, 96)]
        self.up = [Convolution(rng, 96, 48, up=True), Convolution(rng, 96, 24, up=True)]
        self.last = Convolution(rng, 48, 3, norm=False, up=True)
        self.variables = [v for layer in (*self.down, *self.up, self.last) for v in layer.variables]

    def __call__(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        seen = []
        for down in self.down:
            x = tf.nn.leaky_relu(down(x))
            seen.append(x)
        for up, skip in zip(self.up, (seen[1], seen[0]), strict=True):
            x = tf.nn.relu(up(x))
            x = tf.concat([tf.nn.dropout(x, 0.2) if training else x, skip], axis=-1)
        return tf.tanh(self.last(x))


class Discriminator:
    """PatchGAN: 4 x 4 logits, one for each patch. Positive means that the colors belong to the outline."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.layers = [Convolution(rng, 4, 24, norm=False), Convolution(rng, 24, 48)]
        self.last = Convolution(rng, 48, 1, norm=False)
        self.variables = [v for layer in (*self.layers, self.last) for v in layer.variables]

    def __call__(self, outlines: tf.Tensor, pictures: tf.Tensor) -> tf.Tensor:
        x = tf.concat([outlines, pictures], axis=-1)
        for layer in self.layers:
            x = tf.nn.leaky_relu(layer(x))
        return self.last(x, stride=1)


def cross_entropy(logits: tf.Tensor, label: float) -> tf.Tensor:
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.fill(logits.shape, label), logits=logits))


def train_step(
    generator: Generator,
    discriminator: Discriminator,
    optimizers: tuple[Adam, Adam],
    outlines: tf.Tensor,
    pictures: tf.Tensor,
) -> tuple[float, float, float]:
    """Update both networks once. Returns the losses before the update: L1, adversarial, discriminator."""
    with tf.GradientTape() as gen_tape, tf.GradientTape() as disc_tape:
        drawn = generator(outlines, training=True)
        real_output, fake_output = discriminator(outlines, pictures), discriminator(outlines, drawn)
        l1_loss = tf.reduce_mean(tf.abs(pictures - drawn))
        gan_loss = cross_entropy(fake_output, 1.0)
        gen_loss = gan_loss + L1_WEIGHT * l1_loss
        disc_loss = cross_entropy(real_output, 1.0) + cross_entropy(fake_output, 0.0)
    optimizers[0].apply(gen_tape.gradient(gen_loss, generator.variables))
    optimizers[1].apply(disc_tape.gradient(disc_loss, discriminator.variables))
    return float(l1_loss), float(gan_loss), float(disc_loss)


def classes_of(pictures: Any) -> Any:
    """Return the class whose color is nearest to the mean color of the ink in each image."""
    light = (pictures + 1) / 2
    ink = (1 - light).max(axis=-1, keepdims=True)
    mean = 1 - ((1 - light) * ink).sum(axis=(1, 2)) / (ink**2).sum(axis=(1, 2))
    return np.square(mean[:, None] - COLORS).sum(-1).argmin(-1)


def draw(rows: list[tuple[str, Any]], losses: Any, out: Path) -> None:
    pyplot = get_pyplot()
    if pyplot is None:
        return
    figure, (grid, curve) = pyplot.subplots(2, 1, figsize=(10, 6.4), layout="constrained", height_ratios=(5, 3))
    frame = ((0, 0), (1, 1), (1, 1), (0, 0))
    framed = [
        np.pad(np.broadcast_to((row + 1) / 2, (*row.shape[:3], 3)), frame, constant_values=0.8) for _, row in rows
    ]
    grid.imshow(np.vstack([np.hstack(list(row)) for row in framed]))
    grid.set_yticks(8.5 + 18 * np.arange(len(rows)), [name for name, _ in rows])
    grid.set_xticks([])
    grid.set_title("Outlines from the test set, and the colored digits generated from them")
    for values, name in zip(np.transpose(losses), ("L1", "adversarial", "discriminator"), strict=True):
        curve.semilogy(values, label=name, linewidth=0.8)
    curve.set(xlabel="step", ylabel="loss")
    curve.legend(loc="center right", ncols=3)
    curve.grid(alpha=0.3)
    save_picture(figure, out, "pix2pix.png")


def main() -> None:
    chosen = arguments(__doc__, steps=1500, quick=100)
    rng = np.random.default_rng(chosen.seed)
    tf.random.set_seed(chosen.seed)
    (digits, labels), (unseen, unseen_labels) = load_digits(rng)
    outlines, pictures = pairs(digits, labels)
    test_outlines, test_pictures = pairs(unseen, unseen_labels)

    generator, discriminator = Generator(rng), Discriminator(rng)
    optimizers = Adam(generator.variables, RATE, beta1=0.5), Adam(discriminator.variables, RATE, beta1=0.5)
    early, later = max(1, chosen.steps // 20), max(1, chosen.steps // 4)
    rows = [("input", test_outlines)]
    losses = []
    for step in (bar := Progress(chosen.steps)):
        batch = rng.integers(0, len(digits), BATCH)
        real = tf.gather(outlines, batch), tf.gather(pictures, batch)
        losses.append(train_step(generator, discriminator, optimizers, *real))
        bar.note = "L1 {:.4f}, adversarial loss {:.3f}, discriminator loss {:.3f}".format(*losses[-1])
        if step in (early, later):
            rows.append((f"step {step}", generator(test_outlines)))

    drawn = generator(test_outlines)
    error = float(tf.reduce_mean(tf.abs(drawn - test_pictures))) / 2
    right = 100 * float(np.mean(classes_of(drawn.numpy()) == unseen_labels))
    print(f"\n{chosen.steps} steps in {bar.seconds:.1f} s. On {len(unseen)} test outlines:")
    print(f"  mean pixel error {100 * error:.2f} % of full scale, digits in the right color {right:.1f} %")
    rows += [(f"step {chosen.steps}", drawn), ("target", test_pictures)]
    examples = [int(index) for digit in range(10) for index in np.flatnonzero(unseen_labels == digit)[: 1 + digit % 2]]
    draw([(name, picture.numpy()[examples]) for name, picture in rows], losses, chosen.out)


if __name__ == "__main__":
    main()
