"""Rankability and clusters of items, against numpy and scikit-learn. The formulas are tested in Rust."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.metrics import adjusted_rand_score

import riesz
from riesz.kernels import RBF, Categorical
from riesz.preference import compare_models, rankability, spec_r


def drawn(seed=0, count=20, density=0.7, clusters=1):
    rng = np.random.default_rng(seed)
    kind = np.arange(count) % clusters
    items = rng.normal(size=(count, 2)) + 1.5 * kind[:, None]
    left, right = np.triu_indices(count, 1)
    is_played = rng.random(len(left)) < density
    left, right = left[is_played], right[is_played]
    ability = 3 * np.where(kind == 0, 1, -1) * items[:, 1]
    log_odds = np.where(kind[left] == kind[right], ability[left] - ability[right], 0.0)
    won = (rng.random(len(left)) < 1 / (1 + np.exp(-log_odds))).astype(float)
    return items, np.column_stack([left, right]), won, kind


def test_shares_and_ranks_match_all_pairs():
    items, duels, won, _ = drawn()
    model = riesz.PreferenceClassifier(kernel=RBF([1.5, 1.5])).fit(items, duels, outcome=won)
    ranking = rankability(model, items, random_state=0)
    left, right = np.triu_indices(20, 1)
    flow = np.zeros((20, 20))
    flow[left, right] = model.decision_function(items[left], items[right])
    flow -= flow.T
    utility = flow.mean(axis=1)
    gradient = utility[:, None] - utility
    np.testing.assert_allclose(ranking.utility, utility, atol=1e-9)
    np.testing.assert_allclose(ranking.cyclic_share, 1 - (gradient**2).sum() / (flow**2).sum(), atol=1e-9)
    assert (ranking.rank == 1 + (utility > utility[:, None]).sum(axis=1)).all()
    # The same quantities from independent joint draws, with the covariance of all pairs.
    draws = model.average_.sample(model.pair_features(items[left], items[right]), 2000, random_state=1)
    flows = np.zeros((2000, 20, 20))
    flows[:, left, right] = draws.T
    flows -= flows.transpose(0, 2, 1)
    utilities = flows.mean(axis=2)
    gradients = utilities[:, :, None] - utilities[:, None]
    shares = 1 - (gradients**2).sum(axis=(1, 2)) / (flows**2).sum(axis=(1, 2))
    low, middle, high = ranking.cyclic_share_interval
    for bound, share in [(low, 0.025), (middle, 0.5), (high, 0.975)]:
        assert abs((shares < bound).mean() - share) < 5 * np.sqrt(share * (1 - share) * (1 / 2000 + 1 / 512))
    best = (utilities.argmax(axis=1)[:, None] == np.arange(20)).mean(axis=0)
    np.testing.assert_allclose(ranking.probability_best, best, atol=0.1)
    inside = (utilities > ranking.utility_interval[:, 0]) & (utilities < ranking.utility_interval[:, 1])
    np.testing.assert_allclose(inside.mean(axis=0), 0.95, atol=0.05)
    again = rankability(model, items, random_state=0)
    assert (again.rank_interval == ranking.rank_interval).all() and again.cycles == ranking.cycles


def test_labels_and_categories_are_read():
    kinds = np.array(["rock", "paper", "scissors"])
    items = pd.DataFrame({"kind": kinds[np.arange(9) % 3]}, index=[f"hand {i}" for i in range(9)])
    beats = {("rock", "scissors"), ("scissors", "paper"), ("paper", "rock")}
    duels = [(a, b) for a in items.index for b in items.index if (items.kind[a], items.kind[b]) in beats]
    model = riesz.PreferenceClassifier(kernel=Categorical()).fit(items, duels)
    ranking = rankability(model, items, n_cycles=1, random_state=0)
    assert ranking.cyclic_share > 0.95
    (a, b, c), probability = ranking.cycles[0]
    assert {
        (items.kind[a], items.kind[b]),
        (items.kind[b], items.kind[c]),
        (items.kind[c], items.kind[a]),
    } == beats
    assert probability > 0.5 and f"{a} beats {b}" in str(ranking)
    comparison = compare_models(items, duels, kernel=Categorical())
    assert comparison.log_bayes_factor_cyclic > 5 and comparison.nested == pytest.approx(
        model.log_marginal_likelihood_value_, abs=1e-6
    )


def test_spec_r_matches_numpy():
    items, duels, won, _ = drawn(count=15, density=0.5)
    wins = np.zeros((15, 15))
    wins[duels[:, 0], duels[:, 1]] = won
    wins[duels[:, 1], duels[:, 0]] = 1 - won
    played = np.zeros((15, 15))
    played[duels[:, 0], duels[:, 1]] = played[duels[:, 1], duels[:, 0]] = 1
    steps = np.arange(15)

    def distance(values):
        apart = np.abs(values[:, None] - steps)
        return max(apart.min(axis=0).max(), apart.min(axis=1).max())

    def index(wins):
        degrees = wins.sum(axis=1)
        return 1 - (distance(np.linalg.eigvals(np.diag(degrees) - wins)) + distance(degrees)) / 28

    result = spec_r(duels, outcome=won, items=items, n_samples=400, random_state=0)
    np.testing.assert_allclose(result.value, index(wins), atol=1e-9)
    degree = played.sum(axis=1)
    ways = np.maximum(degree * (degree - 1), 1)
    np.testing.assert_allclose(result.average_clustering, (np.diag(played @ played @ played) / ways).mean())
    rng = np.random.default_rng(1)
    ranked, coins = [], []
    for _ in range(400):
        place = rng.permutation(15)
        ranked.append(index(played * (place[:, None] < place)))
        coin = np.triu(rng.random((15, 15)) < 0.5, 1)
        coins.append(index(played * (coin + np.tril(~coin.T, -1))))
    for mean, sd, draws in [
        (result.perfect_ranking_mean, result.perfect_ranking_std, ranked),
        (result.random_mean, result.random_std, coins),
    ]:
        assert abs(mean - np.mean(draws)) < 5 * np.hypot(sd, np.std(draws)) / 20
        np.testing.assert_allclose(sd, np.std(draws), rtol=0.25)
    named = spec_r(np.array([f"i{i:02}" for i in range(15)])[duels], outcome=won, n_samples=2, random_state=0)
    assert named.value == result.value


@pytest.mark.parametrize("covariates", [True, False])
def test_the_mixture_finds_clusters_and_their_number(covariates):
    items, duels, won, kind = drawn(seed=4, count=24, density=0.9, clusters=2)
    clusters = riesz.PreferenceClusters(
        kernel=RBF([1.5, 1.5]), covariates=covariates, max_clusters=3, random_state=0
    )
    clusters.fit(items, duels, outcome=won)
    assert clusters.n_clusters_ == 2 and adjusted_rand_score(clusters.labels_, kind) > 0.8
    assert clusters.bound_ == max(clusters.bounds_.values()) and set(clusters.bounds_) == {1, 2, 3}
    assert (np.diff(clusters.sweeps_) >= -1e-9).all() and clusters.sweeps_[-1] == clusters.bound_
    np.testing.assert_allclose(clusters.probabilities_.sum(axis=1), 1.0)
    assert (clusters.probabilities_.argmax(axis=1) == clusters.labels_).all()
    again = clone(clusters).fit(items, duels[:, ::-1], outcome=1 - won)
    assert (again.labels_ == clusters.labels_).all()


def test_kmeans_and_spectral_clustering_match_scikit_learn():
    items, duels, won, kind = drawn(seed=5, count=24, density=1.0, clusters=2)

    def cluster(method, **options):
        options = {
            "n_clusters": 2,
            "kernel": RBF([1.5, 1.5]),
            "optimizer": None,
            "random_state": 0,
            **options,
        }
        return riesz.PreferenceClusters(method=method, **options).fit(items, duels, outcome=won)

    x = (items - items.mean(axis=0)) / items.std(axis=0)
    for k in (2, 3, 5):
        theirs = KMeans(k, n_init=50, random_state=0).fit_predict(x)
        assert adjusted_rand_score(cluster("covariates", n_clusters=k).labels_, theirs) == 1.0
    comparisons = np.zeros((24, 24))
    comparisons[duels[:, 0], duels[:, 1]] = 2 * won - 1
    comparisons -= comparisons.T

    def by_singular_vectors(matrix):
        vectors = np.linalg.svd(matrix)[2][:4].T
        return KMeans(2, n_init=50, random_state=0).fit_predict(vectors)

    assert adjusted_rand_score(cluster("comparisons").labels_, by_singular_vectors(comparisons)) == 1.0
    left, right = np.triu_indices(24, 1)

    def flow(model):
        fitted = riesz.PreferenceClassifier(model, kernel=RBF([1.5, 1.5]), optimizer=None).fit(
            items, duels, outcome=won
        )
        matrix = np.zeros((24, 24))
        matrix[left, right] = fitted.decision_function(items[left], items[right])
        return matrix - matrix.T

    assert adjusted_rand_score(cluster("generalised").labels_, by_singular_vectors(flow("generalised"))) > 0.8
    theirs = SpectralClustering(2, affinity="precomputed", n_init=20, random_state=0).fit_predict(
        np.abs(flow("generalised"))
    )
    assert adjusted_rand_score(cluster("spectral").labels_, theirs) > 0.8
    stable = cluster("mixture", n_subsamples=2, covariates=True)
    assert stable.stability_ > 0.7 and (stable.covariates_labels_ == cluster("covariates").labels_).all()
    assert set(np.unique(cluster("abstaining").labels_)) == {0, 1}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "best"}, "'mixture', 'generalised'"),
        ({"method": "spectral"}, "only the mixture"),
        ({"n_clusters": 99}, "number of items, 20"),
        ({"n_clusters": 0}, "whole number"),
        ({"n_init": -1}, "whole number"),
    ],
)
def test_invalid_clusterings_are_refused(options, words):
    items, duels, won, _ = drawn()
    with pytest.raises(ValueError, match=words):
        riesz.PreferenceClusters(**options).fit(items, duels, outcome=won)


def test_invalid_rankings_are_refused():
    items, duels, won, _ = drawn()
    model = riesz.PreferenceClassifier(kernel=RBF([1.5, 1.5]), optimizer=None).fit(items, duels, outcome=won)
    with pytest.raises(ValueError, match="n_samples = 1"):
        rankability(model, items, n_samples=1)
    with pytest.raises(ValueError, match="between 0 and 1"):
        rankability(model, items, level=2)
    with pytest.raises(ValueError, match="2 rows"):
        rankability(model, items[:1])
    with pytest.raises(ValueError, match="meets itself"):
        spec_r([[0, 0], [0, 1]])
