"""Every row of the op table: derivatives, batches, dtypes, kinks, refusals. And the checker itself."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
from op_table import ROWS, Kink, Row, Sample, batch_row, complexes, is_floating, numbers

import gradtape as tf
from gradtape._src.arrays import batched, numpy_namespace
from gradtape._src.arrays.base import generic_kernels
from gradtape._src.arrays.batched import Batched
from gradtape._src.arrays.row_index import RowIndex
from gradtape._src.core import dispatch, primitive as op
from gradtape._src.core.fast.calls import write_vjps
from gradtape._src.core.vmap import vmap
from gradtape.testing import check_gradients

SAMPLES = [pytest.param(row, s, id=f"{row.name}-{i}") for row in ROWS.values() for i, s in enumerate(row.samples)]
COMPLEX = [
    pytest.param(row, s, id=f"{row.name}-c{i}") for row in ROWS.values() for i, s in enumerate(row.complex_samples)
]
DIFFERENTIABLE = [p for p in SAMPLES + COMPLEX if p.values[0].differentiable and p.values[0].error is None]
KERNELS = [p for p in SAMPLES + COMPLEX if hasattr(numpy_namespace, p.values[0].name)]  # not those that run users' code
FEW_BITS = {"float32": 2e-5, "float16": 4 * 2**-10, "bfloat16": 4 * 2**-7}
SEVERAL_ROUNDINGS = {"attention_gradient"}  # it starts from what `attention` gave
ROUNDED_INSIDE = {"projected_cross_entropy_gradient"}  # logits are rounded as those of a product


def test_every_primitive_has_a_row():
    assert sorted(set(op.registry) - set(ROWS)) == []
    assert sorted(set(ROWS) - set(op.registry)) == []


@pytest.mark.parametrize(("row", "sample"), DIFFERENTIABLE)
def test_derivatives(row: Row, sample: Sample):
    """Numeric to the row's order, recorded against raw sweeps, Jacobians against loops, forward against reverse."""
    args = [a for i, a in enumerate(sample.args) if i not in row.constants]

    def function(*xs):
        given = iter(xs)
        return row.call(*(a if i in row.constants else next(given) for i, a in enumerate(sample.args)), **sample.attrs)

    check_gradients(function, *args, order=row.order, modes=row.modes)
    if row.op.linear:  # a linear function has no second derivative; a square of it needs the rule at second order

        def squared(*xs):
            return [tf.square(y) for y in tf.nest.flatten(function(*xs))]

        check_gradients(squared, *args, order=row.order, modes=row.modes)
    if row.order >= 2 and any(a.size for a in sample.args):
        # At a cotangent of zero the derivative is zero, but not the derivative of that by the cotangent.
        def scaled(weight, *xs):
            ys = [y for y in tf.nest.flatten(function(*xs)) if y.dtype.is_floating or y.dtype.is_complex]
            return [tf.cast(weight, y.dtype) * y for y in ys]

        check_gradients(scaled, 0.0, *args, modes=[mode for mode in row.modes if mode in ("reverse", "forward")])


@pytest.mark.parametrize("row", [pytest.param(r, id=r.name) for r in ROWS.values() if not r.differentiable])
def test_no_derivative_is_none(row: Row):
    for sample in row.samples:
        given = [tf.constant(a) for a in sample.args]
        with tf.GradientTape() as tape:
            tape.watch([t for t in given if t.dtype.is_floating])
            out = row.call(*given, **sample.attrs)
        assert not row.op.differentiable or row.op.vjp_all is not None
        if row.op.unregistered and tape.records:  # TensorFlow refuses instead of leaving it out
            with pytest.raises(LookupError, match=f"no entry for: {row.op.tf_name}"):
                tape.gradient(out, given)
            mask = out  # as a mask it is no target, and nobody minds
            with tf.GradientTape() as tape:
                tape.watch(given)
                out = tf.where(row.call(*given, **sample.attrs), given[0], 0.0) if mask.dtype == tf.bool else given[0]
            assert tape.gradient(out, given[0]) is not None
        else:
            assert all(g is None for g in tape.gradient(out, given))


