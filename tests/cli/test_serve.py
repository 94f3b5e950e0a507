"""`gradtape serve`: TensorFlow Serving's REST API over a SavedModel."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import shutil
import socket
import threading
from pathlib import Path

import browser
import numpy as np
import pytest

import gradtape as tf
from gradtape._src.cli.main import main
from gradtape._src.cli.serve import Api
from gradtape._src.cli.serving_http import Connection, Limits
from gradtape._src.cli.serving_models import Batching, Model

MODELS = Path(__file__).parent.parent / "saved_model" / "models"
LIMITS = Limits(head=4096, body=20_000, seconds=5.0, idle=5.0)


class Server:
    """A server in a thread."""

    def __init__(self, folder, limits=LIMITS, **options):
        self.api = Api(Model("m", str(folder), options.pop("all_versions", False)), **options)
        self._limits, self._loop, ready = limits, asyncio.new_event_loop(), threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait()

    def _run(self, ready):
        asyncio.set_event_loop(self._loop)
        make = self._loop.create_server(lambda: Connection(self.api.handle, self._limits), "127.0.0.1", 0)
        self._server = self._loop.run_until_complete(make)
        self.port = self._server.sockets[0].getsockname()[1]
        ready.set()
        self._loop.run_forever()

    def close(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._server.close()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()
        self.api.close()

    def raw(self, data):
        """The status and body of the first answer to these bytes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as connection:
            connection.sendall(data)
            return read_answer(connection.makefile("rb"))

    def post(self, path, body, **headers):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.raw(request(path, data, **headers))

    def get(self, path, **headers):
        return self.raw(request(path, b"", "GET", **headers))


def request(path, body, method="POST", **headers):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def read_answer(file):
    status = int(file.readline().split()[1])
    length = 0
    while (line := file.readline().strip()) != b"":
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    body = file.read(length)
    return status, json.loads(body) if body.startswith(b"{") else body


@pytest.fixture(scope="module")
def server():
    found = Server(MODELS / "affine")
    yield found
    found.close()


@pytest.fixture(scope="module")
def signature(server):
    return server.api.model.signature(None, "serving_default")


def instance(signature, rows=2):
    rng = np.random.default_rng(0)
    sizes = {name: [n or rows for n in spec.shape.as_list()] for name, spec in signature.inputs.items()}
    return {name: rng.normal(size=size).astype("float32") for name, size in sizes.items()}


def test_rows_and_columns(server, signature):
    arrays = instance(signature)
    expected = signature.run(arrays)
    lists = {name: array.tolist() for name, array in arrays.items()}
    status, found = server.post("/v1/models/m:predict", {"inputs": lists})
    assert status == 200
    outputs = found["outputs"] if len(expected) > 1 else {next(iter(expected)): found["outputs"]}
    for name, value in expected.items():
        np.testing.assert_allclose(outputs[name], value, rtol=1e-6)
    instances = [{name: lists[name][i] for name in lists} for i in range(2)]
    status, found = server.post("/v1/models/m/versions/1:predict", {"instances": instances})
    assert status == 200
    for i, row in enumerate(found["predictions"]):
        for name, value in expected.items():
            np.testing.assert_allclose(row[name] if len(expected) > 1 else row, value[i], rtol=1e-6)


