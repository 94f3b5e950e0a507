"""Checkpoints before the machine is taken away: `PreemptionCheckpointHandler`."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from gradtape._src import errors, processes
from gradtape._src.call_sites import logger
from gradtape._src.checkpoint.checkpoint import Checkpoint
from gradtape._src.checkpoint.manager import CheckpointManager
from gradtape._src.distribute.context import get_strategy
from gradtape._src.interrupts import contextmanager

_RESTART = 42
"""The default exit code of a process that is to be restarted, as in TensorFlow."""

_KEY = "gradtape/preempted"
_AHEAD = 2
"""The calls of `run` after which all processes can stop: others are at most one call ahead of this one."""


class TerminationConfig:
    """How a `PreemptionCheckpointHandler` detects a preemption, and what it does then.

    - `termination_watcher_fn` returns whether the process will be terminated soon. SIGTERM counts in any case.
    - `exit_fn` ends the process after the checkpoint; by default the exit code is 42.
    - `grace_period` is the number of seconds to continue training before the checkpoint is saved.
    - `save_fn` saves the checkpoint.

    >>> import gradtape as tf
    >>> tf.distribute.experimental.TerminationConfig(grace_period=10).grace_period
    10
    """

    def __init__(
        self,
        termination_watcher_fn: Callable[[], bool] | None = None,
        exit_fn: Callable[[], Any] | None = None,
        grace_period: float | None = None,
        save_fn: Callable[..., Any] | None = None,
    ) -> None:
        self.termination_watcher_fn, self.exit_fn = termination_watcher_fn, exit_fn
        self.grace_period, self.save_fn = grace_period, save_fn


class PreemptionWatcher:
    """Watches for SIGTERM, which most platforms send before they terminate a process.

    >>> import gradtape as tf
    >>> tf.distribute.experimental.PreemptionWatcher().preemption_message
    """

    def __init__(self) -> None:
        self._message: str | None = None
        self._noticed = threading.Event()
        self._earlier: Any = None  # the watcher that handled the signal before
        if threading.current_thread() is threading.main_thread():
            self._earlier = getattr(signal.signal(signal.SIGTERM, self._on_signal), "__self__", None)

    def _on_signal(self, number: int, frame: Any) -> None:
        self._message = f"SIGTERM caught in process {os.getpid()}"
        self._noticed.set()
        if isinstance(self._earlier, PreemptionWatcher):
            self._earlier._on_signal(number, frame)

    @property
    def preemption_message(self) -> str | None:
        """The message about the preemption; None before one is detected."""
        return self._message

    def block_until_worker_exit(self) -> None:
        """Wait until a preemption is detected."""
        self._noticed.wait()


class PreemptionCheckpointHandler:
    """Saves a checkpoint when the process is about to be terminated, and restores the last one when it is created.

    Call every step through `run`. After SIGTERM, all processes stop at the same step, the first one writes the
    checkpoint, and all exit; when the program is started again, it continues there.

    >>> import gradtape as tf, tempfile
    >>> v = tf.Variable(0.0)
    >>> resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    >>> handler = tf.distribute.experimental.PreemptionCheckpointHandler(
    ...     resolver, tf.train.Checkpoint(v=v), tempfile.mkdtemp()
    ... )
    >>> _ = handler.run(lambda: v.assign_add(1.0))
    >>> handler.total_run_calls
    1
    """

    def __init__(
        self,
        cluster_resolver: Any,
        checkpoint_or_checkpoint_manager: Any,
        checkpoint_dir: str | None = None,
        termination_config: TerminationConfig | None = None,
    ) -> None:
        self._config = termination_config or TerminationConfig()
        self._manager = self._manager_of(checkpoint_or_checkpoint_manager, checkpoint_dir)
        self._watcher = PreemptionWatcher()
        self._calls, self._last = 0, None  # type: int, int | None
        self._since: float | None = None
        if self._manager.latest_checkpoint:
            self._manager.checkpoint.restore(self._manager.latest_checkpoint)
            self._calls = int(os.path.basename(self._manager.latest_checkpoint).rsplit("-", 1)[1])

    def _manager_of(self, given: Any, folder: str | None) -> CheckpointManager:
        if isinstance(given, CheckpointManager):
            return given
        if not isinstance(given, Checkpoint):
            raise errors.InvalidArgumentError(
                None,
                None,
                "`PreemptionCheckpointHandler` takes a tf.train.Checkpoint or a tf.train.CheckpointManager. Received: "
                f"{given!r}",
            )
        if not folder:
            raise errors.InvalidArgumentError(
                None, None, "When a checkpoint is passed, a checkpoint_dir must be passed as well."
            )
        return CheckpointManager(given, folder, max_to_keep=1, checkpoint_name="preemption")

    @property
    def total_run_calls(self) -> int:
        """The number of calls of `run`, including those before restarts."""
        return self._calls

    def run(self, distributed_train_function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a step; if the process is about to be terminated, save a checkpoint first and exit."""
        self.save_checkpoint_if_preempted()
        result = distributed_train_function(*args, **kwargs)
        self._calls += 1
        return result

    def save_checkpoint_if_preempted(self, *args: Any, **kwargs: Any) -> None:
        """Save a checkpoint and exit if the process is about to be terminated, at the same call in all processes."""
        if self._last is None:
            self._last = self._agreed()
        if self._last is None or self._calls < self._last:
            return
        if self._since is None:
            self._since = time.monotonic()
        if time.monotonic() - self._since < (self._config.grace_period or 0.0) and not processes.client():
            return
        logger().warning("The process will be terminated: saving a checkpoint after %d calls of `run`.", self._calls)
        if self._config.save_fn is not None:
            self._config.save_fn(*args, **kwargs)
        elif get_strategy().extended.should_checkpoint and processes.number() == 0:
            self._manager.save(checkpoint_number=self._calls)
        processes.wait_for_all(f"{_KEY}/{self._calls}")
        (self._config.exit_fn or (lambda: sys.exit(_RESTART)))()

    def _agreed(self) -> int | None:
        """The call of `run` before which all processes stop; None while none of them has to."""
        watch = self._config.termination_watcher_fn
        own = self._watcher.preemption_message is not None or (watch is not None and watch())
        client = processes.client()
        if client is None:
            return self._calls if own else None
        if own:
            processes.publish(_KEY, str(self._calls + _AHEAD))
        found = processes.published(_KEY)
        return None if found is None else int(found)

    @contextmanager
    def watch_preemption_scope(self) -> Iterator[None]:
        """Watch for preemptions in a `with` block, and call `save_checkpoint_if_preempted` at its end."""
        yield
        self.save_checkpoint_if_preempted()
