"""tf.distribute on 4 logical CPUs: strategies, contexts, collectives, input, variables, tapes, Keras.

The 4 devices have to exist before the first tensor, so run.py gives this area a process of its own.
In TensorFlow the collectives of two strategies in one process get into each other's way (equal group and
instance keys), so there is one strategy per number of replicas, and only the one over two devices uses the
default cross-device ops.
"""

import json
import os

from conformance.runner import raises, tol


# ---------------------------------------------------------------- helpers
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


_STRATEGIES = {}


def _mirrored(tf, n=2):
    """The MirroredStrategy over the first n devices, made once."""
    if n not in _STRATEGIES:
        ops = {} if n == 2 else {"cross_device_ops": tf.distribute.ReductionToOneDevice()}
        _STRATEGIES[n] = tf.distribute.MirroredStrategy(_devices(tf)[:n], **ops)
    return _STRATEGIES[n]


def _id(tf):
    return tf.distribute.get_replica_context().replica_id_in_sync_group


def _fid(tf):
    return tf.cast(_id(tf), tf.float32)


def _local(s, x):
    return s.experimental_local_results(x)


def _per(tf, s, arrays):
    """A PerReplica with the given constants."""
    return s.experimental_distribute_values_from_function(lambda c: tf.constant(arrays[c.replica_id_in_sync_group]))


def _both(tf, s, fn):
    """Local results of fn() run eagerly and inside tf.function."""
    return [_local(s, fn()), _local(s, tf.function(fn)())]


def _copies(s, v):
    """The values of a distributed variable's components."""
    return [c.numpy() for c in _local(s, v)]


def _batches(s, dataset):
    return [_local(s, e) for e in dataset]


def _specs(tf, spec):
    return [[x.shape, x.dtype] for x in tf.nest.flatten(spec, expand_composites=True)]


def _with_tf_config(config, fn):
    before = os.environ.get("TF_CONFIG")
    os.environ["TF_CONFIG"] = json.dumps(config)
    try:
        return fn()
    finally:
        if before is None:
            del os.environ["TF_CONFIG"]
        else:
            os.environ["TF_CONFIG"] = before


# ---------------------------------------------------------------- strategies and contexts
def case_mirrored_replica_counts(tf, np):
    return [_mirrored(tf, n).num_replicas_in_sync for n in (1, 2, 3, 4)]


def case_mirrored_worker_devices(tf, np):
    _devices(tf)
    s = tf.distribute.MirroredStrategy(["CPU:2", "/device:CPU:0", "cpu:1"])
    full = ["/job:localhost/replica:0/task:0/device:CPU:%d" % i for i in (3, 1)]
    return [
        s.num_replicas_in_sync,
        s.extended.worker_devices,
        s.extended.parameter_devices,
        tf.distribute.MirroredStrategy(full).extended.worker_devices,
    ]


def case_replica_places_its_ops(tf, np):
    s = _mirrored(tf, 4)
    r = s.run(lambda: tf.constant(1.0) + 1.0)
    return [[x.device for x in _local(s, r)], _local(s, r)]


def case_one_device_strategy(tf, np):
    d = _devices(tf)
    s = tf.distribute.OneDeviceStrategy(d[1])
    with s.scope():
        v = tf.Variable(2.0)
        inside = [tf.distribute.has_strategy(), tf.distribute.in_cross_replica_context()]
    y = s.run(lambda a, b: v * a + b, args=(3.0,), kwargs={"b": 1.0})
    return [
        s.num_replicas_in_sync,
        s.extended.worker_devices,
        inside,
        y,
        _local(s, y),
        y.device,
        v.device,
        v,
        s.reduce("SUM", tf.constant([1.0, 2.0]), axis=0),
        s.reduce("MEAN", tf.constant([1.0, 2.0]), axis=0),
        s.reduce("MEAN", tf.constant([1.0, 2.0]), axis=None),
        s.gather(tf.constant([1.0, 2.0]), axis=0),
        s.run(lambda: _id(tf)),
    ]


def case_default_strategy(tf, np):
    _devices(tf)
    s = tf.distribute.get_strategy()
    c = tf.distribute.get_replica_context()
    return [
        s.num_replicas_in_sync,
        tf.distribute.has_strategy(),
        tf.distribute.in_cross_replica_context(),
        c is not None,
        c.num_replicas_in_sync,
        s.run(lambda a, b=0.0: a + b, args=(tf.constant(1.0),), kwargs={"b": 2.0}),
        s.reduce("SUM", tf.constant([1.0, 2.0]), axis=0),
        s.reduce("MEAN", tf.constant([1.0, 5.0]), axis=None),
        _local(s, tf.constant(4.0)),
        c.all_reduce("SUM", tf.constant(7.0)),
        c.merge_call(lambda st, x: [tf.distribute.in_cross_replica_context(), st is s, x], args=(5,)),
    ]


def case_default_strategy_scope(tf, np):
    _devices(tf)
    s = tf.distribute.get_strategy()
    with s.scope():
        a = [tf.distribute.has_strategy(), tf.distribute.in_cross_replica_context(), tf.distribute.get_strategy() is s]
    return [a, [tf.distribute.has_strategy(), tf.distribute.in_cross_replica_context()]]


def _where(tf, s):
    d = tf.distribute
    return [d.has_strategy(), d.get_strategy() is s, d.in_cross_replica_context(), d.get_replica_context() is None]


def case_contexts_outside_and_in_scope(tf, np):
    s = _mirrored(tf)
    out = [_where(tf, s)]
    with s.scope():
        out.append(_where(tf, s))
        with s.scope():
            out.append(_where(tf, s))
        out.append(_where(tf, s))
    return out + [_where(tf, s)]


