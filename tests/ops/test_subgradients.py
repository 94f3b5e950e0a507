"""Derivatives where they are a choice (kinks, ties, ends of domains): recorded/subgradients.json holds TensorFlow's.

An entry is an expression in x (and y), a point, and what TensorFlow gives there: value, gradient, second derivative,
or the error that asking for the gradient raises.
"""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradtape as tf

ENTRIES: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "recorded" / "subgradients.json").read_text())

OURS: dict[tuple[str, str], tuple[dict[str, Any], str]] = {
    # (expression, x): what gradtape gives instead, and why.
    # TensorFlow's rules divide by x, or replace the quotient by a wrong constant at 0.
    ("tf.math.bessel_i0(x)", "0.0"): ({"grad2": 0.5}, "I0'' = (I0 + I2) / 2"),
    ("tf.math.bessel_i1(x)", "0.0"): ({"grad": 0.5, "grad2": 0.0}, "I1' = (I0 + I2) / 2"),
    ("tf.math.bessel_i1e(x)", "0.0"): ({"grad2": 0.0}, "between -1 and 1, the slopes on both sides"),
    ("tf.math.special.spence(x)", "1.0"): ({"grad2": 0.5}, "log(x) / (1 - x) is smooth at 1"),
}


def unavailable(expression: str) -> list[str]:
    """The TensorFlow names in an expression that gradtape does not have."""
    found = []
    for name in re.findall(r"\btf((?:\.\w+)+)", expression):
        try:
            functools.reduce(getattr, name[1:].split("."), tf)
        except AttributeError:
            found.append(f"tf{name}")
    return found


def label(entry: dict[str, Any]) -> str:
    point = f"x={entry['x']}" + (f", y={entry['y']}" if "y" in entry else "")
    return f"{entry['expr']} at {point} {entry['dtype']}"


def numbers(value: Any) -> Any:
    """JSON has no inf and nan: they are written as strings."""
    if isinstance(value, list):
        return [numbers(v) for v in value]
    return float(value) if isinstance(value, str) else value


def operand(entry: dict[str, Any], name: str) -> Any:
    array = np.array(numbers(entry[name]))
    if entry.get("complex_pairs"):
        array = array[..., 0] + 1j * array[..., 1]
    return tf.constant(array, dtype=entry["dtype"])


def check(what: str, got: Any, expected: Any) -> None:
    if expected is None or got is None:
        assert got is expected, f"{what}: got {got}, expected {expected}"
        return
    array, wanted = np.asarray(tf.convert_to_tensor(got)), np.array(numbers(expected))
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], axis=-1)
    assert array.shape == wanted.shape, what
    np.testing.assert_allclose(
        array.astype(np.float64), wanted.astype(np.float64), rtol=2e-4, atol=1e-5, equal_nan=True, err_msg=what
    )


def evaluate(entry: dict[str, Any], x: Any, y: Any) -> Any:
    return eval(entry["expr"], {"tf": tf, "np": np, "x": x, "y": y})


@pytest.mark.parametrize("entry", ENTRIES, ids=label)
def test_subgradient(entry):
    if missing := unavailable(entry["expr"]):
        pytest.fail(f"gradtape has no {', '.join(missing)}")
    entry = {**entry, **OURS.get((entry["expr"], str(entry["x"])), ({}, ""))[0]}
    x = operand(entry, "x")
    y = operand(entry, "y") if "y" in entry else None
    sources = [x] if y is None else [x, y]
    with tf.GradientTape(persistent=True) as outer:
        outer.watch(sources)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(sources)
            out = evaluate(entry, x, y)
        if "error" in entry:
            refuses(entry, tape, out, x)
            return
        gradient = tape.gradient(out, x)
    if not isinstance(out, (list, tuple)):
        check("value", out, entry["value"])
    check("gradient", gradient, entry["grad"])
    if entry.get("grad_type") == "IndexedSlices":
        assert isinstance(gradient, tf.IndexedSlices)
    if "grad_y" in entry:
        check("gradient of y", tape.gradient(out, y), entry["grad_y"])
    if "grad2" in entry and "grad2_error" not in entry:
        check("second derivative", None if gradient is None else outer.gradient(gradient, x), entry["grad2"])


