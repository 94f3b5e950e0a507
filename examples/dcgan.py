"""Generate handwritten digits: a generative adversarial network (DCGAN), trained with two tapes.

A generator turns noise into images, a discriminator tells them from real ones, and each learns from the other. Two
tapes record the same forward pass: `gen_tape` computes the gradients of the generator, `disc_tape` those of the
discriminator. The architecture follows TensorFlow's DCGAN tutorial, scaled down to the 8 x 8 digits in
`data/digits.npz`.

    python examples/dcgan.py          under a minute; writes dcgan.png
    python examples/dcgan.py --quick  a short run
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from common import Adam, Progress, arguments, get_pyplot, load_digits, save_picture

import gradtape as tf

NOISE = 32  # dimensions of the noise vector
BATCH = 64
RATE = 0.001  # learning rate of the generator; the discriminator uses twice as much
SHOWN = 16  # images per row of the grid


def weights(rng: np.random.Generator, *shape: int) -> tf.Variable:
    return tf.Variable(rng.normal(0.0, 0.05, shape).astype(np.float32))


class BatchNorm:
    """Normalize each channel over the batch, then apply a learned scale and offset."""

    def __init__(self, channels: int) -> None:
        self.offset, self.scale = tf.Variable(tf.zeros(channels)), tf.Variable(tf.ones(channels))
        self.variables = [self.offset, self.scale]

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        mean, variance = tf.nn.moments(x, axes=[0, 1, 2])
        return tf.nn.batch_normalization(x, mean, variance, self.offset, self.scale, 1e-5)


class Generator:
    """Map noise to images of 2 x 2, 4 x 4 and 8 x 8 pixels, with fewer channels each time. Ink is 1, paper is -1."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.dense = weights(rng, NOISE, 2 * 2 * 96)
        self.up1, self.up2 = weights(rng, 4, 4, 48, 96), weights(rng, 4, 4, 24, 48)
        self.last = weights(rng, 3, 3, 24, 1)
        self.norms = [BatchNorm(96), BatchNorm(48), BatchNorm(24)]
        self.variables = [self.dense, self.up1, self.up2, self.last]
        self.variables += [variable for norm in self.norms for variable in norm.variables]

    def __call__(self, noise: tf.Tensor) -> tf.Tensor:
        n = noise.shape[0]
        x = tf.reshape(tf.matmul(noise, self.dense), [n, 2, 2, 96])
        x = tf.nn.leaky_relu(self.norms[0](x))
        x = tf.nn.conv2d_transpose(x, self.up1, [n, 4, 4, 48], strides=2)
        x = tf.nn.leaky_relu(self.norms[1](x))
        x = tf.nn.conv2d_transpose(x, self.up2, [n, 8, 8, 24], strides=2)
        x = tf.nn.leaky_relu(self.norms[2](x))
        return tf.tanh(tf.nn.conv2d(x, self.last, strides=1, padding="SAME"))


class Discriminator:
    """Map each image to one logit: positive for real images, negative for generated ones."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.conv1, self.conv2 = weights(rng, 4, 4, 1, 32), weights(rng, 4, 4, 32, 64)
        self.bias1, self.bias2 = tf.Variable(tf.zeros(32)), tf.Variable(tf.zeros(64))
        self.dense, self.bias = weights(rng, 2 * 2 * 64, 1), tf.Variable(tf.zeros(1))
        self.variables = [self.conv1, self.bias1, self.conv2, self.bias2, self.dense, self.bias]

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        x = tf.nn.leaky_relu(tf.nn.conv2d(images, self.conv1, strides=2, padding="SAME") + self.bias1)
        x = tf.nn.dropout(x, 0.3)
        x = tf.nn.leaky_relu(tf.nn.conv2d(x, self.conv2, strides=2, padding="SAME") + self.bias2)
        x = tf.nn.dropout(x, 0.3)
        return tf.matmul(tf.reshape(x, [x.shape[0], -1]), self.dense) + self.bias


def cross_entropy(logits: tf.Tensor, label: float) -> tf.Tensor:
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.fill(logits.shape, label), logits=logits))


def train_step(
    generator: Generator, discriminator: Discriminator, optimizers: tuple[Adam, Adam], images: tf.Tensor
) -> tuple[float, float]:
    """Update both networks once. Returns the losses before the update."""
    noise = tf.random.normal([BATCH, NOISE])
    with tf.GradientTape() as gen_tape, tf.GradientTape() as disc_tape:
        fakes = generator(noise)
        real_output, fake_output = discriminator(images), discriminator(fakes)
        gen_loss = cross_entropy(fake_output, 1.0)
        # One-sided label smoothing: an overconfident discriminator gives the generator small gradients.
        disc_loss = cross_entropy(real_output, 0.9) + cross_entropy(fake_output, 0.0)
    optimizers[0].apply(gen_tape.gradient(gen_loss, generator.variables))
    optimizers[1].apply(disc_tape.gradient(disc_loss, discriminator.variables))
    return float(gen_loss), float(disc_loss)


def nearest(pictures: Any, known: Any) -> tuple[Any, Any]:
    """Return the distance from each image to its nearest neighbor among `known`, and that neighbor's index."""
    pictures, known = pictures.reshape(len(pictures), -1), known.reshape(len(known), -1)
    squares = (pictures**2).sum(1)[:, None] + (known**2).sum(1) - 2 * pictures @ known.T
    return np.sqrt(np.maximum(squares.min(1), 0)), squares.argmin(1)


