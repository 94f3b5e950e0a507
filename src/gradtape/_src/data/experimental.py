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
    """How workers share a dataset that a strategy distributes.

    FILE: each worker reads some of the files. DATA: each takes its part of every batch. OFF: each reads everything.
        AUTO: FILE for datasets that read files, otherwise DATA. HINT: DATA.

    >>> options = tf.data.Options()
    >>> options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    """

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


class AutotuneAlgorithm(_Enum):
    """The algorithm that chooses buffer sizes; no effect in gradtape.

    >>> tf.data.experimental.AutotuneAlgorithm.HILL_CLIMB.name
    'HILL_CLIMB'
    """

    DEFAULT = 0
    HILL_CLIMB = 1
    GRADIENT_DESCENT = 2
    MAX_PARALLELISM = 3
    STAGE_BASED = 4


class ExternalStatePolicy(_Enum):
    """Whether to warn about state outside a pipeline.

    >>> tf.data.experimental.ExternalStatePolicy.WARN.name
    'WARN'
    """

    WARN = 0
    IGNORE = 1
    FAIL = 2


def cardinality(dataset: _Dataset) -> _Tensor:
    """Return the number of elements; -1 if it is infinite, -2 if it is unknown.

    >>> int(tf.data.experimental.cardinality(tf.data.Dataset.range(3)))
    3
    """
    return dataset.cardinality()


def assert_cardinality(expected_cardinality: _Any) -> _Transformation:
    """Declare the number of elements, which is checked when they are read; for `dataset.apply`.

    >>> dataset = tf.data.Dataset.range(5).filter(lambda x: x < 3).apply(tf.data.experimental.assert_cardinality(3))
    >>> int(dataset.cardinality())
    3
    """
    return lambda dataset: dataset._next(_transforms.counted(dataset._pipeline, int(expected_cardinality)))


def get_single_element(dataset: _Dataset) -> _Any:
    """Return the element of a dataset with exactly one element.

    >>> int(tf.data.experimental.get_single_element(tf.data.Dataset.range(7, 8)))
    7
    """
    return dataset.get_single_element()


def get_next_as_optional(iterator: _Any) -> Optional:
    """Return the next element of an iterator, if there is one.

    >>> iterator = iter(tf.data.Dataset.range(1))
    >>> int(tf.data.experimental.get_next_as_optional(iterator).get_value())
    0
    """
    found: Optional = iterator.get_next_as_optional()
    return found


def get_structure(dataset_or_iterator: _Any) -> _Any:
    """Return the shapes and dtypes of the elements.

    >>> tf.data.experimental.get_structure(tf.data.Dataset.range(3))
    TensorSpec(shape=(), dtype=tf.int64, name=None)
    """
    return dataset_or_iterator.element_spec


def enable_debug_mode() -> None:
    """Run pipelines eagerly. gradtape always does.

    >>> tf.data.experimental.enable_debug_mode()
    """


def from_list(elements: _Any, name: str | None = None) -> _Dataset:
    """Create a dataset of the elements of a list.

    >>> [int(x) for x in tf.data.experimental.from_list([1, 2])]
    [1, 2]
    """
    return _Dataset._of(_listed(elements))


def Counter(start: _Any = 0, step: _Any = 1, dtype: _Any = "int64") -> _Dataset:
    """Create an infinite sequence of numbers.

    >>> list(tf.data.experimental.Counter(5).take(2).as_numpy_iterator())
    [np.int64(5), np.int64(6)]
    """
    return _Dataset.counter(start, step, dtype)


def RandomDataset(seed: _Any = None) -> _Dataset:
    """Create an infinite sequence of random numbers.

    >>> len(list(tf.data.experimental.RandomDataset(seed=1).take(3)))
    3
    """
    return _Dataset.random(seed)


def choose_from_datasets(datasets: _Any, choice_dataset: _Dataset, stop_on_empty_dataset: bool = False) -> _Dataset:
    """Take each element from the dataset whose number is next.

    >>> choice = tf.data.Dataset.from_tensor_slices(tf.constant([1, 0], tf.int64))
    >>> ranges = [tf.data.Dataset.range(3), tf.data.Dataset.range(10, 13)]
    >>> list(tf.data.experimental.choose_from_datasets(ranges, choice).as_numpy_iterator())
    [np.int64(10), np.int64(0)]
    """
    return _Dataset.choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset)


