from keras._tf_keras.keras.models import (  # type: ignore[import-untyped, unused-ignore]
    Model as Model,
    Sequential as Sequential,
    clone_model as clone_model,
    load_model as load_model,
    model_from_json as model_from_json,
    save_model as save_model,
)
