"""Common parts of feature columns: base classes, the features of a batch, and the variables of columns.

Columns use TensorFlow's public functions, so that they work eagerly, in functions, and in graphs of TensorFlow 1.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar

C = TypeVar("C", bound="FeatureColumn")


def api() -> Any:
    """The public functions, which a graph of TensorFlow 1 records."""
    return importlib.import_module("gradtape")


class IdWeightPair(NamedTuple):
    """The ids of a categorical column in sparse tensors, and their weights or None."""

    id_tensor: Any
    weight_tensor: Any


class TensorSequenceLengthPair(NamedTuple):
    """Sequences of vectors, and their lengths."""

    dense_tensor: Any
    sequence_length: Any


_Pair: TypeAlias = IdWeightPair
_Sequences: TypeAlias = TensorSequenceLengthPair


class FeatureColumn:
    """A column, which converts features of a batch to a tensor: a named tuple of its arguments."""

    _is_v2_column = True

    @property
    def name(self) -> str:
        """The name, which is unique among the columns of a model."""
        raise NotImplementedError(f"{type(self).__name__} has no name.")

    @property
    def scope(self) -> str:
        """The name of the scope of its variables."""
        return re.sub(r"[^A-Za-z0-9_.\-]", "_", self.name)

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """The features' specs for `tf.io.parse_example`."""
        raise NotImplementedError(f"{type(self).__name__} has no parse_example_spec.")

    @property
    def parents(self) -> list[Any]:
        """The columns and feature keys that it depends on."""
        raise NotImplementedError(f"{type(self).__name__} has no parents.")

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> Any:
        """Return the tensor, or tensors, of a batch; `transformation_cache` has the features."""
        raise NotImplementedError(f"{type(self).__name__} transforms nothing.")

    def create_state(self, state_manager: Any) -> None:
        """Create the variables of the column."""

    def __lt__(self, other: Any) -> bool:
        return str(self) < str(other)

    def __gt__(self, other: Any) -> bool:
        return str(self) > str(other)

    # -- configurations ----------------------------------------------------------------------------------------------
    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the column, with names instead of dtypes and functions."""
        return {name: _as_config(getattr(self, name)) for name in _fields(type(self))}

    @classmethod
    def from_config(
        cls: type[C], config: Mapping[str, Any], custom_objects: Any = None, columns_by_name: Any = None
    ) -> C:
        """Create a column from a configuration.

        Args:
          config: What `get_config` returned.
          custom_objects: Functions and classes that the configuration names.
          columns_by_name: Existing columns, to which new ones are added: equal columns become one.
        """
        known = {} if columns_by_name is None else columns_by_name
        config = {**cls._defaults(), **config}
        if set(config) != set(_fields(cls)):
            raise ValueError(f"Invalid config: {config}, expected keys: {_fields(cls)}")
        values = {name: _from_config(name, value, custom_objects, known) for name, value in config.items()}
        return cls(**values)

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """The defaults of arguments that older configurations do not have."""
        return {}


def _fields(cls: Any) -> tuple[str, ...]:
    """The names of the arguments of a class of columns, the fields of its named tuple."""
    names: tuple[str, ...] = cls._fields
    return names


class DenseColumn(FeatureColumn):
    """A column with a dense tensor, of the shape [batch, *variable_shape]."""

    @property
    def variable_shape(self) -> Any:
        """The shape for one example."""
        raise NotImplementedError(f"{type(self).__name__} has no variable_shape.")

    def get_dense_tensor(self, transformation_cache: Any, state_manager: Any) -> Any:
        """Return the tensor of a batch."""
        raise NotImplementedError(f"{type(self).__name__} has no dense tensor.")


class CategoricalColumn(FeatureColumn):
    """A column with ids."""

    IdWeightPair: ClassVar[type] = IdWeightPair

    @property
    def num_buckets(self) -> int:
        """The number of ids."""
        raise NotImplementedError(f"{type(self).__name__} has no num_buckets.")

    def get_sparse_tensors(self, transformation_cache: Any, state_manager: Any) -> _Pair:
        """Return the ids of a batch, and their weights."""
        return IdWeightPair(transformation_cache.get(self, state_manager), None)


class ColumnOfOneFeature(FeatureColumn):
    """A column of a single feature, which has the feature's name."""

    key: str

    @property
    def name(self) -> str:
        return self.key

    @property
    def parents(self) -> list[Any]:
        return [self.key]


class SequenceDenseColumn(FeatureColumn):
    """A column with sequences of vectors."""

    TensorSequenceLengthPair: ClassVar[type] = TensorSequenceLengthPair

    def get_sequence_dense_tensor(self, transformation_cache: Any, state_manager: Any) -> _Sequences:
        """Return the vectors of a batch, and the lengths of its sequences."""
        raise NotImplementedError(f"{type(self).__name__} has no sequences.")


