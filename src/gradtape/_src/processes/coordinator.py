"""The process with JAX's coordination service, for processes that train together.

The first of them starts it. If the service ran inside that process, JAX would end all others when it exits or is
killed. This way they survive, and an error of their next reduction tells them about the loss. It needs only jaxlib.
Every process holds a connection to it, which the system closes when the process ends for any reason; when the last one
is closed, the service ends.
"""

from __future__ import annotations

import os
import selectors
import socket
import sys
import threading


def main(address: str, processes: int, heartbeat: int) -> None:
    """Run the service until all processes have ended."""
    from jaxlib import _jax

    service = _jax.get_distributed_runtime_service(
        address, processes, heartbeat_timeout=heartbeat, shutdown_timeout=heartbeat, recoverable=True
    )
    listener = socket.create_server(("", 0), backlog=processes)
    print(listener.getsockname()[1], flush=True)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)  # the first process's stderr, whose end a launcher would wait for
    os.close(nowhere)
    parent = threading.Thread(target=sys.stdin.read, daemon=True)  # ends with the process that started this one
    parent.start()
    wait_for_all(listener, parent, heartbeat)
    service.shutdown()


def wait_for_all(listener: socket.socket, parent: threading.Thread, heartbeat: float) -> None:
    """Wait until the parent has ended and there has been no connection for the time of a heartbeat."""
    connections = selectors.DefaultSelector()
    connections.register(listener, selectors.EVENT_READ)
    quiet = False
    while not quiet:
        events = connections.select(timeout=heartbeat)
        for key, _ in events:
            if key.fileobj is listener:
                connections.register(listener.accept()[0], selectors.EVENT_READ)
            else:
                connections.unregister(key.fileobj)
                key.fileobj.close()  # type: ignore[union-attr]
        quiet = not events and not parent.is_alive() and len(connections.get_map()) == 1


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
