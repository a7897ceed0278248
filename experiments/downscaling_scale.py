"""A scaling test of downscaling: a million rows in ten thousand bags through inducing points, equality to
the last bit for different numbers of threads, and agreement with the fit of a part of the bags.

    python experiments/downscaling_scale.py [matched|mediated|threads|refit ...] [--full]

A column of a row is normal around that of its bag, with a standard deviation of .35. There are five
columns, f is sin(1.5 x_0) + .5 x_1 x_2 + exp(-x_3²) + .3 x_1, and a target is the mean of f over the 20 to
180 rows of a bag plus noise of .1. Every measurement is a process of its own. The root mean square error,
divided by the standard deviation of f, and the coverage of 95 % intervals are for f at up to 50,000 random
rows. z² is the mean of squared errors divided by variances; it is 1 for calibrated intervals. "Left out"
are predictions of each target from all others. Seconds are CPU time of the fit; peak memory is that of the
whole process.

matched: all bags have rows and targets. The table is by numbers of bags and inducing points, with the
exact process where that is feasible. It also has the coverage with averaging over hyper-parameters,
without noise of rows (the data have none, but for these sizes it is not 0 by default), and for a draw of f
from the prior of the model. mediated: half of the bags have rows, the others targets; mediators are the
bags' five means with noise of .1. The baseline is the exact process. threads: fits and maps with one
thread and with two. refit: the process of all bags, compared with one of a part of them (2 % with --full)
with as many points. criterion: the share of rows where they differ by less than 1.96 standard deviations
of the second.

Full: 10⁶ rows in 10⁴ bags through 1,000 points (default 10⁵ in 1,000 through 300), and 10⁵ rows of 1,000
bags mediated (default 10⁴ of 100). There are no published results."""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
import warnings

import numpy as np
import pandas as pd
from _figures import COLOURS, arguments, chosen, criterion_text, run, table
from sklearn.exceptions import ConvergenceWarning

import riesz

COLUMNS = [f"x{j}" for j in range(5)]
CENTRES = [f"y{j}" for j in range(5)]
SCALES = np.array([1.0, 1.5, 1.5, 1.0, 5.0])


