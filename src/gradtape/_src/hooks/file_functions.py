"""The functions of TensorFlow's `file_io` that have no public name: whole files, comparisons, checksums."""

from __future__ import annotations

import uuid
import zlib
from typing import Any

from gradtape._src.formats.file_systems import path_text
from gradtape._src.tf import gfile

__all__ = [
    "atomic_write_string_to_file",
    "file_crc32",
    "filecmp",
    "has_atomic_move",
    "read_file_to_string",
    "write_string_to_file",
]

_CHUNK = 1 << 24


def read_file_to_string(filename: Any, binary_mode: bool = False) -> Any:
    """Return the text of a file, or its bytes.

    >>> write_string_to_file("ram://notes.txt", "text")
    >>> read_file_to_string("ram://notes.txt"), read_file_to_string("ram://notes.txt", binary_mode=True)
    ('text', b'text')
    """
    with gfile.GFile(filename, "rb" if binary_mode else "r") as file:
        return file.read()


def write_string_to_file(filename: Any, file_content: Any) -> None:
    """Write text or bytes to a file."""
    with gfile.GFile(filename, "w") as file:
        file.write(file_content)


def atomic_write_string_to_file(filename: Any, contents: Any, overwrite: bool = True) -> None:
    """Write text or bytes to a file, which appears when it is complete."""
    path = path_text(filename)
    if not has_atomic_move(path):
        write_string_to_file(path, contents)
        return
    part = f"{path}.tmp{uuid.uuid4().hex}"
    write_string_to_file(part, contents)
    try:
        gfile.rename(part, path, overwrite)
    except BaseException:
        gfile.remove(part)
        raise


def has_atomic_move(path: Any) -> bool:
    """Whether renaming replaces a file in one step: in local folders and in memory, not in remote services."""
    scheme, separator, _ = path_text(path).partition("://")
    return not separator or scheme in ("file", "ram")


def filecmp(filename_a: Any, filename_b: Any) -> bool:
    """Whether two files have the same contents.

    >>> write_string_to_file("ram://one", "a")
    >>> write_string_to_file("ram://two", "b")
    >>> filecmp("ram://one", "ram://two")
    False
    """
    if gfile.stat(filename_a).length != gfile.stat(filename_b).length:
        return False
    with gfile.GFile(filename_a, "rb") as a, gfile.GFile(filename_b, "rb") as b:
        while True:
            chunk = a.read(_CHUNK)
            if chunk != b.read(_CHUNK):
                return False
            if not chunk:
                return True


def file_crc32(filename: Any, block_size: int = _CHUNK) -> str:
    """The CRC-32 of a file, as a hexadecimal number.

    >>> write_string_to_file("ram://sum", "testing")
    >>> file_crc32("ram://sum")
    '0xe8f35a06'
    """
    crc = 0
    with gfile.GFile(filename, "rb") as file:
        while chunk := file.read(block_size):
            crc = zlib.crc32(chunk, crc)
    return hex(crc & 0xFFFFFFFF)
