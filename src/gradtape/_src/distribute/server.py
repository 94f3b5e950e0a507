"""`tf.distribute.Server`: a task of a cluster at its address. It runs nothing: see `join`."""

from __future__ import annotations

import socket
import weakref
from dataclasses import dataclass
from typing import Any, NoReturn

from gradtape._src import errors
from gradtape._src.cluster_spec import ClusterSpec

__all__ = ["Server"]


@dataclass
class ServerDef:
    """The cluster and the task of a server."""

    cluster: ClusterSpec
    job_name: str
    task_index: int = 0
    protocol: str = "grpc"
    default_session_config: Any = None


class Server:
    """A task of a cluster, which listens on its address.

    TensorFlow's servers run ops that other processes send them, for parameter servers and TensorFlow 1 sessions.
    gradtape has neither: its workers run the program themselves. A server knows which task it is and holds the port;
    `join` raises an error that says what to use instead.

    >>> import gradtape as tf
    >>> server = tf.distribute.Server({"worker": ["localhost:2222"]}, start=False)
    >>> server.target, server.server_def.job_name
    ('grpc://localhost:2222', 'worker')
    >>> local = tf.distribute.Server.create_local_server(start=False)
    >>> local.start()
    >>> local.join()
    Traceback (most recent call last):
    gradtape.errors.UnimplementedError: Server.join: no process sends ops to the task localhost 0 of a cluster, ...
    """

    def __init__(
        self,
        server_or_cluster_def: Any,
        job_name: str | None = None,
        task_index: int | None = None,
        protocol: str | None = None,
        config: Any = None,
        start: bool = True,
    ) -> None:
        self._def = _server_def(server_or_cluster_def, job_name, task_index, protocol, config)
        spec = self._def.cluster
        if self._def.job_name not in spec.jobs:
            raise errors.InternalError(None, None, f'Job "{self._def.job_name}" was not defined in cluster')
        if self._def.task_index not in spec.task_indices(self._def.job_name):
            raise errors.InternalError(
                None, None, f'Task {self._def.task_index} was not defined in job "{self._def.job_name}"'
            )
        self._address = spec.task_address(self._def.job_name, self._def.task_index)
        self._socket: socket.socket | None = None
        if start:
            self.start()

    @property
    def server_def(self) -> Any:
        """The cluster, the job and the number of the task."""
        return self._def

    @property
    def target(self) -> str:
        """The address, as TensorFlow 1's sessions take it."""
        return f"{self._def.protocol}://{self._address}"

    @staticmethod
    def create_local_server(config: Any = None, start: bool = True) -> Server:
        """Create a server of this process alone, on a free port."""
        return Server({"localhost": ["localhost:0"]}, protocol="grpc", config=config, start=start)

    def start(self) -> None:
        """Listen at the address."""
        if self._socket is not None:
            return
        host, _, port = self._address.rpartition(":")
        if not port.isdecimal():
            raise errors.InvalidArgumentError(
                None, None, f"Could not parse port for local server from {self._address}."
            )
        try:
            self._socket = socket.create_server((host, int(port)))
        except OSError as error:
            raise errors.UnknownError(None, None, f"Could not start gRPC server: {self._address}: {error}") from error
        weakref.finalize(self, self._socket.close)
        self._address = f"{host}:{self._socket.getsockname()[1]}"

    def join(self) -> NoReturn:
        """Raise an error: it would wait for ops from other processes, which gradtape never sends."""
        raise errors.UnimplementedError(
            None,
            None,
            f"Server.join: no process sends ops to the task {self._def.job_name} {self._def.task_index} of a cluster, "
            "because gradtape has no parameter servers. Let every process run the training program under "
            "tf.distribute.MultiWorkerMirroredStrategy: `gradtape launch --nproc N train.py` starts them.",
        )


def _server_def(
    given: Any, job_name: str | None, task_index: int | None, protocol: str | None, config: Any
) -> ServerDef:
    """The cluster and the task that were given; the only job and its first task are the defaults."""
    if isinstance(given, ServerDef):
        index = given.task_index if task_index is None else task_index
        return ServerDef(
            given.cluster, job_name or given.job_name, index, protocol or given.protocol,
            given.default_session_config if config is None else config,
        )  # fmt: skip
    try:
        spec = ClusterSpec(given)
    except TypeError:
        raise TypeError(
            "Could not convert `server_or_cluster_def` to a `tf.train.ServerDef` or `tf.train.ClusterSpec`. Received: "
            f"{given!r}"
        ) from None
    if job_name is None:
        if len(spec.jobs) != 1:
            raise ValueError("Must specify an explicit `job_name`.")
        (job_name,) = spec.jobs
    if task_index is None:
        indices = spec.task_indices(job_name) if job_name in spec.jobs else [0]
        if len(indices) != 1:
            raise ValueError("Must specify an explicit `task_index`.")
        (task_index,) = indices
    return ServerDef(spec, job_name, task_index, protocol or "grpc", config)
