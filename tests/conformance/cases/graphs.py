"""Programs of TensorFlow 1: graphs, sessions, and what is around them."""

from conformance.runner import raises


def case_linear_regression_of_unknown_rank(tf, np):
    v1 = tf.compat.v1
    xs, ys = np.float32([1.0, 2.0, 3.0, 4.0]), np.float32([2.9, 5.1, 7.0, 9.2])
    with tf.Graph().as_default():
        X, Y = v1.placeholder("float"), v1.placeholder("float")
        W, b = tf.Variable(0.5, name="weight"), tf.Variable(0.0, name="bias")
        pred = tf.add(tf.multiply(X, W), b)
        cost = tf.reduce_sum(tf.pow(pred - Y, 2)) / (2 * 4)
        train = v1.train.GradientDescentOptimizer(0.05).minimize(cost)
        with v1.Session() as s:
            s.run(v1.global_variables_initializer())
            for _ in range(3):
                for x, y in zip(xs, ys):
                    s.run(train, feed_dict={X: x, Y: y})
            return [
                s.run(cost, feed_dict={X: xs, Y: ys}),
                s.run(W),
                s.run(b),
                X.shape,
                pred.shape,
                cost.shape,
                W.name,
                b.op.name,
            ]


def case_mlp_classifier(tf, np):
    v1 = tf.compat.v1
    rng = np.random.default_rng(0)
    data, labels = rng.normal(size=(8, 4)).astype(np.float32), rng.integers(0, 3, 8)
    with tf.Graph().as_default():
        x, y = v1.placeholder(tf.float32, [None, 4]), v1.placeholder(tf.int64, [None])
        w1 = v1.get_variable("w1", initializer=rng.normal(size=(4, 5)).astype(np.float32))
        w2 = v1.get_variable("w2", initializer=rng.normal(size=(5, 3)).astype(np.float32))
        hidden = tf.nn.relu(x @ w1)
        logits = tf.matmul(hidden, w2)
        loss = tf.reduce_mean(v1.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        train = v1.train.AdamOptimizer(0.05).minimize(loss)
        accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), y), tf.float32))
        with v1.Session() as s:
            s.run(v1.global_variables_initializer())
            losses = [s.run([loss, train], {x: data, y: labels})[0] for _ in range(5)]
            return [
                losses,
                s.run(accuracy, {x: data, y: labels}),
                s.run(logits, {x: data[:1]}),
                hidden.shape,
                logits.shape,
            ]


def case_fetch_structures(tf, np):
    v1 = tf.compat.v1
    import collections

    Pair = collections.namedtuple("Pair", "a b")
    with tf.Graph().as_default():
        a, b = tf.constant(1.0), tf.constant([2, 3])
        op = tf.no_op()
        with v1.Session() as s:
            out = [
                s.run(a),
                s.run([a, b]),
                s.run((a, [b, {"k": a}])),
                s.run({"x": a, "y": (b,)}),
                s.run(op),
                s.run([op, a]),
                s.run([]),
                s.run(Pair(a, b))._fields,
            ]
            bad = [
                raises(lambda: s.run(None)),
                raises(lambda: s.run(3.0)),
                raises(lambda: s.run("nothing:0")),
                raises(lambda: s.run(a, {b: a})),
            ]
        return out + bad


def case_feeding_what_is_computed(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [2])
        y = x * 2.0
        z = y + 1.0
        c = tf.constant(5.0)
        with v1.Session() as s:
            return [
                s.run(z, {y: [10.0, 20.0]}),
                s.run(z, {x: [1.0, 2.0]}),
                s.run(c + 1.0, {c: 7.0}),
                s.run(c),
                s.run([x, y], {x: [0.0, 1.0], y: [9.0, 9.0]}),
                raises(lambda: s.run(z), "InvalidArgumentError"),
            ]


