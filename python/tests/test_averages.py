"""Averages of models over hyper-parameters: mixtures of posteriors, their explanations and files. The weights
are compared with sums over grids in Rust."""

import io
import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

import riesz
from conftest import run, with_command
from riesz.kernels import RBF, Constant

rng = np.random.default_rng(7)
X = rng.normal(size=(14, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=14)
NEW = rng.normal(size=(5, 2))
ITEMS = pd.DataFrame(X, columns=["power", "weight"], index=[f"item {i}" for i in range(14)])
LEFT, RIGHT = (pairs := rng.integers(14, size=(2, 80)))[:, pairs[0] != pairs[1]][:, :50]
DUELS = ITEMS.index.to_numpy()[np.column_stack([LEFT, RIGHT])]
WON = (rng.random(50) < 1 / (1 + np.exp(3 * (X[RIGHT, 0] - X[LEFT, 0])))).astype(float)


def regressor(**settings):
    settings = {"n_hyperparameter_samples": 40, "random_state": 0} | settings
    return riesz.GaussianProcessRegressor(RBF([1.0, 1.0]), **settings).fit(X, Y)


def classifier():
    kernel = RBF([1.0, 1.0])
    return riesz.GaussianProcessClassifier(kernel, n_hyperparameter_samples=40, random_state=0).fit(X, Y > 0)


def preferences(**settings):
    settings = {"n_hyperparameter_samples": 40, "random_state": 0} | settings
    return riesz.PreferenceClassifier("nested", **settings).fit(ITEMS, DUELS, outcome=WON)


def mixture_moments(average, rows):
    """Returns the mean and the standard deviation of a mixture, by the law of total variance."""
    moments = [model.predict_link(rows, return_std=True) for model in average.models]
    mean = sum(weight * part for weight, (part, _) in zip(average.weights, moments))
    second = sum(weight * (part**2 + std**2) for weight, (part, std) in zip(average.weights, moments))
    return mean, np.sqrt(second - mean**2)


def test_regressions_are_averaged():
    model = regressor()
    average = model.average_
    assert average.weights.sum() == pytest.approx(1.0) and (average.weights > 0).all()
    assert 1 <= average.effective_sample_size <= 40
    mean, std = model.predict(NEW, return_std=True)
    expected = mixture_moments(average, NEW)
    np.testing.assert_allclose(mean, expected[0], rtol=1e-9)
    np.testing.assert_allclose(std, expected[1], rtol=1e-9)
    np.testing.assert_allclose(model.predict(NEW), mean, rtol=1e-12)
    _, covariance = model.predict(NEW, return_cov=True)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), std, rtol=1e-9)
    draws = model.sample_y(NEW, 40_000, random_state=1)
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=5 * std.max() / 200)
    np.testing.assert_allclose(np.cov(draws), covariance, atol=0.05 * std.max() ** 2)
    # The best hyper-parameters alone are those of a fit without samples.
    best = regressor(n_hyperparameter_samples=0)
    assert best.average_ is None
    np.testing.assert_allclose(model.expansion_.predict(NEW), best.predict(NEW), rtol=1e-9)
    several = riesz.GaussianProcessRegressor(RBF([1.0, 1.0]), n_hyperparameter_samples=8, random_state=0)
    mean, std = several.fit(X, np.column_stack([Y, -Y])).predict(NEW, return_std=True)
    assert mean.shape == std.shape == (5, 2)
    np.testing.assert_allclose(mean[:, 0], -mean[:, 1], atol=1e-9)


def test_classes_are_averaged():
    model = classifier()
    average, probabilities = model.average_, model.predict_proba(NEW)
    expected = sum(w * part.predict_proba(NEW) for w, part in zip(average.weights, average.models))
    np.testing.assert_allclose(probabilities, expected, rtol=1e-9)
    assert (model.predict(NEW) == (probabilities[:, 1] > 0.5)).all()
    mean, variance = model.latent_mean_and_variance(NEW)
    expected = mixture_moments(average, NEW)
    np.testing.assert_allclose([mean, np.sqrt(variance)], expected, rtol=1e-9)


