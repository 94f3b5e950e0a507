"""`tf.data.Dataset`: TensorFlow's input pipelines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradtape._src import errors, nest
from gradtape._src.conversion import convert, wrap
from gradtape._src.data import batching, sources, storage, transforms
from gradtape._src.data.core import INFINITE, UNKNOWN, IterationSeeds, Pipeline, Run, as_int, outside, to_device
from gradtape._src.data.iterator import NumpyIterator, OwnedIterator, refuse_tracing
from gradtape._src.data.options import Options
from gradtape._src.data.structure import DatasetBatch
from gradtape._src.shape import TensorShape, TensorSpec
from gradtape._src.tensor import Tensor


class DatasetSpec:
    """The specification of a dataset inside a dataset or, with a `dataset_shape`, of an array of datasets.

    >>> windows = tf.data.Dataset.range(4).window(2)
    >>> spec = windows.element_spec
    >>> spec.value_type is tf.data.Dataset
    True
    >>> spec.is_compatible_with(tf.data.Dataset.range(2)), spec.is_compatible_with(tf.data.Dataset.from_tensors("a"))
    (True, False)
    """

    def __init__(self, element_spec: Any, dataset_shape: Any = ()) -> None:
        self.element_spec = element_spec
        self._shape = TensorShape(dataset_shape)

    @classmethod
    def from_value(cls, value: Dataset) -> DatasetSpec:
        """Return the specification of a dataset.

        >>> tf.data.DatasetSpec.from_value(tf.data.Dataset.range(2))
        DatasetSpec(TensorSpec(shape=(), dtype=tf.int64, name=None), TensorShape([]))
        """
        return cls(value.element_spec)

    @property
    def value_type(self) -> type:
        """The class of the specified value."""
        return Dataset

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Return whether a dataset, or another specification, has compatible elements."""
        if isinstance(spec_or_value, (Dataset, DatasetBatch)):
            spec_or_value = spec_or_value._element_of_dataset()
        if not isinstance(spec_or_value, DatasetSpec) or not self._shape.is_compatible_with(spec_or_value._shape):
            return False
        try:
            nest.assert_same_structure(self.element_spec, spec_or_value.element_spec)
        except (TypeError, ValueError):
            return False
        pairs = zip(nest.flatten(self.element_spec), nest.flatten(spec_or_value.element_spec), strict=True)
        return all(one.is_compatible_with(other) if hasattr(one, "is_compatible_with") else one == other
                   for one, other in pairs)  # fmt: skip

    def __repr__(self) -> str:
        return f"DatasetSpec({self.element_spec!r}, {self._shape!r})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, DatasetSpec)
            and self.element_spec == other.element_spec
            and repr(self._shape) == repr(other._shape)
        )

    def __hash__(self) -> int:
        return hash(str(self.element_spec))

    def _batched(self, size: int | None) -> DatasetSpec:
        return DatasetSpec(self.element_spec, TensorShape([size]).concatenate(self._shape))

    def _row(self) -> DatasetSpec:
        if not self._shape.rank:
            raise ValueError("Slicing dataset elements is not supported for rank 0.")
        return DatasetSpec(self.element_spec, self._shape[1:])

    def _stand_in(self, of: Callable[[Any], Any]) -> Any:
        element = nest.map_structure(of, self.element_spec)
        made = Dataset._of(Pipeline("_VariantDataset", lambda run: iter((element,)), lambda: self.element_spec, 1))
        return DatasetBatch([made]) if self._shape.rank else made


