"""Multiplicative models: exact values of means, odds and hazards, against the enumeration of all
coalitions with the models' own predictions."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import GammaRegressor, LogisticRegression, PoissonRegressor, TweedieRegressor
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import riesz
from conftest import interventional, shapley


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 4)) * [1.0, 2.0, 0.5, 1.0]
    mean = np.exp(0.5 + 0.4 * X[:, 0] - 0.3 * X[:, 1] + 0.2 * X[:, 2])
    return X, mean, rng


def check(model, predict, X, background, explained):
    explainer = riesz.Explainer(model, background)
    assert explainer.exactness == "exact" and explained in repr(explainer), repr(explainer)
    rows = np.asarray(X)[60:63]
    explanation = explainer(X[60:63])
    expected = np.array([interventional(predict, x, np.asarray(background)) for x in rows])
    size = 1 + np.abs(expected).max()
    assert explanation.values.shape == expected.shape
    np.testing.assert_allclose(explanation.values, expected, atol=1e-9 * size)
    np.testing.assert_allclose(explanation.predictions.ravel(), np.ravel(predict(rows)), rtol=1e-9)
    assert explanation.certificate.holds and np.max(explanation.bound) < 1e-9 * size
    return explanation


def test_means_of_generalised_linear_models(data):
    X, mean, rng = data
    counts = rng.poisson(mean)
    for model, target in [
        (PoissonRegressor(alpha=0.1), counts),
        (PoissonRegressor(fit_intercept=False), counts),
        (GammaRegressor(alpha=0.1), mean * rng.gamma(2.0, 0.5, len(mean))),
        (TweedieRegressor(power=1.5, alpha=0.1), counts),
        (TweedieRegressor(power=0, link="log", alpha=0.01), mean),
        (make_pipeline(StandardScaler(), PoissonRegressor()), counts),
    ]:
        model.fit(X, target)
        check(model, model.predict, X, X[:7], "mean")
    # The functional game needs no background: an absent feature multiplies by 1.
    poisson = PoissonRegressor().fit(X, counts)
    explanation = riesz.Explainer(poisson)(X[:2])
    value = lambda mask: poisson.predict(np.where(mask, X[1], 0.0)[None])[0]
    np.testing.assert_allclose(explanation.values[1], shapley(value, 4), atol=1e-12)
    # A model with the identity link is not multiplicative.
    linear = TweedieRegressor(power=0, link="identity").fit(X, mean)
    check(linear, linear.predict, X, X[:7], "prediction")


@pytest.mark.parametrize("count", [2, 3])
def test_odds_of_naive_bayes(data, count):
    X, mean, rng = data
    label = np.digitize(
        mean + 0.3 * rng.normal(size=len(mean)), np.quantile(mean, [0.5] if count == 2 else [0.3, 0.6])
    )
    label = np.array(["low", "middle", "top"])[label]
    pairs = [(1, 0)] if count == 2 else [(0, 1), (0, 2), (1, 2)]

    def odds(model):
        def predict(rows):
            logs = model.predict_log_proba(rows)
            ratios = np.exp(np.column_stack([logs[:, i] - logs[:, j] for i, j in pairs]))
            return ratios[:, 0] if count == 2 else ratios

        return predict

    levels = np.clip(np.round(X + 3), 0, 6).astype(int)
    for model, rows in [
        (GaussianNB(), X),
        (GaussianNB(), X + [2000.0, -50.0, 0.0, 7.0]),
        (BernoulliNB(), X),
        (BernoulliNB(binarize=None), (X > 0).astype(float)),
        (MultinomialNB(), levels),
        (ComplementNB(), levels),
        (CategoricalNB(), levels),
    ]:
        model.fit(rows, label)
        explanation = check(model, odds(model), rows, rows[:6], "odds of ")
        names = ["middle"] if count == 2 else ["low vs middle", "low vs top", "middle vs top"]
        assert explanation.output_names == names and explanation.feature_names == ["x0", "x1", "x2", "x3"]
    with pytest.raises(ValueError, match="the column 'x1' has a category that the model does not know"):
        riesz.Explainer(model, rows[:5])(levels[:1] + [[0, 20, 0, 0]])


def test_odds_of_logistic_regression(data):
    X, mean, rng = data
    frame = pd.DataFrame(X, columns=list("abcd"))
    two = LogisticRegression().fit(frame, mean > 1.5)
    predict_odds = lambda rows: np.exp(two.decision_function(pd.DataFrame(rows, columns=list("abcd"))))
    model = riesz.odds_model(two)
    explanation = riesz.Explainer(model, frame[:6])(frame[60:62])
    expected = [interventional(predict_odds, x, X[:6]) for x in X[60:62]]
    np.testing.assert_allclose(explanation.values, expected, atol=1e-10 * (1 + np.abs(expected).max()))
    assert explanation.feature_names == list("abcd") and explanation.certificate.holds
    three = LogisticRegression().fit(X, np.digitize(mean, [1.0, 2.0]))
    logs = three.predict_log_proba(X[:3])
    np.testing.assert_allclose(
        riesz.odds_model(three).predict(X[:3])[:, 1], np.exp(logs[:, 0] - logs[:, 2]), rtol=1e-9
    )
    with pytest.raises(riesz.UnsupportedModelError, match="GaussianNB is no LogisticRegression"):
        riesz.odds_model(GaussianNB())


def test_games_indices_and_files(data, tmp_path):
    X, mean, rng = data
    model = PoissonRegressor().fit(X, rng.poisson(mean))
    x, background = X[60], X[:5]
    value = lambda mask: model.predict(np.where(mask, x, background)).mean()
    pairs = riesz.Explainer(model, background, index="SII")(X[60:61])
    index = 0.0
    for bits in range(4):
        mask = np.array([False, False, bits & 1, bits >> 1], dtype=bool)
        value_with = lambda *on: value(mask | np.isin(np.arange(4), on))
        index += [1 / 3, 1 / 6, 1 / 3][mask.sum()] * (
            value_with(0, 1) - value_with(0) - value_with(1) + value_with()
        )
    np.testing.assert_allclose(2 * pairs.interactions[0, 0, 1], index, atol=1e-12)
    baseline = riesz.Explainer(model, X[:1], game="baseline")(X[60:61])
    np.testing.assert_allclose(baseline.values[0], interventional(model.predict, x, X[:1]), atol=1e-12)
    mixtures = np.array([[X[b >> j & 1, j] for j in range(4)] for b in range(16)])
    marginal = riesz.Explainer(model, X[:2], game="marginal_product")(X[60:61])
    np.testing.assert_allclose(marginal.values[0], interventional(model.predict, x, mixtures), atol=1e-12)
    expansion = riesz.Expansion(
        riesz.kernels.ExponentialDotProduct(), model.coef_[None], [np.exp(model.intercept_)]
    )
    expansion.save(tmp_path / "m.riesz")
    again = riesz.Expansion.load(tmp_path / "m.riesz")
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=1e-12)


def test_results_of_statsmodels(data):
    api = pytest.importorskip("statsmodels.api")
    X, mean, rng = data
    design = api.add_constant(X)
    counts = rng.poisson(mean)
    for family in [api.families.Poisson(), api.families.Gamma(api.families.links.Log())]:
        results = api.GLM(counts + 0.5 * isinstance(family, api.families.Gamma), design, family=family).fit()
        check(results, lambda rows: results.predict(rows), design, design[:6], "mean")
    frame = pd.DataFrame(design, columns=["const", *"abcd"])
    named = api.GLM(counts, frame, family=api.families.Poisson()).fit()
    assert riesz.Explainer(named, frame[:6])(frame[:2]).feature_names == ["const", *"abcd"]
    # Other models are explained by their predictions.
    for other, words in [
        (api.GLM(counts > 1, design, family=api.families.Binomial()).fit(), "the link Logit"),
        (api.OLS(counts, design).fit(), "of statsmodels is not read"),
    ]:
        with pytest.raises(riesz.UnsupportedModelError, match=words):
            riesz.Explainer(other)
        values = riesz.Explainer(other, design[:5])(design[9:10]).values
        np.testing.assert_allclose(
            values[0], interventional(other.predict, design[9], design[:5]), atol=1e-10
        )


def test_hazards_of_lifelines(data):
    lifelines = pytest.importorskip("lifelines")
    X, mean, rng = data
    frame = pd.DataFrame(X, columns=list("abcd"))
    times = frame.assign(time=rng.exponential(1 / mean), event=rng.random(len(mean)) < 0.8)
    fitter = lifelines.CoxPHFitter(penalizer=0.01)
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        riesz.Explainer(fitter, frame[:5])
    fitter.fit(times, "time", "event")
    hazard = lambda rows: fitter.predict_partial_hazard(pd.DataFrame(rows, columns=list("abcd"))).to_numpy()
    explanation = check(fitter, hazard, frame, frame[:6], "partial hazard")
    assert explanation.feature_names == list("abcd") and explanation.output_names == ["hazard ratio"]
    mixed = lifelines.CoxPHFitter(penalizer=0.01).fit(times, "time", "event", formula="a * b + c")
    with pytest.raises(riesz.UnsupportedModelError, match="by a formula"):
        riesz.Explainer(mixed, frame[:5])


def test_tiny_means_are_compared_too(data):
    """A model whose predictions are twice those of its coefficients is refused, however small its means
    are."""
    X, mean, _ = data
    model = GammaRegressor(alpha=0.0).fit(X, 1e-12 * mean)
    assert model.predict(X).max() < 1e-9
    explanation = riesz.Explainer(model, X[:7])(X[60:63])
    truth = np.array([interventional(model.predict, x, X[:7]) for x in X[60:63]])
    np.testing.assert_allclose(explanation.values, truth, atol=1e-9 * np.abs(truth).max())
    original_predict = model.predict
    model.predict = lambda rows: 2.0 * original_predict(rows)
    with pytest.raises(
        riesz.UnsupportedModelError, match="does not predict what its kernel and coefficients say"
    ):
        riesz.Explainer(model, X[:7])
    explainer = riesz.Explainer(model.predict, X[:7])
    np.testing.assert_allclose(explainer(X[60:63]).values, 2.0 * truth, atol=1e-9 * np.abs(truth).max())
