"""Rows of maps from means, sums and counts of bags."""

from __future__ import annotations

import numpy as np
import pandas as pd
from calibration_designs import Bags, bags, drawn, gaussian_kernel, kinked
from calibration_measures import EXACT, EXACT_REASON, Intervals, Row, generator

import riesz
from riesz.kernels import RBF, Constant

N_PREDICTED = 400


def _tables(X, bag_values, name):
    """Rows with the number of their bag, and bags with their values."""
    n_bags, size, d = X.shape
    rows = pd.DataFrame(X.reshape(-1, d), columns=[f"x{j}" for j in range(d)])
    rows["bag"] = np.repeat(np.arange(n_bags), size)
    return rows, pd.DataFrame({"bag": np.arange(n_bags), name: bag_values})


MEANS = {
    "map at rows": ("AggregateGaussianProcess.predict",),
    "map at rows, by draws": ("AggregateGaussianProcess.sample",),
    "means of other bags": ("AggregateGaussianProcess.predict_bags",),
    "targets left out": ("AggregateGaussianProcess.loo_", "LeaveOneOut.std", "LeaveOneOut.coverage"),
}


def _other_bags(design: Bags, n_bags: int) -> tuple[np.ndarray, np.ndarray]:
    """The bags after the first ``n_bags``, which the fit does not have, and their true means."""
    return design.X[n_bags:], design.truth[n_bags:].mean(axis=1)


def _measure_map(model, design, n_bags, rng):
    """Fits the model to the first bags, and compares its map there and the means of the other bags."""
    rows, table = _tables(design.X[:n_bags], design.target[:n_bags], "z")
    model.fit(rows, table, bag="bag", target="z")
    row_numbers = rng.choice(len(rows), min(N_PREDICTED, len(rows)), replace=False)
    truth = design.truth[:n_bags].ravel()[row_numbers]
    mean, std = model.predict(rows.iloc[row_numbers], return_std=True)
    other_X, other_truth = _other_bags(design, n_bags)
    other_rows, _ = _tables(other_X, other_truth, "z")
    bag_mean, bag_std = model.predict_bags(other_rows, return_std=True)
    measured = {
        "map at rows": Intervals.from_normal(truth, mean, std),
        "map at rows, by draws": Intervals.from_draws(
            truth[:100], model.sample(rows.iloc[row_numbers[:100]], 500, random_state=0), axis=1
        ),
        "means of other bags": Intervals.from_normal(other_truth, bag_mean, bag_std),
    }
    if model.loo_ is not None:
        left_out = model.loo_
        measured["targets left out"] = Intervals.from_normal(left_out.target, left_out.mean, left_out.std)
    return measured


def _true_prior():
    """Settings of the model with the hyper-parameters of the kind ``prior``."""
    return {
        "kernel": RBF([1.0, 1.5, 1.5, 1.0, 5.0]),
        "noise": 0.01,
        "prior_mean": 0.0,
        "row_noise": 0.0,
        "optimizer": None,
        "normalize_y": False,
        "n_hyperparameter_samples": 0,
    }


def means(kind, n_bags, size, **settings):
    """Downscaling of means of bags by the default model."""

    def measure(seed):
        design = bags(kind, seed, n_bags + 50, size)
        model = riesz.AggregateGaussianProcess(random_state=0, **settings)
        return _measure_map(model, design, n_bags, generator(seed, "rows of a map"))

    return measure


def mediated(seed):
    """Means of bags without rows, which mediators relate to bags with rows."""
    design = bags("known map", seed, 140, 8)
    rng = generator(seed, "mediators")
    # Noisy means of the columns are the mediators of all bags; half of the bags have rows, half targets.
    mediators = design.X.mean(axis=1) + 0.1 * rng.normal(size=(140, 2))
    rows, _ = _tables(design.X[:70], design.target[:70], "z")
    table = pd.DataFrame({"bag": np.arange(140), "u": mediators[:, 0], "v": mediators[:, 1]})
    table["z"] = np.where(np.arange(140) < 70, np.nan, design.target)
    model = riesz.AggregateGaussianProcess(random_state=0)
    model.fit(rows, table, bag="bag", target="z", mediators=["u", "v"])
    mean, std = model.predict(rows, return_std=True)
    bag_mean, bag_std = model.predict_bags(return_std=True)
    return {
        "map at rows": Intervals.from_normal(design.truth[:70].ravel(), mean, std),
        "means of bags with rows": Intervals.from_normal(design.truth[:70].mean(axis=1), bag_mean, bag_std),
        "targets left out": Intervals.from_normal(model.loo_.target, model.loo_.mean, model.loo_.std),
    }


