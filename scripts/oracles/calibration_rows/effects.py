"""Rows of causal effects: levels, contrasts, slopes, and effects after experiments."""

from __future__ import annotations

import numpy as np
import pandas as pd
from calibration_designs import confounded
from calibration_measures import Intervals, Row, generator

import riesz

MIDDLE = 9
_ESTIMATE = (
    "CausalEffect.effect",
    "CausalEstimate.std",
    "CausalEstimate.interval",
    "CausalEstimate.to_frame",
)

ONE_TABLE = {
    "contrasts": (*_ESTIMATE, "CausalEstimate.cov"),
    "levels": _ESTIMATE,
    "levels, by draws": ("CausalEstimate.interval", "CausalEstimate.sample"),
    "slopes": ("CausalEffect.slope",),
    "levels among the median dose": _ESTIMATE,
    "associations": ("CausalEffect.association",),
    "values of the dose": ("CausalEffect.explain",),
}


def _intervals(truth, estimate, keep=slice(None)):
    return Intervals.from_function(truth[keep], lambda level: [end[keep] for end in estimate.interval(level)])


def one_table(kind, dose_noise):
    """The effect of a dose that a covariate confounds, from one table."""

    def measure(seed):
        design = confounded(kind, seed, dose_noise=dose_noise)
        table = pd.DataFrame({"dose": design.dose, "a": design.covariate, "y": design.outcome})
        model = riesz.CausalEffect(treatment="dose", outcome="y", adjust="a", random_state=0).fit(table)
        is_other = np.arange(len(design.grid)) != MIDDLE
        levels = model.effect(design.grid)
        draws = lambda level: levels.interval(level, n_samples=500, random_state=0)
        explanation = model.explain(design.grid, background=design.grid[:, None], covariance=True)
        return {
            "contrasts": _intervals(
                design.contrast, model.effect(design.grid, baseline=design.grid[MIDDLE]), is_other
            ),
            "levels": _intervals(design.level, levels),
            "levels, by draws": Intervals.from_function(design.level, draws),
            "slopes": _intervals(design.slope, model.slope(design.grid)),
            "levels among the median dose": _intervals(
                design.level_among, model.effect(design.grid, among=design.grid[MIDDLE])
            ),
            "associations": _intervals(design.association, model.association(design.grid)),
            "values of the dose": Intervals.from_normal(
                design.level - design.level.mean(), explanation.values[:, 0], explanation.std[:, 0]
            ),
        }

    return measure


def front_door(seed):
    """The effect of a dose through a mediator, with an unobserved confounder of dose and outcome."""
    rng = generator(seed, "front door")
    hidden = rng.normal(size=150)
    dose = hidden + rng.normal(size=150)
    slope, frequency = rng.uniform(0.5, 1.5), rng.uniform(1.0, 2.0)
    mediator = slope * np.tanh(dose) + 0.4 * rng.normal(size=150)
    outcome = np.sin(frequency * mediator) + hidden + 0.3 * rng.normal(size=150)
    grid = np.linspace(-2, 2, 19)
    # The mean of a sine of a normal mediator.
    damped = np.exp(-0.5 * (0.4 * frequency) ** 2)
    truth = damped * np.sin(frequency * slope * np.tanh(grid))
    table = pd.DataFrame({"dose": dose, "m": mediator, "y": outcome})
    model = riesz.CausalEffect(treatment="dose", outcome="y", front_door="m", random_state=0).fit(table)
    is_other = np.arange(19) != MIDDLE
    return {
        "levels": _intervals(truth, model.effect(grid)),
        "contrasts": _intervals(truth - truth[MIDDLE], model.effect(grid, baseline=0.0), is_other),
    }


def two_studies(seed):
    """The effect of a dose through a mediator that two studies share, and after six experiments."""
    rng = generator(seed, "two studies")
    dose, mediator = rng.uniform(-2, 2, 80), rng.uniform(-3, 3, 80)
    amplitude, shift = rng.uniform(0.5, 1.5), rng.uniform(-1, 1)
    mediator_mean = lambda t: t + 0.5 * np.sin(2 * t)
    outcome = lambda m: amplitude * np.sin(m - shift) + 0.2 * m
    study1 = pd.DataFrame({"dose": dose, "psa": mediator_mean(dose) + 0.3 * rng.normal(size=80)})
    study2 = pd.DataFrame({"psa": mediator, "volume": outcome(mediator) + 0.3 * rng.normal(size=80)})
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    effect = lambda t: outcome(mediator_mean(t)[:, None] + 0.3 * nodes) @ weights
    grid = np.linspace(-1.8, 1.8, 19)
    model = riesz.CausalFusion(treatment="dose", outcome="volume", randomized=True, random_state=0)
    model.fit([study1, study2])
    truth = effect(grid)
    measured = {
        "levels": _intervals(truth, model.effect(grid)),
        "contrasts": _intervals(
            truth - truth[MIDDLE], model.effect(grid, baseline=0.0), np.arange(19) != MIDDLE
        ),
    }
    tried = rng.uniform(-2, 2, 6)
    model.observe(tried, effect(tried) + 0.1 * rng.normal(size=6), std=0.1)
    suggested = model.suggest(candidates=rng.uniform(-2, 2, 1))
    measured["levels after experiments"] = _intervals(truth, model.posterior(grid))
    measured["suggested experiment"] = Intervals.from_normal(
        effect(suggested.treatments["dose"]), suggested.mean, suggested.std
    )
    return measured


_DESIGNS = {
    "opposite": "dose and covariate have opposite linear effects",
    "curved": "tanh effect of the dose, and a confounding sine",
    "draw": "both effects drawn from Gaussian processes",
    "no confounding": "sine effect of the dose alone",
    "no effect": "effect of the covariate alone",
    "interaction": "opposite effects, and a product of dose and covariate",
}


def _row(kind, dose_noise, n_short=0):
    return Row(
        f"effects, {kind}, dose noise {dose_noise:g}",
        f"{_DESIGNS[kind]}; 100 rows, dose = covariate + {dose_noise:g} × noise",
        "CausalEffect, default",
        one_table(kind, dose_noise),
        ONE_TABLE,
        n_short=n_short,
    )


ROWS = [
    *(_row(kind, 0.1) for kind in _DESIGNS),
    _row("opposite", 0.3),
    _row("draw", 1.0, n_short=14),
    _row("curved", 1.0),
    Row(
        "effects, front door",
        "hidden confounder; tanh of the dose, then a sine of the mediator; 150 rows",
        "CausalEffect, front door",
        front_door,
        {"levels": _ESTIMATE, "contrasts": _ESTIMATE},
    ),
    Row(
        "effects, two studies",
        "dose → mediator in one study, mediator → outcome in another; 80 rows each",
        "CausalFusion, default; six experiments",
        two_studies,
        {
            "levels": _ESTIMATE,
            "contrasts": _ESTIMATE,
            "levels after experiments": ("CausalEffect.posterior", "CausalEffect.observe"),
            "suggested experiment": ("Suggestions.std", "CausalEffect.suggest", "suggest_among"),
        },
        n_short=14,
    ),
]
