"""`tf.random`: numbers that depend on a seed and on nothing else.

Streams, seeds and states are TensorFlow's: all numbers, and the state of a Generator, are equal.
Random numbers are differentiable with respect to their parameters: those of `normal(mean, stddev)`,
`uniform(minval, maxval)`, `truncated_normal(mean, stddev)` and `gamma(alpha, beta)`.
"""

from types import ModuleType

from gradtape._src.tf.random.candidates import (
    all_candidate_sampler,
    fixed_unigram_candidate_sampler,
    log_uniform_candidate_sampler,
    uniform_candidate_sampler,
)
from gradtape._src.tf.random.generator import (
    Algorithm,
    Generator,
    create_rng_state,
    get_global_generator,
    set_global_generator,
)
from gradtape._src.tf.random.stateful import categorical, gamma, normal, poisson, shuffle, truncated_normal, uniform
from gradtape._src.tf.random.stateless import (
    fold_in,
    index_shuffle,
    split,
    stateless_binomial,
    stateless_categorical,
    stateless_gamma,
    stateless_normal,
    stateless_parameterized_truncated_normal,
    stateless_poisson,
    stateless_shuffle,
    stateless_truncated_normal,
    stateless_uniform,
)
from gradtape._src.tf.random.streams import set_seed

experimental = ModuleType("gradtape.random.experimental", "Names that were experimental in TensorFlow.")
experimental.__dict__.update(
    Algorithm=Algorithm,
    Generator=Generator,
    create_rng_state=create_rng_state,
    get_global_generator=get_global_generator,
    set_global_generator=set_global_generator,
    index_shuffle=index_shuffle,
    stateless_fold_in=fold_in,
    stateless_shuffle=stateless_shuffle,
    stateless_split=split,
)

__all__ = [
    "Algorithm",
    "Generator",
    "all_candidate_sampler",
    "categorical",
    "create_rng_state",
    "experimental",
    "fixed_unigram_candidate_sampler",
    "fold_in",
    "gamma",
    "get_global_generator",
    "log_uniform_candidate_sampler",
    "normal",
    "poisson",
    "set_global_generator",
    "set_seed",
    "shuffle",
    "split",
    "stateless_binomial",
    "stateless_categorical",
    "stateless_gamma",
    "stateless_normal",
    "stateless_parameterized_truncated_normal",
    "stateless_poisson",
    "stateless_truncated_normal",
    "stateless_uniform",
    "truncated_normal",
    "uniform",
    "uniform_candidate_sampler",
]


def __dir__() -> list[str]:
    return list(__all__)