def draw(snapshots: list[tuple[int, Any]], real: Any, losses: Any, out: Path) -> None:
    """Plot images from the same noise at several training steps, real digits below them, and the losses."""
    pyplot = get_pyplot()
    if pyplot is None:
        return
    figure, (grid, curve) = pyplot.subplots(2, 1, figsize=(10, 7.6), layout="constrained", height_ratios=(7, 3))
    rows = [*(pictures for _, pictures in snapshots), real]
    framed = [np.pad(pictures, ((0, 0), (1, 1), (1, 1)), constant_values=-0.6) for pictures in rows]
    grid.imshow(np.vstack([np.hstack(list(row)) for row in framed]), cmap="gray_r", vmin=-1, vmax=1)
    grid.set_yticks(4.5 + 10 * np.arange(len(rows)), [*(f"step {step}" for step, _ in snapshots), "real digits"])
    grid.set_xticks([])
    grid.set_title("Images generated from the same noise during training")
    smooth = np.ones(25) / 25
    for values, name in zip(np.transpose(losses), ("generator", "discriminator"), strict=True):
        curve.plot(np.convolve(values, smooth, "valid") if len(values) >= 50 else values, label=f"{name} loss")
    curve.set(xlabel="step")
    curve.legend(loc="upper right")
    curve.grid(alpha=0.3)
    save_picture(figure, out, "dcgan.png")


def main() -> None:
    chosen = arguments(__doc__, steps=3000, quick=60)
    rng = np.random.default_rng(chosen.seed)
    tf.random.set_seed(chosen.seed)
    (images, labels), (unseen, _) = load_digits(rng)
    images, unseen = 2 * images - 1, 2 * unseen - 1

    generator, discriminator = Generator(rng), Discriminator(rng)
    optimizers = Adam(generator.variables, RATE, beta1=0.5), Adam(discriminator.variables, 2 * RATE, beta1=0.5)
    noise = tf.random.normal([BATCH, NOISE])
    moments = {max(1, round(chosen.steps * part)) for part in (0, 0.02, 0.05, 0.1, 0.2, 0.4, 1)}
    snapshots: list[tuple[int, Any]] = []
    losses = []
    for step in (bar := Progress(chosen.steps)):
        fade = min(1.0, 2 * (1 - step / (chosen.steps + 1)))  # decay the learning rate in the second half
        optimizers[0].rate, optimizers[1].rate = RATE * fade, 2 * RATE * fade
        batch = tf.constant(images[rng.integers(0, len(images), BATCH), :, :, None])
        losses.append(train_step(generator, discriminator, optimizers, batch))
        if step in moments:
            snapshots.append((step, generator(noise).numpy()[:SHOWN, :, :, 0]))
        bar.note = "generator loss {:.3f}, discriminator loss {:.3f}".format(*losses[-1])

    # Compare the distances to the nearest training digit for generated digits, unseen real digits and noise.
    drawn = generator(tf.random.normal([500, NOISE])).numpy()
    far, which = nearest(drawn, images)
    real_far, _ = nearest(unseen, images)
    noise_far, _ = nearest(rng.permuted(unseen.reshape(len(unseen), -1), axis=1), images)
    kinds = np.bincount(labels[which], minlength=10)
    print(f"\n{chosen.steps} steps in {bar.seconds:.1f} s. Mean distance to the nearest training digit:")
    print(f"  generated digits        {far.mean():.2f}")
    print(f"  unseen real digits      {real_far.mean():.2f}")
    print(f"  the same, pixels mixed  {noise_far.mean():.2f}")
    print("Classes 0 to 9 of the nearest neighbors of 500 generated digits:", *kinds)
    draw(snapshots, unseen[:SHOWN], losses, chosen.out)


if __name__ == "__main__":
    main()
