"""Read the user's program: names of values, and what the surrounding lines do with them."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from operator import itemgetter
from types import FrameType, FunctionType, MethodType, ModuleType
from typing import Any

from gradtape._src.call_sites import Line, shown_line
from gradtape._src.variable import Variable, unwrapped


# -- names -----------------------------------------------------------------------------------------------------------
def name_of(value: Any, frame: FrameType | None) -> str | None:
    """The expression for an object in the code of this frame: `x`, `self.w`, `weights[0]`, `layers["a"]`."""
    if frame is None:
        return None
    for scope in (frame.f_locals, frame.f_globals):
        names = [name for name, found in list(scope.items()) if found is value and not name.startswith(_HIDDEN)]
        if names:
            return names[0]
    for name, holder in [*frame.f_locals.items(), *frame.f_globals.items()]:
        if name.startswith(_HIDDEN):
            continue
        inner = _inside(value, holder)
        if inner is not None:
            return name + inner
    return None


_HIDDEN = ("_", "@")
"""How names begin that are no names of the program's author; "@" is for those that pytest makes."""


def variable_of(uid: int, frame: FrameType | None) -> Variable | None:
    """The variable with a uid among the names of a frame."""
    scope = {} if frame is None else {**frame.f_globals, **frame.f_locals}
    return next((v for v in list(scope.values()) if isinstance(v, Variable) and v.uid == uid), None)


def _inside(value: Any, holder: Any) -> str | None:
    if type(holder) in (list, tuple):
        return next((f"[{i}]" for i, item in enumerate(holder[:1000]) if item is value), None)
    if type(holder) is dict:
        return next((f"[{key!r}]" for key, item in list(holder.items())[:1000] if item is value), None)
    attributes = getattr(holder, "__dict__", None)
    if type(attributes) is dict and not isinstance(holder, type) and len(attributes) < 1000:
        return next((f".{key}" for key, item in list(attributes.items()) if item is value), None)
    return None


# -- lines -----------------------------------------------------------------------------------------------------------
def shown(where: Line | None) -> str:
    """`train.py:12`, or `cell [4], line 2`."""
    return shown_line(where)


def statement_at(where: Line | None) -> str:
    """The source of the statement at a line, in one line; empty if the source is unknown."""
    if where is None:
        return ""
    node = next((s for s in _simple_statements(where[0]) if s.lineno <= where[1] <= (s.end_lineno or 0)), None)
    text = ast.unparse(node) if node is not None else linecache.getline(*where).strip()
    return text if len(text) <= 80 else text[:77] + "…"


def calls_at(where: Line) -> Iterator[tuple[str, str]]:
    """The calls `module.function(...)` in the statement at a line, as (module, function)."""
    try:
        tree = ast.parse(_statement_source(where))
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            if isinstance(owner, ast.Name):
                yield owner.id, node.func.attr


def _statement_source(where: Line) -> str:
    for node in _simple_statements(where[0]):
        if node.lineno <= where[1] <= (node.end_lineno or 0):
            return ast.unparse(node)
    return linecache.getline(*where).strip().rstrip(":")


def _simple_statements(file: str) -> list[ast.stmt]:
    return [
        node
        for node in ast.walk(_tree(file))
        if isinstance(node, ast.stmt)
        and not isinstance(
            node,
            (
                ast.FunctionDef,
                ast.AsyncFunctionDef,
                ast.ClassDef,
                ast.With,
                ast.AsyncWith,
                ast.For,
                ast.AsyncFor,
                ast.While,
                ast.If,
                ast.Try,
            ),
        )
    ]


def _tree(file: str) -> ast.Module:
    return _parsed("".join(linecache.getlines(file)))


@lru_cache(maxsize=16)
def _parsed(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return ast.Module([], [])


# -- assignments -----------------------------------------------------------------------------------------------------
def _trees(frame: FrameType) -> list[tuple[str, ast.AST]]:
    """The code around a frame: its function or module; in a notebook, all cells so far."""
    file = frame.f_code.co_filename
    tree: ast.AST = _tree(file)
    if frame.f_code.co_name != "<module>":
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and (
                node.name == frame.f_code.co_name and node.lineno <= frame.f_lineno <= (node.end_lineno or 0)
            ):
                tree = node
    cells = frame.f_globals.get("In")
    if isinstance(cells, list) and all(isinstance(cell, str) for cell in cells):
        for i, cell in enumerate(cells):
            linecache.cache[f"In[{i}]"] = (len(cell), None, cell.splitlines(keepends=True), f"In[{i}]")
        return [(f"In[{i}]", _parsed(cell)) for i, cell in enumerate(cells)] + [(file, tree)]
    return [(file, tree)]


def assignments(name: str, frame: FrameType | None) -> list[tuple[Line, ast.expr]]:
    """All `name = value` (and `name += value`) around a frame; for `weights[0]`, those of `weights`."""
    if frame is None:
        return []
    base = name.partition("[")[0]
    found: list[tuple[Line, ast.expr]] = []
    for file, tree in _trees(frame):
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign):
                targets = [t for target in node.targets for t in _flat(target)]
                if any(ast.unparse(t) in (name, base) for t in targets):
                    found.append(((file, node.lineno), node.value))
            elif isinstance(node, ast.AugAssign) and ast.unparse(node.target) == name:
                found.append(((file, node.lineno), ast.BinOp(_as_value(node.target), node.op, node.value)))
    return found


