from keras._tf_keras.keras.distillation import (
    DistillationLoss as DistillationLoss,
    Distiller as Distiller,
    FeatureDistillation as FeatureDistillation,
    LogitsDistillation as LogitsDistillation,
)
