from keras._tf_keras.keras.random import (  # type: ignore[import-untyped, unused-ignore]
    SeedGenerator as SeedGenerator,
    beta as beta,
    binomial as binomial,
    categorical as categorical,
    dropout as dropout,
    gamma as gamma,
    normal as normal,
    randint as randint,
    shuffle as shuffle,
    truncated_normal as truncated_normal,
    uniform as uniform,
)
