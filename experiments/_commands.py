"""The command line as experiments run it: each command a process of its own, and what it takes."""

from __future__ import annotations

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import time

import numpy as np
import pandas as pd
from _figures import FOLDER
from sklearn.metrics import log_loss, roc_auc_score

#: A small process that starts another: what starts one by itself lends it the peak of its own memory.
LAUNCH = """import os, sys
_, status, usage = os.wait4(os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ), 0)
print(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 2**20)"""


def settings() -> argparse.ArgumentParser:
    """Which command, with how many threads, and where what it reads and writes lies; a parent of an
    experiment's ``arguments``."""
    parser = argparse.ArgumentParser(add_help=False)
    built = FOLDER.parent / "target" / "release" / "riesz"
    parser.add_argument("--riesz", default=shutil.which("riesz") or str(built), help="the command line")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--scratch", type=pathlib.Path, help="folder for files in between; by default that of temporary files"
    )
    return parser


def command(options, *words) -> dict:
    """A command, and what it took: seconds, of all threads, GiB; and what it said."""
    words = [options.riesz, *map(str, words), "--threads", str(options.threads)]
    start = time.perf_counter()
    child = subprocess.run(
        [sys.executable, "-ISc", LAUNCH, *words], capture_output=True, text=True, check=True
    )
    measurement = {"seconds": time.perf_counter() - start, "said": child.stderr}
    status, measurement["cores"], measurement["GiB"] = map(float, child.stdout.split())
    if status != 0:
        raise SystemExit(f"{' '.join(words)} ended with status {status:.0f}: {child.stderr}")
    print(
        " ".join(words[1:3]),
        {name: round(measurement[name], 2) for name in ("seconds", "cores", "GiB")},
        flush=True,
    )
    return measurement


def taken(measurement: dict) -> list[str]:
    """Seconds, those of all threads in brackets, and GiB."""
    return [f"{measurement['seconds']:.0f} ({measurement['cores']:.0f})", f"{measurement['GiB']:.2f}"]


def predicted(options, work: pathlib.Path, model, rows) -> np.ndarray:
    """Chances of 1, or what ridge regression says in their place."""
    command(options, "predict", model, rows, "-o", work / "predicted.parquet")
    return pd.read_parquet(work / "predicted.parquet").iloc[:, -1].to_numpy()


def explained(options, work: pathlib.Path, model, rows, *words) -> tuple[pd.DataFrame, float, str, dict]:
    """Values, one column a feature, the base value, the largest residual and its proved bound, and what it
    took."""
    measurement = command(options, "explain", model, rows, *words, "-o", work / "values.parquet")
    frame = pd.read_parquet(work / "values.parquet").drop(columns=["row", "output", "prediction", "residual"])
    residual, bound = re.search(r"within (\S+) \(proved bound (\S+)\)", measurement["said"]).groups()
    base = frame.pop("base_value").iloc[0]
    return frame, base, f"{residual} ({bound})", measurement


def scores(truth, probability: np.ndarray, proper: bool = True) -> list[str]:
    """Error, AUC, and log loss where these are chances."""
    truth = np.asarray(truth)
    error, auc = np.mean((probability > 0.5) != truth), roc_auc_score(truth, probability)
    return [f"{100 * error:.2f} %", f"{auc:.4f}", f"{log_loss(truth, probability):.4f}" if proper else ""]
