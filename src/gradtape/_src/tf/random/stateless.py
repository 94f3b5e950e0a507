"""`tf.random.stateless_*`: random numbers that depend only on a seed."""

from __future__ import annotations

import math as _math
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays import common_namespace, namespace_of
from gradtape._src.arrays.checks import Rule, verify
from gradtape._src.arrays.dimensions import broadcast_shapes
from gradtape._src.conversion import constant_operand, has_dtype, operand, wrap
from gradtape._src.dtypes import as_dtype
from gradtape._src.ops import array, index, random as ops
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import integer
from gradtape._src.tf.random.distributions import (
    checked_shape,
    draw_binomial,
    draw_categorical,
    draw_counts,
    draw_gamma,
    draw_normal,
    draw_order,
    draw_truncated_normal,
    draw_uniform,
    sample_shape,
    watchable,
)
from gradtape._src.tf.random.generator import Algorithm, as_algorithm
from gradtape._src.tf.random.streams import run_kernel, source_of_seed

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


_DEVIATION = Rule(
    lambda xp, stddev: ~(stddev > 0),  # false for NaN
    lambda stddev: errors.invalid_argument(
        "Invalid parameters: stddev must be positive.", "ParameterizedTruncatedNormal"
    ),
    always=True,  # the parameters have derivatives, so they are used unchecked
)
_TRUNCATION = Rule(
    lambda xp, low, high: ~(low < high),
    lambda low, high: errors.invalid_argument(
        "Invalid parameters: minval must be less than maxval.", "ParameterizedTruncatedNormal"
    ),
    always=True,
)
_ONE_FINITE = Rule(
    lambda xp, low, high: ~xp.isfinite(low) & ~xp.isfinite(high),
    lambda low, high: errors.invalid_argument(
        "Invalid parameters: minval or maxval must be finite.", "ParameterizedTruncatedNormal"
    ),
    always=True,
)


def _known_algorithm(alg: Any, op: str) -> None:
    if as_algorithm(alg) is Algorithm.THREEFRY:
        raise errors.invalid_argument(
            "counter must be a vector with length at least 2; got shape: [1]. Non-XLA devices don't support the "
            "ThreeFry algorithm: use alg='philox'",
            op,
        )


def stateless_normal(
    shape: Any,
    seed: Any,
    mean: TensorLike = 0.0,
    stddev: Any = 1.0,
    dtype: Any = "float32",
    name: str | None = None,
    alg: Any = "auto_select",
) -> Tensor:
    """Draw normal numbers that depend only on the two numbers in `seed`.

    >>> bool(tf.random.stateless_normal([], [1, 2]) == tf.random.stateless_normal([], [1, 2]))
    True
    """
    _known_algorithm(alg, "StatelessRandomNormalV2")
    return draw_normal(source_of_seed(seed), shape, mean, stddev, dtype, "StatelessRandomNormalV2")


def stateless_uniform(
    shape: Any,
    seed: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = "float32",
    name: str | None = None,
    alg: Any = "auto_select",
) -> Tensor:
    """Draw numbers in [minval, maxval) that depend only on `seed`; integers of the whole range if both are None.

    >>> tf.random.stateless_uniform([3], [1, 2]).numpy().tolist() == tf.random.stateless_uniform(
    ...     [3], [1, 2]
    ... ).numpy().tolist()
    True
    """
    _known_algorithm(alg, "StatelessRandomUniformV2")
    return draw_uniform(source_of_seed(seed), shape, minval, maxval, dtype, "StatelessRandomUniformV2", full=True)


def stateless_truncated_normal(
    shape: Any,
    seed: Any,
    mean: TensorLike = 0.0,
    stddev: Any = 1.0,
    dtype: Any = "float32",
    name: str | None = None,
    alg: Any = "auto_select",
) -> Tensor:
    """Draw normal numbers at most two standard deviations from the mean, depending only on `seed`.

    >>> x = tf.random.stateless_truncated_normal([1000], seed=[1, 2])
    >>> bool(tf.reduce_max(tf.abs(x)) <= 2.0)
    True
    """
    _known_algorithm(alg, "StatelessTruncatedNormalV2")
    return draw_truncated_normal(source_of_seed(seed), shape, mean, stddev, dtype, "StatelessTruncatedNormalV2")


def stateless_gamma(
    shape: Any,
    seed: Any,
    alpha: TensorLike,
    beta: TensorLike | None = None,
    dtype: Any = "float32",
    name: str | None = None,
) -> Tensor:
    """Draw gamma numbers that depend only on `seed`; `alpha` and `beta` broadcast to `shape` and have gradients.

    >>> tf.random.stateless_gamma([3], seed=[1, 2], alpha=2.0).shape
    TensorShape([3])
    """
    return draw_gamma(source_of_seed(seed), shape, alpha, beta, dtype, "StatelessRandomGammaV3", prefix=False)


