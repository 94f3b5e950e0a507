"""Initializers of `tf.compat.v1` that depend on the shape of weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape._src.conversion import convert
from gradtape._src.dtypes import as_dtype, float32
from gradtape._src.tensor import Tensor
from gradtape._src.tf import linalg, random
from gradtape._src.tf.array import eye

__all__ = [
    "glorot_normal_initializer",
    "glorot_uniform_initializer",
    "he_normal",
    "he_uniform",
    "identity",
    "lecun_normal",
    "lecun_uniform",
    "orthogonal_initializer",
    "uniform_unit_scaling_initializer",
    "variance_scaling_initializer",
]


class _Initializer:
    """An initializer with settings, and a dtype for calls without one."""

    dtype = float32

    def get_config(self) -> dict[str, Any]:
        """The settings."""
        raise NotImplementedError

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """An initializer with these settings."""
        return cls(**config)


class variance_scaling_initializer(_Initializer):
    """Random numbers whose variance is `scale` divided by the number of inputs, of outputs, or their mean.

    >>> variance_scaling_initializer(seed=1)([4, 6]).shape
    TensorShape([4, 6])
    """

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: Any = None,
        dtype: Any = float32,
    ) -> None:
        if scale <= 0.0:
            raise ValueError(f"Argument `scale` must be a positive float. Received: {scale}")
        if mode not in ("fan_in", "fan_out", "fan_avg"):
            raise ValueError(f"Argument `mode` should be one of ('fan_in', 'fan_out', 'fan_avg'). Received: {mode}")
        distribution = distribution.lower()
        if distribution not in ("normal", "uniform", "truncated_normal", "untruncated_normal"):
            raise ValueError(f"Invalid `distribution` argument: {distribution}")
        self.scale, self.mode, self.distribution, self.seed = scale, mode, distribution, seed
        self.dtype = as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        """Numbers for weights of a shape."""
        kind = self.dtype if dtype is None else as_dtype(dtype)
        sizes = [int(n) for n in shape]
        fans = {"fan_in": _fans(sizes)[0], "fan_out": _fans(sizes)[1], "fan_avg": sum(_fans(sizes)) / 2}
        scale = self.scale / max(1.0, fans[self.mode])
        result: Tensor
        if self.distribution in ("normal", "truncated_normal"):
            # The variance of a normal distribution truncated to (-2, 2) is less than one.
            result = random.truncated_normal(sizes, 0.0, math.sqrt(scale) / 0.87962566103423978, kind, self.seed)
        elif self.distribution == "untruncated_normal":
            result = random.normal(sizes, 0.0, math.sqrt(scale), kind, self.seed)
        else:
            limit = math.sqrt(3.0 * scale)
            result = random.uniform(sizes, -limit, limit, kind, self.seed)
        return result

    def get_config(self) -> dict[str, Any]:
        """The settings."""
        return {"scale": self.scale, "mode": self.mode, "distribution": self.distribution, "seed": self.seed,
                "dtype": self.dtype.name}  # fmt: skip


def _fans(shape: list[int]) -> tuple[float, float]:
    """The numbers of inputs and outputs of weights."""
    if not shape:
        return 1.0, 1.0
    if len(shape) == 1:
        return float(shape[0]), float(shape[0])
    receptive = math.prod(shape[:-2])
    return float(shape[-2] * receptive), float(shape[-1] * receptive)


class _Glorot(variance_scaling_initializer):
    def get_config(self) -> dict[str, Any]:
        """The settings."""
        return {"seed": self.seed, "dtype": self.dtype.name}


class glorot_uniform_initializer(_Glorot):
    """Glorot's initializer, uniform.

    >>> glorot_uniform_initializer(seed=1)([4, 6]).shape
    TensorShape([4, 6])
    """

    def __init__(self, seed: Any = None, dtype: Any = float32) -> None:
        super().__init__(1.0, "fan_avg", "uniform", seed, dtype)


class glorot_normal_initializer(_Glorot):
    """Glorot's initializer, normal."""

    def __init__(self, seed: Any = None, dtype: Any = float32) -> None:
        super().__init__(1.0, "fan_avg", "truncated_normal", seed, dtype)


def he_normal(seed: Any = None) -> variance_scaling_initializer:
    """He's initializer, normal."""
    return variance_scaling_initializer(2.0, "fan_in", "truncated_normal", seed)


def he_uniform(seed: Any = None) -> variance_scaling_initializer:
    """He's initializer, uniform."""
    return variance_scaling_initializer(2.0, "fan_in", "uniform", seed)


def lecun_normal(seed: Any = None) -> variance_scaling_initializer:
    """LeCun's initializer, normal."""
    return variance_scaling_initializer(1.0, "fan_in", "truncated_normal", seed)


def lecun_uniform(seed: Any = None) -> variance_scaling_initializer:
    """LeCun's initializer, uniform."""
    return variance_scaling_initializer(1.0, "fan_in", "uniform", seed)


class uniform_unit_scaling_initializer(_Initializer):
    """Uniform numbers that keep the scale of inputs: up to sqrt(3 / inputs) * factor."""

    def __init__(self, factor: float = 1.0, seed: Any = None, dtype: Any = float32) -> None:
        self.factor, self.seed, self.dtype = factor, seed, as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        """Numbers for weights of a shape."""
        sizes = [int(n) for n in shape]
        limit = math.sqrt(3.0 / max(1, math.prod(sizes[:-1]))) * self.factor
        result: Tensor = random.uniform(sizes, -limit, limit, self.dtype if dtype is None else dtype, self.seed)
        return result

    def get_config(self) -> dict[str, Any]:
        """The settings."""
        return {"factor": self.factor, "seed": self.seed, "dtype": self.dtype.name}


class orthogonal_initializer(_Initializer):
    """A matrix whose rows or columns are orthogonal, times `gain`.

    >>> orthogonal_initializer(seed=1)([3, 3]).shape
    TensorShape([3, 3])
    """

    def __init__(self, gain: float = 1.0, seed: Any = None, dtype: Any = float32) -> None:
        self.gain, self.seed, self.dtype = gain, seed, as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        """A matrix for weights of a shape."""
        sizes = [int(n) for n in shape]
        if len(sizes) < 2:
            raise ValueError(
                "The tensor to initialize, specified by argument `shape` must be at least two-dimensional. Received "
                f"shape={shape}"
            )
        rows, columns = math.prod(sizes[:-1]), sizes[-1]
        kind = self.dtype if dtype is None else as_dtype(dtype)
        drawn = random.normal([max(rows, columns), min(rows, columns)], dtype=kind, seed=self.seed)
        q, r = (np.asarray(part.array) for part in linalg.qr(drawn, full_matrices=False))
        q = q * np.sign(np.diagonal(r))
        return convert((self.gain * (q.T if rows < columns else q)).reshape(sizes).astype(kind.numpy_dtype))

    def get_config(self) -> dict[str, Any]:
        """The settings."""
        return {"gain": self.gain, "seed": self.seed, "dtype": self.dtype.name}


class identity(_Initializer):
    """The identity matrix, times `gain`."""

    def __init__(self, gain: float = 1.0, dtype: Any = float32) -> None:
        self.gain, self.dtype = gain, as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        """The matrix of a shape."""
        if len(shape) != 2:
            raise ValueError(f"The tensor to initialize must be two-dimensional. Received shape={shape}")
        rows, columns = (int(n) for n in shape)
        result: Tensor = self.gain * eye(rows, columns, dtype=self.dtype if dtype is None else dtype)
        return result

    def get_config(self) -> dict[str, Any]:
        """The settings."""
        return {"gain": self.gain, "dtype": self.dtype.name}
