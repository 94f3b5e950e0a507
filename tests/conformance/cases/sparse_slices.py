"""tf.IndexedSlices: as gradients, construction, conversion, aggregation."""

from conformance.runner import dense, raises


def case_gather_from_variable(tf, np):
    v = tf.Variable(np.arange(8.0).reshape(4, 2))
    with tf.GradientTape() as t:
        y = tf.gather(v, [3, 0, 3]) * np.arange(6.0).reshape(3, 2)
    return t.gradient(y, v)


def case_gather_from_tensor(tf, np):
    x = tf.constant(np.arange(8.0).reshape(4, 2))
    with tf.GradientTape(persistent=True) as t:
        t.watch(x)
        y = tf.gather(x, [1, 1]) ** 2
        z = tf.gather(x, [1, 0], axis=1) ** 2
        scalar = tf.gather(x, 2)
    return [t.gradient(y, x), t.gradient(z, x), t.gradient(scalar, x)]


def case_index_dtype_is_kept(tf, np):
    v = tf.Variable([1.0, 2.0, 3.0])
    with tf.GradientTape(persistent=True) as t:
        a = tf.gather(v, tf.constant([2, 0], tf.int64))
        b = tf.gather(v, tf.constant([[0, 1], [1, 2]], tf.int32))
    return [t.gradient(a, v), t.gradient(b, v)]


def case_embedding_lookup_duplicates(tf, np):
    v = tf.Variable(np.ones((5, 3)))
    with tf.GradientTape() as t:
        e = tf.nn.embedding_lookup(v, tf.constant([4, 1, 4]))
        y = tf.reduce_sum(e * [[1.0], [2.0], [3.0]])
    g = t.gradient(y, v)
    return [isinstance(g, tf.IndexedSlices), g.indices, g.values, g.dense_shape, g.dtype, tf.convert_to_tensor(g)]


def case_two_lookups_are_aggregated(tf, np):
    v = tf.Variable(np.ones((4, 2)))
    with tf.GradientTape() as t:
        y = tf.reduce_sum(tf.gather(v, [0, 1])) + 10.0 * tf.reduce_sum(tf.gather(v, [1, 3]))
    g = t.gradient(y, v)
    return [isinstance(g, tf.IndexedSlices), dense(g)]


def case_lookup_plus_dense_use(tf, np):
    v = tf.Variable(np.ones((3, 2)))
    with tf.GradientTape() as t:
        y = tf.reduce_sum(tf.gather(v, [2, 2])) + tf.reduce_sum(v * v)
    return t.gradient(y, v)


def case_construct_and_convert(tf, np):
    s = tf.IndexedSlices(
        values=tf.constant([[1.0, 2.0], [3.0, 4.0], [10.0, 20.0]]),
        indices=tf.constant([2, 0, 2]),
        dense_shape=tf.constant([4, 2]),
    )
    return [s, tf.convert_to_tensor(s), s.dtype, s.shape, s.values.shape, tf.is_tensor(s)]


def case_without_dense_shape(tf, np):
    s = tf.IndexedSlices(tf.constant([1.0, 2.0]), tf.constant([0, 2]))
    return [s, s.dense_shape, raises(lambda: tf.convert_to_tensor(s))]


def case_arithmetic_converts(tf, np):
    s = tf.IndexedSlices(tf.constant([[1.0], [2.0]]), tf.constant([0, 2]), tf.constant([3, 1]))
    v = tf.Variable([[5.0], [5.0], [5.0]])
    v.assign_sub(0.5 * tf.convert_to_tensor(s))
    return [tf.reduce_sum(s), tf.add(s, 1.0), -s, v]


def case_scatter_update_from_gradient(tf, np):
    v = tf.Variable(np.zeros((4, 1)))
    with tf.GradientTape() as t:
        y = tf.reduce_sum(tf.gather(v, [1, 3, 1]) * [[1.0], [2.0], [5.0]])
    v.scatter_sub(t.gradient(y, v))
    return v


def case_global_norm_and_clip_with_slices(tf, np):
    s = tf.IndexedSlices(tf.constant([[3.0], [4.0]]), tf.constant([0, 2]), tf.constant([3, 1]))
    clipped, norm = tf.clip_by_global_norm([s, tf.constant([12.0]), None], 6.5)
    return [norm, clipped, tf.linalg.global_norm([s, None])]


def case_gradient_chained_after_lookup(tf, np):
    v = tf.Variable(np.arange(6.0).reshape(3, 2))
    with tf.GradientTape() as t:
        w = v * 2.0
        y = tf.reduce_sum(tf.gather(w, [0, 0, 2]) ** 2)
    return [t.gradient(y, v)]


def case_second_order_through_lookup(tf, np):
    v = tf.Variable([1.0, 2.0, 3.0])
    with tf.GradientTape() as t2:
        with tf.GradientTape() as t1:
            y = tf.reduce_sum(tf.gather(v, [0, 2, 2]) ** 3)
        g = t1.gradient(y, v)
        s = tf.reduce_sum(g.values * [1.0, 2.0, 3.0])
    return [g, dense(t2.gradient(s, v))]
