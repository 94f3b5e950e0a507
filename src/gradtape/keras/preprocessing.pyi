from keras._tf_keras.keras.preprocessing import (  # type: ignore[import-untyped, unused-ignore]
    image as image,
    image_dataset_from_directory as image_dataset_from_directory,
    sequence as sequence,
    text as text,
    text_dataset_from_directory as text_dataset_from_directory,
    timeseries_dataset_from_array as timeseries_dataset_from_array,
)
