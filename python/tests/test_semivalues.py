"""Semivalues other than Shapley's against the enumeration of all coalitions."""

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
    """The weight of a coalition, by Marichal and Mathonet 2011, and Kwon and Zou 2022."""
    if index.startswith("beta"):
        a, b = (float(v) for v in index[13:-1].split(","))
        return beta_function(s + b, d - 1 - s + a) / beta_function(a, b)
    if index.startswith("semivalue"):
        nodes = [[float(v) for v in pair.split(":")] for pair in index[10:-1].split(",")]
        return sum(w * t**s * (1 - t) ** (d - 1 - s) for t, w in nodes)
    t = {"banzhaf": 0.5, "leave-one-out": 1.0, "first-order": 0.0, "banzhaf(0.3)": 0.3}[index]
    return t**s * (1 - t) ** (d - 1 - s)


def enumerated(f, index, row):
    d = X.shape[1]
    coalition_values = {}
    for size in range(d + 1):
        for present in combinations(range(d), size):
            rows = BACKGROUND.copy()
            rows[:, present] = row[list(present)]
            coalition_values[present] = f(rows).mean()
    values = np.zeros(d)
    for present, v in coalition_values.items():
        for j in set(range(d)) - set(present):
            values[j] += weight(index, d, len(present)) * (coalition_values[tuple(sorted((*present, j)))] - v)
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
    explanation = riesz.Explainer(model, BACKGROUND, index=index)(ROWS)
    for i, row in enumerate(ROWS):
        truth = enumerated(model.predict, index, row)
        assert (
            np.abs(explanation.values[i] - truth).max() <= explanation.bound[i] + 1e-9 * np.abs(truth).max()
        )
    assert (
        explanation.certificate is None
        and "exact within" in repr(explanation)
        and explanation.exactness == "exact"
    )
    left = explanation.predictions - explanation.base_values - explanation.values.sum(axis=1)
    assert np.allclose(explanation.residual, left) and np.abs(left).max() > 1e-3


def test_an_index_stays_with_its_values(tmp_path):
    model = SVR(C=100.0).fit(X, y)
    explanation = riesz.Explainer(model, BACKGROUND, index="beta_shapley(16,1)")(ROWS)
    assert explanation.index == "beta-shapley(16, 1)" and "Beta(16, 1)-Shapley values" in repr(explanation)
    explanation.save(tmp_path / "a.json")
    import pickle

    for copy in [
        riesz.Explanation.load(tmp_path / "a.json"),
        pickle.loads(pickle.dumps(explanation)),
        explanation[:2],
    ]:
        assert copy.index == explanation.index
    explanation.report(tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    assert "Beta(16, 1)-Shapley value" in page and "not shared out" in page
    assert riesz.Explainer(model, BACKGROUND)(ROWS).index == "shapley"


def test_measures_are_given_by_nodes_and_weights(tmp_path):
    import copy
    import pickle

    model = SVR(C=100.0).fit(X, y)
    nodes, weights = np.polynomial.legendre.leggauss(3)
    index = riesz.Semivalue(0.5 + 0.5 * nodes, weights / 2)
    for measure in [index, copy.deepcopy(index), pickle.loads(pickle.dumps(index))]:
        explanation = riesz.Explainer(model, BACKGROUND, index=measure)(ROWS)
        assert explanation.index == index and explanation.index.count(":") == 3
    # Three nodes are exact for six features.
    shapley = riesz.Explainer(model, BACKGROUND)(ROWS)
    assert np.all(np.abs(explanation.values - shapley.values) <= (explanation.bound + shapley.bound)[:, None])
    assert explanation.certificate is None and "semivalues(" in repr(explanation)
    explanation.save(tmp_path / "a.json")
    assert riesz.Explanation.load(tmp_path / "a.json").index == explanation.index
    many_nodes = riesz.Explainer(
        model, BACKGROUND, index=riesz.Semivalue(np.linspace(0, 1, 9), np.full(9, 1 / 9))
    )(ROWS)
    many_nodes.report(tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    assert "semivalue by 9 probabilities" in page and "whose mean is 0.5" in page
    with pytest.raises(ValueError, match="one of each"):
        riesz.Semivalue([0.1, 0.2], [1.0])
    with pytest.raises(ValueError, match="weights must sum to 1, but sum to 0.9"):
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
def test_invalid_indices_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        riesz.Explainer(SVR().fit(X, y), BACKGROUND, **arguments)


def test_functions_have_shapley_values():
    f = lambda rows: rows.sum(axis=1)
    with pytest.raises(ValueError, match="index belongs to models whose kernel is known"):
        riesz.Explainer(f, BACKGROUND, index="banzhaf")
    assert riesz.Explainer(f, BACKGROUND, index="shapley")(ROWS).index == "shapley"


def test_plots_show_the_part_not_shared_out():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    explanation = riesz.Explainer(SVR(C=100.0).fit(X, y), BACKGROUND, index="leave-one-out")(ROWS)
    ax = riesz.plots.waterfall(explanation[0])
    assert "not shared out" in [label.get_text() for label in ax.get_yticklabels()]
    ends = [bar.get_x() + bar.get_width() for bar in ax.patches]
    assert np.isclose(ends[-1], explanation.predictions[0])
    assert riesz.plots.force(explanation[0]) is not None
    assert "leave-one-out value" in riesz.plots.beeswarm(explanation).get_xlabel()
