"""tf.sparse, SparseTensor and tf.sets: construction, manipulation, arithmetic, gradients, functions, tf.data."""

from conformance.runner import dense, raises


def sp(x):
    """A sparse result as plain pieces; anything else unchanged."""
    if hasattr(x, "indices") and hasattr(x, "dense_shape") and hasattr(x, "values"):
        return ["sparse", x.indices, x.values, x.dense_shape, x.dtype, x.shape]
    return x


def example(tf):
    return tf.sparse.SparseTensor(indices=[[0, 0], [1, 2], [2, 1]], values=[1.0, 2.0, 3.0], dense_shape=[3, 4])


def case_construction(tf, np):
    s = example(tf)
    return [
        sp(s),
        s.indices.dtype,
        s.dense_shape.dtype,
        s.get_shape(),
        tf.sparse.to_dense(s),
        isinstance(s, tf.SparseTensor),
        tf.is_tensor(s),
        tf.rank(s),
        tf.size(s),
        tf.shape(s),
        sp(tf.SparseTensor([[1]], ["x"], [3])),
        sp(s.with_values(tf.constant([7.0, 8.0, 9.0]))),
    ]


def case_construction_errors(tf, np):
    return [
        raises(lambda: tf.SparseTensor([[0, 0]], [1.0, 2.0], [2, 2]), "InvalidArgumentError"),
        raises(lambda: tf.SparseTensor([0, 1], [1.0, 2.0], [2]), "InvalidArgumentError"),
        raises(lambda: tf.sparse.to_dense(tf.SparseTensor([[5, 0]], [1.0], [2, 2])), "ValueError"),
        raises(lambda: tf.sparse.to_dense(tf.SparseTensor([[1, 0], [0, 0]], [1.0, 2.0], [2, 2])), "ValueError"),
        tf.sparse.to_dense(tf.SparseTensor([[1, 0], [0, 0]], [1.0, 2.0], [2, 2]), validate_indices=False),
        raises(lambda: tf.sparse.to_dense(tf.SparseTensor([[0], [0]], [1.0, 2.0], [2])), "ValueError"),
    ]


def case_from_and_to_dense(tf, np):
    return [
        sp(tf.sparse.from_dense([[0, 1, 0], [2, 0, 3]])),
        sp(tf.sparse.from_dense(tf.constant(["", "a", "b"]))),
        sp(tf.sparse.from_dense(tf.zeros([2, 2]))),
        tf.sparse.to_dense(tf.SparseTensor([[0], [2]], [5, 7], [4]), default_value=-1),
        tf.sparse.to_dense(tf.SparseTensor([[1]], ["q"], [3]), "-"),
        sp(tf.sparse.from_dense(tf.constant([[[1.5, 0.0]], [[0.0, float("nan")]]]))),
        tf.sparse.to_dense(tf.SparseTensor([[1, 1]], [True], [2, 2])),
    ]


def case_reorder_and_reshape(tf, np):
    s = tf.SparseTensor([[2, 0], [0, 1], [1, 3]], [1, 2, 3], [3, 4])
    return [
        sp(tf.sparse.reorder(s)),
        sp(tf.sparse.reshape(tf.sparse.reorder(s), [4, 3])),
        sp(tf.sparse.reshape(tf.sparse.reorder(s), [2, -1])),
        sp(tf.sparse.reshape(tf.sparse.reorder(s), [-1])),
        raises(lambda: tf.sparse.reshape(s, [5, 3])),
        raises(lambda: tf.sparse.reshape(s, [-1, -1])),
    ]


def case_slice_and_concat(tf, np):
    a, b = tf.sparse.from_dense([[0, 1, 2], [3, 0, 0]]), tf.sparse.from_dense([[4, 0], [0, 5]])
    return [
        sp(tf.sparse.slice(a, [0, 1], [2, 2])),
        sp(tf.sparse.slice(a, [1, 0], [5, 5])),
        sp(tf.sparse.concat(1, [a, b])),
        sp(tf.sparse.concat(axis=0, sp_inputs=[a, a])),
        raises(lambda: tf.sparse.concat(0, [a, b])),
        sp(tf.sparse.concat(0, [a, b], expand_nonconcat_dims=True)),
        [sp(x) for x in tf.sparse.split(a, 2, axis=1)],
    ]


