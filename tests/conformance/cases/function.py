"""tf.function: tapes in and around it, tracing, variables, AutoGraph, control-flow gradients."""

from conformance.runner import raises


def _grad(tf, f, *xs):
    with tf.GradientTape() as t:
        t.watch(list(xs))
        y = f(*xs)
    return [y, t.gradient(y, list(xs))]


def case_tape_outside(tf, np):
    v = tf.Variable(3.0)

    @tf.function
    def f(x):
        return tf.reduce_sum(x * x * v)

    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as t:
        t.watch(x)
        y = f(x)
    return [y, t.gradient(y, [x, v]), len(t.watched_variables())]


def case_tape_inside(tf, np):
    v = tf.Variable(2.0)

    @tf.function
    def f(x):
        with tf.GradientTape(persistent=True) as t:
            t.watch(x)
            y = x**3 * v
        return {"y": y, "dx": t.gradient(y, x), "dv": t.gradient(y, v), "none": t.gradient(y, tf.constant(1.0))}

    return [f(tf.constant(2.0)), f(tf.constant(3.0))]


def case_second_order_across_the_boundary(tf, np):
    @tf.function
    def first(x):
        with tf.GradientTape() as t:
            t.watch(x)
            y = tf.exp(x) * x
        return t.gradient(y, x)

    return _grad(tf, first, tf.constant([0.5, 1.0], tf.float64))


def case_second_order_inside(tf, np):
    @tf.function
    def f(x):
        with tf.GradientTape() as t2:
            t2.watch(x)
            with tf.GradientTape() as t1:
                t1.watch(x)
                y = tf.reduce_sum(x**3)
            g = t1.gradient(y, x)
        return g, t2.jacobian(g, x)

    return f(tf.constant([1.0, 2.0]))


def case_python_code_runs_only_while_tracing(tf, np):
    log = []

    @tf.function
    def f(x):
        log.append("traced")
        return x + 1.0

    out = [f(tf.constant(1.0)), f(tf.constant(2.0)), f(tf.constant(3.0))]
    return [out, len(log)]


def case_retracing_by_shape_and_dtype(tf, np):
    log = []

    @tf.function
    def f(x):
        log.append(1)
        return x * 2

    counts = []
    for x in (
        tf.constant(1.0),
        tf.constant(2.0),
        tf.constant([1.0]),
        tf.constant([5.0]),
        tf.constant([1.0, 2.0]),
        tf.constant(1),
        tf.constant(7),
        tf.constant([1.0]),
    ):
        f(x)
        counts.append(len(log))
    return counts


def case_retracing_by_python_values(tf, np):
    log = []

    @tf.function
    def f(x, n, flag=False):
        log.append(1)
        return x * n if flag else x + n

    x, counts = tf.constant([1.0, 2.0]), []
    for args in ((x, 1), (x, 1), (x, 2), (x, 1, True), (x, 2), (np.array([5.0, 6.0], np.float32), 2)):
        f(*args)
        counts.append(len(log))
    f(x, n=1, flag=False)
    counts.append(len(log))
    return [counts, f.experimental_get_tracing_count()]


def case_reduce_retracing(tf, np):
    log = []

    @tf.function(reduce_retracing=True)
    def f(x):
        log.append(1)
        return tf.reduce_sum(x)

    out = [f(tf.ones([n])) for n in (1, 2, 3, 4, 5)]
    return [out, len(log)]


def case_input_signature(tf, np):
    log = []

    @tf.function(input_signature=[tf.TensorSpec(shape=[None], dtype=tf.float32)])
    def f(x):
        log.append(1)
        return tf.reduce_sum(x)

    out = [f(tf.constant([1.0])), f(tf.constant([1.0, 2.0])), f([1.0, 2.0, 3.0])]
    return [
        out,
        len(log),
        raises(lambda: f(tf.constant([[1.0]])), "ValueError"),
        raises(lambda: f(tf.constant([1])), "ValueError"),
        raises(lambda: f(tf.constant([1.0]), tf.constant(1.0))),
        raises(lambda: f()),
    ]


