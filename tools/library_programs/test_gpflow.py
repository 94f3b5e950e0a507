"""GPflow: the regression notebook and the models beside it, on data made here."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf

RNG = np.random.default_rng(0)
X = np.sort(RNG.random((40, 1)), axis=0)
Y = np.sin(12 * X) + 0.66 * np.cos(25 * X) + 0.1 * RNG.normal(size=X.shape) + 3


def test_basic_regression():
    model = gpflow.models.GPR((X, Y), kernel=gpflow.kernels.Matern52(), mean_function=gpflow.functions.Linear())
    model.likelihood.variance.assign(0.01)
    model.kernel.lengthscales.assign(0.3)
    before = float(model.log_marginal_likelihood())
    result = gpflow.optimizers.Scipy().minimize(
        model.training_loss, model.trainable_variables, options={"maxiter": 100}
    )
    assert result.success
    assert float(model.log_marginal_likelihood()) > before
    mean, variance = model.predict_f(X)
    assert np.abs(mean.numpy() - Y).mean() < 0.15
    assert (variance.numpy() > 0).all()
    assert model.predict_f_samples(X[:5], 3).shape == (3, 5, 1)
    low = model.predict_y(X)[1].numpy()
    assert (low >= variance.numpy()).all()


@pytest.mark.parametrize(
    "kernel",
    ["SquaredExponential", "Matern12", "Matern32", "Matern52", "RationalQuadratic", "Periodic", "Linear", "Polynomial"],
)
def test_kernels(kernel):
    made = getattr(gpflow.kernels, kernel)
    k = made(gpflow.kernels.SquaredExponential()) if kernel == "Periodic" else made()
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(k(X))
    gradients = tape.gradient(total, k.trainable_variables)
    assert k.trainable_variables
    assert all(g is not None for g in gradients)
    np.testing.assert_allclose(tf.linalg.diag_part(k(X)), k(X, full_cov=False), rtol=1e-6)


def test_sums_and_products_of_kernels():
    k = gpflow.kernels.RBF() * gpflow.kernels.Linear() + gpflow.kernels.White()
    values = k(X).numpy()
    np.testing.assert_allclose(values, values.T)
    assert len(k.trainable_variables) == 4


def test_parameters_and_priors():
    p = gpflow.Parameter(1.0, transform=gpflow.utilities.positive(lower=1e-3))
    p.assign(2.5)
    assert float(p.numpy()) == pytest.approx(2.5)
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        p.assign(-1.0)
    model = gpflow.models.GPR((X, Y), gpflow.kernels.RBF())
    gpflow.set_trainable(model.likelihood, False)
    assert len(model.trainable_variables) == 2
    assert set(gpflow.utilities.parameter_dict(model)) == {
        ".kernel.variance",
        ".kernel.lengthscales",
        ".likelihood.variance",
    }
    other = gpflow.utilities.deepcopy(model)
    other.kernel.variance.assign(9.0)
    assert float(model.kernel.variance.numpy()) != 9.0


def test_sparse_regression():
    model = gpflow.models.SGPR((X, Y), gpflow.kernels.RBF(lengthscales=0.2), inducing_variable=X[::4].copy())
    before = float(model.elbo())
    gpflow.optimizers.Scipy().minimize(model.training_loss, model.trainable_variables, options={"maxiter": 50})
    assert float(model.elbo()) > before


def test_stochastic_variational_model_with_adam():
    data = (X, (Y > 3).astype(np.float64))
    model = gpflow.models.SVGP(
        gpflow.kernels.RBF(lengthscales=0.2), gpflow.likelihoods.Bernoulli(), inducing_variable=X[::5].copy()
    )
    loss = model.training_loss_closure(data)
    optimizer = tf.keras.optimizers.Adam(0.05)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            value = loss()
        gradients = tape.gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=False))
        return value

    losses = [float(step()) for _ in range(60)]
    assert losses[-1] < losses[0]
    assert 0 <= model.predict_y(X)[0].numpy().min() <= 1


def test_variational_model():
    model = gpflow.models.VGP((X, (Y > 3).astype(np.float64)), gpflow.kernels.RBF(), gpflow.likelihoods.Bernoulli())
    before = float(model.elbo())
    gpflow.optimizers.Scipy().minimize(model.training_loss, model.trainable_variables, options={"maxiter": 10})
    assert float(model.elbo()) > before


def test_natural_gradients():
    model = gpflow.models.SVGP(gpflow.kernels.RBF(), gpflow.likelihoods.Gaussian(), inducing_variable=X[::5].copy())
    before = float(model.elbo((X, Y)))
    gpflow.set_trainable(model.q_mu, False)
    gpflow.set_trainable(model.q_sqrt, False)
    gpflow.optimizers.NaturalGradient(gamma=0.5).minimize(
        model.training_loss_closure((X, Y)), var_list=[(model.q_mu, model.q_sqrt)]
    )
    assert float(model.elbo((X, Y))) > before


def test_hamiltonian_monte_carlo():
    import tensorflow_probability as tfp

    model = gpflow.models.GPR((X, Y), gpflow.kernels.Matern52(lengthscales=0.3))
    for parameter in model.trainable_parameters:
        parameter.prior = tfp.distributions.Gamma(np.float64(1.0), np.float64(1.0))
    helper = gpflow.optimizers.SamplingHelper(model.log_posterior_density, model.trainable_parameters)
    kernel = tfp.mcmc.HamiltonianMonteCarlo(helper.target_log_prob_fn, num_leapfrog_steps=3, step_size=0.02)

    @tf.function
    def run():
        return tfp.mcmc.sample_chain(
            20,
            num_burnin_steps=5,
            current_state=helper.current_state,
            kernel=kernel,
            trace_fn=lambda _, r: r.is_accepted,
        )

    samples, accepted = run()
    assert np.mean(accepted.numpy()) > 0.5
    assert all(np.isfinite(s.numpy()).all() for s in samples)


def test_latent_variables():
    y = RNG.normal(size=(15, 3))
    model = gpflow.models.BayesianGPLVM(
        y,
        X_data_mean=tf.constant(y[:, :2]),
        X_data_var=tf.ones((15, 2), tf.float64),
        kernel=gpflow.kernels.RBF(lengthscales=[1.0, 1.0]),
        num_inducing_variables=5,
    )
    before = float(model.elbo())
    gpflow.optimizers.Scipy().minimize(model.training_loss, model.trainable_variables, options={"maxiter": 10})
    assert float(model.elbo()) > before


def test_checkpoints(tmp_path):
    model = gpflow.models.GPR((X, Y), gpflow.kernels.RBF())
    model.kernel.lengthscales.assign(0.7)
    path = tf.train.Checkpoint(model=model).save(str(tmp_path / "model"))
    model.kernel.lengthscales.assign(2.0)
    tf.train.Checkpoint(model=model).restore(path)
    assert float(model.kernel.lengthscales.numpy()) == pytest.approx(0.7)
