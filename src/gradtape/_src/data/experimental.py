"""`tf.data.experimental`: older names, most of which are methods of datasets now."""

from __future__ import annotations

import os as _os
from collections.abc import Callable as _Callable
from enum import Enum as _Enum, IntEnum as _IntEnum
from typing import Any as _Any

from gradtape._src.data import transforms as _transforms
from gradtape._src.data.core import AUTOTUNE as AUTOTUNE, INFINITE as _INFINITE, UNKNOWN as _UNKNOWN
from gradtape._src.data.dataset import Dataset as _Dataset
from gradtape._src.data.iterator import Optional as Optional
from gradtape._src.data.options import (
    AutotuneOptions as AutotuneOptions,
    DistributeOptions as DistributeOptions,
    OptimizationOptions as OptimizationOptions,
    ServiceOptions as ServiceOptions,
    ThreadingOptions as ThreadingOptions,
)
from gradtape._src.data.sources import listed as _listed
from gradtape._src.formats.atomic import named_errors as _named_errors, write as _atomic_write
from gradtape._src.formats.tfrecord import (
    RecordStream as _RecordStream,
    TFRecordOptions as _Options,
    as_record as _as_record,
)
from gradtape._src.tensor import Tensor as _Tensor

INFINITE_CARDINALITY = _INFINITE
UNKNOWN_CARDINALITY = _UNKNOWN

_Transformation = _Callable[[_Dataset], _Dataset]


SHARD_HINT = -1


class AutoShardPolicy(_IntEnum):
    """How a dataset is sharded among workers. gradtape has one worker."""

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


class AutotuneAlgorithm(_Enum):
    """How buffers grow. gradtape's do not."""

    DEFAULT = 0
    HILL_CLIMB = 1
    GRADIENT_DESCENT = 2
    MAX_PARALLELISM = 3
    STAGE_BASED = 4


class ExternalStatePolicy(_Enum):
    """Whether to warn about state outside of a pipeline."""

    WARN = 0
    IGNORE = 1
    FAIL = 2


def cardinality(dataset: _Dataset) -> _Tensor:
    """The number of elements; -1 if it is infinite, -2 if it is unknown."""
    return dataset.cardinality()


def assert_cardinality(expected_cardinality: _Any) -> _Transformation:
    """For `dataset.apply`: declare the number of elements, which is checked when they are read."""
    return lambda dataset: dataset._next(_transforms.counted(dataset._pipeline, int(expected_cardinality)))


def get_single_element(dataset: _Dataset) -> _Any:
    """The element of a dataset with exactly one element."""
    return dataset.get_single_element()


def get_next_as_optional(iterator: _Any) -> Optional:
    """The next element of an iterator, if there is one."""
    found: Optional = iterator.get_next_as_optional()
    return found


def get_structure(dataset_or_iterator: _Any) -> _Any:
    """Shapes and dtypes of the elements."""
    return dataset_or_iterator.element_spec


def enable_debug_mode() -> None:
    """Run pipelines eagerly. gradtape always does."""


def from_list(elements: _Any, name: str | None = None) -> _Dataset:
    """The elements of a list.

    >>> [int(x) for x in from_list([1, 2])]
    [1, 2]
    """
    return _Dataset._of(_listed(elements))


def Counter(start: _Any = 0, step: _Any = 1, dtype: _Any = "int64") -> _Dataset:
    """An infinite sequence of numbers."""
    return _Dataset.counter(start, step, dtype)


def RandomDataset(seed: _Any = None) -> _Dataset:
    """An infinite sequence of random numbers."""
    return _Dataset.random(seed)


def choose_from_datasets(datasets: _Any, choice_dataset: _Dataset, stop_on_empty_dataset: bool = False) -> _Dataset:
    """Take each element from the dataset whose number is next."""
    return _Dataset.choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset)


def sample_from_datasets(
    datasets: _Any, weights: _Any = None, seed: _Any = None, stop_on_empty_dataset: bool = False
) -> _Dataset:
    """Take each element from a random dataset."""
    return _Dataset.sample_from_datasets(datasets, weights, seed, stop_on_empty_dataset)


def _method(name: str, doc: str) -> _Callable[..., _Transformation]:
    def transformation(*args: _Any, **kwargs: _Any) -> _Transformation:
        return lambda dataset: getattr(dataset, name)(*args, **kwargs)

    transformation.__name__ = transformation.__qualname__ = name
    transformation.__doc__ = f"For `dataset.apply`: {doc}"
    return transformation


