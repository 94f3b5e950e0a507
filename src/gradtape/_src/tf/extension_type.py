"""`tf.experimental.ExtensionType`: classes whose values consist of tensors, declared by annotated fields."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gradtape._src import nest
from gradtape._src.conversion import convert, register_converter
from gradtape._src.core.composites import NotDenseError, register_gradient, register_handler
from gradtape._src.dtypes import DType, as_dtype
from gradtape._src.shape import TensorShape, TensorSpec
from gradtape._src.tensor import Tensor
from gradtape._src.tf import math
from gradtape._src.tf.api_dispatch import call_registered
from gradtape._src.tf.array import stack, unstack
from gradtape._src.tf.specs import BatchableTypeSpec, CompositeTensor, TypeSpec, type_spec_from_value
from gradtape._src.variable import Variable

__all__ = ["BatchableExtensionType", "ExtensionType", "ExtensionTypeBatchEncoder", "ExtensionTypeSpec", "as_dict"]

_PLAIN = (int, float, str, bytes, bool, type(None))
_RESERVED = "_tf_extension_type"
_MISSING = inspect.Parameter.empty


class ImmutableDict(Mapping[str, Any]):
    """A mapping in a field: immutable, and compared by its items."""

    def __init__(self, items: Mapping[str, Any]) -> None:
        self._items = dict(items)

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"ImmutableDict({self._items!r})"

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._items.items())))


# -- annotations -------------------------------------------------------------------------------------------------------
def _check_annotation(kind: Any, where: str) -> None:
    """Raise TypeError for a type that a field cannot have."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        for arg in args:
            _check_annotation(arg, where)
    elif origin is tuple and args:
        if Ellipsis in args and not (len(args) == 2 and args[1] is Ellipsis):
            raise TypeError(f"{where}: Unsupported type annotation {kind!r}.")
        for arg in args:
            if arg is not Ellipsis:
                _check_annotation(arg, where)
    elif origin is not None and isinstance(origin, type) and issubclass(origin, Mapping) and origin is not dict:
        if args[0] is not str:
            raise TypeError(f"{where}: Mapping had a key {args[0]!r} with type {args[0]!r}; expected str.")
        _check_annotation(args[1], where)
    elif not _is_leaf_type(kind):
        advice = " Use Tuple[X, ...] for sequences, and Mapping[str, X] for dictionaries."
        shown = repr(kind.__name__) if isinstance(kind, type) and origin is None else repr(kind)
        raise TypeError(f"{where}: Unsupported type annotation {shown}.{advice}")


def _is_leaf_type(kind: Any) -> bool:
    if kind is None:
        return True
    if not isinstance(kind, type):
        return False
    return kind in _PLAIN or issubclass(kind, (Tensor, Variable, CompositeTensor, DType, TensorShape))


