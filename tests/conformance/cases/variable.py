"""tf.Variable: creation, assignment, reading, operators, scatter updates, errors."""

from conformance.runner import dense, raises


def case_creation_dtypes_and_shapes(tf, np):
    vs = [
        tf.Variable(1.0),
        tf.Variable([1, 2]),
        tf.Variable([True, False]),
        tf.Variable(np.ones((2, 1))),
        tf.Variable([1, 2], dtype=tf.float32),
        tf.Variable(lambda: tf.ones([2])),
        tf.Variable(tf.Variable(2.5)),
        tf.Variable(1 + 2j),
        tf.Variable("text"),
    ]
    return [vs, [v.dtype for v in vs], [v.shape for v in vs]]


def case_creation_errors(tf, np):
    return [
        raises(lambda: tf.Variable()),
        raises(lambda: tf.Variable(tf.constant([1, 2]), dtype=tf.float32), "TypeError"),
        raises(lambda: tf.Variable(None), "TypeError"),
        raises(lambda: tf.Variable([[1.0], [2.0, 3.0]])),
    ]


def case_names_and_trainable(tf, np):
    return [
        tf.Variable(1.0, name="weight").name,
        tf.Variable(1.0).name,
        tf.Variable(1.0).trainable,
        tf.Variable(1.0, trainable=False).trainable,
        tf.Variable(3).trainable,
    ]


def case_assign_family(tf, np):
    v = tf.Variable([1.0, 2.0])
    out = [v.numpy()]
    v.assign([3, 4])
    out.append(v.numpy())
    v.assign_add([0.5, -0.5])
    out.append(v.numpy())
    v.assign_sub(tf.constant([1.0, 1.0]))
    out.append(v.numpy())
    v.assign(np.array([9.0, 8.0]))
    out.append(v.numpy())
    v.assign(tf.Variable([7.0, 7.0]))
    out.append(v.numpy())
    return out


def case_assign_result_can_be_used(tf, np):
    v = tf.Variable(2.0)
    r = v.assign(5.0)
    s = v.assign_add(1.0) * 10.0
    return [r.numpy(), s, v.assign_sub(2.0) + 0.0, v.assign(1.0, read_value=False), v]


def case_assign_errors(tf, np):
    v = tf.Variable([1.0, 2.0])
    out = [
        raises(lambda: v.assign([1.0, 2.0, 3.0])),
        raises(lambda: v.assign(tf.constant([1, 2])), "TypeError"),
        raises(lambda: v.assign(tf.constant([1.0, 2.0], tf.float64)), "TypeError"),
        raises(lambda: v.assign_add(1.0), "ValueError"),
        raises(lambda: v.assign_add(tf.constant([1, 1])), "TypeError", "InvalidArgumentError"),
    ]
    return out + [v]


def case_in_place_operator_is_refused(tf, np):
    def run(op):
        v = tf.Variable(1.0)
        if op == "+":
            v += 1.0
        elif op == "-":
            v -= 1.0
        elif op == "*":
            v *= 2.0
        return v

    return [raises(lambda: run("+")), raises(lambda: run("-")), raises(lambda: run("*"))]


def case_copy_of_a_variable_is_independent(tf, np):
    first = tf.Variable([[1, 2], [3, 4]])
    second, frozen = tf.Variable(first), tf.identity(first)
    first.assign(first * 10)
    second.assign_sub([[1, 1], [1, 1]])
    return [first, second, frozen]


def case_reading_gives_a_snapshot(tf, np):
    v = tf.Variable([1.0, 2.0])
    r, w, c, n = v.read_value(), v.value(), tf.convert_to_tensor(v), v.numpy()
    v.assign([10.0, 20.0])
    return [r, w, c, n, v]


def case_unspecified_shape(tf, np):
    v = tf.Variable(np.ones((2, 2)), shape=[None, 2])
    v.assign(np.zeros((3, 2)))
    w = tf.Variable([1.0], shape=tf.TensorShape(None))
    w.assign([[1.0, 2.0]])
    return [v.shape, v.numpy(), w.shape, w.numpy(), raises(lambda: v.assign(np.ones((2, 3))))]


def case_operators_give_tensors(tf, np):
    v = tf.Variable([4.0, -9.0])
    i = tf.Variable([7, -7])
    return [
        v + 1,
        1 + v,
        v - 0.5,
        2 - v,
        v * v,
        3.0 * v,
        v / 2,
        1 / v,
        v // 2.0,
        v % 5.0,
        v**2,
        2.0**v,
        -v,
        abs(v),
        v > 0,
        v <= -9.0,
        v == 4.0,
        v != 4.0,
        i // 2,
        i % 4,
        i / 2,
        ~tf.Variable([True, False]),
        tf.Variable([[1.0, 2.0]]) @ tf.Variable([[3.0], [4.0]]),
        np.array([1.0, 1.0], np.float32) * v,
    ]


def case_indexing_and_iteration(tf, np):
    v = tf.Variable(np.arange(12.0).reshape(3, 4))
    return [
        v[1],
        v[-1, ::2],
        v[..., None].shape,
        v[1:, 1:3],
        [r for r in v],
        raises(lambda: len(v)),
        raises(lambda: v.__setitem__(0, 1.0)),
    ]


