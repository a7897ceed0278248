"""The causal game and asymmetric values, against the other games and a plain enumeration of orders."""

import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

import riesz
from riesz.kernels import RBF, Matern

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 4))
X[:, 1] += X[:, 0]
MODEL = riesz.Expansion(RBF([1.0, 1.5, 0.8, 2.0]), points=X[:25], coef=rng.normal(size=25))
ROWS = X[30:33]


def values(game, model=MODEL, rows=ROWS, **options):
    return riesz.Explainer(model, game=game, **options)(rows).values


def test_special_cases_are_the_other_games():
    everything = [[0, 1, 2, 3]]
    for game, causal in [
        (riesz.Interventional(X), riesz.Causal(X, components=everything, confounded=[2])),
        (riesz.Observational(X), riesz.Causal(X, components=everything)),
        (
            riesz.MarginalProduct(X),
            riesz.Causal(X, components=range(4), parents={j: [] for j in range(4)}),
        ),
    ]:
        np.testing.assert_allclose(values(causal), values(game), atol=1e-10)


def test_values_add_up_and_state_the_game():
    game = riesz.Causal(X, components=[[0], [1, 2], [3]], confounded=[1], parents={3: [1]})
    explanation = riesz.Explainer(MODEL, game=game)(ROWS)
    total = explanation.values.sum(axis=1) + explanation.base_values
    np.testing.assert_allclose(total, MODEL.predict(ROWS), atol=1e-10)
    assert explanation.exactness == "exact"
    assert "3 causal components" in str(explanation.provenance)


def test_columns_have_names_or_numbers():
    frame = pd.DataFrame(X, columns=["age", "income", "debt", "rent"])
    by_name = riesz.Causal(
        frame, components=["age", ["income", "debt"], "rent"], confounded=["debt"], parents={"rent": ["age"]}
    )
    by_number = riesz.Causal(X, components=[0, [1, 2], 3], confounded=[2], parents={3: [0]})
    named = riesz.Explainer(MODEL, game=by_name)(frame[30:33])
    assert named.feature_names == list(frame)
    np.testing.assert_array_equal(named.values, values(by_number))


def test_graphs_state_the_structure():
    graph = "x0 -> x1, x2; x1 <-> x2; x2 -> hidden -> x3 -> outcome"
    structure = riesz.Causal(
        X, components=[0, [1, 2], 3], confounded=[1], parents={0: [], 1: [0], 3: [2]}, conditional_ridge=0.01
    )
    actual = values(riesz.Causal(X, graph=graph, conditional_ridge=0.01))
    np.testing.assert_array_equal(actual, values(structure))
    for graph, message in [
        ("x0 -> x1 -> x2", "no variable 'x3'"),
        ("x0 -> x1; x0 <-> x1; x2 -> x3", "x0 <-> x1"),
    ]:
        with pytest.raises(ValueError, match=message):
            values(riesz.Causal(X, graph=graph))
    with pytest.raises(ValueError, match="whole structure"):
        values(riesz.Causal(X, components=[0, 1, 2, 3], graph="x0 -> x1"))


def test_pipelines_have_the_components_of_their_columns():
    y = X[:, 0] - X[:, 1] * X[:, 2]
    scaled = make_pipeline(StandardScaler(), SVR(gamma=0.3)).fit(X, y)
    scaler = scaled[0]
    structure = {"components": [[2], [0, 1], [3]], "conditional_ridge": 0.01}
    kernel = RBF(1.0)
    actual = values(riesz.Causal(X, conditioning_kernel=kernel, **structure), scaled)
    units = scaler.transform(X)
    expected = values(
        riesz.Causal(units, conditioning_kernel=kernel, **structure), scaled[1], scaler.transform(ROWS)
    )
    np.testing.assert_allclose(actual, expected, atol=1e-9)


@pytest.mark.parametrize("game", [riesz.Observational(X), riesz.Causal(X, components=[0, [1, 2], 3])])
def test_asymmetric_values_average_over_the_orders_with_earlier_groups_first(game):
    symmetric = riesz.Explainer(MODEL, game=game)(ROWS)

    def coalition(members):
        outside = [j for j in range(4) if j not in members]
        ordering = [sorted(members), outside]
        if not members or not outside:
            return symmetric.base_values + (symmetric.values.sum(axis=1) if members else 0)
        return symmetric.base_values + values(game, ordering=ordering)[:, sorted(members)].sum(axis=1)

    groups = [[2, 0], [3, 1]]
    orders = [
        first + second
        for first, second in itertools.product(*(itertools.permutations(group) for group in groups))
    ]
    expected = np.zeros_like(symmetric.values)
    for order in orders:
        for k, player in enumerate(order):
            step = coalition(set(order[: k + 1])) - coalition(set(order[:k]))
            expected[:, player] += step / len(orders)
    np.testing.assert_allclose(values(game, ordering=groups), expected, atol=1e-10)
    np.testing.assert_array_equal(values(game, ordering=[[0, 1, 2, 3]]), symmetric.values)
    provenance = riesz.Explainer(MODEL, game=game, ordering=groups)(ROWS).provenance
    assert provenance.run["asymmetric, in the order"] == "x0, x2; x1, x3"


