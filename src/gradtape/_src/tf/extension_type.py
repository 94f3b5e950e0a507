"""`tf.experimental.ExtensionType`: classes whose values consist of tensors, declared by annotated fields."""

from __future__ import annotations

import importlib
import inspect
import itertools
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from gradtape._src import nest
from gradtape._src.conversion import convert, register_converter
from gradtape._src.core.composites import NotDenseError, register_gradient, register_handler
from gradtape._src.dtypes import DType, as_dtype
from gradtape._src.ops.ragged.tensor import RaggedTensor
from gradtape._src.shape import TensorShape, TensorSpec
from gradtape._src.tensor import Tensor
from gradtape._src.tf import math
from gradtape._src.tf.api_dispatch import call_registered
from gradtape._src.tf.array import stack, unstack
from gradtape._src.tf.ragged import stack as stack_ragged
from gradtape._src.tf.specs import BatchableTypeSpec, CompositeTensor, TypeSpec, type_spec_from_value
from gradtape._src.variable import Variable

__all__ = ["BatchableExtensionType", "ExtensionType", "ExtensionTypeBatchEncoder", "ExtensionTypeSpec", "as_dict"]

_PLAIN = (int, float, str, bytes, bool, type(None))
_RESERVED = "_tf_extension_type"
_BUILDING = "_tf_extension_type_in_constructor"
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

    @classmethod
    def from_value(cls, value: Any) -> Any:
        """Return the specification of a value of the class."""
        made = object.__new__(cls)
        for name in cls._extension._tf_fields:
            object.__setattr__(made, name, _spec_of(getattr(value, name)))
        return made

    def __validate__(self) -> None:
        """Check a new specification; subclasses raise an error for invalid ones."""

    def _fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._extension._tf_fields}

    def _serialize(self) -> tuple[Any, ...]:
        return tuple([(name, _mutable(value)) for name, value in self._fields().items()])

    @classmethod
    def _deserialize(cls, serialization: Any) -> Any:
        made = object.__new__(cls)
        for name, value in serialization:
            object.__setattr__(made, name, _frozen(value))
        return made

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
        if _BUILDING not in vars(self) or name not in self._extension._tf_fields:
            raise AttributeError(
                f"Cannot mutate attribute `{name}` outside the custom constructor of ExtensionTypeSpec."
            )
        object.__setattr__(self, name, _frozen(value))

    def __delattr__(self, name: str) -> None:
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


def _mutable(value: Any) -> Any:
    """A field with dictionaries instead of immutable mappings."""
    if isinstance(value, ImmutableDict):
        return {key: _mutable(item) for key, item in value.items()}
    return tuple(map(_mutable, value)) if isinstance(value, tuple) else value


def _own_constructor(spec: Any) -> Any:
    """A specification's own constructor, which may set fields, with the checks behind it."""
    own = spec.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        vars(self)[_BUILDING] = True
        try:
            own(self, *args, **kwargs)
        finally:
            del vars(self)[_BUILDING]
        for name in self._extension._tf_fields:
            if name not in vars(self):
                raise AttributeError(f"{type(self).__name__!r} does not set its field {name!r}.")
        self.__validate__()

    __init__.__signature__ = inspect.signature(own)  # type: ignore[attr-defined]
    return __init__


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
    signature = extension._tf_signature
    found = signature.bind(None, *args, **kwargs)
    found.apply_defaults()
    return {name: found.arguments[name] for name in extension._tf_fields}


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

    Spec: typing.ClassVar[Any]
    _tf_fields: typing.ClassVar[dict[str, tuple[Any, Any]]] = {}
    _tf_signature: typing.ClassVar[inspect.Signature]
    _spec_base: Any = ExtensionTypeSpec

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._tf_fields = {**cls._tf_fields, **_own_fields(cls)}
        cls._tf_signature = _signature(cls)
        own = vars(cls).get("Spec")
        more: dict[str, Any] = {}
        if own is not None:
            more = {name: value for name, value in vars(own).items() if name not in ("__dict__", "__weakref__")}
            if "__init__" in more:
                more["__init__"] = _own_constructor(own)
        spec = type(
            f"{cls.__name__}.Spec", (cls._spec_base,), {**more, "_extension": cls, "__module__": cls.__module__}
        )
        cls.Spec = spec
        for name in cls._tf_fields:
            if name in vars(cls):
                delattr(cls, name)  # the default is known: the attribute belongs to each value
        _wrap_constructor(cls)
        register_handler(cls, call_registered)
        register_converter(cls, _refuse_conversion)
        register_gradient(cls, _refuse_gradient, _refuse_gradient)

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls in (ExtensionType, BatchableExtensionType):
            raise AssertionError(
                f"Cannot create an instance of {cls.__name__} because {cls.__name__} is an abstract base class. "
                "Subclass it."
            )
        return object.__new__(cls)

    def _finish(self) -> None:
        """Convert and check the fields; after this the value is immutable."""
        if any(isinstance(kind, _Later) for kind, _ in type(self)._tf_fields.values()):
            _resolve_later(type(self))
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
        return type(self).Spec.from_value(self)

    def __setattr__(self, name: str, value: Any) -> None:
        if _RESERVED in vars(self) or name not in type(self)._tf_fields:
            raise AttributeError(f"Cannot mutate attribute `{name}` outside the custom constructor of ExtensionType.")
        vars(self)[name] = value

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Cannot mutate attribute `{name}` outside the custom constructor of ExtensionType.")

    def __repr__(self) -> str:
        fields = ", ".join([f"{name}={getattr(self, name)!r}" for name in type(self)._tf_fields])
        return f"{type(self).__qualname__}({fields})"

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


