"""A scaling test of models of duels: many duels of many items with twenty columns, through landmarks; and
a check that the number of threads changes no bit of the result.

    python experiments/duels_scale.py [--full] [--explained 1000] [--threads 1 2] [--priors kept tuned]
    [--landmarks 250] [--draws 64]

The left item's log odds are x_0 - x'_0 + x_1 x'_2 - x_2 x'_1 of normal columns. Each measurement is a
process of its own with a given number of threads. It fits with a fixed prior (length scales 8, shares
2.25), or with a prior tuned by the evidence of 1,500 pairs that met (twenty length scales and two shares).
It predicts the log odds and standard deviations of 1,000 other pairs, and explains duels in the game
"paired" with 50 background items. Peak memory is that of the whole process. Wall time includes the effect
of other processes on this machine; CPU time is that of all threads of the process.

Full: 100,000 duels of 10,000 items instead of 10,000 of 1,000.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
import warnings

import numpy as np
from _figures import COLOURS, arguments, finish, panels, table
from sklearn.exceptions import ConvergenceWarning

import riesz
from riesz.kernels import RBF


def simulated(rng, count, number):
    """Items, pairs of items, and the true log odds that the left one wins."""
    x = rng.normal(size=(count, 20))
    left, right = rng.integers(count, size=(2, number))
    left, right = left[left != right], right[left != right]
    return (
        x,
        np.column_stack([left, right]),
        x[left, 0] - x[right, 0] + x[left, 1] * x[right, 2] - x[left, 2] * x[right, 1],
    )


def digest(*arrays):
    """A hash that is equal only for arrays with equal bits."""
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()[
        :12
    ]


def measured(options, tuned):
    """One fit and its explanations; runs in a process of its own."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    rng = np.random.default_rng(0)
    x, duels, log_odds = simulated(rng, *((10_000, 100_000) if options.full else (1000, 10_000)))
    won = (rng.random(len(duels)) < 1 / (1 + np.exp(-log_odds))).astype(float)
    other_items, other_pairs, truth = simulated(rng, 1000, 1000)
    start, work = time.perf_counter(), time.process_time()
    settings = {} if tuned else {"optimizer": None}
    kernel = RBF([8.0] * 20)
    model = riesz.PreferenceClassifier(
        kernel=kernel, n_landmarks=options.landmarks, n_samples=options.draws, random_state=0, **settings
    ).fit(x, duels, outcome=won)
    fit, work = time.perf_counter() - start, time.process_time() - work
    mean, sd = model.decision_function(*(other_items[side] for side in other_pairs.T), return_std=True)
    explained_pairs = duels[: options.explained]
    start, busy = time.perf_counter(), time.process_time()
    values = model.explain(x[explained_pairs[:, 0]], x[explained_pairs[:, 1]], x[:50], game="paired").values
    explain, busy = time.perf_counter() - start, time.process_time() - busy
    gap = np.abs(
        values.sum(axis=1) - model.decision_function(x[explained_pairs[:, 0]], x[explained_pairs[:, 1]])
    ).max()
    size = np.abs(values).mean(axis=0)
    return {
        "fit": fit,
        "work": work,
        "explain": explain,
        "busy": busy,
        "unknown": model.unexplained_variance_ratio_,
        "accuracy": float(((mean > 0) == (truth > 0)).mean()),
        "correlation": float(np.corrcoef(mean, truth)[0, 1]),
        "leading": np.argsort(size)[::-1][:3].tolist(),
        "size": size.tolist(),
        "gap": float(gap),
        "digest": digest(mean, sd, values),
    }


def in_a_process(options, tuned, threads):
    """The measurement in a process of its own, and the peak memory of the process in GiB."""
    command = [
        sys.executable,
        __file__,
        "--alone",
        "tuned" if tuned else "kept",
        "--output",
        str(options.output),
    ]
    for name in ("explained", "landmarks", "draws"):
        command += [f"--{name}", str(getattr(options, name))]
    environment = {**os.environ, "RAYON_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    child = subprocess.Popen(command + ["--full"] * options.full, env=environment, stdout=subprocess.PIPE)
    output = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        raise SystemExit(
            f"the process with {threads} threads ended with status {os.waitstatus_to_exitcode(status)}"
        )
    return json.loads(output), usage.ru_maxrss / 2**20


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--explained", type=int, default=20, help="number of duels to explain")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--priors", nargs="+", choices=["kept", "tuned"], default=["kept", "tuned"])
    parser.add_argument("--landmarks", type=int, default=250)
    parser.add_argument("--draws", type=int, default=64, help="of the posterior, for standard deviations")
    parser.add_argument("--alone", choices=["kept", "tuned"], help=argparse.SUPPRESS)
    options = arguments(__doc__, (parser,))
    if options.alone is not None:
        print(json.dumps(measured(options, options.alone == "tuned")))
        return
    figure, axes = panels(2)
    rows, text = [], ""
    for axis, tuned in zip(axes, [prior == "tuned" for prior in options.priors]):
        prior = "by the evidence" if tuned else "kept"
        digests = []
        for threads in options.threads:
            result, memory = in_a_process(options, tuned, threads)
            times = [
                f"{result[wall]:.1f} ({result[cpu]:.1f})"
                for wall, cpu in (("fit", "work"), ("explain", "busy"))
            ]
            cells = [prior, threads, *times, f"{memory:.2f}", result["accuracy"]]
            rows.append(
                [
                    *cells,
                    result["correlation"],
                    " ".join(map(str, result["leading"])),
                    f"{result['gap']:.0e}",
                    f"{result['unknown']:.2f}",
                ]
            )
            digests.append(result["digest"])
            print(rows[-1], flush=True)
        is_equal = len(set(digests)) == 1
        threads = " and ".join(map(str, options.threads))
        text += (
            f"\nPrior {prior}: log odds, standard deviations and values "
            f"{'are the same' if is_equal else 'DIFFER'} to the last bit with {threads} threads.\n"
        )
        axis.bar(range(20), result["size"], color=COLOURS[0])
        axis.set_xticks(range(0, 20, 5))
        axis.set_title(f"mean |value|, prior {prior}", fontsize=10)
        axis.set_xlabel("column")
    count, number = ("10,000", "100,000") if options.full else ("1,000", "10,000")
    header = [
        "prior",
        "threads",
        "fit, s (of cores)",
        "explain, s (of cores)",
        "memory, GiB",
        "accuracy",
        "correlation",
        "leading columns (truth: 0 1 2)",
    ]
    text = table([*header, "largest gap", "variance unknown"], rows) + "\n" + text
    title = (
        f"Scale: {number} duels of {count} items, 20 columns, {options.landmarks} landmarks, "
        f"{options.draws} draws; {options.explained} duels explained. "
    )
    title += (
        "Accuracy and correlation are those of log odds, with true ones, of 1,000 pairs of new items.\n\n"
    )
    finish(options, "duels_scale", figure, title + text)


if __name__ == "__main__":
    main()
