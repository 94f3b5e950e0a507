"""Elementwise and reduction ops: value and gradient at ordinary and at special points."""

from conformance.runner import raises

INF, NAN = float("inf"), float("nan")


def un(tf, np, f, pts, dtypes=("float32", "float64")):
    """Value and gradient of the elementwise f at pts, with a non-uniform upstream gradient."""
    out = {}
    for dt in dtypes:
        x = tf.constant(np.array(pts, dt))
        with tf.GradientTape() as t:
            t.watch(x)
            y = f(x)
        og = tf.constant((1.0 + 0.5 * np.arange(len(pts))).astype(dt))
        out[dt] = [y, t.gradient(y, x, output_gradients=og)]
    return out


def bi(tf, np, f, a, b, dtypes=("float32", "float64")):
    """Value and both gradients of a broadcasting binary f."""
    out = {}
    for dt in dtypes:
        x, z = tf.constant(np.array(a, dt)), tf.constant(np.array(b, dt))
        with tf.GradientTape() as t:
            t.watch([x, z])
            y = f(x, z)
            s = tf.reduce_sum(y * np.array(1.0 + 0.25 * np.arange(int(np.prod(y.shape))).reshape(tuple(y.shape)), dt))
        out[dt] = [y, t.gradient(s, [x, z])]
    return out


def red(tf, np, f, x, dt="float64"):
    """Value and gradient of a reduction, with a non-uniform upstream gradient."""
    x = tf.constant(np.array(x, dt))
    with tf.GradientTape() as t:
        t.watch(x)
        y = f(x)
    n = int(np.prod(tuple(y.shape)))
    og = tf.constant((1.0 + 0.5 * np.arange(n)).reshape(tuple(y.shape)).astype(dt))
    return [y, t.gradient(y, x, output_gradients=og)]


def case_abs(tf, np):
    return un(tf, np, tf.abs, [-2.0, -0.0, 0.0, 3.5, -INF])


def case_negative_and_sign(tf, np):
    return [un(tf, np, tf.negative, [-2.0, 0.0, 3.5]), un(tf, np, tf.sign, [-2.0, 0.0, 3.5])]


def case_square_and_pow_int(tf, np):
    return [
        un(tf, np, tf.square, [-2.0, 0.0, 3.5]),
        un(tf, np, lambda x: x**3, [-2.0, 0.0, 1.5]),
        un(tf, np, lambda x: x**2, [-1.0, 0.0]),
        un(tf, np, lambda x: x**0, [-1.0, 0.0, 2.0]),
        un(tf, np, lambda x: x**-2, [-1.0, 0.5, 2.0]),
    ]


def case_sqrt(tf, np):
    return un(tf, np, tf.sqrt, [0.0, 0.25, 2.0, -1.0, INF])


def case_rsqrt(tf, np):
    return un(tf, np, tf.math.rsqrt, [0.0, 0.25, 2.0])


def case_reciprocal(tf, np):
    return [
        un(tf, np, tf.math.reciprocal, [-2.0, 0.5, 3.0, 0.0]),
        un(tf, np, tf.math.reciprocal_no_nan, [-2.0, 0.5, 0.0]),
    ]


def case_exp(tf, np):
    return un(tf, np, tf.exp, [-3.0, 0.0, 1.5, -INF])


def case_expm1(tf, np):
    return un(tf, np, tf.math.expm1, [-3.0, 1e-5, 0.0, 1.5])


def case_log(tf, np):
    return un(tf, np, tf.math.log, [0.5, 1.0, 3.0, 0.0, -1.0])


def case_log1p(tf, np):
    return un(tf, np, tf.math.log1p, [-0.5, 1e-5, 0.0, 3.0, -1.0])


def case_sin(tf, np):
    return un(tf, np, tf.sin, [-2.0, 0.0, 0.7, 3.0])


def case_cos(tf, np):
    return un(tf, np, tf.cos, [-2.0, 0.0, 0.7, 3.0])


