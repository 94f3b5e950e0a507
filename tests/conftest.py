"""What every test finds."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

os.environ.setdefault("GRADTAPE_CACHE", "off")  # before JAX is set up: tests leave no files behind


@pytest.fixture
def by_xla() -> Iterator[None]:
    """Functions run by XLA from their first call."""
    from gradtape._src.function import modes

    before = modes._jit[0]
    modes._jit[0] = "xla"
    yield
    modes._jit[0] = before
