"""The buffer protocol, `memoryview(tensor)` and `np.frombuffer(tensor)`, for classes with a method `__buffer__`.

Python calls that method from 3.12 on. Before, only classes written in C have buffers. For older versions, this fills
the slot of the type that C code would fill, with a function that calls the class's method `_exported`.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, TypeVar

T = TypeVar("T")

_POINTER = ctypes.sizeof(ctypes.c_void_p)
_AS_BUFFER = object.__basicsize__ + 18 * _POINTER  # where `tp_as_buffer` is in CPython's PyTypeObject

_GetBuffer = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
_ReleaseBuffer = ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.c_void_p)


def exports_buffers(kind: type[T]) -> type[T]:
    """Decorate a class for a Python without `__buffer__`: `_exported` returns the object with the buffer."""
    if sys.version_info < (3, 12) and sys.implementation.name == "cpython":
        _fill_in(kind)
    return kind


def _fill_in(kind: type) -> None:
    place = ctypes.c_void_p.from_address(id(kind) + _AS_BUFFER).value
    size: int = type.__dict__["__basicsize__"].__get__(type)
    if place is None or not id(kind) < place < id(kind) + size:  # an unknown layout
        return
    slots = (ctypes.c_void_p * 2).from_address(place)  # bf_getbuffer, bf_releasebuffer
    if slots[0] is None and slots[1] is None:
        for i, function in enumerate((_get_buffer, _release_buffer)):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(function))  # kept as long as the process runs
            slots[i] = ctypes.cast(function, ctypes.c_void_p)


@_GetBuffer  # type: ignore[untyped-decorator]
def _get_buffer(exporter: Any, view: int, flags: int) -> int:
    """Forward the request to the object that the method returns, which also releases the buffer."""
    try:
        return _request(exporter._exported(), view, flags)
    except BaseException:  # exceptions raised here do not reach the caller
        return _Failure(-1)


class _Failure(int):
    """-1, with which Python's TypeError for a bad argument is raised; without an error it would be a SystemError.

    An error raised by this module's Python code is lost before the caller sees it. The C function that raises this one
    is called later, when the number is deleted, and a capsule with it.
    """

    def __init__(self, value: int) -> None:
        self._raises = _capsule(1, None, _bad_argument)


@_ReleaseBuffer  # type: ignore[untyped-decorator]
def _release_buffer(exporter: Any, view: int) -> None:
    """Never called. Its presence tells NumPy that a buffer ends with its memoryview, not with the exporter."""


_request = ctypes.pythonapi.PyObject_GetBuffer
_request.argtypes, _request.restype = (ctypes.py_object, ctypes.c_void_p, ctypes.c_int), ctypes.c_int
_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.argtypes, _capsule.restype = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p), ctypes.py_object
_bad_argument = ctypes.cast(ctypes.pythonapi.PyErr_BadArgument, ctypes.c_void_p)
