"""Compares fits of the command line with default settings, which choose all hyper-parameters, with those of
scikit-learn and GPyTorch.

    pip install gpytorch pandas scikit-learn
    RIESZ=riesz python python/benches/default_fits.py [--sizes 2000 5000] [--full]

Rows have ten standard normal columns. The target is a sum of a sine, a product and a square of some of them,
plus normal noise of 0.3; classes are the sign of the target minus its median. Each fit is a process of its
own on two threads. CPU seconds and memory are those of the whole process, which also reads the rows and
predicts 2,000 test rows. The error is the root mean squared error or the log loss of these rows (for support
vector classification the share of wrong classes).

scikit-learn's GridSearchCV has five folds and the grid of riesz, 37 ridges and 7 multiples of the length
scale. Support vector machines have C = 1 in both programs. GPyTorch maximises the marginal likelihood in 100
steps of Adam, and scikit-learn's Gaussian processes by L-BFGS from one start. Kernels have one length scale,
and with "ard" one for each column. Classification by a Gaussian process (gpc) keeps the posterior, which
its probabilities need. Peers at more than 2,000 rows take minutes and run with --full."""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from timing import record

KINDS = ["krr", "gp", "gp, ard", "svr", "klr", "gpc", "svc"]
CLASSIFIERS = {"klr", "gpc", "svc"}
PEERS = {
    "krr": ["GridSearchCV(KernelRidge)"],
    "gp": ["GPyTorch ExactGP", "GaussianProcessRegressor"],
    "gp, ard": ["GPyTorch ExactGP", "GaussianProcessRegressor"],
    "svr": ["SVR"],
    "klr": [],
    "gpc": ["GaussianProcessClassifier"],
    "svc": ["SVC"],
}
TESTED = 2000
#: The grid of riesz for ridge regression, for columns of unit variance and the length scale √10.
RIDGES, SCALES = np.logspace(3, -6, 37), np.sqrt(10) * 2.0 ** np.arange(3, -4, -1)


def write_rows(folder: Path, n: int) -> None:
    """Writes training and test rows of both problems."""
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n + TESTED, 10))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] ** 2 + 0.3 * rng.normal(size=len(X))
    rows = pd.DataFrame(X, columns=[f"x{j}" for j in range(10)])
    for name, target in [("number", y), ("class", np.where(y > np.median(y), "high", "low"))]:
        table = rows.assign(y=target)
        table[:n].to_csv(folder / f"{name}_train.csv", index=False)
        table[n:].to_csv(folder / f"{name}_test.csv", index=False)


def problem(kind: str) -> str:
    return "class" if kind in CLASSIFIERS else "number"


def read_rows(folder: Path, kind: str) -> tuple[np.ndarray, ...]:
    """Training rows with their targets, and test rows with theirs; classes are 0 and 1."""
    parts = [pd.read_csv(folder / f"{problem(kind)}_{part}.csv") for part in ("train", "test")]
    targets = [part.pop("y") for part in parts]
    targets = [y.to_numpy() if y.dtype.kind == "f" else (y == "high").to_numpy(int) for y in targets]
    return parts[0].to_numpy(), targets[0], parts[1].to_numpy(), targets[1]


def error(kind: str, predicted: np.ndarray, truth: np.ndarray) -> float:
    """The error of predictions: numbers, probabilities of the second class, or classes."""
    if kind in ("klr", "gpc"):
        right = np.where(truth == 1, predicted, 1 - predicted)
        return float(-np.log(np.clip(right, 1e-12, None)).mean())
    if kind == "svc":
        return float((predicted != truth).mean())
    return float(np.sqrt(((predicted - truth) ** 2).mean()))


def fit_peer(folder: Path, kind: str, peer: str) -> None:
    """Fits a peer and prints its error."""
    X, y, test, truth = read_rows(folder, kind)
    if peer == "GPyTorch ExactGP":
        print(error(kind, gpytorch_mean(X, y, test, kind == "gp, ard"), truth))
        return
    from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC, SVR

    kernel = ConstantKernel() * RBF(np.full(10 if kind == "gp, ard" else 1, np.sqrt(10)))
    model = {
        "GridSearchCV(KernelRidge)": lambda: GridSearchCV(
            KernelRidge(kernel="rbf"), {"alpha": list(RIDGES), "gamma": list(0.5 / SCALES**2)}, cv=5
        ),
        "SVR": SVR,
        "SVC": SVC,
        "GaussianProcessRegressor": lambda: GaussianProcessRegressor(kernel + WhiteKernel(0.1)),
        "GaussianProcessClassifier": lambda: GaussianProcessClassifier(kernel),
    }[peer]()
    center = y.mean() if kind not in CLASSIFIERS else 0
    model.fit(X, y - center)
    predicted = model.predict_proba(test)[:, 1] if kind == "gpc" else model.predict(test) + center
    print(error(kind, predicted, truth))