def case_add(tf, np):
    a, b = tf.sparse.from_dense([[0.0, 1.0], [2.0, 0.0]]), tf.sparse.from_dense([[0.0, -1.0], [0.5, 3.0]])
    return [
        sp(tf.sparse.add(a, b)),
        sp(tf.sparse.add(a, b, threshold=0.1)),
        tf.sparse.add(a, tf.ones([2, 2])),
        tf.sparse.add(tf.ones([2, 2]), b),
        raises(lambda: tf.sparse.add(tf.ones([2]), tf.ones([2])), "TypeError"),
        raises(lambda: tf.sparse.add(a, tf.sparse.from_dense([[1.0]]))),
    ]


def case_reduce(tf, np):
    s = tf.sparse.from_dense([[1, 0, 1], [0, 1, 0]])
    n = tf.SparseTensor([[0, 1], [1, 0]], [-2.0, -3.0], [3, 2])
    return [
        tf.sparse.reduce_sum(s),
        tf.sparse.reduce_sum(s, 0),
        tf.sparse.reduce_sum(s, 1),
        tf.sparse.reduce_sum(s, 1, keepdims=True),
        tf.sparse.reduce_sum(s, [0, 1]),
        tf.sparse.reduce_sum(s, axis=-1),
        tf.sparse.reduce_max(n, 1),
        tf.sparse.reduce_max(n),
        tf.sparse.reduce_max(n, 0),
        sp(tf.sparse.reduce_sum(s, 1, output_is_sparse=True)),
        sp(tf.sparse.reduce_max(n, 1, output_is_sparse=True)),
        raises(lambda: tf.sparse.reduce_sum(s, 2)),
    ]


def case_matmul(tf, np):
    s = example(tf)
    d = tf.constant(np.arange(8.0, dtype=np.float32).reshape(4, 2))
    e = tf.constant(np.arange(6.0, dtype=np.float32).reshape(3, 2))
    c = tf.SparseTensor([[0, 1], [1, 0]], tf.constant([1 + 2j, 3 - 1j]), [2, 2])
    return [
        tf.sparse.sparse_dense_matmul(s, d),
        tf.sparse.sparse_dense_matmul(s, e, adjoint_a=True),
        tf.sparse.sparse_dense_matmul(s, tf.transpose(d), adjoint_b=True),
        raises(lambda: s @ d, "*"),
        tf.sparse.sparse_dense_matmul(c, tf.constant([[1j], [2 + 0j]]), adjoint_a=True),
        raises(lambda: tf.sparse.sparse_dense_matmul(s, e)),
        raises(lambda: tf.sparse.sparse_dense_matmul(s, tf.ones([4]))),
        tf.sparse.sparse_dense_matmul(tf.ones([2, 3]), s),
        raises(lambda: tf.matmul(s, d), "*"),
    ]


def case_transpose_and_expand(tf, np):
    s = example(tf)
    t3 = tf.SparseTensor([[0, 1, 2], [1, 0, 0]], [1, 2], [2, 2, 3])
    return [
        sp(tf.sparse.transpose(s)),
        sp(tf.sparse.transpose(t3, [2, 0, 1])),
        sp(tf.sparse.expand_dims(s, 0)),
        sp(tf.sparse.expand_dims(s, 1)),
        sp(tf.sparse.expand_dims(s, -1)),
        raises(lambda: tf.sparse.expand_dims(s, 5)),
        sp(tf.sparse.eye(3)),
        sp(tf.sparse.eye(2, 3, dtype=tf.int32)),
    ]


