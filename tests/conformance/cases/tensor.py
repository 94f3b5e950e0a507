"""tf.constant, dtype rules, indexing, Python protocol, broadcasting, casting, complex."""

from conformance.runner import raises


def case_constant_dtype_inference(tf, np):
    return [
        tf.constant(1),
        tf.constant(1.0),
        tf.constant([1, 2.5]),
        tf.constant(True),
        tf.constant(1 + 2j),
        tf.constant("text"),
        tf.constant(["a", "bc"]),
        tf.constant(np.arange(3)),
        tf.constant(np.float64(2.5)),
        tf.constant(2**40),
        tf.constant([]),
        tf.constant(np.ones((2, 0), np.float16)),
    ]


def case_constant_with_dtype_and_shape(tf, np):
    return [
        tf.constant(3, tf.float32),
        tf.constant([1, 0], dtype=tf.float64),
        tf.constant(7.0, shape=[2, 2]),
        tf.constant([1, 2, 3, 4], shape=[2, 2]),
        tf.constant([1.5], dtype="float16"),
        tf.constant(np.array([1.5, -1.5]), tf.int32),
        tf.constant(1, tf.complex64),
    ]


def case_constant_errors(tf, np):
    return [
        raises(lambda: tf.constant(3.5, tf.int32)),
        raises(lambda: tf.constant([[1, 2], [3]])),
        raises(lambda: tf.constant([1, 2, 3], shape=[2, 2]), "ValueError"),
        raises(lambda: tf.constant(None)),
        raises(lambda: tf.constant(["a", 1]), "TypeError"),
    ]


def case_convert_to_tensor(tf, np):
    c = tf.constant([1.0, 2.0])
    return [
        tf.convert_to_tensor(c) is c,
        tf.convert_to_tensor([c[0], 2.0]),
        tf.convert_to_tensor([1, 2], dtype_hint=tf.float32),
        tf.convert_to_tensor([1.5, 2.0], dtype_hint=tf.int32),
        tf.convert_to_tensor(tf.Variable(3.0)),
        tf.convert_to_tensor([[c, c], [c, c]]).shape,
        raises(lambda: tf.convert_to_tensor(c, dtype=tf.int32), "TypeError"),
    ]


def case_no_implicit_promotion_between_tensors(tf, np):
    f, d, i = tf.constant([1.0]), tf.constant([1.0], tf.float64), tf.constant([1])
    return [
        raises(lambda: f + d, "TypeError"),
        raises(lambda: f * i, "TypeError"),
        raises(lambda: i + 1.5, "TypeError"),
        raises(lambda: f == i, "TypeError"),
        raises(lambda: tf.concat([f, d], 0), "TypeError"),
        raises(lambda: tf.matmul(f[None], d[None]), "TypeError"),
    ]


def case_python_and_numpy_operands_adapt(tf, np):
    f, i, h = tf.constant([1.0, 2.0]), tf.constant([1, 2]), tf.constant([1.0, 2.0], tf.float16)
    return [
        f + 1,
        1 - f,
        f * np.float64(2.0),
        np.float64(2.0) * f,
        f + np.array([1.0, 2.0]),
        np.array([1.0, 2.0]) - f,
        i + np.array([1, 2]),
        i * np.int64(3),
        h * 3,
        2**f,
        [1.0, 2.0] * f,
    ]


