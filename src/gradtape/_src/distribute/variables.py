"""Variables with one copy for each replica."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src.arrays.symbolic import tracing
from gradtape._src.conversion import cast, convert, register_converter
from gradtape._src.devices import Device
from gradtape._src.distribute.context import Mode, default_strategy, mode, require_same
from gradtape._src.distribute.reduction import ReduceOp
from gradtape._src.distribute.values import DistributedValues, select
from gradtape._src.graph import lanes
from gradtape._src.interrupts import setting
from gradtape._src.ops import array
from gradtape._src.tensor import Reference, Tensor
from gradtape._src.variable import (
    Variable,
    VariableAggregation,
    VariableSynchronization,
    VariableView,
    abstract_value,
    name_prefix,
    notice_reading,
    peek,
    read,
    variable_maker,
)

if TYPE_CHECKING:
    from gradtape._src.distribute.strategy import Strategy


class VariableCopy(Variable):
    """The copy of a distributed variable on one replica."""

    __slots__ = ("_place", "container")

    container: DistributedVariable
    _place: Device

    @property
    def device(self) -> str:
        return self._place.name


class DistributedVariable(DistributedValues, VariableView):
    """A variable with a copy for each replica. In a replica it is the copy there, elsewhere all of them.

    Reading it across replicas reads the first copy. Assigning across replicas assigns to all copies.
    """

    __slots__ = ("_copies", "_strategy")

    _is_distributed = True
    _copies: tuple[VariableCopy, ...]
    _strategy: Strategy

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: `create` initializes it."""

    # -- which copy --------------------------------------------------------------------------------------------------
    @property
    def number(self) -> int | None:
        """The replica whose copy it is; None across replicas."""
        found = mode.get()
        if found is None:
            return None
        return found.update if found.replica is None else found.replica.number

    @property
    def variable(self) -> Variable:  # type: ignore[override]
        number = self.number
        return self._copies[0 if number is None else number]

    @property
    def uid(self) -> int:  # type: ignore[override]
        return self.variable.uid

    @property
    def values(self) -> tuple[Any, ...]:
        """The copies."""
        return self._copies

    @property
    def _values(self) -> tuple[Any, ...]:
        """The copies, under the name that libraries use."""
        return self._copies

    @property
    def name(self) -> str:
        return self._copies[0].name

    @property
    def shape(self) -> Any:
        return self._copies[0].shape

    @property
    def dtype(self) -> Any:
        return self._copies[0].dtype

    @property
    def trainable(self) -> bool:
        return self._copies[0].trainable

    @property
    def constraint(self) -> Any:
        return self._copies[0].constraint

    @property
    def synchronization(self) -> VariableSynchronization:
        return self._copies[0].synchronization

    @property
    def aggregation(self) -> VariableAggregation:
        return self._copies[0].aggregation

    @property
    def device(self) -> str:
        return self.variable.device

    @property
    def distribute_strategy(self) -> Strategy:
        """The strategy in whose scope it was created."""
        return self._strategy

    @property
    def handle(self) -> Reference:
        if mode.get() is not None and self.number is None:
            raise ValueError(
                "DistributedVariable.handle is not available outside the replica context or a "
                "`tf.distribute.Strategy.update()` call."
            )
        return Reference(self.variable)

    def __repr__(self) -> str:
        lines = ",\n".join(f"  {i}: {copy!r}" for i, copy in enumerate(self._copies))
        return f"{type(self).__name__}:{{\n{lines}\n}}"

    # -- reading -----------------------------------------------------------------------------------------------------
    def _read(self) -> Tensor:
        if self.number is not None:
            notice_reading(self)  # a tape in a replica watches this variable, not the copy
        return read(self.variable)

    # -- assigning ---------------------------------------------------------------------------------------------------
    def assign(self, value: Any, use_locking: Any = None, name: Any = None, read_value: bool = True) -> Any:
        return self._write("assign", value, read_value=read_value)

    def assign_add(self, delta: Any, use_locking: Any = None, name: Any = None, read_value: bool = True) -> Any:
        return self._write("assign_add", delta, read_value=read_value)

    def assign_sub(self, delta: Any, use_locking: Any = None, name: Any = None, read_value: bool = True) -> Any:
        return self._write("assign_sub", delta, read_value=read_value)

    def _write(self, method: str, value: Any, *args: Any, read_value: bool = True, **kwargs: Any) -> Any:
        """Call a method that changes the variable, according to the context."""
        found = mode.get()
        if found is not None and found.strategy is not default_strategy():
            require_same(found.strategy, self._strategy)
        number = self.number
        if number is None:
            self._write_all(method, value, *args, **kwargs)
        elif found is not None and found.replica is not None and self._merges():
            found.replica.merge_call(self._merged, args=(Keep((method, *args), kwargs), value))
        else:
            written = getattr(self._copies[number], method)(select(number, value), *args, **kwargs)
            return written if read_value else None
        if not read_value:
            return None
        return self if number is None else array.identity(read(self.variable))

    def _restore(self, value: Any) -> None:
        """Assign a value from a checkpoint to all copies, even if a replica has created the variable."""
        with setting(mode, Mode(self._strategy)):
            self.assign(value)

    def _merges(self) -> bool:
        """Whether an assignment in a replica is aggregated over all replicas."""
        return self.aggregation is not VariableAggregation.NONE

    @property
    def is_kept_equal(self) -> bool:
        """Whether all copies are always equal, because every assignment changes all of them."""
        return self._merges()

    def _merged(self, strategy: Strategy, call: Any, value: Any) -> None:
        if self.aggregation is VariableAggregation.ONLY_FIRST_REPLICA:
            value = select(0, value)
        else:
            op = ReduceOp.from_variable_aggregation(self.aggregation)
            value = strategy.extended.reduced(op, value)
        first: Keep = select(0, call)
        self._write_all(*first.args[:1], value, *first.args[1:], **first.kwargs)

    def _write_all(self, method: str, value: Any, *args: Any, **kwargs: Any) -> None:
        ranges = []
        for number, copy in enumerate(self._copies):
            start = lanes.position()
            getattr(copy, method)(select(number, value), *args, **kwargs)
            ranges.append((start, lanes.position()))
        lanes.mark_each(self._strategy.extended.layout, ranges)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._copies[0].__reduce__()

    def __deepcopy__(self, memo: dict[int, Any]) -> Variable:
        facts = {
            "name": self.name.removesuffix(":0"),
            "trainable": self.trainable,
            "constraint": self.constraint,
            "synchronization": self.synchronization,
            "aggregation": self.aggregation,
            "shape": self.shape,
        }
        with setting(name_prefix, ""):
            other = create(self._strategy, (np.array(peek(self._copies[0]).array),), facts)
        for mine, theirs in zip(self._copies, other._copies, strict=True):
            theirs.assign(peek(mine))
        memo[id(self)] = other
        return other


