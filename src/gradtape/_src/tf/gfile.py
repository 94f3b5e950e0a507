"""`tf.io.gfile`: files and folders, local or of a service, with TensorFlow's errors."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import IO, Any, SupportsIndex

from gradtape._src import errors
from gradtape._src.formats import file_systems
from gradtape._src.formats.atomic import named_errors
from gradtape._src.formats.file_systems import FileStatistics, file_system, path_text
from gradtape._src.interrupts import guarded

__all__ = [
    "GFile",
    "copy",
    "exists",
    "get_registered_schemes",
    "glob",
    "isdir",
    "join",
    "listdir",
    "makedirs",
    "mkdir",
    "remove",
    "rename",
    "rmtree",
    "stat",
    "walk",
]

_MODES = ("r", "w", "a", "r+", "w+", "a+")


class GFile:
    """A file, opened when it is first read or written. Text is UTF-8, or has the given `encoding`; positions and sizes
    are in bytes.

    >>> import gradtape as tf
    >>> with tf.io.gfile.GFile("ram://notes", "w") as file:
    ...     file.write("one\\ntwo\\n")
    >>> tf.io.gfile.GFile("ram://notes").readlines()
    ['one\\n', 'two\\n']

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "lines.txt")
    >>> with tf.io.gfile.GFile(path, "w") as file:
    ...     _ = file.write("first second")
    ...     file.flush()
    >>> file = tf.io.gfile.GFile(path)
    >>> file.name == path, file.mode, file.size(), file.seekable()
    (True, 'r', 12, True)
    >>> file.readline(), file.tell()
    ('first second', 12)
    >>> file.seek(0)
    >>> file.read(5)
    'first'
    >>> file.close()
    """

    _reader: IO[bytes] | None = None
    _writer: IO[bytes] | None = None

    def __init__(self, name: Any, mode: str = "r", encoding: str = "utf-8") -> None:
        if not isinstance(mode, str):
            raise TypeError(f"mode must be text such as 'r', got {mode!r}")
        plain = mode.replace("b", "")
        if plain not in _MODES:
            raise errors.InvalidArgumentError(None, None, "mode is not 'r' or 'w' or 'a' or 'r+' or 'w+' or 'a+'")
        self._name, self._mode, self._binary = name, mode, "b" in mode
        self._encoding = encoding
        self._reads, self._writes = plain[0] == "r" or "+" in plain, plain != "r"
        self._append = plain[0] == "a"

    @property
    def name(self) -> Any:
        """The path, as it was given."""
        return self._name

    @property
    def mode(self) -> str:
        """The mode, as it was given."""
        return self._mode

    def _path(self) -> str:
        return path_text(self._name)

    def _opened_to_read(self) -> IO[bytes]:
        if not self._reads:
            raise errors.PermissionDeniedError(None, None, "File isn't open for reading")
        if self._reader is None:
            system, path = file_system(self._path())
            self._reader = system.open(path, "rb")
        return self._reader

    def _opened_to_write(self) -> IO[bytes]:
        if not self._writes:
            raise errors.PermissionDeniedError(None, None, "File isn't open for writing")
        if self._writer is None:
            system, path = file_system(self._path())
            self._writer = system.open(path, "ab" if self._append else "wb")
        return self._writer

    def _shown(self, data: bytes) -> Any:
        return data if self._binary else data.decode(self._encoding)

    def size(self) -> int:
        """Return the size of the file in bytes."""
        return stat(self._name).length

    def write(self, file_content: Any) -> None:
        """Write text or bytes."""
        file = self._opened_to_write()
        if isinstance(file_content, str):
            file_content = file_content.encode(self._encoding)
        if not isinstance(file_content, (bytes, bytearray, memoryview)):
            raise TypeError(f"Expected binary or unicode string, got {file_content!r}")
        with named_errors(self._path()):
            file.write(file_content)

    def read(self, n: int = -1) -> Any:
        """Read the next `n` bytes, or everything that is left."""
        file = self._opened_to_read()
        if n is not None and n < -1:
            raise errors.InvalidArgumentError(None, None, f"Can't read a negative number of bytes: {n}")
        return self._shown(file.read(n))

    def readline(self) -> Any:
        """Read the next line, including its end."""
        return self._shown(self._opened_to_read().readline())

    def readlines(self) -> list[Any]:
        """Read all remaining lines."""
        return [self._shown(line) for line in self._opened_to_read()]

    def seek(self, offset: int | None = None, whence: int = 0, position: int | None = None) -> None:
        """Move to a position: `offset` bytes from the start (`whence` 0), the current position (1) or the end (2)."""
        file = self._opened_to_read()
        if offset is not None and position is not None:
            raise TypeError("seek(): offset and position may not be set simultaneously.")
        offset = position if offset is None else offset
        if offset is None:
            raise TypeError("seek(): offset argument required")
        if not isinstance(offset, SupportsIndex):
            raise TypeError(f"seek(): offset must be an integer, got {offset!r}")
        offset = operator.index(offset)
        if whence not in (0, 1, 2):
            raise errors.InvalidArgumentError(
                None, None, f"Invalid whence argument: {whence}. Valid values are 0, 1, or 2."
            )
        size = self.size()
        place = offset + (0, file.tell(), size)[whence]
        if place < 0:
            raise errors.InvalidArgumentError(None, None, f"Seeking to a negative position: {place}")
        if place > size:
            raise errors.OutOfRangeError(
                None, None, f"reached end of file: {place} is past the end of the {size} bytes"
            )
        file.seek(place)

    def tell(self) -> int:
        """Return the current position in bytes."""
        return self._opened_to_read().tell() if self._reads else self._opened_to_write().tell()

    def seekable(self) -> bool:
        """Return whether `seek` works: always."""
        return True

    def flush(self) -> None:
        """Write buffered data to the file."""
        if self._writer is not None:
            with named_errors(self._path()):
                self._writer.flush()

    def close(self) -> None:
        """Close the file; reading it again starts at the beginning."""
        opened = [file for file in (self._reader, self._writer) if file is not None]
        self._reader = self._writer = None
        with named_errors(self._path()):
            for file in opened:
                file.close()

    def __iter__(self) -> GFile:
        return self

    def __next__(self) -> Any:
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    next = __next__

    def __enter__(self) -> GFile:
        return self

    @guarded
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if self._reader is not None or self._writer is not None:
            self.close()


# -- queries ---------------------------------------------------------------------------------------------------------
def exists(path: Any) -> bool:
    """Return whether a path is a file or directory.

    >>> import gradtape as tf
    >>> tf.io.gfile.exists("ram://nothing")
    False
    """
    try:
        stat(path)
    except errors.NotFoundError:
        return False
    except errors.FailedPreconditionError:  # a part of the path is a file
        return False
    return True


def isdir(path: Any) -> bool:
    """Return whether a path is a directory.

    >>> import gradtape as tf
    >>> tf.io.gfile.isdir(".")
    True
    """
    try:
        return stat(path).is_directory
    except (errors.NotFoundError, errors.FailedPreconditionError):
        return False


def stat(path: Any) -> FileStatistics:
    """Return the length of a file, when it was changed, and whether it is a directory.

    >>> import gradtape as tf
    >>> tf.io.gfile.stat(".").is_directory
    True
    """
    system, inside = file_system(path_text(path))
    return system.stat(inside)


def listdir(path: Any) -> list[str]:
    """List the names in a directory.

    >>> import gradtape as tf
    >>> tf.io.write_file("ram://folder/a", "x")
    >>> tf.io.gfile.listdir("ram://folder")
    ['a']
    """
    if not isdir(path):
        raise errors.NotFoundError(None, None, f"Could not find directory {path_text(path)}")
    system, inside = file_system(path_text(path))
    return system.listdir(inside)


def glob(pattern: Any) -> list[str]:
    """Return the paths that match the patterns: `*`, `?` and `[a-z]` stand for parts of a name.

    >>> import gradtape as tf
    >>> tf.io.write_file("ram://found/a.txt", "x")
    >>> tf.io.gfile.glob("ram://found/*.txt")
    ['ram://found/a.txt']
    """
    patterns = [pattern] if isinstance(pattern, (str, bytes, os.PathLike)) or hasattr(pattern, "numpy") else pattern
    found: list[str] = []
    for each in patterns:
        system, inside = file_system(path_text(each))
        found += system.glob(inside)
    return found


def walk(
    top: Any, topdown: bool = True, onerror: Callable[[Exception], Any] | None = None
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each directory below `top` with the names of its directories and files; nothing if `top` does not exist.

    >>> import gradtape as tf
    >>> tf.io.write_file("ram://tree/inner/a", "x")
    >>> list(tf.io.gfile.walk("ram://tree"))
    [('ram://tree', ['inner'], []), ('ram://tree/inner', [], ['a'])]
    """
    path = path_text(top)
    try:
        names = listdir(path)
    except errors.NotFoundError as error:
        if onerror is not None:
            onerror(error)
        return
    folders = [name for name in names if isdir(join(path, name))]
    here = path, folders, [name for name in names if name not in set(folders)]
    if topdown:
        yield here
    for folder in folders:
        yield from walk(join(path, folder), topdown, onerror)
    if not topdown:
        yield here