def stateless_poisson(shape: Any, seed: Any, lam: Any, dtype: Any = "int32", name: str | None = None) -> Tensor:
    """Draw Poisson counts that depend only on `seed`; the rates broadcast to `shape`.

    >>> tf.random.stateless_poisson([2, 3], seed=[1, 2], lam=4.0).shape
    TensorShape([2, 3])
    """
    full = checked_shape(shape, "StatelessRandomPoisson")
    rate = operand(lam)
    samples = sample_shape(rate.array.shape, full, "StatelessRandomPoisson")
    return draw_counts("random_poisson", "StatelessRandomPoisson", source_of_seed(seed), 0, full, samples, dtype, rate)


def stateless_binomial(
    shape: Any, seed: Any, counts: TensorLike, probs: TensorLike, output_dtype: Any = "int32", name: str | None = None
) -> Tensor:
    """Draw binomial counts that depend only on `seed`; the parameters broadcast to `shape`.

    >>> counts = tf.random.stateless_binomial([1000], seed=[1, 2], counts=10.0, probs=0.3)
    >>> 2.5 < float(tf.reduce_mean(tf.cast(counts, tf.float32))) < 3.5
    True
    """
    return draw_binomial(source_of_seed(seed), shape, counts, probs, output_dtype, "StatelessRandomBinomial")


def stateless_categorical(
    logits: TensorLike, num_samples: Any, seed: Any, dtype: Any = "int64", name: str | None = None
) -> Tensor:
    """Draw class numbers with probabilities softmax(logits), depending only on `seed`.

    >>> tf.random.stateless_categorical([[-100.0, 0.0]], 4, seed=[1, 2]).numpy().tolist()
    [[1, 1, 1, 1]]
    """
    return draw_categorical(source_of_seed(seed), logits, num_samples, dtype, "StatelessMultinomial")


def stateless_parameterized_truncated_normal(
    shape: Any,
    seed: Any,
    means: Any = 0.0,
    stddevs: Any = 1.0,
    minvals: Any = -2.0,
    maxvals: Any = 2.0,
    name: str | None = None,
) -> Tensor:
    """Draw normal numbers between bounds; all four parameters broadcast to `shape` and have gradients.

    >>> x = tf.random.stateless_parameterized_truncated_normal([100], (1, 2), means=5.0, minvals=4.0, maxvals=5.0)
    >>> bool(tf.reduce_all((x >= 4.0) & (x <= 5.0)))
    True
    """
    full = checked_shape(shape, "StatelessParameterizedTruncatedNormal")
    given = [means, stddevs, minvals, maxvals]
    op = "StatelessParameterizedTruncatedNormal"
    mean, stddev, low, high = (operand(v) for v in given)
    kind = mean.dtype
    if not kind.is_floating:
        raise errors.unsupported_dtype(op, kind, "half, float, double")
    for parameter in (stddev, low, high):
        if parameter.dtype != kind:
            raise errors.mismatched_dtypes(op, kind, parameter.dtype)
    parameters = mean.array.shape
    for parameter in (stddev, low, high):
        parameters = broadcast_shapes(parameters, parameter.array.shape)
    samples = sample_shape(parameters, full, op)
    verify(_DEVIATION, stddev.array)
    verify(_TRUNCATION, low.array, high.array)
    verify(_ONE_FINITE, low.array, high.array)
    x, y = (low - mean) / stddev, (high - mean) / stddev
    each = [namespace_of(bound.array).broadcast_to(bound.array, shape=parameters) for bound in (x, y)]
    drawn = run_kernel("random_between", source_of_seed(seed)(op, 0), *each, samples=_math.prod(samples))
    z = constant_operand(namespace_of(drawn).reshape(drawn, shape=full))
    part = constant_operand(run_kernel("truncated_part", x.array, y.array, z.array))
    return watchable(ops.truncated_sample(x, y, part, z) * stddev + mean)


def stateless_shuffle(value: TensorLike, seed: Any, alg: Any = "auto_select", name: str | None = None) -> Tensor:
    """The rows of a tensor in an order that depends on `seed` alone; gradients go through it."""
    _known_algorithm(alg, "StatelessShuffle")
    x = operand(value)
    if not x.array.shape:
        return watchable(x)
    order = draw_order(source_of_seed(seed), x.array.shape[0], "StatelessShuffle")
    result: Tensor = index.take(x, order, axis=0, batch_dims=0)
    return result


def key_and_counter(seed: Any) -> tuple[Tensor, Tensor]:
    """The key and the counter at which the stream of a stateless op starts.

    >>> [x.shape.as_list() for x in key_and_counter([1, 2])]
    [[1], [2]]
    """
    stream = source_of_seed(seed)("StatelessRandomGetKeyCounter", 0)
    return wrap(stream[:1]), wrap(stream[1:])


