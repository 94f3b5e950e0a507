"""TensorArray: a list of tensors that loops write to and read from."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gradtape._src import errors, nest
from gradtape._src.arrays.checks import checked
from gradtape._src.arrays.dimensions import is_dimension, is_same, may_have_shape
from gradtape._src.arrays.symbolic import (
    allows_dynamic_shapes,
    current_graph,
    is_known,
    only_eager,
    sizes_of,
    zeros,
)
from gradtape._src.conversion import convert, is_library, operand, wrap
from gradtape._src.dtypes import DType, as_dtype
from gradtape._src.literals import cannot_convert
from gradtape._src.ops import array, index as ops_index
from gradtape._src.shape import TensorShape
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import extent, shape_of, truth
from gradtape._src.tf.array import concat, gather, stack
from gradtape._src.tf.ragged_elements import RaggedElements, extended
from gradtape._src.variable import Variable

_CLEARED: Any = object()


def wrong_dtype(kind: DType, given: DType) -> errors.InvalidArgumentError:
    """TensorFlow's error for an element of another dtype."""
    return errors.invalid_argument(
        f"TensorArray dtype is {kind.name} but Op is trying to write dtype {given.name}. Use tf.cast, or declare "
        "the dtype (fn_output_signature of tf.map_fn)."
    )


