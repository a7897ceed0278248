"""Compares observational Shapley values (RKHS-SHAP) with the published algorithm in numpy and scipy.

    .venv/bin/python python/benches/observational.py

The reference computes the kernel matrix of each feature once. For each coalition S it multiplies them to
``K_S`` (n × n), and factors ``K_S + n ridge I`` with LAPACK once for all rows; there is no loop over rows.
Both sides use the same model, rows and threads."""

from __future__ import annotations

import argparse
import math
import os
import time

import numpy as np
import scipy.linalg
from sklearn.kernel_ridge import KernelRidge
from timing import record

import riesz


def reference(points, coef, gamma, rows, ridge):
    """Shapley values from all coalitions, by the published algorithm."""
    n, d = points.shape
    grams = [np.exp(-gamma * (points[:, None, j] - points[None, :, j]) ** 2) for j in range(d)]
    cross = [np.exp(-gamma * (points[:, None, j] - rows[None, :, j]) ** 2) for j in range(d)]

    def product(factors, which, shape):
        out = np.ones(shape)
        for j in which:
            out *= factors[j]
        return out

    mean = coef @ product(grams, range(d), (n, n)).mean(axis=1)
    values = np.zeros((len(rows), d))
    for mask in range(1 << d):
        inside = [j for j in range(d) if mask >> j & 1]
        outside = [j for j in range(d) if not mask >> j & 1]
        present = product(cross, inside, (n, len(rows)))
        absent = product(grams, outside, (n, n))
        if not inside:
            value = np.full(len(rows), coef @ absent.mean(axis=1))
        elif not outside:
            value = coef @ present
        else:
            system = product(grams, inside, (n, n))
            system[np.diag_indices(n)] += n * ridge
            factor = scipy.linalg.cho_factor(system, lower=True, overwrite_a=True, check_finite=False)
            weights = scipy.linalg.cho_solve(factor, present, check_finite=False)
            # The estimate is shrunk towards the mean instead of 0, the default of riesz.
            value = coef @ (present * (absent @ weights)) + mean * (1 - weights.sum(axis=0))
        s = len(inside)
        for j in range(d):
            if mask >> j & 1:
                values[:, j] += value * math.factorial(s - 1) * math.factorial(d - s) / math.factorial(d)
            else:
                values[:, j] -= value * math.factorial(s) * math.factorial(d - s - 1) / math.factorial(d)
    return values


def best(function, repetitions):
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return min(times), result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, one repetition")
    quick = parser.parse_args().quick
    print(
        f"riesz {riesz.__version__}, numpy {np.__version__}, scipy {scipy.__version__}, {os.cpu_count()} "
        "cores, all threads"
    )
    print("| n | d | coalitions | rows | numpy, s | riesz, s | times faster | largest difference |")
    print("|---|---|---|---|---|---|---|---|")
    sizes = (
        [(500, 6, 100)]
        if quick
        else [(500, 6, 100), (500, 10, 100), (1000, 8, 100), (3000, 2, 100), (3000, 2, 3000)]
    )
    for n, d, r in sizes:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(n, d))
        y = np.sin(X[:, 0]) + X.sum(axis=1) / d
        gamma, ridge = 0.5 / d, 1e-3
        model = KernelRidge(kernel="rbf", gamma=gamma, alpha=0.1).fit(X, y)
        rows = X[:r] + 0.01
        explain = lambda: (
            riesz.Explainer(model, game=riesz.Observational(conditional_ridge=ridge))(rows).values
        )
        repetitions = 1 if quick else 3
        theirs, expected = best(
            lambda: reference(X, model.dual_coef_, gamma, rows, ridge), repetitions if n < 3000 else 1
        )
        ours, actual = best(explain, repetitions)
        difference = np.abs(actual - expected).max()
        size, threads = f"n = {n}, d = {d}, {r} rows", os.cpu_count()
        figures = (ours, "numpy and scipy", theirs)
        record("observational", size, *figures, unit="s", threads=threads, difference=difference)
        print(
            f"| {n} | {d} | {1 << d} | {r} | {theirs:.3g} | {ours:.3g} | {theirs / ours:.1f} | "
            f"{difference:.1e} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
