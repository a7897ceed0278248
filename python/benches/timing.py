"""Timing for the benchmarks, and their machine-readable results."""

import json
import os
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


def record(case, sizes, riesz, reference=None, reference_figure=None, *, unit, threads=1, **details):
    """Appends a case to the file that RIESZ_BENCH_RESULTS names, as one line of JSON; does nothing without
    this variable.

    `riesz` and `reference_figure` are figures in `unit`, of which less is better; `reference` names the
    program that riesz is compared with. scripts/bench finds the last record of a case by `case`, `sizes`,
    `threads`, `reference` and `unit`, so these must not contain measurements. `details` are further numbers
    that are recorded but not compared."""
    path = os.environ.get("RIESZ_BENCH_RESULTS")
    if not path:
        return
    from riesz import _core

    instruction_set, is_release = _core.build_facts()
    if not is_release:
        raise SystemExit("riesz is not a release build: pip install . builds one")
    line = {"case": case, "sizes": sizes, "threads": int(threads), "reference": reference, "unit": unit}
    line |= {"riesz": float(riesz)}
    line["reference_figure"] = None if reference_figure is None else float(reference_figure)
    line["instruction_set"] = instruction_set
    if details:
        line["details"] = {name: float(value) for name, value in details.items()}
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