def case_contexts_in_run(tf, np):
    s = _mirrored(tf)
    seen = []

    def merged(strategy):
        seen.append([strategy is s] + _where(tf, s))

    def replica():
        seen.append(_where(tf, s))
        c = tf.distribute.get_replica_context()
        seen.append([c.num_replicas_in_sync, c.strategy is s])
        c.merge_call(merged)
        seen.append(_where(tf, s))
        return tf.constant(0.0)

    s.run(replica)
    eager = len(seen)
    with s.scope():
        tf.function(lambda: s.run(replica))()
    return [eager, len(seen), sorted(seen[:eager], key=str), sorted(seen[eager:], key=str)]


def case_scope_is_left_after_an_error(tf, np):
    s = _mirrored(tf)

    def bad():
        with s.scope():
            raise KeyError("x")

    r = [raises(bad), _where(tf, s)]

    def boom():
        raise ZeroDivisionError("in replica")

    return r + [raises(lambda: s.run(boom), match="in replica"), _where(tf, s), _local(s, s.run(lambda: _id(tf)))]


def case_replica_ids(tf, np):
    return [_both(tf, s, lambda s=s: s.run(lambda: _id(tf))) for s in (_mirrored(tf, 2), _mirrored(tf, 4))]


# ---------------------------------------------------------------- run
def case_run_args_and_kwargs(tf, np):
    s = _mirrored(tf)
    x = _per(tf, s, [[1.0, 2.0], [3.0, 4.0]])

    def f(a, b, scale=1.0, shift=None):
        return a * b * scale + shift

    return [
        _both(tf, s, lambda: s.run(f, args=(x, tf.constant(10.0)), kwargs={"scale": 2.0, "shift": x})),
        _both(tf, s, lambda: s.run(f, args=[x, x], kwargs=dict(shift=0.5))),
        raises(lambda: s.run(f, args=(x,), kwargs={"nosuch": 1})),
        raises(lambda: s.run(lambda a: a, args=tf.constant(1.0)), "TypeError"),
    ]


def case_run_nested_structures(tf, np):
    s = _mirrored(tf)
    x, y = _per(tf, s, [1.0, 2.0]), _per(tf, s, [[1], [2]])

    def f(tree, pair):
        a, (b, c) = tree["a"], pair
        return {"sum": a + b, "more": [c, (tree["k"], tf.cast(_id(tf), tf.int64))]}

    r = s.run(f, args=({"a": x, "k": 7}, (10.0, y)))
    return [_local(s, r), _local(s, r["sum"]), _local(s, r["more"][0])]


def case_run_returns_python_values(tf, np):
    s = _mirrored(tf)
    return [
        s.run(lambda: None),
        s.run(lambda: 3),
        s.run(lambda: "a"),
        _local(s, s.run(lambda: (None, 1.5, tf.constant(2)))),
        _local(s, s.run(lambda: {})),
        _local(s, tf.function(lambda: s.run(lambda: [tf.constant(1), None]))()),
    ]


def case_run_a_tf_function(tf, np):
    s = _mirrored(tf)
    traces = []

    @tf.function
    def f(x):
        traces.append(1)
        return x * (_fid(tf) + 1.0)

    r = s.run(f, args=(tf.constant([1.0, 2.0]),))
    return [_local(s, r), len(traces) >= 1]


def case_local_results_of_plain_values(tf, np):
    s = _mirrored(tf)
    return [_local(s, tf.constant(1.0)), _local(s, 5), _local(s, None), _local(s, [1, tf.constant(2.0)])]


def case_per_replica_is_opaque(tf, np):
    s = _mirrored(tf)
    x = _per(tf, s, [1.0, 2.0])
    with s.scope():
        v = tf.Variable(1.0)
    return [
        isinstance(x, tf.distribute.DistributedValues),
        isinstance(v, tf.distribute.DistributedValues),
        isinstance(x, tf.Tensor),
        x.values,
        raises(lambda: x + 1.0),
        raises(lambda: list(x)),
        _local(s, tf.nest.map_structure(lambda t: t, {"a": x})),
    ]


def case_run_in_a_loop_in_function(tf, np):
    s = _mirrored(tf, 4)
    with s.scope():
        v = tf.Variable(0.0, aggregation=tf.VariableAggregation.SUM)

    @tf.function
    def f(n):
        total = tf.constant(0.0)
        for i in tf.range(n):
            per = s.run(lambda k: (tf.cast(k, tf.float32) + 1.0) * (_fid(tf) + 1.0), args=(i,))
            total += s.reduce("SUM", per, axis=None)
            s.run(lambda x: v.assign_add(x), args=(per,))
        return total

    return [f(tf.constant(3)), v.numpy(), f(tf.constant(1)), v.numpy(), _copies(s, v)]


# ---------------------------------------------------------------- reduce, gather
def case_reduce_sum_and_mean(tf, np):
    s = _mirrored(tf, 4)
    x = _per(tf, s, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 9.0]])
    fn = tf.function(lambda op, p: s.reduce(op, p, axis=None))
    return [
        s.reduce(tf.distribute.ReduceOp.SUM, x, axis=None),
        s.reduce(tf.distribute.ReduceOp.MEAN, x, axis=None),
        fn("SUM", x),
        fn("MEAN", x),
        s.reduce("sum", x, None),
        s.reduce("mean", x, None),
    ]


