"""Folders and files by name: local ones, `ram://`, and all schemes of fsspec (`s3://`, `gs://`, `http://`)."""

from __future__ import annotations

import contextlib
import fnmatch
import importlib
import io
import os
import shutil
import stat as _stat
import time
from collections.abc import Iterator
from typing import IO, Any, NamedTuple, Protocol

from gradtape._src import errors, forks
from gradtape._src.formats import atomic
from gradtape._src.formats.atomic import named_errors
from gradtape._src.interrupts import contextmanager

__all__ = ["FileStatistics", "FileSystem", "file_system", "path_text", "schemes"]


class FileStatistics(NamedTuple):
    """The metadata of a file: length in bytes, modification time (in nanoseconds), whether it is a folder."""

    length: int
    mtime_nsec: int
    is_directory: bool


class FileSystem(Protocol):
    """The functions of a file system that `tf.io.gfile` needs. Errors have TensorFlow's classes."""

    def open(self, path: str, mode: str) -> IO[bytes]:
        """Open a binary file: mode "rb", "wb" or "ab"."""

    def stat(self, path: str) -> FileStatistics:
        """The metadata of a file or folder; NotFoundError if it does not exist."""

    def listdir(self, path: str) -> list[str]:
        """The names in a folder."""

    def glob(self, pattern: str) -> list[str]:
        """The paths that a pattern matches."""

    def mkdir(self, path: str) -> None:
        """Create a folder, whose parent exists."""

    def makedirs(self, path: str) -> None:
        """Create a folder and its parents."""

    def remove(self, path: str) -> None:
        """Remove a file."""

    def rmtree(self, path: str) -> None:
        """Remove a folder and everything in it."""

    def rename(self, source: str, target: str) -> None:
        """Rename a file or folder; the new name is free or that of a file."""


def path_text(path: Any) -> str:
    """A path as text; TypeError for other objects."""
    if hasattr(path, "numpy"):
        path = path.numpy()
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"Expected binary or unicode string, got {path!r}")
    return os.fsdecode(path)


def _missing(path: str) -> errors.NotFoundError:
    return errors.NotFoundError(None, None, f"{path}; No such file or directory")


