"""Linear algebra: value and gradient (sign-free quantities where a factorisation is not unique)."""

from conformance.runner import raises


def _arr(np, *shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).round(3)


def _spd(np, n, seed=0, batch=()):
    a = _arr(np, *batch, n, n, seed=seed)
    return a @ np.swapaxes(a, -1, -2) + n * np.eye(n)


def g(tf, np, f, *arrays):
    """Value and gradients for all inputs, with a non-uniform upstream gradient."""
    xs = [tf.constant(a) for a in arrays]
    with tf.GradientTape() as t:
        t.watch(xs)
        y = f(*xs)
    n = int(np.prod(tuple(y.shape)))
    og = tf.constant(((np.arange(n) % 7) * 0.5 - 1.25).reshape(tuple(y.shape)).astype(y.dtype.as_numpy_dtype))
    return [y, t.gradient(y, xs, output_gradients=og)]


def case_matmul_plain(tf, np):
    a, b = _arr(np, 2, 3), _arr(np, 3, 4, seed=1)
    return [
        g(tf, np, tf.matmul, a, b),
        g(tf, np, lambda p, q: p @ q, a.astype(np.float32), b.astype(np.float32)),
        g(tf, np, tf.linalg.matmul, b.T, a.T),
    ]


def case_matmul_transpose_flags(tf, np):
    a, b = _arr(np, 2, 3), _arr(np, 2, 4, seed=1)
    return [
        g(tf, np, lambda p, q: tf.matmul(p, q, transpose_a=True), a, b),
        g(tf, np, lambda p, q: tf.matmul(p, q, transpose_b=True), a, _arr(np, 4, 3, seed=2)),
        g(tf, np, lambda p, q: tf.matmul(p, q, transpose_a=True, transpose_b=True), a, _arr(np, 4, 2, seed=3)),
        g(tf, np, lambda p, q: tf.matmul(p, q, adjoint_a=True), a, b),
    ]


def case_matmul_batch_and_broadcast(tf, np):
    return [
        g(tf, np, tf.matmul, _arr(np, 2, 2, 3), _arr(np, 2, 3, 2, seed=1)),
        g(tf, np, tf.matmul, _arr(np, 2, 2, 3), _arr(np, 3, 2, seed=1)),
        g(tf, np, tf.matmul, _arr(np, 2, 1, 2, 3), _arr(np, 3, 3, 2, seed=1)),
        g(tf, np, lambda p, q: tf.matmul(p, q, transpose_b=True), _arr(np, 2, 2, 3), _arr(np, 1, 2, 3, seed=1)),
    ]


def case_matmul_errors(tf, np):
    return [
        raises(lambda: tf.ones([2, 3]) @ tf.ones([2, 3]), "ValueError"),
        raises(lambda: tf.matmul(tf.ones([3]), tf.ones([3])), "ValueError"),
        raises(lambda: tf.matmul(tf.ones([2, 2]), tf.ones([2, 2]), transpose_a=True, adjoint_a=True)),
        raises(lambda: tf.matmul(tf.ones([2, 2]), tf.ones([2, 2], tf.float64)), "TypeError"),
    ]


def case_matvec(tf, np):
    return [
        g(tf, np, tf.linalg.matvec, _arr(np, 2, 3), _arr(np, 3, seed=1)),
        g(tf, np, lambda a, b: tf.linalg.matvec(a, b, transpose_a=True), _arr(np, 2, 3), _arr(np, 2, seed=1)),
        g(tf, np, tf.linalg.matvec, _arr(np, 2, 2, 3), _arr(np, 2, 3, seed=1)),
    ]


def case_tensordot(tf, np):
    a, b = _arr(np, 2, 3, 4), _arr(np, 4, 3, seed=1)
    return [
        g(tf, np, lambda p, q: tf.tensordot(p, q, 1), a, b),
        g(tf, np, lambda p, q: tf.tensordot(p, q, [[1, 2], [1, 0]]), a, b),
        g(tf, np, lambda p, q: tf.tensordot(p, q, 0), _arr(np, 2), _arr(np, 3, seed=1)),
        g(tf, np, lambda p, q: tf.tensordot(p, q, axes=[[1], [1]]), a, b),
        g(tf, np, lambda p, q: tf.tensordot(p, q, 1), _arr(np, 3), _arr(np, 3, seed=2)),
    ]


def case_inv(tf, np):
    return [
        g(tf, np, tf.linalg.inv, _spd(np, 3)),
        g(tf, np, tf.linalg.inv, _arr(np, 2, 2, 2) + 3 * np.eye(2)),
        g(tf, np, lambda a: tf.linalg.inv(a, adjoint=True), _arr(np, 2, 2) + 2 * np.eye(2)),
        raises(lambda: tf.linalg.inv(tf.zeros([2, 2])), "ValueError"),
    ]


