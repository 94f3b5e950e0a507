"""Questions with a fixed wording: one expression a line, in a file for each topic.

`questions/<topic>.txt` holds the expressions, `questions/<topic>.json` what TensorFlow 2.21 answered, a line for each.
An expression may use `tf`, `np` and the names of `vocabulary`. Its answer is what it gives, or the class of the
exception that it raises.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from conformance import runner

HERE = Path(__file__).parent / "questions"
TOPICS = tuple(sorted(path.stem for path in HERE.glob("*.txt")))

Answer = dict[str, Any]


def load(topic: str) -> list[str]:
    """The expressions of a topic."""
    lines = (line.strip() for line in (HERE / f"{topic}.txt").read_text().splitlines())
    return list(dict.fromkeys(line for line in lines if line and not line.startswith("#")))


def load_answers(topic: str) -> dict[str, Answer]:
    """What TensorFlow answered, by expression."""
    lines = (HERE / f"{topic}.json").read_text().splitlines()
    return dict(json.loads(line) for line in lines)


def save_answers(topic: str, answers: dict[str, Answer]) -> None:
    lines = [json.dumps([question, answer], separators=(",", ":")) + "\n" for question, answer in answers.items()]
    (HERE / f"{topic}.json").write_text("".join(lines))


def draw(seed: int, shape: list[int], dtype: str, kind: str = "normal") -> np.ndarray:
    """Random numbers: normal ones, with ties, or with large and small ones among them."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0 if dtype.startswith("u") else -5, 7, shape).astype(dtype)
    x = rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.normal(size=shape)
    if kind == "ties":
        x = np.round(x)
    if kind == "big":
        x = x * rng.choice([1e-3, 1.0, 30.0], shape)
    return np.asarray(x).astype(dtype)


def vocabulary(tf: Any) -> dict[str, Any]:
    """The names that expressions may use."""

    def grad(function: Any, *values: Any, order: int = 1) -> list[Any]:
        """The value, the gradients and, of order 2, the gradients of the gradients."""
        xs = [x if isinstance(x, tf.Tensor) else tf.constant(x) for x in values]
        with tf.GradientTape() as outer:
            outer.watch(xs)
            with tf.GradientTape() as tape:
                tape.watch(xs)
                y = function(*xs)
            gradients = tape.gradient(y, xs)
        found = [y, gradients]
        if order > 1:
            found.append(outer.gradient([g for g in gradients if g is not None], xs))
        return found

    def jacobian(function: Any, *values: Any) -> list[Any]:
        """The value and its Jacobians."""
        xs = [tf.constant(x) for x in values]
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(xs)
            y = function(*xs)
        return [y, tape.jacobian(y, xs)]

    def jvp(function: Any, *values: Any) -> list[Any]:
        """The value and its tangent, for tangents of 1, 2, 3, ..."""
        xs = [tf.constant(x) for x in values]
        tangents = [tf.reshape(tf.cast(tf.range(1, tf.size(x) + 1), x.dtype), x.shape) for x in xs]
        with tf.autodiff.ForwardAccumulator(xs, tangents) as accumulator:
            y = function(*xs)
        return [y, accumulator.jvp(y)]

    return {
        "tf": tf,
        "np": np,
        "inf": np.inf,
        "nan": np.nan,
        "grad": grad,
        "jacobian": jacobian,
        "jvp": jvp,
        "draw": draw,
        "ones": tf.ones,
        "zeros": tf.zeros,
        "ramp": lambda *shape: tf.reshape(tf.range(float(np.prod(shape))), shape),
        "units": lambda *shape: tf.complex(tf.ones(shape), tf.zeros(shape)),
        "none": np.zeros([0], np.int32),
        "traced": tf.function,
    }


def answer(question: str, tf: Any, names: dict[str, Any]) -> Answer:
    """What a module answers."""
    try:
        with np.errstate(all="ignore"):
            return runner.encode(runner.dense(eval(question, names)), tf)
    except Exception as error:
        encoded = runner.encode(runner.Raised(error, (), None), tf)
        return {"t": "raises", "raises": encoded["raises"], "message_contains": None, "mro": encoded["mro"]}
