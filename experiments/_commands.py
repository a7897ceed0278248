"""Runs of the command line for experiments: each command is a process of its own, with its time and
memory."""

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

#: A small process that starts the command: a large process would pass its own peak memory on to it.
LAUNCH = """import os, sys
_, status, usage = os.wait4(os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ), 0)
print(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 2**20)"""


def settings() -> argparse.ArgumentParser:
    """The command, its number of threads, and the folder of its input and output; a parent of an
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
    """Runs a command, and returns its wall time and CPU time in seconds, its memory in GiB, and its
    output."""
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
    """Wall time, CPU time in brackets, and memory in GiB."""
    return [f"{measurement['seconds']:.0f} ({measurement['cores']:.0f})", f"{measurement['GiB']:.2f}"]


def predicted(options, work: pathlib.Path, model, rows) -> np.ndarray:
    """Probabilities of class 1, or the predictions of ridge regression."""
    command(options, "predict", model, rows, "-o", work / "predicted.parquet")
    return pd.read_parquet(work / "predicted.parquet").iloc[:, -1].to_numpy()


def explained(options, work: pathlib.Path, model, rows, *words) -> tuple[pd.DataFrame, float, str, dict]:
    """Shapley values, one column per feature, the base value, the largest residual with its proved bound,
    and the time and memory."""
    measurement = command(options, "explain", model, rows, *words, "-o", work / "values.parquet")
    frame = pd.read_parquet(work / "values.parquet").drop(columns=["row", "output", "prediction", "residual"])
    residual, bound = re.search(r"within (\S+) \(proved bound (\S+)\)", measurement["said"]).groups()
    base = frame.pop("base_value").iloc[0]
    return frame, base, f"{residual} ({bound})", measurement


def scores(truth, probability: np.ndarray, proper: bool = True) -> list[str]:
    """Error rate, AUC, and log loss if the numbers are probabilities."""
    truth = np.asarray(truth)
    error, auc = np.mean((probability > 0.5) != truth), roc_auc_score(truth, probability)
    return [f"{100 * error:.2f} %", f"{auc:.4f}", f"{log_loss(truth, probability):.4f}" if proper else ""]
