"""How sure values are: against draws from the posterior, and how often intervals hold what was drawn from the prior."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

import riesz
from riesz.kernels import RBF

X, y = load_diabetes(return_X_y=True)
X = X[:, :4] * 20.0
BACKGROUND, ROWS = X[:6], X[100:103]


def fitted(X=X[:150], y=y[:150], **settings):
    arguments = {"kernel": RBF(2.0), "alpha": 1.0, "optimizer": None, "normalize_y": True, **settings}
    return riesz.GaussianProcessRegressor(**arguments).fit(X, y)


def mixtures(row, background):
    """Rows that stand for all coalitions, coalition by coalition, and by player their weights in its Shapley value."""
    import math

    d = len(row)
    masks = np.array([[mask >> j & 1 for j in range(d)] for mask in range(2**d)], bool)
    rows = np.where(masks[:, None, :], row, background).reshape(-1, d)
    size = masks.sum(axis=1)
    weights = np.empty((d, 2**d))
    for j in range(d):
        others = size - masks[:, j]
        share = np.array([math.factorial(s) * math.factorial(d - 1 - s) / math.factorial(d) for s in others])
        weights[j] = np.where(masks[:, j], share, -share)
    return rows, np.repeat(weights, len(background), axis=1) / len(background)


def test_covariances_are_those_of_draws():
    model = fitted()
    found = riesz.Explainer(model, BACKGROUND, covariance=True)(ROWS)
    assert found.covariance.shape == (3, 4, 4) and found.sd.shape == (3, 4)
    for i, row in enumerate(ROWS):
        rows, weights = mixtures(row, BACKGROUND)
        mean, covariance = model.predict(rows, return_cov=True)
        assert np.allclose(weights @ mean, found.values[i])
        assert np.allclose(
            weights @ covariance @ weights.T, found.covariance[i], rtol=1e-8, atol=1e-8 * found.covariance[i].max()
        )
        draws = weights @ model.sample_y(rows, n_samples=4000, random_state=i)
        # The standard error of a variance of n draws is its share √(2/n).
        assert np.allclose(draws.var(axis=1), found.sd[i] ** 2, rtol=5 * np.sqrt(2 / 4000))


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_intervals_hold_what_was_drawn_from_the_prior(level):
    """Functions are drawn from the prior, observed with noise, and explained: their own Shapley values lie within as often."""
    rng = np.random.default_rng(5)
    d, n, noise = 3, 25, 0.2
    X, background, row = rng.normal(size=(n, d)), rng.normal(size=(4, d)), rng.normal(size=d)
    rows, weights = mixtures(row, background)
    at = np.vstack([X, rows])
    kernel = lambda a, b: np.exp(-0.5 * ((a[:, None] - b[None]) ** 2).sum(axis=2) / 1.5**2)
    root = np.linalg.cholesky(kernel(at, at) + 1e-9 * np.eye(len(at)))
    held = 0
    for _ in range(1000):
        f = root @ rng.normal(size=len(at))
        model = riesz.GaussianProcessRegressor(RBF(1.5), alpha=noise**2, optimizer=None, normalize_y=False).fit(
            X, f[:n] + noise * rng.normal(size=n)
        )
        low, high = riesz.Explainer(model, background, covariance=True)(row[None]).interval(level)
        truth = weights @ f[n:]
        held += int(low[0, 0] <= truth[0] <= high[0, 0])
    assert abs(held / 1000 - level) < 3.3 * np.sqrt(level * (1 - level) / 1000)


def test_what_becomes_of_covariances():
    model = fitted(y=np.column_stack([y, -2 * y])[:150])
    explainer = riesz.Explainer(model, BACKGROUND, covariance=True, groups={"both": [1, 2]})
    found = copy.deepcopy(explainer)(ROWS)
    assert found.covariance.shape == (3, 3, 3, 2)
    assert np.allclose(found.covariance[..., 1], 4 * found.covariance[..., 0])
    assert found[0].covariance.shape == (3, 3, 2) and found[0, "both"].sd.shape == (2,)
    assert found[:, "both", 0].covariance.shape == (3,)
    assert np.array_equal(pickle.loads(pickle.dumps(found)).covariance, found.covariance)
    assert np.array_equal(found[1:, ["x3", "both"], 0].covariance, found.covariance[1:, [[2], [1]], [2, 1], 0])
    low, high = found.interval(0.5)
    assert (low < found.values).all() and (high > found.values).all()
    assert riesz.Explainer(model, BACKGROUND)(ROWS).covariance is None


def test_pipelines_and_files(tmp_path):
    model = make_pipeline(StandardScaler(), riesz.GaussianProcessRegressor(RBF(1.0), alpha=0.5, optimizer=None)).fit(X, y)
    found = riesz.Explainer(model, BACKGROUND, covariance=True)(ROWS)
    model[-1].save(tmp_path / "m.riesz", posterior=True)
    scale = model[0].transform
    saved = riesz.Explainer(tmp_path / "m.riesz", scale(BACKGROUND), covariance=True)(scale(ROWS))
    assert np.allclose(saved.covariance, found.covariance, rtol=1e-12)


def test_where_there_are_none():
    with pytest.raises(ValueError, match="no posterior"):
        riesz.Explainer(SVR().fit(X, y), BACKGROUND, covariance=True)(ROWS)
    with pytest.raises(ValueError, match="answers"):
        riesz.Explainer(lambda rows: rows.sum(axis=1), BACKGROUND, covariance=True)(ROWS)
    with pytest.raises(ValueError, match="background or a baseline"):
        riesz.Explainer(fitted(), covariance=True)(ROWS)
    with pytest.raises(ValueError, match="Shapley"):
        riesz.Explainer(fitted(), BACKGROUND, covariance=True, index="banzhaf")(ROWS)
    found = riesz.Explainer(fitted(), BACKGROUND, covariance=True)(ROWS)
    with pytest.raises(ValueError, match="between 0 and 1"):
        found.interval(95)
    with pytest.raises(ValueError, match="no posterior"):
        riesz.Explainer(fitted(), BACKGROUND)(ROWS).interval()
