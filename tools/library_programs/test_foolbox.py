"""foolbox: its gradient attacks, and those that only call the model, on a small classifier."""

from __future__ import annotations

import eagerpy as ep
import foolbox
import numpy as np
import pytest
import tensorflow as tf
from foolbox import attacks as fa


class Linear:
    """Classes of points in a square of 4 x 4 pixels, by fixed weights: every input has a nearby class."""

    def __init__(self):
        rng = np.random.default_rng(3)
        self.w = tf.constant(rng.normal(size=(4 * 4 * 1, 3)).astype(np.float32))

    def __call__(self, x):
        return tf.matmul(tf.reshape(x - 0.5, [-1, 16]), self.w)


@pytest.fixture(scope="module")
def fmodel():
    return foolbox.TensorFlowModel(Linear(), bounds=(0, 1))


@pytest.fixture(scope="module")
def inputs(fmodel):
    x = tf.constant(np.random.default_rng(5).uniform(0.2, 0.8, size=(6, 4, 4, 1)).astype(np.float32))
    y = tf.argmax(fmodel(x), axis=-1)
    return x, y


EPSILON = 0.4
GRADIENT = {
    "FGSM": (fa.FGSM(), 0.4),
    "FGM": (fa.FGM(), 2.0),
    "L1 gradient": (fa.L1FastGradientAttack(), 8.0),
    "LinfPGD": (fa.LinfPGD(steps=10), 0.4),
    "L2PGD": (fa.L2PGD(steps=10), 2.0),
    "L1PGD": (fa.L1PGD(steps=10), 8.0),
    "LinfBIM": (fa.LinfBasicIterativeAttack(steps=10), 0.4),
    "L2BIM": (fa.L2BasicIterativeAttack(steps=10), 2.0),
    "L2 Adam PGD": (fa.L2AdamPGD(steps=10), 2.0),
    "Linf Adam PGD": (fa.LinfAdamPGD(steps=10), 0.4),
    "MI-FGSM": (fa.LinfMomentumIterativeFastGradientMethod(steps=10), 0.4),
    "DeepFool L2": (fa.L2DeepFoolAttack(), None),
    "DeepFool Linf": (fa.LinfDeepFoolAttack(), None),
    "Carlini Wagner": (fa.L2CarliniWagnerAttack(binary_search_steps=3, steps=60, stepsize=0.05), None),
    "EAD": (fa.EADAttack(binary_search_steps=3, steps=40), None),
    "DDN": (fa.DDNAttack(steps=30), None),
    "Newton": (fa.NewtonFoolAttack(steps=30), None),
    "VAT": (fa.VirtualAdversarialAttack(steps=10), 3.0),
    "FMN L2": (fa.L2FMNAttack(steps=50), None),
    "FMN Linf": (fa.LInfFMNAttack(steps=50), None),
    "sparse L1": (fa.SparseL1DescentAttack(steps=20), 8.0),
}
OTHER = {
    "noise Linf": (fa.LinfAdditiveUniformNoiseAttack(), 0.4),
    "noise L2": (fa.L2AdditiveGaussianNoiseAttack(), 2.0),
    "repeated noise": (fa.L2RepeatedAdditiveGaussianNoiseAttack(repeats=5), 2.0),
    "clipping aware": (fa.L2ClippingAwareRepeatedAdditiveUniformNoiseAttack(repeats=5), 2.0),
    "contrast": (fa.L2ContrastReductionAttack(), 2.0),
    "blended": (fa.LinearSearchBlendedUniformNoiseAttack(steps=20), None),
    "salt and pepper": (fa.SaltAndPepperNoiseAttack(steps=20), None),
    "blur": (fa.GaussianBlurAttack(steps=20), None),
    "inversion": (fa.InversionAttack(), None),
    "binary search contrast": (fa.BinarySearchContrastReductionAttack(), None),
    "boundary": (fa.BoundaryAttack(steps=50, init_attack=fa.LinearSearchBlendedUniformNoiseAttack(steps=20)), None),
    "hop skip jump": (fa.HopSkipJumpAttack(steps=3, init_attack=fa.LinearSearchBlendedUniformNoiseAttack()), None),
}


def run(attack, epsilon, fmodel, inputs):
    tf.random.set_seed(1)
    np.random.seed(1)
    x, y = inputs
    _raw, clipped, success = attack(fmodel, x, foolbox.criteria.Misclassification(y), epsilons=epsilon)
    assert isinstance(clipped, tf.Tensor)
    assert clipped.shape == x.shape
    assert float(tf.reduce_min(clipped)) >= 0.0
    assert float(tf.reduce_max(clipped)) <= 1.0
    return clipped, success.numpy()


@pytest.mark.parametrize("name", GRADIENT)
def test_gradient_attack(name, fmodel, inputs):
    attack, epsilon = GRADIENT[name]
    clipped, success = run(attack, epsilon, fmodel, inputs)
    assert success.mean() >= 0.5
    wrong = (tf.argmax(fmodel(clipped), axis=-1) != inputs[1]).numpy()
    np.testing.assert_array_equal(wrong[success], True)


@pytest.mark.parametrize("name", OTHER)
def test_other_attack(name, fmodel, inputs):
    attack, epsilon = OTHER[name]
    clipped, success = run(attack, epsilon, fmodel, inputs)
    wrong = (tf.argmax(fmodel(clipped), axis=-1) != inputs[1]).numpy()
    np.testing.assert_array_equal(wrong[success], True)


def test_targeted_attack(fmodel, inputs):
    x, y = inputs
    target = foolbox.criteria.TargetedMisclassification((y + 1) % 3)
    _, _clipped, success = fa.L2CarliniWagnerAttack(binary_search_steps=3, steps=80, stepsize=0.05)(
        fmodel, x, target, epsilons=None
    )
    assert success.numpy().mean() >= 0.5


def test_several_epsilons(fmodel, inputs):
    x, y = inputs
    epsilons = [0.0, 0.05, 0.2, 0.5]
    _, advs, success = fa.LinfPGD(steps=10)(fmodel, x, y, epsilons=epsilons)
    rates = success.numpy().mean(axis=-1)
    assert len(advs) == 4
    assert rates[0] == 0.0
    assert (np.diff(rates) >= 0).all()


def test_accuracy_and_distances(fmodel, inputs):
    x, y = inputs
    assert foolbox.accuracy(fmodel, x, y) == 1.0
    d = foolbox.distances.l2(ep.astensor(x), ep.astensor(x + 0.1))
    np.testing.assert_allclose(d.numpy(), 0.4, rtol=1e-4)


def test_preprocessing_and_transformed_bounds(inputs):
    model = foolbox.TensorFlowModel(Linear(), bounds=(0, 1), preprocessing={"mean": [0.1], "std": [0.5]})
    x, _ = inputs
    expected = Linear()((x - 0.1) / 0.5)
    np.testing.assert_allclose(model(x).numpy(), expected.numpy(), rtol=1e-5)
    other = model.transform_bounds((0, 255))
    np.testing.assert_allclose(other(x * 255).numpy(), expected.numpy(), rtol=1e-3, atol=1e-4)


def test_a_keras_model(inputs):
    keras_model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(3)])
    model = foolbox.TensorFlowModel(keras_model, bounds=(0, 1))
    x, _ = inputs
    y = tf.argmax(model(x), axis=-1)
    _, _, success = fa.LinfPGD(steps=20)(model, x, y, epsilons=0.5)
    assert success.numpy().mean() >= 0.5
