"""tf.ragged and RaggedTensor: construction, conversion, operators, reductions, indexing, functions, tf.data, gradients."""

from conformance.runner import dense, raises


def rag(x):
    """A ragged result as plain pieces (list, dtype, ragged rank, static shape); anything else unchanged."""
    if hasattr(x, "to_list") and hasattr(x, "row_splits"):
        return ["ragged", x.to_list(), x.dtype, x.ragged_rank, x.shape]
    return x


def case_constant(tf, np):
    return [
        rag(tf.ragged.constant([[1, 2], [], [3]])),
        rag(tf.ragged.constant([[1.5], [2, 3]])),
        rag(tf.ragged.constant([["a"], [], ["b", "c"]])),
        rag(tf.ragged.constant([[[1, 2], [3]], [], [[]]])),
        rag(tf.ragged.constant([[1], [2]], dtype=tf.float64)),
        rag(tf.ragged.constant([[], []], dtype=tf.int64)),
        tf.ragged.constant([1, 2, 3]),
        rag(tf.ragged.constant([[], []])),
    ]


def case_constant_with_ranks(tf, np):
    return [
        rag(tf.ragged.constant([[[1, 2]], [[3, 4], [5, 6]]], ragged_rank=1)),
        rag(tf.ragged.constant([[[1, 2]], [[3, 4], [5, 6]]])),
        rag(tf.ragged.constant([[[1, 2]], []], inner_shape=(2,))),
        tf.ragged.constant([[1], [2, 3]]).row_splits.dtype,
        tf.ragged.constant([[1], [2, 3]], row_splits_dtype=tf.int32).row_splits,
        raises(lambda: tf.ragged.constant([[1], 2]), "TypeError"),
        raises(lambda: tf.ragged.constant([[[1], [2, 3]]], ragged_rank=1)),
        raises(lambda: tf.ragged.constant([1, 2], ragged_rank=1)),
    ]


def case_from_row_partitions(tf, np):
    v = tf.constant([3, 1, 4, 1, 5, 9])
    R = tf.RaggedTensor
    return [
        rag(R.from_row_splits(v, [0, 4, 4, 6])),
        rag(R.from_row_lengths(v, [4, 0, 2])),
        rag(R.from_value_rowids(v, [0, 0, 0, 0, 2, 2])),
        rag(R.from_value_rowids(v, [0, 0, 0, 0, 2, 2], nrows=5)),
        rag(R.from_row_starts(v, [0, 4, 4])),
        rag(R.from_row_limits(v, [4, 4, 6])),
        rag(R.from_uniform_row_length(v, 2)),
        rag(R.from_uniform_row_length(v, 3)),
    ]


def case_from_nested_partitions(tf, np):
    v = tf.constant([3.0, 1.0, 4.0, 1.0, 5.0])
    r = tf.RaggedTensor.from_nested_row_splits(v, [[0, 2, 3], [0, 3, 3, 5]])
    return [
        rag(r),
        r.nested_row_splits,
        r.flat_values,
        rag(r.values),
        r.nested_row_lengths(),
        rag(tf.RaggedTensor.from_nested_row_lengths(v, [[2, 1], [3, 0, 2]])),
        rag(tf.RaggedTensor.from_nested_value_rowids(v, [[0, 0, 1], [0, 0, 0, 2, 2]])),
        r.nested_value_rowids(),
    ]


def case_partition_accessors(tf, np):
    r = tf.ragged.constant([[3, 1], [], [4, 1, 5]])
    u = tf.RaggedTensor.from_uniform_row_length(tf.constant([1, 2, 3, 4]), 2)
    return [
        r.row_lengths(),
        r.row_starts(),
        r.row_limits(),
        r.value_rowids(),
        r.nrows(),
        r.row_splits,
        r.nrows(out_type=tf.int32),
        r.ragged_rank,
        r.uniform_row_length,
        u.uniform_row_length,
        r.shape,
        u.shape,
        r.bounding_shape(),
        r.bounding_shape(axis=1),
        r.bounding_shape(out_type=tf.int32),
        r.dtype,
        r.values,
        u.row_lengths(),
    ]


