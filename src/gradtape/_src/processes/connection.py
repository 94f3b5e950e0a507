"""The connection of processes that train together, through JAX's coordination service."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from threading import Thread
from typing import Any

from gradtape._src import errors
from gradtape._src.call_sites import logger
from gradtape._src.jax_setup import configure
from gradtape._src.processes import PATIENCE, coordinator
from gradtape._src.processes.peers import HEARTBEAT, Call, Peers
from gradtape._src.threads import start

_UNLIMITED = 7 * 24 * 3600
"""JAX's timeout, which ends the process: `_wait_for_all` has a shorter one of its own."""

_PORT = "gradtape/coordinator"
"""The key under which the coordinator publishes its port for connections."""

_held: list[Any] = []
"""The connection to the coordinator's process, and the process itself, if this one has started it."""


def connected(addresses: Sequence[str], worker: int) -> Peers | None:
    """Connect this process to the others; None if JAX is connected already, without gradtape."""
    if importlib.util.find_spec("jax") is None:
        raise ImportError(f"Several processes need JAX, which is not installed: {errors.install('xla')}")
    for address in addresses:
        _check(address)
    configure()
    import jax
    from jax._src import xla_bridge

    if jax.distributed.is_initialized():
        return None
    if xla_bridge.backends_are_initialized():
        raise RuntimeError(
            "Collective ops must be configured at program startup. Create the MultiWorkerMirroredStrategy before the "
            "first tensor that JAX computes."
        )
    settings: Any = jax.config
    settings.update("jax_cpu_collectives_implementation", "gloo")
    return _join(addresses, worker)


def _check(address: str) -> None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(
            "The address of a worker is a host and a port from 1 to 65535, such as 'localhost:2222'. Received: "
            f"{address!r}"
        )


def _join(addresses: Sequence[str], worker: int) -> Peers | None:
    """Do the work of `jax.distributed.initialize`, with the service in a separate process: see `coordinator.py`."""
    import jax
    from jax._src import distributed
    from jaxlib import _jax

    state: Any = distributed.global_state
    try:
        client = _jax.get_distributed_runtime_client(
            addresses[0],
            worker,
            init_timeout=_UNLIMITED,
            use_compression=True,
            heartbeat_timeout=HEARTBEAT,
            shutdown_timeout=HEARTBEAT,
        )
        fields = (state.client, state.coordinator_address, state.num_processes, state.process_id)
        assert fields[0] is None
    except (AttributeError, TypeError):  # another version of JAX
        jax.distributed.initialize(addresses[0], len(addresses), worker, heartbeat_timeout_seconds=HEARTBEAT)
        return None
    port = _start_service(addresses) if worker == 0 else ""
    _wait_for_all(client, addresses)
    state.client, state.coordinator_address = client, addresses[0]
    state.num_processes, state.process_id = len(addresses), worker
    if worker == 0:
        client.key_value_set(_PORT, port)
    with suppress(OSError):  # otherwise the service ends with the first process
        where = (addresses[0].rsplit(":", 1)[0], int(client.blocking_key_value_get(_PORT, 1000 * HEARTBEAT)))
        _held.append(socket.create_connection(where, HEARTBEAT))
    return Peers(client, len(addresses))


def _wait_for_all(client: Any, addresses: Sequence[str]) -> None:
    """Wait until all processes are connected; log a message if it takes long. An interrupt ends it."""
    connecting = Call(client.connect)
    start(Thread(target=connecting.run, name="gradtape-connect", daemon=True))
    is_done = connecting.done.acquire(timeout=HEARTBEAT)
    if not is_done:
        logger().warning(
            "Waiting for all of %d processes to connect to %s, up to %d seconds. Start those that are missing; every "
            "process has to reach this address.",
            len(addresses),
            addresses[0],
            PATIENCE,
        )
        is_done = connecting.done.acquire(timeout=PATIENCE - HEARTBEAT)
    if not is_done or connecting.error is not None:
        raise errors.DeadlineExceededError(
            None,
            None,
            f"Not all of {len(addresses)} processes have connected to {addresses[0]} within {PATIENCE} seconds. Start "
            "all of them with the same list of addresses, see whether a firewall closes the port, and read the output "
            f"of the first process. {connecting.error or ''}".strip(),
        ) from connecting.error


def _start_service(addresses: Sequence[str]) -> str:
    """Start the coordinator's process; return its port for connections."""
    port = addresses[0].rsplit(":", 1)[1]
    arguments = [coordinator.__file__, f"[::]:{port}", str(len(addresses)), str(HEARTBEAT)]
    service = subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.PIPE,  # the system closes it when this process ends
        stdout=subprocess.PIPE,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        text=True,
        start_new_session=True,  # not interrupted by the terminal
    )
    assert service.stdout is not None
    found = service.stdout.readline().strip()
    if not found:
        raise errors.UnknownError(
            None,
            None,
            f"Could not start gRPC server on port {port}, the one of the first worker: another program may listen "
            "there. Choose another port for the first address; `gradtape launch` chooses free ones.",
        )
    _held.append(service)
    return found
