"""Requests and responses of TensorFlow Serving's REST API: JSON to arrays and back, with its error messages."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gradtape._src.dtypes import DType
from gradtape._src.formats.example import BytesList, Example, Feature, Features, FloatList, Int64List
from gradtape._src.shape import TensorSpec

__all__ = ["RequestError", "columns", "example_inputs", "examples", "kind_of", "parse", "rows", "tensors"]

_MOST_SHOWN = 200
_KINDS = {
    "float32": "DT_FLOAT", "float64": "DT_DOUBLE", "int32": "DT_INT32", "uint8": "DT_UINT8", "int16": "DT_INT16",
    "int8": "DT_INT8", "string": "DT_STRING", "int64": "DT_INT64", "bool": "DT_BOOL", "float16": "DT_HALF",
    "bfloat16": "DT_BFLOAT16", "uint32": "DT_UINT32", "uint64": "DT_UINT64", "complex64": "DT_COMPLEX64",
    "complex128": "DT_COMPLEX128", "uint16": "DT_UINT16",
}  # fmt: skip


class RequestError(Exception):
    """An invalid request: the status, and the message of the response."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def kind_of(dtype: DType) -> str:
    """TensorFlow's name of a type in messages: `DT_FLOAT`."""
    return _KINDS.get(dtype.name, "DT_INVALID")


# -- reading ---------------------------------------------------------------------------------------------------------
def parse(body: bytes) -> dict[str, Any]:
    """Parse the JSON object in a request's body."""
    if not body:
        raise RequestError("JSON Parse error: The document is empty")
    try:
        found = json.loads(body)
    except json.JSONDecodeError as error:
        raise RequestError(f"JSON Parse error: {error.msg}. at offset: {error.pos}") from None
    except UnicodeDecodeError as error:
        raise RequestError(f"JSON Parse error: Invalid encoding in string. at offset: {error.start}") from None
    except RecursionError:
        raise RequestError("JSON Parse error: The document is nested too deeply.") from None
    except ValueError as error:  # a number with too many digits
        raise RequestError(f"JSON Parse error: {error}.") from None
    if not isinstance(found, dict):
        raise RequestError(f"JSON Value: {_shown(found)} Is not object")
    return found


def tensors(request: dict[str, Any], specs: Mapping[str, TensorSpec]) -> tuple[dict[str, np.ndarray], bool]:
    """The inputs of a prediction, and whether they were given as rows."""
    if "instances" in request:
        if "inputs" in request:
            raise RequestError(
                f"JSON Value: {_shown(request)} Not formatted correctly expecting only one of 'inputs' or 'instances' "
                "keys to exist "
            )
        if not isinstance(request["instances"], list):
            raise RequestError(f"JSON Value: {_shown(request)} Excepting 'instances' to be an list/array")
        if not request["instances"]:
            raise RequestError(f"JSON Value: {_shown(request)} No values in 'instances' array")
        return _from_rows(request["instances"], specs), True
    if "inputs" in request:
        return _from_columns(request["inputs"], specs), False
    raise RequestError("Missing 'inputs' or 'instances' key")


def _from_rows(instances: list[Any], specs: Mapping[str, TensorSpec]) -> dict[str, np.ndarray]:
    first = instances[0]
    if not isinstance(first, dict) and len(specs) > 1:
        raise RequestError(
            "instances is a plain list, but expecting list of objects as multiple input tensors required as per "
            "tensorinfo_map"
        )
    if not isinstance(first, dict) or _is_base64(first):
        for i, row in enumerate(instances):
            if isinstance(row, dict) and not _is_base64(row):
                raise RequestError(f"Expecting value/list but got object at item {i} of input list")
        ((name, spec),) = specs.items()
        return {name: _array(instances, spec, "instances")}
    for i, row in enumerate(instances):
        if not isinstance(row, dict) or _is_base64(row):
            raise RequestError(f"Expecting object but got list at item {i} of input list")
        if set(row) != set(specs):
            raise RequestError(
                f"Failed to process element: {i} of 'instances' list. JSON object: {_shown(row)} keys must be equal "
                f"to: {','.join(sorted(specs))}"
            )
    return {name: _array([row[name] for row in instances], spec, "instances") for name, spec in specs.items()}


def _from_columns(inputs: Any, specs: Mapping[str, TensorSpec]) -> dict[str, np.ndarray]:
    if not isinstance(inputs, dict) or _is_base64(inputs):
        if len(specs) != 1:
            raise RequestError(
                "inputs is a plain value/list, but expecting an object as multiple input tensors required as per "
                "tensorinfo_map"
            )
        ((name, spec),) = specs.items()
        return {name: _array(inputs, spec, "inputs")}
    for name in specs:
        if name not in inputs:
            raise RequestError(f"Missing named input: {name} in 'inputs' object.")
    return {name: _array(inputs[name], spec, "inputs") for name, spec in specs.items()}


