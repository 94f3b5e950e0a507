"""`tf.compat.v1.train.Saver`: save the values of variables in a session, under the names of the variables."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from gradtape._src import errors
from gradtape._src.checkpoint.reading import load_checkpoint
from gradtape._src.checkpoint.state import update_checkpoint_state
from gradtape._src.formats import tensor_bundle as bundle
from gradtape._src.tf.v1.graphs.default import get_default_graph

__all__ = ["Saver", "checkpoint_exists", "remove_checkpoint"]


class Saver:
    """Saves variables to checkpoints, and restores them.

    Args:
      var_list: The variables, or a dictionary of them by the names in the files; by default all of the graph.
      reshape: Whether a value may have another shape than its variable, and as many elements.
      sharded: No effect.
      max_to_keep: How many checkpoints are kept; None or 0: all.
      keep_checkpoint_every_n_hours: How often a checkpoint is kept besides.
      name: No effect.

    >>> import gradtape as tf, tempfile
    >>> v1 = tf.compat.v1
    >>> with tf.Graph().as_default(), v1.Session() as session:
    ...     v = v1.get_variable("v", initializer=[1.0, 2.0])
    ...     session.run(v1.global_variables_initializer())
    ...     path = Saver().save(session, tempfile.mkdtemp() + "/model", global_step=3)
    >>> path.endswith("model-3"), tf.train.load_variable(path, "v").tolist()
    (True, [1.0, 2.0])
    """

    def __init__(
        self,
        var_list: Any = None,
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: str | None = None,
        restore_sequentially: bool = False,
        saver_def: Any = None,
        builder: Any = None,
        defer_build: bool = False,
        allow_empty: bool = False,
        write_version: Any = None,
        pad_step_number: bool = False,
        save_relative_paths: bool = False,
        filename: str | None = None,
    ) -> None:
        self._given, self._reshape, self._allow_empty = var_list, reshape, allow_empty
        self._max, self._every = max_to_keep or 0, keep_checkpoint_every_n_hours * 3600.0
        self._pad = pad_step_number
        self._kept: list[tuple[str, float]] = []
        self._next_kept = time.time() + self._every
        self._variables: dict[str, Any] = {} if defer_build else self._found()

    def _found(self) -> dict[str, Any]:
        given = self._given
        if given is None:
            graph = get_default_graph()
            given = [*graph.get_collection("variables"), *graph.get_collection("saveable_objects")]
        found = dict(given) if isinstance(given, dict) else {variable.op.name: variable for variable in given}
        if not found and not self._allow_empty:
            raise ValueError("No variables to save")
        return found

    def build(self) -> None:
        """Find the variables, if that was deferred."""
        self._variables = self._found()

    @property
    def last_checkpoints(self) -> list[str]:
        """The checkpoints that are kept, the oldest first."""
        return [path for path, _ in self._kept]

    def set_last_checkpoints(self, last_checkpoints: Any) -> None:
        """Set the checkpoints that are kept."""
        self._kept = [(path, time.time()) for path in last_checkpoints]

    set_last_checkpoints_with_time = set_last_checkpoints

    def recover_last_checkpoints(self, checkpoint_paths: Any) -> None:
        """Keep the checkpoints among these that exist."""
        self.set_last_checkpoints([path for path in checkpoint_paths if checkpoint_exists(path)])

    def save(
        self,
        sess: Any,
        save_path: Any,
        global_step: Any = None,
        latest_filename: str | None = None,
        meta_graph_suffix: str = "meta",
        write_meta_graph: bool = True,
        write_state: bool = True,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> str:
        """Write the values that variables have in a session; returns the path, which ends with the step."""
        path = os.fspath(save_path)
        if global_step is not None:
            number = global_step if isinstance(global_step, (int, np.integer)) else sess.run(global_step)
            path = f"{path}-{int(number):08d}" if self._pad else f"{path}-{int(number)}"
        values = sess.run(dict(self._variables)) if self._variables else {}
        bundle.write(path, {name: np.asarray(value, _stored(value)) for name, value in values.items()})
        self._keep(path)
        if write_state:
            update_checkpoint_state(os.path.dirname(path) or ".", path, self.last_checkpoints, latest_filename)
        return path

    def _keep(self, path: str) -> None:
        self._kept = [*[kept for kept in self._kept if kept[0] != path], (path, time.time())]
        while self._max and len(self._kept) > self._max:
            oldest, moment = self._kept.pop(0)
            if moment > self._next_kept:
                self._next_kept += self._every
            else:
                remove_checkpoint(oldest)

    def restore(self, sess: Any, save_path: Any) -> None:
        """Give variables the values of a checkpoint, in a session."""
        if save_path is None:
            raise ValueError("Can't load save_path when it is None.")
        path = os.fspath(save_path)
        if not checkpoint_exists(path):
            raise ValueError(f"The passed save_path is not a valid checkpoint: {path}")
        reader = load_checkpoint(path)
        feeds, operations = {}, []
        for name, variable in self._variables.items():
            if not reader.has_tensor(name):
                raise errors.NotFoundError(None, None, f"Key {name} not found in checkpoint {path}.")
            value = reader.get_tensor(name)
            feeds[variable.initial_value] = self._fitting(variable, value, name)
            operations.append(variable.initializer)
        sess.run(operations, feeds)

    def _fitting(self, variable: Any, value: Any, name: str) -> Any:
        if variable.shape.is_compatible_with(value.shape):
            return value
        if self._reshape and np.size(value) == variable.shape.num_elements():
            return np.reshape(value, variable.shape.as_list())
        raise errors.InvalidArgumentError(
            None,
            None,
            f"Assign requires shapes of both tensors to match. lhs shape= {variable.shape} rhs shape= "
            f"{tuple(np.shape(value))}: '{name}' was saved with a different shape.",
        )


def _stored(value: Any) -> Any:
    return object if isinstance(value, bytes) else np.asarray(value).dtype


def checkpoint_exists(checkpoint_prefix: Any) -> bool:
    """Whether there is a checkpoint of this path."""
    return os.path.exists(f"{os.fspath(checkpoint_prefix)}.index")


def remove_checkpoint(
    checkpoint_prefix: Any, checkpoint_format_version: Any = None, meta_graph_suffix: str = "meta"
) -> None:
    """Remove the files of a checkpoint."""
    bundle.delete(os.fspath(checkpoint_prefix))
