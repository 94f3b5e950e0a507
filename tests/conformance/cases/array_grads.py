"""Ops that move, pick, combine and scatter elements: value and gradient."""

from conformance.runner import dense, raises


def _arr(np, *shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).round(3)


def g(tf, np, f, *arrays):
    """Value (a tensor) and gradients for all inputs, with a non-uniform upstream gradient."""
    xs = [tf.constant(a) for a in arrays]
    with tf.GradientTape() as t:
        t.watch(xs)
        y = f(*xs)
    n = int(np.prod(tuple(y.shape)))
    og = tf.constant(((np.arange(n) % 7) * 0.5 - 1.25).reshape(tuple(y.shape)).astype(y.dtype.as_numpy_dtype))
    return [y, dense(t.gradient(y, xs, output_gradients=og))]


def gm(tf, np, f, *arrays):
    """Like g for functions with several outputs: weighted sum of all of them."""
    xs = [tf.constant(a) for a in arrays]
    with tf.GradientTape() as t:
        t.watch(xs)
        ys = list(f(*xs))
        s = tf.add_n(
            [
                tf.reduce_sum(
                    y * (((np.arange(int(np.prod(tuple(y.shape)))) % 5) - 1.5) * (k + 1)).reshape(tuple(y.shape))
                )
                for k, y in enumerate(ys)
            ]
        )
    return [ys, dense(t.gradient(s, xs))]


def case_reshape(tf, np):
    x = _arr(np, 2, 6)
    return [
        g(tf, np, lambda a: tf.reshape(a, [3, 4]), x),
        g(tf, np, lambda a: tf.reshape(a, [-1]), x),
        g(tf, np, lambda a: tf.reshape(a, (2, -1, 3)), x),
        raises(lambda: tf.reshape(x, [5]), "ValueError"),
        raises(lambda: tf.reshape(x, [-1, -1]), "ValueError"),
    ]


def case_transpose(tf, np):
    return [
        g(tf, np, tf.transpose, _arr(np, 2, 3)),
        g(tf, np, tf.transpose, _arr(np, 2, 3, 2)),
        g(tf, np, lambda a: tf.transpose(a, [1, 2, 0]), _arr(np, 2, 3, 4)),
        g(tf, np, lambda a: tf.transpose(a, perm=[0, 2, 1]), _arr(np, 2, 3, 2)),
        raises(lambda: tf.transpose(tf.ones([2, 3]), [0, 0]), "ValueError"),
    ]


def case_expand_dims_squeeze(tf, np):
    x, z = _arr(np, 2, 3), _arr(np, 1, 3, 1)
    return [
        g(tf, np, lambda a: tf.expand_dims(a, 0), x),
        g(tf, np, lambda a: tf.expand_dims(a, -1), x),
        g(tf, np, tf.squeeze, z),
        g(tf, np, lambda a: tf.squeeze(a, [0]), z),
        g(tf, np, lambda a: tf.squeeze(a, axis=-1), z),
        raises(lambda: tf.squeeze(tf.constant(z), [1]), "ValueError"),
        raises(lambda: tf.expand_dims(tf.ones([2]), 3), "ValueError"),
    ]


def case_concat(tf, np):
    a, b = _arr(np, 2, 3), _arr(np, 2, 2, seed=1)
    return [
        g(tf, np, lambda p, q: tf.concat([p, q], 1), a, b),
        g(tf, np, lambda p: tf.concat([p, p * 2.0], axis=0), a),
        g(tf, np, lambda p, q: tf.concat([q, p, q], -1), a, b),
        g(tf, np, lambda p: tf.concat([p], 0), a),
        raises(lambda: tf.concat([tf.ones([2, 3]), tf.ones([3, 2])], 0), "ValueError"),
    ]


def case_stack_unstack(tf, np):
    a, b = _arr(np, 2, 3), _arr(np, 2, 3, seed=1)
    return [
        g(tf, np, lambda p, q: tf.stack([p, q]), a, b),
        g(tf, np, lambda p, q: tf.stack([p, q, p], axis=1), a, b),
        g(tf, np, lambda p, q: tf.stack([p, q], -1), a, b),
        gm(tf, np, lambda p: tf.unstack(p, axis=1), a),
        gm(tf, np, tf.unstack, a),
        raises(lambda: tf.stack([tf.ones([2]), tf.ones([3])]), "ValueError"),
    ]


