"""Diagonals and bands of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.checks import Rule, checked
from gradtape._src.arrays.dimensions import is_dimension
from gradtape._src.arrays.symbolic import current_graph, is_known
from gradtape._src.autodiff.custom_gradient import custom_gradient
from gradtape._src.conversion import operand
from gradtape._src.ops import array, math, reduce
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import allowed_text, integer, integers, scalar_operand, static
from gradtape._src.tf.array import cast, positions
from gradtape._src.tf.matrices import constant_like, index_last, same_dtype_operands

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


_ALIGNMENTS = ("LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT")


def _band(k: Any, op: str) -> tuple[int, int]:
    """The lowest and highest diagonal of an argument k: one number, or two in order."""
    plain = np.asarray(integers(k, op, "k", fixed=True))
    if plain.ndim > 1 or plain.size not in (1, 2):
        raise errors.invalid_argument(
            f"diag_index must be a scalar or vector, received shape: {errors.brackets(plain.shape)}", op
        )
    low, high = int(plain.ravel()[0]), int(plain.ravel()[-1])
    if low > high:
        raise errors.invalid_argument(f"lower_diag_index must not be larger than upper_diag_index: {low} > {high}", op)
    return low, high


def _alignment(align: Any, op: str) -> str:
    return allowed_text(align, "align", _ALIGNMENTS, op, "RIGHT_LEFT")


def _check_bounds(low: int, high: int, rows: int, columns: int, op: str) -> None:
    for word, k in (("lower", low), ("upper", high)):
        if not (-rows < k < columns or k == 0):
            raise errors.invalid_argument(
                f"{word}_diag_index is out of bound: {k}. It must be between {-rows} and {columns}", op
            )


def _places(low: int, high: int, rows: int, columns: int, align: str) -> tuple[Any, Any, Any, Any, int]:
    """The indices of the elements of the diagonals low..high: (diagonal, position in it, row, column), and the length
    of the longest diagonal. The highest diagonal comes first; shorter ones are padded on the side given by `align`.
    """
    upper, lower = align.split("_")
    lengths = {k: max(0, min(rows + min(0, k), columns - max(0, k))) for k in range(low, high + 1)}
    longest = max(lengths.values())
    which: list[Any] = []
    position: list[Any] = []
    row: list[Any] = []
    column: list[Any] = []
    for i, k in enumerate(range(high, low - 1, -1)):
        along = np.arange(lengths[k])
        side = upper if k >= 0 else lower
        which.append(np.full(lengths[k], i))
        position.append(along + (longest - lengths[k] if side == "RIGHT" else 0))
        row.append(along - min(0, k))
        column.append(along + max(0, k))
    return np.concatenate(which), np.concatenate(position), np.concatenate(row), np.concatenate(column), longest


def diag(
    diagonal: TensorLike,
    name: str = "diag",
    k: Any = 0,
    num_rows: Any = -1,
    num_cols: Any = -1,
    padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """Create matrices with given diagonals: the main one, diagonal k, or all from k[0] to k[1] (highest first).

    >>> tf.linalg.diag([1, 2], k=1).numpy().tolist()
    [[0, 1, 0], [0, 0, 2], [0, 0, 0]]
    """
    x, op = operand(diagonal), "MatrixDiagV3"
    low, high = _band(k, op)
    align = _alignment(align, op)
    shape = x.array.shape
    if not shape:
        raise errors.invalid_argument("diagonal must be at least 1-dim, received shape: []", op)
    many = low != high
    if many and (len(shape) < 2 or shape[-2] != high - low + 1):
        raise errors.invalid_argument(
            "The number of diagonals provided in the input does not match the lower_diag_index and upper_diag_index "
            f"range. Received shape {errors.brackets(shape)} for diagonals {low} to {high}.",
            op,
        )
    lead, length = shape[: -2 if many else -1], shape[-1]
    rows, columns = _matrix_size(integer(num_rows), integer(num_cols), length, low, high, op)
    which, position, row, column, _ = _places(low, high, rows, columns, align)
    values = index_last(x, which, position) if many else index_last(x, position)
    at = (*(slice(None) for _ in lead), row, column)
    result: Tensor = array.setitem(values, index=at, shape=(*lead, rows, columns))
    padding = _padding(x, padding_value, op)
    if not padding.any():
        return result
    inside = np.zeros((rows, columns), bool)
    inside[row, column] = True
    return math.where(inside, result, constant_like(x, padding))


def _matrix_size(rows: int, columns: int, length: int, low: int, high: int, op: str) -> tuple[int, int]:
    """The size of matrices with diagonals of a length; -1 means the smallest number of rows or columns."""
    least_rows, least_columns = length - min(high, 0), length + max(low, 0)
    if rows == -1 and columns == -1:
        rows = columns = max(least_rows, least_columns)
    rows = least_rows if rows == -1 else rows
    columns = least_columns if columns == -1 else columns
    if rows < least_rows:
        raise errors.invalid_argument(f"The number of rows is too small. Received {rows}, needs {least_rows}.", op)
    if columns < least_columns:
        raise errors.invalid_argument(
            f"The number of columns is too small. Received {columns}, needs {least_columns}.", op
        )
    if rows != least_rows and columns != least_columns:
        raise errors.invalid_argument(
            f"The number of rows or columns is not consistent with the specified d_lower, d_upper, and diagonal. "
            f"Received {rows} rows and {columns} columns for diagonals of length {length}.",
            op,
        )
    return rows, columns


def diag_part(
    input: TensorLike, name: str = "diag_part", k: Any = 0, padding_value: Any = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """Return diagonals of matrices: the main one, diagonal k, or all from k[0] to k[1] (highest first, padded).

    >>> tf.linalg.diag_part([[1, 2], [3, 4]]).numpy().tolist()
    [1, 4]
    """
    x, op = operand(input), "MatrixDiagPartV3"
    low, high = _band(k, op)
    align = _alignment(align, op)
    shape = _at_least_matrix(x, op)
    rows, columns = shape[-2:]
    _check_bounds(low, high, rows, columns, op)
    which, position, row, column, longest = _places(low, high, rows, columns, align)
    values = index_last(x, row, column)
    if low == high:
        return values
    lead = shape[:-2]
    at = (*(slice(None) for _ in lead), which, position)
    result: Tensor = array.setitem(values, index=at, shape=(*lead, high - low + 1, longest))
    padding = _padding(x, padding_value, op)
    if not padding.any():
        return result
    inside = np.zeros((high - low + 1, longest), bool)
    inside[which, position] = True
    return math.where(inside, result, constant_like(x, padding))


def _padding(x: Tensor, value: Any, op: str) -> Any:
    return static(scalar_operand(value, x.dtype, op, "padding_value"))


def _at_least_matrix(x: Tensor, op: str) -> tuple[int, ...]:
    shape = x.array.shape
    if len(shape) < 2:
        found = (
            errors.refused_value if op == "MatrixBandPart" else errors.invalid_argument
        )  # its trace does not check this
        raise found(f"input must be at least 2-dim, received shape: {errors.brackets(shape)}", op)
    return tuple(shape)


def set_diag(
    input: TensorLike, diagonal: TensorLike, name: str = "set_diag", k: Any = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """Replace diagonals of matrices: the main one, diagonal k, or all from k[0] to k[1].

    >>> tf.linalg.set_diag([[1, 2], [3, 4]], [0, 0]).numpy().tolist()
    [[0, 2], [3, 0]]
    """
    op = "MatrixSetDiagV3"
    x, d = same_dtype_operands(input, diagonal, op)
    low, high = _band(k, op)
    align = _alignment(align, op)
    shape = _at_least_matrix(x, op)
    lead, (rows, columns) = shape[:-2], shape[-2:]
    _check_bounds(low, high, rows, columns, op)
    which, position, row, column, longest = _places(low, high, rows, columns, align)
    many = low != high
    expected = (*lead, high - low + 1, longest) if many else (*lead, longest)
    if d.array.shape != expected:
        raise errors.invalid_argument(
            "Either first dimensions of diagonal don't match input.shape[:-2], or diagonal.shape[:-1] is not equal to "
            f"the longests diagonal in range [lower_diag_index:upper_diag_index]. Input shape: {errors.brackets(shape)}"
            f", diagonal shape: {errors.brackets(d.array.shape)}, expected diagonal shape: {errors.brackets(expected)}",
            op,
        )
    values = index_last(d, which, position) if many else index_last(d, position)
    at = (*(slice(None) for _ in lead), row, column)
    inside = np.zeros((rows, columns), bool)
    inside[row, column] = True
    return math.where(inside, array.setitem(values, index=at, shape=shape), x)


def band_part(input: TensorLike, num_lower: Any, num_upper: Any, name: str | None = None) -> Tensor:
    """Set elements outside a band to zero: keep `num_lower` diagonals below the main one, `num_upper` above (-1: all).

    >>> tf.linalg.band_part([[1, 2], [3, 4]], 0, -1).numpy().tolist()
    [[1, 2], [0, 4]]
    """
    x = operand(input)
    shape = _at_least_matrix(x, "MatrixBandPart")
    rows, columns = shape[-2:]
    below = _reach(num_lower, rows, "num_lower", "rows")
    above = _reach(num_upper, columns, "num_upper", "columns")
    if not (type(below) is type(above) is int) or is_dimension(rows) or is_dimension(columns):
        distance = positions(columns) - array.reshape(positions(rows), shape=(rows, 1))
        reaches = math.logical_or(below < 0, math.greater_equal(distance, -below))
        return math.where(
            math.logical_and(reaches, math.logical_or(above < 0, math.less_equal(distance, above))),
            x,
            constant_like(x, 0),
        )
    offset = np.arange(columns) - np.arange(rows)[:, None]
    inside = ((below < 0) | (offset >= -below)) & ((above < 0) | (offset <= above))
    return math.where(inside, x, constant_like(x, 0))


def _reach(number: Any, size: int, word: str, lines: str) -> Any:
    """The number of diagonals to keep: an int or, if only the program knows it, a tensor with the
    dtype of positions.
    """
    if isinstance(number, Tensor) and not is_known(number):
        return cast(checked(_BAND, number, size=size, word=word, lines=lines), "int32")
    count = integer(number, "MatrixBandPart", "Tindex")
    if count > size:
        raise _too_many_bands(np.asarray(count), size, word, lines)
    return count


def _too_many_bands(number: Any, size: int, word: str, lines: str) -> errors.InvalidArgumentError:
    return errors.refused_value(
        f"{word} must be negative or less or equal to number of {lines} ({size}) got: {number.max()}", "MatrixBandPart"
    )


_BAND = Rule(lambda xp, number, size, **_: number > size, _too_many_bands)


def trace(x: TensorLike, name: str | None = None) -> Tensor:
    """Compute the sum of the main diagonal.

    >>> tf.linalg.trace([[1.0, 2.0], [3.0, 4.0]]).numpy().item()
    5.0
    """
    diagonal = diag_part(x)
    return reduce.sum_(diagonal, axis=(len(diagonal.array.shape) - 1,), keepdims=False)


def tensor_diag(diagonal: TensorLike, name: str | None = None) -> Tensor:
    """Create a tensor of twice the rank that is zero except where both halves of an index are equal.

    >>> tf.linalg.tensor_diag([1, 2]).numpy().tolist()
    [[1, 0], [0, 2]]
    """
    x = _diagonal_operand(diagonal, "Diag")
    shape = tuple(x.array.shape)
    if not shape:
        raise _half_or(x, "Diag", "Input must be at least rank 1, got 0")
    flat = array.reshape(x, shape=(int(np.prod(shape, dtype=int)),))
    return array.reshape(diag(flat), shape=(*shape, *shape))


def tensor_diag_part(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the elements whose index has two equal halves: the inverse of `tensor_diag`.

    >>> tf.linalg.tensor_diag_part([[1, 0], [0, 2]]).numpy().tolist()
    [1, 2]
    """
    x = _diagonal_operand(input, "DiagPart")
    shape = tuple(x.array.shape)
    half = len(shape) // 2
    if not shape and x.dtype.name != "bfloat16" and current_graph() is None:
        return _scalar_itself(x)
    if not shape or len(shape) % 2:
        raise _half_or(
            x, "DiagPart", f"The rank of the tensor should be even and positive, got shape {errors.brackets(shape)}"
        )
    for i in range(half):
        if shape[i] != shape[i + half]:
            raise _half_or(
                x, "DiagPart", f"Invalid shape {errors.brackets(shape)}: dimensions {i} and {i + half} do not match."
            )
    size = int(np.prod(shape[:half], dtype=int))
    return array.reshape(diag_part(array.reshape(x, shape=(size, size))), shape=shape[:half])


@custom_gradient
def _scalar_itself(x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Eager code treats a scalar as its diagonal; in functions, and for its gradient, TensorFlow raises an error."""

    def refused(g: Tensor) -> Tensor:
        return tensor_diag(g)

    return array.identity(x), refused


def _diagonal_operand(value: Any, op: str) -> Tensor:
    x = operand(value)
    if not (x.dtype.is_floating or x.dtype.is_complex or x.dtype.name in ("int32", "int64")):
        raise errors.unsupported_dtype(op, x.dtype)
    return x


def _half_or(x: Tensor, op: str, message: str) -> errors.OpError:
    """Raise TensorFlow's error for bfloat16, for which it has no kernel, before other errors."""
    half = x.dtype.name == "bfloat16"
    return errors.no_kernel(op, x.dtype, traced=ValueError) if half else errors.invalid_argument(message, op)