def case_tan(tf, np):
    return un(tf, np, tf.tan, [-1.0, 0.0, 0.7])


def case_asin_acos(tf, np):
    return [un(tf, np, tf.asin, [-0.9, 0.0, 0.5, 1.0]), un(tf, np, tf.acos, [-0.9, 0.0, 0.5, -1.0])]


def case_atan(tf, np):
    return un(tf, np, tf.atan, [-3.0, 0.0, 0.5, INF])


def case_sinh_cosh(tf, np):
    return [un(tf, np, tf.sinh, [-2.0, 0.0, 1.5]), un(tf, np, tf.cosh, [-2.0, 0.0, 1.5])]


def case_tanh(tf, np):
    return un(tf, np, tf.tanh, [-2.0, 0.0, 0.5, 30.0])


def case_asinh_acosh_atanh(tf, np):
    return [
        un(tf, np, tf.asinh, [-2.0, 0.0, 0.5]),
        un(tf, np, tf.acosh, [1.5, 3.0, 1.0]),
        un(tf, np, tf.atanh, [-0.5, 0.0, 0.9]),
    ]


def case_sigmoid(tf, np):
    return [
        un(tf, np, tf.sigmoid, [-2.0, 0.0, 0.5, 40.0]),
        un(tf, np, tf.math.log_sigmoid, [-2.0, 0.0, 0.5, -60.0, 60.0]),
    ]


def case_softplus(tf, np):
    return un(tf, np, tf.math.softplus, [-20.0, -2.0, 0.0, 0.5, 40.0])


def case_erf_erfc(tf, np):
    return [un(tf, np, tf.math.erf, [-1.5, 0.0, 0.3, 2.0]), un(tf, np, tf.math.erfc, [-1.5, 0.0, 0.3, 2.0])]


def case_erfinv_ndtri(tf, np):
    return [un(tf, np, tf.math.erfinv, [-0.5, 0.0, 0.3]), un(tf, np, tf.math.ndtri, [0.2, 0.5, 0.7])]


def case_lgamma_digamma(tf, np):
    return [un(tf, np, tf.math.lgamma, [0.5, 1.5, 4.2]), un(tf, np, tf.math.digamma, [0.5, 2.2, 4.2])]


def case_polygamma_zeta_values(tf, np):
    return [
        tf.math.polygamma(tf.constant([1.0, 2.0], tf.float64), tf.constant([0.7, 3.0], tf.float64)),
        tf.math.zeta(tf.constant([2.0, 3.5], tf.float64), tf.constant([1.0, 0.7], tf.float64)),
    ]


def case_igamma(tf, np):
    return [
        un(tf, np, lambda x: tf.math.igamma(tf.constant([0.5, 2.0], x.dtype), x), [0.7, 3.0], ("float64",)),
        un(tf, np, lambda x: tf.math.igammac(tf.constant([0.5, 2.0], x.dtype), x), [0.7, 3.0], ("float64",)),
    ]


def case_bessel(tf, np):
    return [
        un(tf, np, tf.math.bessel_i0, [-1.0, 0.0, 2.0]),
        un(tf, np, tf.math.bessel_i1, [-1.0, 0.5, 2.0]),
        un(tf, np, tf.math.bessel_i0e, [-1.0, 0.3, 2.0]),
    ]


def case_rounding_has_no_gradient(tf, np):
    pts = [-1.5, -0.5, 0.5, 1.5, 2.3]
    return [
        un(tf, np, tf.floor, pts),
        un(tf, np, tf.math.ceil, pts),
        un(tf, np, tf.round, pts),
        un(tf, np, tf.math.rint, pts),
    ]


def case_add_subtract_broadcast(tf, np):
    a, b = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[10.0], [20.0]]
    return [
        bi(tf, np, tf.add, a, b),
        bi(tf, np, tf.subtract, b, a),
        bi(tf, np, tf.add, 2.0, a),
        bi(tf, np, lambda p, q: p - q, a, a),
    ]


