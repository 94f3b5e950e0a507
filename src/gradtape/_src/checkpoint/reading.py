"""Inspect checkpoints: names, shapes and values, without any objects."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src import errors
from gradtape._src.checkpoint.checkpoint import NAMES_IN_FILES
from gradtape._src.checkpoint.state import latest_checkpoint
from gradtape._src.dtypes import DType, dtype_of
from gradtape._src.formats import tensor_bundle as bundle


class CheckpointReader:
    """The values of a checkpoint by their keys.

    >>> import os, tempfile
    >>> path = tf.train.Checkpoint(v=tf.Variable([1.0, 2.0])).write(os.path.join(tempfile.mkdtemp(), "ckpt"))
    >>> reader = tf.train.load_checkpoint(path)
    >>> key = "v/.ATTRIBUTES/VARIABLE_VALUE"
    >>> reader.has_tensor(key), reader.get_tensor(key).tolist()
    (True, [1.0, 2.0])
    >>> reader.get_variable_to_shape_map()[key], reader.get_variable_to_dtype_map()[key]
    ([2], tf.float32)
    >>> key.encode() in reader.debug_string()
    True
    """

    def __init__(self, filepattern: Any) -> None:
        self._reader = bundle.Reader(os.fsdecode(filepattern))

    def has_tensor(self, tensor_str: str) -> bool:
        """Return whether there is a value under this key."""
        return tensor_str in self._reader

    def get_tensor(self, tensor_str: str) -> Any:
        """Return the value under a key: a NumPy array, or a scalar if it has no axes; strings are bytes."""
        try:
            value: ndarray = self._reader.get(tensor_str)
        except errors.OpError:
            if not self._reader.is_outdated():
                raise
            value = bundle.read(self._reader.prefix, lambda reader: reader.get(tensor_str))
        return value[()] if value.ndim == 0 else value

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """Return the shape of every value."""
        return {key: list(self._reader.shape(key)) for key in self._reader.keys()}  # noqa: SIM118

    def get_variable_to_dtype_map(self) -> dict[str, DType]:
        """Return the dtype of every value."""
        return {key: _dtype(self._reader, key) for key in self._reader.keys()}  # noqa: SIM118

    def debug_string(self) -> bytes:
        """Return a line for every value: key, dtype and shape."""
        lines = []
        for key in sorted(self._reader.keys()):
            dtype = _dtype(self._reader, key).name
            lines.append(f"{key} (DT_{NAMES_IN_FILES.get(dtype, dtype).upper()}) {list(self._reader.shape(key))}\n")
        return "".join(lines).encode()


def _dtype(reader: bundle.Reader, key: str) -> DType:
    return dtype_of(np.empty(0, reader.dtype(key)))


def load_checkpoint(ckpt_dir_or_file: Any) -> CheckpointReader:
    """Return a reader for a checkpoint, or for the latest one in a directory.

    >>> import gradtape as tf, tempfile
    >>> path = tf.train.Checkpoint(v=tf.Variable([1.0, 2.0])).write(tempfile.mkdtemp() + "/one")
    >>> tf.train.load_checkpoint(path).get_tensor("v/.ATTRIBUTES/VARIABLE_VALUE").tolist()
    [1.0, 2.0]
    """
    path = os.fsdecode(ckpt_dir_or_file)
    if not os.path.isdir(path):
        return CheckpointReader(path)
    while (found := latest_checkpoint(path)) is not None:
        try:
            return CheckpointReader(found)
        except errors.NotFoundError:
            if latest_checkpoint(path) == found:  # otherwise it was removed just now, and there is a newer one
                raise
    raise ValueError(f"Couldn't find 'checkpoint' file or checkpoints in given directory {path}")


def list_variables(ckpt_dir_or_file: Any) -> list[tuple[str, list[int]]]:
    """List the key and shape of every value in a checkpoint, in order.

    >>> import os, tempfile
    >>> path = tf.train.Checkpoint(v=tf.Variable([1.0, 2.0])).write(os.path.join(tempfile.mkdtemp(), "ckpt"))
    >>> tf.train.list_variables(path)[1]
    ('v/.ATTRIBUTES/VARIABLE_VALUE', [2])
    """
    return sorted(load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map().items())


def load_variable(ckpt_dir_or_file: Any, name: str) -> Any:
    """Return one value of a checkpoint; a `:0` at the end of its name is ignored.

    >>> import os, tempfile
    >>> path = tf.train.Checkpoint(v=tf.Variable([1.0, 2.0])).write(os.path.join(tempfile.mkdtemp(), "ckpt"))
    >>> tf.train.load_variable(path, "v/.ATTRIBUTES/VARIABLE_VALUE").tolist()
    [1.0, 2.0]
    """
    return load_checkpoint(ckpt_dir_or_file).get_tensor(name.removesuffix(":0"))
