"""Linear algebra: the matrix product and einsum (more in modules of their own)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape._src import errors, memory
from gradtape._src.arrays import common_namespace, namespace_of
from gradtape._src.arrays.batched import Batched, is_worth_delaying
from gradtape._src.arrays.dimensions import is_same
from gradtape._src.core.dispatch import primitive, product
from gradtape._src.core.structure import OpCall, contraction
from gradtape._src.dtypes import as_dtype
from gradtape._src.memory import LazyArray


def adjoint(x: Any, xp: Any) -> Any:
    """The conjugate transpose of the last two axes."""
    rank = len(x.shape)
    return xp.conj(xp.transpose(x, perm=(*range(rank - 2), rank - 1, rank - 2)))


# out = x y, optionally with the adjoint of x, y or both. The derivative has the same form with other flags, so that no
# order of derivative transposes anything: BLAS reads matrices both ways.
def _matmul_dx(g: Any, y: Any, x_shape: Any, xp: Any, adjoint_x: bool, adjoint_y: bool) -> Any:
    if adjoint_x:
        return xp.matmul(y, g, adjoint_x=adjoint_y, adjoint_y=True)
    if g.ndim > 2 and y.ndim == 2 and type(g) is not Batched:  # a single product, and of the same matrix as below
        rows = xp.reshape(g, shape=(math.prod(g.shape[:-1]), g.shape[-1]))
        return xp.reshape(xp.matmul(rows, y, adjoint_x=False, adjoint_y=not adjoint_y), shape=x_shape)
    return xp.matmul(g, y, adjoint_x=False, adjoint_y=not adjoint_y)


def _matmul_dy(g: Any, x: Any, y_shape: Any, xp: Any, adjoint_x: bool, adjoint_y: bool) -> Any:
    if x.ndim > 2 and len(y_shape) == 2 and not adjoint_x:
        # One matrix for a whole stack: the sum over the stack is part of a single product.
        rows = math.prod(x.shape[:-1])
        x, g = xp.reshape(x, shape=(rows, x.shape[-1])), xp.reshape(g, shape=(rows, g.shape[-1]))
    if adjoint_y:
        return xp.matmul(g, x, adjoint_x=True, adjoint_y=adjoint_x)
    return xp.matmul(x, g, adjoint_x=not adjoint_x, adjoint_y=False)


def _matmul_batch(
    xp: Any, size: int, batched: list[bool], x: Any, y: Any, *, adjoint_x: bool = False, adjoint_y: bool = False
) -> Any:
    """Align the stacks after the hidden axis; one matrix for a batch stays one matrix."""
    rank = max(len(x.shape) - batched[0], len(y.shape) - batched[1])
    x, y = _lift(xp, x, batched[0], rank), _lift(xp, y, batched[1], rank)
    return xp.matmul(x, y, adjoint_x=adjoint_x, adjoint_y=adjoint_y)


def _lift(xp: Any, x: Any, is_batched: bool, rank: int) -> Any:
    if not is_batched:
        return x
    size, *row = x.shape
    return xp.reshape(x, shape=(size, *[1] * (rank - len(row)), *row)) if len(row) < rank else x


def _matmul_block_diagonal(
    xp: Any, level: int, operands: tuple[Any, ...], *, adjoint_x: bool = False, adjoint_y: bool = False
) -> Any:
    """Rows of a matrix are positions of the block-diagonal axis: a product with a matrix keeps them separate."""
    x, y = operands
    if type(y) is not Batched and len(y.shape) == 2 and len(x.shape) >= 2 and not adjoint_x:
        return Batched(xp.matmul(x.array, y, adjoint_x=False, adjoint_y=adjoint_y), level, block_diagonal=True)
    if type(x) is not Batched and len(x.shape) == 2 and len(y.shape) == 2 and not adjoint_y and y.row_index is None:
        # Row (b, k) of the result is the outer product of x[:, b] and y[k, b, :].
        count, size, columns = y.array.shape
        positions = xp.conj(x) if adjoint_x else xp.transpose(x, perm=(1, 0))
        by_position = xp.transpose(y.array, perm=(1, 0, 2))
        shape = (size * count, positions.shape[1], columns)
        if is_worth_delaying(shape, y.dtype, (positions, by_position)):
            return Batched(LazyArray(shape, y.dtype, (positions, by_position), _outer_products), level)
        return Batched(_outer_products(shape, positions, by_position), level)
    return None


def _outer_products(shape: tuple[int, ...], x: Any, y: Any) -> Any:
    """x[b, r] y[b, k, c] as [b, k, r, c], in C order: it is large, and has another shape."""
    (size, rows), (_, count, columns) = x.shape, y.shape
    if type(x) is not np.ndarray or type(y) is not np.ndarray:
        xp = common_namespace((x, y))
        outer = xp.multiply(xp.reshape(x, shape=(size, 1, rows, 1)), xp.reshape(y, shape=(size, count, 1, columns)))
        return xp.reshape(outer, shape=shape)
    out = memory.empty((size, count, rows, columns), x.dtype)
    if count == 1 and x.dtype.char in "fd":  # with one row each, einsum is twice as fast (benchmark: perex)
        np.einsum("br,bkc->bkrc", np.ascontiguousarray(x), np.ascontiguousarray(y), out=out)
    else:
        np.multiply(x[:, None, :, None], y[:, :, None, :], out)
    return out.reshape(shape)


def _matmul_problem(a: Any, b: Any, adjoint_x: bool = False, adjoint_y: bool = False) -> Exception | None:
    """TensorFlow's message on why two arrays cannot be multiplied."""
    if len(a.shape) < 2 or len(b.shape) < 2:
        rank = len(a.shape) if len(a.shape) < 2 else len(b.shape)
        message = (
            f"In[0] and In[1] ndims must be == 2: {rank}. Received shapes {a.shape} and {b.shape}; "
            "tf.linalg.matvec multiplies a matrix and a vector."
        )
    elif not is_same(a.shape[-2 if adjoint_x else -1], b.shape[-1 if adjoint_y else -2]):
        message = f"Matrix size-incompatible: In[0]: {errors.brackets(a.shape)}, In[1]: {errors.brackets(b.shape)}"
    else:
        return None
    # Small integers with valid shapes are multiplied here; for others TensorFlow first reports the dtype.
    dtype = as_dtype(a.dtype)
    if dtype.name in ("int8", "int16", "bool"):
        return errors.unsupported_dtype("MatMul", dtype, "fciu")
    if a.dtype.kind == "u":
        return errors.no_kernel("MatMul", dtype, traced=ValueError)
    return errors.invalid_argument(message, "MatMul")


