"""custom_gradient, stop_gradient, recompute_grad, grad_pass_through, identity."""

from conformance.runner import raises


def _grad(tf, f, *xs):
    with tf.GradientTape() as t:
        t.watch(list(xs))
        y = f(*xs)
    return [y, t.gradient(y, list(xs))]


def case_replaces_the_gradient(tf, np):
    @tf.custom_gradient
    def f(x):
        def grad(dy):
            return dy * 100.0

        return x * x, grad

    return [_grad(tf, f, tf.constant(3.0)), _grad(tf, lambda x: 2.0 * f(x * x), tf.constant([1.0, 2.0]))]


def case_limits_the_gradient_on_the_way_back(tf, np):
    def limiter(bound):
        @tf.custom_gradient
        def limit(u):
            return tf.identity(u), lambda up: tf.clip_by_norm(up, bound)

        return limit

    w = tf.Variable([3.0, 1.0])
    with tf.GradientTape(persistent=True) as t:
        tight = tf.reduce_sum(limiter(0.5)(w * w) * [3.0, 4.0])
        loose = tf.reduce_sum(limiter(50.0)(w * w) * [3.0, 4.0])
    return [t.gradient(tight, w), t.gradient(loose, w)]


def case_stable_gradient_of_an_overflowing_function(tf, np):
    @tf.custom_gradient
    def log_cosh(x):
        big = tf.cosh(x)

        def back(up):
            return up * tf.tanh(x)

        return tf.math.log(big), back

    return [
        _grad(tf, log_cosh, tf.constant([0.0, -2.0, 200.0])),
        _grad(tf, lambda x: tf.math.log(tf.cosh(x)), tf.constant([0.0, -2.0, 200.0])),
    ]


def case_several_inputs_and_outputs(tf, np):
    @tf.custom_gradient
    def f(x, y):
        def grad(da, db):
            return da * 1.0 + db * 2.0, da * 3.0 + db * 4.0

        return (x * y, x + y), grad

    a, b = tf.constant(2.0), tf.constant(5.0)
    with tf.GradientTape(persistent=True) as t:
        t.watch([a, b])
        out = f(a, b)
    return [out, t.gradient(out[0], [a, b]), t.gradient(out[1], [a, b]), t.gradient(out, [a, b])]


def case_unused_output_gets_zero_upstream(tf, np):
    seen = []

    @tf.custom_gradient
    def f(x):
        def grad(da, db):
            seen.append(db)
            return da + tf.reduce_sum(db)

        return [x * 2.0, x * [1.0, 1.0]], grad

    x = tf.constant(3.0)
    with tf.GradientTape() as t:
        t.watch(x)
        a, _ = f(x)
    return [t.gradient(a, x), seen]


def case_keyword_arguments(tf, np):
    @tf.custom_gradient
    def f(x, *, scale=1.0, flip=False):
        def grad(dy):
            return dy * scale * (-1.0 if flip else 1.0)

        return x * scale, grad

    x = tf.constant(3.0)
    return [
        _grad(tf, f, x),
        _grad(tf, lambda a: f(a, scale=5.0), x),
        _grad(tf, lambda a: f(a, scale=2.0, flip=True), x),
    ]


def case_gradient_for_variables(tf, np):
    v = tf.Variable(2.0)

    @tf.custom_gradient
    def f(x):
        def grad(dy, variables=None):
            return dy * 10.0, [dy * 20.0 for _ in variables]

        return x * v, grad

    x = tf.constant(3.0)
    with tf.GradientTape() as t:
        t.watch(x)
        y = f(x) * 2.0
    return [y, t.gradient(y, [x, v])]


def case_variables_without_keyword_raise(tf, np):
    v = tf.Variable(2.0)

    @tf.custom_gradient
    def f(x):
        def grad(dy):
            return dy

        return x * v, grad

    return raises(lambda: f(tf.constant(1.0)))


def case_variable_as_argument(tf, np):
    v = tf.Variable([1.0, 2.0])

    @tf.custom_gradient
    def f(a):
        def grad(dy):
            return dy * 7.0

        return a * 2.0, grad

    with tf.GradientTape() as t:
        y = f(v)
    return [y, t.gradient(y, v)]