def case_partition_errors(tf, np):
    R = tf.RaggedTensor
    return [
        raises(lambda: R.from_row_splits([1, 2, 3], [0, 2]), "ValueError"),
        raises(lambda: R.from_row_splits([1, 2, 3], [1, 3]), "ValueError"),
        raises(lambda: R.from_row_splits([1, 2, 3], [0, 2, 1, 3]), "ValueError"),
        raises(lambda: R.from_row_lengths([1, 2, 3], [1, 1]), "ValueError"),
        raises(lambda: R.from_value_rowids([1, 2], [1, 0]), "ValueError"),
        raises(lambda: R.from_row_splits([1, 2], []), "InvalidArgumentError"),
        raises(lambda: R.from_uniform_row_length([1, 2, 3], 2), "ValueError"),
        raises(lambda: R.from_row_splits([1, 2], [[0, 2]]), "InvalidArgumentError"),
        rag(R.from_row_splits([1, 2, 3], [0, 3], validate=False)),
    ]


def case_to_tensor(tf, np):
    r = tf.ragged.constant([[1, 2], [], [3, 4, 5]])
    n = tf.ragged.constant([[[1], [2, 3]], [], [[4, 5, 6]]])
    return [
        r.to_tensor(),
        r.to_tensor(-1),
        r.to_tensor(shape=[None, 2]),
        r.to_tensor(shape=[4, 4], default_value=9),
        n.to_tensor(),
        n.to_tensor(shape=[None, 1, 2]).shape,
        raises(lambda: tf.convert_to_tensor(r), "TypeError", "ValueError"),
        raises(lambda: r.to_tensor(1.5), "TypeError", "ValueError"),
    ]


def case_from_tensor(tf, np):
    x = tf.constant([[5, 7, 0], [0, 3, 0], [6, 0, 0]])
    R = tf.RaggedTensor
    return [
        rag(R.from_tensor(x)),
        rag(R.from_tensor(x, lengths=[1, 0, 3])),
        rag(R.from_tensor(x, padding=0)),
        rag(R.from_tensor(tf.reshape(tf.range(8), [2, 2, 2]), ragged_rank=2)),
        rag(R.from_tensor(tf.reshape(tf.range(8), [2, 2, 2]), lengths=[1, 2])),
        rag(R.from_tensor(tf.reshape(tf.range(8), [2, 2, 2]), lengths=([2, 1], [2, 0, 1]))),
        raises(lambda: R.from_tensor(x, lengths=[1, 0, 3], padding=0)),
        raises(lambda: R.from_tensor([1, 2])),
    ]


def case_sparse_round_trip(tf, np):
    r = tf.ragged.constant([["a"], [], ["b", "c"]])
    s = r.to_sparse()
    return [
        s.indices,
        s.values,
        s.dense_shape,
        rag(tf.RaggedTensor.from_sparse(s)),
        raises(lambda: tf.RaggedTensor.from_sparse(tf.sparse.from_dense([[0, 1], [2, 0]]))),
    ]


def case_python_views(tf, np):
    r = tf.ragged.constant([[1, 2], [3]])
    n = r.numpy()
    u = tf.ragged.constant([[1, 2], [3, 4]]).numpy()
    return [
        r.to_list(),
        n.dtype.name,
        n.shape,
        [a for a in n],
        u,
        repr(r),
        str(r),
        [row for row in r],
        isinstance(r, tf.RaggedTensor),
        tf.is_tensor(r),
        raises(lambda: len(r)),
        repr(tf.ragged.constant([["x"], []])),
        r.with_values(tf.constant([7, 8, 9])).to_list(),
        r.with_flat_values(tf.constant([1.5, 2.5, 3.5])).to_list(),
    ]


