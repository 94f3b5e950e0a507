"""Variable: a tensor that can be assigned to. Tapes track its reads."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from enum import Enum
from operator import methodcaller
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from gradtape._src import errors
from gradtape._src.arrays import common_namespace, namespace_of
from gradtape._src.arrays.batched import Batched, EscapeError
from gradtape._src.arrays.lazy import Lazy
from gradtape._src.arrays.symbolic import (
    Graph,
    Symbolic,
    VariableState,
    current_graph,
    default_graph,
    only_eager,
    tracing,
)
from gradtape._src.conversion import array_from, convert, placed, register_converter
from gradtape._src.core.tape import active_recorders, active_stack, add_unrecorded_read, open_tapes
from gradtape._src.dtypes import DType, as_dtype, dtype_of
from gradtape._src.interrupts import setting
from gradtape._src.ops import array, operators
from gradtape._src.shape import TensorShape
from gradtape._src.tensor import Reference, Tensor, next_uid, value_text
from gradtape._src.variable.growing import has_another_shape, recorded_read
from gradtape._src.variable.slices import IndexedUpdates, slice_of
from gradtape._src.variable.storage import Storage, deferred_restores, updating

if TYPE_CHECKING:
    from typing_extensions import Self

    from gradtape._src.typing import Operand, Operators
    from gradtape._src.variable.slices import VariableSlice
else:
    Operators = object

name_prefix: ContextVar[str] = ContextVar("gradtape_name_scope", default="")
"""The prefix that `name_scope` adds to the names of variables and summaries, for each thread and task."""


def scope_within(outer: str, name: str) -> str:
    """The prefix of a name scope inside of another one; in a trace the second scope of a name is `name_1`.

    >>> scope_within("outer/", "inner")
    'outer/inner/'
    """
    if not name or name.endswith("/"):
        return name
    graph = current_graph() or default_graph()
    return f"{outer}{name}/" if graph is None else graph.scope_name(f"{outer}{name}")


def traced_scope(name: str) -> setting[str]:
    """Context for tracing a branch or a loop, whose name becomes a prefix."""
    return setting(name_prefix, scope_within(name_prefix.get(), name))


class Creations:
    """The variables that a tf.function creates in its first trace; later, `refuse` raises an error."""

    def __init__(self, refuse: Callable[[], None] | None = None) -> None:
        self.refuse = refuse
        self.created: list[weakref.ref[Variable]] = []


_creations: ContextVar[Creations | None] = ContextVar("gradtape_creations", default=None)


def creating(creations: Creations) -> setting[Creations | None]:
    """Context in which new variables, also in init_scope, belong to a tf.function."""
    return setting(_creations, creations)


variable_maker: ContextVar[Callable[..., Any] | None] = ContextVar("gradtape_variable_maker", default=None)
"""Called by `tf.Variable(...)` instead of creating a plain variable: the scope of a distribution strategy sets it. Its
result is complete."""

_made: ContextVar[Any] = ContextVar("gradtape_made_variable", default=None)
"""The last result of a maker: Python calls its `__init__` with the arguments of `tf.Variable(...)`."""


def _unless_made(init: Callable[..., None]) -> Callable[..., None]:
    """Make the `__init__` of a subclass skip objects that a maker has completed."""

    @functools.wraps(init)
    def initialise(self: Any, *args: Any, **kwargs: Any) -> None:
        if _made.get() is self:
            _made.set(None)
        else:
            init(self, *args, **kwargs)

    return initialise


class VariableSynchronization(Enum):
    """When the copies of a variable on the replicas are synchronized.

    >>> tf.Variable(1.0, synchronization=tf.VariableSynchronization.ON_READ).synchronization.name
    'ON_READ'
    """

    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3


class VariableAggregation(Enum):
    """How the updates of replicas are combined.

    >>> tf.Variable(1.0, aggregation=tf.VariableAggregation.MEAN).aggregation.name
    'MEAN'
    """

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3


def _modes(synchronization: Any, aggregation: Any, name: Any) -> tuple[VariableSynchronization, VariableAggregation]:
    """The modes of a variable: None means the default, and an int is converted to the enum."""
    try:
        when = VariableSynchronization(synchronization or 0)
    except ValueError:
        raise ValueError(
            f"Invalid variable synchronization mode: {synchronization} for variable: {name}. Use a member of "
            "tf.VariableSynchronization."
        ) from None
    try:
        return when, VariableAggregation(aggregation or 0)
    except ValueError:
        raise ValueError(
            f"Invalid variable aggregation mode: {aggregation} for variable: {name}. Use a member of "
            "tf.VariableAggregation."
        ) from None


class Variable(IndexedUpdates, Operators):
    """A tensor that you can assign to. Tapes watch trainable variables automatically.

    All reads share the variable's own identity, so the gradient with respect to the variable sums over every read,
    before and after assignments.

    >>> import gradtape as tf
    >>> v = tf.Variable([1.0, 2.0], name="v")
    >>> v.assign_add([1.0, 1.0])
    <tf.Variable 'UnreadVariable' shape=(2,) dtype=float32, numpy=array([2., 3.], dtype=float32)>
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_aggregation",
        "_constraint",
        "_declared_shape",
        "_may_grow",
        "_name",
        "_synchronization",
        "_trainable",
        "storage",
        "uid",
    )
    __array_priority__ = 100

    _is_distributed = False  # whether it has copies on several replicas
    _is_param = False  # whether it is a placeholder for a variable that a call passes
    _home: Graph | None = None  # the graph that it is local to (experimental_enable_variable_lifting=False)
    _may_grow: bool  # whether its declared shape is partial; an instance attribute is faster (benchmark: rnn)
    storage: Storage
    uid: int

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = _unless_made(vars(cls)["__init__"])  # type: ignore[method-assign]
        if "value" in vars(cls):
            operators.read_operands(cls)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        if cls is Variable:
            make = variable_maker.get()
            if make is not None:
                made: Self = make(*args, **kwargs)
                _made.set(made if isinstance(made, Variable) and type(made) is not Variable else None)
                return made
        return object.__new__(cls)

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
        if hasattr(self, "storage"):
            return  # a creator of `variable_creator_scope` has made it
        _check_arguments(initial_value, name, constraint)
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
        self._declared_shape = _declared_shape(shape, value)
        self._may_grow = not self._declared_shape.is_fully_defined()
        self.uid = next_uid()
        self._name = f"{name_prefix.get()}{name or 'Variable'}:0"
        self._trainable = (
            _truth(trainable) if trainable is not None else synchronization is not VariableSynchronization.ON_READ
        )
        self._constraint, self._synchronization, self._aggregation = constraint, synchronization, aggregation
        if type(synchronization) is not VariableSynchronization or type(aggregation) is not VariableAggregation:
            self._synchronization, self._aggregation = _modes(synchronization, aggregation, name)
        unread = local or bool(deferred_restores)
        self.storage = Storage(self.uid, value, unread)
        if local:
            assert graph is not None
            self._home = graph
            graph.variables[self.uid] = VariableState(self, self.storage.reading(value))
        elif creations is not None:
            creations.created.append(weakref.ref(self))
        self._notice_origin(initial_value)

    # -- the value, without tapes ------------------------------------------------------------------------------------
    def _peek(self) -> Tensor:
        """The current value, from the storage or the graph that is being traced, with the variable's uid."""
        graph = current_graph()
        if graph is not None:
            return self._state_in(graph).reading
        tensor = self.storage.tensor
        return tensor if tensor is not None else self._fetch()

    def _restore(self, value: Any) -> None:
        """Assign a value from a checkpoint."""
        self.assign(value)

    def _store(self, value: Any) -> None:
        """Replace the value in the storage, or in the graph that is being traced."""
        graph = current_graph()
        if graph is None:
            self.storage.store(value)
        else:
            state = self._state_in(graph)
            state.reading, state.assigned = self.storage.reading(value), True

    def _state_in(self, graph: Graph) -> VariableState:
        """The state of this variable in a graph, of which it becomes an input."""
        if self.uid in graph.variable_params and not self._is_param:
            graph.also_captured.add(self.uid)  # an argument that the code reaches in another way
        state = graph.variables.get(self.uid)
        if state is None:
            self._check_scope(graph)
            if graph.outer is not None:  # a branch or a loop starts with the outer value
                symbol = graph.input("array", self._state_in(graph.outer).reading.array)
            else:
                symbol = graph.input("variable", self, abstract_value(self, graph.primal))
            state = graph.variables[self.uid] = VariableState(self, self.storage.reading(symbol))
        return state

    def _check_scope(self, graph: Graph | None) -> None:
        """Check that a local variable is used in its program only, and that the program can use this variable."""
        if self._home is not None:
            if graph is None or not graph.reaches(self._home):
                raise TypeError(
                    f"{self.name} is out of scope and cannot be used here. Use return values, explicit Python locals "
                    f"or TensorFlow collections to access it: it was created while tracing '{self._home.name}', with "
                    "experimental_enable_variable_lifting=False, and every call of the function has its own."
                )
            return
        if graph is None or graph.outer is not None or self._is_param:
            return
        if self.dtype.name == "string":
            raise only_eager(TypeError(f"'{self.name}' holds strings, but XLA supports only numbers."))
        if not self._declared_shape.is_fully_defined():
            raise only_eager(
                ValueError(
                    f"'{self.name}' may change its shape, which is {self._declared_shape}, but a compiled program "
                    "has fixed shapes. Declare its shape, or pass it to the function as an argument."
                )
            )

    def _fetch(self) -> Tensor:
        """The value for eager code after a compiled program."""
        self._check_scope(None)
        with updating():
            if self.storage.is_donated():
                raise errors.FailedPreconditionError(
                    None,
                    None,
                    f"Variable '{self.name}' cannot be read here: a compiled function is using its memory. "
                    "If Python code called by the function reads it, pass its value to that code as an argument. If "
                    "the function failed because another process was lost, restore a checkpoint.",
                )
            return self.storage.fetch()

    # -- reading -----------------------------------------------------------------------------------------------------
    def _read(self) -> Tensor:
        """The current value, for ops: tapes that watch accessed variables are notified."""
        recorders = active_stack()
        if recorders is not None:
            while recorders is not None:
                tracked, _, recorder, recorders = recorders
                if self.uid not in tracked:
                    recorder.on_read(self)
            if self._may_grow and current_graph() is None and has_another_shape(value := self._peek()):
                return recorded_read(value)
        elif open_tapes:
            add_unrecorded_read(self)
        tensor = self.storage.tensor
        return tensor if tensor is not None and current_graph() is None else self._peek()

    def value(self) -> Tensor:
        """Return the current value as a new tensor that later assignments do not change.

        >>> v = tf.Variable(3.0)
        >>> v.value().numpy()
        np.float32(3.0)
        """
        result: Tensor = array.identity(self._read())
        return result

    def read_value(self) -> Tensor:
        """Return the current value as a new tensor that later assignments do not change.

        >>> v = tf.Variable(1.0)
        >>> before = v.read_value()
        >>> _ = v.assign(2.0)
        >>> before.numpy(), v.numpy()
        (np.float32(1.0), np.float32(2.0))
        """
        return self.value()

    def numpy(self) -> ndarray:
        """Return the current value as a NumPy array (a copy).

        >>> tf.Variable([1.0, 2.0]).numpy()
        array([1., 2.], dtype=float32)
        """
        return self._read().numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> ndarray:
        return self._read().__array__(dtype, copy)

    @property
    def dtype(self) -> DType:
        return dtype_of(self.storage.newest())

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
        return self._peek().device

    @property
    def _copies(self) -> tuple[Variable, ...]:
        return (self,)

    @property
    def handle(self) -> Reference:
        """The identity of the variable's storage.

        >>> v = tf.Variable(1.0)
        >>> v.handle is v.handle
        False
        """
        return Reference(self)

    @property
    def ndim(self) -> int:
        return self._peek().ndim

    @property
    def initial_value(self) -> Any:
        raise RuntimeError("This property is not supported when eager execution is enabled.")

    @property
    def initializer(self) -> None:
        """None: a variable is initialized when it is created.

        >>> tf.Variable(1.0).initializer is None
        True
        """

    def load(self, value: Any, session: Any = None) -> None:
        """Replace the value: `assign` under the name that sessions use.

        >>> v = tf.Variable(1.0)
        >>> v.load(5.0)
        >>> v.numpy()
        np.float32(5.0)
        """
        self.assign(value)

    def count_up_to(self, limit: int) -> Tensor:
        """Add one and return the previous value; raises OutOfRangeError at the limit.

        >>> import gradtape as tf
        >>> v = tf.Variable(3)
        >>> int(v.count_up_to(5)), int(v)
        (3, 4)
        """
        before = self.read_value()
        if int(before) >= limit:
            raise errors.OutOfRangeError(None, None, f"Reached limit of {limit} [Op:ResourceCountUpTo]")
        self.assign_add(1)
        return before

    def eval(self, session: Any = None) -> Any:
        """Raise RuntimeError, because there are no sessions; use `numpy`.

        >>> tf.Variable(1.0).eval()
        Traceback (most recent call last):
            ...
        RuntimeError: This operation is not supported when eager execution is enabled. Use numpy().
        """
        raise RuntimeError("This operation is not supported when eager execution is enabled. Use numpy().")

    def get_shape(self) -> TensorShape:
        """Return the shape, like `variable.shape`.

        >>> tf.Variable([[1, 2]]).get_shape()
        TensorShape([1, 2])
        """
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Merge a shape into the declared shape.

        >>> v = tf.Variable([[1.0, 2.0]], shape=tf.TensorShape(None))
        >>> v.set_shape([None, 2])
        >>> v.shape
        TensorShape([None, 2])
        """
        self._declared_shape = self._declared_shape.merge_with(shape)
        self._may_grow = not self._declared_shape.is_fully_defined()

    def is_initialized(self, name: str | None = None) -> Tensor:
        """Return true: a variable is created with its value.

        >>> tf.Variable(1.0).is_initialized().numpy().item()
        True
        """
        return convert(True)

    def ref(self) -> Reference:
        """Return a hashable reference to this variable.

        >>> v = tf.Variable(1.0)
        >>> {v.ref(): "learning rate"}[v.ref()]
        'learning rate'
        """
        return Reference(self)

    def __hash__(self) -> int:
        raise TypeError(f"Variable is unhashable. Instead, use variable.ref() as the key. (Variable: {self!r})")

    def __bool__(self) -> bool:
        return bool(self._read())

    def __float__(self) -> float:
        return float(self._read())

    def __int__(self) -> int:
        return int(self._read())

    def __complex__(self) -> complex:
        return complex(self._read())

    def _repr_html_(self) -> str:
        """The variable in a notebook; displaying it does not count as a read."""
        from html import escape

        from gradtape._src.notebook import card

        fixed = "" if self.trainable else ", not trainable"
        return card(f"tf.Variable {escape(repr(self.name.removesuffix(':0')))}{fixed}", self._peek().array)

    def __repr__(self) -> str:
        if current_graph() is not None:
            return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}>"
        text = value_text(self._read().array)
        return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}, {text}>"

    def __copy__(self) -> Variable:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Variable:
        copy = _unpickle(*self.__reduce__()[1])
        memo[id(self)] = copy
        return copy

    def __reduce__(self) -> tuple[Any, ...]:
        facts = (
            np.array(self._peek().array),
            self._name,
            self._trainable,
            self._declared_shape,
            self._constraint,
            self._synchronization,
            self._aggregation,
        )
        return (_unpickle, facts)

    # -- assigning ---------------------------------------------------------------------------------------------------
    def assign(
        self, value: Operand, use_locking: Any = None, name: str | None = None, read_value: bool = True
    ) -> Variable:
        """Replace the value.

        >>> import gradtape as tf
        >>> v = tf.Variable(1.0)
        >>> float(v.assign(5.0))
        5.0
        """
        new = self._incoming(value)
        shape = self._declared_shape
        if new.shape != shape._dims and not shape.is_compatible_with(new.shape):
            sentence = (
                f"Cannot assign value to variable ' {self.name}': Shape mismatch.The variable shape {self.shape}, and "
                f"the assigned value shape {tuple(new.shape)} are incompatible."
            )
            # While a function is traced: a ValueError or, if shapes are unknown, an error when it runs.
            raise ValueError(sentence) if current_graph() is None else errors.invalid_argument(sentence)
        return self._put(new, read_value, value)

    def assign_add(
        self, delta: Operand, use_locking: Any = None, name: str | None = None, read_value: bool = True
    ) -> Variable:
        """Add to the value."""
        return self._update(np.add, delta, "AssignAddVariableOp", read_value)

    def assign_sub(
        self, delta: Operand, use_locking: Any = None, name: str | None = None, read_value: bool = True
    ) -> Variable:
        """Subtract from the value.

        >>> v = tf.Variable([5.0, 6.0])
        >>> v.assign_sub([1.0, 2.0]).numpy().tolist()
        [4.0, 4.0]
        """
        return self._update(np.subtract, delta, "AssignSubVariableOp", read_value)

    def _incoming(self, value: Any) -> Any:
        """Convert a value that is to be stored: to the variable's dtype, as an array that nothing else writes to."""
        current = self._peek().array
        if type(value) is Tensor:
            new = value.array
            if type(new) is ndarray is type(current) and new.dtype is current.dtype:
                return new  # the most common case (benchmark: mlp32)
            if type(new) is Batched:
                raise EscapeError("a variable holds one value and cannot be assigned a batch")
        if type(value) is Tensor and value.array.dtype is current.dtype:
            new = value.array
        elif type(value) is Tensor or not isinstance(value, (ndarray, np.generic, int, float)):
            new = convert(value, self.dtype).array
        else:
            new = array_from(value, self.dtype)
        if type(current) is Lazy is type(new) and current.spec.device is new.spec.device:
            return new
        if type(current) is ndarray is type(new) or Symbolic in (type(current), type(new)):
            return new
        if type(current) is ndarray and type(new) is Lazy and new.spec.device is None:
            return new
        return namespace_of(current).alongside(new, current)  # a variable stays on its device

    def _update(self, how: np.ufunc, delta: Any, op: str, read_value: bool) -> Any:
        change = delta.array if type(delta) is Tensor else self._incoming(delta)
        if current_graph() is None and self.storage.update_in_place(how, change):
            if active_stack() is not None:
                self._notice(delta)
            return _view_of(self) if read_value else None
        if type(delta) is Tensor:
            change = self._incoming(delta)
        with updating():
            value = self._peek().array
            if change.shape != value.shape:
                raise errors.invalid_argument(
                    f"Cannot update variable with shape {errors.brackets(value.shape)} using a Tensor with shape "
                    f"{errors.brackets(change.shape)}, shapes must be equal.",
                    op,
                )
            kernel = getattr(common_namespace((value, change)), how.__name__)
            return self._put(solid(kernel(value, change)), read_value, delta)

    def _put(self, value: Any, read_value: bool, given: Any = None) -> Any:
        self._store(value)
        if active_stack() is not None:
            self._notice(given)
        return _view_of(self) if read_value else None

    def _notice(self, value: Any = None) -> None:
        for recorder in active_recorders():  # an assignment counts as an access, as in TensorFlow
            if self.uid not in recorder.tracked:
                recorder.on_read(self)
        self._notice_origin(value)

    def _notice_origin(self, value: Any) -> None:
        """Notify tapes that a value is assigned to this variable, where its record ends."""
        if isinstance(value, (Tensor, Variable)):
            for recorder in active_recorders():
                recorder.on_escape("assign", value.uid, self.uid)

    if TYPE_CHECKING:  # attached below

        def __getitem__(self, key: Any) -> VariableSlice: ...
        def __iter__(self) -> Iterator[Tensor]: ...


