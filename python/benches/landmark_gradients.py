"""Times conjugate gradients with many landmarks: compares a pass over rows with Falkon's in numpy, and whole
fits with direct ones.

    python python/benches/landmark_gradients.py [--rows 20000] [--landmarks 20000] [--threads 1] [--tolerance
    1e-3] [--fit ROWS]

The rows have 18 correlated columns; the kernel is Gaussian with length scale √18, and the ridge is 0.1. A
pass of riesz adds up integers, of residuals in three slices, and gives the same bits in any order. Falkon's
pass is `Kᵀ(K v)` in blocks of f64. Both compute distances from products; with --tolerance 1e-5 riesz computes
them from differences. With --fit the command line fits this number of rows from Parquet by either solver
(riesz must be on the path, or RIESZ must name it)."""

import argparse
import json
import os
import re
import shutil
import tempfile

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np
from landmarks import LENGTH, RIDGE, D, by_command, data, spent
from timing import record


def one_pass(n, m, threads, tolerance):
    from riesz import _core

    x, _, y = data(max(n, m), 1)
    names = [f"x{j}" for j in range(D)]

    def rows(count):
        return (names, [None] * D, np.asfortranarray(x[:count])), np.ascontiguousarray(y[:count, None]), None

    job = {
        "landmarks": m,
        "ridge": RIDGE,
        "folds": 5,
        "intercept": True,
        "fixed_kernel": True,
        "corrections": 1,
    }
    job = json.dumps(job | {"solver": "cg", "tolerance": tolerance, "seed": 0, "kind": "ridge"})
    survey = _core.survey_rows(job, rows(len(x)), None)
    tuned, _ = _core.tune_fit(job, survey, f"rbf(length_scale={float(LENGTH)!r})", False)
    plan = _core.plan_fit(job, survey, tuned)
    points = x[: _core.plan_facts(plan)[1]]
    values = {"rows": len(points) + 1, "cols": 1, "data": [1e-4] * (len(points) + 1)}
    coefficients = json.dumps({"values": values, "curvature": False}).encode()
    unit = rows(n)
    _, cpu, wall = spent(lambda: _core.unit_pass(plan, coefficients, unit, 0, threads))
    v, squares = np.full(len(points), 1e-4), (points**2).sum(axis=1)

    def falkon():
        out = np.zeros(len(points))
        for start in range(0, n, 1024):
            block = x[start : start + 1024]
            K = block @ points.T
            K *= 2.0
            K -= (block**2).sum(axis=1)[:, None]
            K -= squares
            K /= 2 * LENGTH**2
            np.exp(K, out=K)
            out += K.T @ (K @ v)
        return out

    _, other, _ = spent(falkon)
    values = n * len(points)
    print(f"a pass over {n} rows with {len(points)} landmarks, {threads} thread(s)")
    print(f"riesz {cpu:.2f} s of CPU ({1e9 * cpu / values:.2f} ns a kernel value, {wall:.2f} s), ", end="")
    print(f"Falkon's in numpy {other:.2f} ({1e9 * other / values:.2f} ns), ratio {cpu / other:.2f}")
    sizes = f"{n} rows, {len(points)} landmarks, tolerance {tolerance:g}"
    record("one pass", sizes, cpu, "Falkon in numpy", other, unit="CPU s", threads=threads, wall_s=wall)


def fits(n, m, threads):
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tempfile.mkdtemp()
    try:
        os.mkdir(f"{folder}/rows")
        x, _, y = data(n, 1)
        columns = {**{f"x{j}": x[:, j] for j in range(D)}, "y": y}
        pq.write_table(pa.table(columns), f"{folder}/rows/0.parquet", row_group_size=1 << 17)
        print(f"{n} rows from Parquet, {m} landmarks, {threads} thread(s)")
        times = {}
        for solver in ("cg", "direct"):
            output, took = by_command(folder, m, threads, "--solver", solver)
            steps = re.findall(r"^steps +(\d+)", output, re.M)
            line = "{cpu:8.1f} s of CPU, {wall:7.1f} s, {gib:5.2f} GiB, RMSE {error:.6f}".format(**took)
            print(f"{solver:7} {line}" + "".join(f", {k} steps" for k in steps), flush=True)
            times[solver] = took
        cg, direct = times["cg"], times["direct"]
        sizes, memory = f"{n} rows, {m} landmarks", {"GiB": cg["gib"], "reference_GiB": direct["gib"]}
        seconds = (cg["cpu"], "direct solver", direct["cpu"])
        record("conjugate gradients", sizes, *seconds, unit="CPU s", threads=threads, **memory)
    finally:
        shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--landmarks", type=int, default=20_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--fit", type=int, metavar="ROWS")
    parser.add_argument("--quick", action="store_true", help="few rows and landmarks")
    options = parser.parse_args()
    if options.quick:
        options.rows, options.landmarks = min(options.rows, 2000), min(options.landmarks, 2000)
        if options.fit:
            options.fit, options.landmarks = 10_000, 1_000
    if options.fit:
        return fits(options.fit, options.landmarks, options.threads)
    one_pass(options.rows, options.landmarks, options.threads, options.tolerance)


if __name__ == "__main__":
    main()
