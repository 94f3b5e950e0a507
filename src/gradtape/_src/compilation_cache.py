"""Compiled programs on disk: a script does not compile again what an earlier run has compiled.

The files are JAX's. They are in the user's cache folder, with a subfolder for each kind of CPU, because XLA compiles
for the instructions of a CPU. The environment variable GRADTAPE_CACHE names another folder, or is "off".
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from pathlib import Path
from typing import Any

LIMIT = 2**30
"""The size in bytes to which the folder is reduced when a process starts; least recently used files are removed."""

_MIN_SECONDS = 0.3
"""Programs that compile faster than this are not stored."""


def default_folder() -> Path | None:
    """The folder of this user and this kind of CPU; None if nothing is to be stored."""
    chosen = os.environ.get("GRADTAPE_CACHE", "")
    if chosen.lower() in ("off", "0", "none"):
        return None
    return (Path(chosen).expanduser() if chosen else _user_cache() / "gradtape") / f"xla-{_processor()}"


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _processor() -> str:
    """A name for the instruction set of this CPU."""
    facts = [platform.machine(), platform.processor()]
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        facts += next(([line] for line in lines if line.startswith(("flags", "Features"))), [])
    except (OSError, UnicodeDecodeError):
        pass  # not Linux
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]


def store_in(folder: Path | str | None, settings: Any, min_seconds: float) -> None:
    """Tell JAX where to store programs, from which compile time on; `settings` is `jax.config`."""
    settings.update("jax_compilation_cache_dir", None if folder is None else os.fspath(Path(folder).expanduser()))
    if folder is not None:
        settings.update("jax_persistent_cache_min_compile_time_secs", min_seconds)
        settings.update("jax_persistent_cache_min_entry_size_bytes", -1)


def use_default(settings: Any) -> None:
    """Store programs in the default folder, unless the user has set one in JAX, or the folder is not writable."""
    folder = default_folder()
    if folder is None or settings.jax_compilation_cache_dir:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            return
        trim(folder)
    except (OSError, RuntimeError):  # RuntimeError: the home folder is unknown
        return
    store_in(folder, settings, _MIN_SECONDS)


def trim(folder: Path, limit: int = LIMIT) -> None:
    """Remove the least recently used files, until the others are within the limit."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            status = entry.stat()
            found.append((max(status.st_atime, status.st_mtime), status.st_size, entry.path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= limit:
            return
        Path(path).unlink(missing_ok=True)
        total -= size