def case_split(tf, np):
    x = _arr(np, 4, 6)
    return [
        gm(tf, np, lambda a: tf.split(a, 2), x),
        gm(tf, np, lambda a: tf.split(a, 3, axis=1), x),
        gm(tf, np, lambda a: tf.split(a, [1, 2, 3], axis=-1), x),
        gm(tf, np, lambda a: tf.split(a, [1, -1], 0), x),
        raises(lambda: tf.split(tf.ones([5]), 2), "ValueError"),
    ]


def case_unused_split_output(tf, np):
    x = tf.constant(_arr(np, 4))
    with tf.GradientTape() as t:
        t.watch(x)
        a, b = tf.split(x, 2)
        y = a * a
    return [y, t.gradient(y, x)]


def case_tile(tf, np):
    x = _arr(np, 2, 3)
    return [
        g(tf, np, lambda a: tf.tile(a, [1, 2]), x),
        g(tf, np, lambda a: tf.tile(a, [3, 1]), x),
        g(tf, np, lambda a: tf.tile(a, [2, 2]), x),
    ]


def case_pad_modes(tf, np):
    x = _arr(np, 2, 3)
    p = [[1, 0], [2, 1]]
    return [
        g(tf, np, lambda a: tf.pad(a, p), x),
        g(tf, np, lambda a: tf.pad(a, p, constant_values=9.0), x),
        g(tf, np, lambda a: tf.pad(a, p, mode="REFLECT"), x),
        g(tf, np, lambda a: tf.pad(a, [[1, 2], [0, 3]], mode="symmetric"), x),
        raises(lambda: tf.pad(tf.constant(x), [[2, 0], [0, 0]], "REFLECT"), "ValueError"),
        raises(lambda: tf.pad(tf.constant(x), p, "EDGE"), "InvalidArgumentError"),
    ]


def case_gather_axis(tf, np):
    x = _arr(np, 3, 4)
    return [
        g(tf, np, lambda a: tf.gather(a, [2, 0, 2]), x),
        g(tf, np, lambda a: tf.gather(a, [1, 3], axis=1), x),
        g(tf, np, lambda a: tf.gather(a, [[0, 1], [3, 3]], axis=-1), x),
        g(tf, np, lambda a: tf.gather(a, 1), x),
        g(tf, np, lambda a: tf.gather(a, tf.zeros([0], tf.int32)), x),
        raises(lambda: tf.gather(tf.constant(x), [3]), "IndexError"),
    ]


def case_gather_batch_dims(tf, np):
    x = _arr(np, 2, 3, 4)
    return [
        g(tf, np, lambda a: tf.gather(a, [[2, 0], [1, 1]], batch_dims=1), x),
        g(tf, np, lambda a: tf.gather(a, [[3, 0], [1, 1]], axis=2, batch_dims=1), x),
        g(tf, np, lambda a: tf.gather(a, [[1], [2]], axis=1, batch_dims=1), x),
    ]


def case_gather_nd(tf, np):
    x = _arr(np, 2, 3, 2)
    return [
        g(tf, np, lambda a: tf.gather_nd(a, [[0, 1], [1, 2], [0, 1]]), x),
        g(tf, np, lambda a: tf.gather_nd(a, [[0, 1, 1], [1, 0, 0]]), x),
        g(tf, np, lambda a: tf.gather_nd(a, [[1]]), x),
        g(tf, np, lambda a: tf.gather_nd(a, [[[2], [0]], [[1], [1]]], batch_dims=1), x),
    ]


def case_scatter_nd(tf, np):
    return [
        g(tf, np, lambda u: tf.scatter_nd([[1], [3], [1]], u, [5]), _arr(np, 3)),
        g(tf, np, lambda u: tf.scatter_nd([[0], [2]], u, [3, 2]), _arr(np, 2, 2)),
        g(tf, np, lambda u: tf.scatter_nd([[0, 1], [2, 0]], u, [3, 2]), _arr(np, 2)),
        raises(lambda: tf.scatter_nd([[7]], [1.0], [3]), "IndexError"),
    ]


def case_tensor_scatter_nd_update_add_sub(tf, np):
    x, u = _arr(np, 4, 2), _arr(np, 2, 2, seed=1)
    i = [[2], [0]]
    return [
        g(tf, np, lambda a, b: tf.tensor_scatter_nd_update(a, i, b), x, u),
        g(tf, np, lambda a, b: tf.tensor_scatter_nd_add(a, [[1], [1]], b), x, u),
        g(tf, np, lambda a, b: tf.tensor_scatter_nd_sub(a, i, b), x, u),
        g(tf, np, lambda a, b: tf.tensor_scatter_nd_update(a, [[0, 1], [3, 0]], b), x, u[0]),
    ]


