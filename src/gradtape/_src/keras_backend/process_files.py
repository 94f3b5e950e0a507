"""Files of Keras' callbacks when several processes train together: only the first process writes them.

All processes run the callbacks, because they gather sharded weights together. Processes after the first write to a
temporary folder, which is removed after training. `BackupAndRestore` first reads its files in all of them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Any

from keras.src import callbacks as callbacks_module

from gradtape._src import processes

_PATHS = {
    callbacks_module.ModelCheckpoint: ("filepath",),
    callbacks_module.CSVLogger: ("filename",),
    callbacks_module.TensorBoard: ("log_dir",),
}
"""Attributes of callbacks that are paths."""

_BACKUP_PATHS = (
    "backup_dir",
    "_weights_path",
    "_training_metadata_path",
    "_prev_weights_path",
    "_prev_training_metadata_path",
)


class ProcessFiles:
    """Context in which callbacks of processes after the first write to a temporary folder."""

    def __init__(self, callbacks: Any) -> None:
        found = getattr(callbacks, "callbacks", callbacks)
        self._callbacks = [] if found is None else list(found) if isinstance(found, (list, tuple)) else [found]
        self._folder: str | None = None
        self._before: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> ProcessFiles:
        if processes.count() > 1 and processes.number() > 0:
            self._folder = tempfile.mkdtemp(prefix="gradtape_process_")
            for kind, names in _PATHS.items():
                self._redirect(kind, names)
        return self

    def restored(self) -> None:
        """From now on `BackupAndRestore` writes to the folder: it has read the files of an earlier run."""
        if self._folder is not None:
            self._redirect(callbacks_module.BackupAndRestore, _BACKUP_PATHS)

    def _redirect(self, kind: type, names: tuple[str, ...]) -> None:
        assert self._folder is not None
        for number, callback in enumerate(self._callbacks):
            if isinstance(callback, kind):
                folder = os.path.join(self._folder, str(number))
                os.makedirs(folder, exist_ok=True)
                for name in names:
                    path = getattr(callback, name)
                    self._before.append((callback, name, path))
                    file = os.path.join(folder, os.path.basename(os.path.normpath(path)))
                    setattr(callback, name, folder if name == "backup_dir" else file)

    def __exit__(self, *error: object) -> None:
        for callback, name, path in self._before:
            setattr(callback, name, path)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
