"""Names of tf.compat.v1 that work in eager TensorFlow 2 code, and a few small graph programs."""

from conformance.runner import raises


def case_executing_eagerly_and_switches(tf, np):
    v1 = tf.compat.v1
    v1.enable_v2_behavior()
    v1.enable_eager_execution()
    v1.enable_resource_variables()
    v1.enable_v2_tensorshape()
    out = [
        v1.executing_eagerly(),
        tf.executing_eagerly(),
        v1.executing_eagerly_outside_functions(),
        v1.resource_variables_enabled(),
        v1.control_flow_v2_enabled(),
    ]
    with v1.Graph().as_default():
        out += [v1.executing_eagerly(), v1.executing_eagerly_outside_functions()]
    return out + [v1.executing_eagerly()]


def case_logging(tf, np):
    log = tf.compat.v1.logging
    before = log.get_verbosity()
    log.set_verbosity(log.ERROR)
    out = [
        log.get_verbosity(),
        log.DEBUG,
        log.INFO,
        log.WARN,
        log.ERROR,
        log.FATAL,
        log.info("hidden %d", 1),
        log.warn("hidden"),
        log.warning("hidden"),
        log.debug("hidden"),
        log.vlog(1, "x"),
    ]
    log.set_verbosity(before)
    return out + [log.get_verbosity() == before, tf.get_logger().name]


def case_assign_functions(tf, np):
    v1 = tf.compat.v1
    v = tf.Variable([1.0, 2.0])
    a = v1.assign(v, [3.0, 4.0])
    b = v1.assign_add(v, [1.0, 1.0])
    c = v1.assign_sub(v, [0.5, 0.5])
    v1.scatter_update(v, [0], [10.0])
    v1.scatter_add(v, [1], [10.0])
    return [
        v,
        hasattr(a, "assign"),
        tf.convert_to_tensor(b),
        tf.convert_to_tensor(c),
        raises(lambda: v1.assign(v, [1.0, 2.0, 3.0]), "InvalidArgumentError"),
    ]


def case_old_math_names(tf, np):
    v1 = tf.compat.v1
    i, f = tf.constant([7, -7]), tf.constant([7.0, -7.0])
    return [
        v1.div(i, 2),
        v1.div(f, 2.0),
        v1.floordiv(i, 2),
        v1.to_float(i),
        v1.to_int32(f),
        v1.to_int64(f),
        v1.to_double(i),
        v1.log(tf.abs(f)),
        v1.ceil(f / 2.0),
        v1.floor(f / 2.0),
        v1.div_no_nan(f, [0.0, 1.0]),
        v1.is_nan(f),
        v1.lgamma(tf.abs(f)),
        v1.mod(i, 4),
        v1.truediv(i, 2),
        v1.squared_difference(f, 1.0),
        v1.matrix_inverse([[2.0, 0.0], [0.0, 4.0]]),
        v1.cholesky([[4.0]]),
        v1.diag([1.0, 2.0]),
        v1.trace([[1.0, 2.0], [3.0, 4.0]]),
    ]


def case_old_reduction_arguments(tf, np):
    v1 = tf.compat.v1
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    return [
        v1.reduce_sum(x, keep_dims=True),
        v1.reduce_sum(x, reduction_indices=1),
        v1.reduce_mean(x, axis=0, keepdims=True),
        v1.reduce_max(x, reduction_indices=[0]),
        v1.argmax(x, dimension=1),
        v1.argmin(x, axis=0),
        v1.expand_dims(x, dim=0).shape,
        v1.squeeze(x[None], squeeze_dims=[0]).shape,
        v1.concat([x, x], 1).shape,
        v1.count_nonzero(x),
        v1.norm(x),
        v1.reduce_logsumexp(x, 1),
        raises(lambda: v1.reduce_sum(x, axis=0, reduction_indices=0), "ValueError"),
    ]