def case_elementwise_operators(tf, np):
    a = tf.ragged.constant([[1.0, 2.0], [], [3.0]])
    b = tf.ragged.constant([[10.0, 20.0], [], [30.0]])
    return [
        rag(a + b),
        rag(a * 2.0),
        rag(1.0 - a),
        rag(a / b),
        rag(-a),
        rag(abs(a - 2.0)),
        rag(a**2.0),
        rag(a > 1.5),
        rag(a == b),
        rag(tf.sqrt(a)),
        rag(tf.maximum(a, 2.0)),
        rag(tf.exp(a)),
        rag(tf.cast(a, tf.int32)),
        rag(tf.ones_like(a)),
        rag(tf.zeros_like(a, tf.int64)),
        rag(tf.identity(a)),
        rag(tf.math.add_n([a, b])),
        rag(tf.add(a, b)),
        rag(a // 2.0),
        rag(a % 2.0),
    ]


def case_broadcasting(tf, np):
    a = tf.ragged.constant([[1, 2], [], [3]])
    n = tf.ragged.constant([[[1, 2], [3]], [[4]]])
    return [
        rag(a + tf.constant([[10], [20], [30]])),
        rag(a + tf.constant(5)),
        rag(n + tf.constant([[[100]], [[200]]])),
        raises(lambda: n * tf.ragged.constant([[[2], [3]], [[4]]]), "ValueError"),
        raises(lambda: a + tf.constant([1, 2])),
        raises(lambda: a + tf.ragged.constant([[1], [2], [3, 4]])),
    ]


def case_reductions(tf, np):
    r = tf.ragged.constant([[3.0, 1.0], [], [4.0, 1.0, 5.0]])
    return [
        tf.reduce_sum(r),
        tf.reduce_sum(r, 0),
        tf.reduce_sum(r, axis=1),
        tf.reduce_mean(r, axis=0),
        tf.reduce_mean(r, axis=1),
        tf.reduce_max(r, axis=1),
        tf.reduce_min(r, axis=0),
        tf.reduce_prod(r, axis=1),
        tf.reduce_sum(r, axis=[0, 1]),
        tf.reduce_sum(r, axis=1, keepdims=True),
        tf.reduce_mean(r),
        tf.reduce_max(r),
        tf.reduce_any(r > 3.0, axis=1),
        tf.reduce_all(r > 3.0, axis=1),
        tf.math.reduce_variance(r[::2], axis=1),
        tf.math.reduce_std(r[::2], axis=1),
    ]


def case_reductions_of_nested(tf, np):
    n = tf.ragged.constant([[[1, 2], [3]], [], [[4, 5, 6]]])
    return [
        rag(tf.reduce_sum(n, axis=0)),
        rag(tf.reduce_sum(n, axis=1)),
        rag(tf.reduce_sum(n, axis=2)),
        tf.reduce_sum(n, axis=[1, 2]),
        tf.reduce_sum(n),
        rag(tf.reduce_max(n, axis=-1)),
        rag(tf.reduce_sum(n, axis=2, keepdims=True)),
        raises(lambda: tf.reduce_sum(n, axis=3)),
    ]


def case_concat_and_stack(tf, np):
    a, b = tf.ragged.constant([[1, 2], [3]]), tf.ragged.constant([[4], [5, 6]])
    return [
        rag(tf.concat([a, b], 0)),
        rag(tf.concat([a, b], 1)),
        rag(tf.concat([a, b], axis=-1)),
        rag(tf.stack([a, b])),
        rag(tf.stack([a, b], axis=1)),
        rag(tf.stack([a, a * 10], axis=2)),
        raises(lambda: tf.stack([a, b], axis=2), "ValueError"),
        rag(tf.concat([a, [[7, 8], [9, 9]]], 0)),
        rag(tf.ragged.stack([[1, 2, 3], [4]])),
        raises(lambda: tf.ragged.stack([tf.constant([1]), tf.constant([2, 3])], axis=1), "ValueError"),
        rag(tf.ragged.stack_dynamic_partitions(tf.constant(["a", "b", "c", "d"]), [2, 0, 2, 1], 4)),
        raises(lambda: tf.concat([a, tf.ragged.constant([[1.0], [2.0]])], 0)),
        raises(lambda: tf.concat([a, tf.ragged.constant([[1]])], 1)),
    ]


def case_tile_expand_squeeze_reverse(tf, np):
    a = tf.ragged.constant([[1, 2], [3]])
    return [
        rag(tf.tile(a, [2, 1])),
        rag(tf.tile(a, [1, 2])),
        rag(tf.expand_dims(a, 0)),
        rag(tf.expand_dims(a, 1)),
        rag(tf.expand_dims(a, -1)),
        rag(tf.squeeze(tf.expand_dims(a, 0), [0])),
        rag(tf.reverse(a, [1])),
        rag(tf.reverse(a, [0])),
        tf.size(a),
        tf.rank(a),
        tf.shape(a).rank,
        raises(lambda: tf.reshape(a, [-1])),
    ]


def case_gather_and_masks(tf, np):
    a = tf.ragged.constant([["a", "b"], [], ["c"], ["d", "e", "f"]])
    m = tf.ragged.constant([[True, False], [], [True], [False, False, True]])
    return [
        rag(tf.gather(a, [3, 0, 1])),
        rag(tf.gather(a, [[0], [2]])),
        rag(tf.gather(tf.constant(["x", "y", "z"]), tf.ragged.constant([[2], [0, 1]]))),
        rag(tf.ragged.boolean_mask(a, [True, False, False, True])),
        rag(tf.ragged.boolean_mask(a, m)),
        rag(tf.ragged.boolean_mask([[1, 2], [3, 4]], [[True, False], [True, True]])),
        rag(tf.gather(a, tf.ragged.constant([[1], [], [0, 0], [2]], dtype=tf.int32), batch_dims=1)),
        tf.gather_nd(a, [[0, 1], [3, 2]]),
        rag(tf.gather_nd(a, [[3], [0]])),
        raises(lambda: tf.gather(a, [4])),
    ]


def case_map_and_where(tf, np):
    a = tf.ragged.constant([[1, 2], [], [3]])
    b = tf.ragged.constant([[10, 20], [], [30]])
    return [
        rag(tf.ragged.map_flat_values(lambda x: x * 2 + 1, a)),
        rag(tf.ragged.map_flat_values(tf.add, a, b)),
        rag(tf.where(a > 1, a, b)),
        tf.where(a > 1),
        raises(lambda: tf.where([True, False, True], a, b), "ValueError"),
        rag(tf.where([[True], [False], [True]], a, b)),
        rag(tf.map_fn(lambda r: r + 1, a, fn_output_signature=tf.RaggedTensorSpec([None], tf.int32))),
        tf.map_fn(tf.reduce_sum, a, fn_output_signature=tf.int32),
        rag(tf.ragged.map_flat_values(tf.one_hot, a, 4)),
        raises(lambda: tf.ragged.map_flat_values(tf.add, a, tf.ragged.constant([[1], [2, 3], []]))),
    ]


def case_indexing(tf, np):
    r = tf.ragged.constant([[1, 2, 3], [4], [], [5, 6]])
    return [
        r[0],
        r[-1],
        r[1, 0],
        r[3, -1],
        rag(r[1:]),
        rag(r[:, :2]),
        rag(r[:, 1:]),
        rag(r[::2]),
        rag(r[:, -1:]),
        rag(r[..., :1]),
        rag(r[:, ::2]),
        rag(r[::-1]),
        rag(r[:, ::-1]),
        rag(r[tf.newaxis]),
        rag(r[:, tf.newaxis]),
        rag(r[1:3, :1]),
        rag(r[5:]),
        r[tf.constant(3)],
        raises(lambda: r[:, 0]),
        raises(lambda: r[1, 1]),
        raises(lambda: r[4]),
    ]


def case_indexing_nested(tf, np):
    n = tf.ragged.constant([[[1, 2], [3]], [], [[4, 5, 6], [], [7]]])
    return [
        rag(n[0]),
        n[2, 0],
        n[2, 0, 1],
        rag(n[2, 1:]),
        rag(n[:, :1]),
        rag(n[:, :, :1]),
        rag(n[:, :, -1:]),
        rag(n[..., 1:]),
        rag(n[2][:, :1]),
        rag(n[0:1, 0:1, 0:1]),
        raises(lambda: n[:, 0]),
    ]


def case_range_and_cross(tf, np):
    return [
        rag(tf.ragged.range([3, 0, 2])),
        rag(tf.ragged.range([0, 5], [3, 7])),
        rag(tf.ragged.range([0, 10], [10, 0], [4, -3])),
        rag(tf.ragged.range(3.0)),
        rag(tf.ragged.range([1.0, 2.0], 3.0, 0.5)),
        rag(tf.ragged.cross([tf.ragged.constant([["a"], ["b", "c"]]), tf.ragged.constant([["d"], ["e"]])])),
        rag(tf.ragged.cross([tf.ragged.constant([["a"], ["b", "c"]]), tf.constant([["x"], ["y"]])])),
        rag(
            tf.ragged.cross_hashed(
                [tf.ragged.constant([["a"], ["b", "c"]]), tf.ragged.constant([["d"], ["e"]])], num_buckets=100
            )
        ),
        raises(lambda: tf.ragged.range([1, 2], [1, 2, 3])),
    ]


def case_row_splits_and_segment_ids(tf, np):
    return [
        tf.ragged.row_splits_to_segment_ids([0, 3, 3, 5]),
        tf.ragged.segment_ids_to_row_splits([0, 0, 0, 2, 2]),
        tf.ragged.segment_ids_to_row_splits([0, 0, 3], num_segments=5),
        tf.ragged.row_splits_to_segment_ids(tf.constant([0, 2, 4], tf.int32)),
        rag(
            tf.math.unsorted_segment_sum(
                tf.ragged.constant([[1, 2], [3], [4, 5, 6]]), tf.ragged.constant([[0, 0], [1], [1, 2, 2]]), 4
            )
        ),
    ]


def case_spec(tf, np):
    s = tf.RaggedTensorSpec([None, None], tf.int32)
    r = tf.ragged.constant([[1], [2, 3]])
    f = tf.type_spec_from_value(r)
    return [
        s.dtype,
        s.shape,
        s.ragged_rank,
        s.row_splits_dtype,
        s.is_compatible_with(r),
        f.shape,
        f == tf.RaggedTensorSpec([2, None], tf.int32),
        tf.RaggedTensorSpec([None, None], tf.float32).is_compatible_with(r),
        repr(s),
        tf.RaggedTensorSpec.from_value(r).ragged_rank,
        s.flat_values_spec is None,
        raises(lambda: tf.RaggedTensorSpec([2, 2], tf.int32, ragged_rank=3)),
    ]


def case_in_function(tf, np):
    @tf.function
    def f(r):
        return r * 2, tf.reduce_sum(r, axis=1), r.row_lengths()

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)])
    def g(r):
        return r[:, :1]

    a, b = tf.ragged.constant([[1, 2], [3]]), tf.ragged.constant([[1], [2, 3]])
    x, y, z = f(a)
    f(b)
    return [
        rag(x),
        y,
        z,
        rag(g(a)),
        rag(g(tf.ragged.constant([[], [7]], dtype=tf.int32))),
        raises(lambda: g(tf.ragged.constant([[1.0]])), "TypeError", "ValueError"),
    ]


