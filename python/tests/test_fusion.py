"""Effects across studies, against worlds with known effects and against consequences of their joint
covariance."""

import os
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import riesz

GRAPH = "age -> dose; age -> psa; dose -> psa; psa -> volume"
GRID = np.array([-1.5, -0.5, 0.0, 1.0])


def linear(seed=0, n=60):
    """The slope of volume with respect to dose is -1 if the dose is set, and +0.2 if it is observed: age
    increases both the dose and psa."""
    rng = np.random.default_rng(seed)
    age = rng.normal(size=n)
    dose = age + 0.8 * rng.normal(size=n)
    first = pd.DataFrame({"age": age, "dose": dose, "psa": age - 0.5 * dose + 0.2 * rng.normal(size=n)})
    psa = 1.5 * rng.normal(size=n)
    return [first, pd.DataFrame({"psa": psa, "volume": 2 * psa + 3 + 0.2 * rng.normal(size=n)})]


def several(seed=3, n=50):
    """Two drugs."""
    rng = np.random.default_rng(seed)
    age = rng.normal(size=n)
    first = pd.DataFrame(
        {"age": age, "b": 0.5 * age + rng.normal(size=n), "a": rng.normal(size=n) - 0.5 * age}
    )
    first["psa"] = age + np.sin(first.a) - 0.6 * first.b + 0.3 * first.a * first.b + 0.2 * rng.normal(size=n)
    psa = 2 * rng.normal(size=n)
    return [first, pd.DataFrame({"psa": psa, "volume": psa + np.cos(psa) + 0.2 * rng.normal(size=n)})]


def fitted(studies=None, graph=GRAPH, **options):
    options = {
        "treatment": "dose",
        "outcome": "volume",
        "n_hyperparameter_samples": 4,
        "random_state": 0,
    } | options
    return riesz.CausalFusion(graph, **options).fit(linear() if studies is None else studies)


@pytest.fixture(scope="module")
def model():
    return fitted()


def two_drugs():
    graph = "age -> a; age -> b; age -> psa; a -> psa; b -> psa; psa -> volume"
    return fitted(several(), graph, treatment=["a", "b"])


@pytest.fixture(scope="module")
def drugs():
    return two_drugs()


def test_setting_is_not_seeing():
    scores, seen = [], []
    for seed in range(10):
        contrast = fitted(linear(seed), n_hyperparameter_samples=8).effect(1.0, baseline=0.0)
        scores.append((contrast.mean[0] + 1.0) / contrast.std[0])
        seen.append(fitted(linear(seed), None, randomized=True).effect(1.0, baseline=0.0).mean[0])
    assert 0.0 < np.median(seen) < 0.4
    assert np.sum(np.abs(scores) < 1.96) >= 8 and np.max(np.abs(scores)) < 4
    # The posterior is not so certain that all scores are near 0.
    assert np.max(np.abs(scores)) > 0.3


def test_levels_of_the_effect(model):
    effect = model.effect(GRID)
    # The mean age of the sample is off by -0.1 to 0.1, and this error counts twice in volume.
    np.testing.assert_array_less(np.abs(effect.mean - (3 - GRID)), 3 * effect.std)
    low, high = effect.interval(0.8)
    np.testing.assert_allclose(high - low, 2 * 1.2815515655446004 * effect.std)
    drawn = effect.interval(0.8, n_samples=4000, random_state=0)
    np.testing.assert_allclose(drawn, [low, high], atol=0.15 * effect.std.max())
    assert effect.support.all() and not model.effect([40.0]).support.any()
    assert model.identification_.adjust == ("age",) and model.treatments_ == ("dose",)
    assert "do(dose)" in repr(effect) and "adjustment" in repr(effect)
    frame = effect.to_frame()
    assert list(frame.dose) == list(GRID) and {
        "mean",
        "std",
        "low",
        "high",
        "std_study 1",
        "std_interaction",
    } <= set(frame)


def test_parts_of_the_variance_add_up(model):
    for effect in (
        model.effect(GRID),
        model.effect(GRID, baseline=0.3),
        model.effect(GRID, conditions={"age": 1.0}),
    ):
        assert list(effect.variance_by_source) == [
            "study 1",
            "study 2",
            "interaction",
            "adjustment",
            "hyper-parameters",
        ]
        np.testing.assert_allclose(sum(effect.covariance_by_source.values()), effect.cov, atol=1e-12)
        np.testing.assert_allclose(sum(effect.variance_by_source.values()), effect.std**2, atol=1e-12)
        for part_covariance in effect.covariance_by_source.values():
            assert np.linalg.eigvalsh(part_covariance).min() > -1e-9 * np.trace(effect.cov)