# -- this machine ----------------------------------------------------------------------------------------------------
class _Local:
    """Local files."""

    def open(self, path: str, mode: str) -> IO[bytes]:
        with named_errors(path):
            if os.path.isdir(path):
                raise IsADirectoryError(21, "Is a directory")
            return open(path, mode)

    def stat(self, path: str) -> FileStatistics:
        with named_errors(path):
            found = os.stat(path)
        return FileStatistics(found.st_size, found.st_mtime_ns, _stat.S_ISDIR(found.st_mode))

    def listdir(self, path: str) -> list[str]:
        with named_errors(path):
            return sorted(os.listdir(path))

    def glob(self, pattern: str) -> list[str]:
        return _matching(self, "/" if pattern.startswith("/") else "", pattern.lstrip("/"))

    def mkdir(self, path: str) -> None:
        with named_errors(path), contextlib.suppress(FileExistsError):
            os.mkdir(path)

    def makedirs(self, path: str) -> None:
        try:
            os.makedirs(path, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise errors.FailedPreconditionError(None, None, f"{path} is not a directory") from None
        except OSError as error:
            with named_errors(path):
                raise error

    def remove(self, path: str) -> None:
        with named_errors(path):
            if os.path.isdir(path) and not os.path.islink(path):
                raise IsADirectoryError(21, "Is a directory")
            os.remove(path)

    def rmtree(self, path: str) -> None:
        if not os.path.lexists(path):
            raise errors.NotFoundError(None, None, f"{path} not found")
        with named_errors(path):
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.remove(path)

    def rename(self, source: str, target: str) -> None:
        with named_errors(source):
            os.replace(source, target)


# -- memory ----------------------------------------------------------------------------------------------------------
class _Writing(io.BytesIO):
    """A file in memory that is being written."""

    def __init__(self, system: _Memory, path: str, content: bytes) -> None:
        super().__init__()
        self.write(content)
        self._system, self._path = system, path

    def flush(self) -> None:
        super().flush()
        self._system.files[self._path] = self.getvalue(), time.time_ns()

    def close(self) -> None:
        if not self.closed:
            self.flush()
        super().close()


class _Memory:
    """Files in memory, under `ram://`, for the life of the process. Folders are created on demand."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[bytes, int]] = {}
        self.folders: set[str] = set()

    def _is_folder(self, path: str) -> bool:
        inside = path.rstrip("/") + "/"
        return path.rstrip("/") in self.folders or any(p.startswith(inside) for p in [*self.files, *self.folders])

    def open(self, path: str, mode: str) -> IO[bytes]:
        if mode == "rb":
            if path not in self.files:
                raise _missing(path)
            return io.BytesIO(self.files[path][0])
        return _Writing(self, path, self.files.get(path, (b"", 0))[0] if mode == "ab" else b"")

    def stat(self, path: str) -> FileStatistics:
        if path in self.files:
            content, changed = self.files[path]
            return FileStatistics(len(content), changed, False)
        if self._is_folder(path):
            return FileStatistics(0, 0, True)
        raise _missing(path)

    def listdir(self, path: str) -> list[str]:
        inside = path.rstrip("/") + "/"
        below = [p.removeprefix(inside) for p in [*self.files, *self.folders] if p.startswith(inside)]
        return sorted({p.partition("/")[0] for p in below})

    def glob(self, pattern: str) -> list[str]:
        return _matching(self, "ram://", pattern.removeprefix("ram://"))

    def mkdir(self, path: str) -> None:
        self.folders.add(path.rstrip("/"))

    makedirs = mkdir

    def remove(self, path: str) -> None:
        if self.files.pop(path, None) is None:
            raise _missing(path)

    def rmtree(self, path: str) -> None:
        if not self._is_folder(path) and path not in self.files:
            raise errors.NotFoundError(None, None, f"{path} not found")
        inside = path.rstrip("/") + "/"
        self.files = {p: v for p, v in self.files.items() if p != path and not p.startswith(inside)}
        self.folders = {p for p in self.folders if p != inside[:-1] and not p.startswith(inside)}

    def rename(self, source: str, target: str) -> None:
        if source in self.files:
            self.files[target] = self.files.pop(source)
            return
        if not self._is_folder(source):
            raise _missing(source)
        inside = source.rstrip("/") + "/"
        moved = {p: target.rstrip("/") + "/" + p.removeprefix(inside) for p in self.files if p.startswith(inside)}
        for old, new in moved.items():
            self.files[new] = self.files.pop(old)
        self.folders = {target + p.removeprefix(source) if p.startswith(source) else p for p in self.folders}


def _matching(system: FileSystem, start: str, pattern: str) -> list[str]:
    """The paths below `start` that match a pattern, part by part, including hidden names."""
    found = [start]
    for part in pattern.split("/") if pattern else ():
        inside = []
        for folder in found:
            around = folder + "/" if folder not in ("", start) else folder
            if not any(sign in part for sign in "*?["):
                names = [part] if _is_there(system, around + part) else []
            else:
                names = [name for name in _names_in(system, folder) if fnmatch.fnmatchcase(name, part)]
            inside += [around + name for name in names]
        found = inside
    return sorted(path for path in found if path != start)


def _is_there(system: FileSystem, path: str) -> bool:
    try:
        system.stat(path)
    except errors.OpError:
        return False
    return True


def _names_in(system: FileSystem, folder: str) -> list[str]:
    try:
        return system.listdir(folder or ".")
    except errors.OpError:
        return []


# -- fsspec ----------------------------------------------------------------------------------------------------------
class _Remote:
    """A file system of fsspec."""

    def __init__(self, system: Any, scheme: str) -> None:
        self._system, self._scheme = system, scheme

    @contextmanager
    def _named(self, path: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise _missing(path) from None
        except FileExistsError:
            raise errors.AlreadyExistsError(None, None, f"{path}; File exists") from None
        except PermissionError as error:
            raise errors.PermissionDeniedError(None, None, f"{path}; {error}") from error
        except (OSError, NotImplementedError) as error:
            raise errors.UnknownError(None, None, f"{path}; {error}") from error

    def open(self, path: str, mode: str) -> IO[bytes]:
        with self._named(path):
            file: IO[bytes] = self._system.open(path, mode)
        return file

    def stat(self, path: str) -> FileStatistics:
        with self._named(path):
            found = self._system.info(path)
        changed = found.get("mtime") or found.get("LastModified") or found.get("created") or 0
        seconds = changed.timestamp() if hasattr(changed, "timestamp") else changed
        number = float(seconds) if isinstance(seconds, (int, float)) else 0.0
        return FileStatistics(int(found.get("size") or 0), int(number * 1e9), found["type"] == "directory")

    def listdir(self, path: str) -> list[str]:
        with self._named(path):
            return sorted({name.rstrip("/").rpartition("/")[2] for name in self._system.ls(path, detail=False)})

    def glob(self, pattern: str) -> list[str]:
        with self._named(pattern):
            return sorted(self._system.unstrip_protocol(path) for path in self._system.glob(pattern))

    def mkdir(self, path: str) -> None:
        with self._named(path):
            self._system.makedirs(path, exist_ok=True)

    makedirs = mkdir

    def remove(self, path: str) -> None:
        with self._named(path):
            self._system.rm_file(path)

    def rmtree(self, path: str) -> None:
        with self._named(path):
            self._system.rm(path, recursive=True)

    def rename(self, source: str, target: str) -> None:
        with self._named(source):
            self._system.mv(source, target, recursive=self._system.isdir(source))


# -- by name ---------------------------------------------------------------------------------------------------------
_known: dict[str, FileSystem] = {"": _Local(), "ram": _Memory()}
_lock = forks.lock()


def scheme_of(path: str) -> str:
    """The part of a path before `://`; empty for a local file."""
    scheme, found, _ = path.partition("://")
    return scheme if found and "/" not in scheme else ""


def file_system(path: str) -> tuple[FileSystem, str]:
    """The file system of a path, and the path in it.

    >>> file_system("file:///tmp/x")[1]
    '/tmp/x'
    """
    scheme = scheme_of(path)
    if scheme == "file":
        return _known[""], path.removeprefix("file://")
    with _lock:
        if scheme not in _known:
            _known[scheme] = _from_fsspec(scheme, path)
        return _known[scheme], path


def _from_fsspec(scheme: str, path: str) -> FileSystem:
    sentence = f"File system scheme '{scheme}' not implemented (file: '{path}')"
    try:
        fsspec: Any = importlib.import_module("fsspec")
    except ImportError as error:
        advice = "gradtape reads remote files with fsspec: pip install fsspec"
        raise errors.UnimplementedError(None, None, f"{sentence}. {advice}") from error
    try:
        return _Remote(fsspec.filesystem(scheme), scheme)
    except (ValueError, ImportError) as error:
        raise errors.UnimplementedError(None, None, f"{sentence}. fsspec says: {error}") from error


def schemes() -> list[str]:
    """The supported schemes of paths."""
    known = {*_known, "file"}
    with contextlib.suppress(ImportError):
        known.update(importlib.import_module("fsspec").available_protocols())
    return sorted(known)


def replace(path: str, data: IO[bytes]) -> None:
    """Write the content of an open file; a local file appears when it is complete."""
    system, inside = file_system(path)
    if isinstance(system, _Local):
        with named_errors(path):
            if os.path.isdir(inside):
                raise OSError(22, "Invalid argument")
            atomic.write(inside, lambda file: shutil.copyfileobj(data, file), durable=False)
        return
    with system.open(inside, "wb") as file:
        shutil.copyfileobj(data, file)
