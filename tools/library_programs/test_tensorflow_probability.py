"""TensorFlow Probability: distributions, bijectors, joint distributions, HMC and optimizers, with gradients."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp

tfd, tfb = tfp.distributions, tfp.bijectors

DISTRIBUTIONS = {
    "normal": (lambda: tfd.Normal(0.5, 2.0), scipy.stats.norm(0.5, 2.0), 1.3),
    "gamma": (lambda: tfd.Gamma(2.0, 3.0), scipy.stats.gamma(2.0, scale=1 / 3.0), 0.7),
    "inverse gamma": (lambda: tfd.InverseGamma(3.0, 2.0), scipy.stats.invgamma(3.0, scale=2.0), 0.7),
    "beta": (lambda: tfd.Beta(2.0, 3.0), scipy.stats.beta(2.0, 3.0), 0.3),
    "student": (lambda: tfd.StudentT(4.0, 0.1, 1.5), scipy.stats.t(4.0, 0.1, 1.5), 0.9),
    "laplace": (lambda: tfd.Laplace(0.2, 1.1), scipy.stats.laplace(0.2, 1.1), -0.4),
    "lognormal": (lambda: tfd.LogNormal(0.1, 0.7), scipy.stats.lognorm(0.7, scale=np.exp(0.1)), 1.7),
    "cauchy": (lambda: tfd.Cauchy(0.3, 1.2), scipy.stats.cauchy(0.3, 1.2), 2.0),
    "gumbel": (lambda: tfd.Gumbel(0.3, 1.2), scipy.stats.gumbel_r(0.3, 1.2), 0.8),
    "logistic": (lambda: tfd.Logistic(0.3, 1.2), scipy.stats.logistic(0.3, 1.2), 0.8),
    "exponential": (lambda: tfd.Exponential(1.4), scipy.stats.expon(scale=1 / 1.4), 0.8),
    "half normal": (lambda: tfd.HalfNormal(1.4), scipy.stats.halfnorm(scale=1.4), 0.8),
    "truncated normal": (lambda: tfd.TruncatedNormal(0.0, 1.0, -1.0, 2.0), scipy.stats.truncnorm(-1.0, 2.0), 0.4),
    "uniform": (lambda: tfd.Uniform(1.0, 3.0), scipy.stats.uniform(1.0, 2.0), 1.8),
    "weibull": (lambda: tfd.Weibull(1.5, 2.0), scipy.stats.weibull_min(1.5, scale=2.0), 1.2),
    "poisson": (lambda: tfd.Poisson(2.5), scipy.stats.poisson(2.5), 3.0),
    "binomial": (lambda: tfd.Binomial(7.0, probs=0.4), scipy.stats.binom(7, 0.4), 3.0),
    "geometric": (lambda: tfd.Geometric(probs=0.4), scipy.stats.geom(0.4, loc=-1), 2.0),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_log_prob(name):
    make, expected, x = DISTRIBUTIONS[name]
    wanted = expected.logpmf(x) if hasattr(expected.dist, "logpmf") else expected.logpdf(x)
    np.testing.assert_allclose(make().log_prob(x).numpy(), wanted, rtol=2e-5)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_samples(name):
    make, expected, _ = DISTRIBUTIONS[name]
    drawn = make().sample(4000, seed=(1, 2)).numpy()
    assert drawn.shape == (4000,)
    quartiles = expected.ppf([0.25, 0.75])
    share = [np.mean(drawn <= q) for q in quartiles]
    np.testing.assert_allclose(share, expected.cdf(quartiles), atol=0.04)


@pytest.mark.parametrize("name", ["normal", "gamma", "beta", "student", "laplace", "lognormal", "gumbel", "weibull"])
def test_gradients_of_log_prob(name):
    make, _, x = DISTRIBUTIONS[name]
    with tf.GradientTape() as tape:
        point = tf.constant(x)
        tape.watch(point)
        value = make().log_prob(point)
    step = 1e-2
    slope = (make().log_prob(x + step) - make().log_prob(x - step)) / (2 * step)
    np.testing.assert_allclose(tape.gradient(value, point), slope, rtol=2e-2, atol=1e-3)


@pytest.mark.parametrize("name", ["normal", "gamma", "beta", "student", "laplace", "logistic"])
def test_reparameterized_samples_have_gradients(name):
    families = {
        "normal": lambda p: tfd.Normal(p, 1.0),
        "gamma": lambda p: tfd.Gamma(2.0 + p, 1.0),
        "beta": lambda p: tfd.Beta(2.0 + p, 3.0),
        "student": lambda p: tfd.StudentT(5.0, p, 1.0),
        "laplace": lambda p: tfd.Laplace(p, 1.0),
        "logistic": lambda p: tfd.Logistic(p, 1.0),
    }
    p = tf.Variable(0.0)
    with tf.GradientTape() as tape:
        distribution = families[name](p)
        mean = tf.reduce_mean(distribution.sample(4000, seed=(3, 4)))
    with tf.GradientTape() as exact:
        wanted = families[name](p).mean()
    np.testing.assert_allclose(tape.gradient(mean, p), exact.gradient(wanted, p), atol=0.08)


def test_multivariate_normal():
    covariance = np.array([[2.0, 0.6], [0.6, 1.0]], np.float32)
    d = tfd.MultivariateNormalTriL([1.0, -1.0], tf.linalg.cholesky(covariance))
    x = np.array([0.5, 0.2], np.float32)
    wanted = scipy.stats.multivariate_normal([1.0, -1.0], covariance).logpdf(x)
    np.testing.assert_allclose(d.log_prob(x), wanted, rtol=1e-5)
    np.testing.assert_allclose(d.covariance(), covariance, rtol=1e-5)
    drawn = d.sample(5000, seed=(5, 6)).numpy()
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.15)


def test_mixture_and_categorical():
    mixture = tfd.MixtureSameFamily(tfd.Categorical(probs=[0.3, 0.7]), tfd.Normal([-1.0, 2.0], [0.5, 1.0]))
    x = np.linspace(-3, 4, 9).astype(np.float32)
    wanted = np.log(0.3 * scipy.stats.norm(-1, 0.5).pdf(x) + 0.7 * scipy.stats.norm(2, 1).pdf(x))
    np.testing.assert_allclose(mixture.log_prob(x), wanted, rtol=1e-4)
    np.testing.assert_allclose(mixture.mean(), 1.1, rtol=1e-5)
    logits = tf.Variable([0.1, 0.4, -0.2])
    with tf.GradientTape() as tape:
        entropy = tfd.Categorical(logits=logits).entropy()
    assert tape.gradient(entropy, logits).shape == (3,)


def test_dirichlet_and_kl_divergences():
    a, b = tfd.Dirichlet([1.0, 2.0, 3.0]), tfd.Dirichlet([2.0, 2.0, 2.0])
    assert float(tfd.kl_divergence(a, b)) > 0
    p, q = tfd.Normal(0.0, 1.0), tfd.Normal(1.0, 2.0)
    np.testing.assert_allclose(tfd.kl_divergence(p, q), np.log(2) + 2 / 8 - 0.5, rtol=1e-5)
    np.testing.assert_allclose(
        a.log_prob([0.2, 0.3, 0.5]), scipy.stats.dirichlet([1, 2, 3]).logpdf([0.2, 0.3, 0.5]), rtol=1e-5
    )


def test_independent_and_batches():
    d = tfd.Independent(tfd.Normal(tf.zeros([4, 3]), 1.0), 1)
    assert (d.batch_shape, d.event_shape) == ((4,), (3,))
    assert d.log_prob(tf.ones([2, 4, 3])).shape == (2, 4)
    assert d.sample(5, seed=(1, 1)).shape == (5, 4, 3)


BIJECTORS = {
    "exp": (lambda: tfb.Exp(), 0.4),
    "softplus": (lambda: tfb.Softplus(), 0.4),
    "sigmoid": (lambda: tfb.Sigmoid(), 0.4),
    "tanh": (lambda: tfb.Tanh(), 0.4),
    "shift and scale": (lambda: tfb.Shift(1.0)(tfb.Scale(2.0)), 0.4),
    "chain": (lambda: tfb.Chain([tfb.Exp(), tfb.Softplus(), tfb.Scale(0.5)]), 0.4),
    "power": (lambda: tfb.Power(3.0), 0.4),
    "invert": (lambda: tfb.Invert(tfb.Exp()), 0.4),
    "softsign": (lambda: tfb.Softsign(), 0.4),
    "gumbel": (lambda: tfb.GumbelCDF(0.1, 1.2), 0.4),
    "sinh arcsinh": (lambda: tfb.SinhArcsinh(0.2, 1.1), 0.4),
}


@pytest.mark.parametrize("name", BIJECTORS)
def test_bijectors(name):
    make, x = BIJECTORS[name]
    bijector = make()
    with tf.GradientTape() as tape:
        point = tf.constant(x)
        tape.watch(point)
        y = bijector.forward(point)
    np.testing.assert_allclose(bijector.inverse(tf.identity(y)), x, rtol=1e-4)
    slope = np.log(np.abs(tape.gradient(y, point)))
    np.testing.assert_allclose(bijector.forward_log_det_jacobian(x), slope, rtol=1e-4, atol=1e-5)


def test_bijectors_of_matrices():
    fill = tfb.FillScaleTriL()
    x = np.array([0.1, -0.3, 0.5], np.float32)
    y = fill.forward(x)
    assert y.shape == (2, 2)
    np.testing.assert_allclose(fill.inverse(tf.identity(y)), x, atol=1e-5)
    np.testing.assert_allclose(
        tfb.SoftmaxCentered().inverse(tf.constant([0.2, 0.3, 0.5])), np.log([0.4, 0.6]), rtol=1e-4
    )


def test_a_normalizing_flow_learns():
    tf.random.set_seed(0)
    data = np.random.default_rng(0).normal(3.0, 0.5, 256).astype(np.float32)
    loc, scale = tf.Variable(0.0), tfp.util.TransformedVariable(1.0, tfb.Softplus())
    flow = tfd.TransformedDistribution(tfd.Normal(0.0, 1.0), tfb.Shift(loc)(tfb.Scale(scale)))
    optimizer = tf.keras.optimizers.Adam(0.1)
    variables = [loc, *scale.trainable_variables]
    for _ in range(150):
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(flow.log_prob(data))
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=False))
    assert float(loc) == pytest.approx(3.0, abs=0.15)
    assert float(tf.convert_to_tensor(scale)) == pytest.approx(0.5, abs=0.15)


def test_masked_autoregressive_flow():
    tf.random.set_seed(0)
    made = tfb.AutoregressiveNetwork(params=2, event_shape=[2], hidden_units=[8], activation="relu")
    flow = tfd.TransformedDistribution(
        tfd.Sample(tfd.Normal(0.0, 1.0), sample_shape=[2]), tfb.MaskedAutoregressiveFlow(made)
    )
    x = np.random.default_rng(0).normal(size=(16, 2)).astype(np.float32)
    with tf.GradientTape() as tape:
        loss = -tf.reduce_mean(flow.log_prob(x))
    gradients = tape.gradient(loss, made.trainable_variables)
    assert all(g is not None for g in gradients)
    assert flow.sample(3, seed=(1, 2)).shape == (3, 2)


def test_joint_distributions():
    model = tfd.JointDistributionNamed(
        {"scale": tfd.HalfNormal(1.0), "x": lambda scale: tfd.Normal(0.0, scale)}, use_vectorized_map=False
    )
    drawn = model.sample(seed=(1, 2))
    assert set(drawn) == {"scale", "x"}
    wanted = scipy.stats.halfnorm().logpdf(0.7) + scipy.stats.norm(0, 0.7).logpdf(0.2)
    np.testing.assert_allclose(model.log_prob(scale=0.7, x=0.2), wanted, rtol=1e-5)
    sequential = tfd.JointDistributionSequential([tfd.Normal(0.0, 1.0), lambda m: tfd.Normal(m, 1.0)])
    assert len(sequential.sample(seed=(3, 4))) == 2


def test_joint_distribution_of_a_coroutine():
    @tfd.JointDistributionCoroutineAutoBatched
    def model():
        mean = yield tfd.Normal(0.0, 1.0, name="mean")
        yield tfd.Sample(tfd.Normal(mean, 0.5), 3, name="x")

    drawn = model.sample(4, seed=(1, 2))
    assert drawn.x.shape == (4, 3)
    assert model.log_prob(drawn).shape == (4,)


def chain(kernel, start, results=600, burnin=200, seed=(7, 8)):
    @tf.function(autograph=False)
    def run():
        return tfp.mcmc.sample_chain(
            results, current_state=start, kernel=kernel, num_burnin_steps=burnin, trace_fn=None, seed=seed
        )

    return run().numpy()


def target(x):
    return tfd.Normal(2.0, 0.5).log_prob(x)


def test_hamiltonian_monte_carlo():
    kernel = tfp.mcmc.HamiltonianMonteCarlo(target, step_size=0.3, num_leapfrog_steps=4)
    drawn = chain(kernel, tf.zeros([8]))
    assert drawn.shape == (600, 8)
    assert drawn.mean() == pytest.approx(2.0, abs=0.08)
    assert drawn.std() == pytest.approx(0.5, abs=0.08)


def test_hamiltonian_monte_carlo_adapts_its_step():
    kernel = tfp.mcmc.SimpleStepSizeAdaptation(
        tfp.mcmc.HamiltonianMonteCarlo(target, step_size=2.0, num_leapfrog_steps=3), num_adaptation_steps=150
    )
    drawn = chain(kernel, tf.zeros([8]))
    assert drawn.mean() == pytest.approx(2.0, abs=0.1)


def test_no_u_turn_sampler():
    kernel = tfp.mcmc.NoUTurnSampler(target, step_size=0.3, max_tree_depth=4)
    drawn = chain(kernel, tf.zeros([4]), results=150, burnin=50)
    assert drawn.mean() == pytest.approx(2.0, abs=0.2)


def test_transformed_and_random_walk_kernels():
    walk = tfp.mcmc.RandomWalkMetropolis(tfd.Gamma(4.0, 2.0).log_prob)
    assert chain(walk, tf.ones([16])).mean() == pytest.approx(2.0, abs=0.3)
    transformed = tfp.mcmc.TransformedTransitionKernel(
        tfp.mcmc.HamiltonianMonteCarlo(tfd.Gamma(4.0, 2.0).log_prob, step_size=0.3, num_leapfrog_steps=3), tfb.Exp()
    )
    assert chain(transformed, tf.ones([8])).mean() == pytest.approx(2.0, abs=0.2)


def test_chain_diagnostics():
    x = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    np.testing.assert_allclose(tfp.mcmc.potential_scale_reduction(x[..., None]), 1.0, atol=0.05)
    size = tfp.mcmc.effective_sample_size(x).numpy()
    assert size.shape == (4,)
    assert (size > 50).all()


def rosenbrock(x):
    return tf.reduce_sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("method", ["lbfgs", "bfgs"])
def test_quasi_newton_methods(method, compiled):
    minimize = {"lbfgs": tfp.optimizer.lbfgs_minimize, "bfgs": tfp.optimizer.bfgs_minimize}[method]

    def run():
        return minimize(
            lambda x: tfp.math.value_and_gradient(rosenbrock, x),
            initial_position=tf.constant([-1.2, 1.0, 0.5], tf.float64),
            tolerance=1e-8,
            max_iterations=100,
        )

    result = (tf.function(run) if compiled else run)()
    assert bool(result.converged)
    np.testing.assert_allclose(result.position, np.ones(3), atol=1e-5)


def test_nelder_mead_and_differential_evolution():
    result = tfp.optimizer.nelder_mead_minimize(rosenbrock, initial_vertex=tf.constant([-1.0, 1.0], tf.float64))
    np.testing.assert_allclose(result.position, [1.0, 1.0], atol=1e-2)


def test_variational_inference():
    tf.random.set_seed(0)
    loc, scale = tf.Variable(0.0), tfp.util.TransformedVariable(1.0, tfb.Softplus())
    surrogate = tfd.Normal(loc, scale)
    losses = tfp.vi.fit_surrogate_posterior(
        target, surrogate, optimizer=tf.keras.optimizers.Adam(0.1), num_steps=200, sample_size=16, seed=(1, 2)
    )
    assert losses.shape == (200,)
    assert float(loc) == pytest.approx(2.0, abs=0.2)


def test_monte_carlo_divergence_has_gradients():
    m = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        value = tfp.vi.monte_carlo_variational_loss(
            lambda z: tfd.Normal(0.0, 1.0).log_prob(z), tfd.Normal(m, 1.0), sample_size=400, seed=(1, 2)
        )
    np.testing.assert_allclose(tape.gradient(value, m), 1.0, atol=0.2)


def test_gaussian_process():
    x = np.linspace(-1, 1, 8)[:, None]
    y = np.sin(3 * x[:, 0])
    amplitude = tfp.util.TransformedVariable(np.float64(1.0), tfb.Softplus())
    length = tfp.util.TransformedVariable(np.float64(1.0), tfb.Softplus())
    kernel = tfp.math.psd_kernels.ExponentiatedQuadratic(amplitude, length)
    process = tfd.GaussianProcess(kernel, x, observation_noise_variance=np.float64(1e-3))
    with tf.GradientTape() as tape:
        loss = -process.log_prob(y)
    gradients = tape.gradient(loss, process.trainable_variables)
    assert len(gradients) == 2
    assert all(np.isfinite(g.numpy()) for g in gradients)
    posterior = tfd.GaussianProcessRegressionModel(kernel, x + 0.01, x, y, observation_noise_variance=np.float64(1e-3))
    np.testing.assert_allclose(posterior.mean(), np.sin(3 * (x[:, 0] + 0.01)), atol=0.1)


def test_ordinary_differential_equation():
    solution = tfp.math.ode.DormandPrince(rtol=1e-6).solve(
        lambda t, y: -y, 0.0, tf.constant(1.0), solution_times=[0.5, 1.0]
    )
    np.testing.assert_allclose(solution.states, np.exp([-0.5, -1.0]), rtol=1e-4)


def test_special_functions_and_quadrature():
    np.testing.assert_allclose(tfp.math.lambertw(1.0), 0.56714329, rtol=1e-5)
    np.testing.assert_allclose(tfp.math.log1mexp(0.5), np.log(1 - np.exp(-0.5)), rtol=1e-5)
    np.testing.assert_allclose(tfp.math.fill_triangular(np.arange(1.0, 7.0)).shape, (3, 3))
    value, slope = tfp.math.value_and_gradient(lambda a, b: a**2 * b, (3.0, 2.0))
    np.testing.assert_allclose((value, *slope), (18.0, 12.0, 9.0))


def test_statistics():
    x = np.random.default_rng(0).normal(size=1001).astype(np.float32)
    np.testing.assert_allclose(tfp.stats.percentile(x, 30.0, interpolation="linear"), np.percentile(x, 30), rtol=1e-4)
    np.testing.assert_allclose(tfp.stats.variance(x), x.var(), rtol=1e-4)
    both = np.stack([x, 2 * x + 1], 1)
    np.testing.assert_allclose(tfp.stats.covariance(both), np.cov(both.T, bias=True), rtol=1e-3)


def test_hidden_markov_model():
    model = tfd.HiddenMarkovModel(
        tfd.Categorical(probs=[0.8, 0.2]),
        tfd.Categorical(probs=[[0.7, 0.3], [0.2, 0.8]]),
        tfd.Normal([0.0, 3.0], [1.0, 1.0]),
        num_steps=5,
    )
    observed = tf.constant([0.1, 0.2, 2.9, 3.1, 2.8])
    assert model.posterior_mode(observed).numpy().tolist() == [0, 0, 1, 1, 1]
    with tf.GradientTape() as tape:
        tape.watch(observed)
        value = model.log_prob(observed)
    assert tape.gradient(value, observed).shape == (5,)
