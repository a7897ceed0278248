"""Rows of two-sample tests: the interval under the null hypothesis, and the witness function."""

from __future__ import annotations

import numpy as np
from calibration_measures import Intervals, Row, generator

import riesz
from riesz.kernels import RBF


def null_interval(seed):
    """The values of features of two samples with the same distribution, and their null intervals."""
    rng = generator(seed, "null interval")
    X, Z = rng.normal(size=(25, 3)), rng.normal(size=(25, 3))
    result = riesz.mmd_test(X, Z, n_permutations=399, random_state=seed % 2**31, n_jobs=1)
    Y = rng.normal(size=(25, 1))
    dependence = riesz.hsic_test(X, Y, n_permutations=399, random_state=seed % 2**31, n_jobs=1)
    ends = np.concatenate([result.null_interval, dependence.null_interval]).T
    values = np.concatenate([result.values, dependence.values])
    return {"values under the null hypothesis": Intervals(values, {0.95: (ends[0], ends[1])})}


def witness(seed):
    """The witness function of two normal samples, against its expectation, which has a closed form."""
    rng = generator(seed, "witness")
    X, Z = rng.normal(size=(40, 1)), rng.normal(0.5, 1.3, size=(50, 1))
    result = riesz.mmd_test(X, Z, kernel=RBF(1.0), n_permutations=19, random_state=0, n_jobs=1)
    function = result.witness(0)
    grid = np.asarray(function.grid, dtype=float)
    smoothed = lambda mean, variance: (
        np.exp(-0.5 * (grid - mean) ** 2 / (1 + variance)) / np.sqrt(1 + variance)
    )
    truth = smoothed(0.0, 1.0) - smoothed(0.5, 1.69)
    return {"witness function": Intervals.from_normal(truth, function.values, function.std_error)}


ROWS = [
    Row(
        "tests, null interval",
        "two samples of 25 rows with 3 normal columns; an independent target",
        "399 permutations",
        null_interval,
        {"values under the null hypothesis": ("KernelTestResult.null_interval", "mmd_test", "hsic_test")},
        n_short=60,
    ),
    Row(
        "tests, witness function",
        "normal samples of 40 and 50 rows",
        "mmd_test, Gaussian kernel",
        witness,
        {"witness function": ("Witness.std_error", "KernelTestResult.witness")},
        n_short=80,
    ),
]
