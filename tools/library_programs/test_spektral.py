"""spektral: convolutions and pooling on graphs, with dense and sparse adjacency."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from spektral import layers as sl
from spektral.layers import ops
from spektral.utils import convolution, sparse

RNG = np.random.default_rng(0)
N, F = 6, 4
A = (RNG.uniform(size=(N, N)) < 0.5).astype(np.float32)
A = np.maximum(A, A.T) * (1 - np.eye(N, dtype=np.float32))
X = RNG.normal(size=(N, F)).astype(np.float32)


def sparse_a(a=A):
    return tf.sparse.reorder(tf.sparse.from_dense(a))


CONVOLUTIONS = {
    "GCN": lambda: sl.GCNConv(3),
    "GAT": lambda: sl.GATConv(3, attn_heads=2),
    "ChebConv": lambda: sl.ChebConv(3, K=2),
    "ARMA": lambda: sl.ARMAConv(3, order=1, iterations=2),
    "APPNP": lambda: sl.APPNPConv(3),
    "GCS": lambda: sl.GCSConv(3),
    "Diffusion": lambda: sl.DiffusionConv(3),
}
SPARSE_ONLY = {
    "AGNN": lambda: sl.AGNNConv(),
    "EdgeConv": lambda: sl.EdgeConv(3),
    "GatedGraph": lambda: sl.GatedGraphConv(5, n_layers=2),
    "GIN": lambda: sl.GINConv(3),
    "GraphSage": lambda: sl.GraphSageConv(3),
    "TAG": lambda: sl.TAGConv(3, K=2),
    "General": lambda: sl.GeneralConv(3, batch_norm=False),
    "GTV": lambda: sl.GTVConv(3),
    "Crystal": lambda: sl.CrystalConv(),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution_of_dense_and_sparse_graphs(name):
    layer = CONVOLUTIONS[name]()
    dense = layer([tf.constant(X), tf.constant(A)])
    np.testing.assert_allclose(layer([tf.constant(X), sparse_a()]).numpy(), dense.numpy(), atol=1e-4)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer([tf.constant(X), sparse_a()]) ** 2)
    assert all(g is not None for g in tape.gradient(loss, layer.trainable_weights))


@pytest.mark.parametrize("name", SPARSE_ONLY)
def test_message_passing(name):
    layer = SPARSE_ONLY[name]()
    with tf.GradientTape() as tape:
        out = layer([tf.constant(X), sparse_a()])
        loss = tf.reduce_sum(out**2)
    assert out.shape[0] == N
    assert all(g is not None for g in tape.gradient(loss, layer.trainable_weights))


@pytest.mark.parametrize("name", ["GCN", "GAT", "ChebConv", "ARMA", "APPNP", "GCS"])
def test_batches_of_graphs(name):
    layer = CONVOLUTIONS[name]()
    batch = layer([tf.constant(np.stack([X, X * 2])), tf.constant(np.stack([A, A]))])
    np.testing.assert_allclose(batch[0].numpy(), layer([tf.constant(X), tf.constant(A)]).numpy(), atol=1e-4)


def test_edge_features():
    e = RNG.normal(size=(N, N, 2)).astype(np.float32)
    layer = sl.ECCConv(3)
    assert layer([tf.constant(X), tf.constant(A), tf.constant(e)]).shape == (N, 3)


@pytest.mark.parametrize("kind", [sl.GlobalSumPool, sl.GlobalAvgPool, sl.GlobalMaxPool])
def test_global_pooling_of_disjoint_graphs(kind):
    segments = tf.constant([0, 0, 0, 1, 1, 1])
    out = kind()([tf.constant(X), segments]).numpy()
    reduce = {"GlobalSumPool": np.sum, "GlobalAvgPool": np.mean, "GlobalMaxPool": np.max}[kind.__name__]
    np.testing.assert_allclose(out, [reduce(X[:3], 0), reduce(X[3:], 0)], rtol=1e-4)


@pytest.mark.parametrize("kind", [sl.MinCutPool, sl.DiffPool, sl.DMoNPool])
def test_learned_pooling(kind):
    layer = kind(2) if kind is not sl.DiffPool else kind(2, channels=F)
    x, a = layer([tf.constant(X), tf.constant(A)])[:2]
    assert x.shape == (2, F)
    assert a.shape == (2, 2)
    assert len(layer.losses) >= 1


def test_top_k_pooling():
    layer = sl.TopKPool(0.5)
    out = layer([tf.constant(X), sparse_a(), tf.zeros([N], tf.int64)])
    assert out[0].shape[1] == F


def test_ops():
    filtered = convolution.gcn_filter(A)
    product = ops.modal_dot(sparse_a(filtered), tf.constant(X))
    np.testing.assert_allclose(product.numpy(), filtered @ X, atol=1e-5)
    np.testing.assert_allclose(ops.dot(tf.constant(A), tf.constant(X)).numpy(), A @ X, rtol=1e-5)
    twice = ops.matrix_power(sparse_a(), 2)
    np.testing.assert_allclose(tf.sparse.to_dense(twice).numpy(), A @ A, rtol=1e-5)
    summed = ops.scatter_sum(tf.constant(X), tf.constant([0, 0, 1, 1, 2, 2]), 3)
    np.testing.assert_allclose(summed.numpy()[0], X[0] + X[1], rtol=1e-5)
    assert sparse.sp_matrix_to_sp_tensor(A).shape == (N, N)


def test_training_of_a_model():
    x_in, a_in = tf.keras.Input((F,)), tf.keras.Input((N,))
    hidden = sl.GCNConv(8, activation="relu")([x_in, a_in])
    model = tf.keras.Model([x_in, a_in], sl.GCNConv(2, activation="softmax")([hidden, a_in]))
    model.compile(tf.keras.optimizers.Adam(0.05), "sparse_categorical_crossentropy")
    y = np.array([0, 1, 0, 1, 0, 1])
    history = model.fit([X, A], y, batch_size=N, shuffle=False, epochs=20, verbose=0).history["loss"]
    assert history[-1] < history[0]
