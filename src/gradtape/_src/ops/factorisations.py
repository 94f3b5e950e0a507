"""Inverses, linear systems, factorisations and functions of matrices; leading axes are a batch.

The rules follow TensorFlow where a convention is needed: a Cholesky gradient is symmetric, an eigh gradient stands in
the lower triangle, equal eigenvalues and vanishing singular values count with 1/0 = 0. They are made of primitives, so
that every order of derivative works. For complex matrices they hold for functions that do not depend on the free
phases of eigenvectors and singular vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradtape._src.arrays.positions import compared_positions
from gradtape._src.arrays.shared import linalg as shared
from gradtape._src.core.dispatch import primitive
from gradtape._src.core.structure import matrices, solves
from gradtape._src.ops.linalg import adjoint


# -- helpers ---------------------------------------------------------------------------------------------------------
def _row(v: Any, xp: Any) -> Any:
    """A vector that scales columns."""
    return xp.reshape(v, shape=(*v.shape[:-1], 1, v.shape[-1]))


def _column(v: Any, xp: Any) -> Any:
    """A vector that scales rows."""
    return xp.reshape(v, shape=(*v.shape, 1))


def _lower(x: Any, xp: Any) -> Any:
    """The lower triangle with half of the diagonal."""
    n = x.shape[-1]
    below, diagonal = compared_positions(n, n, "greater"), compared_positions(n, n, "equal")
    return xp.where(below, x, 0) + xp.where(diagonal, 0.5 * x, 0)


def _on_diagonal(v: Any, xp: Any) -> Any:
    return xp.where(compared_positions(v.shape[-1], v.shape[-1], "equal"), _column(v, xp), 0)


def _safe_reciprocal(x: Any, xp: Any) -> Any:
    """1/x, and 0 at 0: where eigenvalues coincide the derivative does not exist, and this makes it finite.

    Near 0 it falls off smoothly, as in TensorFlow. At 0 itself it is a constant: its slope would be huge.
    """
    nothing = xp.equal(x, 0)
    safe = xp.where(nothing, 1, x)
    return xp.where(nothing, 0, safe / (safe * safe + 1e-20))


def _differences(v: Any, xp: Any) -> Any:
    """f[i, j] = 1 / (v[j] - v[i])."""
    return _safe_reciprocal(_row(v, xp) - _column(v, xp), xp)


def _behind_batch(name: str) -> Callable[..., Any]:
    """The batching rule of a kernel that supports stacks of matrices."""

    def rule(xp: Any, size: int, batched: list[bool], *xs: Any, **attrs: Any) -> Any:
        return getattr(xp, name)(*xs, **attrs)

    return rule


# -- inverses and determinants ---------------------------------------------------------------------------------------
def _inv_dx(g, out, xp):
    inner = xp.matmul(g, out, adjoint_x=False, adjoint_y=True)
    return -xp.matmul(out, inner, adjoint_x=True, adjoint_y=False)


inv = primitive(
    "inv",
    ("x",),
    _inv_dx,
    tf_name="MatrixInverse",
    batch=_behind_batch("inv"),
    structure=matrices,
    category="linear algebra",
    hazards=("matrix",),
    names=("linalg.inv",),
    doc="The inverse of matrices.",
)


def _det_dx(g, x, out, xp):
    """det(x) x^-H; TensorFlow's error for singular matrices, which have no inverse."""
    weight = g * xp.conj(out)
    return xp.reshape(weight, shape=(*weight.shape, 1, 1)) * adjoint(xp.inv(x), xp)


det = primitive(
    "det",
    ("x",),
    _det_dx,
    kernel=shared.det,
    tf_name="MatrixDeterminant",
    may_raise=True,
    batch=_behind_batch("det"),
    structure=matrices,
    category="linear algebra",
    hazards=("matrix",),
    names=("linalg.det",),
    doc="The determinant of matrices.",
)


