"""The functions of `tf.experimental.dtensor`: tensors that are divided over the devices of a mesh."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Any

import numpy as np

from gradtape._src import errors, nest, processes
from gradtape._src.calls import calls
from gradtape._src.checkpoint.checkpoint import Checkpoint
from gradtape._src.cluster_spec import tf_config
from gradtape._src.conversion import convert, wrap
from gradtape._src.data.dataset import Dataset
from gradtape._src.devices import Device, logical_devices, require_jax, require_one_mesh
from gradtape._src.dtensor.layout import Layout, Mesh, MeshDims, device_of, pairs_of, shards_of
from gradtape._src.formats import tensor_bundle as bundle
from gradtape._src.interrupts import setting
from gradtape._src.tensor import Tensor
from gradtape._src.variable import Variable, abstract_value, peek, unwrapped


# -- devices and meshes ----------------------------------------------------------------------------------------------
def preferred_device_type() -> str:
    """Return the default kind of devices for meshes: "TPU", "GPU" or "CPU".

    >>> import gradtape as tf
    >>> tf.experimental.dtensor.preferred_device_type() in ("CPU", "GPU", "TPU")
    True
    """
    return next((kind for kind in ("TPU", "GPU") if logical_devices(kind)), "CPU")


def num_local_devices(device_type: str) -> int:
    """Return the number of devices of a kind in this process.

    >>> import gradtape as tf
    >>> tf.experimental.dtensor.num_local_devices("CPU") >= 1
    True
    """
    return len(logical_devices(device_type.upper()))


def client_id() -> int:
    """Return the number of this process.

    >>> import gradtape as tf
    >>> tf.experimental.dtensor.client_id()
    0
    """
    return processes.number()


def num_clients() -> int:
    """Return the number of processes.

    >>> import gradtape as tf
    >>> tf.experimental.dtensor.num_clients()
    1
    """
    return processes.count()


def num_global_devices(device_type: str) -> int:
    """Return the number of devices of a kind in all processes.

    >>> import gradtape as tf
    >>> tf.experimental.dtensor.num_global_devices("CPU") >= 1
    True
    """
    return num_local_devices(device_type) * num_clients()


def barrier(mesh: Mesh, barrier_name: str | None = None, timeout_in_ms: int | None = None) -> None:
    """Wait until all processes have come here.

    It raises UnavailableError after `timeout_in_ms`, by default 5 minutes, or if a process is lost. `barrier_name` is
    part of that error.

    >>> import gradtape as tf
    >>> mesh = tf.experimental.dtensor.create_mesh([("x", 1)], devices=["CPU:0"])
    >>> tf.experimental.dtensor.barrier(mesh)
    """
    name = f"gradtape/barrier/{barrier_name or ''}/{next(_exchanges)}"
    processes.wait_for_all(name, processes.PATIENCE if timeout_in_ms is None else timeout_in_ms / 1000)


def initialize_accelerator_system(device_type: str | None = None, **options: Any) -> str:
    """Connect the processes named by DTENSOR_JOBS or TF_CONFIG, and return the kind of devices. Call it first.

    >>> import gradtape as tf
    >>> tf.experimental.dtensor.initialize_accelerator_system("CPU")
    'CPU'
    """
    config = tf_config()
    jobs = [job for job in os.environ.get("DTENSOR_JOBS", "").split(",") if job]
    jobs = jobs or config.get("cluster", {}).get("worker", [])
    if len(jobs) > 1 and processes.client() is None:
        number = int(os.environ.get("DTENSOR_CLIENT_ID") or config.get("task", {}).get("index", 0))
        processes.connect(jobs, number)
    return (device_type or preferred_device_type()).upper()


def shutdown_accelerator_system() -> None:
    """No effect: processes disconnect when they end.

    >>> import gradtape as tf
    >>> tf.experimental.dtensor.shutdown_accelerator_system()
    """


def create_distributed_mesh(
    mesh_dims: MeshDims,
    mesh_name: str = "",
    local_devices: Sequence[Any] | None = None,
    device_type: str | None = None,
    use_xla_spmd: bool = False,
) -> Mesh:
    """Create a mesh of the devices of all processes, which must have equally many; the first process comes first.

    >>> import gradtape as tf
    >>> tf.experimental.dtensor.create_distributed_mesh([("x", 1)], local_devices=["CPU:0"]).shape()
    [1]
    """
    found = logical_devices((device_type or preferred_device_type()).upper()) if local_devices is None else None
    local = [device_of(device) for device in local_devices or found or ()]
    dims = pairs_of(mesh_dims)
    sizes = [size for _, size in dims]
    total = len(local) * num_clients()
    if int(np.prod(sizes)) != total:
        raise ValueError(f"length of devices ({total}) must be equal to total size of the mesh of shape {sizes}")
    first = len(local) * client_id()
    ids = np.arange(total).reshape(sizes)
    return Mesh([name for name, _ in dims], ids, range(first, first + len(local)), local, mesh_name)


def create_mesh(
    mesh_dims: MeshDims | None = None,
    mesh_name: str = "",
    devices: Sequence[Any] | None = None,
    device_type: str | None = None,
    use_xla_spmd: bool = False,
) -> Mesh:
    """Create a mesh of devices of this process: all of one kind, unless they are given.

    >>> import gradtape as tf
    >>> tf.experimental.dtensor.create_mesh([("x", 1)], devices=["CPU:0"]).shape()
    [1]
    """
    require_jax("DTensor")
    found: list[Device] = (
        logical_devices((device_type or preferred_device_type()).upper())
        if devices is None
        else [device_of(device) for device in devices]
    )
    dims = [("x", len(found))] if mesh_dims is None else pairs_of(mesh_dims)
    sizes = [size for _, size in dims]
    if int(np.prod(sizes)) != len(found):
        raise ValueError(f"length of devices ({len(found)}) must be equal to total size of the mesh of shape {sizes}")
    ids = np.arange(len(found)).reshape(sizes)
    return Mesh([name for name, _ in dims], ids, list(range(len(found))), found, mesh_name)


_default_mesh: ContextVar[Mesh | None] = ContextVar("gradtape_default_mesh", default=None)


def run_on(mesh: Mesh) -> Any:
    """Set the default mesh for a `with` block: the older name of `default_mesh`.

    >>> import gradtape as tf
    >>> with tf.experimental.dtensor.run_on(tf.experimental.dtensor.create_mesh([("x", 1)], devices=["CPU:0"])):
    ...     tf.experimental.dtensor.get_default_mesh().shape()
    [1]
    """
    return default_mesh(mesh)


def default_mesh(mesh: Mesh) -> Any:
    """Set the default mesh for a `with` block: `call_with_layout(fn, None)` puts its results there.

    >>> import gradtape as tf
    >>> mesh = tf.experimental.dtensor.create_mesh([("x", 1)], devices=["CPU:0"])
    >>> with tf.experimental.dtensor.default_mesh(mesh):
    ...     tf.experimental.dtensor.get_default_mesh() == mesh
    True
    """
    if not isinstance(mesh, Mesh):
        raise ValueError(f"Expect `mesh` to be `Mesh`, got {type(mesh)}")
    return setting(_default_mesh, mesh)


def get_default_mesh() -> Mesh | None:
    """Return the mesh of the enclosing `default_mesh` block, or None.

    >>> import gradtape as tf
    >>> tf.experimental.dtensor.get_default_mesh()
    """
    return _default_mesh.get()


# -- tensors ---------------------------------------------------------------------------------------------------------
def _array_of(tensor: Any) -> Any:
    tensor = unwrapped(tensor)
    return abstract_value(tensor) if isinstance(tensor, Variable) else getattr(tensor, "array", None)


def is_dtensor(tensor: Any) -> bool:
    """Return whether a tensor is on a mesh.

    >>> import gradtape as tf
    >>> tf.experimental.dtensor.is_dtensor(tf.ones([2]))
    False
    """
    return Layout.of_array(_array_of(tensor)) is not None


def fetch_layout(tensor: Any) -> Layout:
    """Return the layout of a tensor on a mesh.

    >>> import gradtape as tf
    >>> dtensor = tf.experimental.dtensor
    >>> mesh = dtensor.create_mesh([("x", 1)], devices=["CPU:0"])
    >>> dtensor.fetch_layout(dtensor.copy_to_mesh(tf.ones([2]), dtensor.Layout(["x"], mesh))).sharding_specs
    ['x']
    """
    found = Layout.of_array(_array_of(tensor))
    if found is None:
        raise errors.invalid_argument("FetchLayout expects a tensor placed on the layout device.", "FetchLayout")
    return found


def check_layout(tensor: Any, layout: Layout) -> None:
    """Raise a ValueError unless a tensor has this layout.

    >>> import gradtape as tf
    >>> dtensor = tf.experimental.dtensor
    >>> layout = dtensor.Layout(["x"], dtensor.create_mesh([("x", 1)], devices=["CPU:0"]))
    >>> dtensor.check_layout(dtensor.copy_to_mesh(tf.ones([2]), layout), layout)
    """
    if fetch_layout(tensor) != layout:
        raise ValueError(f"Layout of tensor: {fetch_layout(tensor)}, did not match expected layout: {layout}")


def relayout(tensor: Any, layout: Layout, name: str | None = None) -> Tensor:
    """Change the layout of a tensor; the gradient has the old layout.

    >>> import gradtape as tf
    >>> dtensor = tf.experimental.dtensor
    >>> mesh = dtensor.create_mesh([("x", 1)], devices=["CPU:0"])
    >>> x = dtensor.copy_to_mesh(tf.constant([1.0, 2.0]), dtensor.Layout(["x"], mesh))
    >>> dtensor.relayout(x, dtensor.Layout.replicated(mesh, rank=1)).numpy().tolist()
    [1.0, 2.0]
    """
    found = convert(tensor)
    shape = tuple(found.array.shape)
    if len(shape) != layout.rank:
        raise errors.UnknownError(
            None,
            None,
            f"'tf.DTensorLayout' op requires matching rank for layout and input, but got {layout.rank} as suggested "
            f"rank from layout but {len(shape)} from shape.",
        )
    for axis, size in enumerate(shape):
        if isinstance(size, int) and size % layout.num_shards(axis):
            raise errors.UnknownError(
                None,
                None,
                f"'tf.DTensorLayout' op requires dimension {axis} to be divisible by sharding specified in "
                f"DTensorLayout, but got dimension size={size} is not divisible by number of shards in layout for this "
                f"dimension={layout.num_shards(axis)}.",
            )
    source = getattr(found.array, "sharding", None)
    result: Tensor = calls["transfer"](found, device=layout.sharding, source=source)
    return result


def relayout_like(tensor: Any, layout_tensor: Any, name: str | None = None) -> Tensor:
    """Change the layout of a tensor to that of another one.

    >>> import gradtape as tf
    >>> dtensor = tf.experimental.dtensor
    >>> layout = dtensor.Layout(["x"], dtensor.create_mesh([("x", 1)], devices=["CPU:0"]))
    >>> x = dtensor.copy_to_mesh(tf.ones([2]), layout)
    >>> dtensor.fetch_layout(dtensor.relayout_like(x + 1.0, x)) == layout
    True
    """
    return relayout(tensor, fetch_layout(layout_tensor))


def copy_to_mesh(tensor: Any, layout: Layout, source_layout: Layout | None = None) -> Tensor:
    """Copy a tensor to a mesh.

    >>> import gradtape as tf
    >>> dtensor = tf.experimental.dtensor
    >>> mesh = dtensor.create_mesh([("x", 1)], devices=["CPU:0"])
    >>> dtensor.is_dtensor(dtensor.copy_to_mesh(tf.ones([2]), dtensor.Layout(["x"], mesh)))
    True
    """
    return relayout(tensor, layout)


def call_with_layout(fn: Callable[..., Any], layout: Layout | None, *args: Any, **kwargs: Any) -> Any:
    """Call a function and return its result in a layout; without one, replicated on the default mesh.

    >>> import gradtape as tf
    >>> dtensor = tf.experimental.dtensor
    >>> mesh = dtensor.create_mesh([("x", 1)], devices=["CPU:0"])
    >>> dtensor.call_with_layout(tf.ones, dtensor.Layout(["x"], mesh), shape=(2,)).shape
    TensorShape([2])
    """
    result = fn(*args, **kwargs)
    mesh = get_default_mesh()
    if layout is None and mesh is None:
        return result

    def placed(leaf: Any) -> Any:
        if leaf is None:
            return None
        return relayout(leaf, layout or Layout.replicated(mesh, len(convert(leaf).array.shape)))  # type: ignore[arg-type]

    return nest.map_structure(placed, result)


def pack(tensors: Sequence[Any], layout: Layout) -> Tensor:
    """Create a tensor on a mesh from its shards, one for each device of this process in the order of the mesh.

    With several processes, each passes the shards on its own devices.

    >>> import gradtape as tf
    >>> dtensor = tf.experimental.dtensor
    >>> mesh = dtensor.create_mesh([("x", 1)], devices=["CPU:0"])
    >>> dtensor.pack([tf.constant([1.0, 2.0])], dtensor.Layout(["x"], mesh)).shape
    TensorShape([2])
    """
    import jax

    if len(tensors) != layout.mesh.num_local_devices():
        raise errors.invalid_argument(
            f"The dtensor device expected {layout.mesh.num_local_devices()} inputs to DTensorPack, but got "
            f"{len(tensors)}",
            "DTensorPack",
        )
    parts = [convert(tensor) for tensor in tensors]
    local = tuple(parts[0].array.shape)
    if any(tuple(part.array.shape) != local for part in parts):
        raise errors.UnimplementedError(
            None, None, "Components of a PackedTensor must currently all have the same shape"
        )
    shape = tuple(n * layout.num_shards(axis) for axis, n in enumerate(local))
    here = jax.process_index()
    devices = [device for device in layout.mesh.jax_mesh.devices.flat if device.process_index == here]
    arrays = [jax.device_put(np.asarray(part.array), device) for part, device in zip(parts, devices, strict=True)]
    return wrap(jax.make_array_from_single_device_arrays(shape, layout.sharding, arrays))


def unpack(tensor: Any) -> list[Tensor]:
    """Return the shards of a tensor on a mesh, one for each device of this process in the order of the mesh.

    >>> import gradtape as tf
    >>> dtensor = tf.experimental.dtensor
    >>> mesh = dtensor.create_mesh([("x", 1)], devices=["CPU:0"])
    >>> x = dtensor.copy_to_mesh(tf.constant([1.0, 2.0]), dtensor.Layout(["x"], mesh))
    >>> [part.numpy().tolist() for part in dtensor.unpack(x)]
    [[1.0, 2.0]]
    """
    if not is_dtensor(tensor):
        raise errors.invalid_argument("DTensorUnpack expects a tensor placed on the DTensor device", "DTensorUnpack")
    tensor = unwrapped(tensor)
    array = peek(tensor).array if isinstance(tensor, Variable) else tensor.array
    return [wrap(part) for part in shards_of(array)]


# -- variables, checkpoints, datasets --------------------------------------------------------------------------------
class DVariable(Variable):
    """A variable on a mesh: its value and all later ones have its layout.

    >>> import gradtape as tf
    >>> dtensor = tf.experimental.dtensor
    >>> mesh = dtensor.create_mesh([("x", 1)], devices=["CPU:0"])
    >>> v = dtensor.DVariable(tf.constant([1.0, 2.0]), layout=dtensor.Layout(["x"], mesh))
    >>> v.assign_add([1.0, 1.0]).layout.sharding_specs
    ['x']
    """

    __slots__ = ("_layout",)

    def __init__(
        self, initial_value: Any, *args: Any, layout: Layout | None = None, dtype: Any = None, **kwargs: Any
    ) -> None:
        if callable(initial_value) and not isinstance(initial_value, Variable):
            initial_value = initial_value()
        if not is_dtensor(initial_value):
            if layout is None:
                raise errors.invalid_argument("Neither layout nor DTensor initial value are provided.")
            initial_value = convert(initial_value, dtype)
        elif layout is not None and fetch_layout(initial_value) != layout:
            raise errors.invalid_argument(
                f"Conflicting layout are provided for initial value layout ({fetch_layout(initial_value)}) and "
                f"variable ({layout}). Change the layout of the value first: dtensor.relayout(value, layout)."
            )
        found = layout or fetch_layout(initial_value)
        super().__init__(relayout(initial_value, found), *args, **kwargs)
        self._layout = found

    @property
    def layout(self) -> Layout:
        """How it is sharded over the mesh."""
        return self._layout

    def _incoming(self, value: Any) -> Any:
        if isinstance(value, (Tensor, Variable)):
            require_one_mesh("AssignVariableOp", [self.storage.newest(), _array_of(value)])
        return super()._incoming(value)


_exchanges = itertools.count()
"""Numbers for the exchanges, the same in all processes, because a name is used once."""


class DTensorCheckpoint(Checkpoint):
    """`tf.train.Checkpoint` for sharded variables: it saves whole values and restores every variable in its own layout.

    With several processes all of them call `save`, and each writes its parts.

    >>> import gradtape as tf
    >>> dtensor = tf.experimental.dtensor
    >>> mesh = dtensor.create_mesh([("x", 1)], devices=["CPU:0"])
    >>> v = dtensor.DVariable(tf.constant([1.0, 2.0]), layout=dtensor.Layout(["x"], mesh))
    >>> checkpoint = dtensor.DTensorCheckpoint(mesh, v=v)
    """

    def __init__(self, mesh: Mesh, root: Any = None, **kwargs: Any) -> None:
        super().__init__(root, **kwargs)
        self._mesh = mesh

    def _store(self, prefix: str, tensors: dict[str, Any]) -> None:
        """Save tensors; with several processes, each writes its parts of divided tensors, and a share of the others."""
        count, number = processes.count(), processes.number()
        if count == 1:
            super()._store(prefix, tensors)
            return
        whole = [name for name, value in sorted(tensors.items()) if not isinstance(value, bundle.Slices)]
        others = {name for i, name in enumerate(whole) if i % count != number}
        own = {name: value for name, value in tensors.items() if name not in others}
        bundle.write_together(prefix, own, _group())

    def _alone_in(self, folder: str) -> AbstractContextManager[None]:
        """Lock the folder in the first process, for all of them."""
        return super()._alone_in(folder) if processes.number() == 0 else nullcontext()

    def _once(self, stage: str, work: Callable[[], None]) -> None:
        """Run `work` in the first process while the others wait; if it fails, all of them raise an error."""

        def if_first() -> bytes:
            if processes.number() == 0:
                work()
            return b""

        _group().agree(stage, if_first)


def _group() -> bundle.Group:
    """The group of all processes, for one exchange of each name."""
    told = f"gradtape/checkpoint/{next(_exchanges)}"
    return bundle.Group(
        processes.count(), processes.number(), lambda name, content: processes.exchange(f"{told}/{name}", content)
    )


class DTensorDataset:
    """A dataset whose batches are on a mesh, each component in its layout.

    >>> import gradtape as tf
    >>> dtensor = tf.experimental.dtensor
    >>> mesh = dtensor.create_mesh([("x", 1)], devices=["CPU:0"])
    >>> data = dtensor.DTensorDataset(
    ...     tf.data.Dataset.range(4), mesh=mesh, layouts=dtensor.Layout(["x"], mesh), global_batch_size=2
    ... )
    >>> [dtensor.unpack(batch)[0].numpy().tolist() for batch in data]
    [[0, 1], [2, 3]]
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        mesh: Mesh,
        layouts: Any,
        global_batch_size: int,
        dataset_already_batched: bool = False,
        batch_dim: str | None = None,
        prefetch: int | None = None,
    ) -> None:
        batched = dataset if dataset_already_batched else dataset.batch(global_batch_size, drop_remainder=True)
        self._dataset = batched.prefetch(prefetch) if prefetch else batched
        self._mesh, self._layouts = mesh, layouts

    def __iter__(self) -> Iterator[Any]:
        for batch in self._dataset:
            yield nest.map_structure(relayout, batch, self._layouts)

    def __len__(self) -> int:
        return len(self._dataset)

    @property
    def element_spec(self) -> Any:
        """Shapes and dtypes of the elements.

        >>> mesh = tf.experimental.dtensor.create_mesh([("batch", 1)], devices=["CPU:0"])
        >>> layout = tf.experimental.dtensor.Layout(["batch"], mesh)
        >>> dataset = tf.data.Dataset.range(4)
        >>> options = {"global_batch_size": 2, "mesh": mesh, "layouts": layout, "batch_dim": "batch"}
        >>> tf.experimental.dtensor.DTensorDataset(dataset, **options).element_spec
        TensorSpec(shape=(2,), dtype=tf.int64, name=None)
        """
        return self._dataset.element_spec