def gpytorch_mean(X: np.ndarray, y: np.ndarray, test: np.ndarray, ard: bool) -> np.ndarray:
    """The posterior mean of GPyTorch's exact process at the test rows."""
    import gpytorch
    import torch

    torch.set_default_dtype(torch.float64)
    center = y.mean()
    X, y, test = (torch.from_numpy(part) for part in (X, y - center, test))

    class Process(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(X, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            scales = {"ard_num_dims": 10} if ard else {}
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(**scales))

        def forward(self, rows):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(rows), self.covar_module(rows))

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    process = Process(likelihood)
    process.covar_module.base_kernel.lengthscale = np.sqrt(10)
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, process)
    optimizer = torch.optim.Adam(process.parameters(), lr=0.1)
    with gpytorch.settings.fast_computations(False, False, False):
        for _ in range(100):
            optimizer.zero_grad()
            loss = -evidence(process(X), y)
            loss.backward()
            optimizer.step()
        process.eval()
        with torch.no_grad():
            return process(test).mean.numpy() + center


def fit_riesz(folder: Path, kind: str, riesz: str) -> None:
    """Fits and predicts with the command line, and prints the error."""
    train, test = (folder / f"{problem(kind)}_{part}.csv" for part in ("train", "test"))
    model = folder / "model.riesz"
    name, *ard = kind.split(", ")
    options = ["--kernel", "rbf(ard)"] if ard else ["--posterior"] if kind == "gpc" else []
    command = [riesz, "fit", train, "--target", "y", "--model", name, *options, "-o", model, "--quiet"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    predictions = folder / "predictions.csv"
    subprocess.run([riesz, "predict", model, test, "-o", predictions, "--quiet"], check=True)
    table = pd.read_csv(predictions)
    truth = read_rows(folder, kind)[3]
    if kind in ("klr", "gpc"):
        predicted = table["p(high)"].to_numpy()
    elif kind == "svc":
        predicted = (table["class"] == "high").to_numpy(int)
    else:
        predicted = table.iloc[:, -1].to_numpy()
    print(error(kind, predicted, truth))


def measured(arguments: list[str]) -> tuple[float, float, float, float]:
    """CPU seconds, wall seconds, GiB at most and the error of a process of this script."""
    threads = {name: "2" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")}
    command = [sys.executable, __file__, *arguments]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    run = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | threads)
    wall = time.perf_counter() - start
    printed = run.stdout.split()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, wall, float(printed[1]), float(printed[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[2000, 5000])
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--quick", action="store_true", help="2,000 rows and three models")
    parser.add_argument("--full", action="store_true", help="peers at more than 2,000 rows too")
    options = parser.parse_args()
    if options.quick:
        options.sizes, options.kinds = [2000], ["gp", "svr", "svc"]
    print("two threads, 10 columns; default settings of riesz fit")
    print("| n | program | CPU s | wall s | GiB at most | error | times the CPU of riesz |")
    print("|---|---|---|---|---|---|---|")
    for n in options.sizes:
        with tempfile.TemporaryDirectory() as folder:
            write_rows(Path(folder), n)
            for kind in options.kinds:
                ours, details = 0.0, {}
                peers = PEERS[kind] if n <= 2000 or options.full else []
                for way in ["riesz", *peers]:
                    if way == "GPyTorch ExactGP" and find_spec("gpytorch") is None:
                        print("GPyTorch is not installed", file=sys.stderr)
                        continue
                    cpu, wall, memory, loss = measured(["--one", folder, kind, way])
                    if way == "riesz":
                        ours, details = cpu, {"wall_s": wall, "GiB": memory, "error": loss}
                    name = f"riesz fit --model {kind}" if way == "riesz" else f"{way} ({kind})"
                    numbers = f"{cpu:.1f} | {wall:.1f} | {memory:.2f} | {loss:.4f} | {cpu / ours:.1f}"
                    print(f"| {n} | {name} | {numbers} |", flush=True)
                    case = (f"fit --model {kind}", f"{n} rows, 10 columns", ours)
                    measures = dict(unit="CPU s", threads=2, **details)
                    if way != "riesz":
                        peer = {"wall_s": wall, "GiB": memory, "error": loss}
                        measures |= {f"reference_{key}": value for key, value in peer.items()}
                        record(*case, way, cpu, **measures)
                    elif not peers:
                        record(*case, **measures)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        folder, kind, way = Path(sys.argv[2]), sys.argv[3], sys.argv[4]
        if way == "riesz":
            fit_riesz(folder, kind, os.environ.get("RIESZ", "riesz"))
        else:
            fit_peer(folder, kind, way)
        usage = [
            resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        ]
        print(usage[1 if way == "riesz" else 0] / 2**20)
    else:
        main()
