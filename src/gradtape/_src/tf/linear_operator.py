"""`tf.linalg.LinearOperator`: matrices with a known structure, which makes some operations cheap.

A class has to define its shape and its product with a matrix. Everything else is computed from these, through the dense
matrix if nothing better is known.
"""

from __future__ import annotations

from typing import Any

from gradtape._src import errors
from gradtape._src.conversion import convert
from gradtape._src.dtypes import DType, as_dtype, finfo
from gradtape._src.shape import TensorShape
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array, linalg, math
from gradtape._src.tf.debugging import assert_greater, assert_near
from gradtape._src.tf.module import Module
from gradtape._src.variable import Variable

__all__ = ["LinearOperator", "LinearOperatorAdjoint", "LinearOperatorComposition", "LinearOperatorFullMatrix",
           "LinearOperatorInversion", "LinearOperatorLowerTriangular"]  # fmt: skip


def tensor_of(value: Any, dtype: Any = None) -> Any:
    """An argument of an operator: variables are not converted, so that tapes record every read."""
    return value if isinstance(value, (Tensor, Variable)) else convert(value, dtype)


def adjoint_of(x: Any) -> Any:
    """The conjugate transpose of matrices."""
    return linalg.adjoint(x)


class LinearOperator(Module):
    """A matrix, or a batch of matrices, that does not have to be stored as a dense tensor.

    A subclass defines `_shape()` and `_matmul(x, adjoint)`, and can define `_to_dense`, `_solve`, `_diag_part`,
    `_determinant`, `_log_abs_determinant`, `_trace` and `_eigvals`.

    Args:
      dtype: The type of the elements.
      graph_parents: Deprecated.
      is_non_singular: Whether it has an inverse, if that is known.
      is_self_adjoint: Whether it equals its conjugate transpose, if that is known.
      is_positive_definite: Whether x·A·x > 0 for all x but 0, if that is known.
      is_square: Whether it has as many rows as columns, if that is known.
      name: A name.
      parameters: Accepted for compatibility.

    >>> import gradtape as tf
    >>> a = tf.linalg.LinearOperatorDiag([1.0, 2.0])
    >>> a.matmul([[1.0], [1.0]]).numpy().tolist(), float(a.determinant())
    ([[1.0], [2.0]], 2.0)

    >>> matrix = [[2.0, 1.0], [1.0, 2.0]]
    >>> a = tf.linalg.LinearOperatorFullMatrix(matrix, is_self_adjoint=True, is_positive_definite=True)
    >>> a.matvec([1.0, 0.0]).numpy().tolist()
    [2.0, 1.0]
    >>> a.to_dense().numpy().tolist()
    [[2.0, 1.0], [1.0, 2.0]]
    >>> a.add_to_tensor([[1.0, 0.0], [0.0, 1.0]]).numpy().tolist()
    [[3.0, 1.0], [1.0, 3.0]]
    >>> print(a.solve([[3.0], [3.0]]).numpy().round(4))
    [[1.]
     [1.]]
    >>> print(a.solvevec([3.0, 3.0]).numpy().round(4))
    [1. 1.]
    >>> print(a.eigvals().numpy().round(4))
    [1. 3.]
    >>> print(a.cond().numpy().round(4))
    3.0
    >>> print(a.log_abs_determinant().numpy().round(4))
    1.0986
    >>> a.trace().numpy().item()
    4.0
    >>> a.diag_part().numpy().tolist()
    [2.0, 2.0]
    >>> print(a.inverse().to_dense().numpy().round(4))
    [[ 0.6667 -0.3333]
     [-0.3333  0.6667]]
    >>> print(a.cholesky().to_dense().numpy().round(4))
    [[1.4142 0.    ]
     [0.7071 1.2247]]
    >>> a.adjoint().to_dense().numpy().tolist()
    [[2.0, 1.0], [1.0, 2.0]]
    >>> a.H.to_dense().numpy().tolist()
    [[2.0, 1.0], [1.0, 2.0]]
    >>> a.shape_tensor().numpy().tolist()
    [2, 2]
    >>> a.batch_shape_tensor().numpy().tolist()
    []
    >>> [int(a.domain_dimension_tensor()), int(a.range_dimension_tensor()), int(a.tensor_rank_tensor())]
    [2, 2, 2]
    >>> a.name
    'LinearOperatorFullMatrix'
    >>> a.assert_non_singular()
    >>> a.assert_positive_definite()
    >>> a.assert_self_adjoint()
    """

    def __init__(
        self,
        dtype: Any,
        graph_parents: Any = None,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
        parameters: Any = None,
    ) -> None:
        super().__init__(name=None)
        if is_positive_definite and is_non_singular is False:
            raise ValueError("A positive definite matrix is always non-singular.")
        if (is_positive_definite or is_self_adjoint or is_non_singular) and is_square is False:
            raise ValueError("is_square must be True or None for a matrix that is self-adjoint or has an inverse.")
        self._dtype = as_dtype(dtype)
        self._operator_name = name or type(self).__name__
        self._graph_parents = list(graph_parents or ())
        self._is_non_singular = True if is_positive_definite else is_non_singular
        self._is_self_adjoint, self._is_positive_definite = is_self_adjoint, is_positive_definite
        self._is_square_given = True if is_self_adjoint or self._is_non_singular else is_square

    # -- properties --------------------------------------------------------------------------------------------------
    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def name(self) -> str:
        return self._operator_name

    @property
    def graph_parents(self) -> list[Any]:
        return self._graph_parents

    @property
    def is_non_singular(self) -> bool | None:
        return self._is_non_singular

    @property
    def is_self_adjoint(self) -> bool | None:
        return self._is_self_adjoint

    @property
    def is_positive_definite(self) -> bool | None:
        return self._is_positive_definite

    @property
    def is_square(self) -> bool | None:
        rows, columns = self.range_dimension, self.domain_dimension
        return rows == columns if rows is not None and columns is not None else self._is_square_given

    @property
    def shape(self) -> TensorShape:
        return self._shape()

    @property
    def batch_shape(self) -> TensorShape:
        return self.shape[:-2]

    @property
    def tensor_rank(self) -> int | None:
        return self.shape.rank

    @property
    def domain_dimension(self) -> int | None:
        return self.shape[-1]

    @property
    def range_dimension(self) -> int | None:
        return self.shape[-2]

    def shape_tensor(self, name: str = "shape_tensor") -> Tensor:
        """Return the shape, as a tensor."""
        return self._shape_tensor()

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Tensor:
        """Return the shape without the last two axes, as a tensor."""
        return self.shape_tensor()[:-2]

    def domain_dimension_tensor(self, name: str = "domain_dimension_tensor") -> Tensor:
        """Return the number of columns, as a tensor."""
        return self.shape_tensor()[-1]

    def range_dimension_tensor(self, name: str = "range_dimension_tensor") -> Tensor:
        """Return the number of rows, as a tensor."""
        return self.shape_tensor()[-2]

    def tensor_rank_tensor(self, name: str = "tensor_rank_tensor") -> Tensor:
        """Return the number of axes, as a tensor."""
        return convert(self.tensor_rank)

    # -- methods of subclasses ---------------------------------------------------------------------------------------
    def _shape(self) -> TensorShape:
        raise NotImplementedError("_shape is not implemented.")

    def _shape_tensor(self) -> Tensor:
        return array.shape(self.to_dense()) if not self.shape.is_fully_defined() else convert(self.shape.as_list())

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return linalg.matmul(self.to_dense(), x, adjoint_a=adjoint, adjoint_b=adjoint_arg)

    def _to_dense(self) -> Any:
        return self.matmul(linalg.eye(self.domain_dimension, batch_shape=self.batch_shape.as_list(), dtype=self.dtype))

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        rhs = adjoint_of(rhs) if adjoint_arg else rhs
        matrix = self.to_dense()
        if self.is_positive_definite and self.is_self_adjoint:
            return linalg.cholesky_solve(linalg.cholesky(matrix), rhs)
        batch = array.broadcast_static_shape(matrix.shape[:-2], rhs.shape[:-2]).as_list()
        matrix = array.broadcast_to(matrix, [*batch, *matrix.shape[-2:]])
        return linalg.solve(matrix, array.broadcast_to(rhs, [*batch, *rhs.shape[-2:]]), adjoint=adjoint)

    def _diag_part(self) -> Any:
        return linalg.diag_part(self.to_dense())

    def _determinant(self) -> Any:
        return linalg.det(self.to_dense())

    def _log_abs_determinant(self) -> Any:
        if self.is_positive_definite and self.is_self_adjoint:
            roots = linalg.diag_part(linalg.cholesky(self.to_dense()))
            return 2.0 * math.reduce_sum(math.log(math.abs(roots)), axis=-1)
        return linalg.slogdet(self.to_dense())[1]

    def _trace(self) -> Any:
        return math.reduce_sum(self.diag_part(), axis=-1)

    def _eigvals(self) -> Any:
        return linalg.eigvalsh(self.to_dense())

    # -- products and solutions --------------------------------------------------------------------------------------
    def matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "matmul") -> Any:
        """Multiply by a matrix, or by another operator."""
        if isinstance(x, LinearOperator):
            left, right = (self.adjoint() if adjoint else self), (x.adjoint() if adjoint_arg else x)
            if None not in (left.domain_dimension, right.range_dimension) and (
                left.domain_dimension != right.range_dimension
            ):
                raise ValueError(
                    f"Operators are incompatible. Expected `x` to have dimension {left.domain_dimension} but got "
                    f"{right.range_dimension}."
                )
            return LinearOperatorComposition([left, right])
        x = self._checked(x)
        return self._matmul(x, adjoint=adjoint, adjoint_arg=adjoint_arg)

    def __matmul__(self, other: Any) -> Any:
        return self.matmul(other)

    def matvec(self, x: Any, adjoint: bool = False, name: str = "matvec") -> Any:
        """Multiply by a vector."""
        return array.squeeze(self.matmul(self._checked(x)[..., None], adjoint), axis=-1)

    def solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "solve") -> Any:
        """Find X with A X = rhs; for another operator, return the inverse times that operator."""
        self._refuse("solve")
        if isinstance(rhs, LinearOperator):
            left, right = (self.adjoint() if adjoint else self), (rhs.adjoint() if adjoint_arg else rhs)
            return LinearOperatorComposition([left.inverse(), right])
        return self._solve(self._checked(rhs), adjoint=adjoint, adjoint_arg=adjoint_arg)

    def solvevec(self, rhs: Any, adjoint: bool = False, name: str = "solve") -> Any:
        """Find the vector x with A x = rhs."""
        return array.squeeze(self.solve(self._checked(rhs)[..., None], adjoint), axis=-1)

    def _checked(self, x: Any) -> Any:
        x = tensor_of(x, self.dtype)
        if x.dtype != self.dtype:
            raise TypeError(
                f"Input argument has dtype {x.dtype.name}, but the operator '{self.name}' {self.dtype.name}. Use "
                "tf.cast."
            )
        return x

    def _refuse(self, what: str) -> None:
        if self.is_non_singular is False:
            raise NotImplementedError(
                f"Exact {what} not implemented for an operator that is expected to be singular. See 'tf.linalg.lstsq'."
            )
        if self.is_square is False:
            raise NotImplementedError(
                f"Exact {what} not implemented for an operator that is expected to not be square."
            )

    # -- derived methods ---------------------------------------------------------------------------------------------
    def to_dense(self, name: str = "to_dense") -> Any:
        """Return the matrix as a dense tensor."""
        return self._to_dense()

    def diag_part(self, name: str = "diag_part") -> Any:
        """Return the diagonal."""
        return self._diag_part()

    def trace(self, name: str = "trace") -> Any:
        """Compute the sum of the diagonal."""
        return self._trace()

    def determinant(self, name: str = "det") -> Any:
        """Compute the determinant."""
        self._refuse_determinant()
        return self._determinant()

    def log_abs_determinant(self, name: str = "log_abs_det") -> Any:
        """Compute the logarithm of the absolute value of the determinant."""
        self._refuse_determinant()
        return self._log_abs_determinant()

    def _refuse_determinant(self) -> None:
        if self.is_square is False:
            raise NotImplementedError("Determinant not implemented for an operator that is expected to not be square.")

    def add_to_tensor(self, x: Any, name: str = "add_to_tensor") -> Any:
        """Add the matrix to a tensor."""
        return self.to_dense() + self._checked(x)

    def eigvals(self, name: str = "eigvals") -> Any:
        """Compute the eigenvalues of a self-adjoint operator, in ascending order."""
        if not self.is_self_adjoint:
            raise NotImplementedError("Only self-adjoint matrices are supported.")
        return self._eigvals()

    def cond(self, name: str = "cond") -> Any:
        """Compute the ratio of the largest to the smallest singular value."""
        values = linalg.svd(self.to_dense(), compute_uv=False)
        return math.reduce_max(values, axis=-1) / math.reduce_min(values, axis=-1)

    def adjoint(self, name: str = "adjoint") -> Any:
        """Return the conjugate transpose, as an operator."""
        return self if self.is_self_adjoint else self._adjoint()

    def _adjoint(self) -> Any:
        return LinearOperatorAdjoint(self, is_non_singular=self.is_non_singular, is_square=self.is_square)

    @property
    def H(self) -> Any:
        """The conjugate transpose, as an operator."""
        return self.adjoint()

    def inverse(self, name: str = "inverse") -> Any:
        """Return the inverse, as an operator."""
        if self.is_square is False:
            raise ValueError("Cannot take the Inverse: This operator represents a non square matrix.")
        if self.is_non_singular is False:
            raise ValueError("Cannot take the Inverse: This operator represents a singular matrix.")
        return self._inverse()

    def _inverse(self) -> Any:
        return LinearOperatorInversion(self)

    def cholesky(self, name: str = "cholesky") -> Any:
        """Return the lower triangular Cholesky factor of a self-adjoint, positive definite operator, as an operator."""
        if not (self.is_positive_definite and self.is_self_adjoint):
            raise ValueError("Cannot take the Cholesky decomposition: Not a positive definite self adjoint matrix.")
        return LinearOperatorLowerTriangular(
            linalg.cholesky(self.to_dense()), is_non_singular=True, is_self_adjoint=False, is_square=True
        )

    # -- assertions --------------------------------------------------------------------------------------------------
    def assert_non_singular(self, name: str = "assert_non_singular") -> Any:
        """Raise InvalidArgumentError if the matrix is singular to machine precision."""
        values = linalg.svd(self.to_dense(), compute_uv=False)
        return assert_greater(
            math.reduce_min(values), math.reduce_max(values) * _precision(self.dtype), "Singular matrix"
        )

    def assert_positive_definite(self, name: str = "assert_positive_definite") -> Any:
        """Raise InvalidArgumentError if the matrix is not positive definite."""
        try:
            linalg.cholesky(self.to_dense())
        except errors.InvalidArgumentError:
            raise errors.InvalidArgumentError(None, None, "The operator is not positive definite.") from None

    def assert_self_adjoint(self, name: str = "assert_self_adjoint") -> Any:
        """Raise InvalidArgumentError if the matrix differs from its conjugate transpose."""
        matrix = self.to_dense()
        return assert_near(matrix, adjoint_of(matrix), message="Matrix was not equal to its adjoint.")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} name={self.name!r} shape={self.shape} dtype={self.dtype.name}>"


