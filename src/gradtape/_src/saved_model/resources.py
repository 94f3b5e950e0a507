"""Tables and assets of a SavedModel: the functions that create and fill tables, and files."""

from __future__ import annotations

import os
import shutil
import uuid
from typing import Any, NamedTuple

import numpy as np

from gradtape._src import errors
from gradtape._src.conversion import wrap
from gradtape._src.formats.protobuf import Message
from gradtape._src.saved_model import writing
from gradtape._src.saved_model.load import Asset
from gradtape._src.shape import TensorShape
from gradtape._src.tf.lookup.initializers import TextFileInitializer
from gradtape._src.tf.lookup.tables import DenseHashTable, LookupInterface, MutableHashTable, StaticHashTable

RESOURCES = (StaticHashTable, MutableHashTable, DenseHashTable)
"""Tables that are resources."""


class TableFunction(NamedTuple):
    """A function that creates, fills or destroys a table: its further captures, and whether it returns a handle."""

    name: str
    function: Message
    captured: list[Any]
    gives_handle: bool


class Assets:
    """The files of a SavedModel without repetitions, and the names of their copies."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.names: list[str] = []
        self._made: dict[str, Asset] = {}

    def of(self, path: str) -> Asset:
        """The asset for a file that a table is initialized from."""
        return self._made.setdefault(os.path.abspath(path), Asset(path))

    def number(self, asset: Asset) -> int:
        """The number of an asset's file."""
        path = os.path.abspath(asset.path)
        if path not in self.paths:
            if not os.path.isfile(path):
                raise errors.NotFoundError(None, None, f"{path}; No such file or directory: an asset of the model")
            name, ending = os.path.splitext(os.path.basename(path))
            taken, count = name + ending, 0
            while taken in self.names:
                count += 1
                taken = f"{name}_{count}{ending}"
            self.paths.append(path)
            self.names.append(taken)
        return self.paths.index(path)

    def copy(self, folder: str) -> None:
        """Copy the files into a folder."""
        for path, name in zip(self.paths, self.names, strict=True):
            shutil.copyfile(path, os.path.join(folder, name))

    def file_defs(self) -> Message:
        """AssetFileDefs: the placeholders of the outer graph for the paths of files."""
        return [
            (6, [(1, [(1, writing.text(f"asset_{i}:0")), (2, writing.STRING), (3, [])]), (2, writing.text(name))])
            for i, name in enumerate(self.names)
        ]


class SavedTable:
    """A table in a file: its op, and the functions that create and fill it."""

    def __init__(self, table: Any, number: int, assets: Assets) -> None:
        self.table = table
        self.creator = f"__inference__creator_{number}"
        self.initializer = f"__inference__initializer_{number}"
        self.destroyer = f"__inference__destroyer_{number}"
        self._shared_name = f"table_{uuid.uuid4()}"
        initializer = getattr(table, "initializer", None)
        self.asset = assets.of(initializer.path) if isinstance(initializer, TextFileInitializer) else None

    def node(self, name: str) -> Message:
        """The op that creates the handle."""
        keys, values = (each.as_datatype_enum for each in (self.table.key_dtype, self.table.value_dtype))
        attrs: dict[str, Message] = {
            "key_dtype": writing.type_attr(keys),
            "value_dtype": writing.type_attr(values),
            "shared_name": [(2, writing.text(self._shared_name))],
        }
        shape = tuple(self.table.value_shape)
        if shape:
            attrs["value_shape"] = [(7, writing.shape_proto(TensorShape(shape)))]
        kind = "MutableHashTable" if isinstance(self.table, (MutableHashTable, DenseHashTable)) else "HashTable"
        return writing.node(name, f"{kind}OfTensorsV2" if shape else f"{kind}V2", [], attrs)

    def functions(self) -> list[TableFunction]:
        """The functions of the table; the one that fills it captures its handle, and its file, if there is one."""
        handle = [writing.arg("table_handle", writing.RESOURCE)]
        create = writing.function(
            self.creator, [], handle, [self.node("table")], {"table_handle": "table:table_handle:0"}, ["table"]
        )
        destroy = _counted(self.destroyer, [], [], [])
        captured = [self.table] if self.asset is None else [self.table, self.asset]
        return [
            TableFunction(self.creator, create, [], True),
            TableFunction(self.initializer, self._initializer(), captured, False),
            TableFunction(self.destroyer, destroy, [], False),
        ]

    def _initializer(self) -> Message:
        inputs = [writing.arg("table", writing.RESOURCE)]
        if self.asset is not None:
            found = self.table._initializer
            key, value = found.columns
            attrs: dict[str, Message] = {"key_index": [(3, key)], "value_index": [(3, value)]}
            attrs |= {"delimiter": [(2, writing.text(found.delimiter))], "offset": [(3, found.offset)]}
            attrs["vocab_size"] = [(3, -1 if found.size is None else found.size)]
            inputs.append(writing.arg("filename", writing.STRING))
            fill = writing.node("fill", "InitializeTableFromTextFileV2", ["table", "filename"], attrs)
            return _counted(self.initializer, inputs, [fill], ["fill"])
        keys, values = self.table.content()
        nodes = [writing.constant("keys", keys), writing.constant("values", values)]
        kinds = {"Tin": writing.type_attr(keys.dtype.as_datatype_enum)}
        kinds["Tout"] = writing.type_attr(values.dtype.as_datatype_enum)
        given = ["table", "keys:output:0", "values:output:0"]
        nodes.append(writing.node("fill", "LookupTableImportV2", given, kinds))
        return _counted(self.initializer, inputs, nodes, ["fill"])


