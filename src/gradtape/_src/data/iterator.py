"""Iterators over datasets, which checkpoints can save, and optional elements."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from gradtape._src import errors, forks, nest
from gradtape._src.arrays.lazy import end_step
from gradtape._src.arrays.symbolic import NeedsEagerError, current_graph
from gradtape._src.checkpoint.checkpoint import PythonState
from gradtape._src.conversion import wrap
from gradtape._src.data.core import END, FileShard, Pipeline, Run, outside, to_device
from gradtape._src.data.structure import normalized, spec_of
from gradtape._src.devices import placement
from gradtape._src.interrupts import is_interrupt
from gradtape._src.ops.ragged import RaggedTensor
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.tensor import Tensor


def next_of(iterator: Iterator[Any]) -> Any:
    """The next element; TensorFlow's error at the end."""
    try:
        return next(iterator)
    except StopIteration:
        raise errors.OutOfRangeError(None, None, "End of sequence [Op:IteratorGetNext]") from None


class IteratorBase(PythonState):
    """An iterator over a dataset: `next(iterator)`, `iterator.get_next()`. `tf.train.Checkpoint` can save it.

    >>> iterator = iter(tf.data.Dataset.range(3))
    >>> iterator.get_next().numpy().item(), next(iterator).numpy().item()
    (0, 1)
    >>> iterator.element_spec
    TensorSpec(shape=(), dtype=tf.int64, name=None)
    >>> state = iterator.serialize()
    >>> bool(iterator.get_next_as_optional().has_value()), bool(iterator.get_next_as_optional().has_value())
    (True, False)
    >>> iterator.deserialize(state)
    >>> next(iterator).numpy().item()
    2
    """

    def __init__(self, pipeline: Pipeline, files: FileShard | None = None) -> None:
        refuse_tracing()
        self._pipeline, self._files = pipeline, files
        self._lock = forks.rlock()  # threads may share an iterator
        self._interrupted = False
        self._generation = forks.generation
        self._start([], 0)

    def _start(self, seeds: list[int], position: int) -> None:
        """Begin an iteration after the elements that were read; `seeds` repeat an earlier one."""
        run = Run(seeds, self._files)
        with outside():
            elements = self._pipeline.elements(run)
            _skip(elements, position)
        self._run, self._elements, self._position = run, elements, position
        self._interrupted, self._generation = False, forks.generation

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        refuse_tracing()
        if placement.places:
            end_step("a dataset gives the next element", least=64)
        with self._lock, outside():
            if self._interrupted or self._generation != forks.generation:
                # A signal may have ended the generators that compute the elements; a forked child lacks their threads.
                self._start(self._run.seeds, self._position)
            try:
                element = next(self._elements)
                self._position += 1
            except StopIteration:
                raise
            except BaseException as error:
                self._interrupted = is_interrupt(error)
                raise
        return to_device(element)

    def get_next(self) -> Any:
        """Return the next element; raises OutOfRangeError at the end."""
        return next_of(self)

    def get_next_as_optional(self) -> Optional:
        """Return the next element, if there is one."""
        return Optional([element for element in (next(self, END),) if element is not END], self._pipeline)

    @property
    def element_spec(self) -> Any:
        """Shapes and dtypes of the elements."""
        return self._pipeline.spec

    # -- checkpoints: the elements that were read are read again ------------------------------------------------------
    def serialize(self) -> str:
        return json.dumps({"position": self._position, "seeds": self._run.seeds})

    def deserialize(self, string_value: bytes) -> None:
        try:
            state = json.loads(string_value)
            seeds, position = list(state["seeds"]), state["position"]
            if not all(type(number) is int and number >= 0 for number in (position, *seeds)):
                raise ValueError("positions and seeds must be nonnegative integers")
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise errors.DataLossError(None, None, f"The state of an iterator cannot be read: {error}") from None
        self._start(seeds, position)


def _skip(elements: Iterator[Any], count: int) -> None:
    """Skip elements that were read before. Elements that raised an error raise it again, and are not counted."""
    while count:
        try:
            next(elements)
        except StopIteration:
            return
        except Exception:
            continue
        count -= 1


class OwnedIterator(IteratorBase):
    """The result of `iter(dataset)`."""


def refuse_tracing() -> None:
    """Raise an error in a traced function: elements would become constants of the program, the same in every call."""
    graph = current_graph()
    if graph is not None:
        raise NeedsEagerError(
            RuntimeError(
                f"'{graph.name}' reads a dataset, whose elements would be constants in a compiled program. Loop "
                "over the dataset outside tf.function, and call a function with each element; that function is "
                "compiled."
            )
        )


class NumpyIterator:
    """The result of `dataset.as_numpy_iterator()`: the elements, with NumPy arrays in them.

    >>> iterator = tf.data.Dataset.from_tensors([1, 2]).as_numpy_iterator()
    >>> type(iterator).__name__, next(iterator).tolist()
    ('NumpyIterator', [1, 2])
    """

    def __init__(self, iterator: IteratorBase) -> None:
        self._iterator = iterator

    def __repr__(self) -> str:
        return f"NumpyIterator(iterator={self._iterator!r})"

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return nest.map_structure(_plain, next(self._iterator))


def _plain(leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        return leaf.numpy()
    if isinstance(leaf, SparseTensor):
        filler = b"" if leaf.dtype.name == "string" else 0
        dense = np.full(np.asarray(leaf.dense_shape.array), filler, leaf.dtype.numpy_dtype)
        dense[tuple(np.asarray(leaf.indices.array).T)] = np.asarray(leaf.values.array)
        return dense
    if isinstance(leaf, RaggedTensor):
        return leaf.numpy()
    return leaf.as_numpy_iterator() if hasattr(leaf, "as_numpy_iterator") else leaf


class Optional:
    """A value that may be missing (`tf.experimental.Optional`).

    >>> some = tf.experimental.Optional.from_value(tf.constant(3))
    >>> bool(some.has_value()), int(some.get_value()), some.element_spec
    (True, 3, TensorSpec(shape=(), dtype=tf.int32, name=None))
    >>> none = tf.experimental.Optional.empty(tf.TensorSpec([], tf.int32))
    >>> bool(none.has_value())
    False
    """

    def __init__(self, values: list[Any], pipeline: Pipeline | None = None, spec: Any = None) -> None:
        self._values, self._pipeline, self._spec = values, pipeline, spec

    @staticmethod
    def from_value(value: Any) -> Optional:
        """Create an optional with a value: a tensor, or a structure of tensors."""
        element = normalized(value)
        return Optional([element], spec=spec_of(element))

    @staticmethod
    def empty(element_spec: Any) -> Optional:
        """Create an optional without a value, for values with these shapes and dtypes."""
        return Optional([], spec=element_spec)

    def _element_of_dataset(self) -> Any:
        return type(self)

    def has_value(self, name: str | None = None) -> Tensor:
        """Return whether there is a value."""
        return wrap(np.array(bool(self._values)))

    def get_value(self, name: str | None = None) -> Any:
        """Return the value; raises InvalidArgumentError if there is none."""
        if not self._values:
            raise errors.invalid_argument("The given optional does not have a value.", "OptionalGetValue")
        return self._values[0]

    @property
    def element_spec(self) -> Any:
        """Shape and dtype of the value."""
        return self._spec if self._pipeline is None else self._pipeline.spec