def case_dataset_slices_and_batch(tf, np):
    r = tf.ragged.constant([[1, 2], [], [3], [4, 5, 6]])
    ds = tf.data.Dataset.from_tensor_slices(r)
    return [
        [rag(e) for e in ds],
        type(ds.element_spec).__name__,
        ds.element_spec.shape,
        [rag(e) for e in ds.batch(3)],
        type(ds.map(lambda x: x + 1).element_spec).__name__,
        raises(lambda: list(ds.map(lambda x: x + 1).batch(3))),
        [rag(e) for e in ds.map(lambda x: x + 1).ragged_batch(3, drop_remainder=True)],
        [rag(e) for e in tf.data.Dataset.from_tensors(r)],
        [rag(e) for e in ds.filter(lambda x: tf.size(x) > 1)],
        [rag(e) for e in tf.data.Dataset.from_tensors(r).unbatch()],
    ]


def case_dataset_ragged_batch(tf, np):
    ds = tf.data.Dataset.range(5).map(lambda n: tf.range(n))
    d2 = ds.ragged_batch(2)
    return [
        [rag(e) for e in d2],
        d2.element_spec.dtype,
        d2.element_spec.shape,
        [rag(e) for e in ds.ragged_batch(2, drop_remainder=True)],
        [rag(e) for e in ds.apply(tf.data.experimental.dense_to_ragged_batch(3))],
        [
            rag(e)
            for e in tf.data.Dataset.from_tensor_slices({"x": tf.ragged.constant([[1], [2, 3]]), "y": [0, 1]})
            .batch(2)
            .map(lambda d: d["x"])
        ],
    ]