def join(path: Any, *paths: Any) -> Any:
    """Join the parts of a path; a part that begins with a slash replaces those before it.

    >>> import gradtape as tf
    >>> tf.io.gfile.join("ram://x", "y", "z")
    'ram://x/y/z'
    """
    return os.path.join(path, *paths)


def get_registered_schemes() -> list[str]:
    """Return the schemes that paths can have, such as `ram` for `ram://`, including fsspec's if it is installed.

    >>> import gradtape as tf
    >>> "ram" in tf.io.gfile.get_registered_schemes()
    True
    """
    return file_systems.schemes()


# -- changes ---------------------------------------------------------------------------------------------------------
def mkdir(path: Any) -> None:
    """Create a directory in an existing one; no error if it exists.

    >>> import gradtape as tf
    >>> tf.io.gfile.mkdir("ram://new")
    """
    system, inside = file_system(path_text(path))
    system.mkdir(inside)


def makedirs(path: Any) -> None:
    """Create a directory and its missing parents.

    >>> import gradtape as tf
    >>> tf.io.gfile.makedirs("ram://new/inner")
    """
    system, inside = file_system(path_text(path))
    system.makedirs(inside)


def remove(path: Any) -> None:
    """Remove a file.

    >>> import gradtape as tf
    >>> tf.io.write_file("ram://old", "x")
    >>> tf.io.gfile.remove("ram://old")
    """
    system, inside = file_system(path_text(path))
    system.remove(inside)


