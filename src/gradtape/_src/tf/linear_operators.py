"""`tf.linalg.LinearOperator…`: diagonals, identities, blocks and other structures."""

from __future__ import annotations

from typing import Any

from gradtape._src.conversion import convert
from gradtape._src.shape import TensorShape
from gradtape._src.tf import array, linalg, math, shaping
from gradtape._src.tf.linear_operator import LinearOperator, adjoint_of, tensor_of

__all__ = [
    "LinearOperatorBlockDiag",
    "LinearOperatorDiag",
    "LinearOperatorHouseholder",
    "LinearOperatorIdentity",
    "LinearOperatorKronecker",
    "LinearOperatorLowRankUpdate",
    "LinearOperatorPermutation",
    "LinearOperatorScaledIdentity",
    "LinearOperatorToeplitz",
    "LinearOperatorTridiag",
    "LinearOperatorZeros",
]


class LinearOperatorDiag(LinearOperator):
    """A diagonal matrix.

    Args:
      diag: The diagonals, `[..., n]`.
      is_non_singular: See `LinearOperator`.
      is_self_adjoint: See `LinearOperator`.
      is_positive_definite: See `LinearOperator`.
      is_square: See `LinearOperator`.
      name: A name.

    >>> import gradtape as tf
    >>> tf.linalg.LinearOperatorDiag([1.0, 4.0]).inverse().to_dense().numpy().tolist()
    [[1.0, 0.0], [0.0, 0.25]]
    """

    def __init__(self, diag: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
                 is_positive_definite: bool | None = None, is_square: bool | None = None,
                 name: str = "LinearOperatorDiag") -> None:  # fmt: skip
        self._diag = tensor_of(diag)
        if self._diag.shape.rank == 0:
            raise ValueError("Argument `diag` must have at least 1 dimension. Received: a scalar.")
        if not self._diag.dtype.is_complex:
            is_self_adjoint = True
        if is_square is False:
            raise ValueError("Only square diagonal operators currently supported.")
        super().__init__(self._diag.dtype, None, is_non_singular, is_self_adjoint, is_positive_definite, True, name)

    @property
    def diag(self) -> Any:
        """The diagonal.

        >>> tf.linalg.LinearOperatorDiag([1.0, 2.0]).diag.numpy().tolist()
        [1.0, 2.0]
        """
        return self._diag

    def _shape(self) -> TensorShape:
        return self._diag.shape.concatenate(self._diag.shape[-1:])

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        x = adjoint_of(x) if adjoint_arg else x
        diagonal = math.conj(self._diag) if adjoint else convert(self._diag)
        return diagonal[..., None] * x

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        rhs = adjoint_of(rhs) if adjoint_arg else rhs
        diagonal = math.conj(self._diag) if adjoint else convert(self._diag)
        return rhs / diagonal[..., None]

    def _to_dense(self) -> Any:
        return linalg.diag(self._diag)

    def _diag_part(self) -> Any:
        return convert(self._diag)

    def _determinant(self) -> Any:
        return math.reduce_prod(self._diag, axis=-1)

    def _log_abs_determinant(self) -> Any:
        return math.reduce_sum(math.log(math.abs(self._diag)), axis=-1)

    def _eigvals(self) -> Any:
        return convert(self._diag)

    def _adjoint(self) -> Any:
        return LinearOperatorDiag(math.conj(self._diag), self.is_non_singular, None, self.is_positive_definite)

    def _inverse(self) -> Any:
        return LinearOperatorDiag(1.0 / convert(self._diag), True, self.is_self_adjoint, self.is_positive_definite)


class _Sized(LinearOperator):
    """An operator with a given number of rows, and a batch shape."""

    def __init__(self, dtype: Any, rows: Any, columns: Any, batch_shape: Any, **hints: Any) -> None:
        sizes = [int(n) for n in (rows, columns)]
        if min(sizes) < 0:
            raise ValueError(f"num_rows must be non-negative. Found: {min(sizes)}")
        self._sizes, self._batch = sizes, TensorShape([] if batch_shape is None else list(batch_shape))
        super().__init__(dtype, **hints)

    def _shape(self) -> TensorShape:
        return self._batch.concatenate(self._sizes)

    def _broadcast(self, x: Any) -> Any:
        batch = array.broadcast_static_shape(self.batch_shape, x.shape[:-2])
        return array.broadcast_to(x, [*batch.as_list(), *x.shape[-2:]]) if batch != x.shape[:-2] else convert(x)


