"""Clipping, tf.nest, tf.Module, aliases, dtypes, errors, FFT, complex gradients, debugging."""

from conformance.runner import raises, tol


def _grad(tf, f, *xs):
    with tf.GradientTape() as t:
        t.watch(list(xs))
        y = f(*xs)
    return [y, t.gradient(y, list(xs))]


def _missing(root, names):
    out = []
    for n in names.split():
        o = root
        for part in n.split("."):
            o = getattr(o, part, None)
        if o is None:
            out.append(n)
    return " ".join(out)


def case_clip_by_value(tf, np):
    x = tf.constant([-3.0, -1.0, 0.5, 2.0, 9.0])
    return [
        _grad(tf, lambda a: tf.clip_by_value(a, -1.0, 2.0), x),
        tf.clip_by_value(tf.constant([1, 5, 9]), 2, 6),
        tf.clip_by_value(x, 5.0, 1.0),
        _grad(tf, lambda a, lo: tf.clip_by_value(a, lo, 2.0), x, tf.constant(-2.0)),
        raises(lambda: tf.clip_by_value(x, [1.0, 2.0], 5.0), "ValueError"),
    ]


def case_clip_by_norm(tf, np):
    x = tf.constant([3.0, -4.0])
    return [
        _grad(tf, lambda a: tf.clip_by_norm(a, 2.0), x),
        _grad(tf, lambda a: tf.clip_by_norm(a, 10.0), x),
        tf.clip_by_norm(tf.zeros([2]), 1.0),
        _grad(tf, lambda a: tf.clip_by_norm(a, 5.0, axes=[1]), tf.constant([[3.0, 4.0], [6.0, 8.0], [0.3, 0.4]])),
    ]


def case_clip_by_global_norm(tf, np):
    a, b = tf.constant([3.0, 0.0]), tf.constant([[4.0]])
    inf = tf.constant([float("inf"), 1.0])

    def total(p, q):
        (u, v), _ = tf.clip_by_global_norm([p, q], 2.5)
        return tf.reduce_sum(u) + tf.reduce_sum(v * 3.0)

    return [
        tf.clip_by_global_norm([a, b, None], 2.5),
        tf.clip_by_global_norm((a, b), 100.0),
        tf.clip_by_global_norm([a], 1.0, use_norm=tf.constant(10.0)),
        tf.clip_by_global_norm([inf], 1.0),
        tf.linalg.global_norm([a, b]),
        _grad(tf, total, a, b),
        raises(lambda: tf.clip_by_global_norm(a, 1.0)),
    ]


def case_nest_flatten_and_pack(tf, np):
    s = {"b": 1, "a": [2, (3, {"z": 4})]}
    flat = tf.nest.flatten(s)
    return [
        flat,
        tf.nest.pack_sequence_as(s, [10, 20, 30, 40]),
        tf.nest.flatten(5),
        tf.nest.flatten(None),
        tf.nest.flatten([None, [], {}]),
        tf.nest.flatten("text"),
        tf.nest.is_nested([1]),
        tf.nest.is_nested({}),
        tf.nest.is_nested("abc"),
        raises(lambda: tf.nest.pack_sequence_as([0, 0], [1])),
    ]


def case_nest_map_structure(tf, np):
    a, b = {"x": [1, 2], "y": (3,)}, {"x": [10, 20], "y": (30,)}
    return [
        tf.nest.map_structure(lambda p: p * 2, a),
        tf.nest.map_structure(lambda p, q: p + q, a, b),
        tf.nest.map_structure(tf.convert_to_tensor, [1.0, (2,)]),
        raises(lambda: tf.nest.map_structure(lambda p, q: p, [1], [1, 2])),
        raises(lambda: tf.nest.map_structure(lambda p, q: p, [1], (1,))),
        tf.nest.map_structure(lambda p, q: p + q, [1], (1,), check_types=False),
    ]


def case_nest_assert_same_structure(tf, np):
    f = tf.nest.assert_same_structure
    return [
        f([1, {"a": 2}], [3, {"a": 4}]),
        raises(lambda: f([1], [2, 3])),
        raises(lambda: f([1], (2,))),
        f([1], (2,), check_types=False),
        raises(lambda: f({"a": 1}, {"b": 1})),
        raises(lambda: f([1], 1)),
    ]


