"""Calls of `tf.experimental.numpy`: `record.py` writes down what TensorFlow returns."""

from __future__ import annotations

UNARY = """absolute arccos arccosh arcsin arcsinh arctan arctanh bitwise_not cbrt conjugate cos cosh exp exp2
expm1 fabs iscomplex isreal log log10 log1p log2 logical_not negative positive reciprocal sin sinc sinh sqrt square tan
tanh sign signbit real imag iscomplexobj ravel flatten transpose flip sort argsort ndim size zeros_like ones_like
isneginf isposinf isfinite isnan ceil floor fix"""
BINARY = """add subtract multiply true_divide floor_divide mod power float_power maximum minimum arctan2 heaviside hypot
logaddexp logaddexp2 equal not_equal greater less_equal logical_and logical_xor isclose array_equal allclose divmod
matmul dot inner outer vdot kron remainder divide"""
WHOLE = "gcd lcm bitwise_and bitwise_or bitwise_xor"
REDUCE = "sum prod mean max min all any std var argmax argmin cumsum cumprod ptp count_nonzero nansum nanmean amax amin"
MADE = [
    "n.arange(5)", "n.arange(1, 2, 0.25)", "n.arange(3.0)", "n.arange(2, 9, 3, dtype=n.int32)",
    "n.linspace(0, 1, 5)", "n.linspace(0, 1, 5, endpoint=False)", "n.linspace(0, 1, 3, retstep=True)",
    "n.logspace(0, 2, 3)", "n.geomspace(1, 8, 4)", "n.geomspace(-1.0, -8.0, 4)", "n.eye(2, 3, 1)", "n.tri(2, 3, 1)",
    "n.full((2, 2), 7)", "n.full_like([1.5, 2], 5)", "n.diag([1, 2], 1)", "n.diag([[1, 2], [3, 4]], 1)",
    "n.diagflat([[1, 2], [3, 4]])", "n.diag_indices(2)", "n.meshgrid([1, 2], [3, 4, 5])",
    "n.meshgrid([1, 2], [3], indexing='ij')", "n.ix_([0, 1], [2])", "n.ix_([True, False, True], [2])",
    "n.vander([1, 2, 3])", "n.vander([1, 2], N=3, increasing=True)", "n.array(3, ndmin=2)", "n.array([[1, 2.5]])",
    "n.array([1, tf.constant(2.0)])", "n.zeros((2,), n.int32)", "n.empty((2, 0))", "n.identity(2)",
    "n.ascontiguousarray(3)", "n.array(True)", "n.array(1j)", "n.asarray([1, 2], n.float32)", "n.copy([1, 2])",
]  # fmt: skip
SHAPED = [
    "n.reshape(m, (3, 2))", "n.reshape(m, -1)", "n.reshape(m, (3, 2), order='F')", "n.transpose(t, (2, 0, 1))",
    "n.swapaxes(t, 0, 2)", "n.moveaxis(t, 0, -1)", "n.moveaxis(t, [0, 1], [-1, 0])", "n.expand_dims(m, 1)",
    "n.squeeze([[[1], [2]]])", "n.squeeze([[[1], [2]]], axis=0)", "n.broadcast_to([1, 2, 3], (2, 3))",
    "n.broadcast_arrays([1, 2], [[1.5], [2]])", "n.atleast_1d(3)", "n.atleast_2d([1, 2])", "n.atleast_3d([[1, 2]])",
    "n.atleast_1d(3, [1])", "n.concatenate([m, m], axis=1)", "n.concatenate([m, m], axis=None)",
    "n.concatenate([[1], [2.5]])", "n.append([1], [[2.5]])", "n.stack([m, m], axis=2)", "n.hstack([1, 2])",
    "n.hstack([m, m])", "n.vstack([[1, 2], [3, 4]])", "n.dstack([[1, 2], [3, 4]])", "n.split(n.arange(6), 3)",
    "n.split(n.arange(5), [1, 3])", "n.hsplit(m, 3)", "n.vsplit(m, 2)", "n.dsplit(t, 2)", "n.tile(m, 2)",
    "n.tile([1, 2], (2, 1))", "n.repeat(m, 2)", "n.repeat(m, 2, axis=1)", "n.repeat(m, [1, 2], axis=0)",
    "n.pad(m, [[1, 0], [0, 2]], 'constant', constant_values=9)", "n.pad(m, [[1, 0], [0, 2]], 'reflect')",
    "n.flip(m, 0)", "n.flipud(m)", "n.fliplr(m)", "n.roll(m, 1)", "n.roll(m, 1, axis=1)",
    "n.roll(m, (1, 1), axis=(0, 1))",
    "n.rot90(m)", "n.rot90(m, 2)", "n.rot90(m, -1)", "n.rot90(t, 1, axes=(1, 2))", "n.take(m, [0, 9])",
    "n.take(m, [2, 0], axis=1)", "n.take([1, 2, 3], [5], mode='wrap')",
    "n.take_along_axis(m, n.argsort(m), axis=1)", "n.take_along_axis(m, [[0, 1, 0]], 0)",
    "n.compress([True, False, True], m, axis=1)", "n.compress([False, True], m)", "n.nonzero(m > 2)",
    "n.where(m > 2, m, 0)", "n.where(m > 2, 1.5, m)", "n.where(m > 2)", "n.select([m > 4, m > 1], [m, -m], 9)",
    "n.diagonal(m)", "n.diagonal(m, 1)",
    "n.diagonal(t, -1, 1, 2)", "n.trace(m)", "n.trace(m, 1)", "n.triu(m)", "n.tril(m, -1)",
    "n.triu(m, 1)", "n.sort(m, axis=0)", "n.sort(m, axis=None)", "n.argsort(m, axis=0, kind='stable')", "n.shape(m)",
    "n.clip(m, 2, None)", "n.clip(m, 1.5, 4)", "n.average(m, axis=1, weights=[1, 1, 2])", "n.average(m)",
    "n.average([1.0, 3.0], weights=[1, 3], returned=True)", "n.diff(m)", "n.diff(m, 2)", "n.diff([True, False, True])",
    "n.tensordot(m, m, axes=[[1], [1]])", "n.einsum('ij,kj->ik', m, m)", "n.cross([1, 2], [3, 4])",
    "n.cross([1, 2, 3], [4, 5])", "n.cross(m, m + 1)", "n.polyval([1.0, 2.0, 3.0], [1.0, 2.0])", "n.dot(t, m[0, :2])",
    "n.dot(3, m)", "n.matmul(t, n.ones((2, 1)))",
    "n.matmul([1, 2], n.ones((2, 3)))", "n.isclose([1.0, n.inf], [1.0, n.inf])",
    "n.sum(n.array([1, 2], n.uint8))",
    "n.sum([True, False])", "n.sum(m, dtype=n.float32)", "n.mean(m, dtype=n.float32)",
    "n.prod(n.array([1, 2], n.int8))", "n.max([True, False])", "n.var(m, axis=0, dtype=n.float32)",
    "n.angle([1j, 1], deg=True)", "n.nextafter(1.0, 2.0)", "n.array_equal([1, 2], [1, 2, 3])",
    "n.result_type(1, 2.0)", "n.result_type(n.int32, n.float32)", "n.result_type(m, 1.5)", "n.isscalar(m[0, 0])",
]  # fmt: skip
PROMOTED = [
    f"n.add(n.array([1], n.{a}), {b})"
    for a in ("int8", "int32", "int64", "float16", "float32", "float64", "complex64", "bool_")
    for b in ("n.array([1], n.int32)", "n.array([1], n.float32)", "1", "1.5", "True", "n.array([1], n.uint8)")
]


def calls():
    """Expressions over `n` (the module), `tf`, `x`, `y`, `m` and `t`."""
    found = list(MADE + SHAPED + PROMOTED)
    inner = ["arccos", "arcsin", "arctanh"]
    for name in UNARY.split():
        value = "n.array([1, 2, 3])" if name == "bitwise_not" else "x * 0.3" if name in inner else "x"
        value = (
            "x + 4.0" if name in ("arccosh", "log", "log10", "log2", "sqrt", "log1p", "ceil", "floor", "fix") else value
        )
        found += [f"n.{name}({value})"]
        if name not in (*inner, "arccosh", "ceil", "floor", "fix", "reciprocal", "sqrt", "positive", "signbit"):
            found += [f"n.{name}([1, 2])"] if name not in ("log", "isfinite", "isnan") else []
    found += [f"n.{name}(x, y)" for name in BINARY.split() if name != "power"] + ["n.power(x + 3.0, y)"]
    found += [f"n.{name}([12, 7], [18, 0])" for name in WHOLE.split()]
    for name in REDUCE.split():
        found += [f"n.{name}(m)", f"n.{name}(m, axis=1)"]
    return found