@pytest.mark.parametrize("row", [pytest.param(r, id=r.name) for r in ROWS.values() if r.error is not None])
def test_no_entry_is_an_error(row: Row):
    """What TensorFlow has no rule for raises where a gradient would go through it, and only there."""
    for sample in row.samples:
        given = [tf.constant(a) for a in sample.args]
        with tf.GradientTape() as tape:
            tape.watch([t for t in given if t.dtype.is_floating or t.dtype.is_complex])
            out = tf.nest.flatten(row.call(*given, **sample.attrs))[0]
        if out.dtype.is_floating and given[0].dtype.is_floating:
            with pytest.raises(row.error, match="no entry for"):
                tape.gradient(out, given)


@pytest.mark.parametrize(
    "places",
    [
        lambda x: tf.math.top_k(x, 2).indices,
        lambda x: tf.math.approx_min_k(x, 2)[1],
        lambda x: tf.nn.max_pool_with_argmax(x[None, None, :, None], 2, 1, "VALID").argmax,
        lambda x: tf.nn.max_pool_with_argmax(x[None, :, None, None], 2, 1, "SAME", include_batch_in_index=True).argmax,
    ],
)
def test_places_that_come_with_values_have_a_gradient_of_zeros(places):
    """As in TensorFlow, whose ops with several outputs are differentiated as a whole; what is made of them has none."""
    x = tf.Variable(numbers(3))
    with tf.GradientTape(persistent=True) as tape:
        found = places(x)
        more, cast, value = found + 1, tf.cast(found, tf.float64), tf.reduce_sum(x * x)
    np.testing.assert_array_equal(tape.gradient(found, x), np.zeros(3))
    np.testing.assert_array_equal(tape.gradient([found, value], x), 2 * x)
    assert tape.gradient(more, x) is None
    assert tape.gradient(cast, x) is None
    assert tape.jacobian(found, x) is None
    with tf.autodiff.ForwardAccumulator(x, tf.ones(3, tf.float64)) as acc:
        found = places(x)
    assert acc.jvp(found) is None


def test_squared_difference_of_complex_numbers():
    check_gradients(tf.math.squared_difference, complexes(2, 2), complexes(2, seed=1))


# -- batches -------------------------------------------------------------------------------------
def outputs(value: object) -> tuple:
    return value if isinstance(value, tuple) else (value,)


LOOPED = {
    "unique": "how many different elements there are is known row by row",
    "unique_with_counts": "how many different elements there are is known row by row",
    "histogram": "its counts are static: they are made of values, which a batch does not give away",
    "numpy_function": "runs the user's code, which takes one row",
    "custom_gradient": "runs the user's code, which takes one row",
}
"""Primitives without a batch rule, and why each row is run on its own."""


def test_every_other_primitive_has_a_batch_rule():
    assert sorted(set(op.registry) - set(batched.batch_rules)) == sorted(LOOPED)


@pytest.mark.parametrize(("row", "sample"), KERNELS)
def test_batch_rule(row: Row, sample: Sample):
    """Whichever operands are batched, the result is that of each row on its own."""
    kernel, many = getattr(numpy_namespace, row.name), getattr(batched.batched_namespace, row.name)
    attrs, size = sample.attrs, 3
    columns = [[np.asarray(batch_row(row, a, i), a.dtype) for i in range(size)] for a in sample.args]
    for flags in itertools.product([False, True], repeat=len(columns)):
        if not any(flags):
            continue
        for count in (size, 0) if all(flags) and row.error is None else (size,):
            operands = [
                Batched(np.stack(c)[:count], 1) if flag else c[0] for c, flag in zip(columns, flags, strict=True)
            ]
            got = outputs(many(*operands, **attrs))
            rows = [np.stack(c) if flag else c[0] for c, flag in zip(columns, flags, strict=True)]
            one_by_one = outputs(vmap(partial(kernel, **attrs), rows, flags))
            for found, results in zip(got, one_by_one, strict=True):
                expected = results[:count]
                array = np.asarray(found.array if type(found) is Batched else np.broadcast_to(found, expected.shape))
                assert array.shape == expected.shape, (flags, count)
                assert array.dtype == expected.dtype, (flags, count)
                np.testing.assert_allclose(array, expected, rtol=1e-12, atol=1e-13, err_msg=f"batched: {flags}")


