"""Find the names of TensorFlow that Python code uses, from its source. Nothing is imported or run.

Names are resolved by Python's scoping rules: through imports in all their forms, through plain assignments
(`layers = tf.keras.layers`), into functions, which see the final names of the module, and into classes. A parameter, a
local variable or another import hides a name. Every name is reported as `tf.…`, whatever its local name is.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gradtape._src.cli.names import Call

__all__ = ["Trouble", "Use", "read_notebook", "read_source"]

_IMPORTERS = frozenset(("__import__", "import_module", "importorskip"))
_COMPANIONS = frozenset(("tf_agents", "tf_keras", "tf_slim", "tflearn", "tfx"))
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Use(NamedTuple):
    """A place where a name is used; `cell` counts the cells of a notebook from 1, and `line` is within the cell."""

    name: str
    line: int
    cell: int | None = None
    call: Call | None = None
    note: str = ""


class Trouble(NamedTuple):
    """A file, or a cell of a notebook, that cannot be parsed."""

    why: str
    line: int | None = None
    cell: int | None = None


Reading = tuple[list[Use], list[Trouble]]


def read_source(source: str | bytes) -> Reading:
    """The uses in the text of a Python file, in the order in which they are met.

    >>> uses, _ = read_source("from tensorflow import nn as n\\ny = n.relu(x, name='y')")
    >>> [(use.name, use.line) for use in uses]
    [('tf.nn', 1), ('tf.nn.relu', 2)]
    """
    reader = _Reader()
    try:
        reader.read(_parse(source), None)
        reader.finish()
    except _CANNOT as error:
        return [], [_trouble(error)]
    return reader.uses, []


def read_notebook(text: str | bytes) -> Reading:
    """The uses in a notebook (.ipynb): its cells of code are one program, less the magic commands.

    >>> cells = [{"cell_type": "code", "source": ["%matplotlib inline\\n", "import tensorflow as tf\\n", "tf.abs(x)"]}]
    >>> read_notebook(json.dumps({"cells": cells}))
    ([Use(name='tf.abs', line=3, cell=1, call=Call(positional=1, keywords=()), note='')], [])
    """
    reader, troubles = _Reader(), []
    try:
        sources = list(_cells(json.loads(text)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return [], [Trouble(f"not a notebook: {error}")]
    for number, source in sources:
        try:
            reader.read(_parse_cell(source), number)
        except _CANNOT as error:
            troubles.append(_trouble(error, number))
    try:
        reader.finish()
    except RecursionError as error:
        troubles.append(_trouble(error))
    return reader.uses, troubles


# -- parsing -----------------------------------------------------------------------------------------------------------
_CANNOT = (SyntaxError, ValueError, RecursionError, MemoryError)


def _trouble(error: BaseException, cell: int | None = None) -> Trouble:
    if isinstance(error, SyntaxError):
        return Trouble(f"syntax error: {error.msg}", error.lineno, cell)
    if isinstance(error, RecursionError | MemoryError):
        return Trouble("nested too deeply", None, cell)
    return Trouble(str(error), None, cell)


def _parse(source: str | bytes) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about the checked code's escapes are not ours
        return ast.parse(source)


def _cells(notebook: Any) -> Iterator[tuple[int, str]]:
    cells = notebook["cells"] if "cells" in notebook else notebook["worksheets"][0]["cells"]  # "worksheets" before 2015
    number = 0
    for cell in cells:
        if cell["cell_type"] == "code":
            number += 1
            source = cell["source"] if "source" in cell else cell["input"]
            yield number, source if isinstance(source, str) else "".join(source)


_PYTHON_CELLS = re.compile(r"%%(time|timeit|capture|prun|python3?)\b")
_MAGIC = re.compile(r"^(\s*)([%!?].*|[\w.]+\?\??\s*)$")
_MAGIC_VALUE = re.compile(r"^(\s*[\w.,\s]+?=\s*)[%!].*$")


def _parse_cell(source: str) -> ast.Module:
    if source.lstrip().startswith("%%"):
        if not _PYTHON_CELLS.match(source.lstrip()):
            return ast.Module([], [])  # another language
    else:
        try:
            return _parse(source)  # a line that begins with % may be Python
        except SyntaxError:
            pass
    lines = (_MAGIC_VALUE.sub(r"\1None", _MAGIC.sub(r"\1pass", line)) for line in source.splitlines())
    return _parse("\n".join(lines) + "\n")


# -- scopes ------------------------------------------------------------------------------------------------------------
@dataclass
class _Scope:
    """The names of a module, class or function, and the TensorFlow names that they refer to, or None."""

    is_class: bool = False
    names: dict[str, str | None] = field(default_factory=dict)
    imported: set[str] = field(default_factory=set)
    outside: set[str] = field(default_factory=set)  # declared global


class _Reader(ast.NodeVisitor):
    """Visits trees in the order of the code; bodies of functions wait until the surrounding code has been read."""

    def __init__(self) -> None:
        self.uses: list[Use] = []
        self._module = _Scope()
        self._scopes = [self._module]
        self._later: deque[tuple[_Function, list[_Scope], int | None]] = deque()
        self._cell: int | None = None
        self._fallback = 0  # depth of branches that run if another one does not

    def read(self, tree: ast.Module, cell: int | None) -> None:
        self._cell = cell
        for statement in tree.body:
            self.visit(statement)

    def finish(self) -> None:
        while self._later:
            function, scopes, self._cell = self._later.popleft()
            inner = _Scope(names=dict.fromkeys(_locals(function)))
            self._scopes = [*scopes, inner]
            for statement in function.body:
                self.visit(statement)
        self._scopes = [self._module]

    # Names

    def _lookup(self, name: str) -> str | None:
        for scope in reversed(self._scopes):
            if scope.is_class and scope is not self._scopes[-1]:
                continue  # methods do not see the names of their class
            if name in scope.names and name not in scope.outside:
                return scope.names[name]
        return None

    def _bind(self, name: str, path: str | None, imported: bool = False) -> None:
        scope = self._scopes[-1]
        if name in scope.outside:
            scope = self._module
        if self._fallback and name in scope.imported and scope.names.get(name) is not None:
            return  # `except ImportError: tf = None`: the first one is meant
        scope.names[name] = path
        (scope.imported.add if imported else scope.imported.discard)(name)

    def _path(self, node: ast.expr) -> str | None:
        """The TensorFlow name that an expression refers to, or None."""
        match node:
            case ast.Name(id=name):
                return self._lookup(name)
            case ast.Attribute(value=value, attr=attr):
                parent = self._path(value)
                return f"{parent}.{attr}" if parent else None
            case ast.Call(func=ast.Name(id="getattr"), args=[value, ast.Constant(value=str(attr)), *_]) if (
                attr.isidentifier()
            ):
                parent = self._path(value)
                return f"{parent}.{attr}" if parent else None
            case ast.Call(func=function, args=[ast.Constant(value=str(module)), *_]):
                name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
                return _tensorflow(module) if name in _IMPORTERS else None
        return None

    def _use(self, path: str, node: ast.AST, call: Call | None = None, note: str = "") -> None:
        if path != "tf":
            self.uses.append(Use(path, getattr(node, "lineno", 0), self._cell, call, note))

    # Imports

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            path = _tensorflow(alias.name)
            first = alias.name.partition(".")[0]
            if path is None:
                self._companion(first, node)
                self._bind(alias.asname or first, None)
            else:
                self._use(path, node)
                self._bind(alias.asname or first, path if alias.asname else "tf", imported=True)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        path = _tensorflow(node.module) if node.module and not node.level else None
        if path is None and node.module and not node.level:
            self._companion(node.module.partition(".")[0], node)
        for alias in node.names:
            if path is not None and alias.name == "*":
                self._use(path, node)
                self._use(f"{path}.*", node, note="names that it imports are not tracked")
            elif path is not None:
                self._use(f"{path}.{alias.name}", node)
                self._bind(alias.asname or alias.name, f"{path}.{alias.name}", imported=True)
            elif alias.name != "*":
                self._bind(alias.asname or alias.name, None)

    def _companion(self, package: str, node: ast.AST) -> None:
        if package.startswith("tensorflow_") or package in _COMPANIONS:
            self._use(package, node, note="a separate package that needs TensorFlow itself")

    # Uses

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            path = self._lookup(node.id)
            if path is not None:
                self._use(path, node)
        else:
            self._bind(node.id, None)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        path = self._path(node)
        if path is None:
            self.visit(node.value)
        elif isinstance(node.ctx, ast.Load):
            self._use(path, node)

    def visit_Call(self, node: ast.Call) -> None:
        itself, function = self._path(node), self._path(node.func)
        if itself is not None:  # import_module("tensorflow.x"), getattr(tf, "x")
            self._use(itself, node)
        elif function is not None:
            starred = any(isinstance(argument, ast.Starred) for argument in node.args)
            keywords = tuple(keyword.arg for keyword in node.keywords if keyword.arg is not None)
            self._use(function, node.func, Call(None if starred else len(node.args), keywords))
        else:
            if isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) > 1:
                space = self._path(node.args[0])
                if space is not None:
                    self._use(space, node)
                    self._use(f"{space}.*", node, note="looked up by a name computed at run time")
                    node.args = node.args[1:]
            self.visit(node.func)
        if itself is None:
            for argument in (*node.args, *node.keywords):
                self.visit(argument)

    # Bindings

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self._assign(target, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)
            self._assign(node.target, node.value)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self._assign(node.target, node.value)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        match target, value:
            case ast.Name(id=name), _:
                self._bind(name, self._path(value))
            case (
                (ast.Tuple(elts=targets) | ast.List(elts=targets)),
                (ast.Tuple(elts=values) | ast.List(elts=values)),
            ) if len(targets) == len(values) and not any(isinstance(x, ast.Starred) for x in (*targets, *values)):
                for each, its in zip(targets, values, strict=True):
                    self._assign(each, its)
            case _:
                self.visit(target)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type is not None:
            self.visit(node.type)
        if node.name is not None:
            self._bind(node.name, None)
        self._branch(node.body)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        for statement in node.body:
            self.visit(statement)
        self._branch(node.orelse)

    def _branch(self, body: list[ast.stmt]) -> None:
        self._fallback += 1
        for statement in body:
            self.visit(statement)
        self._fallback -= 1

    def visit_Global(self, node: ast.Global) -> None:
        self._scopes[-1].outside.update(node.names)

    # Scopes

    def visit_FunctionDef(self, node: _Function) -> None:
        arguments = node.args
        annotated = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        before = [*node.decorator_list, *arguments.defaults, *arguments.kw_defaults, node.returns]
        for part in [*before, *(argument and argument.annotation for argument in annotated)]:
            if part is not None:
                self.visit(part)
        self._bind(node.name, None)
        self._later.append((node, list(self._scopes), self._cell))

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)
        self._bind(node.name, None)
        self._scopes.append(_Scope(is_class=True))
        for statement in node.body:
            self.visit(statement)
        self._scopes.pop()

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        self._scopes.append(_Scope(names=dict.fromkeys(_parameters(node.args))))
        self.visit(node.body)
        self._scopes.pop()

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        self._scopes.append(_Scope())
        for generator in node.generators:
            self.visit(generator)
        for part in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            self.visit(part)
        self._scopes.pop()

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = _comprehension

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for part in (node.iter, node.target, *node.ifs):
            self.visit(part)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        for part in (node.iter, node.target, *node.body, *node.orelse):
            self.visit(part)

    visit_AsyncFor = visit_For


def _tensorflow(module: str | None) -> str | None:
    """`tf.…` for a module of TensorFlow, else None."""
    first, dot, rest = (module or "").partition(".")
    return f"tf{dot}{rest}" if first == "tensorflow" else None


def _parameters(arguments: ast.arguments) -> list[str]:
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return [argument.arg for argument in every if argument is not None]


def _locals(function: _Function) -> set[str]:
    """The local names of a function: parameters, and names that its body binds."""
    found, outside = set(_parameters(function.args)), set()
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        match node:
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                outside.update(names)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
                continue
            case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                continue
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                found.update(alias.asname or alias.name.partition(".")[0] for alias in aliases)
            case ast.Name(id=name, ctx=ast.Store()) | ast.ExceptHandler(name=str(name)):
                found.add(name)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                found.add(name)
        waiting.extend(ast.iter_child_nodes(node))
    return found - outside
