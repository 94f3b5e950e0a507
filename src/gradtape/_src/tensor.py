"""Tensor: an array with an identity that tapes can track.

The type of its array decides the engine (`arrays/`); its identity is `uid`, a number that is never reused. A tensor
does not refer to tapes, and tapes keep only the tensors that they need, so there are no reference cycles.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy import ndarray

from gradtape._src import errors, memory
from gradtape._src.active import active_stack, report_escape
from gradtape._src.buffers import exports_buffers
from gradtape._src.devices import CPU, device_name, mesh_of, readable, to_cpu, to_gpu
from gradtape._src.dtypes import DType, dtype_of
from gradtape._src.interrupts import setting
from gradtape._src.shape import TensorShape, known_shape
from gradtape._src.uids import CONSTANT as CONSTANT, next_uid as next_uid, uids as uids

if TYPE_CHECKING:
    from gradtape._src.typing import Operators
else:
    Operators = object

Array: TypeAlias = Any
"""A value of some engine: `numpy.ndarray`, `jax.Array`, `Batched`."""

_NUMPY_STYLE = frozenset({"T", "size", "astype", "reshape", "ravel", "tolist", "clip", "data", "transpose"})
_GRAPH_ONLY: dict[str, Callable[[Any, Any], Any]] = {
    "name": lambda graph, symbol: graph.name_of(symbol),
    "graph": lambda graph, symbol: graph,
    "op": lambda graph, symbol: graph.operation_of(symbol),
    "value_index": lambda graph, symbol: int(graph.name_of(symbol).rpartition(":")[2]),
    "consumers": lambda graph, symbol: lambda: graph.consumers(symbol),
}
"""Attributes that only tensors of a graph have, as functions of the graph and the value."""
_ABSENT = _NUMPY_STYLE | frozenset(_GRAPH_ONLY)


def _autograph_advice() -> str:
    import importlib.util

    if importlib.util.find_spec("malt") is not None:
        return ""
    return f" AutoGraph is not installed: {errors.install('xla')}."


class Reference:
    """A hashable stand-in for a tensor or variable, equal only to references to the same object.

    >>> import gradtape as tf
    >>> x = tf.constant(1.0)
    >>> {x.ref(): "x"}[x.ref()]
    'x'
    """

    __slots__ = ("_wrapped",)

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped

    def deref(self) -> Any:
        """The object that this reference refers to."""
        return self._wrapped

    def _other(self, other: object) -> Any:
        """The object of another reference."""
        if not isinstance(other, Reference):
            raise TypeError(f"Cannot compare wrapped object with unwrapped object. Received {type(other).__name__}.")
        return other._wrapped

    def __eq__(self, other: object) -> bool:
        return self._wrapped is self._other(other)

    def __lt__(self, other: object) -> bool:
        """References are ordered, so that they can be keys of structures, which are sorted."""
        return id(self._wrapped) < id(self._other(other))

    def __gt__(self, other: object) -> bool:
        return id(self._wrapped) > id(self._other(other))

    def __hash__(self) -> int:
        return id(self._wrapped)

    def __repr__(self) -> str:
        return f"<Reference wrapping {self._wrapped!r}>"


def value_text(array: Any) -> str:
    """A value in a repr, as TensorFlow prints it: `numpy=...`, or the parts and the layout of a value on a mesh."""
    mesh = mesh_of(array)
    return f"numpy={_array_text(np.asarray(array))}" if mesh is None else f"value={mesh.text_of(array)}"


def _array_text(value: ndarray) -> str:
    """An array in a repr: scalars as in Python, several lines start on a new line."""
    return _on_own_lines(repr(value)) if value.ndim else repr(value.item())


def _on_own_lines(text: str) -> str:
    return "\n" + text if "\n" in text else text


def _symbol_name(array: Any) -> str:
    """The name of a symbolic value, from the op that computes it, or the repr of a batch."""
    return array.graph.name_of(array) if hasattr(array, "graph") else repr(array)


class _Absent:
    """An attribute that tensors do not have, with the reason.

    With a `__getattr__`, Python (3.11 at least) would look up all other attributes of the class more slowly, and every
    op reads `array` and `uid` (benchmark: chain).
    """

    __slots__ = ("_reason",)

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __get__(self, tensor: Any, owner: type) -> Any:
        raise AttributeError(self._reason)


class _InGraph(_Absent):
    """An attribute that only tensors of a graph have."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        super().__init__(f"Tensor.{name} is undefined when eager execution is enabled.")
        self._name = name

    def __get__(self, tensor: Any, owner: type) -> Any:
        graph = None if tensor is None else getattr(tensor.array, "graph", None)
        if graph is None or not (self._name in ("name", "graph") or hasattr(graph, "operation_of")):
            return super().__get__(tensor, owner)
        return _GRAPH_ONLY[self._name](graph, tensor.array)