# -- features ----------------------------------------------------------------------------------------------------------
class FeatureTransformationCache:
    """The features of a batch and the columns' results, each of which is computed once."""

    def __init__(self, features: Mapping[str, Any]) -> None:
        self._features = dict(features)
        self._tensors: dict[Any, Any] = {}

    def get(self, key: Any, state_manager: Any, training: bool | None = None) -> Any:
        """Return the tensor of a feature, with at least two axes, or the result of a column."""
        if key not in self._tensors:
            self._tensors[key] = self._found(key, state_manager)
        return self._tensors[key]

    def _found(self, key: Any, state_manager: Any) -> Any:
        if key in self._features:
            return _with_two_axes(self._features[key], key)
        if isinstance(key, str):
            raise ValueError(
                f"Feature {key} is not in features dictionary. It has {', '.join(map(repr, self._features)) or 'none'}."
            )
        if not isinstance(key, FeatureColumn):
            raise TypeError(f'"key" must be either a "str" or "FeatureColumn". Provided: {key}')
        found = key.transform_feature(self, state_manager)
        if found is None:
            raise ValueError(f"Column {key.name} is not supported.")
        return found


def as_tensor(value: Any) -> Any:
    """Convert a feature to a tensor, or a sparse one."""
    tf = api()
    if isinstance(value, tf.compat.v1.SparseTensorValue):
        return tf.SparseTensor(*value)
    return value if isinstance(value, tf.SparseTensor) else tf.convert_to_tensor(value)


def _with_two_axes(value: Any, key: Any) -> Any:
    tf, tensor = api(), as_tensor(value)
    rank = tensor.shape.rank
    if rank == 0:
        raise ValueError(f"Feature (key: {key}) cannot have rank 0. Given: {tensor}")
    if rank != 1:
        return tensor
    if isinstance(tensor, tf.SparseTensor):
        return tf.sparse.reshape(tensor, tf.concat([tensor.dense_shape, [1]], 0))
    return tf.expand_dims(tensor, -1)


def as_sparse(value: Any, missing: Any = None) -> Any:
    """A tensor without its missing elements: by default empty strings and ids of -1."""
    tf, tensor = api(), as_tensor(value)
    if isinstance(tensor, tf.SparseTensor):
        return tensor
    if missing is None:
        missing = "" if tensor.dtype == tf.string else -1 if tensor.dtype.is_integer else 0
    where = tf.where(tf.not_equal(tensor, tf.constant(missing, tensor.dtype)))
    return tf.SparseTensor(where, tf.gather_nd(tensor, where), tf.shape(tensor, out_type=tf.int64))


def sequence_lengths(sparse: Any, elements: int = 1) -> Any:
    """The lengths of the sequences of a sparse tensor, with `elements` of its columns in each step."""
    tf = api()
    rows, ends = sparse.indices[:, 0], sparse.indices[:, 1] + 1
    longest = tf.math.unsorted_segment_max(ends, rows, sparse.dense_shape[0])
    longest = tf.maximum(longest, tf.zeros_like(longest))  # an empty row has the lowest number of its dtype
    return (longest + elements - 1) // elements


def combined(
    embeddings: Any, pair: IdWeightPair, combiner: str, name: str, max_norm: Any = None, safe: bool = True
) -> Any:
    """The embeddings of the ids of each row, combined to one vector."""
    tf, ids = api(), pair.id_tensor
    lookup = tf.nn.safe_embedding_lookup_sparse
    if not safe and ids.shape.rank is not None and ids.shape.rank <= 2:
        lookup = tf.nn.embedding_lookup_sparse
    return lookup(embeddings, ids, pair.weight_tensor, combiner=combiner, max_norm=max_norm, name=f"{name}_weights")


# -- columns -----------------------------------------------------------------------------------------------------------
def normalized(columns: Any, kinds: type | tuple[type, ...] = FeatureColumn, complaint: str = "") -> list[Any]:
    """The columns of a model, sorted by their names, which must differ.

    `complaint` is the beginning of the error for a column that is not one of the kinds.
    """
    if isinstance(columns, dict):
        raise ValueError("Expected feature_columns to be iterable, found dict.")
    found = [columns] if isinstance(columns, FeatureColumn) else list(columns)
    for column in found:
        if not isinstance(column, FeatureColumn):
            kind = type(column)
            raise ValueError(f"Items of feature_columns must be a FeatureColumn. Given (type {kind}): {column}.")
    if not found:
        raise ValueError("feature_columns must not be empty.")
    by_name: dict[str, Any] = {}
    for column in found:
        if column.name in by_name:
            raise ValueError(
                f"Duplicate feature column name found for columns: {column} and {by_name[column.name]}. This usually "
                "means that these columns refer to same base feature. Either one must be discarded or a duplicated but "
                "renamed item must be inserted in features dict."
            )
        by_name[column.name] = column
        if not isinstance(column, kinds):
            raise ValueError(f"{complaint} Given: {column}")
    return [by_name[name] for name in sorted(by_name)]