def test_refine_continues_estimates_of_ordered_groups():
    wide = np.random.default_rng(1).normal(size=(30, 9))
    model = riesz.Expansion(RBF([2.0] * 9), points=wide, coef=wide[:, 0])
    game = riesz.Causal(wide, components=range(9), conditional_ridge=0.1)
    ordering = [[8], list(range(8))]
    explainer = riesz.Explainer(model, game=game, ordering=ordering, n_coalitions=40)
    explanation = explainer(wide[:2])
    assert explanation.exactness == "estimated"
    refined = explainer.refine(explanation, 80)
    expected = riesz.Explainer(model, game=game, ordering=ordering, n_coalitions=80)(wide[:2])
    np.testing.assert_allclose(refined.values, expected.values, atol=1e-12)
    # Groups of few features need few coalitions.
    ordering = [list(range(4)), list(range(4, 9))]
    exact = riesz.Explainer(model, game=game, ordering=ordering, n_coalitions=40)
    assert exact.exactness == "exact"


@pytest.mark.parametrize(
    ("game", "message"),
    [
        (riesz.Causal(X), "give components"),
        (riesz.Causal(X, components=[[0, 1], [2, "age"]]), "components names a column 'age'"),
        (riesz.Causal(X, components=[[0, 1], [2, 7]]), "components names a column 7"),
        (riesz.Causal(X, components=[[0, 1], [1, 2, 3]]), "one component only"),
        (riesz.Causal(X, components=[[0, 1], [3]]), "without 'x2'"),
        (riesz.Causal(X, components=[[0, 1], [2, 3]], confounded=["age"]), "confounded names a column 'age'"),
        (riesz.Causal(X, components=[0, 1, 2, 3], parents={0: [1], 1: [0]}), "causes first"),
        (riesz.Causal(X, components=[0, 1, 2, 3], parents={0: ["age"]}), "parents names a column 'age'"),
    ],
)
def test_invalid_structures_are_refused(game, message):
    with pytest.raises(ValueError, match=message):
        riesz.Explainer(MODEL, game=game)


def test_settings_of_the_wrong_type_are_refused():
    for game, message in [
        (riesz.Causal(X, components="age"), "list of columns"),
        (riesz.Causal(X, components=[[0, 1], [2, 3]], confounded=True), "list of columns"),
        (riesz.Causal(X, components=[[0, 1], [2, 3]], parents=[0]), "dict from a column"),
        (riesz.Causal(X, components=[[0, 1], [2.5, 3]]), "names or whole numbers"),
    ]:
        with pytest.raises(TypeError, match=message):
            riesz.Explainer(MODEL, game=game)


def test_requests_without_an_answer_are_refused():
    components = [0, 1, 2, 3]
    with pytest.raises(riesz.UnsupportedModelError, match="not known to have a kernel"):
        riesz.Explainer(lambda rows: rows[:, 0], game=riesz.Causal(X, components=components))
    joint = riesz.Expansion(Matern(1.0, nu=1.5, isotropic=True), points=X[:9], coef=np.ones(9))
    with pytest.raises(riesz.UnsupportedModelError, match="ties the columns"):
        riesz.Explainer(joint, game=riesz.Causal(X, components=components))
    with pytest.raises(ValueError, match="observational and the causal game"):
        riesz.Explainer(MODEL, X, ordering=[[0, 1], [2, 3]])
    with pytest.raises(ValueError, match="ordering names a feature 'age'"):
        riesz.Explainer(MODEL, X, game="observational", ordering=[["age"], [0, 1, 2, 3]])
    with pytest.raises(ValueError, match="without 'x3'"):
        riesz.Explainer(MODEL, X, game="observational", ordering=[[0], [1, 2]])
    process = GaussianProcessRegressor().fit(X, X[:, 0])
    with pytest.raises(ValueError, match="causal"):
        riesz.Explainer(process, game=riesz.Causal(X, components=components), covariance=True)
