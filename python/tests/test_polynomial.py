"""Polynomial kernels, which depend on all columns jointly, are exact against a background."""

import numpy as np
import pytest
import shap
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, PairwiseKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, OneClassSVM

import riesz
from conftest import interventional, shapley


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 4)) * [1.0, 2.0, 0.5, 1.0]
    return X, X[:, 0] * X[:, 1] + np.sin(X[:, 2]) - 0.3 * X[:, 3] ** 2


def test_models_of_scikit_learn_are_exact(data):
    X, y = data
    label, three = (y > y.mean()).astype(int), np.digitize(y, np.quantile(y, [0.3, 0.7]))
    ovo = SVC(kernel="poly", decision_function_shape="ovo").fit(X, three)
    one_class = OneClassSVM(kernel="poly").fit(X)
    svc = SVC(kernel="poly", coef0=2.0).fit(X, label)
    latent = GaussianProcessClassifier(PairwiseKernel(metric="polynomial", gamma=0.1), optimizer=None).fit(
        X, label
    )
    part = latent.base_estimator_
    kernel = RBF(2.0) + PairwiseKernel(metric="polynomial", gamma=0.1)
    for model, function in [
        (SVR(kernel="poly").fit(X, y), None),
        (SVR(kernel="poly", degree=2, coef0=1.0).fit(X, y), None),
        (SVR(kernel="poly", degree=6, coef0=0.5, gamma=0.1).fit(X, y), None),
        (KernelRidge(kernel="poly", alpha=1.0).fit(X, np.column_stack([y, -(y**2)])), None),
        (GaussianProcessRegressor(kernel, alpha=0.1, optimizer=None, normalize_y=True).fit(X, y), None),
        (make_pipeline(StandardScaler(), SVR(kernel="poly", coef0=1.0)).fit(X, y), None),
        (riesz.KernelRidge(kernel="poly").fit(X, y), None),
        (riesz.SVR(kernel="poly", coef0=1.0).fit(X, y), None),
        (one_class, one_class.decision_function),
        (svc, svc.decision_function),
        (ovo, ovo.decision_function),
        (latent, lambda rows: part.kernel_(rows, part.X_train_) @ (part.y_train_ - part.pi_)),
    ]:
        function = function or model.predict
        weights = np.array([1.0, 2.0, 0.5, 1.0, 1.0])
        explainer = riesz.Explainer(model, X[:5], background_weights=weights)
        assert explainer.exactness == "exact" and explainer.reason is None
        explanation = explainer(X[20:22])
        expected = np.array([interventional(function, x, X[:5], weights) for x in X[20:22]])
        np.testing.assert_allclose(explanation.values, expected, atol=1e-9 * (1 + np.abs(expected).max()))
        np.testing.assert_allclose(
            explanation.predictions, function(X[20:22]), atol=1e-9 * (1 + np.abs(expected).max())
        )
        assert explanation.certificate.holds and np.max(explanation.bound) < 1e-8 * (
            1 + np.abs(expected).max()
        )


def test_shap_over_all_coalitions_agrees(data):
    X, y = data
    model = SVR(kernel="poly", coef0=1.0).fit(X, y)
    expected = shap.KernelExplainer(model.predict, X[:6]).shap_values(X[20:23], nsamples=2**4, silent=True)
    np.testing.assert_allclose(riesz.Explainer(model, X[:6])(X[20:23]).values, expected, atol=1e-7)


def test_indices_groups_and_games(data):
    X, y = data
    model = SVR(kernel="poly", coef0=1.0).fit(X, y)
    x, background = X[20], X[:6]
    value = lambda mask: model.predict(np.where(mask, x, background)).mean()
    pairs = riesz.Explainer(model, background, index="SII")(X[20:21])
    for j, k in [(0, 1), (1, 3)]:
        remaining = [q for q in range(4) if q not in (j, k)]
        index = 0.0
        for bits in range(4):
            mask = np.zeros(4, dtype=bool)
            mask[[q for bit, q in enumerate(remaining) if bits >> bit & 1]] = True
            size, value_with = mask.sum(), lambda *on: value(mask | np.isin(np.arange(4), on))
            index += [1 / 3, 1 / 6, 1 / 3][size] * (
                value_with(j, k) - value_with(j) - value_with(k) + value_with()
            )
        np.testing.assert_allclose(2 * pairs.interactions[0, j, k], index, atol=1e-9)
    grouped = riesz.Explainer(model, background, groups={"pair": [1, 3]})(X[20:21])
    players = [[0], [1, 3], [2]]
    of_groups = lambda mask: value(
        np.isin(np.arange(4), [c for on, columns in zip(mask, players) if on for c in columns])
    )
    np.testing.assert_allclose(grouped.values[0], shapley(of_groups, 3), atol=1e-9)

    baseline = riesz.Explainer(model, X[:1], game="baseline")(X[20:21])
    np.testing.assert_allclose(baseline.values[0], interventional(model.predict, x, X[:1]), atol=1e-9)
    # Independent draws from two rows: 16 mixtures.
    mixtures = np.array([[X[b >> j & 1, j] for j in range(4)] for b in range(16)])
    marginal = riesz.Explainer(model, X[:2], game="marginal_product")(X[20:21])
    np.testing.assert_allclose(marginal.values[0], interventional(model.predict, x, mixtures), atol=1e-9)


def test_missing_backgrounds_are_refused_with_advice(data):
    X, y = data
    model = SVR(kernel="poly").fit(X, y)
    with pytest.raises(
        ValueError, match="ties the columns x0, x1, x2, x3 together.* with a background or a baseline"
    ):
        riesz.Explainer(model)
    grouped = riesz.Explainer(model, groups={"all": range(4)})(X[:2])
    np.testing.assert_allclose(grouped.predictions, model.predict(X[:2]), atol=1e-9)