def case_where_gather_batch(tf, np):
    v1 = tf.compat.v1
    x = tf.constant([[1, 2], [3, 4]])
    return [
        v1.where([True, False], x, -x),
        v1.where([[True, False], [False, True]]),
        v1.batch_gather(x, [[1], [0]]),
        v1.gather(x, [1], axis=1),
        v1.boolean_mask(x, [True, False]),
        v1.sparse_to_dense([[0, 1]], [2, 2], 9),
        v1.transpose(x),
        v1.pad(x, [[0, 0], [1, 0]]),
        v1.one_hot([1], 3),
        v1.unique_with_counts([1, 1, 2]).count,
        v1.setdiff1d([1, 2, 3], [2]),
    ]


def case_dimension_and_shape(tf, np):
    v1 = tf.compat.v1
    d, u = v1.Dimension(3), v1.Dimension(None)
    s = tf.TensorShape([2, None, 4])
    return [
        d.value,
        u.value,
        int(d),
        (d + 2).value,
        (d * u).value,
        (d // 2).value,
        d == 3,
        d == u,
        d.is_compatible_with(u),
        d.is_compatible_with(4),
        d.merge_with(u).value,
        repr(d),
        str(u),
        d < 5,
        s[0],
        s[1],
        s.as_list(),
        v1.dimension_value(d),
        v1.dimension_value(5),
        v1.dimension_value(None),
        v1.dimension_at_index(s, 2).value,
        raises(lambda: d.assert_is_compatible_with(4), "ValueError"),
        raises(lambda: v1.Dimension(-1), "ValueError"),
        raises(lambda: int(u), "TypeError"),
    ]


def case_losses(tf, np):
    L = tf.compat.v1.losses
    y, p = tf.constant([[1.0, 0.0], [0.0, 1.0]]), tf.constant([[0.8, 0.3], [0.4, 0.5]])
    z = tf.constant([[2.0, -1.0], [0.5, 0.0]])
    return [
        L.mean_squared_error(y, p),
        L.absolute_difference(y, p),
        L.log_loss(y, p),
        L.huber_loss(y, p * 4.0, delta=0.5),
        L.hinge_loss(y, z),
        L.sigmoid_cross_entropy(y, z),
        L.softmax_cross_entropy(y, z),
        L.sparse_softmax_cross_entropy([0, 1], z),
        L.softmax_cross_entropy(y, z, label_smoothing=0.2),
        L.sigmoid_cross_entropy(y, z, label_smoothing=0.2),
        L.cosine_distance(tf.nn.l2_normalize(y, 1), tf.nn.l2_normalize(p, 1), axis=1),
    ]


def case_loss_weights_and_reductions(tf, np):
    L = tf.compat.v1.losses
    y, p = tf.constant([[1.0, 0.0], [0.0, 1.0]]), tf.constant([[0.8, 0.3], [0.4, 0.5]])
    R = L.Reduction
    return [
        L.mean_squared_error(y, p, weights=2.0),
        L.mean_squared_error(y, p, weights=[[1.0], [0.0]]),
        L.mean_squared_error(y, p, reduction=R.NONE),
        L.mean_squared_error(y, p, reduction=R.SUM),
        L.mean_squared_error(y, p, reduction=R.MEAN),
        L.mean_squared_error(y, p, weights=[[1.0], [0.0]], reduction=R.SUM_OVER_BATCH_SIZE),
        L.mean_squared_error(y, p, weights=[[1.0], [0.0]], reduction=R.SUM_OVER_NONZERO_WEIGHTS),
        L.compute_weighted_loss([1.0, 2.0, 3.0], [0.0, 1.0, 1.0]),
        R.SUM,
        R.NONE,
        raises(lambda: L.mean_squared_error(y, tf.constant([1.0])), "ValueError"),
        raises(lambda: L.mean_squared_error(y, None), "ValueError"),
    ]


def case_loss_gradients(tf, np):
    L = tf.compat.v1.losses
    z = tf.Variable([[2.0, -1.0], [0.5, 0.0]])
    out = []
    for f in (
        lambda: L.softmax_cross_entropy([[1.0, 0.0], [0.0, 1.0]], z),
        lambda: L.sigmoid_cross_entropy([[1.0, 0.0], [0.0, 1.0]], z, weights=[[1.0], [2.0]]),
        lambda: L.sparse_softmax_cross_entropy([0, 1], z),
        lambda: L.mean_squared_error([[1.0, 0.0], [0.0, 1.0]], z),
        lambda: L.huber_loss([[1.0, 0.0], [0.0, 1.0]], z, delta=0.75),
        lambda: L.hinge_loss([[1.0, 0.0], [0.0, 1.0]], z),
    ):
        with tf.GradientTape() as t:
            y = f()
        out.append(t.gradient(y, z))
    return out


def case_gradient_descent_optimizer(tf, np):
    v1 = tf.compat.v1
    v, w = tf.Variable([1.0, 2.0]), tf.Variable(3.0)
    opt = v1.train.GradientDescentOptimizer(0.1)
    loss = lambda: tf.reduce_sum(v * v) * w
    gv = opt.compute_gradients(loss, [v, w])
    opt.apply_gradients(gv)
    first = [v.numpy(), w.numpy()]
    opt.minimize(loss, var_list=[v])
    return [
        [g for g, _ in gv],
        [x is y for (_, x), y in zip(gv, [v, w])],
        first,
        v,
        w,
        opt.get_name(),
        opt.variables(),
        raises(lambda: opt.compute_gradients(tf.constant(1.0)), "*"),
        raises(lambda: opt.apply_gradients([(None, v)]), "ValueError"),
    ]


def case_momentum_and_rmsprop_optimizers(tf, np):
    v1 = tf.compat.v1
    out = []
    for opt in (
        v1.train.MomentumOptimizer(0.1, 0.9),
        v1.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
        v1.train.RMSPropOptimizer(0.1),
        v1.train.RMSPropOptimizer(0.05, decay=0.8, momentum=0.5, centered=True),
        v1.train.AdagradOptimizer(0.1),
        v1.train.FtrlOptimizer(0.1),
        v1.train.AdadeltaOptimizer(1.0),
    ):
        v = tf.Variable([1.0, -2.0])
        for _ in range(3):
            opt.minimize(lambda: tf.reduce_sum(v**2), var_list=[v])
        out.append([v, sorted(opt.get_slot_names()), [x.shape for x in opt.variables()]])
    return out


def case_adam_optimizer(tf, np):
    v1 = tf.compat.v1
    v, e = tf.Variable([1.0, -2.0]), tf.Variable(np.ones((4, 2), np.float32))
    opt = v1.train.AdamOptimizer(learning_rate=0.1, beta1=0.8, beta2=0.99, epsilon=1e-4)
    trace = []
    for i in range(3):
        with tf.GradientTape() as t:
            y = tf.reduce_sum(v**2) + tf.reduce_sum(tf.gather(e, [1, 1, 3]) ** 2)
        opt.apply_gradients(zip(t.gradient(y, [v, e]), [v, e]))
        trace.append(v.numpy())
    return [trace, e, opt.get_slot_names(), opt.get_slot(v, "m"), opt.get_slot(v, "v"), len(opt.variables())]


def case_global_step(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        none = v1.train.get_global_step()
        a = v1.train.get_or_create_global_step()
        b = v1.train.get_or_create_global_step()
        same, dtype, name = a is b, a.dtype.base_dtype, a.op.name
    step = tf.Variable(0, dtype=tf.int64)
    v = tf.Variable(1.0)
    opt = v1.train.GradientDescentOptimizer(0.5)
    for _ in range(3):
        opt.minimize(lambda: v * v, global_step=step, var_list=[v])
    return [none, same, dtype, name, step, v]


def case_learning_rate_decay_functions(tf, np):
    t = tf.compat.v1.train
    step = tf.Variable(0, dtype=tf.int64)
    fs = [
        t.exponential_decay(1.0, step, 10, 0.5),
        t.exponential_decay(1.0, step, 10, 0.5, staircase=True),
        t.piecewise_constant(step, [5, 15], [1.0, 0.5, 0.1]),
        t.polynomial_decay(1.0, step, 20, 0.1, power=2.0),
        t.inverse_time_decay(1.0, step, 10, 0.5),
        t.cosine_decay(1.0, step, 20),
        t.natural_exp_decay(1.0, step, 10, 0.5),
    ]
    out = []
    for n in (0, 5, 12, 20, 30):
        step.assign(n)
        out.append([f() for f in fs])
    return out


def case_initializers(tf, np):
    v1 = tf.compat.v1
    r = v1.random_uniform_initializer(-1.0, 1.0, seed=1)([50])
    n = v1.truncated_normal_initializer(0.0, 0.5, seed=1)([200])
    g = v1.glorot_uniform_initializer(seed=1)([4, 6])
    return [
        v1.zeros_initializer()([2]),
        v1.ones_initializer()([2], dtype=tf.int32),
        v1.constant_initializer(2.5)([2, 2]),
        v1.constant_initializer([1.0, 2.0])([2]),
        v1.initializers.zeros()([1]),
        v1.initializers.identity()([2, 2]),
        bool(tf.reduce_all(tf.abs(r) <= 1.0)),
        bool(tf.reduce_all(tf.abs(n) <= 1.0)),
        bool(tf.reduce_all(tf.abs(g) <= (6.0 / 10.0) ** 0.5)),
        r.dtype,
        v1.initializers.variance_scaling().get_config()["mode"],
        v1.orthogonal_initializer(seed=1)([3, 3]).shape,
        v1.zeros_initializer().get_config(),
    ]


def case_get_variable_and_scopes(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        with v1.variable_scope("a"):
            x = v1.get_variable("x", [2], initializer=v1.zeros_initializer())
            with v1.variable_scope("b"):
                y = v1.get_variable("y", initializer=tf.constant([1.0]))
        with v1.variable_scope("a", reuse=True):
            again = v1.get_variable("x", [2])
        dup = raises(lambda: v1.get_variable("a/x", [3]), "*")
        with v1.variable_scope("a", reuse=v1.AUTO_REUSE):
            auto = v1.get_variable("x", [2])
        missing = raises(lambda: v1.get_variable("q"), "ValueError")
        return [
            x.name,
            y.name,
            again is x,
            auto is x,
            dup,
            missing,
            [v.name for v in v1.trainable_variables()],
            [v.name for v in v1.global_variables(scope="a/b")],
        ]


def case_placeholder_in_eager(tf, np):
    v1 = tf.compat.v1
    return [
        raises(lambda: v1.placeholder(tf.float32, [None])),
        v1.placeholder_with_default(tf.constant([1.0, 2.0]), [None]),
        raises(lambda: v1.Session().run(tf.constant(1.0)), "*"),
        raises(lambda: tf.gradients(tf.constant(1.0), tf.constant(1.0)), "*"),
    ]


def case_nn_names(tf, np):
    n = tf.compat.v1.nn
    x = tf.constant([[1.0, 2.0, 3.0]])
    k = tf.constant(np.arange(4.0, dtype=np.float32).reshape(2, 2, 1, 1))
    im = tf.constant(np.arange(9.0, dtype=np.float32).reshape(1, 3, 3, 1))
    return [
        n.softmax(x, dim=1),
        n.log_softmax(x, axis=-1),
        n.softmax_cross_entropy_with_logits_v2(labels=[[0.0, 0.0, 1.0]], logits=x),
        n.sparse_softmax_cross_entropy_with_logits(labels=[1], logits=x),
        n.sigmoid_cross_entropy_with_logits(labels=[[0.0, 1.0, 0.0]], logits=x),
        n.dropout(x, keep_prob=1.0),
        n.conv2d(im, k, strides=[1, 1, 1, 1], padding="VALID"),
        n.max_pool(im, ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding="VALID"),
        n.moments(x, [0, 1]),
        n.l2_normalize(x, dim=1),
        n.weighted_cross_entropy_with_logits(labels=[[0.0, 1.0, 0.0]], logits=x, pos_weight=2.0),
        n.xw_plus_b(x, [[1.0], [1.0], [1.0]], [0.5]),
        n.embedding_lookup(tf.constant([[1.0], [2.0]]), [1, 0]),
        n.relu_layer(x, tf.eye(3), [0.0, -5.0, 0.0]),
    ]


def case_random_and_seed(tf, np):
    v1 = tf.compat.v1
    v1.set_random_seed(3)
    a = [v1.random_uniform([3]), v1.random_normal([2])]
    tf.random.set_seed(3)
    b = [tf.random.uniform([3]), tf.random.normal([2])]
    return [bool(tf.reduce_all(x == y)) for x, y in zip(a, b)] + [
        v1.random_uniform([2], maxval=5, dtype=tf.int32).dtype,
        v1.truncated_normal([4]).shape,
        v1.random_shuffle([1, 1]),
        v1.multinomial([[0.0, 50.0]], 3),
    ]


def case_strings_io_and_misc(tf, np):
    v1 = tf.compat.v1
    s = v1.string_split(["a b", "c"])
    return [
        s.indices,
        s.values,
        s.dense_shape,
        v1.substr("hello", 1, 3),
        v1.string_join(["a", "b"], "-"),
        v1.reduce_join([["a", "b"]], 1),
        v1.as_string([1]),
        v1.string_to_number("2.5"),
        v1.string_to_hash_bucket_fast(["a"], 10),
        v1.regex_replace("abc", "b", "-"),
        v1.decode_raw("ab", tf.uint8),
        v1.shape([[1, 2]]),
        v1.size([1, 2]),
        v1.rank([[1]]),
        v1.assert_equal(1, 1),
        raises(lambda: v1.assert_equal(1, 2)),
        v1.clip_by_average_norm([3.0, 4.0], 1.0),
        v1.confusion_matrix([0, 1], [0, 0]),
    ]


def case_session_arithmetic(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default() as g:
        a = v1.placeholder(tf.float32, [None, 2], name="a")
        b = tf.constant([[1.0], [2.0]])
        y = tf.matmul(a, b, name="y")
        with v1.Session() as s:
            one = s.run(y, feed_dict={a: [[1.0, 1.0], [2.0, 0.5]]})
            many = s.run({"y": y, "l": [a, b]}, {a: [[3.0, 4.0]]})
            by_name = s.run("y:0", {"a:0": [[1.0, 0.0]]})
            missing = raises(lambda: s.run(y))
            bad = raises(lambda: s.run(y, {a: [[1.0]]}), "ValueError")
        closed = raises(lambda: s.run(b))
    return [one, many, by_name, missing, bad, closed, a.shape, y.name, y.op.type, g is y.graph, tf.is_tensor(y)]


def case_session_training(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        x, t = v1.placeholder(tf.float32, [None, 1]), v1.placeholder(tf.float32, [None, 1])
        w = v1.get_variable("w", [1, 1], initializer=v1.zeros_initializer())
        b = v1.get_variable("b", [1], initializer=v1.ones_initializer())
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b - t))
        step = v1.train.get_or_create_global_step()
        train = v1.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
        with v1.Session() as s:
            before = raises(lambda: s.run(w))
            s.run(v1.global_variables_initializer())
            losses = [s.run([loss, train], {x: [[1.0], [2.0]], t: [[3.0], [5.0]]})[0] for _ in range(4)]
            return [before, losses, s.run(w), s.run(b), s.run(step)]


def case_graph_gradients(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [])
        y = tf.constant(2.0)
        z = x * x * y
        gx, gy = tf.gradients(z, [x, y])
        g2 = tf.gradients(gx, x)[0]
        none = tf.gradients(y * 1.0, [x])
        gw = tf.gradients(z, x, grad_ys=tf.constant(3.0))[0]
        stop = tf.gradients(z + x, x, stop_gradients=[y])[0]
        with v1.Session() as s:
            return [s.run([gx, gy, g2, gw, stop], {x: 3.0}), none, s.run(v1.hessians(z, x), {x: 3.0})]


def case_session_adam_and_collections(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        v = v1.get_variable("v", initializer=[1.0, 2.0])
        frozen = v1.get_variable("frozen", initializer=[5.0], trainable=False)
        opt = v1.train.AdamOptimizer(0.1)
        gv = opt.compute_gradients(tf.reduce_sum(v * v) + tf.reduce_sum(frozen))
        train = opt.apply_gradients([(tf.clip_by_value(g, -1.0, 1.0), x) for g, x in gv])
        s = v1.Session()
        s.run(v1.global_variables_initializer())
        for _ in range(2):
            s.run(train)
        out = [
            s.run(v),
            [x.name for _, x in gv],
            sorted(x.name for x in v1.global_variables()),
            [x.name for x in v1.trainable_variables()],
            [x.name for x in v1.get_collection(v1.GraphKeys.TRAINABLE_VARIABLES)],
        ]
        s.close()
        return out


def case_graph_control_flow(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        n = v1.placeholder(tf.int32, [])
        c = tf.cond(n > 3, lambda: n * 10, lambda: n - 10)
        w = tf.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a + i), [0, 0])
        v = v1.get_variable("v", initializer=0.0)
        add = v1.assign_add(v, 1.0)
        with tf.control_dependencies([add]):
            after = tf.identity(v.read_value())
        with v1.Session() as s:
            s.run(v1.global_variables_initializer())
            return [s.run([c, w], {n: 5}), s.run([c, w], {n: 2}), s.run(after), s.run(after), s.run(v)]


def case_graph_errors_and_isolation(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        x = tf.constant([1.0, 2.0])
        out = [
            raises(lambda: x.numpy(), "*"),
            raises(lambda: bool(x[0] > 0.0)),
            raises(lambda: list(x)),
            hasattr(x, "graph"),
            x.shape,
        ]
    with tf.Graph().as_default():
        other = tf.constant([3.0, 4.0])
        out.append(raises(lambda: x + other, "*"))
    eager = tf.constant([5.0])
    return out + [eager + 1.0, v1.get_default_graph() is not x.graph]


def case_graph_shapes_and_names(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default() as g:
        p = v1.placeholder(tf.float32, [None, 3], name="p")
        q = v1.placeholder(tf.int32)
        with tf.name_scope("s"):
            a = tf.identity(p, name="i")
            b = tf.identity(p, name="i")
        u = tf.reduce_sum(p, axis=1)
        r = tf.reshape(p, [-1, 3, 1])
        return [
            p.shape,
            q.shape,
            a.name,
            b.name,
            u.shape,
            r.shape,
            (p + 1.0).shape,
            g.get_tensor_by_name("p:0") is p,
            g.get_operation_by_name("s/i").type,
            raises(lambda: g.get_tensor_by_name("zz:0"), "ValueError"),
            tf.matmul(p, tf.ones([3, 2])).shape,
        ]


def case_sparse_functions(tf, np):
    v1 = tf.compat.v1
    a = tf.SparseTensor([[0, 0], [1, 2]], [1.0, 2.0], [2, 3])
    b = tf.SparseTensor([[0, 0], [1, 1]], [4.0, -1.0], [2, 3])
    ids = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([2, 0, 1], tf.int64), [2, 2])
    values = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [5.0, 6.0, 7.0], [2, 2])

    def parts(x):
        return [x.indices, x.values, x.dense_shape]

    return [
        parts(v1.sparse_add(a, b, thresh=1.5)),
        v1.sparse_add(a, tf.ones([2, 3])),
        parts(v1.sparse_concat(1, [a, b])),
        parts(v1.sparse_concat(None, [a, b], concat_dim=0)),
        [parts(x) for x in v1.sparse_split(sp_input=a, num_split=3, axis=1)],
        v1.sparse_reduce_sum(a, 0),
        v1.sparse_reduce_sum(a, reduction_axes=[1], keep_dims=True),
        parts(v1.sparse_reduce_sum_sparse(a, 1)),
        v1.sparse_reduce_max(b, 1),
        parts(v1.sparse_reduce_max_sparse(b, 1)),
        parts(v1.sparse_merge(ids, values, 3)),
        parts(v1.sparse_reorder(a)),
        parts(v1.sparse_reshape(a, [3, 2])),
        parts(v1.sparse_retain(a, [True, False])),
        parts(v1.sparse_transpose(a)),
        parts(v1.sparse_slice(a, [0, 0], [1, 2])),
        parts(v1.sparse_softmax(a)),
        parts(v1.sparse_maximum(a, b)),
        parts(v1.sparse_minimum(a, b)),
        parts(v1.sparse_reset_shape(a)),
        parts(v1.sparse_fill_empty_rows(tf.SparseTensor([[1, 0]], [3.0], [3, 1]), 9.0)[0]),
        v1.sparse_tensor_dense_matmul(a, tf.ones([3, 2])),
        v1.sparse_to_indicator(ids, 3),
        v1.sparse_segment_sum(tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), [0, 2], [0, 0]),
        v1.convert_to_tensor_or_sparse_tensor([1.0]),
        parts(v1.convert_to_tensor_or_sparse_tensor(a)),
        v1.convert_to_tensor_or_indexed_slices(2.0),
        raises(lambda: v1.sparse_split(sp_input=a)),
        raises(lambda: v1.convert_to_tensor_or_sparse_tensor(a, tf.int32)),
    ]


def case_functions_that_moved(tf, np):
    v1 = tf.compat.v1
    image = tf.reshape(tf.range(16.0), [1, 4, 4, 1])
    return [
        v1.arg_max([[1.0, 3.0], [4.0, 2.0]], 1),
        v1.arg_min([[1.0, 3.0], [4.0, 2.0]], 0),
        v1.bincount(tf.constant([1, 1, 3])),
        v1.floor_div([7, -7], 2),
        v1.depth_to_space(tf.reshape(tf.range(8.0), [1, 1, 2, 4]), 2),
        v1.space_to_depth(image, 2),
        v1.extract_image_patches(image, ksizes=[1, 2, 2, 1], strides=[1, 2, 2, 1], rates=[1, 1, 1, 1], padding="VALID"),
        v1.batch_to_space_nd(tf.reshape(tf.range(4.0), [4, 1, 1, 1]), [2, 2], [[0, 0], [0, 0]]),
        v1.random_poisson([2.0, 3.0], [4]).shape,
        v1.manip.roll([1, 2, 3], 1, 0),
        v1.manip.batch_to_space_nd(tf.reshape(tf.range(4.0), [4, 1, 1, 1]), [2, 2], [[0, 0], [0, 0]]),
        v1.spectral.fft(tf.constant([1.0 + 0.0j, 0.0, 0.0, 0.0], tf.complex64)),
        v1.spectral.dct(tf.constant([1.0, 2.0, 3.0])),
    ]


def case_records_in_a_loop(tf, np):
    import os
    import tempfile

    python_io, path = tf.compat.v1.python_io, os.path.join(tempfile.mkdtemp(), "data")
    found = []
    for options in (None, python_io.TFRecordOptions("GZIP"), python_io.TFRecordCompressionType.NONE):
        given = "GZIP" if hasattr(options, "compression_type") else None
        with tf.io.TFRecordWriter(path, given) as writer:
            writer.write(b"one")
            writer.write(b"two")
        found.append([bytes(record) for record in python_io.tf_record_iterator(path, options)])
    return [len(records) for records in found] + [records == [b"one", b"two"] for records in found]
