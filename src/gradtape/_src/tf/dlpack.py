"""`tf.experimental.dlpack`: share the memory of a tensor with another library."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape._src import errors
from gradtape._src.conversion import wrap
from gradtape._src.tensor import Tensor

__all__ = ["from_dlpack", "to_dlpack"]

_CPU = (1, 0)


def to_dlpack(tf_tensor: Any) -> Any:
    """Convert a tensor to a DLPack capsule, which another library can read once.

    Args:
      tf_tensor: A tensor in host memory.

    >>> import gradtape as tf
    >>> capsule = tf.experimental.dlpack.to_dlpack(tf.constant([1.0, 2.0]))
    >>> tf.experimental.dlpack.from_dlpack(capsule).numpy().tolist()
    [1.0, 2.0]
    """
    if not isinstance(tf_tensor, Tensor):
        raise errors.InvalidArgumentError(
            None, None, f"The argument to `to_dlpack` must be a TF tensor, not Python object. Received {tf_tensor!r}."
        )
    array = np.asarray(tf_tensor.array)
    # NumPy exports writable memory: another library gets a copy, so that the tensor does not change.
    return (array if array.flags.writeable else array.copy()).__dlpack__()


def from_dlpack(dlcapsule: Any) -> Tensor:
    """Create a tensor that shares the memory of a DLPack capsule, or of an array that exports one.

    Args:
      dlcapsule: A capsule of `to_dlpack` or of another library, or an object with `__dlpack__`.

    >>> import gradtape as tf
    >>> import numpy as np
    >>> tf.experimental.dlpack.from_dlpack(np.arange(3.0)).numpy().tolist()
    [0.0, 1.0, 2.0]
    """
    source = dlcapsule if hasattr(dlcapsule, "__dlpack__") else _Capsule(dlcapsule)
    return wrap(np.from_dlpack(source))


class _Capsule:
    """An object that NumPy reads a capsule from."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU
