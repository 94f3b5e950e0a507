from keras._tf_keras.keras.legacy import (  # type: ignore[import-untyped, unused-ignore]
    saving as saving,
)
