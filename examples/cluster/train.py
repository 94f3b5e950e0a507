"""Train a digit classifier in several processes, and continue after a failure.

    gradtape launch --nproc 2 --max-restarts 2 examples/cluster/train.py

Every process runs this program. The strategy splits the global batch among the processes and sums their gradients, so
all of them have the same weights after each step. The first process saves a checkpoint every ten steps. With
`--fail-at 35`, the last process exits before step 35, once; the launcher restarts all processes, and they continue from
step 30 with the same losses.

`slurm.sh` and `kubernetes.yaml` run it on a cluster; see docs/clusters.md. Requires the extras `xla` and `keras`.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
import tensorflow as tf

DIGITS = Path(__file__).parents[1] / "data" / "digits.npz"
BATCH = 48
SAVE_EVERY = 10


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--checkpoints", default="checkpoints", help="directory that all processes can read")
    parser.add_argument("--fail-at", type=int, help="step before which the last process fails, in the first run")
    return parser.parse_args()


def digits(steps: int) -> tf.data.Dataset:
    """Return the global batches, which are the same in every process. The strategy gives each process its rows."""
    found = np.load(DIGITS)
    images = found["images"].reshape(-1, 64).astype(np.float32) / found["images"].max()
    data = tf.data.Dataset.from_tensor_slices((images, found["labels"].astype(np.int64)))
    return data.shuffle(len(images), seed=1, reshuffle_each_iteration=True).repeat().batch(BATCH).take(steps)


def main() -> None:
    options = arguments()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # before the first tensor
    tf.keras.utils.set_random_seed(1)
    with strategy.scope():
        layers = [tf.keras.Input([64]), tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(10)]
        model = tf.keras.Sequential(layers)
        optimizer = tf.keras.optimizers.Adam(0.01)
        optimizer.build(model.trainable_variables)
        done = tf.Variable(0, dtype=tf.int64, trainable=False)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, done=done)
    manager = tf.train.CheckpointManager(checkpoint, options.checkpoints, max_to_keep=2)
    if manager.latest_checkpoint:
        checkpoint.restore(manager.latest_checkpoint)
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def replica(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(loss_of(labels, model(images)), global_batch_size=BATCH)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function
    def train(batch: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        return strategy.reduce("SUM", strategy.run(replica, args=batch), axis=None)

    first, is_chief = int(done), strategy.extended.should_checkpoint
    is_last = strategy.cluster_resolver.task_id in (None, strategy.num_replicas_in_sync - 1)
    if is_chief:
        print(f"{strategy.num_replicas_in_sync} replicas, from step {first}")
    for step, batch in enumerate(strategy.experimental_distribute_dataset(digits(options.steps))):
        if step < first:
            continue  # this batch was used before the restart
        if step == options.fail_at and is_last and os.environ.get("GRADTAPE_RESTART", "0") == "0":
            raise SystemExit("exiting because of --fail-at")
        loss = train(batch)
        done.assign_add(1)
        if is_chief and (step + 1) % SAVE_EVERY == 0:
            manager.save()
            print(f"step {step + 1}: loss {float(loss):.6f}")


if __name__ == "__main__":
    main()
