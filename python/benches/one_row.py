"""Times explanations of one row from Python, and the part of them that is not the core's.

    python python/benches/one_row.py

A support vector machine and a Gaussian process of scikit-learn with 500 rows of 10 columns are explained one
row at a time, in the functional game and with 50 background rows. The core's time is that of its call alone,
on rows that are already checked. The remainder checks and converts the row, and builds the explanation.
riesz uses one thread."""

from __future__ import annotations

import os

os.environ["RAYON_NUM_THREADS"] = "1"

import argparse
import time

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.svm import SVR
from timing import record

import riesz


def microseconds(act, runs):
    """Median microseconds of a call."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        act()
        times.append(time.perf_counter() - start)
    return 1e6 * float(np.median(times))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    runs = 200 if parser.parse_args().quick else 2000
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 10))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
    models = {
        "support vector machine": SVR().fit(X, y),
        "Gaussian process": GaussianProcessRegressor(RBF(3.0), alpha=0.1, optimizer=None).fit(X, y),
    }
    print(f"{'model':24} {'game':16} {'call, µs':>9} {'core, µs':>9} {'remainder, µs':>14}")
    for name, model in models.items():
        for game, background in (("functional", None), ("interventional", X[:50])):
            explainer = riesz.Explainer(model, background)
            row = X[:1]
            (core,), (cells,) = explainer._cores, explainer._model_rows(row, "X")
            call = microseconds(lambda: explainer(row), runs)
            core_alone = microseconds(lambda: core.explain(cells, None, None), runs)
            remainder = call - core_alone
            print(f"{name:24} {game:16} {call:9.1f} {core_alone:9.1f} {remainder:14.1f}")
            record(
                "remainder beside the core",
                f"{name}, {game}",
                remainder,
                unit="µs",
                call=call,
                core=core_alone,
            )


if __name__ == "__main__":
    main()