def _counted(name: str, inputs: list[Message], nodes: list[Message], controls: list[str]) -> Message:
    """A function that returns 1, like TensorFlow's functions with side effects only."""
    one = writing.constant("one", wrap(np.array(1, np.int32)))
    result = writing.node(
        "result", "Identity", ["one:output:0", *(f"^{each}" for each in controls)], {"T": writing.type_attr(3)}
    )
    nodes = [*nodes, one, result]
    return writing.function(
        name, inputs, [writing.arg("output_0", 3)], nodes, {"output_0": "result:output:0"}, controls
    )


def is_table(value: Any) -> bool:
    """Whether a value is a table of any kind."""
    return isinstance(value, LookupInterface)


# -- the outer graph, for sessions and servers -------------------------------------------------------------------------
INIT = "init_all"


class OuterTable(NamedTuple):
    """A table of the outer graph: the node that creates its handle, the function that fills it, and its captures."""

    name: str
    node: Message
    initializer: str | None
    inputs: list[str]
    types: list[int]


def outer_nodes(tables: list[OuterTable], assets: Assets) -> list[Message]:
    """Nodes that create tables, fill them, and hold the paths of assets.

    A session feeds the paths only to the op that initializes the graph.
    """
    nodes, controls = [], []
    for i in range(len(assets.names)):
        kind = {"dtype": writing.type_attr(writing.STRING)}
        nodes.append(writing.placeholder(f"asset_{i}", writing.STRING, TensorShape([])))
        nodes.append(writing.handle(f"asset_{i}_variable", writing.STRING, TensorShape([])))
        nodes.append(writing.node(f"asset_{i}_assign", "AssignVariableOp", [f"asset_{i}_variable", f"asset_{i}"], kind))
        nodes.append(writing.node(f"asset_{i}_path", "ReadVariableOp", [f"asset_{i}_variable"], kind))
        controls.append(f"asset_{i}_assign")
    for table in tables:
        nodes.append(table.node)
        if table.initializer is not None:
            nodes.append(writing.call(f"{table.name}_fill", table.initializer, table.inputs, table.types, [3]))
            controls.append(f"{table.name}_fill")
    nodes.append(writing.node(INIT, "NoOp", [f"^{each}" for each in controls], {}))
    return nodes


def init_parts() -> Message:
    """The signature and the collection that name the op which initializes the graph."""
    info: Message = [(1, writing.text(INIT)), (2, 0), (3, [(3, 1)])]
    signature = writing.entry(5, "__saved_model_init_op", [writing.entry(2, "__saved_model_init_op", info)])
    return [writing.entry(4, "saved_model_main_op", [(1, [(1, writing.text(INIT))])]), signature]
