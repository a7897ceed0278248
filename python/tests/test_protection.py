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
        riesz.KernelRidge(protect=[0], kernel=riesz.kernels.Sigmoid(0.01)).fit(X, y)
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


@pytest.mark.parametrize("game", ["interventional", riesz.Observational(conditional_ridge=0.01)])
def test_ranges_targets_and_equal_values_against_a_generic_optimiser(game):
    rng = np.random.default_rng(5)
    X, kernel = rng.normal(size=(30, 3)), RBF(0.8)
    y = np.sin(2 * X[:, 0]) - X[:, 1] + 0.3 * rng.normal(size=30)
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2) / (2 * 0.8**2))
    z = [values_of_units(X, kernel, game, player) for player in (0, 1)]
    by_row = np.linspace(-0.2, 0.2, 30)
    for options, Z, low, high in [
        ({"protect": [1], "protect_range": (0, None)}, z[1], 0, np.inf),
        ({"protect": [0], "protect_range": (-0.1, 0.1)}, z[0], -0.1, 0.1),
        ({"protect": [0], "protect_range": (by_row, by_row)}, z[0], by_row, by_row),
        ({"protect": [0, 1], "protect_equal": True}, z[0] - z[1], 0, 0),
        (
            {"protect": [0, 1], "protect_range": {"x1": (0.0, 0.2)}},
            np.hstack(z),
            [0] * 60,
            [0] * 30 + [0.2] * 30,
        ),
    ]:
        strength, ridge = 20.0, 0.2

        def objective(coef):
            values = coef @ Z
            distance = values - np.clip(values, low, high)
            residual = K @ coef - y
            gradient = 2 * K @ residual + 2 * ridge * K @ coef + 2 * strength / 30 * Z @ distance
            return (
                residual @ residual + ridge * coef @ K @ coef + strength / 30 * distance @ distance,
                gradient,
            )

        best = minimize(
            objective, np.zeros(30), jac=True, method="L-BFGS-B", tol=0, options={"maxiter": 50000}
        )
        model = riesz.KernelRidge(
            ridge, kernel=kernel, protect_strength=strength, protect_game=game, **options
        )
        coef = model.fit(X, y).dual_coef_
        assert objective(coef)[0] <= best.fun * (1 + 1e-9)
        np.testing.assert_allclose(K @ coef, K @ best.x, atol=1e-4)


def test_support_vector_machines_against_a_quadratic_programme():
    rng = np.random.default_rng(6)
    n, C, epsilon, strength = 24, 1.5, 0.1, 30.0
    X, kernel = rng.normal(size=(n, 2)), RBF(0.9)
    y = X[:, 0] + np.sin(2 * X[:, 1])
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2) / (2 * 0.9**2))
    Z = values_of_units(X, kernel, "interventional", 0)
    options = dict(kernel=kernel, C=C, tol=1e-9, protect=[0], protect_strength=strength)
    labels = np.where(y > 0, 1.0, -1.0)
    for model, loss, signs in [
        (
            riesz.SVR(epsilon=epsilon, **options).fit(X, y),
            lambda f: np.maximum(np.abs(y - f) - epsilon, 0),
            None,
        ),
        (riesz.SVC(**options).fit(X, labels > 0), lambda f: np.maximum(1 - labels * f, 0), labels),
    ]:
        # Minimise over coefficients, the intercept and slacks, with the slacks above the loss.
        def parts(v):
            coef, b, slack = v[:n], v[n], v[n + 1 :]
            return coef, K @ coef + b, slack

        def value(coef, f):
            return 0.5 * coef @ K @ coef + strength / n * ((coef @ Z) ** 2).sum() + C * loss(f).sum()

        def objective(v):
            coef, _, slack = parts(v)
            gradient = np.concatenate([K @ coef + 2 * strength / n * Z @ (coef @ Z), [0.0], np.full(n, C)])
            return 0.5 * coef @ K @ coef + strength / n * ((coef @ Z) ** 2).sum() + C * slack.sum(), gradient

        design = np.hstack([K, np.ones((n, 1))])
        if signs is None:
            A = np.vstack([np.hstack([design, np.eye(n)]), np.hstack([-design, np.eye(n)])])
            bound = np.concatenate([y - epsilon, -y - epsilon])
        else:
            A, bound = np.hstack([signs[:, None] * design, np.eye(n)]), np.ones(n)
        constraints = [
            {"type": "ineq", "fun": lambda v, A=A, b=bound: A @ v - b, "jac": lambda v, A=A: A},
            {"type": "ineq", "fun": lambda v: v[n + 1 :], "jac": lambda v: np.eye(2 * n + 1)[n + 1 :]},
        ]
        start = np.concatenate([np.zeros(n + 1), np.full(n, 5.0)])
        best = minimize(
            objective,
            start,
            jac=True,
            constraints=constraints,
            method="SLSQP",
            options={"maxiter": 2000, "ftol": 1e-13},
        )
        assert (A @ best.x - bound > -1e-9).all()
        coef = np.zeros(n)
        coef[model.support_] = model.dual_coef_[0]
        objective_value = value(coef, model.decision_function(X) if signs is not None else model.predict(X))
        assert objective_value <= best.fun * (1 + 1e-6), (objective_value, best.fun)
        assert abs(objective_value - best.fun) < 1e-5 * best.fun
        path = riesz.protection_path(model, X, y if signs is None else labels > 0, [0.0, 10.0, 1000.0])
        assert (np.diff(path.importances[:, 0]) < 0).all()


