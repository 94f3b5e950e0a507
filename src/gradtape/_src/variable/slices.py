"""Parts of a variable: `v[i].assign(x)`, and reads and updates at indices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from gradtape._src import errors
from gradtape._src.arrays import common_namespace, namespace_of
from gradtape._src.conversion import convert, operand
from gradtape._src.indexed_slices import IndexedSlices
from gradtape._src.ops import index
from gradtape._src.ops.indexing import checked_index, get_item
from gradtape._src.tensor import Tensor

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike
    from gradtape._src.variable.variable import Variable


class VariableSlice(Tensor):
    """A slice of a variable: a tensor that can also be assigned to."""

    __slots__ = ("_key", "_tensor", "_variable")

    _key: Any
    _tensor: Tensor  # keeps the op's output alive, and with it the tangent of a forward accumulator
    _variable: Variable

    def assign(
        self, value: TensorLike, use_locking: Any = None, name: str | None = None, read_value: bool = True
    ) -> Variable:
        """Replace this part of the variable."""
        variable = self._variable
        part, shape = variable._incoming(value), tuple(self.array.shape)
        if shape != tuple(part.shape):
            try:
                part = namespace_of(part).broadcast_to(part, shape=shape)
            except ValueError:
                raise errors.refused_value(
                    f"Cannot broadcast input shape {errors.brackets(part.shape)} into final shape "
                    f"{errors.brackets(shape)}",
                    "ResourceStridedSliceAssign",
                ) from None
        old = variable._peek().array
        positions = [p.array for p in self._key if isinstance(p, Tensor)]  # known only to the program
        index = tuple([Ellipsis if isinstance(p, Tensor) else p for p in self._key])
        new = common_namespace((old, part, *positions)).set_slice(old, part, *positions, index=index)
        return variable._put(new, read_value, value)


def slice_of(variable: Variable, key: Any) -> Any:
    """`variable[key]`: a slice that can be assigned to, unless a tensor of indices gathers the values."""
    tensor = get_item(variable._read(), key)
    if isinstance(key, (Tensor, ndarray)) and np.ndim(key):
        return tensor
    part: Any = object.__new__(VariableSlice)
    part.array, part.uid, part._tensor = tensor.array, tensor.uid, tensor
    part._variable, part._key = variable, checked_index(key, variable._peek().array.shape)
    return part


class IndexedUpdates:
    """The methods of a variable that read and update its rows, or its elements at coordinates."""

    __slots__ = ()

    def sparse_read(self: Any, indices: Any, name: str | None = None) -> Tensor:
        """Return rows of the variable, with a sparse gradient.

        >>> v = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
        >>> with tf.GradientTape() as tape:
        ...     y = tf.reduce_sum(v.sparse_read([1, 1]))
        >>> type(tape.gradient(y, v)).__name__
        'IndexedSlices'
        """
        result: Tensor = index.checked_take(self._read(), _checked_places(indices, "ResourceGather"))
        return result

    def gather_nd(self: Any, indices: Any, name: str | None = None) -> Tensor:
        """Return elements or slices at coordinates.

        >>> v = tf.Variable([[1, 2], [3, 4]])
        >>> v.gather_nd([[0, 1], [1, 0]]).numpy().tolist()
        [2, 3]
        """
        where = _checked_places(indices, "ResourceGatherNd")
        if not where.array.shape:
            raise errors.invalid_argument("indices must be at least a vector", "ResourceGatherNd")
        result: Tensor = index.checked_gather_nd(self._read(), where)
        return result

    # -- rows --------------------------------------------------------------------------------------------------------
    def scatter_add(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Variable:
        """Add slices to rows.

        >>> v = tf.Variable([1.0, 1.0, 1.0])
        >>> v.scatter_add(tf.IndexedSlices(tf.constant([5.0, 7.0]), tf.constant([0, 0]))).numpy().tolist()
        [13.0, 1.0, 1.0]
        """
        return _scatter(self, sparse_delta, "add")

    def scatter_sub(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Variable:
        """Subtract slices from rows.

        >>> v = tf.Variable([5.0, 5.0])
        >>> v.scatter_sub(tf.IndexedSlices(tf.constant([2.0]), tf.constant([0]))).numpy().tolist()
        [3.0, 5.0]
        """
        return _scatter(self, sparse_delta, "subtract")

    def scatter_mul(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Variable:
        """Multiply rows by slices.

        >>> v = tf.Variable([2.0, 3.0])
        >>> v.scatter_mul(tf.IndexedSlices(tf.constant([10.0]), tf.constant([0]))).numpy().tolist()
        [20.0, 3.0]
        """
        return _scatter(self, sparse_delta, "multiply")

    def scatter_div(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Variable:
        """Divide rows by slices.

        >>> v = tf.Variable([8.0, 8.0])
        >>> v.scatter_div(tf.IndexedSlices(tf.constant([2.0]), tf.constant([1]))).numpy().tolist()
        [8.0, 4.0]
        """
        return _scatter(self, sparse_delta, "divide")

    def scatter_max(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Variable:
        """Replace rows by the elementwise maximum of rows and slices.

        >>> v = tf.Variable([1.0, 5.0])
        >>> v.scatter_max(tf.IndexedSlices(tf.constant([3.0, 3.0]), tf.constant([0, 1]))).numpy().tolist()
        [3.0, 5.0]
        """
        return _scatter(self, sparse_delta, "maximum")

    def scatter_min(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Variable:
        """Replace rows by the elementwise minimum of rows and slices.

        >>> v = tf.Variable([1.0, 5.0])
        >>> v.scatter_min(tf.IndexedSlices(tf.constant([3.0, 3.0]), tf.constant([0, 1]))).numpy().tolist()
        [1.0, 3.0]
        """
        return _scatter(self, sparse_delta, "minimum")

    def scatter_update(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Variable:
        """Replace rows with slices; if a row is repeated, the last slice is used.

        >>> v = tf.Variable([1.0, 2.0, 3.0])
        >>> v.scatter_update(tf.IndexedSlices(tf.constant([9.0]), tf.constant([1]))).numpy().tolist()
        [1.0, 9.0, 3.0]
        """
        return _scatter(self, sparse_delta, "set")

    def batch_scatter_update(
        self: Any, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Variable:
        """Replace rows; the leading axes of indices and variable correspond.

        >>> v = tf.Variable([[1, 2], [3, 4]])
        >>> v.batch_scatter_update(tf.IndexedSlices(tf.constant([[9], [8]]), tf.constant([[0], [1]]))).numpy().tolist()
        [[9, 2], [3, 8]]
        """
        where, shape, op = convert(sparse_delta.indices).array, self._peek().array.shape, "ResourceScatterNdUpdate"
        lead = len(where.shape) - 1
        _check_updates((*where.shape, lead + 1), tuple(convert(sparse_delta.values).array.shape), tuple(shape), op)
        places = index.checked_coordinates(where[..., None], shape, op, lead)
        return _update_at(self, places, sparse_delta.values, "set", batch_dims=lead)

    # -- coordinates -------------------------------------------------------------------------------------------------
    def scatter_nd_add(self, indices: Any, updates: Any, name: str | None = None) -> Variable:
        """Add updates at coordinates.

        >>> v = tf.Variable([[1, 1], [1, 1]])
        >>> v.scatter_nd_add([[0, 0], [1, 1]], [5, 6]).numpy().tolist()
        [[6, 1], [1, 7]]
        """
        return _scatter_nd(self, indices, updates, "add")

    def scatter_nd_sub(self, indices: Any, updates: Any, name: str | None = None) -> Variable:
        """Subtract updates at coordinates.

        >>> v = tf.Variable([10, 10, 10])
        >>> v.scatter_nd_sub([[2], [2]], [1, 3]).numpy().tolist()
        [10, 10, 6]
        """
        return _scatter_nd(self, indices, updates, "subtract")

    def scatter_nd_update(self, indices: Any, updates: Any, name: str | None = None) -> Variable:
        """Replace values at coordinates.

        >>> v = tf.Variable([0, 0, 0, 0])
        >>> v.scatter_nd_update([[1], [3]], [7, 9]).numpy().tolist()
        [0, 7, 0, 9]
        """
        return _scatter_nd(self, indices, updates, "set")

    def scatter_nd_max(self, indices: Any, updates: Any, name: str | None = None) -> Variable:
        """Replace values at coordinates by the maximum of the values and the updates.

        >>> v = tf.Variable([1, 5, 2])
        >>> v.scatter_nd_max([[0], [1]], [3, 3]).numpy().tolist()
        [3, 5, 2]
        """
        return _scatter_nd(self, indices, updates, "maximum")

    def scatter_nd_min(self, indices: Any, updates: Any, name: str | None = None) -> Variable:
        """Replace values at coordinates by the minimum of the values and the updates.

        >>> v = tf.Variable([1, 5, 2])
        >>> v.scatter_nd_min([[0], [1]], [3, 3]).numpy().tolist()
        [1, 3, 2]
        """
        return _scatter_nd(self, indices, updates, "minimum")


_SCATTERS = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "Div",
    "maximum": "Max",
    "minimum": "Min",
    "set": "Update",
}
"""The suffixes of TensorFlow's names for updates at indices."""


