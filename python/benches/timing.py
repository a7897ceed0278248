"""Timing for the benchmarks."""

import time

import numpy as np


def milliseconds(act, rows, min_runs=3):
    """Median milliseconds per row, over at least `min_runs` runs unless they are slow, and the result of the
    last run."""
    runs, out = [], act()
    while len(runs) < min_runs and sum(runs) < 20:
        start = time.perf_counter()
        out = act()
        runs.append(time.perf_counter() - start)
    return 1e3 * float(np.median(runs)) / rows, out
