"""Owen values against their definition, as means over orders of the features, with the models' own
predictions."""

import pickle
from itertools import permutations

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import BaggingRegressor
from sklearn.svm import SVR

import riesz

X, y = load_diabetes(return_X_y=True, as_frame=True)
X = X.iloc[:, :5] * 20.0
BACKGROUND, ROWS = X[:6], X[100:102]
#: Each union is contiguous in an order: x0 x2 x4, and within it x2 x4.
UNIONS = [{0, 2, 4}, {2, 4}]


def owen(f, row):
    coalition_values = {}

    def value(present):
        if present not in coalition_values:
            mixed = BACKGROUND.copy()
            for j in present:
                mixed.iloc[:, j] = row.iloc[j]
            coalition_values[present] = f(mixed).mean()
        return coalition_values[present]

    total, count = np.zeros(5), 0
    for order in permutations(range(5)):
        places = [sorted(order.index(j) for j in union) for union in UNIONS]
        if all(positions[-1] - positions[0] == len(positions) - 1 for positions in places):
            count += 1
            for place, j in enumerate(order):
                total[j] += value(frozenset(order[: place + 1])) - value(frozenset(order[:place]))
    return total / count


MODELS = [
    SVR(C=100.0),
    SVR(kernel="poly", degree=3, coef0=1.0, gamma=0.2),
    BaggingRegressor(SVR(C=100.0), 3, max_features=0.6, random_state=0),
]


@pytest.mark.parametrize("model", MODELS)
def test_owen_values(model):
    names = list(X.columns)
    unions = [["age", ["bmi", names[4]]], "sex"]
    model.fit(X, y)
    explainer = pickle.loads(pickle.dumps(riesz.Explainer(model, BACKGROUND, unions=unions)))
    explanation = explainer(ROWS)
    assert explanation.index == "owen" and explanation.exactness == "exact" and explanation.certificate.holds
    for i in range(len(ROWS)):
        assert np.allclose(explanation.values[i], owen(model.predict, ROWS.iloc[i]), atol=1e-9)


def test_invalid_unions_are_refused():
    model = SVR().fit(X, y)
    for unions, words in [
        ("age", "list"),
        (["aage"], "'aage'"),
        ([9], "feature 9"),
        ([["age", "age"]], "one union"),
        ([[]], "member"),
    ]:
        with pytest.raises((ValueError, TypeError), match=words):
            riesz.Explainer(model, BACKGROUND, unions=unions)
    with pytest.raises(ValueError, match="need the index owen"):
        riesz.Explainer(model, BACKGROUND, unions=[["age", "sex"]], index="banzhaf")
