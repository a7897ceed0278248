"""Compares interactions of all pairs of features by riesz, shapiq and numpy, on the same rows with one
process and one thread.

    python python/benches/interactions.py [--quick]

prints milliseconds per row, the ratio of times, and the largest difference relative to the largest value.
shapiq evaluates all coalitions of a Gaussian process under the interventional game, with 50 background rows.
numpy uses the best published form under the functional game, the exact Gauss-Legendre rule with ceil(d/2)
nodes as weighted gram matrices of relative differences."""

import os

for name in (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "RAYON_NUM_THREADS",
):
    os.environ[name] = "1"

import argparse
import warnings
from importlib.metadata import version
from itertools import combinations

import numpy as np
import shapiq
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from timing import milliseconds, record

import riesz

warnings.simplefilter("ignore")
N, BACKGROUND = 1000, 50


def fitted(d, n=N):
    rng = np.random.default_rng(d)
    X = rng.normal(size=(n, d))
    model = GaussianProcessRegressor(RBF(np.sqrt(d)), alpha=0.5, optimizer=None).fit(
        X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
    )
    return model, rng.normal(size=(BACKGROUND, d)), rng.normal(size=(20, d))


def by_shapiq(model, background, row, index):
    def coalition_value(coalitions):
        mixed = np.where(np.asarray(coalitions, bool)[:, None, :], row, background)
        return model.predict(mixed.reshape(-1, len(row))).reshape(len(mixed), -1).mean(axis=1)

    interactions = shapiq.ExactComputer(n_players=len(row), game=coalition_value)(index, order=2)
    d = len(row)
    return np.array(
        [interactions[(j,)] for j in range(d)] + [interactions[pair] for pair in combinations(range(d), 2)]
    )


def by_numpy(model, row):
    """The Shapley interaction index of all pairs."""
    points, coef, d = model.X_train_, model.alpha_, len(row)
    x, w = np.polynomial.legendre.leggauss((d + 1) // 2)
    factor = np.exp(-((points - row) ** 2) / (2 * model.kernel_.length_scale**2))
    out = np.zeros((d, d))
    for t, weight in zip((x + 1) / 2, w / 2):
        mixed = (1 - t) + t * factor
        relative = (factor - 1) / mixed
        out += relative.T @ ((weight * coef * np.exp(np.log(mixed).sum(axis=1)))[:, None] * relative)
    return out[np.triu_indices(d, 1)]


def line(case, d, reference, riesz_ms, peer, ours, theirs):
    label = f"{case}, d = {d}, {reference}"
    difference = np.abs(ours - theirs).max() / np.abs(theirs).max()
    background = f", background {BACKGROUND}" if "interventional" in case else ""
    sizes, unit = f"n = {N}, d = {d}{background}", "ms/row"
    record(case, sizes, riesz_ms, reference, peer, unit=unit, difference=difference)
    print(f"| {label} | {riesz_ms:.3f} | {peer:.1f} | {peer / riesz_ms:.0f} | {difference:.0e} |")


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--quick", action="store_true", help="one index and small sizes only")
    quick = arguments.parse_args().quick
    versions = f"riesz {riesz.__version__}, shapiq {version('shapiq')}, numpy {np.__version__}"
    print(f"one thread, n = {N}; {versions}; milliseconds per row\n")
    print("| pairs | riesz | other | ratio | difference |\n|---|---|---|---|---|")
    model, background, rows = fitted(10)
    for index in ["k-SII"] if quick else ["SII", "k-SII", "STII", "FSII", "BII", "FBII", "Moebius"]:
        explainer = riesz.Explainer(model, background, index=index, n_jobs=1)
        riesz_ms, explanation = milliseconds(lambda: explainer(rows), len(rows))
        peer, theirs = milliseconds(lambda: by_shapiq(model, background, rows[0], index), 1)
        d = rows.shape[1]
        line(f"{index}, interventional", d, "shapiq", riesz_ms, peer, explanation.values[0], theirs)
    for d in [10, 50] if quick else [10, 50, 100]:
        model, _, rows = fitted(d)
        explainer = riesz.Explainer(model, index="SII", n_jobs=1)
        riesz_ms, explanation = milliseconds(lambda: explainer(rows), len(rows))
        peer, theirs = milliseconds(lambda: by_numpy(model, rows[0]), 1)
        line("SII, functional", d, "numpy", riesz_ms, peer, explanation.values[0, d:], theirs)


if __name__ == "__main__":
    main()
