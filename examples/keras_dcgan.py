"""Generate handwritten digits with Keras: TensorFlow's DCGAN tutorial, on 8 x 8 digits.

The generator and the discriminator are Keras models, each with its own optimizer. Two tapes record the same forward
pass, and `tf.function` compiles the whole training step with XLA if JAX is installed; without JAX it runs on NumPy.
`dcgan.py` does the same without Keras.

    python examples/keras_dcgan.py          under a minute, on NumPy alone under two; writes keras_dcgan.png
    python examples/keras_dcgan.py --quick  a short run

With `--checkpoints DIR`, the training state is saved every 100 steps. To resume an interrupted training, run the same
command again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from common import Progress, arguments, get_pyplot, load_digits, save_picture

import gradtape as tf
from gradtape.keras import layers

NOISE = 32  # dimensions of the noise vector
BATCH = 64
SIDE = 8  # rows and columns of the grid of generated digits

cross_entropy = tf.keras.losses.BinaryCrossentropy(from_logits=True)


def make_generator() -> tf.keras.Model:
    """Map noise to images of 2 x 2, 4 x 4 and 8 x 8 pixels, with fewer channels each time. Ink is 1, paper is -1."""
    return tf.keras.Sequential(
        [
            tf.keras.Input((NOISE,)),
            layers.Dense(2 * 2 * 96, use_bias=False),
            layers.Reshape((2, 2, 96)),
            layers.BatchNormalization(momentum=0.9),
            layers.LeakyReLU(),
            layers.Conv2DTranspose(48, 4, strides=2, padding="same", use_bias=False),
            layers.BatchNormalization(momentum=0.9),
            layers.LeakyReLU(),
            layers.Conv2DTranspose(24, 4, strides=2, padding="same", use_bias=False),
            layers.BatchNormalization(momentum=0.9),
            layers.LeakyReLU(),
            layers.Conv2D(1, 3, padding="same", use_bias=False, activation="tanh"),
        ],
        name="generator",
    )


def make_discriminator() -> tf.keras.Model:
    """Map each image to one logit: positive for real images, negative for generated ones."""
    return tf.keras.Sequential(
        [
            tf.keras.Input((8, 8, 1)),
            layers.Conv2D(32, 4, strides=2, padding="same"),
            layers.LeakyReLU(),
            layers.Dropout(0.3),
            layers.Conv2D(64, 4, strides=2, padding="same"),
            layers.LeakyReLU(),
            layers.Dropout(0.3),
            layers.Flatten(),
            layers.Dense(1),
        ],
        name="discriminator",
    )


def make_adam(rate: float, steps: int) -> tf.keras.optimizers.Adam:
    """Return Adam with a learning rate that decays to a tenth."""
    return tf.keras.optimizers.Adam(tf.keras.optimizers.schedules.CosineDecay(rate, steps, alpha=0.1), beta_1=0.5)


def generator_loss(fake_output: tf.Tensor) -> tf.Tensor:
    return cross_entropy(tf.ones_like(fake_output), fake_output)


def discriminator_loss(real_output: tf.Tensor, fake_output: tf.Tensor) -> tf.Tensor:
    # One-sided label smoothing: an overconfident discriminator gives the generator small gradients.
    real_loss = cross_entropy(0.9 * tf.ones_like(real_output), real_output)
    return real_loss + cross_entropy(tf.zeros_like(fake_output), fake_output)


def nearest(pictures: Any, known: Any) -> tuple[Any, Any]:
    """Return the distance from each image to its nearest neighbor among `known`, and that neighbor's index."""
    pictures, known = pictures.reshape(len(pictures), -1), known.reshape(len(known), -1)
    squares = (pictures**2).sum(1)[:, None] + (known**2).sum(1) - 2 * pictures @ known.T
    return np.sqrt(np.maximum(squares.min(1), 0)), squares.argmin(1)


