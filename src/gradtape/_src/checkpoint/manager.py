"""`tf.train.CheckpointManager`: the most recent checkpoints of a training run, in one folder."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from gradtape._src.checkpoint.checkpoint import Checkpoint, call_back, saving, withdrawn_on_error
from gradtape._src.checkpoint.state import get_checkpoint_state, latest_checkpoint, update_checkpoint_state
from gradtape._src.formats import tensor_bundle as bundle
from gradtape._src.formats.atomic import named_errors


class CheckpointManager:
    """Saves numbered checkpoints, registers the latest, and removes old ones.

    >>> import gradtape as tf, tempfile
    >>> step = tf.Variable(0)
    >>> manager = tf.train.CheckpointManager(tf.train.Checkpoint(step=step), tempfile.mkdtemp(), max_to_keep=2)
    >>> for _ in range(3):
    ...     step.assign_add(1) and manager.save() and None
    >>> [path.rpartition("/")[2] for path in manager.checkpoints]
    ['ckpt-2', 'ckpt-3']

    >>> import tempfile
    >>> step = tf.Variable(0)
    >>> manager = tf.train.CheckpointManager(tf.train.Checkpoint(step=step), tempfile.mkdtemp(), max_to_keep=2)
    >>> manager.restore_or_initialize() is None, manager.latest_checkpoint is None
    (True, True)
    >>> path = manager.save()
    >>> manager.latest_checkpoint == path, path.startswith(manager.directory)
    (True, True)
    >>> manager.checkpoint.step is step, manager.checkpoint_interval
    (True, None)
    >>> manager.sync()
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        directory: Any,
        max_to_keep: int | None,
        keep_checkpoint_every_n_hours: float | None = None,
        checkpoint_name: str = "ckpt",
        step_counter: Any = None,
        checkpoint_interval: int | None = None,
        init_fn: Callable[[], Any] | None = None,
        last_checkpoint_step: int | None = None,
    ) -> None:
        if max_to_keep is not None and max_to_keep <= 0:
            raise ValueError(f"Expected a positive integer or `None` for `max_to_keep`, got {max_to_keep}.")
        if checkpoint_interval is not None and step_counter is None:
            raise ValueError("`step_counter` should be passed if `checkpoint_interval` is not None.")
        self._checkpoint, self._directory, self._name = checkpoint, os.fspath(directory), checkpoint_name
        self._max_to_keep, self._hours = max_to_keep, keep_checkpoint_every_n_hours
        self._step_counter, self._interval, self._last_step = step_counter, checkpoint_interval, last_checkpoint_step
        self._init_fn = init_fn
        self._latest: str | None = None
        self._kept: dict[str, float] = {}  # by path: the time of writing, oldest first
        self._preserved_at = time.time() - 1  # the time of the last permanent checkpoint
        state = get_checkpoint_state(self._directory)
        if state is not None:
            self._latest = state.model_checkpoint_path
            # A checkpoint without a time was not saved by a manager, and is not removed.
            moments = state.all_model_checkpoint_timestamps
            self._kept = dict(zip(state.all_model_checkpoint_paths, moments, strict=False))
            self._preserved_at = state.last_preserved_timestamp or self._preserved_at

    @property
    def directory(self) -> str:
        """The directory."""
        return self._directory

    @property
    def checkpoint(self) -> Checkpoint:
        """The `Checkpoint` to save."""
        return self._checkpoint

    @property
    def checkpoint_interval(self) -> int | None:
        """The number of steps between two checkpoints, if the manager decides."""
        return self._interval

    @property
    def latest_checkpoint(self) -> str | None:
        """The path of the latest checkpoint, for `Checkpoint.restore`."""
        return self._latest

    @property
    def checkpoints(self) -> list[str]:
        """The paths of the checkpoints it manages, oldest first, without those that are kept permanently."""
        return list(self._kept)

    def save(self, checkpoint_number: Any = None, check_interval: bool = True, options: Any = None) -> str | None:
        """Write a checkpoint and remove old ones. Return its path, or None if `checkpoint_interval` has not passed."""
        if self._interval is not None and not self._is_time(check_interval):
            return None
        # Other managers may save to this folder; none of them may remove the latest checkpoint of another one.
        with saving, named_errors(self._directory), self._checkpoint._alone_in(self._directory):
            path = self._save(checkpoint_number)
            self._remove_old()
        call_back(options, path)
        return path

    def _save(self, checkpoint_number: Any) -> str:
        with self._checkpoint._numbered() as number:
            if checkpoint_number is not None:
                given = isinstance(checkpoint_number, int)
                number = checkpoint_number if given else int(checkpoint_number.numpy())
            path = os.path.join(self._directory, f"{self._name}-{number}")
            with withdrawn_on_error(path):
                self._checkpoint._write(path)
                kept = {**self._kept}
                kept.pop(path, None)  # the new one is the last
                kept[path] = time.time()
                self._checkpoint._once("state", lambda: self._note(path, kept))
        self._latest, self._kept = path, kept
        if self._step_counter is not None:
            self._last_step = int(self._step_counter.numpy())
        return path

    def _note(self, latest: str, kept: dict[str, float]) -> None:
        update_checkpoint_state(
            self._directory,
            latest,
            list(kept),
            all_model_checkpoint_timestamps=list(kept.values()),
            last_preserved_timestamp=self._preserved_at,
        )

    def _remove_old(self) -> None:
        """Remove the oldest checkpoints, except permanent ones. The file names them until then, so that the next save
        can continue after the process was killed.
        """
        gone = []
        while self._max_to_keep is not None and len(self._kept) > self._max_to_keep:
            path, moment = next(iter(self._kept.items()))
            del self._kept[path]
            if self._hours is not None and moment - 3600 * self._hours >= self._preserved_at:
                self._preserved_at = moment
            else:
                gone.append(path)
        if gone:
            self._checkpoint._once("removed", lambda: self._remove(gone))

    def _remove(self, paths: list[str]) -> None:
        for path in paths:
            bundle.delete(path)
        self._note(self._latest or "", self._kept)

    def _is_time(self, check_interval: bool) -> bool:
        """Whether enough steps have passed; never twice at one step."""
        if self._last_step is None:
            return True
        passed = int(self._step_counter.numpy()) - self._last_step
        return passed >= (self._interval or 0) if check_interval else passed != 0

    def restore_or_initialize(self) -> str | None:
        """Restore the latest checkpoint and return its path; if there is none, call `init_fn` and return None."""
        if self._latest is not None:
            if not os.path.exists(f"{self._latest}.index"):  # another manager of this folder has saved newer ones
                self._latest = latest_checkpoint(self._directory) or self._latest
            self._checkpoint.restore(self._latest)
            if self._step_counter is not None:
                self._last_step = int(self._step_counter.numpy())
            return self._latest
        if self._init_fn is not None:
            self._init_fn()
        return None

    def sync(self) -> None:
        """Wait until everything is written, which is already the case when `save` returns."""
