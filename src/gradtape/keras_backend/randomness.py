"""Keras' random functions: gradtape's stateless ones, with the seeds that Keras draws."""

from __future__ import annotations

from typing import Any

from keras.src.backend.config import floatx
from keras.src.random.seed_generator import (
    SeedGenerator as SeedGenerator,
    draw_seed,
    make_default_seed as make_default_seed,
)

from gradtape.api import array as arrays, random as draws
from gradtape.dtypes import DType
from gradtape.keras_backend.core import cast, dense as convert_to_tensor, dtype_of
from gradtape.ops import array, math as elementwise
from gradtape.tensor import Tensor


def _drawn(seed: Any) -> Tensor:
    """The next seed; Keras draws unsigned numbers, and the ops take signed ones."""
    return cast(draw_seed(seed), "int64")


def _computed(dtype: DType) -> DType:
    """The dtype to draw in: narrow floats are rounded in the end."""
    return dtype if dtype.size >= 4 else dtype_of("float32")


def normal(shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = None, seed: Any = None) -> Tensor:
    wanted = dtype_of(dtype or floatx())
    drawn = _computed(wanted)
    mean, stddev = (convert_to_tensor(p, drawn) for p in (mean, stddev))
    return cast(draws.stateless_normal(shape, _drawn(seed), mean, stddev, drawn), wanted)


def uniform(shape: Any, minval: Any = 0.0, maxval: Any = 1.0, dtype: Any = None, seed: Any = None) -> Tensor:
    wanted = dtype_of(dtype or floatx())
    drawn = _computed(wanted)
    low, high = (convert_to_tensor(p, drawn) for p in (minval, maxval))
    return cast(draws.stateless_uniform(shape, _drawn(seed), low, high, drawn), wanted)


def truncated_normal(shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = None, seed: Any = None) -> Tensor:
    wanted = dtype_of(dtype or floatx())
    drawn = _computed(wanted)
    mean, stddev = (convert_to_tensor(p, drawn) for p in (mean, stddev))
    return cast(draws.stateless_truncated_normal(shape, _drawn(seed), mean, stddev, drawn), wanted)


def randint(shape: Any, minval: Any, maxval: Any, dtype: Any = "int32", seed: Any = None) -> Tensor:
    wanted = dtype_of(dtype)
    drawn = wanted if wanted.name in ("int32", "int64") else dtype_of("int64")
    low, high = (convert_to_tensor(p, drawn) for p in (minval, maxval))
    return cast(draws.stateless_uniform(shape, _drawn(seed), low, high, drawn), wanted)


def categorical(logits: Any, num_samples: Any, dtype: Any = "int64", seed: Any = None) -> Tensor:
    return cast(draws.stateless_categorical(convert_to_tensor(logits), num_samples, _drawn(seed)), dtype)


def gamma(shape: Any, alpha: Any, dtype: Any = None, seed: Any = None) -> Tensor:
    wanted = dtype_of(dtype or floatx())
    return cast(_gamma(shape, alpha, _computed(wanted), _drawn(seed)), wanted)


def _gamma(shape: Any, alpha: Any, dtype: DType, seed: Tensor) -> Tensor:
    return draws.stateless_gamma(shape, seed, convert_to_tensor(alpha, dtype), dtype=dtype)


def beta(shape: Any, alpha: Any, beta: Any, dtype: Any = None, seed: Any = None) -> Tensor:
    """X / (X + Y), with X and Y gamma distributed and drawn with seeds of their own."""
    wanted = dtype_of(dtype or floatx())
    drawn = _computed(wanted)
    first, second = arrays.unstack(draws.split(_drawn(seed), 2))
    x, y = _gamma(shape, alpha, drawn, first), _gamma(shape, beta, drawn, second)
    return cast(x / (x + y), wanted)


def binomial(shape: Any, counts: Any, probabilities: Any, dtype: Any = None, seed: Any = None) -> Tensor:
    wanted = dtype_of(dtype or floatx())
    drawn = _computed(wanted)
    n, p = convert_to_tensor(counts, drawn), convert_to_tensor(probabilities, drawn)
    return cast(draws.stateless_binomial(shape, _drawn(seed), n, p, output_dtype=drawn), wanted)


def dropout(inputs: Any, rate: Any, noise_shape: Any = None, seed: Any = None) -> Tensor:
    x = convert_to_tensor(inputs)
    if rate == 1.0:
        return arrays.zeros_like(x)
    if rate == 0.0:
        return x
    sizes = tuple(x.array.shape)
    if noise_shape is not None:
        sizes = tuple(n if n is not None else sizes[i] for i, n in enumerate(noise_shape))
    kept = elementwise.greater_equal(draws.stateless_uniform(sizes, _drawn(seed)), rate)
    return elementwise.where(kept, x / (1.0 - rate), array.stop_gradient(arrays.zeros_like(x)))


def shuffle(x: Any, axis: int = 0, seed: Any = None) -> Tensor:
    x = convert_to_tensor(x)
    order = draws.stateless_shuffle(arrays.range(x.array.shape[axis]), _drawn(seed))
    return arrays.gather(x, order, axis=axis)
