"""Random programs with Python's control flow: a function gives what eager execution gives, and so do its derivatives.

Each program has branches, loops, breaks, early returns, tapes, tensor arrays and assignments to a variable, nested at
random. It is written to a file, because AutoGraph reads sources.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import gradtape as tf

pytest.importorskip("malt")

INPUTS = [
    ([0.5, -0.3, 1.2], [1.0, 0.2, -0.4], 0),
    ([-0.5, 0.8, 0.1], [0.3, -1.0, 0.6], 3),
    ([1.5, 0.3, -1.2], [-0.2, 0.9, 0.4], 2),
]


class Writer:
    """Writes a function of two vectors `a` and `b`, a counter `n` and a variable `v`."""

    deepest, longest = 3, 25

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._lines: list[str] = []
        self._depth = self._loops = self._statements = 0

    def program(self, name: str) -> str:
        self._add(0, f"def {name}(a, b, n, v):")
        self._add(1, "c = a + b")
        self._block(1, self._random.randrange(3, 7))
        self._add(1, "return tf.tanh(a) + c, b, n")
        return "\n".join(self._lines)

    def _add(self, indent: int, line: str) -> None:
        self._lines.append("    " * indent + line)

    def _one_of(self, *choices: Any) -> Any:
        return self._random.choice(choices)

    def _block(self, indent: int, count: int) -> None:
        for _ in range(count):
            self._statement(indent)

    def _statement(self, indent: int) -> None:
        self._statements += 1
        if self._depth < self.deepest and self._statements < self.longest and self._random.random() < 0.5:
            self._depth += 1
            self._one_of(
                self._if, self._if_else, self._for_range, self._for_rows, self._for_python, self._while, self._leave,
                self._return, self._tape, self._cond, self._while_loop, self._array,
            )(indent)  # fmt: skip
            self._depth -= 1
        else:
            self._add(indent, self._assignment())

    def _assignment(self) -> str:
        return self._one_of(
            f"{self._vector()} = {self._value()}",
            f"{self._vector()} = {self._value()}",
            f"{self._vector()} = {self._value()}",
            f"n = n + {self._one_of(1, -1, 2)}",
            f"v.{self._one_of('assign', 'assign_add')}(0.5 * {self._value()})",
            f"{self._vector()} += v * 0.3",
            f"a *= tf.tanh({self._value()})",
        )

    # -- expressions
    def _vector(self) -> str:
        return self._one_of("a", "b", "c")

    def _value(self) -> str:
        """A vector between -1 and 1."""
        return f"tf.tanh({self._term(0)} + {self._vector()})"

    def _term(self, depth: int) -> str:
        """A number or a vector."""
        if depth > 2 or self._random.random() < 0.4:
            return self._one_of("a", "b", "c", "0.5", "-0.7", "1.5")
        x, y = self._term(depth + 1), self._term(depth + 1)
        return self._one_of(
            f"({x} + {y})", f"({x} * {y})", f"({x} - {y})", f"tf.tanh({x})", f"tf.sin({x})", f"tf.abs({x})",
            f"tf.nn.relu({x})", f"tf.where({self._vector()} > {x}, {y}, {x} * {self._vector()})",
            f"tf.maximum({x}, {y})", f"(tf.reduce_sum({self._vector()}) * {x})", f"(a[{self._one_of(0, 1, 2)}] * {x})",
            f"(tf.cast(n, tf.float32) * {x} * 0.1)", f"(b[tf.math.floormod(n, 3)] + {x})",
            f"(tf.stop_gradient({x}) * {self._vector()})", f"tf.clip_by_value({x}, -2.0, 2.0)",
            f"tf.concat([{self._vector()}[1:], {self._vector()}[:1]], 0)",
        )  # fmt: skip

    def _condition(self) -> str:
        bound = self._one_of(0, 1, 2, 3)
        return self._one_of(
            f"tf.reduce_sum({self._vector()}) > {self._one_of(-1.0, 0.0, 0.5)}", f"n > {bound}", "n % 2 == 0",
            f"{self._vector()}[0] < {self._vector()}[1]", f"n > {bound} and tf.reduce_max({self._vector()}) < 2.0",
            f"not (n < {bound})", f"{self._vector()}[2] > 0.0 or n == {bound}", "True",
        )  # fmt: skip

    # -- statements
    def _if(self, indent: int) -> None:
        self._add(indent, f"if {self._condition()}:")
        self._block(indent + 1, self._one_of(1, 2))

    def _if_else(self, indent: int) -> None:
        self._if(indent)
        if self._random.random() < 0.3:
            self._add(indent, f"elif {self._condition()}:")
            self._block(indent + 1, 1)
        self._add(indent, "else:")
        self._block(indent + 1, self._one_of(1, 2))

    def _loop(self, indent: int, head: str, last: str) -> None:
        self._loops += 1
        self._add(indent, head)
        self._block(indent + 1, self._one_of(1, 2))
        self._add(indent + 1, last)
        self._loops -= 1

    def _for_range(self, indent: int) -> None:
        i, stop = f"i{self._depth}", self._one_of("tf.abs(n)", "3", "tf.maximum(n, 0) + 1")
        self._loop(indent, f"for {i} in tf.range({stop}):", f"c = c + 0.1 * tf.cast({i}, tf.float32)")

    def _for_rows(self, indent: int) -> None:
        e = f"e{self._depth}"
        self._loop(indent, f"for {e} in {self._vector()}:", f"b = tf.tanh(b + {e} * {self._vector()})")

    def _for_python(self, indent: int) -> None:
        self._loop(indent, f"for j{self._depth} in range({self._one_of(1, 2, 3)}):", "a = tf.sin(a)")

    def _while(self, indent: int) -> None:
        m = f"m{self._depth}"
        self._add(indent, f"{m} = {self._one_of('n', 'tf.constant(0)', 'n - 2')}")
        self._loop(indent, f"while {m} < {self._one_of(2, 3, 4)} and tf.reduce_sum(tf.abs(a)) < 50.0:", f"{m} += 1")

    def _leave(self, indent: int) -> None:
        self._loops += 1
        self._add(indent, f"for q{self._depth} in tf.range(4):")
        self._block(indent + 1, 1)
        self._if(indent + 1)
        self._add(indent + 2, self._one_of("break", "continue"))
        self._block(indent + 1, 1)
        self._loops -= 1

    def _return(self, indent: int) -> None:
        self._if(indent)
        self._add(indent + 1, f"c = {self._value()}" if self._loops or self._depth > 1 else "return a * 2.0, b, n")

    def _tape(self, indent: int) -> None:
        self._add(indent, "with tf.GradientTape() as tape:")
        self._add(indent + 1, "tape.watch([a, b])")
        self._add(indent + 1, f"y = tf.reduce_sum({self._term(0)} * tf.tanh(a * b))")
        self._add(indent, f"c = c + tape.gradient(y, {self._one_of('a', 'b')})")

    def _cond(self, indent: int) -> None:
        test = f"tf.reduce_sum({self._vector()}) > 0.0"
        self._add(indent, f"{self._vector()} = tf.cond({test}, lambda: {self._value()}, lambda: {self._value()})")

    def _while_loop(self, indent: int) -> None:
        test, body = f"lambda i, x: i < {self._one_of('n', '3')}", f"(i + 1, tf.tanh(x + {self._value()}))"
        start = f"[tf.constant(0), {self._vector()}]"
        self._add(indent, f"_, {self._vector()} = tf.while_loop({test}, lambda i, x: {body}, {start})")

    def _array(self, indent: int) -> None:
        z = f"z{self._depth}"
        self._add(indent, "array = tf.TensorArray(tf.float32, 3)")
        self._add(indent, f"for {z} in tf.range(3):")
        self._add(indent + 1, f"array = array.write({z}, {self._vector()}[{z}] * {self._vector()}[0])")
        self._add(indent, f"{self._vector()} = array.stack()")


def programs(seeds: range, folder: Path) -> list[Callable[..., Any]]:
    """The functions of some seeds, from a file."""
    path = folder / f"programs_{seeds.start}.py"
    sources = [Writer(seed).program(f"f{seed}") for seed in seeds]
    path.write_text("\n\n\n".join(["import gradtape as tf", *sources]) + "\n")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [getattr(module, f"f{seed}") for seed in seeds]


def answers(f: Callable[..., Any], a: Any, b: Any, n: int) -> list[Any]:
    """Results, new value of the variable, first and second derivatives, and tangents of the results."""
    v, x, y = tf.Variable([0.1, 0.2, 0.3]), tf.constant(a), tf.constant(b)
    with tf.GradientTape(persistent=True) as outer:
        outer.watch([x, y])
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            results = f(x, y, tf.constant(n), v)
            loss = tf.reduce_sum(results[0] * [1.0, 2.0, 3.0]) + tf.reduce_sum(tf.sin(results[1]))
        first = tape.gradient(loss, [x, y], unconnected_gradients="zero")
        total = tf.reduce_sum(first[0] ** 2) + tf.reduce_sum(first[1] ** 2)
    second = outer.gradient(total, [x, y], unconnected_gradients="zero")
    changed = v.numpy()
    with tf.autodiff.ForwardAccumulator([x, y], [tf.ones_like(x), tf.ones_like(y)]) as forward:
        again = f(x, y, tf.constant(n), v)
    tangents = [forward.jvp(out, unconnected_gradients="zero") for out in again[:2]]
    return [np.asarray(each) for each in (*results, changed, *first, *second, *tangents)]


def compare(f: Callable[..., Any], **options: Any) -> None:
    compiled = tf.function(f, **options)
    for a, b, n in INPUTS:
        for found, expected in zip(answers(compiled, a, b, n), answers(f, a, b, n), strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-4)


class TestRandomControlFlow:
    def test_on_numpy(self, tmp_path: Path) -> None:
        for f in programs(range(6), tmp_path):
            compare(f, jit_compile=False)

    def test_by_xla(self, tmp_path: Path) -> None:
        pytest.importorskip("jax")
        for f in programs(range(6, 7), tmp_path):
            compare(f, jit_compile=True)

    @pytest.mark.slow
    @pytest.mark.parametrize("first", range(100, 600, 50))
    def test_many(self, first: int, tmp_path: Path) -> None:
        for number, f in enumerate(programs(range(first, first + 50), tmp_path)):
            compare(f, jit_compile=number % 10 == 0)


def test_the_gradient_of_a_loop_that_assigns_to_a_variable() -> None:
    """Where a test ends the loop, iterations are computed again for their derivatives: variables are among them."""
    v = tf.Variable(0.0)

    @tf.function(jit_compile=False)
    def f(x: Any, n: Any) -> Any:
        for _ in tf.range(n):
            v.assign_add(tf.reduce_sum(x))
            x = tf.tanh(x) * v
        return x

    x = tf.constant([0.5, -0.2])
    for n in (0, 1, 3):
        v.assign(0.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x, tf.constant(n))
        v.assign(0.0)
        with tf.GradientTape() as eager:
            eager.watch(x)
            expected = x
            for _ in range(n):
                v.assign_add(tf.reduce_sum(expected))
                expected = tf.tanh(expected) * v
        np.testing.assert_allclose(y, expected, rtol=1e-6)
        np.testing.assert_allclose(tape.gradient(y, x), eager.gradient(expected, x), rtol=1e-5)