def case_gradient_through_flat_values(tf, np):
    v = tf.constant([1.0, 2.0, 3.0, 4.0])
    with tf.GradientTape(persistent=True) as t:
        t.watch(v)
        r = tf.RaggedTensor.from_row_lengths(v, [2, 0, 2])
        y = tf.reduce_sum(r * r)
        rows = tf.reduce_sum(r**3.0, axis=1)
        mean = tf.reduce_mean(r, axis=0)
        dense_ = r.to_tensor() * tf.constant([[1.0, 10.0]])
    return [t.gradient(y, v), t.gradient(rows, v), t.gradient(mean, v), dense(t.gradient(dense_, v))]


def case_gradient_of_watched_ragged(tf, np):
    r = tf.ragged.constant([[1.0, 2.0], [], [3.0]])
    with tf.GradientTape(persistent=True) as t:
        t.watch(r)
        y = tf.reduce_sum(r * r)
        z = r * 3.0
    g = t.gradient(y, r)
    return [
        rag(g),
        rag(t.gradient(z, r)),
        t.gradient(y, r.flat_values),
        rag(t.gradient(z, r, output_gradients=tf.ragged.constant([[1.0, 2.0], [], [5.0]]))),
        rag(t.gradient(y, [r])[0]),
    ]


def case_gradient_ragged_reductions(tf, np):
    v = tf.constant([1.0, -2.0, 3.0, 3.0, 0.5])
    out = []
    for f in (
        lambda r: tf.reduce_max(r, axis=1),
        lambda r: tf.reduce_min(r, axis=0),
        lambda r: tf.reduce_prod(r, axis=1),
        lambda r: tf.reduce_mean(r, axis=1),
        lambda r: r[:, :1].flat_values,
        lambda r: tf.concat([r, r], 1).flat_values,
        lambda r: tf.gather(r, [2, 0, 2]).flat_values,
        lambda r: tf.ragged.boolean_mask(r, [True, False, True]).flat_values,
    ):
        with tf.GradientTape() as t:
            t.watch(v)
            y = f(tf.RaggedTensor.from_row_splits(v, [0, 2, 4, 5])) ** 2
        out.append(dense(t.gradient(y, v)))
    return out


