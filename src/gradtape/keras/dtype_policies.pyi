from keras._tf_keras.keras.dtype_policies import (  # type: ignore[import-untyped, unused-ignore]
    AWQDTypePolicy as AWQDTypePolicy,
    DTypePolicy as DTypePolicy,
    DTypePolicyMap as DTypePolicyMap,
    FloatDTypePolicy as FloatDTypePolicy,
    GPTQDTypePolicy as GPTQDTypePolicy,
    Int4DTypePolicy as Int4DTypePolicy,
    QuantizedDTypePolicy as QuantizedDTypePolicy,
    QuantizedFloat8DTypePolicy as QuantizedFloat8DTypePolicy,
    deserialize as deserialize,
    get as get,
    serialize as serialize,
)
