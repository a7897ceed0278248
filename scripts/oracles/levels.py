#!/usr/bin/env python3
"""Counts how often tests reject true null hypotheses, at most at the level, and false ones, with the stated
power.

    maturin develop --release && pip install scipy
    scripts/oracles/levels.py [SEED [MINUTES]]

Two-sample and independence tests are run on fresh samples: smooth, heavy-tailed, with ties, of levels, of
very unequal sizes, and far from 0. They use either kind of factors and every estimator, with one kernel or
several.

Permutations make the levels exact for every n: P(p ≤ α) ≤ α for α = .01, .05 and .1, and P(p ≤ α) = α without
ties. This holds for the whole test, the smallest adjusted p-value of a feature, the p-value of a feature
alone, and the p-value of the part that only three or more features show. The p-value of a feature alone keeps
its level also if other features differ.

Prints the counts for each case. Fails if exact binomial limits exclude a claim; if all claims hold, the
probability of a failure is 1 in 1000. The wild bootstrap and tests given other columns are not counted, since
their levels are approximate."""

import concurrent.futures
import os
import sys
import time

import numpy as np
from scipy.stats import binom

import riesz
from riesz.kernels import RBF, Categorical, Laplacian, Linear

ALPHAS = (0.01, 0.05, 0.1)
DRAWS = 99
MIN_RUNS = 100
ALARM = 1e-3
SCALES = [0.25, 0.5, 1, 2, 4]


def levels(rng, n, d):
    return rng.choice(np.array(["p", "q", "r", "s"], dtype=object), size=(n, d), p=[0.5, 0.3, 0.15, 0.05])


def copied(rng, n, d):
    column = rng.normal(size=(n, 1))
    return np.hstack([column] * (d - 1) + [rng.normal(size=(n, 1))])


#: Distributions of n rows with d columns, for both samples, or for X and Y.
ROWS = {
    "normal": lambda rng, n, d: rng.normal(size=(n, d)),
    "Cauchy": lambda rng, n, d: rng.standard_cauchy(size=(n, d)),
    "far from 0": lambda rng, n, d: 1e6 + rng.normal(size=(n, d)),
    "copied columns": copied,
    "two values": lambda rng, n, d: 1.0 * (rng.random((n, d)) < 0.4),
    "counts": lambda rng, n, d: rng.poisson(1.0, size=(n, d)) * 1.0,
    "levels": levels,
    "mostly 0": lambda rng, n, d: np.where(rng.random((n, d)) < 0.9, 0.0, rng.normal(size=(n, d))),
}
#: Distributions almost surely without ties among statistics, so that rejection rates equal the level.
SMOOTH = {"normal", "far from 0", "copied columns"}


def mmd(rows, n, m, d=3, **settings):
    def run(rng):
        return riesz.mmd_test(ROWS[rows](rng, n, d), ROWS[rows](rng, m, d), **settings, **drawn(rng))

    return run


def hsic(rows, targets, n, d=3, **settings):
    def run(rng):
        Y = ROWS[targets](rng, n, 1)
        # A test refuses targets that are equal in all rows but one.
        while np.sort(Y, axis=0)[1] == np.sort(Y, axis=0)[-2]:
            Y = ROWS[targets](rng, n, 1)
        return riesz.hsic_test(ROWS[rows](rng, n, d), Y, **settings, **drawn(rng))

    return run


def drawn(rng):
    return {"n_permutations": DRAWS, "random_state": int(rng.integers(2**32)), "n_jobs": 1}


PRODUCT, BIASED = {"kernel_factors": "product"}, {"estimator": "biased"}
AGGREGATED = {"length_scale_multiples": SCALES}
LINEAR = {"kernel": Linear()}