def case_nest_named_tuples(tf, np):
    import collections

    P = collections.namedtuple("P", "u v")
    out = tf.nest.map_structure(lambda t: t * 2, P(1, [2]))
    with tf.GradientTape() as t:
        p = P(tf.Variable(2.0), tf.Variable(3.0))
        y = p.u * p.v**2
    g = t.gradient(y, p)
    return [tf.nest.flatten(P(1, [2])), type(out).__name__, out.v, type(g).__name__, g.u, g.v]


def case_module_variables(tf, np):
    class Inner(tf.Module):
        def __init__(self, name=None):
            super().__init__(name=name)
            self.z = tf.Variable(1.0, name="z")
            self.a = tf.Variable(2.0, name="a", trainable=False)
            self.group = [tf.Variable(3.0), {"k": tf.Variable(4.0)}]

    class Outer(tf.Module):
        def __init__(self):
            super().__init__()
            self.child = Inner("inner")
            self.w = tf.Variable(5.0)
            self.same = self.w

    m = Outer()
    return [
        [v.numpy() for v in m.variables],
        [v.numpy() for v in m.trainable_variables],
        [v.numpy() for v in m.non_trainable_variables],
        isinstance(m.variables, tuple),
        [s.name for s in m.submodules],
    ]


def case_module_names(tf, np):
    class MyDenseLayer(tf.Module):
        pass

    return [
        MyDenseLayer().name,
        MyDenseLayer(name="given").name,
        tf.Module().name,
        raises(lambda: tf.Module(name="not valid")),
    ]