def case_get_concrete_function(tf, np):
    @tf.function
    def f(x):
        return x * x + 1.0

    c = f.get_concrete_function(tf.TensorSpec([2], tf.float32))
    return [
        c(tf.constant([1.0, 2.0])),
        raises(lambda: c(tf.constant([1, 2])), "TypeError", "ValueError"),
        f.python_function(tf.constant(3.0)),
        c.structured_outputs.shape,
        c.structured_outputs.dtype,
    ]


def case_variable_updates_inside(tf, np):
    v = tf.Variable(1.0)

    @tf.function
    def step(x):
        v.assign_add(x)
        before = v.read_value()
        v.assign(v * 2.0)
        return before, v.read_value()

    return [step(tf.constant(1.0)), step(tf.constant(2.0)), v]


def case_sgd_step_inside(tf, np):
    w = tf.Variable([1.0, -1.0])

    @tf.function
    def step(target):
        with tf.GradientTape() as t:
            loss = tf.reduce_sum((w - target) ** 2)
        w.assign_sub(0.25 * t.gradient(loss, w))
        return loss

    return [[step(tf.constant([3.0, 2.0])) for _ in range(3)], w]


def case_creating_variables_each_call_raises(tf, np):
    @tf.function
    def f(x):
        v = tf.Variable(1.0)
        return v * x

    class Once:
        v = None

    @tf.function
    def g(x):
        if Once.v is None:
            Once.v = tf.Variable(2.0)
        return Once.v * x

    return [raises(lambda: f(tf.constant(1.0))), g(tf.constant(3.0)), g(tf.constant(4.0))]


def case_autograph_if(tf, np):
    @tf.function
    def f(x):
        if tf.reduce_sum(x) > 0.0:
            y = x * x
        else:
            y = -3.0 * x
        return y

    return [_grad(tf, f, tf.constant([1.0, 2.0])), _grad(tf, f, tf.constant([-1.0, -2.0]))]


def case_autograph_if_elif_early_return(tf, np):
    @tf.function
    def sign(x):
        if x > 0.0:
            return x * 1.0
        elif x < 0.0:
            return x * -2.0
        else:
            return x * 0.0

    return [_grad(tf, sign, tf.constant(v)) for v in (3.0, -3.0, 0.0)]


def case_autograph_while(tf, np):
    @tf.function
    def f(x):
        n = 0
        while tf.reduce_sum(x) < 100.0:
            x = x * x
            n += 1
        return x, n

    x = tf.constant([2.0, 3.0])
    with tf.GradientTape() as t:
        t.watch(x)
        y, n = f(x)
    return [y, n, t.gradient(y, x)]


def case_autograph_for_range_break_continue(tf, np):
    @tf.function
    def f(x, n):
        s = tf.zeros([])
        for i in tf.range(n):
            if i == 2:
                continue
            if i > 4:
                break
            s += x ** tf.cast(i, tf.float32)
        return s

    x = tf.constant(2.0)
    with tf.GradientTape() as t:
        t.watch(x)
        y = f(x, tf.constant(10))
    return [y, t.gradient(y, x)]


def case_autograph_for_over_tensor(tf, np):
    @tf.function
    def f(x):
        s = tf.constant(1.0)
        for row in x:
            s = s * tf.reduce_sum(row)
        return s

    return _grad(tf, f, tf.constant([[1.0, 2.0], [3.0, -1.0], [0.5, 0.5]]))


def case_autograph_python_loop_is_unrolled(tf, np):
    log = []

    @tf.function
    def f(x):
        for i in range(3):
            log.append("py")
            x = x * float(i + 1)
        for i in tf.range(4):
            log.append("tf")
            x = x + 1.0
        return x

    return [f(tf.constant(1.0)), log.count("py"), log.count("tf")]


