"""`tf.distribute`: one program on several replicas."""

from __future__ import annotations

from gradtape._src.distribute import (
    cluster_resolver as cluster_resolver,
    experimental as experimental,
    parameter_server as coordinator,
)
from gradtape._src.distribute.context import (
    experimental_set_strategy as experimental_set_strategy,
    get_replica_context as get_replica_context,
    get_strategy as get_strategy,
    has_strategy as has_strategy,
    in_cross_replica_context as in_cross_replica_context,
)
from gradtape._src.distribute.cross_device_ops import (
    CrossDeviceOps as CrossDeviceOps,
    HierarchicalCopyAllReduce as HierarchicalCopyAllReduce,
    NcclAllReduce as NcclAllReduce,
    ReductionToOneDevice as ReductionToOneDevice,
)
from gradtape._src.distribute.input import (
    DistributedDataset as DistributedDataset,
    DistributedIterator as DistributedIterator,
    InputContext as InputContext,
    InputOptions as InputOptions,
    InputReplicationMode as InputReplicationMode,
)
from gradtape._src.distribute.parameter_server import ParameterServerStrategy as ParameterServerStrategy
from gradtape._src.distribute.reduction import ReduceOp as ReduceOp
from gradtape._src.distribute.replica import ReplicaContext as ReplicaContext
from gradtape._src.distribute.server import Server as Server
from gradtape._src.distribute.strategy import (
    MirroredStrategy as MirroredStrategy,
    OneDeviceStrategy as OneDeviceStrategy,
    RunOptions as RunOptions,
    Strategy as Strategy,
    StrategyExtended as StrategyExtended,
    TPUStrategy as TPUStrategy,
)
from gradtape._src.distribute.values import DistributedValues as DistributedValues
from gradtape._src.distribute.workers import MultiWorkerMirroredStrategy as MultiWorkerMirroredStrategy

__all__ = [
    "CrossDeviceOps",
    "DistributedDataset",
    "DistributedIterator",
    "DistributedValues",
    "HierarchicalCopyAllReduce",
    "InputContext",
    "InputOptions",
    "InputReplicationMode",
    "MirroredStrategy",
    "MultiWorkerMirroredStrategy",
    "NcclAllReduce",
    "OneDeviceStrategy",
    "ParameterServerStrategy",
    "ReduceOp",
    "ReductionToOneDevice",
    "ReplicaContext",
    "RunOptions",
    "Server",
    "Strategy",
    "StrategyExtended",
    "TPUStrategy",
    "cluster_resolver",
    "coordinator",
    "experimental",
    "experimental_set_strategy",
    "get_replica_context",
    "get_strategy",
    "has_strategy",
    "in_cross_replica_context",
]
