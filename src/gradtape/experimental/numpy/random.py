"""`tf.experimental.numpy.random`: NumPy's functions for random numbers; `seed` sets TensorFlow's global seed."""

import typing as _typing

from gradtape._src.numpy_api.random import (
    poisson as poisson,
    rand as rand,
    randint as randint,
    randn as randn,
    random as random,
    seed as seed,
    standard_normal as standard_normal,
    uniform as uniform,
)

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
