"""Explanations of very many rows that are killed in the middle and resumed: a check that no row is lost,
repeated or changed.

    python experiments/scale_resumed.py [--rows 1000000] [--full] [--scratch FOLDER] [--threads 2]

The log odds of 18 normal columns, correlated by .3, are sin(1.5 x_0) + x_1 x_2 + .8 x_3² + .5 x_4. Kernel
ridge regression learns them with noise from 100,000 rows through 500 landmarks. The other rows, in files
of up to ten million, are explained by riesz.distributed.explain, in single precision and in the functional
game. The process is killed (SIGKILL) when a third of the parts exist. Then a part is truncated, and the
same call is repeated. Requirements:

* no _SUCCESS after the kill, _SUCCESS after the second call, and a manifest of all rows and parts with the
  SHA-256 of the files;
* existing parts are not computed again, except for the truncated one: their files keep their time, and the
  number of new files equals the number of missing ones;
* parts from before and after the kill equal to the last bit those of a third process in another folder
with
  one thread;
* at most 30 minutes and 0.3 GiB for 10⁸ rows on two idle cores.

Rows need 150 bytes of disk each, their values 110. Full: 10⁸ rows.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _figures import COLOURS, FOLDER, arguments, criterion_text, finish, panels, table

import riesz

COLUMNS = [f"x{j:02}" for j in range(18)]
GROUP, FILE, FIRST = 1 << 17, 10_000_000, 100_000


def simulated(rng, count):
    """Rows, and their true log odds."""
    x = np.sqrt(0.7) * rng.normal(size=(count, len(COLUMNS))) + np.sqrt(0.3) * rng.normal(size=(count, 1))
    return x, np.sin(1.5 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.8 * x[:, 3] ** 2 + 0.5 * x[:, 4]


def written(folder, rows):
    """Files of rows, where each row group has its own seed."""
    folder.mkdir()
    schema = pa.schema([(name, pa.float64()) for name in COLUMNS])
    for k, start in enumerate(range(0, rows, FILE)):
        with pq.ParquetWriter(
            folder / f"rows-{k:02}.parquet", schema, use_dictionary=False, compression="none"
        ) as file:
            for first in range(start, min(rows, start + FILE), GROUP):
                x, _ = simulated(
                    np.random.default_rng([1, first]), min(GROUP, min(rows, start + FILE) - first)
                )
                file.write_table(pa.table(list(x.T.copy()), schema=schema), row_group_size=GROUP)


def learnt(folder):
    """The model's file, and its R² on other rows."""
    rng = np.random.default_rng(0)
    x, f = simulated(rng, FIRST)
    rows = dict(zip(COLUMNS, x.T.copy())) | {"y": f + 0.5 * rng.normal(size=FIRST)}
    pq.write_table(pa.table(rows), folder / "learnt.parquet")
    fit = riesz.distributed.fit(folder / "learnt.parquet", "y", n_landmarks=500, alpha=1.0)
    x, f = simulated(rng, 10_000)
    fit.expansion.save(folder / "model.riesz")
    return fit.n_landmarks, 1 - np.mean((fit.expansion.predict(x) - f) ** 2) / f.var()


def parts_of(out):
    return sorted(out.glob("part-*.parquet")) if out.exists() else []


def memory(process):
    """The peak memory of a running process in GiB, if the system reports it."""
    try:
        line = re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{process}/status").read_text())
        return 0.0 if line is None else int(line[1]) / 2**20
    except OSError:
        return 0.0


