"""TensorFlow 1's initializers: they have a dtype, and other defaults."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape._src.conversion import wrap
from gradtape._src.dtypes import as_dtype, float32
from gradtape._src.tensor import Tensor
from gradtape._src.tf import initializers, random


class _OfDtype(initializers.Initializer):
    """An initializer that is called without a dtype, because it has one."""

    dtype = float32

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        kwargs.pop("partition_info", None)
        return super().__call__(shape, self.dtype if dtype is None else dtype, **kwargs)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "dtype": self.dtype.name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        return cls(**config)


class zeros_initializer(_OfDtype, initializers.zeros_initializer):
    """Zeros."""

    def __init__(self, dtype: Any = float32) -> None:
        self.dtype = as_dtype(dtype)


class ones_initializer(_OfDtype, initializers.ones_initializer):
    """Ones."""

    def __init__(self, dtype: Any = float32) -> None:
        self.dtype = as_dtype(dtype)


class constant_initializer(_OfDtype, initializers.constant_initializer):
    """A repeated value, or the given values in order."""

    def __init__(self, value: Any = 0, dtype: Any = float32, verify_shape: bool = False) -> None:
        super().__init__(value)
        self.dtype = as_dtype(dtype)


class random_normal_initializer(_OfDtype, initializers.random_normal_initializer):
    """Draws from a normal distribution.

    >>> random_normal_initializer().stddev
    1.0
    """

    def __init__(self, mean: Any = 0.0, stddev: Any = 1.0, seed: int | None = None, dtype: Any = float32) -> None:
        super().__init__(mean, stddev, seed)
        self.dtype = self._floating(dtype)


class truncated_normal_initializer(random_normal_initializer):
    """Draws from a normal distribution, truncated at two standard deviations."""

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        kind = self.dtype if dtype is None else self._floating(dtype)
        result: Tensor = random.truncated_normal(shape, self.mean, self.stddev, kind, seed=self.seed)
        return result


class random_uniform_initializer(_OfDtype, initializers.random_uniform_initializer):
    """Draws from a uniform distribution, also of integers."""

    def __init__(self, minval: Any = 0.0, maxval: Any = None, seed: int | None = None, dtype: Any = float32) -> None:
        super().__init__(minval, 1.0 if maxval is None else maxval, seed)
        self.dtype = as_dtype(dtype)


def default_value(shape: tuple[int, ...], dtype: Any) -> Tensor:
    """The initial value of a variable without an initializer."""
    if not dtype.is_floating:
        return wrap(np.zeros(shape, dtype.numpy_dtype))
    receptive = int(np.prod(shape[:-2], dtype=int))
    fan_in, fan_out = shape[-2:] if len(shape) > 1 else (shape[0] if shape else 1,) * 2
    limit = float(np.sqrt(6.0 / max(1, (fan_in + fan_out) * receptive)))
    return random.uniform(shape, -limit, limit, dtype)
