"""Second and higher derivatives, Hessians, penalties, gradients of gradients."""

from conformance.runner import dense


def _nth(tf, f, x, n):
    """[f, f', ..., f^(n)] at x with n nested tapes."""
    if n == 0:
        return [f(x)]
    with tf.GradientTape() as t:
        t.watch(x)
        vals = _nth(tf, f, x, n - 1)
    return vals + [t.gradient(vals[-1], x)]


def case_second_derivative_of_cube(tf, np):
    v = tf.Variable([2.0, -0.5])
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            cube = v * v * v
        slope = inner.gradient(cube, v)
    return [slope, outer.gradient(slope, v)]


def case_fourth_derivative_of_power(tf, np):
    return _nth(tf, lambda x: x**5, tf.constant(1.5, tf.float64), 4)


def case_third_derivative_of_sigmoid_tanh(tf, np):
    x = tf.constant([-1.0, 0.0, 0.7], tf.float64)
    return [_nth(tf, tf.sigmoid, x, 3), _nth(tf, tf.tanh, x, 3)]


def case_fourth_derivative_of_exp_sin(tf, np):
    return _nth(tf, lambda x: tf.exp(tf.sin(x)), tf.constant([0.0, 0.3, 2.0], tf.float64), 4)


def case_third_derivative_of_log_sqrt_div(tf, np):
    x = tf.constant([0.5, 1.0, 3.0], tf.float64)
    return [_nth(tf, tf.math.log, x, 3), _nth(tf, tf.sqrt, x, 3), _nth(tf, lambda a: 1.0 / (1.0 + a * a), x, 3)]


def case_second_derivative_unconnected(tf, np):
    x = tf.Variable(2.0)
    with tf.GradientTape() as t2:
        with tf.GradientTape() as t1:
            y = 3.0 * x
        dy = t1.gradient(y, x)
    return [dy, t2.gradient(dy, x)]


def case_gradient_outside_outer_context_is_not_recorded(tf, np):
    x = tf.Variable(2.0)
    with tf.GradientTape() as t2:
        with tf.GradientTape() as t1:
            y = x**3
    dy = t1.gradient(y, x)
    return [dy, t2.gradient(dy, x)]


def case_mixed_partials(tf, np):
    x, y = tf.constant(0.7, tf.float64), tf.constant(-1.2, tf.float64)
    with tf.GradientTape(persistent=True) as outer:
        outer.watch([x, y])
        with tf.GradientTape() as inner:
            inner.watch([x, y])
            f = tf.sin(x * y) + x**3 * y**2
        gx, gy = inner.gradient(f, [x, y])
    return [outer.gradient(gx, x), outer.gradient(gx, y), outer.gradient(gy, x), outer.gradient(gy, y)]


def case_hessian_by_jacobian_of_gradient(tf, np):
    x = tf.constant([0.3, -0.8, 1.1], tf.float64)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            f = tf.reduce_sum(x[:-1] ** 2 * x[1:]) + tf.exp(tf.reduce_prod(x))
        g = inner.gradient(f, x)
    return [f, g, outer.jacobian(g, x)]


def case_hessian_of_small_network(tf, np):
    rng = np.random.default_rng(7)
    w = tf.Variable(rng.normal(size=(3, 2)))
    x = tf.constant(rng.normal(size=(4, 3)))
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            loss = tf.reduce_mean(tf.tanh(x @ w) ** 2)
        g = inner.gradient(loss, w)
    h = outer.jacobian(g, w)
    return [g, h, tf.reshape(h, [6, 6])]


def case_hessian_vector_product_reverse_over_reverse(tf, np):
    x = tf.constant([1.0, 2.0, -0.5], tf.float64)
    v = tf.constant([0.2, -1.0, 3.0], tf.float64)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            f = tf.reduce_sum(x) ** 3 + tf.reduce_sum(tf.cos(x) * x)
        g = inner.gradient(f, x)
    return outer.gradient(g, x, output_gradients=v)


def case_gradient_penalty(tf, np):
    rng = np.random.default_rng(3)
    w1 = tf.Variable(rng.normal(size=(4, 5)))
    b1 = tf.Variable(rng.normal(size=5))
    w2 = tf.Variable(rng.normal(size=(5, 1)))
    x = tf.constant(rng.normal(size=(6, 4)))
    with tf.GradientTape() as outer:
        with tf.GradientTape(watch_accessed_variables=False) as inner:
            inner.watch(x)
            score = tf.nn.softplus(x @ w1 + b1) @ w2
        gx = inner.gradient(score, x)
        norms = tf.sqrt(tf.reduce_sum(gx**2, axis=1))
        penalty = tf.reduce_mean((norms - 1.0) ** 2)
    return [penalty, outer.gradient(penalty, [w1, b1, w2])]


def case_gradient_through_inner_sgd_step(tf, np):
    w = tf.constant([0.5, -1.0], tf.float64)
    lr = tf.constant(0.1, tf.float64)
    target = tf.constant([1.0, 2.0], tf.float64)
    with tf.GradientTape() as meta:
        meta.watch([w, lr])
        cur = w
        for _ in range(3):
            with tf.GradientTape() as inner:
                inner.watch(cur)
                loss = tf.reduce_sum((cur**2 - target) ** 2)
            cur = cur - lr * inner.gradient(loss, cur)
        final = tf.reduce_sum((cur**2 - target) ** 2)
    return [final, meta.gradient(final, [w, lr])]


def case_persistent_tape_inside_itself(tf, np):
    x = tf.Variable(0.4, dtype=tf.float64)
    with tf.GradientTape(persistent=True) as t:
        y = tf.sin(x) * x
        d1 = t.gradient(y, x)
        d2 = t.gradient(d1, x)
        d3 = t.gradient(d2, x)
    return [d1, d2, d3, t.gradient(d3, x)]


def case_second_order_of_matmul_softmax_loss(tf, np):
    rng = np.random.default_rng(11)
    w = tf.Variable(rng.normal(size=(3, 4)))
    x = rng.normal(size=(2, 3))
    labels = np.eye(4)[[1, 3]]
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=x @ w))
        g = inner.gradient(loss, w)
        size = tf.reduce_sum(g * g)
    return [loss, size, outer.gradient(size, w)]


def case_second_order_of_reduce_and_gather(tf, np):
    x = tf.Variable(np.linspace(0.2, 1.6, 8).reshape(4, 2))
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            picked = tf.gather(x, [0, 2, 2])
            f = tf.reduce_sum(tf.reduce_prod(picked, axis=0)) + tf.reduce_logsumexp(x) + tf.reduce_max(x) ** 2
        g = tf.convert_to_tensor(inner.gradient(f, x))
        s = tf.reduce_sum(g * np.arange(8.0).reshape(4, 2))
    return [g, dense(outer.gradient(s, x))]


def case_second_order_of_norm_and_clip(tf, np):
    x = tf.constant([3.0, -4.0], tf.float64)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            f = tf.norm(x) + tf.reduce_sum(tf.clip_by_norm(x, 2.0) ** 3) + tf.reduce_sum(tf.abs(x) ** 1.5)
        g = inner.gradient(f, x)
    return [f, g, outer.jacobian(g, x)]


def case_gradient_of_gradient_with_two_variables(tf, np):
    a, b = tf.Variable(1.5, dtype=tf.float64), tf.Variable(0.5, dtype=tf.float64)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            f = a**b + tf.math.atan2(a, b)
        ga, gb = inner.gradient(f, [a, b])
        s = ga * gb
    return [ga, gb, outer.gradient(s, [a, b])]
