from keras._tf_keras.keras.regularizers import (  # type: ignore[import-untyped, unused-ignore]
    L1 as L1,
    L1L2 as L1L2,
    L2 as L2,
    OrthogonalRegularizer as OrthogonalRegularizer,
    Regularizer as Regularizer,
    deserialize as deserialize,
    get as get,
    l1 as l1,
    l1_l2 as l1_l2,
    l2 as l2,
    orthogonal_regularizer as orthogonal_regularizer,
    serialize as serialize,
)
