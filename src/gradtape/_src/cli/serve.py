"""`gradtape serve`: serve a SavedModel with TensorFlow Serving's REST API, and a page to try it."""

from __future__ import annotations

import asyncio
import collections
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

import numpy as np

from gradtape._src import errors
from gradtape._src.cli import UsageError
from gradtape._src.cli.arguments import Parser, positive
from gradtape._src.cli.serving_http import Answer, Connection, Limits, Request, error_body
from gradtape._src.cli.serving_json import RequestError, columns, example_inputs, examples, parse, rows, tensors
from gradtape._src.cli.serving_models import Batching, Job, Model, Worker

__all__ = ["Api", "main"]

DESCRIPTION = """\
Serves a SavedModel, of gradtape or of TensorFlow, with TensorFlow Serving's REST API: predict, classify, regress,
metadata and status, for one version or several. MODEL_DIR is a SavedModel, or a folder of them whose names are numbers.
A page at / shows the signatures and has a form to try them."""

EPILOG = """\
examples:
  gradtape serve exported/mlp                         http://127.0.0.1:8501/v1/models/mlp:predict
  gradtape serve exported/mlp --name model --port 80
  gradtape serve exported/mlp --batch-window 2        requests within 2 ms are computed as one batch
  curl -d '{"instances": [[1.0, 2.0]]}' http://127.0.0.1:8501/v1/models/mlp:predict

The server listens on the loopback address, which only this machine reaches: there is no authentication."""

_PREDICTION = re.compile(r"/v1/models/([^/:]+)(?:/versions/(\d+)|/labels/[^/:]+)?:(classify|regress|predict)", re.I)
_STATUS = re.compile(r"/v1/models(?:/([^/:]+))?(?:/versions/(\d+))?(/metadata)?", re.I)
_STATUSES: list[tuple[type[Exception], int]] = [
    (errors.NotFoundError, 404), (errors.FailedPreconditionError, 412), (errors.ResourceExhaustedError, 429),
    (errors.UnimplementedError, 501), (errors.InvalidArgumentError, 400),
]  # fmt: skip

Done = Callable[[Answer], None]


