"""``gradtape launch``: start several processes of one program, for `tf.distribute.MultiWorkerMirroredStrategy`."""

from __future__ import annotations

import codecs
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple

from gradtape._src.cli import UsageError
from gradtape._src.cli.rendezvous import Node, Server
from gradtape._src.distribute.cluster_resolver import expand_hostlist
from gradtape._src.interrupts import contextmanager

HELP = """\
usage: gradtape launch [OPTION ...] SCRIPT [ARG ...]
       gradtape launch [OPTION ...] -m MODULE [ARG ...]

Starts processes of a program, as `gradtape run` does, with TF_CONFIG set for
tf.distribute.MultiWorkerMirroredStrategy. Each line of output begins with
the number of its process. Process 0 alone shows a progress bar of `fit`.

  --nproc N             how many processes on this machine (default: 2)
  --logs FOLDER         write the output of process 1 to FOLDER/worker-1.log,
                        and so on; that of process 0 is shown, too
  --max-restarts K      after a process has failed, start all of them again, at
                        most K times (default: 0); GRADTAPE_RESTART counts

On several machines, start it on each of them:

  --nnodes M            how many machines (default: 1)
  --node-rank R         which of them this is, from 0
  --rendezvous HOST:PORT  where they meet: an address of machine 0

What is not given is taken from the variables of SLURM (start it once on each
node: srun --ntasks-per-node=1 gradtape launch ...) and of Kubernetes (indexed
jobs; MASTER_ADDR, MASTER_PORT and NNODES or WORLD_SIZE have to be set).

If a process fails, all others are ended, on all machines, and its exit code is
that of the command. SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are passed on
to all processes of this machine.
"""

_ENDING = (signal.SIGINT, signal.SIGTERM)
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
                 if hasattr(signal, name))  # fmt: skip
_PATIENCE = 10.0
"""The seconds between a request to end and termination by force."""

_NOTICE = 1.0
"""The seconds for the other processes to notice that one is lost, and to end by themselves."""


class Plan(NamedTuple):
    """The processes to start.

    nodes, node  the number of machines, and the index of this one
    host, port   the address where the launchers meet
    """

    program: list[str]
    processes: int = 2
    restarts: int = 0
    nodes: int = 1
    node: int = 0
    host: str = "127.0.0.1"
    port: int = 0
    logs: str | None = None


def main(arguments: Sequence[str]) -> int:
    """Start the processes and wait for them.

    >>> main(["--help"])  # doctest: +ELLIPSIS
    usage: gradtape launch ...
    0
    """
    if any(option in arguments[:1] for option in ("-h", "--help")):
        print(HELP, end="")
        return 0
    plan = parsed(list(arguments), os.environ)
    if plan.logs is not None:
        _make_folder(plan.logs)
    server = Server(plan.port, plan.nodes) if plan.nodes > 1 and plan.node == 0 else None
    node = Node(plan.host, plan.port, plan.node) if plan.nodes > 1 else None
    try:
        return _rounds(plan, node)
    finally:
        if node is not None:
            node.close()
        if server is not None:
            time.sleep(_NOTICE)  # the others read the end of the last round
            server.close()


def _rounds(plan: Plan, node: Node | None) -> int:
    """Start the group, and restart it after a failure; return its exit code."""
    for restart in range(plan.restarts + 1):
        with free_ports(plan.processes) as ports:
            own = [f"{'127.0.0.1' if node is None else node.host}:{port}" for port in ports]
            everywhere = [own] if node is None else node.join(own)
            if everywhere is None:
                print(f"gradtape launch: not all of the {plan.nodes} machines have connected", file=sys.stderr)
                return 1
            group = Group(plan, everywhere, restart, None if node is None else lambda: node.stopped is not None)
            code = group.wait()
        code = code if node is None else node.end(code)
        if code == 0 or group.interrupted or restart == plan.restarts:
            return code
        says = f"gradtape launch: a process failed with exit code {code}; restart {restart + 1} of {plan.restarts}"
        print(says, file=sys.stderr)
    return 0


# -- options ---------------------------------------------------------------------------------------------------------
_NUMBERS = {"--nproc": "processes", "--max-restarts": "restarts", "--nnodes": "nodes", "--node-rank": "node"}
_TEXTS = {"--logs": "logs", "--rendezvous": "rendezvous"}


