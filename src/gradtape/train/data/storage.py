"""Elements in files: a cache, and datasets that are saved and loaded. The files are gradtape's own."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from gradtape import errors, nest
from gradtape.conversion import convert
from gradtape.shape import TensorSpec
from gradtape.train.data.core import Elements, Recipe, Run
from gradtape.train.data.records import TFRecordWriter, read_records
from gradtape.train.data.structure import NoneTensorSpec, packer
from gradtape.train.tensors import parsed, serialized
from gradtape.train.wire import decode, encode

_DESCRIPTION, _ELEMENTS = "dataset_spec.json", "elements.tfrecord"


def path_of(path: Any) -> str:
    """A path as a string; a scalar string tensor will do."""
    if isinstance(path, (str, os.PathLike)):
        return os.fspath(path)
    return os.fsdecode(np.asarray(convert(path).array).item())


def _record(element: Any) -> bytes:
    return encode([(1, b"" if leaf is None else serialized(leaf)) for leaf in nest.flatten(element)])


def _elements(path: str, spec: Any, compression: str = "") -> Elements:
    pack = packer(spec)
    for record in read_records(path, compression):
        yield pack([parsed(leaf) if leaf else None for _, leaf in decode(record)])


def cached_in_file(source: Recipe, path: str) -> Recipe:
    """The elements of the first full iteration, kept in a file."""
    complete = f"{path}.data"

    def elements(run: Run) -> Elements:
        if os.path.exists(complete):
            yield from _elements(complete, source.spec)
            return
        unfinished = f"{complete}.{os.getpid()}.tmp"
        try:
            with TFRecordWriter(unfinished) as writer:
                for element in source.elements(run):
                    writer.write(_record(element))
                    yield element
            os.replace(unfinished, complete)
        finally:
            if os.path.exists(unfinished):  # not everything was read
                os.remove(unfinished)

    return Recipe("CacheDataset", elements, lambda: source.spec, source.size)


def snapshot(source: Recipe, path: str) -> Recipe:
    """The elements of the first full iteration, kept in a folder."""
    kept = cached_in_file(source, os.path.join(path, "snapshot"))

    def elements(run: Run) -> Elements:
        os.makedirs(path, exist_ok=True)
        return kept.elements(run)

    return Recipe("_SnapshotDataset", elements, lambda: source.spec, source.size)


def save(source: Recipe, path: str, compression: str | None) -> None:
    """Write all elements to a folder."""
    os.makedirs(path, exist_ok=True)
    count = 0
    with TFRecordWriter(os.path.join(path, _ELEMENTS), compression or "") as writer:
        for element in source.elements(Run()):
            writer.write(_record(element))
            count += 1
    with open(os.path.join(path, _DESCRIPTION), "w", encoding="utf-8") as file:
        json.dump({"count": count, "spec": _described(source.spec)}, file)


def load(path: str, element_spec: Any, compression: str | None) -> Recipe:
    """The elements in a folder."""
    name = os.path.join(path, _DESCRIPTION)
    try:
        with open(name, encoding="utf-8") as file:
            description = json.load(file)
    except FileNotFoundError:
        raise errors.NotFoundError(None, None, f"tf.data snapshot element_spec file not found: {name}.") from None
    spec = _restored(description["spec"]) if element_spec is None else element_spec
    elements = os.path.join(path, _ELEMENTS)
    return Recipe(
        "_LoadDataset", lambda run: _elements(elements, spec, compression or ""), lambda: spec, description["count"]
    )


def _described(spec: Any) -> Any:
    if isinstance(spec, TensorSpec):
        return {"tensor": [None if spec.shape.rank is None else spec.shape.as_list(), spec.dtype.name]}
    if isinstance(spec, NoneTensorSpec):
        return None
    if isinstance(spec, dict):
        return {"dict": [[key, _described(part)] for key, part in spec.items()]}
    if isinstance(spec, tuple):
        return {"tuple": [_described(part) for part in spec]}
    raise TypeError(f"Elements of the kind {spec!r} cannot be saved: tensors in tuples and dicts can.")


def _restored(described: Any) -> Any:
    if described is None:
        return NoneTensorSpec()
    ((kind, content),) = described.items()
    if kind == "tensor":
        return TensorSpec(*content)
    if kind == "dict":
        return {key: _restored(part) for key, part in content}
    return tuple(_restored(part) for part in content)
