from keras._tf_keras.keras.wrappers import (
    SKLearnClassifier as SKLearnClassifier,
    SKLearnRegressor as SKLearnRegressor,
    SKLearnTransformer as SKLearnTransformer,
)
