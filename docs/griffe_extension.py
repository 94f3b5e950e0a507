"""The package `tf` for griffe, and so for mkdocstrings: the public names as users write them, each described once.

griffe reads sources. In gradtape's, most functions are declarations (`exp = unary("exp", ...)`), which look like
constants to it, and names are imported where they are public. This extension gives griffe the objects themselves, with
their signatures and docstrings, under the names that docs/public_names.py finds on the pages of the reference.
"""

from __future__ import annotations

import enum
import inspect
import json
import sys
from pathlib import Path
from typing import Any

import griffe

import gradtape

sys.path.insert(0, str(Path(__file__).parent))

import public_names

_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: griffe.ParameterKind.positional_only,
    inspect.Parameter.POSITIONAL_OR_KEYWORD: griffe.ParameterKind.positional_or_keyword,
    inspect.Parameter.VAR_POSITIONAL: griffe.ParameterKind.var_positional,
    inspect.Parameter.KEYWORD_ONLY: griffe.ParameterKind.keyword_only,
    inspect.Parameter.VAR_KEYWORD: griffe.ParameterKind.var_keyword,
}


class PublicNames(griffe.Extension):
    """Fills the package `tf`, of which docs/api has an empty one for griffe to find."""

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        """Add what the pages describe."""
        if pkg.name != "tf":
            return
        for page, own in public_names.entries():
            space = _module(pkg, page.name if public_names.is_namespace(public_names.resolve(page.name)) else "")
            space.docstring = _elsewhere(page, own) if space is not pkg or page.name == "tf" else space.docstring
            for name, value in own:
                path, _, last = name.rpartition(".")
                found = _object(last, name, value)
                # `::: tf` shows what is public: an object with a directive of its own is not shown a second time.
                found.public = page.name != name
                found.aliases = {}
                _module(pkg, path).set_member(last, found)


def _module(package: griffe.Module, path: str) -> griffe.Module:
    """The module with a dotted path, which is made if it is not there."""
    found = package
    for part in path.split(".")[1:]:
        if part not in found.members:
            found.set_member(part, griffe.Module(part, filepath=package.filepath))
        found = found.members[part]  # type: ignore[assignment]
    return found


def _elsewhere(page: public_names.Page, own: list[tuple[str, Any]]) -> griffe.Docstring | None:
    """Links to the names of a namespace that are described under another one."""
    here, places = {name for name, _ in own}, public_names.places()
    links = [f"[`{name}`]({places[name]})" for name, _ in page.members if name not in here]
    return griffe.Docstring("Described on other pages: " + ", ".join(links)) if links else None


def _object(last: str, name: str, value: Any) -> griffe.Object:
    if not isinstance(value, type):
        return _function(last, name, value)
    return _enum(last, name, value) if issubclass(value, enum.Enum) else _class(last, name, value)


def _docstring(name: str, value: Any, more: str = "") -> griffe.Docstring:
    text = public_names.described(name, value, public_names.glossary())
    return griffe.Docstring(f"{text}\n\n{more}".strip(), parser="google", parser_options={"warnings": False})


def _links(name: str, value: Any) -> str:
    others = [other for other in public_names.names()[id(value)] if other != name]
    return public_names.links(name, value, others, public_names.places())


def _parameters(value: Any) -> griffe.Parameters:
    found = [
        griffe.Parameter(p.name, kind=_KINDS[p.kind], default=None if p.default is p.empty else _default(p.default))
        for p in public_names.parameters(value)
    ]
    return griffe.Parameters(*found)


def _default(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return f"tf.{type(value).__name__}.{value.name}"
    if isinstance(value, gradtape.DType):
        return f"tf.{value.name}"
    if callable(value):
        return getattr(value, "__name__", repr(value))
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _function(last: str, name: str, value: Any, links: bool = True) -> griffe.Function:
    text = _docstring(name, value, _links(name, value) if links else "")
    return griffe.Function(last, parameters=_parameters(value), docstring=text)


def _class(last: str, name: str, value: type) -> griffe.Class:
    found = griffe.Class(last, docstring=_docstring(name, value, _links(name, value)))
    if issubclass(value, BaseException):
        return found
    found.set_member("__init__", griffe.Function("__init__", parameters=_parameters(value)))
    for method, member in public_names.methods(name, value):
        path = f"{name}.{method}"
        if isinstance(member, property):
            found.set_member(method, griffe.Attribute(method, docstring=_docstring(path, member)))
        else:
            found.set_member(method, _function(method, path, member, links=False))
    return found


def _enum(last: str, name: str, value: type[enum.Enum]) -> griffe.Class:
    rows = "".join(f"| `{member.name}` | {member.value} |\n" for member in value)
    more = f"| member | value |\n|---|---|\n{rows}\n{_links(name, value)}"
    return griffe.Class(last, docstring=_docstring(name, value, more))