#: For each case its test, and whether rejection rates equal the level.
NULL = {
    **{f"mmd, {rows}": (mmd(rows, 20, 20), rows in SMOOTH) for rows in ROWS},
    **{f"mmd, {rows}, product": (mmd(rows, 20, 15, **PRODUCT), rows in SMOOTH) for rows in ROWS},
    **{f"mmd, {rows}, 5 and 60 rows, biased": (mmd(rows, 5, 60, **BIASED), False) for rows in ROWS},
    **{f"mmd, {rows}, 60 and 5 rows": (mmd(rows, 60, 5), False) for rows in ROWS},
    **{f"mmd, {rows}, aggregated": (mmd(rows, 15, 20, **AGGREGATED), False) for rows in ROWS if rows != "levels"},
    "mmd, normal, aggregated, product": (mmd("normal", 15, 20, **AGGREGATED, **PRODUCT), False),
    "mmd, normal, 3 and 3 rows, "
    "aggregated": (mmd("normal", 3, 3, 2, kernel=[RBF(1e4), RBF(2e4)], **PRODUCT), False),
    "mmd, normal, linear time": (mmd("normal", 20, 20, estimator="linear"), True),
    "mmd, normal, blocks of 5": (mmd("normal", 20, 20, estimator="block", block_size=5), True),
    "mmd, two values, 300 and 2 rows, Linear()": (mmd("two values", 300, 2, 1, **LINEAR), False),
    "mmd, two values, 2 and 300 rows, Linear()": (mmd("two values", 2, 300, 1, **LINEAR), False),
    "mmd, two values, 300 and 2 rows, Linear(), "
    "product": (mmd("two values", 300, 2, 1, **LINEAR, **PRODUCT), False),
    "mmd, far from 0, Linear()": (mmd("far from 0", 20, 20, **LINEAR), True),
    "mmd, normal, Laplacian": (mmd("normal", 20, 20, kernel=Laplacian(1.0)), True),
    **{f"hsic, {rows}": (hsic(rows, "normal", 25), rows in SMOOTH) for rows in ROWS},
    **{f"hsic, {rows}, unbiased": (hsic(rows, rows, 20, estimator="unbiased"), False) for rows in ROWS},
    **{f"hsic, {rows}, product": (hsic(rows, rows, 20, **PRODUCT), False) for rows in ROWS},
    "hsic, normal, aggregated": (hsic("normal", "normal", 20, **AGGREGATED), False),
    "hsic, normal, by the target": (hsic("normal", "normal", 20, attribute_to="Y"), True),
    "hsic, counts as classes": (hsic("normal", "counts", 25, target_kernel=Categorical()), False),
    "hsic, far from 0, Linear()": (hsic("far from 0", "normal", 20, 2, kernel=Linear()), True),
}  # fmt: skip


def shifted(rng, **settings):
    """The first column differs so much that it hides the second; the third has the same distribution."""
    X, Z = rng.normal(size=(80, 3)), rng.normal(size=(80, 3)) + [3.0, 0.7, 0.0]
    return riesz.mmd_test(X, Z, **settings, **drawn(rng))


def dependent(rng, **settings):
    """The samples differ only in the dependence between columns."""
    X, Z = rng.normal(size=(80, 2)), rng.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], size=80)
    return riesz.mmd_test(X, Z, **settings, **drawn(rng))


def fine(rng):
    X = rng.random((150, 1)) * 6
    Z = np.array([v for v in rng.random(2000) * 6 if rng.random() < 0.5 * (1 + np.sin(6 * v))])[:150, None]
    return riesz.mmd_test(X, Z, length_scale_multiples=[0.05, 0.25, 1, 4], **drawn(rng))


def moved(rng, offset):
    X, Z = offset + rng.normal(size=(30, 1)), offset + 1.0 + rng.normal(size=(30, 1))
    return riesz.mmd_test(X, Z, **LINEAR, **drawn(rng))


def curved(rng, **settings):
    """The target is a square plus a product of two columns; the fourth column has no effect."""
    X = rng.normal(size=(80, 4))
    y = X[:, 0] ** 2 + 1.5 * X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=80)
    return riesz.hsic_test(X, y, **settings, **drawn(rng))


def sign(rng):
    """The target depends on three columns, any two of which are independent of it."""
    X = rng.choice([-1.0, 1.0], size=(100, 3))
    return riesz.hsic_test(X, X.prod(axis=1) + 0.2 * rng.normal(size=100), **drawn(rng))


