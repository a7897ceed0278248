"""Questions about effects across studies other than the curve: the contributions of mediators, the study
to extend, the influence of confounding, and the support by the data."""

import pickle
import subprocess

import numpy as np
import pandas as pd
import pytest
from sklearn.utils import check_random_state

import riesz
from conftest import COMMAND, run, with_command

GRAPH = "age -> dose; age -> psa; dose -> psa; psa -> volume"


def world(noise, seed=0, n=70):
    rng = np.random.default_rng(seed)
    age = rng.normal(size=n)
    dose = age + noise * rng.normal(size=n)
    first = pd.DataFrame({"age": age, "dose": dose, "psa": age - 0.5 * dose + 0.2 * rng.normal(size=n)})
    psa = 2 * rng.normal(size=n)
    return [first, pd.DataFrame({"psa": psa, "volume": 2 * psa + 3 + 0.2 * rng.normal(size=n)})]


def fitted(studies, graph=GRAPH, **options):
    options = {
        "treatment": "dose",
        "outcome": "volume",
        "n_hyperparameter_samples": 4,
        "random_state": 0,
    } | options
    return riesz.CausalFusion(graph, **options).fit(studies)


@pytest.fixture(scope="module")
def model():
    return fitted(world(0.8))


def test_doses_that_covariates_rule_out_have_no_support():
    with pytest.warns(UserWarning, match="almost determines dose"):
        no_overlap = fitted(world(0.05))
    effect = no_overlap.effect([-1.0, 0.0, 1.0])
    assert not effect.support.any() and (effect.diagnostics["overlap"] < 0.3).all()
    # People of that age take this dose.
    assert no_overlap.effect(1.0, conditions={"age": 1.0}).diagnostics["overlap"] == 1
    contrast = fitted(world(0.8)).effect(0.0, baseline=6.0)
    assert contrast.diagnostics["overlap"] == 0 and not contrast.support[0]


def test_people_unlike_the_rows_have_no_support():
    first, second = world(0.8)
    first["bmi"] = 0.5 * first.age + np.random.default_rng(1).normal(size=len(first))
    model = fitted([first, second], "bmi -> dose; bmi -> psa; " + GRAPH)
    near, far = model.effect(0.0, conditions={"age": 0.2}), model.effect(0.0, conditions={"age": 50.0})
    assert (
        near.support[0]
        and near.diagnostics["people"] > 0.9
        and not far.support[0]
        and far.diagnostics["people"] < 0.2
    )
    assert not model.effect(0.0, among=90.0).support[0]


def two_paths(seed=0, n=120):
    """Volume is 2 psa + psv²/2; with a dose d, psa is d + age and psv is 1 - d / 2, all plus noise."""
    rng = np.random.default_rng(seed)
    age = rng.normal(size=n)
    dose = 0.7 * age + rng.normal(size=n)
    first = {
        "age": age,
        "dose": dose,
        "psa": dose + age + 0.1 * rng.normal(size=n),
        "psv": 1 - dose / 2 + 0.1 * rng.normal(size=n),
    }
    psa, psv = 2 * rng.normal(size=n), 1.5 * rng.normal(size=n) + 0.5
    second = {"psa": psa, "psv": psv, "volume": 2 * psa + psv**2 / 2 + 0.1 * rng.normal(size=n)}
    return [pd.DataFrame(first), pd.DataFrame(second)]


def test_an_effect_goes_through_its_mediators():
    graph = "age -> dose; age -> psa; dose -> psa; dose -> psv; psa -> volume; psv -> volume"
    studies = two_paths()
    model = fitted(studies, graph)
    doses = [-0.8, 0.0, 1.0]
    shares, effect = model.explain_mediators(doses), model.effect(doses)
    assert shares.mediators == ("psa", "psv")
    np.testing.assert_allclose(shares.mean, effect.mean, rtol=1e-12)
    np.testing.assert_allclose(shares.values.sum(axis=1) + shares.base_values, shares.mean, rtol=1e-12)
    # The outcome is a sum, so each share is known. A background adds a constant to it, which cancels in a
    # contrast.
    contrast = model.explain_mediators(1.0, baseline=-0.8)
    np.testing.assert_allclose(contrast.values[0], shares.values[2] - shares.values[0], rtol=1e-9)
    assert contrast.values[0] == pytest.approx([2 * 1.8, (0.5**2 - 1.4**2) / 2], abs=0.25)
    assert abs(contrast.base_values[0]) < 0.2
    assert list(contrast.to_frame()) == ["dose", "through psa", "through psv", "base value", "mean"]
    assert "through psa" in repr(contrast) and "less that at dose = -0.8" in repr(contrast)
    with_background = model.explain_mediators(doses, background=studies[1][["psa", "psv"]].head(1))
    assert with_background.base_values.std() < 0.2 and not np.allclose(with_background.values, shares.values)
    functional = model.explain_mediators(doses, game="functional")
    np.testing.assert_allclose(
        functional.values.sum(axis=1) + functional.base_values, effect.mean, rtol=1e-12
    )