def case_multiply_divide_broadcast(tf, np):
    a, b = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [-2.0, 0.5, 4.0]
    return [
        bi(tf, np, tf.multiply, a, b),
        bi(tf, np, tf.divide, a, b),
        bi(tf, np, tf.divide, b, a),
        bi(tf, np, tf.multiply, a, 3.0),
    ]


def case_divide_by_zero_gradient(tf, np):
    return [
        bi(tf, np, tf.divide, [1.0, 0.0, -2.0], [0.0, 0.0, 4.0]),
        bi(tf, np, tf.math.divide_no_nan, [1.0, 0.0, -2.0], [0.0, 0.0, 4.0]),
        bi(tf, np, tf.math.multiply_no_nan, [INF, 2.0, NAN], [0.0, 3.0, 0.0]),
    ]


def case_pow(tf, np):
    return [
        bi(tf, np, tf.pow, [0.5, 2.0, 3.0], [2.0, -1.5, 0.0]),
        bi(tf, np, tf.pow, [0.0, 0.0, 0.0], [0.0, 1.0, 2.0]),
        bi(tf, np, tf.pow, [-2.0, -1.0], [3.0, 2.0]),
        bi(tf, np, tf.pow, 2.0, [0.0, 1.0, -2.0]),
    ]


def case_maximum_minimum_ties(tf, np):
    return [
        bi(tf, np, tf.maximum, [1.0, 2.0, 3.0, 0.0], [2.0, 2.0, 1.0, -0.0]),
        bi(tf, np, tf.minimum, [1.0, 2.0, 3.0], [2.0, 2.0, 1.0]),
        bi(tf, np, tf.maximum, [[-1.0, 0.0, 1.0]], 0.0),
    ]


def case_squared_difference(tf, np):
    return bi(tf, np, tf.math.squared_difference, [[1.0, 2.0], [3.0, 4.0]], [0.5, -1.0])


def case_floordiv_floormod(tf, np):
    a, b = [7.5, -7.5, 7.5, -7.5], [2.0, 2.0, -2.0, -2.0]
    return [bi(tf, np, tf.math.floormod, a, b), bi(tf, np, tf.math.floordiv, a, b)]


def case_op_without_gradient_raises_lookup_error(tf, np):
    return [raises(lambda: bi(tf, np, tf.truncatemod, [7.5], [2.0])), tf.truncatemod([7.5, -7.5], [2.0, 2.0])]


def case_atan2(tf, np):
    return bi(tf, np, tf.atan2, [1.0, -1.0, 0.0, 2.0], [1.0, -2.0, -1.0, 0.0])


def case_xlogy_xdivy(tf, np):
    return [
        bi(tf, np, tf.math.xlogy, [0.0, 0.0, 2.0], [0.0, 2.0, 3.0]),
        bi(tf, np, tf.math.xdivy, [0.0, 1.0, 2.0], [0.0, 2.0, -3.0]),
        bi(tf, np, tf.math.xlog1py, [0.0, 1.0, 2.0], [-1.0, 2.0, 0.5]),
    ]


def case_add_n(tf, np):
    x, z = tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0])
    with tf.GradientTape() as t:
        t.watch([x, z])
        y = tf.add_n([x, z * z, x]) * [1.0, 2.0]
    return [y, t.gradient(y, [x, z]), raises(lambda: tf.add_n([tf.ones([2]), tf.ones([3])]), "ValueError")]


def case_clip_by_value(tf, np):
    return [
        un(tf, np, lambda x: tf.clip_by_value(x, -1.0, 2.0), [-3.0, -1.0, 0.0, 2.0, 5.0]),
        un(tf, np, lambda x: tf.clip_by_value(x, tf.constant(0.0, x.dtype), x * 0.5), [1.0, -1.0]),
    ]


