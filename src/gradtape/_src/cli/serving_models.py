"""The models of `gradtape serve`: their versions and signatures, and one worker thread.

A request is a job of that thread. With a batching window, jobs for the same signature that arrive within it are
computed as one batch.
"""

from __future__ import annotations

import collections
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradtape._src import errors
from gradtape._src.cli.serving_json import RequestError, kind_of
from gradtape._src.conversion import wrap
from gradtape._src.function.function import Function
from gradtape._src.saved_model.functions import ConcreteFunction
from gradtape._src.saved_model.load import contains_saved_model, load
from gradtape._src.shape import TensorSpec

__all__ = ["Batching", "Job", "Model", "Signature", "Worker"]

DEFAULT = "serving_default"


class Signature:
    """A function of a model, by its name in requests."""

    def __init__(self, name: str, concrete: ConcreteFunction) -> None:
        self.name, self._concrete = name, concrete
        self.inputs: dict[str, TensorSpec] = dict(sorted(concrete.structured_input_signature[1].items()))
        self.outputs: dict[str, TensorSpec] = dict(concrete.structured_outputs)
        specs = [*self.inputs.values(), *self.outputs.values()]
        self.is_batchable = bool(self.inputs) and all(s.shape.rank and s.shape[0] is None for s in specs)
        self._function = Function(self._called, jit_compile=False) if self._has_program() else self._called

    def _has_program(self) -> bool:
        """Whether its ops can be one NumPy program: not strings, and not a stored program."""
        specs = [*self.inputs.values(), *self.outputs.values()]
        return not self._concrete.has_stored_programs and all(s.dtype.name != "string" for s in specs)

    def _called(self, *tensors: Any) -> list[Any]:
        found = self._concrete(**dict(zip(self.inputs, tensors, strict=True)))
        return [found[name] for name in self.outputs]

    def run(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs for arrays, by name."""
        try:
            found = self._function(*(wrap(arrays[name]) for name in self.inputs))
        except (TypeError, ValueError, errors.InvalidArgumentError) as error:
            raise RequestError(str(error)) from error
        return {name: np.asarray(each.array) for name, each in zip(self.outputs, found, strict=True)}

    def description(self) -> dict[str, Any]:
        """The signature in TensorFlow Serving's format."""
        return {
            "inputs": {name: _tensor_info(spec, f"{self.name}_{name}:0") for name, spec in self.inputs.items()},
            "outputs": {
                name: _tensor_info(spec, f"StatefulPartitionedCall:{i}")
                for i, (name, spec) in enumerate(self.outputs.items())
            },
            "method_name": "tensorflow/serving/predict",
            "defaults": {},
        }


def _tensor_info(spec: TensorSpec, name: str) -> dict[str, Any]:
    sizes = [] if spec.shape.rank is None else spec.shape.as_list()
    dims = [{"size": str(-1 if n is None else n), "name": ""} for n in sizes]
    shape = {"dim": dims, "unknown_rank": spec.shape.rank is None}
    return {"dtype": kind_of(spec.dtype), "tensor_shape": shape, "name": name}


class Version(NamedTuple):
    """A version of a model: its number, the object that was loaded, and its signatures."""

    number: int
    loaded: Any
    signatures: dict[str, Signature]


class Model:
    """A model and its versions: a SavedModel, or a folder of SavedModels with numbers as names."""

    def __init__(self, name: str, folder: str, all_versions: bool = False) -> None:
        self.name, self.folder, self._all = name, folder, all_versions
        self.versions: dict[int, Version] = {}
        self.failed: dict[int, str] = {}
        self.refresh()
        if not self.versions:
            reason = next(
                iter(self.failed.values()), "it contains neither a SavedModel nor directories 1, 2, ... with one"
            )
            raise ValueError(f"{folder!r} cannot be served: {reason}")

    def _folders(self) -> dict[int, str]:
        """The folders of the versions to serve."""
        if contains_saved_model(self.folder):
            return {1: self.folder}
        names = os.listdir(self.folder) if os.path.isdir(self.folder) else []
        found = {int(n): os.path.join(self.folder, n) for n in names if n.isdecimal()}
        found = {number: path for number, path in sorted(found.items()) if contains_saved_model(path)}
        return found if self._all else dict(list(found.items())[-1:])

    def refresh(self) -> None:
        """Load new versions; when they are ready, drop those that were removed."""
        wanted = self._folders()
        for number, path in wanted.items():
            if number in self.versions or number in self.failed:
                continue
            try:
                loaded = load(path)
                signatures = {key: Signature(key, each) for key, each in loaded.signatures.items()}
                self.versions = {**self.versions, number: Version(number, loaded, signatures)}
            except Exception as error:
                self.failed[number] = f"{type(error).__name__}: {error}"
        kept = {number: version for number, version in self.versions.items() if number in wanted}
        self.versions = kept or self.versions

    def version(self, number: int | None) -> Version:
        """A version, or the latest one."""
        versions = self.versions
        if number is None:
            return versions[max(versions)]
        if number not in versions:
            raise RequestError(f"Servable not found for request: Specific({self.name}, {number})", 404)
        return versions[number]

    def signature(self, number: int | None, name: Any) -> Signature:
        """A signature of a version."""
        signatures = self.version(number).signatures
        wanted = name or DEFAULT
        if wanted not in signatures:
            raise RequestError(f'Serving signature name: "{wanted}" not found in signature def')
        return signatures[wanted]


class Job:
    """A computation: `done` is called in the worker's thread with the outputs or the exception."""

    __slots__ = ("arrays", "done", "signature")

    def __init__(self, signature: Signature, arrays: dict[str, np.ndarray], done: Callable[[Any], None]) -> None:
        self.signature, self.arrays, self.done = signature, arrays, done

    @property
    def batch_key(self) -> Any:
        """A key that is equal for jobs that can be batched; None if batching is impossible."""
        if not self.signature.is_batchable:
            return None
        sizes = {len(array) for array in self.arrays.values()}
        if len(sizes) != 1:
            return None
        return id(self.signature), tuple((array.shape[1:], array.dtype) for array in self.arrays.values())

    @property
    def rows(self) -> int:
        """The number of its rows in a batch."""
        return len(next(iter(self.arrays.values())))


class Batching(NamedTuple):
    """The seconds in which jobs join a batch (0: no batching), and the largest number of rows of a batch."""

    window: float = 0.0
    most_rows: int = 64


class Worker:
    """The thread that computes; `flush` is called after each round, when responses can be sent."""

    def __init__(self, batching: Batching, most_waiting: int, flush: Callable[[], None]) -> None:
        self._batching, self._most_waiting, self._flush = batching, most_waiting, flush
        self._jobs: collections.deque[Job] = collections.deque()
        self._there = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name="gradtape-serve", daemon=True)
        self._thread.start()

    def add(self, job: Job) -> None:
        """Queue a job."""
        with self._there:
            if len(self._jobs) >= self._most_waiting:
                raise RequestError("Too many requests are waiting: try again later.", 429)
            self._jobs.append(job)
            self._there.notify()

    def stop(self) -> None:
        """Stop the thread after the queued jobs."""
        with self._there:
            self._stopped = True
            self._there.notify()
        self._thread.join()

    def _work(self) -> None:
        while (jobs := self._next()) is not None:
            for batch in self._batches(jobs):
                _compute(batch)
            self._flush()

    def _next(self) -> list[Job] | None:
        """The queued jobs, after the batching window; None at the end."""
        with self._there:
            while not self._jobs:
                if self._stopped:
                    return None
                self._there.wait()
        if self._batching.window:
            end = time.monotonic() + self._batching.window
            while len(self._jobs) < self._batching.most_rows and (left := end - time.monotonic()) > 0:
                time.sleep(min(left, 0.0005))
        found = []
        while self._jobs:
            found.append(self._jobs.popleft())
        return found

    def _batches(self, jobs: Sequence[Job]) -> list[list[Job]]:
        if not self._batching.window:
            return [[job] for job in jobs]
        batches: list[list[Job]] = []
        open_batches: dict[Any, list[Job]] = {}
        for job in jobs:
            key = job.batch_key
            batch = None if key is None else open_batches.get(key)
            if batch is None or sum(each.rows for each in batch) + job.rows > self._batching.most_rows:
                batch = []
                batches.append(batch)
                if key is not None:
                    open_batches[key] = batch
            batch.append(job)
        return batches


def _compute(batch: list[Job]) -> None:
    """Compute jobs as one batch; if that fails, one by one, so that each gets its own error."""
    try:
        if len(batch) == 1:
            batch[0].done(batch[0].signature.run(batch[0].arrays))
            return
        signature = batch[0].signature
        joined = {name: np.concatenate([job.arrays[name] for job in batch]) for name in signature.inputs}
        outputs = signature.run(joined)
        if any(len(value) != sum(job.rows for job in batch) for value in outputs.values()):
            raise ValueError("the outputs are not rows")
        start = 0
        for job in batch:
            job.done({name: value[start : start + job.rows] for name, value in outputs.items()})
            start += job.rows
    except Exception as error:
        if len(batch) == 1:
            batch[0].done(error)
            return
        for job in batch:
            _compute([job])
