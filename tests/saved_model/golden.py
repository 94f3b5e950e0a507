"""What a SavedModel has to give, as JSON with a file of arrays beside it. NumPy only.

A record is a tree of JSON; every array in it is `{"array": key, "dtype": name}`, with the numbers in the `.npz`:
bfloat16 as uint16, strings as NumPy's bytes. Structures are written by kind: `{"tensor": array}`, `{"list": [...]}`,
`{"tuple": [...]}`, `{"dict": {...}}`, `{"ragged": {"values": ..., "splits": [...]}}`, `{"python": value}`.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import numpy as np

TOLERANCE = {"float16": 1e-2, "bfloat16": 4e-2, "float32": 2e-4, "float64": 1e-7, "complex64": 2e-4, "complex128": 1e-7}


class Writer:
    """Collects arrays while a record is made."""

    def __init__(self):
        self.arrays = {}

    def put(self, value):
        array = np.asarray(value)
        name = array.dtype.name
        if array.dtype.kind in "OSU":
            name = "string"
            array = np.array([s if isinstance(s, bytes) else str(s).encode() for s in array.ravel()], "S").reshape(
                array.shape
            )
        elif name == "bfloat16":
            array = array.view(np.uint16)
        key = f"a{len(self.arrays)}"
        self.arrays[key] = array
        return {"array": key, "dtype": name, "shape": list(array.shape)}

    def structure(self, value):
        """Any nest of tensors and Python values as a tree of JSON."""
        if hasattr(value, "row_splits") and hasattr(value, "flat_values"):
            return {
                "ragged": {
                    "values": self.put(value.flat_values.numpy()),
                    "splits": [self.put(s.numpy()) for s in value.nested_row_splits],
                }
            }
        if hasattr(value, "dense_shape") and hasattr(value, "indices"):
            return {"sparse": [self.put(t.numpy()) for t in (value.indices, value.values, value.dense_shape)]}
        if isinstance(value, dict):
            return {"dict": {k: self.structure(v) for k, v in value.items()}}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return {
                "namedtuple": {k: self.structure(v) for k, v in zip(value._fields, value)},
                "name": type(value).__name__,
            }
        if isinstance(value, (list, tuple)):
            return {"list" if isinstance(value, list) else "tuple": [self.structure(v) for v in value]}
        if value is None or isinstance(value, (bool, int, float, str)):
            return {"python": value}
        if hasattr(value, "numpy"):
            return {"tensor": self.put(value.numpy())}
        return {"tensor": self.put(value)}

    def save(self, path, record):
        path = Path(path)
        path.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
        np.savez_compressed(path.with_suffix(".npz"), **self.arrays)


class Record:
    """A record read back."""

    def __init__(self, path):
        path = Path(path)
        self.tree = json.loads(path.with_suffix(".json").read_text())
        with np.load(path.with_suffix(".npz"), allow_pickle=False) as arrays:
            self.arrays = dict(arrays)

    def array(self, reference):
        array = self.arrays[reference["array"]]
        if reference["dtype"] == "bfloat16":  # the upper half of a float32
            return (array.astype(np.uint32) << 16).view(np.float32)
        if reference["dtype"] == "string":
            return array.astype(object)
        return array


def numbers(value):
    """A tensor's values as plain NumPy."""
    array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    if array.dtype.name == "bfloat16":
        return array.astype(np.float32)
    if array.dtype.kind in "OSU":
        return np.array([s if isinstance(s, bytes) else str(s).encode() for s in array.ravel()], object).reshape(
            array.shape
        )
    return array


def difference(expected, got, dtype, loose=1.0):
    """What is wrong with `got`, or None."""
    got = numbers(got)
    if expected.shape != got.shape:
        return f"shape {got.shape}, expected {expected.shape}"
    if expected.size == 0:
        return None
    if dtype not in TOLERANCE:
        return None if np.array_equal(expected, got) else f"{got.ravel()[:6]}, expected {expected.ravel()[:6]}"
    kind = np.complex128 if dtype.startswith("complex") else np.float64
    expected, got = expected.astype(kind), got.astype(kind)
    finite = np.isfinite(expected)
    if not np.array_equal(finite, np.isfinite(got)) or not np.array_equal(
        expected[~finite], got[~finite], equal_nan=True
    ):
        return f"not finite where it should be: {got.ravel()[:6]}, expected {expected.ravel()[:6]}"
    if not finite.any():
        return None
    scale = max(1e-3, float(np.abs(expected[finite]).max()))
    error = float(np.abs(expected[finite] - got[finite]).max()) / scale
    return None if error <= TOLERANCE[dtype] * loose else f"relative error {error:.1e}"


