"""Training with protected features, against generic optimisers and the documented properties."""

import numpy as np
import pandas
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import riesz
from riesz.kernels import RBF


def values_of_units(X, kernel, game, player):
    """Z with ``phi(x_i) = Z[:, i] @ coef``, by explaining models with one coefficient each."""
    columns = []
    for i in range(len(X)):
        unit = riesz.Expansion(kernel, X, np.eye(len(X))[i])
        columns.append(riesz.Explainer(unit, X, game=game)(X).values[:, player])
    return np.array(columns)


@pytest.mark.parametrize("game", ["interventional", riesz.Observational(conditional_ridge=0.01)])
def test_a_generic_optimiser_finds_the_same_model(game):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    y = X[:, 0] + np.sin(X[:, 1])
    kernel = RBF(0.7)
    gram = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2) / (2 * 0.7**2))
    z = values_of_units(X, kernel, game, 0)
    options = dict(
        kernel=kernel,
        alpha=0.3,
        protect=[0],
        protect_strength=20.0,
        protect_game=game,
    )
    squared = riesz.KernelRidge(**options).fit(X, y)

    def objective(a):
        fit, protected = gram @ a - y, z.T @ a
        value = fit @ fit + 0.3 * a @ gram @ a + 20.0 / 30 * protected @ protected
        return value, 2 * gram @ fit + 0.6 * gram @ a + 40.0 / 30 * z @ protected

    optimum = minimize(
        objective, np.zeros(30), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000}
    ).x
    np.testing.assert_allclose(squared.predict(X), gram @ optimum, atol=1e-6)
    assert objective(squared.dual_coef_)[0] <= objective(optimum)[0] + 1e-10

    label = y > 0
    logistic = riesz.KernelLogisticRegression(**options).fit(X, label)

    def objective(parameters):
        a, b = parameters[:-1], parameters[-1]
        f, protected = gram @ a + b, z.T @ a
        slope = 1 / (1 + np.exp(-f)) - label
        value = (
            np.logaddexp(0, np.where(label, -f, f)).sum()
            + 0.15 * a @ gram @ a
            + 20.0 / 30 * protected @ protected
        )
        return value, np.append(gram @ slope + 0.3 * gram @ a + 40.0 / 30 * z @ protected, slope.sum())

    optimum = minimize(
        objective, np.zeros(31), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000}
    ).x
    np.testing.assert_allclose(logistic.decision_function(X), gram @ optimum[:-1] + optimum[-1], atol=1e-5)


def test_a_path_shows_what_protection_costs():
    rng = np.random.default_rng(1)
    z = rng.normal(size=(120, 1))
    X = pandas.DataFrame(
        np.hstack([z, z + 0.3 * rng.normal(size=(120, 1)), rng.normal(size=(120, 1))]), columns=list("abc")
    )
    y = X["a"] + X["c"]
    for game in ("interventional", "observational"):
        # Length scales for which the ridge alone is not decisive.
        model = riesz.KernelRidge(0.1, kernel=RBF(2.0), protect="a", protect_game=game)
        path = riesz.protection_path(
            model, X[:80], y[:80], [0.0, 10.0, 300.0, 10000.0], X_test=X[80:], y_test=y[80:]
        )
        assert path.feature_names == ["a", "b", "c"] and path.protected == ["a"]
        assert (np.diff(path.importances[:, 0]) < 0).all() and path.importances[
            -1, 0
        ] < 0.15 * path.importances[0, 0]
        assert path.scores[0] > path.scores[-1] and path.importances[-1, 2] > 0.3 * path.importances[0, 2]
        again = clone(model).set_params(protect_strength=300.0).fit(X[:80], y[:80])
        np.testing.assert_allclose(again.predict(X), path.estimators[2].predict(X), atol=1e-10)
        assert path.plot().get_xlabel() == "mean |value| of a"
    # Only the observational penalty protects from the information about a in b.
    interventional, observational = (
        riesz.KernelRidge(0.1, kernel=RBF(2.0), protect="a", protect_game=game, protect_strength=1000.0).fit(
            X, y
        )
        for game in ("interventional", "observational")
    )
    correlations = [
        abs(np.corrcoef(model.predict(X), X["a"])[0, 1]) for model in (interventional, observational)
    ]
    assert correlations[1] < 0.8 * correlations[0]


def test_groups_classifiers_weights_and_searches():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 4))
    y = np.digitize(X[:, 0] + X[:, 1], [-0.5, 0.5])
    model = riesz.KernelLogisticRegression(
        0.1, kernel=RBF(2.0), protect={"pair": [0, 1]}, protect_strength=0.0
    )
    search = GridSearchCV(model, {"protect_strength": [0.0, 1.0]}, cv=3).fit(X, y)
    assert search.best_params_ == {"protect_strength": 0.0}
    path = riesz.protection_path(model, X, y, [0.0, 300.0])
    assert (
        path.feature_names == ["pair", "x2", "x3"] and path.importances[1, 0] < 0.2 * path.importances[0, 0]
    )
    # A row of weight 0 is ignored.
    weights = np.where(np.arange(60) < 40, 1.0, 0.0)
    for kind, target in [(riesz.KernelRidge, X[:, 0]), (riesz.KernelLogisticRegression, y)]:
        model = kind(0.1, kernel=RBF(2.0), protect=[0], protect_strength=5.0)
        weighted, fewer = (
            clone(model).fit(X, target, sample_weight=weights),
            clone(model).fit(X[:40], target[:40]),
        )
        np.testing.assert_allclose(weighted.expansion_.predict(X), fewer.expansion_.predict(X), atol=1e-8)
    centred = riesz.KernelRidge(0.1, kernel=RBF(2.0), fit_intercept=True).fit(X, X[:, 0] + 100)
    assert abs(centred.expansion_.intercept[0] - 100 - X[:, 0].mean()) < 1e-10


