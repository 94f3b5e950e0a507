"""Save models and weights atomically, even if the process is killed.

Keras overwrites the file at the path. Here it writes a new file, which then replaces the old one atomically.
"""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

from gradtape._src.formats import atomic

_ENDINGS = (".keras", ".h5", ".hdf5")


def replacing(save: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of Keras, which saves a model to a path, replace the file at that path atomically."""

    @functools.wraps(save)
    def saved(model: Any, filepath: Any, *args: Any, **options: Any) -> Any:
        if not _is_replaceable(filepath) or False in (args[:1] or (options.get("overwrite"), options.get("zipped"))):
            return save(model, filepath, *args, **options)
        path = os.fspath(filepath)
        with tempfile.TemporaryDirectory() as folder:
            own = os.path.join(folder, os.path.basename(path))
            result = save(model, own, *args, **options)
            with open(own, "rb") as content:
                atomic.write(path, functools.partial(shutil.copyfileobj, content))
        return result

    return saved


def _is_replaceable(filepath: Any) -> bool:
    """Whether this is the path of a single file, in a folder that accepts another one. Keras
    handles all other cases.
    """
    if not isinstance(filepath, (str, os.PathLike)):
        return False
    path = str(filepath)
    folder = os.path.dirname(os.path.realpath(path))
    return path.endswith(_ENDINGS) and not os.path.isdir(path) and os.path.isdir(folder) and os.access(folder, os.W_OK)
