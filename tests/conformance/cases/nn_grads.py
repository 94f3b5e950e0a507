"""tf.nn: activations, losses, normalisation, convolution, pooling, embedding."""

from conformance.runner import dense, raises, tol


def _arr(np, *shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).round(3)


def g(tf, np, f, *arrays):
    """Value and gradients for all inputs, with a non-uniform upstream gradient."""
    xs = [tf.constant(a) for a in arrays]
    with tf.GradientTape() as t:
        t.watch(xs)
        y = f(*xs)
    n = int(np.prod(tuple(y.shape)))
    og = tf.constant(((np.arange(n) % 7) * 0.5 - 1.25).reshape(tuple(y.shape)).astype(y.dtype.as_numpy_dtype))
    return [y, dense(t.gradient(y, xs, output_gradients=og))]


def act(tf, np, f, pts=(-3.0, -0.5, 0.0, 0.5, 2.0, 7.0)):
    return [g(tf, np, f, np.array(pts, dt)) for dt in (np.float32, np.float64)]


def case_relu(tf, np):
    return act(tf, np, tf.nn.relu)


def case_relu6(tf, np):
    return act(tf, np, tf.nn.relu6, (-1.0, 0.0, 3.0, 6.0, 8.0))


def case_leaky_relu(tf, np):
    return tol([act(tf, np, tf.nn.leaky_relu), act(tf, np, lambda x: tf.nn.leaky_relu(x, alpha=0.01))], rtol=1e-6)


def case_elu_selu(tf, np):
    return [act(tf, np, tf.nn.elu), act(tf, np, tf.nn.selu)]


def case_gelu(tf, np):
    return [act(tf, np, tf.nn.gelu), act(tf, np, lambda x: tf.nn.gelu(x, approximate=True))]


def case_swish_silu(tf, np):
    return [act(tf, np, tf.nn.swish), act(tf, np, tf.nn.silu), act(tf, np, lambda x: tf.nn.silu(x, beta=1.5))]


def case_softplus_softsign(tf, np):
    return [act(tf, np, tf.nn.softplus), act(tf, np, tf.nn.softsign)]


def case_sigmoid_tanh(tf, np):
    return [act(tf, np, tf.nn.sigmoid), act(tf, np, tf.nn.tanh)]


def case_softmax(tf, np):
    x = _arr(np, 2, 3)
    return [
        g(tf, np, tf.nn.softmax, x),
        g(tf, np, lambda a: tf.nn.softmax(a, axis=0), x),
        g(tf, np, tf.nn.softmax, x.astype(np.float32)),
        g(tf, np, tf.nn.softmax, np.array([1000.0, 0.0, -1000.0])),
        g(tf, np, lambda a: tf.nn.softmax(a, axis=1), _arr(np, 2, 3, 2)),
    ]


def case_log_softmax(tf, np):
    x = _arr(np, 2, 3)
    return [
        g(tf, np, tf.nn.log_softmax, x),
        g(tf, np, lambda a: tf.nn.log_softmax(a, axis=0), x),
        g(tf, np, tf.nn.log_softmax, np.array([1000.0, 0.0, -1000.0])),
    ]


def case_crelu(tf, np):
    return [act(tf, np, tf.nn.crelu), g(tf, np, lambda a: tf.nn.crelu(a, axis=0), _arr(np, 2, 2))]


def case_sigmoid_cross_entropy(tf, np):
    z, x = np.array([[0.0, 1.0, 0.3], [1.0, 0.0, 0.5]]), np.array([[-2.0, 0.0, 3.0], [50.0, -50.0, 0.7]])
    return g(tf, np, lambda p, q: tf.nn.sigmoid_cross_entropy_with_logits(labels=p, logits=q), z, x)


def case_softmax_cross_entropy(tf, np):
    z, x = np.array([[0.0, 1.0, 0.0], [0.2, 0.3, 0.5]]), _arr(np, 2, 3)
    return [
        g(tf, np, lambda p, q: tf.nn.softmax_cross_entropy_with_logits(labels=p, logits=q), z, x),
        g(
            tf,
            np,
            lambda p, q: tf.nn.softmax_cross_entropy_with_logits(labels=p, logits=q, axis=0),
            z.astype(np.float32),
            x.astype(np.float32),
        ),
    ]


