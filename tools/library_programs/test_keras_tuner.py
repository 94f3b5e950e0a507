"""keras-tuner: its searches, on a small problem."""

from __future__ import annotations

import keras
import keras_tuner
import numpy as np
import pytest

X = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
Y = X @ np.array([[1.0], [-2.0], [0.5]], np.float32)


def build(hp):
    model = keras.Sequential([keras.layers.Input((3,))])
    for i in range(hp.Int("layers", 0, 2)):
        model.add(keras.layers.Dense(hp.Choice(f"units_{i}", [4, 8]), hp.Choice("activation", ["relu", "tanh"])))
    model.add(keras.layers.Dense(1))
    rate = hp.Float("rate", 1e-3, 0.3, sampling="log")
    model.compile(keras.optimizers.Adam(rate), "mse", metrics=["mae"])
    return model


TUNERS = {
    "random": lambda folder: keras_tuner.RandomSearch(build, "val_loss", max_trials=4, seed=1, directory=folder),
    "grid": lambda folder: keras_tuner.GridSearch(build, "val_loss", max_trials=4, seed=1, directory=folder),
    "bayes": lambda folder: keras_tuner.BayesianOptimization(
        build, "val_loss", max_trials=4, num_initial_points=2, seed=1, directory=folder
    ),
    "hyperband": lambda folder: keras_tuner.Hyperband(build, "val_loss", max_epochs=4, factor=2, directory=folder),
}


@pytest.mark.parametrize("name", TUNERS)
def test_search(name, tmp_path):
    tuner = TUNERS[name](str(tmp_path))
    tuner.search(X, Y, epochs=3, validation_data=(X, Y), verbose=0)
    best = tuner.get_best_hyperparameters(2)
    assert best[0].get("rate") > 0
    (model,) = tuner.get_best_models(1)
    assert model.predict(X, verbose=0).shape == (64, 1)
    assert len(tuner.oracle.get_best_trials(2)) >= 1


def test_search_goes_on_from_its_folder(tmp_path):
    TUNERS["random"](str(tmp_path)).search(X, Y, epochs=1, validation_data=(X, Y), verbose=0)
    again = TUNERS["random"](str(tmp_path))
    assert len(again.oracle.trials) == 4


def test_hypermodel_and_callbacks(tmp_path):
    class Model(keras_tuner.HyperModel):
        def build(self, hp):
            return build(hp)

        def fit(self, hp, model, *args, **kwargs):
            return model.fit(*args, batch_size=hp.Choice("batch", [16, 32]), **kwargs)

    tuner = keras_tuner.RandomSearch(Model(), "val_loss", max_trials=2, directory=str(tmp_path))
    stop = keras.callbacks.EarlyStopping(patience=1)
    tuner.search(X, Y, epochs=3, validation_data=(X, Y), callbacks=[stop], verbose=0)
    assert tuner.get_best_hyperparameters()[0].get("batch") in (16, 32)


def test_a_function_of_its_own(tmp_path):
    class Tuner(keras_tuner.RandomSearch):
        def run_trial(self, trial, *args, **kwargs):
            x = trial.hyperparameters.Float("x", -1.0, 1.0)
            return (x - 0.25) ** 2

    tuner = Tuner(max_trials=10, seed=0, directory=str(tmp_path))
    tuner.search()
    assert abs(tuner.get_best_hyperparameters()[0].get("x") - 0.25) < 0.5


def test_scikit_learn_models(tmp_path):
    from sklearn.linear_model import Ridge

    tuner = keras_tuner.SklearnTuner(
        keras_tuner.oracles.RandomSearchOracle(keras_tuner.Objective("score", "max"), max_trials=3),
        lambda hp: Ridge(alpha=hp.Float("alpha", 1e-3, 10.0, sampling="log")),
        directory=str(tmp_path),
    )
    tuner.search(X, Y)
    assert tuner.get_best_models(1)[0].predict(X).shape[0] == 64
