#!/usr/bin/env python3
"""Counts how often the truth lies within 1.96 standard errors of the estimate. The nominal coverage is 95 %,
also for few draws.

    maturin develop --release && pip install scipy
    scripts/oracles/coverage.py [SEED [MINUTES]]

Random smooth functions, trees, forests and votes are compared with the enumeration of all coalitions, and
rare events of normal columns with their closed form. Prints for each case the coverage, and the ratio of
standard errors and root mean squared errors. Fails if coverage is below 95 % by more than three times its
Monte Carlo error, or if a standard error is 0."""

import math
import sys
import time

import numpy as np
from scipy.stats import norm

import riesz

NOMINAL = 0.95


def smooth(rng, d, slope):
    inner, offset, outer = (
        rng.normal(size=(d, 6)) * slope / math.sqrt(d),
        rng.normal(size=6),
        rng.normal(size=6),
    )
    return lambda X: np.tanh(X @ inner + offset) @ outer


def forest(rng, d, trees, depth=4):
    inner = 2**depth - 1
    column, limit = rng.integers(0, d, size=(trees, inner)), 0.7 * rng.normal(size=(trees, inner))
    leaf = rng.normal(size=(trees, inner + 1))

    def predict(X):
        total = np.zeros(len(X))
        for t in range(trees):
            node = np.zeros(len(X), dtype=int)
            for _ in range(depth):
                node = 2 * node + 1 + (X[np.arange(len(X)), column[t, node]] > limit[t, node])
            total += leaf[t, node - inner]
        return total

    return predict


def vote(rng, d):
    """A weighted vote, in which one column has nearly as much weight as all others together."""
    weights = rng.exponential(size=d)
    weights[0] += 0.7 * weights.sum()
    quota = rng.uniform(0.3, 0.9) * weights.sum()
    return lambda X: 1.0 * ((X > 0) @ weights > quota)


def all_positive(rng, d):
    n_columns = rng.integers(2, d + 1)
    return lambda X: 12.0 * (X[:, :n_columns] > 0).all(axis=1)


FUNCTIONS = {
    "smooth": lambda rng, d: smooth(rng, d, 1.5),
    "nearly linear": lambda rng, d: smooth(rng, d, 0.3),
    "forest": lambda rng, d: forest(rng, d, 20),
    "tree": lambda rng, d: forest(rng, d, 1),
    "vote": vote,
    "all positive": all_positive,
}

#: Cases: number of players, number of background rows, settings.
WAYS = {
    "permutations 2, 1 background row": (9, 1, {"n_orders": 2}),
    "permutations 40, 1 background row": (10, 1, {"n_orders": 40}),
    "permutations 6, 3 background rows": (9, 3, {"n_orders": 6}),
    "permutations 2, 8 background rows": (8, 8, {"n_orders": 2}),
    "permutations 2, 50 background rows": (9, 50, {"n_orders": 2}),
    "kernel_shap, 30 coalitions": (8, 1, {"estimator": "kernel_shap", "n_coalitions": 30}),
    "kernel_shap, 40 coalitions, 3 rows": (10, 3, {"estimator": "kernel_shap", "n_coalitions": 40}),
    "kernel_shap, 300 coalitions": (10, 1, {"estimator": "kernel_shap", "n_coalitions": 300}),
}


def sizes(d):
    return np.array([bin(s).count("1") for s in range(2**d)])


def shapley(values):
    """Shapley values from the values of all coalitions, whose bits are the players."""
    d = int(math.log2(len(values)))
    coalitions, size = np.arange(2**d), sizes(d)
    weight = np.array([1 / (d * math.comb(d - 1, s)) for s in range(d)])
    lacking = [coalitions[coalitions >> j & 1 == 0] for j in range(d)]
    return np.array(
        [
            weight[size[subset]] @ (values[subset | 1 << j] - values[subset])
            for j, subset in enumerate(lacking)
        ]
    )