def test_rows_are_worth_most_where_little_is_known(model):
    study_gains = model.value_of_information(0.5, baseline=-0.5)
    assert list(study_gains) == ["study 1", "study 2"] and all(
        0 < gain < 0.2 for gain in study_gains.values()
    )
    rows = pd.DataFrame({"dose": [0.5, 40.0], "age": [0.0, 0.0]})
    near, far = model.value_of_information(0.5, study=1, rows=rows)
    assert near > 10 * far
    assert len(model.value_of_information(0.5, study=2, rows={"psa": [0.0, 1.0, 2.0]})) == 3
    # With few rows each one has more value.
    first, second = world(0.8)
    small_study = fitted([first, second.head(12)]).value_of_information(0.5, baseline=-0.5)
    assert small_study["study 2"] > 2 * study_gains["study 2"]
    with pytest.raises(ValueError, match="study = 3: there are studies 1 to 2"):
        model.value_of_information(0.5, study=3)
    with pytest.raises(ValueError, match="say of which study rows are"):
        model.value_of_information(0.5, rows=rows)
    with pytest.raises(ValueError, match="rows has no column 'age'"):
        model.value_of_information(0.5, study=1, rows=rows[["dose"]])


def test_seeing_is_not_setting(model):
    seen, done = model.association(1.0, baseline=0.0), model.effect(1.0, baseline=0.0)
    # Setting a dose lowers volume by 1; an observed dose predicts an age of .61 per unit.
    assert seen.mean[0] == pytest.approx(-1 + 2 * 1 / 1.64, abs=3 * seen.std[0])
    assert done.mean[0] == pytest.approx(-1, abs=3 * done.std[0])
    assert seen.description == "E[volume | dose] less that at dose = 0"
    again = pickle.loads(pickle.dumps(model)).association(1.0, baseline=0.0)
    assert again.mean[0] == seen.mean[0]
    with_landmarks = fitted(world(0.8), n_landmarks=30).association(1.0, baseline=0.0)
    assert with_landmarks.mean[0] == pytest.approx(seen.mean[0], abs=4 * seen.std[0])
    with pytest.raises(ValueError, match="the effect equals the association"):
        fitted(
            [study.drop(columns="age", errors="ignore") for study in world(0.8)], None, randomized=True
        ).association(0.0)


def test_treatments_may_have_any_name():
    first, second = world(0.8)
    model = fitted(
        [first.rename(columns={"dose": "std"}), second], GRAPH.replace("dose", "std"), treatment="std"
    )
    assert list(model.effect(0.0).to_frame())[:3] == ["treatment std", "mean", "std"]


def test_published_posteriors(model):
    grid = np.array([-0.5, 0.5])
    ours, landmarks = model.effect(grid), model.published(grid)
    integrals = model.published(grid, form="integrals")
    # The landmarks are all places of the rows' measure, so both forms agree up to the jitter.
    np.testing.assert_allclose(landmarks.mean, integrals.mean, rtol=1e-3)
    assert np.abs(landmarks.mean - ours.mean).max() < 0.5 and list(landmarks.variance_by_source) == [
        "study 1",
        "study 2",
        "interaction",
        "hyper-parameters",
    ]
    imp, ime = landmarks.restricted_to("study 2"), landmarks.restricted_to("study 1")
    np.testing.assert_allclose(imp.std**2, landmarks.variance_by_source["study 2"])
    combined = landmarks.restricted_to("study 1", "study 2")
    np.testing.assert_allclose(combined.cov, imp.cov + ime.cov)
    heavy = model.published(grid, measure="normal", mass=5.0, jitter=1e-4)
    assert np.isfinite(heavy.std).all()
    contrast = model.published(0.5, baseline=-0.5)
    assert contrast.mean[0] == pytest.approx(landmarks.mean[1] - landmarks.mean[0])
    with pytest.raises(ValueError, match="form = 'grid': it is one of landmarks, integrals"):
        model.published(grid, form="grid")
    with pytest.raises(ValueError, match="name some of study 1, study 2, interaction"):
        ours.restricted_to("noise")
    with pytest.raises(ValueError, match="draws no samples"):
        imp.sample(3)


