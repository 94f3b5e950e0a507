"""GradientTape: watching, gradient structures, output_gradients, unconnected."""

from conformance.runner import raises


def case_scalar_square(tf, np):
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    return [y, tape.gradient(y, x)]


def case_variable_is_watched_automatically(tf, np):
    v = tf.Variable([1.0, -2.0, 0.5], dtype=tf.float64)
    with tf.GradientTape() as tape:
        y = v**3
    return tape.gradient(y, v)


def case_constant_unwatched_is_none(tf, np):
    c, v = tf.constant(2.0), tf.Variable(5.0)
    with tf.GradientTape() as tape:
        y = c * v
    return tape.gradient(y, [c, v])


def case_watch_after_use_misses_earlier_ops(tf, np):
    x = tf.constant(2.0)
    with tf.GradientTape(persistent=True) as tape:
        early = x * x
        tape.watch(x)
        late = x * 10.0
        both = early + late
    return [tape.gradient(early, x), tape.gradient(late, x), tape.gradient(both, x)]


def case_watch_accepts_nested_structure(tf, np):
    a, b, c = tf.constant(1.0), tf.constant(2.0), tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch({"a": a, "rest": [b, (c,)]})
        y = a * b * c
    return tape.gradient(y, [a, b, c])


def case_watch_rejects_non_tensors(tf, np):
    def watch(value):
        with tf.GradientTape() as tape:
            tape.watch(value)

    return [
        raises(lambda: watch(3.0)),
        raises(lambda: watch(np.ones(3, np.float32))),
        raises(lambda: watch([tf.constant(1.0), "text"])),
    ]


def case_integer_source_and_target(tf, np):
    i = tf.constant(10)
    x = tf.constant(2.7)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([i, x])
        sq = i * i
        as_float = tf.cast(i, tf.float32) * 2.0
        as_int = tf.cast(x, tf.int32) * 3
    return [
        tape.gradient(sq, i),
        tape.gradient(as_float, i),
        tape.gradient(as_int, x),
        tape.gradient(sq, i, unconnected_gradients=tf.UnconnectedGradients.ZERO),
    ]


def case_persistent_tape_gives_many_gradients(tf, np):
    x = tf.constant([-0.5, 2.5])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        a = x**3
        b = a * tf.sin(x)
    return [tape.gradient(b, x), tape.gradient(a, x), tape.gradient(b, a), tape.gradient(b, x)]


def case_second_gradient_of_plain_tape_raises(tf, np):
    x = tf.Variable(1.5)
    with tf.GradientTape() as tape:
        y = tf.sin(x)
        z = y * y
    first = tape.gradient(z, x)
    return [first, raises(lambda: tape.gradient(y, x)), raises(lambda: tape.jacobian(y, x))]


def case_gradient_of_never_entered_tape_raises(tf, np):
    x = tf.constant(1.0)
    tape = tf.GradientTape()
    return raises(lambda: tape.gradient(x, x))


def case_sources_list_tuple_dict_nested(tf, np):
    a, b, c = tf.Variable(1.0), tf.Variable(2.0), tf.Variable(3.0)
    with tf.GradientTape(persistent=True) as tape:
        y = a * b + b * c**2
    return [
        tape.gradient(y, a),
        tape.gradient(y, [a]),
        tape.gradient(y, [a, b, c]),
        tape.gradient(y, (a, b)),
        tape.gradient(y, {"b": b, "a": a}),
        tape.gradient(y, {"x": [a, (b,)], "y": {"z": c}}),
    ]


def case_empty_sources_and_targets(tf, np):
    v = tf.Variable(2.0)
    with tf.GradientTape(persistent=True) as tape:
        y = v * v
    return [tape.gradient(y, []), tape.gradient(y, {}), tape.gradient([], v), tape.gradient([], [v])]


def case_target_structures_are_summed(tf, np):
    v = tf.Variable(2.0)
    with tf.GradientTape(persistent=True) as tape:
        a = v**2
        b = 1.0 / v
        c = v * [3.0, 4.0]
    return [
        tape.gradient([a, b], v),
        tape.gradient({"a": a, "b": b}, v),
        tape.gradient([a, (b, [c])], v),
        tape.gradient([a, a], v),
    ]


def case_vector_target_sums_components(tf, np):
    s = tf.Variable(1.5)
    with tf.GradientTape() as tape:
        y = tf.stack([s, s * s, 10.0 / s, s - s])
    return [y, tape.gradient(y, s)]


