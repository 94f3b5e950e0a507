"""Raw ops of random numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradtape._src.ops import random as ops
from gradtape._src.tf import array, math, random
from gradtape._src.tf.random.stateless import from_key, key_and_counter

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradtape._src.tensor import Tensor

_PHILOX = 1


def _seed(seed: int, seed2: int) -> tuple[int, int] | None:
    """The seeds of an op, independent of the global seed: two zeros mean none."""
    return None if not seed and not seed2 else (seed, seed2)


def _key_counter_alg(seed: Any) -> tuple[Tensor, Tensor, Tensor]:
    return (*key_and_counter(seed), array.constant(_PHILOX))


def _from_key(op: str) -> Callable[..., Tensor]:
    def draw(shape: Any, key: Any, counter: Any, alg: Any, dtype: Any) -> Tensor:
        return from_key(op, shape, key, counter, dtype=dtype)

    return draw


def _integers_from_key(shape: Any, key: Any, counter: Any, alg: Any, minval: Any, maxval: Any) -> Tensor:
    return from_key("StatelessRandomUniformIntV2", shape, key, counter, minval, maxval, dtype=minval.dtype)


def _gamma_from_key(shape: Any, key: Any, counter: Any, alg: Any, alpha: Any) -> Tensor:
    return from_key("StatelessRandomGammaV3", shape, key, counter, alpha)


def _stateless(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def draw(shape: Any, seed: Any, dtype: Any) -> Tensor:
        return function(shape, seed, dtype=dtype)

    return draw


def _gamma_grad(alpha: Any, sample: Any) -> Tensor:
    """The derivative of a gamma number by alpha, at a fixed quantile."""
    slope = ops.gamma_tail(alpha, sample, order=1)
    slope += ops.gamma_tail(alpha, sample, order=0) * (math.log(sample) - math.digamma(alpha))
    return array.where(sample > 0, slope, array.zeros_like(slope))


def _poisson(shape: Any, rate: Any, seed: int, seed2: int, dtype: Any = None) -> Tensor:
    return random.poisson(shape, rate, dtype or rate.dtype, _seed(seed, seed2))


OPS: dict[str, Callable[..., Any]] = {
    "Multinomial": lambda logits, num_samples, seed, seed2, output_dtype: random.categorical(
        logits, num_samples, output_dtype, _seed(seed, seed2)
    ),
    "RandomGamma": lambda shape, alpha, seed, seed2: random.gamma(
        shape, alpha, dtype=alpha.dtype, seed=_seed(seed, seed2)
    ),
    "RandomGammaGrad": _gamma_grad,
    "RandomPoisson": _poisson,
    "RandomPoissonV2": _poisson,
    "RandomShuffle": lambda value, seed, seed2: random.shuffle(value, _seed(seed, seed2)),
    "RandomStandardNormal": lambda shape, dtype, seed, seed2: random.normal(
        shape, dtype=dtype, seed=_seed(seed, seed2)
    ),
    "RandomUniform": lambda shape, dtype, seed, seed2: random.uniform(shape, dtype=dtype, seed=_seed(seed, seed2)),
    "RandomUniformInt": lambda shape, minval, maxval, seed, seed2: random.uniform(
        shape, minval, maxval, minval.dtype, _seed(seed, seed2)
    ),
    "TruncatedNormal": lambda shape, dtype, seed, seed2: random.truncated_normal(
        shape, dtype=dtype, seed=_seed(seed, seed2)
    ),
    # -- with a seed only
    "StatelessMultinomial": lambda logits, num_samples, seed, output_dtype: random.stateless_categorical(
        logits, num_samples, seed, output_dtype
    ),
    "StatelessParameterizedTruncatedNormal": random.stateless_parameterized_truncated_normal,
    "StatelessRandomBinomial": lambda shape, seed, counts, probs, dtype: random.stateless_binomial(
        shape, seed, counts, probs, dtype
    ),
    "StatelessRandomGammaV2": lambda shape, seed, alpha: random.stateless_gamma(shape, seed, alpha, dtype=alpha.dtype),
    "StatelessRandomNormal": _stateless(random.stateless_normal),
    "StatelessRandomPoisson": random.stateless_poisson,
    "StatelessRandomUniform": _stateless(random.stateless_uniform),
    "StatelessRandomUniformFullInt": lambda shape, seed, dtype: random.stateless_uniform(
        shape, seed, None, None, dtype
    ),
    "StatelessRandomUniformInt": lambda shape, seed, minval, maxval: random.stateless_uniform(
        shape, seed, minval, maxval, minval.dtype
    ),
    "StatelessTruncatedNormal": _stateless(random.stateless_truncated_normal),
    # -- with a key and a counter
    "StatelessRandomGammaV3": _gamma_from_key,
    "StatelessRandomGetAlg": lambda: array.constant(_PHILOX),
    "StatelessRandomGetKeyCounter": key_and_counter,
    "StatelessRandomGetKeyCounterAlg": _key_counter_alg,
    "StatelessRandomNormalV2": _from_key("StatelessRandomNormalV2"),
    "StatelessRandomUniformFullIntV2": _from_key("StatelessRandomUniformFullIntV2"),
    "StatelessRandomUniformIntV2": _integers_from_key,
    "StatelessRandomUniformV2": _from_key("StatelessRandomUniformV2"),
    "StatelessTruncatedNormalV2": _from_key("StatelessTruncatedNormalV2"),
}
