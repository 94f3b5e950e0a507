"""Eager code and all executors agree on random programs: values, first and second derivatives by both modes."""

from __future__ import annotations

import numpy as np
import pytest
import random_graphs
from random_graphs import ALL_FROM, RandomProgram, disagreement

import gradtape as tf


@pytest.mark.parametrize("seed", [*range(6), *range(ALL_FROM, ALL_FROM + 8)])
def test_numpy_agrees_with_eager_code(seed: int) -> None:
    assert not disagreement(seed, with_xla=False)


@pytest.mark.parametrize("seed", [171, 895, 1123, 1447, 3255, 5735])
def test_programs_with_sizes_that_were_assumed_wrongly(seed: int) -> None:
    """Masked values that are repeated, segments and pieces of them, and slices that may be empty are compiled."""
    assert not disagreement(seed, with_xla=False)


def test_calls_that_run_eagerly_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    masks = lambda x, y: tf.reduce_sum(tf.boolean_mask(x, x > 0) + tf.boolean_mask(y, y > 0))  # noqa: E731
    arguments = [np.array([1.0, -1.0, -1.0]), np.array([1.0, 2.0, -1.0])]
    monkeypatch.setattr(random_graphs, "random_program", lambda _: RandomProgram(masks, arguments, True, ["masks"]))
    assert "Some calls of" in disagreement(0, with_xla=False)


@pytest.mark.parametrize("seed", [1])
def test_xla_agrees_with_eager_code(seed: int) -> None:
    pytest.importorskip("jax")
    assert not disagreement(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", [*range(0, 1500, 100), *range(ALL_FROM, ALL_FROM + 500, 100)])
def test_two_thousand_programs(first: int) -> None:
    pytest.importorskip("jax")
    found = [disagreement(seed) for seed in range(first, first + 100)]
    assert not [each for each in found if each]
