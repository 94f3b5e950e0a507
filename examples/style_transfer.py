"""Neural style transfer: paint a lighthouse in swirling strokes, by gradient descent on the pixels.

The network is small and fixed. Its filters are patches of the style image at several scales, so each channel shows
where an image resembles one of the brush strokes. Gram matrices measure the style, as in Gatys et al. (2015): how often
the strokes occur, and which ones occur together. The content is the brightness at low resolution. The image is
optimized, first at half its size, to match the style of one picture and the content of the other.

    python examples/style_transfer.py          about 15 seconds; writes style_transfer.png
    python examples/style_transfer.py --quick  a short run
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from common import DATA, Adam, Progress, arguments, get_pyplot, save_picture

import gradtape as tf

LEVELS = 5  # scales at which the style is measured, each half the size of the previous one
WINDOW = 9  # a stroke is a patch of 9 x 9 pixels
STROKES = 48  # filters at each scale
CONTENT_LEVELS = (2, 3)
STROKES_WEIGHT, CONTENT_WEIGHT, SMOOTH_WEIGHT = 4.0, 1.0, 0.04


def load(name: str) -> tf.Tensor:
    """Load an image from `data/` as a batch of one, with values from 0 to 1."""
    return tf.cast(tf.io.decode_jpeg(tf.io.read_file(str(DATA / name))), tf.float32)[None] / 255


def pyramid(x: tf.Tensor, levels: int) -> list[tf.Tensor]:
    """Return the image at several scales: each level averages 4 x 4 pixels and halves the size."""
    sizes = [x]
    for _ in range(levels - 1):
        x = tf.nn.avg_pool2d(tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], "SYMMETRIC"), 4, 2, "VALID")
        sizes.append(x)
    return sizes


class Palette:
    """The colors of an image: their mean and their three principal axes, in order of variance.

    In these coordinates, the colors of every image have mean 0 and variance 1. `read` with the palette of one image and
    `paint` with the palette of another give the first image in the colors of the second.
    """

    def __init__(self, picture: tf.Tensor) -> None:
        pixels = tf.reshape(picture, [-1, 3])
        self.mean = tf.reduce_mean(pixels, axis=0)
        centered = pixels - self.mean
        variances, axes = tf.linalg.eigh(tf.matmul(centered, centered, transpose_a=True) / len(pixels))
        axes *= tf.sign(tf.reduce_sum(axes, axis=0))  # brighter is positive
        self.axes, self.spread = axes[:, ::-1], tf.sqrt(variances[::-1] + 1e-4)

    def read(self, picture: tf.Tensor) -> tf.Tensor:
        return tf.clip_by_value(tf.matmul(picture - self.mean, self.axes) / self.spread, -2.0, 2.0)

    def paint(self, coordinates: tf.Tensor) -> tf.Tensor:
        return tf.matmul(coordinates * self.spread, self.axes, transpose_b=True) + self.mean


def gram(features: tf.Tensor) -> tf.Tensor:
    """Return the mean products of all pairs of channels. A constant channel of ones adds the means."""
    features = tf.pad(features, [[0, 0], [0, 0], [0, 0], [0, 1]], constant_values=1.0)
    return tf.einsum("bijc,bijd->cd", features, features) / (features.shape[1] * features.shape[2])


class Style:
    """The Gram matrices of colors and strokes at each scale, normalized by those of the style image."""

    def __init__(self, picture: tf.Tensor, rng: np.random.Generator) -> None:
        self.filters, self.means, self.scales = [], [], []
        for x in pyramid(picture, LEVELS):
            patches = tf.reshape(
                tf.image.extract_patches(x, [1, WINDOW, WINDOW, 1], [1, 1, 1, 1], [1, 1, 1, 1], "VALID"),
                [-1, WINDOW, WINDOW, 3],
            )
            chosen = tf.gather(patches, rng.integers(0, len(patches), STROKES))
            chosen -= tf.reduce_mean(chosen, axis=[1, 2], keepdims=True)
            chosen /= tf.sqrt(tf.reduce_sum(chosen**2, axis=[1, 2, 3], keepdims=True))
            self.filters.append(tf.transpose(chosen, [1, 2, 3, 0]))
            self.means.append(tf.reduce_mean(x, axis=[0, 1, 2]))
        for parts in self.features(picture, 0):
            self.scales.append([tf.sqrt(tf.reduce_mean(part**2, axis=[0, 1, 2])) + 1e-3 for part in parts])
        self.target = self.measure(picture, 0)

    def features(self, picture: tf.Tensor, first: int) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """Return colors and strokes at each scale. The image has the size of level `first`."""
        parts = []
        for level, x in enumerate(pyramid(picture, LEVELS - first), first):
            strokes = tf.nn.conv2d(x, self.filters[level], strides=1, padding="VALID")
            parts.append((x - self.means[level], tf.nn.relu(strokes - 0.1)))
        return parts

    def measure(self, picture: tf.Tensor, first: int) -> list[list[tf.Tensor]]:
        parts = zip(self.features(picture, first), self.scales[first:], strict=True)
        return [[gram(part / scale) for part, scale in zip(*level, strict=True)] for level in parts]

    def distance(self, picture: tf.Tensor, first: int) -> tf.Tensor:
        loss = tf.constant(0.0)
        for (colors, strokes), (own_colors, own_strokes) in zip(
            self.measure(picture, first), self.target[first:], strict=True
        ):
            loss += tf.reduce_mean((colors - own_colors) ** 2)
            loss += STROKES_WEIGHT * tf.reduce_mean((strokes - own_strokes) ** 2)
        return loss


def start(picture: tf.Tensor, rng: np.random.Generator) -> tf.Variable:
    """Return the variable to optimize. The noise lets strokes develop in uniform areas as well."""
    return tf.Variable(picture + rng.normal(0, 0.15, picture.shape).astype(np.float32))


def draw(content: Any, style: Any, result: Any, losses: Any, out: Path) -> None:
    pyplot = get_pyplot()
    if pyplot is None:
        return
    figure, axes = pyplot.subplot_mosaic(
        "ACC;BCC;DDD", figsize=(11, 7.4), layout="constrained", height_ratios=(3, 3, 2)
    )
    for place, picture, title in zip("ABC", (content, style, result), ("content", "style", "result"), strict=True):
        axes[place].imshow(picture[0], interpolation="bicubic", vmin=0, vmax=1)
        axes[place].set(title=title, xticks=[], yticks=[])
    for values, name in zip(np.transpose(losses), ("style", "content"), strict=True):
        axes["D"].semilogy(values, label=f"distance from the {name}")
    axes["D"].set(xlabel="step")
    axes["D"].legend()
    axes["D"].grid(alpha=0.3)
    save_picture(figure, out, "style_transfer.png")


def main() -> None:
    chosen = arguments(__doc__, steps=180, quick=15)
    rng = np.random.default_rng(chosen.seed)
    content, style_picture = load("lighthouse.jpg"), load("swirls.jpg")
    style, palette = Style(style_picture, rng), Palette(style_picture)
    # Optimize in the coordinates of the style's palette, so that Adam's steps follow its colors.
    wanted = pyramid(Palette(content).read(content), LEVELS)
    before = float(style.distance(content, 0))

    losses = []
    level = 1
    z = start(wanted[1], rng)
    optimizer = Adam([z], rate=0.1)
    for step in (bar := Progress(chosen.steps)):
        if level == 1 and step > 2 * chosen.steps // 3:  # continue at full size, with the fine details of the content
            level, size = 0, wanted[0].shape[1:3]
            larger, coarse = (tf.image.resize(x, size, method="bicubic") for x in (z, wanted[1]))
            z = start(larger + wanted[0] - coarse, rng)
            optimizer = Adam([z], rate=0.1)
        optimizer.rate = 0.1 * (1 - 0.8 * step / chosen.steps)
        with tf.GradientTape() as tape:
            picture = palette.paint(z)
            style_loss = style.distance(picture, level)
            brightness = pyramid(z[..., :1], LEVELS - level)
            content_loss = tf.add_n(
                [tf.reduce_mean((brightness[i - level] - wanted[i][..., :1]) ** 2) for i in CONTENT_LEVELS]
            )
            roughness = tf.reduce_sum(tf.image.total_variation(picture)) / tf.size(picture, tf.float32)
            outside = tf.reduce_mean((picture - tf.clip_by_value(picture, 0.0, 1.0)) ** 2)
            loss = style_loss + CONTENT_WEIGHT * content_loss + SMOOTH_WEIGHT * roughness + 10 * outside
        optimizer.apply([tape.gradient(loss, z)])
        losses.append((float(style_loss), float(content_loss)))
        bar.note = "distance from the style {:.3f}, from the content {:.3f}".format(*losses[-1])

    result = tf.clip_by_value(palette.paint(z), 0.0, 1.0)
    after = float(style.distance(result, 0))
    alike = np.corrcoef(tf.reshape(wanted[2][..., 0], [-1]), tf.reshape(pyramid(z, 3)[2][..., 0], [-1]))[0, 1]
    print(f"\n{chosen.steps} steps in {bar.seconds:.1f} s.")
    print(f"Distance from the style: {before:.2f} before, {after:.2f} after.")
    print(f"Correlation of the brightness with the content image: {alike:.2f}.")
    draw(content, style_picture, result, losses, chosen.out)


if __name__ == "__main__":
    main()
