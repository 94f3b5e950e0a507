"""Kill workers at random moments: python tests/distribute/kills.py [--kills 100] [--processes 2] [--seed 0]

`gradtape launch` starts a training that saves a checkpoint after every few steps and continues from the last one. In
each round one of the workers ends itself with SIGKILL at a random moment: while it starts, while it trains, while it
writes a checkpoint. The group has to start again after each kill, and to end with the losses and weights of an
undisturbed run. It prints how long the others took to notice.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

EVERY = 5
"""Steps between two checkpoints."""


def train(folder: Path, kills: int, steps: int, longest: float, seed: int) -> None:
    """What each worker runs."""
    index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    count = len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"])
    restart = int(os.environ["GRADTAPE_RESTART"])
    chance = random.Random(1000 * seed + restart)
    victim, moment = chance.randrange(count), chance.uniform(0.0, longest)
    if restart < kills and victim == index:
        threading.Thread(target=_end_self, args=(folder, restart, moment), daemon=True).start()

    import numpy as np

    import gradtape as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        layers = [tf.keras.Input([6]), tf.keras.layers.Dense(16, activation="tanh"), tf.keras.layers.Dense(3)]
        model = tf.keras.Sequential(layers)
        optimizer = tf.keras.optimizers.Adam(0.01)
        optimizer.build(model.trainable_variables)
        done = tf.Variable(0, dtype=tf.int64, trainable=False)
    rng = np.random.default_rng(0)
    model.set_weights([rng.normal(size=w.shape).astype("f") / 2 for w in model.get_weights()])
    data = [rng.normal(size=(8, 9)).astype("f") for _ in range(steps)]
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, done=done)
    manager = tf.train.CheckpointManager(checkpoint, str(folder), max_to_keep=2)
    if manager.latest_checkpoint:
        checkpoint.restore(manager.latest_checkpoint).assert_existing_objects_matched()
    part = 8 // count

    def replica(rows):
        with tf.GradientTape() as tape:
            losses = tf.reduce_sum((model(rows[:, :6]) - rows[:, 6:]) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=8)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function
    def step(rows):
        return strategy.reduce("SUM", strategy.run(replica, args=(rows,)), axis=None)

    try:
        while int(done) < steps:
            number = int(done)
            loss = float(step(tf.constant(data[number][index * part : (index + 1) * part])))
            done.assign_add(1)
            if index == 0:
                with (folder / "losses.jsonl").open("a") as file:
                    file.write(json.dumps([number, loss]) + "\n")
                if (number + 1) % EVERY == 0:
                    manager.save()
    except tf.errors.UnavailableError:
        (folder / f"noticed-{restart}-{index}").write_text(str(time.time()))
        raise
    if restart < kills:  # the kill of this round is still to come
        time.sleep(longest)
    if index == 0:
        np.savez(folder / "weights.npz", *model.get_weights())


def _end_self(folder: Path, restart: int, moment: float) -> None:
    time.sleep(moment)
    (folder / f"killed-{restart}").write_text(str(time.time()))
    os.kill(os.getpid(), signal.SIGKILL)


def launched(folder: Path, kills: int, arguments: argparse.Namespace) -> float:
    """Run the group to its end; the seconds that it took."""
    folder.mkdir()
    command = [sys.executable, "-m", "gradtape", "launch", "--nproc", str(arguments.processes)]
    program = [__file__, "--train", str(folder), "--kills", str(kills), "--steps", str(arguments.steps)]
    program += ["--longest", str(arguments.longest), "--seed", str(arguments.seed)]
    began = time.monotonic()
    limit = 120.0 * (kills + 1)
    subprocess.run(
        [*command, "--max-restarts", str(kills + 3), *program],
        check=True,
        timeout=limit,
        stdout=subprocess.DEVNULL,
        stderr=(folder / "errors.txt").open("w"),
    )
    return time.monotonic() - began


def main() -> None:
    """Run it undisturbed and disturbed, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--longest", type=float, default=8.0, help="seconds from the start of a round to its kill")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments and workers")
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        train(arguments.train, arguments.kills, arguments.steps, arguments.longest, arguments.seed)
        return
    import numpy as np

    with tempfile.TemporaryDirectory() as temporary:
        calm, troubled = Path(temporary, "calm"), Path(temporary, "troubled")
        launched(calm, 0, arguments)
        seconds = launched(troubled, arguments.kills, arguments)
        expected, found = [
            dict(json.loads(line) for line in (folder / "losses.jsonl").read_text().splitlines())
            for folder in (calm, troubled)
        ]
        assert expected.keys() == found.keys() == set(range(arguments.steps))
        np.testing.assert_allclose([found[i] for i in expected], list(expected.values()), rtol=1e-6)
        weights = [np.load(folder / "weights.npz") for folder in (calm, troubled)]
        for name in weights[0].files:
            np.testing.assert_allclose(weights[1][name], weights[0][name], rtol=1e-6, atol=1e-7)
        times = {p.name.split("-")[1]: float(p.read_text()) for p in troubled.glob("killed-*")}
        noticed = [float(p.read_text()) - times[p.name.split("-")[1]] for p in troubled.glob("noticed-*")]
        print(f"{len(times)} kills in {seconds:.0f} s: the same losses and weights; {len(noticed)} workers noticed by "
              f"an UnavailableError, the last one after {max(noticed, default=0.0):.1f} s")  # fmt: skip


if __name__ == "__main__":
    main()
