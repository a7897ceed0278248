"""Times the overhead of an engine: the same fit from the same files by the command line and by Dask's
workers, on the same number of cores.

    python python/benches/engines.py [--rows 1000000] [--landmarks 1000] [--workers 2]

riesz must be on the path, or RIESZ must name it. Workers are processes of one thread, which have started and
imported their modules before the clock starts. Both fits have the same kernel, ridge, correction and bits."""

import argparse
import os
import shutil
import subprocess
import tempfile
import time

import numpy as np
from landmarks import LENGTH, RIDGE, D, data
from timing import record


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--landmarks", type=int, default=1_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    options = parser.parse_args()
    if options.quick:
        options.rows //= 10
    import pyarrow as pa
    import pyarrow.parquet as pq
    from distributed import Client, LocalCluster

    import riesz

    folder = tempfile.mkdtemp()
    try:
        os.mkdir(f"{folder}/rows")
        for k, start in enumerate(range(0, options.rows, 1_000_000)):
            x, _, y = data(min(1_000_000, options.rows - start), 100 + k)
            columns = {**{f"x{j}": x[:, j] for j in range(D)}, "y": y}
            pq.write_table(pa.table(columns), f"{folder}/rows/{k:03}.parquet", row_group_size=1 << 17)
        kernel = f"rbf(length_scale={float(LENGTH)!r})"
        command = [
            os.environ.get("RIESZ", "riesz"),
            "--threads",
            str(options.workers),
            "fit",
            f"{folder}/rows",
            "--target",
            "y",
        ]
        command += [
            "--landmarks",
            str(options.landmarks),
            "--ridge",
            str(RIDGE),
            "--no-standardise",
            "--kernel",
            kernel,
        ]
        start = time.perf_counter()
        subprocess.run([*command, "-o", f"{folder}/m.riesz"], check=True, capture_output=True)
        command_seconds = time.perf_counter() - start
        with (
            LocalCluster(n_workers=options.workers, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            client.run(lambda: [__import__("riesz.distributed"), __import__("pyarrow.parquet")])
            start = time.perf_counter()
            fit = riesz.distributed.fit(
                f"{folder}/rows",
                "y",
                n_landmarks=options.landmarks,
                kernel=kernel,
                alpha=RIDGE,
                standardize=False,
                engine=client,
            )
            dask_seconds = time.perf_counter() - start
        model = riesz.Expansion.load(f"{folder}/m.riesz")
        is_equal = np.array_equal(model.coef, fit.expansion.coef)
    finally:
        shutil.rmtree(folder)
    print(f"{options.rows} rows, {options.landmarks} landmarks, {options.workers} cores")
    sizes, seconds = f"{options.rows} rows, {options.landmarks} landmarks", (command_seconds, dask_seconds)
    record("fit by Dask", sizes, seconds[1], "command line", seconds[0], unit="s", threads=options.workers)
    print(
        f"command line {command_seconds:.1f} s, Dask {dask_seconds:.1f} s, ratio "
        f"{dask_seconds / command_seconds:.2f}; the same coefficients: "
        f"{is_equal}"
    )


if __name__ == "__main__":
    main()