@exports_buffers
class Tensor(Operators):
    """An immutable n-dimensional array that a `GradientTape` can watch.

    Tensors are created by `constant`, `convert_to_tensor` and every op. Calling the class returns an empty tensor: code
    that creates a tensor sets `array` and `uid` (an `__init__` would cost every op a call; benchmark: chain).

    >>> import gradtape as tf
    >>> tf.constant([1.0, 2.0]) * 3
    <tf.Tensor: shape=(2,), dtype=float32, numpy=array([3., 6.], dtype=float32)>
    """

    __slots__ = ("__dict__", "__weakref__", "array", "uid")
    # NumPy's operators defer to ours if the other operand is a tensor.
    __array_priority__ = 100

    array: Array
    uid: int

    # -- properties --------------------------------------------------------------------------------------------------
    @property
    def dtype(self) -> DType:
        return dtype_of(self.array)

    @property
    def shape(self) -> TensorShape:
        array = self.array
        return known_shape(array.shape) if type(array) is ndarray else _static_shape(array.shape)

    @property
    def ndim(self) -> int:
        return len(self.array.shape)

    @property
    def device(self) -> str:
        return device_name(self.array)

    def cpu(self) -> Tensor:
        """Copy this tensor to the CPU.

        >>> tf.constant([1.0, 2.0]).cpu().numpy().tolist()
        [1.0, 2.0]
        """
        return to_cpu(self)

    def gpu(self, gpu_index: int = 0) -> Tensor:
        """Copy this tensor to a GPU.

        >>> tf.constant(1.0).gpu()
        Traceback (most recent call last):
            ...
        gradtape.errors.InvalidArgumentError: Could not satisfy device specification...
        """
        return to_gpu(self, gpu_index)

    def get_shape(self) -> TensorShape:
        """Return the shape, like `tensor.shape`.

        >>> tf.constant([[1, 2, 3]]).get_shape()
        TensorShape([1, 3])
        """
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Check that `shape` is compatible with the tensor's own; the shape of an eager tensor is always known.

        >>> x = tf.constant([[1, 2, 3]])
        >>> x.set_shape([None, 3])
        >>> x.set_shape([2, 3])
        Traceback (most recent call last):
            ...
        ValueError: Tensor's shape (1, 3) is not compatible with supplied shape (2, 3).
        """
        if not self.shape.is_compatible_with(shape):
            raise ValueError(f"Tensor's shape {self.shape} is not compatible with supplied shape {TensorShape(shape)}.")

    def check_operand(self) -> None:
        """Raise an error if an op cannot use the tensor as it is, as with some subclasses."""

    def ref(self) -> Reference:
        """Return a hashable reference to this tensor (tensors are not hashable, because `==` is elementwise).

        >>> x, y = tf.constant(1.0), tf.constant(1.0)
        >>> seen = {x.ref()}
        >>> x.ref() in seen, y.ref() in seen
        (True, False)
        """
        return Reference(self)

    def __hash__(self) -> int:
        raise TypeError("Tensor is unhashable. Instead, use tensor.ref() as the key.")

    # -- conversion to Python and NumPy ------------------------------------------------------------------------------
    def numpy(self) -> ndarray:
        """Return the value as a NumPy array (a copy) or, for a scalar, as a NumPy scalar.

        >>> import gradtape as tf
        >>> tf.constant([1, 2]).numpy().tolist()
        [1, 2]
        """
        if active_stack() is not None:
            report_escape(".numpy()", self.uid)
        value = self.array
        if type(value) is not ndarray and hasattr(value, "graph"):
            raise AttributeError(
                "'SymbolicTensor' object has no attribute 'numpy': it has no value while the function "
                f"'{value.graph.name}' is being traced. Use tf operations, or tf.numpy_function."
            )
        if type(value) is not ndarray:  # others may share its memory with another object
            value = readable(value)
            return memory.copy(value) if value.ndim else value[()]
        if value.nbytes > _HAND_OVER and value.flags.writeable and _references(self, value) in _LAST:
            return value  # `f(x).numpy()`: the tensor is deleted here, so no copy is needed (benchmark: jac)
        return memory.copy(value) if value.ndim else value[()]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> ndarray:
        if active_stack() is not None:
            report_escape("NumPy", self.uid)
        if copy is False:
            raise ValueError("A tensor's memory is never shared, because tensors are immutable: a copy is needed.")
        value = np.array(self.array if type(self.array) is ndarray else readable(self.array))
        return value if dtype is None else value.astype(dtype, copy=False)

    def __buffer__(self, flags: int) -> memoryview:
        """A copy of the values, for `memoryview(tensor)`, `np.frombuffer(tensor)` and other readers of bytes."""
        return memoryview(self._exported())  # type: ignore[arg-type]

    def __release_buffer__(self, view: memoryview) -> None:
        """Do nothing. Its presence tells NumPy that the memory ends with the memoryview, not with the tensor."""

    def _exported(self) -> ndarray:
        if active_stack() is not None:
            report_escape("NumPy", self.uid)
        array = self.array if type(self.array) is ndarray else readable(self.array)
        return np.array(array, order="C")

    def __dlpack__(self, **options: Any) -> Any:
        if active_stack() is not None:
            report_escape("DLPack", self.uid)
        return np.array(self.array).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def _scalar(self, how: str) -> Any:
        if active_stack() is not None:
            report_escape(how, self.uid)
        value = np.asarray(self.array)
        if value.ndim:
            raise TypeError(
                f"only 0-dimensional arrays can be converted to Python scalars, got a tensor of shape {self.shape}"
            )
        return value[()]

    def _number(self, how: str) -> Any:
        value = self._scalar(how)
        if isinstance(value, bytes):  # parse a string as Python does
            try:
                return float(value) if how == "float()" else int(value)
            except ValueError:
                what = (
                    "could not convert string to float"
                    if how == "float()"
                    else "invalid literal for int() with base 10"
                )
                raise ValueError(f"{what}: {value!r}") from None
        return value

    def __bool__(self) -> bool:
        if active_stack() is not None:
            report_escape("bool()", self.uid)
        if type(self.array) is not ndarray and hasattr(self.array, "graph"):
            raise errors.OperatorNotAllowedInGraphError(
                (
                    "Using a symbolic `tf.Tensor` as a Python `bool` is not allowed: it has no value while the "
                    f"function '{self.array.graph.name}' is being traced. Use tf.cond, tf.where or tf.while_loop, or "
                    "let AutoGraph convert the `if`, which needs the source code and autograph=True."
                )
                + _autograph_advice()
            )
        value = np.asarray(self.array)
        if value.size > 1:
            raise ValueError(
                "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all(). "
                f"Received a tensor of shape {self.shape}; use tf.reduce_any or tf.reduce_all."
            )
        return bool(value.size and value.item())

    __nonzero__ = __bool__  # its name in Python 2

    def __float__(self) -> float:
        return float(self._number("float()"))

    def __int__(self) -> int:
        return int(self._number("int()"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex()"))

    def __index__(self) -> int:
        value = self._scalar("an index")
        if not isinstance(value, np.integer):
            raise TypeError(f"only integer scalar tensors can be converted to an index, got {self.dtype!r}")
        return int(value)

    def __len__(self) -> int:
        if not self.array.shape:
            raise TypeError("Scalar tensor has no `len()`")
        if self.shape[0] is None:
            raise TypeError(
                "len is not well defined for a symbolic Tensor whose first dimension is unknown. Use tf.shape(x)[0]."
            )
        return int(self.array.shape[0])

    def __format__(self, spec: str) -> str:
        """The value alone, as NumPy formats it: `f"{loss:.3f}"`, `f"{loss}"`.

        >>> import gradtape as tf
        >>> f"{tf.constant(0.5)}, {tf.constant(0.5):.3f}, {tf.constant([1, 2])}"
        '0.5, 0.500, [1 2]'
        """
        if self._is_symbolic():
            return object.__format__(self, spec)
        if not spec and (mesh := mesh_of(self.array)) is not None:
            return str(mesh.text_of(self.array))
        return np.asarray(self.array).__format__(spec)

    def _is_symbolic(self) -> bool:
        return type(self.array) is not ndarray and (hasattr(self.array, "graph") or hasattr(self.array, "batch_size"))

    def __str__(self) -> str:
        if self._is_symbolic():
            return f'Tensor("{_symbol_name(self.array)}", shape={self.shape}, dtype={self.dtype.name})'
        mesh = mesh_of(self.array)
        text = _on_own_lines(str(np.asarray(self.array)[()])) if mesh is None else mesh.text_of(self.array)
        return f"tf.Tensor({text}, shape={self.shape}, dtype={self.dtype.name})"

    def __repr__(self) -> str:
        if self._is_symbolic():
            return f"<tf.Tensor '{_symbol_name(self.array)}' shape={self.shape} dtype={self.dtype.name}>"
        return f"<tf.Tensor: shape={self.shape}, dtype={self.dtype.name}, {value_text(self.array)}>"

    def _repr_html_(self) -> str:
        from gradtape._src.notebook import card

        return card("tf.Tensor", self.array)

    def __copy__(self) -> Tensor:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restored, (np.array(self.array),))

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in _ABSENT]

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError(
            "'Tensor' object does not support item assignment. Tensors are immutable: use "
            "tf.tensor_scatter_nd_update, tf.where, or a tf.Variable, whose slices have .assign."
        )

    def __round__(self, digits: int | None = None) -> Any:
        raise AttributeError("Tensor has no attribute 'astype': use tf.round, which rounds a tensor.")

    if TYPE_CHECKING:  # attached by ops/operators.py, as `Operators` are

        def __eq__(self, other: object) -> Tensor: ...  # type: ignore[override]
        def __ne__(self, other: object) -> Tensor: ...  # type: ignore[override]
        def __getitem__(self, key: Any) -> Tensor: ...
        def __iter__(self) -> Iterator[Tensor]: ...


for _name in _NUMPY_STYLE:
    _reason = (
        f"Tensor has no attribute '{_name}': tensors are not NumPy arrays. Use a function (tf.transpose, "
        f"tf.reshape, tf.cast, …) or .numpy().{_name}."
    )
    setattr(Tensor, _name, _Absent(_reason))
for _name in _GRAPH_ONLY:
    setattr(Tensor, _name, _InGraph(_name))


_shown: ContextVar[bool] = ContextVar("gradtape_shown", default=False)


def dimensions_shown() -> setting[bool]:
    """Context in which `tensor.shape` contains symbolic dimensions, for computing derivatives with them."""
    return setting(_shown, True)


class LazyTensor(Tensor):
    """A tensor whose array is computed when it is read: a large array that is computed from small ones, such as a
    Jacobian.

    The first op that needs the array computes it; from then on this is an ordinary tensor.
    """

    __slots__ = ()  # the lazy array is in the slot of `array`

    @staticmethod
    def of(lazy: memory.LazyArray) -> Tensor:
        """A new tensor with a lazy array."""
        tensor = LazyTensor()
        tensor_slot.__set__(tensor, lazy)
        tensor.uid = next_uid()
        return tensor

    @property
    def lazy(self) -> memory.LazyArray | None:
        """The lazy array; None after it was computed."""
        array = tensor_slot.__get__(self)
        return array if type(array) is memory.LazyArray else None

    @property
    def array(self) -> Array:
        lazy = self.lazy
        if lazy is not None:
            tensor_slot.__set__(self, lazy.write())
            self.__class__ = Tensor  # type: ignore[assignment]
        return tensor_slot.__get__(self)

    @property
    def dtype(self) -> DType:
        return dtype_of(self.lazy or self.array)

    @property
    def shape(self) -> TensorShape:
        return known_shape((self.lazy or self.array).shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def device(self) -> str:
        return CPU.name

    def numpy(self) -> ndarray:
        lazy = self.lazy
        if lazy is None:  # another thread has computed it, and changed the class
            return Tensor.numpy(self)
        if active_stack() is not None:
            report_escape(".numpy()", self.uid)
        return lazy.write()


tensor_slot: Any = Tensor.__dict__["array"]
"""The slot with a tensor's array; subclasses with another `array` keep there what they compute it from."""