def _converted(value: Any, kind: Any, where: str) -> Any:
    """Convert a value to the type of a field."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _first_that_fits(value, args, where)
    if origin is tuple:
        return _converted_tuple(value, args, where)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise TypeError(f"{where}: expected mapping, got {type(value).__name__!r}")
        return ImmutableDict({key: _converted(item, args[1], f"{where}[{key!r}]") for key, item in value.items()})
    return _converted_leaf(value, kind, where)


def _converted_tuple(value: Any, args: tuple[Any, ...], where: str) -> tuple[Any, ...]:
    if not isinstance(value, (tuple, list)):
        raise TypeError(f"{where}: expected tuple, got {type(value).__name__!r}")
    if len(args) == 2 and args[1] is Ellipsis:
        args = (args[0],) * len(value)
    if len(args) != len(value):
        raise TypeError(f"{where}: expected tuple with length {len(args)}, got {type(value).__name__!r}")
    return tuple(
        [_converted(item, kind, f"{where}[{i}]") for i, (item, kind) in enumerate(zip(value, args, strict=True))]
    )


def _first_that_fits(value: Any, kinds: Sequence[Any], where: str) -> Any:
    for exact in (True, False):
        for kind in kinds:
            if exact and not (isinstance(kind, type) and isinstance(value, kind)):
                continue
            try:
                return _converted(value, type(None) if kind is None else kind, where)
            except (TypeError, ValueError):
                pass
    names = [getattr(kind, "__name__", str(kind)) for kind in kinds]
    raise TypeError(f"{where}: expected one of {names}, got {type(value).__name__!r}")


def _converted_leaf(value: Any, kind: Any, where: str) -> Any:
    if isinstance(value, TypeSpec):
        return value  # in a specification
    if kind is None or kind is type(None):
        if value is not None:
            raise TypeError(f"{where}: expected None, got {type(value).__name__!r}")
        return None
    if issubclass(kind, Variable) or (issubclass(kind, Tensor) and isinstance(value, (Tensor, Variable))):
        return value
    if issubclass(kind, Tensor):
        try:
            return convert(value)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{where}: expected a Tensor, got {type(value).__name__!r}") from error
    if kind is DType:
        return as_dtype(value)
    if kind is TensorShape:
        return TensorShape(value)
    if not isinstance(value, kind) or (kind in (int, float) and isinstance(value, bool)):
        raise TypeError(f"{where}: expected {kind.__name__!r}, got {type(value).__name__!r}")
    return value


# -- specifications ----------------------------------------------------------------------------------------------------
class ExtensionTypeSpec(TypeSpec):
    """What a value of an `ExtensionType` looks like: for each field the specification of its tensors, or its value.

    Each class has its own, as `Class.Spec`.

    >>> class Pair(tf.experimental.ExtensionType):
    ...     x: tf.Tensor
    ...     name: str = "p"
    >>> Pair.Spec(tf.TensorSpec([2]))
    Pair.Spec(x=TensorSpec(shape=(2,), dtype=tf.float32, name=None), name='p')
    """

    _extension: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        for name, value in _bound(self._extension, args, kwargs).items():
            object.__setattr__(self, name, _frozen(value))

    @property
    def value_type(self) -> Any:
        """The class of the values."""
        return self._extension

    def _fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._extension._tf_fields}

    def _serialize(self) -> tuple[Any, ...]:
        return tuple([dict(value) if isinstance(value, ImmutableDict) else value for value in self._fields().values()])

    @property
    def _component_specs(self) -> Any:
        return tuple([_specs(of) for of in self._fields().values()])

    def _to_components(self, value: Any) -> Any:
        return tuple([_parts(getattr(value, name), of) for name, of in self._fields().items()])

    def _from_components(self, components: Any) -> Any:
        made = object.__new__(self._extension)
        for (name, of), parts in zip(self._fields().items(), components, strict=True):
            remaining = iter(parts)
            leaves = [next(remaining) if _is_spec(leaf) else leaf for leaf in _leaves(of)]
            vars(made)[name] = _packed(of, leaves)
        vars(made)[_RESERVED] = True
        return made

    def _stand_in(self, make: Callable[[Any], Any]) -> Any:
        """A value with this specification; `make` creates one from the specification of a tensor."""
        return self._from_components(nest.map_structure(make, self._component_specs))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"Cannot mutate attribute `{name}` outside the custom constructor of ExtensionTypeSpec.")

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self._fields().items())
        return f"{type(self).__name__}({fields})"

    def __getattr__(self, name: str) -> Any:
        if name in ("shape", "dtype"):
            return _shared(self._extension, self, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class _BatchableSpec(ExtensionTypeSpec, BatchableTypeSpec):
    """The specification of values that can be stacked."""

    def _batched(self, size: Any) -> Any:
        return self._batch(size)

    def _row(self) -> Any:
        return self._unbatch()

    def _batch(self, batch_size: Any) -> Any:
        return self._mapped(lambda spec: _batched(spec, batch_size))

    def _unbatch(self) -> Any:
        return self._mapped(_unbatched)

    def _mapped(self, change: Callable[[Any], Any]) -> Any:
        made = object.__new__(type(self))
        for name, of in self._fields().items():
            leaves = [change(leaf) if _is_spec(leaf) else leaf for leaf in _leaves(of)]
            object.__setattr__(made, name, _packed(of, leaves))
        return made


def _batched(spec: Any, size: Any) -> Any:
    return TensorSpec([size, *spec.shape], spec.dtype) if isinstance(spec, TensorSpec) else spec._batch(size)


def _unbatched(spec: Any) -> Any:
    return TensorSpec(spec.shape[1:], spec.dtype) if isinstance(spec, TensorSpec) else spec._unbatch()


def _shared(extension: Any, spec: Any, name: str) -> Any:
    raise AttributeError(
        f"{extension.__name__}.Spec has no attribute {name!r}: its attributes are those of its fields."
    )


def _is_spec(leaf: Any) -> bool:
    return isinstance(leaf, TypeSpec)


def _leaves(value: Any) -> list[Any]:
    return nest.flatten(dict(value) if isinstance(value, ImmutableDict) else value)


def _packed(like: Any, leaves: list[Any]) -> Any:
    if isinstance(like, ImmutableDict):
        return ImmutableDict(nest.pack_sequence_as(dict(like), leaves))
    return nest.pack_sequence_as(like, leaves)


def _specs(value: Any) -> list[Any]:
    return [leaf for leaf in _leaves(value) if _is_spec(leaf)]


def _parts(value: Any, spec: Any) -> list[Any]:
    """The leaves of a field that are tensors, or consist of tensors."""
    return [part for part, of in zip(_leaves(value), _leaves(spec), strict=True) if _is_spec(of)]


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping) and not isinstance(value, ImmutableDict):
        return ImmutableDict({key: _frozen(item) for key, item in value.items()})
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value


def _spec_of(value: Any) -> Any:
    if isinstance(value, ImmutableDict):
        return ImmutableDict({key: _spec_of(item) for key, item in value.items()})
    if isinstance(value, tuple):
        return tuple(map(_spec_of, value))
    is_value = isinstance(value, (Tensor, Variable, CompositeTensor)) or nest.is_composite(value)
    return type_spec_from_value(value) if is_value else value


# -- values ------------------------------------------------------------------------------------------------------------
def _bound(extension: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Bind arguments to fields."""
    parameters = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)
        for name, (_, default) in extension._tf_fields.items()
    ]
    required = [p for p in parameters if p.default is _MISSING]
    optional = [p for p in parameters if p.default is not _MISSING]
    if [*required, *optional] != parameters:  # a field without a default after one with a default: keyword-only
        first = parameters.index(optional[0])
        parameters = [
            *parameters[:first],
            *[p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters[first:]],
        ]
    found = inspect.Signature(parameters).bind(*args, **kwargs)
    found.apply_defaults()
    return found.arguments


