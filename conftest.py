"""Examples in docstrings are run with `tf` and `np`, and those of public names once: by tests/test_reference.py."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parent


@pytest.fixture(autouse=True)
def imports_of_examples(doctest_namespace: dict[str, Any]) -> None:
    """What the examples of public names expect."""
    import gradtape

    doctest_namespace.update(tf=gradtape, np=np)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the examples that are in the reference, from where they are run."""
    doctests = [item for item in items if isinstance(item, pytest.DoctestItem)]
    if not doctests or not any(item.fspath.basename == "test_reference.py" for item in items):
        return
    pages = (ROOT / "docs" / "reference").glob("*.md")
    shown = set(re.findall(r"^(?:>>>|\.\.\.) (.*)$", "\n".join(p.read_text("utf-8") for p in pages), re.MULTILINE))
    repeated = {id(item) for item in doctests if _lines(item) <= shown}
    config.hook.pytest_deselected(items=[item for item in items if id(item) in repeated])
    items[:] = [item for item in items if id(item) not in repeated]


def _lines(item: pytest.DoctestItem) -> set[str]:
    test = item.dtest
    assert test is not None
    return {line for example in test.examples for line in example.source.splitlines()}