def case_reduce_over_axis(tf, np):
    s = _mirrored(tf)
    x = _per(tf, s, [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 9.0]]])
    return [
        s.reduce("SUM", x, axis=0),
        s.reduce("MEAN", x, axis=0),
        s.reduce("SUM", x, axis=1),
        s.reduce("MEAN", x, axis=-1),
        tf.function(lambda p: s.reduce("MEAN", p, axis=0))(x),
        raises(lambda: s.reduce("SUM", x, axis=2), "InvalidArgumentError"),
    ]


def case_reduce_axis_uneven_parts(tf, np):
    s = _mirrored(tf, 4)
    x = _per(tf, s, [[1.0, 2.0, 3.0], [4.0], [10.0, 20.0], np.zeros([0], np.float32)])
    f = tf.function(lambda p: [s.reduce("SUM", p, axis=0), s.reduce("MEAN", p, axis=0)])
    return [s.reduce("SUM", x, axis=0), s.reduce("MEAN", x, axis=0), f(x)]


def case_reduce_structures_and_dtypes(tf, np):
    s = _mirrored(tf)
    x = {"a": _per(tf, s, [1, 2]), "b": (_per(tf, s, [[1.5], [2.0]]), _per(tf, s, np.array([1.0, 4.0])))}
    return [s.reduce("SUM", x, axis=None), s.reduce("MEAN", x["b"], axis=None), s.reduce("SUM", x["b"][0], axis=0)]


def case_reduce_wrong_op(tf, np):
    s = _mirrored(tf)
    x = _per(tf, s, [1.0, 2.0])
    return [
        raises(lambda: s.reduce("MAX", x, axis=None)),
        raises(lambda: s.reduce(None, x, axis=None), "ValueError", "TypeError"),
        raises(lambda: s.reduce(0, x, axis=None), "ValueError", "TypeError"),
        raises(lambda: s.reduce("SUM", x)),
    ]


def case_reduce_of_a_plain_value(tf, np):
    s = _mirrored(tf)
    return [
        raises(lambda: s.reduce("SUM", tf.constant(2.0), axis=None), match="cannot be reduced"),
        s.reduce("MEAN", tf.constant(2.0), axis=None),
        raises(lambda: s.reduce("SUM", 2.0, axis=None)),
    ]


def case_reduce_integer_mean(tf, np):
    s = _mirrored(tf)
    x = _per(tf, s, [[1, 2], [4, 6]])
    ar = s.run(lambda: tf.distribute.get_replica_context().all_reduce("MEAN", _id(tf) * 3))
    return [
        s.reduce("MEAN", x, axis=None),
        s.reduce("MEAN", x, axis=0),
        s.reduce("SUM", x, axis=0),
        s.reduce("SUM", x, axis=None),
        _local(s, ar),
    ]


def case_gather(tf, np):
    s = _mirrored(tf)
    x = _per(tf, s, [[[1.0, 2.0]], [[3.0, 4.0]]])
    return [
        s.gather(x, axis=0),
        s.gather(x, axis=1),
        tf.function(lambda p: s.gather(p, axis=0))(x),
        s.gather(tf.constant([1.0]), axis=0),
        s.gather(_per(tf, s, [[1.0], [2.0, 3.0]]), axis=0),
        raises(lambda: s.gather(_per(tf, s, [1.0, 2.0]), axis=0), "InvalidArgumentError"),
    ]


# ---------------------------------------------------------------- collectives of the replica context
def case_all_reduce_sum_mean(tf, np):
    s = _mirrored(tf, 4)

    def f():
        c = tf.distribute.get_replica_context()
        x = (_fid(tf) + 1.0) * [1.0, 10.0]
        return c.all_reduce("SUM", x), c.all_reduce(tf.distribute.ReduceOp.MEAN, x)

    return _both(tf, s, lambda: s.run(f))


def case_all_reduce_structures(tf, np):
    s = _mirrored(tf)

    def f():
        x = _fid(tf) + 1.0
        return tf.distribute.get_replica_context().all_reduce("SUM", {"a": x, "b": [x * 2.0, (tf.stack([x, x]),)]})

    return [
        _both(tf, s, lambda: s.run(f)),
        raises(lambda: s.run(lambda: tf.distribute.get_replica_context().all_reduce("MAX", tf.constant(1.0)))),
    ]


def case_all_reduce_gradient(tf, np):
    s = _mirrored(tf)

    def f(op):
        x = _fid(tf) + 1.0
        with tf.GradientTape() as t:
            t.watch(x)
            y = tf.distribute.get_replica_context().all_reduce(op, x * x) * (_fid(tf) + 1.0)
        return y, t.gradient(y, x)

    return [_both(tf, s, lambda: s.run(f, args=("SUM",))), _both(tf, s, lambda: s.run(f, args=("MEAN",)))]


def case_all_gather(tf, np):
    s = _mirrored(tf)

    def f():
        c = tf.distribute.get_replica_context()
        x = (_fid(tf) + 1.0) * tf.constant([[1.0, 2.0]])
        return c.all_gather(x, axis=0), c.all_gather(x, axis=1)

    return _both(tf, s, lambda: s.run(f))


def case_all_gather_gradient(tf, np):
    s = _mirrored(tf)

    def f():
        x = (_fid(tf) + 1.0) * tf.ones([2])
        with tf.GradientTape() as t:
            t.watch(x)
            y = tf.reduce_sum(tf.distribute.get_replica_context().all_gather(x, axis=0) * [1.0, 2.0, 3.0, 4.0])
        return y, t.gradient(y, x)

    return _both(tf, s, lambda: s.run(f))