def case_output_gradients_single(tf, np):
    x = tf.constant([1.0, 2.0, 3.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x**2
    return [
        tape.gradient(y, x, output_gradients=tf.constant([1.0, 10.0, -1.0])),
        tape.gradient(y, x, output_gradients=np.array([0.5, 0.0, 2.0], np.float32)),
    ]


def case_output_gradients_lists(tf, np):
    x, w = tf.Variable([1.0, 2.0]), tf.Variable(3.0)
    with tf.GradientTape(persistent=True) as tape:
        y = x * w
        z = tf.reduce_sum(x) + w**2
    return [
        tape.gradient([y, z], [x, w], output_gradients=[tf.constant([1.0, -1.0]), tf.constant(5.0)]),
        tape.gradient({"y": y, "z": z}, x, output_gradients={"y": tf.constant([2.0, 0.0]), "z": tf.constant(0.0)}),
    ]


def case_output_gradients_none_entry_raises(tf, np):
    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y, z = x * x, 3.0 * x
    return raises(lambda: tape.gradient([y, z], x, output_gradients=[None, tf.constant(1.0)]), "TypeError")


def case_output_gradients_wrong_shape_raises(tf, np):
    x = tf.Variable([1.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        y = x * 2.0 * x
    return raises(lambda: tape.gradient(y, x, output_gradients=tf.ones([2])), "ValueError")


def case_unconnected_none_and_zero(tf, np):
    lone, used = tf.Variable([[5.0, 6.0, 7.0]]), tf.Variable([0.5, 0.25])
    u = tf.UnconnectedGradients
    with tf.GradientTape(persistent=True) as tape:
        z = 1.0 / used
    return [
        tape.gradient(z, lone),
        tape.gradient(z, lone, unconnected_gradients=u.NONE),
        tape.gradient(z, lone, unconnected_gradients=u.ZERO),
        tape.gradient(z, {"l": lone, "u": used}, unconnected_gradients=u.ZERO),
    ]


def case_unconnected_as_strings(tf, np):
    x, y = tf.Variable([[2.0]], dtype=tf.float64), tf.Variable(3.0)
    with tf.GradientTape(persistent=True) as tape:
        z = y**2
    return [
        tape.gradient(z, [x, y], unconnected_gradients="none"),
        tape.gradient(z, [x, y], unconnected_gradients="zero"),
        raises(lambda: tape.gradient(z, x, unconnected_gradients="zeros")),
    ]


def case_target_is_source(tf, np):
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
    return [tape.gradient(x, x), tape.gradient(y, y), tape.gradient([x, y], x), tape.gradient(y, [x, y])]


def case_target_is_unwatched_source(tf, np):
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        pass
    return tape.gradient(x, x)


def case_repeated_sources(tf, np):
    v = tf.Variable(4.0)
    with tf.GradientTape() as tape:
        y = v * v * v
    return tape.gradient(y, [v, v, {"again": v}])


def case_variable_as_target(tf, np):
    v, w = tf.Variable([1.0, 2.0]), tf.Variable(7.0)
    with tf.GradientTape(persistent=True) as tape:
        y = v * w
    return [tape.gradient(v, v), tape.gradient(v, w), tape.gradient([v, y], [v, w])]


def case_intermediate_tensor_as_source(tf, np):
    x = tf.constant(0.75)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        mid = tf.math.log(x)
        end = mid * mid * x
        side = tf.exp(-x)
    return [
        tape.gradient(end, mid),
        tape.gradient(end + 0.0, mid),
        tape.gradient(side, mid),
        tape.gradient(end, [x, mid]),
    ]


def case_fan_out_accumulates(tf, np):
    x = tf.constant(1.5)
    with tf.GradientTape() as tape:
        tape.watch(x)
        a = x * x
        b = a * x
        c = a + b
        y = c * a + b * x + x
    return tape.gradient(y, x)


def case_broadcasting_reduces_gradient(tf, np):
    a = tf.Variable(np.arange(3.0))
    b = tf.Variable(np.arange(2.0).reshape(2, 1) + 1.0)
    s = tf.Variable(2.0, dtype=tf.float64)
    with tf.GradientTape() as tape:
        y = (a * b + s) * a / (b + 1.0) - s * np.arange(6.0).reshape(2, 3)
    return tape.gradient(y, [a, b, s])


def case_numpy_step_breaks_the_graph(tf, np):
    v = tf.Variable([[0.5, -1.0, 2.0]])
    with tf.GradientTape() as tape:
        through_numpy = np.cumsum(tf.exp(v), axis=1)
        y = tf.reduce_sum(tf.sqrt(through_numpy))
    return [y, tape.gradient(y, v)]


def case_python_branch_on_tensor(tf, np):
    gate, a, b = tf.constant(-0.5), tf.Variable(2.0), tf.Variable(3.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(gate)
        y = a * 7.0 if gate > 0.0 else b
        z = a * 7.0 if gate < 0.0 else b
    return [tape.gradient(y, [a, b, gate]), tape.gradient(z, [a, b, gate])]


def case_variable_replaced_by_tensor(tf, np):
    w = tf.Variable([3.0, 4.0])
    out = []
    for k in range(3):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(w * float(k + 1))
        out.append([isinstance(w, tf.Variable), tape.gradient(loss, w)])
        w = w - 0.5  # a tensor from now on
    return out


def case_gradient_keeps_dtype(tf, np):
    out = []
    for dt in (tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64, tf.complex128):
        x = tf.cast(tf.constant([0.5, 1.5]), dt)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x + x
        out.append(tape.gradient(y, x))
    return out


def case_cast_in_the_chain(tf, np):
    x = tf.Variable([1.25, -0.5], dtype=tf.float32)
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(tf.cast(x, tf.float64) ** 2)
        z = tf.cast(y, tf.float16) * 2.0
    return [z, tape.gradient(z, x)]


def case_linear_model_gradients(tf, np):
    params = {"kernel": tf.Variable([[0.1, -0.2], [0.3, 0.4], [-0.5, 0.6]]), "offset": tf.Variable([0.25, -0.75])}
    rows = [[1.0, 2.0, 3.0], [0.0, -1.0, 0.5]]
    with tf.GradientTape(persistent=True) as tape:
        out = rows @ params["kernel"] + params["offset"]
        loss = tf.reduce_mean(tf.abs(out) ** 3)
    return [loss, tape.gradient(loss, params), tape.gradient(loss, [params["offset"], params["kernel"]])]