@pytest.mark.parametrize(("row", "sample"), [p for p in SAMPLES if p.values[0].name in batched.block_diagonal_rules])
def test_aligned_rule(row: Row, sample: Sample):
    """Rows that are zero off the diagonal: the short form gives what the rows written out give."""
    kernel, many = getattr(numpy_namespace, row.name), getattr(batched.batched_namespace, row.name)
    for position, operand in enumerate(sample.args):
        if not is_floating(operand) or operand.ndim == 0 or not operand.size:
            continue

        def apply(x: object, to: object = many, at: int = position) -> object:
            return to(*(x if i == at else a for i, a in enumerate(sample.args)), **sample.attrs)

        with np.errstate(all="ignore"):
            at_zero = np.asarray(outputs(apply(np.zeros_like(operand), kernel))[0])
        if at_zero.any():
            continue  # only linear functions keep the zeros, and rules use only these
        for short in block_diagonal_forms(operand):
            written_out = Batched(short.rows(), 1)
            got, expected = outputs(apply(short))[0], outputs(apply(written_out))[0]
            np.testing.assert_allclose(got.rows(), expected.rows(), rtol=1e-12, atol=1e-13)


def block_diagonal_forms(operand: np.ndarray) -> list[Batched]:
    """Aligned rows; such whose positions were moved, with a gap or out of order; and a sum of two of these."""
    array, size = np.stack([operand, operand * 1.1]), len(operand)
    later, mixed = np.arange(size), (np.arange(size) * 2 + 1) % (2 * size + 1)  # 0 belongs to nobody
    gap = np.where(later > 0, 1.0, 0.0).reshape(1, size, *[1] * (operand.ndim - 1))
    moved = Batched(array * gap, 1, True, RowIndex(2 * size, later))
    other = Batched(array * 0.7, 1, True, RowIndex(2 * size, mixed))
    both = Batched(moved.array, 1, True, moved.row_index, (other,))
    return [Batched(array, 1, block_diagonal=True), moved, other, both]


# -- dtypes --------------------------------------------------------------------------------------
def gradients(row: Row, args: list, attrs: dict, seed: int | None = None) -> tuple[list, list]:
    """Outputs, and gradients of their sum, or of a random projection of them."""
    given = [tf.constant(a) for a in args]
    with tf.GradientTape() as tape:
        watched = [t for t, a in zip(given, args, strict=True) if a.dtype.kind not in "iub"]
        tape.watch(watched)
        out = row.call(*given, **attrs)
    upstream = None
    if seed is not None:
        random = np.random.default_rng(seed)
        upstream = [tf.cast(random.uniform(0.5, 1.5, o.shape), o.dtype) for o in tf.nest.flatten(out)]
    found = tape.gradient(tf.nest.flatten(out), watched, upstream, unconnected_gradients="zero")
    return [np.asarray(o) for o in tf.nest.flatten(out)], [np.asarray(tf.convert_to_tensor(g)) for g in found]


