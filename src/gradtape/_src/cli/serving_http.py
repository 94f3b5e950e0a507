"""A small HTTP server: limits on size and time, responses in order, persistent connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Answer", "Connection", "Limits", "Request"]

REASONS = {
    200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
    408: "Request Timeout", 411: "Length Required", 412: "Precondition Failed", 413: "Payload Too Large",
    429: "Too Many Requests", 431: "Request Header Fields Too Large", 500: "Internal Server Error",
    501: "Not Implemented", 504: "Gateway Timeout",
}  # fmt: skip


class Limits(NamedTuple):
    """Limits: bytes of head and body, seconds to receive and to compute a request, and to stay idle."""

    head: int = 65_536
    body: int = 32 * 2**20
    seconds: float = 30.0
    idle: float = 60.0


class Request(NamedTuple):
    """A received request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Answer(NamedTuple):
    """A response."""

    status: int
    body: bytes
    kind: str = "application/json"


class BadRequestError(Exception):
    """An invalid request; the connection is closed after the response."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


Handler = Callable[[Request, Callable[[Answer], None]], None]
"""Handles a request by calling a function once, immediately or later, in the thread of the loop."""


def error_body(message: str) -> bytes:
    """An error in TensorFlow Serving's format."""
    import json

    return json.dumps({"error": message}).encode()


class Connection(asyncio.Protocol):
    """One connection: its requests are handled in order, one at a time."""

    def __init__(self, handler: Handler, limits: Limits) -> None:
        self._handler, self._limits = handler, limits
        self._data = bytearray()
        self._transport: Any = None
        self._busy = self._closing = False
        self._body: _Body | None = None
        self._head: tuple[str, str, dict[str, str]] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._number = 0

    # -- events ------------------------------------------------------------------------------------------------------
    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._wait(self._limits.idle, self._transport.close)

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        self._number += 1  # responses from now on are dropped
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        if not self._data and self._head is None and not self._busy:
            self._wait(self._limits.seconds, self._too_slow)
        self._data += data
        if self._busy and len(self._data) > self._limits.head + self._limits.body:
            self._transport.pause_reading()
        self._advance()

    def eof_received(self) -> bool:
        return self._busy  # the current response is still sent

    # -- parsing -----------------------------------------------------------------------------------------------------
    def _advance(self) -> None:
        """Remove the next request from the data, if it is complete."""
        if self._busy or self._closing:
            return
        try:
            if self._head is None:
                self._head = self._next_head()
                if self._head is None:
                    return
                self._body = _Body(self._head[0], self._head[2], self._limits.body)
                if self._head[2].get("expect", "").lower() == "100-continue":
                    self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            assert self._body is not None
            content = self._body.take(self._data)
            if content is None:
                return
        except BadRequestError as error:
            self._finish(Answer(error.status, error_body(str(error))), keep=False)
            return
        method, path, headers = self._head
        self._head = self._body = None
        keep = headers.get("connection", "").lower() != "close" and headers.get(":version") != "HTTP/1.0"
        self._answer(Request(method, path, headers, content), keep)

    def _next_head(self) -> tuple[str, str, dict[str, str]] | None:
        while self._data.startswith(b"\r\n"):
            del self._data[:2]
        end = self._data.find(b"\r\n\r\n")
        if end < 0:
            if len(self._data) > self._limits.head:
                raise BadRequestError(431, "The head of the request is too large.")
            return None
        if end > self._limits.head:
            raise BadRequestError(431, "The head of the request is too large.")
        head = bytes(self._data[:end])
        del self._data[: end + 4]
        return _parsed_head(head)

    def _answer(self, request: Request, keep: bool) -> None:
        self._busy = True
        self._number += 1
        number = self._number

        def done(answer: Answer) -> None:
            if number == self._number and self._busy:
                self._finish(answer, keep)

        message = f"The request took longer than {self._limits.seconds:g} seconds."
        self._wait(self._limits.seconds, lambda: done(Answer(504, error_body(message))))
        self._handler(request, done)

    def _finish(self, answer: Answer, keep: bool) -> None:
        """Send a response, and continue with the next request."""
        state = "keep-alive" if keep else "close"
        head = (
            f"HTTP/1.1 {answer.status} {REASONS.get(answer.status, 'Error')}\r\nContent-Type: {answer.kind}\r\n"
            f"Content-Length: {len(answer.body)}\r\nConnection: {state}\r\nX-Content-Type-Options: nosniff\r\n\r\n"
        )
        self._transport.write(head.encode("latin-1") + answer.body)
        self._busy = False
        self._number += 1
        if not keep:
            self._closing = True
            self._transport.close()
            return
        self._transport.resume_reading()
        self._wait(self._limits.seconds if self._data else self._limits.idle, self._too_slow)
        if self._data:
            asyncio.get_running_loop().call_soon(self._advance)

    # -- timeouts ----------------------------------------------------------------------------------------------------
    def _wait(self, seconds: float, late: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, late)

    def _too_slow(self) -> None:
        if self._busy or self._closing:
            return
        if self._data or self._head is not None:
            self._finish(Answer(408, error_body("The request did not arrive in time.")), keep=False)
        else:
            self._transport.close()