def _is_base64(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("b64"), str)


def _array(value: Any, spec: TensorSpec, key: str) -> np.ndarray:
    """A JSON value as an array with a dtype."""
    shape: list[int] = []
    inner = value
    while isinstance(inner, list):
        shape.append(len(inner))
        inner = inner[0] if inner else None
    flat: list[Any] = []
    _collect(value, 0, shape, flat)
    try:
        values = [_element(each, spec.dtype) for each in flat]
    except RequestError as error:
        if key == "instances":
            raise RequestError(f"Failed to process element: 0 of 'instances' list. Error: {error}") from None
        raise
    made = np.empty(len(values), spec.dtype.numpy_dtype)
    made[:] = values
    found = made.reshape(shape)
    if not spec.shape.is_compatible_with(found.shape):
        raise RequestError(
            f"Tensor shape {list(found.shape)} does not match the shape {spec.shape.as_list()} of the input "
            f"{spec.name!r}"
        )
    return found


def _collect(value: Any, level: int, shape: list[int], flat: list[Any]) -> None:
    """The elements of nested lists, whose lengths must be equal."""
    if not isinstance(value, list):
        if level != len(shape):
            raise RequestError(
                f"JSON Value: {_shown(value)} found at incorrect level: {level + 1} in the JSON DOM. Expected at "
                f"level: {len(shape)}"
            )
        flat.append(value)
        return
    if level >= len(shape):
        raise RequestError(f"Encountered list at unexpected level: {level} expected < {len(shape)}")
    if len(value) != shape[level]:
        raise RequestError(
            f"Encountered list at unexpected size: {len(value)} at level: {level} expected size: {shape[level]}"
        )
    if level == len(shape) - 1 and list not in set(map(type, value)):
        flat += value
        return
    for each in value:
        _collect(each, level + 1, shape, flat)


def _element(value: Any, dtype: DType) -> Any:
    kind = type(value)
    if dtype.is_floating:
        if kind is float or (kind is int and abs(value) < 2**53):
            return value
        if kind is int:
            raise RequestError(f"Cannot convert JSON value: {value} to float without loss of precision.")
    elif dtype.is_integer:
        if kind is int and dtype.min <= value <= dtype.max:
            return value
    elif dtype.is_bool:
        if kind is bool:
            return value
    elif dtype.name == "string":
        if kind is str:
            return value.encode(errors="surrogatepass")
        if kind is dict:
            return _decoded(value)
    raise RequestError(
        f"JSON Value: {_shown(value)} Type: {_type(value)} is not of expected type: {kind_of(dtype).lower()[3:]}"
    )


def _decoded(value: Any) -> bytes:
    if not _is_base64(value):
        raise RequestError(f"JSON Value: {_shown(value)} not formatted correctly for base64 data")
    try:
        return base64.b64decode(value["b64"], validate=True)
    except (binascii.Error, ValueError):
        raise RequestError("Unable to base64 decode") from None


def _type(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "Null", True: "True", False: "False"}[value]
    names: dict[type, str] = {dict: "Object", list: "Array", str: "String"}
    return names.get(type(value), "Number")


def _shown(value: Any) -> str:
    try:
        text = json.dumps(value)
    except (RecursionError, ValueError):
        text = "..."
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


# -- examples --------------------------------------------------------------------------------------------------------
def examples(request: dict[str, Any], method: str) -> list[dict[str, list[Any]]]:
    """The examples of a classification or regression: features by name, including those of the context."""
    if "examples" not in request:
        raise RequestError(
            f"JSON Value: {_shown(request)} When method is {method}, key 'examples' is expected and was not found"
        )
    given = request["examples"]
    if not isinstance(given, list):
        raise RequestError(f"JSON Value: {_shown(request)} Expecting 'examples' value to be an list/array")
    if not given:
        raise RequestError(f"JSON Value: {_shown(request)} 'examples' value is an empty array")
    shared = _features(request["context"]) if "context" in request else {}
    return [{**shared, **_features(each)} for each in given]


def _features(example: Any) -> dict[str, list[Any]]:
    if not isinstance(example, dict):
        raise RequestError(f"Example must be JSON object but got JSON {_type(example)}")
    found = {}
    for name, value in example.items():
        items = value if isinstance(value, list) else [value]
        found[name] = [_feature(name, each) for each in items]
        if len({type(each) for each in found[name]}) > 1:
            raise RequestError(
                f"Unexpected element type in feature: {name} expecting type: {_feature_kind(found[name])}"
            )
    return found


