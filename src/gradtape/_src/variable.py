"""Variable: a tensor that changes. Reading it is what tapes see."""

from __future__ import annotations

import _thread
import os
import sys
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from gradtape._src import errors, forks
from gradtape._src.arrays import common_namespace, namespace_of
from gradtape._src.arrays.batched import Batched, EscapeError
from gradtape._src.arrays.seeds import seeds
from gradtape._src.arrays.symbolic import Graph, Symbolic, VariableState, current_graph, only_eager, tracing
from gradtape._src.conversion import array_from, convert, operand, placed, register_converter
from gradtape._src.core.tape import active_recorders, active_stack, add_unrecorded_read, open_tapes
from gradtape._src.dtypes import DType, as_dtype, dtype_of
from gradtape._src.indexed_slices import IndexedSlices
from gradtape._src.interrupts import setting
from gradtape._src.ops import array, index, operators
from gradtape._src.ops.indexing import checked_index, get_item
from gradtape._src.shape import TensorShape
from gradtape._src.tensor import Reference, Tensor, array_text, next_uid

name_prefix: ContextVar[str] = ContextVar("gradtape_name_scope", default="")
"""What `name_scope` puts in front of the names of variables, for each thread and task."""


holders: dict[type, Callable[[Any], Variable]] = {}
"""How to reach the variable that an object of another library (Keras') keeps its value in."""


def held(value: Any) -> Any:
    """The variable behind a value of another library's class that holds one; any other value as it is."""
    find = holders.get(type(value))
    return value if find is None else find(value)


class Creations:
    """The variables that a tf.function creates: they belong to its first trace, `refuse` raises later on."""

    def __init__(self, refuse: Callable[[], None] | None = None) -> None:
        self.refuse = refuse
        self.created: list[weakref.ref[Variable]] = []


_creations: ContextVar[Creations | None] = ContextVar("gradtape_creations", default=None)


def creating(creations: Creations) -> setting[Creations | None]:
    """Within the block, and in init_scope there, variables belong to a tf.function."""
    return setting(_creations, creations)


waiting: list[Callable[[], None]] = []
"""Restored checkpoints that have values for variables which do not exist yet: they look again when called."""


class VariableSynchronization(Enum):
    """When replicas of a variable are brought together."""

    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3


class VariableAggregation(Enum):
    """How replicas of a variable are brought together."""

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3


