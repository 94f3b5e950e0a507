"""BayesFlow on Keras' TensorFlow backend: networks, workflows and diagnostics of amortized inference."""

from __future__ import annotations

import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import bayesflow as bf
import keras
import numpy as np
import pytest

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def seed():
    keras.utils.set_random_seed(0)


def simulator():
    def prior():
        return {"theta": RNG.normal(size=2)}

    def likelihood(theta):
        return {"x": theta + 0.3 * RNG.normal(size=(8, 2))}

    return bf.make_simulator([prior, likelihood])


def workflow(inference, summary=None):
    return bf.BasicWorkflow(
        simulator=simulator(),
        inference_network=inference,
        summary_network=summary or bf.networks.DeepSet(summary_dim=4, depth=1),
        inference_variables=["theta"],
        summary_variables=["x"],
    )


INFERENCE = {
    "affine flow": lambda: bf.networks.CouplingFlow(depth=2, subnet_kwargs={"widths": (16, 16)}),
    "spline flow": lambda: bf.networks.CouplingFlow(depth=2, transform="spline", subnet_kwargs={"widths": (16, 16)}),
    "flow matching": lambda: bf.networks.FlowMatching(subnet_kwargs={"widths": (16, 16)}),
    "diffusion": lambda: bf.networks.DiffusionModel(subnet_kwargs={"widths": (16, 16)}),
}


@pytest.mark.parametrize("name", INFERENCE)
def test_training_and_sampling(name):
    flow = workflow(INFERENCE[name]())
    data = flow.simulate(64)
    history = flow.fit_offline(data, epochs=3, batch_size=16, verbose=0)
    assert len(history.history["loss"]) == 3
    assert np.isfinite(history.history["loss"]).all()
    drawn = flow.sample(conditions={"x": data["x"][:3]}, num_samples=5)
    assert drawn["theta"].shape == (3, 5, 2)
    assert np.isfinite(drawn["theta"]).all()


def test_a_flow_learns_the_posterior():
    flow = workflow(bf.networks.CouplingFlow(depth=3, subnet_kwargs={"widths": (32, 32)}))
    data = flow.simulate(512)
    history = flow.fit_offline(data, epochs=20, batch_size=32, verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0] - 0.5
    test = flow.simulate(20)
    means = flow.sample(conditions={"x": test["x"]}, num_samples=100)["theta"].mean(axis=1)
    assert np.corrcoef(means[:, 0], test["theta"][:, 0])[0, 1] > 0.7


def test_log_density_of_a_flow():
    network = bf.networks.CouplingFlow(depth=2, subnet_kwargs={"widths": (8,)})
    x, condition = RNG.normal(size=(6, 2)).astype(np.float32), RNG.normal(size=(6, 3)).astype(np.float32)
    network.build((6, 2), (6, 3))
    z, density = network(x, conditions=condition, density=True)
    back = network(z, conditions=condition, inverse=True)
    np.testing.assert_allclose(keras.ops.convert_to_numpy(back), x, atol=1e-3)
    assert keras.ops.convert_to_numpy(density).shape == (6,)


@pytest.mark.parametrize("summary", ["DeepSet", "SetTransformer", "TimeSeriesTransformer"])
def test_summary_networks(summary):
    network = getattr(bf.networks, summary)(summary_dim=3)
    out = network(RNG.normal(size=(4, 8, 2)).astype(np.float32))
    assert tuple(out.shape) == (4, 3)


def test_adapter():
    adapter = (
        bf.Adapter()
        .to_array()
        .convert_dtype("float64", "float32")
        .standardize(include="a", mean=1.0, std=2.0)
        .concatenate(["a", "b"], into="joined")
    )
    data = {"a": np.array([[1.0], [3.0]]), "b": np.array([[0.5], [0.25]])}
    out = adapter(data)
    np.testing.assert_allclose(out["joined"], [[0.0, 0.5], [1.0, 0.25]])
    np.testing.assert_allclose(adapter(out, inverse=True)["a"], data["a"])


def test_jacobians():
    import bayesflow.utils as utils

    x = keras.ops.convert_to_tensor(RNG.normal(size=(3, 2)).astype(np.float32))
    _values, product = utils.jvp(lambda t: t**3, x, keras.ops.ones_like(x))
    np.testing.assert_allclose(keras.ops.convert_to_numpy(product), 3 * keras.ops.convert_to_numpy(x) ** 2, rtol=1e-5)
    _, function = utils.vjp(lambda t: t**2, x)
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(function(keras.ops.ones_like(x))), 2 * keras.ops.convert_to_numpy(x), rtol=1e-5
    )


def test_diagnostics():
    truth = RNG.normal(size=(30, 2))
    draws = truth[:, None] + 0.5 * RNG.normal(size=(30, 50, 2))
    measured = bf.diagnostics.metrics.root_mean_squared_error({"theta": draws}, {"theta": truth})
    assert np.isfinite(measured["values"]).all()
    figure = bf.diagnostics.plots.recovery({"theta": draws}, {"theta": truth})
    assert figure.axes


def test_point_estimates():
    network = (
        bf.networks.ScoringRuleNetwork(mean=bf.scoring_rules.MeanScore())
        if hasattr(bf.networks, "ScoringRuleNetwork")
        else bf.networks.PointInferenceNetwork(scores={"mean": bf.scores.MeanScore()})
    )
    flow = workflow(network)
    data = flow.simulate(64)
    flow.fit_offline(data, epochs=2, batch_size=16, verbose=0)
    estimates = flow.estimate(conditions={"x": data["x"][:3]})
    assert "theta" in estimates


def test_saving(tmp_path):
    flow = workflow(bf.networks.CouplingFlow(depth=1, subnet_kwargs={"widths": (8,)}))
    data = flow.simulate(32)
    flow.fit_offline(data, epochs=1, batch_size=16, verbose=0)
    path = tmp_path / "model.keras"
    flow.approximator.save(path)
    loaded = keras.saving.load_model(path)
    point = {"x": data["x"][:2], "theta": data["theta"][:2]}
    np.testing.assert_allclose(loaded.log_prob(point), flow.approximator.log_prob(point), rtol=1e-4)