COUNTS = {
    "rate at rows": ("AggregateCountProcess.predict_quantiles",),
    "log rate at rows": ("AggregateCountProcess.predict_link",),
    "rate at rows, by draws": ("AggregateCountProcess.sample",),
    "counts left out": ("AggregateCountProcess.loo_",),
}
EVENTS_OF_BAGS = {"expected events of bags": ("AggregateCountProcess.predict_bags",)}


def _latent_map(rng, X, kind):
    """A log rate, or log odds, around 0: a draw of a Gaussian process, or a function with kinks."""
    flat = X.reshape(-1, X.shape[-1])
    if kind == "kinks":
        return (kinked(flat) - 1.5).reshape(X.shape[:-1])
    return drawn(rng, gaussian_kernel(flat, _LENGTH_SCALES, 0.7)).reshape(X.shape[:-1])


_LENGTH_SCALES = np.array([0.9, 1.8])


def counts(kind, family="poisson", n_bags=40, size=5, **settings):
    """Rates of rows from counts of bags: cases per person, or successes among trials."""

    def measure(seed):
        rng = generator(seed, f"counts, {kind}")
        centres = rng.normal(size=(n_bags, 2))
        X = centres[:, None] + 0.5 * rng.normal(size=(n_bags, size, 2))
        latent = _latent_map(rng, X, kind)
        if family == "poisson":
            rate = 0.1 * np.exp(latent)
            table_values = rng.poisson(20.0 * rate.sum(axis=1))
        else:
            rate = 1 / (1 + np.exp(-latent))
            table_values = rng.binomial(40, rate.mean(axis=1))
        rows, table = _tables(X, table_values, "z")
        model = riesz.AggregateCountProcess(family=family, random_state=0, **settings)
        roles = {"bag": "bag", "target": "z"}
        if family == "poisson":
            rows["people"] = 20.0
            roles["weight"] = "people"
        else:
            table["trials"] = 40
            roles["trials"] = "trials"
        return _rates(model.fit(rows, table, **roles), rows, rate.ravel(), family)

    return measure


def _rates(model, rows, rate, family):
    """Intervals of rates and of their links at all rows, and of the counts of left-out bags."""
    link = np.log(rate) if family == "poisson" else np.log(rate / (1 - rate))
    mean, std = model.predict_link(rows, return_std=True)
    quantiles = lambda level: model.predict_quantiles(rows, [0.5 - level / 2, 0.5 + level / 2]).T
    scores = np.asarray(model.loo_.z_score)
    measured = {
        "rate at rows": Intervals.from_function(rate, quantiles),
        "log rate at rows": Intervals.from_normal(link, mean, std),
        "rate at rows, by draws": Intervals.from_draws(rate, model.sample(rows, 500, random_state=0), axis=1),
        "counts left out": Intervals.from_normal(scores, np.zeros(len(scores)), np.ones(len(scores))),
    }
    if family == "poisson":
        events, events_std = model.predict_bags(rows, return_std=True)
        truth = np.bincount(rows["bag"], 20.0 * rate)
        measured["expected events of bags"] = Intervals.from_normal(truth, events, events_std)
    return measured


def _row(name, design, model, measure, statements=None, **numbers):
    return Row(name, design, model, measure, MEANS if statements is None else statements, **numbers)


_POINTS = "default kernel, 200 inducing points"