def test_contrasts_use_the_covariance_of_doses(model):
    effects = model.effect([1.0, 0.2])
    contrast = model.effect(1.0, baseline=0.2)
    assert contrast.mean[0] == pytest.approx(effects.mean[0] - effects.mean[1])
    assert contrast.std[0] ** 2 == pytest.approx(
        effects.cov[0, 0] + effects.cov[1, 1] - 2 * effects.cov[0, 1], rel=1e-9
    )
    assert contrast.std[0] < 0.7 * np.hypot(*effects.std)
    assert model.effect(0.2, baseline=0.2).std[0] == pytest.approx(0.0, abs=1e-6)
    assert model.effect(1.0, baseline={"dose": 0.2}).mean == contrast.mean
    drawn = contrast.sample(20000, 1)
    assert drawn.shape == (1, 20000)
    assert abs(drawn.mean() - contrast.mean[0]) < 5 * contrast.std[0] / np.sqrt(20000)
    assert drawn.std() == pytest.approx(contrast.std[0], rel=0.05)


def test_draws_have_the_moments(model):
    effect = model.effect(GRID)
    drawn = effect.sample(20000, 0)
    assert np.array_equal(drawn, effect.sample(20000, 0))
    np.testing.assert_array_less(np.abs(drawn.mean(axis=1) - effect.mean), 5 * effect.std / np.sqrt(20000))
    size = np.outer(effect.std, effect.std)
    np.testing.assert_allclose(np.cov(drawn) / size, effect.cov / size, atol=0.05)


def test_slopes_are_limits_of_contrasts(model):
    slope = model.slope(GRID)
    np.testing.assert_array_less(np.abs(slope.mean + 1.0), 4 * slope.std)
    near = model.slope(GRID, step=1e-3)
    np.testing.assert_allclose(slope.mean, near.mean, rtol=1e-4)
    np.testing.assert_allclose(slope.cov, near.cov, rtol=1e-3, atol=1e-6)
    two = model.effect([0.5], baseline=[0.3])
    assert model.slope(0.4, step=0.1).mean[0] == pytest.approx(two.mean[0] / 0.2)
    assert model.slope(0.4, step=0.1).std[0] == pytest.approx(two.std[0] / 0.2, rel=1e-6)


def test_populations_and_conditions(model):
    first = linear()[0]
    everyone, study_effect = model.effect(GRID), model.effect(GRID, population=first)
    # The population of study 1 as it is has the same effect, except for the sampling of its people.
    np.testing.assert_allclose(study_effect.mean, everyone.mean)
    np.testing.assert_allclose(
        study_effect.cov, everyone.cov - everyone.covariance_by_source["adjustment"], atol=1e-10
    )
    assert "adjustment" not in study_effect.variance_by_source
    # Means over populations are means of their members' effects.
    members = pd.DataFrame({"age": [-1.0, 0.5], "count": [1.0, 3.0]})
    member_effects = [model.effect(GRID, population={"age": [age]}).mean for age in members.age]
    np.testing.assert_allclose(
        model.effect(GRID, population=members, population_weights="count").mean,
        0.25 * member_effects[0] + 0.75 * member_effects[1],
    )
    np.testing.assert_allclose(
        model.effect(GRID, population=members, population_weights=[2, 0]).mean, member_effects[0]
    )
    np.testing.assert_allclose(model.effect(GRID, conditions={"age": -1.0}).mean, member_effects[0])
    # psa increases with age, and volume with twice the age; the mean age given a dose of 1 is 1/1.64.
    for effect, age in [
        (model.effect(GRID, conditions={"age": 1.0}), 1.0),
        (model.effect(GRID, among=1.0), 1 / 1.64),
    ]:
        np.testing.assert_array_less(np.abs(effect.mean - (3 - GRID + 2 * age)), 3 * effect.std + 0.1)
    assert (
        "age = 1" in model.effect(GRID, conditions={"age": 1.0}).description
        and "dose = 1" in model.effect(0.0, among=1.0).description
    )