def case_sparse_softmax_cross_entropy(tf, np):
    x = _arr(np, 3, 4)
    return [
        g(tf, np, lambda q: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[3, 0, 1], logits=q), x),
        g(
            tf,
            np,
            lambda q: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[[0], [2]], logits=q),
            _arr(np, 2, 1, 3),
        ),
        raises(
            lambda: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[[0]], logits=tf.constant(x)),
            "ValueError",
            "InvalidArgumentError",
        ),
    ]


def case_weighted_cross_entropy(tf, np):
    return g(
        tf,
        np,
        lambda p, q: tf.nn.weighted_cross_entropy_with_logits(labels=p, logits=q, pos_weight=2.5),
        np.array([0.0, 1.0, 0.4]),
        np.array([-1.0, 0.5, 2.0]),
    )


def case_poisson_and_l2_loss(tf, np):
    return [
        g(tf, np, lambda p, q: tf.nn.log_poisson_loss(p, q), np.array([1.0, 2.0, 0.5]), np.array([0.1, -0.5, 1.0])),
        g(tf, np, tf.nn.l2_loss, _arr(np, 2, 3)),
    ]


def case_l2_normalize(tf, np):
    x = _arr(np, 2, 3)
    return [
        g(tf, np, lambda a: tf.nn.l2_normalize(a, axis=1), x),
        g(tf, np, lambda a: tf.math.l2_normalize(a), x),
        g(tf, np, lambda a: tf.nn.l2_normalize(a, axis=[0, 1]), x.astype(np.float32)),
    ]


def case_moments(tf, np):
    x = _arr(np, 3, 4)
    return [
        g(tf, np, lambda a: tf.nn.moments(a, [0])[0], x),
        g(tf, np, lambda a: tf.nn.moments(a, [0])[1], x),
        g(tf, np, lambda a: tf.nn.moments(a, [0, 1], keepdims=True)[1], x),
    ]


def case_batch_normalization(tf, np):
    def bn(x, mean, var, offset, scale):
        return tf.nn.batch_normalization(x, mean, var, offset, scale, 1e-3)

    def full(x, offset, scale):
        m, v = tf.nn.moments(x, [0])
        return tf.nn.batch_normalization(x, m, v, offset, scale, 1e-3)

    x = _arr(np, 4, 3)
    return [
        g(tf, np, bn, x, _arr(np, 3, seed=1), np.array([0.5, 1.0, 2.0]), _arr(np, 3, seed=2), _arr(np, 3, seed=3)),
        g(tf, np, full, x, _arr(np, 3, seed=2), _arr(np, 3, seed=3)),
        g(tf, np, lambda a: tf.nn.batch_normalization(a, 0.5, 2.0, None, None, 1e-3), x),
    ]


def case_conv1d(tf, np):
    x, k = _arr(np, 2, 6, 2), _arr(np, 3, 2, 2, seed=1)
    return [
        g(tf, np, lambda p, q: tf.nn.conv1d(p, q, stride=1, padding="VALID"), x, k),
        g(tf, np, lambda p, q: tf.nn.conv1d(p, q, stride=2, padding="SAME"), x, k),
    ]


def case_conv2d_valid_same(tf, np):
    x, k = _arr(np, 2, 4, 5, 2), _arr(np, 3, 2, 2, 3, seed=1)
    return [
        g(tf, np, lambda p, q: tf.nn.conv2d(p, q, strides=1, padding="VALID"), x, k),
        g(tf, np, lambda p, q: tf.nn.conv2d(p, q, strides=1, padding="SAME"), x, k),
    ]


def case_conv2d_strides(tf, np):
    x, k = _arr(np, 1, 5, 6, 1), _arr(np, 2, 3, 1, 2, seed=1)
    return [
        g(tf, np, lambda p, q: tf.nn.conv2d(p, q, strides=2, padding="SAME"), x, k),
        g(tf, np, lambda p, q: tf.nn.conv2d(p, q, strides=[1, 2, 3, 1], padding="VALID"), x, k),
    ]


