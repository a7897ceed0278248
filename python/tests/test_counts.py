"""Counts of bags, against their definition in scipy, and the refusal of invalid input."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import binom, norm, poisson

import riesz
from riesz.kernels import RBF, Constant


@pytest.fixture(scope="module")
def world():
    """Rows of twelve districts, and districts with people, cases, successes, trials and a mediator."""
    rng = np.random.default_rng(4)
    district = rng.integers(0, 12, 80)
    rows = pd.DataFrame(
        {"east": rng.normal(size=80), "rain": rng.normal(size=80), "people": rng.uniform(5, 40, 80)}
    )
    rows["east"] += 0.5 * district
    rows["district"] = [f"d{b:02}" for b in district]
    f = np.sin(rows.east) - 2
    bags = (rows.people * np.exp(f)).groupby(rows.district).sum().rename("mean").reset_index()
    bags["cases"] = rng.poisson(bags["mean"])
    share = (rows.people * expit(f)).groupby(rows.district).sum() / rows.people.groupby(rows.district).sum()
    bags["trials"] = rng.integers(20, 60, len(bags))
    bags["won"] = rng.binomial(bags.trials, share.to_numpy())
    bags["people"] = rows.people.groupby(rows.district).sum().to_numpy()
    bags["level"] = rows.east.groupby(rows.district).mean().to_numpy()
    return rows, bags


KERNEL = Constant(0.7) * RBF([1.0, 2.0])
COLUMNS = ["east", "rain"]


def gram(x):
    a = x / [1.0, 2.0]
    return 0.7 * np.exp(-0.5 * ((a[:, None] - a) ** 2).sum(axis=2))


@pytest.mark.parametrize("family", ["poisson", "binomial"])
def test_targets_of_one_table_are_no_features(family):
    """One table as rows and as bags: each row is its own bag, and its count and trials are no features."""
    rng = np.random.default_rng(1)
    towns = pd.DataFrame({"east": rng.normal(size=40), "rain": rng.normal(size=40)})
    towns["town"] = [f"t{i:02}" for i in range(40)]
    towns["cases"], towns["trials"] = rng.poisson(5 * np.exp(0.5 * towns.east)), 60
    roles = {"bag": "town", "target": "cases", "trials": "trials" if family == "binomial" else None}
    table = towns if family == "binomial" else towns.drop(columns="trials")
    fitted = lambda **options: riesz.AggregateCountProcess(KERNEL, family=family, optimizer=None).fit(
        table, table, **roles, **options
    )
    model = fitted()
    np.testing.assert_array_equal(model.predict(table), fitted(features=["east", "rain"]).predict(table))


@pytest.mark.parametrize("family", ["poisson", "binomial"])
def test_the_mode_is_that_of_the_posterior(world, family):
    rows, bags = world
    counts = family == "poisson"
    target, trials = ("cases", None) if counts else ("won", "trials")
    model = riesz.AggregateCountProcess(KERNEL, family=family, optimizer=None, prior_mean=-1.5)
    model.fit(rows, bags, bag="district", target=target, trials=trials, weight="people")
    x, weights = rows[COLUMNS].to_numpy(), pd.get_dummies(rows.district).to_numpy().T * rows.people.to_numpy()
    if not counts:
        weights = weights / weights.sum(axis=1, keepdims=True)
    factor = np.linalg.cholesky(gram(x) + 1e-10 * np.eye(80))

    def minus(v):
        f = factor @ v - 1.5
        if counts:
            return -poisson.logpmf(bags.cases, weights @ np.exp(f)).sum() + 0.5 * v @ v
        return -binom.logpmf(bags.won, bags.trials, weights @ expit(f)).sum() + 0.5 * v @ v

    best = minimize(
        minus,
        np.zeros(80),
        method="L-BFGS-B",
        options={"maxiter": 5000, "maxfun": 10**6, "ftol": 1e-15, "gtol": 1e-8},
    )
    assert np.abs(model.predict_link(rows) - (factor @ best.x - 1.5)).max() < 2e-3
    # Rates: mean, median and quantiles from the normal distribution on the link's scale.
    f, sd = model.predict_link(rows, return_std=True)
    natural = np.exp if counts else expit
    quantiles = model.predict_quantiles(rows, [0.1, 0.5])
    assert np.allclose(quantiles, natural(np.stack([f + norm.ppf(0.1) * sd, f], axis=1)), rtol=1e-9)
    draws = natural(f[:, None] + sd[:, None] * np.random.default_rng(0).normal(size=(80, 200_000)))
    assert np.allclose(model.predict(rows), draws.mean(axis=1), rtol=0.01)
    cov = model.predict_link(rows, return_cov=True)[1]
    assert np.allclose(np.diag(cov), sd**2, rtol=1e-8)
    assert model.sample(rows, 3, random_state=1).shape == (80, 3)
    assert np.allclose(
        np.log(model.sample(rows, 4000, random_state=1)).mean(axis=1) if counts else f, f, atol=0.1
    )


def test_tuned_models_predict_and_explain_rates(world):
    rows, bags = world
    model = riesz.AggregateCountProcess(n_hyperparameter_samples=0, random_state=0)
    model.fit(rows, bags, bag="district", target="cases", weight="people")
    assert model.expansion_.output_names == ["cases"] and model.targets_ == sorted(set(rows.district))
    # With an estimated mean the fitted counts sum to the total.
    assert model.fitted_.sum() == pytest.approx(bags.cases.sum(), rel=1e-8)
    assert model.loo_.coverage > 0.8 and len(model.loo_.to_frame()) == 12
    explanation = riesz.Explainer(model, rows)(rows[:5])
    f = model.predict_link(rows[:5])
    assert np.allclose(explanation.values.sum(axis=1) + explanation.base_values, f, atol=1e-8)
    # Enumeration of two players, with rows of the background.
    link = lambda frame: model.predict_link(frame)
    mixed = lambda frame, names: link(rows.assign(**{name: frame[name].iloc[0] for name in names})).mean()
    row = rows[:1]
    east = 0.5 * (mixed(row, ["east"]) - mixed(row, [])) + 0.5 * (f[0] - mixed(row, ["rain"]))
    assert explanation.values[0, list(explanation.feature_names).index("east")] == pytest.approx(
        east, abs=1e-8
    )
    with_covariance = riesz.Explainer(model, rows, covariance=True)(rows[:5])
    assert with_covariance.std is not None and (np.asarray(with_covariance.std) > 0).any()
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(rows), model.predict(rows))


def test_averages_are_mixtures(world, tmp_path):
    rows, bags = world
    columns = {"bag": "district", "target": "cases", "weight": "people"}
    model = riesz.AggregateCountProcess(
        KERNEL, n_hyperparameter_samples=12, dispersion=0.05, random_state=0
    ).fit(rows, bags, **columns)
    parts, (mean, sd) = model._parts, model.predict_link(rows, return_std=True)
    weights = np.array([part.weight for part in parts])
    assert len(parts) > 1 and weights.sum() == pytest.approx(1) and model.effective_sample_size_ > 1
    cells = rows[COLUMNS].to_numpy()
    means = np.array([part.expansion.predict_link(cells) for part in parts])
    sds = np.array([part.expansion.predict_link(cells, return_std=True)[1] for part in parts])
    assert np.allclose(weights @ means, mean)
    assert np.allclose(weights @ (sds**2 + means**2) - mean**2, sd**2)
    # The mixture's distribution function at a quantile is its level, and the mean rate is that of log-normal
    # distributions.
    log_quantiles = np.log(model.predict_quantiles(rows, [0.025, 0.4, 0.975]))
    for q, log_quantile in zip([0.025, 0.4, 0.975], log_quantiles.T):
        assert np.allclose(weights @ norm.cdf((log_quantile - means) / sds), q, atol=1e-9)
    assert np.allclose(model.predict(rows), weights @ np.exp(means + sds**2 / 2))
    # Events of bags against joint draws, and rates that sum to the counts.
    names = list(dict.fromkeys(rows.district))
    expected, bag_std = model.predict_bags(rows, return_std=True)
    draws = rows.people.to_numpy()[:, None] * model.sample(rows, 20_000, random_state=3)
    sums = np.array([draws[rows.district == name].sum(axis=0) for name in names])
    assert np.all(np.abs(sums.mean(axis=1) - expected) < 6 * bag_std / np.sqrt(20_000))
    assert np.allclose(sums.std(axis=1), bag_std, rtol=0.1)
    adding = pd.Series(rows.people * model.predict_benchmarked(rows)).groupby(rows.district).sum()
    assert np.allclose(adding, bags.set_index("district").cases)
    # A bag's values are the mean of the values of its rows.
    bag_explanation = model.explain_bags(rows, rows, bags=["d04"])
    bag_rows = rows[rows.district == "d04"]
    row_explanations = riesz.Explainer(model, rows)(bag_rows)
    assert np.allclose(
        bag_explanation.values[0], np.average(row_explanations.values, axis=0, weights=bag_rows.people)
    )
    assert bag_explanation.predictions[0] == pytest.approx(
        np.average(model.predict_link(bag_rows), weights=bag_rows.people)
    )
    # Predictions of left-out counts have about as much spread as those for the best hyper-parameters alone,
    # or more.
    plain = riesz.AggregateCountProcess(KERNEL, n_hyperparameter_samples=0, dispersion=0.05).fit(
        rows, bags, **columns
    )
    assert plain.dispersion_ > 0 and plain.effective_sample_size_ is None
    assert np.mean(model.loo_.std) > 0.8 * np.mean(plain.loo_.std)
    model.save(tmp_path / "counts.riesz", posterior=True)
    average = riesz.ModelAverage.load(tmp_path / "counts.riesz")
    np.testing.assert_array_equal(average.weights, [part.weight for part in model._parts])
    with pytest.raises(ValueError, match="return_std of a mean of probabilities"):
        binomial = riesz.AggregateCountProcess(KERNEL, family="binomial", optimizer=None)
        binomial.fit(rows, bags, bag="district", target="won", trials="trials", weight="people").predict_bags(
            rows, return_std=True
        )


def test_files_predict_rates(world, tmp_path):
    rows, bags = world
    model = riesz.AggregateCountProcess(KERNEL, optimizer=None).fit(
        rows, bags, bag="district", target="cases", weight="people"
    )
    model.save(tmp_path / "m.riesz", posterior=True)
    again = riesz.Expansion.load(tmp_path / "m.riesz")
    assert np.array_equal(again._core.rates(rows[COLUMNS].to_numpy(), 1.0)[0], model.predict(rows))


def test_mediated_counts_are_averages_over_bags(world):
    rows, bags = world
    open_ = bags.district.isin(["d03", "d07"])
    seen = rows[~rows.district.isin(["d03", "d07"])]
    model = riesz.AggregateCountProcess(KERNEL, mediator_kernel=RBF(0.4), optimizer=None)
    model.fit(
        seen, bags, bag="district", target="cases", weight="people", mediators=["level"], total="people"
    )
    assert model.mediator_kernel_ is not None and len(model.bags_) == 10 and len(model.targets_) == 12
    rates = np.exp(model.predict_link(seen))
    sums = (seen.people * rates).groupby(seen.district).sum() / seen.people.groupby(seen.district).sum()
    assert model.mediation_dispersion_ == 0.1 and model.dispersion_ == 0
    levels = bags.level[~open_].to_numpy()
    for t in np.flatnonzero(open_):
        similarity = np.exp(-0.5 * ((bags.level[t] - levels) / 0.4) ** 2)
        expected = bags.people[t] * similarity @ sums.to_numpy() / similarity.sum()
        assert model.fitted_[t] == pytest.approx(expected, rel=1e-7)
    tuned = riesz.AggregateCountProcess(KERNEL)
    tuned.fit(
        seen, bags, bag="district", target="cases", weight="people", mediators=["level"], total="people"
    )
    assert np.corrcoef(tuned.predict_link(rows), np.sin(rows.east))[0, 1] > 0.5


@pytest.mark.parametrize(
    "change, words",
    [
        ({"target": "mean"}, "counts are whole numbers"),
        ({"family": "gaussian"}, "it is one of 'poisson', 'binomial'"),
        ({"family": "binomial"}, "needs trials"),
        ({"trials": "trials"}, "Poisson counts have none"),
        ({"family": "binomial", "trials": "cases", "target": "trials"}, "are not of bags"),
        ({"mediators": ["level"], "operator": "mediated"}, "takes total="),
        ({"kernel": 3}, "it is a kernel of riesz.kernels"),
        ({"n_inducing": 0}, "it is a whole number from 1"),
        ({"dispersion": -1}, "dispersion = -1: it is a number, not negative"),
        ({"mediation_dispersion": "some"}, "mediation_dispersion = 'some'"),
        ({"n_hyperparameter_samples": 1}, "n_hyperparameter_samples"),
        ({"n_hyperparameter_samples": 64, "optimizer": None}, "keeps hyper-parameters as they are"),
    ],
)
def test_refusals(world, change, words):
    rows, bags = world
    of_fit = {"bag": "district", "target": "cases", "weight": "people"}
    of_fit |= {key: value for key, value in change.items() if key in ("target", "trials", "mediators")}
    options = {key: value for key, value in change.items() if key not in of_fit}
    with pytest.raises((ValueError, TypeError), match=words):
        riesz.AggregateCountProcess(**options).fit(rows, bags, **of_fit)


def test_quantiles_and_zeros_are_refused(world):
    rows, bags = world
    with pytest.raises(ValueError, match="only counts of 0"):
        riesz.AggregateCountProcess().fit(rows, bags.assign(cases=0), bag="district", target="cases")
    model = riesz.AggregateCountProcess(optimizer=None, n_inducing=20).fit(
        rows, bags, bag="district", target="cases"
    )
    assert len(model.expansion_.points) == 20
    with pytest.raises(ValueError, match="between 0 and 1"):
        model.predict_quantiles(rows, [0.5, 1.0])


def test_expansions_predict_rates(world, tmp_path):
    rows, bags = world
    columns = {"bag": "district", "target": "cases", "weight": "people"}
    model = riesz.AggregateCountProcess(KERNEL, n_hyperparameter_samples=0, random_state=0).fit(
        rows, bags, **columns
    )
    expansion = model.expansion_
    assert np.allclose(expansion.predict(rows), model.predict(rows), rtol=1e-12)
    assert np.array_equal(expansion.predict_link(rows), model.predict_link(rows))
    with pytest.raises(ValueError, match="the standard deviation of a rate is that of its link"):
        expansion.predict(rows, return_std=True)
    # Without a posterior the rate is predicted from the mean of its logarithm, which gives the median.
    expansion.save(tmp_path / "m.riesz")
    bare = riesz.Expansion.load(tmp_path / "m.riesz")
    assert np.allclose(bare.predict(rows), np.exp(model.predict_link(rows)), rtol=1e-12)
