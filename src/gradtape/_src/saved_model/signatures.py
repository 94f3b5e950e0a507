"""Signatures of a SavedModel: functions with named inputs and a dictionary of results."""

from __future__ import annotations

from typing import Any

from gradtape._src import errors, nest
from gradtape._src.function.concrete import ConcreteFunction
from gradtape._src.function.eager import EagerFunction
from gradtape._src.function.function import BoundFunction, Function
from gradtape._src.ops.ragged import RaggedTensor, RaggedTensorSpec
from gradtape._src.ops.ragged.structure import RaggedParts
from gradtape._src.ops.sparse_tensor import SparseTensor, SparseTensorSpec
from gradtape._src.saved_model.export import exported
from gradtape._src.saved_model.functions import SPECS, ConcreteFunction as LoadedFunction, RestoredFunction
from gradtape._src.saved_model.structures import components
from gradtape._src.shape import TensorShape, TensorSpec

CONCRETE = (ConcreteFunction, LoadedFunction)
FUNCTIONS = (Function, BoundFunction, RestoredFunction)


def traces(function: Any) -> list[Any]:
    """The concrete functions of a function; a function with an input_signature has one."""
    if isinstance(function, RestoredFunction):
        return function.concrete_functions
    if function.input_signature is not None:
        return [function.get_concrete_function()]
    return list(function.traces())


def chosen(obj: Any, signatures: Any, declared: list[Any]) -> dict[str, Any]:
    """The concrete functions of signatures, by name."""
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
    """The concrete function of a signature."""
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
            f"The function for the signature {key!r} has {len(found)} traces. Use an input_signature, or pass the "
            "result of function.get_concrete_function(...)."
        )
    return found[0]


def _can_be_signature(function: Any) -> bool:
    """Whether a function has results, and all of its arguments and results are tensors."""
    concrete = traces(function)[0]
    if isinstance(concrete, EagerFunction):
        concrete = exported(concrete)[0]
    try:
        named_inputs("", concrete)
        return bool(named_outputs("", as_specs(concrete.structured_outputs)))
    except ValueError:
        return False


def named_inputs(key: str, concrete: Any) -> dict[str, TensorSpec]:
    """The inputs of a signature by name, in the order of the function; composite tensors by component."""
    if getattr(concrete, "keywords", None):
        specs = concrete.structured_input_signature[1]
        return {name: specs[name] for name in concrete.keywords}
    found: dict[str, TensorSpec] = {}
    for i, spec in enumerate(nest.flatten(as_specs(concrete.structured_input_signature))):
        if not isinstance(spec, SPECS):
            raise ValueError(f"The signature {key!r} takes {spec!r}, but signatures can take only tensors.")
        name = getattr(spec, "name", None) or f"args_{i}"
        for number, part in enumerate(components(spec)):
            own = name if number == 0 else f"{name}_{number}"
            if own in found:
                raise ValueError(f"Got non-unique argument names in SavedModel signature function: {own!r} twice.")
            found[own] = TensorSpec(part.shape, part.dtype, own)
    return found


def named_outputs(key: str, outputs: Any) -> dict[str, Any]:
    """The results of a signature by name, in the order of the function."""
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
def as_specs(value: Any) -> Any:
    """A structure of specs, in which ragged and sparse tensors of specs are replaced by specs."""
    if isinstance(value, (RaggedParts, RaggedTensor)):
        flat, splits = value.flat_values, value.nested_row_splits
        rows = splits[0].shape[0]
        outer = [None if rows is None else rows - 1, *[None] * len(splits)]
        shape = TensorShape(None if flat.shape.rank is None else [*outer, *flat.shape.as_list()[1:]])
        return RaggedTensorSpec(shape, flat.dtype, len(splits), splits[0].dtype)
    if isinstance(value, SparseTensor):
        return SparseTensorSpec(TensorShape([None] * (value.dense_shape.shape[0] or 0)), value.values.dtype)
    if isinstance(value, dict):
        return {key: as_specs(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        items = [as_specs(each) for each in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def check_composites(declared: Any, traced: Any) -> None:
    """Raise an error for a trace with a fixed number of rows of a ragged argument that may have any number."""
    pair = [nest.flatten(as_specs(each.structured_input_signature)) for each in (declared, traced)]
    for one, other in zip(*pair, strict=True):
        if isinstance(one, (RaggedTensorSpec, SparseTensorSpec)) and one != other:
            raise errors.UnimplementedError(
                None,
                None,
                f"The function {declared.name!r} cannot be saved for arguments like {one}: its code needs the "
                "number of rows. Use tensors in its input_signature, and create ragged or sparse tensors from them "
                "in the function.",
            )


def flat_specs(value: Any) -> list[TensorSpec]:
    """The specs of all tensors of a structure, in flat order."""
    leaves = [leaf for leaf in nest.flatten(value) if isinstance(leaf, SPECS)]
    return [part for leaf in leaves for part in components(leaf)]