def _precision(dtype: DType) -> float:
    return float(finfo(dtype.real_dtype.as_numpy_dtype).eps)


class LinearOperatorFullMatrix(LinearOperator):
    """A matrix that is stored as a dense tensor.

    Args:
      matrix: Matrices `[..., rows, columns]`.
      is_non_singular: See `LinearOperator`.
      is_self_adjoint: See `LinearOperator`.
      is_positive_definite: See `LinearOperator`.
      is_square: See `LinearOperator`.
      name: A name.

    >>> import gradtape as tf
    >>> a = tf.linalg.LinearOperatorFullMatrix([[2.0, 0.0], [1.0, 1.0]])
    >>> a.solvevec([2.0, 3.0]).numpy().tolist()
    [1.0, 2.0]
    """

    def __init__(self, matrix: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
                 is_positive_definite: bool | None = None, is_square: bool | None = None,
                 name: str = "LinearOperatorFullMatrix") -> None:  # fmt: skip
        self._matrix = _matrices(matrix)
        super().__init__(
            self._matrix.dtype, None, is_non_singular, is_self_adjoint, is_positive_definite, is_square, name
        )

    @property
    def matrix(self) -> Any:
        """The matrix.

        >>> tf.linalg.LinearOperatorFullMatrix([[1.0, 2.0], [3.0, 4.0]]).matrix.numpy().tolist()
        [[1.0, 2.0], [3.0, 4.0]]
        """
        return self._matrix

    def _shape(self) -> TensorShape:
        return self._matrix.shape

    def _to_dense(self) -> Any:
        return convert(self._matrix)