def of_function(rng, kind, way):
    """The errors and standard errors of a random function's values at a random row."""
    d, rows, settings = WAYS[way]
    function = FUNCTIONS[kind](rng, d)
    x, background = rng.normal(size=d), rng.normal(size=(rows, d))
    if kind in ("vote", "all positive"):
        x, background = np.abs(x), -np.abs(background)
    present = np.arange(2**d)[:, None] >> np.arange(d) & 1 == 1
    truth = shapley(np.mean([function(np.where(present, x, b)) for b in background], axis=0))
    explainer = riesz.Explainer(function, background, random_state=int(rng.integers(2**32)), **settings)
    explanation = explainer([x])
    assert explanation.exactness == "estimated", way
    return explanation.values[0] - truth, explanation.std_error[0]


def of_rare_event(rng, d, limit, draws):
    """Errors and standard errors for a rare event: the first of d normal columns is above a limit."""
    covariance = np.full((d, d), 0.4) + 0.6 * np.eye(d)
    reference = rng.multivariate_normal(np.zeros(d), covariance, size=200)
    x = rng.multivariate_normal(np.zeros(d), covariance)
    function = lambda X: 10.0 * (np.asarray(X)[:, 0] > limit)
    mean, fitted = reference.mean(axis=0), np.cov(reference.T)
    values = np.empty(2**d)
    for s in range(2**d):
        on = [j for j in range(d) if s >> j & 1]
        if not on or 0 in on:
            values[s] = function(reference).mean() if not on else function([x])[0]
            continue
        slope = np.linalg.solve(fitted[np.ix_(on, on)], fitted[on, 0])
        centre, variance = mean[0] + slope @ (x - mean)[on], fitted[0, 0] - slope @ fitted[on, 0]
        values[s] = 10.0 * norm.sf(limit, centre, math.sqrt(variance))
    game = riesz.Observational(reference, conditional="gaussian", n_conditional_samples=draws)
    explanation = riesz.Explainer(function, game=game, random_state=int(rng.integers(2**32)))([x])
    return explanation.values[0] - shapley(values), explanation.std_error[0]


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    minutes = float(sys.argv[2]) if len(sys.argv) > 2 else 5.0
    cases = {
        f"{way}: {kind}": (lambda rng, k=kind, w=way: of_function(rng, k, w))
        for way in WAYS
        for kind in FUNCTIONS
    }
    for d, limit, draws in [(3, 1.0, 2), (4, 2.0, 10), (3, 2.0, 100), (4, 2.5, 100), (6, 2.0, 100)]:
        name = f"{draws} Gaussian draws: one of {d} columns above {limit}"
        cases[name] = lambda rng, d=d, limit=limit, draws=draws: of_rare_event(rng, d, limit, draws)
    failed = False
    for number, (name, case) in enumerate(cases.items()):
        rng, until, shares, ratios = (
            np.random.default_rng([seed, number]),
            time.time() + 60 * minutes / len(cases),
            [],
            [],
        )
        zero = False
        while len(shares) < 20 or time.time() < until:
            errors, std_error = case(rng)
            # Rounding errors do not count as errors of the estimate.
            shares.append(np.mean(np.abs(errors) <= 1.96 * std_error + 1e-12))
            ratios.append((np.mean(std_error**2), np.mean(errors**2)))
            zero |= bool((std_error == 0).any())
        coverage, error = np.mean(shares), np.std(shares) / math.sqrt(len(shares))
        claimed, true = np.sqrt(np.mean(ratios, axis=0))
        low = coverage < NOMINAL - 3 * error
        failed |= low or zero
        verdict = ("  BELOW" if low else "") + ("  ZERO" if zero else "")
        print(
            f"{name:<58} {coverage:.3f} ± {error:.3f}   x {claimed / true:.2f} of {len(shares)}{verdict}",
            flush=True,
        )
    sys.exit(failed)


if __name__ == "__main__":
    main()
