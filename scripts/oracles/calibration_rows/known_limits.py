"""Quantities that do not have their nominal coverage today.

They are reported and do not make a run fail, as long as they fail on the stated side and are not worse than
when they were listed. A quantity that passes although it is listed is reported, too: remove it here, in the
same change that improves it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: Decrease of the coverage of 95 % intervals, beyond its error, from which a known limit fails.
MAX_DECREASE = 0.05


@dataclass(frozen=True)
class Limit:
    """A reason why quantities of rows miss their ranges, on one side."""

    reason: str
    #: ``low``, ``high``, ``wide`` or ``probability``: the faults that are expected.
    side: str
    #: For each quantity of a row, "row: quantity", the coverage of its 95 % intervals when it was listed; for
    #: probabilities the frequency of events minus the mean stated probability.
    quantities: Mapping[str, float]


LIMITS: list[Limit] = [
    Limit(
        "Hyper-parameters are tuned to 60 rows, and the interval takes them as known",
        "low",
        {
            "regression, tuned: function at new rows": 0.918,
            "regression, tuned: differences between new rows": 0.912,
            "regression, tuned: function, by draws": 0.914,
        },
    ),
    Limit(
        "A Gaussian kernel with tuned length scales is too sure of functions that are no draws of "
        "it. A Matérn kernel of order 3/2 has its coverage with kinks, but is too smooth for an "
        "Ornstein-Uhlenbeck draw",
        "low",
        {
            "regression, smooth function: function at new rows": 0.907,
            "regression, smooth function: differences between new rows": 0.903,
            "regression, smooth function: function, by draws": 0.902,
            "regression, kinks: function at new rows": 0.796,
            "regression, kinks: differences between new rows": 0.785,
            "regression, kinks: function, by draws": 0.791,
            "regression, rough function: function at new rows": 0.736,
            "regression, rough function: differences between new rows": 0.739,
            "regression, rough function: function, by draws": 0.732,
            "regression, rough function, Matérn: function at new rows": 0.846,
            "regression, rough function, Matérn: differences between new rows": 0.854,
            "regression, rough function, Matérn: function, by draws": 0.841,
        },
    ),
    Limit(
        "Few labels determine the variance of the latent function poorly, and the interval takes "
        "the tuned one as known. Class probabilities hold",
        "low",
        {
            "classification, tuned: latent function": 0.837,
            "classification, steps: latent function": 0.737,
        },
    ),
    Limit(
        "Intervals of maps through mediators are wider than necessary",
        "high",
        {
            "downscaling, mediated: map at rows": 0.99,
            "downscaling, mediated: means of bags with rows": 0.988,
        },
    ),
    Limit(
        "Means and counts of bags hide how rough a map is between their rows, so that the marginal "
        "likelihood hardly distinguishes kernels, and intervals of rough maps are too narrow",
        "low",
        {
            "downscaling, rough map, 60 bags: map at rows": 0.895,
            "downscaling, rough map, 60 bags: map at rows, by draws": 0.899,
            "downscaling, rough map, 60 bags: means of other bags": 0.913,
            "downscaling, kinks, 500 bags: map at rows": 0.907,
            "downscaling, kinks, 500 bags: map at rows, by draws": 0.9,
            "downscaling, kinks, 500 bags: means of other bags": 0.918,
            "downscaling, rough map, 500 bags: map at rows": 0.807,
            "downscaling, rough map, 500 bags: map at rows, by draws": 0.803,
            "downscaling, rough map, 500 bags: means of other bags": 0.883,
            "counts, kinks: rate at rows": 0.906,
            "counts, kinks: log rate at rows": 0.902,
            "counts, kinks: rate at rows, by draws": 0.894,
        },
    ),
    Limit(
        "Hyper-parameters are tuned to few duels and taken as known, and a Gaussian kernel is too "
        "sure of rough utilities, of steps, and of abilities that no feature shows",
        "low",
        {
            "duels, prior, 100: log odds of known pairs": 0.887,
            "duels, prior, 100: log odds of new pairs": 0.884,
            "duels, nested prior, 100: log odds of known pairs": 0.854,
            "duels, nested prior, 100: log odds of new pairs": 0.841,
            "duels, rough, 100: log odds of known pairs": 0.735,
            "duels, rough, 100: log odds of new pairs": 0.71,
            "duels, cycles, 100: log odds of known pairs": 0.902,
            "duels, cycles, 100: log odds of new pairs": 0.9,
            "duels, rough, 300: log odds of known pairs": 0.794,
            "duels, rough, 300: log odds of new pairs": 0.745,
            "duels, steps, 300: log odds of known pairs": 0.746,
            "duels, steps, 300: log odds of new pairs": 0.716,
            "duels, abilities, 300: log odds of known pairs": 0.569,
            "duels, abilities, 300: log odds of new pairs": 0.544,
            "duels, ties, 300: advantage of the left item": 0.912,
            "duels, prior, 300, utility: log odds of known pairs": 0.891,
            "duels, prior, 300, utility: log odds of new pairs": 0.884,
            "duels, prior, 300, bags: log odds of bags": 0.893,
            "ranking, nested prior, 100: utilities": 0.864,
            "ranking, nested prior, 100: cyclic share": 0.652,
        },
    ),
    Limit(
        "Hyper-parameters are tuned to few duels and taken as known, and a Gaussian kernel is too "
        "sure of rough utilities, of steps, and of abilities that no feature shows",
        "probability",
        {
            "duels, rough, 100: which item is better": -0.086,
            "duels, rough, 300: which item is better": -0.054,
            "duels, steps, 300: which item is better": -0.077,
            "duels, abilities, 300: which item is better": -0.105,
            "ranking, nested prior, 100: cycles of three items": -0.068,
        },
    ),
    Limit(
        "Eight landmarks carry less than all items",
        "wide",
        {
            "duels, prior, 300, utility, 8 landmarks: log odds of known pairs": 0.918,
        },
    ),
    Limit(
        "The covariate nearly determines the dose, and the prior assumes that they do not interact",
        "low",
        {
            "effects, interaction, dose noise 0.1: contrasts": 0.886,
            "effects, interaction, dose noise 0.1: levels": 0.67,
            "effects, interaction, dose noise 0.1: levels, by draws": 0.653,
            "effects, interaction, dose noise 0.1: slopes": 0.862,
            "effects, interaction, dose noise 0.1: levels among the median dose": 0.89,
            "effects, interaction, dose noise 0.1: values of the dose": 0.853,
        },
    ),
    Limit(
        "100 rows hardly distinguish whether effects of dose and covariate add up",
        "low",
        {
            "effects, draw, dose noise 1: levels among the median dose": 0.902,
            "effects, curved, dose noise 1: contrasts": 0.897,
            "effects, curved, dose noise 1: levels among the median dose": 0.872,
            "effects, curved, dose noise 1: associations": 0.908,
        },
    ),
    Limit(
        "Contrasts through a front door are slightly too narrow from 150 rows",
        "low",
        {
            "effects, front door: contrasts": 0.891,
        },
    ),
    Limit(
        "The standard error allows for values that few rows have not shown, as all standard errors "
        "of estimates do",
        "high",
        {
            "tests, witness function: witness function": 0.99,
        },
    ),
    Limit(
        "Probabilities of held-out classes are too cautious, as those of scikit-learn's process",
        "probability",
        {
            "held-out rows, breast cancer: classes, riesz": 0.1,
            "held-out rows, wine: classes, riesz": 0.226,
        },
    ),
]
KNOWN_LIMITS = {key: limit for limit in LIMITS for key in limit.quantities}