def test_processes_protect_features_in_mean_and_covariance():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(60, 3))
    y = 2 * X[:, 0] + X[:, 1] + 0.2 * rng.normal(size=60)
    options = dict(alpha=0.1, optimizer=None, normalize_y=False, protect=[0], protect_strength=50.0)
    process = riesz.GaussianProcessRegressor(RBF(1.5), **options).fit(X, y)
    ridge = riesz.KernelRidge(0.1, kernel=RBF(1.5), protect=[0], protect_strength=50.0).fit(X, y)
    np.testing.assert_allclose(process.predict(X), ridge.predict(X), atol=1e-6)
    # Tuned, in units of the target, with intervals of the values.
    free, fair = (
        riesz.GaussianProcessRegressor(
            "auto", **{"protect": protect}, protect_strength=strength, random_state=0
        ).fit(X, 100 * y)
        for protect, strength in [(None, 1.0), ([0], 1000.0)]
    )
    assert fair.average_ is None and fair.kernel_ is not None
    explanations = [riesz.Explainer(model, X, covariance=True)(X[:20]) for model in (free, fair)]
    importance = [np.abs(explanation.values).mean(axis=0) for explanation in explanations]
    assert importance[1][0] < 0.2 * importance[0][0] and importance[1][1] > 0.5 * importance[0][1]
    assert explanations[1].std[:, 0].mean() < explanations[0].std[:, 0].mean()
    # Values with given targets, one per row.
    target = 0.3 * (X[:, 0] - X[:, 0].mean())
    options = dict(alpha=0.1, optimizer=None, normalize_y=False, protect=[0], protect_strength=1e4)
    aimed = riesz.GaussianProcessRegressor(RBF(1.5), **options, protect_range=(target, target)).fit(X, y)
    values = riesz.Explainer(aimed, X)(X).values[:, 0]
    assert np.abs(values - target).max() < 0.1 * np.abs(target).max()
    for extra, words in [
        ({"protect_range": (0, None)}, "normal only with targets"),
        ({"n_inducing": 10}, "without inducing points"),
        ({"n_hyperparameter_samples": 8}, "are not averaged"),
    ]:
        with pytest.raises(ValueError, match=words):
            riesz.GaussianProcessRegressor(RBF(1.5), protect=[0], **extra).fit(X, y)


def test_invalid_ranges_are_refused():
    X, y = np.random.default_rng(0).normal(size=(6, 2)), np.arange(6.0)
    for options, words in [
        ({"protect_range": 1.0}, "it is a pair of a lower and an upper end"),
        ({"protect_range": (0, "b")}, "it is a pair of a lower and an upper end"),
        ({"protect_range": (np.zeros(5), 1)}, "one number for each of the 6 rows"),
        ({"protect_range": (1, 0)}, "must not exceed"),
        ({"protect_range": (np.nan, 0)}, "must not exceed"),
        ({"protect_range": {"x1": (0, 1)}}, "protect_range names 'x1'; protected are: x0"),
        ({"protect_equal": True}, "features with equal values"),
        ({"protect": [0, 1], "protect_equal": True, "protect_range": {"x0": (0, 1)}}, "have one range"),
        ({"protect": None, "protect_range": (0, 1)}, "protect_range is given, but no feature to protect"),
        ({"protect": None, "protect_equal": True}, "protect_equal is given, but no feature to protect"),
    ]:
        with pytest.raises(ValueError, match=words):
            riesz.KernelRidge(**({"protect": [0]} | options)).fit(X, y)
    with pytest.raises(ValueError, match="need one output"):
        riesz.KernelRidge(protect=[0], protect_range=(0, 1)).fit(X, np.stack([y, y], axis=1))
    for classes, options in [(3, {}), (2, {"n_bootstrap": 5})]:
        labels = np.arange(6) % classes
        with pytest.raises(ValueError, match="need one output|protected features need all rows"):
            riesz.SVC(protect=[0], protect_range=(0, 1), **options).fit(X, labels)