def case_tensor_scatter_nd_max_min(tf, np):
    x, u = np.array([1.0, 2.0, 3.0, 4.0]), np.array([5.0, 0.5, 4.0])
    i = [[0], [1], [3]]
    return [
        g(tf, np, lambda a, b: tf.tensor_scatter_nd_max(a, i, b), x, u),
        g(tf, np, lambda a, b: tf.tensor_scatter_nd_min(a, i, b), x, u),
    ]


def case_boolean_mask(tf, np):
    x = _arr(np, 3, 4)
    return [
        g(tf, np, lambda a: tf.boolean_mask(a, [True, False, True]), x),
        g(tf, np, lambda a: tf.boolean_mask(a, a > 0), x),
        g(tf, np, lambda a: tf.boolean_mask(a, [True, False, False, True], axis=1), x),
    ]


def case_where_select(tf, np):
    x, z = _arr(np, 2, 3), _arr(np, 2, 3, seed=1)
    return [
        g(tf, np, lambda a, b: tf.where(a > b, a, b), x, z),
        g(tf, np, lambda a: tf.where(a > 0, a * a, 0.0), x),
        g(tf, np, lambda a, b: tf.where([[True], [False]], a, b), x, z),
        g(tf, np, lambda a, b: tf.where([True, False, False], a, b[0]), x, z),
        tf.where([[True, False], [True, True]]),
    ]


def case_roll_reverse(tf, np):
    x = _arr(np, 2, 4)
    return [
        g(tf, np, lambda a: tf.roll(a, 1, 1), x),
        g(tf, np, lambda a: tf.roll(a, shift=[1, -2], axis=[0, 1]), x),
        g(tf, np, lambda a: tf.reverse(a, [1]), x),
        g(tf, np, lambda a: tf.reverse(a, axis=[0, -1]), x),
        g(tf, np, lambda a: tf.reverse_sequence(a, [2, 3], seq_axis=1, batch_axis=0), x),
    ]


def case_repeat(tf, np):
    x = _arr(np, 2, 3)
    return [
        g(tf, np, lambda a: tf.repeat(a, 2, axis=0), x),
        g(tf, np, lambda a: tf.repeat(a, [1, 0, 3], axis=1), x),
        g(tf, np, lambda a: tf.repeat(a, 2), x),
    ]


def case_broadcast_to(tf, np):
    return [
        g(tf, np, lambda a: tf.broadcast_to(a, [2, 3]), _arr(np, 3)),
        g(tf, np, lambda a: tf.broadcast_to(a, [2, 3, 2]), _arr(np, 3, 1)),
        g(tf, np, lambda a: tf.broadcast_to(a, [2, 2]), np.array(1.5)),
    ]


def case_meshgrid(tf, np):
    a, b = _arr(np, 3), _arr(np, 2, seed=1)
    return [gm(tf, np, tf.meshgrid, a, b), gm(tf, np, lambda p, q: tf.meshgrid(p, q, indexing="ij"), a, b)]


def case_one_hot_and_sequence_mask(tf, np):
    x = _arr(np, 2, 3)
    return [
        tf.one_hot([1, -1, 3], 3),
        tf.one_hot([[0], [1]], 2, on_value=5.0, off_value=-1.0, axis=1),
        tf.one_hot([0, 1], 2, dtype=tf.int32),
        tf.sequence_mask([1, 3, 0], 4),
        tf.sequence_mask([1, 2], dtype=tf.float32),
        g(tf, np, lambda a: a * tf.one_hot([2, 0], 3, dtype=tf.float64), x),
        g(tf, np, lambda a: tf.one_hot([0, 2], 3, on_value=a, off_value=tf.constant(0.5, tf.float64)), np.array(2.0)),
    ]


def case_cumsum(tf, np):
    x = _arr(np, 2, 4)
    return [
        g(tf, np, lambda a: tf.cumsum(a, axis=1), x),
        g(tf, np, lambda a: tf.cumsum(a, axis=0), x),
        g(tf, np, lambda a: tf.cumsum(a, 1, exclusive=True), x),
        g(tf, np, lambda a: tf.cumsum(a, 1, reverse=True), x),
        g(tf, np, lambda a: tf.cumsum(a, -1, exclusive=True, reverse=True), x),
    ]