class Dataset:
    """A sequence of elements that are computed during iteration: tensors, or tuples and dicts of them.

    A dataset is immutable; its methods return new datasets. Every iteration starts from the beginning.

    >>> dataset = tf.data.Dataset.range(10).shuffle(10, seed=1).map(lambda x: x * x).batch(4)
    >>> len(dataset), dataset.element_spec
    (3, TensorSpec(shape=(None,), dtype=tf.int64, name=None))
    >>> sorted(int(x) for batch in dataset for x in batch)
    [0, 1, 4, 9, 16, 25, 36, 49, 64, 81]
    """

    _pipeline: Pipeline
    _options: Options | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError(
            "Can't instantiate abstract class Dataset: use Dataset.from_tensor_slices, from_generator, range or "
            "another one of its constructors."
        )

    @classmethod
    def _of(cls, pipeline: Pipeline, options: Options | None = None) -> Dataset:
        made: Dataset = object.__new__(Dataset)
        made._pipeline, made._options = pipeline, options
        return made

    def _next(self, pipeline: Pipeline) -> Dataset:
        return Dataset._of(pipeline.of_files_of(self._pipeline), self._options)

    # -- creation ------------------------------------------------------------------------------------------------------
    @staticmethod
    def from_tensors(tensors: Any, name: str | None = None) -> Dataset:
        """Create a dataset with one element.

        >>> list(tf.data.Dataset.from_tensors([1, 2]).as_numpy_iterator())
        [array([1, 2], dtype=int32)]
        """
        return Dataset._of(sources.tensors(tensors))

    @staticmethod
    def from_tensor_slices(tensors: Any, name: str | None = None) -> Dataset:
        """Create a dataset of the rows of arrays, which may be nested in tuples and dicts.

        >>> [(int(x), float(y)) for x, y in tf.data.Dataset.from_tensor_slices(([1, 2], [3.0, 4.0]))]
        [(1, 3.0), (2, 4.0)]
        """
        return Dataset._of(sources.slices(tensors))

    @staticmethod
    def from_generator(
        generator: Any,
        output_types: Any = None,
        output_shapes: Any = None,
        args: Any = None,
        output_signature: Any = None,
        name: str | None = None,
    ) -> Dataset:
        """Create a dataset of the values that a Python generator yields.

        Every iteration calls `generator(*args)`, where `args` are NumPy arrays.

        >>> dataset = tf.data.Dataset.from_generator(lambda: iter([1, 2]), output_types="int32")
        >>> [int(x) for x in dataset]
        [1, 2]
        """
        return Dataset._of(sources.generated(generator, output_types, output_shapes, args, output_signature))

    @staticmethod
    def range(*args: Any, **kwargs: Any) -> Dataset:
        """Create a dataset of the numbers of Python's `range`, as int64 or `output_type`.

        >>> [int(x) for x in tf.data.Dataset.range(5, 1, -2)]
        [5, 3]
        """
        output_type = kwargs.pop("output_type", "int64")
        kwargs.pop("name", None)
        if kwargs:
            raise TypeError(f"range() got an unexpected keyword argument {next(iter(kwargs))!r}")
        return Dataset._of(sources.numbers(args, output_type))

    @staticmethod
    def counter(start: Any = 0, step: Any = 1, dtype: Any = "int64", name: str | None = None) -> Dataset:
        """Create an infinite sequence of numbers.

        >>> list(tf.data.Dataset.counter(start=10, step=5).take(3).as_numpy_iterator())
        [np.int64(10), np.int64(15), np.int64(20)]
        """
        return Dataset._of(sources.counter(start, step, dtype))

    @staticmethod
    def random(seed: Any = None, rerandomize_each_iteration: Any = None, name: str | None = None) -> Dataset:
        """Create an infinite sequence of random int64 numbers.

        The numbers are the same in every iteration unless `rerandomize_each_iteration` is true.

        >>> a, b = ([int(x) for x in tf.data.Dataset.random(seed=4).take(2)] for _ in range(2))
        >>> a == b
        True
        """
        return Dataset._of(sources.random_numbers(seed, bool(rerandomize_each_iteration)))

    @staticmethod
    def zip(*args: Any, datasets: Any = None, name: str | None = None) -> Dataset:
        """Combine the elements of several datasets: `zip(a, b)`, `zip((a, b))` or `zip({"x": a})`.

        >>> [(int(x), int(y)) for x, y in tf.data.Dataset.zip(tf.data.Dataset.range(2), tf.data.Dataset.range(5, 9))]
        [(0, 5), (1, 6)]
        """
        if not args and datasets is None:
            raise TypeError("Must pass at least one dataset to `zip`.")
        if args and datasets is not None:
            raise TypeError("Both `*args` and `datasets` cannot be set.")
        given = datasets if datasets is not None else args[0] if len(args) == 1 else args
        if isinstance(given, list):
            raise TypeError(
                "Invalid input to `zip`. Inputs are expected to be (nested) structures of `tf.data.Dataset` objects. "
                "Python `list` is not supported and you should use `tuple` instead."
            )
        for dataset in nest.flatten(given):
            if not isinstance(dataset, Dataset):
                raise TypeError(
                    "Invalid input to `zip`. Inputs are expected to be (nested) structures of `tf.data.Dataset` "
                    f"objects but encountered object of type {type(dataset)}."
                )
        made = sources.zipped(nest.map_structure(lambda dataset: dataset._pipeline, given))
        return Dataset._of(made.of_files_of(*(dataset._pipeline for dataset in nest.flatten(given))))

    @staticmethod
    def list_files(
        file_pattern: Any, shuffle: bool | None = None, seed: Any = None, name: str | None = None
    ) -> Dataset:
        """Create a dataset of the file names that match the patterns, in random order unless `shuffle=False`.

        >>> import os, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> for name in ("b.txt", "a.txt", "c.csv"):
        ...     tf.io.write_file(os.path.join(folder, name), "")
        >>> files = tf.data.Dataset.list_files(os.path.join(folder, "*.txt"), shuffle=False)
        >>> [os.path.basename(name).decode() for name in files.as_numpy_iterator()]
        ['a.txt', 'b.txt']
        """
        found = Dataset.from_tensor_slices(sources.matching_files(file_pattern))
        return found if shuffle is False else found.shuffle(len(found), seed=seed)

    @staticmethod
    def choose_from_datasets(datasets: Any, choice_dataset: Dataset, stop_on_empty_dataset: bool = True) -> Dataset:
        """Take each element from the dataset whose number is next in `choice_dataset`.

        >>> choice = tf.data.Dataset.from_tensor_slices(tf.constant([1, 0, 1], tf.int64))
        >>> ranges = [tf.data.Dataset.range(3), tf.data.Dataset.range(10, 13)]
        >>> [int(x) for x in tf.data.Dataset.choose_from_datasets(ranges, choice)]
        [10, 0, 11]
        """
        pipelines = _pipelines(datasets)
        spec = choice_dataset.element_spec
        if not transforms.is_scalar_int64(spec):
            raise TypeError(
                "Invalid `choice_dataset`. Elements of `choice_dataset` must be scalar `tf.int64` tensors but are "
                f"{spec}."
            )

        def choices(run: Run) -> Any:
            return (int(np.asarray(tensor.array)) for tensor in choice_dataset._pipeline.elements(run))

        return Dataset._of(sources.directed(pipelines, choices, stop_on_empty_dataset))

    @staticmethod
    def sample_from_datasets(
        datasets: Any,
        weights: Any = None,
        seed: Any = None,
        stop_on_empty_dataset: bool = False,
        rerandomize_each_iteration: Any = None,
    ) -> Dataset:
        """Take each element from a randomly chosen dataset, with the given weights.

        >>> zeros, ones = (tf.data.Dataset.from_tensors(x).repeat() for x in (0, 1))
        >>> list(tf.data.Dataset.sample_from_datasets([zeros, ones], weights=[0.0, 1.0]).take(3).as_numpy_iterator())
        [np.int32(1), np.int32(1), np.int32(1)]
        """
        pipelines = _pipelines(datasets)
        chances: Any = weights._pipeline if isinstance(weights, Dataset) else weights
        if weights is not None and not isinstance(weights, Dataset):
            chances = np.asarray(convert(weights).array, np.float64)
            if len(chances) != len(pipelines):
                raise ValueError(
                    "Invalid `weights`. `weights` should have the same length as `datasets` but got `len(weights)="
                    f"{len(chances)}` vs. `len(datasets)={len(pipelines)}`."
                )
        if len(pipelines) == 1:
            return Dataset._of(pipelines[0])
        own = IterationSeeds(seed, bool(rerandomize_each_iteration) or seed is None)
        return Dataset._of(
            sources.directed(pipelines, sources.drawn(chances, len(pipelines), own), stop_on_empty_dataset)
        )

    # -- iteration -----------------------------------------------------------------------------------------------------
    def __iter__(self) -> Iterator[Any]:
        return OwnedIterator(self._pipeline)

    def as_numpy_iterator(self) -> NumpyIterator:
        """Iterate over the elements, with NumPy arrays in place of tensors.

        >>> list(tf.data.Dataset.range(2).as_numpy_iterator())
        [np.int64(0), np.int64(1)]
        """
        return NumpyIterator(OwnedIterator(self._pipeline))

    def __len__(self) -> int:
        size = self._pipeline.size
        if size == INFINITE:
            raise TypeError("The dataset is infinite.")
        if size == UNKNOWN:
            raise TypeError("The dataset length is unknown.")
        return size

    def __bool__(self) -> bool:
        return True

    def cardinality(self, name: str | None = None) -> Tensor:
        """Return the number of elements; -1 if it is infinite, -2 if it is unknown.

        >>> int(tf.data.Dataset.range(5).batch(2).cardinality()), int(tf.data.Dataset.range(5).repeat().cardinality())
        (3, -1)
        """
        return wrap(np.array(self._pipeline.size, np.int64))

    @property
    def element_spec(self) -> Any:
        """The shapes and dtypes of the elements. Reading it may call functions of the pipeline."""
        return self._pipeline.spec

    def __repr__(self) -> str:
        return f"<{self._pipeline.kind} element_spec={self.element_spec!r}>"

    def _repr_html_(self) -> str:
        """The dataset in a notebook: the number and the specification of its elements, without computing any."""
        from html import escape

        count = self._pipeline.size
        known = "1 element" if count == 1 else f"{count:,} elements"
        size = {-1: "infinite", -2: "of unknown length"}.get(count, known)
        rows = "".join(
            "<tr>" + "".join(f"<td style='text-align:left'><code>{escape(text)}</code></td>" for text in row) + "</tr>"
            for row in _spec_rows("", self.element_spec)
        )
        return f"<div><strong>{escape(self._pipeline.kind.strip('_'))}</strong> {size}<table>{rows}</table></div>"

    def _element_of_dataset(self) -> DatasetSpec:
        return DatasetSpec(self.element_spec)

    def get_single_element(self, name: str | None = None) -> Any:
        """Return the element of a dataset with exactly one element.

        >>> int(tf.data.Dataset.range(3).batch(3).get_single_element()[2])
        2
        """
        found = [element for element, _ in zip(self, range(2))]  # noqa: B905 - at most two
        if len(found) != 1:
            sentence = "Dataset had more than one element." if found else "Dataset was empty."
            raise errors.invalid_argument(sentence, "DatasetToSingleElement")
        return found[0]

    def reduce(self, initial_state: Any, reduce_func: Any, name: str | None = None) -> Any:
        """Fold the elements: `reduce_func(state, element)` returns the next state; the last state is returned.

        >>> int(tf.data.Dataset.range(5).reduce(np.int64(0), lambda state, x: state + x))
        10
        """
        refuse_tracing()
        with outside():
            state = transforms.reduced(self._pipeline.elements(Run()), initial_state, reduce_func)
        return to_device(state)

    # -- order and number ----------------------------------------------------------------------------------------------
    def shuffle(
        self, buffer_size: Any, seed: Any = None, reshuffle_each_iteration: Any = True, name: str | None = None
    ) -> Dataset:
        """Shuffle the elements: each one is drawn from a buffer of `buffer_size` elements.

        Every iteration has a new order unless `reshuffle_each_iteration` is False. A seed, given here or with
        `tf.random.set_seed`, makes the sequence of orders reproducible; it differs from TensorFlow's.
        """
        return self._next(transforms.shuffle(self._pipeline, buffer_size, seed, reshuffle_each_iteration))

    def repeat(self, count: Any = None, name: str | None = None) -> Dataset:
        """Repeat the dataset `count` times; forever if `count` is None or -1.

        >>> list(tf.data.Dataset.range(2).repeat(2).as_numpy_iterator())
        [np.int64(0), np.int64(1), np.int64(0), np.int64(1)]
        """
        return self._next(transforms.repeat(self._pipeline, count))

    def take(self, count: Any, name: str | None = None) -> Dataset:
        """Keep the first elements; all of them if `count` is -1.

        >>> list(tf.data.Dataset.range(5).take(2).as_numpy_iterator())
        [np.int64(0), np.int64(1)]
        """
        return self._next(transforms.take(self._pipeline, count))

    def skip(self, count: Any, name: str | None = None) -> Dataset:
        """Skip the first elements; all of them if `count` is -1.

        >>> list(tf.data.Dataset.range(5).skip(3).as_numpy_iterator())
        [np.int64(3), np.int64(4)]
        """
        return self._next(transforms.skip(self._pipeline, count))

    def shard(self, num_shards: Any, index: Any, name: str | None = None) -> Dataset:
        """Keep every `num_shards`-th element, starting at `index`.

        >>> list(tf.data.Dataset.range(6).shard(num_shards=3, index=1).as_numpy_iterator())
        [np.int64(1), np.int64(4)]
        """
        return self._next(transforms.shard(self._pipeline, num_shards, index))

    def concatenate(self, dataset: Dataset, name: str | None = None) -> Dataset:
        """Append the elements of another dataset.

        >>> list(tf.data.Dataset.range(2).concatenate(tf.data.Dataset.range(5, 7)).as_numpy_iterator())
        [np.int64(0), np.int64(1), np.int64(5), np.int64(6)]
        """
        made = sources.concatenated(self._pipeline, dataset._pipeline)
        made.spec  # noqa: B018 - raises if they do not fit
        return self._next(made.of_files_of(self._pipeline, dataset._pipeline))

    def enumerate(self, start: Any = 0, name: str | None = None) -> Dataset:
        """Pair each element with its number.

        >>> [(int(i), int(x)) for i, x in tf.data.Dataset.range(7, 9).enumerate(start=1)]
        [(1, 7), (2, 8)]
        """
        count = Dataset.range(as_int(start, "start"), 2**63 - 1)
        return self._next(sources.zipped((count._pipeline, self._pipeline)))

    def unique(self, name: str | None = None) -> Dataset:
        """Remove duplicate elements.

        >>> list(tf.data.Dataset.from_tensor_slices([1, 2, 1, 3]).unique().as_numpy_iterator())
        [np.int32(1), np.int32(2), np.int32(3)]
        """
        return self._next(transforms.unique(self._pipeline))

    # -- functions -----------------------------------------------------------------------------------------------------
    def map(
        self,
        map_func: Any,
        num_parallel_calls: Any = None,
        deterministic: Any = None,
        synchronous: Any = None,
        use_unbounded_threadpool: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Apply a function, eagerly and one call at a time, to every element; the parts of a tuple are its arguments.

        >>> dataset = tf.data.Dataset.from_tensor_slices(([1, 2], [3, 4])).map(lambda x, y: {"sum": x + y})
        >>> [int(element["sum"]) for element in dataset]
        [4, 6]
        """
        kind = "_MapDataset" if num_parallel_calls is None else "_ParallelMapDataset"
        return self._next(transforms.mapped(self._pipeline, map_func, kind))

    def filter(self, predicate: Any, name: str | None = None) -> Dataset:
        """Keep the elements for which a function returns True.

        >>> list(tf.data.Dataset.range(6).filter(lambda x: x % 2 == 0).as_numpy_iterator())
        [np.int64(0), np.int64(2), np.int64(4)]
        """
        return self._next(transforms.filtered(self._pipeline, predicate))

    def take_while(self, predicate: Any, name: str | None = None) -> Dataset:
        """Keep the elements before the first one for which a function returns False.

        >>> list(tf.data.Dataset.range(5).take_while(lambda x: x < 2).as_numpy_iterator())
        [np.int64(0), np.int64(1)]
        """
        return self._next(transforms.take_while(self._pipeline, predicate))

    def flat_map(self, map_func: Any, name: str | None = None) -> Dataset:
        """Apply a function that returns a dataset to every element, and concatenate the datasets.

        >>> dataset = tf.data.Dataset.range(1, 4).flat_map(lambda n: tf.data.Dataset.range(n))
        >>> list(dataset.as_numpy_iterator())
        [np.int64(0), np.int64(0), np.int64(1), np.int64(0), np.int64(1), np.int64(2)]
        """
        return self._next(transforms.flat_map(self._pipeline, map_func))

    def interleave(
        self,
        map_func: Any,
        cycle_length: Any = None,
        block_length: Any = None,
        num_parallel_calls: Any = None,
        deterministic: Any = None,
        name: str | None = None,
    ) -> Dataset:
        """Take `block_length` elements in turn from each of `cycle_length` datasets that a function returns.

        >>> dataset = tf.data.Dataset.range(3).interleave(
        ...     lambda x: tf.data.Dataset.from_tensors(x).repeat(2), cycle_length=2
        ... )
        >>> [int(x) for x in dataset]
        [0, 1, 0, 1, 2, 2]
        """
        kind = "_InterleaveDataset" if num_parallel_calls is None else "_ParallelInterleaveDataset"
        return self._next(transforms.interleaved(self._pipeline, map_func, cycle_length, block_length, kind))

    def scan(self, initial_state: Any, scan_func: Any, name: str | None = None) -> Dataset:
        """Apply a function to a state and every element; it returns the next state and a new element.

        >>> dataset = tf.data.Dataset.range(1, 5)
        >>> sums = dataset.scan(tf.constant(0, tf.int64), lambda total, x: (total + x, total + x))
        >>> [int(x) for x in sums]
        [1, 3, 6, 10]
        """
        return self._next(transforms.scan(self._pipeline, initial_state, scan_func))

    def apply(self, transformation_func: Any, name: str | None = None) -> Dataset:
        """Return the result of a function of this dataset.

        >>> dataset = tf.data.Dataset.range(5).apply(lambda d: d.filter(lambda x: x > 2))
        >>> list(dataset.as_numpy_iterator())
        [np.int64(3), np.int64(4)]
        """
        made = transformation_func(self)
        if not isinstance(made, Dataset):
            raise TypeError(f"`transformation_func` must return a `tf.data.Dataset` object. Got {type(made)}.")
        return made

    # -- batches -------------------------------------------------------------------------------------------------------
    def batch(
        self,
        batch_size: Any,
        drop_remainder: Any = False,
        num_parallel_calls: Any = None,
        deterministic: Any = None,
        name: str | None = None,
    ) -> Dataset:
        """Stack elements along a new first axis.

        >>> [x.tolist() for x in tf.data.Dataset.range(5).batch(2).as_numpy_iterator()]
        [[0, 1], [2, 3], [4]]
        """
        kind = "_BatchDataset" if num_parallel_calls is None else "_ParallelBatchDataset"
        return self._next(batching.batch(self._pipeline, batch_size, drop_remainder, kind))

    def ragged_batch(
        self, batch_size: Any, drop_remainder: Any = False, row_splits_dtype: Any = "int64", name: str | None = None
    ) -> Dataset:
        """Combine consecutive elements; elements of unknown size become rows of a ragged tensor.

        >>> dataset = tf.data.Dataset.range(1, 4).map(lambda n: tf.constant(np.arange(int(n))))
        >>> next(iter(dataset.ragged_batch(3)))
        <tf.RaggedTensor [[0], [0, 1], [0, 1, 2]]>
        """
        return self._next(batching.ragged_batch(self._pipeline, batch_size, drop_remainder, row_splits_dtype))

    def padded_batch(
        self,
        batch_size: Any,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: Any = False,
        name: str | None = None,
    ) -> Dataset:
        """Stack elements of different shapes, padded with zeros, empty strings or `padding_values`.

        >>> rows = tf.data.Dataset.range(1, 4).map(lambda n: tf.range(n))
        >>> next(rows.padded_batch(3).as_numpy_iterator()).tolist()
        [[0, 0, 0], [0, 1, 0], [0, 1, 2]]
        """
        return self._next(
            batching.padded_batch(self._pipeline, batch_size, padded_shapes, padding_values, drop_remainder)
        )

    def unbatch(self, name: str | None = None) -> Dataset:
        """Split every element into its rows.

        >>> list(tf.data.Dataset.range(4).batch(2).unbatch().as_numpy_iterator())
        [np.int64(0), np.int64(1), np.int64(2), np.int64(3)]
        """
        return self._next(batching.unbatch(self._pipeline))

    def rebatch(self, batch_size: Any, drop_remainder: Any = False, name: str | None = None) -> Dataset:
        """Change the batch size; a list gives several sizes that are used in turn.

        >>> [b.tolist() for b in tf.data.Dataset.range(6).batch(3).rebatch(2).as_numpy_iterator()]
        [[0, 1], [2, 3], [4, 5]]
        """
        return self._next(batching.rebatch(self._pipeline, batch_size, drop_remainder))

    def window(
        self, size: Any, shift: Any = None, stride: Any = 1, drop_remainder: Any = False, name: str | None = None
    ) -> Dataset:
        """Divide the dataset into datasets of `size` elements; each begins `shift` elements after the previous one.

        >>> windows = tf.data.Dataset.range(5).window(3, shift=1, drop_remainder=True)
        >>> [x.tolist() for x in windows.flat_map(lambda window: window.batch(3)).as_numpy_iterator()]
        [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
        """
        return self._next(batching.window(self._pipeline, size, shift, stride, drop_remainder, Dataset._of))

    def group_by_window(
        self,
        key_func: Any,
        reduce_func: Any,
        window_size: Any = None,
        window_size_func: Any = None,
        name: str | None = None,
    ) -> Dataset:
        """Group `window_size` elements with the same key, and replace each group with `reduce_func(key, group)`.

        >>> dataset = tf.data.Dataset.range(4)
        >>> pairs = dataset.group_by_window(lambda x: x % 2, lambda key, group: group.batch(2), window_size=2)
        >>> [b.tolist() for b in pairs.as_numpy_iterator()]
        [[0, 2], [1, 3]]
        """
        return self._next(
            batching.group_by_window(self._pipeline, key_func, reduce_func, window_size, window_size_func, Dataset._of)
        )

    def bucket_by_sequence_length(
        self,
        element_length_func: Any,
        bucket_boundaries: Any,
        bucket_batch_sizes: Any,
        padded_shapes: Any = None,
        padding_values: Any = None,
        pad_to_bucket_boundary: bool = False,
        no_padding: bool = False,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Make padded batches of elements of similar lengths.

        >>> rows = tf.data.Dataset.range(1, 4).map(lambda n: tf.range(n))
        >>> batches = rows.bucket_by_sequence_length(tf.size, bucket_boundaries=[3], bucket_batch_sizes=[2, 2])
        >>> [b.tolist() for b in batches.as_numpy_iterator()]
        [[[0, 0], [0, 1]], [[0, 1, 2]]]
        """
        return self._next(
            batching.bucket(
                self._pipeline,
                element_length_func,
                list(bucket_boundaries),
                list(bucket_batch_sizes),
                padded_shapes,
                padding_values,
                pad_to_bucket_boundary,
                no_padding,
                drop_remainder,
                Dataset._of,
            )
        )

    # -- memory and time -----------------------------------------------------------------------------------------------
    def cache(self, filename: Any = "", name: str | None = None) -> Dataset:
        """Keep the elements of the first complete iteration, in memory or in a file, for later iterations.

        >>> dataset = tf.data.Dataset.range(3).map(lambda x: x * x).cache()
        >>> list(dataset.as_numpy_iterator())
        [np.int64(0), np.int64(1), np.int64(4)]
        """
        path = storage.path_of(filename)
        return self._next(storage.cached_in_file(self._pipeline, path) if path else transforms.cached(self._pipeline))

    def prefetch(self, buffer_size: Any, name: str | None = None) -> Dataset:
        """Compute up to `buffer_size` elements in advance, in another thread.

        >>> list(tf.data.Dataset.range(3).prefetch(tf.data.AUTOTUNE).as_numpy_iterator())
        [np.int64(0), np.int64(1), np.int64(2)]
        """
        return self._next(transforms.prefetched(self._pipeline, buffer_size))

    def save(
        self, path: Any, compression: str | None = None, shard_func: Any = None, checkpoint_args: Any = None
    ) -> None:
        """Write all elements to a directory, from which `Dataset.load` reads them.

        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "saved")
        >>> tf.data.Dataset.range(3).save(path)
        >>> list(tf.data.Dataset.load(path).as_numpy_iterator())
        [np.int64(0), np.int64(1), np.int64(2)]
        """
        refuse_tracing()
        with outside():
            storage.save(self._pipeline, storage.path_of(path), compression)

    @staticmethod
    def load(
        path: Any,
        element_spec: Any = None,
        compression: str | None = None,
        reader_func: Any = None,
        wait: bool = False,
    ) -> Dataset:
        """Load a dataset that `save` wrote.

        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "saved")
        >>> tf.data.Dataset.range(3).save(path)
        >>> list(tf.data.Dataset.load(path).as_numpy_iterator())
        [np.int64(0), np.int64(1), np.int64(2)]
        """
        return Dataset._of(storage.load(storage.path_of(path), element_spec, compression, DatasetSpec))

    def snapshot(
        self,
        path: Any,
        compression: Any = "AUTO",
        reader_func: Any = None,
        shard_func: Any = None,
        name: str | None = None,
    ) -> Dataset:
        """Keep the elements of the first complete iteration in a directory, for later iterations and other programs.

        >>> import os, tempfile
        >>> dataset = tf.data.Dataset.range(3).snapshot(os.path.join(tempfile.mkdtemp(), "kept"))
        >>> list(dataset.as_numpy_iterator())
        [np.int64(0), np.int64(1), np.int64(2)]
        """
        return self._next(storage.snapshot(self._pipeline, storage.path_of(path)))

    def ignore_errors(self, log_warning: bool = False, name: str | None = None) -> Dataset:
        """Skip the elements that raise an error.

        >>> inverse = tf.data.Dataset.from_tensor_slices([1.0, 0.0])
        >>> inverse = inverse.map(lambda x: tf.debugging.check_numerics(1 / x, ""))
        >>> [float(x) for x in inverse.ignore_errors()]
        [1.0]
        """
        return self._next(transforms.ignore_errors(self._pipeline, log_warning))

    def rejection_resample(
        self, class_func: Any, target_dist: Any, initial_dist: Any = None, seed: Any = None, name: str | None = None
    ) -> Dataset:
        """Resample to pairs (class, element) in which the classes have the distribution `target_dist`.

        >>> dataset = tf.data.Dataset.range(100).map(lambda x: x % 2)
        >>> pairs = dataset.rejection_resample(lambda x: x, target_dist=[0.0, 1.0], initial_dist=[0.5, 0.5])
        >>> {int(c) for c, x in pairs}
        {1}
        """
        return self._next(sources.resampled(self._pipeline, class_func, target_dist, initial_dist, seed))

    # -- options -------------------------------------------------------------------------------------------------------
    def options(self) -> Options:
        """Return the options set with `with_options`.

        >>> isinstance(tf.data.Dataset.range(3).options(), tf.data.Options)
        True
        """
        return Options() if self._options is None else self._options

    def with_options(self, options: Options, name: str | None = None) -> Dataset:
        """Return the same dataset with options, which have no effect in gradtape.

        >>> options = tf.data.Options()
        >>> options.deterministic = False
        >>> tf.data.Dataset.range(3).with_options(options).options().deterministic
        False
        """
        if not isinstance(options, Options):
            raise TypeError(f"`options` must be a tf.data.Options object. Got {type(options)}.")
        renamed = transforms.renamed(self._pipeline, "_OptionsDataset").of_files_of(self._pipeline)
        return Dataset._of(renamed, self.options().merge(options))


def _spec_rows(path: str, spec: Any) -> Iterator[tuple[str, ...]]:
    """The parts of a structure of specifications: where each one is, its dtype and its shape."""
    if isinstance(spec, dict):
        parts = [(f"{path}[{key!r}]", part) for key, part in spec.items()]
    elif isinstance(spec, (list, tuple)):
        parts = [(f"{path}[{i}]", part) for i, part in enumerate(spec)]
    elif type(spec) is TensorSpec:
        yield path, spec.dtype.name, str(spec.shape)
        return
    else:
        yield path, str(spec)
        return
    for where, part in parts:
        yield from _spec_rows(where, part)


def _pipelines(datasets: Any) -> list[Pipeline]:
    if not datasets:
        raise ValueError("Invalid `datasets`. `datasets` should not be empty.")
    return [dataset._pipeline for dataset in datasets]
