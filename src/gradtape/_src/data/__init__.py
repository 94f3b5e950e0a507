"""`tf.data`: TensorFlow's input pipelines."""

from __future__ import annotations

from gradtape._src.data import experimental as experimental
from gradtape._src.data.core import AUTOTUNE as AUTOTUNE, INFINITE as _INFINITE, UNKNOWN as _UNKNOWN
from gradtape._src.data.dataset import Dataset as Dataset, DatasetSpec as DatasetSpec
from gradtape._src.data.files import (
    FixedLengthRecordDataset as FixedLengthRecordDataset,
    TextLineDataset as TextLineDataset,
    TFRecordDataset as TFRecordDataset,
)
from gradtape._src.data.iterator import IteratorBase as _IteratorBase, NumpyIterator as NumpyIterator
from gradtape._src.data.options import Options as Options, ThreadingOptions as ThreadingOptions

Iterator = _IteratorBase
INFINITE_CARDINALITY = _INFINITE
UNKNOWN_CARDINALITY = _UNKNOWN


__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "Dataset",
    "DatasetSpec",
    "FixedLengthRecordDataset",
    "Iterator",
    "NumpyIterator",
    "Options",
    "TFRecordDataset",
    "TextLineDataset",
    "ThreadingOptions",
    "experimental",
]
