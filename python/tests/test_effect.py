"""Effects from one table. The numbers are those of the library; these tests are about calls, results,
files and refusals in Python."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import riesz

GRAPH = "z -> x; z -> y; x -> y"
TIME = "l0 -> a0; l0 -> l1; l0 -> y; a0 -> l1; l1 -> a1; a0 -> y; l1 -> y; a1 -> y"


def table(n=120, seed=1):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    x = z + rng.normal(size=n)
    return pd.DataFrame(
        {
            "z": z,
            "x": x,
            "site": np.where(rng.random(n) < 0.5, "a", "b"),
            "y": 1.5 * x - 2 * z + 0.5 * rng.normal(size=n),
        }
    )


def visits(n=150, seed=2):
    rng = np.random.default_rng(seed)
    l0 = rng.normal(size=n)
    a0 = 0.6 * l0 + rng.normal(size=n)
    l1 = 0.7 * a0 + l0 + 0.7 * rng.normal(size=n)
    a1 = 0.5 * l1 + rng.normal(size=n)
    y = a0 + 2 * a1 + 1.5 * l1 + 0.5 * l0 + 0.5 * rng.normal(size=n)
    return pd.DataFrame({"l0": l0, "a0": a0, "l1": l1, "a1": a1, "y": y})


def fitted(data=None, graph=GRAPH, treatment="x", name=riesz.CausalEffect, **options):
    model = name(
        graph, treatment=treatment, outcome="y", n_hyperparameter_samples=2, random_state=0, **options
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(table() if data is None else data)


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.fixture(scope="module")
def plan():
    return fitted(visits(), TIME, ["a0", "a1"])


def holds(estimate, truth, widest):
    assert np.all(np.abs(estimate.mean - truth) < 4 * estimate.std) and np.all(estimate.std < widest), (
        estimate
    )


def test_back_door(model):
    assert model.identification_.strategy == "back_door" and model.identification_.adjust == ("z",)
    estimate = model.effect([0.0, 1.0], baseline=0.0)
    assert estimate.mean[0] == pytest.approx(0, abs=1e-12)
    holds(model.effect([1.0], baseline=0.0), 1.5, 0.3)
    holds(model.slope([-0.5, 0.5]), 1.5, 0.4)
    assert set(model.effect(0.5).variance_by_source) == {
        "outcome regression",
        "adjustment",
        "hyper-parameters",
    }
    # Adjustment matters: the observed slope is 0.5.
    assert model.association(1.0, baseline=0.0).mean[0] < 1.0
    holds(model.effect(0.5, population={"z": [0.0, 1.0]}), 0.75 - 1.0, 0.3)
    holds(model.effect(0.5, conditions={"z": 1.0}), 0.75 - 2.0, 0.4)
    assert model.effect([0.5], among=0.0).std[0] > 0


def test_one_table_in_a_list_and_by_the_other_name_is_the_same(model):
    again = fitted([table()])
    other = fitted(name=riesz.CausalFusion)
    expected = model.effect([-1.0, 0.5]).mean
    np.testing.assert_array_equal(again.effect([-1.0, 0.5]).mean, expected)
    np.testing.assert_array_equal(other.effect([-1.0, 0.5]).mean, expected)
    shuffled = table().sample(frac=1, random_state=0)[["y", "x", "site", "z"]]
    np.testing.assert_array_equal(fitted(shuffled).effect([-1.0, 0.5]).mean, expected)
    kept = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(kept.effect([-1.0, 0.5]).mean, expected)
    assert clone(model).get_params() == model.get_params() and repr(clone(model)).startswith("CausalEffect(")


def test_front_door():
    rng = np.random.default_rng(3)
    u = rng.normal(size=200)
    x = u + rng.normal(size=200)
    m = 0.8 * x + 0.7 * rng.normal(size=200)
    data = pd.DataFrame({"x": x, "m": m, "y": 1.5 * m + u + 0.3 * rng.normal(size=200)})
    front = fitted(data, "x -> m -> y; x <-> y")
    assert front.identification_.front_door == ("m",)
    holds(front.slope([0.0, 0.5]), 1.2, 0.4)
    assert {"outcome regression", "stage 1", "interaction"} <= set(front.effect(0.5).variance_by_source)
    with pytest.raises(ValueError, match="is not averaged over covariates"):
        front.effect(0.5, population={"m": [0.0]})


def test_treatments_in_time(plan):
    assert plan.identification_.strategy == "sequential"
    assert plan.identification_.steps == (("a0", ("l0",)), ("a1", ("l1",)))
    grid = pd.DataFrame({"a1": [0.0, 1.0, 1.0], "a0": [1.0, 0.0, 1.0]})
    holds(plan.effect(grid, baseline={"a0": 0.0, "a1": 0.0}), [2.05, 2.0, 4.05], 0.6)
    holds(plan.slope(grid, "a1"), 2.0, 0.5)
    drawn = plan.effect(grid).sample(500, random_state=0)
    assert drawn.shape == (3, 500)
    with pytest.raises(ValueError, match="set at one time"):
        plan.explain(grid)
    best = plan.suggest(1, bounds={"a0": (-1, 1), "a1": (-1, 1)})
    assert len(best.to_frame()) == 1


def test_explanations_and_experiments(model):
    why = model.explain([0.5, 1.0])
    np.testing.assert_allclose(
        why.base_values[0] + why.values.sum(axis=1), model.effect([0.5, 1.0]).mean, atol=1e-9
    )
    assert model.value_of_information(1.0, baseline=0.0)["study 1"] > 0
    with pytest.raises(ValueError, match="the effect is from one table"):
        model.explain_mediators(0.5)
    again = clone(model).fit(table())
    assert again.observe([0.5], [1.0], std=0.1).posterior([0.5]).std[0] < model.effect(0.5).std[0]


def test_pages(model, plan, tmp_path):
    model.report(tmp_path / "effect.html")
    text = (tmp_path / "effect.html").read_text()
    assert "all people of the table" in text and "The regressions" in text and "outcome regression" in text
    plan.report(tmp_path / "plan.html")
    assert "adjusting for l0 before a0, then l1 before a1" in (tmp_path / "plan.html").read_text()


def test_two_classes_are_probabilities():
    rng = np.random.default_rng(5)
    z = rng.normal(size=300)
    x = (z + rng.normal(size=300) > 0).astype(float)
    y = rng.random(300) < 0.3 + 0.3 * x
    for outcome, positive in ((y, "1"), (np.where(y, "yes", "no"), "yes")):
        estimator = riesz.CausalEffect(
            GRAPH, treatment="x", outcome="y", n_hyperparameter_samples=2, random_state=0
        )
        with pytest.warns(UserWarning, match=f"the probability of {positive}"):
            estimator.fit(pd.DataFrame({"x": x, "z": z, "y": outcome}))
        holds(estimator.effect(1.0, baseline=0.0), 0.3, 0.12)


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (
            lambda data: data.drop(columns="y"),
            {},
            "one data frame that has treatment and outcome, of which 'y' is no column",
        ),
        (lambda data: data.to_numpy(), {}, "whose columns have no names"),
        (lambda data: data.assign(x=1.0), {}, "x is the same in all 120 rows"),
        (lambda data: data.head(4), {}, "at least 5"),
        (lambda data: data.drop(columns="z"), {}, "stays open"),
        (lambda data: data, {"treatment": "y"}, "treatment"),
        (lambda data: data, {"treatment": "w"}, "w"),
    ],
)
def test_refusals(change, options, words):
    with pytest.raises(ValueError, match=words):
        fitted(change(table()), **options)


def test_rows_with_missing_cells_are_left_out_with_a_warning():
    data = table()
    data.loc[[3, 7], "z"] = np.nan
    with pytest.warns(UserWarning, match="2 of 120 rows have no value in z"):
        riesz.CausalEffect(GRAPH, treatment="x", outcome="y", n_hyperparameter_samples=0).fit(data)


def test_no_overlap_is_warned_of():
    data = table()
    data["x"] = data.z + 1e-3 * data.x
    with pytest.warns(UserWarning, match="z almost determines x"):
        riesz.CausalEffect(GRAPH, treatment="x", outcome="y", n_hyperparameter_samples=0).fit(data)


def test_dowhy_and_econml_agree(model):
    dowhy, dml = pytest.importorskip("dowhy"), pytest.importorskip("econml.dml")
    data = table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        causal_model = dowhy.CausalModel(
            data, treatment="x", outcome="y", graph="digraph {z -> x; z -> y; x -> y}"
        )
        estimand = causal_model.identify_effect(proceed_when_unidentifiable=True)
        linear = causal_model.estimate_effect(
            estimand, method_name="backdoor.linear_regression", control_value=0, treatment_value=1
        ).value
        forest = dml.LinearDML(random_state=0).fit(data["y"], data["x"], W=data[["z"]]).const_marginal_ate()
    effect = model.effect(1.0, baseline=0.0)
    for other in (float(linear), float(np.ravel(forest)[0])):
        assert abs(effect.mean[0] - other) < 3 * effect.std[0]