ROWS = [
    _row(
        "downscaling, true hyper-parameters",
        "draw of a Gaussian process, 5 columns; 60 bags of 8 rows",
        "kernel, noise and mean known",
        means("prior", 60, 8, **_true_prior()),
        ranges=EXACT,
        reason=EXACT_REASON,
        n_short=12,
    ),
    _row(
        "downscaling, mediated",
        "analytic map of 2 columns; 70 bags of 8 rows, 70 targets, 2 mediators",
        "AggregateGaussianProcess, default",
        mediated,
        {
            "map at rows": ("AggregateGaussianProcess.predict",),
            "means of bags with rows": ("AggregateGaussianProcess.predict_bags",),
            "targets left out": ("AggregateGaussianProcess.loo_",),
        },
    ),
    _row(
        "downscaling, prior, 60 bags",
        "draw of a Gaussian process, 5 columns; 60 bags of 8 rows",
        "AggregateGaussianProcess, default",
        means("prior", 60, 8),
    ),
    _row(
        "downscaling, smooth map, 60 bags",
        "analytic map of 5 columns; 60 bags of 8 rows",
        "default",
        means("smooth map", 60, 8),
    ),
    _row(
        "downscaling, kinks, 60 bags",
        "map of 2 columns with kinks; 60 bags of 8 rows",
        "default",
        means("kinks", 60, 8),
    ),
    _row(
        "downscaling, rough map, 60 bags",
        "draw of a Matérn kernel of order 3/2, 2 columns; 60 bags of 8 rows",
        "default",
        means("rough", 60, 8),
    ),
    _row(
        "downscaling, prior, 500 bags",
        "draw of a Gaussian process, 5 columns; 500 bags of 40 rows",
        _POINTS,
        means("prior", 500, 40, n_inducing=200),
    ),
    _row(
        "downscaling, kinks, 500 bags",
        "map of 2 columns with kinks; 500 bags of 40 rows",
        _POINTS,
        means("kinks", 500, 40, n_inducing=200),
    ),
    _row(
        "downscaling, rough map, 500 bags",
        "draw of a Matérn kernel of order 3/2, 2 columns; 500 bags of 40 rows",
        _POINTS,
        means("rough", 500, 40, n_inducing=200),
    ),
    _row(
        "downscaling, rough map, 500 bags, Matérn",
        "draw of a Matérn kernel of order 3/2, 2 columns; 500 bags of 40 rows",
        "kernel matern32(ard), 200 inducing points",
        means("rough", 500, 40, n_inducing=200, kernel="matern32(ard)"),
    ),
    _row(
        "downscaling, known map, 500 bags",
        "analytic map of 2 columns, little noise; 500 bags of 40 rows",
        _POINTS,
        means("known map", 500, 40, n_inducing=200),
    ),
    _row(
        "downscaling, smooth map, 2,000 bags",
        "analytic map of 5 columns; 2,000 bags of 10 rows",
        "default kernel, 300 inducing points",
        means("smooth map", 2000, 10, n_inducing=300),
    ),
    _row(
        "counts, true hyper-parameters",
        "log rate drawn from a Gaussian process, 2 columns; 40 bags of 5 rows",
        "kernel and mean known",
        counts(
            "prior",
            kernel=Constant(0.7) * RBF(_LENGTH_SCALES.tolist()),
            prior_mean=float(np.log(0.1)),
            optimizer=None,
            n_hyperparameter_samples=0,
        ),
        COUNTS | EVENTS_OF_BAGS,
        n_short=12,
    ),
    _row(
        "counts, prior",
        "log rate drawn from a Gaussian process, 2 columns; 40 bags of 5 rows",
        "AggregateCountProcess, default",
        counts("prior"),
        COUNTS | EVENTS_OF_BAGS,
    ),
    _row(
        "counts, kinks",
        "log rate with kinks, 2 columns; 40 bags of 5 rows",
        "default",
        counts("kinks"),
        COUNTS | EVENTS_OF_BAGS,
    ),
    _row(
        "counts, binomial, prior",
        "log odds drawn from a Gaussian process, 2 columns; 40 bags of 5 rows, 40 trials",
        "family binomial",
        counts("prior", "binomial"),
        COUNTS,
    ),
]