# ---------------------------------------------------------------- merge_call
def case_merge_call_sees_per_replica_arguments(tf, np):
    s = _mirrored(tf)
    seen = []

    def merged(strategy, x, plain, k=None):
        seen.append([strategy is s, tf.distribute.in_cross_replica_context(), _local(s, x), plain, _local(s, k["z"])])
        return strategy.reduce("SUM", x, axis=None)

    def replica():
        i = _fid(tf) + 1.0
        return tf.distribute.get_replica_context().merge_call(merged, args=(i, "same"), kwargs={"k": {"z": i * 10.0}})

    r = s.run(replica)
    return [_local(s, r), seen]


def case_merge_call_returns(tf, np):
    s = _mirrored(tf)
    call = lambda fn, *a: s.run(lambda: tf.distribute.get_replica_context().merge_call(fn, args=tuple(f() for f in a)))
    return [
        call(lambda st: 5),
        call(lambda st: None),
        _local(s, call(lambda st, x: {"per": x, "one": tf.constant(3.0)}, lambda: _fid(tf))),
        raises(
            lambda: s.run(
                lambda: tf.distribute.get_replica_context().merge_call(lambda st: 1) if int(_id(tf)) == 0 else 2
            )
        ),
    ]


def case_merge_call_updates_a_variable(tf, np):
    s = _mirrored(tf)
    with s.scope():
        v = tf.Variable([1.0, 2.0])

    def merged(strategy, g):
        total = strategy.extended.reduce_to("SUM", g, destinations=v)
        strategy.extended.update(v, lambda var, x: var.assign_sub(0.1 * x), args=(total,))

    def replica(x):
        with tf.GradientTape() as t:
            y = tf.reduce_sum(v * v * x)
        tf.distribute.get_replica_context().merge_call(merged, args=(t.gradient(y, v),))
        return y

    x = _per(tf, s, [1.0, 3.0])
    first = _local(s, s.run(replica, args=(x,)))
    second = _local(s, tf.function(lambda p: s.run(replica, args=(p,)))(x))
    return [first, second, v, _copies(s, v)]


# ---------------------------------------------------------------- input
def case_values_from_function(tf, np):
    s = _mirrored(tf, 4)
    seen = []

    def value(c):
        seen.append([c.replica_id_in_sync_group, c.num_replicas_in_sync])
        return tf.constant([float(c.replica_id_in_sync_group)] * 2)

    x = s.experimental_distribute_values_from_function(value)
    n = s.experimental_distribute_values_from_function(lambda c: c.replica_id_in_sync_group * 2)
    d = s.experimental_distribute_values_from_function(
        lambda c: {"a": tf.constant(c.replica_id_in_sync_group), "b": [1.0]}
    )
    return [seen, _local(s, x), _local(s, n), _local(s, d), _local(s, s.run(lambda a, b: a + float(b), args=(x, n)))]


def case_dataset_batch_split(tf, np):
    s = _mirrored(tf)
    data = s.experimental_distribute_dataset(tf.data.Dataset.range(8).batch(4))
    return [_batches(s, data), _batches(s, data), _specs(tf, data.element_spec)]


def case_dataset_uneven_last_batch(tf, np):
    s = _mirrored(tf)
    make = lambda n, b: s.experimental_distribute_dataset(tf.data.Dataset.range(n).batch(b))
    return [
        _batches(s, make(7, 4)),
        _batches(s, make(5, 4)),
        _batches(s, make(6, 3)),
        _specs(tf, make(7, 4).element_spec),
    ]


def case_dataset_more_replicas_than_rows(tf, np):
    s = _mirrored(tf, 4)
    make = lambda n, b: s.experimental_distribute_dataset(tf.data.Dataset.range(n).batch(b))
    return [_batches(s, make(10, 8)), _batches(s, make(10, 6)), _batches(s, make(3, 2))]


def case_dataset_drop_remainder(tf, np):
    s = _mirrored(tf)
    data = s.experimental_distribute_dataset(tf.data.Dataset.range(9).batch(4, drop_remainder=True))
    return [_batches(s, data), _specs(tf, data.element_spec)]


def case_dataset_structures_and_reduce(tf, np):
    s = _mirrored(tf)
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    data = s.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices({"x": x, "y": np.arange(6)}).batch(4))
    step = tf.function(
        lambda b: s.run(lambda e: tf.reduce_sum(e["x"], axis=1) + tf.cast(e["y"], tf.float32), args=(b,))
    )
    out = []
    for b in data:
        per = step(b)
        out.append([_local(s, b), _local(s, per), s.reduce("SUM", per, axis=0), s.reduce("MEAN", per, axis=0)])
    return [out, sorted(data.element_spec.keys()), _specs(tf, data.element_spec["x"])]


def case_dataset_loop_inside_function(tf, np):
    s = _mirrored(tf)
    data = s.experimental_distribute_dataset(
        tf.data.Dataset.range(10).map(lambda k: tf.cast(k, tf.float32)).batch(4, drop_remainder=True)
    )

    @tf.function
    def total(d):
        acc = tf.constant(0.0)
        for b in d:
            acc += s.reduce("SUM", s.run(lambda x: tf.reduce_sum(x) * (_fid(tf) + 1.0), args=(b,)), axis=None)
        return acc

    return total(data)


def case_dataset_iterator(tf, np):
    s = _mirrored(tf)
    it = iter(s.experimental_distribute_dataset(tf.data.Dataset.range(8).batch(4)))
    first, second = next(it), it.get_next()
    return [
        _local(s, first),
        _local(s, second),
        it.get_next_as_optional().has_value(),
        raises(lambda: it.get_next()),
        raises(lambda: next(it)),
    ]


