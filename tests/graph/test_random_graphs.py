"""Eager code, the NumPy executor and XLA agree on random programs: values, gradients, and derivatives of these."""

from __future__ import annotations

import pytest
from random_graphs import disagreement


@pytest.mark.parametrize("seed", range(10))
def test_numpy_agrees_with_eager_code(seed: int) -> None:
    assert not disagreement(seed, with_xla=False)


@pytest.mark.parametrize("seed", [1])
def test_xla_agrees_with_eager_code(seed: int) -> None:
    pytest.importorskip("jax")
    assert not disagreement(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_two_thousand_programs(part: int) -> None:
    pytest.importorskip("jax")
    found = [disagreement(seed) for seed in range(100 * part, 100 * part + 100)]
    assert not [each for each in found if each]
