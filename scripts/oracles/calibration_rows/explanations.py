"""Rows of Shapley values, importance, and shares of variance."""

from __future__ import annotations

import itertools
import math

import numpy as np
from calibration_designs import drawn, gaussian_kernel
from calibration_measures import EXACT, EXACT_REASON, Events, Intervals, Row, generator

import riesz
from riesz.kernels import RBF


def mixed_rows(row, background):
    """Rows for all coalitions, coalition by coalition, and the weights of these rows in each value."""
    d = len(row)
    present = np.arange(2**d)[:, None] >> np.arange(d) & 1 == 1
    size = present.sum(axis=1)[:, None] - present
    share = np.array([1 / (d * math.comb(d - 1, s)) for s in range(d)] + [0.0])[size]
    weights = np.where(present, share, -share).T
    rows = np.where(present[:, None, :], row, background).reshape(-1, d)
    return rows, np.repeat(weights, len(background), axis=1) / len(background)


def _drawn_and_fitted(rng, further_rows, n_rows=40, noise=0.2):
    """A drawn function at further rows, and the process fitted to noisy values elsewhere."""
    d = further_rows.shape[1]
    length_scales = np.exp(rng.uniform(np.log(0.8), np.log(2.5), d))
    X = np.vstack([rng.normal(size=(n_rows, d)), further_rows])
    truth = drawn(rng, gaussian_kernel(X, length_scales, 1.0))
    model = riesz.GaussianProcessRegressor(
        RBF(length_scales.tolist()), alpha=noise**2, optimizer=None, normalize_y=False
    )
    return truth[n_rows:], model.fit(X[:n_rows], truth[:n_rows] + noise * rng.normal(size=n_rows))


def _pairs_and_top(explanation, truth):
    """Events that one value is larger than another, and that the largest value is the true one."""
    pairs = list(itertools.combinations(range(truth.shape[1]), 2))
    larger = np.concatenate([explanation.probability_of_larger(i, j) for i, j in pairs])
    is_larger = np.concatenate([np.abs(truth[:, i]) > np.abs(truth[:, j]) for i, j in pairs])
    top = explanation.probability_of_top(1, n_samples=2000)[0]
    is_top = np.abs(truth).argmax(axis=1) == np.abs(explanation.values).argmax(axis=1)
    return Events(larger, is_larger), Events(top, is_top)


VALUES = {
    "values": ("Explanation.interval", "Explanation.std", "Explanation.to_frame"),
    "differences of values": ("Explanation.covariance",),
    "values, by draws": ("Explanation.sample",),
    "which value is larger": ("Explanation.probability_of_larger",),
    "the largest value": ("Explanation.probability_of_top",),
}


def shapley_values(seed):
    """Values of three features in the interventional game, for functions drawn from the prior."""
    rng = generator(seed, "Shapley values")
    background, explained = rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
    mixed = [mixed_rows(row, background) for row in explained]
    function, model = _drawn_and_fitted(rng, np.vstack([rows for rows, _ in mixed]))
    parts = function.reshape(len(explained), -1)
    truth = np.array([weights @ part for (_, weights), part in zip(mixed, parts)])
    explanation = riesz.Explainer(model, background, covariance=True)(explained)
    covariance, values = explanation.covariance, explanation.values
    variance = covariance[:, 0, 0] + covariance[:, 1, 1] - 2 * covariance[:, 0, 1]
    larger, top = _pairs_and_top(explanation, truth)
    return {
        "values": Intervals.from_function(truth, explanation.interval),
        "differences of values": Intervals.from_normal(
            truth[:, 0] - truth[:, 1], values[:, 0] - values[:, 1], np.sqrt(variance)
        ),
        "values, by draws": Intervals.from_draws(truth, explanation.sample(1000)),
        "which value is larger": larger,
        "the largest value": top,
    }


def _grid_of(columns):
    """All combinations of the cells of two columns."""
    return np.array(list(itertools.product(*columns)))


def variance_shares(values):
    """First-order and total indices of two independent columns, from the values on their grid."""
    variance = values.var()
    first = np.array([values.mean(axis=1 - j).var() for j in range(2)])
    total = np.array([values.var(axis=j).mean() for j in range(2)])
    return first / variance, (first + total) / 2 / variance, total / variance


def posterior_of_shares(seed):
    """Sobol indices, and components of the functional ANOVA, for functions drawn from the prior."""
    rng = generator(seed, "shares of variance")
    background = rng.normal(size=(12, 2))
    function, model = _drawn_and_fitted(rng, _grid_of(background.T))
    values = function.reshape(12, 12)
    indices = riesz.sobol_indices(model, background, posterior=True, n_samples=200, random_state=seed % 2**31)
    truth = dict(zip(("first_order", "shapley_effects", "total_order"), variance_shares(values)))
    ends = lambda level: {**indices.interval(level)}
    shares = lambda level: np.stack([np.array(ends(level)[name]) for name in truth], axis=1)
    component = riesz.functional_anova(model, background).component(["x0"], background)
    return {
        "shares of variance": Intervals.from_function(np.array(list(truth.values())), shares),
        "main effect": Intervals.from_normal(
            values.mean(axis=1) - values.mean(), component.values, component.std
        ),
    }


