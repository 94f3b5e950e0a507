"""tf.experimental.numpy: functions, type promotion, mixing with tensors and tapes.

numpy behaviour of the whole module (experimental_enable_numpy_behavior) is left out: it
cannot be switched off again and would leak into the other cases."""

from __future__ import annotations

from conformance.runner import raises


def case_creation(tf, np):
    n = tf.experimental.numpy
    return [
        n.zeros((2, 3)),
        n.ones(3, dtype=n.float32),
        n.full((2,), 7),
        n.arange(5),
        n.arange(1, 2, 0.25),
        n.linspace(0.0, 1.0, 5),
        n.eye(2),
        n.identity(2, n.int32),
        n.array([1, 2, 3]),
        n.array([1.5, 2]),
        n.asarray([[1], [2]]),
        n.zeros_like([1, 2]),
        n.ones_like([1.0]),
        n.full_like([1, 2], 5),
        n.diag([1, 2]),
        n.tri(3),
        n.empty((2, 0)).shape,
        n.logspace(0.0, 2.0, 3),
        n.geomspace(1.0, 8.0, 4),
    ]


def case_default_dtypes(tf, np):
    n = tf.experimental.numpy
    return [
        n.array(1).dtype,
        n.array(1.0).dtype,
        n.array(True).dtype,
        n.array(1j).dtype,
        n.arange(3).dtype,
        n.arange(3.0).dtype,
        n.zeros(2).dtype,
        n.array(tf.constant(1)).dtype,
        n.array(tf.constant(1.0)).dtype,
        n.array(np.float32(1)).dtype,
        n.mean([1, 2]).dtype,
        n.sum(n.array([1, 2], n.int32)).dtype,
        n.array([1, 2.5]).dtype,
        isinstance(n.array(1), tf.Tensor),
        isinstance(n.array(1), n.ndarray),
    ]


def case_promotion(tf, np):
    n = tf.experimental.numpy
    i32, f32, f64, i64, b = (
        n.array([1], n.int32),
        n.array([1], n.float32),
        n.array([1.0], n.float64),
        n.array([1], n.int64),
        n.array([True]),
    )
    return [
        n.add(i32, f32),
        n.add(i32, f64),
        n.multiply(f32, f64),
        n.add(i32, i64),
        n.add(b, i32),
        n.add(f32, 1.5),
        n.add(i32, 1.5),
        n.true_divide(i32, i32),
        n.power(i32, 2.0),
        n.add(n.array([1], n.int8), n.array([1], n.uint8)),
        tf.as_dtype(n.result_type(n.int32, n.float32)),
        tf.as_dtype(n.result_type(n.int64, n.float32)),
        tf.as_dtype(n.promote_types(n.float16, n.int8)),
        n.add(f32, 1j),
        n.maximum(i32, f32),
    ]


def case_elementwise(tf, np):
    n = tf.experimental.numpy
    x = n.array([-1.5, 0.0, 2.0])
    return [
        n.abs(x),
        n.exp(x),
        n.sign(x),
        n.square(x),
        n.sqrt(n.abs(x)),
        n.sin(x),
        n.tanh(x),
        n.floor(x),
        n.ceil(x),
        n.clip(x, -1, 1),
        n.maximum(x, 0),
        n.where(x > 0, x, 0),
        n.isnan(x),
        n.log1p(n.abs(x)),
        n.hypot(x, 2.0),
        n.arctan2(x, 1.0),
        n.heaviside(x, 0.5),
        n.mod(x, 2),
        n.floor_divide(x, 2),
        n.cbrt(n.array([8.0])),
        n.rad2deg(n.pi),
        n.logaddexp(x, 1.0),
        n.sinc(x),
        n.reciprocal(n.array([4.0])),
        n.isclose(x, x + 1e-9),
        n.allclose(x, x),
        n.nextafter(n.array(1.0), n.array(2.0)),
        n.deg2rad(180.0),
    ]


def case_reductions(tf, np):
    n = tf.experimental.numpy
    x = n.array([[1, 2, 3], [4, 5, 6]])
    return [
        n.sum(x),
        n.sum(x, axis=0),
        n.mean(x, axis=1),
        n.prod(x),
        n.max(x, axis=1),
        n.min(x),
        n.amax(x, 0),
        n.std(x),
        n.var(x, axis=0),
        n.any(x > 5),
        n.all(x > 0, axis=1),
        n.argmax(x),
        n.argmax(x, axis=1),
        n.argmin(x, 0),
        n.cumsum(x, axis=1),
        n.cumsum(x),
        n.cumprod(x, 0),
        n.ptp(x),
        n.average(x, axis=1, weights=[1, 1, 2]),
        n.count_nonzero(x > 2),
        n.nansum(n.array([1.0, float("nan")])),
        n.nanmean(n.array([1.0, float("nan")])),
        n.sum(x, axis=(0, 1), keepdims=True),
    ]


