"""Structures of tensors as one vector, or as a batch of vectors, and functions of vectors."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from gradtape._src import nest
from gradtape._src.arrays.symbolic import is_known
from gradtape._src.conversion import convert
from gradtape._src.tensor import Tensor, is_differentiable
from gradtape._src.tf import array
from gradtape._src.tf.math import reduce_max, reduce_sum
from gradtape._src.variable import Variable, read


class Layout:
    """The structure, shapes and dtype of tensors whose elements are the last axis of one tensor.

    The first `batch_dims` axes of every leaf belong to independent problems, and become the first axis.
    """

    def __init__(self, structure: Any, batch_dims: int = 0, name: str = "x0") -> None:
        check_whole("batch_dims", batch_dims, 0)
        self.structure, self.batch_dims, self.name = structure, batch_dims, name
        leaves = [_real(leaf, name) for leaf in nest.flatten(structure)]
        if not leaves:
            raise ValueError(f"{name} contains no tensors; received {structure!r}.")
        self.dtype = leaves[0].dtype
        for leaf in leaves:
            if leaf.dtype != self.dtype:
                raise ValueError(
                    f"All tensors of {name} must have the same dtype; received {self.dtype.name} and "
                    f"{leaf.dtype.name}. Use tf.cast on one of them."
                )
            if len(leaf.array.shape) < batch_dims:
                raise ValueError(
                    f"{name} must have batch_dims={batch_dims} leading axes for independent problems, but a tensor "
                    f"has the shape {tuple(leaf.array.shape)}."
                )
        self.shapes = [tuple(leaf.array.shape)[batch_dims:] for leaf in leaves]
        self.batch = tuple(leaves[0].array.shape)[:batch_dims]
        self.sizes = [math.prod(shape) for shape in self.shapes]
        self.size = sum(self.sizes)
        self.leaves = leaves

    def ravel(self, structure: Any, name: str = "the function's result") -> Tensor:
        """One vector with the elements of all leaves."""
        nest.assert_same_structure(self.structure, structure)
        parts = []
        for leaf, shape, size in zip(nest.flatten(structure), self.shapes, self.sizes, strict=True):
            tensor = convert(leaf, self.dtype) if not isinstance(leaf, Tensor) else leaf
            if tensor.dtype != self.dtype or tuple(tensor.array.shape)[self.batch_dims :] != shape:
                raise ValueError(
                    f"{name} must have the shape and dtype of {self.name}, {(*self.batch, *shape)} and "
                    f"{self.dtype.name}; received {tuple(tensor.array.shape)} and {tensor.dtype.name}."
                )
            parts.append(array.reshape(tensor, [-1, size] if self.batch_dims else [size]))
        return parts[0] if len(parts) == 1 else array.concat(parts, -1)

    def unravel(self, vector: Tensor) -> Any:
        """The structure with the elements of a vector."""
        parts = [vector] if len(self.sizes) == 1 else array.split(vector, self.sizes, -1)
        leaves = [array.reshape(p, [*self.batch, *shape]) for p, shape in zip(parts, self.shapes, strict=True)]
        return nest.pack_sequence_as(self.structure, leaves)


def _real(leaf: Any, name: str) -> Tensor:
    tensor = convert(leaf)
    if not tensor.dtype.is_floating:
        raise TypeError(
            f"{name} must consist of real floating-point tensors; received {tensor.dtype.name}. Use tf.cast first."
        )
    return tensor


def length(x: Tensor, axis: int = -1) -> int:
    """The size of an axis, which must be known: solvers allocate matrices of this size."""
    found = x.shape[axis]
    if found is None:
        raise ValueError(
            f"A solver needs to know all dimensions while it is traced; received the shape {x.shape}. Use an "
            "input_signature without None, or call tf.ensure_shape."
        )
    return int(found)


def dot(x: Tensor, y: Tensor) -> Tensor:
    """The inner products of vectors along the last axis."""
    return reduce_sum(x * y, -1)


def norm(x: Tensor) -> Tensor:
    """The Euclidean norms of vectors along the last axis; squares do not overflow."""
    scale = reduce_max(abs(x), -1, keepdims=True)
    safe = array.where(scale > 0, scale, array.ones_like(scale))
    return reduce_sum((x / safe) ** 2, -1) ** 0.5 * safe[..., 0]


def column(scalars: Tensor) -> Tensor:
    """Expand scalars, one for each vector, for multiplication with the vectors."""
    return scalars[..., None]


def epsilon(x: Tensor) -> float:
    """The machine epsilon of a tensor's dtype."""
    return float(np.finfo(x.dtype.as_numpy_dtype).eps) if x.dtype.name in ("float32", "float64") else 1e-3


def smallest(x: Tensor) -> float:
    """The smallest normal number of a tensor's dtype."""
    finfo: Any = ml_dtypes.finfo
    return float(finfo(x.dtype.as_numpy_dtype).tiny)


def check_whole(name: str, value: Any, least: int) -> None:
    """Raise unless an argument is an integer that is not too small."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an integer; received {value!r}.")
    if value < least:
        raise ValueError(f"{name} must be at least {least}; received {value}.")


def check_positive(name: str, value: Any) -> None:
    """Raise unless a number, or a tensor whose value is known, is positive."""
    if not _number(name, value, unknown=1.0) > 0:
        raise ValueError(f"{name} must be positive; received {value!r}.")


def check_not_negative(name: str, value: Any) -> None:
    """Raise unless a number, or a tensor whose value is known, is 0 or positive."""
    if not _number(name, value, unknown=1.0) >= 0:
        raise ValueError(f"{name} must not be negative; received {value!r}.")


def check_number(name: str, value: Any) -> None:
    """Raise unless an argument is a real number, or a tensor with one."""
    if np.isnan(_number(name, value, unknown=1.0)):
        raise ValueError(f"{name} must be a number; received {value!r}.")


def _number(name: str, value: Any, unknown: float) -> float:
    """A real number as a float; `unknown` for a tensor that is traced."""
    known: Any = value
    if isinstance(value, (Tensor, Variable)):
        known = unknown
        if is_known(value):
            known = convert(value).numpy() if value.dtype.is_floating or value.dtype.is_integer else None
            known = known.astype(np.float64) if isinstance(known, (np.ndarray, np.generic)) else known
    if isinstance(known, (bool, np.bool_, str)) or np.ndim(known) or not isinstance(known, (numbers.Real, np.ndarray)):
        raise TypeError(f"{name} must be a number; received {value!r}.")
    return float(known)


def as_tuple(args: Any) -> tuple[Any, ...]:
    """Additional arguments of a function as a tuple: as in SciPy, anything else is a single argument."""
    return args if isinstance(args, tuple) else (args,)


def differentiable_leaves(args: Any) -> tuple[list[Tensor], Sequence[int], list[Any]]:
    """The floating-point tensors among the leaves of a structure, their positions, and all leaves."""
    leaves = [read(leaf) if isinstance(leaf, Variable) else leaf for leaf in nest.flatten(args)]
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and is_differentiable(leaf.array)]
    return [leaves[i] for i in places], places, leaves