def _slogdet_vjp(xp, g, needs, x, sign, log):
    """x^-H for the logarithm; zeros for the sign, unless it is complex."""
    of_sign, of_log = g
    weight = of_sign * 0 + of_log
    if xp.is_complex(x):
        weight = xp.complex(xp.real(of_log), xp.imag(of_sign * xp.conj(sign)))
    return [xp.reshape(weight, shape=(*weight.shape, 1, 1)) * adjoint(xp.inv(x), xp)]


slogdet = primitive(
    "slogdet",
    ("x",),
    None,
    tf_name="LogMatrixDeterminant",
    vjp_all=_slogdet_vjp,
    vjp_all_saves=frozenset({0, 1}),
    outputs=2,
    may_raise=True,
    kernel=shared.slogdet,
    batch=_behind_batch("slogdet"),
    structure=matrices,
    category="linear algebra",
    hazards=("matrix",),
    names=("linalg.slogdet",),
    doc="The sign and the logarithm of the absolute value of determinants.",
)


# -- linear systems --------------------------------------------------------------------------------------------------
def _solver_batch(name: str) -> Callable[..., Any]:
    """Many right-hand sides of one matrix are columns of one system, so that the matrix is factored once."""

    def rule(xp: Any, size: int, batched: list[bool], x: Any, y: Any, **attrs: Any) -> Any:
        function = getattr(xp, name)
        if batched[0]:
            rank = max(len(x.shape) - 1, len(y.shape) - batched[1])
            return function(_lift(xp, x, True, rank), _lift(xp, y, batched[1], rank), **attrs)
        rank = len(y.shape)
        n, columns = y.shape[-2:]
        wide = xp.transpose(y, perm=(*range(1, rank - 1), 0, rank - 1))
        found = function(x, xp.reshape(wide, shape=(*y.shape[1:-2], n, size * columns)), **attrs)
        lead = tuple(found.shape)[:-2]
        apart = xp.reshape(found, shape=(*lead, n, size, columns))
        return xp.transpose(apart, perm=(len(lead) + 1, *range(len(lead) + 1), len(lead) + 2))

    return rule


def _lift(xp: Any, x: Any, is_batched: bool, rank: int) -> Any:
    """Insert axes for the batch of the other operand, after the hidden one."""
    missing = rank - (len(x.shape) - 1)
    if not is_batched or missing <= 0:
        return x
    size, *row = x.shape
    return xp.reshape(x, shape=(size, *[1] * missing, *row))


def _against(xp: Any, of_y: Any, out: Any, flipped: bool) -> Any:
    """The cotangent of a matrix from that of its right-hand side."""
    first, second = (out, of_y) if flipped else (of_y, out)
    return -xp.matmul(first, second, adjoint_x=False, adjoint_y=True)


def _times(xp: Any, x: Any, out: Any, *, adjoint: bool) -> Any:
    return xp.matmul(x, out, adjoint_x=adjoint, adjoint_y=False)


def _triangle_times(xp: Any, x: Any, out: Any, *, lower: bool, adjoint: bool) -> Any:
    mask = compared_positions(x.shape[-1], x.shape[-1], "greater_equal")
    return _times(xp, xp.where(mask if lower else mask.T, x, 0), out, adjoint=adjoint)


def _solve_vjp(xp, g, needs, x, y, out, *, adjoint):
    of_y = xp.solve(x, g, adjoint=not adjoint)
    return [None if needs[0] is None else _against(xp, of_y, out, adjoint), of_y]


solve = primitive(
    "solve",
    ("x", "y"),
    None,
    None,
    tf_name="MatrixSolve",
    vjp_all=_solve_vjp,
    vjp_all_saves=frozenset({0, 2}),
    inverts=(0, _times),
    batch=_solver_batch("solve"),
    structure=solves,
    category="linear algebra",
    hazards=("matrix",),
    names=("linalg.solve",),
    doc="The solution z of x z = y.",
)


def _triangular_solve_vjp(xp, g, needs, x, y, out, *, lower, adjoint):
    of_y = xp.triangular_solve(x, g, lower=lower, adjoint=not adjoint)
    if needs[0] is None:
        return [None, of_y]
    of_x, mask = _against(xp, of_y, out, adjoint), compared_positions(x.shape[-1], x.shape[-1], "greater_equal")
    return [xp.where(mask if lower else mask.T, of_x, 0), of_y]


