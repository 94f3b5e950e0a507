"""Processes that train together: how they connect to one another, and what they tell one another.

They communicate through JAX: arrays by its collectives, and a few words through its coordination service.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from gradtape._src.errors import install
from gradtape._src.jax_setup import configure
from gradtape._src.processes import coordinator

HEARTBEAT = 10
"""Seconds after which a process that has not been heard of is lost."""

_PATIENCE = 300
"""Seconds in which all processes have to start."""

_PORT = "gradtape/coordinator"
"""The key of the service under which its port for connections is."""

_held: list[Any] = []
"""The connection to the process of the service, and the process, if this one has started it."""


def connect(addresses: Sequence[str], worker: int) -> None:
    if importlib.util.find_spec("jax") is None:
        raise ImportError(f"Several processes need JAX, which is not installed: {install('xla')}.")
    configure()
    import jax

    if jax.distributed.is_initialized():
        return
    settings: Any = jax.config
    settings.update("jax_cpu_collectives_implementation", "gloo")
    try:
        _join(addresses, worker)
    except RuntimeError as error:
        raise RuntimeError(
            "Collective ops must be configured at program startup. Create the MultiWorkerMirroredStrategy before the "
            f"first tensor that JAX computes. JAX says: {error}"
        ) from None


def _join(addresses: Sequence[str], worker: int) -> None:
    """What `jax.distributed.initialize` does, with the service in a process of its own: see `coordinator.py`."""
    import jax
    from jax._src import distributed, xla_bridge
    from jaxlib import _jax

    if xla_bridge.backends_are_initialized():
        raise RuntimeError("it has computed something.")
    state: Any = distributed.global_state
    try:
        client = _jax.get_distributed_runtime_client(
            addresses[0],
            worker,
            init_timeout=_PATIENCE,
            use_compression=True,
            heartbeat_timeout=HEARTBEAT,
            shutdown_timeout=HEARTBEAT,
        )
        fields = (state.client, state.coordinator_address, state.num_processes, state.process_id)
        assert fields[0] is None
    except (AttributeError, TypeError):  # another version of JAX
        jax.distributed.initialize(addresses[0], len(addresses), worker, heartbeat_timeout_seconds=HEARTBEAT)
        return
    port = _start_service(addresses) if worker == 0 else ""
    client.connect()
    state.client, state.coordinator_address = client, addresses[0]
    state.num_processes, state.process_id = len(addresses), worker
    if worker == 0:
        client.key_value_set(_PORT, port)
    with suppress(OSError):  # then the service ends with the first process
        where = (addresses[0].rsplit(":", 1)[0], int(client.blocking_key_value_get(_PORT, 1000 * HEARTBEAT)))
        _held.append(socket.create_connection(where, HEARTBEAT))


def _start_service(addresses: Sequence[str]) -> str:
    """Start the process of the service; the port that processes hold a connection to."""
    port = addresses[0].rsplit(":", 1)[1]
    arguments = [coordinator.__file__, f"[::]:{port}", str(len(addresses)), str(HEARTBEAT)]
    service = subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.PIPE,  # which the system closes when this process ends
        stdout=subprocess.PIPE,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
        text=True,
        start_new_session=True,  # an interrupt of the terminal is not for it
    )
    assert service.stdout is not None
    found = service.stdout.readline().strip()
    if not found:
        raise RuntimeError(f"its coordination service does not start on port {port}.")
    _held.append(service)
    return found


# -- what processes tell one another ---------------------------------------------------------------------------------
def client() -> Any:
    """The connection to the service that all processes share; None in a process that is alone."""
    if "jax" not in sys.modules:
        return None
    from jax._src import distributed

    return distributed.global_state.client


def number() -> int:
    """The number of this process."""
    if client() is None:
        return 0
    from jax._src import distributed

    return int(distributed.global_state.process_id)


def count() -> int:
    """How many processes there are."""
    if client() is None:
        return 1
    from jax._src import distributed

    return int(distributed.global_state.num_processes)


def exchange(name: str, content: bytes) -> list[bytes]:
    """What all processes give under a name that is used once, in the order of their numbers."""
    if count() == 1:
        return [content]
    client().key_value_set_bytes(f"{name}/{number()}", content)
    return [bytes(client().blocking_key_value_get_bytes(f"{name}/{i}", 1000 * _PATIENCE)) for i in range(count())]


def publish(key: str, value: str) -> None:
    """Let all processes read a value; the first one that is published stays."""
    with suppress(Exception):  # there is one
        client().key_value_set(key, value)


def published(key: str) -> str | None:
    """A value that a process has published."""
    try:
        return str(client().key_value_try_get(key))
    except Exception:  # there is none
        return None


def wait_for_all(name: str) -> None:
    """Until all processes are here."""
    if client() is not None:
        client().wait_at_barrier(name.replace("/", "_"), 1000 * _PATIENCE)