def case_integer_division_and_modulo(tf, np):
    a, b = tf.constant([7, -7, 7, -7]), tf.constant([2, 2, -2, -2])
    x = tf.constant([7.5, -7.5])
    return [
        a / b,
        a // b,
        a % b,
        tf.truncatediv(a, b),
        tf.truncatemod(a, b),
        x // 2.0,
        x % 2.0,
        a**2,
        tf.math.floordiv(a, b),
        tf.math.floormod(a, b),
        raises(lambda: tf.constant(1) // 0, "ZeroDivisionError"),
        raises(lambda: tf.constant(2) ** -1, "ValueError"),
    ]


def case_bitwise_and_logical_operators(tf, np):
    p, q = tf.constant([True, True, False]), tf.constant([True, False, False])
    return [
        p & q,
        p | q,
        p ^ q,
        ~p,
        tf.logical_and(p, q),
        tf.logical_or(p, q),
        tf.math.logical_xor(p, q),
        tf.logical_not(q),
        tf.constant(6) & 3,
        tf.constant(6) | 1,
        tf.constant(6) ^ 3,
        ~tf.constant(6),
        raises(lambda: tf.constant(1.0) & tf.constant(1.0), "TypeError"),
        raises(lambda: p + q, "TypeError"),
    ]


def case_slicing_basic(tf, np):
    x = tf.constant(np.arange(24).reshape(2, 3, 4))
    return [
        x[0],
        x[1, 2],
        x[1, 2, 3],
        x[-1],
        x[:, 1],
        x[:, :, -1],
        x[0, 1:],
        x[:, 0:2, 1:3],
        x[5:],
        x[:, -2:],
        tf.constant([9, 7, 5, 3, 1, -1])[1:-1:2],
    ]


def case_slicing_steps_and_negative(tf, np):
    r = tf.constant(np.arange(10))
    x = tf.constant(np.arange(24).reshape(2, 3, 4))
    return [r[::-1], r[::3], r[8:2:-2], r[-3:], r[:-7:-1], r[3:3], r[7:2], x[:, ::-1], x[::-1, ::2, ::-3], x[..., ::-1]]


def case_slicing_newaxis_and_ellipsis(tf, np):
    x = tf.constant(np.arange(24).reshape(2, 3, 4))
    return [
        x[..., 0],
        x[0, ..., 1],
        x[tf.newaxis].shape,
        x[:, tf.newaxis].shape,
        x[..., None].shape,
        x[None, ..., None].shape,
        x[:, None, 1, ..., None].shape,
        x[0, ..., None, 1:3],
        x[...].shape,
        tf.constant(5)[None],
        tf.constant(5)[...],
    ]


def case_slicing_with_tensors(tf, np):
    x = tf.constant(np.arange(12.0).reshape(3, 4))
    i, n = tf.constant(1), tf.constant(3, tf.int64)
    return [x[i], x[1, n], x[:2, i], x[:n], x[i:, ::2], x[np.int64(2)], x[0, tf.constant(-1)], x[i:2, :i]]


def case_slicing_errors(tf, np):
    x = tf.constant(np.arange(12.0).reshape(3, 4))
    return [
        raises(lambda: x[3], "IndexError"),
        raises(lambda: x[-4], "IndexError"),
        raises(lambda: x[0, 0, 0], "IndexError", "ValueError"),
        raises(lambda: x[1.0]),
        raises(lambda: x[tf.constant([0, 1])]),
        raises(lambda: x["a"]),
        raises(lambda: x[..., ...], "IndexError", "ValueError"),
        raises(lambda: x[::0], "ValueError"),
    ]


def case_boolean_mask_indexing(tf, np):
    x = tf.constant(np.arange(6.0).reshape(2, 3))
    m = np.array([True, False])
    return [
        x[x > 2],
        x[m],
        tf.boolean_mask(x, x < 4),
        tf.boolean_mask(x, [True, False, True], axis=1),
        tf.boolean_mask([1, 2, 3], [False, False, False]),
        raises(lambda: tf.boolean_mask(x, [True, False, True])),
    ]


def case_gradient_of_every_slice_kind(tf, np):
    x = tf.constant(np.arange(1.0, 25.0).reshape(2, 3, 4))
    i = tf.constant(1)
    out = []
    for f in (
        lambda: x[0],
        lambda: x[..., -1],
        lambda: x[:, ::2, ::-1],
        lambda: x[1, None, :, 1:3],
        lambda: x[:, i, i:],
        lambda: x[x > 9.0],
        lambda: x[::-1, 0, ..., None],
    ):
        with tf.GradientTape() as t:
            t.watch(x)
            y = f() ** 2
        out.append(t.gradient(y, x))
    return out


def case_iteration_unpacking_len(tf, np):
    x = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    a, b, c = x
    with tf.GradientTape() as t:
        t.watch(x)
        total = sum(tf.reduce_prod(row) for row in x)
    return [
        len(x),
        a,
        c,
        [r for r in x],
        t.gradient(total, x),
        raises(lambda: len(tf.constant(1.0))),
        raises(lambda: list(tf.constant(1.0))),
        2.0 in tf.constant([1.0, 2.0]),
    ]


def case_truth_value_and_python_conversion(tf, np):
    return [
        bool(tf.constant(0)),
        bool(tf.constant(2.5)),
        bool(tf.constant([[1]])),
        raises(lambda: bool(tf.constant([1, 2]))),
        int(tf.constant(3)),
        float(tf.constant(2.5)),
        [10, 20, 30][tf.constant(1)],
        list(range(tf.constant(3))),
        "yes" if tf.constant(1.0) > 0 else "no",
        "%.2f" % tf.constant(1.239),
        f"{tf.constant(3.14159):.2f}",
    ]


def case_repr_and_str(tf, np):
    x, s, v = tf.constant([1.0, 2.5]), tf.constant(7), tf.Variable([1.0, 2.0], name="w")
    return [
        repr(x),
        str(x),
        repr(s),
        str(s),
        repr(v),
        repr(x.dtype),
        str(x.dtype),
        str(x.shape),
        repr(x.shape),
        "%s" % tf.float16.name,
    ]


def case_equality_semantics(tf, np):
    a = tf.constant([1.0, 2.0, 3.0])
    return [
        a == a,
        a == [1.0, 0.0, 3.0],
        a != a,
        a == 2.0,
        a == tf.constant([1.0, 2.0]),
        a != tf.constant([1.0, 2.0]),
        a == None,
        a != None,
        tf.constant("a") == "a",
        raises(lambda: hash(a)),
        a.ref() == a.ref(),  # noqa: E711
        raises(lambda: a < tf.constant([1.0, 2.0]), "ValueError"),
    ]


def case_numpy_interop(tf, np):
    x = tf.constant([[1.0, 4.0], [9.0, 16.0]])
    return [
        x.numpy(),
        tf.constant(2.5).numpy(),
        np.sqrt(x),
        np.sum(x),
        np.asarray(x),
        np.array([tf.constant(1.0), 2.0]),
        tf.sqrt(np.array([4.0, 9.0])),
        tf.add(np.ones(2), 1),
        np.add(x, 1),
        tf.constant("ab").numpy(),
    ]


def case_broadcasting_shapes_and_errors(tf, np):
    a, b, c = tf.ones([3, 1]), tf.ones([4]), tf.ones([2, 1, 4])
    return [
        (a + b).shape,
        (a * c).shape,
        (b - c + a).shape,
        tf.maximum(a, b).shape,
        tf.broadcast_static_shape(a.shape, c.shape),
        tf.broadcast_dynamic_shape([3, 1], [2, 1, 4]),
        raises(lambda: tf.ones([2, 3]) + tf.ones([2, 4]), "ValueError"),
        raises(lambda: tf.broadcast_to(tf.ones([3]), [2, 4]), "ValueError"),
    ]


def case_cast_rules(tf, np):
    return [
        tf.cast([2.9, -2.9, 0.0], tf.int32),
        tf.cast([0.0, 0.5, -1.0], tf.bool),
        tf.cast([True, False], tf.float64),
        tf.cast(300, tf.uint8),
        tf.cast([1, 2], tf.complex64),
        tf.cast(tf.constant(1.5, tf.float64), tf.float16),
        tf.saturate_cast([300.0, -5.0, 7.6], tf.uint8),
        tf.cast(1.0, "int64"),
        tf.cast(tf.constant(2), tf.int32),
        tf.dtypes.cast([1.7], tf.int8),
    ]


def case_shape_and_rank_queries(tf, np):
    x = tf.zeros([2, 3, 4])
    s = x.shape
    return [
        s,
        s.as_list(),
        s[0],
        s[1:],
        s[-1],
        len(s),
        s.rank,
        list(s),
        tuple(s),
        s == (2, 3, 4),
        s == [2, 3],
        s.num_elements(),
        x.ndim,
        x.get_shape(),
        tf.rank(x),
        tf.shape(x),
        tf.size(x),
        tf.shape(x, out_type=tf.int64),
        tf.constant(1).shape,
        tf.TensorShape([None, 3]).is_compatible_with([5, 3]),
        tf.TensorShape(None).rank,
        s.is_fully_defined(),
        tf.TensorShape([1, None]).as_list(),
        tf.TensorShape([2]).concatenate([3]),
    ]


def case_dtype_objects(tf, np):
    d = tf.float32
    return [
        d.name,
        d == "float32",
        d == np.float32,
        d == tf.float64,
        d.is_floating,
        d.is_integer,
        d.is_complex,
        d.is_bool,
        d.size,
        tf.as_dtype("int8"),
        tf.as_dtype(np.float16),
        tf.as_dtype(float),
        tf.int32.is_integer,
        tf.complex64.is_complex,
        tf.complex128.real_dtype,
        bool(d.as_numpy_dtype is np.float32),
        float(tf.float32.max),
        float(tf.float64.min),
        int(tf.int16.max),
        tf.uint8.is_unsigned,
        tf.dtypes.float64 is tf.float64,
        tf.bool.name,
        tf.string.name,
    ]


def case_creation_helpers(tf, np):
    i = tf.constant([[1, 2], [3, 4]])
    return [
        tf.zeros([2, 1]),
        tf.ones(2, tf.int32),
        tf.fill([2], 3),
        tf.fill([1, 2], 1.5),
        tf.zeros_like(i),
        tf.ones_like(i, dtype=tf.float64),
        tf.eye(2, 3),
        tf.eye(2, batch_shape=[2]),
        tf.range(5),
        tf.range(1.0, 2.0, 0.25),
        tf.range(5, 0, -2),
        tf.range(3, dtype=tf.float64),
        tf.linspace(0.0, 1.0, 5),
        tf.linspace([0.0, 1.0], [1.0, 3.0], 3),
        tf.range(0, 1, 0.25),
        tf.zeros([0]),
        tf.one_hot([0, 2], 3),
    ]


def case_complex_arithmetic(tf, np):
    z, w = tf.constant([1 + 2j, -3j]), tf.constant([2 - 1j, 1 + 1j])
    return [
        z + w,
        z * w,
        z / w,
        z - 1,
        -z,
        z**2,
        tf.abs(z),
        tf.math.real(z),
        tf.math.imag(z),
        tf.math.conj(z),
        tf.math.angle(z),
        tf.complex(1.0, -2.0),
        tf.exp(z),
        tf.sqrt(z),
        tf.reduce_sum(z),
        tf.reduce_prod(z),
        z == z,
        tf.linalg.matmul([z], [w], adjoint_b=True),
        raises(lambda: z < w, "TypeError"),
    ]


def case_low_precision_arithmetic(tf, np):
    h, b = tf.constant([0.1, 1000.5], tf.float16), tf.constant([0.1, 3.14159], tf.bfloat16)
    return [
        h + h,
        h * 3,
        b * b,
        tf.cast(b, tf.float32),
        tf.reduce_sum(h),
        tf.exp(b),
        h > 1,
        tf.cast(tf.constant(1e-9), tf.float16),
    ]


def case_integer_overflow_wraps(tf, np):
    return [
        tf.constant(255, tf.uint8) + tf.constant(1, tf.uint8),
        tf.constant(127, tf.int8) + tf.constant(1, tf.int8),
        tf.constant(2**31 - 1) + 1,
        tf.constant(200, tf.uint8) * tf.constant(2, tf.uint8),
    ]


def case_division_by_zero_and_nan(tf, np):
    x = tf.constant([1.0, -1.0, 0.0])
    n = tf.constant([float("nan"), 1.0])
    return [
        x / 0.0,
        tf.math.divide_no_nan(x, [0.0, 2.0, 0.0]),
        n == n,
        tf.math.is_nan(n),
        tf.math.is_inf(x / 0.0),
        tf.math.is_finite(n),
        tf.reduce_max(n),
        tf.maximum(n, 0.0),
        tf.minimum(0.0, n),
        tf.reduce_min(tf.constant([2.0, float("nan")])),
    ]


def case_item_assignment_is_refused(tf, np):
    x = tf.constant([1.0, 2.0])

    def put():
        x[0] = 5.0

    return [raises(put, "TypeError"), x]