def _matrices(value: Any) -> Any:
    matrix = tensor_of(value)
    if matrix.shape.rank is not None and matrix.shape.rank < 2:
        raise ValueError(f"Argument `matrix` must have at least 2 dimensions. Received: {matrix}.")
    return matrix


class LinearOperatorLowerTriangular(LinearOperator):
    """A lower triangular matrix; elements above the diagonal of the given matrix are ignored.

    Args:
      tril: Matrices `[..., n, n]`.
      is_non_singular: See `LinearOperator`.
      is_self_adjoint: See `LinearOperator`.
      is_positive_definite: See `LinearOperator`.
      is_square: See `LinearOperator`.
      name: A name.

    >>> import gradtape as tf
    >>> a = tf.linalg.LinearOperatorLowerTriangular([[2.0, 9.0], [1.0, 4.0]])
    >>> a.to_dense().numpy().tolist(), float(a.determinant())
    ([[2.0, 0.0], [1.0, 4.0]], 8.0)
    """

    def __init__(self, tril: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
                 is_positive_definite: bool | None = None, is_square: bool | None = None,
                 name: str = "LinearOperatorLowerTriangular") -> None:  # fmt: skip
        if is_square is False:
            raise ValueError("Only square lower triangular operators supported at this time.")
        self._tril = _matrices(tril)
        super().__init__(self._tril.dtype, None, is_non_singular, is_self_adjoint, is_positive_definite, True, name)

    @property
    def tril(self) -> Any:
        """The given matrix.

        >>> tf.linalg.LinearOperatorLowerTriangular([[1.0, 9.0], [3.0, 4.0]]).tril.numpy().tolist()
        [[1.0, 9.0], [3.0, 4.0]]
        """
        return self._tril

    def _shape(self) -> TensorShape:
        return self._tril.shape

    def _to_dense(self) -> Any:
        return linalg.band_part(self._tril, -1, 0)

    def _diag_part(self) -> Any:
        return linalg.diag_part(self._tril)

    def _determinant(self) -> Any:
        return math.reduce_prod(self._diag_part(), axis=-1)

    def _log_abs_determinant(self) -> Any:
        return math.reduce_sum(math.log(math.abs(self._diag_part())), axis=-1)

    def _eigvals(self) -> Any:
        return self._diag_part()

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        rhs = adjoint_of(rhs) if adjoint_arg else rhs
        return linalg.triangular_solve(self.to_dense(), rhs, lower=True, adjoint=adjoint)