@pytest.mark.parametrize(
    ("row", "sample", "dtype"),
    [
        pytest.param(*p.values, dtype, id=f"{p.id}-{dtype}")
        for p in DIFFERENTIABLE
        for dtype in p.values[0].low_precision
        if all(a.dtype.kind != "c" for a in p.values[1].args)
    ],
)
def test_low_precision(row: Row, sample: Sample, dtype: str):
    """The dtype is kept, forward and back, and the numbers are near those of double precision.

    In half precision values are rounded once, and derivatives once more for each value that was saved.
    """
    narrow = tf.as_dtype(dtype).as_numpy_dtype
    args = [a.astype(narrow) if a.dtype.kind == "f" else a for a in sample.args]
    wide = [a.astype(np.float64) if a.dtype.kind not in "iub" else a for a in args]
    got_out, got = gradients(row, args, sample.attrs, seed=0)
    expected_out, expected = gradients(row, wide, sample.attrs, seed=0)
    assert all(o.dtype == narrow for o in got_out if o.dtype.kind != "c")
    once = FEW_BITS[dtype] / (1 if dtype == "float32" else 4)
    for i, (g, e) in enumerate(zip([*got_out, *got], [*expected_out, *expected], strict=True)):
        if g.dtype.kind != "c":
            assert g.dtype == narrow
            g = g.astype(np.float64)
        assert g.shape == e.shape
        scale = np.abs(e).max(initial=0) + 1e-3
        tolerance = once if i < len(got_out) and row.name not in SEVERAL_ROUNDINGS else FEW_BITS[dtype]
        tolerance *= 4 if row.name in ROUNDED_INSIDE else 1
        np.testing.assert_allclose(g / scale, e / scale, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    ("row", "sample"),
    [p for p in DIFFERENTIABLE if any(a.dtype.kind == "c" for a in p.values[1].args) and p.values[0].name != "astype"],
)
def test_single_precision_of_complex_numbers(row: Row, sample: Sample):
    args = [a.astype(np.complex64) if a.dtype.kind == "c" else a for a in sample.args]
    wide = [a.astype(np.complex128) if a.dtype.kind == "c" else a for a in args]
    got_out, got = gradients(row, args, sample.attrs, seed=0)
    expected_out, expected = gradients(row, wide, sample.attrs, seed=0)
    assert all(o.dtype in (np.complex64, np.float32) for o in got_out if is_floating(o))
    assert all(g.dtype == np.complex64 for g in got)
    for g, e in zip([*got_out, *got], [*expected_out, *expected], strict=True):
        scale = np.abs(e).max(initial=0) + 1e-3
        np.testing.assert_allclose(g / scale, e / scale, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("row", "dtype"), [pytest.param(r, d, id=f"{r.name}-{d}") for r in ROWS.values() for d in r.integers]
)
def test_integers_stay_integers(row: Row, dtype: str):
    for sample in row.samples:
        args = [np.abs(np.rint(a) + 1).astype(dtype) if is_floating(a) else a for a in sample.args]
        if row.name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
            args = [a.astype(dtype) for a in args]
        out = row.call(*map(tf.constant, args), **sample.attrs)
        assert all(o.dtype == dtype or sample.args[0].dtype.kind != "f" for o in tf.nest.flatten(out))


# -- kinks and refusals --------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("row", "kink"), [pytest.param(r, k, id=f"{r.name}-{i}") for r in ROWS.values() for i, k in enumerate(r.kinks)]
)
def test_kinks(row: Row, kink: Kink):
    args = [np.asarray(a) for a in kink.args]
    _, got = gradients(row, args, kink.attrs)
    for g, e in zip(got, kink.gradients, strict=True):
        np.testing.assert_array_equal(g, np.asarray(e))


@pytest.mark.parametrize(
    "bad", [pytest.param(b, id=f"{r.name}-{i}") for r in ROWS.values() for i, b in enumerate(r.bad)]
)
def test_refusals(bad):
    with pytest.raises(bad.error, match=bad.says):
        bad.call()


# -- the fast path of float32 arrays ---------------------------------------------------------------
for _op in op.registry.values():
    if _op.elementwise and _op.differentiable:
        write_vjps(_op)
FAST = [name for name, each in op.registry.items() if each.fast is not None]


def fast_and_general(monkeypatch, name: str, *shapes: tuple[int, ...]) -> tuple[list, list]:
    rng = np.random.default_rng(len(name))
    xs = [tf.constant(rng.uniform(-0.9, 0.9, shape).astype(np.float32)) for shape in shapes]
    weights = rng.normal(size=np.broadcast_shapes(*shapes)).astype(np.float32)

    def slopes():
        with tf.GradientTape() as tape:
            tape.watch(xs)
            y = op.registry[name].call(*xs)
        return [g.numpy() for g in tape.gradient(y, xs, output_gradients=tf.cast(weights, y.dtype))]

    fast = slopes()
    monkeypatch.setattr(op.registry[name], "fast", None)
    return fast, slopes()


@pytest.mark.parametrize("name", [name for name in FAST if ROWS[name].error is None])
@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (0,)])
def test_fast_path_is_the_rule(monkeypatch, name, shape):
    count = len(op.registry[name].args)
    for fast, general in zip(*fast_and_general(monkeypatch, name, *[shape] * count), strict=True):
        np.testing.assert_array_equal(fast, general, strict=True)  # to the bit


