"""Compares kernel ridge regression through landmarks with scikit-learn's Nystroem and Ridge with the same
landmarks, each in its own process.

    python python/benches/landmarks.py [--rows 100000] [--landmarks 2000] [--threads 1] [--parquet ROWS]
    python python/benches/landmarks.py --adult FOLDER --landmarks 1000

The rows have 18 correlated columns; the kernel is Gaussian with length scale √18, and the ridge is 0.1.
Errors are against the noiseless truth. CPU seconds are those of the fit alone; memory is the peak of the
process, including the data.

With --adult, the models are logistic regressions of the adult data (as in svm.py: 32,561 rows of 108 columns,
ridge 1). scikit-learn uses the tolerance at which it reaches the same objective, and its default. The error
is the share of wrong classes of the test rows. With --parquet, the command line fits this number of rows from
files, with a correction and its certificate. It is compared with numpy on the same files, by blocks of f64
products and Cholesky (riesz must be on the path, or RIESZ must name it)."""

import argparse
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
from timing import record

D, RIDGE, LENGTH = 18, 0.1, np.sqrt(18.0)


def data(n, seed):
    rng = np.random.default_rng(0)
    mix = np.eye(D) + 0.3 * rng.normal(size=(D, D)) / np.sqrt(D)
    frequencies = rng.normal(size=(D, 12)) / np.sqrt(D)
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, D)) @ mix
    truth = np.sin(2.0 * x @ frequencies).sum(axis=1) + 0.5 * x[:, 0] * x[:, 1]
    return x, truth, truth + 0.5 * rng.normal(size=n)


def spent(act):
    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.perf_counter()
    out = act()
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return out, cpu, time.perf_counter() - start


def report(name, cpu, wall, error, landmarks, **extras):
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(
        json.dumps(
            {
                "name": name,
                "cpu": cpu,
                "wall": wall,
                "gib": peak,
                "error": error,
                "landmarks": landmarks,
                **extras,
            }
        )
    )


def task(n, folder):
    """Training rows and targets, test rows and their truth, the length scale and the ridge."""
    if folder:
        from svm import GAMMA, adult

        return *adult(pathlib.Path(folder), tested=None), np.sqrt(0.5 / GAMMA), 1.0
    (x, _, y), (new, truth, _) = data(n, 1), data(20_000, 2)
    return x, y, new, truth, LENGTH, RIDGE


def error_of(prediction, truth):
    return float(
        np.mean(prediction != truth) if truth.dtype == bool else np.sqrt(np.mean((prediction - truth) ** 2))
    )


def loss(y, classes, f):
    return float(np.logaddexp(0, np.where(y == classes[1], -f, f)).sum())


def by_riesz(n, m, points, adult):
    from sklearn.metrics.pairwise import rbf_kernel

    import riesz

    x, y, new, truth, length, ridge = task(n, adult)
    kernel = riesz.kernels.RBF(length_scale=length)
    if adult:
        model = riesz.KernelLogisticRegression(ridge, kernel=kernel, n_landmarks=m)
    else:
        model = riesz.KernelRidge(ridge, kernel=kernel, n_landmarks=m, fit_intercept=True)
    _, cpu, wall = spent(lambda: model.fit(x, y))
    np.save(points, model.expansion_.points)
    extras = {}
    if adult:
        coef = np.ravel(model.expansion_.coef)
        norm = coef @ rbf_kernel(model.expansion_.points, gamma=1 / (2 * length**2)) @ coef
        extras = {
            "passes": model.n_iter_,
            "objective": loss(y, model.classes_, model.decision_function(x)) + 0.5 * ridge * norm,
        }
    report("riesz", cpu, wall, error_of(model.predict(new), truth), len(model.expansion_.points), **extras)


def by_sklearn(n, m, points, adult, tol=1e-8):
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import LogisticRegression, Ridge

    x, y, new, truth, length, ridge = task(n, adult)
    landmarks = np.load(points)
    features = Nystroem(gamma=1 / (2 * length**2), n_components=len(landmarks), random_state=0)

    def fit():
        features.fit(landmarks)
        estimator = LogisticRegression(C=1 / ridge, max_iter=10_000, tol=tol) if adult else Ridge(alpha=ridge)
        return estimator.fit(features.transform(x), y)

    model, cpu, wall = spent(fit)
    error = error_of(model.predict(features.transform(new)), truth)
    extras = {}
    if adult:
        objective = (
            loss(y, model.classes_, model.decision_function(features.transform(x)))
            + 0.5 * ridge * (model.coef_**2).sum()
        )
        extras = {"passes": int(model.n_iter_[0]), "objective": objective}
    report(
        f"Nystroem, tol {tol:g}" if adult else "Nystroem + Ridge", cpu, wall, error, len(landmarks), **extras
    )


def by_numpy(folder, m, points):
    """The fit in numpy, streamed in blocks."""
    import pyarrow.parquet as pq
    from scipy.linalg import cho_factor, cho_solve

    landmarks = np.load(points)
    squares = (landmarks**2).sum(axis=1)

    def kernel(x):
        d = x @ landmarks.T
        d *= 2.0
        d -= (x**2).sum(axis=1)[:, None]
        d -= squares
        d /= 2 * LENGTH**2
        return np.exp(d, out=d)

    def fit():
        S, b = np.zeros((len(landmarks) + 1,) * 2), np.zeros(len(landmarks) + 1)
        for path in sorted(os.listdir(folder)):
            file = pq.ParquetFile(os.path.join(folder, path))
            for batch in file.iter_batches(8192):
                block = np.column_stack([batch.column(k).to_numpy() for k in range(D + 1)])
                K = np.column_stack([kernel(block[:, :D]), np.ones(len(block))])
                S += K.T @ K
                b += K.T @ block[:, D]
        S[:-1, :-1] += RIDGE * kernel(landmarks)
        return cho_solve(cho_factor(S), b)

    theta, cpu, wall = spent(fit)
    new, truth, _ = data(20_000, 2)
    error = float(np.sqrt(np.mean((kernel(new) @ theta[:-1] + theta[-1] - truth) ** 2)))
    report("numpy, streamed", cpu, wall, error, len(landmarks))