def case_conv2d_dilations_and_explicit_padding(tf, np):
    x, k = _arr(np, 1, 6, 6, 1), _arr(np, 2, 2, 1, 1, seed=1)
    return [
        tf.nn.conv2d(x, k, strides=1, padding="VALID", dilations=2),
        g(tf, np, lambda p, q: tf.nn.atrous_conv2d(p, q, 2, "VALID"), x, k),
        g(tf, np, lambda p, q: tf.nn.convolution(p, q, padding="SAME", dilations=[2, 1]), x, k),
        g(
            tf,
            np,
            lambda p, q: tf.nn.conv2d(p, q, strides=1, padding="VALID", dilations=2),
            x.astype(np.float32),
            k.astype(np.float32),
        ),
        g(tf, np, lambda p, q: tf.nn.conv2d(p, q, strides=1, padding=[[0, 0], [1, 2], [0, 1], [0, 0]]), x, k),
    ]


def case_conv2d_float32(tf, np):
    x, k = _arr(np, 2, 4, 4, 3).astype(np.float32), _arr(np, 3, 3, 3, 2, seed=1).astype(np.float32)
    return tol(g(tf, np, lambda p, q: tf.nn.conv2d(p, q, strides=1, padding="SAME"), x, k), atol=1e-5)


def case_conv2d_errors(tf, np):
    x = tf.ones([1, 4, 4, 2])
    return [
        raises(lambda: tf.nn.conv2d(x, tf.ones([2, 2, 3, 1]), 1, "VALID"), "ValueError"),
        raises(lambda: tf.nn.conv2d(x, tf.ones([2, 2, 2, 1]), 1, "FULL"), "InvalidArgumentError", "ValueError"),
    ]


def case_conv3d(tf, np):
    x, k = _arr(np, 1, 3, 4, 3, 1), _arr(np, 2, 2, 2, 1, 2, seed=1)
    return [
        g(tf, np, lambda p, q: tf.nn.conv3d(p, q, strides=[1, 1, 1, 1, 1], padding="VALID"), x, k),
        g(tf, np, lambda p, q: tf.nn.conv3d(p, q, strides=[1, 2, 2, 2, 1], padding="SAME"), x, k),
    ]


def case_conv2d_transpose(tf, np):
    x, k = _arr(np, 1, 2, 3, 2), _arr(np, 3, 3, 1, 2, seed=1)
    return [
        g(tf, np, lambda p, q: tf.nn.conv2d_transpose(p, q, [1, 4, 6, 1], strides=2, padding="SAME"), x, k),
        g(tf, np, lambda p, q: tf.nn.conv2d_transpose(p, q, [1, 4, 5, 1], strides=1, padding="VALID"), x, k),
    ]


def case_depthwise_conv2d(tf, np):
    x, k = _arr(np, 1, 4, 4, 2), _arr(np, 2, 2, 2, 2, seed=1)
    return [
        g(tf, np, lambda p, q: tf.nn.depthwise_conv2d(p, q, [1, 1, 1, 1], "VALID"), x, k),
        g(tf, np, lambda p, q: tf.nn.depthwise_conv2d(p, q, [1, 2, 2, 1], "SAME"), x, k),
    ]


def case_separable_conv2d(tf, np):
    return g(
        tf,
        np,
        lambda p, d, q: tf.nn.separable_conv2d(p, d, q, [1, 1, 1, 1], "SAME"),
        _arr(np, 1, 3, 3, 2),
        _arr(np, 2, 2, 2, 1, seed=1),
        _arr(np, 1, 1, 2, 3, seed=2),
    )


def case_max_pool(tf, np):
    x = _arr(np, 2, 4, 5, 2)
    return [
        g(tf, np, lambda a: tf.nn.max_pool2d(a, 2, 2, "VALID"), x),
        g(tf, np, lambda a: tf.nn.max_pool2d(a, ksize=3, strides=2, padding="SAME"), x),
        g(tf, np, lambda a: tf.nn.max_pool(a, [2, 3], 1, "VALID"), x),
        g(tf, np, lambda a: tf.nn.max_pool1d(a, 2, 1, "VALID"), _arr(np, 1, 4, 2)),
    ]


def case_max_pool_ties(tf, np):
    x = np.array([[1.0, 1.0, 2.0, 2.0], [1.0, 0.0, 2.0, 2.0]]).reshape(1, 2, 4, 1)
    return [
        g(tf, np, lambda a: tf.nn.max_pool2d(a, 2, 2, "VALID"), x),
        g(tf, np, lambda a: tf.nn.max_pool2d(a, 2, 1, "VALID"), x),
    ]