class LinearOperatorAdjoint(LinearOperator):
    """The conjugate transpose of an operator.

    Args:
      operator: An operator.
      is_non_singular: See `LinearOperator`.
      is_self_adjoint: See `LinearOperator`.
      is_positive_definite: See `LinearOperator`.
      is_square: See `LinearOperator`.
      name: A name.

    >>> import gradtape as tf
    >>> a = tf.linalg.LinearOperatorFullMatrix([[1.0, 2.0]])
    >>> tf.linalg.LinearOperatorAdjoint(a).to_dense().numpy().tolist()
    [[1.0], [2.0]]
    """

    def __init__(self, operator: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
                 is_positive_definite: bool | None = None, is_square: bool | None = None,
                 name: str | None = None) -> None:  # fmt: skip
        self._operator = operator
        given = {
            "is_non_singular": is_non_singular,
            "is_self_adjoint": is_self_adjoint,
            "is_positive_definite": is_positive_definite,
            "is_square": is_square,
        }
        known = {hint: getattr(operator, hint) if value is None else value for hint, value in given.items()}
        super().__init__(operator.dtype, name=name or f"{operator.name}_adjoint", **known)

    @property
    def operator(self) -> Any:
        """The operator that this one is the adjoint of.

        >>> a = tf.linalg.LinearOperatorFullMatrix([[1.0, 2.0], [3.0, 4.0]])
        >>> tf.linalg.LinearOperatorAdjoint(a).operator is a
        True
        """
        return self._operator

    def _shape(self) -> TensorShape:
        shape = self._operator.shape
        return shape[:-2].concatenate([shape[-1], shape[-2]])

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._operator.matmul(x, adjoint=not adjoint, adjoint_arg=adjoint_arg)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._operator.solve(rhs, adjoint=not adjoint, adjoint_arg=adjoint_arg)

    def _to_dense(self) -> Any:
        return adjoint_of(self._operator.to_dense())

    def _diag_part(self) -> Any:
        return math.conj(self._operator.diag_part())

    def _determinant(self) -> Any:
        return math.conj(self._operator.determinant())

    def _log_abs_determinant(self) -> Any:
        return self._operator.log_abs_determinant()

    def _adjoint(self) -> Any:
        return self._operator


