"""Compares effects across studies with numpy: the effect at 200 doses with its joint covariance by cause,
from factored kernel matrices on both sides. Whole fits are timed for riesz alone.

    .venv/bin/python python/benches/fusion.py

There are two studies with the same number of rows and one covariate. The comparison with numpy uses the best
hyper-parameters (``n_hyperparameter_samples=0``). Both sides use ``--threads`` threads."""

from __future__ import annotations

import argparse
import os
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--quick", action="store_true", help="small sizes only")
parser.add_argument(
    "--large", action="store_true", help="also time 10,000 rows with 500 landmarks, without numpy"
)
arguments = parser.parse_args()
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ[name] = str(arguments.threads)

import numpy as np
import pandas as pd
from scipy.linalg import cho_factor, cho_solve
from timing import milliseconds, record

import riesz

RIDGE, NOISE = 0.1, 0.1


def studies(n, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    x = z + rng.normal(size=n)
    first = {"z": z, "x": x, "y": np.sin(x) + 0.5 * z + 0.3 * rng.normal(size=n)}
    y = rng.uniform(-3, 3, n)
    return pd.DataFrame(first), pd.DataFrame({"y": y, "t": y * np.cos(y) + 0.3 * rng.normal(size=n)})


def gram(a, b):
    return np.exp(-0.5 * (a[:, None] - b) ** 2)


class Plain:
    """The formulas of riesz in plain numpy: the recursion of one study over a Gaussian process, with the part
    of the Bayesian bootstrap."""

    def __init__(self, first, second):
        self.x, self.z, self.y = (first[name].to_numpy() for name in ("x", "z", "y"))
        self.points, t = second.y.to_numpy(), second.t.to_numpy()
        n = len(self.x)
        self.of_z = gram(self.z, self.z)
        self.first = cho_factor(gram(self.x, self.x) * self.of_z + RIDGE * np.eye(n))
        self.last = cho_factor(gram(self.points, self.points) + NOISE * np.eye(len(t)))
        self.with_points, self.with_each_other = gram(self.y, self.points), gram(self.y, self.y)
        self.coef = cho_solve(self.last, t - t.mean())
        self.h = self.with_points @ self.coef
        self.solved = cho_solve(self.first, self.h)
        everyone = np.concatenate([self.y, self.points])
        cross = gram(everyone, self.points)
        self.square = np.mean((cross @ self.coef) ** 2)
        self.variance = np.mean(1 - np.einsum("ij,ji->i", cross, cho_solve(self.last, cross.T)))
        factor = self.of_z * self.solved[:, None]
        self.half = (factor - factor.mean(1)[:, None]) / np.sqrt(n * (n + 1))

    def effect(self, doses):
        columns, z_means = gram(self.x, doses), self.of_z.mean(1)
        phi = columns * z_means[:, None]
        weights = cho_solve(self.first, phi)
        open_ = gram(doses, doses) * z_means.mean() - phi.T @ weights
        handed = self.with_points.T @ weights
        last_variance = weights.T @ self.with_each_other @ weights - handed.T @ cho_solve(self.last, handed)
        people = self.half.T @ columns
        return (
            weights.T @ self.h,
            last_variance,
            open_ * self.square,
            open_ * self.variance,
            people.T @ people,
        )


def main():
    print(f"{arguments.threads} thread(s); 200 doses, mean and covariance by cause\n")
    print(
        "| rows of each study | numpy, ms | riesz, ms | ratio | whole fit, best, s | whole fit, 16 draws, s |"
    )
    print("|---|---|---|---|---|---|")
    sizes = (100, 500) if arguments.quick else (100, 500, 1000)
    for n in (*sizes, 10_000) if arguments.large and not arguments.quick else sizes:
        first, second = studies(n)
        spent, models = [], []
        for draws in (0, 16):
            models.append(
                riesz.CausalFusion(
                    treatment="x", outcome="t", adjust=["z"], n_hyperparameter_samples=draws, random_state=0
                )
            )
            start = time.perf_counter()
            models[-1].fit([first, second])
            spent.append(time.perf_counter() - start)
        doses = np.linspace(-2, 2, 200)
        ours, _ = milliseconds(lambda: models[0].effect(doses), 1)
        theirs, ratio = "", ""
        if n in sizes:
            plain = Plain(first, second)
            milli, _ = milliseconds(lambda: plain.effect(doses), 1)
            theirs, ratio = f"{milli:.1f}", f"{milli / ours:.1f}"
            sides = {"riesz": ours, "reference": "numpy", "reference_figure": milli}
        else:
            sides = {"riesz": ours}
        size, threads = f"{n} rows of each study", arguments.threads
        record("effect at 200 doses", size, **sides, unit="ms", threads=threads)
        for parameters, seconds in zip(("best", "16 draws"), spent):
            record(f"whole fit, {parameters}", size, seconds, unit="s", threads=threads)
        print(f"| {n} | {theirs} | {ours:.1f} | {ratio} | {spent[0]:.2f} | {spent[1]:.2f} |", flush=True)


main()