def test_two_covariates():
    rng = np.random.default_rng(50)
    first, second = linear(5, 80)
    first["bmi"] = 0.8 * first.age + 0.6 * rng.normal(size=80)
    first["dose"] += first.bmi
    model = fitted([first, second], GRAPH + "; age -> bmi; bmi -> dose; bmi -> psa")
    assert model.identification_.adjust == ("age", "bmi")
    conditional = model.effect([0.0, 1.0], conditions={"bmi": 0.5, "age": 1.0})
    np.testing.assert_allclose(
        conditional.mean, model.effect([0.0, 1.0], population={"age": [1.0], "bmi": [0.5]}).mean
    )
    # The mean of volume is 3 + 2 age + bmi - dose; given bmi the mean of age is 0.8 bmi, and given age the
    # mean of bmi is 0.8 age.
    partial = model.effect([0.0, 1.0], conditions={"bmi": 0.5})
    np.testing.assert_array_less(np.abs(partial.mean - [4.3, 3.3]), 3 * partial.std)
    partial = model.effect([0.0, 1.0], conditions={"age": 1.0})
    np.testing.assert_array_less(np.abs(partial.mean - [5.8, 4.8]), 3 * partial.std)
    assert partial.variance_by_source["adjustment"][0] > 0 and partial.description.endswith(
        "of those with age = 1"
    )


def test_covariates_that_both_studies_share():
    """The outcome also depends on age."""
    first, second = linear()
    rng = np.random.default_rng(0)
    second["age"] = 0.5 * second.psa + rng.normal(size=60)
    second["volume"] += 3 * second.age
    model = fitted([first, second], GRAPH + "; age -> volume")
    assert model.identification_.bridges[-1].passive == ("age",) and set(model.unmatched_) == {"age", "psa"}
    effect, contrast = model.effect(GRID), model.effect(1.0, baseline=0.0)
    # Without age the slope of volume with respect to psa would exceed 2.
    assert abs(contrast.mean[0] + 1.0) < 2 * contrast.std[0] < 0.5
    np.testing.assert_array_less(np.abs(effect.mean - (3 - GRID)), 3 * effect.std)
    drawn = effect.sample(20000, 0)
    np.testing.assert_allclose(drawn.std(axis=1), effect.std, rtol=0.05)
    explanation = model.explain(GRID, covariance=True)
    np.testing.assert_allclose(explanation.values.sum(axis=1) + explanation.base_values.ravel(), effect.mean)
    covariance, turn = model.effect(np.append(GRID[0], first.dose)).cov, np.append(1.0, np.full(60, -1 / 60))
    assert explanation.covariance[0, 0, 0] == pytest.approx(turn @ covariance @ turn, rel=1e-6)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).effect(GRID).cov, effect.cov)
    with pytest.raises(
        ValueError, match="conditions: both studies share age, on which volume depends.*not computed yet"
    ):
        model.effect(0.0, conditions={"age": 1.0})


def test_order_and_threads_change_nothing(model, tmp_path):
    first, second = linear()
    moved = [
        first.sample(frac=1, random_state=1)[["psa", "dose", "age"]].assign(sex="f"),
        second.sample(frac=1, random_state=2),
    ]
    expected = model.effect(GRID)
    assert np.array_equal(fitted(moved).effect(GRID).cov, expected.cov)
    script = "import sys, pickle; model = pickle.load(open(sys.argv[1], 'rb')); "
    script += "print(model.effect([-1.5, -0.5, 0.0, 1.0]).cov.tobytes().hex())"
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(model))
    for threads in ("1", "3"):
        call = [sys.executable, "-c", script, str(tmp_path / "model.pickle")]
        run = subprocess.run(
            call, env=os.environ | {"RAYON_NUM_THREADS": threads}, capture_output=True, text=True, check=True
        )
        assert run.stdout.strip() == expected.cov.tobytes().hex()