def _matmul_structure(call: OpCall) -> Any:
    """The sets of a product: an einsum over the rows of x and the columns of y."""
    terms = []
    for shape, adjoined, plain in zip(call.shapes, _adjoint_flags(call.attrs), ("ik", "kj"), strict=True):
        front = _LETTERS[20 : 20 + len(shape or (0, 0)) - 2][::-1]
        terms.append(front + (plain[::-1] if adjoined else plain) if shape is not None else "")
    output = _LETTERS[20 : 20 + len(call.shape) - 2][::-1] + "ij"
    factors = [call.value(i) if ids is None else None for i, ids in enumerate(call.ids)]
    return contraction(call.sets, ",".join(terms) + "->" + output, call.ids, factors, call.shape)


def _adjoint_flags(attrs: dict[str, Any]) -> tuple[bool, bool]:
    return attrs.get("adjoint_x", False), attrs.get("adjoint_y", False)


matmul, plain_matmul, matmul_operator = product(
    "matmul",
    _matmul_dx,
    _matmul_dy,
    ("adjoint_x", "adjoint_y"),
    tf_name="MatMul",
    kinds="fciu",
    batch=_matmul_batch,
    block_diagonal=_matmul_block_diagonal,
    multilinear=True,
    explain=_matmul_problem,
    hinted=True,
    structure=_matmul_structure,
    category="linear algebra",
    hazards=("product",),
    nan_free=True,
    names=("matmul",),
    doc="The product of matrices, either of which may be adjoined.",
)


# -- einsum: the derivative of a sum of products is a sum of products ------------------------------------------------
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def full_equation(equation: str, shapes: Sequence[tuple[int, ...]]) -> str:
    """The equation with names for all indices of an ellipsis and an explicit output, if it fits the operands.

    An index has one size: only the axes of an ellipsis are broadcast.
    """
    terms, output = _parsed(equation, len(shapes))
    widths = [_ellipsis_width(i, term, shape) for i, (term, shape) in enumerate(zip(terms, shapes, strict=True))]
    dots = "".join([c for c in _LETTERS if c not in equation][: max(widths, default=0)])
    if dots and "." not in output:
        raise errors.invalid_argument(
            f"Output contains {len(dots)} broadcasting dimension(s) but no ellipsis (...) was found in the output "
            "subscripts.",
            "Einsum",
        )
    named = [t.replace(".", dots[len(dots) - width :]) for t, width in zip(terms, widths, strict=True)]
    _check_sizes(named, shapes, dots)
    return ",".join(named) + "->" + output.replace(".", dots)


def _parsed(equation: str, count: int) -> tuple[list[str], str]:
    """The terms of an equation and its output, with an ellipsis as one dot."""
    text = equation.replace(" ", "").replace("...", "\0")
    match = re.fullmatch("([a-zA-Z\0,]*)(?:->([a-zA-Z\0]*))?", text)
    if match is None:
        raise ValueError(
            f"Subscripts have incorrect format: {equation}. They consist of letters, `...`, `,` and one `->`."
        )
    inputs = match[1].replace("\0", ".")
    terms = inputs.split(",")
    if len(terms) != count:
        raise ValueError(f'Got {count} inputs for equation "{equation}", expecting {len(terms)}')
    if match[2] is None:  # indices that occur once, in order, after an ellipsis
        output = "".join(c for c in sorted(set(inputs) - {","}) if inputs.count(c) == 1)
    else:
        output = match[2].replace("\0", ".")
    if len(set(output)) < len(output):
        raise ValueError(f"Output subscripts contain a label appearing more than once: {equation}")
    for label in output:
        if label != "." and label not in inputs:
            raise ValueError(f"Output subscripts contain the label {label} not present in the input subscripts.")
    for term in terms:
        if term.count(".") > 1:
            raise ValueError(f"Too many ellipses in input label {term.replace('.', '...')}.")
    return terms, output


