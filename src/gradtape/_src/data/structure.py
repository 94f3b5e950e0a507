"""Elements and their specifications: tuples and dicts with tensors in them. A list is a tensor, as in TensorFlow."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gradtape._src import nest
from gradtape._src.conversion import convert, wrap
from gradtape._src.dtypes import DType
from gradtape._src.interrupts import float_errors_ignored, is_interrupt
from gradtape._src.ops.ragged import RaggedTensor, RaggedTensorSpec
from gradtape._src.ops.ragged.rows import RaggedRow, rows_of_ragged, stacked
from gradtape._src.ops.sparse_tensor import SparseTensor, SparseTensorSpec, stack, unstack
from gradtape._src.shape import TensorShape, TensorSpec
from gradtape._src.tensor import Tensor

_SIZES = (3, 5)  # values for unknown dimensions: results that differ depend on these dimensions


class NoneTensorSpec:
    """The specification of None."""

    def __repr__(self) -> str:
        return "NoneTensorSpec()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoneTensorSpec)

    def __hash__(self) -> int:
        return hash(NoneTensorSpec)


class DatasetBatch:
    """Several datasets as one element: `batch` of a dataset of datasets creates it, and `unbatch` splits it."""

    def __init__(self, datasets: list[Any]) -> None:
        self.datasets = datasets

    def _element_of_dataset(self) -> Any:
        return self.datasets[0]._element_of_dataset()._batched(len(self.datasets))

    @property
    def element_spec(self) -> Any:
        return self._element_of_dataset().element_spec

    def __repr__(self) -> str:
        return f"<DatasetBatch of {len(self.datasets)} datasets, element_spec={self.element_spec!r}>"


def is_whole(value: Any) -> bool:
    """Whether a value is a leaf already: a dense, sparse or ragged tensor, None, a dataset, an optional."""
    return (
        isinstance(value, (Tensor, SparseTensor, RaggedTensor))
        or value is None
        or hasattr(value, "_element_of_dataset")
    )


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
    if isinstance(value, list) and value and all(hasattr(part, "_pipeline") for part in value):
        return DatasetBatch(value)
    return convert(value)


def returned(value: Any) -> Any:
    """Convert the result of a function to an element; a list at the top level becomes a tuple."""
    if type(value) is Tensor:
        return value
    return normalized(tuple(value) if type(value) is list else value)


def call(function: Callable[..., Any], element: Any) -> Any:
    """Call a function with an element; the parts of a tuple are its arguments."""
    return function(*element) if type(element) is tuple else function(element)


def packer(structure: Any) -> Callable[[list[Any]], Any]:
    """A function that packs leaves into a structure; work that depends only on the structure is done once."""
    if not nest.is_nested(structure):
        return lambda flat: flat[0]
    if type(structure) is tuple and not any(map(nest.is_nested, structure)):
        return tuple
    return lambda flat: nest.pack_sequence_as(structure, flat)


# -- specifications --------------------------------------------------------------------------------------------------
def spec_of(element: Any) -> Any:
    """The specification of one element."""
    return nest.map_structure(_leaf_spec, element)


def _leaf_spec(leaf: Any) -> Any:
    if leaf is None:
        return NoneTensorSpec()
    if isinstance(leaf, Tensor):
        return TensorSpec(leaf.shape, leaf.dtype)
    if isinstance(leaf, (SparseTensor, RaggedTensor)):
        return leaf._type_spec
    if hasattr(leaf, "_element_of_dataset"):
        return leaf._element_of_dataset()
    return type(leaf)


TENSOR_SPECS = (TensorSpec, SparseTensorSpec, RaggedTensorSpec)


def each(change: Callable[[Any], Any], spec: Any) -> Any:
    """A specification with `change` applied to every tensor's."""
    return nest.map_structure(lambda leaf: change(leaf) if isinstance(leaf, TENSOR_SPECS) else leaf, spec)


def reshaped(spec: Any, shape: Any) -> Any:
    """The specification with another shape; ragged dimensions start with the second one."""
    if not isinstance(spec, RaggedTensorSpec):
        return type(spec)(shape, spec.dtype)
    more = 0 if spec.shape.rank is None else (TensorShape(shape).rank or 0) - spec.shape.rank
    return RaggedTensorSpec(shape, spec.dtype, max(spec.ragged_rank + more, 0), spec.row_splits_dtype)


def in_batches(spec: Any, size: int | None) -> Any:
    """The specification of batches of such elements."""
    return nest.map_structure(lambda leaf: _batched_spec(leaf, size), spec)


def _batched_spec(leaf: Any, size: int | None) -> Any:
    if isinstance(leaf, TENSOR_SPECS):
        return reshaped(leaf, TensorShape([size]).concatenate(leaf.shape))
    return leaf._batched(size) if hasattr(leaf, "_batched") else leaf


def row_spec(leaf: Any) -> Any:
    """The specification of the rows of such a leaf."""
    if isinstance(leaf, TENSOR_SPECS):
        return reshaped(leaf, leaf.shape[1:])
    return leaf._row() if hasattr(leaf, "_row") else leaf


