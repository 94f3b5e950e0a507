"""`tf.experimental.numpy.random`: NumPy's functions for random numbers; `seed` sets TensorFlow's global seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape._src.dtypes import as_dtype
from gradtape._src.numpy_api.types import default_dtype, tensor, wanted_dtype
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array, random as tf_random
from gradtape._src.tf.array import cast


def _size(size: Any) -> list[int]:
    return [] if size is None else [int(n) for n in np.atleast_1d(np.asarray(size))]


def seed(s: Any) -> None:
    """Set the seed: what follows repeats.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.random.seed(1)
    >>> first = tf.experimental.numpy.random.rand()
    >>> tf.experimental.numpy.random.seed(1)
    >>> bool(first == tf.experimental.numpy.random.rand())
    True
    """
    try:
        number = int(s)
    except (TypeError, ValueError):
        raise ValueError(f"Argument `s` got an invalid value {s}. Only integers are supported.") from None
    tf_random.set_seed(number)


def randn(*args: int) -> Tensor:
    """Normal numbers in this shape.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.random.randn(2, 3).shape
    TensorShape([2, 3])
    """
    return standard_normal(size=args)


def standard_normal(size: Any = None) -> Tensor:
    """Normal numbers in a shape.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.random.standard_normal((2,)).dtype
    tf.float64
    """
    return tf_random.normal(_size(size), dtype=default_dtype(float))


def uniform(low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Tensor:
    """Numbers between two bounds.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.random.uniform(1.0, 2.0, (2,)).shape
    TensorShape([2])
    """
    dtype = default_dtype(float)
    a, b = tensor(low, dtype), tensor(high, dtype)
    shape = array.broadcast_static_shape(a.shape, b.shape).as_list() if size is None else _size(size)
    return tf_random.uniform(shape, a, b, as_dtype(dtype))


def poisson(lam: Any = 1.0, size: Any = None) -> Tensor:
    """Poisson counts.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.random.poisson(3.0, (2,)).dtype
    tf.int64
    """
    rate = tensor(lam)
    if size is None:
        return cast(tf_random.poisson([], rate, dtype="int64"), default_dtype(int))
    return cast(tf_random.poisson(_size(size), rate, dtype="int64"), default_dtype(int))


def random(size: Any = None) -> Tensor:
    """Numbers in [0, 1)."""
    return uniform(0.0, 1.0, size)


def rand(*size: int) -> Tensor:
    """Numbers in [0, 1), in this shape."""
    return uniform(0.0, 1.0, size)


def randint(low: Any, high: Any = None, size: Any = None, dtype: Any = None) -> Tensor:
    """Integers from `low` to `high`, which is left out.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.random.randint(0, 5, (10,)).shape
    TensorShape([10])
    """
    wanted = wanted_dtype(int if dtype is None else dtype)
    if wanted.name not in ("int32", "int64"):
        raise ValueError(
            f"Argument `dtype` got an invalid value {dtype}. Only those convertible to int32 and int64 are supported."
        )
    first, last = (0, low) if high is None else (low, high)
    return tf_random.uniform(_size(size), first, last, wanted)


__all__ = ["poisson", "rand", "randint", "randn", "random", "seed", "standard_normal", "uniform"]
