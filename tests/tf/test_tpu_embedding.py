"""tf.tpu.experimental.embedding: settings, tables and lookups, with the results of TensorFlow 2.21 on a CPU."""

from __future__ import annotations

import os

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.distribute.strategy import TPUStrategy
from gradtape._src.tf import tpu_embedding

configs = tf.tpu.experimental.embedding

ROWS = np.arange(8.0, dtype=np.float32).reshape(4, 2)


def sparse_ids():
    return tf.sparse.from_dense([[1, 2], [0, 3]])


def ragged_ids():
    return tf.ragged.constant([[1], [2, 3]])


def embedding_of(feature_options=None, optimizer=None, **table_options):
    table = configs.TableConfig(4, 2, initializer=lambda shape, dtype: tf.constant(ROWS), **table_options)
    feature = configs.FeatureConfig(table, **(feature_options or {}))
    return configs.TPUEmbeddingForServing({"x": feature}, optimizer)


# -- lookups -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("combiner", "ragged", "sparse"),
    [
        ("mean", [[2.0, 3.0], [5.0, 6.0]], [[3.0, 4.0], [6.0, 7.0]]),
        ("sum", [[2.0, 3.0], [10.0, 12.0]], [[6.0, 8.0], [6.0, 7.0]]),
        ("sqrtn", [[2.0, 3.0], [7.071068, 8.485281]], [[4.2426405, 5.656854], [6.0, 7.0]]),
    ],
)
@pytest.mark.parametrize("validate", [True, False])
def test_rows_of_several_ids_are_combined(combiner, ragged, sparse, validate):
    embedding = embedding_of({"validate_weights_and_indices": validate}, combiner=combiner)
    np.testing.assert_allclose(embedding({"x": ragged_ids()})["x"], ragged, rtol=1e-6)
    np.testing.assert_allclose(embedding({"x": sparse_ids()})["x"], sparse, rtol=1e-6)
    deep = tf.sparse.from_dense([[[1, 2], [0, 3]]])
    np.testing.assert_allclose(embedding({"x": deep})["x"], [sparse], rtol=1e-6)


def test_weights_are_those_of_ids():
    embedding = embedding_of()
    weights = tf.ragged.constant([[2.0], [1.0, 3.0]])
    np.testing.assert_allclose(embedding({"x": ragged_ids()}, {"x": weights})["x"], [[2.0, 3.0], [5.5, 6.5]])
    weights = tf.sparse.from_dense([[3.0, 1.0], [0.0, 2.0]])
    np.testing.assert_allclose(embedding({"x": sparse_ids()}, {"x": weights})["x"], [[2.5, 3.5], [6.0, 7.0]])


def test_rows_without_ids_are_zero():
    ids = tf.ragged.constant([[], [3], []], dtype=tf.int32)
    expected = [[0.0, 0.0], [6.0, 7.0], [0.0, 0.0]]
    assert embedding_of()({"x": ids})["x"].numpy().tolist() == expected
    assert embedding_of()({"x": ids.to_sparse()})["x"].numpy().tolist() == expected


def test_sequences_are_padded_and_cut():
    longer, shorter = embedding_of({"max_sequence_length": 3}), embedding_of({"max_sequence_length": 1})
    zero = [0.0, 0.0]
    assert longer({"x": ragged_ids()})["x"].numpy().tolist() == [
        [[2.0, 3.0], zero, zero],
        [[4.0, 5.0], [6.0, 7.0], zero],
    ]
    assert longer({"x": sparse_ids()})["x"].numpy().tolist() == [
        [[2.0, 3.0], [4.0, 5.0], zero],
        [zero, [6.0, 7.0], zero],
    ]
    assert shorter({"x": ragged_ids()})["x"].numpy().tolist() == [[[2.0, 3.0]], [[4.0, 5.0]]]
    assert shorter({"x": sparse_ids()})["x"].numpy().tolist() == [[[2.0, 3.0]], [zero]]


def test_ragged_rows_have_the_output_shape():
    assert embedding_of({"output_shape": [2]})({"x": ragged_ids()})["x"].numpy().tolist() == [[2.0, 3.0], [5.0, 6.0]]
    padded = embedding_of({"output_shape": [2, 2]})({"x": ragged_ids()})["x"]
    assert padded.numpy().tolist() == [[[2.0, 3.0], [0.0, 0.0]], [[4.0, 5.0], [6.0, 7.0]]]
    with pytest.raises(ValueError, match="should be the factor of the input data batch size"):
        embedding_of({"output_shape": [3]})({"x": ragged_ids()})


