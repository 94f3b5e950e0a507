"""Examples in docstrings are run with `tf` and `np`, and those of public names once: by tests/test_reference.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def imports_of_examples(doctest_namespace: dict[str, Any]) -> None:
    """What the examples of public names expect."""
    import gradtape

    doctest_namespace.update(tf=gradtape, np=np)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the examples of public names, which tests/test_reference.py runs."""
    doctests = [item for item in items if isinstance(item, pytest.DoctestItem)]
    reference = next((item.module for item in items if item.fspath.basename == "test_reference.py"), None)
    if not doctests or reference is None:
        return
    public = {f"{value.__module__}.{value.__qualname__}" for value in map(_function, reference.described()) if value}
    repeated = {id(item) for item in doctests if item.name in public}
    config.hook.pytest_deselected(items=[item for item in items if id(item) in repeated])
    items[:] = [item for item in items if id(item) not in repeated]


def _function(entry: tuple[str, str, Any, Any]) -> Any:
    """What has the docstring of an entry of the reference: a function, a method or a class."""
    value = entry[2]
    value = getattr(value, "fget", None) or getattr(value, "__func__", None) or value
    return value if hasattr(value, "__qualname__") and hasattr(value, "__module__") else None