def case_reduce_sum(tf, np):
    x = [[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]]
    return [
        red(tf, np, f, x, dt)
        for dt in ("float32", "float64")
        for f in (
            tf.reduce_sum,
            lambda a: tf.reduce_sum(a, 0),
            lambda a: tf.reduce_sum(a, axis=-1, keepdims=True),
            lambda a: tf.reduce_sum(a, [0, 1]),
            lambda a: tf.reduce_sum(a, axis=[]),
        )
    ]


def case_reduce_mean(tf, np):
    x = np.arange(12.0).reshape(2, 3, 2)
    return [
        red(tf, np, f, x, dt)
        for dt in ("float32", "float64")
        for f in (tf.reduce_mean, lambda a: tf.reduce_mean(a, [0, 2]), lambda a: tf.reduce_mean(a, -2, keepdims=True))
    ]


def case_reduce_mean_of_integers(tf, np):
    return [
        tf.reduce_mean([1, 2, 4]),
        tf.reduce_mean(tf.constant([1, 0], tf.int64)),
        tf.reduce_sum([1, 2]),
        tf.reduce_mean(tf.zeros([0])),
        tf.reduce_sum(tf.zeros([0, 3]), 0),
        tf.reduce_prod(tf.zeros([0])),
    ]


def case_reduce_max_min_with_ties(tf, np):
    x = [[1.0, 5.0, 5.0], [5.0, 2.0, 2.0]]
    return [
        red(tf, np, f, x)
        for f in (
            tf.reduce_max,
            lambda a: tf.reduce_max(a, 0),
            lambda a: tf.reduce_max(a, 1, keepdims=True),
            tf.reduce_min,
            lambda a: tf.reduce_min(a, 1),
            lambda a: tf.reduce_min(a, [0, 1]),
        )
    ]


def case_reduce_prod_with_zeros(tf, np):
    return [
        red(tf, np, tf.reduce_prod, [2.0, 3.0, 4.0]),
        red(tf, np, tf.reduce_prod, [2.0, 0.0, 4.0]),
        red(tf, np, tf.reduce_prod, [0.0, 0.0, 4.0]),
        red(tf, np, lambda a: tf.reduce_prod(a, 1), [[1.0, 2.0], [0.0, 3.0]]),
        red(tf, np, lambda a: tf.reduce_prod(a, [0, 2]), np.arange(1.0, 9.0).reshape(2, 2, 2), "float32"),
    ]


def case_reduce_logsumexp(tf, np):
    x = [[1.0, 2.0, 3.0], [1000.0, 1000.0, -1000.0]]
    return [
        red(tf, np, tf.reduce_logsumexp, x),
        red(tf, np, lambda a: tf.reduce_logsumexp(a, 1), x),
        red(tf, np, lambda a: tf.reduce_logsumexp(a, 0, keepdims=True), x, "float32"),
        red(tf, np, tf.reduce_logsumexp, [-INF, 0.0]),
    ]


def case_reduce_euclidean_norm(tf, np):
    return [
        red(tf, np, tf.math.reduce_euclidean_norm, [3.0, -4.0]),
        red(tf, np, lambda a: tf.math.reduce_euclidean_norm(a, 1), [[3.0, 4.0], [5.0, 12.0]]),
    ]


def case_reduce_std_variance(tf, np):
    x = [[1.0, 2.0, 4.0], [3.0, 3.5, -1.0]]
    return [
        red(tf, np, f, x)
        for f in (
            tf.math.reduce_std,
            tf.math.reduce_variance,
            lambda a: tf.math.reduce_std(a, 1),
            lambda a: tf.math.reduce_variance(a, 0, keepdims=True),
        )
    ]


def case_reduce_any_all_count(tf, np):
    b = tf.constant([[True, False], [True, True]])
    return [
        tf.reduce_any(b),
        tf.reduce_all(b),
        tf.reduce_any(b, 0),
        tf.reduce_all(b, 1, keepdims=True),
        tf.math.count_nonzero([0, 1, 2]),
        tf.math.count_nonzero([[0.0, 1.0], [2.0, 3.0]], axis=1, dtype=tf.int32),
    ]