#: For each case its test, a p-value, and the smallest allowed probability that this is at most .05.
POWER = {
    "the hidden feature": (shifted, lambda result: result.adjusted_pvalues[1], 0.8),
    "the hidden feature, alone": (shifted, lambda result: result.marginal_pvalues[1], 0.9),
    "dependence alone": (dependent, lambda result: result.pvalue, 0.8),
    "a fine difference, aggregated": (fine, lambda result: result.pvalue, 0.8),
    "moved by 1, Linear()": (lambda rng: moved(rng, 0.0), lambda result: result.pvalue, 0.9),
    "moved by 1, Linear(), far from 0": (lambda rng: moved(rng, 1e6), lambda result: result.pvalue, 0.9),
    "a square": (curved, lambda result: result.adjusted_pvalues[0], 0.8),
    "a product of two": (curved, lambda result: result.adjusted_pvalues[2], 0.6),
    "a square, unbiased": (
        lambda rng: curved(rng, estimator="unbiased"),
        lambda result: result.adjusted_pvalues[0],
        0.7,
    ),
    "three together": (sign, lambda result: result.higher_order.pvalue, 0.8),
}

#: For each case its test, and a p-value that keeps its level although other features differ.
BYSTANDERS = {
    "mmd, alone": (shifted, lambda result: result.marginal_pvalues[2]),
    "mmd, alone, where dependence differs": (dependent, lambda result: result.marginal_pvalues[0]),
    "hsic, alone": (curved, lambda result: result.marginal_pvalues[3]),
}


def pvalues(result):
    """The p-values of a test; each keeps its level under the null hypothesis."""
    by_name = {
        "whole": result.pvalue,
        "adjusted": result.adjusted_pvalues.min(),
        "first feature": result.pvalues[0],
    }
    if result.marginal_pvalues is not None:
        by_name["first alone"] = result.marginal_pvalues[0]
    if result.higher_order is not None:
        by_name["beyond"] = result.higher_order.pvalue
    return by_name


#: For each case a function that returns p-values by name, and the claim about them: "at most", "equal", or
#: the smallest power.
CASES = {
    **{
        name: (lambda rng, run=run: pvalues(run(rng)), "equal" if exact else "at most")
        for name, (run, exact) in NULL.items()
    },
    **{
        f"bystander: {name}": (lambda rng, run=run, pvalue=pvalue: {"p": pvalue(run(rng))}, "at most")
        for name, (run, pvalue) in BYSTANDERS.items()
    },
    **{
        f"power: {name}": (lambda rng, run=run, pvalue=pvalue: {"p": pvalue(run(rng))}, power)
        for name, (run, pvalue, power) in POWER.items()
    },
}


def count(number, seed, seconds):
    """The p-values of a case in all runs."""
    make, _ = list(CASES.values())[number]
    rng, until, results = np.random.default_rng([seed, number]), time.monotonic() + seconds, []
    while len(results) < MIN_RUNS or time.monotonic() < until:
        results.append(make(rng))
    return {name: np.array([result[name] for result in results]) for name in results[0]}


def verdicts(claim, counted):
    """For each kind of p-value its counts, and their tail probabilities under the claim."""
    for name, p in counted.items():
        runs = len(p)
        counts = [int((p <= alpha + 1e-12).sum()) for alpha in ALPHAS]
        if isinstance(claim, float):
            yield name, counts, runs, [binom.cdf(counts[1], runs, claim)]
            continue
        probabilities = [binom.sf(k - 1, runs, alpha) for k, alpha in zip(counts, ALPHAS)]
        if claim == "equal" and name == "whole":
            probabilities += [binom.cdf(k, runs, alpha) for k, alpha in zip(counts, ALPHAS)]
        yield name, counts, runs, probabilities


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    minutes = float(sys.argv[2]) if len(sys.argv) > 2 else 5.0
    workers = os.cpu_count() or 1
    seconds = 60 * minutes * workers / len(CASES)
    rows = []
    with concurrent.futures.ProcessPoolExecutor(workers) as pool:
        mapped = pool.map(count, range(len(CASES)), [seed] * len(CASES), [seconds] * len(CASES))
        for (name, (_, claim)), counted in zip(CASES.items(), mapped):
            rows += [(f"{name}: {which}", claim, *numbers) for which, *numbers in verdicts(claim, counted)]
    limit = ALARM / sum(len(probabilities) for *_, probabilities in rows)
    failed = False
    for name, claim, counts, runs, probabilities in rows:
        wrong = bool(min(probabilities) < limit)
        failed |= wrong
        shares = "  ".join(f"{k / runs:.3f}" for k in counts)
        claimed = f"at least {claim} at .05" if isinstance(claim, float) else claim
        print(f"{name:<70} {shares}  of {runs}, {claimed}{'  WRONG' if wrong else ''}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