class LinearOperatorInversion(LinearOperator):
    """The inverse of an operator, which is not computed: `matmul` solves, and `solve` multiplies.

    Args:
      operator: An operator that has an inverse.
      is_non_singular: See `LinearOperator`.
      is_self_adjoint: See `LinearOperator`.
      is_positive_definite: See `LinearOperator`.
      is_square: See `LinearOperator`.
      name: A name.

    >>> import gradtape as tf
    >>> a = tf.linalg.LinearOperatorFullMatrix([[2.0, 0.0], [0.0, 4.0]])
    >>> a.inverse().matvec([2.0, 2.0]).numpy().tolist()
    [1.0, 0.5]
    """

    def __init__(self, operator: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
                 is_positive_definite: bool | None = None, is_square: bool | None = None,
                 name: str | None = None) -> None:  # fmt: skip
        if operator.is_square is False or is_square is False:
            raise ValueError(f"Operator must be square. Found: operator.is_square = {operator.is_square}")
        if operator.is_non_singular is False or is_non_singular is False:
            raise ValueError("is_non_singular must be True or None: a singular matrix has no inverse.")
        self._operator = operator
        adjoint = operator.is_self_adjoint if is_self_adjoint is None else is_self_adjoint
        definite = operator.is_positive_definite if is_positive_definite is None else is_positive_definite
        super().__init__(operator.dtype, None, True, adjoint, definite, True, name or f"{operator.name}_inv")

    @property
    def operator(self) -> Any:
        """The operator that this one is the inverse of.

        >>> d = tf.linalg.LinearOperatorDiag([1.0, 2.0])
        >>> tf.linalg.LinearOperatorInversion(d).operator is d
        True
        """
        return self._operator

    def _shape(self) -> TensorShape:
        return self._operator.shape

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._operator.solve(x, adjoint=adjoint, adjoint_arg=adjoint_arg)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._operator.matmul(rhs, adjoint=adjoint, adjoint_arg=adjoint_arg)

    def _determinant(self) -> Any:
        return 1.0 / self._operator.determinant()

    def _log_abs_determinant(self) -> Any:
        return -1.0 * self._operator.log_abs_determinant()

    def _inverse(self) -> Any:
        return self._operator


