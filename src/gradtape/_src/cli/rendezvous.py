"""How the launchers of several machines connect, and end and restart their processes together.

The launcher of node 0 listens at the rendezvous address; all launchers, including that one, connect to it and keep the
connection. A round begins when all have joined: each sends the addresses that its processes will use, and receives all
addresses. It ends when all processes have succeeded, or when the first one has failed. A closed connection means that a
node is lost. Messages are lines of JSON.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

_LOST = 255
"""The exit code of a group that has lost a node."""


class Server:
    """The server that all nodes connect to, in the launcher of node 0."""

    def __init__(self, port: int, nodes: int) -> None:
        self._listener = socket.create_server(("", port), backlog=nodes, reuse_port=False)
        self.port = int(self._listener.getsockname()[1])
        self._nodes = nodes
        self._lock = threading.Lock()
        self._connections: dict[int, socket.socket] = {}
        self._joined: dict[int, list[str]] = {}
        self._codes: dict[int, int] = {}
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # it is closed
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            node = self._messages_handled(connection)
            with self._lock:
                if node is not None and self._connections.get(node) is connection:
                    del self._connections[node]
                    self._joined.pop(node, None)
                    if self._codes.get(node) != 0:
                        self._send({"stop": _LOST})

    def _messages_handled(self, connection: socket.socket) -> int | None:
        """Handle the messages of a connection until it ends. Return the index of its node."""
        node = None
        with suppress(OSError, ValueError):
            for message in _messages(connection):
                node = int(message["node"])
                with self._lock:
                    self._connections[node] = connection
                    self._handle(node, message)
        return node

    def _handle(self, node: int, message: dict[str, Any]) -> None:
        if "join" in message:
            self._joined[node] = message["join"]
            if len(self._joined) == self._nodes:
                addresses = [self._joined[i] for i in sorted(self._joined)]
                self._joined, self._codes = {}, {}
                self._send({"begin": addresses})
        else:
            self._codes[node] = int(message["code"])
            if self._codes[node]:
                self._send({"stop": self._codes[node]})
            elif len(self._codes) == self._nodes and not any(self._codes.values()):
                self._send({"stop": 0})

    def _send(self, message: dict[str, Any]) -> None:
        for connection in self._connections.values():
            with suppress(OSError):
                _send(connection, message)

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()


class Node:
    """The connection of one launcher."""

    def __init__(self, host: str, port: int, node: int, patience: float = 300.0) -> None:
        self._node = node
        self._socket = _connected(host, port, patience)
        self.host = "127.0.0.1" if host in ("localhost", "127.0.0.1") else self._socket.getsockname()[0]
        self.stopped: int | None = None  # the exit code of the group, when the round is over
        self._begun: list[list[str]] | None = None
        self._changed = threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        try:
            for message in _messages(self._socket):
                with self._changed:
                    if "begin" in message:
                        self._begun, self.stopped = message["begin"], None
                    elif self.stopped is None:
                        self.stopped = int(message["stop"])
                    self._changed.notify_all()
        except (OSError, ValueError):
            pass
        with self._changed:
            self.stopped = _LOST if self.stopped is None else self.stopped
            self._changed.notify_all()

    def _say(self, **message: Any) -> None:
        try:
            _send(self._socket, {"node": self._node, **message})
        except OSError:
            with self._changed:
                self.stopped = _LOST

    def join(self, addresses: Sequence[str], patience: float = 300.0) -> list[list[str]] | None:
        """Begin a round with the addresses of this node's processes; return all addresses, or None after a timeout."""
        with self._changed:
            self._begun = None
        self._say(join=list(addresses))
        with self._changed:
            self._changed.wait_for(lambda: self._begun is not None, patience)
            return self._begun

    def end(self, code: int, patience: float = 60.0) -> int:
        """Report that the processes of this node have ended; return the exit code of the group."""
        self._say(code=code)
        with self._changed:
            self._changed.wait_for(lambda: self.stopped is not None, None if code == 0 else patience)
        return code if self.stopped is None else self.stopped

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def _messages(connection: socket.socket) -> Iterator[dict[str, Any]]:
    """The messages of a connection, until it ends. Only this function reads: Python's files for both directions of a
    socket drop buffered input when something is written to them.
    """
    with connection.makefile("r", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _send(connection: socket.socket, message: dict[str, Any]) -> None:
    connection.sendall((json.dumps(message) + "\n").encode())


def _connected(host: str, port: int, patience: float) -> socket.socket:
    limit = time.monotonic() + patience
    while True:
        try:
            return socket.create_connection((host, port), timeout=None)
        except OSError:
            if time.monotonic() > limit:
                raise
            time.sleep(0.2)