class ExtensionType(CompositeTensor):
    """The base of classes of values made of tensors, which functions, loops, tapes and datasets take as one value.

    A subclass declares its fields by annotations: tensors, ragged and sparse tensors, other extension types, Python's
    numbers and strings, dtypes, shapes, `Tuple[X, ...]`, `Mapping[str, X]` and unions of them. Values are converted,
    checked by `__validate__`, and do not change afterwards.

    >>> class MaskedTensor(tf.experimental.ExtensionType):
    ...     values: tf.Tensor
    ...     mask: tf.Tensor
    ...
    ...     def __validate__(self):
    ...         self.values.shape.assert_is_compatible_with(self.mask.shape)
    >>> @tf.function
    ... def doubled(x):
    ...     return MaskedTensor(2.0 * x.values, x.mask)
    >>> doubled(MaskedTensor([1.0, 2.0], [True, False])).values.numpy().tolist()
    [2.0, 4.0]
    """

    Spec: Any = ExtensionTypeSpec
    _tf_fields: typing.ClassVar[dict[str, tuple[Any, Any]]] = {}
    _spec_base: Any = ExtensionTypeSpec

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._tf_fields = {**cls._tf_fields, **_own_fields(cls)}
        own = vars(cls).get("Spec")
        bases = (cls._spec_base,) if own is None else (own, cls._spec_base)
        spec = type(f"{cls.__name__}.Spec", bases, {"_extension": cls, "__module__": cls.__module__})
        cls.Spec = spec
        for name in vars(cls).get("__annotations__", {}):
            if name in vars(cls):
                delattr(cls, name)  # the default is known: the attribute belongs to each value
        register_handler(cls, call_registered)
        register_converter(cls, _refuse_conversion)
        register_gradient(cls, _refuse_gradient, _refuse_gradient)

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls in (ExtensionType, BatchableExtensionType):
            raise TypeError(f"Cannot create an instance of {cls.__name__} because it is a base class: subclass it.")
        return object.__new__(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        for name, value in _bound(type(self), args, kwargs).items():
            vars(self)[name] = value
        self._finish()

    def _finish(self) -> None:
        """Convert and check the fields; after this the value is immutable."""
        for name, (kind, default) in type(self)._tf_fields.items():
            if name not in vars(self):
                if default is _MISSING:
                    raise AttributeError(f"ExtensionType {type(self).__name__!r} does not set its field {name!r}.")
                vars(self)[name] = default
            vars(self)[name] = _converted(vars(self)[name], kind, name)
        more = set(vars(self)) - set(type(self)._tf_fields)
        if more:
            raise ValueError(f"ExtensionType {type(self).__name__!r} has no field {min(more)!r}: declare it.")
        vars(self)[_RESERVED] = True
        self.__validate__()

    def __validate__(self) -> None:
        """Check a new value; subclasses raise an error for invalid ones."""

    def _element_of_dataset(self) -> Any:
        return self._type_spec

    @property
    def _type_spec(self) -> Any:
        made = object.__new__(type(self).Spec)
        for name in type(self)._tf_fields:
            object.__setattr__(made, name, _spec_of(getattr(self, name)))
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        if _RESERVED in vars(self) or name not in type(self)._tf_fields:
            raise AttributeError(f"Cannot mutate attribute `{name}` outside the custom constructor of ExtensionType.")
        vars(self)[name] = value

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Cannot mutate attribute `{name}` outside the custom constructor of ExtensionType.")

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in type(self)._tf_fields)})"
        )

    def __eq__(self, other: object) -> Any:
        if type(self) is not type(other) or self._type_spec != other._type_spec:
            return False
        pairs = zip(
            nest.flatten(self, expand_composites=True), nest.flatten(other, expand_composites=True), strict=True
        )
        alike = [math.reduce_all(math.equal(a, b)) for a, b in pairs]
        result = convert(True)
        for each in alike:
            result = math.logical_and(result, each)
        return result

    def __ne__(self, other: object) -> Any:
        alike = self == other
        return not alike if isinstance(alike, bool) else math.logical_not(alike)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        return _restored, (type(self), {name: getattr(self, name) for name in type(self)._tf_fields})


