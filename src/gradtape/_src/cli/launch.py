"""``gradtape launch``: several processes of one program, for `tf.distribute.MultiWorkerMirroredStrategy`."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import IO, Any

from gradtape._src.cli import UsageError

HELP = """\
usage: gradtape launch [--nproc N] [--max-restarts K] SCRIPT [ARG ...]
       gradtape launch [--nproc N] [--max-restarts K] -m MODULE [ARG ...]

Starts N processes of a program on this machine, as `gradtape run` does, with
TF_CONFIG set for tf.distribute.MultiWorkerMirroredStrategy. Each line of
output begins with the number of its process.

  --nproc N         how many processes (default: 2)
  --max-restarts K  after a process has failed, start all of them again, at
                    most K times (default: 0); GRADTAPE_RESTART counts

If a process fails, the others are ended, and its exit code is that of the
command. Interrupts and SIGTERM are passed on to all processes.
"""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PATIENCE = 10.0
"""Seconds between the request to end and the end by force."""


def main(arguments: Sequence[str]) -> int:
    """Start the processes and wait for them.

    >>> main(["--help"])  # doctest: +ELLIPSIS
    usage: gradtape launch ...
    0
    """
    if any(option in arguments[:1] for option in ("-h", "--help")):
        print(HELP, end="")
        return 0
    count, restarts, program = _parsed(list(arguments))
    for restart in range(restarts + 1):
        group = Group(program, count, restart)
        code = group.wait()
        if code == 0 or group.interrupted or restart == restarts:
            return code
        says = f"gradtape launch: a process failed with exit code {code}; restart {restart + 1} of {restarts}"
        print(says, file=sys.stderr)
    return 0


def _parsed(arguments: list[str]) -> tuple[int, int, list[str]]:
    numbers = {"--nproc": 2, "--max-restarts": 0}
    while arguments and arguments[0].partition("=")[0] in numbers:
        option, equals, value = arguments.pop(0).partition("=")
        if not equals:
            if not arguments:
                raise UsageError(f"{option} needs a number; try `gradtape launch --help`")
            value = arguments.pop(0)
        if not value.isdigit() or (option == "--nproc" and int(value) == 0):
            raise UsageError(f"{option} needs a number, not {value!r}")
        numbers[option] = int(value)
    if not arguments or (arguments[0].startswith("-") and arguments[0] != "-m"):
        raise UsageError("`launch` needs a script, or -m and a module; try `gradtape launch --help`")
    return numbers["--nproc"], numbers["--max-restarts"], arguments


class Group:
    """Processes that end together."""

    def __init__(self, program: Sequence[str], count: int, restart: int) -> None:
        self.interrupted = False
        addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]
        self._processes: list[subprocess.Popen[str]] = []
        self._readers: list[threading.Thread] = []
        for index in range(count):
            config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
            environment = {**os.environ, "TF_CONFIG": json.dumps(config), "GRADTAPE_RESTART": str(restart)}
            self._processes.append(
                subprocess.Popen(
                    [sys.executable, "-u", "-m", "gradtape", "run", *program],
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="replace",
                    start_new_session=True,  # signals of the terminal reach them through this process only
                )
            )
        for index, process in enumerate(self._processes):
            for source, target in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
                reader = threading.Thread(target=_copy_lines, args=(f"[{index}] ", source, target), daemon=True)
                reader.start()
                self._readers.append(reader)

    def wait(self) -> int:
        """Wait until all have ended, or one has failed; the first exit code that is not 0."""
        before = {number: signal.signal(number, self._forward) for number in _SIGNALS}
        try:
            codes = self._codes()
            while None in codes and not any(codes):
                time.sleep(0.05)
                codes = self._codes()
            failed = next((code for code in codes if code), 0)
        finally:
            self._end()
            for number, handler in before.items():
                signal.signal(number, handler)
        for reader in self._readers:
            reader.join(_PATIENCE)
        return 128 - failed if failed < 0 else failed

    def _codes(self) -> list[int | None]:
        """The exit codes of those that have ended, None for the others."""
        return [process.poll() for process in self._processes]

    def _forward(self, number: int, frame: Any) -> None:
        self.interrupted = True
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(number)

    def _end(self) -> None:
        """End those that still run: by request, and by force if they do not."""
        running = [process for process in self._processes if process.poll() is None]
        for process in running:
            process.terminate()
        limit = time.monotonic() + _PATIENCE
        for process in running:
            try:
                process.wait(max(0.0, limit - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _copy_lines(prefix: str, source: IO[str] | None, target: IO[str]) -> None:
    for line in source or ():
        target.write(prefix + (line if line.endswith("\n") else line + "\n"))
        target.flush()


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that nothing listens on.

    >>> len(set(free_ports(2)))
    2
    """
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()