class LinearOperatorIdentity(_Sized):
    """The identity.

    Args:
      num_rows: The number of rows and columns.
      batch_shape: The shape of a batch of them.
      dtype: The type of the elements.
      is_non_singular: See `LinearOperator`.
      is_self_adjoint: See `LinearOperator`.
      is_positive_definite: See `LinearOperator`.
      is_square: See `LinearOperator`.
      assert_proper_shapes: Accepted for compatibility.
      name: A name.

    >>> import gradtape as tf
    >>> tf.linalg.LinearOperatorIdentity(2).matvec([3.0, 4.0]).numpy().tolist()
    [3.0, 4.0]
    """

    def __init__(self, num_rows: Any, batch_shape: Any = None, dtype: Any = None, is_non_singular: bool = True,
                 is_self_adjoint: bool = True, is_positive_definite: bool = True, is_square: bool = True,
                 assert_proper_shapes: bool = False, name: str = "LinearOperatorIdentity") -> None:  # fmt: skip
        if not (is_non_singular and is_self_adjoint and is_positive_definite and is_square):
            raise ValueError("An identity operator is always self-adjoint, positive definite, square and non-singular.")
        super().__init__("float32" if dtype is None else dtype, num_rows, num_rows, batch_shape, is_non_singular=True,
                         is_self_adjoint=True, is_positive_definite=True, is_square=True, name=name)  # fmt: skip

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._broadcast(adjoint_of(x) if adjoint_arg else x)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._matmul(rhs, adjoint, adjoint_arg)

    def _to_dense(self) -> Any:
        return linalg.eye(self._sizes[0], batch_shape=self._batch.as_list(), dtype=self.dtype)

    def _diag_part(self) -> Any:
        return array.ones([*self._batch.as_list(), self._sizes[0]], self.dtype)

    def _determinant(self) -> Any:
        return array.ones(self._batch.as_list(), self.dtype)

    def _log_abs_determinant(self) -> Any:
        return array.zeros(self._batch.as_list(), self.dtype.real_dtype)

    def _eigvals(self) -> Any:
        return self._diag_part()

    def _inverse(self) -> Any:
        return self


class LinearOperatorScaledIdentity(_Sized):
    """A multiple of the identity.

    Args:
      num_rows: The number of rows and columns.
      multiplier: The number, or a batch of them.
      is_non_singular: See `LinearOperator`.
      is_self_adjoint: See `LinearOperator`.
      is_positive_definite: See `LinearOperator`.
      is_square: See `LinearOperator`.
      assert_proper_shapes: Accepted for compatibility.
      name: A name.

    >>> import gradtape as tf
    >>> float(tf.linalg.LinearOperatorScaledIdentity(3, 2.0).determinant())
    8.0
    """

    def __init__(self, num_rows: Any, multiplier: Any, is_non_singular: bool | None = None,
                 is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None, is_square: bool = True,
                 assert_proper_shapes: bool = False, name: str = "LinearOperatorScaledIdentity") -> None:  # fmt: skip
        self._multiplier = tensor_of(multiplier)
        if not self._multiplier.dtype.is_complex:
            is_self_adjoint = True
        if not is_square:
            raise ValueError("A ScaledIdentity operator is always square.")
        super().__init__(self._multiplier.dtype, num_rows, num_rows, self._multiplier.shape.as_list(),
                         is_non_singular=is_non_singular, is_self_adjoint=is_self_adjoint,
                         is_positive_definite=is_positive_definite, is_square=True, name=name)  # fmt: skip

    @property
    def multiplier(self) -> Any:
        """The number.

        >>> tf.linalg.LinearOperatorScaledIdentity(2, multiplier=3.0).multiplier.numpy().item()
        3.0
        """
        return self._multiplier

    def _factor(self, adjoint: bool) -> Any:
        return (math.conj(self._multiplier) if adjoint else convert(self._multiplier))[..., None, None]

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._factor(adjoint) * (adjoint_of(x) if adjoint_arg else x)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return (adjoint_of(rhs) if adjoint_arg else rhs) / self._factor(adjoint)

    def _to_dense(self) -> Any:
        return self._factor(False) * linalg.eye(self._sizes[0], dtype=self.dtype)

    def _diag_part(self) -> Any:
        return convert(self._multiplier)[..., None] * array.ones([self._sizes[0]], self.dtype)

    def _determinant(self) -> Any:
        return convert(self._multiplier) ** self._sizes[0]

    def _log_abs_determinant(self) -> Any:
        return self._sizes[0] * math.log(math.abs(self._multiplier))

    def _eigvals(self) -> Any:
        return self._diag_part()

    def _inverse(self) -> Any:
        return LinearOperatorScaledIdentity(
            self._sizes[0], 1.0 / convert(self._multiplier), True, self.is_self_adjoint, self.is_positive_definite
        )