def _flat(target: ast.expr) -> list[ast.expr]:
    return [t for e in target.elts for t in _flat(e)] if isinstance(target, (ast.Tuple, ast.List)) else [target]


def _as_value(target: ast.expr) -> ast.expr:
    value = ast.parse(ast.unparse(target), mode="eval").body
    return value


def mentions(value: ast.expr, name: str) -> bool:
    """Whether an expression reads a name."""
    base = name.partition("[")[0]
    return any(
        isinstance(n, (ast.Name, ast.Attribute, ast.Subscript)) and ast.unparse(n) in (name, base)
        for n in ast.walk(value)
    )


def rebinding(name: str, frame: FrameType | None) -> tuple[Line, bool] | None:
    """Where a name is assigned something computed from its old value (`x = x + 1`), and whether that was a Variable."""
    bound = assignments(name, frame)
    was_variable = any(_makes_variable(value) for _, value in bound)
    for where, value in bound:
        if mentions(value, name):
            return where, was_variable
    return None


def made_variable(attribute: str, frame: FrameType | None) -> Iterator[bool]:
    """Where the file of a frame has `something.attribute = …Variable(…)`, usually in a class."""
    for node in ast.walk(_tree(frame.f_code.co_filename)) if frame is not None else ():
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Attribute) and target.attr == attribute for target in node.targets
        ):
            yield _makes_variable(node.value)


def _makes_variable(value: ast.expr) -> bool:
    calls = [node for node in ast.walk(value) if isinstance(node, ast.Call)]
    return any(ast.unparse(call.func).rpartition(".")[2] in ("Variable", "add_weight") for call in calls)


def present_values(target: str, frame: FrameType) -> Iterator[tuple[Line, ast.expr]]:
    """The assignments that the present value of a name comes from, directly or through other names.

    Of several assignments of a name, the last one above counts: earlier ones are overwritten.
    """
    order = {file: number for number, (file, _) in enumerate(_trees(frame))}
    waiting = [(target, (order.get(frame.f_code.co_filename, len(order)), frame.f_lineno + 1))]
    seen: set[tuple[str, Line]] = set()
    while waiting:
        name, before = waiting.pop()
        bound = [((order[where[0]], where[1]), where, value) for where, value in assignments(name, frame)]
        if not bound:
            continue
        place, where, value = max([each for each in bound if each[0] < before] or bound, key=itemgetter(0))
        if (name, where) in seen:
            continue
        seen.add((name, where))
        yield where, value
        waiting += [(node.id, place) for node in ast.walk(value) if isinstance(node, ast.Name)]


def calls_in(value: ast.expr, methods: tuple[str, ...]) -> Iterator[str]:
    """The calls `x.method(...)` of these methods in an expression, as `x.method`."""
    for node in ast.walk(value):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods:
            yield ast.unparse(node.func)


def lineage(target: str, frame: FrameType | None) -> list[str]:
    """The names that a target is computed from, by the assignments around a frame: z = y + 1, y = x * x -> [y, x]."""
    reached, found = [target], list[str]()
    while reached and len(found) < 50:
        for _, value in assignments(reached.pop(), frame):
            names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
            new = [n for n in sorted(names - {*found, target}) if assignments(n, frame)]
            found += new
            reached += new
    return found


def leads(name: str, source: str, value: Any, frame: FrameType, seen: frozenset[str] = frozenset()) -> bool:
    """Whether what a name is assigned reads the source, by its name or through an object that holds its value."""
    scope = {**frame.f_globals, **frame.f_locals}
    for _, expression in assignments(name, frame):
        if source and mentions(expression, source):
            return True
        names = {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)} - seen - {name}
        if any(holds(scope.get(n), value) or leads(n, source, value, frame, seen | names) for n in sorted(names)):
            return True
    return False


def holds(holder: Any, value: Any, depth: int = 3) -> bool:
    """Whether an object holds a variable: a function that reads it, a layer, a model, or a list of them."""
    if not depth or isinstance(holder, (ModuleType, type)):
        return False
    if type(holder) in (list, tuple, dict):
        items = holder.values() if type(holder) is dict else holder
        return any(item is value or holds(item, value, depth - 1) for item in list(items)[:1000])
    if hasattr(type(holder), "trainable_variables"):  # a module, a layer or a model
        try:
            return any(unwrapped(v) is value for v in holder.variables)
        except Exception:  # a property of the user's class
            return False
    function = getattr(holder, "python_function", holder)
    if isinstance(function, MethodType):
        return holds(function.__self__, value, depth) or holds(function.__func__, value, depth)
    return isinstance(function, FunctionType) and any(
        found is value or holds(found, value, depth - 1) for found in _captured(function)
    )


def _captured(function: FunctionType) -> Iterator[Any]:
    """The values that a function takes from around it."""
    scope = function.__globals__
    yield from [scope[name] for name in function.__code__.co_names if name in scope]
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # an empty cell
            yield cell.cell_contents
