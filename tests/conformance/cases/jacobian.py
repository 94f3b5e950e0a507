"""tape.jacobian and tape.batch_jacobian."""

from conformance.runner import raises


def _rng(np, *shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def _jac(tf, f, x, **kw):
    with tf.GradientTape(persistent=True) as t:
        t.watch(x)
        y = f(x)
    return t.jacobian(y, x, **kw)


def _bjac(tf, f, x, **kw):
    with tf.GradientTape(persistent=True) as t:
        t.watch(x)
        y = f(x)
    return t.batch_jacobian(y, x, **kw)


def case_elementwise_is_diagonal(tf, np):
    return _jac(tf, lambda x: x * x, tf.constant([1.0, 2.0, 3.0]))


def case_scalar_target(tf, np):
    return [
        _jac(tf, lambda x: tf.reduce_sum(x**3), tf.constant([1.0, 2.0])),
        _jac(tf, lambda x: x**2, tf.constant(3.0)),
    ]


def case_scalar_source(tf, np):
    x = tf.constant(np.linspace(-1.0, 1.0, 5))
    delta = tf.Variable(0.0, dtype=tf.float64)
    with tf.GradientTape() as t:
        y = tf.nn.sigmoid(x + delta)
    return t.jacobian(y, delta)


def case_shape_is_target_plus_source(tf, np):
    x = tf.constant(_rng(np, 2, 3))
    w = tf.Variable(_rng(np, 3, 4, seed=1))
    with tf.GradientTape(persistent=True) as t:
        y = x @ w
    j = t.jacobian(y, w)
    return [j, tf.reduce_sum(j, axis=[0, 1]), t.gradient(y, w)]


def case_many_sources_and_structures(tf, np):
    a, b = tf.Variable([1.0, 2.0]), tf.Variable([[1.0, 0.5], [2.0, -1.0]])
    with tf.GradientTape(persistent=True) as t:
        y = tf.linalg.matvec(b, a) * a
    return [t.jacobian(y, [a, b]), t.jacobian(y, {"a": a, "b": (b,)})]


def case_unconnected_none_and_zero(tf, np):
    a, b = tf.Variable([1.0, 2.0]), tf.Variable([3.0])
    with tf.GradientTape(persistent=True) as t:
        y = a * a
    return [
        t.jacobian(y, b),
        t.jacobian(y, [a, b]),
        t.jacobian(y, b, unconnected_gradients=tf.UnconnectedGradients.ZERO),
        t.jacobian(y, b, unconnected_gradients="zero"),
    ]


def case_without_pfor_agrees(tf, np):
    x = tf.constant(_rng(np, 3, 2))

    def f(x):
        return tf.nn.softmax(tf.sin(x) @ tf.transpose(x))

    return [_jac(tf, f, x, experimental_use_pfor=True), _jac(tf, f, x, experimental_use_pfor=False)]


def case_plain_tape_is_used_up(tf, np):
    v = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as t:
        y = v * v
    return [t.jacobian(y, v), raises(lambda: t.gradient(y, v)), raises(lambda: t.jacobian(y, v))]


def case_inside_the_context(tf, np):
    v = tf.Variable([1.0, 2.0])
    with tf.GradientTape(persistent=True) as t:
        y = v**3
        j = t.jacobian(y, v)
        s = tf.reduce_sum(j)
    return [j, t.gradient(s, v)]


def case_variable_as_target(tf, np):
    v = tf.Variable([1.0, 2.0])
    with tf.GradientTape(persistent=True) as t:
        _ = v * 2.0
    return t.jacobian(v, v)


def case_through_reductions(tf, np):
    x = tf.constant(_rng(np, 2, 3))
    return [
        _jac(tf, lambda x: tf.reduce_sum(x, 0), x),
        _jac(tf, lambda x: tf.reduce_max(x, 1), x),
        _jac(tf, lambda x: tf.reduce_prod(x, 1, keepdims=True), x),
        _jac(tf, lambda x: tf.reduce_logsumexp(x, 0), x),
        _jac(tf, lambda x: tf.math.reduce_std(x, 1), x),
    ]


def case_through_gather_concat_where(tf, np):
    x = tf.constant(_rng(np, 4))
    return [
        _jac(tf, lambda x: tf.gather(x, [3, 0, 0]), x),
        _jac(tf, lambda x: tf.concat([x[:2], x[1:] ** 2], 0), x),
        _jac(tf, lambda x: tf.where(x > 0, x * 3.0, tf.exp(x)), x),
        _jac(tf, lambda x: tf.stack([x[0], x[-1]]), x),
        _jac(tf, lambda x: x[::-2], x),
    ]


def case_through_cumsum_sort_transpose(tf, np):
    x = tf.constant(_rng(np, 2, 2))
    return [
        _jac(tf, lambda x: tf.cumsum(x, 1), x),
        _jac(tf, lambda x: tf.sort(x, axis=0), x),
        _jac(tf, lambda x: tf.transpose(x), x),
        _jac(tf, lambda x: tf.reshape(x, [4]) ** 2, x),
    ]


def case_two_layer_network(tf, np):
    x = tf.constant(_rng(np, 3, 2))
    w1, w2 = tf.Variable(_rng(np, 2, 4, seed=1)), tf.Variable(_rng(np, 4, 2, seed=2))
    with tf.GradientTape(persistent=True) as t:
        y = tf.nn.elu(tf.nn.elu(x @ w1) @ w2)
    return [t.jacobian(y, w1), t.jacobian(y, [w2])]


def case_batch_jacobian_values(tf, np):
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    w = tf.constant(_rng(np, 2, 3).astype(np.float32))
    return [_bjac(tf, lambda x: x * x, x), _bjac(tf, lambda x: tf.tanh(x) @ w, x)]


def case_batch_jacobian_higher_rank(tf, np):
    x = tf.constant(_rng(np, 3, 2, 2))
    return [
        _bjac(tf, lambda x: tf.reduce_sum(x * x, axis=2), x),
        _bjac(tf, lambda x: tf.reduce_sum(x, axis=[1, 2], keepdims=True), x),
        _bjac(tf, lambda x: tf.transpose(x, [0, 2, 1]) @ x, x, experimental_use_pfor=False),
    ]


def case_batch_jacobian_is_diagonal_of_jacobian(tf, np):
    x = tf.constant(_rng(np, 3, 2))
    with tf.GradientTape(persistent=True) as t:
        t.watch(x)
        y = tf.sin(x) * tf.reverse(x, [1])
    j = t.jacobian(y, x)
    return [tf.einsum("bxby->bxy", j), t.batch_jacobian(y, x)]


def case_batch_jacobian_unconnected(tf, np):
    x, z = tf.constant(_rng(np, 2, 3)), tf.constant(_rng(np, 2, 2))
    with tf.GradientTape(persistent=True) as t:
        t.watch([x, z])
        y = z * 2.0
    return [t.batch_jacobian(y, x), t.batch_jacobian(y, x, unconnected_gradients="zero")]


def case_batch_jacobian_errors(tf, np):
    x, x3 = tf.constant(_rng(np, 2, 3)), tf.constant(_rng(np, 3, 3))
    one = tf.constant([1.0, 2.0])

    def attempt(f, src):
        with tf.GradientTape() as t:
            t.watch([x, x3, one])
            y = f()
        return t.batch_jacobian(y, src)

    return [
        raises(lambda: attempt(lambda: x3 * 2.0, x)),
        raises(lambda: attempt(lambda: one * 2.0, one)),
        raises(lambda: attempt(lambda: tf.reduce_sum(x), x), "ValueError"),
    ]


def case_without_pfor_needs_a_persistent_tape(tf, np):
    x = tf.constant([[1.0, 2.0]])

    def attempt(method):
        with tf.GradientTape() as t:
            t.watch(x)
            y = x * x
        return getattr(t, method)(y, x, experimental_use_pfor=False)

    return [raises(lambda: attempt("jacobian")), raises(lambda: attempt("batch_jacobian"))]


def case_gradient_of_a_jacobian(tf, np):
    x = tf.constant([0.4, -0.9], tf.float64)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.stack([x[0] ** 2 * x[1], tf.sin(x[1]) * x[0]])
        j = inner.jacobian(y, x)
        logdet = tf.math.log(tf.abs(j[0, 0] * j[1, 1] - j[0, 1] * j[1, 0]))
    return [j, logdet, outer.gradient(logdet, x)]