class LinearOperatorZeros(_Sized):
    """A matrix of zeros.

    Args:
      num_rows: The number of rows.
      num_columns: The number of columns; that of rows if None.
      batch_shape: The shape of a batch of them.
      dtype: The type of the elements.
      is_non_singular: False.
      is_self_adjoint: See `LinearOperator`.
      is_positive_definite: False.
      is_square: See `LinearOperator`.
      assert_proper_shapes: Accepted for compatibility.
      name: A name.

    >>> import gradtape as tf
    >>> tf.linalg.LinearOperatorZeros(2).matvec([3.0, 4.0]).numpy().tolist()
    [0.0, 0.0]
    """

    def __init__(self, num_rows: Any, num_columns: Any = None, batch_shape: Any = None, dtype: Any = None,
                 is_non_singular: bool = False, is_self_adjoint: bool = True, is_positive_definite: bool = False,
                 is_square: bool = True, assert_proper_shapes: bool = False,
                 name: str = "LinearOperatorZeros") -> None:  # fmt: skip
        if is_non_singular or is_positive_definite:
            raise ValueError("A zero operator is always singular, and not positive definite.")
        columns = num_rows if num_columns is None else num_columns
        square = int(columns) == int(num_rows)
        super().__init__("float32" if dtype is None else dtype, num_rows, columns, batch_shape, is_non_singular=False,
                         is_self_adjoint=square or None, is_positive_definite=False, is_square=square,
                         name=name)  # fmt: skip

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        x = adjoint_of(x) if adjoint_arg else x
        batch = array.broadcast_static_shape(self.batch_shape, x.shape[:-2]).as_list()
        return array.zeros([*batch, self._sizes[1 if adjoint else 0], x.shape[-1]], self.dtype)

    def _to_dense(self) -> Any:
        return array.zeros([*self._batch.as_list(), *self._sizes], self.dtype)

    def _determinant(self) -> Any:
        return array.zeros(self._batch.as_list(), self.dtype)

    def _adjoint(self) -> Any:
        return LinearOperatorZeros(self._sizes[1], self._sizes[0], self._batch.as_list(), self.dtype)


class _OfOperators(LinearOperator):
    """An operator that consists of others."""

    def __init__(self, operators: Any, is_non_singular: bool | None, is_self_adjoint: bool | None,
                 is_positive_definite: bool | None, is_square: bool | None, name: str) -> None:  # fmt: skip
        self._operators = list(operators)
        if not self._operators:
            raise ValueError("Expected a non-empty list of operators. Found: []")
        if len({operator.dtype for operator in self._operators}) > 1:
            raise TypeError("Expected all operators to have the same dtype.")

        def every(hint: str, given: bool | None) -> bool | None:
            return True if given is None and all(getattr(o, hint) for o in self._operators) else given

        super().__init__(self._operators[0].dtype, None, every("is_non_singular", is_non_singular),
                         every("is_self_adjoint", is_self_adjoint), every("is_positive_definite", is_positive_definite),
                         every("is_square", is_square), name)  # fmt: skip

    @property
    def operators(self) -> list[Any]:
        """The operators."""
        return self._operators

    def _joint_batch(self) -> TensorShape:
        batch = self._operators[0].batch_shape
        for operator in self._operators[1:]:
            batch = array.broadcast_static_shape(batch, operator.batch_shape)
        return batch