def test_explanations_follow_from_the_joint_covariance(drugs):
    """Shapley values of two treatments are sums over effects at rows with mixed treatments."""
    rng = np.random.default_rng(0)
    background, x = rng.normal(size=(5, 2)), np.array([0.8, -1.1])
    explanation = drugs.explain(x[None], background, covariance=True)
    joined = lambda left, right: np.column_stack([np.broadcast_to(left, 5), np.broadcast_to(right, 5)])
    ends = [background, joined(x[0], background[:, 1]), joined(background[:, 0], x[1]), joined(*x)]
    effect = drugs.effect(np.vstack(ends))
    turn = np.kron([[-0.5, 0.5, -0.5, 0.5], [-0.5, -0.5, 0.5, 0.5]], np.full((1, 5), 0.2))
    np.testing.assert_allclose(explanation.values[0], turn @ effect.mean, atol=1e-9)
    np.testing.assert_allclose(explanation.covariance[0], turn @ effect.cov @ turn.T, atol=1e-9)
    assert np.trace(explanation.covariance[0]) > 1e-4


def test_explanations_add_up(drugs):
    first = several()[0]
    doses = first[["b", "a"]].head(8)
    explanation, effect = drugs.explain(doses, covariance=True), drugs.effect(doses)
    assert (
        explanation.feature_names == ["a", "b"]
        and explanation.output_names == ["volume"]
        and explanation.certificate.holds
    )
    np.testing.assert_allclose(explanation.values.sum(axis=1) + explanation.base_values.ravel(), effect.mean)
    np.testing.assert_allclose(explanation.base_values.ravel()[0], drugs.effect(first).mean.mean())
    assert (np.diagonal(explanation.covariance, axis1=1, axis2=2) >= 0).all()
    np.testing.assert_allclose(explanation.values, riesz.Explainer(drugs, first)(doses).values)
    functional = drugs.explain(doses, game="functional")
    np.testing.assert_allclose(functional.values.sum(axis=1) + functional.base_values.ravel(), effect.mean)


def test_the_best_hyperparameters_alone(drugs):
    model = clone(drugs).set_params(n_hyperparameter_samples=0).fit(several())
    effect = model.effect(several()[0].head(3))
    assert "hyper-parameters" not in effect.variance_by_source
    explanation = model.explain(several()[0].head(3), covariance=True)
    np.testing.assert_allclose(explanation.values.sum(axis=1) + explanation.base_values.ravel(), effect.mean)


def test_rows_of_treatments(drugs):
    expected = drugs.effect(np.array([[0.1, 0.7], [0.4, 0.7]])).mean
    for rows in (
        pd.DataFrame({"b": [0.7, 0.7], "name": ["x", "y"], "a": [0.1, 0.4]}),
        {"b": 0.7, "a": [0.1, 0.4]},
        [[0.1, 0.7], [0.4, 0.7]],
    ):
        assert np.array_equal(drugs.effect(rows).mean, expected)
    assert drugs.slope({"a": 0.0, "b": 0.0}, "b").mean.shape == (1,)


def test_frames_of_other_libraries(model):
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    for read in (polars.DataFrame, pyarrow.Table.from_pandas):
        other = fitted([read(study) for study in linear()])
        assert np.array_equal(other.effect(GRID).cov, model.effect(GRID).cov)
        assert np.array_equal(other.effect(read(pd.DataFrame({"dose": GRID}))).mean, model.effect(GRID).mean)


def test_missing_values_are_left_out(model):
    first, second = linear()
    holes = pd.concat(
        [first, first.head(3).assign(age=np.nan), first.head(2).assign(psa=None)], ignore_index=True
    )
    with pytest.warns(
        UserWarning, match="study 1: 5 of 65 rows have no value in psa or age, and are left out"
    ):
        refitted = fitted([holes.assign(note=None), second])
    assert np.array_equal(refitted.effect(GRID).cov, model.effect(GRID).cov)


