"""Datasets of `tf.data.experimental` that parse, group or query: `Example` files, reducers by key, SQLite tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradtape._src import errors, nest
from gradtape._src.conversion import convert, wrap
from gradtape._src.data.core import AUTOTUNE
from gradtape._src.data.dataset import Dataset
from gradtape._src.data.files import TFRecordDataset
from gradtape._src.dtypes import as_dtype
from gradtape._src.ops.sparse_tensor import SparseTensor, SparseTensorSpec
from gradtape._src.shape import TensorShape, TensorSpec
from gradtape._src.tf.parsing import parse_example

__all__ = [
    "Reducer",
    "SqlDataset",
    "dense_to_sparse_batch",
    "group_by_reducer",
    "make_batched_features_dataset",
    "parse_example_dataset",
]

_Transformation = Callable[[Dataset], Dataset]


# -- groups ------------------------------------------------------------------------------------------------------------
class Reducer:
    """How `group_by_reducer` reduces the elements of a key: the first state, the next one, and the result.

    >>> reducer = tf.data.experimental.Reducer(lambda key: 0, lambda state, x: state + 1, lambda state: state)
    >>> reducer.init_func(1), reducer.reduce_func(2, None), reducer.finalize_func(3)
    (0, 3, 3)
    """

    def __init__(
        self, init_func: Callable[..., Any], reduce_func: Callable[..., Any], finalize_func: Callable[..., Any]
    ) -> None:
        self._functions = init_func, reduce_func, finalize_func

    @property
    def init_func(self) -> Callable[..., Any]:
        """The function that returns the first state of a key."""
        return self._functions[0]

    @property
    def reduce_func(self) -> Callable[..., Any]:
        """The function of a state and an element that returns the next state."""
        return self._functions[1]

    @property
    def finalize_func(self) -> Callable[..., Any]:
        """The function that turns the last state into an element."""
        return self._functions[2]


def group_by_reducer(key_func: Callable[..., Any], reducer: Reducer) -> _Transformation:
    """Reduce the elements of each key to one element, in the order of the keys; for `dataset.apply`.

    >>> count = tf.data.experimental.Reducer(lambda key: tf.constant(0), lambda n, x: n + 1, lambda n: n)
    >>> dataset = tf.data.Dataset.range(5).apply(tf.data.experimental.group_by_reducer(lambda x: x % 2, count))
    >>> [int(n) for n in dataset]
    [3, 2]
    """

    def apply(dataset: Dataset) -> Dataset:
        def grouped() -> Iterator[Any]:
            states: dict[int, Any] = {}
            for element in dataset:
                parts = element if type(element) is tuple else (element,)
                key = convert(key_func(*parts))
                if key.dtype.name != "int64" or key.shape.rank != 0:
                    raise ValueError(
                        "`key_func` must return a single tf.int64 tensor. "
                        f"Got type={key.dtype!r} and shape={key.shape}."
                    )
                number = int(key.numpy())
                if number not in states:
                    states[number] = reducer.init_func(key)
                states[number] = nest.map_structure(convert, reducer.reduce_func(states[number], element))
            for number in sorted(states):
                yield reducer.finalize_func(*_arguments(states[number]))

        first = reducer.init_func(wrap(np.int64(0)))
        result = reducer.finalize_func(*_arguments(nest.map_structure(convert, first)))
        return _generated(grouped, nest.map_structure(lambda x: _any_shape(convert(x)), result))

    return apply


def _arguments(state: Any) -> tuple[Any, ...]:
    return state if type(state) is tuple else (state,)


def _any_shape(tensor: Any) -> TensorSpec:
    rank = tensor.shape.rank
    return TensorSpec(TensorShape(None) if rank else tensor.shape, tensor.dtype)


def _generated(generator: Callable[[], Iterator[Any]], signature: Any) -> Dataset:
    return Dataset.from_generator(generator, output_signature=signature)


# -- sparse batches ----------------------------------------------------------------------------------------------------
def dense_to_sparse_batch(batch_size: Any, row_shape: Any) -> _Transformation:
    """Combine tensors of different shapes to batches as sparse tensors of shape [rows, *row_shape]; for `apply`.

    >>> dataset = tf.data.Dataset.range(1, 4).map(lambda n: tf.fill([n], n))
    >>> (batch,) = dataset.apply(tf.data.experimental.dense_to_sparse_batch(3, [4]))
    >>> tf.sparse.to_dense(batch).numpy().tolist()
    [[1, 0, 0, 0], [2, 2, 0, 0], [3, 3, 3, 0]]
    """
    limits, count = TensorShape(row_shape), int(convert(batch_size, "int64").numpy())
    if count < 1:
        raise errors.invalid_argument(f"Batch size must be greater than zero, but got {count}")

    def apply(dataset: Dataset) -> Dataset:
        spec = dataset.element_spec
        if not isinstance(spec, TensorSpec):
            raise TypeError(f"`dense_to_sparse_batch` requires an input of tensors, but got {spec!r}.")

        def batches() -> Iterator[SparseTensor]:
            rows: list[np.ndarray] = []
            for element in dataset:
                _check_row(element.numpy(), limits)
                rows.append(np.asarray(element.numpy()))
                if len(rows) == count:
                    yield _sparse(rows, limits)
                    rows = []
            if rows:
                yield _sparse(rows, limits)

        return _generated(batches, SparseTensorSpec([None, *limits], spec.dtype))

    return apply


def _check_row(row: Any, limits: TensorShape) -> None:
    shape = np.shape(row)
    if len(shape) != limits.rank:
        raise errors.invalid_argument(
            f"Input element had shape ({errors.brackets(shape)}) that is incompatible with the row shape "
            f"({errors.brackets(limits.as_list())})."
        )
    for axis, (size, limit) in enumerate(zip(shape, limits.as_list(), strict=True)):
        if limit is not None and size > limit:
            raise errors.DataLossError(
                None, None, f"Input element had shape {errors.brackets(shape)} that is larger than the row shape in "
                f"axis {axis}: at most {limit}."
            )  # fmt: skip


def _sparse(rows: list[np.ndarray], limits: TensorShape) -> SparseTensor:
    where = np.concatenate(
        [np.insert(np.argwhere(np.ones(row.shape, bool)), 0, i, axis=1) for i, row in enumerate(rows)]
    )
    sizes = [
        max(row.shape[axis] for row in rows) if limit is None else limit for axis, limit in enumerate(limits.as_list())
    ]
    values = np.concatenate([row.ravel() for row in rows])
    return SparseTensor(wrap(where.astype(np.int64)), wrap(values), wrap(np.array([len(rows), *sizes], np.int64)))


# -- examples ----------------------------------------------------------------------------------------------------------
def parse_example_dataset(
    features: Any, num_parallel_calls: Any = 1, deterministic: bool | None = None
) -> _Transformation:
    """Parse batches of serialized `Example` messages into dictionaries of tensors; for `dataset.apply`.

    >>> features = tf.train.Features(feature={"x": tf.train.Feature(int64_list=tf.train.Int64List(value=[7]))})
    >>> records = [tf.train.Example(features=features).SerializeToString()] * 2
    >>> parse = tf.data.experimental.parse_example_dataset({"x": tf.io.FixedLenFeature([], tf.int64)})
    >>> [x["x"].numpy().tolist() for x in tf.data.Dataset.from_tensor_slices(records).batch(2).apply(parse)]
    [[7, 7]]
    """
    if features is None:
        raise ValueError("Argument `features` is required, but not specified.")

    def apply(dataset: Dataset) -> Dataset:
        spec = dataset.element_spec
        if not isinstance(spec, TensorSpec) or spec.dtype.name != "string" or spec.shape.rank not in (None, 1):
            raise TypeError(
                f"Input dataset should be a dataset of vectors of strings. Instead it is a dataset of {spec}."
            )
        return dataset.map(lambda records: parse_example(records, features), num_parallel_calls)

    return apply


def make_batched_features_dataset(
    file_pattern: Any,
    batch_size: Any,
    features: Any,
    reader: Any = None,
    label_key: Any = None,
    reader_args: Any = None,
    num_epochs: Any = None,
    shuffle: bool = True,
    shuffle_buffer_size: int = 10000,
    shuffle_seed: Any = None,
    prefetch_buffer_size: Any = None,
    reader_num_threads: Any = None,
    parser_num_threads: Any = None,
    sloppy_ordering: bool = False,
    drop_final_batch: bool = False,
) -> Dataset:
    """Return batches of the features of `Example` messages in files, by default TFRecord files.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "records")
    >>> feature = {"x": tf.train.Feature(int64_list=tf.train.Int64List(value=[7]))}
    >>> with tf.io.TFRecordWriter(path) as writer:
    ...     writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    >>> features = {"x": tf.io.FixedLenFeature([], tf.int64)}
    >>> dataset = tf.data.experimental.make_batched_features_dataset(path, 2, features, num_epochs=1)
    >>> [batch["x"].numpy().tolist() for batch in dataset]
    [[7]]
    """
    if label_key is not None and label_key not in features:
        raise ValueError(
            f"The `label_key` provided ({label_key!r}) must be one of the `features` keys: {features.keys()}."
        )
    read = TFRecordDataset if reader is None else reader
    files = Dataset.list_files(file_pattern, shuffle=shuffle, seed=shuffle_seed)
    threads = 1 if reader_num_threads is None else reader_num_threads
    dataset = files.interleave(
        lambda name: read(name, *(reader_args or [])), cycle_length=1 if threads == AUTOTUNE else threads
    )
    spec = dataset.element_spec
    if isinstance(spec, tuple):
        if len(spec) != 2 or not all(isinstance(each, TensorSpec) and each.dtype.name == "string" for each in spec):
            raise TypeError(
                "`reader` must be a dataset of `tf.string` values, or `(tf.string, tf.string)` key-value pairs."
            )
        dataset = dataset.map(lambda _, value: value)
    if shuffle:
        dataset = dataset.shuffle(shuffle_buffer_size, shuffle_seed)
    if num_epochs != 1:
        dataset = dataset.repeat(num_epochs)
    dataset = dataset.batch(batch_size, drop_remainder=drop_final_batch or num_epochs is None)
    dataset = dataset.apply(parse_example_dataset(features, parser_num_threads or 1))
    if label_key is not None:
        dataset = dataset.map(lambda batch: (batch, batch.pop(label_key)))
    return dataset.prefetch(AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size)


# -- tables ------------------------------------------------------------------------------------------------------------
_NUMBERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "float64", "bool", "string"]


class SqlDataset(Dataset):
    """The rows that a query of an SQLite database returns: tuples of scalars of `output_types`.

    >>> import os, sqlite3, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "people.db")
    >>> with sqlite3.connect(path) as base:
    ...     _ = base.execute("CREATE TABLE people (name TEXT, age INTEGER)")
    ...     _ = base.execute("INSERT INTO people VALUES ('Ada', 36)")
    >>> rows = tf.data.experimental.SqlDataset("sqlite", path, "SELECT * FROM people", (tf.string, tf.int32))
    >>> [(name.numpy(), int(age)) for name, age in rows]
    [(b'Ada', 36)]
    """

    def __init__(self, driver_name: Any, data_source_name: Any, query: Any, output_types: Any) -> None:
        driver, source, text = (_string(value) for value in (driver_name, data_source_name, query))
        if driver != "sqlite":
            raise errors.InvalidArgumentError(
                None, None, f"tensorflow/core/kernels: The database type, {driver}, is not supported by SqlDataset. "
                "The set of supported databases is: {'sqlite'}."
            )  # fmt: skip
        types = tuple(as_dtype(kind) for kind in nest.flatten(output_types))
        for kind in types:
            if kind.name not in _NUMBERS:
                raise errors.UnimplementedError(
                    None, None, f"{kind!r} is not a type of a column: use one of {', '.join(_NUMBERS)}."
                )

        def rows() -> Iterator[Any]:
            for row in _rows(source, text):
                if len(row) != len(types):
                    raise errors.InvalidArgumentError(
                        None,
                        None,
                        f"The number of columns in query ({len(row)}) must match the number of elements in "
                        f"output_types ({len(types)}).",
                    )
                yield tuple(_cell(value, kind) for value, kind in zip(row, types, strict=True))

        made = _generated(rows, tuple(TensorSpec([], kind) for kind in types))
        self.__dict__.update(vars(made))


def _string(value: Any) -> str:
    found: Any = convert(value, "string").numpy()
    return bytes(found).decode()


def _rows(source: str, query: str) -> Iterator[tuple[Any, ...]]:
    try:
        base = sqlite3.connect(f"file:{source}?mode=ro", uri=True)
        try:
            yield from base.execute(query)
        finally:
            base.close()
    except sqlite3.Error as error:
        raise errors.UnknownError(None, None, f"{error} in the query {query!r} of {source}") from None


def _cell(value: Any, kind: Any) -> Any:
    """A value of a cell in a column's type; NULL is zero, or the empty text."""
    if kind.name == "string":
        return value if type(value) is bytes else b"" if value is None else str(value).encode()
    if kind.name == "bool":
        return bool(value)
    number = 0 if value is None else float(value) if kind.name == "float64" else int(value)
    return np.asarray(number).astype(kind.numpy_dtype)