def _check_arguments(initial_value: Any, name: Any, constraint: Any) -> None:
    if initial_value is None:
        raise ValueError(
            "The `initial_value` arg to `tf.Variable` must be specified except when you are not providing a "
            "`variable_def`. You provided neither."
        )
    if name is not None and not isinstance(name, str):
        raise ValueError(f"The `name` of a tf.Variable must be a string. Received {name!r}.")
    if constraint is not None and not callable(constraint):
        raise ValueError(f"The `constraint` must be a callable. Received {constraint!r}.")


def _declared_shape(shape: Any, value: Any) -> TensorShape:
    declared = TensorShape(value.shape) if shape is None else TensorShape(shape)
    if not declared.is_compatible_with(value.shape):
        raise ValueError(
            f"In this `tf.Variable` creation, the initial value's shape ({tuple(value.shape)}) is not compatible "
            f"with the explicitly supplied `shape` argument ({shape})."
        )
    return declared


def _truth(value: Any) -> bool:
    if isinstance(value, ndarray) and value.size > 1:
        raise ValueError(f"The truth value of an array with more than one element is ambiguous: trainable={value!r}.")
    return bool(value)


def solid(value: Any) -> Any:
    """Convert NumPy's scalars, which replace 0-d arrays, to arrays."""
    return np.asarray(value) if isinstance(value, np.generic) else value


