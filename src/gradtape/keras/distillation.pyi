from keras._tf_keras.keras.distillation import (  # type: ignore[import-untyped, unused-ignore]
    DistillationLoss as DistillationLoss,
    Distiller as Distiller,
    FeatureDistillation as FeatureDistillation,
    LogitsDistillation as LogitsDistillation,
)
