"""Atomic file replacement: a file is complete or absent, even if the process is killed or others write concurrently.

A file is written under a temporary name in its folder, flushed to disk, and renamed. While its process lives, the
temporary file is locked (`flock`, which the system releases when the process dies), so that a later save can remove
the files of killed processes and never one that is being written.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import itertools
import os
import re
import stat
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

from gradtape._src import errors, forks
from gradtape._src.interrupts import contextmanager, guarded

fcntl: Any = None  # Windows has no locks: there, an open file cannot be removed or renamed
with contextlib.suppress(ImportError):
    import fcntl

_TEMPORARY = re.compile(r"\.part-[0-9a-f]{16}")
_DAY = 86400.0  # seconds after which a temporary file counts as abandoned if files cannot be locked


_staged: weakref.WeakSet[Staged] = weakref.WeakSet()


@atexit.register
def _remove_staged() -> None:
    """Remove unfinished files at exit: the threads that write them cannot finish."""
    for part in list(_staged):
        if part.is_own:
            remove(part.path)


class Staged:
    """A file that is written under a temporary name in `folder`, until `move` gives it its own.

    It has the permissions of the file at the path `like`, if there is one: that which it is to replace.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with Staged(folder) as part:
    ...     _ = part.file.write(b"all of it")
    ...     part.move(os.path.join(folder, "name"))
    >>> os.listdir(folder)
    ['name']
    """

    def __init__(self, folder: str, like: str | None = None) -> None:
        self._flushed, self._moved, self._process = False, False, os.getpid()
        permissions = None if like is None else _permissions(like)
        while True:
            self.path = temporary_name(folder)
            self.file: Any = _created(self.path, permissions)
            _lock(self.file.fileno())
            if os.fstat(self.file.fileno()).st_nlink:  # otherwise it was removed before it was locked
                break
            self.file.close()
        _staged.add(self)

    @property
    def is_own(self) -> bool:
        """Whether this process created the file: a forked child must neither write to it nor remove it."""
        return os.getpid() == self._process

    def flush(self) -> None:
        """Wait until the content is on disk."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self._flushed = True

    def move(self, path: str, durable: bool = True) -> None:
        """Rename the file, replacing one that has this name; if `durable`, only when the content is on disk."""
        if durable and not self._flushed:
            self.flush()
        self.file.flush()
        if fcntl is None:
            self.file.close()
        os.replace(self.path, path)
        self._moved = True

    def close(self) -> None:
        """Release the file, and remove it if it has not been moved."""
        if not self.is_own:
            self._abandon()
            return
        try:
            with contextlib.suppress(OSError):  # if a flush fails, the file is removed anyway
                self.file.close()
        finally:
            if not self._moved:
                remove(self.path)

    def _abandon(self) -> None:
        """Close the file in a forked child, discarding the buffer inherited from the parent."""
        if not self.file.closed:
            with _opened(os.devnull, os.O_WRONLY) as nowhere:
                os.dup2(nowhere, self.file.fileno(), inheritable=False)
            self.file.close()

    def __enter__(self) -> Staged:
        return self

    @guarded
    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            self.close()
        except BaseException:
            self.close()
            raise


def write(path: str, content: Callable[[Any], Any], durable: bool = True) -> None:
    """Write a file by a function that gets it opened. Links are resolved; a pipe or a device is written directly.

    A file that is not `durable` is also complete if the process is killed, but may be lost if the machine crashes, as
    it is not flushed to the disk.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> write(os.path.join(folder, "name"), lambda file: file.write(b"new"))
    >>> os.listdir(folder)
    ['name']
    """
    path = os.path.realpath(path)
    if not _is_regular(path):
        with open(path, "wb") as file:
            content(file)
        return
    folder = os.path.dirname(path)
    if durable:
        remove_abandoned(folder)
    with Staged(folder, like=path) as part:
        content(part.file)
        part.move(path, durable)
    if durable:
        flush_folder(folder)


def publish(
    values: Staged,
    name: Callable[[int], str],
    index: str,
    content: Callable[[int], Iterable[bytes]],
    old: Callable[[], list[str]],
) -> None:
    """Replace an index and the file that it names together. The caller is `alone_in` their folder.

    The file is called `name(0)` or, if that exists, `name(1)` and so on; `content(n)` is the index that names it.
    Replacing the index commits the change; until then no old file is touched. Then the file gets its first name, and
    the files in `old()` are removed: after a failure on the way, the files are still consistent.
    """
    folder = os.path.dirname(index) or "."
    number = next(n for n in itertools.count() if not os.path.lexists(name(n)))
    with Staged(folder, like=index) as part:
        part.file.writelines(content(number))
        part.flush()
        try:
            values.move(name(number))
            flush_folder(folder)
            part.move(index)
        except BaseException:
            if os.path.lexists(part.path):  # the old index is still valid
                remove(name(number))
            raise
    flush_folder(folder)
    with contextlib.suppress(OSError):
        if number:
            link = temporary_name(folder)
            os.link(name(number), link)
            try:
                os.replace(link, name(0))
            except OSError:
                remove(link)
                raise
            flush_folder(folder)
            write(index, lambda file: file.writelines(content(0)))
        for path in filter(name(0).__ne__, old()):
            remove(path)


