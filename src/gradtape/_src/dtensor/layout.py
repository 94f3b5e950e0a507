"""Meshes of devices, and layouts of tensors over them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradtape._src.arrays.value_text import nested_text
from gradtape._src.conversion import convert
from gradtape._src.devices import Device, jax_devices, mesh_of, parse, register_mesh
from gradtape._src.shape import TensorShape

UNSHARDED = "unsharded"
MATCH = "match"


class MeshDimension(NamedTuple):
    """A dimension of a mesh."""

    name: str
    size: int


class Mesh:
    """A grid of devices with named dimensions; `create_mesh` creates one.

    >>> import gradtape as tf
    >>> mesh = tf.experimental.dtensor.create_mesh([("batch", 1)], devices=["CPU:0"])
    >>> mesh.dim_names, mesh.size
    (['batch'], 1)

    >>> mesh.shape(), mesh.dim_size("batch"), mesh.contains_dim("batch"), mesh.device_type(), mesh.name
    ([1], 1, True, 'CPU', '')
    >>> mesh.local_devices()
    ['/job:localhost/replica:0/task:0/device:CPU:0']
    >>> mesh.num_local_devices(), mesh.local_device_ids(), mesh.min_global_device_id()
    (1, [0], 0)
    >>> mesh.global_device_ids().tolist(), mesh.local_device_locations(), mesh.unravel_index()
    ([0], [{'batch': 0}], {0: {'batch': 0}})
    >>> mesh.coords(0).numpy().tolist(), mesh.strides
    ([0], [1])
    >>> mesh.is_remote(), mesh.is_single_device(), mesh.host_mesh() == mesh
    (False, True, True)
    >>> tf.experimental.dtensor.Mesh.from_string(mesh.to_string()) == mesh
    True
    """

    def __init__(
        self,
        dim_names: Sequence[str],
        global_device_ids: Any,
        local_device_ids: Sequence[int],
        local_devices: Sequence[Any],
        mesh_name: str = "",
    ) -> None:
        ids = np.asarray(global_device_ids)
        if len(set(dim_names)) != len(dim_names):
            raise ValueError(f"Mesh dimension names must be unique. Received: {list(dim_names)}")
        if ids.ndim != len(dim_names):
            raise ValueError(
                f"The number of mesh dimensions {len(dim_names)} does not match the rank {ids.ndim} of the device ids."
            )
        if len(local_devices) != len(local_device_ids):
            raise ValueError("The number of local devices does not match the number of their ids.")
        self._names, self._ids = list(dim_names), ids
        self._local_ids = [int(i) for i in local_device_ids]
        self._devices = [device_of(device) for device in local_devices]
        self._name = mesh_name

    # -- properties --------------------------------------------------------------------------------------------------
    @property
    def dim_names(self) -> list[str]:
        """The names of its dimensions."""
        return list(self._names)

    @property
    def name(self) -> str:
        """Its name, if it has one."""
        return self._name

    @property
    def size(self) -> int:
        """The number of its devices."""
        return int(self._ids.size)

    @property
    def strides(self) -> list[int]:
        """The distance between neighboring devices in the list, for each dimension."""
        sizes = [*self._ids.shape[1:], 1]
        return [int(np.prod(sizes[i:])) for i in range(len(sizes))]

    def shape(self) -> list[int]:
        """Return the sizes of its dimensions."""
        return list(self._ids.shape)

    def dim_size(self, dim_name: str) -> int:
        """Return the size of a dimension."""
        if dim_name not in self._names:
            raise ValueError(
                f"Dimension {dim_name} does not exist in mesh.Available dimensions: {','.join(self._names)}"
            )
        return int(self._ids.shape[self._names.index(dim_name)])

    def __getitem__(self, dim_name: str) -> MeshDimension:
        return MeshDimension(dim_name, self.dim_size(dim_name))

    def contains_dim(self, dim_name: str) -> bool:
        """Return whether there is a dimension with this name."""
        return dim_name in self._names

    def device_type(self) -> str:
        """Return the kind of its devices: "CPU", "GPU" or "TPU"."""
        return self._devices[0].kind

    def num_local_devices(self) -> int:
        """Return the number of devices of this process."""
        return len(self._devices)

    def local_device_ids(self) -> list[int]:
        """Return the numbers of the devices of this process."""
        return list(self._local_ids)

    def local_devices(self) -> list[str]:
        """Return the names of the devices of this process."""
        return [device.name for device in self._devices]

    def global_device_ids(self) -> np.ndarray:
        """Return the numbers of all devices, as a grid."""
        return self._ids

    def min_global_device_id(self) -> int:
        """Return the smallest number of a device."""
        return int(self._ids.min())

    def is_remote(self) -> bool:
        """Return whether it has no devices of this process."""
        return not self._devices

    def is_single_device(self) -> bool:
        """Return whether it has one device."""
        return self.size == 1

    def host_mesh(self) -> Mesh:
        """Return the mesh of the host CPUs of its devices: itself, if the devices are CPUs."""
        if self.device_type() == "CPU":
            return self
        processors = [Device("CPU", device.number) for device in self._devices]
        return Mesh(self._names, self._ids, self._local_ids, processors, self._name)

    def coords(self, device_idx: int) -> Any:
        """Return the position of a device in the grid."""
        return convert(np.array(np.unravel_index(device_idx, self._ids.shape), np.int32))

    def unravel_index(self) -> dict[int, dict[str, int]]:
        """Return the position of every device in the grid, by its number."""
        return {
            int(number): dict(zip(self._names, map(int, place), strict=True))
            for place, number in np.ndenumerate(self._ids)
        }

    def local_device_locations(self) -> list[dict[str, int]]:
        """Return the positions of this process's devices in the grid."""
        places = self.unravel_index()
        return [places[number] for number in self._local_ids]

    # -- as text -----------------------------------------------------------------------------------------------------
    def to_string(self) -> str:
        """Return the mesh as text, which `from_string` parses."""
        sizes = ",".join(f"{name}={size}" for name, size in zip(self._names, self._ids.shape, strict=True))
        numbers = ",".join(str(i) for i in self._ids.flat)
        return f"{self._name}|{sizes}|{numbers}|{','.join(map(str, self._local_ids))}|{','.join(self.local_devices())}"

    @classmethod
    def from_string(cls, mesh_str: str) -> Mesh:
        """Parse the result of `to_string`."""
        name, sizes, numbers, local, devices = mesh_str.split("|")[:5]
        pairs = [part.split("=") for part in sizes.split(",")]
        ids = np.array([int(i) for i in numbers.split(",")]).reshape([int(size) for _, size in pairs])
        return cls([dim for dim, _ in pairs], ids, [int(i) for i in local.split(",")], devices.split(","), name)

    def __repr__(self) -> str:
        return f"Mesh.from_string({self.to_string()})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and self.to_string() == other.to_string()

    def __hash__(self) -> int:
        return hash(self.to_string())

    def text_of(self, array: Any) -> str:
        """The value of an array on this mesh as text: the part of each device of this process, and the layout."""
        layout = Layout.of_array(array)
        assert layout is not None
        parts = [nested_text(np.asarray(part), 3) for part in shards_of(array)]
        if not layout.is_fully_replicated():
            names = [f"{device.kind}:{device.number}" for device in self._devices]
            text = ", ".join(f'"{name}": {part}' for name, part in zip(names, parts, strict=True))
            return f'{{{text}}}, layout="{layout.to_string()}"'
        return f'{parts[0]}, layout="{layout.to_string()}"'

    # -- JAX ---------------------------------------------------------------------------------------------------------
    @functools.cached_property
    def jax_mesh(self) -> Any:
        """The mesh of JAX devices."""
        from jax.sharding import Mesh as JaxMesh

        found = jax_devices(self.device_type())
        grid = np.empty(self._ids.shape, object)
        if len(self._local_ids) < self.size:
            import jax

            everywhere = sorted(jax.devices(found[0].platform), key=lambda device: (device.process_index, device.id))
        for place, number in np.ndenumerate(self._ids):
            if len(self._local_ids) < self.size:
                grid[place] = everywhere[int(number)]
            else:
                grid[place] = found[self._devices[self._local_ids.index(int(number))].number]
        made = JaxMesh(grid, tuple(self._names))
        register_mesh(made, self)
        return made