def _static_shape(shape: tuple[Any, ...]) -> TensorShape:
    """A shape while a function is traced: None for unknown dimensions."""
    if _shown.get():
        return known_shape(tuple(shape))
    return known_shape(tuple([n if isinstance(n, (int, np.integer)) else None for n in shape]))  # type: ignore[misc]


# -- returning an array instead of a copy ------------------------------------------------------------------------------
_HAND_OVER = 2**16
"""The size in bytes from which on it pays to check whether the tensor is about to be deleted."""


def _references(tensor: Any, value: ndarray) -> tuple[int, int, int]:
    """The reference counts of a tensor, its array, and the array that owns the memory, as seen from a method."""
    base = value.base
    owner = 0 if base is None else memory.references(base) if type(base) is ndarray and base.base is None else -1
    return sys.getrefcount(tensor), sys.getrefcount(value), owner


def _calibrated() -> set[tuple[int, int, int]]:
    """The result of `_references` for a tensor that only a method call refers to, if this Python can tell.

    If it cannot (a variable and a temporary value have equal counts, or there are none), every array is copied. From
    Python 3.14 on they are equal: a call borrows the references that a local variable has.
    """
    if not hasattr(sys, "getrefcount"):
        return set()

    class Probe:
        __slots__ = ("array",)

        def __init__(self, array: ndarray) -> None:
            self.array = array

        def numpy(self) -> tuple[int, int, int]:
            value = self.array
            return _references(self, value)

    temporary = {Probe(np.zeros(2)).numpy(), Probe(np.zeros(2)[:]).numpy()}
    named, view, array = Probe(np.zeros(2)), Probe(np.zeros(2)[:]), np.zeros(2)
    methods = [Probe(np.zeros(2)).numpy, Probe(np.zeros(2)[:]).numpy]  # they can be called again
    shared = {named.numpy(), view.numpy(), Probe(array).numpy(), Probe(array[:]).numpy()}
    return temporary - shared - {call() for call in methods}


_LAST = _calibrated()


def _restored(array: Array) -> Tensor:
    """Unpickle a tensor; it gets a new identity."""
    tensor = Tensor()
    tensor.array, tensor.uid = array, next_uid()
    return tensor


def is_differentiable(array: Array) -> bool:
    """Whether derivatives exist for this dtype: floating-point and complex, including those of ml_dtypes."""
    kind = array.dtype.kind
    return kind == "f" or kind == "c" or (kind == "V" and dtype_of(array).is_floating)
