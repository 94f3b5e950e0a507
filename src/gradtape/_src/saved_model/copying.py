"""Copy functions of loaded SavedModels that are saved again, with all functions that they call.

Copies get new names, because functions of different files, and new ones, may have the same names.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from gradtape._src.formats.protobuf import Message, decode, encode
from gradtape._src.saved_model import writing
from gradtape._src.saved_model.interpreter import Captured, Library
from gradtape._src.saved_model.messages import attr_value

if TYPE_CHECKING:
    from gradtape._src.saved_model.messages import FunctionDefinition, Node

_OF_ITS_OWN_FILE = (b"forward_function_name", b"backward_function_name")
"""Attrs that name functions of the program that saved the file, which has ended."""


class CopiedGradient(NamedTuple):
    """A gradient function in the file: its name, its op type, its captures, its signatures."""

    name: str
    kind: str
    bound: list[Any]
    input_signature: bytes
    output_signature: bytes


class Copies:
    """Copies of functions from any number of files."""

    def __init__(self) -> None:
        self.functions: list[Message] = []
        self.gradients: list[CopiedGradient] = []
        self.ops: dict[str, bytes] = {}
        self._names: dict[tuple[int, str], str] = {}
        self._libraries: list[Library] = []  # kept alive, because names are stored by their ids

    def function(self, library: Library, name: str) -> str:
        """The name of the copy of a function; copies it, and all functions that it calls, if necessary."""
        pending: list[str] = []
        new = self._callee(library, name, pending)
        while pending:
            each = pending.pop()
            definition = library.function(each).definition
            called: list[str] = []
            self.functions.append(self._copied(library, self._names[id(library), each], definition, called))
            pending += called
        return new

    def _renamed(self, name: str) -> str:
        found = re.fullmatch(r"(.*?)(_copy)?_\d+", name)
        return f"{found[1] if found else name}_copy_{len(self._names)}"

    def _copied(self, library: Library, new: str, definition: FunctionDefinition, called: list[str]) -> Message:
        signature: Message = [(number, value) for number, value in decode(definition.signature.data) if number != 1]
        attrs = [(number, value) for number, value in definition.attrs if not _is_of_its_own_file(number, value)]
        return [
            (1, [(1, writing.text(new)), *signature]),
            *((3, self._node(library, node, called)) for node in definition.nodes.values()),
            *(writing.entry(4, name, writing.text(source)) for name, source in definition.results.items()),
            *(writing.entry(6, name, writing.text(node)) for name, node in definition.control_results.items()),
            *attrs,
        ]

    def _node(self, library: Library, node: Node, called: list[str]) -> Message:
        op = self._callee(library, node.op, called) if node.op in library.graph.functions else node.op
        if node.op in library.ops:
            self.ops[node.op] = library.ops[node.op].data
        attrs: dict[str, Any] = {name: self._attr(library, data, called) for name, data in node.attrs.items()}
        kind = attr_value(node.attrs["_gradient_op_type"]) if "_gradient_op_type" in node.attrs else None
        if isinstance(kind, bytes) and kind.decode() in library.registered:
            attrs["_gradient_op_type"] = [(2, writing.text(self._gradient(library, kind.decode())))]
        return writing.node(node.name, op, [*node.inputs, *(f"^{each}" for each in node.control_inputs)], attrs)

    def _callee(self, library: Library, name: str, called: list[str]) -> str:
        """The name of the copy of a callee, which is queued on its first call."""
        if (id(library), name) not in self._names:
            called.append(name)
            self._libraries.append(library)
            self._names[id(library), name] = self._renamed(name)
        return self._names[id(library), name]

    def _attr(self, library: Library, data: bytes, called: list[str]) -> bytes:
        """An AttrValue with new names of functions: a single one (field 10), or a list (field 9 in field 1)."""
        if data[:1] not in (b"\x52", b"\x0a"):
            return data
        message = decode(data)
        (number, value), *rest = message
        if number == 10:
            return encode([(10, self._function_attr(library, value, called)), *rest])
        items = decode(value)
        if not any(each == 9 for each, _ in items):
            return data
        return encode([(1, [(9, self._function_attr(library, item, called)) for _, item in items]), *rest])

    def _function_attr(self, library: Library, data: bytes, called: list[str]) -> Message:
        fields = decode(data)
        name = next((value.decode() for number, value in fields if number == 1), "")
        rest = [(number, value) for number, value in fields if number != 1]
        return [(1, writing.text(self._callee(library, name, called))), *rest]

    def _gradient(self, library: Library, kind: str) -> str:
        """The new op type of a custom gradient, whose function is copied as well."""
        key = f"gradient of {kind}"
        if (id(library), key) in self._names:
            return self._names[id(library), key]
        new = self._names[id(library), key] = self._renamed(kind)
        registered = library.registered[kind]
        name = self.function(library, registered.name)
        bound = [
            each._replace(function=self.function(library, each.function)) if isinstance(each, Captured) else each
            for each in registered.bound()
        ]
        self.gradients.append(CopiedGradient(name, new, bound, registered.input_signature, registered.output_signature))
        return new


def _is_of_its_own_file(number: int, data: bytes) -> bool:
    return number == 5 and any(field == 1 and value in _OF_ITS_OWN_FILE for field, value in decode(data))
