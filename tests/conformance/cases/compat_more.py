"""tf.compat.v1 in eager code: sparse gradients, decays, averages, rows of variables, texts, and tf.compat."""


def case_optimizers_with_sparse_gradients(tf, np):
    train = tf.compat.v1.train
    out = []
    for opt in (
        train.GradientDescentOptimizer(0.1),
        train.MomentumOptimizer(0.1, 0.9),
        train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
        train.AdagradOptimizer(0.1),
        train.AdadeltaOptimizer(1.0),
        train.RMSPropOptimizer(0.1, momentum=0.5),
        train.RMSPropOptimizer(0.1, centered=True),
        train.FtrlOptimizer(0.1, l1_regularization_strength=0.01, l2_regularization_strength=0.02),
        train.AdamOptimizer(0.1),
        train.ProximalGradientDescentOptimizer(0.1, 0.01, 0.02),
        train.ProximalAdagradOptimizer(0.1, 0.1, 0.01, 0.02),
    ):
        v = tf.Variable(np.arange(1.0, 9.0, dtype=np.float32).reshape(4, 2))
        for _ in range(3):
            with tf.GradientTape() as t:
                y = tf.reduce_sum(tf.gather(v, [1, 3, 1]) ** 2)
            opt.apply_gradients([(t.gradient(y, v), v)])
        out.append([v, sorted(opt.get_slot_names())])
    return out


def case_optimizers_with_dense_gradients(tf, np):
    train = tf.compat.v1.train
    out = []
    for opt in (
        train.FtrlOptimizer(0.1, l1_regularization_strength=0.05, l2_shrinkage_regularization_strength=0.1, beta=0.1),
        train.FtrlOptimizer(0.1, learning_rate_power=-0.3),
        train.ProximalGradientDescentOptimizer(0.1, 0.5, 0.02),
        train.ProximalAdagradOptimizer(0.1, 0.1, 0.5, 0.02),
        train.AdamOptimizer(lambda: 0.1),
    ):
        v = tf.Variable([1.0, -0.02, 3.0])
        for _ in range(3):
            opt.minimize(lambda v=v: tf.reduce_sum(v * v), var_list=[v])
        out.append(v)
    return out


def case_optimizers_in_a_function(tf, np):
    v = tf.Variable([1.0, -2.0])
    opt = tf.compat.v1.train.AdamOptimizer(0.1)
    step = tf.Variable(0, dtype=tf.int64)

    @tf.function
    def train_step():
        with tf.GradientTape() as t:
            y = tf.reduce_sum(v * v)
        opt.apply_gradients([(t.gradient(y, v), v)], global_step=step)
        return y

    return [[train_step() for _ in range(3)], v, step, len(opt.variables())]


def case_more_decays(tf, np):
    train = tf.compat.v1.train
    step = tf.Variable(0, dtype=tf.int64)
    rates = [
        train.cosine_decay_restarts(1.0, step, 5, 2.0, 0.8, 0.1),
        train.cosine_decay_restarts(1.0, step, 5, 1.0),
        train.linear_cosine_decay(1.0, step, 20),
        train.polynomial_decay(1.0, step, 7, 0.1, cycle=True),
        train.natural_exp_decay(1.0, step, 5, 0.5, staircase=True),
        train.inverse_time_decay(1.0, step, 5, 0.5, staircase=True),
    ]
    out = []
    for n in (1, 4, 9, 17, 26):
        step.assign(n)
        out.append([rate() for rate in rates])
    return out


def case_pairwise_loss(tf, np):
    losses = tf.compat.v1.losses
    y, p = tf.constant([[1.0, 2.0, 3.0], [0.0, 1.0, 0.0]]), tf.constant([[1.5, 2.0, 1.0], [0.5, 0.0, 2.0]])
    return [
        losses.mean_pairwise_squared_error(y, p),
        losses.mean_pairwise_squared_error(y, p, weights=[[1.0], [0.0]]),
        losses.mean_pairwise_squared_error(y, p, weights=2.0),
    ]


def case_moving_averages(tf, np):
    v = tf.Variable([1.0, 2.0])
    out = []
    for ema in (
        tf.train.ExponentialMovingAverage(0.9),
        tf.train.ExponentialMovingAverage(0.9, zero_debias=True),
        tf.train.ExponentialMovingAverage(0.9, num_updates=3),
    ):
        before = ema.average(v)
        for i in range(3):
            v.assign([1.0 + i, 2.0])
            ema.apply([v])
        out.append([before, tf.convert_to_tensor(ema.average(v)), ema.name])
    return out


def case_rows_of_variables(tf, np):
    v1 = tf.compat.v1
    out = []
    for f in (v1.scatter_update, v1.scatter_add, v1.scatter_sub, v1.scatter_mul, v1.scatter_div, v1.scatter_max,
              v1.scatter_min):  # fmt: skip
        v = tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        f(v, [2, 0], [[2.0, 8.0], [4.0, 0.5]])
        out.append(tf.convert_to_tensor(v))
    for f in (v1.scatter_nd_update, v1.scatter_nd_add, v1.scatter_nd_sub):
        v = tf.Variable([1.0, 2.0, 3.0])
        f(v, [[2], [0]], [10.0, 20.0])
        out.append(tf.convert_to_tensor(v))
    return out


def case_texts(tf, np):
    v1 = tf.compat.v1
    out = []
    for args in (
        {"source": ["a b  c", "", "d"]},
        {"source": ["a,b;c"], "delimiter": ",;"},
        {"source": ["a,,b"], "sep": ",", "skip_empty": False},
        {"source": ["abc"], "delimiter": ""},
    ):
        s = v1.string_split(**args)
        out.append([s.indices, s.values, s.dense_shape])
    return [*out, v1.string_split(["a b", "c"], result_type="RaggedTensor").to_list()]


def case_compat_functions(tf, np):
    c = tf.compat
    out = [c.as_bytes("é"), c.as_text(b"a"), c.as_str("a"), c.as_str_any(3), c.as_str_any(b"x")]
    out += [c.path_to_str("a/b"), c.path_to_str(3), c.forward_compatible(2020, 1, 1), c.dimension_value(3)]
    return out


def case_nn_parts(tf, np):
    nn = tf.compat.v1.nn
    parts = [tf.constant([[0.0], [2.0]]), tf.constant([[1.0], [3.0]])]
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    labels = tf.Variable([[0.25, 0.75], [1.0, 0.0]])
    with tf.GradientTape() as t:
        y = nn.softmax_cross_entropy_with_logits(labels=labels, logits=x)
    return [
        nn.embedding_lookup(parts, [3, 0, 2]),
        nn.moments(x, [0], keep_dims=True),
        y,
        t.gradient(y, labels),
        nn.dropout(x, rate=0.0),
        nn.weighted_moments(x, [0], [[1.0], [3.0]]),
    ]