def test_what_there_is(server, signature):
    status, found = server.get("/v1/models/m")
    assert status == 200
    assert found["model_version_status"] == [
        {"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    ]
    status, found = server.get("/v1/models/m/metadata")
    assert found["model_spec"] == {"name": "m", "signature_name": "", "version": "1"}
    described = found["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert set(described["inputs"]) == set(signature.inputs)
    assert next(iter(described["inputs"].values()))["dtype"] == "DT_FLOAT"
    status, page = server.get("/")
    assert status == 200
    assert b'"name": "m"' in page
    assert b"/*FACTS*/" not in page


ERRORS = [
    ("/v1/models/m:predict", b"", 400, "JSON Parse error: The document is empty"),
    ("/v1/models/m:predict", b"[1]", 400, "JSON Value: [1] Is not object"),
    ("/v1/models/m:predict", b"{", 400, "JSON Parse error: "),
    ("/v1/models/m:predict", b"\xff", 400, "JSON Parse error: "),
    ("/v1/models/m:predict", b"[" * 9000, 400, "JSON Parse error: "),
    ("/v1/models/m:predict", b'{"a": 1}', 400, "Missing 'inputs' or 'instances' key"),
    ("/v1/models/m:predict", b'{"instances": 1}', 400, "Excepting 'instances' to be an list/array"),
    ("/v1/models/m:predict", b'{"instances": []}', 400, "No values in 'instances' array"),
    ("/v1/models/m:predict", b'{"instances": [1], "inputs": 1}', 400, "expecting only one of 'inputs' or 'instances'"),
    (
        "/v1/models/m:predict",
        b'{"signature_name": 3, "inputs": 1}',
        400,
        "'signature_name' key must be a string value.",
    ),
    ("/v1/models/m:predict", b'{"signature_name": "q", "inputs": 1}', 400, 'name: "q" not found in signature def'),
    ("/v1/models/q:predict", b'{"inputs": 1}', 404, "Servable not found for request: Latest(q)"),
    ("/v1/models/m/versions/7:predict", b'{"inputs": 1}', 404, "Servable not found for request: Specific(m, 7)"),
    ("/v1/models/m/versions/" + "9" * 30 + ":predict", b'{"inputs": 1}', 400, "Failed to convert version: "),
    ("/v1/models/m:guess", b"{}", 400, "Malformed request: POST /v1/models/m:guess"),
    ("/other", b"{}", 404, "Malformed request: POST /other"),
    ("/v1/models/m:classify", b"{}", 400, "key 'examples' is expected and was not found"),
    ("/v1/models/m:classify", b'{"examples": [1]}', 400, "Example must be JSON object but got JSON Number"),
]


@pytest.mark.parametrize(("path", "body", "status", "message"), ERRORS)
def test_errors(server, path, body, status, message):
    found, answer = server.post(path, body)
    assert found == status
    assert message in answer["error"]


def malformed(count):
    """Requests that no server may take: at the level of HTTP, of JSON, and of tensors."""
    rng = random.Random(3)
    good = json.dumps({"inputs": [[1.0, 2.0], [3.5, -4.0]], "signature_name": "serving_default"}).encode()
    path = "/v1/models/m:predict"
    values = [None, True, "text", {"b64": "!"}, {"a": 1}, [[[[[1.0]]]]], [[1.0], [1.0, 2.0]], 10**400, [None], [[]], {}]
    while count:
        kind = rng.randrange(6)
        if kind == 0:
            yield request(path, good[: rng.randrange(len(good))])
        elif kind == 1:
            yield request(path, json.dumps({rng.choice(["inputs", "instances"]): rng.choice(values)}).encode())
        elif kind == 2:
            at = rng.randrange(len(good))
            yield request(path, good[:at] + rng.choice([b"\x00", b"\xfe", b"}", b"]", b"\\"]) + good[at:] + b"{")
        elif kind == 3:
            yield request(
                rng.choice(["/v1/models/m", "/v1", "*", "/v1/models/m:Predict:", "/%00", "/v1/models//x"]), good
            )
        elif kind == 4:
            line = (
                bytes(rng.randrange(1, 256) for _ in range(rng.randrange(1, 40)))
                .replace(b"\r", b"")
                .replace(b"\n", b"")
            )
            yield line + b"\r\n\r\n"
        else:
            length = rng.choice(["-1", "x", "1e3", "99999999", "1, 2", "9" * 40, " "])
            yield f"POST {path} HTTP/1.1\r\nContent-Length: {length}\r\n\r\n".encode() + good
        count -= 1


def test_malformed_requests(server):
    for data in malformed(500):
        status, answer = server.raw(data)
        assert 400 <= status < 500, (status, answer, data[:200])
        assert set(answer) == {"error"}
    assert server.get("/v1/models/m")[0] == 200


def test_limits(server):
    assert server.post("/v1/models/m:predict", b" " * 30_000)[0] == 413
    assert server.raw(b"GET / HTTP/1.1\r\nA: " + b"a" * 5000 + b"\r\n\r\n")[0] == 431
    assert server.raw(b"POST / HTTP/1.1\r\n\r\n")[0] == 411
    assert server.raw(b"DELETE /v1/models/m HTTP/1.1\r\n\r\n")[0] == 405
    assert server.get("/v1/models/m", Origin="http://elsewhere.example")[0] == 403


def test_slow_clients_and_slow_models(server):
    slow = Server(MODELS / "affine", Limits(seconds=0.2, idle=0.2))
    try:
        assert slow.raw(b"POST /v1/models/m:predict HTTP/1.1\r\nContent-Length: 100\r\n\r\n{")[0] == 408
        signature = slow.api.model.signature(None, None)
        gate, run = threading.Event(), signature.run
        signature.run = lambda arrays: gate.wait() and run(arrays)
        lists = {name: array.tolist() for name, array in instance(signature).items()}
        status, answer = slow.post("/v1/models/m:predict", {"inputs": lists})
        gate.set()
        assert (status, answer["error"]) == (504, "The request took longer than 0.2 seconds.")
        signature.run = run
        assert slow.post("/v1/models/m:predict", {"inputs": lists})[0] == 200
    finally:
        slow.close()


def test_chunks_and_requests_in_a_row(server, signature):
    lists = {name: array.tolist() for name, array in instance(signature).items()}
    body = json.dumps({"inputs": lists}).encode()
    chunked = (
        f"{20:x}\r\n".encode() + body[:20] + b"\r\n" + f"{len(body) - 20:x}\r\n".encode() + body[20:] + b"\r\n0\r\n\r\n"
    )
    head = b"POST /v1/models/m:predict HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall((head + chunked) * 2 + request("/v1/models/m:predict", body))
        file = connection.makefile("rb")
        answers = [read_answer(file) for _ in range(3)]
    assert [status for status, _ in answers] == [200] * 3
    assert answers[0] == answers[1] == answers[2]


@pytest.fixture(scope="module")
def texts():
    found = Server(MODELS / "vocabulary")
    yield found
    found.close()


def test_strings(texts):
    signatures = texts.api.model.version(None).signatures
    key = next(k for k, s in signatures.items() if [i.dtype.name for i in s.inputs.values()] == ["string"])
    plain = texts.post("/v1/models/m:predict", {"signature_name": key, "instances": ["red", "pink"]})
    encoded = [{"b64": base64.b64encode(each).decode()} for each in (b"red", b"pink")]
    assert plain == texts.post("/v1/models/m:predict", {"signature_name": key, "instances": encoded})
    assert plain[0] == 200
    status, answer = texts.post("/v1/models/m:predict", {"signature_name": key, "instances": [{"b64": "?"}]})
    assert (status, "Unable to base64 decode" in answer["error"]) == (400, True)
    status, answer = texts.post("/v1/models/m:predict", {"signature_name": key, "instances": [3]})
    assert "Type: Number is not of expected type: string" in answer["error"]


def test_versions(tmp_path):
    for number in (1, 2):
        shutil.copytree(MODELS / "affine", tmp_path / str(number))
    latest = Model("m", str(tmp_path))
    assert list(latest.versions) == [2]
    shutil.copytree(MODELS / "affine", tmp_path / "10")
    latest.refresh()
    assert list(latest.versions) == [10]
    assert list(Model("m", str(tmp_path), all_versions=True).versions) == [1, 2, 10]
    with pytest.raises(ValueError, match="cannot be served"):
        Model("m", str(tmp_path / "none"))


def test_batches_give_each_request_its_rows(signature):
    batching = Server(MODELS / "affine", batching=Batching(0.02, 16))
    try:
        rows, answers = [instance(signature, n) for n in (1, 2, 3, 1, 2)], {}

        def ask(i):
            lists = {name: array.tolist() for name, array in rows[i].items()}
            answers[i] = batching.post("/v1/models/m:predict", {"inputs": lists})

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(rows))]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        for i, arrays in enumerate(rows):
            status, found = answers[i]
            expected = signature.run(arrays)
            outputs = found["outputs"] if len(expected) > 1 else {next(iter(expected)): found["outputs"]}
            assert status == 200
            for name, value in expected.items():
                np.testing.assert_allclose(outputs[name], value, rtol=1e-5, atol=1e-6)
    finally:
        batching.close()


@pytest.mark.slow
def test_ten_thousand_requests_from_32_connections(server, signature):
    lists = {name: array.tolist() for name, array in instance(signature, 1).items()}
    data = request("/v1/models/m:predict", json.dumps({"inputs": lists}).encode())
    counts = [0] * 32
    answers = set()

    def ask(number):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
            file = connection.makefile("rb")
            for _ in range(10_000 // 32 + (number < 10_000 % 32)):
                connection.sendall(data)
                status, body = read_answer(file)
                counts[number] += status == 200
                answers.add(json.dumps(body))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(32)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sum(counts) == 10_000
    assert len(answers) == 1


def test_the_command_says_what_is_wrong(tmp_path, capsys):
    assert main(["serve", str(tmp_path)]) == 1
    assert "contains neither a SavedModel nor directories 1, 2, ..." in capsys.readouterr().err
    assert main(["serve", str(MODELS / "affine"), "--name", "a/b"]) == 2
    assert "is no name for a model" in capsys.readouterr().err


@pytest.mark.skipif(browser.executable() is None, reason="there is no Chromium here")
def test_the_form_of_the_page_works(tmp_path):
    """The sample request of every signature is one that the model takes, in a real browser."""

    class Wide(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 20, 3], tf.float32, name="x")])
        def __call__(self, x):
            return tf.reduce_sum(x, [1, 2])

    tf.saved_model.save(Wide(), str(tmp_path / "m"))
    server = Server(tmp_path / "m")
    try:
        with browser.Browser(width=390) as page:
            page.call("Page.navigate", url=f"http://127.0.0.1:{server.port}/")
            page.until("document.querySelectorAll('section').length > 0")
            page.run("document.querySelector('form button').click()")
            page.until("document.querySelector('pre').textContent.length > 0")
            assert page.run("document.querySelector('pre').textContent").startswith("200")
            assert page.run("document.documentElement.scrollWidth <= window.innerWidth")
            page.run("document.querySelector('textarea').value = '{'; document.querySelector('form button').click()")
            page.until("document.querySelector('pre').className === 'bad'")
            assert "JSON Parse error" in page.run("document.querySelector('pre').textContent")
    finally:
        server.close()