def case_placeholder_with_default(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        p = v1.placeholder_with_default([[1.0, 2.0]], [None, 2], name="p")
        k = v1.placeholder_with_default(0.5, [], name="k")
        y = tf.reduce_sum(p) * k
        with v1.Session() as s:
            return [
                s.run(y),
                s.run(y, {p: [[1.0, 1.0], [2.0, 2.0]]}),
                s.run(y, {k: 2.0}),
                p.shape,
                k.shape,
                p.op.type,
                p.name,
            ]


def case_assign_ops_and_order(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        v = v1.get_variable("v", initializer=[1.0, 2.0])
        n = tf.Variable(0, trainable=False)
        up = v1.assign_add(n, 1)
        double = v.assign(v * 2.0)
        both = tf.group(up, double)
        s = v1.Session()
        s.run(v.initializer)
        early = raises(lambda: s.run(up))
        s.run(n.initializer)
        out = [
            s.run(double),
            s.run(both),
            s.run([v, n]),
            s.run(up),
            s.run(n),
            s.run(v1.assign(v, [0.0, 1.0])),
            s.run(v1.assign_sub(v, [1.0, 1.0])),
        ]
        v.load([7.0, 8.0], s)
        out += [s.run(v), early, raises(lambda: v.assign([1.0, 2.0, 3.0]), "ValueError"), both.type]
        s.close()
        return out


def case_control_dependencies(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        v = tf.Variable(1.0)
        a = v.assign_add(10.0)
        with tf.control_dependencies([a]):
            b = v.read_value() * 2.0
            with tf.control_dependencies(None):
                free = tf.constant(3.0) * 2.0
            c = tf.identity(b)
        checks = v1.assert_equal(tf.constant(1), tf.constant(1))
        with tf.control_dependencies([checks]):
            d = tf.constant(4.0) + 0.0
        with v1.Session() as s:
            s.run(v1.global_variables_initializer())
            return [s.run(b), s.run(c), s.run(free), s.run(v), s.run(d), len(b.op.control_inputs) >= 0]


def case_failing_assertions(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [])
        with tf.control_dependencies([v1.assert_positive(x), tf.debugging.Assert(x < 10.0, [x])]):
            y = x * 2.0
        with v1.Session() as s:
            return [
                s.run(y, {x: 3.0}),
                raises(lambda: s.run(y, {x: -1.0})),
                raises(lambda: s.run(y, {x: 11.0})),
                s.run(y, {x: 4.0}),
            ]


def case_gradients_of_many_kinds(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [None, 2])
        w = v1.get_variable("w", initializer=[[1.0], [2.0]])
        frozen = v1.get_variable("f", initializer=3.0, trainable=False)
        y = tf.reduce_sum(tf.tanh(x @ w) * frozen)
        gx, gw, gf = tf.gradients(y, [x, w, frozen])
        stopped = tf.gradients(tf.stop_gradient(y) * frozen, [w, frozen])
        unconnected = tf.gradients(y, [tf.constant(1.0)], unconnected_gradients=tf.UnconnectedGradients.ZERO)
        second = tf.gradients(tf.reduce_sum(gw), w)[0]
        rows = tf.gradients(tf.reduce_sum(tf.gather(w, [1, 1]) ** 2), w)[0]
        integer = tf.gradients(tf.cast(tf.cast(y, tf.int32), tf.float32), [w])
        with v1.Session() as s:
            s.run(v1.global_variables_initializer())
            values = s.run([gx, gw, gf, stopped[1], unconnected[0], second], {x: [[0.1, 0.2], [0.3, -0.4]]})
            slices = s.run(rows)
            return [values, stopped[0], integer, gx.shape, gw.shape, slices.indices, slices.values, slices.dense_shape]


def case_clipped_gradients(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        v = v1.get_variable("v", initializer=[3.0, 4.0])
        w = v1.get_variable("w", initializer=1.0)
        loss = tf.reduce_sum(v * v) * w
        opt = v1.train.MomentumOptimizer(0.1, 0.9)
        gs, vs = zip(*opt.compute_gradients(loss))
        clipped, norm = tf.clip_by_global_norm(gs, 1.0)
        step = v1.train.get_or_create_global_step()
        train = opt.apply_gradients(zip(clipped, vs), global_step=step)
        with v1.Session() as s:
            s.run(v1.global_variables_initializer())
            norms = [s.run([norm, train])[0] for _ in range(3)]
            slot = opt.get_slot(v, "momentum")
            return [
                norms,
                s.run([v, w]),
                s.run(step),
                s.run(slot),
                slot.name,
                opt.get_slot_names(),
                sorted(x.name for x in v1.global_variables()),
            ]


def case_optimizers_with_fed_rates(tf, np):
    v1 = tf.compat.v1
    out = []
    for make in (
        v1.train.GradientDescentOptimizer,
        v1.train.AdamOptimizer,
        v1.train.RMSPropOptimizer,
        v1.train.AdagradOptimizer,
        v1.train.FtrlOptimizer,
        v1.train.AdadeltaOptimizer,
    ):
        with tf.Graph().as_default():
            rate = v1.placeholder(tf.float32, [])
            v = tf.Variable([1.0, -2.0])
            train = make(rate).minimize(tf.reduce_sum(v**2))
            with v1.Session() as s:
                s.run(v1.global_variables_initializer())
                for r in (0.1, 0.2, 0.05):
                    s.run(train, {rate: r})
                out.append([s.run(v), train.type in ("NoOp", train.type), len(v1.global_variables())])
    return out


def case_decayed_rate(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        step = v1.train.get_or_create_global_step()
        rate = v1.train.exponential_decay(0.5, step, 2, 0.5, staircase=True)
        other = v1.train.polynomial_decay(1.0, step, 10, 0.0)
        v = tf.Variable(4.0)
        train = v1.train.GradientDescentOptimizer(rate).minimize(v * v, global_step=step)
        with v1.Session() as s:
            s.run(v1.global_variables_initializer())
            out = []
            for _ in range(5):
                out.append(s.run([rate, other, step]))
                s.run(train)
            return [out, s.run(v), v1.train.global_step(s, step)]


def case_variable_scope_reuse(tf, np):
    v1 = tf.compat.v1

    def layer(x, name, reuse=None):
        with v1.variable_scope(name, reuse=reuse):
            w = v1.get_variable("w", [2, 2], initializer=v1.ones_initializer())
            return tf.matmul(x, w)

    with tf.Graph().as_default():
        x = tf.constant([[1.0, 2.0]])
        a = layer(x, "one")
        b = layer(a, "one", reuse=True)
        c = layer(b, "two", reuse=v1.AUTO_REUSE)
        again = raises(lambda: layer(x, "one"), "ValueError")
        missing = raises(lambda: layer(x, "three", reuse=True), "ValueError")
        with v1.variable_scope("outer") as scope:
            u = v1.get_variable("u", [])
            with v1.variable_scope("inner"):
                t = v1.get_variable("t", [3], trainable=False)
            scope.reuse_variables()
            same = v1.get_variable("u", []) is u
        with v1.variable_scope(scope, reuse=True):
            found = v1.get_variable("inner/t", [3]) is t
        with v1.Session() as s:
            s.run(v1.global_variables_initializer())
            return [
                s.run([a, b, c]),
                again,
                missing,
                same,
                found,
                [v.name for v in v1.global_variables()],
                [v.name for v in v1.trainable_variables()],
                u.shape,
            ]


def case_scope_defaults(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        with v1.variable_scope(
            "s", initializer=v1.constant_initializer(0.25), regularizer=lambda w: tf.reduce_sum(w * w)
        ):
            a = v1.get_variable("a", [2])
            b = v1.get_variable("b", [2], initializer=v1.zeros_initializer(), dtype=tf.float64)
        names = []
        for _ in range(2):
            with v1.variable_scope(None, default_name="d"):
                names.append(v1.get_variable("v", []).name)
        with v1.variable_scope(
            "getter", custom_getter=lambda getter, name, *args, **kwargs: getter(name + "_x", *args, **kwargs)
        ):
            g = v1.get_variable("g", [1])
        losses = v1.get_collection(v1.GraphKeys.REGULARIZATION_LOSSES)
        with v1.Session() as s:
            s.run(v1.global_variables_initializer())
            return [s.run([a, b]), names, g.name, s.run(losses), len(losses), a.dtype, b.dtype]


def case_name_scopes(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default() as g:
        a = tf.constant(1.0, name="c")
        b = tf.constant(1.0, name="c")
        with tf.name_scope("s") as scope:
            c = tf.add(a, b, name="sum")
            with tf.name_scope("t"):
                d = tf.identity(c, name="i")
        with tf.name_scope("s"):
            e = tf.identity(d, name="i")
        with tf.name_scope(scope):
            f = tf.identity(e, name="again")
        w = tf.Variable(1.0, name="w")
        with tf.name_scope("vs"):
            u = tf.Variable(1.0, name="w")
            x = v1.get_variable("x", [])
        p = v1.placeholder(tf.float32, name="p")
        return [t.name for t in (a, b, c, d, e, f)] + [
            w.name,
            u.name,
            x.name,
            p.op.name,
            scope,
            g.get_tensor_by_name("s/sum:0") is c,
            g.get_operation_by_name("s/t/i") is d.op,
            g.unique_name("c"),
            (a * b).name,
            (a * b).name,
            (-a).name,
            (a + b).op.type,
            (a @ [[1.0]] if False else tf.matmul([[1.0]], [[1.0]])).name,
        ]


def case_looking_up_elements(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default() as g:
        x = v1.placeholder(tf.float32, [2], name="x")
        y = tf.identity(x, name="y")
        return [
            g.as_graph_element("x:0") is x,
            g.as_graph_element("y") is y.op,
            g.as_graph_element(y) is y,
            raises(lambda: g.get_tensor_by_name("q:0"), "KeyError"),
            raises(lambda: g.get_tensor_by_name("x"), "ValueError"),
            raises(lambda: g.get_operation_by_name("zzz"), "KeyError"),
            raises(lambda: g.get_tensor_by_name("x:3"), "KeyError"),
            y.op.inputs[0] is x,
            y.op.outputs[0] is y,
            x.op.type,
            y.op.type,
            y.graph is g,
            v1.get_default_graph() is g,
            [o.name for o in x.consumers()],
        ]


def case_cond_and_case(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        n, flag = v1.placeholder(tf.int32, []), v1.placeholder(tf.bool)
        x = tf.constant([1.0, 2.0])
        a = v1.cond(flag, lambda: x * 2.0, lambda: x + 100.0)
        b = tf.cond(n > 2, lambda: (x, n), lambda: (-x, n * 0))
        c = v1.case(
            [(tf.equal(n, 1), lambda: tf.constant(10)), (tf.equal(n, 2), lambda: tf.constant(20))],
            default=lambda: tf.constant(-1),
        )
        d = tf.switch_case(n, [lambda: tf.constant(0.0), lambda: x[0], lambda: x[1]])
        g = tf.gradients(tf.cond(n > 2, lambda: x * x, lambda: x * 3.0), x)[0]
        with v1.Session() as s:
            return [s.run([a, b, c, d, g], {n: 1, flag: True}), s.run([a, b, c, g], {n: 3, flag: False}), a.shape]


def case_while_loops(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        n = v1.placeholder(tf.int32, [])
        v = tf.Variable(2.0)
        i, total = v1.while_loop(lambda i, t: i < n, lambda i, t: [i + 1, t + tf.cast(i, tf.float32) * v], [0, 0.0])
        single = v1.while_loop(lambda i: i < 10, lambda i: i * 2, [tf.constant(1)])
        power = tf.while_loop(lambda i, p: i < 3, lambda i, p: (i + 1, p * v), [0, tf.constant(1.0)])[1]
        grad = tf.gradients(power, v)[0]
        mapped = tf.map_fn(lambda e: e * v, tf.constant([1.0, 2.0, 3.0]))
        scanned = tf.scan(lambda a, e: a + e, tf.constant([1, 2, 3]))
        with v1.Session() as s:
            s.run(v1.global_variables_initializer())
            return [
                s.run([i, total], {n: 4}),
                s.run([i, total], {n: 0}),
                s.run(single),
                s.run([power, grad, mapped, scanned]),
            ]


def case_effects_in_branches(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        flag = v1.placeholder(tf.bool, [])
        v = tf.Variable(0.0)
        changed = tf.cond(flag, lambda: v.assign_add(1.0), lambda: v.assign_sub(10.0))
        with v1.Session() as s:
            s.run(v1.global_variables_initializer())
            return [s.run(changed, {flag: True}), s.run(v), s.run(changed, {flag: False}), s.run(v)]


def case_static_shapes(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        p, q, r = (
            v1.placeholder(tf.float32, [None, 3]),
            v1.placeholder(tf.float32),
            v1.placeholder(tf.float32, [None, None, 2]),
        )
        s = q + 1.0
        s.set_shape([None, 4])
        out = [
            tf.concat([p, p], 0).shape,
            tf.concat([p, p], 1).shape,
            tf.transpose(p).shape,
            tf.expand_dims(p, 0).shape,
            tf.stack([p, p]).shape,
            (p + tf.ones([3])).shape,
            tf.reduce_mean(r, [1, 2]).shape,
            tf.reshape(r, [-1]).shape,
            tf.shape(p).shape,
            s.shape,
            q.shape,
            (q * 2.0).shape,
            tf.reduce_sum(q).shape,
            tf.argmax(p, 1).shape,
            tf.one_hot(tf.argmax(p, 1), 5).shape,
            p[:, 0].shape,
            p[0].shape,
            tf.matmul(p, tf.zeros([3, 7])).shape,
            tf.squeeze(tf.expand_dims(p, -1), -1).shape,
            p.get_shape().as_list(),
            s.get_shape().as_list(),
            q.shape.ndims,
            p.shape[1],
        ]
        return out + [
            raises(lambda: tf.matmul(p, tf.zeros([4, 7])), "ValueError"),
            raises(lambda: s.set_shape([None, 5]), "ValueError"),
            raises(lambda: p + tf.zeros([4]), "ValueError"),
            raises(lambda: p + tf.constant([1, 2, 3]), "TypeError", "ValueError", "InvalidArgumentError"),
        ]


def case_sizes_at_run_time(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [None, 3])
        n = tf.shape(x)[0]
        flat = tf.reshape(x, tf.stack([n * 3]))
        tiled = tf.tile(x, [2, 1])
        positive = tf.boolean_mask(x, x[:, 0] > 0.0)
        counted = tf.range(n)
        zeros = tf.zeros([n, 2])
        ragged = tf.where(x > 1.0)
        with v1.Session() as s:
            return [
                s.run([n, flat, tiled, positive, counted, zeros, ragged], {x: v})
                for v in (np.eye(3, dtype=np.float32) * 2.0 - 0.5, -np.ones((1, 3), np.float32))
            ]


def case_errors_of_runs(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        x, y = v1.placeholder(tf.float32, [None]), v1.placeholder(tf.float32, [None])
        z = x + y
        v = tf.Variable([1.0])
        w = v * 2.0
        s = v1.Session()
        out = [
            raises(lambda: s.run(z, {x: [1.0, 2.0], y: [1.0, 2.0, 3.0]}), "InvalidArgumentError"),
            raises(lambda: s.run(w), "FailedPreconditionError"),
            raises(lambda: s.run(z, {x: [[1.0]], y: [1.0]}), "ValueError"),
            raises(lambda: s.run(z, {x: ["a"], y: [1.0]}), "ValueError"),
            raises(lambda: s.run(z, {"nope:0": 1.0}), "TypeError"),
            s.run(z, {x: [1.0, 2.0], y: [1.0]}),
        ]
        with tf.Graph().as_default():
            other = tf.constant(1.0)
        out += [
            raises(lambda: s.run(other), "ValueError"),
            raises(lambda: z.eval(), "ValueError"),
            z.eval({x: [1.0], y: [2.0]}, s),
        ]
        s.close()
        return out + [raises(lambda: s.run(z), "RuntimeError"), raises(lambda: v1.Session(graph=3), "TypeError")]


def case_sessions_have_their_own_values(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default() as g:
        v = tf.Variable(1.0)
        up = v.assign_add(1.0)
        init = v1.global_variables_initializer()
    a, b = v1.Session(graph=g), v1.Session(graph=g)
    a.run(init)
    a.run(up)
    early = raises(lambda: b.run(v))
    b.run(init)
    out = [a.run(v), b.run(v), early]
    with g.as_default(), a.as_default():
        out += [v.eval(), v1.get_default_session() is a]
    a.close()
    b.close()
    return out + [v1.get_default_session()]


def case_interactive_session(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        s = v1.InteractiveSession()
        v = tf.Variable([1.0, 2.0])
        v.initializer.run()
        x = v1.placeholder(tf.float32, [2])
        out = [v.eval(), (v * x).eval({x: [2.0, 3.0]}), tf.constant([1, 2]).eval()]
        s.close()
        return out


def case_random_ops_run_anew(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        v1.set_random_seed(7)
        a, b = tf.random.normal([3]), tf.random.uniform([4], seed=3)
        drop = v1.nn.dropout(tf.ones([1000]), keep_prob=0.5)
        w = tf.Variable(tf.random.normal([2, 2]))
        with v1.Session() as s:
            s.run(v1.global_variables_initializer())
            one, two = s.run([a, b]), s.run([a, b])
            kept = s.run(drop)
            same = s.run([w, w])
            return [
                not np.allclose(one[0], two[0]),
                not np.allclose(one[1], two[1]),
                bool(300 < (kept > 0).sum() < 700),
                sorted({float(k) for k in kept}),
                bool((same[0] == same[1]).all()),
                one[0].shape,
            ]


def case_batch_normalization_by_hand(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [None, 2])
        training = v1.placeholder(tf.bool, [])
        mean, var = tf.nn.moments(x, [0])
        moving = v1.get_variable("moving", [2], initializer=v1.zeros_initializer(), trainable=False)
        update = v1.assign(moving, moving * 0.5 + mean * 0.5)
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
        used = tf.cond(training, lambda: mean, lambda: tf.identity(moving))
        y = tf.nn.batch_normalization(x, used, var, None, None, 1e-3)
        w = v1.get_variable("w", initializer=[1.0, 2.0])
        loss = tf.reduce_sum((y * w) ** 2)
        with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
            train = v1.train.GradientDescentOptimizer(0.01).minimize(loss)
        data = np.float32([[1.0, 2.0], [3.0, 5.0], [0.0, 1.0]])
        with v1.Session() as s:
            s.run(v1.global_variables_initializer())
            for _ in range(2):
                s.run(train, {x: data, training: True})
            return [s.run([moving, w]), s.run(y, {x: data, training: False})]


def case_python_functions(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [None])
        y = v1.py_func(lambda a: a * 2.0 + 1.0, [x], tf.float32)
        z = tf.numpy_function(lambda a: np.float32(a.sum()), [x], tf.float32)
        p, q = v1.py_func(lambda a: (a.max(), np.int64(a.size)), [x], [tf.float32, tf.int64])
        y.set_shape([None])
        with v1.Session() as s:
            return [s.run([y, z, p, q], {x: [1.0, 5.0]}), s.run(y + 1.0, {x: [3.0]}), y.shape, z.dtype]


def case_strings_in_graphs(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        t = v1.placeholder(tf.string, [None])
        joined = tf.strings.join([t, tf.constant("!")])
        lengths = tf.strings.length(t)
        with v1.Session() as s:
            return [
                s.run([joined, lengths], {t: ["a", "bcd"]}),
                s.run(tf.constant("x")),
                s.run(tf.strings.upper(t), {t: np.array([b"q"])}),
            ]


def case_embedding_with_sparse_gradient(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        ids = v1.placeholder(tf.int32, [None])
        table = v1.get_variable("table", initializer=np.arange(8, dtype=np.float32).reshape(4, 2))
        rows = tf.nn.embedding_lookup(table, ids)
        out = []
        for opt in (
            v1.train.GradientDescentOptimizer(0.1),
            v1.train.AdagradOptimizer(0.1),
            v1.train.AdamOptimizer(0.1),
        ):
            train = opt.minimize(tf.reduce_sum(rows**2))
            with v1.Session() as s:
                s.run(v1.global_variables_initializer())
                s.run(train, {ids: [1, 1, 3]})
                out.append(s.run(table))
        return out + [rows.shape]


def case_recurrent_network(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [2, 3, 2])
        w = v1.get_variable("w", initializer=np.float32([[0.1, 0.2], [0.3, -0.1], [0.5, 0.4], [-0.2, 0.1]]))
        h = tf.zeros([2, 2])
        for step in tf.unstack(x, axis=1):
            h = tf.tanh(tf.concat([step, h], 1) @ w)
        loss = tf.reduce_mean(h**2)
        train = v1.train.RMSPropOptimizer(0.01).minimize(loss)
        data = np.linspace(-1, 1, 12).astype(np.float32).reshape(2, 3, 2)
        with v1.Session() as s:
            s.run(v1.global_variables_initializer())
            return [[s.run([loss, train], {x: data})[0] for _ in range(4)], s.run(w)]


def case_convolutional_network(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [None, 6, 6, 1])
        keep = v1.placeholder(tf.float32)
        k = v1.get_variable("k", initializer=np.linspace(-1, 1, 18).astype(np.float32).reshape(3, 3, 1, 2))
        b = v1.get_variable("b", initializer=np.float32([0.1, -0.1]))
        c = tf.nn.relu(tf.nn.bias_add(v1.nn.conv2d(x, k, strides=[1, 1, 1, 1], padding="SAME"), b))
        p = v1.nn.max_pool(c, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
        flat = tf.reshape(p, [-1, 3 * 3 * 2])
        d = v1.nn.dropout(flat, keep_prob=keep)
        loss = tf.reduce_mean(v1.nn.softmax_cross_entropy_with_logits_v2(labels=tf.one_hot([0, 3], 18), logits=d))
        train = v1.train.MomentumOptimizer(0.01, 0.9).minimize(loss)
        data = np.sin(np.arange(72, dtype=np.float32)).reshape(2, 6, 6, 1)
        with v1.Session() as s:
            s.run(v1.global_variables_initializer())
            losses = [s.run([loss, train], {x: data, keep: 1.0})[0] for _ in range(3)]
            return [losses, c.shape, p.shape, flat.shape, s.run(b)]


def case_collections_and_finalize(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default() as g:
        a = tf.constant(1.0)
        v1.add_to_collection("mine", a)
        g.add_to_collections(["mine", "yours"], 5)
        local = v1.get_local_variable("l", [2], initializer=v1.zeros_initializer())
        v1.losses.mean_squared_error([1.0], [2.0])
        total = v1.losses.get_total_loss()
        out = [
            v1.get_collection("mine")[0] is a,
            v1.get_collection("mine")[1],
            g.get_collection("yours"),
            v1.get_collection("none"),
            [x.name for x in v1.local_variables()],
            [x.name for x in v1.global_variables()],
            len(v1.losses.get_losses()),
        ]
        with v1.Session() as s:
            s.run(v1.local_variables_initializer())
            out += [s.run(local), s.run(total)]
        g.finalize()
        return out + [raises(lambda: tf.constant(2.0), "RuntimeError"), g.finalized]


def case_disable_eager_execution(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        inside = [tf.executing_eagerly(), v1.executing_eagerly_outside_functions()]
        x = tf.constant([1.0, 2.0])
        inside += [
            hasattr(x, "numpy"),
            isinstance(x, tf.Tensor),
            tf.is_tensor(x),
            x == x,
            len({x, x}),
            raises(lambda: float(x), "TypeError"),
        ]
    return inside + [tf.executing_eagerly()]


def case_saver(tf, np):
    import tempfile

    v1 = tf.compat.v1
    folder = tempfile.mkdtemp()
    with tf.Graph().as_default():
        v, w = v1.get_variable("a/v", initializer=[1.0, 2.0]), v1.get_variable("w", initializer=3)
        saver = v1.train.Saver(max_to_keep=2)
        part = v1.train.Saver({"renamed": v})
        with v1.Session() as s:
            s.run(v1.global_variables_initializer())
            paths = []
            for i in range(3):
                s.run(v.assign_add([1.0, 1.0]))
                paths.append(saver.save(s, folder + "/model", global_step=i))
            part.save(s, folder + "/part")
            s.run(v.assign([0.0, 0.0]))
            saver.restore(s, paths[-2])
            restored = s.run([v, w])
            part.restore(s, folder + "/part")
            again = s.run(v)
            missing = raises(lambda: saver.restore(s, folder + "/none"), "ValueError")
        kept = [p[len(folder) :] for p in saver.last_checkpoints]
        listed = (
            sorted(v1.train.list_variables(paths[-1]))
            if hasattr(v1.train, "list_variables")
            else sorted(tf.train.list_variables(paths[-1]))
        )
    with tf.Graph().as_default():
        v, w = v1.get_variable("a/v", [2]), v1.get_variable("w", [], dtype=tf.int32, initializer=v1.zeros_initializer())
        with v1.Session() as s:
            v1.train.Saver().restore(s, paths[-1])
            fresh = s.run([v, w])
    return [
        restored,
        again,
        fresh,
        missing,
        kept,
        [name for name, _ in listed],
        tf.train.latest_checkpoint(folder)[len(folder) :],
    ]


def case_summaries(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [])
        v1.summary.scalar("loss", x)
        v1.summary.scalar("twice", x * 2.0)
        merged = v1.summary.merge_all()
        with v1.Session() as s:
            text = s.run(merged, {x: 2.5})
    summary = v1.Summary.FromString(text)
    return [[(v.tag, v.simple_value) for v in summary.value], merged.dtype]


def case_iterators(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        data = (
            tf.data.Dataset.from_tensor_slices((np.arange(5, dtype=np.float32), np.arange(5)))
            .map(lambda a, b: (a * 2.0, b))
            .batch(2)
        )
        it = v1.data.make_one_shot_iterator(data)
        a, b = it.get_next()
        y = tf.reduce_sum(a)
        again = v1.data.make_initializable_iterator(tf.data.Dataset.range(3))
        n = again.get_next()
        with v1.Session() as s:
            out = [s.run([a, b, y]), s.run([y, b])]
            out += [s.run(y), raises(lambda: s.run(y))]
            for _ in range(2):
                s.run(again.initializer)
                out.append([s.run(n), s.run(n)])
            return out + [a.shape, a.dtype, b.dtype]


def case_init_from_checkpoint(tf, np):
    import os
    import tempfile

    v1, path = tf.compat.v1, os.path.join(tempfile.mkdtemp(), "m")
    with tf.Graph().as_default():
        with v1.variable_scope("a"):
            v1.get_variable("w", initializer=[1.0, 2.0])
            v1.get_variable("b", initializer=3.0)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            v1.train.Saver().save(session, path)

    def run(mapped):
        with tf.Graph().as_default():
            with v1.variable_scope("x"):
                w = v1.get_variable("w", [2], initializer=v1.zeros_initializer())
                b = v1.get_variable("b", [], initializer=v1.zeros_initializer())
            v1.train.init_from_checkpoint(path, mapped(w))
            with v1.Session() as session:
                session.run(v1.global_variables_initializer())
                return session.run([w, b])

    v = tf.Variable([0.0, 0.0])
    v1.train.init_from_checkpoint(path, {"a/w": v})
    return [
        run(lambda w: {"a/": "x/"}),
        run(lambda w: {"a/w": "x/w"}),
        run(lambda w: {"a/w": w}),
        run(lambda w: [("a/w", w)]),
        v,
        raises(lambda: run(lambda w: {"a/q": w}), match="Tensor a/q is not found in"),
        raises(lambda: run(lambda w: {"a/w": "x/q"}), match="Should be 'scope/': 'other_scope/'"),
        raises(lambda: run(lambda w: {"a/b": "x/w"}), match="doesn't match with shape of tensor a/b"),
        raises(lambda: run(lambda w: {"/": "x/"}), match="is not found in"),
    ]


def case_gradients_of_rows(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        table = v1.get_variable("table", initializer=np.arange(8, dtype=np.float32).reshape(4, 2))
        slices = tf.gradients(tf.gather(table, [1, 3, 1]), table)[0]
        both = tf.convert_to_tensor(slices)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            rows = session.run(slices)
            return [session.run(both), both.shape, rows.values, rows.indices, rows.dense_shape]


def case_sparse_tensors_of_placeholders(tf, np):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        ids = v1.placeholder(tf.int64, [None, 1])
        table = v1.get_variable("table", initializer=np.arange(8, dtype=np.float32).reshape(4, 2))
        where = tf.where(tf.not_equal(ids, -1))
        sparse = tf.SparseTensor(where, tf.gather_nd(ids, where), tf.shape(ids, out_type=tf.int64))
        rows = tf.nn.safe_embedding_lookup_sparse(table, sparse, combiner="sum")
        dense = tf.sparse.to_dense(sparse, default_value=-5)
        gradient = tf.convert_to_tensor(tf.gradients(rows, table)[0])
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            return session.run([rows, dense, gradient], {ids: [[1], [-1], [3]]})