def case_autograph_logical_operators(tf, np):
    @tf.function
    def f(x):
        if x > 0.0 and x < 5.0:
            r = 1.0
        else:
            if not x > 0.0 or x == 7.0:
                r = 2.0
            else:
                r = 3.0
        return r * x

    return [f(tf.constant(v)) for v in (1.0, -1.0, 7.0, 9.0)]


def case_autograph_tensor_array(tf, np):
    @tf.function
    def f(x):
        ta = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
        for i in tf.range(3):
            ta = ta.write(i, x * tf.cast(i + 1, tf.float32))
        return ta.stack()

    return [_grad(tf, f, tf.constant([1.0, 2.0])), _grad(tf, lambda x: f(x) ** 2, tf.constant(3.0))]


def case_cond_gradient(tf, np):
    def f(x, y):
        return tf.cond(x > y, lambda: x * x, lambda: x * y)

    a, b = tf.constant(3.0), tf.constant(2.0)
    return [_grad(tf, f, a, b), _grad(tf, f, b, a), _grad(tf, tf.function(f), a, b), _grad(tf, tf.function(f), b, a)]


def case_while_loop_gradient(tf, np):
    def f(x):
        _, y = tf.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, a * x + 1.0), (tf.constant(0), x))
        return y

    g = tf.function(f)
    return [_grad(tf, f, tf.constant(1.5)), _grad(tf, g, tf.constant(1.5)), _grad(tf, g, tf.constant([1.0, -2.0]))]


def case_while_loop_maximum_iterations_and_shapes(tf, np):
    a = tf.while_loop(
        lambda i, x: True, lambda i, x: (i + 1, x * 2.0), (tf.constant(0), tf.constant(1.0)), maximum_iterations=3
    )
    b = tf.while_loop(
        lambda i, x: i < 3,
        lambda i, x: (i + 1, tf.concat([x, x], 0)),
        (tf.constant(0), tf.constant([1.0])),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None])),
    )
    return [a, b]


def case_case_and_switch_case(tf, np):
    def f(x):
        return tf.case([(x < 1.0, lambda: x * 2.0), (x < 2.0, lambda: x * 3.0)], default=lambda: x * 4.0)

    def g(x, i):
        return tf.switch_case(i, [lambda: x * 2.0, lambda: x * x])

    return [_grad(tf, f, tf.constant(v)) for v in (0.5, 1.5, 2.5)] + [
        _grad(tf, lambda x: g(x, tf.constant(k)), tf.constant(3.0)) for k in (0, 1)
    ]


def case_map_fn(tf, np):
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])

    def pair(x):
        a, b = tf.map_fn(lambda r: (tf.reduce_sum(r), r * r), x, fn_output_signature=(tf.float32, tf.float32))
        return tf.reduce_sum(a) * 2.0 + tf.reduce_sum(b[0])

    return [
        _grad(tf, lambda a: tf.map_fn(lambda r: r * r[0], a), x),
        _grad(tf, pair, x),
        _grad(tf, tf.function(pair), x),
    ]


def case_scan_foldl_foldr(tf, np):
    x = tf.constant([1.0, 2.0, 3.0, 0.5])
    return [
        _grad(tf, lambda a: tf.scan(lambda acc, e: acc * e + 1.0, a), x),
        _grad(tf, lambda a: tf.scan(lambda acc, e: acc + e * e, a, initializer=tf.constant(10.0)), x),
        _grad(tf, lambda a: tf.foldl(lambda acc, e: acc * 2.0 + e, a), x),
        _grad(tf, lambda a: tf.foldr(lambda acc, e: acc * e - 1.0, a), x),
        _grad(tf, tf.function(lambda a: tf.scan(lambda acc, e: acc * e, a, reverse=True)), x),
    ]


def case_vectorized_map(tf, np):
    x, w = tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([[0.5, -1.0], [2.0, 1.0]])
    with tf.GradientTape() as t:
        t.watch([x, w])
        y = tf.vectorized_map(lambda r: tf.linalg.matvec(w, r) * tf.reduce_sum(r), x)
    return [y, t.gradient(y, [x, w])]