def sample_from_datasets(
    datasets: _Any, weights: _Any = None, seed: _Any = None, stop_on_empty_dataset: bool = False
) -> _Dataset:
    """Take each element from a randomly chosen dataset.

    >>> ones = tf.data.Dataset.from_tensors(1).repeat(2)
    >>> list(tf.data.experimental.sample_from_datasets([ones, ones]).as_numpy_iterator())
    [np.int32(1), np.int32(1), np.int32(1), np.int32(1)]
    """
    return _Dataset.sample_from_datasets(datasets, weights, seed, stop_on_empty_dataset)


def _method(name: str, doc: str) -> _Callable[..., _Transformation]:
    def transformation(*args: _Any, **kwargs: _Any) -> _Transformation:
        return lambda dataset: getattr(dataset, name)(*args, **kwargs)

    transformation.__name__ = transformation.__qualname__ = name
    transformation.__doc__ = doc
    return transformation


bucket_by_sequence_length = _method(
    "bucket_by_sequence_length",
    """Make batches of elements of similar lengths; for `dataset.apply`.

>>> rows = tf.data.Dataset.range(1, 4).map(lambda n: tf.range(n))
>>> by_length = tf.data.experimental.bucket_by_sequence_length(tf.size, [3], [2, 2])
>>> [b.tolist() for b in rows.apply(by_length).as_numpy_iterator()]
[[[0, 0], [0, 1]], [[0, 1, 2]]]
""",
)
dense_to_ragged_batch = _method(
    "ragged_batch",
    """Combine elements of unknown size into ragged tensors; for `dataset.apply`.

>>> rows = tf.data.Dataset.range(1, 4).map(lambda n: tf.range(n))
>>> next(iter(rows.apply(tf.data.experimental.dense_to_ragged_batch(3))))
<tf.RaggedTensor [[0], [0, 1], [0, 1, 2]]>
""",
)
enumerate_dataset = _method(
    "enumerate",
    """Pair each element with its number; for `dataset.apply`.

>>> dataset = tf.data.Dataset.from_tensor_slices([7, 8]).apply(tf.data.experimental.enumerate_dataset())
>>> [(int(i), int(x)) for i, x in dataset]
[(0, 7), (1, 8)]
""",
)
group_by_window = _method(
    "group_by_window",
    """Group elements with the same key; for `dataset.apply`.

>>> pairs = tf.data.experimental.group_by_window(lambda x: x % 2, lambda key, group: group.batch(2), 2)
>>> [b.tolist() for b in tf.data.Dataset.range(4).apply(pairs).as_numpy_iterator()]
[[0, 2], [1, 3]]
""",
)
ignore_errors = _method(
    "ignore_errors",
    """Skip the elements that raise an error; for `dataset.apply`.

>>> checked = tf.data.Dataset.from_tensor_slices([1.0, 0.0]).map(lambda x: tf.debugging.check_numerics(1 / x, ""))
>>> [float(x) for x in checked.apply(tf.data.experimental.ignore_errors())]
[1.0]
""",
)
rejection_resample = _method(
    "rejection_resample",
    """Resample to given class proportions; for `dataset.apply`.

>>> only_ones = tf.data.experimental.rejection_resample(lambda x: x, [0.0, 1.0], initial_dist=[0.5, 0.5])
>>> {int(c) for c, x in tf.data.Dataset.range(100).map(lambda x: x % 2).apply(only_ones)}
{1}
""",
)
snapshot = _method(
    "snapshot",
    """Keep the elements in a directory; for `dataset.apply`.

>>> import os, tempfile
>>> folder = os.path.join(tempfile.mkdtemp(), "kept")
>>> [int(x) for x in tf.data.Dataset.range(3).apply(tf.data.experimental.snapshot(folder))]
[0, 1, 2]
""",
)
scan = _method(
    "scan",
    """Apply a function with a state; for `dataset.apply`.

>>> sums = tf.data.experimental.scan(tf.constant(0, tf.int64), lambda total, x: (total + x, total + x))
>>> [int(x) for x in tf.data.Dataset.range(4).apply(sums)]
[0, 1, 3, 6]
""",
)
take_while = _method(
    "take_while",
    """Keep the elements before the first for which a function is False; for `dataset.apply`.

>>> [int(x) for x in tf.data.Dataset.range(5).apply(tf.data.experimental.take_while(lambda x: x < 2))]
[0, 1]
""",
)
unbatch = _method(
    "unbatch",
    """Split every element into its rows; for `dataset.apply`.

>>> [int(x) for x in tf.data.Dataset.range(4).batch(2).apply(tf.data.experimental.unbatch())]
[0, 1, 2, 3]
""",
)
unique = _method(
    "unique",
    """Remove duplicate elements; for `dataset.apply`.

>>> [int(x) for x in tf.data.Dataset.from_tensor_slices([1, 2, 1]).apply(tf.data.experimental.unique())]
[1, 2]
""",
)