def case_map_retain_reset(tf, np):
    s = example(tf)
    return [
        sp(tf.sparse.map_values(tf.square, s)),
        sp(tf.sparse.map_values(tf.add, s, 5.0)),
        sp(tf.sparse.map_values(tf.multiply, s, s)),
        sp(tf.sparse.retain(s, [True, False, True])),
        sp(tf.sparse.retain(s, s.values > 1.5)),
        sp(tf.sparse.reset_shape(s, [5, 6])),
        sp(tf.sparse.reset_shape(s)),
        raises(lambda: tf.sparse.reset_shape(s, [2, 2]), "ValueError"),
        raises(lambda: tf.sparse.map_values(tf.add, s, tf.SparseTensor([[0, 1]], [1.0], [3, 4]))),
        raises(lambda: tf.sparse.retain(s, [True]), "ValueError"),
    ]


def case_fill_empty_rows_and_to_indicator(tf, np):
    s = tf.SparseTensor([[0, 1], [2, 0]], [5, 3], [4, 6])
    f, e = tf.sparse.fill_empty_rows(s, -1)
    return [sp(f), e, tf.sparse.to_indicator(s, 6)]


def case_mask_and_bincount(tf, np):
    m = tf.sparse.mask(
        tf.IndexedSlices(tf.constant([[1.0], [2.0], [3.0]]), tf.constant([0, 4, 7]), tf.constant([9, 1])), [4, 7]
    )
    b = tf.sparse.bincount(tf.constant([[0, 2, 2], [1, 1, 1]]))
    return [
        m.indices,
        m.values,
        sp(b),
        sp(tf.sparse.bincount(tf.constant([1, 1, 3]), minlength=6)),
        sp(tf.sparse.bincount(tf.constant([[0, 2, 2]]), weights=[[0.5, 1.0, 1.5]])),
        sp(tf.sparse.bincount(tf.constant([[0, 2, 2]]), binary_output=True)),
    ]


def case_softmax_maximum_minimum(tf, np):
    s = tf.SparseTensor([[0, 0], [0, 2], [1, 1]], [1.0, 2.0, 5.0], [2, 3])
    t = tf.SparseTensor([[0, 0], [1, 0]], [-1.0, 4.0], [2, 3])
    return [
        sp(tf.sparse.softmax(s)),
        sp(tf.sparse.maximum(s, t)),
        sp(tf.sparse.minimum(s, t)),
        raises(lambda: tf.sparse.softmax(tf.SparseTensor([[0]], [1.0], [2]))),
    ]


def case_arithmetic_with_dense(tf, np):
    s = example(tf)
    return [
        sp(s * 2.0),
        sp(s * tf.constant([[1.0], [10.0], [100.0]])),
        sp(s / 2.0),
        raises(lambda: -s, "*"),
        raises(lambda: s + 1.0, "*"),
        raises(lambda: s - s, "*"),
        sp(tf.cast(s, tf.int32)),
        sp(tf.square(s)),
        sp(tf.abs(s)),
        sp(tf.sign(s)),
        raises(lambda: s[0], "*"),
        raises(lambda: tf.convert_to_tensor(s), "*"),
    ]


def case_unary_math_dispatch(tf, np):
    s = tf.SparseTensor([[0, 1], [1, 0]], [-1.5, 4.0], [2, 2])
    return [
        sp(tf.negative(s)),
        sp(tf.math.tanh(s)),
        sp(tf.math.abs(s)),
        sp(tf.sparse.map_values(tf.nn.relu, s)),
        raises(lambda: tf.ones_like(s), "*"),
        raises(lambda: tf.exp(s), "*"),
        sp(tf.identity(s)),
    ]


def case_segment_ops(tf, np):
    x = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
    i, g = tf.constant([0, 2, 3, 0]), tf.constant([0, 0, 2, 2])
    return [
        tf.sparse.segment_sum(x, i, g),
        tf.sparse.segment_mean(x, i, g),
        tf.sparse.segment_sqrt_n(x, i, g),
        tf.sparse.segment_sum(x, i, g, num_segments=4),
        raises(lambda: tf.sparse.segment_sum(x, [9], [0])),
        raises(lambda: tf.sparse.segment_sum(x, [0, 1], [1, 0])),
    ]