def test_maps_of_aggregates_are_conditioned_on_their_values():
    rng = np.random.default_rng(8)
    n, noise, strength = 30, 0.05, 4.0
    rows = pandas.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"]).assign(bag=np.arange(n) // 3)
    X = rows[["a", "b"]].to_numpy()
    bags = pandas.DataFrame(
        {"bag": np.arange(10), "total": (X[:, 0] + X[:, 1] ** 2).reshape(10, 3).mean(axis=1)}
    )
    model = riesz.AggregateGaussianProcess(
        RBF(0.7), noise=noise, row_noise=0, optimizer=None, normalize_y=False, n_hyperparameter_samples=0
    ).fit(rows, bags, bag="bag", target="total")
    assert abs(model.noise_ - noise) < 1e-12
    new = rng.normal(size=(5, 2))
    points = np.vstack([X, new])
    joint = np.exp(-((points[:, None] - points[None]) ** 2).sum(axis=2) / (2 * 0.7**2))
    average = np.kron(np.eye(10), np.full((1, 3), 1 / 3))
    for game in ("interventional", riesz.Observational(conditional_ridge=0.01)):
        Z = values_of_units(X, RBF(0.7), game, 0)
        for target in (None, 0.1):
            fair = model.expansion_.protected(
                ["a"], model.noise_, strength=strength, game=game, target=target
            )
            # The means of bags and the values of the interpolant, as observations of the joint vector.
            observed = np.zeros((10 + n, n + 5))
            observed[:10, :n] = average
            observed[10:, :n] = Z.T @ np.linalg.inv(joint[:n, :n])
            errors = np.diag([noise] * 10 + [n * noise / strength] * n)
            cross = joint @ observed.T
            mean = model.expansion_.intercept[0]
            data = np.concatenate([bags.total - mean, np.full(n, target or 0.0)])
            gain = cross @ np.linalg.inv(observed @ cross + errors)
            predicted, std = fair.predict(points, return_std=True)
            np.testing.assert_allclose(predicted, mean + gain @ data, atol=1e-6)
            np.testing.assert_allclose(std**2, np.diag(joint - gain @ cross.T), atol=1e-6)
    for options, words in [
        ({"features": ["c"]}, "protect names the column 'c'"),
        ({"features": [0], "strength": -1.0}, "protect_strength = -1"),
        ({"features": [0], "noise": 0.0}, "noise = 0"),
    ]:
        with pytest.raises(ValueError, match=words):
            model.expansion_.protected(**({"noise": 0.1} | options))
    with pytest.raises(ValueError, match="posterior"):
        riesz.KernelRidge(kernel="rbf").fit(X, X[:, 0]).expansion_.protected([0], 0.1)


def test_preferences_protect_features_of_items():
    rng = np.random.default_rng(9)
    items = pandas.DataFrame({"fame": rng.normal(size=15), "skill": rng.normal(size=15)})
    duels = rng.integers(0, 15, size=(120, 2))
    duels = duels[duels[:, 0] != duels[:, 1]]
    left, right = items.iloc[duels[:, 0]], items.iloc[duels[:, 1]]
    advantage = (items.fame + items.skill).to_numpy()
    difference = advantage[duels[:, 0]] - advantage[duels[:, 1]]
    outcome = rng.random(len(duels)) < 1 / (1 + np.exp(-difference))
    options = dict(ability=False, random_state=0, n_hyperparameter_samples=0)
    importance = {}
    for game in ("independent", "observational"):
        for strength in (0.0, 10.0, 1000.0):
            model = riesz.PreferenceClassifier(
                "utility", protect=["fame"], protect_strength=strength, protect_game=game, **options
            ).fit(items, duels, outcome=outcome)
            values = model.explain(left, right, items, game=game).values
            importance[game, strength] = np.abs(values).mean(axis=0)
        fame, skill = np.array([importance[game, strength] for strength in (0.0, 10.0, 1000.0)]).T
        assert fame[2] < 0.1 * fame[0] and fame[1] < fame[0] and skill[2] > 0.3 * skill[0], importance
    free = riesz.PreferenceClassifier("utility", **options).fit(items, duels, outcome=outcome)
    zero = riesz.PreferenceClassifier("utility", protect=["fame"], protect_strength=0.0, **options)
    zero.fit(items, duels, outcome=outcome)
    moments = [model.decision_function(left, right, return_std=True) for model in (free, zero)]
    for expected, actual in zip(*moments):
        np.testing.assert_allclose(actual, expected, atol=1e-6)
    group = riesz.PreferenceClassifier(
        "utility", protect={"both": ["fame", "skill"]}, protect_strength=1e4, **options
    )
    assert np.abs(group.fit(items, duels, outcome=outcome).decision_function(left, right)).max() < 0.3
    for extra, words in [
        ({"protect": ["speed"]}, "protect names the column 'speed'"),
        ({"protect": ["fame"], "protect_game": "paired"}, "'independent' or 'observational'"),
        ({"protect": ["fame"], "protect_strength": -1.0}, "protect_strength = -1"),
        ({"protect": ["fame"], "n_landmarks": 5}, "dense Gaussian process"),
        ({"protect": ["fame"], "model": "linear"}, "dense Gaussian process"),
        ({"protect_strength": 2.0}, "no feature to protect"),
        ({"protect": ["fame"], "n_hyperparameter_samples": 8}, "not averaged"),
    ]:
        with pytest.raises(ValueError, match=words):
            riesz.PreferenceClassifier(**({"model": "utility"} | options | extra)).fit(
                items, duels, outcome=outcome
            )
