"""Values that differ between replicas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from numpy import ndarray

from gradtape._src import nest
from gradtape._src.arrays.lazy import is_lazy_on_host
from gradtape._src.conversion import register_converter
from gradtape._src.devices import Device
from gradtape._src.tensor import Tensor
from gradtape._src.variable import Variable, copies_of, is_distributed


class DistributedValues:
    """A value with one part for each replica: a `PerReplica`, or a variable with copies.

    >>> import gradtape as tf
    >>> strategy = tf.distribute.MirroredStrategy(["/CPU:0"])
    >>> with strategy.scope():
    ...     isinstance(tf.Variable(1.0), tf.distribute.DistributedValues)
    True
    """

    __slots__ = ()


class PerReplica(DistributedValues):
    """One value for each replica: the results of replicas, or their arguments. It has no arithmetic."""

    __slots__ = ("devices", "parts")

    def __init__(self, parts: Sequence[Any], devices: Sequence[Device] = ()) -> None:
        self.parts, self.devices = tuple(parts), tuple(devices)

    @property
    def values(self) -> tuple[Any, ...]:
        """The parts, in the order of the replicas."""
        if len(self.devices) != len(self.parts):
            return self.parts
        return tuple(on_device(part, device) for part, device in zip(self.parts, self.devices, strict=True))

    def _text(self, of: Callable[[Any], str]) -> str:
        lines = ",\n".join(f"  {i}: {of(part)}" for i, part in enumerate(self.parts))
        return f"PerReplica:{{\n{lines}\n}}"

    def __repr__(self) -> str:
        return self._text(repr)

    def __str__(self) -> str:
        return self._text(str)


class UnevenPerReplica(PerReplica):
    """A part of a batch that does not divide evenly: replicas in other processes have parts with other sizes."""

    __slots__ = ()


def _same_kind(whole: PerReplica, parts: Sequence[Any]) -> PerReplica:
    return type(whole)(parts, whole.devices)


def _number_of_tensors(whole: PerReplica) -> int | None:
    """The number of parts, if they are tensors: only that distinguishes such values (benchmark: replicas)."""
    return len(whole.parts) if {Tensor}.issuperset(map(type, whole.parts)) else None


def _refuse_conversion(value: Any) -> NoReturn:
    raise ValueError(
        "It looks like you are using a PerReplica object while not inside a replica context, which is not supported. "
        "Try running your op or function inside a replica context by using `strategy.run`. "
        "`strategy.experimental_local_results` returns the values of the replicas, and `strategy.reduce` their sum. "
        f"Received: {value}"
    )


for _kind in (PerReplica, UnevenPerReplica):
    register_converter(_kind, _refuse_conversion)
    nest.register_composite(_kind, lambda whole: whole.parts, _same_kind, description=_number_of_tensors)


class PerReplicaSpec:
    """The specifications of the parts of a `PerReplica`."""

    __slots__ = ("_value_specs",)

    def __init__(self, *value_specs: Any) -> None:
        self._value_specs = value_specs

    @property
    def value_type(self) -> type:
        """The class of the specified value."""
        return PerReplica

    @property
    def value_specs(self) -> tuple[Any, ...]:
        """The specification of each part."""
        return self._value_specs

    def is_compatible_with(self, value: Any) -> bool:
        """Whether a value is a `PerReplica` with compatible parts."""
        if not isinstance(value, PerReplica) or len(value.parts) != len(self._value_specs):
            return False
        pairs = zip(self._value_specs, value.parts, strict=True)
        return all(spec.is_compatible_with(part) for spec, part in pairs)

    def __repr__(self) -> str:
        return f"PerReplicaSpec({', '.join(map(repr, self._value_specs))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PerReplicaSpec) and self._value_specs == other._value_specs

    def __hash__(self) -> int:
        return hash(self._value_specs)


nest.register_composite(PerReplicaSpec, lambda spec: spec._value_specs, lambda spec, parts: PerReplicaSpec(*parts))


class LogicalTensor(Tensor):
    """A tensor that a replica on one of several logical CPUs has computed, with the name of that CPU."""

    __slots__ = ("_device",)

    _device: Device

    @property
    def device(self) -> str:
        return self._device.name


def on_device(value: Any, device: Device) -> Any:
    """A NumPy tensor with the name of its logical CPU; anything else unchanged."""
    if type(value) is not Tensor or device.kind != "CPU" or not device.number or not _is_on_host(value.array):
        return value
    named = LogicalTensor()
    named.array, named.uid, named._device = value.array, value.uid, device
    return named


def _is_on_host(array: Any) -> bool:
    return type(array) is ndarray or is_lazy_on_host(array)


# -- structures ------------------------------------------------------------------------------------------------------
def select(replica: int, structure: Any) -> Any:
    """The structure for one replica: its own parts, and everything else unchanged."""

    def part(leaf: Any) -> Any:
        return leaf.parts[replica] if isinstance(leaf, PerReplica) else leaf

    return nest.map_structure(part, structure)


def regroup(results: Sequence[Any], devices: Sequence[Device] = (), always: bool = False) -> Any:
    """Combine the structures of all replicas leaf by leaf. An object that all of them share stays as it is, unless
    `always` is set.
    """
    first = results[0]
    if not nest.is_nested(first):
        return _together(results, devices, always)
    for other in results[1:]:
        nest.assert_same_structure(first, other)
    leaves = zip(*map(nest.flatten, results), strict=True)
    return nest.pack_sequence_as(first, [_together(leaf, devices, always) for leaf in leaves])


def _together(parts: Sequence[Any], devices: Sequence[Device], always: bool) -> Any:
    first = parts[0]
    if not always and all(part is first for part in parts):
        return first
    container = getattr(first, "container", None) if isinstance(first, Variable) else None
    if container is not None and all(getattr(part, "container", None) is container for part in parts):
        return container
    return PerReplica(parts, devices)


def local_results(value: Any) -> tuple[Any, ...]:
    """The values of the replicas of this process, as a tuple."""
    if isinstance(value, PerReplica):
        return value.values
    if isinstance(value, Variable) and is_distributed(value):
        return copies_of(value)
    return (value,)


def local_structures(structure: Any, count: int) -> tuple[Any, ...]:
    """`local_results` of a structure: one structure for each replica."""
    if not nest.is_nested(structure):
        return local_results(structure)
    flat = [local_results(leaf) for leaf in nest.flatten(structure)]
    rows = [[parts[i] if len(parts) == count else parts[0] for parts in flat] for i in range(count)]
    return tuple(nest.pack_sequence_as(structure, row) for row in rows)