triangular_solve = primitive(
    "triangular_solve",
    ("x", "y"),
    None,
    None,
    tf_name="MatrixTriangularSolve",
    vjp_all=_triangular_solve_vjp,
    vjp_all_saves=frozenset({0, 2}),
    inverts=(0, _triangle_times),
    batch=_solver_batch("triangular_solve"),
    structure=solves,
    category="linear algebra",
    hazards=("matrix",),
    names=("linalg.triangular_solve",),
    doc="The solution z of x z = y, where one triangle of x counts.",
)


def _flip_tridiagonal(x: Any, xp: Any) -> Any:
    """The adjoint of tridiagonal matrices: swap upper and lower band, each shifted by one."""
    flipped = xp.flip(xp.conj(x), axis=(len(x.shape) - 2,))
    upper, main, lower = (_pick(flipped, i, xp) for i in range(3))
    return xp.concatenate(_shift(upper, xp, -1), main, _shift(lower, xp, 1), axis=len(x.shape) - 2)


def _pick(x: Any, i: int, xp: Any) -> Any:
    """Row i of each matrix, as a matrix with one row."""
    return xp.getitem(x, index=(*[slice(None)] * (len(x.shape) - 2), slice(i, i + 1), slice(None)))


def _shift(x: Any, xp: Any, by: int, axis: int = -1) -> Any:
    """Shift by one along an axis, filling with zero."""
    at = len(x.shape) + axis
    n = x.shape[at]
    kept = [slice(None)] * len(x.shape)
    kept[at] = slice(0, n - 1) if by > 0 else slice(1, n)
    before, after = [0] * len(x.shape), [0] * len(x.shape)
    (before if by > 0 else after)[at] = min(n, 1)
    return xp.pad(xp.getitem(x, index=tuple(kept)), before=tuple(before), after=tuple(after))


def _tridiagonal_vjp(xp, g, needs, x, y, out):
    of_y = xp.tridiagonal_solve(_flip_tridiagonal(x, xp), g)
    if needs[0] is None:
        return [None, of_y]
    right = xp.conj(out)
    bands = []
    for column in (_shift(right, xp, -1, axis=-2), right, _shift(right, xp, 1, axis=-2)):
        product = of_y * column
        band = xp.sum(product, axis=(len(product.shape) - 1,), keepdims=False)
        bands.append(_row(band, xp))
    return [-xp.concatenate(*bands, axis=len(bands[0].shape) - 2), of_y]


def _bands_times(xp: Any, x: Any, out: Any) -> Any:
    """The product of tridiagonal matrices, given by their bands, with columns."""
    upper, main, lower = (xp.reshape(_pick(x, i, xp), shape=(*x.shape[:-2], x.shape[-1], 1)) for i in range(3))
    return upper * _shift(out, xp, -1, axis=-2) + main * out + lower * _shift(out, xp, 1, axis=-2)


tridiagonal_solve = primitive(
    "tridiagonal_solve",
    ("x", "y"),
    None,
    None,
    vjp_all=_tridiagonal_vjp,
    vjp_all_saves=frozenset({0, 2}),
    inverts=(0, _bands_times),
    batch=_solver_batch("tridiagonal_solve"),
    structure=solves,
    category="linear algebra",
    hazards=("matrix",),
    names=("linalg.tridiagonal_solve",),
    doc="The solution of tridiagonal systems.",
)


# -- factorisations --------------------------------------------------------------------------------------------------
def _cholesky_dx(g, out, xp):
    """L^-H P(L^H g) L^-1, made symmetric; P takes the lower triangle with half of the diagonal."""
    middle = _lower(xp.matmul(out, g, adjoint_x=True, adjoint_y=False), xp)
    left = xp.triangular_solve(out, middle, lower=True, adjoint=True)
    both = xp.triangular_solve(out, adjoint(left, xp), lower=True, adjoint=True)  # adjoint of the result
    return 0.5 * (both + adjoint(both, xp))