def case_avg_pool(tf, np):
    x = _arr(np, 2, 4, 5, 2)
    return [
        g(tf, np, lambda a: tf.nn.avg_pool2d(a, 2, 2, "VALID"), x),
        g(tf, np, lambda a: tf.nn.avg_pool2d(a, ksize=3, strides=2, padding="SAME"), x),
        g(tf, np, lambda a: tf.nn.avg_pool1d(a, 3, 1, "SAME"), _arr(np, 1, 4, 2)),
    ]


def case_embedding_lookup(tf, np):
    v = tf.Variable(_arr(np, 5, 2))
    with tf.GradientTape() as t:
        e = tf.nn.embedding_lookup(v, [[1, 3], [3, 0]])
        loss = tf.reduce_sum(e**2)
    return [e, t.gradient(loss, v)]


def case_dropout_rate_zero(tf, np):
    x = _arr(np, 2, 3)
    return [
        g(tf, np, lambda a: tf.nn.dropout(a, rate=0.0), x),
        raises(lambda: tf.nn.dropout(x, rate=1.5)),
        tf.nn.dropout(tf.ones([3, 2]), 0.5).shape,
    ]


def case_local_response_normalization(tf, np):
    x = _arr(np, 1, 1, 2, 5).astype(np.float32)
    return [
        g(tf, np, tf.nn.local_response_normalization, x),
        g(tf, np, lambda a: tf.nn.lrn(a, depth_radius=1, bias=2.0, alpha=0.3, beta=0.75), x),
    ]


def case_bias_add(tf, np):
    return [
        g(tf, np, tf.nn.bias_add, _arr(np, 2, 3), _arr(np, 3, seed=1)),
        g(tf, np, tf.nn.bias_add, _arr(np, 1, 2, 2, 3), _arr(np, 3, seed=1)),
        raises(lambda: tf.nn.bias_add(tf.ones([2, 3]), tf.ones([2])), "ValueError"),
    ]


def case_small_mlp_training_step(tf, np):
    w1, b1 = tf.Variable(_arr(np, 3, 4)), tf.Variable(np.zeros(4))
    w2, b2 = tf.Variable(_arr(np, 4, 2, seed=1)), tf.Variable(np.zeros(2))
    x, y = _arr(np, 5, 3, seed=2), [0, 1, 1, 0, 1]
    losses = []
    for _ in range(3):
        with tf.GradientTape() as t:
            logits = tf.nn.relu(x @ w1 + b1) @ w2 + b2
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
        for v, d in zip((w1, b1, w2, b2), t.gradient(loss, (w1, b1, w2, b2))):
            v.assign_sub(0.5 * d)
        losses.append(loss)
    return [losses, w1, b1, w2, b2]


def case_attention_block(tf, np):
    def att(q, k, v):
        s = tf.matmul(q, k, transpose_b=True) / np.sqrt(4.0)
        mask = tf.linalg.band_part(tf.ones([3, 3], tf.float64), -1, 0)
        return tf.nn.softmax(tf.where(mask > 0, s, -1e9)) @ v

    return g(tf, np, att, _arr(np, 2, 3, 4), _arr(np, 2, 3, 4, seed=1), _arr(np, 2, 3, 4, seed=2))


def case_layer_norm_by_hand(tf, np):
    def ln(x, scale, offset):
        m, v = tf.nn.moments(x, [-1], keepdims=True)
        return (x - m) * tf.math.rsqrt(v + 1e-5) * scale + offset

    return g(tf, np, ln, _arr(np, 3, 4), _arr(np, 4, seed=1), _arr(np, 4, seed=2))


def case_jacobian_of_conv2d(tf, np):
    x, k = tf.constant(_arr(np, 1, 3, 3, 1)), tf.constant(_arr(np, 2, 2, 1, 2, seed=1))
    with tf.GradientTape(persistent=True) as t:
        t.watch([x, k])
        y = tf.nn.conv2d(x, k, strides=1, padding="VALID")
    return [t.jacobian(y, x), t.jacobian(y, k)]