bucket_by_sequence_length = _method("bucket_by_sequence_length", "batches of elements of similar lengths.")
dense_to_ragged_batch = _method("ragged_batch", "elements of unknown sizes as the rows of ragged tensors.")
enumerate_dataset = _method("enumerate", "pairs of a number and an element.")
group_by_window = _method("group_by_window", "groups of elements with the same key.")
ignore_errors = _method("ignore_errors", "the elements that can be read.")
rejection_resample = _method("rejection_resample", "classes in wanted proportions.")
snapshot = _method("snapshot", "elements that are kept in a folder.")
scan = _method("scan", "a function with a state.")
take_while = _method("take_while", "the elements before the first that a function refuses.")
unbatch = _method("unbatch", "the rows of every element.")
unique = _method("unique", "elements that were not there before.")


def map_and_batch(
    map_func: _Any,
    batch_size: _Any,
    num_parallel_batches: _Any = None,
    drop_remainder: _Any = False,
    num_parallel_calls: _Any = None,
) -> _Transformation:
    """For `dataset.apply`: apply a function to every element, and batch the results."""
    return lambda dataset: dataset.map(map_func).batch(batch_size, drop_remainder)


def shuffle_and_repeat(buffer_size: _Any, count: _Any = None, seed: _Any = None) -> _Transformation:
    """For `dataset.apply`: shuffle and repeat, with a new order each time."""
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)


def parallel_interleave(
    map_func: _Any,
    cycle_length: _Any,
    block_length: _Any = 1,
    sloppy: _Any = False,
    buffer_output_elements: _Any = None,
    prefetch_input_elements: _Any = None,
) -> _Transformation:
    """For `dataset.apply`: take elements in turn from several datasets that a function returns."""
    return lambda dataset: dataset.interleave(map_func, cycle_length, block_length, num_parallel_calls=AUTOTUNE)


def copy_to_device(target_device: _Any, source_device: str = "/cpu:0") -> _Transformation:
    """For `dataset.apply`: the same dataset. `tf.device` around the iteration selects the device of the elements."""
    return lambda dataset: dataset


def prefetch_to_device(device: _Any, buffer_size: _Any = None) -> _Transformation:
    """For `dataset.apply`: compute elements in advance."""
    return lambda dataset: dataset.prefetch(AUTOTUNE if buffer_size is None else buffer_size)


def save(dataset: _Dataset, path: _Any, compression: _Any = None, shard_func: _Any = None) -> None:
    """Write all elements to a folder."""
    dataset.save(path, compression)


def load(path: _Any, element_spec: _Any = None, compression: _Any = None, reader_func: _Any = None) -> _Dataset:
    """The dataset that `save` wrote."""
    return _Dataset.load(path, element_spec, compression)


class TFRecordWriter:
    """Writes a dataset of strings to a TFRecord file, which appears when all of it is written."""

    def __init__(self, filename: _Any, compression_type: _Any = None) -> None:
        self._filename, self._options = _os.fspath(filename), _Options(compression_type)

    def write(self, dataset: _Dataset) -> None:
        def write_to(file: _Any) -> None:
            stream = _RecordStream(file, self._options.compression_type)
            for record in dataset:
                stream.write(_as_record(record))
            stream.finish()

        with _named_errors(self._filename):
            _atomic_write(self._filename, write_to)


__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "SHARD_HINT",
    "UNKNOWN_CARDINALITY",
    "AutoShardPolicy",
    "AutotuneAlgorithm",
    "AutotuneOptions",
    "Counter",
    "DistributeOptions",
    "ExternalStatePolicy",
    "OptimizationOptions",
    "Optional",
    "RandomDataset",
    "ServiceOptions",
    "TFRecordWriter",
    "ThreadingOptions",
    "assert_cardinality",
    "bucket_by_sequence_length",
    "cardinality",
    "choose_from_datasets",
    "copy_to_device",
    "dense_to_ragged_batch",
    "enable_debug_mode",
    "enumerate_dataset",
    "from_list",
    "get_next_as_optional",
    "get_single_element",
    "get_structure",
    "group_by_window",
    "ignore_errors",
    "load",
    "map_and_batch",
    "parallel_interleave",
    "prefetch_to_device",
    "rejection_resample",
    "sample_from_datasets",
    "save",
    "scan",
    "shuffle_and_repeat",
    "snapshot",
    "take_while",
    "unbatch",
    "unique",
]
