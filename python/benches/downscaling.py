"""Compares exact downscaling with numpy: the marginal likelihood that tuning evaluates, and a map with its
standard deviations.

    .venv/bin/python python/benches/downscaling.py

The marginal likelihood of means over bags and its gradient are compared with the same formulas over the whole
gram matrix of the rows. The conditional mean process (Chau, Bouabid and Sejdinovic 2021) through mediators is
compared with its published arithmetic, which inverts a matrix between rows. Both sides use ``--threads``
threads. ``--large`` instead times riesz alone, on a million rows in 10,000 bags with 1,000 inducing
points."""

from __future__ import annotations

import argparse
import os
import pathlib
import resource
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--quick", action="store_true", help="small sizes only")
parser.add_argument(
    "--large",
    type=int,
    nargs="?",
    const=10_000,
    metavar="BAGS",
    help="time only this number of bags with 20 to 180 rows each",
)
parser.add_argument(
    "--tables",
    type=pathlib.Path,
    metavar="FOLDER",
    help="with --large: only write its tables to this folder, for the command line",
)
arguments = parser.parse_args()
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ[name] = str(arguments.threads)

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from timing import milliseconds, record

import riesz
from riesz import _core
from riesz.kernels import RBF, Constant

NOISE, RIDGE, LENGTH = 0.05, 0.01, 0.8


def data(n, bags, d=3, seed=0):
    rng = np.random.default_rng(seed)
    # Every bag has at least one row.
    bag = np.sort(np.concatenate([np.arange(bags), rng.integers(bags, size=n - bags)]))
    X = rng.normal(size=(bags, d))[bag] + 0.5 * rng.normal(size=(n, d))
    f = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2]
    z = np.bincount(bag, f) / np.bincount(bag) + 0.1 * rng.normal(size=bags)
    return X, bag, z, rng.normal(size=(bags, 2))


def gram(A, B, length):
    """The Gaussian gram matrix of A and B, computed in place."""
    A, B = A / length, B / length
    K = A @ B.T
    K -= 0.5 * (A * A).sum(1)[:, None]
    K -= 0.5 * (B * B).sum(1)
    return np.exp(K, out=K)


def evidence(X, bag, z, lengths):
    """The log marginal likelihood of means over bags around an estimated constant, and its gradient by the
    logarithms of scale, length scales and noise."""
    size = np.bincount(bag).astype(float)
    starts = np.concatenate([[0], np.cumsum(size)[:-1].astype(int)])
    K = gram(X, X, lengths)
    U = np.add.reduceat(np.add.reduceat(K, starts, axis=0), starts, axis=1) / np.outer(size, size)
    factor = cho_factor(U + NOISE * np.eye(len(z)), lower=True)
    inverse = cho_solve(factor, np.eye(len(z)))
    row_sums = inverse.sum(1)
    r = z - row_sums @ z / row_sums.sum()
    a = inverse @ r
    value = -0.5 * (r @ a + 2 * np.log(np.diag(factor[0])).sum() + len(z) * np.log(2 * np.pi))
    T = np.outer(a, a) - inverse
    K *= (T / np.outer(size, size))[np.ix_(bag, bag)]
    rows, S = K.sum(1), X / lengths
    # Sums of squared differences are sums of squares minus products.
    slopes = rows @ (S * S) - ((K @ S) * S).sum(0)
    return value, np.concatenate([[0.5 * rows.sum()], slopes, [0.5 * NOISE * np.trace(T)]])


def evidences(n, bags):
    X, bag, z, _ = data(n, bags)
    lengths = np.full(X.shape[1], LENGTH)
    names, levels = [f"x{j}" for j in range(X.shape[1])], [None] * X.shape[1]
    kernel = (Constant(1.0) * RBF(lengths))._to_json(names, levels)
    start = {
        "kernel": kernel,
        "noise": NOISE,
        "row_noise": 0.0,
        "mediation_noise": 0.0,
        "mediation": None,
        "tied": None,
    }
    start |= {"prior_mean": None, "normalize_y": False, "bound": False, "published": False, "exact": False}
    aggregates = {
        "rows": (names, levels, X),
        "row": list(range(n)),
        "bag": bag.tolist(),
        "bags": bags,
        "weight": None,
        "sums": False,
    }
    aggregates |= {
        "name": "z",
        "targets": z.tolist(),
        "bag_of_target": list(range(bags)),
        "known": None,
        "mediators": None,
    }
    aggregates = _core.Aggregates(aggregates)
    ours, (value, gradient) = milliseconds(lambda: _core.aggregate_evidence(start, aggregates), 1)
    other, (expected, slopes) = milliseconds(lambda: evidence(X, bag, z, lengths), 1)
    difference = max(abs(value - expected), np.abs(np.array(gradient) - slopes).max()) / abs(expected)
    return ours, other, difference


