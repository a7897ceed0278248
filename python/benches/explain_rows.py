"""Times functional explanations of many rows from files, written in parts with a manifest.

    python python/benches/explain_rows.py [--rows 10000000] [--landmarks 500] [--threads 2]

The rows have 18 correlated columns, and the model has a Gaussian kernel and ``--landmarks`` support points.
The time to write the files is not counted. CPU seconds and peak memory are measured in a separate process;
bytes are the size of the parts."""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

from landmarks import LENGTH, data
from timing import record


def peak():
    """Peak memory of this process in GiB, without that of its parent."""
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(float(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024**2


def explain(folder):
    import riesz

    imported = peak()
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    out = riesz.distributed.explain(f"{folder}/m.riesz", f"{folder}/rows", f"{folder}/out")
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    report = {"rows": out.n_rows, "parts": len(out.parts), "cpu": cpu, "wall": time.perf_counter() - start}
    report["gib"] = peak()
    report["imported"] = imported
    report["gb"] = sum(os.path.getsize(f"{folder}/out/{part['name']}") for part in out.parts) / 1e9
    report["residual"] = max(part["residual"] for part in out.parts)
    report["bound"] = max(part["bound"] for part in out.parts)
    print(json.dumps(report))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--landmarks", type=int, default=500)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    options = parser.parse_args()
    if options.quick:
        options.rows //= 10
    if options.only:
        return explain(options.only)
    import pyarrow as pa
    import pyarrow.parquet as pq

    import riesz

    n, folder = options.rows, tempfile.mkdtemp()
    try:
        os.mkdir(f"{folder}/rows")
        x, _, y = data(20_000, 1)
        kernel = riesz.kernels.RBF(length_scale=LENGTH)
        model = riesz.KernelRidge(alpha=0.1, kernel=kernel, n_landmarks=options.landmarks, fit_intercept=True)
        model.fit(x, y).expansion_.save(f"{folder}/m.riesz")
        names = model.expansion_.feature_names
        for k, start in enumerate(range(0, n, 1_000_000)):
            x, _, _ = data(min(1_000_000, n - start), 100 + k)
            pq.write_table(
                pa.table(dict(zip(names, x.T))), f"{folder}/rows/{k:03}.parquet", row_group_size=1 << 17
            )
        environment = {**os.environ, "RAYON_NUM_THREADS": str(options.threads)}
        command = [sys.executable, __file__, "--only", folder]
        report = json.loads(
            subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
        )
    finally:
        shutil.rmtree(folder)
    print("{rows} rows, {parts} parts of {gb:.2f} GB".format(**report))
    print("CPU {cpu:.0f} s, {wall:.0f} s, {gib:.2f} GiB ({imported:.2f} of it libraries)".format(**report))
    sizes = f"{n} rows, {options.landmarks} landmarks"
    details = {"CPU_s": report["cpu"], "GiB": report["gib"], "imported_GiB": report["imported"]}
    record("functional", sizes, report["wall"], unit="s", threads=options.threads, **details)
    record("size of the parts", sizes, report["gb"], unit="GB", threads=options.threads)
    print("largest residual {residual:.1e}, proved bound {bound:.1e}".format(**report))


if __name__ == "__main__":
    main()