# -- rows ------------------------------------------------------------------------------------------------------------
def rows_of(leaf: Any) -> Any:
    """The rows of a leaf that is not a dense tensor, as a list."""
    if isinstance(leaf, SparseTensor):
        return unstack(leaf)
    if isinstance(leaf, RaggedTensor):
        return rows_of_ragged(leaf)
    if isinstance(leaf, DatasetBatch):
        return leaf.datasets
    if hasattr(leaf, "_rows_in_dataset"):
        return leaf._rows_in_dataset()
    if hasattr(leaf, "_pipeline"):
        raise ValueError("Slicing dataset elements is not supported for rank 0.")
    raise TypeError(f"Only tensors have rows, got {type(leaf).__name__}.")


def joined(leaves: list[Any]) -> Any:
    """A leaf whose rows are the given leaves, which are not dense tensors; None for other leaves."""
    if all(isinstance(leaf, SparseTensor) for leaf in leaves):
        return stack(leaves)
    if all(isinstance(leaf, (RaggedTensor, RaggedRow)) for leaf in leaves):
        return stacked(leaves)
    if all(hasattr(leaf, "_joined_in_dataset") for leaf in leaves):
        return type(leaves[0])._joined_in_dataset(leaves)
    return DatasetBatch(leaves) if all(hasattr(leaf, "_pipeline") for leaf in leaves) else None


def spec_of_result(function: Callable[..., Any], specs: tuple[Any, ...], first: Callable[[], tuple[Any, ...]]) -> Any:
    """The specification of a function's result, for arguments with these specifications.

    The function runs on ones, twice if dimensions are unknown. If it fails on these, it runs on the first element; then
    only the ranks of the results are used. With strings, it runs on empty ones and on the first element; with integers,
    also on twos if a size is 1, because shapes may depend on them.
    """
    sizes = _SIZES if any(None in _dims(leaf) for leaf in nest.flatten(specs)) else _SIZES[:1]
    try:
        with float_errors_ignored():
            found = [spec_of(function(*nest.map_structure(lambda s: _stand_in(s, n), specs))) for n in sizes]  # noqa: B023
            if any(map(_is_text, nest.flatten(specs))) and (given := first())[-1] is not None:
                found.append(spec_of(function(*given)))
            if any(map(_is_number, nest.flatten(specs))) and any(map(_has_size_1, nest.flatten(found))):
                found += _spec_of_twos(function, specs)
        return functools.reduce(lambda one, other: nest.map_structure(_common, one, other), found)
    except Exception as error:
        if is_interrupt(error):
            raise
        given = first()
        if given[-1] is None:  # there is no element
            raise
        return each(lambda leaf: reshaped(leaf, [None] * len(leaf.shape)), spec_of(function(*given)))


def _has_size_1(leaf: Any) -> bool:
    return 1 in _dims(leaf)


def _spec_of_twos(function: Callable[..., Any], specs: tuple[Any, ...]) -> list[Any]:
    """The specification of the result for twos; None if the function fails on them."""
    try:
        twos = nest.map_structure(lambda s: _twos(s) if _is_number(s) else _stand_in(s, _SIZES[0]), specs)
        return [spec_of(function(*twos))]
    except Exception as error:
        if is_interrupt(error):
            raise
        return []


def _is_number(spec: Any) -> bool:
    """Whether it specifies an integer scalar, which may be a size."""
    return isinstance(spec, TensorSpec) and spec.shape.rank == 0 and spec.dtype.is_integer


def _twos(spec: Any) -> Tensor:
    return wrap(np.full((), 2, spec.dtype.numpy_dtype))


def _is_text(spec: Any) -> bool:
    return isinstance(spec, TensorSpec) and spec.dtype.name == "string"


def _dims(spec: Any) -> Any:
    if isinstance(spec, (SparseTensorSpec, RaggedTensorSpec)):
        return [None]  # the number of values is unknown
    return (spec.shape.dims or [None] * (spec.shape.rank is None)) if isinstance(spec, TensorSpec) else ()


def _stand_in(spec: Any, size: int) -> Any:
    if not isinstance(spec, TENSOR_SPECS):
        return None if isinstance(spec, NoneTensorSpec) else spec._stand_in(lambda inner: _stand_in(inner, size))
    if spec.shape.rank is None:
        raise ValueError("A tensor of unknown rank cannot be replaced by a placeholder.")
    shape = [size if n is None else n for n in spec.shape]
    if isinstance(spec, SparseTensorSpec):
        where = np.argwhere(np.ones([min(n, 2) for n in shape], bool))
        where = where[: 1 if size == _SIZES[0] else 2 % (len(where) + 1)]  # a different number of values each time
        return SparseTensor(where, _ones([len(where)], spec.dtype), np.array(shape, np.int64))
    ones = _ones(shape, spec.dtype)
    ragged_rank = spec.ragged_rank if isinstance(spec, RaggedTensorSpec) else 0
    return RaggedTensor.from_tensor(ones, ragged_rank=ragged_rank) if ragged_rank else ones


def _ones(shape: Any, dtype: DType) -> Tensor:
    return wrap(np.full(shape, b"", object) if dtype.name == "string" else np.ones(shape, dtype.numpy_dtype))


def _common(one: Any, other: Any) -> Any:
    if isinstance(one, TENSOR_SPECS):
        return one.most_specific_compatible_type(other)
    if hasattr(one, "element_spec"):  # a dataset in a dataset
        return type(one)(nest.map_structure(_common, one.element_spec, other.element_spec), one._shape)
    if hasattr(one, "most_specific_compatible_type"):
        return one.most_specific_compatible_type(other)
    return one