def case_gradient_of_segment_ops(tf, np):
    x = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    i, g = tf.constant([0, 2, 2]), tf.constant([0, 0, 1])
    out = []
    for f in (tf.sparse.segment_sum, tf.sparse.segment_mean, tf.sparse.segment_sqrt_n):
        with tf.GradientTape() as t:
            t.watch(x)
            y = f(x, i, g) ** 2
        out.append(dense(t.gradient(y, x)))
    return out


def case_gradient_of_matmul(tf, np):
    v = tf.constant([1.0, 2.0, 3.0])
    d = tf.Variable(np.arange(1.0, 9.0, dtype=np.float32).reshape(4, 2))
    with tf.GradientTape() as t:
        t.watch(v)
        s = tf.SparseTensor([[0, 0], [1, 2], [2, 1]], v, [3, 4])
        y = tf.sparse.sparse_dense_matmul(s, d) ** 2
    return [y, *t.gradient(y, [v, d])]


def case_gradient_of_matmul_with_adjoints(tf, np):
    v = tf.constant([1.0, -2.0, 0.5])
    idx = [[0, 1], [1, 0], [2, 1]]
    a = tf.constant(np.arange(6.0, dtype=np.float32).reshape(3, 2))
    b = tf.constant(np.arange(4.0, dtype=np.float32).reshape(2, 2) + 1)
    out = []
    for f, d in (
        (lambda s, d: tf.sparse.sparse_dense_matmul(s, d, adjoint_a=True), a),
        (lambda s, d: tf.sparse.sparse_dense_matmul(s, d, adjoint_b=True), b),
        (lambda s, d: tf.sparse.sparse_dense_matmul(d, s, adjoint_a=True), a),
    ):
        with tf.GradientTape() as t:
            t.watch([v, d])
            y = f(tf.SparseTensor(idx, v, [3, 2]), d)
            z = tf.reduce_sum(y * y)
        out.append(t.gradient(z, [v, d]))
    return out


def case_gradient_of_values(tf, np):
    v = tf.constant([1.0, 2.0, 3.0])
    mk = lambda: tf.SparseTensor([[0, 0], [0, 2], [1, 1]], v, [2, 3])
    out = []
    for f in (
        lambda s: tf.sparse.to_dense(s) * [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]],
        lambda s: tf.sparse.reduce_sum(s, 0) ** 2,
        lambda s: tf.sparse.reduce_sum(s, 1) ** 2,
        lambda s: tf.sparse.softmax(s).values * [1.0, 2.0, 3.0],
        lambda s: tf.sparse.map_values(tf.exp, s).values,
        lambda s: tf.sparse.transpose(s).values * [1.0, 10.0, 100.0],
        lambda s: tf.sparse.add(s, tf.ones([2, 3])) ** 2,
        lambda s: tf.sparse.add(s, s).values ** 2,
        lambda s: tf.sparse.reshape(s, [3, 2]).values ** 2,
        lambda s: tf.sparse.slice(s, [0, 0], [1, 3]).values ** 2,
        lambda s: (s * [[2.0], [3.0]]).values ** 2,
        lambda s: tf.sparse.retain(s, [True, False, True]).values ** 2,
    ):
        with tf.GradientTape() as t:
            t.watch(v)
            y = f(mk())
        out.append(dense(t.gradient(y, v)))
    return out


def case_gradient_of_watched_sparse(tf, np):
    s = example(tf)
    with tf.GradientTape(persistent=True) as t:
        t.watch(s)
        y = tf.reduce_sum(tf.sparse.to_dense(s) ** 2)
    g = t.gradient(y, s.values)
    return [g, raises(lambda: t.gradient(y, s), "TypeError"), raises(lambda: t.gradient(s, s.values), "TypeError")]