cholesky = primitive(
    "cholesky",
    ("x",),
    _cholesky_dx,
    batch=_behind_batch("cholesky"),
    structure=matrices,
    category="linear algebra",
    hazards=("matrix",),
    names=("linalg.cholesky",),
    doc="The lower triangular factor of Hermitian positive definite matrices.",
)


def _right_divide(x: Any, r: Any, xp: Any) -> Any:
    """x r^-H for an upper triangle r."""
    return adjoint(xp.triangular_solve(r, adjoint(x, xp), lower=False, adjoint=False), xp)


def _square_qr(xp: Any, q: Any, r: Any, of_q: Any, of_r: Any) -> Any:
    """With w = q^H of_q - of_r r^H: (of_q + q (P(w - w^H) - w)) r^-H, P the lower triangle and half the diagonal.

    It follows from q^H dx r^-1 = (skew-Hermitian) + (upper triangle with a real diagonal).
    """
    w = 0
    if of_q is not None:
        w = xp.matmul(q, of_q, adjoint_x=True, adjoint_y=False)
    if of_r is not None:
        w = w - xp.matmul(of_r, r, adjoint_x=False, adjoint_y=True)
    turned = xp.matmul(q, _lower(w - adjoint(w, xp), xp) - w, adjoint_x=False, adjoint_y=False)
    return _right_divide(turned if of_q is None else of_q + turned, r, xp)


def _qr_vjp(xp, g, needs, x, q, r, *, full_matrices):
    rows, columns = needs[0][-2:]
    if full_matrices and rows > columns:
        raise NotImplementedError(
            "QrGrad not implemented when nrows > ncols and full_matrices is true. Received "
            f"r.shape={tuple(r.shape)}: the additional columns of q are not determined by the matrix. Use "
            "full_matrices=False."
        )
    of_q, of_r = g
    if rows >= columns:
        return [_square_qr(xp, q, r, of_q, of_r)]
    # x = [square, rest], r = [triangle, q^H rest]: the rest of r reaches the square part through q.
    lead = [slice(None)] * (len(needs[0]) - 2)
    first, rest = (*lead, slice(None), slice(0, rows)), (*lead, slice(None), slice(rows, None))
    triangle = xp.getitem(r, index=first)
    if of_r is None:
        return [
            xp.pad(
                _square_qr(xp, q, triangle, of_q, None),
                before=(0,) * len(needs[0]),
                after=(*[0] * len(lead), 0, columns - rows),
            )
        ]
    of_rest = xp.getitem(of_r, index=rest)
    part = xp.matmul(
        xp.matmul(q, xp.getitem(r, index=rest), adjoint_x=False, adjoint_y=False),
        of_rest,
        adjoint_x=False,
        adjoint_y=True,
    )
    of_square = _square_qr(xp, q, triangle, part if of_q is None else of_q + part, xp.getitem(of_r, index=first))
    return [xp.concatenate(of_square, xp.matmul(q, of_rest, adjoint_x=False, adjoint_y=False), axis=len(needs[0]) - 1)]


qr = primitive(
    "qr",
    ("x",),
    None,
    vjp_all=_qr_vjp,
    vjp_all_saves=frozenset({1, 2}),
    vjp_all_zeros=False,
    outputs=2,
    may_raise=True,
    kernel=shared.qr,
    batch=_behind_batch("qr"),
    structure=matrices,
    category="linear algebra",
    hazards=("matrix",),
    names=("linalg.qr",),
    doc="An orthogonal and an upper triangular factor.",
)


def _into_lower(g: Any, xp: Any) -> Any:
    """Only the lower triangle is read, so it gets the whole derivative: twice the Hermitian part, the diagonal once."""
    return _lower(g + adjoint(g, xp), xp)


def _sandwich(v: Any, middle: Any, xp: Any) -> Any:
    """v middle v^H."""
    return xp.matmul(xp.matmul(v, middle, adjoint_x=False, adjoint_y=False), v, adjoint_x=False, adjoint_y=True)