def test_dense_ids_and_nested_features():
    table = configs.TableConfig(4, 2)
    features = {"b": (configs.FeatureConfig(table),), "a": configs.FeatureConfig(table)}
    found = configs.serving_embedding_lookup(
        {"b": (tf.constant([1]),), "a": tf.constant([[0, 2]])}, None, {table: tf.constant(ROWS)}, features
    )
    assert found["b"][0].numpy().tolist() == [[2.0, 3.0]]
    assert found["a"].numpy().tolist() == [[[0.0, 1.0], [4.0, 5.0]]]
    some = configs.serving_embedding_lookup({"a": tf.constant(3)}, None, {table: tf.constant(ROWS)}, features)
    assert some["a"].numpy().tolist() == [6.0, 7.0]


@pytest.mark.parametrize("ids", [ragged_ids, sparse_ids])
def test_gradients_reach_the_table_eagerly_and_in_functions(ids):
    def slope(embedding):
        table = next(iter(embedding.embedding_tables.values()))
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(embedding({"x": ids()})["x"] ** 2)
        return tf.convert_to_tensor(tape.gradient(loss, table))

    embedding = embedding_of()
    expected = slope(embedding).numpy()
    assert (expected[1:] != 0).all()
    assert (expected[0] == 0).all()
    np.testing.assert_allclose(tf.function(lambda: slope(embedding))(), expected, rtol=1e-6)


def test_tables_are_created_in_the_first_trace():
    embedding = embedding_of()

    @tf.function
    def serve(ids):
        return embedding({"x": ids})["x"]

    assert serve(tf.constant([3])).numpy().tolist() == [[6.0, 7.0]]
    assert serve(tf.constant([1])).numpy().tolist() == [[2.0, 3.0]]


@pytest.mark.parametrize(
    ("ids", "weights", "message"),
    [
        (lambda: tf.constant([1]), lambda: tf.constant([1.0]), "Weight specified for x, but input is dense."),
        (sparse_ids, ragged_ids, "does not match type of the input"),
        (lambda: 3, None, "Tensor, SparseTensor or RaggedTensor expected."),
        (lambda: tf.ragged.constant([[[1]]]), None, "Only rank 2 ragged tensor is supported, but got rank 3"),
    ],
)
def test_ids_that_do_not_fit(ids, weights, message):
    with pytest.raises(ValueError, match=message):
        embedding_of()({"x": ids()}, None if weights is None else {"x": weights()})


def test_sequence_features_take_neither_dense_ids_nor_weights():
    embedding = embedding_of({"max_sequence_length": 2})
    with pytest.raises(ValueError, match="Feature x is a sequence feature but a dense tensor was passed"):
        embedding({"x": tf.constant([1])})
    with pytest.raises(ValueError, match="Weight specified for x, but this is a sequence feature"):
        embedding({"x": ragged_ids()}, {"x": tf.cast(ragged_ids(), tf.float32)})


@pytest.mark.parametrize("ids", [ragged_ids, sparse_ids])
def test_only_tpus_run_custom_combiners(ids):
    embedding = embedding_of(combiner=configs.CustomCombiner(max, 3))
    with pytest.raises(ValueError, match="combiner must be one of 'mean', 'sqrtn' or 'sum', got custom_combiner"):
        embedding({"x": ids()})


def test_unknown_features():
    with pytest.raises(ValueError, match=r"Inputs are not a subset of feature_config. Inputs keys are \{'y'\}"):
        embedding_of()({"y": tf.constant([1])})


# -- tables ------------------------------------------------------------------------------------------------------------
def test_checkpoints_have_the_names_of_tensorflow(tmp_path):
    saved = embedding_of(optimizer=configs.Adam(), name="words")
    saved.embedding_tables[saved._tables[0]].assign(ROWS + 1)
    path = tf.train.Checkpoint(e=saved).write(os.path.join(tmp_path, "ckpt"))
    names = [name for name, _ in tf.train.list_variables(path)]
    assert names[1:] == [f"e/words{slot}/.ATTRIBUTES/VARIABLE_VALUE" for slot in (".Smomenta", ".Svelocities", "")]
    restored = embedding_of(optimizer=configs.Adam(), name="words")
    status = tf.train.Checkpoint(e=restored).read(path)
    assert restored({"x": tf.constant([0])})["x"].numpy().tolist() == [[1.0, 2.0]]
    status.assert_consumed()


