"""Lookup tables: static tables, vocabularies with buckets for unknown words, and mutable tables."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy import ndarray

from gradtape._src import errors
from gradtape._src.arrays.graph_ops import in_graph, kept_in_graph
from gradtape._src.arrays.symbolic import NeedsEagerError, current_graph
from gradtape._src.checkpoint.checkpoint import TensorState
from gradtape._src.conversion import convert, has_dtype, operand, wrap
from gradtape._src.dtypes import DType, as_dtype, int64, string
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.tensor import Tensor
from gradtape._src.text import hashing
from gradtape._src.text.packed import Packed
from gradtape._src.tf.lookup.cells import Cells, rows
from gradtape._src.tf.lookup.initializers import KeysAndValues, TableInitializer
from gradtape._src.tf.string_arrays import Texts, converted, elementwise, flat, is_ragged, known

_NUMBERS = ("float32", "float64", "int32")
_STATIC = {
    "string": ("string", "bool", "int64", *_NUMBERS),
    "int64": ("string", "int64", *_NUMBERS),
    "int32": ("string", *_NUMBERS),
}
_MUTABLE = {"string": ("bool", "int64", *_NUMBERS), "int64": ("string", "int64", *_NUMBERS), "int32": _NUMBERS}
_DENSE = {"string": ("bool", "int64", *_NUMBERS), "int64": ("bool", "int64", *_NUMBERS), "int32": _NUMBERS}
"""The dtypes of values by the dtype of keys, for which TensorFlow has kernels."""

Table = TypeVar("Table", bound="LookupInterface")


def needs_eager() -> None:
    """The error for a mutable table in a compiled program: a function that uses one runs eagerly."""
    graph = current_graph()
    if graph is not None:
        raise NeedsEagerError(TypeError(f"'{graph.name}' uses a lookup table, but XLA supports only numbers."))


class LookupInterface(KeysAndValues):
    """Base class of tables."""

    _cells: Cells

    @property
    def name(self) -> str | None:
        """Tables created eagerly have no names."""
        return None

    def size(self, name: str | None = None) -> Tensor:
        """The number of keys."""
        raise NotImplementedError

    @property
    def value_shape(self) -> tuple[int, ...]:
        """The shape of a value."""
        return tuple(self._cells.shape)

    def content(self) -> tuple[Tensor, Tensor]:
        """All keys and all values, for every kind of table."""
        return _exported(self._cells, self.key_dtype, getattr(self, "_key_shape", ()))

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """The values of keys."""
        raise NotImplementedError

    def __getitem__(self, keys: Any) -> Any:
        return self.lookup(keys)


def _check_kernel(op: str, supported: dict[str, tuple[str, ...]], key: DType, value: DType) -> None:
    if value.name not in supported.get(key.name, ()):
        pairs = "; ".join(f"{k} to {', '.join(v)}" for k, v in supported.items())
        raise errors.NotFoundError(
            None,
            None,
            f"Could not find device for node: {op}[key_dtype={key.name}, value_dtype={value.name}]. Supported "
            f"tables: {pairs}. [Op:{op}]",
        )


def _counted(n: int) -> Tensor:
    return wrap(np.array(n, np.int64))


# -- static tables ---------------------------------------------------------------------------------------------------
def _typed_keys(keys: Any, dtype: DType) -> Tensor:
    tensor = keys if isinstance(keys, Tensor) else operand(keys, None if has_dtype(keys) else dtype)
    if tensor.dtype != dtype:
        raise TypeError(f"Dtype of argument `keys` must be {dtype}, received: {tensor.dtype}")
    return tensor


class StaticHashTable(LookupInterface):
    """An immutable table, with a default value for missing keys.

    >>> import gradtape as tf
    >>> words = tf.lookup.KeyValueTensorInitializer(["cat", "dog"], [0, 1])
    >>> table = tf.lookup.StaticHashTable(words, default_value=-1)
    >>> table[tf.constant(["dog", "cow"])].numpy().tolist()
    [1, -1]

    >>> words = tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2])
    >>> table = tf.lookup.StaticHashTable(words, default_value=-1)
    >>> table.size().numpy().item()
    2
    >>> table.default_value.numpy().item()
    -1
    >>> [sorted(t.numpy().tolist()) for t in table.export()]
    [[b'a', b'b'], [1, 2]]
    """

    _sorted: tuple[ndarray, ndarray] | None = None  # integers in order, and their values

    def __init__(
        self,
        initializer: TableInitializer,
        default_value: Any,
        name: str | None = None,
        experimental_is_anonymous: bool = False,
    ) -> None:
        super().__init__(initializer.key_dtype, initializer.value_dtype)
        _check_kernel("HashTableV2", _STATIC, self.key_dtype, self.value_dtype)
        self._default_value = convert(default_value, self.value_dtype)
        default = known(self._default_value)
        if default.ndim:
            raise ValueError(f"Shapes {default.shape} and () are not compatible")
        self._cells = Cells(self.value_dtype.numpy_dtype, default)
        self._initializer = initializer
        initializer.initialize(self)

    @property
    def default_value(self) -> Tensor:
        """The value for missing keys."""
        return self._default_value

    def fill(self, keys: ndarray, values: ndarray) -> None:
        """Set the content; for the initializer."""
        if keys.shape != values.shape:
            raise errors.invalid_argument(
                f"Expected shape {errors.brackets(keys.shape)} for value, got {errors.brackets(values.shape)}",
                "LookupTableImportV2",
            )
        names = rows(keys, ())
        self._sorted = None
        self._cells.insert(names, values)
        if len(self._cells) < len(names):
            self._check_equal(names, values)

    def _check_equal(self, names: list[Any], values: ndarray) -> None:
        """Check that equal keys have equal values."""
        first: dict[Any, Any] = {}
        for name, value in zip(names, values.ravel().tolist(), strict=True):
            if first.setdefault(name, value) != value:
                shown, old, new = (x.decode(errors="replace") if isinstance(x, bytes) else x for x in
                                   (name, first[name], value))  # fmt: skip
                raise errors.failed_precondition(
                    f"HashTable has different value for same key. Key {shown} has {old} and trying to add value {new}",
                    "LookupTableImportV2",
                )

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of keys."""
        return _counted(len(self._cells))

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """Look up the values of keys: of a tensor, or of the values of a sparse or ragged one."""
        if isinstance(keys, SparseTensor):
            return SparseTensor(keys.indices, self.lookup(keys.values), keys.dense_shape)
        if is_ragged(keys):
            return keys.with_flat_values(self.lookup(keys.flat_values))
        tensor = _typed_keys(keys, self.key_dtype)
        try:
            if tensor.dtype == string:
                return wrap(_find_texts(self._cells, Texts(tensor)))
            array = known(tensor)
        except NeedsEagerError as error:
            arguments = (self, tensor, self._default_value)
            return in_graph("table.lookup", arguments, {}, error, lambda table, keys, _: table.lookup(keys))
        if array.dtype.kind == "i":
            return wrap(self._find_numbers(array))
        return wrap(self._cells.find(rows(array, ()), array.shape))

    def _find_numbers(self, keys: ndarray) -> ndarray:
        """The values of integers, by their positions among the sorted keys."""
        if self._sorted is None:
            known_keys = np.array(sorted(self._cells), self.key_dtype.numpy_dtype)
            values = self._cells.find([*known_keys.tolist(), object()], (len(known_keys) + 1,))  # the default is last
            self._sorted = known_keys, values
        ordered, values = self._sorted
        if not len(ordered):
            return values[np.zeros(keys.shape, np.intp)]
        if int(ordered[-1]) - int(ordered[0]) == len(ordered) - 1:  # consecutive
            where = keys - ordered[0]
            return values[np.where((keys >= ordered[0]) & (keys <= ordered[-1]), where, len(ordered))]
        where = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
        return values[np.where(ordered[where] == keys, where, len(ordered))]

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """Return all keys and all values."""
        return _exported(self._cells, self.key_dtype, ())

    def _trackable_children(self) -> dict[str, Any]:
        return {}


