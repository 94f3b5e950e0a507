"""Specifications of values: `TypeSpec`, and `CompositeTensor` for classes of values that consist of several tensors.

A `TypeSpec` defines how a value is flattened and rebuilt. A subclass of `CompositeTensor` has one; its objects pass
through `tf.nest` with `expand_composites`, and so through functions, loops and branches, as their tensors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gradtape._src import nest
from gradtape._src.conversion import convert
from gradtape._src.core.composites import is_composite
from gradtape._src.data.dataset import DatasetSpec
from gradtape._src.data.structure import NoneTensorSpec, spec_of
from gradtape._src.distribute.values import PerReplicaSpec
from gradtape._src.dtypes import DType, as_dtype, float32
from gradtape._src.indexed_slices import IndexedSlices
from gradtape._src.ops.ragged.tensor import RaggedTensor, RaggedTensorSpec
from gradtape._src.ops.sparse_tensor import SparseTensor, SparseTensorSpec
from gradtape._src.shape import ShapeAndDtype, TensorShape, TensorSpec
from gradtape._src.tensor import Tensor
from gradtape._src.variable import Variable
from gradtape._src.variable.spec import VariableSpec

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = [
    "BatchableTypeSpec",
    "CompositeTensor",
    "DenseSpec",
    "TypeSpec",
    "convert_variables_to_tensors",
    "register_type_spec",
    "register_type_spec_from_value_converter",
    "spec_names",
    "spec_types",
    "type_spec_from_value",
]


class TypeSpec(ABC):
    """A description of a value that consists of tensors.

    A subclass defines the class of the values (`value_type`), how to take a value apart (`_to_components`) and put it
    together again (`_from_components`), the specifications of the parts (`_component_specs`), and what the
    specification itself consists of (`_serialize`).

    >>> isinstance(tf.TensorSpec([2]), tf.TypeSpec), isinstance(tf.RaggedTensorSpec([2, None]), tf.TypeSpec)
    (True, True)
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        nest.register_composite(cls, lambda spec: (spec._component_specs,), _of_components)

    @property
    @abstractmethod
    def value_type(self) -> Any:
        """The class of the values.

        >>> tf.RaggedTensorSpec([2, None]).value_type is tf.RaggedTensor
        True
        """

    @abstractmethod
    def _serialize(self) -> tuple[Any, ...]:
        """The arguments with which `_deserialize` builds this specification."""

    @property
    @abstractmethod
    def _component_specs(self) -> Any:
        """The specifications of the components."""

    @abstractmethod
    def _to_components(self, value: Any) -> Any:
        """The components of a value, in the structure of `_component_specs`."""

    @abstractmethod
    def _from_components(self, components: Any) -> Any:
        """The value with these components."""

    @classmethod
    def _deserialize(cls, serialization: Any) -> Self:
        return cls(*serialization)

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Return whether a value, or every value of a specification, matches this one.

        Args:
          spec_or_value: A specification, or a value.

        >>> tf.TensorSpec([None]).is_compatible_with(tf.TensorSpec([2]))
        True
        """
        other = spec_or_value if isinstance(spec_or_value, TypeSpec) else type_spec_from_value(spec_or_value)
        return type(self) is type(other) and self.__is_compatible(self._serialize(), other._serialize())

    def is_subtype_of(self, other: Any) -> bool:
        """Return whether everything that matches this specification also matches `other`.

        Args:
          other: A specification.

        >>> tf.TensorSpec([2]).is_subtype_of(tf.TensorSpec([None]))
        True
        """
        if type(self) is not type(other):
            return False
        mine, theirs = nest.flatten(self._serialize()), nest.flatten(other._serialize())
        return len(mine) == len(theirs) and all(_is_subtype(a, b) for a, b in zip(mine, theirs, strict=True))

    def most_specific_common_supertype(self, others: Sequence[Any]) -> Self | None:
        """Return the narrowest specification that covers this one and all `others`, or None.

        Args:
          others: Specifications.

        >>> tf.TensorSpec([2]).most_specific_common_supertype([tf.TensorSpec([3])])
        TensorSpec(shape=(None,), dtype=tf.float32, name=None)
        """
        if any(type(self) is not type(other) for other in others):
            return None
        mine = self._serialize()
        flats = [nest.flatten(each._serialize()) for each in (self, *others)]
        if len({len(flat) for flat in flats}) != 1:
            return None
        common = [_common(parts[0], parts[1:]) for parts in zip(*flats, strict=True)]
        if any(part is _NOTHING for part in common):
            return None
        return self._deserialize(nest.pack_sequence_as(mine, common))

    def most_specific_compatible_type(self, other: Any) -> Self:
        """Return the narrowest specification that covers both; raise ValueError if there is none.

        Args:
          other: A specification.

        >>> tf.TensorSpec([2]).most_specific_compatible_type(tf.TensorSpec([3]))
        TensorSpec(shape=(None,), dtype=tf.float32, name=None)
        """
        common = self.most_specific_common_supertype([other])
        if common is None:
            raise ValueError(f"No TypeSpec is compatible with both {self} and {other}")
        return common

    # -- names that subclasses in libraries call, mangled with the class name ------------------------------------------
    @staticmethod
    def __make_cmp_key(value: Any) -> Any:
        """A hashable key that is equal for equal specifications."""
        if isinstance(value, Mapping):
            return ("dict", *[(key, TypeSpec.__make_cmp_key(value[key])) for key in sorted(value)])
        if isinstance(value, (list, tuple)):
            return (type(value).__name__, *[TypeSpec.__make_cmp_key(part) for part in value])
        if isinstance(value, TensorShape):
            return ("TensorShape", None if value.rank is None else tuple(value.as_list()))
        if hasattr(value, "__array__") and not isinstance(value, DType):
            return ("array", str(value.dtype), tuple(value.shape), value.tobytes())
        return value

    @staticmethod
    def __is_compatible(a: Any, b: Any) -> bool:
        """Whether two parts of specifications are compatible."""
        if isinstance(a, TypeSpec):
            return bool(a.is_compatible_with(b))
        if type(a) is not type(b):
            return False
        if isinstance(a, (list, tuple)):
            return len(a) == len(b) and all(TypeSpec.__is_compatible(x, y) for x, y in zip(a, b, strict=True))
        if isinstance(a, dict):
            return set(a) == set(b) and all(TypeSpec.__is_compatible(a[key], b[key]) for key in a)
        return bool(a.is_compatible_with(b)) if isinstance(a, (TensorShape, DType)) else bool(a == b)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return False
        return bool(self.__make_cmp_key(self._serialize()) == self.__make_cmp_key(other._serialize()))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((type(self), self.__make_cmp_key(self._serialize())))

    def __reduce__(self) -> Any:
        return type(self)._deserialize, (self._serialize(),)

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self._serialize()!r}"


def _of_components(spec: TypeSpec, parts: list[Any]) -> Any:
    """The value with these components; if these are specifications, the specification itself."""
    is_described = any(isinstance(leaf, TypeSpec) for leaf in nest.flatten(parts[0]))
    return spec if is_described else spec._from_components(parts[0])


_NOTHING = object()


def _is_subtype(a: Any, b: Any) -> bool:
    return bool(a.is_subtype_of(b)) if hasattr(a, "is_subtype_of") else bool(a == b)


def _common(first: Any, others: Sequence[Any]) -> Any:
    if hasattr(first, "most_specific_common_supertype"):
        found = first.most_specific_common_supertype(list(others))
        return _NOTHING if found is None else found
    return first if all(first == other for other in others) else _NOTHING


class BatchableTypeSpec(TypeSpec):
    """A `TypeSpec` of values that can be stacked and unstacked."""

    @abstractmethod
    def _batch(self, batch_size: Any) -> TypeSpec:
        """The specification of a batch of values."""

    @abstractmethod
    def _unbatch(self) -> TypeSpec:
        """The specification of one value of a batch."""


class DenseSpec(ShapeAndDtype, TypeSpec):
    """A `TypeSpec` of values that have a shape and a dtype, and correspond to one tensor."""

    def __init__(self, shape: Any, dtype: Any = float32, name: str | None = None) -> None:
        self._shape, self._dtype, self._name = TensorShape(shape), as_dtype(dtype), name

    @property
    def name(self) -> str | None:
        """The name of the described value, or None."""
        return self._name


DenseSpec.register(TensorSpec)
for _spec in (VariableSpec, RaggedTensorSpec, SparseTensorSpec, DatasetSpec, NoneTensorSpec, PerReplicaSpec):
    TypeSpec.register(_spec)


# -- registered names --------------------------------------------------------------------------------------------------
spec_types: dict[str, type] = {}
spec_names: dict[type, str] = {}
_converters: list[tuple[type, Callable[[Any], Any]]] = []


def register_type_spec(name: str) -> Callable[[type], type]:
    """Decorate a `TypeSpec` with the name that files use for it: `project.Name`."""
    if not isinstance(name, str) or "." not in name:
        raise ValueError(f"Registered name must have the form '{{project_name}}.{{type_name}}': got {name!r}.")

    def register(kind: type) -> type:
        if not (isinstance(kind, type) and issubclass(kind, TypeSpec)):
            raise TypeError(f"Expected `cls` to be a TypeSpec; got {kind!r}.")
        if kind in spec_names:
            raise ValueError(f"Class {kind.__name__} has already been registered with name {spec_names[kind]!r}.")
        if name in spec_types:
            raise ValueError(f"Name {name!r} has already been registered for class {spec_types[name]!r}.")
        spec_types[name], spec_names[kind] = kind, name
        return kind

    return register


def register_type_spec_from_value_converter(
    type_object: type, converter_fn: Callable[[Any], Any], allow_subclass: bool = False
) -> None:
    """Register how `type_spec_from_value` describes objects of a class."""
    _converters.append((type_object, converter_fn))


# -- values ------------------------------------------------------------------------------------------------------------
class CompositeTensor(ABC):
    """A value that consists of several tensors, as its `TypeSpec` defines."""

    @property
    @abstractmethod
    def _type_spec(self) -> TypeSpec:
        """The specification of this value."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        nest.register_composite(cls, _components, _rebuilt, description=lambda value: value._type_spec)

    def _shape_invariant_to_type_spec(self, shape: Any) -> TypeSpec:
        raise NotImplementedError(f"{type(self).__name__}._shape_invariant_to_type_spec")


