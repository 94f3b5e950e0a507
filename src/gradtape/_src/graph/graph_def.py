"""Graphs as TensorFlow's messages `GraphDef`, `FunctionDef` and `NodeDef`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gradtape._src.arrays.symbolic import Symbolic
from gradtape._src.dtypes import as_dtype, resource
from gradtape._src.formats.event import (
    ArgDef,
    AttrValue,
    FunctionDef,
    GraphDef,
    NodeDef,
    OpDef,
    TensorProto,
    shape_proto,
)
from gradtape._src.formats.tensor_proto import serialized
from gradtape._src.graph.listing import Listed, Listing, functions_in


def named_outputs(listed: Listed) -> Iterator[tuple[str, Symbolic]]:
    """The names of an operation's results, and their values."""
    return ((f"{listed.name}:{i}", symbol) for i, symbol in enumerate(listed.outputs))


def node_def(listed: Listed, functions: Sequence[tuple[str, str]] = ()) -> NodeDef:
    """An operation as a message; `functions` are the names of the functions that it calls, by attribute."""
    attrs = {label: _function(name) for label, name in functions}
    if listed.outputs:
        first = listed.outputs[0]
        shape = AttrValue(shape=shape_proto([n if isinstance(n, int) else None for n in first.shape]))
        attrs |= {"dtype": AttrValue(type=as_dtype(first.dtype).as_datatype_enum), "_output_shapes": shape}
        if listed.type == "Placeholder":
            attrs["shape"] = shape
    elif listed.type == "Placeholder":
        attrs["dtype"] = AttrValue(type=resource.as_datatype_enum)
    if listed.value is not None:
        attrs["value"] = AttrValue(tensor=TensorProto.FromString(serialized(np.asarray(listed.value))))
    inputs = [name.removesuffix(":0") for name in listed.inputs if name]
    return NodeDef(name=listed.name, op=listed.type, input=inputs, attr=attrs)


def _function(name: str) -> AttrValue:
    found = AttrValue()
    found.func.name = name
    return found


def graph_def(listing: Listing) -> GraphDef:
    """A graph with the functions that its operations call."""
    library: list[FunctionDef] = []
    made = GraphDef(node=_nodes(listing.operations, "", library))
    made.library.function.extend(library)
    return made


def function_def(name: str, listing: Listing, library: list[FunctionDef]) -> FunctionDef:
    """A graph as a function; the functions that it calls itself are added to the library."""
    arguments = [each for each in listing.operations if each.type == "Placeholder"]
    nodes = _nodes([each for each in listing.operations if each.type != "Placeholder"], f"{name}_", library)
    results = {f"output_{i}": symbol for i, symbol in enumerate(listing.results)}
    signature = OpDef(
        name=name,
        input_arg=[ArgDef(name=each.name, type=_enum(each)) for each in arguments],
        output_arg=[ArgDef(name=key, type=as_dtype(x.dtype).as_datatype_enum) for key, x in results.items()],
    )
    return FunctionDef(
        signature=signature, node_def=nodes, ret={key: listing.names[id(x)] for key, x in results.items()}
    )


def _enum(listed: Listed) -> int:
    found: int = (as_dtype(listed.outputs[0].dtype) if listed.outputs else resource).as_datatype_enum
    return found


def _nodes(operations: Sequence[Listed], prefix: str, library: list[FunctionDef]) -> list[NodeDef]:
    called: dict[str, list[tuple[str, str]]] = {}
    for operation, label, program in functions_in(operations):
        name = f"{prefix}{operation.name}_{label}"
        called.setdefault(operation.name, []).append((label, name))
        library.append(function_def(name, _listing_of(program), library))
    return [node_def(each, called.get(each.name, ())) for each in operations]


def _listing_of(program: Any) -> Listing:
    """The operations of a branch or a body."""
    return Listing.of_program(program)