def _restored(kind: Any, fields: dict[str, Any]) -> Any:
    made = object.__new__(kind)
    vars(made).update(fields, **{_RESERVED: True})
    return made


def _refuse_conversion(value: Any) -> Any:
    raise NotDenseError(
        f"Attempt to convert a value ({value!r}) with an unsupported type ({type(value)}) to a Tensor. Pass its "
        "fields, or define how the function handles it with tf.experimental.dispatch_for_api."
    )


def _refuse_gradient(value: Any, gradient: Any = None) -> Any:
    """Raise an error: a value cannot be a target or source of a gradient, unless its class defines how."""
    kind = type(value)
    if hasattr(kind, "__composite_gradient__"):
        parts = kind.__composite_gradient__
        if gradient is None:
            return parts.get_gradient_components(value)
        return parts.replace_gradient_components(value, gradient)
    raise ValueError(
        f"Type {kind.__name__} is not supported as a gradient source or gradient target. Differentiate with respect to "
        "its fields."
    )


def _own_fields(cls: Any) -> dict[str, tuple[Any, Any]]:
    """The fields that a class declares itself, with their types and defaults."""
    names = [name for name, kind in vars(cls).get("__annotations__", {}).items() if "ClassVar" not in str(kind)]
    if not names:
        _wrap_constructor(cls)
        return {}
    hints = _type_hints(cls)
    fields = {}
    for name in names:
        if name.startswith("_tf_extension_type") or name in ("Spec", "__validate__"):
            raise ValueError(f"The field annotations for {cls.__name__} are invalid. Field {name!r} is reserved.")
        kind = hints[name]
        where = f"In field {name!r}"
        _check_annotation(kind, where)
        default = vars(cls).get(name, _MISSING)
        if default is not _MISSING:
            default = _converted(default, kind, f"default value for {name}")
        fields[name] = kind, default
    _wrap_constructor(cls)
    return fields