def test_invalid_protection_is_refused():
    X, y = np.eye(4), np.arange(4.0)
    for options, words in [
        ({"protect": ["age"]}, "protect names the column 'age'"),
        ({"protect": [9]}, "protect names the column 9"),
        ({"protect": []}, "it is a list of columns"),
        ({"protect": [0], "protect_strength": -1}, "protect_strength = -1"),
        ({"protect": [0], "protect_game": "marginal_product"}, "features are protected in"),
        ({"protect": [0], "protect_game": "shap"}, "protect_game = 'shap'"),
        ({"protect": [0], "protect_coalitions": 9}, "belongs to the observational and the causal game"),
        ({"protect_strength": 2.0}, "no feature to protect"),
        ({"protect": [0], "protect_game": riesz.Interventional(np.empty((0, 4)))}, "no rows"),
    ]:
        with pytest.raises(ValueError, match=words):
            riesz.KernelRidge(**options).fit(X, y)
    with pytest.raises(riesz.UnsupportedModelError, match="ties the columns"):
        riesz.KernelRidge(protect=[0], kernel=riesz.kernels.Matern(isotropic=True)).fit(X, y)
    with pytest.raises(ValueError, match="protects no feature"):
        riesz.protection_path(riesz.KernelRidge(kernel="rbf", gamma="scale"), X, y, [0.0])


def test_classifier_paths_start_from_the_previous_fit():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 3))
    y = X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=80) > 0
    model = riesz.KernelLogisticRegression(0.01, kernel=RBF(1.0), protect=[0])
    strengths = [0.0, 1.0, 3.0, 10.0, 30.0, 100.0]
    path = riesz.protection_path(model, X, y, strengths)
    separate = [clone(model).set_params(protect_strength=strength).fit(X, y) for strength in strengths]
    for estimator, other in zip(path.estimators, separate):
        np.testing.assert_allclose(estimator.decision_function(X), other.decision_function(X), atol=1e-6)
        assert not hasattr(estimator, "_path")
    steps = [sum(fitted.n_iter_ for fitted in models) for models in (path.estimators, separate)]
    assert steps[0] < 0.85 * steps[1], steps


def test_many_features_and_many_rows_are_protected_observationally():
    rng = np.random.default_rng(4)
    z = rng.normal(size=(100, 1))
    X = np.hstack([z, z + 0.3 * rng.normal(size=(100, 1)), rng.normal(size=(100, 16))])
    y = X[:, 0] + X[:, 2]
    game = lambda **settings: riesz.Observational(conditional_ridge=0.01, **settings)
    options = dict(kernel=RBF(4.0), protect=[0], protect_game=game())
    model = riesz.KernelRidge(
        0.1, **options | {"protect_game": game(n_conditional_landmarks=20)}, protect_coalitions=200
    )
    free, fair = (clone(model).set_params(protect_strength=strength).fit(X, y) for strength in (0.0, 1000.0))
    correlations = [abs(np.corrcoef(fitted.predict(X), X[:, 0])[0, 1]) for fitted in (free, fair)]
    assert correlations[1] < 0.7 * correlations[0]
    explainer = riesz.Explainer(fair, X[:10])
    assert "estimated from 200 coalitions" in explainer(X[:1]).provenance.model["penalty"]
    again = clone(model).set_params(protect_strength=1000.0, random_state=0).fit(X, y)
    np.testing.assert_array_equal(again.dual_coef_, fair.dual_coef_)
    other = clone(model).set_params(protect_strength=1000.0, random_state=1).fit(X, y)
    assert np.abs(other.dual_coef_ - fair.dual_coef_).max() > 0
    # With few features all coalitions are used, and the settings of the path are those of the explanations.
    narrow = X[:, :4]
    model = riesz.KernelRidge(
        0.1, **options | {"kernel": RBF(2.0), "protect_game": game(n_conditional_landmarks=99)}
    )
    near, exact = (
        clone(model).set_params(protect_game=game(n_conditional_landmarks=count)).fit(narrow, y)
        for count in (99, None)
    )
    assert (
        0 < np.abs(near.predict(narrow) - exact.predict(narrow)).max() < 0.05 * np.ptp(exact.predict(narrow))
    )
    assert "penalty" not in riesz.Explainer(near, narrow[:10])(narrow[:1]).provenance.model
    path = riesz.protection_path(model, narrow, y, [0.0, 1000.0])
    assert path.importances[1, 0] < 0.3 * path.importances[0, 0]
    for settings, words in [
        ({"protect_game": game(n_conditional_landmarks=0)}, "landmarks = 0"),
        ({"protect_game": game(n_random_features=2.5)}, "random_features = 2.5"),
        ({"protect_game": game(n_conditional_samples=9)}, "n_conditional_samples belongs to"),
        ({"protect_coalitions": 0}, "coalitions = 0"),
        ({"random_state": -1}, "random_state = -1"),
        ({"protect_game": game(n_conditional_landmarks=9, n_random_features=9)}, "is an alternative to it"),
        ({"protect": None}, "protect_game is given, but no feature to protect"),
    ]:
        with pytest.raises(ValueError, match=words):
            clone(model).set_params(**settings).fit(narrow, y)
    with pytest.raises(ValueError, match="a value among 18 features takes at least 34"):
        riesz.KernelRidge(0.1, protect_coalitions=20, **options).fit(X, y)
