"""ART: its classifier for TensorFlow 2, and attacks and defences that use it."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from art.attacks.evasion import (
    AutoAttack,
    AutoProjectedGradientDescent,
    BasicIterativeMethod,
    BoundaryAttack,
    CarliniL2Method,
    CarliniLInfMethod,
    DeepFool,
    ElasticNet,
    FastGradientMethod,
    HopSkipJump,
    MomentumIterativeMethod,
    NewtonFool,
    ProjectedGradientDescent,
    ProjectedGradientDescentTensorFlowV2,
    SaliencyMapMethod,
    SpatialTransformation,
    SquareAttack,
    UniversalPerturbation,
    VirtualAdversarialMethod,
    ZooAttack,
)
from art.defences.preprocessor import FeatureSqueezing, SpatialSmoothing, SpatialSmoothingTensorFlowV2
from art.defences.trainer import AdversarialTrainer
from art.estimators.classification import EnsembleClassifier, TensorFlowV2Classifier
from art.metrics import clever_u, empirical_robustness, loss_sensitivity

RNG = np.random.default_rng(0)
CENTRES = RNG.uniform(0.2, 0.8, size=(3, 6, 6, 1))
Y = np.arange(24) % 3
X = np.clip(CENTRES[Y] + 0.05 * RNG.normal(size=(24, 6, 6, 1)), 0, 1).astype(np.float32)


def make(**more):
    tf.keras.utils.set_random_seed(2)
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Input((6, 6, 1)),
            tf.keras.layers.Conv2D(4, 3, activation="relu"),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(3),
        ]
    )
    optimizer = tf.keras.optimizers.Adam(0.02)
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def train_step(model, images, labels):
        with tf.GradientTape() as tape:
            value = loss(labels, model(images, training=True))
        gradients = tape.gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    return TensorFlowV2Classifier(
        model,
        nb_classes=3,
        input_shape=(6, 6, 1),
        loss_object=loss,
        train_step=train_step,
        clip_values=(0, 1),
        **more,
    )


@pytest.fixture(scope="module")
def classifier():
    found = make()
    found.fit(X, np.eye(3)[Y], batch_size=8, nb_epochs=40)
    assert accuracy(found, X) == 1.0
    return found


def accuracy(classifier, x):
    return float(np.mean(np.argmax(classifier.predict(x), axis=1) == Y[: len(x)]))


ATTACKS = {
    "FGM": lambda c: FastGradientMethod(c, eps=0.4),
    "FGM L2": lambda c: FastGradientMethod(c, norm=2, eps=3.0),
    "minimal FGM": lambda c: FastGradientMethod(c, eps=0.5, eps_step=0.05, minimal=True),
    "BIM": lambda c: BasicIterativeMethod(c, eps=0.4, eps_step=0.1, max_iter=10, verbose=False),
    "PGD": lambda c: ProjectedGradientDescent(c, eps=0.4, eps_step=0.1, max_iter=10, verbose=False),
    "PGD TensorFlow": lambda c: ProjectedGradientDescentTensorFlowV2(
        c, eps=0.4, eps_step=0.1, max_iter=10, verbose=False
    ),
    "PGD L2": lambda c: ProjectedGradientDescent(c, norm=2, eps=3.0, eps_step=0.5, max_iter=10, verbose=False),
    "MIM": lambda c: MomentumIterativeMethod(c, eps=0.4, eps_step=0.1, max_iter=10, verbose=False),
    "APGD": lambda c: AutoProjectedGradientDescent(
        c, eps=0.4, eps_step=0.1, max_iter=10, loss_type="cross_entropy", verbose=False
    ),
    "DeepFool": lambda c: DeepFool(c, max_iter=30, verbose=False),
    "Carlini L2": lambda c: CarliniL2Method(c, max_iter=15, verbose=False),
    "Carlini Linf": lambda c: CarliniLInfMethod(c, max_iter=20, verbose=False),
    "ElasticNet": lambda c: ElasticNet(c, max_iter=20, verbose=False),
    "JSMA": lambda c: SaliencyMapMethod(c, theta=1.0, gamma=1.0, verbose=False),
    "NewtonFool": lambda c: NewtonFool(c, max_iter=60, verbose=False),
    "VAT": lambda c: VirtualAdversarialMethod(c, eps=3.0, verbose=False),
    "universal": lambda c: UniversalPerturbation(c, attacker="fgsm", max_iter=2, eps=0.5, verbose=False),
    "HopSkipJump": lambda c: HopSkipJump(c, max_iter=3, max_eval=200, init_eval=10, verbose=False),
    "Square": lambda c: SquareAttack(c, eps=0.4, max_iter=60, verbose=False),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_attack(name, classifier):
    np.random.seed(0)
    adversarial = ATTACKS[name](classifier).generate(X[:8])
    assert adversarial.shape == (8, 6, 6, 1)
    assert adversarial.min() >= -1e-6
    assert adversarial.max() <= 1 + 1e-6
    assert accuracy(classifier, adversarial) <= 0.75


def test_attack_with_a_target(classifier):
    target = np.eye(3)[(Y[:8] + 1) % 3]
    attack = ProjectedGradientDescent(classifier, eps=0.5, eps_step=0.1, max_iter=20, targeted=True, verbose=False)
    found = np.argmax(classifier.predict(attack.generate(X[:8], target)), axis=1)
    assert np.mean(found == np.argmax(target, axis=1)) > 0.5


def test_black_box_attacks(classifier):
    np.random.seed(0)
    boundary = BoundaryAttack(classifier, targeted=False, max_iter=20, verbose=False)
    assert accuracy(classifier, boundary.generate(X[:3])) <= 0.7
    zoo = ZooAttack(classifier, max_iter=5, nb_parallel=5, use_resize=False, verbose=False)
    assert zoo.generate(X[:2]).shape == (2, 6, 6, 1)
    turn = SpatialTransformation(classifier, max_translation=20, num_translations=2, max_rotation=20, num_rotations=2)
    assert turn.generate(X[:4]).shape == (4, 6, 6, 1)
    everything = AutoAttack(classifier, eps=0.4, eps_step=0.1, batch_size=8)
    assert everything.generate(X[:2], np.eye(3)[Y[:2]]).shape == (2, 6, 6, 1)


def test_gradients_and_losses(classifier):
    gradient = classifier.loss_gradient(X[:4], np.eye(3)[Y[:4]])
    loss = classifier.compute_loss(X[:4], np.eye(3)[Y[:4]])
    step = 1e-2 * np.sign(gradient)
    assert (classifier.compute_loss(X[:4] + step, np.eye(3)[Y[:4]]) > loss).all()
    assert classifier.class_gradient(X[:4]).shape == (4, 3, 6, 6, 1)
    assert classifier.class_gradient(X[:4], label=1).shape == (4, 1, 6, 6, 1)
    assert classifier.class_gradient(X[:4], label=np.array([0, 1, 2, 0])).shape == (4, 1, 6, 6, 1)


def test_activations_and_layer_names(classifier):
    assert len(classifier.layer_names) >= 2
    assert classifier.get_activations(X[:2], 1, batch_size=2).shape[0] == 2


@pytest.mark.parametrize("kind", [FeatureSqueezing, SpatialSmoothing, SpatialSmoothingTensorFlowV2])
def test_preprocessing_defence(kind):
    defence = kind(clip_values=(0, 1), bit_depth=3) if kind is FeatureSqueezing else kind(window_size=3)
    guarded = make(preprocessing_defences=defence)
    assert guarded.predict(X[:4]).shape == (4, 3)
    assert guarded.loss_gradient(X[:4], np.eye(3)[Y[:4]]).shape == (4, 6, 6, 1)


def test_adversarial_training():
    classifier = make()
    attack = FastGradientMethod(classifier, eps=0.1)
    AdversarialTrainer(classifier, attack, ratio=0.5).fit(X, np.eye(3)[Y], batch_size=8, nb_epochs=20)
    assert accuracy(classifier, X) > 0.8


def test_metrics(classifier):
    assert empirical_robustness(classifier, X[:4], "fgsm", {"eps_step": 0.1, "eps": 1.0}) >= 0
    assert loss_sensitivity(classifier, X[:4], np.eye(3)[Y[:4]]) >= 0
    assert clever_u(classifier, X[0], 2, 4, 1.0, norm=2, verbose=False) >= 0


def test_ensemble(classifier):
    ensemble = EnsembleClassifier([classifier, classifier], clip_values=(0, 1))
    np.testing.assert_allclose(ensemble.predict(X[:4]), classifier.predict(X[:4]), rtol=1e-5)
    assert ensemble.loss_gradient(X[:4], np.eye(3)[Y[:4]]).shape == (4, 6, 6, 1)


def test_saving_and_cloning(classifier, tmp_path):
    copy = classifier.clone_for_refitting()
    assert copy.predict(X[:2]).shape == (2, 3)
    classifier.save("model", path=str(tmp_path))
    assert any(tmp_path.iterdir())
