"""Compares support vector classification of the adult data by riesz, scikit-learn (LIBSVM) and
scikit-learn-intelex (oneDAL).

    .venv/bin/python python/benches/svm.py FOLDER              # --sizes 5000 for a small one only

FOLDER has adult_train.csv and adult_test.csv (UCI Adult with a header). Categories are one-hot columns and
numbers are standardised, 108 columns in all. Each fit has its own process with one thread. CPU time is that
of the fit alone; peak memory is shown beside the memory before the fit. Decision values of 2,000 test rows
are compared with those of scikit-learn. Without scikit-learn-intelex its lines are missing."""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from timing import record

WAYS = {"scikit-learn": "sklearn", "scikit-learn-intelex": "sklearnex", "riesz": "riesz"}
GAMMA = 0.02


def adult(folder: Path, n: int | None = None, tested: int | None = 2000) -> tuple[np.ndarray, ...]:
    """The first n training rows with their labels, and test rows with their labels."""
    train, test = (
        pd.read_csv(folder / f"adult_{part}.csv", skipinitialspace=True) for part in ("train", "test")
    )
    y, right = (rows.pop("income").str.startswith(">").to_numpy() for rows in (train, test))
    numbers = [c for c in train if train[c].dtype.kind in "if"]
    center, scale = train[numbers].mean(), train[numbers].std(ddof=0)
    train[numbers], test[numbers] = (train[numbers] - center) / scale, (test[numbers] - center) / scale
    train = pd.get_dummies(train, dtype=float)
    test = pd.get_dummies(test.iloc[:tested], dtype=float).reindex(columns=train.columns, fill_value=0.0)
    return (
        np.ascontiguousarray(train.to_numpy()[:n]),
        y[:n],
        np.ascontiguousarray(test.to_numpy()),
        right[:tested],
    )


def gibibytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def run(folder: Path, n: int, c: float, way: str) -> None:
    if way == "scikit-learn":
        from sklearn.svm import SVC
    elif way == "scikit-learn-intelex":
        from sklearnex.svm import SVC
    else:
        from riesz import SVC
    X, y, test, _ = adult(folder, n)
    before, start = gibibytes(), time.process_time()
    model = SVC(C=c, gamma=GAMMA).fit(X, y)
    seconds, peak = time.process_time() - start, gibibytes()
    numbers = [len(model.support_), seconds, before, peak]
    sys.stdout.buffer.write(np.append(model.decision_function(test), numbers).tobytes())


def measured(folder: Path, n: int, c: float, way: str) -> np.ndarray:
    single_thread = dict.fromkeys(
        ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"], "1"
    )
    command = [sys.executable, __file__, str(folder), "--run", str(n), str(c), way]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env={**os.environ, **single_thread})
    return np.frombuffer(done.stdout[-8 * 2004 :])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--run", nargs=3, metavar=("N", "C", "WAY"), help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="the smallest size only")
    parser.add_argument("--sizes", type=int, nargs="*", default=[5000, 20_000, 32_561])
    parser.add_argument("--prices", type=float, nargs="*", default=[1.0], help="C")
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=list(WAYS))
    options = parser.parse_args()
    if options.run is not None:
        n, c, way = options.run
        return run(options.folder, int(n), float(c), way)
    if options.quick:
        options.sizes = options.sizes[:1]
    missing = [way for way in options.ways if find_spec(WAYS[way]) is None]
    ways = [way for way in options.ways if way not in missing]
    print(
        f"adult, 108 columns, gamma = {GAMMA}, one thread"
        + "".join(f"; {way} is not installed" for way in missing)
    )
    print("| n | C | way | CPU s | GiB before | GiB at most | support vectors | largest difference |")
    print("|---|---|---|---|---|---|---|---|")
    for n in options.sizes:
        for c in options.prices:
            first, peers = None, {}
            for way in ways:
                numbers = measured(options.folder, n, c, way)
                decisions, (support, seconds, before, peak) = numbers[:-4], numbers[-4:]
                first = decisions if first is None else first
                difference = np.abs(decisions - first).max()
                row = f"| {n} | {c:g} | {way} | {seconds:.2f} | {before:.2f} | {peak:.2f} "
                row += f"| {support:.0f} | {difference:.1e} |"
                print(row, flush=True)
                if way == "riesz":
                    for peer, (peer_seconds, peer_peak) in peers.items():
                        memory = {"GiB": peak, "reference_GiB": peer_peak}
                        case, sizes = f"SVC, C = {c:g}", f"adult, {n} rows, 108 columns"
                        record(case, sizes, seconds, peer, peer_seconds, unit="CPU s", **memory)
                peers[way] = (seconds, peak)
    return None


if __name__ == "__main__":
    main()
