"""`tf.experimental.numpy.random`: NumPy's functions for random numbers; `seed` sets TensorFlow's global seed."""

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