def _bumpy(rng, d):
    """A random smooth function with interactions."""
    inner, offset, outer = rng.normal(size=(d, 6)) / math.sqrt(d), rng.normal(size=6), rng.normal(size=6)
    return lambda rows: np.tanh(2 * np.asarray(rows, dtype=float) @ inner + offset) @ outer


def estimated_shares(seed):
    """Sobol indices of a function, estimated from random inputs, against all inputs."""
    rng = generator(seed, "estimated shares")
    background, function = rng.normal(size=(15, 2)), _bumpy(rng, 2)
    truth = np.array(variance_shares(function(_grid_of(background.T)).reshape(15, 15)))
    indices = riesz.sobol_indices(function, background, n_evaluations=700, random_state=seed % 2**31)
    names = "first_order", "shapley_effects", "total_order"
    shares = lambda level: np.stack([np.array(indices.interval(level)[name]) for name in names], axis=1)
    return {"shares of variance": Intervals.from_function(truth, shares)}


def _linear_with_noise(rng, n):
    X = rng.normal(size=(n, 3))
    return X, X[:, 0] + 0.5 * X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=n)


def sage_of_sampled_rows(seed):
    """SAGE values of 80 labelled rows, against those of 4,000 rows from the same population."""
    rng = generator(seed, "SAGE")
    background, _ = _linear_with_noise(rng, 10)
    model = riesz.KernelRidge(kernel=RBF(2.0), alpha=0.05).fit(*_linear_with_noise(rng, 60))
    sampled = riesz.sage_values(model, *_linear_with_noise(rng, 80), background)
    population = riesz.sage_values(model, *_linear_with_noise(rng, 4000), background)
    return {"values": Intervals.from_normal(population.values, sampled.values, sampled.std_error)}


def sage_of_orders(seed):
    """SAGE values from few random orders, against all coalitions of the same rows."""
    rng = generator(seed, "SAGE, orders")
    X, y = rng.normal(size=(15, 7)), rng.normal(size=15)
    function = _bumpy(rng, 7)
    truth = riesz.sage_values(function, X, y)
    sampled = riesz.sage_values(function, X, y, n_orders=8, random_state=seed % 2**31)
    return {"values": Intervals.from_normal(truth.values, sampled.values, sampled.sampling_error)}


def importance(seed):
    """Mean absolute values of 40 sampled rows, against those of 4,000 rows from the same population."""
    rng = generator(seed, "importance")
    X, y = _linear_with_noise(rng, 60)
    model = riesz.KernelRidge(kernel=RBF(2.0), alpha=0.05).fit(X, y)
    explainer = riesz.Explainer(model, X[:20])
    population = np.abs(explainer(rng.normal(size=(4000, 3))).values).mean(axis=0)
    sampled = explainer(rng.normal(size=(40, 3)))

    def interval(level):
        table = sampled.importance(level)
        order = [sampled.feature_names.index(name) for name in table["feature"]]
        return table["low"][np.argsort(order)], table["high"][np.argsort(order)]

    table = sampled.importance()
    order = [sampled.feature_names.index(name) for name in table["feature"]]
    return {
        "mean absolute values": Intervals.from_function(population, interval),
        "the order of features": Events(table["in_order"][:-1], np.diff(population[order]) < 0),
    }


_DRAW = "draw of a Gaussian process with random length scales; 40 rows"

ROWS = [
    Row(
        "Shapley values, true hyper-parameters",
        f"{_DRAW} of 3 columns, 6 background rows",
        "GaussianProcessRegressor, interventional game",
        shapley_values,
        VALUES | {"values": (*VALUES["values"], "Explainer", "Explanation.average")},
        EXACT,
        EXACT_REASON,
        n_short=80,
        n_least=50,
    ),
    Row(
        "shares of variance, posterior",
        f"{_DRAW} of 2 columns, 12 background rows",
        "GaussianProcessRegressor, kernel known",
        posterior_of_shares,
        {
            "shares of variance": ("SobolIndices.interval", "sobol_indices", "SobolIndices.samples"),
            "main effect": ("Component.std", "FunctionalANOVA.component", "functional_anova"),
        },
        n_short=40,
    ),
    Row(
        "shares of variance, estimated",
        "random smooth function of 2 columns, 15 background rows",
        "700 evaluations",
        estimated_shares,
        {"shares of variance": ("SobolIndices.std_error", "SobolIndices.interval", "sobol_indices")},
        n_short=80,
    ),
    Row(
        "SAGE, sampled rows",
        "80 labelled rows of a population",
        "KernelRidge",
        sage_of_sampled_rows,
        {"values": ("SageValues.std_error", "sage_values")},
        n_short=40,
    ),
    Row(
        "SAGE, sampled orders",
        "random smooth function of 7 columns",
        "8 orders of features",
        sage_of_orders,
        {"values": ("SageValues.sampling_error", "sage_values")},
        n_short=40,
    ),
    Row(
        "importance, sampled rows",
        "40 explained rows of a population",
        "KernelRidge",
        importance,
        {
            "mean absolute values": ("Explanation.importance",),
            "the order of features": ("Explanation.importance",),
        },
        n_short=40,
    ),
]
