"""Values of probabilities, against all coalitions of the models' own answers."""

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
    """From all coalitions, (features, outputs)."""
    d = len(row)
    worth = {}
    for size in range(d + 1):
        for present in combinations(range(d), size):
            mixed = BACKGROUND.copy()
            mixed[:, list(present)] = row[list(present)]
            worth[present] = f(mixed).mean(axis=0)
    out = [0.0] * d
    for present, value in worth.items():
        for j in set(range(d)) - set(present):
            more = worth[tuple(sorted((*present, j)))] - value
            out[j] = out[j] + more / (d * comb(d - 1, len(present)))
    return np.array(out)


@pytest.mark.parametrize("classes", [2, 3])
def test_values_add_up_to_probabilities(classes):
    known = y < classes
    model = riesz.KernelLogisticRegression(kernel=RBF(1.0), alpha=0.1).fit(X[known], y[known])
    explainer = riesz.Explainer(model, BACKGROUND, probabilities=True)
    found = explainer(ROWS)
    assert found.exactness == "exact" and found.certificate.holds
    shown = model.predict_proba(ROWS)[:, 1 if classes == 2 else slice(None)]
    assert np.allclose(found.predictions, shown, atol=1e-12)
    assert found.output_names == (["1"] if classes == 2 else ["0", "1", "2"])
    for i, row in enumerate(ROWS):
        truth = shapley(model.predict_proba, row)
        assert np.allclose(found.values[i], truth[:, 1] if classes == 2 else truth, atol=1e-12)
    pairs = pickle.loads(pickle.dumps(riesz.Explainer(model, BACKGROUND, probabilities=True, index="k-SII")))(
        ROWS
    )
    assert pairs.certificate.holds
    assert np.allclose(pairs.interactions.sum(axis=(1, 2)), found.predictions - found.base_values)


def test_models_of_others_answer_with_their_probabilities():
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=1000).fit(X, y)
    found = riesz.Explainer(model, BACKGROUND, probabilities=True)(ROWS)
    truth = np.array([shapley(model.predict_proba, row) for row in ROWS])
    assert np.allclose(found.values, truth, atol=1e-9)
    with pytest.raises(ValueError, match="SVR has no predict_proba"):
        riesz.Explainer(SVR().fit(X, y), BACKGROUND, probabilities=True)


def test_settings_that_have_no_use():
    model = riesz.KernelLogisticRegression(kernel=RBF(1.0)).fit(X, y)
    with pytest.raises(ValueError, match="baseline and the interventional"):
        riesz.Explainer(model, probabilities=True)
    wide = np.hstack([X] * 4)
    model = riesz.KernelLogisticRegression(kernel=RBF(3.0)).fit(wide, y)
    explainer = riesz.Explainer(model, wide[::10], probabilities=True, coalitions=200)
    found = explainer(wide[:2])
    assert found.exactness == explainer.exactness == "estimated" and found.std_error.max() < 0.1
    with pytest.raises(ValueError, match="Shapley"):
        riesz.Explainer(model, wide[::10], probabilities=True, index="banzhaf")