class Keep:
    """Arguments of a `merge_call` that are the same in all replicas, taken from the first one."""

    __slots__ = ("args", "kwargs")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args, self.kwargs = args, kwargs


class MirroredVariable(DistributedVariable):
    """A variable whose copies are kept equal: an assignment in a replica is first aggregated over all of them.

    Without an aggregation, a replica assigns only to its own copy.
    """

    __slots__ = ()


class AggregatingVariable(DistributedVariable):
    """A variable that replicas share: there is one copy, and assignments in replicas are first aggregated."""

    __slots__ = ()

    @property
    def variable(self) -> Variable:  # type: ignore[override]
        return self._copies[0]

    def _write(self, method: str, value: Any, *args: Any, read_value: bool = True, **kwargs: Any) -> Any:
        found = mode.get()
        in_replica = found is not None and found.replica is not None and found.strategy.num_replicas_in_sync > 1
        if in_replica and self.aggregation is VariableAggregation.NONE:
            raise ValueError(
                "You must specify an aggregation method to update a AggregatingVariable in Replica Context. You can do "
                "so by passing an explicit value for argument `aggregation` to tf.Variable(..).e.g. "
                "`tf.Variable(..., aggregation=tf.VariableAggregation.SUM)`"
            )
        return super()._write(method, value, *args, read_value=read_value, **kwargs)

    def _merges(self) -> bool:
        found = mode.get()
        return found is not None and found.strategy.num_replicas_in_sync > 1