@pytest.mark.parametrize("name", [name for name in FAST if len(op.registry[name].args) == 2])
@pytest.mark.parametrize("shapes", [((3,), ()), ((), (3,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((1, 2), (2,))])
def test_fast_path_sums_over_repeated_axes(monkeypatch, name, shapes):
    if ROWS[name].error is not None:
        return
    for fast, general in zip(*fast_and_general(monkeypatch, name, *shapes), strict=True):
        np.testing.assert_array_equal(fast, general, strict=True)


def test_every_elementwise_op_of_arrays_alone_has_a_fast_path():
    for name, each in op.registry.items():
        if each.elementwise and each.differentiable and name not in FAST:
            static = {p for rule in each.rules if rule is not None for p in op.parameters(rule)}
            static -= {"g", "out", "xp", "half", *each.args}
            assert static or None in each.rules, f"{name} has rules over arrays alone, and no fast path"


# -- the checker itself --------------------------------------------------------------------------
@contextmanager
def declared(name: str, kernel, *rules, batch=None, word=dispatch.unary, **facts) -> Iterator:
    """A primitive that exists for one test."""
    known = (op.registry, generic_kernels, batched.batch_rules, batched.block_diagonal_rules)
    before = [dict(table) for table in known]
    try:
        if word is dispatch.unary:
            call = dispatch.unary(name, *rules, kernel=lambda xp, x: kernel(x), **facts)
        else:
            call = dispatch.primitive(name, ("x",), *rules, kernel=lambda xp, x: kernel(x), batch=batch, **facts)
        yield call
    finally:
        for table, old in zip(known, before, strict=True):
            table.clear()
            table.update(old)
        for namespace in (numpy_namespace, batched.batched_namespace):
            vars(namespace).pop(name, None)
        if hasattr(dispatch.TensorNamespace, name):
            delattr(dispatch.TensorNamespace, name)


def test_checker_accepts_a_right_rule():
    with declared("cube_", lambda x: x * x * x, lambda g, x: 3 * g * x * x) as cube:
        check_gradients(cube, numbers(3))
    assert "cube_" not in op.registry


def test_checker_catches_a_rule_that_is_wrong_by_a_twentieth_of_a_percent():
    with (
        declared("cube_", lambda x: x * x * x, lambda g, x: 3 * (1 + 5e-4) * g * x * x) as cube,
        pytest.raises(AssertionError, match="reverse, order 1: the gradient of argument 0 at"),
    ):
        check_gradients(cube, numbers(3))


def test_checker_names_argument_and_element():
    def f(structure, y):
        hot = tf.constant([0.0, 0.0, 1.0], tf.float64)
        return structure["a"] + y * (1 - hot) + tf.stop_gradient(y) * hot

    with pytest.raises(AssertionError, match=r"argument 1 at \[2\] is wrong: got -?0\.0, expected .* \(1 of 3"):
        check_gradients(f, {"a": numbers(3)}, numbers(3, seed=1))


def test_checker_catches_a_term_dropped_at_second_order():
    """The first derivative is right, but one factor of it was computed where no tape can see."""

    def rule(g, x):
        hidden = x.array if isinstance(x, tf.Tensor) else x
        return 3 * g * x * hidden

    with declared("cube_", lambda x: x * x * x, rule) as cube:
        check_gradients(cube, numbers(3), order=1)
        with pytest.raises(AssertionError, match="reverse, order 2: the gradient of argument 0"):
            check_gradients(cube, numbers(3))


@pytest.mark.parametrize("wrong", ["reverses the rows", "mixes the rows"])
def test_checker_catches_a_wrong_batch_rule(wrong):
    """The derivative of the cube uses the primitive `twice_` on a batch of cotangents."""

    def batch(xp, size, flags, x):
        return 2 * (x[::-1] if wrong == "reverses the rows" else x + xp.mean(x, axis=(0,), keepdims=True))

    with (
        declared("twice_", lambda x: 2 * x, lambda g, xp: xp.twice_(g), word=dispatch.primitive, batch=batch) as twice,
    ):
        check_gradients(twice, numbers(3), modes=("reverse", "recorded"))
        for mode in ("jacobian", "batched"):
            with pytest.raises(AssertionError, match=f"{mode}, order 1: the Jacobian of argument 0 at"):
                check_gradients(twice, numbers(3), modes=(mode,))


def test_checker_catches_a_recorded_sweep_that_differs():
    def rule(g, x):
        return 3 * g * x * x if isinstance(x, np.ndarray) else 4 * g * x * x

    with (
        declared("cube_", lambda x: x * x * x, rule) as cube,
        pytest.raises(AssertionError, match="recorded, order 1: the gradient under an outer tape of argument 0"),
    ):
        check_gradients(cube, numbers(3), order=1, modes=("recorded",))


def test_checker_catches_a_forward_rule_that_differs():
    with (
        declared("cube_", lambda x: x * x * x, lambda g, x: 3 * g * x * x, word=dispatch.primitive,
                 jvp=lambda given, values, attrs, tangents: (4 * given[0] * values[0] * values[0],)) as cube,
        pytest.raises(AssertionError, match="forward, order 1: the derivative along a tangent of argument 0"),
    ):  # fmt: skip
        check_gradients(cube, numbers(3), modes=("forward",))


def test_checker_refuses_what_it_cannot_check():
    with pytest.raises(ValueError, match=r"supports the modes reverse, recorded, .* received 'backward'"):
        check_gradients(tf.exp, [1.0], modes=("backward",))
    with pytest.raises(ValueError, match="needs a floating-point or complex argument"):
        check_gradients(tf.square, [1, 2])


def test_checker_takes_any_argument():
    check_gradients(tf.exp, 1.0)
    check_gradients(tf.exp, tf.Variable([1.0, 2.0]))
    check_gradients(tf.exp, tf.constant([0.5], tf.bfloat16))
    check_gradients(lambda x, i: tf.gather(x, i), [1.0, 2.0, 3.0], [0, 2])
    check_gradients(lambda s: [s[0] * s[1]["y"], None, tf.constant(3)], [numbers(2), {"y": numbers(2, seed=1)}])
    check_gradients(lambda x: tf.floor(x) + tf.reduce_sum(x * x), numbers(20, 20), order=1, modes=("batched",))


# -- tf.test.compute_gradient --------------------------------------------------------------------
def test_compute_gradient():
    theoretical, numeric = tf.test.compute_gradient(
        lambda x, y: tf.sin(x) * y, [tf.constant([1.0, 2.0], tf.float64), tf.constant(3.0, tf.float64)]
    )
    np.testing.assert_allclose(theoretical[0], np.diag(3 * np.cos([1.0, 2.0])))
    np.testing.assert_allclose(theoretical[1], np.sin([[1.0], [2.0]]))
    for t, n in zip(theoretical, numeric, strict=True):
        assert t.shape == n.shape
        np.testing.assert_allclose(t, n, rtol=1e-5)


def test_compute_gradient_of_complex_numbers_has_two_rows_and_columns_for_each():
    theoretical, numeric = tf.test.compute_gradient(lambda z: z * z, [tf.constant([1 + 2j], tf.complex128)], delta=1e-4)
    assert theoretical[0].shape == (2, 2)
    assert theoretical[0].dtype == np.float64
    np.testing.assert_allclose(theoretical[0], numeric[0], rtol=1e-6)


def test_compute_gradient_of_a_lookup_is_dense():
    theoretical, numeric = tf.test.compute_gradient(lambda x: tf.gather(x, [2, 2, 0]), [tf.constant([1.0, 2.0, 3.0])])
    np.testing.assert_array_equal(theoretical[0], [[0, 0, 1], [0, 0, 1], [1, 0, 0]])
    np.testing.assert_allclose(theoretical[0], numeric[0], atol=1e-3)


def test_compute_gradient_refuses():
    with pytest.raises(ValueError, match="`x` must be a list or tuple"):
        tf.test.compute_gradient(tf.exp, tf.constant(1.0))
    with pytest.raises(AssertionError, match="unsupported type int32 of argument 0"):
        tf.test.compute_gradient(lambda x: x, [1])
