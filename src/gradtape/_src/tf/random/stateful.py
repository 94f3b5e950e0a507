"""`tf.random`: random ops that continue their streams."""

from __future__ import annotations

import math as _math
from typing import TYPE_CHECKING, Any

from gradtape._src.conversion import operand
from gradtape._src.ops import random as ops
from gradtape._src.tensor import Tensor
from gradtape._src.tf.random.distributions import (
    BLOCKS_PER_NUMBER,
    checked_shape,
    draw_categorical,
    draw_counts,
    draw_gamma,
    draw_normal,
    draw_order,
    draw_truncated_normal,
    draw_uniform,
    watchable,
)
from gradtape._src.tf.random.streams import OpSource

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


def normal(
    shape: Any,
    mean: TensorLike = 0.0,
    stddev: Any = 1.0,
    dtype: Any = "float32",
    seed: Any = None,
    name: str | None = None,
) -> Tensor:
    """Draw normal numbers, differentiable with respect to `mean` and `stddev`.

    >>> tf.random.set_seed(0)
    >>> tf.random.normal([2, 3], mean=5.0).shape
    TensorShape([2, 3])
    """
    return draw_normal(OpSource(seed), shape, mean, stddev, dtype, "RandomStandardNormal")


def uniform(
    shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = "float32", seed: Any = None, name: str | None = None
) -> Tensor:
    """Draw numbers in [minval, maxval), of a floating or an integer dtype; floating ones are differentiable.

    >>> x = tf.random.uniform([1000], 3, 6, dtype="int32", seed=1).numpy()
    >>> int(x.min()), int(x.max())
    (3, 5)
    """
    return draw_uniform(OpSource(seed), shape, minval, maxval, dtype, "RandomUniform", full=False)


def truncated_normal(
    shape: Any,
    mean: TensorLike = 0.0,
    stddev: Any = 1.0,
    dtype: Any = "float32",
    seed: Any = None,
    name: str | None = None,
) -> Tensor:
    """Draw normal numbers at most two standard deviations from the mean, differentiable in both.

    >>> bool(tf.reduce_max(tf.abs(tf.random.truncated_normal([1000]))) <= 2.0)
    True
    """
    return draw_truncated_normal(OpSource(seed), shape, mean, stddev, dtype, "TruncatedNormal")


def gamma(
    shape: Any,
    alpha: TensorLike,
    beta: TensorLike | None = None,
    dtype: Any = "float32",
    seed: Any = None,
    name: str | None = None,
) -> Tensor:
    """Draw gamma numbers, `shape` of them for each pair of parameters; differentiable in both.

    >>> tf.random.gamma([5], alpha=[0.5, 3.0], seed=1).shape
    TensorShape([5, 2])
    """
    return draw_gamma(OpSource(seed), shape, alpha, beta, dtype, "RandomGamma", prefix=True)


def poisson(shape: Any, lam: Any, dtype: Any = "float32", seed: Any = None, name: str | None = None) -> Tensor:
    """Draw Poisson counts, `shape` of them for each rate.

    >>> tf.random.poisson([4], [1.0, 100.0], seed=3).shape
    TensorShape([4, 2])
    """
    rate = operand(lam)
    where = checked_shape(shape, "RandomPoissonV2")
    full = (*where, *rate.array.shape)
    blocks = BLOCKS_PER_NUMBER * _math.prod(full)
    return draw_counts("random_poisson", "RandomPoissonV2", OpSource(seed), blocks, full, where, dtype, rate)


def categorical(
    logits: TensorLike, num_samples: Any, dtype: Any = None, seed: Any = None, name: str | None = None
) -> Tensor:
    """Draw class numbers [batch, num_samples] with probabilities softmax(logits).

    >>> tf.random.categorical([[0.0, -100.0]], 3).numpy().tolist()
    [[0, 0, 0]]
    """
    return draw_categorical(OpSource(seed), logits, num_samples, "int64" if dtype is None else dtype, "Multinomial")


def shuffle(value: TensorLike, seed: Any = None, name: str | None = None) -> Tensor:
    """Shuffle the rows of a tensor; as in TensorFlow, it has no gradient.

    >>> sorted(tf.random.shuffle([1, 2, 3]).numpy().tolist())
    [1, 2, 3]
    """
    x = operand(value)
    op, own = ("RandomShuffle", x.dtype.name), OpSource(seed)
    if not x.array.shape:
        own(op, 0)  # invalid seeds raise an error anyway
        return watchable(x)
    order = draw_order(own, x.array.shape[0], op)
    result: Tensor = ops.shuffle_rows(x, order)
    return result
