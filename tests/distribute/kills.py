"""Kill workers at random moments: python tests/distribute/kills.py [--kills 100] [--processes 2] [--seed 0]

`gradtape launch` starts a training that saves a checkpoint after every few steps and continues from the last one. In
each round one of the workers ends itself with SIGKILL: while it starts (in one round of five), or at a random moment of
its training, which goes on until then, between steps, within steps and while checkpoints are written. After the last
kill the group trains some more steps and ends. The losses of all steps and the final weights have to be those of an
undisturbed run. It prints where the kills came, and how long it took until the next group started.
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
from collections import Counter
from pathlib import Path

EVERY = 5
"""Steps between two checkpoints."""

MORE = 20
"""Steps of the group that is not killed."""


def train(folder: Path, arguments: argparse.Namespace) -> None:
    """What each worker runs."""
    index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    count = len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"])
    restart = int(os.environ["GRADTAPE_RESTART"])
    (folder / f"started-{restart}-{index}").write_text(str(time.time()))
    killed = _Killed(folder, restart, random.Random(1000 * arguments.seed + restart), arguments, count, index)
    killed.may_come("start")

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

    last = arguments.steps or int(done) + MORE
    while killed.coming or int(done) < last:
        number = int(done)
        rows = np.random.default_rng(number).normal(size=(8, 9)).astype("f")
        loss = float(step(tf.constant(rows[index * part : (index + 1) * part])))
        done.assign_add(1)
        killed.may_come("training")
        if index == 0:
            with (folder / "losses.jsonl").open("a") as file:
                file.write(json.dumps([number, loss]) + "\n")
            if (number + 1) % EVERY == 0:
                killed.moment = "writing"
                manager.save()
                killed.moment = "training"
    if index == 0:
        np.savez(folder / "weights.npz", *model.get_weights())
        (folder / "steps").write_text(str(last))


class _Killed:
    """The kill of a round, if this worker is its victim."""

    def __init__(
        self, folder: Path, restart: int, chance: random.Random, arguments: argparse.Namespace, count: int, index: int
    ) -> None:
        self.folder, self.restart, self.moment = folder, restart, ""
        self.coming = restart < arguments.kills
        self._victim = self.coming and chance.randrange(count) == index
        self._phase = "start" if chance.random() < 0.2 else "training"
        self._after = chance.uniform(0.0, arguments.longest)

    def may_come(self, phase: str) -> None:
        """Start the clock, if the kill comes in this phase."""
        first, self.moment = phase != self.moment, phase
        if first and self._victim and phase == self._phase:
            threading.Thread(target=self._end_self, daemon=True).start()

    def _end_self(self) -> None:
        time.sleep(self._after)
        (self.folder / f"killed-{self.restart}").write_text(json.dumps([time.time(), self.moment]))
        os.kill(os.getpid(), signal.SIGKILL)


def launched(folder: Path, arguments: argparse.Namespace, **changes: int) -> float:
    """Run the group to its end; the seconds that it took."""
    folder.mkdir()
    options = {**vars(arguments), **changes}
    command = [sys.executable, "-m", "gradtape", "launch", "--nproc", str(options["processes"])]
    command += ["--max-restarts", str(options["kills"] + 3), __file__, "--train", str(folder)]
    for name in ("kills", "steps", "longest", "seed"):
        command += [f"--{name}", str(options[name])]
    began = time.monotonic()
    with (folder / "errors.txt").open("w") as errors:
        limit = 120.0 * (options["kills"] + 1) + 0.2 * options["steps"]
        subprocess.run(command, check=True, timeout=limit, stdout=subprocess.DEVNULL, stderr=errors)
    return time.monotonic() - began


def compare(troubled: Path, calm: Path) -> int:
    """Check the losses of all steps and the final weights; the number of steps."""
    import numpy as np

    expected, found = [
        [json.loads(line) for line in (folder / "losses.jsonl").read_text().splitlines()] for folder in (calm, troubled)
    ]
    losses = dict(expected)
    assert losses.keys() == dict(found).keys() == set(range(int((troubled / "steps").read_text())))
    # Steps that were lost and trained again are listed twice.
    np.testing.assert_allclose([loss for _, loss in found], [losses[number] for number, _ in found], rtol=1e-6)
    weights = [np.load(folder / "weights.npz") for folder in (calm, troubled)]
    for name in weights[0].files:
        np.testing.assert_allclose(weights[1][name], weights[0][name], rtol=1e-6, atol=1e-7)
    return len(losses)


def _report(troubled: Path) -> str:
    kills = {int(p.name.split("-")[1]): json.loads(p.read_text()) for p in troubled.glob("killed-*")}
    started = {p.name.removeprefix("started-"): float(p.read_text()) for p in troubled.glob("started-*")}
    waits = [
        max(at for name, at in started.items() if name.startswith(f"{n + 1}-")) - when for n, (when, _) in kills.items()
    ]
    where = ", ".join(f"{count} in {moment}" for moment, count in sorted(Counter(m for _, m in kills.values()).items()))
    return f"{len(kills)} kills ({where}), the next group started after {max(waits):.1f} s at the latest"


def main() -> None:
    """Run it disturbed and undisturbed, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--longest", type=float, default=4.0, help="seconds from the start of a phase to its kill")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments and workers")
    parser.add_argument("--steps", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        train(arguments.train, arguments)
        return
    with tempfile.TemporaryDirectory() as temporary:
        troubled, calm = Path(temporary, "troubled"), Path(temporary, "calm")
        seconds = launched(troubled, arguments)
        launched(calm, arguments, kills=0, steps=int((troubled / "steps").read_text()))
        steps = compare(troubled, calm)
        print(f"{_report(troubled)}; the same losses of {steps} steps and weights ({seconds:.0f} s)")


if __name__ == "__main__":
    main()