def case_shapes(tf, np):
    n = tf.experimental.numpy
    x = n.reshape(n.arange(6), (2, 3))
    return [
        n.reshape(x, (3, 2)),
        n.ravel(x),
        n.transpose(x),
        n.expand_dims(x, 0).shape,
        n.squeeze(x[None]).shape,
        n.concatenate([x, x], axis=1),
        n.stack([x, x]).shape,
        n.vstack([x, x]).shape,
        n.hstack([x, x]),
        n.dstack([x, x]).shape,
        n.split(x, 3, axis=1),
        n.swapaxes(x, 0, 1),
        n.moveaxis(x[None], 0, -1).shape,
        n.flip(x, 1),
        n.roll(x, 1),
        n.repeat(x, 2, axis=0),
        n.tile(x, (2, 1)),
        n.broadcast_to(n.array([1, 2, 3]), (2, 3)),
        n.pad(x, [(1, 0), (0, 1)], mode="constant"),
        n.rot90(x),
        n.atleast_2d(5),
        n.append(x, [[9, 9, 9]], axis=0),
        n.ndim(x),
        n.shape(x),
        n.size(x),
    ]


def case_indexing_and_sorting(tf, np):
    n = tf.experimental.numpy
    x = n.array([[3, 1, 2], [9, 7, 8]])
    return [
        n.sort(x),
        n.sort(x, axis=0),
        n.argsort(x),
        n.take(x, [2, 0], axis=1),
        n.take_along_axis(x, n.argsort(x), axis=1),
        n.nonzero(n.array([0, 3, 0, 4])),
        n.where(n.array([False, True])),
        n.diagonal(x),
        n.trace(x),
        n.triu(x),
        n.tril(x),
        n.meshgrid([1, 2], [3, 4]),
        n.select([x > 5, x > 1], [x, -x]),
        n.diff(x),
        n.flipud(x),
        n.ix_([0, 1], [2]),
        n.diag_indices(2),
    ]


def case_linear_algebra(tf, np):
    n = tf.experimental.numpy
    a, b = n.array([[1.0, 2.0], [3.0, 4.0]]), n.array([5.0, 6.0])
    return [
        n.matmul(a, b),
        n.dot(a, a),
        n.dot(b, b),
        n.inner(a, b),
        n.outer(b, b),
        n.tensordot(a, a, axes=1),
        n.einsum("ij,j->i", a, b),
        n.vdot(b, b),
        n.kron(n.array([1, 2]), n.array([1, 10])),
        n.cross(n.array([1.0, 0.0, 0.0]), n.array([0.0, 1.0, 0.0])),
        n.matmul(n.array([[1, 2]]), n.array([[0.5], [0.25]])),
        n.vander(n.array([1, 2, 3])),
        n.polyval(n.array([1.0, 2.0]), 3.0),
    ]


def case_interoperation(tf, np):
    n = tf.experimental.numpy
    x = n.array([1.0, 2.0])
    t = tf.constant([1.0, 2.0])
    return [
        n.add(t, 1),
        tf.add(n.array([1.0], n.float32), 1.0),
        np.sum(x),
        np.asarray(x).dtype.name,
        tf.reduce_sum(x),
        n.sum(tf.Variable([1.0, 2.0])),
        x.numpy(),
        n.array(t).dtype,
        raises(lambda: t + n.array([1.0, 2.0]), "*"),
        float(n.sum(x)),
        n.asarray(t) is t,
        n.array([t, t]).shape,
        len(x),
        [float(v) for v in x],
    ]


def case_gradients(tf, np):
    n = tf.experimental.numpy
    x = tf.Variable([[1.0, -2.0], [3.0, 0.5]])
    out = []
    for f in (
        lambda: n.sum(n.square(x)),
        lambda: n.mean(n.tanh(x), axis=0),
        lambda: n.matmul(x, n.array([[1.0], [2.0]], n.float32)),
        lambda: n.where(x > 0, x * x, -x),
        lambda: n.concatenate([x, n.transpose(x)], 1)[0] ** 2,
        lambda: n.maximum(x, 0.0) * 3,
        lambda: n.std(x),
        lambda: n.einsum("ij,ij->i", x, x),
        lambda: n.sort(x, axis=1)[:, 0],
        lambda: n.cumsum(x, axis=1) ** 2,
        lambda: n.clip(x, -1.0, 1.0),
        lambda: n.prod(x, axis=0),
    ):
        with tf.GradientTape() as t:
            y = f()
        out.append(t.gradient(y, x))
    return out