def case_det(tf, np):
    return [
        g(tf, np, tf.linalg.det, _arr(np, 3, 3)),
        g(tf, np, tf.linalg.det, _arr(np, 2, 2, 2)),
        g(tf, np, tf.linalg.det, np.array([[2.0]])),
    ]


def case_slogdet_logdet(tf, np):
    a = _arr(np, 3, 3)
    return [
        g(tf, np, lambda m: tf.linalg.slogdet(m)[1], a),
        tf.linalg.slogdet(tf.constant(a))[0],
        g(tf, np, tf.linalg.logdet, _spd(np, 3)),
        g(tf, np, tf.linalg.logdet, _spd(np, 2, batch=(2,))),
    ]


def _refused(tf, f):
    """True if f() raises or is not-a-number on and below the diagonal."""
    try:
        y = f()
    except Exception:
        return True
    return bool(tf.reduce_all(tf.math.is_nan(tf.linalg.diag_part(y))))


def case_cholesky(tf, np):
    return [
        g(tf, np, tf.linalg.cholesky, _spd(np, 3)),
        g(tf, np, tf.linalg.cholesky, _spd(np, 2, batch=(2,))),
        _refused(tf, lambda: tf.linalg.cholesky(tf.constant([[1.0, 2.0], [2.0, 1.0]]))),
    ]


def case_solve(tf, np):
    a, b = _arr(np, 3, 3) + 3 * np.eye(3), _arr(np, 3, 2, seed=1)
    return [
        g(tf, np, tf.linalg.solve, a, b),
        g(tf, np, lambda p, q: tf.linalg.solve(p, q, adjoint=True), a, b),
        g(tf, np, tf.linalg.solve, _arr(np, 2, 2, 2) + 3 * np.eye(2), _arr(np, 2, 2, 1, seed=1)),
        raises(lambda: tf.linalg.solve(tf.ones([2, 2]), tf.ones([2, 1])), "ValueError"),
    ]


def case_triangular_solve(tf, np):
    a, b = _arr(np, 3, 3) + 3 * np.eye(3), _arr(np, 3, 2, seed=1)
    return [
        g(tf, np, tf.linalg.triangular_solve, a, b),
        g(tf, np, lambda p, q: tf.linalg.triangular_solve(p, q, lower=False), a, b),
        g(tf, np, lambda p, q: tf.linalg.triangular_solve(p, q, adjoint=True), a, b),
    ]


def case_cholesky_solve(tf, np):
    return g(
        tf, np, lambda a, b: tf.linalg.cholesky_solve(tf.linalg.cholesky(a), b), _spd(np, 3), _arr(np, 3, 2, seed=1)
    )


def case_lstsq(tf, np):
    a, b = _arr(np, 4, 2), _arr(np, 4, 1, seed=1)
    return [g(tf, np, tf.linalg.lstsq, a, b), g(tf, np, lambda p, q: tf.linalg.lstsq(p, q, l2_regularizer=0.5), a, b)]


def case_qr(tf, np):
    a = _arr(np, 4, 3)
    return [
        g(tf, np, lambda m: tf.abs(tf.linalg.qr(m)[1]), a),
        g(tf, np, lambda m: tf.abs(tf.linalg.qr(m)[0]), a),
        g(tf, np, lambda m: tf.linalg.qr(m).q @ tf.linalg.qr(m).r, a),
        [tuple(x.shape) for x in tf.linalg.qr(a, full_matrices=True)],
    ]


def case_eigh_values(tf, np):
    return [
        g(tf, np, lambda a: tf.linalg.eigh(a)[0], _spd(np, 3)),
        g(tf, np, tf.linalg.eigvalsh, _spd(np, 2, batch=(2,))),
    ]


def case_eigh_vectors(tf, np):
    def spectral(a):
        e, v = tf.linalg.eigh(a)
        return v @ tf.linalg.diag(tf.sqrt(e)) @ tf.transpose(v)

    return [g(tf, np, spectral, _spd(np, 3)), g(tf, np, lambda a: tf.linalg.eigh(a)[1] ** 2, _spd(np, 3))]


def case_svd_singular_values(tf, np):
    return [
        g(tf, np, lambda a: tf.linalg.svd(a, compute_uv=False), _arr(np, 4, 3)),
        g(tf, np, lambda a: tf.linalg.svd(a, compute_uv=False), _arr(np, 2, 2, 3)),
    ]


def case_svd_reconstruction(tf, np):
    def low_rank(a):
        s, u, v = tf.linalg.svd(a)
        return (u[:, :1] * s[:1]) @ tf.transpose(v[:, :1])

    return [
        g(tf, np, low_rank, _arr(np, 3, 3)),
        [tuple(x.shape) for x in tf.linalg.svd(_arr(np, 4, 3))],
        [tuple(x.shape) for x in tf.linalg.svd(_arr(np, 4, 3), full_matrices=True)],
    ]