def parsed(arguments: list[str], environment: Mapping[str, str]) -> Plan:
    """The plan that options and the variables of a cluster describe.

    >>> parsed(["--nproc", "4", "train.py", "--fast"], {})[:2]
    (['train.py', '--fast'], 4)
    """
    given: dict[str, Any] = {}
    while arguments and arguments[0].partition("=")[0] in {**_NUMBERS, **_TEXTS}:
        option, equals, value = arguments.pop(0).partition("=")
        if not equals:
            if not arguments:
                raise UsageError(f"{option} needs a value; try `gradtape launch --help`")
            value = arguments.pop(0)
        if option in _NUMBERS and (not value.isdigit() or (option in ("--nproc", "--nnodes") and int(value) == 0)):
            raise UsageError(f"{option} needs a number, not {value!r}")
        given[{**_NUMBERS, **_TEXTS}[option]] = int(value) if option in _NUMBERS else value
    if not arguments or (arguments[0].startswith("-") and arguments[0] != "-m"):
        raise UsageError("`launch` needs a script, or -m and a module; try `gradtape launch --help`")
    return _completed(arguments, given, environment)


def _completed(program: list[str], given: dict[str, Any], environment: Mapping[str, str]) -> Plan:
    found = {**_from_slurm(environment), **_from_kubernetes(environment)} if "nodes" not in given else {}
    meeting = given.pop("rendezvous", None) or found.pop("rendezvous", None)
    found.pop("rendezvous", None)
    plan = Plan(program)._replace(**found)._replace(**given)
    if plan.node >= plan.nodes:
        raise UsageError(
            f"--node-rank {plan.node} is out of range for {plan.nodes} machines, which are numbered from 0"
        )
    if plan.nodes == 1:
        return plan
    host, colon, port = (meeting or "").rpartition(":")
    if not colon or not port.isdigit():
        raise UsageError(f"--nnodes {plan.nodes} needs --rendezvous HOST:PORT, an address of machine 0")
    return plan._replace(host=host, port=int(port))


def _from_slurm(environment: Mapping[str, str]) -> dict[str, Any]:
    """The nodes of a SLURM job, which starts this command once on each of them."""
    nodes = environment.get("SLURM_STEP_NUM_NODES") or environment.get("SLURM_NNODES")
    hosts = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST")
    if not nodes or not hosts or "SLURM_NODEID" not in environment:
        return {}
    port = 20000 + int(environment.get("SLURM_JOB_ID", "0")) % 20000
    first = expand_hostlist(hosts)[0]
    return {"nodes": int(nodes), "node": int(environment["SLURM_NODEID"]), "rendezvous": f"{first}:{port}"}


def _from_kubernetes(environment: Mapping[str, str]) -> dict[str, Any]:
    """The pods of an indexed job, or of a training operator."""
    rank = environment.get("JOB_COMPLETION_INDEX") or environment.get("RANK")
    nodes = environment.get("NNODES") or environment.get("PET_NNODES") or environment.get("WORLD_SIZE")
    host, port = environment.get("MASTER_ADDR"), environment.get("MASTER_PORT")
    if rank is None or nodes is None or host is None or not nodes.isdigit():
        return {}
    return {"nodes": int(nodes), "node": int(rank), "rendezvous": f"{host}:{port or 29400}"}


