"""The file `checkpoint` of a folder: the checkpoints in it, and the latest one."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gradtape._src.call_sites import logger
from gradtape._src.formats import atomic

_SPACE = re.compile(r"(?:\s|#[^\n]*)*")
_FIELD = re.compile(r"""(\w+)\s*:\s*(?:"((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|\\.)*)'|([^\s#"']+))""")


@dataclass
class CheckpointState:
    """The contents of the file `checkpoint`, with absolute paths.

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> path = tf.train.Checkpoint(v=tf.Variable(1.0)).save(os.path.join(folder, "ckpt"))
    >>> tf.train.get_checkpoint_state(folder).all_model_checkpoint_paths == [path]
    True
    """

    model_checkpoint_path: str = ""
    all_model_checkpoint_paths: list[str] = field(default_factory=list)
    all_model_checkpoint_timestamps: list[float] = field(default_factory=list)
    last_preserved_timestamp: float = 0.0


def get_checkpoint_state(checkpoint_dir: Any, latest_filename: str | None = None) -> CheckpointState | None:
    """Return the content of the file `checkpoint` in a directory, or None if there is no readable one.

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> tf.train.get_checkpoint_state(folder) is None
    True
    >>> path = tf.train.Checkpoint(v=tf.Variable(1.0)).save(os.path.join(folder, "ckpt"))
    >>> tf.train.get_checkpoint_state(folder).model_checkpoint_path == path
    True
    """
    folder = os.fspath(checkpoint_dir)
    try:
        with open(os.path.join(folder, latest_filename or "checkpoint"), "rb") as file:
            text = os.fsdecode(file.read(os.fstat(file.fileno()).st_size))
    except (OSError, ValueError):  # ValueError: a name with a null byte
        return None
    state = CheckpointState()
    try:
        for name, value in _fields(text):
            if name == "model_checkpoint_path":
                state.model_checkpoint_path = _absolute(folder, value)
            elif name == "all_model_checkpoint_paths":
                state.all_model_checkpoint_paths.append(_absolute(folder, value))
            elif name == "all_model_checkpoint_timestamps":
                state.all_model_checkpoint_timestamps.append(float(value))
            elif name == "last_preserved_timestamp":
                state.last_preserved_timestamp = float(value)
            else:
                raise ValueError(f"it has no field called {name!r}")
    except ValueError as error:
        logger().warning("%s: Checkpoint ignored: %s", os.path.join(folder, latest_filename or "checkpoint"), error)
        return None
    if not state.model_checkpoint_path:
        raise ValueError(f"Invalid checkpoint state loaded from {folder}: it names no checkpoint.")
    return state


def _fields(text: str) -> Iterator[tuple[str, str]]:
    """Parse names and values in the text format of protocol buffers, to the extent that such files use it."""
    at = 0
    while (at := _SPACE.match(text, at).end()) < len(text):  # type: ignore[union-attr]
        found = _FIELD.match(text, at)
        if found is None:
            raise ValueError(f"there is no field in {text[at:].splitlines()[0][:80]!r}")
        at = found.end()
        name, double, single, plain = found.groups()
        yield name, plain if plain is not None else _unquoted(single if double is None else double)


def update_checkpoint_state(
    save_dir: Any,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Sequence[str] | None = None,
    latest_filename: str | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
) -> None:
    """Write the file `checkpoint` of a folder; paths within the folder are relative."""
    folder = os.fspath(save_dir)
    paths = list(all_model_checkpoint_paths or [])
    if model_checkpoint_path not in paths:
        paths.append(model_checkpoint_path)
    times = list(all_model_checkpoint_timestamps or [])
    if times and len(times) != len(paths):
        raise ValueError(
            "Checkpoint timestamps, if provided, must match checkpoint paths (got paths "
            f"{paths} and timestamps {times})"
        )
    lines = [f'model_checkpoint_path: "{_quoted(_relative(folder, model_checkpoint_path))}"']
    lines += [f'all_model_checkpoint_paths: "{_quoted(_relative(folder, path))}"' for path in paths]
    lines += [f"all_model_checkpoint_timestamps: {moment!r}" for moment in times]
    if last_preserved_timestamp is not None:
        lines.append(f"last_preserved_timestamp: {last_preserved_timestamp!r}")
    os.makedirs(folder, exist_ok=True)
    text = "\n".join(lines) + "\n"
    atomic.write(os.path.join(folder, latest_filename or "checkpoint"), lambda file: file.write(os.fsencode(text)))


def latest_checkpoint(checkpoint_dir: Any, latest_filename: str | None = None) -> str | None:
    """Return the path of the latest checkpoint in a directory, or None.

    >>> import tempfile
    >>> tf.train.latest_checkpoint(tempfile.mkdtemp()) is None
    True
    """
    missing = None
    while (state := get_checkpoint_state(checkpoint_dir, latest_filename)) is not None:
        if os.path.exists(f"{state.model_checkpoint_path}.index"):
            return state.model_checkpoint_path
        if state.model_checkpoint_path == missing:
            logger().error("Couldn't match files for checkpoint %s", missing)
            break
        missing = state.model_checkpoint_path  # it may have been removed just now, and the file names a newer one
    return None


def checkpoints_iterator(
    checkpoint_dir: Any, min_interval_secs: float = 0, timeout: float | None = None, timeout_fn: Any = None
) -> Iterator[str]:
    """Yield each new checkpoint in a directory as it appears; forever if there is no `timeout`.

    After `timeout` seconds without a new one, the iterator ends if there is no `timeout_fn` or if it returns true.

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> _ = tf.train.Checkpoint(v=tf.Variable(1.0)).save(os.path.join(folder, "ckpt"))
    >>> [os.path.basename(path) for path in tf.train.checkpoints_iterator(folder, timeout=0)]
    ['ckpt-1']
    """
    last: str | None = None
    while True:
        began = time.time()
        while (found := latest_checkpoint(checkpoint_dir)) is None or found == last:
            if timeout is not None and time.time() - began >= timeout:
                if timeout_fn is None or timeout_fn():
                    return
                began = time.time()
            time.sleep(0.05)
        last = found
        yield found
        time.sleep(max(0.0, began + min_interval_secs - time.time()))


def _absolute(folder: str, path: str) -> str:
    return path if os.path.isabs(path) or not path else os.path.join(folder, path)


def _relative(folder: str, path: str) -> str:
    inside = os.path.relpath(path, folder)
    return path if inside.startswith("..") else inside


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], text)
