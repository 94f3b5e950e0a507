"""The sources use nothing that the oldest supported Python lacks. CI runs the tests on it; this fails earlier."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NEWER = {
    "typing": {
        "LiteralString", "Never", "NotRequired", "Required", "Self", "TypeAliasType", "TypeVarTuple", "Unpack",
        "assert_never", "assert_type", "dataclass_transform", "override", "reveal_type",
    },
    "enum": {"EnumType", "ReprEnum", "StrEnum", "member", "nonmember", "verify"},
    "contextlib": {"chdir"},
    "datetime": {"UTC"},
    "hashlib": {"file_digest"},
    "itertools": {"batched"},
    "math": {"cbrt", "exp2", "sumprod"},
    "operator": {"call"},
    "tomllib": set(),
}  # fmt: skip
"""Modules that are newer than Python 3.10, and names that are newer in a module."""


def newer(source: str) -> list[str]:
    """What a module imports or uses at run time that Python 3.10 does not have."""
    tree = ast.parse(source, feature_version=(3, 10))
    for block in [node for node in ast.walk(tree) if isinstance(node, ast.If)]:
        if "TYPE_CHECKING" in ast.unparse(block.test) or "version_info" in ast.unparse(block.test):
            block.body = []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in NEWER:
            known = NEWER[node.module]
            found += [f"{node.module}.{alias.name}" for alias in node.names if alias.name in known or not known]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in NEWER.get(node.value.id, ()):
                found.append(f"{node.value.id}.{node.attr}")
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if NEWER.get(alias.name) == set()]
    return found


def test_sources_run_on_the_oldest_python():
    files = sorted((ROOT / "src").rglob("*.py"))
    assert {str(f): names for f in files if (names := newer(f.read_text(encoding="utf-8")))} == {}


@pytest.mark.parametrize(
    "source",
    [
        "from typing import Any, Self",
        "import enum\nclass A(enum.StrEnum): pass",
        "import tomllib",
        "import datetime\ndatetime.UTC",
    ],
)
def test_a_newer_name_is_found(source: str):
    assert newer(source) != []


def test_names_for_type_checkers_do_not_count():
    assert newer("if TYPE_CHECKING:\n    from typing import Self") == []
    with pytest.raises(SyntaxError):
        newer("try:\n    pass\nexcept* ValueError:\n    pass")
