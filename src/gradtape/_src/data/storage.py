"""Elements in files: caches, and saved datasets, in gradtape's own format."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from typing import IO, Any, NamedTuple

import numpy as np

from gradtape._src import errors, nest
from gradtape._src.conversion import convert
from gradtape._src.data.core import Elements, Pipeline, Run
from gradtape._src.data.structure import TENSOR_SPECS, DatasetBatch, NoneTensorSpec, packer
from gradtape._src.formats.atomic import (
    Staged,
    alone_in,
    flush_folder,
    named_errors,
    open_to_read,
    publish,
    remove_abandoned,
)
from gradtape._src.formats.protobuf import Message, bytes_in, decode, encode, messages_in
from gradtape._src.formats.tensor_proto import parsed, serialized
from gradtape._src.formats.tfrecord import RecordStream, TFRecordOptions, framed, lost, opened, records_in
from gradtape._src.ops.sparse_tensor import SparseTensor, SparseTensorSpec
from gradtape._src.shape import TensorSpec

_DESCRIPTION = "dataset_spec.json"
_ELEMENT_FILE = re.compile(r"elements(-\d+)?\.tfrecord")
_TENSOR, _SPARSE, _DATASET, _BATCH = 1, 2, 3, 4  # fields of a record: the leaves of an element
_COUNT = 15  # the field of the last record: the number of elements

DatasetSpecOf = Callable[[Any, Any], Any]
"""Makes the specification of a dataset from that of its elements and a shape."""


def path_of(path: Any) -> str:
    """A path as a string; it may be given as a scalar string tensor."""
    if isinstance(path, (str, os.PathLike)):
        return os.fspath(path)
    return os.fsdecode(np.asarray(convert(path).array).item())


# -- elements --------------------------------------------------------------------------------------------------------
def _record(element: Any) -> bytes:
    return encode([_field(leaf) for leaf in nest.flatten(element)])


def _field(leaf: Any) -> tuple[int, Any]:
    """A leaf as a field. Datasets are written with all of their elements."""
    if leaf is None:
        return _TENSOR, b""
    if isinstance(leaf, SparseTensor):
        return _SPARSE, [(1, serialized(part)) for part in (leaf.indices, leaf.values, leaf.dense_shape)]
    if isinstance(leaf, DatasetBatch):
        return _BATCH, [_field(dataset) for dataset in leaf.datasets]
    if hasattr(leaf, "_pipeline"):
        return _DATASET, [(1, _record(element)) for element in leaf._pipeline.elements(Run())]
    return _TENSOR, serialized(leaf)


def _elements(file: IO[bytes], path: str, spec: Any, expected: int | None) -> Elements:
    """The elements in an open file. Their number is checked against `expected`, or the last record."""
    count = 0
    for record in records_in(file):
        try:
            fields = decode(record)
            if fields and fields[0][0] == _COUNT:
                expected = fields[0][1]
                continue
            element = _unpacked(fields, spec)
        except _OtherElements as error:
            raise errors.invalid_argument(
                f"{error}. {path} contains different elements than this dataset: remove it, or use another name.",
                "IteratorGetNext",
            ) from None
        except (ValueError, errors.InvalidArgumentError) as error:
            raise lost(f"{path}: element {count} cannot be read: {error}") from None
        yield element
        count += 1
    if count != expected:
        what = "the end is missing" if expected is None else f"there should be {expected}"
        raise lost(f"{path} is truncated: it has {count} elements, but {what}. Remove it and write it again")


class _OtherElements(Exception):
    """The stored data are intact, but do not match the specification."""


def _unpacked(fields: Message, spec: Any) -> Any:
    """The element that the fields encode."""
    specs = nest.flatten(spec)
    if len(fields) != len(specs):
        raise _OtherElements(f"Component count mismatch: expected {len(specs)} but got {len(fields)}")
    leaves = [_leaf(i, *field, one) for i, (field, one) in enumerate(zip(fields, specs, strict=True))]
    return packer(spec)(leaves)


def _leaf(component: int, field: int, value: Any, spec: Any) -> Any:
    if value == b"" and field == _TENSOR:
        return None
    data = bytes_in({field: value}, field)
    wanted = _DATASET if hasattr(spec, "element_spec") else _SPARSE if isinstance(spec, SparseTensorSpec) else _TENSOR
    if field not in ((_DATASET, _BATCH) if wanted == _DATASET else (wanted,)):
        raise _OtherElements(f"Component {component} has another type: expected {spec}")
    if field == _TENSOR:
        leaf: Any = parsed(data)
    elif field == _SPARSE:
        parts = [parsed(bytes_in({number: part}, number)) for number, part in decode(data)]
        if len(parts) != 3:
            raise ValueError("A sparse tensor needs coordinates, values and a shape.")
        leaf = SparseTensor(*parts)
    elif field == _BATCH:
        return DatasetBatch([_dataset(bytes_in({number: part}, number), spec) for number, part in decode(data)])
    else:
        return _dataset(data, spec)
    if isinstance(spec, TENSOR_SPECS) and leaf.dtype != spec.dtype:
        raise _OtherElements(
            f"Data type mismatch at component {component}: expected {spec.dtype.name} but got {leaf.dtype.name}"
        )
    return leaf


def _dataset(data: bytes, spec: Any) -> Any:
    inner = spec.element_spec
    elements = [_unpacked(message, inner) for message in messages_in(decode(data), 1)]
    return spec.value_type._of(Pipeline("_VariantDataset", lambda run: iter(elements), lambda: inner, len(elements)))


# -- caches ----------------------------------------------------------------------------------------------------------
def cached_in_file(source: Pipeline, path: str) -> Pipeline:
    """Cache the elements of the first complete iteration in a file. Until then every iteration writes its own file."""
    complete = f"{path}.data"
    folder = os.path.dirname(complete) or "."

    def elements(run: Run) -> Elements:
        if os.path.exists(complete):
            yield from _elements(opened(complete, ""), complete, source.spec, None)
            return
        with named_errors(complete, "IteratorGetNext"):
            remove_abandoned(folder)
            part = Staged(folder)
        with part:
            count = 0
            for element in source.elements(run):
                _add(part, _record(element), complete)
                count += 1
                yield element
            _add(part, encode([(_COUNT, count)]), complete)
            if part.is_own and not os.path.exists(complete):
                with named_errors(complete, "IteratorGetNext"):
                    part.move(complete)
                    flush_folder(folder)

    return Pipeline("CacheDataset", elements, lambda: source.spec, source.size)


def _add(part: Staged, record: bytes, path: str) -> None:
    if part.is_own:  # a forked child continues without a cache
        with named_errors(path, "IteratorGetNext"):
            part.file.write(framed(record))


def snapshot(source: Pipeline, path: str) -> Pipeline:
    """Save the elements of the first complete iteration in a folder."""
    kept = cached_in_file(source, os.path.join(path, "snapshot"))

    def elements(run: Run) -> Elements:
        with named_errors(path, "IteratorGetNext"):
            os.makedirs(path, exist_ok=True)
        return kept.elements(run)

    return Pipeline("_SnapshotDataset", elements, lambda: source.spec, source.size)


# -- datasets in folders ---------------------------------------------------------------------------------------------
def save(source: Pipeline, path: str, compression: str | None) -> None:
    """Write all elements to a folder, replacing what was saved there before."""
    way, spec = TFRecordOptions(compression).compression_type, _described(source.spec)
    with named_errors(path):
        os.makedirs(path, exist_ok=True)
        part = Staged(path, like=os.path.join(path, _element_file(0)))
    with part:
        stream, count = RecordStream(part.file, way), 0
        for element in source.elements(Run()):
            with named_errors(path):
                stream.write(_record(element))
            count += 1
        with named_errors(path):
            stream.finish()
            part.flush()
            with alone_in(path):
                remove_abandoned(path)
                publish(
                    part,
                    lambda n: os.path.join(path, _element_file(n)),
                    os.path.join(path, _DESCRIPTION),
                    lambda n: [json.dumps({"count": count, "spec": spec, "elements": _element_file(n)}).encode()],
                    lambda: [os.path.join(path, name) for name in os.listdir(path) if _ELEMENT_FILE.fullmatch(name)],
                )


def _element_file(number: int) -> str:
    return f"elements-{number}.tfrecord" if number else "elements.tfrecord"


class _Saved(NamedTuple):
    """The description of a saved dataset."""

    spec: Any
    size: int
    elements: str

    @classmethod
    def read(cls, path: str, dataset_spec: DatasetSpecOf) -> _Saved:
        name = os.path.join(path, _DESCRIPTION)
        try:
            with open_to_read(name, "LoadDataset") as file:
                text = file.read(os.fstat(file.fileno()).st_size)
        except errors.NotFoundError:
            raise errors.NotFoundError(None, None, f"tf.data snapshot element_spec file not found: {name}.") from None
        try:
            found = json.loads(text)
            spec, count = _restored(found["spec"], dataset_spec), found["count"]
            elements = found.get("elements", _element_file(0))
            if type(count) is not int or not _ELEMENT_FILE.fullmatch(elements):
                raise ValueError(f"{count} elements in {elements!r}")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise errors.DataLossError(
                None, None, f"{name} is damaged: it does not describe a dataset ({type(error).__name__}: {error})"
            ) from None
        return cls(spec, count, os.path.join(path, elements))


def load(path: str, element_spec: Any, compression: str | None, dataset_spec: DatasetSpecOf) -> Pipeline:
    """The elements in a folder; `dataset_spec` makes the specifications of nested datasets."""
    way = compression or ""
    loaded = _Saved.read(path, dataset_spec)
    spec = loaded.spec if element_spec is None else element_spec

    def elements(run: Run) -> Elements:
        saved, file = _open(path, way, dataset_spec)
        if saved.spec != loaded.spec:
            file.close()
            raise errors.FailedPreconditionError(
                None,
                None,
                f"{path} was replaced by a dataset with different elements: load it again [Op:IteratorGetNext]",
            )
        return _elements(file, saved.elements, spec, saved.size)

    return Pipeline("_LoadDataset", elements, lambda: spec, loaded.size)


def _open(path: str, compression: str, dataset_spec: DatasetSpecOf) -> tuple[_Saved, IO[bytes]]:
    """The description of a saved dataset, and its elements; tries again if they are being replaced."""
    saved = _Saved.read(path, dataset_spec)
    while True:
        try:
            file = opened(saved.elements, compression)
        except errors.NotFoundError:
            if (now := _Saved.read(path, dataset_spec)) == saved:
                raise
        else:
            if (now := _Saved.read(path, dataset_spec)) == saved:
                return saved, file
            file.close()
        saved = now


# -- descriptions ----------------------------------------------------------------------------------------------------
def _described(spec: Any) -> Any:
    if isinstance(spec, TensorSpec):
        return {"tensor": [None if spec.shape.rank is None else spec.shape.as_list(), spec.dtype.name]}
    if isinstance(spec, SparseTensorSpec):
        return {"sparse": [None if spec.shape.rank is None else spec.shape.as_list(), spec.dtype.name]}
    if hasattr(spec, "element_spec"):
        return {"dataset": [_described(spec.element_spec), spec._shape.as_list()]}
    if isinstance(spec, NoneTensorSpec):
        return None
    if isinstance(spec, dict):
        return {"dict": [[key, _described(part)] for key, part in spec.items()]}
    if isinstance(spec, tuple):
        return {"tuple": [_described(part) for part in spec]}
    raise TypeError(f"Elements of type {spec!r} cannot be saved; only tensors in tuples and dicts can.")


def _restored(described: Any, dataset_spec: DatasetSpecOf) -> Any:
    if described is None:
        return NoneTensorSpec()
    ((kind, content),) = described.items()
    if kind in ("tensor", "sparse"):
        shape, dtype = content
        return (TensorSpec if kind == "tensor" else SparseTensorSpec)(shape, dtype)
    if kind == "dataset":
        inner, shape = content
        return dataset_spec(_restored(inner, dataset_spec), shape)
    if kind == "dict":
        return {key: _restored(part, dataset_spec) for key, part in content}
    if kind == "tuple":
        return tuple(_restored(part, dataset_spec) for part in content)
    raise ValueError(f"There is nothing called {kind!r}")
