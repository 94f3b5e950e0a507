"""A gradient inside a gradient: a Wasserstein GAN with gradient penalty, in the plane.

    python examples/gradient_penalty.py

A generator moves random points onto a ring of eight spots. A critic estimates the distance between the two clouds, for
which its slope must stay near 1. The slope is therefore part of its loss: an inner tape differentiates the critic with
respect to its *input*, and the outer tape differentiates the result with respect to the critic's *weights*.
"""

import numpy as np
from common import Adam, Progress, arguments, dense, get_pyplot, save_picture

import gradtape as tf

BATCH = 256
CRITIC_STEPS = 5
PENALTY = 1.0


class Network:
    """Two hidden layers between the points and the output."""

    def __init__(self, rng: np.random.Generator, inputs: int, outputs: int, hidden: int = 64) -> None:
        self.variables = [*dense(rng, inputs, hidden), *dense(rng, hidden, hidden), *dense(rng, hidden, outputs)]

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        w1, b1, w2, b2, w3, b3 = self.variables
        x = tf.nn.leaky_relu(tf.matmul(x, w1) + b1)
        x = tf.nn.leaky_relu(tf.matmul(x, w2) + b2)
        return tf.matmul(x, w3) + b3


def real_points(rng: np.random.Generator, count: int) -> tf.Tensor:
    angle = rng.integers(0, 8, count) * (np.pi / 4)
    spots = 2.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return tf.constant(spots + rng.normal(0.0, 0.1, (count, 2)), tf.float32)


def noise(rng: np.random.Generator, count: int) -> tf.Tensor:
    return tf.constant(rng.normal(size=(count, 4)), tf.float32)


def slope_of(critic: Network, points: tf.Tensor) -> tf.Tensor:
    """The norm of the critic's gradient at every point, which an outer tape can differentiate again."""
    with tf.GradientTape() as inner:
        inner.watch(points)
        scores = critic(points)
    return tf.norm(inner.gradient(scores, points), axis=1)


def critic_step(critic: Network, optimizer: Adam, real: tf.Tensor, fake: tf.Tensor, mix: tf.Tensor):
    """Train the critic to tell the clouds apart; return its estimate of the distance, and its mean slope in between."""
    with tf.GradientTape() as tape:
        distance = tf.reduce_mean(critic(real)) - tf.reduce_mean(critic(fake))
        slope = slope_of(critic, mix * real + (1 - mix) * fake)
        loss = PENALTY * tf.reduce_mean((slope - 1) ** 2) - distance
    optimizer.apply(tape.gradient(loss, critic.variables))
    return float(distance), float(tf.reduce_mean(slope))


def generator_step(generator: Network, critic: Network, optimizer: Adam, z: tf.Tensor) -> None:
    """Train the generator to follow the critic uphill; the critic's weights are not among the sources."""
    with tf.GradientTape() as tape:
        loss = -tf.reduce_mean(critic(generator(z)))
    optimizer.apply(tape.gradient(loss, generator.variables))


def main() -> None:
    options = arguments(__doc__, steps=1200, quick=60)
    rng = np.random.default_rng(options.seed)
    generator, critic = Network(rng, 4, 2), Network(rng, 2, 1)
    generator_optimizer = Adam(generator.variables, beta1=0.0, beta2=0.9)
    critic_optimizer = Adam(critic.variables, beta1=0.0, beta2=0.9)
    sample = noise(rng, 1000)
    start = generator(sample).numpy()

    distances, slopes = [], []
    for step in (bar := Progress(options.steps)):
        generator_optimizer.rate = 0.002 * (1 - step / options.steps)
        critic_optimizer.rate = 0.004 * (1 - step / options.steps)
        for _ in range(CRITIC_STEPS):
            mix = tf.constant(rng.uniform(size=(BATCH, 1)), tf.float32)
            fake = generator(noise(rng, BATCH))
            distance, slope = critic_step(critic, critic_optimizer, real_points(rng, BATCH), fake, mix)
        generator_step(generator, critic, generator_optimizer, noise(rng, BATCH))
        distances.append(distance)
        slopes.append(slope)
        bar.note = f"distance {distance:.3f}   slope {slope:.2f}"

    made = generator(sample).numpy()
    spots = 2.0 * np.stack([np.cos(np.arange(8) * np.pi / 4), np.sin(np.arange(8) * np.pi / 4)], axis=1)
    away = np.linalg.norm(made[:, None] - spots, axis=2)
    near = away.min(axis=1) < 0.4
    found = len(set(away.argmin(axis=1)[near]))
    print(f"\n{100 * near.mean():.0f} % of the generated points lie on one of the spots; {found} of 8 spots are found.")
    print(f"Mean slope of the critic in the last step: {slopes[-1]:.2f}")
    draw(options.out, critic, real_points(rng, 1000).numpy(), start, made, distances, slopes)


def draw(out, critic, real, start, made, distances, slopes) -> None:
    if (pyplot := get_pyplot()) is None:
        return
    figure, (left, middle, right) = pyplot.subplots(1, 3, figsize=(15, 4.6), layout="constrained")
    left.plot(*real.T, ".", color="tab:orange", markersize=3, label="real")
    left.plot(*start.T, ".", color="0.7", markersize=2, label="generated, before")
    left.plot(*made.T, ".", color="tab:blue", markersize=3, label="generated, after")
    left.set(title="The two clouds", xlim=(-3, 3), ylim=(-3, 3), aspect="equal")
    left.legend(loc="upper right", fontsize=8, markerscale=3)

    axis = np.linspace(-3, 3, 120)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    scores = critic(tf.constant(grid, tf.float32)).numpy().reshape(120, 120)
    shades = middle.contourf(axis, axis, scores, levels=24, cmap="RdBu_r")
    middle.plot(*made.T, ".", color="black", markersize=1.5, alpha=0.5)
    middle.set(title="The critic: red looks real, blue generated\n(dots: generated)", aspect="equal")
    figure.colorbar(shades, ax=middle, label="score")

    right.plot(distances, color="tab:blue", linewidth=0.8, label="estimated distance")
    right.plot(slopes, color="tab:red", linewidth=0.8, label="mean slope")
    right.axhline(1, color="black", linestyle=":", label="target of the penalty")
    right.set(title="Training", xlabel="generator step", ylim=(0, None))
    right.legend(fontsize=8)
    right.grid(alpha=0.3)
    save_picture(figure, out, "gradient_penalty.png")


if __name__ == "__main__":
    main()