def case_dataset_one_device_and_default(tf, np):
    d = _devices(tf)
    out = []
    for s in (tf.distribute.OneDeviceStrategy(d[2]), tf.distribute.get_strategy()):
        data = s.experimental_distribute_dataset(tf.data.Dataset.range(6).batch(4))
        out.append([list(data), _specs(tf, data.element_spec)])
    return out


def case_datasets_from_function(tf, np):
    s = _mirrored(tf)
    seen = []

    def make(c):
        b = c.get_per_replica_batch_size(4)
        seen.append([c.num_input_pipelines, c.input_pipeline_id, c.num_replicas_in_sync, b])
        return tf.data.Dataset.range(8).shard(c.num_input_pipelines, c.input_pipeline_id).batch(b)

    data = s.distribute_datasets_from_function(make)
    return [_batches(s, data), seen[0], _specs(tf, data.element_spec)]


def case_input_context(tf, np):
    c = tf.distribute.InputContext(num_input_pipelines=2, input_pipeline_id=1, num_replicas_in_sync=4)
    d = tf.distribute.InputContext()
    return [
        c.num_input_pipelines,
        c.input_pipeline_id,
        c.num_replicas_in_sync,
        c.get_per_replica_batch_size(32),
        raises(lambda: c.get_per_replica_batch_size(9)),
        str(c),
        [d.num_input_pipelines, d.input_pipeline_id, d.num_replicas_in_sync],
    ]


# ---------------------------------------------------------------- variables
def case_mirrored_variable_in_cross_replica_context(tf, np):
    s = _mirrored(tf)
    with s.scope():
        v = tf.Variable([1.0, 2.0], name="w")
    out = [
        isinstance(v, tf.Variable),
        v.name,
        v.shape,
        v.dtype,
        v.trainable,
        _copies(s, v),
        len(_local(s, v)),
        [c.device for c in _local(s, v)],
    ]
    v.assign([3.0, 4.0])
    out.append(_copies(s, v))
    with s.scope():
        v.assign_add([1.0, 1.0])
        v.assign_sub([0.5, 0.0])
    out += [_copies(s, v), v, v + 1.0, v[0] * 2.0, tf.reduce_sum(v), v.aggregation == tf.VariableAggregation.NONE]
    return out


def case_mirrored_variable_aggregation(tf, np):
    s = _mirrored(tf)
    out = []
    for agg in (tf.VariableAggregation.SUM, tf.VariableAggregation.MEAN, tf.VariableAggregation.ONLY_FIRST_REPLICA):
        with s.scope():
            v = tf.Variable([1.0, 2.0], aggregation=agg)

        def add():
            v.assign_add((_fid(tf) + 1.0) * [1.0, 10.0])
            return v.read_value()

        r = _both(tf, s, lambda: s.run(add))
        s.run(lambda: v.assign_sub((_fid(tf) + 1.0) * [1.0, 1.0]))
        after = _copies(s, v)
        s.run(lambda: v.assign((_fid(tf) + 2.0) * [1.0, 1.0]))
        out.append([r, after, _copies(s, v)])
    return out


def case_mirrored_variable_python_number_in_replica(tf, np):
    s = _mirrored(tf)
    A = tf.VariableAggregation
    with s.scope():
        v, m, f = (tf.Variable(1.0, aggregation=a) for a in (A.SUM, A.MEAN, A.ONLY_FIRST_REPLICA))
    s.run(lambda: m.assign_add(2.0))
    s.run(lambda: f.assign_add(2.0))
    return [raises(lambda: s.run(lambda: v.assign_add(2.0))), v, m, f]


def case_mirrored_variable_without_aggregation(tf, np):
    """In replica context each replica writes its own copy; reading outside shows the first one."""
    s = _mirrored(tf)
    with s.scope():
        v = tf.Variable(1.0)
    s.run(lambda: v.assign_add(2.0))
    out = [_copies(s, v), v.numpy()]
    s.run(lambda: v.assign(_fid(tf) + 5.0))
    return out + [_copies(s, v), v.numpy(), _local(s, s.run(lambda: v + 0.0))]


def case_on_read_variable_sum(tf, np):
    s = _mirrored(tf)
    with s.scope():
        v = tf.Variable(1.0, synchronization=tf.VariableSynchronization.ON_READ, aggregation=tf.VariableAggregation.SUM)
    out = [v.numpy(), v.trainable]
    s.run(lambda: v.assign_add(_fid(tf) + 1.0))
    out += [_copies(s, v), v.numpy(), v.read_value(), _both(tf, s, lambda: s.run(lambda: v.read_value() * 1.0))]
    v.assign(10.0)
    out += [
        _copies(s, v),
        v.numpy(),
        raises(lambda: v.assign_add(1.0), match="cross-replica"),
        raises(lambda: v.assign_sub(1.0)),
    ]
    tf.function(lambda: s.run(lambda: v.assign_sub(_fid(tf))))()
    with s.scope():
        out.append(v.read_value())
    return out + [_copies(s, v), s.reduce("MEAN", v, axis=None)]


def case_on_read_variable_other_aggregations(tf, np):
    s = _mirrored(tf)
    A = tf.VariableAggregation
    out = []
    for a in (A.MEAN, A.ONLY_FIRST_REPLICA, A.NONE):
        with s.scope():
            v = tf.Variable(1.0, synchronization=tf.VariableSynchronization.ON_READ, aggregation=a)
        s.run(lambda: v.assign_add(_fid(tf) + 1.0))
        row = [_copies(s, v)]
        if a == A.NONE:
            row += [raises(lambda: v.numpy()), raises(lambda: v.assign(3.0))]
        else:
            row += [v.numpy()]
            v.assign(10.0)
            row += [_copies(s, v)]
        out.append(row)
    return out