def case_wrong_number_of_gradients_raises(tf, np):
    @tf.custom_gradient
    def f(x, y):
        def grad(dy):
            return dy

        return x * y, grad

    a, b = tf.constant(1.0), tf.constant(2.0)
    with tf.GradientTape() as t:
        t.watch([a, b])
        out = f(a, b)
    return raises(lambda: t.gradient(out, [a, b]))


def case_none_gradient(tf, np):
    @tf.custom_gradient
    def f(x, y):
        def grad(dy):
            return dy * 3.0, None

        return x * y, grad

    return _grad(tf, f, tf.constant(2.0), tf.constant(4.0))


def case_second_order_through_custom_gradient(tf, np):
    @tf.custom_gradient
    def cube(x):
        def grad(dy):
            return dy * 3.0 * x**2

        return x**3, grad

    x = tf.constant(2.0)
    with tf.GradientTape() as t2:
        t2.watch(x)
        with tf.GradientTape() as t1:
            t1.watch(x)
            y = cube(x)
        d = t1.gradient(y, x)
    return [y, d, t2.gradient(d, x)]


def case_nested_custom_gradient_second_order(tf, np):
    @tf.custom_gradient
    def op(x):
        def first(dy):
            @tf.custom_gradient
            def first_custom(u):
                def second(ddy):
                    return ddy * 1000.0

                return u * 10.0, second

            return dy * first_custom(x)

        return x * x, first

    x = tf.constant(2.0)
    with tf.GradientTape() as t2:
        t2.watch(x)
        with tf.GradientTape() as t1:
            t1.watch(x)
            y = op(x)
        d = t1.gradient(y, x)
    return [y, d, t2.gradient(d, x)]


def case_structured_arguments_and_results(tf, np):
    @tf.custom_gradient
    def f(d):
        def grad(dy):
            return {"a": dy * 2.0, "b": dy * 3.0}

        return d["a"] * d["b"], grad

    @tf.custom_gradient
    def h(a, b):
        def grad(dp, dq):
            return dp * 2.0, dq * 3.0

        return {"p": a * b, "q": a + b}, grad

    a, b = tf.constant(2.0), tf.constant(5.0)
    with tf.GradientTape(persistent=True) as t:
        t.watch([a, b])
        y = f({"a": a, "b": b})
        z = h(a, b)
    return [y, t.gradient(y, [a, b]), z, t.gradient(z["q"], [a, b])]


def case_stop_gradient(tf, np):
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape(persistent=True) as t:
        t.watch(x)
        s = tf.stop_gradient(x * x)
        y = s * x
        z = tf.stop_gradient({"a": x}["a"]) + tf.stop_gradient(x)
    return [t.gradient(s, x), t.gradient(y, x), t.gradient(z, x), t.gradient(z, x, unconnected_gradients="zero")]


def case_straight_through_estimator(tf, np):
    def ste(x):
        return x + tf.stop_gradient(tf.round(x) - x)

    return _grad(tf, lambda x: ste(x) ** 2, tf.constant([0.4, 1.6, -2.3]))


def case_grad_pass_through(tf, np):
    return [
        _grad(tf, tf.grad_pass_through(lambda x: tf.round(x) * 2.0), tf.constant([1.4, 2.6])),
        _grad(tf, lambda x: tf.grad_pass_through(tf.sign)(x * 3.0), tf.constant([-1.0, 2.0])),
    ]


def case_recompute_grad(tf, np):
    v = tf.Variable([1.0, 2.0])
    calls = []

    def block(x):
        calls.append(1)
        return tf.sin(x) * v

    x = tf.constant([0.5, 1.5])
    with tf.GradientTape() as t:
        t.watch(x)
        y = tf.recompute_grad(block)(x)
        forward = len(calls)
    return [y, t.gradient(y, [x, v]), forward, len(calls) > forward]


def case_identity_and_gradient_reversal(tf, np):
    @tf.custom_gradient
    def reverse_gradient(x):
        return tf.identity(x), lambda dy: -dy

    x = tf.constant([1.0, -2.0])
    return [_grad(tf, tf.identity, x), _grad(tf, lambda a: reverse_gradient(a) * a, x)]