def _parsed_head(head: bytes) -> tuple[str, str, dict[str, str]]:
    lines = head.split(b"\r\n")
    try:
        method, path, version = lines[0].decode("ascii").split(" ")
    except ValueError:
        raise BadRequestError(400, "Malformed request line.") from None
    if version not in ("HTTP/1.1", "HTTP/1.0"):
        raise BadRequestError(400, f"Malformed request: version {version[:40]!r}")
    headers = {":version": version}
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        if not colon or not name or name != name.strip():
            raise BadRequestError(400, "Malformed request: a header without a name or a value.")
        key = name.decode("latin-1").lower()
        text = value.strip().decode("latin-1")
        if key == "content-length" and headers.get(key, text) != text:
            raise BadRequestError(400, "Malformed request: two lengths.")
        headers[key] = text
    return method, path, headers


class _Body:
    """The body of a request, with a declared length, or in chunks."""

    def __init__(self, method: str, headers: dict[str, str], most: int) -> None:
        self._most, self._parts = most, bytearray()
        coding = headers.get("transfer-encoding", "").lower()
        length = headers.get("content-length")
        if coding and (coding != "chunked" or length is not None):
            raise BadRequestError(400, f"Malformed request: transfer coding {coding[:40]!r}")
        self._chunked = bool(coding)
        if length is None and not coding and method in ("POST", "PUT", "PATCH"):
            raise BadRequestError(411, "The request has no Content-Length.")
        if length is not None and not (length.isascii() and length.isdecimal() and len(length) < 16):
            raise BadRequestError(400, f"Malformed request: Content-Length {length[:40]!r}")
        self._length = int(length or 0)
        if self._length > most:
            raise BadRequestError(413, f"The body has {self._length} bytes, but the limit is {most}.")

    def take(self, data: bytearray) -> bytes | None:
        """The body, removed from the data; None if it is incomplete."""
        if not self._chunked:
            if len(data) < self._length:
                return None
            found = bytes(data[: self._length])
            del data[: self._length]
            return found
        while True:
            end = data.find(b"\r\n")
            if end < 0:
                if len(data) > 1024:
                    raise BadRequestError(400, "Malformed request: a chunk without a size.")
                return None
            size = self._size(bytes(data[:end]))
            if len(data) < end + 4 + size:
                return None
            self._parts += data[end + 2 : end + 2 + size]
            if data[end + 2 + size : end + 4 + size] != b"\r\n":
                raise BadRequestError(400, "Malformed request: a chunk of another size than declared.")
            del data[: end + 4 + size]
            if not size:
                return bytes(self._parts)

    def _size(self, text: bytes) -> int:
        digits = text.split(b";")[0].strip()
        if not digits or len(digits) > 8 or not all(c in b"0123456789abcdefABCDEF" for c in digits):
            raise BadRequestError(400, "Malformed request: a chunk without a size.")
        size = int(digits, 16)
        if len(self._parts) + size > self._most:
            raise BadRequestError(413, f"The body has more than {self._most} bytes.")
        return size
