"""Signatures of a SavedModel, to be written: functions with named inputs and a dictionary of results."""

from __future__ import annotations

from typing import Any

from gradtape._src import nest
from gradtape._src.dtypes import int64
from gradtape._src.function.concrete import ConcreteFunction
from gradtape._src.function.eager import EagerFunction
from gradtape._src.function.function import BoundFunction, Function
from gradtape._src.ops.ragged import RaggedTensorSpec
from gradtape._src.ops.sparse_tensor import SparseTensorSpec
from gradtape._src.saved_model.export import exported
from gradtape._src.saved_model.functions import SPECS, ConcreteFunction as LoadedFunction, RestoredFunction
from gradtape._src.shape import TensorShape, TensorSpec

CONCRETE = (ConcreteFunction, LoadedFunction)
FUNCTIONS = (Function, BoundFunction, RestoredFunction)


def traces(function: Any) -> list[Any]:
    """The concrete functions of a function; one with an input_signature has one."""
    if isinstance(function, RestoredFunction):
        return function.concrete_functions
    if function.input_signature is not None:
        return [function.get_concrete_function()]
    return list(function.traces())


def chosen(obj: Any, signatures: Any, declared: list[Any]) -> dict[str, Any]:
    """The concrete functions that are signatures, by name."""
    if signatures is None:
        own = getattr(obj, "_default_save_signature", None)  # of a Keras model
        if own is not None:
            return {"serving_default": own.get_concrete_function()}
        fitting = [each for each in declared if _can_be_signature(each)]
        return {"serving_default": traces(fitting[0])[0]} if len(fitting) == 1 else {}
    if isinstance(signatures, (*CONCRETE, *FUNCTIONS)) or not hasattr(signatures, "items"):
        signatures = {"serving_default": signatures}
    return {key: _concrete(key, function) for key, function in signatures.items()}


def _concrete(key: str, function: Any) -> Any:
    """The concrete function that is a signature."""
    if isinstance(function, CONCRETE):
        return function
    if not isinstance(function, FUNCTIONS):
        raise ValueError(
            f"Expected a TensorFlow function for which to generate a signature, but got {function}. Only "
            "`tf.functions` with an input signature or concrete functions can be used as a signature."
        )
    found = traces(function)
    if len(found) != 1:
        raise ValueError(
            f"The function for the signature {key!r} has {len(found)} traces. Give it an input_signature, or "
            "pass what function.get_concrete_function(...) returns."
        )
    return found[0]


def _can_be_signature(function: Any) -> bool:
    """Whether a function has results, and all that it takes and gives are tensors."""
    concrete = traces(function)[0]
    if isinstance(concrete, EagerFunction):
        concrete = exported(concrete)[0]
    try:
        named_inputs("", concrete)
        return bool(named_outputs("", concrete.structured_outputs))
    except ValueError:
        return False


def named_inputs(key: str, concrete: Any) -> dict[str, TensorSpec]:
    """The inputs of a signature by name, in the order of the function's; those of composite tensors are their parts."""
    if getattr(concrete, "keywords", None):
        specs = concrete.structured_input_signature[1]
        return {name: specs[name] for name in concrete.keywords}
    found: dict[str, TensorSpec] = {}
    for i, spec in enumerate(nest.flatten(concrete.structured_input_signature)):
        if not isinstance(spec, SPECS):
            raise ValueError(f"The signature {key!r} takes {spec!r}: signatures take tensors only.")
        name = getattr(spec, "name", None) or f"args_{i}"
        for number, part in enumerate(components(spec)):
            own = name if number == 0 else f"{name}_{number}"
            if own in found:
                raise ValueError(f"Got non-unique argument names in SavedModel signature function: {own!r} twice.")
            found[own] = TensorSpec(part.shape, part.dtype, own)
    return found


def named_outputs(key: str, outputs: Any) -> dict[str, Any]:
    """The results of a signature by name, in the order of the function's."""
    if isinstance(outputs, dict):
        named = {str(name): outputs[name] for name in sorted(outputs)}
    elif isinstance(outputs, (list, tuple)):
        named = {f"output_{i}": each for i, each in enumerate(outputs)}
    else:
        named = {"output_0": outputs}
    for name, spec in named.items():
        if not isinstance(spec, SPECS):
            raise ValueError(
                f"Got a non-Tensor value {spec!r} for key {name!r} in the output of the function used to generate the "
                f"SavedModel signature {key!r}. Outputs for functions used as signatures must be a single Tensor, a "
                "sequence of Tensors, or a dictionary from string to Tensor."
            )
    return {
        name: TensorSpec(spec.shape, spec.dtype, name) if isinstance(spec, TensorSpec) else spec
        for name, spec in named.items()
    }


# -- composite tensors -----------------------------------------------------------------------------------------------
def components(spec: Any) -> list[TensorSpec]:
    """The tensors that a spec stands for: a ragged tensor is its values and its row splits, outermost first."""
    if isinstance(spec, RaggedTensorSpec):
        sizes = spec.shape.as_list() if spec.shape.rank is not None else None
        inner = TensorShape(None) if sizes is None else TensorShape([None, *sizes[spec.ragged_rank + 1 :]])
        rows = None if sizes is None or sizes[0] is None else sizes[0] + 1
        splits = [TensorSpec([rows if i == 0 else None], spec.row_splits_dtype) for i in range(spec.ragged_rank)]
        return [TensorSpec(inner, spec.dtype), *splits]
    if isinstance(spec, SparseTensorSpec):
        rank = spec.shape.rank
        return [TensorSpec([None, rank], int64), TensorSpec([None], spec.dtype), TensorSpec([rank], int64)]
    return [spec]


def flat_specs(value: Any) -> list[TensorSpec]:
    """The specs of all tensors of a structure, in the order in which functions take and give them."""
    leaves = [leaf for leaf in nest.flatten(value) if isinstance(leaf, SPECS)]
    return [part for leaf in leaves for part in components(leaf)]