@pytest.mark.parametrize(
    ("optimizer", "slots"),
    [
        (configs.SGD(), {}),
        (configs.Adagrad(initial_accumulator_value=0.5), {"accumulators": 0.5}),
        (configs.AdagradMomentum(), {"accumulators": 0.0, "momenta": 0.0}),
        (configs.FTRL(), {"accumulators": 0.1, "linears": 0.0}),
        (configs.Adam(), {"momenta": 0.0, "velocities": 0.0}),
        (configs.CustomOptimizer(max, slot_names=["s"], slot_initializers=[tf.ones_initializer()]), {"s": 1.0}),
        (None, {}),
    ],
)
@pytest.mark.parametrize("kind", ["TPUEmbeddingForServing", "TPUEmbedding"])
def test_slots_of_optimizers(optimizer, slots, kind):
    table = configs.TableConfig(3, 2)
    embedding = getattr(configs, kind)(configs.FeatureConfig(table), optimizer)
    embedding.build()
    found = dict(embedding._variables["table_0"])
    assert found.pop("parameters") is embedding.embedding_tables[table]
    assert {name: float(value[2, 1]) for name, value in found.items()} == pytest.approx(slots)
    assert not any(value.trainable for value in found.values())


def test_a_function_creates_slots():
    def create(table, names, initializers):
        return {name: tf.Variable(first(table.shape) + 7.0) for name, first in zip(names, initializers, strict=True)}

    embedding = embedding_of(optimizer=configs.Adagrad(slot_variable_creation_fn=create), name="t")
    assert embedding.variables["t"]["accumulators"].numpy()[0, 0] == pytest.approx(7.1)


def test_the_default_initializer():
    table = configs.TableConfig(4000, 16)
    values = np.array(table.initializer((4000, 16), dtype=tf.float32))
    assert abs(values).max() <= 0.5
    assert values.std() == pytest.approx(0.25 * 0.88, rel=0.02)  # the distribution is cut at two deviations
    assert "initializer=None" in repr(table)


def test_mistakes_in_tables():
    first, second = configs.TableConfig(2, 2, name="t"), configs.TableConfig(2, 2, name="t")
    with pytest.raises(ValueError, match=r"Tables must have a unique name. Multiple tables with name t found."):
        configs.TPUEmbedding([configs.FeatureConfig(first), configs.FeatureConfig(second)], None)
    with pytest.raises(ValueError, match="is an unsupported optimizer class"):
        embedding_of(optimizer=tf.keras.optimizers.SGD())