def rmtree(path: Any) -> None:
    """Remove a directory and everything in it.

    >>> import gradtape as tf
    >>> tf.io.write_file("ram://gone/a", "x")
    >>> tf.io.gfile.rmtree("ram://gone")
    """
    system, inside = file_system(path_text(path))
    system.rmtree(inside)


def _check_free(target: str, overwrite: bool) -> None:
    if not overwrite and exists(target):
        raise errors.AlreadyExistsError(None, None, f"file already exists: {target}. Pass overwrite=True.")


def copy(src: Any, dst: Any, overwrite: bool = False) -> None:
    """Copy a file, also between file systems.

    >>> import gradtape as tf
    >>> tf.io.write_file("ram://from", "x")
    >>> tf.io.gfile.copy("ram://from", "ram://to", overwrite=True)
    """
    source, target = path_text(src), path_text(dst)
    _check_free(target, overwrite)
    system, inside = file_system(source)
    with system.open(inside, "rb") as file:
        file_systems.replace(target, file)


def rename(src: Any, dst: Any, overwrite: bool = False) -> None:
    """Rename a file or directory.

    >>> import gradtape as tf
    >>> tf.io.write_file("ram://before", "x")
    >>> tf.io.gfile.rename("ram://before", "ram://after", overwrite=True)
    """
    source, target = path_text(src), path_text(dst)
    _check_free(target, overwrite)
    (system, inside), (other, there) = file_system(source), file_system(target)
    if system is other:
        system.rename(inside, there)
    else:
        copy(source, target, overwrite)
        remove(source)