def test_duels_are_averaged():
    model = preferences()
    sides = ITEMS.iloc[:4], ITEMS.iloc[5:9]
    rows = model.pair_features(*sides)
    mean, std = model.decision_function(*sides, return_std=True)
    np.testing.assert_allclose([mean, std], mixture_moments(model.average_, rows), rtol=1e-9)
    np.testing.assert_allclose(model.decision_function(*sides[::-1]), -mean, rtol=1e-9)
    probabilities = model.predict_proba(*sides)
    parts = [part.predict_proba(rows) for part in model.average_.models]
    expected = sum(w * part for w, part in zip(model.average_.weights, parts))
    np.testing.assert_allclose(probabilities, expected, rtol=1e-9)
    # Explanations have the probabilities of the mixture.
    why = model.explain(*sides)
    np.testing.assert_allclose(why.values.sum(axis=1), mean, atol=1e-9)
    np.testing.assert_allclose([duel.probability for duel in why.duels], probabilities[:, 1], rtol=1e-9)
    better = [duel.probability_better for duel in why.duels]
    np.testing.assert_allclose(better, model.probability_better(*sides), rtol=1e-6)
    # Few duels are averaged by default.
    assert preferences(n_hyperparameter_samples="auto").average_ is not None
    assert preferences(n_hyperparameter_samples=0).average_ is None


def test_bags_are_averaged():
    members = [(f"bag {i % 5}", name) for i, name in enumerate(ITEMS.index)]
    bags = [(f"bag {a}", f"bag {b}") for a in range(5) for b in range(a)] * 2
    model = riesz.PreferenceClassifier("utility", n_hyperparameter_samples=12, random_state=0)
    model.fit(ITEMS, bags, members=members, outcome=np.tile([1, 0, 1, 1, 1], 4))
    mean, std, probabilities = model.predict_bags(ITEMS, members, [("bag 3", "bag 1")])
    left = [item for bag, item in members if bag == "bag 3"]
    right = [item for bag, item in members if bag == "bag 1"]
    pairs = pd.MultiIndex.from_product([left, right])
    sides = ITEMS.loc[pairs.get_level_values(0)], ITEMS.loc[pairs.get_level_values(1)]
    np.testing.assert_allclose(mean[0], model.decision_function(*sides).mean(), atol=1e-9)
    assert std[0] > 0 and probabilities.sum() == pytest.approx(1.0)


def test_models_of_items_predict_bags():
    members = [(f"bag {i % 5}", name) for i, name in enumerate(ITEMS.index)]
    model = preferences()
    assert model.ability_variance_ > 0
    mean, std, _ = model.predict_bags(ITEMS, members, [("bag 3", "bag 1")])
    pairs = pd.MultiIndex.from_product([[name for bag, name in members if bag == f"bag {k}"] for k in (3, 1)])
    sides = ITEMS.loc[pairs.get_level_values(0)], ITEMS.loc[pairs.get_level_values(1)]
    np.testing.assert_allclose(mean[0], model.decision_function(*sides).mean(), atol=1e-9)
    assert std[0] < model.decision_function(*sides, return_std=True)[1].mean()
    why = model.explain_bags(ITEMS, members, [("bag 3", "bag 1")])
    np.testing.assert_allclose(why.values.sum(), mean[0], atol=1e-9)
    # New items are equal on average and have the abilities of the prior.
    new = ITEMS.set_axis([f"new {i}" for i in range(14)])
    members = [(bag, f"new {i}") for i, (bag, _) in enumerate(members)]
    assert model.predict_bags(new, members, [("bag 3", "bag 1")])[1][0] > std[0]


