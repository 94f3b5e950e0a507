"""The file `checkpoint` of a folder: which checkpoints there are, and which is the latest."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gradtape.autodiff.gradient_tape import logger

_LINE = re.compile(r'^\s*(\w+)\s*:\s*(?:"((?:[^"\\]|\\.)*)"|(\S+))\s*$')


@dataclass
class CheckpointState:
    """What the file says; paths are complete."""

    model_checkpoint_path: str = ""
    all_model_checkpoint_paths: list[str] = field(default_factory=list)
    all_model_checkpoint_timestamps: list[float] = field(default_factory=list)
    last_preserved_timestamp: float = 0.0


def get_checkpoint_state(checkpoint_dir: Any, latest_filename: str | None = None) -> CheckpointState | None:
    """What the file `checkpoint` of a folder says, or None if there is none that can be read."""
    folder = os.fspath(checkpoint_dir)
    try:
        with open(os.path.join(folder, latest_filename or "checkpoint"), encoding="utf-8") as file:
            text = file.read()
    except OSError:
        return None
    state = CheckpointState()
    for line in filter(str.strip, text.splitlines()):
        found = _LINE.match(line)
        if found is None or found.group(1) not in CheckpointState.__dataclass_fields__:
            path = os.path.join(folder, latest_filename or "checkpoint")
            logger().warning("%s: Checkpoint ignored, because this line is none of such a file: %s", path, line[:80])
            return None
        name, quoted, plain = found.groups()
        if name == "model_checkpoint_path":
            state.model_checkpoint_path = _absolute(folder, _unquoted(quoted or ""))
        elif name == "all_model_checkpoint_paths":
            state.all_model_checkpoint_paths.append(_absolute(folder, _unquoted(quoted or "")))
        elif name == "all_model_checkpoint_timestamps":
            state.all_model_checkpoint_timestamps.append(float(plain))
        elif name == "last_preserved_timestamp":
            state.last_preserved_timestamp = float(plain)
    if not state.model_checkpoint_path:
        raise ValueError(f"Invalid checkpoint state loaded from {folder}: it names no checkpoint.")
    return state


def update_checkpoint_state(
    save_dir: Any,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Sequence[str] | None = None,
    latest_filename: str | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
) -> None:
    """Write the file `checkpoint` of a folder; paths within the folder are noted as relative ones."""
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
    write_text(os.path.join(folder, latest_filename or "checkpoint"), "\n".join(lines) + "\n")


def write_text(path: str, text: str) -> None:
    """Put a text in the place of a file, whole: who reads meanwhile sees the old one or the new one."""
    folder = os.path.dirname(path) or "."
    os.makedirs(folder, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".checkpoint-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def latest_checkpoint(checkpoint_dir: Any, latest_filename: str | None = None) -> str | None:
    """The path of the latest checkpoint in a folder, or None.

    >>> import tempfile
    >>> latest_checkpoint(tempfile.mkdtemp()) is None
    True
    """
    state = get_checkpoint_state(checkpoint_dir, latest_filename)
    if state is None:
        return None
    if os.path.exists(f"{state.model_checkpoint_path}.index"):
        return state.model_checkpoint_path
    logger().error("Couldn't match files for checkpoint %s", state.model_checkpoint_path)
    return None


def checkpoints_iterator(
    checkpoint_dir: Any, min_interval_secs: float = 0, timeout: float | None = None, timeout_fn: Any = None
) -> Iterator[str]:
    """Each new checkpoint of a folder as it appears; without a `timeout` for ever.

    After `timeout` seconds without a new one `timeout_fn` decides: it ends if that is missing, or returns true.
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
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