def case_cumprod(tf, np):
    x = _arr(np, 2, 4)
    return [
        g(tf, np, lambda a: tf.math.cumprod(a, axis=1), x),
        g(tf, np, lambda a: tf.math.cumprod(a, 1, exclusive=True), x),
        g(tf, np, lambda a: tf.math.cumprod(a, 1, reverse=True), x),
        g(tf, np, lambda a: tf.math.cumprod(a, 1, exclusive=True, reverse=True), x),
        g(tf, np, tf.math.cumprod, np.array([1.0, 0.0, 2.0])),
    ]


def case_sort_argsort(tf, np):
    x = _arr(np, 2, 5)
    return [
        g(tf, np, tf.sort, x),
        g(tf, np, lambda a: tf.sort(a, direction="DESCENDING"), x),
        g(tf, np, lambda a: tf.sort(a, axis=0), x),
        tf.argsort(x),
        tf.argsort(x, axis=0, direction="DESCENDING"),
        tf.argsort([3, 1, 3, 1], stable=True),
    ]


def case_top_k(tf, np):
    x = _arr(np, 2, 5)
    return [
        g(tf, np, lambda a: tf.math.top_k(a, 3).values, x),
        g(tf, np, lambda a: tf.math.top_k(a, k=2).values, x[0]),
        tf.math.top_k(x, 2).indices,
        tf.math.in_top_k([1, 0], tf.constant([[0.1, 0.9], [0.2, 0.8]]), 1),
    ]


def case_segment_reductions(tf, np):
    x = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 4.0], [7.0, 8.0]])
    s = [0, 0, 2, 2]
    return [
        g(tf, np, lambda a: f(a, s), x)
        for f in (tf.math.segment_sum, tf.math.segment_mean, tf.math.segment_max, tf.math.segment_min)
    ]


def case_unsorted_segment_reductions(tf, np):
    x = np.array([1.0, 2.0, -3.0, 2.0, 5.0])
    s = [1, 0, 1, 0, 3]
    return [
        g(tf, np, lambda a: f(a, s, 4), x)
        for f in (
            tf.math.unsorted_segment_sum,
            tf.math.unsorted_segment_mean,
            tf.math.unsorted_segment_prod,
            tf.math.unsorted_segment_sqrt_n,
            tf.math.unsorted_segment_max,
        )
    ] + [g(tf, np, lambda a: tf.math.unsorted_segment_sum(a, [0, -1, 0, 1, -1], 2), x)]


def case_einsum_matmul_like(tf, np):
    a, b = _arr(np, 2, 3), _arr(np, 3, 4, seed=1)
    return [
        g(tf, np, lambda p, q: tf.einsum("ij,jk->ik", p, q), a, b),
        g(tf, np, lambda p, q: tf.einsum("ij,jk->ki", p, q), a, b),
        g(tf, np, lambda p, q: tf.einsum("ij,jk", p, q), a, b),
        g(tf, np, lambda p, q: tf.einsum("ij,ij->", p, q), a, _arr(np, 2, 3, seed=2)),
    ]


def case_einsum_batch_and_outer(tf, np):
    a, b = _arr(np, 2, 3, 4), _arr(np, 2, 4, 2, seed=1)
    return [
        g(tf, np, lambda p, q: tf.einsum("bij,bjk->bik", p, q), a, b),
        g(tf, np, lambda p, q: tf.einsum("i,j->ij", p, q), _arr(np, 3), _arr(np, 2, seed=1)),
        g(tf, np, lambda p, q: tf.einsum("bhd,bkd->bhk", p, q), _arr(np, 2, 3, 2), _arr(np, 2, 4, 2, seed=3)),
        g(
            tf,
            np,
            lambda p, q, r: tf.einsum("ab,bc,cd->ad", p, q, r),
            _arr(np, 2, 2),
            _arr(np, 2, 3, seed=1),
            _arr(np, 3, 2, seed=2),
        ),
    ]


def case_einsum_unary_and_ellipsis(tf, np):
    x = _arr(np, 3, 3)
    return [
        g(tf, np, lambda a: tf.einsum("ii->i", a), x),
        g(tf, np, lambda a: tf.einsum("ii", a), x),
        g(tf, np, lambda a: tf.einsum("ij->ji", a), x),
        g(tf, np, lambda a: tf.einsum("ij->j", a), x),
        g(tf, np, lambda a: tf.einsum("...ij->...", a), _arr(np, 2, 2, 3)),
        g(tf, np, lambda p, q: tf.einsum("...ij,jk->...ik", p, q), _arr(np, 2, 2, 3), _arr(np, 3, 2, seed=1)),
        raises(lambda: tf.einsum("ij,jk->ik", x, _arr(np, 2, 3)), "ValueError"),
    ]