def case_norm_orders(tf, np):
    x, m = np.array([3.0, -4.0, 1.0]), _arr(np, 2, 3)
    return [
        g(tf, np, tf.norm, x),
        g(tf, np, lambda a: tf.norm(a, ord=1), x),
        g(tf, np, lambda a: tf.norm(a, ord=np.inf), x),
        g(tf, np, lambda a: tf.norm(a, ord=3), x),
        g(tf, np, tf.norm, m),
        g(tf, np, lambda a: tf.norm(a, axis=1), m),
        g(tf, np, lambda a: tf.norm(a, ord="fro", axis=[0, 1]), m),
        g(tf, np, lambda a: tf.linalg.norm(a, ord=1, axis=0, keepdims=True), m),
        g(tf, np, lambda a: tf.norm(a, ord=2, axis=(0, 1)), m),
    ]


def case_norm_at_zero(tf, np):
    return [
        g(tf, np, tf.norm, np.zeros(2)),
        g(tf, np, lambda a: tf.norm(a, ord=1), np.zeros(2)),
        g(tf, np, lambda a: tf.norm(a, ord=np.inf), np.zeros(2)),
        g(tf, np, lambda a: tf.math.l2_normalize(a), np.zeros(2)),
    ]


def case_normalize(tf, np):
    return [
        g(tf, np, lambda a: tf.linalg.normalize(a)[0], np.array([3.0, -4.0])),
        g(tf, np, lambda a: tf.linalg.normalize(a, axis=1)[0], _arr(np, 2, 3)),
        g(tf, np, lambda a: tf.linalg.normalize(a, ord=1)[1], np.array([3.0, -4.0])),
    ]


def case_expm(tf, np):
    return [g(tf, np, tf.linalg.expm, _arr(np, 3, 3) * 0.5), g(tf, np, tf.linalg.expm, _arr(np, 2, 2, 2))]


def case_matrix_power_by_matmul(tf, np):
    def power(a, n):
        out = tf.eye(2, dtype=a.dtype)
        for _ in range(n):
            out = out @ a
        return out

    return g(tf, np, lambda a: power(a, 4), np.array([[0.5, -0.2], [0.1, 0.9]]))


def case_pinv_and_sqrtm(tf, np):
    return [g(tf, np, tf.linalg.pinv, _arr(np, 3, 2)), g(tf, np, tf.linalg.sqrtm, _spd(np, 2))]


def case_cross_trace_adjoint(tf, np):
    return [
        g(tf, np, tf.linalg.cross, _arr(np, 2, 3), _arr(np, 2, 3, seed=1)),
        g(tf, np, tf.linalg.trace, _arr(np, 3, 3)),
        g(tf, np, tf.linalg.matrix_transpose, _arr(np, 2, 2, 3)),
        g(tf, np, tf.linalg.adjoint, _arr(np, 2, 3)),
    ]


def case_complex_matmul_gradient(tf, np):
    a, b = _arr(np, 2, 2) + 1j * _arr(np, 2, 2, seed=1), _arr(np, 2, 2, seed=2) - 1j * _arr(np, 2, 2, seed=3)
    return [g(tf, np, tf.matmul, a, b), g(tf, np, lambda p, q: tf.abs(tf.matmul(p, q, adjoint_b=True)) ** 2, a, b)]


def case_gaussian_log_likelihood(tf, np):
    def nll(cov, mu, x):
        d = tf.transpose(x - mu)
        c = tf.linalg.cholesky(cov)
        z = tf.linalg.triangular_solve(c, d)
        return tf.reduce_sum(z**2) * 0.5 + 4.0 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(c)))

    return g(tf, np, nll, _spd(np, 3), _arr(np, 3, seed=1), _arr(np, 4, 3, seed=2))


def case_second_derivative_of_logdet_and_inv(tf, np):
    a = tf.constant(_spd(np, 2))
    with tf.GradientTape() as outer:
        outer.watch(a)
        with tf.GradientTape() as inner:
            inner.watch(a)
            f = tf.linalg.logdet(a) + tf.linalg.trace(tf.linalg.inv(a) @ a @ a)
        d = inner.gradient(f, a)
    return [d, outer.jacobian(d, a)]


def case_jacobians_of_inv_det_cholesky(tf, np):
    a = tf.constant(_arr(np, 2, 2) + 3.0 * np.eye(2))
    with tf.GradientTape(persistent=True) as t:
        t.watch(a)
        inv, det, chol = tf.linalg.inv(a), tf.linalg.det(a), tf.linalg.cholesky(a @ tf.transpose(a))
    return [t.jacobian(inv, a), t.jacobian(det, a), t.jacobian(chol, a)]