def case_argmax_argmin_have_no_gradient(tf, np):
    x = tf.constant([[1.0, 5.0, 5.0], [7.0, 2.0, 2.0]])
    with tf.GradientTape() as t:
        t.watch(x)
        y = tf.cast(tf.argmax(x, axis=1), tf.float32) * 2.0
    return [tf.argmax(x), tf.argmax(x, 1), tf.argmin(x, axis=1, output_type=tf.int32), t.gradient(y, x)]


def case_comparison_has_no_gradient(tf, np):
    x = tf.constant([1.0, -2.0])
    with tf.GradientTape(persistent=True) as t:
        t.watch(x)
        a = x > 0.0
        b = tf.cast(a, tf.float32) * 3.0
        c = tf.cast(a, tf.float32) * x
    return [t.gradient(a, x), t.gradient(b, x), t.gradient(c, x)]


def case_softmax_as_math(tf, np):
    x = [[1.0, 2.0, 3.0], [0.0, 0.0, 500.0]]
    return [
        red(tf, np, tf.math.softmax, x),
        red(tf, np, tf.math.log_softmax, x),
        red(tf, np, lambda a: tf.math.softmax(a, axis=0), x),
    ]


def case_cumulative_logsumexp(tf, np):
    x = [0.5, -1.0, 2.0, 0.0]
    return [
        red(tf, np, tf.math.cumulative_logsumexp, x),
        red(tf, np, lambda a: tf.math.cumulative_logsumexp(a, reverse=True), x),
    ]


def case_polyval_and_horner(tf, np):
    return un(
        tf, np, lambda x: tf.math.polyval([tf.constant(c, x.dtype) for c in (2.0, -1.0, 3.0, 0.5)], x), [-1.0, 0.0, 2.0]
    )


def case_lbeta_betainc(tf, np):
    return [
        red(tf, np, tf.math.lbeta, [[1.0, 2.5], [0.5, 0.7]]),
        un(
            tf,
            np,
            lambda x: tf.math.betainc(tf.constant([2.0, 0.5], x.dtype), tf.constant([3.0, 1.5], x.dtype), x),
            [0.3, 0.8],
            ("float64",),
        ),
    ]


def case_composite_logistic_loss(tf, np):
    def f(w):
        z = w * tf.constant([1.0, -2.0, 0.5], w.dtype)
        return tf.reduce_mean(tf.math.log(1.0 + tf.exp(-z))) + 0.01 * tf.reduce_sum(tf.abs(w) ** 1.5)

    return [red(tf, np, f, [0.3, -1.2, 2.0], dt) for dt in ("float32", "float64")]


def case_composite_where_nan_trap(tf, np):
    def f(x):
        return tf.where(x > 0.0, tf.sqrt(x), tf.zeros_like(x))

    def safe(x):
        return tf.where(x > 0.0, tf.sqrt(tf.where(x > 0.0, x, tf.ones_like(x))), tf.zeros_like(x))

    def log_trap(x):
        return tf.where(x > 0.0, tf.math.log(x), tf.zeros_like(x))

    def div_trap(x):
        return tf.where(x > 0.0, 1.0 / x, tf.zeros_like(x))

    pts = [-1.0, 0.0, 4.0]
    return [
        un(tf, np, f, pts),
        un(tf, np, safe, pts),
        un(tf, np, log_trap, pts),
        un(tf, np, div_trap, pts),
        un(tf, np, lambda x: tf.where(x > 0.0, x**0.5, tf.zeros_like(x)), pts),
    ]


def case_low_precision_gradients(tf, np):
    out = []
    for dt in (tf.float16, tf.bfloat16):
        x = tf.cast(tf.constant([0.5, -1.0, 2.0]), dt)
        with tf.GradientTape() as t:
            t.watch(x)
            y = tf.reduce_sum(tf.tanh(x) * x + tf.exp(-x * x))
        out.append([y, t.gradient(y, x)])
    return out
