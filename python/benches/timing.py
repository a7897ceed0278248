"""How the benches time a method."""

import time

import numpy as np


def milliseconds(act, rows, least=3):
    """Median milliseconds a row, over at least `least` runs unless they are slow, and what the last run
    gave."""
    runs, out = [], act()
    while len(runs) < least and sum(runs) < 20:
        start = time.perf_counter()
        out = act()
        runs.append(time.perf_counter() - start)
    return 1e3 * float(np.median(runs)) / rows, out