def case_variables_in_and_outside_scope(tf, np):
    s = _mirrored(tf)
    p = tf.Variable(1.0)
    with s.scope():
        v = tf.Variable(1.0)
    q = tf.Variable(5.0)
    s.run(lambda: p.assign_add(1.0))  # one variable, updated once by every replica
    return [
        len(_local(s, p)),
        len(_local(s, v)),
        len(_local(s, q)),
        p,
        _local(s, s.run(lambda: p * 2.0 + q)),
        s.extended.variable_created_in_scope(v),
        s.extended.variable_created_in_scope(p),
    ]


def case_variable_created_in_run(tf, np):
    s = _mirrored(tf)
    made = []

    def f():
        v = tf.Variable(_fid(tf) + 3.0, aggregation=tf.VariableAggregation.SUM)
        made.append(v)
        return v.read_value()

    r = _local(s, s.run(f))
    return [
        r,
        len(made),
        _copies(s, made[0]),
        raises(lambda: tf.function(lambda: s.run(lambda: tf.Variable(1.0) * 2.0))()),
    ]


# ---------------------------------------------------------------- tapes
def case_tape_in_run_gives_per_replica_gradients(tf, np):
    s = _mirrored(tf)
    with s.scope():
        w = tf.Variable([1.0, -2.0])
    x = _per(tf, s, [[[1.0, 2.0]], [[3.0, 5.0]]])

    def f(x):
        with tf.GradientTape() as t:
            y = tf.reduce_sum(tf.square(x * w))
        return y, t.gradient(y, w), [v is w for v in t.watched_variables()]

    y, g, _ = s.run(f, args=(x,))
    return [
        _local(s, y),
        _local(s, g),
        s.reduce("SUM", g, axis=None),
        s.reduce("MEAN", g, axis=None),
        _local(s, tf.function(lambda p: s.run(lambda q: f(q)[1], args=(p,)))(x)),
    ]


def case_tape_gradients_all_reduced(tf, np):
    s = _mirrored(tf, 4)
    with s.scope():
        w, b = tf.Variable([[1.0], [2.0]]), tf.Variable([0.5])
    x = _per(tf, s, [[[float(i), 1.0]] for i in range(4)])

    def f(x):
        with tf.GradientTape() as t:
            y = tf.reduce_sum(tf.tanh(x @ w + b))
        return tf.distribute.get_replica_context().all_reduce("MEAN", t.gradient(y, [w, b]))

    return [_local(s, r) for r in s.run(f, args=(x,))] + [
        _local(s, r) for r in tf.function(lambda p: s.run(f, args=(p,)))(x)
    ]


def case_tape_in_cross_replica_context(tf, np):
    """Outside a scope a mirrored variable is a source; inside the scope only its components are."""
    s = _mirrored(tf)
    with s.scope():
        w = tf.Variable([1.0, 2.0])

    def loss():
        with tf.GradientTape(persistent=True) as t:
            y = tf.reduce_sum(w * w * w)
        return t, y

    t, y = loss()
    out = [t.gradient(y, w), t.gradient(y, list(_local(s, w))), len(t.watched_variables())]
    with s.scope():
        t, y = loss()
        out += [
            raises(lambda: t.gradient(y, w)),
            t.gradient(y, list(_local(s, w))),
            t.gradient(y, list(t.watched_variables())),
        ]
    return out


def case_tape_around_run_records_nothing(tf, np):
    """The replicas run in threads of their own, which an outer tape does not see; a tf.function around run is seen."""
    s = _mirrored(tf)
    x = tf.constant(3.0)

    def total(x):
        return s.reduce("SUM", s.run(lambda a: a * a * (_fid(tf) + 1.0), args=(x,)), axis=None)

    def taped(f, x):
        with tf.GradientTape() as t:
            t.watch(x)
            y = f(x)
        return [y, t.gradient(y, x)]

    return [
        taped(total, x),
        tf.function(lambda x: taped(total, x))(x),
        taped(tf.function(total), x),
        tf.function(lambda x: tf.gradients(total(x), x))(x),
    ]


def case_second_order_and_jacobian_in_run(tf, np):
    s = _mirrored(tf)
    with s.scope():
        w = tf.Variable([1.0, 2.0])

    def f(c):
        with tf.GradientTape() as o:
            with tf.GradientTape() as i:
                y = tf.reduce_sum(w * w * w * c)
            g = i.gradient(y, w)
        return g, o.jacobian(g, w)

    x = _per(tf, s, [1.0, 2.0])
    return _both(tf, s, lambda: s.run(f, args=(x,)))


def case_custom_gradient_in_run(tf, np):
    s = _mirrored(tf)

    @tf.custom_gradient
    def f(x):
        return x * x, lambda up: up * 100.0 * (_fid(tf) + 1.0)

    def g(x):
        with tf.GradientTape() as t:
            t.watch(x)
            y = f(x) * 2.0
        return y, t.gradient(y, x)

    x = _per(tf, s, [3.0, 4.0])
    return _both(tf, s, lambda: s.run(g, args=(x,)))


# ---------------------------------------------------------------- losses and Keras
def case_compute_average_loss(tf, np):
    s = _mirrored(tf)
    x = _per(tf, s, [[1.0, 2.0], [3.0, 6.0]])
    nn = tf.nn
    f = lambda **k: _local(s, s.run(lambda p: nn.compute_average_loss(p, **k), args=(x,)))
    with s.scope():
        inscope = raises(lambda: nn.compute_average_loss(tf.constant([1.0, 2.0])))
    return [
        nn.compute_average_loss(tf.constant([1.0, 2.0, 6.0])),
        nn.compute_average_loss([1.0, 2.0], sample_weight=[1.0, 0.5]),
        nn.compute_average_loss([1.0, 2.0], global_batch_size=8),
        f(),
        f(global_batch_size=8),
        f(sample_weight=tf.constant([1.0, 0.0])),
        inscope,
    ]