@pytest.mark.parametrize("fit", [regressor, classifier])
def test_explanations_are_averaged(fit):
    average = fit().average_
    explanation = riesz.Explainer(fit(), X, covariance=True)(NEW)
    explained_average = riesz.Explainer(average, X)(NEW)
    mean, std = mixture_moments(average, NEW)
    np.testing.assert_allclose(explanation.base_values + explanation.values.sum(axis=1), mean, atol=1e-9)
    np.testing.assert_allclose(explained_average.values, explanation.values, atol=1e-9)
    parts = [riesz.Explainer(model, X, covariance=True)(NEW) for model in average.models]
    values = sum(weight * part.values for weight, part in zip(average.weights, parts))
    np.testing.assert_allclose(explanation.values, values, atol=1e-9)
    second = sum(w * (part.std**2 + part.values**2) for w, part in zip(average.weights, parts))
    np.testing.assert_allclose(explanation.std, np.sqrt(second - values**2), rtol=1e-6)


def test_rankings_are_averaged():
    model = preferences()
    ranking = riesz.preference.rankability(model, n_samples=4000, random_state=0)
    pairs = [(i, j) for i in range(14) for j in range(14)]
    left, right = (ITEMS.iloc[[pair[side] for pair in pairs]] for side in (0, 1))
    mean = model.decision_function(left, right).reshape(14, 14)
    np.testing.assert_allclose(ranking.utility, mean.mean(axis=1), atol=1e-9)
    # The interval has the variance of the mixture of utilities, each with its own normal posterior.
    rows, second = model.pair_features(left, right), 0.0
    for weight, part in zip(model.average_.weights, model.average_.models):
        log_odds, covariance = part.predict(rows, return_cov=True)
        to_utilities = np.kron(np.eye(14), np.ones(14) / 14)
        variance = np.diag(to_utilities @ covariance @ to_utilities.T)
        second += weight * (variance + (to_utilities @ log_odds) ** 2)
    half_width = 1.959964 * np.sqrt(second - ranking.utility**2)
    np.testing.assert_allclose(ranking.utility_interval[:, 1] - ranking.utility, half_width, rtol=1e-6)
    assert ranking.probability_best.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("fit", [regressor, classifier])
def test_files_hold_averages(fit, tmp_path):
    model = fit()
    path = tmp_path / "average.riesz"
    model.save(path, posterior=True)
    average = riesz.ModelAverage.load(path)
    np.testing.assert_array_equal(average.weights, model.average_.weights)
    expected = mixture_moments(model.average_, NEW)
    for read in (average, pickle.loads(pickle.dumps(model)).average_):
        np.testing.assert_allclose(read.predict(NEW, return_std=True), expected, rtol=1e-9)
        assert read.effective_sample_size == model.average_.effective_sample_size
    if average.classes:
        np.testing.assert_allclose(average.predict_proba(NEW), model.predict_proba(NEW), rtol=1e-12)
    assert "models" in repr(average)
    with pytest.raises(ValueError, match="riesz.ModelAverage.load"):
        riesz.Expansion.load(path)
    model.expansion_.save(path)
    with pytest.raises(ValueError, match="not an average"):
        riesz.ModelAverage.load(path)
    model.save(path, posterior=False)
    assert riesz.ModelAverage.load(path).predict(NEW) == pytest.approx(expected[0], rel=1e-9)


def test_maps_are_saved_as_averages(tmp_path):
    model, rows = averaged_map()
    model.save(tmp_path / "map.riesz", posterior=True)
    average = riesz.ModelAverage.load(tmp_path / "map.riesz")
    mean, std = model.predict(rows[["height"]], return_std=True)
    np.testing.assert_allclose(average.predict(rows[["height"]], return_std=True), [mean, std], rtol=1e-9)


