"""Strategies with variables in one place: `CentralStorageStrategy`, and parameter servers, which are unsupported."""

import typing as _typing

from gradtape._src.distribute.parameter_server import (
    ClusterCoordinator as ClusterCoordinator,
    PerWorkerValue as PerWorkerValue,
    RemoteValue as RemoteValue,
    experimental_get_current_worker_index as experimental_get_current_worker_index,
)

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
