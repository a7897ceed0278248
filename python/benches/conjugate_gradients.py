"""Times the observational game with all reference rows, by factorisations and by conjugate gradients, and
with landmarks.

    .venv/bin/python python/benches/conjugate_gradients.py

A model with as many support points as reference rows explains 100 rows from 36 coalitions of 10 features,
some of which depend on each other. Each run has its own process, whose peak memory is shown."""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time

import numpy as np
from timing import record

import riesz
from riesz.kernels import RBF

WAYS = {
    "factorisation": {},
    "conjugate gradients": {"cg_tol": 1e-6},
    "1,000 landmarks": {"n_conditional_landmarks": 1000},
}


def run(n: int, rows: int, ridge: float, players: int, way: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 10))
    X[:, 1] = X[:, 0] + 0.3 * X[:, 1]
    X[:, 3] = X[:, 2] * X[:, 0] + 0.3 * X[:, 3]
    model = riesz.Expansion(RBF(2.0), X, rng.normal(size=n) / np.sqrt(n))
    explained = X[:rows] + 0.1 * rng.normal(size=(rows, 10))
    start = time.perf_counter()
    groups = None if players == 10 else {f"g{k}": list(range(k, 10, players)) for k in range(players)}
    game = riesz.Observational(conditional_ridge=ridge, **WAYS[way])
    explanation = riesz.Explainer(model, game=game, groups=groups, n_coalitions=36)(explained)
    seconds = time.perf_counter() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    sys.stdout.buffer.write(np.append(explanation.values.ravel(), [seconds, memory]).tobytes())


def measured(n: int, rows: int, ridge: float, players: int, way: str) -> tuple[np.ndarray, float, float]:
    command = [sys.executable, __file__, "--run", str(n), str(rows), str(ridge), str(players), way]
    numbers = np.frombuffer(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return numbers[:-2], numbers[-2], numbers[-1]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--run", nargs=5, metavar=("N", "ROWS", "RIDGE", "PLAYERS", "WAY"), help=argparse.SUPPRESS
    )
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    parser.add_argument("--sizes", type=int, nargs="*", default=[1000, 2000, 4000, 10_000, 20_000])
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--ridges", type=float, nargs="*", default=[1e-2, 1e-3])
    parser.add_argument("--players", type=int, default=10, help="fewer than 10: groups of features")
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--factored", type=int, default=4000, help="the largest reference that is factored")
    options = parser.parse_args()
    if options.run is not None:
        n, rows, ridge, players, way = options.run
        return run(int(n), int(rows), float(ridge), int(players), way)
    if options.quick:
        options.sizes = [1000]
    coalitions = min(36, 2**options.players - 2)
    size = f"{coalitions} coalitions of {options.players} players, 10 features, {options.rows} rows"
    print(f"riesz {riesz.__version__}, {os.cpu_count()} cores, all threads; {size}")
    print("| n | ridge | way | s | GiB | largest difference |")
    print("|---|---|---|---|---|---|")
    for n in options.sizes:
        for ridge in options.ridges:
            reference, factorisation = None, None
            for way in options.ways:
                if way == "factorisation" and n > options.factored:
                    continue
                values, seconds, memory = measured(n, options.rows, ridge, options.players, way)
                reference = values if reference is None else reference
                difference = np.abs(values - reference).max() / np.abs(reference).max()
                if way == "factorisation":
                    factorisation = {"reference_figure": seconds, "reference_GiB": memory}
                else:
                    sizes = f"n = {n}, ridge {ridge:g}, {size.replace(', 10 features', '')}"
                    compared = {"reference": "factorisation", **factorisation} if factorisation else {}
                    record(way, sizes, seconds, **compared, unit="s", threads=os.cpu_count(), GiB=memory)
                print(
                    f"| {n} | {ridge:g} | {way} | {seconds:.3g} | {memory:.2f} | {difference:.1e} |",
                    flush=True,
                )
    return None


if __name__ == "__main__":
    main()
