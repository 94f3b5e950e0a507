"""`tf.random`: numbers that depend on a seed and on nothing else."""

import typing as _typing

from gradtape._src.tf.random import (
    Algorithm as Algorithm,
    Generator as Generator,
    all_candidate_sampler as all_candidate_sampler,
    categorical as categorical,
    create_rng_state as create_rng_state,
    experimental as experimental,
    fixed_unigram_candidate_sampler as fixed_unigram_candidate_sampler,
    fold_in as fold_in,
    gamma as gamma,
    get_global_generator as get_global_generator,
    log_uniform_candidate_sampler as log_uniform_candidate_sampler,
    normal as normal,
    poisson as poisson,
    set_global_generator as set_global_generator,
    set_seed as set_seed,
    shuffle as shuffle,
    split as split,
    stateless_binomial as stateless_binomial,
    stateless_categorical as stateless_categorical,
    stateless_gamma as stateless_gamma,
    stateless_normal as stateless_normal,
    stateless_parameterized_truncated_normal as stateless_parameterized_truncated_normal,
    stateless_poisson as stateless_poisson,
    stateless_truncated_normal as stateless_truncated_normal,
    stateless_uniform as stateless_uniform,
    truncated_normal as truncated_normal,
    uniform as uniform,
    uniform_candidate_sampler as uniform_candidate_sampler,
)

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
