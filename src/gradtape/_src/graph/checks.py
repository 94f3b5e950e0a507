"""The checks of values that a program makes: see arrays/checks.py.

On NumPy a failed check raises. For programs of XLA see `graph/xla_checks.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradtape._src.arrays.checks import Rule
from gradtape._src.arrays.refusals import refusals
from gradtape._src.arrays.symbolic import Node, Symbolic

Checks = dict[int, tuple[Rule, dict[str, Any]]]
"""The checks of a program by number: the rule of each, and its parameters."""


Mode = str
"""The checks that a program makes: none, only assertions (on a GPU), or all."""

NONE, ASSERTIONS, ALL = "", "assertions", "all"


def modes(checks: Checks) -> tuple[Mode, Mode]:
    """The modes in which a program with these checks runs on a GPU, and on the CPU."""
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
    """Whether a node checks values; its parameters may depend on dynamic dimensions."""
    return node.name == "check" or (node.name == "dynamic" and node.attrs["of"] == "check")


def asserts(node: Node) -> bool:
    """Whether a node is an assertion, or contains one: then it runs even if its results are unused."""
    if is_check(node):
        return bool(node.attrs["rule"].always)
    return any(rule.always for program in programs_in(node) for rule, _ in program.checks.values())


def found_in(nodes: Sequence[Node]) -> Checks:
    """All checks of a program, including those in branches and loop bodies."""
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
    """The ids of the wanted nodes, and of all nodes that they depend on."""
    used: set[int] = set()
    needed = set()
    for node in reversed(nodes):
        if wanted(node) or any(id(out) in used for out in node.outputs):
            needed.add(id(node))
            used.update(id(a) for a in node.args if type(a) is Symbolic)
    return needed
