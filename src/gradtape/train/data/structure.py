"""Elements and their specifications: tuples and dicts with tensors in them. A list is a tensor, as in TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gradtape import nest
from gradtape.conversion import convert, converter_of, wrap
from gradtape.interrupts import float_errors_ignored
from gradtape.shape import TensorShape, TensorSpec
from gradtape.tensor import Tensor

_SIZES = (3, 5)  # what stands for dimensions that are not known: results that differ depend on them


class NoneTensorSpec:
    """The specification of None."""

    def __repr__(self) -> str:
        return "NoneTensorSpec()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoneTensorSpec)

    def __hash__(self) -> int:
        return hash(NoneTensorSpec)


def is_whole(value: Any) -> bool:
    """Whether a value is a leaf as it is: a tensor, None, a dataset, an optional value."""
    return isinstance(value, Tensor) or value is None or hasattr(value, "_element_of_dataset")


def normalized(value: Any) -> Any:
    """A value as an element: tuples and dicts stay, everything within becomes tensors.

    >>> normalized((1, {"a": [2.0, 3.0]}))[1]["a"].shape
    TensorShape([2])
    """
    if is_whole(value):
        return value
    if isinstance(value, tuple):
        parts = [normalized(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, Mapping):
        made = {key: normalized(part) for key, part in value.items()}
        return made if type(value) is dict else nest.pack_sequence_as(value, nest.flatten(made))
    if converter_of(value) is None and hasattr(value, "indices") and hasattr(value, "dense_shape"):
        return value  # a sparse tensor
    return convert(value)


def returned(value: Any) -> Any:
    """What a function gave, as an element: a list as a whole is a tuple."""
    return normalized(tuple(value) if type(value) is list else value)


def call(function: Callable[..., Any], element: Any) -> Any:
    """A function of an element; the parts of a tuple are its arguments."""
    return function(*element) if type(element) is tuple else function(element)


def packer(structure: Any) -> Callable[[list[Any]], Any]:
    """Arranges leaves like a structure: what depends on the structure alone is done once."""
    if not nest.is_nested(structure):
        return lambda flat: flat[0]
    if type(structure) is tuple and not any(map(nest.is_nested, structure)):
        return tuple
    return lambda flat: nest.pack_sequence_as(structure, flat)


# -- specifications --------------------------------------------------------------------------------------------------
def spec_of(element: Any) -> Any:
    """The specification that fits this very element."""
    return nest.map_structure(_leaf_spec, element)


def _leaf_spec(leaf: Any) -> Any:
    if leaf is None:
        return NoneTensorSpec()
    if isinstance(leaf, Tensor):
        return TensorSpec(leaf.shape, leaf.dtype)
    if hasattr(leaf, "_element_of_dataset"):
        return leaf._element_of_dataset()
    return type(leaf)


def each(change: Callable[[TensorSpec], TensorSpec], spec: Any) -> Any:
    """A specification with that of every tensor changed."""
    return nest.map_structure(lambda leaf: change(leaf) if isinstance(leaf, TensorSpec) else leaf, spec)


def reshaped(spec: TensorSpec, shape: Any) -> TensorSpec:
    return TensorSpec(shape, spec.dtype)


def in_batches(spec: Any, size: int | None) -> Any:
    """The specification of batches of what `spec` specifies."""
    return each(lambda leaf: reshaped(leaf, TensorShape([size]).concatenate(leaf.shape)), spec)


def spec_of_result(function: Callable[..., Any], specs: tuple[Any, ...], first: Callable[[], tuple[Any, ...]]) -> Any:
    """What a function gives for arguments of these specifications.

    It runs on ones, twice if dimensions are unknown. If it cannot take these, it runs on the first element, of whose
    results only the ranks are believed.
    """
    sizes = _SIZES if any(None in _dims(leaf) for leaf in nest.flatten(specs)) else _SIZES[:1]
    try:
        with float_errors_ignored():
            one, *others = [spec_of(function(*nest.map_structure(lambda s: _stand_in(s, n), specs))) for n in sizes]  # noqa: B023
        return nest.map_structure(_common, one, others[0]) if others else one
    except Exception:
        given = first()
        if given[-1] is None:  # there is no element
            raise
        found = spec_of(function(*given))
        return each(lambda leaf: reshaped(leaf, [None] * len(leaf.shape)), found)


def _dims(spec: Any) -> Any:
    return (spec.shape.dims or [None] * (spec.shape.rank is None)) if isinstance(spec, TensorSpec) else ()


def _stand_in(spec: Any, size: int) -> Any:
    if not isinstance(spec, TensorSpec):
        return None if isinstance(spec, NoneTensorSpec) else spec._stand_in(lambda inner: _stand_in(inner, size))
    if spec.shape.rank is None:
        raise ValueError("Nothing can stand in for a tensor of unknown rank.")
    shape = [size if n is None else n for n in spec.shape]
    if spec.dtype.name == "string":
        return wrap(np.full(shape, b"", object))
    return wrap(np.ones(shape, spec.dtype.numpy_dtype))


def _common(one: Any, other: Any) -> Any:
    if isinstance(one, TensorSpec):
        return one.most_specific_compatible_type(other)
    if hasattr(one, "element_spec"):  # of a dataset within a dataset
        return type(one)(nest.map_structure(_common, one.element_spec, other.element_spec))
    return one
