"""Values of probabilities, against the enumeration of all coalitions with the models' own predictions."""

import pickle
from itertools import combinations
from math import comb

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.svm import SVR

import riesz
from riesz.kernels import RBF

X, y = load_iris(return_X_y=True)
BACKGROUND, ROWS = X[::10], X[[3, 70, 120]]


def shapley(f, row):
    """Shapley values by enumeration, (features, outputs)."""
    d = len(row)
    coalition_values = {}
    for size in range(d + 1):
        for present in combinations(range(d), size):
            mixed = BACKGROUND.copy()
            mixed[:, list(present)] = row[list(present)]
            coalition_values[present] = f(mixed).mean(axis=0)
    out = [0.0] * d
    for present, value in coalition_values.items():
        for j in set(range(d)) - set(present):
            gain = coalition_values[tuple(sorted((*present, j)))] - value
            out[j] = out[j] + gain / (d * comb(d - 1, len(present)))
    return np.array(out)


@pytest.mark.parametrize("classes", [2, 3])
def test_values_add_up_to_probabilities(classes):
    known = y < classes
    model = riesz.KernelLogisticRegression(kernel=RBF(1.0), alpha=0.1).fit(X[known], y[known])
    explainer = riesz.Explainer(model, BACKGROUND, probabilities=True)
    explanation = explainer(ROWS)
    assert explanation.exactness == "exact" and explanation.certificate.holds
    shown = model.predict_proba(ROWS)[:, 1 if classes == 2 else slice(None)]
    assert np.allclose(explanation.predictions, shown, atol=1e-12)
    assert explanation.output_names == (["1"] if classes == 2 else ["0", "1", "2"])
    for i, row in enumerate(ROWS):
        truth = shapley(model.predict_proba, row)
        assert np.allclose(explanation.values[i], truth[:, 1] if classes == 2 else truth, atol=1e-12)
    pairs = pickle.loads(pickle.dumps(riesz.Explainer(model, BACKGROUND, probabilities=True, index="k-SII")))(
        ROWS
    )
    assert pairs.certificate.holds
    assert np.allclose(pairs.interactions.sum(axis=(1, 2)), explanation.predictions - explanation.base_values)


def test_scikit_learn_models_use_their_probabilities():
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=1000).fit(X, y)
    explanation = riesz.Explainer(model, BACKGROUND, probabilities=True)(ROWS)
    truth = np.array([shapley(model.predict_proba, row) for row in ROWS])
    assert np.allclose(explanation.values, truth, atol=1e-9)
    with pytest.raises(ValueError, match="SVR has no predict_proba"):
        riesz.Explainer(SVR().fit(X, y), BACKGROUND, probabilities=True)


def test_settings_that_have_no_use():
    model = riesz.KernelLogisticRegression(kernel=RBF(1.0)).fit(X, y)
    with pytest.raises(ValueError, match="baseline and the interventional"):
        riesz.Explainer(model, probabilities=True)
    wide = np.hstack([X] * 4)
    model = riesz.KernelLogisticRegression(kernel=RBF(3.0)).fit(wide, y)
    explainer = riesz.Explainer(model, wide[::10], probabilities=True, n_coalitions=200)
    explanation = explainer(wide[:2])
    assert explanation.exactness == explainer.exactness == "estimated" and explanation.std_error.max() < 0.1
    with pytest.raises(ValueError, match="Shapley"):
        riesz.Explainer(model, wide[::10], probabilities=True, index="banzhaf")
