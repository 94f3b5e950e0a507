"""Least-squares problems on which optimizers are compared, from Moré, Garbow and Hillstrom (1981): start, residuals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gradtape as tf

_TENTHS = np.arange(1, 14) / 10.0
_FIFTHS = np.arange(1, 21) / 5.0
_TENS = 10.0 * np.arange(33)
_BARD = np.array([0.14, 0.18, 0.22, 0.25, 0.29, 0.32, 0.35, 0.39, 0.37, 0.58, 0.73, 0.96, 1.34, 2.10, 4.39])
_COUNT = np.arange(1.0, 16.0)
_GAUSSIAN = np.array([9, 44, 175, 540, 1295, 2420, 3521, 3989, 3521, 2420, 1295, 540, 175, 44, 9]) / 1e4
_KOWALIK = np.array([1957, 1947, 1735, 1600, 844, 627, 456, 342, 323, 235, 246]) / 1e4
_DOSES = np.array([4.0, 2.0, 1.0, 0.5, 0.25, 0.167, 0.125, 0.1, 0.0833, 0.0714, 0.0625])
_OSBORNE_TEXT = """844 908 932 936 925 908 881 850 818 784 751 718 685 658 628 603 580
558 538 522 506 490 478 467 457 448 438 431 424 420 414 411 406"""
_OSBORNE = np.array(_OSBORNE_TEXT.split(), float) / 1e3


def _shifted(x: Any) -> tuple[Any, Any]:
    """The previous and the next element of each, and 0 at the ends."""
    return tf.concat([[0.0], x[:-1]], 0), tf.concat([x[1:], [0.0]], 0)


def _helical_valley(x: Any) -> Any:
    turns = tf.math.atan2(x[1], x[0]) / (2 * np.pi)
    return tf.stack([10 * (x[2] - 10 * turns), 10 * (tf.sqrt(x[0] ** 2 + x[1] ** 2) - 1), x[2]])


def _freudenstein_roth(x: Any) -> Any:
    return tf.stack(
        [-13 + x[0] + ((5 - x[1]) * x[1] - 2) * x[1], -29 + x[0] + ((x[1] + 1) * x[1] - 14) * x[1]]
    )  # fmt: skip


def _jennrich_sampson(x: Any) -> Any:
    n = np.arange(1.0, 11.0)
    return 2 + 2 * n - (tf.exp(n * x[0]) + tf.exp(n * x[1]))


def _box(x: Any) -> Any:
    t = _TENTHS[:10]
    return tf.exp(-t * x[0]) - tf.exp(-t * x[1]) - x[2] * (np.exp(-t) - np.exp(-10 * t))


def _wood(x: Any) -> Any:
    parts = [10 * (x[1] - x[0] ** 2), 1 - x[0], 90**0.5 * (x[3] - x[2] ** 2), 1 - x[2]]
    return tf.stack([*parts, 10**0.5 * (x[1] + x[3] - 2), 10**-0.5 * (x[1] - x[3])])


def _biggs(x: Any) -> Any:
    t = _TENTHS
    model = x[2] * tf.exp(-t * x[0]) - x[3] * tf.exp(-t * x[1]) + x[5] * tf.exp(-t * x[4])
    return model - (np.exp(-t) - 5 * np.exp(-10 * t) + 3 * np.exp(-4 * t))


def _variably_dimensioned(x: Any) -> Any:
    total = tf.reduce_sum(np.arange(1.0, 9.0) * (x - 1))
    return tf.concat([x - 1, [total, total**2]], 0)


def _boundary_value(x: Any) -> Any:
    before, after = _shifted(x)
    return 2 * x - before - after + (x + np.arange(1, 11) / 11.0 + 1) ** 3 / 242


PROBLEMS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "rosenbrock": ([-1.2, 1.0], lambda x: tf.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]])),
    "freudenstein and roth": ([0.5, -2.0], _freudenstein_roth),
    "beale": ([1.0, 1.0], lambda x: np.array([1.5, 2.25, 2.625]) - x[0] * (1 - x[1] ** np.array([1.0, 2.0, 3.0]))),
    "powell, badly scaled": (
        [0.0, 1.0],
        lambda x: tf.stack([1e4 * x[0] * x[1] - 1, tf.exp(-x[0]) + tf.exp(-x[1]) - 1.0001]),
    ),
    "brown, badly scaled": ([1.0, 1.0], lambda x: tf.stack([x[0] - 1e6, x[1] - 2e-6, x[0] * x[1] - 2])),
    "jennrich and sampson": ([0.3, 0.4], _jennrich_sampson),
    "helical valley": ([-1.0, 0.0, 0.0], _helical_valley),
    "bard": (
        [1.0, 1.0, 1.0],
        lambda x: _BARD - (x[0] + _COUNT / ((16 - _COUNT) * x[1] + np.minimum(_COUNT, 16 - _COUNT) * x[2])),
    ),
    "gaussian": (
        [0.4, 1.0, 0.0],
        lambda x: x[0] * tf.exp(-x[1] * ((8 - _COUNT) / 2 - x[2]) ** 2 / 2) - _GAUSSIAN,
    ),
    "box": ([0.0, 10.0, 20.0], _box),
    "powell, singular": (
        [3.0, -1.0, 0.0, 1.0],
        lambda x: tf.stack(
            [x[0] + 10 * x[1], 5**0.5 * (x[2] - x[3]), (x[1] - 2 * x[2]) ** 2, 10**0.5 * (x[0] - x[3]) ** 2]
        ),
    ),
    "wood": ([-3.0, -1.0, -3.0, -1.0], _wood),
    "kowalik and osborne": (
        [0.25, 0.39, 0.415, 0.39],
        lambda x: _KOWALIK - x[0] * (_DOSES**2 + _DOSES * x[1]) / (_DOSES**2 + _DOSES * x[2] + x[3]),
    ),
    "brown and dennis": (
        [25.0, 5.0, -5.0, -1.0],
        lambda x: (
            (x[0] + _FIFTHS * x[1] - np.exp(_FIFTHS)) ** 2 + (x[2] + x[3] * np.sin(_FIFTHS) - np.cos(_FIFTHS)) ** 2
        ),
    ),
    "osborne": (
        [0.5, 1.5, -1.0, 0.01, 0.02],
        lambda x: _OSBORNE - (x[0] + x[1] * tf.exp(-x[3] * _TENS) + x[2] * tf.exp(-x[4] * _TENS)),
    ),
    "biggs": ([1.0, 2.0, 1.0, 1.0, 1.0, 1.0], _biggs),
    "rosenbrock in 10": (
        [-1.2, 1.0] * 5,
        lambda x: tf.concat([10 * (x[1::2] - x[::2] ** 2), 1 - x[::2]], 0),
    ),
    "variably dimensioned": (1 - np.arange(1, 9) / 8.0, _variably_dimensioned),
    "trigonometric": (
        np.full(8, 1 / 8),
        lambda x: 8 - tf.reduce_sum(tf.cos(x)) + np.arange(1.0, 9.0) * (1 - tf.cos(x)) - tf.sin(x),
    ),
    "brown, almost linear": (
        np.full(8, 0.5),
        lambda x: tf.concat([x[:-1] + tf.reduce_sum(x) - 9, [tf.reduce_prod(x) - 1]], 0),
    ),
    "broyden, tridiagonal": (
        np.full(10, -1.0),
        lambda x: (3 - 2 * x) * x - _shifted(x)[0] - 2 * _shifted(x)[1] + 1,
    ),
    "penalty": (
        [1.0, 2.0, 3.0, 4.0],
        lambda x: tf.concat([1e-5**0.5 * (x - 1), [tf.reduce_sum(x * x) - 0.25]], 0),
    ),
    "boundary value": (np.arange(1, 11) / 11.0 * (np.arange(1, 11) / 11.0 - 1), _boundary_value),
}