def case_scale_regularization_loss(tf, np):
    s = _mirrored(tf, 4)
    f = lambda: tf.nn.scale_regularization_loss(tf.constant([1.0, 3.0]))
    with s.scope():
        inscope = raises(f)
    return [f(), _both(tf, s, lambda: s.run(f)), inscope]


def _linear(tf, np, opt, s):
    with s.scope():
        m = tf.keras.Sequential([tf.keras.Input([2]), tf.keras.layers.Dense(1)])
        m.set_weights([np.array([[0.5], [-1.0]], np.float32), np.array([0.25], np.float32)])
        o = opt()
        o.build(m.trainable_variables)
        return m, o


def _three_steps(tf, np, s, opt, fn=True):
    m, o = _linear(tf, np, opt, s)
    x = np.array([[1, 2], [3, 4], [-1, 0.5], [0, 1]], np.float32)
    y = np.array([[1], [2], [0], [-1]], np.float32)
    data = s.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((x, y)).batch(4))

    def replica(x, y):
        with tf.GradientTape() as t:
            loss = tf.nn.compute_average_loss(
                tf.reduce_sum(tf.square(m(x, training=True) - y), axis=1), global_batch_size=4
            )
        g = t.gradient(loss, m.trainable_variables)
        o.apply_gradients(zip(g, m.trainable_variables))
        return loss

    step = lambda b: s.reduce("SUM", s.run(replica, args=b), axis=None)
    step = tf.function(step) if fn else step
    losses = [step(b) for _ in range(3) for b in data]
    return [losses, m.get_weights(), int(o.iterations.numpy())]


def case_keras_sgd_three_steps(tf, np):
    opt = lambda: tf.keras.optimizers.SGD(0.1)
    return tol(
        [_three_steps(tf, np, s, opt) for s in (tf.distribute.get_strategy(), _mirrored(tf, 2), _mirrored(tf, 4))],
        rtol=1e-4,
        atol=1e-5,
    )


def case_keras_sgd_eager_steps(tf, np):
    return tol(
        _three_steps(tf, np, _mirrored(tf, 2), lambda: tf.keras.optimizers.SGD(0.1, momentum=0.9), fn=False),
        rtol=1e-4,
        atol=1e-5,
    )


def case_keras_adam_three_steps(tf, np):
    opt = lambda: tf.keras.optimizers.Adam(0.05)
    return tol(
        [_three_steps(tf, np, s, opt) for s in (tf.distribute.get_strategy(), _mirrored(tf, 2))], rtol=1e-4, atol=1e-5
    )


def case_keras_gradients_are_summed(tf, np):
    """apply_gradients in replica context adds the replicas' gradients up (it does not average)."""
    s = _mirrored(tf)
    with s.scope():
        v = tf.Variable([1.0, 1.0])
        o = tf.keras.optimizers.SGD(1.0)
        o.build([v])
    s.run(lambda: o.apply_gradients([((_fid(tf) + 1.0) * tf.constant([1.0, 10.0]), v)]))
    return [_copies(s, v), int(o.iterations.numpy())]


def case_keras_metric_in_replicas(tf, np):
    s = _mirrored(tf)
    with s.scope():
        m = tf.keras.metrics.Mean()
    s.run(lambda x: m.update_state(x), args=(_per(tf, s, [[1.0, 2.0], [3.0, 8.0]]),))
    first = float(m.result())
    tf.function(lambda p: s.run(lambda x: m.update_state(x), args=(p,)))(_per(tf, s, [[10.0], [20.0]]))
    second = float(m.result())
    m.reset_state()
    return [first, second, float(m.result())]


def _norm(tf, np, synchronized):
    s = _mirrored(tf)
    with s.scope():
        b = tf.keras.layers.BatchNormalization(momentum=0.5, epsilon=1e-3, synchronized=synchronized)
        b.build([None, 2])
        b.set_weights([np.array(w, np.float32) for w in ([2.0, 1.0], [0.5, 0.0], [0.0, 1.0], [1.0, 2.0])])
    x = _per(tf, s, [np.array([[1, 2], [3, 5]], np.float32), np.array([[4, -2], [6, 1]], np.float32)])
    y = tf.function(lambda p: s.run(lambda q: b(q, training=True), args=(p,)))(x)
    stats = [b.moving_mean.numpy(), b.moving_variance.numpy()]
    z = s.run(lambda q: b(q, training=False), args=(x,))
    return tol([_local(s, y), stats, _local(s, z)], rtol=1e-4, atol=1e-5)


def case_keras_batch_norm_in_replicas(tf, np):
    return _norm(tf, np, False)


def case_keras_synchronized_batch_norm(tf, np):
    return _norm(tf, np, True)


def _fit(tf, np, s, rows, opt, loss="mse"):
    with s.scope():
        m = tf.keras.Sequential(
            [tf.keras.Input([2]), tf.keras.layers.Dense(3, activation="tanh"), tf.keras.layers.Dense(1)]
        )
        m.set_weights(
            [
                np.array([[0.1, -0.2, 0.3], [0.4, 0.5, -0.6]], np.float32),
                np.zeros(3, np.float32),
                np.array([[0.7], [-0.8], [0.9]], np.float32),
                np.zeros(1, np.float32),
            ]
        )
        m.compile(optimizer=opt(), loss=loss, metrics=["mae"])
    x = (np.arange(2 * rows).reshape(rows, 2) % 5 - 2).astype(np.float32)
    y = (x[:, :1] - 0.5 * x[:, 1:]).astype(np.float32)
    h = m.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0)
    return [
        {k: [float(e) for e in v] for k, v in h.history.items()},
        m.get_weights(),
        m.predict(x, verbose=0),
        m.evaluate(x, y, batch_size=4, verbose=0),
    ]


