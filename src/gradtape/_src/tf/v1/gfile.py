"""`tf.compat.v1.gfile`: `tf.io.gfile` under its older names."""

from __future__ import annotations

from gradtape._src.tf.gfile import (
    GFile as GFile,
    copy as Copy,
    exists as Exists,
    glob as Glob,
    isdir as IsDirectory,
    listdir as ListDirectory,
    makedirs as MakeDirs,
    mkdir as MkDir,
    remove as Remove,
    rename as Rename,
    rmtree as DeleteRecursively,
    stat as Stat,
    walk as Walk,
)

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