def _is_regular(path: str) -> bool:
    """Whether a path leads to a regular file, or to none yet."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return True


def _permissions(path: str) -> int | None:
    """The permissions of a file; None if it does not exist."""
    try:
        return os.stat(path).st_mode & 0o777
    except OSError:
        return None


def _created(path: str, permissions: int | None) -> IO[bytes]:
    """Create a file for writing, with its final permissions from the start."""
    if permissions is None or not hasattr(os, "fchmod"):  # Windows
        return open(path, "xb")
    file = open(path, "xb", opener=lambda path, flags: os.open(path, flags, permissions & 0o600))  # noqa: SIM115
    os.fchmod(file.fileno(), permissions)
    return file


def temporary_name(folder: str) -> str:
    """A new name for an unfinished file."""
    return os.path.join(folder, f".part-{os.urandom(8).hex()}")


def remove(path: str) -> None:
    """Remove a file, which may have been removed concurrently."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.remove(path)


def flush_folder(folder: str) -> None:
    """Wait until new names are on disk; where folders cannot be opened (Windows), the system ensures this."""
    if os.name == "posix":
        with _opened(folder or ".", os.O_RDONLY) as handle, contextlib.suppress(OSError):  # not on every system
            os.fsync(handle)


@contextmanager
def _opened(path: str, flags: int) -> Iterator[int]:
    handle = os.open(path, flags)
    try:
        yield handle
    finally:
        os.close(handle)


# -- concurrent writers ----------------------------------------------------------------------------------------------
def _lock(handle: int, wait: bool = True) -> bool:
    """Lock an open file for this file handle. False if another one has the lock or the file system has none."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


_searched: set[str] = set()
"""The folders that this process has searched for abandoned files, since the last fork: a child may be killed."""

if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_parent=_searched.clear, after_in_child=_searched.clear)


def remove_abandoned(folder: str) -> None:
    """Remove the temporary files of killed processes; those of living ones are locked.

    A process searches a folder once, because the folder may contain many files.
    """
    place = os.path.abspath(folder)
    if place in _searched:
        return
    _searched.add(place)
    with contextlib.suppress(OSError), os.scandir(folder or ".") as entries:
        for entry in filter(_is_temporary, entries):
            _remove_if_abandoned(entry.path)


def _is_temporary(entry: os.DirEntry[str]) -> bool:
    return _TEMPORARY.fullmatch(entry.name) is not None and entry.is_file(follow_symlinks=False)


def _remove_if_abandoned(path: str) -> None:
    with contextlib.suppress(OSError):
        if fcntl is None:
            if time.time() - os.stat(path).st_mtime > _DAY:
                os.remove(path)
            return
        with _opened(path, os.O_RDWR) as handle:
            if _lock(handle, wait=False):
                os.remove(path)


class _Held(threading.local):
    """The folders locked by this thread."""

    def __init__(self) -> None:
        self.folders: set[str] = set()


_held = _Held()
_without_locks = forks.rlock()


@contextmanager
def alone_in(folder: str) -> Iterator[None]:
    """Hold the lock for changing several files of a folder, so that no other thread or process does the same.

    A missing folder is created.
    """
    os.makedirs(folder or ".", exist_ok=True)
    if fcntl is None:
        with _without_locks:
            yield
        return
    folder = os.path.realpath(folder or ".")
    if folder in _held.folders:
        yield
        return
    with _opened(folder, os.O_RDONLY) as handle:
        locked = _lock(handle)
        try:
            _held.folders.add(folder)
            yield
        finally:
            _held.folders.discard(folder)
            if locked:
                fcntl.flock(handle, fcntl.LOCK_UN)  # a forked child may have the file open as well


# -- errors ----------------------------------------------------------------------------------------------------------
_CODES: dict[type[errors.OpError], Iterable[str]] = {
    errors.NotFoundError: ("ENOENT", "ENODEV", "ENXIO"),
    errors.PermissionDeniedError: ("EPERM", "EACCES", "EROFS"),
    errors.FailedPreconditionError: ("EEXIST", "ENOTEMPTY", "EISDIR", "ENOTDIR", "EBADF", "EBUSY", "ETXTBSY", "EPIPE"),
    errors.ResourceExhaustedError: ("ENOSPC", "EDQUOT", "EMFILE", "ENFILE", "ENOMEM"),
    errors.OutOfRangeError: ("EFBIG", "EOVERFLOW", "ERANGE"),
    errors.InvalidArgumentError: ("EINVAL", "ENAMETOOLONG", "EILSEQ"),
    errors.UnimplementedError: ("ENOSYS", "ENOTSUP"),
    errors.UnavailableError: ("EAGAIN", "EINTR", "ENOLCK"),
    errors.AbortedError: ("EDEADLK", "ESTALE"),
}
_CLASSES = {getattr(errno, name): kind for kind, names in _CODES.items() for name in names if hasattr(errno, name)}


@contextmanager
def named_errors(path: str, op: str = "") -> Iterator[None]:
    """Let errors of the system have TensorFlow's class and sentence for them.

    >>> with named_errors("here/x"):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    ...
    gradtape.errors.ResourceExhaustedError: here/x; No space left on device
    """
    if "\0" in path:
        raise errors.NotFoundError(None, None, f"{path!r}; No such file or directory{op and f' [Op:{op}]'}")
    try:
        yield
    except OSError as error:
        kind = _CLASSES.get(error.errno or 0, errors.UnknownError)
        sentence = f"{path}; {error.strerror or error}{op and f' [Op:{op}]'}"
        raise kind(None, None, sentence) from error


def open_to_read(path: str, op: str) -> IO[bytes]:
    """Return an open file, or raise TensorFlow's error if it does not exist."""
    with named_errors(path, op):
        return open(path, "rb")