def subprocess_report(name, *arguments, threads, program=None):
    """The measurements of a run in another process."""
    environment = {**os.environ, "RAYON_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
    command = [sys.executable, __file__, "--only", name, *map(str, arguments)]
    out = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    return json.loads(out.splitlines()[-1])


def shown(lines, case, sizes, threads):
    """Prints and records measurements of riesz, which are first, and of its references."""
    print(f"{'':20} {'CPU s':>9} {'wall s':>9} {'GiB':>7} {'error':>9} {'landmarks':>10}")
    for line in lines:
        numbers = "{cpu:9.2f} {wall:9.2f} {gib:7.2f} {error:9.5f} {landmarks:10}".format(**line)
        suffix = "  {passes} passes to {objective:.4f}".format(**line) if "passes" in line else ""
        print(f"{line['name']:20} {numbers}{suffix}")
    for other in lines[1:]:
        ratios = [lines[0][k] / other[k] for k in ("cpu", "gib", "error")]
        print("riesz / {}: CPU {:.2f}, memory {:.2f}, error {:.4f}".format(other["name"], *ratios))
    details = {"error": lines[0]["error"], "wall_s": lines[0]["wall"]}
    for other in lines[1:] or [{}]:
        for suffix, key, unit in [("", "cpu", "CPU s"), (", peak memory", "gib", "GiB")]:
            figures = (lines[0][key], other.get("name"), other.get(key))
            record(case + suffix, sizes, *figures, unit=unit, threads=threads, **details)


def by_command(folder, m, threads, *options):
    """The log and the measurements of a fit by the command line to all rows of a folder."""
    import riesz

    fit = [
        os.environ.get("RIESZ", "riesz"),
        "--threads",
        str(threads),
        "fit",
        f"{folder}/rows",
        "--target",
        "y",
    ]
    fit += ["--landmarks", str(m), "--ridge", str(RIDGE), "--no-standardise", *options]
    fit += ["--kernel", f"rbf(length_scale={float(LENGTH)!r})", "-o", f"{folder}/m.riesz"]
    start = time.perf_counter()
    child = subprocess.Popen(fit, stderr=subprocess.PIPE, text=True)
    log = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - start
    if status:
        raise SystemExit(log)
    model = riesz.Expansion.load(f"{folder}/m.riesz")
    new, truth, _ = data(20_000, 2)
    took = {
        "name": "riesz fit",
        "cpu": usage.ru_utime + usage.ru_stime,
        "wall": wall,
        "gib": usage.ru_maxrss / 1024**2,
    }
    return log, took | {
        "error": error_of(model.predict(new), truth),
        "landmarks": len(model.points),
        "model": model,
    }


def from_files(n, m, threads):
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tempfile.mkdtemp()
    try:
        os.mkdir(f"{folder}/rows")
        for k, start in enumerate(range(0, n, 1_000_000)):
            x, _, y = data(min(1_000_000, n - start), 100 + k)
            columns = {**{f"x{j}": x[:, j] for j in range(D)}, "y": y}
            pq.write_table(pa.table(columns), f"{folder}/rows/{k:03}.parquet", row_group_size=1 << 17)
        log, first = by_command(folder, m, threads)
        model = first.pop("model")
        np.save(f"{folder}/points.npy", model.points)
        print("\n".join(line for line in log.splitlines() if "certificate" in line or "jitter" in line))
        lines, files = [first], (f"{folder}/rows", m, f"{folder}/points.npy")
        if n <= 2_000_000:
            lines.append(subprocess_report("numpy", *files, threads=threads))
        shown(lines, "ridge regression of files", f"{n} rows, {D} columns, {m} landmarks", threads)
    finally:
        shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--landmarks", type=int, default=2_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--adult")
    parser.add_argument("--parquet", type=int)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows and landmarks")
    options = parser.parse_args()
    if options.quick:
        options.rows, options.landmarks = options.rows // 10, options.landmarks // 10
        options.parquet = options.parquet and options.parquet // 10
    if options.only:
        name, rows, landmarks, points, *adult = options.only
        if name == "numpy":
            return by_numpy(rows, int(landmarks), points)
        act = {
            "riesz": by_riesz,
            "sklearn": by_sklearn,
            "default": lambda *arguments: by_sklearn(*arguments, tol=1e-4),
        }[name]
        return act(int(rows), int(landmarks), points, *(adult or [None]))
    if options.parquet:
        print(f"{options.parquet} rows from Parquet, {D} columns, {options.threads} thread(s)")
        return from_files(options.parquet, options.landmarks, options.threads)
    rows = "adult" if options.adult else f"{options.rows} rows, {D} columns"
    print(f"{rows}, {options.threads} thread(s)")
    with tempfile.TemporaryDirectory() as folder:
        sizes = (
            options.rows,
            options.landmarks,
            f"{folder}/points.npy",
            *([options.adult] if options.adult else []),
        )
        names = ("riesz", "sklearn", *(["default"] if options.adult else []))
        lines = [subprocess_report(name, *sizes, threads=options.threads) for name in names]
        case = "logistic regression" if options.adult else "ridge regression"
        sizes = f"{rows}, {options.landmarks} landmarks"
        shown(lines, case, sizes, options.threads)


if __name__ == "__main__":
    main()