def shards_of(array: Any) -> list[Any]:
    """The shards of an array on the devices of this process, in the order of the mesh."""
    by_device = {shard.device: shard.data for shard in array.addressable_shards}
    return [by_device[device] for device in array.sharding.mesh.devices.flat if device in by_device]


def device_of(device: Any) -> Device:
    """The device of a mesh, given by its name or as a device."""
    if isinstance(device, Device):
        return device
    name = device.to_string() if hasattr(device, "to_string") else str(device)
    found = parse(name)
    if found is None:
        raise ValueError(f"A device of a mesh must have a kind and a number, as in 'CPU:0'. Received: {name!r}")
    return found


class Layout:
    """How a tensor is sharded over a mesh: for each axis a dimension of the mesh, or `UNSHARDED`.

    >>> import gradtape as tf
    >>> mesh = tf.experimental.dtensor.create_mesh([("batch", 1)], devices=["CPU:0"])
    >>> tf.experimental.dtensor.Layout(["batch", tf.experimental.dtensor.UNSHARDED], mesh).num_shards(0)
    1

    >>> rows = tf.experimental.dtensor.Layout.batch_sharded(mesh, "batch", rank=2)
    >>> columns = tf.experimental.dtensor.Layout.inner_sharded(mesh, "batch", rank=2)
    >>> whole = tf.experimental.dtensor.Layout.replicated(mesh, rank=2)
    >>> rows.rank, rows.shape, rows.is_batch_parallel(), whole.is_fully_replicated(), whole.is_single_device()
    (2, [1], True, True, True)
    >>> rows.local_shape_from_global_shape([4, 3]), rows.global_shape_from_local_shape([4, 3])
    (TensorShape([4, 3]), TensorShape([4, 3]))
    >>> rows.offset_to_shard(), columns.delete([0]).sharding_specs
    ([(0, 0)], ['batch'])
    >>> text = rows.to_string()
    >>> tf.experimental.dtensor.Layout.from_string(text) == rows
    True
    """

    def __init__(self, sharding_specs: Sequence[str], mesh: Mesh) -> None:
        specs = list(sharding_specs)
        for spec in specs:
            if spec != UNSHARDED and not mesh.contains_dim(spec):
                raise ValueError(f"{spec}: A dimension sharding must either be a valid mesh dimension or UNSHARDED.")
            if spec != UNSHARDED and specs.count(spec) > 1:
                raise ValueError(
                    f"Mesh dimension {spec} was repeated in sharding specification {specs}. Mesh dimensions must be "
                    "unique in a layout."
                )
        self.sharding_specs, self.mesh = specs, mesh

    @classmethod
    def replicated(cls, mesh: Mesh, rank: int) -> Layout:
        """Create a layout with a full copy on every device."""
        return cls([UNSHARDED] * rank, mesh)

    @classmethod
    def batch_sharded(cls, mesh: Mesh, batch_dim: str, rank: int, axis: int = 0) -> Layout:
        """Create a layout that shards one axis, the first by default, over a dimension of the mesh."""
        specs = [UNSHARDED] * rank
        specs[axis] = batch_dim
        return cls(specs, mesh)

    @classmethod
    def inner_sharded(cls, mesh: Mesh, inner_dim: str, rank: int) -> Layout:
        """Create a layout that shards the last axis over a dimension of the mesh."""
        return cls.batch_sharded(mesh, inner_dim, rank, axis=rank - 1)

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.sharding_specs)

    @property
    def shape(self) -> list[int]:
        """The sizes of the mesh."""
        return self.mesh.shape()

    def delete(self, dims: Sequence[int]) -> Layout:
        """Return the layout without some axes."""
        gone = [dim % self.rank for dim in dims]
        return Layout([spec for i, spec in enumerate(self.sharding_specs) if i not in gone], self.mesh)

    def num_shards(self, idx: int) -> int:
        """Return the number of shards along an axis."""
        spec = self.sharding_specs[idx]
        return 1 if spec == UNSHARDED else self.mesh.dim_size(spec)

    def is_fully_replicated(self) -> bool:
        """Return whether every device has the whole tensor."""
        return all(self.num_shards(i) == 1 for i in range(self.rank))

    def is_batch_parallel(self) -> bool:
        """Return whether at most the first axis is sharded."""
        return all(self.num_shards(i) == 1 for i in range(1, self.rank))

    def is_single_device(self) -> bool:
        """Return whether the mesh has one device."""
        return self.mesh.is_single_device()

    def offset_to_shard(self) -> list[tuple[int, ...]]:
        """Return, for every device, which shard of each axis it holds."""
        places = self.mesh.unravel_index()
        return [
            tuple(0 if spec == UNSHARDED else places[int(number)][spec] for spec in self.sharding_specs)
            for number in self.mesh.global_device_ids().flat
        ]

    def global_shape_from_local_shape(self, local_shape: Any) -> TensorShape:
        """Return the shape of a tensor, given the shape of its shards."""
        sizes: list[Any] = TensorShape(local_shape).as_list()
        return TensorShape([n * self.num_shards(i) for i, n in enumerate(sizes)])

    def local_shape_from_global_shape(self, global_shape: Any) -> TensorShape:
        """Return the shape of the shards of a tensor."""
        sizes: list[Any] = TensorShape(global_shape).as_list()
        return TensorShape([n // self.num_shards(i) for i, n in enumerate(sizes)])

    def to_string(self) -> str:
        """Return the layout as text, which `from_string` parses."""
        return f"sharding_specs:{''.join(f'{spec},' for spec in self.sharding_specs)} mesh:{self.mesh.to_string()}"

    @classmethod
    def from_string(cls, layout_str: str) -> Layout:
        """Parse the result of `to_string`."""
        specs, _, mesh = layout_str.removeprefix("sharding_specs:").partition(" mesh:")
        return cls([spec for spec in specs.split(",") if spec], Mesh.from_string(mesh))

    def __repr__(self) -> str:
        return f"Layout.from_string({self.to_string()})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.to_string() == other.to_string()

    def __hash__(self) -> int:
        return hash(self.to_string())

    @property
    def sharding(self) -> Any:
        """The equivalent JAX sharding."""
        from jax.sharding import NamedSharding, PartitionSpec

        specs = [None if spec == UNSHARDED else spec for spec in self.sharding_specs]
        return NamedSharding(self.mesh.jax_mesh, PartitionSpec(*specs))

    @classmethod
    def of_array(cls, array: Any) -> Layout | None:
        """The layout of a JAX array; None if it is not on a mesh."""
        mesh = mesh_of(array)
        if mesh is None:
            return None
        found: Iterable[Any] = array.sharding.spec
        specs = [spec[0] if isinstance(spec, tuple) and spec else spec or UNSHARDED for spec in found]
        return cls([*specs, *[UNSHARDED] * (len(array.shape) - len(specs))], mesh)


MeshDims = Sequence[tuple[str, int]] | Mapping[str, int]


def pairs_of(mesh_dims: MeshDims) -> list[tuple[str, int]]:
    """The names and sizes of a mesh."""
    return list(mesh_dims.items()) if isinstance(mesh_dims, Mapping) else [(name, size) for name, size in mesh_dims]
