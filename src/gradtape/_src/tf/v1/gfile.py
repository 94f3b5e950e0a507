"""`tf.compat.v1.gfile`: `tf.io.gfile` under its older names, with the older names of arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gradtape._src.formats.file_systems import FileStatistics
from gradtape._src.tf import gfile
from gradtape._src.tf.gfile import GFile as GFile

Open = FastGFile = GFile

__all__ = [
    "Copy",
    "DeleteRecursively",
    "Exists",
    "FastGFile",
    "GFile",
    "Glob",
    "IsDirectory",
    "ListDirectory",
    "MakeDirs",
    "MkDir",
    "Open",
    "Remove",
    "Rename",
    "Stat",
    "Walk",
]


def Copy(oldpath: Any, newpath: Any, overwrite: bool = False) -> None:
    """Copy a file.

    >>> import gradtape as tf
    >>> tf.io.write_file("ram://v1-from", "x")
    >>> tf.compat.v1.gfile.Copy("ram://v1-from", "ram://v1-to", overwrite=True)
    """
    gfile.copy(oldpath, newpath, overwrite)


def DeleteRecursively(dirname: Any) -> None:
    """Remove a directory and everything in it."""
    gfile.rmtree(dirname)


def Exists(filename: Any) -> bool:
    """Return whether a path is a file or directory.

    >>> import gradtape as tf
    >>> tf.compat.v1.gfile.Exists("ram://nothing")
    False
    """
    return gfile.exists(filename)


def Glob(filename: Any) -> list[str]:
    """Return the paths that match the patterns."""
    return gfile.glob(filename)


def IsDirectory(dirname: Any) -> bool:
    """Return whether a path is a directory."""
    return gfile.isdir(dirname)


def ListDirectory(dirname: Any) -> list[str]:
    """List the names in a directory."""
    return gfile.listdir(dirname)


def MakeDirs(dirname: Any) -> None:
    """Create a directory and its missing parents."""
    gfile.makedirs(dirname)


def MkDir(dirname: Any) -> None:
    """Create a directory in an existing one."""
    gfile.mkdir(dirname)


def Remove(filename: Any) -> None:
    """Remove a file."""
    gfile.remove(filename)


def Rename(oldname: Any, newname: Any, overwrite: bool = False) -> None:
    """Rename a file or directory."""
    gfile.rename(oldname, newname, overwrite)


def Stat(filename: Any) -> FileStatistics:
    """Return the length of a file, when it was changed, and whether it is a directory."""
    return gfile.stat(filename)


def Walk(top: Any, in_order: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each directory below `top` with the names of its directories and files; `in_order` before those in it.

    >>> import gradtape as tf
    >>> tf.io.write_file("ram://v1-tree/inner/a", "x")
    >>> [path for path, _, _ in tf.compat.v1.gfile.Walk("ram://v1-tree", in_order=False)]
    ['ram://v1-tree/inner', 'ram://v1-tree']
    """
    return gfile.walk(top, in_order)
