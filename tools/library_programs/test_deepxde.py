"""deepxde with its TensorFlow backend: differential equations whose solution is known."""

from __future__ import annotations

import os

os.environ["DDE_BACKEND"] = "tensorflow"

import deepxde as dde
import numpy as np
import pytest
import tensorflow as tf


@pytest.fixture(autouse=True)
def seed():
    dde.config.set_random_seed(0)


def network(inputs, outputs=1, width=20):
    return dde.nn.FNN([inputs, width, width, outputs], "tanh", "Glorot uniform")


def trained(data, net, iterations=400, optimizer="adam", **more):
    model = dde.Model(data, net)
    model.compile(optimizer, lr=0.005, **more)
    history, _state = model.train(iterations=iterations, verbose=0, display_every=iterations)
    return model, history


def test_poisson_equation():
    geom = dde.geometry.Interval(-1, 1)

    def pde(x, y):
        return -dde.grad.hessian(y, x) - np.pi**2 * tf.sin(np.pi * x)

    bc = dde.icbc.DirichletBC(geom, lambda x: np.sin(np.pi * x), lambda _, on: on)
    data = dde.data.PDE(geom, pde, bc, 16, 2, solution=lambda x: np.sin(np.pi * x), num_test=50)
    model, history = trained(data, network(1), 1000, metrics=["l2 relative error"])
    assert history.metrics_test[-1][0] < 0.2
    x = geom.uniform_points(20)
    assert model.predict(x, operator=pde).shape == (20, 1)


def test_heat_equation_with_initial_condition():
    geom = dde.geometry.GeometryXTime(dde.geometry.Interval(0, 1), dde.geometry.TimeDomain(0, 1))

    def pde(x, y):
        return dde.grad.jacobian(y, x, i=0, j=1) - 0.4 * dde.grad.hessian(y, x, i=0, j=0)

    bc = dde.icbc.DirichletBC(geom, lambda x: 0, lambda _, on: on)
    ic = dde.icbc.IC(geom, lambda x: np.sin(np.pi * x[:, 0:1]), lambda _, on: on)
    data = dde.data.TimePDE(geom, pde, [bc, ic], 60, 20, 20)
    _, history = trained(data, network(2), 200)
    assert sum(history.loss_train[-1]) < sum(history.loss_train[0])


def test_system_of_equations():
    geom = dde.geometry.TimeDomain(0, 3)

    def system(x, y):
        return [
            dde.grad.jacobian(y, x, i=0) - y[:, 1:2],
            dde.grad.jacobian(y, x, i=1) + y[:, 0:1],
        ]

    start = lambda _, on: on  # noqa: E731
    ics = [dde.icbc.IC(geom, lambda x: 0, start, component=0), dde.icbc.IC(geom, lambda x: 1, start, component=1)]
    data = dde.data.PDE(geom, system, ics, 30, 2)
    _, history = trained(data, network(1, 2), 400)
    assert sum(history.loss_train[-1]) < 0.5 * sum(history.loss_train[0])


def test_inverse_problem_finds_a_coefficient():
    c = dde.Variable(0.5)
    geom = dde.geometry.Interval(-1, 1)

    def pde(x, y):
        return dde.grad.jacobian(y, x) - c * y

    points = np.linspace(-1, 1, 20)[:, None]
    observed = dde.icbc.PointSetBC(points, np.exp(points))
    data = dde.data.PDE(geom, pde, observed, 30, 2)
    model = dde.Model(data, network(1))
    model.compile("adam", lr=0.01, external_trainable_variables=c)
    model.train(iterations=800, verbose=0)
    assert float(c.value()) == pytest.approx(1.0, abs=0.15)


def test_function_from_data_with_dropout_and_regularization():
    data = dde.data.Function(dde.geometry.Interval(-1, 1), lambda x: x * np.sin(5 * x), 16, 50)
    net = dde.nn.FNN([1, 20, 20, 1], "tanh", "Glorot uniform", regularization=["l2", 1e-5], dropout_rate=0.01)
    model = dde.Model(data, net)
    model.compile("adam", lr=0.005)
    history, _ = model.train(iterations=200, verbose=0)
    assert history.loss_train[-1].sum() < history.loss_train[0].sum()


def test_operator_network():
    rng = np.random.default_rng(0)
    functions, points = rng.normal(size=(40, 5)).astype(np.float32), np.linspace(0, 1, 10, dtype=np.float32)[:, None]
    y = (functions.mean(1, keepdims=True) * points.T).astype(np.float32)
    data = dde.data.TripleCartesianProd((functions, points), y, (functions, points), y)
    net = dde.nn.DeepONetCartesianProd([5, 16, 16], [1, 16, 16], "relu", "Glorot normal")
    model = dde.Model(data, net)
    model.compile("adam", lr=0.005)
    history, _ = model.train(iterations=200, verbose=0)
    assert history.loss_train[-1].sum() < 0.5 * history.loss_train[0].sum()


@pytest.mark.parametrize("optimizer", ["sgd", "nadam"])
def test_optimizers_and_decays(optimizer):
    data = dde.data.Function(dde.geometry.Interval(-1, 1), lambda x: x**2, 8, 8)
    model = dde.Model(data, network(1, width=8))
    model.compile(optimizer, lr=0.001, decay=("inverse time", 50, 0.5))
    history, _ = model.train(iterations=50, verbose=0)
    assert np.isfinite(history.loss_train[-1]).all()


def test_lbfgs():
    geom = dde.geometry.Interval(-1, 1)

    def pde(x, y):
        return -dde.grad.hessian(y, x) - np.pi**2 * tf.sin(np.pi * x)

    bc = dde.icbc.DirichletBC(geom, lambda x: np.sin(np.pi * x), lambda _, on: on)
    data = dde.data.PDE(geom, pde, bc, 16, 2)
    model = dde.Model(data, network(1))
    model.compile("adam", lr=0.005)
    model.train(iterations=100, verbose=0)
    dde.optimizers.set_LBFGS_options(maxiter=200)
    model.compile("L-BFGS")
    history, _ = model.train(verbose=0)
    assert history.loss_train[-1].sum() < 1e-2


def test_callbacks_and_checkpoints(tmp_path):
    data = dde.data.Function(dde.geometry.Interval(-1, 1), lambda x: x**2, 8, 8)
    model = dde.Model(data, network(1, width=8))
    model.compile("adam", lr=0.005)
    saver = dde.callbacks.ModelCheckpoint(str(tmp_path / "model"), save_better_only=True, period=20)
    model.train(iterations=60, callbacks=[saver, dde.callbacks.EarlyStopping(patience=1000)], verbose=0)
    assert any(tmp_path.iterdir())
    path = model.save(str(tmp_path / "last"))
    before = model.predict(np.array([[0.5]], np.float32))
    model.train(iterations=20, verbose=0)
    model.restore(path)
    np.testing.assert_allclose(model.predict(np.array([[0.5]], np.float32)), before, rtol=1e-5)
