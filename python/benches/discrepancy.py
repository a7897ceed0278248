"""Compares the attribution of MMD² and HSIC to features, and their permutation tests, with numpy.

    .venv/bin/python python/benches/discrepancy.py

The reference is the best known form of the published attribution. It has one array of pairs for each feature,
Gauss-Legendre quadrature with the exact number of nodes, and prefix and suffix products, in blocks of rows
that bound the memory. The reference of the permutation test multiplies the whole gram matrix with all
relabellings at once. Both sides use one thread, unless the environment sets another number."""

from __future__ import annotations

import argparse
import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import time

import numpy as np
from timing import record

import riesz
from riesz.kernels import RBF


def attribute(X, W, lengthscale, block=50):
    """Shapley values of Σ_ij W_ij k(x_i, x_j) in the functional game, where absent factors are 1."""
    n, d = X.shape
    nodes, weights = np.polynomial.legendre.leggauss((d + 1) // 2)
    nodes, weights = (nodes + 1) / 2, weights / 2
    values = np.zeros(d)
    for start in range(0, n, block):
        rows = slice(start, min(start + block, n))
        factors = np.exp(-((X[rows, None] - X[None]) ** 2) / (2 * lengthscale**2))
        for t, weight in zip(nodes, weights):
            mixed = 1 - t + t * factors
            before = np.ones_like(mixed)
            np.cumprod(mixed[..., :-1], axis=-1, out=before[..., 1:])
            after = np.ones_like(mixed)
            after[..., :-1] = np.cumprod(mixed[..., :0:-1], axis=-1)[..., ::-1]
            values += weight * np.einsum("ij,ijk->k", W[rows], (factors - 1) * before * after)
    return values


def mmd_weights(n, m):
    W = np.full((n + m, n + m), -1.0 / (n * m))
    W[:n, :n], W[n:, n:] = 1 / (n * (n - 1)), 1 / (m * (m - 1))
    np.fill_diagonal(W, 0)
    return W


def permutation_test(X, n, lengthscale, permutations, rng):
    square = (X**2).sum(1)
    K = np.exp(-np.maximum(square[:, None] + square - 2 * X @ X.T, 0) / (2 * lengthscale**2))
    np.fill_diagonal(K, 0)
    N, m = len(X), len(X) - n
    labels = np.zeros((N, permutations + 1))
    for b in range(permutations + 1):
        labels[rng.permutation(N)[:n] if b else np.arange(n), b] = 1
    product = K @ labels
    group_sums, rows = (labels * product).sum(0), K.sum(1)
    cross = labels.T @ rows - group_sums
    total = rows.sum()
    statistic = (
        group_sums / (n * (n - 1)) + (total - group_sums - 2 * cross) / (m * (m - 1)) - 2 * cross / (n * m)
    )
    return statistic[0], (1 + (statistic[1:] >= statistic[0]).sum()) / (permutations + 1)


def best(function, repetitions):
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return min(times), result


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, one repetition")
    quick = parser.parse_args().quick
    n, d, draws, repetitions = (100, 8, 50, 1) if quick else (1000, 20, 1000, 5)
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(n, d)), rng.normal(size=(n, d)) * np.linspace(1, 1.3, d)
    y = X[:, 0] * X[:, 1] + rng.normal(size=n)
    pooled = np.vstack([X, Z])
    lengthscale = np.sqrt(2 * d)
    kernel = RBF(lengthscale)
    threads, sizes = os.environ["RAYON_NUM_THREADS"], f"n = m = {n}, d = {d}"
    print(f"riesz {riesz.__version__}, numpy {np.__version__}, threads: {threads}, {sizes}")
    print("| what | numpy, s | riesz, s | times faster | largest difference |")
    print("|---|---|---|---|---|")

    def line(label, theirs, ours, difference):
        print(f"| {label} | {theirs:.3g} | {ours:.3g} | {theirs / ours:.1f} | {difference:.1e} |", flush=True)
        record(label, sizes, ours, "numpy", theirs, unit="s", threads=threads, difference=difference)

    theirs, expected = best(lambda: attribute(pooled, mmd_weights(n, n), lengthscale), 1)
    ours, result = best(
        lambda: riesz.mmd_test(X, Z, kernel=kernel, kernel_factors="product", n_permutations=0), repetitions
    )
    line("MMD² attributed", theirs, ours, np.abs(result.attributions.values[0] - expected).max())

    scale = float(np.sqrt(np.median((y[:, None] - y)[np.triu_indices(n, 1)] ** 2)))
    L = np.exp(-((y[:, None] - y) ** 2) / (2 * scale**2))
    H = np.eye(n) - 1 / n
    target = RBF(scale)
    theirs, expected = best(lambda: attribute(X, H @ L @ H / (n - 1) ** 2, lengthscale), 1)
    hsic = lambda **options: riesz.hsic_test(X, y, kernel=kernel, target_kernel=target, **options)
    ours, result = best(lambda: hsic(kernel_factors="product", n_permutations=0), repetitions)
    line("HSIC attributed", theirs, ours, np.abs(result.attributions.values[0] - expected).max())

    test = lambda: permutation_test(pooled, n, lengthscale, draws, np.random.default_rng(1))
    theirs, expected = best(test, 1 if quick else 3)
    ours, result = best(
        lambda: riesz.mmd_test(
            X, Z, kernel=kernel, kernel_factors="product", n_permutations=draws, attribution=None
        ),
        repetitions,
    )
    line(f"MMD² tested, {draws} permutations", theirs, ours, abs(result.statistic - expected[0]))

    mmd = lambda **options: riesz.mmd_test(X, Z, kernel=kernel, **options)
    time_of = lambda run, **options: best(lambda: run(**options), repetitions)[0]
    print(f"\n{draws} permutations, in times of one statistic:")
    print("| | factors | one statistic, ms | attributed, ms | permutation test, s | with all features, s |")
    print("|---|---|---|---|---|---|")
    for name, run in [("MMD²", mmd), ("HSIC", hsic)]:
        for factors in ["product", "orthogonal"]:
            single = time_of(run, kernel_factors=factors, n_permutations=0, attribution=None)
            bare = time_of(run, kernel_factors=factors, n_permutations=draws, attribution=None)
            attributed = time_of(run, kernel_factors=factors, n_permutations=0)
            full = time_of(run, kernel_factors=factors, n_permutations=draws)
            print(
                f"| {name} | {factors} | {1e3 * single:.1f} | {1e3 * attributed:.1f}"
                f" | {bare:.3g} ({bare / single:.0f} times) | {full:.3g} ({full / attributed:.0f} times) |"
            )
            case, size = f"{name}, {factors} factors, permutation test", f"{sizes}, {draws} permutations"
            record(case, size, bare, unit="s", threads=threads, one_statistic=single)
            case += " with all features"
            record(case, size, full, unit="s", threads=threads, one_attribution=attributed)


if __name__ == "__main__":
    main()