def _type_hints(cls: Any) -> dict[str, Any]:
    """The annotations of a class; strings are evaluated with the names of the `class` statement's scope."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (frame.f_globals is globals() or frame.f_globals["__name__"] == "abc"):
        frame = frame.f_back
    names = {**vars(sys.modules.get(cls.__module__, typing)), **frame.f_globals, **frame.f_locals}
    alone = type(cls.__name__, (), {"__annotations__": dict(vars(cls).get("__annotations__", {}))})
    return typing.get_type_hints(alone, names)


def _wrap_constructor(cls: Any) -> None:
    """Add conversion and checks after a class's own constructor."""
    own = vars(cls).get("__init__")
    if own is None:
        return

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        own(self, *args, **kwargs)
        if type(self) is cls and _RESERVED not in vars(self):
            self._finish()

    __init__.__signature__ = inspect.signature(own)  # type: ignore[attr-defined]
    cls.__init__ = __init__


class ExtensionTypeBatchEncoder:
    """How values of a `BatchableExtensionType` are batched: field by field."""

    def batch(self, spec: Any, batch_size: Any) -> Any:
        """The specification of a batch of values."""
        return spec._batch(batch_size)

    def unbatch(self, spec: Any) -> Any:
        """The specification of one value of a batch."""
        return spec._unbatch()

    def encode(self, spec: Any, value: Any, minimum_rank: int = 0) -> Any:
        """The tensors of a value."""
        return nest.flatten(value, expand_composites=True)

    def encoding_specs(self, spec: Any) -> Any:
        """The specifications of the tensors of a value."""
        return nest.flatten(spec._component_specs)

    def decode(self, spec: Any, encoded_value: Any) -> Any:
        """The value of these tensors."""
        return nest.pack_sequence_as(spec, encoded_value, expand_composites=True)


class BatchableExtensionType(ExtensionType):
    """An `ExtensionType` whose values can be stacked, and taken out of a stack: in datasets and in `tf.map_fn`.

    >>> class Point(tf.experimental.BatchableExtensionType):
    ...     x: tf.Tensor
    ...     y: tf.Tensor
    >>> points = Point([1.0, 2.0], [3.0, 4.0])
    >>> tf.map_fn(lambda p: p.x + p.y, points, fn_output_signature=tf.float32).numpy().tolist()
    [4.0, 6.0]
    """

    _spec_base = _BatchableSpec
    __batch_encoder__: typing.ClassVar[Any] = ExtensionTypeBatchEncoder()

    def _rows_in_dataset(self) -> list[Any]:
        columns = [unstack(part) for part in nest.flatten(self, expand_composites=True)]
        spec = self._type_spec._unbatch()
        return [nest.pack_sequence_as(spec, row, expand_composites=True) for row in zip(*columns, strict=True)]

    @staticmethod
    def _joined_in_dataset(values: list[Any]) -> Any:
        rows = [nest.flatten(value, expand_composites=True) for value in values]
        parts = [stack(column) for column in zip(*rows, strict=True)]
        return nest.pack_sequence_as(values[0], parts, expand_composites=True)


def as_dict(value: Any) -> dict[str, Any]:
    """The fields of a value, by their names.

    >>> class Pair(tf.experimental.ExtensionType):
    ...     x: tf.Tensor
    ...     name: str = "p"
    >>> tf.experimental.extension_type.as_dict(Pair(1.0))["name"]
    'p'
    """
    return {name: getattr(value, name) for name in type(value)._tf_fields}
