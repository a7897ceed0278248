"""Values other than Shapley's against all coalitions, by calls of the model."""

from itertools import combinations

import numpy as np
import pytest
from scipy.special import beta as beta_function
from sklearn.datasets import load_diabetes
from sklearn.ensemble import BaggingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVR

import riesz

X, y = load_diabetes(return_X_y=True)
X = X[:, :6] * 20.0
BACKGROUND, ROWS = X[:7], X[100:103]


def weight(index, d, s):
    """Of Marichal and Mathonet 2011, and Kwon and Zou 2022."""
    if index.startswith("beta"):
        a, b = (float(v) for v in index[13:-1].split(","))
        return beta_function(s + b, d - 1 - s + a) / beta_function(a, b)
    if index.startswith("semivalue"):
        chances = [[float(v) for v in one.split(":")] for one in index[10:-1].split(",")]
        return sum(w * t**s * (1 - t) ** (d - 1 - s) for t, w in chances)
    t = {"banzhaf": 0.5, "leave-one-out": 1.0, "first-order": 0.0, "banzhaf(0.3)": 0.3}[index]
    return t**s * (1 - t) ** (d - 1 - s)


def enumerated(f, index, row):
    d = X.shape[1]
    worth = {}
    for size in range(d + 1):
        for present in combinations(range(d), size):
            rows = BACKGROUND.copy()
            rows[:, present] = row[list(present)]
            worth[present] = f(rows).mean()
    values = np.zeros(d)
    for present, v in worth.items():
        for j in set(range(d)) - set(present):
            values[j] += weight(index, d, len(present)) * (worth[tuple(sorted((*present, j)))] - v)
    return values


INDICES = [
    "banzhaf",
    "banzhaf(0.3)",
    "leave-one-out",
    "first-order",
    "beta-shapley(4, 1)",
    "beta-shapley(.5,2)",
]


@pytest.mark.parametrize("index", [*INDICES, riesz.Semivalue([0.1, 0.6, 1.0], weights=[0.25, 0.5, 0.25])])
@pytest.mark.parametrize("kind", ["svr", "bagging"])
def test_semivalues_are_their_definition(index, kind):
    model = (
        SVR(C=100.0)
        if kind == "svr"
        else BaggingRegressor(KernelRidge(kernel="rbf", gamma=0.1), 3, random_state=0)
    )
    model.fit(X[:200], y[:200])
    found = riesz.Explainer(model, BACKGROUND, index=index)(ROWS)
    for i, row in enumerate(ROWS):
        truth = enumerated(model.predict, index, row)
        assert np.abs(found.values[i] - truth).max() <= found.bound[i] + 1e-9 * np.abs(truth).max()
    assert found.certificate is None and "exact within" in repr(found) and found.exactness == "exact"
    left = found.predictions - found.base_values - found.values.sum(axis=1)
    assert np.allclose(found.residual, left) and np.abs(left).max() > 1e-3


def test_an_index_stays_with_its_values(tmp_path):
    model = SVR(C=100.0).fit(X, y)
    found = riesz.Explainer(model, BACKGROUND, index="beta_shapley(16,1)")(ROWS)
    assert found.index == "beta-shapley(16, 1)" and "Beta(16, 1)-Shapley values" in repr(found)
    found.save(tmp_path / "a.json")
    import pickle

    for copy in [riesz.Explanation.load(tmp_path / "a.json"), pickle.loads(pickle.dumps(found)), found[:2]]:
        assert copy.index == found.index
    found.report(tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    assert "Beta(16, 1)-Shapley value" in page and "not shared out" in page
    assert riesz.Explainer(model, BACKGROUND)(ROWS).index == "shapley"


def test_a_measure_is_given_by_its_rule(tmp_path):
    import copy
    import pickle

    model = SVR(C=100.0).fit(X, y)
    nodes, weights = np.polynomial.legendre.leggauss(3)
    index = riesz.Semivalue(0.5 + 0.5 * nodes, weights / 2)
    for own in [index, copy.deepcopy(index), pickle.loads(pickle.dumps(index))]:
        found = riesz.Explainer(model, BACKGROUND, index=own)(ROWS)
        assert found.index == index and found.index.count(":") == 3
    # Three nodes are exact for six features.
    shapley = riesz.Explainer(model, BACKGROUND)(ROWS)
    assert np.all(np.abs(found.values - shapley.values) <= (found.bound + shapley.bound)[:, None])
    assert found.certificate is None and "semivalues(" in repr(found)
    found.save(tmp_path / "a.json")
    assert riesz.Explanation.load(tmp_path / "a.json").index == found.index
    many = riesz.Explainer(model, BACKGROUND, index=riesz.Semivalue(np.linspace(0, 1, 9), np.full(9, 1 / 9)))(
        ROWS
    )
    many.report(tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    assert "semivalue by 9 chances" in page and "whose mean is 0.5" in page
    with pytest.raises(ValueError, match="one of each"):
        riesz.Semivalue([0.1, 0.2], [1.0])
    with pytest.raises(ValueError, match="weights sum to 1, and these to 0.9"):
        riesz.Explainer(model, BACKGROUND, index=riesz.Semivalue([0.1, 0.2], [0.5, 0.4]))


def test_beta_1_1_are_shapley_values():
    model = SVR(C=100.0).fit(X, y)
    shapley, beta = (
        riesz.Explainer(model, BACKGROUND, index=index)(ROWS) for index in [None, "beta-shapley(1,1)"]
    )
    assert np.array_equal(shapley.values, beta.values) and beta.certificate.holds


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"index": "banzhof"}, "index = 'banzhof' is not allowed: it is shapley, owen, banzhaf"),
        ({"index": "banzhaf(2)"}, "from 0 to 1"),
        ({"index": 2}, "it is shapley, owen, banzhaf"),
        ({"index": "banzhaf", "game": "observational"}, "index"),
    ],
)
def test_indices_that_there_are_not(arguments, words):
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        riesz.Explainer(SVR().fit(X, y), BACKGROUND, **arguments)


def test_functions_have_shapley_values():
    f = lambda rows: rows.sum(axis=1)
    with pytest.raises(ValueError, match="index belongs to models whose kernel is known"):
        riesz.Explainer(f, BACKGROUND, index="banzhaf")
    assert riesz.Explainer(f, BACKGROUND, index="shapley")(ROWS).index == "shapley"


def test_plots_show_what_is_not_shared_out():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    found = riesz.Explainer(SVR(C=100.0).fit(X, y), BACKGROUND, index="leave-one-out")(ROWS)
    ax = riesz.plots.waterfall(found[0])
    assert "not shared out" in [label.get_text() for label in ax.get_yticklabels()]
    ends = [bar.get_x() + bar.get_width() for bar in ax.patches]
    assert np.isclose(ends[-1], found.predictions[0])
    assert riesz.plots.force(found[0]) is not None
    assert "leave-one-out value" in riesz.plots.beeswarm(found).get_xlabel()