# -- settings ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: configs.Adagrad(initial_accumulator_value=0.0), "must be a positive float. Received: 0.0"),
        (lambda: configs.FTRL(initial_accumulator_value=-1.0), "must be a positive float. Received: -1.0"),
        (lambda: configs.Adam(beta_1=1.0), "Argument `beta_1` must be >= 0 and < 1. Received: 1.0."),
        (lambda: configs.Adam(beta_2=-0.1), "Argument `beta_2` must be >= 0 and < 1. Received: -0.1."),
        (lambda: configs.Adam(epsilon=0.0), "epsilon must be positive; got 0.0."),
        (lambda: configs.Adam(use_gradient_accumulation=False, lazy_adam=False), "When disabling lazy Adam"),
        (lambda: configs.SGD(use_gradient_accumulation=False, clipvalue=1.0), "gradient clipping cannot be used"),
        (lambda: configs.AdagradMomentum(epsilon=0.0), "Adagrad momentum: epsilon must be positive"),
        (lambda: configs.AdagradMomentum(exponent=0.0), "Adagrad momentum: Precondition exponent must >0"),
        (lambda: configs.Adam(slot_variable_creation_fn=3), "must be either None or a callable. Received: 3"),
        (lambda: configs.CustomOptimizer(max, slot_names=["a"]), "must match the number of slot_initializers"),
        (lambda: configs.CustomOptimizer(max, slot_dims=[1]), "must match the number of slot_names"),
        (
            lambda: configs.CustomOptimizer(max, slot_names=["a"], slot_initializers=[max], slot_dims=[3]),
            "Unsupported slot dim '3' for slot 'a'. Only 1D and 2D are supported.",
        ),
        (lambda: configs.CustomCombiner(max, 3, 1), "When `num_weights` is greater than 0"),
        (lambda: configs.QuantizationConfig(1, 0.0, 1.0), "must be at least 2 for simulated quantization"),
        (lambda: configs.TableConfig(0, 2), "Argument `vocabulary_size` must be an int and must be >= 1. Received: 0"),
        (lambda: configs.TableConfig(2, 2.0), "must be an int and must be >= 1. Received: 2.0"),
        (lambda: configs.TableConfig(2, 2, combiner="max"), "String argument `combiner` must be in"),
        (lambda: configs.TableConfig(2, 2, combiner=3), "should either be a str or a CustomCombiner"),
        (lambda: configs.TableConfig(2, 2, initializer=3), "must be a callable"),
        (
            lambda: configs.TableConfig(2, 2, dtype=tf.int64),
            "must be either float32 or int32. Received: <dtype: 'int64'>",
        ),
        (lambda: configs.FeatureConfig("t"), "Argument `table` has invalid type <class 'str'>"),
        (lambda: configs.FeatureConfig(configs.TableConfig(2, 2), -1), "must be an int and must be >= 0. Received: -1"),
        (lambda: configs.FeatureConfig(configs.TableConfig(2, 2), 1, 3), "must be a boolean. Received: 3"),
    ],
)
def test_mistakes_in_settings(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_settings_are_values():
    assert configs.Adam(0.1) == configs.Adam(0.1) != configs.Adam(0.2)
    assert len({configs.SGD(0.1), configs.SGD(0.1), configs.SGD()}) == 2
    assert (configs.SGD(clipvalue=(-1.0, 2.0)).clip_gradient_min, configs.SGD(clipvalue=3.0).clip_gradient_max) == (
        -1.0,
        3.0,
    )
    assert configs.CustomCombiner(max, 3, 2, tf.ones_initializer())._slot_names() == ["custom_combiner_variables"]


# -- TPUs --------------------------------------------------------------------------------------------------------------
def test_the_embedding_engine_needs_a_tpu():
    feature = configs.FeatureConfig(configs.TableConfig(2, 2))
    embedding = configs.TPUEmbedding(feature, configs.SGD())
    for call in (embedding.enqueue, embedding.apply_gradients):
        with pytest.raises(RuntimeError, match=f"{call.__name__} is not valid when TPUEmbedding object is not created"):
            call(tf.constant([1]))
    with pytest.raises(RuntimeError, match="dequeue is not valid"):
        embedding.dequeue()
    for kind in (configs.TPUEmbeddingV0, configs.TPUEmbeddingV2):
        with pytest.raises(RuntimeError, match=f"{kind.__name__} should be created under TPUStrategy but found"):
            kind(feature, configs.SGD())


def test_under_a_strategy_for_tpus(monkeypatch):
    monkeypatch.setattr(tpu_embedding, "get_strategy", lambda: TPUStrategy.__new__(TPUStrategy))
    table = configs.TableConfig(4, 2, initializer=configs.RowIdInitializer())
    feature = configs.FeatureConfig(table)
    with pytest.raises(RuntimeError, match="Serving on TPU is not yet supported"):
        configs.TPUEmbeddingForServing(feature, None)
    for kind in (configs.TPUEmbedding, configs.TPUEmbeddingV2):
        with pytest.raises(NotImplementedError, match=f"{kind.__name__} needs the embedding engine of a TPU"):
            kind(feature, configs.SGD())
    embedding = configs.TPUEmbeddingV0(feature, configs.SGD())
    assert embedding(tf.ragged.constant([[1, 2], [3]])).numpy().tolist() == [[1.5, 1.5], [3.0, 3.0]]


def test_what_the_hardware_has():
    class Proto:
        embedding_feature, num_embedding_devices_per_chip = 2, 4

    feature = tf.tpu.experimental.HardwareFeature(Proto)
    assert feature.embedding_feature is tf.tpu.experimental.HardwareFeature.EmbeddingFeature.V2
    assert feature.num_embedding_devices_per_chip == 4
