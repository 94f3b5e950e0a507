"""tf.autodiff.ForwardAccumulator: Jacobian-vector products."""

from conformance.runner import raises


def _jvp(tf, f, x, v):
    with tf.autodiff.ForwardAccumulator(x, v) as acc:
        y = f(x)
    return acc.jvp(y)


def case_scalar(tf, np):
    return [
        _jvp(tf, lambda x: x * x, tf.constant(3.0), tf.constant(2.0)),
        _jvp(tf, tf.sin, tf.constant(0.0), tf.constant(5.0)),
    ]


def case_vector_and_matrix(tf, np):
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]], tf.float64)
    v = tf.constant([[0.1, 0.0], [-1.0, 2.0]], tf.float64)
    return [
        _jvp(tf, lambda a: a @ a, x, v),
        _jvp(tf, lambda a: tf.reduce_sum(tf.exp(a), axis=0), x, v),
        _jvp(tf, tf.linalg.inv, x, v),
    ]


def case_several_primals(tf, np):
    a, b = tf.constant([1.0, 2.0]), tf.Variable(3.0)
    with tf.autodiff.ForwardAccumulator(primals=[a, b], tangents=[tf.constant([1.0, 0.0]), tf.constant(-1.0)]) as acc:
        y = a * b + b**2
        z = a * 2.0
    return [acc.jvp(y), acc.jvp(z), acc.jvp([y, {"z": z}]), acc.jvp(a)]


def case_structured_primals(tf, np):
    p = {"w": tf.constant(2.0), "b": (tf.constant(1.0),)}
    with tf.autodiff.ForwardAccumulator(p, {"w": tf.constant(1.0), "b": (tf.constant(10.0),)}) as acc:
        y = p["w"] ** 2 + p["b"][0]
    return acc.jvp(y)


def case_unconnected(tf, np):
    x, c = tf.constant(3.0), tf.constant([1.0, 2.0])
    with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as acc:
        z = c * 2.0
    return [
        acc.jvp(z),
        acc.jvp(z, unconnected_gradients="zero"),
        acc.jvp(z, unconnected_gradients=tf.UnconnectedGradients.ZERO),
        acc.jvp(c),
    ]


def case_variable_primal(tf, np):
    v = tf.Variable([1.0, 2.0])
    with tf.autodiff.ForwardAccumulator(v, tf.constant([1.0, 10.0])) as acc:
        y = v * v
        first = v[0] * 3.0
    return [acc.jvp(y), acc.jvp(first)]


def case_column_of_the_jacobian(tf, np):
    w = tf.constant(np.arange(6.0).reshape(3, 2))
    x = tf.constant([[0.1, -0.2, 0.3]], tf.float64)
    cols = [
        _jvp(tf, lambda a: tf.tanh(a @ w), x, tf.constant([[float(i == j) for j in range(3)]], tf.float64))
        for i in range(3)
    ]
    with tf.GradientTape() as t:
        t.watch(x)
        y = tf.tanh(x @ w)
    return [cols, t.jacobian(y, x)]


def case_nested_accumulators(tf, np):
    x = tf.constant(1.5, tf.float64)
    with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0, tf.float64)) as outer:
        with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0, tf.float64)) as inner:
            y = x**4
        d = inner.jvp(y)
    return [outer.jvp(y), d, outer.jvp(d)]


def case_forward_over_reverse(tf, np):
    x, v = tf.constant([1.0, 2.0], tf.float64), tf.constant([0.5, -1.0], tf.float64)
    with tf.autodiff.ForwardAccumulator(x, v) as acc:
        with tf.GradientTape() as t:
            t.watch(x)
            y = tf.reduce_prod(x) ** 2 + tf.reduce_sum(tf.sin(x))
        g = t.gradient(y, x)
    return [g, acc.jvp(g), acc.jvp(y)]


def case_reverse_over_forward(tf, np):
    x = tf.constant([1.0, 2.0], tf.float64)
    with tf.GradientTape() as t:
        t.watch(x)
        with tf.autodiff.ForwardAccumulator(x, tf.constant([1.0, 1.0], tf.float64)) as acc:
            y = tf.reduce_sum(x**3) + x[0] * x[1]
        d = acc.jvp(y)
    return [d, t.gradient(d, x)]


def case_reentering_and_ops_outside(tf, np):
    x = tf.constant(3.0)
    acc = tf.autodiff.ForwardAccumulator(x, tf.constant(2.0))
    before = x * x
    with acc:
        y = x * x
    z = y * x
    with acc:
        w = y * x

    def again():
        with acc:
            with acc:
                pass

    return [acc.jvp(before), acc.jvp(y), acc.jvp(z), acc.jvp(w), raises(again)]


def case_errors_and_integers(tf, np):
    x, i = tf.constant(3.0), tf.constant(3)

    def make(p, t):
        with tf.autodiff.ForwardAccumulator(p, t) as acc:
            y = p * p
        return acc.jvp(y)

    return [
        raises(lambda: make(x, tf.constant(1.0, tf.float64)), "TypeError", "InvalidArgumentError"),
        raises(lambda: tf.autodiff.ForwardAccumulator([x], [x, x])),
        make(i, tf.constant(1)),
        make(x, 2.0),
    ]


def case_through_many_ops(tf, np):
    x = tf.constant(np.array([[0.5, -1.0, 2.0], [1.5, 0.3, -0.7]]))
    v = tf.constant(np.array([[1.0, 0.5, -1.0], [0.0, 2.0, 1.0]]))
    fs = [
        tf.nn.softmax,
        tf.nn.relu,
        lambda a: tf.reduce_max(a, 1),
        lambda a: tf.reduce_logsumexp(a, 0),
        lambda a: tf.gather(a, [1, 0, 1]),
        lambda a: a[:, ::-1],
        lambda a: tf.concat([a, a**2], 0),
        lambda a: tf.where(a > 0, a, a * 0.1),
        tf.transpose,
        lambda a: tf.cumsum(a, 1),
        tf.norm,
        lambda a: tf.einsum("ij,kj->ik", a, a),
    ]
    return [_jvp(tf, f, x, v) for f in fs]