def case_module_training_step(tf, np):
    class Linear(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable([[2.0], [-1.0]])
            self.b = tf.Variable([0.5])

        def __call__(self, x):
            return x @ self.w + self.b

    m = Linear()
    x, y = tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([[1.0], [0.0]])
    with tf.GradientTape() as t:
        loss = tf.reduce_mean((m(x) - y) ** 2)
    grads = t.gradient(loss, m.trainable_variables)
    for v, g in zip(m.trainable_variables, grads):
        v.assign_sub(0.1 * g)
    return [loss, grads, m.w, m.b]


def case_unconnected_gradients_members(tf, np):
    u = tf.UnconnectedGradients
    return [
        [m.name for m in u],
        [m.value for m in u],
        u("zero") is u.ZERO,
        u.NONE is u("none"),
        raises(lambda: u("other")),
        u.ZERO == "zero",
    ]


def case_tape_aliases(tf, np):
    return [
        tf.autodiff.GradientTape is tf.GradientTape,
        tf.compat.v1.GradientTape is tf.GradientTape,
        tf.compat.v2.GradientTape is tf.GradientTape,
        tf.compat.v1.UnconnectedGradients is tf.UnconnectedGradients,
        tf.compat.v2.constant is tf.constant,
        callable(tf.autodiff.ForwardAccumulator),
    ]


def case_function_aliases_are_the_same(tf, np):
    pairs = [
        (tf.abs, tf.math.abs),
        (tf.add, tf.math.add),
        (tf.exp, tf.math.exp),
        (tf.matmul, tf.linalg.matmul),
        (tf.norm, tf.linalg.norm),
        (tf.eye, tf.linalg.eye),
        (tf.reduce_sum, tf.math.reduce_sum),
        (tf.sigmoid, tf.nn.sigmoid),
        (tf.math.softplus, tf.nn.softplus),
        (tf.einsum, tf.linalg.einsum),
        (tf.cast, tf.dtypes.cast),
        (tf.clip_by_norm, tf.clip_by_norm),
        (tf.nn.silu, tf.nn.swish),
        (tf.tanh, tf.nn.tanh),
        (tf.argmax, tf.math.argmax),
        (tf.constant, tf.constant),
        (tf.tensordot, tf.linalg.tensordot),
        (tf.math.l2_normalize, tf.nn.l2_normalize),
        (tf.transpose, tf.transpose),
        (tf.linalg.trace, tf.linalg.trace),
    ]
    return [a is b for a, b in pairs]


def case_math_names_present(tf, np):
    return _missing(
        tf.math,
        "abs acos acosh add add_n angle argmax argmin asin asinh atan atan2 atanh ceil conj cos cosh count_nonzero cumprod cumsum cumulative_logsumexp "
        "digamma divide divide_no_nan equal erf erfc erfcinv erfinv exp expm1 floor floordiv floormod greater greater_equal imag is_finite is_inf is_nan l2_normalize "
        "less less_equal lgamma log log1p log_sigmoid log_softmax logical_and logical_not logical_or logical_xor maximum minimum mod multiply multiply_no_nan negative "
        "not_equal polyval pow real reciprocal reciprocal_no_nan reduce_all reduce_any reduce_euclidean_norm reduce_logsumexp reduce_max reduce_mean reduce_min reduce_prod "
        "reduce_std reduce_sum reduce_variance rint round rsqrt scalar_mul segment_max segment_mean segment_min segment_prod segment_sum sigmoid sign sin sinh softmax "
        "softplus softsign sqrt square squared_difference subtract tan tanh top_k truediv unsorted_segment_max unsorted_segment_mean unsorted_segment_min "
        "unsorted_segment_prod unsorted_segment_sqrt_n unsorted_segment_sum xdivy xlog1py xlogy zero_fraction",
    )


def case_linalg_and_nn_names_present(tf, np):
    return [
        _missing(
            tf.linalg,
            "adjoint band_part cholesky cholesky_solve cross det diag diag_part eigh eigvalsh einsum expm eye global_norm inv l2_normalize logdet lstsq matmul "
            "matrix_transpose matvec norm normalize pinv qr set_diag slogdet solve sqrtm svd tensor_diag tensor_diag_part tensordot trace triangular_solve",
        ),
        _missing(
            tf.nn,
            "avg_pool2d batch_normalization bias_add conv1d conv2d conv2d_transpose conv3d crelu depthwise_conv2d dropout elu embedding_lookup gelu l2_loss l2_normalize "
            "leaky_relu local_response_normalization log_softmax max_pool2d moments relu relu6 selu separable_conv2d sigmoid sigmoid_cross_entropy_with_logits silu softmax "
            "softmax_cross_entropy_with_logits softplus softsign sparse_softmax_cross_entropy_with_logits swish tanh top_k weighted_cross_entropy_with_logits zero_fraction",
        ),
    ]


def case_root_names_present(tf, np):
    return _missing(
        tf,
        "GradientTape Variable Tensor IndexedSlices TensorShape TensorSpec UnconnectedGradients Module constant convert_to_tensor custom_gradient stop_gradient "
        "recompute_grad grad_pass_through no_gradient identity is_tensor where gather gather_nd scatter_nd concat stack unstack split tile pad reshape "
        "squeeze expand_dims one_hot range linspace zeros ones fill eye cond while_loop map_fn scan foldl foldr vectorized_map switch_case case nest.flatten autodiff.ForwardAccumulator "
        "random.normal random.uniform random.set_seed random.Generator debugging.assert_equal errors.InvalidArgumentError signal.fft TensorArray name_scope device init_scope "
        "executing_eagerly py_function numpy_function print shape rank size cast saturate_cast complex boolean_mask sequence_mask meshgrid roll reverse repeat sort argsort "
        "searchsorted unique tensor_scatter_nd_update clip_by_value clip_by_norm clip_by_global_norm dynamic_partition dynamic_stitch test.compute_gradient",
    )


def case_dtype_names(tf, np):
    names = "bfloat16 bool complex128 complex64 double float16 float32 float64 half int16 int32 int64 int8 string uint16 uint32 uint64 uint8".split()
    return [
        [getattr(tf, n).name for n in names],
        [getattr(tf.dtypes, n) is getattr(tf, n) for n in names],
        tf.half is tf.float16,
        tf.double == tf.float64,
    ]


def case_errors_hierarchy(tf, np):
    names = (
        "AbortedError AlreadyExistsError CancelledError DataLossError DeadlineExceededError FailedPreconditionError InternalError InvalidArgumentError NotFoundError OutOfRangeError "
        "PermissionDeniedError ResourceExhaustedError UnauthenticatedError UnavailableError UnimplementedError UnknownError"
    ).split()
    return [
        [issubclass(getattr(tf.errors, n), tf.errors.OpError) for n in names],
        issubclass(tf.errors.OpError, Exception),
        issubclass(tf.errors.OperatorNotAllowedInGraphError, TypeError),
    ]


def case_fft_gradients(tf, np):
    z = tf.constant([1 + 2j, -1j, 0.5, 2 - 1j])
    x = tf.constant([1.0, -2.0, 0.5, 3.0], tf.float64)
    return [
        _grad(tf, lambda a: tf.abs(tf.signal.fft(a)) ** 2, z),
        _grad(tf, lambda a: tf.math.real(tf.signal.ifft(a)), z),
        _grad(tf, lambda a: tf.abs(tf.signal.rfft(a)), x),
        _grad(tf, lambda a: tf.signal.irfft(tf.signal.rfft(a) * tf.constant([1.0, 0.5, 0.0], tf.complex128)), x),
    ]


def case_fft2d_gradient(tf, np):
    r = np.random.default_rng(5).normal(size=(2, 2, 3)).round(3)
    z = tf.constant(r[0] + 1j * r[1])
    return [_grad(tf, lambda a: tf.abs(tf.signal.fft2d(a)), z), tf.signal.ifft2d(z)]


def case_complex_gradient_convention(tf, np):
    z = tf.constant([1 + 2j, -0.5 + 1j])
    fs = [
        lambda a: a * a,
        tf.abs,
        tf.math.conj,
        tf.math.real,
        tf.math.imag,
        lambda a: a * tf.math.conj(a),
        tf.exp,
        tf.math.log,
        tf.sqrt,
        lambda a: a**3,
        lambda a: 1 / a,
        tf.sin,
        tf.tanh,
        lambda a: tf.abs(a) ** 2,
        lambda a: tf.reduce_sum(a) * a[0],
    ]
    return [_grad(tf, f, z) for f in fs]


def case_complex_from_real_parts(tf, np):
    a, b = tf.constant([1.0, 2.0], tf.float64), tf.constant([0.5, -1.0], tf.float64)
    return [
        _grad(tf, lambda p, q: tf.abs(tf.complex(p, q)) ** 2, a, b),
        _grad(tf, lambda p, q: tf.math.imag(tf.complex(p, q) ** 2), a, b),
        _grad(tf, lambda p: tf.cast(p, tf.complex128) * (2 + 1j), a),
    ]


def case_debugging_assertions(tf, np):
    d = tf.debugging
    return [
        d.assert_equal(1, 1),
        raises(lambda: d.assert_equal(1, 2)),
        raises(lambda: d.assert_near(1.0, 1.1)),
        d.assert_near(1.0, 1.0),
        raises(lambda: d.assert_positive([-1.0])),
        raises(lambda: d.assert_rank(tf.ones([2]), 2)),
        raises(lambda: d.check_numerics(tf.constant([float("nan")]), "bad")),
        d.check_numerics(tf.constant([1.0]), "ok"),
        raises(lambda: d.assert_less([2.0], [1.0])),
        raises(lambda: d.assert_type(tf.constant(1.0), tf.int32)),
        raises(lambda: d.Assert(False, ["x"])),
    ]


def case_random_shapes_and_reproducibility(tf, np):
    def draw():
        tf.random.set_seed(42)
        return tf.random.normal([3, 2]), tf.random.uniform([4], 0, 10, dtype=tf.int32)

    (a, b), (c, d) = draw(), draw()
    g1, g2 = tf.random.Generator.from_seed(7), tf.random.Generator.from_seed(7)
    u = tf.random.uniform([100], -1.0, 1.0)
    s1, s2 = tf.random.stateless_normal([3], seed=[1, 2]), tf.random.stateless_normal([3], seed=[1, 2])
    return [
        a.shape,
        a.dtype,
        b.shape,
        b.dtype,
        bool(tf.reduce_all(a == c)),
        bool(tf.reduce_all(b == d)),
        bool(tf.reduce_all(g1.normal([2]) == g2.normal([2]))),
        bool(tf.reduce_all((u >= -1.0) & (u < 1.0))),
        bool(tf.reduce_all(s1 == s2)),
        tf.random.truncated_normal([2], dtype=tf.float64).dtype,
        tf.random.shuffle(tf.range(5)).shape,
        bool(tf.reduce_all(tf.sort(tf.random.shuffle(tf.range(5))) == tf.range(5))),
    ]


def case_py_function_and_numpy_function(tf, np):
    x = tf.constant([3.0, 4.0])
    return [
        _grad(tf, lambda a: tf.py_function(lambda b: b * b, [a], tf.float32), x),
        _grad(tf, lambda a: tf.numpy_function(lambda b: b * b, [a], tf.float32), x),
    ]


def case_compute_gradient_helper(tf, np):
    theory, numeric = tf.test.compute_gradient(
        lambda a, b: a * tf.reduce_sum(b), [tf.constant([1.0, 2.0], tf.float64), tf.constant([3.0], tf.float64)]
    )
    return [theory, tol(numeric, rtol=1e-5, atol=1e-5)]


def case_context_managers(tf, np):
    v = tf.Variable(2.0)
    with tf.name_scope("scope") as s, tf.device("/CPU:0"), tf.control_dependencies([]):
        with tf.GradientTape() as t:
            y = v * v
    return [s, t.gradient(y, v)]
