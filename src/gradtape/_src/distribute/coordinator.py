"""The process in which JAX's coordination service runs, for processes that train together.

The first of them starts it. Were the service a part of that process, JAX would end all others when it is killed. So
they live on, and learn of the loss by an error of their next reduction. It needs nothing but jaxlib, and ends a while
after its standard input is closed, which happens when the process that started it has ended in any way.
"""

from __future__ import annotations

import sys
import time


def main(address: str, processes: int, heartbeat: int) -> None:
    """Run the service until the process that started it has ended."""
    from jaxlib import _jax

    service = _jax.get_distributed_runtime_service(
        address, processes, heartbeat_timeout=heartbeat, shutdown_timeout=heartbeat, recoverable=True
    )
    print("ready", flush=True)
    sys.stdin.read()
    time.sleep(2 * heartbeat)  # the others may be about to find out
    service.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
