"""tf.experimental.dtensor on 4 logical CPUs: meshes, layouts, pack and unpack, sharded ops, DVariable.

An area of its own: the collectives of DTensor and of MirroredStrategy cannot live in one TensorFlow process.
"""

from conformance.runner import raises


def _devices(tf):
    """The names of 4 logical CPUs, made on the first call."""
    try:
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 4
        )
    except RuntimeError:
        pass  # already initialised: the count decides
    if len(tf.config.list_logical_devices("CPU")) < 4:
        raise RuntimeError("4 logical CPUs are needed; run this area in a process of its own")
    return ["/CPU:%d" % i for i in range(4)]


def _mesh(tf, dims):
    return tf.experimental.dtensor.create_mesh(dims, devices=[d[1:] for d in _devices(tf)])


def case_dtensor_mesh(tf, np):
    m, n = _mesh(tf, [("x", 2), ("y", 2)]), _mesh(tf, [("batch", 4)])
    return [
        m.to_string(),
        m.dim_names,
        m.size,
        m.shape(),
        m.dim_size("x"),
        m.num_local_devices(),
        m.device_type(),
        m.local_device_ids(),
        n.to_string(),
        n.dim_size("batch"),
        raises(lambda: m.dim_size("z"), "KeyError"),
        raises(lambda: _mesh(tf, [("x", 3)])),
    ]


def case_dtensor_layout(tf, np):
    d = tf.experimental.dtensor
    m = _mesh(tf, [("x", 2), ("y", 2)])
    a, b = d.Layout(["x", d.UNSHARDED], m), d.Layout.replicated(m, rank=2)
    return [
        d.UNSHARDED,
        a.to_string(),
        a.sharding_specs,
        a.rank,
        a.num_shards(0),
        a.num_shards(1),
        a.is_fully_replicated(),
        b.is_fully_replicated(),
        b.sharding_specs,
        d.Layout.batch_sharded(m, "y", rank=3).sharding_specs,
        a == d.Layout(["x", "unsharded"], m),
        a == b,
        a.mesh == m,
        raises(lambda: d.Layout(["z"], m)),
        raises(lambda: d.Layout(["x", "x"], m)),
    ]


def case_dtensor_call_with_layout_and_unpack(tf, np):
    d = tf.experimental.dtensor
    m = _mesh(tf, [("x", 2), ("y", 2)])
    a = d.call_with_layout(tf.ones, d.Layout(["x", d.UNSHARDED], m), shape=(4, 3))
    z = d.call_with_layout(tf.zeros, d.Layout.replicated(m, rank=1), shape=(2,))
    return [
        a.shape,
        a.dtype,
        d.fetch_layout(a).sharding_specs,
        [p.shape for p in d.unpack(a)],
        d.unpack(a)[3],
        d.unpack(z),
        z.numpy(),
        d.is_dtensor(a),
        d.is_dtensor(tf.ones([1])),
    ]


def case_dtensor_pack(tf, np):
    d = tf.experimental.dtensor
    m = _mesh(tf, [("x", 2), ("y", 2)])
    t = d.pack([tf.constant([[float(i)]]) for i in range(4)], d.Layout(["x", "y"], m))
    s = t * 2.0 + 1.0
    return [
        t.shape,
        d.unpack(t),
        d.fetch_layout(s).sharding_specs,
        d.unpack(s),
        d.unpack(tf.reduce_sum(t)),
        raises(lambda: t.numpy(), "ValueError"),
    ]


def case_dtensor_matmul(tf, np):
    d = tf.experimental.dtensor
    m = _mesh(tf, [("x", 2), ("y", 2)])
    a, b = np.arange(8, dtype=np.float32).reshape(4, 2), np.arange(8, dtype=np.float32).reshape(2, 4)
    A = d.pack(
        [tf.constant(a[:2]), tf.constant(a[:2]), tf.constant(a[2:]), tf.constant(a[2:])],
        d.Layout(["x", d.UNSHARDED], m),
    )
    B = d.pack([tf.constant(b[:, :2]), tf.constant(b[:, 2:])] * 2, d.Layout([d.UNSHARDED, "y"], m))
    c = tf.matmul(A, B)
    r = d.relayout(c, d.Layout.replicated(m, rank=2))
    return [c.shape, d.fetch_layout(c).sharding_specs, d.unpack(c), r.numpy()]


def case_dtensor_variable(tf, np):
    d = tf.experimental.dtensor
    m = _mesh(tf, [("x", 4)])
    lay = d.Layout(["x"], m)
    v = d.DVariable(d.pack([tf.constant([float(i)]) for i in range(4)], lay))
    v.assign_add(d.call_with_layout(tf.ones, lay, shape=(4,)))
    y = tf.reduce_sum(v * v)
    return [v.layout.sharding_specs, d.unpack(v.read_value()), d.unpack(y)[0], isinstance(v, tf.Variable), v.shape]


def case_dtensor_gradient(tf, np):
    d = tf.experimental.dtensor
    m = _mesh(tf, [("x", 4)])
    lay = d.Layout(["x"], m)
    v = d.DVariable(d.pack([tf.constant([float(i)]) for i in range(4)], lay))

    @tf.function
    def f():
        with tf.GradientTape() as t:
            y = tf.reduce_sum(v * v * v)
        return y, t.gradient(y, v)

    y, g = f()
    return [d.unpack(y), d.fetch_layout(g).sharding_specs, d.unpack(g)]