def case_gradient_through_promotion(tf, np):
    n = tf.experimental.numpy
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape(persistent=True) as t:
        t.watch(x)
        y = n.multiply(x, n.array([3.0, 4.0], n.float64))
        z = n.sum(n.add(x, n.array([1, 2], n.int32)) ** 2)
    return [y, t.gradient(y, x), z, t.gradient(z, x)]


def case_in_function(tf, np):
    n = tf.experimental.numpy

    @tf.function
    def f(x, y):
        z = n.dot(x, y)
        return n.sum(z), n.reshape(z, (-1,)), n.mean(x)

    return [
        f(tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([[1.0], [1.0]])),
        f(tf.constant([[1.0, 0.0]]), tf.constant([[2.0], [5.0]])),
    ]


def case_jacobian_and_second_order(tf, np):
    n = tf.experimental.numpy
    x = tf.constant([1.0, 2.0, 3.0])
    with tf.GradientTape(persistent=True) as t2:
        t2.watch(x)
        with tf.GradientTape() as t1:
            t1.watch(x)
            y = n.sum(n.power(x, 3))
        g = t1.gradient(y, x)
    with tf.GradientTape() as t:
        t.watch(x)
        z = n.outer(x, x)
    return [g, t2.gradient(g, x), t2.jacobian(g, x), t.jacobian(z, x)]


def case_constants_and_types(tf, np):
    n = tf.experimental.numpy
    return [
        n.pi,
        n.e,
        n.inf,
        n.newaxis,
        n.float32 is np.float32,
        n.int64 is np.int64,
        n.bool_ is np.bool_,
        n.issubdtype(n.float32, n.inexact) if hasattr(n, "inexact") else True,
        n.finfo(n.float32).eps,
        n.iinfo(n.int8).max,
        n.isscalar(3),
        n.iscomplexobj([1j]),
        n.isrealobj([1.0]),
    ]


def case_comparison_and_logic(tf, np):
    n = tf.experimental.numpy
    a, b = n.array([1, 2, 3]), n.array([3.0, 2.0, 1.0])
    return [
        n.equal(a, b),
        n.less(a, b),
        n.greater_equal(a, 2),
        n.logical_and(a > 1, b > 1),
        n.logical_or(a > 2, b > 2),
        n.logical_not(a > 1),
        n.logical_xor(a > 1, b > 1),
        n.array_equal(a, a),
        n.not_equal(a, b),
        n.isfinite(b),
        n.bitwise_and(n.array([6]), n.array([3])),
        n.bitwise_xor(n.array([6]), n.array([3])),
        n.bitwise_not(n.array([0])),
        n.gcd(n.array([12]), n.array([18])),
        n.lcm(n.array([4]), n.array([6])),
        n.signbit(b),
    ]


def case_complex(tf, np):
    n = tf.experimental.numpy
    z = n.array([1 + 2j, 3 - 1j])
    return [
        n.real(z),
        n.imag(z),
        n.conj(z),
        n.angle(z),
        n.abs(z),
        n.multiply(z, 2),
        n.add(z, n.array([1.0, 1.0])),
        n.sum(z),
    ]


def case_random_shapes(tf, np):
    n = tf.experimental.numpy
    n.random.seed(1)
    u, g, r = n.random.rand(2, 3), n.random.randn(4), n.random.randint(0, 5, (10,))
    n.random.seed(1)
    again = n.random.rand(2, 3)
    return [
        u.shape,
        u.dtype,
        g.shape,
        g.dtype,
        r.dtype,
        bool(tf.reduce_all((r >= 0) & (r < 5))),
        bool(tf.reduce_all((u >= 0) & (u < 1))),
        bool(tf.reduce_all(u == again)),
        n.random.uniform(size=(2,)).shape,
        n.random.standard_normal(size=(3,)).shape,
    ]


def case_errors(tf, np):
    n = tf.experimental.numpy
    return [
        raises(lambda: n.reshape(n.arange(6), (4, 2)), "ValueError"),
        raises(lambda: n.matmul(n.ones((2, 3)), n.ones((2, 3))), "ValueError"),
        raises(lambda: n.add(n.ones(2), n.ones(3)), "ValueError"),
        raises(lambda: n.array("x") + 1, "*"),
        raises(lambda: n.concatenate([n.ones((2, 2)), n.ones(2)]), "*"),
        raises(lambda: n.sum(n.ones(2), axis=3), "*"),
    ]


def case_stacking_helpers(tf, np):
    n = tf.experimental.numpy
    return [
        n.hsplit(n.arange(4), 2),
        n.vsplit(n.ones((4, 1)), 2),
        n.atleast_1d(1).shape,
        n.atleast_3d([1, 2]).shape,
        n.fliplr(n.array([[1, 2]])),
        n.copy(n.array([1, 2])),
        n.fix(n.array([-1.5, 1.5])),
        n.compress([True, False, True], n.array([1, 2, 3])),
    ]