class TensorArray:
    """A list of tensors of one dtype. Methods that change it also return it, as graph code expects.

    >>> ta = tf.TensorArray("float32", size=2)
    >>> ta = ta.write(0, 1.0).write(1, 2.0)
    >>> ta.stack().numpy().tolist()
    [1.0, 2.0]

    >>> rows = tf.TensorArray("float32", 0, dynamic_size=True, clear_after_read=False)
    >>> rows = rows.unstack([[1.0, 2.0], [3.0, 4.0]])
    >>> rows.read(1).numpy().tolist()
    [3.0, 4.0]
    >>> rows.size().numpy().item()
    2
    >>> rows.dtype, rows.element_shape, rows.dynamic_size
    (tf.float32, TensorShape([2]), True)
    >>> rows.gather([1, 0]).numpy().tolist()
    [[3.0, 4.0], [1.0, 2.0]]
    >>> rows.concat().numpy().tolist()
    [1.0, 2.0, 3.0, 4.0]
    >>> parts = tf.TensorArray("int32", size=2, infer_shape=False).split([1, 2, 3], lengths=[1, 2])
    >>> parts.read(1).numpy().tolist()
    [2, 3]
    >>> tf.TensorArray("int32", size=3).scatter([2, 0, 1], [7, 8, 9]).stack().numpy().tolist()
    [8, 9, 7]
    >>> rows.identity().read(0).numpy().tolist()
    [1.0, 2.0]
    >>> rows.close()
    """

    def __init__(
        self,
        dtype: Any,
        size: Any = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: str | None = None,
        handle: Any = None,
        flow: Any = None,
        infer_shape: bool = True,
        element_shape: Any = None,
        colocate_with_first_write_call: bool = True,
        name: str | None = None,
    ) -> None:
        if size is None:
            raise ValueError("Size must be declared for TensorArrays when eager execution is enabled.")
        self._dtype = as_dtype(dtype)
        self._dynamic_size = truth(dynamic_size)
        self._clears = clear_after_read is None or truth(clear_after_read)
        self._infer_shape = infer_shape
        self._element_shape = TensorShape(element_shape)
        self._size = _length(size)  # initially; a dimension if only the program knows it
        self._tensors: list[Any] = [] if is_dimension(self._size) else [None] * self._size
        # All elements, once only the program knows an index: one tensor or, for different shapes, two.
        self._whole: Tensor | None = None
        self._ragged: RaggedElements | None = None
        self._rank: int | None = None  # of the elements, once one was written

    # -- properties -------------------------------------------------------------------------------------------------
    @property
    def dtype(self) -> DType:
        """The dtype of every element."""
        return self._dtype

    @property
    def dynamic_size(self) -> bool:
        """Whether writing past the end extends the array."""
        return self._dynamic_size

    @property
    def element_shape(self) -> TensorShape:
        """The shape of an element, which may be partially known."""
        return self._element_shape

    @property
    def flow(self) -> Tensor:
        """None: graphs use it to order reads and writes, and eager code needs no order.

        >>> int(tf.size(tf.TensorArray("float32", size=1).flow))
        1
        """
        return wrap(np.asarray(0, np.int32))

    @property
    def handle(self) -> None:
        """None: graphs use it as a name for the storage.

        >>> tf.TensorArray("float32", size=1).handle is None
        True
        """
        return None

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of elements."""
        known: Any = len(self._tensors)
        if self._ragged is not None:
            known = self._ragged.size
        elif self._whole is not None:
            known = self._whole.array.shape[0]
        elif is_dimension(self._size):
            known = self._size
        return convert(wrap(sizes_of((known,), np.dtype(np.int32)))[0])

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        return f"<tf.TensorArray: size={len(self)}, dtype={self._dtype.name}, element_shape={self._element_shape}>"

    # -- one element -------------------------------------------------------------------------------------------------
    def read(self, index: Any, name: str | None = None) -> Tensor:
        """Return the element at an index, which is cleared unless `clear_after_read` is False."""
        if self._is_whole(index) and self._is_ragged:
            ragged = self._apart()
            return ragged.read(checked(_ELEMENTS, _number(index), size=ragged.size, verb="access"))
        if self._is_whole(index):
            whole = self._together(reading=True)
            where = checked(_ELEMENTS, _number(index), size=whole.array.shape[0], verb="access")
            row: Tensor = ops_index.take(whole, where, axis=0, batch_dims=0)
            return row
        at = _place(index)
        if at < 0:
            raise errors.OutOfRangeError(None, None, f"Reading from negative indices (index {at}) is not allowed.")
        if at >= len(self):
            raise errors.OutOfRangeError(None, None, f"Tried to read from index {at} but array size is: {len(self)}")
        found = self._tensors[at]
        if _is_cleared(found):
            raise errors.invalid_argument(
                f"Could not read index {at} twice because it was cleared after a previous read (perhaps try setting "
                "clear_after_read = false?)"
            )
        tensor: Tensor = self._zeros() if found is None else found
        if self._clears:
            # A trace keeps the tensor: a later read at an index that only the program knows may be of other elements.
            self._tensors[at] = _CLEARED if current_graph() is None else _Cleared(tensor)
        return tensor

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        """Write a value at an index."""
        tensor = self._accepted(value)
        if self._is_whole(index) and self._is_ragged:
            new, ragged, at = self._copy(), self._apart(), _number(index)
            ragged = ragged.extended(at) if self._dynamic_size else ragged
            new._ragged = ragged.write(checked(_ELEMENTS, at, size=ragged.size, verb="modify"), tensor)
            return new
        if self._is_whole(index):
            new, whole, at = self._copy(), self._together(), _number(index)
            if self._dynamic_size:
                whole = extended(whole, at)
            at = checked(_ELEMENTS, at, size=whole.array.shape[0], verb="modify")
            where = array.reshape(at, shape=(1, 1))
            row = array.reshape(tensor, shape=(1, *tensor.array.shape))
            new._whole = ops_index.replace_nd(whole, row, where)
            return new
        new = self if current_graph() is None else self._copy()  # a branch must not change the array of the others
        new._put(_place(index), tensor)
        return new

    # -- several elements --------------------------------------------------------------------------------------------
    def stack(self, name: str | None = None) -> Tensor:
        """Stack all elements along a new first axis."""
        if self._ragged is not None:
            return self._ragged.stack()
        if self._whole is not None:
            return self._whole
        if not self._tensors:
            size = self._size if is_dimension(self._size) else 0
            return wrap(zeros((size, *self._known_shape()), self._dtype.numpy_dtype))
        return stack(self._all())

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """Write the slices of a tensor along its first axis."""
        given = self._converted(value, strict=True)
        if not given.array.shape:
            raise ValueError(f"Cannot unstack a scalar into a TensorArray: {value!r}")
        if is_dimension(given.array.shape[0]) or is_dimension(self._size):
            return self._taken_over(given)
        tensors = list(array.unstack(given, axis=0))
        if len(tensors) > len(self) and not self._dynamic_size:
            if current_graph() is not None:
                raise errors.refused_value(
                    f"Operation expected a list with {len(self)} elements but got a list with {len(tensors)} elements."
                )
            raise ValueError(f"Cannot unstack {len(tensors)} tensors into a TensorArray of static size {len(self)}")
        if not tensors and self._infer_shape and current_graph() is not None:  # a loop that never runs reads it
            self._element_shape = self._element_shape.merge_with(given.shape[1:])
        self._tensors = [self._accepted(t) for t in tensors]
        return self

    def _taken_over(self, rows: Tensor) -> TensorArray:
        """The array with these elements, whose number only the program knows."""
        count = rows.array.shape[0]
        if not self._dynamic_size and not is_same(count, self._size):
            raise errors.refused_value(
                f"Operation expected a list with {self._size} elements but got a list with {count} elements."
            )
        self._accepted(rows[0])
        new = self._copy()
        new._whole = rows
        return new

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """Return the elements at the given indices, stacked along a new first axis."""
        where = _listed(indices)
        if current_graph() is None:
            return gather(self.stack(), where)
        whole = self._together()
        places = checked(_GATHERED, _number(where), size=whole.array.shape[0])
        rows: Tensor = ops_index.take(array.identity(whole), places, axis=0, batch_dims=0)
        return rows

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> TensorArray:
        """Write the slices of a tensor at the given indices."""
        given, where = self._converted(value, strict=True), _listed(indices)
        if not given.array.shape:
            raise ValueError(f"Cannot unstack a scalar into a TensorArray: {value!r}")
        if current_graph() is not None and not self._dynamic_size:
            return self._scattered(_number(where), given)
        places, rows = shape_of(where), list(array.unstack(given, axis=0))
        if len(places) != len(rows):
            raise ValueError(f"Expected as many values as indices: {len(rows)} rows for {len(places)} indices.")
        for at, tensor in zip(places, rows, strict=True):
            self._put(at, self._accepted(tensor))
        return self

    def _scattered(self, indices: Tensor, value: Tensor) -> TensorArray:
        """A new array with slices of a tensor at indices that the program checks."""
        self._accepted(value[0])
        new, whole = self._copy(), self._together()
        where = checked(_SCATTERED, indices, size=whole.array.shape[0])
        new._whole = ops_index.replace_nd(whole, value, array.reshape(where, shape=(*where.array.shape, 1)))
        return new

    def concat(self, name: str | None = None) -> Tensor:
        """Concatenate the elements along their first axis."""
        if self._ragged is not None:
            return self._ragged.concat()
        if self._whole is not None:
            count, length, *rest = self._whole.array.shape
            joined: Tensor = array.reshape(self._whole, shape=(count * length, *rest))
            return joined
        return concat(self._all(), 0)

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        """Write pieces of a tensor, with the given lengths along its first axis."""
        tensor, sizes = self._converted(value), shape_of(lengths)
        have = tuple(tensor.array.shape)
        if sum(sizes) != have[0]:
            raise errors.invalid_argument(
                f"Expected sum of lengths to be equal to values.shape[0], but sum of lengths is {sum(sizes)} and "
                f"value's shape is: {errors.brackets(have)}"
            )
        if len(sizes) > len(self) and not self._dynamic_size:
            raise errors.invalid_argument(
                f"TensorArray's size is not equal to the size of lengths ({len(self)} vs. {len(sizes)}), and the "
                "TensorArray is not marked as dynamically resizeable"
            )
        self._tensors = [self._accepted(t) for t in array.split(tensor, sizes=sizes, axis=0)]
        return self

    def elements(self) -> list[Any]:
        """The elements one by one; None for those that were never written."""
        return list(self._tensors) if self._whole is None else list(array.unstack(self._whole, axis=0))

    def identity(self) -> TensorArray:
        """Return a copy of the TensorArray."""
        return self._copy()

    def close(self, name: str | None = None) -> None:
        """Free the elements."""
        self._tensors = []

    def grad(self, source: Any, flow: Any = None, name: str | None = None) -> Any:
        """Raise an error: tapes record reads and writes, so eager code needs no gradient arrays.

        >>> tf.TensorArray("float32", size=1).grad("source")
        Traceback (most recent call last):
            ...
        gradtape.errors.UnimplementedError: TensorArray.grad is not supported when executing eagerly;...
        """
        raise errors.UnimplementedError(
            None,
            None,
            "TensorArray.grad is not supported when executing eagerly; tapes record reads and writes.",
        )

    # -- tracing -----------------------------------------------------------------------------------------------------
    # While tracing, an array that is written to at an index of the program is one tensor, and every write creates a new
    # array, which loops carry like tensors.
    def _is_whole(self, index: Any) -> bool:
        """Whether the array is one tensor, or must be for an index: one that only the program knows, or one out of
        range, which the program rejects when it is reached.
        """
        if self._whole is not None or self._ragged is not None or is_dimension(self._size):
            return True
        if isinstance(index, (Tensor, Variable)) and not is_known(convert(index)):
            return True
        outside = current_graph() is not None and not 0 <= _place(index) < len(self)
        return outside and not self._dynamic_size

    def invariants(self) -> list[TensorShape]:
        """The shapes of its tensors in a loop that writes to it."""
        if self._is_ragged:
            return [TensorShape([None]), TensorShape([None, self._rank])]
        whole = self._together().array.shape
        return [TensorShape([None, *whole[1:]] if self._dynamic_size else whole)]

    def parts(self) -> list[Tensor]:
        """The tensors that represent it in a loop."""
        return list(self._apart()) if self._is_ragged else [self._together()]

    @property
    def _is_ragged(self) -> bool:
        """Whether the shapes of elements may differ, in a program that supports this."""
        if self._ragged is not None:
            return True
        free = not self._infer_shape and self._whole is None and not self._element_shape.is_fully_defined()
        return free and bool(self._rank) and allows_dynamic_shapes()

    def _apart(self) -> RaggedElements:
        """All elements as two tensors."""
        if self._ragged is not None:
            return self._ragged
        assert self._rank is not None
        found = [t.tensor if type(t) is _Cleared else t for t in self._tensors]
        count = self._size if is_dimension(self._size) else len(found)
        return RaggedElements.of(found, count, self._rank, self._dtype.numpy_dtype)

    def _together(self, reading: bool = False) -> Tensor:
        """All elements as one tensor; zeros for those that were never written."""
        if self._whole is not None:
            return self._whole
        if self._dynamic_size and not allows_dynamic_shapes():
            raise only_eager(
                ValueError(
                    "A TensorArray with dynamic_size=True cannot be written to at an index that is known only at "
                    "run time: a compiled program has arrays of fixed size. Set its maximum size, or loop over a "
                    "Python range."
                )
            )
        if reading and any(type(t) is _Cleared for t in self._tensors):
            return stack([t.tensor if type(t) is _Cleared else t for t in self._tensors])
        return self.stack()

    # -- within ------------------------------------------------------------------------------------------------------
    def _copy(self) -> TensorArray:
        new = TensorArray(
            self._dtype,
            0,
            self._dynamic_size,
            self._clears,
            infer_shape=self._infer_shape,
            element_shape=self._element_shape,
        )
        new._tensors, new._whole = list(self._tensors), self._whole
        new._ragged, new._rank, new._size = self._ragged, self._rank, self._size
        return new

    def _converted(self, value: Any, strict: bool = False) -> Tensor:
        tensor = convert(value) if is_library(value) else convert(value, dtype_hint=self._dtype)
        if tensor.dtype != self._dtype:
            if strict and is_library(value):
                raise ValueError(
                    f"Tensor conversion requested dtype {self._dtype.name} for Tensor with dtype {tensor.dtype.name}: "
                    f"{tensor!r}"
                )
            if strict:
                raise cannot_convert(value, self._dtype)
            raise wrong_dtype(self._dtype, tensor.dtype)
        return tensor

    def _accepted(self, value: Any) -> Tensor:
        """Check the dtype and shape of a new element; the first one determines the shape of all."""
        tensor = self._converted(value)
        if not may_have_shape(tuple(tensor.array.shape), self._element_shape):
            raise ValueError(f"Incompatible shape for value ({tensor.shape}), expected ({self._element_shape})")
        self._rank = len(tensor.array.shape)
        if self._infer_shape or not self._rank:
            self._element_shape = self._element_shape.merge_with(tensor.shape)
        return tensor

    def _put(self, at: int, tensor: Tensor) -> None:
        if at < 0:
            raise errors.OutOfRangeError(None, None, f"Writing to negative indices (index {at}) is not allowed.")
        if at >= len(self):
            if not self._dynamic_size:
                raise errors.OutOfRangeError(
                    None, None, f"Tried to write to index {at} but array is not resizeable and size is: {len(self)}"
                )
            self._tensors += [None] * (at + 1 - len(self))
        self._tensors[at] = tensor

    def _known_shape(self) -> tuple[int, ...]:
        if not self._element_shape.is_fully_defined():
            raise ValueError(
                f"Cannot convert a partially known TensorShape {self._element_shape} to a Tensor. Elements that "
                "were never written count as zeros: pass element_shape, or write every element."
            )
        return tuple(n for n in self._element_shape.as_list() if n is not None)

    def _zeros(self) -> Tensor:
        return wrap(np.zeros(self._known_shape(), self._dtype.numpy_dtype))

    def _all(self) -> list[Tensor]:
        for i, t in enumerate(self._tensors):
            if _is_cleared(t):
                raise errors.invalid_argument(
                    f"Could not read index {i} twice because it was cleared after a previous read (perhaps try setting "
                    "clear_after_read = false?)"
                )
        return [self._zeros() if t is None else t for t in self._tensors]


class _Cleared(NamedTuple):
    """An element that was read while tracing, and must not be read again."""

    tensor: Tensor


def _is_cleared(element: Any) -> bool:
    return element is _CLEARED or type(element) is _Cleared


def _length(size: Any) -> int:
    if size is None:
        raise ValueError("The argument 'size' of a TensorArray must be given.")
    found = extent(size, "size", "TensorArray")
    if not is_dimension(found) and found >= 2**31:
        raise ValueError(f"The argument 'size' of a TensorArray is too large: {found}")
    return found


def _listed(indices: Any) -> Any:
    """Indices of elements: a vector of integers."""
    found = operand(indices) if is_library(indices) else indices
    if not isinstance(found, (Tensor, list, tuple, range, np.ndarray)):
        raise TypeError(f"Expected a vector of integers for argument 'indices', but got {indices!r}.")
    tensor = operand(found)
    if len(tensor.array.shape) != 1 or not (tensor.dtype.is_integer or 0 in tensor.array.shape):
        raise TypeError(f"Expected a vector of integers for argument 'indices', but got {indices!r}.")
    return found if 0 not in tensor.array.shape else np.zeros(0, np.int32)


def _place(index: Any) -> int:
    """The position of an element; numbers too large for any array are out of range."""
    try:
        return extent(index, "index", "TensorArray")
    except OverflowError:
        raise errors.OutOfRangeError(
            None, None, f"Tried to use index {index}, which is out of range for any array."
        ) from None


def _number(index: Any) -> Tensor:
    return convert(index)


def _no_element(at: Any, size: int, verb: str) -> Exception:
    bad = at.reshape(-1)[((at < 0) | (at >= size)).reshape(-1)][0]
    return errors.invalid_argument(f"Trying to {verb} element {bad} in a list with {size} elements.")


def _not_gathered(indices: Any, size: int) -> Exception:
    bad = indices[(indices < 0) | (indices >= size)][0]
    return errors.invalid_argument(f"Index {bad} out o range; list only has {size} elements.")  # TensorFlow's spelling


def _not_scattered(indices: Any, size: int) -> Exception:
    if indices.min() < 0:
        return errors.invalid_argument(f"Trying to scatter index {indices.min()} into a list with {size} elements.")
    sentence = f"Operation expected a list with {size} elements but got a list with {indices.max() + 1} elements."
    return errors.invalid_argument(sentence)


_ELEMENTS = ops_index.WITHIN._replace(error=_no_element)
_GATHERED = ops_index.WITHIN._replace(error=_not_gathered)
_SCATTERED = ops_index.WITHIN._replace(error=_not_scattered)


def _rebuilt(template: TensorArray, parts: list[Any]) -> TensorArray:
    new = template._copy()
    if len(parts) == 2:
        new._ragged, new._rank = RaggedElements(*parts), parts[1].array.shape[1]
    else:
        new._whole = parts[0]
    return new


nest.register_composite(TensorArray, TensorArray.parts, _rebuilt)
