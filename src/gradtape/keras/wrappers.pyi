from keras._tf_keras.keras.wrappers import (  # type: ignore[import-untyped, unused-ignore]
    SKLearnClassifier as SKLearnClassifier,
    SKLearnRegressor as SKLearnRegressor,
    SKLearnTransformer as SKLearnTransformer,
)
