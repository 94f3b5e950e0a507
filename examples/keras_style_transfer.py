"""Neural style transfer with Keras: TensorFlow's tutorial, with a VGG network whose weights are random.

The style of an image is its colors and the Gram matrices of the first convolutions in the blocks of VGG16; the content
is the activations of the deepest of them. Random weights are good enough to capture brush strokes, so nothing is
downloaded. The image is a `tf.Variable`, and Keras' Adam updates its pixels, first at half the size.
`style_transfer.py` does the same without Keras, with a network made from the style image.

    python examples/keras_style_transfer.py          under a minute; writes keras_style_transfer.png
    python examples/keras_style_transfer.py --quick  a short run
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from common import DATA, Progress, arguments, get_pyplot, save_picture

import gradtape as tf

STYLE_LAYERS = ("block1_conv1", "block2_conv1", "block3_conv1")
CONTENT_LAYER = "block3_conv1"
CONTENT_WEIGHT, SMOOTH_WEIGHT = 0.02, 0.02


def load(name: str) -> tf.Tensor:
    """Load an image from `data/` as a batch of one, with values from 0 to 1."""
    return tf.cast(tf.io.decode_jpeg(tf.io.read_file(str(DATA / name))), tf.float32)[None] / 255


def half(picture: tf.Tensor) -> tf.Tensor:
    return tf.nn.avg_pool2d(picture, 2, 2, "VALID")


def power_of_spread(pixels: tf.Tensor, power: float) -> tf.Tensor:
    """Return a power of the covariance matrix of the colors."""
    centered = pixels - tf.reduce_mean(pixels, axis=0)
    variances, axes = tf.linalg.eigh(tf.matmul(centered, centered, transpose_a=True) / len(pixels))
    return tf.matmul(axes * (variances + 1e-4) ** power, axes, transpose_b=True)


def recolor(picture: tf.Tensor, style: tf.Tensor) -> tf.Tensor:
    """Return the image with the color mean and covariance of the style."""
    own, wanted = tf.reshape(picture, [-1, 3]), tf.reshape(style, [-1, 3])
    plain = tf.matmul(own - tf.reduce_mean(own, axis=0), power_of_spread(own, -0.5))
    pixels = tf.matmul(plain, power_of_spread(wanted, 0.5)) + tf.reduce_mean(wanted, axis=0)
    return tf.clip_by_value(tf.reshape(pixels, picture.shape), 0.0, 1.0)


def make_network() -> tf.keras.Model:
    """Return a model that maps an image to the features of some layers of VGG16, with random weights."""
    vgg = tf.keras.applications.VGG16(include_top=False, weights=None, input_shape=(None, None, 3))
    vgg.trainable = False
    for layer in vgg.layers:
        if isinstance(layer, tf.keras.layers.Conv2D):  # a kernel with mean zero ignores uniform areas
            layer.kernel.assign(layer.kernel - tf.reduce_mean(layer.kernel, axis=[0, 1], keepdims=True))
    return tf.keras.Model(vgg.input, {name: vgg.get_layer(name).output for name in {*STYLE_LAYERS, CONTENT_LAYER}})


def gram_matrix(features: tf.Tensor) -> tf.Tensor:
    """Return the mean products of all pairs of channels. A constant channel of ones adds the means."""
    features = tf.pad(features, [[0, 0], [0, 0], [0, 0], [0, 1]], constant_values=1.0)
    positions = features.shape[1] * features.shape[2]
    return tf.einsum("bijc,bijd->bcd", features, features) / positions


class StyleContentModel:
    """Measures how far an image is from the style of one image and the content of another of the same size."""

    def __init__(self, network: tf.keras.Model, style: tf.Tensor, content: tf.Tensor) -> None:
        self.network = network
        features = self.features(style)
        # The scale of random features is arbitrary, so normalize them by those of the style.
        self.scales = {name: tf.math.reduce_std(x, axis=[0, 1, 2]) + 1e-3 for name, x in features.items()}
        self.style = {name: gram_matrix(features[name] / self.scales[name]) for name in STYLE_LAYERS}
        self.content = self.features(content)[CONTENT_LAYER] / self.scales[CONTENT_LAYER]

    def features(self, picture: tf.Tensor) -> dict[str, tf.Tensor]:
        return self.network(tf.keras.applications.vgg16.preprocess_input(255 * picture) / 64)

    def distances(self, picture: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the distances from the style and from the content."""
        features = {name: x / self.scales[name] for name, x in self.features(picture).items()}
        style = [tf.reduce_mean((gram_matrix(features[name]) - self.style[name]) ** 2) for name in STYLE_LAYERS]
        return tf.add_n(style) / len(style), tf.reduce_mean((features[CONTENT_LAYER] - self.content) ** 2)


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
    save_picture(figure, out, "keras_style_transfer.png")


def main() -> None:
    chosen = arguments(__doc__, steps=120, quick=32)
    tf.keras.utils.set_random_seed(chosen.seed)
    content, style = load("lighthouse.jpg"), load("swirls.jpg")
    recolored = recolor(content, style)
    network = make_network()
    full = StyleContentModel(network, style, recolored)
    small = StyleContentModel(network, half(style), half(recolored))
    before, _ = full.distances(recolored)

    def make_train_step(model: StyleContentModel, image: tf.Variable, optimizer: tf.keras.optimizers.Optimizer) -> Any:
        @tf.function
        def train_step() -> tuple[tf.Tensor, tf.Tensor]:
            with tf.GradientTape() as tape:
                style_loss, content_loss = model.distances(image)
                roughness = tf.reduce_sum(tf.image.total_variation(image)) / tf.size(image, tf.float32)
                loss = style_loss + CONTENT_WEIGHT * content_loss + SMOOTH_WEIGHT * roughness
            gradient = tape.gradient(loss, image)
            optimizer.apply_gradients([(gradient, image)])
            image.assign(tf.clip_by_value(image, 0.0, 1.0))
            return style_loss, content_loss

        return train_step

    losses = []
    # The noise lets strokes develop in uniform areas as well.
    image = tf.Variable(half(recolored) + tf.random.normal([*half(content).shape[:-1], 1], stddev=0.1))
    train_step = make_train_step(small, image, tf.keras.optimizers.Adam(0.03))
    for step in (bar := Progress(chosen.steps)):
        if step == 3 * chosen.steps // 4 + 1:  # continue at full size
            image = tf.Variable(tf.clip_by_value(tf.image.resize(image, content.shape[1:3], "bicubic"), 0.0, 1.0))
            train_step = make_train_step(full, image, tf.keras.optimizers.Adam(0.02))
        losses.append([float(distance) for distance in train_step()])
        bar.note = "distance from the style {:.4f}, from the content {:.3f}".format(*losses[-1])

    after, _ = full.distances(image)
    print(f"\n{chosen.steps} steps in {bar.seconds:.1f} s.")
    print(f"Distance from the style, with matching colors: {float(before):.4f} before, {float(after):.4f} after.")
    draw(content, style, image, losses, chosen.out)


if __name__ == "__main__":
    main()