def _scatter(variable: Any, delta: Any, how: str) -> Any:
    if not isinstance(delta, IndexedSlices):
        raise TypeError(f"Argument `sparse_delta` must be a `tf.IndexedSlices`. Received arg: {delta!r}")
    shape, op = variable._peek().array.shape, f"ResourceScatter{_SCATTERS[how]}"
    where = _checked_places(delta.indices, op).array
    _check_rows(tuple(where.shape), tuple(convert(delta.values).array.shape), tuple(shape), op)
    return _update_at(variable, index.checked_indices(where, shape[0], op)[..., None], delta.values, how)


def _scatter_nd(variable: Any, indices: Any, updates: Any, how: str) -> Any:
    op, shape = f"ResourceScatterNd{_SCATTERS[how]}", variable._peek().array.shape
    where = _checked_places(indices, op).array
    if not where.shape:
        raise errors.invalid_argument("Indices shape must have rank at least one. Found:[]", op)
    given = convert(updates, variable.dtype)
    _check_updates(tuple(where.shape), tuple(given.array.shape), tuple(shape), op)
    return _update_at(variable, index.checked_coordinates(where, shape, op), given, how)


def _update_at(variable: Variable, where: Any, given: Any, how: str, batch_dims: int = 0) -> Any:
    """Update the values at coordinates with `given`."""
    value, updates = variable._peek().array, convert(given, variable.dtype).array
    xp = common_namespace((value, where, updates))
    return variable._put(xp.update_at(value, where, updates, how=how, batch_dims=batch_dims), True, given)