class LinearOperatorComposition(LinearOperator):
    """The product of several operators, applied from last to first.

    Args:
      operators: Operators with compatible dimensions.
      is_non_singular: See `LinearOperator`.
      is_self_adjoint: See `LinearOperator`.
      is_positive_definite: See `LinearOperator`.
      is_square: See `LinearOperator`.
      name: A name.

    >>> import gradtape as tf
    >>> a = tf.linalg.LinearOperatorFullMatrix([[1.0, 2.0], [3.0, 4.0]])
    >>> tf.linalg.LinearOperatorComposition([a, a]).to_dense().numpy().tolist()
    [[7.0, 10.0], [15.0, 22.0]]
    """

    def __init__(self, operators: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
                 is_positive_definite: bool | None = None, is_square: bool | None = None,
                 name: str | None = None) -> None:  # fmt: skip
        self._operators = list(operators)
        if not self._operators:
            raise ValueError("Expected a non-empty list of operators. Found: []")
        if len({operator.dtype for operator in self._operators}) > 1:
            kinds = ", ".join(f"{operator.name} {operator.dtype.name}" for operator in self._operators)
            raise TypeError(f"Expected all operators to have the same dtype. Found {kinds}")
        if is_non_singular is None and all(operator.is_non_singular for operator in self._operators):
            is_non_singular = True
        joined = name or "_o_".join(operator.name for operator in self._operators)
        dtype = self._operators[0].dtype
        super().__init__(dtype, None, is_non_singular, is_self_adjoint, is_positive_definite, is_square, joined)

    @property
    def operators(self) -> list[Any]:
        """The operators, in the order in which they are written.

        >>> d = tf.linalg.LinearOperatorDiag([1.0, 2.0])
        >>> len(tf.linalg.LinearOperatorComposition([d, d]).operators)
        2
        """
        return self._operators

    def _shape(self) -> TensorShape:
        batch = self._operators[0].batch_shape
        for operator in self._operators[1:]:
            batch = array.broadcast_static_shape(batch, operator.batch_shape)
        return batch.concatenate([self._operators[0].range_dimension, self._operators[-1].domain_dimension])

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        x = adjoint_of(x) if adjoint_arg else x
        for operator in self._operators if adjoint else reversed(self._operators):
            x = operator.matmul(x, adjoint=adjoint)
        return x

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        rhs = adjoint_of(rhs) if adjoint_arg else rhs
        for operator in reversed(self._operators) if adjoint else self._operators:
            rhs = operator.solve(rhs, adjoint=adjoint)
        return rhs

    def _to_dense(self) -> Any:
        found = self._operators[-1].to_dense()
        for operator in reversed(self._operators[:-1]):
            found = operator.matmul(found)
        return found

    def _determinant(self) -> Any:
        if not all(operator.is_square for operator in self._operators):
            return super()._determinant()
        found = self._operators[0].determinant()
        for operator in self._operators[1:]:
            found = found * operator.determinant()
        return found

    def _log_abs_determinant(self) -> Any:
        if not all(operator.is_square for operator in self._operators):
            return super()._log_abs_determinant()
        found = self._operators[0].log_abs_determinant()
        for operator in self._operators[1:]:
            found = found + operator.log_abs_determinant()
        return found
