from keras._tf_keras.keras.export import (  # type: ignore[import-untyped, unused-ignore]
    ExportArchive as ExportArchive,
)
