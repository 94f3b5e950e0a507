"""`tf.data`: TensorFlow's input pipelines."""

import typing as _typing

from gradtape._src.data import (
    AUTOTUNE as AUTOTUNE,
    INFINITE_CARDINALITY as INFINITE_CARDINALITY,
    UNKNOWN_CARDINALITY as UNKNOWN_CARDINALITY,
    Dataset as Dataset,
    DatasetSpec as DatasetSpec,
    FixedLengthRecordDataset as FixedLengthRecordDataset,
    Iterator as Iterator,
    NumpyIterator as NumpyIterator,
    Options as Options,
    TextLineDataset as TextLineDataset,
    TFRecordDataset as TFRecordDataset,
    ThreadingOptions as ThreadingOptions,
)
from gradtape.data import experimental as experimental

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