RESERVED = frozenset([
    "self", "Spec", "_type_spec", "_shape_invariant_to_type_spec", "_consumers", "value_type", "is_compatible_with",
    "most_specific_compatible_type", "_with_tensor_ranks_only", "_to_components", "_from_components",
    "_component_specs", "_to_tensor_list", "_from_tensor_list", "_from_compatible_tensor_list", "_flat_tensor_specs",
    "_serialize", "_deserialize", "_to_legacy_output_types", "_to_legacy_output_shapes", "_to_legacy_output_classes",
    "_keras_mask",
])  # fmt: skip
"""Names that a class can use neither for a field nor for a method: specifications have them."""


def _check_names(cls: Any, fields: list[str]) -> None:
    for name in [*fields, *vars(cls)]:
        is_ours = name in fields and name.startswith(_RESERVED)
        if is_ours or (name in RESERVED and name != "Spec") or (name == "Spec" and name in fields):
            raise ValueError(f"The field annotations for {cls.__name__} are invalid. Field {name!r} is reserved.")
    spec = vars(cls).get("Spec")
    if spec is None:
        return
    if not isinstance(spec, type):
        raise ValueError(f"{cls.__name__}.Spec must be a nested class; got {spec!r}.")
    if spec.__bases__ not in ((object,), (TypeSpec,)):
        raise ValueError(f"{cls.__name__}.Spec must be directly subclassed from tf.TypeSpec.")


def _annotations(cls: Any) -> dict[str, Any]:
    """The annotations of a class itself; names that are not defined yet are text or forward references."""
    if sys.version_info >= (3, 14):
        annotationlib = importlib.import_module("annotationlib")
        return dict(annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF))
    return dict(vars(cls).get("__annotations__", {}))


def _own_fields(cls: Any) -> dict[str, tuple[Any, Any]]:
    """The fields that a class declares itself, with their types and defaults."""
    annotations = {name: kind for name, kind in _annotations(cls).items() if "ClassVar" not in str(kind)}
    _check_names(cls, list(annotations))
    if not annotations:
        return {}
    names = _names_in_scope(cls)
    fields = {}
    for name, kind in annotations.items():
        default = vars(cls).get(name, _MISSING)
        try:
            found = _type_hint(cls, kind, names)
        except (NameError, AttributeError):  # a class that is defined later: found when the first value is created
            fields[name] = _Later(kind, names), default
            continue
        _check_annotation(found, f"In field {name!r}")
        if default is not _MISSING and not _has_tensors(found):
            default = _converted(default, found, f"default value for {name}")
        fields[name] = found, default
    return fields


def _has_tensors(kind: Any) -> bool:
    """Whether values of a type hold tensors; such defaults are converted for each value, also in functions."""
    if isinstance(kind, type):
        return issubclass(kind, (Tensor, Variable, CompositeTensor))
    return any(_has_tensors(part) for part in typing.get_args(kind))


class _Later(typing.NamedTuple):
    """An annotation with names that are not defined yet."""

    annotation: Any
    names: dict[str, Any]


def _resolve_later(cls: Any) -> None:
    """Find the types of fields whose annotations named classes that were defined later."""
    for base in cls.__mro__:
        for name, (kind, default) in vars(base).get("_tf_fields", {}).items():
            if not isinstance(kind, _Later):
                continue
            try:
                found = _type_hint(base, kind.annotation, kind.names)
            except (NameError, AttributeError):
                raise TypeError(
                    f"In field {name!r}: Unresolved forward reference {kind.annotation!r}. Define the class at the top "
                    "level of the module before the first value is created."
                ) from None
            _check_annotation(found, f"In field {name!r}")
            base._tf_fields[name] = found, default