def _eigh_vjp(xp, g, needs, x, values, vectors):
    of_values, of_vectors = g
    middle = None
    if of_vectors is not None:
        turn = xp.matmul(vectors, of_vectors, adjoint_x=True, adjoint_y=False)
        middle = _differences(values, xp) * turn
    if of_values is not None:
        diagonal = _on_diagonal(of_values, xp)
        middle = diagonal if middle is None else diagonal + middle
    return [_into_lower(_sandwich(vectors, middle, xp), xp)]


eigh = primitive(
    "eigh",
    ("x",),
    None,
    tf_name="SelfAdjointEigV2",
    vjp_all=_eigh_vjp,
    vjp_all_saves=frozenset({1, 2}),
    vjp_all_zeros=False,
    outputs=2,
    batch=_behind_batch("eigh"),
    structure=matrices,
    category="linear algebra",
    hazards=("matrix",),
    names=("linalg.eigh",),
    doc="Eigenvalues and eigenvectors of Hermitian matrices.",
)


def _eigvalsh_dx(g, x, xp):
    _, vectors = xp.eigh(x)
    return _into_lower(_sandwich(vectors, _on_diagonal(g, xp), xp), xp)


eigvalsh = primitive(
    "eigvalsh",
    ("x",),
    _eigvalsh_dx,
    tf_name="SelfAdjointEigV2",
    batch=_behind_batch("eigvalsh"),
    structure=matrices,
    category="linear algebra",
    hazards=("matrix",),
    names=("linalg.eigvalsh",),
    doc="Eigenvalues of Hermitian matrices.",
)


def _from_eigenvectors(xp: Any, x: Any, vectors: Any, middle: Any) -> Any:
    """v^-H middle v^H; its real part if the matrix was real."""
    right = xp.matmul(middle, vectors, adjoint_x=False, adjoint_y=True)
    result = xp.solve(vectors, right, adjoint=True)
    return result if xp.is_complex(x) else xp.real(result)


def _eig_vjp(xp, g, needs, x, values, vectors):
    """Eigenvectors have length 1: remove the component of the cotangent that would change it."""
    of_values, of_vectors = g
    middle = None
    if of_vectors is not None:
        turn = xp.matmul(vectors, of_vectors, adjoint_x=True, adjoint_y=False)
        gram = xp.matmul(vectors, vectors, adjoint_x=True, adjoint_y=False)
        n = vectors.shape[-1]
        diagonal = xp.where(compared_positions(n, n, "equal"), xp.real(turn), 0)
        length = xp.sum(diagonal, axis=(len(turn.shape) - 2,), keepdims=True)
        middle = xp.conj(_differences(values, xp)) * (turn - gram * xp.complex(length, length * 0))
    if of_values is not None:
        diagonal = _on_diagonal(of_values, xp)
        middle = diagonal if middle is None else diagonal + middle
    return [_from_eigenvectors(xp, x, vectors, middle)]


eig = primitive(
    "eig",
    ("x",),
    None,
    vjp_all=_eig_vjp,
    vjp_all_saves=frozenset({0, 1, 2}),
    vjp_all_zeros=False,
    outputs=2,
    may_raise=True,
    batch=_behind_batch("eig"),
    structure=matrices,
    category="linear algebra",
    hazards=("matrix",),
    names=("eig",),
    doc="Eigenvalues and eigenvectors.",
)


def _eigvals_dx(g, x, xp):
    _, vectors = xp.eig(x)
    return _from_eigenvectors(xp, x, vectors, _on_diagonal(g, xp))


eigvals = primitive(
    "eigvals",
    ("x",),
    _eigvals_dx,
    tf_name="Eig",
    may_raise=True,
    batch=_behind_batch("eigvals"),
    structure=matrices,
    category="linear algebra",
    hazards=("matrix",),
    names=("eigvals",),
    doc="Eigenvalues.",
)


