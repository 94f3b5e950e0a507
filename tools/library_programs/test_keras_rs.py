"""keras-rs: layers, losses and metrics of recommender systems."""

from __future__ import annotations

import keras
import keras_rs
import numpy as np
import pytest

RNG = np.random.default_rng(0)


def test_feature_cross():
    x = RNG.normal(size=(4, 5)).astype(np.float32)
    layer = keras_rs.layers.FeatureCross()
    out = keras.ops.convert_to_numpy(layer(x, x))
    kernel, bias = (keras.ops.convert_to_numpy(w) for w in layer.weights)
    np.testing.assert_allclose(out, x * (x @ kernel + bias) + x, rtol=1e-4, atol=1e-5)
    low = keras_rs.layers.FeatureCross(projection_dim=2)
    assert low(x, x).shape == (4, 5)


def test_dot_interaction():
    features = [RNG.normal(size=(3, 4)).astype(np.float32) for _ in range(3)]
    out = keras.ops.convert_to_numpy(keras_rs.layers.DotInteraction()(features))
    expected = [(features[i] * features[j]).sum(1) for i in range(3) for j in range(i)]
    np.testing.assert_allclose(np.sort(out, axis=1), np.sort(np.stack(expected, 1), axis=1), rtol=1e-5)


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_embed_reduce(combiner):
    layer = keras_rs.layers.EmbedReduce(10, 4, combiner=combiner)
    ids = np.array([[1, 2, 3], [4, 4, 0]])
    table = None
    out = keras.ops.convert_to_numpy(layer(ids))
    table = keras.ops.convert_to_numpy(layer.weights[0])
    scale = {"sum": 1.0, "mean": 1 / 3, "sqrtn": 3**-0.5}[combiner]
    np.testing.assert_allclose(out, table[ids].sum(1) * scale, rtol=1e-5)


def test_retrieval():
    queries, candidates = RNG.normal(size=(2, 8)).astype(np.float32), RNG.normal(size=(30, 8)).astype(np.float32)
    layer = keras_rs.layers.BruteForceRetrieval(candidates, k=5)
    scores, ids = (keras.ops.convert_to_numpy(x) for x in layer(queries))
    expected = np.argsort(-(queries @ candidates.T), axis=1)[:, :5]
    np.testing.assert_array_equal(ids, expected)
    assert (np.diff(scores, axis=1) <= 0).all()


def test_negative_mining_accidental_hits_and_corrections():
    logits = RNG.normal(size=(4, 4)).astype(np.float32)
    labels = np.eye(4, dtype=np.float32)
    mined, kept = keras_rs.layers.HardNegativeMining(2)(logits, labels)
    assert mined.shape == (4, 3)
    assert kept.shape == (4, 3)
    same = keras_rs.layers.RemoveAccidentalHits()(logits, labels, np.array([0, 1, 1, 3]))
    assert same.shape == (4, 4)
    corrected = keras_rs.layers.SamplingProbabilityCorrection()(logits, np.full((4,), 0.5, np.float32))
    np.testing.assert_allclose(keras.ops.convert_to_numpy(corrected), logits - np.log(0.5), rtol=1e-4)


def test_ranking_metrics():
    y, p = np.array([[0.0, 1.0, 0.0]]), np.array([[0.1, 0.3, 0.6]])
    assert float(keras_rs.metrics.MeanReciprocalRank()(y, p)) == pytest.approx(0.5)
    assert float(keras_rs.metrics.PrecisionAtK(k=2)(y, p)) == pytest.approx(0.5)
    assert float(keras_rs.metrics.RecallAtK(k=2)(y, p)) == pytest.approx(1.0)
    assert float(keras_rs.metrics.DCG()(y, p)) == pytest.approx(1 / np.log2(3), rel=1e-4)
    assert float(keras_rs.metrics.NDCG()(y, p)) == pytest.approx(1 / np.log2(3), rel=1e-4)
    assert float(keras_rs.metrics.MeanAveragePrecision()(y, p)) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "loss",
    ["PairwiseHingeLoss", "PairwiseLogisticLoss", "PairwiseMeanSquaredError", "PairwiseSoftZeroOneLoss", "ListMLELoss"],
)
def test_ranking_loss_trains(loss):
    x = RNG.normal(size=(32, 6, 3)).astype(np.float32)
    y = (x @ np.array([1.0, -1.0, 2.0], np.float32)).argsort(1).argsort(1).astype(np.float32)
    model = keras.Sequential([keras.layers.Input((6, 3)), keras.layers.Dense(1), keras.layers.Reshape((6,))])
    model.compile(keras.optimizers.Adam(0.05), getattr(keras_rs.losses, loss)())
    history = model.fit(x, y, epochs=15, verbose=0).history["loss"]
    assert history[-1] < history[0]


def test_two_tower_model():
    user, item = keras.layers.Embedding(20, 8), keras.layers.Embedding(30, 8)
    inputs = {"user": keras.Input((), dtype="int32"), "item": keras.Input((), dtype="int32")}
    scores = keras.ops.matmul(user(inputs["user"]), keras.ops.transpose(item(inputs["item"])))
    model = keras.Model(inputs, scores)
    model.compile("adam", keras.losses.CategoricalCrossentropy(from_logits=True))
    data = {"user": RNG.integers(0, 20, 64), "item": RNG.integers(0, 30, 64)}
    first = None
    for _ in range(20):
        loss = model.train_on_batch(data, np.eye(64))
        first = loss if first is None else first
    assert float(loss) < float(first)


def test_distributed_embedding():
    table = keras_rs.layers.TableConfig("t", vocabulary_size=10, embedding_dim=4, placement="default_device")
    config = keras_rs.layers.FeatureConfig("f", table=table, input_shape=(3, 2), output_shape=(3, 4))
    layer = keras_rs.layers.DistributedEmbedding({"f": config})
    out = layer({"f": np.array([[1, 2], [3, 4], [5, 6]])})
    assert out["f"].shape == (3, 4)