def check_batch_sizes(tensors: Sequence[Any], columns: Sequence[FeatureColumn]) -> None:
    """Raise ValueError if the first axes of two columns' tensors differ."""
    sizes = [(tensor.shape[0], column.name) for tensor, column in zip(tensors, columns, strict=True)]
    known = [(size, name) for size, name in sizes if size is not None]
    for size, name in known[1:]:
        if size != known[0][0]:
            raise ValueError(
                "Batch size (first dimension) of each feature must be same. Batch size of columns "
                f"({known[0][1]}, {name}): ({known[0][0]}, {size})"
            )


# -- state -------------------------------------------------------------------------------------------------------------
class StateManager:
    """Holds the variables and tables of columns.

    `make(column, name, shape, initializer, trainable)` creates a variable.
    """

    def __init__(self, make: Callable[..., Any] | None = None, trainable: bool = True) -> None:
        self._make, self._trainable = make, trainable
        self._variables: dict[tuple[Any, str], Any] = {}
        self._resources: dict[tuple[Any, str], Any] = {}

    def create_variable(
        self,
        feature_column: FeatureColumn,
        name: str,
        shape: Any,
        dtype: Any = None,
        trainable: bool = True,
        use_resource: bool = True,
        initializer: Any = None,
    ) -> Any:
        """Create a variable of a column."""
        if (feature_column, name) in self._variables:
            raise ValueError("Variable already exists.")
        assert self._make is not None
        made = self._make(feature_column, name, shape, initializer, self._trainable and trainable)
        self._variables[feature_column, name] = made
        return made

    def get_variable(self, feature_column: FeatureColumn, name: str) -> Any:
        """Return a variable of a column."""
        if (feature_column, name) not in self._variables:
            raise ValueError("Variable does not exist.")
        return self._variables[feature_column, name]

    def add_resource(self, feature_column: FeatureColumn, name: str, resource: Any) -> None:
        """Store a table of a column."""
        self._resources[feature_column, name] = resource

    def has_resource(self, feature_column: FeatureColumn, name: str) -> bool:
        """Return whether a column has a table of this name."""
        return (feature_column, name) in self._resources

    def get_resource(self, feature_column: FeatureColumn, name: str) -> Any:
        """Return a table of a column."""
        if (feature_column, name) not in self._resources:
            raise ValueError("Resource does not exist.")
        return self._resources[feature_column, name]


# -- configurations ----------------------------------------------------------------------------------------------------
_classes: dict[str, type[FeatureColumn]] = {}


def registered(cls: type[C]) -> type[C]:
    """Register a class of columns for configurations."""
    _classes[cls.__name__] = cls
    return cls


def serialize_feature_column(column: FeatureColumn | str) -> Any:
    """Convert a column to a dictionary; a key is returned unchanged."""
    if isinstance(column, str):
        return column
    return {"class_name": type(column).__name__, "config": column.get_config()}


def deserialize_feature_column(config: Any, custom_objects: Any = None, columns_by_name: Any = None) -> Any:
    """Create a column from a dictionary; equal dictionaries share one if `columns_by_name` is given."""
    if isinstance(config, str):
        return config
    classes = {**_classes, **(custom_objects or {})}
    cls = classes.get(config["class_name"])
    if cls is None:
        raise ValueError(f"Unknown feature_column_v2: {config['class_name']}")
    known = {} if columns_by_name is None else columns_by_name
    made = cls.from_config(config["config"], custom_objects, known)
    return known.setdefault(serialized_key(made), made)


def serialized_key(column: FeatureColumn) -> str:
    """A key that equal columns have in common."""
    return f"{type(column).__name__}:{column.name}"


def _as_config(value: Any) -> Any:
    if isinstance(value, FeatureColumn):
        return serialize_feature_column(value)
    if isinstance(value, tuple) and any(isinstance(item, FeatureColumn) for item in value):
        return tuple(map(serialize_feature_column, value))
    if isinstance(value, api().DType):
        return value.name
    if hasattr(value, "get_config"):
        return {"class_name": type(value).__name__, "config": value.get_config()}
    return value.__name__ if callable(value) else value


def _from_config(name: str, value: Any, custom_objects: Any, known: dict[str, Any]) -> Any:
    if name in ("categorical_column", "source_column"):
        return deserialize_feature_column(value, custom_objects, known)
    if name == "keys":
        return tuple([deserialize_feature_column(key, custom_objects, known) for key in value])
    if name == "dtype":
        return api().as_dtype(value)
    if name in ("initializer", "normalizer_fn"):
        return _callable(value, custom_objects)
    return tuple(value) if isinstance(value, list) else value


def _callable(value: Any, custom_objects: Any) -> Any:
    """The function or initializer that a configuration names."""
    if value is None or callable(value):
        return value
    name = value if isinstance(value, str) else value["class_name"]
    spaces: Iterable[Any] = (api().compat.v1.initializers, api().compat.v1, api().initializers)
    found = (custom_objects or {}).get(name) or next((getattr(s, name) for s in spaces if hasattr(s, name)), None)
    if found is None:
        raise ValueError(f"Unknown function or class: {name}. Give it in custom_objects.")
    if isinstance(value, str):
        return found
    return found.from_config(value["config"]) if hasattr(found, "from_config") else found(**value["config"])