def _feature_kind(values: list[Any]) -> str:
    return {bytes: "bytes", float: "float"}.get(type(values[0]), "int64")


def _feature(name: str, value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        return value.encode(errors="surrogatepass")
    if _is_base64(value):
        return _decoded(value)
    if isinstance(value, float):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    raise RequestError(f"Feature: {name} has element with unexpected JSON type: {_type(value)}")


def example_inputs(found: list[dict[str, list[Any]]], specs: Mapping[str, TensorSpec]) -> dict[str, np.ndarray]:
    """Examples as the inputs of a signature: serialized for a string input, else features by name."""
    if len(specs) == 1:
        ((name, spec),) = specs.items()
        if spec.dtype.name == "string" and (len(found[0]) != 1 or name not in found[0]):
            made = np.empty(len(found), object)
            made[:] = [_serialized(each) for each in found]
            return {name: made}
    for name in specs:
        if any(name not in each for each in found):
            raise RequestError(f"Feature: {name} is missing in an element of 'examples'")
    columns_ = {}
    for name, spec in specs.items():
        values = [each[name] for each in found]
        if spec.shape.rank == 1:
            values = [each[0] if len(each) == 1 else each for each in values]
        texts = [[v.decode("latin-1") if isinstance(v, bytes) else v for v in _listed(each)] for each in values]
        columns_[name] = _array(texts if spec.shape.rank != 1 else [t[0] for t in texts], spec, "inputs")
    return columns_


def _serialized(features: dict[str, list[Any]]) -> bytes:
    kinds: dict[type, Any] = {
        bytes: lambda v: Feature(bytes_list=BytesList(value=v)),
        float: lambda v: Feature(float_list=FloatList(value=v)),
        int: lambda v: Feature(int64_list=Int64List(value=v)),
    }
    made = {name: kinds[type(v[0])](v) if v else Feature() for name, v in features.items()}
    return bytes(Example(features=Features(feature=made)).SerializeToString())


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


# -- responses ---------------------------------------------------------------------------------------------------------
def rows(outputs: dict[str, np.ndarray]) -> bytes:
    """A response in row format: one prediction for each instance."""
    size = None
    for name, value in outputs.items():
        if not value.ndim:
            raise RequestError(f"Tensor name: {name} has no shape information ")
        if size is not None and len(value) != size:
            raise RequestError(f"Tensor name: {name} has inconsistent batch size: {len(value)} expecting: {size}")
        size = len(value)
    lists = {name: _plain(name, value) for name, value in outputs.items()}
    if len(lists) == 1:
        (predictions,) = lists.values()
    else:
        predictions = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
    return _encoded({"predictions": predictions})


def columns(outputs: dict[str, np.ndarray]) -> bytes:
    """A response in column format: every output as a whole."""
    lists = {name: _plain(name, value) for name, value in outputs.items()}
    return _encoded({"outputs": next(iter(lists.values())) if len(lists) == 1 else lists})


def _plain(name: str, value: np.ndarray) -> Any:
    """An array as lists of numbers and strings."""
    if value.dtype.kind == "O":
        return _texts(value.tolist(), name.endswith("_bytes"))
    if value.dtype.kind == "c":
        raise RequestError(f"Failed to write JSON value for tensor type: {value.dtype.name}")
    if value.dtype.kind in "biu" or value.dtype.itemsize == 8:
        return value.tolist()
    return _shortest(value.astype(np.float32))


def _shortest(value: np.ndarray) -> Any:
    """Single-precision numbers with the fewest digits that distinguish them."""
    flat = value.ravel().tolist()
    if not all(map(math.isfinite, flat)):
        texts = [float(str(each)) for each in value.ravel()]
    else:
        texts = [float(f"{each:.7g}") for each in flat]
        short = np.array(texts, np.float32)
        for i in np.flatnonzero(short != value.ravel()).tolist():
            texts[i] = float(f"{flat[i]:.9g}")
    return np.array(texts, np.float64).reshape(value.shape).tolist()


def _texts(value: Any, as_bytes: bool) -> Any:
    if isinstance(value, list):
        return [_texts(each, as_bytes) for each in value]
    if as_bytes:
        return {"b64": base64.b64encode(value).decode()}
    return value.decode(errors="replace")


def _encoded(value: Any) -> bytes:
    return json.dumps(value, separators=(", ", ": ")).encode()