def draw(drawn: Any, real: Any, losses: Any, out: Path) -> None:
    """Plot a grid of generated digits, the same number of real ones, and the losses."""
    pyplot = get_pyplot()
    if pyplot is None:
        return
    figure, axes = pyplot.subplot_mosaic("AB;CC", figsize=(10, 7.2), layout="constrained", height_ratios=(7, 3))
    for place, pictures, title in (("A", drawn, "generated digits"), ("B", real, "real digits")):
        framed = np.pad(pictures[: SIDE * SIDE], ((0, 0), (1, 1), (1, 1)), constant_values=-0.6)
        rows = framed.reshape(SIDE, SIDE, 10, 10).transpose(0, 2, 1, 3)
        axes[place].imshow(rows.reshape(SIDE * 10, SIDE * 10), cmap="gray_r", vmin=-1, vmax=1)
        axes[place].set(title=title, xticks=[], yticks=[])
    smooth = np.ones(25) / 25
    for values, name in zip(np.transpose(losses), ("generator", "discriminator"), strict=True):
        shown = np.convolve(values, smooth, "valid") if len(values) >= 50 else values
        axes["C"].plot(shown, label=f"{name} loss")
    axes["C"].set(xlabel="step")
    axes["C"].legend(loc="upper right")
    axes["C"].grid(alpha=0.3)
    save_picture(figure, out, "keras_dcgan.png")


def main() -> None:
    chosen = arguments(__doc__, steps=1500, quick=60, saves=True)
    tf.keras.utils.set_random_seed(chosen.seed)
    rng = np.random.default_rng(chosen.seed)
    (images, labels), (unseen, _) = load_digits(rng)
    images, unseen = 2 * images - 1, 2 * unseen - 1

    generator, discriminator = make_generator(), make_discriminator()
    generator_optimizer = make_adam(0.001, chosen.steps)
    discriminator_optimizer = make_adam(0.002, chosen.steps)
    generator_optimizer.build(generator.trainable_variables)
    discriminator_optimizer.build(discriminator.trainable_variables)

    history = tf.Variable(np.zeros((0, 2), np.float32), shape=(None, 2), trainable=False)  # the losses of every step
    manager = None
    if chosen.checkpoints:
        checkpoint = tf.train.Checkpoint(
            generator_optimizer=generator_optimizer,
            discriminator_optimizer=discriminator_optimizer,
            generator=generator,
            discriminator=discriminator,
            history=history,
        )
        manager = tf.train.CheckpointManager(checkpoint, chosen.checkpoints, max_to_keep=2)
        if manager.restore_or_initialize():
            print(f"{manager.latest_checkpoint} contains {len(history.numpy())} steps.")
            tf.keras.utils.set_random_seed(
                chosen.seed + len(history.numpy())
            )  # do not repeat the noise of the first steps

    @tf.function
    def train_step(images: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        noise = tf.random.normal([BATCH, NOISE])
        with tf.GradientTape() as gen_tape, tf.GradientTape() as disc_tape:
            generated = generator(noise, training=True)
            real_output = discriminator(images, training=True)
            fake_output = discriminator(generated, training=True)
            gen_loss = generator_loss(fake_output)
            disc_loss = discriminator_loss(real_output, fake_output)
        gen_gradients = gen_tape.gradient(gen_loss, generator.trainable_variables)
        disc_gradients = disc_tape.gradient(disc_loss, discriminator.trainable_variables)
        generator_optimizer.apply_gradients(zip(gen_gradients, generator.trainable_variables, strict=True))
        discriminator_optimizer.apply_gradients(zip(disc_gradients, discriminator.trainable_variables, strict=True))
        return gen_loss, disc_loss

    losses = history.numpy().tolist()
    for _ in (bar := Progress(max(chosen.steps - len(losses), 0))):
        batch = tf.constant(images[rng.integers(0, len(images), BATCH), :, :, None])
        gen_loss, disc_loss = train_step(batch)
        losses.append([float(gen_loss), float(disc_loss)])
        bar.note = "generator loss {:.3f}, discriminator loss {:.3f}".format(*losses[-1])
        if manager and (len(losses) % 100 == 0 or len(losses) == chosen.steps):
            history.assign(losses)
            manager.save()

    # Compare the distances to the nearest training digit for generated digits, unseen real digits and noise.
    drawn = generator(tf.random.normal([500, NOISE]), training=False).numpy()[..., 0]
    far, which = nearest(drawn, images)
    real_far, _ = nearest(unseen, images)
    noise_far, _ = nearest(rng.permuted(unseen.reshape(len(unseen), -1), axis=1), images)
    kinds = np.bincount(labels[which], minlength=10)
    print(f"\n{bar.total} steps in {bar.seconds:.1f} s. Mean distance to the nearest training digit:")
    print(f"  generated digits        {far.mean():.2f}")
    print(f"  unseen real digits      {real_far.mean():.2f}")
    print(f"  the same, pixels mixed  {noise_far.mean():.2f}")
    print("Classes 0 to 9 of the nearest neighbors of 500 generated digits:", *kinds)
    draw(drawn, unseen, losses, chosen.out)


if __name__ == "__main__":
    main()