def refuses(entry: dict[str, Any], tape: tf.GradientTape, out: Any, x: Any) -> None:
    """TensorFlow raises. Where that is for want of a rule, a derivative that is right is as good."""
    name = entry["error"].split(":")[0]
    try:
        gradient = tape.gradient(out, x)
    except Exception as error:
        if name not in [kind.__name__ for kind in type(error).__mro__]:
            raise
        return
    assert name == "LookupError", f"no {name}, but {gradient}"
    assert out.dtype.is_floating, "a result without a derivative is refused"
    wide = tf.constant(np.asarray(x, np.float64))
    y = operand(entry, "y") if "y" in entry else None
    one, other = (
        tf.test.compute_gradient(lambda x: evaluate(entry, tf.cast(x, entry["dtype"]), y), [wide], step)[1][0]
        for step in (1 / 64, 1 / 128)
    )
    if np.allclose(one, other, rtol=1e-3):  # no jump in between
        np.testing.assert_allclose(np.asarray(gradient).ravel(), one.sum(axis=0), rtol=1e-3, atol=1e-3)


def test_differences_are_in_the_data():
    known = {(entry["expr"], str(entry["x"])) for entry in ENTRIES}
    assert set(OURS) <= known


MODES = {"eager": lambda f: f, "function": tf.function, "xla": tf.function(jit_compile=True)}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("op", [tf.sign, tf.abs, tf.math.angle], ids=lambda op: op.__name__)
@pytest.mark.parametrize(("dtype", "size"), [("complex64", 1e-20), ("complex128", 1e-170)])
def test_no_second_derivative_of_a_result_without_weight(op, dtype, size, mode):
    """1 / |x|² overflows; times the gradient of the result, which is 0, it is 0 and not NaN."""

    def derivatives(x):
        with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as forward, tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as tape:
                tape.watch(x)
                out = op(x)
            gradient = tape.gradient(out, x, tf.zeros_like(out))
        return gradient, outer.gradient(gradient, x), forward.jvp(gradient)

    x = tf.constant(np.array([size, -size * 1j, (3 - 4j) * size], dtype))
    for found in MODES[mode](derivatives)(x):
        np.testing.assert_array_equal(found.numpy(), np.zeros(3, dtype))


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_derivatives_of_complex_sign(size):
    """Of x / |x| the gradient of the weights g is what is left of g across x, over |x|."""
    x = np.array([1.0, -2.0j, 3 - 4j, -0.5 + 0.25j]) * size
    g = np.array([0.5 + 2j, 1 - 1j, -0.75 + 0.5j, 2.0])
    watched = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(watched)
        out = tf.sign(watched)
    unit = x / abs(x)
    expected = (g - unit * (unit.conj() * g).real) / abs(x)
    np.testing.assert_allclose(
        tape.gradient(out, watched, tf.constant(g)).numpy(), expected, rtol=1e-13, atol=1e-16 / size
    )


CUMPROD_WEIGHTS = {
    (-0.77673846, -1.0347444, -0.20440327): (2.5826514, 0.421875, 0.0),
    (1.0, 2.0, 3.0): (556.33026, 8.0, 0.0),
    (3.0, -1.0, 2.0): (247.25786, -4.0, 0.0),
    (0.5, 0.25, -4.0): (989.03156, -4.0, 0.0),
}
"""Weights of exclusive products, and TensorFlow 2.21's derivatives of the squared gradient."""


@pytest.mark.parametrize(("weights", "expected"), CUMPROD_WEIGHTS.items())
def test_second_derivative_of_cumprod_has_tensorflows_digits(weights, expected):
    """Its terms cancel, so that another order of the same operations gives another number."""
    x = tf.constant([30.907234, -7.282804e-4, 60.863297])
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.math.cumprod(x, exclusive=True)
        gradient = tape.gradient(y, x, tf.constant(weights))
        square = gradient * gradient
    np.testing.assert_allclose(outer.gradient(square, x), expected, rtol=1e-6)