class LinearOperatorBlockDiag(_OfOperators):
    """Operators as the blocks of a diagonal.

    Args:
      operators: The blocks.
      is_non_singular: See `LinearOperator`.
      is_self_adjoint: See `LinearOperator`.
      is_positive_definite: See `LinearOperator`.
      is_square: See `LinearOperator`.
      name: A name.

    >>> import gradtape as tf
    >>> one = tf.linalg.LinearOperatorFullMatrix([[2.0]])
    >>> tf.linalg.LinearOperatorBlockDiag([one, one]).to_dense().numpy().tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """

    def __init__(self, operators: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
                 is_positive_definite: bool | None = None, is_square: bool | None = True,
                 name: str = "LinearOperatorBlockDiag") -> None:  # fmt: skip
        super().__init__(operators, is_non_singular, is_self_adjoint, is_positive_definite, is_square, name)

    def _shape(self) -> TensorShape:
        rows = sum(operator.range_dimension for operator in self._operators)
        return self._joint_batch().concatenate([rows, sum(o.domain_dimension for o in self._operators)])

    def _blockwise(self, x: Any, method: str, adjoint: bool, by_rows: bool) -> Any:
        sizes = [o.range_dimension if by_rows else o.domain_dimension for o in self._operators]
        parts = array.split(x, sizes, axis=-2)
        found = [getattr(o, method)(part, adjoint=adjoint) for o, part in zip(self._operators, parts, strict=True)]
        batch = found[0].shape[:-2]
        for part in found[1:]:
            batch = array.broadcast_static_shape(batch, part.shape[:-2])
        return array.concat([array.broadcast_to(p, [*batch.as_list(), *p.shape[-2:]]) for p in found], axis=-2)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._blockwise(adjoint_of(x) if adjoint_arg else x, "matmul", adjoint, by_rows=adjoint)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._blockwise(adjoint_of(rhs) if adjoint_arg else rhs, "solve", adjoint, by_rows=not adjoint)

    def _determinant(self) -> Any:
        return _product_of([operator.determinant() for operator in self._operators])

    def _log_abs_determinant(self) -> Any:
        return math.add_n([operator.log_abs_determinant() for operator in self._operators])

    def _diag_part(self) -> Any:
        batch = self._joint_batch().as_list()
        parts = [operator.diag_part() for operator in self._operators]
        return array.concat([array.broadcast_to(part, [*batch, part.shape[-1]]) for part in parts], axis=-1)


def _product_of(factors: list[Any]) -> Any:
    found = factors[0]
    for factor in factors[1:]:
        found = found * factor
    return found