def _checked_places(indices: Any, op: str) -> Tensor:
    """Check indices into a variable: 32- or 64-bit integers."""
    where = operand(indices)
    if where.dtype.name not in ("int32", "int64"):
        raise errors.unsupported_dtype(op, where.dtype, "int32, int64", "Tindices")
    return where


def _check_rows(indices: tuple[int, ...], updates: tuple[int, ...], shape: tuple[int, ...], op: str) -> None:
    """Check that updates are a scalar, or have a row for each index."""
    if not updates or updates == indices + shape[1:]:
        return
    if len(updates) >= len(indices) and updates[: len(indices)] != indices:
        raise errors.invalid_argument(
            f"The shape of indices ({errors.brackets(indices)}) must be a prefix of the shape of updates "
            f"({errors.brackets(updates)})",
            op,
        )
    raise errors.invalid_argument(
        "Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], got updates.shape "
        f"{errors.brackets(updates)}, indices.shape {errors.brackets(indices)}, params.shape {errors.brackets(shape)}",
        op,
    )


def _check_updates(indices: tuple[int, ...], updates: tuple[int, ...], shape: tuple[int, ...], op: str) -> None:
    """Check that updates have an element, or a slice, for each row of coordinates."""
    lead, depth = len(indices) - 1, indices[-1] if indices else 0
    for i in range(max(lead, 1)):
        if i >= len(updates) or updates[i] != indices[i]:
            given = updates[i] if i < len(updates) else "nothing"
            raise errors.invalid_argument(
                f"Dimensions [{i},{i + 1}) of indices[shape={errors.brackets(indices)}] = {indices[i]} must match "
                f"dimensions [{i},{i + 1}) of updates[shape={errors.brackets(updates)}] = {given}",
                op,
            )
    if depth > len(shape) or updates[lead:] != shape[depth:]:
        refuse = errors.refused_value if depth > len(shape) else errors.invalid_argument
        raise refuse(
            f"Dimensions [{depth},{len(shape)}) of input[shape={errors.brackets(shape)}] must match dimensions "
            f"[{lead},{len(updates)}) of updates[shape={errors.brackets(updates)}]",
            op,
        )