def case_band_part_and_diag(tf, np):
    x = _arr(np, 3, 4)
    return [
        g(tf, np, lambda a: tf.linalg.band_part(a, 1, 0), x),
        g(tf, np, lambda a: tf.linalg.band_part(a, 0, -1), x),
        g(tf, np, tf.linalg.diag, _arr(np, 2, 3)),
        g(tf, np, tf.linalg.diag_part, x),
        g(tf, np, lambda a: tf.linalg.diag(a, k=1), _arr(np, 2)),
        g(tf, np, lambda a: tf.linalg.diag_part(a, k=-1), x),
    ]


def case_set_diag_and_trace(tf, np):
    return [
        g(tf, np, tf.linalg.set_diag, _arr(np, 3, 3), _arr(np, 3, seed=1)),
        g(tf, np, tf.linalg.trace, _arr(np, 2, 3, 3)),
        g(tf, np, tf.linalg.tensor_diag, _arr(np, 3)),
        g(tf, np, tf.linalg.tensor_diag_part, _arr(np, 3, 3)),
    ]


def case_slice_and_strided_slice(tf, np):
    x = _arr(np, 3, 4)
    return [
        g(tf, np, lambda a: tf.slice(a, [1, 0], [2, 3]), x),
        g(tf, np, lambda a: tf.slice(a, [0, 1], [-1, 2]), x),
        g(tf, np, lambda a: tf.strided_slice(a, [2, 0], [0, 4], [-1, 2]), x),
        g(tf, np, lambda a: a[1:, ::-2], x),
    ]


def case_space_depth_batch(tf, np):
    return [
        g(tf, np, lambda a: tf.nn.space_to_depth(a, 2), _arr(np, 1, 2, 4, 1)),
        g(tf, np, lambda a: tf.nn.depth_to_space(a, 2), _arr(np, 1, 1, 2, 4)),
        g(tf, np, lambda a: tf.space_to_batch(a, [2, 2], [[0, 0], [0, 0]]), _arr(np, 1, 2, 2, 1)),
    ]


def case_identity_stop_and_zeros_like(tf, np):
    x = _arr(np, 3)
    return [
        g(tf, np, lambda a: tf.identity(a) * a, x),
        g(tf, np, lambda a: tf.stop_gradient(a) * a, x),
        g(tf, np, lambda a: tf.zeros_like(a) + a * tf.ones_like(a), x),
    ]


def case_shape_size_are_constants(tf, np):
    x = tf.constant(_arr(np, 2, 3))
    with tf.GradientTape(persistent=True) as t:
        t.watch(x)
        n = tf.cast(tf.size(x), tf.float64)
        m = tf.reduce_sum(x) / n
        s = tf.cast(tf.shape(x), tf.float64)
    return [t.gradient(m, x), t.gradient(n, x), t.gradient(s, x)]


def case_unique_and_searchsorted_values(tf, np):
    y, idx = tf.unique([3, 1, 3, 2, 1])
    return [
        y,
        idx,
        tf.searchsorted([1.0, 3.0, 5.0], [0.5, 3.0, 6.0]),
        tf.searchsorted([1.0, 3.0, 5.0], [3.0], side="right"),
        tf.math.bincount([1, 1, 3]),
        tf.histogram_fixed_width([0.0, 0.5, 1.0, 2.5], [0.0, 3.0], nbins=3),
    ]


def case_dynamic_partition_and_stitch(tf, np):
    x = _arr(np, 5)
    return [
        gm(tf, np, lambda a: tf.dynamic_partition(a, [0, 1, 0, 1, 1], 2), x),
        g(tf, np, lambda a, b: tf.dynamic_stitch([[0, 2], [1, 3, 4]], [a, b]), x[:2], x[2:]),
    ]


def case_float32_composition(tf, np):
    x = _arr(np, 4, 3).astype(np.float32)

    def f(a):
        b = tf.concat([a, tf.reverse(a, [0])], 1)
        c = tf.transpose(tf.reshape(b, [3, 8]))
        return tf.gather(c, [0, 5, 5]) * tf.tile(c[:1], [3, 1]) + tf.pad(c[2:4], [[0, 1], [0, 0]])

    return g(tf, np, f, x)