def published(X, bag, z, Y, ridge):
    """Mean and standard deviation at the rows, with all computations on matrices between rows."""
    n, y = len(X), Y[bag]
    A = np.linalg.solve(gram(y, y, LENGTH) + n * ridge * np.eye(n), gram(y, Y, LENGTH))
    KA = gram(X, X, LENGTH) @ A
    inverse = np.linalg.inv(A.T @ KA + NOISE * np.eye(len(z)))
    return KA @ (inverse @ z), np.sqrt(1 - ((KA @ inverse) * KA).sum(1))


def maps(n, bags):
    X, bag, z, Y = data(n, bags)
    table = {"bag": np.arange(bags), "z": z, "y0": Y[:, 0], "y1": Y[:, 1]}
    import pandas as pd

    process = riesz.AggregateGaussianProcess(
        RBF(np.full(X.shape[1], LENGTH)),
        noise=NOISE,
        operator="mediated",
        mediator_kernel=RBF(np.full(2, LENGTH)),
        mediator_ridge=RIDGE,
        mediator_examples="rows",
        centered=False,
        row_noise=0.0,
        mediation_noise=0.0,
        prior_mean=0.0,
        normalize_y=False,
        optimizer=None,
        n_hyperparameter_samples=0,
    )

    def act():
        fit = process.fit(X, pd.DataFrame(table), bag=bag, target="z", mediators=["y0", "y1"])
        return fit.predict(X, return_std=True)

    ours, actual = milliseconds(act, 1)
    other, expected = milliseconds(lambda: published(X, bag, z, Y, RIDGE), 1)
    return ours, other, max(np.abs(a - b).max() for a, b in zip(actual, expected, strict=True))


def large(bags, d=5, seed=0):
    """Times a fit of riesz, tuned from its defaults, and its map, with the CPU seconds of all threads."""
    rng = np.random.default_rng(seed)
    size = rng.integers(20, 181, size=bags)
    bag = np.repeat(np.arange(bags), size)
    X = rng.normal(size=(bags, d))[bag] + 0.35 * rng.normal(size=(len(bag), d))
    f = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + np.exp(-(X[:, 3] ** 2)) + 0.3 * X[:, 1]
    z = np.bincount(bag, f) / size + 0.1 * rng.normal(size=bags)
    if arguments.tables:
        import pandas as pd

        arguments.tables.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(X, columns=[f"x{j}" for j in range(d)]).assign(bag=bag).to_parquet(
            arguments.tables / "rows.parquet"
        )
        pd.DataFrame({"bag": np.arange(bags), "z": z}).to_csv(arguments.tables / "bags.csv", index=False)
        return
    points = min(1000, max(200, 2 * bags))
    process = riesz.AggregateGaussianProcess(n_inducing=points, random_state=0)

    def timed(label, act):
        start, cpu = time.perf_counter(), time.process_time()
        out = act()
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"| {label} | {wall:.0f} | {cpu:.0f} | {peak:.2f} |", flush=True)
        record(label, sizes, wall, unit="s", threads=arguments.threads, CPU_s=cpu, GiB=peak)
        return out

    sizes = f"{len(X):,} rows in {bags:,} bags, {points:,} points"
    print(f"{sizes}\n| what | s | s of all threads | peak GiB |\n|---|---|---|---|")
    timed("tuned fit", lambda: process.fit(X, z, bag=bag))
    mean, sd = timed("map with standard deviations", lambda: process.predict(X, return_std=True))
    rmse, share = np.sqrt(np.mean((mean - f) ** 2)), np.mean(np.abs(mean - f) < 1.96 * sd)
    print(
        f"RMSE of rows {rmse:.3f} of {f.std():.3f}, coverage {share:.2f}; of left-out bags "
        f"{process.loo_.coverage:.3f}"
    )


def main():
    print(f"riesz {riesz.__version__}, numpy {np.__version__}; threads: {arguments.threads}; Gaussian kernel")
    if arguments.large is not None:
        return large(arguments.large // 100 if arguments.quick else arguments.large)
    print("3 columns")
    print(
        "| what | rows | bags | numpy, s | riesz, s | times faster | largest difference "
        "|\n|---|---|---|---|---|---|---|"
    )
    sizes = [1000] if arguments.quick else [1000, 2000, 5000]
    for label, measure, counts in (
        ("value and gradient", evidences, sizes),
        ("conditional mean process", maps, sizes[:2]),
    ):
        for n in counts:
            ours, other, difference = measure(n, 50)
            sizes = f"{n} rows, 50 bags, 3 columns"
            seconds = {"riesz": ours / 1e3, "reference": "numpy", "reference_figure": other / 1e3}
            threads = arguments.threads
            record(label, sizes, **seconds, unit="s", threads=threads, difference=difference)
            print(
                f"| {label} | {n} | 50 | {other / 1e3:.3g} | {ours / 1e3:.3g} | {other / ours:.1f} | "
                f"{difference:.1e} "
                "|",
                flush=True,
            )


if __name__ == "__main__":
    main()
