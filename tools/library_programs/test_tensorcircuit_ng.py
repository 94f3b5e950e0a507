"""tensorcircuit-ng: circuits, gradients and their transformations with its TensorFlow backend, beside NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
import tensorcircuit as tc
import tensorflow as tf


@pytest.fixture(autouse=True)
def backend():
    tc.set_backend("tensorflow")
    tc.set_dtype("complex64")
    yield
    tc.set_backend("numpy")


def circuit(params, n=3):
    c = tc.Circuit(n)
    for i in range(n):
        c.rx(i, theta=params[i])
    for i in range(n - 1):
        c.cnot(i, i + 1)
    for i in range(n):
        c.ry(i, theta=params[n + i])
    return c


def energy(params, n=3):
    c = circuit(params, n)
    e = 0.0
    for i in range(n):
        e += c.expectation_ps(z=[i])
    for i in range(n - 1):
        e += c.expectation_ps(x=[i, i + 1])
    return tc.backend.real(e)


PARAMS = np.random.default_rng(0).uniform(0, 3, size=6).astype(np.float32)


def by_numpy(f, *args):
    tc.set_backend("numpy")
    try:
        return f(*args)
    finally:
        tc.set_backend("tensorflow")


def numerical(f, x, h=1e-2):
    out = np.zeros_like(x)
    for i in range(x.size):
        step = np.zeros_like(x)
        step.flat[i] = h
        out.flat[i] = (float(f(x + step)) - float(f(x - step))) / (2 * h)
    return out


def test_state_is_that_of_numpy():
    ours = circuit(tf.constant(PARAMS)).state()
    assert isinstance(ours, tf.Tensor)
    np.testing.assert_allclose(ours.numpy(), by_numpy(lambda: circuit(PARAMS).state()), atol=1e-5)


def test_energy_and_gradient():
    value, gradient = tc.backend.value_and_grad(energy)(tf.constant(PARAMS))
    assert float(value) == pytest.approx(float(by_numpy(energy, PARAMS)), abs=1e-4)
    np.testing.assert_allclose(gradient.numpy(), by_numpy(lambda: numerical(energy, PARAMS)), atol=2e-2)


def test_compiled_value_and_gradient():
    compiled = tc.backend.jit(tc.backend.value_and_grad(energy))
    eager = tc.backend.value_and_grad(energy)(tf.constant(PARAMS))
    for ours, theirs in zip(compiled(tf.constant(PARAMS)), eager, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=1e-5)


def test_vmap_and_vvag():
    many = np.stack([PARAMS, PARAMS + 0.1, PARAMS * 2])
    values, gradients = tc.backend.vvag(energy)(tf.constant(many))
    single = [tc.backend.value_and_grad(energy)(tf.constant(p)) for p in many]
    np.testing.assert_allclose(values.numpy(), [float(v) for v, _ in single], atol=1e-5)
    assert gradients.shape == (3, 6)
    np.testing.assert_allclose(tc.backend.vmap(energy)(tf.constant(many)).numpy(), values.numpy(), atol=1e-5)


def test_hessian_and_jacobians():
    hessian = tc.backend.hessian(energy)(tf.constant(PARAMS))
    assert hessian.shape == (6, 6)
    np.testing.assert_allclose(hessian.numpy(), hessian.numpy().T, atol=1e-4)
    probabilities = lambda p: tc.backend.real(circuit(p).probability())  # noqa: E731
    forward = tc.backend.jacfwd(probabilities)(tf.constant(PARAMS))
    reverse = tc.backend.jacrev(probabilities)(tf.constant(PARAMS))
    np.testing.assert_allclose(forward.numpy(), reverse.numpy(), atol=1e-4)


def test_training_lowers_the_energy():
    w = tf.Variable(PARAMS)
    optimizer = tf.keras.optimizers.Adam(0.1)
    step = tc.backend.jit(tc.backend.value_and_grad(energy))
    values = []
    for _ in range(30):
        value, gradient = step(w)
        optimizer.apply_gradients([(gradient, w)])
        values.append(float(value))
    assert values[-1] < values[0] - 1.0


def test_noise_and_density_matrices():
    c = tc.DMCircuit(2)
    c.h(0)
    c.cnot(0, 1)
    c.depolarizing(0, px=0.1, py=0.1, pz=0.1)
    rho = c.state()
    assert float(tf.math.real(tf.linalg.trace(rho))) == pytest.approx(1.0, abs=1e-5)


def test_monte_carlo_channels():
    c = tc.Circuit(2)
    c.h(0)
    c.unitary_kraus(tc.channels.phasedampingchannel(0.3), 0, status=0.4)
    assert float(tf.norm(c.state())) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("allow_state", [True, False])
def test_samples(allow_state):
    c = tc.Circuit(2)
    c.h(0)
    c.cnot(0, 1)
    samples = c.sample(batch=50, allow_state=allow_state, format="sample_bin")
    assert set(map(tuple, np.asarray(samples).tolist())) <= {(0, 0), (1, 1)}


def test_mps_simulator():
    c = tc.MPSCircuit(4)
    c.h(0)
    for i in range(3):
        c.cnot(i, i + 1)
    np.testing.assert_allclose(np.abs(c.wavefunction().numpy().ravel())[[0, -1]], 2**-0.5, atol=1e-4)


def test_a_sparse_hamiltonian():
    g = tc.quantum.PauliStringSum2COO([[1, 1, 0], [0, 3, 3]], [0.5, -1.0])
    c = circuit(tf.constant(PARAMS))
    value = tc.templates.measurements.operator_expectation(c, g)
    expected = 0.5 * c.expectation_ps(x=[0, 1]) - c.expectation_ps(z=[1, 2])
    assert float(tf.math.real(value)) == pytest.approx(float(tf.math.real(expected)), abs=1e-4)


def test_keras_layer():
    layer = tc.keras.QuantumLayer(lambda x, w: tf.stack([energy(x + w)]), [[6]])
    model = tf.keras.Sequential([tf.keras.layers.Input((6,)), layer])
    model.compile("adam", "mse")
    x = np.stack([PARAMS, PARAMS + 1])
    history = model.fit(x, np.zeros((2, 1)), epochs=2, verbose=0)
    assert len(history.history["loss"]) == 2


def test_checkpointed_and_scanned_functions():
    total = tc.backend.scan(lambda carry, x: carry + x, tf.constant(PARAMS), tf.constant(0.0))
    assert float(total) == pytest.approx(float(PARAMS.sum()), rel=1e-5)
    chosen = tc.backend.cond(tf.constant(True), lambda: tf.constant(1.0), lambda: tf.constant(2.0))
    assert float(chosen) == 1.0
    assert float(tc.backend.switch(tf.constant(1), [lambda: tf.constant(3.0), lambda: tf.constant(4.0)])) == 4.0


BACKEND = {
    "expm": lambda b, x: b.expm(x),
    "sqrtmh": lambda b, x: b.sqrtmh(x @ b.adjoint(x)),
    "kron": lambda b, x: b.kron(x, x),
    "eigh": lambda b, x: b.eigh(x + b.adjoint(x))[0],
    "svd": lambda b, x: b.svd(x)[1],
    "qr": lambda b, x: b.abs(b.qr(x)[1]),
    "reverse": lambda b, x: b.reverse(x),
    "tile": lambda b, x: b.tile(x, b.convert_to_tensor(np.array([2, 1]))),
    "stack": lambda b, x: b.stack([x, x], axis=1),
    "concat": lambda b, x: b.concat([x, x], axis=1),
    "reshape": lambda b, x: b.reshape(x, [4]),
    "onehot": lambda b, x: b.onehot(b.convert_to_tensor(np.array([0, 2])), 3),
    "cumsum": lambda b, x: b.cumsum(b.real(x)),
    "argsort": lambda b, x: b.argsort(b.real(b.reshape(x, [4]))),
    "softmax": lambda b, x: b.softmax(b.real(x)),
    "relu": lambda b, x: b.relu(b.real(x)),
    "std": lambda b, x: b.std(b.real(x)),
    "unique": lambda b, x: b.unique_with_counts(b.convert_to_tensor(np.array([3, 1, 3])))[1],
    "mod": lambda b, x: b.mod(b.arange(5), 3),
    "left_shift": lambda b, x: b.left_shift(b.cast(b.arange(4), "int32"), b.cast(b.ones([4]), "int32")),
    "right_shift": lambda b, x: b.right_shift(b.cast(b.arange(4), "int32"), b.cast(b.ones([4]), "int32")),
    "gather1d": lambda b, x: b.gather1d(b.reshape(x, [4]), b.convert_to_tensor(np.array([2, 0]))),
    "scatter": lambda b, x: b.scatter(b.real(x), b.convert_to_tensor([[0, 1]]), b.convert_to_tensor(np.float32([9.0]))),
    "searchsorted": lambda b, x: b.searchsorted(b.arange(5), b.convert_to_tensor(np.array([2, 4]))),
    "outer_product": lambda b, x: b.outer_product(x[0], x[1]),
    "solve": lambda b, x: b.solve(x, b.reshape(x[0], [2, 1])),
    "trace": lambda b, x: b.trace(x),
    "det": lambda b, x: b.det(x),
}
MATRIX = np.array([[1.0, 0.5j], [0.25, 2.0]], np.complex64)


@pytest.mark.parametrize("name", BACKEND)
def test_function_of_the_backend(name):
    ours = BACKEND[name](tc.backend, tc.backend.convert_to_tensor(MATRIX))
    theirs = by_numpy(lambda: BACKEND[name](tc.backend, MATRIX))
    np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), atol=1e-4)
