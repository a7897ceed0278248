"""Held-out scores of models of aggregates."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.stats import norm
from sklearn.metrics import d2_tweedie_score

import riesz
from riesz.kernels import RBF


@pytest.fixture
def tables():
    rng = np.random.default_rng(3)
    rows = pd.DataFrame(
        {"height": rng.uniform(-2, 2, 120), "slope": rng.normal(size=120), "area": np.arange(120) % 30}
    )
    rows["height"] += rows.area / 10
    rows["people"] = rng.integers(20, 60, size=120)
    rate = 0.1 * np.exp(np.sin(rows.height))
    bags = pd.DataFrame({"area": np.arange(30)})
    bags["z"] = np.sin(rows.height).groupby(rows.area).mean() + 0.1 * rng.normal(size=30)
    bags["se"] = 0.05 + 0.01 * np.arange(30)
    bags["cases"] = rng.poisson((rows.people * rate).groupby(rows.area).sum())
    bags["trials"] = 400
    return rows, bags


@pytest.mark.parametrize("aggregate", ["mean", "sum"])
@pytest.mark.parametrize("row_noise", [0, 0.2])
def test_the_density_is_the_ratio_of_marginal_likelihoods(tables, aggregate, row_noise):
    rows, bags = tables
    options = dict(
        aggregate=aggregate, row_noise=row_noise, prior_mean=0.2, normalize_y=False, optimizer=None
    )
    process = riesz.AggregateGaussianProcess(0.7 * RBF([1.0, 2.0]), noise=0.05, **options)
    roles = dict(bag="area", target="z", weight="people", features=["height", "slope"], target_std="se")
    rows = rows.assign(people=rows.people / 100)

    def fit(areas):
        return process.fit(rows[rows.area.isin(areas)], bags[bags.area.isin(areas)], **roles)

    known, new = list(range(25)), 27
    joint = fit([*known, new]).log_marginal_likelihood_value_
    expected = joint - fit(known).log_marginal_likelihood_value_
    score = process.score(rows[rows.area == new], bags[bags.area == new])
    np.testing.assert_allclose(score, expected, rtol=1e-7)
    # Several bags have the mean of their densities.
    mean_of_two = process.score(rows[rows.area >= 28], bags[bags.area >= 28])
    single = [process.score(rows[rows.area == area], bags[bags.area == area]) for area in (28, 29)]
    np.testing.assert_allclose(mean_of_two, np.mean(single), rtol=1e-12)


def test_the_density_is_averaged_over_hyper_parameters(tables):
    rows, bags = tables
    model = riesz.AggregateGaussianProcess(n_hyperparameter_samples=8, random_state=0)
    train, test = rows.area < 20, rows.area >= 20
    model.fit(rows[train].drop(columns="people"), bags[bags.area < 20], bag="area", target="z")
    # The moments of each set of hyper-parameters, from its own posterior covariance of rows.
    frame, densities = rows[test], []
    for part in model._parts:
        mean, cov = part.expansion.predict(frame[["height", "slope"]], return_cov=True)
        shares = (frame.area.to_numpy()[None] == np.arange(20, 30)[:, None]) / 4
        variance = np.diag(shares @ cov @ shares.T) + model.noise_ + model.row_noise_ / 4
        densities.append(part.weight * norm.pdf(bags.z[20:], shares @ mean, np.sqrt(variance)))
    expected = np.log(np.sum(densities, axis=0)).mean()
    np.testing.assert_allclose(model.score(frame, bags[20:]), expected, rtol=1e-8)
    # Better than a normal distribution without covariates.
    assert expected > norm.logpdf(bags.z[20:], bags.z[:20].mean(), bags.z[:20].std()).mean()


def test_counts_have_the_share_of_their_deviance(tables):
    rows, bags = tables
    roles = dict(bag="area", target="cases", weight="people")
    seen, seen_bags = rows.area % 3 > 0, bags.area % 3 > 0
    model = riesz.AggregateCountProcess(random_state=0).fit(rows[seen], bags[seen_bags], **roles)
    new, new_bags = rows[~seen], bags[~seen_bags]
    exposure = new.people.groupby(new.area).sum().to_numpy()
    expected = d2_tweedie_score(
        new_bags.cases / exposure,
        pd.Series(model.predict_bags(new), new.area.unique()).sort_index() / exposure,
        sample_weight=exposure,
        power=1,
    )
    score = model.score(new, new_bags)
    np.testing.assert_allclose(score, expected, rtol=1e-10)
    assert 0.1 < score < 1
    # Bags in another order are the same bags.
    np.testing.assert_allclose(model.score(new[::-1], new_bags[::-1]), score, rtol=1e-10)


def test_successes_have_the_share_of_their_deviance(tables):
    rows, bags = tables
    roles = dict(bag="area", target="cases", trials="trials", features=["height"])
    model = riesz.AggregateCountProcess(family="binomial", random_state=0)
    model.fit(rows[rows.area < 20], bags[:20], **roles)
    new = rows[rows.area >= 20]
    predicted = pd.Series(model.predict_bags(new), new.area.unique()).sort_index().to_numpy()
    family, rates, trials = sm.families.Binomial(), bags.cases[20:].to_numpy() / 400, np.full(10, 400)
    deviances = [
        family.deviance(rates, mean, var_weights=trials) for mean in (predicted, np.full(10, rates.mean()))
    ]
    np.testing.assert_allclose(model.score(new, bags[20:]), 1 - deviances[0] / deviances[1], rtol=1e-8)


def test_scores_refuse_what_they_cannot_compare(tables):
    rows, bags = tables
    roles = dict(bag="area", target="z", features=["height"])
    model = riesz.AggregateGaussianProcess(optimizer=None).fit(rows, bags, **roles)
    with pytest.raises(ValueError, match="the bag '3' has a target and no rows: give its rows"):
        model.score(rows[rows.area != 3], bags)
    with pytest.raises(ValueError, match="no bag has a target"):
        model.score(rows, bags.assign(z=np.nan))
    with pytest.raises(ValueError, match="some bags have several lines in bags"):
        model.score(rows, pd.concat([bags, bags[:1]]))
    counts = riesz.AggregateCountProcess(optimizer=None).fit(rows, bags, **roles | {"target": "cases"})
    with pytest.raises(ValueError, match="a target is -1.0: counts are whole numbers, 0 or more"):
        counts.score(rows, bags.assign(cases=-1))
    with pytest.raises(ValueError, match="all bags have the same rate, so there is no deviance"):
        counts.score(rows, bags.assign(cases=4))
