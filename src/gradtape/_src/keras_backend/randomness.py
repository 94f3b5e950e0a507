"""Keras' random functions: gradtape's stateless ones, with the seeds that Keras draws."""

from __future__ import annotations

from typing import Any

from keras.src.backend.config import floatx
from keras.src.random.seed_generator import (
    SeedGenerator as SeedGenerator,
    draw_seed,
    make_default_seed as make_default_seed,
)

from gradtape._src.arrays.dimensions import broadcast_shapes
from gradtape._src.dtypes import DType
from gradtape._src.keras_backend.core import cast, dense as convert_to_tensor, dtype_of
from gradtape._src.ops import array, math as elementwise
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array as arrays, math, random as draws


def _drawn(seed: Any) -> Tensor:
    """The next seed, made as in Keras on TensorFlow: 32-bit integers."""
    drawn = convert_to_tensor(draw_seed(seed))
    if drawn.dtype.name == "int32":
        return drawn
    return cast(math.floormod(cast(drawn, "int64"), 2**31 - 2), "int32")


def _computed(dtype: DType) -> DType:
    """The dtype to draw in, where TensorFlow's op does not support bfloat16."""
    return dtype if dtype.name != "bfloat16" else dtype_of("float32")


def normal(shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = None, seed: Any = None) -> Tensor:
    wanted = dtype_of(dtype or floatx())
    mean, stddev = (convert_to_tensor(p, wanted) for p in (mean, stddev))
    return draws.stateless_normal(shape, _drawn(seed), mean, stddev, wanted)


def uniform(shape: Any, minval: Any = 0.0, maxval: Any = 1.0, dtype: Any = None, seed: Any = None) -> Tensor:
    wanted = dtype_of(dtype or floatx())
    low, high = (convert_to_tensor(p, wanted) for p in (minval, maxval))
    return draws.stateless_uniform(shape, _drawn(seed), low, high, wanted)


def truncated_normal(shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = None, seed: Any = None) -> Tensor:
    wanted = dtype_of(dtype or floatx())
    mean, stddev = (convert_to_tensor(p, wanted) for p in (mean, stddev))
    return draws.stateless_truncated_normal(shape, _drawn(seed), mean, stddev, wanted)


def randint(shape: Any, minval: Any, maxval: Any, dtype: Any = "int32", seed: Any = None) -> Tensor:
    wanted = dtype_of(dtype)
    drawn = wanted if wanted.name in ("int32", "int64") else dtype_of("int64")
    low, high = (convert_to_tensor(p, drawn) for p in (minval, maxval))
    return cast(draws.stateless_uniform(shape, _drawn(seed), low, high, drawn), wanted)


def categorical(logits: Any, num_samples: Any, dtype: Any = "int64", seed: Any = None) -> Tensor:
    return cast(draws.stateless_categorical(convert_to_tensor(logits), num_samples, _drawn(seed)), dtype)


def gamma(shape: Any, alpha: Any, dtype: Any = None, seed: Any = None) -> Tensor:
    wanted = dtype_of(dtype or floatx())
    drawn = _computed(wanted)
    return cast(_gamma(shape, convert_to_tensor(alpha, drawn), drawn, _drawn(seed)), wanted)


def _gamma(shape: Any, alpha: Tensor, dtype: DType, seed: Tensor) -> Tensor:
    return draws.stateless_gamma(shape, seed, _ending(alpha, shape), dtype=dtype)


def _ending(parameter: Tensor, shape: Any) -> Tensor:
    """A parameter in a shape that TensorFlow's op accepts: it is broadcast unless it is a suffix of
    the result's shape.
    """
    own, full = tuple(parameter.array.shape), tuple(shape)
    return parameter if own == full[len(full) - len(own) :] else array.broadcast_to(parameter, shape=full)


def beta(shape: Any, alpha: Any, beta: Any, dtype: Any = None, seed: Any = None) -> Tensor:
    """X / (X + Y) for gamma distributed X and Y, drawn with different seeds."""
    wanted = dtype_of(dtype or floatx())
    drawn = _computed(wanted)
    first = _drawn(seed)
    x, y = (
        cast(_gamma(shape, array.broadcast_to(convert_to_tensor(p, drawn), shape=tuple(shape)), drawn, s), wanted)
        for p, s in ((alpha, first), (beta, first + 12))
    )
    return x / (x + y)


def binomial(shape: Any, counts: Any, probabilities: Any, dtype: Any = None, seed: Any = None) -> Tensor:
    wanted = dtype_of(dtype or floatx())
    drawn = _computed(wanted)
    kind = drawn if drawn.is_floating else dtype_of("float32")
    n, p = convert_to_tensor(counts, kind), convert_to_tensor(probabilities, kind)
    own = broadcast_shapes(n.array.shape, p.array.shape)
    n, p = (_ending(array.broadcast_to(v, shape=own), shape) for v in (n, p))
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
    order = math.argsort(draws.stateless_uniform([x.array.shape[axis]], _drawn(seed)))
    return arrays.gather(x, order, axis=axis)
