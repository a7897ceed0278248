"""Covariances of values: against draws from the posterior, and the coverage of intervals for functions drawn
from the prior."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import VotingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

import riesz
from riesz.kernels import ANOVA, RBF

X, y = load_diabetes(return_X_y=True)
X = X[:, :4] * 20.0
BACKGROUND, ROWS = X[:6], X[100:103]


def fitted(X=X[:150], y=y[:150], **settings):
    arguments = {"kernel": RBF(2.0), "alpha": 1.0, "optimizer": None, "normalize_y": True, **settings}
    return riesz.GaussianProcessRegressor(**arguments).fit(X, y)


def mixtures(row, background):
    """Rows for all coalitions, coalition by coalition, and for each player the weights of these rows in
    its Shapley value."""
    import math

    d = len(row)
    masks = np.array([[mask >> j & 1 for j in range(d)] for mask in range(2**d)], bool)
    rows = np.where(masks[:, None, :], row, background).reshape(-1, d)
    size = masks.sum(axis=1)
    weights = np.empty((d, 2**d))
    for j in range(d):
        other_sizes = size - masks[:, j]
        share = np.array(
            [math.factorial(s) * math.factorial(d - 1 - s) / math.factorial(d) for s in other_sizes]
        )
        weights[j] = np.where(masks[:, j], share, -share)
    return rows, np.repeat(weights, len(background), axis=1) / len(background)


def test_covariances_are_those_of_draws():
    model = fitted()
    explanation = riesz.Explainer(model, BACKGROUND, covariance=True)(ROWS)
    assert explanation.covariance.shape == (3, 4, 4) and explanation.std.shape == (3, 4)
    for i, row in enumerate(ROWS):
        rows, weights = mixtures(row, BACKGROUND)
        mean, covariance = model.predict(rows, return_cov=True)
        assert np.allclose(weights @ mean, explanation.values[i])
        assert np.allclose(
            weights @ covariance @ weights.T,
            explanation.covariance[i],
            rtol=1e-8,
            atol=1e-8 * explanation.covariance[i].max(),
        )
        draws = weights @ model.sample_y(rows, n_samples=4000, random_state=i)
        # The relative standard error of a variance from n draws is √(2/n).
        assert np.allclose(draws.var(axis=1), explanation.std[i] ** 2, rtol=5 * np.sqrt(2 / 4000))


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_intervals_cover_functions_drawn_from_the_prior(level):
    """Functions are drawn from the prior, observed with noise, and explained. The intervals cover their
    true Shapley values with the nominal probability."""
    rng = np.random.default_rng(5)
    d, n, noise = 3, 25, 0.2
    X, background, row = rng.normal(size=(n, d)), rng.normal(size=(4, d)), rng.normal(size=d)
    rows, weights = mixtures(row, background)
    inputs = np.vstack([X, rows])
    kernel = lambda a, b: np.exp(-0.5 * ((a[:, None] - b[None]) ** 2).sum(axis=2) / 1.5**2)
    root = np.linalg.cholesky(kernel(inputs, inputs) + 1e-9 * np.eye(len(inputs)))
    n_covered = 0
    for _ in range(1000):
        f = root @ rng.normal(size=len(inputs))
        model = riesz.GaussianProcessRegressor(
            RBF(1.5), alpha=noise**2, optimizer=None, normalize_y=False
        ).fit(X, f[:n] + noise * rng.normal(size=n))
        low, high = riesz.Explainer(model, background, covariance=True)(row[None]).interval(level)
        truth = weights @ f[n:]
        n_covered += int(low[0, 0] <= truth[0] <= high[0, 0])
    assert abs(n_covered / 1000 - level) < 3.3 * np.sqrt(level * (1 - level) / 1000)


def test_banzhaf_values_have_covariances():
    """A Banzhaf value is the mean contribution of a feature over all coalitions of the others, with equal
    weights."""
    model = fitted()
    explanation = riesz.Explainer(model, BACKGROUND, covariance=True, index="banzhaf")(ROWS)
    for i, row in enumerate(ROWS):
        rows, shapley = mixtures(row, BACKGROUND)
        weights = np.sign(shapley) / 8 / len(BACKGROUND)
        mean, covariance = model.predict(rows, return_cov=True)
        assert np.allclose(weights @ mean, explanation.values[i])
        assert np.allclose(weights @ covariance @ weights.T, explanation.covariance[i], rtol=1e-7, atol=1e-8)


def test_covariances_of_groups_outputs_and_selections():
    model = fitted(y=np.column_stack([y, -2 * y])[:150])
    explainer = riesz.Explainer(model, BACKGROUND, covariance=True, groups={"both": [1, 2]})
    explanation = copy.deepcopy(explainer)(ROWS)
    assert explanation.covariance.shape == (3, 3, 3, 2)
    assert np.allclose(explanation.covariance[..., 1], 4 * explanation.covariance[..., 0])
    assert explanation[0].covariance.shape == (3, 3, 2) and explanation[0, "both"].std.shape == (2,)
    assert explanation[:, "both", 0].covariance.shape == (3,)
    assert np.array_equal(pickle.loads(pickle.dumps(explanation)).covariance, explanation.covariance)
    assert np.array_equal(
        explanation[1:, ["x3", "both"], 0].covariance, explanation.covariance[1:, [[2], [1]], [2, 1], 0]
    )
    low, high = explanation.interval(0.5)
    assert (low < explanation.values).all() and (high > explanation.values).all()
    assert riesz.Explainer(model, BACKGROUND)(ROWS).covariance is None


def test_pipelines_and_files(tmp_path):
    model = make_pipeline(
        StandardScaler(), riesz.GaussianProcessRegressor(RBF(1.0), alpha=0.5, optimizer=None)
    ).fit(X, y)
    explanation = riesz.Explainer(model, BACKGROUND, covariance=True)(ROWS)
    model[-1].save(tmp_path / "m.riesz", posterior=True)
    scale = model[0].transform
    saved = riesz.Explainer(tmp_path / "m.riesz", scale(BACKGROUND), covariance=True)(scale(ROWS))
    assert np.allclose(saved.covariance, explanation.covariance, rtol=1e-12)


def test_files_and_tables_hold_covariances(tmp_path):
    explanation = riesz.Explainer(fitted(), BACKGROUND, covariance=True)(ROWS)
    explanation.save(tmp_path / "e.json")
    again = riesz.Explanation.load(tmp_path / "e.json")
    assert np.array_equal(again.covariance, explanation.covariance) and again.uncertainty_source == {
        "kind": "posterior"
    }
    table = riesz.Explanation.from_frame(explanation.to_frame())
    assert (
        np.array_equal(table.std, explanation.std)
        and table.covariance is None
        and table.uncertainty_source is None
    )
    assert np.array_equal(table.interval(0.9), explanation.interval(0.9))
    assert np.array_equal(pickle.loads(pickle.dumps(table)).std, explanation.std)
    with pytest.raises(ValueError, match="comes from a table"):
        table.sample(3)
    explanation.report(tmp_path / "e.html")
    assert "In a row picked at random" in (tmp_path / "e.html").read_text()


def test_probabilities_are_shares_of_draws():
    explanation = riesz.Explainer(fitted(), BACKGROUND, covariance=True)(ROWS)
    draws = explanation.sample(20_000, random_state=1)
    assert draws.shape == (20_000, 3, 4) and np.array_equal(draws, explanation.sample(20_000, random_state=1))
    # The draws of a row don't depend on the other rows.
    assert np.array_equal(
        explanation[1].sample(7, random_state=1), explanation.sample(7, random_state=1)[:, 1]
    )
    error = explanation.std / np.sqrt(20_000)
    assert (np.abs(draws.mean(axis=0) - explanation.values) < 4.5 * error).all()
    for i in range(3):
        size = np.outer(explanation.std[i], explanation.std[i])
        assert (np.abs(np.cov(draws[:, i].T) - explanation.covariance[i]) < 7 * size / np.sqrt(20_000)).all()
    close = lambda p, shares: np.testing.assert_allclose(p, shares, atol=4.5 * 0.5 / np.sqrt(20_000))
    close(
        explanation.probability_of_larger("x0", 2),
        (np.abs(draws[:, :, 0]) > np.abs(draws[:, :, 2])).mean(axis=0),
    )
    close(
        explanation.probability_of_larger("x0", "x2", by_size=False),
        (draws[:, :, 0] > draws[:, :, 2]).mean(axis=0),
    )
    p, error = explanation.probability_of_top(2, random_state=3)
    top = lambda values: np.sort(np.argsort(-np.abs(values), axis=-1)[..., :2], axis=-1)
    close(p, (top(draws) == top(explanation.values)).all(axis=-1).mean(axis=0))
    assert (error > 0).all() and (error < 0.01).all()
    with pytest.raises(IndexError, match="no feature"):
        explanation.probability_of_larger(0, 9)
    with pytest.raises(ValueError, match="whole number from 1"):
        explanation.sample(0)


def test_plots_have_whiskers():
    pytest.importorskip("matplotlib")
    import matplotlib.pyplot as plt

    from riesz import plots

    model = fitted()
    plain, with_covariance = (
        riesz.Explainer(model, BACKGROUND, covariance=covariance)(X[:60]) for covariance in (False, True)
    )
    for draw, part in [
        (plots.bar, lambda e: e),
        (plots.bar, lambda e: e[0]),
        (plots.beeswarm, lambda e: e),
        (plots.scatter, lambda e: e),
        (plots.waterfall, lambda e: e[0]),
        (plots.force, lambda e: e[0]),
    ]:
        for e, has_intervals in [(plain, False), (with_covariance, True)]:
            ax = draw(part(e), max_display=2) if draw is not plots.scatter else draw(e)
            words = ax.get_xlabel() + ax.get_ylabel()
            assert ("95 % intervals" in words) == has_intervals, draw.__name__
            assert (
                draw is plots.force
                or any(type(c).__name__ == "ErrorbarContainer" for c in ax.containers) == has_intervals
            )
            plt.close("all")


def test_missing_covariances_are_refused():
    with pytest.raises(ValueError, match="no posterior"):
        riesz.Explainer(SVR().fit(X, y), BACKGROUND, covariance=True)(ROWS)
    with pytest.raises(ValueError, match="models whose kernel is known"):
        riesz.Explainer(lambda rows: rows.sum(axis=1), BACKGROUND, covariance=True)(ROWS)
    with pytest.raises(ValueError, match="factors are all anova.*a game with a background or a baseline"):
        riesz.Explainer(fitted(), covariance=True)
    with pytest.raises(ValueError, match="adds up 2 models"):
        riesz.Explainer(
            VotingRegressor([("a", SVR(gamma=1)), ("b", SVR(gamma=2))]).fit(X, y), BACKGROUND, covariance=True
        )
    with pytest.raises(ValueError, match="Beta-Shapley"):
        riesz.Explainer(fitted(), BACKGROUND, covariance=True, index="k-SII")(ROWS)
    explanation = riesz.Explainer(fitted(), BACKGROUND, covariance=True)(ROWS)
    with pytest.raises(ValueError, match="between 0 and 1"):
        explanation.interval(95)
    with pytest.raises(ValueError, match="no posterior"):
        riesz.Explainer(fitted(), BACKGROUND)(ROWS).interval()


def of_mixtures(explanation, predict, rows=ROWS):
    """Compares with the covariance of the sums over all coalitions; ``predict`` returns the process's
    covariance at rows."""
    for i, row in enumerate(rows):
        mixed, weights = mixtures(row, BACKGROUND)
        truth = weights @ predict(mixed) @ weights.T
        assert np.allclose(explanation.covariance[i], truth, rtol=1e-7, atol=1e-8 * np.abs(truth).max())


def test_processes_of_scikit_learn():
    from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF as Gaussian
    from sklearn.gaussian_process.kernels import ConstantKernel

    kernel = ConstantKernel(2.0) * Gaussian([1.5, 2.0, 1.0, 3.0]) + ConstantKernel(0.5) * Gaussian(3.0)
    model = GaussianProcessRegressor(kernel, alpha=0.3, optimizer=None, normalize_y=True).fit(
        X[:120], y[:120]
    )
    of_mixtures(
        riesz.Explainer(model, BACKGROUND, covariance=True)(ROWS),
        lambda rows: model.predict(rows, return_cov=True)[1],
    )
    # Two targets in different units, and a pipeline.
    targets = np.column_stack([y, -3 * y])[:120]
    scaled = make_pipeline(
        StandardScaler(), GaussianProcessRegressor(kernel, alpha=0.3, optimizer=None, normalize_y=True)
    )
    scaled.fit(X[:120], targets)
    explanation = riesz.Explainer(scaled, BACKGROUND, covariance=True)(ROWS)
    of_mixtures(explanation[..., 1], lambda rows: scaled.predict(rows, return_cov=True)[1][:, :, 1])
    # Laplace's approximation, by its formula (Rasmussen and Williams 2006, equation 3.24).
    labels = np.digitize(y[:120], [120, 200])
    classifier = GaussianProcessClassifier(kernel, optimizer=None).fit(X[:120], labels)
    explanation = riesz.Explainer(classifier, BACKGROUND, covariance=True)(ROWS)
    for o, part in enumerate(classifier.base_estimator_.estimators_):
        pi = part.pi_
        precision = np.linalg.inv(part.kernel_(X[:120]) + np.diag(1 / (pi * (1 - pi))))
        cross = lambda rows: part.kernel_(rows, X[:120])
        of_mixtures(
            explanation[..., o], lambda rows: part.kernel_(rows) - cross(rows) @ precision @ cross(rows).T
        )


def test_refits_say_how_far_values_vary(tmp_path):
    model = riesz.KernelRidge(0.5, kernel=RBF(2.0), fit_intercept=True, n_bootstrap=60, random_state=3).fit(
        X[:80], y[:80]
    )
    for background in (BACKGROUND, None):
        explanation = riesz.Explainer(model, background, covariance=True)(ROWS)
        assert (
            explanation.uncertainty_source == {"kind": "bootstrap", "draws": 60, "seed": 3}
            and (explanation.std > 0).all()
        )
        # With rows from another random generator the deviations agree within their standard errors.
        rng, values = np.random.default_rng(0), []
        for _ in range(60):
            drawn = rng.integers(80, size=80)
            refit = riesz.KernelRidge(0.5, kernel=RBF(2.0), fit_intercept=True).fit(X[drawn], y[drawn])
            values.append(riesz.Explainer(refit, background)(ROWS).values)
        ratio = explanation.std / np.std(values, axis=0, ddof=1)
        assert (ratio > 0.55).all() and (ratio < 1.8).all() and abs(np.log(ratio).mean()) < 0.25
    model.save(tmp_path / "m.riesz", posterior=True)
    again = riesz.Explainer(tmp_path / "m.riesz", BACKGROUND, covariance=True)(ROWS)
    assert np.allclose(again.std, riesz.Explainer(model, BACKGROUND, covariance=True)(ROWS).std, rtol=1e-12)
    with pytest.raises(ValueError, match="protected"):
        riesz.KernelRidge(n_bootstrap=5, protect=[0], kernel="rbf", gamma="scale").fit(X[:30], y[:30])


def test_estimators_are_fitted_again(tmp_path):
    """Deviations agree with those for rows from another random generator, within their standard errors."""
    from sklearn.base import clone

    labels = np.where(y > 140, "high", "low")
    for model, target in [
        (riesz.SVR(C=50.0, kernel=RBF(2.0)), y),
        (riesz.SVC(C=2.0, kernel=RBF(2.0)), labels),
        (riesz.KernelLogisticRegression(1.0, kernel=RBF(2.0)), labels),
    ]:
        plain = clone(model).fit(X[:80], target[:80])
        model = model.set_params(n_bootstrap=60, random_state=3).fit(X[:80], target[:80])
        assert np.allclose(model._outputs(ROWS), plain._outputs(ROWS)) and not plain.expansion_.has_posterior
        explainer = riesz.Explainer(model, BACKGROUND, covariance=True)
        explanation = explainer(ROWS)
        assert explanation.uncertainty_source == {"kind": "bootstrap", "draws": 60, "seed": 3}
        rng, values = np.random.default_rng(0), []
        for _ in range(60):
            strata = (
                [np.arange(80)]
                if target is y
                else [np.flatnonzero(target[:80] == name) for name in ("high", "low")]
            )
            drawn = np.concatenate([rng.choice(rows, size=len(rows)) for rows in strata])
            refit = clone(plain).fit(X[drawn], target[drawn])
            values.append(riesz.Explainer(refit, BACKGROUND)(ROWS).values)
        ratio = explanation.std / np.std(values, axis=0, ddof=1)
        assert (ratio > 0.5).all() and (ratio < 2).all() and abs(np.log(ratio).mean()) < 0.25, type(model)
        model.save(tmp_path / "m.riesz", posterior=True)
        again = riesz.Explainer(tmp_path / "m.riesz", BACKGROUND, covariance=True)(ROWS)
        assert np.allclose(again.std, explanation.std, rtol=1e-10)
    # For three or more classes there are also sums of pairs.
    several = riesz.SVC(C=2.0, kernel=RBF(2.0), n_bootstrap=10).fit(X[:80], np.digitize(y[:80], [110, 180]))
    explanation = riesz.Explainer(several, BACKGROUND, covariance=True)(ROWS)
    assert explanation.std.shape == (3, 4, 6) and (explanation.std > 0).all()
    # The deviation of a sum of two pairs is at most the sum of their deviations.
    assert (explanation.std[:, :, 3] <= explanation.std[:, :, 0] + explanation.std[:, :, 1] + 1e-12).all()
    with pytest.raises(ValueError, match="whole number from 2"):
        riesz.SVR(n_bootstrap=1).fit(X[:30], y[:30])


def test_the_jackknife_leaves_out_rows():
    settings = {"alpha": 0.5, "kernel": RBF(2.0), "fit_intercept": True}
    model = riesz.KernelRidge(**settings, jackknife=True).fit(X[:30], y[:30])
    explanation = riesz.Explainer(model, BACKGROUND, covariance=True)(ROWS)
    assert explanation.uncertainty_source == {"kind": "jackknife", "rows": 30}
    leave_one_out = np.array(
        [
            riesz.Explainer(
                riesz.KernelRidge(**settings).fit(*(np.delete(a[:30], i, axis=0) for a in (X, y))), BACKGROUND
            )(ROWS).values
            for i in range(30)
        ]
    )
    deviations = leave_one_out - leave_one_out.mean(axis=0)
    assert np.allclose(
        explanation.covariance, np.einsum("irj,irl->rjl", deviations, deviations) * 29 / 30, rtol=1e-8
    )
    with pytest.raises(ValueError, match="leave one of the two out"):
        riesz.KernelRidge(jackknife=True, n_bootstrap=5, kernel="rbf", gamma="scale").fit(X[:30], y[:30])


def test_covariances_of_the_observational_game():
    """The value of a coalition is a linear function, by the embeddings, of f at mixed rows, whose joint
    posterior is known."""
    model = fitted(X[:40], y[:40])
    game = riesz.Observational(conditional_ridge=0.1, conditioning_kernel=RBF(1.5))
    reference = BACKGROUND
    explanation = riesz.Explainer(model, reference, game=game, covariance=True)(ROWS)
    rbf = lambda a, b: np.exp(-((a[:, None] - b[None]) ** 2).sum(axis=2) / (2 * 1.5**2))
    b, d = reference.shape
    for i, row in enumerate(ROWS):
        rows, _ = mixtures(row, reference)
        _, shares = mixtures(row, row[None])
        weights, empty_weights = [], np.zeros(len(rows))
        empty_weights[:b] = 1 / b
        for mask in range(2**d):
            present, coalition_weights = (
                np.array([mask >> j & 1 for j in range(d)], bool),
                np.zeros(len(rows)),
            )
            if present.any() and not present.all():
                system = rbf(reference[:, present], reference[:, present]) + 0.1 * b * np.eye(b)
                w = np.linalg.solve(system, rbf(reference[:, present], row[None, present])[:, 0])
                coalition_weights[mask * b : (mask + 1) * b] = w
                coalition_weights += (1 - w.sum()) * empty_weights
            else:
                coalition_weights[mask * b : (mask + 1) * b] = 1 / b
            weights.append(coalition_weights)
        weights = shares @ np.array(weights)
        mean, covariance = model.predict(rows, return_cov=True)
        assert np.allclose(weights @ mean, explanation.values[i])
        truth = weights @ covariance @ weights.T
        assert np.allclose(explanation.covariance[i], truth, rtol=1e-7, atol=1e-8 * truth.max())
    with pytest.raises(ValueError, match="more than 13 coalitions"):
        riesz.Explainer(model, reference, game=game, covariance=True, n_coalitions=13)
    ridge = riesz.KernelRidge(0.5, kernel=RBF(2.0), n_bootstrap=10).fit(X[:40], y[:40])
    assert (riesz.Explainer(ridge, reference, game=game, covariance=True)(ROWS).std > 0).all()


def test_shares_of_the_variance():
    """Shares of the variance of the coalition values, computed by definition."""
    model = fitted(X[:30], y[:30])
    explainer = riesz.Explainer(model, BACKGROUND[:3], covariance=True)
    explanation = explainer.explain_variance(ROWS)
    std = model.predict(ROWS, return_std=True)[1]
    assert np.allclose(explanation.predictions, std**2, rtol=1e-8)
    assert np.allclose(explanation.base_values + explanation.values.sum(axis=1), std**2, rtol=1e-8)
    assert explanation.output_names == ["variance of y"] and explanation.exactness == "unknown"
    for i, row in enumerate(ROWS):
        rows, shares = mixtures(row, BACKGROUND[:3])
        covariance = model.predict(rows, return_cov=True)[1]
        coalition_values = covariance.reshape(16, 3, 16, 3).mean(axis=(1, 3)).diagonal()
        # Shares are divided by the number of background rows, and repeated this number of times.
        truth = shares @ np.repeat(coalition_values, 3)
        assert np.allclose(explanation.values[i], truth, rtol=1e-7, atol=1e-8 * np.abs(truth).max())
        assert np.isclose(explanation.base_values[i], coalition_values[0])
    pytest.importorskip("matplotlib")
    riesz.plots.waterfall(explanation[0])
    scaled = make_pipeline(
        StandardScaler(), riesz.GaussianProcessRegressor(RBF(1.0), alpha=0.5, optimizer=None)
    ).fit(X, y)
    explanation = riesz.Explainer(
        scaled, BACKGROUND[:2], covariance=True, groups={"both": [1, 2]}
    ).explain_variance(ROWS)
    assert explanation.feature_names == ["x0", "both", "x3"]
    assert np.allclose(explanation.predictions, scaled.predict(ROWS, return_std=True)[1] ** 2, rtol=1e-8)
    with pytest.raises(ValueError, match="covariance=True"):
        riesz.Explainer(model, BACKGROUND).explain_variance(ROWS)
    with pytest.raises(ValueError, match="shares of the variance"):
        riesz.Explainer(model, BACKGROUND, game="observational", covariance=True).explain_variance(ROWS)


def test_covariances_of_a_functional_game_with_anova_factors():
    """With ANOVA factors the functional game is a mean over absent columns, for the process as for its
    posterior mean."""
    rows = 3.0 + 2.0 * X[:40, :2]
    kernel = ANOVA([1.5, 3.0], variance=2.0, center="mean", scale="std")
    model = riesz.GaussianProcessRegressor(kernel, alpha=0.1, optimizer=None).fit(rows, y[:40])
    explainer = riesz.Explainer(model, game="functional", covariance=True)
    places = rows[:2]
    explanation = explainer(places)
    z, w = np.polynomial.hermite_e.hermegauss(60)
    w = w / w.sum()
    a, b = (rows[:, j].mean() + rows[:, j].std() * z for j in (0, 1))
    grid = np.array([(u, v) for u in a for v in b])
    base = w.repeat(60) * np.tile(w, 60) @ model.predict(grid)
    np.testing.assert_allclose(explanation.base_values, base, rtol=1e-9)
    for i, (u, v) in enumerate(places):
        mixed = np.array([(u, other) for other in b] + [(other, v) for other in a] + [(u, v)])
        # v({0}), v({1}) and v({0, 1}) as sums over these rows, and φ_0 - φ_1 = v({0}) - v({1})
        weights = np.concatenate([w, -w, [0.0]])
        mean, covariance = model.predict(mixed, return_cov=True)
        assert explanation.values[i, 0] - explanation.values[i, 1] == pytest.approx(weights @ mean, rel=1e-9)
        difference = np.array([1.0, -1.0])
        variance = difference @ explanation.covariance[i] @ difference
        assert variance == pytest.approx(weights @ covariance @ weights, rel=1e-7)
    for name, value in (("center", "std"), ("scale", "median")):
        with pytest.raises(ValueError, match=f"{name} = '{value}': it is a number"):
            riesz.KernelRidge(kernel=ANOVA(**{name: value})).fit(rows, y[:40])
    with pytest.raises(TypeError, match="rows say that"):
        riesz.Expansion(ANOVA(center="mean"), rows, y[:40])


def test_a_model_without_support_vectors_has_no_variance(tmp_path):
    """Constant targets give a constant model, whose refits are the same constant."""
    X = np.random.default_rng(1).normal(size=(15, 3))
    model = riesz.SVR(n_bootstrap=5).fit(X, np.full(15, 3.0))
    assert model.expansion_.points.shape[0] == 0
    for game in ("functional", "interventional", riesz.Observational(X, conditional_ridge=0.1)):
        background = X[:3] if game == "interventional" else None
        explanation = riesz.Explainer(model, background, game=game, covariance=True)(X[:2])
        assert (
            not explanation.values.any()
            and not explanation.covariance.any()
            and (explanation.base_values == 3.0).all()
        )
    model.save(tmp_path / "m.riesz", posterior=True)
    assert riesz.Expansion.load(tmp_path / "m.riesz").has_posterior


def test_settings_of_refits_are_checked():
    for options in ({"random_state": -1}, {"random_state": 1.5}, {"random_state": "x"}):
        for estimator in (riesz.SVR, riesz.KernelRidge):
            with pytest.raises((ValueError, TypeError), match="random_state"):
                estimator(n_bootstrap=5, **options).fit(X[:20], y[:20])
    with pytest.raises(ValueError, match="jackknife = 'no': it is True or False"):
        riesz.KernelRidge(jackknife="no", kernel="rbf", gamma="scale").fit(X[:20], y[:20])
