"""scikeras: Keras models as estimators of scikit-learn."""

from __future__ import annotations

import pickle

import keras
import numpy as np
import pytest
from scikeras.wrappers import KerasClassifier, KerasRegressor
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification, make_regression
from sklearn.ensemble import BaggingClassifier
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def classifier(hidden=16, meta=None, compile_kwargs=None):
    model = keras.Sequential([keras.layers.Input((meta["n_features_in_"],)), keras.layers.Dense(hidden, "relu")])
    if meta["target_type_"] == "binary":
        model.add(keras.layers.Dense(1, "sigmoid"))
        loss = "binary_crossentropy"
    else:
        model.add(keras.layers.Dense(meta["n_classes_"], "softmax"))
        loss = "sparse_categorical_crossentropy"
    model.compile(loss=loss, optimizer=compile_kwargs["optimizer"])
    return model


def regressor(meta=None):
    model = keras.Sequential([keras.layers.Input((meta["n_features_in_"],)), keras.layers.Dense(1)])
    model.compile(loss="mse", optimizer=keras.optimizers.Adam(0.3))
    return model


def small(**more):
    options = {"optimizer": "adam", "optimizer__learning_rate": 0.05, "epochs": 15, "verbose": 0, "random_state": 0}
    return KerasClassifier(classifier, **{**options, **more})


@pytest.fixture(scope="module")
def iris():
    x, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(x).astype("float32"), y


def test_many_classes(iris):
    x, y = iris
    model = small(epochs=30).fit(x, y)
    assert model.score(x, y) > 0.9
    assert model.predict_proba(x).shape == (150, 3)
    np.testing.assert_allclose(model.predict_proba(x).sum(axis=1), 1.0, rtol=1e-4)


def test_two_classes_with_names():
    x, y = make_classification(120, 6, random_state=0)
    names = np.array(["no", "yes"])[y]
    model = small().fit(x, names)
    assert set(model.predict(x)) <= {"no", "yes"}
    assert model.score(x, names) > 0.8


def test_regression():
    x, y = make_regression(100, 3, noise=0.1, random_state=0)
    y = y / np.abs(y).max()
    model = KerasRegressor(regressor, epochs=150, verbose=0, random_state=0).fit(x, y)
    assert model.score(x, y) > 0.9


def test_grid_search_over_arguments_of_the_model(iris):
    x, y = iris
    search = GridSearchCV(small(epochs=5), {"model__hidden": [2, 16]}, cv=2, refit=True).fit(x, y)
    assert search.best_params_["model__hidden"] in (2, 16)


def test_cross_validation_and_pipelines(iris):
    x, y = iris
    scores = cross_val_score(
        make_pipeline(StandardScaler(), small(epochs=10)), x, y, cv=KFold(3, shuffle=True, random_state=0)
    )
    assert scores.mean() > 0.6


def test_ensembles(iris):
    x, y = iris
    model = BaggingClassifier(small(epochs=5), n_estimators=2, random_state=0).fit(x, y)
    assert model.predict(x).shape == (150,)


def test_partial_fit_and_history(iris):
    x, y = iris
    model = small(epochs=1)
    for _ in range(3):
        model.partial_fit(x, y)
    assert model.current_epoch == 3
    assert len(model.history_["loss"]) == 3


def test_random_state_decides(iris):
    x, y = iris
    one, two = (small(epochs=2).fit(x, y).predict_proba(x) for _ in range(2))
    np.testing.assert_allclose(one, two, rtol=1e-5)


def test_pickle_and_clone(iris):
    x, y = iris
    model = small(epochs=2).fit(x, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(again.predict_proba(x), model.predict_proba(x), rtol=1e-5)
    assert clone(model).get_params()["epochs"] == 2


def test_callbacks_weights_and_validation(iris):
    x, y = iris
    stop = keras.callbacks.EarlyStopping
    model = small(epochs=5, callbacks=stop, callbacks__monitor="loss", validation_split=0.1)
    model.fit(x, y, sample_weight=np.ones(len(y)))
    assert "val_loss" in model.history_


def test_class_weight(iris):
    x, y = iris
    assert small(epochs=2, class_weight="balanced").fit(x, y).predict(x).shape == y.shape