def test_reports_show_the_effect(model, tmp_path):
    path = tmp_path / "effect.html"
    model.report(path)
    text = path.read_text(encoding="utf-8")
    assert "The effect of dose on volume" in text and "If all people of study 1 were treated alike" in text
    assert "adjusting for age" in text and "<script" not in text
    model.report(path, [0.0, 1.0], baseline=0.5, conditions={"age": 0.5}, level=0.9)
    effect = model.effect([0.0, 1.0], baseline=0.5, conditions={"age": 0.5})
    text = path.read_text(encoding="utf-8")
    assert (
        "If those with age = 0.5 were treated alike instead of with dose = 0.5" in text
        and "90 % interval" in text
    )
    assert f"{effect.mean.max():.3f}"[:4] in text and f"{effect.mean.min():.3f}".replace("-", "−")[:4] in text
    with pytest.raises(ValueError, match=r"ends in .txt, but report writes HTML"):
        model.report(tmp_path / "effect.txt")
    with pytest.raises(ValueError, match="level"):
        model.report(path, level=95)
    assert path.read_text(encoding="utf-8") == text and len(list(tmp_path.iterdir())) == 1


@with_command
def test_mediators_and_association_match_the_command_line(tmp_path):
    rng = np.random.default_rng(2)
    n = 60
    first = pd.DataFrame({"age": rng.normal(60, 8, n)})
    first["statin"] = rng.uniform(0, 1, n) * first.age / 60
    first["psa"] = 4 + 0.05 * first.age - first.statin + 0.2 * rng.normal(size=n)
    first["psv"] = first.statin + rng.uniform(0, 2, n)
    second = pd.DataFrame({"psa": rng.uniform(5, 8, n), "psv": rng.uniform(0, 3, n)})
    second["volume"] = 2 * second.psa + 0.8 * second.psv + 0.3 * rng.normal(size=n)
    graph = "age -> statin; age -> psa; statin -> psa; statin -> psv; psa -> volume; psv -> volume"
    for name, table in [("first", first), ("second", second), ("at", first[["statin"]][:5])]:
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "g.txt").write_text(graph)
    model = riesz.CausalFusion(graph, treatment="statin", outcome="volume", n_hyperparameter_samples=3)
    model.set_params(random_state=0).fit([first, second])
    question = "first.csv second.csv --graph g.txt --treatment statin --outcome volume --at at.csv"
    seed = check_random_state(0).randint(2**31 - 1)
    options = f"--hyperparameter-samples 3 --baseline statin=0.2 --seed {seed}"
    run(tmp_path, f"causal effect {question} {options} --association --explain-mediators m.csv -o e.csv")
    shares, effect = pd.read_csv(tmp_path / "m.csv"), pd.read_csv(tmp_path / "e.csv")
    ours = model.explain_mediators(first.statin[:5], baseline=0.2)
    assert list(shares) == ["statin", "through psa", "through psv", "base_value", "mean"]
    for j, name in enumerate(ours.mediators):
        np.testing.assert_allclose(shares[f"through {name}"], ours.values[:, j], rtol=1e-6, atol=1e-9)
    parts = shares[["through psa", "through psv", "base_value"]].sum(axis=1)
    np.testing.assert_allclose(parts, shares["mean"], rtol=1e-9)
    np.testing.assert_allclose(shares["mean"], effect["mean"], rtol=1e-12)
    association = model.association(first.statin[:5], baseline=0.2)
    np.testing.assert_allclose(effect.association, association.mean, rtol=1e-6)
    # Older people have larger doses and a higher PSA.
    assert (effect.association - effect["mean"])[effect.statin > 0.4].gt(0).all()
    table = "first.csv --adjust age --treatment statin --outcome psa"
    text = run(tmp_path, f"causal effect {table} --hyperparameter-samples 0 --association")
    assert text.count("association") == 1
    refused = subprocess.run(
        [COMMAND, *f"causal effect {table} --explain-mediators m.csv".split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert refused.returncode == 2 and "--explain-mediators needs two or more studies" in refused.stderr