class Variable:
    """A tensor that can be assigned to, and that tapes watch by themselves while it is trainable.

    All readings share the variable's own identity, so that a gradient with respect to the variable adds up every
    reading, before and after assignments.

    >>> import gradtape as tf
    >>> v = tf.Variable([1.0, 2.0], name="v")
    >>> v.assign_add([1.0, 1.0])
    <tf.Variable 'UnreadVariable' shape=(2,) dtype=float32, numpy=array([2., 3.], dtype=float32)>
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_aggregation",
        "_buffer",
        "_constraint",
        "_declared_shape",
        "_held",
        "_lent",
        "_name",
        "_synchronization",
        "_trainable",
        "uid",
    )
    __array_priority__ = 100

    _held: Tensor | None
    _buffer: Any
    _home: Graph | None = None  # the graph of which it is a local variable (experimental_enable_variable_lifting=False)
    uid: int

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool | None = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        variable_def: Any = None,
        dtype: Any = None,
        import_scope: Any = None,
        constraint: Callable[[Any], Any] | None = None,
        synchronization: VariableSynchronization = VariableSynchronization.AUTO,
        aggregation: VariableAggregation = VariableAggregation.NONE,
        shape: Any = None,
        experimental_enable_variable_lifting: bool = True,
    ) -> None:
        if initial_value is None:
            raise ValueError(
                "The `initial_value` arg to `tf.Variable` must be specified except when you are not providing a "
                "`variable_def`. You provided neither."
            )
        if name is not None and not isinstance(name, str):
            raise ValueError(f"The `name` of a tf.Variable must be a string. Received {name!r}.")
        if constraint is not None and not callable(constraint):
            raise ValueError(f"The `constraint` must be a callable. Received {constraint!r}.")
        graph, creations = current_graph(), _creations.get()
        local = graph is not None and not experimental_enable_variable_lifting
        if creations is not None and creations.refuse is not None and not local:
            creations.refuse()
        if local:
            value = _local_array(initial_value, dtype)
        else:
            with tracing(None):  # a variable outlives the function that creates it
                if callable(initial_value) and not isinstance(initial_value, Variable):
                    initial_value = initial_value()
                value = _initial_array(initial_value, dtype, graph)
        declared = TensorShape(value.shape) if shape is None else TensorShape(shape)
        if not declared.is_compatible_with(value.shape):
            raise ValueError(
                f"In this `tf.Variable` creation, the initial value's shape ({tuple(value.shape)}) is not compatible "
                f"with the explicitly supplied `shape` argument ({shape})."
            )
        self.uid = next_uid()
        self._name = f"{name_prefix.get()}{name or 'Variable'}:0"
        self._trainable = (
            _truth(trainable) if trainable is not None else synchronization is not VariableSynchronization.ON_READ
        )
        self._constraint, self._synchronization, self._aggregation = constraint, synchronization, aggregation
        self._declared_shape = declared
        self._held = self._reading(value)
        self._buffer, self._lent = None, False
        if waiting and type(value) is ndarray:  # when it is first read it has found its place: see `_fetch`
            self._held, self._buffer, self._lent = None, value, True
        if local:
            assert graph is not None
            self._held, self._buffer, self._home = None, value, graph
            graph.variables[self.uid] = VariableState(self, self._reading(value))
        elif creations is not None:
            creations.created.append(weakref.ref(self))
        if isinstance(initial_value, (Tensor, Variable)):
            for recorder in active_recorders():
                recorder.on_escape("assign", initial_value.uid, self.uid)

    def _reading(self, value: Any) -> Tensor:
        """A tensor with this variable's identity: what ops on the variable take and tapes record."""
        tensor = Tensor()
        tensor.array = value
        tensor.uid = self.uid
        return tensor

    # -- storage -----------------------------------------------------------------------------------------------------
    # Eager code holds a variable as a tensor; a compiled program leaves its value in `_buffer`, and gets it back from
    # there with leave to write into it. Whichever is newer is there, the other is None or a copy.
    @property
    def _tensor(self) -> Tensor:
        """The current reading: of the storage or, while a function is traced, of the program in the making."""
        graph = current_graph()
        if graph is not None:
            return self._within(graph).reading
        held = self._held
        return held if held is not None else self._fetch()

    @_tensor.setter
    def _tensor(self, tensor: Tensor) -> None:
        graph = current_graph()
        if graph is not None:
            state = self._within(graph)
            state.reading, state.assigned = tensor, True
        else:
            with updating():
                self._held, self._buffer = tensor, None

    def _within(self, graph: Graph) -> VariableState:
        """The state of this variable in a graph, to which it is an input from now on."""
        if self.uid in graph.passed and type(self) is not VariableParam:
            graph.shared.add(self.uid)  # an argument, which the code reaches in another way
        state = graph.variables.get(self.uid)
        if state is None:
            self._check_scope(graph)
            if graph.outer is not None:  # a branch or a loop: it begins with what the variable is outside
                symbol = graph.input("array", self._within(graph.outer).reading.array)
            else:
                symbol = graph.input("variable", self, self._spec(graph.first))
            state = graph.variables[self.uid] = VariableState(self, self._reading(symbol))
        return state

    def _check_scope(self, graph: Graph | None) -> None:
        """A local variable is nothing outside of its program, and some variables are not for programs."""
        if self._home is not None:
            if graph is None or not graph.reaches(self._home):
                raise TypeError(
                    f"{self.name} is out of scope and cannot be used here. Use return values, explicit Python locals "
                    f"or TensorFlow collections to access it: it was created while tracing '{self._home.name}', with "
                    "experimental_enable_variable_lifting=False, and every call of the function has its own."
                )
            return
        if graph is None or graph.outer is not None or type(self) is VariableParam:
            return
        if self.dtype.name == "string":
            raise only_eager(TypeError(f"'{self.name}' holds strings, and XLA has numbers only."))
        if not self._declared_shape.is_fully_defined():
            raise only_eager(
                ValueError(
                    f"'{self.name}' may change its shape, which is {self._declared_shape}, and a compiled program has "
                    "fixed shapes. Declare its shape, or pass it to the function as an argument."
                )
            )

    def _spec(self, graph: Graph | None) -> Any:
        """Something with the shape and dtype of the value at this point of a trace."""
        while graph is not None:
            state = graph.variables.get(self.uid)
            if state is not None:
                return state.reading.array
            graph = graph.outer or graph.first
        held = self._held
        value = self._buffer if held is None else held.array
        if value is None:  # another thread has taken one away and will put the other in place
            with updating():
                return self._buffer if self._held is None else self._held.array
        return value

    def _fetch(self) -> Tensor:
        """What a compiled program left behind, for eager code: a copy, because the next program writes there."""
        with updating():
            if self._held is not None:  # another thread was faster
                return self._held
            self._check_scope(None)
            value = self._buffer
            if type(value) is ndarray:  # made while a checkpoint waits for variables, perhaps for this one
                self._tensor = self._reading(value)
                for look in tuple(waiting):
                    look()
                return self._tensor
            if value.is_deleted():
                raise errors.FailedPreconditionError(
                    None,
                    None,
                    f"Variable '{self.name}' cannot be read here: Python that a compiled function calls back reads it "
                    "while the function writes to it. Pass its value to that Python as an argument.",
                )
            if on_host(value):
                value = np.array(value)
            else:
                self._lent = True  # the reading and the buffer are one: the next program has to copy
            self._held = tensor = self._reading(value)
            return tensor

    def _lend(self, keep: bool) -> Any:
        """The value for a compiled program; unless it is to be kept, the program may write into it."""
        buffer = self._buffer
        if buffer is None or type(buffer) is ndarray:
            value = self._tensor.array
            return value if keep or type(value) is ndarray else value.copy()
        if keep:
            self._lent = True
        elif self._lent:
            return buffer.copy()
        return buffer

    # -- reading -----------------------------------------------------------------------------------------------------
    def read(self) -> Tensor:
        """The current reading, for ops: tapes that watch what is accessed notice it."""
        recorders = active_stack()
        if recorders is not None:
            while recorders is not None:
                tracked, _, recorder, recorders = recorders
                if self.uid not in tracked:
                    recorder.on_read(self)
        elif open_tapes:
            add_unrecorded_read(self)
        tensor = self._held
        return tensor if tensor is not None and current_graph() is None else self._tensor

    def notice_reading(self) -> None:
        """Let tapes that watch what is accessed know that a compiled program reads it."""
        for recorder in active_recorders():
            if self.uid not in recorder.tracked:
                recorder.on_read(self)

    def value(self) -> Tensor:
        """The current value, as a tensor of its own that later assignments do not change."""
        result: Tensor = array.identity(self.read())
        return result

    def read_value(self) -> Tensor:
        """The current value, as a tensor of its own that later assignments do not change."""
        return self.value()

    def numpy(self) -> Any:
        """The current value as a NumPy array (a copy)."""
        return self.read().numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> ndarray:
        return self.read().__array__(dtype, copy)

    @property
    def dtype(self) -> DType:
        return dtype_of(self._spec(None))

    @property
    def shape(self) -> TensorShape:
        return self._declared_shape

    @property
    def name(self) -> str:
        return self._name

    @property
    def trainable(self) -> bool:
        return self._trainable

    @property
    def constraint(self) -> Callable[[Any], Any] | None:
        return self._constraint

    @property
    def synchronization(self) -> VariableSynchronization:
        return self._synchronization

    @property
    def aggregation(self) -> VariableAggregation:
        return self._aggregation

    @property
    def device(self) -> str:
        return self._tensor.device

    @property
    def handle(self) -> Reference:
        """The identity of the variable's storage."""
        return Reference(self)

    @property
    def ndim(self) -> int:
        return self._tensor.ndim

    @property
    def initial_value(self) -> Any:
        raise RuntimeError("This property is not supported when eager execution is enabled.")

    def get_shape(self) -> TensorShape:
        """The shape, as `variable.shape`."""
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Merge more knowledge into the declared shape."""
        self._declared_shape = self._declared_shape.merge_with(shape)

    def is_initialized(self, name: str | None = None) -> Tensor:
        """Always true: a variable is created with its value."""
        return convert(True)

    def ref(self) -> Reference:
        """A hashable reference to this very variable."""
        return Reference(self)

    def __hash__(self) -> int:
        raise TypeError(f"Variable is unhashable. Instead, use variable.ref() as the key. (Variable: {self!r})")

    def __bool__(self) -> bool:
        return bool(self.read())

    def __float__(self) -> float:
        return float(self.read())

    def __int__(self) -> int:
        return int(self.read())

    def __complex__(self) -> complex:
        return complex(self.read())

    def _repr_html_(self) -> str:
        """The variable in a notebook; looking at it does not count as reading it."""
        from html import escape

        from gradtape._src.notebook import card

        fixed = "" if self.trainable else ", not trainable"
        return card(f"tf.Variable {escape(repr(self.name.removesuffix(':0')))}{fixed}", self._tensor.array)

    def __repr__(self) -> str:
        if current_graph() is not None:
            return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}>"
        value = np.asarray(self.read().array)
        text = array_text(value)
        return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}, numpy={text}>"

    def __copy__(self) -> Variable:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Variable:
        twin = _unpickle(*self.__reduce__()[1])
        memo[id(self)] = twin
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        facts = (
            np.array(self._tensor.array),
            self._name,
            self._trainable,
            self._declared_shape,
            self._constraint,
            self._synchronization,
            self._aggregation,
        )
        return (_unpickle, facts)

    # -- assigning ---------------------------------------------------------------------------------------------------
    def assign(self, value: Any, use_locking: Any = None, name: str | None = None, read_value: bool = True) -> Any:
        """Replace the value.

        >>> import gradtape as tf
        >>> v = tf.Variable(1.0)
        >>> float(v.assign(5.0))
        5.0
        """
        new = self._incoming(value)
        if not self._declared_shape.is_compatible_with(new.shape):
            sentence = (
                f"Cannot assign value to variable ' {self.name}': Shape mismatch.The variable shape {self.shape}, and "
                f"the assigned value shape {tuple(new.shape)} are incompatible."
            )
            # While a function is traced: a ValueError, or where shapes are not known an error of the run.
            raise ValueError(sentence) if current_graph() is None else errors.invalid_argument(sentence)
        return self._put(new, read_value, value)

    def assign_add(self, delta: Any, use_locking: Any = None, name: str | None = None, read_value: bool = True) -> Any:
        """Add to the value."""
        return self._update(np.add, delta, "AssignAddVariableOp", read_value)

    def assign_sub(self, delta: Any, use_locking: Any = None, name: str | None = None, read_value: bool = True) -> Any:
        """Subtract from the value."""
        return self._update(np.subtract, delta, "AssignSubVariableOp", read_value)

    def _incoming(self, value: Any) -> Any:
        """A value that is to be stored: of the variable's dtype, in an array that nobody will write to."""
        held = self._tensor.array
        if type(value) is Tensor:
            new = value.array
            if type(new) is ndarray is type(held) and new.dtype is held.dtype:
                return new  # the common case, at once (benchmark: mlp32)
            if type(new) is Batched:
                raise EscapeError("a variable holds one value, and cannot be assigned a batch of them")
        if type(value) is Tensor and value.array.dtype is held.dtype:
            new = value.array
        elif type(value) is Tensor or not isinstance(value, (ndarray, np.generic, int, float)):
            new = convert(value, self.dtype).array
        else:
            new = array_from(value, self.dtype)
        if type(held) is ndarray is type(new) or Symbolic in (type(held), type(new)):
            return new
        return namespace_of(held).alongside(new, held)  # a variable stays on its device

    def _update(self, how: np.ufunc, delta: Any, op: str, read_value: bool) -> Any:
        change = delta.array if type(delta) is Tensor else self._incoming(delta)
        tensor = self._held
        if tensor is not None and current_graph() is None:
            value = tensor.array
            if (
                type(value) is ndarray is type(change)
                and value.dtype is change.dtype
                and value.shape == change.shape
                and _is_ours(value, tensor)
            ):  # no reading of the old value is left: reuse its memory. There is no other thread to keep out.
                self._buffer = None  # what a compiled program left is older from now on, also if a signal comes next
                how(value, change, value)
                if active_stack() is not None:
                    self._notice(delta)
                return _view_of(self) if read_value else None
        if type(delta) is Tensor:
            change = self._incoming(delta)
        with updating():
            value = self._tensor.array
            if change.shape != value.shape:
                raise errors.invalid_argument(
                    f"Cannot update variable with shape {errors.brackets(value.shape)} using a Tensor with shape "
                    f"{errors.brackets(change.shape)}, shapes must be equal.",
                    op,
                )
            kernel = getattr(common_namespace((value, change)), how.__name__)
            return self._put(solid(kernel(value, change)), read_value, delta)

    def _put(self, value: Any, read_value: bool, given: Any = None) -> Any:
        self._tensor = self._reading(value)
        self._notice(given)
        return _view_of(self) if read_value else None

    def _notice(self, value: Any = None) -> None:
        for recorder in active_recorders():  # an assignment counts as an access, as in TensorFlow
            if self.uid not in recorder.tracked:
                recorder.on_read(self)
            if isinstance(value, (Tensor, Variable)):
                recorder.on_escape("assign", value.uid, self.uid)

    # -- slices ------------------------------------------------------------------------------------------------------
    def __getitem__(self, key: Any) -> Any:
        return _slice_of(self, key)

    def sparse_read(self, indices: Any, name: str | None = None) -> Tensor:
        """Rows of the variable, with a sparse gradient."""
        result: Tensor = index.checked_take(self.read(), _places(indices, "ResourceGather"))
        return result

    def gather_nd(self, indices: Any, name: str | None = None) -> Tensor:
        """Elements or slices at coordinates."""
        where = _places(indices, "ResourceGatherNd")
        if not where.array.shape:
            raise errors.invalid_argument("indices must be at least a vector", "ResourceGatherNd")
        result: Tensor = index.checked_gather_nd(self.read(), where)
        return result

    def _scatter(self, delta: Any, how: str) -> Any:
        if not isinstance(delta, IndexedSlices):
            raise TypeError(f"Argument `sparse_delta` must be a `tf.IndexedSlices`. Received arg: {delta!r}")
        shape, op = self._tensor.array.shape, f"ResourceScatter{_SCATTERS[how]}"
        where = _places(delta.indices, op).array
        _check_rows(tuple(where.shape), tuple(convert(delta.values).array.shape), tuple(shape), op)
        return self._updated(index.checked_indices(where, shape[0], op)[..., None], delta.values, how)

    def _updated(self, where: Any, given: Any, how: str, batch_dims: int = 0) -> Any:
        """Put a value in place in which `given` has been worked in at coordinates."""
        value, updates = self._tensor.array, convert(given, self.dtype).array
        xp = common_namespace((value, where, updates))
        return self._put(xp.update_at(value, where, updates, how=how, batch_dims=batch_dims), True, given)

    def scatter_add(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Add slices to rows."""
        return self._scatter(sparse_delta, "add")

    def scatter_sub(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Subtract slices from rows."""
        return self._scatter(sparse_delta, "subtract")

    def scatter_mul(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Multiply rows by slices."""
        return self._scatter(sparse_delta, "multiply")

    def scatter_div(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Divide rows by slices."""
        return self._scatter(sparse_delta, "divide")

    def scatter_max(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """The larger of rows and slices."""
        return self._scatter(sparse_delta, "maximum")

    def scatter_min(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """The smaller of rows and slices."""
        return self._scatter(sparse_delta, "minimum")

    def scatter_update(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Replace rows by slices; of repeated rows the last stays."""
        return self._scatter(sparse_delta, "set")

    def batch_scatter_update(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Replace rows, where leading axes of indices and variable walk together."""
        where, shape, op = convert(sparse_delta.indices).array, self._tensor.array.shape, "ResourceScatterNdUpdate"
        lead = len(where.shape) - 1
        _check_updates((*where.shape, lead + 1), tuple(convert(sparse_delta.values).array.shape), tuple(shape), op)
        places = index.checked_coordinates(where[..., None], shape, op, lead)
        return self._updated(places, sparse_delta.values, "set", batch_dims=lead)

    def _scatter_nd(self, indices: Any, updates: Any, how: str) -> Any:
        op, shape = f"ResourceScatterNd{_SCATTERS[how]}", self._tensor.array.shape
        where = _places(indices, op).array
        if not where.shape:
            raise errors.invalid_argument("Indices shape must have rank at least one. Found:[]", op)
        given = convert(updates, self.dtype)
        _check_updates(tuple(where.shape), tuple(given.array.shape), tuple(shape), op)
        return self._updated(index.checked_coordinates(where, shape, op), given, how)

    def scatter_nd_add(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Add at coordinates."""
        return self._scatter_nd(indices, updates, "add")

    def scatter_nd_sub(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Subtract at coordinates."""
        return self._scatter_nd(indices, updates, "subtract")

    def scatter_nd_update(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Replace at coordinates."""
        return self._scatter_nd(indices, updates, "set")

    def scatter_nd_max(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """The larger of what is there and the updates, at coordinates."""
        return self._scatter_nd(indices, updates, "maximum")

    def scatter_nd_min(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """The smaller of what is there and the updates, at coordinates."""
        return self._scatter_nd(indices, updates, "minimum")

    if TYPE_CHECKING:  # attached below

        def __add__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __matmul__(self, other: Any) -> Tensor: ...
        def __rmatmul__(self, other: Any) -> Tensor: ...
        def __neg__(self) -> Tensor: ...


def _truth(value: Any) -> bool:
    if isinstance(value, ndarray) and value.size > 1:
        raise ValueError(f"The truth value of an array with more than one element is ambiguous: trainable={value!r}.")
    return bool(value)


def _places(indices: Any, op: str) -> Tensor:
    """Indices into a variable: integers of 32 or 64 bits."""
    where = operand(indices)
    if where.dtype.name not in ("int32", "int64"):
        raise errors.unsupported_dtype(op, where.dtype, "int32, int64", "Tindices")
    return where


ResourceVariable = Variable


_SCATTERS = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "Div",
    "maximum": "Max",
    "minimum": "Min",
    "set": "Update",
}
"""The end of TensorFlow's names for updates at indices."""


def _check_rows(indices: tuple[int, ...], updates: tuple[int, ...], shape: tuple[int, ...], op: str) -> None:
    """Updates are one number, or a row for each index."""
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
    """Updates have an element, or a slice, for each row of coordinates."""
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


def on_host(array: Any) -> bool:
    """Whether an array of the XLA engine is in the memory of the processor, where eager code means NumPy."""
    return all(device.platform == "cpu" for device in array.devices())


def solid(value: Any) -> Any:
    """NumPy gives scalars where arrays have no axes: variables hold arrays."""
    return np.asarray(value) if isinstance(value, np.generic) else value


def _initial_array(value: Any, dtype: Any, graph: Graph | None) -> Any:
    if isinstance(value, (Tensor, Variable)):
        tensor = value.read() if isinstance(value, Variable) else value
        if dtype is not None and as_dtype(dtype) != tensor.dtype:
            raise ValueError(
                f"initial_value: Tensor conversion requested dtype {as_dtype(dtype).name} for Tensor with dtype "
                f"{tensor.dtype.name}: {tensor!r}"
            )
        if type(tensor.array) is Symbolic:
            return tensor.array if graph is None else graph.concrete(tensor.array)
        return placed(np.array(tensor.array)) if type(tensor.array) is ndarray else tensor.array
    return convert(value, dtype).array


def _local_array(value: Any, dtype: Any) -> Any:
    """The initial value of a local variable of a program: computed by the program, at every call."""
    if callable(value) and not isinstance(value, Variable):
        return _initial_array(value(), dtype, None)
    if isinstance(value, Tensor) and type(value.array) is Symbolic:
        raise ValueError(
            f"Argument `initial_value` ({value!r}) could not be lifted out of a `tf.function`. To avoid this error, "
            "when constructing `tf.Variable`s inside of `tf.function` you can create the `initial_value` tensor in a "
            "callable: `tf.Variable(lambda: value)`."
        )
    return _initial_array(value, dtype, None)


def _unpickle(value: Any, name: str, trainable: bool, shape: Any, *rest: Any) -> Variable:
    constraint, synchronization, aggregation = rest
    twin = Variable(
        value, trainable, constraint=constraint, synchronization=synchronization, aggregation=aggregation, shape=shape
    )
    twin._name = name
    return twin


class _View(Variable):
    """What an assignment returns: the same variable, read when used."""

    __slots__ = ("_of",)

    _of: Variable

    def __getattr__(self, name: str) -> Any:  # whatever the view has not is the variable's: its own slots stay empty
        return getattr(self._of, name)

    @property
    def name(self) -> str:
        return "UnreadVariable"

    @property
    def _tensor(self) -> Tensor:
        return self._of._tensor

    @_tensor.setter
    def _tensor(self, tensor: Tensor) -> None:
        self._of._tensor = tensor

    def read(self) -> Tensor:
        return self._of.read()

    def _update(self, *args: Any) -> Any:
        return self._of._update(*args)


def _view_of(variable: Variable) -> _View:
    view: _View = _empty(_View)  # an `__init__` would cost every update a call (benchmark: mlp32)
    view._of = variable
    return view


_empty = object.__new__


class StreamState(Variable):
    """How far a random op of a compiled function has read its stream: a variable that its program alone knows."""

    def __init__(self, key: int, counter: int) -> None:
        self._start = np.array([counter % 2**64, counter >> 64, key], np.uint64).view(np.int64)
        with tracing(None), creating(Creations(None)):
            super().__init__(self._start.copy(), trainable=False, name="stream")
        seeds.restart_with(self)

    def restart(self) -> None:
        """Read from the start again."""
        with tracing(None):
            self._tensor = self._reading(self._start.copy())


class VariableParam(Variable):
    """What stands for a variable among the arguments of a function that is being traced.

    In the program it is whichever variable a call passes. The code sees the one that the function was traced with: its
    name and flags, which the program then has for all. Code that asks for more (its reference, an attribute somebody
    gave it, its value outside of the program) knows the variable by itself, and the graph notes that.
    """

    __slots__ = ("_itself", "_shared", "number")

    def __init__(self, variable: Variable, number: int, graph: Graph) -> None:
        self.number, self.uid = number, variable.uid
        self._itself, self._shared = weakref.ref(variable), graph.shared  # what is compiled must not keep it alive
        self._name, self._trainable, self._constraint = variable.name, variable.trainable, variable.constraint
        self._synchronization, self._aggregation = variable.synchronization, variable.aggregation
        self._declared_shape = variable.shape
        like = variable._spec(None)
        self._held, self._buffer, self._lent = None, Symbolic(graph, tuple(like.shape), np.dtype(like.dtype)), False

    def itself(self) -> Variable:
        """The variable that the function was traced with."""
        found = self._itself()
        if found is None:
            raise errors.FailedPreconditionError(
                None,
                None,
                f"Variable '{self.name}' does not exist any more. It was an argument of a tf.function, and is used "
                "outside of the program that was made then: return its value from the function instead.",
            )
        self._shared.add(self.uid)
        return found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(self._itself(), name):
            raise AttributeError(f"'Variable' object has no attribute '{name}'")
        return getattr(self.itself(), name)

    @property
    def _tensor(self) -> Tensor:
        graph = current_graph()
        return self.itself()._tensor if graph is None else self._within(graph).reading

    @_tensor.setter
    def _tensor(self, tensor: Tensor) -> None:
        graph = current_graph()
        if graph is None:
            self.itself()._tensor = tensor
        else:
            state = self._within(graph)
            state.reading, state.assigned = tensor, True

    @property
    def handle(self) -> Reference:
        return self.ref()

    def ref(self) -> Reference:
        return Reference(self.itself())


def stored(variable: Variable) -> Variable:
    """The variable that has the storage: the one behind what an assignment returned, or behind an argument."""
    while type(variable) is not Variable:
        if isinstance(variable, _View):
            variable = variable._of
        elif isinstance(variable, VariableParam):
            variable = variable.itself()
        else:
            break
    return variable


class _VariableSlice(Tensor):
    """A slice of a variable: a tensor that can also be assigned to."""

    __slots__ = ("_key", "_tensor", "_variable")

    _key: Any
    _tensor: Tensor  # what the op returned: a forward accumulator keeps the tangent as long as it lives
    _variable: Variable

    def assign(self, value: Any, use_locking: Any = None, name: str | None = None, read_value: bool = True) -> Any:
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
        old = variable._tensor.array
        positions = [p.array for p in self._key if isinstance(p, Tensor)]  # only the program knows them
        index = tuple([Ellipsis if isinstance(p, Tensor) else p for p in self._key])
        new = common_namespace((old, part, *positions)).set_slice(old, part, *positions, index=index)
        return variable._put(new, read_value, value)


def _slice_of(variable: Variable, key: Any) -> Any:
    tensor = get_item(variable.read(), key)
    if isinstance(key, (Tensor, ndarray)) and np.ndim(key):
        return tensor
    part: Any = object.__new__(_VariableSlice)
    part.array, part.uid, part._tensor = tensor.array, tensor.uid, tensor
    part._variable, part._key = variable, checked_index(key, variable._tensor.array.shape)
    return part


# -- in-place updates ------------------------------------------------------------------------------------------------
other_threads: Callable[[], int] = getattr(_thread, "_count", lambda: 1)
"""How many threads there are beside the main one: `threading.active_count() - 1`, without its lock (benchmark: mlp32),
and with the threads that `threading` has not started."""


def _is_ours(value: ndarray, tensor: Tensor) -> bool:
    """Whether nobody but the variable holds this array, or the aligned memory it is in: no tape, no reading, no view.

    Another thread could begin to read between this question and the update: where there is one, nothing is ours.
    """
    base = value.base
    return (
        getrefcount(value) == _ALONE[0]
        and getrefcount(tensor) == _ALONE[1]
        and (base is None or (type(base) is ndarray and base.base is None and getrefcount(base) == _ALONE[2]))
        and value.ndim != 0
        and value.flags.writeable
        and not other_threads()
    )


_guard: ContextVar[Any] = ContextVar("gradtape_guard", default=forks.rlock())  # noqa: B039 - one for all threads
_guests = forks.rlock()


def _around_forks() -> None:
    """Fork between two updates, not during one: the child would find variables whose memory a program has."""
    held: list[Any] = []

    def wait() -> None:
        if updating().acquire(timeout=10.0):
            held.append(updating())

    def release() -> None:
        if held:
            held.pop().release()

    os.register_at_fork(before=wait, after_in_parent=release, after_in_child=held.clear)


if hasattr(os, "register_at_fork"):
    _around_forks()

updating: Callable[[], Any] = _guard.get
"""The lock to hold while variables change: two threads that add to one must not lose a sum, and none may read one whose
memory a program has been given."""


def called_back() -> setting[Any]:
    """Python that a program calls passes the lock: the thread that holds it waits for the program."""
    return setting(_guard, _guests)


def _calibrate() -> tuple[int, int, int]:
    """The reference counts that `_is_ours` sees when only the variable holds its tensor, on this Python."""

    class Owner:
        tensor: Any

    owner = Owner()
    owner.tensor = Tensor()
    owner.tensor.array = np.zeros(2)[1:]

    def inside(value: Any, tensor: Any) -> tuple[int, int, int]:
        base = value.base
        return getrefcount(value), getrefcount(tensor), getrefcount(base)

    def update(self: Owner) -> tuple[int, int, int]:
        tensor = self.tensor
        value = tensor.array
        return inside(value, tensor)

    return update(owner)


getrefcount: Callable[[Any], int] = getattr(sys, "getrefcount", lambda value: 0)  # not every Python counts
_ALONE = _calibrate() if hasattr(sys, "getrefcount") else (-1, -1, -1)

operators.attach(Variable)
setattr(Variable, "__getitem__", _slice_of)  # noqa: B010 - the operators above are attached the same way
register_converter(Variable, Variable.read)
register_converter(_View, _View.read)
register_converter(VariableParam, VariableParam.read)


def _refuse(symbol: str, method: str) -> Callable[[Any, Any], Any]:
    def operator(self: Any, other: Any) -> Any:
        advice = f"Use `variable.{method}(value)` to modify the variable, or" if method else "Use"
        raise RuntimeError(
            f"`variable {symbol}= value` with `tf.Variable`s is not supported. {advice} "
            f"`out = variable {symbol} value` if you need to get a new output Tensor."
        )

    return operator


for _name, _symbol, _method in (
    ("iadd", "+", "assign_add"),
    ("isub", "-", "assign_sub"),
    ("imul", "*", ""),
    ("itruediv", "/", ""),
    ("ifloordiv", "//", ""),
    ("imod", "%", ""),
    ("ipow", "**", ""),
):
    setattr(Variable, f"__{_name}__", _refuse(_symbol, _method))


def _variable_equality(name: str) -> Callable[[Any, Any], Any]:
    compare = getattr(Tensor, name)

    def method(self: Any, other: Any) -> Any:
        if other is None:
            raise ValueError(
                "Attempt to convert a value (None) with an unsupported type (<class 'NoneType'>) to a Tensor."
            )
        return compare(self.read(), other)

    return method


for _name in ("__eq__", "__ne__"):
    setattr(Variable, _name, _variable_equality(_name))