def from_key(op: str, shape: Any, key: Any, counter: Any, *parameters: Any, dtype: Any = None) -> Tensor:
    """What an op of TensorFlow's draws from the stream of a key, from a counter on.

    >>> key, counter = key_and_counter([1, 2])
    >>> bool(from_key("StatelessRandomNormalV2", [], key, counter) == stateless_normal([], [1, 2]))
    True
    """
    words = [array.reshape(operand(each), shape=(-1,)) for each in (key, counter)]
    stream = array.concatenate(*words, axis=0).array
    source = lambda op, blocks: stream  # noqa: E731
    if op == "StatelessRandomNormalV2":
        return draw_normal(source, shape, 0.0, 1.0, dtype, op)
    if op == "StatelessTruncatedNormalV2":
        return draw_truncated_normal(source, shape, 0.0, 1.0, dtype, op)
    if op == "StatelessRandomGammaV3":
        return draw_gamma(source, shape, parameters[0], None, parameters[0].dtype, op, prefix=False)
    low, high = parameters or ((0, None) if as_dtype(dtype or "float32").is_floating else (None, None))
    return draw_uniform(source, shape, low, high, dtype, op, full=True)


def split(seed: Any, num: Any = 2, alg: Any = "auto_select") -> Tensor:
    """Derive new seeds [num, 2] from one; their random numbers are independent.

    >>> tf.random.split([1, 2], 3).shape
    TensorShape([3, 2])
    """
    seed = operand(seed)
    if seed.dtype.name not in ("int32", "int64"):
        raise ValueError(f"Argument `seed` must be two numbers of tf.int32 or tf.int64, got {seed!r}.")
    return stateless_uniform(
        [integer(num, "StatelessRandomUniformFullIntV2"), 2], seed, None, None, seed.dtype, alg=alg
    )


def fold_in(seed: Any, data: TensorLike, alg: Any = "auto_select") -> Tensor:
    """Combine a seed with a number, of a step or of a replica for example, into a new seed.

    >>> step = [tf.random.fold_in((1, 2), i).numpy().tolist() for i in range(2)]
    >>> step[0] != step[1]
    True
    """
    data = operand(data)
    mixed = stateless_uniform([], seed, None, None, data.dtype, alg=alg)
    result: Tensor = array.stack(mixed, data, axis=0)
    return result


def index_shuffle(index: Any, seed: Any, max_index: Any) -> Tensor:
    """Where `index` goes in a random order of 0 ... max_index that depends on the two numbers of `seed` alone.

    >>> index_shuffle(operand([0, 1, 2, 3]), [5, 9], 3).numpy().tolist()
    [2, 0, 1, 3]
    """
    op = "RandomIndexShuffle"
    where, seeds = operand(index), operand(seed)
    most = operand(max_index, None if has_dtype(max_index) else where.dtype)
    if where.dtype.name not in _INDICES:
        raise errors.unsupported_dtype(op, where.dtype, ", ".join(_INDICES), "dtype")
    if most.dtype != where.dtype:
        raise errors.mismatched_dtypes(op, where.dtype, most.dtype)
    if seeds.dtype.name not in _INDICES:
        raise errors.unsupported_dtype(op, seeds.dtype, ", ".join(_INDICES), "Tseed")
    if where.array.ndim > 1 or most.array.ndim > 1 or len({a.shape for a in (where.array, most.array) if a.ndim}) > 1:
        raise errors.invalid_argument(
            f"Index bust be a scalar or vector. index has shape {errors.brackets(where.array.shape)}, max_index "
            f"{errors.brackets(most.array.shape)}",
            op,
        )
    if seeds.array.shape != (2,):
        raise errors.invalid_argument(
            f"Seed must be a vector of size [3]: two numbers, to which another one is added. Received a seed of shape "
            f"{errors.brackets(seeds.array.shape)}",
            op,
        )
    xp = common_namespace((where.array, most.array))
    verify(_NOT_NEGATIVE, where.array, word="index")
    verify(_NOT_NEGATIVE, most.array, word="max_index")
    verify(
        _INSIDE,
        *(
            xp.broadcast_to(a, shape=broadcast_shapes(where.array.shape, most.array.shape))
            for a in (where.array, most.array)
        ),
    )
    drawn = run_kernel("shuffled_index", where.array, seeds.array, most.array)
    return wrap(namespace_of(drawn).astype(drawn, dtype=where.array.dtype, source=drawn.dtype))


_INDICES = ("int32", "uint32", "int64", "uint64")
_NOT_NEGATIVE = Rule(
    lambda xp, a, word: a < 0,
    lambda a, word: errors.invalid_argument(f"{word} must be >= 0 but was {np.min(a)}", "RandomIndexShuffle"),
    always=True,
)
_INSIDE = Rule(
    lambda xp, index, most: index > most,
    lambda index, most: errors.invalid_argument(
        f"max_index must be >= index, but {most[index > most].flat[0]} < {index[index > most].flat[0]}",
        "RandomIndexShuffle",
    ),
    always=True,
)