def _initial_array(value: Any, dtype: Any, graph: Graph | None) -> Any:
    if isinstance(value, (Tensor, Variable)):
        tensor = value._read() if isinstance(value, Variable) else value
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
    """The initial value of a variable that is local to a program, computed by the program in every call."""
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
    copy = Variable(
        value, trainable, constraint=constraint, synchronization=synchronization, aggregation=aggregation, shape=shape
    )
    copy._name = name
    return copy


class VariableView(Variable):
    """A view of another variable, possibly a different one at every use; its own slots are empty."""

    __slots__ = ()

    variable: Variable

    def __getattr__(self, name: str) -> Any:  # attributes of the viewed variable
        return getattr(self.variable, name)

    def _peek(self) -> Tensor:
        return self.variable._peek()

    def _store(self, value: Any) -> None:
        self.variable._store(value)

    def _state_in(self, graph: Graph) -> VariableState:
        return self.variable._state_in(graph)

    def _read(self) -> Tensor:
        return self.variable._read()

    def _update(self, *args: Any) -> Any:
        return self.variable._update(*args)


class UnreadVariable(VariableView):
    """The result of an assignment: a view of the variable, which is read when it is used."""

    __slots__ = ("variable",)

    @property
    def name(self) -> str:
        return "UnreadVariable"


