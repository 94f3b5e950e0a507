"""Strategies with variables in one place: `CentralStorageStrategy`, and parameter servers, which are refused."""

from gradtape._src.distribute.parameter_server import (
    ClusterCoordinator as ClusterCoordinator,
    PerWorkerValue as PerWorkerValue,
    RemoteValue as RemoteValue,
    experimental_get_current_worker_index as experimental_get_current_worker_index,
)
