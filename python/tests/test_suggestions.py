"""Suggested next treatments, against Gaussians that are conditioned jointly in numpy."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.exceptions import NotFittedError
from test_fusion import fitted, linear, two_drugs

import riesz
from riesz.causal import suggest_among

GRID = np.linspace(-2, 2, 41)


@pytest.fixture
def model():
    return fitted()


@pytest.fixture(scope="module")
def drugs():
    return two_drugs()


def discrepancy(model, a, b, variance):
    """The covariance of the discrepancy; before the fourth experiment its length scale is a quarter of the
    range."""
    scale = np.ptp(model._fitted_on[0][0][0].numbers[:, 0]) / 4
    return variance * np.exp(-0.5 * ((a[:, None] - b[None]) / scale) ** 2)


def test_experiments_condition_the_effect(model):
    x, y, sd = np.array([-1.0, 0.3, 1.2]), np.array([4.0, 2.0, 2.5]), 0.2
    effect = model.effect(np.concatenate([x, GRID]))
    # Without experiments the posterior is the effect plus the discrepancy.
    variance = model.posterior(GRID).std[0] ** 2 - model.effect(GRID).std[0] ** 2
    points = np.concatenate([x, GRID])
    cov = effect.cov + discrepancy(model, points, points, variance)
    gain = cov[3:, :3] @ np.linalg.inv(cov[:3, :3] + sd**2 * np.eye(3))
    posterior = model.observe(x, y, std=sd).posterior(GRID)
    np.testing.assert_allclose(posterior.mean, effect.mean[3:] + gain @ (y - effect.mean[:3]), atol=1e-8)
    np.testing.assert_allclose(posterior.cov, cov[3:, 3:] - gain @ cov[:3, 3:], atol=1e-8)
    np.testing.assert_array_equal(model.effect(GRID).mean, effect.mean[3:])
    contrast = model.posterior(1.0, baseline=0.0)
    ends = model.posterior([1.0, 0.0])
    assert contrast.mean[0] == pytest.approx(ends.mean[0] - ends.mean[1])
    assert contrast.std[0] ** 2 == pytest.approx(np.array([1, -1]) @ ends.cov @ np.array([1, -1]))


@pytest.mark.parametrize("minimize", [True, False])
def test_suggestions_maximise_expected_improvement(model, minimize):
    model.observe([-1.0, 0.3], [4.0, 2.0], std=0.1)
    posterior, tried = model.posterior(GRID), model.posterior([-1.0, 0.3]).mean
    sign = -1 if minimize else 1
    z = sign * (posterior.mean - sign * np.max(sign * tried)) / posterior.std
    expected = posterior.std * (norm.pdf(z) + z * norm.cdf(z))
    suggestion = model.suggest(candidates=GRID, minimize=minimize, acquisition="ei")
    assert suggestion.treatments["dose"][0] == GRID[np.argmax(expected)]
    assert suggestion.acquisition[0] == pytest.approx(expected.max(), rel=1e-6)
    log = model.suggest(candidates=GRID, minimize=minimize)
    assert log.treatments["dose"][0] == suggestion.treatments["dose"][0]
    assert log.acquisition[0] == pytest.approx(np.log(expected.max()), rel=1e-6)
    assert log.expected_improvement[0] == pytest.approx(expected.max(), rel=1e-6)


def test_batches_are_chosen_one_by_one(model):
    batch = model.observe(0.0, 3.0, std=0.1).suggest(3, bounds=(-1, 1), minimize=False)
    doses = batch.treatments["dose"]
    assert len(batch) == 3 and np.abs(doses).max() <= 1
    first = model.posterior(doses[:1])
    np.testing.assert_allclose([batch.mean[0], batch.std[0]], [first.mean[0], first.std[0]], rtol=1e-9)
    second = model.observe(doses[0], batch.mean[0], std=0.1).suggest(bounds=(-1, 1), minimize=False)
    assert second.treatments["dose"][0] == doses[1] and second.std[0] == pytest.approx(batch.std[1])
    frame = batch.to_frame()
    assert list(frame.columns) == ["dose", "mean", "std", "expected_improvement", "acquisition", "support"]
    assert "acquisition" in repr(batch)


def test_costs_divide_gains(model):
    model.observe(0.0, 3.0, std=0.1)
    costless = model.suggest(candidates=[-1.0, 1.0])
    dear = model.suggest(
        candidates=[-1.0, 1.0],
        costs=lambda treatments: np.where(treatments["dose"] == costless.treatments["dose"][0], 1e9, 1),
    )
    assert dear.treatments["dose"][0] == -costless.treatments["dose"][0]
    flat = model.suggest(bounds=(-1, 1), costs=lambda treatments: np.full(len(treatments["dose"]), 2.0))
    assert flat.acquisition[0] == pytest.approx(
        model.suggest(bounds=(-1, 1)).acquisition[0] - np.log(2), rel=1e-9
    )


def test_several_treatments_and_models(model, drugs):
    batch = drugs.suggest(2, bounds={"a": (-1, 1)})
    assert np.abs(batch.treatments["a"]).max() <= 1
    assert drugs.suggest(2, bounds={"a": (-1, 1)}).to_frame().equals(batch.to_frame())
    among = suggest_among([model, drugs], costs=[1e300, 1.0])
    assert (
        among.model[0] == 1
        and np.isnan(among.treatments["dose"][0])
        and np.isfinite(among.treatments["a"][0])
    )
    assert suggest_among([model, drugs], costs=[1.0, 1e300]).model[0] == 0


def test_levels_are_enumerated():
    studies = linear()
    studies[0]["dose"] = np.where(
        studies[0].dose > 0.5, "high", np.where(studies[0].dose < -0.5, "low", "none")
    )
    model = fitted(studies)
    assert model.suggest(minimize=True).treatments["dose"][0] == "high"
    assert model.suggest(minimize=False).treatments["dose"][0] == "low"


@pytest.mark.parametrize("prior", ["effect", "imp", "bayesime", "rank-one", "cbo", "none"])
def test_every_prior_finds_the_minimum(prior):
    truth = lambda dose: (dose - 0.6) ** 2 + 2
    model = fitted().observe(-1.5, truth(-1.5), std=1e-3)
    for _ in range(12):
        dose = model.suggest(candidates=GRID, prior=prior).treatments["dose"][0]
        model.observe(dose, truth(dose), std=1e-3)
    assert model.experiments_["volume"].min() < 2.02


def test_experiments_are_kept_and_forgotten(model):
    model.observe({"dose": [0.0, 1.0]}, [1.0, 2.0]).observe(pd.DataFrame({"dose": [0.5]}), [1.5])
    np.testing.assert_array_equal(model.experiments_["dose"], [0, 1, 0.5])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.experiments_["volume"], [1, 2, 1.5])
    np.testing.assert_array_equal(again.posterior(GRID).mean, model.posterior(GRID).mean)
    assert again.suggest(bounds=(-1, 1)).treatments == model.suggest(bounds=(-1, 1)).treatments
    assert len(model.reset().experiments_["dose"]) == 0
    assert len(again.fit(linear()).experiments_["dose"]) == 0


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda fusion: fusion.observe([0.0, 1.0], [1.0]), "outcomes: 2 numbers are needed"),
        (lambda fusion: fusion.observe(0.0, np.nan), "outcomes: nan is not finite"),
        (lambda fusion: fusion.observe(0.0, "much"), "is not numbers"),
        (lambda fusion: fusion.observe(np.inf, 1.0), "inf"),
        (lambda fusion: fusion.observe(0.0, 1.0, std=-1), "standard deviations are 0 or more"),
        (
            lambda fusion: fusion.observe(0.0, 1.0, std=1).observe(0.0, 1.0),
            "give it of all experiments or of none",
        ),
        (lambda fusion: fusion.observe({"statin": 0.0}, 1.0), "has no column 'dose'"),
        (lambda fusion: fusion.suggest(0), "n = 0"),
        (lambda fusion: fusion.suggest(bounds=(1, 0)), r"bounds of dose = \(1, 0\)"),
        (
            lambda fusion: fusion.suggest(bounds={"statin": (0, 1)}),
            "bounds of statin: the treatments are dose",
        ),
        (lambda fusion: fusion.suggest(bounds=3), "give a lower and an upper number"),
        (lambda fusion: fusion.suggest(bounds=(0, 1), candidates=[0.0]), "exclude one another"),
        (lambda fusion: fusion.suggest(candidates=[[0.0, 1.0]]), "candidates has 2 columns"),
        (lambda fusion: fusion.suggest(acquisition="pi"), "acquisition = pi"),
        (lambda fusion: fusion.suggest(prior="best"), "prior = best"),
        (lambda fusion: fusion.suggest(costs=-1), "cost = -1"),
        (lambda fusion: fusion.suggest(costs="dear"), "is not numbers"),
        (lambda fusion: fusion.suggest(random_state=-1), "random_state = -1"),
        (
            lambda fusion: fusion.suggest(candidates=[900.0], supported=True),
            "the studies support none of the candidates",
        ),
        (lambda fusion: suggest_among([]), "models: give one or more"),
        (lambda fusion: suggest_among([fusion], costs=[1, 2]), "costs: 1 are needed"),
    ],
)
def test_bad_input_is_refused(model, ask, words):
    with pytest.raises(ValueError, match=words):
        ask(model)


def test_models_that_are_not_fitted_are_refused():
    with pytest.raises(NotFittedError, match="not fitted"):
        riesz.CausalFusion(treatment="dose", outcome="volume", randomized=True).suggest()