class Api:
    """Handles the requests for one model."""

    def __init__(self, model: Model, batching: Batching | None = None, most_waiting: int = 1000) -> None:
        self.model = model
        self._finished: collections.deque[tuple[Done, Answer]] = collections.deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._worker = Worker(batching or Batching(), most_waiting, self._flush)

    def close(self) -> None:
        """Stop the worker thread."""
        self._worker.stop()

    def _flush(self) -> None:
        """Make the loop send the worker's finished responses."""
        if self._finished and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._send)

    def _send(self) -> None:
        while self._finished:
            done, answer = self._finished.popleft()
            done(answer)

    def handle(self, request: Request, done: Done) -> None:
        """Handle a request."""
        self._loop = self._loop or asyncio.get_running_loop()
        try:
            answer = self._answered(request, done)
        except RequestError as error:
            answer = Answer(error.status, error_body(str(error)))
        except Exception as error:
            answer = Answer(500, error_body(f"{type(error).__name__}: {error}"))
        if answer is not None:
            done(answer)

    def _answered(self, request: Request, done: Done) -> Answer | None:
        path = request.path.split("?")[0]
        _check_origin(request)
        if request.method == "POST" and (found := _PREDICTION.fullmatch(path)) is not None:
            name, version, method = found.groups()
            self._check_name(name, version)
            self._predict(method.lower(), _number(version), request.body, done)
            return None
        if request.method == "GET" and path in ("/", "/index.html"):
            return Answer(200, self._page(), "text/html; charset=utf-8")
        if request.method == "GET" and (found := _STATUS.fullmatch(path)) is not None:
            name, version, metadata = found.groups()
            if not name:
                raise RequestError("Missing model name in request.")
            self._check_name(name, version)
            made = self._metadata(_number(version)) if metadata else self._status(_number(version))
            return Answer(200, json.dumps(made, indent=1).encode())
        status = 400 if path.lower().startswith("/v1/") else 404
        status = status if request.method in ("GET", "POST") else 405
        raise RequestError(f"Malformed request: {request.method} {path}", status)

    def _check_name(self, name: str, version: str | None) -> None:
        if name != self.model.name:
            what = f"Latest({name})" if version is None else f"Specific({name}, {version})"
            raise RequestError(f"Servable not found for request: {what}", 404)

    # -- metadata ----------------------------------------------------------------------------------------------------
    def _status(self, number: int | None) -> dict[str, Any]:
        states = []
        if number is not None:
            self.model.version(number)
        for each in sorted(self.model.versions, reverse=True):
            if number in (None, each):
                status = {"error_code": "OK", "error_message": ""}
                states.append({"version": str(each), "state": "AVAILABLE", "status": status})
        for each, reason in self.model.failed.items():
            if number in (None, each):
                status = {"error_code": "INTERNAL", "error_message": reason}
                states.append({"version": str(each), "state": "END", "status": status})
        return {"model_version_status": states}

    def _metadata(self, number: int | None) -> dict[str, Any]:
        version = self.model.version(number)
        signatures = {key: each.description() for key, each in version.signatures.items()}
        spec = {"name": self.model.name, "signature_name": "", "version": str(version.number)}
        return {"model_spec": spec, "metadata": {"signature_def": {"signature_def": signatures}}}

    def _page(self) -> bytes:
        text = resources.files("gradtape._src.cli").joinpath("serve.html").read_text(encoding="utf-8")
        facts = json.dumps({"name": self.model.name, "folder": os.path.basename(self.model.folder)})
        return text.replace("/*FACTS*/null", facts.replace("<", "\\u003c")).encode()

    # -- predictions -------------------------------------------------------------------------------------------------
    def _predict(self, method: str, number: int | None, body: bytes, done: Done) -> None:
        request = parse(body)
        name = request.get("signature_name")
        if name is not None and not isinstance(name, str):
            raise RequestError("JSON Value: not formatted correctly. 'signature_name' key must be a string value.")
        signature = self.model.signature(number, name)
        if not signature.inputs and method != "predict":
            raise RequestError(f"Failed to get input map for signature: {name or 'DEFAULT'}")
        if method == "predict":
            arrays, by_rows = tensors(request, signature.inputs)
            write = rows if by_rows else columns
        else:
            arrays = example_inputs(examples(request, method), signature.inputs)
            write = _classified if method == "classify" else _regressed

        def finished(result: Any) -> None:
            self._finished.append((done, _written(result, write)))

        self._worker.add(Job(signature, arrays, finished))


def _written(result: Any, write: Callable[[dict[str, np.ndarray]], bytes]) -> Answer:
    try:
        if isinstance(result, Exception):
            raise result
        return Answer(200, write(result))
    except RequestError as error:
        return Answer(error.status, error_body(str(error)))
    except Exception as error:
        status = next((code for kind, code in _STATUSES if isinstance(error, kind)), 500)
        return Answer(status, error_body(f"{type(error).__name__}: {error}"))


def _classified(outputs: dict[str, np.ndarray]) -> bytes:
    """Classes and scores of each example; without classes labels are empty, as in TensorFlow Serving."""
    scores, classes = outputs.get("scores"), outputs.get("classes")
    if scores is None and classes is None:
        if len(outputs) != 1:
            raise RequestError(
                'Expected classification signature outputs to contain at least one of "classes" and "scores". '
                f"Signature outputs were: {', '.join(outputs)}"
            )
        (scores,) = outputs.values()
    given = [each for each in (scores, classes) if each is not None]
    if any(each.ndim != 2 for each in given):
        raise RequestError("Expected Tensor shape: [batch_size num_classes] for the outputs of a classification")
    shape = given[0].shape
    labels = np.full(shape, b"", object) if classes is None else classes
    numbers = np.zeros(shape, np.float32) if scores is None else scores
    results = [
        [[_label(label), float(str(np.float32(score)))] for label, score in zip(some, others, strict=True)]
        for some, others in zip(labels, numbers, strict=True)
    ]
    return json.dumps({"results": results}).encode()