def mismatches(record, node, got, where, loose=1.0, tuple_is_list=False):
    """Yield what differs between a recorded structure and a nest of tensors."""
    if "ragged" in node:
        ragged = node["ragged"]
        if not hasattr(got, "flat_values"):
            yield f"{where}: {type(got).__name__}, expected a ragged tensor"
            return
        parts = [(ragged["values"], got.flat_values), *zip(ragged["splits"], got.nested_row_splits)]
        for reference, part in parts:
            if problem := difference(record.array(reference), part, reference["dtype"], loose):
                yield f"{where}: {problem}"
    elif "sparse" in node:
        for reference, part in zip(node["sparse"], (got.indices, got.values, got.dense_shape)):
            if problem := difference(record.array(reference), part, reference["dtype"], loose):
                yield f"{where}: {problem}"
    elif "dict" in node or "namedtuple" in node:
        fields = node.get("dict") or node.get("namedtuple") or {}
        if "namedtuple" in node and not isinstance(got, dict):
            if not hasattr(got, "_fields") or list(got._fields) != list(fields):
                yield f"{where}: {type(got).__name__}, expected the fields {list(fields)}"
                return
            got = dict(zip(got._fields, got))
        if not hasattr(got, "keys") or set(got.keys()) != set(fields):
            yield f"{where}: {sorted(got.keys()) if hasattr(got, 'keys') else type(got).__name__}, expected the keys {sorted(fields)}"
            return
        for key, part in fields.items():
            yield from mismatches(record, part, got[key], f"{where}[{key!r}]", loose)
    elif "list" in node or "tuple" in node:
        parts = node.get("list", node.get("tuple"))
        wanted = list if "list" in node else tuple
        if not isinstance(got, (list, tuple)) or len(got) != len(parts):
            yield f"{where}: {type(got).__name__}, expected {wanted.__name__} of {len(parts)}"
            return
        if not isinstance(got, wanted):
            yield f"{where}: {type(got).__name__}, expected {wanted.__name__}"
        for i, (part, value) in enumerate(zip(parts, got)):
            yield from mismatches(record, part, value, f"{where}[{i}]", loose)
    elif "python" in node:
        if node["python"] is None:
            if got is not None:
                yield f"{where}: {type(got).__name__}, expected None"
        elif got != node["python"]:
            yield f"{where}: {got!r}, expected {node['python']!r}"
    else:
        reference = node["tensor"]
        name = getattr(getattr(got, "dtype", None), "name", None)
        if name != reference["dtype"]:
            yield f"{where}: dtype {name}, expected {reference['dtype']}"
        elif problem := difference(record.array(reference), got, reference["dtype"], loose):
            yield f"{where}: {problem}"


def rebuild(tf, record, node):
    """The arguments of a recorded call, as tensors of the module under test."""
    if "dict" in node:
        return {k: rebuild(tf, record, v) for k, v in node["dict"].items()}
    if "list" in node:
        return [rebuild(tf, record, v) for v in node["list"]]
    if "tuple" in node:
        return tuple(rebuild(tf, record, v) for v in node["tuple"])
    if "python" in node:
        return node["python"]
    if "ragged" in node:
        values = tensor(tf, record, node["ragged"]["values"])
        return tf.RaggedTensor.from_nested_row_splits(values, [tensor(tf, record, s) for s in node["ragged"]["splits"]])
    if "sparse" in node:
        indices, values, shape = (tensor(tf, record, r) for r in node["sparse"])
        return tf.SparseTensor(indices, values, shape)
    return tensor(tf, record, node["tensor"])


def tensor(tf, record, reference):
    dtype = reference["dtype"]
    array = record.array(reference)
    if dtype == "string":
        return tf.constant(array.tolist(), dtype=tf.string, shape=list(array.shape))
    return tf.constant(array, dtype=getattr(tf, dtype))


def leaves(value):
    """The tensors of a nest in TensorFlow's order: dictionaries by sorted keys."""
    if hasattr(value, "flat_values"):
        yield value.flat_values
    elif hasattr(value, "dense_shape") and hasattr(value, "indices"):
        yield value.values
    elif hasattr(value, "keys"):
        for key in sorted(value.keys()):
            yield from leaves(value[key])
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from leaves(part)
    elif hasattr(value, "numpy"):
        yield value


def find(root, path):
    """The object at a path such as `.heads[0].w` or `.scales['large']`."""
    return eval("root" + path, {"__builtins__": {}}, {"root": root})  # paths come from our own records


def loss(tf, outputs):
    """Sum of squares over every floating-point output, in float64."""
    total = tf.constant(0.0, tf.float64)
    for leaf in leaves(outputs):
        if leaf.dtype.name in ("float16", "bfloat16", "float32", "float64"):
            total += tf.reduce_sum(tf.square(tf.cast(leaf, tf.float64)))
    return total


def is_float(tensor):
    return getattr(getattr(tensor, "dtype", None), "name", "") in TOLERANCE


def differentiate(tf, function, args, kwargs, variables, second=False):
    """One call: outputs, gradients to the inputs, to the variables, and, if asked, those of the squared gradient."""
    inputs = [t for t in leaves([list(args), kwargs]) if is_float(t)]
    with tf.GradientTape() if second else contextlib.nullcontext() as outer:
        for t in inputs if second else ():
            outer.watch(t)
        with tf.GradientTape() as tape:
            for t in inputs:
                tape.watch(t)
            outputs = function(*args, **kwargs)
            total = loss(tf, outputs)
        gradients = tape.gradient(total, inputs + variables)
        if second:
            squares = [
                tf.reduce_sum(tf.square(tf.cast(tf.convert_to_tensor(g), tf.float64)))
                for g in gradients[: len(inputs)]
                if g is not None
            ]
            squared = sum(squares[1:], squares[0])
    return outputs, gradients, outer.gradient(squared, inputs + variables) if second else None