def _names_in_scope(cls: Any) -> dict[str, Any]:
    """The names of the `class` statement's scope that are not in its module."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (frame.f_globals is globals() or frame.f_globals["__name__"] == "abc"):
        frame = frame.f_back
    if frame.f_locals is not frame.f_globals:
        return {**frame.f_globals, **frame.f_locals}
    # Code that `exec` runs, such as a notebook's or a doctest's, may have other globals than the module that it names.
    return {} if frame.f_globals is vars(sys.modules.get(cls.__module__, typing)) else frame.f_globals


def _type_hint(cls: Any, annotation: Any, names: dict[str, Any]) -> Any:
    """The type that an annotation means."""
    alone = types.SimpleNamespace(__annotations__={"field": annotation})
    known = {**vars(sys.modules.get(cls.__module__, typing)), **names, cls.__name__: cls}
    return typing.get_type_hints(alone, known)["field"]


def _signature(cls: Any) -> inspect.Signature:
    """The signature of a class's constructor."""
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=default,
            annotation=kind.annotation if isinstance(kind, _Later) else kind,
        )
        for name, (kind, default) in cls._tf_fields.items()
    ]
    optional = [i for i, parameter in enumerate(parameters) if parameter.default is not _MISSING]
    required = [i for i, parameter in enumerate(parameters) if parameter.default is _MISSING]
    if optional and required and optional[0] < required[-1]:  # those behind the first default are keyword-only
        first = optional[0] + 1
        parameters[first:] = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters[first:]]
    return inspect.Signature(
        [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD), *parameters], return_annotation=cls
    )


def _wrap_constructor(cls: Any) -> None:
    """Give a class a constructor: from its fields, or its own with conversion and checks after it."""
    own = vars(cls).get("__init__")
    if own is None:
        if cls.__init__ is not ExtensionType.__init__ and not hasattr(cls.__init__, "_of_fields"):
            return  # inherited from a class that defines it

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            for name, value in _bound(type(self), args, kwargs).items():
                vars(self)[name] = value
            self._finish()

        __init__._of_fields = True  # type: ignore[attr-defined]
        __init__.__signature__ = _signature(cls)  # type: ignore[attr-defined]
    else:

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            own(self, *args, **kwargs)
            if type(self) is cls and _RESERVED not in vars(self):
                self._finish()

        __init__.__signature__ = inspect.signature(own)  # type: ignore[attr-defined]
    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
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
        columns = [_rows(leaf) for leaf in _flat(self)]
        return [_of_leaves(self, list(row)) for row in zip(*columns, strict=False)]

    @staticmethod
    def _joined_in_dataset(values: list[Any], like: Any = None) -> Any:
        if not values:  # no rows: the first zero rows of another batch
            empty = [
                _index(leaf, slice(0, 0)) if isinstance(leaf, (Tensor, RaggedTensor)) else leaf for leaf in _flat(like)
            ]
            return _of_leaves(like, empty)
        columns = zip(*map(_flat, values), strict=True)
        return _of_leaves(values[0], [_joined(list(column)) for column in columns])


def _values(value: Any) -> list[Any]:
    return [getattr(value, name) for name in type(value)._tf_fields]


def _flat(value: Any) -> list[Any]:
    """The leaves of all fields."""
    return [leaf for field in _values(value) for leaf in _leaves(field)]


def _of_leaves(like: Any, leaves: list[Any]) -> Any:
    """A value with the structure of another, from the leaves of its fields."""
    made, remaining = object.__new__(type(like)), iter(leaves)
    for name, value in zip(type(like)._tf_fields, _values(like), strict=True):
        vars(made)[name] = _packed(value, [next(remaining) for _ in _leaves(value)])
    vars(made)[_RESERVED] = True
    return made


def _index(leaf: Any, index: Any) -> Any:
    return leaf[index]


def _rows(leaf: Any) -> Iterable[Any]:
    """The rows of a leaf; what is no tensor is the same in each of them."""
    if isinstance(leaf, Tensor):
        return unstack(leaf)
    if isinstance(leaf, RaggedTensor):
        return [_index(leaf, i) for i in range(int(leaf.nrows().numpy()))]
    if hasattr(leaf, "_rows_in_dataset"):
        return leaf._rows_in_dataset()
    return itertools.repeat(leaf)


def _joined(leaves: list[Any]) -> Any:
    """The leaf with these rows."""
    first = leaves[0]
    if isinstance(first, RaggedTensor) or (
        isinstance(first, Tensor) and any(leaf.array.shape != first.array.shape for leaf in leaves)
    ):
        return stack_ragged(leaves)
    if isinstance(first, Tensor):
        return stack(leaves)
    return first._joined_in_dataset(leaves) if hasattr(first, "_joined_in_dataset") else first


def as_dict(value: Any) -> dict[str, Any]:
    """The fields of a value, by their names.

    >>> class Pair(tf.experimental.ExtensionType):
    ...     x: tf.Tensor
    ...     name: str = "p"
    >>> tf.experimental.extension_type.as_dict(Pair(1.0))["name"]
    'p'
    """
    return {name: getattr(value, name) for name in type(value)._tf_fields}