def _ellipsis_width(i: int, term: str, shape: tuple[int, ...]) -> int:
    """The number of axes that the ellipsis of a term represents."""
    named = len(term.replace(".", ""))
    if "." not in term and named != len(shape):
        raise errors.invalid_argument(f"Expected input {i} to have rank {named} but got: {len(shape)}", "Einsum")
    if named > len(shape):
        raise errors.invalid_argument(
            f"Expected input {i} to have rank at least {named} but got: {len(shape)}", "Einsum"
        )
    return len(shape) - named


def _check_sizes(terms: list[str], shapes: Sequence[tuple[int, ...]], dots: str) -> None:
    sizes: dict[str, Any] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for axis, (label, n) in enumerate(zip(term, shape, strict=True)):
            known = sizes.setdefault(label, n)
            if type(n) is not int or type(known) is not int or n == known:
                continue  # the program checks an unknown dimension
            if label not in dots:
                raise errors.invalid_argument(
                    f"Expected dimension {known} at axis {axis} of the input shaped {errors.brackets(shape)} but got "
                    f"dimension {n}",
                    "Einsum",
                )
            if known != 1 and n != 1:
                raise errors.invalid_argument(
                    f"Invalid broadcasting dimensions: {errors.brackets(shapes[0])} vs. {errors.brackets(shape)}",
                    "Einsum",
                )
            sizes[label] = n if known == 1 else known


def _einsum_vjp(xp: Any, g: Any, needs: list[Any], *saved: Any, equation: str) -> list[Any]:
    """For each operand, the cotangent times all others, summed over the indices that the operand does not have."""
    inputs, output = equation.split("->")
    terms = inputs.split(",")
    operands = saved[: len(terms)]
    result: list[Any] = []
    for i, (term, shape) in enumerate(zip(terms, needs, strict=True)):
        if shape is None:
            result.append(None)
            continue
        others = [(t, x) for j, (t, x) in enumerate(zip(terms, operands, strict=True)) if j != i]
        once = "".join(
            dict.fromkeys(term)
        )  # a repeated index (a diagonal) is written once, and put on a diagonal afterwards
        known = set(output).union(*(t for t, _ in others))
        reduced = "".join(c for c in once if c in known)
        given = [g, *(xp.conj(x) if type(g) is type(x) else _conjugate(x) for _, x in others)]
        part = xp.einsum(*given, equation=",".join([output, *(t for t, _ in others)]) + "->" + reduced)
        sizes = dict(zip(term, shape, strict=True))
        if reduced != once:  # an index of only this operand was summed: every position gets the same
            part = xp.reshape(part, shape=tuple(sizes[c] if c in reduced else 1 for c in once))
            part = xp.broadcast_to(part, shape=tuple(sizes[c] for c in once))
        result.append(part if once == term else _on_diagonal(xp, part, once, term, sizes))
    return result


def _conjugate(x: Any) -> Any:
    return namespace_of(x).conj(x)


def _on_diagonal(xp: Any, part: Any, once: str, term: str, sizes: dict[str, int]) -> Any:
    """Put values on the diagonal of repeated indices, zeros elsewhere."""
    shape = tuple(sizes[c] for c in term)
    grids = np.indices(shape)
    first = {c: term.index(c) for c in once}
    on = np.ones(shape, bool)
    for axis, c in enumerate(term):
        on &= grids[axis] == grids[first[c]]
    lifted = xp.reshape(part, shape=tuple(sizes[c] if first[c] == i else 1 for i, c in enumerate(term)))
    ordered = xp.broadcast_to(lifted, shape=shape)
    return xp.where(on, ordered, 0)


def _einsum_batch(xp: Any, size: int, batched: list[bool], *xs: Any, equation: str) -> Any:
    inputs, output = equation.split("->")
    letter = next(c for c in _LETTERS if c not in equation)
    terms = [letter + t if b else t for t, b in zip(inputs.split(","), batched, strict=True)]
    return xp.einsum(*xs, equation=",".join(terms) + "->" + letter + output)


def _einsum_structure(call: OpCall) -> Any:
    factors = [call.value(i) if ids is None else None for i, ids in enumerate(call.ids)]
    return contraction(call.sets, call.attrs["equation"], call.ids, factors, call.shape)


einsum = primitive(
    "einsum",
    (),
    vjp_all=_einsum_vjp,
    vjp_all_saves=range(60),
    multilinear=True,
    batch=_einsum_batch,
    structure=_einsum_structure,
    category="linear algebra",
    hazards=("product",),
    nan_free=True,
    names=("einsum",),
    doc="Products summed as an equation says.",
)