def case_slice_assign(tf, np):
    v = tf.Variable(np.zeros((3, 3)))
    v[0].assign([1.0, 2.0, 3.0])
    v[1:, 1:].assign([[5.0, 6.0], [7.0, 8.0]])
    v[2, 0].assign(-1.0)
    return v


def case_truth_value_and_python_conversion(tf, np):
    v = tf.Variable(0.0)
    return [
        bool(v),
        bool(tf.Variable([2])),
        float(tf.Variable(2.5)),
        int(tf.Variable(7)),
        raises(lambda: bool(tf.Variable([1.0, 2.0]))),
        np.asarray(tf.Variable([1.5, 2.5])),
        tf.is_tensor(v),
        isinstance(v, tf.Tensor),
        isinstance(v + 0.0, tf.Variable),
    ]


def case_ref_hash_and_identity(tf, np):
    v, w = tf.Variable(1.0), tf.Variable(1.0)
    table = {v.ref(): "v", w.ref(): "w"}
    return [
        v.ref() == v.ref(),
        v.ref() == w.ref(),
        v.ref().deref() is v,
        table[w.ref()],
        raises(lambda: hash(v)),
        v == w,
    ]


def case_scatter_nd_methods(tf, np):
    def fresh():
        return tf.Variable(np.full((4, 2), 10.0))

    a, b, c, d = fresh(), fresh(), fresh(), tf.Variable([5, 6, 7, 8, 9])
    a.scatter_nd_add([[0], [2], [0]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    b.scatter_nd_sub([[1, 1], [3, 0]], [1.5, 2.5])
    c.scatter_nd_update([[1], [2]], [[0.0, 1.0], [2.0, 3.0]])
    r = d.scatter_nd_add([[4], [0], [4]], [100, 200, -1])
    return [a, b, c, r.numpy(), d, raises(lambda: d.scatter_nd_update([[5]], [1]), "IndexError")]


def case_scatter_with_indexed_slices(tf, np):
    def run(name):
        v = tf.Variable([6.0, 6.0, 6.0])
        getattr(v, name)(tf.IndexedSlices(tf.constant([4.0, 8.0]), tf.constant([0, 2])))
        return v

    rows = tf.Variable(np.zeros((3, 2)))
    rows.scatter_add(tf.IndexedSlices(tf.constant([[1.0, 2.0], [10.0, 20.0]], tf.float64), tf.constant([2, 2])))
    return [
        [
            run(n)
            for n in (
                "scatter_add",
                "scatter_sub",
                "scatter_update",
                "scatter_mul",
                "scatter_div",
                "scatter_max",
                "scatter_min",
            )
        ],
        rows,
    ]


def case_sparse_read_and_gather_nd(tf, np):
    v = tf.Variable(np.arange(6.0).reshape(3, 2))
    with tf.GradientTape(persistent=True) as t:
        a = v.sparse_read([2, 0, 2])
        b = v.gather_nd([[0, 1], [2, 0]])
    return [a, b, dense(t.gradient(a, v)), dense(t.gradient(b, v))]


def case_assign_inside_tape_stops_gradient(tf, np):
    source, state = tf.Variable([3.0, -1.0]), tf.Variable([0.5, 0.5])
    with tf.GradientTape(persistent=True) as t:
        state.assign_sub(source * 2.0)
        y = tf.exp(state) * 3.0
    return [y, t.gradient(y, source), t.gradient(y, state)]


def case_assign_between_reads(tf, np):
    v = tf.Variable(3.0)
    with tf.GradientTape() as t:
        y = v * v
        v.assign(10.0)
        z = v * y
    return [z, t.gradient(z, v)]


def case_assign_after_recording(tf, np):
    v = tf.Variable(3.0)
    with tf.GradientTape() as t:
        y = v**3
    v.assign(100.0)
    return t.gradient(y, v)


def case_gradient_through_assign_result(tf, np):
    v, c = tf.Variable(3.0), tf.constant(2.0)
    with tf.GradientTape() as t:
        t.watch(c)
        y = v.assign(c * c) * 3.0
    return [y, t.gradient(y, [v, c])]


def case_integer_variable_has_no_gradient(tf, np):
    i = tf.Variable(3)
    with tf.GradientTape() as t:
        y = tf.cast(i, tf.float32) * 2.0
    return [t.gradient(y, i), len(t.watched_variables())]


def case_gradient_of_slices_of_a_variable(tf, np):
    v = tf.Variable(np.arange(1.0, 7.0).reshape(2, 3))
    with tf.GradientTape() as t:
        y = v[0, 1] * v[1, 2] + tf.reduce_sum(v[:, ::2] ** 2) + sum(r[0] for r in v)
    return [y, t.gradient(y, v)]


def case_dtype_mismatch_in_operators(tf, np):
    f, i, d = tf.Variable(1.0), tf.Variable(2), tf.Variable(3.0, dtype=tf.float64)
    return [
        raises(lambda: f * i, "TypeError"),
        raises(lambda: f + d, "TypeError"),
        raises(lambda: i * 2.5, "InvalidArgumentError"),
        f * 2,
        d + np.float32(1.5),
    ]
