"""cleverhans: its attacks for TensorFlow 2."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from cleverhans.tf2.attacks.basic_iterative_method import basic_iterative_method
from cleverhans.tf2.attacks.carlini_wagner_l2 import carlini_wagner_l2
from cleverhans.tf2.attacks.fast_gradient_method import fast_gradient_method
from cleverhans.tf2.attacks.madry_et_al import madry_et_al
from cleverhans.tf2.attacks.momentum_iterative_method import momentum_iterative_method
from cleverhans.tf2.attacks.projected_gradient_descent import projected_gradient_descent
from cleverhans.tf2.attacks.spsa import spsa
from cleverhans.tf2.utils import clip_eta, optimize_linear, random_lp_vector

W = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
X = np.random.default_rng(1).uniform(0.3, 0.7, size=(5, 8)).astype(np.float32)


def model(x):
    return tf.matmul(x - 0.5, tf.constant(W))


LABELS = np.argmax((X - 0.5) @ W, axis=1)


def changed(adversarial):
    return float(np.mean(np.argmax(model(adversarial).numpy(), axis=1) != LABELS))


@pytest.mark.parametrize(("norm", "eps"), [(np.inf, 0.3), (2, 1.0), (1, 4.0)])
def test_fast_gradient_method(norm, eps):
    adversarial = fast_gradient_method(model, tf.constant(X), eps, norm, clip_min=0.0, clip_max=1.0)
    assert changed(adversarial) >= 0.6
    assert float(tf.norm(adversarial - X, ord=norm, axis=1)[0]) <= eps + 1e-4


@pytest.mark.parametrize("targeted", [False, True])
def test_projected_gradient_descent(targeted):
    y = tf.constant((LABELS + 1) % 3) if targeted else None
    adversarial = projected_gradient_descent(
        model, tf.constant(X), 0.3, 0.05, 20, np.inf, clip_min=0.0, clip_max=1.0, y=y, targeted=targeted
    )
    assert changed(adversarial) >= 0.6
    assert float(tf.reduce_max(tf.abs(adversarial - X))) <= 0.3 + 1e-5


def test_basic_iterative_method():
    assert changed(basic_iterative_method(model, tf.constant(X), 0.3, 0.05, 10, np.inf)) >= 0.6


def test_momentum_iterative_method():
    assert changed(momentum_iterative_method(model, tf.constant(X), eps=0.3, eps_iter=0.06, nb_iter=10)) >= 0.6


def test_madry_et_al():
    assert changed(madry_et_al(model, tf.constant(X), 0.3, 0.05, 10, np.inf)) >= 0.6


def test_carlini_wagner():
    keras_model = tf.keras.Sequential([tf.keras.layers.Input((8,)), tf.keras.layers.Dense(3, use_bias=False)])
    keras_model.layers[-1].set_weights([W])
    y = np.argmax(X @ W, axis=1)
    adversarial = carlini_wagner_l2(
        keras_model, X, y=y, clip_min=0.0, clip_max=1.0, max_iterations=100, binary_search_steps=3, learning_rate=0.05
    )
    found = np.argmax(keras_model(adversarial).numpy(), axis=1)
    assert float(np.mean(found != y)) >= 0.4


def test_spsa():
    tf.random.set_seed(0)
    adversarial = spsa(
        model, tf.constant(X[:1]), tf.constant(LABELS[:1]), eps=0.3, nb_iter=20, clip_min=0.0, clip_max=1.0
    )
    assert adversarial.shape == (1, 8)
    assert float(tf.reduce_max(tf.abs(adversarial - X[:1]))) <= 0.3 + 1e-5


@pytest.mark.parametrize("norm", [np.inf, 1, 2])
def test_helpers(norm):
    v = random_lp_vector([4, 6], norm, 0.5)
    assert float(tf.reduce_max(tf.norm(v, ord=norm, axis=1))) <= 0.5 + 1e-5
    clipped = clip_eta(10.0 * v, norm, 0.25) if norm != 1 else v
    assert float(tf.reduce_max(tf.norm(clipped, ord=norm, axis=1))) <= 0.5 + 1e-5
    direction = optimize_linear(tf.constant(X), 0.3, norm)
    assert float(tf.norm(direction, ord=norm, axis=1)[0]) == pytest.approx(0.3, rel=1e-3)