def _thin(xp: Any, vectors: Any, cotangent: Any, k: int) -> tuple[Any, Any]:
    """The first k columns, which also determine the further ones (any basis of the complement)."""
    rank, count = len(vectors.shape), vectors.shape[-1]
    lead = [slice(None)] * (rank - 1)
    first, rest = (*lead, slice(0, k)), (*lead, slice(k, None))
    thin = xp.getitem(vectors, index=first) if count > k else vectors
    if cotangent is None or count == k:
        return thin, cotangent
    extra = xp.matmul(xp.getitem(cotangent, index=rest), thin, adjoint_x=True, adjoint_y=False)
    back = xp.matmul(xp.getitem(vectors, index=rest), extra, adjoint_x=False, adjoint_y=False)
    return thin, xp.getitem(cotangent, index=first) - back


def _svd_vjp(xp, g, needs, x, s, u, v, *, full_matrices):
    of_s, of_u, of_v = g
    k = s.shape[-1]
    (u, of_u), (v, of_v) = _thin(xp, u, of_u, k), _thin(xp, v, of_v, k)
    unreal = xp.is_complex(u)
    f, inverse = _differences(s * s, xp), _safe_reciprocal(s, xp)
    if unreal:
        s, f, inverse = (xp.complex(a, a * 0) for a in (s, f, inverse))
    middle, outside = None, None
    if of_s is not None:
        middle = _on_diagonal(xp.complex(of_s, of_s * 0) if unreal else of_s, xp)
    if of_u is not None:
        turn = xp.matmul(u, of_u, adjoint_x=True, adjoint_y=False)
        pair = f * turn
        part = (pair + adjoint(pair, xp)) * _row(s, xp)
        middle = part if middle is None else middle + part
        if u.shape[-2] > k:
            across = (of_u - xp.matmul(u, turn, adjoint_x=False, adjoint_y=False)) * _row(inverse, xp)
            outside = xp.matmul(across, v, adjoint_x=False, adjoint_y=True)
    if of_v is not None:
        turn = xp.matmul(v, of_v, adjoint_x=True, adjoint_y=False)
        pair = f * turn
        part = _column(s, xp) * (pair + adjoint(pair, xp))
        if unreal:  # the common phase of a pair of singular vectors
            phase = xp.where(compared_positions(k, k, "equal"), adjoint(turn, xp) - turn, 0)
            part = part + 0.5 * _column(inverse, xp) * phase
        middle = part if middle is None else middle + part
        if v.shape[-2] > k:
            across = (of_v - xp.matmul(v, turn, adjoint_x=False, adjoint_y=False)) * _row(inverse, xp)
            beside = xp.matmul(u, across, adjoint_x=False, adjoint_y=True)
            outside = beside if outside is None else outside + beside
    inside = xp.matmul(xp.matmul(u, middle, adjoint_x=False, adjoint_y=False), v, adjoint_x=False, adjoint_y=True)
    return [inside if outside is None else inside + outside]


svd = primitive(
    "svd",
    ("x",),
    None,
    vjp_all=_svd_vjp,
    vjp_all_saves=frozenset({1, 2, 3}),
    vjp_all_zeros=False,
    outputs=3,
    batch=_behind_batch("svd"),
    structure=matrices,
    category="linear algebra",
    hazards=("matrix",),
    names=("linalg.svd",),
    doc="Singular values, left and right singular vectors.",
)


def _svdvals_dx(g, x, xp):
    _, u, v = xp.svd(x, full_matrices=False)
    weights = xp.complex(g, g * 0) if xp.is_complex(x) else g
    return xp.matmul(u * _row(weights, xp), v, adjoint_x=False, adjoint_y=True)


svdvals = primitive(
    "svdvals",
    ("x",),
    _svdvals_dx,
    tf_name="Svd",
    batch=_behind_batch("svdvals"),
    structure=matrices,
    category="linear algebra",
    hazards=("matrix",),
    doc="Singular values.",
)