def _label(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _regressed(outputs: dict[str, np.ndarray]) -> bytes:
    """One number for each example."""
    found = outputs.get("outputs") if "outputs" in outputs else next(iter(outputs.values()))
    if found is None or (len(outputs) != 1 and "outputs" not in outputs):
        raise RequestError('Expected regression signature outputs to contain "outputs"')
    if found.ndim not in (1, 2) or (found.ndim == 2 and found.shape[1] != 1):
        raise RequestError("Expected output Tensor shape to be either [batch_size] or [batch_size, 1]")
    return json.dumps({"results": [float(str(np.float32(each))) for each in found.ravel()]}).encode()


def _number(version: str | None) -> int | None:
    if version is None:
        return None
    if len(version) > 18:
        raise RequestError(f"Failed to convert version: {version[:40]} to numeric.")
    return int(version)


def _check_origin(request: Request) -> None:
    """Reject requests from pages of other sites."""
    origin, host = request.headers.get("origin"), request.headers.get("host")
    if origin is not None and origin.partition("://")[2] != host:
        raise RequestError("Requests from pages of other sites are refused.", 403)


# -- the command -----------------------------------------------------------------------------------------------------
def main(arguments: Sequence[str]) -> int:
    """Serve until the process receives a signal."""
    parser = Parser("serve", DESCRIPTION, EPILOG)
    parser.add_argument("folder", metavar="MODEL_DIR", help="a SavedModel, or a folder with numbered ones")
    parser.add_argument("--name", help="the model's name in addresses (the name of the folder)")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8501, help="the port (8501; 0 for any that is free)")
    parser.add_argument("--all-versions", action="store_true", help="serve all versions, not the latest alone")
    parser.add_argument("--poll", type=positive(float), metavar="SECONDS", help="look for new versions so often")
    parser.add_argument("--batch-window", type=positive(float), metavar="MS",
                        help="compute requests that arrive within so many milliseconds as one batch")  # fmt: skip
    parser.add_argument("--max-batch-size", type=positive(int), default=64, help="the rows of a batch (64)")
    parser.add_argument("--max-body", type=positive(float), default=32, metavar="MB", help="the largest request (32)")
    parser.add_argument("--timeout", type=positive(float), default=30, metavar="S", help="for one request (30)")
    options = parser.parse_args(list(arguments))
    folder = os.path.abspath(options.folder)
    name = options.name or os.path.basename(folder)
    if not re.fullmatch(r"[^/:]+", name):
        raise UsageError(f"{name!r} is no name for a model")
    try:
        model = Model(name, folder, options.all_versions)
    except (OSError, ValueError) as error:
        raise UsageError(str(error), status=1) from None
    limits = Limits(body=int(options.max_body * 2**20), seconds=options.timeout)
    batching = Batching((options.batch_window or 0) / 1000, int(options.max_batch_size))
    try:
        asyncio.run(_serve(Api(model, batching), options.host, options.port, limits, options.poll))
    except OSError as error:
        raise UsageError(f"cannot listen on {options.host}:{options.port}: {error.strerror or error}", 1) from None
    return 0


async def _serve(api: Api, host: str, port: int, limits: Limits, poll: float | None) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stop.set)
        except (NotImplementedError, RuntimeError):  # Windows, or not the main thread
            break
    server = await loop.create_server(lambda: Connection(api.handle, limits), host, port, backlog=1024)
    address = server.sockets[0].getsockname()
    versions = ", ".join(map(str, sorted(api.model.versions)))
    print(f"serving {api.model.name} (version {versions}) at http://{address[0]}:{address[1]}/", flush=True)
    refreshing = asyncio.create_task(_refresh(api.model, poll)) if poll else None
    try:
        async with server:
            await stop.wait()
    finally:
        if refreshing is not None:
            refreshing.cancel()
        api.close()
        print("gradtape: stopped", file=sys.stderr)


async def _refresh(model: Model, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        await asyncio.to_thread(model.refresh)