def _find_texts(cells: Cells, texts: Texts) -> ndarray:
    """The values of strings: of many, by the index of the table."""
    find: Any = cells.find_texts if texts.is_large else cells.find
    found: ndarray = find(texts.packed if texts.is_large else texts.rows, texts.shape)
    return found


def _exported(cells: Cells, key_dtype: DType, key_shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    names = Cells(key_dtype.numpy_dtype, np.zeros(key_shape, key_dtype.numpy_dtype))
    if key_shape or key_dtype == string:
        keys = names.array_of(cells, (len(cells),))
    else:
        keys = np.array(list(cells), key_dtype.numpy_dtype)
    return wrap(keys), wrap(cells.array_of(cells.values(), (len(cells),)))


class StaticVocabularyTable(LookupInterface):
    """A vocabulary that maps words to ids from 0, and hashes all other words to `num_oov_buckets` further ids.

    >>> import gradtape as tf
    >>> words = tf.lookup.KeyValueTensorInitializer(["cat", "dog"], tf.constant([0, 1], tf.int64))
    >>> table = tf.lookup.StaticVocabularyTable(words, num_oov_buckets=3)
    >>> table.lookup(tf.constant(["dog", "cow"])).numpy().tolist()
    [1, 3]

    >>> words = tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([0, 1], tf.int64))
    >>> table = tf.lookup.StaticVocabularyTable(words, num_oov_buckets=3)
    >>> table.size().numpy().item()
    5
    >>> table.name is None
    True
    """

    def __init__(
        self,
        initializer: TableInitializer | None,
        num_oov_buckets: int,
        lookup_key_dtype: Any = None,
        name: str | None = None,
        experimental_is_anonymous: bool = False,
    ) -> None:
        if num_oov_buckets <= 0:
            raise ValueError("`num_oov_buckets` must be > 0; use StaticHashTable.")
        self._buckets, self._table = num_oov_buckets, None
        super().__init__(string if lookup_key_dtype is None else lookup_key_dtype, int64)
        if initializer is None:
            super().__init__(string, int64)
            return
        own = initializer.key_dtype
        if own not in (int64, string):
            raise TypeError(f"Invalid `key_dtype`, expected one of (tf.int64, tf.string), but got {own}.")
        if initializer.value_dtype != int64:
            raise TypeError(f"Invalid `value_dtype`, expected {int64} but got {initializer.value_dtype}.")
        wanted = own if lookup_key_dtype is None else as_dtype(lookup_key_dtype)
        if own.is_integer != wanted.is_integer:
            kind = "integer" if wanted.is_integer else "string"
            raise TypeError(f"Invalid `key_dtype`, expected {kind} but got {own}.")
        super().__init__(wanted, int64)
        self._table = StaticHashTable(initializer, default_value=-1)

    @property
    def name(self) -> str | None:
        """None for tables created eagerly, unless the table consists only of buckets."""
        return "hash_bucket" if self._table is None else None

    def _words(self) -> int:
        return 0 if self._table is None else len(self._table._cells)

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of ids, of words and of buckets."""
        return _counted(self._words() + self._buckets)

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """Look up the ids of keys: of a tensor, or of the values of a sparse or ragged one."""
        if isinstance(keys, SparseTensor):
            return SparseTensor(keys.indices, self.lookup(keys.values), keys.dense_shape)
        return self._ids(keys)

    def _ids(self, keys: Any) -> Any:
        return _mapped_ids(keys, self)

    def ids_of(self, array: ndarray) -> ndarray:
        """The ids of an array of keys."""
        if self._table is None:
            return self._hashed(array)
        return self._completed(self._table._cells.find(rows(array, ()), array.shape), array)

    def _completed(self, found: ndarray, array: ndarray) -> ndarray:
        """Replace -1 by buckets."""
        other = found == -1
        if other.any():
            found[other] = self._hashed(array[other])
        return found

    def ids_of_texts(self, texts: Texts) -> ndarray:
        """The ids of strings."""
        if self._table is None:
            return self._in_buckets(texts.packed).reshape(texts.shape)
        found = _find_texts(self._table._cells, texts)
        other = np.flatnonzero(found == -1)
        if other.size:
            found.reshape(-1)[other] = self._in_buckets(texts.packed.chosen(other))
        return found

    def _in_buckets(self, texts: Sequence[bytes] | Packed) -> ndarray:
        buckets = hashing.fingerprint64(texts) % np.uint64(self._buckets)
        return buckets.astype(np.int64) + self._words()

    def _hashed(self, array: ndarray) -> ndarray:
        """Ids after those of words; integers are hashed as decimal strings."""
        texts = flat(array) if array.dtype.kind == "O" else [b"%d" % n for n in array.ravel().tolist()]
        return self._in_buckets(texts).reshape(array.shape)

    def _trackable_children(self) -> dict[str, Any]:
        return {} if self._table is None else {"_table": self._table}


@elementwise
def _mapped_ids(keys: Any, table: StaticVocabularyTable) -> Any:
    tensor = _typed_keys(keys, table.key_dtype)
    try:
        if tensor.dtype == string:
            return wrap(table.ids_of_texts(Texts(tensor)))
        array = known(tensor)
    except NeedsEagerError as error:
        arguments = (table._table, tensor, table._buckets)
        return in_graph("vocabulary.lookup", arguments, {}, error, lambda _, keys, __: wrap(table.ids_of(known(keys))))
    return wrap(table.ids_of(array))


# -- mutable tables --------------------------------------------------------------------------------------------------
def _converted(value: Any, dtype: DType, argument: str) -> ndarray:
    try:
        tensor = convert(value, dtype)
    except ValueError as error:
        raise ValueError(f"{argument}: {error}") from None
    needs_eager()
    return known(tensor)


def _converted_texts(keys: Any) -> Texts:
    found = converted(keys, "keys")
    needs_eager()
    return found


class _ChangingTable(LookupInterface, TensorState):
    """Keys and values that can be inserted and removed; checkpoints save them."""

    _cells: Cells
    _key_shape: tuple[int, ...] = ()

    def _names(self, keys: ndarray, op: str) -> list[Any]:
        """The keys in the form in which the dict has them."""
        rank = len(self._key_shape)
        if keys.shape[keys.ndim - rank :] != self._key_shape:
            raise errors.invalid_argument(
                f"Expected key shape {errors.brackets(self._key_shape)}, got {errors.brackets(keys.shape)}", op
            )
        return rows(keys, self._key_shape)

    @kept_in_graph("changing table.size")
    def size(self, name: str | None = None) -> Tensor:
        """The number of keys."""
        needs_eager()
        return _counted(len(self._cells))

    @kept_in_graph("changing table.insert", changes=True)
    def insert(self, keys: Any, values: Any, name: str | None = None) -> None:
        """Set the values of keys; existing keys get new values."""
        names, given = _converted(keys, self.key_dtype, "keys"), _converted(values, self.value_dtype, "values")
        self._insert(names, given)

    def _insert(self, keys: ndarray, values: ndarray) -> None:
        op = "LookupTableInsertV2"
        expected = (*keys.shape[: keys.ndim - len(self._key_shape)], *self._cells.shape)
        if values.shape != expected:
            raise errors.invalid_argument(
                f"Expected shape {errors.brackets(expected)} for value, got {errors.brackets(values.shape)}", op
            )
        self._cells.insert(self._names(keys, op), values)

    @kept_in_graph("changing table.remove", changes=True)
    def remove(self, keys: Any, name: str | None = None) -> None:
        """Remove keys; missing ones are ignored."""
        tensor = operand(keys, None if has_dtype(keys) else self.key_dtype)
        if tensor.dtype != self.key_dtype:
            raise self._wrong_keys(tensor.dtype)
        needs_eager()
        for key in self._names(known(tensor), "LookupTableRemoveV2"):
            self._cells.pop(key, None)

    def _wrong_keys(self, dtype: DType) -> TypeError:
        return TypeError(f"Dtype of argument `keys` must be {self.key_dtype}, received: {dtype}")

    def __deepcopy__(self: Table, memo: dict[int, Any]) -> Table:
        other = copy.copy(self)
        other.__dict__["_cells"] = copy.copy(self.__dict__["_cells"])
        memo[id(self)] = other
        return other

    # -- checkpoints -------------------------------------------------------------------------------------------------
    @kept_in_graph("changing table.export")
    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """All keys and all values."""
        needs_eager()
        return _exported(self._cells, self.key_dtype, self._key_shape)

    def saved_tensors(self) -> dict[str, ndarray]:
        keys, values = self.export()
        return {"-keys": known(keys), "-values": known(values)}

    def restore_tensors(self, tensors: dict[str, ndarray]) -> None:
        self._cells.clear()
        self._insert(tensors["-keys"], tensors["-values"])


class MutableHashTable(_ChangingTable):
    """A mutable table. Values are scalars, or vectors as long as `default_value`.

    >>> import gradtape as tf
    >>> table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, default_value=-1)
    >>> table.insert(["cat", "dog"], [0, 1])
    >>> table.lookup(["dog", "cow"]).numpy().tolist()
    [1, -1]
    """

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        name: str = "MutableHashTable",
        checkpoint: bool = True,
        experimental_is_anonymous: bool = False,
    ) -> None:
        super().__init__(key_dtype, value_dtype)
        self._default_value = convert(default_value, self.value_dtype)
        default = known(self._default_value)
        op = "MutableHashTableOfTensorsV2" if default.ndim else "MutableHashTableV2"
        if default.ndim > 1:
            raise errors.invalid_argument(
                f"Default value must be a vector, got shape {errors.brackets(default.shape)}", op
            )
        _check_kernel(op, _MUTABLE, self.key_dtype, self.value_dtype)
        self._cells = Cells(self.value_dtype.numpy_dtype, default)
        self.is_saved = checkpoint

    @kept_in_graph("changing table.lookup")
    def lookup(  # type: ignore[override]  # TensorFlow's second argument differs here
        self, keys: Any, dynamic_default_values: Any = None, name: str | None = None
    ) -> Any:
        """Look up the values of keys; `dynamic_default_values` has a default for each key, or one for all of them."""
        if is_ragged(keys):
            return keys.with_flat_values(self.lookup(keys.flat_values, dynamic_default_values))
        if self.key_dtype == string and dynamic_default_values is None:
            return wrap(_find_texts(self._cells, _converted_texts(keys)))
        array = _converted(keys, self.key_dtype, "keys")
        names = self._names(array, "LookupTableFindV2")
        if dynamic_default_values is None:
            return wrap(self._cells.find(names, array.shape))
        return wrap(self._cells.find_or(names, self._defaults(dynamic_default_values, array.shape), array.shape))

    def _defaults(self, given: Any, shape: tuple[int, ...]) -> ndarray:
        tensor = operand(given, None if has_dtype(given) else self.value_dtype)
        if tensor.dtype != self.value_dtype:
            expected, received = self.value_dtype.word, tensor.dtype.word
            raise errors.invalid_argument(
                f"Signature mismatch, have: resource, {self.key_dtype.word}, {received}->{received} expected: resource,"
                f" {self.key_dtype.word}, {expected}->{expected}",
                "LookupTableFindV2",
            )
        defaults, whole = known(tensor), (*shape, *self._cells.shape)
        if defaults.shape not in (whole, self._cells.shape):
            raise errors.invalid_argument(
                f"Expected shape {errors.brackets(self._cells.shape)} or {errors.brackets(whole)} for default value, "
                f"got {errors.brackets(defaults.shape)}",
                "LookupTableFindV2",
            )
        return np.broadcast_to(defaults, whole)


class DenseHashTable(_ChangingTable):
    """A mutable table with open addressing; two keys that are never inserted mark empty and deleted buckets.

    >>> import gradtape as tf
    >>> table = tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, default_value=-1, empty_key=0, deleted_key=-1)
    >>> table.insert([7, 8], [70, 80])
    >>> table.lookup([8, 9]).numpy().tolist()
    [80, -1]

    >>> table = tf.lookup.experimental.DenseHashTable("int64", "int64", -1, empty_key=0, deleted_key=-2)
    >>> table.insert_or_assign([5, 6], [50, 60])
    >>> table.erase([5])
    >>> table.lookup([5, 6]).numpy().tolist()
    [-1, 60]
    >>> keys, values = table.export()
    >>> 6 in keys.numpy()
    True
    """

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        empty_key: Any,
        deleted_key: Any,
        initial_num_buckets: int | None = None,
        name: str = "MutableDenseHashTable",
        checkpoint: bool = True,
        experimental_is_anonymous: bool = False,
    ) -> None:
        op = "MutableDenseHashTableV2"
        super().__init__(key_dtype, value_dtype)
        self._default_value = convert(default_value, self.value_dtype)
        empty, deleted = (known(convert(key, self.key_dtype)) for key in (empty_key, deleted_key))
        _check_kernel(op, _DENSE, self.key_dtype, self.value_dtype)
        self._buckets = 2**17 if initial_num_buckets is None else int(initial_num_buckets)
        if self._buckets < 4 or self._buckets & (self._buckets - 1):
            raise errors.invalid_argument(
                f"Number of buckets must be at least 4 and a power of 2, got: {self._buckets}", op
            )
        self._empty, self._key_shape, self.is_saved = empty, empty.shape, checkpoint
        self._reserved = {"empty_key": rows(empty, empty.shape)[0], "deleted_key": rows(deleted, empty.shape)[0]}
        if self._reserved["empty_key"] == self._reserved["deleted_key"]:
            raise errors.invalid_argument("Empty and deleted keys cannot be equal", op)
        self._cells = Cells(self.value_dtype.numpy_dtype, known(self._default_value))

    def _names(self, keys: ndarray, op: str) -> list[Any]:
        names = super()._names(keys, op)
        for what, key in self._reserved.items():
            if key in names:
                raise errors.refused_value(f"Using the {what} as a table key is not allowed", op)
        return names

    def _wrong_keys(self, dtype: DType) -> TypeError:
        return TypeError(f"Signature mismatch. Keys must be dtype {self.key_dtype}, got {dtype}.")

    @kept_in_graph("changing table.lookup")
    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """Look up the values of keys."""
        if is_ragged(keys):
            return keys.with_flat_values(self.lookup(keys.flat_values))
        array = _converted(keys, self.key_dtype, "keys")
        names = self._names(array, "LookupTableFindV2")
        return wrap(self._cells.find(names, array.shape[: array.ndim - len(self._key_shape)]))

    def insert_or_assign(self, keys: Any, values: Any, name: str | None = None) -> None:
        """Set the values of keys, like `insert`."""
        self.insert(keys, values)

    def erase(self, keys: Any, name: str | None = None) -> None:
        """Remove keys, like `remove`."""
        self.remove(keys)

    @kept_in_graph("changing table.export")
    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """Return the keys and values of all buckets, including empty ones, which have the empty key."""
        needs_eager()
        full_keys, full_values = (known(part) for part in super().export())
        count = self._bucket_count()
        keys = np.empty((count, *self._key_shape), self.key_dtype.numpy_dtype)
        keys[...] = self._empty
        values = np.zeros((count, *self._cells.shape), self.value_dtype.numpy_dtype)
        if values.dtype.kind == "O":
            values[...] = b""
        where = _places(full_keys, count)
        keys[where], values[where] = full_keys, full_values
        return wrap(keys.reshape(count, -1)), wrap(values.reshape(count, -1))

    def _bucket_count(self) -> int:
        while len(self._cells) > 0.8 * self._buckets:
            self._buckets *= 2
        return self._buckets

    def restore_tensors(self, tensors: dict[str, ndarray]) -> None:
        self._cells.clear()
        count = len(tensors["-keys"])
        keys, values = tensors["-keys"].reshape(count, *self._key_shape), tensors["-values"]
        taken = [i for i, name in enumerate(rows(keys, self._key_shape)) if name not in self._reserved.values()]
        self._insert(keys[taken], values.reshape(count, *self._cells.shape)[taken])


def _places(keys: ndarray, count: int) -> list[int]:
    """The bucket of each key: that of its hash, or one found by quadratic probing."""
    if keys.dtype.kind == "O":
        hashes = hashing.murmur64(flat(keys)).tolist()
    else:
        hashes = keys.reshape(len(keys), -1).astype(np.uint64).sum(1, dtype=np.uint64).tolist()
    taken: set[int] = set()
    found = []
    for place in hashes:
        place, step = place % count, 1
        while place in taken:
            place, step = (place + step) % count, step + 1
        taken.add(place)
        found.append(place)
    return found
