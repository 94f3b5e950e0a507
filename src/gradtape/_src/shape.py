"""Static shapes, which may be partly or completely unknown, and the specification of a tensor."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator
from typing import Any, SupportsIndex, overload

from gradtape._src import dtypes


class TensorShape:
    """The shape of a tensor: a length or None for every dimension, or None for an unknown number of dimensions.

    >>> shape = tf.TensorShape([2, None, 3])
    >>> shape.rank, shape[0], shape[1:], shape == [2, None, 3]
    (3, 2, TensorShape([None, 3]), True)
    >>> tf.TensorShape([2]) + [3, 4], tf.TensorShape(None).rank
    (TensorShape([2, 3, 4]), None)

    >>> shape = tf.TensorShape([None, 3])
    >>> shape.is_fully_defined(), shape.ndims, shape.dims
    (False, 2, [None, 3])
    >>> shape.with_rank(2), shape.with_rank_at_least(1), shape.with_rank_at_most(3)
    (TensorShape([None, 3]), TensorShape([None, 3]), TensorShape([None, 3]))
    >>> shape.most_specific_common_supertype([tf.TensorShape([2, 4])])
    TensorShape([None, None])
    >>> shape.assert_has_rank(2)
    >>> shape.assert_same_rank([5, 6])
    >>> shape.assert_is_compatible_with([7, 3])
    >>> shape.assert_is_fully_defined()
    Traceback (most recent call last):
        ...
    ValueError: Shape (None, 3) is not fully defined
    """

    __slots__ = ("_dims",)

    _dims: tuple[int | None, ...] | None

    def __init__(self, dims: Any) -> None:
        kind = type(dims)
        if kind is tuple or kind is list:
            for value in dims:
                if type(value) is not int or value < 0:
                    self._dims = tuple(map(_dimension, dims))
                    break
            else:
                self._dims = tuple(dims)
        elif dims is None:
            self._dims = None
        elif kind is TensorShape:
            self._dims = dims._dims
        else:
            self._dims = _parse(dims)

    @property
    def rank(self) -> int | None:
        """The number of dimensions, or None."""
        return None if self._dims is None else len(self._dims)

    ndims = rank

    @property
    def dims(self) -> list[int | None] | None:
        """The dimensions as a list, or None when their number is unknown."""
        return None if self._dims is None else list(self._dims)

    def as_list(self) -> list[int | None]:
        """Return the dimensions as a list.

        >>> tf.TensorShape([1, None]).as_list()
        [1, None]
        """
        if self._dims is None:
            raise ValueError("as_list() is not defined on an unknown TensorShape.")
        return list(self._dims)

    def num_elements(self) -> int | None:
        """Return the number of elements, or None if a dimension is unknown.

        >>> tf.TensorShape([2, 3]).num_elements()
        6
        """
        if self._dims is None or None in self._dims:
            return None
        return math.prod(self._dims)  # type: ignore[arg-type]

    def is_fully_defined(self) -> bool:
        """Return whether every dimension is known."""
        return self._dims is not None and None not in self._dims

    def is_compatible_with(self, other: Any) -> bool:
        """Return whether a tensor could have both shapes.

        >>> tf.TensorShape([None, 3]).is_compatible_with([5, 3])
        True
        """
        other_dims = as_shape(other)._dims
        if self._dims is None or other_dims is None:
            return True
        return len(self._dims) == len(other_dims) and all(
            a is None or b is None or a == b for a, b in zip(self._dims, other_dims, strict=True)
        )

    def is_subtype_of(self, other: Any) -> bool:
        """Return whether every tensor of this shape also has the shape `other`.

        >>> tf.TensorShape([2]).is_subtype_of(tf.TensorShape([None]))
        True
        """
        if not isinstance(other, TensorShape):
            return False
        if other._dims is None:
            return True
        if self._dims is None or len(self._dims) != len(other._dims):
            return False
        return all(b is None or a == b for a, b in zip(self._dims, other._dims, strict=True))

    def merge_with(self, other: Any) -> TensorShape:
        """Return the shape that combines what is known about both.

        >>> tf.TensorShape([2, None]).merge_with([None, 4])
        TensorShape([2, 4])
        """
        other = as_shape(other)
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {other} are not compatible")
        if self._dims is None or other._dims is None:
            return other if self._dims is None else self
        return _trusted(tuple(b if a is None else a for a, b in zip(self._dims, other._dims, strict=True)))

    def most_specific_compatible_shape(self, other: Any) -> TensorShape:
        """Return the narrowest shape that covers both.

        >>> tf.TensorShape([2, 3]).most_specific_compatible_shape([2, 4])
        TensorShape([2, None])
        """
        other_dims = as_shape(other)._dims
        if self._dims is None or other_dims is None or len(self._dims) != len(other_dims):
            return _trusted(None)
        return _trusted(tuple(a if a == b else None for a, b in zip(self._dims, other_dims, strict=True)))

    def most_specific_common_supertype(self, others: Iterable[Any]) -> TensorShape | None:
        """Return the narrowest shape that covers this one and all `others`; None if one is not a TensorShape."""
        shape = self
        for other in others:
            if not isinstance(other, TensorShape):
                return None
            shape = shape.most_specific_compatible_shape(other)
        return shape

    def concatenate(self, other: Any) -> TensorShape:
        """Return this shape followed by another; unknown if one of them is.

        >>> tf.TensorShape([2]).concatenate([3])
        TensorShape([2, 3])
        """
        other_dims = as_shape(other)._dims
        if self._dims is None or other_dims is None:
            return _trusted(None)
        return _trusted(self._dims + other_dims)

    def with_rank(self, rank: int) -> TensorShape:
        """Return this shape, with `rank` unknown dimensions if its rank was unknown."""
        self.assert_has_rank(rank)
        return unknown_shape(rank) if self._dims is None else self

    def with_rank_at_least(self, rank: int) -> TensorShape:
        """Return this shape; raise ValueError if it has too few dimensions."""
        if self._dims is not None and len(self._dims) < rank:
            raise ValueError(f"Shape {self} must have rank at least {rank}")
        return self

    def with_rank_at_most(self, rank: int) -> TensorShape:
        """Return this shape; raise ValueError if it has too many dimensions."""
        if self._dims is not None and len(self._dims) > rank:
            raise ValueError(f"Shape {self} must have rank at most {rank}")
        return self

    def assert_has_rank(self, rank: int) -> None:
        """Raise a ValueError if the number of dimensions is known and not `rank`."""
        if self._dims is not None and len(self._dims) != rank:
            raise ValueError(f"Shape {self} must have rank {rank}")

    def assert_same_rank(self, other: Any) -> None:
        """Raise a ValueError if both ranks are known and differ."""
        other = as_shape(other)
        if self._dims is not None and other._dims is not None and len(self._dims) != len(other._dims):
            raise ValueError(f"Shapes {self} and {other} must have the same rank")

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise a ValueError if no tensor could have both shapes."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {other} are incompatible")

    def assert_is_fully_defined(self) -> None:
        """Raise a ValueError if a dimension is unknown."""
        if not self.is_fully_defined():
            raise ValueError(f"Shape {self} is not fully defined")

    def __len__(self) -> int:
        if self._dims is None:
            raise ValueError("Cannot take the length of shape with unknown rank.")
        return len(self._dims)

    def __bool__(self) -> bool:
        return self._dims is not None

    def __iter__(self) -> Iterator[int | None]:
        if self._dims is None:
            raise ValueError("Cannot iterate over a shape with unknown rank.")
        return iter(self._dims)

    @overload
    def __getitem__(self, key: SupportsIndex) -> int | None: ...
    @overload
    def __getitem__(self, key: slice) -> TensorShape: ...
    def __getitem__(self, key: Any) -> Any:
        if self._dims is None:
            return _item_of_unknown(key)
        found = self._dims[key]
        return _trusted(found) if isinstance(found, tuple) else found

    def __add__(self, other: Any) -> TensorShape:
        return self.concatenate(other)

    def __radd__(self, other: Any) -> TensorShape:
        return as_shape(other).concatenate(self)

    def __eq__(self, other: object) -> bool:
        if type(other) is not TensorShape:
            try:
                other = TensorShape(other)
            except (TypeError, ValueError):
                return NotImplemented
        return self._dims == other._dims

    def __hash__(self) -> int:
        return hash(self._dims)

    def __repr__(self) -> str:
        return f"TensorShape({self.dims})"

    def __str__(self) -> str:
        return "<unknown>" if self._dims is None else str(self._dims)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled_shape, (self._dims,)


def _unpickled_shape(dims: Any) -> TensorShape:
    """A function for pickles, whose module is gradtape's even if the class has TensorFlow's module name."""
    return TensorShape(dims)


_new = object.__new__


def _trusted(dims: tuple[int | None, ...] | None) -> TensorShape:
    shape: TensorShape = _new(TensorShape)
    shape._dims = dims
    return shape


def known_shape(dims: tuple[int, ...]) -> TensorShape:
    """The TensorShape of an array's `shape`, taken as it is: every `tensor.shape` makes one, so nothing is checked.

    >>> known_shape((2, 3))
    TensorShape([2, 3])
    """
    shape: TensorShape = _new(TensorShape)
    shape._dims = dims
    return shape


def as_shape(shape: Any) -> TensorShape:
    """The TensorShape that a list, tuple, int, array of ints, TensorShape or None stands for.

    >>> as_shape([2, None]), as_shape(3), as_shape(None)
    (TensorShape([2, None]), TensorShape([3]), TensorShape(None))
    """
    return shape if type(shape) is TensorShape else TensorShape(shape)


def unknown_shape(rank: int | None = None) -> TensorShape:
    """A shape with `rank` unknown dimensions, or with an unknown number of them.

    >>> unknown_shape(2), unknown_shape()
    (TensorShape([None, None]), TensorShape(None))
    """
    return _trusted(None if rank is None else (None,) * rank)


unknown_kinds: set[type] = set()
"""Classes of symbolic dimensions while a function is traced; derivatives compute with them."""


def _dimension(value: Any) -> int | None:
    if value is None or type(value) in unknown_kinds:
        return value
    try:
        length = int(operator.index(value))
    except TypeError:
        raise TypeError(
            "Dimension value must be integer or None or have an __index__ method, "
            f"got value '{value!r}' with type '{type(value)!r}'"
        ) from None
    if length < 0:
        raise ValueError(f"Dimension {length} must be >= 0")
    return length


def _parse(dims: Any) -> tuple[int | None, ...]:
    """The dimensions in an array, a tensor, another iterable, or a single dimension."""
    try:
        values = iter(dims)
    except TypeError:
        return (_dimension(dims),)
    parsed = []
    for value in values:
        try:
            parsed.append(_dimension(value))
        except TypeError as error:
            raise TypeError(
                f"Failed to convert '{dims!r}' to a shape: '{value!r}' could not be converted to a dimension. "
                "A shape should either be single dimension (e.g. 10), or an iterable of dimensions "
                "(e.g. [1, 10, None])."
            ) from error
    return tuple(parsed)


def _item_of_unknown(key: Any) -> TensorShape | None:
    if not isinstance(key, slice):
        return None
    if key.step is not None:
        raise ValueError("Steps are not yet handled")
    start = 0 if key.start is None else key.start
    if key.stop is None or key.stop < 0 or start < 0:
        return _trusted(None)
    return unknown_shape(max(key.stop - start, 0))


class ShapeAndDtype:
    """Base class of specifications of tensors, dense or not."""

    __slots__ = ()

    _shape: TensorShape
    _dtype: dtypes.DType

    @property
    def shape(self) -> TensorShape:
        """The shape, which may be unknown in part."""
        return self._shape

    @property
    def dtype(self) -> dtypes.DType:
        """The dtype of the elements."""
        return self._dtype


class TensorSpec(ShapeAndDtype):
    """A description of a tensor: shape, dtype and, optionally, a name.

    >>> tf.TensorSpec([None])
    TensorSpec(shape=(None,), dtype=tf.float32, name=None)
    >>> tf.TensorSpec([None, 3]).is_compatible_with(tf.TensorSpec([5, 3]))
    True

    >>> spec = tf.TensorSpec.from_tensor(tf.constant([[1.0, 2.0]]), name="x")
    >>> spec.shape, spec.dtype, spec.name
    (TensorShape([1, 2]), tf.float32, 'x')
    >>> wider = tf.TensorSpec([None, 2], tf.float32)
    >>> spec.is_subtype_of(wider)
    False
    >>> wider.most_specific_common_supertype([spec])
    """

    __slots__ = ("_dtype", "_name", "_shape")

    def __init__(self, shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> None:
        self._shape = as_shape(shape)
        self._dtype = dtypes.as_dtype(dtype)
        self._name = name

    @classmethod
    def from_spec(cls, spec: Any, name: str | None = None) -> TensorSpec:
        """Return a specification with the shape and dtype of `spec`, renamed if a name is given.

        >>> tf.TensorSpec.from_spec(tf.TensorSpec([1], name="a"), name="b").name
        'b'
        """
        return cls(spec.shape, spec.dtype, name or spec.name)

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> TensorSpec:
        """Return the specification of a tensor."""
        if not _is_tensor(tensor):
            raise ValueError(f"`tensor` should be a tf.Tensor, but got type {type(tensor)}.")
        return cls(tensor.shape, tensor.dtype, name)

    @property
    def name(self) -> str | None:
        """The name of the argument that this describes, or None."""
        return self._name

    def is_compatible_with(self, spec_or_tensor: Any) -> bool:
        """Return whether the dtypes are equal and the shapes compatible; names do not matter."""
        if not (isinstance(spec_or_tensor, TensorSpec) or _is_tensor(spec_or_tensor)):
            return False
        return self._dtype is spec_or_tensor.dtype and self._shape.is_compatible_with(spec_or_tensor.shape)

    def is_subtype_of(self, other: Any) -> bool:
        """Return whether everything that matches this specification also matches `other`."""
        return (
            isinstance(other, TensorSpec)
            and self._dtype is other._dtype
            and self._name in (None, other._name)
            and self._shape.is_subtype_of(other._shape)
        )

    def most_specific_common_supertype(self, others: Iterable[Any]) -> TensorSpec | None:
        """Return the narrowest specification that covers this one and all `others`, or None."""
        shape = self._shape
        for other in others:
            if not isinstance(other, TensorSpec) or (self._dtype, self._name) != (other._dtype, other._name):
                return None
            shape = shape.most_specific_compatible_shape(other._shape)
        return type(self)(shape, self._dtype, self._name)

    def most_specific_compatible_type(self, other: Any) -> TensorSpec:
        """Return the narrowest specification that covers both; raise ValueError if there is none.

        >>> tf.TensorSpec([4]).most_specific_compatible_type(tf.TensorSpec([5]))
        TensorSpec(shape=(None,), dtype=tf.float32, name=None)
        """
        common = self.most_specific_common_supertype([other])
        if common is None:
            raise ValueError(f"No TypeSpec is compatible with both {self} and {other}")
        return common

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorSpec):
            return NotImplemented
        return (self._shape, self._dtype, self._name) == (other._shape, other._dtype, other._name)

    def __hash__(self) -> int:
        return hash((self._shape, self._dtype))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self._shape}, dtype={self._dtype!r}, name={self._name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        facts = (self._shape, self._dtype, self._name)
        return (_unpickled_spec if type(self) is TensorSpec else type(self)), facts


def _unpickled_spec(shape: TensorShape, dtype: dtypes.DType, name: str | None) -> TensorSpec:
    return TensorSpec(shape, dtype, name)


def _is_tensor(value: Any) -> bool:
    # Tensors are in a higher layer, so they are recognised by their attributes. Arrays have NumPy's dtypes.
    return isinstance(getattr(value, "dtype", None), dtypes.DType) and isinstance(value.shape, TensorShape)
