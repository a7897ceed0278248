"""Conditional mean embeddings, against Gaussian process regression and kernel ridge regression."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF as SklearnRBF

import riesz
from riesz.kernels import RBF, Constant, Linear

rng = np.random.default_rng(3)
X = rng.normal(size=(40, 2))
Y = np.column_stack([np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=40), rng.normal(size=40)])
Z = rng.normal(size=(5, 2))


def gram(a, b, lengths=(0.8, 1.5)):
    return np.exp(-0.5 * (((a[:, None] - b[None]) / np.array(lengths)) ** 2).sum(axis=2))


def fixed(**options):
    settings = {"kernel_x": RBF([0.8, 1.5]), "ridge": 0.01, "optimizer": None} | options
    return riesz.ConditionalMean(**settings).fit(X, Y)


def test_weights_are_those_of_kernel_ridge_regression():
    inverse = np.linalg.inv(gram(X, X) + 40 * 0.01 * np.eye(40))
    weights = gram(Z, X) @ inverse
    np.testing.assert_allclose(fixed(centered=False).weights(Z), weights, atol=1e-12)
    centered = fixed().weights(Z)
    np.testing.assert_allclose(centered, weights + (1 - weights.sum(axis=1))[:, None] / 40, atol=1e-12)
    np.testing.assert_allclose(centered.sum(axis=1), 1.0)


def test_expectations_are_gaussian_process_regressions():
    embedding = fixed()
    values = Y[:, 0] ** 2
    mean, std = embedding.expectation(values, Z, return_std=True)
    variance = embedding.scale_ * values.var()
    kernel = variance * SklearnRBF([0.8, 1.5])
    process = GaussianProcessRegressor(kernel, alpha=variance * 40 * 0.01, optimizer=None)
    expected, covariance = process.fit(X, values - values.mean()).predict(Z, return_cov=True)
    np.testing.assert_allclose(mean, expected + values.mean(), atol=1e-9)
    np.testing.assert_allclose(std, np.sqrt(np.diag(covariance)), atol=1e-9)
    np.testing.assert_allclose(embedding.expectation(values, Z, return_cov=True)[1], covariance, atol=1e-9)
    np.testing.assert_allclose(embedding.cov(Z) * values.var(), covariance, atol=1e-9)
    # A function, and several functions at once.
    np.testing.assert_allclose(embedding.expectation(lambda y: y[:, 0] ** 2, Z), mean, atol=1e-12)
    means, stds = embedding.expectation(np.column_stack([values, Y[:, 1]]), Z, return_std=True)
    assert means.shape == stds.shape == (5, 2)
    np.testing.assert_allclose([means[:, 0], stds[:, 0]], [mean, std], atol=1e-12)
    assert embedding.expectation(Y, Z, return_cov=True)[1].shape == (5, 5, 2)


def test_constants_are_certain():
    mean, std = fixed().expectation(np.full(40, 3.0), Z, return_std=True)
    np.testing.assert_allclose([mean, std], [np.full(5, 3.0), np.zeros(5)], atol=1e-12)


def test_models_of_y_add_their_uncertainty():
    frame = pd.DataFrame(Y, columns=["yield", "rain"])
    embedding = riesz.ConditionalMean(RBF([0.8, 1.5]), ridge=0.01, optimizer=None).fit(X, frame)
    process = riesz.GaussianProcessRegressor(kernel="rbf", optimizer=None, alpha=0.1)
    process.fit(frame.iloc[::4], np.cos(Y[::4, 0]))
    mean, cov = embedding.expectation(process, Z, return_cov=True)
    values, uncertainty = process.predict(frame, return_cov=True)
    weights = embedding.weights(Z)
    np.testing.assert_allclose(mean, weights @ values, atol=1e-12)
    center = np.eye(40) - 1 / 40
    variance = values.var() + np.trace(center @ uncertainty) / 40
    expected = embedding.cov(Z) * variance + weights @ uncertainty @ weights.T
    np.testing.assert_allclose(cov, expected, atol=1e-10)
    np.testing.assert_allclose(embedding.expectation(process, Z), mean, atol=1e-12)
    # A model without a posterior is a function.
    ridge = riesz.KernelRidge(kernel="rbf").fit(frame, Y[:, 0])
    np.testing.assert_allclose(
        embedding.expectation(ridge.expansion_, Z, return_std=True)[1],
        embedding.expectation(ridge.predict(frame), Z, return_std=True)[1],
    )


def test_distances_of_embeddings():
    embedding = fixed(kernel_y=RBF([1.0, 1.0]))
    weights, weights_x, gram_y = embedding.weights(Z), embedding.weights(X[:3]), gram(Y, Y, (1.0, 1.0))
    expected = [[np.sqrt((w - v) @ gram_y @ (w - v)) for v in weights_x] for w in weights]
    np.testing.assert_allclose(embedding.mmd(Z, X[:3]), expected, atol=1e-10)
    distances = embedding.mmd(Z)
    np.testing.assert_allclose(distances, distances.T, atol=1e-12)
    np.testing.assert_allclose(np.diag(distances), 0.0, atol=1e-7)
    sample = Y[:7] + 1.0
    difference = np.concatenate([weights, np.full((5, 7), -1 / 7)], axis=1)
    pooled = np.vstack([Y, sample])
    squares = np.einsum("ia,ab,ib->i", difference, gram(pooled, pooled, (1.0, 1.0)), difference)
    np.testing.assert_allclose(embedding.mmd(Z, sample=sample), np.sqrt(squares), atol=1e-10)
    # The distance of two normal distributions with the same variance, by a Gaussian kernel of length 1.
    x = np.linspace(-3, 3, 600)[:, None]
    y = x + 0.5 * np.random.default_rng(0).normal(size=x.shape)
    normal = riesz.ConditionalMean(kernel_y=RBF(1.0)).fit(x, y)
    width = 1 + 2 * 0.5**2
    truth = np.sqrt(2 / np.sqrt(width) * (1 - np.exp(-(1.0**2) / (2 * width))))
    assert abs(normal.mmd([[-0.5]], [[0.5]])[0, 0] - truth) < 0.05


def test_the_marginal_likelihood_chooses_length_scales_and_ridge():
    embedding = riesz.ConditionalMean().fit(X, Y[:, :1])
    lengths = np.asarray(embedding.kernel_x_.length_scale)
    assert lengths[0] < 2.0 < 3.0 < lengths[1]
    left_out = riesz.ConditionalMean(optimizer=None).fit(X, Y[:, :1])
    assert left_out.log_evidence_ < embedding.log_evidence_
    # For one column and a linear kernel it is that of a Gaussian process with the best variance.
    linear = riesz.ConditionalMean(Constant(1.0) * RBF([0.8, 1.5]), Linear(), ridge=0.01, optimizer=None).fit(
        X, Y[:, 0]
    )
    deviations = Y[:, 0] - Y[:, 0].mean()
    variance = linear.scale_ * Y[:, 0].var()
    kernel = variance * SklearnRBF([0.8, 1.5])
    process = GaussianProcessRegressor(kernel, alpha=variance * 40 * 0.01, optimizer=None)
    evidence = process.fit(X, deviations).log_marginal_likelihood_value_
    assert abs(linear.log_evidence_ - evidence) < 1e-8


def test_tables_with_categories_and_pickles():
    kinds = np.where(X[:, 1] > 0, "wet", "dry")
    frame = pd.DataFrame({"height": X[:, 0], "soil": pd.Categorical(kinds)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        embedding = riesz.ConditionalMean(columns={"soil": "text"}).fit(frame, Y)
    assert embedding.feature_names_in_.tolist() == ["height", "soil"]
    queries = pd.DataFrame({"soil": ["dry", "wet"], "who": [1, 2], "height": [0.0, 0.5]})
    weights = embedding.weights(queries)
    loaded = pickle.loads(pickle.dumps(embedding))
    np.testing.assert_allclose(loaded.weights(queries), weights, atol=1e-12)
    assert loaded.log_evidence_ == embedding.log_evidence_
    assert clone(embedding).get_params() == embedding.get_params()
    with pytest.raises(ValueError, match="sandy"):
        embedding.weights(queries.assign(soil="sandy"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ridge": 0.0}, "ridge = 0.0: it is a positive number or 'auto'"),
        ({"scale": "large"}, "scale = 'large'"),
        ({"optimizer": "adam"}, "optimizer = 'adam'"),
    ],
)
def test_settings_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        fixed(**options)


def test_invalid_rows_and_functions_are_refused():
    with pytest.raises(NotFittedError):
        riesz.ConditionalMean().weights(Z)
    with pytest.raises(ValueError, match="one for each row of X"):
        riesz.ConditionalMean().fit(X, Y[:10])
    with pytest.raises(ValueError, match="same in all rows"):
        riesz.ConditionalMean().fit(X, np.ones(40))
    embedding = fixed()
    with pytest.raises(ValueError, match="f has values of the shape"):
        embedding.expectation(np.ones(39), Z)
    with pytest.raises(ValueError, match="are not numbers"):
        embedding.expectation(["a"] * 40, Z)
    with pytest.raises(ValueError, match="choose one"):
        embedding.expectation(Y[:, 0], Z, return_std=True, return_cov=True)
    with pytest.raises(ValueError, match="give one of them"):
        embedding.mmd(Z, Z, sample=Y)
    with pytest.raises(ValueError, match="X has 1 columns"):
        embedding.weights(Z[:, :1])


def test_next_evaluations_reduce_the_variance_of_expectations_the_most():
    rng = np.random.default_rng(12)
    X = rng.uniform(-2, 2, size=(40, 1))
    Y = np.hstack([X + 0.4 * rng.normal(size=(40, 1)), rng.normal(size=(40, 1))])
    embedding = riesz.ConditionalMean(ridge=0.01, optimizer=None).fit(X, Y)
    kernel, places = riesz.kernels.RBF([0.7, 1.2]), np.array([[0.5], [-1.0]])
    options = dict(optimizer=None, normalize_y=False, alpha=1e-3)

    def variance(rows):
        """Mean variance of the expectations from a process with evaluations in these rows."""
        process = riesz.GaussianProcessRegressor(kernel, **options).fit(Y[rows], np.zeros(len(rows)))
        _, cov = process.predict(Y, return_cov=True)
        w = embedding.weights(places)
        return np.mean(np.einsum("xi,ij,xj->x", w, cov, w)), process

    rows = [0, 1, 2]
    _, process = variance(rows)
    chosen, std = embedding.next_evaluations(process, places, k=4)
    for row, remaining in zip(chosen, std):
        by_row = [variance([*rows, j])[0] for j in range(40)]
        assert np.argmin(by_row) == row
        np.testing.assert_allclose(remaining**2, by_row[row], rtol=1e-6)
        rows.append(row)
    # The integral of a smooth function from 12 evaluations, against 12 draws of Monte Carlo.
    f = lambda y: np.sin(2 * y[:, 0]) + y[:, 1] ** 2
    exact = embedding.expectation(f, places)
    rows = [0, 1, 2]
    chosen, _ = embedding.next_evaluations(process, places, k=9, noise=1e-3)
    process = riesz.GaussianProcessRegressor(kernel, **options).fit(
        Y[[*rows, *chosen]], f(Y[[*rows, *chosen]])
    )
    quadrature = np.abs(embedding.expectation(process, places) - exact).mean()
    error = [
        np.abs(embedding.weights(places)[:, draws] @ f(Y[draws]) * 40 / 12 - exact).mean()
        for draws in (rng.choice(40, 12, replace=False) for _ in range(200))
    ]
    assert quadrature < 0.25 * np.mean(error), (quadrature, np.mean(error))
    for arguments, words in [
        ((np.sin, places), "posterior covariance"),
        ((process, places[:0]), "row is"),
        ((process, places, 0), "k = 0"),
    ]:
        with pytest.raises(ValueError, match=words):
            embedding.next_evaluations(*arguments)
    with pytest.raises(ValueError, match="noise = -1"):
        embedding.next_evaluations(process, places, noise=-1.0)
