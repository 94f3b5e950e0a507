"""Which checks of values a program has: see arrays/checks.py.

On NumPy a check that fails raises. `graph/xla_checks.py` has what a program of XLA does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradtape._src.arrays.checks import Rule
from gradtape._src.arrays.refusals import refusals
from gradtape._src.arrays.symbolic import Node, Symbolic

Checks = dict[int, tuple[Rule, dict[str, Any]]]
"""The checks of a program by number: what each looks at, with its parameters."""


Mode = str
"""Which checks a program makes: none, assertions alone, which programs on a GPU make as well, or all."""

NONE, ASSERTIONS, ALL = "", "assertions", "all"


def modes(checks: Checks) -> tuple[Mode, Mode]:
    """Which of these checks are made where a program does not run on the processor, and where it does."""
    asserts = any(rule.always for rule, _ in checks.values())
    return ASSERTIONS if asserts else NONE, ALL if checks else NONE


_NONE: list[Any] = []


def programs_in(node: Node) -> list[Any]:
    """The branches and bodies of a node."""
    if not node.attrs:
        return _NONE
    values = [v for value in node.attrs.values() for v in (value if isinstance(value, tuple) else (value,))]
    return [v for v in values if hasattr(v, "checks")]


def is_check(node: Node) -> bool:
    """Whether a node checks values, also with parameters that depend on dynamic dimensions."""
    return node.name == "check" or (node.name == "dynamic" and node.attrs["of"] == "check")


def asserts(node: Node) -> bool:
    """Whether a node is an assertion, or has one in a branch or a body: it stays where nothing uses its results."""
    if is_check(node):
        return bool(node.attrs["rule"].always)
    return any(rule.always for program in programs_in(node) for rule, _ in program.checks.values())


def found_in(nodes: Sequence[Node]) -> Checks:
    """All checks of a program, those of branches and bodies included."""
    found: Checks = {}
    for node in nodes:
        if node.attrs or node.name in refusals:
            found.update(checks_of(node))
    return found


def checks_of(node: Node) -> Checks:
    if is_check(node):
        params = {**node.attrs, **dict(node.attrs.get("dynamic", ()))}["params"]
        return {node.attrs["number"]: (node.attrs["rule"], dict(params))}
    if node.name in refusals:
        number, rule = refusals[node.name]
        return {number: (rule, {})}
    return {number: check for program in programs_in(node) for number, check in program.checks.items()}


def leading_to(nodes: Sequence[Node], wanted: Callable[[Node], bool]) -> set[int]:
    """The ids of some nodes and of all that they depend on."""
    used: set[int] = set()
    needed = set()
    for node in reversed(nodes):
        if wanted(node) or any(id(out) in used for out in node.outputs):
            needed.add(id(node))
            used.update(id(a) for a in node.args if type(a) is Symbolic)
    return needed
