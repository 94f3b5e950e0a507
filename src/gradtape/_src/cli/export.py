"""`gradtape export`: convert a model to StableHLO, a SavedModel, ONNX, or NumPy code without dependencies."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradtape._src import errors, nest
from gradtape._src.cli import UsageError
from gradtape._src.cli.arguments import Parser
from gradtape._src.cli.exported_model import ExportedModel
from gradtape._src.formats import atomic
from gradtape._src.function.function import Function
from gradtape._src.saved_model.load import contains_saved_model, load
from gradtape._src.shape import TensorSpec
from gradtape._src.variable import Variable

__all__ = ["main"]

DESCRIPTION = """\
Converts a model to another format. MODEL is a SavedModel, or a Keras file (.keras, .h5). Only the graphs of a
SavedModel are executed; Keras loads Keras files in safe mode."""

EPILOG = """\
formats:
  stablehlo   a directory: the program as StableHLO (bytecode and text), weights, and a description of both
  savedmodel  a directory that TensorFlow, TensorFlow Serving and gradtape can load
  onnx        a file for ONNX runtimes; needs the package onnx
  numpy       a Python file that needs only NumPy, and a file with the weights beside it

examples:
  gradtape export model.keras --to savedmodel -o exported/model
  gradtape export exported/model --to numpy -o model.py
  gradtape export exported/model --to onnx -o model.onnx --signature serve"""


def main(arguments: Sequence[str]) -> int:
    """Convert a model; return the exit code."""
    parser = Parser("export", DESCRIPTION, EPILOG)
    parser.add_argument("model", metavar="MODEL", help="a SavedModel, or a .keras or .h5 file")
    parser.add_argument("--to", required=True, choices=[*_WRITERS], help="the format to write")
    parser.add_argument("-o", "--output", metavar="PATH", help="where to write it (default: next to MODEL)")
    parser.add_argument("--signature", help="the signature of a SavedModel to write (default: serving_default)")
    options = parser.parse_args(list(arguments))
    path = options.model.rstrip(os.path.sep)
    stem = path.removesuffix(".keras").removesuffix(".h5")
    output = options.output or stem + _ENDINGS[options.to]
    if os.path.abspath(output) == os.path.abspath(path):
        parser.error("the output would overwrite MODEL: choose another path with -o")
    try:
        _WRITERS[options.to](_read(path, options.signature), output)
    except (errors.UnimplementedError, errors.NotFoundError, NotImplementedError, ImportError) as error:
        raise UsageError(f"{path} cannot be exported as {options.to}: {error}", status=1) from None
    print(f"{output}: {_bytes(output) / 1e3:,.1f} kB")
    return 0


def _bytes(path: str) -> int:
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(path) for name in names)


# -- reading ---------------------------------------------------------------------------------------------------------
class _Source(NamedTuple):
    """A model that was read: its function of named inputs, and the object with its variables."""

    name: str
    call: Callable[..., Any]
    inputs: dict[str, TensorSpec]
    owner: Any
    variables: list[Any]


def _read(path: str, signature: str | None) -> _Source:
    name = os.path.basename(path).partition(".")[0]
    if contains_saved_model(path):
        return _read_saved_model(path, name, signature)
    if path.endswith((".keras", ".h5", ".hdf5")) and os.path.isfile(path):
        return _read_keras(path, name)
    raise UsageError(f"{path!r} is neither a SavedModel nor a .keras or .h5 file", status=1)


def _read_saved_model(path: str, name: str, signature: str | None) -> _Source:
    try:
        loaded = load(path)
    except OSError as error:
        raise UsageError(str(error), status=1) from None
    key = signature or ("serving_default" if "serving_default" in loaded.signatures else None)
    if key not in loaded.signatures:
        known = ", ".join(loaded.signatures) or "none"
        raise UsageError(f"{path!r} has no signature {key or 'serving_default'!r}; choose from {known}", status=1)
    concrete = loaded.signatures[key]
    return _Source(name, concrete, dict(concrete.structured_input_signature[1]), loaded, list(concrete.variables))


def _read_keras(path: str, name: str) -> _Source:
    from gradtape import keras

    try:
        model = keras.models.load_model(path, compile=False)
    except (ValueError, TypeError, OSError) as error:
        raise UsageError(f"Keras cannot load {path!r}: {error}", status=1) from None
    functional = getattr(model, "_functional", None) or model
    structure = getattr(functional, "_inputs_struct", None)
    if structure is None:
        raise NotImplementedError("its class is a subclass of keras.Model, whose inputs are not declared")
    flat = nest.flatten(structure)
    specs = {each.name.partition(":")[0]: TensorSpec(each.shape, each.dtype) for each in flat}

    def call(**inputs: Any) -> Any:
        return model(nest.pack_sequence_as(structure, [inputs[key] for key in specs]), training=False)

    return _Source(name, call, specs, model, list(model.variables))


def traced(source: _Source) -> ExportedModel:
    """A model as one program over the functions of NumPy or XLA."""
    if getattr(source.call, "has_stored_programs", False):
        raise NotImplementedError(
            "gradtape saved it as StableHLO, which cannot be converted further. Export the .keras file, or a "
            "SavedModel written by TensorFlow."
        )
    names = list(source.inputs)
    function = Function(
        lambda *tensors: source.call(**dict(zip(names, tensors, strict=True))),
        [TensorSpec(spec.shape, spec.dtype, name) for name, spec in source.inputs.items()],
        autograph=False,
    )
    concrete = function.get_concrete_function()
    reason = getattr(concrete, "reason", None)
    if reason is not None or concrete.is_for_each_size:
        why = reason or "The code needs to know the sizes of its inputs."
        raise NotImplementedError(f"it does not work for all sizes. {why}")
    results = concrete.structured_outputs
    if isinstance(results, dict):
        outputs = [str(key) for key in sorted(results)]
    else:
        count = len(nest.flatten(results))
        outputs = [f"output_{i}" for i in range(count)]
    return ExportedModel(source.name, source.inputs, outputs, concrete, _named(concrete.variables))


def _named(variables: Sequence[Variable]) -> dict[str, Variable]:
    """Variables by name; equal names are made unique."""
    found: dict[str, Variable] = {}
    for variable in variables:
        name = stem = variable.name.removesuffix(":0").replace("/", ".")
        count = 0
        while name in found:
            count += 1
            name = f"{stem}_{count}"
        found[name] = variable
    return found


# -- writing ---------------------------------------------------------------------------------------------------------
def _write_saved_model(source: _Source, output: str) -> None:
    from gradtape._src.saved_model.save import save
    from gradtape._src.tf.module import Module

    if hasattr(source.owner, "export") and not contains_saved_model(source.name):
        source.owner.export(output, verbose=False)
        return
    model, names = Module(name="model"), list(source.inputs)
    specs = [TensorSpec(spec.shape, spec.dtype, name) for name, spec in source.inputs.items()]
    serve = Function(lambda *given: source.call(**dict(zip(names, given, strict=True))), specs, autograph=False)
    vars(model)["weights"] = source.variables
    save(model, output, signatures={"serving_default": serve})


def _write_stablehlo(source: _Source, output: str) -> None:
    from gradtape._src.saved_model.export import exported

    model = traced(source)
    _, body = exported(model.concrete)
    if len(body.steps) != 1 or not body.programs:
        raise NotImplementedError("it has ops of strings or tables, or shapes that depend on values")
    found = body.programs[0].exported
    names = {id(v): name for name, v in model.variables.items()}
    weights = [names[id(v)] for v in found.variables]
    described = {
        "name": model.name,
        "calling_convention_version": found.version,
        "platforms": ["cpu", "cuda"],
        "inputs": [_described(name, model.inputs[name]) for name in model.inputs],
        "weights": weights,
        "outputs": [
            {"name": name, "dtype": value.dtype.name, "shape": value.shape.as_list()}
            for name, value in zip(model.outputs, found.outputs, strict=False)
        ],
    }
    values: dict[str, Any] = {name: np.asarray(model.variables[name].numpy()) for name in weights}
    os.makedirs(output, exist_ok=True)
    _file(output, "module.stablehlo", found.module)
    _file(output, "module.mlir", _text_of(found.module).encode())
    _file(output, "signature.json", json.dumps(described, indent=1).encode())
    atomic.write(
        os.path.join(output, "weights.npz"),
        lambda file: np.savez(file, **values),
    )


def _described(name: str, spec: TensorSpec) -> dict[str, Any]:
    return {"name": name, "dtype": spec.dtype.name, "shape": spec.shape.as_list()}


def _file(folder: str, name: str, data: bytes) -> None:
    atomic.write(os.path.join(folder, name), lambda file: file.write(data))


def _text_of(module: bytes) -> str:
    """Convert StableHLO from its portable form to text."""
    from jax._src.interpreters import mlir
    from jax._src.lib import _jax  # type: ignore[attr-defined]

    with mlir.make_ir_context():
        return str(mlir.module_to_string(_jax.mlir.deserialize_portable_artifact(module)))


def _write_numpy(source: _Source, output: str) -> None:
    from gradtape._src.cli.export_numpy import write

    write(traced(source), output)


def _write_onnx(source: _Source, output: str) -> None:
    from gradtape._src.cli.export_onnx import write

    write(traced(source), output)


_WRITERS: dict[str, Callable[[_Source, str], None]] = {
    "stablehlo": _write_stablehlo, "savedmodel": _write_saved_model, "onnx": _write_onnx, "numpy": _write_numpy,
}  # fmt: skip
_ENDINGS = {"stablehlo": "_stablehlo", "savedmodel": "_savedmodel", "onnx": ".onnx", "numpy": "_numpy.py"}