def map_and_batch(
    map_func: _Any,
    batch_size: _Any,
    num_parallel_batches: _Any = None,
    drop_remainder: _Any = False,
    num_parallel_calls: _Any = None,
) -> _Transformation:
    """Apply a function to every element and batch the results; for `dataset.apply`.

    >>> dataset = tf.data.Dataset.range(4).apply(tf.data.experimental.map_and_batch(lambda x: x * 10, 2))
    >>> [b.tolist() for b in dataset.as_numpy_iterator()]
    [[0, 10], [20, 30]]
    """
    return lambda dataset: dataset.map(map_func).batch(batch_size, drop_remainder)


def shuffle_and_repeat(buffer_size: _Any, count: _Any = None, seed: _Any = None) -> _Transformation:
    """Shuffle and repeat, with a new order each time; for `dataset.apply`.

    >>> dataset = tf.data.Dataset.range(3).apply(tf.data.experimental.shuffle_and_repeat(3, count=2))
    >>> sorted(dataset.as_numpy_iterator())
    [np.int64(0), np.int64(0), np.int64(1), np.int64(1), np.int64(2), np.int64(2)]
    """
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)


def parallel_interleave(
    map_func: _Any,
    cycle_length: _Any,
    block_length: _Any = 1,
    sloppy: _Any = False,
    buffer_output_elements: _Any = None,
    prefetch_input_elements: _Any = None,
) -> _Transformation:
    """Take elements in turn from several datasets that a function returns; for `dataset.apply`.

    >>> decade = lambda n: tf.data.Dataset.range(n * 10, n * 10 + 2)
    >>> dataset = tf.data.Dataset.range(2).apply(tf.data.experimental.parallel_interleave(decade, cycle_length=2))
    >>> [int(x) for x in dataset]
    [0, 10, 1, 11]
    """
    return lambda dataset: dataset.interleave(map_func, cycle_length, block_length, num_parallel_calls=AUTOTUNE)


def copy_to_device(target_device: _Any, source_device: str = "/cpu:0") -> _Transformation:
    """Return the same dataset; for `dataset.apply`. Use `tf.device` around the iteration to select the device.

    >>> dataset = tf.data.Dataset.range(2).apply(tf.data.experimental.copy_to_device("/cpu:0"))
    >>> list(dataset.as_numpy_iterator())
    [np.int64(0), np.int64(1)]
    """
    return lambda dataset: dataset


def prefetch_to_device(device: _Any, buffer_size: _Any = None) -> _Transformation:
    """Compute elements in advance; for `dataset.apply`.

    >>> dataset = tf.data.Dataset.range(2).apply(tf.data.experimental.prefetch_to_device("/cpu:0"))
    >>> list(dataset.as_numpy_iterator())
    [np.int64(0), np.int64(1)]
    """
    return lambda dataset: dataset.prefetch(AUTOTUNE if buffer_size is None else buffer_size)


def save(dataset: _Dataset, path: _Any, compression: _Any = None, shard_func: _Any = None) -> None:
    """Write all elements to a directory.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "saved")
    >>> tf.data.experimental.save(tf.data.Dataset.range(2), path)
    >>> os.path.isdir(path)
    True
    """
    dataset.save(path, compression)


def load(path: _Any, element_spec: _Any = None, compression: _Any = None, reader_func: _Any = None) -> _Dataset:
    """Load a dataset that `save` wrote.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "saved")
    >>> tf.data.experimental.save(tf.data.Dataset.range(2), path)
    >>> list(tf.data.experimental.load(path).as_numpy_iterator())
    [np.int64(0), np.int64(1)]
    """
    return _Dataset.load(path, element_spec, compression)


class TFRecordWriter:
    """Write a dataset of strings to a TFRecord file, which appears when it is complete.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a.tfrecord")
    >>> tf.data.experimental.TFRecordWriter(path).write(tf.data.Dataset.from_tensor_slices(["a", "b"]))
    >>> list(tf.data.TFRecordDataset(path).as_numpy_iterator())
    [b'a', b'b']
    """

    def __init__(self, filename: _Any, compression_type: _Any = None) -> None:
        self._filename, self._options = _os.fspath(filename), _Options(compression_type)

    def write(self, dataset: _Dataset) -> None:
        """Write all elements of a dataset of strings."""

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
