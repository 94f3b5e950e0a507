"""tf.compat: v1 names that tape code still uses, and v2, which is all of gradtape."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest

import gradtape as tf

v1 = tf.compat.v1


def test_aliases_are_the_same_objects():
    assert tf.GradientTape is tf.autodiff.GradientTape is v1.GradientTape is tf.compat.v2.GradientTape
    assert v1.UnconnectedGradients is tf.UnconnectedGradients
    assert v1.Variable is not None
    assert tf.compat.v2.constant is tf.constant
    assert tf.math.add is tf.add
    assert tf.math.reduce_sum is tf.reduce_sum
    assert tf.linalg.matmul is tf.matmul
    assert tf.dtypes.float32 is tf.float32
    assert tf.dtypes.cast is tf.cast


def test_older_names():
    assert v1.matrix_inverse is tf.linalg.inv
    assert v1.log is tf.math.log
    assert v1.nn.max_pool_v2 is tf.nn.max_pool
    assert v1.nn.relu is tf.nn.relu
    assert v1.random.set_random_seed is v1.set_random_seed is tf.random.set_seed
    assert not hasattr(tf.nn, "max_pool_v2")
    assert not hasattr(tf, "matrix_inverse")


def test_fused_batch_norm():
    x = tf.Variable(np.arange(12.0, dtype=np.float32).reshape(1, 2, 3, 2))
    with tf.GradientTape() as tape:
        y, mean, variance = v1.nn.fused_batch_norm(x, [2.0, 1.0], [1.0, 0.0], epsilon=1e-3)
        loss = tf.reduce_sum(y * y)
    np.testing.assert_allclose(mean, [5, 6])
    np.testing.assert_allclose(variance, [14, 14])  # of a sample: over n - 1
    np.testing.assert_allclose(tf.reduce_mean(y, [0, 1, 2]), [1, 0], atol=1e-6)
    assert tape.gradient(loss, x).shape == x.shape
    assert not hasattr(tf.nn, "fused_batch_norm")


def test_names_that_are_not_there():
    assert not hasattr(v1, "autodiff")
    ours = """
        KroneckerFactors Program Solution eigh fixed_point implicit influence kfac_factors minimize odeint root
        soft_rank soft_sort soft_top_k solve_lp solve_qp
    """
    names = {n for n in dir(tf.autodiff) if not n.startswith("_")}
    assert names == {"ForwardAccumulator", "GradientTape", *ours.split()}


def test_unconnected_gradients():
    assert [(m.name, m.value) for m in tf.UnconnectedGradients] == [("NONE", "none"), ("ZERO", "zero")]
    assert tf.UnconnectedGradients("zero") is tf.UnconnectedGradients.ZERO
    assert repr(tf.UnconnectedGradients.ZERO) == "<UnconnectedGradients.ZERO: 'zero'>"


def test_text():
    assert tf.compat.as_bytes("ä") == "ä".encode()
    assert tf.compat.as_bytes(b"a") == b"a"
    assert tf.compat.as_text(b"a") == tf.compat.as_str("a") == "a"


def test_switches_that_are_always_on():
    v1.enable_eager_execution()
    v1.enable_v2_behavior()
    assert tf.executing_eagerly()
    assert v1.executing_eagerly()


# -- get_variable ----------------------------------------------------------------------------------
def test_the_signature_of_get_variable():
    assert list(inspect.signature(v1.get_variable).parameters) == [
        "name", "shape", "dtype", "initializer", "regularizer", "trainable", "collections", "caching_device",
        "partitioner", "validate_shape", "use_resource", "custom_getter", "constraint", "synchronization",
        "aggregation",
    ]  # fmt: skip


def test_get_variable_makes_a_new_one_each_time():
    first, second = v1.get_variable("aa", [2, 3]), v1.get_variable("aa", [2, 3])
    assert first is not second
    assert first.name == second.name == "aa:0"
    assert isinstance(first, tf.Variable)
    assert first.dtype == tf.float32
    assert first.trainable
    assert not v1.get_variable("aa", [1], trainable=False).trainable
    first.assign(tf.zeros([2, 3]))
    assert np.any(second.numpy())


def test_default_values():
    w = v1.get_variable("w", [300, 200]).numpy()
    limit = np.sqrt(6 / 500)
    assert np.abs(w).max() <= limit
    assert np.abs(w).max() > 0.95 * limit
    assert abs(w.mean()) < 0.01
    assert v1.get_variable("v", [4]).shape == (4,)
    assert v1.get_variable("s", []).shape == ()
    assert v1.get_variable("n", 3).shape == (3,)
    assert v1.get_variable("d", [2], dtype=tf.float64).dtype == tf.float64
    assert v1.get_variable("i", [2], dtype=tf.int32).numpy().tolist() == [0, 0]
    assert v1.get_variable("b", [2], dtype=tf.bool).numpy().tolist() == [False, False]


def test_initial_values():
    assert v1.get_variable("k", initializer=[1.0, 2.0]).numpy().tolist() == [1.0, 2.0]
    assert v1.get_variable("k", initializer=tf.constant([1, 2])).dtype == tf.int32
    made = v1.get_variable("m", [2], initializer=lambda shape, dtype: tf.ones(shape, dtype))
    assert made.numpy().tolist() == [1.0, 1.0]

    class Maker:
        def __call__(self, shape, dtype=None, partition_info=None):
            return tf.fill(shape, tf.constant(7, dtype))

    assert v1.get_variable("m", [2], tf.int64, initializer=Maker()).numpy().tolist() == [7, 7]
    assert v1.get_variable("m", [2], tf.int64, initializer=Maker).numpy().tolist() == [7, 7]
    with pytest.raises(ValueError, match=r"If initializer is a constant, do not specify shape\."):
        v1.get_variable("k", [2], initializer=tf.constant([1, 2]))
    sentence = "Variable dd did not get an initializer, so its `shape` argument must be specified."
    with pytest.raises(ValueError, match=re.escape(sentence)):
        v1.get_variable("dd")


def test_variable_scopes():
    with v1.variable_scope("s"):
        assert v1.get_variable("gg", [1]).name == "s/gg:0"
        with v1.variable_scope("t"):
            assert v1.get_variable("gg", [1]).name == "s/t/gg:0"
            assert tf.Variable(1.0, name="q").name == "s/t/q:0"
        assert v1.get_variable("gg", [1]).name == "s/gg:0"
    with tf.name_scope("names"):  # counts for Variable, not for get_variable
        assert v1.get_variable("w", [1]).name == "w:0"
        with v1.variable_scope("s"):
            assert v1.get_variable("w", [1]).name == "s/w:0"
            assert tf.Variable(1.0, name="w").name == "names/s/w:0"
    assert v1.get_variable("w", [1]).name == "w:0"


def test_variables_are_watched():
    v, frozen = v1.get_variable("v", initializer=3.0), v1.get_variable("f", initializer=3.0, trainable=False)
    with tf.GradientTape() as tape:
        y = v * v * frozen
    assert [w.name for w in tape.watched_variables()] == ["v:0"]
    dv, df = tape.gradient(y, [v, frozen])
    assert float(dv) == 18.0
    assert df is None


def test_updates_are_functions_too():
    v = tf.Variable([1.0, 2.0])
    assert v1.assign(v, [3.0, 4.0]).numpy().tolist() == [3.0, 4.0]
    assert v1.assign_add(v, [1.0, 1.0]).numpy().tolist() == [4.0, 5.0]
    assert v1.assign_sub(v, [2.0, 2.0]).numpy().tolist() == v.numpy().tolist() == [2.0, 3.0]


def test_initializers_know_their_dtype_and_have_older_defaults():
    tf.random.set_seed(1)
    assert 0.9 < np.std(v1.random_normal_initializer()([2000])) < 1.1
    assert np.abs(v1.truncated_normal_initializer()([2000]).numpy()).max() <= 2.0
    uniform = v1.random_uniform_initializer()([2000]).numpy()
    assert 0.0 <= uniform.min() < 0.1 < 0.9 < uniform.max() < 1.0
    assert v1.random_uniform_initializer(0, 9, dtype=tf.int32)([3]).dtype == tf.int32
    for maker in (v1.zeros_initializer, v1.ones_initializer, v1.constant_initializer):
        made = maker(dtype=tf.float64)
        assert made([2]).dtype == tf.float64
        assert made([2], tf.int32).dtype == tf.int32
        assert maker.from_config(made.get_config())([2]).dtype == tf.float64
    assert v1.constant_initializer([1, 2])([2]).dtype == tf.float32
    assert v1.get_variable("made", [2], initializer=v1.ones_initializer()).numpy().tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="floating point"):
        v1.random_normal_initializer(dtype=tf.int32)


def test_older_arguments_of_neural_functions():
    x, kernel = tf.ones([1, 4, 1]), tf.ones([2, 1, 1])
    for arguments in ({"filter": kernel}, {"filters": kernel}):
        assert v1.nn.convolution(x, padding="VALID", **arguments).shape == (1, 3, 1)
    assert v1.nn.convolution(x, kernel, "VALID", dilation_rate=[2]).shape == (1, 2, 1)
    logits = np.sin(np.arange(40)).reshape(5, 2, 4).astype("float32")
    labels = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([1, 2, 0], tf.int32), [2, 2])
    for loss in (v1.nn.ctc_loss(labels, logits, [5, 3]), tf.nn.ctc_loss(labels, logits, None, [5, 3], blank_index=-1)):
        np.testing.assert_allclose(loss, [3.5409293, 2.3790808], rtol=1e-6)  # recorded
    with pytest.raises(ValueError, match="Argument `blank_index` must be provided when `labels` is a `SparseTensor`"):
        tf.nn.ctc_loss(labels, logits, None, [5, 3])


# -- other scopes ----------------------------------------------------------------------------------
def test_devices():
    for name in ("/CPU:0", "cpu:0", "/device:CPU:0", None, ""):
        with tf.device(name):
            assert "CPU" in tf.constant(1.0).device
    with tf.device("/GPU:99"):  # soft placement: what is not there is the processor
        assert "CPU" in tf.constant(1.0).device


def test_control_dependencies():
    log = []
    with tf.control_dependencies([tf.constant(1.0), lambda: log.append(1)]):
        log.append(2)
    assert log == [1, 2]
    with tf.control_dependencies(None):
        pass


def test_the_structure_of_what_xla_compiles():
    def compiled(function):
        found = tf.xla.experimental.compile(function, [tf.constant(1.0)])
        return tf.nest.map_structure(float, found)

    assert compiled(lambda x: x) == [1.0]
    assert compiled(lambda x: (x, x + 1.0)) == [1.0, 2.0]
    assert compiled(lambda x: {"b": x, "a": x + 1.0}) == {"a": 2.0, "b": 1.0}
    assert compiled(lambda x: (x, [x + 1.0])) == (1.0, [2.0])


def test_v2_has_every_name_and_the_switch_that_programs_of_both_versions_call():
    assert tf.compat.v2.enable_v2_behavior() is None
    assert not hasattr(tf, "enable_v2_behavior")
    assert tf.compat.v2.math is tf.math
    assert tf.compat.v1.compat.v2.Variable is tf.compat.v2.compat.v2.Variable is tf.Variable
    assert {"enable_v2_behavior", "GradientTape"} <= set(dir(tf.compat.v2))
