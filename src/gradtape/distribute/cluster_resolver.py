"""`tf.distribute.cluster_resolver`: classes that find out the cluster of a process, and its task."""

import typing as _typing

from gradtape._src.distribute.cluster_resolver import (
    ClusterResolver as ClusterResolver,
    GCEClusterResolver as GCEClusterResolver,
    KubernetesClusterResolver as KubernetesClusterResolver,
    KubernetesExecutableLocation as KubernetesExecutableLocation,
    SimpleClusterResolver as SimpleClusterResolver,
    SlurmClusterResolver as SlurmClusterResolver,
    TFConfigClusterResolver as TFConfigClusterResolver,
    TPUClusterResolver as TPUClusterResolver,
    UnionResolver as UnionResolver,
)

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
