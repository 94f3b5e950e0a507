from keras._tf_keras.keras.mixed_precision import (  # type: ignore[import-untyped, unused-ignore]
    DTypePolicy as DTypePolicy,
    LossScaleOptimizer as LossScaleOptimizer,
    Policy as Policy,
    dtype_policy as dtype_policy,
    global_policy as global_policy,
    set_dtype_policy as set_dtype_policy,
    set_global_policy as set_global_policy,
)
