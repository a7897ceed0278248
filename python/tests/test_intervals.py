"""Every estimate with an interval lies inside it, for random small problems."""

import numpy as np
import pandas as pd
import pytest

import riesz
from riesz.kernels import RBF
from riesz.preference import rankability


def inside(estimate, low, high):
    estimate, low, high = np.broadcast_arrays(estimate, low, high)
    known = ~np.isnan(estimate)
    assert known.any() and (low[known] <= estimate[known]).all() and (estimate[known] <= high[known]).all()


def duels_among(n, seed):
    rng = np.random.default_rng(seed)
    items = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"], index=[f"i{k}" for k in range(n)])
    pairs = np.array([(i, j) for i in range(n) for j in range(i)])
    return items, items.index.to_numpy()[pairs], rng.choice([1.0, 0.0, 0.5], len(pairs), p=[0.3, 0.2, 0.5])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ties", ["half", "model"])
def test_probabilities_of_duels(seed, ties):
    items, duels, outcome = duels_among(7, seed)
    model = riesz.PreferenceClassifier("nested", ties=ties, optimizer=None, kernel=RBF([1.0, 1.0]))
    model.fit(items, duels, outcome=outcome)
    left, right = items.loc[duels[:, 0]], items.loc[duels[:, 1]]
    probabilities = model.predict_proba(left, right)
    g, sd = model.decision_function(left, right, return_std=True)
    for i, duel in enumerate(model.explain(left, right).duels):
        inside(duel.probability, *duel.interval)
        assert duel.probability == pytest.approx(probabilities[i, 1])
        assert (
            (duel.probability_tie is None)
            if ties == "half"
            else duel.probability_tie == pytest.approx(probabilities[i, 2])
        )
        ends = 1 / (1 + np.exp(-(g[i] - model.margin_ + np.array([-1.96, 1.96]) * sd[i])))
        assert duel.interval == pytest.approx(ends, abs=1e-4)


@pytest.mark.parametrize("draws", [2, 60])
def test_rankings(draws):
    items, duels, outcome = duels_among(8, 1)
    process = riesz.PreferenceClassifier("nested", optimizer=None).fit(items, duels, outcome=outcome)
    abilities = riesz.PreferenceClassifier("bradley_terry", ridge=1.0).fit(None, duels, outcome=outcome)
    for ranking in (
        rankability(process, items, n_samples=draws, random_state=0),
        rankability(abilities, n_samples=draws),
    ):
        inside(ranking.utility, *ranking.utility_interval.T)
        inside(ranking.rank, *ranking.rank_interval.T)
        low, middle, high = ranking.cyclic_share_interval
        inside(middle, low, high)


@pytest.mark.parametrize("seed", range(3))
def test_values_importance_and_shares_of_variance(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(25, 3))
    y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=25)
    model = riesz.GaussianProcessRegressor(RBF([1.0, 1.0, 1.0]), optimizer=None).fit(X, y)
    explanation = riesz.Explainer(model, X, covariance=True)(X[:6])
    inside(explanation.values, *explanation.interval())
    table = explanation.importance()
    inside(table["mean_abs"], table["low"], table["high"])
    sobol = riesz.sobol_indices(model, X, posterior=True, n_samples=3)
    for name, (low, high) in sobol.interval().items():
        inside(getattr(sobol, name), low, high)


@pytest.mark.parametrize("draws", [1, 3])
def test_effects(draws):
    rng = np.random.default_rng(draws)
    age = rng.normal(size=60)
    dose = age + rng.normal(size=60)
    table = pd.DataFrame({"age": age, "dose": dose, "y": np.sin(dose) + age + 0.3 * rng.normal(size=60)})
    graph = "age -> dose; age -> y; dose -> y"
    effect = riesz.CausalEffect(
        graph, treatment="dose", outcome="y", n_hyperparameter_samples=draws, random_state=0
    ).fit(table)
    doses = np.linspace(-2, 2, 5)
    for estimate in (effect.effect(doses), effect.effect(doses, baseline=0.0)):
        inside(estimate.mean, *estimate.interval())
        inside(estimate.mean, *estimate.interval(n_samples=30, random_state=0))