def case_nested_functions_and_structures(tf, np):
    @tf.function
    def inner(p):
        return {"sum": p["a"] + p["b"], "parts": [p["a"], (p["b"], None)]}

    @tf.function
    def outer(p):
        r = inner(p)
        return r["sum"] * r["parts"][0], r

    a, b = tf.constant(2.0), tf.constant(5.0)
    with tf.GradientTape() as t:
        t.watch([a, b])
        y, r = outer({"a": a, "b": b})
    return [y, r, t.gradient(y, [a, b])]


def case_method_and_module(tf, np):
    class Dense(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
            self.traces = 0

        @tf.function
        def __call__(self, x):
            self.traces += 1
            return tf.nn.relu(x @ self.w)

    m, n = Dense(), Dense()
    x = tf.constant([[1.0, -0.3]])
    with tf.GradientTape() as t:
        y = m(x) + m(2.0 * x) + n(x)
    return [y, t.gradient(y, [m.w, n.w]), m.traces, n.traces]


def case_exceptions_and_results_pass_through(tf, np):
    @tf.function
    def boom(x):
        raise KeyError("inside")

    @tf.function
    def mixed(x):
        return {"t": x, "n": None, "k": [x, (x * 2.0,)]}

    return [
        raises(lambda: boom(tf.constant(1.0))),
        mixed(tf.constant(1.0)),
        tf.executing_eagerly(),
        tf.inside_function(),
    ]


def case_gradients_function_inside_graph(tf, np):
    @tf.function
    def f(x, z):
        y = x**2 * z
        return (
            tf.gradients(y, [x, z]),
            tf.gradients(y, x, grad_ys=tf.constant([10.0, 100.0])),
            tf.gradients(x * 2.0, [z]),
        )

    return [
        f(tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0])),
        raises(lambda: tf.gradients(tf.constant(1.0), tf.constant(1.0))),
    ]


def case_custom_gradient_inside(tf, np):
    @tf.custom_gradient
    def f(x):
        def grad(dy):
            return dy * -5.0

        return x * 2.0, grad

    @tf.function
    def run(x):
        return f(x) * 3.0

    return _grad(tf, run, tf.constant([1.0, 2.0]))


def case_indexed_slices_as_output(tf, np):
    v = tf.Variable(np.ones((3, 2)))

    @tf.function
    def f(i):
        with tf.GradientTape() as t:
            y = tf.reduce_sum(tf.gather(v, i) ** 2)
        return t.gradient(y, v)

    return f(tf.constant([2, 1]))


def case_forward_accumulator_inside_and_outside(tf, np):
    f = tf.function(lambda a: tf.exp(a) * a)

    @tf.function
    def whole(a, v):
        with tf.autodiff.ForwardAccumulator(a, v) as acc:
            y = a**3
        return acc.jvp(y)

    x = tf.constant([1.0, 2.0])
    with tf.autodiff.ForwardAccumulator(x, tf.constant([1.0, -1.0])) as acc:
        y = f(x)
    return [acc.jvp(y), whole(x, tf.constant([1.0, 2.0]))]


def case_run_functions_eagerly(tf, np):
    log = []

    @tf.function
    def f(x):
        log.append(1)
        return x * 2.0

    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        f(tf.constant(1.0))
        f(tf.constant(1.0))
        inside = tf.config.functions_run_eagerly()
    finally:
        tf.config.run_functions_eagerly(False)
    return [before, inside, len(log)]


def case_names_present(tf, np):
    names = "function gradients hessians TensorSpec config.run_functions_eagerly config.functions_run_eagerly inside_function executing_eagerly autograph.experimental.do_not_convert"
    missing = []
    for n in names.split():
        o = tf
        for part in n.split("."):
            o = getattr(o, part, None)
        if o is None:
            missing.append(n)
    return " ".join(missing)