class LinearOperatorKronecker(_OfOperators):
    """The Kronecker product of operators.

    Args:
      operators: The factors.
      is_non_singular: See `LinearOperator`.
      is_self_adjoint: See `LinearOperator`.
      is_positive_definite: See `LinearOperator`.
      is_square: See `LinearOperator`.
      name: A name.

    >>> import gradtape as tf
    >>> a = tf.linalg.LinearOperatorFullMatrix([[1.0, 2.0]])
    >>> tf.linalg.LinearOperatorKronecker([a, a]).to_dense().numpy().tolist()
    [[1.0, 2.0, 2.0, 4.0]]
    """

    def __init__(self, operators: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
                 is_positive_definite: bool | None = None, is_square: bool | None = None,
                 name: str | None = None) -> None:  # fmt: skip
        listed = list(operators)
        joined = name or "_x_".join(operator.name for operator in listed)
        super().__init__(listed, is_non_singular, is_self_adjoint, is_positive_definite, is_square, joined)

    def _shape(self) -> TensorShape:
        rows = _product_of([operator.range_dimension for operator in self._operators])
        return self._joint_batch().concatenate([rows, _product_of([o.domain_dimension for o in self._operators])])

    def _to_dense(self) -> Any:
        found = self._operators[0].to_dense()
        for operator in self._operators[1:]:
            other = operator.to_dense()
            both = found[..., :, None, :, None] * other[..., None, :, None, :]
            rows, columns = found.shape[-2] * other.shape[-2], found.shape[-1] * other.shape[-1]
            found = array.reshape(both, [*both.shape[:-4].as_list(), rows, columns])
        return found

    def _determinant(self) -> Any:
        total = self.domain_dimension or 1
        return _product_of([o.determinant() ** (total // o.domain_dimension) for o in self._operators])

    def _log_abs_determinant(self) -> Any:
        total = self.domain_dimension or 1
        return math.add_n([o.log_abs_determinant() * float(total // o.domain_dimension) for o in self._operators])

    def _inverse(self) -> Any:
        return LinearOperatorKronecker([operator.inverse() for operator in self._operators], is_non_singular=True)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        rhs = adjoint_of(rhs) if adjoint_arg else rhs
        return self._inverse().matmul(rhs, adjoint=adjoint)


class LinearOperatorLowRankUpdate(LinearOperator):
    """An operator plus `u · diag · v*`, with few columns `u` and `v`.

    Args:
      base_operator: An operator that is easy to invert.
      u: A matrix `[..., rows, k]`.
      diag_update: The diagonal, `[..., k]`; ones if None.
      v: A matrix `[..., columns, k]`; `u` if None.
      is_diag_update_positive: Whether all elements of the diagonal are positive, if known.
      is_non_singular: See `LinearOperator`.
      is_self_adjoint: See `LinearOperator`.
      is_positive_definite: See `LinearOperator`.
      is_square: See `LinearOperator`.
      name: A name.

    >>> import gradtape as tf
    >>> base = tf.linalg.LinearOperatorIdentity(2)
    >>> a = tf.linalg.LinearOperatorLowRankUpdate(base, [[1.0], [0.0]])
    >>> a.to_dense().numpy().tolist(), float(a.determinant())
    ([[2.0, 0.0], [0.0, 1.0]], 2.0)

    >>> base = tf.linalg.LinearOperatorDiag([1.0, 1.0])
    >>> update = tf.linalg.LinearOperatorLowRankUpdate(base, u=[[1.0], [0.0]], diag_update=[3.0])
    >>> update.base_operator is base
    True
    >>> update.u.numpy().tolist(), update.v.numpy().tolist(), update.diag_update.numpy().tolist()
    ([[1.0], [0.0]], [[1.0], [0.0]], [3.0])
    """

    def __init__(self, base_operator: Any, u: Any, diag_update: Any = None, v: Any = None,
                 is_diag_update_positive: bool | None = None, is_non_singular: bool | None = None,
                 is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
                 is_square: bool | None = None, name: str = "LinearOperatorLowRankUpdate") -> None:  # fmt: skip
        self._base, self._u = base_operator, tensor_of(u, base_operator.dtype)
        self._v = self._u if v is None else tensor_of(v, base_operator.dtype)
        self._diag_update = None if diag_update is None else tensor_of(diag_update, base_operator.dtype)
        self._is_diag_update_positive = True if diag_update is None else is_diag_update_positive
        if v is None and base_operator.is_self_adjoint and is_self_adjoint is None:
            is_self_adjoint = True
            if base_operator.is_positive_definite and self._is_diag_update_positive and is_positive_definite is None:
                is_positive_definite = True
        super().__init__(
            base_operator.dtype, None, is_non_singular, is_self_adjoint, is_positive_definite, is_square, name
        )

    @property
    def base_operator(self) -> Any:
        """The operator that is updated."""
        return self._base

    @property
    def u(self) -> Any:
        """The left factor."""
        return self._u

    @property
    def v(self) -> Any:
        """The right factor."""
        return self._v

    @property
    def diag_update(self) -> Any:
        """The diagonal between them, or None."""
        return self._diag_update

    @property
    def is_diag_update_positive(self) -> bool | None:
        return self._is_diag_update_positive

    def _shape(self) -> TensorShape:
        batch = array.broadcast_static_shape(self._base.batch_shape, self._u.shape[:-2])
        return batch.concatenate(self._base.shape[-2:])

    def _scaled(self, x: Any) -> Any:
        return x if self._diag_update is None else convert(self._diag_update)[..., None] * x

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        x = adjoint_of(x) if adjoint_arg else x
        left, right = (self._v, self._u) if adjoint else (self._u, self._v)
        inner = self._scaled(linalg.matmul(right, x, adjoint_a=True))
        return self._base.matmul(x, adjoint=adjoint) + linalg.matmul(left, inner)

    def _capacitance(self, left: Any, right: Any, adjoint: bool) -> Any:
        """The matrix that Woodbury's formula inverts: diag⁻¹ + v* A⁻¹ u."""
        count = self._u.shape[-1]
        inner = linalg.matmul(right, self._base.solve(left, adjoint=adjoint), adjoint_a=True)
        ones = array.ones([count], self.dtype) if self._diag_update is None else 1.0 / convert(self._diag_update)
        return linalg.diag(ones) + inner

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        rhs = adjoint_of(rhs) if adjoint_arg else rhs
        left, right = (self._v, self._u) if adjoint else (self._u, self._v)
        first = self._base.solve(rhs, adjoint=adjoint)
        small = linalg.matmul(right, first, adjoint_a=True)
        found = linalg.solve(self._capacitance(left, right, adjoint), small)
        return first - self._base.solve(linalg.matmul(left, found), adjoint=adjoint)

    def _determinant(self) -> Any:
        factor = 1.0 if self._diag_update is None else math.reduce_prod(self._diag_update, axis=-1)
        return linalg.det(self._capacitance(self._u, self._v, False)) * factor * self._base.determinant()

    def _log_abs_determinant(self) -> Any:
        found = linalg.slogdet(self._capacitance(self._u, self._v, False))[1] + self._base.log_abs_determinant()
        if self._diag_update is not None:
            found = found + math.reduce_sum(math.log(math.abs(self._diag_update)), axis=-1)
        return found


class LinearOperatorHouseholder(LinearOperator):
    """The reflection at the hyperplane normal to a vector.

    Args:
      reflection_axis: The vectors, `[..., n]`.
      is_non_singular: See `LinearOperator`.
      is_self_adjoint: See `LinearOperator`.
      is_positive_definite: See `LinearOperator`.
      is_square: See `LinearOperator`.
      name: A name.

    >>> import gradtape as tf
    >>> tf.linalg.LinearOperatorHouseholder([0.0, 2.0]).matvec([3.0, 4.0]).numpy().tolist()
    [3.0, -4.0]
    """

    def __init__(self, reflection_axis: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
                 is_positive_definite: bool | None = None, is_square: bool | None = None,
                 name: str = "LinearOperatorHouseholder") -> None:  # fmt: skip
        if is_self_adjoint is False or is_positive_definite or is_non_singular is False or is_square is False:
            raise ValueError(
                "A Householder operator is always self-adjoint, square and non-singular, and not definite."
            )
        self._axis = tensor_of(reflection_axis)
        super().__init__(self._axis.dtype, None, True, True, False, True, name)

    @property
    def reflection_axis(self) -> Any:
        """The vector.

        >>> tf.linalg.LinearOperatorHouseholder([0.0, 1.0]).reflection_axis.numpy().tolist()
        [0.0, 1.0]
        """
        return self._axis

    def _shape(self) -> TensorShape:
        return self._axis.shape.concatenate(self._axis.shape[-1:])

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        x = adjoint_of(x) if adjoint_arg else x
        length = math.sqrt(math.reduce_sum(math.conj(self._axis) * self._axis, axis=-1, keepdims=True))
        unit = (self._axis / length)[..., None]
        return x - 2.0 * linalg.matmul(unit, linalg.matmul(unit, x, adjoint_a=True))

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._matmul(rhs, adjoint, adjoint_arg)

    def _determinant(self) -> Any:
        return -array.ones(self.batch_shape.as_list(), self.dtype)

    def _log_abs_determinant(self) -> Any:
        return array.zeros(self.batch_shape.as_list(), self.dtype)


class LinearOperatorPermutation(LinearOperator):
    """A permutation of rows.

    Args:
      perm: For each row of the product, the row of the argument, `[..., n]`.
      dtype: The type of the elements.
      is_non_singular: See `LinearOperator`.
      is_self_adjoint: See `LinearOperator`.
      is_positive_definite: See `LinearOperator`.
      is_square: See `LinearOperator`.
      name: A name.

    >>> import gradtape as tf
    >>> tf.linalg.LinearOperatorPermutation([2, 0, 1]).matvec([1.0, 2.0, 3.0]).numpy().tolist()
    [3.0, 1.0, 2.0]
    """

    def __init__(self, perm: Any, dtype: Any = "float32", is_non_singular: bool | None = None,
                 is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
                 is_square: bool | None = None, name: str = "LinearOperatorPermutation") -> None:  # fmt: skip
        if is_non_singular is False or is_square is False:
            raise ValueError("A Permutation operator is always square and non-singular.")
        self._perm = tensor_of(perm)
        super().__init__(dtype, None, True, is_self_adjoint, is_positive_definite, True, name)

    @property
    def perm(self) -> Any:
        """The permutation.

        >>> tf.linalg.LinearOperatorPermutation([2, 0, 1]).perm.numpy().tolist()
        [2, 0, 1]
        """
        return self._perm

    def _shape(self) -> TensorShape:
        return self._perm.shape.concatenate(self._perm.shape[-1:])

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        x = adjoint_of(x) if adjoint_arg else x
        order = math.argsort(self._perm, axis=-1) if adjoint else convert(self._perm)
        batch = array.broadcast_static_shape(order.shape[:-1], x.shape[:-2]).as_list()
        x = array.broadcast_to(x, [*batch, *x.shape[-2:]])
        order = array.broadcast_to(order, [*batch, order.shape[-1]])
        return array.gather(x, order, axis=-2, batch_dims=len(batch))

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._matmul(rhs, not adjoint, adjoint_arg)

    def _log_abs_determinant(self) -> Any:
        return array.zeros(self.batch_shape.as_list(), self.dtype)


class LinearOperatorTridiag(LinearOperator):
    """A matrix with three diagonals.

    Args:
      diagonals: The diagonals, as `diagonals_format` says.
      diagonals_format: "compact" (`[..., 3, n]`), "sequence" (three of `[..., n]`) or "matrix" (`[..., n, n]`).
      is_non_singular: See `LinearOperator`.
      is_self_adjoint: See `LinearOperator`.
      is_positive_definite: See `LinearOperator`.
      is_square: See `LinearOperator`.
      name: A name.

    >>> import gradtape as tf
    >>> a = tf.linalg.LinearOperatorTridiag([[1.0, 0.0], [2.0, 2.0], [0.0, 3.0]])
    >>> a.to_dense().numpy().tolist()
    [[2.0, 1.0], [3.0, 2.0]]
    """

    def __init__(self, diagonals: Any, diagonals_format: str = "compact", is_non_singular: bool | None = None,
                 is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
                 is_square: bool | None = None, name: str = "LinearOperatorTridiag") -> None:  # fmt: skip
        if diagonals_format not in ("matrix", "sequence", "compact"):
            raise ValueError(
                "Argument `diagonals_format` must be one of ('matrix', 'sequence', 'compact'). Received: "
                f"{diagonals_format}."
            )
        self._given, self._format = diagonals, diagonals_format
        self._diagonals: Any = (
            [tensor_of(d) for d in diagonals] if diagonals_format == "sequence" else tensor_of(diagonals)
        )
        middle: Any = self._diagonals[1] if diagonals_format == "sequence" else self._diagonals
        dtype = middle.dtype
        super().__init__(dtype, None, is_non_singular, is_self_adjoint, is_positive_definite, True, name)

    @property
    def diagonals(self) -> Any:
        """The diagonals, in the given form.

        >>> tf.linalg.LinearOperatorTridiag([[3.0, 0.0], [1.0, 2.0], [0.0, 5.0]]).diagonals.numpy().tolist()
        [[3.0, 0.0], [1.0, 2.0], [0.0, 5.0]]
        """
        return self._diagonals

    @property
    def diagonals_format(self) -> str:
        return self._format

    def _shape(self) -> TensorShape:
        if self._format == "matrix":
            return self._diagonals.shape
        if self._format == "sequence":
            middle = self._diagonals[1].shape
            return middle.concatenate(middle[-1:])
        shape = self._diagonals.shape
        return shape[:-2].concatenate([shape[-1], shape[-1]])

    def _to_dense(self) -> Any:
        if self._format == "matrix":
            return linalg.band_part(self._diagonals, 1, 1)
        above, middle, below = (
            self._diagonals if self._format == "sequence" else array.unstack(self._diagonals, axis=-2)
        )
        matrix = linalg.diag(middle)
        if middle.shape[-1] and middle.shape[-1] > 1:
            matrix = matrix + linalg.diag(above[..., :-1], k=1) + linalg.diag(below[..., 1:], k=-1)
        return matrix


class LinearOperatorToeplitz(LinearOperator):
    """A matrix whose diagonals are constant.

    Args:
      col: The first column, `[..., n]`.
      row: The first row, `[..., n]`.
      is_non_singular: See `LinearOperator`.
      is_self_adjoint: See `LinearOperator`.
      is_positive_definite: See `LinearOperator`.
      is_square: See `LinearOperator`.
      name: A name.

    >>> import gradtape as tf
    >>> tf.linalg.LinearOperatorToeplitz([1.0, 2.0], [1.0, 3.0]).to_dense().numpy().tolist()
    [[1.0, 3.0], [2.0, 1.0]]
    """

    def __init__(self, col: Any, row: Any, is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
                 is_positive_definite: bool | None = None, is_square: bool | None = None,
                 name: str = "LinearOperatorToeplitz") -> None:  # fmt: skip
        if is_square is False:
            raise ValueError("Only square Toeplitz operators currently supported.")
        self._col, self._row = tensor_of(col), tensor_of(row)
        super().__init__(self._row.dtype, None, is_non_singular, is_self_adjoint, is_positive_definite, True, name)

    @property
    def col(self) -> Any:
        """The first column.

        >>> tf.linalg.LinearOperatorToeplitz(col=[1.0, 2.0], row=[1.0, 9.0]).col.numpy().tolist()
        [1.0, 2.0]
        """
        return self._col

    @property
    def row(self) -> Any:
        """The first row.

        >>> tf.linalg.LinearOperatorToeplitz(col=[1.0, 2.0], row=[1.0, 9.0]).row.numpy().tolist()
        [1.0, 9.0]
        """
        return self._row

    def _shape(self) -> TensorShape:
        batch = array.broadcast_static_shape(self._col.shape[:-1], self._row.shape[:-1])
        return batch.concatenate([self._row.shape[-1]] * 2)

    def _to_dense(self) -> Any:
        size = self._row.shape[-1]
        batch = self.batch_shape.as_list()
        col, row = (array.broadcast_to(x, [*batch, size]) for x in (self._col, self._row))
        both = array.concat([array.reverse(row[..., 1:], [-1]), col], axis=-1)
        places = array.range(size)[:, None] - array.range(size)[None, :] + (size - 1)
        return array.gather(both, places, axis=-1)

    def _diag_part(self) -> Any:
        return shaping.repeat(convert(self._col)[..., :1], self._row.shape[-1], axis=-1)
