"""`tf.distribute`: one program on several replicas."""

import typing as _typing

from gradtape._src.distribute import (
    CrossDeviceOps as CrossDeviceOps,
    DistributedDataset as DistributedDataset,
    DistributedIterator as DistributedIterator,
    DistributedValues as DistributedValues,
    HierarchicalCopyAllReduce as HierarchicalCopyAllReduce,
    InputContext as InputContext,
    InputOptions as InputOptions,
    InputReplicationMode as InputReplicationMode,
    MirroredStrategy as MirroredStrategy,
    MultiWorkerMirroredStrategy as MultiWorkerMirroredStrategy,
    NcclAllReduce as NcclAllReduce,
    OneDeviceStrategy as OneDeviceStrategy,
    ParameterServerStrategy as ParameterServerStrategy,
    ReduceOp as ReduceOp,
    ReductionToOneDevice as ReductionToOneDevice,
    ReplicaContext as ReplicaContext,
    RunOptions as RunOptions,
    Server as Server,
    Strategy as Strategy,
    StrategyExtended as StrategyExtended,
    TPUStrategy as TPUStrategy,
    experimental_set_strategy as experimental_set_strategy,
    get_replica_context as get_replica_context,
    get_strategy as get_strategy,
    has_strategy as has_strategy,
    in_cross_replica_context as in_cross_replica_context,
)
from gradtape.distribute import (
    cluster_resolver as cluster_resolver,
    coordinator as coordinator,
    experimental as experimental,
)

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