def _components(value: Any) -> tuple[Any]:
    return (value._type_spec._to_components(value),)


def _rebuilt(template: Any, parts: list[Any]) -> Any:
    return _of_components(template._type_spec, parts)


for _value in (RaggedTensor, SparseTensor, IndexedSlices):
    CompositeTensor.register(_value)


def convert_variables_to_tensors(values: Any) -> Any:
    """Replace variables in a structure by their values, also those in composite tensors."""

    def converted(leaf: Any) -> Any:
        if isinstance(leaf, Variable):
            return convert(leaf)
        if isinstance(leaf, CompositeTensor) and hasattr(leaf, "_convert_variables_to_tensors"):
            return leaf._convert_variables_to_tensors()
        return leaf

    return nest.map_structure(converted, values)


def type_spec_from_value(value: Any) -> Any:
    """Return the specification of a tensor, ragged tensor, sparse tensor, dataset, or of a value that becomes a tensor.

    >>> import gradtape as tf
    >>> tf.type_spec_from_value(tf.ragged.constant([[1], [2, 3]]))
    RaggedTensorSpec(TensorShape([2, None]), tf.int32, 1, tf.int64)
    """
    if is_composite(value) or isinstance(value, CompositeTensor):
        return value._type_spec
    for kind, converter in reversed(_converters):
        if isinstance(value, kind):
            return converter(value)
    if isinstance(value, (Tensor, Variable)):
        return TensorSpec(value.shape, value.dtype)
    if hasattr(value, "_element_of_dataset"):
        return spec_of(value)
    try:
        return TensorSpec.from_tensor(convert(value))
    except (TypeError, ValueError):
        raise TypeError(f"Could not build a TypeSpec for {value!r} of unsupported type {type(value)}.") from None