def case_embedding_lookup_sparse(tf, np):
    e = tf.Variable(np.arange(10.0, dtype=np.float32).reshape(5, 2))
    ids = tf.SparseTensor([[0, 0], [0, 1], [2, 0]], tf.constant([1, 3, 0], tf.int64), [3, 2])
    w = tf.SparseTensor([[0, 0], [0, 1], [2, 0]], [2.0, 0.5, 3.0], [3, 2])
    out = []
    for comb in ("sum", "mean", "sqrtn"):
        with tf.GradientTape() as t:
            y = tf.nn.embedding_lookup_sparse(e, ids, w, combiner=comb)
            z = tf.reduce_sum(y * y)
        out += [y, dense(t.gradient(z, e))]
    out += [
        tf.nn.embedding_lookup_sparse(e, ids, None, combiner="mean"),
        tf.nn.safe_embedding_lookup_sparse(e, ids, combiner="sum", default_id=4),
    ]
    return out


def case_in_function_and_spec(tf, np):
    @tf.function
    def f(s):
        return tf.sparse.reduce_sum(s, 1), tf.sparse.map_values(tf.square, s)

    a, b = f(example(tf))
    f(tf.SparseTensor([[0, 1]], [4.0], [3, 4]))
    spec = tf.SparseTensorSpec([None, 4], tf.float32)
    g = tf.function(lambda s: tf.sparse.to_dense(s), input_signature=[spec])
    return [
        a,
        sp(b),
        g(example(tf)),
        spec.shape,
        spec.dtype,
        spec.is_compatible_with(example(tf)),
        tf.SparseTensorSpec([2, 2]).is_compatible_with(example(tf)),
        raises(lambda: g(tf.SparseTensor([[0, 1]], [4], [3, 4])), "ValueError"),
    ]


def case_in_dataset(tf, np):
    s = tf.SparseTensor([[0, 0], [1, 2], [2, 1]], [1, 2, 3], [3, 4])
    ds = tf.data.Dataset.from_tensor_slices(s)
    return [
        [sp(e) for e in ds],
        type(ds.element_spec).__name__,
        ds.element_spec.shape,
        [sp(e) for e in ds.batch(2)],
        [tf.sparse.to_dense(e) for e in ds.map(lambda e: tf.sparse.map_values(tf.negative, e))],
        [sp(e) for e in tf.data.Dataset.from_tensors(s)],
    ]


def case_sets(tf, np):
    a, b = tf.constant([[1, 2, 3], [4, 4, 5]]), tf.constant([[2, 3, 9], [5, 6, 7]])
    sa = tf.sparse.from_dense([[1, 2, 0], [7, 0, 0]])
    return [
        sp(tf.sets.intersection(a, b)),
        sp(tf.sets.union(a, b)),
        sp(tf.sets.difference(a, b)),
        sp(tf.sets.difference(a, b, aminusb=False)),
        tf.sets.size(sa),
        tf.sparse.to_dense(tf.sets.union(a, b)),
        sp(tf.sets.intersection(tf.constant([["a", "b"]]), tf.constant([["b", "c"]]))),
        sp(tf.sets.union(sa, tf.sparse.from_dense([[2, 3, 0], [7, 0, 0]]))),
        raises(lambda: tf.sets.union(a, tf.constant([[1, 2]])), "ValueError"),
        raises(lambda: tf.sets.union(a, tf.constant([[1.0], [2.0]])), "TypeError", "ValueError"),
        raises(lambda: tf.sets.size(a), "TypeError"),
    ]


def case_cross_and_hashed(tf, np):
    a, b = (
        tf.sparse.from_dense(tf.constant([["a", ""], ["b", "c"]])),
        tf.sparse.from_dense(tf.constant([["d", ""], ["e", ""]])),
    )
    return [
        sp(tf.sparse.cross([a, b])),
        sp(tf.sparse.cross([a, b], separator="|")),
        sp(tf.sparse.cross_hashed([a, b], num_buckets=100)),
    ]


def case_parse_and_serialize(tf, np):
    s = example(tf)
    d = tf.io.deserialize_many_sparse(tf.stack([tf.io.serialize_sparse(s)]), tf.float32)
    m = tf.io.serialize_many_sparse(s)
    return [sp(d), m.shape, m.dtype, sp(tf.io.deserialize_many_sparse(m, tf.float32))]