def test_categories_give_tables():
    rng = np.random.default_rng(0)
    drug = rng.choice(["new", "old"], 120)
    stage = np.where(rng.random(120) < np.where(drug == "new", 0.8, 0.3), "I", "II")
    first = pd.DataFrame({"drug": drug, "stage": pd.Series(stage, dtype="category")})
    later = rng.choice(["I", "II", "III"], 150)
    volumes = pd.Series(later).map({"I": 1.0, "II": 3.0, "III": 9.0}) + 0.3 * rng.normal(size=150)
    second = pd.DataFrame({"stage": later, "volume": volumes})
    model = fitted([first, second], None, treatment="drug", randomized=True)
    effect = model.effect(["old", "new"])
    means = second.groupby("stage").volume.mean()
    shares = pd.crosstab(first.drug, first.stage, normalize="index")
    table = [(shares.loc[level] * means[["I", "II"]]).sum() for level in ("old", "new")]
    np.testing.assert_allclose(effect.mean, table, atol=0.1)
    np.testing.assert_array_less(np.abs(effect.mean - [2.4, 1.4]), 3 * effect.std)
    assert (
        list(effect.treatments["drug"]) == ["old", "new"] and model.effect("new", baseline="old").mean[0] < 0
    )
    np.testing.assert_allclose(
        model.explain(["old", "new"]).values.ravel(), effect.mean - model.effect(first).mean.mean()
    )
    with pytest.raises(ValueError, match="drug is 'none' in grid, which no study has: they have new, old"):
        model.effect("none")
    with pytest.raises(ValueError, match="slope = drug is not allowed: it is categorical and has no slope"):
        model.slope("new")


def test_three_studies():
    rng = np.random.default_rng(0)
    first, second = linear()
    second = second.rename(columns={"volume": "size"})
    size = 3 + 3 * rng.normal(size=60)
    third = pd.DataFrame({"size": size, "volume": 0.5 * size + 0.1 * rng.normal(size=60)})
    model = fitted([first, second, third], GRAPH.replace("volume", "size") + "; size -> volume")
    contrast = model.effect(1.0, baseline=0.0)
    assert abs(contrast.mean[0] + 0.5) < 3 * contrast.std[0] < 0.5
    assert {"study 1", "study 2", "study 3"} <= set(contrast.variance_by_source)
    assert set(model.unmatched_) == {"psa", "size"}


def test_front_door():
    """The slope of volume is -1 if the dose is set, and about 1 if it is observed."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=100)
    dose = hidden + 0.7 * rng.normal(size=100)
    level = dose + rng.normal(size=100)
    first = pd.DataFrame(
        {"dose": dose, "level": level, "psa": 1.5 * hidden - 0.5 * level + 0.2 * rng.normal(size=100)}
    )
    model = fitted([first, linear()[1]], "dose -> level -> psa -> volume; dose <-> psa")
    assert model.identification_.front_door == ("level",)
    contrast = model.effect(0.5, baseline=-0.5)
    assert abs(contrast.mean[0] + 1.0) < 2 * contrast.std[0] < 1.4
    assert fitted([first, linear()[1]], None, randomized=True).effect(0.5, baseline=-0.5).mean[0] > 0.5
    with pytest.raises(
        ValueError, match="conditions: the effect is not averaged over covariates .*front-door"
    ):
        model.effect(0.0, conditions={"age": 1.0})


def test_unmatched_mediators_are_warned_of():
    first, second = linear()
    second = second[second.psa.between(-0.4, 0.3)]
    low, high = second.psa.min(), second.psa.max()
    share = np.mean((first.psa < low) | (first.psa > high))
    message = (
        f"study 2 has no psa below {low:.4g} or above {high:.4g}; "
        f"{share:.0%} of study 1's rows have such values"
    )
    with pytest.warns(UserWarning, match=message.replace(".", r"\.")):
        model = fitted([first, second])
    assert model.unmatched_ == {"psa": pytest.approx(share)} and share > 0.3
    assert len(model.warnings_) == 1 and message in model.warnings_[0]
    assert fitted().warnings_ == [] and fitted().unmatched_["psa"] < 0.05


def test_conventions(model):
    fresh = clone(model)
    assert fresh.get_params() == model.get_params() and repr(fresh).startswith("CausalFusion(")
    with pytest.raises(NotFittedError):
        fresh.effect(0.0)
    with pytest.raises(NotFittedError):
        fresh.explain([0.0])
    with pytest.raises(NotFittedError):
        pickle.loads(pickle.dumps(fresh)).effect(0.0)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.effect(GRID).sample(3, 0), model.effect(GRID).sample(3, 0))
    assert np.array_equal(
        again.effect(GRID, conditions={"age": 0.5}).cov, model.effect(GRID, conditions={"age": 0.5}).cov
    )
    kept = pickle.loads(pickle.dumps(model.effect(GRID)))
    assert np.array_equal(kept.cov, model.effect(GRID).cov)
    with pytest.raises(ValueError, match="this estimate draws no samples, as it was pickled"):
        kept.sample(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted()
