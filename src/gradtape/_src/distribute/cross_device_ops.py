"""TensorFlow's names for ways to reduce over devices. They are accepted; XLA and NumPy compute the reductions."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from gradtape._src.distribute.reduction import as_reduce_op, reduced
from gradtape._src.distribute.values import PerReplica


class CrossDeviceOps:
    """Reduces the values of replicas.

    >>> strategy = tf.distribute.MirroredStrategy(["CPU:0"], cross_device_ops=tf.distribute.ReductionToOneDevice())
    >>> isinstance(tf.distribute.ReductionToOneDevice(), tf.distribute.CrossDeviceOps)
    True

    >>> ops = tf.distribute.ReductionToOneDevice()
    >>> [float(x) for x in ops.batch_reduce("SUM", [(tf.constant(1.0), "CPU:0"), (tf.constant(2.0), "CPU:0")])]
    [1.0, 2.0]
    >>> float(ops.broadcast(tf.constant(3.0), "CPU:0"))
    3.0
    """

    def reduce(self, reduce_op: Any, per_replica_value: Any, destinations: Any, options: Any = None) -> Any:
        """Compute the sum or mean of a value over replicas.

        >>> import gradtape as tf
        >>> tf.distribute.ReductionToOneDevice().reduce("sum", tf.constant(2.0), "/CPU:0").numpy()
        np.float32(2.0)
        """
        value = per_replica_value
        return reduced(as_reduce_op(reduce_op), value.parts if isinstance(value, PerReplica) else [value])

    def batch_reduce(self, reduce_op: Any, value_destination_pairs: Sequence[Any], options: Any = None) -> list[Any]:
        """Reduce several values."""
        return [self.reduce(reduce_op, value, destination) for value, destination in value_destination_pairs]

    def broadcast(self, tensor: Any, destinations: Any) -> Any:
        """Copy a tensor to all devices."""
        return tensor


class ReductionToOneDevice(CrossDeviceOps):
    """Accepted for `cross_device_ops`; XLA and NumPy compute the reductions.

    >>> tf.distribute.MirroredStrategy(["CPU:0"], tf.distribute.ReductionToOneDevice()).num_replicas_in_sync
    1
    """

    def __init__(self, reduce_to_device: Any = None, accumulation_fn: Any = None) -> None:
        self.reduce_to_device, self.accumulation_fn = reduce_to_device, accumulation_fn


class _AllReduce(CrossDeviceOps):
    _called = ""

    def __init__(self, num_packs: int = 1) -> None:
        if num_packs < 0:
            raise ValueError(f"{self._called} requires num_packs >= 0, but {num_packs} is specified")
        self._num_packs = num_packs


class NcclAllReduce(_AllReduce):
    """Accepted for `cross_device_ops`; XLA and NumPy compute the reductions.

    >>> tf.distribute.MirroredStrategy(["CPU:0"], tf.distribute.NcclAllReduce()).num_replicas_in_sync
    1
    """

    _called = "NCCL all-reduce"


class HierarchicalCopyAllReduce(_AllReduce):
    """Accepted for `cross_device_ops`; XLA and NumPy compute the reductions.

    >>> tf.distribute.MirroredStrategy(["CPU:0"], tf.distribute.HierarchicalCopyAllReduce()).num_replicas_in_sync
    1
    """

    _called = "HierarchicalCopy"


class CommunicationImplementation(Enum):
    """Accepted for `CommunicationOptions`; XLA chooses.

    >>> tf.distribute.experimental.CollectiveCommunication.RING.name
    'RING'
    """

    AUTO = "AUTO"
    RING = "RING"
    NCCL = "NCCL"


class CommunicationOptions:
    """Options of communication, which are accepted and have no effect.

    >>> import gradtape as tf
    >>> tf.distribute.experimental.CommunicationOptions(bytes_per_pack=2**20).bytes_per_pack
    1048576
    """

    def __init__(
        self,
        bytes_per_pack: int = 0,
        timeout_seconds: float | None = None,
        implementation: Any = CommunicationImplementation.AUTO,
    ) -> None:
        if bytes_per_pack < 0:
            raise ValueError(f"Argument `bytes_per_pack` must be >=0, Received {bytes_per_pack}.")
        if isinstance(implementation, str):
            implementation = CommunicationImplementation(implementation.upper())
        if not isinstance(implementation, CommunicationImplementation):
            raise ValueError(
                "Argument `implementation` must be instance of "
                "`tf.distribute.experimental.CommunicationImplementation`."
            )
        self.bytes_per_pack, self.timeout_seconds, self.implementation = bytes_per_pack, timeout_seconds, implementation
