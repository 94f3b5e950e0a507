"""Random programs with state: eager code and all executors agree, also if they take turns at random."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from random_sessions import KINDS, difference, random_session

import gradtape as tf
from gradtape._src.graph import program, tiers

on_numpy: Callable[[Any], Any] = partial(tf.function, jit_compile=False, autograph=False)
on_either: Callable[[Any], Any] = partial(tf.function, autograph=False)


class Alternating(tiers.Tier):
    """Takes NumPy or XLA at random, for each call anew."""

    __slots__ = ("_draw", "_is_refused")

    def __init__(self, program: Any) -> None:
        self._draw, self._is_refused = random.Random(len(program.nodes)), False
        super().__init__(program)

    @property
    def on_numpy(self) -> bool:  # type: ignore[override]
        return self._is_refused or self._draw.random() < 0.5

    @on_numpy.setter
    def on_numpy(self, value: bool) -> None:
        pass

    def stay_on_numpy(self, reason: str) -> None:
        self._is_refused = True

    def add(self, on_numpy: bool, seconds: float) -> None:
        pass


@pytest.fixture
def alternating(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jax")
    monkeypatch.setattr(program, "Tier", Alternating)


def test_sessions_contain_all_kinds_of_steps() -> None:
    assert {name for seed in range(40) for name in random_session(seed).names} == set(KINDS)


@pytest.mark.parametrize("seed", [1, 17, 27, 31])
def test_numpy_agrees_with_eager_code(seed: int) -> None:
    assert not difference(seed, on_numpy)


@pytest.mark.usefixtures("alternating")
@pytest.mark.parametrize("seed", [3])
def test_executors_that_take_turns_agree_with_eager_code(seed: int) -> None:
    assert not difference(seed, on_either)


def test_a_wrong_executor_is_noticed() -> None:
    changed = lambda f: lambda *args: tf.nest.map_structure(lambda t: t * 1.5, f(*args))  # noqa: E731
    assert "instead of" in difference(1, changed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 400, 50))
def test_many_sessions(first: int) -> None:
    found = [difference(seed, on_numpy) for seed in range(first, first + 50)]
    assert not [each for each in found if each]


@pytest.mark.slow
@pytest.mark.usefixtures("alternating")
@pytest.mark.parametrize("first", range(400, 440, 10))
def test_many_sessions_that_take_turns(first: int) -> None:
    found = [difference(seed, on_either) for seed in range(first, first + 10)]
    assert not [each for each in found if each]
