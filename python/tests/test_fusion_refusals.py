"""Error messages for effects across studies."""

import warnings

import numpy as np
import pandas as pd
import pytest
from test_fusion import GRAPH, fitted, linear, several, two_drugs

import riesz


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.fixture(scope="module")
def drugs():
    return two_drugs()


def refused(words, graph=GRAPH, change=lambda first, second: [first, second], **options):
    return pytest.param(graph, change, options, words, id=words[:40])


@pytest.mark.parametrize(
    ("graph", "change", "options", "words"),
    [
        refused("give a list of two data frames or more", change=lambda first, second: first),
        refused("studies is a list of 1: give a list of two", change=lambda first, second: [first]),
        refused(
            "study 2 is a ndarray, whose columns have no names",
            change=lambda first, second: [first, second.to_numpy()],
        ),
        refused("stays open", change=lambda first, second: [first.drop(columns="age"), second]),
        refused("without a graph, say which columns to adjust for", graph=None),
        refused("adjust and randomized exclude one another", adjust="age", randomized=True),
        refused("n_hyperparameter_samples = -1", n_hyperparameter_samples=-1),
        refused("there is no effect to estimate", graph="age -> dose; psa -> volume; dose; psa"),
        refused(
            "volume depends on age beside the mediators.* with chains of three studies or more this is not "
            "computed yet",
            graph=GRAPH.replace("psa -> volume", "psa -> size -> volume; age -> volume"),
            change=lambda first, second: [
                first,
                second.assign(size=second.psa, age=second.psa**2)[["psa", "size", "age"]],
                second.assign(size=second.psa, age=second.psa**2)[["size", "age", "volume"]],
            ],
        ),
        refused(
            "dose is the same in all 60 rows of study 1",
            change=lambda first, second: [first.assign(dose=0.4), second],
        ),
        refused(
            "psa is the same in all 60 rows of study 2",
            change=lambda first, second: [first, second.assign(psa=0.4)],
        ),
        refused(
            "volume is the same in all 60 rows of study 2",
            change=lambda first, second: [first, second.assign(volume=1)],
        ),
        refused("study 2 has 4 rows: at least 5", change=lambda first, second: [first, second.head(4)]),
        refused(
            "study 1 has 2 rows with a value in each of dose, psa, age",
            change=lambda first, second: [first.assign(age=first.age.where(first.index < 2)), second],
        ),
        refused(
            "no common support in psa: it is .* in study 1, and .* in study 2: give both in the same units",
            change=lambda first, second: [first, second.assign(psa=second.psa * 1000 + 9000)],
        ),
        refused(
            "no common support in psa: it is 'I' or 'II' in study 1, which does not occur in study 2",
            change=lambda first, second: [
                first.assign(psa=np.where(first.psa > 0, "I", "II")),
                second.assign(psa=np.where(second.psa > 0, "one", "two")),
            ],
        ),
        refused(
            "the outcome volume is text in study 2",
            change=lambda first, second: [first, second.assign(volume="x")],
        ),
        refused(
            "study 1 is inf in row 3",
            change=lambda first, second: [first.assign(age=[0, 0, 0, np.inf] * 15), second],
        ),
        refused(
            "volume depends on age beside the mediators.* with front doors this is not computed yet",
            graph="dose -> level -> psa -> volume; age -> volume; dose <-> psa",
            change=lambda first, second: [
                first.assign(level=first.dose**2),
                second.assign(age=second.psa**2),
            ],
        ),
    ],
)
def test_what_cannot_be_learnt_is_refused(graph, change, options, words):
    with pytest.raises(ValueError, match=words):
        fitted(change(*linear()), graph, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"conditions": {"bmi": 1}}, "conditions name bmi: the effect is averaged over age"),
        ({"conditions": {}}, "conditions name nothing"),
        ({"conditions": {"age": 1}, "among": 1}, "conditions and among exclude one another"),
        ({"conditions": {"age": [1, 2]}}, "conditions has 2 rows: give one"),
        ({"among": [1, 2]}, "among has 2 rows: give one"),
        ({"baseline": [1, 2]}, "baseline has 2 rows: give one"),
        ({"population": {"bmi": [1.0]}}, "population has no column 'age'"),
        ({"population": {"age": [1.0]}, "population_weights": [-1.0]}, "weights of members = -1"),
        ({"population_weights": [1.0]}, "population_weights are those of a population"),
        ({"grid": {"bmi": 1.0}}, "grid has no column 'dose'"),
        ({"grid": [[1.0, 2.0]]}, "grid has 2 columns: it needs 1, dose"),
        ({"grid": "much"}, "column 'dose' of grid holds values that are not numbers"),
        ({"grid": []}, "grid has no rows"),
        ({"grid": [np.nan]}, "grid is nan in row 0"),
    ],
)
def test_what_cannot_be_asked_is_refused(model, options, words):
    with pytest.raises(ValueError, match=words):
        model.effect(**({"grid": 0.0} | options))


def test_other_refusals(model, drugs):
    with pytest.raises(ValueError, match=r"grid has 1 dimension\(s\): give a data frame, or rows of a, b"):
        drugs.effect([0.1, 0.2])
    with pytest.raises(ValueError, match="treatment = None: say by which treatment, a"):
        drugs.slope({"a": 0, "b": 0})
    with pytest.raises(ValueError, match="slope = c is not allowed: it is by one of the treatments, a, b"):
        drugs.slope({"a": 0, "b": 0}, "c")
    with pytest.raises(ValueError, match="step of a slope = 0 is not allowed: it is a positive number"):
        model.slope(0.0, step=0)
    with pytest.raises(ValueError, match="level = 95: it is between 0 and 1"):
        model.effect(0.0).interval(95)
    with pytest.warns(UserWarning, match="b has no effect in addition to a: leave it out"):
        graph = "age -> a; age -> psa; b -> a; a -> psa; psa -> volume"
        reduced = fitted(several(), graph, treatment=["a", "b"])
    assert reduced.treatments_ == ("a",)


@pytest.mark.parametrize("noise", [0.1, 1.0])
def test_treatments_that_covariates_all_but_decide_are_warned_of(noise):
    rng = np.random.default_rng(3)
    age, kind = rng.normal(size=60), rng.integers(3, size=60)
    dose = age + 0.5 * kind + noise * rng.normal(size=60)
    psa = age - 0.5 * dose + 0.2 * rng.normal(size=60)
    first = pd.DataFrame({"dose": dose, "age": age, "kind": np.array(["a", "b", "c"])[kind], "psa": psa})
    points = rng.uniform(-3, 3, 60)
    second = pd.DataFrame({"psa": points, "volume": points + 0.2 * rng.normal(size=60)})
    model = riesz.CausalFusion(
        treatment="dose", outcome="volume", adjust=["age", "kind"], n_hyperparameter_samples=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit([first, second])
    notes = [note for note in model.warnings_ if "age, kind almost determine dose" in note]
    assert len(notes) == (noise == 0.1)