# Functions that other layers use, beyond TensorFlow's methods. The first two are called for every use of a variable:
# calling a methodcaller needs no Python frame.
read: Callable[[Variable], Tensor] = methodcaller("_read")
"""The current value, for ops: tapes that watch accessed variables are notified."""

peek: Callable[[Variable], Tensor] = methodcaller("_peek")
"""The current value, without notifying tapes: from the storage or the graph being traced, with the variable's uid."""


def store(variable: Variable, value: Any) -> None:
    """Replace the value in the storage, or in the graph that is being traced."""
    variable._store(value)


def state_in(variable: Variable, graph: Graph) -> VariableState:
    """The state of a variable in a graph, of which it becomes an input."""
    return variable._state_in(graph)


def is_local_to(variable: Variable, graph: Graph) -> bool:
    """Whether a variable is local to the graph, so that every call has its own."""
    return variable._home is graph


def abstract_value(variable: Variable, graph: Graph | None = None) -> Any:
    """An array with the shape and dtype of a variable: its value in the graph or, if the graph does not use it,
    outside.
    """
    while graph is not None:
        state = graph.variables.get(variable.uid)
        if state is not None:
            return state.reading.array
        graph = graph.outer or graph.primal
    return variable.storage.newest()


def notice_reading(variable: Variable) -> None:
    """Notify tapes that watch accessed variables that a compiled program reads it."""
    for recorder in active_recorders():
        if variable.uid not in recorder.tracked:
            recorder.on_read(variable)


def restore_value(variable: Variable, value: Any) -> None:
    """Assign a value from a checkpoint to a variable, or to all of its copies."""
    variable._restore(value)


def copies_of(variable: Variable) -> tuple[Variable, ...]:
    """The variables with a storage: for a distributed variable, its copies."""
    return variable._copies


def is_distributed(variable: Variable) -> bool:
    """Whether a variable has copies on several replicas."""
    return variable._is_distributed


def _view_of(variable: Variable) -> UnreadVariable:
    view: UnreadVariable = _empty(UnreadVariable)  # an `__init__` would cost every update a call (benchmark: mlp32)
    view.variable = variable
    return view


_empty = object.__new__


setattr(Variable.__new__, "__wrapped__", Variable.__init__)  # noqa: B010 - its arguments, for `inspect.signature`
operators.attach(Variable)
setattr(Variable, "__getitem__", slice_of)  # noqa: B010 - the operators above are attached the same way
register_converter(Variable, Variable._read)
register_converter(VariableView, VariableView._read)


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
        return compare(self._read(), other)

    return method


for _name in ("__eq__", "__ne__"):
    setattr(Variable, _name, _variable_equality(_name))
