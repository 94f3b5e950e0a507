"""A training step under a strategy: python -m benchmarks.replicas [--devices 8] [--rows 512] [--rounds 250]

Eight simulated devices: a step of a 256-512-512-10 network under `MirroredStrategy`, beside the same step written in
JAX with `shard_map`, and with arrays that are divided among devices and no `shard_map`. One device: the step under
`OneDeviceStrategy` and under a `MirroredStrategy` over one device, beside the step without a strategy.

The programs take turns in one process, one call each in a random order. Their losses are compared first. The medians
of the calls are compared, and the best call is printed beside them: where eight device threads share fewer cores, one
lucky call of 250 decides the best time. In six runs the ratios of best times were anything from 0.92 to 1.07, those of
medians 0.98 to 1.02.
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gradtape as tf

SIZES = (256, 512, 512, 10)
RATE, MOMENTUM = 0.01, 0.9
BUDGETS = (
    ("MirroredStrategy", "jax.shard_map", 1.03),
    ("OneDeviceStrategy", "no strategy", 1.02),
    ("MirroredStrategy of one", "no strategy", 1.02),
)
"""The first one's median time is at most so many times the second one's."""


def _weights() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    pairs = itertools.pairwise(SIZES)
    return [w for n, m in pairs for w in (rng.normal(size=(n, m)).astype("f") / n**0.5, np.zeros(m, "f"))]


def _data(rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.normal(size=(rows, SIZES[0])).astype("f"), rng.normal(size=(rows, SIZES[-1])).astype("f")


def _under(strategy: Any, rows: int) -> Callable[[], float]:
    """A step of gradtape's: the loss of each call."""
    with strategy.scope():
        variables = [tf.Variable(w) for w in _weights()]
        optimizer = tf.keras.optimizers.SGD(RATE, momentum=MOMENTUM)
        optimizer.build(variables)

    def replica(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            h = x
            for k, (w, b) in enumerate(zip(variables[::2], variables[1::2], strict=True)):
                h = h @ w + b if 2 * k + 2 == len(variables) else tf.nn.relu(h @ w + b)
            loss = tf.nn.compute_average_loss(tf.reduce_sum((h - y) ** 2, axis=1), global_batch_size=rows)
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    is_alone = strategy is tf.distribute.get_strategy()

    @tf.function(jit_compile=True)
    def step(batch: Any) -> Any:
        return replica(*batch) if is_alone else strategy.reduce("SUM", strategy.run(replica, args=batch), axis=None)

    dataset = tf.data.Dataset.from_tensor_slices(_data(rows)).batch(rows)
    batch = next(iter(strategy.experimental_distribute_dataset(dataset)))
    return lambda: float(step(batch))


def _jax(rows: int, mapped: bool) -> Callable[[], float]:
    """The same step in JAX."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("replica",))

    def loss_of(weights: Any, x: Any, y: Any) -> Any:
        h = x
        for k in range(0, len(weights), 2):
            h = h @ weights[k] + weights[k + 1]
            h = h if k + 2 == len(weights) else jax.nn.relu(h)
        return jnp.sum((h - y) ** 2) / rows

    def update(weights: Any, momenta: Any, x: Any, y: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(weights, x, y)
        if mapped:
            loss, gradients = jax.lax.psum((loss, gradients), "replica")
        momenta = [MOMENTUM * m - RATE * g for m, g in zip(momenta, gradients, strict=True)]
        return [w + m for w, m in zip(weights, momenta, strict=True)], momenta, loss

    rows_of = NamedSharding(mesh, P("replica"))
    inside: Any = update
    if mapped:
        specs = (P(), P(), P("replica"), P("replica"))
        inside = jax.shard_map(update, mesh=mesh, in_specs=specs, out_specs=P(), check_vma=False)
    step = jax.jit(inside, donate_argnums=(0, 1))
    everywhere = NamedSharding(mesh, P())
    weights = jax.device_put(_weights(), everywhere)
    state = [weights, jax.device_put([np.zeros_like(w) for w in _weights()], everywhere)]
    data = _data(rows)

    def run() -> float:
        state[0], state[1], loss = step(*state, *jax.device_put(data, rows_of))
        return float(loss)

    return run


def _measured(programs: dict[str, Callable[[], float]], rounds: int) -> dict[str, np.ndarray]:
    """The seconds of each call."""
    losses = {name: [run() for _ in range(3)] for name, run in programs.items()}
    first = next(iter(losses.values()))
    for name, found in losses.items():
        np.testing.assert_allclose(found, first, rtol=1e-4, err_msg=name)
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    order = random.Random(0)
    for _ in range(rounds):
        for name in order.sample(list(programs), len(programs)):
            began = time.perf_counter()
            programs[name]()
            seconds[name].append(time.perf_counter() - began)
    return {name: np.array(found) for name, found in seconds.items()}


def main() -> None:
    """Measure, and print the times and ratios."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replicas", description=__doc__)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--rows", type=int, default=512, help="of the global batch")
    parser.add_argument("--rounds", type=int, default=250)
    arguments = parser.parse_args()
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * arguments.devices)
    rows = arguments.rows
    times = _measured(
        {
            "MirroredStrategy": _under(tf.distribute.MirroredStrategy(), rows),
            "jax.shard_map": _jax(rows, True),
            "jax.jit of divided arrays": _jax(rows, False),
        },
        arguments.rounds,
    )
    times |= _measured(
        {
            "no strategy": _under(tf.distribute.get_strategy(), rows),
            "OneDeviceStrategy": _under(tf.distribute.OneDeviceStrategy("/CPU:0"), rows),
            "MirroredStrategy of one": _under(tf.distribute.MirroredStrategy(["/CPU:0"]), rows),
        },
        arguments.rounds,
    )
    for name, seconds in times.items():
        print(f"{name:<28}{1e3 * np.median(seconds):8.2f} ms, best {1e3 * seconds.min():.2f} ms")
    for name, other, most in BUDGETS:
        ratio = np.median(times[name]) / np.median(times[other])
        best = times[name].min() / times[other].min()
        verdict = "met" if ratio <= most else "not met"
        print(f"{name} / {other}: {ratio:.3f} (at most {most}: {verdict}), best calls {best:.3f}")


if __name__ == "__main__":
    main()