def case_gradient_embedding_of_ragged_ids(tf, np):
    e = tf.Variable(np.arange(8.0).reshape(4, 2))
    ids = tf.ragged.constant([[1, 3], [], [1]])
    with tf.GradientTape() as t:
        x = tf.nn.embedding_lookup(e, ids)
        y = tf.reduce_sum(x * x, axis=1)
    g = t.gradient(y, e)
    return [rag(x), rag(y), isinstance(g, tf.IndexedSlices), dense(g)]


def case_gradient_in_function_with_ragged(tf, np):
    w = tf.Variable([1.0, 2.0, 3.0])

    @tf.function
    def step(ids):
        with tf.GradientTape() as t:
            s = tf.reduce_mean(tf.gather(w, ids), axis=1)
            loss = tf.reduce_sum(s * s)
        return loss, tf.convert_to_tensor(t.gradient(loss, w))

    return [step(tf.ragged.constant([[0, 2], [1]])), step(tf.ragged.constant([[2], [2, 2, 1]]))]


def case_gradient_where_and_map_flat_values(tf, np):
    r = tf.ragged.constant([[1.0, -2.0], [3.0]])
    with tf.GradientTape(persistent=True) as t:
        t.watch(r.flat_values)
        a = tf.ragged.map_flat_values(tf.nn.relu, r)
        b = tf.where(r > 0.0, r * r, -r)
        s = tf.stack([r, r], axis=0)
    return [
        t.gradient(a.flat_values, r.flat_values),
        t.gradient(b.flat_values, r.flat_values),
        t.gradient(s.flat_values, r.flat_values),
    ]


