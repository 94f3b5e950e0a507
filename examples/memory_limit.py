"""The gradient of a long recurrent network in less and less memory: a tape with `memory_limit`.

    python examples/memory_limit.py

The network compresses a noisy signal of many time steps. A tape saves the activations of all steps for the backward
pass. With a memory limit it keeps what fits, drops the rest and recomputes it during the backward pass. The gradients
are equal to the last bit; the price is time.
"""

import time

import numpy as np
from common import arguments, get_pyplot, save_picture

import gradtape as tf

WIDTH, BATCH, REPEATS = 128, 64, 3
SHARES = (1, 1.5, 2, 3, 4, 6, 8)


def main():
    chosen = arguments(__doc__, steps=600, quick=200)
    rng = np.random.default_rng(chosen.seed)
    signal = tf.constant(np.cumsum(rng.normal(size=(chosen.steps, BATCH, 1)), 0) / chosen.steps**0.5, tf.float32)
    inputs = tf.Variable(rng.normal(size=(1, WIDTH)).astype("f"))
    recurrent = tf.Variable(np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0].astype("f"))
    read = tf.Variable(rng.normal(size=(WIDTH, 1)).astype("f") / WIDTH)
    weights = [inputs, recurrent, read]

    def loss():
        state = tf.zeros((BATCH, WIDTH))
        for step in range(chosen.steps):
            state = tf.tanh(state @ recurrent + signal[step] @ inputs)
        return tf.reduce_mean((state @ read - signal[0]) ** 2)

    def measured(limit):
        """The gradient, the seconds, and what the tape kept and computed again."""
        seconds = []
        for _ in range(REPEATS):
            start = time.process_time()
            with tf.GradientTape(memory_limit=limit) as tape:
                value = loss()
            gradient = tape.gradient(value, weights)
            seconds.append(time.process_time() - start)
        return [g.numpy() for g in gradient], min(seconds), tape.memory_report().limit

    expected, alone, outcome = measured("1TB")
    total, rows, equal = outcome.peak, [], True
    print(f"without a limit: {total / 1e6:6.1f} MB, {alone:.2f} s")
    for share in SHARES:
        gradient, seconds, outcome = measured(int(total / share))
        equal = equal and all(map(np.array_equal, gradient, expected))
        rows.append((total / share, outcome.peak, seconds / alone))
        print(
            f"limit {total / share / 1e6:6.1f} MB: peak {outcome.peak / 1e6:6.1f} MB, {seconds / alone:.2f} times as "
            f"long, {outcome.recomputed} ops ran again"
        )
    print(f"The gradients are {'equal to the last bit' if equal else 'different'}.")

    pyplot = get_pyplot()
    if pyplot is None:
        return
    limits, peaks, times = np.array(rows).T
    figure, (memory, cost) = pyplot.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    memory.plot(limits / 1e6, limits / 1e6, color="gray", linestyle=":", label="the limit")
    memory.plot(limits / 1e6, peaks / 1e6, marker="o", label="the peak of saved values")
    memory.set(title="Memory", xlabel="limit (MB)", ylabel="MB", ylim=(0, None))
    memory.legend()
    cost.plot(limits / 1e6, times, marker="o", color="tab:red")
    cost.set(title="Time of one gradient", xlabel="limit (MB)", ylabel="relative to no limit", ylim=(0, None))
    for axes in (memory, cost):
        axes.set_xlim(0, None)
        axes.grid(alpha=0.3)
    save_picture(figure, chosen.out, "memory_limit.png")


if __name__ == "__main__":
    main()