def called(spec, threads, seen=None, stop=None):
    """Runs the call in a process of its own, which is killed when ``stop`` parts exist. Returns its
    output, time and memory. ``seen`` collects the number of parts over time."""
    start, out, peak, killed = time.perf_counter(), pathlib.Path(spec["out"]), 0.0, False
    child = subprocess.Popen(
        [sys.executable, FOLDER / "_explained.py", json.dumps(spec)],
        env={**os.environ, "RAYON_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)},
        stdout=subprocess.PIPE,
    )
    while True:
        peak = max(peak, memory(child.pid))
        finished_pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        count = len(parts_of(out))
        if seen is not None:
            seen.append((time.perf_counter() - start, count))
        if finished_pid:
            break
        if stop is not None and count >= stop and not killed:
            # Waits until the next part is half done.
            time.sleep(1)
            child.send_signal(signal.SIGKILL)
            killed = True
        time.sleep(0.5)
    took = {"seconds": time.perf_counter() - start, "cores": usage.ru_utime + usage.ru_stime, "GiB": peak}
    exit_code = os.waitstatus_to_exitcode(status)
    if exit_code != (-signal.SIGKILL if killed else 0):
        raise SystemExit(f"the process ended with status {exit_code}")
    print("killed" if killed else "done", {name: round(value, 2) for name, value in took.items()}, flush=True)
    return {} if killed else json.loads(child.stdout.read()), took


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def ages(out):
    return {path.name: path.stat().st_mtime_ns for path in parts_of(out)}


def progress(before, after, pause):
    """A figure of the parts that are there, by time; ``pause`` is the second of the kill."""
    figure, (axis,) = panels(1)
    for colour, name, shift, seen in (
        (COLOURS[0], "until the kill", 0, before),
        (COLOURS[1], "after it", pause, after),
    ):
        axis.plot(
            [(shift + when) / 60 for when, _ in seen], [parts for _, parts in seen], color=colour, label=name
        )
    axis.set(xlabel="minutes", title="parts that are there")
    axis.legend(fontsize=7)
    return figure


def size_of_rows(folder, rows):
    """Writes rows, and returns their size in bytes."""
    start = time.perf_counter()
    written(folder, rows)
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{size / 1e9:.1f} GB of rows in {time.perf_counter() - start:.0f} s", flush=True)
    return size


def experiment(options, work):
    rows = 10**8 if options.full else options.rows
    landmarks, score = learnt(work)
    size = size_of_rows(work / "rows", rows)
    files = [pq.ParquetFile(path).metadata for path in sorted((work / "rows").iterdir())]
    count = sum(file.num_row_groups for file in files)
    out, before, after = work / "values", [], []
    spec = {"model": str(work / "model.riesz"), "rows": str(work / "rows"), "out": str(out)}
    _, first = called(spec, options.threads, before, count // 3)
    is_unfinished = not (out / "_SUCCESS").exists() and not (out / "_manifest.json").exists()
    kept, left = ages(out), [path for path in out.rglob(".riesz-*")]
    # A part only counts if its record exists, which is written after the part.
    known = sum((out / "_parts" / f"{name}.json").exists() for name in kept)
    with open(out / min(kept), "r+b") as file:
        file.truncate(file.seek(0, os.SEEK_END) // 2)
    result, second = called(spec, options.threads, after)
    manifest = json.loads((out / "_manifest.json").read_text())
    stale = [name for name, age in ages(out).items() if kept.get(name) == age]
    right = sum(digest(out / part["name"]) == part["sha256"] for part in manifest["parts"])
    sample_units = sorted({0, len(kept) - 1, len(kept), 2 * count // 3, count - 1} & set(range(count)))
    refused, _ = called({**spec, "out": str(work / "again"), "some": sample_units}, 1)
    n_equal = sum(digest(path) == digest(out / path.name) for path in parts_of(work / "again"))
    values = sum(path.stat().st_size for path in parts_of(out))
    residual, bound = (max(part[name] for part in manifest["parts"]) for name in ("residual", "bound"))
    seconds, gib = first["seconds"] + second["seconds"], max(first["GiB"], second["GiB"])
    yes = lambda is_met: "yes" if is_met else "NO"
    lines = [
        [
            "no _SUCCESS and no manifest after the kill",
            f"{len(kept):,} of {count:,} parts there",
            yes(is_unfinished),
        ],
        [
            "_SUCCESS at the end",
            f"{result['rows']:,} rows, {result['parts']:,} parts",
            yes((out / "_SUCCESS").exists()),
        ],
        ["the manifest has all rows", f"{manifest['rows']:,}", yes(manifest["rows"] == rows)],
        [
            "files have the manifest's SHA-256",
            f"{right:,} of {count:,}",
            yes(right == count == len(parts_of(out))),
        ],
        [
            "parts that were there are not made again",
            f"{len(stale):,} as old as before",
            yes(len(stale) == known - 1),
        ],
        [
            "made are those that lacked, and the one cut short",
            f"{result['made']:,}",
            yes(result["made"] == count - known + 1),
        ],
        [
            "the same bytes in another folder, by one thread",
            f"{n_equal} of {len(sample_units)}",
            yes(n_equal == len(sample_units)),
        ],
        [
            "parts of some units alone are refused as incomplete",
            refused.get("refused", ""),
            yes("refused" in refused),
        ],
        ["values add up as proved", f"{residual:.1e}, bound {bound:.1e}", yes(residual <= bound)],
        ["minutes", f"{seconds / 60:.1f}", criterion_text(seconds / 60, high=30 * rows / 1e8)],
        ["GiB", f"{gib:.2f}", criterion_text(gib, high=0.3)],
    ]
    title = (
        f"Scale: {rows:,} rows in {len(files)} files, {size / 1e9:.1f} GB, explained by a model of "
        f"{landmarks} points (R² {score:.3f}), killed and gone on with.\n"
    )
    title += (
        f"{first['seconds']:.0f} s until the kill and {second['seconds']:.0f} s after it, "
        f"{first['cores']:.0f} and {second['cores']:.0f} s of cores; {values / 1e9:.1f} GB of values; "
    )
    title += (
        f"{len(left)} temporary files left by the kill, {len(list(out.rglob('.riesz-*')))} at the end.\n\n"
    )
    figure = progress(before, after, first["seconds"])
    finish(options, "scale_resumed", figure, title + table(["asked for", "found", "met"], lines))


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--scratch", type=pathlib.Path, help="folder for rows and values; by default that of temporary files"
    )
    options = arguments(__doc__, (parser,))
    with tempfile.TemporaryDirectory(dir=options.scratch) as work:
        experiment(options, pathlib.Path(work))


if __name__ == "__main__":
    main()
