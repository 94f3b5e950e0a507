"""Initializers: objects that create a tensor with a given shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape._src.dtypes import DType, as_dtype, float32
from gradtape._src.tensor import Tensor
from gradtape._src.tf.array import constant, fill_with

_ACCEPTED = ("partition_shape", "partition_offset")


class Initializer:
    """The base class of initializers, which are called with a shape and can be serialized."""

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        """Return a tensor with this shape."""
        raise TypeError(f"{type(self).__name__} must define __call__(self, shape, dtype), which returns a tensor.")

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that create an equal initializer."""
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Create an initializer from the result of `get_config`."""
        return cls(**{k: v for k, v in config.items() if k != "dtype"})

    def _checked(self, kwargs: dict[str, Any]) -> None:
        for word in kwargs:
            if word not in _ACCEPTED:
                raise TypeError(f"Keyword argument should be one of {list(_ACCEPTED)}. Received: {word}")

    def _shape(self, shape: Any, kwargs: dict[str, Any]) -> Any:
        return kwargs.get("partition_shape") or shape


class zeros_initializer(Initializer):
    """Zeros.

    >>> tf.zeros_initializer()([2]).numpy().tolist()
    [0.0, 0.0]
    """

    _value = 0

    def __call__(self, shape: Any, dtype: Any = float32, **kwargs: Any) -> Tensor:
        self._checked(kwargs)
        kind = as_dtype(dtype)
        if kind.name == "string":
            raise ValueError(f"Argument `dtype` expected to be numeric or boolean. Received {kind!r}.")
        return fill_with(self._value, self._shape(shape, kwargs), kind)


class ones_initializer(zeros_initializer):
    """Ones.

    >>> tf.ones_initializer()([2]).numpy().tolist()
    [1.0, 1.0]
    """

    _value = 1


class constant_initializer(Initializer):
    """A value repeated, or values in the order in which they are given.

    >>> tf.constant_initializer([1, 2, 3, 4])([2, 2]).numpy().tolist()
    [[1, 2], [3, 4]]
    """

    def __init__(self, value: Any = 0, support_partition: bool = False) -> None:
        if not (np.isscalar(value) or isinstance(value, (list, tuple, np.ndarray))):
            raise TypeError(
                f"Invalid type for initial value: {type(value).__name__}. Expected Python scalar, list or tuple of "
                "values, or numpy.ndarray."
            )
        self.value, self.support_partition = value, support_partition

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        self._checked(kwargs)
        return constant(self.value, None if dtype is None else as_dtype(dtype), self._shape(shape, kwargs))

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that create an equal initializer.

        >>> tf.constant_initializer(3.0).get_config()
        {'value': 3.0}
        """
        return {"value": self.value}


class _Random(Initializer):
    def _floating(self, dtype: Any) -> DType:
        kind = as_dtype(dtype)
        if not kind.is_floating:
            raise ValueError(f"Argument `dtype` is expected to be floating point. Received: {kind!r}.")
        return kind


class random_normal_initializer(_Random):
    """Draws from a normal distribution.

    >>> tf.random_normal_initializer(stddev=0.1)([2, 3]).shape
    TensorShape([2, 3])
    >>> tf.random_normal_initializer(stddev=0.5, seed=1).get_config()
    {'mean': 0.0, 'stddev': 0.5, 'seed': 1}
    """

    def __init__(self, mean: Any = 0.0, stddev: Any = 0.05, seed: int | None = None) -> None:
        self.mean, self.stddev, self.seed = mean, stddev, seed

    def __call__(self, shape: Any, dtype: Any = float32, **kwargs: Any) -> Tensor:
        from gradtape._src.tf import random

        self._checked(kwargs)
        result: Tensor = random.normal(
            self._shape(shape, kwargs), self.mean, self.stddev, self._floating(dtype), seed=self.seed
        )
        return result

    def get_config(self) -> dict[str, Any]:
        return {"mean": self.mean, "stddev": self.stddev, "seed": self.seed}


class random_uniform_initializer(_Random):
    """Draws from a uniform distribution, also of integers.

    >>> tf.random_uniform_initializer(0.0, 1.0)([2, 3]).shape
    TensorShape([2, 3])
    >>> tf.random_uniform_initializer(0.0, 1.0, seed=1).get_config()
    {'minval': 0.0, 'maxval': 1.0, 'seed': 1}
    """

    def __init__(self, minval: Any = -0.05, maxval: Any = 0.05, seed: int | None = None) -> None:
        self.minval, self.maxval, self.seed = minval, maxval, seed

    def __call__(self, shape: Any, dtype: Any = float32, **kwargs: Any) -> Tensor:
        from gradtape._src.tf import random

        self._checked(kwargs)
        kind = as_dtype(dtype)
        if not (kind.is_floating or kind.is_integer):
            raise ValueError(f"Argument `dtype` is expected to be numeric. Received: {kind!r}.")
        result: Tensor = random.uniform(self._shape(shape, kwargs), self.minval, self.maxval, kind, seed=self.seed)
        return result

    def get_config(self) -> dict[str, Any]:
        return {"minval": self.minval, "maxval": self.maxval, "seed": self.seed}