def case_keras_fit_sgd(tf, np):
    opt = lambda: tf.keras.optimizers.SGD(0.1)
    return tol(
        [_fit(tf, np, s, 8, opt) for s in (tf.distribute.get_strategy(), _mirrored(tf, 2))], rtol=1e-4, atol=1e-5
    )


def case_keras_fit_adam_uneven_last_batch(tf, np):
    return tol(_fit(tf, np, _mirrored(tf, 2), 7, lambda: tf.keras.optimizers.Adam(0.05)), rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------- errors
def case_errors_wrong_context(tf, np):
    s = _mirrored(tf)
    with s.scope():
        none = raises(lambda: tf.distribute.get_replica_context().all_reduce("SUM", tf.constant(1.0)))
    return [
        raises(lambda: s.run(lambda: s.run(lambda: tf.constant(1.0))), match="cross-replica context"),
        raises(lambda: s.run(lambda: s.reduce("SUM", tf.constant(1.0), axis=None)), match="cross-replica context"),
        none,
        raises(lambda: s.run(5), "ValueError"),
    ]


def case_errors_mixing_strategies(tf, np):
    s, other = _mirrored(tf, 2), _mirrored(tf, 4)
    with s.scope():
        v = tf.Variable(1.0, aggregation=tf.VariableAggregation.SUM)

    def nested():
        with s.scope():
            with other.scope():
                pass

    def assign():
        with other.scope():
            v.assign(2.0)

    return [
        raises(nested, match="Mixing different"),
        raises(assign, match="Mixing different"),
        raises(lambda: other.run(lambda: v.assign_add(tf.constant(1.0))), "ValueError"),
        raises(lambda: other.run(lambda: v + 1.0), "RuntimeError", "ValueError"),
        _where(tf, s),
        v,
    ]


def case_errors_devices(tf, np):
    d = _devices(tf)
    return [
        raises(lambda: tf.distribute.MirroredStrategy(["foo"])),
        raises(lambda: tf.distribute.OneDeviceStrategy("foo").run(lambda: tf.ones([2]) + 1.0)),
        raises(lambda: tf.distribute.MirroredStrategy([d[0], d[0]]), "ValueError"),
    ]


# ---------------------------------------------------------------- enums and cluster resolvers
def case_enum_values(tf, np):
    d = tf.distribute
    return [
        d.ReduceOp.SUM.value,
        d.ReduceOp.MEAN.value,
        str(d.ReduceOp.SUM),
        d.ReduceOp("MEAN") is d.ReduceOp.MEAN,
        [m.name for m in d.ReduceOp],
        [m.name for m in tf.VariableAggregation],
        [m.value for m in tf.VariableAggregation],
        [m.name for m in tf.VariableSynchronization],
        [m.value for m in tf.VariableSynchronization],
    ]


def case_tf_config_resolver(tf, np):
    config = {
        "cluster": {"worker": ["h0:1", "h1:2"], "ps": ["p0:3"]},
        "task": {"type": "worker", "index": 1},
        "rpc_layer": "grpc",
    }

    def f():
        r = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        return [
            r.cluster_spec().as_dict(),
            r.task_type,
            r.task_id,
            r.rpc_layer,
            r.environment,
            r.master(),
            r.master("ps", 0),
            r.master("worker", 0, "http"),
        ]

    before = os.environ.get("TF_CONFIG")
    return [_with_tf_config(config, f), os.environ.get("TF_CONFIG") == before]


def case_tf_config_resolver_overrides_and_empty(tf, np):
    def f():
        R = tf.distribute.cluster_resolver.TFConfigClusterResolver
        r = R(task_type="ps", task_id=0, rpc_layer="")
        return [r.task_type, r.task_id, r.master(), r.cluster_spec().as_dict()]

    def empty():
        r = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        return [r.cluster_spec().as_dict(), r.task_type, r.task_id, r.master()]

    return [
        _with_tf_config({"cluster": {"worker": ["h0:1"], "ps": ["p0:3"]}, "task": {"type": "worker", "index": 0}}, f),
        _with_tf_config({}, empty),
        _with_tf_config({"cluster": {"worker": ["h0:1"]}, "task": {"type": "worker", "index": 0}}, empty),
    ]


def case_simple_resolver_and_cluster_spec(tf, np):
    spec = tf.train.ClusterSpec({"worker": ["a:1", "b:2"], "ps": ["c:3"]})
    r = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, task_type="worker", task_id=1, rpc_layer="grpc")
    q = tf.distribute.cluster_resolver.SimpleClusterResolver(spec)
    return [
        spec.as_dict(),
        sorted(spec.jobs),
        spec.num_tasks("worker"),
        spec.task_address("worker", 1),
        spec.job_tasks("ps"),
        spec.task_indices("worker"),
        raises(lambda: spec.job_tasks("x")),
        raises(lambda: spec.task_address("worker", 5)),
        bool(spec),
        r.master(),
        r.master("ps", 0),
        r.task_type,
        r.task_id,
        r.cluster_spec() == spec,
        q.master(),
        q.task_type,
        q.task_id,
        q.environment,
    ]