class SyncOnReadVariable(DistributedVariable):
    """A variable whose copies are aggregated when it is read across replicas, as in metrics."""

    __slots__ = ()

    def _merges(self) -> bool:
        return False

    def _read(self) -> Tensor:
        return super()._read() if self.number is not None else self._aggregated()

    def _peek(self) -> Tensor:
        return super()._peek() if self.number is not None else self._aggregated()

    def _aggregated(self) -> Tensor:
        values = [read(copy) for copy in self._copies]
        if self.aggregation is VariableAggregation.ONLY_FIRST_REPLICA:
            return values[0]
        op = ReduceOp.from_variable_aggregation(self.aggregation)
        result: Tensor = self._strategy.extended.across(op, values, None)
        return result

    def numpy(self) -> np.ndarray:
        return self._read().numpy()

    def _write_all(self, method: str, value: Any, *args: Any, **kwargs: Any) -> None:
        if self.aggregation is VariableAggregation.NONE:
            ReduceOp.from_variable_aggregation(self.aggregation)  # raises an error
        if self.aggregation is VariableAggregation.SUM:
            if method != "assign":
                raise ValueError(
                    f"SyncOnReadVariable does not support `{method}` in cross-replica context when aggregation is set "
                    "to `tf.VariableAggregation.SUM`."
                )
            value = cast(convert(value / self._strategy.num_replicas_in_sync), self.dtype)
        super()._write_all(method, value, *args, **kwargs)


def _writer(method: str) -> Callable[..., Any]:
    def write(self: DistributedVariable, value: Any, *args: Any, **kwargs: Any) -> Any:
        return self._write(method, value, *args, **kwargs)

    write.__name__ = method
    write.__doc__ = getattr(Variable, method).__doc__
    return write


for _method in (
    *(f"scatter_{how}" for how in ("add", "sub", "mul", "div", "max", "min", "update")),
    *(f"scatter_nd_{how}" for how in ("add", "sub", "update", "max", "min")),
    "batch_scatter_update",
):
    setattr(DistributedVariable, _method, _writer(_method))
register_converter(DistributedVariable, DistributedVariable._read)


# -- creating --------------------------------------------------------------------------------------------------------
def create(strategy: Strategy, args: Sequence[Any], kwargs: dict[str, Any]) -> DistributedVariable:
    """Create a variable with a copy on each device of a strategy, from the arguments of `tf.Variable`."""
    names = ("initial_value", "trainable", "validate_shape", "caching_device", "name", "variable_def", "dtype",
             "import_scope", "constraint", "synchronization", "aggregation", "shape")  # fmt: skip
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    if given.get("synchronization") is VariableSynchronization.NONE:
        raise ValueError(
            "`NONE` variable synchronization mode is not supported with tf.distribute strategy. Please change the "
            f"`synchronization` for variable: {given.get('name')}"
        )
    on_read = given.get("synchronization") is VariableSynchronization.ON_READ
    is_shared = len(strategy.extended.parameter_places) < strategy.extended.local_replicas
    kind = AggregatingVariable if is_shared else SyncOnReadVariable if on_read else MirroredVariable
    whole: DistributedVariable = object.__new__(kind)
    copies: list[VariableCopy] = []
    name = given.pop("name", None)
    with setting(variable_maker, None):
        for number, device in enumerate(strategy.extended.parameter_places):
            label = name if not number else f"{name or 'Variable'}/replica_{number}"
            with strategy.extended.placing(device):
                copy = VariableCopy(name=label, **given)
            copy.container, copy._place = whole, device
            copies.append(copy)
            given |= {} if number else {"initial_value": _begun(strategy, copy), "dtype": None}
    whole._copies, whole._strategy = tuple(copies), strategy
    return whole


def _begun(strategy: Strategy, copy: VariableCopy) -> Any:
    """The value that the first copy starts with, and then the others: a callable initial value is called once."""
    with tracing(None):
        value = strategy.extended.initial_value(abstract_value(copy))
        copy.storage.begin_with(value)
    return value


def make(*args: Any, **kwargs: Any) -> Any:
    """Implement `tf.Variable(...)` in the scope of a strategy, or in one of its replicas."""
    found = mode.get()
    assert found is not None
    if found.replica is None:
        return create(found.strategy, args, kwargs)

    def created() -> DistributedVariable:
        with setting(mode, Mode(found.strategy)):
            return create(found.strategy, args, kwargs)

    return found.replica.shared(created)