# -- processes -------------------------------------------------------------------------------------------------------
class Group:
    """The processes of this machine, which end together."""

    def __init__(
        self, plan: Plan, addresses: list[list[str]], restart: int, is_over: Callable[[], bool] | None = None
    ) -> None:
        self.interrupted = False
        self._is_over = is_over or (lambda: False)
        everywhere = [address for node in addresses for address in node]
        first = sum(map(len, addresses[: plan.node]))
        self._processes: list[subprocess.Popen[bytes]] = []
        self._readers: list[threading.Thread] = []
        self._files = ExitStack()
        try:
            for index in range(first, first + plan.processes):
                config = {"cluster": {"worker": everywhere}, "task": {"type": "worker", "index": index}}
                environment = {
                    **os.environ,
                    "TF_CONFIG": json.dumps(config),
                    "GRADTAPE_RESTART": str(restart),
                    "GRADTAPE_PROGRESS": "1" if index == 0 else "0",
                }
                self._start(plan, index, environment)
        except BaseException:  # processes that have started would wait for the others
            self._end()
            self._close()
            raise

    def _start(self, plan: Plan, index: int, environment: dict[str, str]) -> None:
        log = None if plan.logs is None else self._files.enter_context(_log(plan.logs, index))
        shown = _terminal() if index == 0 else None
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "gradtape", "run", *plan.program],
            env=environment,
            stdout=subprocess.PIPE if shown is None else shown[1],
            stderr=subprocess.PIPE,
            start_new_session=True,  # signals of the terminal reach them only through this process
        )
        self._processes.append(process)
        for pipe in (process.stdout, process.stderr):
            self._files.enter_context(pipe or nullcontext())
        if shown is not None:
            os.close(shown[1])
        quiet = log is not None and index != 0
        outputs = (process.stdout.fileno() if process.stdout else shown[0] if shown else -1, sys.stdout)
        errors = (process.stderr.fileno() if process.stderr else -1, sys.stderr)
        for source, target in (outputs, errors):
            is_terminal = shown is not None and target is sys.stdout
            copier = _Copier(f"[{index}] ", source, None if quiet else target, log, is_terminal)
            reader = threading.Thread(target=copier.run, daemon=True)
            reader.start()
            self._readers.append(reader)

    def wait(self) -> int:
        """Wait until all have ended, or one has failed, here or elsewhere; return the first nonzero exit code."""
        before = {number: signal.signal(number, self._forward) for number in _SIGNALS}
        try:
            codes = self._codes()
            while None in codes and not any(codes) and not self._is_over():
                time.sleep(0.05)
                codes = self._codes()
            failed = next((code for code in codes if code), 0)
        finally:
            self._end()
            for number, handler in before.items():
                signal.signal(number, handler)
        self._close()
        return 128 - failed if failed < 0 else failed

    def _close(self) -> None:
        """Close the files after the last output is copied."""
        for reader in self._readers:
            reader.join(_PATIENCE)
        if not any(reader.is_alive() for reader in self._readers):  # one may have left a child behind
            self._files.close()

    def _codes(self) -> list[int | None]:
        """The exit codes of processes that have ended, None for others."""
        return [process.poll() for process in self._processes]

    def _forward(self, number: int, frame: Any) -> None:
        self.interrupted = self.interrupted or number in _ENDING
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(number)

    def _end(self) -> None:
        """End the running processes: after time to notice by themselves, by request, and finally by force."""
        limit = time.monotonic() + _NOTICE
        while None in self._codes() and time.monotonic() < limit and not self.interrupted:
            time.sleep(0.05)
        running = [process for process in self._processes if process.poll() is None]
        for process in running:
            process.terminate()
            if hasattr(signal, "SIGCONT"):  # so that a stopped process ends as well
                process.send_signal(signal.SIGCONT)
        limit = time.monotonic() + _PATIENCE
        for process in running:
            try:
                process.wait(max(0.0, limit - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


_writing = threading.Lock()
"""Python's text files are not thread-safe: long lines of two processes would be mixed."""


# -- output ----------------------------------------------------------------------------------------------------------
class _Copier:
    """Copies the output of a process line by line, prefixed with the number of the process.

    The output of a terminal is copied unchanged: progress lines are rewritten again and again.
    """

    def __init__(self, prefix: str, source: int, target: Any, log: Any, is_terminal: bool) -> None:
        self._prefix, self._source, self._target, self._log = prefix, source, target, log
        self._is_terminal = is_terminal
        self._rest, self._begins = "", True

    def run(self) -> None:
        """Copy up to the end."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        with suppress(OSError):  # a terminal whose process has ended
            while data := os.read(self._source, 65536):
                self._add(decoder.decode(data).replace("\r\n", "\n"))
        if self._rest or not self._begins:
            self._write(self._rest + "\n")

    def _add(self, text: str) -> None:
        if self._is_terminal:
            self._write(text)
            return
        whole, newline, self._rest = (self._rest + text).rpartition("\n")
        if newline:
            self._write(whole + newline)

    def _write(self, text: str) -> None:
        for target, prefix in ((self._log, ""), (self._target, self._prefix)):
            if target is not None:
                with _writing:
                    target.write("".join(self._numbered(text, prefix)))
                    target.flush()
        self._begins = text.endswith(("\n", "\r"))

    def _numbered(self, text: str, prefix: str) -> Iterator[str]:
        begins = self._begins
        for line in text.splitlines(keepends=True):
            yield prefix + line if begins else line
            begins = line.endswith(("\n", "\r"))


def _terminal() -> tuple[int, int] | None:
    """Both ends of a terminal for process 0, so that it shows progress as usual, if there is a terminal here."""
    if not sys.stdout.isatty():
        return None
    try:
        import pty
    except ImportError:  # not on this system
        return None
    return pty.openpty()


def _make_folder(logs: str) -> None:
    try:
        Path(logs).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--logs needs a folder that can be written to: {error}") from None


def _log(folder: str, index: int) -> Any:
    return Path(folder, f"worker-{index}.log").open("a", encoding="utf-8")


@contextmanager
def free_ports(count: int) -> Iterator[list[int]]:
    """Ports that nothing listens on. The first stays reserved in the block, for JAX's service, which can share it.

    >>> with free_ports(2) as ports:
    ...     len(set(ports))
    2
    """
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        if hasattr(socket, "SO_REUSEPORT"):
            sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        for each in sockets:
            each.bind(("", 0))
        ports = [int(each.getsockname()[1]) for each in sockets]
        for each in sockets[1:] if hasattr(socket, "SO_REUSEPORT") else sockets:
            each.close()
        yield ports