def averaged_map():
    rows = pd.DataFrame({"height": np.linspace(-2, 2, 60), "district": np.repeat(np.arange(12), 5)})
    bags = np.sin(rows.height).groupby(rows.district).mean().rename("yield").reset_index()
    model = riesz.AggregateGaussianProcess(n_hyperparameter_samples=10, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(rows, bags, bag="district", target="yield"), rows.assign(east=rows.index % 5)


@with_command
def test_the_command_line_reads_averaged_maps(tmp_path):
    model, rows = averaged_map()
    model.save(tmp_path / "map.riesz", posterior=True)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    read = pd.read_csv(io.StringIO(run(tmp_path, "downscale predict map.riesz rows.csv")))
    mean, std = model.predict(rows[["height"]], return_std=True)
    np.testing.assert_allclose(read["yield"], mean, rtol=1e-9)
    np.testing.assert_allclose(read["yield_std"], std, rtol=1e-9)
    drawn = pd.read_csv(io.StringIO(run(tmp_path, "downscale predict map.riesz rows.csv --samples 400")))
    draws = drawn.pivot(index="row", columns="sample", values="yield").to_numpy()
    assert np.abs((draws.mean(axis=1) - mean) / std).max() < 5 / np.sqrt(400)
    run(tmp_path, "downscale map map.riesz rows.csv --x east --y height --of std -o cli.svg")
    model.save_map(tmp_path / "python.svg", rows, "east", "height", quantity="std")
    assert (tmp_path / "cli.svg").read_bytes() == (tmp_path / "python.svg").read_bytes()
    run(tmp_path, "downscale map map.riesz rows.csv --x east --y height --bag district -o page.html")
    assert (tmp_path / "page.html").stat().st_size > 10_000
    command = "downscale explain map.riesz rows.csv --background rows.csv --bag district"
    explained = pd.read_csv(io.StringIO(run(tmp_path, command)))
    of_bags = model.explain_bags(rows[["height"]])
    np.testing.assert_allclose(explained["height"], of_bags.values[:, 0], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(explained.prediction, of_bags.predictions, rtol=1e-9)


@pytest.mark.parametrize("estimator", [riesz.GaussianProcessRegressor, riesz.GaussianProcessClassifier])
def test_automatic_kernels_compare_profiles(estimator):
    targets = Y if estimator is riesz.GaussianProcessRegressor else Y > 0
    start = Constant(1.0) * RBF("median_per_feature")
    gaussian = estimator(start).fit(X, targets)
    chosen = estimator("auto").fit(X, targets)
    rougher = [
        estimator(f"{name}(ard)", random_state=0).fit(X, targets)
        for name in ("matern52", "matern32", "matern12")
    ]
    assert chosen.log_marginal_likelihood_value_ >= gaussian.log_marginal_likelihood_value_
    # Length scales start elsewhere, but lead to the same maxima.
    best = max(model.log_marginal_likelihood_value_ for model in (gaussian, *rougher))
    assert chosen.log_marginal_likelihood_value_ == pytest.approx(best, abs=1e-2)
    averaged = estimator("auto", n_hyperparameter_samples=32, random_state=0).fit(X, targets)
    kernels = [json.loads(model._core.kernel) for model in averaged.average_.models]
    assert len({kernel["terms"][0]["factors"][0]["profile"] for kernel in kernels}) > 1


def test_averages_of_duels_are_saved(tmp_path):
    model = preferences()
    model.save(tmp_path / "m.riesz")
    again = riesz.PreferenceClassifier.load(tmp_path / "m.riesz")
    sides = ITEMS.iloc[:4], ITEMS.iloc[5:9]
    np.testing.assert_array_equal(again.predict_proba(*sides), model.predict_proba(*sides))
    np.testing.assert_array_equal(again.explain(*sides, ITEMS).values, model.explain(*sides).values)
    ranks = [riesz.preference.rankability(m, ITEMS, random_state=0).rank for m in (model, again)]
    np.testing.assert_array_equal(*ranks)


def test_bad_requests_are_refused():
    for settings, match in [
        ({"n_hyperparameter_samples": 1}, "n_hyperparameter_samples = 1"),
        ({"n_hyperparameter_samples": -2}, "n_hyperparameter_samples"),
        ({"n_hyperparameter_samples": 8, "optimizer": None}, "nothing to average"),
    ]:
        with pytest.raises(ValueError, match=match):
            regressor(**settings)
        with pytest.raises(ValueError, match=match):
            preferences(**settings)
    with pytest.raises(ValueError, match="not averaged"):
        preferences(n_landmarks="all")
    model = riesz.GaussianProcessClassifier(n_landmarks=5, n_hyperparameter_samples=8)
    with pytest.raises(ValueError, match="not averaged"):
        model.fit(X, Y > 0)


@with_command
def test_the_command_line_averages(tmp_path):
    table = pd.DataFrame(X, columns=["a", "b"])
    table.assign(y=Y).to_csv(tmp_path / "train.csv", index=False)
    rows = pd.DataFrame(NEW, columns=["a", "b"])
    rows.to_csv(tmp_path / "new.csv", index=False)
    options = "--model gp --target y --hyperparameter-samples 20 --seed 3 --posterior"
    run(tmp_path, f"fit train.csv {options} -o gp.riesz")
    average = riesz.ModelAverage.load(tmp_path / "gp.riesz")
    printed = pd.read_csv(io.StringIO(run(tmp_path, "predict gp.riesz new.csv --std")))
    expected = mixture_moments(average, rows)
    np.testing.assert_allclose(printed[["y", "y_std"]].to_numpy().T, expected, rtol=1e-9)
    assert "effective sample size" in run(tmp_path, "inspect gp.riesz")
    run(tmp_path, "explain gp.riesz new.csv --background train.csv -o e.json")
    assert "agree" in run(tmp_path, "verify e.json --model gp.riesz --rows new.csv --background train.csv")
    run(tmp_path, "convert gp.riesz best.riesz")
    best = riesz.Expansion.load(tmp_path / "best.riesz")
    np.testing.assert_array_equal(best.predict(rows), average.best.predict(rows))


@with_command
def test_the_command_line_averages_duels(tmp_path):
    items = ITEMS.set_axis([f"item{i}" for i in range(14)]).rename_axis("name")
    names = items.index.to_numpy()[np.column_stack([LEFT, RIGHT])]
    matches = pd.DataFrame(names, columns=["left", "right"]).assign(outcome=np.where(WON, "left", "right"))
    items.to_csv(tmp_path / "items.csv")
    matches.to_csv(tmp_path / "matches.csv", index=False)
    model = riesz.PreferenceClassifier(random_state=0).fit(items, matches)
    model.save(tmp_path / "m.riesz")
    text = run(tmp_path, "prefer predict m.riesz items.csv --left item0 --right item5")
    printed = pd.read_csv(io.StringIO(text)).iloc[0]
    mean, std = model.decision_function("item0", "item5", return_std=True)
    probability = model.predict_proba("item0", "item5")[0, 1]
    columns = ["log_odds", "log_odds_std", "probability"]
    np.testing.assert_allclose(printed[columns].to_numpy(float), [mean[0], std[0], probability], rtol=1e-9)
    ranks = pd.read_csv(io.StringIO(run(tmp_path, "prefer rank m.riesz items.csv --format csv")))
    ours = riesz.preference.rankability(model, items, random_state=0).to_frame()
    order = ranks.set_index("item").loc[ours.item]
    np.testing.assert_allclose(order.utility, ours.utility, rtol=1e-9)
    # The fit of the command line is averaged too.
    run(tmp_path, "prefer fit items.csv matches.csv -o c.riesz")
    average = riesz.PreferenceClassifier.load(tmp_path / "c.riesz").average_
    assert average is not None and len(average.models) > 10
    why = json.loads(
        run(tmp_path, "prefer explain c.riesz items.csv --left item0 --right item5 --format json")
    )
    again = riesz.PreferenceClassifier.load(tmp_path / "c.riesz")
    ours = again.explain(items.loc[["item0"]], items.loc[["item5"]], items)
    np.testing.assert_allclose(why["values"], ours.values.ravel(), atol=1e-9)


def test_components_are_averaged(tmp_path):
    average = regressor().average_
    anova = riesz.functional_anova(average, X)
    parts = [riesz.functional_anova(model, X) for model in average.models]
    for features in ([0], [1], [0, 1]):
        component, components = (
            anova.component(features, NEW),
            [p.component(features, NEW) for p in parts],
        )
        mean = sum(w * part.values for w, part in zip(average.weights, components))
        second = sum(w * (part.values**2 + part.std**2) for w, part in zip(average.weights, components))
        np.testing.assert_allclose(component.values, mean, atol=1e-12)
        np.testing.assert_allclose(component.std, np.sqrt(second - mean**2), rtol=1e-6)
    sums = sum(anova.component(features, NEW).values for features in ([0], [1], [0, 1]))
    np.testing.assert_allclose(anova.mean + sums, average.predict(NEW), atol=1e-9)


def test_importance_is_averaged(tmp_path):
    average = regressor().average_
    exact = riesz.sobol_indices(average, X, posterior=True)
    parts = [riesz.sobol_indices(model, X, posterior=True) for model in average.models]
    variance = sum(w * float(part.variance) for w, part in zip(average.weights, parts))
    effects = sum(w * float(part.variance) * part.shapley_effects for w, part in zip(average.weights, parts))
    np.testing.assert_allclose(float(exact.variance), variance, rtol=1e-12)
    np.testing.assert_allclose(exact.shapley_effects, effects / variance, rtol=1e-10)
    assert (abs(exact.shapley_effects - effects / variance) <= exact.bound).all()
    exact.report(tmp_path / "importance.html")
    assert "<svg" in (tmp_path / "importance.html").read_text()
    # The posterior mean of the variance contains that of the variance of draws of f.
    grid = np.array([[a, b] for a in X[:, 0] for b in X[:, 1]])
    drawn = average.sample(grid, 4000, random_state=1).var(axis=0)
    assert abs(drawn.mean() - variance) < 4 * drawn.std() / np.sqrt(len(drawn))
    # The mean function is one function, whose shares are estimated.
    estimated = riesz.sobol_indices(average, X)
    pairs = average.predict(grid).reshape(len(X), len(X))
    first_order = np.array([pairs.mean(axis=1).var(), pairs.mean(axis=0).var()]) / pairs.var()
    assert (abs(estimated.first_order - first_order) < 4 * estimated.std_error["first_order"]).all()
    with pytest.raises(ValueError, match=r"average of \d+ models"):
        riesz.sobol_indices(average, X, posterior=True, n_samples=10)


@with_command
def test_the_command_line_reads_averages_for_importance(tmp_path):
    average = regressor().average_
    average.save(tmp_path / "m.riesz")
    pd.DataFrame(X, columns=average.feature_names).assign(y=Y).to_csv(tmp_path / "rows.csv", index=False)
    table = lambda options: pd.read_csv(io.StringIO(run(tmp_path, f"importance m.riesz rows.csv {options}")))
    printed = table("--posterior --format csv").set_index("feature").loc[average.feature_names]
    exact = riesz.sobol_indices(average, X, posterior=True)
    np.testing.assert_allclose(printed.shapley_effect, exact.shapley_effects, rtol=1e-9)
    estimated = table("--format csv").set_index("feature").loc[average.feature_names]
    ours = riesz.sobol_indices(average, X)
    errors = np.hypot(estimated.shapley_effect_std_error, ours.std_error["shapley_effects"])
    assert (abs(estimated.shapley_effect - ours.shapley_effects) < 4 * errors).all()
    run(tmp_path, "importance m.riesz rows.csv -o importance.html")
    run(tmp_path, "importance m.riesz rows.csv --posterior -o exact.html")
    # SAGE values of the mean function, as those of any function.
    sage = table("--target y --format csv").set_index("feature").loc[average.feature_names]
    expected = riesz.sage_values(average.predict, X, Y)
    np.testing.assert_allclose(sage.value, expected.values, rtol=1e-9)
    with pytest.raises(AssertionError, match="add --posterior"):
        run(tmp_path, "importance m.riesz rows.csv --index moebius")
    curves = pd.read_csv(io.StringIO(run(tmp_path, "effects m.riesz rows.csv")))
    curve = curves[curves.component == average.feature_names[0]]
    points = np.column_stack([curve.x, np.zeros(len(curve))])
    component = riesz.functional_anova(average, X).component([0], points)
    np.testing.assert_allclose(
        curve[["value", "std"]].to_numpy().T, [component.values, component.std], rtol=1e-8
    )


def test_few_rows_are_averaged_by_default():
    for estimator, targets in [
        (riesz.GaussianProcessRegressor, Y),
        (riesz.GaussianProcessClassifier, Y > 0),
    ]:
        averaged = estimator("auto", random_state=0).fit(X, targets)
        expected = estimator("auto", n_hyperparameter_samples=64, random_state=0).fit(X, targets)
        np.testing.assert_array_equal(averaged.average_.weights, expected.average_.weights)
        assert estimator("auto", n_hyperparameter_samples=0).fit(X, targets).average_ is None
        assert estimator("auto", optimizer=None).fit(X, targets).average_ is None
        assert estimator(RBF([1.0, 1.0])).fit(X, targets).average_ is None
    rows = np.tile(X, (22, 1)) + 0.1 * rng.normal(size=(308, 2))
    assert riesz.GaussianProcessRegressor("auto").fit(rows, np.tile(Y, 22)).average_ is None


@with_command
def test_the_command_line_explains_probabilities_of_averages(tmp_path):
    rows = pd.DataFrame(X, columns=["a", "b"])
    rows.assign(y=np.where(Y > 0, "high", "low")).to_csv(tmp_path / "train.csv", index=False)
    run(tmp_path, "fit train.csv --model gpc --target y --posterior --seed 0 -o m.riesz")
    average = riesz.ModelAverage.load(tmp_path / "m.riesz")
    assert len(average.models) > 10
    run(tmp_path, "explain m.riesz train.csv --background train.csv --probabilities -o e.json")
    explained = riesz.Explanation.load(tmp_path / "e.json")
    probability = sum(
        weight * model.predict_proba(rows)[:, 1] for weight, model in zip(average.weights, average.models)
    )
    np.testing.assert_allclose(explained.predictions, probability, rtol=1e-12)
    sums = explained.base_values + explained.values.sum(axis=1)
    np.testing.assert_allclose(sums, probability, rtol=1e-9)
    classes = json.loads((tmp_path / "e.json").read_text())["decisions"]
    assert classes is not None
    options = "--model m.riesz --rows train.csv --background train.csv"
    assert "agree" in run(tmp_path, f"verify e.json {options}")
    for option in ["--variance", "--robustness 0.1"]:
        with pytest.raises(AssertionError, match=f"{option.split()[0]} is about one model"):
            run(tmp_path, f"explain m.riesz train.csv --background train.csv {option}")


@with_command
def test_one_sample_is_refused_on_the_command_line(tmp_path):
    pd.DataFrame(X, columns=["a", "b"]).assign(y=Y).to_csv(tmp_path / "train.csv", index=False)
    with pytest.raises(AssertionError, match="--hyperparameter-samples = 1.*at least 2"):
        run(tmp_path, "fit train.csv --model gp --target y --hyperparameter-samples 1 -o m.riesz")


@with_command
def test_maps_through_inducing_points_are_averaged(tmp_path):
    rows = pd.DataFrame(np.random.default_rng(3).normal(size=(40, 2)), columns=["a", "b"])
    rows["bag"] = np.repeat(np.arange(20), 2)
    targets = np.sin(2 * rows.a).groupby(rows.bag).mean() + 0.05 * np.cos(9.0 * np.arange(20))
    bags = targets.rename("z").reset_index()
    columns = {"bag": "bag", "target": "z"}
    exact = riesz.AggregateGaussianProcess(row_noise=0.0, random_state=0).fit(rows, bags, **columns)
    # With all rows as inducing points nothing is approximated.
    points = {"n_inducing": rows[["a", "b"]], "random_state": 0}
    sparse = riesz.AggregateGaussianProcess(**points).fit(rows, bags, **columns)
    assert sparse.effective_sample_size_ == pytest.approx(exact.effective_sample_size_, rel=1e-3)
    expected = exact.predict(rows, return_std=True)
    np.testing.assert_allclose(sparse.predict(rows, return_std=True), expected, rtol=1e-4)
    np.testing.assert_allclose(sparse.loo_.mean, exact.loo_.mean, rtol=1e-4)
    best = riesz.AggregateGaussianProcess(n_hyperparameter_samples=0, **points).fit(rows, bags, **columns)
    assert (sparse.predict(rows, return_std=True)[1] > best.predict(rows, return_std=True)[1]).mean() > 0.9
    # The command line draws other inducing points, and the same hyper-parameters from each seed.
    rows.to_csv(tmp_path / "rows.csv", index=False)
    bags.to_csv(tmp_path / "bags.csv", index=False)
    tables = "rows.csv bags.csv --bag bag --target z --inducing 30 --seed 1"
    estimated = pd.read_csv(io.StringIO(run(tmp_path, f"downscale estimate {tables}")))
    assert np.corrcoef(estimated.z, expected[0])[0, 1] > 0.99
    run(tmp_path, f"downscale fit {tables} --hyperparameter-samples 64 -o map.riesz")
    read = pd.read_csv(io.StringIO(run(tmp_path, "downscale predict map.riesz rows.csv")))
    np.testing.assert_allclose(read.z, estimated.z, rtol=1e-2, atol=1e-3)
    with pytest.raises(AssertionError, match="--target-contributions cannot be used with fits through"):
        run(tmp_path, f"downscale estimate {tables} --target-contributions")


@pytest.mark.parametrize("samples", [2, 3])
def test_few_samples_are_shared_out_to_profiles(samples):
    settings = {"n_hyperparameter_samples": samples, "random_state": 0}
    assert riesz.GaussianProcessRegressor("auto", **settings).fit(X, Y).average_ is not None
    assert preferences(**settings).average_ is not None
    rows = pd.DataFrame({"height": np.linspace(-2, 2, 60), "district": np.repeat(np.arange(12), 5)})
    bags = np.sin(rows.height).groupby(rows.district).mean().rename("yield").reset_index()
    model = riesz.AggregateGaussianProcess(**settings).fit(rows, bags, bag="district", target="yield")
    assert model.effective_sample_size_ >= 1


def test_importance_of_averages_of_classifiers_needs_probabilities():
    model = classifier()
    with pytest.raises(ValueError, match="pass the function .predict_proba"):
        riesz.sage_values(model, X, Y > 0)
    with pytest.raises(ValueError, match="give posterior=True"):
        riesz.sobol_indices(model, X, n_samples=4)
    with pytest.raises(ValueError, match="give posterior=True"):
        riesz.sobol_indices(model.average_, X, index="banzhaf")


@with_command
def test_averages_of_classifiers_predict_without_posteriors(tmp_path):
    rows = pd.DataFrame(X, columns=["a", "b"])
    labels = np.where(Y > 0, "high", "low")
    rows.assign(y=labels).to_csv(tmp_path / "train.csv", index=False)
    model = riesz.GaussianProcessClassifier("auto", random_state=0).fit(rows, labels)
    model.save(tmp_path / "plain.riesz")
    predicted = pd.read_csv(io.StringIO(run(tmp_path, "predict plain.riesz train.csv")))
    expected = model.average_.predict(rows)
    assert list(predicted["class"]) == [model.classes_[int(f > 0)] for f in expected]
    with pytest.raises(AssertionError, match="--posterior"):
        run(tmp_path, "importance plain.riesz train.csv --target y")
    model.save(tmp_path / "m.riesz", posterior=True)
    sage = pd.read_csv(io.StringIO(run(tmp_path, "importance m.riesz train.csv --target y --format csv")))
    ours = riesz.sage_values(model.predict_proba, rows, labels)
    np.testing.assert_allclose(sage.set_index("feature").loc[["a", "b"]].value, ours.values, rtol=1e-8)
    run(tmp_path, "importance m.riesz train.csv --posterior -o page.html")
    assert "models of the average over hyper-parameters" in (tmp_path / "page.html").read_text()