def _pinv_dx(g, x, out, xp):
    """Golub and Pereyra's derivative, which is exact while the rank is constant, even with equal singular values."""

    def times(a: Any, b: Any, left: bool = False, right: bool = False) -> Any:
        return xp.matmul(a, b, adjoint_x=left, adjoint_y=right)

    flipped = adjoint(g, xp)
    inside = times(times(out, g, left=True), out, right=True)
    columns = times(times(flipped, out), out, right=True)  # the component outside of the range of x
    rows = times(times(out, out, left=True), flipped)  # the component outside of its row space
    return columns - times(x, times(out, columns)) + rows - times(times(rows, out), x) - inside


pinv = primitive(
    "pinv",
    ("x",),
    _pinv_dx,
    kernel=shared.pinv,
    batch=_behind_batch("pinv"),
    structure=matrices,
    category="linear algebra",
    hazards=("matrix",),
    names=("linalg.pinv",),
    doc="The pseudo-inverse.",
)


# -- non-differentiable in TensorFlow --------------------------------------------------------------------------------
def _unregistered(tf_name: str, instead: str) -> Callable[..., Any]:
    def vjp(xp: Any, g: Any, needs: Any, *saved: Any, **attrs: Any) -> Any:
        raise LookupError(f"gradient registry has no entry for: {tf_name}. {instead}")

    return vjp


lu = primitive(
    "lu",
    ("x",),
    None,
    outputs=2,
    may_raise=True,
    batch=_behind_batch("lu"),
    vjp_all=_unregistered("Lu", "tf.linalg.solve, tf.linalg.inv, tf.linalg.slogdet and tf.linalg.qr have one."),
    structure=matrices,
    category="linear algebra",
    hazards=("matrix",),
    names=("linalg.lu",),
    doc="Both triangular factors in one matrix, and the order of rows.",
)
logm = primitive(
    "logm",
    ("x",),
    None,
    tf_name="MatrixLogarithm",
    may_raise=True,
    batch=_behind_batch("logm"),
    vjp_all=_unregistered("MatrixLogarithm", "tf.linalg.sqrtm, tf.linalg.expm and tf.linalg.eigh have one."),
    structure=matrices,
    category="linear algebra",
    hazards=("matrix",),
    names=("linalg.logm",),
    doc="The logarithm of matrices.",
)


# -- functions of matrices -------------------------------------------------------------------------------------------
def _through_block(name: str) -> Callable[..., Any]:
    """The derivative of a function f of a matrix in direction e is the corner of f([[x, e], [0, x]]).

    In the backward pass, the direction is the cotangent, at x^H. It is first normalized, so that it does not affect how
    often f scales the block; the length is only a factor, which is not differentiated.
    """

    def rule(g, x, xp):
        rank, n = len(g.shape), g.shape[-1]
        sums = xp.sum(xp.absolute(xp.stop_gradient(g)), axis=(rank - 2,), keepdims=True)
        length = xp.max(sums, axis=(rank - 1,), keepdims=True)
        length = xp.where(xp.greater(length, 0), length, 1)
        if xp.is_complex(x):
            length = xp.complex(length, length * 0)
        matrix = adjoint(x, xp)
        upper = xp.concatenate(matrix, g / length, axis=rank - 1)
        lower = xp.concatenate(matrix * 0, matrix, axis=rank - 1)
        whole = getattr(xp, name)(xp.concatenate(upper, lower, axis=rank - 2))
        corner = (*[slice(None)] * (rank - 2), slice(0, n), slice(n, None))
        return xp.getitem(whole, index=corner) * length

    return rule


expm = primitive(
    "expm",
    ("x",),
    _through_block("expm"),
    tf_name="MatrixExponential",
    batch=_behind_batch("expm"),
    structure=matrices,
    category="linear algebra",
    names=("linalg.expm",),
    doc="The exponential of matrices.",
)
sqrtm = primitive(
    "sqrtm",
    ("x",),
    _through_block("sqrtm"),
    tf_name="MatrixSquareRoot",
    batch=_behind_batch("sqrtm"),
    structure=matrices,
    category="linear algebra",
    hazards=("matrix",),
    names=("linalg.sqrtm",),
    doc="The square root of matrices.",
)