def case_dropout_softmax_and_math_on_ragged(tf, np):
    r = tf.ragged.constant([[1.0, 2.0, 0.5], [4.0]])
    return [
        rag(tf.nn.softmax(r)),
        rag(tf.nn.relu(r - 1.5)),
        rag(tf.math.log(r)),
        rag(tf.round(r)),
        rag(tf.clip_by_value(r, 1.0, 2.0)),
        rag(tf.math.is_nan(r)),
        rag(tf.one_hot(tf.ragged.constant([[0], [1, 2]]), 3)),
        rag(tf.strings.as_string(tf.ragged.constant([[1], [2, 3]]))),
        rag(tf.nn.dropout(r, 0.0)),
    ]


def case_matmul_of_ragged(tf, np):
    r = tf.ragged.constant([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]], ragged_rank=1)
    m = tf.constant([[1.0, 0.0], [2.0, 1.0]])
    return [rag(tf.ragged.map_flat_values(tf.matmul, r, m)), rag(tf.matmul(r, tf.stack([m, 2 * m])))]


def case_dynamic_shape(tf, np):
    r = tf.ragged.constant([[1, 2], [3]])
    s = tf.shape(r)
    return [
        s[0],
        tf.shape(r).rank,
        type(s).__name__,
        s.num_row_partitions,
        rag(tf.broadcast_to(tf.constant(7), s)),
        tf.expand_dims(r, 0).shape,
        rag(tf.zeros(s)),
        rag(tf.reshape(tf.constant([4, 5, 6]), s)),
    ]


def case_keras_embedding_of_ragged(tf, np):
    layer = tf.keras.layers.Embedding(4, 2, embeddings_initializer="ones")
    ids = tf.ragged.constant([[1, 2], [3]])
    with tf.GradientTape() as t:
        y = layer(ids)
        z = tf.reduce_sum(y * y)
    return [rag(y), z, dense(t.gradient(z, layer.trainable_variables[0].value))]


def case_ragged_variable_and_misc_errors(tf, np):
    r = tf.ragged.constant([[1.0], [2.0, 3.0]])
    return [
        raises(lambda: tf.Variable(r), "*"),
        raises(lambda: tf.matmul(r, r), "*"),
        raises(lambda: bool(r), "*"),
        raises(lambda: r + "a", "*"),
        raises(lambda: tf.transpose(r), "*"),
        raises(lambda: r.assign(1), "AttributeError"),
        raises(lambda: tf.RaggedTensor(r.values, r.row_splits), "*"),
    ]