def drawn(rng, x, features=1000):
    """A draw from the prior of the model with a Gaussian kernel, by random features."""
    w, shifts = rng.normal(size=(x.shape[1], features)) / SCALES[:, None], rng.uniform(0, 2 * np.pi, features)
    weights = np.sqrt(2 / features) * rng.normal(size=features)
    return np.concatenate(
        [np.cos(part @ w + shifts) @ weights for part in np.array_split(x, len(x) // 10_000 + 1)]
    )


def simulated(count, draw=False, seed=0):
    """Rows with their bag, bags with mediators and targets, and f."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(20, 181, size=count)
    bag = np.repeat(np.arange(count), sizes)
    centres = rng.normal(size=(count, len(COLUMNS)))
    x = centres[bag] + 0.35 * rng.normal(size=(len(bag), len(COLUMNS)))
    f = np.sin(1.5 * x[:, 0]) + 0.5 * x[:, 1] * x[:, 2] + np.exp(-(x[:, 3] ** 2)) + 0.3 * x[:, 1]
    if draw:
        f = drawn(rng, x)
    z = np.bincount(bag, f) / sizes + 0.1 * rng.normal(size=count)
    bags = pd.DataFrame(centres + 0.1 * rng.normal(size=centres.shape), columns=CENTRES).assign(
        bag=np.arange(count), z=z
    )
    return pd.DataFrame(x, columns=COLUMNS).assign(bag=bag), bags, f


def fitted(rows, bags, points, mediated=False, **made):
    """A process and the seconds of its fit."""
    start = time.process_time()
    roles = {"mediators": CENTRES} if mediated else {}
    model = riesz.AggregateGaussianProcess(
        **{"n_inducing": points, "n_hyperparameter_samples": 0, "random_state": 0, **made}
    )
    model.fit(
        rows, bags if mediated else bags[["bag", "z"]], bag="bag", target="z", features=COLUMNS, **roles
    )
    return model, time.process_time() - start


def mapped(model, rows):
    """The map, computed in parts whose features fit into memory."""
    parts = np.array_split(np.arange(len(rows)), len(rows) // 5000 + 1)
    predictions = [model.predict(rows.iloc[part], return_std=True) for part in parts]
    return [np.concatenate(values) for values in zip(*predictions)]


def measure(spec):
    """One measurement in a process of its own: a fit of ``bags`` through ``points``, optionally
    ``mediated``, compared with the fit of a ``part`` of the bags, or with a ``draw`` as f."""
    rows, bags, f = simulated(spec["bags"], spec.get("draw"))
    rng = np.random.default_rng(1)
    sample = np.sort(rng.choice(len(rows), min(len(rows), 50_000), replace=False))
    sample_rows, truth = rows.iloc[sample], f[sample]
    if spec.get("mediated"):
        has_rows = np.isin(np.arange(len(bags)), rng.permutation(len(bags))[: len(bags) // 2])
        bags, rows = bags.assign(z=bags.z.mask(has_rows)), rows[has_rows[rows.bag]]
    model, seconds = fitted(rows, bags, spec["points"], spec.get("mediated"), **spec.get("made", {}))
    start = time.process_time()
    mean, sd = mapped(model, sample_rows)
    result = {
        "rows": len(rows),
        "seconds": seconds,
        "map": time.process_time() - start,
        "error": float(np.sqrt(np.mean((mean - truth) ** 2)) / f.std()),
        "coverage": float(np.mean(np.abs(mean - truth) < 1.96 * sd)),
        "square": float(np.mean(((mean - truth) / sd) ** 2)),
        "left out": model.loo_.coverage,
        "noise": [model.noise_, model.row_noise_],
        "digest": hashlib.sha256(mean.tobytes() + sd.tobytes()).hexdigest()[:12],
    }
    if "part" in spec:
        kept = np.sort(rng.permutation(len(bags))[: round(spec["part"] * len(bags))])
        other, seconds = fitted(rows[rows.bag.isin(kept)], bags.iloc[kept], spec["points"])
        other_mean, other_sd = mapped(other, sample_rows)
        result["within"] = float(np.mean(np.abs(other_mean - mean) < 1.96 * other_sd))
        result["other coverage"] = float(np.mean(np.abs(other_mean - truth) < 1.96 * other_sd))
        result["other error"] = float(np.sqrt(np.mean((other_mean - truth) ** 2)) / f.std())
        result["other seconds"], result["kept"] = seconds, len(kept)
    return result


def measured(options, threads=1, **spec):
    """The measurement in a process of its own, with the peak memory of the process in GiB."""
    command = [sys.executable, __file__, "--alone", json.dumps(spec), "--output", str(options.output)]
    child = subprocess.Popen(
        command,
        env={**os.environ, "RAYON_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)},
        stdout=subprocess.PIPE,
    )
    output = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        raise SystemExit(f"the process of {spec} ended with status {os.waitstatus_to_exitcode(status)}")
    result = json.loads(output) | {"GiB": usage.ru_maxrss / 2**20}
    print(spec, f"{threads} thread{'s' * (threads > 1)}", result, flush=True)
    return result


HEADER = [
    "rows",
    "bags",
    "points",
    "error",
    "coverage of rows",
    "z²",
    "of targets left out",
    "noise",
    "of rows",
    "fit, s",
    "GiB",
]


def line(bags, points, result):
    cells = [
        f"{result['rows']:,}",
        f"{bags:,}",
        points or "exact",
        result["error"],
        result["coverage"],
        f"{result['square']:.2f}",
    ]
    return [
        *cells,
        result["left out"],
        *(f"{noise:.4f}" for noise in result["noise"]),
        f"{result['seconds']:.0f}",
        f"{result['GiB']:.2f}",
    ]


def matched(options, axes):
    sizes = [
        (50, None),
        (50, 100),
        (50, 300),
        (160, None),
        (160, 100),
        (160, 300),
        (500, 100),
        (500, 300),
        (1000, 100),
        (1000, 300),
    ]
    sizes += [(1000, 1000), (10_000, 300), (10_000, 1000)] if options.full else []
    lines, coverages = [], {}
    for bags, points in sizes:
        result = measured(options, bags=bags, points=points)
        lines.append(line(bags, points, result))
        coverages.setdefault(f"{points or 'exact'}", []).append(
            (bags, result["coverage"], result["left out"])
        )
    for colour, (name, runs) in zip(COLOURS, coverages.items()):
        places, rows, targets = zip(*runs)
        axes[0].plot(places, rows, "o-", color=colour, label=f"rows, {name}")
        axes[0].plot(
            places, targets, "s--", color=colour, linewidth=0.8, markersize=3, label=f"left out, {name}"
        )
    axes[0].axhline(0.95, color=COLOURS[3], linewidth=0.8)
    axes[0].set_xscale("log")
    axes[0].set_title("coverage of 95 % intervals, by bags", fontsize=9)
    axes[0].legend(fontsize=5)
    why = []
    for name, spec in {
        "averaged over hyper-parameters": {
            "bags": 50,
            "points": None,
            "made": {"n_hyperparameter_samples": 64},
        },
        "by the published bound, 500 bags": {"bags": 500, "points": 100, "made": {"approximation": "vfe"}},
        "by the published bound, 1,000 bags": {"bags": 1000, "points": 100, "made": {"approximation": "vfe"}},
        "rows without noise": {"bags": 160, "points": 300, "made": {"row_noise": 0.0}},
        "f drawn from the model, exact": {"bags": 50, "points": None, "draw": True},
        "f drawn from the model, 160 bags": {"bags": 160, "points": 300, "draw": True},
        "f drawn from the model, 1,000 bags": {"bags": 1000, "points": 300, "draw": True},
        "f drawn from the model, 1,000 bags, more points": {"bags": 1000, "points": 1000, "draw": True},
    }.items():
        why.append([name, *line(spec["bags"], spec["points"], measured(options, **spec))])
    largest = (
        f"\n\nThe last fit: {criterion_text(result['seconds'], high=600)} s of cores (five minutes on two), "
        f"{criterion_text(result['GiB'], high=1)} GiB.\n"
    )
    text = "\n\nMatched\n\n" + table(HEADER, lines) + (largest if options.full else "\n")
    return text + "\nWhere coverage comes from\n\n" + table(["", *HEADER], why) + "\n"


def mediated(options, axes):
    lines = []
    for bags, points in [(200, None), (200, 300)] + [(2000, 300), (2000, 1000)] * options.full:
        lines.append(line(bags, points, measured(options, bags=bags, points=points, mediated=True)))
    return "\n\nMediated: rows and bags with rows are half of those counted\n\n" + table(HEADER, lines) + "\n"


def threads(options, axes):
    text = ""
    for name, spec in {
        "matched": {"bags": 1000 if options.full else 200, "points": 300},
        "matched, exact": {"bags": 50, "points": None},
        "mediated": {"bags": 2000 if options.full else 200, "points": 300, "mediated": True},
    }.items():
        single, two = (measured(options, count, **spec) for count in (1, 2))
        agreement = "the same" if single["digest"] == two["digest"] else "DIFFERENT"
        text += (
            f"\n\n{name}, {single['rows']:,} rows: means and standard deviations are {agreement} to the "
            f"last bit with one thread and with two."
        )
    return text + "\n"


def refit(options, axes):
    bags, points, part = (10_000, 300, 0.02) if options.full else (1000, 300, 0.2)
    result = measured(options, bags=bags, points=points, part=part)
    rows = [
        ["all", f"{bags:,}", result["error"], result["coverage"], f"{result['seconds']:.0f}"],
        [
            "a part",
            f"{result['kept']:,}",
            result["other error"],
            result["other coverage"],
            f"{result['other seconds']:.0f}",
        ],
    ]
    text = f"\n\nA part of the bags, through {points} points\n\n" + table(
        ["", "bags", "error", "coverage", "seconds"], rows
    )
    return (
        text
        + f"\n\nShare of rows where both agree within 1.96 standard deviations of the second: {result['within']:.3f}, {criterion_text(result['within'], low=0.95)}.\n"
    )


PARTS = {f.__name__: f for f in (matched, mediated, threads, refit)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--alone", type=json.loads, help=argparse.SUPPRESS)
    options = arguments(__doc__, (chosen(PARTS), parser))
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", UserWarning)
    if options.alone is not None:
        print(json.dumps(measure(options.alone)))
    else:
        run(PARTS, options, "downscaling_scale", 1, "Downscaling at scale; not published by anyone")
